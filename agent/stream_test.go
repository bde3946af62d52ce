package agent_test

import (
	"context"
	"slices"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/runlog"
)

// Tokens are those of a run that is followed, in order; a log that was kept has none.
func TestTokens(t *testing.T) {
	store := runlog.NewMemory(nil)
	j, err := journal.Open(t.Context(), store, "x", &journal.Options{Create: &runlog.NewRun{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Write(t.Context(), "", runlog.KindRunStarted, "", runlog.RunStarted{}); err != nil {
		t.Fatal(err)
	}
	ready, got := make(chan struct{}), make(chan []agent.Token)
	go func() {
		first := true
		var tokens []agent.Token
		for tok, err := range agent.Tokens(func(yield func(runlog.Record, error) bool) {
			for r, err := range j.Follow(context.Background(), 0) {
				if first { // from here on it misses nothing
					first = false
					close(ready)
				}
				if !yield(r, err) {
					return
				}
			}
		}) {
			if err == nil {
				tokens = append(tokens, tok)
			}
		}
		got <- tokens
	}()
	<-ready
	if err := j.Scope("t").Emit(t.Context(), "text", "no token"); err != nil {
		t.Fatal(err)
	}
	a := &agent.Agent{Name: "a", Model: &scripted.Model{Turns: []scripted.Turn{scripted.Think("hm").And(scripted.Say("one ", "two"))}}}
	if _, err := a.Run(t.Context(), j.Scope("t"), &agent.Work{Prompt: "go"}); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []agent.Token{{"t", "a", model.Reasoning, "hm"}, {"t", "a", model.Text, "one "}, {"t", "a", model.Text, "two"}}
	if tokens := <-got; !slices.Equal(tokens, want) {
		t.Errorf("got %+v", tokens)
	}
	for tok, err := range agent.Tokens(runlog.Records(t.Context(), store, "x", 0)) {
		t.Errorf("the store has %+v, %v", tok, err)
	}
}
