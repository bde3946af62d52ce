package superstep

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/schedule"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/runlog"
)

// A Schedule starts a run of a workflow at each time that a cron expression names. Workers carry it out, see Engine.Serve: at each tick, one of them
// creates a queued run. Its ID is that of the schedule with the time of the tick in UTC, so a tick has one run, however many workers there are.
type Schedule struct {
	ID       string          `json:"id"` // [a-z0-9-], at most 40
	Workflow string          `json:"workflow"`
	Inputs   json.RawMessage `json:"inputs,omitempty"` // a JSON object
	// Cron has five fields (minute, hour, day of the month, month, weekday), or is a name such as @daily.
	Cron string `json:"cron"`
	// Zone is the IANA name of the time zone; the default is UTC. A time that the zone skips is replaced by the first instant after the gap. One that
	// occurs twice counts once, unless Cron names every hour.
	Zone string `json:"zone"`
	// Jitter is the longest delay of a tick. The delay depends on the schedule and the tick alone. The default is none.
	Jitter time.Duration `json:"jitter,omitempty"`
	// Overlap tells what happens at a tick if the last run of the schedule is unfinished: OverlapSkip, OverlapQueue or OverlapCancel. The default is
	// OverlapSkip.
	Overlap string `json:"overlap"`
	// CatchUp tells which missed ticks still start a run: how many of the newest, such as "3", or how old they may be, such as "24h". A tick is missed if
	// no worker has carried it out within a minute. The default is "1".
	CatchUp string         `json:"catch_up"`
	Budget  *runlog.Budget `json:"budget,omitempty"` // of each run
	Place   []string       `json:"place,omitempty"`  // labels that a worker must have, see RecoverOptions.Place
	Folder  string         `json:"folder,omitempty"` // of the project, for people; it has no effect
	Created time.Time      `json:"created,omitzero"`
	ScheduleState
}

// A ScheduleState tells how far a schedule is. Workers change it, and PauseSchedule.
type ScheduleState struct {
	Paused  bool      `json:"paused,omitempty"`
	Decided time.Time `json:"decided,omitzero"`  // each tick up to here has its run, or was skipped or missed
	Due     time.Time `json:"due,omitzero"`      // when the next tick is carried out; zero if there is none
	Last    string    `json:"last,omitempty"`    // the run of the last tick that has one
	Started int       `json:"started,omitempty"` // ticks that have a run
	Skipped int       `json:"skipped,omitempty"` // ticks without one, because of Overlap or an error
	Missed  int       `json:"missed,omitempty"`  // ticks without one, because no worker was there
	Why     string    `json:"why,omitempty"`     // the newest tick was skipped
}

// The values of Schedule.Overlap. A run that has ended, has failed or is quarantined is finished in this sense; a paused one is not.
const (
	OverlapSkip   = "skip"   // the tick has no run
	OverlapQueue  = "queue"  // its run waits while a run of the schedule executes
	OverlapCancel = "cancel" // the last run is cancelled, and the run of the tick waits for its end
)

// schedulePrefix begins the IDs of the logs of schedules. Such a log has one record, the schedule, and the summary is the state.
const schedulePrefix = unlisted.SchedulesPrefix

const kindSchedule runlog.Kind = "schedule.added"

// check returns when the schedule starts runs, or all its mistakes.
func (s *Schedule) check() (*schedule.Rule, error) {
	var errs []error
	if runlog.CheckID(s.ID) != nil || len(s.ID) > 40 || strings.Trim(s.ID, "-") != s.ID || strings.Contains(s.ID, "--") {
		errs = append(errs, errors.New("its name: use 1 to 40 of a-z, 0-9 and single -, such as nightly-brief"))
	}
	r := &schedule.Rule{ID: s.ID, Jitter: s.Jitter}
	var err error
	if r.Cron, err = schedule.Parse(s.Cron, s.Zone); err != nil {
		errs = append(errs, err)
	} else if gap := r.Cron.Gap(s.Created); s.Jitter < 0 || s.Jitter >= gap {
		errs = append(errs, fmt.Errorf("jitter %s: want less than the shortest time between two ticks, %s", s.Jitter, gap))
	}
	if r.CatchUp, err = schedule.ParseCatchUp(s.CatchUp); err != nil {
		errs = append(errs, err)
	}
	if known := []string{OverlapSkip, OverlapQueue, OverlapCancel}; !slices.Contains(known, s.Overlap) {
		errs = append(errs, fmt.Errorf("overlap %q: want %s%s", s.Overlap, strings.Join(known, ", "), suggest.Hint(s.Overlap, known)))
	}
	errs = append(errs, (&runlog.Queue{Place: s.Place}).Check())
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("schedule %.70q: %w", s.ID, err)
	}
	return r, nil
}

