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

	"github.com/superstep-dev/superstep/internal/traceid"
	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/runlog"
)

// ErrCancelRequested is the cause of a context that ended because a user asked to cancel the run.
var ErrCancelRequested = errors.New("cancellation was requested")

// A Journal represents the hold of this process on one run. Through it, tasks write the log and find the effects they performed before a crash, and
// readers follow the run. Its methods may be called from several goroutines.
type Journal struct {
	store  runlog.Store
	log    runlog.Log
	id     string
	opt    Options
	course course
	info   runlog.Info // what changes of it is guarded by mu

	hub hub

	// read holds the records that were read to open the journal, from readFrom on. They are kept for their first reader, the code that continues the run.
	read     atomic.Pointer[[]runlog.Record]
	readFrom uint64

	append    sync.Mutex // one append at a time, so that followers see the log's order
	lost      error      // why nobody knows what the log holds, nil if that is known; guarded by append
	questions sync.Mutex // one question or answer at a time, so that each is there once
	leaves    bool       // see Quiet; guarded by questions

	mu    sync.Mutex
	queue []*appending // what waits for its append
	recovered
	listen map[chan struct{}]string // for the questions inside a path
	begun  map[string]timing        // of tasks that execute, by path
	firsts map[effect]time.Time     // when effects under way gave their first output
	seats  seats
	trace  *traceid.Context // of the run, nil if nobody has said
	tried  map[effect]int   // how often effects were performed; nil if they are not told their place in the trace

	cancels cancels
}

// Options are the settings of Open. Nil means the defaults.
type Options struct {
	Create *runlog.NewRun // make the run; one of status Importing is not listed until a batch gives it another status; defaults to none: it must exist
	Reopen bool           // with Create: go on with the run if it exists already
	// Quarantined acquires the run even if it is quarantined, see AcquireOptions.
	Quarantined bool
	Now         func() time.Time // stamps records; defaults to time.Now
	Renew       time.Duration    // how often Hold renews the lease and looks for a cancellation; defaults to 2 s
	// SnapshotAfter is the minimum amount of data between two snapshots, in bytes. The default is 16 KB.
	SnapshotAfter int
	// Budget changes the recorded budget of the run, see Budget.Over. The caller must record it with KindRunStarted or KindRunResumed. If nil, the budget
	// does not change.
	Budget *runlog.Budget
	// Agents is how many agents of the run may run at once. The default is DefaultAgents, or what
	// Widen says.
	Agents int
	// Alone says that the log is gone when the execution ends, so that a question fails with ErrNoLog.
	Alone bool
	// Failpoint, if non-nil, is called with the name of each point at which crash tests may end the process.
	Failpoint func(name string)

	script *script // makes the execution a replay
}

// Open acquires a run and reads its log from the last snapshot on. It returns the errors of Store.Acquire and Store.Read.
func Open(ctx context.Context, store runlog.Store, id string, opt *Options) (*Journal, error) {
	j := &Journal{store: store, id: id, course: live{}, listen: map[chan struct{}]string{}}
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
	j.sum.seed(&j.info)
	if err := j.recover(ctx); err != nil {
		return nil, errors.Join(err, j.log.Release(context.WithoutCancel(ctx)))
	}
	if j.opt.Budget != nil {
		j.ledger.over = *j.opt.Budget
		j.ledger.change(j.ledger.given)
	}
	return j, nil
}

// ID returns the ID of the run.
func (j *Journal) ID() string { return j.id }

// Trace sets the trace of the run for Traceparent, before the run executes. Parent is the traceparent of who started the run, "" for none. Effects are told
// their place in it if propagate is set.
func (j *Journal) Trace(parent string, propagate bool) {
	c := traceid.Of(j.id, parent)
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.trace = &c; propagate {
		j.tried = map[effect]int{}
	}
}

// Info describes the run as this journal has written it so far. Updated, Owner, Cancel and Takeovers keep the values they had when the journal was
// opened.
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
		started, err := runlog.Started(ctx, j.store, j.id)
		if err != nil {
			return err
		}
		if started == nil {
			started = &runlog.RunStarted{}
		}
		if j.noteOrigin(started); j.info.Snapshot > 2 {
			err = j.recoverSum(ctx)
		}
		if err != nil {
			return err
		}
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

