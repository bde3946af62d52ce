package runlog

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"
)

// The payloads below are the Data of the record kinds of the same name. They are the
// stored format, like the frame: a field may be added, none is renamed or reused.

// RunStarted opens a log.
type RunStarted struct {
	Workflow string          `json:"workflow"`
	Inputs   json.RawMessage `json:"inputs,omitempty"`  // as the user gave them, an object
	Pinned   json.RawMessage `json:"pinned,omitempty"`  // what the run is made of, of a workflow that may change before the run has ended
	Engine   string          `json:"engine,omitempty"`  // the version of superstep
	Sandbox  string          `json:"sandbox,omitempty"` // what bounds the commands that it starts; "" if it is not known
	Title    string          `json:"title,omitempty"`
	Parent   string          `json:"parent,omitempty"`         // of a fork: the run that it goes on from,
	At       uint64          `json:"at,omitempty"`             // and the record of it that was the last
	Budget   *Budget         `json:"budget,omitempty"`         // nil for no limit
	Child    *Child          `json:"child,omitempty"`          // of a run that a task of another run waits for
	Every    int             `json:"snapshot_every,omitempty"` // supersteps; 0 for snapshots by growth alone
	Imported *Imported       `json:"imported,omitempty"`       // of a run that was made of a file, and of its forks
	Timed    bool            `json:"timed,omitempty"`          // records say how long things took; one that does not took less than a millisecond
	Queue    *Queue          `json:"queue,omitempty"`          // of a run that began queued
	Folder   string          `json:"project,omitempty"`        // the project that it was started in, "" if it is not known
	Trace    string          `json:"trace,omitempty"`          // the traceparent of who started the run: its spans belong to that trace
}

// RunResumed reports that a process resumed the run.
type RunResumed struct {
	Owner   string  `json:"owner,omitempty"`
	Sandbox string  `json:"sandbox,omitempty"` // see RunStarted
	Budget  *Budget `json:"budget,omitempty"`  // in place of the one before; nil for no change
	Timed   bool    `json:"timed,omitempty"`   // see RunStarted
}

// RunPaused reports that nothing moves until a question is answered, or until the run is
// resumed with a larger budget.
type RunPaused struct {
	Waiting []string     `json:"waiting"`              // the paths of the waiting tasks
	Reason  string       `json:"reason,omitempty"`     // why, for people; "" for questions
	Short   *BudgetError `json:"short,omitempty"`      // the limit it has met
	By      string       `json:"by,omitempty"`         // who paused it, "" if nobody did
	Request string       `json:"request_id,omitempty"` // the ID of the request for that, "" if nobody executed the run
	Message bool         `json:"message,omitempty"`    // nothing but the next message of a conversation is waited for

	Waited time.Duration `json:"waited,omitempty"` // as of Answer
}

// RunFailed explains why a run stopped. It can be resumed.
type RunFailed struct {
	Error string   `json:"error"`
	Code  string   `json:"code,omitempty"`  // a stable word for programs: "task", "limit", "denied", …
	Tasks []string `json:"tasks,omitempty"` // the paths of the tasks that failed
}

// RunFinished closes a log.
type RunFinished struct {
	Output  json.RawMessage `json:"output,omitempty"`
	Steps   int             `json:"steps"`
	Skipped []string        `json:"skipped,omitempty"` // the tasks that failed and were skipped: the run is partial
}

// TaskDone is the result of a task: everything that the superstep needs from it. It also stands for
// a task that failed for good and was skipped, with Error set and without an update.
type TaskDone struct {
	Node   string          `json:"node"`
	Key    string          `json:"key,omitempty"`
	Step   int             `json:"step"`
	Update json.RawMessage `json:"update,omitempty"`
	Sends  []TaskSend      `json:"sends,omitempty"`
	Vote   string          `json:"vote,omitempty"` // "" halts; "stay", "complete"
	Error  string          `json:"error,omitempty"`
	Caught bool            `json:"caught,omitempty"` // the failure was sent to a node that takes care of it
	Fixed  string          `json:"fixed,omitempty"`  // the node whose update Fix amends
	Fix    json.RawMessage `json:"fix,omitempty"`
	Inside []string        `json:"inside,omitempty"`    // the paths of tasks that were skipped in graphs inside of it
	Took   int64           `json:"took_ms,omitempty"`   // of its last execution, without Queued; 0 if it is not known
	Queued int64           `json:"queued_ms,omitempty"` // how long that waited for a place
}

// Encode returns the payload as encoded by encoding/json. It does not validate Update again, which
// matters if it is large.
func (d *TaskDone) Encode() (json.RawMessage, error) {
	small, mark := *d, []byte(`,"update":0`) // no string has it: a quote in one is escaped
	if len(d.Update) > 0 {
		small.Update = mark[len(mark)-1:]
	}
	b, err := json.Marshal(&small)
	if err != nil || len(d.Update) == 0 {
		return b, err
	}
	before, after, _ := bytes.Cut(b, mark)
	return slices.Concat(before, mark[:len(mark)-1], d.Update, after), nil
}

