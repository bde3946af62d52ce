// Package transcript reads a run log for people: what runs, for how long, what it
// says and uses, and what it wants to know.
//
// A [Run] is a fold. It does no I/O and looks at no clock; where the time matters, the
// caller says what time it is. All of its text is [Clean].
package transcript

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
)

// A Run is what its log says so far. The zero value is a run of which nothing is
// known. Apply changes it; it is not safe for use by several goroutines at once.
type Run struct {
	Workflow  string
	Title     string
	Inputs    json.RawMessage
	Status    runlog.Status
	Started   time.Time
	Ended     time.Time // when it last ended, failed, paused or was stopped; zero while it runs
	Time      Span      // at work, without the pauses
	Usage     model.Usage
	Agents    int
	Steps     []*Step     // by number
	Tasks     []*Task     // in the order they were first heard of
	Questions []*Question // in the order they were asked
	Skipped   []string
	Denied    []Denial // calls that were turned down since nobody was there to ask
	Output    json.RawMessage
	Error     string              // of a failed run
	Code      string              // of a failed run
	Reason    string              // of a run that is paused for another reason than a question
	Short     *runlog.BudgetError // of a run that is paused for want of budget
	Seq       uint64              // of the last stored record

	step  int       // the superstep that is not committed yet
	last  time.Time // of the last record
	began time.Time // of that superstep
	paths map[string]*Task
	sends map[string]map[string]bool // for the next superstep: node → keys
}

// A Denial is a call of an agent that was turned down since nobody was there to ask.
type Denial struct {
	Path, Agent, Tool, Subject, Reason string
	Always                             string // a rule that would have allowed it, "" for none
}

// String names the call: the tool, and what was to be done with it.
func (d Denial) String() string {
	if s := Line(d.Subject); s == d.Tool || strings.HasPrefix(s, d.Tool+" {") {
		return s // of tools that are not known better it begins with their name
	}
	return strings.TrimRight(d.Tool+" "+Line(d.Subject), " ")
}

// A Step is a superstep.
type Step struct {
	Number int
	Done   bool
	Time   Span
	Tasks  []*Task
	// Planned says how many tasks of a node were sent for, where they have keys.
	Planned map[string]int
}

// State says how a task or a tool is doing.
type State string

// The states of a task. A tool is only ever running, done, failed or stopped.
const (
	Running State = "running"
	Done    State = "done"
	Failed  State = "failed"
	Skipped State = "skipped"  // it failed and was passed over
	NotRun  State = "not run"  // there was no reason to, see Task.Why
	Partly  State = "degraded" // it has less to give than was wanted, see Task.Why
	Waiting State = "waiting"  // for an answer
	Stopped State = "stopped"  // the run ended or was cut off under it
)

// A Task is the work of one node.
type Task struct {
	Path     string
	Node     string
	Key      string // of the send it runs for, "" for none
	Step     int
	State    State
	Attempt  int // from 1
	Error    string
	Why      string   // of one that is NotRun or Partly
	Bad      []string // the steps that failed or were degraded and on whose results it runs
	Agent    string   // the agent at work in it, "" if there was none
	Agents   int      // how many worked in it
	Thinking bool     // a model is at its turn
	Usage    model.Usage
	Tools    int // calls that have ended
	Parts    []Part
	Time     Span

	fate   State // what it says that it will end as, "" for Done
	open   []*Tool
	agents map[string]bool
	live   []byte // of the turn under way
	musing []byte
}

// A Part is something a task said or did.
type Part struct {
	Kind  PartKind
	Text  string // of a text, a reasoning or a note
	Tool  *Tool  // of a tool
	Agent string
}

// PartKind says what a part is.
type PartKind string

// The kinds of parts.
const (
	Text      PartKind = "text"
	Reasoning PartKind = "reasoning"
	ToolUse   PartKind = "tool"
	Note      PartKind = "note" // an event of that name or a denial, for people
)

// A Tool is one call of a tool, or another effect.
type Tool struct {
	Key    string
	Kind   string // of the effect
	Name   string
	Arg    string // the argument that matters most, on one line
	State  State
	Result string
	Time   Span
}

// A Question is something a task wants to know.
type Question struct {
	Path     string
	Key      string
	Question string
	Options  []string
	Free     bool   // answers besides the options may fit: a schema says which
	Default  string // as people write it, "" for none
	Answer   string // as people write it
	Answered bool
	Denied   bool
	By       string
}

// A Span adds up the time that something was at work.
type Span struct {
	spent time.Duration
	since time.Time // zero while it is not at work
}

// Elapsed is the time at work until now. Now is used only while the span is open.
func (s Span) Elapsed(now time.Time) time.Duration {
	if s.since.IsZero() {
		return s.spent
	}
	return s.spent + max(0, now.Sub(s.since))
}

func (s *Span) start(at time.Time) {
	if s.since.IsZero() {
		s.since = at
	}
}

func (s *Span) stop(at time.Time) {
	s.spent, s.since = s.Elapsed(at), time.Time{}
}

// Live is what the model has said so far in the turn under way.
func (t *Task) Live() string { return Clean(string(t.live)) }

// LiveReasoning is what the model has thought so far in the turn under way.
func (t *Task) LiveReasoning() string { return Clean(string(t.musing)) }

// Current is the tool at work, nil if there is none.
func (t *Task) Current() *Tool {
	if len(t.open) == 0 {
		return nil
	}
	return t.open[len(t.open)-1]
}

// Last is what the task said last, including the turn under way.
func (t *Task) Last() string {
	if len(t.live) > 0 {
		return t.Live()
	}
	for i := len(t.Parts) - 1; i >= 0; i-- {
		if t.Parts[i].Kind == Text {
			return t.Parts[i].Text
		}
	}
	return ""
}

// Ended reports whether the task is over.
func (t *Task) Ended() bool { return t.State != Running && t.State != Waiting }

// Open lists the questions nobody has answered.
func (r *Run) Open() []*Question {
	var out []*Question
	for _, q := range r.Questions {
		if !q.Answered {
			out = append(out, q)
		}
	}
	return out
}

// Active lists the tasks that are running or waiting, in the order they were first heard of.
func (r *Run) Active() []*Task {
	var out []*Task
	for _, t := range r.Tasks {
		if !t.Ended() {
			out = append(out, t)
		}
	}
	return out
}

// Step is the superstep of that number, nil if there is none.
func (r *Run) Step(n int) *Step {
	if n < 0 || n >= len(r.Steps) {
		return nil
	}
	return r.Steps[n]
}

// Task is the task of that path, nil if there is none.
func (r *Run) Task(path string) *Task { return r.paths[path] }

// Interrupt says that nobody runs the run any more although its log does not say so.
func (r *Run) Interrupt() {
	if r.Status == runlog.Running {
		r.halt(runlog.Interrupted, r.last)
	}
}
