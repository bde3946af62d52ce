package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/temporal"
)

// Whoever reaches Temporal can answer a permission request. That permits nothing unless the worker's own configuration says so, as for other workers.
func TestAnswersOfOthers(t *testing.T) {
	for settings, want := range map[string]bool{"": false, "workers: {answers: true}\n": true} {
		home, dir := t.TempDir(), t.TempDir()
		for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"} {
			t.Setenv(name, home)
		}
		t.Setenv("SUPERSTEP_STORE", "file:"+t.TempDir())
		t.Setenv("SUPERSTEP_ON_ASK", "wait")
		t.Chdir(dir)
		recipe := filepath.Join(home, "superstep", "workflows", "r.yaml")
		err := errors.Join(os.MkdirAll(filepath.Dir(recipe), 0o700),
			os.WriteFile(recipe, []byte("name: r\nsteps:\n  - {id: go, tool: write_file, args: {path: made, content: x}}\n"), 0o600),
			os.WriteFile(filepath.Join(home, "superstep", "permissions.yaml"), []byte(settings), 0o600))
		if err != nil {
			t.Fatal(err)
		}
		var notes bytes.Buffer
		f := &flags{notes: &notes}
		h, err := f.open(t.Context(), host.Worker{Dirs: dir, Shared: true})
		if err != nil {
			t.Fatal(err)
		}
		e, err := h.Engine(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var suite testsuite.WorkflowTestSuite
		suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
		env := suite.NewTestWorkflowEnvironment()
		env.SetTestTimeout(time.Minute)
		temporal.Register(env, e, nil)
		env.RegisterDelayedCallback(func() {
			env.UpdateWorkflow(temporal.UpdateAnswer, "", &testsuite.TestUpdateCallback{OnReject: func(err error) { t.Error(err) }, OnComplete: func(any, error) {}},
				temporal.Answer{Path: "go", Answer: runlog.Answer{Key: "permit/turn-0/call-0", Value: json.RawMessage(`"once"`), By: "ann"}})
		}, time.Minute)
		env.RegisterDelayedCallback(env.CancelWorkflow, time.Hour)
		env.ExecuteWorkflow(temporal.Workflow, map[string]any{"run": "r1", "workflow": "r"})
		_, made := os.Stat(filepath.Join(dir, "made"))
		if (made == nil) != want {
			t.Errorf("with %q: made: %v; %v; %s", settings, made, env.GetWorkflowError(), &notes)
		}
		var records strings.Builder
		for r, err := range e.Follow(t.Context(), "r1", 0) {
			if err != nil {
				t.Fatal(err)
			}
			records.WriteString(string(r.Data) + "\n")
		}
		if !strings.Contains(records.String(), "permit/turn-0/call-0") {
			t.Errorf("with %q nothing was asked: %s", settings, &records)
		}
		e.Close()
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
}
