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

	"github.com/google/go-cmp/cmp"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"github.com/superstep-dev/superstep/tool"
)

// small is a model that holds little. It looks at one thing after the other, and says what
// it has been told at the beginning and in summaries.
type small struct {
	window int // that it tells
	holds  int // that it really holds, in tokens; 0 for any
	looks  int

	mu    sync.Mutex
	asked []model.Request
}

func (s *small) Name() string        { return "acme/small" }
func (s *small) Window() (int, bool) { return s.window, s.window > 0 }

func tokens(r *model.Request) int {
	n := len(r.System)
	for _, m := range r.Messages {
		for _, p := range m.Parts {
			if n += len(p.Text); p.Call != nil {
				n += len(p.Call.Args)
			}
		}
	}
	return n / 4
}

func (s *small) Generate(_ context.Context, r *model.Request) iter.Seq2[model.Part, error] {
	s.mu.Lock()
	s.asked = append(s.asked, *r)
	s.mu.Unlock()
	return func(yield func(model.Part, error) bool) {
		if n := tokens(r); s.holds > 0 && n > s.holds {
			yield(model.Part{}, &model.Error{Provider: "acme", Model: "small", Status: 400, Code: "context_length_exceeded", Err: fmt.Errorf("%d tokens", n)})
			return
		}
		part, stop := model.Part{Kind: model.Text}, model.StopEnd
		text := ""
		for _, m := range r.Messages {
			text += m.Text()
		}
		looked := 0
		for i := range s.looks {
			if strings.Contains(text, fmt.Sprintf("look %d", i)) || answered(r, i) {
				looked = i + 1
			}
		}
		switch {
		case strings.HasPrefix(r.System, "Sum up"):
			part.Text = fmt.Sprintf("done so far: look %d", looked-1)
			for i := range s.looks {
				if strings.Contains(text, fmt.Sprintf(`{"text":"%d"}`, i)) {
					part.Text = fmt.Sprintf("done so far: look %d", i)
				}
			}
		case looked < s.looks:
			part, stop = call("look", fmt.Sprint(looked)), model.StopCalls
			part.Call.ID = fmt.Sprintf("c%d", looked)
		default:
			part.Text = "all of it"
		}
		_ = yield(part, nil) && yield(model.Part{Kind: model.UsagePart, Usage: &model.Usage{In: tokens(r), Out: 10}}, nil) && yield(model.Part{Kind: model.Stop, Stop: stop}, nil)
	}
}

func answered(r *model.Request, i int) bool {
	for _, m := range r.Messages {
		for _, p := range m.Parts {
			if p.Kind == model.Result && p.Call.ID == fmt.Sprintf("c%d", i) {
				return true
			}
		}
	}
	return false
}

// whole says what is wrong with a conversation: a result without its call, or the other way round.
func whole(messages []model.Message) error {
	for i, m := range messages {
		var calls, results []string
		if m.Role == model.Assistant {
			for _, c := range m.Calls() {
				calls = append(calls, c.ID)
			}
			if len(calls) > 0 && i+1 < len(messages) {
				for _, p := range messages[i+1].Parts {
					if p.Kind == model.Result {
						results = append(results, p.Call.ID)
					}
				}
				if diff := cmp.Diff(calls, results); diff != "" {
					return errors.New(diff)
				}
			}
		}
		if m.Role == model.Tool && (i == 0 || messages[i-1].Role != model.Assistant) {
			return fmt.Errorf("message %d answers nothing", i)
		}
	}
	return nil
}

