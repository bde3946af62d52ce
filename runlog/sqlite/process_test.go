//go:build unix

package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/runlog"
	"go.uber.org/goleak"
)

// TestMain is also the main function of the processes that the tests below start:
// TEST_STORE says which store they write to.
func TestMain(m *testing.M) {
	if path := os.Getenv("TEST_STORE"); path != "" {
		if err := helper(path); err != nil {
			fmt.Fprintln(os.Stdout, "error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// helper makes run r and appends to it until it is killed or fails. It says on its
// standard output which records were acknowledged. With TEST_RUNS it takes so many runs and
// appends to all of them at once; with TEST_COUNT it ends after so many appends to the run
// TEST_RUN. TEST_DIE names a failpoint and
// which time it is reached at which the process kills itself.
func helper(path string) error {
	point, nth, _ := strings.Cut(os.Getenv("TEST_DIE"), ":")
	left, _ := strconv.Atoi(nth)
	opt := &Options{Failpoint: func(name string) {
		if name != point {
			return
		}
		if left--; left == 0 {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}}
	opt.Lease, _ = time.ParseDuration(os.Getenv("TEST_LEASE"))
	ctx := context.Background()
	s, err := Open(ctx, path, opt)
	if err != nil {
		return err
	}
	if n, _ := strconv.Atoi(os.Getenv("TEST_RUNS")); n > 0 {
		return manyAtOnce(ctx, s, n)
	}
	if n, _ := strconv.Atoi(os.Getenv("TEST_COUNT")); n > 0 {
		l, _, err := s.Acquire(ctx, os.Getenv("TEST_RUN"), &runlog.AcquireOptions{Create: &runlog.NewRun{}})
		for ; err == nil && n > 0; n-- {
			err = l.Append(ctx, newBatch(1))
		}
		return errors.Join(err, s.Close())
	}
	l, _, err := s.Acquire(ctx, "r", &runlog.AcquireOptions{Create: &runlog.NewRun{}})
	if err != nil {
		return err
	}
	for {
		b := newBatch(2)
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
		cmd.Process.Kill()
		io.Copy(io.Discard, out)
		cmd.Wait()
	})
	return &child{cmd, bufio.NewScanner(out)}
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

// takeOver acquires the dead child's run, at once, and returns its head.
func takeOver(t *testing.T, s *Store) (runlog.Log, uint64) {
	t.Helper()
	infos, err := s.Runs(t.Context(), nil)
	if err != nil || len(infos) != 1 || infos[0].Status != runlog.Interrupted || infos[0].Owner != "" {
		t.Fatalf("listed %+v, error %v", infos, err)
	}
	l, info, err := s.Acquire(t.Context(), "r", nil)
	if err != nil {
		t.Fatal(err)
	}
	recs, err := s.Read(t.Context(), "r", 1, 0)
	if err != nil || uint64(len(recs)) != info.Head {
		t.Fatalf("%d records, head %d, error %v", len(recs), info.Head, err)
	}
	return l, info.Head
}

func TestKilledHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	c := startChild(t, path)
	if last, line := c.acked(40); last < 40 {
		t.Fatalf("the child said %q", line)
	}
	s := openTest(t, path, nil)
	if _, _, err := s.Acquire(t.Context(), "r", nil); !errors.As(err, new(*runlog.BusyError)) {
		t.Fatalf("a live holder's run: %v", err)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	last, _ := c.acked(0)
	last = max(last, 40)
	c.Wait()
	l, head := takeOver(t, s)
	if head < last || head > last+2 || head%2 != 0 {
		t.Fatalf("%d records were acknowledged, there are %d", last, head)
	}
	appendTo(t, l, 1)
	entries, err := os.ReadDir(path + ".owners")
	if err != nil || len(entries) != 1 || entries[0].Name() != s.owners.Name() {
		t.Fatalf("the owners are %v, error %v", entries, err)
	}
}

func TestKilledAtFailpoints(t *testing.T) {
	for _, c := range []struct {
		die         string
		acked, head uint64
	}{
		{"sqlite.before-begin:3", 2, 2}, // the first is that of Acquire
		{"sqlite.mid-write:2", 2, 2},
		{"sqlite.before-commit:3", 2, 2},
		{"sqlite.after-commit:3", 2, 4},
	} {
		t.Run(c.die, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "runs.db")
			child := startChild(t, path, "TEST_DIE="+c.die)
			last, _ := child.acked(0)
			child.Wait()
			_, head := takeOver(t, openTest(t, path, nil))
			if last != c.acked || head != c.head {
				t.Errorf("%d acknowledged and %d there, want %d and %d", last, head, c.acked, c.head)
			}
		})
	}
}

func TestStoppedHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	const lease = 300 * time.Millisecond
	c := startChild(t, path, "TEST_LEASE="+lease.String())
	if last, line := c.acked(4); last < 4 {
		t.Fatalf("the child said %q", line)
	}
	s := openTest(t, path, &Options{Lease: lease})
	// Stopped inside a transaction it would keep the file locked, so stop it outside one.
	lock, err := openConn(path)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.close()
	if err := lock.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var state syscall.WaitStatus
	if _, err := syscall.Wait4(c.Process.Pid, &state, syscall.WUNTRACED, nil); err != nil || !state.Stopped() {
		t.Fatalf("the child is not stopped but %v: %v", state, err)
	}
	if err := lock.rollback(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(lease)
	l, head := takeOver(t, s)
	appendTo(t, l, 1)
	if err := c.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if last, line := c.acked(0); last > head || line != "fenced true" {
		t.Fatalf("with %d records taken over the child had %d acknowledged and said %q", head, last, line)
	}
	recs, err := s.Read(t.Context(), "r", 1, 0)
	if err != nil || uint64(len(recs)) != head+1 || recs[head].Epoch != 2 {
		t.Fatalf("%d records, error %v", len(recs), err)
	}
}
