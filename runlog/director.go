package runlog

import (
	"context"
	"encoding/json"
	"time"
)

// A Director makes an execution of a run repeat what another has recorded, without doing
// any of its effects. It is called from the goroutines of tasks.
type Director interface {
	// Turn waits until it is the turn of a record of that kind and path and, of an
	// effect, question or event, that key or name. The error is why it will never be.
	Turn(ctx context.Context, kind Kind, path, key string) error
	// Stamp gives records whose turn it is the times they are to have.
	Stamp(recs []Record)
	// Outcome gives what has come of an effect, or an error if that is not known.
	Outcome(ctx context.Context, path string, e *Effect) (Settled, error)
	// Waits is told that a task has found a question without an answer.
	Waits(path, key string)
	// Final gives whether the recorded attempt of a task was its last one, and whether
	// there is a record of it.
	Final(path string, attempt int) (final, known bool)
}

// A Snapper is a Director that knows which superstep was recorded with a snapshot. What
// went on beside it decided that, which is not the same each time.
type Snapper interface {
	// Snapped reports whether the next commit of the graph of a path has one.
	Snapped(path string) bool
}

// A Timer is a Director that knows which attempts of tasks ran out of time.
type Timer interface {
	// Limit has cut called when it is the turn of the failure of the task of a path and its
	// attempt waits for what the record does not have. Stop ends that.
	Limit(path string, cut func()) (stop func())
}

// WithTimeout is context.WithTimeoutCause for an attempt of the scope's task as a whole. In a replay the
// record says when its time is up.
func (s *Scope) WithTimeout(ctx context.Context, after time.Duration, cause error) (context.Context, context.CancelFunc) {
	if !s.Replayed() {
		return context.WithTimeoutCause(ctx, after, cause)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := func() {}
	if t, ok := s.j.opt.Director.(Timer); ok {
		stop = t.Limit(s.path, func() { cancel(cause) })
	}
	return ctx, func() { stop(); cancel(nil) }
}

// A ReplayedError is the recorded failure of an effect. Only its text is known.
type ReplayedError struct {
	Text    string
	refused bool
}

func (e *ReplayedError) Error() string { return e.Text }

// Refused reports whether the effect has cost nothing.
func (e *ReplayedError) Refused() bool { return e.refused }

// Director is who directs the execution, nil for nobody.
func (j *Journal) Director() Director { return j.opt.Director }

// turn waits for the turn of a record.
func (j *Journal) turn(ctx context.Context, r *Record) error {
	var named struct{ Key, Name string }
	switch r.Kind {
	case KindIntended, KindSettled, KindAsked, KindAnswered:
		if err := json.Unmarshal(r.Data, &named); err != nil {
			return err
		}
	case KindEvent:
		if err := json.Unmarshal(r.Data, &named); err != nil {
			return err
		}
		named.Key = named.Name
	}
	return j.opt.Director.Turn(ctx, r.Kind, r.Path, named.Key)
}

// do does an effect, or gives what has come of it.
func (s *Scope) do(ctx context.Context, e *Effect) (json.RawMessage, error) {
	if d := s.j.opt.Director; d != nil && !e.Inside {
		was, err := d.Outcome(ctx, s.path, e)
		if err == nil && was.Error != "" {
			err = &ReplayedError{was.Error, was.Spent == nil}
		}
		return was.Output, err
	}
	return e.Do(ctx, s.key(e.Key))
}

// turnToAsk waits for the turn of a question that is new, before anything is locked.
func (s *Scope) turnToAsk(ctx context.Context, q *Asked) error {
	d := s.j.opt.Director
	if d == nil {
		return nil
	}
	s.j.mu.Lock()
	_, asked := s.j.of(s.path).asked[q.Key]
	s.j.mu.Unlock()
	if asked {
		return nil
	}
	return d.Turn(ctx, KindAsked, s.path, q.Key)
}
