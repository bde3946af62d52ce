package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/openai"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

// A rule is what the model answers to an agent, known by its prompt, when the last messages have some words.
type rule struct {
	agent, last string
	turn        scripted.Turn
}

// A script is a run of a pattern: what the model and the user answer, what comes of it, and how many turns that takes.
type script struct {
	inputs  string
	rules   []rule
	answers []string
	want    string
	turns   int
}

var scripts = map[string]script{
	"swarm": {
		inputs: `{"message": "My lamp flickers."}`,
		rules: []rule{
			{"You sell", "flickers", scripted.Call("transfer_to_repair", "{}")},
			{"You help", "You are repair now", scripted.Call("web", `{"query": "lamp flickers"}`)},
			{"You help", "What does another", scripted.Call("transfer_to_sales", "{}")},
			{"You help", "new bulb", scripted.Say("Change the bulb.")},
			{"You sell", "You are sales now", scripted.Say("12 euros.")},
			{"You sell", "Thank you", scripted.Say("Goodbye.")}, // she spoke last
		},
		answers: []string{"What does another lamp cost?", "Thank you.", "bye"},
		want:    `"sales"`, turns: 6,
	},
	"supervisor": {
		inputs: `{"task": "What do seven lamps cost?"}`,
		rules: []rule{
			{"Give each part", "84.\n", scripted.Say("84 euros.")},
			{"Give each part", "euros.\nHand over", scripted.Call("transfer_to_calculator", "{}").And(scripted.Call("transfer_to_researcher", "{}"))},
			{"Give each part", "seven lamps", scripted.Call("transfer_to_researcher", "{}")},
			{"Look up", "You are researcher now", scripted.Call("notes", `{"query": "lamp"}`)},
			{"Look up", "Ten lamps cost", scripted.Say("A lamp costs 12 euros.")},
			{"Compute", "You are calculator now", scripted.Say("7 times 12 is 84.")},
		},
		want: `"84 euros."`, turns: 6,
	},
	"reflection": {
		inputs: `{"task": "A slogan for lamps"}`,
		rules: []rule{
			{"Write what", "for lamps", scripted.Say("Lamps are lamps.")},
			{"Judge", "Lamps are lamps.", scripted.Say(`{"accepted": false, "advice": "Say what they do."}`)},
			{"Write what", "Say what they do.", scripted.Say("Lamps light up.")},
			{"Judge", "Lamps light up.", scripted.Say(`{"accepted": true, "advice": ""}`)},
		},
		want: `"Lamps light up."`, turns: 4,
	},
	"plan-and-execute": {
		inputs: `{"task": "What do eleven lamps cost?"}`,
		rules: []rule{
			{"Plan", "add up: 112", scripted.Say(`{"steps": [], "answer": "112 euros"}`)},
			{"Plan", "look up prices: 12, ten for 100", scripted.Say(`{"steps": []}`)},
			{"Plan", "neither steps nor an answer", scripted.Say(`{"steps": ["add up"]}`)},
			{"Plan", "eleven", scripted.Say(`{"steps": ["look up prices", "compute"]}`)},
			{"Do one step", "Your step: look up", scripted.Call("notes", `{"query": "lamp cost"}`)},
			{"Do one step", "Ten lamps cost", scripted.Say("12, ten for 100")},
			{"Do one step", "Your step: add up", scripted.Say("112")},
		},
		want: `"112 euros"`, turns: 7,
	},
	"corrective-rag": {
		inputs: `{"question": "Why does my lamp flicker?"}`,
		rules: []rule{
			{"Grade", "A lamp costs 12 euros.", scripted.Say(`{"helpful": ""}`)},
			{"Make a question", "flicker", scripted.Say("lamp flickers")},
			{"Answer", "new bulb", scripted.Say("It needs a new bulb.")},
		},
		want: `"It needs a new bulb."`, turns: 3,
	},
	"map-reduce": {
		inputs: `{"topic": "Lamps"}`,
		rules: []rule{
			{"Split", "Lamps", scripted.Say(`{"parts": ["history", "price", "light"]}`)},
			{"Write a", "old as fire", scripted.Say("They are old.")},
			{"Write a", "Lamps: history", scripted.Call("web", `{"query": "lamps"}`)},
			{"Write a", "Lamps: price", scripted.Say("They cost 12 euros.")},
			{"Write a", "Lamps: light", scripted.Say("They are bright.")},
			{"Make one", "They are old.\nThey cost 12 euros.\nThey are bright.", scripted.Say("Old, cheap and bright.")},
		},
		want: `"Old, cheap and bright."`, turns: 6,
	},
}

