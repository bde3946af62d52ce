package draw

import (
	"encoding/json"
	"iter"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/runlog"
)

// Status folds the records of a run into the states of its nodes, by path. The records may cover a
// finished run, an unfinished run, or the part that a follower has seen so far. On an error it
// returns the states so far and the error unchanged.
func Status(records iter.Seq2[runlog.Record, error]) (map[string]NodeStatus, error) {
	var p Progress
	for r, err := range records {
		if err != nil {
			return p.Status(), err
		}
		p.Apply(&r)
	}
	return p.Status(), nil
}

// Progress is the fold of [Status] one record at a time, for those who follow a run. The
// zero value is the progress of a run that has not begun.
type Progress struct {
	seq    uint64
	halted bool // nothing runs until the run is resumed
	tasks  map[string]*task
	steps  map[string][]Step // of scripts, by the paths of their nodes
}

// task is how far a task has come.
type task struct {
	state    string
	fate     string // what it says that it will end as, "" for done
	failures int
	open     []string // the keys of the questions without an answer
}

// Apply applies the next record, stored or live-only. It ignores records that were applied before
// or that it does not know.
func (p *Progress) Apply(r *runlog.Record) {
	if r.Seq != 0 {
		if r.Seq <= p.seq {
			return
		}
		p.seq = r.Seq
	}
	switch r.Kind {
	case runlog.KindRunStarted, runlog.KindRunResumed:
		p.stop(r.Kind == runlog.KindRunResumed)
		p.halted = false
	case runlog.KindRunPaused, runlog.KindRunFailed, runlog.KindRunCancelled, runlog.KindRunFinished:
		p.stop(false)
		p.halted = true
	}
	if r.Path != "" {
		p.applyTask(r)
		p.applyStep(r)
	}
}

// stop resets the running tasks. A resumed run retries the failed ones.
func (p *Progress) stop(retry bool) {
	for _, t := range p.tasks {
		if t.state == running || retry && t.state == failed {
			t.state = pending
		}
	}
}

func (p *Progress) applyTask(r *runlog.Record) {
	switch r.Kind {
	case runlog.KindEvent:
		p.applyEvent(r)
	case runlog.KindIntended, runlog.KindSettled: // it works
		if t := p.task(r.Path); t.state != waiting && t.state != failed {
			p.set(r.Path, running)
		}
	case runlog.KindTaskDone:
		var d runlog.TaskDone
		if d.Parse(r.Data) != nil {
			return
		}
		t := p.task(r.Path)
		switch {
		case d.Error == "" && t.fate != "":
			p.set(r.Path, t.fate)
		case d.Caught:
			p.set(r.Path, caught)
		case d.Error != "" && d.Update == nil:
			p.set(r.Path, skipped)
		case d.Error != "": // something takes the place of what it failed to give
			p.set(r.Path, failed)
		default:
			p.set(r.Path, done)
		}
	case runlog.KindTaskFailed:
		var d runlog.TaskFailed
		if json.Unmarshal(r.Data, &d) != nil {
			return
		}
		state := running
		if d.Final {
			state = failed
		}
		t := p.set(r.Path, state)
		t.fate = ""
		t.failures++
	case runlog.KindAsked:
		var d runlog.Question
		if json.Unmarshal(r.Data, &d) != nil {
			return
		}
		t := p.set(r.Path, waiting)
		if !slices.Contains(t.open, d.Key) {
			t.open = append(t.open, d.Key)
		}
	case runlog.KindAnswered:
		var d runlog.Answer
		t := p.tasks[r.Path]
		if t == nil || json.Unmarshal(r.Data, &d) != nil {
			return
		}
		t.open = slices.DeleteFunc(t.open, func(key string) bool { return key == d.Key })
		if t.state == waiting && len(t.open) == 0 {
			p.set(r.Path, running)
		}
	}
}

