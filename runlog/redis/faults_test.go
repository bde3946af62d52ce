package redis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/redisserver"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

// A crowd writes to several runs of one store and keeps what was acknowledged.
type crowd struct {
	s    *Store
	stop chan struct{}
	wg   sync.WaitGroup

	mu    sync.Mutex
	acked map[string]uint64
	errs  []error // why writers gave up
}

const crowdSize = 4

func startCrowd(tb testing.TB, s *Store, name string) *crowd {
	tb.Helper()
	c := &crowd{s: s, stop: make(chan struct{}), acked: map[string]uint64{}}
	for i := range crowdSize {
		id := fmt.Sprintf("%s-%d", name, i)
		l := runlogtest.Create(tb, s, id)
		c.mu.Lock()
		c.acked[id] = 0
		c.mu.Unlock()
		c.wg.Go(func() { c.write(l, id) })
	}
	return c
}

func (c *crowd) write(l runlog.Log, id string) {
	for {
		select {
		case <-c.stop:
			return
		default:
		}
		b := runlogtest.Batch(2)
		err := l.Append(context.Background(), b)
		c.mu.Lock()
		if err != nil {
			c.errs = append(c.errs, err)
			c.mu.Unlock()
			return
		}
		c.acked[id] = b.Records[1].Seq
		c.mu.Unlock()
	}
}

// progress waits until more appends were acknowledged in all, or every writer gave up.
func (c *crowd) progress(tb testing.TB, more uint64) {
	tb.Helper()
	sum := func() (n uint64, all bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, seq := range c.acked {
			n += seq
		}
		return n, len(c.errs) == crowdSize
	}
	from, _ := sum()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		n, all := sum()
		if all || n >= from+more {
			return
		}
		if time.Now().After(end) {
			tb.Fatalf("nothing was acknowledged for 30 s; writers said %v", c.errs)
		}
	}
}

func (c *crowd) end() {
	close(c.stop)
	c.wg.Wait()
}

// losses counts acknowledged records that the server does not have any more. What it has
// must be whole.
func (c *crowd) losses(tb testing.TB, srv *redisserver.Server) (lost uint64) {
	tb.Helper()
	s := openTest(tb, srv.URL(), &Options{AllowVolatile: true})
	for id, want := range c.acked {
		recs, err := s.Read(tb.Context(), id, 1, 0)
		if err != nil && !errors.As(err, new(*runlog.NotFoundError)) {
			tb.Errorf("%s after the crash: %v", id, err)
		}
		if len(recs)%2 != 0 {
			tb.Errorf("%s has half a batch: %d records", id, len(recs))
		}
		lost += want - min(want, uint64(len(recs)))
	}
	return lost
}

