package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/pgserver"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

// Runs go on while the server is stopped, or killed, for up to two seconds again and again.
func TestServerRestarts(t *testing.T) {
	t.Parallel() // it has a server of its own
	server := pgserver.Start(t, nil)
	begin := time.Now()
	rng, _ := faults.Rand(t)
	s := openTest(t, server.DSN(), nil)
	const steps, workers = 5, 50
	runs := faults.N(10_000)
	var next, acks atomic.Int64
	var lastAck atomic.Int64 // when, as Unix nanoseconds
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(runs) && !t.Failed(); i = next.Add(1) {
				if err := lifecycle(s, fmt.Sprintf("run-%d", i), steps, func() {
					acks.Add(1)
					lastAck.Store(time.Now().UnixNano())
					time.Sleep(120 * time.Millisecond) // the work of a step
				}); err != nil {
					t.Errorf("run %d: %v", i, err)
				}
			}
		})
	}
	finished := make(chan struct{})
	go func() {
		wg.Wait()
		close(finished)
	}()
	restarts, slowest := 0, time.Duration(0)
	for over := false; !over; {
		select {
		case <-finished:
			over = true
		case <-time.After(time.Second + time.Duration(rng.IntN(2000))*time.Millisecond):
			if rng.IntN(2) == 0 {
				server.Kill(t)
			} else {
				server.Stop(t)
			}
			time.Sleep(time.Duration(rng.IntN(2000)) * time.Millisecond)
			server.Restart(t)
			restarts++
			back := time.Now()
			for lastAck.Load() < back.UnixNano() && next.Load() <= int64(runs) && time.Since(back) < 30*time.Second {
				time.Sleep(5 * time.Millisecond)
			}
			slowest = max(slowest, time.Since(back))
		}
	}
	for i := 1; i <= runs && !t.Failed(); i++ {
		wantNumbered(t, s, fmt.Sprintf("run-%d", i), steps)
	}
	infos, err := s.Runs(t.Context(), &runlog.Filter{Status: []runlog.Status{runlog.Completed}})
	if err != nil || len(infos) != runs {
		t.Errorf("%d of %d runs are completed, error %v", len(infos), runs, err)
	}
	if slowest > 10*time.Second {
		t.Errorf("once it took %s until there was progress", slowest)
	}
	faults.Report(t, "server restarts", "postgres", runs, begin, "%d restarts, %d acknowledged records: 0 lost, 0 duplicated, progress within %s of the server's return", restarts, acks.Load(), slowest.Round(time.Millisecond))
}

// lifecycle makes a run, appends the records 1 to steps and ends it.
func lifecycle(s *Store, id string, steps int, acked func()) error {
	ctx := context.Background()
	l, _, err := s.Acquire(ctx, id, &runlog.AcquireOptions{Create: &runlog.NewRun{Workflow: "w"}})
	if err != nil {
		return err
	}
	for n := 1; n <= steps; n++ {
		b := numbered(n)
		if n == steps {
			b.Status = runlog.Completed
		}
		if err := l.Append(ctx, b); err != nil {
			return err
		}
		acked()
	}
	return l.Release(ctx)
}

// With a synchronous standby a promotion loses nothing; without one, every loss that a
// holder can see is reported.
func TestPromotions(t *testing.T) {
	t.Parallel() // it has a server of its own
	for _, sync := range []bool{true, false} {
		name := map[bool]string{true: "synchronous", false: "asynchronous"}[sync]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begin := time.Now()
			n := max(faults.N(50)/2, 1)
			if !faults.Full() {
				n = min(n, 2)
			}
			lost, reported := 0, 0
			primary := pgserver.Start(t, nil)
			for range n {
				standby := primary.Standby(t, sync)
				both := fmt.Sprintf("postgres://superstep@%s,%s/postgres?sslmode=disable", primary.Addr(), standby.Addr())
				s, err := Open(t.Context(), both, &Options{Schema: schema(t)})
				if err != nil {
					t.Fatal(err)
				}
				if notes := s.Notes(); len(notes) > 0 == sync {
					t.Errorf("the notes are %q", notes)
				}
				if sync {
					promoteUnderLoad(t, s, primary, standby)
				} else {
					l, r := promoteBehind(t, s, primary, standby)
					lost, reported = lost+l, reported+r
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				primary.Close()
				primary = standby
			}
			faults.Report(t, name+" failover", "postgres", n, begin, "%d runs lost acknowledged records, %d of them were reported", lost, reported)
			if lost != reported {
				t.Errorf("%d of %d losses were reported", reported, lost)
			}
		})
	}
}

