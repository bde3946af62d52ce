package compile

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/recipe"
	"github.com/superstep-dev/superstep/internal/strict"
	"github.com/superstep-dev/superstep/journal"
)

// A step writes these events to the log of its task.
const (
	eventErrorInput = "error_input" // it runs on the results of steps that have failed; see errorInput
	eventNotRun     = "not_run"     // it is skipped; see noteData
	eventDegraded   = "degraded"    // it has less to give than was wanted; see noteData
)

// The live-only events of a step that waits for a place. Its execution time is counted from when it
// has a place.
const (
	eventQueued = "task.queued"
	eventWorks  = "task.works"
)

// errorInput is the data of eventErrorInput.
type errorInput struct {
	Steps []string `json:"steps"`
}

// A noteData is the data of the other events.
type noteData struct {
	Why string `json:"why"`
}

// work is a running step: one attempt.
type work struct {
	*play
	step   *recipe.Step
	task   *graph.Task // nil where only its failure is looked at
	state  results
	around *surroundings
	scope  *recipe.Scope

	took  []string // what the values of the step come from, see tool.Call; not nil once it is known
	links []string // the addresses that its text has of the recipe and its inputs
}

// given is the result of a step.
type given struct {
	output   json.RawMessage
	degraded string // why it is less than was wanted, "" if it is not
	failed   bool   // since steps inside of it failed
	ended    string // of a container whose time is up: how much of it is in the output
}

func (w *work) do(ctx context.Context) (update, error) {
	u := update{ID: w.step.ID, Result: recipe.Result{Status: recipe.Done, Bad: w.bad()}}
	why, skips, err := w.skipped()
	if err := cmp.Or(w.decided(ctx), err); err != nil {
		return u, err
	}
	if why != "" {
		u.Status, u.Skips, u.Bad = recipe.Skipped, skips, nil
		return u, w.task.Emit(ctx, eventNotRun, noteData{why})
	}
	if len(u.Bad) > 0 {
		if err := w.tellBad(ctx, errorInput{u.Bad}); err != nil {
			return u, err
		}
	}
	g, err := w.give(ctx)
	if err != nil {
		return u, w.verdict(ctx, err)
	}
	if n := w.step.Retry; g.failed && n != nil && w.task.Attempt() < n.Attempts {
		return u, errors.New(g.degraded)
	}
	u.Output = g.output
	if g.degraded != "" {
		u.Status, u.Error = recipe.Degraded, g.degraded
		return u, w.task.Emit(ctx, eventDegraded, noteData{g.degraded})
	}
	return u, nil
}

// tellBad records that the step reads what has failed: once, however often it runs again because it waits. Older logs have an event of each time.
func (w *work) tellBad(ctx context.Context, bad errorInput) error {
	scope, emit := w.task.Scope(), func(ctx context.Context, _ string) (json.RawMessage, error) {
		return json.RawMessage("{}"), w.task.Emit(ctx, eventErrorInput, bad)
	}
	if !scope.Does(eventErrorInput, true) {
		_, err := emit(ctx, "")
		return err
	}
	_, err := scope.Do(ctx, &journal.Effect{Key: eventErrorInput, Kind: "note", Name: eventErrorInput, Inside: true, Do: emit})
	return err
}

// verdict returns an error in the form for the graph: an error of the run is not treated as a
// failure of the step.
func (w *work) verdict(ctx context.Context, err error) error {
	if journal.Waits(err) || ctx.Err() != nil || !agent.OfRun(err) {
		return err
	}
	return graph.Halt(err)
}

// bad returns the steps read by this one that have failed or are degraded.
func (w *work) bad() []string {
	var out []string
	for _, id := range w.step.Reads {
		if r, ok := w.scope.Step(id); ok && (r.Status == recipe.Failed || r.Status == recipe.Degraded) {
			out = append(out, id)
		}
	}
	return out
}

// skipped returns why the step does not run, or "" if it runs, and whether its dependents are skipped too.
func (w *work) skipped() (why string, skips bool, err error) {
	for _, id := range w.step.DependsOn {
		if r, ok := w.state.find(id); ok && r.Skips && !w.decides(id) {
			return fmt.Sprintf("step %s, which it depends on, has failed or was skipped", id), true, nil
		}
	}
	if w.nothing() {
		return "all that it depends on was skipped", false, nil
	}
	if w.step.When == nil {
		return "", false, nil
	}
	holds, err := w.step.When.Holds(w.tracked())
	if err != nil {
		return "", false, fmt.Errorf("when: %w", err)
	}
	if !holds {
		return "its condition does not hold: " + w.step.When.String(), false, nil
	}
	return "", false, nil
}

