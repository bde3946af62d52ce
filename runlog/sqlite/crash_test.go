//go:build unix

package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

// manyAtOnce takes runs, or makes them, and appends to all of them at once until the
// process is killed. It moves what they share all the time.
func manyAtOnce(ctx context.Context, s *Store, runs int) error {
	errs := make(chan error)
	for i := range runs {
		go func() {
			errs <- func() error {
				id := fmt.Sprint("run-", i)
				l, info, err := s.Acquire(ctx, id, &runlog.AcquireOptions{Quarantined: true})
				if errors.As(err, new(*runlog.NotFoundError)) {
					l, info, err = s.Acquire(ctx, id, &runlog.AcquireOptions{Create: &runlog.NewRun{}})
				}
				for next := info.Head + 1; err == nil; next += 2 {
					if err = l.Append(ctx, numbered(id, next)); err == nil {
						fmt.Println("acked", id, next+1)
					}
					if i == 0 && next%16 == 1 {
						s.gather()
					}
				}
				return err
			}()
		}()
	}
	return <-errs
}

// A process that writes many runs is killed at every point of a write, and at any moment,
// and another one continues with all of them.
func TestKilledWriters(t *testing.T) {
	const runs = 10
	rnd, _ := faults.Rand(t)
	start := time.Now()
	n := faults.N(1000)
	path := filepath.Join(t.TempDir(), "runs.db")
	points := []string{"sqlite.before-begin", "sqlite.mid-write", "sqlite.mid-gather", "sqlite.before-commit", "sqlite.after-commit"}
	acked := map[string]uint64{}
	more, total := 0, 0
	for i := range n {
		var c *runlogtest.Child
		if point := rnd.IntN(len(points) + 1); point < len(points) {
			nth := 1 + rnd.IntN(40)
			if points[point] == "sqlite.mid-gather" {
				nth = 1 + rnd.IntN(3)
			}
			c = runlogtest.StartChild(t, path, "", fmt.Sprint("TEST_RUNS=", runs), fmt.Sprintf("TEST_DIE=%s:%d", points[point], nth))
		} else {
			c = runlogtest.StartChild(t, path, "", fmt.Sprint("TEST_RUNS=", runs))
			time.AfterFunc(time.Duration(rnd.IntN(40))*time.Millisecond, func() { _ = c.Process.Kill() })
		}
		for c.Said.Scan() {
			var id string
			var seq uint64
			if _, err := fmt.Sscanf(strings.Replace(c.Said.Text(), "acked ", "", 1), "%s %d", &id, &seq); err != nil {
				t.Fatalf("kill %d: the child says %q", i, c.Said.Text())
			}
			acked[id] = seq
		}
		err := c.Wait()
		if status, ok := c.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
			t.Fatalf("kill %d: the child ended by itself: %v", i, err)
		}
		if i%10 < 9 && i < n-1 {
			continue // the next one takes over at once, from whatever there is
		}
		s, err := Open(t.Context(), path, nil)
		if err != nil {
			t.Fatal(err)
		}
		infos, err := s.Runs(t.Context(), nil)
		if err != nil || len(infos) > runs {
			t.Fatalf("kill %d: %d runs, error %v", i, len(infos), err)
		}
		heads := map[string]uint64{}
		for _, info := range infos {
			heads[info.ID] = info.Head
			if info.Status != runlog.Interrupted && info.Status != runlog.Quarantined {
				t.Errorf("kill %d: run %s is %s", i, info.ID, info.Status)
			}
		}
		total = 0
		for id, seq := range acked {
			recs, err := s.Read(t.Context(), id, 1, 0)
			if err != nil || uint64(len(recs)) < seq || heads[id] != uint64(len(recs)) {
				t.Fatalf("kill %d: run %s has %d records, listed %d, %d were acknowledged, error %v", i, id, len(recs), heads[id], seq, err)
			}
			for k := range recs {
				if want := fmt.Sprintf(`"%s %d"`, id, k+1); string(recs[k].Data) != want {
					t.Fatalf("kill %d: record %d of run %s is %s", i, k+1, id, recs[k].Data)
				}
			}
			total += len(recs)
			more += len(recs) - int(seq)
		}
		if problems := number(t, s, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"); problems != 0 {
			t.Fatalf("kill %d: the integrity check finds %d problems", i, problems)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	faults.Report(t, "kill -9", "sqlite", n, start, "%d records, 0 acknowledged lost, 0 twice, %d stored though nobody was told", total, more)
}

// Many processes write one store, which somebody else locks for a while.
func TestManyProcesses(t *testing.T) {
	const processes = 16
	start := time.Now()
	each, locked := faults.N(1000), 2*time.Second
	if faults.Full() {
		locked = 30 * time.Second
	}
	path := filepath.Join(t.TempDir(), "runs.db")
	s := openTest(t, path, nil)
	var children []*runlogtest.Child
	for i := range processes {
		children = append(children, runlogtest.StartChild(t, path, fmt.Sprint("run-", i), fmt.Sprint("TEST_COUNT=", each)))
	}
	other, err := openConn(path)
	if err != nil {
		t.Fatal(err)
	}
	var unlocked sync.WaitGroup
	unlocked.Go(func() {
		time.Sleep(50 * time.Millisecond)
		err := retryBusy(context.Background(), func() error { return other.exec("BEGIN EXCLUSIVE", nil) })
		time.Sleep(locked)
		if err := errors.Join(err, other.rollback(), other.close()); err != nil {
			t.Error(err)
		}
	})
	for i, c := range children {
		_, line := c.Acked(0)
		if err := c.Wait(); err != nil {
			t.Errorf("process %d: %v, %s", i, err, line)
		}
	}
	unlocked.Wait()
	infos, err := s.Runs(t.Context(), nil)
	if err != nil || len(infos) != processes {
		t.Fatalf("%d runs, error %v", len(infos), err)
	}
	for _, info := range infos {
		if recs, err := s.Read(t.Context(), info.ID, 1, 0); err != nil || len(recs) != each {
			t.Errorf("run %s has %d records, error %v", info.ID, len(recs), err)
		}
	}
	if n := number(t, s, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"); n != 0 {
		t.Errorf("the integrity check finds %d problems", n)
	}
	faults.Report(t, "busy", "sqlite", processes*each, start, "%d processes and a lock of %s: all %d commits there", processes, locked, processes*each)
}
