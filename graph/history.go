package graph

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/superstep-dev/superstep/internal/pregel"
	"github.com/superstep-dev/superstep/runlog"
)

// A Checkpoint is a run of a graph between two supersteps.
type Checkpoint[S any] struct {
	Seq     uint64   // the record that made it: the one that committed the superstep, or began the graph
	Step    int      // how many supersteps have been committed
	State   S        // after them
	Tasks   []Result // what the last of them computed, in the order of the fold
	Next    []string // the paths of the tasks of the superstep to come; none at the end
	Skipped []string // the paths of all tasks that were skipped so far
}

// A Result is the result of a task.
type Result struct {
	Path   string          `json:"path"`
	Node   string          `json:"node"`
	Key    string          `json:"key,omitempty"`
	Update json.RawMessage `json:"update,omitempty"`
	Vote   string          `json:"vote,omitempty"`   // "stay" or "complete"; "" if it halted
	Error  string          `json:"error,omitempty"`  // of one that failed and was skipped
	Caught bool            `json:"caught,omitempty"` // its failure was sent to a node that takes care of it
	Fixed  string          `json:"fixed,omitempty"`  // the node whose update Fix amends
	Fix    json.RawMessage `json:"fix,omitempty"`
}

// A Reading reads the log of a run without knowing the types of its graph. Every *Flow is a
// Reading. Only the reducer is executed.
type Reading interface {
	Name() string
	Shape() Shape
	// Checkpoints is History with the states as JSON.
	Checkpoints(records iter.Seq2[runlog.Record, error]) iter.Seq2[Checkpoint[json.RawMessage], error]
	// Fork returns the data that a new run needs to continue from a checkpoint of this run.
	Fork(records iter.Seq2[runlog.Record, error], p *ForkPoint) (*Forked, error)
	// Seed returns the data for a new run in which the named nodes already have the given updates;
	// see [Flow.Seed].
	Seed(updates map[string]json.RawMessage) (*Forked, error)

	inside(path string) (inner Reading, calls string, err error)
	at(space string) Reading // the same graph, run within a task
}

// past returns a fold over the log of a whole run, which may be of another version of the graph.
func (f *core) past() *fold {
	return &fold{flow: f, changed: func(name string, shape *Shape) error {
		switch {
		case name != f.name:
			return &ChangedError{Graph: f.name, Diff: []string{fmt.Sprintf("the run is of graph %q", name)}}
		case shape == nil:
			return &ChangedError{Graph: f.name, Diff: []string{"its record of the first version is missing"}}
		}
		return &ChangedError{Graph: f.name, Diff: shape.diff(f.shape)}
	}}
}

// History folds the records of a run of the graph, from the first on, and yields a checkpoint for
// its beginning and for every superstep. Graphs inside of tasks are ignored, see [Inside]. It ends after the last record
// or with an error: the records' own error, a *ChangedError, or an error for a record that does not
// match the graph. The states must not be changed; they share memory.
func (f *Flow[S, U]) History(records iter.Seq2[runlog.Record, error]) iter.Seq2[Checkpoint[S], error] {
	return func(yield func(Checkpoint[S], error) bool) {
		for c, err := range f.engine.history(records, "") {
			out := Checkpoint[S]{Seq: c.Seq, Step: c.Step, Tasks: c.Tasks, Next: c.Next, Skipped: c.Skipped}
			if s, ok := c.State.(*S); ok {
				out.State = *s
			}
			if !yield(out, err) {
				return
			}
		}
	}
}

// history is History of the graph that runs in a space. A state is that of the checkpoint until the next one.
func (f *core) history(records iter.Seq2[runlog.Record, error], space string) iter.Seq2[Checkpoint[any], error] {
	return func(yield func(Checkpoint[any], error) bool) {
		past := f.past()
		past.space = space
		failures := map[string]runlog.TaskDone{} // of tasks that were skipped, by path
		for r, err := range records {
			if err != nil {
				yield(Checkpoint[any]{}, err)
				return
			}
			if !past.owns(&r) || past.known(&r) {
				continue
			}
			var tasks []Result
			switch r.Kind {
			case runlog.KindTaskDone:
				var d runlog.TaskDone
				if d.Parse(r.Data) == nil && d.Error != "" {
					failures[r.Path] = d
				}
			case runlog.KindStepCommitted:
				if tasks, err = past.results(failures); err != nil {
					yield(Checkpoint[any]{}, err)
					return
				}
			}
			if err := past.apply(&r); err != nil && !past.other(err) {
				yield(Checkpoint[any]{}, err)
				return
			}
			if r.Kind != runlog.KindTaskDone && past.m != nil && !yield(past.checkpoint(r.Seq, tasks), nil) {
				return
			}
		}
		if past.m == nil && past.adopted != nil {
			yield(Checkpoint[any]{}, past.adopted)
		}
	}
}

