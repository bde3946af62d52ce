//go:build unix

package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

// worker takes whatever run nobody holds and appends to it until it has TEST_STEPS records.
// It says which records were acknowledged, and ends when all runs are completed.
func worker(dsn string) error {
	steps, _ := strconv.ParseUint(os.Getenv("TEST_STEPS"), 10, 64)
	opt := &Options{Schema: os.Getenv("TEST_SCHEMA"), Failpoint: runlogtest.Die()}
	opt.Lease, _ = time.ParseDuration(os.Getenv("TEST_LEASE"))
	ctx := context.Background()
	s, err := Open(ctx, dsn, opt)
	if err != nil {
		return err
	}
	defer s.Close()
	for {
		infos, err := s.Runs(ctx, &runlog.Filter{Status: []runlog.Status{runlog.Running, runlog.Interrupted, runlog.Quarantined}})
		if err != nil || len(infos) == 0 {
			return err
		}
		took := false
		for i := range infos {
			l, info, err := s.Acquire(ctx, infos[i].ID, &runlog.AcquireOptions{Quarantined: true})
			if errors.As(err, new(*runlog.BusyError)) {
				continue
			}
			if err != nil {
				return err
			}
			took = true
			if err := work(s, l, &info, steps); err != nil && !errors.Is(err, runlog.ErrFenced) {
				return err
			}
		}
		if !took {
			time.Sleep(20 * time.Millisecond)
		}
	}
}

func work(s *Store, l runlog.Log, info *runlog.Info, steps uint64) error {
	ctx := context.Background()
	defer l.Release(ctx)
	for n := info.Head + 1; n <= steps; n++ {
		b := &runlog.Batch{Records: []runlog.Record{{
			Kind: runlog.KindEvent, Time: time.Unix(1e9, 0), Data: json.RawMessage(fmt.Sprintf(`{"n":%d,"pid":%d}`, n, os.Getpid())),
		}}}
		if n == steps {
			b.Status = runlog.Completed
		}
		if err := l.Append(ctx, b); err != nil {
			if errors.Is(err, runlog.ErrFenced) {
				_, again := l.Renew(ctx)
				fmt.Println("fenced", info.ID, errors.Is(again, runlog.ErrFenced))
			}
			return err
		}
		fmt.Println("acked", info.ID, b.Records[0].Seq, os.Getpid(), info.Epoch)
		time.Sleep(2 * time.Millisecond)
	}
	return nil
}

