package journal

import (
	"context"
	"slices"
	"sync"
)

// DefaultAgents is how many agents of a run work at once if nothing else is said.
const DefaultAgents = 5

// seats hold back the agents of a run: so many work at once, the others wait in the order in which they came.
type seats struct {
	mu      sync.Mutex
	taken   int
	waiting []chan struct{} // each is closed when it is its turn
}

// Sit waits until the agent may work beside the others of the run, whatever began them: a node, a step or another
// agent. It returns what gives the place back, which must be called once. An agent that waits for others lets them
// have its place, so that work within work has an end. In a replay, and without a log, nobody waits. If stopped is
// closed before it is its turn, Sit returns ok false.
func (s *Scope) Sit(ctx context.Context, stopped <-chan struct{}) (rise func(), ok bool, err error) {
	rise, ok = func() {}, true
	if s != nil {
		err = s.Afresh(func() (err error) { rise, ok, err = s.sit(ctx, stopped); return err })
	}
	return rise, ok, err
}

func (s *Scope) sit(ctx context.Context, stopped <-chan struct{}) (rise func(), ok bool, err error) {
	q, limit := &s.j.seats, s.j.opt.Agents
	if limit <= 0 {
		limit = DefaultAgents
	}
	rise = func() { q.rise(limit) }
	q.mu.Lock()
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
