package superstep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/pregel"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// reading returns how a run began, and the graph to read it with.
func (e *Engine) reading(ctx context.Context, id string) (runlog.RunStarted, graph.Reading, error) {
	if _, err := e.find(ctx, id); err != nil {
		return runlog.RunStarted{}, nil, err
	}
	started, err := e.started(ctx, id)
	if err != nil {
		return started, nil, err
	}
	w, err := e.workflowOf(&started)
	if err != nil {
		return started, nil, err
	}
	if w.Flow == nil {
		return started, nil, &workflow.OpaqueError{Name: w.Name}
	}
	flow, err := w.Flow(started.Inputs)
	return started, flow, err
}

// A PointError reports that a run has no such point.
type PointError struct{ Why string }

func (e *PointError) Error() string { return e.Why }

func noPoint(format string, args ...any) error { return &PointError{fmt.Sprintf(format, args...)} }

// Inside returns the graph that a task of a run ran within the run, to read the log of the run with: that of a graph.Sub, of a workflow that was called, of
// a step of a recipe with steps inside. The path is that of the task; "" is the graph of the run. If there is none, the error is a *graph.InsideError, which
// has the paths of those there are.
func (e *Engine) Inside(ctx context.Context, id, path string) (graph.Reading, error) {
	_, flow, err := e.reading(ctx, id)
	if err != nil || path == "" {
		return flow, err
	}
	return graph.Inside(flow, runlog.Records(ctx, e.store, id, 0), path, func(name string, inputs json.RawMessage) (graph.Reading, error) {
		return e.Workflows().Called(name, inputs)
	})
}

// Insides returns the tasks of a run that ran a graph within it, in the order in which they began; see [Engine.Inside].
func (e *Engine) Insides(ctx context.Context, id string) ([]string, error) {
	return graph.Insides(runlog.Records(ctx, e.store, id, 0))
}

// History yields the checkpoints of a run, or of a graph inside of it (see [Engine.Inside]): its beginning, and one after each superstep. A fork
// begins with the checkpoint it was forked from. Nothing is executed. The engine must have the
// run's workflow, and the workflow must have a graph (see workflow.Workflow.Flow).
func (e *Engine) History(ctx context.Context, id, inside string) iter.Seq2[graph.Checkpoint[json.RawMessage], error] {
	return func(yield func(graph.Checkpoint[json.RawMessage], error) bool) {
		flow, err := e.Inside(ctx, id, inside)
		if err != nil {
			yield(graph.Checkpoint[json.RawMessage]{}, err)
			return
		}
		for m, err := range flow.Checkpoints(runlog.Records(ctx, e.store, id, 0)) {
			if err != nil {
				err = fmt.Errorf("run %s: %w", id, err)
			}
			if !yield(m, err) {
				return
			}
		}
	}
}

// At returns the checkpoint that a user names: "3" is after three supersteps, "0" the beginning, "seq:120" right after record 120, and "" the last. The
// name of a node or the path of a task is the checkpoint right before it first ran. After the path of a task and a slash it is one of the graph inside of that
// task: "plan/3", "plan/write", and "plan/" for its last. If there is no such checkpoint, At returns a *PointError or a *graph.InsideError.
func (e *Engine) At(ctx context.Context, id, ref string) (graph.Checkpoint[json.RawMessage], error) {
	inside, whole := "", ref
	if i := strings.LastIndexByte(ref, '/'); i >= 0 {
		inside, ref = ref[:i], ref[i+1:]
	}
	step, seq := -1, uint64(0)
	number, isSeq := strings.CutPrefix(ref, "seq:")
	n, err := strconv.ParseUint(number, 10, 31)
	switch {
	case isSeq && (err != nil || n == 0):
		return graph.Checkpoint[json.RawMessage]{}, noPoint("%q is no record: want seq: and a number from 1", ref)
	case isSeq:
		seq = n
	case err == nil:
		step = int(n)
	}
	var last graph.Checkpoint[json.RawMessage]
	var names []string
	for m, err := range e.History(ctx, id, inside) {
		if err != nil {
			return graph.Checkpoint[json.RawMessage]{}, err
		}
		if seq > 0 && m.Seq > seq {
			break
		}
		last = m
		if step == m.Step {
			return m, nil
		}
		for _, path := range m.Next {
			node := pregel.VertexOf(path[strings.LastIndexByte(path, '/')+1:])
			if path == whole || node == ref {
				return m, nil
			}
			if !slices.Contains(names, node) {
				names = append(names, node)
			}
		}
	}
	switch {
	case last.Seq == 0 && seq == 0:
		return graph.Checkpoint[json.RawMessage]{}, noPoint("the graph of run %s has not begun", id)
	case last.Seq == 0:
		return graph.Checkpoint[json.RawMessage]{}, noPoint("at record %d the graph of run %s had not begun", seq, id)
	case step >= 0:
		return graph.Checkpoint[json.RawMessage]{}, noPoint("run %s has no superstep %d; its last is %d", id, step, last.Step)
	case seq == 0 && ref != "":
		return graph.Checkpoint[json.RawMessage]{}, noPoint("run %s has no step %q%s", id, ref, suggest.Hint(ref, names))
	}
	return last, nil
}

