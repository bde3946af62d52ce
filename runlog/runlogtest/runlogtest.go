// Package runlogtest is the suite that every [runlog.Store] passes. Each case names
// the rule it checks. [Mortal] is a store for tests of what crashes do to a run. A [Child] is a
// process for tests of what its death does to a store.
package runlogtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/runlog"
)

// An expirer is a store under test that can make the holder of a run look dead, see [Run].
type expirer interface {
	Expire(t *testing.T, id string)
}

// A reopener is a store under test whose data outlive it, see [Run].
type reopener interface {
	Reopen(t *testing.T) runlog.Store
}

// Run runs the suite. The function open returns a new, empty store and arranges that it is closed
// when its test ends.
//
// A store with a method Expire(t *testing.T, id string) can make the holder of a run look dead
// without a word from it, for instance by moving the store's clock past the lease. One with a
// method Reopen(t *testing.T) runlog.Store returns another store over the same data, which need
// not close the first. Without them the cases about dead holders, and those about durability and
// several stores, are skipped. What is an io.Closer as well is closed, and then has one error for
// all calls: [storekit.ErrClosed].
func Run(t *testing.T, open func(t *testing.T) runlog.Store) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Logf("rule: %s", c.rule)
			c.run(&fixture{T: t, store: open(t)})
		})
	}
}

type testCase struct {
	name, rule string
	run        func(*fixture)
}

var cases = slices.Concat(logCases, holdCases, mailCases, hiddenCases, listCases)

var start = time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)

// A fixture is a case's test and its store.
type fixture struct {
	*testing.T
	store runlog.Store
}

func (f *fixture) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) is(err, want error) {
	f.Helper()
	if !errors.Is(err, want) {
		f.Fatalf("got error %v, want %v", err, want)
	}
}

// as checks that err is a T and returns it.
func as[T error](f *fixture, err error) T {
	f.Helper()
	var e T
	if !errors.As(err, &e) {
		f.Fatalf("got error %v (%T), want a %T", err, err, e)
	}
	return e
}

func (f *fixture) create(id string) runlog.Log {
	f.Helper()
	l, _, err := f.store.Acquire(f.Context(), id, &runlog.AcquireOptions{Create: &runlog.NewRun{Workflow: "w", Title: "t " + id}})
	f.ok(err)
	return l
}

func (f *fixture) acquire(id string) (runlog.Log, runlog.Info) {
	f.Helper()
	l, info, err := f.store.Acquire(f.Context(), id, nil)
	f.ok(err)
	return l, info
}

func (f *fixture) append(l runlog.Log, b *runlog.Batch) {
	f.Helper()
	f.ok(l.Append(f.Context(), b))
}

// released creates a run of n records that no process holds.
func (f *fixture) released(id string, n int) {
	f.Helper()
	l := f.create(id)
	f.append(l, &runlog.Batch{Records: records(n)})
	f.ok(l.Release(f.Context()))
}

func (f *fixture) read(id string, from uint64, limit int) []runlog.Record {
	f.Helper()
	recs, err := f.store.Read(f.Context(), id, from, limit)
	f.ok(err)
	return recs
}

func (f *fixture) info(id string) runlog.Info {
	f.Helper()
	infos, err := f.store.Runs(f.Context(), &runlog.Filter{ID: id})
	f.ok(err)
	if len(infos) != 1 {
		f.Fatalf("listing %s gave %d runs", id, len(infos))
	}
	return infos[0]
}

func (f *fixture) infos() []runlog.Info {
	f.Helper()
	infos, err := f.store.Runs(f.Context(), nil)
	f.ok(err)
	return infos
}

func (f *fixture) ids(filter *runlog.Filter) []string {
	f.Helper()
	infos, err := f.store.Runs(f.Context(), filter)
	f.ok(err)
	ids := []string{}
	for _, info := range infos {
		ids = append(ids, info.ID)
	}
	return ids
}

func (f *fixture) wantIDs(filter *runlog.Filter, want ...string) {
	f.Helper()
	if got := f.ids(filter); !slices.Equal(got, want) {
		f.Fatalf("filter %+v lists %q, want %q", filter, got, want)
	}
}

func (f *fixture) expirer() expirer {
	e, ok := f.store.(expirer)
	if !ok {
		f.Skipf("%T cannot make a holder look dead", f.store)
	}
	return e
}

// seqs checks that records are from, from+1, … up to and including to.
func (f *fixture) seqs(recs []runlog.Record, from, to uint64) {
	f.Helper()
	if len(recs) != int(to-from+1) {
		f.Fatalf("got %d records, want %d to %d", len(recs), from, to)
	}
	for i, r := range recs {
		if r.Seq != from+uint64(i) {
			f.Fatalf("record %d has number %d, want %d", i, r.Seq, from+uint64(i))
		}
	}
}