// speaker is a model on a loopback server, and its requests.
func speaker(t *testing.T, rules []rule) (model.Model, func() []*modeltest.ParsedRequest) {
	t.Helper()
	var mu sync.Mutex
	var asked []*modeltest.ParsedRequest
	server := modeltest.NewServer(t, func(r *modeltest.ParsedRequest) modeltest.Reply {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r)
		last := ""
		for _, m := range r.Messages[max(0, len(r.Messages)-2):] {
			last += "\n" + m.Text()
			for _, p := range m.Parts {
				if p.Kind == model.Result {
					last += p.Text
				}
			}
		}
		for _, rule := range rules {
			if strings.HasPrefix(r.System, rule.agent) && strings.Contains(last, rule.last) {
				return modeltest.Reply{Parts: rule.turn.Parts}
			}
		}
		t.Errorf("no rule for %q with%s", r.System, last)
		return modeltest.Reply{Status: http.StatusBadRequest}
	}, nil)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(transport.CloseIdleConnections)
	m, err := openai.New(&openai.Options{Model: "gpt-test", APIKey: "key", BaseURL: server.URL, HTTPClient: &http.Client{Transport: transport}, Backoff: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return m, func() []*modeltest.ParsedRequest {
		mu.Lock()
		defer mu.Unlock()
		return asked
	}
}

// execute starts the run of a pattern, or resumes it, and answers its questions.
func execute(t *testing.T, store runlog.Store, m model.Model, name string, s *script) (superstep.Outcome, error) {
	t.Helper()
	e := engine(t, store, m)
	defer e.Close()
	answer := func(_ context.Context, q runlog.Question) (*runlog.Answer, bool) {
		said := map[string]string{"Change the bulb.": s.answers[0], "12 euros.": s.answers[1], "Goodbye.": s.answers[2]}[q.Text]
		value, err := json.Marshal(said)
		return &runlog.Answer{Value: value}, err == nil && said != ""
	}
	r, err := e.Start(t.Context(), name, json.RawMessage(s.inputs), &superstep.StartOptions{ID: "run", Answer: answer})
	if err != nil {
		return superstep.Outcome{}, err
	}
	return r.Wait(t.Context())
}

// engine returns an engine for the patterns.
func engine(t *testing.T, store runlog.Store, m model.Model) *superstep.Engine {
	t.Helper()
	set, err := patterns(m)
	if err != nil {
		t.Fatal(err)
	}
	e, err := superstep.New(store, &superstep.Options{Workflows: set})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// replays has a run executed against its log, which asks no model.
func replays(t *testing.T, store runlog.Store, m model.Model, asked func() []*modeltest.ParsedRequest) {
	t.Helper()
	e, before := engine(t, store, m), len(asked())
	defer e.Close()
	if report, err := e.Replay(t.Context(), "run", nil); err != nil || report.Diverged != nil || len(asked()) > before {
		t.Errorf("replay: %+v, %v, %d turns", report, err, len(asked())-before)
	}
}

// Each pattern runs to its end. Wherever its process is killed, it resumes, comes to the same end, and no turn of
// the model is paid for twice but those that were under way.
func TestPatterns(t *testing.T) {
	for name, s := range scripts {
		t.Run(name, func(t *testing.T) {
			step := 1
			if testing.Short() {
				step = 5
			}
			for n, dies := 0, true; dies; n += step {
				store := runlogtest.NewMortal()
				store.DieAt(n, n%2 == 0)
				m, asked := speaker(t, s.rules)
				out, err := execute(t, store, m, name, &s)
				if dies = store.Dead(); dies {
					if err != nil && !errors.Is(err, runlogtest.ErrCrash) {
						t.Fatalf("append %d: %v", n, err)
					}
					store.Revive()
					out, err = execute(t, store, m, name, &s)
				}
				if err != nil || out.Status != runlog.Completed || string(out.Output) != s.want {
					t.Fatalf("append %d: %s %s, %v", n, out.Status, out.Output, err)
				}
				most := s.turns
				if dies {
					most += 3 // which run in parallel
				}
				if got := len(asked()); got < s.turns || got > most {
					t.Errorf("append %d: %d turns, want %d", n, got, s.turns)
				}
				if !dies {
					replays(t, store, m, asked)
				}
			}
		})
	}
}

// The lead of a supervisor reads what its workers did with tools, or only what they answered.
func TestHistoryOfASupervisor(t *testing.T) {
	for inputs, want := range map[string]int{`{"task": "seven lamps"}`: 10, `{"task": "seven lamps", "full": true}`: 12} {
		s := scripts["supervisor"]
		s.inputs = inputs
		m, asked := speaker(t, s.rules)
		if out, err := execute(t, runlogtest.NewMortal(), m, "supervisor", &s); err != nil || string(out.Output) != s.want {
			t.Fatalf("%s, %v", out.Output, err)
		}
		all := asked()
		if got := len(all[len(all)-1].Messages); got != want {
			t.Errorf("%s: the lead has read %d messages, want %d", inputs, got, want)
		}
	}
}

// Each pattern is at most 60 lines of code, and the program finds the user's model.
func TestProgram(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := 0
		for line := range strings.Lines(string(text)) {
			if !strings.HasPrefix(line, "//") {
				lines++
			}
		}
		if lines > 60 && !strings.HasSuffix(file, "_test.go") {
			t.Errorf("%s has %d lines", file, lines)
		}
	}
	dir := t.TempDir()
	for _, name := range []string{"CONFIG", "DATA", "CACHE"} {
		t.Setenv("XDG_"+name+"_HOME", dir)
	}
	t.Setenv("HOME", dir)
	t.Setenv("SUPERSTEP_MODEL", "offline")
	t.Chdir(dir)
	set, err := open()
	if err != nil || len(set) != len(scripts) {
		t.Fatal(len(set), err)
	}
	for _, w := range set {
		if _, ok := scripts[w.Name]; !ok {
			t.Errorf("%s is not tested", w.Name)
		}
	}
}
