package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/storekit"
)

// A verdict tells what an error of the server or the network means for the operation.
type verdict int

const (
	fine    verdict = iota
	away            // nobody knows what became of it, and the connection is of no use any more
	again           // it was not done, and may be tried again
	crowded         // the same, but the server has too little of something
	full            // it was not done, and the server says that it has no room
	final           // it was not done, and would not be done another time
)

func judge(err error) verdict {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		var lost *lostError
		var role *roleError
		var warned *warnedError
		switch {
		case err == nil:
			return fine
		case errors.Is(err, runlog.ErrStoreReset):
			return final
		case errors.As(err, &lost), errors.As(err, &role), errors.As(err, &warned):
			return away
		}
		return final
	}
	switch pg.Code {
	case "53100", "58030": // no room, or the disk gives errors
		return full
	case "53000", "53200", "53300", "53400": // memory, connections
		return crowded
	case "40001", "40P01", "55P03", "57014": // in each other's way; cancelled
		return again
	case "25006", "57P01", "57P02", "57P03", "57P05", "25P03", "57000":
		return away
	case "28000", "28P01", "3D000", "42501":
		return final
	}
	if strings.HasPrefix(pg.Code, "08") || pg.SeverityUnlocalized == "FATAL" || pg.SeverityUnlocalized == "PANIC" {
		return away
	}
	return final
}

// A lostError reports that there is no connection, or none any more.
type lostError struct{ err error }

func (e *lostError) Error() string { return e.err.Error() }
func (e *lostError) Unwrap() error { return e.err }

// maxReaders is how many connections there are beside that of the writer.
const maxReaders = 4

// A pool keeps connections for everything but appends.
type pool struct {
	dialer *dialer
	slots  chan struct{}

	mu   sync.Mutex
	idle []*conn
	shut bool
}

func (p *pool) get(ctx context.Context) (*conn, error) {
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return c, nil
	}
	p.mu.Unlock()
	return p.dialer.connect(ctx)
}

func (p *pool) put(c *conn) {
	p.mu.Lock()
	shut := p.shut || c.pg.IsClosed()
	if !shut {
		p.idle = append(p.idle, c)
	}
	p.mu.Unlock()
	if shut {
		c.close()
	}
}

// flush closes the unused connections.
func (p *pool) flush() {
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, c := range idle {
		c.close()
	}
}

// close waits for those who use connections.
func (p *pool) close() {
	p.mu.Lock()
	p.shut = true
	p.mu.Unlock()
	p.flush()
	for range cap(p.slots) {
		p.slots <- struct{}{}
	}
	p.flush()
}

// Names of operations on a store, for users.
const (
	reading = "reading"
	writing = "writing"
)

// with calls f with a connection, and repeats that while the server is away. f must be idempotent.
// If it writes, with makes sure of writes that succeeded while the connection was lost.
func (s *store) with(ctx context.Context, doing string, f func(ctx context.Context, c *conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case s.pool.slots <- struct{}{}:
		defer func() { <-s.pool.slots }()
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
		return s.closed(doing)
	}
	select {
	case <-s.closing:
		return s.closed(doing)
	default:
	}
	deadline := time.Now().Add(s.patience)
	doubt := false
	var pause storekit.Backoff
	for {
		sent, err := s.attempt(ctx, deadline, doubt, f)
		v := judge(err)
		doubt = doubt || sent && v == away && doing == writing
		switch {
		case v == fine:
			return nil
		case ctx.Err() != nil:
			return s.gaveUp(doing, doubt, ctx.Err())
		case v == full || v == crowded && time.Now().After(deadline):
			return s.gaveUp(doing, doubt, &runlog.StorageError{Store: s.name, Err: err})
		case v == final:
			return s.explain(doing, err)
		case time.Now().After(deadline):
			return s.gaveUp(doing, doubt, &runlog.StorageError{Store: s.name, Err: fmt.Errorf("the server has not answered for %s: %w", s.patience, err)})
		}
		if !pause.Wait(ctx, s.closing) && ctx.Err() == nil {
			return s.gaveUp(doing, doubt, storekit.ErrClosed)
		}
	}
}

// attempt calls f once. Sent is set once f was called.
func (s *store) attempt(ctx context.Context, deadline time.Time, doubt bool, f func(ctx context.Context, c *conn) error) (sent bool, err error) {
	limit := min(time.Until(deadline), s.patience/3)
	ctx, stop := context.WithTimeout(ctx, max(limit, 50*time.Millisecond))
	defer stop()
	c, err := s.pool.get(ctx)
	if err != nil {
		return false, err
	}
	err = f(ctx, c)
	if w := c.warning(); err == nil && (w != "" || doubt) {
		err = c.fence(ctx)
	}
	if err != nil && c.pg.IsClosed() {
		err = &lostError{err}
	}
	if judge(err) == away || c.pg.IsClosed() {
		c.close()
		s.pool.flush() // they are no better
		return true, err
	}
	s.pool.put(c)
	return true, err
}

// gaveUp returns the error of an operation that was not done, or may not have been.
func (s *store) gaveUp(doing string, doubt bool, err error) error {
	if doubt {
		return fmt.Errorf("writing store %s: %w: %w", s.name, runlog.ErrUnknown, err)
	}
	return s.explain(doing, err)
}

// explain names the store in an error. Errors that name it already, and complete errors of package
// runlog, stay as they are.
func (s *store) explain(doing string, err error) error {
	if err == nil || storekit.Explained(err) {
		return err
	}
	return fmt.Errorf("%s store %s: %w", doing, s.name, tidied(err))
}

// A connectError is an error of connecting, said in one line.
type connectError struct {
	said string
	err  error
}

func (e *connectError) Error() string { return e.said }
func (e *connectError) Unwrap() error { return e.err }

// tidied says an error of connecting in one line and each thing once: an address with
// several ways to it, with and without TLS, fails in each of them.
func tidied(err error) error {
	var connect *pgconn.ConnectError
	if !errors.As(err, &connect) {
		return err
	}
	var said []string
	for _, line := range strings.Split(err.Error(), "\n")[1:] {
		line = strings.TrimSpace(line)
		if _, why, ok := strings.Cut(line, "): "); ok {
			line = why
		}
		if !slices.Contains(said, line) {
			said = append(said, line)
		}
	}
	if more := slices.DeleteFunc(slices.Clone(said), func(s string) bool { return strings.Contains(s, "server refused TLS connection") }); len(more) > 0 {
		said = more
	}
	if len(said) == 0 {
		return err
	}
	msg := "cannot connect: " + strings.Join(said, "; ")
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg) && pg.Code == "3D000":
		msg += "; make it with createdb"
	case errors.As(err, &pg):
	default:
		msg += "; see that the server runs and that the address is right"
	}
	return &connectError{msg, err}
}
