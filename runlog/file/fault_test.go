package file

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

// A story is something that happens to a store: a few runs that grow by batches, get new
// statuses, are put away, cancelled, released and resumed. It keeps what was
// acknowledged.
type story struct {
	s    *Store
	rnd  *rand.Rand
	logs map[string]runlog.Log
	runs map[string]*told
}

// What a story was told about a run.
type told struct {
	acked  int            // records
	status runlog.Status  // as acknowledged
	sizes  map[int]string // how many records there were after a batch, and what it was to say
	doubt  bool           // an append or an acquisition ended with ErrUnknown
	failed map[string]bool
	epoch  uint64
}

func newStory(s *Store, seed uint64) *story {
	return &story{s: s, rnd: rand.New(rand.NewPCG(seed, 1)), logs: map[string]runlog.Log{}, runs: map[string]*told{}}
}

// step does one thing. An error has left the run as it was, unless its outcome is unknown.
func (y *story) step(ctx context.Context, i int) error {
	id := fmt.Sprintf("run-%d", y.rnd.IntN(3))
	chance := y.rnd.IntN(20)
	n, size := y.rnd.IntN(4), y.rnd.IntN(1500)
	status := []runlog.Status{"", "", runlog.Running, runlog.Paused}[y.rnd.IntN(4)]
	r, l := y.runs[id], y.logs[id]
	switch {
	case r == nil:
		l, info, err := y.s.Acquire(ctx, id, &runlog.AcquireOptions{Create: &runlog.NewRun{Title: id}})
		if err != nil {
			return err
		}
		y.logs[id] = l
		y.runs[id] = &told{status: runlog.Running, sizes: map[int]string{0: ""}, failed: map[string]bool{}, epoch: info.Epoch}
	case l == nil:
		l, info, err := y.s.Acquire(ctx, id, nil)
		if err != nil {
			return err
		}
		if int(info.Head) > r.acked && r.doubt { // what was in doubt is there
			r.acked, r.status = int(info.Head), info.Status
		}
		r.doubt, r.epoch = false, info.Epoch
		y.logs[id] = l
	case chance == 0:
		y.logs[id] = nil
		if err := l.Release(ctx); err != nil {
			return errors.Join(err, l.Release(ctx))
		}
	case chance == 1:
		return y.s.RequestCancel(ctx, id)
	default:
		return y.append(ctx, id, i, n, size, status)
	}
	return nil
}

func (y *story) append(ctx context.Context, id string, i, n, size int, status runlog.Status) error {
	r, l := y.runs[id], y.logs[id]
	b := &runlog.Batch{Status: status}
	name := fmt.Sprintf("step %d", i)
	for range n {
		b.Records = append(b.Records, runlog.Record{Kind: runlog.KindEvent, Path: name, Time: time.Unix(1e9, 0), Data: json.RawMessage(`{"x":"` + strings.Repeat("x", size) + `"}`)})
	}
	if y.rnd.IntN(3) > 0 && len(b.Records) > 0 { // a log of it is not worth compressing
		noise := make([]byte, 2*size+1)
		for i := range noise {
			noise[i] = byte(y.rnd.Uint32())
		}
		b.Records[0].Attachment = noise
	}
	r.sizes[r.acked+n] = name
	err := l.Append(ctx, b)
	switch {
	case err == nil:
		r.acked += n
		if status != "" {
			r.status = status
		}
	case errors.Is(err, runlog.ErrUnknown):
		r.doubt = true
		y.logs[id] = nil
		err = errors.Join(err, l.Release(ctx))
	default:
		r.failed[name] = true
	}
	return err
}

