package host

import (
	"context"
	"fmt"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/summary"
	"github.com/superstep-dev/superstep/runlog"
)

// Answer answers a question of a run, whichever process executes it, see [superstep.Engine.Answer]. All faces answer through it. It calls resume for a run
// that then waits for nothing and that no process executes. A run stays as it is if it began queued, so that a worker continues it, a person paused it, its
// budget is used up, it failed, or other questions are open; rests then says so, such as "its budget is used up". An error of resume is returned behind a
// text that the answer is recorded.
func Answer(ctx context.Context, e *superstep.Engine, id, path string, a *runlog.Answer, resume func(context.Context) error) (rests string, err error) {
	before, err := lookup(ctx, e, id)
	if err == nil {
		err = e.Answer(ctx, id, path, a)
	}
	if err != nil {
		return "", err
	}
	info, err := lookup(ctx, e, id)
	if err != nil {
		return "", err
	}
	if before.Status == runlog.Running && info.Status == runlog.Interrupted { // before the answer, or by what went on with it
		if took, err := went(ctx, e, &info, before.Head); took || err != nil {
			return "", err
		}
	}
	rests, goes := continues(&info)
	if !goes {
		return rests, nil
	}
	if err = resume(ctx); err == nil {
		return "", nil
	}
	if now, ferr := lookup(ctx, e, id); ferr == nil && (now.Status == runlog.Running || now.Status.Ended()) {
		return "", nil // whoever gave another answer at the same time has resumed it
	}
	return "", fmt.Errorf("the answer is recorded, but run %s cannot be resumed: %w", id, err)
}

func lookup(ctx context.Context, e *superstep.Engine, id string) (runlog.Info, error) {
	info, err := e.Find(ctx, id) // whose error says whether the run is hidden
	if err == nil && info.ID != id {
		err = &runlog.NotFoundError{ID: id, Store: "the store"}
	}
	return info, err
}

// went reports whether work was recorded behind an answer that came after a record.
func went(ctx context.Context, e *superstep.Engine, info *runlog.Info, head uint64) (bool, error) {
	answered := false
	for rec, err := range e.Follow(ctx, info.ID, head+1) {
		switch {
		case err != nil:
			return false, err
		case rec.Kind == runlog.KindAnswered:
			answered = true
		case answered && rec.Kind != runlog.KindRunPaused && rec.Kind != runlog.KindAsked:
			return true, nil
		}
		if rec.Seq >= info.Head {
			break
		}
	}
	return false, nil
}

// continues reports whether a run has to be resumed after an answer, or else why it stays as it is, "" if it runs or has ended. The journal has decided:
// a paused run is interrupted once it waits for nothing.
func continues(info *runlog.Info) (rests string, goes bool) {
	sum := summary.Of(info)
	switch {
	case info.Status == runlog.Running || info.Status.Ended():
		return "", false
	case info.Status == runlog.Queued && !info.IsChild():
		return "it waits for a worker", false
	case info.Status == runlog.Failed:
		return "it failed", false
	case info.Status != runlog.Paused && info.Status != runlog.Interrupted && info.Status != runlog.Queued:
		return "it is " + string(info.Status), false
	case sum != nil && sum.Open > 0:
		return "it has " + inwords.Plural(sum.Open, "other open question"), false
	case info.Status != runlog.Paused:
		return "", true
	case sum == nil || sum.Waits == summary.Operator:
		return "a person paused it", false
	}
	return map[string]string{summary.Budget: "its budget is used up", summary.Message: "it waits for the next message", summary.Run: "it waits for a child run"}[sum.Waits], false
}
