package pregel

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Exec computes one task against the state of the last commit. It is called from
// several goroutines at once and must not change the state it is given. It should
// return soon after ctx is done. A panic in it is a failed task.
type Exec[S, U, M any] func(ctx context.Context, t *Task[M], state S) Result[U, M]

// A Recorder makes results durable. Record is called from one goroutine at a time. It receives the
// tasks that have ended since the last call, in path order, and whether they closed their
// superstep. The machine has already applied their results. Once Record has returned nil, the tasks
// are part of the run; no task that depends on them starts earlier. After an error the run stops
// and the machine must be discarded.
type Recorder[S, U, M any] interface {
	Record(ctx context.Context, m *Machine[S, U, M], ended []Ended[U, M], commit bool) error
}

// Ended is a task that has ended, and how.
type Ended[U, M any] struct {
	Task   Task[M]
	Result Result[U, M]
}

// RunOptions are the settings of Run. Nil means the defaults.
type RunOptions[S, U, M any] struct {
	Parallelism int               // tasks running at once; defaults to 16
	MaxSteps    int               // supersteps before a *StepLimitError; defaults to no limit
	Timeout     time.Duration     // before a *TimeoutError, from this call on; defaults to no limit
	Recorder    Recorder[S, U, M] // defaults to none: the run leaves nothing behind
	Started     func(t *Task[M])  // called as a task starts, from its goroutine; defaults to nothing
	Barrier     bool              // no task starts before its superstep, even if what it reads is final
	Stop        <-chan struct{}   // once closed, nothing starts any more, and the run ends with ErrStopped when what is running has ended; defaults to never
	Cut         <-chan struct{}   // another Stop
	Wake        <-chan struct{}   // says that waiting tasks may go on, so that Ready is asked of each; defaults to never
	// Ready reports whether a waiting task may continue now. It is called when Wake signals, and
	// before the run would end because nothing is left to do. If nil, no task may.
	Ready func(t *Task[M]) bool
	// Doomed is called once a task has failed for good, so that what is inside of other tasks
	// begins nothing new. A task that is Aborted with ErrStopped after that is not run again. It may be nil.
	Doomed func()
}

// ErrStopped reports that a run was stopped from outside, between two tasks.
var ErrStopped = errors.New("the run was stopped")

// Run drives a machine to its end on goroutines of this process. It returns nil once the machine
// has ended; a *TasksError if tasks failed for good, after the others of their superstep have
// ended; a *WaitingError if only waiting tasks are left; a *StepLimitError or *TimeoutError at a
// limit; a *StalledError if a join never fired; and the cause of ctx if that ended first. In each
// of these cases the machine is consistent and Run can be called again. When it returns, all
// goroutines that it started have ended.
//
// A superstep of one task, and any with a Parallelism of 1, computes on the caller's goroutine.
func Run[S, U, M any](ctx context.Context, m *Machine[S, U, M], exec Exec[S, U, M], opt *RunOptions[S, U, M]) error {
	var o RunOptions[S, U, M]
	if opt != nil {
		o = *opt
	}
	if o.Parallelism <= 0 {
		o.Parallelism = 16
	}
	if o.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.Timeout, &TimeoutError{What: "the run", After: o.Timeout})
		defer cancel()
	}
	ctx, stop := context.WithCancelCause(ctx)
	if m.ahead != nil {
		m.ahead.off, m.ahead.limit = m.ahead.off || o.Barrier, o.MaxSteps
	}
	p := &pool[S, U, M]{ctx: ctx, m: m, exec: exec, started: o.Started, stop: o.Stop, cut: o.Cut, size: o.Parallelism, eager: o.Recorder != nil ||
		o.Wake != nil || m.ahead != nil, more: make(chan struct{}, 1)}
	defer p.workers.Wait()
	defer stop(nil) // before it waits for what is running, also when the program panics
	d := &driver[S, U, M]{pool: p, opt: &o, ctx: ctx}
	m.ready, m.cut = append(m.ready, m.cut...), nil // of an earlier call
	d.doom(m)
	if err := d.run(m); err != nil {
		stop(err) // the tasks still running end before Run does
		for !d.lost && !d.idle() {
			if e := d.keep(m, d.collect(m, nil)); e != nil {
				return errors.Join(err, e)
			}
		}
		return err
	}
	return nil
}

