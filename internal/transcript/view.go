package transcript

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
)

// WireVersion is the version of the wire format for programs that show a run without folding its records.
const WireVersion = 2

// A Change is one line of the wire format. A snapshot sets Type, V, Seq and Rev and is followed by as many puts as it announces. A put replaces one item
// by its current state, a drop removes a part if the reader has it, and a tail appends to the text of a model. A thing that has not changed is not repeated.
type Change struct {
	Type string `json:"type"` // snapshot, put, drop or tail
	V    int    `json:"v,omitempty"`
	Seq  uint64 `json:"seq,omitempty"` // of the last stored record in it
	Rev  uint64 `json:"rev"`
	Puts int    `json:"puts,omitempty"`

	Run      *RunView  `json:"run,omitempty"`
	Nodes    []string  `json:"nodes,omitempty"` // of the run's graph, in declared order; those without a task are pending
	Step     *StepView `json:"step,omitempty"`
	Task     *TaskView `json:"task,omitempty"`
	Part     *PartView `json:"part,omitempty"`
	Question *Question `json:"question,omitempty"`
	Denied   *Denial   `json:"denied,omitempty"` // one more

	Path string `json:"path,omitempty"` // of a tail or a drop: the task
	ID   string `json:"id,omitempty"`   // of a drop: the part, "" for all of the task
	At   int    `json:"at,omitempty"`   // of a tail: how much of the turn came before, in UTF-16 code units, as JavaScript counts
	Text string `json:"text,omitempty"`
}

// A Clock is an execution time that may still grow.
type Clock struct {
	Spent int64      `json:"spent_ms"`
	Since *time.Time `json:"since,omitempty"` // nil while it does not grow
}

func (s Span) clock() Clock {
	c := Clock{Spent: s.spent.Milliseconds()}
	if !s.since.IsZero() {
		c.Since = &s.since
	}
	return c
}

// A RunView is a run without its supersteps and tasks. It has no list that grows while the run executes.
type RunView struct {
	Workflow string              `json:"workflow"`
	Title    string              `json:"title,omitempty"`
	Status   runlog.Status       `json:"status"`
	Started  time.Time           `json:"started"`
	Ended    *time.Time          `json:"ended,omitempty"`
	Time     Clock               `json:"time"`
	Usage    model.Usage         `json:"usage"`
	Agents   int                 `json:"agents"`
	Cost     *Cost               `json:"cost,omitempty"` // nil if it is not known
	Budget   *runlog.Budget      `json:"budget,omitempty"`
	Spent    runlog.Amount       `json:"spent"`
	Held     runlog.Amount       `json:"held"` // set aside for what is under way
	Retries  int                 `json:"retries,omitempty"`
	Parent   string              `json:"parent,omitempty"`
	At       uint64              `json:"at,omitempty"`
	Failed   []string            `json:"failed,omitempty"`
	Degraded []string            `json:"degraded,omitempty"`
	Output   json.RawMessage     `json:"output,omitempty"`
	Error    string              `json:"error,omitempty"`
	Code     string              `json:"code,omitempty"`
	By       string              `json:"by,omitempty"`
	Waits    *Wait               `json:"waits,omitempty"` // nil while it moves
	Short    *runlog.BudgetError `json:"short,omitempty"`
}

// A Cost is what models cost, in millionths of a US dollar.
type Cost struct {
	Micros int64 `json:"micros"`
	More   bool  `json:"more,omitempty"` // a model that tells no price is not counted
}

// A StepView is a superstep without its tasks, which name it.
type StepView struct {
	Number  int            `json:"number"`
	Done    bool           `json:"done,omitempty"`
	Time    Clock          `json:"time"`
	Planned map[string]int `json:"planned,omitempty"`
}

