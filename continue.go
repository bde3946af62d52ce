package superstep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// Continue sends the next message of a conversation to a run, and returns the run that answers it while that run executes:
//
//   - A run that waits for a message gets it as the answer, and is resumed if nobody executes it.
//   - A run that was interrupted is resumed, and gets the message when it asks for one. If it ends its execution before, the Err of
//     the outcome says so.
//   - Of a run that has ended, of any workflow, a new run is made, whose Parent it is: its agent knows the conversation so far. The
//     first workflow of the engine that has Continue runs it, or that of the run if it has.
//
// The options are those of Start; the title is that of the run if it is "", and ID and SnapshotEvery are for a new run only. If a run has the ID, Continue
// returns a *ConflictError.
func (e *Engine) Continue(ctx context.Context, id, message string, opt *StartOptions) (*Run, error) {
	leave, err := e.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	if strings.TrimSpace(message) == "" {
		return nil, fmt.Errorf("continuing run %s: the message is empty", id)
	}
	value, err := json.Marshal(message)
	if err != nil {
		return nil, err
	}
	c := &continuing{engine: e, id: id, message: message, answer: runlog.Answer{Value: value, By: "person"}}
	if opt != nil {
		c.opt = *opt
	}
	for {
		info, err := e.find(ctx, id)
		if err != nil {
			return nil, err
		}
		if err := e.vouch(ctx, id); err != nil {
			return nil, err
		}
		if info.Status.Ended() || info.Status == runlog.Failed {
			return c.child(ctx, &info)
		}
		r, again, err := c.held(ctx)
		if !again {
			return r, err
		}
		if r, again, err = c.busy(ctx); !again {
			return r, err
		}
	}
}

// continuing is a message on its way to a run.
type continuing struct {
	engine  *Engine
	id      string
	message string
	answer  runlog.Answer
	opt     StartOptions
}

func (c *continuing) resuming() ResumeOptions {
	return ResumeOptions{Answer: c.opt.Answer, Observe: c.opt.Observe, Budget: c.opt.Budget}
}

