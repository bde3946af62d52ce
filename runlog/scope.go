package runlog

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// A Scope is one task's way into its run's log. A nil Scope is that of a run without
// a log: effects just happen, events go nowhere, and questions cannot be asked.
type Scope struct {
	j    *Journal
	path string
}

// Scope is the part of the log that belongs to the task of that path.
func (j *Journal) Scope(path string) *Scope { return &Scope{j: j, path: path} }

// Path is the identity of the task, "" without a log.
func (s *Scope) Path() string {
	if s == nil {
		return ""
	}
	return s.path
}

// Run is the identity of the run, "" without a log.
func (s *Scope) Run() string {
	if s == nil {
		return ""
	}
	return s.j.id
}

// Inner is the scope of a part of the task, which has a name of its own. A name is made
// of the characters that names of nodes are.
func (s *Scope) Inner(name string) *Scope {
	if s == nil {
		return nil
	}
	return s.j.Scope(s.path + "/" + name)
}

// Replayed reports whether the run is one that repeats a record, see Director: nothing waits
// for the clock in it, nor for others to make room.
func (s *Scope) Replayed() bool { return s != nil && s.j.opt.Director != nil }

// Listen is [Journal.Listen]. Without a log there are no answers.
func (s *Scope) Listen() (answered <-chan struct{}, stop func()) {
	if s == nil {
		return nil, func() {}
	}
	return s.j.Listen()
}

// Repeat says what may happen to an effect whose outcome a crash has swallowed.
type Repeat uint8

// What may happen to an effect of unknown outcome.
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
	Hash   string // of what goes in; "" if nobody wants to know whether that changed
	Input  any    // what goes in, where people want to see it; nil for nothing
	Hint   string // what the task was told with it, kept for when it runs again; see Scope.Hint
	Cost   Amount // what it may cost, which is set aside before it begins
	// Spent is what it did cost, by its output. Nil means Cost.
	Spent func(output json.RawMessage) Amount
	// Inside says that Do is work of the run itself, whose own effects are in the log: a
	// replay does it too.
	Inside bool
	// Do does it. The key is stable across crashes and attempts and unique to the
	// effect. The output is JSON.
	Do func(ctx context.Context, key string) (json.RawMessage, error)
}

// A DivergedError says that a task, run again, does something else than the log has
// of it: the code or what it reads has changed since.
type DivergedError struct{ Path, Key string }

func (e *DivergedError) Error() string {
	return fmt.Sprintf("%s: effect %q goes in differently than it is recorded; the workflow or its tools changed since the run began; start a new run, or go back to the version that began it", e.Path, e.Key)
}

// A WaitError says that a task cannot go on before a question is answered. A task
// that gets one returns it; it is run again from its top with the answer.
type WaitError struct {
	Path     string
	Question Asked
}

func (e *WaitError) Error() string { return fmt.Sprintf("%s asks: %s", e.Path, e.Question.Question) }

// Waits reports that the task is not over.
func (e *WaitError) Waits() bool { return true }

// Waits reports whether an error says that a task has not failed but waits for
// something outside: it, or one that it wraps, has a method Waits that says so.
func Waits(err error) bool {
	var w interface {
		error
		Waits() bool
	}
	return errors.As(err, &w) && w.Waits()
}

// ErrDenied says that a question will not be answered.
var ErrDenied = errors.New("denied")

// ErrNoLog says that a run without a log cannot ask.
var ErrNoLog = errors.New("a run without a log cannot pause for an answer; run it with a journal")

