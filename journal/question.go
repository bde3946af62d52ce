package journal

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/runlog"
)

// Listen works like [Journal.Listen], for the questions of the scope and of all scopes inside it. Without a log there are no answers.
func (s *Scope) Listen() (answered <-chan struct{}, stop func()) {
	if s.off() {
		return nil, func() {}
	}
	return s.j.hear(s.path)
}

// A WaitError reports that a task cannot continue before a question is answered. A task that gets one must return it; once the answer is there, the task
// runs again from its beginning.
type WaitError struct{ Question runlog.Question }

func (e *WaitError) Error() string {
	return fmt.Sprintf("%s asks: %s", e.Question.Path, e.Question.Text)
}

// Waits reports that the task has not ended. It always returns true.
func (e *WaitError) Waits() bool { return true }

// Waits reports whether an error means that a task has not failed but waits: the error, or one that it wraps, has a method Waits that returns true, and none
// is a *UsedError.
func Waits(err error) bool {
	var w interface {
		error
		Waits() bool
	}
	return errors.As(err, &w) && w.Waits() && !errors.As(err, new(*UsedError))
}

// ErrDenied reports that a question was denied instead of answered.
var ErrDenied = errors.New("denied")

// ErrNoLog reports that a task asked a question in a run without a log.
var ErrNoLog = errors.New("a run without a log cannot pause for an answer; give RunOptions a Store and an ID")

// unknown asks what to do about an effect that must not be repeated and whose outcome is unknown. It returns nil if the user wants it repeated anyway,
// or the outcome that the user states.
func (s *Scope) unknown(ctx context.Context, e *Effect, intents int) (json.RawMessage, error) {
	q := &runlog.Question{
		Key: runlog.UnknownKey(e.Key, intents), Kind: runlog.QuestionUnknown,
		Text:    cmp.Or(e.Doubt, fmt.Sprintf("%s %s was begun, its outcome is not known, and it must not happen twice. Did it happen?", e.Kind, e.Name)+with(e.Input)),
		Options: []string{runlog.UnknownAgain, runlog.UnknownHappened}, TextOutput: e.Told != nil,
	}
	first := *q
	for n := 1; ; n++ {
		answer, err := s.Ask(ctx, q)
		if err != nil {
			return nil, err
		}
		var choice string
		if err := json.Unmarshal(answer, &choice); err != nil {
			return nil, fmt.Errorf("%s: the answer about effect %q: %w", s.path, e.Key, err)
		}
		if choice == runlog.UnknownAgain {
			return nil, nil
		}
		s.j.mu.Lock()
		out := s.j.of(s.path).answers[q.Key].Output
		s.j.mu.Unlock()
		if out == nil {
			return nil, &HappenedError{Name: e.Name}
		}
		if out, err = e.told(out); err == nil {
			return out, nil
		}
		again := first // what would fail the task for good is not taken
		again.Key = fmt.Sprintf("%s.%d", first.Key, n)
		again.Text = fmt.Sprintf("The result given does not fit: %v. ", err) + first.Text
		q = &again
	}
}

