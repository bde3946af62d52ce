package superstep

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/internal/mail"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/internal/summary"
	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

// post stores a request for the process that executes the run, and makes that process look at once if it can be reached.
func (e *Engine) post(ctx context.Context, id string, r *unlisted.Request) error {
	if err := unlisted.Post(ctx, e.store, id, r); err != nil {
		return err
	}
	e.poke(ctx, id)
	return nil
}

// await waits a moment for a record with a sequence number from from on for which seen returns true. It returns the number at which to continue the next
// time.
func (e *Engine) await(ctx context.Context, id string, from uint64, seen func(*runlog.Record) (bool, error)) (next uint64, done bool, err error) {
	short, stop := context.WithTimeout(ctx, 250*time.Millisecond) // the process may end without a record
	defer stop()
	for r, err := range runlog.Follow(short, e.store, id, from) {
		if err != nil {
			if short.Err() != nil {
				err = ctx.Err()
			}
			return from, false, err
		}
		from = r.Seq + 1
		if done, err := seen(&r); done {
			return from, true, err
		}
	}
	return from, false, ctx.Err()
}

// Budget changes the budget of a run, whichever process executes it: tasks that wait for a larger budget continue at once. Each limit that is not zero
// replaces the previous one, see runlog.Budget.Over. If no process executes the run, the change takes effect when it is resumed; a run that began queued
// and waits for a larger budget is queued again.
func (e *Engine) Budget(ctx context.Context, id string, b runlog.Budget) error {
	leave, err := e.enter()
	if err != nil {
		return err
	}
	defer leave()
	info, err := e.find(ctx, id)
	if err != nil {
		return err
	}
	if err := e.lend(ctx, &info, &b); err != nil {
		return err
	}
	return e.rebudget(ctx, &info, &unlisted.Request{Kind: unlisted.KindBudget}, b, func(rec *runlog.Record, request string) (bool, error) {
		b := mail.BudgetOf(rec)
		return b != nil && b.Request == request, nil
	})
}

// lend has the parent of a child run set aside what the child is to have. The error says how much that may be.
func (e *Engine) lend(ctx context.Context, child *runlog.Info, b *runlog.Budget) error {
	if !child.IsChild() {
		return nil
	}
	parent, err := e.find(ctx, child.Parent)
	if errors.As(err, new(*runlog.NotFoundError)) || err == nil && parent.Status.Ended() {
		return nil
	}
	if err != nil {
		return err
	}
	return e.rebudget(ctx, &parent, &unlisted.Request{Kind: unlisted.KindLend, Path: child.ID}, *b, func(rec *runlog.Record, request string) (bool, error) {
		l := mail.LoanOf(rec)
		if l == nil || l.Request != request {
			return false, nil
		}
		if l.Short != nil {
			return true, &lentError{child.ID, parent.ID, l.Short}
		}
		return true, nil
	})
}

// A lentError reports that a child run may not have as much as it is to have.
type lentError struct {
	child, parent string
	short         *runlog.BudgetError
}

func (e *lentError) Error() string {
	return fmt.Sprintf("run %s may have at most %s: the rest of the budget of run %s, its parent, is used or set aside; give that one a larger budget first",
		e.child, e.short.Left(), e.parent)
}

// FailureCode returns the code of a call that a budget does not allow.
func (e *lentError) FailureCode() string { return e.short.FailureCode() }

// rebudget posts a request about a budget to a run, and returns when the request is carried out.
func (e *Engine) rebudget(ctx context.Context, info *runlog.Info, r *unlisted.Request, b runlog.Budget, seen func(*runlog.Record, string) (bool, error)) (err error) {
	r.Time = e.opt.Now().UTC()
	if r.Data, err = json.Marshal(b); err != nil {
		return err
	}
	id := info.ID
	if err := e.post(ctx, id, r); err != nil {
		return err
	}
	saw := func(rec *runlog.Record) (bool, error) { return seen(rec, r.ID) }
	for from := info.Head + 1; ; {
		j, err := e.open(ctx, id, &journal.Options{})
		switch {
		case errors.As(err, new(*runlog.QuarantinedError)):
			return nil // it is there for whoever resumes the run
		case err == nil && !j.Info().Status.Ended():
			err = j.Look(ctx)
			if now := j.Info(); err == nil && now.Status == runlog.Paused && now.Queue() != nil && waitsForBudget(&now) {
				err = j.Append(ctx, runlog.Queued)
			}
			if err = errors.Join(err, j.Close(context.WithoutCancel(ctx))); err == nil && r.Kind == unlisted.KindLend {
				_, _, err = e.await(ctx, id, from, saw)
			}
			return err
		case err == nil:
			if err := j.Close(context.WithoutCancel(ctx)); err != nil {
				return err
			}
			var done bool
			if _, done, err = e.await(ctx, id, from, saw); !done && err == nil {
				err = &runlog.EndedError{ID: id, Status: j.Info().Status}
			}
			return err
		case !errors.As(err, new(*runlog.BusyError)):
			return err
		}
		var done bool
		if from, done, err = e.await(ctx, id, from, saw); done || err != nil {
			return err
		}
	}
}

