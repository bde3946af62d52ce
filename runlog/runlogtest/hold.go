package runlogtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/storekit"
)

var holdCases = []testCase{
	{"closed", "a store that is closed says so whatever it is asked, and ends who waits; what it stored is there for others", testClosed},
	{"create", "a new run is running, in epoch 1, held, and without records", func(f *fixture) {
		_, info, err := f.store.Acquire(f.Context(), "r", &runlog.AcquireOptions{Create: &runlog.NewRun{Workflow: "brief", Title: "a 'title'"}})
		f.ok(err)
		for _, got := range []runlog.Info{info, f.info("r")} {
			if got.ID != "r" || got.Workflow != "brief" || got.Title != "a 'title'" || got.Status != runlog.Running ||
				got.Epoch != 1 || got.Head != 0 || got.Snapshot != 0 || got.Cancel || got.Owner == "" ||
				got.Created.IsZero() || got.Updated.IsZero() {
				f.Fatalf("a new run is %+v", got)
			}
		}
	}},
	{"exists", "making a run whose ID is taken gives ErrExists and changes nothing", func(f *fixture) {
		f.released("r", 3)
		_, _, err := f.store.Acquire(f.Context(), "r", &runlog.AcquireOptions{Create: &runlog.NewRun{Workflow: "other"}})
		f.is(err, runlog.ErrExists)
		if got := f.info("r"); got.Workflow != "w" || got.Head != 3 || got.Epoch != 1 {
			f.Fatalf("the run became %+v", got)
		}
	}},
	{"one of many creates", "of many who make the same run at once, one does", func(f *fixture) {
		var made atomic.Int32
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				_, _, err := f.store.Acquire(context.Background(), "r", &runlog.AcquireOptions{Create: &runlog.NewRun{}})
				if err == nil {
					made.Add(1)
				}
			})
		}
		wg.Wait()
		if made.Load() != 1 {
			f.Fatalf("%d made it", made.Load())
		}
	}},
	{"not found", "a run that is not there gives *NotFoundError everywhere", func(f *fixture) {
		f.create("there")
		_, _, err := f.store.Acquire(f.Context(), "gone", nil)
		if e := as[*runlog.NotFoundError](f, err); e.ID != "gone" || e.Store == "" {
			f.Fatalf("%+v", e)
		}
		_, err = f.store.Read(f.Context(), "gone", 1, 1)
		as[*runlog.NotFoundError](f, err)
		as[*runlog.NotFoundError](f, f.store.RequestCancel(f.Context(), "gone"))
		as[*runlog.NotFoundError](f, f.store.Delete(f.Context(), "gone"))
		f.wantIDs(&runlog.Filter{ID: "gone"})
	}},
	{"busy", "a run that is held cannot be acquired or deleted, and its holder is not disturbed", func(f *fixture) {
		l := f.create("r")
		_, _, err := f.store.Acquire(f.Context(), "r", nil)
		if e := as[*runlog.BusyError](f, err); e.ID != "r" || e.Owner == "" || e.Until.IsZero() {
			f.Fatalf("%+v", e)
		}
		as[*runlog.BusyError](f, f.store.Delete(f.Context(), "r"))
		f.append(l, &runlog.Batch{Records: records(1)})
		if _, err := l.Renew(f.Context()); err != nil {
			f.Fatal(err)
		}
	}},
	{"busy for another store", "another store over the same data cannot take a held run either, and sees its state", func(f *fixture) {
		re, ok := f.store.(reopener)
		if !ok {
			f.Skipf("%T keeps nothing", f.store)
		}
		l := f.create("r")
		other := &fixture{T: f.T, store: re.Reopen(f.T)}
		_, _, err := other.store.Acquire(f.Context(), "r", nil)
		as[*runlog.BusyError](f, err)
		if got := other.info("r"); got.Status != runlog.Running || got.Owner == "" {
			f.Fatalf("it sees %+v", got)
		}
		f.ok(l.Release(f.Context()))
		other.acquire("r")
		f.is(l.Append(f.Context(), &runlog.Batch{Records: records(1)}), runlog.ErrFenced)
	}},
	{"release", "after Release the run can be acquired in the next epoch, goes on where it was, and the old log is fenced", func(f *fixture) {
		l := f.create("r")
		f.append(l, &runlog.Batch{Records: records(2)})
		f.ok(l.Release(f.Context()))
		f.ok(l.Release(f.Context()))
		f.is(l.Append(f.Context(), &runlog.Batch{Records: records(1)}), runlog.ErrFenced)
		second, info := f.acquire("r")
		if info.Epoch != 2 || info.Head != 2 || info.Status != runlog.Running || info.Owner == "" {
			f.Fatalf("the second holder got %+v", info)
		}
		f.ok(l.Release(f.Context())) // of the first, which must not disturb the second
		f.append(second, &runlog.Batch{Records: records(1)})
		recs := f.read("r", 1, 9)
		f.seqs(recs, 1, 3)
		if recs[1].Epoch != 1 || recs[2].Epoch != 2 {
			f.Fatalf("epochs %d, %d", recs[1].Epoch, recs[2].Epoch)
		}
	}},
	{"fenced", "once a run was taken over, its former holder writes nothing: not a record, not a status, not a lease", func(f *fixture) {
		ex := f.expirer()
		first := f.create("r")
		f.append(first, &runlog.Batch{Records: records(2)})
		ex.Expire(f.T, "r")
		second, info := f.acquire("r")
		if info.Epoch != 2 {
			f.Fatalf("the second holder has epoch %d", info.Epoch)
		}
		f.is(first.Append(f.Context(), &runlog.Batch{Records: records(1)}), runlog.ErrFenced)
		f.is(first.Append(f.Context(), &runlog.Batch{Status: runlog.Failed}), runlog.ErrFenced)
		f.is(first.Append(f.Context(), &runlog.Batch{}), runlog.ErrFenced)
		_, err := first.Renew(f.Context())
		f.is(err, runlog.ErrFenced)
		f.ok(first.Release(f.Context()))
		if got := f.info("r"); got.Head != 2 || got.Status != runlog.Running || got.Owner == "" || got.Epoch != 2 {
			f.Fatalf("the fenced holder left %+v", got)
		}
		f.append(second, &runlog.Batch{Records: records(1)})
	}},
	{"fenced in company", "a fenced append does not keep those it shares a transaction with from being stored", func(f *fixture) {
		ex := f.expirer()
		stale := f.create("stale")
		ex.Expire(f.T, "stale")
		f.acquire("stale")
		var wg sync.WaitGroup
		for i := range 16 {
			l := f.create(fmt.Sprintf("good-%d", i))
			wg.Go(func() {
				for range 5 {
					if err := l.Append(context.Background(), &runlog.Batch{Records: records(1)}); err != nil {
						f.Error(err)
					}
				}
			})
			wg.Go(func() {
				if err := stale.Append(context.Background(), &runlog.Batch{Records: records(1)}); err == nil {
					f.Error("a stale append was stored")
				}
			})
		}
		wg.Wait()
		for i := range 16 {
			f.seqs(f.read(fmt.Sprintf("good-%d", i), 1, 99), 1, 5)
		}
	}},
	{"interrupted", "a running run reads as interrupted, and as nobody's, once its holder is gone or has released it", func(f *fixture) {
		l := f.create("released")
		if got := f.info("released"); got.Status != runlog.Running {
			f.Fatalf("a held run is %s", got.Status)
		}
		f.ok(l.Release(f.Context()))
		paused := f.create("paused")
		f.append(paused, &runlog.Batch{Status: runlog.Paused})
		f.ok(paused.Release(f.Context()))
		if got := f.info("released"); got.Status != runlog.Interrupted || got.Owner != "" {
			f.Fatalf("a released run is %+v", got)
		}
		if got := f.info("paused"); got.Status != runlog.Paused || got.Owner != "" {
			f.Fatalf("a paused run is %+v", got)
		}
		ex := f.expirer()
		dead := f.create("dead")
		ex.Expire(f.T, "dead")
		f.wantIDs(&runlog.Filter{Status: []runlog.Status{runlog.Interrupted}}, "dead", "released")
		f.wantIDs(&runlog.Filter{Status: []runlog.Status{runlog.Running}})
		_, err := dead.Renew(f.Context()) // nobody has taken it over, so it may go on
		f.ok(err)
		f.wantIDs(&runlog.Filter{Status: []runlog.Status{runlog.Running}}, "dead")
	}},
	{"takeovers", "a run that processes leave without releasing it counts them, is quarantined after MaxTakeovers, and begins anew once it is released",
		func(f *fixture) {
			ex := f.expirer()
			f.create("r")
			for n := 1; n <= runlog.MaxTakeovers; n++ {
				ex.Expire(f.T, "r")
				if got := f.info("r"); got.Status != runlog.Interrupted || got.Takeovers != n-1 {
					f.Fatalf("before takeover %d the run is listed as %+v", n, got)
				}
				if _, info := f.acquire("r"); info.Takeovers != n || f.info("r").Takeovers != n || f.info("r").Status != runlog.Running {
					f.Fatalf("takeover %d gave %+v, listed %+v", n, info, f.info("r"))
				}
			}
			ex.Expire(f.T, "r")
			was := f.info("r")
			if was.Status != runlog.Quarantined || was.Owner != "" {
				f.Fatalf("after %d takeovers the run is listed as %+v", runlog.MaxTakeovers, was)
			}
			_, _, err := f.store.Acquire(f.Context(), "r", nil)
			if e := as[*runlog.QuarantinedError](f, err); e.ID != "r" || e.Takeovers != runlog.MaxTakeovers {
				f.Fatalf("%+v", e)
			}
			if got := f.info("r"); got != was {
				f.Fatalf("the refused acquisition made it %+v", got)
			}
			f.wantIDs(&runlog.Filter{Status: []runlog.Status{runlog.Quarantined}}, "r")
			f.wantIDs(&runlog.Filter{Status: []runlog.Status{runlog.Interrupted}})
			l, info, err := f.store.Acquire(f.Context(), "r", &runlog.AcquireOptions{Quarantined: true})
			f.ok(err)
			if info.Takeovers != 0 || f.info("r").Status != runlog.Running {
				f.Fatalf("taken all the same it is %+v", f.info("r"))
			}
			ex.Expire(f.T, "r")
			f.acquire("r")
			f.is(l.Append(f.Context(), &runlog.Batch{Records: records(1)}), runlog.ErrFenced)
			f.ok(l.Release(f.Context())) // which is no clean end of another's hold
			if got := f.info("r").Takeovers; got != 1 {
				f.Fatalf("%d takeovers, want 1", got)
			}
		}},
	{"clean ends", "a release, and a death while the run was not running, are no unclean ends", func(f *fixture) {
		ex := f.expirer()
		f.create("r")
		ex.Expire(f.T, "r")
		l, _ := f.acquire("r")
		f.ok(l.Release(f.Context()))
		if got := f.info("r"); got.Takeovers != 0 || got.Status != runlog.Interrupted {
			f.Fatalf("a released run is %+v", got)
		}
		for range runlog.MaxTakeovers + 2 {
			l, info := f.acquire("r")
			if info.Takeovers != 0 {
				f.Fatalf("a released run was taken over %d times", info.Takeovers)
			}
			f.ok(l.Release(f.Context()))
		}
		l, _ = f.acquire("r")
		f.append(l, &runlog.Batch{Status: runlog.Paused})
		for range runlog.MaxTakeovers + 2 {
			ex.Expire(f.T, "r")
			if _, info := f.acquire("r"); info.Takeovers != 0 || info.Status != runlog.Paused {
				f.Fatalf("a paused run became %+v", info)
			}
		}
	}},
	{"cancel", "a request to cancel is seen by Renew and by listings until the run ends, and by a later holder", func(f *fixture) {
		l := f.create("r")
		if cancel, err := l.Renew(f.Context()); err != nil || cancel {
			f.Fatalf("Renew: %v, %v", cancel, err)
		}
		f.ok(f.store.RequestCancel(f.Context(), "r"))
		if cancel, err := l.Renew(f.Context()); err != nil || !cancel || !f.info("r").Cancel {
			f.Fatalf("Renew: %v, %v; listed %+v", cancel, err, f.info("r"))
		}
		f.ok(l.Release(f.Context()))
		l, info := f.acquire("r")
		if !info.Cancel {
			f.Fatal("the next holder does not see the request")
		}
		f.append(l, &runlog.Batch{Status: runlog.Cancelled})
		if got := f.info("r"); got.Cancel || got.Status != runlog.Cancelled {
			f.Fatalf("after it was carried out: %+v", got)
		}
		f.ok(f.store.RequestCancel(f.Context(), "r"))
		if f.info("r").Cancel {
			f.Fatal("a run that has ended is to be cancelled")
		}
	}},
	{"ended", "a run that has ended takes no more records and keeps its status, in the same hold and in a later one; the batch that ends it may have records",
		func(f *fixture) {
			for _, end := range []runlog.Status{runlog.Completed, runlog.Partial, runlog.Cancelled} {
				id := "r-" + string(end)
				l := f.create(id)
				f.append(l, &runlog.Batch{Records: records(2)})
				f.append(l, &runlog.Batch{Records: records(2), Status: end})
				refused := func() {
					f.Helper()
					for _, b := range []*runlog.Batch{
						{Records: records(1)},
						{Records: records(2), Status: end},
						{Status: runlog.Running},
					} {
						err := l.Append(f.Context(), b)
						if e := as[*runlog.EndedError](f, err); e.ID != id || e.Status != end {
							f.Fatalf("%+v", e)
						}
					}
					if got := f.info(id); got.Head != 4 || got.Status != end {
						f.Fatalf("the run became %+v", got)
					}
					f.seqs(f.read(id, 1, 9), 1, 4)
				}
				refused()
				f.ok(l.Release(f.Context()))
				l, _ = f.acquire(id)
				refused()
				if _, err := l.Renew(f.Context()); err != nil {
					f.Fatal(err)
				}
				f.ok(l.Release(f.Context()))
			}
			for _, s := range []runlog.Status{runlog.Failed, runlog.Paused} {
				l := f.create("r-" + string(s))
				f.append(l, &runlog.Batch{Records: records(1), Status: s})
				f.append(l, &runlog.Batch{Records: records(1), Status: runlog.Running})
			}
		}},
	{"updated", "Updated is when the run changed its status or was acquired, whatever leases are renewed in between", func(f *fixture) {
		ex := f.expirer()
		l := f.create("r")
		was := f.info("r").Updated
		ex.Expire(f.T, "r")
		if _, err := l.Renew(f.Context()); err != nil {
			f.Fatal(err)
		}
		f.append(l, &runlog.Batch{Records: records(1)})
		if got := f.info("r").Updated; !got.Equal(was) {
			f.Fatalf("a renewal moved it from %s to %s", was, got)
		}
		f.append(l, &runlog.Batch{Status: runlog.Paused})
		if got := f.info("r").Updated; !got.After(was) {
			f.Fatalf("a new status left it at %s", got)
		}
	}},
	{"hostile ids", "an ID that is not 1 to 64 of a-z, 0-9 and - is refused with a clear error, and nothing is made", testHostileIDs},
}

