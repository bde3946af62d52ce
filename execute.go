package superstep

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/hook"
	"github.com/superstep-dev/superstep/internal/live"
	"github.com/superstep-dev/superstep/internal/pregel"
	"github.com/superstep-dev/superstep/internal/rundir"
	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/vertex"
	"github.com/superstep-dev/superstep/workflow"
)

// A Run is a run that this engine executes.
type Run struct {
	id      string
	engine  *Engine
	journal *journal.Journal
	stop    context.CancelCauseFunc
	halt    chan struct{} // closed for nothing to start any more
	halting sync.Once
	free    chan struct{} // closed when the run is let go of; who observes it may not be done
	done    chan struct{}
	outcome Outcome

	child     *runlog.Child   // nil if no task waits for the run
	outer     context.Context // that of the launch
	frees     bool            // it pauses when it has only waited for child runs for a while
	leaves    bool            // its child runs to others
	parent    atomic.Bool     // it has child runs
	idle      atomic.Bool     // it does nothing but wait for child runs
	still     atomic.Int32    // how many looks in a row found that no child of it moves
	stuck     chan struct{}   // receives a value when no child of it moves
	answering Answering
	asks      chan struct{} // one question at a time
	mu        sync.Mutex
	until     time.Time                // it is stopped, since it waits for that time; guarded by mu
	seen      time.Time                // Serve alone uses these: the time for which it waits, and
	since     time.Time                // since when
	adopted   []*Run                   // child runs that execute here for it
	begun     map[string]runlog.Budget // the limits of the child runs that it knows to exist, by ID
}

// Stop ends an execution so that it can be resumed: nothing starts any more, and what
// is running may finish until ctx ends, after which it is stopped. Stop
// returns the outcome, Interrupted unless the run ended by itself.
func (r *Run) Stop(ctx context.Context) Outcome {
	r.rest()
	select {
	case <-r.done:
	case <-ctx.Done():
		if r.stop != nil {
			r.stop(pregel.ErrStopped)
		}
		<-r.done
	}
	return r.outcome
}

// rest prevents new work from starting.
func (r *Run) rest() {
	if r.halt != nil { // it executes, or did
		r.halting.Do(func() { close(r.halt) })
	}
}

// An Outcome is how an execution ended.
type Outcome struct {
	Status  runlog.Status   // Interrupted if it was stopped and can be resumed, as can one WaitingStorage
	Output  json.RawMessage // of a run that has ended, and of one that waits for the next message of a conversation: the last answer
	Steps   int
	Skipped []string
	Open    []runlog.Question // of a paused run
	// Children are the IDs of the child runs that a paused run waits for: none of them moves, so each needs an answer, a larger budget or the like.
	Children []string
	Short    *runlog.BudgetError // of a run that is paused for want of budget: the first limit it has met
	Folder   error               // why the folder of the run is not up to date
	Err      error               // of a failed or interrupted run, or why an answer of a paused one was turned down
}

// ID returns the ID of the run.
func (r *Run) ID() string { return r.id }

// Follow is [Engine.Follow] of this run.
func (r *Run) Follow(ctx context.Context, from uint64) iter.Seq2[runlog.Record, error] {
	if r.journal == nil {
		return runlog.Follow(ctx, r.engine.store, r.id, from)
	}
	return r.journal.Follow(ctx, from)
}

// Wait returns the outcome once there is one.
func (r *Run) Wait(ctx context.Context) (Outcome, error) {
	select {
	case <-r.done:
		return r.outcome, nil
	case <-ctx.Done():
		return Outcome{}, context.Cause(ctx)
	}
}

// launching describes a run to execute.
type launching struct {
	ResumeOptions
	workflow *workflow.Workflow
	inputs   json.RawMessage
	every    int // see StartOptions.SnapshotEvery
	child    *runlog.Child
	trace    string // see StartOptions.Trace
}

