//go:build unix

package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"go.uber.org/goleak"
)

// TestMain is also the main function of the processes that the tests below start.
func TestMain(m *testing.M) {
	runlogtest.Work(helper)
	goleak.VerifyTestMain(m)
}

// helper appends to its run until it is killed or fails. With TEST_RUNS it takes so many runs
// and appends to all of them at once; with TEST_COUNT it ends after so many appends.
func helper(path string) error {
	opt := &Options{Failpoint: runlogtest.Die()}
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
			err = l.Append(ctx, runlogtest.Batch(1))
		}
		return errors.Join(err, s.Close())
	}
	return runlogtest.AppendForever(s)
}

func TestKilledHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	c, s := runlogtest.StartChild(t, path, "r"), openTest(t, path, nil)
	c.Killed(t, s, 40, 0, true)
	entries, err := os.ReadDir(path + ".owners")
	if err != nil || len(entries) != 1 || entries[0].Name() != s.owners.Name() {
		t.Fatalf("the owners are %v, error %v", entries, err)
	}
}

func TestKilledAtFailpoints(t *testing.T) {
	runlogtest.Deaths(t, func(t *testing.T, env string) (*runlogtest.Child, func() runlog.Store) {
		path := filepath.Join(t.TempDir(), "runs.db")
		return runlogtest.StartChild(t, path, "r", env), func() runlog.Store { return openTest(t, path, nil) }
	}, []runlogtest.Death{
		{Point: "sqlite.before-begin:3", Acked: 2, Head: 2}, // the first is that of Acquire
		{Point: "sqlite.mid-write:2", Acked: 2, Head: 2},
		{Point: "sqlite.before-commit:3", Acked: 2, Head: 2},
		{Point: "sqlite.after-commit:3", Acked: 2, Head: 4},
	}...)
}

func TestStoppedHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	const lease = 300 * time.Millisecond
	c := runlogtest.StartChild(t, path, "r", "TEST_LEASE="+lease.String())
	s := openTest(t, path, &Options{Lease: lease})
	c.Stopped(t, s, func() func() error { // stopped inside a transaction it would keep the file locked
		lock, err := openConn(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := lock.begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		return func() error { return errors.Join(lock.rollback(), lock.close()) }
	})
}
