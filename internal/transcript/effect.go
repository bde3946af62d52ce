package transcript

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/internal/cut"
	"github.com/superstep-dev/superstep/internal/mail"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
)

func (r *Run) applyEffect(rec *runlog.Record) {
	if rec.Kind == runlog.KindIntended {
		d, ok := decode[runlog.Intended](rec)
		if !ok {
			return
		}
		t := r.begins(rec)
		if d.Cost != nil {
			if r.aside == nil {
				r.aside = map[string]runlog.Amount{}
			}
			r.free(rec.Path, d.Key)
			r.aside[rec.Path+"\x00"+d.Key] = *d.Cost
			r.reserved = r.reserved.Add(*d.Cost)
		}
		switch {
		case d.Kind == "branch":
			t.item(d.Key, false)
		case d.Kind == "agent" || d.Kind == "timer" || Bookkeeping(d.Kind):
		case d.Kind == "model":
			t.Thinking, t.Summing = true, Summary(d.Key)
			t.hush()
		default:
			if t.inputs == nil {
				t.inputs = map[string]json.RawMessage{}
			}
			t.inputs[d.Key] = d.Input
			u := &Tool{Key: d.Key, Kind: Line(d.Kind), Name: Line(d.Name), Arg: mainArg(d.Input), Input: d.Input, State: Running}
			u.Time.start(rec.Time)
			u.stored = rec.Seq != 0
			if was := t.close(d.Key); was != nil { // it is done again, after a crash
				r.remove(t, was)
			}
			t.open = append(t.open, u)
			u.Child = r.paths[rec.Path+"/"+within(u)] // there before it if the process that began the call was killed
			r.show(t, u)
		}
		return
	}
	d, ok := decode[runlog.Settled](rec)
	if !ok {
		return
	}
	r.free(rec.Path, d.Key)
	if d.Kind == "agent" { // recorded when it begins
		t := r.begins(rec)
		r.settleAgent(t, &d, rec.Time)
		r.spend(t, &d)
		return
	}
	t := r.work(rec.Path, -1, rec.Time)
	r.spend(t, &d)
	switch {
	case d.Kind == "timer":
		r.waits(t, &d)
	case d.Kind == "gate":
		var rule struct {
			Decision, Subject, Reason string
			Nobody                    bool
		}
		if json.Unmarshal(d.Output, &rule) == nil && rule.Decision == string(tool.Deny) && !rule.Nobody {
			r.Refused = append(r.Refused, Denial{Path: t.Path, Agent: t.Agent, Tool: Line(d.Name), Subject: Clean(rule.Subject), Reason: Clean(rule.Reason)})
		}
	case d.Kind == "branch":
		t.item(d.Key, true)
	case Bookkeeping(d.Kind):
	case d.Kind == mail.KindSteer:
		for _, m := range mail.SteeringOf(&d) {
			text := "a user says: " + Clean(m.Text)
			if m.Compact {
				text = "a user asks to sum up the conversation"
			}
			r.add(t, d.Key, Part{Kind: Note, Text: text})
		}
	case d.Kind == "model":
		r.settleTurn(t, &d, rec.Time, false)
	default:
		r.endPart(rec, &d, r.settleTool(t, &d, rec.Time))
	}
	if in := r.paths[rec.Path+"/"+d.Key]; d.Kind == "rerun" && in != nil && !in.Ended() { // a producer that was run again, which has no end of its own
		state := Done
		if in.Error = Clean(d.Error); d.Error != "" {
			state = Failed
		}
		r.end(in, state, rec.Time)
		r.endWithin(in, rec.Time)
		r.took(in, d.Took)
		r.count(in)
		r.touch(in)
	}
}

// free ends the reservation of an effect.
func (r *Run) free(path, key string) {
	key = path + "\x00" + key
	if was, ok := r.aside[key]; ok {
		delete(r.aside, key)
		r.reserved = r.reserved.Add(runlog.Amount{Tokens: -was.Tokens, Money: -was.Money, Turns: -was.Turns, Calls: -was.Calls, Agents: -was.Agents})
	}
}

