package superstep

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/internal/waitlist"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// RecoverOptions are the settings of Recover and Serve. Nil means the defaults.
type RecoverOptions struct {
	Runs    int                                           // executed by the engine at once, before it takes up no more; defaults to 32
	Place   []string                                      // the labels of this worker; it takes only queued runs that need no other
	Every   time.Duration                                 // of Serve: between two looks for interrupted runs; defaults to 3 s
	Grace   time.Duration                                 // of Serve: how long running tasks may go on once ctx has ended; defaults to 0
	Answer  Answering                                     // see StartOptions; defaults to leaving every question open
	Observe func(id string, rec runlog.Record, err error) // see StartOptions, of every run that is resumed; defaults to nothing
	Taken   func(id string)                               // called for each run that is taken from the queue or resumed; defaults to nothing
	// called once for each run that this engine cannot execute: its workflow is unknown here or has another version, or the run was imported and is not
	// trusted; may be nil
	Skipped func(id string, why error)
	Ended   func(id string, out Outcome) // called once for each run when its execution ends; defaults to nothing
	Failed  func(id string, err error)   // why a run could not be resumed, or, with "", runs and schedules could not be looked for; defaults to nothing
	// Scheduled is called for each run that a tick of a schedule has created here; defaults to nothing.
	Scheduled func(schedule, run string)
}

// Recover carries out the schedules that are due, see Schedule, and takes the runs that no process executes: interrupted runs, whose process crashed or was
// stopped, runs that wait for storage, and queued runs. Interrupted ones come first, then those of
// higher priority. Of one priority, workflows take turns, as do the keys of runs that have one, and
// within these the oldest run is first. It takes no queued run before its time, none that needs a
// place that this worker is not, and none of a key of which as many execute as its limit allows.
//
// It skips runs of workflows that the
// engine does not have or has in another version, imported runs that are not trusted, paused runs,
// which need a person, and quarantined ones. A run that could not continue, for lack of storage or
// because of a store error, is skipped for a while, longer each time. Several processes may recover
// the runs of one store at once: each run is resumed by one of them. It returns the runs it has
// resumed, which execute until they end or ctx does. Listings tell why it has not taken others, until the next worker starts.
func (e *Engine) Recover(ctx context.Context, opt *RecoverOptions) ([]*Run, error) {
	o := opt.settled()
	e.sweep(ctx)
	if _, err := e.tick(ctx, &o); err != nil {
		return nil, err
	}
	e.taking.Lock()
	defer e.taking.Unlock()
	e.list.Place = o.Place
	if err := e.lookAll(ctx); err != nil {
		return nil, err
	}
	taken, err := e.take(ctx, ctx, &o, time.Time{})
	if w := e.describe(o.Place); len(w.Skips) > 0 {
		w.Left = true
		if p, err := unlisted.Announce(ctx, e.store, w); err == nil { // else listings tell less
			_ = p.Stay(ctx)
		}
	}
	return taken, err
}

// describe returns what listings know of this worker.
func (e *Engine) describe(place []string) *unlisted.Worker {
	e.mu.Lock()
	defer e.mu.Unlock()
	return &unlisted.Worker{Place: place, Skips: maps.Clone(e.skips)}
}

// lookAll lists all runs that wait for a worker. The caller holds taking.
func (e *Engine) lookAll(ctx context.Context) error {
	left, err := e.store.Runs(ctx, &runlog.Filter{Status: []runlog.Status{runlog.Queued, runlog.Interrupted, runlog.WaitingStorage}})
	if err != nil {
		return err
	}
	e.list.Reset()
	e.note(left)
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.skips, func(what, _ string) bool { // of runs that have ended elsewhere
		return strings.HasPrefix(what, unlisted.SkippedRun("")) && !slices.ContainsFunc(left, func(i runlog.Info) bool { return unlisted.SkippedRun(i.ID) == what })
	})
	return nil
}

