package graph

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/pregel"
	"github.com/superstep-dev/superstep/runlog"
)

// fold computes the state of a graph's machine from its records. It executes nothing.
type fold struct {
	flow    *core
	space   string // the path of the task that runs the graph, "" for a run's own
	m       *machine
	skipped []string // the paths of the tasks that were skipped
	shape   *Shape   // of the graph that began the run, if it has been seen
	places  map[place]int
	// changed is the error for a run of another graph, or of another version of this one.
	changed func(name string, shape *Shape) error
	adopt   bool  // go on with another version if it fits,
	adopted error // and this is what changed
}

// place finds a task of the current superstep.
type place struct {
	vertex int
	key    string
}

// path returns the full path of a task of the graph, which runs within the task of the space.
func (f *core) path(space string, t *pregel.Task[message]) string {
	path := pregel.Path(f.nodes[t.Vertex].Name, t.Key, t.Visit)
	if space != "" {
		path = space + "/" + path
	}
	return path
}

// owns reports whether a record belongs to this graph, and not to a nested or an enclosing one.
func (d *fold) owns(r *runlog.Record) bool {
	switch r.Kind {
	case runlog.KindSnapshot:
		return d.space == ""
	case runlog.KindInner, runlog.KindStepCommitted:
		return r.Path == d.space
	case runlog.KindTaskDone:
		i := strings.LastIndexByte(r.Path, '/')
		return r.Path[:max(i, 0)] == d.space
	}
	return false
}

// apply applies the next record of the log.
func (d *fold) apply(r *runlog.Record) (err error) {
	if !d.owns(r) {
		return nil
	}
	switch r.Kind {
	case runlog.KindSnapshot, runlog.KindInner:
		return d.restore(r)
	case runlog.KindTaskDone:
		if d.m != nil {
			err = d.redo(r)
		}
	case runlog.KindStepCommitted:
		if d.m == nil {
			return nil
		}
		if !d.m.Complete() {
			return d.misfit(fmt.Errorf("record %d commits a superstep that is not complete", r.Seq))
		}
		d.m.Commit()
		d.skipped = append(d.skipped, passedOver(d.m.Skipped(), d.space)...)
		clear(d.places)
	}
	if err != nil {
		return d.misfit(fmt.Errorf("record %d: %w", r.Seq, err))
	}
	return nil
}

func (d *fold) restore(r *runlog.Record) error {
	var s snapshot[json.RawMessage]
	err := json.Unmarshal(r.Data, &s)
	strict := false
	if s.Shape != nil {
		d.shape = s.Shape
	}
	if d.adopted = nil; s.Digest != d.flow.digest {
		d.adopted = d.changed(s.Graph, d.shape)
		if !d.adopt || s.Graph != d.flow.name {
			return d.adopted
		}
		strict = true
		err = decode(r.Data, new(snapshot[json.RawMessage]), strict)
	}
	var m pregel.Snapshot[any, any, message]
	k := &d.flow.types
	if err == nil {
		m, err = pregel.Convert(&s.Machine, func(b json.RawMessage) (any, error) { return k.readState(b, strict) },
			func(b json.RawMessage) (any, error) { return k.readUpdate(b, strict) })
	}
	if err == nil {
		err = k.attachState(m.State, r.Attachment)
	}
	if err != nil {
		return d.misfit(fmt.Errorf("record %d: the state does not fit the graph's type any more: %w", r.Seq, err))
	}
	d.skipped = s.Skipped
	clear(d.places)
	d.m, err = pregel.Restore(&d.flow.program, &m)
	return d.misfit(err)
}

// misfit wraps an error that occurred although resuming with another version of the graph was
// allowed.
func (d *fold) misfit(err error) error {
	var changed *ChangedError
	if err == nil || !errors.As(d.adopted, &changed) {
		return err
	}
	return &ChangedError{Graph: changed.Graph, Diff: changed.Diff, Why: err.Error()}
}

// redo applies a recorded result.
func (d *fold) redo(r *runlog.Record) error {
	var done runlog.TaskDone
	if err := done.Parse(r.Data); err != nil {
		return err
	}
	vertex, ok := d.flow.index[done.Node]
	if !ok {
		return fmt.Errorf("it has a result of %q, which the graph no longer has", done.Node)
	}
	res, err := d.flow.result(&done, r.Path, r.Attachment)
	if err != nil {
		return err
	}
	if done.Step > d.m.Step() {
		return d.m.RecoverEarly(vertex, done.Key, done.Step, res)
	}
	if len(d.places) == 0 {
		d.places = map[place]int{}
		for _, t := range d.m.Tasks() {
			d.places[place{t.Vertex, t.Key}] = t.Index
		}
	}
	index, planned := d.places[place{vertex, done.Key}]
	if !planned || done.Step != d.m.Step() {
		return fmt.Errorf("it has a result of %s in superstep %d, where that task does not belong", r.Path, done.Step)
	}
	return d.m.Recover(index, res)
}

// result returns the result of a task from a record, of which part is the attachment.
func (f *core) result(d *runlog.TaskDone, path string, part []byte) (result, error) {
	res := result{Outcome: pregel.Done}
	misfit := func(err error) error {
		return fmt.Errorf("the update of %s does not fit the graph's type any more: %w", path, err)
	}
	switch {
	case d.Caught:
		res.Outcome = pregel.Caught
	case d.Error != "" && d.Update == nil:
		res.Outcome = pregel.Skipped
	default:
		var err error
		if res.Update, err = f.types.readUpdate(d.Update, false); err == nil {
			res.Update, err = f.types.attachUpdate(res.Update, part)
		}
		if err != nil {
			return res, misfit(err)
		}
	}
	known := votes()
	vote := slices.Index(known[:], d.Vote)
	if vote < 0 {
		return res, fmt.Errorf("%s has the vote %q, which this version does not know", path, d.Vote)
	}
	res.Inside, res.Vote = d.Inside, pregel.Vote(vote)
	if d.Fixed != "" {
		fixed, ok := f.index[d.Fixed]
		if !ok {
			return res, fmt.Errorf("%s amended %q, which the graph no longer has", path, d.Fixed)
		}
		fix, err := f.types.readUpdate(d.Fix, false)
		if err != nil {
			return res, misfit(err)
		}
		res.Fix = &pregel.Fix[any]{Vertex: fixed, Update: fix}
	}
	for _, s := range d.Sends {
		to, ok := f.index[s.To]
		if !ok {
			return res, fmt.Errorf("%s sent to %q, which the graph no longer has", path, s.To)
		}
		send := pregel.Send[message]{To: to, Key: s.Key, Bare: s.Arg == nil}
		if !send.Bare {
			send.Msg = message{From: d.Node, Arg: s.Arg, Failed: s.Failed}
		}
		res.Sends = append(res.Sends, send)
	}
	return res, nil
}

// passedOver returns the full paths of the tasks that were skipped in the graph of a space. Paths
// from nested graphs are full already.
func passedOver(paths []string, space string) []string {
	var out []string
	for _, p := range paths {
		if space != "" && !strings.Contains(p, "/") {
			p = space + "/" + p
		}
		out = append(out, p)
	}
	return out
}
