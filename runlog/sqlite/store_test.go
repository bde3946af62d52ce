package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"github.com/superstep-dev/superstep/runlog/storekit"
	zsqlite "zombiezen.com/go/sqlite"
)

type tested struct {
	*Store
	*runlogtest.Clock
}

func (s tested) Reopen(t *testing.T) runlog.Store {
	return openTest(t, s.path, &Options{Now: s.Now})
}

func openTest(t testing.TB, path string, opt *Options) *Store {
	t.Helper()
	return runlogtest.Open(t, Open, path, opt)
}

func TestStore(t *testing.T) {
	runlogtest.Run(t, func(t *testing.T) runlog.Store {
		c := runlogtest.NewClock()
		return tested{openTest(t, filepath.Join(t.TempDir(), "runs.db"), &Options{Now: c.Now}), c}
	})
}

// raw runs SQL on a connection of its own.
func raw(t testing.TB, path, sql string, args ...any) {
	t.Helper()
	sq, err := zsqlite.OpenConn(path, zsqlite.OpenReadWrite|zsqlite.OpenCreate)
	if err != nil {
		t.Fatal(err)
	}
	c := &conn{sq: sq}
	defer c.close()
	if err := rawOn(c, sql, args...); err != nil {
		t.Fatal(err)
	}
}

func rawOn(c *conn, sql string, args ...any) error {
	return c.exec(sql, func(st *zsqlite.Stmt) {
		for i, a := range args {
			switch a := a.(type) {
			case int:
				st.BindInt64(i+1, int64(a))
			case []byte:
				st.BindBytes(i+1, a)
			}
		}
	})
}

func wantCorrupt(t *testing.T, err error, seq, good uint64) {
	t.Helper()
	var e *runlog.CorruptError
	if !errors.As(err, &e) || e.Seq != seq || e.Good != good {
		t.Fatalf("got %v, want record %d damaged and %d good", err, seq, good)
	}
}

