package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

type grade struct {
	Points int8   `json:"points"`
	Why    string `json:"why,omitempty"`
}

// An answer that does not fit its type, does not decode or fails a check is asked for again, with what is wrong, and what comes of it is the same after a
// crash. One that never fits is an UnfitError; the task that is run again begins another conversation.
func TestTyped(t *testing.T) {
	want := []string{`/points: is the string "many", want integer`, "300", "points is 100, want at most 10"}
	texts := []string{`{"points":"many"}`, `{"points":300}`, `{"points":100}`, `{"points":5}`}
	m := &scripted.Model{Turns: []scripted.Turn{}}
	for _, text := range texts {
		m.Turns = append(m.Turns, scripted.Say(text))
	}
	few := func(g grade) error {
		if g.Points > 10 {
			return fmt.Errorf("points is %d, want at most 10", g.Points)
		}
		return nil
	}
	a := &agent.Agent{Name: "grader", Model: m, Again: 3}
	store := runlogtest.NewMortal()
	ask := func(j *journal.Journal, a *agent.Agent) (grade, *agent.Outcome, error) {
		return agent.Typed(t.Context(), j.Scope("task"), a, &agent.Work{Prompt: "Grade it."}, few)
	}
	j := openJournal(t, store, true)
	for range 2 { // the second time from the log
		g, out, err := ask(j, a)
		if err != nil || g.Points != 5 || out.Turns != 4 || len(m.Requests()) != 4 {
			t.Fatal(g, out, err)
		}
	}
	for i, text := range want {
		msgs := m.Requests()[i+1].Messages
		if last := msgs[len(msgs)-1].Text(); !strings.Contains(last, text) {
			t.Errorf("told %q, want %q", last, text)
		}
	}
	if s := m.Requests()[0].Schema; s == nil || s.Properties["points"].Type != "integer" {
		t.Errorf("asked with schema %v", s)
	}

	m = &scripted.Model{Turns: []scripted.Turn{scripted.Say("{}"), scripted.Say("{}"), scripted.Say(texts[3])}}
	j = openJournal(t, runlogtest.NewMortal(), true)
	a = &agent.Agent{Name: "grader", Model: m, Again: 1}
	if g, _, err := ask(j, a); !errors.As(err, new(*agent.UnfitError)) || g != (grade{}) {
		t.Fatal(g, err)
	}
	if g, _, err := ask(j, a); err != nil || g.Points != 5 {
		t.Fatal(g, err)
	}

	if _, _, err := ask(j, &agent.Agent{Name: "x", Model: m, Finish: "done"}); err == nil || !strings.Contains(err.Error(), "leave Finish out") {
		t.Error(err)
	}
	if _, _, err := agent.Typed[[]int](t.Context(), nil, a, &agent.Work{}); err == nil || !strings.Contains(err.Error(), "a []int is none") {
		t.Error(err)
	}
}

func ExampleTyped() {
	type answer struct {
		City       string `json:"city"`
		Population int    `json:"population" jsonschema:"of the city itself"`
	}
	m := &scripted.Model{Turns: []scripted.Turn{scripted.Say("Lyon, I think."), scripted.Say(`{"city": "Lyon", "population": 522000}`)}}
	a := &agent.Agent{Name: "geographer", Model: m}
	got, out, err := agent.Typed[answer](context.Background(), nil, a, &agent.Work{Prompt: "Which city has the Fête des lumières?"})
	if err != nil {
		panic(err)
	}
	fmt.Println(got.City, got.Population, "in", out.Turns, "turns")
	// Output: Lyon 522000 in 2 turns
}
