package transcript

import (
	"slices"
	"sort"
)

// A changed holds what a reader of changes needs besides the state itself, so that a change costs what it changes, however large the run is.
type changed struct {
	tasks     queue[Task]
	steps     queue[Step]
	questions []entry[*Question]
	nodes     uint64 // Run.Rev when Nodes was set
}

// An entry is a change of a thing by the record of a revision.
type entry[T comparable] struct {
	rev  uint64
	what T
}

// noted adds an entry, unless it is the last one already.
func noted[T comparable](all []entry[T], rev uint64, what T) []entry[T] {
	if n := len(all); n > 0 && all[n-1] == (entry[T]{rev, what}) {
		return all
	}
	return append(all, entry[T]{rev, what})
}

// since returns the entries after a revision.
func since[T comparable](all []entry[T], rev uint64) []entry[T] {
	return all[sort.Search(len(all), func(i int) bool { return all[i].rev > rev }):]
}

// A queue holds things by their last change, the latest at the end.
type queue[T any] struct{ end *spot[T] }

// A spot is the place of a thing in a queue. The zero value is in none.
type spot[T any] struct {
	what          *T
	rev           uint64
	before, after *spot[T]
}

// touch moves a thing to the end.
func (q *queue[T]) touch(s *spot[T], what *T, rev uint64) {
	if s.rev = rev; q.end == s {
		return
	}
	if s.after != nil {
		s.after.before = s.before
	}
	if s.before != nil {
		s.before.after = s.after
	}
	s.what, s.before, s.after = what, q.end, nil
	if q.end != nil {
		q.end.after = s
	}
	q.end = s
}

// since returns the things that changed after a revision, the latest at the end.
func (q *queue[T]) since(rev uint64) (out []*T) {
	for s := q.end; s != nil && s.rev > rev; s = s.before {
		out = append(out, s.what)
	}
	slices.Reverse(out)
	return out
}

// touch marks a task and all tasks around it as changed.
func (r *Run) touch(t *Task) {
	for ; t != nil && (t.Rev != r.Rev || t.viewed != r.Rev && !r.heard); t = t.Parent {
		if t.Rev = r.Rev; !r.heard {
			t.viewed = r.Rev
		}
		r.changed.tasks.touch(&t.place, t, r.Rev)
	}
}

// touchStep marks a superstep as changed.
func (r *Run) touchStep(s *Step) { r.changed.steps.touch(&s.place, s, r.Rev) }

// touchPart marks a part of a task as changed, and counts its size.
func (r *Run) touchPart(t *Task, p *Part) {
	p.Rev = r.Rev
	t.parts = noted(t.parts, r.Rev, p.ID)
	size := p.bytes()
	r.resize(t, size-p.size)
	p.size = size
}

// resize counts a change of the bytes of the parts of a task. If the task has ended, they count toward the window.
func (r *Run) resize(t *Task, by int) {
	t.size += by
	switch {
	case t.counted:
		r.kept += by
	case t.Ended():
		r.retire(t)
	}
}

// retire puts a task that has ended among those whose parts may be dropped.
func (r *Run) retire(t *Task) {
	if !t.counted {
		t.counted = true
		r.ended, r.kept = append(r.ended, t), r.kept+t.size
	}
}

// trim drops the parts of tasks that ended long ago, see Window.
func (r *Run) trim() {
	for r.Window > 0 && r.kept > r.Window && len(r.ended) > 1 {
		t := r.ended[0]
		r.ended = r.ended[1:]
		t.counted = false
		if r.kept -= t.size; !t.Ended() { // it runs again, and is counted when it ends
			continue
		}
		t.Dropped, t.Parts, t.inputs = t.Dropped+len(t.Parts), nil, nil
		t.parts, t.size, t.cleared = nil, 0, r.Rev
		for _, a := range t.Agents {
			a.Calls = nil
		}
		r.touch(t)
	}
}

// bytes is the size of a part.
func (p *Part) bytes() int {
	n := len(p.Text)
	if p.Tool != nil {
		n += len(p.Tool.Result) + len(p.Tool.Input)
	}
	return n
}
