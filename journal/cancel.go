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
	look  sync.Mutex        // one Look at a time
	read  uint64            // how much of the requests was read; guarded by look
	mu    sync.Mutex        // guards the rest
	asked map[string]bool   // paths
	parts map[string]func() // by path
	pause *runlog.RunPaused // what was asked for, nil for nothing
	rest  func()            // see OnPause
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

// Look carries out what other processes requested since the last time. Hold looks with each renewal; who knows of a request
// looks at once. What cannot be read or carried out now is tried again later.
func (j *Journal) Look(ctx context.Context) {
	j.cancels.look.Lock()
	defer j.cancels.look.Unlock()
	for {
		// Most runs have no requests, and an error of the store itself the next append meets too.
		recs, _ := j.store.Read(ctx, unlisted.RequestsID(j.id), j.cancels.read+1, 64)
		for i := range recs {
			switch recs[i].Kind {
			case unlisted.KindCancel:
				j.CancelPart(recs[i].Path)
			case unlisted.KindPause:
				j.pause(&recs[i])
			case unlisted.KindReply:
				if !j.reply(ctx, &recs[i]) {
					return
				}
			}
			j.cancels.read = recs[i].Seq
		}
		if len(recs) == 0 {
			return
		}
	}
}

// pause asks the run to pause, unless it has done so already for that request.
func (j *Journal) pause(r *runlog.Record) {
	j.mu.Lock()
	done := r.Seq <= j.pauses
	j.mu.Unlock()
	var d runlog.RunPaused
	if done || len(r.Data) > 0 && json.Unmarshal(r.Data, &d) != nil {
		return
	}
	d.Request = r.Seq
	j.cancels.mu.Lock()
	if j.cancels.pause = &d; j.cancels.rest != nil {
		j.cancels.rest()
	}
	j.cancels.mu.Unlock()
	j.tell() // nobody waits for an answer any longer
}

// OnPause has f called, once or more, when somebody asks for the run to pause; see Pausing. Call it before Hold.
func (j *Journal) OnPause(f func()) { j.cancels.rest = f }

// Pausing returns the record of a pause that somebody asked for and that is not in the log yet, nil for none.
func (j *Journal) Pausing() *runlog.RunPaused {
	j.cancels.mu.Lock()
	defer j.cancels.mu.Unlock()
	return j.cancels.pause
}

// reply answers a question for another process, and reports whether the request is done with. One that was carried out before
// a crash finds its question answered.
func (j *Journal) reply(ctx context.Context, r *runlog.Record) bool {
	var a runlog.Answer
	if json.Unmarshal(r.Data, &a) != nil {
		return true
	}
	err := j.Answer(ctx, r.Path, &a)
	return err == nil || errors.As(err, new(*AnsweredError)) || errors.As(err, new(*UnfitError)) || errors.As(err, new(*UnaskedError))
}
