package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/superstep-dev/superstep/runlog"
)

// childPrefix begins the keys of the effects and questions of child runs.
const childPrefix = "run:"

// kindRun is the kind of the effect that a child run is.
const kindRun = "run"

// A Child is a run that a task has created and waits for.
type Child struct {
	Key      string // names it within its task
	Workflow string
	Input    any // what it begins with, for people; nil for nothing
	// Budget holds the limits of the run. Of a limit that is zero here and that the budget of the parent has, the child gets what is left.
	Budget runlog.Budget
	// Begin creates the run, unless it exists. Its limit is what the parent has reserved for it, in place of the limit that it had before.
	Begin func(ctx context.Context, id string, child *runlog.Child, limit runlog.Budget) error
}

// Child returns how a child run of the task has ended. Before that it returns a *WaitError: the task waits for the end as for an answer. The run is
// created once, also if the process crashes. What the run may use is reserved in the budget, and settled when it has ended. A replay creates no run.
func (s *Scope) Child(ctx context.Context, c *Child) (*runlog.End, error) {
	if s.off() || s.j.opt.Alone {
		return nil, ErrNoLog
	}
	s = s.Reuse()
	for {
		if end, err := s.child(ctx, c); !errors.Is(err, errMoreLeft) {
			return end, err
		}
	}
}

// errMoreLeft reports that a child run found nothing left of a limit of the budget, and that another one has ended since.
var errMoreLeft = errors.New("there is more left of the budget by now")

func (s *Scope) child(ctx context.Context, c *Child) (*runlog.End, error) {
	child := &runlog.Child{Parent: s.j.id, Path: s.path, Key: childPrefix + c.Key, Depth: s.j.depth() + 1}
	cost, none := s.share(child.Key, &c.Budget)
	limit := runlog.Budget{Tokens: cost.Tokens, Money: cost.Money, Turns: cost.Turns, Calls: cost.Calls, Agents: cost.Agents, Wall: c.Budget.Wall, Soft: c.Budget.Soft}
	e := &Effect{
		Key: child.Key, Kind: kindRun, Name: c.Workflow, Repeat: RepeatByKey, Inside: true, Hint: child.ID(), Input: c.Input, Cost: cost, none: none,
		Spent: func(output json.RawMessage) (spent runlog.Amount) {
			var end runlog.End
			if json.Unmarshal(output, &end) == nil && end.Spent != nil {
				spent = *end.Spent
			}
			return spent
		},
	}
	end, err := Do(ctx, s, e, func(ctx context.Context, _ string) (end *runlog.End, err error) {
		if _, _, answered := s.question(child.Key); !answered {
			if err := s.Afresh(func() error { return c.Begin(ctx, child.ID(), child, limit) }); err != nil {
				return nil, &unbegunError{err}
			}
		}
		text := fmt.Sprintf("How does run %s of workflow %s end?", child.ID(), c.Workflow)
		answer, err := s.Ask(ctx, &runlog.Question{Key: child.Key, Kind: runlog.QuestionRun, Run: child.ID(), Text: text})
		switch {
		case errors.Is(err, ErrDenied):
			return nil, &unbegunError{err}
		case err != nil:
			return nil, err
		}
		return end, json.Unmarshal(answer, &end)
	})
	return end, err
}

// An unbegunError reports that a child run was not created, or is not waited for any more: the parent counts no cost.
type unbegunError struct{ err error }

func (e *unbegunError) Error() string { return e.err.Error() }

func (e *unbegunError) Unwrap() error { return e.err }

// Refused reports that the effect has cost nothing.
func (*unbegunError) Refused() bool { return true }

// share returns what to reserve for a child run: the limits that want has, and what is left of the others. None reports that nothing is left of one.
func (s *Scope) share(key string, want *runlog.Budget) (share runlog.Amount, none bool) {
	was := s.Recorded(key)
	s.j.mu.Lock()
	defer s.j.mu.Unlock()
	m, l := s.j.of(s.path), &s.j.ledger
	own := m.held[key]
	if _, answered := m.answers[key]; answered || m.intents[key].open && m.intents[key].limit == l.limit {
		return own, false
	}
	if was != nil {
		if was.Cost == nil {
			return runlog.Amount{}, false
		}
		return *was.Cost, false
	}
	taken := less(l.spent.Add(l.held), own)
	part := func(want, limit, taken, own int64) int64 {
		switch {
		case want > 0:
			return max(want, own) // it may have been raised
		case limit <= 0:
			return 0
		}
		none = none || limit <= taken
		return max(limit-taken, 1) // with nothing left, it waits for more
	}
	share = runlog.Amount{
		Tokens: part(want.Tokens, l.limit.Tokens, taken.Tokens, own.Tokens), Money: part(want.Money, l.limit.Money, taken.Money, own.Money),
		Turns: part(want.Turns, l.limit.Turns, taken.Turns, own.Turns), Calls: part(want.Calls, l.limit.Calls, taken.Calls, own.Calls),
		Agents: part(want.Agents, l.limit.Agents, taken.Agents, own.Agents),
	}
	return share, none
}

// Children returns the questions of the child runs that tasks wait for, by the IDs of the runs.
func (j *Journal) Children() map[string]runlog.Question {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out map[string]runlog.Question
	for path, m := range j.scopes {
		for key, in := range m.intents {
			if !in.open || in.hint == "" || !strings.HasPrefix(key, childPrefix) {
				continue
			}
			if _, answered := m.answers[key]; !answered {
				q := m.asked[key] // none if it is about to be asked
				q.Path, q.Key = path, key
				put(&out, in.hint, q)
			}
		}
	}
	return out
}

// depth returns how many runs are above this one.
func (j *Journal) depth() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.child == nil {
		return 0
	}
	return j.child.Depth
}

// SpentBy returns what a run has used, by its log.
func SpentBy(ctx context.Context, store runlog.Store, info *runlog.Info) (runlog.Amount, error) {
	var v recovered
	for r, err := range runlog.Records(ctx, store, info.ID, info.Snapshot) {
		if err == nil {
			err = v.note(&r)
		}
		if err != nil {
			return runlog.Amount{}, err
		}
	}
	return v.ledger.spent, nil
}
