package journal

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/runlog"
)

// cancels are the parts of a run that can be cancelled, and those that shall be.
type cancels struct {
	look  sync.Mutex         // one Look at a time
	read  uint64             // how much of the requests was read; guarded by look
	mu    sync.Mutex         // guards the rest
	asked map[string]bool    // paths
	parts map[string]func()  // by path
	pause *runlog.RunPaused  // what was asked for, nil for nothing
	rest  func()             // see OnPause
	mail  []unlisted.Request // for agents; those that were handled leave when somebody looks
}

// CancelPart cancels the part of the run that has the path, and reports whether it was under way. One that begins
// later is cancelled at once.
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

// Cancellable has cancel called, once or more and not for long, when somebody asks for this part of the run to be
// cancelled, or has done so before; until stop is called. In a replay, and without a log, nobody asks.
func (s *Scope) Cancellable(cancel func()) (stop func()) {
	stop = func() {}
	if s != nil {
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

// Look carries out what other processes requested since the last time. Hold looks with each renewal, and who knows of a request
// looks at once. What cannot be read or carried out now, which the error says, is tried again the next time.
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

// handle carries out a request, unless that has been done, also by an earlier holder.
func (j *Journal) handle(ctx context.Context, r *unlisted.Request) error {
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
	case unlisted.KindSteer:
		j.cancels.mu.Lock()
		j.cancels.mail = append(j.cancels.mail, *r)
		j.cancels.mu.Unlock()
	}
	return nil
}

// pause asks the run to pause.
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
	j.tell() // nobody waits for an answer any longer
}

// OnPause has f called, once or more, when somebody asks for the run to pause, or has done so before; see Pausing.
func (j *Journal) OnPause(f func()) {
	j.cancels.mu.Lock()
	defer j.cancels.mu.Unlock()
	if j.cancels.rest = f; j.cancels.pause != nil {
		f()
	}
}

// Pausing returns the record of a pause that somebody asked for and that is not in the log yet, nil for none.
func (j *Journal) Pausing() *runlog.RunPaused {
	j.cancels.mu.Lock()
	defer j.cancels.mu.Unlock()
	return j.cancels.pause
}

// reply answers a question for another process. One that was carried out before a crash finds its question answered.
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
