package rundir

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/transcript"
)

// A fold reads a log for all of the files at once.
type fold struct {
	run    transcript.Run
	log    bytes.Buffer
	agents map[agentKey]*agent
	order  []*agent // as they began
}

// An agentKey is where an agent works: in a task, and what its effects are named after.
type agentKey struct{ path, prefix string }

// An agent is what the log says of one.
type agent struct {
	agentKey
	Name   string
	Model  string
	Prompt string
	Said   string // last
	Turns  int
	Usage  model.Usage
	Calls  []call
	Began  time.Time
	Ended  time.Time // when it was last heard of
	open   map[string]json.RawMessage
}

// A call is one of a tool.
type call struct {
	Tool   string          `json:"tool"`
	Input  json.RawMessage `json:"input,omitempty"`
	Result string          `json:"result,omitempty"`
	Error  bool            `json:"error,omitempty"`
	Time   time.Time       `json:"time"`
}

// label is what the file of an agent is named after.
func (a *agent) label() string {
	if a.prefix == "" {
		return a.path
	}
	return a.path + "/" + strings.TrimSuffix(a.prefix, "/")
}

func (f *fold) apply(r runlog.Record) {
	f.run.Apply(r)
	f.note(&r)
	switch r.Kind {
	case runlog.KindIntended:
		var d runlog.Intended
		if json.Unmarshal(r.Data, &d) == nil {
			f.intended(&r, &d)
		}
	case runlog.KindSettled:
		var d runlog.Settled
		if json.Unmarshal(r.Data, &d) == nil {
			f.settled(&r, &d)
		}
	}
}

// agent finds the agent that an effect is of, nil if there is none.
func (f *fold) agent(path, key string) *agent {
	i := strings.LastIndex("/"+key, "/turn-")
	if i < 0 {
		return nil
	}
	return f.agents[agentKey{path, key[:i]}]
}

func (f *fold) intended(r *runlog.Record, d *runlog.Intended) {
	if a := f.agent(r.Path, d.Key); a != nil && d.Kind == "tool" {
		if a.open == nil {
			a.open = map[string]json.RawMessage{}
		}
		a.open[d.Key] = d.Input
	}
}

func (f *fold) settled(r *runlog.Record, d *runlog.Settled) {
	switch d.Kind {
	case "agent":
		prefix, ok := strings.CutSuffix(d.Key, "agent")
		k := agentKey{r.Path, prefix}
		if !ok || d.Error != "" || f.agents[k] != nil {
			return
		}
		var started struct{ Agent, Model, Prompt string }
		_ = json.Unmarshal(d.Input, &started) // as far as it says
		a := &agent{agentKey: k, Name: transcript.Line(d.Name), Model: transcript.Line(started.Model), Prompt: transcript.Clean(started.Prompt), Began: r.Time, Ended: r.Time}
		f.agents[k] = a
		f.order = append(f.order, a)
	case "model":
		a := f.agent(r.Path, d.Key)
		var resp model.Response
		if a == nil || d.Error != "" || json.Unmarshal(d.Output, &resp) != nil {
			return
		}
		a.Turns++
		a.Usage = a.Usage.Add(resp.Usage)
		a.Ended = r.Time
		if text := resp.Message.Text(); text != "" {
			a.Said = transcript.Clean(text)
		}
	case "tool":
		a := f.agent(r.Path, d.Key)
		if a == nil {
			return
		}
		a.Ended = r.Time
		c := call{Tool: transcript.Line(d.Name), Input: d.Input, Result: transcript.Clean(d.Error), Error: d.Error != "", Time: r.Time}
		if c.Input == nil {
			c.Input = a.open[d.Key]
		}
		delete(a.open, d.Key)
		var res tool.Result
		if d.Error == "" && json.Unmarshal(d.Output, &res) == nil {
			c.Result, c.Error = transcript.Clean(res.Text), res.Error
		}
		a.Calls = append(a.Calls, c)
	}
}

// note writes the line of a record into the log for people.
func (f *fold) note(r *runlog.Record) {
	what := f.say(r)
	if what == "" {
		return
	}
	path := ""
	if r.Path != "" {
		path = transcript.Line(r.Path) + ": "
	}
	fmt.Fprintf(&f.log, "%s %6d %s%s\n", r.Time.UTC().Format("2006-01-02T15:04:05.000Z"), r.Seq, path, transcript.Line(what))
}

