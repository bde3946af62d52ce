package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/storekit"
)

// A fault is the kind of a client error.
type fault int

const (
	faultOther   fault = iota // an answer: nothing was done, and nothing will be
	faultNotSent              // there was no connection
	faultUnclear              // the connection was lost, or the answer did not come
	faultWait                 // an answer: not now, nothing was done
	faultFull                 // an answer: the server takes no writes, nothing was done
)

// faultOf classifies a non-nil error.
func faultOf(err error) fault {
	if errors.Is(err, runlog.ErrStoreReset) {
		return faultOther
	}
	reply := redigo.Error("")
	if !errors.As(err, &reply) {
		if errors.As(err, new(*dialError)) {
			return faultNotSent
		}
		return faultUnclear
	}
	code, _, _ := strings.Cut(string(reply), " ")
	switch {
	case slices.Contains([]string{"LOADING", "BUSY", "TRYAGAIN", "EXECABORT", "CLUSTERDOWN", "MASTERDOWN"}, code),
		strings.HasPrefix(string(reply), "ERR max number of clients"):
		return faultWait
	case slices.Contains([]string{"OOM", "MISCONF", "READONLY", "NOREPLICAS"}, code):
		return faultFull
	}
	return faultOther
}

// explain adds the store's name, and the remedy if known, to an error of the client.
func (s *store) explain(doing string, err error) error {
	if lost := s.sound(); lost != nil {
		return lost
	}
	if err == nil || errors.Is(err, storekit.ErrClosed) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	said := err.Error()
	code, _, _ := strings.Cut(said, " ")
	if reply := redigo.Error(""); errors.As(err, &reply) {
		code, _, _ = strings.Cut(string(reply), " ")
	}
	switch {
	case code == "MOVED":
		where := said[strings.LastIndexByte(said, ' ')+1:]
		return fmt.Errorf("%s store %s: its keys are on another node of the cluster; use the address of %s (%w)", doing, s.name, where, err)
	case slices.Contains([]string{"NOAUTH", "WRONGPASS"}, code):
		return fmt.Errorf("%s store %s: the server refuses the user or the password; check the address (%w)", doing, s.name, err)
	case code == "NOPERM":
		return fmt.Errorf("%s store %s: the user may not do that; allow it EVAL, EVALSHA, the commands of strings, hashes and sorted sets, TIME, "+
			"INFO and UNLINK, and the keys %s* (%w)", doing, s.name, s.keys.base, err)
	}
	switch faultOf(err) {
	case faultNotSent, faultUnclear:
		return fmt.Errorf("%s store %s: the server cannot be reached; check that it runs (%w)", doing, s.name, err)
	case faultFull:
		return s.full(said)
	}
	return fmt.Errorf("%s store %s: %w", doing, s.name, err)
}

// full returns the error for a server that refuses writes.
func (s *store) full(said string) error {
	code, _, _ := strings.Cut(said, " ")
	err := errors.New(said)
	switch code {
	case "OOM":
		err = fmt.Errorf("%w: it has reached its maxmemory (%s)", syscall.ENOMEM, said)
	case "MISCONF":
		err = fmt.Errorf("%w: it cannot write its disk (%s)", syscall.ENOSPC, said)
	case "READONLY":
		err = fmt.Errorf("it is a replica now; use the address of the primary (%s)", said)
	}
	return &runlog.StorageError{Store: s.name, Err: err}
}

// A resetError reports that the store has lost its state or was replaced.
type resetError struct {
	store, what, remedy string
}

func (e *resetError) Error() string {
	return fmt.Sprintf("store %s: %v: %s; %s", e.store, runlog.ErrStoreReset, e.what, e.remedy)
}

func (e *resetError) Unwrap() error { return runlog.ErrStoreReset }

// resetBy returns why the store was reset, from the answer of a script.
func (s *store) resetBy(r []any) *resetError {
	e := &resetError{store: s.name, remedy: "restore it, or open it anew to go on with what there is"}
	switch verdict := text(r, 0); verdict {
	case "gone":
		e.what = "it was emptied"
	case "other":
		e.what = "it was emptied or replaced, and holds another store now"
	case "back":
		e.what = fmt.Sprintf("it is back at write %s, though later ones were acknowledged", text(r, 1))
	default:
		e.what = "it gave the answer " + verdict
	}
	if s.marker != nil {
		e.remedy = fmt.Sprintf("restore it; or, to go on with what there is now, remove the marker file %s or open the store with Accept", s.marker.path)
	}
	return e
}

// forget marks this Store as unusable, since the data it knew are gone.
func (s *store) forget(r []any) error {
	s.lost.CompareAndSwap(nil, s.resetBy(r))
	return s.lost.Load()
}

// sound returns why the store cannot be used, if it cannot.
func (s *store) sound() error {
	e := s.lost.Load()
	if e == nil {
		return nil // not a nil *resetError
	}
	return e
}

// missing returns the error for a run whose key is not there, by what a script said of it.
func (s *store) missing(id, verdict string) error {
	if verdict == "lost" {
		return &resetError{store: s.name, what: "run " + id + " is listed, but its keys are gone",
			remedy: "look for what else deletes or evicts keys there, then delete the run"}
	}
	return &runlog.NotFoundError{ID: id, Store: s.name}
}

// patiently calls f, which changes nothing or the same each time, until the server has answered it.
func (s *store) patiently(ctx context.Context, doing string, f func() error) error {
	end := time.Now().Add(s.patience)
	for p := (storekit.Backoff{}); ; p.Wait(ctx, s.closing) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if s.isClosing() {
			return s.closedError()
		}
		err := f()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if kind := faultOf(err); kind == faultOther || kind == faultFull || time.Now().After(end) {
			return s.explain(doing, err)
		}
	}
}

func (s *store) isClosing() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}