// launch executes a run on a new goroutine, for which Close and Wait wait.
func (e *Engine) launch(ctx context.Context, j *journal.Journal, l *launching) *Run {
	r := &Run{
		id: j.ID(), engine: e, journal: j, halt: make(chan struct{}), free: make(chan struct{}), done: make(chan struct{}),
		child: l.child, outer: ctx, frees: l.recovers && !l.adopted || l.Supervised, leaves: l.Supervised, stuck: make(chan struct{}, 1), answering: l.Answer, asks: make(chan struct{}, 1),
		begun: map[string]runlog.Budget{},
	}
	ctx, stop := context.WithCancelCause(ctx)
	r.stop = stop
	r.parent.Store(len(j.Children()) > 0)
	j.OnPause(r.rest)
	e.mu.Lock()
	e.runs[r.id] = r // perhaps in the place of one that another process has fenced off, and that is about to end
	if e.active++; e.active == 1 {
		var listening context.Context
		listening, e.deaf = context.WithCancel(context.WithoutCancel(ctx))
		e.work.Go(func() { e.listen(listening) })
		e.work.Go(func() { e.look(listening) })
	}
	if e.closed {
		stop(ErrClosed)
	}
	e.mu.Unlock()
	j.Trace(l.trace, e.opt.Propagate)
	seen, all, files, hide := observe(ctx, j, l.Observe), observe(ctx, j, e.every(j)), e.files(ctx, j.ID()), e.show(r)
	e.work.Go(func() {
		defer close(r.done)
		defer all()
		defer seen()
		held, release := j.Hold(ctx)
		r.outcome = e.execute(held, r, l)
		r.requeue(context.WithoutCancel(held))
		release()
		stop(nil)
		e.mu.Lock()
		if e.runs[r.id] == r {
			delete(e.runs, r.id)
		}
		if e.active--; e.active == 0 {
			e.deaf()
		}
		e.mu.Unlock()
		if err := j.Close(context.WithoutCancel(ctx)); err != nil && r.outcome.Err == nil && !errors.Is(err, runlog.ErrFenced) {
			r.outcome.Err = err
		}
		close(r.free)
		hide()
		e.kin(context.WithoutCancel(ctx), r)
		r.outcome.Folder = files()
		if l.ended != nil {
			l.ended(&r.outcome)
		}
	})
	return r
}

// shown is a run as other processes see it.
type shown struct{ *Run }

// Look implements live.Source.
func (r shown) Look(ctx context.Context) {
	if r.journal.Cancelled(ctx) {
		r.stop(journal.ErrCancelRequested)
	}
	_ = r.journal.Look(ctx) // else it looks again
}

// show lets other processes of this user follow the run until hide is called. If that fails, they follow the store.
func (e *Engine) show(r *Run) (hide func()) {
	server, err := live.Listen(e.opt.Sockets(r.id), r.id, shown{r})
	if err != nil {
		return func() {}
	}
	e.work.Go(server.Serve)
	return server.Close
}

// listenEvery is the shortest time between two looks for requests of other processes.
const listenEvery = 100 * time.Millisecond

// listen makes the runs that execute here look for requests as soon as there are any, until ctx ends. It queries the store once for all runs, and spends
// at most 1 % of the time on it.
func (e *Engine) listen(ctx context.Context) {
	heads := map[string]uint64{} // by run
	for took := time.Duration(0); ; {
		select {
		case <-time.After(max(listenEvery, 100*took)):
		case <-ctx.Done():
			return
		}
		begun := time.Now()
		infos, _ := e.store.Runs(ctx, &runlog.Filter{Prefix: unlisted.RequestsPrefix, Status: []runlog.Status{runlog.Importing}}) // an error is met by the next append
		took = time.Since(begun)
		for i := range infos {
			run, head := infos[i].Parent, infos[i].Head
			if r := e.executing(run); r != nil && head > heads[run] && infos[i].ID == unlisted.RequestsID(run) {
				heads[run] = head
				_ = r.journal.Look(ctx) // its Hold looks again
			}
		}
	}
}

// files keeps the folder of a run up to date until the returned function is called, which updates the folder a last time.
func (e *Engine) files(ctx context.Context, id string) (last func() error) {
	dir, redactor := e.opt.Folder(id)
	if dir == "" {
		return func() error { return nil }
	}
	ctx = context.WithoutCancel(ctx)
	folder := rundir.Open(e.store, id, dir, &rundir.Options{Redactor: redactor})
	end, ended := make(chan struct{}), make(chan struct{})
	write := func() (took time.Duration) {
		start := time.Now()
		_ = folder.Update(ctx) // the last one tells
		return time.Since(start)
	}
	took := write() // it is there before anything runs
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			case <-time.After(max(time.Second, 20*took)): // it must not slow the run
				took = write()
			}
		}
	}()
	return func() error {
		close(end)
		<-ended
		return folder.Update(ctx)
	}
}