// check compares a store with what was acknowledged. The last batch of a run, which was
// not, may be there or not, but only whole. With settled nothing is under way.
func (y *story) check(s *Store, settled bool) error {
	ctx := context.Background()
	for id, r := range y.runs {
		recs, err := s.Read(ctx, id, 1, 0)
		if err != nil {
			return fmt.Errorf("reading %s: %w", id, err)
		}
		l, info, err := s.Acquire(ctx, id, &runlog.AcquireOptions{Quarantined: true})
		if err != nil {
			return err
		}
		again, err := s.Read(ctx, id, 1, 0)
		if err != nil || len(again) != int(info.Head) || len(recs) != len(again) {
			return fmt.Errorf("%s: %d records, then %d, head %d, error %w", id, len(recs), len(again), info.Head, err)
		}
		if len(recs) < r.acked {
			return fmt.Errorf("%s: %d records were acknowledged, %d are there", id, r.acked, len(recs))
		}
		more := len(recs) > r.acked
		if _, whole := r.sizes[len(recs)]; more && (!whole || settled && !r.doubt) {
			return fmt.Errorf("%s: %d records, %d were acknowledged", id, len(recs), r.acked)
		}
		if !more && info.Status != r.status && (settled && !r.doubt) {
			return fmt.Errorf("%s is %s, acknowledged was %s", id, info.Status, r.status)
		}
		for _, rec := range recs {
			if r.failed[rec.Path] {
				return fmt.Errorf("%s: record %d is of %s, which failed", id, rec.Seq, rec.Path)
			}
		}
		b := runlogtest.Batch(2)
		if err := l.Append(ctx, b); err != nil || b.Records[1].Seq != info.Head+2 {
			return fmt.Errorf("%s continues with %d, error %w", id, b.Records[1].Seq, err)
		}
		if err := l.Release(ctx); err != nil {
			return err
		}
	}
	return nil
}

var errPower = errors.New("the power is gone")

// fastDir is a directory for what needs no real disk.
func fastDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "superstep-*") //nolint:usetesting // it is in memory
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// clean removes directories before their test ends.
func clean(dirs ...string) {
	for _, dir := range dirs {
		_ = os.RemoveAll(dir)
	}
}

