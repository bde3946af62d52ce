package redis

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/redisserver"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
)

// encrypted is the address of a server that speaks TLS, with a certificate nobody knows, for srv.
func encrypted(t *testing.T, srv *redisserver.Server) string {
	t.Helper()
	web := httptest.NewTLSServer(nil)
	config := web.TLS.Clone()
	config.NextProtos = nil
	web.Close()
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	t.Cleanup(func() { _ = l.Close() })
	wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", srv.Addr())
			if err != nil {
				_ = client.Close()
				continue
			}
			for _, c := range [][2]net.Conn{{client, server}, {server, client}} {
				wg.Go(func() {
					_, _ = io.Copy(c[0], c[1])
					_, _ = c[0].Close(), c[1].Close()
				})
			}
		}
	})
	return l.Addr().String()
}

func TestAddresses(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "redis.sock")
	srv := redisserver.Start(t, "appendonly yes", "unixsocket "+socket)
	raw(t, srv)("ACL", "SETUSER", "app", "on", ">s3cret", "~*", "+@all")
	secure := encrypted(t, srv)
	for i, url := range []string{
		"redis://" + srv.Addr() + "/2",
		"redis://app:s3cret@" + srv.Addr() + "?client_name=superstep&pool_size=3&read_timeout=5&write_timeout=3s&dial_timeout=0",
		"rediss://app:s3cret@" + secure + "/1?skip_verify=true",
		"unix://app:s3cret@" + socket + "?db=3",
	} {
		s := openTest(t, url, &Options{Prefix: fmt.Sprint("p", i)})
		runlogtest.Append(t, runlogtest.Create(t, s, "r"), 1)
		if recs, err := s.Read(t.Context(), "r", 1, 0); err != nil || len(recs) != 1 {
			t.Errorf("%s: %d records, error %v", url, len(recs), err)
		}
		where, _ := redisDatabase(raw(t, srv), i)
		if want := []int{2, 0, 1, 3}[i]; where != want {
			t.Errorf("%s: its keys are in database %d, want %d", url, where, want)
		}
	}
	if clients := string(raw(t, srv)("CLIENT", "LIST").([]byte)); !strings.Contains(clients, "name=superstep ") {
		t.Errorf("no connection has the name of the address:\n%s", clients)
	}
	refusedWith(t, "rediss://"+secure, &Options{Patience: time.Millisecond}, "cannot be reached", "certificate")
	refusedWith(t, "redis://"+secure, &Options{Patience: time.Millisecond}, "cannot be reached")
	refusedWith(t, "redis://"+srv.Addr()+"?write_timeout=soon", nil, "write_timeout", "10s")
	refusedWith(t, "rediss://"+secure+"?skip_verify=perhaps", nil, "skip_verify")
	refusedWith(t, "unix://", nil, "socket")
}

// redisDatabase is the number of the database that has the keys of a store.
func redisDatabase(do func(string, ...any) any, store int) (int, bool) {
	for db := range 4 {
		keys := do("EVAL", "redis.call('SELECT', ARGV[1]) return redis.call('EXISTS', KEYS[1])", 1, fmt.Sprintf("{p%d}:store", store), db)
		if keys == int64(1) {
			return db, true
		}
	}
	return 0, false
}
