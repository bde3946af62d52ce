package runlogtest

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/runlog"
)

// child creates a child run of the run parent, which nobody holds.
func (f *fixture) child(parent string, depth int) string {
	f.Helper()
	id := (&runlog.Child{Parent: parent, Path: "work", Depth: depth}).ID()
	l, _, err := f.store.Acquire(f.Context(), id, &runlog.AcquireOptions{Create: &runlog.NewRun{Workflow: "w", Parent: parent}})
	f.ok(err)
	f.append(l, &runlog.Batch{Records: records(1), Status: runlog.Paused, Summary: `{"child":true}`})
	f.ok(l.Release(f.Context()))
	return id
}

// visible is the fixture of the store without its hidden runs.
func (f *fixture) visible() *fixture {
	return &fixture{T: f.T, store: unlisted.Visible(f.store, nil)}
}

func (f *fixture) hide(id string) error {
	f.Helper()
	info := f.info(id)
	return unlisted.Hide(f.Context(), f.store, &info, start)
}

// marks is how many marks there are.
func (f *fixture) marks() int {
	f.Helper()
	all, err := f.store.Runs(f.Context(), &runlog.Filter{Prefix: "hidden--", Status: []runlog.Status{runlog.Importing}})
	f.ok(err)
	return len(all)
}

// hiddenError checks that an error says that a run is hidden.
func (f *fixture) hiddenError(err error, id string) {
	f.Helper()
	if e := as[*runlog.NotFoundError](f, err); e.ID != id || !e.Hidden || !strings.Contains(err.Error(), "can be restored") {
		f.Fatalf("got error %v, want that run %s is hidden", err, id)
	}
}

