package host

import (
	"context"
	"testing"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/hosttest"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// The rule for answers, without a face.
func TestAnswer(t *testing.T) {
	t.Parallel()
	store := runlog.NewMemory(nil)
	e, err := superstep.New(store, &superstep.Options{Workflows: workflow.Set{hosttest.Asks(t)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	hosttest.Answers(t, store, "", func(run string, q *runlog.Question, value string) error {
		rests, err := Answer(t.Context(), e, run, q.Path, &runlog.Answer{Key: q.Key, Value: []byte(`"` + value + `"`)}, func(context.Context) error {
			_, err := e.Resume(context.Background(), run, nil)
			return err
		})
		t.Log(rests)
		return err
	})
}
