package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
)

// answering answers the questions of a journal in turn: the words of each, and its answer, "" to deny it. What is left over is not answered.
func answering(t *testing.T, j *journal.Journal, answers ...[2]string) (asked func() []string) {
	t.Helper()
	var got []string
	done, stop := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			for _, q := range j.Open() {
				if len(got) == len(answers) {
					return
				}
				a := answers[len(got)]
				got = append(got, q.Text)
				if q.Text != a[0] || q.Path != "work/form[1.1]" || q.Kind != runlog.QuestionForm || !journal.AskedDuring(&q) {
					t.Errorf("asked %+v, want %q", q, a[0])
				}
				if err := j.Answer(t.Context(), q.Path, &runlog.Answer{Key: q.Key, Value: json.RawMessage(a[1]), Denied: a[1] == "", By: "person"}); err != nil {
					t.Error(err)
				}
			}
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return func() []string { close(stop); <-done; return got }
}

// A call asks while it runs. When a crash has it made again, what was answered is not asked again in the same words, what was open is withdrawn, and a
// replay of all that gives the same log.
func TestCallAsks(t *testing.T) {
	t.Parallel()
	store := runlog.NewMemory(nil)
	crash, interrupt := context.WithCancel(t.Context())
	attempts := 0
	form := &tool.Tool{Name: "form", Description: "x", Input: &jsonschema.Schema{Type: "object"}, Effect: tool.Idempotent, Run: func(ctx context.Context, c *tool.Call) (string, error) {
		attempts++
		var out []string
		for _, text := range []string{"name?", "name?", "age?"} {
			if attempts == 1 && text == "age?" {
				interrupt() // while the question is open, or before it is
			}
			a, err := c.Ask(ctx, text, json.RawMessage(`{"type":"object"}`))
			if err != nil {
				return "", err
			}
			out = append(out, string(a))
		}
		return strings.Join(out, " "), nil
	}}
	tools, err := tool.NewSet(form)
	if err != nil {
		t.Fatal(err)
	}
	m := &scripted.Model{Turns: []scripted.Turn{scripted.Call("form", "{}"), scripted.Say("Done.")}}
	execute := func(ctx context.Context, j *journal.Journal) (string, error) {
		out, err := (&agent.Agent{Name: "a", Model: m, Tools: tools}).Run(ctx, j.Scope("work"), &agent.Work{Prompt: "Ask."})
		if err != nil {
			return "", err
		}
		return strings.Join(results(out), " "), nil
	}
	j, err := journal.Open(t.Context(), store, "r", &journal.Options{Create: &runlog.NewRun{Workflow: "w"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Write(t.Context(), "", runlog.KindRunStarted, "", runlog.RunStarted{Workflow: "w"}); err != nil {
		t.Fatal(err)
	}
	asked := answering(t, j, [2]string{"name?", `{"n":1}`}, [2]string{"name?", `{"n":2}`})
	if _, err := execute(crash, j); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	asked()
	if open := j.Open(); len(open) > 0 {
		t.Errorf("still open: %+v", open)
	}
	// A process that dies cannot withdraw anything.
	left := &runlog.Question{Key: "during/left", Kind: runlog.QuestionForm, Text: "left?"}
	if err := j.Write(t.Context(), "", runlog.KindAsked, "work/form[1.1]", left); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if j, err = journal.Open(t.Context(), store, "r", nil); err != nil {
		t.Fatal(err)
	}
	if err := j.Write(t.Context(), "", runlog.KindRunResumed, "", runlog.RunResumed{}); err != nil {
		t.Fatal(err)
	}
	if j.Open()[0].Text != "left?" {
		t.Fatalf("open: %+v", j.Open())
	}
	if err := j.Scope("work/form[1.1]").Withdraw(t.Context(), "person"); err != nil { // Asker does the same, but races with who answers here
		t.Fatal(err)
	}
	asked = answering(t, j, [2]string{"age?", ""})
	got, err := execute(t.Context(), j)
	if want := `form error=false {"n":1} {"n":2} `; err != nil || got != want || attempts != 2 || len(asked()) != 1 {
		t.Fatalf("%v, %d attempts: %q, want %q", err, attempts, got, want)
	}
	if err := j.Write(t.Context(), runlog.Completed, runlog.KindRunFinished, "", runlog.RunFinished{}); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	report, err := journal.Replay(t.Context(), store, "r", &journal.ReplayOptions{Started: runlog.RunStarted{Workflow: "w"}, Wait: 5 * time.Second,
		Run: func(ctx context.Context, j *journal.Journal) (journal.Ending, error) {
			_, err := execute(ctx, j)
			return journal.Ending{Finished: &runlog.RunFinished{}, Failed: &runlog.RunFailed{}}, err
		}})
	if err != nil || report.Diverged != nil || report.Records != len(recordsOf(t, store)) || attempts != 2 {
		t.Errorf("the replay: %+v, %v, of %d records, %d attempts", report, err, len(recordsOf(t, store)), attempts)
	}
}

// A question that was open when its process crashed is withdrawn before the call is made again, and one of a run that is to stop is given up. Nobody is asked where
// nobody is there.
func TestCallAsksNobody(t *testing.T) {
	t.Parallel()
	j, err := journal.Open(t.Context(), runlog.NewMemory(nil), "r", &journal.Options{Create: &runlog.NewRun{Workflow: "w"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Write(t.Context(), "", runlog.KindAsked, "work/form[1.1]", &runlog.Question{Key: "during/left", Text: "left?"}); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan struct{})
	var failed error
	form := &tool.Tool{Name: "form", Description: "x", Input: &jsonschema.Schema{Type: "object"}, Effect: tool.Pure, Run: func(ctx context.Context, c *tool.Call) (string, error) {
		if c.Ask == nil {
			return "nobody", nil
		}
		if open := j.Open(); len(open) > 0 {
			t.Errorf("open: %+v", open)
		}
		close(stopped)
		_, failed = c.Ask(ctx, "name?", nil)
		return "given up", nil
	}}
	tools, err := tool.NewSet(form)
	if err != nil {
		t.Fatal(err)
	}
	for _, headless := range []bool{false, true} {
		m := &scripted.Model{Turns: []scripted.Turn{scripted.Call("form", "{}"), scripted.Say("Done.")}}
		scope := j.Scope(map[bool]string{false: "work", true: "other"}[headless])
		out, err := (&agent.Agent{Name: "a", Model: m, Tools: tools, Headless: headless}).Run(t.Context(), scope, &agent.Work{Prompt: "Ask.", Stopped: stopped})
		if want := map[bool]string{false: "form error=false given up", true: "form error=false nobody"}[headless]; err != nil || results(out)[0] != want {
			t.Errorf("%v, %q, want %q", err, results(out), want)
		}
	}
	if failed == nil || !strings.Contains(failed.Error(), "is to stop") || len(j.Open()) > 0 {
		t.Errorf("it failed with %v; open are %+v", failed, j.Open())
	}
}
