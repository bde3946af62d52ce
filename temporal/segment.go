package temporal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/summary"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

const (
	beat       = 3 * time.Second        // between two heartbeats, and two looks at what a run waits for
	tellAfter  = 100 * time.Millisecond // more child runs may be created
	mostTold   = 500                    // child runs in a signal
	maxResult  = 2 << 10
	storageFor = time.Minute // how long a run waits for storage before the next attempt
)

// segment executes a run until it ends or waits for something that may take long.
func (h *host) segment(ctx context.Context, in input) (*outcome, error) {
	stop := pulse(ctx)
	defer stop()
	if in.Workflow != "" {
		if err := h.create(ctx, &in); err != nil {
			return nil, err
		}
	}
	begun := make(chan struct{}, 1) // child runs
	opt := &superstep.ResumeOptions{Supervised: true, Answer: h.Answer, Observe: func(r runlog.Record, err error) {
		var q runlog.Question
		if err == nil && r.Kind == runlog.KindAsked && json.Unmarshal(r.Data, &q) == nil && q.Kind == runlog.QuestionRun {
			select {
			case begun <- struct{}{}:
			default:
			}
		}
	}}
	r, err := h.engine.Resume(context.WithoutCancel(ctx), in.Run, opt)
	switch {
	case errors.As(err, new(*runlog.EndedError)):
		return &outcome{Status: runlog.Cancelled}, nil
	case err != nil:
		return nil, problem(ctx, err)
	}
	until := h.follow(ctx, r, begun)
	out, _ := r.Wait(context.WithoutCancel(ctx)) // it has stopped, or is about to
	if ctx.Err() != nil {
		return nil, context.Cause(ctx) // the segment is another worker's by now
	}
	res := &outcome{Status: out.Status, Skipped: out.Skipped, Until: until}
	switch out.Status {
	case runlog.Completed, runlog.Partial:
		if res.Large = len(out.Output) > maxResult; !res.Large {
			res.Output = out.Output
		}
	case runlog.Failed:
		res.Error, res.Code = out.Err.Error(), superstep.FailureCode(out.Err)
	case runlog.WaitingStorage:
		res.Waits, res.Until = summary.Storage, time.Now().Add(storageFor)
	case runlog.Interrupted:
		switch {
		case !until.IsZero():
			res.Waits = summary.RateLimit
		case !stopping(ctx):
			return nil, problem(ctx, out.Err)
		}
	case runlog.Paused:
		return res, h.waits(ctx, in.Run, res, out.Children)
	}
	return res, nil
}

// create creates the run, unless an earlier attempt has.
func (h *host) create(ctx context.Context, in *input) error {
	w, err := h.engine.Workflows().Find(in.Workflow)
	if err != nil {
		return elsewhere(err)
	}
	if _, err := w.Settle(in.Inputs); err != nil {
		return never(err, "inputs")
	}
	if err := in.create(ctx, h.engine); err != nil {
		if errors.As(err, new(*superstep.ConflictError)) {
			return never(err, "conflict")
		}
		return problem(ctx, err)
	}
	return nil
}

// waits completes the outcome of a paused run.
func (h *host) waits(ctx context.Context, run string, res *outcome, open []string) error {
	infos, err := h.engine.Runs(ctx, &runlog.Filter{ID: run})
	if err != nil || len(infos) == 0 {
		return err
	}
	if s := summary.Of(&infos[0]); s != nil {
		res.Waits = s.Waits
	}
	if len(open) == 0 {
		return nil
	}
	children, err := h.engine.Children(ctx, run)
	for i := range children {
		c := &children[i]
		switch {
		case !slices.Contains(open, c.ID):
		case ended(c): // between the pause and now
			res.Status = runlog.Interrupted
		default:
			res.Children = append(res.Children, place(c))
		}
	}
	return err
}

func ended(i *runlog.Info) bool { return i.Status.Ended() || i.Status == runlog.Failed }

func place(i *runlog.Info) child {
	c := child{Run: i.ID}
	if q := i.Queue(); q != nil {
		c.Place = q.Place
	}
	return c
}