// hiddenCases are about runs that are hidden, which is made of nothing but the contract of a store.
var hiddenCases = []testCase{
	{"hidden", "a hidden run is in no listing with its children, nobody takes it or writes to it, and restored it is as it was, in another store over the same data too", func(f *fixture) {
		for i := range 12 {
			f.released(fmt.Sprintf("other-%d", i), 1)
		}
		f.released("a", 3)
		kid := f.child("a", 1)
		grand := f.child(kid, 2)
		f.released("a-fork", 1)
		f.released("ab", 1)
		if _, err := f.post("a", "kept"); err != nil {
			f.Fatal(err)
		}
		v, before := f.visible(), f.infos()
		var sizes map[string]int64
		if z, ok := runlog.As[runlog.Sizer](v.store); ok {
			var err error
			sizes, err = z.Sizes(f.Context(), nil)
			f.ok(err)
		}
		if got := v.infos(); !reflect.DeepEqual(got, before) {
			f.Fatalf("with nothing hidden it lists %+v", got)
		}
		f.ok(f.hide("a"))
		check := func(v *fixture) {
			f.Helper()
			f.hiddenError(unlisted.Missing(f.Context(), v.store, "a"), "a")
			for _, id := range []string{"a", kid, grand} {
				v.wantIDs(&runlog.Filter{ID: id})
				_, _, err := v.store.Acquire(f.Context(), id, nil)
				f.hiddenError(err, id)
				_, err = v.post(id, "late")
				f.hiddenError(err, id)
			}
			_, _, err := v.store.Acquire(f.Context(), "a", &runlog.AcquireOptions{Create: &runlog.NewRun{Workflow: "w"}})
			f.is(err, runlog.ErrExists)
			v.wantIDs(&runlog.Filter{Prefix: "a"}, "ab", "a-fork")
			v.wantIDs(&runlog.Filter{Prefix: "a", Limit: 1}, "ab")
			v.wantIDs(&runlog.Filter{Limit: 3}, "ab", "a-fork", "other-11")
			v.wantIDs(&runlog.Filter{Status: []runlog.Status{runlog.Paused}})
			if all := v.ids(nil); len(all) != 14 {
				f.Fatalf("it lists %q", all)
			}
			infos, until, err := unlisted.Hidden(f.Context(), v.store, "")
			f.ok(err)
			if len(infos) != 3 || infos[2].ID != "a" || len(until) != 3 || until["a"].IsZero() {
				f.Fatalf("hidden are %+v until %v", infos, until)
			}
		}
		if z, ok := runlog.As[runlog.Sizer](v.store); ok {
			now, err := z.Sizes(f.Context(), nil)
			f.ok(err)
			for _, id := range []string{"a", kid, grand} {
				if now[id] != sizes[id] || now[id] == 0 {
					f.Fatalf("hidden, %s has %d bytes, and had %d", id, now[id], sizes[id])
				}
			}
		}
		check(v)
		check(f.again().visible())
		if id, err := unlisted.Restore(f.Context(), v.store, "a"); err != nil || id != "a" {
			f.Fatalf("restored %q: %v", id, err)
		}
		after := v.infos()
		for i := range after { // who is refused has held the run for a moment
			after[i].Epoch, after[i].Updated = before[i].Epoch, before[i].Updated
		}
		if !reflect.DeepEqual(after, before) || f.marks() != 0 {
			f.Fatalf("restored it lists %+v", after)
		}
		if got := v.mail("a"); len(got) != 1 || got[0] != "kept" {
			f.Fatalf("the mailbox has %q", got)
		}
		f.seqs(v.read("a", 1, 9), 1, 3)
		l, _ := v.acquire("a")
		f.append(l, &runlog.Batch{Records: records(1)})
		if _, err := unlisted.Restore(f.Context(), v.store, "a"); err == nil {
			f.Fatal("what is not hidden was restored")
		}
	}},
	{"hidden and held", "a run that is held is not hidden, nor one whose child is held, and a child is not hidden alone", func(f *fixture) {
		l := f.create("a")
		as[*runlog.BusyError](f, f.hide("a"))
		f.ok(l.Release(f.Context()))
		kid := f.child("a", 1)
		held, _ := f.acquire(kid)
		if busy := as[*runlog.BusyError](f, f.hide("a")); busy.ID != kid {
			f.Fatalf("it names %s", busy.ID)
		}
		f.ok(held.Release(f.Context()))
		if err := f.hide(kid); err == nil || !strings.Contains(err.Error(), "child of run a") {
			f.Fatalf("a child alone: %v", err)
		}
		if f.marks() != 0 || len(f.visible().ids(nil)) != 2 {
			f.Fatalf("%d marks, listed %q", f.marks(), f.visible().ids(nil))
		}
	}},
	{"hidden, and taken", "of those who hide and take a run at the same time, no two succeed", func(f *fixture) {
		f.released("a", 1)
		kid := f.child("a", 1)
		v := f.visible()
		for i := range 20 {
			id := []string{"a", kid}[i%2]
			var group sync.WaitGroup
			var log runlog.Log
			var took, hid error
			info := f.info("a")
			group.Go(func() { hid = unlisted.Hide(f.Context(), v.store, &info, start) })
			group.Go(func() { log, _, took = v.store.Acquire(f.Context(), id, nil) })
			group.Wait()
			if hid == nil && took == nil {
				f.Fatal("it is hidden and held")
			}
			if took == nil {
				f.ok(log.Release(f.Context()))
			}
			if hid == nil {
				if _, err := unlisted.Restore(f.Context(), v.store, "a"); err != nil {
					f.Fatal(err)
				}
			}
			if f.marks() != 0 || len(v.ids(nil)) != 2 {
				f.Fatalf("%d marks; hidden: %v, taken: %v", f.marks(), hid, took)
			}
		}
	}},
	{"hidden, while it is deleted", "a run that was restored, and hidden again, before it is deleted stays, and one that is being deleted is not restored", func(f *fixture) {
		v := f.visible()
		f.released("a", 2)
		kid := f.child("a", 1)
		f.ok(f.hide("a"))
		_, until, err := unlisted.Hidden(f.Context(), v.store, "a")
		f.ok(err)
		_, err = unlisted.Restore(f.Context(), v.store, "a")
		f.ok(err)
		stays := func() {
			f.Helper()
			gone, err := unlisted.Drop(f.Context(), v.store, "a", until["a"].Add(-unlisted.HiddenFor-time.Nanosecond))
			if err != nil || len(gone) > 0 || len(f.ids(&runlog.Filter{Prefix: "a"})) != 2 {
				f.Fatalf("deleted %+v, %v", gone, err)
			}
		}
		stays()
		f.ok(f.hide("a"))
		stays()
		marks, err := f.store.Runs(f.Context(), &runlog.Filter{Status: []runlog.Status{runlog.Importing}})
		f.ok(err)
		l, _, err := f.store.Acquire(f.Context(), marks[0].ID, nil) // as whoever deletes it
		f.ok(err)
		_, err = unlisted.Restore(f.Context(), v.store, "a")
		as[*runlog.BusyError](f, err)
		f.ok(l.Release(f.Context()))
		gone, err := unlisted.Expire(f.Context(), v.store, time.Now().Add(48*time.Hour), false)
		f.ok(err)
		if len(gone) != 2 || gone[1].ID != kid || f.marks() != 0 {
			f.Fatalf("deleted %+v; %d marks are left", gone, f.marks())
		}
	}},
	{"hidden, then deleted", "Expire deletes what was hidden long ago with its children and mailboxes, nothing else, and a new run of its ID is visible", func(f *fixture) {
		v := f.visible()
		for _, id := range []string{"a", "b"} {
			f.released(id, 2)
			f.child(f.child(id, 1), 2)
			if _, err := f.post(id, "m"); err != nil {
				f.Fatal(err)
			}
		}
		f.released("a-fork", 1)
		f.ok(f.hide("a"))
		_, until, err := unlisted.Hidden(f.Context(), v.store, "a")
		f.ok(err)
		for _, early := range []bool{true, false} {
			now := until["a"]
			if early {
				now = now.Add(-time.Second)
			}
			for _, dry := range []bool{true, false} {
				gone, err := unlisted.Expire(f.Context(), v.store, now, dry)
				f.ok(err)
				if (len(gone) == 3) == early || early && len(gone) > 0 {
					f.Fatalf("early %v, dry %v: deleted %+v", early, dry, gone)
				}
				if left := len(f.ids(nil)); (left == 4) == (early || dry) || left != 4 && left != 7 {
					f.Fatalf("early %v, dry %v: %d runs are left", early, dry, left)
				}
			}
		}
		if f.marks() != 0 || len(f.mail("a")) != 0 || len(f.mail("b")) != 1 {
			f.Fatalf("%d marks, mailboxes %q, %q", f.marks(), f.mail("a"), f.mail("b"))
		}
		// What deletes a hidden run and knows no marks leaves one, which hides nothing else.
		f.ok(f.hide("b"))
		f.ok(f.store.Delete(f.Context(), "b"))
		v.released("b", 1)
		kid := v.child("b", 1)
		if got := v.ids(&runlog.Filter{Prefix: "b"}); len(got) != 2 || got[0] != kid || f.marks() != 0 {
			f.Fatalf("the new run is listed %q, with %d marks", got, f.marks())
		}
		l, _ := v.acquire("b")
		f.append(l, &runlog.Batch{Records: records(1)})
	}},
	{"hidden, on a full disk", "on a full disk, an append deletes hidden runs, those that were hidden first, until it succeeds", func(f *fixture) {
		full := &fullStore{Store: f.store}
		var dropped []string
		v := &fixture{T: f.T, store: unlisted.Visible(full, func(id string) { dropped = append(dropped, id) })}
		for _, id := range []string{"a", "b", "c", "kept"} {
			f.released(id, 1)
		}
		for _, id := range []string{"b", "a", "c"} {
			f.ok(f.hide(id))
		}
		l := v.create("r")
		full.needs = 2
		f.append(l, &runlog.Batch{Records: records(2)})
		f.seqs(v.read("r", 1, 9), 1, 2)
		f.wantIDs(nil, "r", "kept", "c")
		full.needs = 1
		v.create("s")
		f.wantIDs(nil, "s", "r", "kept")
		full.needs = 1
		as[*runlog.StorageError](f, l.Append(f.Context(), &runlog.Batch{Records: records(1)}))
		f.wantIDs(nil, "s", "r", "kept")
		if fmt.Sprint(dropped) != "[b a c]" || f.marks() != 0 {
			f.Fatalf("deleted were %q; %d marks are left", dropped, f.marks())
		}
	}},
}

