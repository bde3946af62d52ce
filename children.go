package superstep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/summary"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

// A child run is created by a task of its parent, which waits for its end as for an answer. Who holds the parent looks at its children, and answers the
// questions of those that have ended: their logs are the messages. Whoever ends a child whose parent nobody holds does the same for the parent.

const (
	tendEvery  = 200 * time.Millisecond // the shortest time between two looks at the children of runs
	orphans    = 2 * time.Second        // how often a child looks whether its parent has ended
	heldIdle   = 5 * time.Second        // for how long a recovered run is held while it only waits for child runs
	sweepEvery = 30 * time.Second       // how often paused runs are looked at whose children may have ended
	childDepth = 16                     // how many runs may be above one
	abreast    = 16                     // children that are looked after at once
)

// rootOf returns the ID with which those of all runs of the tree begin.
func rootOf(info *runlog.Info) string { return runlog.RootOf(info.ID, info.IsChild()) }

// descendants lists the runs below the root of a tree.
func (e *Engine) descendants(ctx context.Context, root string) ([]runlog.Info, error) {
	infos, err := e.store.Runs(ctx, &runlog.Filter{Prefix: root + "-"})
	return slices.DeleteFunc(infos, func(i runlog.Info) bool { return !i.IsChild() }), err
}

// Children lists the child runs of a run, the oldest first, without those of its children.
func (e *Engine) Children(ctx context.Context, id string) ([]runlog.Info, error) {
	info, err := e.find(ctx, id)
	if err != nil {
		return nil, err
	}
	return e.childrenOf(ctx, &info)
}

func (e *Engine) childrenOf(ctx context.Context, info *runlog.Info) ([]runlog.Info, error) {
	all, err := e.descendants(ctx, rootOf(info))
	slices.Reverse(all)
	return slices.DeleteFunc(all, func(i runlog.Info) bool { return i.Parent != info.ID }), err
}

// kin tells the runs around one whose execution has ended: the parent of a child that has ended is answered, children of a run that has ended are
// cancelled, and a run that was paused may have missed the end of a child.
func (e *Engine) kin(ctx context.Context, r *Run) {
	info := r.journal.Info()
	if r.parent.Load() && info.Status.Ended() {
		_ = e.cancelChildren(ctx, &info) // those that it misses find that their parent has ended
	}
	if r.parent.Load() && info.Status == runlog.Paused {
		e.delivered(ctx, r.id)
	}
	if r.child != nil && done(info) {
		e.delivered(ctx, r.child.Parent)
	}
}

// begets returns what creates the child runs of a run that executes here.
func (e *Engine) begets(r *Run) func(context.Context, *graph.ChildRun) error {
	j := r.journal
	return func(ctx context.Context, c *graph.ChildRun) (err error) {
		if c.Of.Depth > childDepth {
			return fmt.Errorf("run %s is the child of a child, %d deep: a workflow runs itself", c.ID, c.Of.Depth)
		}
		r.parent.Store(true)
		limit := c.Limit
		if left, limited := j.Wall(); limited && (limit.Wall <= 0 || left < limit.Wall) {
			limit.Wall = max(left, time.Millisecond)
		}
		r.mu.Lock()
		was, begun := r.begun[c.ID]
		r.mu.Unlock()
		if begun && was == c.Limit {
			return nil
		}
		defer func() {
			if err == nil {
				r.mu.Lock()
				r.begun[c.ID] = c.Limit
				r.mu.Unlock()
			}
		}()
		infos, err := e.store.Runs(ctx, &runlog.Filter{ID: c.ID})
		switch {
		case err != nil:
			return err
		case len(infos) > 0 && infos[0].Parent != c.Of.Parent:
			return &ConflictError{c.ID, "it is no child of run " + c.Of.Parent}
		case len(infos) > 0:
			return e.extend(ctx, &infos[0], limit)
		}
		started := runlog.RunStarted{
			Workflow: c.Workflow, Inputs: j.Clean(c.Inputs), Engine: Version, Sandbox: e.opt.Sandbox(), Timed: true, Child: c.Of,
			Queue: &runlog.Queue{Place: c.Place}, Folder: e.opt.Project,
			Trace: j.Scope(c.Of.Path).Traceparent(""), // its spans hang below the task that waits for it
		}
		own := j.Info()
		if s := summary.Of(&own); s != nil && s.Folder != "" { // whoever executes its parent
			started.Folder = s.Folder
		}
		if q := own.Queue(); q != nil {
			started.Queue.Priority = q.Priority
		}
		if c.Pinned != nil {
			started.Pinned = j.Clean(c.Pinned)
		}
		if limit != (runlog.Budget{}) {
			started.Budget = &limit
		}
		if w, err := e.Workflows().Find(c.Workflow); err == nil {
			started.Title = title(w, c.Inputs)
		}
		if im := j.Imported(); im != nil {
			mark := *im
			mark.Records, started.Imported = 0, &mark
		}
		_, err = e.begin(ctx, c.ID, &started, nil)
		if _, busy := errors.AsType[*runlog.BusyError](err); busy || errors.As(err, new(*ConflictError)) {
			err = nil // another process creates it, or has
		}
		e.tend.poke()
		return err
	}
}