// spend adds the cost of an effect.
func (r *Run) spend(t *Task, d *runlog.Settled) {
	if d.Spent == nil {
		return
	}
	if d.Kind == "model" {
		key := t.Path + "\x00" + d.Key
		if r.turns == nil {
			r.turns = map[string]runlog.Amount{}
		}
		if was, again := r.turns[key]; again && r.Reused.Turns > 0 {
			r.Reused = r.Reused.Add(runlog.Amount{Tokens: -was.Tokens, Money: -was.Money, Turns: -1})
		}
		r.turns[key] = *d.Spent
	}
	r.Spent, t.Spent = r.Spent.Add(*d.Spent), t.Spent.Add(*d.Spent)
	if a := t.AgentOf(d.Key); a != nil {
		a.Spent = a.Spent.Add(*d.Spent)
	}
	if t.unpriced(d) {
		r.Unpriced, t.Unpriced = true, true
	}
}

// unpriced reports whether an effect did cost something that nobody can tell: what agents of other programs report is often too little.
func (t *Task) unpriced(d *runlog.Settled) bool {
	a := t.AgentOf(d.Key)
	if a == nil {
		return d.Kind == "model" && d.Spent.Money == 0 && d.Spent.Tokens > 0
	}
	return d.Kind == "model" && d.Spent.Money+d.Spent.Tokens > 0 && !a.Priced
}

// item notes a branch, and whether it has ended.
func (t *Task) item(key string, ended bool) {
	if t.items == nil {
		t.items = map[string]bool{}
	}
	was, known := t.items[key]
	if !known {
		t.Items++
	}
	if ended && !was {
		t.ItemsEnd++
	}
	t.items[key] = was || ended
}

// show adds a call to the parts when it begins. Calls of one turn keep the order in which the model made them, whichever is recorded first. Other
// effects are shown when they are done.
func (r *Run) show(t *Task, u *Tool) {
	turn, call, ok := callOf(u.Key)
	if !ok {
		return
	}
	r.add(t, u.Key, Part{Kind: ToolUse, Tool: u})
	for i := len(t.Parts) - 1; i > 0; i-- {
		before := t.Parts[i-1].Tool
		if before == nil {
			return
		}
		if was, n, ok := callOf(before.Key); !ok || was != turn || n < call {
			return
		}
		t.Parts[i-1], t.Parts[i] = t.Parts[i], t.Parts[i-1]
		r.touchPart(t, &t.Parts[i])
	}
}

// callOf splits the key of an agent's call into the key of the turn and the number of the call.
func callOf(key string) (turn string, call int, ok bool) {
	turn, n, ok := strings.Cut(key, "/call-")
	if !ok {
		return "", 0, false
	}
	call, err := strconv.Atoi(n)
	return turn, call, err == nil
}

// Bookkeeping reports whether an effect serves only the log and is not shown.
func Bookkeeping(kind string) bool {
	switch kind {
	case "branch", "limit", "gate", "grant", "remember", "note", "spill", "save", "cancel", "inputs", "wait":
		return true
	}
	return false
}

// Summary reports whether the model turn with that key summarizes the conversation. The text of such a turn is not the agent's own output.
func Summary(key string) bool {
	return strings.HasPrefix(key[strings.LastIndexByte(key, '/')+1:], "compact-")
}

// endPart ends the parts whose end is not recorded under their own path: a sub-agent, whose job ended with the outcome u, and the call that started it.
func (r *Run) endPart(rec *runlog.Record, d *runlog.Settled, u *Tool) {
	path := within(u)
	t := r.paths[rec.Path+"/"+path]
	if path == "" || t == nil || t.Ended() {
		return
	}
	if r.end(t, u.State, rec.Time); u.State == Failed {
		t.Error = u.Result
	}
	r.took(t, d.Took)
	u.Child = t
	r.count(t)
	r.touch(t)
}

// within returns the path of the task in which a call of another agent works, as seen from the caller; "" for other effects.
func within(u *Tool) string {
	var turn, call int
	switch u.Kind {
	case "job":
		return strings.TrimPrefix(u.Key, "job/")
	case "tool":
		if n, err := fmt.Sscanf(u.Key, "turn-%d/call-%d", &turn, &call); n == 2 && err == nil {
			return fmt.Sprintf("%s[%d.%d]", u.Name, turn+1, call+1)
		}
	}
	return ""
}