func looker(t *testing.T, bytes int) *tool.Set {
	t.Helper()
	look, err := tool.New("look", "x", func(_ context.Context, in words) (string, error) {
		return "seen " + in.Text + ": " + strings.Repeat("x", bytes), nil
	}, &tool.Options{Effect: tool.Pure})
	if err != nil {
		t.Fatal(err)
	}
	set, err := tool.NewSet(look)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestContext(t *testing.T) {
	for _, tc := range []struct {
		name    string
		model   *small
		window  int
		result  int      // bytes
		actions []string // in the log, without repetition
		tail    string   // of the first message that is cut
	}{
		{name: "room enough", model: &small{window: 100_000, looks: 12}, result: 3000},
		{name: "nobody knows", model: &small{looks: 12}, result: 3000},
		{name: "old results are cut", model: &small{window: 10_000, looks: 12}, result: 3000, actions: []string{"cleared"}},
		{name: "summed up", model: &small{window: 2000, looks: 12}, result: 800, actions: []string{"compacted"}},
		{name: "both, of a limit of the agent", model: &small{window: 1 << 20, looks: 30}, window: 7000, result: 4000, actions: []string{"cleared", "compacted"}},
		{name: "refused by a model that said nothing", model: &small{holds: 2500, looks: 12}, result: 1500, actions: []string{"compacted"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := &agent.Agent{Name: "tester", Prompt: "system", Model: tc.model, Tools: looker(t, tc.result), Limits: agent.Limits{Turns: 50, Window: tc.window}}
			store := runlogtest.NewMortal()
			j := openJournal(t, store, true)
			out, err := a.Run(t.Context(), j.Scope("task"), &agent.Work{Prompt: "look at all of it"})
			if err != nil || out.Text != "all of it" || out.Calls != tc.model.looks {
				t.Fatal(out, err)
			}
			limit := tc.window
			if limit == 0 {
				limit = tc.model.window
			}
			summaries := 0
			for i, r := range tc.model.asked {
				if err := whole(r.Messages); err != nil {
					t.Errorf("request %d: %v", i, err)
				}
				if strings.HasPrefix(r.System, "Sum up") {
					summaries++
					continue
				}
				if r.System != "system" || r.Messages[0].Text() != "look at all of it" {
					t.Errorf("request %d: %q, %q", i, r.System, r.Messages[0].Text())
				}
				if n := tokens(&r); limit > 0 && n > limit {
					t.Errorf("request %d has %d tokens", i, n)
				}
			}
			var actions []string
			seen := map[string]int{}
			_, events := asked(t, store)
			for _, e := range events {
				var l level
				data, is := strings.CutPrefix(e, "context ")
				if !is || json.Unmarshal([]byte(data), &l) != nil || l.Agent != "tester" || l.Used <= 0 {
					t.Fatalf("event %s", e)
				}
				if seen[l.Action]++; seen[l.Action] == 1 {
					actions = append(actions, l.Action)
				}
			}
			if diff := cmp.Diff(tc.actions, actions); diff != "" {
				t.Error(diff, events)
			}
			if summaries != seen["compacted"] {
				t.Errorf("%d summaries, events %v", summaries, seen)
			}
			// From the log, nothing is asked for again, and the outcome is the same; a window
			// that has changed since changes nothing of what was done.
			n := len(tc.model.asked)
			a.Limits.Window = 123
			again, err := a.Run(t.Context(), j.Scope("task"), &agent.Work{Prompt: "look at all of it"})
			if err != nil || len(tc.model.asked) != n {
				t.Fatal(err, len(tc.model.asked), n)
			}
			if diff := cmp.Diff(out, again); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A conversation that cannot be made shorter is a failure, and not tried for ever.
func TestContextTooSmall(t *testing.T) {
	m := &small{holds: 10, looks: 3}
	_, err := (&agent.Agent{Name: "tester", Model: m, Tools: looker(t, 10)}).Run(t.Context(), nil, &agent.Work{Prompt: strings.Repeat("long ", 100)})
	var fail *model.Error
	if !errors.As(err, &fail) || fail.Code != "context_length_exceeded" || len(m.asked) > 2 {
		t.Fatal(err, len(m.asked))
	}
}

// Wherever a conversation is cut off that is cut down on its way, it comes to the same end.
func TestCrashInContext(t *testing.T) {
	for name, mk := range map[string]func() *small{
		"by the window": func() *small { return &small{window: 2500, looks: 9} },
		"when refused":  func() *small { return &small{holds: 2500, looks: 9} },
	} {
		run := func(t *testing.T, store *runlogtest.Mortal) (*agent.Outcome, *small, error) {
			m := mk()
			a := &agent.Agent{Name: "tester", Model: m, Tools: looker(t, 2200), Limits: agent.Limits{Turns: 30}}
			j := openJournal(t, store, !exists(t, store))
			defer func() { _ = j.Close(context.Background()) }()
			out, err := a.Run(t.Context(), j.Scope("task"), &agent.Work{Prompt: "look"})
			return out, m, err
		}
		want, _, err := run(t, runlogtest.NewMortal())
		if err != nil {
			t.Fatal(err)
		}
		for n, ended := 0, false; !ended; n++ {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, append %d, after %v", name, n, after), func(t *testing.T) {
					store := runlogtest.NewMortal()
					store.DieAt(n, after)
					if _, _, err := run(t, store); err == nil {
						ended = true
						return
					} else if !errors.Is(err, runlogtest.ErrCrash) {
						t.Fatal(err)
					}
					before := turns(settled(t, store))
					store.Revive()
					got, m, err := run(t, store)
					if err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Error(diff)
					}
					refused := 0
					if m.holds > 0 {
						refused = 9
					}
					if total := turns(settled(t, store)); len(m.asked) > total-before+refused {
						t.Errorf("asked %d times for %d turns", len(m.asked), total-before)
					}
				})
			}
		}
	}
}

func turns(done map[string]bool) int {
	n := 0
	for key := range done {
		if !strings.Contains(key, "/") && key != "agent" && !strings.HasPrefix(key, "clear") {
			n++
		}
	}
	return n
}

// level is what an event "context" says.
type level struct {
	Agent        string
	Used, Window int
	Action       string
}

// What followers are shown of the level is no part of the log.
func TestLevelIsLive(t *testing.T) {
	m := &small{window: 100_000, looks: 2}
	store := runlogtest.NewMortal()
	j := openJournal(t, store, true)
	var levels []level
	following, done := make(chan struct{}), make(chan struct{})
	if err := j.Scope("task").Emit(t.Context(), "first", 1); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(done)
		for r, err := range j.Follow(context.Background(), 0) {
			var e runlog.Event
			var l level
			if err != nil {
				t.Error(err)
				return
			}
			if r.Seq == 1 {
				close(following)
			}
			if r.Kind == runlog.KindEvent && r.Seq == 0 && json.Unmarshal(r.Data, &e) == nil && e.Name == "context" && json.Unmarshal(e.Data, &l) == nil {
				levels = append(levels, l)
			}
		}
	}()
	<-following
	if _, err := (&agent.Agent{Name: "tester", Model: m, Tools: looker(t, 400)}).Run(t.Context(), j.Scope("task"), &agent.Work{Prompt: "look"}); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	<-done
	if len(levels) != 3 || levels[2].Used <= levels[0].Used || levels[0].Window != 100_000 {
		t.Errorf("%+v", levels)
	}
}