// note adds listed runs, the newest first. It returns how many of them were not known.
func (e *Engine) note(infos []runlog.Info) (fresh int) {
	for i := range slices.Backward(infos) {
		if !e.waits(infos[i].ID) && e.list.Add(&infos[i]) {
			fresh++
		}
	}
	return fresh
}

// take takes runs until the engine is busy, none is left, or it is time to look again, unless that is zero: short runs end as fast as they are taken. They
// execute until they end or within does. The caller holds taking.
func (e *Engine) take(ctx, within context.Context, o *RecoverOptions, until time.Time) (taken []*Run, err error) {
	for ctx.Err() == nil && !e.busy(o.Runs) && (until.IsZero() || time.Now().Before(until)) {
		w := e.list.Next(e.opt.Now(), rand.IntN)
		if w == nil {
			break
		}
		r, err := e.takeOne(ctx, within, w, o)
		if err != nil {
			return taken, err
		}
		if r != nil {
			taken = append(taken, r)
			o.Taken(r.id)
		}
	}
	return taken, nil // if ctx has ended, what was resumed ends by itself
}

// takeOne takes a run, and returns nil if it cannot be taken now. The error is ErrClosed.
func (e *Engine) takeOne(ctx, within context.Context, w *waitlist.Run, o *RecoverOptions) (*Run, error) {
	id := w.Info.ID
	if err := e.has(ctx, &w.Info); errors.As(err, new(*unreadError)) {
		e.putOff(id, o)
		o.Failed(id, err)
		return nil, nil
	} else if err != nil {
		e.pass(id, err, o)
		switch {
		case errors.As(err, new(*UntrustedError)):
		case errors.As(err, new(*workflow.UnknownError)):
			e.skip(w.Info.Workflow, err.Error())
		default:
			why := err
			if refused := (*RefusedError)(nil); errors.As(err, &refused) {
				why = refused.Err
			}
			e.skip(unlisted.SkippedRun(id), why.Error())
		}
		return nil, nil
	}
	if w.Queue.Key != "" {
		switch full, err := e.full(ctx, id, &w.Queue); {
		case err != nil:
			o.Failed("", err)
			return nil, nil // the next look finds it again
		case full:
			e.list.Block(w, e.opt.Now().Add(lookEvery))
			return nil, nil
		}
	}
	ro := &ResumeOptions{Answer: o.Answer, recovers: true, ended: func(out *Outcome) { e.ended(ctx, id, out, o) }}
	if o.Observe != nil {
		ro.Observe = func(rec runlog.Record, err error) { o.Observe(id, rec, err) }
	}
	r, err := e.Resume(within, id, ro)
	switch {
	case err == nil:
		e.list.Won()
		e.skip(w.Info.Workflow, "")
		return r, nil
	case errors.Is(err, errFull):
		e.list.Block(w, e.opt.Now().Add(lookEvery/4+rand.N(lookEvery)))
	case errors.As(err, new(*runlog.BusyError)), errors.As(err, new(*runlog.EndedError)), errors.As(err, new(*runlog.NotFoundError)),
		errors.As(err, new(*runlog.QuarantinedError)), errors.Is(err, errTaken), errors.Is(err, runlog.ErrFenced):
		e.list.Lost(id) // another process was first
	case ctx.Err() != nil:
	case errors.Is(err, ErrClosed):
		return nil, err
	default:
		e.putOff(id, o)
		o.Failed(id, err)
	}
	return nil, nil
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
	if err := e.accepts(ctx, info.ID); err != nil {
		return err
	}
	_, err := e.Workflows().Find(info.Workflow)
	if err == nil || e.opt.Restore == nil {
		return err
	}
	started, serr := e.started(ctx, info.ID)
	if serr != nil {
		return &unreadError{serr}
	}
	if started.Pinned == nil {
		return err
	}
	_, err = e.opt.Restore(started.Workflow, started.Pinned)
	return err
}

