package superstep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/carry"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// ForkOptions are the settings of Fork. Nil means the defaults.
type ForkOptions struct {
	// Edits change the initial state of the fork, see graph.Flow.Fork.
	Edits []graph.Edit
	// Again holds the paths of tasks to compute again, together with everything that depends on them. The fork keeps the parent's results of all other
	// tasks, also those after the given record; see graph.ForkPoint.
	Again []string
	Title string // defaults to that of the parent
	// Preview creates no run: the Fork has no ID, and has the state that the run would begin with.
	Preview bool
}

// A Fork is a run that was forked from another.
type Fork struct {
	ID     string   `json:"run"`
	Parent string   `json:"parent"`
	Seq    uint64   `json:"seq"`  // the record of the parent that its state is as of
	Step   int      `json:"step"` // how many supersteps it is spared
	Next   []string `json:"next"` // the paths of the tasks that it computes next
	// Workflow is the workflow given to ForkTo, "" for the parent's unchanged workflow. For ForkTo, Next lists all steps that are not kept.
	Workflow string   `json:"workflow,omitempty"`
	Kept     []string `json:"kept,omitempty"` // the paths of the tasks whose results it has beside these supersteps
	// Repeats lists the parent's effects that are not part of the fork. They will happen again
	// unless the fork takes another path.
	Repeats []Repeated `json:"repeats,omitempty"`
	Turns   int        `json:"turns,omitempty"` // of models, that may be asked and paid for again
	// State is the state that it would begin with, of a preview.
	State json.RawMessage `json:"state,omitempty"`
}

// Repeated is an effect that may happen twice.
type Repeated struct {
	Path string `json:"path"` // of the task
	Key  string `json:"key"`
	Kind string `json:"kind"`
	Name string `json:"name,omitempty"`
	Once bool   `json:"once,omitempty"` // it was declared to never happen twice
	// Unknown is set if Once is, and the record has no outcome of it: it may have happened, or a person said that it did.
	Unknown bool `json:"unknown,omitempty"`
}

// A RepeatError reports that a fork would do again what must never happen twice and may have happened.
type RepeatError struct {
	Run    string
	Effect Repeated
}

func (e *RepeatError) Error() string {
	return fmt.Sprintf("run %s: %q (%s) of task %s must never happen twice, its outcome is not recorded, and to go on would do it again", e.Run, e.Effect.Name, e.Effect.Kind, e.Effect.Path)
}

// Fork creates a new run that shares another run's history up to one of its records, or with Again everything that does not depend on these tasks. The
// parent may be running. The new run does not execute until Resume is called. The fork has its own log. The parent is never changed and may be deleted;
// the history before the fork is then lost, since the fork holds only the state. Effects without an outcome at that record are not carried over.
func (e *Engine) Fork(ctx context.Context, id string, at uint64, opt *ForkOptions) (*Fork, error) {
	var o ForkOptions
	if opt != nil {
		o = *opt
	}
	return e.fork(ctx, id, at, &o, func(*Repeated) error { return nil })
}

// fork is Fork. Allow returns an error if an effect must not be repeated; the fork is not made then.
func (e *Engine) fork(ctx context.Context, id string, at uint64, o *ForkOptions, allow func(*Repeated) error) (*Fork, error) {
	leave, err := e.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	started, flow, err := e.forkable(ctx, id)
	if err != nil {
		return nil, err
	}
	if o.Edits, err = e.edits(&started, o.Edits); err != nil {
		return nil, err
	}
	forked, err := flow.Fork(runlog.Records(ctx, e.store, id, 0), &graph.ForkPoint{At: at, Again: o.Again, Edits: o.Edits})
	if err != nil {
		return nil, err
	}
	out := &Fork{Parent: id, Seq: forked.Seq, Step: forked.Step, Next: forked.Next, Kept: forked.Kept}
	if len(o.Edits) > 0 || at == 0 {
		at = forked.Seq
	}
	if err := e.repeats(ctx, out, at, forked, len(o.Edits) > 0); err != nil {
		return nil, err
	}
	for i := range out.Repeats {
		if err := allow(&out.Repeats[i]); err != nil {
			return nil, err
		}
	}
	if o.Preview {
		out.State, err = stateOf(flow, forked.Records)
		return out, err
	}
	started.Parent, started.At, started.Trace = id, at, ""
	if started.Imported != nil { // the fork is imported too; its own records come from no file
		im := *started.Imported
		im.Records, started.Imported = 0, &im
	}
	if o.Title != "" {
		started.Title = o.Title
	}
	out.ID, err = e.beginFork(ctx, &started, forked.Records)
	return out, err
}