// with formats the input of an effect, cut to a readable length. It is one line, so that no text in it passes for words of the question.
func with(input any) string {
	if input == nil {
		return ""
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(input) != nil {
		return "" // it was encoded when the effect began
	}
	text := strings.TrimSuffix(b.String(), "\n")
	const longest = 500
	if len(text) <= longest {
		return "\n\n" + clean.JSON([]byte(text), " ⏎ ")
	}
	return "\n\n" + clean.JSON([]byte(strings.ToValidUTF8(text[:longest], "")), " ⏎ ") + "…"
}

// A HappenedError reports that an effect happened before a crash and that its outcome is lost.
type HappenedError struct{ Name string }

func (e *HappenedError) Error() string {
	return fmt.Sprintf("%s was done before an interruption; its output is lost, and it must not be done again", e.Name)
}

// Ask returns the answer to a question, or a *WaitError while there is none. The question's Key names it within its task. If the question is denied, Ask
// returns ErrDenied.
//
// In an attempt, answers are there if all questions of the scope were answered when it began, or when its branch ran again: what else the task does would
// depend on when it asks again, which no log holds.
func (s *Scope) Ask(ctx context.Context, q *runlog.Question) (json.RawMessage, error) {
	if s.off() || s.j.opt.Alone {
		return nil, ErrNoLog
	}
	j := s.j
	if _, asked, _ := s.question(q.Key); !asked { // its turn comes before anything is locked
		if err := j.course.turn(ctx, runlog.KindAsked, s.path, q.Key); err != nil {
			return nil, err
		}
	}
	j.questions.Lock()
	defer j.questions.Unlock()
	answer, asked, answered := s.question(q.Key)
	if asked {
		if err := s.unlike(q); err != nil {
			return nil, err
		}
	}
	answered = answered && !s.hidden(q.Key)
	s.wait(s.path, q, !answered)
	if answered {
		if answer.Denied {
			return nil, fmt.Errorf("%s: %q: %w", s.path, q.Text, ErrDenied)
		}
		return answer.Value, nil
	}
	if !asked {
		recorded := *q
		recorded.Took, _ = s.Took()
		if err := j.Write(ctx, "", runlog.KindAsked, s.path, &recorded); err != nil {
			return nil, err
		}
	}
	j.course.asked(s.path, q.Key)
	open := *q
	open.Path = s.path
	return nil, &WaitError{open}
}

// hidden reports whether the answer to a question is not there yet for the task.
func (s *Scope) hidden(key string) bool {
	s.j.mu.Lock()
	m := s.j.of(s.path)
	early := !strings.HasPrefix(key, during) && (m.asks() || s.used != nil && m.heard > s.used.head.Load())
	s.j.mu.Unlock()
	return early || s.j.course.waits(s.path, key)
}

// Head returns the sequence number of the last stored record, 0 without a log.
func (s *Scope) Head() uint64 {
	if s.off() {
		return 0
	}
	return s.j.Head()
}

// News reports whether answers have come since the log had that head with which the scope, or one inside it, can continue, see [Scope.Ask].
func (s *Scope) News(since uint64) bool {
	if s.off() {
		return false
	}
	s.j.mu.Lock()
	defer s.j.mu.Unlock()
	m := s.j.scopes[s.path]
	return m != nil && m.news > since
}

// Quiet calls f, unless nil, while no question is answered and the budget does not change; f records that the execution ends, so that from then on the
// journal takes neither. It reports false, and does not call f, if something can continue since the log had that head: then the run is to run again.
func (j *Journal) Quiet(since uint64, f func()) bool {
	j.questions.Lock()
	defer j.questions.Unlock()
	j.mu.Lock()
	m := j.scopes[""]
	news := j.raised > since || m != nil && m.news > since
	j.mu.Unlock()
	if !news && f != nil {
		f()
		j.leaves = true
	}
	return !news
}

// What an agent that waited for an answer went on with while others ran, as its notes name it.
const (
	Resumed   = "resumed"   // the answer, in older logs
	Withdrawn = "withdrawn" // nothing: it was cancelled
)

// NextKey is the key of the note, in the scope around that of an agent, which says what the agent continues with while a question of it is open: Resumed
// or Withdrawn.
func (s *Scope) NextKey(next string, q *runlog.Question) string {
	return next + s.path[strings.LastIndexByte(s.path, '/'):] + "/" + strings.TrimPrefix(q.Path, s.path) + "/" + q.Key
}

// unlike returns an error if the recorded question of that key asks something else. The words of questions that the product asks are its own.
func (s *Scope) unlike(q *runlog.Question) error {
	if q.Kind != "" && q.Kind != runlog.QuestionAsk && q.Kind != runlog.QuestionGate {
		return nil
	}
	s.j.mu.Lock()
	was := s.j.of(s.path).asked[q.Key]
	s.j.mu.Unlock()
	says := func(q *runlog.Question) string {
		b, _ := json.Marshal(runlog.Question{Text: q.Text, Options: q.Options, Schema: q.Schema}) // it was encoded when it was asked
		return string(s.Clean(b))
	}
	if says(&was) == says(q) {
		return nil
	}
	return fmt.Errorf("%s: question %q is recorded with another text, options or schema: %q, and now %q; its answer is not taken for this one: ask it under "+
		"another key, or go back to the version that asked it", s.path, q.Key, clean.Clip(was.Text, 80), clean.Clip(q.Text, 80))
}

// question reports whether the task has asked the question with that key, and returns the answer, if there is one.
func (s *Scope) question(key string) (answer runlog.Answer, asked, answered bool) {
	s.j.mu.Lock()
	defer s.j.mu.Unlock()
	m := s.j.of(s.path)
	_, asked = m.asked[key]
	answer, answered = m.answers[key]
	return answer, asked, answered
}

// Open lists the open questions of the run, ordered by path and key.
func (j *Journal) Open() []runlog.Question {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.open()
}

// open is Open. The caller holds what guards v.
func (v *recovered) open() []runlog.Question {
	var out []runlog.Question
	for path, m := range v.scopes {
		for key, q := range m.asked {
			if _, ok := m.answers[key]; !ok {
				q.Path = path
				out = append(out, q)
			}
		}
	}
	slices.SortFunc(out, func(a, b runlog.Question) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Key, b.Key))
	})
	return out
}

// An AnsweredError reports that a question is already answered.
type AnsweredError struct{ Path, Key string }

func (e *AnsweredError) Error() string {
	return fmt.Sprintf("%s: question %q is answered already", e.Path, e.Key)
}

