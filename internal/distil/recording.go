package distil

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"

	delegate "github.com/superstep-dev/superstep/internal/builtin/agent"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
)

// maxRead is the number of bytes of a log that are kept at most.
const maxRead = 256 << 20

// A Recording is the content of the log of a completed run.
type Recording struct {
	started  runlog.RunStarted
	finished runlog.RunFinished
	scopes   map[string]*scope
	order    []*effect // all that settled
	done     map[string]json.RawMessage
	answers  []answer
	units    []*unit
}

// scope holds what happened at one path of the log.
type scope struct {
	effects map[string]*effect // the last of each key
	changes map[string]bool    // those that were intended first: they are not pure
}

type effect struct {
	runlog.Settled
	path string
	seq  uint64
}

// answer is a user's answer to a question of an agent.
type answer struct {
	question, text string
	seq            uint64
}

type unitKind uint8

const (
	agentUnit unitKind = iota
	toolUnit
	flowUnit
	funcUnit // a function of a program, which no recipe can call
)

// unit is a part of the run that may become a step.
type unit struct {
	kind    unitKind
	name    string // of the agent, the tool or the workflow
	model   string // that a recipe asked for
	prompt  string
	args    json.RawMessage
	said    string          // by the agent at last; the text of a tool
	value   json.RawMessage // what a step would give: a JSON value
	schema  json.RawMessage // what it had to fit
	about   string          // the same in a few words
	path    string
	label   string // what its step is called, if nothing else is
	asked   uint64 // the record before which everything it was told was known
	ended   uint64 // the record from which on it was known
	changes bool   // it is not pure
	told    bool   // the value is what an agent was told of it
	failed  string
}

// An UnfitError explains why no recipe can be made of a run.
type UnfitError struct{ Why string }

func (e *UnfitError) Error() string { return "no recipe can be made of this run: " + e.Why }

// FailureCode returns the code for programs.
func (e *UnfitError) FailureCode() string { return "usage" }

func unfit(format string, args ...any) error { return &UnfitError{fmt.Sprintf(format, args...)} }

// Read reads the log of a run. If the run has not completed, or only in part, the error is an
// *UnfitError.
func Read(records iter.Seq2[runlog.Record, error]) (*Recording, error) {
	r := &Recording{scopes: map[string]*scope{}, done: map[string]json.RawMessage{}}
	var last runlog.Kind
	size := 0
	asked := map[string]string{}
	for rec, err := range records {
		if err != nil {
			return nil, err
		}
		if err := r.take(&rec, asked); err != nil {
			return nil, fmt.Errorf("record %d: %w", rec.Seq, err)
		}
		if strings.HasPrefix(string(rec.Kind), "run.") {
			last = rec.Kind
		}
		if size += rec.Size(); size > maxRead {
			return nil, unfit("its log is over %d MiB", maxRead>>20)
		}
	}
	switch {
	case last == "":
		return nil, unfit("it has no records")
	case last != runlog.KindRunFinished:
		return nil, unfit("it has not completed (the last there is of it: %s); finish it with `runs resume`, or take another", last)
	case r.started.Parent != "":
		return nil, unfit("it is a fork of run %s, and its log does not have what was done before; take a run from its beginning", r.started.Parent)
	case len(r.finished.Skipped) > 0:
		return nil, unfit("it is partial, these failed in it: %s; take a run in which everything went well", strings.Join(r.finished.Skipped, ", "))
	}
	if r.started.Workflow == delegate.Name {
		return r, r.readChat()
	}
	return r, r.readGraph()
}

func (r *Recording) at(path string) *scope {
	s := r.scopes[path]
	if s == nil {
		s = &scope{effects: map[string]*effect{}, changes: map[string]bool{}}
		r.scopes[path] = s
	}
	return s
}

func (r *Recording) take(rec *runlog.Record, asked map[string]string) error {
	switch rec.Kind {
	case runlog.KindRunStarted:
		return json.Unmarshal(rec.Data, &r.started)
	case runlog.KindRunFinished:
		r.finished = runlog.RunFinished{}
		return json.Unmarshal(rec.Data, &r.finished)
	case runlog.KindTaskDone:
		var d runlog.TaskDone
		if err := d.Parse(rec.Data); err != nil {
			return err
		}
		r.done[rec.Path] = d.Update
	case runlog.KindIntended:
		var d runlog.Intended
		if err := json.Unmarshal(rec.Data, &d); err != nil {
			return err
		}
		s := r.at(rec.Path)
		s.changes[d.Key] = true
		if e := s.effects[d.Key]; e == nil || e.Error != "" {
			s.effects[d.Key] = &effect{Settled: runlog.Settled{Key: d.Key, Kind: d.Kind, Name: d.Name, Input: d.Input, Error: "it has no outcome"},
				path: rec.Path, seq: rec.Seq}
		}
	case runlog.KindSettled:
		e := &effect{path: rec.Path, seq: rec.Seq}
		if err := json.Unmarshal(rec.Data, &e.Settled); err != nil {
			return err
		}
		s := r.at(rec.Path)
		if before := s.effects[e.Key]; before != nil && e.Input == nil {
			e.Input = before.Input
		}
		s.effects[e.Key] = e
		r.order = append(r.order, e)
	case runlog.KindAsked:
		var d runlog.Question
		if err := json.Unmarshal(rec.Data, &d); err != nil {
			return err
		}
		asked[rec.Path+" "+d.Key] = d.Text
	case runlog.KindAnswered:
		var d runlog.Answer
		if err := json.Unmarshal(rec.Data, &d); err != nil {
			return err
		}
		if s, ok := plain(d.Value); ok && !strings.Contains(d.Key, "/") && d.Key != "gate" { // and not whether an agent may do something
			r.answers = append(r.answers, answer{asked[rec.Path+" "+d.Key], s, rec.Seq})
		}
	}
	return nil
}

