package journal

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/superstep-dev/superstep/internal/cut"
	"github.com/superstep-dev/superstep/runlog"
)

// Repeat decides whether an effect whose outcome is unknown after a crash is repeated.
type Repeat uint8

// The ways to treat an effect whose outcome is unknown.
const (
	RepeatFreely Repeat = iota // it changes nothing: again, and no intent is written ahead of it
	RepeatByKey                // again, with the same key
	RepeatNever                // a person decides
)

// An Effect is something a task does to the world or asks of it.
type Effect struct {
	Key    string // names it within its task; the same whenever the task runs again
	Kind   string // "model", "tool", or a word of the caller's
	Name   string // which model or tool, for people
	Repeat Repeat
	Hash   string        // of what goes in; "" if nobody wants to know whether that changed
	Input  any           // what goes in, where people want to see it; nil for nothing
	Hint   string        // what the task was told with it, kept for when it runs again; see Scope.Hint
	Cost   runlog.Amount // what it may cost, which is set aside before it begins
	// Spent is what it did cost, by its output. Nil means Cost.
	Spent func(output json.RawMessage) runlog.Amount
	// Inside says that Do is work of the run itself, whose own effects are in the log: a
	// replay does it too.
	Inside bool
	// Told converts a user's answer about a lost outcome into the output of an effect whose output is text, such as a tool call. If nil, the user enters
	// the output itself, as JSON.
	Told func(text string) any
	fits func(output json.RawMessage) error // see Do; nil if anything does
	// Within, if non-nil, is the part of the log in which Do records everything it does. A replay does not perform an effect that is Inside either, if it
	// has an outcome and no records in Within.
	Within *Scope
	// Recover looks for the outcome of an earlier attempt that a crash cut off, before a user is asked about it, and returns nil if it finds none. It is
	// for effects with RepeatNever. If nil, the user is asked.
	Recover func(ctx context.Context) (json.RawMessage, error)
	// Doubt is the question that a user is asked about an unknown outcome. The default names the effect and its input.
	Doubt string
	// Took is for how long an effect took that happened before it is recorded. If 0, Do is measured.
	Took time.Duration
	// Do performs the effect. The key is stable across crashes and attempts and unique to the effect. The output is JSON.
	Do func(ctx context.Context, key string) (json.RawMessage, error)

	recorded *Recorded // in a replay
	none     bool      // nothing was left for it when its Cost was found out
}

// A DivergedError reports that a task, run again, does something else than it recorded: the code or its input from outside has changed since.
type DivergedError struct{ Path, Key string }

func (e *DivergedError) Error() string {
	return fmt.Sprintf("%s: effect %q goes in differently than it is recorded; the workflow or its tools changed since the run began; "+
		"start a new run, or go back to the version that began it", e.Path, e.Key)
}

// Do performs an effect and records its outcome; if one is recorded, Do returns it. If only an intent is recorded, Do repeats the effect if
// it is repeatable, and otherwise asks a user (*WaitError). A failure is recorded too, but the next Do tries again. The outcome is durable when Do
// returns. If the budget does not cover the effect, it does not begin (*BudgetError). In one attempt of the task, the key of an effect that has succeeded
// cannot be used again (*UsedError), see [Scope.Attempt].
func (s *Scope) Do(ctx context.Context, e *Effect) (json.RawMessage, error) {
	if err := s.take(e.use(), e.Name, e.Key); err != nil {
		return nil, err
	}
	out, err := s.do(ctx, e)
	if err != nil {
		s.free(e.Key)
	}
	return out, err
}

