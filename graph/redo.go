package graph

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/superstep-dev/superstep/internal/carry"
	"github.com/superstep-dev/superstep/internal/pregel"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/runlog"
)

// redo describes which part of a log a fork computes again.
type redo struct {
	seq    uint64            // the record of the checkpoint that the fork begins with
	step   int               // its superstep
	ended  map[string]int    // the superstep of each task of the run's own graph that has a result
	shapes map[string]*Shape // of the graphs inside of tasks, by the paths of these
	gone   map[string]bool   // paths of tasks, or without their keys and visits, to compute anew
	open   map[string]bool   // the tasks that such a one is inside of: what else they did is kept
	wanted map[string]bool   // the tasks of the run's own graph that are computed anew as a whole because a user wants it
	whole  map[string]bool   // nodes of the run's own graph that see the whole state
	rounds map[string]int    // the first round of a loop that is done again, by the path of the loop
	parts  map[string]string // what kind of effect has the outcome of a part of a task, by path

	retried map[string]bool // tasks whose block was run again, from what it had ended with
}

// redo searches a log for everything that depends on the tasks to compute again.
func (f *core) redo(records iter.Seq2[runlog.Record, error], p *ForkPoint) (*redo, error) {
	d := &redo{step: math.MaxInt, ended: map[string]int{}, shapes: map[string]*Shape{"": &f.shape}, gone: map[string]bool{}, open: map[string]bool{}, wanted: map[string]bool{},
		whole: map[string]bool{}, parts: map[string]string{}, rounds: map[string]int{}, retried: map[string]bool{}}
	for r, err := range records {
		if err != nil {
			return nil, err
		}
		if err := d.scan(&r); err != nil {
			return nil, err
		}
	}
	for _, path := range p.Again {
		top, _, _ := strings.Cut(path, "/")
		if !slices.ContainsFunc(f.shape.Nodes, func(n ShapeNode) bool { return n.Name == pregel.VertexOf(top) }) {
			names := make([]string, len(f.shape.Nodes))
			for i := range f.shape.Nodes {
				names[i] = f.shape.Nodes[i].Name
			}
			return nil, fmt.Errorf("graph %q has no node %q%s", f.name, top, suggest.Hint(top, names))
		}
		for task, step := range d.ended {
			if task == top || pregel.VertexOf(task) == top {
				d.step = min(d.step, step)
			}
		}
		d.take(path)
	}
	if err := d.follow(&f.shape, p.Edits); err != nil {
		return nil, err
	}
	for _, n := range f.shape.Nodes {
		d.whole[n.Name] = !n.Bounded
	}
	return d, f.locate(d, records, p)
}

// follow marks the tasks that saw an edited update: they are computed again too.
func (d *redo) follow(s *Shape, edits []Edit) error {
	for i := range edits {
		if e := &edits[i]; e.Node != "" && (d.gone[e.Node] || d.open[e.Node]) {
			return fmt.Errorf("the edit of %s has no effect: the fork computes that anew; fork from a step that follows it", e.Node)
		}
	}
	for i := range edits {
		for _, n := range s.Nodes {
			if edits[i].Node == "" || s.leads(edits[i].Node, n.Name) {
				d.gone[n.Name] = true
			}
		}
	}
	for i := range edits { // what is said to have been made stands, whatever went before it
		delete(d.gone, edits[i].Node)
	}
	return nil
}

// locate finds the checkpoint before the tasks to compute again.
func (f *core) locate(d *redo, records iter.Seq2[runlog.Record, error], p *ForkPoint) error {
	past, at := f.past(), p.At
	for r, err := range records {
		if err != nil {
			return err
		}
		if at > 0 && r.Seq > at {
			break
		}
		if !past.owns(&r) || past.known(&r) {
			continue
		}
		if err := past.apply(&r); err != nil && !past.other(err) {
			return err
		}
		if r.Kind == runlog.KindTaskDone || past.m == nil {
			continue
		}
		if step := past.m.Step(); at > 0 || step <= d.step || d.seq == 0 {
			d.seq = r.Seq
			if at > 0 {
				d.step = step
			}
		}
	}
	if at > 0 || past.m == nil {
		return nil
	}
	next := past.next()
	for _, path := range p.Again {
		top, _, _ := strings.Cut(path, "/")
		is := func(task string) bool { return task == top || pregel.VertexOf(task) == top }
		if !slices.ContainsFunc(next, is) && !slices.ContainsFunc(slices.Collect(maps.Keys(d.ended)), is) {
			return fmt.Errorf("graph %q has no record of task %s, which may have ended before the run was forked: fork the run that has it", f.name, path)
		}
	}
	return nil
}