// applyEvent applies what a task tells of itself. What is live-only changes nothing of a task that asks: it began again, and waits on.
func (p *Progress) applyEvent(r *runlog.Record) {
	var d struct{ Name string }
	if json.Unmarshal(r.Data, &d) != nil {
		return
	}
	t := p.task(r.Path)
	switch {
	case r.Seq == 0:
		if begins := d.Name == "task.started" || d.Name == "task.works" || d.Name == "agent.works"; begins && t.state != waiting {
			p.set(r.Path, running)
		}
	case d.Name == "not_run":
		t.fate = skipped
	case d.Name == "degraded", d.Name == "error_input" && t.fate == "":
		t.fate = partly
	}
}

// set changes the state of a task and of the tasks around it. A finished task stays finished.
func (p *Progress) set(path string, state string) *task {
	t := p.task(path)
	if state == running && p.halted {
		state = pending
	}
	if t.state != done && t.state != skipped && t.state != caught && t.state != partly {
		t.state = state
	}
	for up := parent(path); up != ""; up = parent(up) {
		around := p.task(up)
		if around.state == pending && !p.halted {
			around.state = running
		}
	}
	return t
}

func (p *Progress) task(path string) *task {
	if p.tasks == nil {
		p.tasks = make(map[string]*task)
	}
	t := p.tasks[path]
	if t == nil {
		t = &task{}
		p.tasks[path] = t
	}
	return t
}

// parent returns the path of the enclosing task, or "" if no task encloses it.
func parent(path string) string {
	return path[:max(0, strings.LastIndexByte(path, '/'))]
}

// nodePath returns the path of a task's node: the task's path without keys, visits, and the keys
// that distinguish several graphs within one task.
func nodePath(task string) string {
	var names []string
	for s := range strings.SplitSeq(task, "/") {
		if j := strings.IndexAny(s, "[#"); j >= 0 {
			s = s[:j]
		}
		if s != "~" {
			names = append(names, s)
		}
	}
	return strings.Join(names, "/")
}

// Status returns the states of the nodes so far, by path. The caller owns it.
//
// If a node has several tasks, the most urgent state counts: failed, then waiting, running, partly,
// done, caught, skipped. A sub-graph in which nothing runs and something waits is waiting too.
func (p *Progress) Status() map[string]NodeStatus {
	paths := make([]string, 0, len(p.tasks))
	for path := range p.tasks {
		paths = append(paths, path)
	}
	slices.SortFunc(paths, func(a, b string) int { // what lies within others first
		if d := strings.Count(b, "/") - strings.Count(a, "/"); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	inside := make(map[string]string) // by path of a task: what speaks for those in it
	out := make(map[string]NodeStatus)
	for _, path := range paths {
		t := p.tasks[path]
		state := t.state
		switch within := inside[path]; {
		case within == waiting && (state == running || state == pending), within == failed && state == pending:
			state = within
		}
		if up := parent(path); up != "" {
			inside[up] = insides(inside[up], state)
		}
		if strings.HasPrefix(path[strings.LastIndexByte(path, '/')+1:], "~[") {
			continue // one of several graphs in a task, and no task
		}
		name := nodePath(path)
		s := out[name]
		if urgency[state] > urgency[s.State] {
			s.State = state
		}
		s.Visits++
		if state == done || state == partly {
			s.Done++
		}
		s.Failures += t.failures
		out[name] = s
	}
	for path, steps := range p.steps {
		s := out[path]
		s.Steps = slices.Clone(steps)
		for i := range s.Steps {
			if step := &s.Steps[i]; step.State == running && p.halted {
				step.State = pending
			}
			out[path+"/"+s.Steps[i].Name] = NodeStatus{State: s.Steps[i].State}
		}
		out[path] = s
	}
	return out
}

// urgency orders the states: the first one counts for a node whose tasks are in several states.
var urgency = map[string]int{pending: 0, skipped: 1, caught: 2, done: 3, partly: 4, running: 5, waiting: 6, failed: 7}

// insides returns the combined state of the tasks within a task: running if any runs, else waiting,
// else failed.
func insides(a, b string) string {
	for _, s := range [...]string{running, waiting, failed} {
		if a == s || b == s {
			return s
		}
	}
	return pending
}
