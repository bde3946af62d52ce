package redis

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

// Stores of one server see nothing of each other, whatever their prefixes have in common.
func TestPrefixes(t *testing.T) {
	srv := durable(t)
	prefixes := []string{"foo", "foobar", "foo:run", "foo:", "fo", "FOO", "f", ":", "foo-1", "store"}
	var stores []*Store
	for _, p := range prefixes {
		s := openTest(t, srv.URL(), &Options{Prefix: p})
		stores = append(stores, s)
		runlogtest.Append(t, runlogtest.Create(t, s, "bar"), 1)
		runlogtest.Append(t, runlogtest.Create(t, s, fmt.Sprintf("r-%d", len(stores))), len(stores))
	}
	for i, s := range stores {
		infos, err := s.Runs(t.Context(), nil)
		if err != nil || len(infos) != 2 || infos[0].ID != fmt.Sprintf("r-%d", i+1) || infos[0].Head != uint64(i+1) {
			t.Errorf("prefix %q lists %+v, error %v", prefixes[i], infos, err)
		}
		l, _, err := s.Acquire(t.Context(), "bar", nil)
		if !errors.As(err, new(*runlog.BusyError)) {
			t.Errorf("prefix %q: %v, %v", prefixes[i], l, err)
		}
	}
	keys, err := redigo.Strings(raw(t, srv)("KEYS", "*"), nil)
	if err != nil || len(keys) != len(prefixes)*6 { // store, runs, and two of each run
		t.Fatalf("keys %q, error %v", keys, err)
	}
	for _, key := range keys {
		tag, _, _ := strings.Cut(strings.TrimPrefix(key, "{"), "}:")
		if !slices.Contains(prefixes, tag) {
			t.Errorf("key %q is nobody's", key)
		}
	}
}

func TestNothingIsLeft(t *testing.T) {
	srv := durable(t)
	s := openTest(t, srv.URL(), &Options{TTL: 100 * time.Millisecond})
	left := func() []string {
		keys, err := redigo.Strings(raw(t, srv)("KEYS", "*"), nil)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(keys)
		return keys
	}
	l := runlogtest.Create(t, s, "deleted")
	runlogtest.Append(t, l, 3)
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), "deleted"); err != nil {
		t.Fatal(err)
	}
	if got := left(); len(got) != 1 || got[0] != s.keys.store {
		t.Fatalf("after a deletion there are %q", got)
	}
	ended := runlogtest.Create(t, s, "ended")
	runlogtest.Append(t, ended, 3)
	released := runlogtest.Create(t, s, "released") // which must not make it last
	if err := released.Append(t.Context(), &runlog.Batch{Records: runlogtest.Batch(1).Records, Status: runlog.Cancelled}); err != nil {
		t.Fatal(err)
	}
	if err := released.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	running := runlogtest.Create(t, s, "running")
	runlogtest.Append(t, running, 1)
	b := runlogtest.Batch(1)
	b.Status = runlog.Completed
	if err := ended.Append(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if recs, err := s.Read(t.Context(), "ended", 1, 0); err != nil || len(recs) != 4 {
		t.Fatalf("%d records, error %v", len(recs), err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		infos, err := s.Runs(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(infos) == 1 && infos[0].ID == "running" {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("listed %+v", infos)
		}
	}
	if got := left(); !slices.Equal(got, []string{s.keys.log("running"), s.keys.run("running"), s.keys.runs, s.keys.store}) {
		t.Fatalf("after its time there are %q", got)
	}
	if _, err := s.Read(t.Context(), "ended", 1, 0); !errors.As(err, new(*runlog.NotFoundError)) {
		t.Fatalf("reading a run whose time is over: %v", err)
	}
	if err := ended.Append(t.Context(), runlogtest.Batch(1)); !errors.As(err, new(*runlog.EndedError)) {
		t.Fatalf("writing it: %v", err)
	}
	if _, err := ended.Renew(t.Context()); !errors.Is(err, runlog.ErrFenced) {
		t.Fatalf("renewing it: %v", err)
	}
	if err := ended.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	runlogtest.Create(t, s, "ended")
	time.Sleep(150 * time.Millisecond)
	runlogtest.Append(t, running, 1)
	if infos, err := s.Runs(t.Context(), nil); err != nil || len(infos) != 2 {
		t.Fatalf("listed %+v, error %v", infos, err)
	}
}

// A run that follows one of its ID whose time was over is not taken for that one.
func TestIDUsedAgain(t *testing.T) {
	srv := durable(t)
	s, c := openTest(t, srv.URL(), &Options{TTL: 50 * time.Millisecond}), raw(t, srv)
	if err := runlogtest.Create(t, s, "r").Append(t.Context(), &runlog.Batch{Status: runlog.Completed}); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); c("EXISTS", s.keys.run("r")) != int64(0); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the run is still there")
		}
	}
	runlogtest.Append(t, runlogtest.Create(t, s, "r"), 1)
	c("DEL", s.keys.run("r"))
	_, err := s.Read(t.Context(), "r", 1, 0)
	wantReset(t, err)
}