func TestEveryBitFlipIsDetected(t *testing.T) {
	s := openTest(t, filepath.Join(t.TempDir(), "runs.db"), nil)
	for _, id := range []string{"a", "b"} {
		runlogtest.Append(t, runlogtest.Create(t, s, id), 3)
	}
	c, err := openConn(s.path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	pos := int(first(1) + 3) // the row has all three
	var frame []byte
	err = errors.Join(rawOn(c, "PRAGMA synchronous=OFF"),
		c.query("SELECT frames FROM records WHERE pos = ?1", func(st *zsqlite.Stmt) { st.BindInt64(1, int64(pos)) }, func(st *zsqlite.Stmt) bool {
			frame = blob(st, 0)
			return true
		}))
	if err != nil {
		t.Fatal(err)
	}
	for bit := range len(frame) * 8 {
		bad := slices.Clone(frame)
		bad[bit/8] ^= 1 << (bit % 8)
		if err := rawOn(c, "UPDATE records SET frames = ?2 WHERE pos = ?1", pos, bad); err != nil {
			t.Fatal(err)
		}
		seq := uint64(bit/8/(len(frame)/3) + 1)
		recs, err := s.Read(t.Context(), "a", 1, 9)
		wantCorrupt(t, err, seq, seq-1)
		if uint64(len(recs)) != seq-1 {
			t.Fatalf("the intact records before it are %+v", recs)
		}
		if bit%64 == 0 {
			_, err = s.Read(t.Context(), "a", 3, 9) // which has to follow the damaged one
			wantCorrupt(t, err, seq, seq-1)
			if recs, err := s.Read(t.Context(), "b", 1, 9); err != nil || len(recs) != 3 {
				t.Fatalf("the neighbour has %d records, error %v", len(recs), err)
			}
		}
	}
}

func TestDamagedRun(t *testing.T) {
	for _, c := range []struct {
		name, sql string
		seq       uint64
	}{
		{"last record", "UPDATE records SET frames = zeroblob(60) WHERE pos = (1<<32)+4", 4},
		{"last records", "UPDATE records SET frames = x'00' WHERE pos IN ((1<<32)+3, (1<<32)+4)", 3},
		{"empty record", "UPDATE records SET frames = x'' WHERE pos = (1<<32)+4", 4},
		{"record of another run", "UPDATE records SET frames = (SELECT frames FROM records WHERE pos = (2<<32)+3) WHERE pos = (1<<32)+4", 4},
		{"missing after the snapshot pointer", "UPDATE runs SET snapshot = 9 WHERE no = 1", 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openTest(t, filepath.Join(t.TempDir(), "runs.db"), nil)
			for _, id := range []string{"a", "b"} {
				l := runlogtest.Create(t, s, id)
				for range 4 { // rows of their own
					runlogtest.Append(t, l, 1)
				}
				if err := l.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			raw(t, s.path, c.sql)
			_, _, err := s.Acquire(t.Context(), "a", nil)
			wantCorrupt(t, err, c.seq, c.seq-1)
			infos, err := s.Runs(t.Context(), &runlog.Filter{ID: "a"})
			if err != nil || infos[0].Epoch != 1 || infos[0].Owner != "" {
				t.Fatalf("the refused run is %+v, error %v", infos, err)
			}
			l, _, err := s.Acquire(t.Context(), "b", nil)
			if err != nil {
				t.Fatal(err)
			}
			runlogtest.Append(t, l, 1)
		})
	}
	t.Run("hole", func(t *testing.T) {
		s := openTest(t, filepath.Join(t.TempDir(), "runs.db"), nil)
		l := runlogtest.Create(t, s, "a")
		for range 4 {
			runlogtest.Append(t, l, 1)
		}
		raw(t, s.path, "DELETE FROM records WHERE pos = (1<<32)+2")
		_, err := s.Read(t.Context(), "a", 1, 9)
		wantCorrupt(t, err, 2, 1)
	})
}

func TestOpenRefuses(t *testing.T) {
	file := func(content string) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	store := func(t *testing.T, path string) {
		s, err := Open(t.Context(), path, nil)
		if err != nil {
			t.Fatal(err)
		}
		runlogtest.Append(t, runlogtest.Create(t, s, "r"), 50)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, want string
		make       func(t *testing.T, path string)
	}{
		{"text", "is not a superstep store", file("hello, this is just a text file")},
		{"short", "is not a superstep store", file("SQL")},
		{"only the magic", "runs.db", file("SQLite format 3\x00")},
		{"nonsense after the magic", "runs.db", file("SQLite format 3\x00" + strings.Repeat("x", 5000))},
		{"truncated", "runs.db", func(t *testing.T, path string) {
			store(t, path)
			if err := os.Truncate(path, 3000); err != nil {
				t.Fatal(err)
			}
		}},
		{"another program's", "is not a superstep store", func(t *testing.T, path string) { raw(t, path, "CREATE TABLE t (a)") }},
		{"another program's ID", "is not a superstep store", func(t *testing.T, path string) { raw(t, path, "PRAGMA application_id=7") }},
		{"newer", "has schema 99 and was written by a newer superstep; this one reads up to schema 4", func(t *testing.T, path string) {
			store(t, path)
			raw(t, path, "PRAGMA user_version=99")
		}},
		{"a directory", "is a directory", func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}},
		{"world-writable file", "chmod 700", func(t *testing.T, path string) {
			store(t, path)
			if err := os.Chmod(path, 0o666); err != nil {
				t.Fatal(err)
			}
		}},
		{"world-writable directory", "chmod 700", func(t *testing.T, path string) {
			if err := os.Chmod(filepath.Dir(path), 0o777); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "runs.db")
			c.make(t, path)
			s, err := Open(t.Context(), path, nil)
			if err == nil {
				s.Close()
				t.Fatal("it was opened")
			}
			t.Log(err)
			if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
				t.Fatalf("the error is %q, want %q and the path", err, c.want)
			}
		})
	}
}

