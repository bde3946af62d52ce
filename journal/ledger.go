package journal

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/internal/carry"
	"github.com/superstep-dev/superstep/runlog"
)

// less returns a minus b.
func less(a, b runlog.Amount) runlog.Amount {
	return a.Add(runlog.Amount{Tokens: -b.Tokens, Money: -b.Money, Turns: -b.Turns, Calls: -b.Calls, Agents: -b.Agents})
}

// some returns an amount for a record, nil for a zero amount.
func some(a runlog.Amount) *runlog.Amount {
	if a == (runlog.Amount{}) {
		return nil
	}
	return &a
}

// ledger holds the budget of a run and the amounts used of it. The mu of the journal guards it.
type ledger struct {
	over  runlog.Budget // what the journal was opened with, until the log has it
	given runlog.Budget // what the log says
	limit runlog.Budget // what counts: over the other
	spent runlog.Amount
	held  runlog.Amount // set aside: the sum of what the scopes hold
	wall  time.Duration
	epoch uint64 // of the last record, like
	last  int64  // its time in nanoseconds
	idle  int64  // since when nothing is under way but the wait for an answer, in nanoseconds; 0 if something is
}

// tick counts the time between records of one execution.
func (l *ledger) tick(r *runlog.Record) {
	at := r.Time.UnixNano()
	switch {
	case r.Epoch != l.epoch:
		l.epoch, l.last = r.Epoch, at
	case at > l.last:
		l.wall += time.Duration(at - l.last)
		l.last = at
	}
	if l.idle > 0 {
		l.idle = max(l.idle, at)
	}
}

// waited subtracts the time of a wait that tick has counted.
func (l *ledger) waited(d time.Duration) { l.wall -= min(d, l.wall) }

// elapsed is the execution time of the run so far.
func (l *ledger) elapsed(epoch uint64, now time.Time) time.Duration {
	if l.epoch != epoch || l.last == 0 {
		return l.wall
	}
	return l.wall + max(0, time.Duration(now.UnixNano()-l.last))
}

// give sets the whole budget to a recorded one.
func (l *ledger) give(b *runlog.Budget) {
	if b != nil {
		l.given, l.limit, l.over = *b, *b, runlog.Budget{}
	}
}

// change notes a change of the budget that was recorded while the run executed, or while no process did. The budget that the journal was opened with has
// precedence until it is recorded.
func (l *ledger) change(b runlog.Budget) { l.given, l.limit = b, l.over.Over(b) }

// limits returns the set limits in a fixed order, with the used amount of each and the amount needed.
func (l *ledger) limits(taken, need runlog.Amount) []runlog.BudgetError {
	all := [...]runlog.BudgetError{
		{What: runlog.BudgetTokens, Limit: l.limit.Tokens, Used: taken.Tokens, Held: taken.Tokens - l.spent.Tokens, Need: need.Tokens},
		{What: runlog.BudgetMoney, Limit: l.limit.Money, Used: taken.Money, Held: taken.Money - l.spent.Money, Need: need.Money},
		{What: runlog.BudgetTurns, Limit: l.limit.Turns, Used: taken.Turns, Held: taken.Turns - l.spent.Turns, Need: need.Turns},
		{What: runlog.BudgetCalls, Limit: l.limit.Calls, Used: taken.Calls, Held: taken.Calls - l.spent.Calls, Need: need.Calls},
		{What: runlog.BudgetAgents, Limit: l.limit.Agents, Used: taken.Agents, Held: taken.Agents - l.spent.Agents, Need: need.Agents},
	}
	return slices.DeleteFunc(all[:], func(e runlog.BudgetError) bool { return e.Limit <= 0 })
}

// short returns the limit that would be exceeded if need were added to taken.
func (l *ledger) short(taken, need runlog.Amount, elapsed time.Duration) *runlog.BudgetError {
	if l.limit.Wall > 0 && elapsed >= l.limit.Wall {
		return &runlog.BudgetError{What: runlog.BudgetWall, Limit: int64(l.limit.Wall), Used: int64(elapsed)}
	}
	for _, e := range l.limits(taken, need) {
		if e.Need > 0 && e.Used+e.Need > e.Limit {
			return &e
		}
	}
	return nil
}

// unlimited returns the first limit that another budget takes away.
func (l *ledger) unlimited(taken runlog.Amount, b *runlog.Budget) *runlog.BudgetError {
	for _, e := range l.limits(taken, runlog.Amount{Tokens: b.Tokens, Money: b.Money, Turns: b.Turns, Calls: b.Calls, Agents: b.Agents}) {
		if e.Need < 0 {
			return &e
		}
	}
	return nil
}

