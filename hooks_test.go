package superstep_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/hook"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/workflow"
)

// A hook answers for the model in one task, refuses the tool in another, and changes what the nodes return. What it did is recorded: wherever the process
// dies, the resumed run has the same output, no recorded call reaches a hook again, and a replay calls none for models and tools.
func TestHooks(t *testing.T) {
	t.Parallel()
	m := &scripted.Model{Answer: func(r *model.Request) scripted.Turn {
		if last := r.Messages[len(r.Messages)-1]; last.Role == model.Tool {
			return scripted.Say(last.Parts[0].Text)
		}
		return scripted.Call("look", `{"at":"`+r.Messages[0].Text()+`"}`)
	}}
	var called, models, tools, nodes, outer atomic.Int32
	hooks := []hook.Hook{
		{Model: func(ctx context.Context, _ *hook.At, req *model.Request, next hook.ModelFunc) (*model.Response, error) {
			outer.Add(1)
			return next(ctx, req)
		}},
		{
			Model: func(ctx context.Context, at *hook.At, req *model.Request, next hook.ModelFunc) (*model.Response, error) {
				if models.Add(1); at.Run == "" || at.Agent != req.Messages[0].Text() || !strings.Contains(at.Path, at.Agent) {
					t.Errorf("%+v", at)
				}
				if at.Agent == "one" {
					return &model.Response{Message: model.Message{Role: model.Assistant, Parts: []model.Part{{Kind: model.Text, Text: "of the hook"}}}, Stop: model.StopEnd}, nil
				}
				return next(ctx, req)
			},
			Tool: func(ctx context.Context, at *hook.At, args json.RawMessage, next hook.ToolFunc) (tool.Result, error) {
				if tools.Add(1); at.Name != "look" || string(args) != `{"at":"`+at.Agent+`"}` {
					t.Errorf("%+v %s", at, args)
				}
				if at.Agent == "two" {
					return tool.Failed("not two"), nil
				}
				return next(ctx)
			},
			Node: func(ctx context.Context, at *hook.At, state any, next hook.NodeFunc) (any, error) {
				update, err := next(ctx)
				if nodes.Add(1); err != nil || at.Name != "ask" {
					return update, err
				}
				return facts{Words: append(update.(facts).Words, "seen")}, nil
			},
		},
	}
	const want = `"of the hook,seen,not two,seen,seen three,seen,seen four,seen"`
	deaths := 0
	for n := 1; ; n++ {
		for _, c := range []*atomic.Int32{&called, &models, &tools, &nodes, &outer} {
			c.Store(0)
		}
		store := runlogtest.NewMortal()
		store.DieAt(n, n%2 == 0)
		boot := func() *superstep.Engine {
			e, err := superstep.New(store, &superstep.Options{Workflows: []*workflow.Workflow{agents(t, m, &called)}, Hooks: hooks, Parallelism: 1})
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		e := boot()
		run, err := e.Start(t.Context(), "job", json.RawMessage(`{"task":"x"}`), nil)
		if err == nil {
			_, _ = run.Wait(t.Context())
		}
		died := store.Dead()
		e.Close()
		if store.Revive(); run == nil {
			continue
		}
		e = boot()
		again, err := e.Resume(t.Context(), run.ID(), nil)
		if err != nil && !errors.As(err, new(*runlog.EndedError)) {
			t.Fatal(err)
		}
		if err == nil {
			out, err := again.Wait(t.Context())
			if err != nil || string(out.Output) != want {
				t.Fatalf("death at append %d: %s, %+v, %v", n, out.Output, out, err)
			}
		}
		before := []int32{called.Load(), models.Load(), tools.Load(), outer.Load()}
		if n := before[1]; n < 7 || n > 8 || before[2] < 3 || before[2] > 4 || before[3] != n {
			t.Errorf("hooks were called %v times", before)
		}
		report, err := e.Replay(t.Context(), run.ID(), nil)
		if err != nil || report.Diverged != nil {
			t.Fatalf("%+v, %v", report, err)
		}
		if after := []int32{called.Load(), models.Load(), tools.Load(), outer.Load()}; !slices.Equal(before, after) {
			t.Errorf("a replay called hooks: %v, then %v", before, after)
		}
		e.Close()
		if deaths++; !died {
			break
		}
	}
	if deaths < 10 {
		t.Errorf("it died %d times", deaths)
	}
}

// A hook that returns an update of another type fails the node.
func TestHookOfAnotherType(t *testing.T) {
	t.Parallel()
	e, err := superstep.New(runlog.NewMemory(nil), &superstep.Options{Workflows: []*workflow.Workflow{(&rig{}).workflow(t)}, Hooks: []hook.Hook{{
		Node: func(context.Context, *hook.At, any, hook.NodeFunc) (any, error) { return 1, nil },
	}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	out := ends(t, start(t, e, nil), runlog.Failed)
	if out.Err == nil || !strings.Contains(out.Err.Error(), "a hook of node first returned an update of type int, want string") {
		t.Errorf("%v", out.Err)
	}
}
