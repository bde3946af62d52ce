package redis

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/redisserver"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

func TestNotes(t *testing.T) {
	for _, c := range []struct {
		name   string
		server []string
		opt    Options
		want   []string // a part of each note
	}{
		{"always", []string{"appendonly yes"}, Options{}, nil},
		{"everysec", []string{"appendonly yes", "appendfsync everysec"}, Options{}, []string{"may lose 1 s"}},
		{"no", []string{"appendonly yes", "appendfsync no"}, Options{}, []string{"30 s or more"}},
		{"rewrite", []string{"appendonly yes", "no-appendfsync-on-rewrite yes"}, Options{}, []string{"may lose 30 s"}},
		{"rdb", []string{"save 60 1000"}, Options{}, []string{"since its last snapshot"}},
		{"none", nil, Options{AllowVolatile: true}, []string{"VOLATILE: a Redis restart loses all runs"}},
		{"evicts", []string{"appendonly yes", "maxmemory 100mb", "maxmemory-policy allkeys-lru"}, Options{AllowVolatile: true}, []string{"VOLATILE: the server evicts"}},
		{"evicts ended", []string{"appendonly yes", "maxmemory 100mb", "maxmemory-policy volatile-lru"}, Options{TTL: time.Hour}, []string{"before their time"}},
		{"evicts nothing", []string{"appendonly yes", "maxmemory 100mb", "maxmemory-policy volatile-lru"}, Options{}, nil},
		{"no limit", []string{"appendonly yes", "maxmemory-policy allkeys-lru"}, Options{}, nil},
		{"cluster", []string{"appendonly yes", "cluster-enabled yes"}, Options{}, []string{"node of a cluster"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			srv := redisserver.Start(t, c.server...)
			if c.name == "cluster" {
				ask := raw(t, srv)
				ask("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
				for end := time.Now().Add(time.Minute); !strings.Contains(text([]any{ask("CLUSTER", "INFO")}, 0), "cluster_state:ok"); time.Sleep(10 * time.Millisecond) {
					if time.Now().After(end) {
						t.Fatal("the cluster is not ready")
					}
				}
			}
			s := openTest(t, srv.URL(), &c.opt)
			got := s.Notes()
			if len(got) != len(c.want) || !slices.EqualFunc(got, c.want, strings.Contains) {
				t.Fatalf("notes %q, want %q", got, c.want)
			}
			l := runlogtest.Create(t, s, "r")
			runlogtest.Append(t, l, 1)
			if recs, err := s.Read(t.Context(), "r", 1, 0); err != nil || len(recs) != 1 {
				t.Fatalf("%d records, error %v", len(recs), err)
			}
		})
	}
}

func refusedWith(t *testing.T, url string, opt *Options, words ...string) {
	t.Helper()
	s, err := Open(t.Context(), url, opt)
	if err == nil {
		s.Close()
		t.Fatalf("it was opened, want an error with %q", words)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}

func TestRefusals(t *testing.T) {
	primary := durable(t)
	replica := redisserver.Start(t, "appendonly yes", "replicaof "+strings.Replace(primary.Addr(), ":", " ", 1))
	refusedWith(t, replica.URL(), nil, "replica of "+primary.Addr(), "primary")
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		s := openTest(t, primary.URL(), nil)
		if len(s.Notes()) == 1 && strings.Contains(s.Notes()[0], "failover") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("with a replica the notes are %q", s.Notes())
		}
	}
	evicting := redisserver.Start(t, "appendonly yes", "maxmemory 100mb", "maxmemory-policy allkeys-lru")
	refusedWith(t, evicting.URL(), nil, "allkeys-lru", "noeviction")
	refusedWith(t, redisserver.Start(t).URL(), nil, "appendonly yes", "AllowVolatile")
	for _, prefix := range []string{"a}b", "{", "a b", "ü", "a\n", strings.Repeat("x", 65)} {
		refusedWith(t, primary.URL(), &Options{Prefix: prefix}, "prefix")
	}
	c := raw(t, primary)
	c("HSET", "{newer}:store", "id", "x", "lsn", 1, "schema", 2)
	refusedWith(t, primary.URL(), &Options{Prefix: "newer"}, "newer superstep", "schema 2")
	c("SET", "{other}:store", "x")
	refusedWith(t, primary.URL(), &Options{Prefix: "other"}, "WRONGTYPE")
}

// No password is in a name, an error or a note, and a user who may do little is told so.
func TestPasswords(t *testing.T) {
	const secret = "s3cret-pa55"
	srv := durable(t)
	c := raw(t, srv)
	// A managed server like many: no CONFIG, no INFO, only some keys.
	for _, args := range [][]any{
		{"SETUSER", "app", "on", ">" + secret, "~{superstep}:*", "+@all", "-@admin", "-@dangerous"},
		{"SETUSER", "full", "on", ">" + secret, "~*", "+@all"},
	} {
		c("ACL", args...)
	}
	url := func(user, password string) string { return "redis://" + user + ":" + password + "@" + srv.Addr() }
	s := openTest(t, url("app", secret), &Options{AllowVolatile: true})
	runlogtest.Append(t, runlogtest.Create(t, s, "r"), 1)
	said := append(s.Notes(), s.name)
	if len(said) != 2 || !strings.Contains(said[0], "does not tell") {
		t.Errorf("notes %q", said)
	}
	openTest(t, url("full", secret), nil)
	for _, c := range []struct {
		url  string
		opt  *Options
		want string
	}{
		{url("app", secret), nil, "does not tell"},
		{url("app", secret+"x"), nil, "password"},
		{url("app", secret), &Options{AllowVolatile: true, Prefix: "mine"}, "NOPERM"},
		{url("app", secret+"%zz"), nil, "cannot be read"},
		{url("app", secret) + "/x", nil, "database"},
		{url("app", secret) + "/0?read_timeout=" + secret, nil, "***"},
		{url("app", secret) + "/0?nonsense=1", nil, "nonsense"},
		{"http://app:" + secret + "@host", nil, "scheme"},
		{"redis://app:" + secret + "@127.0.0.1:1", &Options{Patience: time.Millisecond}, "cannot be reached"},
	} {
		s, err := Open(t.Context(), c.url, c.opt)
		if err == nil {
			s.Close()
			t.Errorf("%s was opened", c.url)
			continue
		}
		if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %q does not say %q", c.url, err, c.want)
		}
		said = append(said, err.Error())
	}
	for _, text := range said {
		if strings.Contains(text, secret) {
			t.Errorf("the password is in %q", text)
		}
	}
}

