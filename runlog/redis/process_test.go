//go:build unix

package redis

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
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
// TEST_STORE says which store they write to.
func TestMain(m *testing.M) {
	if url := os.Getenv("TEST_STORE"); url != "" {
		if err := helper(url); err != nil {
			fmt.Fprintln(os.Stdout, "error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

const childLease = 300 * time.Millisecond

// helper makes the run that TEST_RUN names and appends to it until it is killed or fails. It says
// on its standard output which records were acknowledged. TEST_DIE names a failpoint and
// which time it is reached at which the process kills itself.
func helper(url string) error {
	point, nth, _ := strings.Cut(os.Getenv("TEST_DIE"), ":")
	left, _ := strconv.Atoi(nth)
	ctx := context.Background()
	s, err := Open(ctx, url, &Options{Lease: childLease, Failpoint: func(name string) {
		if name != point {
			return
		}
		if left--; left == 0 {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}})
	if err != nil {
		return err
	}
	l, _, err := s.Acquire(ctx, os.Getenv("TEST_RUN"), &runlog.AcquireOptions{Create: &runlog.NewRun{}})
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		if n%10 == 9 {
			if _, err := l.Renew(ctx); err != nil && !errors.Is(err, runlog.ErrFenced) { // of which Append says more
				return err
			}
		}
		b := batch(2)
		if err := l.Append(ctx, b); err != nil {
			if errors.Is(err, runlog.ErrFenced) {
				_, renewErr := l.Renew(ctx)
				fmt.Println("fenced", errors.Is(renewErr, runlog.ErrFenced))
			}
			return err
		}
		fmt.Println("acked", b.Records[1].Seq)
	}
}

// A child is a helper process.
type child struct {
	*exec.Cmd
	run string
	out *bufio.Scanner
}

func startChild(t *testing.T, url, run string, env ...string) *child {
	t.Helper()
	cmd := exec.CommandContext(context.Background(), os.Args[0])
	cmd.Env = append(os.Environ(), append(env, "TEST_STORE="+url, "TEST_RUN="+run)...)
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
	return &child{cmd, run, bufio.NewScanner(out)}
}

// acked reads acknowledgements until there are at least n or no more, and returns
// the last and the line behind it.
func (c *child) acked(n uint64) (last uint64, line string) {
	for c.out.Scan() {
		line = c.out.Text()
		if _, err := fmt.Sscanf(line, "acked %d", &last); err != nil || n > 0 && last >= n {
			break
		}
	}
	return last, line
}

// takeOver acquires the run once the lease of its holder has ended, and returns its head.
func takeOver(t *testing.T, s *Store, run string) (l runlog.Log, head uint64) {
	t.Helper()
	start := time.Now()
	for {
		var info runlog.Info
		var err error
		l, info, err = s.Acquire(t.Context(), run, nil)
		if errors.As(err, new(*runlog.BusyError)) && time.Since(start) < time.Minute {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if info.Epoch != 2 || info.Takeovers != 1 {
			t.Fatalf("taken over as %+v", info)
		}
		recs, err := s.Read(t.Context(), run, 1, 0)
		if err != nil || uint64(len(recs)) != info.Head {
			t.Fatalf("%d records, head %d, error %v", len(recs), info.Head, err)
		}
		return l, info.Head
	}
}

func TestKilledHolders(t *testing.T) {
	srv := durable(t)
	s := openTest(t, srv.URL(), nil)
	rng, _ := faults.Rand(t)
	start := time.Now()
	n := faults.N(200)
	waits := make([]time.Duration, n)
	for i := range waits {
		waits[i] = time.Duration(rng.Int64N(int64(40 * time.Millisecond)))
	}
	var mu sync.Mutex
	total, unacked := uint64(0), uint64(0)
	t.Run("kills", func(t *testing.T) {
		for i, wait := range waits {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				c := startChild(t, srv.URL(), fmt.Sprintf("k-%d", i))
				if last, line := c.acked(2); last < 2 {
					t.Fatalf("the child said %q", line)
				}
				time.Sleep(wait)
				if err := c.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				last, _ := c.acked(0)
				last = max(last, 2)
				_ = c.Wait()
				l, head := takeOver(t, s, c.run)
				if head < last || head > last+2 || head%2 != 0 {
					t.Fatalf("%d records were acknowledged, there are %d", last, head)
				}
				appendTo(t, l, 1)
				mu.Lock()
				total, unacked = total+last, unacked+head-last
				mu.Unlock()
			})
		}
	})
	faults.Report(t, "client kill -9", "redis", n, start, "%d records acknowledged, 0 lost, %d stored without an answer", total, unacked)
}

func TestKilledAtFailpoints(t *testing.T) {
	srv := durable(t)
	s := openTest(t, srv.URL(), nil)
	for i, c := range []struct {
		die         string
		acked, head uint64
	}{
		{"redis.before-send:3", 2, 2}, // the first is that of Acquire
		{"redis.after-send:2", 0, 2},
		{"redis.after-send:3", 2, 4},
	} {
		t.Run(c.die, func(t *testing.T) {
			child := startChild(t, srv.URL(), fmt.Sprintf("f-%d", i), "TEST_DIE="+c.die)
			last, _ := child.acked(0)
			_ = child.Wait()
			if _, head := takeOver(t, s, child.run); last != c.acked || head != c.head {
				t.Errorf("%d acknowledged and %d there, want %d and %d", last, head, c.acked, c.head)
			}
		})
	}
}

// A process that was stopped for longer than its lease writes nothing when it goes on.
func TestStoppedHolders(t *testing.T) {
	srv := durable(t)
	s := openTest(t, srv.URL(), nil)
	start := time.Now()
	n := faults.N(50)
	t.Run("stops", func(t *testing.T) {
		for i := range n {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				c := startChild(t, srv.URL(), fmt.Sprintf("s-%d", i))
				if last, line := c.acked(4); last < 4 {
					t.Fatalf("the child said %q", line)
				}
				if err := c.Process.Signal(syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
				l, head := takeOver(t, s, c.run)
				appendTo(t, l, 1)
				if err := c.Process.Signal(syscall.SIGCONT); err != nil {
					t.Fatal(err)
				}
				if last, line := c.acked(0); last > head || line != "fenced true" {
					t.Fatalf("with %d records taken over the child had %d acknowledged and said %q", head, last, line)
				}
				recs, err := s.Read(t.Context(), c.run, 1, 0)
				if err != nil || uint64(len(recs)) != head+1 || recs[head].Epoch != 2 {
					t.Fatalf("%d records, error %v", len(recs), err)
				}
			})
		}
	})
	faults.Report(t, "client stopped past its lease", "redis", n, start, "all fenced, 0 double commits")
}