// scan updates the scanned state of the log with a record.
func (d *redo) scan(r *runlog.Record) error {
	switch r.Kind {
	case runlog.KindTaskDone:
		if !strings.Contains(r.Path, "/") {
			var done runlog.TaskDone
			if err := done.Parse(r.Data); err != nil {
				return err
			}
			d.ended[r.Path] = done.Step
		}
	case runlog.KindInner:
		var in struct{ Shape *Shape }
		if err := json.Unmarshal(r.Data, &in); err != nil {
			return err
		}
		if in.Shape != nil {
			d.shapes[r.Path] = in.Shape
		}
	case runlog.KindSettled:
		var s struct{ Key string }
		if err := json.Unmarshal(r.Data, &s); err != nil {
			return err
		}
		if s.Key == "ended/2" {
			d.retried[r.Path] = true
		}
		if kind, name := part(s.Key); name != "" {
			d.parts[r.Path+"/"+name] = kind
		}
	case carry.Kind:
		return within(r, func(inner *runlog.Record) (bool, error) { return true, d.scan(inner) })
	}
	return nil
}

// within visits the records inside a KindCarried record and drops those for which keep returns
// false.
func within(r *runlog.Record, keep func(*runlog.Record) (bool, error)) error {
	var c carry.Data
	if err := json.Unmarshal(r.Data, &c); err != nil {
		return err
	}
	var fails error
	wanted := func(kind runlog.Kind, path string, data any) bool {
		b, ok := data.(json.RawMessage)
		if !ok {
			var err error
			if b, err = json.Marshal(data); err != nil {
				fails = err
			}
		}
		is, err := keep(&runlog.Record{Seq: r.Seq, Kind: kind, Path: path, Data: b})
		if err != nil {
			fails = err
		}
		return is
	}
	c.Inner = slices.DeleteFunc(c.Inner, func(in carry.Record) bool { return !wanted(in.Kind, in.Path, in.Data) })
	for i := range c.Scopes {
		s := &c.Scopes[i]
		s.Settled = slices.DeleteFunc(s.Settled, func(e runlog.Settled) bool { return !wanted(runlog.KindSettled, s.Path, e) })
	}
	c.Scopes = slices.DeleteFunc(c.Scopes, func(s carry.Scope) bool { return !wanted("", s.Path, nil) })
	if fails != nil {
		return fails
	}
	var err error
	r.Data, err = json.Marshal(c)
	return err
}

// take marks the task of a path, and everything that depends on it, to be computed again.
func (d *redo) take(path string) {
	space, rest := "", path
	for {
		name, below, more := strings.Cut(rest, "/")
		at := strings.TrimPrefix(space+"/"+name, "/")
		if shape := d.shapes[space]; shape != nil {
			for _, n := range shape.Nodes {
				if shape.leads(pregel.VertexOf(name), n.Name) {
					d.gone[strings.TrimPrefix(space+"/"+n.Name, "/")] = true
				}
			}
		}
		next, _, _ := strings.Cut(below, "/")
		if n := roundOf(next); d.parts[at+"/"+next] == "round" && (d.rounds[at] == 0 || n < d.rounds[at]) {
			d.rounds[at] = n
		}
		inner := d.shapes[at]
		known := inner != nil && !slices.ContainsFunc(inner.Nodes, func(n ShapeNode) bool { return !n.Bounded }) || d.parts[at+"/"+next] != ""
		if !more || !known || d.retried[at] {
			d.gone[at], d.wanted[at] = true, true
			return
		}
		d.open[at] = true
		space, rest = at, below
	}
}

// leads reports whether a node depends on another one. On a cycle a node may depend on itself.
func (s *Shape) leads(from, to string) bool {
	seen := map[string]bool{}
	next := []string{from}
	for len(next) > 0 {
		at := next[0]
		next = next[1:]
		step := func(name string) {
			if !seen[name] {
				seen[name] = true
				next = append(next, name)
			}
		}
		for _, e := range s.Edges {
			if e.From == at {
				step(e.To)
			}
		}
		for _, n := range s.Nodes {
			if slices.Contains(n.Reads, at) {
				step(n.Name)
			}
		}
	}
	return seen[to]
}