// The ways in which a task can differ between two runs.
const (
	Changed = "changed"
	OnlyA   = "only_a"
	OnlyB   = "only_b"
)

// A TaskDiff is a task that differs between two runs.
type TaskDiff struct {
	Step    int      `json:"step"` // the superstep, from 1
	Path    string   `json:"path"`
	How     string   `json:"how"`
	Changes []Change `json:"changes,omitempty"` // of its result, if it changed
}

// A RunDiff is how two runs differ.
type RunDiff struct {
	Same  int        `json:"same"` // tasks that computed the same in the same superstep
	Tasks []TaskDiff `json:"tasks"`
	State []Change   `json:"state"` // from the last state of the one to that of the other
}

// Diff compares two runs, superstep by superstep. Tasks that a fork did not have to repeat count as
// equal if the other run has them.
func (e *Engine) Diff(ctx context.Context, a, b string) (*RunDiff, error) {
	one, err := e.moments(ctx, a)
	if err != nil {
		return nil, err
	}
	two, err := e.moments(ctx, b)
	if err != nil {
		return nil, err
	}
	out := &RunDiff{Tasks: []TaskDiff{}, State: []Change{}}
	first := max(one[0].Step, two[0].Step)
	if err := out.spared(one, two, first); err != nil {
		return nil, err
	}
	for step := first + 1; step <= max(last(one).Step, last(two).Step); step++ {
		if err := out.step(step, tasksOf(one, step), tasksOf(two, step)); err != nil {
			return nil, err
		}
	}
	state, err := Diff(last(one).State, last(two).State)
	if state != nil {
		out.State = state
	}
	return out, err
}

// spared compares what one run did up to the superstep with which the other began as a fork. The fork may have been given another result of a task: a
// field of the state with the name of the task's node, or in a recipe of the step.
func (d *RunDiff) spared(one, two []graph.Checkpoint[json.RawMessage], first int) error {
	var given []Change
	for i := range one {
		for j := range two {
			if one[i].Step == first && two[j].Step == first {
				var err error
				if given, err = Diff(one[i].State, two[j].State); err != nil {
					return err
				}
			}
		}
	}
	longer := one // which goes back further
	if two[0].Step < one[0].Step {
		longer = two
	}
	for _, m := range longer {
		if m.Step > first {
			break
		}
		for _, t := range m.Tasks {
			field := "/" + escape(pregel.VertexOf(t.Path)) + "/"
			changes := slices.DeleteFunc(slices.Clone(given), func(c Change) bool { return !strings.HasPrefix(strings.TrimPrefix(c.Path, "/steps")+"/", field) })
			if len(changes) == 0 {
				d.Same++
				continue
			}
			d.Tasks = append(d.Tasks, TaskDiff{Step: m.Step, Path: t.Path, How: Changed, Changes: changes})
		}
	}
	return nil
}

func last(ms []graph.Checkpoint[json.RawMessage]) *graph.Checkpoint[json.RawMessage] {
	return &ms[len(ms)-1]
}

func (e *Engine) moments(ctx context.Context, id string) ([]graph.Checkpoint[json.RawMessage], error) {
	var out []graph.Checkpoint[json.RawMessage]
	for m, err := range e.History(ctx, id, "") {
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("the graph of run %s has not begun", id)
	}
	return out, nil
}

func tasksOf(ms []graph.Checkpoint[json.RawMessage], step int) map[string]graph.Result {
	out := map[string]graph.Result{}
	for i := range ms {
		if ms[i].Step == step {
			for _, r := range ms[i].Tasks {
				out[r.Path] = r
			}
		}
	}
	return out
}

func (d *RunDiff) step(step int, a, b map[string]graph.Result) error {
	both := maps.Clone(a)
	maps.Copy(both, b)
	for _, path := range slices.Sorted(maps.Keys(both)) {
		x, inA := a[path]
		y, inB := b[path]
		switch {
		case !inB:
			d.Tasks = append(d.Tasks, TaskDiff{Step: step, Path: path, How: OnlyA})
			continue
		case !inA:
			d.Tasks = append(d.Tasks, TaskDiff{Step: step, Path: path, How: OnlyB})
			continue
		}
		before, err := json.Marshal(x)
		after, err2 := json.Marshal(y)
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		changes, err := Diff(before, after)
		if err != nil {
			return err
		}
		if changes == nil {
			d.Same++
			continue
		}
		d.Tasks = append(d.Tasks, TaskDiff{Step: step, Path: path, How: Changed, Changes: changes})
	}
	return nil
}