// held passes the message to a run that no process executes, and resumes it. If a process does execute it, or it has ended, the caller must start over.
func (c *continuing) held(ctx context.Context) (r *Run, again bool, err error) {
	e, o := c.engine, c.resuming()
	j, err := e.open(ctx, c.id, &journal.Options{Budget: o.Budget})
	if errors.As(err, new(*runlog.BusyError)) {
		return nil, true, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer func() {
		if r == nil {
			err = errors.Join(err, j.Close(context.WithoutCancel(ctx)))
		}
	}()
	if now := j.Info().Status; now.Ended() || now == runlog.Failed {
		return nil, true, nil
	}
	if err := e.trusts(c.id, j.Imported()); err != nil {
		return nil, false, err
	}
	started, err := e.started(ctx, c.id)
	if err == nil {
		_, err = e.workflowOf(&started) // before the message is in the log
	}
	if err != nil {
		return nil, false, err
	}
	open := j.Open()
	switch q := awaits(open); {
	case q != nil:
		a := c.answer
		a.Key = q.Key
		if err := j.Answer(ctx, q.Path, &a); err != nil {
			return nil, false, err
		}
	case len(open) > 0:
		return nil, false, fmt.Errorf("run %s takes no message before %s has the answer to its question: %s", c.id, open[0].Path, line(open[0].Text))
	default:
		c.later(&o)
	}
	r, err = e.resume(ctx, j, &o)
	return r, false, err
}

// line returns the first line of a text.
func line(s string) string {
	first, _, _ := strings.Cut(s, "\n")
	return first
}

// awaits returns the open question for the next message, or nil if there is none.
func awaits(open []runlog.Question) *runlog.Question {
	for i := range open {
		if open[i].Kind == runlog.QuestionMessage {
			return &open[i]
		}
	}
	return nil
}

// later arranges that the run gets the message when it asks for one.
func (c *continuing) later(o *ResumeOptions) {
	var given atomic.Bool
	other := o.Answer
	o.Answer = func(ctx context.Context, q runlog.Question) (*runlog.Answer, bool) {
		switch {
		case q.Kind == runlog.QuestionMessage && !given.Swap(true):
			a := c.answer
			return &a, true
		case other == nil:
			return nil, false
		}
		return other(ctx, q)
	}
	o.ended = func(out *Outcome) {
		if !given.Load() {
			out.Err = errors.Join(out.Err, fmt.Errorf("run %s did not get to the message: send it again when the run asks for one", c.id))
		}
	}
}

// busy gives the message to a run that is executing.
func (c *continuing) busy(ctx context.Context) (r *Run, again bool, err error) {
	e := c.engine
	info, err := e.find(ctx, c.id)
	if err != nil {
		return nil, false, err
	}
	var q *runlog.Question
	if here := e.executing(c.id); here != nil {
		q = awaits(here.journal.Open())
	} else if q, err = e.asked(ctx, c.id); err != nil {
		return nil, false, err
	}
	if q == nil {
		if info.Status != runlog.Running { // it is being released
			select {
			case <-time.After(20 * time.Millisecond):
				return nil, true, nil
			case <-ctx.Done():
				return nil, false, context.Cause(ctx)
			}
		}
		return c.steer(ctx, info.Head)
	}
	a := c.answer
	a.Key = q.Key
	rests, err := e.answer(ctx, c.id, q.Path, &a)
	if err != nil {
		return nil, false, err
	}
	if rests { // it has just let go of the run
		o := c.resuming()
		r, err = e.Resume(ctx, c.id, &o)
		return r, false, err
	}
	answered := func(rec *runlog.Record) bool { return rec.Kind == runlog.KindAnswered && rec.Path == q.Path }
	return e.watch(ctx, c.id, answered, c.opt.Observe), false, nil
}

// steer gives the message to the lead while it works.
func (c *continuing) steer(ctx context.Context, head uint64) (*Run, bool, error) {
	if err := c.engine.Steer(ctx, c.id, "", c.message); err != nil {
		return nil, false, err
	}
	return c.engine.watch(ctx, c.id, func(rec *runlog.Record) bool { return rec.Seq > head }, c.opt.Observe), false, nil
}

// asked returns the open question for the next message of a run that another process executes, or nil if there is none.
func (e *Engine) asked(ctx context.Context, id string) (*runlog.Question, error) {
	var open []runlog.Question
	for r, err := range runlog.Records(ctx, e.store, id, 0) {
		if err != nil {
			return nil, err
		}
		var q runlog.Question
		switch {
		case r.Kind == runlog.KindAsked && json.Unmarshal(r.Data, &q) == nil && q.Kind == runlog.QuestionMessage:
			q.Path = r.Path
			open = []runlog.Question{q}
		case r.Kind == runlog.KindAnswered && len(open) > 0 && r.Path == open[0].Path:
			open = nil
		}
	}
	return awaits(open), nil
}

// watch returns a run that is already executing. Its outcome is set when no process executes it any more, or when it has received this message, which
// got detects from a record, and asks for the next one.
func (e *Engine) watch(ctx context.Context, id string, got func(*runlog.Record) bool, observe func(runlog.Record, error)) *Run {
	r := &Run{id: id, engine: e, done: make(chan struct{})}
	go func() { // it ends with ctx
		defer close(r.done)
		had := false
		for rec, err := range e.Follow(ctx, id, 0) {
			if observe != nil {
				observe(rec, err)
			}
			if err != nil {
				r.outcome = Outcome{Status: runlog.Interrupted, Err: err}
				return
			}
			var q runlog.Question
			switch {
			case !had:
				had = got(&rec)
			case rec.Kind == runlog.KindAsked && json.Unmarshal(rec.Data, &q) == nil && q.Kind == runlog.QuestionMessage:
				q.Path = rec.Path
				r.outcome = Outcome{Status: runlog.Paused, Open: []runlog.Question{q}}
				return
			}
		}
		info, err := e.find(context.WithoutCancel(ctx), id)
		if err == nil && info.Status.Ended() {
			var ended *Run
			if ended, err = e.finished(context.WithoutCancel(ctx), info); err == nil {
				r.outcome = ended.outcome
				return
			}
		}
		r.outcome = Outcome{Status: info.Status, Err: err}
	}()
	return r
}

// child starts a run that continues the conversation of one that has ended.
func (c *continuing) child(ctx context.Context, info *runlog.Info) (*Run, error) {
	e := c.engine
	w := e.continues(info.Workflow)
	if w == nil {
		return nil, fmt.Errorf("run %s is %s, and there is no workflow here that continues its conversation", c.id, info.Status)
	}
	before, err := e.started(ctx, c.id)
	if err != nil {
		return nil, err
	}
	inputs, err := w.Continue(runlog.Records(ctx, e.store, c.id, 0), c.message)
	if err == nil && w.Prepare != nil {
		inputs, err = w.Prepare(inputs) // they have what callers may not set
	}
	if err != nil {
		return nil, fmt.Errorf("continuing run %s: %w", c.id, err)
	}
	started := runlog.RunStarted{
		Workflow: w.Name, Inputs: inputs, Engine: Version, Sandbox: e.opt.Sandbox(), Title: c.opt.Title, Parent: c.id, At: info.Head,
		Budget: c.opt.Budget, Every: c.opt.SnapshotEvery, Folder: before.Folder,
	}
	if started.Title == "" {
		started.Title = before.Title
	}
	if w.Budget != nil {
		b := *w.Budget
		if started.Budget != nil {
			b = started.Budget.Over(b)
		}
		started.Budget = &b
	}
	if err := bounded(w, inputs, started.Budget); err != nil {
		return nil, err
	}
	if before.Imported != nil {
		im := *before.Imported
		im.Records, started.Imported = 0, &im
	}
	id, err := e.begin(ctx, c.opt.ID, &started, nil)
	if err != nil {
		return nil, err
	}
	return e.Resume(ctx, id, &ResumeOptions{Answer: c.opt.Answer, Observe: c.opt.Observe})
}

// continues returns the workflow that continues conversations of the named workflow's runs, or nil if there is none.
func (e *Engine) continues(name string) (found *workflow.Workflow) {
	for _, w := range e.Workflows() {
		if w.Continue != nil && (found == nil || w.Name == name) {
			found = w
		}
	}
	return found
}
