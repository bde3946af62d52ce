package runlogtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/runlog"
)

// post posts a request whose text contains its ID.
func (f *fixture) post(run, id string) (*unlisted.Request, error) {
	f.Helper()
	data, err := json.Marshal("this is " + id)
	f.ok(err)
	r := &unlisted.Request{ID: id, Kind: unlisted.KindSteer, Path: "work", Time: start, Data: data}
	return r, unlisted.Post(f.Context(), f.store, run, r)
}

// mail reads the mailbox of a run to its end, and checks that its places are in order and that each request is whole.
func (f *fixture) mail(run string) (ids []string) {
	f.Helper()
	for after := uint64(0); ; {
		page, err := unlisted.Read(f.Context(), f.store, run, after)
		f.ok(err)
		if len(page) == 0 {
			return ids
		}
		for i := range page {
			r := &page[i]
			if after++; r.Seq != after || r.Kind != unlisted.KindSteer || r.Path != "work" || !r.Time.Equal(start) || string(r.Data) != `"this is `+r.ID+`"` {
				f.Fatalf("request %d reads %+v", after, r)
			}
			ids = append(ids, r.ID)
		}
	}
}

// again is another store over the same data, or the same store if it keeps nothing.
func (f *fixture) again() *fixture {
	if r, ok := f.store.(reopener); ok {
		return &fixture{T: f.T, store: r.Reopen(f.T)}
	}
	return f
}

