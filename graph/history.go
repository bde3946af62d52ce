package graph

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/pregel"
	"github.com/superstep-dev/superstep/runlog"
)

// A Checkpoint is a run of a graph between two supersteps.
type Checkpoint[S any] struct {
	Seq     uint64   // the record that made it: the one that committed the superstep, or began the graph
	Step    int      // how many supersteps have been committed
	State   S        // after them
	Tasks   []Result // what the last of them computed, in the order of the fold
	Next    []string // the paths of the tasks of the superstep to come; none at the end
	Skipped []string // the paths of all tasks that were passed over so far
}

// A Result is what became of a task.
type Result struct {
	Path   string          `json:"path"`
	Node   string          `json:"node"`
	Key    string          `json:"key,omitempty"`
	Update json.RawMessage `json:"update,omitempty"`
	Error  string          `json:"error,omitempty"`  // of one that failed and was passed over
	Caught bool            `json:"caught,omitempty"` // its failure was sent to a node that takes care of it
	Fixed  string          `json:"fixed,omitempty"`  // the node whose update Fix amends
	Fix    json.RawMessage `json:"fix,omitempty"`
}

// A Reading is a graph for those who have the log of a run of it and do not know its
// types. Every *Flow is one. Nothing is executed, but for the reducer.
type Reading interface {
	Name() string
	Shape() Shape
	// Checkpoints is History with the states as JSON.
	Checkpoints(records iter.Seq2[runlog.Record, error]) iter.Seq2[Checkpoint[json.RawMessage], error]
	// Fork gives what another run needs to go on from a record of this one.
	Fork(records iter.Seq2[runlog.Record, error], at uint64, edits []Edit) (*Forked, error)
}

// past is a fold over the log of a whole run, which may be of another version of the graph.
func (f *Flow[S, U]) past() *fold[S, U] {
	return &fold[S, U]{flow: f, changed: func(name string, shape *Shape) error {
		switch {
		case name != f.name:
			return &ChangedError{Graph: f.name, Diff: []string{fmt.Sprintf("the run is of graph %q", name)}}
		case shape == nil:
			return &ChangedError{Graph: f.name, Diff: []string{"its record of the first version is missing"}}
		}
		return &ChangedError{Graph: f.name, Diff: shape.diff(f.shape)}
	}}
}

// History folds the records of a run of the graph, from the first on, and yields a
// checkpoint for its beginning and for every superstep. Graphs inside of it are passed
// over. It ends with the records, or with an error: theirs, a *ChangedError, or that a
// record does not fit. The states must not be changed; they share memory.
func (f *Flow[S, U]) History(records iter.Seq2[runlog.Record, error]) iter.Seq2[Checkpoint[S], error] {
	return func(yield func(Checkpoint[S], error) bool) {
		past := f.past()
		failures := map[string]runlog.TaskDone{} // of tasks that were passed over, by path
		for r, err := range records {
			if err != nil {
				yield(Checkpoint[S]{}, err)
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
					yield(Checkpoint[S]{}, err)
					return
				}
			}
			if err := past.apply(&r); err != nil && !past.other(err) {
				yield(Checkpoint[S]{}, err)
				return
			}
			if r.Kind != runlog.KindTaskDone && past.m != nil && !yield(past.checkpoint(r.Seq, tasks), nil) {
				return
			}
		}
		if past.m == nil && past.adopted != nil {
			yield(Checkpoint[S]{}, past.adopted)
		}
	}
}

// known reports whether a record is a snapshot that says nothing new. One with a shape is
// of the version of the graph that the run goes on with.
func (d *fold[S, U]) known(r *runlog.Record) bool {
	if r.Kind != runlog.KindSnapshot || d.m == nil {
		return false
	}
	var s struct {
		Shape json.RawMessage `json:"shape"`
	}
	return json.Unmarshal(r.Data, &s) == nil && s.Shape == nil
}

// other reports whether an error says that from here on the run is of another version of
// the graph. Later it may be of this one.
func (d *fold[S, U]) other(err error) bool {
	var changed *ChangedError
	if !errors.As(err, &changed) || changed.Graph != d.flow.name {
		return false
	}
	d.m, d.adopted = nil, err
	return true
}

