package superstep

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/internal/schedule"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// serveSchedules carries out schedules until ctx ends: at each tick, and every so often to find new ones.
func (e *Engine) serveSchedules(ctx context.Context, o *RecoverOptions) {
	for ctx.Err() == nil {
		next, err := e.tick(ctx, o)
		if err != nil && ctx.Err() == nil {
			o.Failed("", err)
		}
		wait := o.Every
		if !next.IsZero() {
			wait = min(wait, max(next.Sub(e.opt.Now()), time.Millisecond))
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// tick carries out the ticks of schedules that are due: it creates a queued run for each. It lists the schedules once, and reads those that are due. It
// leaves schedules alone whose workflow or place the engine does not have, and those that another process is at. It returns when the next tick of any
// schedule is due, or the zero time.
func (e *Engine) tick(ctx context.Context, o *RecoverOptions) (next time.Time, err error) {
	infos, err := e.store.Runs(ctx, &runlog.Filter{Prefix: schedulePrefix, Status: []runlog.Status{runlog.Importing}})
	if err != nil {
		return time.Time{}, err
	}
	now := e.opt.Now()
	soonest := func(due time.Time) {
		if due.After(now) && (next.IsZero() || due.Before(next)) {
			next = due
		}
	}
	if n := len(infos); n > 0 { // concurrent workers begin with different schedules
		at := rand.IntN(n)
		infos = append(infos[at:n:n], infos[:at]...)
	}
	for i := range infos {
		info := &infos[i]
		s := scheduleState(info)
		if s.Paused || s.Due.IsZero() || info.Head == 0 {
			continue
		}
		if s.Due.After(now) || e.waits(info.ID) || info.Owner != "" {
			soonest(s.Due)
			continue
		}
		due, err := e.carryOut(ctx, info, o)
		switch {
		case err == nil:
			soonest(due)
		case errors.As(err, new(*runlog.BusyError)), errors.As(err, new(*runlog.NotFoundError)), errors.Is(err, runlog.ErrFenced):
			// another worker is at it, or it was removed
		case ctx.Err() != nil, errors.Is(err, ErrClosed):
			return next, nil
		case errors.As(err, new(*misplacedError)):
			_ = e.setLater(info.ID, later{never: true})
			o.Skipped("", err)
		default:
			e.putOff(info.ID, o)
			o.Failed("", fmt.Errorf("schedule %s: %w", strings.TrimPrefix(info.ID, schedulePrefix), err))
		}
	}
	return next, nil
}

// A misplacedError reports that this engine cannot carry out a schedule.
type misplacedError struct {
	of  *Schedule
	why error
}

func (e *misplacedError) Error() string {
	if e.of.Folder == "" {
		return fmt.Sprintf("schedule %s: %v", e.of.ID, e.why)
	}
	return fmt.Sprintf("schedule %s: %v; it was added in %s: start a worker there", e.of.ID, e.why, e.of.Folder)
}

// carryOut decides the ticks of a schedule that are due, and returns when the next one is.
func (e *Engine) carryOut(ctx context.Context, info *runlog.Info, o *RecoverOptions) (due time.Time, err error) {
	s, err := e.schedule(ctx, info)
	if err != nil {
		return due, err
	}
	if _, err := e.Workflows().Find(s.Workflow); err != nil {
		return due, &misplacedError{s, err}
	}
	for _, label := range s.Place {
		if !slices.Contains(o.Place, label) {
			return due, &misplacedError{s, fmt.Errorf("this worker has no place %q", label)}
		}
	}
	log, held, err := e.store.Acquire(ctx, info.ID, nil)
	if err != nil {
		return due, err
	}
	defer func() { err = errors.Join(err, log.Release(context.WithoutCancel(ctx))) }()
	if held.Head == 0 || !held.Created.Equal(info.Created) {
		return due, nil // it was replaced
	}
	if s.ScheduleState = scheduleState(&held); s.Paused {
		return due, nil
	}
	r, err := s.check()
	if err != nil {
		return due, err
	}
	ticks, missed, until := r.Due(s.Decided, e.opt.Now())
	s.Missed += missed
	for i, tick := range ticks {
		// The run is created first: its ID makes that once. After a crash in between, the next worker finds it.
		run, err := e.startTick(ctx, s, schedule.RunID(s.ID, tick))
		if err != nil {
			return due, err
		}
		if s.Decided = tick.UTC(); i == len(ticks)-1 {
			s.Decided = until.UTC()
		}
		s.Due = r.Next(s.Decided)
		if err := log.Append(ctx, &runlog.Batch{Summary: s.encode()}); err != nil {
			return due, err
		}
		if run != "" {
			o.Scheduled(s.ID, run)
		}
	}
	if len(ticks) == 0 {
		s.Decided, s.Due = until.UTC(), r.Next(until)
		err = log.Append(ctx, &runlog.Batch{Summary: s.encode()})
	}
	return s.Due, err
}

// startTick creates the run of a tick, and returns its ID, or "" if the tick is skipped. It changes the state accordingly.
func (e *Engine) startTick(ctx context.Context, s *Schedule, id string) (string, error) {
	last, err := e.unfinished(ctx, s.Last)
	if err != nil {
		return "", err
	}
	if last != "" && s.Overlap == OverlapSkip {
		there, err := e.store.Runs(ctx, &runlog.Filter{ID: id})
		if err != nil {
			return "", err
		}
		if len(there) == 0 {
			s.skip(fmt.Sprintf("run %s is %s", s.Last, last))
			return "", nil
		} // a worker created it, and crashed
	}
	if last != "" && s.Overlap == OverlapCancel {
		if err := e.Cancel(ctx, s.Last); err != nil && !errors.As(err, new(*runlog.EndedError)) && !errors.As(err, new(*runlog.NotFoundError)) {
			return "", err
		}
	}
	opt := &StartOptions{ID: id, Budget: s.Budget, Queue: &runlog.Queue{Place: s.Place}}
	if s.Overlap != OverlapSkip {
		opt.Queue.Key, opt.Queue.Limit = strings.TrimSuffix(schedulePrefix, "-")+s.ID, 1
	}
	_, err = e.Enqueue(ctx, s.Workflow, s.Inputs, opt)
	if e.opt.Failpoint != nil {
		e.opt.Failpoint("schedule.enqueued")
	}
	switch {
	case errors.As(err, new(*ConflictError)), errors.As(err, new(*workflow.InputsError)), errors.As(err, new(*boundError)):
		s.skip(err.Error()) // it would be the same next time
		return "", nil
	case err != nil:
		return "", err
	}
	s.Started, s.Last, s.Why = s.Started+1, id, ""
	return id, nil
}

func (s *Schedule) skip(why string) { s.Skipped, s.Why = s.Skipped+1, why }

// unfinished returns the status of a run that is in the way of the next one, or "" if it is not.
func (e *Engine) unfinished(ctx context.Context, id string) (runlog.Status, error) {
	if id == "" {
		return "", nil
	}
	infos, err := e.store.Runs(ctx, &runlog.Filter{ID: id})
	if err != nil || len(infos) == 0 {
		return "", err
	}
	if st := infos[0].Status; !st.Ended() && st != runlog.Failed && st != runlog.Quarantined {
		return st, nil
	}
	return "", nil
}
