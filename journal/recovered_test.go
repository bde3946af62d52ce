package journal_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

// readCounter counts the records that are read.
type readCounter struct {
	runlog.Store
	n int
}

func (s *readCounter) Read(ctx context.Context, id string, from uint64, limit int) ([]runlog.Record, error) {
	recs, err := s.Store.Read(ctx, id, from, limit)
	s.n += len(recs)
	return recs, err
}

// What a journal needs of a log it reads from the last snapshot on, whether it opens the log or goes on in it, and it
// remembers what that carries.
func TestReadsFromTheLastSnapshot(t *testing.T) {
	t.Parallel()
	store := &readCounter{Store: runlog.NewMemory(nil)}
	once := &journal.Effect{Key: "once", Repeat: journal.RepeatNever, Do: func(context.Context, string) (json.RawMessage, error) { return json.RawMessage("1"), nil }}
	j, err := journal.Open(t.Context(), store, "run", &journal.Options{Create: &runlog.NewRun{Workflow: "test"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := j.Scope("early").Do(t.Context(), once); err != nil {
		t.Fatal(err)
	}
	const many = 300 // more than one page
	for i := range many {
		write(t, j, fmt.Sprint("before ", i))
	}
	if err := j.Write(t.Context(), "", runlog.KindSnapshot, "", json.RawMessage("{}")); err != nil {
		t.Fatal(err)
	}
	snapshot := j.Info().Snapshot
	for i := range 3 {
		write(t, j, fmt.Sprint("after ", i))
	}
	const few = 1 + 1 + 3 // the snapshot, what it carries and what follows
	reads := func(j *journal.Journal, most int) {
		t.Helper()
		if j.Info().Snapshot != snapshot {
			t.Fatalf("the last snapshot is %d, not %d", j.Info().Snapshot, snapshot)
		}
		var first uint64
		for r, err := range j.Since(t.Context(), j.Info().Snapshot) {
			if err != nil {
				t.Fatal(err)
			}
			if first == 0 {
				first = r.Seq
			}
		}
		if first != snapshot || store.n > most {
			t.Errorf("%d records were read, from %d on; want %d at most, from the snapshot %d on", store.n, first, most, snapshot)
		}
	}
	store.n = 0
	reads(j, few)
	if err := j.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	store.n = 0
	if j, err = journal.Open(t.Context(), store, "run", nil); err != nil {
		t.Fatal(err)
	}
	defer j.Close(context.Background())
	reads(j, few+1) // and the first of the log, which says where the run comes from
	if _, done := j.Scope("early").Done("once"); !done {
		t.Error("what the snapshot carries is forgotten")
	}
}
