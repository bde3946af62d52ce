package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

// meter is a model that says what it is to say in each turn, and uses so much of tokens.
type meter struct {
	turns [][]model.Part
	usage model.Usage
	hold  chan struct{} // it says nothing before this is closed, unless it is nil

	mu    sync.Mutex
	asked map[int][]string // the conversations it was shown, by turn
}

func (m *meter) Name() string { return "test/meter" }

func (m *meter) Generate(_ context.Context, r *model.Request) iter.Seq2[model.Part, error] {
	turn := 0
	for _, msg := range r.Messages {
		if msg.Role == model.Assistant {
			turn++
		}
	}
	seen, _ := json.Marshal(r.Messages)
	m.mu.Lock()
	if m.asked == nil {
		m.asked = map[int][]string{}
	}
	m.asked[turn] = append(m.asked[turn], string(seen))
	m.mu.Unlock()
	parts, stop := m.turns[turn], model.StopEnd
	for i, p := range parts {
		if p.Call != nil {
			p.Call.ID, stop = fmt.Sprint(turn, i), model.StopCalls
		}
	}
	parts = append(parts[:len(parts):len(parts)], model.Part{Kind: model.UsagePart, Usage: &m.usage}, model.Part{Kind: model.Stop, Stop: stop})
	return func(yield func(model.Part, error) bool) {
		if m.hold != nil {
			<-m.hold
		}
		for _, p := range parts {
			if !yield(p, nil) {
				return
			}
		}
	}
}

// dear is a meter that tells its price.
type dear struct {
	*meter
	price model.Price
}

func (m dear) Price() (model.Price, bool) { return m.price, true }

// talkative looks three times before it is done.
func talkative() *meter {
	text := []model.Part{{Kind: model.Text, Text: "ok"}}
	return &meter{usage: model.Usage{In: 70, Out: 30}, turns: [][]model.Part{{call("look", "a")}, {call("put", "b")}, {call("look", "c")}, text}}
}

func limited(t testing.TB, store runlog.Store, b *runlog.Budget) *journal.Journal {
	t.Helper()
	opt := &journal.Options{Budget: b}
	if !exists(t, store) {
		opt.Create = &runlog.NewRun{}
	}
	j, err := journal.Open(t.Context(), store, "run", opt)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func hints(out *agent.Outcome) int {
	n := 0
	for _, m := range out.Messages {
		if m.Role == model.User && strings.HasPrefix(m.Text(), "Budget notice: ") {
			n++
		}
	}
	return n
}

// An agent near a limit is told once to wrap up. Wherever it is cut off, and whatever it
// may use by then, no turn that was begun is begun differently.
func TestHintAtEveryCrash(t *testing.T) {
	run := func(t *testing.T, store *runlogtest.Mortal, m *meter, limit int64) (*agent.Outcome, error) {
		b := &bench{}
		a := &agent.Agent{Name: "tester", Model: m, Tools: b.tools(t), Limits: agent.Limits{MaxTokens: 100}}
		return a.Run(t.Context(), limited(t, store, &runlog.Budget{Tokens: limit, Soft: 0.2}).Scope("task"), &agent.Work{Prompt: "go"})
	}
	const limit = 1000 // 0.2 of it are two turns
	want, err := run(t, runlogtest.NewMortal(), talkative(), limit)
	if err != nil {
		t.Fatal(err)
	}
	if hints(want) != 1 || !strings.Contains(want.Messages[5].Text(), "this run has used 200 of 1000 tokens. Wrap up") {
		t.Fatalf("%+v", want.Messages)
	}
	for _, then := range []int64{limit, 100 * limit} {
		ended := false
		crashes := 0
		for n := 0; !ended; n++ {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("append %d, after %v, then %d", n, after, then), func(t *testing.T) {
					store, m := runlogtest.NewMortal(), talkative()
					store.DieAt(n, after)
					if _, err := run(t, store, m, limit); err == nil {
						ended = true
						return
					}
					crashes++
					store.Revive()
					got, err := run(t, store, m, then)
					if err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(want, got); diff != "" && then == limit {
						t.Error(diff)
					}
					if got.Text != want.Text || hints(got) > 1 {
						t.Errorf("%q, %d hints", got.Text, hints(got))
					}
					for turn, shown := range m.asked {
						for _, s := range shown[1:] {
							if s != shown[0] {
								t.Errorf("turn %d was begun with\n%s\nand with\n%s", turn, shown[0], s)
							}
						}
					}
				})
			}
		}
		if crashes < 16 {
			t.Errorf("only %d crashes", crashes)
		}
	}
}

