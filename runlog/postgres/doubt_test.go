package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

// numbered is a batch of one record that says which one it is. The proxy knows it by the mark.
func numbered(n int) *runlog.Batch {
	return &runlog.Batch{Records: []runlog.Record{{
		Kind: runlog.KindEvent, Time: time.Unix(1e9, 0), Data: json.RawMessage(fmt.Sprintf(`{"n":%d,"%s":0}`, n, mark)),
	}}}
}

// wantNumbered checks that a run has the records 1 to n, each once, and what Append said of
// the last one.
func wantNumbered(t testing.TB, s *Store, id string, n int) {
	t.Helper()
	recs, err := s.Read(t.Context(), id, 1, 0)
	if err != nil {
		t.Fatalf("run %s: %v", id, err)
	}
	if len(recs) != n {
		t.Fatalf("run %s has %d records, %d were acknowledged", id, len(recs), n)
	}
	for i, r := range recs {
		var data struct{ N int }
		if err := json.Unmarshal(r.Data, &data); err != nil || data.N != i+1 || r.Seq != uint64(i+1) {
			t.Fatalf("run %s has at %d: %s", id, i+1, r.Data)
		}
	}
}

// A connection that is cut during a commit is only a delay, whether the commit landed, did
// not, or lands later.
func TestCutDuringCommit(t *testing.T) {
	server := shared.Server(t)
	begin := time.Now()
	p := startProxy(t, server.Addr())
	s := openTest(t, p.dsn(server.DSN()), &Options{Schema: schema(t)})
	l := runlogtest.Create(t, s, "r")
	n := 0
	for _, c := range []struct {
		name string
		cut  cutting
	}{{"not landed", drop}, {"landed", deliver}, {"half sent", half}, {"lands late", late}} {
		t.Run(c.name, func(t *testing.T) {
			for range faults.N(100) {
				hit := p.arm(c.cut)
				n++
				b := numbered(n)
				if err := l.Append(t.Context(), b); err != nil {
					t.Fatal(err)
				}
				select {
				case <-hit:
				default:
					t.Fatal("it was not cut off")
				}
				if b.Records[0].Seq != uint64(n) {
					t.Fatalf("record %d was numbered %d", n, b.Records[0].Seq)
				}
			}
			wantNumbered(t, s, "r", n)
		})
	}
	faults.Report(t, "connection cut during COMMIT", "postgres", n, begin, "0 lost, 0 duplicated")
}

// What is not an append is done once, too, when its answer is lost.
func TestCutElsewhere(t *testing.T) {
	server := shared.Server(t)
	p := startProxy(t, server.Addr())
	s := openTest(t, p.dsn(server.DSN()), &Options{Schema: schema(t), Owner: mark})
	for _, cut := range []cutting{drop, deliver, half, late} {
		id := fmt.Sprintf("run-%d", cut)
		hit := p.arm(cut)
		l, info, err := s.Acquire(t.Context(), id, &runlog.AcquireOptions{Create: &runlog.NewRun{}})
		if err != nil || info.Epoch != 1 {
			t.Fatalf("%+v, error %v", info, err)
		}
		<-hit
		runlogtest.Append(t, l, 1)
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		hit = p.arm(cut)
		l, info, err = s.Acquire(t.Context(), id, nil)
		if err != nil || info.Epoch != 2 || info.Takeovers != 0 {
			t.Fatalf("%+v, error %v", info, err)
		}
		<-hit
		runlogtest.Append(t, l, 1)
	}
}

// An operation ends within the patience, however silent the network is, and says what
// became of it. When the network is back, so is the store.
func TestBlackhole(t *testing.T) {
	server := shared.Server(t)
	begin := time.Now()
	p := startProxy(t, server.Addr())
	const patience = 900 * time.Millisecond
	s := openTest(t, p.dsn(server.DSN()), &Options{Schema: schema(t), Patience: patience})
	l, other := runlogtest.Create(t, s, "r"), runlogtest.Create(t, s, "other")
	if err := l.Append(t.Context(), numbered(1)); err != nil {
		t.Fatal(err)
	}
	runlogtest.Append(t, other, 1)
	longest := time.Duration(0)
	for name, f := range map[string]func() error{
		"Append": func() error { return l.Append(t.Context(), numbered(2)) },
		"Read":   func() error { _, err := s.Read(t.Context(), "r", 1, 0); return err },
		"Runs":   func() error { _, err := s.Runs(t.Context(), nil); return err },
		"Renew":  func() error { _, err := other.Renew(t.Context()); return err },
		"Acquire": func() error {
			_, _, err := s.Acquire(t.Context(), "new", &runlog.AcquireOptions{Create: &runlog.NewRun{}})
			return err
		},
	} {
		p.blackhole()
		t0 := time.Now()
		err := f()
		took := time.Since(t0)
		p.heal()
		longest = max(longest, took)
		if err == nil || took > patience+faults.Bound(500*time.Millisecond) || took < patience/2 {
			t.Errorf("%s ended after %s with error %v", name, took, err)
		}
		if name == "Append" && !errors.Is(err, runlog.ErrUnknown) {
			t.Errorf("Append: %v", err)
		}
		if strings.Contains(fmt.Sprint(err), "make room") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := l.Append(t.Context(), numbered(3)); !errors.Is(err, runlog.ErrUnknown) {
		t.Errorf("a log of which nobody knows what it holds took more: %v", err)
	}
	runlogtest.Append(t, other, 1)
	faults.Report(t, "half-open connection", "postgres", 5, begin, "each operation ended within its patience of %s, the slowest after %s", patience, longest.Round(time.Millisecond))
}

// A caller who gives up waits no longer, and others go on.
func TestContextDuringBlackhole(t *testing.T) {
	server := shared.Server(t)
	p := startProxy(t, server.Addr())
	s := openTest(t, p.dsn(server.DSN()), &Options{Schema: schema(t), Patience: 20 * time.Second})
	l, other := runlogtest.Create(t, s, "r"), runlogtest.Create(t, s, "other")
	runlogtest.Append(t, l, 1)
	p.blackhole()
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := other.Append(context.Background(), runlogtest.Batch(1)); err != nil {
			t.Errorf("an append in company: %v", err)
		}
	})
	for range 2 {
		ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
		t0 := time.Now()
		err := l.Append(ctx, runlogtest.Batch(1))
		stop()
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, runlog.ErrUnknown) || time.Since(t0) > faults.Bound(3*time.Second) {
			t.Errorf("after %s: %v", time.Since(t0), err)
		}
	}
	p.heal()
	wg.Wait()
	if infos, err := s.Runs(t.Context(), &runlog.Filter{ID: "other"}); err != nil || infos[0].Head != 1 {
		t.Errorf("%+v, error %v", infos, err)
	}
}