// stateOf returns the state that a run begins with.
func stateOf(flow graph.Reading, recs []runlog.Record) (json.RawMessage, error) {
	for m, err := range flow.Checkpoints(func(yield func(runlog.Record, error) bool) {
		for _, r := range recs {
			if !yield(r, nil) {
				return
			}
		}
	}) {
		return m.State, err
	}
	return nil, nil
}

// forkable is like reading, but fails for a run that is not trusted.
func (e *Engine) forkable(ctx context.Context, id string) (runlog.RunStarted, graph.Reading, error) {
	started, flow, err := e.reading(ctx, id)
	if err == nil {
		err = e.trusts(id, started.Imported)
	}
	return started, flow, err
}

// ForkFailed forks a Partial run: the fork has the results of the parent, except those of the tasks
// that failed and of all that depends on them. Resume executes it. A *PointError names another run
// if [Engine.Failed] does. ForkFailed returns a *RepeatError rather than repeat an effect that is Unknown; Fork with Again repeats it.
func (e *Engine) ForkFailed(ctx context.Context, id string) (*Fork, error) {
	in, tasks, err := e.Failed(ctx, id)
	if err != nil {
		return nil, err
	}
	if in != id {
		return nil, noPoint("run %s began after task %s had failed: fork run %s from %s", id, tasks[0], in, tasks[0])
	}
	return e.fork(ctx, id, 0, &ForkOptions{Again: tasks}, func(r *Repeated) error {
		if r.Unknown {
			return &RepeatError{id, *r}
		}
		return nil
	})
}

// Failed returns the paths of the tasks for which a run is Partial, and the run that has their results in its log.
// If the run is a fork made after some of them had failed, these are returned, with the run that it was forked from.
func (e *Engine) Failed(ctx context.Context, id string) (in string, tasks []string, err error) {
	info, err := e.find(ctx, id)
	if err != nil {
		return "", nil, err
	}
	if info.Status != runlog.Partial {
		return "", nil, noPoint("run %s is %s; only a partial run has tasks that failed and were skipped", id, info.Status)
	}
	var d runlog.RunFinished
	for r, err := range runlog.Records(ctx, e.store, id, info.Head) {
		if err == nil {
			err = json.Unmarshal(r.Data, &d)
		}
		if err != nil {
			return "", nil, err
		}
	}
	if len(d.Skipped) == 0 {
		return "", nil, noPoint("run %s does not say which tasks failed", id)
	}
	in, tasks = id, d.Skipped
	for {
		missing, err := e.missing(ctx, in, tasks)
		if err != nil || len(missing) == 0 {
			return in, tasks, err
		}
		started, err := e.started(ctx, in)
		if err != nil {
			return "", nil, err
		}
		if started.Parent != "" {
			_, err = e.find(ctx, started.Parent)
		}
		if started.Parent == "" || errors.As(err, new(*runlog.NotFoundError)) {
			return "", nil, noPoint("task %s failed before run %s began, and the run that it was forked from is gone; start a new run", missing[0], in)
		}
		if err != nil {
			return "", nil, err
		}
		in, tasks = started.Parent, missing
	}
}

