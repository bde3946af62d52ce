package main

import (
	"fmt"
	"math"
	"strings"
)

// A goal is a figure that we want to reach.
type goal struct {
	wl, what, unit string
	value          func(results) (float64, bool)
	most           float64
	least          bool // the goal is a least one, and most that
}

// met reports whether a value reaches the goal.
func (g *goal) met(v float64) bool {
	if g.least {
		return v >= g.most
	}
	return v <= g.most
}

func (g *goal) bound() string {
	if g.least {
		return "≥ " + figure(g.most) + g.unit
	}
	return "≤ " + figure(g.most) + g.unit
}

// results are the records of one program, as they came.
type results []*record

func (rs results) find(peer, wl, name string) *record {
	for _, r := range rs {
		if r.Peer == peer && r.WL == wl && r.Case == name && r.MedMs > 0 {
			return r
		}
	}
	return nil
}

// of takes a figure of one of our cases.
func of(wl, name string, figure func(*record) float64) func(results) (float64, bool) {
	return func(rs results) (float64, bool) {
		r := rs.find(ours, wl, name)
		if r == nil {
			return 0, false
		}
		v := figure(r)
		return v, !math.IsNaN(v)
	}
}

func perUnit(r *record) float64 { return r.UsPerN }
func allocs(r *record) float64  { return r.Allocs }
func wall(r *record) float64    { return r.MedMs }
func nanos(r *record) float64   { return r.UsPerN * 1000 }

func extra(key string) func(*record) float64 {
	return func(r *record) float64 {
		if v, ok := r.Extra[key]; ok {
			return v
		}
		return math.NaN()
	}
}

// against returns the ratio of the cost of a unit in one of our cases to that on the bare machine:
// the median over the repetitions, which alternated.
func against(wl, name, limit string) func(results) (float64, bool) {
	return func(rs results) (float64, bool) { return ratio(rs.find(ours, wl, name), rs.find(bare, wl, limit)) }
}

func ratio(r, limit *record) (float64, bool) {
	if r == nil || limit == nil {
		return 0, false
	}
	var ratios []float64
	for i := range min(len(r.WallMs), len(limit.WallMs)) {
		ratios = append(ratios, r.WallMs[i]/float64(r.N)/(limit.WallMs[i]/float64(limit.N)))
	}
	return median(ratios), len(ratios) > 0
}

// beyond returns what a turn of one of our agents takes beyond that by hand, in µs: the median over the repetitions, which alternated.
func beyond(name string) func(results) (float64, bool) {
	return func(rs results) (float64, bool) { return overhead(rs.find(ours, "W9", name), rs) }
}

func overhead(r *record, rs results) (float64, bool) {
	hand := rs.find(bare, "W9", "go-http-json")
	if r == nil || hand == nil {
		return 0, false
	}
	var over []float64
	for i := range min(len(r.WallMs), len(hand.WallMs)) {
		over = append(over, (r.WallMs[i]/float64(r.N)-hand.WallMs[i]/float64(hand.N))*1000)
	}
	return median(over), true
}

// toBest returns the ratio of what one of our agents takes beyond that by hand to what the best of the others does.
func toBest(name string) func(results) (float64, bool) {
	return func(rs results) (float64, bool) {
		best := math.Inf(1)
		for _, r := range rs {
			if r.WL == "W9" && r.Peer != ours && r.Peer != bare {
				if v, ok := overhead(r, rs); ok && r.Note == "" {
					best = min(best, v)
				}
			}
		}
		v, ok := beyond(name)(rs)
		return v / best, ok && !math.IsInf(best, 1)
	}
}

func exponentOf(name string) func(results) (float64, bool) {
	return func(rs results) (float64, bool) {
		for _, f := range fits(rs) {
			if f.series.name == name && f.ok {
				return f.exponent, true
			}
		}
		return 0, false
	}
}

