package transcript

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
)

// maxGap bounds how far ahead of what it knows a fold believes the number of a superstep.
const maxGap = 1024

// Apply takes the next record, stored or live-only. Stored records come in order; one
// that was applied before is passed over, and so is what it does not understand.
func (r *Run) Apply(rec runlog.Record) {
	if rec.Seq != 0 {
		if rec.Seq <= r.Seq {
			return
		}
		r.Seq = rec.Seq
	}
	switch rec.Kind {
	case runlog.KindRunStarted, runlog.KindRunResumed, runlog.KindRunPaused,
		runlog.KindRunFailed, runlog.KindRunCancelled, runlog.KindRunFinished:
		r.applyRun(&rec)
	case runlog.KindTaskDone, runlog.KindTaskFailed, runlog.KindStepCommitted:
		r.applyTask(&rec)
	case runlog.KindIntended, runlog.KindSettled:
		r.applyEffect(&rec)
	case runlog.KindAsked, runlog.KindAnswered:
		r.applyQuestion(&rec)
	case runlog.KindEvent:
		r.applyEvent(&rec)
	}
	if rec.Time.After(r.last) {
		r.last = rec.Time
	}
}

func decode[T any](rec *runlog.Record) (T, bool) {
	var d T
	return d, json.Unmarshal(rec.Data, &d) == nil
}

func (r *Run) applyRun(rec *runlog.Record) {
	switch rec.Kind {
	case runlog.KindRunStarted:
		d, _ := decode[runlog.RunStarted](rec)
		r.Workflow, r.Title, r.Inputs = Line(d.Workflow), Line(d.Title), d.Inputs
		r.Started = rec.Time
		r.proceed(rec.Time)
	case runlog.KindRunResumed:
		r.halt(runlog.Interrupted, r.last) // if its log does not say how it ended
		r.Error, r.Code, r.Reason, r.Short = "", "", "", nil
		r.proceed(rec.Time)
	case runlog.KindRunPaused:
		d, _ := decode[runlog.RunPaused](rec)
		r.Reason, r.Short = Clean(d.Reason), d.Short
		r.halt(runlog.Paused, rec.Time)
	case runlog.KindRunCancelled:
		r.halt(runlog.Cancelled, rec.Time)
	case runlog.KindRunFailed:
		d, _ := decode[runlog.RunFailed](rec)
		r.Error, r.Code = Clean(d.Error), Line(d.Code)
		r.halt(runlog.Failed, rec.Time)
	case runlog.KindRunFinished:
		d, _ := decode[runlog.RunFinished](rec)
		r.Output, r.Skipped = d.Output, lines(d.Skipped)
		status := runlog.Completed
		if len(d.Skipped) > 0 {
			status = runlog.Partial
		}
		r.halt(status, rec.Time)
	}
}

// proceed starts the clocks of a run.
func (r *Run) proceed(at time.Time) {
	r.Status, r.Ended, r.began = runlog.Running, time.Time{}, at
	r.Time.start(at)
	if s := r.Step(r.step); s != nil && !s.Done {
		s.Time.start(at)
	}
}

// halt stops the clocks of a run.
func (r *Run) halt(status runlog.Status, at time.Time) {
	if r.Status == runlog.Running {
		r.Status, r.Ended = status, at
	}
	r.Time.stop(at)
	for _, s := range r.Steps {
		s.Time.stop(at)
	}
	for _, t := range r.Tasks {
		if t.State == Running || t.State == Waiting && r.Status.Ended() {
			t.end(Stopped, at)
		}
	}
}

