package pregeltest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/superstep-dev/superstep/internal/pregel"
)

type next = pregel.Recorder[State, string, int]

type recordFunc func(ctx context.Context, m *Machine, batch []ended, commit bool) error

func (r recordFunc) Record(ctx context.Context, m *Machine, batch []ended, commit bool) error {
	return r(ctx, m, batch, commit)
}

// execs is a good driver whose tasks are computed by another function.
func execs(wrap func(m *Machine, exec Exec) Exec) Driver {
	return func(ctx context.Context, m *Machine, exec Exec, opt *Options) error {
		return pregel.Run(ctx, m, wrap(m, exec), opt)
	}
}

// options is a good driver that does not get its options as they are.
func options(change func(o *Options)) Driver {
	return func(ctx context.Context, m *Machine, exec Exec, opt *Options) error {
		o := *opt
		change(&o)
		return pregel.Run(ctx, m, exec, &o)
	}
}

// records is a good driver whose recorder comes between.
func records(wrap func(r next) recordFunc) Driver {
	return func(ctx context.Context, m *Machine, exec Exec, opt *Options) error {
		o := *opt
		if o.Recorder != nil {
			o.Recorder = wrap(o.Recorder)
		}
		return Shuffled[State, string, int](3)(ctx, m, exec, &o)
	}
}

// plain is a driver of a few lines, which takes the results in reverse.
func plain(all, arrival bool) Driver {
	return func(ctx context.Context, m *Machine, exec Exec, opt *Options) error {
		for !m.Ended() {
			tasks := m.Plan()
			if all {
				tasks = m.Tasks()
			}
			var got []result
			for i := len(tasks) - 1; i >= 0; i-- {
				opt.Started(&tasks[i])
				got = append(got, exec(ctx, &tasks[i], m.State()))
			}
			if !arrival {
				slices.Reverse(got)
			}
			for i := range tasks {
				_ = m.Apply(tasks[i].Index, got[i])
			}
			m.Commit()
		}
		return nil
	}
}

