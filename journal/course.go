package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/superstep-dev/superstep/runlog"
)

// A course decides what is not in the log yet: when something happens, and what comes of it. There are two: live, and
// the script of a replay, which repeats what another execution has recorded, without any of its effects. Nodes and
// agents need not know which it is. It is called from the goroutines of tasks.
type course interface {
	// turn waits until it is the turn of a record of that kind and path. The error is why it will never be.
	turn(ctx context.Context, kind runlog.Kind, path, key string) error
	// appends waits for the turn of records, gives them their times, and returns the context to write them with.
	appends(ctx context.Context, recs []runlog.Record) (context.Context, error)
	// perform does an effect of a scope, or gives what has come of it.
	perform(ctx context.Context, of *Scope, e *Effect) (json.RawMessage, error)
	// afresh calls f if what is not recorded counts.
	afresh(f func() error) error
	// asked is told that a task has found a question without an answer.
	asked(path, key string)
	// snapshot reports whether the next commit of the graph of a path is one with a snapshot, due if nobody knows better.
	snapshot(path string, due bool) bool
	timeout(ctx context.Context, path string, after time.Duration, cause error) (context.Context, context.CancelFunc)
	late(limited context.Context, path string, attempt int) (late, noted bool)
	recorded(path, key string) *Recorded
	failed(path string, attempt int) *runlog.TaskFailed
}

// live lets everything happen.
type live struct{}

func (live) turn(context.Context, runlog.Kind, string, string) error { return nil }

func (live) appends(ctx context.Context, _ []runlog.Record) (context.Context, error) { return ctx, nil }

func (live) perform(ctx context.Context, of *Scope, e *Effect) (json.RawMessage, error) {
	return e.Do(ctx, of.key(e.Key))
}

func (live) afresh(f func() error) error { return f() }

func (live) asked(string, string) {}

func (live) snapshot(_ string, due bool) bool { return due }

func (live) timeout(ctx context.Context, _ string, after time.Duration, cause error) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, after, cause)
}

func (live) late(limited context.Context, _ string, _ int) (late, noted bool) {
	return limited.Err() != nil, true
}

func (live) recorded(string, string) *Recorded { return nil }

func (live) failed(string, int) *runlog.TaskFailed { return nil }

// course is that of the scope's run; a run without a log is live.
func (s *Scope) course() course {
	if s == nil {
		return live{}
	}
	return s.j.course
}

// Afresh calls f, which decides by what no log has: the clock, rules and prices of today, room for others. A replay
// does not call it and returns nil.
func (s *Scope) Afresh(f func() error) error { return s.course().afresh(f) }

// Afresh is [Scope.Afresh] for the run as a whole. A nil Journal is that of a run without a log.
func (j *Journal) Afresh(f func() error) error {
	if j == nil {
		return f()
	}
	return j.course.afresh(f)
}

// Does reports whether the task does an effect of that key: if it would, and in a replay if it did.
func (s *Scope) Does(key string, would bool) bool {
	did := s.Recorded(key) != nil
	_ = s.Afresh(func() error { did = would; return nil })
	return did
}

// LateKey is the key of an effect that records that an attempt of a part ran out of time.
func LateKey(attempt int) string { return fmt.Sprintf("late-%d", attempt) }

// WithTimeout is context.WithTimeoutCause for an attempt of the scope's task as a whole. In a replay the
// record says when its time is up.
func (s *Scope) WithTimeout(ctx context.Context, after time.Duration, cause error) (context.Context, context.CancelFunc) {
	return s.course().timeout(ctx, s.Path(), after, cause)
}

// Late reports whether an attempt with a context of WithTimeout ran out of time, or one of a part of a task, which has
// an effect of the key LateKey then. In a replay noted reports whether the record says so; older logs do not of parts.
func (s *Scope) Late(limited context.Context, attempt int) (late, noted bool) {
	return s.course().late(limited, s.Path(), attempt)
}

// Failed returns the recorded failure of an attempt of the scope's task. It returns nil if there is none, and if nothing is
// replayed.
func (s *Scope) Failed(attempt int) *runlog.TaskFailed { return s.course().failed(s.Path(), attempt) }

// A ReplayedError is the recorded failure of an effect. Only its text is known.
type ReplayedError struct {
	Text    string
	refused bool
	partial json.RawMessage
}

func (e *ReplayedError) Error() string { return e.Text }

// Refused reports whether the effect has cost nothing.
func (e *ReplayedError) Refused() bool { return e.refused }

// Partial returns what there was of the output.
func (e *ReplayedError) Partial() json.RawMessage { return e.partial }

// Recorded is what a record has of an effect, but for what has come of it.
type Recorded struct {
	Name, Hint     string
	Input          json.RawMessage
	Intended, Once bool           // as an intent that comes next has it; Once also if the record asks whether an earlier one happened
	Cost, Spent    *runlog.Amount // nil for nothing
}

// Recorded returns what the record that is replayed has of an effect of the task: what comes next, or else what came
// last. It returns nil if there is nothing, and if nothing is replayed.
func (s *Scope) Recorded(key string) *Recorded { return s.course().recorded(s.Path(), key) }

// asRecorded returns the effect with what a replay must not decide anew: the name and the price of a model, and what a
// tool does to the world, are those of the day of the run.
func (s *Scope) asRecorded(e *Effect) *Effect {
	was := s.Recorded(e.Key)
	if was == nil || e.Inside {
		return e
	}
	out := *e
	out.Name, out.recorded, out.Cost = was.Name, was, runlog.Amount{}
	switch {
	case was.Once:
		out.Repeat = RepeatNever
	case was.Intended:
		out.Repeat = RepeatByKey
	default:
		out.Repeat = RepeatFreely
	}
	if was.Cost != nil {
		out.Cost = *was.Cost
	}
	return &out
}

// Turn waits until it is the turn of a record of that kind and path, which is at once unless the run is replayed.
func (j *Journal) Turn(ctx context.Context, kind runlog.Kind, path string) error {
	return j.course.turn(ctx, kind, path, "")
}
