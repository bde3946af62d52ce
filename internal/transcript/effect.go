package transcript

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

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
		switch {
		case d.Kind == "agent" || bookkeeping(d.Kind):
		case d.Kind == "model":
			t.Thinking, t.live, t.Summing = true, nil, Summary(d.Key)
		default:
			if t.inputs == nil {
				t.inputs = map[string]json.RawMessage{}
			}
			t.inputs[d.Key] = d.Input
			u := &Tool{Key: d.Key, Kind: Line(d.Kind), Name: Line(d.Name), Arg: mainArg(d.Input), Input: d.Input, State: Running}
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
		r.settleAgent(r.begins(rec), &d, rec.Time)
		return
	}
	t := r.work(rec.Path, -1, rec.Time)
	switch {
	case d.Kind == "gate":
		var rule struct {
			Decision, Subject, Reason string
			Nobody                    bool
		}
		if json.Unmarshal(d.Output, &rule) == nil && rule.Decision == string(tool.Deny) && !rule.Nobody {
			r.Refused = append(r.Refused, Denial{Path: t.Path, Agent: t.Agent, Tool: Line(d.Name), Subject: Clean(rule.Subject), Reason: Clean(rule.Reason)})
		}
	case bookkeeping(d.Kind):
	case d.Kind == mail.KindSteer:
		for _, m := range mail.SteeringOf(&d) {
			t.Parts = append(t.Parts, Part{Kind: Note, Text: "a user says: " + Clean(m.Text)})
		}
	case d.Kind == "model":
		r.settleTurn(t, &d, rec.Time)
	default:
		r.endPart(rec, &d, t.settleTool(&d, rec.Time))
	}
}

// bookkeeping reports whether an effect is for the log alone.
func bookkeeping(kind string) bool {
	switch kind {
	case "branch", "limit", "gate", "grant", "remember", "note", "spill", "save", "cancel", "inputs":
		return true
	}
	return false
}

// Summary reports whether the turn of a model with that key sums the conversation up: what it says is not
// the agent's own.
func Summary(key string) bool {
	return strings.HasPrefix(key[strings.LastIndexByte(key, '/')+1:], "compact-")
}

// endPart ends what has a place of its own in the log but no record of its end there: an agent
// that worked for another, whose job has ended as u says, and the call that had it work.
func (r *Run) endPart(rec *runlog.Record, d *runlog.Settled, u *Tool) {
	var path string
	var turn, call int
	switch d.Kind {
	case "job":
		path = strings.TrimPrefix(d.Key, "job/")
	case "tool":
		if n, err := fmt.Sscanf(d.Key, "turn-%d/call-%d", &turn, &call); n != 2 || err != nil {
			return
		}
		path = fmt.Sprintf("%s[%d.%d]", d.Name, turn+1, call+1)
	}
	t := r.paths[rec.Path+"/"+path]
	if path == "" || t == nil || t.Ended() {
		return
	}
	if t.end(u.State, rec.Time); u.State == Failed {
		t.Error = u.Result
	}
	r.count(t)
}

func (r *Run) settleAgent(t *Task, d *runlog.Settled, at time.Time) {
	t.Agent = Line(d.Name)
	use := Line(strings.TrimSuffix(strings.TrimSuffix(d.Key, "agent"), "/"))
	if d.Error != "" || t.use(use) != nil {
		return
	}
	var started struct{ Model, Prompt string }
	_ = json.Unmarshal(d.Input, &started) // as far as it says
	a := &Agent{Task: t, Use: use, Name: t.Agent, Model: Line(started.Model), Prompt: Clean(started.Prompt), Began: at, Ended: at}
	t.Agents, r.Agents = append(t.Agents, a), append(r.Agents, a)
}

// use returns the agent of the task that is used under a key, nil if there is none.
func (t *Task) use(key string) *Agent {
	for _, a := range t.Agents {
		if a.Use == key {
			return a
		}
	}
	return nil
}

// agentOf returns the agent whose turn or call has a key, nil if it is of none.
func (t *Task) agentOf(key string) *Agent {
	i := max(strings.LastIndex("/"+key, "/turn-"), strings.LastIndex("/"+key, "/compact-"))
	if i < 0 {
		return nil
	}
	return t.use(Line(strings.TrimSuffix(key[:i], "/")))
}

// settleTurn replaces what was heard of a turn by what is recorded of it.
func (r *Run) settleTurn(t *Task, d *runlog.Settled, at time.Time) {
	t.Thinking, t.live, t.Summing = false, nil, false
	var resp model.Response
	if d.Error != "" || json.Unmarshal(d.Output, &resp) != nil {
		return
	}
	t.Usage, r.Usage = t.Usage.Add(resp.Usage), r.Usage.Add(resp.Usage)
	a := t.agentOf(d.Key)
	if a != nil {
		a.Usage, a.Ended = a.Usage.Add(resp.Usage), at
	}
	if Summary(d.Key) {
		return
	}
	if a != nil {
		a.Turns++
		if text := resp.Message.Text(); text != "" {
			a.Said = Clean(text)
		}
	}
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

// close takes a tool off those running.
func (t *Task) close(key string) *Tool {
	for i, u := range t.open {
		if u.Key == key {
			t.open = append(t.open[:i:i], t.open[i+1:]...)
			return u
		}
	}
	return nil
}

func (t *Task) settleTool(d *runlog.Settled, at time.Time) *Tool {
	u := t.close(d.Key)
	if u == nil {
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
	u.Time.stop(at)
	var failed bool
	switch {
	case d.Kind == "tool":
		t.Tools++
		var res tool.Result
		if d.Error == "" && json.Unmarshal(d.Output, &res) == nil {
			u.Result, failed = Clean(res.Text), res.Error
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
	if a := t.agentOf(d.Key); a != nil && d.Kind == "tool" {
		a.Ended, a.Calls = at, append(a.Calls, u)
	}
	t.Parts = append(t.Parts, Part{Kind: ToolUse, Tool: u, Agent: t.Agent})
	return u
}