func record(i int) runlog.Record {
	r := runlog.Record{
		Kind: runlog.KindTaskDone, Path: fmt.Sprintf("node/%d", i), Time: start.Add(time.Duration(i) * time.Second),
		Data: json.RawMessage(fmt.Sprintf(`{"n":%d,"s":"é \u0000 \ud800 '\"%%_"}`, i)),
	}
	if i%3 > 0 {
		r.Attachment = append([]byte("\x00\n\xff{}'"), byte(i))
	}
	if i%6 == 2 {
		r.Data = nil
	}
	return r
}

func records(n int) []runlog.Record {
	recs := make([]runlog.Record, n)
	for i := range recs {
		recs[i] = record(i)
	}
	return recs
}

func sameRecord(a, b runlog.Record) bool {
	return a.Seq == b.Seq && a.Epoch == b.Epoch && a.Time.Equal(b.Time) && a.Kind == b.Kind && a.Path == b.Path && bytes.Equal(a.Data, b.Data) && bytes.Equal(a.Attachment, b.Attachment)
}

var logCases = []testCase{
	{"append and read", "what was appended is read back unchanged, in order, with Seq and Epoch set in place", func(f *fixture) {
		l := f.create("r")
		var want []runlog.Record
		for i := range 7 {
			b := &runlog.Batch{Records: records(i)}
			f.append(l, b)
			want = append(want, b.Records...)
		}
		got := f.read("r", 1, 100)
		f.seqs(got, 1, 21)
		for i := range got {
			if !sameRecord(got[i], want[i]) {
				f.Fatalf("read %+v, appended %+v", got[i], want[i])
			}
			if got[i].Epoch != 1 || got[i].Time.Location() != time.UTC {
				f.Fatalf("epoch %d, location %s", got[i].Epoch, got[i].Time.Location())
			}
		}
	}},
	{"read ranges", "Read returns at most limit records from the number asked for, and nothing past the head", func(f *fixture) {
		f.released("r", 10)
		f.seqs(f.read("r", 0, 3), 1, 3)
		f.seqs(f.read("r", 4, 3), 4, 6)
		f.seqs(f.read("r", 9, 100), 9, 10)
		f.seqs(f.read("r", 1, 1), 1, 1)
		for _, from := range []uint64{11, 12, 1 << 31, 1 << 32, 1 << 33, 1<<64 - 1} {
			if got := f.read("r", from, 5); len(got) != 0 {
				f.Fatalf("reading from %d gave %+v", from, got)
			}
		}
		f.create("empty")
		if got := f.read("empty", 1, 5); len(got) != 0 {
			f.Fatalf("an empty run has %+v", got)
		}
	}},
	{"kinds", "a record of any kind is kept, known or not, with or without path and data", func(f *fixture) {
		l := f.create("r")
		b := &runlog.Batch{Records: []runlog.Record{
			{Kind: "of.the.future", Time: start},
			{Kind: runlog.KindEvent, Time: start, Data: json.RawMessage(`{"big":"` + strings.Repeat("x", 300_000) + `"}`)},
			{Kind: runlog.KindEvent, Time: time.Unix(0, -1).UTC(), Path: strings.Repeat("p/", 500)},
		}}
		f.append(l, b)
		for i, r := range f.read("r", 1, 9) {
			if !sameRecord(r, b.Records[i]) {
				f.Fatalf("record %d changed", i+1)
			}
		}
	}},
	{"batch is atomic", "a batch with one record that cannot be stored stores none, and the log goes on without a gap", func(f *fixture) {
		l := f.create("r")
		f.append(l, &runlog.Batch{Records: records(2)})
		bad := records(3)
		bad[2].Kind = ""
		if err := l.Append(f.Context(), &runlog.Batch{Records: bad, Status: runlog.Failed}); err == nil {
			f.Fatal("a record without a kind was stored")
		}
		if got := f.info("r"); got.Head != 2 || got.Status != runlog.Running {
			f.Fatalf("after a refused batch the run is %+v", got)
		}
		f.append(l, &runlog.Batch{Records: records(1)})
		f.seqs(f.read("r", 1, 9), 1, 3)
	}},
	{"no sharing", "neither what a caller appended nor what it read is shared with the store", func(f *fixture) {
		l := f.create("r")
		b := &runlog.Batch{Records: records(3)}
		want := slices.Clone(b.Records[1].Data)
		f.append(l, b)
		clear(b.Records[1].Data)
		got := f.read("r", 2, 1)
		clear(got[0].Data)
		clear(append(got[0].Data, "beyond"...))
		if again := f.read("r", 1, 3); !bytes.Equal(again[1].Data, want) {
			f.Fatalf("the stored data became %s", again[1].Data)
		}
	}},
	{"cancelled context", "with a context that has ended nothing is written", func(f *fixture) {
		l := f.create("r")
		ctx, stop := context.WithCancel(f.Context())
		stop()
		f.is(l.Append(ctx, &runlog.Batch{Records: records(1)}), context.Canceled)
		_, _, err := f.store.Acquire(ctx, "other", &runlog.AcquireOptions{Create: &runlog.NewRun{}})
		f.is(err, context.Canceled)
		if head := f.info("r").Head; head != 0 {
			f.Fatalf("%d records were written", head)
		}
		f.wantIDs(nil, "r")
	}},
	{"concurrent appends", "appends of many goroutines to many runs are all kept, each batch in one piece, beside renewals", func(f *fixture) {
		const runs, writers, each = 8, 4, 5
		var wg sync.WaitGroup
		for r := range runs {
			l := f.create(fmt.Sprintf("run-%d", r))
			wg.Go(func() {
				for range each {
					if _, err := l.Renew(context.Background()); err != nil {
						f.Error(err)
					}
				}
			})
			for w := range writers {
				wg.Go(func() {
					for i := range each {
						recs := records(2)
						for k := range recs {
							recs[k].Path = fmt.Sprintf("%d/%d", w, i)
						}
						if err := l.Append(context.Background(), &runlog.Batch{Records: recs}); err != nil {
							f.Error(err)
						}
						if recs[1].Seq != recs[0].Seq+1 {
							f.Errorf("a batch was numbered %d, %d", recs[0].Seq, recs[1].Seq)
						}
					}
				})
			}
		}
		wg.Wait()
		for r := range runs {
			recs := f.read(fmt.Sprintf("run-%d", r), 1, 1000)
			f.seqs(recs, 1, writers*each*2)
			for i := 0; i < len(recs); i += 2 {
				if recs[i].Path != recs[i+1].Path {
					f.Fatalf("a batch was torn: %s, %s", recs[i].Path, recs[i+1].Path)
				}
			}
		}
	}},
	{"durable", "another store over the same data sees every record that was acknowledged", func(f *fixture) {
		re, ok := f.store.(reopener)
		if !ok {
			f.Skipf("%T keeps nothing", f.store)
		}
		l := f.create("r")
		for i := range 5 {
			f.append(l, &runlog.Batch{Records: records(1)})
			recs, err := re.Reopen(f.T).Read(f.Context(), "r", 1, 100)
			f.ok(err)
			f.seqs(recs, 1, uint64(i+1))
		}
	}},
	{"wait", "Wait returns once the run has the record, at once if it has it, and with the context's error otherwise", testWait},
	{"wait for another store", "Wait also notices what another store over the same data writes", func(f *fixture) {
		w, ok := runlog.As[runlog.Waiter](f.store)
		re, ok2 := f.store.(reopener)
		if !ok || !ok2 {
			f.Skipf("%T is no Waiter that others can write to", f.store)
		}
		f.released("r", 1)
		other := &fixture{T: f.T, store: re.Reopen(f.T)}
		l, _ := other.acquire("r")
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() {
			time.Sleep(20 * time.Millisecond)
			if err := l.Append(context.Background(), &runlog.Batch{Records: records(1)}); err != nil {
				f.Error(err)
			}
		})
		ctx, stop := context.WithTimeout(f.Context(), 10*time.Second)
		defer stop()
		for f.info("r").Head < 2 {
			f.ok(w.Wait(ctx, "r", 2))
		}
	}},
}

