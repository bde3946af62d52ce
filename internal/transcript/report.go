package transcript

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
)

// A StepReport is a superstep as data for programs.
type StepReport struct {
	Superstep int          `json:"superstep"`
	Done      bool         `json:"done"`
	Duration  int64        `json:"duration_ms"`
	Tasks     []TaskReport `json:"tasks"`
}

// A TaskReport is a task as data for programs.
type TaskReport struct {
	Task     string   `json:"task"`
	Step     string   `json:"step"`
	Key      string   `json:"key,omitempty"`
	State    State    `json:"state"`
	Attempt  int      `json:"attempt"`
	Agent    string   `json:"agent,omitempty"`  // the one that began last
	Agents   []string `json:"agents,omitempty"` // all, in the order in which they began
	Tools    int      `json:"tools"`
	Usage    Usage    `json:"usage"`           // its own
	Total    *Usage   `json:"total,omitempty"` // of it and all tasks within it; nil if none of them used anything
	Duration int64    `json:"duration_ms"`
	Error    string   `json:"error,omitempty"`
	Why      string   `json:"why,omitempty"`            // of one that was skipped or is degraded
	Bad      []string `json:"on_error_input,omitempty"` // the failed steps on whose results it ran
	Said     string   `json:"said,omitempty"`           // the last of it
}

// Usage is what a run or a task used, as data for programs.
type Usage struct {
	model.Usage
	Tokens int   `json:"-"` // read and written, also by child runs that have ended; like the next
	Agents int   `json:"agents"`
	Cost   *Cost `json:"cost,omitempty"` // nil if it is not known, or if no model was asked
}

// Report returns the supersteps of a run as data for programs, at a time.
func (r *Run) Report(now time.Time) []StepReport {
	out := make([]StepReport, 0, len(r.Steps))
	for _, s := range r.Steps {
		step := StepReport{Superstep: s.Number, Done: s.Done, Duration: s.Time.Elapsed(now).Milliseconds(), Tasks: []TaskReport{}}
		for _, t := range s.Tasks {
			x := TaskReport{
				Task: t.Path, Step: t.Node, Key: t.Key, State: t.State, Attempt: t.Attempt, Agent: t.Agent, Tools: t.Tools,
				Usage: usage(t.Usage, len(t.Agents), t.Spent, t.Unpriced), Duration: t.Time.Elapsed(now).Milliseconds(), Error: t.Error, Why: t.Why, Bad: t.Bad, Said: t.Last(),
			}
			if in := t.within(); in.Usage != (model.Usage{}) || in.Agents > 0 {
				spent, unpriced, _ := t.total()
				in = usage(in.Usage.Add(t.Usage), in.Agents+len(t.Agents), spent, unpriced)
				x.Total = &in
			}
			for _, a := range t.Agents {
				x.Agents = append(x.Agents, a.Name)
			}
			step.Tasks = append(step.Tasks, x)
		}
		out = append(out, step)
	}
	return out
}

// within returns what all tasks within the task used.
func (t *Task) within() (u Usage) {
	for _, in := range t.Children {
		below := in.within()
		u.Usage, u.Agents = u.Usage.Add(in.Usage).Add(below.Usage), u.Agents+len(in.Agents)+below.Agents
	}
	return u
}

func usage(u model.Usage, agents int, spent runlog.Amount, unpriced bool) Usage {
	out := Usage{Usage: u, Tokens: max(u.In+u.Out, int(spent.Tokens)), Agents: max(agents, int(spent.Agents))}
	if spent.Tokens > 0 {
		out.Cost = cost(spent, unpriced)
	}
	return out
}

// Used returns the usage of the run.
func (r *Run) Used() Usage { return usage(r.Usage, len(r.Agents), r.Spent, r.Unpriced) }

// Result returns the output of the run as a text for people, in Markdown; "" if there is none.
func (r *Run) Result() string {
	var o struct{ Text, Answer string }
	var s string
	switch {
	case len(r.Output) == 0 || string(r.Output) == "null":
		return ""
	case json.Unmarshal(r.Output, &s) == nil:
		return s
	case json.Unmarshal(r.Output, &o) == nil && o.Text+o.Answer != "":
		return cmp.Or(o.Text, o.Answer)
	}
	return "```json\n" + Value(r.Output) + "\n```"
}
