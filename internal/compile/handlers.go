package compile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/recipe"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/vertex"
	"github.com/superstep-dev/superstep/workflow"
)

// What handlers see of the run, as run.status.
const (
	completed = "completed"
	failed    = "failed"
	cancelled = "cancelled"
)

// conclusion is how the steps of a run ended: what its handlers go by, and what the run ends with
// after them.
type conclusion struct {
	Status  string          `json:"status"`
	Error   string          `json:"error,omitempty"`
	Code    string          `json:"code,omitempty"` // see superstep.FailureCode
	Step    int             `json:"step,omitempty"`
	Failed  []failedStep    `json:"failed,omitempty"`
	Output  json.RawMessage `json:"output,omitempty"`
	Steps   int             `json:"steps,omitempty"`
	Skipped []string        `json:"skipped,omitempty"`
}

type failedStep struct {
	Path  string `json:"path"`
	Error string `json:"error"`
}

// concluded runs the steps of the run and then its handlers. How the steps ended is recorded before
// the first handler begins: a run that is resumed after that continues with its handlers.
func (p *play) concluded(ctx context.Context, opt *graph.RunOptions, steps func() (*workflow.Result, error)) (*workflow.Result, error) {
	if len(p.recipe.Handlers) == 0 {
		return steps()
	}
	j := opt.Journal
	scope := j.Scope(p.recipe.Handlers[0].ID) // no other step has that id
	round := 1
	var last json.RawMessage // what the handlers of the round before gave
	for ; ; round++ {
		raw, handled := scope.Done(fmt.Sprintf("handled-%d", round))
		if !handled {
			break
		}
		last = raw
	}
	over := last != nil && scope.Final() // else the run was resumed after it had failed
	if over {
		round--
	}
	var end conclusion
	var res *workflow.Result
	var why error
	if raw, begun := scope.Done(fmt.Sprintf("ended-%d", round)); begun {
		if err := json.Unmarshal(raw, &end); err != nil {
			return nil, err
		}
		res, why = end.result()
	} else {
		if res, why = steps(); unended(ctx, why) {
			return res, why
		}
		end = concludes(ctx, res, why)
	}
	handlers := p.handlers(end.Status)
	if over {
		var done handling
		err := json.Unmarshal(last, &done)
		return done.result(res, errors.Join(why, err))
	}
	if len(handlers) == 0 {
		return res, why
	}
	if end.Status == cancelled {
		held, release := j.HoldOn(context.WithoutCancel(ctx))
		defer release()
		ctx = held
	}
	note := func(key string, v any) error {
		effect := &journal.Effect{Key: fmt.Sprintf("%s-%d", key, round), Kind: "do", Name: key, Repeat: journal.RepeatFreely}
		_, err := journal.Do(ctx, scope.Attempt(), effect, func(context.Context, string) (any, error) { return v, nil })
		return err
	}
	if err := note("ended", &end); err != nil {
		return res, errors.Join(why, err)
	}
	skipped, err := p.handle(ctx, handlers, round, &end, opt)
	if unended(ctx, err) {
		return res, err
	}
	done := handling{Skipped: skipped}
	if err != nil {
		done.Error = err.Error()
	}
	if err := note("handled", &done); err != nil {
		return res, errors.Join(why, err)
	}
	return done.result(res, why)
}

// handling is what the handlers of a run gave.
type handling struct {
	Skipped []string `json:"skipped,omitempty"`
	Error   string   `json:"error,omitempty"`
}

// result returns the end of a run with that of its handlers.
func (h *handling) result(res *workflow.Result, why error) (*workflow.Result, error) {
	res.Skipped = append(slices.Clip(res.Skipped), h.Skipped...)
	if h.Error != "" {
		why = errors.Join(why, errors.New(h.Error))
	}
	return res, why
}

// handlers returns those that run after an end.
func (p *play) handlers(status string) (out []*recipe.Step) {
	for _, h := range p.recipe.Handlers {
		if h.ID == recipe.Always || h.ID == recipe.OnFailure && status == failed || h.ID == recipe.OnCancel && status == cancelled {
			out = append(out, h)
		}
	}
	return out
}

