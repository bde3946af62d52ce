package graph

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/pregel"
	"github.com/superstep-dev/superstep/runlog"
)

// mostShown is how many paths an error names.
const mostShown = 20

// An InsideError reports that no graph with a readable history ran within a task.
type InsideError struct {
	Path   string
	Graphs []string // the paths of the graphs within the run, in the order in which they began
	Why    string   // the reason if there is a graph at the path, and it cannot be read
}

func (e *InsideError) Error() string {
	switch {
	case e.Why != "":
		return fmt.Sprintf("the graph inside of %s cannot be read: %s", e.Path, e.Why)
	case len(e.Graphs) == 0:
		return fmt.Sprintf("there is no graph inside of %s, nor of another task of the run", e.Path)
	}
	shown := e.Graphs
	if more := len(shown) - mostShown; more > 0 {
		shown = append(shown[:mostShown:mostShown], fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("there is no graph inside of %s; there is one inside of: %s", e.Path, strings.Join(shown, ", "))
}

// Insides returns the paths of the graphs that tasks ran within the run, in the order in which they began.
func Insides(records iter.Seq2[runlog.Record, error]) (paths []string, err error) {
	_, paths, err = insides(records, "")
	return paths, err
}

// insides also returns the inputs of the workflows that tasks up to a path called.
func insides(records iter.Seq2[runlog.Record, error], path string) (inputs map[string]json.RawMessage, paths []string, err error) {
	inputs = map[string]json.RawMessage{}
	seen := map[string]bool{}
	for r, err := range records {
		if err != nil {
			return nil, nil, err
		}
		switch {
		case r.Kind == runlog.KindInner && !seen[r.Path]:
			seen[r.Path] = true
			paths = append(paths, r.Path)
		case r.Kind == runlog.KindSettled && (path == r.Path || strings.HasPrefix(path, r.Path+"/")):
			if s := (runlog.Settled{}); json.Unmarshal(r.Data, &s) == nil && s.Key == inputsKey && s.Error == "" {
				inputs[r.Path] = s.Output
			}
		}
	}
	return inputs, paths, nil
}

// Inside returns the Reading of a graph that a task ran within its run: that of a [Sub], of another node with Inner, or, if calls is given, of a [Call].
// The path is that of the task, such as "plan" or "work[a]#1/review", as [Insides] returns it. The records are the run's log from its first record on, for
// the Reading as well. Calls returns the graph of a workflow with the inputs that it was called with. The Reading has a history; a fork begins
// outside of it. If there is no such graph, the error is an *InsideError.
func Inside(flow Reading, records iter.Seq2[runlog.Record, error], path string, calls func(workflow string, inputs json.RawMessage) (Reading, error)) (Reading, error) {
	inputs, paths, err := insides(records, path)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(paths, path) {
		return nil, &InsideError{Path: path, Graphs: paths}
	}
	for space := ""; space != path; {
		next := path
		for _, p := range paths { // the outermost that is left
			if len(p) > len(space) && len(p) < len(next) && strings.HasPrefix(path, p+"/") {
				next = p
			}
		}
		inner, calling, err := flow.inside(strings.TrimPrefix(strings.TrimPrefix(next, space), "/"))
		if err == nil && inner == nil {
			in, called := inputs[next]
			if calls == nil || !called {
				return nil, &InsideError{Path: next, Why: "its node does not say which graph it is"}
			}
			inner, err = calls(calling, in)
		}
		if err != nil {
			return nil, &InsideError{Path: next, Why: err.Error()}
		}
		flow, space = inner.at(next), next
	}
	return flow, nil
}

// inside returns the graph that a task runs at a path, or nil and the workflow that it calls.
func (f *core) inside(path string) (inner Reading, calls string, err error) {
	task, part, _ := strings.Cut(path, "/")
	i, ok := f.index[pregel.VertexOf(task)]
	if !ok {
		return nil, "", fmt.Errorf("graph %s has no node %q any more", f.name, pregel.VertexOf(task))
	}
	n := &f.nodes[i]
	if n.Inner != nil {
		if inner, err = n.Inner(part); inner != nil || err != nil {
			return inner, "", err
		}
	}
	if len(n.Uses) != 1 {
		return nil, "", errors.New("it is made while its node runs")
	}
	return nil, n.Uses[0], nil
}

func (f *flow) inside(path string) (inner Reading, calls string, err error) {
	return f.engine.inside(path)
}

func (f *flow) at(space string) Reading { return f.engine.at(space) }

func (f *core) at(space string) Reading { return &inner{f, space} }

// inner is a graph within a task, for its history.
type inner struct {
	*core
	space string
}

// Checkpoints implements Reading.
func (f *inner) Checkpoints(records iter.Seq2[runlog.Record, error]) iter.Seq2[Checkpoint[json.RawMessage], error] {
	return f.checkpoints(records, f.space)
}

var errFork = errors.New("a fork begins at a superstep of the run's own graph, not of one inside of it")

// Fork implements Reading.
func (*inner) Fork(iter.Seq2[runlog.Record, error], *ForkPoint) (*Forked, error) {
	return nil, errFork
}

// Seed implements Reading.
func (*inner) Seed(map[string]json.RawMessage) (*Forked, error) { return nil, errFork }
