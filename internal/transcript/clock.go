package transcript

import (
	"strings"
	"time"

	"github.com/superstep-dev/superstep/runlog"
)

// A Span adds up the time that something was running.
type Span struct {
	spent time.Duration
	since time.Time // zero while it is not running
}

// Elapsed is the execution time until now. Now is used only while the span is open.
func (s Span) Elapsed(now time.Time) time.Duration {
	if s.since.IsZero() {
		return s.spent
	}
	return s.spent + max(0, now.Sub(s.since))
}

func (s *Span) start(at time.Time) {
	if s.since.IsZero() {
		s.since = at
	}
}

func (s *Span) stop(at time.Time) {
	s.spent, s.since = s.Elapsed(at), time.Time{}
}

// A load counts the unfinished tasks of a run, of a superstep or at and below a path. Waits counts those that wait for a user, works those that do more
// than wait for the tasks inside them.
type load struct{ active, waits, works int }

func (l *load) add(d load) {
	l.active, l.waits, l.works = l.active+d.active, l.waits+d.waits, l.works+d.works
}

func (l load) minus(d load) load {
	return load{l.active - d.active, l.waits - d.waits, l.works - d.works}
}

// idle reports whether all of it waits for users.
func (l *load) idle() bool { return l.waits > 0 && l.works == 0 }

// count updates the loads after a change of a task.
func (r *Run) count(t *Task) {
	for ; t != nil; t = r.above(t.Path) { // whether one waits for the tasks in it depends on them
		var is load
		if !t.Ended() {
			is.active = 1
		} else if t.held {
			t.held = false
			r.held--
		}
		switch below := r.at(t.Path).active - t.load.active; {
		case t.State == Waiting:
			is.waits = 1
		case t.State == Running && (t.Thinking || below == 0):
			is.works = 1
		}
		r.countLeaf(t)
		if is == t.load {
			continue
		}
		d := is.minus(t.load)
		t.load = is
		r.load.add(d)
		r.Steps[t.Step].load.add(d)
		for path := t.Path; ; path = parent(path) {
			if r.at(path).add(d); parent(path) == "" {
				break
			}
		}
	}
}

// countLeaf counts the tasks that have not ended and have no task in them, and those of them that wait to try again.
func (r *Run) countLeaf(t *Task) {
	leaf := !t.Ended() && t.Children == nil
	if leaf != t.leaf {
		if t.leaf = leaf; leaf {
			r.leaves++
		} else {
			r.leaves--
		}
	}
	if rests := leaf && (!t.RetryAt.IsZero() || t.sleeps()); rests != t.rests {
		if t.rests = rests; rests {
			r.resting++
		} else {
			r.resting--
		}
	}
	if waits := leaf && !t.RetryAt.IsZero(); waits != t.retries {
		if t.retries = waits; waits {
			r.retrying++
		} else {
			r.retrying--
		}
	}
}

// sleeps reports whether a script does nothing but sleep in the task.
func (t *Task) sleeps() bool {
	u := t.Current()
	return u != nil && u.Kind == "sleep"
}

// Waited returns for how long, of its Time, the run has only waited until now for a date, a rate limit or the next attempt.
func (r *Run) Waited(now time.Time) time.Duration {
	if r.Status != runlog.Running || r.leaves == 0 || r.resting < r.leaves {
		return r.rested
	}
	for _, t := range r.Tasks {
		if t.rests && !t.RetryAt.IsZero() && t.RetryAt.Before(now) {
			now = t.RetryAt // what it then does has no record yet
		}
	}
	return r.rested + max(0, now.Sub(r.last))
}

// at returns the load at and below a path.
func (r *Run) at(path string) *load {
	l := r.loads[path]
	if l == nil {
		if r.loads == nil {
			r.loads = map[string]*load{}
		}
		l = &load{}
		r.loads[path] = l
	}
	return l
}

func parent(path string) string { return path[:max(0, strings.LastIndexByte(path, '/'))] }

// above returns the innermost task around a path, or nil if there is none.
func (r *Run) above(path string) *Task {
	for path = parent(path); path != ""; path = parent(path) {
		if t := r.paths[path]; t != nil {
			return t
		}
	}
	return nil
}

// clocks stops the clocks of the run, superstep and tasks that only wait for users, and restarts them afterwards. A change of a task can only affect the
// tasks around it.
func (r *Run) clocks(t *Task, at time.Time) {
	if r.Status != runlog.Running {
		return
	}
	set := func(span *Span, idle bool) {
		if idle {
			span.stop(at)
		} else {
			span.start(at)
		}
	}
	r.waited = r.load.idle()
	if set(&r.Time, r.waited); r.waited {
		r.idle = at
	}
	for _, s := range r.Steps[min(r.step, len(r.Steps)):] { // those before are done
		if was := s.Time; !s.Done {
			if set(&s.Time, s.load.idle()); s.Time != was {
				r.touchStep(s)
			}
		}
	}
	for ; t != nil; t = r.above(t.Path) {
		switch idle := t.State == Running && r.at(t.Path).idle(); {
		case idle && !t.held:
			t.held = true
			r.held++
			t.Time.stop(at)
		case !idle && t.held:
			t.held = false
			r.held--
			if t.State == Running {
				t.Time.start(at)
			}
		}
	}
}