// task finds or makes the task of a path. Of a new one, step is its superstep, -1 for the one under way.
func (r *Run) task(path string, step int, at time.Time) *Task {
	if t := r.paths[path]; t != nil {
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
	if !r.began.IsZero() {
		at = r.began // records say when work is done; it began with its superstep, unless something says better
	}
	t.Time.start(at)
	r.paths[path] = t
	r.Tasks = append(r.Tasks, t)
	s := r.grow(step, at)
	s.Tasks = append(s.Tasks, t)
	return t
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

// work is task for one that shows that it is at work.
func (r *Run) work(path string, step int, at time.Time) *Task {
	t := r.task(path, step, at)
	switch t.State {
	case Done, Skipped, NotRun, Partly:
	default:
		t.State = Running
		t.Time.start(at)
	}
	return t
}

func (t *Task) end(s State, at time.Time) {
	t.State, t.Thinking, t.live, t.musing = s, false, nil, nil
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
		case d.Error != "" && d.Update != nil: // something takes the place of what it failed to give
			var stand struct{ Status State }
			if _ = json.Unmarshal(d.Update, &stand); stand.Status != Partly {
				stand.Status = Failed
			}
			t.end(stand.Status, rec.Time)
		case d.Error != "":
			t.end(Skipped, rec.Time)
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
		t.Thinking, t.live, t.musing, t.open = false, nil, nil, nil
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

func (r *Run) applyQuestion(rec *runlog.Record) {
	if rec.Kind == runlog.KindAsked {
		d, ok := decode[runlog.Asked](rec)
		if !ok {
			return
		}
		t := r.work(rec.Path, -1, rec.Time)
		t.end(Waiting, rec.Time)
		r.Questions = append(r.Questions, &Question{
			Path: t.Path, Key: Line(d.Key), Question: Clean(d.Question), Options: lines(d.Options), Free: len(d.Schema) > 0, Default: Value(d.Default),
		})
		return
	}
	d, ok := decode[runlog.Answered](rec)
	if !ok {
		return
	}
	path, key := Line(rec.Path), Line(d.Key)
	for _, q := range r.Questions {
		if q.Path == path && q.Key == key && !q.Answered {
			q.Answered, q.Denied, q.Answer, q.By = true, d.Denied, Value(d.Answer), Line(d.By)
		}
	}
	if r.Status == runlog.Running {
		r.work(rec.Path, -1, rec.Time)
	}
}

func (r *Run) applyEvent(rec *runlog.Record) {
	d, ok := decode[runlog.Event](rec)
	if !ok || rec.Path == "" {
		return
	}
	switch {
	case d.Name == "task.started":
		var task struct{ Step int }
		if json.Unmarshal(d.Data, &task) != nil {
			return
		}
		fresh := r.paths[rec.Path] == nil
		t := r.work(rec.Path, task.Step, rec.Time)
		if fresh {
			t.Time = Span{since: rec.Time}
		}
	case d.Name == "note":
		var note struct{ Text string }
		if json.Unmarshal(d.Data, &note) != nil || note.Text == "" {
			return
		}
		t := r.work(rec.Path, -1, rec.Time)
		t.Parts = append(t.Parts, Part{Kind: Note, Text: Clean(note.Text)})
	case d.Name == "denied" && rec.Seq != 0:
		var no struct{ Agent, Tool, Subject, Reason, Always string }
		if json.Unmarshal(d.Data, &no) != nil || no.Tool == "" {
			return
		}
		denial := Denial{rec.Path, Line(no.Agent), Line(no.Tool), Clean(no.Subject), Clean(no.Reason), Line(no.Always)}
		r.Denied = append(r.Denied, denial)
		t := r.work(rec.Path, -1, rec.Time)
		t.Parts = append(t.Parts, Part{Kind: Note, Text: "denied " + denial.String() + " (nobody to ask)"})
	case d.Name == "error_input" && rec.Seq != 0:
		var in struct{ Steps []string }
		if json.Unmarshal(d.Data, &in) == nil {
			r.work(rec.Path, -1, rec.Time).Bad = lines(in.Steps)
		}
	case (d.Name == "not_run" || d.Name == "degraded") && rec.Seq != 0:
		var note struct{ Why string }
		if json.Unmarshal(d.Data, &note) != nil {
			return
		}
		t := r.work(rec.Path, -1, rec.Time)
		if t.Why, t.fate = Clean(note.Why), NotRun; d.Name == "degraded" {
			t.fate = Partly
		}
	case rec.Seq != 0: // what follows is live-only
	case d.Name == "task.queued": // for a place; that is no time at work
		r.work(rec.Path, -1, rec.Time).Time = Span{}
	case d.Name == "task.works":
		r.work(rec.Path, -1, rec.Time).Time = Span{since: rec.Time}
	case d.Name == "text", d.Name == "reasoning":
		var delta struct{ Agent, Text string }
		if json.Unmarshal(d.Data, &delta) != nil {
			return
		}
		t := r.work(rec.Path, -1, rec.Time)
		t.Thinking = true
		if d.Name == "text" {
			t.live = append(t.live, delta.Text...)
		} else {
			t.musing = append(t.musing, delta.Text...)
		}
	}
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

func (r *Run) applyEffect(rec *runlog.Record) {
	if rec.Kind == runlog.KindIntended {
		d, ok := decode[runlog.Intended](rec)
		if !ok {
			return
		}
		t := r.begins(rec)
		switch d.Kind {
		case "agent", "branch", "limit", "gate", "grant", "remember", "note", "spill", "save", "cancel": // for the log alone
		case "model":
			t.Thinking, t.live, t.musing = true, nil, nil
		default:
			u := &Tool{Key: d.Key, Kind: Line(d.Kind), Name: Line(d.Name), Arg: mainArg(d.Input), State: Running}
			u.Time.start(rec.Time)
			t.close(d.Key)
			t.open = append(t.open, u)
		}
		return
	}
	d, ok := decode[runlog.Settled](rec)
	if !ok {
		return
	}
	if d.Kind == "agent" { // recorded when it begins
		r.settleAgent(r.begins(rec), &d)
		return
	}
	t := r.work(rec.Path, -1, rec.Time)
	switch d.Kind {
	case "branch", "limit", "gate", "grant", "remember", "note", "spill", "save", "cancel":
	case "model":
		r.settleTurn(t, &d)
	default:
		t.settleTool(&d, rec.Time)
		r.endPart(rec, &d)
	}
}

// endPart ends what has a place of its own in the log but no record of its end there: an agent
// that worked for another, whose job is over, and the call that had it work.
func (r *Run) endPart(rec *runlog.Record, d *runlog.Settled) {
	var path string
	ok := d.Error == ""
	var turn, call int
	switch d.Kind {
	case "job":
		path = strings.TrimPrefix(d.Key, "job/")
		var res struct{ Success *bool }
		if ok && json.Unmarshal(d.Output, &res) == nil && res.Success != nil {
			ok = *res.Success
		}
	case "tool":
		if n, err := fmt.Sscanf(d.Key, "turn-%d/call-%d", &turn, &call); n != 2 || err != nil {
			return
		}
		path = fmt.Sprintf("%s[%d.%d]", d.Name, turn+1, call+1)
	}
	t := r.paths[rec.Path+"/"+path]
	switch {
	case path == "" || t == nil || t.Ended():
	case ok:
		t.end(Done, rec.Time)
	default:
		t.end(Failed, rec.Time)
	}
}

func (r *Run) settleAgent(t *Task, d *runlog.Settled) {
	t.Agent = Line(d.Name)
	if d.Error != "" || t.agents[d.Key] {
		return
	}
	if t.agents == nil {
		t.agents = map[string]bool{}
	}
	t.agents[d.Key] = true
	t.Agents++
	r.Agents++
}

// settleTurn replaces what was heard of a turn by what is recorded of it.
func (r *Run) settleTurn(t *Task, d *runlog.Settled) {
	t.Thinking, t.live, t.musing = false, nil, nil
	var resp model.Response
	if d.Error != "" || json.Unmarshal(d.Output, &resp) != nil {
		return
	}
	t.Usage, r.Usage = t.Usage.Add(resp.Usage), r.Usage.Add(resp.Usage)
	for _, p := range resp.Message.Parts {
		if p.Text == "" {
			continue
		}
		switch p.Kind {
		case model.Text:
			t.Parts = append(t.Parts, Part{Kind: Text, Text: Clean(p.Text), Agent: t.Agent})
		case model.Reasoning:
			t.Parts = append(t.Parts, Part{Kind: Reasoning, Text: Clean(p.Text), Agent: t.Agent})
		}
	}
}

// close takes a tool off those at work.
func (t *Task) close(key string) *Tool {
	for i, u := range t.open {
		if u.Key == key {
			t.open = append(t.open[:i:i], t.open[i+1:]...)
			return u
		}
	}
	return nil
}

func (t *Task) settleTool(d *runlog.Settled, at time.Time) {
	u := t.close(d.Key)
	if u == nil {
		u = &Tool{Key: d.Key, Kind: Line(d.Kind), Name: Line(d.Name), Arg: mainArg(d.Input)}
	}
	u.State, u.Result = Done, Clean(d.Error)
	if d.Error != "" {
		u.State = Failed
	}
	u.Time.stop(at)
	if d.Kind == "tool" {
		t.Tools++
		var res tool.Result
		if d.Error == "" && json.Unmarshal(d.Output, &res) == nil {
			u.Result = Clean(res.Text)
			if res.Error {
				u.State = Failed
			}
		}
	}
	t.Parts = append(t.Parts, Part{Kind: ToolUse, Tool: u, Agent: t.Agent})
}

// lines cleans a list for people.
func lines(in []string) []string {
	out := make([]string, len(in))
	for i := range in {
		out[i] = Line(in[i])
	}
	return out
}

// Value is a JSON value as people write it: a string is its text, anything else is JSON.
func Value(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return Clean(s)
	}
	return Clean(string(raw))
}

// mainArg picks the argument of a tool call that says most: by its usual names, else the first string.
func mainArg(args json.RawMessage) string {
	d := json.NewDecoder(bytes.NewReader(args))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return ""
	}
	// The names under which tools take what matters most, the best first.
	names := [...]string{"command", "query", "pattern", "path", "file", "url", "question", "prompt", "name"}
	first, best, rank := "", "", len(names)
	for d.More() {
		name, err := d.Token()
		if err != nil {
			break
		}
		var v any
		if d.Decode(&v) != nil {
			break
		}
		s, ok := v.(string)
		if !ok || s == "" {
			continue
		}
		if first == "" {
			first = s
		}
		for i, n := range names {
			if n == name && i < rank {
				best, rank = s, i
			}
		}
	}
	if best == "" {
		best = first
	}
	return short(Line(best), 80)
}

func short(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// split takes the identity of a task apart, as pregel.Path puts it together.
func split(path string) (node, key string) {
	i := strings.IndexAny(path, "[#")
	if i < 0 {
		return path, ""
	}
	node, rest := path[:i], path[i:]
	if end := strings.IndexByte(rest, ']'); rest[0] == '[' && end > 0 {
		key = unescape(rest[1:end])
	}
	return node, key
}

func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			hi, lo := strings.IndexByte(hexDigits, s[i+1]), strings.IndexByte(hexDigits, s[i+2])
			if hi >= 0 && lo >= 0 {
				b.WriteByte(byte(hi<<4 | lo))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

const hexDigits = "0123456789ABCDEF"
