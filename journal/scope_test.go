package journal_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

func openRun(t *testing.T, store runlog.Store) *journal.Journal {
	t.Helper()
	j, err := journal.Open(t.Context(), store, "run", &journal.Options{Create: &runlog.NewRun{}, Reopen: true})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// What is granted holds for every scope of the run, past a snapshot and the end of the task
// that has granted it.
func TestGrant(t *testing.T) {
	t.Parallel()
	store := runlog.NewMemory(nil)
	j := openRun(t, store)
	if err := j.Scope("a/b").Grant(t.Context(), `rule "x"`); err != nil {
		t.Fatal(err)
	}
	if err := j.Scope("a").Emit(t.Context(), "grant", map[string]string{"what": "y"}); err != nil {
		t.Fatal(err)
	}
	check := func(j *journal.Journal) {
		t.Helper()
		if s := j.Scope("c"); !s.Granted(`rule "x"`) || s.Granted("y") || s.Granted("") {
			t.Errorf("granted: %v, %v", s.Granted(`rule "x"`), s.Granted("y"))
		}
	}
	check(j)
	for range 2 {
		done, err := j.New(runlog.KindTaskDone, "a", runlog.TaskDone{Node: "a"})
		if err != nil {
			t.Fatal(err)
		}
		committed, _ := j.New(runlog.KindStepCommitted, "", runlog.StepCommitted{})
		snapshot, _ := j.New(runlog.KindSnapshot, "", struct{}{})
		if err := j.Append(t.Context(), "", done, committed, snapshot); err != nil {
			t.Fatal(err)
		}
		if err := j.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		j = openRun(t, store)
		check(j)
	}
	_ = j.Close(t.Context())
	var none *journal.Scope
	if err := none.Grant(t.Context(), "x"); err != nil || none.Granted("x") {
		t.Error("a run without a log has grants")
	}
}

func TestScopeDone(t *testing.T) {
	t.Parallel()
	store := runlog.NewMemory(nil)
	j := openRun(t, store)
	s := j.Scope("a")
	do := func(key string, err error) {
		_, _ = s.Do(t.Context(), &journal.Effect{Key: key, Repeat: journal.RepeatByKey, Do: func(context.Context, string) (json.RawMessage, error) { return json.RawMessage(`1`), err }})
	}
	do("good", nil)
	do("bad", errors.New("no"))
	_ = j.Close(t.Context())
	j = openRun(t, store)
	for key, want := range map[string]bool{"good": true, "bad": false, "never": false} {
		if out, done := j.Scope("a").Done(key); done != want || done && string(out) != "1" {
			t.Errorf("%s: %s %v", key, out, done)
		}
	}
	if _, done := (*journal.Scope)(nil).Done("good"); done || !j.Scope("a").Does("good", true) || j.Scope("a").Does("good", false) {
		t.Error("nothing is done without a log, and this is no replay")
	}
	_ = j.Close(t.Context())
}

// Questions of who will not go on are denied, with those of all within it, and no others.
func TestWithdraw(t *testing.T) {
	t.Parallel()
	j := openRun(t, runlog.NewMemory(nil))
	for _, path := range []string{"a/b", "a/b/c", "a/bc", "a"} {
		if _, err := j.Scope(path).Ask(t.Context(), &runlog.Question{Key: "q", Text: "?", Options: []string{"x"}}); !journal.Waits(err) {
			t.Fatal(err)
		}
	}
	answered, stop := j.Scope("a").Listen()
	defer stop()
	if n := len(j.Scope("a/b").Open()); n != 2 {
		t.Errorf("%d are open", n)
	}
	if err := errors.Join(j.Scope("a/b").Withdraw(t.Context(), "cancelled"), j.Scope("a/b").Withdraw(t.Context(), "cancelled")); err != nil {
		t.Fatal(err)
	}
	<-answered
	var open []string
	for _, q := range j.Open() {
		open = append(open, q.Path)
	}
	if strings.Join(open, " ") != "a a/bc" {
		t.Errorf("open are %v", open)
	}
	if _, err := j.Scope("a/b/c").Ask(t.Context(), &runlog.Question{Key: "q", Text: "?", Options: []string{"x"}}); !errors.Is(err, journal.ErrDenied) {
		t.Error(err)
	}
	_ = j.Close(t.Context())
}

// A question with options and a schema takes what fits the schema.
func TestOptionsWithSchema(t *testing.T) {
	t.Parallel()
	j := openRun(t, runlog.NewMemory(nil))
	q := &runlog.Question{Key: "q", Options: []string{"yes", "no"}, Schema: json.RawMessage(`{"anyOf":[{"enum":["yes","no"]},{"type":"string","pattern":"^no:"}]}`)}
	if _, err := j.Scope("a").Ask(t.Context(), q); !journal.Waits(err) {
		t.Fatal(err)
	}
	var unfit *journal.UnfitError
	if err := j.Answer(t.Context(), "a", &runlog.Answer{Key: "q", Value: json.RawMessage(`"maybe"`)}); !errors.As(err, &unfit) ||
		err.Error() != `a: the answer to question "q" must be one of ["yes" "no"], or fit the schema of the question; "maybe" does not` {
		t.Error(err)
	}
	if err := j.Answer(t.Context(), "a", &runlog.Answer{Key: "q", Value: json.RawMessage(`"no: because"`)}); err != nil {
		t.Error(err)
	}
	_ = j.Close(t.Context())
}

type refused struct{ is bool }

func (refused) Error() string   { return "not now" }
func (r refused) Refused() bool { return r.is }

// What was turned away before it began has cost nothing.
func TestRefusedCostsNothing(t *testing.T) {
	t.Parallel()
	for is, want := range map[bool]int64{true: 0, false: 1} {
		j := openRun(t, runlog.NewMemory(nil))
		_, err := j.Scope("a").Do(t.Context(), &journal.Effect{Key: "k", Cost: runlog.Amount{Turns: 1, Tokens: 5}, Do: func(context.Context, string) (json.RawMessage, error) { return nil, refused{is} }})
		if got := j.Spent(); err == nil || got != (runlog.Amount{Turns: want}) {
			t.Errorf("spent %+v, %v", got, err)
		}
		_ = j.Close(t.Context())
	}
}

// A result that the effect cannot have given is not taken, which would fail the task for good: it is
// asked about again, and says why.
func TestAResultThatDoesNotFit(t *testing.T) {
	j := openJournal(t, runlog.NewMemory(nil), nil)
	pay := func() (int, error) {
		return journal.Do(t.Context(), j.Scope("task"), &journal.Effect{Key: "pay", Kind: "tool", Name: "bank", Repeat: journal.RepeatNever}, func(context.Context, string) (int, error) {
			t.Error("it is done again")
			return 0, nil
		})
	}
	if err := j.Write(t.Context(), "", runlog.KindIntended, "task", runlog.Intended{Key: "pay", Once: true}); err != nil {
		t.Fatal(err)
	}
	for _, given := range []string{`"ten"`, `{"receipt":17}`, `10`} {
		_, err := pay()
		var wait *journal.WaitError
		if !errors.As(err, &wait) {
			t.Fatalf("before %s: got %v", given, err)
		}
		if effect, ok := wait.Question.Unknown(); effect != "pay" || !ok {
			t.Errorf("the question is %+v", wait.Question)
		}
		if again := strings.HasPrefix(wait.Question.Text, "The result given does not fit"); again != (given != `"ten"`) {
			t.Errorf("before %s it asks %q", given, wait.Question.Text)
		}
		if err := j.Answer(t.Context(), "task", &runlog.Answer{Key: wait.Question.Key, Value: json.RawMessage(`"it happened"`), Output: json.RawMessage(given)}); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := pay(); n != 10 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
}

// The answers of a scope are there once all its questions are answered, and then it can continue, as can those around it, which are told.
func TestAnswersOfAScopeComeTogether(t *testing.T) {
	j := openRun(t, runlog.NewMemory(nil))
	told := map[string]<-chan struct{}{}
	for _, path := range []string{"a", "a/x", "a/y", "b"} {
		answered, deaf := j.Scope(path).Listen()
		defer deaf()
		told[path] = answered
	}
	ask := func(path, key string, want bool) {
		t.Helper()
		if _, err := j.Scope(path).Ask(t.Context(), &runlog.Question{Key: key, Text: "?"}); journal.Waits(err) == want {
			t.Errorf("%s: got %v, and it sees the answer: %t", path, err, want)
		}
	}
	answer := func(path, key string, hear, goes []string) {
		t.Helper()
		since := j.Head()
		if err := j.Answer(t.Context(), path, &runlog.Answer{Key: key, Value: json.RawMessage(`"x"`)}); err != nil {
			t.Fatal(err)
		}
		for path, answered := range told {
			heard := false
			select {
			case <-answered:
				heard = true
			default:
			}
			if heard != slices.Contains(hear, path) || j.Scope(path).News(since) != slices.Contains(goes, path) {
				t.Errorf("%s is told: %t, and can continue: %t", path, heard, j.Scope(path).News(since))
			}
		}
		if goes != nil && j.Quiet(since, func() { t.Error("it was not quiet") }) || j.Quiet(since, nil) != (goes == nil) {
			t.Errorf("after the answer for %s it is quiet: %t", path, goes != nil)
		}
	}
	for _, at := range [][2]string{{"a/x", "q"}, {"a/x", "r"}, {"a/y", "q"}, {"b", "q"}} {
		ask(at[0], at[1], false)
	}
	answer("a/x", "q", []string{"a", "a/x"}, nil)
	ask("a/x", "q", false)
	answer("a/y", "q", []string{"a", "a/y"}, []string{"a", "a/y"})
	ask("a/y", "q", true)
	answer("a/x", "r", []string{"a", "a/x"}, []string{"a", "a/x"})
	ask("a/x", "q", true)
	ask("a/x", "r", true)
	ask("b", "q", false)
	if called := false; !j.Quiet(j.Head(), func() { called = true }) || !called {
		t.Error("it is not quiet")
	}
	if err := j.Answer(t.Context(), "b", &runlog.Answer{Key: "q", Value: json.RawMessage(`"x"`)}); !errors.Is(err, runlog.ErrFenced) {
		t.Errorf("an answer when the execution ends: %v", err)
	}
}