// An UnfitError reports that an answer does not fit its question, which stays open.
type UnfitError struct{ Path, Key, Why string }

func (e *UnfitError) Error() string {
	return fmt.Sprintf("%s: the answer to question %q %s", e.Path, e.Key, e.Why)
}

// An UnaskedError reports that a task has not asked the question being answered.
type UnaskedError struct {
	Run, Path, Key string
	Open           []runlog.Question // those that can be answered
}

func (e *UnaskedError) Error() string {
	var open []string
	for _, q := range e.Open {
		open = append(open, fmt.Sprintf("%s %q", q.Path, q.Key))
	}
	return fmt.Sprintf("run %s: %s has no question %q; open are: %s", e.Run, cmp.Or(e.Path, "it"), e.Key, cmp.Or(strings.Join(open, ", "), "none"))
}

// Answer closes an open question of the task at that path. The key may be "" if the task has only one. Each question is answered once: Answer returns
// *AnsweredError for a second answer, *UnfitError for one that does not fit, *UnaskedError if there is no such question, and an error that wraps
// [runlog.ErrFenced] once the execution is about to let go of the run, see [Journal.Quiet]: whoever holds the run next takes the answer.
func (j *Journal) Answer(ctx context.Context, path string, a *runlog.Answer) error {
	j.questions.Lock()
	defer j.questions.Unlock()
	if j.leaves {
		return leaving(j.id)
	}
	j.mu.Lock()
	a, err := j.answerable(j.id, path, a)
	j.mu.Unlock()
	if err != nil || a == nil {
		return err
	}
	// With the last open question answered, a paused run is running again: if this process dies now, a worker resumes it. One that began queued is queued
	// again. A run that a person paused, or that needs a larger budget, stays paused.
	status := runlog.Status("")
	j.mu.Lock()
	if j.info.Status == runlog.Paused && !j.paused && (len(j.open()) == 1 && !j.short || a.By == runlog.ByRun) {
		if status = runlog.Running; j.sum.now.Queue != nil {
			status = runlog.Queued
		}
	}
	j.mu.Unlock()
	timed := *a
	timed.Waited = cmp.Or(j.Waited(), a.Waited)
	return j.Write(ctx, status, runlog.KindAnswered, path, &timed)
}

// leaving is the error for what comes when an execution has recorded that it ends.
func leaving(id string) error {
	return fmt.Errorf("run %s is about to pause: %w", id, runlog.ErrFenced)
}

// answerable completes an answer with the key of its question. It returns nil if the question already has this same answer, and an error if the answer
// fits no open question.
func (v *recovered) answerable(id, path string, a *runlog.Answer) (*runlog.Answer, error) {
	m := v.of(path)
	if a.Key == "" && len(m.asked) == 1 {
		for key := range m.asked {
			keyed := *a
			keyed.Key, a = key, &keyed
		}
	}
	q, asked := m.asked[a.Key]
	if !asked {
		return nil, &UnaskedError{id, path, a.Key, v.open()}
	}
	if given, answered := m.answers[a.Key]; answered && a.Request != "" && given.Request == a.Request {
		return nil, nil
	} else if answered {
		return nil, &AnsweredError{path, a.Key}
	}
	if q.Kind == runlog.QuestionRun && !a.Denied && a.By != runlog.ByRun {
		return nil, &UnfitError{path, a.Key, fmt.Sprintf("comes from run %s; cancel that run to go on without it", q.Run)}
	}
	if !a.Denied {
		if err := q.Fits(a.Value); err != nil {
			return nil, &UnfitError{path, a.Key, err.Error()}
		}
	}
	return a, nil
}

// Post sends an answer to the holder of the run, and sets the key of the answer if it is empty. It returns the number of the first record that may be
// the answer, 0 if the question already has this answer, and the errors of [Journal.Answer].
func Post(ctx context.Context, store runlog.Store, id, path string, a *runlog.Answer, now time.Time) (from uint64, err error) {
	infos, err := store.Runs(ctx, &runlog.Filter{ID: id})
	if err != nil {
		return 0, err
	}
	if len(infos) == 0 {
		return 0, unlisted.Missing(ctx, store, id)
	}
	var v recovered
	for r, err := range runlog.Records(ctx, store, id, infos[0].Snapshot) {
		if err == nil {
			err = v.note(&r)
		}
		if err != nil {
			return 0, err
		}
		from = r.Seq + 1
	}
	keyed, err := v.answerable(id, path, a)
	if errors.As(err, new(*UnaskedError)) { // or it was, in a run that has ended since
		if now, lerr := store.Runs(ctx, &runlog.Filter{ID: id}); lerr == nil && len(now) > 0 && now[0].Status.Ended() {
			err = &runlog.EndedError{ID: id, Status: now[0].Status}
		}
	}
	if err != nil || keyed == nil {
		return 0, err
	}
	a.Key = keyed.Key
	r := unlisted.Request{ID: a.Request, Kind: unlisted.KindReply, Path: path, Time: now.UTC()}
	if r.Data, err = json.Marshal(a); err != nil {
		return 0, err
	}
	return from, unlisted.Post(ctx, store, id, &r)
}

