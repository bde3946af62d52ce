package postgres

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/superstep-dev/superstep/runlog"
)

// pollEvery is how often the server is asked for the heads of runs that are waited for.
// NOTIFY is not used: it takes a lock of the whole server in every commit, which would
// keep commits from sharing a write to the disk.
const pollEvery = 25 * time.Millisecond

// Wait implements [runlog.Waiter].
func (s *store) Wait(ctx context.Context, id string, seq uint64) error {
	return s.watch.Wait(ctx, id, seq)
}

func (s *store) head(ctx context.Context, id string) (uint64, error) {
	if runlog.CheckID(id) != nil {
		return 0, s.notFound(id)
	}
	heads, err := s.heads(ctx, []string{id})
	if err != nil {
		return 0, err
	}
	head, known := heads[id]
	if !known {
		return 0, s.notFound(id)
	}
	return head, nil
}

// heads reads the numbers of the runs' last records.
func (s *store) heads(ctx context.Context, ids []string) (heads map[string]uint64, err error) {
	err = s.with(ctx, reading, func(ctx context.Context, c *conn) error {
		heads = map[string]uint64{}
		return c.query(ctx, "SELECT id, head FROM runs WHERE id = ANY ($1::text[])", func(v [][]byte) error {
			heads[string(v[0])] = uint64(toInt(v[1]))
			return nil
		}, texts(ids, func(id string) string { return id }))
	})
	return heads, err
}

func (s *store) poll(ctx context.Context, runs map[string]uint64, wake func(string)) error {
	heads, err := s.heads(ctx, slices.Collect(maps.Keys(runs)))
	if err != nil {
		return err
	}
	for id, seq := range runs {
		if head, known := heads[id]; !known || head >= seq {
			wake(id)
		}
	}
	return nil
}
