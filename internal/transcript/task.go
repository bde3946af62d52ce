package transcript

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/runlog"
)

// task finds or creates the task of a path. Step is the superstep of a new task, -1 for the current one.
func (r *Run) task(path string, step int, at time.Time) *Task {
	if t := r.paths[path]; t != nil {
		r.place(t, step, at)
		return t
	}
	if top, _, inside := strings.Cut(path, "/"); inside { // its own superstep is one of the graph that it is in
		step = r.task(top, -1, at).Step // its beginning is not in the log, but it has begun
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
	t.Began = at
	if r.Time.since.IsZero() && r.asking > 0 && now.After(r.idle) && !r.idle.IsZero() { // it worked while others waited, and nobody had said so
		r.Time.spent += now.Sub(r.idle)
		r.idle = now
	}
	r.adopt(t)
	r.paths[path] = t
	r.Tasks = append(r.Tasks, t)
	s := r.grow(step, at)
	s.Tasks = append(s.Tasks, t)
	return t
}

// adopt inserts a new task into the tree: below the task around it, and above the tasks inside it.
func (r *Run) adopt(t *Task) {
	t.Order = r.order[t.Path]
	if t.Parent = r.above(t.Path); t.Parent != nil {
		t.Parent.Children = append(t.Parent.Children, t)
		t.Depth = t.Parent.Depth + 1
		for _, u := range t.Parent.open {
			if t.Path == t.Parent.Path+"/"+within(u) {
				u.Child = t
			}
		}
	}
	if r.loads[t.Path] == nil { // nothing is in it
		return
	}
	for _, in := range r.Tasks {
		if !strings.HasPrefix(in.Path, t.Path+"/") {
			continue
		}
		in.Depth++
		r.touch(in)
		if in.Parent != t.Parent {
			continue
		}
		if p := in.Parent; p != nil {
			p.Children = slices.DeleteFunc(p.Children, func(x *Task) bool { return x == in })
		}
		in.Parent = t
		t.Children = append(t.Children, in)
	}
}

// place moves a task and the tasks inside it to their superstep, once a record names it.
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
			r.touch(moved)
			to.Tasks = append(to.Tasks, moved)
		}
	}
}

// grow returns the superstep with that number and creates it, and those before it, if needed.
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
		r.touchStep(s)
	}
	return r.Steps[n]
}

// work is like task, and marks the task as running.
func (r *Run) work(path string, step int, at time.Time) *Task {
	t := r.task(path, step, at)
	switch t.State {
	case Done, Skipped, Partly:
	default:
		t.State = Running
		t.Time.start(at)
	}
	t.goOn()
	return t
}

// goOn ends what a task waits for.
func (t *Task) goOn() { t.Queued, t.RetryAt, t.Limit, t.Trouble = false, time.Time{}, "", "" }

// tells returns the task of a record that says something about it, which begins nothing: a task that waits still waits.
func (r *Run) tells(rec *runlog.Record) *Task {
	if t := r.paths[rec.Path]; t != nil && (t.Queued || !t.RetryAt.IsZero() || r.asks(rec.Path)) {
		return t
	}
	return r.work(rec.Path, -1, rec.Time)
}

// begins is like work, for a record that is written when a task begins. Only the first such record of a task counts.
func (r *Run) begins(rec *runlog.Record) *Task {
	fresh := r.paths[rec.Path] == nil
	t := r.work(rec.Path, -1, rec.Time)
	if fresh {
		t.Time, t.Began = Span{since: rec.Time}, rec.Time
	}
	return t
}

func (r *Run) end(t *Task, s State, at time.Time) {
	t.State, t.Thinking, t.Summing, t.Progress = s, false, false, nil
	t.goOn()
	t.hush()
	t.Time.stop(at)
	t.Left = at
	if r.abort(t, at); t.Ended() {
		r.retire(t)
	}
}

// endWithin ends what is in a task that has ended and has no end of its own in the log: scopes that only hold other things, and agents that were left.
func (r *Run) endWithin(t *Task, at time.Time) {
	for _, in := range t.Children {
		holds := len(in.Agents) == 0
		if in.Ended() && (in.State != Stopped || !holds) {
			continue
		}
		state := Stopped
		if holds {
			state = t.State
		}
		r.end(in, state, at)
		if r.endWithin(in, at); holds { // nobody has noted how long it took: at least as long as anything in it
			in.Time = Span{}
			for _, c := range in.Children {
				in.Time.spent = max(in.Time.spent, c.Time.spent)
			}
		}
		r.count(in)
		r.touch(in)
	}
}

