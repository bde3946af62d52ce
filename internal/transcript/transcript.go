// Package transcript turns a run log into a view for users: the running tasks, their times, output and usage, and the open questions.
//
// A [Run] is a fold. It does no I/O and reads no clock; where the time matters, the caller passes it. All of its text has gone through [Clean].
package transcript

import (
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
)

// A Run is the state of a run according to its log so far. The zero value is a run without records. Apply changes it; it is not safe for use by several
// goroutines at once.
type Run struct {
	needs     []string // the labels that its worker must have
	Sandbox   string   // what bounds the commands of its last execution; "" if it is not known
	Workflow  string
	Title     string
	Inputs    json.RawMessage
	Status    runlog.Status
	Started   time.Time
	Ended     time.Time // when it last ended, failed, paused or was stopped; zero while it runs
	Time      Span      // of execution: without pauses, and without what it only waits for people
	Usage     model.Usage
	Agents    []*Agent    // in the order in which they began
	Steps     []*Step     // by number
	Tasks     []*Task     // in the order they were first heard of
	Questions []*Question // in the order they were asked
	Failed    []string    // the paths of tasks that failed, of a run that has ended
	Degraded  []string    // the paths of tasks that gave less than was wanted, of a run that completed in part
	Skipped   []string    // the paths of tasks that had no reason to run
	Denied    []Denial    // calls that were turned down since nobody was there to ask
	Refused   []Denial    // calls that a rule or a person turned down
	Output    json.RawMessage
	Error     string              // of a failed run
	Code      string              // of a failed run
	Reason    string              // of a run that is paused for another reason than a question
	Short     *runlog.BudgetError // of a run that is paused for want of budget
	Seq       uint64              // of the last stored record
	Rev       uint64              // counts the records that were applied, live-only ones too
	Imported  bool                // it, or one that it is a fork of, was made of a file
	Parent    string              // of a fork: the run that it goes on from,
	At        uint64              // and the record of it that was the last
	Budget    runlog.Budget       // its limits
	Spent     runlog.Amount       // of its budget; Spent.Money is its cost so far
	Unpriced  bool                // the cost is more than that: a model tells no price
	Retries   int                 // attempts that failed and were not the last
	Reused    runlog.Amount       // what the turns did cost that were recorded before it was resumed last, and were not taken again
	By        string              // who paused or interrupted it, "" if nobody did
	Nodes     []string            // of its graph, in declared order; nil if its log does not say
	Graph     []Node              // the same, with what leads where
	Window    int                 // the most bytes of parts that ended tasks keep, the newest first; 0 for all

	step  int       // the superstep that is not committed yet
	last  time.Time // of the last record
	began time.Time // of that superstep
	paths map[string]*Task

	timed  bool                       // records say how long things took
	own    Span                       // Time, by such records alone
	before time.Duration              // of it, when the superstep began that is not committed yet
	asking int                        // how many questions are open
	held   int                        // how many tasks have their clock stopped since people are waited for
	waited bool                       // the run does nothing else
	load   load                       // of all tasks
	loads  map[string]*load           // by path
	idle   time.Time                  // since when that of the run is
	sends  map[string]map[string]bool // for the next superstep: node → keys
	aside  map[string]runlog.Amount   // what is set aside, by path and key of the effect
	turns  map[string]runlog.Amount   // what turns of models did cost, by path and key
	order  map[string]int             // of the keyed tasks that were sent for, by path
	ended  []*Task                    // in the order in which they ended
	kept   int                        // bytes of their parts

	reserved runlog.Amount // the sum of aside
	leaves   int           // tasks that have not ended and have none in them
	retrying int           // those of them that wait to try again
	resting  int           // those of them that wait for a date, too
	rested   time.Duration // see Waited
	heard    bool          // the record only continues the text of a turn
	changed  changed
}

// A Node is a node of a run's graph.
type Node struct {
	Name string
	Join string   // when it runs: "" as soon as one that leads to it is done; all, settled, or a quorum
	Most int      // tasks of it side by side, 0 for any number
	To   []string // the nodes that it leads to, in declared order
}