// The suite finds what a driver does wrong, by the case that is about it.
func TestBrokenDrivers(t *testing.T) {
	type ctx = context.Context
	for name, c := range map[string]struct {
		caught []string // each of these cases finds it
		drive  Driver
	}{
		"folds in the order of arrival": {[]string{"fold", "inbox"}, plain(false, true)},
		"computes what was recovered":   {[]string{"recovered"}, plain(true, false)},
		"gives the state it began with": {[]string{"state"}, execs(func(m *Machine, exec Exec) Exec {
			first := m.State()
			return func(ctx ctx, t *task, _ State) result { return exec(ctx, t, first) }
		})},
		"gives everybody the whole state": {[]string{"reads", "random programs"}, execs(func(m *Machine, exec Exec) Exec {
			return func(ctx ctx, t *task, _ State) result { return exec(ctx, t, m.State()) }
		})},
		"drops the inbox": {[]string{"inbox", "join"}, execs(func(_ *Machine, exec Exec) Exec {
			return func(ctx ctx, t *task, s State) result { u := *t; u.Inbox = nil; return exec(ctx, &u, s) }
		})},
		"drops the inbox when it computes again": {[]string{"waiting", "aborted", "repair", "random programs"}, forgetful()},
		"takes a panic for success": {[]string{"panic"}, execs(func(_ *Machine, exec Exec) Exec {
			return func(ctx ctx, t *task, s State) (r result) {
				defer func() {
					if recover() != nil {
						r = done("x")
					}
				}()
				return exec(ctx, t, s)
			}
		})},
		"passes over what failed": {[]string{"failure", "repair"}, execs(func(_ *Machine, exec Exec) Exec {
			return func(ctx ctx, t *task, s State) result {
				r := exec(ctx, t, s)
				if r.Outcome == pregel.Failed {
					r.Outcome = pregel.Skipped
				}
				return r
			}
		})},
		"counts what failed": {[]string{"skipped"}, execs(func(_ *Machine, exec Exec) Exec {
			return func(ctx ctx, t *task, s State) result {
				r := exec(ctx, t, s)
				if r.Outcome == pregel.Skipped || r.Outcome == pregel.Caught {
					r.Outcome = pregel.Done
				}
				return r
			}
		})},
		"takes what was stopped for done": {[]string{"aborted", "random programs"}, execs(func(_ *Machine, exec Exec) Exec {
			return func(ctx ctx, t *task, s State) result {
				r := exec(ctx, t, s)
				if r.Outcome == pregel.Aborted {
					r.Outcome = pregel.Done
				}
				return r
			}
		})},
		"forgets the vote": {[]string{"halting", "terminal"}, execs(func(_ *Machine, exec Exec) Exec {
			return func(ctx ctx, t *task, s State) result { r := exec(ctx, t, s); r.Vote = pregel.Halt; return r }
		})},
		"does not tell who started": {[]string{"started"}, options(func(o *Options) { o.Started = nil })},
		"has no step limit":         {[]string{"step limit"}, options(func(o *Options) { o.MaxSteps = 0 })},
		"has no timeout":            {[]string{"timeout"}, options(func(o *Options) { o.Timeout = 0 })},
		"cannot be stopped":         {[]string{"stop"}, options(func(o *Options) { o.Stop = nil })},
		"asks nobody who is ready":  {[]string{"waiting"}, options(func(o *Options) { o.Ready = nil })},
		"does not hear the context": {[]string{"context"}, func(ctx context.Context, m *Machine, exec Exec, opt *Options) error {
			return pregel.Run(context.WithoutCancel(ctx), m, exec, opt)
		}},
		"takes a stalled run for a good one": {[]string{"stalled", "random programs"}, func(ctx context.Context, m *Machine, exec Exec, opt *Options) error {
			err := pregel.Run(ctx, m, exec, opt)
			if errors.As(err, new(*pregel.StalledError)) {
				return nil
			}
			return err
		}},
		"does not check": {[]string{"check"}, func(ctx context.Context, m *Machine, exec Exec, opt *Options) error {
			err := pregel.Run(ctx, m, exec, opt)
			if m.Complete() {
				m.Commit()
			}
			return err
		}},
		"forgets the recorder":  {[]string{"record", "lost record"}, options(func(o *Options) { o.Recorder = nil })},
		"records twice":         {[]string{"record"}, records(func(r next) recordFunc { return doubly(r) })},
		"records in any order":  {[]string{"random programs"}, records(func(r next) recordFunc { return backwards(r) })},
		"records one too late":  {[]string{"record"}, records(func(r next) recordFunc { return late(r) })},
		"records what it likes": {[]string{"record"}, records(func(r next) recordFunc { return partly(r) })},
		"records no commits": {[]string{"record"}, records(func(r next) recordFunc {
			return func(ctx ctx, m *Machine, batch []ended, _ bool) error { return r.Record(ctx, m, batch, false) }
		})},
		"lets the record be interrupted": {[]string{"record"}, records(func(r next) recordFunc {
			return func(c ctx, m *Machine, batch []ended, commit bool) error {
				over, cancel := context.WithCancel(c)
				cancel()
				return r.Record(over, m, batch, commit)
			}
		})},
		"goes on without a record": {[]string{"lost record"}, records(func(r next) recordFunc {
			return func(ctx ctx, m *Machine, batch []ended, commit bool) error {
				_ = r.Record(ctx, m, batch, commit)
				return nil
			}
		})},
		"computes one at a time":     {[]string{"side by side", "parallelism"}, options(func(o *Options) { o.Parallelism = 1 })},
		"computes all at once":       {[]string{"parallelism"}, options(func(o *Options) { o.Parallelism = 100 })},
		"never starts early":         {[]string{"early"}, options(func(o *Options) { o.Barrier = true })},
		"always starts early":        {[]string{"early"}, options(func(o *Options) { o.Barrier = false })},
		"sleeps on":                  {[]string{"waking"}, options(func(o *Options) { o.Wake = nil })},
		"records when all has ended": {[]string{"at once"}, withheld},
		"records on after a failure": {[]string{"lost record beside"}, stubborn},
		"leaves tasks behind":        {[]string{"stopped beside"}, execs(hasty)},
	} {
		for _, by := range c.caught {
			all := slices.Concat(ruleCases, randomCases, parallelCases)
			i := slices.IndexFunc(all, func(c testCase) bool { return c.name == by })
			if i < 0 {
				t.Fatalf("no case %q", by)
			}
			if len(all[i].check(t, c.drive)) == 0 {
				t.Errorf("a driver that %s passes %q", name, by)
			}
		}
	}
}

