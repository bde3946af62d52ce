package compile

import (
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
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/workflow/recipe"
)

// The events that a step emits, in the log of its task.
const (
	EventErrorInput = "error_input" // it runs on the results of steps that have failed; see ErrorInput
	EventNotRun     = "not_run"     // it is skipped; see Note
	EventDegraded   = "degraded"    // it has less to give than was wanted; see Note
)

// The live-only events of a step that waits for a place. Its time is counted from when it has one.
const (
	EventQueued = "task.queued"
	EventWorks  = "task.works"
)

// ErrorInput is the data of EventErrorInput.
type ErrorInput struct {
	Steps []string `json:"steps"`
}

// A Note is the data of the other events.
type Note struct {
	Why string `json:"why"`
}

// work is a step at work: one attempt.
type work struct {
	*play
	step   *recipe.Step
	task   *graph.Task // nil where only its failure is looked at
	state  results
	around *surroundings
	scope  *recipe.Scope
}

// given is what a step gives.
type given struct {
	output   json.RawMessage
	degraded string // why it is less than was wanted, "" if it is not
}

func (w *work) do(ctx context.Context) (update, error) {
	u := update{ID: w.step.ID, Result: recipe.Result{Status: recipe.Done, Bad: w.bad()}}
	why, skips, err := w.skipped()
	if err != nil {
		return u, err
	}
	if why != "" {
		u.Status, u.Skips, u.Bad = recipe.Skipped, skips, nil
		return u, w.task.Emit(ctx, EventNotRun, Note{why})
	}
	if len(u.Bad) > 0 {
		if err := w.task.Emit(ctx, EventErrorInput, ErrorInput{u.Bad}); err != nil {
			return u, err
		}
	}
	g, err := w.give(ctx)
	if err != nil {
		return u, w.verdict(ctx, err)
	}
	u.Output = g.output
	if g.degraded != "" {
		u.Status, u.Error = recipe.Degraded, g.degraded
		return u, w.task.Emit(ctx, EventDegraded, Note{g.degraded})
	}
	return u, nil
}

// verdict is an error as the graph is to take it: one of the run is none of the step.
func (w *work) verdict(ctx context.Context, err error) error {
	if runlog.Waits(err) || ctx.Err() != nil || !agent.OfRun(err) {
		return err
	}
	return graph.Halt(err)
}

// bad are the steps that it reads and that have failed or were degraded.
func (w *work) bad() []string {
	var out []string
	for _, id := range w.step.Reads {
		if r, ok := w.scope.Step(id); ok && (r.Status == recipe.Failed || r.Status == recipe.Degraded) {
			out = append(out, id)
		}
	}
	return out
}

// skipped says why the step does not run, "" if it does, and whether what depends on it is skipped too.
func (w *work) skipped() (why string, skips bool, err error) {
	for _, id := range w.step.DependsOn {
		if r, ok := w.state.find(id); ok && r.Skips {
			return fmt.Sprintf("step %s, which it depends on, has failed or was skipped", id), true, nil
		}
	}
	if w.step.When == nil {
		return "", false, nil
	}
	holds, err := w.step.When.Holds(w.scope)
	if err != nil {
		return "", false, fmt.Errorf("when: %w", err)
	}
	if !holds {
		return "its condition does not hold: " + w.step.When.String(), false, nil
	}
	return "", false, nil
}

// maxError bounds the text of an error that becomes an output.
const maxError = 8 << 10

// failed is the result of a step whose attempts are used up.
func (w *work) failed(err error) update {
	text := clean.Text(err.Error())
	if len(text) > maxError {
		text = strings.ToValidUTF8(text[:maxError], "") + "…"
	}
	u := update{ID: w.step.ID, Result: recipe.Result{Status: recipe.Failed, Error: text, Skips: w.step.OnError == recipe.Skip, Bad: w.bad()}}
	said := fmt.Sprintf("Error: step '%s' failed: %s", w.step.ID, text)
	if late := (*timeoutError)(nil); errors.As(err, &late) || strings.HasPrefix(text, timeoutText) {
		u.Status = recipe.Degraded
		said = fmt.Sprintf("Step '%s' is incomplete: %s. What it would have given is missing here.", w.step.ID, text)
	}
	u.Output, _ = json.Marshal(said) // a string encodes
	return u
}

