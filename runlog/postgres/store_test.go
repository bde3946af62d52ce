package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/superstep-dev/superstep/internal/pgserver"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"github.com/superstep-dev/superstep/runlog/storekit"
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
	return runlogtest.Open(t, Open, dsn, opt)
}

func TestStore(t *testing.T) {
	server := shared.Server(t)
	runlogtest.Run(t, func(t *testing.T) runlog.Store {
		return tested{openTest(t, server.DSN(), &Options{Schema: schema(t)}), server}
	})
}

func TestProtected(t *testing.T) {
	server := shared.Server(t)
	runlogtest.RunProtected(t, func(t *testing.T) *runlogtest.Site {
		name := schema(t)
		return &runlogtest.Site{
			Open: func(t *testing.T, p *storekit.Protection) runlog.Store {
				return openTest(t, server.DSN(), &Options{Schema: name, Protection: *p})
			},
			Stored: func(t *testing.T) []byte { return dump(t, server, name) },
		}
	})
}

// dump returns all that the tables of a schema have in them.
func dump(t *testing.T, server *pgserver.Server, schema string) []byte {
	t.Helper()
	c, err := pgconn.Connect(t.Context(), server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	tables := c.ExecParams(t.Context(), "SELECT tablename FROM pg_tables WHERE schemaname = $1", [][]byte{[]byte(schema)}, nil, nil, nil).Read()
	if tables.Err != nil || len(tables.Rows) == 0 {
		t.Fatalf("%d tables, error %v", len(tables.Rows), tables.Err)
	}
	var b bytes.Buffer
	for _, row := range tables.Rows {
		if _, err := c.CopyTo(t.Context(), &b, fmt.Sprintf("COPY %s.%s TO STDOUT (FORMAT binary)", quoted(schema), quoted(string(row[0])))); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// A panic in the write of an append, on its caller's goroutine, leaves the store to the others. The
// hold writes no more, since nobody knows whether the append is stored.
func TestPanics(t *testing.T) {
	server := shared.Server(t)
	for _, point := range []string{"postgres.before-begin", "postgres.mid-write", "postgres.before-commit", "postgres.after-commit"} {
		var armed atomic.Value
		armed.Store("")
		s := openTest(t, server.DSN(), &Options{Schema: schema(t), Failpoint: func(name string) {
			if name == armed.Load() {
				panic(name)
			}
		}})
		logs := map[string]runlog.Log{}
		for _, id := range []string{"a", "b"} {
			var err error
			if logs[id], _, err = s.Acquire(t.Context(), id, &runlog.AcquireOptions{Create: &runlog.NewRun{}}); err != nil {
				t.Fatal(err)
			}
		}
		add := func(id string) (err error) {
			defer func() {
				if p := recover(); p != nil {
					err = fmt.Errorf("panic: %v", p)
				}
			}()
			return logs[id].Append(t.Context(), &runlog.Batch{Records: []runlog.Record{{Kind: runlog.KindEvent, Time: time.Now()}}})
		}
		if err := errors.Join(add("a"), add("b")); err != nil { // from now on there is a connection
			t.Fatal(err)
		}
		for len(s.turn) == 0 { // the goroutine that followed that append has ended
			time.Sleep(time.Millisecond)
		}
		armed.Store(point)
		if err := add("a"); err == nil || err.Error() != "panic: "+point {
			t.Fatalf("%s: got %v", point, err)
		}
		armed.Store("")
		if err := errors.Join(add("b"), add("b")); err != nil {
			t.Errorf("%s: another run: %v", point, err)
		}
		if err := add("a"); !errors.Is(err, runlog.ErrUnknown) {
			t.Errorf("%s: the hold goes on: %v", point, err)
		}
		if recs, err := s.Read(t.Context(), "a", 1, 10); err != nil || len(recs) > 2 {
			t.Errorf("%s: %d records, %v", point, len(recs), err)
		}
	}
}
