// Command pagerank runs vertex programs on the edges of a file, as workflows: PageRank, connected components and shortest paths. A run that is killed
// is resumed from its last checkpoint.
//
//	go run ./examples/pagerank run pagerank --edges links.csv
//	go run ./examples/pagerank run components --edges links.csv
//	go run ./examples/pagerank run shortest --edges roads.txt --from home
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/runlog/stores"
	"github.com/superstep-dev/superstep/vertex"
	"github.com/superstep-dev/superstep/workflow"
)

func main() {
	own, err := workflows()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(cli.Main(config(own), nil))
}

func config(own []*workflow.Workflow) *host.Config {
	return &host.Config{Name: "pagerank", Workflows: own, Stores: stores.All()}
}

type inputs struct {
	Edges  string `json:"edges" jsonschema:"a file of edges, one on a line: from and to and maybe a length, with commas, tabs or spaces between them; it may be compressed with gzip or zstd"`
	From   string `json:"from,omitempty" jsonschema:"where the shortest paths begin; the first vertex of the file if it is not given"`
	Top    int    `json:"top,omitempty" jsonschema:"how many lines the result has; 10 if it is not given"`
	Digest string `json:"digest,omitempty" jsonschema:"set by the run itself: the digest of the file, which must not change while the run is resumed"`
}

func workflows() (all []*workflow.Workflow, err error) {
	opt := &workflow.VerticesOptions{Every: 5}
	rank, err := workflow.Vertices("pagerank", "Rank the vertices of a graph by the links to them", pageRank, opt)
	if err != nil {
		return nil, err
	}
	parts, err := workflow.Vertices("components", "Find the parts of a graph that nothing connects", components, opt)
	if err != nil {
		return nil, err
	}
	paths, err := workflow.Vertices("shortest", "Find the shortest paths from one vertex to all others", shortest, opt)
	all = []*workflow.Workflow{rank, parts, paths}
	for _, w := range all {
		w.Prepare = func(raw json.RawMessage) (json.RawMessage, error) {
			in, err := prepare(raw)
			if err != nil {
				return nil, &workflow.InputsError{Workflow: w.Name, Problems: []string{err.Error()}}
			}
			return in, nil
		}
	}
	return all, err
}