// follow stays until the execution of a run ends. It tells the workflow about new child runs, and stops the run when the worker stops, when another worker
// has the segment, or when the run only waits for a rate limit to pass, whose end it returns.
func (h *host) follow(ctx context.Context, r *superstep.Run, begun <-chan struct{}) (until time.Time) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = r.Wait(context.WithoutCancel(ctx))
	}()
	told := map[string]bool{}
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return time.Time{}
		case <-ctx.Done():
			r.Stop(ctx)
			return time.Time{}
		case <-activity.GetWorkerStopChannel(ctx):
			grace, cancel := context.WithTimeout(ctx, h.Grace)
			r.Stop(grace)
			cancel()
			return time.Time{}
		case <-begun:
			time.Sleep(tellAfter)
			h.tell(ctx, r.ID(), told)
		case <-tick.C:
			infos, err := h.engine.Runs(ctx, &runlog.Filter{ID: r.ID()})
			if err != nil || len(infos) == 0 {
				continue // the next append meets it
			}
			if s := summary.Of(&infos[0]); s != nil && s.Rests() && s.Until != nil && time.Until(*s.Until) > h.Rest {
				now, cancel := context.WithCancel(ctx)
				cancel()
				r.Stop(now)
				return *s.Until
			}
		}
	}
}

// tell tells the workflow about child runs that it does not know. What is lost, the end of the segment makes up for.
func (h *host) tell(ctx context.Context, run string, told map[string]bool) {
	children, err := h.engine.Children(ctx, run)
	if err != nil {
		return
	}
	var more []child
	for i := range children {
		if c := &children[i]; !told[c.ID] && !ended(c) {
			told[c.ID] = true
			more = append(more, place(c))
		}
	}
	info := activity.GetInfo(ctx)
	for some := range slices.Chunk(more, mostTold) {
		_ = activity.GetClient(ctx).SignalWorkflow(ctx, info.WorkflowExecution.ID, info.WorkflowExecution.RunID, signalChildren, some)
	}
}

// post carries out a message for a run.
func (h *host) post(ctx context.Context, m message) error {
	defer pulse(ctx)()
	var err error
	switch e := h.engine; {
	case m.Answer != nil:
		err = e.Answer(ctx, m.Run, m.Answer.Path, &m.Answer.Answer)
	case m.Budget != nil:
		err = e.Budget(ctx, m.Run, *m.Budget)
	case m.Pause != nil:
		err = e.Pause(ctx, m.Run, *m.Pause)
	case m.Steer != nil:
		err = e.Steer(ctx, m.Run, m.Steer.Agent, m.Steer.Text)
	case m.Cancel:
		if err = e.Cancel(ctx, m.Run); errors.As(err, new(*runlog.EndedError)) {
			err = nil
		}
		return err // until it is cancelled, even if it does not exist yet
	}
	if err == nil || ctx.Err() != nil || errors.Is(err, superstep.ErrClosed) {
		return err
	}
	if errors.As(err, new(*runlog.StorageError)) {
		return problem(ctx, err)
	}
	return never(err, "refused")
}

// pulse sends heartbeats until the returned function is called.
func pulse(ctx context.Context) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			activity.RecordHeartbeat(ctx)
			select {
			case <-time.After(beat):
			case <-quit:
				return
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

// stopping reports whether the worker stops.
func stopping(ctx context.Context) bool {
	select {
	case <-activity.GetWorkerStopChannel(ctx):
		return true
	default:
		return false
	}
}

// problem turns an error of the engine into one that says whether and when to try again. What it does not know may pass, such as a store that is down.
func problem(ctx context.Context, err error) error {
	var busy *runlog.BusyError
	switch {
	case errors.As(err, &busy):
		wait := min(max(time.Until(busy.Until), 200*time.Millisecond), 2*time.Second)
		return temporal.NewApplicationErrorWithOptions(err.Error(), "busy", temporal.ApplicationErrorOptions{NextRetryDelay: wait, Category: temporal.ApplicationErrorCategoryBenign})
	case errors.As(err, new(*runlog.QuarantinedError)):
		return never(err, "quarantined")
	case errors.As(err, new(*superstep.UntrustedError)), superstep.FailureCode(err) == superstep.CodeBudget:
		return never(err, superstep.FailureCode(err))
	case superstep.FailureCode(err) == superstep.CodeChanged, errors.As(err, new(*workflow.UnknownError)), errors.As(err, new(*superstep.RefusedError)):
		return elsewhere(err)
	}
	wait := time.Duration(min(activity.GetInfo(ctx).Attempt, 30)) * time.Second
	return temporal.NewApplicationErrorWithOptions(err.Error(), "", temporal.ApplicationErrorOptions{NextRetryDelay: wait})
}

// elsewhere reports that this worker has not the version of the workflow that began the run. Another one may have it.
func elsewhere(err error) error {
	return temporal.NewApplicationErrorWithOptions(fmt.Sprintf("not on this worker: %v", err), "changed", temporal.ApplicationErrorOptions{NextRetryDelay: retryElsewhere})
}

const retryElsewhere = 5 * time.Second

func never(err error, code string) error {
	return temporal.NewApplicationErrorWithOptions(err.Error(), code, temporal.ApplicationErrorOptions{NonRetryable: true})
}