// observe calls see with the records of a journal until the journal is closed. It returns once no record can be missed any more. The returned function
// waits for the end.
func observe(ctx context.Context, j *journal.Journal, see func(runlog.Record, error)) (wait func()) {
	if see == nil {
		return func() {}
	}
	ready, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		follows := sync.OnceFunc(func() { close(ready) })
		defer follows()
		for rec, err := range j.Follow(context.WithoutCancel(ctx), 0) {
			follows() // a run has a first record by now, and what comes after it is kept for us
			see(rec, err)
		}
	}()
	<-ready
	return func() { <-done }
}

// every returns Options.Observe for a run, nil if it is.
func (e *Engine) every(j *journal.Journal) func(runlog.Record, error) {
	if e.opt.Observe == nil {
		return nil
	}
	id, epoch := j.ID(), j.Info().Epoch
	return func(r runlog.Record, err error) {
		if err == nil {
			e.opt.Observe(id, r, r.Epoch == epoch || r.Seq == 0)
		}
	}
}

// execute runs a workflow until it ends or can make no more progress, and records how it ended.
func (e *Engine) execute(ctx context.Context, r *Run, l *launching) Outcome {
	j := r.journal
	affords := func(path string, agents int) error { // a fan-out to that many
		return j.Scope(path).Affords("fan/agents", runlog.Amount{Agents: int64(agents)})
	}
	exec := &workflow.Exec{
		Inputs:  l.inputs,
		Journal: j,
		Graph: graph.RunOptions{
			Journal: j, Parallelism: e.opt.Parallelism, MaxSteps: e.opt.MaxSteps, Timeout: e.opt.Timeout, Cache: e.opt.Cache, Workflows: e.Workflows().Nested,
			Stop: r.halt, Admit: affords, Children: e.begets(r), SnapshotEvery: l.every, AllowChange: l.AllowChange,
		},
	}
	late, deaf := j.Listen()
	defer deaf()
	silent := false // it waited for nothing that is open
	for {
		head := j.Head()
		res, err := e.within(ctx, j, l.workflow, exec)
		wait, waits := errors.AsType[*pregel.WaitingError](err)
		_, changed := errors.AsType[*graph.ChangedError](err)
		_, short := errors.AsType[*runlog.BudgetError](err)
		switch {
		case short: // the run as a whole, or something beside its graph
			_ = j.Look(ctx)
			select {
			case <-late: // perhaps of a larger budget
				if left, limited := j.Wall(); j.Pausing() == nil && (left > 0 || !limited) {
					continue
				}
			default:
			}
			return e.rest(ctx, j, res, err, nil)
		case (l.recovers || l.Supervised) && changed: // for who has the right version
			return Outcome{Status: runlog.Interrupted, Err: err}
		case changed && len(j.Open()) > 0: // it waits on, for what it began with
			var paths []string
			for _, q := range j.Open() {
				paths = append(paths, q.Path)
			}
			out := e.rest(ctx, j, res, err, paths)
			out.Err = errors.Join(out.Err, err)
			return out
		case !waits:
			return record(ctx, j, res, err)
		}
		_ = j.Look(ctx)
		if j.Pausing() != nil {
			return e.rest(ctx, j, res, err, wait.Paths)
		}
		select {
		case <-late: // perhaps long ago
		default:
		}
		if !j.Quiet(head, nil) { // an answer came when nothing was left to hear it
			continue
		}
		if open := len(j.Open()); open == 0 && !silent && j.Short() == nil { // it says that it waits, and perhaps does no longer
			silent = true
			continue
		} else if open > 0 {
			silent = false
		}
		answer := r.answer
		if r.answering == nil {
			answer = nil
		}
		busy := j.Idle()
		answered, refused, aerr := answerAll(ctx, j, answer, late)
		if aerr != nil {
			return record(ctx, j, res, aerr)
		}
		if answered == 0 && e.outlast(ctx, r, late) {
			busy()
			continue
		}
		if answered == 0 && r.rests() != nil && j.Pausing() == nil {
			return record(ctx, j, res, graph.ErrStopped)
		}
		var out Outcome
		if answered == 0 && j.Quiet(head, func() { out = e.rest(ctx, j, res, err, wait.Paths) }) {
			out.Err = errors.Join(out.Err, refused)
			return out
		}
		busy()
	}
}

