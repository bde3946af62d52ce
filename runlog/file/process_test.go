//go:build unix

package file

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/runlog"
	"go.uber.org/goleak"
)

// TestMain is also the main function of the processes that the tests below start:
// TEST_STORE says which store they work on, and TEST_ROLE what they do.
func TestMain(m *testing.M) {
	if path := os.Getenv("TEST_STORE"); path != "" {
		if err := helper(path, os.Getenv("TEST_ROLE")); err != nil {
			fmt.Fprintln(os.Stdout, "error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// helper is a process that works on a store. TEST_DIE names a failpoint and which time it
// is reached at which the process kills itself.
func helper(path, role string) error {
	point, nth, _ := strings.Cut(os.Getenv("TEST_DIE"), ":")
	left, _ := strconv.Atoi(nth)
	opt := &Options{SegmentSize: 3000, Owner: "child"}
	opt.Lease, _ = time.ParseDuration(os.Getenv("TEST_LEASE"))
	if point != "" {
		opt.Failpoint = func(name string) {
			if name != point {
				return
			}
			if left--; left == 0 {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		}
	}
	ctx := context.Background()
	s, err := Open(ctx, path, opt)
	if err != nil {
		return err
	}
	switch role {
	case "append":
		return appendForever(ctx, s)
	case "work":
		return work(ctx, s)
	case "few files":
		return fewFiles(ctx, s)
	}
	return fmt.Errorf("no role %q", role)
}

// appendForever makes run r and appends to it until it is killed or fails.
func appendForever(ctx context.Context, s *Store) error {
	l, _, err := s.Acquire(ctx, "r", &runlog.AcquireOptions{Create: &runlog.NewRun{}})
	if err != nil {
		return err
	}
	for {
		b := batch(2)
		if err := l.Append(ctx, b); err != nil {
			if errors.Is(err, runlog.ErrFenced) {
				_, renewErr := l.Renew(ctx)
				fmt.Println("fenced", errors.Is(renewErr, runlog.ErrFenced))
			}
			return err
		}
		fmt.Println("acked", "r", b.Records[1].Seq)
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
			b := batch(1 + rand.IntN(3))
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
		if err := l.Append(ctx, batch(1)); !errors.As(err, new(*runlog.StorageError)) {
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
		if err := l.Append(ctx, batch(1)); err != nil {
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

// A child is a helper process.
type child struct {
	*exec.Cmd
	out *bufio.Scanner
}

func startChild(t *testing.T, path string, env ...string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), append(env, "TEST_STORE="+path)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	})
	return &child{cmd, bufio.NewScanner(out)}
}

// acked reads acknowledgements until there are at least n or no more, and returns the last
// and the line behind it.
func (c *child) acked(n uint64) (last uint64, line string) {
	for c.out.Scan() {
		line = c.out.Text()
		if _, err := fmt.Sscanf(line, "acked r %d", &last); err != nil || n > 0 && last >= n {
			break
		}
	}
	return last, line
}

func TestKilledHolder(t *testing.T) {
	dir := t.TempDir()
	c := startChild(t, dir, "TEST_ROLE=append")
	if last, line := c.acked(40); last < 40 {
		t.Fatalf("the child said %q", line)
	}
	s := openTest(t, dir, nil)
	if _, _, err := s.Acquire(t.Context(), "r", nil); !errors.As(err, new(*runlog.BusyError)) {
		t.Fatalf("a live holder's run: %v", err)
	}
	if err := s.RequestCancel(t.Context(), "r"); err != nil {
		t.Fatal(err)
	}
	if recs := readAll(t, s, "r"); len(recs) < 40 || len(recs)%2 != 0 {
		t.Fatalf("%d records while it is written", len(recs))
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	last, _ := c.acked(0)
	last = max(last, 40)
	_ = c.Wait()
	if got := info(t, s, "r"); got.Status != runlog.Interrupted || got.Owner != "" || !got.Cancel {
		t.Fatalf("listed %+v", got)
	}
	l, got := acquire(t, s, "r")
	if got.Head < last || got.Head > last+2 || got.Head%2 != 0 || got.Takeovers != 1 || !got.Cancel {
		t.Fatalf("%d records were acknowledged, acquired %+v", last, got)
	}
	appendTo(t, l, 1)
	entries, err := os.ReadDir(filepath.Join(dir, "owners"))
	if err != nil || len(entries) != 1 || entries[0].Name() != s.owners.Name() {
		t.Fatalf("the owners are %v, error %v", entries, err)
	}
}

func TestKilledAtFailpoints(t *testing.T) {
	for _, c := range []struct {
		die         string
		acked, head uint64
	}{
		{"file.before-write:2", 2, 2},
		{"file.mid-write:2", 2, 2},
		{"file.before-sync:2", 2, 4}, // the process dies, not the system
		{"file.after-sync:2", 2, 4},
		{"file.before-rename:3", 22, 22}, // of the store, of the run, of the second log
		{"file.after-rename:3", 22, 22},
		{"file.before-rename:4", 44, 44},
		{"file.after-rename:4", 44, 44},
		{"file.after-link:1", 22, 22},
		{"file.after-link:2", 44, 44},
		{"file.before-replace:1", 0, 0}, // beside the appends, at any record
		{"file.after-replace:1", 0, 0},
		{"file.after-replace:3", 0, 0},
	} {
		t.Run(c.die, func(t *testing.T) {
			dir := t.TempDir()
			child := startChild(t, dir, "TEST_ROLE=append", "TEST_DIE="+c.die)
			last, _ := child.acked(0)
			_ = child.Wait()
			s := openTest(t, dir, nil)
			read := uint64(len(readAll(t, s, "r")))
			l, got := acquire(t, s, "r")
			if c.head == 0 && last >= 22 && (read == last || read == last+2) {
				c.acked, c.head = last, read
			}
			if last != c.acked || got.Head != c.head || read != c.head {
				t.Errorf("%d acknowledged, %d read and %d there, want %d and %d", last, read, got.Head, c.acked, c.head)
			}
			appendTo(t, l, 2)
			if n := uint64(len(readAll(t, s, "r"))); n != c.head+2 {
				t.Errorf("it continues with %d", n)
			}
		})
	}
}

// A holder that is stopped past its lease is fenced when it goes on.
func TestStoppedHolder(t *testing.T) {
	dir := t.TempDir()
	const lease = 300 * time.Millisecond
	c := startChild(t, dir, "TEST_ROLE=append", "TEST_LEASE="+lease.String())
	if last, line := c.acked(4); last < 4 {
		t.Fatalf("the child said %q", line)
	}
	s := openTest(t, dir, &Options{Lease: lease})
	// Stopped in the middle of a write it would keep the run locked, so stop it outside one.
	lock, err := s.lockRun(t.Context(), "r")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var state syscall.WaitStatus
	if _, err := syscall.Wait4(c.Process.Pid, &state, syscall.WUNTRACED, nil); err != nil || !state.Stopped() {
		t.Fatalf("the child is not stopped but %v: %v", state, err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(lease)
	l, got := acquire(t, s, "r")
	head := got.Head
	appendTo(t, l, 1)
	if err := c.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if last, line := c.acked(0); last > head || line != "fenced true" {
		t.Fatalf("with %d records taken over the child had %d acknowledged and said %q", head, last, line)
	}
	recs := readAll(t, s, "r")
	if uint64(len(recs)) != head+1 || recs[head].Epoch != 2 {
		t.Fatalf("%d records", len(recs))
	}
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
		c := startChild(t, dir, "TEST_ROLE=work", "TEST_DIE="+die)
		timer := time.AfterFunc(after, func() { _ = c.Process.Kill() })
		defer timer.Stop()
		for c.out.Scan() {
			var id string
			var seq, epoch, head uint64
			line := c.out.Text()
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
		appendTo(t, l, 1)
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
	c := startChild(t, t.TempDir(), "TEST_ROLE=few files")
	refused := 0
	for c.out.Scan() {
		if n, _ := fmt.Sscanf(c.out.Text(), "refused %d", &refused); n != 1 {
			t.Errorf("the child said %q", c.out.Text())
		}
	}
	if err := c.Wait(); err != nil || refused < 20 {
		t.Errorf("%d refused, error %v", refused, err)
	}
	faults.Report(t, "EMFILE (nofile=64)", "file", refused, start, "each refused with a StorageError, all went through afterwards")
}
