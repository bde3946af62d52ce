package sqlite

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	zsqlite "zombiezen.com/go/sqlite"
)

// crowd lets the next append of a store share a row, as those of many runs do.
func (s *Store) crowd() {
	w := <-s.turn
	w.runs = crowd
	s.turn <- w
}

// gather lets a store move what is in the table recent after its next write.
func (s *Store) gather() {
	w := <-s.turn
	w.gatherAt = 0
	s.turn <- w
}

// Whatever is appended in whatever way, and moved or not, reads as in memory.
func TestSharedRowsAgainstMemory(t *testing.T) {
	rnd, _ := faults.Rand(t)
	path := filepath.Join(t.TempDir(), "runs.db")
	stores := []*Store{openTest(t, path, nil), openTest(t, path, nil)}
	memory := runlog.NewMemory(nil)
	type hold struct{ real, model runlog.Log }
	holds := map[string]hold{}
	acquire := func(s *Store, id string, opt *runlog.AcquireOptions) {
		l, info, err := s.Acquire(t.Context(), id, opt)
		m, want, err2 := memory.Acquire(t.Context(), id, opt)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		if info.Head != want.Head || info.Snapshot != want.Snapshot || info.Epoch != want.Epoch {
			t.Fatalf("acquired %+v, want %+v", info, want)
		}
		holds[id] = hold{l, m}
	}
	made := 0
	for range faults.N(20_000) {
		s := stores[rnd.IntN(2)]
		ids := slices.Sorted(maps.Keys(holds))
		if len(ids) < 12 {
			made++
			acquire(s, fmt.Sprint("run-", made), &runlog.AcquireOptions{Create: &runlog.NewRun{}})
			continue
		}
		id := ids[rnd.IntN(len(ids))]
		switch k := rnd.IntN(100); {
		case k < 60:
			if rnd.IntN(3) > 0 {
				stores[0].crowd()
				stores[1].crowd()
			}
			b := randomBatch(rnd)
			if err := errors.Join(holds[id].real.Append(t.Context(), b), holds[id].model.Append(t.Context(), b)); err != nil {
				t.Fatal(err)
			}
		case k < 85:
			from, limit := uint64(rnd.IntN(40)), rnd.IntN(20)
			got, err := s.Read(t.Context(), id, from, limit)
			want, err2 := memory.Read(t.Context(), id, from, limit)
			if err := errors.Join(err, err2); err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("%s from %d, limit %d: %d records, want %d, error %v", id, from, limit, len(got), len(want), err)
			}
		case k < 90:
			if err := errors.Join(holds[id].real.Release(t.Context()), holds[id].model.Release(t.Context())); err != nil {
				t.Fatal(err)
			}
			acquire(s, id, nil)
		case k < 93:
			checkRuns(t, s, memory)
		case k < 96:
			s.gather()
		case k < 98:
			if err := errors.Join(holds[id].real.Release(t.Context()), holds[id].model.Release(t.Context()), s.Delete(t.Context(), id), memory.Delete(t.Context(), id)); err != nil {
				t.Fatal(err)
			}
			delete(holds, id)
		default:
			w := <-s.turn
			w.abandon(errors.New("a connection that is lost"))
			s.turn <- w
		}
	}
	checkRuns(t, stores[0], memory)
	for _, s := range stores {
		if n := number(t, s, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"); n != 0 {
			t.Errorf("the integrity check finds %d problems", n)
		}
	}
	if n := number(t, stores[0], "SELECT count(*) FROM damaged"); n != 0 {
		t.Errorf("%d rows are damaged", n)
	}
}

func randomBatch(rnd *rand.Rand) *runlog.Batch {
	b := runlogtest.Batch(1 + rnd.IntN(3))
	if rnd.IntN(20) == 0 {
		b.Records[0].Data = []byte(fmt.Sprintf(`"%0*d"`, 100_000, rnd.IntN(1000)))
	}
	if rnd.IntN(5) == 0 {
		b.Records[0].Kind = runlog.KindSnapshot
	}
	return b
}

func checkRuns(t *testing.T, s *Store, memory *runlog.Memory) {
	t.Helper()
	got, err := s.Runs(t.Context(), nil)
	want, err2 := memory.Runs(t.Context(), nil)
	if err := errors.Join(err, err2); err != nil || len(got) != len(want) {
		t.Fatalf("%d runs, want %d, error %v", len(got), len(want), err)
	}
	sizes, err := s.Sizes(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		if got[i].ID != want[i].ID || got[i].Head != want[i].Head || got[i].Snapshot != want[i].Snapshot || (sizes[got[i].ID] > 0) != (want[i].Head > 0) {
			t.Fatalf("listed %+v of %d bytes, want %+v", got[i], sizes[got[i].ID], want[i])
		}
	}
}

