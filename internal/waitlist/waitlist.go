// Package waitlist orders the runs that wait for a worker: by priority, then in turns between workflows and keys, then by age. It has no clock and does no
// I/O.
package waitlist

import (
	"slices"
	"time"

	"github.com/superstep-dev/superstep/runlog"
)

// A Run is a run that a worker could take.
type Run struct {
	Info  runlog.Info // without title and summary
	Queue runlog.Queue
}

func (w *Run) older(o *Run) int {
	if c := w.Info.Created.Compare(o.Info.Created); c != 0 {
		return c
	}
	if w.Info.ID < o.Info.ID {
		return -1
	}
	return 1
}

// begun reports that the run was executed before, so that it comes before all that were not.
func (w *Run) begun() bool { return w.Info.Status != runlog.Queued }

// A line holds the waiting runs of one key, or of one workflow, the oldest first.
type line struct {
	name  string
	runs  []*Run
	until time.Time // as many as the limit of the key execute; not before then
}

// A rank holds the waiting runs of one priority, in lines that take turns: the first one is next.
type rank struct {
	begun    bool
	priority int
	lines    []*line
	named    map[string]*line
}

// A List is what a worker knows of the runs that wait for one. The zero value is an empty list.
type List struct {
	Place []string // the labels of the worker
	Away  int      // runs that need a label that it does not have

	ranks  []*rank // the first one is taken first
	held   []string
	known  map[string]bool
	later  []*Run // not before a time
	spread int    // how many of the oldest of a line to choose from
}

// fits reports whether the worker has all labels.
func (l *List) fits(q *runlog.Queue) bool {
	for _, label := range q.Place {
		if !slices.Contains(l.Place, label) {
			return false
		}
	}
	return true
}

// Reset forgets all runs, but not whose turn it is.
func (l *List) Reset() {
	l.known, l.later, l.held, l.Away = map[string]bool{}, nil, nil, 0
	for _, r := range l.ranks {
		r.lines = slices.DeleteFunc(r.lines, func(line *line) bool {
			gone := len(line.runs) == 0
			if line.runs = nil; gone {
				delete(r.named, line.name)
			}
			return gone
		})
	}
}

// Add adds a run, unless it is known or held.
func (l *List) Add(info *runlog.Info) (added bool) {
	if l.known[info.ID] {
		return false
	}
	if info.Owner != "" {
		l.hold(info.ID)
		return true
	}
	if l.known == nil {
		l.known = map[string]bool{}
	}
	l.known[info.ID] = true
	w := &Run{Info: *info}
	if q := info.Queue(); q != nil {
		w.Queue = *q
	}
	w.Info.Title, w.Info.Summary = "", "" // there may be many
	switch {
	case !l.fits(&w.Queue):
		l.Away++
	case !w.Queue.NotBefore.IsZero() && !w.begun():
		l.later = append(l.later, w)
	default:
		l.put(w)
	}
	return true
}

func (l *List) put(w *Run) {
	at, ok := slices.BinarySearchFunc(l.ranks, w, func(r *rank, w *Run) int {
		switch {
		case r.begun != w.begun():
			if r.begun {
				return -1
			}
			return 1
		case r.begun || r.priority == w.Queue.Priority:
			return 0
		case r.priority > w.Queue.Priority:
			return -1
		}
		return 1
	})
	if !ok {
		l.ranks = slices.Insert(l.ranks, at, &rank{begun: w.begun(), priority: w.Queue.Priority, named: map[string]*line{}})
	}
	r := l.ranks[at]
	name := "workflow " + w.Info.Workflow
	if w.Queue.Key != "" {
		name = "key " + w.Queue.Key
	}
	to := r.named[name]
	if to == nil {
		to = &line{name: name}
		r.lines, r.named[name] = append(r.lines, to), to
	}
	pos, _ := slices.BinarySearchFunc(to.runs, w, (*Run).older)
	to.runs = slices.Insert(to.runs, pos, w)
}

// Next removes and returns the run that is next, nil for none. Choose picks a number below n.
func (l *List) Next(now time.Time, choose func(n int) int) *Run {
	l.later = slices.DeleteFunc(l.later, func(w *Run) bool {
		if now.Before(w.Queue.NotBefore) {
			return false
		}
		l.put(w)
		return true
	})
	for _, r := range l.ranks {
		for range r.lines {
			line := r.lines[0]
			copy(r.lines, r.lines[1:])
			r.lines[len(r.lines)-1] = line // it is the last one now
			if len(line.runs) == 0 || now.Before(line.until) {
				continue
			}
			i := choose(min(len(line.runs), max(l.spread, 1)))
			w := line.runs[i]
			copy(line.runs[1:], line.runs[:i])
			line.runs = line.runs[1:]
			delete(l.known, w.Info.ID)
			return w
		}
	}
	return nil
}

// Block keeps the line of a key from being taken from until a time, and puts the run back into it.
func (l *List) Block(w *Run, until time.Time) {
	l.known[w.Info.ID] = true
	l.put(w)
	for _, r := range l.ranks {
		if line := r.named["key "+w.Queue.Key]; line != nil {
			line.until = until
		}
	}
}

// Soonest returns when a run that waits for a date or for others of its key can be tried, zero if none does.
func (l *List) Soonest() (at time.Time) {
	note := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	for _, w := range l.later {
		note(w.Queue.NotBefore)
	}
	for _, r := range l.ranks {
		for _, line := range r.lines {
			if len(line.runs) > 0 && !line.until.IsZero() {
				note(line.until)
			}
		}
	}
	return at
}

// Size returns how many runs this worker could take, now or later, and when the oldest of those that could be taken now was created.
func (l *List) Size() (n int, oldest time.Time) {
	for _, r := range l.ranks {
		for _, line := range r.lines {
			if n += len(line.runs); len(line.runs) > 0 && (oldest.IsZero() || line.runs[0].Info.Created.Before(oldest)) {
				oldest = line.runs[0].Info.Created
			}
		}
	}
	return n + len(l.later), oldest
}

// maxHeld is how many held runs a list remembers.
const maxHeld = 64

func (l *List) hold(id string) {
	if len(l.held) < maxHeld && !slices.Contains(l.held, id) {
		l.held = append(l.held, id)
	}
}

// Held removes and returns the runs that another process held when they were listed or tried. It is about to execute them, unless it has crashed: then
// their status does not change, so no look for new or interrupted runs finds them.
func (l *List) Held() (ids []string) {
	ids, l.held = l.held, nil
	return ids
}

// Won notes that this worker was the first to try a run.
func (l *List) Won() { l.spread /= 2 }

// Lost notes that another worker was faster. The next runs are chosen from more of the oldest of a line, so that workers do not keep meeting.
func (l *List) Lost(id string) {
	l.hold(id)
	l.spread = min(max(2*l.spread, 2), 64)
}