// A conversation of the fewest messages that are worth it is summed up, and what is no whole summary takes the place
// of nothing.
func TestSummaryOfTheFewest(t *testing.T) {
	cut, filtered := scripted.Say("half of"), scripted.Say("part of")
	cut.Stop, filtered.Stop = model.StopLength, model.StopFilter
	for name, tc := range map[string]struct {
		before int
		sum    scripted.Turn
		asked  int
		after  int // messages of the last request
	}{
		"nine":      {8, scripted.Say("the sum"), 2, 6},
		"five":      {4, scripted.Say("the sum"), 2, 4}, // the fewest: two are summed up
		"four":      {3, scripted.Say("ok"), 1, 4},
		"empty":     {8, scripted.Say(""), 2, 9},
		"cut":       {8, cut, 2, 9},
		"filtered":  {8, filtered, 2, 9},
		"reasoning": {8, scripted.Think("hm"), 2, 9},
	} {
		m := &scripted.Model{Tokens: 1000, Turns: []scripted.Turn{tc.sum, scripted.Say("ok")}}
		var talk []model.Message
		for i := range tc.before {
			said := model.UserText(fmt.Sprintf("%d ", i) + strings.Repeat("x", 2000))
			if i%2 == 1 {
				said.Role = model.Assistant
			}
			talk = append(talk, said)
		}
		out, err := (&agent.Agent{Name: "a", Model: m}).Run(t.Context(), nil, &agent.Work{Messages: talk, Prompt: "go on"})
		if err != nil {
			t.Fatal(name, err)
		}
		requests := m.Requests()
		last := requests[len(requests)-1].Messages
		if len(requests) != tc.asked || len(last) != tc.after || out.Shortened != (tc.after < tc.before+1) || out.Text != "ok" {
			t.Errorf("%s: asked %d times, the last time with %d messages; %q, shortened %v", name, len(requests), len(last), out.Text, out.Shortened)
		}
		if out.Shortened && !strings.HasSuffix(last[1].Text(), "the sum") {
			t.Errorf("%s: %q", name, last[1].Text())
		}
	}
}