// nothing reports whether everything that the step depends on was skipped and its condition reads
// none of it.
func (w *work) nothing() bool {
	for _, id := range w.step.DependsOn {
		if r, ok := w.state.find(id); !ok || r.Status != recipe.Skipped {
			return false
		}
	}
	return len(w.step.DependsOn) > 0 && !slices.ContainsFunc(w.step.DependsOn, w.decides)
}

// decides reports whether the condition of the step refers to a step.
func (w *work) decides(id string) bool {
	return w.step.When != nil && slices.ContainsFunc(w.step.When.Refs(), func(r recipe.Ref) bool { return r.Step() == id })
}

// maxError bounds the text of an error that becomes an output.
const maxError = 8 << 10

// failed returns the result of a step that has no attempts left.
func (w *work) failed(err error) update {
	text := clean.Text(err.Error())
	if len(text) > maxError {
		text = strings.ToValidUTF8(text[:maxError], "") + "…"
	}
	u := update{ID: w.step.ID, Result: recipe.Result{Status: recipe.Failed, Error: text, Skips: w.step.OnError == "skip", Bad: w.bad()}}
	said := fmt.Sprintf("Error: step '%s' failed: %s", w.step.ID, text)
	if late := (*timeoutError)(nil); errors.As(err, &late) || strings.HasPrefix(text, timeoutText) {
		u.Status = recipe.Degraded
		said = fmt.Sprintf("Step '%s' is incomplete: %s. What it would have given is missing here.", w.step.ID, text)
	}
	u.Output, _ = json.Marshal(said)                               // a string encodes
	if own, is := err.(*timeoutError); is && len(own.output) > 0 { //nolint:errorlint // one that it wraps is of a step inside
		u.Output = own.output
	}
	return u
}

// give executes the step once a user has approved it and a place is free, and within its time
// limit.
func (w *work) give(ctx context.Context) (g given, err error) {
	s := w.step
	job, err := w.prepare()
	if err != nil {
		return g, w.quotes(ctx, err)
	}
	if err := w.inherits(ctx); err != nil {
		return g, err
	}
	if s.Gate != nil {
		if err := w.pass(ctx, job); err != nil {
			return g, err
		}
	}
	if job.leaf {
		leave, none := w.slots.take(ctx, w.task)
		if none != nil {
			return g, none
		}
		defer func() {
			if err != nil && ctx.Err() == nil && s.OnError == "fail" && !agent.OfRun(err) && (s.Retry == nil || w.task.Attempt() >= s.Retry.Attempts) {
				w.task.Doom() // before somebody inside of another step is given the place
			}
			leave()
		}()
	}
	if s.Timeout > 0 {
		outer := ctx
		late := &timeoutError{after: s.Timeout}
		limited, stop := w.task.Scope().WithTimeout(outer, s.Timeout, late)
		defer stop()
		defer func() {
			if is, _ := w.task.Scope().Late(limited, w.task.Attempt()); is && outer.Err() == nil && !journal.Waits(err) {
				err = w.incomplete(late, &g)
			}
		}()
		ctx = limited
	}
	if g, err = job.run(ctx); err != nil {
		return g, err
	}
	if s.Output != nil && s.Agent == nil {
		if err := strict.CheckJSON(s.Output, string(orNull(g.output))); err != nil {
			return g, fmt.Errorf("its output does not fit: %w", err)
		}
	}
	return g, nil
}

// incomplete returns the error of an attempt that ran out of time, with what a container has by then. In a replay it has that if the recorded one did:
// older versions threw it away.
func (w *work) incomplete(late *timeoutError, g *given) error {
	some := &timeoutError{late.after, g.ended, g.output}
	was := w.task.Scope().Failed(w.task.Attempt())
	if g.ended == "" || g.output == nil || was != nil && was.Error != some.Error() {
		return late
	}
	return some
}

// job is the work of a step, with all values filled in.
type job struct {
	text string          // what a person may edit at a gate: of an agent and a question
	data json.RawMessage // the same, of a tool and a workflow; nil for none
	leaf bool            // it takes one of the places for running steps
	run  func(ctx context.Context) (given, error)
}

