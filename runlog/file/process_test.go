//go:build unix

package file

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"go.uber.org/goleak"
)

// TestMain is also the main function of the processes that the tests below start:
// TEST_ROLE says what they do.
func TestMain(m *testing.M) {
	runlogtest.Work(helper)
	goleak.VerifyTestMain(m)
}

// helper is a process that works on a store.
func helper(path string) error {
	opt := &Options{SegmentSize: 3000, Owner: "child", Failpoint: runlogtest.Die()}
	opt.Lease, _ = time.ParseDuration(os.Getenv("TEST_LEASE"))
	ctx := context.Background()
	s, err := Open(ctx, path, opt)
	if err != nil {
		return err
	}
	switch role := os.Getenv("TEST_ROLE"); role {
	case "append":
		return runlogtest.AppendForever(s)
	case "work":
		return work(ctx, s)
	case "few files":
		return fewFiles(ctx, s)
	default:
		return fmt.Errorf("no role %q", role)
	}
}

// work takes one of a few runs after another that nobody holds, and appends to it, until
// the process is killed.
func work(ctx context.Context, s *Store) error {
	for {
		id := fmt.Sprintf("run-%d", rand.IntN(6))
		l, info, err := s.Acquire(ctx, id, &runlog.AcquireOptions{Quarantined: true})
		if errors.As(err, new(*runlog.NotFoundError)) {
			l, info, err = s.Acquire(ctx, id, &runlog.AcquireOptions{Create: &runlog.NewRun{}})
		}
		if errors.As(err, new(*runlog.BusyError)) || errors.Is(err, runlog.ErrExists) {
			time.Sleep(time.Millisecond)
			continue
		}
		if err != nil {
			return err
		}
		fmt.Println("took", id, info.Epoch, info.Head)
		for range rand.IntN(20) {
			b := runlogtest.Batch(1 + rand.IntN(3))
			for i := range b.Records {
				b.Records[i].Path = fmt.Sprintf("%d/%d", len(b.Records), i)
			}
			if err := l.Append(ctx, b); err != nil {
				return err
			}
			fmt.Println("acked", id, b.Records[len(b.Records)-1].Seq)
		}
		if rand.IntN(2) == 0 {
			if err := s.RequestCancel(ctx, fmt.Sprintf("run-%d", rand.IntN(6))); err != nil && !errors.As(err, new(*runlog.NotFoundError)) {
				return err
			}
		}
		if err := l.Release(ctx); err != nil {
			return err
		}
	}
}

// fewFiles holds runs until there are no more files to open.
func fewFiles(ctx context.Context, s *Store) error {
	limit := syscall.Rlimit{Cur: 64, Max: 64}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	var logs []runlog.Log
	for i := range 30 {
		l, _, err := s.Acquire(ctx, fmt.Sprintf("run-%d", i), &runlog.AcquireOptions{Create: &runlog.NewRun{}})
		if err != nil {
			return fmt.Errorf("run %d: %w", i, err)
		}
		logs = append(logs, l)
	}
	refused := 0
	var files []*os.File
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		files = append(files, f)
	}
	for _, l := range logs {
		if err := l.Append(ctx, runlogtest.Batch(1)); !errors.As(err, new(*runlog.StorageError)) {
			return fmt.Errorf("an append without files: %w", err)
		}
		refused++
	}
	_, _, err := s.Acquire(ctx, "one-more", &runlog.AcquireOptions{Create: &runlog.NewRun{}})
	if !errors.As(err, new(*runlog.StorageError)) {
		return fmt.Errorf("a new run without files: %w", err)
	}
	for _, f := range files {
		f.Close()
	}
	for _, l := range logs {
		if err := l.Append(ctx, runlogtest.Batch(1)); err != nil {
			return err
		}
		if err := l.Release(ctx); err != nil {
			return err
		}
	}
	for i := range logs {
		if recs, err := s.Read(ctx, fmt.Sprintf("run-%d", i), 1, 0); err != nil || len(recs) != 1 {
			return fmt.Errorf("run %d has %d records: %w", i, len(recs), err)
		}
	}
	fmt.Println("refused", refused)
	return s.Close()
}

func TestKilledHolder(t *testing.T) {
	dir := t.TempDir()
	c, s := runlogtest.StartChild(t, dir, "r", "TEST_ROLE=append"), openTest(t, dir, nil)
	c.Killed(t, s, 40, 0, true)
	entries, err := os.ReadDir(filepath.Join(dir, "owners"))
	if err != nil || len(entries) != 1 || entries[0].Name() != s.owners.Name() {
		t.Fatalf("the owners are %v, error %v", entries, err)
	}
}

func TestKilledAtFailpoints(t *testing.T) {
	runlogtest.Deaths(t, func(t *testing.T, env string) (*runlogtest.Child, func() runlog.Store) {
		dir := t.TempDir()
		return runlogtest.StartChild(t, dir, "r", "TEST_ROLE=append", env), func() runlog.Store { return openTest(t, dir, nil) }
	}, []runlogtest.Death{
		{Point: "file.before-write:2", Acked: 2, Head: 2},
		{Point: "file.mid-write:2", Acked: 2, Head: 2},
		{Point: "file.before-sync:2", Acked: 2, Head: 4}, // the process dies, not the system
		{Point: "file.after-sync:2", Acked: 2, Head: 4},
		{Point: "file.before-rename:3", Acked: 22, Head: 22}, // of the store, of the run, of the second log
		{Point: "file.after-rename:3", Acked: 22, Head: 22},
		{Point: "file.before-rename:4", Acked: 44, Head: 44},
		{Point: "file.after-rename:4", Acked: 44, Head: 44},
		{Point: "file.after-link:1", Acked: 22, Head: 22},
		{Point: "file.after-link:2", Acked: 44, Head: 44},
		{Point: "file.before-replace:1", Acked: 22}, // beside the appends, at any record
		{Point: "file.after-replace:1", Acked: 22},
		{Point: "file.after-replace:3", Acked: 22},
	}...)
}

