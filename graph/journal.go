package graph

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/superstep-dev/superstep/pregel"
	"github.com/superstep-dev/superstep/runlog"
)

// snapshot is the Data of a KindSnapshot record. The first one of a run opens it.
type snapshot[S any] struct {
	Graph   string                      `json:"graph"`
	Digest  string                      `json:"digest"`
	Shape   *Shape                      `json:"shape,omitempty"` // in the first one only
	Skipped []string                    `json:"skipped,omitempty"`
	Machine pregel.Snapshot[S, message] `json:"machine"`
}

// open continues the run in the journal, or begins it there.
func (x *execution[S, U]) open(ctx context.Context, state S) (*pregel.Machine[S, U, message], error) {
	f := x.flow
	if err := x.journal.Begin(); err != nil {
		return nil, fmt.Errorf("graph %q: %w", f.name, err)
	}
	var m *pregel.Machine[S, U, message]
	places := map[place]int{}
	for r, err := range x.journal.Since(ctx, x.journal.Info().Snapshot) {
		if err != nil {
			return nil, err
		}
		switch r.Kind {
		case runlog.KindSnapshot:
			if m, err = x.restore(ctx, &r); err != nil {
				return nil, err
			}
			clear(places)
		case runlog.KindTaskDone:
			if m != nil {
				err = x.redo(m, places, &r)
			}
		case runlog.KindStepCommitted:
			if m != nil {
				if !m.Complete() {
					return nil, fmt.Errorf("run %s: record %d commits a superstep that is not complete", x.journal.ID(), r.Seq)
				}
				m.Commit()
				x.settleSkips()
				clear(places)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("run %s: record %d: %w", x.journal.ID(), r.Seq, err)
		}
	}
	if m != nil {
		return m, nil
	}
	m, err := f.begin(state)
	if err != nil {
		return nil, err
	}
	recs, err := x.snapshots(nil, m, &f.shape)
	if err != nil {
		return nil, err
	}
	return m, x.journal.Append(ctx, "", recs...)
}

// snapshots adds a snapshot, and what must follow it, to records.
func (x *execution[S, U]) snapshots(recs []runlog.Record, m *pregel.Machine[S, U, message], shape *Shape) ([]runlog.Record, error) {
	var tasks []string
	for i := range recs {
		if recs[i].Kind == runlog.KindTaskDone {
			tasks = append(tasks, recs[i].Path)
		}
	}
	r, err := x.journal.New(runlog.KindSnapshot, "", x.snapshot(m, shape))
	if err != nil {
		return nil, err
	}
	recs = append(recs, r)
	if carried := x.journal.Carry(tasks...); carried != nil {
		if r, err = x.journal.New(runlog.KindCarried, "", carried); err != nil {
			return nil, err
		}
		recs = append(recs, r)
	}
	return recs, nil
}

// skip is a task that was passed over in the superstep that is under way.
type skip struct {
	index int
	path  string
}

// settleSkips puts the tasks that were passed over in a superstep in path order.
func (x *execution[S, U]) settleSkips() {
	slices.SortFunc(x.skips, func(a, b skip) int { return a.index - b.index })
	for _, s := range x.skips {
		x.skipped = append(x.skipped, s.path)
	}
	x.skips = x.skips[:0]
}

func (x *execution[S, U]) snapshot(m *pregel.Machine[S, U, message], shape *Shape) snapshot[S] {
	return snapshot[S]{Graph: x.flow.name, Digest: x.flow.digest, Shape: shape, Skipped: x.skipped, Machine: m.Snapshot()}
}

func (x *execution[S, U]) restore(ctx context.Context, r *runlog.Record) (*pregel.Machine[S, U, message], error) {
	var s snapshot[S]
	err := json.Unmarshal(r.Data, &s) // also fills what comes before a field that does not fit
	if s.Digest != x.flow.digest {
		return nil, x.changed(ctx, s.Graph)
	}
	if err != nil {
		return nil, fmt.Errorf("the state does not fit the graph's type any more: %w", err)
	}
	x.skipped = s.Skipped
	return pregel.Restore[S, U](&x.flow.program, &s.Machine)
}

// changed says how the graph differs from the one that the run began with.
func (x *execution[S, U]) changed(ctx context.Context, name string) error {
	if name != x.flow.name {
		return &ChangedError{Graph: x.flow.name, Diff: []string{fmt.Sprintf("the run is of graph %q", name)}}
	}
	for r, err := range x.journal.Since(ctx, 0) {
		if err != nil {
			return err
		}
		if r.Kind != runlog.KindSnapshot {
			continue
		}
		var first snapshot[json.RawMessage]
		if err := json.Unmarshal(r.Data, &first); err != nil {
			return err
		}
		if first.Shape != nil {
			return &ChangedError{Graph: x.flow.name, Diff: first.Shape.diff(x.flow.shape)}
		}
	}
	return &ChangedError{Graph: x.flow.name, Diff: []string{"its record of the first version is missing"}}
}

// place finds a task of the current superstep.
type place struct {
	vertex int
	key    string
}

// redo applies a recorded result.
func (x *execution[S, U]) redo(m *pregel.Machine[S, U, message], places map[place]int, r *runlog.Record) error {
	var d runlog.TaskDone
	if err := json.Unmarshal(r.Data, &d); err != nil {
		return err
	}
	if len(places) == 0 {
		for _, t := range m.Tasks() {
			places[place{t.Vertex, t.Key}] = t.Index
		}
	}
	vertex, ok := x.flow.index[d.Node]
	index, planned := places[place{vertex, d.Key}]
	if !ok || !planned || d.Step != m.Step() {
		return fmt.Errorf("it has a result of %s in superstep %d, where that task does not belong", r.Path, d.Step)
	}
	res := pregel.Result[U, message]{Outcome: pregel.Done}
	if d.Error != "" {
		res.Outcome = pregel.Skipped
		x.skips = append(x.skips, skip{index, r.Path})
	} else if err := json.Unmarshal(d.Update, &res.Update); err != nil {
		return fmt.Errorf("the update of %s does not fit the graph's type any more: %w", r.Path, err)
	}
	for _, s := range d.Sends {
		to, ok := x.flow.index[s.To]
		if !ok {
			return fmt.Errorf("%s sent to %q, which the graph no longer has", r.Path, s.To)
		}
		res.Sends = append(res.Sends, pregel.Send[message]{To: to, Key: s.Key, Msg: s.Arg, Bare: s.Arg == nil})
	}
	return m.Recover(index, res)
}

// Record implements pregel.Recorder.
func (x *execution[S, U]) Record(ctx context.Context, m *pregel.Machine[S, U, message], ended []pregel.Ended[U, message], commit bool) error {
	for i := range ended {
		if ended[i].Result.Outcome == pregel.Skipped {
			x.skips = append(x.skips, skip{ended[i].Task.Index, m.Path(&ended[i].Task)})
		}
	}
	if commit {
		x.settleSkips()
	}
	if x.journal == nil {
		return nil
	}
	recs := make([]runlog.Record, 0, len(ended)+2)
	add := func(kind runlog.Kind, path string, data any) error {
		r, err := x.journal.New(kind, path, data)
		recs = append(recs, r)
		return err
	}
	step := m.Step()
	if commit {
		step--
	}
	for i := range ended {
		t, r := &ended[i].Task, &ended[i].Result
		if r.Outcome != pregel.Done && r.Outcome != pregel.Skipped {
			continue // a failure was recorded by its attempts, a wait by its question
		}
		if last, ok := r.Note.(*runlog.TaskFailed); ok { // the last attempt of a task that is passed over
			if err := add(runlog.KindTaskFailed, m.Path(t), last); err != nil {
				return err
			}
		}
		data, err := x.done(t, r, step)
		if err != nil {
			return err
		}
		if err := add(runlog.KindTaskDone, m.Path(t), data); err != nil {
			return err
		}
	}
	if commit {
		if err := add(runlog.KindStepCommitted, "", runlog.StepCommitted{Step: step}); err != nil {
			return err
		}
		if x.journal.Grown() && !m.Ended() {
			var err error
			if recs, err = x.snapshots(recs, m, nil); err != nil {
				return err
			}
		}
	}
	if len(recs) > 0 {
		if err := x.journal.Append(ctx, "", recs...); err != nil {
			return err
		}
	}
	if commit {
		x.state, x.steps = m.State(), m.Step()
	}
	return nil
}

func (x *execution[S, U]) done(t *pregel.Task[message], r *pregel.Result[U, message], step int) (json.RawMessage, error) {
	d := runlog.TaskDone{Node: x.flow.nodes[t.Vertex].Name, Key: t.Key, Step: step}
	if r.Outcome == pregel.Skipped {
		d.Error = r.Err.Error()
	} else {
		d.Update, _ = r.Note.(json.RawMessage)
	}
	for _, s := range r.Sends {
		d.Sends = append(d.Sends, runlog.TaskSend{To: x.flow.nodes[s.To].Name, Key: s.Key, Arg: s.Msg})
	}
	return d.Append(make([]byte, 0, len(d.Update)+128))
}

// taskStarted is the Data of the live-only event of a task that starts.
type taskStarted struct {
	Node string `json:"node"`
	Key  string `json:"key,omitempty"`
	Step int    `json:"step"`
}

func (x *execution[S, U]) started(t *pregel.Task[message]) {
	n := x.flow.nodes[t.Vertex].Name
	x.journal.Scope(pregel.Path(n, t.Key, t.Visit)).Live("task.started", taskStarted{n, t.Key, t.Step})
}

// failed records an attempt that failed.
func (x *execution[S, U]) failed(ctx context.Context, d *runlog.TaskFailed, path string) error {
	if x.journal == nil {
		return nil
	}
	return x.journal.Write(ctx, "", runlog.KindTaskFailed, path, d)
}
