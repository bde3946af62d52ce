package postgres

import (
	"fmt"
	"testing"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

// A store of the first schema is migrated: its runs have no summary, and get one with the next batch that has one.
func TestOldSchema(t *testing.T) {
	server, name := shared.Server(t), schema(t)
	opt := &Options{Schema: name}
	s := openTest(t, server.DSN(), opt)
	l := runlogtest.Create(t, s, "r")
	runlogtest.Append(t, l, 3)
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	server.Exec(t, fmt.Sprintf("ALTER TABLE %[1]s.runs DROP COLUMN summary; UPDATE %[1]s.meta SET value = '1' WHERE name = 'version'", quoted(name)))
	s = openTest(t, server.DSN(), opt)
	l, info, err := s.Acquire(t.Context(), "r", nil)
	if err != nil || info.Head != 3 || info.Summary != "" {
		t.Fatalf("the run is %+v, error %v", info, err)
	}
	b := runlogtest.Batch(1)
	b.Summary = `{"step":4}`
	if err := l.Append(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if infos, err := s.Runs(t.Context(), &runlog.Filter{ID: "r"}); err != nil || len(infos) != 1 || infos[0].Summary != b.Summary || infos[0].Head != 4 {
		t.Errorf("listed %+v, error %v", infos, err)
	}
}