// give does what the step is for, once a person has let it, there is room, and within its time.
func (w *work) give(ctx context.Context) (g given, err error) {
	s := w.step
	job, err := w.prepare()
	if err != nil {
		return g, err
	}
	if s.Gate != nil {
		if err := w.pass(ctx, job); err != nil {
			return g, err
		}
	}
	if job.leaf {
		leave, err := w.slots.take(ctx, w.task)
		if err != nil {
			return g, err
		}
		defer leave()
	}
	if s.Timeout > 0 {
		outer := ctx
		late := &timeoutError{s.Timeout}
		limited, stop := w.task.Scope().WithTimeout(outer, s.Timeout, late)
		defer stop()
		defer func() {
			if err != nil && outer.Err() == nil && limited.Err() != nil && !runlog.Waits(err) {
				err = late
			}
		}()
		ctx = limited
	}
	if g, err = job.run(ctx); err != nil {
		return g, err
	}
	if s.Output != nil && s.Agent == nil {
		if err := tool.CheckJSON(s.Output, string(orNull(g.output))); err != nil {
			return g, fmt.Errorf("its output does not fit: %w", err)
		}
	}
	return g, nil
}

// job is what a step does, with all values put in.
type job struct {
	text string          // what a person may edit at a gate: of an agent and a question
	data json.RawMessage // the same, of a tool and a workflow; nil for none
	leaf bool            // it takes one of the places for steps at work
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
		j.text, err = s.Agent.Prompt.Render(w.scope)
		return j, about("prompt", err)
	case s.Tool != nil:
		j.leaf = true
		j.run = func(ctx context.Context) (given, error) { return w.tool(ctx, j.data) }
		j.data, err = object(s.Tool.Args, w.scope)
		return j, about("args", err)
	case s.Workflow != nil:
		called := w.bundle.find(s.Workflow.Name)
		j.leaf = called == nil
		j.run = func(ctx context.Context) (given, error) {
			if called != nil {
				return w.call(ctx, called, j.data)
			}
			return w.host(ctx, s.Workflow.Name, j.data)
		}
		j.data, err = object(s.Workflow.Inputs, w.scope)
		return j, about("inputs", err)
	case s.Ask != nil:
		j.run = func(ctx context.Context) (given, error) { return w.ask(ctx, j.text) }
		j.text, err = s.Ask.Question.Render(w.scope)
		return j, about("ask", err)
	case s.Parallel != nil:
		j.run = w.parallel
	case s.Foreach != nil:
		j.run = w.foreach
	default:
		j.run = w.loop
	}
	return j, nil
}

// about says of which key of a step an error is.
func about(key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", key, err)
}

// object is a map with its values put in.
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

// seen is the state that tools are handed.
func (w *work) seen() (json.RawMessage, error) { return json.Marshal(w.state) }

// text is a text as an output: itself, or the value that it is in JSON where one is wanted.
func text(s string, wanted *jsonschema.Schema) (json.RawMessage, error) {
	if wanted == nil {
		return json.Marshal(s)
	}
	if err := tool.CheckJSON(wanted, s); err != nil {
		return nil, fmt.Errorf("its output does not fit: %w", err)
	}
	return json.RawMessage(strings.TrimSpace(s)), nil
}

// remains are the paths of what was passed over inside of a step, and what to say of it.
func (w *work) remains(paths []string) string {
	if len(paths) == 0 {
		return ""
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
	return "inside of it failed: " + strings.Join(names, ", ") + rest
}