// Parse decodes the payload. The update aliases data. It parses the output of Encode without
// examining the update, and leaves any other form to encoding/json.
func (d *TaskDone) Parse(data []byte) error {
	*d = TaskDone{}
	p := parser{b: data}
	p.lit(`{"node":`)
	d.Node = p.str()
	if p.has(`,"key":`) {
		d.Key = p.str()
	}
	p.lit(`,"step":`)
	d.Step = p.num()
	if p.has(`,"update":`) {
		d.Update = p.value()
	}
	if p.has(`,"took_ms":`) {
		d.Took = int64(p.num())
	}
	if p.has("}") && len(p.b) == 0 && !p.bad {
		return nil
	}
	if p.bad || len(p.b) == 0 || p.b[0] != ',' {
		*d = TaskDone{}
		return json.Unmarshal(data, d)
	}
	var rest TaskDone // which is small
	if json.Unmarshal(append([]byte{'{'}, p.b[1:]...), &rest) != nil || rest.Node != "" || rest.Key != "" || rest.Update != nil {
		*d = TaskDone{}
		return json.Unmarshal(data, d)
	}
	rest.Node, rest.Key, rest.Step, rest.Update, rest.Took = d.Node, d.Key, d.Step, d.Update, max(d.Took, rest.Took)
	*d = rest
	return nil
}

// parser parses JSON of the expected simple form.
type parser struct {
	b   []byte
	bad bool
}

func (p *parser) has(s string) bool {
	if len(p.b) < len(s) || string(p.b[:len(s)]) != s {
		return false
	}
	p.b = p.b[len(s):]
	return true
}

func (p *parser) lit(s string) { p.bad = p.bad || !p.has(s) }

// str reads a string without escapes.
func (p *parser) str() string {
	if p.bad = p.bad || len(p.b) == 0 || p.b[0] != '"'; p.bad {
		return ""
	}
	for i, c := range p.b[1:] {
		switch {
		case c == '"':
			s := string(p.b[1 : i+1])
			p.b = p.b[i+2:]
			return s
		case c == '\\' || c < ' ' || c >= 0x7f:
			p.bad = true
			return ""
		}
	}
	p.bad = true
	return ""
}

func (p *parser) num() int {
	n, digits := 0, 0
	for ; digits < len(p.b) && digits < 10 && p.b[digits] >= '0' && p.b[digits] <= '9'; digits++ {
		n = 10*n + int(p.b[digits]-'0')
	}
	p.bad = p.bad || digits == 0 || digits > 1 && p.b[0] == '0'
	p.b = p.b[digits:]
	return n
}

// value reads any value without checking its content.
func (p *parser) value() json.RawMessage {
	depth, quoted := 0, false
	for i := 0; i < len(p.b); i++ {
		c := p.b[i]
		switch {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case (c == ',' || c == '}') && depth == 0:
			v := p.b[:i:i]
			p.bad = p.bad || i == 0
			p.b = p.b[i:]
			return v
		case c == '}' || c == ']':
			depth--
		}
	}
	p.bad = true
	return nil
}

// TaskSend is a message of a task to a node.
type TaskSend struct {
	To     string          `json:"to"`
	Key    string          `json:"key,omitempty"`
	Arg    json.RawMessage `json:"arg,omitempty"`
	Failed bool            `json:"failed,omitempty"` // Arg says how the sender failed
}

// TaskFailed describes a failed attempt.
type TaskFailed struct {
	Node    string `json:"node"`
	Key     string `json:"key,omitempty"`
	Step    int    `json:"step"`
	Attempt int    `json:"attempt"` // from 1
	Error   string `json:"error"`
	Final   bool   `json:"final,omitempty"`   // there is no further attempt
	Late    bool   `json:"late,omitempty"`    // it ran out of time
	Took    int64  `json:"took_ms,omitempty"` // as in TaskDone
	Next    int64  `json:"next_ms,omitempty"` // until the next attempt, 0 if it begins at once or there is none
}

// StepCommitted closes a superstep: the results of its tasks, in path order, are the state.
type StepCommitted struct {
	Step int `json:"step"`
}

// Intended reports that an effect is about to happen.
type Intended struct {
	Key   string          `json:"key"`
	Kind  string          `json:"kind"`
	Name  string          `json:"name,omitempty"`
	Once  bool            `json:"once,omitempty"`
	Hash  string          `json:"hash,omitempty"`  // of what went in
	Input json.RawMessage `json:"input,omitempty"` // what went in, where people want to see it
	Hint  string          `json:"hint,omitempty"`  // what the task was told with it
	Cost  *Amount         `json:"cost,omitempty"`  // what is set aside for it
}

