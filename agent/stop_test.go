package agent_test

import (
	"context"
	"errors"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
)

// A tool that succeeds while the run is being stopped has succeeded.
func TestSuccessCountsWhileStopping(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	tl, err := tool.New("charge", "x", func(context.Context, struct{}) (string, error) { stop(); return "charged", nil }, &tool.Options{Effect: tool.Once})
	if err != nil {
		t.Fatal(err)
	}
	set, _ := tool.NewSet(tl)
	mem := runlog.NewMemory(nil)
	j, err := journal.Open(context.Background(), mem, "x", &journal.Options{Create: &runlog.NewRun{}})
	if err != nil {
		t.Fatal(err)
	}
	a := &agent.Agent{Name: "a", Model: &scripted.Model{Turns: []scripted.Turn{scripted.Call("charge", `{}`), scripted.Say("done")}}, Tools: set}
	_, _ = a.Run(ctx, j.Scope("t"), &agent.Work{Prompt: "go"})
	_, err = a.Run(context.Background(), j.Scope("t"), &agent.Work{Prompt: "go"})
	var w *journal.WaitError
	if errors.As(err, &w) {
		t.Errorf("the tool succeeded and the process lived, yet: %v", err)
	}
}