// say puts a record into words, "" for one that is not for people.
func (f *fold) say(r *runlog.Record) string {
	var d struct {
		Title, Workflow, Error, Code, Reason, Node, Kind, Name, Question, By string
		Waiting                                                              []string
		Attempt, Step, Steps                                                 int
		Final, Denied                                                        bool
		Answer, Data                                                         json.RawMessage
	}
	_ = json.Unmarshal(r.Data, &d) // as far as it says
	switch r.Kind {
	case runlog.KindRunStarted:
		return fmt.Sprintf("the run of %s starts: %s", d.Workflow, d.Title)
	case runlog.KindRunResumed:
		return "the run is taken up"
	case runlog.KindRunPaused:
		return "the run pauses: " + orElse(d.Reason, strings.Join(d.Waiting, ", ")+" waits")
	case runlog.KindRunFailed:
		return fmt.Sprintf("the run fails (%s): %s", d.Code, d.Error)
	case runlog.KindRunCancelled:
		return "the run is cancelled"
	case runlog.KindRunFinished:
		return fmt.Sprintf("the run ends after %d supersteps", d.Steps)
	case runlog.KindTaskDone:
		if d.Error != "" {
			return "skipped: " + d.Error
		}
		return "done"
	case runlog.KindTaskFailed:
		return fmt.Sprintf("attempt %d failed: %s", d.Attempt, d.Error)
	case runlog.KindStepCommitted:
		return fmt.Sprintf("superstep %d is committed", d.Step)
	case runlog.KindIntended:
		return fmt.Sprintf("%s %s begins", d.Kind, d.Name)
	case runlog.KindSettled:
		if d.Error != "" {
			return fmt.Sprintf("%s %s failed: %s", d.Kind, d.Name, d.Error)
		}
		return fmt.Sprintf("%s %s is done", d.Kind, d.Name)
	case runlog.KindAsked:
		return "asks: " + d.Question
	case runlog.KindAnswered:
		if d.Denied {
			return "is given no answer"
		}
		return "is answered: " + transcript.Value(d.Answer)
	case runlog.KindEvent:
		var note struct{ Text string }
		if d.Name == "note" && json.Unmarshal(d.Data, &note) == nil {
			return note.Text
		}
	}
	return ""
}

func orElse(s, other string) string {
	if s != "" {
		return s
	}
	return other
}

type runFile struct {
	stamp
	Workflow  string          `json:"workflow"`
	Title     string          `json:"title"`
	Created   time.Time       `json:"created"`
	Updated   time.Time       `json:"updated"`
	Parent    string          `json:"parent,omitempty"`
	Redacted  bool            `json:"redacted"`
	Records   uint64          `json:"records"`
	Inputs    json.RawMessage `json:"inputs,omitempty"`
	Output    json.RawMessage `json:"output,omitempty"`
	Error     *failure        `json:"error,omitempty"`
	Reason    string          `json:"reason,omitempty"` // why it is paused
	Skipped   []string        `json:"skipped,omitempty"`
	Duration  int64           `json:"duration_ms"` // at work
	Agents    int             `json:"agents"`
	Usage     usage           `json:"usage"`
	Steps     []stepFile      `json:"steps"`
	Questions []question      `json:"questions,omitempty"`
}

type failure struct {
	Code    string `json:"code,omitempty"`
	Message string `json:"message"`
}

type stepFile struct {
	Superstep int        `json:"superstep"`
	Done      bool       `json:"done"`
	Duration  int64      `json:"duration_ms"`
	Tasks     []taskFile `json:"tasks"`
}

type taskFile struct {
	Task     string           `json:"task"`
	Step     string           `json:"step"`
	Key      string           `json:"key,omitempty"`
	State    transcript.State `json:"state"`
	Attempt  int              `json:"attempt"`
	Agent    string           `json:"agent,omitempty"`
	Tools    int              `json:"tools"`
	Usage    usage            `json:"usage"`
	Duration int64            `json:"duration_ms"`
	Error    string           `json:"error,omitempty"`
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

func (f *fold) describe(info *runlog.Info, now time.Time, rules string) *runFile {
	r := &f.run
	out := &runFile{
		stamp:    stamp{marker, format, info.ID, info.Head, info.Status, rules},
		Workflow: transcript.Line(info.Workflow), Title: transcript.Line(info.Title),
		Created: info.Created, Updated: info.Updated, Parent: info.Parent, Redacted: rules != "", Records: r.Seq,
		Inputs: r.Inputs, Output: r.Output, Reason: r.Reason, Skipped: r.Skipped,
		Duration: r.Time.Elapsed(now).Milliseconds(), Agents: r.Agents, Usage: used(r.Usage), Steps: []stepFile{},
	}
	if r.Error != "" {
		out.Error = &failure{r.Code, r.Error}
	}
	for _, s := range r.Steps {
		step := stepFile{Superstep: s.Number, Done: s.Done, Duration: s.Time.Elapsed(now).Milliseconds(), Tasks: []taskFile{}}
		for _, t := range s.Tasks {
			step.Tasks = append(step.Tasks, taskFile{
				Task: t.Path, Step: t.Node, Key: t.Key, State: t.State, Attempt: t.Attempt, Agent: t.Agent,
				Tools: t.Tools, Usage: used(t.Usage), Duration: t.Time.Elapsed(now).Milliseconds(), Error: t.Error,
			})
		}
		out.Steps = append(out.Steps, step)
	}
	for _, q := range r.Questions {
		out.Questions = append(out.Questions, question{q.Path, q.Key, q.Question, q.Options, q.Answered, q.Answer, q.By})
	}
	return out
}

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
	Usage    usage            `json:"usage"`
	Prompt   string           `json:"prompt"`
	Result   string           `json:"result"` // what it said last
	Calls    []call           `json:"calls,omitempty"`
}

func (f *fold) describeAgent(a *agent, now time.Time) *agentFile {
	out := &agentFile{
		Agent: a.Name, Task: transcript.Line(a.path), Use: transcript.Line(strings.TrimSuffix(a.prefix, "/")), Model: a.Model, State: transcript.Running,
		Began: a.Began, Ended: a.Ended, Turns: a.Turns, Usage: used(a.Usage), Prompt: a.Prompt, Result: a.Said, Calls: a.Calls,
	}
	end := a.Ended
	if t := f.run.Task(a.path); t != nil {
		out.State, out.Error = t.State, t.Error
		if t.State == transcript.Running {
			end = now
		}
	}
	out.Duration = end.Sub(a.Began).Milliseconds()
	return out
}