// hold reserves an amount for an effect, in place of its earlier reservation.
func (l *ledger) hold(m *memory, key string, a runlog.Amount) {
	l.release(m, key)
	if a == (runlog.Amount{}) {
		return
	}
	put(&m.held, key, a)
	l.held = l.held.Add(a)
}

func (l *ledger) release(m *memory, key string) {
	if a, ok := m.held[key]; ok {
		l.held = less(l.held, a)
		delete(m.held, key)
	}
}

// settle counts the cost of an effect that has ended.
func (l *ledger) settle(m *memory, d *runlog.Settled) {
	l.release(m, d.Key)
	delete(m.short, d.Key)
	if d.Spent != nil {
		l.spent = l.spent.Add(*d.Spent)
	}
}

// carried returns the ledger data that must follow a snapshot, or nil if there is none. It leaves out execution time that has no limit, so that logs of
// equal runs stay equal.
func (l *ledger) carried() *carry.Ledger {
	c := carry.Ledger{Budget: l.given, Spent: l.spent}
	if l.limit.Wall > 0 {
		c.Wall = l.wall
	}
	if c == (carry.Ledger{}) {
		return nil
	}
	return &c
}

func (l *ledger) restore(c *carry.Ledger) {
	if c == nil {
		return
	}
	if c.Budget != (runlog.Budget{}) {
		l.change(c.Budget)
	}
	l.spent = c.Spent
	if c.Wall > 0 {
		l.wall = c.Wall
	}
}

// reserve reserves the possible cost of an effect. The returned function releases it unless the effect was settled, or has begun and may still be
// running.
func (j *Journal) reserve(path string, e *Effect) (release func(), err error) {
	if e.Cost == (runlog.Amount{}) {
		return func() {}, nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	m, l := j.of(path), &j.ledger
	taken := less(l.spent.Add(l.held), m.held[e.Key])
	// A replay needs no check: each recorded effect was within the budget.
	if short := l.short(taken, e.Cost, j.elapsed()); short != nil {
		if err := j.course.afresh(func() error { return m.lack(e.Key, path, short) }); err != nil {
			return nil, err
		}
	} else if e.none {
		return nil, errMoreLeft
	}
	delete(m.short, e.Key)
	l.hold(m, e.Key, e.Cost)
	return func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		if m := j.scopes[path]; m != nil && !m.intents[e.Key].open {
			l.release(m, e.Key)
		}
	}, nil
}

// cost returns the actual cost of an effect that has ended. A failed effect costs what there was of its output, as far as its error has that, see partial.
// If its error has a method Refused that returns true, the effect was refused before it began and cost nothing.
func (e *Effect) cost(out []byte, err error) *runlog.Amount {
	var refused interface {
		error
		Refused() bool
	}
	switch {
	case e.recorded != nil:
		return e.recorded.Spent
	case errors.As(err, &refused) && refused.Refused():
		return nil
	case err != nil && e.Spent != nil && partial(err) != nil:
		return some(e.Spent(partial(err)))
	case err != nil:
		return some(runlog.Amount{Turns: e.Cost.Turns, Calls: e.Cost.Calls, Agents: e.Cost.Agents})
	case e.Spent != nil:
		return some(e.Spent(out))
	}
	return some(e.Cost)
}

// elapsed returns the execution time of the run. The caller holds mu.
func (j *Journal) elapsed() time.Duration {
	if j.ledger.limit.Wall <= 0 {
		return 0
	}
	now := j.opt.Now()
	if idle := j.ledger.idle; idle > 0 && idle < now.UnixNano() {
		now = time.Unix(0, idle)
	}
	return j.ledger.elapsed(j.info.Epoch, now)
}

// Idle notes that the run only waits for answers until busy is called. That time does not count as execution time.
func (j *Journal) Idle() (busy func()) {
	set := func(at int64) {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.ledger.idle = at
	}
	set(j.opt.Now().UnixNano())
	return func() { set(0) }
}

// Waited returns for how long the run has only waited for answers since the last record.
func (j *Journal) Waited() time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.ledger.idle == 0 {
		return 0
	}
	return max(0, time.Duration(j.opt.Now().UnixNano()-j.ledger.idle).Truncate(time.Millisecond))
}

