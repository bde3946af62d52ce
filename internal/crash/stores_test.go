//go:build unix

package crash_test

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/crash"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/seal"
)

// Child runs and schedules need nothing of a store but its contract: they work on each, and on an encrypted one.
func TestStores(t *testing.T) {
	for _, b := range backends() {
		t.Run(b.name, func(t *testing.T) { childrenAndSchedules(t, b.open(t).open(t, nil)) })
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
	})
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
