package events

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/internal/cut"
	"github.com/superstep-dev/superstep/internal/mail"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
)

// translate returns the events that a record is. The last of them has its position in the log, so that who has read up to a
// position has all of it.
func (v *Stream) translate(rec *runlog.Record, t *transcript.Run) []*Event {
	var out []*Event
	task := taskOf(rec, t)
	switch rec.Kind {
	case runlog.KindRunStarted, runlog.KindRunResumed, runlog.KindRunPaused:
		out = ofRun(rec, t)
	case runlog.KindTaskDone, runlog.KindTaskFailed:
		if task != nil {
			out = ofTask(rec, task)
		}
	case runlog.KindStepCommitted:
		if s := t.Step(data[runlog.StepCommitted](rec).Step); s != nil && rec.Path == "" { // else of a graph within a task
			out = one("step.done", stepDone{s.Number, paths(s), s.Time.Elapsed(rec.Time).Milliseconds()})
		}
	case runlog.KindAsked:
		d := data[runlog.Question](rec)
		out = asked(&d)
		if d.Kind == runlog.QuestionRun {
			out = one("task.detached", detached{d.Run})
		}
	case runlog.KindAnswered:
		d := data[runlog.Answer](rec)
		if d.By == runlog.ByRun { // its task tells
			break
		}
		out = one("question.answered", answered{d.Key, d.Value, d.Denied, d.By, d.Output})
	case runlog.KindIntended:
		d := data[runlog.Intended](rec)
		out = begun(&d)
		by(out, task, d.Key)
	case runlog.KindSettled:
		d := data[runlog.Settled](rec)
		if task != nil {
			out = settled(&d, task)
		}
		by(out, task, d.Key)
	case runlog.KindEvent:
		out = v.told(rec, task)
	} // run.finished stands for the other ends of a run
	if len(out) > 0 {
		out[len(out)-1].Seq = rec.Seq
	}
	return out
}

// taskOf returns the task of a record. For a record of the run it returns nil.
func taskOf(rec *runlog.Record, t *transcript.Run) *transcript.Task {
	if rec.Path == "" {
		return nil
	}
	return t.Task(rec.Path)
}

func one(kind string, data any) []*Event { return []*Event{{Type: kind, Data: data}} }

// by names the agent whose turn or call has a key.
func by(out []*Event, t *transcript.Task, key string) {
	if t == nil {
		return
	}
	if a := t.AgentOf(key); a != nil {
		for _, e := range out {
			e.Agent = a.Name
		}
	}
}

type runStarted struct {
	Workflow string          `json:"workflow"`
	Sandbox  string          `json:"sandbox,omitempty"`
	Title    string          `json:"title,omitempty"`
	Inputs   json.RawMessage `json:"inputs,omitempty"`
	Parent   string          `json:"parent,omitempty"`
	At       uint64          `json:"at,omitempty"`
}

type runResumed struct {
	Workflow  string                 `json:"workflow"`
	Sandbox   string                 `json:"sandbox,omitempty"`
	Questions []*transcript.Question `json:"questions,omitempty"` // that were asked before, and are open
}

type runPaused struct {
	Reason string           `json:"reason,omitempty"`
	By     string           `json:"by,omitempty"`
	Waits  *transcript.Wait `json:"waits,omitempty"`
}

type reason struct {
	Reason string `json:"reason"`
}

func ofRun(rec *runlog.Record, t *transcript.Run) []*Event {
	switch rec.Kind {
	case runlog.KindRunPaused:
		return one("run.paused", runPaused{t.Reason, t.By, t.Wait()})
	case runlog.KindRunResumed:
		return one("run.resumed", runResumed{t.Workflow, t.Sandbox, t.Open()})
	}
	return one("run.started", runStarted{t.Workflow, t.Sandbox, t.Title, t.Inputs, t.Parent, t.At})
}

type stepDone struct {
	Superstep int      `json:"superstep"`
	Tasks     []string `json:"tasks"`
	Took      int64    `json:"took_ms"`
}

