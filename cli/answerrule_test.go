package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/hosttest"
	"github.com/superstep-dev/superstep/internal/tui"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// asksProgram is a program with the workflow of which faces answer questions.
func asksProgram(t *testing.T) (p hosted, store runlog.Store, environ []string) {
	t.Helper()
	p = func(env func(string) string) (*host.Config, *Options) {
		cfg := testConfig(env)
		cfg.Workflows = []*workflow.Workflow{hosttest.Asks(t)}
		return cfg, &Options{Version: "1.2.3"}
	}
	dir := t.TempDir()
	cfg, _ := p(func(string) string { return "" })
	opened, closer, err := cfg.Stores[0].Open(t.Context(), &runlog.OpenOptions{Place: runlog.Place{Kind: "sqlite", Path: filepath.Join(dir, "runs.db")}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = closer.Close() })
	return p, opened, []string{"HOME=" + dir, "SUPERSTEP_STORE=sqlite:" + filepath.Join(dir, "runs.db"), "SUPERSTEP_DATA_DIR=" + dir}
}

// `runs answer` resumes a run by the rule that all faces have.
func TestAnswerRule(t *testing.T) {
	p, store, environ := asksProgram(t)
	hosttest.Answers(t, store, "", func(run string, q *runlog.Question, value string) error {
		var out bytes.Buffer
		if code := runHere(context.Background(), p, t.Name(), t.TempDir(), environ, &out, &out, []string{"superstep", "runs", "answer", run, q.Path + "=" + value}); code != 0 && code != ExitPaused && !bytes.Contains(out.Bytes(), []byte("the answer is recorded")) {
			return errors.New(out.String())
		}
		return nil
	})
}

// So does an answer of an MCP client's user or model.
func TestAnswerRuleOverMCP(t *testing.T) {
	_, store, _ := asksProgram(t)
	e, err := superstep.New(store, &superstep.Options{Workflows: workflow.Set{hosttest.Asks(t)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	s, err := newServing(newApp(testConfig(func(string) string { return "" }), testOptions()), &pflag.FlagSet{})
	if err != nil {
		t.Fatal(err)
	}
	s.resumes = func(_ context.Context, st *tui.Start) (string, error) {
		_, err := e.Resume(context.Background(), st.Run, nil)
		return st.Run, err
	}
	hosttest.Answers(t, store, s.prefix, func(run string, q *runlog.Question, value string) error {
		text, _ := json.Marshal(value)
		return s.give(t.Context(), e, run, q.Path, &runlog.Answer{Key: q.Key, Value: text, By: "model over MCP"})
	})
}
