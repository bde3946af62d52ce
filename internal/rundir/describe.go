package rundir

import (
	"encoding/json"
	"time"

	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
)

// A runFile is run.json.
type runFile struct {
	stamp
	Workflow  string                  `json:"workflow"`
	Title     string                  `json:"title"`
	Created   time.Time               `json:"created"`
	Updated   time.Time               `json:"updated"`
	Parent    string                  `json:"parent,omitempty"`
	Redacted  bool                    `json:"redacted"`
	Records   uint64                  `json:"records"`
	Inputs    json.RawMessage         `json:"inputs,omitempty"`
	Output    json.RawMessage         `json:"output,omitempty"`
	Error     *failure                `json:"error,omitempty"`
	Reason    string                  `json:"reason,omitempty"` // why it is paused
	Failed    []string                `json:"failed,omitempty"`
	Degraded  []string                `json:"degraded,omitempty"`
	Skipped   []string                `json:"skipped,omitempty"` // there was no reason to run them
	Duration  int64                   `json:"duration_ms"`       // of execution
	Agents    int                     `json:"agents"`
	Usage     transcript.Usage        `json:"usage"`
	Steps     []transcript.StepReport `json:"steps"`
	Questions []question              `json:"questions,omitempty"`
}

type failure struct {
	Code    string `json:"code,omitempty"`
	Message string `json:"message"`
}

type question struct {
	Task     string   `json:"task"`
	Key      string   `json:"key"`
	Question string   `json:"question"`
	Options  []string `json:"options,omitempty"`
	Answered bool     `json:"answered"`
	Answer   string   `json:"answer,omitempty"`
	By       string   `json:"by,omitempty"`
}

func describe(r *transcript.Run, info *runlog.Info, now time.Time, rules string) *runFile {
	out := &runFile{
		stamp:    stamp{marker, format, info.ID, info.Head, info.Status, rules},
		Workflow: transcript.Line(info.Workflow), Title: transcript.Line(info.Title),
		Created: info.Created, Updated: info.Updated, Parent: info.Parent, Redacted: rules != "", Records: r.Seq,
		Inputs: r.Inputs, Output: r.Output, Reason: r.Reason, Failed: r.Failed, Degraded: r.Degraded, Skipped: r.Skipped,
		Duration: r.Time.Elapsed(now).Milliseconds(), Agents: len(r.Agents), Usage: r.Used(), Steps: r.Report(now),
	}
	if r.Error != "" {
		out.Error = &failure{r.Code, r.Error}
	}
	for _, q := range r.Questions {
		out.Questions = append(out.Questions, question{q.Path, q.Key, q.Question, q.Options, q.Answered, q.Answer, q.By})
	}
	return out
}

// An agentFile is agents/NAME.json.
type agentFile struct {
	Agent    string           `json:"agent"`
	Task     string           `json:"task"`
	Use      string           `json:"use,omitempty"` // which agent of the task, if it runs several
	Model    string           `json:"model,omitempty"`
	State    transcript.State `json:"state"` // of the task
	Error    string           `json:"error,omitempty"`
	Began    time.Time        `json:"began"`
	Ended    time.Time        `json:"ended"` // when it was last heard of
	Duration int64            `json:"duration_ms"`
	Turns    int              `json:"turns"`
	Usage    model.Usage      `json:"usage"`
	Prompt   string           `json:"prompt"`
	Result   string           `json:"result"` // what it said last
	Calls    []call           `json:"calls,omitempty"`
}

// A call is a tool call.
type call struct {
	Tool   string          `json:"tool"`
	Input  json.RawMessage `json:"input,omitempty"`
	Result string          `json:"result,omitempty"`
	Error  bool            `json:"error,omitempty"`
	Time   time.Time       `json:"time"`
}

func describeAgent(a *transcript.Agent, now time.Time) *agentFile {
	t, end := a.Task, a.Ended
	if t.State == transcript.Running {
		end = now
	}
	out := &agentFile{
		Agent: a.Name, Task: t.Path, Use: a.Use, Model: a.Model, State: t.State, Error: t.Error, Began: a.Began, Ended: a.Ended,
		Duration: end.Sub(a.Began).Milliseconds(), Turns: a.Turns, Usage: a.Usage, Prompt: a.Prompt, Result: a.Said,
	}
	for _, c := range a.Calls {
		out.Calls = append(out.Calls, call{c.Name, c.Input, c.Result, c.State == transcript.Failed, c.Ended})
	}
	return out
}

// label returns the label from which the file name of an agent is made.
func label(a *transcript.Agent) string {
	if a.Use == "" {
		return a.Task.Path
	}
	return a.Task.Path + "/" + a.Use
}
