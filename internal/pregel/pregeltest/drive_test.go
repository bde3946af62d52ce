package pregeltest

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime/debug"
	"slices"

	"github.com/superstep-dev/superstep/internal/pregel"
)

// Sequential drives a machine as [pregel.Run] does, on the goroutine of the caller: one task
// after the other, in path order, each recorded before the next one starts. A task that waits for
// another of its superstep waits forever. It makes a run that can be followed in a debugger, and
// whose every effect comes in the same order each time.
func Sequential[S, U, M any](ctx context.Context, m *pregel.Machine[S, U, M], exec pregel.Exec[S, U, M], opt *pregel.RunOptions[S, U, M]) error {
	return serially(ctx, m, exec, opt, func(int) int { return 0 })
}

// Shuffled is Sequential in an order that only the seed says: of the tasks that may start, any is
// next, and any number of them ends before what they came to is recorded. A workflow that does
// not do the same under many seeds depends on an order which nobody promises.
func Shuffled[S, U, M any](seed uint64) func(context.Context, *pregel.Machine[S, U, M], pregel.Exec[S, U, M], *pregel.RunOptions[S, U, M]) error {
	return func(ctx context.Context, m *pregel.Machine[S, U, M], exec pregel.Exec[S, U, M], opt *pregel.RunOptions[S, U, M]) error {
		return serially(ctx, m, exec, opt, rand.New(rand.NewPCG(seed, uint64(m.Step()))).IntN)
	}
}

// serial is a run on one goroutine.
type serial[S, U, M any] struct {
	ctx   context.Context
	m     *pregel.Machine[S, U, M]
	exec  pregel.Exec[S, U, M]
	opt   pregel.RunOptions[S, U, M]
	pick  func(n int) int
	queue []handed[S, M]
}

// handed is a task that was handed out and has not started, and what it reads.
type handed[S, M any] struct {
	task  pregel.Task[M]
	state S
}

func serially[S, U, M any](ctx context.Context, m *pregel.Machine[S, U, M], exec pregel.Exec[S, U, M], opt *pregel.RunOptions[S, U, M], pick func(n int) int) error {
	d := &serial[S, U, M]{m: m, exec: exec, pick: pick}
	if opt != nil {
		d.opt = *opt
	}
	if limit := d.opt.Timeout; limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, &pregel.TimeoutError{What: "the run", After: limit})
		defer cancel()
	}
	d.ctx = ctx
	for !m.Ended() {
		if err := d.next(); err != nil {
			return errors.Join(err, d.putBack())
		}
	}
	return m.StallError()
}

// next computes tasks, at least one if any may start, and closes the superstep if that was the last of it.
func (d *serial[S, U, M]) next() error {
	if limit := d.opt.MaxSteps; limit > 0 && d.m.Step() >= limit {
		return d.m.LimitError(limit)
	}
	var ended []pregel.Ended[U, M]
	if err := d.stopped(); err != nil && (d.ctx.Err() != nil || !d.m.Complete()) { // a stop lets a superstep close
		return err
	}
	if !d.m.Complete() {
		select {
		case <-d.opt.Wake:
			d.wake()
		default:
		}
		for _, t := range d.m.Plan() {
			d.queue = append(d.queue, handed[S, M]{t, d.m.Sees(&t)})
		}
		if ended = d.compute(); len(ended) == 0 {
			if d.wake() {
				return nil
			}
			return d.m.Stuck()
		}
	}
	return d.settle(ended)
}

// compute computes some of the tasks that may start, and gives them in path order.
func (d *serial[S, U, M]) compute() []pregel.Ended[U, M] {
	var ended []pregel.Ended[U, M]
	for more := 1; more > 0 && (len(ended) == 0 || d.stopped() == nil); more = d.pick(len(d.queue) + 1) {
		var may []int
		for i := range d.queue {
			if t := &d.queue[i].task; t.Index >= 0 || !d.opt.Barrier || t.Step <= d.m.Step() {
				may = append(may, i)
			}
		}
		if len(may) == 0 {
			break
		}
		i := may[d.pick(len(may))]
		h := d.queue[i]
		d.queue = slices.Delete(d.queue, i, i+1)
		ended = append(ended, pregel.Ended[U, M]{Task: h.task, Result: d.try(&h)})
	}
	slices.SortFunc(ended, func(a, b pregel.Ended[U, M]) int { return a.Task.Index - b.Task.Index })
	return ended
}

func (d *serial[S, U, M]) try(h *handed[S, M]) (r pregel.Result[U, M]) {
	defer func() {
		if v := recover(); v != nil {
			r = pregel.Result[U, M]{Outcome: pregel.Failed, Err: &pregel.PanicError{Value: v, Stack: debug.Stack()}}
		}
	}()
	if d.opt.Started != nil {
		d.opt.Started(&h.task)
	}
	return d.exec(d.ctx, &h.task, h.state)
}

// settle applies what has ended, commits if the superstep is complete by that, and records it.
func (d *serial[S, U, M]) settle(ended []pregel.Ended[U, M]) error {
	for i := range ended {
		if err := d.m.Apply(ended[i].Task.Index, ended[i].Result); err != nil {
			return err
		}
	}
	ended = slices.DeleteFunc(ended, func(e pregel.Ended[U, M]) bool { return e.Result.Outcome == pregel.Aborted })
	last := d.m.Complete() && d.ctx.Err() == nil
	if last {
		if err := d.m.Check(); err != nil {
			return err
		}
		d.m.Commit()
	}
	if d.opt.Recorder == nil || len(ended) == 0 && !last {
		return nil
	}
	return d.opt.Recorder.Record(context.WithoutCancel(d.ctx), d.m, ended, last)
}

func (d *serial[S, U, M]) stopped() error {
	select {
	case <-d.opt.Stop:
		return pregel.ErrStopped
	default:
	}
	if d.ctx.Err() != nil {
		return context.Cause(d.ctx)
	}
	return nil
}

func (d *serial[S, U, M]) wake() bool {
	some := false
	if d.opt.Ready != nil {
		for _, t := range d.m.Waits() {
			if d.opt.Ready(&t) {
				d.m.Wake(t.Index)
				some = true
			}
		}
	}
	return some
}

// putBack makes the tasks that have not started ready for the next driver.
func (d *serial[S, U, M]) putBack() error {
	var failed error
	for i := range d.queue {
		err := d.m.Apply(d.queue[i].task.Index, pregel.Result[U, M]{Outcome: pregel.Aborted})
		failed = errors.Join(failed, err)
	}
	return failed
}
