package agent_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
)

// charging is a model that calls the tool charge, once.
type charging struct{}

func (charging) Name() string { return "z/z" }
func (charging) Generate(_ context.Context, r *model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		if len(r.Messages) == 1 {
			_ = yield(model.Part{Kind: model.ToolCall, Call: &model.Call{ID: "1", Name: "charge", Args: []byte(`{}`)}}, nil) &&
				yield(model.Part{Kind: model.Stop, Stop: model.StopCalls}, nil)
			return
		}
		_ = yield(model.Part{Kind: model.Text, Text: "done"}, nil) && yield(model.Part{Kind: model.Stop, Stop: model.StopEnd}, nil)
	}
}

// A tool that succeeds while the run is being stopped has succeeded.
func TestSuccessCountsWhileStopping(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	tl, err := tool.New("charge", "x", func(context.Context, struct{}) (string, error) { stop(); return "charged", nil }, &tool.Options{Effect: tool.Once})
	if err != nil {
		t.Fatal(err)
	}
	set, _ := tool.NewSet(tl)
	mem := runlog.NewMemory(nil)
	j, err := runlog.OpenJournal(context.Background(), mem, "x", &runlog.JournalOptions{Create: &runlog.NewRun{}})
	if err != nil {
		t.Fatal(err)
	}
	a := &agent.Agent{Name: "a", Model: charging{}, Tools: set}
	_, _ = a.Run(ctx, j.Scope("t"), &agent.Work{Prompt: "go"})
	_, err = a.Run(context.Background(), j.Scope("t"), &agent.Work{Prompt: "go"})
	var w *runlog.WaitError
	if errors.As(err, &w) {
		t.Errorf("the tool succeeded and the process lived, yet: %v", err)
	}
}
