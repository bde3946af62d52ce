// Package journal writes the log of one run and reads back what its tasks did before a crash: their effects, their
// questions and what they used of the budget.
package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/runlog"
)

// ErrCancelRequested is the cause of a context that ended because somebody asked for
// the run to be cancelled.
var ErrCancelRequested = errors.New("cancellation was requested")

// A Journal is the hold of this process on one run: the way its tasks write the log,
// find what they did before a crash, and are followed while they do it. Its methods
// may be called from several goroutines.
type Journal struct {
	store  runlog.Store
	log    runlog.Log
	id     string
	opt    Options
	course course
	info   runlog.Info // what changes of it is guarded by mu

	hub hub

	// read are the records that were read to open the journal, kept for the first
	// reader of them, which is who continues the run; they are those from readFrom on.
	read     atomic.Pointer[[]runlog.Record]
	readFrom uint64

	append    sync.Mutex // one append at a time, so that followers see the log's order
	lost      error      // why nobody knows what the log holds, nil if that is known; guarded by append
	questions sync.Mutex // one question or answer at a time, so that each is there once

	mu    sync.Mutex
	queue []*appending // what waits for its append
	recovered
	listen map[chan struct{}]bool
	begun  map[string]timing // of tasks that execute, by path
	seats  seats

	cancels cancels
}

// Options are the settings of Open. Nil means the defaults.
type Options struct {
	Create *runlog.NewRun // make the run; one of status Importing is not listed until a batch gives it another status; defaults to none: it must exist
	Reopen bool           // with Create: go on with the run if it exists already
	// Quarantined takes the run even if it is quarantined, see AcquireOptions.
	Quarantined bool
	Now         func() time.Time // stamps records; defaults to time.Now
	Renew       time.Duration    // how often Hold renews the lease and looks for a cancellation; defaults to 2 s
	// SnapshotAfter is the least that is written between two snapshots, in bytes of data;
	// defaults to 16 KB.
	SnapshotAfter int
	// Budget changes what the log says the run may use, see Budget.Over. The log learns this from
	// the writer of KindRunStarted and KindRunResumed. Defaults to no change.
	Budget *runlog.Budget
	// Agents is how many agents of the run work at once; defaults to DefaultAgents.
	Agents int
	// Failpoint is called with the name of each point at which a crash is interesting.
	// It is there for crash tests; defaults to nothing.
	Failpoint func(name string)

	script *script // makes the execution a replay
}

// Open acquires a run and reads what it needs of its log, from the last
// snapshot on. The errors are those of Store.Acquire and Store.Read.
func Open(ctx context.Context, store runlog.Store, id string, opt *Options) (*Journal, error) {
	j := &Journal{store: store, id: id, course: live{}, listen: map[chan struct{}]bool{}}
	if opt != nil {
		j.opt = *opt
	}
	if j.opt.script != nil {
		j.course = j.opt.script
	}
	if j.opt.Now == nil {
		j.opt.Now = time.Now
	}
	if j.opt.Renew <= 0 {
		j.opt.Renew = 2 * time.Second
	}
	if j.opt.SnapshotAfter <= 0 {
		j.opt.SnapshotAfter = 16 << 10
	}
	var err error
	if c := j.opt.Create; c != nil && c.Status == runlog.Importing {
		j.log, j.info, err = unlisted.Create(ctx, store, id, *c)
	} else {
		j.log, j.info, err = store.Acquire(ctx, id, &runlog.AcquireOptions{Create: c, Quarantined: j.opt.Quarantined})
	}
	if errors.Is(err, runlog.ErrExists) && j.opt.Reopen {
		j.log, j.info, err = store.Acquire(ctx, id, &runlog.AcquireOptions{Quarantined: j.opt.Quarantined})
	}
	if errors.Is(err, runlog.ErrExists) {
		return nil, fmt.Errorf("%w; set Reopen to go on with it", err)
	}
	if err != nil {
		return nil, err
	}
	j.hub.head, j.head = j.info.Head, j.info.Head
	if err := j.recover(ctx); err != nil {
		return nil, errors.Join(err, j.log.Release(context.WithoutCancel(ctx)))
	}
	if j.opt.Budget != nil {
		j.ledger.over = *j.opt.Budget
		j.ledger.change(j.ledger.given)
	}
	return j, nil
}

// ID is the run's.
func (j *Journal) ID() string { return j.id }

// Info returns the run as this journal has written it by now. Updated, Owner, Cancel and
// Takeovers are as of its opening.
func (j *Journal) Info() runlog.Info {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.info
}

func (j *Journal) recover(ctx context.Context) error {
	var read []runlog.Record
	if j.info.Head == 0 {
		j.read.Store(&read)
		return nil // a new run has nothing to read
	}
	if j.info.Snapshot > 1 {
		im, err := runlog.Origin(ctx, j.store, j.id)
		if err != nil {
			return err
		}
		j.noteOrigin(im)
	}
	j.readFrom = j.info.Snapshot
	for r, err := range runlog.Records(ctx, j.store, j.id, j.readFrom) {
		if err != nil {
			return err
		}
		if err := j.note(&r); err != nil {
			return err
		}
		read = append(read, r)
	}
	j.read.Store(&read)
	return nil
}