func testWait(f *fixture) {
	w, ok := runlog.As[runlog.Waiter](f.store)
	if !ok {
		f.Skipf("%T is no Waiter", f.store)
	}
	as[*runlog.NotFoundError](f, w.Wait(f.Context(), "gone", 1))
	l := f.create("r")
	f.append(l, &runlog.Batch{Records: records(2)})
	f.ok(w.Wait(f.Context(), "r", 2))
	short, stop := context.WithTimeout(f.Context(), 30*time.Millisecond)
	defer stop()
	err, wakes := w.Wait(short, "r", 3), 0
	for ; err == nil && wakes < 3; wakes++ { // of the records before, which may come late
		err = w.Wait(short, "r", 3)
	}
	f.is(err, context.DeadlineExceeded)

	const readers, more = 5, 20
	var wg sync.WaitGroup
	for range readers {
		wg.Go(func() {
			ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
			defer stop()
			for next := uint64(3); next <= 2+more; {
				if err := w.Wait(ctx, "r", next); err != nil {
					f.Error(err)
					return
				}
				recs, err := f.store.Read(ctx, "r", next, 100)
				if err != nil {
					f.Error(err)
					return
				}
				next += uint64(len(recs))
			}
		})
	}
	for range more {
		f.append(l, &runlog.Batch{Records: records(1)})
	}
	wg.Wait()
}