// A slow network changes nothing but the time.
func TestLatency(t *testing.T) {
	server := shared.Server(t)
	p := startProxy(t, server.Addr())
	s := openTest(t, p.dsn(server.DSN()), &Options{Schema: schema(t)})
	logs := make([]runlog.Log, 20)
	for i := range logs {
		logs[i] = runlogtest.Create(t, s, fmt.Sprintf("run-%d", i))
	}
	runlogtest.Append(t, logs[0], 0)
	p.slow(20 * time.Millisecond)
	t0 := time.Now()
	var wg sync.WaitGroup
	for i, l := range logs {
		wg.Go(func() {
			for n := range 5 {
				if err := l.Append(context.Background(), numbered(n+1)); err != nil {
					t.Errorf("run %d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
	// Two trips through the proxy each time, for all runs together. One at a time it would be 4 s.
	if took := time.Since(t0); took > faults.Bound(2*time.Second) {
		t.Errorf("5 appends each of %d runs took %s", len(logs), took)
	}
	for i := range logs {
		wantNumbered(t, s, fmt.Sprintf("run-%d", i), 5)
	}
}

// Connections are cut anywhere, again and again, while many runs are written.
func TestTerminatedBackends(t *testing.T) {
	server := shared.Server(t)
	begin := time.Now()
	rng, _ := faults.Rand(t)
	name := fmt.Sprintf("superstep-%x", begin.UnixNano())
	s := openTest(t, server.DSN()+"&application_name="+name, &Options{Schema: schema(t)})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	const runs = 16
	acked := make([]int, runs)
	var wg sync.WaitGroup
	for i := range acked {
		l := runlogtest.Create(t, s, fmt.Sprintf("run-%d", i))
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := l.Append(context.Background(), numbered(acked[i]+1)); err != nil {
					t.Errorf("run %d: %v", i, err)
					return
				}
				acked[i]++
				if acked[i]%20 == 0 {
					if _, err := l.Renew(context.Background()); err != nil {
						t.Errorf("run %d: %v", i, err)
						return
					}
				}
			}
		})
	}
	killer := openTest(t, server.DSN(), &Options{Schema: schema(t)})
	want := faults.N(1000)
	cuts := 0
	for cuts < want && !t.Failed() {
		time.Sleep(time.Duration(rng.IntN(4000)) * time.Microsecond)
		cuts += terminate(t, killer, name, rng)
	}
	stop()
	wg.Wait()
	total := 0
	for i, n := range acked {
		wantNumbered(t, s, fmt.Sprintf("run-%d", i), n)
		total += n
	}
	faults.Report(t, "pg_terminate_backend during COMMIT", "postgres", cuts, begin, "%d appends of %d runs: 0 lost, 0 duplicated", total, runs)
}

// terminate cuts one active connection of a name.
func terminate(t *testing.T, s *Store, name string, rng *rand.Rand) (n int) {
	t.Helper()
	err := s.with(t.Context(), reading, func(ctx context.Context, c *conn) error {
		var pids []int64
		err := c.query(ctx, "SELECT pid FROM pg_stat_activity WHERE application_name = $1 AND state = 'active'", func(v [][]byte) error {
			pids = append(pids, toInt(v[0]))
			return nil
		}, []byte(name))
		if err != nil || len(pids) == 0 {
			return err
		}
		return c.query(ctx, "SELECT pg_terminate_backend($1)", func(v [][]byte) error {
			if toBool(v[0]) {
				n++
			}
			return nil
		}, bigint(pids[rng.IntN(len(pids))])[4:])
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