func (r *Run) settleAgent(t *Task, d *runlog.Settled, at time.Time) {
	t.Agent = Line(d.Name)
	use := Line(strings.TrimSuffix(strings.TrimSuffix(d.Key, "agent"), "/"))
	if d.Error != "" || t.use(use) != nil {
		return
	}
	var started struct {
		Model, Effort, Prompt string
		Window                int
		Priced                bool
	}
	_ = json.Unmarshal(d.Input, &started) // as far as it says
	if started.Effort != "" {
		started.Model = strings.TrimSuffix(started.Model, "#"+started.Effort)
	}
	a := &Agent{
		Task: t, Use: use, Name: t.Agent, Model: Line(started.Model), Effort: Line(started.Effort), Prompt: Clean(started.Prompt), Window: started.Window,
		Priced: started.Priced, Began: at, Ended: at,
	}
	t.Agents, r.Agents = append(t.Agents, a), append(r.Agents, a)
}

// use returns the agent of the task that has a key, or nil if there is none.
func (t *Task) use(key string) *Agent {
	for _, a := range t.Agents {
		if a.Use == key {
			return a
		}
	}
	return nil
}

// AgentOf returns the agent whose turn or call has a key, or nil if no agent has such a turn or call.
func (t *Task) AgentOf(key string) *Agent {
	i := max(strings.LastIndex("/"+key, "/turn-"), strings.LastIndex("/"+key, "/compact-"))
	if i < 0 {
		return nil
	}
	return t.use(Line(strings.TrimSuffix(key[:i], "/")))
}

// waits notes that a date is waited for, a rate limit, or the next attempt of a turn.
func (r *Run) waits(t *Task, d *runlog.Settled) {
	if json.Unmarshal(d.Output, &t.RetryAt) != nil {
		return
	}
	switch {
	case strings.Contains(d.Key, "/wait-"):
		t.Limit = Line(d.Name)
	case strings.Contains(d.Key, "/again-"):
		t.Trouble = Line(Value(d.Input))
	default:
		return
	}
	r.Retries++
}

// settleTurn replaces the streamed text of a turn by the recorded one. An interrupted turn has no outcome.
func (r *Run) settleTurn(t *Task, d *runlog.Settled, at time.Time, interrupted bool) {
	t.Thinking, t.Summing = false, false
	t.hush()
	var resp model.Response
	if again := strings.HasPrefix(d.Error, cut.BrokeOff); interrupted || d.Error != "" {
		if json.Unmarshal(d.Partial, &resp) == nil && !Summary(d.Key) && !again {
			r.say(t, d, &resp.Message, true)
		}
		if !interrupted && !again { // of which a note tells
			r.add(t, "", Part{Kind: Failure, Text: Clean(d.Error)})
		}
	} else if json.Unmarshal(d.Output, &resp) != nil {
		return
	}
	if resp.Retries > 0 { // by the provider's client, within the turn
		r.Retries += resp.Retries
		r.add(t, "", Part{Kind: Retry, Text: fmt.Sprintf("the model was asked %d times: %s", resp.Retries+1, Clean(resp.Trouble))})
	}
	t.Usage, r.Usage = t.Usage.Add(resp.Usage), r.Usage.Add(resp.Usage)
	if d.Spent == nil && resp.Usage != (model.Usage{}) { // nobody has reckoned it
		r.Unpriced, t.Unpriced = true, true
	}
	a := t.AgentOf(d.Key)
	if a != nil {
		a.Usage, a.Ended, a.First = a.Usage.Add(resp.Usage), at, time.Duration(d.First)*time.Millisecond
		if a.Last = resp.Usage; a.Last.In > 0 {
			a.Used = a.Last.In + a.Last.Out
		}
	}
	if Summary(d.Key) || interrupted || d.Error != "" {
		return
	}
	if a != nil {
		a.Turns++
		if text := resp.Message.Text(); text != "" {
			a.Said = Clean(text)
		}
	}
	r.say(t, d, &resp.Message, false)
}

// say adds the text of a model.
func (r *Run) say(t *Task, d *runlog.Settled, m *model.Message, cut bool) {
	first := time.Duration(d.First) * time.Millisecond
	for _, p := range m.Parts {
		kind := Text
		if p.Kind == model.Reasoning {
			kind = Reasoning
		}
		if p.Text == "" || p.Kind != model.Text && p.Kind != model.Reasoning {
			continue
		}
		r.add(t, d.Key, Part{Kind: kind, Text: Clean(p.Text), Cut: cut, First: first})
		first = 0
	}
}

