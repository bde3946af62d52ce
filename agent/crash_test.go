package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

// openJournal opens the run of a test.
func openJournal(t testing.TB, store runlog.Store, create bool) *journal.Journal {
	t.Helper()
	opt := &journal.Options{}
	if create {
		opt.Create = &runlog.NewRun{Workflow: "test"}
	}
	j, err := journal.Open(t.Context(), store, "run", opt)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// settled are the effects whose outcomes are in the log.
func settled(t testing.TB, store runlog.Store) map[string]bool {
	t.Helper()
	done := map[string]bool{}
	for r, err := range runlog.Records(t.Context(), store, "run", 0) {
		if err != nil {
			t.Fatal(err)
		}
		var d runlog.Settled
		if r.Kind == runlog.KindSettled && json.Unmarshal(r.Data, &d) == nil && d.Error == "" {
			done[d.Key] = true
		}
	}
	return done
}

// script answers by how far the conversation is, as a model does.
func script(replies ...modeltest.Reply) (handle modeltest.Handler, turn func(*modeltest.ParsedRequest) int) {
	turn = func(r *modeltest.ParsedRequest) int {
		n := 0
		for _, m := range r.Messages {
			if m.Role == model.Assistant {
				n++
			}
		}
		return n
	}
	return func(r *modeltest.ParsedRequest) modeltest.Reply { return replies[turn(r)] }, turn
}

// Wherever a conversation is cut off, it goes on from there: the outcome is that of one
// that was not, no turn whose reply is in the log is asked for again, every turn has one
// key, and a tool runs again only if its outcome is not in the log.
func TestCrashAtEveryAppend(t *testing.T) {
	handle, turnOf := script(
		calls(call("look", "a"), call("look", "b")),
		calls(call("put", "c"), call("look", "d")),
		modeltest.Text("let me think"),
		calls(call("done", "e")),
	)
	run := func(t *testing.T, store *runlogtest.Mortal) (*agent.Outcome, *bench, *modeltest.Server, error) {
		m, server := talk(t, handle)
		b := &bench{}
		a := &agent.Agent{Name: "tester", Prompt: "p", Model: m, Tools: b.tools(t), Finish: "done"}
		out, err := a.Run(t.Context(), openJournal(t, store, !exists(t, store)).Scope("task"), &agent.Work{Prompt: "go"})
		return out, b, server, err
	}
	want, _, _, err := run(t, runlogtest.NewMortal())
	if err != nil {
		t.Fatal(err)
	}
	if want.Stop != agent.StopFinished || want.Turns != 4 {
		t.Fatalf("%+v", want)
	}
	crashes := 0
	for n := 0; ; n++ {
		ended := false
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("append %d, after %v", n, after), func(t *testing.T) {
				store := runlogtest.NewMortal()
				store.DieAt(n, after)
				_, first, asked, err := run(t, store)
				if err == nil {
					ended = true
					return
				}
				if !errors.Is(err, runlogtest.ErrCrash) {
					t.Fatal(err)
				}
				crashes++
				done := settled(t, store)
				store.Revive()
				got, again, askedAgain, err := run(t, store)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
				keys := map[int]string{}
				for i, server := range []*modeltest.Server{asked, askedAgain} {
					for _, r := range server.Requests() {
						n := turnOf(r)
						if i == 1 && done[fmt.Sprintf("turn-%d", n)] {
							t.Errorf("turn %d was asked for although its reply is in the log", n)
						}
						if r.Key == "" || keys[n] != "" && keys[n] != r.Key {
							t.Errorf("turn %d has the keys %q and %q", n, keys[n], r.Key)
						}
						keys[n] = r.Key
					}
				}
				effects := map[string]string{"look a": "turn-0/call-0", "look b": "turn-0/call-1", "put c": "turn-1/call-0", "look d": "turn-1/call-1", "done e": "turn-3/call-0"}
				for _, ran := range again.runs {
					if done[effects[ran]] {
						t.Errorf("%q ran again although its outcome is in the log", ran)
					}
				}
				for ran, effect := range effects {
					times := strings.Count(strings.Join(append(first.runs, again.runs...), "\n")+"\n", ran+"\n")
					if times < 1 || times > 2 || times == 2 && done[effect] {
						t.Errorf("%q ran %d times", ran, times)
					}
				}
			})
		}
		if ended {
			break
		}
	}
	if crashes < 20 {
		t.Errorf("only %d crashes", crashes)
	}
}

