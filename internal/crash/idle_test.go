//go:build unix

package crash_test

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/crash"
)

// A worker that has nothing to do makes at most five transactions a second on Postgres, each of one query. A minute takes as long as its queries.
func TestIdleWorker(t *testing.T) {
	server := shared.Server(t)
	name := unique()
	server.Exec(t, `CREATE DATABASE "`+name+`"`)
	ask := func(sql string) (n int) {
		c, err := pgconn.Connect(t.Context(), server.DSN())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(t.Context())
		r, err := c.Exec(t.Context(), sql).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		if n, err = strconv.Atoi(string(r[0].Rows[0][0])); err != nil {
			t.Fatal(err)
		}
		return n
	}
	counted := func(minutes int) int {
		synctest.Test(t, func(t *testing.T) {
			store, err := crash.Open(t.Context(), strings.Replace(server.DSN(), "/postgres?", "/"+name+"?", 1), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			flows, err := poolWorkflows(func(string, string) {})
			if err != nil {
				t.Fatal(err)
			}
			e, err := superstep.New(store, &superstep.Options{Workflows: flows})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			ctx, stop := context.WithTimeout(t.Context(), time.Duration(minutes)*time.Minute)
			defer stop()
			if err := e.Serve(ctx, &superstep.RecoverOptions{Failed: func(id string, err error) { t.Error(id, err) }}); err != nil {
				t.Fatal(err)
			}
		})
		for ask("SELECT count(*) FROM pg_stat_activity WHERE datname = '"+name+"'") > 0 {
			time.Sleep(time.Millisecond)
		}
		const sum = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = '"
		n := -1
		for same := 0; same < 5; same++ { // a connection leaves the list a moment before what it did is added
			time.Sleep(20 * time.Millisecond)
			if now := ask(sum + name + "'"); now != n {
				n, same = now, 0
			}
		}
		return n
	}
	tables := counted(0)
	one := counted(1) - tables
	two := counted(2) - tables - one
	if minute := two - one; minute < 60 || minute > 5*60 { // without what begins and ends a worker
		t.Errorf("a minute has %d transactions, want 60 to 300 (one minute: %d, two: %d)", minute, one, two)
	}
}

// Redis reports a queued run to a worker that waits. In a bubble no time passes while the worker reads from its subscription, so its next look never comes.
func TestRedisReportsQueuedRuns(t *testing.T) {
	url := backends()[3].open(t).url
	late := make(chan struct{}) // after a real minute
	defer time.AfterFunc(time.Minute, func() { close(late) }).Stop()
	synctest.Test(t, func(t *testing.T) {
		store, err := crash.Open(t.Context(), url, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		flows, err := poolWorkflows(func(string, string) {})
		if err != nil {
			t.Fatal(err)
		}
		e, err := superstep.New(store, &superstep.Options{Workflows: flows})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		ctx, stop := context.WithCancel(t.Context())
		taken, over := make(chan struct{}), make(chan error)
		go func() {
			over <- e.Serve(ctx, &superstep.RecoverOptions{Taken: func(string) { taken <- struct{}{} }})
		}()
		for n := range 3 { // the first one may be found by the worker's first look
			if _, err := e.Enqueue(t.Context(), poolNames[0], json.RawMessage(`{"id":"x"}`), nil); err != nil {
				t.Fatal(err)
			}
			select {
			case <-taken:
			case <-late:
				t.Errorf("run %d was not taken", n)
			}
		}
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
}