func (w *work) prepare() (*job, error) {
	s := w.step
	j := &job{}
	var err error
	switch {
	case s.Agent != nil:
		j.leaf = true
		j.run = func(ctx context.Context) (given, error) { return w.agent(ctx, j.text) }
		sees := w.tracked()
		if len(w.needs.Tools) > 0 { // what tool steps gave is as it was found
			sees.Clean = clean.Text
		}
		if j.text, err = s.Agent.Prompt.Render(sees); err == nil {
			w.links = w.named(s.Agent.Prompt.Render)
		}
		return j, about("prompt", err)
	case s.Tool != nil:
		j.leaf = true
		j.run = func(ctx context.Context) (given, error) { return w.tool(ctx, j.data) }
		if j.data, err = object(s.Tool.Args, w.tracked()); err == nil && s.Tool.Args != nil {
			w.links = w.named(func(sc *recipe.Scope) (string, error) {
				args, err := s.Tool.Args.Resolve(sc)
				return fmt.Sprintf("%q", args), err
			})
		}
		return j, about("args", err)
	case s.Workflow != nil:
		called := w.bundle.find(s.Workflow.Name)
		j.leaf = called == nil && !s.Workflow.Detached
		j.run = func(ctx context.Context) (given, error) {
			if s.Workflow.Detached {
				return w.detached(ctx, called, j.data)
			}
			if called != nil {
				return w.call(ctx, called, j.data)
			}
			return w.host(ctx, s.Workflow.Name, j.data)
		}
		j.data, err = object(s.Workflow.Inputs, w.tracked())
		return j, about("inputs", err)
	case s.Ask != nil:
		j.run = func(ctx context.Context) (given, error) { return w.ask(ctx, j.text) }
		j.text, err = s.Ask.Question.Render(w.tracked())
		return j, about("ask", err)
	case s.Value != nil:
		j.run = w.value
	case s.Parallel != nil:
		j.run = w.parallel
	case s.Foreach != nil:
		j.run = w.foreach
	default:
		j.run = w.loop
	}
	return j, nil
}

// about names the key of a step that an error is about.
func about(key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", key, err)
}

// object returns a map with its values filled in.
func object(v *recipe.Value, sc *recipe.Scope) (json.RawMessage, error) {
	if v == nil {
		return json.RawMessage("{}"), nil
	}
	x, err := v.Resolve(sc)
	if err != nil {
		return nil, err
	}
	return json.Marshal(x)
}

// seen returns the state that tools receive.
func (w *work) seen() (json.RawMessage, error) { return json.Marshal(w.state) }

// data converts the result of a tool into an output that fits a schema: its JSON value, or else the
// text itself, or its lines if a list is wanted. A nil schema means a text.
func data(s string, wanted *jsonschema.Schema) (json.RawMessage, error) {
	said, err := json.Marshal(s)
	if wanted == nil || err != nil {
		return said, err
	}
	why := strict.CheckJSON(wanted, s)
	if why == nil {
		return json.RawMessage(strings.TrimSpace(s)), nil
	}
	forms := []json.RawMessage{said}
	if !json.Valid([]byte(s)) {
		lines := []string{}
		for line := range strings.Lines(s) {
			lines = append(lines, strings.TrimRight(line, "\r\n"))
		}
		list, err := json.Marshal(lines)
		if err != nil {
			return nil, err
		}
		forms = append(forms, list)
	}
	for _, form := range forms {
		if strict.CheckJSON(wanted, string(form)) == nil {
			return form, nil
		}
	}
	return nil, fmt.Errorf("its output does not fit: %w", why)
}

// remains records the paths of the steps that were skipped inside a step.
func (w *work) remains(g *given, paths []string) {
	if len(paths) == 0 {
		return
	}
	w.task.PassOver(paths...)
	var names []string
	for _, p := range paths {
		names = append(names, strings.TrimPrefix(p, w.task.Scope().Path()+"/"))
	}
	slices.Sort(names)
	rest := ""
	if n := len(names); n > 5 {
		names, rest = names[:5], fmt.Sprintf(" and %d more", n-5)
	}
	g.degraded, g.failed = "inside of it failed: "+strings.Join(names, ", ")+rest, true
}

// part returns the name of a part of the step, and its attempt: the first one, from the given
// attempt on, in which the whole part succeeded, or else the current one.
func (w *work) part(kind, name string, from int) (string, int) {
	for n := max(from, 1); ; n++ {
		at := name
		if n > 1 {
			at = fmt.Sprintf("%s-try-%d", name, n)
		}
		var a struct {
			amount
			Value amount `json:"value"` // of a branch
		}
		raw, done := w.task.Scope().Done(kind + "/" + at)
		if !done || n >= w.task.Attempt() || json.Unmarshal(raw, &a) == nil && len(a.Skipped)+len(a.Value.Skipped) == 0 {
			return at, n
		}
	}
}