// A Denial is a denied call of an agent.
type Denial struct {
	Path    string `json:"task"`
	Agent   string `json:"agent"`
	Tool    string `json:"tool"`
	Subject string `json:"subject,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Always  string `json:"always,omitempty"` // a rule that would have allowed it, "" for none
	// Missing are the rules that only together would have allowed it.
	Missing []string `json:"missing,omitempty"`
	By      string   `json:"by,omitempty"` // who turned it down, "" for a rule, or if nobody was there to ask
}

// Allowing returns the rules that would have allowed the call, none if they are not known.
func (d *Denial) Allowing() []string {
	if d.Always != "" {
		return []string{d.Always}
	}
	return d.Missing
}

// String names the call: the tool and its main argument.
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
	// Planned counts, by node, the tasks with keys that were sent.
	Planned map[string]int

	load  load
	place spot[Step] // among the supersteps, by their last change
}

// State is the state of a task or a tool.
type State string

// The states of a task. A tool is only ever running, done, failed or stopped.
const (
	Running State = "running"
	Done    State = "done"
	Failed  State = "failed"
	Skipped State = "skipped"  // there was no reason to run it, see Task.Why
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
	Parent   *Task     // the nearest task that it is in, nil for one of the run's own graph
	Children []*Task   // in the order they were first heard of
	Depth    int       // how many tasks it is in
	Order    int       // among the tasks that were sent for with it, in the order of the sends
	Rev      uint64    // Run.Rev of the last record that changed it, or what is in it
	Queued   bool      // it waits for a place; live-only
	RetryAt  time.Time // when it tries again, zero unless it waits for that
	Limit    string    // the provider whose rate limit it waits for until RetryAt, "" if it waits for another reason
	Trouble  string    // why its model is asked again at RetryAt, "" if that is not known; live-only
	Attempt  int       // from 1
	Error    string
	Why      string   // of one that is Skipped or Partly
	Bad      []string // the steps that failed or were degraded and on whose results it runs
	Run      string   // the child run that it waits for, or waited for last; "" for none
	Agent    string   // the agent running in it, "" if there was none
	Agents   []*Agent // that worked in it, in the order in which they began
	Thinking bool     // a model is answering
	Summing  bool     // that turn sums the conversation up, and is nothing that the agent says
	Usage    model.Usage
	Spent    runlog.Amount // its own; Spent.Money is the cost
	Unpriced bool          // the cost is more than that
	Tools    int           // calls that have ended
	Items    int           // branches that it has, as far as is heard of; those that have not ended are live-only
	ItemsEnd int           // of them, those that have ended
	Parts    []Part
	Dropped  int    // parts that are not kept any more, see Run.Window
	Todos    []Todo // the plan of its agent, as of its last call of the tool todo
	Time     Span
	Began    time.Time // about: with its superstep, where the log does not say better
	Left     time.Time // when it ended, or last began to wait; zero before that
	Progress *Progress // of something long that it is at, nil for nothing

	load    load  // its own, as it is counted
	held    bool  // its clock is stopped since what is in it waits for people
	fate    State // what it says that it will end as, "" for Done
	open    []*Tool
	inputs  map[string]json.RawMessage // of the running tools, by key; they outlast a pause
	live    []byte                     // of the turn under way
	shown   []byte                     // live, clean
	version int                        // of shown: it only grew since this changed
	ids     map[string]int             // how many parts there were of what an ID is made of
	items   map[string]bool            // by key: whether it has ended
	viewed  uint64                     // Run.Rev of the last record that changed more than the text of the turn under way
	place   spot[Task]                 // among the tasks, by Rev
	parts   []entry[string]            // changes of parts, by ID, since they were dropped last
	cleared uint64                     // Run.Rev when they were dropped last
	size    int                        // bytes of the parts
	counted bool                       // it has ended, and size is part of Run.kept
	leaf    bool                       // it is counted in Run.leaves
	retries bool                       // it is counted in Run.retrying
	rests   bool                       // it is counted in Run.resting
	stored  time.Duration              // of execution, by records that end an execution or an attempt
}

// A Todo is an item of an agent's plan.
type Todo struct {
	ID        string   `json:"id,omitempty"`
	Content   string   `json:"content"`
	Status    string   `json:"status,omitempty"` // pending, in_progress, completed or error
	BlockedBy []string `json:"blockedBy,omitempty"`
}

// Blockers returns what an item of a plan waits for: the items that block it and are not completed. A completed item waits for nothing.
func Blockers(list []Todo, d *Todo) []string {
	if d.Status == "completed" {
		return nil
	}
	var out []string
	for _, id := range d.BlockedBy {
		if !slices.ContainsFunc(list, func(o Todo) bool { return o.ID == id && o.Status == "completed" }) {
			out = append(out, id)
		}
	}
	return out
}

// A Progress is the progress of a long operation, as reported by a live event "progress".
type Progress struct {
	Text      string // what is done, and how much of it
	Done, All int64  // in units of its own
}

// A Part is a piece of a task's output or one of its actions.
type Part struct {
	ID       string // within its task: the same whoever folds the log, and whenever
	Rev      uint64
	Kind     PartKind
	Text     string        // of all but tools and questions
	First    time.Duration // of the first part of a turn: how long it took to the first token, 0 if that is not known
	Cut      bool          // of a turn that failed or was interrupted: it is not all that the model would have said
	Tool     *Tool         // of a tool
	Question *Question     // of a question
	Agent    string

	size int // bytes, as they are counted
}

// PartKind describes what a part is.
type PartKind string

// The kinds of parts.
const (
	Text      PartKind = "text"
	Reasoning PartKind = "reasoning"
	ToolUse   PartKind = "tool"
	Note      PartKind = "note"     // an event of that name or a denial, for people
	Ask       PartKind = "question" // of any kind, also a permission request
	Retry     PartKind = "retry"    // an attempt failed, and another follows
	Failure   PartKind = "error"    // of a turn, or of the task
	Compacted PartKind = "compaction"
)

// A Tool is one call of a tool, or another effect.
type Tool struct {
	Key    string
	Kind   string // of the effect
	Name   string
	Arg    string          // the argument that matters most, on one line
	Input  json.RawMessage // all arguments
	State  State
	Result string
	Time   Span
	Ended  time.Time // zero while it runs
	Child  *Task     // in which a call of another agent works, nil for none

	stored bool // its beginning is in the log
}

// An Agent is one use of an agent in a task.
type Agent struct {
	Task   *Task
	Use    string // which agent of the task, if it runs several
	Name   string
	Model  string
	Effort string        // of the model, in its provider's words; "" for the default
	First  time.Duration // to the first token of its last turn, 0 if that is not known
	Prompt string        // of the user
	Said   string        // last
	Turns  int           // without those that summed the conversation up
	Usage  model.Usage
	Spent  runlog.Amount
	Used   int         // tokens of the model's window, as of its last turn
	Window int         // of the model, in tokens; 0 if it is not known
	Last   model.Usage // of its last turn
	Priced bool        // the model tells its price
	Called int         // calls of tools that have ended
	Calls  []*Tool     // those, unless they were dropped; see Run.Window
	Began  time.Time
	Ended  time.Time // when it was last heard of
}

// A Question is a question of a task to the user.
type Question struct {
	Path     string               `json:"path"`
	Key      string               `json:"key"`
	Kind     runlog.QuestionKind  `json:"kind,omitempty"`   // "" in older logs
	Agent    string               `json:"agent,omitempty"`  // who asks, "" for the step
	Header   string               `json:"header,omitempty"` // "" for none
	Question string               `json:"question"`
	Call     *runlog.QuestionCall `json:"call,omitempty"` // of a permission request, nil for others
	Options  []string             `json:"options,omitempty"`
	About    map[string]string    `json:"about,omitempty"`   // of options, by option
	Text     bool                 `json:"-"`                 // of an unknown outcome: see runlog.Question
	Default  string               `json:"default,omitempty"` // as people write it, "" for none
	Answer   string               `json:"answer,omitempty"`  // as people write it
	Answered bool                 `json:"answered,omitempty"`
	Denied   bool                 `json:"denied,omitempty"`
	By       string               `json:"by,omitempty"`

	Asked runlog.Question `json:"-"` // as it was asked, whose text is not clean
	Since time.Time       `json:"-"` // when that was
	Until time.Time       `json:"-"` // when it was answered
}

// Label returns the display name of the task, such as gather/tests for gather[tests]. Of a graph within a task only the key is shown, and nothing if that
// is the key of a call.
func (t *Task) Label() string {
	var steps []string
	for step := range strings.SplitSeq(t.Path, "/") {
		if node, key := split(step); key != "" {
			_, visit, _ := strings.Cut(step, "]")
			if step = node + "/" + Line(key) + visit; node == "~" {
				step = Line(key)
			}
			if raw, err := hex.DecodeString(key); node == "~" && err == nil && len(raw) == 16 {
				continue
			}
		}
		steps = append(steps, step)
	}
	return strings.Join(steps, "/")
}

// Total returns what the task and all that is in it cost, nil if that is not known, and how many calls of tools have ended there.
func (t *Task) Total() (c *Cost, tools int) {
	spent, unpriced, tools := t.total()
	return cost(spent, unpriced), tools
}

func (t *Task) total() (spent runlog.Amount, unpriced bool, tools int) {
	spent, unpriced, tools = t.Spent, t.Unpriced, t.Tools
	for _, in := range t.Children {
		s, u, n := in.total()
		spent, unpriced, tools = spent.Add(s), unpriced || u, tools+n
	}
	return spent, unpriced, tools
}

// Top returns the node of the run's graph that a path lies in.
func Top(path string) string {
	if i := strings.IndexAny(path, "[#/:"); i >= 0 {
		return path[:i]
	}
	return path
}

// Own returns the tasks of the step without the tasks nested in them.
func (s *Step) Own() []*Task {
	return slices.DeleteFunc(slices.Clone(s.Tasks), func(t *Task) bool { return strings.Contains(t.Path, "/") })
}

// Live returns the text of the current model turn so far.
func (t *Task) Live() string { return string(t.shown) }

// LiveTail returns at most the last n bytes of Live.
func (t *Task) LiveTail(n int) string {
	from := max(0, len(t.shown)-n)
	for from < len(t.shown) && !utf8.RuneStart(t.shown[from]) {
		from++
	}
	return string(t.shown[from:])
}

// hear appends a delta to the text of the current turn.
func (t *Task) hear(delta string) {
	whole := len(t.live) == len(t.shown) // what was said was clean
	t.live = append(t.live, delta...)
	if whole && Clean(delta) == delta {
		t.shown = append(t.shown, delta...)
	} else {
		t.shown, t.version = []byte(Clean(string(t.live))), t.version+1
	}
}

// hush drops the text of the current turn.
func (t *Task) hush() {
	if len(t.live) > 0 {
		t.version++
	}
	t.live, t.shown = nil, nil
}

// Held returns the part of the budget that is reserved for running effects.
func (r *Run) Held() runlog.Amount { return r.reserved }

// Pending returns the nodes of the run's graph that have no task yet, in declared order.
func (r *Run) Pending() []string {
	begun := map[string]bool{}
	for _, t := range r.Tasks {
		if t.Parent == nil {
			begun[t.Node] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(r.Nodes), func(n string) bool { return begun[n] })
}

// Current returns the running tool, or nil if there is none.
func (t *Task) Current() *Tool {
	if len(t.open) == 0 {
		return nil
	}
	return t.open[len(t.open)-1]
}

// Last returns the latest text of the task, including the current turn.
func (t *Task) Last() string {
	if len(t.shown) > 0 {
		return t.Live()
	}
	for i := len(t.Parts) - 1; i >= 0; i-- {
		if t.Parts[i].Kind == Text {
			return t.Parts[i].Text
		}
	}
	return ""
}

// Ended reports whether the task has ended.
func (t *Task) Ended() bool { return t.State != Running && t.State != Waiting }

// AwaitsRun reports whether the task waits for its child run, and for nobody's answer.
func (t *Task) AwaitsRun() bool {
	return t.State == Waiting && t.Run != "" && !slices.ContainsFunc(t.Parts, func(p Part) bool { return p.Question != nil && !p.Question.Answered })
}

// Open returns the open questions.
func (r *Run) Open() []*Question {
	var out []*Question
	for _, q := range r.Questions {
		if !q.Answered {
			out = append(out, q)
		}
	}
	return out
}

// Waits reports whether an executing run only waits for answers.
func (r *Run) Waits() bool {
	return r.Status == runlog.Running && r.asking > 0 && r.Time.since.IsZero()
}

// AwaitsMessage reports whether a run only waits for the next message of a conversation, so that no user needs to act.
func (r *Run) AwaitsMessage() bool {
	open := r.Open()
	return r.Short == nil && len(open) > 0 && !slices.ContainsFunc(open, func(q *Question) bool { return q.Kind != runlog.QuestionMessage })
}

// Last returns the time of the last record.
func (r *Run) Last() time.Time { return r.last }

// Active returns the running and waiting tasks, in the order of their first records.
func (r *Run) Active() []*Task {
	var out []*Task
	for _, t := range r.Tasks {
		if !t.Ended() {
			out = append(out, t)
		}
	}
	return out
}

// Step returns the superstep with that number, or nil if there is none.
func (r *Run) Step(n int) *Step {
	if n < 0 || n >= len(r.Steps) {
		return nil
	}
	return r.Steps[n]
}

// Task returns the task at that path, or nil if there is none.
func (r *Run) Task(path string) *Task { return r.paths[path] }

// End sets the final status of a run if its log does not show it, because the run was interrupted or its graph was run without an engine. A quarantined
// run counts as interrupted. End changes nothing if the status is Running.
func (r *Run) End(status runlog.Status) {
	if status == runlog.Quarantined {
		status = runlog.Interrupted
	}
	if r.Status == runlog.Running && status != runlog.Running {
		r.halt(status, r.last)
	}
}
