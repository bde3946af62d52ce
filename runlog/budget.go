package runlog

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Budget bounds what a run may use, with everything that works for it: agents, the
// graphs that its tasks run, and their agents. A limit of zero or less is none.
//
// What an effect is going to cost is set aside before it begins, so that tasks at work
// side by side cannot use the same rest, and replaced by what it did cost when it is
// over. An effect that may cost more than is left does not begin: its task waits with a
// *BudgetError, nothing is lost, and the run goes on once it has a larger budget.
type Budget struct {
	Tokens int64         `json:"tokens,omitempty"` // that models read and write
	Money  int64         `json:"money,omitempty"`  // in millionths of a US dollar, for models that tell their price
	Turns  int64         `json:"turns,omitempty"`  // of models
	Calls  int64         `json:"calls,omitempty"`  // of tools
	Agents int64         `json:"agents,omitempty"` // that begin
	Wall   time.Duration `json:"wall,omitempty"`   // at work, without pauses, since the run has a limit on it
	// Soft is the share of a limit at which agents are told to wrap up; defaults to 0.8,
	// and 1 or more tells them nothing. The limit on agents is not told.
	Soft float64 `json:"soft,omitempty"`
}

// Over is the budget with the changes of another: what is not zero there takes the
// place of what is here, and what is less than zero there is without a limit.
func (b Budget) Over(base Budget) Budget {
	return Budget{
		Tokens: cmp.Or(b.Tokens, base.Tokens), Money: cmp.Or(b.Money, base.Money),
		Turns: cmp.Or(b.Turns, base.Turns), Calls: cmp.Or(b.Calls, base.Calls), Agents: cmp.Or(b.Agents, base.Agents),
		Wall: cmp.Or(b.Wall, base.Wall), Soft: cmp.Or(b.Soft, base.Soft),
	}
}

// An Amount is what something costs, in the units of Budget.
type Amount struct {
	Tokens int64 `json:"tokens,omitempty"`
	Money  int64 `json:"money,omitempty"`
	Turns  int64 `json:"turns,omitempty"`
	Calls  int64 `json:"calls,omitempty"`
	Agents int64 `json:"agents,omitempty"`
}

// Add returns the sum of both.
func (a Amount) Add(b Amount) Amount {
	return Amount{a.Tokens + b.Tokens, a.Money + b.Money, a.Turns + b.Turns, a.Calls + b.Calls, a.Agents + b.Agents}
}

func (a Amount) minus(b Amount) Amount {
	return a.Add(Amount{-b.Tokens, -b.Money, -b.Turns, -b.Calls, -b.Agents})
}

// or is the amount for a record: nil for nothing.
func (a Amount) or() *Amount {
	if a == (Amount{}) {
		return nil
	}
	return &a
}

// The names of the limits in BudgetError.What.
const (
	BudgetTokens = "tokens"
	BudgetMoney  = "money"
	BudgetTurns  = "turns"
	BudgetCalls  = "calls"
	BudgetAgents = "agents"
	BudgetWall   = "time"
)

// A BudgetError says that a task cannot go on within the budget of its run. The task
// has not failed: it waits, and the run goes on with a larger budget.
type BudgetError struct {
	Path  string `json:"path,omitempty"` // of the task, "" for the run as a whole
	What  string `json:"what"`           // which limit
	Limit int64  `json:"limit"`          // like the others in the unit of the limit; nanoseconds for time
	Used  int64  `json:"used"`           // and set aside for what is under way
	Need  int64  `json:"need,omitempty"` // what the next step may cost; 0 for time
}

func (e *BudgetError) Error() string {
	var b strings.Builder
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	fmt.Fprintf(&b, "%s of the run's budget of %s used", e.show(e.Used), e.unit())
	if e.Need > 0 {
		fmt.Fprintf(&b, ", and the next step may take %s more", e.show(e.Need))
	}
	return b.String() + "; resume the run with a larger budget"
}

func (e *BudgetError) show(n int64) string {
	switch e.What {
	case BudgetMoney:
		return "$" + strconv.FormatFloat(float64(n)/1e6, 'f', 4, 64)
	case BudgetWall:
		return time.Duration(n).Round(time.Millisecond).String()
	}
	return strconv.FormatInt(n, 10)
}