// within runs a workflow until it ends or its execution time is used up. The limit may change meanwhile. It is not a deadline of the context, because
// code that sees a near deadline tends to fail instead of waiting.
func (e *Engine) within(ctx context.Context, j *journal.Journal, w *workflow.Workflow, exec *workflow.Exec) (*workflow.Result, error) {
	changed, deaf := j.Listen()
	defer deaf()
	ctx, stop := context.WithCancelCause(ctx)
	var timer sync.WaitGroup
	timer.Go(func() {
		for ctx.Err() == nil {
			var late <-chan time.Time
			if left, limited := j.Wall(); limited {
				late = time.After(left)
			}
			select {
			case <-changed:
			case <-ctx.Done():
			case <-late:
				select {
				case <-changed:
				default:
					stop(j.Late())
				}
			}
		}
	})
	defer timer.Wait()
	defer stop(nil)
	res, err := runWorkflow(hook.With(ctx, e.opt.Hooks...), w, exec)
	if short, ok := errors.AsType[*runlog.BudgetError](context.Cause(ctx)); ok && err != nil {
		return res, short
	}
	return res, err
}

func runWorkflow(ctx context.Context, w *workflow.Workflow, exec *workflow.Exec) (res *workflow.Result, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &graph.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return w.Run(ctx, exec)
}

// answerAll asks for answers to all open questions, and returns how many are answered now. If another process answers one meanwhile, it stops asking, so
// that the run continues with that answer. The Answering function may know of such an answer before the channel came reports it, so the log decides. A
// rejected answer leaves its question open; refused is the reason.
func answerAll(ctx context.Context, j *journal.Journal, answer Answering, came <-chan struct{}) (n int, refused, err error) {
	if answer == nil {
		return 0, nil, nil
	}
	for _, q := range openFor(j) {
		a, ok, other := askUntil(ctx, answer, q, came)
		if other || !ok && !isOpen(j, &q) {
			n++
			if !ok {
				return n, refused, nil
			}
		}
		if !ok {
			continue
		}
		a.Key = q.Key
		switch err := j.Answer(ctx, q.Path, a); {
		case errors.As(err, new(*journal.UnfitError)):
			refused = errors.Join(refused, err)
		case err != nil && !errors.As(err, new(*journal.AnsweredError)): // else somebody else was first
			return n, refused, err
		default:
			n++
			select { // of our own answer nobody has to be told
			case <-came:
			default:
			}
		}
	}
	return n, refused, nil
}

// openFor returns the open questions of a run that somebody can answer: those about child runs are not.
func openFor(j *journal.Journal) []runlog.Question {
	return slices.DeleteFunc(j.Open(), func(q runlog.Question) bool { return q.Kind == runlog.QuestionRun })
}

func isOpen(j *journal.Journal, q *runlog.Question) bool {
	return slices.ContainsFunc(j.Open(), func(o runlog.Question) bool { return o.Path == q.Path && o.Key == q.Key })
}

// askUntil asks for one answer until another process has answered a question, and reports whether one has.
func askUntil(ctx context.Context, answer Answering, q runlog.Question, came <-chan struct{}) (a *runlog.Answer, ok, other bool) {
	ctx, stop := context.WithCancel(ctx)
	heard := make(chan bool, 1)
	go func() {
		select {
		case <-came:
			stop()
			heard <- true
		case <-ctx.Done():
			heard <- false
		}
	}()
	a, ok = ask(ctx, answer, q)
	stop()
	if other = <-heard; !other {
		select {
		case <-came:
			other = true
		default:
		}
	}
	return a, ok, other
}

// ask asks for one answer. If the function panics, there is no answer.
func ask(ctx context.Context, answer Answering, q runlog.Question) (a *runlog.Answer, ok bool) {
	defer func() {
		if recover() != nil {
			a, ok = nil, false
		}
	}()
	a, ok = answer(ctx, q)
	return a, ok && a != nil
}

