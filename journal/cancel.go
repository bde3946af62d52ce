package journal

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/runlog"
)

// cancels holds the parts of a run that can be cancelled, and the requested cancellations.
type cancels struct {
	look  sync.Mutex         // one Look at a time
	read  uint64             // how much of the requests was read; guarded by look
	mu    sync.Mutex         // guards the rest
	asked map[string]bool    // paths
	parts map[string]func()  // by path
	pause *runlog.RunPaused  // what was asked for, nil for nothing
	rest  func()             // see OnPause
	mail  []unlisted.Request // for agents; those that were handled leave when somebody looks
	turns map[string]func()  // ends the model turns that are under way, by the paths of their agents
}

// CancelPart cancels the part of the run at the path, and reports whether it was running. If it begins later, it is cancelled at once.
func (j *Journal) CancelPart(path string) bool {
	c := &j.cancels
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked == nil {
		c.asked = map[string]bool{}
	}
	c.asked[path] = true
	cancel := c.parts[path]
	if cancel != nil {
		cancel()
	}
	return cancel != nil
}

// Cancellable registers cancel, which is called, once or more, when a user asks to cancel this part of the run, and at once if a user already has.
// Cancel must return quickly. It is not called any more after stop is called, and never in a replay or without a log.
func (s *Scope) Cancellable(cancel func()) (stop func()) {
	stop = func() {}
	if !s.off() {
		_ = s.Afresh(func() error { stop = s.cancellable(cancel); return nil })
	}
	return stop
}

func (s *Scope) cancellable(cancel func()) (stop func()) {
	c := &s.j.cancels
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.parts == nil {
		c.parts = map[string]func(){}
	}
	c.parts[s.path] = cancel
	if c.asked[s.path] {
		cancel()
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.parts, s.path)
	}
}

// Look carries out the requests that other processes have made since the last call. Hold calls it with each renewal of the lease; a caller that knows of
// a request calls it at once. If a request cannot be read or carried out, Look returns an error, and the next call tries again.
func (j *Journal) Look(ctx context.Context) error {
	j.cancels.look.Lock()
	defer j.cancels.look.Unlock()
	for {
		all, err := unlisted.Read(ctx, j.store, j.id, j.cancels.read)
		for i := range all {
			if err := j.handle(ctx, &all[i]); err != nil {
				return err
			}
			j.cancels.read = all[i].Seq
		}
		if err != nil || len(all) == 0 {
			return err
		}
	}
}

// handle carries out a request, unless this or an earlier holder has already done so. A request without an ID is refused, since nothing could tell that:
// it is not from Post. Only a cancellation may happen twice.
func (j *Journal) handle(ctx context.Context, r *unlisted.Request) error {
	if r.ID == "" && r.Kind != unlisted.KindCancel {
		return nil
	}
	j.mu.Lock()
	done := j.handled[r.ID]
	j.mu.Unlock()
	if done {
		return nil
	}
	switch r.Kind {
	case unlisted.KindCancel:
		j.CancelPart(r.Path)
	case unlisted.KindPause:
		j.pause(r)
	case unlisted.KindReply:
		return j.reply(ctx, r)
	case unlisted.KindBudget:
		return j.rebudget(ctx, r)
	case unlisted.KindLend:
		return j.lend(ctx, r)
	case unlisted.KindSteer, unlisted.KindInterrupt:
		j.cancels.mu.Lock()
		j.cancels.mail = append(j.cancels.mail, *r)
		if end := j.cancels.turns[r.Path]; end != nil && r.Kind == unlisted.KindInterrupt {
			end()
		}
		j.cancels.mu.Unlock()
	}
	return nil
}

// pause carries out a request to pause the run.
func (j *Journal) pause(r *unlisted.Request) {
	var d runlog.RunPaused
	if len(r.Data) > 0 && json.Unmarshal(r.Data, &d) != nil {
		return
	}
	d.Request = r.ID
	j.cancels.mu.Lock()
	if j.cancels.pause = &d; j.cancels.rest != nil {
		j.cancels.rest()
	}
	j.cancels.mu.Unlock()
	j.tell(func(string) bool { return true }) // nobody waits for an answer any longer
}

// OnPause registers f, which is called, once or more, when a user asks to pause the run, and at once if a user already has; see Pausing.
func (j *Journal) OnPause(f func()) {
	j.cancels.mu.Lock()
	defer j.cancels.mu.Unlock()
	if j.cancels.rest = f; j.cancels.pause != nil {
		f()
	}
}

// Pausing returns the record of a requested pause that is not in the log yet, or nil if there is none.
func (j *Journal) Pausing() *runlog.RunPaused {
	j.cancels.mu.Lock()
	defer j.cancels.mu.Unlock()
	return j.cancels.pause
}

// reply answers a question for another process. If the request was already carried out before a crash, the question has its answer.
func (j *Journal) reply(ctx context.Context, r *unlisted.Request) error {
	var a runlog.Answer
	if json.Unmarshal(r.Data, &a) != nil {
		return nil
	}
	err := j.Answer(ctx, r.Path, &a)
	if errors.As(err, new(*AnsweredError)) || errors.As(err, new(*UnfitError)) || errors.As(err, new(*UnaskedError)) {
		return nil // its sender finds that too
	}
	return err
}
