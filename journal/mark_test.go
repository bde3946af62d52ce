package journal_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

// A task that runs again records a mark that it did not record at first: others in the run have done more by then. A replay is not misled by its place, nor by
// what the task would record now.
func TestMarksAreReplayedWhereTheyStand(t *testing.T) {
	t.Parallel()
	store := runlog.NewMemory(nil)
	work := func(ctx context.Context, j *journal.Journal, words []string, effects ...string) error {
		s := j.Scope("a")
		if _, err := s.Mark(ctx, "before", words); err != nil {
			return err
		}
		for _, key := range effects {
			e := &journal.Effect{Key: key, Kind: "x", Do: func(context.Context, string) (json.RawMessage, error) { return json.RawMessage("1"), nil }}
			if _, err := s.Do(ctx, e); err != nil {
				return err
			}
		}
		_, err := s.Mark(ctx, "after", words)
		return err
	}
	j, err := journal.Open(t.Context(), store, "run", &journal.Options{Create: &runlog.NewRun{Workflow: "w"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Write(t.Context(), "", runlog.KindRunStarted, "", runlog.RunStarted{Workflow: "w"}); err != nil {
		t.Fatal(err)
	}
	if err := work(t.Context(), j, nil, "first"); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if j, err = journal.Open(t.Context(), store, "run", nil); err != nil {
		t.Fatal(err)
	}
	if err := j.Write(t.Context(), "", runlog.KindRunResumed, "", runlog.RunResumed{}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time changes nothing
		if err := work(t.Context(), j, []string{"seen x"}, "first", "second"); err != nil {
			t.Fatal(err)
		}
	}
	marked := 0
	j.Scope("b").Marks(func(path string, words []string) bool {
		if marked++; path != "a" || !slices.Equal(words, []string{"seen x"}) {
			t.Errorf("marked: %q %q", path, words)
		}
		return true
	})
	if marked != 1 { // of the same words
		t.Errorf("there are %d marks", marked)
	}
	if err := j.Write(t.Context(), runlog.Completed, runlog.KindRunFinished, "", runlog.RunFinished{}); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, words := range [][]string{nil, {"seen y"}} {
		report, err := journal.Replay(t.Context(), store, "run", &journal.ReplayOptions{Started: runlog.RunStarted{Workflow: "w"}, Wait: 10 * time.Second,
			Run: func(ctx context.Context, j *journal.Journal) (journal.Ending, error) {
				return journal.Ending{Finished: &runlog.RunFinished{}, Failed: &runlog.RunFailed{}}, work(ctx, j, words, "first", "second")
			}})
		if err != nil || report.Diverged != nil || report.Records != 9 || report.Epochs != 2 {
			t.Errorf("the replay: %+v, %v", report, err)
		}
	}
}
