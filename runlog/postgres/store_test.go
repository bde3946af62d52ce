package postgres

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/pgserver"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

// shared is the server of the tests that do not break theirs.
var shared pgserver.Shared

// schema is a schema of the test's own.
func schema(t testing.TB) string {
	return fmt.Sprintf("%.40s %x", strings.ReplaceAll(t.Name(), "/", "."), time.Now().UnixNano())
}

type tested struct {
	*Store
	server *pgserver.Server
}

func (s tested) Expire(t *testing.T, id string) {
	s.server.Exec(t, fmt.Sprintf("UPDATE %s.runs SET lease_until = clock_timestamp() - interval '1 minute' WHERE id = '%s'", quoted(s.dialer.schema), id))
}

func (s tested) Reopen(t *testing.T) runlog.Store {
	return openTest(t, s.server.DSN(), &Options{Schema: s.dialer.schema})
}

func openTest(t testing.TB, dsn string, opt *Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), dsn, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestStore(t *testing.T) {
	server := shared.Server(t)
	runlogtest.Run(t, func(t *testing.T) runlog.Store {
		return tested{openTest(t, server.DSN(), &Options{Schema: schema(t)}), server}
	})
}

func create(t testing.TB, s *Store, id string) runlog.Log {
	t.Helper()
	l, _, err := s.Acquire(t.Context(), id, &runlog.AcquireOptions{Create: &runlog.NewRun{}})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func batch(n int) *runlog.Batch {
	b := &runlog.Batch{}
	for range n {
		b.Records = append(b.Records, runlog.Record{
			Kind: runlog.KindEvent, Time: time.Unix(1e9, 0), Data: json.RawMessage(`{"text":"some text"}`),
		})
	}
	return b
}

func appendTo(t testing.TB, l runlog.Log, n int) {
	t.Helper()
	if err := l.Append(t.Context(), batch(n)); err != nil {
		t.Fatal(err)
	}
}