// Do makes an effect happen once as far as that can be had: a recorded outcome is
// given again, an intent without an outcome is repeated if the effect may be, and a
// person is asked otherwise (*WaitError). A failure is recorded too, but the next Do
// tries again. The outcome is durable when Do returns. An effect that the budget has
// not enough left for does not begin (*BudgetError).
func (s *Scope) Do(ctx context.Context, e *Effect) (json.RawMessage, error) {
	if s == nil {
		return e.Do(ctx, rand.Text()) // a key that nothing else has
	}
	j := s.j
	j.mu.Lock()
	m := j.of(s.path)
	done, settled := m.settled[e.Key]
	intents := m.intents[e.Key]
	j.mu.Unlock()
	if settled && done.Error == "" {
		if done.Hash != e.Hash {
			return nil, &DivergedError{s.path, e.Key}
		}
		return done.Output, nil
	}
	if intents.open && e.Repeat == RepeatNever {
		out, err := s.unknown(ctx, e, intents.n)
		if err != nil {
			return nil, err
		}
		if out != nil {
			known := Settled{Key: e.Key, Kind: e.Kind, Name: e.Name, Hash: e.Hash, Output: out, Hint: e.Hint, Spent: e.cost(out, nil)}
			return out, j.Write(ctx, "", KindSettled, s.path, known)
		}
	}
	input, err := encodeInput(e)
	if err != nil {
		return nil, err
	}
	release, err := j.reserve(s.path, e)
	if err != nil {
		return nil, err
	}
	defer release()
	if e.Repeat != RepeatFreely {
		intent := Intended{Key: e.Key, Kind: e.Kind, Name: e.Name, Once: e.Repeat == RepeatNever, Hash: e.Hash, Input: input, Hint: e.Hint, Cost: e.Cost.or()}
		if err := j.Write(ctx, "", KindIntended, s.path, intent); err != nil {
			return nil, err
		}
		input = nil
	} else {
		j.Live(KindIntended, s.path, Intended{Key: e.Key, Kind: e.Kind, Name: e.Name, Hash: e.Hash, Input: input})
	}
	j.fail("effect.before")
	out, err := s.do(ctx, e)
	j.fail("effect.after")
	if err != nil && (ctx.Err() != nil || e.Repeat == RepeatFreely && Waits(err)) {
		return nil, err // stopped, or waiting for an answer, and not failed
	}
	outcome := Settled{Key: e.Key, Kind: e.Kind, Name: e.Name, Hash: e.Hash, Input: input, Output: out, Hint: e.Hint, Spent: e.cost(out, err)}
	if err != nil {
		outcome.Output, outcome.Error = nil, err.Error()
	}
	// What has happened is recorded even if the run is being stopped meanwhile.
	if werr := j.Write(context.WithoutCancel(ctx), "", KindSettled, s.path, outcome); werr != nil {
		return nil, errors.Join(werr, err)
	}
	if err != nil {
		return out, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.of(s.path).settled[e.Key].Output, nil // as it is recorded: the store may have taken secrets out
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

// The answers to the question about an effect of unknown outcome.
const (
	UnknownAgain    = "do it again"
	UnknownHappened = "it happened" // with Answered.Output what it gave, where that is known
)

const unknownPrefix = "unknown:"

// Unknown reports whether the question is about an effect that must not happen twice and
// whose outcome a crash has swallowed, and names the effect.
func (q *Asked) Unknown() (effect string, ok bool) {
	rest, ok := strings.CutPrefix(q.Key, unknownPrefix)
	i := strings.LastIndexByte(rest, ':')
	if !ok || i < 0 || !slices.Equal(q.Options, []string{UnknownAgain, UnknownHappened}) {
		return "", false
	}
	return rest[:i], true
}

// unknown asks what to do about an effect that must not be repeated and whose outcome
// is not known. It gives nil if it is to be repeated all the same, or what it gave.
func (s *Scope) unknown(ctx context.Context, e *Effect, intents int) (json.RawMessage, error) {
	q := &Asked{
		Key:      fmt.Sprintf("%s%s:%d", unknownPrefix, e.Key, intents),
		Question: fmt.Sprintf("%s %s was under way when the run was cut off, and it must not happen twice. Did it happen?", e.Kind, e.Name) + with(e.Input),
		Options:  []string{UnknownAgain, UnknownHappened},
	}
	answer, err := s.Ask(ctx, q)
	if err != nil {
		return nil, err
	}
	var choice string
	if err := json.Unmarshal(answer, &choice); err != nil {
		return nil, fmt.Errorf("%s: the answer about effect %q: %w", s.path, e.Key, err)
	}
	if choice == UnknownAgain {
		return nil, nil
	}
	s.j.mu.Lock()
	out := s.j.of(s.path).answers[q.Key].Output
	s.j.mu.Unlock()
	if out != nil {
		return out, nil
	}
	return nil, &HappenedError{Name: e.Name}
}

// with shows what an effect was begun with, cut at a length that people read.
func with(input any) string {
	if input == nil {
		return ""
	}
	b, err := json.Marshal(input)
	if err != nil {
		return "" // it was encoded when the effect began
	}
	const longest = 500
	if text := string(b); len(text) <= longest {
		return "\n\n" + text
	}
	return "\n\n" + strings.ToValidUTF8(string(b[:longest]), "") + "…"
}

// A HappenedError says that an effect happened before a crash and that its outcome is lost.
type HappenedError struct{ Name string }

func (e *HappenedError) Error() string {
	return fmt.Sprintf("%s was done before an interruption; its output is lost, and it must not be done again", e.Name)
}

// Ask gives the answer to a question, or a *WaitError while there is none. The
// question's Key names it within its task. A denied question gives ErrDenied.
func (s *Scope) Ask(ctx context.Context, q *Asked) (json.RawMessage, error) {
	if s == nil {
		return nil, ErrNoLog
	}
	j := s.j
	if err := s.turnToAsk(ctx, q); err != nil {
		return nil, err
	}
	j.questions.Lock()
	defer j.questions.Unlock()
	j.mu.Lock()
	m := j.of(s.path)
	answer, answered := m.answers[q.Key]
	_, asked := m.asked[q.Key]
	j.mu.Unlock()
	if answered {
		if answer.Denied {
			return nil, fmt.Errorf("%s: %q: %w", s.path, q.Question, ErrDenied)
		}
		return answer.Answer, nil
	}
	if !asked {
		if err := j.Write(ctx, "", KindAsked, s.path, q); err != nil {
			return nil, err
		}
	}
	if d := j.opt.Director; d != nil {
		d.Waits(s.path, q.Key)
	}
	return nil, &WaitError{Path: s.path, Question: *q}
}

// An OpenQuestion is a question nobody has answered.
type OpenQuestion struct {
	Path string
	Asked
}

// Open lists the open questions of the run, ordered by path and key.
func (j *Journal) Open() []OpenQuestion {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []OpenQuestion
	for path, m := range j.scopes {
		for key, q := range m.asked {
			if _, ok := m.answers[key]; !ok {
				out = append(out, OpenQuestion{path, q})
			}
		}
	}
	slices.SortFunc(out, func(a, b OpenQuestion) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Key, b.Key))
	})
	return out
}

