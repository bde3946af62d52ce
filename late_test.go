package superstep

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/superstep-dev/superstep/internal/pregel"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// Who follows a run may see an answer before those are told who listen for answers, so that only the log says whether a
// question is still open.
func TestAnswerThatIsSeenBeforeItIsTold(t *testing.T) {
	t.Parallel()
	j, err := journal.Open(t.Context(), runlog.NewMemory(nil), "r", &journal.Options{Create: &runlog.NewRun{Workflow: "w"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"a", "b"} {
		if err := j.Write(t.Context(), "", runlog.KindAsked, path, &runlog.Question{Key: "q", Text: "Which?"}); err != nil {
			t.Fatal(err)
		}
	}
	untold := make(chan struct{})
	asked := 0
	n, refused, err := answerAll(t.Context(), j, func(ctx context.Context, q runlog.Question) (*runlog.Answer, bool) {
		asked++
		return nil, j.Answer(ctx, q.Path, &runlog.Answer{Key: q.Key, Value: json.RawMessage(`"this"`)}) != nil
	}, untold)
	if n != 1 || asked != 1 || refused != nil || err != nil {
		t.Errorf("%d answers after %d questions, %v, %v: the run would pause although it has one", n, asked, refused, err)
	}
	if err := j.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// An answer may be in the log when a graph ends as waiting, and nobody told yet: then nothing is open, and the run goes on.
func TestWaitingForNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		waits int // how often it says that it waits
		want  runlog.Status
	}{{1, runlog.Completed}, {5, runlog.Paused}} {
		runs := 0
		w := &workflow.Workflow{Name: "w", Run: func(context.Context, *workflow.Exec) (*workflow.Result, error) {
			if runs++; runs <= c.waits {
				return nil, &pregel.WaitingError{Paths: []string{"ask"}}
			}
			return &workflow.Result{Output: json.RawMessage(`1`)}, nil
		}}
		e, err := New(runlog.NewMemory(nil), &Options{Workflows: workflow.Set{w}})
		if err != nil {
			t.Fatal(err)
		}
		r, err := e.Start(t.Context(), "w", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := r.Wait(t.Context()); err != nil || out.Status != c.want || runs != 2 {
			t.Errorf("%+v, %v, executed %d times", out, err, runs)
		}
	}
}
