package runlog_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/runlog"
)

func openRun(t *testing.T, store runlog.Store) *runlog.Journal {
	t.Helper()
	j, err := runlog.OpenJournal(t.Context(), store, "run", &runlog.JournalOptions{Create: &runlog.NewRun{}, Reopen: true})
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
	check := func(j *runlog.Journal) {
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
	var none *runlog.Scope
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
		_, _ = s.Do(t.Context(), &runlog.Effect{Key: key, Repeat: runlog.RepeatByKey, Do: func(context.Context, string) (json.RawMessage, error) { return json.RawMessage(`1`), err }})
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
	if _, done := (*runlog.Scope)(nil).Done("good"); done || j.Scope("a").Replayed() {
		t.Error("nothing is done without a log, and this is no replay")
	}
	_ = j.Close(t.Context())
}

// Questions of who will not go on are denied, with those of all within it, and no others.
func TestWithdraw(t *testing.T) {
	t.Parallel()
	j := openRun(t, runlog.NewMemory(nil))
	for _, path := range []string{"a/b", "a/b/c", "a/bc", "a"} {
		if _, err := j.Scope(path).Ask(t.Context(), &runlog.Asked{Key: "q", Question: "?", Options: []string{"x"}}); !runlog.Waits(err) {
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
	if _, err := j.Scope("a/b/c").Ask(t.Context(), &runlog.Asked{Key: "q"}); !errors.Is(err, runlog.ErrDenied) {
		t.Error(err)
	}
	_ = j.Close(t.Context())
}

// A question with options and a schema takes what fits the schema.
func TestOptionsWithSchema(t *testing.T) {
	t.Parallel()
	j := openRun(t, runlog.NewMemory(nil))
	q := &runlog.Asked{Key: "q", Options: []string{"yes", "no"}, Schema: json.RawMessage(`{"anyOf":[{"enum":["yes","no"]},{"type":"string","pattern":"^no:"}]}`)}
	if _, err := j.Scope("a").Ask(t.Context(), q); !runlog.Waits(err) {
		t.Fatal(err)
	}
	var unfit *runlog.UnfitError
	if err := j.Answer(t.Context(), "a", &runlog.Answered{Key: "q", Answer: json.RawMessage(`"maybe"`)}); !errors.As(err, &unfit) ||
		err.Error() != `a: the answer to question "q" must be one of ["yes" "no"], or fit the schema of the question; "maybe" does not` {
		t.Error(err)
	}
	if err := j.Answer(t.Context(), "a", &runlog.Answered{Key: "q", Answer: json.RawMessage(`"no: because"`)}); err != nil {
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
		_, err := j.Scope("a").Do(t.Context(), &runlog.Effect{Key: "k", Cost: runlog.Amount{Turns: 1, Tokens: 5}, Do: func(context.Context, string) (json.RawMessage, error) { return nil, refused{is} }})
		if got := j.Spent(); err == nil || got != (runlog.Amount{Turns: want}) {
			t.Errorf("spent %+v, %v", got, err)
		}
		_ = j.Close(t.Context())
	}
}