func TestOpenMakes(t *testing.T) {
	root := t.TempDir()
	if err := os.Chmod(root, 0o777|fs.ModeSticky); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, "deep", "er", "runs.db")
	s := openTest(t, path, nil)
	runlogtest.Create(t, s, "r")
	for name, want := range map[string]fs.FileMode{
		filepath.Dir(path): 0o700, path: 0o600, path + "-wal": 0o600, path + "-shm": 0o600,
		path + ".owners": 0o700, filepath.Join(path+".owners", s.owners.Name()): 0o600,
	} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", name, got, want)
		}
	}
	empty := filepath.Join(root, "a file?mode=ro#%41.db") // nothing in a name is a setting
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	runlogtest.Append(t, runlogtest.Create(t, openTest(t, empty, nil), "r"), 1)
	if info, err := os.Stat(empty); err != nil || info.Size() == 0 {
		t.Fatalf("%v, error %v", info, err)
	}
}

func TestOpenAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			s, err := Open(context.Background(), path, nil)
			if err != nil {
				t.Error(err)
				return
			}
			_, _, err = s.Acquire(context.Background(), fmt.Sprintf("r-%d", i), &runlog.AcquireOptions{Create: &runlog.NewRun{}})
			if err := errors.Join(err, s.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	infos, err := openTest(t, path, nil).Runs(t.Context(), nil)
	if err != nil || len(infos) != 8 {
		t.Fatalf("%d runs, error %v", len(infos), err)
	}
}

// onWriter runs SQL on the connection that writes.
func onWriter(t *testing.T, s *Store, sql string) {
	t.Helper()
	err := s.write(t.Context(), &op{apply: func(w *writer) error { return w.c.exec(sql, nil) }})
	if err != nil {
		t.Fatal(err)
	}
}

func TestDiskFull(t *testing.T) {
	s := openTest(t, filepath.Join(t.TempDir(), "runs.db"), nil)
	l := runlogtest.Create(t, s, "r")
	runlogtest.Append(t, l, 1)
	onWriter(t, s, "PRAGMA max_page_count=20")
	large := runlogtest.Batch(40)
	for i := range large.Records {
		large.Records[i].Data = json.RawMessage(`"` + strings.Repeat("x", 5000) + `"`)
	}
	err := l.Append(t.Context(), large)
	if full := (*runlog.StorageError)(nil); !errors.As(err, &full) || !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), s.path) || !strings.Contains(err.Error(), "then resume the run") {
		t.Fatalf("the error is %v", err)
	}
	if large.Records[0].Seq != 0 {
		t.Error("the batch was numbered")
	}
	recs, err := s.Read(t.Context(), "r", 1, 99)
	if err != nil || len(recs) != 1 {
		t.Fatalf("%d records, error %v", len(recs), err)
	}
	runlogtest.Append(t, l, 1) // there is room for a little
	onWriter(t, s, "PRAGMA max_page_count=100000")
	if err := l.Append(t.Context(), large); err != nil {
		t.Fatal(err)
	}
	if recs, err := s.Read(t.Context(), "r", 1, 99); err != nil || len(recs) != 42 {
		t.Fatalf("%d records, error %v", len(recs), err)
	}
}

