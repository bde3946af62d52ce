package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

// golden copies a store that an older superstep wrote. It has four runs of the workflow
// brief: a finished one of 5 steps, a paused one of 3, one of 4 whose process died and that
// is to be cancelled, and one that died before its first record.
func golden(t *testing.T, schema int) (path string) {
	t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("testdata/schema%d.sqlite", schema))
	path = filepath.Join(t.TempDir(), "runs.db")
	if err := errors.Join(err, os.WriteFile(path, content, 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}

var goldenRuns = []struct {
	id     string
	status runlog.Status
	steps  int
	head   uint64
}{{"empty", runlog.Interrupted, 0, 0}, {"interrupted", runlog.Interrupted, 4, 10}, {"paused", runlog.Paused, 3, 9}, {"finished", runlog.Completed, 5, 13}}

func checkGolden(t *testing.T, s *Store) {
	t.Helper()
	infos, err := s.Runs(t.Context(), nil)
	if err != nil || len(infos) != len(goldenRuns) {
		t.Fatalf("%d runs, error %v", len(infos), err)
	}
	for i, want := range goldenRuns {
		got := infos[i]
		snapshot := min(want.head, 2)
		if got.ID != want.id || got.Status != want.status || got.Head != want.head || got.Snapshot != snapshot || got.Epoch != 1 || got.Workflow != "brief" ||
			got.Title != "the "+want.id+" one" || got.Created.Year() != 2026 || got.Cancel != (want.id == "interrupted") || got.Parent != "" || got.Takeovers != 0 {
			t.Errorf("run %+v, want %+v", got, want)
		}
		recs, err := s.Read(t.Context(), want.id, 1, 0)
		if err != nil || uint64(len(recs)) != want.head {
			t.Fatalf("run %s has %d records, error %v", want.id, len(recs), err)
		}
		for k := range want.steps {
			done, step := recs[2+2*k], recs[3+2*k]
			if done.Kind != runlog.KindTaskDone || done.Path != fmt.Sprintf("step-%d", k) || string(done.Data) != fmt.Sprintf(`{"update":{"n":%d}}`, k) ||
				step.Kind != runlog.KindStepCommitted || string(step.Data) != fmt.Sprintf(`{"step":%d}`, k) || step.Epoch != 1 || done.Time.Before(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) {
				t.Errorf("run %s, step %d: %+v, %+v", want.id, k, done, step)
			}
		}
	}
}

// What older supersteps wrote is read and continued with, for ever.
func TestOldSchemas(t *testing.T) {
	for schema := 1; schema <= 3; schema++ {
		t.Run(fmt.Sprint(schema), func(t *testing.T) {
			path := golden(t, schema)
			s := openTest(t, path, nil)
			checkGolden(t, s)
			checkGolden(t, openTest(t, path, nil)) // as migrated
			for _, id := range []string{"paused", "interrupted", "empty"} {
				l, info, err := s.Acquire(t.Context(), id, nil)
				if err != nil || info.Epoch != 2 {
					t.Fatalf("%+v, error %v", info, err)
				}
				runlogtest.Append(t, l, 2)
				s.crowd()
				runlogtest.Append(t, l, 2)
				recs, err := s.Read(t.Context(), id, 1, 0)
				if err != nil || uint64(len(recs)) != info.Head+4 || recs[info.Head].Epoch != 2 {
					t.Errorf("run %s has %d records after %d and 4, error %v", id, len(recs), info.Head, err)
				}
			}
			l, _, err := s.Acquire(t.Context(), "finished", nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Append(t.Context(), runlogtest.Batch(1)); !errors.As(err, new(*runlog.EndedError)) {
				t.Errorf("an append to a finished run gives %v", err)
			}
			if err := s.Delete(t.Context(), "paused"); !errors.As(err, new(*runlog.BusyError)) {
				t.Errorf("%v", err)
			}
		})
	}
}

// A migration is all or nothing.
func TestInterruptedMigration(t *testing.T) {
	path := golden(t, 1)
	c, err := openConn(path)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(c.begin(t.Context()), migrateLocked(c, path, []string{"migrations/001.sql", "migrations/002.sql", "migrations/003.sql", "migrations/004.sql"}))
	if err != nil || c.sq.AutocommitEnabled() {
		t.Fatalf("the migration is not in the transaction; error %v", err)
	}
	if err := c.close(); err != nil { // as if the process had died
		t.Fatal(err)
	}
	checkGolden(t, openTest(t, path, nil))
}

func TestReclaim(t *testing.T) {
	for _, name := range []string{"new", "old"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "runs.db")
			if name == "old" {
				path = golden(t, 2)
			}
			s := openTest(t, path, nil)
			kept := map[string]int{}
			var gone []string
			for i := range 40 {
				id := fmt.Sprintf("run-%d", i)
				l := runlogtest.Create(t, s, id)
				for k := range 6 {
					if k%2 == 0 {
						s.crowd()
					}
					runlogtest.Append(t, l, 40)
				}
				if err := l.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
				if kept[id] = 240; i%4 > 0 {
					gone = append(gone, id)
					delete(kept, id)
				}
			}
			full := s.bytes()
			for _, id := range gone {
				if err := s.Delete(t.Context(), id); err != nil {
					t.Fatal(err)
				}
			}
			freed, err := s.Reclaim(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(path + "-wal")
			if err != nil || info.Size() != 0 {
				t.Errorf("the write-ahead log is %+v, error %v", info, err)
			}
			now := s.bytes()
			t.Logf("%d bytes before, %d after, %d freed", full, now, freed)
			if now > full*2/5 || freed < full/3 {
				t.Errorf("of %d bytes with 40 runs, %d are left with 10; it says that it freed %d", full, now, freed)
			}
			if n := number(t, s, "PRAGMA freelist_count"); n != 0 {
				t.Errorf("%d pages are free", n)
			}
			for id, n := range kept {
				if recs, err := s.Read(t.Context(), id, 1, 0); err != nil || len(recs) != n {
					t.Errorf("run %s has %d records, error %v", id, len(recs), err)
				}
			}
			if name == "old" {
				checkGoldenRun(t, s)
			}
			runlogtest.Append(t, runlogtest.Create(t, s, "later"), 3)
			if freed, err := s.Reclaim(t.Context()); err != nil || freed < 0 {
				t.Errorf("once more: %d bytes, error %v", freed, err)
			}
		})
	}
}

func checkGoldenRun(t *testing.T, s *Store) {
	t.Helper()
	for _, want := range goldenRuns {
		if recs, err := s.Read(t.Context(), want.id, 1, 0); err != nil || uint64(len(recs)) != want.head {
			t.Errorf("run %s has %d records, error %v", want.id, len(recs), err)
		}
	}
}
