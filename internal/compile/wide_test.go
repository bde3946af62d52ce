package compile_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/internal/compile"
	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/model/openai"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// As many agents ask the server of their model at once as max_concurrency says, unless the user has set how many may.
func TestAgentsAtOnce(t *testing.T) {
	for _, c := range []struct{ says, set, want int }{{12, 0, 12}, {0, 0, 5}, {12, 3, 3}, {2, 8, 2}} {
		var now, peak atomic.Int32
		server := modeltest.NewServer(t, func(*modeltest.ParsedRequest) modeltest.Reply {
			n := now.Add(1)
			for p := peak.Load(); n > p && !peak.CompareAndSwap(p, n); p = peak.Load() {
			}
			for end := time.Now().Add(5 * time.Second); int(peak.Load()) < c.want && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
			time.Sleep(20 * time.Millisecond) // one too many would come now
			now.Add(-1)
			return modeltest.Text("done")
		}, nil)
		m, err := openai.New(&openai.Options{BaseURL: server.URL, Model: "m", APIKey: "k"})
		if err != nil {
			t.Fatal(err)
		}
		text := "name: test\nsteps:\n"
		if c.says > 0 {
			text = strings.Replace(text, "steps", fmt.Sprintf("max_concurrency: %d\nsteps", c.says), 1)
		}
		for i := range 12 {
			text += fmt.Sprintf("  - {id: s%d, subagent: x, prompt: go}\n", i)
		}
		w, err := compile.New(&compile.Bundle{Main: parse(t, text)}, &compile.Options{
			Open: func(context.Context, *compile.Needs, *compile.Setting) (*compile.Crew, error) {
				return &compile.Crew{Agent: func(name, _ string) (*agent.Agent, error) { return &agent.Agent{Name: name, Model: m}, nil }}, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		e, err := superstep.New(runlog.NewMemory(nil), &superstep.Options{Workflows: []*workflow.Workflow{w}, Agents: c.set})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(e.Close)
		r, err := e.Start(t.Context(), "test", json.RawMessage("{}"), nil)
		if err != nil {
			t.Fatal(err)
		}
		ended(t, e, r).status(t, runlog.Completed)
		if got := int(peak.Load()); got != c.want {
			t.Errorf("max_concurrency %d, agents at once %d: %d at the server, want %d", c.says, c.set, got, c.want)
		}
	}
}
