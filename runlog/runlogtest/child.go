package runlogtest

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
	"sync/atomic"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/runlog"
)

// A Child is a process that works on a store: the test's own program, whose TestMain calls [Work].
type Child struct {
	*exec.Cmd
	Said *bufio.Scanner // its standard output

	run string
}

// StartChild starts a child. It gets where the store is, which run it writes, and what env says.
// It is dead when the test has ended.
func StartChild(t *testing.T, where, run string, env ...string) *Child {
	t.Helper()
	cmd := exec.CommandContext(context.Background(), os.Args[0])
	cmd.Env = append(os.Environ(), append(env, "TEST_STORE="+where, "TEST_RUN="+run)...)
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
	return &Child{cmd, bufio.NewScanner(out), run}
}

// Work does the work of a child, if this process is one, and exits.
func Work(do func(where string) error) {
	where := os.Getenv("TEST_STORE")
	if where == "" {
		return
	}
	if err := do(where); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Die returns the failpoint of a child. TEST_DIE names a point and which time it is reached at
// which the process kills itself.
func Die() func(name string) {
	point, nth, _ := strings.Cut(os.Getenv("TEST_DIE"), ":")
	n, _ := strconv.ParseInt(nth, 10, 64)
	var left atomic.Int64
	left.Store(n)
	return func(name string) {
		if name != point || left.Add(-1) != 0 {
			return
		}
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			_ = self.Kill()
		}
		select {}
	}
}

// AppendForever makes the run of a child and appends to it until the process is killed or that
// fails. It says which records were acknowledged, and at the end whether it was fenced.
func AppendForever(s runlog.Store) error {
	ctx, run := context.Background(), os.Getenv("TEST_RUN")
	l, _, err := s.Acquire(ctx, run, &runlog.AcquireOptions{Create: &runlog.NewRun{}})
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		if n%10 == 9 {
			if _, err := l.Renew(ctx); err != nil && !errors.Is(err, runlog.ErrFenced) { // of which Append says more
				return err
			}
		}
		b := Batch(2)
		if err := l.Append(ctx, b); err != nil {
			if errors.Is(err, runlog.ErrFenced) {
				_, renewErr := l.Renew(ctx)
				fmt.Println("fenced", errors.Is(renewErr, runlog.ErrFenced))
			}
			return err
		}
		fmt.Println("acked", run, b.Records[1].Seq)
	}
}

// Acked reads acknowledgements until there are at least n or no more, and returns the last and
// the line behind it.
func (c *Child) Acked(n uint64) (last uint64, line string) {
	for c.Said.Scan() {
		line = c.Said.Text()
		if _, err := fmt.Sscanf(line, "acked "+c.run+" %d", &last); err != nil || n > 0 && last >= n {
			break
		}
	}
	return last, line
}

// longest is how long it may take until a lease has ended, on a loaded machine.
const longest = time.Minute

// takeOver acquires the run of a child that is dead or stopped, of which the store finds out by
// itself after a while.
func (c *Child) takeOver(t *testing.T, s runlog.Store, patience time.Duration) (runlog.Log, runlog.Info) {
	t.Helper()
	f := &fixture{T: t, store: s}
	begin := time.Now()
	for got := f.info(c.run); got.Status != runlog.Interrupted || got.Owner != ""; got = f.info(c.run) {
		if time.Since(begin) > patience {
			t.Fatalf("listed %+v", got)
		}
		time.Sleep(10 * time.Millisecond)
	}
	l, info := f.acquire(c.run)
	if info.Epoch != 2 || info.Takeovers != 1 {
		t.Fatalf("taken over as %+v", info)
	}
	f.seqs(f.read(c.run, 1, 0), 1, info.Head)
	return l, info
}

// Killed checks that what a child, which does AppendForever, has acknowledged outlives it. It is
// killed some time after its first records. The store finds out at once, or as its lease ends.
// Killed returns how many records were acknowledged, and how many there are.
func (c *Child) Killed(t *testing.T, s runlog.Store, records uint64, after time.Duration, atOnce bool) (acked, head uint64) {
	t.Helper()
	f := &fixture{T: t, store: s}
	acked, line := c.Acked(records)
	if acked < records {
		t.Fatalf("the child said %q", line)
	}
	_, _, err := s.Acquire(t.Context(), c.run, nil)
	as[*runlog.BusyError](f, err)
	f.ok(s.RequestCancel(t.Context(), c.run))
	if recs := f.read(c.run, 1, 0); uint64(len(recs)) < records || len(recs)%2 != 0 {
		t.Fatalf("%d records while it is written", len(recs))
	}
	time.Sleep(after)
	f.ok(c.Process.Kill())
	more, _ := c.Acked(0)
	acked = max(acked, more)
	_ = c.Wait()
	patience := longest
	if atOnce {
		patience = 0
	}
	l, info := c.takeOver(t, s, patience)
	if info.Head < acked || info.Head > acked+2 || info.Head%2 != 0 || !info.Cancel {
		t.Fatalf("%d records were acknowledged, acquired %+v", acked, info)
	}
	Append(t, l, 1)
	return acked, info.Head
}

// A Death is that of a child, which does AppendForever, at a failpoint.
type Death struct {
	Point string // and which time it is reached, as TEST_DIE has it
	Acked uint64 // how many records were acknowledged
	Head  uint64 // how many there are; 0 if it happens beside the appends, at Acked or later
}

// Deaths checks what is there after deaths at failpoints. The function start starts a child and
// returns what opens its store once it is dead.
func Deaths(t *testing.T, start func(t *testing.T, env string) (*Child, func() runlog.Store), deaths ...Death) {
	for _, d := range deaths {
		t.Run(d.Point, func(t *testing.T) {
			c, open := start(t, "TEST_DIE="+d.Point)
			last, _ := c.Acked(0)
			_ = c.Wait()
			s := open()
			l, info := c.takeOver(t, s, longest)
			beside := d.Head == 0 && last >= d.Acked && (info.Head == last || info.Head == last+2)
			if !beside && (last != d.Acked || info.Head != d.Head) {
				t.Errorf("%d acknowledged and %d there, want %d and %d", last, info.Head, d.Acked, d.Head)
			}
			Append(t, l, 2)
			f := &fixture{T: t, store: s}
			f.seqs(f.read(c.run, 1, 0), 1, info.Head+2)
		})
	}
}
