package transcript

import (
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/runlog"
)

// task finds or makes the task of a path. Of a new one, step is its superstep, -1 for the one under way.
func (r *Run) task(path string, step int, at time.Time) *Task {
	if t := r.paths[path]; t != nil {
		r.place(t, step, at)
		return t
	}
	if top, _, inside := strings.Cut(path, "/"); inside { // its own superstep is one of the graph that it is in
		step = -1
		if t := r.paths[top]; t != nil {
			step = t.Step
		}
	}
	if step < 0 || step > len(r.Steps)+maxGap {
		step = r.step
	}
	if r.paths == nil {
		r.paths = map[string]*Task{}
	}
	node, key := split(path)
	t := &Task{Path: Line(path), Node: Line(node), Key: Line(key), Step: step, State: Running, Attempt: 1}
	now := at
	if !r.began.IsZero() {
		at = r.began // records say when work is done; it began with its superstep, unless something says better
	}
	t.Time.start(at)
	if r.Time.since.IsZero() && r.asking > 0 && now.After(r.idle) && !r.idle.IsZero() { // it worked while others waited, and nobody had said so
		r.Time.spent += now.Sub(r.idle)
		r.idle = now
	}
	r.paths[path] = t
	r.Tasks = append(r.Tasks, t)
	s := r.grow(step, at)
	s.Tasks = append(s.Tasks, t)
	return t
}

// place moves a task and what is in it to its superstep, once a record says which that is.
func (r *Run) place(t *Task, step int, at time.Time) {
	if step < 0 || step == t.Step || step > len(r.Steps)+maxGap || strings.Contains(t.Path, "/") {
		return
	}
	to := r.grow(step, at)
	for _, moved := range slices.Clone(r.Steps[t.Step].Tasks) {
		if moved == t || strings.HasPrefix(moved.Path, t.Path+"/") {
			from := r.Steps[moved.Step]
			from.Tasks = slices.DeleteFunc(from.Tasks, func(x *Task) bool { return x == moved })
			to.load.add(moved.load)
			from.load = from.load.minus(moved.load)
			moved.Step = step
			to.Tasks = append(to.Tasks, moved)
		}
	}
}

// grow sees to it that there is a superstep of that number.
func (r *Run) grow(n int, at time.Time) *Step {
	for len(r.Steps) <= n {
		s := &Step{Number: len(r.Steps)}
		s.Time.start(at)
		if s.Number == r.step && r.sends != nil {
			s.Planned = map[string]int{}
			for node, keys := range r.sends {
				s.Planned[node] = len(keys)
			}
			r.sends = nil
		}
		r.Steps = append(r.Steps, s)
	}
	return r.Steps[n]
}

// work is task for one that shows that it is running.
func (r *Run) work(path string, step int, at time.Time) *Task {
	t := r.task(path, step, at)
	switch t.State {
	case Done, Skipped, Partly:
	default:
		t.State = Running
		t.Time.start(at)
	}
	return t
}

// begins is work for a record that is written when a task begins, if it is the first one of it.
func (r *Run) begins(rec *runlog.Record) *Task {
	fresh := r.paths[rec.Path] == nil
	t := r.work(rec.Path, -1, rec.Time)
	if fresh {
		t.Time = Span{since: rec.Time}
	}
	return t
}

func (t *Task) end(s State, at time.Time) {
	t.State, t.Thinking, t.Summing, t.live, t.Progress = s, false, false, nil, nil
	t.Time.stop(at)
	for _, o := range t.open {
		o.State = Stopped
		o.Time.stop(at)
	}
	t.open = nil
}

func (r *Run) applyTask(rec *runlog.Record) {
	switch rec.Kind {
	case runlog.KindTaskDone:
		d, _ := decode[runlog.TaskDone](rec)
		t := r.task(rec.Path, d.Step, rec.Time)
		t.Error = Clean(d.Error)
		switch {
		case t.fate != "":
			t.end(t.fate, rec.Time)
			if t.fate == Skipped && !slices.Contains(r.Skipped, t.Path) {
				r.Skipped = append(r.Skipped, t.Path)
			}
		case d.Error != "" && d.Update != nil: // something takes the place of what it failed to give
			var stand struct{ Status State }
			if _ = json.Unmarshal(d.Update, &stand); stand.Status != Partly {
				stand.Status = Failed
			}
			t.end(stand.Status, rec.Time)
		case d.Error != "":
			t.end(Failed, rec.Time)
		default:
			t.end(Done, rec.Time)
		}
		if !strings.Contains(rec.Path, "/") {
			r.plan(d.Sends)
		}
	case runlog.KindTaskFailed:
		d, _ := decode[runlog.TaskFailed](rec)
		t := r.work(rec.Path, d.Step, rec.Time)
		t.Error = Clean(d.Error)
		t.Attempt = max(1, d.Attempt)
		if d.Final {
			t.end(Failed, rec.Time)
			return
		}
		t.Attempt++
		t.fate, t.Why = "", ""
		t.Thinking, t.Summing, t.live, t.open, t.Progress = false, false, nil, nil, nil
	case runlog.KindStepCommitted:
		d, ok := decode[runlog.StepCommitted](rec)
		if rec.Path != "" { // of a graph within a task
			return
		}
		if !ok || d.Step < 0 || d.Step > len(r.Steps)+maxGap {
			return
		}
		s := r.grow(d.Step, rec.Time)
		s.Done = true
		slices.SortStableFunc(s.Tasks, func(a, b *Task) int { return strings.Compare(a.Path, b.Path) }) // as they were folded
		s.Time.stop(rec.Time)
		r.step, r.began = d.Step+1, rec.Time
	}
}

// plan notes the sends that have keys, which are as many tasks of the next superstep.
func (r *Run) plan(sends []runlog.TaskSend) {
	for _, s := range sends {
		if s.Key == "" {
			continue
		}
		if r.sends == nil {
			r.sends = map[string]map[string]bool{}
		}
		if r.sends[s.To] == nil {
			r.sends[s.To] = map[string]bool{}
		}
		r.sends[s.To][s.Key] = true
	}
}

// split takes the identity of a task apart, as pregel.Path puts it together.
func split(path string) (node, key string) {
	i := strings.IndexAny(path, "[#")
	if i < 0 {
		return path, ""
	}
	node, rest := path[:i], path[i:]
	if end := strings.IndexByte(rest, ']'); rest[0] == '[' && end > 0 {
		parts := strings.Split(rest[1:end], "%")
		key = parts[0]
		for _, part := range parts[1:] {
			if raw, err := hex.DecodeString(part[:min(2, len(part))]); err == nil && len(raw) == 1 {
				key += string(raw) + part[2:]
			} else {
				key += "%" + part
			}
		}
	}
	return node, key
}