type driver[S, U, M any] struct {
	pool *pool[S, U, M]
	opt  *RunOptions[S, U, M]
	ctx  context.Context
	one  [1]Ended[U, M]
	lost bool      // the recorder has failed
	woke bool      // something to wait for has come since tasks were last idle
	line []Task[M] // with a Parallelism of 1: what is to be computed, one after the other
}

func (d *driver[S, U, M]) idle() bool { return d.pool.idle() && len(d.line) == 0 }

// collect returns tasks that have ended. If tasks run one at a time, they are computed here, so
// that each is recorded before the next starts.
func (d *driver[S, U, M]) collect(m *Machine[S, U, M], wake <-chan struct{}) []Ended[U, M] {
	if len(d.line) == 0 {
		return d.pool.collect(wake)
	}
	t := d.line[0]
	d.line = d.line[1:]
	if d.ctx.Err() != nil || d.stopping() || d.pool.doomed(&t) {
		d.one[0] = Ended[U, M]{t, Result[U, M]{Outcome: Aborted, Err: context.Cause(d.ctx)}}
	} else {
		d.pool.compute(&d.one[0], &t, m.Sees(&t))
	}
	return d.one[:]
}

func (d *driver[S, U, M]) run(m *Machine[S, U, M]) error {
	for !m.Ended() {
		if d.stopping() && d.idle() && !m.Complete() {
			return ErrStopped
		}
		if d.ctx.Err() != nil && d.idle() {
			return context.Cause(d.ctx)
		}
		if d.opt.MaxSteps > 0 && m.Step() >= d.opt.MaxSteps {
			return m.LimitError(d.opt.MaxSteps)
		}
		ended, err := d.next(m)
		if err != nil {
			return err
		}
		waits := d.woke && slices.ContainsFunc(ended, func(e Ended[U, M]) bool { return e.Result.Outcome == Waiting })
		if err := d.settle(m, ended); err != nil {
			return err
		}
		if waits {
			d.wake(m) // what they wait for may have come before they were known to wait
		}
	}
	return m.StallError()
}

func (d *driver[S, U, M]) stopping() bool { return d.pool.stopping() }

// next starts the tasks that may start and returns those that have ended since.
func (d *driver[S, U, M]) next(m *Machine[S, U, M]) ([]Ended[U, M], error) {
	if m.Complete() && d.ctx.Err() == nil {
		return nil, nil // every task of the step has a result from before
	}
	if d.ctx.Err() == nil && !d.stopping() {
		tasks := m.Plan()
		if len(tasks) == 1 && d.idle() && m.waiting == 0 {
			d.pool.compute(&d.one[0], &tasks[0], m.Sees(&tasks[0]))
			return d.one[:], nil
		}
		if d.pool.size == 1 {
			d.line = append(d.line, tasks...)
		} else {
			d.pool.submit(tasks)
		}
	}
	if d.idle() {
		d.woke = false
		if d.stopping() || d.ctx.Err() != nil {
			return nil, nil // it came between two looks
		}
		if d.wake(m) {
			return nil, nil
		}
		return nil, m.Stuck()
	}
	ended := d.collect(m, d.opt.Wake)
	if len(ended) == 0 {
		d.woke = true
		d.wake(m)
	}
	return ended, nil
}

// settle applies the ended tasks, commits the superstep if none is left, and records both.
func (d *driver[S, U, M]) settle(m *Machine[S, U, M], ended []Ended[U, M]) error {
	ended, err := d.apply(m, ended)
	if err != nil {
		return err
	}
	last := m.Complete() && d.ctx.Err() == nil
	if last {
		if err := m.Check(); err != nil {
			return errors.Join(err, d.record(m, ended, false))
		}
		defer func() {
			if v := recover(); v != nil { // the reducer has failed, and not those whose updates it folds
				_ = d.record(m, ended, false)
				panic(v)
			}
		}()
		m.Commit()
	}
	return d.record(m, ended, last)
}

