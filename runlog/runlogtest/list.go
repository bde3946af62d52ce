package runlogtest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/runlog"
)

// hostile are texts that a careless query, pattern or path would interpret.
var hostile = []string{
	"'", `"`, "%", "_", "a%", "a_", "*", "?", "[a-z]", `\`, "--x'", "' OR 1=1 --", "'; DROP TABLE runs; --",
	"../x", "..", "/", "a/b", "a b", "a\x00b", "\x00", "a\n", "a{", "a|b", "$ne", "{}", "🙂", "\xff", "%00",
}

var listCases = []testCase{
	{"newest first", "Runs lists all runs, the newest first, at most Limit", func(f *fixture) {
		f.wantIDs(nil)
		for i := range 5 {
			f.released(fmt.Sprintf("r-%d", (i*3)%5), 1)
		}
		all := []string{"r-2", "r-4", "r-1", "r-3", "r-0"}
		f.wantIDs(nil, all...)
		f.wantIDs(&runlog.Filter{}, all...)
		f.wantIDs(&runlog.Filter{Limit: 2}, all[:2]...)
		f.wantIDs(&runlog.Filter{Limit: 9}, all...)
	}},
	{"heads", "a listed Head is the number of the run's last record, whatever its neighbours have", func(f *fixture) {
		for i, n := range []int{3, 0, 1, 0, 2} {
			f.released(fmt.Sprintf("r-%d", i), n)
		}
		for i, want := range []uint64{3, 0, 1, 0, 2} {
			if got := f.info(fmt.Sprintf("r-%d", i)).Head; got != want {
				f.Errorf("run %d has head %d, want %d", i, got, want)
			}
		}
	}},
	{"filter exactly", "ID and Prefix match exactly: no wildcards, no folding, no more than was asked for", func(f *fixture) {
		for _, id := range []string{"a", "aa", "a-b", "a1", "b", "foo", "foobar", "fooz", "zzz", "z"} {
			f.create(id)
		}
		f.wantIDs(&runlog.Filter{Prefix: "foo"}, "fooz", "foobar", "foo")
		f.wantIDs(&runlog.Filter{Prefix: "z"}, "z", "zzz")
		f.wantIDs(&runlog.Filter{Prefix: "a-"}, "a-b")
		f.wantIDs(&runlog.Filter{Prefix: "foobarx"})
		f.wantIDs(&runlog.Filter{ID: "foo"}, "foo")
		f.wantIDs(&runlog.Filter{ID: "fo"})
		f.wantIDs(&runlog.Filter{ID: "foo", Prefix: "f"}, "foo")
		f.wantIDs(&runlog.Filter{ID: "foo", Prefix: "b"})
		for _, text := range append(hostile, "A", "FOO") {
			f.wantIDs(&runlog.Filter{Prefix: text})
			f.wantIDs(&runlog.Filter{Prefix: "foo" + text})
			f.wantIDs(&runlog.Filter{ID: text})
			f.wantIDs(&runlog.Filter{Status: []runlog.Status{runlog.Status(text)}})
		}
	}},
	{"filter by status", "Status matches any of those given, as listed", func(f *fixture) {
		statuses := []runlog.Status{runlog.Queued, runlog.Running, runlog.Paused, runlog.WaitingStorage, runlog.Completed, runlog.Partial, runlog.Failed, runlog.Cancelled}
		for _, s := range statuses {
			l := f.create("r-" + strings.ReplaceAll(string(s), "_", "-"))
			f.append(l, &runlog.Batch{Status: s})
		}
		for _, s := range statuses {
			f.wantIDs(&runlog.Filter{Status: []runlog.Status{s}}, "r-"+strings.ReplaceAll(string(s), "_", "-"))
		}
		f.wantIDs(&runlog.Filter{Status: []runlog.Status{runlog.Failed, runlog.Paused}}, "r-failed", "r-paused")
		f.wantIDs(&runlog.Filter{Status: []runlog.Status{runlog.Failed, runlog.Paused}, Limit: 1}, "r-failed")
		f.wantIDs(&runlog.Filter{Status: []runlog.Status{runlog.Interrupted}})
		f.wantIDs(&runlog.Filter{Status: []runlog.Status{runlog.Interrupted, runlog.Running}, Prefix: "r-"}, "r-running")
	}},
	{"importing", "a run that is being imported begins with that status, and is listed only by who asks for it", func(f *fixture) {
		f.released("other", 1)
		create := &runlog.AcquireOptions{Create: &runlog.NewRun{Workflow: "w", Status: runlog.Importing}}
		l, info, err := f.store.Acquire(f.Context(), "r", create)
		f.ok(err)
		if info.Status != runlog.Importing {
			f.Fatalf("a new run is %+v", info)
		}
		f.append(l, &runlog.Batch{Records: records(1)})
		hidden := func() {
			f.Helper()
			f.wantIDs(nil, "other")
			f.wantIDs(&runlog.Filter{Limit: 1}, "other")
			f.wantIDs(&runlog.Filter{ID: "r"})
			f.wantIDs(&runlog.Filter{Prefix: "r"})
			f.wantIDs(&runlog.Filter{Status: []runlog.Status{runlog.Interrupted, runlog.Running, runlog.Paused}, ID: "r"})
			f.wantIDs(&runlog.Filter{Status: []runlog.Status{runlog.Importing}}, "r")
			f.wantIDs(&runlog.Filter{Status: []runlog.Status{runlog.Importing}, ID: "r"}, "r")
		}
		hidden()
		f.ok(l.Release(f.Context()))
		hidden()
		_, _, err = f.store.Acquire(f.Context(), "r", create)
		f.is(err, runlog.ErrExists)
		l, info = f.acquire("r")
		if info.Status != runlog.Importing || info.Head != 1 || info.Takeovers != 0 {
			f.Fatalf("it is taken as %+v", info)
		}
		f.append(l, &runlog.Batch{Records: records(1), Status: runlog.Paused})
		f.wantIDs(nil, "r", "other")
		f.wantIDs(&runlog.Filter{Status: []runlog.Status{runlog.Importing}})
	}},
	{"queued", "a queued run stays queued whoever holds it, and a holder that dies is no takeover", func(f *fixture) {
		l := f.create("q")
		f.append(l, &runlog.Batch{Records: records(1), Status: runlog.Queued, Summary: `{"queue":{"place":["gpu"],"priority":3}}`})
		f.wantIDs(&runlog.Filter{Status: []runlog.Status{runlog.Queued}}, "q")
		f.ok(l.Release(f.Context()))
		if got := f.info("q"); got.Status != runlog.Queued || got.Owner != "" || got.Queue() == nil || got.Queue().Priority != 3 {
			f.Fatalf("released it is %+v", got)
		}
		f.wantIDs(&runlog.Filter{Status: []runlog.Status{runlog.Interrupted, runlog.Running}})
		held, info := f.acquire("q")
		if info.Status != runlog.Queued || f.info("q").Status != runlog.Queued || f.info("q").Owner == "" {
			f.Fatalf("held it is %+v", info)
		}
		f.append(held, &runlog.Batch{Status: runlog.Running})
		f.wantIDs(&runlog.Filter{Status: []runlog.Status{runlog.Queued}})
		f.wantIDs(&runlog.Filter{Status: []runlog.Status{runlog.Running}}, "q")
		f.append(held, &runlog.Batch{Status: runlog.Queued})
		f.ok(held.Release(f.Context()))
		f.released("r", 1)
		f.wantIDs(&runlog.Filter{Status: []runlog.Status{runlog.Queued, runlog.Interrupted}}, "r", "q")
		f.wantIDs(&runlog.Filter{Status: []runlog.Status{runlog.Queued}, Limit: 1}, "q")
	}},
	{"status", "an append changes the listed status only if it says so", func(f *fixture) {
		l := f.create("r")
		f.append(l, &runlog.Batch{Records: records(1), Status: runlog.Paused})
		f.append(l, &runlog.Batch{Records: records(1)})
		if got := f.info("r"); got.Status != runlog.Paused || got.Head != 2 || got.Updated.Before(got.Created) {
			f.Fatalf("listed %+v", got)
		}
		f.append(l, &runlog.Batch{Status: runlog.Completed})
		if got := f.info("r"); got.Status != runlog.Completed || got.Head != 2 {
			f.Fatalf("listed %+v", got)
		}
	}},
	{"summary", "a listed summary is the last that a batch had; only the holder writes it, one that is too long is refused, and Delete removes it", func(f *fixture) {
		summary := func(want string) {
			f.Helper()
			if got := f.info("r").Summary; got != want {
				f.Fatalf("the summary is %q, want %q", got, want)
			}
		}
		give := func(l runlog.Log, s string, n int, status runlog.Status) error {
			return l.Append(f.Context(), &runlog.Batch{Records: records(n), Summary: s, Status: status})
		}
		first := `{"s":"é \u0000 '\"%%_"}`
		longest := `{"s":"` + strings.Repeat("x", runlog.MaxSummary-64-8) + `"}`
		l := f.create("r")
		f.released("other", 2)
		summary("")
		f.append(l, &runlog.Batch{Records: records(1)})
		summary("")
		f.ok(give(l, first, 2, ""))
		f.ok(give(l, "", 2, ""))
		f.ok(give(l, "", 1, runlog.Paused))
		summary(first)
		if err := give(l, `{"s":"`+strings.Repeat("x", runlog.MaxSummary)+`"}`, 1, runlog.Failed); err == nil {
			f.Fatal("a summary that is too long was taken")
		}
		bad := records(2)
		bad[1].Kind = ""
		if err := l.Append(f.Context(), &runlog.Batch{Records: bad, Summary: `{}`}); err == nil {
			f.Fatal("a record without a kind was stored")
		}
		summary(first)
		if got := f.info("r"); got.Head != 6 || got.Status != runlog.Paused {
			f.Fatalf("refused batches left %+v", got)
		}
		f.ok(give(l, `{"n":1}`, 0, runlog.Running)) // without records
		f.ok(give(l, longest, 0, ""))
		f.ok(give(l, "", 30, "")) // in several rows, where a store has any
		summary(longest)
		if got := f.again().info("r"); got.Summary != longest || f.info("other").Summary != "" {
			f.Fatalf("another store over the same data lists %q", got.Summary)
		}
		f.ok(l.Release(f.Context()))
		l, info := f.acquire("r")
		if info.Summary != longest {
			f.Fatalf("the next holder is told %q", info.Summary)
		}
		f.ok(f.store.RequestCancel(f.Context(), "r"))
		f.append(l, &runlog.Batch{Records: records(1)})
		summary(longest)
		if e, ok := f.store.(expirer); ok {
			e.Expire(f.T, "r")
			next, _ := f.acquire("r")
			f.is(give(l, `{"stale":1}`, 1, ""), runlog.ErrFenced)
			summary(longest)
			l = next
		}
		f.ok(give(l, first, 1, runlog.Completed))
		summary(first)
		f.ok(l.Release(f.Context()))
		summary(first)
		f.ok(f.store.Delete(f.Context(), "r"))
		f.create("r")
		summary("")
	}},
	{"parent", "a fork is listed with its parent, whether that is there or not", func(f *fixture) {
		f.released("a", 1)
		l, info, err := f.store.Acquire(f.Context(), "b", &runlog.AcquireOptions{Create: &runlog.NewRun{Workflow: "w", Parent: "a"}})
		f.ok(err)
		f.ok(l.Release(f.Context()))
		f.ok(f.store.Delete(f.Context(), "a"))
		if _, again := f.acquire("b"); info.Parent != "a" || again.Parent != "a" || f.info("b").Parent != "a" {
			f.Fatalf("listed %+v", f.info("b"))
		}
	}},
	{"sizes", "Sizes tells the room of each run that has records, in proportion to them, as filtered", func(f *fixture) {
		z, ok := runlog.As[runlog.Sizer](f.store)
		if !ok {
			f.Skipf("%T is no Sizer", f.store)
		}
		f.released("small", 1)
		f.released("none", 0)
		l := f.create("large")
		noise := make([]byte, 150_000) // which no compression makes smaller
		_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
		data, err := json.Marshal(noise)
		f.ok(err)
		f.append(l, &runlog.Batch{Records: []runlog.Record{{Kind: runlog.KindEvent, Time: start, Data: data}}})
		sizes, err := z.Sizes(f.Context(), nil)
		f.ok(err)
		if len(sizes) != 2 || sizes["small"] < 10 || sizes["small"] > 20_000 || sizes["large"] < 140_000 || sizes["large"] > 900_000 {
			f.Fatalf("the sizes are %v", sizes)
		}
		sizes, err = z.Sizes(f.Context(), &runlog.Filter{ID: "small"})
		f.ok(err)
		if len(sizes) != 1 || sizes["small"] == 0 {
			f.Fatalf("the size of small is %v", sizes)
		}
	}},
	{"reclaim", "giving room back loses nothing, while runs go on", func(f *fixture) {
		rc, ok := runlog.As[runlog.Reclaimer](f.store)
		if !ok {
			f.Skipf("%T is no Reclaimer", f.store)
		}
		f.released("kept", 3)
		l := f.create("held")
		for i := range 5 {
			id := fmt.Sprintf("gone-%d", i)
			f.released(id, 50)
			f.ok(f.store.Delete(f.Context(), id))
		}
		freed, err := rc.Reclaim(f.Context())
		f.ok(err)
		if freed < 0 {
			f.Fatalf("%d bytes were freed", freed)
		}
		f.append(l, &runlog.Batch{Records: records(2)})
		f.seqs(f.read("held", 1, 9), 1, 2)
		f.seqs(f.read("kept", 1, 9), 1, 3)
		f.wantIDs(nil, "held", "kept")
	}},
	{"snapshot pointer", "Snapshot is the number of the last snapshot record, for listings and for the next holder", func(f *fixture) {
		l := f.create("r")
		recs := records(4)
		recs[1].Kind, recs[2].Kind = runlog.KindSnapshot, runlog.KindSnapshot
		f.append(l, &runlog.Batch{Records: recs})
		f.append(l, &runlog.Batch{Records: records(2)})
		if got := f.info("r").Snapshot; got != 3 {
			f.Fatalf("listed snapshot %d, want 3", got)
		}
		f.ok(l.Release(f.Context()))
		if _, info := f.acquire("r"); info.Snapshot != 3 || info.Head != 6 {
			f.Fatalf("the next holder got %+v", info)
		}
	}},
	{"delete", "a deleted run is gone with its records; its neighbours are not, and a new run of that ID starts afresh", func(f *fixture) {
		for _, id := range []string{"a", "b", "c"} {
			f.released(id, 3)
		}
		f.ok(f.store.Delete(f.Context(), "b"))
		f.wantIDs(nil, "c", "a")
		for _, id := range []string{"a", "c"} {
			f.seqs(f.read(id, 1, 9), 1, 3)
		}
		as[*runlog.NotFoundError](f, f.store.Delete(f.Context(), "b"))
		l := f.create("b")
		if got := f.info("b"); got.Epoch != 1 || got.Head != 0 {
			f.Fatalf("the new run is %+v", got)
		}
		f.append(l, &runlog.Batch{Records: records(1)})
		f.seqs(f.read("b", 1, 9), 1, 1)
		if got := f.ids(nil); !slices.Contains(got, "b") {
			f.Fatalf("listed %q", got)
		}
	}},
	{"delete fences", "whoever held a run when it was deleted cannot write into a later run of that ID", func(f *fixture) {
		ex := f.expirer()
		stale := f.create("r")
		f.append(stale, &runlog.Batch{Records: records(1)})
		ex.Expire(f.T, "r")
		f.ok(f.store.Delete(f.Context(), "r"))
		f.is(stale.Append(f.Context(), &runlog.Batch{Records: records(1)}), runlog.ErrFenced)
		f.create("r")
		f.is(stale.Append(f.Context(), &runlog.Batch{Records: records(1)}), runlog.ErrFenced)
		_, err := stale.Renew(f.Context())
		f.is(err, runlog.ErrFenced)
		if head := f.info("r").Head; head != 0 {
			f.Fatalf("the new run has %d records", head)
		}
	}},
}