// prepare makes the path absolute, since the run may be resumed elsewhere, and notes what the file has now.
func prepare(raw json.RawMessage) (json.RawMessage, error) {
	var in inputs
	var given struct{ Top *int }
	err := errors.Join(json.Unmarshal(raw, &in), json.Unmarshal(raw, &given))
	if err == nil && given.Top != nil && *given.Top < 1 {
		err = fmt.Errorf("--top: want 1 or more lines, got %d", *given.Top)
	}
	if err == nil && in.Digest == "" {
		if in.Edges, err = filepath.Abs(in.Edges); err == nil {
			in.Digest, err = digest(in.Edges)
		}
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(in)
}

type context64 = vertex.Context[float64, float64, float64]

// pageRank ranks until the ranks change by less than a millionth in all. The rank of a vertex without links out goes to all vertices alike, so that the
// ranks add up to 1.
func pageRank(_ context.Context, in inputs) (*workflow.Computation[float64, float64, float64, string], error) {
	g, names, err := read(&in, false)
	if err != nil {
		return nil, err
	}
	n, moved, stuck := float64(g.NumVertices()), vertex.NewSum[float64]("moved"), vertex.NewSum[float64]("stuck")
	return &workflow.Computation[float64, float64, float64, string]{Graph: g, Program: &vertex.Program[float64, float64, float64]{
		Combine:     vertex.CombineSum[float64](),
		Aggregators: []vertex.AnyAggregator{moved, stuck},
		Terminal:    func(b *vertex.Barrier) bool { m, _ := moved.Value(b); return m < 1e-6 },
		Compute: func(c *context64, _ int32, rank *float64, in []float64) vertex.Vote {
			next := 1 / n
			if c.Step() > 0 {
				free, _ := stuck.Value(c)
				next = (0.15 + 0.85*free) / n
			}
			if len(in) > 0 {
				next += 0.85 * in[0]
			}
			moved.Add(c, math.Abs(next-*rank))
			*rank = next
			if links := c.Degree(); links > 0 {
				c.SendToNeighbors(next / float64(links))
			} else {
				stuck.Add(c, next)
			}
			return vertex.Stay
		},
	}, Result: func(r *vertex.Run[float64, float64, float64]) (string, error) {
		ranks := r.Values()
		return table(in.Top, r.Step(), order(len(ranks), func(a, b int32) int { return cmp.Compare(ranks[b], ranks[a]) }), func(v int32) string {
			return fmt.Sprintf("%.6f  %s", ranks[v], names.ids[v])
		}), nil
	}}, nil
}

// components spreads the lowest index to all that are connected.
func components(_ context.Context, in inputs) (*workflow.Computation[int32, float64, int32, string], error) {
	g, names, err := read(&in, true)
	if err != nil {
		return nil, err
	}
	return &workflow.Computation[int32, float64, int32, string]{Graph: g, Program: &vertex.Program[int32, float64, int32]{
		Combine: vertex.CombineMin[int32](),
		Compute: func(c *vertex.Context[int32, float64, int32], v int32, lowest *int32, in []int32) vertex.Vote {
			least := v
			if c.Step() > 0 {
				least = in[0]
			}
			if c.Step() == 0 || least < *lowest {
				*lowest = least
				c.SendToNeighbors(least)
			}
			return vertex.Halt
		},
	}, Result: func(r *vertex.Run[int32, float64, int32]) (string, error) {
		sizes := make([]int, g.NumVertices())
		for _, lowest := range r.Values() {
			sizes[lowest]++
		}
		roots := slices.DeleteFunc(order(len(sizes), func(a, b int32) int { return cmp.Compare(sizes[b], sizes[a]) }), func(v int32) bool { return sizes[v] == 0 })
		return table(in.Top, r.Step(), roots, func(v int32) string {
			return fmt.Sprintf("%d vertices with %s", sizes[v], names.ids[v])
		}), nil
	}}, nil
}

// shortest finds the shortest paths; an edge without a length has length 1.
func shortest(_ context.Context, in inputs) (*workflow.Computation[float64, float64, float64, string], error) {
	g, names, err := read(&in, false)
	if err != nil {
		return nil, err
	}
	entry, ok := names.index[in.From]
	if in.From == "" {
		entry, ok = 0, true
	}
	if !ok {
		return nil, fmt.Errorf("no edge of %s has %q at an end; name a vertex with --from", in.Edges, in.From)
	}
	far := slices.Repeat([]float64{math.Inf(1)}, g.NumVertices())
	return &workflow.Computation[float64, float64, float64, string]{Graph: g, Values: far, Entries: []int32{entry}, Program: &vertex.Program[float64, float64, float64]{
		Combine: vertex.CombineMin[float64](),
		Compute: func(c *context64, _ int32, distance *float64, in []float64) vertex.Vote {
			least := 0.0
			if c.Step() > 0 {
				least = in[0]
			}
			if least >= *distance {
				return vertex.Halt
			}
			*distance = least
			lengths := c.EdgeValues()
			for i, to := range c.Targets() {
				c.Send(to, least+lengths[i])
			}
			return vertex.Halt
		},
	}, Result: func(r *vertex.Run[float64, float64, float64]) (string, error) {
		distances := r.Values()
		reached := slices.DeleteFunc(order(len(distances), func(a, b int32) int { return cmp.Compare(distances[a], distances[b]) }), func(v int32) bool {
			return math.IsInf(distances[v], 1)
		})
		return table(in.Top, r.Step(), reached, func(v int32) string {
			return fmt.Sprintf("%g  %s", distances[v], names.ids[v])
		}), nil
	}}, nil
}

// order returns all vertices, sorted; those that compare equal keep the order of the file.
func order(n int, compare func(a, b int32) int) []int32 {
	all := make([]int32, n)
	for i := range all {
		all[i] = int32(i)
	}
	slices.SortStableFunc(all, compare)
	return all
}

func table(top, steps int, vertices []int32, line func(int32) string) string {
	if top == 0 {
		top = 10
	}
	var b strings.Builder
	for i, v := range vertices[:min(top, len(vertices))] {
		fmt.Fprintf(&b, "%3d. %s\n", i+1, line(v))
	}
	fmt.Fprintf(&b, "%d of %d lines, after %d supersteps", min(top, len(vertices)), len(vertices), steps)
	return b.String()
}