// keep is settle for tasks that end after the run has ended: it commits no superstep.
func (d *driver[S, U, M]) keep(m *Machine[S, U, M], ended []Ended[U, M]) error {
	ended, err := d.apply(m, ended)
	if err != nil {
		return err
	}
	return d.record(m, ended, false)
}

// apply gives the results of tasks to the machine, and returns the tasks that have ended.
func (d *driver[S, U, M]) apply(m *Machine[S, U, M], ended []Ended[U, M]) ([]Ended[U, M], error) {
	n := 0
	for _, e := range ended {
		if err := m.Apply(e.Task.Index, e.Result); err != nil {
			return nil, err
		}
		if e.Result.Outcome == Failed {
			d.doom(m)
		}
		if e.Result.Outcome != Aborted {
			ended[n] = e
			n++
		}
	}
	return ended[:n], nil
}

// doom tells others that a task has failed for good, if one has.
func (d *driver[S, U, M]) doom(m *Machine[S, U, M]) {
	if d.pool.doom.Store(int64(m.doom)); m.doom >= 0 && d.opt.Doomed != nil {
		d.opt.Doomed()
	}
}

func (d *driver[S, U, M]) record(m *Machine[S, U, M], ended []Ended[U, M], commit bool) error {
	if d.opt.Recorder == nil || len(ended) == 0 && !commit {
		return nil
	}
	// Ended tasks are kept even if the run is being stopped.
	err := d.opt.Recorder.Record(context.WithoutCancel(d.ctx), m, ended, commit)
	d.lost = err != nil
	return err
}

// wake readies waiting tasks that may go on, and reports whether there were any.
func (d *driver[S, U, M]) wake(m *Machine[S, U, M]) bool {
	if d.opt.Ready == nil {
		return false
	}
	some := false
	for _, t := range m.Waits() {
		if d.opt.Ready(&t) {
			m.Wake(t.Index)
			some = true
		}
	}
	return some
}

// pool computes tasks on at most size goroutines, which end when there is nothing to do.
type pool[S, U, M any] struct {
	ctx     context.Context
	m       *Machine[S, U, M]
	exec    Exec[S, U, M]
	started func(*Task[M])
	stop    <-chan struct{}
	cut     <-chan struct{}
	size    int
	eager   bool // collect gives what has ended at once, rather than when all have
	workers sync.WaitGroup
	out     int           // submitted and not collected; the driver's alone
	doom    atomic.Int64  // see Machine.doom
	more    chan struct{} // a token: enough has ended to be collected

	mu     sync.Mutex
	state  S // what the tasks read that have no view of their own
	queue  []item[S, M]
	head   int  // of queue
	busy   int  // workers
	coming bool // a worker has been started that has not taken a task yet
	want   int  // how many must have ended for a token
	ended  []Ended[U, M]
	spare  []Ended[U, M]
}

// item is a task and the state it reads: that of the pool, or its own.
type item[S, M any] struct {
	task Task[M]
	view *S
}

func (p *pool[S, U, M]) idle() bool { return p.out == 0 }

func (p *pool[S, U, M]) stopping() bool { return closed(p.stop) || closed(p.cut) }

// closed reports whether a channel is closed. Looking at one channel costs a tenth of looking at two in one select, and a step looks several times.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// doomed reports whether a task starts early and must not any more.
func (p *pool[S, U, M]) doomed(t *Task[M]) bool {
	doom := p.doom.Load()
	return doom >= 0 && int64(t.Step) > doom
}