// part splits the key of an effect that holds the outcome of a part of a task. For other keys the
// name is "".
func part(key string) (kind, name string) {
	kind, name, _ = strings.Cut(key, "/")
	if kind != "branch" && kind != "round" {
		return "", ""
	}
	return kind, name
}

// anew reports whether a path belongs to a task that is computed again, or lies inside one.
func (d *redo) anew(path string) bool {
	top, _, _ := strings.Cut(path, "/")
	if step, done := d.ended[top]; done {
		if step < d.step {
			return false
		}
		if d.whole[pregel.VertexOf(top)] && step > d.step {
			return true
		}
	}
	for i := 0; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			continue
		}
		at := path[:i]
		if at == top && d.open[top] && !d.wanted[top] && !d.wanted[pregel.VertexOf(top)] && d.first(top) {
			continue // it depends on itself by a loop only, so that is about its later visits
		}
		dir := strings.LastIndexByte(at, '/') + 1
		if d.gone[at] || d.gone[at[:dir]+pregel.VertexOf(at[dir:])] || d.later(at) {
			return true
		}
	}
	return false
}

// first reports whether a task of the run's own graph is of the superstep with which the fork begins.
func (d *redo) first(task string) bool {
	step, done := d.ended[task]
	return done && step == d.step
}

// later reports whether a path belongs to a loop round after a round that is computed again.
func (d *redo) later(path string) bool {
	i := strings.LastIndexByte(path, '/')
	return i >= 0 && d.rounds[path[:i]] > 0 && roundOf(path[i+1:]) > d.rounds[path[:i]]
}

// roundOf returns the number that the name of a part begins with, 0 if it does not.
func roundOf(name string) int {
	digits, _, _ := strings.Cut(name, "-")
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0
	}
	return n
}

// drops reports whether the work recorded under a path and a key is done again.
func (d *redo) drops(path, key string) bool {
	if d.anew(path) {
		return true
	}
	if strings.HasPrefix(key, "ended/") && d.open[path] { // what a block ended with
		return true
	}
	if _, name := part(key); name != "" && d.open[path] {
		at := path + "/" + name
		return d.open[at] || d.anew(at)
	}
	return false
}

// filtered returns the records that a fork keeps.
func (d *redo) filtered(records iter.Seq2[runlog.Record, error]) iter.Seq2[runlog.Record, error] {
	return func(yield func(runlog.Record, error) bool) {
		begun := false
		for r, err := range records {
			if err != nil {
				yield(r, err)
				return
			}
			keep := true
			switch {
			case r.Kind == carry.Kind && begun:
				keep = false // all that is in it was read
			case r.Kind == carry.Kind:
				err = within(&r, func(in *runlog.Record) (bool, error) { return d.keeps(in), nil })
			default:
				begun = begun || r.Kind == runlog.KindTaskDone
				keep = d.keeps(&r)
			}
			if keep && !yield(r, err) || err != nil {
				return
			}
		}
	}
}

func (d *redo) keeps(r *runlog.Record) bool {
	if r.Path == "" {
		return true
	}
	if d.anew(r.Path) {
		return false
	}
	for i := range r.Path { // nothing inside of a part that is kept is asked for
		if r.Path[i] == '/' && d.parts[r.Path[:i]] != "" && !d.open[r.Path[:i]] {
			return false
		}
	}
	if !d.open[r.Path] {
		return true
	}
	switch r.Kind {
	case runlog.KindTaskDone, runlog.KindStepCommitted:
		return false
	case runlog.KindTaskFailed: // the attempt goes on
		var failed runlog.TaskFailed
		return json.Unmarshal(r.Data, &failed) == nil && !failed.Final
	case runlog.KindInner: // a later one has what its graph came to
		var in struct{ Shape json.RawMessage }
		return json.Unmarshal(r.Data, &in) == nil && in.Shape != nil
	case runlog.KindIntended, runlog.KindSettled:
		var e struct{ Key string }
		return json.Unmarshal(r.Data, &e) == nil && !d.drops(r.Path, e.Key)
	}
	return true
}