// TestKilledServer kills the server while writers write. What it loses by that depends on how it
// keeps its data; whatever it lost, the store says, and nothing else.
func TestKilledServer(t *testing.T) {
	for _, c := range []struct {
		name string
		opt  []string
		cut  bool // cut the end of the file off, as a power cut does
		loss bool // losses are to be expected
	}{
		{"always", []string{"appendonly yes"}, false, false},
		{"everysec", []string{"appendonly yes", "appendfsync everysec"}, true, true},
		{"no", []string{"appendonly yes", "appendfsync no"}, true, true},
		{"rdb", []string{"save 1 1"}, false, true},
		{"none", nil, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			rng, _ := faults.Rand(t)
			start := time.Now()
			srv := redisserver.Start(t, c.opt...)
			if c.name == "none" {
				if _, err := Open(t.Context(), srv.URL(), nil); err == nil || !strings.Contains(err.Error(), "AllowVolatile") {
					t.Fatalf("a server that keeps nothing was opened: %v", err)
				}
			}
			n := faults.N(100)
			acked, lost, resets := uint64(0), uint64(0), 0
			var crew *crowd
			for i := range n {
				if crew == nil {
					crew = startCrowd(t, openTest(t, srv.URL(), &Options{AllowVolatile: true}), fmt.Sprintf("r-%d", i))
				}
				crew.progress(t, 10)
				time.Sleep(time.Duration(rng.Int64N(int64(20 * time.Millisecond))))
				quiet := c.name == "rdb" && rng.IntN(3) == 0
				if quiet { // nothing is written between the snapshot and the crash
					crew.end()
					raw(t, srv)("SAVE")
				}
				srv.Kill()
				if c.cut && rng.IntN(2) == 0 {
					truncate(t, srv, rng.Int64N(4096))
				}
				srv.Restart()
				if quiet {
					if l := crew.losses(t, srv); l > 0 {
						t.Fatalf("after a snapshot %d records were lost", l)
					}
					if _, err := crew.s.Runs(t.Context(), nil); err != nil {
						t.Fatalf("nothing was lost, but the store says %v", err)
					}
					crew = nil
					continue
				}
				crew.progress(t, 4*crowdSize)
				if len(crew.s.lostNow()) > 0 || i == n-1 || rng.IntN(4) == 0 {
					crew.end()
					l := crew.losses(t, srv)
					resets += crew.judge(t, l, c.loss)
					lost += l
					for _, seq := range crew.acked {
						acked += seq
					}
					crew = nil
				}
			}
			if crew != nil {
				crew.end()
			}
			if c.name == "none" && resets != n {
				t.Errorf("%d of %d restarts were noticed", resets, n)
			}
			faults.Report(t, "redis-server kill -9", "redis "+c.name, n, start, "%d records acknowledged, %d lost, %d resets reported, 0 silent", acked, lost, resets)
		})
	}
}

// lostNow is why the store was given up, if it was.
func (s *Store) lostNow() string {
	if err := s.sound(); err != nil {
		return err.Error()
	}
	return ""
}

// judge compares what was lost with what writers were told, and returns 1 for a reset.
func (c *crowd) judge(t *testing.T, lost uint64, allowed bool) int {
	t.Helper()
	if lost > 0 && !allowed {
		t.Fatalf("%d acknowledged records were lost", lost)
	}
	if lost == 0 && len(c.errs) == 0 {
		return 0
	}
	if lost == 0 && !allowed {
		t.Fatalf("nothing was lost, but writers were told %v", c.errs)
	}
	if lost > 0 && len(c.errs) != crowdSize {
		t.Fatalf("%d records were lost, and of %d writers these were told: %v", lost, crowdSize, c.errs)
	}
	for _, err := range c.errs {
		wantReset(t, err)
	}
	return 1
}

