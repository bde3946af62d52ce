package redis

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/superstep-dev/superstep/internal/redisserver"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"github.com/superstep-dev/superstep/runlog/storekit"
)

// durable is a server that loses nothing.
func durable(tb testing.TB) *redisserver.Server {
	return redisserver.Start(tb, "appendonly yes")
}

func openTest(tb testing.TB, url string, opt *Options) *Store {
	tb.Helper()
	return runlogtest.Open(tb, Open, url, opt)
}

// raw returns what does a command on the server.
func raw(tb testing.TB, srv *redisserver.Server) func(command string, args ...any) any {
	return func(command string, args ...any) any {
		tb.Helper()
		r, err := srv.Do(command, args...)
		if err != nil {
			tb.Fatalf("%s: %v", command, err)
		}
		return r
	}
}

type tested struct {
	*Store
	url string
}

// Expire ends the lease of a run's holder, which hears nothing of it.
func (s tested) Expire(t *testing.T, id string) {
	t.Helper()
	if _, err := s.client.do(t.Context(), "SETRANGE", s.keys.run(id), untilOffset, strings.Repeat("\x00", 8)); err != nil {
		t.Fatal(err)
	}
}

func (s tested) Reopen(t *testing.T) runlog.Store {
	return openTest(t, s.url, &Options{Prefix: strings.Trim(s.keys.base, "{}:")})
}

func TestStore(t *testing.T) {
	srv := durable(t)
	runlogtest.Run(t, func(t *testing.T) runlog.Store {
		prefix := strings.Map(func(c rune) rune {
			if c == ':' || c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
				return c
			}
			return '.'
		}, t.Name())
		return tested{openTest(t, srv.URL(), &Options{Prefix: prefix[max(0, len(prefix)-60):]}), srv.URL()}
	})
}

func wantReset(tb testing.TB, err error) {
	tb.Helper()
	if !errors.Is(err, runlog.ErrStoreReset) {
		tb.Fatalf("got error %v, want one that wraps ErrStoreReset", err)
	}
}

// appendedBytes is the size of the server's append-only files.
func appendedBytes(tb testing.TB, srv *redisserver.Server) (n int64) {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(srv.Dir(), "appendonlydir", "*.aof"))
	if err != nil {
		tb.Fatal(err)
	}
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			tb.Fatal(err)
		}
		n += info.Size()
	}
	return n
}

func TestProtected(t *testing.T) {
	srv := durable(t)
	sites := 0
	runlogtest.RunProtected(t, func(t *testing.T) *runlogtest.Site {
		sites++
		prefix := fmt.Sprintf("site%d", sites)
		return &runlogtest.Site{
			Open: func(t *testing.T, p *storekit.Protection) runlog.Store {
				return openTest(t, srv.URL(), &Options{Prefix: prefix, Protection: *p})
			},
			Stored: func(t *testing.T) (all []byte) {
				c := raw(t, srv)
				keys, err := redigo.Strings(c("KEYS", "*"+prefix+"*"), nil)
				for _, key := range keys {
					value, _ := redigo.String(srv.Do("GET", key)) // of a string
					hash, _ := redigo.StringMap(srv.Do("HGETALL", key))
					all = fmt.Append(all, key, value, hash)
				}
				if err != nil || len(keys) == 0 {
					t.Fatalf("%d keys, error %v", len(keys), err)
				}
				return all
			},
		}
	})
}

func TestPanics(t *testing.T) {
	runlogtest.Panics(t, func(t *testing.T, failpoint func(string)) runlog.Store {
		return openTest(t, durable(t).URL(), &Options{Failpoint: failpoint})
	}, "redis.before-send", "redis.after-send")
}
