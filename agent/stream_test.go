package agent_test

import (
	"context"
	"reflect"
	"sync"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/runlog"
)

// Events of models are those of a run that is followed, in order; a log that was kept has none.
func TestTokens(t *testing.T) {
	store := runlog.NewMemory(nil)
	j, err := journal.Open(t.Context(), store, "x", &journal.Options{Create: &runlog.NewRun{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Write(t.Context(), "", runlog.KindRunStarted, "", runlog.RunStarted{}); err != nil {
		t.Fatal(err)
	}
	ready, got := make(chan struct{}), make(chan []graph.Event[struct{}])
	go func() {
		var tokens []graph.Event[struct{}]
		for e, err := range graph.Events(j.Following(context.Background(), 0, sync.OnceFunc(func() { close(ready) }))) {
			if err == nil && e.Seq == 0 {
				tokens = append(tokens, e)
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
	want := []graph.Event[struct{}]{{Kind: "reasoning", Path: "t", Agent: "a", Text: "hm"}, {Kind: "text", Path: "t", Agent: "a", Text: "one "}, {Kind: "text", Path: "t", Agent: "a", Text: "two"}}
	if tokens := <-got; !reflect.DeepEqual(tokens, want) {
		t.Errorf("got %+v", tokens)
	}
	for e, err := range graph.Events(runlog.Records(t.Context(), store, "x", 0)) {
		if err != nil || e.Kind != "emitted" || e.Name != "text" {
			t.Errorf("the store has %+v, %v", e, err)
		}
	}
}