// close removes a tool from the running ones and returns it.
func (t *Task) close(key string) *Tool {
	for i, u := range t.open {
		if u.Key == key {
			t.open = append(t.open[:i:i], t.open[i+1:]...)
			return u
		}
	}
	return nil
}

func (r *Run) settleTool(t *Task, d *runlog.Settled, at time.Time) *Tool {
	u := t.close(d.Key)
	fresh := u == nil
	if fresh {
		u = &Tool{Key: d.Key, Kind: Line(d.Kind), Name: Line(d.Name), Input: d.Input}
		if u.Input == nil { // it began before a pause
			u.Input = t.inputs[d.Key]
		}
		u.Arg = mainArg(u.Input)
	}
	delete(t.inputs, d.Key)
	u.State, u.Result, u.Ended = Done, Clean(d.Error), at
	if d.Error != "" {
		u.State = Failed
	}
	if u.Time.stop(at); r.timed {
		u.Time = Span{spent: time.Duration(d.Took) * time.Millisecond}
	}
	var failed bool
	switch {
	case d.Kind == "tool":
		t.Tools++
		if t.plan(u); fresh {
			r.show(t, u)
		}
		var res tool.Result
		if d.Error == "" && json.Unmarshal(d.Output, &res) == nil {
			u.Result, failed = Clean(res.Text), res.Error
			for text := range strings.Lines(res.Refused) {
				r.Refused = append(r.Refused, Denial{Path: t.Path, Agent: t.Agent, Tool: u.Name, Subject: Line(u.Arg), Reason: Clean(text), By: "the sandbox"})
				r.add(t, "", Part{Kind: Note, Text: "sandbox: " + Line(text)})
			}
		}
	case d.Kind == "job" && d.Error == "":
		var res struct {
			Success *bool
			Output  json.RawMessage
			Error   string
		}
		if json.Unmarshal(d.Output, &res) == nil && res.Success != nil {
			if u.Result, failed = Value(res.Output), !*res.Success; failed {
				u.Result = Clean(res.Error)
			}
		}
	}
	if failed {
		u.State = Failed
	}
	if a := t.AgentOf(d.Key); a != nil && d.Kind == "tool" {
		a.Ended, a.Called, a.Calls = at, a.Called+1, append(a.Calls, u)
	}
	if _, _, shown := callOf(d.Key); !shown || d.Kind != "tool" {
		r.add(t, u.Key, Part{Kind: ToolUse, Tool: u})
	}
	r.changedPart(t, func(p *Part) bool { return p.Tool == u })
	return u
}

// plan reads the agent's plan from a call of the tool todo.
func (t *Task) plan(u *Tool) {
	var list struct{ Todos []Todo }
	if u.Name != "todo" || json.Unmarshal(u.Input, &list) != nil {
		return
	}
	tidy(list.Todos)
	t.Todos = list.Todos
}

func tidy(list []Todo) {
	for i := range list {
		d := &list[i]
		d.ID, d.Content, d.Status, d.BlockedBy = Line(d.ID), Line(d.Content), Line(d.Status), lines(d.BlockedBy)
	}
}

// listed reads the event "tasks": the plan of a task, which takes the place of that of other tasks of its node, or changes of items of the plan that the task
// or one around it has. An item that is not in the plan yet is added.
func (r *Run) listed(rec *runlog.Record, data json.RawMessage) {
	var list struct {
		Whole bool
		Todos []Todo
	}
	if json.Unmarshal(data, &list) != nil {
		return
	}
	tidy(list.Todos)
	t := r.work(rec.Path, -1, rec.Time)
	if list.Whole {
		for _, other := range r.Tasks {
			if other != t && other.Node == t.Node && other.Todos != nil {
				other.Todos = nil
				r.touch(other)
			}
		}
		t.Todos = list.Todos
		return
	}
	for t.Todos == nil && t.Parent != nil {
		t = t.Parent
	}
	for _, d := range list.Todos {
		i := slices.IndexFunc(t.Todos, func(o Todo) bool { return o.ID == d.ID })
		if i < 0 {
			t.Todos = append(t.Todos, d)
			continue
		}
		o := &t.Todos[i]
		o.Status, o.Content = d.Status, cmp.Or(d.Content, o.Content)
		if d.BlockedBy != nil {
			o.BlockedBy = d.BlockedBy
		}
	}
	r.touch(t)
}