func exists(t testing.TB, store runlog.Store) bool {
	t.Helper()
	infos, err := store.Runs(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return len(infos) > 0
}

// A tool that must not happen twice parks the run when its outcome is lost, and does
// what it is told then.
func TestOnceParks(t *testing.T) {
	handle, _ := script(calls(call("send", "mail"), call("put", "x")), modeltest.Text("ok"))
	for _, tc := range []struct {
		answer string
		runs   string
		result string
		gave   string // as a user says
	}{
		{"do it again", "send mail, send mail, put x", "send error=false send saw mail", ""},
		{"it happened", "send mail, put x", "send error=true send was done before an interruption; its output is lost, and it must not be done again", ""},
		{"it happened", "send mail, put x", "send error=false sent to all", `"sent to all"`},
		{"it happened", "send mail, put x", `send error=false {"receipt":17}`, `{"receipt":17}`}, // JSON is the text as it is
	} {
		t.Run(tc.answer+tc.gave, func(t *testing.T) {
			store := runlogtest.NewMortal()
			var once sync.Once
			b := &bench{hook: func(string) { once.Do(store.Die) }} // the process dies while the tool runs
			m, _ := talk(t, handle)
			a := &agent.Agent{Name: "tester", Model: m, Tools: b.tools(t)}
			if _, err := a.Run(t.Context(), openJournal(t, store, true).Scope("task"), &agent.Work{}); !errors.Is(err, runlogtest.ErrCrash) {
				t.Fatal(err)
			}
			store.Revive()
			j := openJournal(t, store, false)
			_, err := a.Run(t.Context(), j.Scope("task"), &agent.Work{})
			var wait *journal.WaitError
			if !errors.As(err, &wait) || wait.Question.Path != "task" || !strings.Contains(wait.Question.Text, "send") {
				t.Fatal(err)
			}
			if !wait.Question.TextOutput {
				t.Error("the question does not say that the tool gives text")
			}
			if len(b.runs) != 1 {
				t.Fatalf("it ran unasked: %v", b.runs)
			}
			if err := j.Answer(t.Context(), "task", &runlog.Answer{Key: wait.Question.Key, Value: json.RawMessage(fmt.Sprintf("%q", tc.answer)), Output: json.RawMessage(tc.gave)}); err != nil {
				t.Fatal(err)
			}
			out, err := a.Run(t.Context(), j.Scope("task"), &agent.Work{})
			if err != nil {
				t.Fatal(err)
			}
			if strings.Join(b.runs, ", ") != tc.runs || len(b.keys) == 3 && b.keys[0] != b.keys[1] {
				t.Errorf("ran %v with keys %v", b.runs, b.keys)
			}
			if diff := cmp.Diff([]string{tc.result, "put error=false put saw x"}, results(out)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A run whose agent was changed meanwhile is not continued as if it had not been.
func TestDiverged(t *testing.T) {
	handle, _ := script(calls(call("look", "a")), modeltest.Text("ok"))
	m, _ := talk(t, handle)
	for name, change := range map[string]func(a *agent.Agent, w *agent.Work){
		"system prompt": func(a *agent.Agent, _ *agent.Work) { a.Prompt = "new" },
		"user prompt":   func(_ *agent.Agent, w *agent.Work) { w.Prompt = "new" },
	} {
		t.Run(name, func(t *testing.T) {
			store := runlogtest.NewMortal()
			j := openJournal(t, store, true)
			a, w := &agent.Agent{Name: "tester", Prompt: "old", Model: m, Tools: (&bench{}).tools(t)}, &agent.Work{Prompt: "old"}
			if _, err := a.Run(t.Context(), j.Scope("task"), w); err != nil {
				t.Fatal(err)
			}
			change(a, w)
			_, err := a.Run(t.Context(), j.Scope("task"), w)
			var diverged *journal.DivergedError
			if !errors.As(err, &diverged) || diverged.Path != "task" || diverged.Key != "turn-0" {
				t.Fatal(err)
			}
		})
	}
}

// Two uses of an agent in one task keep to themselves.
func TestKeys(t *testing.T) {
	m, server := talk(t, modeltest.Sequence(modeltest.Text("one"), modeltest.Text("two")))
	j := openJournal(t, runlogtest.NewMortal(), true)
	a := &agent.Agent{Name: "tester", Model: m}
	for range 2 {
		for key, want := range map[string]string{"a": "", "b": ""} {
			out, err := a.Run(t.Context(), j.Scope("task"), &agent.Work{Key: key})
			if err != nil || out.Text == want {
				t.Fatal(out, err)
			}
		}
	}
	if n := len(server.Requests()); n != 2 {
		t.Errorf("asked %d times", n)
	}
}

// What the model says is shown while it says it, and is no part of the log.
func TestDeltas(t *testing.T) {
	m, _ := talk(t, modeltest.Sequence(modeltest.Reply{Parts: []model.Part{{Kind: model.Reasoning, Text: "hm"}, {Kind: model.Text, Text: "hel"}, {Kind: model.Text, Text: "lo"}}}))
	j := openJournal(t, runlogtest.NewMortal(), true)
	var got []string
	following, done := make(chan struct{}), make(chan struct{})
	if err := j.Scope("task").Emit(t.Context(), "first", 1); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(done)
		for r, err := range j.Follow(context.Background(), 0) {
			if err != nil {
				t.Error(err)
				return
			}
			if r.Seq == 1 {
				close(following)
			}
			var e runlog.Event
			var d struct{ Agent, Text string }
			if r.Kind == runlog.KindEvent && r.Seq == 0 && json.Unmarshal(r.Data, &e) == nil && json.Unmarshal(e.Data, &d) == nil {
				got = append(got, e.Name+" "+d.Agent+" "+d.Text)
			}
		}
	}()
	<-following
	if _, err := (&agent.Agent{Name: "tester", Model: m}).Run(t.Context(), j.Scope("task"), &agent.Work{}); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	<-done
	if diff := cmp.Diff([]string{"reasoning tester hm", "text tester hel", "text tester lo"}, got); diff != "" {
		t.Error(diff)
	}
}