// A fullStore is on a disk that is full until some runs are deleted, as in the error of a store.
type fullStore struct {
	runlog.Store
	needs int
}

func (s *fullStore) Unwrap() runlog.Store { return s.Store }

func (s *fullStore) full() error {
	if s.needs > 0 {
		return &runlog.StorageError{Store: "x", Err: fmt.Errorf("writing: %w", syscall.ENOSPC)}
	}
	return nil
}

func (s *fullStore) Acquire(ctx context.Context, id string, opt *runlog.AcquireOptions) (runlog.Log, runlog.Info, error) {
	if err := s.full(); err != nil {
		return nil, runlog.Info{}, err
	}
	l, info, err := s.Store.Acquire(ctx, id, opt)
	return &fullLog{l, s}, info, err
}

func (s *fullStore) Delete(ctx context.Context, id string) error {
	err := s.Store.Delete(ctx, id)
	if err == nil && !unlisted.Reserved(id) {
		s.needs--
	}
	return err
}

type fullLog struct {
	runlog.Log
	s *fullStore
}

func (l *fullLog) Append(ctx context.Context, b *runlog.Batch) error {
	if err := l.s.full(); err != nil {
		return err
	}
	return l.Log.Append(ctx, b)
}

// FullDisk checks that a store in dir, on a small disk of its own, deletes its hidden runs rather than refuse an append when the disk is full.
func FullDisk(t *testing.T, s runlog.Store, dir string) {
	t.Helper()
	f := &fixture{T: t, store: unlisted.Visible(s, nil)}
	rnd := rand.NewChaCha8([32]byte{})
	fill := func(l runlog.Log) error {
		noise := make([]byte, 15_000) // which no compression makes smaller
		_, _ = rnd.Read(noise)
		data, err := json.Marshal(noise)
		f.ok(err)
		return l.Append(t.Context(), &runlog.Batch{Records: []runlog.Record{{Kind: runlog.KindEvent, Time: start, Data: data}}})
	}
	for _, id := range []string{"kept", "first", "second"} {
		l := f.create(id)
		for range 20 {
			f.ok(fill(l))
		}
		f.ok(l.Release(t.Context()))
	}
	l := f.create("r")
	f.ok(fill(l))
	f.ok(f.hide("first"))
	f.ok(f.hide("second"))
	ballast, err := os.Create(filepath.Join(dir, "ballast"))
	f.ok(err)
	for b := make([]byte, 4096); err == nil; {
		_, err = ballast.Write(b)
	}
	f.is(err, syscall.ENOSPC)
	f.ok(ballast.Close())
	there := func(id string) bool {
		infos, err := s.Runs(t.Context(), &runlog.Filter{ID: id})
		f.ok(err)
		return len(infos) == 1
	}
	n, alone := 0, 0
	for ; n < 1000; n++ {
		if err = fill(l); err != nil {
			break
		}
		if !there("first") && there("second") {
			alone++
		}
	}
	as[*runlog.StorageError](f, err)
	if there("first") || there("second") || !there("kept") || alone == 0 || f.info("r").Head != uint64(n+1) {
		t.Fatalf("after %d appends, %d of them when one was deleted, there are first %v, second %v, kept %v", n, alone, there("first"), there("second"), there("kept"))
	}
	t.Logf("%d appends of 20 KB on a full disk, %d of them after the first of two hidden runs was deleted", n, alone)
	f.ok(os.Remove(ballast.Name()))
}

