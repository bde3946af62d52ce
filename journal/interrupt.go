package journal

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/mail"
	"github.com/superstep-dev/superstep/internal/unlisted"
)

// Interruptible returns a context for a model turn of an agent of the task. It ends with the cause mail.ErrInterrupted when a user interrupts the agent, and
// at once if a user has before the turn began. Work names the agent within its task, as in Steered. By returns the requests for that; the error of the turn's
// effect gives them to Do by a method Interrupted, with what is the outcome of the turn. They are then carried out. In a replay, the context never ends so.
// The caller calls stop when the turn has ended.
func (s *Scope) Interruptible(ctx context.Context, work string) (turn context.Context, by func() []string, stop func()) {
	turn, by, stop = ctx, func() []string { return nil }, func() {}
	if s.off() {
		return turn, by, stop
	}
	_ = s.Afresh(func() error {
		c, path := &s.j.cancels, strings.TrimSuffix(s.path+"/"+work, "/")
		by = func() []string { return s.j.interrupts(path) }
		own, cancel := context.WithCancelCause(ctx)
		end := func() { cancel(mail.ErrInterrupted) }
		c.mu.Lock()
		put(&c.turns, path, end)
		c.mu.Unlock()
		if len(by()) > 0 {
			end()
		}
		turn, stop = own, func() {
			c.mu.Lock()
			delete(c.turns, path)
			c.mu.Unlock()
			cancel(nil)
		}
		return nil
	})
	return turn, by, stop
}

// interrupts returns the requests to interrupt the agent at a path that were not carried out yet.
func (j *Journal) interrupts(path string) (ids []string) {
	c := &j.cancels
	j.mu.Lock()
	defer j.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.mail {
		if r := &c.mail[i]; r.Kind == unlisted.KindInterrupt && r.Path == path && !j.handled[r.ID] {
			ids = append(ids, r.ID)
		}
	}
	return slices.Compact(ids)
}

// interrupted is the error of an effect that a user has ended, with its outcome.
type interrupted interface {
	error
	Interrupted() (output json.RawMessage, by []string)
}

// wasInterrupted is the interruption that a record holds.
type wasInterrupted struct {
	error
	output json.RawMessage
	by     []string
}

// Interrupted implements interrupted.
func (e *wasInterrupted) Interrupted() (output json.RawMessage, by []string) { return e.output, e.by }
