package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"golang.org/x/sys/unix"
)

// smallDisk is a file system of that many bytes.
func smallDisk(t *testing.T, size int) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=700", size)); err != nil {
		t.Skipf("a small disk cannot be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil { // a test that fails may have files open
			t.Error(err)
		}
	})
	return dir
}

// fill takes all the room there is but so many bytes, and returns what takes it.
func fill(t *testing.T, dir string, left int64) (ballast string) {
	t.Helper()
	ballast = filepath.Join(dir, "ballast")
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	size := int64(st.Bavail)*int64(st.Bsize) - left //nolint:unconvert // not an int64 everywhere
	f, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	if size > 0 {
		err = unix.Fallocate(int(f.Fd()), 0, 0, size)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return ballast
}

// A disk runs full while runs are under way: nothing that was acknowledged is lost, the
// runs can be parked, and all of them go on when there is room again.
func TestFullDisk(t *testing.T) {
	rnd, _ := faults.Rand(t)
	start := time.Now()
	n := faults.N(200)
	small, large := smallDisk(t, 4<<20), smallDisk(t, 24<<20)
	refused, parked := 0, 0
	for i := range n {
		dir, runs := small, 1+rnd.IntN(12)
		if i%10 == 0 {
			dir, runs = large, 100
		}
		path := filepath.Join(dir, fmt.Sprint(i), "runs.db")
		s, err := Open(t.Context(), path, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.reserve.pause = 0
		acked := map[string]int{}
		var ids []string
		logs := map[string]runlog.Log{}
		for k := range runs {
			id := fmt.Sprint("run-", k)
			ids, logs[id] = append(ids, id), runlogtest.Create(t, s, id)
		}
		some := func() string { return ids[rnd.IntN(len(ids))] }
		add := func(id string) error {
			if rnd.IntN(2) == 0 {
				s.crowd()
			}
			b := runlogtest.Batch(1 + rnd.IntN(4))
			b.Records[0].Data = fmt.Appendf(nil, `"%0*d"`, rnd.IntN(4000), 7)
			err := logs[id].Append(t.Context(), b)
			if err == nil {
				acked[id] += len(b.Records)
			}
			return err
		}
		for range rnd.IntN(40) {
			if err := add(some()); err != nil {
				t.Fatal(err)
			}
		}
		ballast := fill(t, dir, rnd.Int64N(60_000))
		for tries := 0; ; tries++ {
			err := add(some())
			if errors.As(err, new(*runlog.StorageError)) {
				refused++
				break
			}
			if err != nil || tries > 1000 {
				t.Fatalf("point %d: on a full disk an append gives %v", i, err)
			}
		}
		var wg sync.WaitGroup
		for _, id := range ids {
			wg.Go(func() {
				b := &runlog.Batch{Status: runlog.WaitingStorage, Records: runlogtest.Batch(1).Records}
				b.Records[0].Kind = runlog.KindRunPaused
				if err := errors.Join(logs[id].Append(context.Background(), b), logs[id].Release(context.Background())); err != nil {
					t.Errorf("point %d: parking run %s: %v", i, id, err)
				}
			})
			acked[id]++
			parked++
		}
		wg.Wait()
		if rnd.IntN(2) == 0 { // the process ends, or goes on
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if s, err = Open(t.Context(), path, nil); err != nil {
				t.Fatalf("point %d: opening a parked store on a full disk: %v", i, err)
			}
			s.reserve.pause = 0
		}
		for _, id := range ids {
			if recs, err := s.Read(t.Context(), id, 1, 0); err != nil || len(recs) != acked[id] {
				t.Fatalf("point %d: run %s has %d records on the full disk, %d were acknowledged, error %v", i, id, len(recs), acked[id], err)
			}
		}
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		infos, err := s.Runs(t.Context(), nil)
		if err != nil || len(infos) != len(ids) {
			t.Fatalf("point %d: %d runs, error %v", i, len(infos), err)
		}
		for _, info := range infos {
			if info.Status != runlog.WaitingStorage || int(info.Head) != acked[info.ID] {
				t.Fatalf("point %d: %+v, want %d records", i, info, acked[info.ID])
			}
			if logs[info.ID], _, err = s.Acquire(t.Context(), info.ID, nil); err != nil {
				t.Fatal(err)
			}
			if err := add(info.ID); err != nil {
				t.Fatalf("point %d: with room again: %v", i, err)
			}
			if recs, err := s.Read(t.Context(), info.ID, 1, 0); err != nil || len(recs) != acked[info.ID] {
				t.Fatalf("point %d: run %s has %d records, %d were acknowledged, error %v", i, info.ID, len(recs), acked[info.ID], err)
			}
		}
		if n := number(t, s, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"); n != 0 {
			t.Fatalf("point %d: the integrity check finds %d problems", i, n)
		}
		if info, err := os.Stat(s.reserve.path); err != nil || info.Size() != reserveSize {
			t.Fatalf("point %d: the reserve was not made again: %v", i, err)
		}
		if err := errors.Join(s.Close(), os.RemoveAll(filepath.Dir(path))); err != nil {
			t.Fatal(err)
		}
	}
	faults.Report(t, "disk full", "sqlite", n, start, "%d appends refused, %d runs parked and resumed, 0 acknowledged records lost", refused, parked)
}

// With no files left to be opened, what is refused says so and is no loss.
func TestNoFilesLeft(t *testing.T) {
	s := openTest(t, filepath.Join(t.TempDir(), "runs.db"), nil)
	l := runlogtest.Create(t, &Store{s.store, s.inner}, "r") // which opens no file to look for encrypted runs
	runlogtest.Append(t, l, 1)
	w := <-s.turn
	w.abandon(errors.New("so that the file is opened again")) // beside it nobody reads yet
	s.turn <- w
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	none := was
	none.Cur = 3
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Skip(err)
	}
	appended := l.Append(t.Context(), runlogtest.Batch(1))
	_, read := s.Read(t.Context(), "r", 1, 0)
	other := newStore(s.path, &Options{})
	_, joined := other.owners.Join()
	joined = other.shortage(joined)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{"append": appended, "read": read, "join": joined} {
		if !errors.As(err, new(*runlog.StorageError)) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if !errors.Is(joined, syscall.EMFILE) {
		t.Errorf("joining the owners: %v", joined)
	}
	runlogtest.Append(t, l, 1)
	if recs, err := s.Read(t.Context(), "r", 1, 0); err != nil || len(recs) != 2 {
		t.Errorf("%d records, error %v", len(recs), err)
	}
}

// Who comes to a full disk can look at the runs there are, and take them up once there is room.
func TestOpenOnAFullDisk(t *testing.T) {
	dir := smallDisk(t, 4<<20)
	path := filepath.Join(dir, "runs.db")
	s, err := Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	l := runlogtest.Create(t, s, "r")
	runlogtest.Append(t, l, 3)
	if err := errors.Join(l.Release(t.Context()), s.Close()); err != nil {
		t.Fatal(err)
	}
	ballast := fill(t, dir, 0)
	s, err = Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	recs, err := s.Read(t.Context(), "r", 1, 9)
	if err != nil || len(recs) != 3 {
		t.Errorf("on a full disk %d records are read, %v", len(recs), err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	l, _, err = s.Acquire(t.Context(), "r", nil)
	if err != nil {
		t.Fatal(err)
	}
	runlogtest.Append(t, l, 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// On a full disk runs can be deleted, and the room they took goes to new ones, also if some
// of it is in the write-ahead log.
func TestReclaimOnAFullDisk(t *testing.T) {
	for _, c := range []struct {
		left    int64
		after   int // runs that are in the log alone
		deleted int
	}{{0, 0, 20}, {0, 1, 5}, {4 << 10, 0, 20}, {64 << 10, 1, 6}} {
		dir := smallDisk(t, 24<<20)
		path := filepath.Join(dir, "runs.db")
		s, err := Open(t.Context(), path, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.reserve.pause = 0
		const n = 40
		for i := range n {
			if i == n-c.after {
				if err := s.alone(t.Context(), (*writer).checkpoint); err != nil {
					t.Fatal(err)
				}
			}
			l := runlogtest.Create(t, s, fmt.Sprint("run-", i))
			for range 4 {
				b := runlogtest.Batch(1)
				b.Records[0].Data = fmt.Appendf(nil, `"%0*d"`, 40_000, i)
				if err := l.Append(t.Context(), b); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if c.after == 0 {
			if err := s.alone(t.Context(), (*writer).checkpoint); err != nil {
				t.Fatal(err)
			}
		}
		fill(t, dir, c.left)
		for i := range c.deleted {
			if err := s.Delete(t.Context(), fmt.Sprint("run-", 2*i)); err != nil { // so that the last pages are not free
				t.Fatalf("%+v: deleting run %d: %v", c, i, err)
			}
		}
		freed, err := s.Reclaim(t.Context())
		if err != nil || freed < int64(c.deleted)*120_000 {
			t.Fatalf("%+v: %d bytes were freed, error %v", c, freed, err)
		}
		if info, err := os.Stat(s.reserve.path); err != nil || info.Size() != reserveSize {
			t.Errorf("%+v: the reserve was not made again: %v", c, err)
		}
		l := runlogtest.Create(t, s, "new")
		for range 10 {
			runlogtest.Append(t, l, 4)
		}
		for i := range n / 2 {
			if recs, err := s.Read(t.Context(), fmt.Sprint("run-", 2*i+1), 1, 0); err != nil || len(recs) != 4 {
				t.Fatalf("%+v: %d records, error %v", c, len(recs), err)
			}
		}
		if n := number(t, s, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"); n != 0 {
			t.Errorf("%+v: the integrity check finds %d problems", c, n)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Without room for the reserve no run is taken, since it could not be parked when the disk is full.
func TestNoRunWithoutReserve(t *testing.T) {
	dir := smallDisk(t, 3<<20)
	path := filepath.Join(dir, "runs.db")
	s := openTest(t, path, nil)
	s.reserve.pause = 0
	l := runlogtest.Create(t, s, "r")
	ballast := fill(t, dir, 60<<10)
	s.reserve.spend() // by a run that was parked
	fill2 := filepath.Join(dir, "more")
	if err := os.Rename(ballast, fill2); err != nil {
		t.Fatal(err)
	}
	fill(t, dir, 60<<10)
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, opt := range []*runlog.AcquireOptions{nil, {Create: &runlog.NewRun{}}} {
		id := map[bool]string{true: "r", false: "new"}[opt == nil]
		if _, _, err := s.Acquire(t.Context(), id, opt); !errors.As(err, new(*runlog.StorageError)) {
			t.Errorf("run %s: got %v", id, err)
		}
	}
	if err := os.Remove(fill2); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Acquire(t.Context(), "r", nil); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

// On a real disk that is full, hidden runs go first.
func TestHiddenOnFullDisk(t *testing.T) {
	dir := smallDisk(t, 4<<20)
	runlogtest.FullDisk(t, runlogtest.Open(t, Open, filepath.Join(dir, "store.db"), &Options{}), dir)
}

func TestHiddenForNewcomers(t *testing.T) {
	dir := smallDisk(t, 6<<20)
	path := filepath.Join(dir, "store.db")
	runlogtest.Newcomers(t, func(t *testing.T) runlog.Store { return runlogtest.Open(t, Open, path, &Options{}) }, func() { fill(t, dir, 0) })
}