// Damage in a row that runs share is the trouble of the run it is in.
func TestBitFlipsInSharedRow(t *testing.T) {
	start := time.Now()
	s := openTest(t, filepath.Join(t.TempDir(), "runs.db"), nil)
	ids := []string{"a", "b", "c"}
	for _, id := range ids {
		l := runlogtest.Create(t, s, id)
		s.crowd()
		runlogtest.Append(t, l, 2)
	}
	// One row of all three, as one commit would write it.
	c, err := openConn(s.path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	var row []byte
	err = errors.Join(rawOn(c, "PRAGMA synchronous=OFF"),
		c.query("SELECT batches FROM recent ORDER BY no", nil, func(st *zsqlite.Stmt) bool {
			row = append(row, blob(st, 0)...)
			return true
		}), rawOn(c, "DELETE FROM recent WHERE no > 1"), rawOn(c, "INSERT INTO recent VALUES (9, ?1)", row))
	if err != nil {
		t.Fatal(err)
	}
	size := len(row) / 3
	for bit := range len(row) * 8 {
		bad := slices.Clone(row)
		bad[bit/8] ^= 1 << (bit % 8)
		if err := rawOn(c, "UPDATE recent SET batches = ?1 WHERE no = 9", bad); err != nil {
			t.Fatal(err)
		}
		s.recent.forget()
		hit, head := bit/8/size, bit/8%size < batchHead
		for i, id := range ids {
			recs, err := s.Read(t.Context(), id, 1, 0)
			switch {
			case i != hit:
				if err != nil || len(recs) != 2 {
					t.Fatalf("bit %d: run %s beside it has %d records, error %v", bit, id, len(recs), err)
				}
			case head: // nothing tells whose it was
				if err != nil || len(recs) != 0 {
					t.Fatalf("bit %d: run %s has %d records, error %v", bit, id, len(recs), err)
				}
			case !errors.As(err, new(*runlog.CorruptError)):
				t.Fatalf("bit %d: run %s has %d records, error %v", bit, id, len(recs), err)
			}
		}
	}
	// What cannot be read is put aside when the rest is moved.
	bad := slices.Clone(row)
	bad[size]++
	if err := rawOn(c, "UPDATE recent SET batches = ?1 WHERE no = 9", bad); err != nil {
		t.Fatal(err)
	}
	s.gather()
	runlogtest.Create(t, s, "d")
	if n := number(t, s, "SELECT count(*) FROM damaged"); n != 1 {
		t.Errorf("%d rows were put aside", n)
	}
	for id, want := range map[string]int{"a": 2, "b": 0, "c": 2} {
		if recs, err := s.Read(t.Context(), id, 1, 0); err != nil || len(recs) != want {
			t.Errorf("run %s has %d records, error %v; want %d", id, len(recs), err, want)
		}
	}
	faults.Report(t, "bit flip in a row that runs share", "sqlite", len(row)*8, start, "the others whole each time")
}

// A transaction sees what it has put into a shared row, and when it is rolled back nothing
// of it is remembered.
func TestSharedRowRolledBack(t *testing.T) {
	s := openTest(t, filepath.Join(t.TempDir(), "runs.db"), nil)
	for _, id := range []string{"a", "b"} {
		runlogtest.Create(t, s, id)
	}
	w := <-s.turn
	head := func(id string) uint64 {
		t.Helper()
		_, r, err := w.findRow(id)
		if err != nil {
			t.Fatal(err)
		}
		return r.info.Head
	}
	for _, undone := range []bool{true, false} {
		run := map[bool]int64{true: 1, false: 2}[undone]
		err := w.begin(t.Context())
		w.epochs[run] = 7
		if err := errors.Join(err, w.share(run, 5, []byte("frames"))); err != nil {
			t.Fatal(err)
		}
		if a, b := head("a"), head("b"); a != 5 && undone || b != 5 && !undone {
			t.Errorf("in the transaction the heads are %d and %d", a, b)
		}
		if undone {
			w.undo()
			continue
		}
		if len(w.epochs) != 1 {
			t.Errorf("after a transaction that was rolled back, epochs are known: %v", w.epochs)
		}
		if err := errors.Join(w.commit(w.c), w.begin(t.Context())); err != nil {
			t.Fatal(err)
		}
		if a, b := head("a"), head("b"); a != 0 || b != 5 {
			t.Errorf("the heads are %d and %d, want 0 and 5", a, b)
		}
		w.undo()
	}
	s.turn <- w
}

// A transaction that reads does not see what came later, though others have read it.
func TestSharedRowsOfOneMoment(t *testing.T) {
	s := openTest(t, filepath.Join(t.TempDir(), "runs.db"), nil)
	l := runlogtest.Create(t, s, "r")
	s.crowd()
	runlogtest.Append(t, l, 2)
	c, err := openReader(s.path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	err = c.snapshot(func() error {
		v, err := s.recent.view(c)
		if err != nil {
			return err
		}
		for _, gathered := range []bool{false, true} {
			s.crowd()
			if gathered {
				s.gather()
			}
			runlogtest.Append(t, l, 2)
			if recs, err := s.Read(t.Context(), "r", 1, 0); err != nil || len(recs) < 4 {
				t.Fatalf("%d records, error %v", len(recs), err)
			}
			again, err := s.recent.view(c)
			if err != nil {
				return err
			}
			for _, v := range []view{v, again} {
				r, err := v.findRow("r")
				if err != nil || r.info.Head != 2 {
					t.Errorf("a transaction from before sees %+v, error %v", r, err)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