func TestFlushed(t *testing.T) {
	srv := durable(t)
	marker := filepath.Join(t.TempDir(), "state", "marker")
	for name, f := range map[string]func(*Store, runlog.Log) error{
		"append":  func(_ *Store, l runlog.Log) error { return l.Append(t.Context(), runlogtest.Batch(1)) },
		"status":  func(_ *Store, l runlog.Log) error { return l.Append(t.Context(), &runlog.Batch{Status: runlog.Paused}) },
		"renew":   func(_ *Store, l runlog.Log) error { _, err := l.Renew(t.Context()); return err },
		"release": func(_ *Store, l runlog.Log) error { return l.Release(t.Context()) },
		"runs":    func(s *Store, _ runlog.Log) error { _, err := s.Runs(t.Context(), nil); return err },
		"run":     func(s *Store, _ runlog.Log) error { _, err := s.Runs(t.Context(), &runlog.Filter{ID: "r"}); return err },
		"read":    func(s *Store, _ runlog.Log) error { _, err := s.Read(t.Context(), "r", 1, 0); return err },
		"sizes":   func(s *Store, _ runlog.Log) error { _, err := s.Sizes(t.Context(), nil); return err },
		"cancel":  func(s *Store, _ runlog.Log) error { return s.RequestCancel(t.Context(), "r") },
		"delete":  func(s *Store, _ runlog.Log) error { return s.Delete(t.Context(), "r") },
		"wait":    func(s *Store, _ runlog.Log) error { return s.Wait(t.Context(), "r", 9) },
		"acquire": func(s *Store, _ runlog.Log) error { _, _, err := s.Acquire(t.Context(), "r", nil); return err },
		"create": func(s *Store, _ runlog.Log) error {
			_, _, err := s.Acquire(t.Context(), "new", &runlog.AcquireOptions{Create: &runlog.NewRun{}})
			return err
		},
		"open": func(*Store, runlog.Log) error {
			s, err := Open(t.Context(), srv.URL(), &Options{Marker: marker})
			if err == nil {
				s.Close()
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := openTest(t, srv.URL(), &Options{Marker: marker, Accept: true})
			l := runlogtest.Create(t, s, "r")
			runlogtest.Append(t, l, 2)
			raw(t, srv)("FLUSHALL")
			err := f(s, l)
			wantReset(t, err)
			if !strings.Contains(err.Error(), marker) || !strings.Contains(err.Error(), "Accept") {
				t.Errorf("no remedy in %v", err)
			}
			again := openTest(t, srv.URL(), nil) // without a marker there is nothing to compare with
			runlogtest.Create(t, again, "other")
			wantReset(t, f(s, l)) // another store is in its place
		})
	}
	if err := os.WriteFile(marker, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), srv.URL(), &Options{Marker: marker}); err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("an empty marker: %v", err)
	}
	openTest(t, srv.URL(), &Options{Marker: marker, Accept: true})
	openTest(t, srv.URL(), &Options{Marker: marker})
}

// Another store is in the place of the former one, and has come further.
func TestReplaced(t *testing.T) {
	srv := durable(t)
	s := openTest(t, srv.URL(), nil)
	l := runlogtest.Create(t, s, "r")
	raw(t, srv)("FLUSHALL")
	other := runlogtest.Create(t, openTest(t, srv.URL(), nil), "r")
	for range 10 {
		runlogtest.Append(t, other, 1)
	}
	err := l.Append(t.Context(), runlogtest.Batch(1))
	wantReset(t, err)
	if !strings.Contains(err.Error(), "another store") {
		t.Errorf("it says %v", err)
	}
}

// The whole store went back while the server ran.
func TestStoreWentBack(t *testing.T) {
	srv := durable(t)
	s, c := openTest(t, srv.URL(), nil), raw(t, srv)
	l := runlogtest.Create(t, s, "r")
	dump := c("DUMP", s.keys.store)
	runlogtest.Append(t, l, 1)
	c("RESTORE", s.keys.store, 0, dump, "REPLACE")
	_, _, err := s.Acquire(t.Context(), "new", &runlog.AcquireOptions{Create: &runlog.NewRun{}})
	wantReset(t, err)
	if n := c("EXISTS", s.keys.run("new")); n != int64(0) {
		t.Errorf("the run was made all the same: %v", n)
	}
}

// A waiter and a poller of another process notice it as well.
func TestFlushedWhileWaiting(t *testing.T) {
	srv := durable(t)
	s := openTest(t, srv.URL(), nil)
	runlogtest.Create(t, s, "r")
	done, polled, poll := make(chan error, 1), make(chan struct{}, 1), s.watch.Poll
	s.watch.Poll = func(ctx context.Context, runs map[string]uint64, wake func(string)) error {
		select {
		case polled <- struct{}{}:
		default:
		}
		return poll(ctx, runs, wake)
	}
	go func() { done <- s.Wait(t.Context(), "r", 1) }()
	<-polled
	raw(t, srv)("FLUSHALL")
	if err := <-done; err != nil {
		wantReset(t, err)
	}
	_, err := s.Read(t.Context(), "r", 1, 1)
	wantReset(t, err)
}