// An unreadError reports that it is not known whether a run can be executed here.
type unreadError struct{ error }

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

// announceEvery is how often a worker extends its hold on its description.
const announceEvery = 5 * time.Second

// announce describes this worker in the store until ctx ends, so that listings can tell which runs no worker takes. An error is met by the next look.
func (e *Engine) announce(ctx context.Context, place []string) {
	var p *unlisted.Presence
	for ctx.Err() == nil {
		w := e.describe(place)
		if p == nil {
			p, _ = unlisted.Announce(ctx, e.store, w)
		} else if p.Renew(ctx, w) != nil && ctx.Err() == nil {
			p = nil // it was suspended, and another worker has removed the description
		}
		select {
		case <-ctx.Done():
		case <-e.skipped:
		case <-time.After(announceEvery):
		}
	}
	if p != nil {
		_ = p.Leave(context.WithoutCancel(ctx)) // or the next worker removes it
	}
}

// skip notes why this worker cannot execute a run or those of a workflow, see unlisted.Worker, "" if it can.
func (e *Engine) skip(what, why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.skips[what] == why {
		return
	}
	if e.skips[what] = why; why == "" {
		delete(e.skips, what)
	}
	select {
	case e.skipped <- struct{}{}:
	default:
	}
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
		e.skip(unlisted.SkippedRun(id), out.Err.Error())
	case (out.Status == runlog.Interrupted || out.Status == runlog.WaitingStorage) && ctx.Err() == nil:
		e.putOff(id, o)
	default:
		e.mu.Lock()
		delete(e.later, id)
		e.mu.Unlock()
	}
	select {
	case e.freed <- struct{}{}:
	default:
	}
	o.Ended(id, *out)
}

// lookEvery is how often a worker that could take a run looks for new ones, unless its store reports them. With what it asks for schedules, interrupted
// runs and its own description, an idle worker makes five queries a second at most.
const lookEvery = 240 * time.Millisecond

// Serve takes runs as Recover does until ctx ends. A worker calls it. Then it waits for those it has taken: what is running in them may go on for the
// grace period, and what has not ended then can be resumed by another worker.
func (e *Engine) Serve(ctx context.Context, opt *RecoverOptions) error {
	o := opt.settled()
	e.serving.Store(true)
	defer e.serving.Store(false)
	within, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	var mine []*Run
	defer func() {
		for _, r := range mine {
			r.rest()
		}
		timer := time.AfterFunc(o.Grace, func() { stop(context.Cause(ctx)) })
		defer timer.Stop()
		for _, r := range mine {
			<-r.done
		}
		stop(nil)
	}()
	ticking, stopTicks := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { e.serveSchedules(ticking, &o) })
	defer beside.Wait()
	defer stopTicks()
	beside.Go(func() { e.serveSweeps(ticking) })
	beside.Go(func() { e.announce(ticking, o.Place) })
	news, every := e.news(ctx)
	tick := time.NewTicker(every)
	defer tick.Stop()
	var all, old time.Time // when to list all queued runs, and the interrupted ones
	for {
		taken, soonest, err := e.serveOnce(ctx, within, &o, &all, &old)
		mine = append(slices.DeleteFunc(mine, (*Run).over), taken...)
		for _, r := range mine {
			r.release(e.opt.Now())
		}
		switch {
		case errors.Is(err, ErrClosed):
			return err
		case err != nil && ctx.Err() == nil:
			o.Failed("", err)
		}
		var due <-chan time.Time
		if err == nil && !soonest.IsZero() && !e.busy(o.Runs) {
			due = time.After(max(soonest.Sub(e.opt.Now()), time.Millisecond))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-news:
		case <-e.freed:
		case <-due:
		}
	}
}

const (
	releaseFor   = 30 * time.Second // what a run must have to wait at least for a worker to release it
	releaseAfter = 5 * time.Second  // for how long it must have waited
)