// abort ends the running calls. It removes those whose beginning is not in the log.
func (r *Run) abort(t *Task, at time.Time) {
	for _, o := range t.open {
		o.State = Stopped
		o.Time.stop(at)
		if !o.stored {
			r.remove(t, o)
		} else {
			r.changedPart(t, func(p *Part) bool { return p.Tool == o })
		}
	}
	t.open = nil
}

// remove removes a call from the parts.
func (r *Run) remove(t *Task, u *Tool) {
	t.Parts = slices.DeleteFunc(t.Parts, func(p Part) bool {
		if p.Tool == u {
			t.ids[u.Key]--
			r.resize(t, -p.size)
			t.parts = noted(t.parts, r.Rev, p.ID)
		}
		return p.Tool == u
	})
}

// took sets the execution time to the recorded one after an execution or an attempt has ended.
func (r *Run) took(t *Task, ms int64) {
	if r.timed {
		if began := t.Left.Add(-time.Duration(ms) * time.Millisecond); t.stored == 0 && began.After(t.Began) {
			t.Began = began
		}
		t.stored += time.Duration(ms) * time.Millisecond
		t.Time = Span{spent: t.stored}
	}
}

// add appends a part. It derives the part's ID from the key of an effect or, if the key is "", from the number of the record.
func (r *Run) add(t *Task, key string, p Part) {
	if key == "" {
		key = fmt.Sprintf("record-%d", r.Seq)
	}
	if t.ids == nil {
		t.ids = map[string]int{}
	}
	if t.ids[key]++; t.ids[key] > 1 { // it was done again
		key = fmt.Sprintf("%s~%d", key, t.ids[key])
	}
	p.ID = key
	if p.Agent == "" {
		p.Agent = t.Agent
	}
	t.Parts = append(t.Parts, p)
	r.touchPart(t, &t.Parts[len(t.Parts)-1])
}

func (r *Run) applyTask(rec *runlog.Record) {
	switch rec.Kind {
	case runlog.KindTaskDone:
		d, _ := decode[runlog.TaskDone](rec)
		t := r.task(rec.Path, d.Step, rec.Time)
		t.Error = Clean(d.Error)
		switch {
		case t.fate != "":
			r.end(t, t.fate, rec.Time)
			if t.fate == Skipped && !slices.Contains(r.Skipped, t.Path) {
				r.Skipped = append(r.Skipped, t.Path)
			}
		case d.Error != "" && d.Update != nil: // something takes the place of what it failed to give
			var stand struct{ Status State }
			if _ = json.Unmarshal(d.Update, &stand); stand.Status != Partly {
				stand.Status = Failed
			}
			r.end(t, stand.Status, rec.Time)
		case d.Error != "":
			r.end(t, Failed, rec.Time)
		default:
			r.end(t, Done, rec.Time)
		}
		r.endWithin(t, rec.Time)
		r.took(t, d.Took)
		r.plan(rec.Path, d.Sends)
	case runlog.KindTaskFailed:
		d, _ := decode[runlog.TaskFailed](rec)
		t := r.work(rec.Path, d.Step, rec.Time)
		t.Error = Clean(d.Error)
		t.Attempt = max(1, d.Attempt)
		if d.Final {
			r.end(t, Failed, rec.Time)
			r.took(t, d.Took)
			return
		}
		r.Retries++
		r.add(t, "", Part{Kind: Retry, Text: fmt.Sprintf("attempt %d failed: %s", t.Attempt, t.Error)})
		t.Attempt++
		t.fate, t.Why = "", ""
		t.Thinking, t.Summing, t.Progress = false, false, nil
		t.hush()
		r.abort(t, rec.Time)
		if r.took(t, d.Took); d.Next > 0 {
			t.RetryAt = rec.Time.Add(time.Duration(d.Next) * time.Millisecond)
		}
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
		r.touchStep(s)
		own := r.own.Elapsed(rec.Time)
		if d.Step == r.step {
			r.settleStep(own)
		}
		r.step, r.began, r.before = d.Step+1, rec.Time, own
	}
}

// plan notes the sends with keys. Each becomes a task in the next superstep of the sender's graph.
func (r *Run) plan(from string, sends []runlog.TaskSend) {
	inside := from[:strings.LastIndexByte(from, '/')+1]
	for i, s := range sends {
		if s.Key == "" {
			continue
		}
		if r.order == nil {
			r.order = map[string]int{}
		}
		path := inside + s.To + "[" + s.Key + "]" // of its first visit, if the key needs no escapes
		if _, known := r.order[path]; !known {
			r.order[path] = i + 1
			if t := r.paths[path]; t != nil {
				t.Order = i + 1
				r.touch(t)
			}
		}
		if inside != "" {
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

// split splits the identity of a task that pregel.Path has built.
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