// Since reads the stored records from a sequence number on (0 is the first).
func (j *Journal) Since(ctx context.Context, seq uint64) iter.Seq2[runlog.Record, error] {
	return func(yield func(runlog.Record, error) bool) {
		if seq == j.readFrom {
			if read := j.read.Swap(nil); read != nil {
				for _, r := range *read {
					if !yield(r, nil) {
						return
					}
					seq = r.Seq + 1
				}
			}
		}
		for r, err := range runlog.Records(ctx, j.store, j.id, seq) {
			if !yield(r, err) {
				return
			}
		}
	}
}

// errUsed says that a graph is run in a place of the log that is taken: the run's own, or
// that of a task, which runs its inner graphs under one key each.
var errUsed = errors.New("a graph was run there already")

// errEnded is errUsed for a run that is over.
var errEnded = fmt.Errorf("%w to its end; open the journal again to be given that end", errUsed)

// Begin lets a graph use the part of the log that belongs to the task of that path, ""
// for the run itself, and gives what it needs of it to go on: of an inner graph the
// records from its last KindInner on; those of the run are had from Since. Until End is
// called no other graph may use it, and none after one has ended there, except that an
// inner graph may be resumed to give its end once more.
func (j *Journal) Begin(path string) ([]runlog.Record, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.space(path)
	if s.held || s.ended && path == "" {
		at := "run " + j.id
		if path != "" {
			at += ": " + path
		}
		if !s.held {
			return nil, fmt.Errorf("%s: %w", at, errEnded)
		}
		return nil, fmt.Errorf("%s: %w", at, errUsed)
	}
	s.held = true
	j.nested = j.nested || path != ""
	return slices.Clone(s.recs), nil
}

// End records that a graph does not use its part of the log any more, and whether it was
// run to its end.
func (j *Journal) End(path string, ended bool) {
	j.mu.Lock()
	s := j.space(path)
	if s.held, s.ended = false, s.ended || ended; s.over {
		delete(j.spaces, path)
	}
	j.mu.Unlock()
}

// Listen returns a channel that receives something after every answer to a question, and after every change of the budget.
func (j *Journal) Listen() (answered <-chan struct{}, stop func()) {
	ch := make(chan struct{}, 1)
	j.mu.Lock()
	j.listen[ch] = true
	j.mu.Unlock()
	return ch, func() {
		j.mu.Lock()
		delete(j.listen, ch)
		j.mu.Unlock()
	}
}

// Asking are the paths of the tasks that have asked something that nobody has answered,
// or lack budget, and of those that they lie within.
func (j *Journal) Asking() map[string]bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := map[string]bool{}
	for path, m := range j.scopes {
		if !j.waits(m) {
			continue
		}
		out[path] = true
		for i := range len(path) {
			if path[i] == '/' {
				out[path[:i]] = true
			}
		}
	}
	return out
}

// waits reports whether a scope has an open question or lacks budget. The caller holds mu.
func (j *Journal) waits(m *memory) bool {
	for key := range m.asked {
		if _, ok := m.answers[key]; !ok {
			return true
		}
	}
	return len(m.short) > 0 && j.lacks(m) != nil
}

// Head is the sequence number of the last record that was stored.
func (j *Journal) Head() uint64 {
	_, head := j.hub.position()
	return head
}

// Cancelled renews the lease and reports whether somebody asked for the run to be
// cancelled.
func (j *Journal) Cancelled(ctx context.Context) bool {
	asked, err := j.log.Renew(ctx)
	return err == nil && asked
}

// Hold keeps the run's lease until the context it returns has ended, which happens
// when the parent ends or stop is called, and with the cause ErrCancelRequested or
// ErrFenced when it must. Stop waits for the goroutine behind it.
func (j *Journal) Hold(ctx context.Context) (held context.Context, stop func()) {
	held, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		t := time.NewTicker(j.opt.Renew)
		defer t.Stop()
		for {
			select {
			case <-held.Done():
				return
			case <-t.C:
			}
			asked, err := j.log.Renew(held)
			switch {
			case errors.Is(err, runlog.ErrFenced):
				cancel(err)
			case err == nil && asked:
				cancel(ErrCancelRequested)
			case err == nil:
				_ = j.Look(held) // the next time looks again
			}
			// Any other error is left to the next append: a lease is about speed, not safety.
		}
	}()
	return held, func() { cancel(nil); <-done }
}

// Finish records that the run has ended, with an output that encodes as JSON, nil for none. It is
// for programs that run a graph in a journal by themselves; an engine does it for its runs.
// A run that is over already stays as it is.
func (j *Journal) Finish(ctx context.Context, output any) error {
	if j.Info().Status.Ended() {
		return nil
	}
	b, err := json.Marshal(output)
	if err != nil {
		return fmt.Errorf("encoding the output of run %s: %w", j.id, err)
	}
	if output == nil {
		b = nil
	}
	return j.Write(ctx, runlog.Completed, runlog.KindRunFinished, "", runlog.RunFinished{Output: b})
}

// Close ends what follows the journal and gives the run up.
func (j *Journal) Close(ctx context.Context) error {
	j.hub.close()
	var err error
	if j.cancels.read > 0 && j.Info().Status.Ended() {
		err = unlisted.DropRequests(ctx, j.store, j.id)
	}
	return errors.Join(err, j.log.Release(ctx))
}

func (j *Journal) fail(point string) {
	if j.opt.Failpoint != nil {
		j.opt.Failpoint(point)
	}
}
