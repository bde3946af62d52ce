package team

import (
	"context"
	"slices"
	"sync"
)

// queues limits how many agents of each run are running at once. The others wait in the order of their arrival.
type queues struct {
	limit int
	mu    sync.Mutex
	runs  map[string]*queue // of the runs that have somebody in them
}

type queue struct {
	busy    int
	waiting []*ticket
}

// A ticket is a place in a queue, or among those that run.
type ticket struct {
	all   *queues
	run   string
	turn  chan struct{} // closed when it is its turn
	given bool          // it was its turn, or is
	over  bool          // it was given back
}

// join adds a ticket at the end of a run's queue. If free is set, the ticket does not wait.
func (q *queues) join(run string, free bool) *ticket {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := &ticket{all: q, run: run, turn: make(chan struct{})}
	r := q.runs[run]
	if r == nil {
		r = &queue{}
		q.runs[run] = r
	}
	if free || r.busy < q.limit && len(r.waiting) == 0 {
		r.busy++
		t.give()
	} else {
		r.waiting = append(r.waiting, t)
	}
	return t
}

func (t *ticket) give() {
	t.given = true
	close(t.turn)
}

// wait waits until it is its turn.
func (t *ticket) wait(ctx context.Context) error {
	select {
	case <-t.turn:
		return nil
	default:
	}
	select {
	case <-t.turn:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// leave frees the place, once.
func (t *ticket) leave() {
	q := t.all
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.over {
		return
	}
	t.over = true
	r := q.runs[t.run]
	if t.given {
		r.busy--
	} else {
		r.waiting = slices.DeleteFunc(r.waiting, func(o *ticket) bool { return o == t })
	}
	for len(r.waiting) > 0 && r.busy < q.limit {
		r.busy++
		r.waiting[0].give()
		r.waiting = r.waiting[1:]
	}
	if r.busy == 0 && len(r.waiting) == 0 {
		delete(q.runs, t.run)
	}
}

// A seat is the place of one running agent of the team. While it only waits for others it
// lets them have it, so that a team of one can do work within work.
type seat struct {
	queues *queues
	run    string
	free   bool
	depth  int // 1 for an agent that a lead has asked for

	mu     sync.Mutex
	ticket *ticket // nil while it is away
	away   int     // of its calls, how many wait for others
}

// rise releases the seat until back has been called as often as rise.
func (s *seat) rise() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away++; s.away == 1 && s.ticket != nil {
		s.ticket.leave()
		s.ticket = nil
	}
}

// back waits for a place again once every call of rise is matched. If over is set, there is no more
// work and it takes no place.
func (s *seat) back(ctx context.Context, over bool) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away--; s.away > 0 || over {
		return nil
	}
	t := s.queues.join(s.run, s.free)
	if err := t.wait(ctx); err != nil {
		t.leave()
		return err
	}
	s.ticket = t
	return nil
}

// leave is the end of its work.
func (s *seat) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ticket != nil {
		s.ticket.leave()
		s.ticket = nil
	}
}