// An AnsweredError says that a question has its answer already.
type AnsweredError struct{ Path, Key string }

func (e *AnsweredError) Error() string {
	return fmt.Sprintf("%s: question %q is answered already", e.Path, e.Key)
}

// An UnfitError says that an answer does not fit its question, which stays open.
type UnfitError struct{ Path, Key, Why string }

func (e *UnfitError) Error() string {
	return fmt.Sprintf("%s: the answer to question %q %s", e.Path, e.Key, e.Why)
}

// Answer closes an open question of the task of that path. The key may be "" for the only
// one it has. Each question is answered once: the second answer gives *AnsweredError, and
// one that does not fit *UnfitError.
func (j *Journal) Answer(ctx context.Context, path string, a *Answered) error {
	j.questions.Lock()
	defer j.questions.Unlock()
	j.mu.Lock()
	m := j.of(path)
	if a.Key == "" && len(m.asked) == 1 {
		for key := range m.asked {
			keyed := *a
			keyed.Key, a = key, &keyed
		}
	}
	q, asked := m.asked[a.Key]
	_, answered := m.answers[a.Key]
	j.mu.Unlock()
	if !asked {
		var open []string
		for _, q := range j.Open() {
			open = append(open, fmt.Sprintf("%s %q", q.Path, q.Key))
		}
		return fmt.Errorf("run %s: %s has no question %q; open are: %s", j.id, path, a.Key, cmp.Or(strings.Join(open, ", "), "none"))
	}
	if answered {
		return &AnsweredError{path, a.Key}
	}
	if !a.Denied {
		if err := q.Fits(a.Answer); err != nil {
			return &UnfitError{path, a.Key, err.Error()}
		}
	}
	return j.Write(ctx, "", KindAnswered, path, a)
}

// Fits says why the question does not take an answer, nil if it does. What it says follows
// the words "the answer".
func (q *Asked) Fits(answer json.RawMessage) error {
	switch {
	case len(q.Schema) == 0 && len(q.Options) == 0:
		return nil
	case len(q.Schema) == 0:
		var choice string
		if err := json.Unmarshal(answer, &choice); err != nil || !slices.Contains(q.Options, choice) {
			return fmt.Errorf("must be one of %q, not %s", q.Options, answer)
		}
		return nil
	}
	err := fits(q.Schema, answer)
	if err != nil && len(q.Options) > 0 { // which say more to people than a schema
		return fmt.Errorf("must be one of %q, or fit the schema of the question; %s does not", q.Options, answer)
	} else if err != nil {
		return fmt.Errorf("%s does not fit: %w", answer, err)
	}
	return nil
}