func (e *Engine) rest(ctx context.Context, j *journal.Journal, res *workflow.Result, why error, waiting []string) Outcome {
	if out, ok := stopped(ctx, j, why); ok {
		return out
	}
	out := Outcome{Status: runlog.Paused, Open: openFor(j), Children: slices.Sorted(maps.Keys(j.Children())), Short: j.Short()}
	if res != nil {
		out.Steps, out.Skipped = res.Steps, res.Skipped
	}
	if short, ok := errors.AsType[*runlog.BudgetError](why); ok {
		out.Short = short
	}
	if out.Short == nil && len(out.Open) == 0 {
		out.Short = e.shortOf(ctx, out.Children)
	}
	paused := runlog.RunPaused{Waiting: waiting, Waited: j.Waited()}
	if paused.Message = out.Short == nil && onlyMessages(out.Open); paused.Message && res != nil {
		out.Output = res.Output
	}
	if out.Short != nil {
		paused.Reason, paused.Short = out.Short.Error(), out.Short
	}
	out.end(ctx, j, runlog.KindRunPaused, paused)
	return out
}

// shortOf returns the limit that the first of several runs is paused for, nil if none is.
func (e *Engine) shortOf(ctx context.Context, runs []string) *runlog.BudgetError {
	for _, id := range runs {
		info, err := e.find(ctx, id)
		if err != nil || info.Status != runlog.Paused {
			continue
		}
		for r, err := range runlog.Records(ctx, e.store, id, info.Head) {
			var d runlog.RunPaused
			if err == nil && r.Kind == runlog.KindRunPaused && json.Unmarshal(r.Data, &d) == nil && d.Short != nil {
				d.Short.Run = cmp.Or(d.Short.Run, id)
				return d.Short
			}
		}
	}
	return nil
}

// onlyMessages reports whether a run only waits for the next message of a conversation.
func onlyMessages(open []runlog.Question) bool {
	return len(open) > 0 && !slices.ContainsFunc(open, func(q runlog.Question) bool { return q.Kind != runlog.QuestionMessage })
}

// end writes the last record of an execution. If the store is full, the run is parked; stores reserve some disk space for that. If that fails too, or
// for any other error, the run counts as interrupted.
func (o *Outcome) end(ctx context.Context, j *journal.Journal, kind runlog.Kind, data any) {
	ctx = context.WithoutCancel(ctx)
	err := j.Write(ctx, o.Status, kind, "", data)
	if full, ok := errors.AsType[*runlog.StorageError](err); ok {
		o.park(ctx, j, full)
		return
	}
	if err != nil {
		o.Status, o.Err = runlog.Interrupted, errors.Join(o.Err, err)
	}
}

// park changes the outcome to that of a run that waits for storage.
func (o *Outcome) park(ctx context.Context, j *journal.Journal, full *runlog.StorageError) {
	*o = Outcome{Status: runlog.WaitingStorage, Err: full}
	if err := j.Write(context.WithoutCancel(ctx), o.Status, runlog.KindRunPaused, "", runlog.RunPaused{Reason: full.Error()}); err != nil {
		o.Status = runlog.Interrupted // as which it can be resumed just as well
	}
}

// stopped returns the outcome of an execution that was cancelled, or stopped to be resumed later. It also carries out a requested cancellation that the
// execution has not noticed yet.
func stopped(ctx context.Context, j *journal.Journal, why error) (Outcome, bool) {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, journal.ErrCancelRequested), j.Cancelled(context.WithoutCancel(ctx)):
		out := Outcome{Status: runlog.Cancelled, Err: journal.ErrCancelRequested}
		out.end(ctx, j, runlog.KindRunCancelled, nil)
		return out, true
	case cause != nil:
		interrupted(ctx, j, cause)
		return Outcome{Status: runlog.Interrupted, Err: cause}, true
	case j.Pausing() != nil && (errors.Is(why, pregel.ErrStopped) || journal.Waits(why)):
		out := Outcome{Status: runlog.Paused, Open: openFor(j), Children: slices.Sorted(maps.Keys(j.Children()))}
		paused := *j.Pausing()
		paused.Waited = j.Waited()
		out.end(ctx, j, runlog.KindRunPaused, &paused)
		return out, true
	case errors.Is(why, runlog.ErrFenced), errors.Is(why, pregel.ErrStopped), errors.Is(why, runlog.ErrUnknown), errors.Is(why, runlog.ErrStoreReset):
		return Outcome{Status: runlog.Interrupted, Err: why}, true
	}
	if full, ok := errors.AsType[*runlog.StorageError](why); ok {
		var out Outcome
		out.park(ctx, j, full)
		return out, true
	}
	return Outcome{}, false
}