// A commit that an administrator lets go before the standby has it is not acknowledged
// until the standby has it.
func TestCancelledWaitForStandby(t *testing.T) {
	t.Parallel() // it has a server of its own
	primary := pgserver.Start(t, nil)
	standby := primary.Standby(t, true)
	s := openTest(t, primary.DSN(), nil)
	l := runlogtest.Create(t, s, "r")
	runlogtest.Append(t, l, 1)
	standby.Stop(t)
	acked := make(chan error, 1)
	go func() { acked <- l.Append(context.Background(), runlogtest.Batch(1)) }()
	const cancel = `DO $$ DECLARE p int; BEGIN
		FOR i IN 1..1000 LOOP
			PERFORM pg_stat_clear_snapshot();
			SELECT pid INTO p FROM pg_stat_activity WHERE application_name = 'superstep' AND wait_event = 'SyncRep';
			EXIT WHEN p IS NOT NULL;
			PERFORM pg_sleep(0.01);
		END LOOP;
		ASSERT pg_cancel_backend(p);
	END $$`
	for range 2 { // the append, and then what was to make sure of it
		primary.Exec(t, cancel)
		select {
		case err := <-acked:
			t.Fatalf("it was acknowledged without the standby, with error %v", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
	standby.Restart(t)
	if err := <-acked; err != nil {
		t.Fatal(err)
	}
	primary.Kill(t)
	standby.Promote(t)
	again := openTest(t, standby.DSN(), nil)
	if recs, err := again.Read(t.Context(), "r", 1, 0); err != nil || len(recs) != 2 {
		t.Errorf("%d records, error %v", len(recs), err)
	}
}

// promoteUnderLoad kills the primary while many append.
func promoteUnderLoad(t *testing.T, s *Store, primary, standby *pgserver.Server) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	acked := make([]int, 10)
	var after atomic.Int64
	var promoted atomic.Bool
	var wg sync.WaitGroup
	for i := range acked {
		l := runlogtest.Create(t, s, fmt.Sprintf("run-%d", i))
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := l.Append(context.Background(), numbered(acked[i]+1)); err != nil {
					t.Errorf("run %d: %v", i, err)
					return
				}
				acked[i]++
				if promoted.Load() {
					after.Add(1)
				}
			}
		})
	}
	time.Sleep(200 * time.Millisecond)
	primary.Kill(t)
	standby.Promote(t)
	promoted.Store(true)
	for begin := time.Now(); after.Load() < 100 && !t.Failed(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > faults.Bound(20*time.Second) {
			t.Error("there was no progress")
		}
	}
	stop()
	wg.Wait()
	for i, n := range acked {
		wantNumbered(t, s, fmt.Sprintf("run-%d", i), n)
	}
}

// promoteBehind promotes a standby that has not heard the last of the primary, and returns
// how many runs lost something and how many said so.
func promoteBehind(t *testing.T, s *Store, primary, standby *pgserver.Server) (lost, reported int) {
	t.Helper()
	logs := map[string]runlog.Log{}
	for _, id := range []string{"same", "records", "status", "taken", "renewed"} {
		logs[id] = runlogtest.Create(t, s, id)
		if err := logs[id].Append(t.Context(), numbered(1)); err != nil {
			t.Fatal(err)
		}
	}
	primary.Exec(t, "DO $$ BEGIN WHILE EXISTS (SELECT FROM pg_stat_replication WHERE replay_lsn IS DISTINCT FROM pg_current_wal_lsn()) LOOP PERFORM pg_sleep(0.01); PERFORM pg_stat_clear_snapshot(); END LOOP; END $$")
	standby.Exec(t, "ALTER SYSTEM SET primary_conninfo = ''")
	standby.Exec(t, "SELECT pg_reload_conf()")
	primary.Exec(t, "DO $$ BEGIN WHILE EXISTS (SELECT FROM pg_stat_replication) LOOP PERFORM pg_sleep(0.01); PERFORM pg_stat_clear_snapshot(); END LOOP; END $$")
	logs["created"] = runlogtest.Create(t, s, "created")
	for _, id := range []string{"records", "taken", "renewed", "created"} {
		if err := logs[id].Append(t.Context(), numbered(2)); err != nil {
			t.Fatal(err)
		}
	}
	if err := logs["status"].Append(t.Context(), &runlog.Batch{Status: runlog.Paused}); err != nil {
		t.Fatal(err)
	}
	primary.Kill(t)
	standby.Promote(t)
	tested{s, standby}.Expire(t, "taken")
	second, _, err := s.Acquire(t.Context(), "taken", nil)
	if err != nil {
		t.Fatal(err)
	}
	runlogtest.Append(t, second, 3) // in the place of what was lost
	runlogtest.Create(t, s, "new")  // may get the number of the run that is not there
	for id, l := range logs {
		if id == "renewed" {
			_, err = l.Renew(t.Context())
		} else {
			err = l.Append(t.Context(), numbered(3))
		}
		if id == "same" {
			if err != nil {
				t.Errorf("a run that lost nothing: %v", err)
			}
			continue
		}
		lost++
		if errors.Is(err, runlog.ErrStoreReset) {
			reported++
		} else {
			t.Errorf("run %s lost acknowledged records and got %v", id, err)
		}
		if err := l.Append(t.Context(), numbered(4)); err == nil {
			t.Errorf("run %s went on", id)
		}
	}
	return lost, reported
}

