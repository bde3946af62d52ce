package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/pgserver"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

func TestOpenRefuses(t *testing.T) {
	server := shared.Server(t)
	const secret = "s3cret"
	with := strings.Replace(server.DSN(), "@", ":"+secret+"@", 1)
	server.Exec(t, "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
	newer, foreign := schema(t), schema(t)+"f"
	if err := openTest(t, server.DSN(), &Options{Schema: newer}).Close(); err != nil {
		t.Fatal(err)
	}
	server.Exec(t, fmt.Sprintf("UPDATE %s.meta SET value = '99' WHERE name = 'version'", quoted(newer)))
	server.Exec(t, fmt.Sprintf("CREATE SCHEMA %s; CREATE TABLE %[1]s.meta (name text, value text)", quoted(foreign)))
	server.Exec(t, "DROP ROLE IF EXISTS nobody; CREATE ROLE nobody LOGIN")
	for _, c := range []struct {
		name, dsn, want string
		opt             *Options
	}{
		{"no address", "postgres://user:" + secret + "@host:port/db", "cannot be read", nil},
		{"an address with a slash in the password", "postgres://user:a/" + secret + "@host/db", "cannot be read", nil},
		{"nobody there", strings.Replace(with, server.Addr(), "127.0.0.1:1", 1), "127.0.0.1:1", nil},
		{"no such database", strings.Replace(with, "/postgres?", "/gone?", 1), "gone", nil},
		{"read-only", with + "&default_transaction_read_only=on", "read-only", nil},
		{"an encoding that is not Unicode", strings.Replace(with, "/postgres?", "/latin?", 1), "LATIN1", nil},
		{"a newer schema", with, "version 99 and was written by a newer superstep", &Options{Schema: newer}},
		{"another program's schema", with, "another program's", &Options{Schema: foreign}},
		{"a user who may not make a schema", strings.Replace(with, "superstep:", "nobody:", 1), "CREATE SCHEMA", &Options{Schema: newer + "_none"}},
		{"a user who may not use a schema", strings.Replace(with, "superstep:", "nobody:", 1), "GRANT ALL ON SCHEMA", &Options{Schema: newer}},
		{"a name that is too long", with, "1 to 63 bytes", &Options{Schema: strings.Repeat("x", 64)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Open(t.Context(), c.dsn, c.opt)
			if err == nil {
				s.Close()
				t.Fatal("it was opened")
			}
			t.Log(err)
			if !strings.Contains(err.Error(), c.want) || strings.Contains(fmt.Sprintf("%+v", err), secret) {
				t.Errorf("the error is %q, want %q in it", err, c.want)
			}
		})
	}
	s := openTest(t, with, &Options{Schema: schema(t)})
	if _, err := s.Read(t.Context(), "gone", 1, 1); err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), server.Addr()) {
		t.Errorf("the error is %q", err)
	}
	if strings.Contains(s.owner, secret) {
		t.Errorf("the owner is %q", s.owner)
	}
}

func TestStandbyIsRefused(t *testing.T) {
	t.Parallel() // it has a server of its own
	primary := pgserver.Start(t, map[string]string{"synchronous_commit": "off"})
	openTest(t, primary.DSN(), nil)
	standby := primary.Standby(t, false)
	if _, err := Open(t.Context(), standby.DSN(), nil); err == nil || !strings.Contains(err.Error(), "standby") {
		t.Errorf("a standby: %v", err)
	}
	s := openTest(t, fmt.Sprintf("postgres://superstep@%s,%s/postgres?sslmode=disable", standby.Addr(), primary.Addr()), nil)
	runlogtest.Append(t, runlogtest.Create(t, s, "r"), 1)
	if alone := openTest(t, shared.Server(t).DSN(), nil).Notes(); len(alone) > 0 {
		t.Errorf("of a server that nobody follows the notes are %q", alone)
	}
	notes := strings.Join(s.Notes(), "\n")
	if !strings.Contains(notes, "synchronous_commit is off") || !strings.Contains(notes, "no standby of the Postgres server is synchronous") || strings.Contains(notes, "fsync") {
		t.Errorf("the notes are %q", notes)
	}
	err := s.with(t.Context(), reading, func(ctx context.Context, c *conn) error {
		return c.query(ctx, "SHOW synchronous_commit", func(v [][]byte) error {
			if string(v[0]) != "on" {
				t.Errorf("a connection has synchronous_commit %s", v[0])
			}
			return nil
		})
	})
	if err != nil {
		t.Error(err)
	}
}