// lacks returns the missing budget of the scope's first waiting effect, by key, or nil if the remaining budget covers all of them. The caller holds mu.
func (j *Journal) lacks(m *memory) *runlog.BudgetError {
	for _, key := range slices.Sorted(maps.Keys(m.short)) {
		e := m.short[key]
		var need runlog.Amount
		switch e.What {
		case runlog.BudgetTokens:
			need.Tokens = e.Need
		case runlog.BudgetMoney:
			need.Money = e.Need
		case runlog.BudgetTurns:
			need.Turns = e.Need
		case runlog.BudgetCalls:
			need.Calls = e.Need
		case runlog.BudgetAgents:
			need.Agents = e.Need
		}
		l := &j.ledger
		if l.short(less(l.spent.Add(l.held), m.held[key]), need, j.elapsed()) != nil {
			return e
		}
	}
	return nil
}

// Budget returns the budget of the run.
func (j *Journal) Budget() runlog.Budget {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.ledger.limit
}

// Spent returns the amounts that the run has used: the sum of the recorded costs of its effects.
func (j *Journal) Spent() runlog.Amount {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.ledger.spent
}

// lack notes that a task waits for a larger budget.
func (m *memory) lack(key, path string, short *runlog.BudgetError) error {
	short.Path = path
	put(&m.short, key, short)
	return short
}

// Affords returns a *BudgetError if an amount exceeds the budget that is neither used nor reserved, and notes that the task waits for it. It reserves
// nothing. The key names the purpose of the amount within the task.
func (s *Scope) Affords(key string, need runlog.Amount) error {
	if s.off() {
		return nil
	}
	j := s.j
	j.mu.Lock()
	defer j.mu.Unlock()
	l, m := &j.ledger, j.of(s.path)
	delete(m.short, key)
	short := l.short(l.spent.Add(l.held), need, j.elapsed())
	if short == nil {
		return nil
	}
	return j.course.afresh(func() error { return m.lack(key, s.path, short) })
}

// AffordsWithin works like [Scope.Affords], for the expected total cost of the tasks within the scope. If one of them has already begun, it returns nil:
// the check passed before the run was resumed.
func (s *Scope) AffordsWithin(key string, need runlog.Amount) error {
	if !s.off() && s.j.begunWithin(s.path) {
		return nil
	}
	return s.Affords(key, need)
}

// begunWithin reports whether a task inside the one at path has a record that is still in effect.
func (j *Journal) begunWithin(path string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.ledger.limit == (runlog.Budget{}) {
		return false // everything is afforded
	}
	for p, m := range j.scopes {
		if strings.HasPrefix(p, path+"/") && len(m.intents)+len(m.settled)+len(m.asked)+m.attempts > 0 {
			return true
		}
	}
	for p, s := range j.spaces {
		if strings.HasPrefix(p, path+"/") && len(s.recs)+len(s.done) > 0 {
			return true
		}
	}
	return false
}

// Short returns the missing budget of the first waiting task, by path, or nil if none waits for a larger budget.
func (j *Journal) Short() *runlog.BudgetError {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, path := range slices.Sorted(maps.Keys(j.scopes)) {
		if e := j.lacks(j.scopes[path]); e != nil {
			return e
		}
	}
	return nil
}

// Wall returns how much execution time is left, and whether there is a limit.
func (j *Journal) Wall() (left time.Duration, limited bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	limit := j.ledger.limit.Wall
	return max(0, limit-j.elapsed()), limit > 0
}

// Late returns the error of a run that has used up its execution time.
func (j *Journal) Late() *runlog.BudgetError {
	j.mu.Lock()
	defer j.mu.Unlock()
	limit := int64(j.ledger.limit.Wall)
	return &runlog.BudgetError{What: runlog.BudgetWall, Limit: limit, Used: max(limit, int64(j.elapsed()))}
}

// Low returns the limit whose soft share is used up, for an agent to be told, or "" if there is none.
func (s *Scope) Low() string {
	if s.off() {
		return ""
	}
	j := s.j
	j.mu.Lock()
	defer j.mu.Unlock()
	l := &j.ledger
	soft := cmp.Or(l.limit.Soft, 0.8)
	if soft >= 1 {
		return ""
	}
	all := l.limits(l.spent.Add(l.held), runlog.Amount{})
	if l.limit.Wall > 0 {
		all = append(all, runlog.BudgetError{What: runlog.BudgetWall, Limit: int64(l.limit.Wall), Used: int64(j.elapsed())})
	}
	for _, e := range all {
		if e.What != runlog.BudgetAgents && float64(e.Used) >= soft*float64(e.Limit) {
			return e.Share()
		}
	}
	return ""
}

// CountsMoney reports whether the budget of the run has a limit on money.
func (s *Scope) CountsMoney() bool { return !s.off() && s.j.Budget().Money > 0 }