// At a limit an agent waits. With a larger budget it goes on, and ends as one without limits does.
func TestParksAndGoesOn(t *testing.T) {
	work := func(t *testing.T, store *runlogtest.Mortal, m model.Model, b *bench, limit *runlog.Budget) (*agent.Outcome, error) {
		a := &agent.Agent{Name: "tester", Model: m, Tools: b.tools(t), Limits: agent.Limits{MaxTokens: 30}}
		j := limited(t, store, limit)
		out, err := a.Run(t.Context(), j.Scope("task"), &agent.Work{Prompt: "go"})
		var short *runlog.BudgetError
		if errors.As(err, &short) && j.Short() != short {
			t.Errorf("the journal says %v", j.Short())
		}
		return out, err
	}
	want, err := work(t, runlogtest.NewMortal(), talkative(), &bench{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	price := model.Price{In: 1, Out: 10}
	for what, limits := range map[string][]runlog.Budget{
		"turns":  {{Turns: 1}, {Turns: 3}, {Turns: 4}},
		"tokens": {{Tokens: 20}, {Tokens: 150}, {Tokens: 310}, {Tokens: 440}},
		"calls":  {{Calls: 1}, {Calls: 2}, {Calls: 3}},
		"lifted": {{Agents: 1, Turns: 2}, {Turns: -1}},
		"money":  {{Money: 371}, {Money: 800}, {Money: 2000}},
	} {
		t.Run(what, func(t *testing.T) {
			store, m, b := runlogtest.NewMortal(), talkative(), &bench{}
			for i := range limits {
				limits[i].Soft = 1
				out, err := work(t, store, dear{m, price}, b, &limits[i])
				if i < len(limits)-1 {
					var short *runlog.BudgetError
					if !errors.As(err, &short) || !journal.Waits(err) || short.Path != "task" {
						t.Fatalf("with %+v: %v", limits[i], err)
					}
					store.Revive()
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, out); diff != "" {
					t.Error(diff)
				}
			}
			if len(b.runs) != 3 || len(m.asked) != 4 {
				t.Errorf("tools ran %v", b.runs)
			}
			for turn, shown := range m.asked {
				if len(shown) != 1 {
					t.Errorf("turn %d was asked for %d times", turn, len(shown))
				}
			}
			store.Revive()
			if got := limited(t, store, nil).Spent(); got != (runlog.Amount{Tokens: 400, Money: 4 * (70 + 300), Turns: 4, Calls: 3, Agents: 1}) {
				t.Errorf("spent %+v", got)
			}
		})
	}
}

// Agents side by side do not use the same rest.
func TestAgentsShareABudget(t *testing.T) {
	synctest.Test(t, shareABudget)
}

func shareABudget(t *testing.T) {
	store := runlogtest.NewMortal()
	j := limited(t, store, &runlog.Budget{Tokens: 1000, Soft: 1})
	all := make(chan struct{}) // have begun, or wait
	said := []model.Part{{Kind: model.Text, Text: "ok"}}
	var work sync.WaitGroup
	var mu sync.Mutex
	waiting := 0
	for i := range 20 {
		work.Go(func() { // its only turn may take 10 + 90 tokens, and does
			a := &agent.Agent{Name: "tester", Model: &meter{turns: [][]model.Part{said}, usage: model.Usage{In: 10, Out: 90}, hold: all}, Limits: agent.Limits{MaxTokens: 90}}
			_, err := a.Run(t.Context(), j.Scope(fmt.Sprint("task", i)), &agent.Work{Prompt: strings.Repeat("x", 40)})
			var short *runlog.BudgetError
			switch {
			case errors.As(err, &short):
				mu.Lock()
				waiting++
				mu.Unlock()
			case err != nil:
				t.Error(err)
			}
		})
	}
	synctest.Wait()
	close(all)
	work.Wait()
	if got := j.Spent().Tokens; got != 1000 || waiting != 10 {
		t.Errorf("%d tokens used, %d agents wait", got, waiting)
	}
}

// A limit on money does not hold for a model that tells no price, and the log says so.
func TestUnpriced(t *testing.T) {
	for _, priced := range []bool{false, true} {
		store, meter := runlogtest.NewMortal(), talkative()
		var m model.Model = meter
		if priced {
			m = dear{meter: meter}
		}
		a := &agent.Agent{Name: "tester", Model: m, Tools: (&bench{}).tools(t)}
		if _, err := a.Run(t.Context(), limited(t, store, &runlog.Budget{Money: 1}).Scope("task"), &agent.Work{}); err != nil {
			t.Fatal(err)
		}
		notes := 0
		for r, err := range runlog.Records(t.Context(), store, "run", 0) {
			if err != nil {
				t.Fatal(err)
			}
			if r.Kind == runlog.KindEvent && strings.Contains(string(r.Data), "model test/meter tells no price") {
				notes++
			}
		}
		if (notes == 1) == priced || notes > 1 {
			t.Errorf("priced %v: %d notes", priced, notes)
		}
	}
}

// The turns in which an agent is asked again, told that its answer cannot be used, or sums its conversation up are
// turns like others.
func TestTurnsBesideTheWorkAreCounted(t *testing.T) {
	b := &bench{}
	long := strings.Repeat("x", 3000)
	for name, tc := range map[string]struct {
		a     *agent.Agent
		turns []scripted.Turn
	}{
		"again":      {&agent.Agent{Schema: &jsonschema.Schema{Type: "object"}}, []scripted.Turn{scripted.Say("hm"), scripted.Say("{}")}},
		"unreadable": {&agent.Agent{}, []scripted.Turn{scripted.Fail(unreadable(model.CodeBadCall)), scripted.Say("ok")}},
		"compaction": {
			&agent.Agent{Limits: agent.Limits{Window: 2000}, Tools: b.tools(t)},
			[]scripted.Turn{scripted.Call("look", `{"text":"`+long+`"}`), scripted.Call("look", `{"text":"`+long+`"}`), scripted.Say("so far"), scripted.Say("ok")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for limit := range int64(len(tc.turns)) + 1 {
				m := &scripted.Model{Turns: tc.turns}
				a := *tc.a
				a.Name, a.Model = "a", m
				j, err := journal.Open(t.Context(), runlog.NewMemory(nil), "run", &journal.Options{Create: &runlog.NewRun{}, Budget: &runlog.Budget{Turns: max(limit, 1), Soft: 1}})
				if err != nil {
					t.Fatal(err)
				}
				_, err = a.Run(t.Context(), j.Scope("task"), &agent.Work{Prompt: "go"})
				var short *runlog.BudgetError
				asked := int64(len(m.Requests()))
				if asked != max(limit, 1) || j.Spent().Turns != asked || (err == nil) != (m.Unused() == nil) || err != nil && (!errors.As(err, &short) || short.What != runlog.BudgetTurns) {
					t.Errorf("limit %d: asked %d times, spent %+v: %v", limit, asked, j.Spent(), err)
				}
			}
		})
	}
}
