package team

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/internal/pregel"
	"github.com/superstep-dev/superstep/journal"
)

// task is one job being done.
type task struct {
	team   *Team
	job    Job
	name   string         // of the job within its scope
	parent *journal.Scope // of those who have it done
	scope  *journal.Scope // its own
	seat   *seat
	id     string
	over   bool // it was cancelled while it waited
}

func (t *Team) task(scope *journal.Scope, parent *seat, j *Job) *task {
	word := strings.Map(func(c rune) rune {
		if c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '_' {
			return c
		}
		return '-'
	}, j.Agent)
	if word == "" {
		word = "agent"
	}
	k := &task{team: t, job: *j, name: pregel.Path(word, j.ID, 0), parent: scope}
	k.scope = scope.Inner(k.name)
	k.seat = &seat{queues: &t.queues, run: scope.Run(), free: true, depth: 1}
	_ = scope.Afresh(func() error { k.seat.free = false; return nil })
	if parent != nil {
		k.seat.depth = parent.depth + 1
	}
	if k.id = k.scope.Path(); scope.Run() == "" {
		t.mu.Lock()
		t.unnamed++
		k.id = fmt.Sprintf("%s-%d", word, t.unnamed)
		t.mu.Unlock()
	}
	return k
}

func (k *task) failed(why string) Result {
	return Result{ID: k.id, Agent: k.job.Agent, Error: why}
}

// enter takes a place in the queue, unless there is nothing left to do.
func (k *task) enter() {
	if _, done := k.parent.Done(k.jobKey()); !done && k.job.Prompt != "" {
		k.seat.ticket = k.team.queues.join(k.seat.run, k.seat.free)
	}
}

// do does the job, or returns its recorded result.
func (k *task) do(ctx, own context.Context) (Result, error) {
	defer k.seat.leave()
	j := &k.job
	switch {
	case strings.TrimSpace(j.Prompt) == "":
		return k.failed("it has no prompt; say what is to be done"), nil
	case k.seat.depth > k.team.opt.Depth:
		return k.failed(fmt.Sprintf("agents have agents work %d deep already; do it yourself", k.team.opt.Depth)), nil
	}
	hash, err := journal.Hash([]string{j.Agent, j.Prompt})
	if err != nil {
		return k.failed(err.Error()), err
	}
	if err := k.noteQueued(ctx); err != nil {
		return k.failed(err.Error()), err
	}
	e := &journal.Effect{Key: k.jobKey(), Kind: "job", Name: j.Agent, Hash: hash, Inside: true}
	if k.parent.Recorded(k.cancelKey()) == nil {
		e.Within = k.scope
	}
	r, err := agent.Do(ctx, k.parent, e, func(ctx context.Context, _ string) (Result, error) { return k.attend(ctx, own) })
	if err != nil {
		return k.failed(err.Error()), err
	}
	if r.Error == errCancelled.Error() { // nobody waits for the answers any more
		err = k.scope.Withdraw(ctx, r.Error)
	}
	return r, err
}

// begin registers the task as one that can be cancelled, by the context it returns, until leave is
// called.
func (k *task) begin(ctx context.Context) (own context.Context, leave func()) {
	own, cancel := context.WithCancelCause(ctx)
	t := k.team
	stop := k.scope.Cancellable(func() { cancel(errCancelled) })
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		cancel(errClosed)
	}
	t.members[k] = cancel
	return own, func() {
		stop()
		cancel(nil)
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.members, k)
	}
}

// attend waits for its turn and works, until it is cancelled.
func (k *task) attend(ctx, own context.Context) (Result, error) {
	if over, err := k.cancelled(ctx); err != nil {
		return k.failed(errCancelled.Error()), err
	} else if over {
		return k.saveCancelled(ctx)
	}
	err := k.seat.ticket.wait(own)
	var r Result
	if err == nil {
		working, cancel := context.WithCancelCause(own)
		defer cancel(nil)
		stop := k.cancelAgain(cancel)
		r, err = k.run(working)
		stop()
		own = working
	}
	var asks *journal.WaitError
	switch cause := context.Cause(own); {
	case err == nil || cause == nil:
		return r, err
	case errors.Is(cause, errCancelled) && errors.As(err, &asks) && !errors.Is(err, context.Canceled) && !errors.Is(err, errCancelled):
		return r, err // nothing of it was cut off; it waits, and finish does the rest
	case errors.Is(cause, errCancelled):
		ctx = context.WithoutCancel(ctx)
		if err := k.noteCancelled(ctx); err != nil {
			return k.failed(errCancelled.Error()), err
		}
		return k.saveCancelled(ctx)
	default:
		return r, errors.Join(cause, err)
	}
}

