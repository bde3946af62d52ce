package superstep

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/runlog"
)

// RecoverOptions are the settings of Recover and Serve. Nil means the defaults.
type RecoverOptions struct {
	Runs    int                                           // executed by the engine at once, before it takes up no more; defaults to 32
	Every   time.Duration                                 // of Serve: between two looks; defaults to 5 s
	Answer  Answering                                     // see StartOptions; defaults to leaving every question open
	Observe func(id string, rec runlog.Record, err error) // see StartOptions, of every run that is resumed; defaults to nothing
	Taken   func(id string)                               // called for each run that is resumed; defaults to nothing
	// called once for each run that this engine cannot execute: its workflow is unknown here or has another version, or the run was imported and is not
	// trusted; may be nil
	Skipped func(id string, why error)
	Ended   func(id string, out Outcome) // called once for each run when its execution ends; defaults to nothing
	Failed  func(id string, err error)   // why a run could not be resumed, or, with "", runs could not be looked for; defaults to nothing
}

// Recover resumes the unfinished runs that no process executes: interrupted runs, whose process
// crashed or was stopped, and runs that wait for storage. It skips runs of workflows that the
// engine does not have or has in another version, imported runs that are not trusted, paused runs,
// which need a person, and quarantined ones. A run that could not continue, for lack of storage or
// because of a store error, is skipped for a while, longer each time. Several processes may recover
// the runs of one store at once: each run is resumed by one of them. It returns the runs it has
// resumed, which execute until they end or ctx does.
func (e *Engine) Recover(ctx context.Context, opt *RecoverOptions) ([]*Run, error) {
	o := opt.settled()
	e.sweep(ctx)
	left, err := e.store.Runs(ctx, &runlog.Filter{Status: []runlog.Status{runlog.Interrupted, runlog.WaitingStorage}})
	if err != nil {
		return nil, err
	}
	// The runs are ordered by age, starting at a random one, so that concurrent processes begin
	// with different runs.
	slices.Reverse(left)
	if n := len(left); n > 0 {
		at := rand.IntN(n)
		left = append(left[at:len(left):len(left)], left[:at]...)
	}
	var taken []*Run
	for i := range left {
		if err := ctx.Err(); err != nil {
			return taken, nil // what was resumed ends with ctx, by itself
		}
		if e.busy(o.Runs) {
			break
		}
		info := &left[i]
		if e.waits(info.ID) {
			continue
		}
		if err := e.has(ctx, info); err != nil {
			e.pass(info.ID, err, &o)
			continue
		}
		ro := &ResumeOptions{Answer: o.Answer, recovers: true, ended: func(out *Outcome) { e.ended(ctx, info.ID, out, &o) }}
		if o.Observe != nil {
			ro.Observe = func(rec runlog.Record, err error) { o.Observe(info.ID, rec, err) }
		}
		r, err := e.Resume(ctx, info.ID, ro)
		switch {
		case err == nil:
			taken = append(taken, r)
			o.Taken(info.ID)
		case errors.As(err, new(*runlog.BusyError)), errors.As(err, new(*runlog.EndedError)), errors.As(err, new(*runlog.NotFoundError)),
			errors.As(err, new(*runlog.QuarantinedError)):
			// somebody else was first
		case ctx.Err() != nil:
			return taken, nil
		case errors.Is(err, ErrClosed):
			return taken, err
		default:
			e.putOff(info.ID, &o)
			o.Failed(info.ID, err)
		}
	}
	return taken, nil
}

// has returns an error if a run cannot be executed here.
func (e *Engine) has(ctx context.Context, info *runlog.Info) error {
	if info.Head == 0 {
		return unbegun(info.ID)
	}
	if im, err := runlog.Origin(ctx, e.store, info.ID); err == nil { // else taking it up will tell
		if err := e.trusts(info.ID, im); err != nil {
			return err
		}
	}
	_, err := e.Workflows().Find(info.Workflow)
	if err == nil || e.opt.Restore == nil {
		return err
	}
	started, serr := e.started(ctx, info.ID)
	if serr != nil || started.Pinned == nil {
		return err
	}
	_, err = e.opt.Restore(started.Workflow, started.Pinned)
	return err
}

// later notes when to retry a run that could not continue.
type later struct {
	never bool // the engine is of no use to it
	told  bool // that it is not trusted
	until time.Time
	pause time.Duration
}

// maxPause is the longest that a run waits between two attempts to recover it.
const maxPause = time.Hour

// waits reports whether a run must not be tried yet.
func (e *Engine) waits(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.later[id]
	return l.never || e.opt.Now().Before(l.until)
}

// pass skips a run: permanently, unless a user may trust it later.
func (e *Engine) pass(id string, why error, o *RecoverOptions) {
	untrusted := errors.As(why, new(*UntrustedError))
	if was := e.setLater(id, later{never: !untrusted, told: untrusted}); !was.told || !untrusted {
		o.Skipped(id, why)
	}
}

// putOff skips a run, each time for twice as long: the run lost its work since the last result, and would lose it again if nothing has changed.
func (e *Engine) putOff(id string, o *RecoverOptions) {
	e.mu.Lock()
	pause := min(max(2*e.later[id].pause, 6*o.Every), maxPause)
	e.mu.Unlock()
	_ = e.setLater(id, later{until: e.opt.Now().Add(pause), pause: pause})
}

// setLater returns what it replaces.
func (e *Engine) setLater(id string, l later) (was later) {
	e.mu.Lock()
	defer e.mu.Unlock()
	was, e.later[id] = e.later[id], l
	return was
}

// ended notes how a recovered run ended.
func (e *Engine) ended(ctx context.Context, id string, out *Outcome, o *RecoverOptions) {
	switch {
	case errors.As(out.Err, new(*graph.ChangedError)):
		e.pass(id, out.Err, o)
	case (out.Status == runlog.Interrupted || out.Status == runlog.WaitingStorage) && ctx.Err() == nil:
		e.putOff(id, o)
	default:
		e.mu.Lock()
		delete(e.later, id)
		e.mu.Unlock()
	}
	o.Ended(id, *out)
}

// Serve recovers runs again and again until ctx ends, and then waits for those it has resumed, which end with ctx too. A worker calls it.
func (e *Engine) Serve(ctx context.Context, opt *RecoverOptions) error {
	o := opt.settled()
	e.serving.Store(true)
	defer e.serving.Store(false)
	var mine []*Run
	defer func() {
		for _, r := range mine {
			<-r.done
		}
	}()
	for {
		taken, err := e.Recover(ctx, &o)
		mine = append(slices.DeleteFunc(mine, (*Run).over), taken...)
		switch {
		case errors.Is(err, ErrClosed):
			return err
		case err != nil && ctx.Err() == nil:
			o.Failed("", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(o.Every):
		}
	}
}

func (opt *RecoverOptions) settled() RecoverOptions {
	var o RecoverOptions
	if opt != nil {
		o = *opt
	}
	if o.Runs <= 0 {
		o.Runs = 32
	}
	if o.Every <= 0 {
		o.Every = 5 * time.Second
	}
	if o.Skipped == nil {
		o.Skipped = func(string, error) {}
	}
	if o.Taken == nil {
		o.Taken = func(string) {}
	}
	if o.Ended == nil {
		o.Ended = func(string, Outcome) {}
	}
	if o.Failed == nil {
		o.Failed = func(string, error) {}
	}
	return o
}

// busy reports whether the engine executes that many runs or more.
func (e *Engine) busy(runs int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, r := range e.runs {
		if !r.idle.Load() { // else it only waits for its children, which need the room
			n++
		}
	}
	return n >= runs
}

func (r *Run) over() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}
