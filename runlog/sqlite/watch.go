package sqlite

import (
	"context"
	"time"
)

// pollEvery is the interval of the checks whether another process has written to the file.
const pollEvery = 50 * time.Millisecond

// A poller is a connection that looks for writes of other processes.
type poller struct {
	c       *conn
	version int64 // what PRAGMA data_version last said on it
}

// Wait implements [runlog.Waiter].
func (s *store) Wait(ctx context.Context, id string, seq uint64) error {
	return s.watch.Wait(ctx, id, seq)
}

// head reads the number of a run's last record.
func (s *store) head(ctx context.Context, id string) (head uint64, err error) {
	err = s.reading(ctx, func(v view) error {
		r, err := v.findRow(id)
		switch {
		case err != nil:
			return err
		case r == nil:
			return s.notFound(id)
		}
		head = r.info.Head
		return nil
	})
	return head, s.explain("reading", err)
}

// poll wakes the waiters of runs that have grown or were deleted, if the file has changed since the last call.
func (s *store) poll(_ context.Context, runs map[string]uint64, wake func(string)) error {
	err := s.poller.look(s, runs, wake)
	if err != nil {
		_ = s.poller.c.close()
		s.poller.c = nil
	}
	return err
}

func (p *poller) look(s *store, runs map[string]uint64, wake func(string)) error {
	if p.c == nil {
		c, err := openReader(s.path)
		if err != nil {
			return err
		}
		p.c, p.version = c, 0
	}
	version, err := p.c.integer("PRAGMA data_version", nil)
	if err != nil || version == p.version {
		return err
	}
	err = p.c.snapshot(func() error {
		v, err := s.recent.view(p.c)
		if err != nil {
			return err
		}
		for id, seq := range runs {
			r, err := v.findRow(id)
			if err != nil {
				return err
			}
			if r == nil || r.info.Head >= seq {
				wake(id)
			}
		}
		return nil
	})
	if err == nil {
		p.version = version
	}
	return err
}