// unit is the limit with its unit.
func (e *BudgetError) unit() string {
	switch e.What {
	case BudgetMoney, BudgetWall:
		return e.show(e.Limit)
	case BudgetTurns:
		return e.show(e.Limit) + " turns of models"
	case BudgetCalls:
		return e.show(e.Limit) + " calls of tools"
	}
	return e.show(e.Limit) + " " + e.What
}

// Waits reports that the task is not over.
func (e *BudgetError) Waits() bool { return true }

// FailureCode is the stable word for programs.
func (e *BudgetError) FailureCode() string { return "budget" }

// Enough is a limit that lets the run go on for a while.
func (e *BudgetError) Enough() int64 { return max(2*e.Limit, e.Used+2*e.Need) }

// ledger is the budget of a run and what is used of it. The mu of the journal guards it.
type ledger struct {
	over  Budget // what the journal was opened with
	given Budget // what the log says
	limit Budget // what counts: over the other
	spent Amount
	held  Amount // set aside: the sum of what the scopes hold
	wall  time.Duration
	epoch uint64 // of the last record, like
	last  int64  // its time in nanoseconds
}

// tick counts the time between records of one execution.
func (l *ledger) tick(r *Record) {
	at := r.Time.UnixNano()
	switch {
	case r.Epoch != l.epoch:
		l.epoch, l.last = r.Epoch, at
	case at > l.last:
		l.wall += time.Duration(at - l.last)
		l.last = at
	}
}

// elapsed is how long the run has been at work by now.
func (l *ledger) elapsed(epoch uint64, now time.Time) time.Duration {
	if l.epoch != epoch || l.last == 0 {
		return l.wall
	}
	return l.wall + max(0, time.Duration(now.UnixNano()-l.last))
}

// give takes note of a budget that the log has.
func (l *ledger) give(b *Budget) {
	if b != nil {
		l.given, l.limit = *b, l.over.Over(*b)
	}
}

// limits lists the limits there are, in a fixed order, with what is used of each and
// what an amount needs of it.
func (l *ledger) limits(taken, need Amount) []BudgetError {
	all := [...]BudgetError{
		{What: BudgetTokens, Limit: l.limit.Tokens, Used: taken.Tokens, Need: need.Tokens},
		{What: BudgetMoney, Limit: l.limit.Money, Used: taken.Money, Need: need.Money},
		{What: BudgetTurns, Limit: l.limit.Turns, Used: taken.Turns, Need: need.Turns},
		{What: BudgetCalls, Limit: l.limit.Calls, Used: taken.Calls, Need: need.Calls},
		{What: BudgetAgents, Limit: l.limit.Agents, Used: taken.Agents, Need: need.Agents},
	}
	return slices.DeleteFunc(all[:], func(e BudgetError) bool { return e.Limit <= 0 })
}

// short says which limit an amount goes beyond, besides what is taken already.
func (l *ledger) short(taken, need Amount, elapsed time.Duration) *BudgetError {
	if l.limit.Wall > 0 && elapsed >= l.limit.Wall {
		return &BudgetError{What: BudgetWall, Limit: int64(l.limit.Wall), Used: int64(elapsed)}
	}
	for _, e := range l.limits(taken, need) {
		if e.Need > 0 && e.Used+e.Need > e.Limit {
			return &e
		}
	}
	return nil
}

// hold sets an amount aside for an effect, in place of what was set aside for it.
func (l *ledger) hold(m *memory, key string, a Amount) {
	l.release(m, key)
	if a == (Amount{}) {
		return
	}
	if m.held == nil {
		m.held = map[string]Amount{}
	}
	m.held[key] = a
	l.held = l.held.Add(a)
}

func (l *ledger) release(m *memory, key string) {
	if a, ok := m.held[key]; ok {
		l.held = l.held.minus(a)
		delete(m.held, key)
	}
}

// settle counts the cost of an effect that is over.
func (l *ledger) settle(m *memory, d *Settled) {
	l.release(m, d.Key)
	delete(m.short, d.Key)
	if d.Spent != nil {
		l.spent = l.spent.Add(*d.Spent)
	}
}

// CarriedLedger is the budget of a run, as the log has it, and what was used by then.
type CarriedLedger struct {
	Budget Budget        `json:"budget,omitzero"`
	Spent  Amount        `json:"spent,omitzero"`
	Wall   time.Duration `json:"wall,omitempty"`
}

