package file

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/owners"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"github.com/superstep-dev/superstep/runlog/storekit"
)

type tested struct {
	*Store
	*runlogtest.Clock
}

func (s tested) Reopen(t *testing.T) runlog.Store {
	return openTest(t, s.dir, &Options{Now: s.Now, SegmentSize: s.segment})
}

func openTest(t testing.TB, dir string, opt *Options) *Store {
	t.Helper()
	return runlogtest.Open(t, Open, dir, opt)
}

func TestStore(t *testing.T) {
	for name, segment := range map[string]int64{"one log": 0, "many logs": 700} {
		t.Run(name, func(t *testing.T) {
			runlogtest.Run(t, func(t *testing.T) runlog.Store {
				c := runlogtest.NewClock()
				return tested{openTest(t, t.TempDir(), &Options{Now: c.Now, SegmentSize: segment}), c}
			})
		})
	}
}

func acquire(t testing.TB, s *Store, id string) (runlog.Log, runlog.Info) {
	t.Helper()
	l, info, err := s.Acquire(t.Context(), id, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l, info
}

// noise returns a batch of n records that cannot be compressed.
func noise(n int) *runlog.Batch {
	b := runlogtest.Batch(n)
	for i := range b.Records {
		b.Records[i].Attachment = make([]byte, 1500)
		_, _ = crand.Read(b.Records[i].Attachment)
	}
	return b
}

func release(t testing.TB, l runlog.Log) {
	t.Helper()
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func readAll(t testing.TB, s *Store, id string) []runlog.Record {
	t.Helper()
	recs, err := s.Read(t.Context(), id, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	return recs
}

func info(t testing.TB, s *Store, id string) runlog.Info {
	t.Helper()
	infos, err := s.Runs(t.Context(), &runlog.Filter{ID: id})
	if err != nil || len(infos) != 1 {
		t.Fatalf("%d runs, error %v", len(infos), err)
	}
	return infos[0]
}

// checkCorrupt checks that an error tells of damage and where it is.
func checkCorrupt(t testing.TB, err error, seq uint64) {
	t.Helper()
	var e *runlog.CorruptError
	if !errors.As(err, &e) || e.Seq != seq || e.Good != seq-1 || !strings.Contains(e.Why, "offset") {
		t.Fatalf("got %v, want record %d damaged", err, seq)
	}
}

// copyTree copies a store.
func copyTree(t testing.TB, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

func TestRefusedDirectories(t *testing.T) {
	for name, c := range map[string]struct {
		make func(dir string) error
		want string
	}{
		"something else": {func(dir string) error { return os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o600) }, "not empty"},
		"newer": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, storeName), []byte(storeMagic+"2\n"), 0o600)
		}, "update superstep"},
		"no store":       {func(dir string) error { return os.WriteFile(filepath.Join(dir, storeName), []byte("hello\n"), 0o600) }, "not that of a superstep store"},
		"empty magic":    {func(dir string) error { return os.WriteFile(filepath.Join(dir, storeName), nil, 0o600) }, "not that of a superstep store"},
		"world-writable": {func(dir string) error { return os.Chmod(dir, 0o777) }, "chmod 700"},
		"a file": {func(dir string) error {
			return errors.Join(os.Remove(dir), os.WriteFile(dir, nil, 0o600))
		}, "not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "world-writable" && runtime.GOOS == "windows" {
				t.Skip("no modes")
			}
			dir := filepath.Join(t.TempDir(), "store")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := c.make(dir); err != nil {
				t.Fatal(err)
			}
			_, err := Open(t.Context(), dir, nil)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), dir) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if entries, _ := os.ReadDir(dir); len(entries) > 1 {
				t.Errorf("%d files were made", len(entries))
			}
		})
	}
}

func TestModes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no modes")
	}
	dir := filepath.Join(t.TempDir(), "a", "b")
	s := openTest(t, dir, &Options{SegmentSize: 100})
	l := runlogtest.Create(t, s, "r")
	for range 4 {
		runlogtest.Append(t, l, 2)
	}
	files := 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if e.IsDir() {
			want = 0o700
		} else {
			files++
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %o", path, info.Mode().Perm())
		}
		return nil
	})
	if err != nil || files < 8 {
		t.Errorf("%d files, error %v", files, err)
	}
}

func TestManyOpenAtOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			s, err := Open(context.Background(), dir, nil)
			if err != nil {
				t.Error(err)
				return
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if s := openTest(t, dir, nil); s.dir != dir {
		t.Errorf("the store is in %s", s.dir)
	}
}

func TestFormerLogs(t *testing.T) {
	t.Run("compressed", func(t *testing.T) { testFormerLogs(t, packName, runlogtest.Batch) })
	t.Run("plain", func(t *testing.T) { testFormerLogs(t, plainName, noise) })
}

func testFormerLogs(t *testing.T, nameOf func(uint64) string, fill func(int) *runlog.Batch) {
	s := openTest(t, t.TempDir(), &Options{SegmentSize: 2000})
	l := runlogtest.Create(t, s, "r")
	for i := range 100 {
		if err := l.Append(t.Context(), fill(i%3+1)); err != nil {
			t.Fatal(err)
		}
	}
	head := info(t, s, "r").Head
	bases, err := formers(s.runDir("r"))
	if err != nil || len(bases) < 5 {
		t.Fatalf("former logs %v, error %v", bases, err)
	}
	for from := uint64(1); from <= head+1; from++ {
		recs, err := s.Read(t.Context(), "r", from, 7)
		if want := min(7, head+1-from); err != nil || uint64(len(recs)) != want {
			t.Fatalf("from %d: %d records of %d, error %v", from, len(recs), head, err)
		}
		for i, r := range recs {
			if r.Seq != from+uint64(i) {
				t.Fatalf("record %d in place %d", r.Seq, from+uint64(i))
			}
		}
	}
	release(t, l)
	other := openTest(t, s.dir, nil)
	if l, got := acquire(t, other, "r"); got.Head != head {
		t.Fatalf("acquired %+v", got)
	} else {
		runlogtest.Append(t, l, 1)
	}
	if recs := readAll(t, s, "r"); uint64(len(recs)) != head+1 {
		t.Fatalf("%d records", len(recs))
	}
	// Each of them is needed, and a damaged one is named.
	path := filepath.Join(s.runDir("r"), nameOf(bases[2]))
	was, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, break_ := range map[string]func() error{
		"cut":   func() error { return os.WriteFile(path, was[:20], 0o600) },
		"gone":  func() error { return os.Remove(path) },
		"empty": func() error { return os.WriteFile(path, nil, 0o600) },
		"other": func() error {
			b, err := os.ReadFile(filepath.Join(s.runDir("r"), nameOf(bases[1])))
			return errors.Join(err, os.WriteFile(path, b, 0o600))
		},
	} {
		if err := break_(); err != nil {
			t.Fatal(err)
		}
		recs, err := other.Read(t.Context(), "r", 1, 0)
		checkCorrupt(t, err, bases[2])
		if uint64(len(recs)) != bases[2]-1 {
			t.Errorf("%s: %d intact records", name, len(recs))
		}
		if recs, err := other.Read(t.Context(), "r", bases[3]+1, 5); err != nil || len(recs) != 5 {
			t.Errorf("%s: behind it %d records, error %v", name, len(recs), err)
		}
		if err := os.WriteFile(path, was, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, was[:len(was)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	var damage *runlog.CorruptError
	if _, err := other.Read(t.Context(), "r", 1, 0); !errors.As(err, &damage) || damage.Seq < bases[2] || damage.Seq > bases[3] || !strings.Contains(damage.Why, filepath.Base(path)) {
		t.Errorf("of a file that lost its last byte: %v", err)
	}
}

func TestReclaim(t *testing.T) {
	s := openTest(t, t.TempDir(), nil)
	over, held := runlogtest.Create(t, s, "over"), runlogtest.Create(t, s, "held")
	for range 60 {
		runlogtest.Append(t, over, 5)
		runlogtest.Append(t, held, 5)
	}
	if err := over.Append(t.Context(), &runlog.Batch{Status: runlog.Completed}); err != nil {
		t.Fatal(err)
	}
	release(t, over)
	debris := []string{
		filepath.Join(s.runDir("over"), logName+".tmp"), filepath.Join(s.runDir("held"), packName(1)),
		filepath.Join(s.dir, "trash", "abc", "log"), filepath.Join(s.dir, "trash", newPrefix+"dead-abc", "log"),
	}
	busy := filepath.Join(s.dir, "trash", newPrefix+s.owners.Name()+"-abc", "log")
	for _, path := range append(debris, busy) {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, make([]byte, 5000), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	before, err := s.Sizes(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	freed, err := s.Reclaim(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	after, err := s.Sizes(t.Context(), nil)
	if err != nil || after["over"] > before["over"]/2 || after["held"] != before["held"]-5000 {
		t.Fatalf("sizes %v became %v, error %v", before, after, err)
	}
	if want := before["over"] - after["over"] + 5000 + 10_000; freed != want {
		t.Errorf("%d bytes were freed, want %d", freed, want)
	}
	for _, path := range debris {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := os.Stat(busy); err != nil {
		t.Error(err)
	}
	runlogtest.Append(t, held, 1)
	if n := len(readAll(t, s, "over")); n != 300 {
		t.Errorf("%d records", n)
	}
	if n := len(readAll(t, s, "held")); n != 301 {
		t.Errorf("%d records", n)
	}
	if freed, err := s.Reclaim(t.Context()); err != nil || freed != 0 {
		t.Errorf("again %d bytes were freed, error %v", freed, err)
	}
	if err := s.Delete(t.Context(), "over"); err != nil {
		t.Error(err)
	}
}

func TestOrderSurvives(t *testing.T) {
	dir := t.TempDir()
	c := runlogtest.NewClock()
	var want []string
	for i := range 6 {
		s := openTest(t, dir, &Options{Now: c.Now})
		id := string(rune('f' - i/2*2 + i%2))
		want = append([]string{id}, want...)
		release(t, runlogtest.Create(t, s, id))
		c.Move(-time.Hour)
		if i == 3 {
			if err := os.WriteFile(filepath.Join(dir, "counter"), []byte("000"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	infos, err := openTest(t, dir, nil).Runs(t.Context(), nil)
	var got []string
	for _, i := range infos {
		got = append(got, i.ID)
	}
	if err != nil || strings.Join(got, "") != strings.Join(want, "") {
		t.Errorf("listed %v, want %v, error %v", got, want, err)
	}
}

func TestMovedFolder(t *testing.T) {
	s := openTest(t, t.TempDir(), nil)
	for _, id := range []string{"a", "b"} {
		l := runlogtest.Create(t, s, id)
		runlogtest.Append(t, l, 2)
		release(t, l)
	}
	if err := os.Rename(s.runDir("a"), s.runDir("c")); err != nil {
		t.Fatal(err)
	}
	_, _, err := s.Acquire(t.Context(), "c", nil)
	checkCorrupt(t, err, 1)
	_, err = s.Read(t.Context(), "c", 1, 1)
	checkCorrupt(t, err, 1)
	if infos, err := s.Runs(t.Context(), nil); err != nil || len(infos) != 2 {
		t.Errorf("listed %+v, error %v", infos, err)
	}
	if err := s.Delete(t.Context(), "c"); err != nil {
		t.Error(err)
	}
	if infos, err := s.Runs(t.Context(), nil); err != nil || len(infos) != 1 || infos[0].ID != "b" {
		t.Errorf("listed %+v, error %v", infos, err)
	}
}

func TestHangingWriter(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, dir, &Options{Lease: 300 * time.Millisecond})
	l := runlogtest.Create(t, s, "r")
	runlogtest.Append(t, l, 1)
	lock, err := s.lockRun(t.Context(), "r") // as a process that was stopped in a write
	if err != nil {
		t.Fatal(err)
	}
	later := func() time.Time { return time.Now().Add(350 * time.Millisecond) }
	other := openTest(t, dir, &Options{Lease: 300 * time.Millisecond, Now: later})
	if _, _, err := other.Acquire(t.Context(), "r", nil); !errors.As(err, new(*runlog.BusyError)) {
		t.Errorf("a run that is locked: %v", err)
	}
	if got := info(t, other, "r"); got.Head != 1 || got.Status != runlog.Interrupted {
		t.Errorf("listed %+v", got)
	}
	if err := l.Append(t.Context(), runlogtest.Batch(1)); !errors.Is(err, errPatience) {
		t.Errorf("an append to it: %v", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if _, got := acquire(t, other, "r"); got.Head != 1 {
		t.Errorf("acquired %+v", got)
	}
	if err := l.Append(t.Context(), runlogtest.Batch(1)); !errors.Is(err, runlog.ErrFenced) {
		t.Errorf("a stale append: %v", err)
	}
}

// A log that a newer superstep wrote is listed, and neither read nor written nor cut.
func TestNewerLog(t *testing.T) {
	s := openTest(t, t.TempDir(), nil)
	for _, id := range []string{"a", "b"} {
		l := runlogtest.Create(t, s, id)
		runlogtest.Append(t, l, 2)
		release(t, l)
	}
	path := filepath.Join(s.runDir("a"), logName)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	size := binary.LittleEndian.Uint32(b[12:])
	b[8] = shelved + 1
	binary.LittleEndian.PutUint32(b[16:], checksum(b[:16], b[20:size]))
	if err := errors.Join(os.WriteFile(path, b, 0o600), os.Remove(filepath.Join(s.runDir("a"), holdName))); err != nil {
		t.Fatal(err)
	}
	other := openTest(t, s.dir, nil)
	_, _, acquired := other.Acquire(t.Context(), "a", nil)
	_, read := other.Read(t.Context(), "a", 1, 0)
	for name, err := range map[string]error{"Acquire": acquired, "Read": read, "RequestCancel": other.RequestCancel(t.Context(), "a"), "Delete": other.Delete(t.Context(), "a")} {
		if err == nil || !strings.Contains(err.Error(), "update superstep") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if infos, err := other.Runs(t.Context(), nil); err != nil || len(infos) != 2 {
		t.Errorf("listed %+v, error %v", infos, err)
	}
	if n := len(readAll(t, other, "b")); n != 2 {
		t.Errorf("the neighbour has %d records", n)
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, b) {
		t.Errorf("the log was changed, error %v", err)
	}
}

func TestProtected(t *testing.T) {
	runlogtest.RunProtected(t, func(t *testing.T) *runlogtest.Site {
		dir := t.TempDir()
		return &runlogtest.Site{
			Open: func(t *testing.T, p *storekit.Protection) runlog.Store {
				return openTest(t, dir, &Options{Protection: *p})
			},
			Stored: func(t *testing.T) []byte { return runlogtest.Files(t, dir) },
		}
	})
}

func TestPanics(t *testing.T) {
	runlogtest.Panics(t, func(t *testing.T, failpoint func(string)) runlog.Store {
		return openTest(t, t.TempDir(), &Options{Failpoint: failpoint})
	}, "file.before-write", "file.mid-write", "file.after-sync")
}

// A summary survives the batches behind it, a new log file, and the loss of the hold file.
func TestSummaryStays(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := openTest(t, dir, &Options{SegmentSize: 2 << 10})
	l := runlogtest.Create(t, s, "r")
	const summary = `{"step":7}`
	if err := l.Append(t.Context(), &runlog.Batch{Summary: summary}); err != nil {
		t.Fatal(err)
	}
	for range 40 {
		runlogtest.Append(t, l, 2)
	}
	release(t, l)
	if bases, err := formers(s.runDir("r")); err != nil || len(bases) == 0 {
		t.Fatalf("former logs %v, error %v", bases, err)
	}
	if err := os.Remove(filepath.Join(s.runDir("r"), holdName)); err != nil {
		t.Fatal(err)
	}
	if infos, err := openTest(t, dir, nil).Runs(t.Context(), nil); err != nil || len(infos) != 1 || infos[0].Summary != summary || infos[0].Head != 80 {
		t.Errorf("listed %+v, error %v", infos, err)
	}
}

// A store is copied without its hard links after a process died between the link and the new log; the copy goes on, and compresses its log.
func TestStaleShelf(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, dir, &Options{SegmentSize: 1 << 20})
	l := runlogtest.Create(t, s, "r")
	for i := range 5 {
		if err := l.Append(t.Context(), noise(i%3+1)); err != nil {
			t.Fatal(err)
		}
	}
	release(t, l)
	b, err := os.ReadFile(filepath.Join(s.runDir("r"), logName))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.runDir("r"), plainName(1)), b, 0o600); err != nil { // as cp -r leaves it
		t.Fatal(err)
	}
	other := openTest(t, dir, &Options{SegmentSize: 40000})
	l, _ = acquire(t, other, "r")
	for range 300 { // compressible
		if err := l.Append(t.Context(), runlogtest.Batch(3)); err != nil {
			t.Fatal(err)
		}
	}
	head := info(t, other, "r").Head
	recs, err := other.Read(t.Context(), "r", 1, 0)
	if err != nil || uint64(len(recs)) != head {
		entries, _ := os.ReadDir(other.runDir("r"))
		t.Fatalf("%d records of %d, %v; %v", len(recs), head, err, entries)
	}
}

// Former logs are compressed while others append and read, and those of a process that died before it did so by Reclaim. What does not shrink stays.
func TestSqueeze(t *testing.T) {
	s := openTest(t, t.TempDir(), &Options{SegmentSize: 3000})
	list := func(id string) (names []string) {
		t.Helper()
		entries, err := os.ReadDir(s.runDir(id))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	names := func() (plain, packed int) {
		for _, name := range list("r") {
			if strings.HasSuffix(name, plainSuffix) {
				plain++
			} else if strings.HasSuffix(name, packSuffix) {
				packed++
			}
		}
		return plain, packed
	}
	l := runlogtest.Create(t, s, "r")
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			recs, err := s.Read(context.Background(), "r", 1, 0)
			for i, r := range recs {
				if r.Seq != uint64(i+1) {
					err = errors.New("a record is in another's place")
				}
			}
			if err != nil {
				stopped <- err
				return
			}
		}
	}()
	for range 500 {
		runlogtest.Append(t, l, 2)
	}
	close(stop)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	if err := l.Append(t.Context(), &runlog.Batch{Status: runlog.Completed}); err != nil {
		t.Fatal(err)
	}
	release(t, l)
	plain, packed := names()
	if plain != 0 || packed < 20 {
		t.Fatalf("%d former logs are as they were, %d compressed", plain, packed)
	}
	// As if the process had died before it replaced these: one has both files, and one is damaged.
	bases, err := formers(s.runDir("r"))
	if err != nil {
		t.Fatal(err)
	}
	for i, base := range bases[:3] {
		_, data, path, err := s.loadFormer(s.runDir("r"), base)
		data = slices.Clone(data)
		if i == 1 {
			data[len(data)/2] ^= 1
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(s.runDir("r"), plainName(base)), data, 0o600)
		}
		if err == nil && i == 0 {
			err = os.Remove(path)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if freed, err := s.Reclaim(t.Context()); err != nil || freed <= 0 {
		t.Fatalf("%d bytes were freed, error %v", freed, err)
	}
	if plain, now := names(); plain != 1 || now != packed {
		t.Errorf("after Reclaim %d former logs are as they were, %d compressed of %d", plain, now, packed)
	}
	_, err = s.Read(t.Context(), "r", 1, 0)
	if !errors.As(err, new(*runlog.CorruptError)) {
		t.Errorf("of a damaged log: %v", err)
	}
	if err := os.Remove(filepath.Join(s.runDir("r"), plainName(bases[1]))); err != nil { // its copy is whole
		t.Fatal(err)
	}
	if n := len(readAll(t, s, "r")); n != 1000 {
		t.Errorf("%d records", n)
	}
	l = runlogtest.Create(t, s, "noise")
	for range 3 {
		if err := l.Append(t.Context(), noise(1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Append(t.Context(), &runlog.Batch{Status: runlog.Completed}); err != nil {
		t.Fatal(err)
	}
	release(t, l)
	before := list("noise")
	if freed, err := s.Reclaim(t.Context()); err != nil || freed != 0 {
		t.Errorf("%d bytes were freed of what does not shrink, error %v", freed, err)
	}
	if after := list("noise"); len(after) == 0 || !slices.Equal(after, before) {
		t.Errorf("%v became %v", before, after)
	}
}

// A log of marks alone has no records to put away, and the number of the next one.
func TestLogWithoutRecords(t *testing.T) {
	s := openTest(t, t.TempDir(), &Options{SegmentSize: 20000})
	l := runlogtest.Create(t, s, "r")
	runlogtest.Append(t, l, 300)                                                                // the first log is full
	if err := l.Append(t.Context(), &runlog.Batch{Status: runlog.WaitingStorage}); err != nil { // and this begins another one
		t.Fatal(err)
	}
	for range 150 { // looked at again and again, with nothing to do
		release(t, l)
		l, _ = acquire(t, s, "r")
	}
	if size := s.holds.of("r").size; size < 20000 {
		t.Fatalf("the log has %d bytes", size)
	}
	runlogtest.Append(t, l, 300)
	if bases, err := formers(s.runDir("r")); err != nil || len(bases) != 1 {
		t.Errorf("the former logs are %v, error %v", bases, err)
	}
	runlogtest.Append(t, l, 100)
	release(t, l)
	if n := len(readAll(t, s, "r")); n != 700 {
		t.Errorf("%d records", n)
	}
	if bases, err := formers(s.runDir("r")); err != nil || !slices.Equal(bases, []uint64{1, 301}) {
		t.Errorf("the former logs are %v, error %v", bases, err)
	}
}

// Who compresses late does nothing to a run that was deleted meanwhile, nor to the next one of its name.
func TestSqueezeOfDeleted(t *testing.T) {
	dir, c := t.TempDir(), runlogtest.NewClock()
	s := openTest(t, dir, &Options{Now: c.Now, SegmentSize: 3000})
	other := openTest(t, dir, &Options{Now: c.Now, SegmentSize: 3000, Lease: time.Second})
	for _, again := range []bool{false, true} {
		l := runlogtest.Create(t, s, "r")
		held := s.holds.of("r")
		runlogtest.Append(t, l, 40)
		s.packing.Lock()
		runlogtest.Append(t, l, 40)
		held.turn <- struct{}{} // the copy is made, and is not yet to take its place
		s.packing.Unlock()
		for made := []string(nil); len(made) == 0; time.Sleep(time.Millisecond) {
			made, _ = filepath.Glob(filepath.Join(dir, "runs", "r", "*.tmp"))
		}
		c.Move(time.Minute) // the holder hangs
		strike := func(seen *owners.Doubt) error { return other.strike(t.Context(), "r", seen) }
		if err := other.patiently(t.Context(), strike); err != nil {
			t.Fatal(err)
		}
		var next runlog.Log
		if again {
			if err := other.bury(t.Context(), "r"); err != nil {
				t.Fatal(err)
			}
			next = runlogtest.Create(t, other, "r")
			runlogtest.Append(t, next, 50)
			if err := next.Append(t.Context(), noise(1)); err != nil {
				t.Fatal(err)
			}
		}
		<-held.turn
		held.squeezing.Wait()
		if again {
			release(t, next)
		}
		if entries, err := filepath.Glob(filepath.Join(dir, "runs", "r", "*.tmp")); err != nil || len(entries) > 0 {
			t.Errorf("%v is left, error %v", entries, err)
		}
		if !again {
			if plain, err := filepath.Glob(filepath.Join(dir, "runs", "r", "*"+plainSuffix)); err != nil || len(plain) != 1 {
				t.Errorf("in the deleted run there are %v, error %v", plain, err)
			}
			if err := other.bury(t.Context(), "r"); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if n := len(readAll(t, other, "r")); n != 51 {
			t.Errorf("%d records", n)
		}
	}
}

// A slow disk makes appends slow while a former log is replaced, and does not make them fail. No more than some wait to be compressed.
func TestSqueezeSlowly(t *testing.T) {
	d := newShim(t.TempDir())
	replacing := false
	s := openShim(t, d, &Options{SegmentSize: 3000, Lease: 600 * time.Millisecond})
	d.watch(func(op, path string) error {
		if op == "sync" && replacing {
			replacing = false
			time.Sleep(300 * time.Millisecond)
		}
		replacing = replacing || op == "rename" && strings.Contains(path, packSuffix)
		return nil
	})
	l := runlogtest.Create(t, s, "r")
	for range 80 {
		runlogtest.Append(t, l, 2)
	}
	s.packing.Lock()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	var err error
	for n := 0; err == nil; n++ {
		if err = l.Append(ctx, runlogtest.Batch(20)); n > 100 {
			t.Fatal("nothing holds back who writes more than can be compressed")
		}
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	s.packing.Unlock()
	release(t, l)
	plain, err := filepath.Glob(filepath.Join(s.runDir("r"), "*"+plainSuffix))
	if err != nil || len(plain) > 0 {
		t.Errorf("%v are not compressed, error %v", plain, err)
	}
}

// A store that is closed gives up what it held.
func TestClosed(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, dir, nil)
	runlogtest.Append(t, runlogtest.Create(t, s, "r"), 2)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	other := openTest(t, dir, nil)
	if infos, err := other.Runs(t.Context(), nil); err != nil || len(infos) != 1 || infos[0].Status != runlog.Interrupted || infos[0].Head != 2 {
		t.Fatalf("listed %+v, error %v", infos, err)
	}
	if _, info, err := other.Acquire(t.Context(), "r", nil); err != nil || info.Takeovers != 1 || info.Head != 2 {
		t.Fatalf("the next holder got %+v, error %v", info, err)
	}
}
