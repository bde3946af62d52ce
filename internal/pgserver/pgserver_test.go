package pgserver_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/superstep-dev/superstep/internal/pgserver"
)

// ask runs a query that gives one text.
func ask(t *testing.T, s *pgserver.Server, sql string) string {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	c, err := pgconn.Connect(ctx, s.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	results, err := c.Exec(ctx, sql).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return string(results[0].Rows[0][0])
}

func TestServer(t *testing.T) {
	s := pgserver.Start(t, nil)
	if got := ask(t, s, "SHOW fsync"); got != "on" {
		t.Fatalf("fsync is %s", got)
	}
	s.Exec(t, "CREATE TABLE t AS SELECT 7 AS n")
	s.Kill(t)
	if _, err := pgconn.Connect(t.Context(), s.DSN()); err == nil {
		t.Fatal("a killed server answers")
	}
	s.Restart(t)
	b := s.Standby(t, true)
	s.Exec(t, "INSERT INTO t VALUES (8)")
	s.Kill(t)
	if got := ask(t, b, "SELECT pg_is_in_recovery()"); got != "t" {
		t.Fatalf("the standby is in recovery: %s", got)
	}
	b.Promote(t)
	b.Exec(t, "INSERT INTO t VALUES (9)")
	if got := ask(t, b, "SELECT string_agg(n::text, ' ' ORDER BY n) FROM t"); got != "7 8 9" {
		t.Fatalf("the promoted standby has %s", got)
	}
	b.Stop(t)
	b.Restart(t)
	if got := ask(t, b, "SELECT count(*) FROM t"); got != "3" {
		t.Fatalf("restarted it has %s", got)
	}
}