// missing returns the paths of the tasks that have no result in the log of a run.
func (e *Engine) missing(ctx context.Context, id string, tasks []string) ([]string, error) {
	done := map[string]bool{}
	for r, err := range runlog.Records(ctx, e.store, id, 0) {
		if err != nil {
			return nil, err
		}
		if r.Kind == runlog.KindTaskDone {
			done[r.Path] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(tasks), func(path string) bool { return within(done, path) }), nil
}

// ForkTo creates a new run of a workflow out of a run of another version of it. It takes over the results of the steps
// that are the same in both, with all that they depend on, and the inputs that the workflow still has. Resume executes it.
func (e *Engine) ForkTo(ctx context.Context, id string, w *workflow.Workflow) (*Fork, error) {
	leave, err := e.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	started, flow, err := e.forkable(ctx, id)
	if err != nil {
		return nil, err
	}
	if w.Adopt == nil || w.Pin == nil || started.Pinned == nil {
		return nil, noPoint("run %s and workflow %q are not both recipes; only recipes take over the results of unchanged steps", id, w.Name)
	}
	past := &workflow.Past{Inputs: started.Inputs, Pinned: started.Pinned}
	head, carrier := uint64(0), &journal.Carrier{}
	for m, err := range flow.Checkpoints(runlog.Records(ctx, e.store, id, 0)) {
		if err != nil {
			return nil, err
		}
		past.State = m.State
	}
	for r, err := range runlog.Records(ctx, e.store, id, 0) {
		if err != nil {
			return nil, err
		}
		head = r.Seq
		if err := carrier.Note(&r); err != nil {
			return nil, err
		}
		if r.Kind != runlog.KindTaskDone || strings.Contains(r.Path, "/") {
			continue
		}
		var d runlog.TaskDone
		if err := d.Parse(r.Data); err != nil {
			return nil, err
		}
		past.Done = append(past.Done, d.Update)
	}
	before, err := e.workflowOf(&started)
	if err != nil {
		return nil, err
	}
	inputs, err := w.Settle(given(before, w, started.Inputs))
	if err != nil {
		return nil, err
	}
	begun := runlog.RunStarted{
		Workflow: w.Name, Inputs: inputs, Engine: Version, Sandbox: e.opt.Sandbox(), Title: started.Title, Timed: true,
		Parent: id, At: head, Budget: started.Budget, Every: started.Every, Imported: started.Imported, Folder: started.Folder,
	}
	if begun.Pinned, err = w.Pin(inputs); err != nil {
		return nil, err
	}
	if w.Budget != nil {
		begun.Budget = w.Budget
	}
	forked, err := w.Adopt(inputs, begun.Pinned, past)
	if err != nil {
		return nil, err
	}
	out := &Fork{Parent: id, Seq: head, Next: forked.Next, Kept: forked.Kept, Workflow: w.Name}
	if err := e.repeats(ctx, out, head, forked, false); err != nil {
		return nil, err
	}
	if marks := carrier.Marks(); marks != nil {
		b, err := json.Marshal(carry.Data{Granted: marks})
		if err != nil {
			return nil, err
		}
		forked.Records = append(forked.Records, runlog.Record{Kind: carry.Kind, Data: b})
	}
	out.ID, err = e.beginFork(ctx, &begun, forked.Records)
	return out, err
}

// given returns the inputs of a run that differ from the old workflow's defaults and that the new workflow has too.
func given(before, w *workflow.Workflow, inputs json.RawMessage) json.RawMessage {
	values := map[string]json.RawMessage{}
	if json.Unmarshal(inputs, &values) != nil {
		return inputs
	}
	has := map[string]bool{}
	for _, in := range w.List() {
		has[in.Name] = true
	}
	for _, in := range before.List() {
		if changes, err := Diff(in.Default, values[in.Name]); in.Default != nil && err == nil && len(changes) == 0 {
			delete(values, in.Name)
		}
	}
	maps.DeleteFunc(values, func(name string, _ json.RawMessage) bool { return !has[name] })
	b, err := json.Marshal(values)
	if err != nil {
		return inputs
	}
	return b
}

// edits returns the edits that the run's workflow derives from the given values.
func (e *Engine) edits(started *runlog.RunStarted, given []graph.Edit) ([]graph.Edit, error) {
	if len(given) == 0 {
		return nil, nil
	}
	w, err := e.workflowOf(started)
	if err != nil || w.Edit == nil {
		return given, err
	}
	out := slices.Clone(given)
	for i := range out {
		if out[i].Node == "" {
			continue
		}
		if out[i].Update, err = w.Edit(out[i].Node, out[i].Update); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// begin creates a run with the given records, and with the ID unless it is "". No process executes it yet.
func (e *Engine) begin(ctx context.Context, id string, started *runlog.RunStarted, recs []runlog.Record) (_ string, err error) {
	j, err := e.create(ctx, id, &journal.Options{Create: &runlog.NewRun{Workflow: started.Workflow, Title: started.Title, Parent: parentOf(started)}})
	if err != nil {
		return "", err
	}
	if j.Info().Head > 0 {
		return "", errors.Join(&ConflictError{id, "it has records"}, j.Close(context.WithoutCancel(ctx)))
	}
	batch := make([]runlog.Record, len(recs)+1)
	if batch[0], err = j.New(runlog.KindRunStarted, "", started); err == nil {
		for i := range recs {
			batch[i+1] = recs[i]
			batch[i+1].Time = batch[0].Time
		}
		status := runlog.Running
		if started.Queue != nil {
			status = runlog.Queued
		} else if len(recs) > 0 && recs[len(recs)-1].Kind == runlog.KindRunPaused {
			status = runlog.Paused
		}
		err = notCreated(j.Append(ctx, status, batch...))
	}
	return j.ID(), errors.Join(err, j.Close(context.WithoutCancel(ctx)))
}

// beginFork creates a fork. It is paused, so that no worker executes it before anybody resumes it.
func (e *Engine) beginFork(ctx context.Context, started *runlog.RunStarted, recs []runlog.Record) (string, error) {
	b, err := json.Marshal(runlog.RunPaused{By: "fork"})
	if err != nil {
		return "", err
	}
	return e.begin(ctx, "", started, append(recs, runlog.Record{Kind: runlog.KindRunPaused, Data: b}))
}

// parentOf returns the run that a run is a fork or a child of, "" for none.
func parentOf(started *runlog.RunStarted) string {
	if started.Child != nil {
		return started.Child.Parent
	}
	return started.Parent
}

// repeats finds effects of the parent that are not in the log of the fork.
func (e *Engine) repeats(ctx context.Context, f *Fork, at uint64, forked *graph.Forked, edited bool) error {
	type effect struct{ path, key string }
	var order []effect
	found := map[effect]Repeated{}
	settled := map[effect]bool{} // with an outcome that the fork may have
	done := map[string]bool{}    // tasks with a result that it may have
	for r, err := range runlog.Records(ctx, e.store, f.Parent, 0) {
		if err != nil {
			return err
		}
		has := r.Seq <= at || forked.Partial()
		switch r.Kind {
		case runlog.KindTaskDone:
			if has {
				done[r.Path] = true
			}
		case runlog.KindIntended:
			var d runlog.Intended
			if err := json.Unmarshal(r.Data, &d); err != nil {
				return err
			}
			k := effect{r.Path, d.Key}
			if _, twice := found[k]; !twice {
				order = append(order, k)
			}
			found[k] = Repeated{Path: r.Path, Key: d.Key, Kind: d.Kind, Name: d.Name, Once: d.Once, Unknown: d.Once}
			delete(settled, k)
		case runlog.KindSettled:
			var d runlog.Settled
			if err := json.Unmarshal(r.Data, &d); err != nil {
				return err
			}
			k := effect{r.Path, d.Key}
			if x, intended := found[k]; intended {
				x.Unknown = false
				found[k] = x
			}
			if has && d.Error == "" && (!edited || forked.Partial()) {
				settled[k] = true
			}
		}
	}
	for _, k := range order {
		knows := (settled[k] || within(done, k.path)) && !forked.Redoes(k.path, k.key)
		switch {
		case knows:
		case found[k].Kind == "model":
			f.Turns++
		default:
			f.Repeats = append(f.Repeats, found[k])
		}
	}
	return nil
}

// within reports whether a path belongs to one of the tasks or lies inside one.
func within(tasks map[string]bool, path string) bool {
	for {
		if tasks[path] {
			return true
		}
		i := strings.LastIndexByte(path, '/')
		if i < 0 {
			return false
		}
		path = path[:i]
	}
}