// A server that takes no writes gives *StorageError, and the run goes on when it does again.
func TestFull(t *testing.T) {
	big := func() *runlog.Batch {
		b := runlogtest.Batch(1)
		b.Records[0].Data = []byte(`"` + strings.Repeat("x", 64<<10) + `"`)
		return b
	}
	full := func(t *testing.T, err, cause error) {
		t.Helper()
		if e := (*runlog.StorageError)(nil); !errors.As(err, &e) || cause != nil && !errors.Is(err, cause) {
			t.Fatalf("got %v, want a *StorageError for %v", err, cause)
		}
	}
	goesOn := func(t *testing.T, s *Store, l runlog.Log, head uint64) {
		t.Helper()
		runlogtest.Append(t, l, 1)
		if recs, err := s.Read(t.Context(), "r", 1, 0); err != nil || uint64(len(recs)) != head+1 {
			t.Fatalf("%d records of %d, error %v", len(recs), head+1, err)
		}
	}
	t.Run("memory", func(t *testing.T) {
		srv := redisserver.Start(t, "appendonly yes", "maxmemory 6mb", "maxmemory-policy noeviction")
		s, c := openTest(t, srv.URL(), nil), raw(t, srv)
		l := runlogtest.Create(t, s, "r")
		head, err := uint64(0), error(nil)
		for ; err == nil && head < 1000; head++ {
			err = l.Append(t.Context(), big())
		}
		head--
		full(t, err, syscall.ENOMEM)
		c("CONFIG", "SET", "maxmemory", "4mb") // well below what there is
		_, _, err = s.Acquire(t.Context(), "new", &runlog.AcquireOptions{Create: &runlog.NewRun{}})
		full(t, err, syscall.ENOMEM)
		b := runlogtest.Batch(1)
		b.Status = runlog.WaitingStorage
		if err := l.Append(t.Context(), b); err != nil { // there is room left for this
			t.Fatal(err)
		}
		if _, err := l.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		if infos, err := s.Runs(t.Context(), nil); err != nil || len(infos) != 1 || infos[0].Status != runlog.WaitingStorage || infos[0].Head != head+1 {
			t.Fatalf("listed %+v, error %v", infos, err)
		}
		c("CONFIG", "SET", "maxmemory", "100mb")
		goesOn(t, s, l, head+1)
	})
	t.Run("disk", func(t *testing.T) {
		srv := redisserver.Start(t, "save 3600 1")
		s, c := openTest(t, srv.URL(), nil), raw(t, srv)
		l := runlogtest.Create(t, s, "r")
		runlogtest.Append(t, l, 1)
		taken := filepath.Join(srv.Dir(), "dump.rdb")
		if err := os.Mkdir(taken, 0o700); err != nil { // which a snapshot cannot replace
			t.Fatal(err)
		}
		c("BGSAVE")
		var err error
		for end := time.Now().Add(time.Minute); err == nil && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			_, err = l.Renew(t.Context())
		}
		full(t, err, nil)
		full(t, l.Append(t.Context(), runlogtest.Batch(1)), syscall.ENOSPC)
		os.Remove(taken)
		c("SAVE")
		goesOn(t, s, l, 1)
	})
	t.Run("replica", func(t *testing.T) {
		srv := durable(t)
		s, c := openTest(t, srv.URL(), nil), raw(t, srv)
		l := runlogtest.Create(t, s, "r")
		runlogtest.Append(t, l, 1)
		c("REPLICAOF", "127.0.0.1", "1")
		err := l.Append(t.Context(), runlogtest.Batch(1))
		full(t, err, nil)
		if !strings.Contains(err.Error(), "primary") {
			t.Errorf("no remedy in %v", err)
		}
		c("REPLICAOF", "NO", "ONE")
		goesOn(t, s, l, 1)
	})
}

// A server that is reading its data is waited for.
func TestLoading(t *testing.T) {
	srv := redisserver.Start(t, "appendonly yes", "key-load-delay 100", "aof-use-rdb-preamble no")
	raw(t, srv)("EVAL", "for i = 1, 5000 do redis.call('SET', 'k-' .. i, 'v') end", 0)
	s := openTest(t, srv.URL(), nil)
	l := runlogtest.Create(t, s, "r")
	srv.Kill()
	done := make(chan error, 2)
	go func() { done <- l.Append(t.Context(), runlogtest.Batch(1)) }()
	go func() {
		again, err := Open(t.Context(), srv.URL(), nil)
		if err == nil {
			err = again.Close()
		}
		done <- err
	}()
	start := time.Now()
	srv.Restart()
	if time.Since(start) < 300*time.Millisecond {
		t.Errorf("the server took only %s to read its data", time.Since(start))
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}