// fits checks a value against a JSON Schema.
func fits(schema, value json.RawMessage) error {
	var s jsonschema.Schema
	if err := json.Unmarshal(schema, &s); err != nil {
		return fmt.Errorf("the schema of the question: %w", err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		return fmt.Errorf("the schema of the question: %w", err)
	}
	var v any
	if err := json.Unmarshal(value, &v); err != nil {
		return err
	}
	return r.Validate(v)
}

// Done gives the output of an effect of the task that has succeeded by now, and whether it has.
func (s *Scope) Done(key string) (output json.RawMessage, done bool) {
	if s == nil {
		return nil, false
	}
	s.j.mu.Lock()
	defer s.j.mu.Unlock()
	d, ok := s.j.of(s.path).settled[key]
	return d.Output, ok && d.Error == ""
}

// Grant records that something is allowed from now on, in the whole run and for as long as
// it goes on. What that is, a word of the caller's says; nothing else comes of it.
func (s *Scope) Grant(ctx context.Context, what string) error {
	return s.Emit(ctx, eventGranted, granted{what})
}

// Granted reports whether somebody in the run has granted that.
func (s *Scope) Granted(what string) bool {
	if s == nil {
		return false
	}
	s.j.mu.Lock()
	defer s.j.mu.Unlock()
	return s.j.granted[what]
}

// Grants lists what was granted in the run, sorted.
func (s *Scope) Grants() []string {
	if s == nil {
		return nil
	}
	s.j.mu.Lock()
	defer s.j.mu.Unlock()
	return slices.Sorted(maps.Keys(s.j.granted))
}

// eventGranted is the name of the event that Grant makes, granted its data.
const eventGranted = "granted"

type granted struct {
	What string `json:"what"`
}

// grant takes note of an event, if it grants something. The caller holds mu.
func (j *Journal) grant(r *Record) {
	if !bytes.HasPrefix(r.Data, []byte(`{"name":"`+eventGranted+`"`)) {
		return // as newEvent writes it; nobody else's event is one
	}
	var e Event
	var g granted
	if json.Unmarshal(r.Data, &e) == nil && e.Name == eventGranted && json.Unmarshal(e.Data, &g) == nil {
		put(&j.granted, g.What, true)
	}
}

// Open lists the open questions of the scope, and of all within it, as [Journal.Open] does.
func (s *Scope) Open() []OpenQuestion {
	if s == nil {
		return nil
	}
	return slices.DeleteFunc(s.j.Open(), func(q OpenQuestion) bool {
		return q.Path != s.path && !strings.HasPrefix(q.Path, s.path+"/")
	})
}

// Withdraw denies the questions of the scope, and of all within it, that are open: who has
// asked them will not go on. By is the word for who did that. A replay takes it from the
// record, like every answer.
func (s *Scope) Withdraw(ctx context.Context, by string) error {
	if s == nil || s.Replayed() {
		return nil
	}
	for _, q := range s.Open() {
		err := s.j.Answer(ctx, q.Path, &Answered{Key: q.Key, Denied: true, By: by})
		var answered *AnsweredError
		if err != nil && !errors.As(err, &answered) {
			return err
		}
	}
	return nil
}

// Attempts is how many attempts of the task have failed since it was last given up.
func (s *Scope) Attempts() int {
	if s == nil {
		return 0
	}
	s.j.mu.Lock()
	defer s.j.mu.Unlock()
	return s.j.of(s.path).attempts
}

// GivenUp is how often the task has failed for good, in runs that went on after that.
func (s *Scope) GivenUp() int {
	if s == nil {
		return 0
	}
	s.j.mu.Lock()
	defer s.j.mu.Unlock()
	return s.j.of(s.path).given
}

// Emit records something the task wants known. It is durable when Emit returns.
func (s *Scope) Emit(ctx context.Context, name string, data any) error {
	if s == nil {
		return nil
	}
	e, err := newEvent(name, data)
	if err != nil {
		return err
	}
	return s.j.Write(ctx, "", KindEvent, s.path, e)
}

// Live shows something to those who follow the run now. It is not recorded.
func (s *Scope) Live(name string, data any) {
	if s == nil || !s.j.hub.followed() {
		return
	}
	if e, err := newEvent(name, data); err == nil {
		s.j.Live(KindEvent, s.path, e)
	}
}

// newEvent is the encoding of an Event. It does not look into the data again.
func newEvent(name string, data any) (json.RawMessage, error) {
	b, err := json.Marshal(data)
	if err != nil {
		return nil, fmt.Errorf("encoding event %q: %w", name, err)
	}
	quoted, err := json.Marshal(name)
	if err != nil {
		return nil, fmt.Errorf("encoding event %q: %w", name, err)
	}
	out := make([]byte, 0, len(quoted)+len(b)+len(`{"name":,"data":}`))
	out = append(append(out, `{"name":`...), quoted...)
	return append(append(append(out, `,"data":`...), b...), '}'), nil
}

// key is the idempotency key of an effect: stable across crashes and attempts.
func (s *Scope) key(effect string) string {
	h := sha256.Sum256([]byte(s.j.id + "\x00" + s.path + "\x00" + effect))
	return hex.EncodeToString(h[:16])
}

// Hash is a short digest of anything that encodes as JSON, for Effect.Hash.
func Hash(v any) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:12]), nil
}

// Do is [Scope.Do] for an output of any type that encodes as JSON.
func Do[T any](ctx context.Context, s *Scope, e *Effect, do func(ctx context.Context, key string) (T, error)) (T, error) {
	var out T
	typed := *e
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