// results are those of the superstep that is about to be committed.
func (d *fold[S, U]) results(failures map[string]runlog.TaskDone) ([]Result, error) {
	if d.m == nil {
		return nil, nil
	}
	out := make([]Result, 0, len(d.m.Tasks()))
	for i := range d.m.Tasks() {
		t, res := &d.m.Tasks()[i], d.m.Result(i)
		r := Result{Path: d.flow.path(d.space, t), Node: d.flow.nodes[t.Vertex].Name, Key: t.Key}
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

func (d *fold[S, U]) checkpoint(seq uint64, tasks []Result) Checkpoint[S] {
	return Checkpoint[S]{Seq: seq, Step: d.m.Step(), State: d.m.State(), Tasks: tasks, Next: d.next(), Skipped: slices.Clone(d.skipped)}
}

func (d *fold[S, U]) next() []string {
	var out []string
	for i := range d.m.Tasks() {
		out = append(out, d.flow.path(d.space, &d.m.Tasks()[i]))
	}
	return out
}

// Checkpoints implements Reading.
func (f *Flow[S, U]) Checkpoints(records iter.Seq2[runlog.Record, error]) iter.Seq2[Checkpoint[json.RawMessage], error] {
	return func(yield func(Checkpoint[json.RawMessage], error) bool) {
		for c, err := range f.History(records) {
			out := Checkpoint[json.RawMessage]{Seq: c.Seq, Step: c.Step, Tasks: c.Tasks, Next: c.Next, Skipped: c.Skipped}
			if err == nil {
				out.State, err = json.Marshal(c.State)
			}
			if !yield(out, err) || err != nil {
				return
			}
		}
	}
}

// StateAt gives the state that a run had when a record of it was the last: as of the
// superstep that was committed by then. Records are those of the run, from the first on.
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

// An Edit is an update that a run is to have had.
type Edit struct {
	// Node is who is to have made the update, which those see who read that node.
	// "" is nobody: it is as if the run had begun with it, and everybody sees it.
	Node   string
	Update json.RawMessage // fits the update type of the graph; unknown fields are refused
}

// Forked is what a new run needs to go on where another was.
type Forked struct {
	// Records are to follow the run.started of the new run, all in one batch. They have
	// neither Seq nor Time.
	Records []runlog.Record
	Seq     uint64   // the record of the checkpoint that the new run begins with
	Step    int      // how many supersteps it has been spared
	Next    []string // the paths of the tasks that it computes next
}

// Fork makes the beginning of a new run of what another had when the record at was its
// last. Of the superstep under way it keeps the results, and the settled effects and
// answers of tasks that had not ended; an effect without an outcome is not carried. With
// edits, which are folded into the state in their order, nothing of that superstep is
// kept, since it was computed without them. Who computes in it is not decided anew: to
// change what a branch chose, fork from before the node that it follows.
func (f *Flow[S, U]) Fork(records iter.Seq2[runlog.Record, error], at uint64, edits []Edit) (*Forked, error) {
	past := f.past()
	var carrier runlog.Carrier
	var pending []runlog.Record // results since the checkpoint
	out := &Forked{}
	for r, err := range records {
		if err != nil {
			return nil, err
		}
		if r.Seq > at {
			break
		}
		if err := carrier.Note(&r); err != nil {
			return nil, err
		}
		if !past.owns(&r) || past.known(&r) {
			continue
		}
		if r.Kind == runlog.KindTaskDone {
			pending = append(pending, r)
			continue
		}
		for i := range pending {
			if err := past.apply(&pending[i]); err != nil {
				return nil, err
			}
		}
		if err := past.apply(&r); err != nil && !past.other(err) {
			return nil, err
		}
		pending, out.Seq = nil, r.Seq
	}
	if past.m == nil {
		if past.adopted != nil {
			return nil, past.adopted
		}
		return nil, notBegun(at)
	}
	snap := snapshot[S, U]{Graph: f.name, Digest: f.digest, Shape: &f.shape, Skipped: past.skipped, Machine: past.m.Snapshot()}
	for i := range edits {
		if err := f.edit(&snap.Machine, &edits[i]); err != nil {
			return nil, err
		}
	}
	if f.check != nil && len(edits) > 0 {
		if err := f.check(snap.Machine.State); err != nil {
			return nil, fmt.Errorf("the edits lead to a state that does not hold: %w", err)
		}
	}
	out.Step, out.Next = past.m.Step(), past.next()
	if err := out.add(runlog.KindSnapshot, snap); err != nil {
		return nil, err
	}
	if len(edits) > 0 {
		return out, nil
	}
	if carried := carrier.Carried(); carried != nil {
		if err := out.add(runlog.KindCarried, carried); err != nil {
			return nil, err
		}
	}
	for i := range pending {
		out.Records = append(out.Records, runlog.Record{Kind: pending[i].Kind, Path: pending[i].Path, Data: pending[i].Data})
	}
	return out, nil
}

func (k *Forked) add(kind runlog.Kind, data any) error {
	b, err := json.Marshal(data)
	k.Records = append(k.Records, runlog.Record{Kind: kind, Data: b})
	return err
}

// edit folds an update into a machine between two supersteps. What tasks have computed
// ahead of time is dropped: they did not see it.
func (f *Flow[S, U]) edit(s *pregel.Snapshot[S, U, message], e *Edit) error {
	who := e.Node
	if who == "" {
		who = "the state"
	}
	var u U
	d := json.NewDecoder(bytes.NewReader(e.Update))
	d.DisallowUnknownFields()
	if err := d.Decode(&u); err != nil {
		return fmt.Errorf("the edit of %s is no update of graph %q: %w", who, f.name, err)
	}
	s.Early = nil
	apart := func(state S) S {
		if f.branch != nil {
			return f.branch(state)
		}
		return state
	}
	s.State = f.reduce(apart(s.State), u)
	if e.Node == "" {
		for j := range s.Initial {
			s.Initial[j] = f.reduce(apart(s.Initial[j]), u)
		}
		return nil
	}
	v, ok := f.index[e.Node]
	if !ok {
		names := make([]string, len(f.nodes))
		for i := range f.nodes {
			names[i] = f.nodes[i].Name
		}
		return fmt.Errorf("graph %q has no node %q%s", f.name, e.Node, suggest.Hint(e.Node, names))
	}
	if out := f.nodes[v].output; out != nil {
		if err := fits(out, e.Update); err != nil {
			return fmt.Errorf("the edit of %s does not fit its schema: %w", e.Node, err)
		}
	}
	if slices.ContainsFunc(f.nodes, func(n node[S, U]) bool { return slices.Contains(n.Reads, e.Node) }) {
		index := 0 // after everything that has been folded
		for j := range s.Kept {
			index = max(index, s.Kept[j].Index+1)
		}
		s.Kept = append(s.Kept, pregel.KeptUpdate[U]{Vertex: e.Node, Step: s.Step - 1, Index: index, Update: u})
	}
	return nil
}