// paths are those of the tasks of a superstep.
func paths(s *transcript.Step) []string {
	out := []string{}
	for _, t := range s.Own() {
		out = append(out, t.Path)
	}
	return out
}

type taskStarted struct {
	Superstep int `json:"superstep"`
}

type taskDone struct {
	State     transcript.State `json:"state"`
	Superstep int              `json:"superstep"`
	Took      int64            `json:"took_ms"`
	Tools     int              `json:"tools"`
	Error     string           `json:"error,omitempty"`
	Why       string           `json:"why,omitempty"`
	Bad       []string         `json:"on_error_input,omitempty"`
	Cost      *transcript.Cost `json:"cost,omitempty"`
}

// failed is an attempt that failed, and when the next one is: of the task, or of a turn, which has a key.
type failed struct {
	Key     string     `json:"key,omitempty"`
	Attempt int        `json:"attempt"`
	Error   string     `json:"error"`
	At      *time.Time `json:"at,omitempty"`
	Late    bool       `json:"late,omitempty"`
	Took    int64      `json:"took_ms,omitempty"`
}

func ofTask(rec *runlog.Record, t *transcript.Task) []*Event {
	if rec.Kind == runlog.KindTaskDone {
		return one("task.done", taskDone{
			t.State, t.Step, t.Time.Elapsed(rec.Time).Milliseconds(), t.Tools, t.Error, t.Why, t.Bad, totalCost(t),
		})
	}
	d := data[runlog.TaskFailed](rec)
	e, kind := failed{Attempt: max(1, d.Attempt), Error: d.Error, Late: d.Late, Took: d.Took}, "task.failed"
	if !d.Final {
		e.At, kind = someTime(t.RetryAt), "task.retrying"
	}
	return []*Event{{Type: kind, Attempt: e.Attempt, Data: e}}
}

func someTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

type permission struct {
	Key string `json:"key"`
	*runlog.QuestionCall
	Options []string        `json:"options,omitempty"`
	Schema  json.RawMessage `json:"schema,omitempty"`
}

type question struct {
	Key      string              `json:"key"`
	Kind     runlog.QuestionKind `json:"kind,omitempty"`
	Question string              `json:"question"`
	Header   string              `json:"header,omitempty"`
	Options  []string            `json:"options,omitempty"`
	About    map[string]string   `json:"about,omitempty"`
	Default  json.RawMessage     `json:"default,omitempty"`
	Schema   json.RawMessage     `json:"schema,omitempty"`
}

type answered struct {
	Key    string          `json:"key"`
	Answer json.RawMessage `json:"answer,omitempty"`
	Denied bool            `json:"denied,omitempty"`
	By     string          `json:"by,omitempty"`
	Output json.RawMessage `json:"output,omitempty"`
}

type detached struct {
	Run string `json:"run"` // the child run
}

func asked(q *runlog.Question) []*Event {
	out := one("question.asked", question{q.Key, q.Kind, q.Text, q.Header, q.Options, q.About, q.Default, q.Schema})
	if q.Kind == runlog.QuestionPermission && q.Call != nil {
		out = one("permission.requested", permission{q.Key, q.Call, q.Options, q.Schema})
	}
	out[0].Agent = q.Agent
	return out
}

type effectBegun struct {
	Key   string          `json:"key"`
	Kind  string          `json:"kind,omitempty"`
	Name  string          `json:"name,omitempty"`
	Model string          `json:"model,omitempty"`
	Tool  string          `json:"tool,omitempty"`
	Args  json.RawMessage `json:"args,omitempty"`
}

// turn is what a call of a model is: a turn of an agent, or a summary of its conversation.
func turn(key string) string {
	if transcript.Summary(key) {
		return "summary"
	}
	return "turn"
}