// A TaskView is a task without its parts.
type TaskView struct {
	Path     string        `json:"path"`
	Label    string        `json:"label"`
	Node     string        `json:"node"`
	Key      string        `json:"key,omitempty"`
	Step     int           `json:"step"`
	State    State         `json:"state"`
	Parent   string        `json:"parent,omitempty"`
	Depth    int           `json:"depth,omitempty"`
	Order    int           `json:"order,omitempty"`
	Queued   bool          `json:"queued,omitempty"`
	RetryAt  *time.Time    `json:"retry_at,omitempty"`
	Limit    string        `json:"limit,omitempty"` // the provider whose rate limit it waits for
	Attempt  int           `json:"attempt"`
	Error    string        `json:"error,omitempty"`
	Why      string        `json:"why,omitempty"`
	Bad      []string      `json:"on_error_input,omitempty"`
	Run      string        `json:"run,omitempty"`
	Agents   []AgentView   `json:"agents,omitempty"`
	Thinking bool          `json:"thinking,omitempty"`
	Doing    string        `json:"doing,omitempty"` // the tool that is running, with its argument
	Usage    model.Usage   `json:"usage"`
	Cost     *Cost         `json:"cost,omitempty"`
	Tools    int           `json:"tools,omitempty"`
	Dropped  int           `json:"dropped,omitempty"`
	Todos    []Todo        `json:"todos,omitempty"`
	Time     Clock         `json:"time"`
	Progress *ProgressView `json:"progress,omitempty"`
}

// A ProgressView is a Progress.
type ProgressView struct {
	Text string `json:"text,omitempty"`
	Done int64  `json:"done"`
	All  int64  `json:"all"`
}

// An AgentView is an agent.
type AgentView struct {
	Name   string      `json:"name"`
	Title  string      `json:"title,omitempty"`
	Prompt string      `json:"prompt,omitempty"`
	Model  string      `json:"model,omitempty"`
	Effort string      `json:"effort,omitempty"`
	First  int64       `json:"first_ms,omitempty"` // of its last turn
	Turns  int         `json:"turns"`
	Calls  int         `json:"calls"`
	Usage  model.Usage `json:"usage"`
	Cost   *Cost       `json:"cost,omitempty"`
	Used   int         `json:"context_used,omitempty"`
	Window int         `json:"context_window,omitempty"`
}

// A PartView is a part.
type PartView struct {
	Task   string          `json:"task"`
	ID     string          `json:"id"`
	Kind   PartKind        `json:"kind"`
	Text   string          `json:"text,omitempty"`
	Cut    bool            `json:"cut,omitempty"`
	First  int64           `json:"first_ms,omitempty"` // to the first token of the turn that it begins
	Agent  string          `json:"agent,omitempty"`
	Tool   string          `json:"tool,omitempty"`
	Key    string          `json:"key,omitempty"` // of the effect, or of the question
	Arg    string          `json:"arg,omitempty"`
	Input  json.RawMessage `json:"input,omitempty"`
	State  State           `json:"state,omitempty"`
	Result string          `json:"result,omitempty"`
	Time   *Clock          `json:"time,omitempty"`
	Child  string          `json:"child,omitempty"` // the task of the agent that a call has had work
}

// Title returns the first line of the agent's assignment, cut to 60 letters.
func (a *Agent) Title() string {
	line := []rune(Line(firstLine(a.Prompt)))
	if len(line) > 60 {
		return string(line[:59]) + "…"
	}
	return string(line)
}

func firstLine(s string) string {
	for line := range strings.SplitSeq(s, "\n") {
		if strings.TrimSpace(line) != "" {
			return line
		}
	}
	return ""
}

func cost(spent runlog.Amount, unpriced bool) *Cost {
	if unpriced && spent.Money == 0 {
		return nil
	}
	return &Cost{spent.Money, unpriced}
}

// Cost returns the cost of the run so far, or nil if it is not known.
func (r *Run) Cost() *Cost { return cost(r.Spent, r.Unpriced) }

// Cost is what the agent has cost so far, nil if that is not known.
func (a *Agent) Cost() *Cost { return cost(a.Spent, !a.Priced && a.Spent.Tokens > 0) }

// String returns the cost as people read it: a dash if it is not known, and a plus behind one that lacks something.
func (c *Cost) String() string {
	switch {
	case c == nil:
		return "–"
	case c.More:
		return inwords.Dollars(c.Micros) + "+"
	}
	return inwords.Dollars(c.Micros)
}

func optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func (r *Run) view() *RunView {
	v := &RunView{
		Workflow: r.Workflow, Title: r.Title, Status: r.Status, Started: r.Started, Ended: optional(r.Ended), Time: r.Time.clock(), Usage: r.Usage,
		Agents: len(r.Agents), Cost: r.Cost(), Spent: r.Spent, Held: r.Held(), Retries: r.Retries, Parent: r.Parent, At: r.At,
		Failed: r.Failed, Degraded: r.Degraded, Output: r.Output, Error: r.Error, Code: r.Code,
		By: r.By, Waits: r.Wait(), Short: r.Short,
	}
	if r.Budget != (runlog.Budget{}) {
		budget := r.Budget // a feed keeps the view
		v.Budget = &budget
	}
	return v
}

