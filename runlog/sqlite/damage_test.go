package sqlite

import (
	"errors"
	"fmt"
	"os"
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

// inMemory puts the files of a test, which need not outlive anything, where writing them is
// fast, if there is such a place. It is called before t.TempDir.
func inMemory(t *testing.T) {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		t.Setenv("TMPDIR", "/dev/shm")
	}
}

// outcome is what reads of a damaged file gave.
type outcome struct{ refused, found, shorter, whole int }

// readDamaged opens a store that may be damaged, and checks that each run of it gives
// records as they were written: all, or the first ones.
func readDamaged(t *testing.T, path string, want map[string][]runlog.Record, sum *outcome, what string) {
	t.Helper()
	s, err := Open(t.Context(), path, nil)
	if err != nil {
		sum.refused++
		return
	}
	infos, err := s.Runs(t.Context(), nil)
	found, shorter := err != nil || len(infos) != len(want), false
	for id, recs := range want {
		got, err := s.Read(t.Context(), id, 1, 0)
		if len(got) > len(recs) || !reflect.DeepEqual(got, recs[:len(got)]) && len(got) > 0 {
			t.Fatalf("%s: run %s has records that nobody wrote: %+v, error %v", what, id, got, err)
		}
		found = found || err != nil
		shorter = shorter || err == nil && len(got) < len(recs)
		if l, info, err := s.Acquire(t.Context(), id, nil); err != nil {
			found = true
		} else if info.Head > uint64(len(recs)) {
			found = true // and reading has said so, or what is appended does not follow
		} else if err := l.Release(t.Context()); err != nil {
			found = true
		}
	}
	if err := s.Close(); err != nil {
		found = true
	}
	switch {
	case found:
		sum.found++
	case shorter:
		sum.shorter++
	default:
		sum.whole++
	}
}

