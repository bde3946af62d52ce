package crash

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/file"
	"github.com/superstep-dev/superstep/runlog/postgres"
	"github.com/superstep-dev/superstep/runlog/redis"
	"github.com/superstep-dev/superstep/runlog/sqlite"
)

// A Store is a store that somebody has to close.
type Store interface {
	runlog.Store
	io.Closer
}

// StoreOptions are what all stores have in common. Nil means their defaults.
type StoreOptions struct {
	Now       func() time.Time // not of stores that go by the server's clock
	Lease     time.Duration
	Owner     string
	Segment   int64 // of a store of files
	Failpoint func(name string)
}

// Open opens the store of a URL. Behind a # it has the schema or the prefix of a store
// that shares its server with others.
func Open(ctx context.Context, url string, opt *StoreOptions) (Store, error) {
	var o StoreOptions
	if opt != nil {
		o = *opt
	}
	kind, rest, _ := strings.Cut(url, ":")
	switch kind {
	case "file":
		return file.Open(ctx, rest, &file.Options{Now: o.Now, Lease: o.Lease, Owner: o.Owner, SegmentSize: o.Segment, Failpoint: o.Failpoint})
	case "sqlite":
		return sqlite.Open(ctx, rest, &sqlite.Options{Now: o.Now, Lease: o.Lease, Owner: o.Owner, Failpoint: o.Failpoint})
	}
	server, name, _ := strings.Cut(url, "#")
	switch kind {
	case "postgres":
		return postgres.Open(ctx, server, &postgres.Options{Schema: name, Lease: o.Lease, Owner: o.Owner, Failpoint: o.Failpoint})
	case "redis":
		return redis.Open(ctx, server, &redis.Options{Prefix: name, Lease: o.Lease, Owner: o.Owner, Failpoint: o.Failpoint})
	}
	return nil, fmt.Errorf("%q is no store; try sqlite:PATH, file:DIR, postgres://… or redis://…", url)
}

// An Observed is a store that tells when a run is held and which records it has
// acknowledged, before whoever appended them hears of it.
type Observed struct {
	runlog.Store
	Held  func(info *runlog.Info)
	Acked func(id string, recs []runlog.Record)
}

// Unwrap returns the store that is observed.
func (s *Observed) Unwrap() runlog.Store { return s.Store }

// Acquire implements runlog.Store.
func (s *Observed) Acquire(ctx context.Context, id string, opt *runlog.AcquireOptions) (runlog.Log, runlog.Info, error) {
	l, info, err := s.Store.Acquire(ctx, id, opt)
	if err != nil {
		return nil, info, err
	}
	if s.Held != nil {
		s.Held(&info)
	}
	if s.Acked == nil {
		return l, info, nil
	}
	return &observedLog{l, s, id}, info, nil
}

type observedLog struct {
	runlog.Log
	s  *Observed
	id string
}

func (l *observedLog) Append(ctx context.Context, b *runlog.Batch) error {
	err := l.Log.Append(ctx, b)
	if err == nil {
		l.s.Acked(l.id, b.Records)
	}
	return err
}
