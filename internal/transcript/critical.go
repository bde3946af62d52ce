package transcript

import (
	"cmp"
	"slices"
	"time"
)

// A Leg is a node on the critical path, and the task that took longest of it: nil if it has none yet.
type Leg struct {
	Node string
	Task *Task
}

// Critical returns the chain of nodes that the run's duration depends on: among all ways through its graph, the one whose tasks took the most time so
// far. Nodes that have not begun are on it while they still may, and make a longer way of two that took the same. It is nil if the log does not tell the
// graph. Edges that lead back are not followed.
func (r *Run) Critical(now time.Time) []Leg {
	n := len(r.Graph)
	if n == 0 {
		return nil
	}
	over := r.Status.Ended()
	index := make(map[string]int, n)
	legs := make([]Leg, n)
	weight := make([]time.Duration, n)
	for i := range r.Graph {
		index[r.Graph[i].Name] = i
		legs[i].Node = r.Graph[i].Name
	}
	slowest := map[[2]int]time.Duration{} // of the tasks of a node in a superstep, which run side by side
	for _, t := range r.Tasks {
		i, known := index[t.Node]
		if t.Parent != nil || !known {
			continue
		}
		took := t.Time.Elapsed(now)
		key := [2]int{i, t.Step}
		if was := slowest[key]; took > was {
			weight[i] += took - was
			slowest[key] = took
		}
		if old := legs[i].Task; old == nil || longer(t, old, now) {
			legs[i].Task = t
		}
	}
	for i := range legs {
		if legs[i].Task != nil {
			legs[i].Task = leaf(legs[i].Task, now)
		}
		skipped := legs[i].Task != nil && legs[i].Task.State == Skipped
		if legs[i].Task == nil && !over || legs[i].Task != nil && !skipped {
			weight[i]++ // of two ways, the longer one
		}
	}
	return r.longest(legs, weight, index, over)
}

// longest returns the heaviest way through the graph.
func (r *Run) longest(legs []Leg, weight []time.Duration, index map[string]int, over bool) []Leg {
	n := len(legs)
	const open, closed = 1, 2
	state, best, next := make([]uint8, n), make([]time.Duration, n), make([]int, n)
	var visit func(i int)
	visit = func(i int) {
		state[i], next[i] = open, -1
		for _, name := range r.Graph[i].To {
			j := index[name]
			if state[j] == open || over && legs[j].Task == nil {
				continue
			}
			if state[j] == 0 {
				visit(j)
			}
			if next[i] < 0 && best[j] > 0 || next[i] >= 0 && best[j] > best[next[i]] {
				next[i] = j
			}
		}
		best[i] = weight[i]
		if next[i] >= 0 {
			best[i] += best[next[i]]
		}
		state[i] = closed
	}
	first := -1
	for i := range n {
		if state[i] == 0 {
			visit(i)
		}
	}
	for i := range n {
		if best[i] > 0 && !(over && legs[i].Task == nil) && (first < 0 || best[i] > best[first]) {
			first = i
		}
	}
	var out []Leg
	for i := first; i >= 0; i = next[i] {
		out = append(out, legs[i])
	}
	return out
}

// longer reports whether a task took longer than another of the same node; of those that took the same, one that has not ended counts.
func longer(a, b *Task, now time.Time) bool {
	open := func(t *Task) int {
		if t.Ended() {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(a.Time.Elapsed(now), b.Time.Elapsed(now)), cmp.Compare(open(a), open(b))) > 0
}

// leaf returns the task that a container of tasks owes its time to.
func leaf(t *Task, now time.Time) *Task {
	for len(t.Agents) == 0 && len(t.Children) > 0 {
		t = slices.MaxFunc(t.Children, func(a, b *Task) int {
			switch {
			case longer(a, b, now):
				return 1
			case longer(b, a, now):
				return -1
			}
			return 0
		})
	}
	return t
}