// release stops a run that waits for a rate limit or a date, so that it does not occupy the worker. It is queued until then.
func (r *Run) release(now time.Time) {
	until := r.journal.Until()
	if !until.Equal(r.seen) {
		r.seen, r.since = until, now
	}
	if until.IsZero() || now.Sub(r.since) < releaseAfter || until.Sub(now) < releaseFor {
		return
	}
	r.mu.Lock()
	r.until = until
	r.mu.Unlock()
	r.rest()
}

// requeue queues a run that was released. It holds the run still.
func (r *Run) requeue(ctx context.Context) {
	r.mu.Lock()
	until := r.until
	r.mu.Unlock()
	if until.IsZero() || r.outcome.Status != runlog.Interrupted || !errors.Is(r.outcome.Err, graph.ErrStopped) {
		return
	}
	if err := r.journal.Requeue(ctx, until); err == nil { // else it is interrupted, and waits in the process that resumes it
		r.outcome = Outcome{Status: runlog.Queued}
	}
}

// news returns a channel that receives a value when a run may have been queued, and how often to look anyway.
func (e *Engine) news(ctx context.Context) (<-chan struct{}, time.Duration) {
	if n, ok := runlog.As[runlog.Notifier](e.store); ok {
		if ch, err := n.Queued(ctx); err == nil {
			return ch, 5 * lookEvery
		}
	}
	return nil, lookEvery
}

// serveOnce looks for runs with one query, if it is time for one, and takes what it can. All and old are when it lists everything again. Soonest is when
// a run that has to wait can be taken, zero if none has to.
func (e *Engine) serveOnce(ctx, within context.Context, o *RecoverOptions, all, old *time.Time) (taken []*Run, soonest time.Time, err error) {
	e.taking.Lock()
	defer e.taking.Unlock()
	e.list.Place = o.Place
	now := time.Now()
	switch {
	case !now.Before(*all):
		if err = e.lookAll(ctx); err == nil {
			took := time.Since(now)
			*all, *old = now.Add(max(o.Every, 20*took)), now.Add(o.Every)
		}
	case !now.Before(*old):
		err = e.lookLeft(ctx)
		*old = now.Add(max(o.Every, 5*time.Since(now))) // a store without an index of them reads all of its runs
	case !e.busy(o.Runs):
		err = e.lookNew(ctx)
	}
	if err == nil {
		taken, err = e.take(ctx, within, o, now.Add(o.Every))
		e.weigh(now, len(taken))
	}
	if soonest = e.list.Soonest(); len(taken) > 0 && time.Since(now) >= o.Every {
		soonest = e.opt.Now() // there may be more
	}
	return taken, soonest, err
}

// lookLeft lists the runs whose process crashed: interrupted ones, and those that it had taken but not begun. The caller holds taking.
func (e *Engine) lookLeft(ctx context.Context) error {
	left, err := e.store.Runs(ctx, &runlog.Filter{Status: []runlog.Status{runlog.Interrupted, runlog.WaitingStorage}})
	e.note(left)
	for _, id := range e.list.Held() {
		if err != nil {
			return err
		}
		left, err = e.store.Runs(ctx, &runlog.Filter{ID: id, Status: []runlog.Status{runlog.Queued, runlog.Interrupted, runlog.WaitingStorage}})
		e.note(left)
	}
	return err
}

// lookNew lists the newest queued runs, as many as are not known. The caller holds taking.
func (e *Engine) lookNew(ctx context.Context) error {
	for n := 64; ; n *= 8 {
		infos, err := e.store.Runs(ctx, &runlog.Filter{Status: []runlog.Status{runlog.Queued}, Limit: n})
		if err != nil || e.note(infos) < len(infos) || len(infos) < n {
			return err
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
		o.Every = 3 * time.Second
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
	if o.Scheduled == nil {
		o.Scheduled = func(string, string) {}
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
