//go:build unix

package crash_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/crash"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/memory"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/seal"
)

// Child runs and schedules need nothing of a store but its contract: they work on each, and on an encrypted one.
func TestStores(t *testing.T) {
	for _, b := range backends() {
		t.Run(b.name, func(t *testing.T) {
			store := b.open(t).open(t, nil)
			childrenAndSchedules(t, store)
			remembers(t, store)
		})
	}
	t.Run("encrypted", func(t *testing.T) {
		keys, err := seal.ParseKeys("0000000000000000000000000000000000000000000000000000000000000001")
		if err != nil {
			t.Fatal(err)
		}
		store, err := crash.Open(t.Context(), "sqlite:"+t.TempDir()+"/runs.sqlite", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func(c io.Closer) { _ = c.Close() }(store)
		sealed, err := seal.New(store, keys...)
		if err != nil {
			t.Fatal(err)
		}
		childrenAndSchedules(t, sealed)
		remembers(t, sealed)
	})
}

// remembers writes values as two processes would, until their log has been replaced by a shorter one.
func remembers(t *testing.T, store runlog.Store) {
	t.Helper()
	var both [2]*memory.Space
	for i := range both {
		var err error
		if both[i], err = memory.New(store, nil).In("users/ada"); err != nil {
			t.Fatal(err)
		}
	}
	const writes = 270
	for n := range writes {
		if err := both[n%2].Put(t.Context(), fmt.Sprint("k", n%3), n, &memory.PutOptions{ID: fmt.Sprint("w", n)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range both {
		if err := s.Put(t.Context(), "k0", 0, &memory.PutOptions{ID: "w0"}); err != nil { // again
			t.Fatal(err)
		}
		for n := writes - 3; n < writes; n++ {
			if got, err := memory.Get[int](t.Context(), s, fmt.Sprint("k", n%3)); err != nil || got != n {
				t.Errorf("k%d is %d, %v; want %d", n%3, got, err, n)
			}
		}
	}
	infos, err := store.Runs(t.Context(), &runlog.Filter{Prefix: "memory--", Status: []runlog.Status{runlog.Importing}})
	if err != nil || len(infos) != 1 || infos[0].Head > writes/2 {
		t.Errorf("the logs are %+v, %v", infos, err)
	}
	if err := both[0].Delete(t.Context(), "k1", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := both[1].Get(t.Context(), "k1"); !errors.As(err, new(*memory.NotFoundError)) {
		t.Error(err)
	}
}

func childrenAndSchedules(t *testing.T, store runlog.Store) {
	t.Helper()
	flows, err := family(func(string, string) {})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 27, 10, 30, 0, 0, time.UTC)
	e, err := superstep.New(store, &superstep.Options{Workflows: flows, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	const n = 3
	s := &superstep.Schedule{ID: "hourly", Workflow: "parent", Inputs: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n)), Cron: "0 * * * *", CatchUp: "2",
		Budget: &runlog.Budget{Tokens: n * leafCost}, Overlap: superstep.OverlapQueue}
	if _, err := e.AddSchedule(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * time.Hour)
	for range 2 { // the second look finds nothing
		runs, err := e.Recover(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range runs {
			if out, err := r.Wait(t.Context()); err != nil || out.Status != runlog.Completed || string(out.Output) != "6" {
				t.Errorf("run %s is %s (%v, %v): %s", r.ID(), out.Status, out.Err, err, out.Output)
			}
		}
		now = now.Add(time.Second)
	}
	infos, err := e.Runs(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var tops []string
	children := map[string]int{}
	for i := range infos {
		if infos[i].IsChild() {
			children[infos[i].Parent]++
			continue
		}
		tops = append(tops, infos[i].ID)
		if spent, err := journal.SpentBy(t.Context(), store, &infos[i]); err != nil || spent.Tokens != n*leafCost {
			t.Errorf("run %s has used %+v (%v)", infos[i].ID, spent, err)
		}
	}
	slices.Sort(tops)
	if want := []string{"hourly-20261127t110000z", "hourly-20261127t120000z"}; !slices.Equal(tops, want) || children[tops[0]] != n || children[tops[1]] != n {
		t.Errorf("the runs are %q with %v children", tops, children)
	}
	all, err := e.Schedules(t.Context())
	if err != nil || len(all) != 1 || all[0].Started != 2 || all[0].Missed+all[0].Skipped > 0 {
		t.Errorf("the schedules are %+v (%v)", all, err)
	}
}