// Whatever is done to a run's keys is found, and its neighbours are not disturbed.
func TestDamage(t *testing.T) {
	srv := durable(t)
	s, c := openTest(t, srv.URL(), nil), raw(t, srv)
	other := runlogtest.Batch(3)
	other.Records[0].Path = "elsewhere"
	neighbour := runlogtest.Create(t, s, "neighbour")
	if err := neighbour.Append(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	// change replaces the frame of a record.
	change := func(id string, seq string, f func(frame string) string) {
		t.Helper()
		c("HSET", s.keys.log(id), seq, f(string(c("HGET", s.keys.log(id), seq).([]byte))))
	}
	for i, d := range []struct {
		name string
		do   func(id string)
		good uint64
	}{
		{"a flipped bit", func(id string) {
			change(id, "2", func(frame string) string {
				b := []byte(frame)
				b[len(b)/2] ^= 4
				return string(b)
			})
		}, 1},
		{"a frame cut off", func(id string) { change(id, "4", func(frame string) string { return frame[:len(frame)-1] }) }, 3},
		{"bytes behind a frame", func(id string) { change(id, "4", func(frame string) string { return frame + "x" }) }, 3},
		{"a record too few", func(id string) { c("HDEL", s.keys.log(id), "2") }, 1},
		{"the last record missing", func(id string) { c("HDEL", s.keys.log(id), "4") }, 3},
		{"no records", func(id string) { c("DEL", s.keys.log(id)) }, 0},
		{"a record of another run", func(id string) {
			change(id, "3", func(string) string { return string(c("HGET", s.keys.log("neighbour"), "3").([]byte)) })
		}, 2},
		{"a record of another place", func(id string) {
			change(id, "3", func(string) string { return string(c("HGET", s.keys.log(id), "2").([]byte)) })
		}, 2},
		{"text for numbers", func(id string) { c("SETRANGE", s.keys.run(id), untilOffset+16, strings.Repeat("\xff", 8)) }, 0},
		{"a list for what is listed", func(id string) {
			c("DEL", s.keys.run(id))
			c("RPUSH", s.keys.run(id), "x")
		}, 0},
		{"a list for the records", func(id string) {
			c("DEL", s.keys.log(id))
			c("RPUSH", s.keys.log(id), "x")
		}, 0},
		{"half of what is listed", func(id string) { c("SET", s.keys.run(id), "\x01half") }, 0},
	} {
		t.Run(d.name, func(t *testing.T) {
			id := fmt.Sprintf("r-%d", i)
			l := runlogtest.Create(t, s, id)
			runlogtest.Append(t, l, 4)
			if err := l.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			d.do(id)
			var e *runlog.CorruptError
			recs, err := s.Read(t.Context(), id, 1, 0)
			if !errors.As(err, &e) || e.Good != d.good || uint64(len(recs)) != d.good {
				t.Fatalf("reading gave %d records and %v", len(recs), err)
			}
			// In company, which must not suffer from it.
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					if _, err := neighbour.Renew(t.Context()); err != nil {
						t.Errorf("the neighbour: %v", err)
					}
				})
			}
			_, _, err = s.Acquire(t.Context(), id, nil)
			wg.Wait()
			// If the last record is intact the run can be acquired, and readers find the damage.
			if !errors.As(err, &e) && (d.good == 0 || d.good >= 3) {
				t.Fatalf("acquiring gave %v", err)
			}
			if recs, err := s.Read(t.Context(), "neighbour", 1, 0); err != nil || len(recs) != 3 {
				t.Fatalf("the neighbour: %d records, error %v", len(recs), err)
			}
		})
	}
}

func FuzzDecodeMeta(f *testing.F) {
	f.Add("")
	f.Add(strings.Repeat("\x00", metaFixed+5))
	f.Add("\x01\x00" + strings.Repeat("\x00", metaFixed-2) + "\x07running\x01o" + string(fixed(&runlog.NewRun{Workflow: "w", Title: "t"})))
	f.Fuzz(func(t *testing.T, s string) {
		if m, err := decodeMeta("r", s); (m == nil) == (err == nil) {
			t.Fatalf("%+v, %v", m, err)
		}
	})
}

// A run whose key has the first format is listed without a summary, and gets one with the next batch that has one.
func TestOldMeta(t *testing.T) {
	srv := durable(t)
	s, c := openTest(t, srv.URL(), nil), raw(t, srv)
	l := runlogtest.Create(t, s, "r")
	runlogtest.Append(t, l, 3)
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	key, err := redigo.String(c("GET", s.keys.run("r")), nil)
	if err != nil {
		t.Fatal(err)
	}
	at := metaFixed + 1 + int(key[metaFixed])
	at += 1 + int(key[at])
	c("SET", s.keys.run("r"), "\x01"+key[1:at]+key[at+2:])
	l, info, err := s.Acquire(t.Context(), "r", nil)
	if err != nil || info.Head != 3 || info.Summary != "" || info.Status != runlog.Running || info.Title != "t" {
		t.Fatalf("the run is %+v, error %v", info, err)
	}
	b := runlogtest.Batch(1)
	b.Summary = `{"step":4}`
	if err := l.Append(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if infos, err := s.Runs(t.Context(), nil); err != nil || len(infos) != 1 || infos[0].Summary != b.Summary || infos[0].Head != 4 {
		t.Errorf("listed %+v, error %v", infos, err)
	}
}