func openShim(t testing.TB, d *shim, opt *Options) *Store {
	t.Helper()
	if opt == nil {
		opt = &Options{}
	}
	s, err := open(t.Context(), d.root, opt, d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return &Store{s, inner{s}}
}

// The power goes at any access to the disk: what was not synced is lost, or not, page by page
// and name by name.
func TestPowerLoss(t *testing.T) {
	start := time.Now()
	rnd, seed := faults.Rand(t)
	n := faults.N(1000)
	for i := range n {
		root := fastDir(t)
		after := filepath.Join(fastDir(t), "after")
		d := newShim(root)
		s := openShim(t, d, &Options{SegmentSize: 2000})
		y := newStory(s, seed+uint64(i))
		left := 1 + rnd.IntN(150)
		d.watch(func(string, string) error {
			if left--; left < 0 {
				return errPower
			}
			return nil
		})
		for k, lost := 0, false; !lost; k++ {
			_ = y.step(t.Context(), k)
			d.mu.Lock()
			lost = left < 0
			d.mu.Unlock()
		}
		for _, r := range y.runs {
			r.failed = nil // it may have failed on its way back
		}
		d.cut(t, after, rnd)
		other, err := Open(t.Context(), after, nil)
		if err == nil {
			err = y.check(other, false)
			err = errors.Join(err, other.Close())
		}
		if err != nil {
			t.Fatalf("loss %d: %v", i, err)
		}
		_ = s.Close()
		clean(root, after)
	}
	faults.Report(t, "unsynced pages and names lost", "file", n, start, "0 acknowledged records lost, 0 batches torn")
}

// Each sync of a story fails once, and loses what it should have stored.
func TestEachSyncFailsOnce(t *testing.T) {
	start := time.Now()
	const steps = 60
	play := func(seed uint64, fail int, all, late bool) (syncs, failed int) {
		root := fastDir(t)
		after := filepath.Join(fastDir(t), "after")
		d := newShim(root)
		d.late = late
		s := openShim(t, d, &Options{SegmentSize: 2000})
		first := d.syncs
		count := 0
		d.watch(func(op, _ string) error {
			if op != "sync" {
				return nil
			}
			count++
			if count == fail || all && count > fail && count < fail+2 {
				return syscall.EIO
			}
			return nil
		})
		y := newStory(s, seed)
		for k := range steps {
			if err := y.step(t.Context(), k); err != nil {
				failed++
			}
		}
		d.watch(nil)
		if err := s.Close(); err != nil { // what is compressed meanwhile is syncs as well
			t.Fatal(err)
		}
		syncs = d.syncs - first
		d.cut(t, after, nil)
		other, err := Open(t.Context(), after, nil)
		if err == nil {
			err = errors.Join(y.check(other, true), other.Close())
		}
		if err != nil {
			t.Fatalf("sync %d of seed %d: %v", fail, seed, err)
		}
		clean(root, after)
		return syncs, failed
	}
	_, seed := faults.Rand(t)
	total, errs := 0, 0
	for round := range uint64(max(faults.N(10), 1)) {
		syncs, _ := play(seed+round, -1, false, false)
		for fail := 1; fail <= syncs; fail++ {
			for _, c := range []struct{ all, late bool }{{}, {all: true}, {late: true}} { // all: also the one that would take it back
				_, failed := play(seed+round, fail, c.all, c.late)
				errs += failed
				total++
			}
		}
	}
	if errs < total/2 {
		t.Errorf("of %d syncs that failed %d were noticed", total, errs)
	}
	faults.Report(t, "fsync error, each once", "file", total, start, "0 false acknowledgements, 0 acknowledged records lost")
}

// The disk gets full at any byte.
func TestDiskFull(t *testing.T) {
	start := time.Now()
	rnd, seed := faults.Rand(t)
	n := faults.N(500)
	parked, spent := 0, 0
	for i := range n {
		d := newShim(fastDir(t))
		s := openShim(t, d, &Options{SegmentSize: 4000})
		y := newStory(s, seed+uint64(i))
		d.mu.Lock()
		d.room = int64(rnd.IntN(20_000))
		d.mu.Unlock()
		for k := range 40 {
			err := y.step(t.Context(), k)
			if err == nil {
				continue
			}
			if !errors.As(err, new(*runlog.StorageError)) || !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("disk %d: %v", i, err)
			}
			for id, l := range y.logs {
				if l == nil {
					continue
				}
				if err := l.Append(t.Context(), &runlog.Batch{Records: runlogtest.Batch(1).Records, Status: runlog.WaitingStorage}); err != nil {
					t.Fatalf("disk %d: parking: %v", i, err)
				}
				parked++
				r := y.runs[id]
				r.acked++
				r.sizes[r.acked], r.status = "", runlog.WaitingStorage
				if !s.reserve.spent.Load() {
					continue // it had room enough without
				}
				spent++
				if err := l.Append(t.Context(), runlogtest.Batch(1)); !errors.As(err, new(*runlog.StorageError)) {
					t.Fatalf("disk %d: the reserve was used for more: %v", i, err)
				}
			}
			break
		}
		d.mu.Lock()
		d.room = -1
		d.mu.Unlock()
		for k := range 20 {
			if err := y.step(t.Context(), 100+k); err != nil {
				t.Fatalf("disk %d: with room again: %v", i, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		other, err := Open(t.Context(), d.root, nil)
		if err == nil {
			err = errors.Join(y.check(other, true), other.Close())
		}
		if err != nil {
			t.Fatalf("disk %d: %v", i, err)
		}
		if info, err := os.Stat(filepath.Join(d.root, "reserve")); err != nil || info.Size() != reserveSize {
			t.Fatalf("the reserve is %v, error %v", info, err)
		}
		clean(d.root)
	}
	if parked < n/4 || spent < n/10 {
		t.Errorf("only %d runs were parked, %d of them from the reserve", parked, spent)
	}
	faults.Report(t, "ENOSPC (shim)", "file", n, start, "%d runs parked as waiting_storage, all resumed, 0 corrupt", parked)
}

// Any access to the disk gives an error, once.
func TestEachAccessFailsOnce(t *testing.T) {
	start := time.Now()
	_, seed := faults.Rand(t)
	n, noticed := faults.N(2000), 0
	for i := range n {
		d := newShim(fastDir(t))
		s := openShim(t, d, &Options{SegmentSize: 2000})
		y := newStory(s, seed+uint64(i%7))
		count, failure := 0, []error{syscall.EIO, syscall.EMFILE, syscall.ENOSPC}[i%3]
		d.watch(func(string, string) error {
			if count++; count == i/7+1 {
				return failure
			}
			return nil
		})
		for k := range 60 {
			err := y.step(t.Context(), k)
			if err == nil {
				continue
			}
			noticed++
			if !errors.As(err, new(*runlog.StorageError)) && !errors.Is(err, runlog.ErrUnknown) {
				t.Fatalf("access %d, %v: %v", i, failure, err)
			}
		}
		d.watch(nil)
		err := s.Close()
		after := filepath.Join(fastDir(t), "after")
		d.cut(t, after, nil)
		for _, dir := range []string{d.root, after} {
			other, openErr := Open(t.Context(), dir, nil)
			err = errors.Join(err, openErr)
			if openErr == nil {
				if dir == d.root {
					err = errors.Join(err, y.peek(other))
				} else {
					err = errors.Join(err, y.check(other, true))
				}
				err = errors.Join(err, other.Close())
			}
		}
		if err != nil {
			t.Fatalf("access %d, %v: %v", i, failure, err)
		}
		clean(d.root, after)
	}
	if noticed < n/3 {
		t.Errorf("%d of %d errors were noticed", noticed, n)
	}
	faults.Report(t, "EIO, EMFILE, ENOSPC at each access (shim)", "file", n, start, "%d refused with a StorageError or an unknown outcome, 0 acknowledged records lost", noticed)
}

// peek compares what is read with what was acknowledged, and writes nothing.
func (y *story) peek(s *Store) error {
	for id, r := range y.runs {
		recs, err := s.Read(context.Background(), id, 1, 0)
		if err != nil || len(recs) < r.acked || len(recs) > r.acked && !r.doubt {
			return fmt.Errorf("%s: %d records, %d were acknowledged, error %w", id, len(recs), r.acked, err)
		}
	}
	return nil
}

// damagedStore makes a store of a run a whose log gets damaged and a run b that does not.
// It returns the sizes of a's log after each batch.
func damagedStore(t *testing.T, held bool) (s *Store, ends []int64) {
	t.Helper()
	s, err := Open(t.Context(), t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	a, b := runlogtest.Create(t, s, "a"), runlogtest.Create(t, s, "b")
	size := func() int64 {
		info, err := os.Stat(filepath.Join(s.runDir("a"), logName))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	ends = append(ends, size())
	for _, n := range []int{2, 1, 3, 2, 1, 1, 1} {
		runlogtest.Append(t, a, n)
		ends = append(ends, size())
	}
	runlogtest.Append(t, b, 3)
	if !held {
		release(t, a)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return s, ends
}

// The log is cut at every byte of the last three records, as a crash may leave it, with
// and without the file that says how much was acknowledged.
func TestCutAtEveryByte(t *testing.T) {
	start := time.Now()
	s, ends := damagedStore(t, true)
	log := filepath.Join(s.runDir("a"), logName)
	was, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	hold, err := os.ReadFile(filepath.Join(s.runDir("a"), holdName))
	if err != nil {
		t.Fatal(err)
	}
	heads := []int{0, 2, 3, 6, 8, 9, 10, 11}
	n := 0
	for size := ends[4]; size < int64(len(was)); size++ {
		i, _ := slices.BinarySearch(ends, size+1)
		head := heads[i-1]
		for _, vouched := range []bool{true, false} {
			n++
			if err := os.WriteFile(log, was[:size], 0o600); err != nil {
				t.Fatal(err)
			}
			if vouched {
				err = os.WriteFile(filepath.Join(s.runDir("a"), holdName), hold, 0o600)
			} else {
				err = os.Remove(filepath.Join(s.runDir("a"), holdName))
			}
			if err != nil {
				t.Fatal(err)
			}
			other, err := Open(t.Context(), s.dir, nil)
			if err != nil {
				t.Fatal(err)
			}
			recs, err := other.Read(t.Context(), "a", 1, 0)
			if vouched {
				checkCorrupt(t, err, uint64(len(recs)+1))
				if len(recs) < head {
					t.Fatalf("cut at %d: %d records, want %d", size, len(recs), head)
				}
				_, _, err = other.Acquire(t.Context(), "a", nil)
				checkCorrupt(t, err, uint64(len(recs)+1))
			} else {
				if err != nil || len(recs) != head {
					t.Fatalf("cut at %d: %d records, want %d, error %v", size, len(recs), head, err)
				}
				l, got := acquire(t, other, "a")
				if int(got.Head) != head {
					t.Fatalf("cut at %d: head %d, want %d", size, got.Head, head)
				}
				if size%16 == 0 {
					runlogtest.Append(t, l, 2)
					if recs := readAll(t, other, "a"); len(recs) != head+2 {
						t.Fatalf("cut at %d: it continues with %d records", size, len(recs))
					}
				}
			}
			if size%16 == 0 {
				if got := len(readAll(t, other, "b")); got != 3 {
					t.Fatalf("the neighbour has %d records", got)
				}
			}
			if err := other.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	faults.Report(t, "cut at every byte of the last 3 records", "file", n, start, "100 %% detected or cut back to a whole batch, 0 panics, neighbours open")
}

// A bit flips anywhere in the log, or in a former log.
func TestBitFlips(t *testing.T) {
	start := time.Now()
	rnd, _ := faults.Rand(t)
	s, _ := damagedStore(t, false)
	s2, err := Open(t.Context(), s.dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	s2.segment = 500
	l, _ := acquire(t, s2, "a")
	runlogtest.Append(t, l, 6) // the first of which are in a former log now
	runlogtest.Append(t, l, 2)
	release(t, l)
	want := readAll(t, s2, "a")
	if err := s2.Close(); err != nil {
		t.Fatal(err)
	}
	var files []string
	var weights []int
	total := 0
	entries, err := os.ReadDir(s.runDir("a"))
	if err != nil {
		t.Fatal(err)
	}
	content := map[string][]byte{}
	for _, e := range entries {
		if e.Name() == lockName {
			continue
		}
		b, err := os.ReadFile(filepath.Join(s.runDir("a"), e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files, weights = append(files, e.Name()), append(weights, len(b))
		content[e.Name()] = b
		total += len(b)
	}
	if len(files) < 4 {
		t.Fatalf("the run has %v", files)
	}
	n, detected, harmless := faults.N(10_000), 0, 0
	for range n {
		at := rnd.IntN(total)
		k := 0
		for at >= weights[k] {
			at -= weights[k]
			k++
		}
		bit := rnd.IntN(8)
		bad := slices.Clone(content[files[k]])
		bad[at] ^= 1 << bit
		path := filepath.Join(s.runDir("a"), files[k])
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		other, err := Open(t.Context(), s.dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		where := fmt.Sprintf("bit %d of byte %d of %s", bit, at, files[k])
		recs, err := other.Read(t.Context(), "a", 1, 0)
		_, _, acquireErr := other.Acquire(t.Context(), "a", nil)
		for i, r := range recs {
			if !sameRecord(r, want[i]) {
				t.Fatalf("%s: record %d changed", where, i+1)
			}
		}
		switch {
		case errors.As(err, new(*runlog.CorruptError)) || errors.As(acquireErr, new(*runlog.CorruptError)):
			detected++
		case err != nil || acquireErr != nil && !errors.As(acquireErr, new(*runlog.BusyError)):
			if !strings.Contains(fmt.Sprint(err, acquireErr), "newer superstep") {
				t.Fatalf("%s: %v; %v", where, err, acquireErr)
			}
			detected++
		case len(recs) == len(want):
			harmless++
		default:
			t.Fatalf("%s: %d records of %d and no error", where, len(recs), len(want))
		}
		if infos, err := other.Runs(t.Context(), nil); err != nil || len(infos) != 2 {
			t.Fatalf("%s: listed %d, error %v", where, len(infos), err)
		}
		if recs, err := other.Read(t.Context(), "b", 1, 0); err != nil || len(recs) != 3 {
			t.Fatalf("%s: the neighbour has %d records, error %v", where, len(recs), err)
		}
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
		for name, b := range content {
			if err := os.WriteFile(filepath.Join(s.runDir("a"), name), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if detected < n/2 {
		t.Errorf("%d detected, %d harmless", detected, harmless)
	}
	faults.Report(t, "bit flips", "file", n, start, "%d detected, %d harmless (in what is only a hint), 0 panics, neighbours open", detected, harmless)
}

func sameRecord(a, b runlog.Record) bool {
	return a.Seq == b.Seq && a.Epoch == b.Epoch && a.Kind == b.Kind && a.Path == b.Path && string(a.Data) == string(b.Data) && a.Time.Equal(b.Time)
}

// A page of the last write is lost while later ones of it are there: that is no damage.
func TestHoleInTheLastWrite(t *testing.T) {
	s, ends := damagedStore(t, true)
	log := filepath.Join(s.runDir("a"), logName)
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(s.runDir("a"), holdName)); err != nil {
		t.Fatal(err)
	}
	clear(b[ends[6] : ends[6]+40])
	if err := os.WriteFile(log, b, 0o600); err != nil {
		t.Fatal(err)
	}
	other := openTest(t, s.dir, nil)
	if recs := readAll(t, other, "a"); len(recs) != 10 {
		t.Fatalf("%d records", len(recs))
	}
	if _, err := os.Stat(filepath.Join(s.runDir("a"), holdName)); errors.Is(err, fs.ErrNotExist) {
		t.Error("nobody vouches for the log")
	}
	clear(b[ends[4] : ends[4]+40])
	if err := errors.Join(os.WriteFile(log, b, 0o600), os.Remove(filepath.Join(s.runDir("a"), holdName))); err != nil {
		t.Fatal(err)
	}
	_, err = other.Read(t.Context(), "a", 1, 0)
	checkCorrupt(t, err, 9)
}

// After a sync that failed the system may take for stored what it only remembers. What a
// later holder, or a reader, then finds behind what was acknowledged is there for good.
func TestFoundBehindTheAcknowledged(t *testing.T) {
	for _, name := range []string{"holder", "reader"} {
		t.Run(name, func(t *testing.T) {
			after := filepath.Join(t.TempDir(), "after")
			d := newShim(t.TempDir())
			s := openShim(t, d, nil)
			l := runlogtest.Create(t, s, "r")
			runlogtest.Append(t, l, 2)
			failed := false
			d.watch(func(op, _ string) error {
				if failed || op == "sync" { // and what would take it back
					failed = true
					return syscall.EIO
				}
				return nil
			})
			if err := l.Append(t.Context(), runlogtest.Batch(3)); !errors.Is(err, runlog.ErrUnknown) {
				t.Fatalf("an append that may have been stored: %v", err)
			}
			if err := l.Append(t.Context(), runlogtest.Batch(1)); !errors.Is(err, runlog.ErrUnknown) {
				t.Fatalf("an append after it: %v", err)
			}
			d.watch(nil)
			if got := info(t, s, "r"); got.Head != 2 {
				t.Fatalf("listed %+v", got)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			other := openShim(t, d, nil)
			want := 5
			if name == "holder" {
				l, got := acquire(t, other, "r")
				if got.Head != 5 {
					t.Fatalf("acquired %+v", got)
				}
				runlogtest.Append(t, l, 1)
				want = 6
			} else if n := len(readAll(t, other, "r")); n != want {
				t.Fatalf("%d records", n)
			}
			d.cut(t, after, nil)
			if n := len(readAll(t, openTest(t, after, nil), "r")); n != want {
				t.Errorf("%d records are left of %d", n, want)
			}
		})
	}
}

// A log that was put in the place of another, from a backup for instance, ends the hold.
func TestReplacedLog(t *testing.T) {
	s := openTest(t, t.TempDir(), nil)
	l := runlogtest.Create(t, s, "r")
	runlogtest.Append(t, l, 2)
	b, err := os.ReadFile(s.logPath("r"))
	if err == nil {
		err = errors.Join(os.WriteFile(s.logPath("r")+".tmp", b, 0o600), os.Rename(s.logPath("r")+".tmp", s.logPath("r")))
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Append(t.Context(), runlogtest.Batch(1)); !errors.Is(err, runlog.ErrFenced) {
		t.Errorf("an append to a log that is gone: %v", err)
	}
	if n := len(readAll(t, s, "r")); n != 2 {
		t.Errorf("%d records", n)
	}
}

// Where a file can have only one name, a full log is compressed at once.
func TestNoLinks(t *testing.T) {
	d := newShim(t.TempDir())
	s := openShim(t, d, &Options{SegmentSize: 2000})
	d.watch(func(op, _ string) error {
		if op == "link" {
			return syscall.EPERM
		}
		return nil
	})
	l := runlogtest.Create(t, s, "r")
	for range 100 {
		runlogtest.Append(t, l, 2)
	}
	plain, err := filepath.Glob(filepath.Join(s.runDir("r"), "*"+plainSuffix))
	packed, packedErr := filepath.Glob(filepath.Join(s.runDir("r"), "*"+packSuffix))
	if err = errors.Join(err, packedErr); err != nil || len(plain) > 0 || len(packed) < 5 {
		t.Errorf("the former logs are %v and %v, error %v", plain, packed, err)
	}
	if n := len(readAll(t, s, "r")); n != 200 {
		t.Errorf("%d records", n)
	}
}
