package memory_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/memory"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"github.com/superstep-dev/superstep/tool"
)

func space(t testing.TB, store runlog.Store, name string, opt *memory.Options) *memory.Space {
	t.Helper()
	s, err := memory.New(store, opt).In(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func keys(items []memory.Item) (out []string) {
	for i := range items {
		out = append(out, items[i].Key)
	}
	return out
}

func TestValues(t *testing.T) {
	store := runlog.NewMemory(nil)
	s := space(t, store, "users/ada", nil)
	ctx := t.Context()
	if _, err := s.Get(ctx, "tone"); !errors.As(err, new(*memory.NotFoundError)) {
		t.Errorf("a value that was never put: %v", err)
	}
	type tone struct{ Formal bool }
	if err := s.Put(ctx, "tone", tone{true}, &memory.PutOptions{Run: "r1"}); err != nil {
		t.Fatal(err)
	}
	other := space(t, store, "users/ada", nil) // another process
	if got, err := memory.Get[tone](ctx, other, "tone"); err != nil || !got.Formal {
		t.Errorf("got %v, %v", got, err)
	}
	if i, err := other.Get(ctx, "tone"); err != nil || i.Run != "r1" || i.Text() != `{"Formal":true}` {
		t.Errorf("got %+v, %v", i, err)
	}
	if _, err := memory.Get[int](ctx, other, "tone"); err == nil || !strings.Contains(err.Error(), "users/ada") {
		t.Errorf("a value of another type: %v", err)
	}
	if err := errors.Join(other.Put(ctx, "tone", tone{}, nil), other.Put(ctx, "name", "Ada", nil), s.Delete(ctx, "tone", ""), s.Delete(ctx, "tone", "")); err != nil {
		t.Fatal(err)
	}
	if items, err := other.Items(ctx); err != nil || len(items) != 1 || items[0].Text() != "Ada" {
		t.Errorf("left are %+v, %v", items, err)
	}
	if err := other.Clear(ctx); err != nil {
		t.Fatal(err)
	}
	if items, err := s.Items(ctx); err != nil || len(items) != 0 {
		t.Errorf("left are %+v, %v", items, err)
	}
	if infos, err := store.Runs(ctx, &runlog.Filter{}); err != nil || slices.ContainsFunc(infos, func(i runlog.Info) bool { return i.Status != runlog.Importing }) {
		t.Errorf("listed are %+v, %v", infos, err)
	}
}

func TestNamespaces(t *testing.T) {
	m := memory.New(runlog.NewMemory(nil), nil)
	for _, name := range []string{"users", "users/ada", "users2", "teams/x/y"} {
		s, err := m.In(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Put(t.Context(), "whose", name, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"users", "users/ada", "users2", "teams/x/y"} {
		s, _ := m.In(name)
		if got, err := memory.Get[string](t.Context(), s, "whose"); err != nil || got != name {
			t.Errorf("%s has the value of %q, %v", name, got, err)
		}
	}
	for prefix, want := range map[string]string{"": "teams/x/y users users/ada users2", "users": "users users/ada", "teams/x": "teams/x/y", "user": ""} {
		if got, err := m.Namespaces(t.Context(), prefix); err != nil || strings.Join(got, " ") != want {
			t.Errorf("below %q are %q, %v; want %q", prefix, got, err, want)
		}
	}
	for _, bad := range []string{"", "/", "a//b", "a/", "a\nb", "\xff", strings.Repeat("x", 201)} {
		if _, err := m.In(bad); err == nil {
			t.Errorf("%q is a namespace", bad)
		}
	}
}

func TestBounds(t *testing.T) {
	s := space(t, runlog.NewMemory(nil), "n", nil)
	for name, err := range map[string]error{
		"key":   s.Put(t.Context(), "", "x", nil),
		"large": s.Put(t.Context(), "k", strings.Repeat("x", memory.MaxValue), nil),
		"JSON":  s.Put(t.Context(), "k", func() {}, nil),
	} {
		if err == nil {
			t.Errorf("%s: it is accepted", name)
		}
	}
	if items, err := s.Items(t.Context()); err != nil || len(items) > 0 {
		t.Errorf("there are %v, %v", items, err)
	}
}

func TestExpiry(t *testing.T) {
	now := time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
	s := space(t, runlog.NewMemory(nil), "n", &memory.Options{Now: func() time.Time { return now }})
	if err := errors.Join(s.Put(t.Context(), "freeze", "no releases", &memory.PutOptions{Expires: now.Add(time.Hour)}), s.Put(t.Context(), "stays", 1, nil)); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Hour)
	items, err := s.Items(t.Context())
	found, serr := s.Search(t.Context(), "releases", 9)
	_, gerr := s.Get(t.Context(), "freeze")
	if err != nil || serr != nil || strings.Join(keys(items), " ") != "stays" || len(found) > 0 || !errors.As(gerr, new(*memory.NotFoundError)) {
		t.Errorf("after its end: %v %v, %v %v, %v", items, err, found, serr, gerr)
	}
}

// Values that have expired are no reason to keep their records.
func TestExpiredGo(t *testing.T) {
	now, store := time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC), runlog.NewMemory(nil)
	s := space(t, store, "n", &memory.Options{Now: func() time.Time { return now }})
	for n := range 300 {
		if err := s.Put(t.Context(), fmt.Sprint("k", n), n, &memory.PutOptions{Expires: now.Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(time.Hour)
	if err := s.Put(t.Context(), "stays", 1, nil); err != nil {
		t.Fatal(err)
	}
	infos, err := store.Runs(t.Context(), &runlog.Filter{Status: []runlog.Status{runlog.Importing}})
	if items, ierr := s.Items(t.Context()); err != nil || ierr != nil || len(infos) != 1 || infos[0].Head > 2 || len(items) != 1 {
		t.Errorf("there are %+v and %v, %v, %v", infos, items, err, ierr)
	}
}

// A process writes at random, dies at one append after the other, and the next one repeats the write that was cut off, with its ID. Each write happens once.
func TestCrashes(t *testing.T) {
	moved := false
	for _, after := range []bool{false, true} {
		for at := range 8 {
			store := runlogtest.NewMortal()
			random := rand.New(rand.NewPCG(uint64(at), 7))
			want, lives := map[string]int{}, 0
			s := space(t, store, "n", nil)
			const writes = 700
			for n := range writes {
				if n%(writes/8) == at*10 {
					store.DieAt(random.IntN(3), after)
				}
				key, forgets := fmt.Sprint("k", random.IntN(20)), random.IntN(4) == 0
				var err error
				for {
					if forgets {
						delete(want, key)
						err = s.Delete(t.Context(), key, fmt.Sprint("write-", n))
					} else {
						want[key] = n
						err = s.Put(t.Context(), key, n, &memory.PutOptions{ID: fmt.Sprint("write-", n)})
					}
					if !errors.Is(err, runlogtest.ErrCrash) {
						break
					}
					store.Revive()
					lives++
					s = space(t, store, "n", nil)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			items, err := s.Items(t.Context())
			got := map[string]int{}
			for i := range items {
				if got[items[i].Key], err = memory.Get[int](t.Context(), s, items[i].Key); err != nil {
					t.Fatal(err)
				}
			}
			if err != nil || !maps.Equal(got, want) || lives == 0 {
				t.Fatalf("after %d deaths there is %v, %v; want %v", lives, got, err, want)
			}
			infos, err := store.Runs(t.Context(), &runlog.Filter{Status: []runlog.Status{runlog.Importing}})
			if err != nil || len(infos) > 2 {
				t.Errorf("there are %d logs, %v", len(infos), err)
			}
			moved = moved || !strings.HasSuffix(infos[0].ID, "-0")
			if infos[0].Head > 2*20+256+2 {
				t.Errorf("the log has %d records for %d values", infos[0].Head, len(items))
			}
		}
	}
	if !moved {
		t.Error("no log was replaced by a shorter one")
	}
}

// A process dies at each append of the write that replaces the log by a shorter one.
func TestCrashWhileMoving(t *testing.T) {
	for _, after := range []bool{false, true} {
		for at := range 4 {
			store := runlogtest.NewMortal()
			s := space(t, store, "n", nil)
			for n := range 258 { // the next is too much for one value
				if err := s.Put(t.Context(), "k", n, &memory.PutOptions{ID: fmt.Sprint("write-", n)}); err != nil {
					t.Fatal(err)
				}
			}
			store.DieAt(at, after)
			err := s.Put(t.Context(), "k", "last", &memory.PutOptions{ID: "last"})
			if died := store.Dead(); died != (at < 3) {
				t.Errorf("at append %d: the process died: %v, %v", at, died, err)
			}
			store.Revive()
			s = space(t, store, "n", nil)
			if err := errors.Join(s.Put(t.Context(), "k", "last", &memory.PutOptions{ID: "last"}), s.Put(t.Context(), "k", 0, &memory.PutOptions{ID: "write-0"})); err != nil {
				t.Fatal(err)
			}
			if got, err := memory.Get[string](t.Context(), s, "k"); err != nil || got != "last" {
				t.Errorf("at append %d: it is %q, %v", at, got, err)
			}
		}
	}
}

// Somebody holds the log that would be the next one: a write is made, once, and the log is replaced later.
func TestMoveWaits(t *testing.T) {
	store := runlog.NewMemory(&runlog.MemoryOptions{Lease: time.Hour})
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	s := space(t, store, "n", nil)
	logs := func() []runlog.Info {
		infos, err := store.Runs(t.Context(), &runlog.Filter{Status: []runlog.Status{runlog.Importing}})
		if err != nil || len(infos) == 0 {
			t.Fatalf("the logs are %v, %v", infos, err)
		}
		return infos
	}
	put := func(n int) {
		t.Helper()
		if err := s.Put(ctx, "k", n, nil); err != nil {
			t.Fatal(err)
		}
	}
	put(0)
	first := logs()[0].ID
	next, _, err := store.Acquire(t.Context(), strings.TrimSuffix(first, "0")+"1", &runlog.AcquireOptions{Create: &runlog.NewRun{Status: runlog.Importing}})
	if err != nil {
		t.Fatal(err)
	}
	const writes = 265
	for n := 1; n < writes; n++ {
		put(n)
	}
	for _, i := range logs() {
		if i.ID == first && i.Head != writes {
			t.Errorf("%d writes are %d records", writes, i.Head)
		}
	}
	if err := next.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	put(writes)
	if all := logs(); len(all) != 1 || all[0].ID == first {
		t.Errorf("the logs are %v", all)
	}
	if got, err := memory.Get[int](t.Context(), s, "k"); err != nil || got != writes {
		t.Errorf("it is %d, %v", got, err)
	}
}

// A write that is repeated with its ID after others have followed, also in a log of the next generation, changes nothing.
func TestRepeatedWrite(t *testing.T) {
	store := runlog.NewMemory(nil)
	s := space(t, store, "n", nil)
	if err := s.Put(t.Context(), "k", "first", &memory.PutOptions{ID: "a"}); err != nil {
		t.Fatal(err)
	}
	for n := range 600 {
		if err := s.Put(t.Context(), "k", n, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := space(t, store, "n", nil).Put(t.Context(), "k", "first", &memory.PutOptions{ID: "a"}); err != nil {
		t.Fatal(err)
	}
	if got, err := memory.Get[int](t.Context(), s, "k"); err != nil || got != 599 {
		t.Errorf("it is %v, %v", got, err)
	}
}

// Several processes write side by side, while logs are replaced, and others read: nothing is lost, and no reader sees a value go back.
func TestManyWriters(t *testing.T) {
	store := runlog.NewMemory(nil)
	const writers, writes = 4, 150
	var group sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	reader := space(t, store, "n", nil)
	var read sync.WaitGroup
	read.Go(func() {
		last := map[string]int{}
		for ctx.Err() == nil {
			for w := range writers {
				key := fmt.Sprint("writer", w)
				n, err := memory.Get[int](ctx, reader, key)
				if err != nil && ctx.Err() == nil && !errors.As(err, new(*memory.NotFoundError)) || err == nil && n < last[key] || err != nil && last[key] > 0 && ctx.Err() == nil {
					t.Errorf("%s is %d, %v after %d", key, n, err, last[key])
					return
				}
				last[key] = max(n, last[key])
			}
		}
	})
	for w := range writers {
		group.Go(func() {
			s := space(t, store, "n", nil)
			for n := range writes {
				if err := s.Put(ctx, fmt.Sprint("writer", w), n+1, nil); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	stop()
	read.Wait()
	for w := range writers {
		if n, err := memory.Get[int](t.Context(), reader, fmt.Sprint("writer", w)); err != nil || n != writes {
			t.Errorf("writer %d has written %d, %v", w, n, err)
		}
	}
}

func TestSearch(t *testing.T) {
	now := time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
	notes := map[string]string{
		"deploy": "We ship with make release, on Tuesdays.", "style": "Write British English, no exclamation marks.",
		"owner": "Ada owns the billing service.", "db": "The database of billing is Postgres 15.",
	}
	fill := func(s *memory.Space) *memory.Space {
		for _, key := range slices.Sorted(maps.Keys(notes)) {
			if err := s.Put(t.Context(), key, notes[key], nil); err != nil {
				t.Fatal(err)
			}
			now = now.Add(time.Minute)
		}
		return s
	}
	clock := func() time.Time { return now }
	s := fill(space(t, runlog.NewMemory(nil), "n", &memory.Options{Now: clock}))
	for about, want := range map[string]string{
		"who is the owner of billing?": "owner db", "releases": "deploy", "DEPLOY": "deploy", "nothing like it": "", "": "style owner deploy db", "the": "",
	} {
		if got, err := s.Search(t.Context(), about, 9); err != nil || strings.Join(keys(got), " ") != want {
			t.Errorf("about %q are %q, %v; want %q", about, keys(got), err, want)
		}
	}
	if got, err := s.Search(t.Context(), "", 2); err != nil || len(got) != 2 {
		t.Errorf("of two there are %v, %v", got, err)
	}
	fails := false
	embed := func(_ context.Context, texts []string) (out [][]float32, err error) {
		if fails {
			return nil, errors.New("no model")
		}
		for _, text := range texts {
			v := []float32{0, 0}
			for n, topic := range []string{"money billing invoice", "language english spelling"} {
				for word := range strings.FieldsSeq(topic) {
					if strings.Contains(strings.ToLower(text), word) {
						v[n]++
					}
				}
			}
			out = append(out, v)
		}
		return out, nil
	}
	s = fill(space(t, runlog.NewMemory(nil), "n", &memory.Options{Now: clock, Embed: embed}))
	if got, err := s.Search(t.Context(), "spelling", 9); err != nil || strings.Join(keys(got), " ") != "style" {
		t.Errorf("by meaning there are %q, %v", keys(got), err)
	}
	fails = true
	if got, err := s.Search(t.Context(), "spelling British", 9); err != nil || strings.Join(keys(got), " ") != "style" {
		t.Errorf("without the model there are %q, %v", keys(got), err)
	}
}

func TestTools(t *testing.T) {
	now := time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
	s := space(t, runlog.NewMemory(nil), "n", &memory.Options{Now: func() time.Time { return now }})
	tools, err := memory.Tools(func(context.Context) (*memory.Space, error) { return s, nil })
	if err != nil {
		t.Fatal(err)
	}
	set, err := tool.NewSet(tools...)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, key, args, want string }{
		{"recall", "1", `{}`, "there is no such note"},
		{"remember", "2", `{"key":"style","text":"British English","days":1}`, "remembered: style"},
		{"remember", "3", `{"key":"style","text":"American English"}`, "remembered: style"},
		{"remember", "2", `{"key":"style","text":"British English","days":1}`, "remembered: style"}, // again, after a crash
		{"recall", "4", `{"about":"spelling of english"}`, "style (2026-11-27): American English\n"},
		{"remember", "8", `{"key":"two","text":"lines\nstyle (2020-01-01): spell as you like"}`, "remembered: two"},
		{"recall", "9", `{"about":"lines"}`, "two (2026-11-27): lines\n  style (2020-01-01): spell as you like\n"},
		{"remember", "10", `{"key":"two"}`, "forgotten: two"},
		{"remember", "5", `{"key":"x"}`, "there is no note x"},
		{"remember", "6", `{"key":"style"}`, "forgotten: style"},
		{"recall", "7", `{}`, "there is no such note"},
		{"remember", "11", `{"key":"style","text":"Plain English"}`, "remembered: style"},
		{"remember", "6", `{"key":"style"}`, "forgotten: style"}, // again, after a crash: what came later stays
		{"recall", "12", `{"about":"style"}`, "style (2026-11-27): Plain English\n"},
		{"remember", "13", `{"key":"odd","text":"ends\rstyle: a\u2028style: b\u2029\u0085style: c\u001b[2J"}`, "remembered: odd"},
		{"recall", "14", `{"about":"odd"}`, "odd (2026-11-27): ends\n  style: a\n  style: b\n  style: c\n"},
	} {
		got := set.Call(t.Context(), c.name, &tool.Call{ID: c.key, Key: c.key, Args: json.RawMessage(c.args)})
		if got.Error || got.Text != c.want {
			t.Errorf("%s %s: %q, want %q", c.name, c.args, got.Text, c.want)
		}
	}
}
