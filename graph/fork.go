package graph

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"

	"github.com/superstep-dev/superstep/internal/carry"
	"github.com/superstep-dev/superstep/internal/pregel"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

// An Edit is an update that a fork pretends a node has made.
type Edit struct {
	// Node is the supposed author of the update; nodes that read it see the update. If "", the run
	// seems to have begun with the update, and all nodes see it.
	Node   string
	Update json.RawMessage // fits the update type of the graph; unknown fields are refused
}

// A ForkPoint is where a fork leaves its parent.
type ForkPoint struct {
	// At is the last record of the parent that the fork keeps. With Again it may be 0: the fork
	// then begins with the first superstep that computes one of those tasks.
	At uint64
	// Again lists the paths of tasks to compute again, with everything that depends on them. The
	// parent's records of other tasks are kept, even after At. The name of a node selects all its
	// tasks from At on.
	Again []string
	Edits []Edit
}

// Forked holds the data that a new run needs to continue from a checkpoint of another run.
type Forked struct {
	// Records must follow the run.started record of the new run, all in one batch. They have
	// neither Seq nor Time.
	Records []runlog.Record
	Seq     uint64   // the record of the checkpoint that the new run begins with
	Step    int      // how many supersteps it has been spared
	Next    []string // the paths of the tasks that it computes next
	Kept    []string // the paths of the tasks whose results it has beside that checkpoint

	redo *redo
}

// Partial reports whether the fork repeats only some tasks; see Redoes.
func (k *Forked) Partial() bool { return k.redo != nil }

// Redoes reports whether a fork with Again repeats the parent's work under a path and a key.
func (k *Forked) Redoes(path, key string) bool { return k.redo != nil && k.redo.drops(path, key) }

// Fork creates the beginning of a new run. An effect without an outcome is not carried. Without
// Again the fork keeps, of the superstep under way at the record, the results, and the settled
// effects and answers of tasks that had not ended. Edits are folded into the state in their order,
// and results computed without them are dropped. The set of nodes in the superstep stays the same:
// to change the choice of a branch, fork before the node that the branch follows.
func (f *flow) Fork(records iter.Seq2[runlog.Record, error], p *ForkPoint) (*Forked, error) {
	return f.engine.Fork(records, p)
}