// The result of an agent, and its cancellation, are recorded in the scope of its lead, because they are not actions of the agent itself.
func (k *task) jobKey() string { return jobPrefix + k.name }

func (k *task) cancelKey() string { return "cancelled/" + k.name }

func (k *task) noteCancelled(ctx context.Context) error {
	return k.note(ctx, k.cancelKey(), "cancel", k.job.Agent, "")
}

// note records something that has no outcome.
func (k *task) note(ctx context.Context, key, kind, name, hint string) error {
	_, err := k.parent.Do(ctx, &journal.Effect{
		Key: key, Kind: kind, Name: name, Inside: true, Hint: hint,
		Do: func(context.Context, string) (json.RawMessage, error) { return json.RawMessage("{}"), nil },
	})
	return err
}

// noteQueued records that the job exists, so that other processes see it, see [List].
func (k *task) noteQueued(ctx context.Context) error {
	key := queuedPrefix + k.name
	if _, done := k.parent.Done(k.jobKey()); done {
		return nil
	}
	if !k.parent.Does(key, true) {
		return nil // in older logs it was not
	}
	return k.note(ctx, key, "note", k.job.Agent, "")
}

// noted writes, in a replay, the note that the record has of what the agent went on with, and returns what that was, "" if there is none.
func (k *task) noted(ctx context.Context, q *journal.WaitError) (next string, err error) {
	for _, next := range []string{journal.Resumed, journal.Withdrawn} {
		key := k.scope.NextKey(next, &q.Question)
		if _, done := k.parent.Done(key); done {
			continue
		}
		if was := k.parent.Recorded(key); was != nil {
			k.over = next == journal.Withdrawn
			return next, k.noteNext(ctx, q, next, was.Hint)
		}
	}
	return "", nil
}

func (k *task) noteNext(ctx context.Context, q *journal.WaitError, next, hint string) error {
	return k.note(ctx, k.scope.NextKey(next, &q.Question), "note", next, hint)
}

// cancelled reports whether the agent was cancelled before it began to work, or before a
// crash.
func (k *task) cancelled(ctx context.Context) (bool, error) {
	if _, before := k.parent.Done(k.cancelKey()); before {
		return true, nil
	}
	if k.over { // as is recorded, see finish
		return true, nil
	}
	_, is := k.parent.Hint(k.cancelKey()) // as it is not before, but in a replay
	if _, began := k.scope.Hint("agent"); !is || began {
		return false, nil
	}
	return true, k.noteCancelled(ctx)
}

// cancelling is the record, in a replay, that an agent was cancelled, which waits for its turn.
type cancelling struct {
	done chan struct{} // closed when it was written, or never will be
	err  error
}

// cancelAgain cancels the agent where the record says that it was. The function it gives
// ends that. The record may be of a later time, when the agent works again: then who waits
// for it goes on waiting, to the end of the replay at the latest.
func (k *task) cancelAgain(cancel context.CancelCauseFunc) (stop func()) {
	if _, is := k.parent.Hint(k.cancelKey()); !is {
		return func() {}
	}
	t, name := k.team, k.seat.run+" "+k.id
	t.mu.Lock()
	c := t.replays[name]
	if c == nil {
		c = &cancelling{done: make(chan struct{})}
		t.replays[name] = c
		go func() {
			c.err = k.noteCancelled(context.Background())
			t.mu.Lock()
			delete(t.replays, name)
			t.mu.Unlock()
			close(c.done)
		}()
	}
	t.mu.Unlock()
	quit, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		select {
		case <-c.done:
			if c.err == nil {
				cancel(errCancelled)
			}
		case <-quit:
		}
	}()
	return func() { close(quit); <-over }
}