func waitsForBudget(info *runlog.Info) bool {
	s := summary.Of(info)
	return s != nil && s.Waits == summary.Budget
}

// steerFor is how long Steer waits for an agent.
const steerFor = 3 * time.Second

// Steer sends a message to an agent of a run, whichever process executes it. The agent reads the message exactly once, before its next turn, even if the
// executing process crashes, and does not end before it has read it. The path names the agent; "" is the first running one, the lead. If no process
// executes the run, the agent reads the message when the run is resumed. A conversation that waits for its next message has it, if no agent is named.
//
// Steer returns when the agent has read the message, or after some seconds, and then the agent reads it later. It returns an error if there is no such
// agent or the agent ended before.
func (e *Engine) Steer(ctx context.Context, id, agent, text string) error {
	if strings.TrimSpace(text) == "" {
		return errors.New("there is nothing to say to the agent: give a text")
	}
	data, err := json.Marshal(text)
	if err != nil {
		return err
	}
	return e.mail(ctx, id, &unlisted.Request{Kind: unlisted.KindSteer, Path: agent, Data: data}, ", and has not read it")
}

// Interrupt ends the current model turn of an agent of a run at once, whichever process executes it. What the model has said so far stays in the
// conversation, marked as broken off, and its usage counts; no call of it is made. A chat then reads the messages that were sent to it meanwhile, or waits
// for one; any other agent without such messages asks the user what to do. While the agent calls tools, its next turn is broken off before it begins. The
// path names the agent; "" is the first running one, the lead. If no process executes the run, the turn is broken off when the run is resumed.
//
// Interrupt returns when the turn has ended, or after some seconds, and then the turn ends later, once. It returns an error if there is no such agent or the
// agent ended before.
func (e *Engine) Interrupt(ctx context.Context, id, agent string) error {
	return e.mail(ctx, id, &unlisted.Request{Kind: unlisted.KindInterrupt, Path: agent}, " before it could be interrupted")
}

// mail posts a request for an agent of a run, and waits a little until it is carried out. The error tells what an agent that ends first has not done.
func (e *Engine) mail(ctx context.Context, id string, r *unlisted.Request, missed string) error {
	leave, err := e.enter()
	if err != nil {
		return err
	}
	defer leave()
	info, err := e.find(ctx, id)
	if err != nil {
		return err
	}
	if info.Status.Ended() {
		return &runlog.EndedError{ID: id, Status: info.Status}
	}
	agents, err := mail.Agents(runlog.Records(ctx, e.store, id, 0))
	if err != nil {
		return err
	}
	var known []string
	for _, a := range agents {
		known = append(known, a.Path)
	}
	if r.Path == "" && len(known) > 0 {
		r.Path = known[0]
	}
	if r.Path == "" && r.Kind == unlisted.KindSteer {
		q, err := e.asked(ctx, id)
		if err != nil {
			return err
		}
		if q != nil {
			return e.Answer(ctx, id, q.Path, &runlog.Answer{Key: q.Key, Value: r.Data, By: "person"})
		}
	}
	if !slices.Contains(known, r.Path) {
		return fmt.Errorf("run %s: no agent %s", id, unknownOf(r.Path, known))
	}
	r.Time = e.opt.Now().UTC()
	if err := e.post(ctx, id, r); err != nil {
		return err
	}
	from, done := info.Head+1, false
	wait, stop := context.WithTimeout(ctx, steerFor)
	defer stop()
	for !done && wait.Err() == nil {
		if info, err = e.find(ctx, id); err != nil {
			return err
		}
		from, done, err = e.await(ctx, id, from, func(rec *runlog.Record) (bool, error) {
			switch {
			case mail.Told(rec, r.ID):
				return true, nil
			case mail.Ends(rec, r.Path):
				return true, fmt.Errorf("run %s: agent %s has ended%s", id, r.Path, missed)
			}
			return false, nil
		})
		if err != nil || info.Status != runlog.Running && !done && !info.Status.Ended() {
			return err
		}
		if info.Status.Ended() && !done {
			return &runlog.EndedError{ID: id, Status: info.Status}
		}
	}
	return nil
}

// unknownOf returns a text that names an unknown name and the known ones.
func unknownOf(name string, known []string) string {
	hint := "."
	if near := suggest.Closest(name, known); near != "" {
		hint = fmt.Sprintf("; did you mean %q?", near)
	}
	if name != "" {
		name = fmt.Sprintf("%q ", name)
	}
	return fmt.Sprintf("%sruns%s Those that run are: %s", name, hint, cmp.Or(strings.Join(known, ", "), "none"))
}
