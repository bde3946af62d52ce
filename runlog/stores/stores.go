// Package stores opens any of the stores there are by the name of a place. Programs that
// need one kind import that alone.
package stores

import (
	"context"
	"fmt"
	"io"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/sqlite"
)

// Open opens the store of a place. The caller closes it.
func Open(ctx context.Context, opt *runlog.OpenOptions) (runlog.Store, io.Closer, error) {
	notice := opt.Notice
	if notice == nil {
		notice = func(string) {}
	}
	switch p := opt.Place; p.Kind {
	case "memory":
		notice("runs are kept in memory: nothing survives this process")
		return runlog.NewMemory(nil), nothing{}, nil
	case "sqlite":
		return opened(sqlite.Open(ctx, p.Path, &sqlite.Options{Failpoint: opt.Failpoint}))
	default:
		return nil, nil, fmt.Errorf("there is no store of the kind %q", p.Kind)
	}
}

// opened makes nil of a store that could not be opened.
func opened[S interface {
	runlog.Store
	io.Closer
}](s S, err error) (runlog.Store, io.Closer, error) {
	if err != nil {
		return nil, nil, err
	}
	return s, s, nil
}

type nothing struct{}

func (nothing) Close() error { return nil }