// plain returns a JSON string as plain text.
func plain(raw json.RawMessage) (string, bool) {
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return "", false
	}
	return s, true
}

func quoted(s string) json.RawMessage { return compact(s) }

// compact returns a value in the form in which templates insert it into texts.
func compact(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return json.RawMessage("null")
	}
	return bytes.TrimSpace(b.Bytes())
}

// lead is the path of the agent that leads a chat.
const lead = "work"

// The tools of a lead that do not become steps.
var notSteps = []string{"task", "task_batch", delegate.RunTool, delegate.CollectTool, delegate.SaveTool, "ask_user"}

// readChat reads a run of the workflow "agent": the work that its lead delegated or did itself.
func (r *Recording) readChat() error {
	at := r.at(lead)
	for _, e := range r.order {
		var turn, call int
		if e.path != lead || e.Kind != "tool" || at.effects[e.Key] != e {
			continue
		}
		if n, err := fmt.Sscanf(e.Key, "turn-%d/call-%d", &turn, &call); n != 2 || err != nil {
			continue
		}
		said := at.effects[fmt.Sprintf("turn-%d", turn)]
		if said == nil {
			return fmt.Errorf("the log has no turn %d of the agent", turn)
		}
		var res tool.Result
		if err := json.Unmarshal(orNull(e.Output), &res); err != nil {
			return fmt.Errorf("%s %s: %w", e.path, e.Key, err)
		}
		u := &unit{kind: toolUnit, name: e.Name, args: e.Input, said: res.Text, value: quoted(res.Text), path: e.path + "/" + e.Key, asked: said.seq,
			ended: e.seq, changes: at.changes[e.Key]}
		if u.failed = e.Error; res.Error {
			u.failed = res.Text
		}
		place := fmt.Sprintf("%d.%d", turn+1, call+1)
		switch {
		case e.Name == "task" || e.Name == "task_batch":
			r.delegated(e, u, fmt.Sprintf("%s/%s[%s]", lead, e.Name, place))
		case e.Name == delegate.RunTool:
			r.ran(u, fmt.Sprintf("%s/%s[%s]", lead, e.Name, place))
		case !slices.Contains(notSteps, e.Name):
			r.units = append(r.units, u)
		}
	}
	return nil
}

func orNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return raw
}

// asked is a task as a lead assigned it.
type asked struct{ Agent, Prompt, Description string }

// delegated collects the work that a call of a lead delegated.
func (r *Recording) delegated(e *effect, call *unit, path string) {
	var in struct {
		asked
		Tasks []asked
	}
	if json.Unmarshal(orNull(e.Input), &in) != nil {
		return // it was turned down, and nobody worked
	}
	tasks := in.Tasks
	if e.Name == "task" {
		tasks = []asked{in.asked}
	}
	for i, t := range tasks {
		u := &unit{
			kind: agentUnit, name: t.Agent, prompt: t.Prompt, about: t.Description, path: fmt.Sprintf("%s, task %d", path, i+1),
			asked: call.asked, ended: call.ended, failed: "it was not begun",
		}
		for _, job := range r.at(path).effects {
			if job.Kind != "job" || e.Name == "task_batch" && !strings.HasSuffix(job.Key, fmt.Sprintf("[%d]", i+1)) {
				continue
			}
			var out struct {
				ID      string
				Success bool
				Output  string
				Error   string
			}
			if json.Unmarshal(orNull(job.Output), &out) != nil {
				continue
			}
			u.path, u.said, u.value, u.failed = out.ID, out.Output, quoted(out.Output), out.Error
			if !out.Success && u.failed == "" {
				u.failed = "it failed"
			}
		}
		r.units = append(r.units, u)
	}
}