// Between two processes the server went back to an earlier moment.
func TestMarkerNoticesLoss(t *testing.T) {
	srv := redisserver.Start(t, "save 3600 1")
	marker := filepath.Join(t.TempDir(), "marker")
	open := func(accept bool) (*Store, error) {
		return Open(t.Context(), srv.URL(), &Options{Marker: marker, Accept: accept})
	}
	s, err := open(false)
	if err != nil {
		t.Fatal(err)
	}
	l := runlogtest.Create(t, s, "r")
	runlogtest.Append(t, l, 1)
	raw(t, srv)("SAVE")
	runlogtest.Append(t, l, 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	srv.Restart()
	if _, err := open(false); !errors.Is(err, runlog.ErrStoreReset) || !strings.Contains(err.Error(), marker) {
		t.Fatalf("opened after a loss: %v", err)
	}
	for _, accept := range []bool{true, false} {
		s, err := open(accept)
		if err != nil {
			t.Fatalf("accept %v: %v", accept, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A single run went back, which the count of writes does not show.
func TestRunWentBack(t *testing.T) {
	srv := durable(t)
	s, c := openTest(t, srv.URL(), nil), raw(t, srv)
	save := func(id string) (restore func()) {
		dumps := map[string]any{}
		for _, key := range []string{s.keys.run(id), s.keys.log(id)} {
			dumps[key] = c("DUMP", key)
		}
		return func() {
			for key, dump := range dumps {
				c("RESTORE", key, 0, dump, "REPLACE")
			}
		}
	}
	t.Run("head", func(t *testing.T) {
		l := runlogtest.Create(t, s, "head")
		runlogtest.Append(t, l, 1)
		restore := save("head")
		runlogtest.Append(t, l, 1)
		restore()
		wantReset(t, l.Append(t.Context(), runlogtest.Batch(1)))
		wantReset(t, l.Append(t.Context(), runlogtest.Batch(1)))
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		l, info, err := s.Acquire(t.Context(), "head", nil)
		if err != nil || info.Head != 1 {
			t.Fatalf("acquired anew: %+v, %v", info, err)
		}
		runlogtest.Append(t, l, 1)
	})
	t.Run("hold", func(t *testing.T) {
		l := runlogtest.Create(t, s, "hold")
		runlogtest.Append(t, l, 1)
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		restore := save("hold")
		first, _, err := s.Acquire(t.Context(), "hold", nil)
		if err != nil {
			t.Fatal(err)
		}
		restore()
		second, info, err := s.Acquire(t.Context(), "hold", nil)
		if err != nil || info.Epoch != 2 {
			t.Fatalf("%+v, %v", info, err)
		}
		wantReset(t, first.Append(t.Context(), runlogtest.Batch(1))) // though epoch and head are the same
		_, err = first.Renew(t.Context())
		wantReset(t, err)
		runlogtest.Append(t, second, 1)
	})
	t.Run("gone", func(t *testing.T) {
		l := runlogtest.Create(t, s, "gone")
		runlogtest.Append(t, l, 1)
		c("DEL", s.keys.run("gone"), s.keys.log("gone"))
		wantReset(t, l.Append(t.Context(), runlogtest.Batch(1)))
		_, err := s.Read(t.Context(), "gone", 1, 0)
		wantReset(t, err)
		_, err = s.Runs(t.Context(), nil)
		wantReset(t, err)
		if !strings.Contains(err.Error(), "gone") || !strings.Contains(err.Error(), "delete the run") {
			t.Errorf("no remedy in %v", err)
		}
		_, _, err = s.Acquire(t.Context(), "gone", &runlog.AcquireOptions{Create: &runlog.NewRun{}})
		wantReset(t, err)
		if err := s.Delete(t.Context(), "gone"); err != nil {
			t.Fatal(err)
		}
		if infos, err := s.Runs(t.Context(), nil); err != nil || len(infos) != 2 {
			t.Fatalf("%d runs, %v", len(infos), err)
		}
	})
}

// What one process lost is found even if another one has written more since than was lost.
func TestLossWrittenOver(t *testing.T) {
	srv := redisserver.Start(t, "save 3600 1")
	markers := t.TempDir()
	a := openTest(t, srv.URL(), &Options{Marker: filepath.Join(markers, "a")})
	b := openTest(t, srv.URL(), &Options{Marker: filepath.Join(markers, "b")})
	other := runlogtest.Create(t, b, "other")
	raw(t, srv)("SAVE")
	l := runlogtest.Create(t, a, "r") // and forgotten
	runlogtest.Append(t, l, 1)
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.marker.write(a.remember(), false); err != nil {
		t.Fatal(err)
	}
	srv.Restart()
	for range 20 {
		runlogtest.Append(t, other, 1) // b has lost nothing
	}
	_, err := a.Runs(t.Context(), nil)
	wantReset(t, err)
	_, err = Open(t.Context(), srv.URL(), &Options{Marker: filepath.Join(markers, "a")})
	wantReset(t, err)
	if !strings.Contains(err.Error(), "Accept") {
		t.Errorf("no remedy in %v", err)
	}
	again := openTest(t, srv.URL(), &Options{Marker: filepath.Join(markers, "b")})
	if infos, err := again.Runs(t.Context(), nil); err != nil || len(infos) != 1 {
		t.Fatalf("listed %+v, error %v", infos, err)
	}
}

// A power cut tears the end off the server's file, in the middle of a transaction. What the server
// makes of it later must not touch what was acknowledged since. The processes died too, so
// that others write what comes next.
func TestTornTransaction(t *testing.T) {
	start := time.Now()
	n := 0
	for _, mine := range []bool{false, true} { // whether the process that wrote goes on
		srv := durable(t)
		for cut := int64(1); cut < 560; cut += int64(max(560/faults.N(200), 1)) {
			id := fmt.Sprintf("r-%d", cut)
			s := openTest(t, srv.URL(), nil)
			l := runlogtest.Create(t, s, id)
			runlogtest.Append(t, l, 1)
			whole := appendedBytes(t, srv)
			if err := l.Append(t.Context(), &runlog.Batch{Records: runlogtest.Batch(2).Records, Status: runlog.Paused}); err != nil {
				t.Fatal(err)
			}
			if cut > appendedBytes(t, srv)-whole {
				break
			}
			srv.Kill()
			truncate(t, srv, cut)
			srv.Restart()
			if mine {
				wantReset(t, l.Append(t.Context(), runlogtest.Batch(1)))
			}
			s = openTest(t, srv.URL(), nil)
			(tested{s, ""}).Expire(t, id)
			l, info, err := s.Acquire(t.Context(), id, nil)
			if err != nil || info.Head != 1 || info.Status != runlog.Running {
				t.Fatalf("cut %d: %+v, error %v", cut, info, err)
			}
			other := runlogtest.Batch(3)
			other.Records[0].Path = "other"
			if err := l.Append(t.Context(), other); err != nil {
				t.Fatal(err)
			}
			known := s.known.Load()
			srv.Restart()
			recs, err := s.Read(t.Context(), id, 1, 0)
			if err != nil || len(recs) != 4 || recs[1].Path != "other" {
				t.Fatalf("cut %d: %d records, error %v", cut, len(recs), err)
			}
			if got := s.known.Load(); got != known {
				t.Fatalf("cut %d: the count of writes went from %d to %d", cut, known, got)
			}
			runlogtest.Append(t, l, 1)
			n++
		}
	}
	faults.Report(t, "append torn in the server's file", "redis always", n, start, "0 acknowledged later lost")
}

// truncate takes bytes off the newest append-only file.
func truncate(tb testing.TB, srv *redisserver.Server, n int64) {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(srv.Dir(), "appendonlydir", "*.incr.aof"))
	if err != nil || len(files) != 1 {
		tb.Fatalf("append-only files %v, error %v", files, err)
	}
	info, err := os.Stat(files[0])
	if err == nil {
		err = os.Truncate(files[0], max(0, info.Size()-n))
	}
	if err != nil {
		tb.Fatal(err)
	}
}