// Upcoming returns the next ticks, at most n, without their jitter and in the zone of the schedule. A paused schedule has none.
func (s *Schedule) Upcoming(n int) (ticks []time.Time) {
	r, err := s.check()
	if err != nil || s.Paused {
		return nil
	}
	for tick := r.Cron.Next(s.Decided); len(ticks) < n && !tick.IsZero(); tick = r.Cron.Next(tick) {
		ticks = append(ticks, tick)
	}
	return ticks
}

// AddSchedule adds a schedule, whose first tick is after now. Its inputs are checked against the workflow. It returns the schedule as it is stored. If the
// same schedule exists already, it returns that one.
func (e *Engine) AddSchedule(ctx context.Context, given *Schedule) (*Schedule, error) {
	leave, err := e.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	s := *given
	s.Created, s.ScheduleState = e.opt.Now().UTC(), ScheduleState{}
	s.Zone, s.Overlap, s.CatchUp = cmp.Or(s.Zone, "UTC"), cmp.Or(s.Overlap, OverlapSkip), cmp.Or(s.CatchUp, "1")
	r, err := s.check()
	if err != nil {
		return nil, err
	}
	run, err := e.prepare(s.Workflow, s.Inputs, &StartOptions{Budget: s.Budget})
	if err != nil {
		return nil, err
	}
	s.Workflow, s.Inputs = run.w.Name, run.inputs
	log, info, err := e.hold(ctx, s.ID, &runlog.NewRun{Workflow: s.Workflow, Status: runlog.Importing})
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Release(context.WithoutCancel(ctx)) }() // else its lease ends
	if info.Head > 0 {
		return e.sameSchedule(ctx, &info, &s, log)
	}
	data, err := json.Marshal(&s)
	if err != nil {
		return nil, err
	}
	s.Decided, s.Due = s.Created, r.Next(s.Created)
	b := runlog.Batch{Records: []runlog.Record{{Kind: kindSchedule, Time: s.Created, Data: data}}, Summary: s.encode()}
	if err := log.Append(ctx, &b); err != nil {
		return nil, err
	}
	info.Summary = b.Summary
	return e.schedule(ctx, &info)
}

// sameSchedule returns an existing schedule, or an error if it differs from the one that is added.
func (e *Engine) sameSchedule(ctx context.Context, info *runlog.Info, s *Schedule, log runlog.Log) (*Schedule, error) {
	old, err := e.schedule(ctx, info)
	if err != nil {
		return nil, err
	}
	was, now := *old, *s
	if c, ok := log.(interface {
		Clean(json.RawMessage) json.RawMessage
	}); ok {
		now.Inputs = c.Clean(now.Inputs)
	}
	was.Created, was.ScheduleState = now.Created, ScheduleState{}
	a, aerr := json.Marshal(&was)
	b, berr := json.Marshal(&now)
	changes, err := Diff(a, b)
	if err = errors.Join(aerr, berr, err); err == nil && len(changes) > 0 {
		c := &changes[0]
		err = fmt.Errorf("there is a schedule %s already, and its %s is %s, not %s; remove it first, or use another name", s.ID, strings.TrimPrefix(c.Path, "/"),
			short(c.Before), short(c.After))
	}
	return old, err
}

// hold acquires the log of a schedule, and waits while another process holds it. If create is non-nil, the schedule need not exist.
func (e *Engine) hold(ctx context.Context, id string, create *runlog.NewRun) (runlog.Log, runlog.Info, error) {
	for {
		log, info, err := e.store.Acquire(ctx, schedulePrefix+id, nil)
		if create != nil && errors.As(err, new(*runlog.NotFoundError)) {
			log, info, err = e.store.Acquire(ctx, schedulePrefix+id, &runlog.AcquireOptions{Create: create})
		}
		switch {
		case err == nil:
			return log, info, nil
		case errors.As(err, new(*runlog.NotFoundError)):
			return nil, info, e.noSchedule(ctx, id)
		case !errors.Is(err, runlog.ErrExists) && !errors.As(err, new(*runlog.BusyError)):
			return nil, info, err
		}
		select { // a worker carries out a tick
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return nil, info, errors.Join(context.Cause(ctx), err)
		}
	}
}

