package journal

import (
	"context"
	"slices"
	"sync"
)

// DefaultAgents is the default number of agents of a run that may run at once.
const DefaultAgents = 5

// seats limits how many agents of a run are running at once. The others wait in the order of their arrival.
type seats struct {
	mu      sync.Mutex
	taken   int
	wide    int             // see Widen
	waiting []chan struct{} // each is closed when it is its turn
}

// Sit waits until the agent may run beside the other agents of the run, whether a node, a step or another agent started them. It returns a function that
// releases the seat and must be called once. An agent that waits for sub-agents must release its seat, so that nested agents cannot deadlock. In a
// replay, and without a log, Sit does not wait. If stopped is closed first, Sit returns ok false.
func (s *Scope) Sit(ctx context.Context, stopped <-chan struct{}) (rise func(), ok bool, err error) {
	rise, ok = func() {}, true
	if !s.off() {
		err = s.Afresh(func() (err error) { rise, ok, err = s.sit(ctx, stopped); return err })
	}
	return rise, ok, err
}

// Widen lets at least so many agents of the run run at once, unless Options.Agents is set. Call it
// before any of them begins.
func (j *Journal) Widen(agents int) {
	j.seats.mu.Lock()
	defer j.seats.mu.Unlock()
	j.seats.wide = max(j.seats.wide, agents)
}

func (s *Scope) sit(ctx context.Context, stopped <-chan struct{}) (rise func(), ok bool, err error) {
	q, limit := &s.j.seats, s.j.opt.Agents
	q.mu.Lock()
	if limit <= 0 {
		limit = max(DefaultAgents, q.wide)
	}
	rise = func() { q.rise(limit) }
	if q.taken < limit && len(q.waiting) == 0 {
		q.taken++
		q.mu.Unlock()
		return rise, true, nil
	}
	turn := make(chan struct{})
	q.waiting = append(q.waiting, turn)
	q.mu.Unlock()
	s.Live("agent.queued", nil)
	select {
	case <-turn:
		s.Live("agent.works", nil)
		return rise, true, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-stopped:
	}
	q.mu.Lock()
	i := slices.Index(q.waiting, turn)
	if i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	q.mu.Unlock()
	if i < 0 { // it was its turn at the same moment
		rise()
	}
	return nil, false, err
}

func (q *seats) rise(limit int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.taken--; q.taken < limit && len(q.waiting) > 0; q.taken++ {
		close(q.waiting[0])
		q.waiting = q.waiting[1:]
	}
}