// ran collects a workflow that a lead ran, directly or in the background.
func (r *Recording) ran(u *unit, path string) {
	var in struct {
		Name       string
		Inputs     json.RawMessage
		Background bool
	}
	if json.Unmarshal(orNull(u.args), &in) != nil || strings.TrimSpace(in.Name) == "" {
		return // it looked what there is
	}
	u.kind, u.name, u.args = flowUnit, strings.TrimSpace(in.Name), in.Inputs
	u.changes, u.told = false, true
	if v := decoded(json.RawMessage(u.said)); v != nil && string(compact(v)) == u.said { // an agent is told what is no text as JSON
		u.value, u.told = json.RawMessage(u.said), false
	}
	if in.Background && u.failed == "" {
		u.failed = "its result was not collected"
		for _, e := range r.at(lead).effects {
			var start struct{ Handle, Call string }
			if !strings.HasPrefix(e.Key, "background/") || json.Unmarshal(orNull(e.Output), &start) != nil || start.Call != path {
				continue
			}
			job := r.at(lead).effects["job/~["+start.Handle+"]"]
			var out struct {
				Success bool
				Output  json.RawMessage
				Error   string
			}
			if job == nil || json.Unmarshal(orNull(job.Output), &out) != nil {
				continue
			}
			u.ended, u.failed, u.value = job.seq, out.Error, orNull(out.Output)
			if c := r.at(lead).effects["collected/"+start.Handle]; c != nil {
				u.ended = c.seq
			}
			u.said, u.told = textOf(u.value), false
		}
	}
	r.units = append(r.units, u)
}

// textOf returns a value in the form in which a template inserts it into a text.
func textOf(value json.RawMessage) string {
	if s, ok := plain(value); ok {
		return s
	}
	if len(value) == 0 || string(value) == "null" {
		return ""
	}
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return string(value)
	}
	return string(compact(v))
}

// readGraph reads the tasks of a run of a graph or of a recipe. Work delegated by an agent counts
// as its own.
func (r *Recording) readGraph() error {
	agents := map[string][]string{} // the prefixes of the keys of the agents at a path
	for _, e := range r.order {
		if e.Kind == "agent" && strings.HasSuffix("/"+e.Key, "/agent") {
			agents[e.path] = append(agents[e.path], strings.TrimSuffix(e.Key, "agent"))
		}
	}
	within := func(path string) bool {
		for i := strings.LastIndexByte(path, '/'); i > 0; i = strings.LastIndexByte(path[:i], '/') {
			if agents[path[:i]] != nil {
				return true
			}
		}
		return false
	}
	known := r.recipeSteps()
	for _, e := range r.order {
		if within(e.path) || r.at(e.path).effects[e.Key] != e {
			continue
		}
		var u *unit
		var err error
		switch {
		case e.Kind == "agent" && strings.HasSuffix("/"+e.Key, "/agent"):
			u, err = r.worked(e)
		case e.Kind == "tool" && !slices.ContainsFunc(agents[e.path], func(p string) bool { return strings.HasPrefix(e.Key, p+"turn-") }):
			u = r.called(e)
		}
		if err != nil {
			return err
		}
		if u == nil {
			continue
		}
		u.label = stem(e.path)
		r.settle(u, known)
		r.units = append(r.units, u)
	}
	return nil
}

// worked returns the work of a task's agent.
func (r *Recording) worked(e *effect) (*unit, error) {
	var s struct{ Agent, Prompt string } // of what the record says, see made.go of package agent
	if err := json.Unmarshal(orNull(e.Input), &s); err != nil {
		return nil, fmt.Errorf("%s: %w", e.path, err)
	}
	prefix := strings.TrimSuffix(e.Key, "agent")
	u := &unit{kind: agentUnit, name: s.Agent, prompt: s.Prompt, path: e.path, asked: e.seq, ended: e.seq}
	at := r.at(e.path)
	var resp model.Response
	for n := 0; ; n++ {
		turn := at.effects[fmt.Sprintf("%sturn-%d", prefix, n)]
		if turn == nil {
			break
		}
		u.ended, u.failed = turn.seq, turn.Error
		if turn.Error != "" {
			continue
		}
		resp = model.Response{}
		if err := json.Unmarshal(orNull(turn.Output), &resp); err != nil {
			return nil, fmt.Errorf("%s %s: %w", e.path, turn.Key, err)
		}
		if text := resp.Message.Text(); text != "" {
			u.said = text
		}
	}
	u.value = quoted(u.said)
	switch calls := resp.Message.Calls(); {
	case at.effects[prefix+"spent"] != nil:
		u.failed = "it came to nothing"
	case len(calls) > 0: // it ended by calling the tool for that
		args := calls[len(calls)-1].Args
		u.said, u.value, u.schema = string(args), args, json.RawMessage(`{"type":"object"}`)
	}
	return u, nil
}

// called returns the work of a task's tool.
func (r *Recording) called(e *effect) *unit {
	u := &unit{kind: toolUnit, name: e.Name, args: e.Input, path: e.path, asked: e.seq - 1, ended: e.seq, changes: r.at(e.path).changes[e.Key], failed: e.Error}
	if !strings.Contains(e.Key, "turn-") {
		u.kind, u.value, u.said = funcUnit, orNull(e.Output), textOf(e.Output)
		return u
	}
	var res tool.Result
	if json.Unmarshal(orNull(e.Output), &res) == nil {
		u.said, u.value = res.Text, quoted(res.Text)
		if res.Error {
			u.failed = res.Text
		}
	}
	return u
}

// stem returns the name of the node of a path.
func stem(path string) string {
	path = path[strings.LastIndexByte(path, '/')+1:]
	if i := strings.IndexAny(path, "[#"); i > 0 {
		path = path[:i]
	}
	return path
}
