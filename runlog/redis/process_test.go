//go:build unix

package redis

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"go.uber.org/goleak"
)

// TestMain is also the main function of the processes that the tests below start.
func TestMain(m *testing.M) {
	runlogtest.Work(helper)
	goleak.VerifyTestMain(m)
}

const childLease = 300 * time.Millisecond

// helper appends to its run until it is killed or fails.
func helper(url string) error {
	s, err := Open(context.Background(), url, &Options{Lease: childLease, Failpoint: runlogtest.Die()})
	if err != nil {
		return err
	}
	return runlogtest.AppendForever(s)
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
				last, head := runlogtest.StartChild(t, srv.URL(), fmt.Sprintf("k-%d", i)).Killed(t, s, 2, wait, false)
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
	s, n := openTest(t, srv.URL(), nil), 0
	runlogtest.Deaths(t, func(t *testing.T, env string) (*runlogtest.Child, func() runlog.Store) {
		n++
		return runlogtest.StartChild(t, srv.URL(), fmt.Sprintf("f-%d", n), env), func() runlog.Store { return s }
	}, []runlogtest.Death{
		{Point: "redis.before-send:3", Acked: 2, Head: 2}, // the first is that of Acquire
		{Point: "redis.after-send:2", Acked: 0, Head: 2},
		{Point: "redis.after-send:3", Acked: 2, Head: 4},
	}...)
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
				runlogtest.StartChild(t, srv.URL(), fmt.Sprintf("s-%d", i)).Stopped(t, s, nil)
			})
		}
	})
	faults.Report(t, "client stopped past its lease", "redis", n, start, "all fenced, 0 double commits")
}