// Newcomers checks that a process that opens a store on a full disk, and has no reserve yet, can begin a run while there are hidden ones, and that only as many
// are deleted as that takes.
func Newcomers(t *testing.T, open func(t *testing.T) runlog.Store, full func()) {
	t.Helper()
	t.Run("before", func(t *testing.T) { // at its end the store is closed
		f := &fixture{T: t, store: unlisted.Visible(open(t), nil)}
		rnd := rand.NewChaCha8([32]byte{})
		for _, id := range []string{"first", "second"} {
			noise := make([]byte, 900_000)
			_, _ = rnd.Read(noise)
			data, err := json.Marshal(noise)
			f.ok(err)
			l := f.create(id)
			f.append(l, &runlog.Batch{Records: []runlog.Record{{Kind: runlog.KindEvent, Time: start, Data: data}}})
			f.ok(l.Release(t.Context()))
			f.ok(f.hide(id))
		}
	})
	full()
	f := &fixture{T: t, store: unlisted.Visible(open(t), nil)}
	l := f.create("new")
	f.append(l, &runlog.Batch{Records: records(1)})
	infos, _, err := unlisted.Hidden(t.Context(), f.store, "")
	f.ok(err)
	if len(infos) != 1 || infos[0].ID != "second" {
		t.Errorf("hidden are %+v", infos)
	}
}