// A holder that is stopped past its lease is fenced when it goes on.
func TestStoppedHolder(t *testing.T) {
	dir := t.TempDir()
	const lease = 300 * time.Millisecond
	c := runlogtest.StartChild(t, dir, "r", "TEST_ROLE=append", "TEST_LEASE="+lease.String())
	s := openTest(t, dir, &Options{Lease: lease})
	c.Stopped(t, s, func() func() error { // stopped in a write it would keep the run locked
		lock, err := s.lockRun(t.Context(), "r")
		if err != nil {
			t.Fatal(err)
		}
		return lock.Close
	})
}

// Processes share a store, and are killed and started again, at any time and at the points
// at which it matters most.
func TestKilledWorkers(t *testing.T) {
	start := time.Now()
	rnd, _ := faults.Rand(t)
	dir := fastDir(t)
	kills := faults.N(1000)
	points := []string{"before-write", "mid-write", "before-sync", "after-sync", "before-rename", "after-rename"}
	var mu sync.Mutex
	acked := map[string]uint64{}
	epochs := map[string]bool{}
	acks := 0
	one := func(die string, after time.Duration) {
		c := runlogtest.StartChild(t, dir, "", "TEST_ROLE=work", "TEST_DIE="+die)
		timer := time.AfterFunc(after, func() { _ = c.Process.Kill() })
		defer timer.Stop()
		for c.Said.Scan() {
			var id string
			var seq, epoch, head uint64
			line := c.Said.Text()
			mu.Lock()
			if n, _ := fmt.Sscanf(line, "acked %s %d", &id, &seq); n == 2 {
				acked[id] = max(acked[id], seq)
				acks++
			} else if n, _ := fmt.Sscanf(line, "took %s %d %d", &id, &epoch, &head); n == 3 {
				if key := fmt.Sprint(id, " ", epoch); epochs[key] {
					t.Errorf("two processes hold %s", key)
				} else {
					epochs[key] = true
				}
			} else {
				t.Errorf("a worker said %q", line)
			}
			mu.Unlock()
		}
		if err := c.Wait(); c.ProcessState.ExitCode() != -1 { // a signal ends it, and nothing else
			t.Errorf("a worker ended by itself: %v", err)
		}
	}
	type death struct {
		die   string
		after time.Duration
	}
	deaths := make(chan death)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for d := range deaths {
				one(d.die, d.after)
			}
		})
	}
	for i := range kills {
		d := death{after: time.Duration(20+rnd.IntN(100)) * time.Millisecond}
		if i%2 == 0 {
			d = death{fmt.Sprintf("file.%s:%d", points[rnd.IntN(len(points))], 1+rnd.IntN(12)), 5 * time.Second}
		}
		deaths <- d
	}
	close(deaths)
	wg.Wait()
	s := openTest(t, dir, nil)
	for id, seq := range acked {
		recs := readAll(t, s, id)
		if uint64(len(recs)) < seq {
			t.Errorf("%s: %d records were acknowledged, %d are there", id, seq, len(recs))
		}
		for i := 0; i < len(recs); {
			var n, k int
			if _, err := fmt.Sscanf(recs[i].Path, "%d/%d", &n, &k); err != nil || k != 0 || i+n > len(recs) || recs[i+n-1].Path != fmt.Sprintf("%d/%d", n, n-1) || recs[i+n-1].Epoch != recs[i].Epoch {
				t.Fatalf("%s: a batch is torn at record %d", id, i+1)
			}
			i += n
		}
		l, _, err := s.Acquire(t.Context(), id, &runlog.AcquireOptions{Quarantined: true})
		if err != nil {
			t.Fatal(err)
		}
		runlogtest.Append(t, l, 1)
		release(t, l)
	}
	if _, err := s.Reclaim(t.Context()); err != nil {
		t.Error(err)
	}
	if trash, err := os.ReadDir(filepath.Join(dir, "trash")); err != nil || len(trash) > 0 {
		t.Errorf("the trash has %v, error %v", trash, err)
	}
	if acks < kills {
		t.Errorf("only %d acknowledgements", acks)
	}
	faults.Report(t, "kill -9 of 4 workers on one store", "file", kills, start, "%d acknowledgements, 0 lost, 0 torn batches, 0 epochs held twice", acks)
}

func TestFewFiles(t *testing.T) {
	start := time.Now()
	c := runlogtest.StartChild(t, t.TempDir(), "", "TEST_ROLE=few files")
	refused := 0
	for c.Said.Scan() {
		if n, _ := fmt.Sscanf(c.Said.Text(), "refused %d", &refused); n != 1 {
			t.Errorf("the child said %q", c.Said.Text())
		}
	}
	if err := c.Wait(); err != nil || refused < 20 {
		t.Errorf("%d refused, error %v", refused, err)
	}
	faults.Report(t, "EMFILE (nofile=64)", "file", refused, start, "each refused with a StorageError, all went through afterwards")
}
