package node

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/superstep-dev/superstep/graph"
)

// Split deals the items out to several nodes in turn, for [graph.Graph.Fan]: each node is sent its
// own list, and nothing if its list is empty.
func Split[S, E any](items func(S) []E, to ...string) func(S) []graph.Send {
	return func(s S) []graph.Send {
		all := items(s)
		var out []graph.Send
		for i := range min(len(to), len(all)) {
			var share []E
			for k := i; k < len(all); k += len(to) {
				share = append(share, all[k])
			}
			out = append(out, graph.Send{To: to[i], Arg: share})
		}
		return out
	}
}

// Map sends every item to its own task of a node, side by side, for [graph.Graph.Fan]. The key
// identifies an item; a duplicate key fails the node. If key is nil, keys are positions in the list
// from 1, written so that they sort like the items.
func Map[S, E any](to string, items func(S) []E, key func(E) string) func(S) []graph.Send {
	return func(s S) []graph.Send {
		all := items(s)
		digits := len(strconv.Itoa(len(all)))
		out := make([]graph.Send, len(all))
		for i, e := range all {
			out[i] = graph.Send{To: to, Arg: e}
			if key != nil {
				out[i].Key = key(e)
			} else {
				out[i].Key = fmt.Sprintf("%0*d", digits, i+1)
			}
		}
		return out
	}
}

// Gather returns a node that merges the messages sent to it, each decoded into an E. The results
// are named by their senders and sorted by the senders' paths. With a Settled join the failures
// follow the results.
//
// The join sets the number of distinct senders that it waits for, see [graph.Join]. All and Settled
// wait for the nodes that have an edge to it. These nodes also send their results: see the example.
func Gather[S, U, E any](name string, join graph.Join, merge func(S, []Result[E]) (U, error)) graph.Node[S, U] {
	n := graph.Node[S, U]{Name: name, Kind: "gather", Join: join, Err: missing("merge", merge == nil)}
	n.Run = func(_ context.Context, t *graph.Task, s S) (u U, err error) {
		var results []Result[E]
		for _, m := range t.Messages() {
			r := Result[E]{Name: m.From}
			if err := json.Unmarshal(m.Arg, &r.Value); err != nil {
				return u, fmt.Errorf("what %s sent: %w", m.From, err)
			}
			results = append(results, r)
		}
		for _, f := range t.Failures() {
			r := Result[E]{Name: f.Node, Error: f.Error}
			if f.Key != "" {
				r.Name += "[" + f.Key + "]"
			}
			results = append(results, r)
		}
		return merge(s, results)
	}
	return n
}