// Open lists the open questions of the scope and of all scopes inside it, ordered by path and key.
func (s *Scope) Open() []runlog.Question {
	if s.off() {
		return nil
	}
	return slices.DeleteFunc(s.j.Open(), func(q runlog.Question) bool {
		return q.Path != s.path && !strings.HasPrefix(q.Path, s.path+"/")
	})
}

// Withdraw denies the open questions of the scope and of all scopes inside it, because the task that asked them does not continue. By is recorded as the
// author of the denial. A replay takes the denial from the record, like every answer.
//
// With keys, only the questions of the scope itself that have one of these keys are denied.
func (s *Scope) Withdraw(ctx context.Context, by string, keys ...string) error {
	return s.Afresh(func() error {
		for _, q := range s.Open() {
			if len(keys) > 0 && (q.Path != s.path || !slices.Contains(keys, q.Key)) {
				continue
			}
			err := s.j.Answer(ctx, q.Path, &runlog.Answer{Key: q.Key, Denied: true, By: by})
			if err != nil && !errors.As(err, new(*AnsweredError)) {
				return err
			}
			s.wait(q.Path, &q, false)
		}
		return nil
	})
}

// during begins the keys of questions that an effect asks while it runs, see Asker. No other question has such a key.
const during = "during/"

// AskedDuring reports whether an effect asked the question while it ran, see [Scope.Asker]. Its words may be those of a stranger, such as an MCP server.
func AskedDuring(q *runlog.Question) bool { return strings.HasPrefix(q.Key, during) }

// asksDuring reports whether a record belongs to such a question.
func asksDuring(r *runlog.Record) bool {
	return (r.Kind == runlog.KindAsked || r.Kind == runlog.KindAnswered) && bytes.HasPrefix(r.Data, []byte(`{"key":"`+during))
}

// Asker returns the function with which one attempt of an effect asks the user while it runs. The scope is the effect's own part of the log. The function
// waits for the answer, and returns nil if the question is denied. It gives up when its context ends or stopped is closed. A question that an earlier
// attempt asked in the same words returns its recorded answer. A question that a crash left open is withdrawn, because the effect no longer waits for it.
//
// The questions are beside the workflow: a replay copies them from the record, since it does not perform the effect. Without a log Asker returns nil.
func (s *Scope) Asker(ctx context.Context) (ask func(ctx context.Context, stopped <-chan struct{}, q *runlog.Question) (json.RawMessage, error), err error) {
	if s.off() {
		return nil, nil
	}
	for _, key := range s.openDuring() {
		if err := s.Withdraw(ctx, runlog.ByInterruption, key); err != nil {
			return nil, err
		}
	}
	var mu sync.Mutex
	next := map[string]int{} // by what is asked: how often this attempt has asked it
	return func(ctx context.Context, stopped <-chan struct{}, q *runlog.Question) (json.RawMessage, error) {
		hash, err := Hash([]any{q.Text, q.Schema})
		if err != nil {
			return nil, err
		}
		asked := *q
		mu.Lock()
		for given := runlog.ByInterruption; given == runlog.ByInterruption; {
			next[hash]++
			asked.Key = s.Own(fmt.Sprintf("%s%s-%d", during, hash, next[hash]))
			a, _, _ := s.question(asked.Key)
			given = a.By
		}
		mu.Unlock()
		return s.await(ctx, stopped, &asked)
	}, nil
}

// openDuring returns the keys of the open questions of the scope whose effect was running when they were asked.
func (s *Scope) openDuring() (keys []string) {
	s.j.mu.Lock()
	defer s.j.mu.Unlock()
	if m := s.j.scopes[s.path]; m != nil {
		for key := range m.asked {
			if _, answered := m.answers[key]; !answered && strings.HasPrefix(key, during) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// await asks a question and waits for the answer. If it cannot wait any longer, it withdraws the question.
func (s *Scope) await(ctx context.Context, stopped <-chan struct{}, q *runlog.Question) (answer json.RawMessage, err error) {
	answered, deaf := s.Listen()
	defer deaf()
	for {
		if answer, err = s.Ask(ctx, q); !Waits(err) {
			break
		}
		select {
		case <-answered:
			continue
		case <-stopped:
			err = errors.New("the run is to stop")
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		return nil, errors.Join(err, s.Withdraw(context.WithoutCancel(ctx), runlog.ByInterruption, q.Key))
	}
	if errors.Is(err, ErrDenied) {
		return nil, nil
	}
	return answer, err
}