func (s *Scope) do(ctx context.Context, e *Effect) (json.RawMessage, error) {
	if s.off() {
		return e.Do(ctx, rand.Text()) // a key that nothing else has
	}
	j := s.j
	j.mu.Lock()
	m := j.of(s.path)
	done, settled := m.settled[e.Key]
	intents, kept := m.intents[e.Key], m.held[e.Key]
	j.mu.Unlock()
	if settled && done.Error == "" {
		if done.Hash != e.Hash {
			return nil, &DivergedError{s.path, e.Key}
		}
		return done.Output, nil
	}
	e = s.asRecorded(e)
	input, err := encodeInput(e)
	if err != nil {
		return nil, err
	}
	if intents.open && e.Repeat == RepeatNever {
		if out, err := s.recover(ctx, e, intents.n); err != nil {
			return nil, err
		} else if out != nil { // recorded as it is replayed: an effect that needs no intent
			known := runlog.Settled{Key: e.Key, Kind: e.Kind, Name: e.Name, Hash: e.Hash, Input: input, Output: out, Hint: e.Hint, Spent: e.cost(out, nil)}
			return out, j.Write(ctx, "", runlog.KindSettled, s.path, known)
		}
		out, err := s.unknown(ctx, e, intents.n)
		if err != nil {
			return nil, err
		}
		if out != nil {
			known := runlog.Settled{Key: e.Key, Kind: e.Kind, Name: e.Name, Hash: e.Hash, Output: out, Hint: e.Hint, Spent: e.cost(out, nil)}
			return out, j.Write(ctx, "", runlog.KindSettled, s.path, known)
		}
	}
	release, err := j.reserve(s.path, e)
	if err != nil {
		return nil, err
	}
	defer release()
	if e.Repeat != RepeatFreely && !(e.Kind == kindRun && intents.open && kept == e.Cost) { // a child run goes on as it was intended
		intent := runlog.Intended{Key: e.Key, Kind: e.Kind, Name: e.Name, Once: e.Repeat == RepeatNever, Hash: e.Hash, Input: input, Hint: e.Hint, Cost: some(e.Cost)}
		if err := j.Write(ctx, "", runlog.KindIntended, s.path, intent); err != nil {
			return nil, err
		}
		input = nil
	} else if e.Took == 0 {
		j.Live(runlog.KindIntended, s.path, runlog.Intended{Key: e.Key, Kind: e.Kind, Name: e.Name, Hash: e.Hash, Input: input})
	}
	j.fail("effect.before")
	j.tries(s.path, e.Key)
	begun := j.opt.Now()
	out, err := j.course.perform(ctx, s, e)
	took := cmp.Or(e.Took, max(0, j.opt.Now().Sub(begun))).Milliseconds()
	outcome := runlog.Settled{Key: e.Key, Kind: e.Kind, Name: e.Name, Took: took, First: s.sinceFirst(e.Key, begun)}
	j.fail("effect.after")
	if by, ok := errors.AsType[interrupted](err); ok {
		out, outcome.Interrupted = by.Interrupted()
		err = nil
	}
	if err != nil {
		outcome.Partial = partial(err)
	}
	if err != nil && ctx.Err() != nil {
		s.keepCut(ctx, e, outcome)
	}
	if err != nil && (ctx.Err() != nil || (e.Repeat == RepeatFreely || e.Inside) && (Waits(err) || stopped(err))) {
		return nil, err // stopped, or waiting for an answer, and not failed
	}
	outcome.Hash, outcome.Input, outcome.Output, outcome.Hint, outcome.Spent = e.Hash, input, out, e.Hint, e.cost(out, err)
	if err != nil {
		outcome.Output, outcome.Error = nil, err.Error()
	}
	// What has happened is recorded even if the run is being stopped meanwhile.
	if werr := j.Write(context.WithoutCancel(ctx), "", runlog.KindSettled, s.path, outcome); werr != nil {
		return nil, errors.Join(werr, err)
	}
	if err != nil {
		return out, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.of(s.path).settled[e.Key].Output, nil // as it is recorded: the store may have taken secrets out
}

// stopped reports whether an error says that something was stopped between two tasks.
func stopped(err error) bool {
	s, ok := errors.AsType[interface {
		error
		Stopped() bool
	}](err)
	return ok && s.Stopped()
}

// use returns how a *UsedError names the effect.
func (e *Effect) use() string {
	if e.Kind == "agent" || e.Kind == "job" {
		return e.Kind
	}
	return "effect"
}

// partial returns what there was of the output of an effect that failed, nil for nothing.
func partial(err error) json.RawMessage {
	part, ok := errors.AsType[interface {
		error
		Partial() json.RawMessage
	}](err)
	if !ok {
		return nil
	}
	return part.Partial()
}

// keepCut records what there was of the output of an effect when the effect was interrupted. That is for people: the effect has no outcome, and is
// performed again. If the record cannot be written, the text is lost, as after a crash.
func (s *Scope) keepCut(ctx context.Context, e *Effect, d runlog.Settled) {
	if e.Inside || len(d.Partial) == 0 { // what is inside keeps its own
		return
	}
	_ = s.Afresh(func() error {
		event, err := newEvent(cut.Event, d)
		if err != nil {
			return err
		}
		return s.j.Write(context.WithoutCancel(ctx), "", runlog.KindEvent, s.path, event)
	})
}

// effect names an effect of a run.
type effect struct{ path, key string }

// tries counts an attempt of an effect, if effects are told their place in the trace of the run.
func (j *Journal) tries(path, key string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.tried != nil {
		j.tried[effect{path, key}]++
	}
}

// First notes that the running effect of the task with that key has its first output, such as the first token of a model. Only the first call counts.
func (s *Scope) First(key string) {
	if s.off() {
		return
	}
	now := s.j.opt.Now()
	s.j.mu.Lock()
	defer s.j.mu.Unlock()
	if at := (effect{s.path, key}); s.j.firsts[at].IsZero() {
		put(&s.j.firsts, at, now)
	}
}

// sinceFirst returns how long an effect that began at a time took to its first output, in milliseconds; 0 if that is not known. It forgets that output.
func (s *Scope) sinceFirst(key string, begun time.Time) int64 {
	s.j.mu.Lock()
	defer s.j.mu.Unlock()
	at := effect{s.path, key}
	first, ok := s.j.firsts[at]
	if !ok {
		return 0
	}
	delete(s.j.firsts, at)
	return max(0, first.Sub(begun).Milliseconds())
}

// recover returns the outcome of the first attempt of an effect, if the effect can find it and no user was asked about it.
func (s *Scope) recover(ctx context.Context, e *Effect, intents int) (out json.RawMessage, err error) {
	if _, asked, _ := s.question(runlog.UnknownKey(e.Key, intents)); e.Recover == nil || asked || intents > 1 {
		return nil, nil
	}
	err = s.Afresh(func() error { out, err = e.Recover(ctx); return err })
	return out, err
}

// Begun shows the current followers of the run that an effect has begun, which is recorded when it has ended.
func (s *Scope) Begun(e *Effect) {
	if s.off() {
		return
	}
	if input, err := encodeInput(e); err == nil {
		s.j.Live(runlog.KindIntended, s.path, runlog.Intended{Key: e.Key, Kind: e.Kind, Name: e.Name, Input: input})
	}
}

func encodeInput(e *Effect) (json.RawMessage, error) {
	if e.Input == nil {
		return nil, nil
	}
	b, err := json.Marshal(e.Input)
	if err != nil {
		return nil, fmt.Errorf("encoding the input of effect %q: %w", e.Key, err)
	}
	return b, nil
}

// told converts a user's answer into the output of an effect, or returns why the answer cannot be its output.
func (e *Effect) told(out json.RawMessage) (json.RawMessage, error) {
	if e.Told != nil {
		var text string
		if json.Unmarshal(out, &text) != nil {
			text = string(out) // JSON is the text then
		}
		var err error
		if out, err = json.Marshal(e.Told(text)); err != nil {
			return nil, err
		}
	}
	if e.fits == nil {
		return out, nil
	}
	return out, e.fits(out)
}

// Done returns the output of an effect of the task, and reports whether the effect has succeeded.
func (s *Scope) Done(key string) (output json.RawMessage, done bool) {
	if s.off() {
		return nil, false
	}
	s.j.mu.Lock()
	defer s.j.mu.Unlock()
	d, ok := s.j.of(s.path).settled[key]
	return d.Output, ok && d.Error == ""
}

// Final reports whether nothing is in the log after the last effect of the task that is the end of the run: it was about to end.
func (s *Scope) Final() bool {
	if s.off() {
		return false
	}
	s.j.mu.Lock()
	defer s.j.mu.Unlock()
	return s.j.of(s.path).at > s.j.failed
}

// Hint returns the recorded Hint of an effect of the task, and reports whether the effect has begun.
func (s *Scope) Hint(key string) (hint string, begun bool) {
	if s.off() {
		return "", false
	}
	if e := s.Recorded(key); e != nil {
		return e.Hint, true
	}
	s.j.mu.Lock()
	defer s.j.mu.Unlock()
	m := s.j.of(s.path)
	if d, ok := m.settled[key]; ok {
		return d.Hint, true
	}
	in := m.intents[key]
	return in.hint, in.n > 0
}

// key returns the idempotency key of an effect: stable across crashes and attempts.
func (s *Scope) key(effect string) string {
	h := sha256.Sum256([]byte(s.j.id + "\x00" + s.path + "\x00" + effect))
	return hex.EncodeToString(h[:16])
}

// Hash returns a short digest of any value that encodes as JSON, for Effect.Hash.
func Hash(v any) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:12]), nil
}

// Do works like [Scope.Do], for an output of any type that encodes as JSON.
func Do[T any](ctx context.Context, s *Scope, e *Effect, do func(ctx context.Context, key string) (T, error)) (T, error) {
	var out T
	typed := *e
	typed.fits = func(output json.RawMessage) error { return json.Unmarshal(output, new(T)) }
	typed.Do = func(ctx context.Context, key string) (json.RawMessage, error) {
		v, err := do(ctx, key)
		if err != nil {
			return nil, err
		}
		return json.Marshal(v)
	}
	b, err := s.Do(ctx, &typed)
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(b, &out); err != nil {
		return out, fmt.Errorf("%s: the recorded outcome of effect %q: %w", s.Path(), e.Key, err)
	}
	return out, nil
}