func begun(d *runlog.Intended) []*Event {
	_, timed := waits(d.Kind, d.Key)
	switch {
	case d.Kind == "agent" || transcript.Bookkeeping(d.Kind) || timed > 0: // said when it is settled, if at all
		return nil
	case d.Kind == "model":
		return one(turn(d.Key)+".started", effectBegun{Key: d.Key, Model: d.Name})
	case d.Kind == "tool":
		return one("tool.started", effectBegun{Key: d.Key, Tool: d.Name, Args: d.Input})
	}
	return one("effect.started", effectBegun{Key: d.Key, Kind: d.Kind, Name: d.Name})
}

// waits returns the turn of an agent and how often it was refused for going too fast, or broken off, if an effect is the wait for the next attempt.
func waits(kind, key string) (turn string, n int) {
	i := strings.LastIndexByte(key, '/')
	if kind != "timer" || i < 0 {
		return "", 0
	}
	for _, prefix := range []string{"wait-", "again-"} {
		if times, is := strings.CutPrefix(key[i+1:], prefix); is {
			n, _ = strconv.Atoi(times)
			return key[:i], max(0, n)
		}
	}
	return "", 0
}

type agentStarted struct {
	Key    string `json:"key"`
	Agent  string `json:"agent"`
	Model  string `json:"model,omitempty"`
	Effort string `json:"effort,omitempty"`
	Prompt string `json:"prompt,omitempty"`
	Window int    `json:"window,omitempty"`
	Error  string `json:"error,omitempty"`
}

type turnDone struct {
	Key     string           `json:"key"`
	Model   string           `json:"model"`
	Message *model.Message   `json:"message,omitempty"` // of one that failed or was interrupted, what there was of it
	Usage   *model.Usage     `json:"usage,omitempty"`
	Stop    model.StopCode   `json:"stop,omitempty"`
	Error   string           `json:"error,omitempty"`
	Took    int64            `json:"took_ms"`
	First   int64            `json:"first_ms,omitempty"`
	Cost    *transcript.Cost `json:"cost,omitempty"`
}

type toolDone struct {
	Key    string          `json:"key"`
	Tool   string          `json:"tool"`
	Args   json.RawMessage `json:"args,omitempty"` // of one without a tool.started in the log
	Result json.RawMessage `json:"result,omitempty"`
	Error  string          `json:"error,omitempty"`
	Took   int64           `json:"took_ms"`
}

type tasks struct {
	Items []transcript.Todo `json:"items"`
}

type effectDone struct {
	Key   string           `json:"key"`
	Kind  string           `json:"kind"`
	Name  string           `json:"name,omitempty"`
	Error string           `json:"error,omitempty"`
	Took  int64            `json:"took_ms"`
	Cost  *transcript.Cost `json:"cost,omitempty"`

	Messages []mail.Message `json:"messages,omitempty"` // of a steer
}

func settled(d *runlog.Settled, t *transcript.Task) []*Event {
	turn, n := waits(d.Kind, d.Key)
	switch {
	case transcript.Bookkeeping(d.Kind):
		return nil
	case n > 0:
		return one("task.retrying", failed{Key: turn, Attempt: n, Error: cmp.Or(t.Trouble, lastFailure(t)), At: someTime(t.RetryAt)})
	case d.Kind == "agent":
		var in struct {
			Model, Effort, Prompt string
			Window                int
		}
		_ = json.Unmarshal(d.Input, &in) // as far as it says
		if in.Effort != "" {
			in.Model = strings.TrimSuffix(in.Model, "#"+in.Effort)
		}
		out := one("agent.started", agentStarted{d.Key, d.Name, in.Model, in.Effort, in.Prompt, in.Window, d.Error})
		out[0].Agent = transcript.Line(d.Name)
		return out
	case d.Kind == "model":
		return turned(d, t)
	case d.Kind == "tool":
		out := one("tool.done", toolDone{d.Key, d.Name, d.Input, d.Output, d.Error, d.Took})
		if d.Name == "todo" && t.Todos != nil {
			out = append(one("tasks.updated", tasks{t.Todos}), out...)
		}
		return out
	}
	e := effectDone{d.Key, d.Kind, d.Name, d.Error, d.Took, t.CostOf(d), mail.SteeringOf(d)}
	var job struct {
		Success *bool
		Error   string
	}
	if d.Kind == "job" && d.Error == "" && json.Unmarshal(d.Output, &job) == nil && job.Success != nil && !*job.Success {
		e.Error = job.Error
	}
	return one("effect.done", e)
}