// mailCases are about the mailboxes of runs, which are made of nothing but the contract of a store.
var mailCases = []testCase{
	{"mailbox", "requests have places from 1 in order, for the holder and after it, and another store over the same data adds to them", func(f *fixture) {
		l := f.create("r")
		if got := f.mail("r"); got != nil {
			f.Fatalf("a new mailbox has %q", got)
		}
		for i, id := range []string{"a", "b", "c"} {
			r, err := f.again().post("r", id)
			f.ok(err)
			if r.Seq != uint64(i)+1 {
				f.Fatalf("%s got place %d", id, r.Seq)
			}
		}
		f.ok(l.Release(f.Context()))
		if got := f.again().mail("r"); strings.Join(got, " ") != "a b c" {
			f.Fatalf("the mailbox has %q", got)
		}
	}},
	{"mailbox: one request per ID", "a request posted again, also after it was handled, is no new one", func(f *fixture) {
		l := f.create("r")
		first, err := f.post("r", "a")
		f.ok(err)
		_, err = f.post("r", "b")
		f.ok(err)
		for range 2 {
			again, err := f.again().post("r", "a")
			f.ok(err)
			if again.Seq != first.Seq {
				f.Fatalf("posted again it got place %d", again.Seq)
			}
			f.append(l, &runlog.Batch{Records: records(1)}) // what comes of it
		}
		if got := f.mail("r"); strings.Join(got, " ") != "a b" {
			f.Fatalf("the mailbox has %q", got)
		}
		if _, err := f.post("r", "No ID"); err == nil {
			f.Fatal("an ID of other characters was taken")
		}
	}},
	{"mailbox: many senders", "of requests that many post at once none is lost, and none doubled", func(f *fixture) {
		f.create("r")
		var all sync.WaitGroup
		const senders, each = 16, 3
		errs := make([]error, senders)
		for i := range senders {
			from := f
			if i%4 == 0 {
				from = f.again()
			}
			all.Go(func() {
				for k := range each {
					if _, err := from.post("r", fmt.Sprintf("s-%d-%d", i, k)); err != nil {
						errs[i] = err
					}
				}
			})
		}
		all.Wait()
		seen := map[string]bool{}
		for i, err := range errs {
			if err != nil {
				f.Fatalf("sender %d: %v", i, err)
			}
		}
		got := f.mail("r")
		for _, id := range got {
			seen[id] = true
		}
		if len(got) != senders*each || len(seen) != len(got) {
			f.Fatalf("the mailbox has %d requests, %d of them different", len(got), len(seen))
		}
	}},
	{"mailbox: no such run", "a run that there is not, or that has ended, takes no requests and has no mailbox", func(f *fixture) {
		_, err := f.post("gone", "a")
		as[*runlog.NotFoundError](f, err)
		l := f.create("r")
		f.append(l, &runlog.Batch{Records: records(1), Status: runlog.Completed})
		_, err = f.post("r", "a")
		as[*runlog.EndedError](f, err)
		for _, run := range []string{"gone", "r"} {
			if got := f.mail(run); got != nil {
				f.Fatalf("the mailbox of %s has %q", run, got)
			}
		}
		f.wantIDs(&runlog.Filter{Status: []runlog.Status{runlog.Importing}})
	}},
	{"mailbox: a fenced holder", "requests are there for the next holder when one has died, and who was fenced off can handle none", func(f *fixture) {
		e := f.expirer()
		old := f.create("r")
		f.append(old, &runlog.Batch{Records: records(1)})
		_, err := f.post("r", "a")
		f.ok(err)
		e.Expire(f.T, "r")
		l, _ := f.acquire("r")
		f.is(old.Append(f.Context(), &runlog.Batch{Records: records(1)}), runlog.ErrFenced)
		if got := f.mail("r"); strings.Join(got, " ") != "a" {
			f.Fatalf("the next holder reads %q", got)
		}
		f.append(l, &runlog.Batch{Records: records(1)})
	}},
	{"mailbox: a sender that died", "a sender that dies while it posts keeps others off no longer than its hold lasts", func(f *fixture) {
		e := f.expirer()
		f.create("r")
		_, err := f.post("r", "a")
		f.ok(err)
		f.acquire(unlisted.RequestsID("r")) // and then nothing
		e.Expire(f.T, unlisted.RequestsID("r"))
		_, err = f.again().post("r", "b")
		f.ok(err)
		if got := f.mail("r"); strings.Join(got, " ") != "a b" {
			f.Fatalf("the mailbox has %q", got)
		}
	}},
	{"mailbox: a large request", "a request of 64 KiB is stored, a larger one refused", func(f *fixture) {
		f.create("r")
		r := &unlisted.Request{Kind: unlisted.KindSteer, Time: start, Data: json.RawMessage(`"` + strings.Repeat("x", unlisted.MaxData-2) + `"`)}
		f.ok(unlisted.Post(f.Context(), f.store, "r", r))
		if got, err := unlisted.Read(f.Context(), f.store, "r", 0); err != nil || len(got) != 1 || !bytes.Equal(got[0].Data, r.Data) || got[0].ID != r.ID || r.ID == "" {
			f.Fatalf("%d requests, %v", len(got), err)
		}
		r = &unlisted.Request{Kind: unlisted.KindSteer, Time: start, Data: json.RawMessage(`"` + strings.Repeat("x", 65<<10) + `"`)}
		if err := unlisted.Post(f.Context(), f.store, "r", r); err == nil || !strings.Contains(err.Error(), "put it into a file") {
			f.Fatalf("65 KiB gave %v", err)
		}
	}},
	{"mailbox: many unread", "a thousand requests that nobody has read are read in pages", func(f *fixture) {
		f.create("r")
		const n = 1000
		_, err := f.post("r", "m-0")
		f.ok(err)
		l, _ := f.acquire(unlisted.RequestsID("r"))
		var b runlog.Batch
		for i := 1; i < n; i++ {
			data, err := json.Marshal(map[string]string{"id": fmt.Sprint("m-", i), "data": fmt.Sprint("this is m-", i)})
			f.ok(err)
			b.Records = append(b.Records, runlog.Record{Kind: unlisted.KindSteer, Path: "work", Time: start, Data: data})
		}
		f.append(l, &b)
		f.ok(l.Release(f.Context()))
		if got := f.mail("r"); len(got) != n || got[n-1] != fmt.Sprint("m-", n-1) {
			f.Fatalf("%d were read", len(got))
		}
		again, err := f.post("r", "m-999")
		f.ok(err)
		if again.Seq != n {
			f.Fatalf("posted again the last got place %d", again.Seq)
		}
	}},
	{"workers", "a worker is known while it holds its description, and one that has crashed is removed by the next one", func(f *fixture) {
		e := f.expirer()
		gpu := &unlisted.Worker{Place: []string{"gpu"}}
		p, err := unlisted.Announce(f.Context(), f.store, gpu)
		f.ok(err)
		workers := func(want ...string) {
			f.Helper()
			all, err := unlisted.Workers(f.Context(), f.again().store)
			f.ok(err)
			var got []string
			for i := range all {
				got = append(got, fmt.Sprint(all[i].Place, all[i].Skips))
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				f.Fatalf("the workers are %q, want %q", got, want)
			}
		}
		workers("[gpu] map[]")
		f.wantIDs(nil)
		gpu.Skips = map[string]string{"brief": "it is unknown"}
		f.ok(p.Renew(f.Context(), gpu))
		workers("[gpu] map[brief:it is unknown]")
		all, err := f.store.Runs(f.Context(), &runlog.Filter{Status: []runlog.Status{runlog.Importing}})
		f.ok(err)
		e.Expire(f.T, all[0].ID)
		workers()
		other, err := unlisted.Announce(f.Context(), f.store, &unlisted.Worker{})
		f.ok(err)
		workers("[] map[]")
		if p.Renew(f.Context(), &unlisted.Worker{}) == nil {
			f.Fatalf("a description that was removed is renewed")
		}
		f.ok(other.Leave(f.Context()))
		f.wantIDs(&runlog.Filter{Status: []runlog.Status{runlog.Importing}})
	}},
	{"rate limits", "the rate limit that one process has met is known to all of its store, until it ends", func(f *fixture) {
		now := start
		clock := func() time.Time { return now }
		one, other := unlisted.NewLimits(f.store, clock), unlisted.NewLimits(f.again().store, clock)
		want := func(l *unlisted.Limits, model string, until time.Time) {
			f.Helper()
			now = now.Add(time.Second) // else it knows what it has read
			if got := l.Until(f.Context(), model); !got.Equal(until) {
				f.Fatalf("the limit of %s ends at %v, want %v", model, got, until)
			}
		}
		want(other, "acme/m1", time.Time{})
		until := now.Add(time.Hour)
		f.ok(one.Note(f.Context(), "acme/m1", until))
		f.ok(other.Note(f.Context(), "acme/m1", until.Add(-time.Minute)))
		want(one, "acme/m1", until)
		want(other, "acme/m1", until)
		want(other, "acme/m2", time.Time{})
		f.wantIDs(nil)
		now = until
		want(other, "acme/m1", time.Time{})
	}},
	{"mailbox: a run that is removed", "a mailbox is removed with its run, and once it has ended", func(f *fixture) {
		l := f.create("r")
		_, err := f.post("r", "a")
		f.ok(err)
		f.wantIDs(nil, "r")
		f.ok(l.Release(f.Context()))
		f.ok(f.store.Delete(f.Context(), "r"))
		_, err = f.post("r", "b") // who finds that clears up
		as[*runlog.NotFoundError](f, err)
		f.ok(unlisted.DropRequests(f.Context(), f.store, "r"))
		f.create("r")
		if got := f.mail("r"); got != nil {
			f.Fatalf("another run of that ID finds %q", got)
		}
	}},
}
