package graph

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/superstep-dev/superstep/internal/encodable"
	"github.com/superstep-dev/superstep/internal/pregel"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

// snapshot is the Data of a KindSnapshot record, and of a KindInner one. The first one of
// a run opens it.
type snapshot[T any] struct {
	Graph   string                         `json:"graph"`
	Digest  string                         `json:"digest"`
	Shape   *Shape                         `json:"shape,omitempty"` // in the first one only
	Skipped []string                       `json:"skipped,omitempty"`
	Machine pregel.Snapshot[T, T, message] `json:"machine"`
}

// records returns the records from which the run resumes.
func (x *execution) records(ctx context.Context) (iter.Seq2[runlog.Record, error], error) {
	inner, err := x.journal.Begin(x.opt.space)
	if err != nil {
		return nil, fmt.Errorf("graph %q: %w", x.flow.name, err)
	}
	if x.opt.space == "" {
		return x.journal.Since(ctx, x.journal.Info().Snapshot), nil
	}
	return func(yield func(runlog.Record, error) bool) {
		for _, r := range inner {
			if !yield(r, nil) {
				return
			}
		}
	}, nil
}

// open resumes the run of the journal, or begins it.
func (x *execution) open(ctx context.Context, state any) (m *machine, err error) {
	recs, err := x.records(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			x.journal.End(x.opt.space, false)
		}
	}()
	past := &fold{flow: x.flow, space: x.opt.space, adopt: x.opt.AllowChange, changed: func(name string, _ *Shape) error { return x.changed(ctx, name) }}
	var pending []runlog.Record
	for r, err := range recs {
		if err != nil {
			return nil, err
		}
		if err := past.apply(&r); err != nil {
			return nil, fmt.Errorf("run %s: %w", x.journal.ID(), err)
		}
		switch {
		case !x.opt.AllowChange || !past.owns(&r):
		case r.Kind == runlog.KindTaskDone:
			pending = append(pending, r)
		default:
			pending = nil
		}
	}
	if past.m != nil {
		x.skipped = past.skipped
		return past.m, x.adopt(ctx, past, pending)
	}
	if m, err = x.begin(state); err != nil {
		return nil, err
	}
	first, err := x.snapshots(nil, m, &x.flow.shape)
	if err != nil {
		return nil, err
	}
	return m, x.journal.Append(ctx, "", first...)
}

// adopt writes down that the run continues with this version of the graph, if another one
// began it. Pending are the results of the superstep under way, of which no snapshot knows.
func (x *execution) adopt(ctx context.Context, past *fold, pending []runlog.Record) error {
	if past.adopted == nil {
		return nil
	}
	recs, err := x.snapshots(nil, past.m, &x.flow.shape)
	if err != nil {
		return err
	}
	for i := range pending {
		r, err := x.journal.New(pending[i].Kind, pending[i].Path, pending[i].Data)
		if err != nil {
			return err
		}
		r.Attachment = pending[i].Attachment
		recs = append(recs, r)
	}
	return x.journal.Append(ctx, "", recs...)
}

// snapshots adds a snapshot to records. The journal adds what must follow it.
func (x *execution) snapshots(recs []runlog.Record, m *machine, shape *Shape) ([]runlog.Record, error) {
	kind := runlog.KindSnapshot
	if x.opt.space != "" {
		kind = runlog.KindInner
	}
	s, part, err := x.flow.snapshot(m.Snapshot(), shape, x.skipped, x.journal.Attaches(kind, x.opt.space))
	var r runlog.Record
	if err == nil {
		r, err = x.journal.New(kind, x.opt.space, s)
	}
	if err != nil || encodable.Suspect(r.Data) {
		if err = unencodable(fmt.Sprintf("the state of superstep %d", m.Step()), m.State(), err); err != nil {
			return nil, fmt.Errorf("graph %q: %w", x.flow.name, err)
		}
	}
	r.Attachment = part
	return append(recs, r), nil
}