// goals returns all goals, in the order of the workloads.
func goals() []goal {
	var gs []goal
	add := func(wl, what, unit string, most float64, value func(results) (float64, bool)) {
		gs = append(gs, goal{wl: wl, what: what, unit: unit, most: most, value: value})
	}
	for _, c := range []string{"chain-10", "chain-100", "chain-1000", "chain-100000", "self-loop-1000"} {
		add("W1", c+", a step", " µs", 1, of("W1", c, perUnit))
		add("W1", c+", a step", " allocations", 4, of("W1", c, allocs))
	}
	for _, shape := range []string{"static", "fan"} {
		for _, k := range []int{10, 100, 1000, 10_000} {
			add("W2", fmt.Sprintf("%s of %d, a branch", shape, k), " µs", 1.5, of("W2", fmt.Sprint(shape, "-K", k), perUnit))
		}
	}
	add("W2", "compiling 10,000 nodes", " ms", 50, of("W2", "compile-K10000", wall))
	add("W3", "router loop, a step", " µs", 0.8, of("W3", "loop-router-10000", perUnit))
	for _, p := range []struct {
		name, unit string
		most       float64
	}{{"sqlite", "a commit of one row", 1.2}, {"file", "an append that is synced", 1.3}, {"pg", "a synced insert", 1.2}, {"redis", "a SET", 2}} {
		for _, c := range []struct{ name, what string }{{"1KB", "a step of 1 KB"}, {"100KB", "a step of 100 KB"}, {"grow", "a step of a growing list"}} {
			add("W4", p.name+": "+c.what+", to "+p.unit, " ×", p.most, of("W4", p.name+"-"+c.name+"-in-turns", extra("step_to_row")))
		}
		add("W4", p.name+": growing list, the last 100 steps to the first", " ×", 1.2, of("W4", p.name+"-grow", extra("last_to_first")))
		add("W4", p.name+": growing list, what it takes", " MiB", 2.5, of("W4", p.name+"-grow", extra("disk_mib")))
		add("W4", p.name+": growing list, taking it up", " ms", 10, of("W4", p.name+"-resume-grow", wall))
		add("W4", p.name+": a step of 100 runs at once, to a row of a group commit", " ×", 3, against("W4", p.name+"-100-runs-at-once", p.name+"-1000-rows-1KB"))
		add("W4", p.name+": listing 10,000 runs", " ms", 50, of("W4", p.name+"-list-10000", wall))
	}
	add("W5", "10,000 runs that wait 100 ms", " ms", 250, of("W5", "concurrent-10000", wall))
	add("W5", "heap and stack of each", " bytes", 8192, of("W5", "concurrent-10000", extra("heap_stack_bytes_per_run")))
	for _, p := range []string{"sqlite", "file", "pg", "redis"} {
		add("W5", p+": 1,000 durable runs of 10 steps", " ms", 600, of("W5", p+"-1000-runs-10-steps", wall))
	}
	for _, c := range []struct{ name, what, least, to string }{
		{"dag-sleep", "six nodes", "the critical path", "to_least"},
		{"dag-1000", "1,000 nodes", "the critical path", "to_least"},
		{"dag-1000-width16", "1,000 nodes, 16 at once", "no moment lost", "to_greedy"}, // who does not know what they cost cannot do better
	} {
		add("W6", c.what+", to "+c.least, " ×", 1.006, of("W6", c.name, extra(c.to)))
		add("W6", c.what+", to goroutines by hand", " ×", 1.006, against("W6", c.name, "go-"+c.name))
	}
	for _, size := range []string{"100k-1M", "1000k-10M"} {
		add("W7", "PageRank of "+size+", an edge", " ns", 10, of("W7", "pagerank-"+size, nanos))
		add("W7", "a vertex", " bytes", 40, of("W7", "pagerank-"+size, extra("bytes_per_vertex")))
		add("W7", "an edge", " bytes", 8.1, of("W7", "pagerank-"+size, extra("bytes_per_edge")))
		add("W7", "components of "+size, " ms", 1500, of("W7", "cc-"+size, wall))
	}
	for _, c := range []string{"max-100-producers", "max-100-runs"} {
		gs = append(gs, goal{wl: "W8", what: c + ", events that a reader has had", unit: " a second", most: 2e6, least: true,
			value: of("W8", c, extra("events_per_s"))})
	}
	for _, c := range []string{"paced-100x200", "paced-100-runs"} {
		add("W8", c+", 99 in 100 events", " µs", 200, of("W8", c, extra("lat_p99_us")))
	}
	add("W8", "a stalled reader", " MiB", 16, of("W8", "stalled-reader", extra("heap_mib")))
	for _, c := range []string{"agent", "agent-responses", "agent-memory", "agent-sqlite"} {
		add("W9", c+", a turn beyond the same by hand", " µs", 1000, beyond(c))
	}
	add("W9", "agent, that to the best of the others", " ×", 1, toBest("agent")) // which keep nothing either
	for _, s := range []struct {
		wl, name string
		grows    float64
	}{
		{"W1", "chain", 1}, {"W1", "steps before", 1}, {"W1", "idle nodes", 0}, {"W2", "static", 1}, {"W2", "fan", 1},
		{"W4", "durable steps before", 1}, {"W4", "untouched state", 0},
	} {
		add(s.wl, "exponent: "+s.name, "", s.grows+0.1, exponentOf(s.name))
	}
	return gs
}

// figure returns a number with the digits that count: three, or four of one between 1 and 10,
// which may be a ratio.
func figure(v float64) string {
	switch x := math.Abs(v); {
	case x < 1e-6:
		return "0"
	case x >= 1e4:
		return thousands(v)
	case x >= 100:
		return fmt.Sprintf("%.0f", v)
	case x >= 1:
		return trimmed(fmt.Sprintf("%.*f", 3-int(math.Log10(x)), v))
	default:
		return trimmed(fmt.Sprintf("%.*f", 2-int(math.Floor(math.Log10(x))), v))
	}
}

func trimmed(s string) string { return strings.TrimSuffix(strings.TrimRight(s, "0"), ".") }

func thousands(v float64) string {
	s := fmt.Sprintf("%.0f", math.Abs(v))
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	if v < 0 {
		s = "-" + s
	}
	return s
}