func (s *Step) view() *StepView { return &StepView{s.Number, s.Done, s.Time.clock(), s.Planned} }

func (t *Task) view() *TaskView {
	v := &TaskView{
		Path: t.Path, Label: t.Label(), Node: t.Node, Key: t.Key, Step: t.Step, State: t.State, Depth: t.Depth, Order: t.Order, Queued: t.Queued,
		RetryAt: optional(t.RetryAt), Limit: t.Limit, Attempt: t.Attempt, Error: t.Error, Why: t.Why, Bad: t.Bad, Run: t.Run, Thinking: t.Thinking, Usage: t.Usage,
		Cost: cost(t.Spent, t.Unpriced), Tools: t.Tools, Dropped: t.Dropped, Todos: t.Todos, Time: t.Time.clock(),
	}
	if t.Parent != nil {
		v.Parent = t.Parent.Path
	}
	if u := t.Current(); u != nil {
		v.Doing = u.Name + " " + u.Arg
	}
	if p := t.Progress; p != nil {
		v.Progress = &ProgressView{p.Text, p.Done, p.All}
	}
	for _, a := range t.Agents {
		v.Agents = append(v.Agents, AgentView{
			Name: a.Name, Title: a.Title(), Prompt: a.Prompt, Model: a.Model, Effort: a.Effort, First: a.First.Milliseconds(), Turns: a.Turns, Calls: a.Called, Usage: a.Usage,
			Cost: a.Cost(), Used: a.Used, Window: a.Window,
		})
	}
	return v
}

func (t *Task) partView(p *Part) *PartView {
	v := &PartView{Task: t.Path, ID: p.ID, Kind: p.Kind, Text: p.Text, Cut: p.Cut, First: p.First.Milliseconds(), Agent: p.Agent}
	if q := p.Question; q != nil {
		v.Key = q.Key
	}
	if u := p.Tool; u != nil {
		c := u.Time.clock()
		v.Key, v.Tool, v.Arg, v.Input, v.State, v.Result, v.Time = u.Key, u.Name, u.Arg, u.Input, u.State, u.Result, &c
		if u.Child != nil {
			v.Child = u.Child.Path
		}
	}
	return v
}

// A Feed turns a fold into changes for one reader. The first change of the zero value is a snapshot. A call of Next costs what has changed since the last.
type Feed struct {
	rev    uint64
	begun  bool
	run    *RunView        // as it was given last
	denied int             // how many of Run.Denied were given
	said   map[string]said // of the turns under way, by path
}

// said records how much of a task's current turn a reader has: the number of bytes of one version of it, and of UTF-16 code units.
type said struct{ version, bytes, units int }

// Next returns the changes since the last call, none if nothing has changed.
func (f *Feed) Next(r *Run) []Change {
	if f.begun && f.rev == r.Rev {
		return nil
	}
	var out []Change
	put := func(c Change) {
		c.Type = "put"
		out = append(out, c)
	}
	if v := r.view(); f.run == nil || !reflect.DeepEqual(f.run, v) {
		f.run = v
		put(Change{Run: v})
	}
	if r.Nodes != nil && (!f.begun || r.changed.nodes > f.rev) {
		put(Change{Nodes: r.Nodes})
	}
	steps, tasks, questions := r.Steps, r.Tasks, r.Questions
	if f.begun {
		steps = r.changed.steps.since(f.rev)
		tasks = r.changed.tasks.since(f.rev)
		questions = nil
		for _, e := range since(r.changed.questions, f.rev) {
			questions = append(questions, e.what)
		}
	}
	for _, s := range steps {
		put(Change{Step: s.view()})
	}
	for _, t := range tasks {
		if !f.begun || t.viewed > f.rev {
			put(Change{Task: t.view()})
		}
		out = f.partsOf(t, out)
		out = f.tail(t, out)
	}
	for _, q := range questions {
		put(Change{Question: q})
	}
	for ; f.denied < len(r.Denied); f.denied++ {
		put(Change{Denied: &r.Denied[f.denied]})
	}
	for i := range out {
		out[i].Seq, out[i].Rev = r.Seq, r.Rev
	}
	if !f.begun {
		out = slices.Insert(out, 0, Change{Type: "snapshot", V: WireVersion, Seq: r.Seq, Rev: r.Rev, Puts: len(out)})
	}
	f.begun, f.rev = true, r.Rev
	return out
}