// snapshot returns a snapshot as it is recorded. If apart, the part of the state that is not recorded as JSON is returned separately.
func (f *core) snapshot(m pregel.Snapshot[any, any, message], shape *Shape, skipped []string, apart bool) (*snapshot[any], []byte, error) {
	s := &snapshot[any]{Graph: f.name, Digest: f.digest, Shape: shape, Skipped: skipped}
	var part []byte
	var err error
	if apart {
		if m.State, part, err = f.types.detachState(m.State); err != nil {
			return nil, nil, err
		}
	}
	m.State = f.types.value(m.State)
	s.Machine, err = pregel.Convert(&m, same, func(u any) (any, error) { return f.types.pointer(u), nil })
	return s, part, err
}

func same(v any) (any, error) { return v, nil }

// settleSkips notes the tasks that the last commit skipped.
func (x *execution) settleSkips(m *machine) {
	x.skipped = append(x.skipped, passedOver(m.Skipped(), x.opt.space)...)
}

// changed returns the differences between the graph and the graph that the run began with.
func (x *execution) changed(ctx context.Context, name string) error {
	if name != x.flow.name {
		return &ChangedError{Graph: x.flow.name, Diff: []string{fmt.Sprintf("the run is of graph %q", name)}}
	}
	for r, err := range x.journal.Since(ctx, 0) {
		if err != nil {
			return err
		}
		if r.Kind != runlog.KindSnapshot && r.Kind != runlog.KindInner || r.Path != x.opt.space {
			continue
		}
		var first struct {
			Shape *Shape `json:"shape"`
		}
		if err := json.Unmarshal(r.Data, &first); err != nil {
			return err
		}
		if first.Shape != nil {
			return &ChangedError{Graph: x.flow.name, Diff: first.Shape.diff(x.flow.shape)}
		}
	}
	return &ChangedError{Graph: x.flow.name, Diff: []string{"its record of the first version is missing"}}
}