func TestUnknownCommit(t *testing.T) {
	broken := dbError{zsqlite.ResultIOErrFsync.ToError()}
	var fault atomic.Pointer[func(*conn) error]
	raw, err := open(t.Context(), filepath.Join(t.TempDir(), "runs.db"), &Options{}, func(c *conn) error {
		if f := fault.Load(); f != nil {
			return (*f)(c)
		}
		return c.commit()
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &Store{raw, inner{raw}}
	defer s.Close()
	l := runlogtest.Create(t, s, "r")
	head := func(want int) {
		t.Helper()
		recs, err := s.Read(t.Context(), "r", 1, 99)
		if err != nil || len(recs) != want {
			t.Fatalf("%d records, error %v; want %d", len(recs), err, want)
		}
	}
	once := func(f func(*conn) error) {
		g := func(c *conn) error {
			fault.Store(nil)
			return f(c)
		}
		fault.Store(&g)
	}

	once(func(c *conn) error { return errors.Join(broken, c.commit()) })
	runlogtest.Append(t, l, 2) // it was committed after all
	head(2)

	once(func(c *conn) error { return broken })
	err = l.Append(t.Context(), runlogtest.Batch(1))
	if !errors.Is(err, broken.error) || errors.Is(err, runlog.ErrUnknown) || !strings.Contains(err.Error(), "nothing was stored") {
		t.Fatalf("the error is %v", err)
	}
	head(2)
	runlogtest.Append(t, l, 1)
	head(3)

	if n := number(t, s, "SELECT value FROM meta WHERE name = 'fences'"); n != 2 {
		t.Fatalf("the log was written over %d times after 2 unknown commits", n)
	}

	never := func(c *conn) error { return broken }
	fault.Store(&never)
	if err := l.Append(t.Context(), runlogtest.Batch(1)); !errors.Is(err, runlog.ErrUnknown) {
		t.Fatalf("the error is %v", err)
	}
	fault.Store(nil)
	if err := l.Append(t.Context(), runlogtest.Batch(1)); !errors.Is(err, runlog.ErrUnknown) {
		t.Fatalf("a log of unknown content was written to: %v", err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	l, info, err := s.Acquire(t.Context(), "r", nil)
	if err != nil || info.Head != 3 {
		t.Fatalf("%+v, error %v", info, err)
	}
	runlogtest.Append(t, l, 1)
	head(4)
}

func TestOneRunsFailureIsItsOwn(t *testing.T) {
	var hold atomic.Pointer[chan struct{}]
	s := openTest(t, filepath.Join(t.TempDir(), "runs.db"), &Options{Failpoint: func(name string) {
		if c := hold.Load(); c != nil && name == "sqlite.before-begin" {
			<-*c
		}
	}})
	var logs []runlog.Log
	for i := range 6 {
		logs = append(logs, runlogtest.Create(t, s, fmt.Sprintf("r-%d", i)))
	}
	// Somebody else's record is where the last one of this log will be.
	raw(t, s.path, "INSERT INTO records (pos, frames) VALUES ((3<<32)+2, x'00')")
	gate := make(chan struct{})
	hold.Store(&gate)
	errs := make([]error, len(logs))
	var wg sync.WaitGroup
	for i, l := range logs {
		wg.Go(func() { errs[i] = l.Append(context.Background(), runlogtest.Batch(2)) })
	}
	time.Sleep(20 * time.Millisecond) // so that all of them wait for one transaction
	close(gate)
	wg.Wait()
	for i, err := range errs {
		if i == 2 && !errors.Is(err, runlog.ErrFenced) || i != 2 && err != nil {
			t.Errorf("run %d: %v", i, err)
		}
	}
}

func TestGroupCommit(t *testing.T) {
	var commits atomic.Int32
	var hold atomic.Pointer[chan struct{}]
	s := openTest(t, filepath.Join(t.TempDir(), "runs.db"), &Options{Failpoint: func(name string) {
		switch c := hold.Load(); {
		case name == "sqlite.before-begin" && c != nil:
			<-*c
		case name == "sqlite.after-commit":
			commits.Add(1)
		}
	}})
	var logs []runlog.Log
	for i := range 100 {
		logs = append(logs, runlogtest.Create(t, s, fmt.Sprintf("r-%d", i)))
	}
	commits.Store(0)
	gate := make(chan struct{})
	hold.Store(&gate)
	var wg sync.WaitGroup
	for _, l := range logs {
		wg.Go(func() {
			if err := l.Append(context.Background(), runlogtest.Batch(1)); err != nil {
				t.Error(err)
			}
		})
	}
	time.Sleep(50 * time.Millisecond) // so that nearly all of them wait
	close(gate)
	wg.Wait()
	t.Logf("appends to 100 runs took %d commits", commits.Load())
	if commits.Load() > 50 {
		t.Errorf("100 concurrent appends took %d commits", commits.Load())
	}
}

func TestContention(t *testing.T) {
	const stores, runs, each = 4, 4, 8
	path := filepath.Join(t.TempDir(), "runs.db")
	var wg sync.WaitGroup
	for i := range stores {
		s := openTest(t, path, nil)
		for k := range runs {
			wg.Go(func() {
				l, _, err := s.Acquire(context.Background(), fmt.Sprintf("r-%d-%d", i, k), &runlog.AcquireOptions{Create: &runlog.NewRun{}})
				for range each {
					if err == nil {
						err = l.Append(context.Background(), runlogtest.Batch(1))
					}
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	s := openTest(t, path, nil)
	infos, err := s.Runs(t.Context(), nil)
	if err != nil || len(infos) != stores*runs {
		t.Fatalf("%d runs, error %v", len(infos), err)
	}
	for _, info := range infos {
		if info.Head != each || info.Status != runlog.Running {
			t.Errorf("%+v", info)
		}
	}
	n, err := func() (n int64, err error) {
		err = s.readers.with(t.Context(), func(c *conn) (err error) {
			n, err = c.integer("SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'", nil)
			return err
		})
		return n, err
	}()
	if err != nil || n != 0 {
		t.Errorf("the integrity check finds %d problems, error %v", n, err)
	}
}

func TestLockedByAnother(t *testing.T) {
	s := openTest(t, filepath.Join(t.TempDir(), "runs.db"), nil)
	l := runlogtest.Create(t, s, "r")
	c, err := openConn(s.path)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	short, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	if err := l.Append(short, runlogtest.Batch(1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("the error is %v", err)
	}
	var unlocked sync.WaitGroup
	unlocked.Go(func() {
		time.Sleep(100 * time.Millisecond)
		if err := errors.Join(c.rollback(), c.close()); err != nil {
			t.Error(err)
		}
	})
	runlogtest.Append(t, l, 1)
	unlocked.Wait()
	if infos, err := s.Runs(t.Context(), nil); err != nil || infos[0].Head != 1 {
		t.Fatalf("%+v, error %v", infos, err)
	}
}

// number asks the connection that writes.
func number(t *testing.T, s *Store, sql string) (n int64) {
	t.Helper()
	err := s.write(t.Context(), &op{apply: func(w *writer) (err error) {
		n, err = w.c.integer(sql, nil)
		return err
	}})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// No test can pull the plug, so this holds fast what durability rests on.
func TestSettings(t *testing.T) {
	s := openTest(t, filepath.Join(t.TempDir(), "runs.db"), nil)
	check := func() {
		t.Helper()
		for sql, want := range map[string]int64{
			"PRAGMA synchronous": 2,
			"SELECT count(*) FROM pragma_journal_mode WHERE journal_mode = 'wal'": 1,
			"PRAGMA fullfsync":            1,
			"PRAGMA checkpoint_fullfsync": 1,
			"PRAGMA trusted_schema":       0,
		} {
			if got := number(t, s, sql); got != want {
				t.Errorf("%s gives %d, want %d", sql, got, want)
			}
		}
	}
	check()
	w := <-s.turn
	w.abandon(errors.New("whatever"))
	s.turn <- w
	check()
}

// When the clock jumps past the lease of a holder that is alive, it keeps its runs.
func TestClockJumps(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	c := runlogtest.NewClock()
	opt := &Options{Now: c.Now, Lease: 3 * time.Second}
	s, other := openTest(t, path, opt), openTest(t, path, opt)
	l := runlogtest.Create(t, s, "r")
	for name, take := range map[string]func() error{
		"Acquire": func() error { _, _, err := other.Acquire(t.Context(), "r", nil); return err },
		"Delete":  func() error { return other.Delete(t.Context(), "r") },
	} {
		c.Move(time.Hour)
		renewed := make(chan error)
		go func() {
			time.Sleep(50 * time.Millisecond)
			_, err := l.Renew(context.Background())
			renewed <- err
		}()
		if err := take(); !errors.As(err, new(*runlog.BusyError)) {
			t.Errorf("%s of a run whose holder is alive: %v", name, err)
		}
		if err := <-renewed; err != nil {
			t.Fatal(err)
		}
	}
	runlogtest.Append(t, l, 1)
	c.Move(time.Hour)
	short, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	if _, _, err := other.Acquire(short, "r", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it does not wait for the holder, but says: %v", err)
	}
}

// The clock may jump by a day at each step: nothing is lost, and nobody else gets the run.
func TestClockJumpsAtEachStep(t *testing.T) {
	inMemory(t)
	rnd, _ := faults.Rand(t)
	start := time.Now()
	path := filepath.Join(t.TempDir(), "runs.db")
	c := runlogtest.NewClock()
	opt := &Options{Now: c.Now, Lease: 3 * time.Second}
	s, other := openTest(t, path, opt), openTest(t, path, opt)
	l := runlogtest.Create(t, s, "r")
	n := faults.N(1000)
	for i := range n {
		c.Move(time.Duration(rnd.Int64N(int64(48*time.Hour))) - 24*time.Hour)
		runlogtest.Append(t, l, 1)
		if _, err := l.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, _, err := other.Acquire(t.Context(), "r", nil); !errors.As(err, new(*runlog.BusyError)) {
			t.Fatalf("step %d: another process gets the run: %v", i, err)
		}
	}
	recs, err := other.Read(t.Context(), "r", 1, 0)
	if err != nil || len(recs) != n {
		t.Fatalf("%d records, error %v", len(recs), err)
	}
	faults.Report(t, "clock", "sqlite", n, start, "jumps of up to a day: 0 steps lost, 0 early takeovers")
}

func TestProtected(t *testing.T) {
	runlogtest.RunProtected(t, func(t *testing.T) *runlogtest.Site {
		dir := t.TempDir()
		return &runlogtest.Site{
			Open: func(t *testing.T, p *storekit.Protection) runlog.Store {
				return openTest(t, filepath.Join(dir, "runs.db"), &Options{Protection: *p})
			},
			Stored: func(t *testing.T) []byte { return runlogtest.Files(t, dir) },
		}
	})
}

func TestPanics(t *testing.T) {
	runlogtest.Panics(t, func(t *testing.T, failpoint func(string)) runlog.Store {
		return openTest(t, filepath.Join(t.TempDir(), "runs.db"), &Options{Failpoint: failpoint})
	}, "sqlite.before-begin", "sqlite.mid-write", "sqlite.before-commit", "sqlite.after-commit")
}

// A store whose file was emptied is not taken for a new one, and one whose file was replaced or removed
// while it is open acknowledges nothing and lists nothing from then on.
func TestEmptiedAndReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	s := openTest(t, path, nil)
	l := runlogtest.Create(t, s, "r")
	runlogtest.Append(t, l, 2)
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	lost := func(when string) {
		t.Helper()
		if err := l.Append(t.Context(), runlogtest.Batch(1)); !errors.Is(err, runlog.ErrStoreReset) {
			t.Errorf("%s: an append gives %v", when, err)
		}
		if _, err := s.Runs(t.Context(), nil); !errors.Is(err, runlog.ErrStoreReset) {
			t.Errorf("%s: the listing gives %v", when, err)
		}
	}
	lost("removed")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	lost("replaced")
	if _, err := Open(t.Context(), path, nil); !errors.Is(err, runlog.ErrStoreReset) {
		t.Errorf("the empty file is opened: %v", err)
	}
	if err := os.Rename(path+".old", path); err != nil {
		t.Fatal(err)
	}
	runlogtest.Append(t, l, 1)
}

// A store that is closed gives up what it held.
func TestClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	s := openTest(t, path, nil)
	runlogtest.Append(t, runlogtest.Create(t, s, "r"), 2)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	other := openTest(t, path, nil)
	if infos, err := other.Runs(t.Context(), nil); err != nil || len(infos) != 1 || infos[0].Status != runlog.Interrupted || infos[0].Head != 2 {
		t.Fatalf("listed %+v, error %v", infos, err)
	}
	if _, info, err := other.Acquire(t.Context(), "r", nil); err != nil || info.Takeovers != 1 || info.Head != 2 {
		t.Fatalf("the next holder got %+v, error %v", info, err)
	}
}
