package superstep_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/redact"
	"github.com/superstep-dev/superstep/workflow"
)

// A clock is set by a test.
type clock struct{ unix atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(0, c.unix.Load()) }
func (c *clock) set(t time.Time)         { c.unix.Store(t.UnixNano()) }
func (c *clock) advance(d time.Duration) { c.unix.Add(int64(d)) }

func clockAt(t testing.TB, at string) *clock {
	t.Helper()
	when, err := time.Parse(time.RFC3339, at)
	if err != nil {
		t.Fatal(err)
	}
	c := &clock{}
	c.set(when)
	return c
}

// worker returns an engine that is asked to look once at a time.
func worker(t testing.TB, store runlog.Store, now func() time.Time, w ...*workflow.Workflow) *superstep.Engine {
	t.Helper()
	e, err := superstep.New(store, &superstep.Options{Workflows: w, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// look lets a worker look once, and waits for the runs that it takes.
func look(t testing.TB, e *superstep.Engine, opt *superstep.RecoverOptions) {
	t.Helper()
	runs, err := e.Recover(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		if _, err := r.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func nightly() *superstep.Schedule {
	return &superstep.Schedule{ID: "nightly", Workflow: "job", Inputs: json.RawMessage(`{"task":"tidy up"}`), Cron: "0 3 * * *"}
}

func add(t testing.TB, e *superstep.Engine, s *superstep.Schedule) *superstep.Schedule {
	t.Helper()
	got, err := e.AddSchedule(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func only(t testing.TB, e *superstep.Engine) *superstep.Schedule {
	t.Helper()
	all, err := e.Schedules(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatalf("%d schedules, %v", len(all), err)
	}
	return &all[0]
}

func runIDs(t testing.TB, e *superstep.Engine) []string {
	t.Helper()
	infos, err := e.Runs(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]string, len(infos))
	for i := range infos {
		ids[i] = infos[i].ID
	}
	slices.Sort(ids)
	return ids
}

func wantRuns(t testing.TB, e *superstep.Engine, want ...string) {
	t.Helper()
	if got := runIDs(t, e); !slices.Equal(got, want) {
		t.Fatalf("the runs are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A schedule starts a run at each of its times, and the run has its inputs.
func TestSchedule(t *testing.T) {
	t.Parallel()
	c := clockAt(t, "2026-11-27T10:00:00Z")
	store := runlog.NewMemory(&runlog.MemoryOptions{Now: c.now})
	e := worker(t, store, c.now, (&rig{}).workflow(t))
	s := nightly()
	s.Zone, s.Budget = "Europe/Berlin", &runlog.Budget{Tokens: 1000}
	got := add(t, e, s)
	if up := got.Upcoming(2); len(up) != 2 || up[0].Format(time.RFC3339) != "2026-11-28T03:00:00+01:00" {
		t.Fatalf("upcoming: %v", up)
	}
	look(t, e, nil)
	wantRuns(t, e)
	var scheduled []string
	opt := &superstep.RecoverOptions{Scheduled: func(schedule, run string) { scheduled = append(scheduled, schedule+" "+run) }}
	c.advance(16 * time.Hour) // 02:00 UTC
	look(t, e, opt)
	look(t, e, opt)
	wantRuns(t, e, "nightly-20261128t020000z")
	if !slices.Equal(scheduled, []string{"nightly nightly-20261128t020000z"}) {
		t.Errorf("told of %q", scheduled)
	}
	started, err := runlog.Started(t.Context(), store, "nightly-20261128t020000z")
	if err != nil || string(started.Inputs) != `{"task":"tidy up"}` || started.Budget == nil || started.Budget.Tokens != 1000 {
		t.Errorf("it was started with %+v, %v", started, err)
	}
	if i := info(t, e, "nightly-20261128t020000z"); i.Status != runlog.Completed {
		t.Errorf("it is %s", i.Status)
	}
	now := only(t, e)
	if now.Started != 1 || now.Last != "nightly-20261128t020000z" || now.Missed+now.Skipped > 0 || now.Due.Format(time.RFC3339) != "2026-11-29T02:00:00Z" {
		t.Errorf("its state is %+v", now.ScheduleState)
	}
}

// A schedule that is added again is the same; one that differs is refused, with the difference.
func TestAddScheduleAgain(t *testing.T) {
	t.Parallel()
	c := clockAt(t, "2026-11-27T10:00:00Z")
	store := redact.Store(runlog.NewMemory(nil), redact.New(redact.Secret{Name: "PASSWORD", Value: "hunter2-hunter2"}))
	e := worker(t, store, c.now, (&rig{}).workflow(t))
	s := nightly()
	s.Inputs = json.RawMessage(`{"task":"the password is hunter2-hunter2"}`)
	first := add(t, e, s)
	if strings.Contains(string(first.Inputs), "hunter2") {
		t.Errorf("a secret is stored: %s", first.Inputs)
	}
	c.advance(time.Hour)
	if again := add(t, e, s); !again.Created.Equal(first.Created) || !again.Due.Equal(first.Due) {
		t.Errorf("it was replaced: %+v", again)
	}
	s.Cron = "0 4 * * *"
	if _, err := e.AddSchedule(t.Context(), s); err == nil || !strings.Contains(err.Error(), `its cron is "0 3 * * *", not "0 4 * * *"; remove it first`) {
		t.Error(err)
	}
	if err := e.RemoveSchedule(t.Context(), "nightly"); err != nil {
		t.Fatal(err)
	}
	add(t, e, s)
	if _, err := e.Prune(t.Context(), superstep.Retention{Newest: 1}); err != nil {
		t.Fatal(err)
	}
	if got := only(t, e); got.Cron != "0 4 * * *" {
		t.Errorf("it is %+v", got)
	}
	if err := e.RemoveSchedule(t.Context(), "nightli"); err == nil || !strings.Contains(err.Error(), `there is no schedule "nightli"; did you mean "nightly"?`) {
		t.Error(err)
	}
}

// All mistakes of a schedule are reported when it is added, each with what to do.
func TestAddScheduleErrors(t *testing.T) {
	t.Parallel()
	e := worker(t, runlog.NewMemory(nil), time.Now, (&rig{}).workflow(t))
	for _, x := range []struct {
		want string
		mend func(*superstep.Schedule)
	}{
		{`its name: use 1 to 40 of a-z`, func(s *superstep.Schedule) { s.ID = "Nightly" }},
		{`its name`, func(s *superstep.Schedule) { s.ID = "" }},
		{`its name`, func(s *superstep.Schedule) { s.ID = "a--b" }},
		{`its name`, func(s *superstep.Schedule) { s.ID = strings.Repeat("a", 41) }},
		{`hour (0-23) is "25"`, func(s *superstep.Schedule) { s.Cron = "0 25 * * *" }},
		{`time zone "Mars/Olympus" is unknown`, func(s *superstep.Schedule) { s.Zone = "Mars/Olympus" }},
		{`jitter 24h0m0s: want less than the shortest time between two ticks, 24h0m0s`, func(s *superstep.Schedule) { s.Jitter = 24 * time.Hour }},
		{`jitter -1s`, func(s *superstep.Schedule) { s.Jitter = -time.Second }},
		{`catch-up "often": want how many`, func(s *superstep.Schedule) { s.CatchUp = "often" }},
		{`overlap "skp": want skip, queue, cancel; did you mean "skip"?`, func(s *superstep.Schedule) { s.Overlap = "skp" }},
		{`jobb`, func(s *superstep.Schedule) { s.Workflow = "jobb" }},
		{`task`, func(s *superstep.Schedule) { s.Inputs = json.RawMessage(`{}`) }},
		{`place has the label "GPU"`, func(s *superstep.Schedule) { s.Place = []string{"GPU"} }},
	} {
		s := nightly()
		x.mend(s)
		if _, err := e.AddSchedule(t.Context(), s); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%+v: %v, want %q", s, err, x.want)
		}
	}
	if all, err := e.Schedules(t.Context()); len(all) > 0 || err != nil {
		t.Errorf("there are %d schedules, %v", len(all), err)
	}
}

// At a tick while the last run is unfinished, overlap decides.
func TestScheduleOverlap(t *testing.T) {
	t.Parallel()
	for overlap, want := range map[string]struct {
		runs             int
		started, skipped int
		first            runlog.Status
	}{
		superstep.OverlapSkip:   {1, 1, 1, runlog.Paused},
		superstep.OverlapQueue:  {2, 2, 0, runlog.Paused},
		superstep.OverlapCancel: {2, 2, 0, runlog.Cancelled},
	} {
		t.Run(overlap, func(t *testing.T) {
			t.Parallel()
			c := clockAt(t, "2026-11-27T10:00:00Z")
			e := worker(t, runlog.NewMemory(&runlog.MemoryOptions{Now: c.now}), c.now, (&rig{second: asksWhich}).workflow(t))
			s := nightly()
			s.Overlap = overlap
			add(t, e, s)
			for range 2 {
				c.advance(24 * time.Hour)
				look(t, e, nil)
			}
			got := only(t, e)
			if ids := runIDs(t, e); len(ids) != want.runs || info(t, e, ids[0]).Status != want.first {
				t.Errorf("the runs are %q, the first is %s", ids, info(t, e, ids[0]).Status)
			}
			if got.Started != want.started || got.Skipped != want.skipped || want.skipped > 0 && got.Why != "run nightly-20261128t030000z is paused" {
				t.Errorf("its state is %+v", got.ScheduleState)
			}
		})
	}
}

// Ticks for which no worker was there in time are caught up as the schedule says, in order; others are counted.
func TestScheduleCatchUp(t *testing.T) {
	t.Parallel()
	for catchUp, want := range map[string][]string{
		"":    {"1130"},
		"0":   nil,
		"2":   {"1129", "1130"},
		"30h": {"1129", "1130"},
		"99":  {"1128", "1129", "1130"},
	} {
		t.Run(catchUp, func(t *testing.T) {
			t.Parallel()
			c := clockAt(t, "2026-11-27T10:00:00Z")
			e := worker(t, runlog.NewMemory(&runlog.MemoryOptions{Now: c.now}), c.now, (&rig{}).workflow(t))
			s := nightly()
			s.CatchUp, s.Overlap = catchUp, superstep.OverlapQueue
			add(t, e, s)
			c.advance(72*time.Hour - 2*time.Hour)
			var order []string
			look(t, e, &superstep.RecoverOptions{Scheduled: func(_, run string) { order = append(order, run[len("nightly-2026"):][:4]) }})
			if got := only(t, e); !slices.Equal(order, want) || got.Missed != 3-len(want) || got.Started != len(want) {
				t.Errorf("caught up %q, state %+v", order, got.ScheduleState)
			}
			c.advance(19*time.Hour + 50*time.Second) // 50 seconds late is in time
			look(t, e, nil)
			if got := only(t, e); got.Missed != 3-len(want) || got.Started != len(want)+1 {
				t.Errorf("later, the state is %+v", got.ScheduleState)
			}
		})
	}
}

// A paused schedule starts nothing, and catches nothing up afterwards.
func TestPauseSchedule(t *testing.T) {
	t.Parallel()
	c := clockAt(t, "2026-11-27T10:00:00Z")
	e := worker(t, runlog.NewMemory(&runlog.MemoryOptions{Now: c.now}), c.now, (&rig{}).workflow(t))
	add(t, e, nightly())
	pause := func(paused bool) {
		t.Helper()
		for range 2 {
			if err := e.PauseSchedule(t.Context(), "nightly", paused); err != nil {
				t.Fatal(err)
			}
		}
	}
	pause(true)
	c.advance(48 * time.Hour)
	look(t, e, nil)
	if got := only(t, e); len(got.Upcoming(3)) > 0 || !got.Paused {
		t.Errorf("it is %+v", got)
	}
	pause(false)
	look(t, e, nil)
	wantRuns(t, e)
	c.advance(24 * time.Hour)
	look(t, e, nil)
	wantRuns(t, e, "nightly-20261130t030000z")
}

// The delays of ticks differ, do not depend on the worker, and stay below the jitter.
func TestScheduleJitter(t *testing.T) {
	t.Parallel()
	c := clockAt(t, "2026-11-27T10:00:00Z")
	e := worker(t, runlog.NewMemory(nil), c.now, (&rig{}).workflow(t))
	delays := map[time.Duration]bool{}
	for i := range 20 {
		s := nightly()
		s.ID, s.Jitter = fmt.Sprintf("s-%d", i), time.Hour
		got := add(t, e, s)
		d := got.Due.Sub(got.Upcoming(1)[0])
		if delays[d] = true; d < 0 || d >= time.Hour {
			t.Errorf("a delay of %s", d)
		}
		if err := e.RemoveSchedule(t.Context(), s.ID); err != nil {
			t.Fatal(err)
		}
		if again := add(t, e, s); !again.Due.Equal(got.Due) {
			t.Errorf("the delay changed from %s to %s", got.Due, again.Due)
		}
	}
	if len(delays) < 19 {
		t.Errorf("20 schedules have %d delays", len(delays))
	}
}

// A worker leaves schedules alone that need another one, says so once, and they stay due for that one.
func TestScheduleElsewhere(t *testing.T) {
	t.Parallel()
	c := clockAt(t, "2026-11-27T10:00:00Z")
	store := runlog.NewMemory(&runlog.MemoryOptions{Now: c.now})
	here := worker(t, store, c.now, (&rig{}).workflow(t))
	s := nightly()
	s.Place, s.Folder = []string{"folder-a"}, "/home/a"
	add(t, here, s)
	c.advance(24 * time.Hour)
	for _, x := range []struct {
		e    *superstep.Engine
		want string
	}{
		{worker(t, store, c.now, (&rig{}).workflow(t)), `this worker has no place "folder-a"; it was added in /home/a: start a worker there`},
		{worker(t, store, c.now), `/home/a: start a worker there`},
	} {
		var skipped []string
		opt := &superstep.RecoverOptions{Skipped: func(id string, why error) { skipped = append(skipped, id+": "+why.Error()) }}
		look(t, x.e, opt)
		look(t, x.e, opt)
		if len(skipped) != 1 || !strings.HasPrefix(skipped[0], ": schedule nightly: ") || !strings.Contains(skipped[0], x.want) {
			t.Errorf("skipped %q, want %q", skipped, x.want)
		}
	}
	wantRuns(t, here)
	look(t, here, &superstep.RecoverOptions{Place: []string{"folder-a"}})
	wantRuns(t, here, "nightly-20261128t030000z")
}

// A tick whose run cannot be created is skipped, and the reason is shown; the next one is tried again.
func TestScheduleBrokenInputs(t *testing.T) {
	t.Parallel()
	c := clockAt(t, "2026-11-27T10:00:00Z")
	store := runlog.NewMemory(&runlog.MemoryOptions{Now: c.now})
	e := worker(t, store, c.now, (&rig{}).workflow(t))
	add(t, e, nightly())
	r, err := e.Start(t.Context(), "job", json.RawMessage(`{"task":"other"}`), &superstep.StartOptions{ID: "nightly-20261128t030000z"})
	if err != nil {
		t.Fatal(err)
	}
	ends(t, r, runlog.Completed)
	c.advance(24 * time.Hour)
	look(t, e, nil)
	if got := only(t, e); got.Skipped != 1 || !strings.Contains(got.Why, "its input /task is") {
		t.Errorf("its state is %+v", got.ScheduleState)
	}
	c.advance(24 * time.Hour)
	look(t, e, nil)
	if got := only(t, e); got.Started != 1 || got.Why != "" {
		t.Errorf("then its state is %+v", got.ScheduleState)
	}
}

// Serve carries out a tick when it is due, and not at its next look.
func TestServeSchedules(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := runlog.NewMemory(nil)
		e := worker(t, store, time.Now, (&rig{}).workflow(t))
		s := nightly()
		s.Cron = "* * * * *"
		add(t, e, s)
		ctx, stop := context.WithCancel(t.Context())
		var late []time.Duration
		served := make(chan error)
		go func() {
			served <- e.Serve(ctx, &superstep.RecoverOptions{Every: time.Hour, Scheduled: func(string, string) {
				late = append(late, time.Since(time.Now().Truncate(time.Minute)))
			}})
		}()
		time.Sleep(10*time.Minute + time.Second)
		stop()
		if err := <-served; err != nil {
			t.Fatal(err)
		}
		if len(late) != 10 || slices.Max(late) > 100*time.Millisecond {
			t.Errorf("ticks were late by %v", late)
		}
		if got := only(t, e); got.Started != 10 {
			t.Errorf("its state is %+v", got.ScheduleState)
		}
		e.Close()
	})
}