// extend gives a child that waits for a larger budget what the parent has reserved for it now.
func (e *Engine) extend(ctx context.Context, info *runlog.Info, limit runlog.Budget) error {
	if sum := summary.Of(info); info.Status != runlog.Paused || sum == nil || sum.Waits != summary.Budget {
		return nil
	}
	return e.requeue(ctx, info.ID, &limit)
}

// requeue lets any process resume a paused child that no process holds, with a larger budget if one is given.
func (e *Engine) requeue(ctx context.Context, id string, budget *runlog.Budget) error {
	j, err := e.open(ctx, id, &journal.Options{})
	if _, busy := errors.AsType[*runlog.BusyError](err); busy {
		return nil
	}
	if err != nil {
		return err
	}
	resumed, again := runlog.RunResumed{Sandbox: e.opt.Sandbox(), Timed: true}, budget == nil
	if budget != nil {
		b := budget.Over(j.Budget())
		resumed.Budget, again = &b, b != j.Budget()
	}
	if again && j.Info().Status == runlog.Paused {
		err = j.Write(ctx, runlog.Queued, runlog.KindRunResumed, "", resumed)
	}
	e.tend.poke()
	return errors.Join(err, j.Close(context.WithoutCancel(ctx)))
}

// gather answers the questions about child runs that have ended, and returns how many it has answered. The journal holds the parent.
func (e *Engine) gather(ctx context.Context, j *journal.Journal, infos []runlog.Info) (n int, err error) {
	open := j.Children()
	var group sync.WaitGroup
	var mu sync.Mutex
	slots := make(chan struct{}, abreast)
	for i := range infos {
		info := &infos[i]
		q, waits := open[info.ID]
		if !waits || info.Parent != j.ID() || !done(*info) {
			continue
		}
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			err1 := e.hand(ctx, j, info, &q)
			mu.Lock()
			defer mu.Unlock()
			if err = errors.Join(err, err1); err1 == nil {
				n++
			}
		})
	}
	group.Wait()
	return n, err
}

// hand answers the question about a child run that has ended.
func (e *Engine) hand(ctx context.Context, j *journal.Journal, info *runlog.Info, q *runlog.Question) error {
	end, err := e.end(ctx, info)
	if err != nil {
		return err
	}
	a := &runlog.Answer{Key: q.Key, By: runlog.ByRun, Request: info.ID}
	if a.Value, err = json.Marshal(end); err != nil {
		return err
	}
	err = j.Answer(ctx, q.Path, a)
	if errors.As(err, new(*journal.AnsweredError)) {
		return nil
	}
	return err
}

// end returns how a run has ended, by its log.
func (e *Engine) end(ctx context.Context, info *runlog.Info) (*runlog.End, error) {
	end := &runlog.End{Status: info.Status}
	spent, err := journal.SpentBy(ctx, e.store, info)
	if err != nil {
		return nil, err
	}
	if spent != (runlog.Amount{}) {
		end.Spent = &spent
	}
	for rec, err := range runlog.Records(ctx, e.store, info.ID, info.Head) {
		if err != nil {
			return nil, err
		}
		switch rec.Kind {
		case runlog.KindRunFinished:
			var d runlog.RunFinished
			err = json.Unmarshal(rec.Data, &d)
			end.Output, end.Skipped = d.Output, d.Skipped
		case runlog.KindRunFailed:
			var d runlog.RunFailed
			err = json.Unmarshal(rec.Data, &d)
			end.Error = d.Error
		}
		if err != nil {
			return nil, fmt.Errorf("run %s: its last record: %w", info.ID, err)
		}
	}
	if info.Status == runlog.Cancelled {
		end.Error = "run " + info.ID + " was cancelled"
	}
	return end, nil
}

// deliver answers the questions of a run, which no process may hold, about its children that have ended. If a process holds it, that one does so.
func (e *Engine) deliver(ctx context.Context, parent string) error {
	if e.executing(parent) != nil {
		e.tend.poke()
		return nil
	}
	info, err := e.find(ctx, parent)
	if err != nil || info.Status.Ended() {
		return err
	}
	infos, err := e.childrenOf(ctx, &info)
	if err != nil || !slices.ContainsFunc(infos, done) {
		return err
	}
	j, err := e.open(ctx, parent, &journal.Options{})
	if err != nil {
		return err
	}
	if !j.Info().Status.Ended() {
		_, err = e.gather(ctx, j, infos)
	}
	return errors.Join(err, j.Close(context.WithoutCancel(ctx)))
}

