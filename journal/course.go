package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/superstep-dev/superstep/runlog"
)

// A course decides when each new record is written and which outcome it has. There are two: live, and the script of a replay, which repeats the recorded
// outcomes of another execution without performing any effects. Nodes and agents need not know which one they run on. Its methods are called from the
// goroutines of tasks.
type course interface {
	// turn waits until a record of that kind and path may be written. It returns an error if that will never be.
	turn(ctx context.Context, kind runlog.Kind, path, key string) error
	// appends waits until the first of the records may be written. It returns how many of them may be written together now, with their times set, and the
	// context to write them with.
	appends(ctx context.Context, recs []runlog.Record) (int, context.Context, error)
	// perform performs an effect of a scope, or returns its recorded outcome.
	perform(ctx context.Context, of *Scope, e *Effect) (json.RawMessage, error)
	// afresh calls f unless the run is replayed.
	afresh(f func() error) error
	// asked notes that a task has asked a question that has no answer yet.
	asked(path, key string)
	// waits reports whether a question is open for the task until a later record, though it has an answer.
	waits(path, key string) bool
	// snapshot reports whether the next commit of the graph at a path writes a snapshot. Due is the answer unless a recording decides otherwise.
	snapshot(path string, due bool) bool
	// attaches reports whether the next record of that kind and path, the result of a task or a snapshot, may have an attachment. Logs from before there
	// were attachments have it in the data.
	attaches(kind runlog.Kind, path string) bool
	timeout(ctx context.Context, path string, after time.Duration, cause error) (context.Context, context.CancelFunc)
	late(limited context.Context, path string, attempt int) (late, noted bool)
	recorded(path, key string) *Recorded
	failed(path string, attempt int) *runlog.TaskFailed
}

// live lets everything happen.
type live struct{}

func (live) turn(context.Context, runlog.Kind, string, string) error { return nil }

func (live) appends(ctx context.Context, recs []runlog.Record) (int, context.Context, error) {
	return len(recs), ctx, nil
}

func (live) perform(ctx context.Context, of *Scope, e *Effect) (json.RawMessage, error) {
	return e.Do(ctx, of.key(e.Key))
}

func (live) afresh(f func() error) error { return f() }

func (live) asked(string, string) {}

func (live) waits(string, string) bool { return false }

func (live) snapshot(_ string, due bool) bool { return due }

func (live) attaches(runlog.Kind, string) bool { return true }

func (live) timeout(ctx context.Context, _ string, after time.Duration, cause error) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, after, cause)
}

func (live) late(limited context.Context, _ string, _ int) (late, noted bool) {
	return limited.Err() != nil, true
}

func (live) recorded(string, string) *Recorded { return nil }

func (live) failed(string, int) *runlog.TaskFailed { return nil }

// course returns the course of the scope's run, live for a run without a log.
func (s *Scope) course() course {
	if s.off() {
		return live{}
	}
	return s.j.course
}

// Afresh calls f, whose decision depends on things that no log holds: the clock, or the current rules, prices and load. In a replay, Afresh returns nil
// without calling f.
func (s *Scope) Afresh(f func() error) error { return s.course().afresh(f) }

// Afresh is [Scope.Afresh] for the run as a whole. A nil Journal is that of a run without a log.
func (j *Journal) Afresh(f func() error) error {
	if j == nil {
		return f()
	}
	return j.course.afresh(f)
}

// Does reports whether the task performs the effect with that key: it returns would, or in a replay whether the recorded task did.
func (s *Scope) Does(key string, would bool) bool {
	did := s.Recorded(key) != nil
	_ = s.Afresh(func() error { did = would; return nil })
	return did
}

// LateKey is the key of an effect that records that an attempt of a part ran out of time.
func LateKey(attempt int) string { return fmt.Sprintf("late-%d", attempt) }

// WithTimeout works like context.WithTimeoutCause, for a whole attempt of the scope's task. In a replay, the attempt times out where the recorded one
// did.
func (s *Scope) WithTimeout(ctx context.Context, after time.Duration, cause error) (context.Context, context.CancelFunc) {
	return s.course().timeout(ctx, s.Path(), after, cause)
}

// Late reports whether an attempt with a context of WithTimeout timed out. The attempt may be of a whole task or of a part of one; a timeout of a part
// is recorded as an effect with the key LateKey. In a replay, noted reports whether the record holds the timeout; older logs do not record timeouts of
// parts.
func (s *Scope) Late(limited context.Context, attempt int) (late, noted bool) {
	return s.course().late(limited, s.Path(), attempt)
}

// Failed returns the recorded failure of an attempt of the scope's task. It returns nil if there is none, or outside a replay.
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

// Partial returns the output up to the failure.
func (e *ReplayedError) Partial() json.RawMessage { return e.partial }

// Recorded holds the recorded data of an effect, except its outcome.
type Recorded struct {
	Name, Hint     string
	Input          json.RawMessage
	Intended, Once bool           // as an intent that comes next has it; Once also if the record asks whether an earlier one happened
	Cost, Spent    *runlog.Amount // nil for nothing
}

// Recorded returns the recorded data of an effect of the task during a replay: of the next record of the effect, or else of the last. It returns nil if
// there is none, or outside a replay.
func (s *Scope) Recorded(key string) *Recorded { return s.course().recorded(s.Path(), key) }

// asRecorded returns the effect with the recorded values that a replay must not decide anew: the name and the price of a model, and the kind of effect
// that a tool has.
func (s *Scope) asRecorded(e *Effect) *Effect {
	was := s.Recorded(e.Key)
	if was == nil {
		return e
	}
	out := *e
	if e.Inside {
		if e.Repeat == RepeatFreely && was.Intended { // an older log has an intent of it
			out.Repeat = RepeatByKey
		}
		return &out
	}
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

// Turn waits until a record of that kind and path may be written. Outside a replay, it returns at once.
func (j *Journal) Turn(ctx context.Context, kind runlog.Kind, path string) error {
	return j.course.turn(ctx, kind, path, "")
}