// known reports whether a record is a snapshot without new information. A snapshot with a shape
// belongs to the version of the graph with which the run continues.
func (d *fold) known(r *runlog.Record) bool {
	if r.Kind != runlog.KindSnapshot || d.m == nil {
		return false
	}
	var s struct {
		Shape json.RawMessage `json:"shape"`
	}
	return json.Unmarshal(r.Data, &s) == nil && s.Shape == nil
}

// other reports whether an error means that the run continues with another version of the graph
// from here on. Later it may return to this one.
func (d *fold) other(err error) bool {
	var changed *ChangedError
	if !errors.As(err, &changed) || changed.Graph != d.flow.name {
		return false
	}
	d.m, d.adopted = nil, err
	return true
}

// results returns the results of the superstep that is about to be committed.
func (d *fold) results(failures map[string]runlog.TaskDone) ([]Result, error) {
	if d.m == nil {
		return nil, nil
	}
	out := make([]Result, 0, len(d.m.Tasks()))
	for i := range d.m.Tasks() {
		t, res := &d.m.Tasks()[i], d.m.Result(i)
		r := Result{Path: d.flow.path(d.space, t), Node: d.flow.nodes[t.Vertex].Name, Key: t.Key, Vote: votes()[res.Vote]}
		var err error
		r.Error, r.Caught = failures[r.Path].Error, res.Outcome == pregel.Caught
		delete(failures, r.Path) // those of tasks that started early are for a later superstep
		if res.Outcome == pregel.Done {
			if r.Update, err = json.Marshal(res.Update); err != nil {
				return nil, fmt.Errorf("the update of %s: %w", r.Path, err)
			}
		}
		if res.Fix != nil {
			r.Fixed = d.flow.nodes[res.Fix.Vertex].Name
			if r.Fix, err = json.Marshal(res.Fix.Update); err != nil {
				return nil, fmt.Errorf("what %s amended: %w", r.Path, err)
			}
		}
		out = append(out, r)
	}
	return out, nil
}

func (d *fold) checkpoint(seq uint64, tasks []Result) Checkpoint[any] {
	return Checkpoint[any]{Seq: seq, Step: d.m.Step(), State: d.m.State(), Tasks: tasks, Next: d.next(), Skipped: slices.Clone(d.skipped)}
}

func (d *fold) next() []string {
	var out []string
	for i := range d.m.Tasks() {
		out = append(out, d.flow.path(d.space, &d.m.Tasks()[i]))
	}
	return out
}

// Checkpoints implements Reading.
func (f *flow) Checkpoints(records iter.Seq2[runlog.Record, error]) iter.Seq2[Checkpoint[json.RawMessage], error] {
	return f.engine.Checkpoints(records)
}

// Checkpoints implements Reading.
func (f *core) Checkpoints(records iter.Seq2[runlog.Record, error]) iter.Seq2[Checkpoint[json.RawMessage], error] {
	return f.checkpoints(records, "")
}

func (f *core) checkpoints(records iter.Seq2[runlog.Record, error], space string) iter.Seq2[Checkpoint[json.RawMessage], error] {
	return func(yield func(Checkpoint[json.RawMessage], error) bool) {
		for c, err := range f.history(records, space) {
			out := Checkpoint[json.RawMessage]{Seq: c.Seq, Step: c.Step, Tasks: c.Tasks, Next: c.Next, Skipped: c.Skipped}
			if err == nil {
				out.State, err = json.Marshal(f.types.value(c.State))
			}
			if !yield(out, err) || err != nil {
				return
			}
		}
	}
}

// StateAt returns the state of a run as of a record: the state after the last superstep committed
// before it. The records are the run's log, from its first record on.
func (f *Flow[S, U]) StateAt(records iter.Seq2[runlog.Record, error], seq uint64) (S, error) {
	var last Checkpoint[S]
	for c, err := range f.History(records) {
		if err != nil {
			return last.State, err
		}
		if c.Seq > seq {
			break
		}
		last = c
	}
	if last.Seq == 0 {
		return last.State, notBegun(seq)
	}
	return last.State, nil
}

func notBegun(seq uint64) error {
	return fmt.Errorf("at record %d the graph of the run had not begun; choose a later one", seq)
}