func testHostileIDs(f *fixture) {
	for _, id := range append(hostile, "", "A", "ü", strings.Repeat("x", 65)) {
		_, _, err := f.store.Acquire(f.Context(), id, &runlog.AcquireOptions{Create: &runlog.NewRun{}})
		if err == nil || !strings.Contains(err.Error(), "ID") {
			f.Errorf("Acquire(%q): %v", id, err)
		}
		if _, err := f.store.Read(f.Context(), id, 1, 1); err == nil {
			f.Errorf("Read(%q) found something", id)
		}
	}
	for _, id := range []string{"a", "-", "0", strings.Repeat("z-9", 21) + "y"} {
		f.create(id)
	}
	if got := len(f.ids(nil)); got != 4 {
		f.Errorf("there are %d runs", got)
	}
}

func testClosed(f *fixture) {
	c, ok := f.store.(io.Closer)
	re, ok2 := f.store.(reopener)
	if !ok || !ok2 {
		f.Skipf("%T is nothing that others can open once it is closed", f.store)
	}
	l := f.create("r")
	Append(f.T, l, 2)
	calls := map[string]func() error{
		"Acquire":       func() error { _, _, err := f.store.Acquire(f.Context(), "r", nil); return err },
		"Read":          func() error { _, err := f.store.Read(f.Context(), "r", 1, 1); return err },
		"Runs":          func() error { _, err := f.store.Runs(f.Context(), nil); return err },
		"Delete":        func() error { return f.store.Delete(f.Context(), "r") },
		"RequestCancel": func() error { return f.store.RequestCancel(f.Context(), "r") },
		"Append":        func() error { return l.Append(f.Context(), Batch(1)) },
		"Renew":         func() error { _, err := l.Renew(f.Context()); return err },
	}
	if w, ok := runlog.As[runlog.Waiter](f.store); ok {
		calls["Wait"] = func() error { return w.Wait(f.Context(), "r", 9) }
		waited := make(chan error, 1)
		go func() { waited <- w.Wait(context.Background(), "r", 9) }()
		time.Sleep(10 * time.Millisecond)
		defer func() { f.is(<-waited, storekit.ErrClosed) }()
	}
	f.ok(errors.Join(c.Close(), c.Close()))
	for name, call := range calls {
		if err := call(); !errors.Is(err, storekit.ErrClosed) {
			f.Errorf("%s after Close: %v", name, err)
		}
	}
	f.is(l.Release(f.Context()), storekit.ErrClosed)
	other := &fixture{T: f.T, store: re.Reopen(f.T)}
	other.seqs(other.read("r", 1, 9), 1, 2)
}