// A server that has no room makes a *StorageError and loses nothing; one that has too many
// connections is waited for.
func TestServerErrors(t *testing.T) {
	server := shared.Server(t)
	name := schema(t)
	s := openTest(t, server.DSN(), &Options{Schema: name, Patience: 500 * time.Millisecond})
	l, company := runlogtest.Create(t, s, "r"), runlogtest.Create(t, s, "company")
	runlogtest.Append(t, l, 1)
	trigger := func(when, code string) {
		server.Exec(t, fmt.Sprintf(`SET search_path = %s; CREATE OR REPLACE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF %s THEN RAISE EXCEPTION 'on purpose' USING ERRCODE = '%s'; END IF; RETURN NEW; END $$;
			CREATE OR REPLACE TRIGGER fail BEFORE INSERT ON records FOR EACH ROW EXECUTE FUNCTION fail()`, quoted(name), when, code))
	}
	for _, code := range []string{"53100", "53200", "53300", "58030"} {
		trigger("true", code)
		err := l.Append(t.Context(), runlogtest.Batch(2))
		if storage := (*runlog.StorageError)(nil); !errors.As(err, &storage) {
			t.Errorf("%s: %v", code, err)
		}
	}
	trigger("NEW.run = 1", "22000") // in company, only the one is refused
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := l.Append(context.Background(), runlogtest.Batch(1)); err == nil {
				t.Error("what the server refuses was stored")
			}
		})
		wg.Go(func() {
			if err := company.Append(context.Background(), runlogtest.Batch(1)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	server.Exec(t, "CREATE SEQUENCE "+quoted(name)+".tries")
	trigger("nextval('"+quoted(name)+".tries') % 3 > 0", "40P01") // which is tried again
	for range 10 {
		runlogtest.Append(t, l, 1)
	}
	trigger("false", "00000")
	runlogtest.Append(t, l, 1)
	recs, err := s.Read(t.Context(), "r", 1, 0)
	if err != nil || len(recs) != 12 {
		t.Errorf("%d records, error %v", len(recs), err)
	}
}

// A store that was emptied, or made anew, says so, and does not pretend that there are no runs.
func TestEmptiedStore(t *testing.T) {
	server := shared.Server(t)
	for _, again := range []bool{false, true} {
		name := schema(t)
		s := openTest(t, server.DSN(), &Options{Schema: name})
		l := runlogtest.Create(t, s, "r")
		runlogtest.Append(t, l, 1)
		server.Exec(t, "DROP SCHEMA "+quoted(name)+" CASCADE")
		if again {
			openTest(t, server.DSN(), &Options{Schema: name})
		}
		server.Exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'superstep'")
		if err := l.Append(t.Context(), runlogtest.Batch(1)); !errors.Is(err, runlog.ErrStoreReset) {
			t.Errorf("Append: %v", err)
		}
		if _, err := s.Runs(t.Context(), nil); !errors.Is(err, runlog.ErrStoreReset) {
			t.Errorf("Runs: %v", err)
		}
	}
}