// errUsed reports that another graph already uses the same part of the log. A run has one part for its own graph; a task must run each of its inner
// graphs under a different key.
var errUsed = errors.New("a graph was run there already")

// errEnded is errUsed for a run that has ended.
var errEnded = fmt.Errorf("%w to its end; open the journal again to be given that end", errUsed)

// Begin reserves for a graph the part of the log that belongs to the task at that path, "" for the run itself. For an inner graph, it returns the
// records needed to resume it, from its last KindInner on; the run's own records come from Since. No other graph may use the part until End is called,
// and none after a graph has ended there, except that an inner graph may be resumed to return its result once more.
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

// End releases a graph's part of the log, and records whether the graph was run to its end.
func (j *Journal) End(path string, ended bool) {
	j.mu.Lock()
	s := j.space(path)
	if s.held, s.ended = false, s.ended || ended; s.over {
		delete(j.spaces, path)
	}
	j.mu.Unlock()
}

// Listen returns a channel that receives a value after every answer to a question and every change of the budget.
func (j *Journal) Listen() (answered <-chan struct{}, stop func()) { return j.hear("") }

// hear is Listen for the questions of a scope and of all scopes inside it.
func (j *Journal) hear(path string) (answered <-chan struct{}, stop func()) {
	ch := make(chan struct{}, 1)
	j.mu.Lock()
	j.listen[ch] = path
	j.mu.Unlock()
	return ch, func() {
		j.mu.Lock()
		delete(j.listen, ch)
		j.mu.Unlock()
	}
}

// Asking returns the paths of all tasks that have an open question or lack budget, and of the tasks around them.
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

// Head returns the sequence number of the last stored record.
func (j *Journal) Head() uint64 {
	_, head := j.hub.position()
	return head
}

// Held renews the lease, and returns ErrFenced if another process holds the run.
func (j *Journal) Held(ctx context.Context) error {
	_, err := j.log.Renew(ctx)
	return err
}

// Cancelled renews the lease and reports whether a user asked to cancel the run.
func (j *Journal) Cancelled(ctx context.Context) bool {
	asked, err := j.log.Renew(ctx)
	return err == nil && asked
}

// Hold renews the run's lease until the returned context ends. It ends when the parent ends or stop is called, and with the cause ErrCancelRequested or
// ErrFenced when the run is cancelled or taken over. Stop waits for the renewing goroutine.
func (j *Journal) Hold(ctx context.Context) (held context.Context, stop func()) {
	return j.hold(ctx, false)
}

// HoldOn is Hold for what still runs once the run has been cancelled.
func (j *Journal) HoldOn(ctx context.Context) (held context.Context, stop func()) {
	return j.hold(ctx, true)
}

func (j *Journal) hold(ctx context.Context, on bool) (held context.Context, stop func()) {
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
			case err == nil && asked && !on:
				cancel(ErrCancelRequested)
			case err == nil:
				_ = j.Look(held) // the next time looks again
			}
			// Any other error is left to the next append: a lease is about speed, not safety.
		}
	}()
	return held, func() { cancel(nil); <-done }
}

// Finish records that the run has ended, with an output that encodes as JSON; nil means no output. It is for programs that run a graph in a journal
// without an engine; an engine finishes its runs itself. Finish does not change a run that has already ended.
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

// Close ends all followers of the journal and releases the run.
func (j *Journal) Close(ctx context.Context) error {
	j.hub.close()
	j.cancels.look.Lock()
	mailed := j.cancels.read > 0
	j.cancels.look.Unlock()
	var err error
	if mailed && j.Info().Status.Ended() {
		err = unlisted.DropRequests(ctx, j.store, j.id)
	}
	return errors.Join(err, j.log.Release(ctx))
}

func (j *Journal) fail(point string) {
	if j.opt.Failpoint != nil {
		j.opt.Failpoint(point)
	}
}
