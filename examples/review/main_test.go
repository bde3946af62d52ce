package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/graph/graphtest"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

func TestReview(t *testing.T) {
	w, err := review()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "a.txt")
	if err := os.WriteFile(file, []byte("one\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := superstep.New(runlog.NewMemory(nil), &superstep.Options{Workflows: workflow.Set{w}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	said := []string{`"yes"`, `"again"`}
	answer := func(context.Context, runlog.Question) (*runlog.Answer, bool) {
		a := said[len(said)-1]
		said = said[:len(said)-1]
		return &runlog.Answer{Value: json.RawMessage(a)}, true
	}
	inputs, err := json.Marshal(Inputs{Files: file + ",nowhere"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := e.Start(t.Context(), "review", inputs, &superstep.StartOptions{Answer: answer})
	if err != nil {
		t.Fatal(err)
	}
	out, err := r.Wait(t.Context())
	if err != nil || out.Status != runlog.Completed {
		t.Fatalf("got %+v, %v", out, err)
	}
	for _, want := range []string{"a.txt has 2 lines", "could not review: open nowhere"} {
		if strings.Count(string(out.Output), want) != 2 { // once a round
			t.Errorf("%s is missing in %s", want, out.Output)
		}
	}
}

// The review comes to the same whenever it is killed, and whatever its files wait for.
func TestReviewKilledEverywhere(t *testing.T) {
	flow, err := build()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "a.txt")
	if err := os.WriteFile(file, []byte("one\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	graphtest.KillEverywhere(t, flow, State{Files: []string{file}}, &graphtest.Options{
		Answer: func(runlog.Question) any { return "yes" },
	})
}