// interrupted records why the execution of a run ends before the run does, if that can be recorded.
func interrupted(ctx context.Context, j *journal.Journal, cause error) {
	data, err := json.Marshal(struct {
		Cause string `json:"cause"`
	}{cause.Error()})
	if err == nil && !errors.Is(cause, runlog.ErrFenced) {
		_ = j.Write(context.WithoutCancel(ctx), "", runlog.KindEvent, "", runlog.Event{Name: "interrupted", Data: data})
	}
}

// record writes the end of an execution into the log, if the outcome needs a record.
func record(ctx context.Context, j *journal.Journal, res *workflow.Result, err error) Outcome {
	out := Outcome{Err: err}
	if err != nil {
		var ok bool
		if out, ok = stopped(ctx, j, err); !ok {
			out = Outcome{Status: runlog.Failed, Err: err}
			out.end(ctx, j, runlog.KindRunFailed, failure(err))
		}
	}
	if res != nil {
		out.Steps, out.Skipped = res.Steps, res.Skipped
		if err == nil { // else it is that of the run so far
			out.Output = res.Output
		}
	}
	if err == nil {
		out.Status = runlog.Completed
		if len(out.Skipped) > 0 {
			out.Status = runlog.Partial
		}
		out.end(ctx, j, runlog.KindRunFinished, runlog.RunFinished{Output: out.Output, Steps: out.Steps, Skipped: out.Skipped})
	}
	return out
}

// The codes of RunFailed.
const (
	CodeTask    = "task"    // a task failed
	CodeLimit   = "limit"   // a step or time limit was reached
	CodeDenied  = "denied"  // a required action was denied
	CodeChanged = "changed" // the workflow is not the one that began the run
	CodeBudget  = "budget"  // a limit of the budget was reached beside any task; else the run pauses
)

// FailureCode returns the stable code of the reason why a run failed. If the error has a method FailureCode() string that does not return "", that is
// the code.
func FailureCode(err error) string {
	var coded interface {
		error
		FailureCode() string
	}
	switch {
	case errors.As(err, &coded) && coded.FailureCode() != "":
		return coded.FailureCode()
	case errors.Is(err, journal.ErrDenied):
		return CodeDenied
	case errors.As(err, new(*graph.StepLimitError)), errors.As(err, new(*graph.TimeoutError)),
		errors.As(err, new(*vertex.StepLimitError)), errors.As(err, new(*vertex.TimeoutError)):
		return CodeLimit
	case errors.As(err, new(*graph.ChangedError)):
		return CodeChanged
	}
	return CodeTask
}

func failure(err error) runlog.RunFailed {
	d := runlog.RunFailed{Error: err.Error(), Code: FailureCode(err)}
	if tasks, ok := errors.AsType[*graph.TasksError](err); ok {
		for i := range tasks.Tasks {
			d.Tasks = append(d.Tasks, tasks.Tasks[i].Path)
		}
	}
	return d
}

// A boundError reports that a run was not started because it may start more agents than its budget allows.
type boundError struct {
	Workflow string
	Agents   int
	Limit    int64
}

func (e *boundError) Error() string {
	return fmt.Sprintf("workflow %q may start %d agents, and the budget has %d; raise the limit of agents, or make its fans narrower", e.Workflow,
		e.Agents, e.Limit)
}

// FailureCode returns the code of runs that are not started for this reason.
func (e *boundError) FailureCode() string { return CodeBudget }

// bounded compares the number of agents that a run may start, where it is known, with its budget.
func bounded(w *workflow.Workflow, inputs json.RawMessage, budget *runlog.Budget) error {
	if budget == nil || budget.Agents <= 0 || w.Flow == nil {
		return nil
	}
	flow, err := w.Flow(inputs)
	if err != nil {
		return fmt.Errorf("workflow %q: %w", w.Name, err)
	}
	if agents, known := flow.Shape().Agents(); known && int64(agents) > budget.Agents {
		return &boundError{w.Name, agents, budget.Agents}
	}
	return nil
}