// Settled is the outcome of an effect. An effect that settled without an Error is never performed
// again.
type Settled struct {
	Key    string          `json:"key"`
	Kind   string          `json:"kind"`
	Name   string          `json:"name,omitempty"`
	Hash   string          `json:"hash,omitempty"`
	Input  json.RawMessage `json:"input,omitempty"` // of an effect without an intent
	Output json.RawMessage `json:"output,omitempty"`
	Error  string          `json:"error,omitempty"`
	Hint   string          `json:"hint,omitempty"`
	Spent  *Amount         `json:"spent,omitempty"` // what it did cost
	// Partial is what there was of the output when the effect failed: of a turn of a model, the text and the usage so far.
	Partial json.RawMessage `json:"partial,omitempty"`
	// Interrupted are the requests of users for which a turn of a model was broken off. Output has the text so far.
	Interrupted []string `json:"interrupted,omitempty"`
	Took        int64    `json:"took_ms,omitempty"` // 0 if it is not known
	// First is how long it took to the first output: of a turn of a model, to the first token. It is 0 if that is not known.
	First int64 `json:"first_ms,omitempty"`
}

// A Question is the payload of KindAsked. Its address is the path of its record and Key.
type Question struct {
	Path    string       `json:"-"` // the path of its record
	Key     string       `json:"key"`
	Kind    QuestionKind `json:"kind,omitempty"`
	Text    string       `json:"question"`          // of a permission request one line, for who has no words of their own
	Header  string       `json:"header,omitempty"`  // the subject in a few words, "" for none
	Options []string     `json:"options,omitempty"` // what may be answered; with a Schema, which then decides, what is offered
	// About maps options to their descriptions. Options without a description are left out.
	About      map[string]string `json:"about,omitempty"`
	Default    json.RawMessage   `json:"default,omitempty"`
	Schema     json.RawMessage   `json:"schema,omitempty"`
	Agent      string            `json:"agent,omitempty"`   // who asks, "" for the step itself
	TextOutput bool              `json:"text,omitempty"`    // what the effect gave is text, see Answer.Output
	Call       *QuestionCall     `json:"call,omitempty"`    // of a permission request; absent in logs before there were kinds
	Took       int64             `json:"took_ms,omitempty"` // how long the task has executed before it asked, since it began or asked before
	Run        string            `json:"run,omitempty"`     // of QuestionRun: the run whose end is the answer
}

// QuestionKind is the subject of a question. It is absent in older logs.
type QuestionKind string

// The kinds of questions.
const (
	QuestionAsk        QuestionKind = "ask"        // what a person knows or wants; "" is the same
	QuestionForm       QuestionKind = "form"       // the same, in several fields
	QuestionGate       QuestionKind = "gate"       // whether a step may begin
	QuestionPermission QuestionKind = "permission" // whether a tool may be called
	QuestionUnknown    QuestionKind = "unknown"    // what became of an effect
	QuestionMessage    QuestionKind = "message"    // the next message of a conversation: nothing is wanted of anybody
	QuestionRun        QuestionKind = "run"        // how a child run ends, which is an End: nothing is wanted of anybody
)

// QuestionCall is the tool call of a permission request, as data: each face words it for itself.
type QuestionCall struct {
	Tool    string          `json:"tool"`
	Args    json.RawMessage `json:"args,omitempty"`
	Subject string          `json:"subject,omitempty"` // what the call is about, in full: the command, the path, the address
	Cwd     string          `json:"cwd,omitempty"`     // the absolute folder in which the tool works
	Parts   []QuestionPart  `json:"parts,omitempty"`   // of a command: each simple command, in order
	Rule    string          `json:"rule,omitempty"`    // that asks, as written; "" if no rule is about the call
	Origin  string          `json:"origin,omitempty"`  // where that rule is from
	Reason  string          `json:"reason,omitempty"`  // why the call is asked about
	Always  string          `json:"always,omitempty"`  // the rule that the answers run and always add; "" if only this very call can be allowed
	Diff    string          `json:"diff,omitempty"`    // of a file that is written: the change as a unified diff
	New     bool            `json:"new,omitempty"`     // the file does not exist yet
	Fails   string          `json:"fails,omitempty"`   // why the call would fail as things are
	Larger  int             `json:"larger,omitempty"`  // lines of the diff that are left out, since it is too long
}

// QuestionPart is a part of a call that is decided on separately.
type QuestionPart struct {
	Text    string `json:"text"`
	Allowed bool   `json:"allowed,omitempty"` // that part alone would not be asked about
	Rule    string `json:"rule,omitempty"`
	Origin  string `json:"origin,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// An Answer closes a question, see KindAnswered.
type Answer struct {
	Key    string          `json:"key"`
	Value  json.RawMessage `json:"answer,omitempty"`
	Denied bool            `json:"denied,omitempty"` // nobody may or will answer
	By     string          `json:"by,omitempty"`     // "default", "flag", "person", …
	// Request is the unique ID of an answer that reached the holder of the run as a request.
	Request string `json:"request,omitempty"`
	// of an effect that happened and whose outcome was lost: what it gave. If the question has Text, a string is the text, and other JSON is the text as it is
	Output json.RawMessage `json:"output,omitempty"`
	// Waited is how long before the answer the run did nothing but wait for answers, see Idle of
	// journal.Journal. It does not count as execution time.
	Waited time.Duration `json:"waited,omitempty"`
}

// Event is an event that a task emits.
type Event struct {
	Name string          `json:"name"`
	Data json.RawMessage `json:"data,omitempty"`
}
