package superstep

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/runlog"
)

// ForkOptions are the settings of Fork. Nil means the defaults.
type ForkOptions struct {
	// Edits change the state that the fork goes on with, see graph.Flow.Fork. With them
	// nothing of the superstep that was under way is kept.
	Edits []graph.Edit
	// From is a node that is to compute anew, and with it all that it leads to, even if some of
	// them had begun before their superstep. Defaults to none, so that what they gave is kept.
	From  string
	Title string // defaults to that of the parent
}

// A Fork is a run that was made of another.
type Fork struct {
	ID     string   `json:"run"`
	Parent string   `json:"parent"`
	Seq    uint64   `json:"seq"`  // the record of the parent that its state is as of
	Step   int      `json:"step"` // how many supersteps it is spared
	Next   []string `json:"next"` // the paths of the tasks that it computes next
	// Repeats are what the parent has done to the world, or asked somebody else to do,
	// that is not part of the fork: it will be done again, unless the fork goes another way.
	Repeats []Repeated `json:"repeats,omitempty"`
	Turns   int        `json:"turns,omitempty"` // of models, that may be asked and paid for again
}

// Repeated is an effect that may happen twice.
type Repeated struct {
	Path string `json:"path"` // of the task
	Key  string `json:"key"`
	Kind string `json:"kind"`
	Name string `json:"name,omitempty"`
	Once bool   `json:"once,omitempty"` // it was declared to never happen twice
}

// Fork makes a new run that shares everything with another up to a record of it, which
// may be running. The new run executes nothing yet: Resume takes it up. Its log is its own and goes on
// without the parent, which is never changed and may be deleted; lost with it is what
// happened before the fork, of which the fork has the state alone. Effects without an
// outcome at that record are not carried over.
func (e *Engine) Fork(ctx context.Context, id string, at uint64, opt *ForkOptions) (*Fork, error) {
	leave, err := e.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	var o ForkOptions
	if opt != nil {
		o = *opt
	}
	started, flow, err := e.reading(ctx, id)
	if err != nil {
		return nil, err
	}
	if o.Edits, err = e.edits(&started, o.Edits); err != nil {
		return nil, err
	}
	records := runlog.Records(ctx, e.store, id, 0)
	if o.From != "" {
		if records, err = e.without(ctx, id, flow, at, o.From); err != nil {
			return nil, err
		}
	}
	forked, err := flow.Fork(records, at, o.Edits)
	if err != nil {
		return nil, err
	}
	out := &Fork{Parent: id, Seq: forked.Seq, Step: forked.Step, Next: forked.Next}
	if len(o.Edits) > 0 {
		at = forked.Seq
	}
	if err := e.repeats(ctx, out, at, len(o.Edits) > 0); err != nil {
		return nil, err
	}
	started.Parent, started.At = id, at
	if o.Title != "" {
		started.Title = o.Title
	}
	out.ID, err = e.begin(ctx, &started, forked.Records)
	return out, err
}

// edits are those that the workflow of a run makes of what is given.
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

// without are the records of a run but for those of a node and of all that it leads to, as far as
// their supersteps had not been committed at a record.
func (e *Engine) without(ctx context.Context, id string, flow graph.Reading, at uint64, node string) (iter.Seq2[runlog.Record, error], error) {
	shape := flow.Shape()
	if !slices.ContainsFunc(shape.Nodes, func(n graph.ShapeNode) bool { return n.Name == node }) {
		return nil, noPoint("the graph of run %s has no step %q", id, node)
	}
	gone := map[string]bool{node: true}
	for grown := true; grown; {
		grown = false
		for _, edge := range shape.Edges {
			if gone[edge.From] && !gone[edge.To] {
				gone[edge.To], grown = true, true
			}
		}
	}
	committed, ended := -1, map[string]int{} // the superstep of each task with a result
	for r, err := range runlog.Records(ctx, e.store, id, 0) {
		if err != nil {
			return nil, err
		}
		if r.Seq > at {
			break
		}
		switch {
		case r.Kind == runlog.KindStepCommitted && r.Path == "":
			var d runlog.StepCommitted
			if err := json.Unmarshal(r.Data, &d); err != nil {
				return nil, err
			}
			committed = d.Step
		case r.Kind == runlog.KindTaskDone:
			var d runlog.TaskDone
			if err := d.Parse(r.Data); err != nil {
				return nil, err
			}
			ended[r.Path] = d.Step
		}
	}
	return func(yield func(runlog.Record, error) bool) {
		begun := false
		for r, err := range runlog.Records(ctx, e.store, id, 0) {
			top, _, _ := strings.Cut(r.Path, "/")
			name := top
			if i := strings.IndexAny(top, "[#"); i >= 0 {
				name = top[:i]
			}
			step, done := ended[top]
			begun = begun || r.Kind == runlog.KindTaskDone
			switch {
			case err != nil:
			case r.Path != "" && gone[name] && (!done || step > committed):
				continue
			case begun && r.Kind == runlog.KindCarried: // all that is in it was read
				continue
			}
			if !yield(r, err) {
				return
			}
		}
	}, nil
}

// begin makes a run that has records and is executed by nobody.
func (e *Engine) begin(ctx context.Context, started *runlog.RunStarted, recs []runlog.Record) (id string, err error) {
	var j *runlog.Journal
	for range 10 { // a short ID may be taken
		j, err = e.journal(ctx, e.opt.NewID(), &runlog.NewRun{Workflow: started.Workflow, Title: started.Title, Parent: started.Parent})
		if !errors.Is(err, runlog.ErrExists) {
			break
		}
	}
	if err != nil {
		return "", err
	}
	batch := make([]runlog.Record, len(recs)+1)
	if batch[0], err = j.New(runlog.KindRunStarted, "", started); err == nil {
		for i := range recs {
			batch[i+1] = recs[i]
			batch[i+1].Time = batch[0].Time
		}
		err = j.Append(ctx, runlog.Running, batch...)
	}
	return j.ID(), errors.Join(err, j.Close(context.WithoutCancel(ctx)))
}

// repeats finds what the parent has done that a fork of it does not know of. With fresh,
// nothing is carried that tasks did before they ended.
func (e *Engine) repeats(ctx context.Context, f *Fork, at uint64, fresh bool) error {
	type effect struct{ path, key string }
	var order []effect
	found := map[effect]Repeated{}
	done := map[string]bool{} // tasks with a result in the fork
	for r, err := range runlog.Records(ctx, e.store, f.Parent, 0) {
		if err != nil {
			return err
		}
		switch r.Kind {
		case runlog.KindTaskDone:
			if r.Seq <= at {
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
			found[k] = Repeated{Path: r.Path, Key: d.Key, Kind: d.Kind, Name: d.Name, Once: d.Once}
		case runlog.KindSettled:
			var d runlog.Settled
			if err := json.Unmarshal(r.Data, &d); err != nil {
				return err
			}
			if k := (effect{r.Path, d.Key}); r.Seq <= at && !fresh && d.Error == "" {
				delete(found, k) // it is carried
			}
		}
	}
	for _, k := range order {
		r, ok := found[k]
		switch {
		case !ok || within(done, k.path):
		case r.Kind == "model":
			f.Turns++
		default:
			f.Repeats = append(f.Repeats, r)
		}
		delete(found, k)
	}
	return nil
}

// within reports whether a path is that of one of the tasks, or of something inside of one.
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