// run runs the agent.
func (k *task) run(ctx context.Context) (Result, error) {
	def, err := k.define()
	if err != nil {
		return k.failed(err.Error()), nil
	}
	began, err := k.now(ctx, "began")
	if err != nil {
		return Result{}, err
	}
	w := &agent.Work{Prompt: k.job.Prompt, Stopped: k.job.Stopped, Seen: []string{}} // what its lead has seen is on record
	if k.job.State != nil {
		w.State = func() (json.RawMessage, error) { return k.job.State() }
	}
	out, err := def.Run(ctx, k.scope.Attempt(), w)
	if err != nil && (ctx.Err() != nil || agent.OfRun(err)) {
		return Result{}, err
	}
	r := result(out, err)
	r.ID, r.Agent = k.id, k.job.Agent
	ended, err := k.now(ctx, "ended")
	if err != nil {
		return Result{}, err
	}
	r.Duration = max(0, ended.Sub(began))
	return r, k.save(ctx, k.scope, "save", r)
}

// result returns the result of an agent.
func result(out *agent.Outcome, err error) Result {
	var r Result
	if out != nil {
		r.Output, r.ToolUses, r.Usage = out.Text, out.Calls, out.Usage
		if out.Args != nil {
			r.Output = string(out.Args)
		}
	}
	switch {
	case err != nil:
		r.Error = err.Error()
	case out.Stop == agent.StopLimit:
		r.Error = fmt.Sprintf("it was out of its %d turns before it was done", out.Turns)
	case out.Stop == agent.StopCut:
		r.Error = "it was cut off in the middle of its answer"
	}
	r.Success = r.Error == ""
	return r
}

// define creates the agent for a job.
func (k *task) define() (*agent.Agent, error) {
	t := k.team
	def, err := t.opt.Agents(k.job.Agent)
	if err == nil && def == nil {
		err = fmt.Errorf("agent %s was not made", k.job.Agent)
	}
	if err != nil {
		return nil, errors.New(t.unknown(k.job.Agent, err))
	}
	if def.Model == nil {
		return nil, fmt.Errorf("agent %s has no model", k.job.Agent)
	}
	if t.opt.Isolate != nil {
		if def, err = t.opt.Isolate(k.seat.run, k.id, def); err != nil {
			return nil, fmt.Errorf("agent %s cannot be given a folder of its own: %w", k.job.Agent, err)
		}
	}
	return t.confine(def, k.seat)
}

// now returns the recorded time, or zero without a clock.
func (k *task) now(ctx context.Context, key string) (time.Time, error) {
	if k.team.opt.Clock == nil {
		return time.Time{}, nil
	}
	e := &journal.Effect{Key: key, Kind: "timer", Name: key}
	return journal.Do(ctx, k.scope, e, func(context.Context, string) (time.Time, error) {
		return k.team.opt.Clock.Now().UTC().Round(0), nil
	})
}

// saveCancelled returns the result of an agent that was cancelled, saved like others.
func (k *task) saveCancelled(ctx context.Context) (Result, error) {
	r, key := k.failed(errCancelled.Error()), k.cancelKey()+"/save"
	if !k.parent.Does(key, true) {
		return r, nil // in older logs it was not
	}
	return r, k.save(ctx, k.parent, key, r)
}

// save hands the result to the host. If it cannot be kept, that is noted, and the run continues.
func (k *task) save(ctx context.Context, scope *journal.Scope, key string, r Result) error {
	if k.team.opt.Save == nil {
		return nil
	}
	e := &journal.Effect{Key: key, Kind: "save", Name: r.Agent}
	failed, err := journal.Do(ctx, scope, e, func(ctx context.Context, _ string) (string, error) {
		if err := k.team.opt.Save(ctx, k.seat.run, r); err != nil {
			return err.Error(), ctx.Err()
		}
		return "", nil
	})
	if err != nil || failed == "" {
		return err
	}
	_, err = scope.Do(ctx, &journal.Effect{
		Key: strings.TrimSuffix(key, "save") + "unsaved", Kind: "note", Name: "note", Inside: true,
		Do: func(ctx context.Context, _ string) (json.RawMessage, error) {
			return json.RawMessage("{}"), scope.Emit(ctx, "note", struct {
				Text string `json:"text"`
			}{fmt.Sprintf("the result of agent %s could not be kept outside of the log: %s", r.Agent, failed)})
		},
	})
	return err
}