func (f *Feed) partsOf(t *Task, out []Change) []Change {
	if !f.begun {
		for i := range t.Parts {
			out = append(out, Change{Type: "put", Part: t.partView(&t.Parts[i])})
		}
		return out
	}
	if t.cleared > f.rev {
		out = append(out, Change{Type: "drop", Path: t.Path})
	}
	entries := since(t.parts, f.rev)
	for i, e := range entries {
		if slices.ContainsFunc(entries[i+1:], func(later entry[string]) bool { return later.what == e.what }) {
			continue
		}
		if p := t.part(e.what); p != nil {
			out = append(out, Change{Type: "put", Part: t.partView(p)})
		} else {
			out = append(out, Change{Type: "drop", Path: t.Path, ID: e.what})
		}
	}
	return out
}

// part returns the part with an ID, nil if there is none. What changes is mostly near the end.
func (t *Task) part(id string) *Part {
	for i := len(t.Parts) - 1; i >= 0; i-- {
		if t.Parts[i].ID == id {
			return &t.Parts[i]
		}
	}
	return nil
}

// tail adds the text that the current turn gained since the last call. If it is another turn or its text was replaced, tail adds all of it, with At 0.
func (f *Feed) tail(t *Task, out []Change) []Change {
	was := f.said[t.Path]
	if was.version == t.version && was.bytes == len(t.shown) {
		return out
	}
	if was.version != t.version {
		was.bytes, was.units = 0, 0
	}
	text := string(t.shown[was.bytes:])
	if f.said == nil {
		f.said = map[string]said{}
	}
	f.said[t.Path] = said{t.version, len(t.shown), was.units + len(utf16.Encode([]rune(text)))}
	if !f.begun && text == "" {
		return out
	}
	return append(out, Change{Type: "tail", Path: t.Path, At: was.units, Text: text})
}

// A Wait is the reason why a run makes no progress.
type Wait struct {
	What  string     `json:"what"`            // person, message, budget, rate_limit, retry, date, storage, operator or worker
	Until *time.Time `json:"until,omitempty"` // of a rate limit, or before which no worker takes it
	Place []string   `json:"place,omitempty"` // the labels that the worker must have
}

// Wait returns the reason why the run makes no progress, or nil if it does or has ended.
func (r *Run) Wait() *Wait {
	switch {
	case r.Status.Ended() || r.Status == runlog.Failed || r.Status == "":
		return nil
	case r.Status == runlog.WaitingStorage:
		return &Wait{What: "storage"}
	case r.Status == runlog.Interrupted, r.Status == runlog.Queued:
		return &Wait{What: "worker", Place: r.needs}
	case r.Short != nil:
		return &Wait{What: "budget"}
	case r.Status == runlog.Paused && r.asking == 0:
		return &Wait{What: "operator"}
	case r.Status == runlog.Paused || r.Waits():
		return &Wait{What: "person"}
	}
	if r.leaves == 0 || r.retrying < r.leaves {
		return nil
	}
	var until time.Time
	what := ""
	for _, t := range r.Tasks {
		if t.retries && (until.IsZero() || t.RetryAt.Before(until)) {
			until = t.RetryAt
			switch what = "date"; {
			case t.Limit != "":
				what = "rate_limit"
			case t.Attempt > 1 || t.Trouble != "":
				what = "retry"
			}
		}
	}
	return &Wait{What: what, Until: &until}
}

// Compare orders tasks as declared: by superstep, then by the order of nodes and of sends, then by path.
func (r *Run) Compare(a, b *Task) int {
	node := func(t *Task) int { return slices.Index(r.Nodes, Top(t.Path)) }
	return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(node(a), node(b)), cmp.Compare(a.Order, b.Order), byNumber(a.Path, b.Path))
}

// byNumber compares texts in which numbers count as such.
func byNumber(a, b string) int {
	digits := func(s string) int { return len(s) - len(strings.TrimLeft(s, "0123456789")) }
	for a != "" && b != "" {
		m, n := digits(a), digits(b)
		if m > 0 && n > 0 {
			x, y := strings.TrimLeft(a[:m], "0"), strings.TrimLeft(b[:n], "0")
			if c := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y), cmp.Compare(m, n)); c != 0 {
				return c
			}
		} else if m, n = 1, 1; a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[m:], b[n:]
	}
	return cmp.Compare(len(a), len(b))
}