// handle runs handlers one after the other, also after one of them has failed.
func (p *play) handle(ctx context.Context, handlers []*recipe.Step, round int, end *conclusion, opt *graph.RunOptions) (skipped []string, failed error) {
	names := []any{}
	for _, f := range end.Failed {
		names = append(names, f.Path)
	}
	saw := func(string) []string { return agent.Saw(opt.Journal.Scope("").Marks, "") } // whatever failed, the error may quote it
	if end.Error == "" {
		saw = nil
	}
	around := &surroundings{
		step: func(string) (*recipe.Result, bool) { return nil, false }, saw: saw,
		vars: map[string]any{"run": map[string]any{"status": end.Status, "error": end.Error, "failed": names}},
	}
	for _, h := range handlers {
		path := h.ID
		if round > 1 {
			path = fmt.Sprintf("%s~%d", h.ID, round)
		}
		final, err := p.execute(ctx, h.ID, h.Body(), around, opt.Beside(path))
		if unended(ctx, err) {
			return nil, err
		}
		if skipped = append(skipped, final.Skipped...); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", path, err))
		}
	}
	return skipped, failed
}

// unended reports whether a run has not ended with an error: it is resumed, or continues elsewhere.
func unended(ctx context.Context, err error) bool {
	if err == nil {
		return false
	}
	if cause := context.Cause(ctx); cause != nil {
		return !errors.Is(cause, journal.ErrCancelRequested)
	}
	return agent.OfRun(err) || errors.Is(err, runlog.ErrStoreReset) || errors.As(err, new(*runlog.BudgetError)) || errors.As(err, new(*graph.ChangedError))
}

// concludes returns how a run ended.
func concludes(ctx context.Context, res *workflow.Result, err error) conclusion {
	end := conclusion{Status: completed, Output: res.Output, Steps: res.Steps, Skipped: res.Skipped}
	if err == nil {
		return end
	}
	end.Status, end.Error, end.Code = failed, err.Error(), "task"
	switch {
	case ctx.Err() != nil:
		end.Status, end.Error, end.Code = cancelled, journal.ErrCancelRequested.Error(), ""
		return end
	case errors.Is(err, journal.ErrDenied):
		end.Code = "denied"
	case errors.As(err, new(*graph.StepLimitError)), errors.As(err, new(*graph.TimeoutError)),
		errors.As(err, new(*vertex.StepLimitError)), errors.As(err, new(*vertex.TimeoutError)):
		end.Code = "limit"
	}
	if tasks, ok := errors.AsType[*graph.TasksError](err); ok {
		end.Step = tasks.Step
		for i := range tasks.Tasks {
			end.Failed = append(end.Failed, failedStep{tasks.Tasks[i].Path, tasks.Tasks[i].Err.Error()})
		}
	}
	return end
}

// result returns what the steps of the run gave, when another process ran them.
func (c *conclusion) result() (*workflow.Result, error) {
	res := &workflow.Result{Output: c.Output, Steps: c.Steps, Skipped: c.Skipped}
	switch c.Status {
	case completed:
		return res, nil
	case cancelled:
		return res, journal.ErrCancelRequested
	}
	return res, &concludedError{c}
}

// concludedError is the error of steps that another process ran.
type concludedError struct{ end *conclusion }

func (e *concludedError) Error() string { return e.end.Error }

// FailureCode returns the code that the error had.
func (e *concludedError) FailureCode() string { return e.end.Code }

// Unwrap returns the failed steps.
func (e *concludedError) Unwrap() error {
	if len(e.end.Failed) == 0 {
		return nil
	}
	out := &graph.TasksError{Step: e.end.Step}
	for _, f := range e.end.Failed {
		out.Tasks = append(out.Tasks, graph.TaskError{Path: f.Path, Err: errors.New(f.Error)})
	}
	return out
}
