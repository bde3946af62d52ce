package agent_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/runlog"
)

// Of a turn that breaks off, the log keeps what the model had said, in its order, beside the error.
func TestTurnThatBreaksOffIsKept(t *testing.T) {
	t.Parallel()
	store := runlog.NewMemory(nil)
	j, err := journal.Open(t.Context(), store, "r", &journal.Options{Create: &runlog.NewRun{Workflow: "w"}})
	if err != nil {
		t.Fatal(err)
	}
	turn := scripted.Think("Let ", "me see.").And(scripted.Say("It ", "is "))
	turn.Err = errors.New("the connection broke")
	a := &agent.Agent{Name: "a", Model: &scripted.Model{Turns: []scripted.Turn{turn}}}
	if _, err := a.Run(t.Context(), j.Scope("work"), &agent.Work{Prompt: "Look."}); err == nil {
		t.Fatal("the turn has not failed")
	}
	if err := j.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for r, err := range runlog.Records(t.Context(), store, "r", 0) {
		if err != nil {
			t.Fatal(err)
		}
		var d runlog.Settled
		if r.Kind != runlog.KindSettled || json.Unmarshal(r.Data, &d) != nil || d.Kind != "model" {
			continue
		}
		var said model.Response
		if err := json.Unmarshal(d.Partial, &said); err != nil || d.Error == "" || len(said.Message.Parts) != 2 ||
			said.Message.Parts[0].Text != "Let me see." || said.Message.Parts[1].Text != "It is " {
			t.Errorf("%s, %v", r.Data, err)
		}
		return
	}
	t.Error("the log has no turn")
}