// forgetful drops the inbox of what it, or a driver like it, has computed before.
func forgetful() Driver {
	var mu sync.Mutex
	before := map[string]bool{}
	return execs(func(m *Machine, exec Exec) Exec {
		return func(ctx context.Context, t *task, s State) result {
			u := *t
			mu.Lock()
			if path := m.Path(t); before[path] {
				u.Inbox = nil
			} else {
				before[path] = true
			}
			mu.Unlock()
			return exec(ctx, &u, s)
		}
	})
}

func doubly(r next) recordFunc {
	return func(ctx context.Context, m *Machine, batch []ended, commit bool) error {
		return errors.Join(r.Record(ctx, m, batch, commit), r.Record(ctx, m, batch, false))
	}
}

func backwards(r next) recordFunc {
	return func(ctx context.Context, m *Machine, batch []ended, commit bool) error {
		batch = slices.Clone(batch)
		slices.Reverse(batch)
		return r.Record(ctx, m, batch, commit)
	}
}

func late(r next) recordFunc {
	var kept func() error
	return func(ctx context.Context, m *Machine, batch []ended, commit bool) (err error) {
		if kept != nil {
			err = kept()
		}
		batch = slices.Clone(batch)
		kept = func() error { return r.Record(ctx, m, batch, commit) }
		return err
	}
}

func partly(r next) recordFunc {
	return func(ctx context.Context, m *Machine, batch []ended, commit bool) error {
		return r.Record(ctx, m, batch[:len(batch)/2], commit)
	}
}

// withheld records a superstep when it is over.
func withheld(ctx context.Context, m *Machine, exec Exec, opt *Options) error {
	o := *opt
	var kept []ended
	o.Recorder = recordFunc(func(ctx context.Context, m *Machine, batch []ended, commit bool) error {
		if kept = append(kept, batch...); !commit {
			return nil
		}
		batch, kept = kept, nil
		return opt.Recorder.Record(ctx, m, batch, commit)
	})
	return pregel.Run(ctx, m, exec, &o)
}

// stubborn has the recorder take what it did not take.
func stubborn(ctx context.Context, m *Machine, exec Exec, opt *Options) error {
	o := *opt
	o.Recorder = recordFunc(func(ctx context.Context, m *Machine, batch []ended, commit bool) error {
		if err := opt.Recorder.Record(ctx, m, batch, commit); err != nil {
			return opt.Recorder.Record(ctx, m, batch, commit)
		}
		return nil
	})
	return pregel.Run(ctx, m, exec, &o)
}

// hasty is done with a task as soon as its context ends.
func hasty(_ *Machine, exec Exec) Exec {
	return func(ctx context.Context, t *task, s State) result {
		u := *t
		got := make(chan result, 1)
		go func() { got <- exec(ctx, &u, s) }()
		select {
		case <-ctx.Done():
			return result{Outcome: pregel.Aborted, Err: context.Cause(ctx)}
		case r := <-got:
			return r
		}
	}
}