// compute computes a task. A panic of it is a failure.
func (p *pool[S, U, M]) compute(e *Ended[U, M], t *Task[M], state S) {
	e.Task, e.Result = *t, Result[U, M]{}
	defer func() {
		if v := recover(); v != nil {
			e.Result = Result[U, M]{Outcome: Failed, Err: &PanicError{Value: v, Stack: debug.Stack()}}
		}
	}()
	if p.started != nil {
		p.started(&e.Task)
	}
	e.Result = p.exec(p.ctx, &e.Task, state)
}

func (p *pool[S, U, M]) submit(tasks []Task[M]) {
	if len(tasks) == 0 {
		return
	}
	p.out += len(tasks)
	var views []S
	if p.m.views != nil {
		views = make([]S, len(tasks))
		for i := range tasks {
			views[i] = p.m.Sees(&tasks[i])
		}
	}
	p.mu.Lock()
	p.state = p.m.state
	if p.head == len(p.queue) {
		p.queue, p.head = p.queue[:0], 0
	}
	p.queue = slices.Grow(p.queue, len(tasks))
	p.ended = slices.Grow(p.ended, len(tasks))
	for i := range tasks {
		it := item[S, M]{task: tasks[i]}
		if views != nil {
			it.view = &views[i]
		}
		p.queue = append(p.queue, it)
	}
	p.wake()
	p.mu.Unlock()
}

// wake starts a worker, unless one is about to take a task: that worker starts the next one
// afterwards. So long tasks get a goroutine each, and short ones share a few. The caller holds mu.
func (p *pool[S, U, M]) wake() {
	if !p.coming && p.busy < p.size {
		p.coming = true
		p.busy++
		p.workers.Go(p.work)
	}
}

func (p *pool[S, U, M]) work() {
	p.mu.Lock()
	var e Ended[U, M] // one for all tasks, since it is allocated
	out := false      // the task is being computed
	defer func() {
		if out { // it has ended the goroutine
			p.mu.Lock()
			e.Result = Result[U, M]{Outcome: Failed, Err: ErrGone}
			p.end(&e)
		} else {
			p.coming = false
		}
		if p.busy--; p.head < len(p.queue) {
			p.wake()
		}
		p.mu.Unlock()
	}()
	for p.head < len(p.queue) {
		it, state := p.queue[p.head], p.state
		p.queue[p.head] = item[S, M]{}
		p.head++
		p.coming = false
		if p.head < len(p.queue) {
			p.wake()
		}
		p.mu.Unlock()
		if it.view != nil {
			state = *it.view
		}
		if p.ctx.Err() != nil || p.stopping() || p.doomed(&it.task) {
			e = Ended[U, M]{it.task, Result[U, M]{Outcome: Aborted, Err: context.Cause(p.ctx)}}
		} else {
			out = true
			p.compute(&e, &it.task, state)
			out = false
		}
		p.mu.Lock()
		p.end(&e)
	}
}

// end hands in a task that has ended. The caller holds mu.
func (p *pool[S, U, M]) end(e *Ended[U, M]) {
	p.ended = append(p.ended, *e)
	if len(p.ended) >= p.want {
		select {
		case p.more <- struct{}{}:
		default:
		}
	}
}

// collect waits until a task has ended, or all of them, and gives those that have in
// path order, or nothing if it was woken. The slice is valid until the next call.
func (p *pool[S, U, M]) collect(wake <-chan struct{}) []Ended[U, M] {
	want := p.out
	if p.eager {
		want = 1
	}
	for {
		p.mu.Lock()
		p.want = want
		got := p.ended
		if len(got) >= want {
			p.ended, p.spare = p.spare[:0], got
			p.mu.Unlock()
			p.out -= len(got)
			sortEnded(got)
			return got
		}
		p.mu.Unlock()
		select {
		case <-p.more:
		case <-wake:
			return nil
		}
	}
}

func sortEnded[U, M any](e []Ended[U, M]) {
	byIndex := func(a, b Ended[U, M]) int { return a.Task.Index - b.Task.Index }
	if !slices.IsSortedFunc(e, byIndex) {
		slices.SortFunc(e, byIndex)
	}
}