// Record implements pregel.Recorder.
func (x *execution) Record(ctx context.Context, m *machine, ended []pregel.Ended[any, message], commit bool) error {
	if commit {
		x.settleSkips(m)
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
	for i := range ended {
		t, r := &ended[i].Task, &ended[i].Result
		switch r.Outcome {
		case pregel.Done, pregel.Skipped, pregel.Caught:
		default:
			continue // a failure was recorded by its attempts, a wait by its question
		}
		path := x.path(t)
		if last := lastAttempt(r.Note); last != nil {
			if err := add(runlog.KindTaskFailed, path, last); err != nil {
				return err
			}
		}
		data, err := x.done(t, r)
		if err != nil {
			return err
		}
		if err := add(runlog.KindTaskDone, path, data); err != nil {
			return err
		}
		if r.Outcome == pregel.Done && x.journal.Attaches(runlog.KindTaskDone, path) {
			if _, recs[len(recs)-1].Attachment, err = x.flow.types.detachUpdate(r.Update); err != nil {
				return err
			}
		}
	}
	if commit {
		if err := add(runlog.KindStepCommitted, x.opt.space, runlog.StepCommitted{Step: m.Step() - 1}); err != nil {
			return err
		}
		if !m.Ended() && !x.large && x.snapshotDue(m.Step()) {
			with, err := x.snapshots(recs, m, nil)
			if err != nil {
				return err
			}
			if x.large = with[len(with)-1].Size() > largest; x.large {
				x.journal.Scope(x.opt.space).Live("note", map[string]string{"text": "the state is too large for a snapshot; a resume reads the whole log"})
			} else {
				recs = with
			}
		}
	}
	if len(recs) > 0 {
		if err := x.journal.Append(ctx, "", recs...); err != nil {
			return err
		}
	}
	if commit {
		x.flow.types.set(x.state, m.State())
		x.steps = m.Step()
	}
	return nil
}

// lastAttempt returns the last attempt of a skipped task, from the note of its result, or nil for
// other tasks.
func lastAttempt(note any) *runlog.TaskFailed {
	switch n := note.(type) {
	case *runlog.TaskFailed:
		return n
	case *standIn:
		return n.last
	}
	return nil
}

// largest is the size of the largest snapshot, which leaves a frame what else it and a store that encrypts put in. A run whose state has outgrown it writes
// no further snapshot: its log is complete without.
const largest = runlog.MaxFrame - 1<<16

// snapshotDue reports whether the commit that leads to a step needs a snapshot.
func (x *execution) snapshotDue(step int) bool {
	every := x.opt.SnapshotEvery
	return x.journal.SnapshotDue(x.opt.space, every > 0 && step%every == 0)
}

// votes returns the names of votes in records.
func votes() [3]string {
	return [...]string{pregel.Halt: "", pregel.Stay: "stay", pregel.Complete: "complete"}
}

func (x *execution) done(t *pregel.Task[message], r *result) (json.RawMessage, error) {
	d := runlog.TaskDone{Node: x.flow.nodes[t.Vertex].Name, Key: t.Key, Step: t.Step}
	d.Took, d.Queued = x.journal.Scope(x.path(t)).Took()
	if stand, ok := r.Note.(*standIn); ok {
		d.Update, d.Error = stand.encoded, stand.last.Error
	} else if r.Outcome == pregel.Done {
		d.Update, _ = r.Note.(json.RawMessage)
	} else {
		d.Error, d.Caught = r.Err.Error(), r.Outcome == pregel.Caught
	}
	d.Inside, d.Vote = r.Inside, votes()[r.Vote]
	if r.Fix != nil {
		var err error
		d.Fixed = x.flow.nodes[r.Fix.Vertex].Name
		if d.Fix, err = encoded(x.flow.types.pointer(r.Fix.Update), nil); err != nil {
			return nil, fmt.Errorf("node %s: the update for %s: %w", d.Node, d.Fixed, err)
		}
	}
	for i := range r.Sends {
		s := &r.Sends[i]
		d.Sends = append(d.Sends, runlog.TaskSend{To: x.flow.nodes[s.To].Name, Key: s.Key, Arg: s.Msg.Arg, Failed: s.Msg.Failed})
	}
	return d.Encode()
}

// taskStarted is the Data of the live-only event of a task that starts.
type taskStarted struct {
	Node string `json:"node"`
	Key  string `json:"key,omitempty"`
	Step int    `json:"step"`
}

func (x *execution) started(t *pregel.Task[message]) {
	scope := x.journal.Scope(x.path(t))
	scope.Begin()
	scope.Live(startedEvent, taskStarted{x.flow.nodes[t.Vertex].Name, t.Key, t.Step})
}

// failed records an attempt that failed.
func (x *execution) failed(ctx context.Context, d *runlog.TaskFailed, path string) error {
	if x.journal == nil {
		return nil
	}
	return x.journal.Write(ctx, "", runlog.KindTaskFailed, path, d)
}

// inTurn is exec, but returns results in their recorded order.
func (x *execution) inTurn() pregel.Exec[any, any, message] {
	if x.journal == nil {
		return x.exec
	}
	return func(ctx context.Context, t *pregel.Task[message], s any) result {
		r := x.exec(ctx, t, s)
		kind := runlog.KindTaskDone
		switch r.Outcome {
		case pregel.Done, pregel.Skipped, pregel.Caught:
		default:
			return r
		}
		if lastAttempt(r.Note) != nil {
			kind = runlog.KindTaskFailed // it is recorded with it
		}
		if err := x.journal.Turn(ctx, kind, x.path(t)); err != nil {
			return result{Outcome: pregel.Aborted, Err: err}
		}
		return r
	}
}

// pause returns the pause before a task's next attempt, and whether another attempt is allowed. A
// replay makes no pauses, and cannot classify a failure of which only the text is known.
func (x *execution) pause(n *node, path string, attempt int, err error) (pause time.Duration, again bool) {
	full, again := n.pause(attempt, err)
	scope := x.journal.Scope(path)
	denied := errors.Is(err, journal.ErrDenied) // it would be again
	if again = again && !denied; denied || errors.As(err, new(*journal.ReplayedError)) {
		if was := scope.Failed(attempt); was != nil {
			again = !was.Final
		}
	}
	_ = scope.Afresh(func() error { pause = full; return nil })
	return pause, again
}