// Fork implements Reading.
func (f *core) Fork(records iter.Seq2[runlog.Record, error], p *ForkPoint) (*Forked, error) {
	out := &Forked{}
	last := p.At
	if len(p.Again) > 0 {
		var err error
		if out.redo, err = f.redo(records, p); err != nil {
			return nil, err
		}
		records, last = out.redo.filtered(records), ^uint64(0)
	}
	past := f.past()
	var carrier journal.Carrier
	var pending []runlog.Record // results since the checkpoint
	for r, err := range records {
		if err != nil {
			return nil, err
		}
		if r.Seq > last {
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
		if out.redo != nil && out.Seq == out.redo.seq && out.Seq > 0 {
			continue // a commit after the point: what it commits is done again
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
		return nil, notBegun(p.At)
	}
	return out, f.fork(out, past, p, pending, carrier.Carried())
}

// Seed creates the beginning of a run that has the updates of some nodes from elsewhere. The run
// begins with the zero state. An update is used if its node reads only nodes that have updates too,
// and if its successors do not depend on the update. Kept lists the nodes for which that is so, and
// Next all others.
func (f *flow) Seed(updates map[string]json.RawMessage) (*Forked, error) {
	return f.engine.Seed(updates)
}

// Seed implements Reading.
func (f *core) Seed(updates map[string]json.RawMessage) (*Forked, error) {
	x := &execution{flow: f}
	m, err := x.begin(f.types.newState())
	if err != nil {
		return nil, err
	}
	out := &Forked{redo: &redo{gone: map[string]bool{}}}
	if err := f.beginning(out, m.Snapshot(), nil, false); err != nil {
		return nil, err
	}
	for _, n := range f.shape.Nodes {
		out.redo.gone[n.Name] = true
	}
	for tasks := m.Plan(); len(tasks) > 0; tasks = m.Plan() {
		for i := range tasks {
			t := tasks[i]
			n := &f.nodes[t.Vertex]
			update, ok := updates[n.Name]
			if !ok || t.Key != "" || len(n.routes) > 0 || n.Reads == nil {
				continue
			}
			r := result{Outcome: pregel.Done, Sends: n.sends, Note: update}
			if r.Update, err = f.types.readUpdate(update, false); err != nil {
				return nil, fmt.Errorf("the update of %s: %w", n.Name, err)
			}
			data, err := x.done(&t, &r)
			if err == nil {
				err = m.Apply(t.Index, r)
			}
			if err != nil {
				return nil, err
			}
			path := f.path("", &t)
			out.Records = append(out.Records, runlog.Record{Kind: runlog.KindTaskDone, Path: path, Data: data})
			out.Kept = append(out.Kept, path)
			delete(out.redo.gone, n.Name)
		}
	}
	out.Next = nil
	for _, n := range f.shape.Nodes {
		if out.redo.gone[n.Name] {
			out.Next = append(out.Next, n.Name)
		}
	}
	return out, nil
}

// fork creates the records of a fork.
func (f *core) fork(out *Forked, past *fold, p *ForkPoint, pending []runlog.Record, carried any) error {
	snap := past.m.Snapshot()
	if out.redo == nil && len(p.Edits) > 0 {
		snap.Early, pending, carried = nil, nil, nil // they did not see them
	}
	for i := range p.Edits {
		e := &p.Edits[i]
		if given, err := f.given(pending, e); given || err != nil {
			if err != nil {
				return err
			}
			continue
		}
		if err := f.edit(&snap, e); err != nil {
			return err
		}
	}
	if f.types.check != nil && len(p.Edits) > 0 {
		if err := f.types.check(snap.State); err != nil {
			return fmt.Errorf("the edits lead to a state that does not hold: %w", err)
		}
	}
	out.Step, out.Next = past.m.Step(), past.next()
	if err := f.beginning(out, snap, past.skipped, true); err != nil {
		return err
	}
	if carried != nil {
		if err := out.add(carry.Kind, carried, nil); err != nil {
			return err
		}
	}
	for i := range pending {
		r := &pending[i]
		if err := past.apply(r); err != nil && out.redo != nil { // nothing leads to it any more, or its place is not known yet
			if node := pregel.VertexOf(r.Path); slices.ContainsFunc(p.Edits, func(e Edit) bool { return e.Node == node }) {
				return fmt.Errorf("the edit of %s has no effect: the fork computes anew what it depends on; leave one of the edits out", node)
			}
			continue
		}
		out.Records = append(out.Records, runlog.Record{Kind: r.Kind, Path: r.Path, Data: r.Data, Attachment: r.Attachment})
		out.Kept = append(out.Kept, r.Path)
	}
	out.Next = slices.DeleteFunc(out.Next, func(path string) bool { return slices.Contains(out.Kept, path) })
	return nil
}

// given applies an edit to the recorded result of its node, and reports whether such a result
// exists.
func (f *core) given(records []runlog.Record, e *Edit) (bool, error) {
	for i := range records {
		var d runlog.TaskDone
		if err := d.Parse(records[i].Data); err != nil {
			return false, err
		}
		if e.Node == "" || d.Node != e.Node {
			continue
		}
		if err := f.editable(e); err != nil {
			return true, err
		}
		d.Update, d.Error, d.Inside = e.Update, "", nil
		data, err := d.Encode()
		records[i].Data, records[i].Attachment = data, nil
		return true, err
	}
	return false, nil
}

// beginning adds the snapshot that a fork begins with.
func (f *core) beginning(k *Forked, m pregel.Snapshot[any, any, message], skipped []string, apart bool) error {
	s, part, err := f.snapshot(m, &f.shape, skipped, apart)
	if err != nil {
		return err
	}
	return k.add(runlog.KindSnapshot, s, part)
}

func (k *Forked) add(kind runlog.Kind, data any, part []byte) error {
	b, err := json.Marshal(data)
	k.Records = append(k.Records, runlog.Record{Kind: kind, Data: b, Attachment: part})
	return err
}

// edit folds an update into a machine between two supersteps.
func (f *core) edit(s *pregel.Snapshot[any, any, message], e *Edit) error {
	if err := f.editable(e); err != nil {
		return err
	}
	k := &f.types
	u, err := k.readUpdate(e.Update, false)
	if err != nil {
		return err
	}
	s.State = k.folded(k.apart(s.State), u)
	if e.Node == "" {
		for j := range s.Initial {
			s.Initial[j] = k.folded(k.apart(s.Initial[j]), u)
		}
		return nil
	}
	if slices.ContainsFunc(f.nodes, func(n node) bool { return slices.Contains(n.Reads, e.Node) }) {
		index := 0 // after everything that has been folded
		for j := range s.Kept {
			index = max(index, s.Kept[j].Index+1)
		}
		s.Kept = append(s.Kept, pregel.KeptUpdate[any]{Vertex: e.Node, Step: s.Step - 1, Index: index, Update: u})
	}
	return nil
}

// editable checks that an edit is an update of the graph, and of its node.
func (f *core) editable(e *Edit) error {
	who := e.Node
	if who == "" {
		who = "the state"
	}
	if _, err := f.types.readUpdate(e.Update, true); err != nil {
		return fmt.Errorf("the edit of %s is no update of graph %q: %w", who, f.name, err)
	}
	if e.Node == "" {
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
	return nil
}