func TestOpenAtOnce(t *testing.T) {
	server := shared.Server(t)
	name := schema(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			s, err := Open(context.Background(), server.DSN(), &Options{Schema: name})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			l, _, err := s.Acquire(context.Background(), fmt.Sprintf("run-%d", i), &runlog.AcquireOptions{Create: &runlog.NewRun{}})
			if err == nil {
				err = l.Append(context.Background(), runlogtest.Batch(1))
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if infos, err := openTest(t, server.DSN(), &Options{Schema: name}).Runs(t.Context(), nil); err != nil || len(infos) != 8 {
		t.Errorf("%d runs, error %v", len(infos), err)
	}
}

// The clock of the process has no part in leases: this one is decades behind.
func TestClientClock(t *testing.T) {
	server := shared.Server(t)
	begin := time.Now()
	name := schema(t)
	here := openTest(t, server.DSN(), &Options{Schema: name, Lease: time.Minute})
	mine := runlogtest.Create(t, here, "mine")
	synctest.Test(t, func(t *testing.T) {
		if time.Since(begin) > -20*365*24*time.Hour {
			t.Fatalf("it is %s", time.Now())
		}
		there, err := Open(t.Context(), server.DSN(), &Options{Schema: name, Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		defer there.Close()
		if _, _, err := there.Acquire(t.Context(), "mine", nil); err == nil {
			t.Error("a held run was taken by a clock that is behind")
		}
		l := runlogtest.Create(t, there, "theirs")
		runlogtest.Append(t, l, 1)
		if _, err := l.Renew(t.Context()); err != nil {
			t.Error(err)
		}
	})
	if _, _, err := here.Acquire(t.Context(), "theirs", nil); err == nil {
		t.Error("a run held by a clock that is behind was taken")
	}
	tested{here, server}.Expire(t, "theirs")
	if _, _, err := here.Acquire(t.Context(), "theirs", nil); err != nil {
		t.Error(err)
	}
	runlogtest.Append(t, mine, 1)
	faults.Report(t, "clock of a client 26 years behind", "postgres", 1, begin, "no early takeover, no lost step")
}

// A damaged record is found, as are those that are missing; neighbours can be read.
func TestDamage(t *testing.T) {
	server := shared.Server(t)
	for _, c := range []struct {
		name, sql string
		seq       uint64
		held      bool // whether only reading finds it
	}{
		{"last record", "UPDATE records SET frame = '\\x00' WHERE run = 1 AND seq = 4", 4, false},
		{"last records", "UPDATE records SET frame = '\\x00' WHERE run = 1 AND seq >= 3", 3, false},
		{"empty record", "UPDATE records SET frame = '' WHERE run = 1 AND seq = 4", 4, false},
		{"one bit", "UPDATE records SET frame = set_bit(frame, 300, 1 - get_bit(frame, 300)) WHERE run = 1 AND seq = 4", 4, false},
		{"record of another run", "UPDATE records SET frame = (SELECT frame FROM records WHERE run = 2 AND seq = 3) WHERE run = 1 AND seq = 4", 4, false},
		{"last record missing", "DELETE FROM records WHERE run = 1 AND seq = 4", 4, false},
		{"hole", "DELETE FROM records WHERE run = 1 AND seq = 2", 2, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			name := schema(t)
			s := openTest(t, server.DSN(), &Options{Schema: name})
			for _, id := range []string{"a", "b"} {
				l := runlogtest.Create(t, s, id)
				runlogtest.Append(t, l, 4)
				if err := l.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			server.Exec(t, "SET search_path = "+quoted(name)+"; "+c.sql)
			recs, err := s.Read(t.Context(), "a", 1, 0)
			wantCorrupt(t, err, c.seq)
			if len(recs) != int(c.seq-1) {
				t.Errorf("%d intact records were read", len(recs))
			}
			if !c.held {
				_, _, err = s.Acquire(t.Context(), "a", nil)
				wantCorrupt(t, err, c.seq)
			}
			l, _, err := s.Acquire(t.Context(), "b", nil)
			if err != nil {
				t.Fatal(err)
			}
			runlogtest.Append(t, l, 1)
		})
	}
}

func wantCorrupt(t *testing.T, err error, seq uint64) {
	t.Helper()
	if e, ok := err.(*runlog.CorruptError); !ok || e.Seq != seq || e.Good != seq-1 {
		t.Errorf("got %v, want record %d damaged", err, seq)
	}
}

// Texts that Postgres does not keep are kept as far as it does.
func TestTexts(t *testing.T) {
	s := openTest(t, shared.Server(t).DSN(), &Options{Schema: schema(t)})
	_, info, err := s.Acquire(t.Context(), "r", &runlog.AcquireOptions{Create: &runlog.NewRun{Workflow: "w", Title: "a\x00b\xffc"}})
	if err != nil || info.Title != "a\uFFFDb\uFFFDc" {
		t.Errorf("the title is %q, error %v", info.Title, err)
	}
	infos, err := s.Runs(t.Context(), &runlog.Filter{Status: []runlog.Status{"\x00\xff", runlog.Running}})
	if err != nil || !slices.ContainsFunc(infos, func(i runlog.Info) bool { return i.ID == "r" }) {
		t.Errorf("%+v, error %v", infos, err)
	}
}