// carried is what must follow a snapshot, nil for nothing. Time at work is
// left out where nobody limits it, so that logs of equal runs stay equal.
func (l *ledger) carried() *CarriedLedger {
	c := CarriedLedger{Budget: l.given, Spent: l.spent}
	if l.limit.Wall > 0 {
		c.Wall = l.wall
	}
	if c == (CarriedLedger{}) {
		return nil
	}
	return &c
}

func (l *ledger) restore(c *CarriedLedger) {
	if c == nil {
		return
	}
	if c.Budget != (Budget{}) {
		l.give(&c.Budget)
	}
	l.spent = c.Spent
	if c.Wall > 0 {
		l.wall = c.Wall
	}
}

// drop forgets what a task did. What it has set aside is free again.
func (j *Journal) drop(path string) {
	if m := j.scopes[path]; m != nil {
		for key := range m.held {
			j.ledger.release(m, key)
		}
		delete(j.scopes, path)
	}
}

// reserve sets aside what an effect may cost. What it returns gives that back unless the
// effect was settled, or was begun and may be under way.
func (j *Journal) reserve(path string, e *Effect) (release func(), err error) {
	if e.Cost == (Amount{}) {
		return func() {}, nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	m, l := j.of(path), &j.ledger
	taken := l.spent.Add(l.held).minus(m.held[e.Key])
	// What a replay repeats was within the budget, or is not in the record.
	if short := l.short(taken, e.Cost, j.elapsed()); short != nil && j.opt.Director == nil {
		if m.short == nil {
			m.short = map[string]*BudgetError{}
		}
		short.Path = path
		m.short[e.Key] = short
		return nil, short
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

// cost is what an effect that is over did cost. One that failed is counted, but what a
// model used for it is not known; one whose error has a method Refused that says so was
// turned away before it began.
func (e *Effect) cost(out []byte, err error) *Amount {
	var refused interface {
		error
		Refused() bool
	}
	switch {
	case errors.As(err, &refused) && refused.Refused():
		return nil
	case err != nil:
		return Amount{Turns: e.Cost.Turns, Calls: e.Cost.Calls, Agents: e.Cost.Agents}.or()
	case e.Spent != nil:
		return e.Spent(out).or()
	}
	return e.Cost.or()
}

// elapsed is how long the run has been at work. The caller holds mu.
func (j *Journal) elapsed() time.Duration {
	if j.ledger.limit.Wall <= 0 {
		return 0
	}
	return j.ledger.elapsed(j.info.Epoch, j.opt.Now())
}

// lacks gives what the first effect of the scope, by its key, waits for, nil if what is
// left now would do for all of them. The caller holds mu.
func (j *Journal) lacks(m *memory) *BudgetError {
	for _, key := range slices.Sorted(maps.Keys(m.short)) {
		e := m.short[key]
		var need Amount
		switch e.What {
		case BudgetTokens:
			need.Tokens = e.Need
		case BudgetMoney:
			need.Money = e.Need
		case BudgetTurns:
			need.Turns = e.Need
		case BudgetCalls:
			need.Calls = e.Need
		case BudgetAgents:
			need.Agents = e.Need
		}
		l := &j.ledger
		if l.short(l.spent.Add(l.held).minus(m.held[key]), need, j.elapsed()) != nil {
			return e
		}
	}
	return nil
}

// Budget is what the run may use.
func (j *Journal) Budget() Budget {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.ledger.limit
}

// Spent is what the run has used: the sum of what its log says effects did cost.
func (j *Journal) Spent() Amount {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.ledger.spent
}

// Affords gives a *BudgetError if an amount goes beyond what is left of the budget and
// not set aside for anything, and takes note that the task waits for it. It sets nothing
// aside. The key names what the amount is for, within the task.
func (s *Scope) Affords(key string, need Amount) error {
	if s == nil {
		return nil
	}
	j := s.j
	j.mu.Lock()
	defer j.mu.Unlock()
	l, m := &j.ledger, j.of(s.path)
	short := l.short(l.spent.Add(l.held), need, j.elapsed())
	if short == nil || j.opt.Director != nil {
		delete(m.short, key)
		return nil
	}
	short.Path = s.path
	if m.short == nil {
		m.short = map[string]*BudgetError{}
	}
	m.short[key] = short
	return short
}

// Short gives what the first waiting task, in the order of their paths, lacks; nil if
// none waits for a larger budget.
func (j *Journal) Short() *BudgetError {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, path := range slices.Sorted(maps.Keys(j.scopes)) {
		if e := j.lacks(j.scopes[path]); e != nil {
			return e
		}
	}
	return nil
}

// Wall says how much time at work is left, and whether there is a limit.
func (j *Journal) Wall() (left time.Duration, limited bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	limit := j.ledger.limit.Wall
	return max(0, limit-j.elapsed()), limit > 0
}

// Late is the error of a run whose time at work is over.
func (j *Journal) Late() *BudgetError {
	j.mu.Lock()
	defer j.mu.Unlock()
	limit := int64(j.ledger.limit.Wall)
	return &BudgetError{What: BudgetWall, Limit: limit, Used: max(limit, int64(j.elapsed()))}
}

// Low says, for an agent, of which limit the soft share is used up; "" if of none.
func (s *Scope) Low() string {
	if s == nil {
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
	all := l.limits(l.spent.Add(l.held), Amount{})
	if l.limit.Wall > 0 {
		all = append(all, BudgetError{What: BudgetWall, Limit: int64(l.limit.Wall), Used: int64(j.elapsed())})
	}
	for _, e := range all {
		if e.What != BudgetAgents && float64(e.Used) >= soft*float64(e.Limit) {
			return fmt.Sprintf("%s of %s", e.show(e.Used), e.unit())
		}
	}
	return ""
}

// CountsMoney reports whether the budget of the run has a limit on money.
func (s *Scope) CountsMoney() bool { return s != nil && s.j.Budget().Money > 0 }

// A Hinter is a Director that knows the Hint of an effect that the record has.
type Hinter interface {
	Hint(path, key string) (hint string, recorded bool)
}

// Hint is the Hint that an effect of the task had when it was begun, and whether it was.
func (s *Scope) Hint(key string) (hint string, begun bool) {
	if s == nil {
		return "", false
	}
	if h, ok := s.j.opt.Director.(Hinter); ok {
		if hint, recorded := h.Hint(s.path, key); recorded {
			return hint, true
		}
	}
	s.j.mu.Lock()
	defer s.j.mu.Unlock()
	m := s.j.of(s.path)
	if d, ok := m.settled[key]; ok {
		return d.Hint, true
	}
	in := m.intents[key]
	return in.hint, in.n > 0
}

// carry makes what follows a snapshot right at the moment it is written: something may
// have been added to the log since the caller looked. The snapshot goes first, so that
// nothing of the group is before it and missing from it.
func (j *Journal) carry(group []*appending) error {
	i, k := -1, -1
	for n, a := range group {
		if k = slices.IndexFunc(a.recs, func(r Record) bool { return r.Kind == KindSnapshot }); k >= 0 {
			i = n
			break
		}
	}
	if i < 0 {
		return nil
	}
	a := group[i]
	recs, rest := slices.Clone(a.recs[:k+1]), a.recs[k+1:]
	c, err := j.carried(recs, rest)
	if err != nil {
		return err
	}
	if len(rest) > 0 && rest[0].Kind == KindCarried {
		rest = rest[1:]
	}
	if c != nil {
		r, err := j.New(KindCarried, "", c)
		if err != nil {
			return err
		}
		r.Time = recs[k].Time
		recs = append(recs, r)
	}
	a.recs = slices.Concat(recs, rest)
	copy(group[1:i+1], group[:i])
	group[0] = a
	return nil
}

// carried is what must follow the last of some records, a snapshot. The first snapshot of
// a log may carry what comes from another one: only who writes it knows that.
func (j *Journal) carried(recs, rest []Record) (*Carried, error) {
	j.mu.Lock()
	j.ledger.tick(&Record{Epoch: j.info.Epoch, Time: recs[len(recs)-1].Time})
	first, l := j.size == 0, j.ledger.carried()
	j.mu.Unlock()
	if first && len(rest) > 0 && rest[0].Kind == KindCarried {
		var c Carried
		err := unmarshal(&rest[0], &c)
		c.Ledger = l
		return &c, err
	}
	var tasks []string
	for i := range recs {
		if recs[i].Kind == KindTaskDone {
			tasks = append(tasks, recs[i].Path)
		}
	}
	return j.Carry(tasks...), nil
}
