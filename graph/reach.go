package graph

import "slices"

// unjoined finds two sources of a join of which one may run without the other: some path leads to
// the first, and from no node on it is the second inevitable. Fans are taken to send something.
func (c *compiler) unjoined(join int) (runs, not int, found bool) {
	sources := c.in[join]
	if len(sources) < 2 || !c.chooses() {
		return 0, 0, false
	}
	if c.idom == nil {
		c.dominate()
	}
	common := sources[0]
	for _, s := range sources[1:] {
		common = c.common(common, s)
	}
	from := []int{common}
	if common == len(c.g.nodes) {
		from = slices.Clone(c.entries)
	}
	// A node is certain if edges alone lead to it from the node that all ways to the sources pass
	// through.
	sure := make([]bool, len(c.g.nodes))
	mark(from, sure, func(i int) [2][]int { return [2][]int{c.out[i]} })
	for _, s := range sources {
		if sure[s] {
			continue
		}
		if runs, found = c.without(s, sources); found {
			return runs, s, true
		}
	}
	return 0, 0, false
}

// without finds a node among some that can be reached on a path where no node certainly leads to
// the other one.
func (c *compiler) without(node int, out []int) (int, bool) {
	n := len(c.g.nodes)
	leads := c.inevitable(node)
	if leads[n] {
		return 0, false
	}
	seen := slices.Clone(leads[:n])
	mark(slices.Concat(c.entries, c.starts), seen, func(i int) [2][]int { return [2][]int{c.out[i], c.loose[i]} })
	for _, o := range out {
		if seen[o] && !leads[o] {
			return o, true
		}
	}
	return 0, false
}

// chooses reports whether the graph has any branch.
func (c *compiler) chooses() bool {
	for _, r := range c.g.routes {
		if r.branch != nil {
			return true
		}
	}
	return false
}

// dominate finds the immediate dominator of every node: the last other node that every path from
// Start to it passes. Start is the place after the last node. The algorithm is that of Cooper,
// Harvey and Kennedy, "A Simple, Fast Dominance Algorithm" (2001).
func (c *compiler) dominate() {
	n := len(c.g.nodes)
	next := func(i int) [2][]int {
		if i == n {
			return [2][]int{c.entries, c.starts}
		}
		return [2][]int{c.out[i], c.loose[i]}
	}
	c.order = make([]int, n+1) // in postorder, 0 for what cannot be reached
	var post []int
	type frame struct{ node, list, at int }
	seen := make([]bool, n+1)
	seen[n] = true
	for stack := []frame{{node: n}}; len(stack) > 0; {
		f := &stack[len(stack)-1]
		lists := next(f.node)
		if f.list == len(lists) {
			post = append(post, f.node)
			c.order[f.node] = len(post)
			stack = stack[:len(stack)-1]
			continue
		}
		if f.at == len(lists[f.list]) {
			f.list, f.at = f.list+1, 0
			continue
		}
		to := lists[f.list][f.at]
		f.at++
		if !seen[to] {
			seen[to] = true
			stack = append(stack, frame{node: to})
		}
	}
	back := make([][]int, n+1)
	for i := range n + 1 {
		for _, list := range next(i) {
			for _, to := range list {
				back[to] = append(back[to], i)
			}
		}
	}
	c.idom = make([]int, n+1)
	for i := range c.idom {
		c.idom[i] = -1
	}
	c.idom[n] = n
	slices.Reverse(post)
	for more := true; more; {
		more = false
		for _, i := range post[1:] {
			best := -1
			for _, b := range back[i] {
				switch {
				case c.idom[b] < 0:
				case best < 0:
					best = b
				default:
					best = c.common(best, b)
				}
			}
			if c.idom[i] != best {
				c.idom[i], more = best, true
			}
		}
	}
}

// common returns the last node that every path to a and every path to b passes.
func (c *compiler) common(a, b int) int {
	for a != b {
		if c.order[a] < c.order[b] {
			a = c.idom[a]
		} else {
			b = c.idom[b]
		}
	}
	return a
}

// inevitable reports for every node whether the given node runs after it on every route, provided
// that loops end. The last entry is for Start.
func (c *compiler) inevitable(node int) []bool {
	n := len(c.g.nodes)
	leads := make([]bool, n+1)
	back := make([][]int, n)
	for i := range n {
		for _, to := range append(append([]int(nil), c.out[i]...), c.loose[i]...) {
			back[to] = append(back[to], i)
		}
	}
	mark([]int{node}, leads[:n], func(i int) [2][]int { return [2][]int{back[i]} })
	for more := true; more; {
		more = false
		for i := range n {
			if leads[i] && i != node && !leadsOn(c.out[i], c.choices[i], leads) {
				leads[i], more = false, true
			}
		}
	}
	leads[n] = leadsOn(c.entries, c.startChoices, leads)
	return leads
}

// leadsOn reports whether edges or choices lead to nodes that lead on for sure.
func leadsOn(edges []int, choices [][]int, leads []bool) bool {
	for _, to := range edges {
		if leads[to] {
			return true
		}
	}
	for _, choice := range choices {
		all := len(choice) > 0
		for _, to := range choice {
			all = all && to >= 0 && leads[to]
		}
		if all {
			return true
		}
	}
	return false
}