// noSchedule returns the error about an ID that no schedule has.
func (e *Engine) noSchedule(ctx context.Context, id string) error {
	var known []string
	all, err := e.Schedules(ctx)
	for i := range all {
		known = append(known, all[i].ID)
	}
	return errors.Join(fmt.Errorf("there is no schedule %.70q%s", id, suggest.Hint(id, known)), err)
}

// Schedules returns the schedules, ordered by ID.
func (e *Engine) Schedules(ctx context.Context) ([]Schedule, error) {
	infos, err := e.store.Runs(ctx, &runlog.Filter{Prefix: schedulePrefix, Status: []runlog.Status{runlog.Importing}})
	var out []Schedule
	var errs []error
	for i := range infos {
		if infos[i].Head == 0 {
			continue // its addition was cut off
		}
		s, err := e.schedule(ctx, &infos[i])
		if errors.As(err, new(*runlog.NotFoundError)) {
			continue // it was removed meanwhile
		}
		if errs = append(errs, err); err == nil {
			out = append(out, *s)
		}
	}
	slices.SortFunc(out, func(a, b Schedule) int { return strings.Compare(a.ID, b.ID) })
	return out, errors.Join(append(errs, err)...)
}

// schedule reads a listed schedule.
func (e *Engine) schedule(ctx context.Context, info *runlog.Info) (*Schedule, error) {
	id := strings.TrimPrefix(info.ID, schedulePrefix)
	recs, err := e.store.Read(ctx, info.ID, 1, 1)
	if err != nil {
		return nil, err
	}
	var s Schedule
	if len(recs) == 0 || recs[0].Kind != kindSchedule || json.Unmarshal(recs[0].Data, &s) != nil || s.ID != id {
		return nil, fmt.Errorf("schedule %s cannot be read: remove it, and add it again", id)
	}
	s.ScheduleState = scheduleState(info)
	return &s, nil
}

// scheduleState returns the state in a listed schedule.
func scheduleState(info *runlog.Info) (s ScheduleState) {
	_ = json.Unmarshal([]byte(info.Summary), &s) // a schedule whose addition was cut off has none, and nothing is due
	return s
}

// encode returns the stored form of a state, which is short enough for a summary.
func (s ScheduleState) encode() string {
	s.Why = clean.Clip(s.Why, 200)
	b, _ := json.Marshal(&s) // it has only what JSON has
	return string(b)
}

// PauseSchedule pauses a schedule, or ends its pause. The ticks of a pause are not caught up.
func (e *Engine) PauseSchedule(ctx context.Context, id string, paused bool) error {
	leave, err := e.enter()
	if err != nil {
		return err
	}
	defer leave()
	log, info, err := e.hold(ctx, id, nil)
	if err != nil {
		return err
	}
	defer func() { _ = log.Release(context.WithoutCancel(ctx)) }() // else its lease ends
	s, err := e.schedule(ctx, &info)
	if err != nil || s.Paused == paused {
		return err
	}
	r, err := s.check()
	if err != nil {
		return err
	}
	if s.Paused = paused; !paused {
		s.Decided = e.opt.Now().UTC()
		s.Due = r.Next(s.Decided)
	}
	return log.Append(ctx, &runlog.Batch{Summary: s.encode()})
}

// RemoveSchedule removes a schedule. Its runs stay.
func (e *Engine) RemoveSchedule(ctx context.Context, id string) error {
	leave, err := e.enter()
	if err != nil {
		return err
	}
	defer leave()
	for {
		log, _, err := e.hold(ctx, id, nil)
		if err != nil {
			return err
		}
		if err := log.Release(ctx); err != nil {
			return err
		}
		if err := e.store.Delete(ctx, schedulePrefix+id); !errors.As(err, new(*runlog.BusyError)) {
			return err
		}
	}
}
