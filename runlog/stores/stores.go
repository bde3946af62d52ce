// Package stores opens any of the stores there are by the name of a place. Programs that
// need one kind import that alone.
package stores

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path/filepath"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/file"
	"github.com/superstep-dev/superstep/runlog/postgres"
	"github.com/superstep-dev/superstep/runlog/redis"
	"github.com/superstep-dev/superstep/runlog/seal"
	"github.com/superstep-dev/superstep/runlog/sqlite"
	"github.com/superstep-dev/superstep/runlog/storekit"
)

// All returns the drivers of every kind of place.
func All() []runlog.Driver {
	var out []runlog.Driver
	for _, kind := range []string{"memory", "file", "sqlite", "postgres", "redis"} {
		out = append(out, runlog.Driver{Kind: kind, Open: Open})
	}
	return out
}

// Open opens the store of a place. It redacts what is written to it, unless opt.Raw is set,
// and encrypts it if there is a key. The caller closes it.
func Open(ctx context.Context, opt *runlog.OpenOptions) (runlog.Store, io.Closer, error) {
	keys, err := seal.ParseKeys(opt.Keys)
	if err != nil {
		return nil, nil, err
	}
	protection := storekit.Protection{Raw: opt.Raw, Keys: keys, Environ: opt.Environ}
	switch p := opt.Place; p.Kind {
	case "memory":
		notes(opt, "runs are kept in memory: nothing survives this process")
		s, err := storekit.Protect(runlog.NewMemory(nil), &protection)
		return s, nothing{}, err
	case "file":
		return opened(file.Open(ctx, p.Path, &file.Options{Protection: protection, Failpoint: opt.Failpoint}))
	case "sqlite":
		return opened(sqlite.Open(ctx, p.Path, &sqlite.Options{Look: opt.Look, Protection: protection, Failpoint: opt.Failpoint}))
	case "postgres":
		s, err := postgres.Open(ctx, p.URL, &postgres.Options{Protection: protection, Failpoint: opt.Failpoint})
		if err == nil {
			notes(opt, s.Notes()...)
		}
		return opened(s, err)
	case "redis":
		s, err := redis.Open(ctx, p.URL, &redis.Options{
			AllowVolatile: opt.Volatile, Marker: marker(opt),
			Protection: protection, Failpoint: opt.Failpoint,
		})
		if err == nil {
			notes(opt, s.Notes()...)
		}
		return opened(s, err)
	default:
		return nil, nil, fmt.Errorf("there is no store of the kind %q", p.Kind)
	}
}

func notes(opt *runlog.OpenOptions, lines ...string) {
	if opt.Notice == nil {
		return
	}
	for _, line := range lines {
		opt.Notice(line)
	}
}

// marker returns the file that records a server's last known state, or "" if none is kept.
func marker(opt *runlog.OpenOptions) string {
	if opt.StateDir == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(opt.Place.String()))
	return filepath.Join(opt.StateDir, opt.Place.Kind+"-"+hex.EncodeToString(sum[:6])+".json")
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
