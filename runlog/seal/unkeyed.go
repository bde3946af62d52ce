package seal

import (
	"context"
	"sync/atomic"

	"github.com/superstep-dev/superstep/runlog"
)

// WithoutKey returns a store for a program that has no key. Into a store whose newest run is
// encrypted, and into a run that is, it writes nothing that is not: it returns a
// *runlog.SealedError. Everything else is the store's own, listing, reading and deleting runs
// included. The result has the optional abilities of the store, see [runlog.As].
func WithoutKey(store runlog.Store) runlog.Store {
	return &unkeyed{Store: store}
}

type unkeyed struct {
	runlog.Store
	plain atomic.Bool // the newest run, when it was looked at, was not encrypted
}

// Unwrap returns the store below, see [runlog.As].
func (s *unkeyed) Unwrap() runlog.Store { return s.Store }

// Acquire implements runlog.Store.
func (s *unkeyed) Acquire(ctx context.Context, id string, opt *runlog.AcquireOptions) (runlog.Log, runlog.Info, error) {
	if opt != nil && opt.Create != nil && opt.Create.Workflow != workflow && !s.plain.Load() {
		newest, err := s.Runs(ctx, &runlog.Filter{Limit: 1})
		if err != nil {
			return nil, runlog.Info{}, err
		}
		for _, info := range newest {
			if key, ok := Sealed(info); ok {
				return nil, runlog.Info{}, &runlog.SealedError{Key: key}
			}
		}
		s.plain.Store(true)
	}
	log, info, err := s.Store.Acquire(ctx, id, opt)
	if key, ok := Sealed(info); ok && err == nil {
		log = &unkeyedLog{log, id, key}
	}
	return log, info, err
}

// An unkeyedLog is the hold of a run that is encrypted.
type unkeyedLog struct {
	runlog.Log
	id, key string
}

// Append implements runlog.Log.
func (l *unkeyedLog) Append(ctx context.Context, b *runlog.Batch) error {
	for i := range b.Records {
		if d := b.Records[i].Data; len(d) == 0 || d[0] != runlog.SealMark {
			return &runlog.SealedError{ID: l.id, Key: l.key}
		}
	}
	if b.Summary != "" && b.Summary[0] != runlog.SealMark {
		return &runlog.SealedError{ID: l.id, Key: l.key}
	}
	return l.Log.Append(ctx, b)
}
