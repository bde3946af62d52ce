package transcript

import (
	"strings"
	"time"

	"github.com/superstep-dev/superstep/model"
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
	Agents int `json:"agents"`
}

// Report returns the supersteps of a run as data for programs, with all times measured until now.
func (r *Run) Report(now time.Time) []StepReport {
	out := make([]StepReport, 0, len(r.Steps))
	within := r.within()
	for _, s := range r.Steps {
		step := StepReport{Superstep: s.Number, Done: s.Done, Duration: s.Time.Elapsed(now).Milliseconds(), Tasks: []TaskReport{}}
		for _, t := range s.Tasks {
			x := TaskReport{
				Task: t.Path, Step: t.Node, Key: t.Key, State: t.State, Attempt: t.Attempt, Agent: t.Agent, Tools: t.Tools,
				Usage: Usage{t.Usage, len(t.Agents)}, Duration: t.Time.Elapsed(now).Milliseconds(), Error: t.Error, Why: t.Why, Bad: t.Bad, Said: t.Last(),
			}
			if u := within[t.Path]; u != nil {
				x.Total = &Usage{x.Usage.Add(u.Usage), x.Usage.Agents + u.Agents}
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

// within returns, by path of a task, the usage of all tasks inside it.
func (r *Run) within() map[string]*Usage {
	out := map[string]*Usage{}
	for _, t := range r.Tasks {
		if t.Usage == (model.Usage{}) && len(t.Agents) == 0 {
			continue
		}
		for i := strings.LastIndexByte(t.Path, '/'); i >= 0; i = strings.LastIndexByte(t.Path[:i], '/') {
			u := out[t.Path[:i]]
			if u == nil {
				u = &Usage{}
				out[t.Path[:i]] = u
			}
			u.Usage, u.Agents = u.Usage.Add(t.Usage), u.Agents+len(t.Agents)
		}
	}
	return out
}

// Used returns the usage of the run.
func (r *Run) Used() Usage { return Usage{r.Usage, len(r.Agents)} }