func turned(d *runlog.Settled, t *transcript.Task) []*Event {
	if d.Error != "" {
		return endOf(d, t, ".failed", d.Partial)
	}
	return endOf(d, t, ".done", d.Output)
}

// interrupted is a turn that was interrupted, and is taken again when the run is resumed.
func interrupted(d *runlog.Settled, t *transcript.Task) []*Event {
	if d == nil || t == nil || d.Kind != "model" {
		return nil
	}
	out := endOf(d, t, ".interrupted", d.Partial)
	by(out, t, d.Key)
	return out
}

func endOf(d *runlog.Settled, t *transcript.Task, kind string, said json.RawMessage) []*Event {
	e := turnDone{Key: d.Key, Model: d.Name, Error: d.Error, Took: d.Took, First: d.First, Cost: t.CostOf(d)}
	var r model.Response
	if len(said) > 0 && json.Unmarshal(said, &r) == nil {
		if e.Stop = r.Stop; d.Output != nil || r.Usage != (model.Usage{}) { // else it is not known
			e.Usage = &r.Usage
		}
		if r.Message.Role != "" || r.Message.Parts != nil {
			e.Message = &r.Message
		}
	}
	return one(turn(d.Key)+kind, e)
}

// lastFailure is why the last turn of a task that failed did.
func lastFailure(t *transcript.Task) string {
	for i := len(t.Parts) - 1; i >= 0; i-- {
		if t.Parts[i].Kind == transcript.Failure {
			return t.Parts[i].Text
		}
	}
	return ""
}

type named struct {
	Name string          `json:"name"`
	Data json.RawMessage `json:"data,omitempty"`
}

type window struct {
	Used   int    `json:"used"`
	Window int    `json:"window,omitempty"`
	Action string `json:"action,omitempty"`
}

type delta struct {
	Text string `json:"text"`
}

// told is a notice from a task.
func (v *Stream) told(rec *runlog.Record, t *transcript.Task) []*Event {
	d := data[runlog.Event](rec)
	var of struct {
		Agent, Text, Cause string
		window
	}
	_ = json.Unmarshal(d.Data, &of) // what is none of these is passed on as it is
	live := rec.Seq == 0
	var out []*Event
	switch {
	case d.Name == "granted" && !live: // for the log alone
		return nil
	case d.Name == cut.Event:
		return interrupted(cut.Of(rec), t)
	case d.Name == "interrupted" && !live && rec.Path == "":
		out = one("run.interrupted", reason{of.Cause})
	case d.Name == "tasks" && !live && t != nil:
		for ; t.Todos == nil && t.Parent != nil; t = t.Parent {
		}
		return one("tasks.updated", tasks{t.Todos})
	case d.Name == "context":
		out = one("context", of.window)
	case d.Name == "task.started" && live && t != nil:
		out = one("task.started", taskStarted{t.Step})
	case (d.Name == "task.queued" || d.Name == "agent.queued") && live:
		out = one("task.queued", nil)
	case (d.Name == "task.works" || d.Name == "agent.works") && live:
		out = one("task.dequeued", nil)
	case (d.Name == "text" || d.Name == "reasoning") && live:
		if !v.Text || t == nil || t.Summing {
			return nil
		}
		out = one(d.Name+".delta", delta{of.Text})
	default:
		if out = one("event", named{d.Name, d.Data}); d.Name != "denied" { // who says what else is the task's own matter
			return out
		}
	}
	out[0].Agent = transcript.Line(of.Agent)
	return out
}

// totalCost returns the cost so far of a task and all tasks in it, or nil if it is unknown.
func totalCost(t *transcript.Task) *transcript.Cost {
	c, _ := t.Total()
	return c
}