// released makes a run that is running and that nobody holds.
func released(t testing.TB, s *Store, id string) {
	t.Helper()
	if err := runlogtest.Create(t, s, id).Release(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestKilledAtFailpoints(t *testing.T) {
	server := shared.Server(t)
	for _, c := range []struct {
		die         string
		acked, head uint64
	}{
		{"postgres.before-begin:3", 2, 2},
		{"postgres.mid-write:3", 2, 2},
		{"postgres.before-commit:3", 2, 2},
		{"postgres.after-commit:3", 2, 3},
	} {
		t.Run(c.die, func(t *testing.T) {
			name := schema(t)
			s := openTest(t, server.DSN(), &Options{Schema: name})
			released(t, s, "r")
			child := runlogtest.StartChild(t, server.DSN(), "r", "TEST_SCHEMA="+name, "TEST_DIE="+c.die, "TEST_STEPS=9")
			acked := uint64(0)
			for child.Said.Scan() {
				fmt.Sscanf(child.Said.Text(), "acked r %d", &acked)
			}
			child.Wait()
			tested{s, server}.Expire(t, "r")
			_, info, err := s.Acquire(t.Context(), "r", nil)
			if err != nil || acked != c.acked || info.Head != c.head || info.Takeovers != 1 {
				t.Errorf("%d acknowledged, then %+v, error %v", acked, info, err)
			}
		})
	}
}

// Processes that share a store are killed, or stopped past their leases and continued. Others
// take their runs over; every acknowledged record is there, and none twice.
func TestWorkers(t *testing.T) {
	server := shared.Server(t)
	begin := time.Now()
	rng, _ := faults.Rand(t)
	name := schema(t)
	const lease, steps = 400 * time.Millisecond, 100
	s := openTest(t, server.DSN(), &Options{Schema: name})
	runs, hits := 50, 16
	if faults.Full() {
		runs, hits = 1000, 500
	}
	for i := range runs {
		released(t, s, fmt.Sprintf("run-%d", i))
	}
	var mu sync.Mutex
	acked := map[string]string{} // run and record to who wrote it
	fenced := 0
	var wg sync.WaitGroup
	var workers []*runlogtest.Child
	add := func() {
		c := runlogtest.StartChild(t, server.DSN(), "", "TEST_SCHEMA="+name, "TEST_LEASE="+lease.String(), fmt.Sprintf("TEST_STEPS=%d", steps))
		workers = append(workers, c)
		wg.Go(func() {
			for c.Said.Scan() {
				var id string
				var seq, pid, epoch int
				mu.Lock()
				if _, err := fmt.Sscanf(c.Said.Text(), "acked %s %d %d %d", &id, &seq, &pid, &epoch); err == nil {
					key := fmt.Sprintf("%s/%d", id, seq)
					if acked[key] != "" {
						t.Errorf("record %s was acknowledged twice", key)
					}
					acked[key] = fmt.Sprintf("%d in epoch %d", pid, epoch)
				} else if strings.HasPrefix(c.Said.Text(), "fenced ") && strings.HasSuffix(c.Said.Text(), " true") {
					fenced++
				} else {
					t.Errorf("a worker said %q", c.Said.Text())
				}
				mu.Unlock()
			}
		})
	}
	for range 8 {
		add()
	}
	left := func() int {
		infos, err := s.Runs(t.Context(), &runlog.Filter{Status: []runlog.Status{runlog.Completed}})
		if err != nil {
			t.Fatal(err)
		}
		return runs - len(infos)
	}
	kills, stops := 0, 0
	for i := 0; i < hits && left() > 0; i++ {
		time.Sleep(time.Duration(20+rng.IntN(60)) * time.Millisecond)
		n := rng.IntN(len(workers))
		c := workers[n]
		if i%2 == 0 {
			kills++
			c.Process.Kill()
			workers = slices.Delete(workers, n, n+1)
			add()
			continue
		}
		stops++
		c.Process.Signal(syscall.SIGSTOP)
		time.Sleep(lease + lease/2)
		c.Process.Signal(syscall.SIGCONT)
	}
	for left() > 0 && time.Since(begin) < 10*time.Minute {
		time.Sleep(20 * time.Millisecond)
	}
	wg.Wait()
	total := 0
	for i := range runs {
		id := fmt.Sprintf("run-%d", i)
		recs, err := s.Read(t.Context(), id, 1, 0)
		if err != nil || len(recs) != steps {
			t.Fatalf("run %s has %d records, error %v", id, len(recs), err)
		}
		for _, r := range recs {
			var data struct{ N, Pid int }
			if err := json.Unmarshal(r.Data, &data); err != nil || data.N != int(r.Seq) {
				t.Fatalf("run %s has at %d: %s", id, r.Seq, r.Data)
			}
			who, is := acked[fmt.Sprintf("%s/%d", id, r.Seq)], fmt.Sprintf("%d in epoch %d", data.Pid, r.Epoch)
			if who != "" && who != is {
				t.Errorf("run %s, record %d was acknowledged to %s and is %s", id, r.Seq, who, is)
			}
			total++
		}
	}
	if stops > 2 && fenced == 0 {
		t.Error("nobody was fenced, so nothing was tested")
	}
	faults.Report(t, "workers killed and stopped", "postgres", kills+stops, begin, "%d runs, %d kills, %d stops, %d fenced holders, %d records: 0 lost, 0 double", runs, kills, stops, fenced, total)
}

// A dead process's run can be had as soon as its lease has ended, and not before.
func TestTakeoverAfterLease(t *testing.T) {
	server := shared.Server(t)
	name := schema(t)
	s := openTest(t, server.DSN(), &Options{Schema: name})
	released(t, s, "r")
	const lease = 2 * time.Second
	c := runlogtest.StartChild(t, server.DSN(), "", "TEST_SCHEMA="+name, "TEST_LEASE="+lease.String(), "TEST_STEPS=100000")
	if !c.Said.Scan() {
		t.Fatal("the child said nothing")
	}
	c.Process.Kill()
	dead := time.Now()
	for {
		l, _, err := s.Acquire(t.Context(), "r", nil)
		if err == nil {
			runlogtest.Append(t, l, 1)
			break
		}
		if busy := (*runlog.BusyError)(nil); !errors.As(err, &busy) || time.Until(busy.Until) > lease {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if took := time.Since(dead); took < lease/2 || took > lease+faults.Bound(time.Second) {
		t.Errorf("it took %s with a lease of %s", took, lease)
	}
}