// done reports whether a child run has ended for its parent. It may have failed.
func done(child runlog.Info) bool { return child.Status.Ended() || child.Status == runlog.Failed }

// delivered is deliver for callers that have nobody to tell: a process that holds the run, or the next sweep, makes up for it.
func (e *Engine) delivered(ctx context.Context, parent string) {
	_ = e.deliver(ctx, parent)
}

// downward carries out something for each child of a run that has not ended, side by side.
func (e *Engine) downward(ctx context.Context, info *runlog.Info, do func(*runlog.Info) error) error {
	infos, err := e.childrenOf(ctx, info)
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	errs, slots := make([]error, len(infos)), make(chan struct{}, abreast)
	for i := range infos {
		if done(infos[i]) {
			continue
		}
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			err := do(&infos[i])
			if !errors.As(err, new(*runlog.EndedError)) && !errors.As(err, new(*runlog.NotFoundError)) {
				errs[i] = err
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// cancelChildren cancels the children of a run that has ended: none outlives it.
func (e *Engine) cancelChildren(ctx context.Context, info *runlog.Info) error {
	return e.downward(ctx, info, func(child *runlog.Info) error { return e.Cancel(ctx, child.ID) })
}

// orphaned reports whether the parent of a child run has ended, or is gone.
func (e *Engine) orphaned(ctx context.Context, child *runlog.Child) bool {
	if child == nil {
		return false
	}
	info, err := e.find(ctx, child.Parent)
	return errors.As(err, new(*runlog.NotFoundError)) || err == nil && info.Status.Ended()
}

// tending wakes who looks after child runs.
type tending struct{ woken chan struct{} }

func (t *tending) poke() {
	select {
	case t.woken <- struct{}{}:
	default:
	}
}

// look looks after the children of the runs that execute here until ctx ends.
func (e *Engine) look(ctx context.Context) {
	checked := map[string]time.Time{} // parents of children that execute here
	for took := time.Duration(0); ; {
		select {
		case <-e.tend.woken:
			time.Sleep(tendEvery / 10) // more may follow
		case <-time.After(max(tendEvery, 20*took)):
		case <-ctx.Done():
			return
		}
		begun := time.Now()
		trees := map[string][]*Run{}
		e.mu.Lock()
		for _, r := range e.runs {
			if r.parent.Load() {
				root := runlog.RootOf(r.id, r.child != nil)
				trees[root] = append(trees[root], r)
			}
			if r.child != nil && begun.Sub(checked[r.child.Parent]) > orphans {
				checked[r.child.Parent] = begun
				e.work.Go(func() { e.orphan(ctx, r.child.Parent) })
			}
		}
		e.mu.Unlock()
		for root, parents := range trees {
			infos, err := e.descendants(ctx, root)
			if err != nil {
				continue // an error is met by the next append
			}
			for _, r := range parents {
				e.tendTo(ctx, r, infos)
			}
		}
		took = time.Since(begun)
	}
}

// orphan cancels the children of a run that execute here if that run has ended.
func (e *Engine) orphan(ctx context.Context, parent string) {
	if !e.orphaned(ctx, &runlog.Child{Parent: parent}) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.runs {
		if r.child != nil && r.child.Parent == parent {
			r.stop(journal.ErrCancelRequested)
		}
	}
}

// tendTo answers a run's questions about its children that have ended, executes those that nobody executes, and cancels those that no task waits for.
func (e *Engine) tendTo(ctx context.Context, r *Run, infos []runlog.Info) {
	open := r.journal.Children()
	n, err := e.gather(ctx, r.journal, infos)
	if err != nil || r.over() {
		return
	}
	moves, checked := false, false
	for i := range infos {
		info := &infos[i]
		idle, q := takes(info), info.Queue()
		moves = moves || idle || info.Status == runlog.Running
		if info.Parent != r.id || done(*info) {
			continue
		}
		_, waits := open[info.ID]
		switch {
		case !waits && !checked:
			// The journal knows all children of before now, unless another process holds the run by now.
			if r.journal.Held(ctx) != nil {
				return
			}
			checked = true
			fallthrough
		case !waits:
			if _, waits = r.journal.Children()[info.ID]; !waits {
				_ = e.Cancel(ctx, info.ID) // the next look tries again
			}
		case idle && (q == nil || len(q.Place) == 0) && !e.serving.Load() && !r.leaves && r.rests() == nil && !e.waits(info.ID) && e.room():
			e.adopt(r, info)
		}
	}
	for id := range open {
		moves = moves || !slices.ContainsFunc(infos, func(i runlog.Info) bool { return i.ID == id && i.Status != runlog.Running }) // it is being created
	}
	if moves || n > 0 || !r.idle.Load() {
		r.still.Store(0)
	} else if r.still.Add(1) > 1 { // it did not begin to wait after the children were listed
		select {
		case r.stuck <- struct{}{}:
		default:
		}
	}
}

// room reports whether the engine may execute another child of a run that it executes.
func (e *Engine) room() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, r := range e.runs {
		if r.child != nil && !r.idle.Load() {
			n++
		}
	}
	return n < max(e.opt.Parallelism, abreast)
}

// adopt executes a child of a run that executes here.
func (e *Engine) adopt(r *Run, info *runlog.Info) {
	if err := e.has(r.outer, info); errors.As(err, new(*unreadError)) {
		return // the next look tries again
	} else if err != nil {
		e.setLater(info.ID, later{never: true})
		return
	}
	opt := &ResumeOptions{recovers: true, adopted: true, Answer: r.answer}
	opt.ended = func(out *Outcome) {
		if (out.Status == runlog.Interrupted || out.Status == runlog.WaitingStorage) && r.outer.Err() == nil && r.rests() == nil {
			o := (*RecoverOptions)(nil).settled()
			e.putOff(info.ID, &o)
		}
	}
	c, err := e.Resume(r.outer, info.ID, opt)
	if err != nil {
		return // another process was first; or the next look tries again
	}
	r.mu.Lock()
	r.adopted = append(slices.DeleteFunc(r.adopted, (*Run).over), c)
	r.mu.Unlock()
}

// outlast waits until a child of a run has ended, or something else is there for the run. It returns false if the run must be paused: no child of it
// moves, or it was recovered and has waited for long.
func (e *Engine) outlast(ctx context.Context, r *Run, late <-chan struct{}) bool {
	if len(r.journal.Children()) == 0 {
		return false
	}
	r.still.Store(0)
	r.idle.Store(true)
	defer r.idle.Store(false)
	var long <-chan time.Time
	if r.frees {
		long = time.After(heldIdle)
	}
	select {
	case <-r.stuck: // of before
	default:
	}
	e.tend.poke()
	select {
	case <-late:
	case <-ctx.Done():
	case <-r.halt:
		r.calm(ctx)
		return false
	case <-long:
		return false
	case <-r.stuck:
		select {
		case <-late: // what has just ended is seen as not moving, too
		default:
			return false
		}
	}
	return true
}

// rests returns an error if nothing may start in the run any more.
func (r *Run) rests() error {
	select {
	case <-r.halt:
		return graph.ErrStopped
	default:
		return nil
	}
}

// calm lets the children of a run that execute here finish what is running in them.
func (r *Run) calm(ctx context.Context) {
	r.mu.Lock()
	adopted := r.adopted
	r.mu.Unlock()
	for _, c := range adopted {
		c.rest()
	}
	for _, c := range adopted {
		select {
		case <-c.done:
		case <-ctx.Done():
		}
	}
}

// answer answers a question of a child of the run as those of the run itself, one at a time.
func (r *Run) answer(ctx context.Context, q runlog.Question) (*runlog.Answer, bool) {
	if r.answering == nil {
		return nil, false
	}
	select {
	case r.asks <- struct{}{}:
	case <-ctx.Done():
		return nil, false
	}
	defer func() { <-r.asks }()
	return r.answering(ctx, q)
}

// serveSweeps sweeps until ctx ends, for at most 5 % of its time.
func (e *Engine) serveSweeps(ctx context.Context) {
	for ctx.Err() == nil {
		begun := time.Now()
		e.sweep(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(max(sweepEvery, 20*time.Since(begun))):
		}
	}
}

// sweep answers questions of paused runs about their children, of those that ended when nobody could be told, and cancels paused children whose parent
// has ended.
func (e *Engine) sweep(ctx context.Context) {
	infos, err := e.store.Runs(ctx, &runlog.Filter{Status: []runlog.Status{runlog.Paused}})
	if err != nil {
		return
	}
	orphaned := map[string]bool{}
	for i := range infos {
		info := &infos[i]
		sum := summary.Of(info)
		if sum == nil || ctx.Err() != nil {
			continue
		}
		if info.IsChild() {
			gone, known := orphaned[info.Parent]
			if !known {
				gone = e.orphaned(ctx, &runlog.Child{Parent: info.Parent})
				orphaned[info.Parent] = gone
			}
			if gone {
				_ = e.Cancel(ctx, info.ID)
				continue
			}
		}
		if sum.Waits != summary.Run {
			continue
		}
		children, err := e.childrenOf(ctx, info)
		if err == nil && slices.ContainsFunc(children, func(c runlog.Info) bool { return done(c) && c.Updated.After(info.Updated.Add(-time.Minute)) }) {
			e.delivered(ctx, info.ID)
		}
	}
}