// damageable makes a store with runs of all kinds, closes it, and returns its file and what
// is in it.
func damageable(t *testing.T) (file []byte, want map[string][]runlog.Record) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "runs.db")
	s, err := Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	want = map[string][]runlog.Record{}
	for i := range 6 {
		id := fmt.Sprint("run-", i)
		l := runlogtest.Create(t, s, id)
		for k := range 8 {
			if (i+k)%3 == 0 {
				s.crowd()
			}
			b := runlogtest.Batch(1 + k%3)
			b.Records[0].Data = fmt.Appendf(nil, `"%0*d"`, 200*k, i)
			if i == 5 && k == 4 {
				b.Records[0].Data = fmt.Appendf(nil, `"%0*d"`, 20_000, i)
			}
			if err := l.Append(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
		if want[id], err = s.Read(t.Context(), id, 1, 0); err != nil {
			t.Fatal(err)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	file, err = os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return file, want
}

// Whatever bit of the file is wrong: no panic, and no record that nobody wrote.
func TestBitFlipsInFile(t *testing.T) {
	inMemory(t)
	rnd, _ := faults.Rand(t)
	start := time.Now()
	file, want := damageable(t)
	path := filepath.Join(t.TempDir(), "runs.db")
	var sum outcome
	n := faults.N(10_000)
	for range n {
		bit := rnd.IntN(len(file) * 8)
		bad := slices.Clone(file)
		bad[bit/8] ^= 1 << (bit % 8)
		if err := errors.Join(removeAll(path, path+"-wal", path+"-shm"), os.WriteFile(path, bad, 0o600)); err != nil {
			t.Fatal(err)
		}
		readDamaged(t, path, want, &sum, fmt.Sprint("bit ", bit))
	}
	if sum.whole == n || sum.found == 0 {
		t.Errorf("nothing was damaged: %+v", sum)
	}
	faults.Report(t, "bit flip", "sqlite", n, start, "%d found, %d refused at open, %d without effect, %d with a log that ends early; 0 wrong records", sum.found, sum.refused, sum.whole, sum.shorter)
}

func removeAll(paths ...string) (err error) {
	for _, p := range paths {
		err = errors.Join(err, os.RemoveAll(p))
	}
	return err
}

// The write-ahead log is cut off, or has a wrong bit, anywhere in its last three
// transactions: the transactions before are there, whole.
func TestCutWriteAheadLog(t *testing.T) {
	inMemory(t)
	rnd, _ := faults.Rand(t)
	start := time.Now()
	path := filepath.Join(t.TempDir(), "runs.db")
	s := openTest(t, path, nil)
	l := runlogtest.Create(t, s, "a")
	runlogtest.Append(t, l, 4)
	var ends []int64 // of the transactions, in the log
	var heads []int
	for i := range 4 {
		if i == 2 {
			s.crowd()
		}
		if i > 0 {
			runlogtest.Append(t, l, i)
		}
		info, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		recs, err := s.Read(t.Context(), "a", 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		ends, heads = append(ends, info.Size()), append(heads, len(recs))
	}
	all, err := s.Read(t.Context(), "a", 1, 0)
	db, err2 := os.ReadFile(path)
	wal, err3 := os.ReadFile(path + "-wal")
	if err := errors.Join(err, err2, err3); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "runs.db")
	n := 0
	check := func(wal []byte, first int64, what string) {
		t.Helper()
		n++
		err := errors.Join(removeAll(copied, copied+"-wal", copied+"-shm"), os.WriteFile(copied, db, 0o600), os.WriteFile(copied+"-wal", wal, 0o600))
		if err != nil {
			t.Fatal(err)
		}
		head := heads[0]
		for i, end := range ends {
			if end <= first {
				head = heads[i]
			}
		}
		s, err := Open(t.Context(), copied, nil)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		defer s.Close()
		recs, err := s.Read(t.Context(), "a", 1, 0)
		if err != nil || len(recs) != head || !reflect.DeepEqual(recs, all[:head]) {
			t.Fatalf("%s: %d records of %d, error %v", what, len(recs), head, err)
		}
		if _, info, err := s.Acquire(t.Context(), "a", nil); err != nil || int(info.Head) != head {
			t.Fatalf("%s: %+v, error %v", what, info, err)
		}
	}
	for cut := ends[0]; cut <= ends[3]; cut++ {
		if faults.Full() || rnd.IntN(100) == 0 || slices.Contains(ends, cut) {
			check(wal[:cut], cut, fmt.Sprint("cut at ", cut))
		}
	}
	for range faults.N(1000) {
		at := ends[0] + rnd.Int64N(ends[3]-ends[0])
		bad := slices.Clone(wal)
		bad[at] ^= 1 << rnd.IntN(8)
		check(bad, at, fmt.Sprint("a wrong bit at ", at))
	}
	faults.Report(t, "torn write", "sqlite", n, start, "of the last 3 transactions those that were whole are there each time")
}

// numbered is a batch of two records that say which ones of their run they are.
func numbered(id string, from uint64) *runlog.Batch {
	b := runlogtest.Batch(2)
	for i := range b.Records {
		b.Records[i].Data = fmt.Appendf(nil, `"%s %d"`, id, from+uint64(i))
	}
	return b
}

// Each commit fails once, before or behind the disk: what was acknowledged is there, what
// was refused is not, and runs go on.
func TestEachCommitFails(t *testing.T) {
	start := time.Now()
	broken := dbError{zsqlite.ResultIOErrFsync.ToError()}
	n := 0
	for landed := range 2 {
		for nth := 1; ; nth++ {
			count := 0
			commit := func(c *conn) error {
				if count++; count != nth {
					return c.commit()
				}
				if landed == 1 {
					return errors.Join(broken, c.commit())
				}
				return broken
			}
			path := filepath.Join(t.TempDir(), "runs.db")
			s, err := open(t.Context(), path, &Options{}, commit)
			if err != nil {
				t.Fatal(err)
			}
			s.reserve.pause = time.Hour
			failing(t, &Store{s, inner{s}})
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if count < nth {
				break
			}
			n++
		}
	}
	faults.Report(t, "fsync error", "sqlite", n, start, "each commit once, stored and not: 0 acknowledged lost, 0 refused ones stored")
}

// failing does a little of everything on a store one commit of which fails.
func failing(t *testing.T, s *Store) {
	t.Helper()
	acquire := func(id string, opt *runlog.AcquireOptions) runlog.Log {
		for range 2 {
			l, _, err := s.Acquire(t.Context(), id, opt)
			if err == nil {
				return l
			}
			if errors.Is(err, runlog.ErrExists) {
				t.Fatal("a run was made though its maker was told otherwise")
			}
		}
		t.Fatal("a run cannot be acquired")
		return nil
	}
	for _, id := range []string{"a", "b"} {
		l := acquire(id, &runlog.AcquireOptions{Create: &runlog.NewRun{}})
		acked := uint64(0)
		for i := range 6 {
			if i%2 == 0 {
				s.crowd()
			}
			if i == 4 {
				s.gather()
			}
			b := numbered(id, acked+1)
			err := l.Append(t.Context(), b)
			if errors.Is(err, runlog.ErrUnknown) {
				t.Fatalf("the outcome could be found out: %v", err)
			}
			if err == nil {
				acked += 2
			} else if !errors.As(err, new(*runlog.StorageError)) {
				t.Fatal(err)
			}
		}
		if err := l.Release(t.Context()); err != nil {
			if err := l.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		recs, err := s.Read(t.Context(), id, 1, 0)
		if err != nil || uint64(len(recs)) != acked {
			t.Fatalf("run %s has %d records, %d were acknowledged, error %v", id, len(recs), acked, err)
		}
		for k := range recs {
			if want := fmt.Sprintf(`"%s %d"`, id, k+1); string(recs[k].Data) != want {
				t.Fatalf("record %d of run %s is %s", k+1, id, recs[k].Data)
			}
		}
	}
}

// An ID that leads to another run's row is damage, not another run's records.
func TestConfirm(t *testing.T) {
	s := openTest(t, filepath.Join(t.TempDir(), "runs.db"), nil)
	runlogtest.Create(t, s, "a")
	runlogtest.Create(t, s, "b")
	w := <-s.turn
	defer func() { s.turn <- w }()
	if err := errors.Join(w.c.confirm(1, "a"), w.c.confirm(2, "b")); err != nil {
		t.Error(err)
	}
	for _, no := range []int64{2, 3} {
		if err := w.c.confirm(no, "a"); code(err) != zsqlite.ResultCorrupt {
			t.Errorf("row %d passes for that of run a: %v", no, err)
		}
	}
}
