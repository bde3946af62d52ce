package redisserver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	redigo "github.com/gomodule/redigo/redis"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestServer(t *testing.T) {
	s := Start(t, "appendonly yes")
	get := func() (string, error) { return redigo.String(s.Do("GET", "k")) }
	if _, err := s.Do("SET", "k", "v"); err != nil {
		t.Fatal(err)
	}
	s.Restart()
	if v, err := get(); v != "v" || err != nil {
		t.Fatalf("after a kill the key is %q, error %v", v, err)
	}
	s.Stop()
	s.Restart()
	if v, err := get(); v != "v" || err != nil {
		t.Fatalf("after a stop the key is %q, error %v", v, err)
	}
	s.Kill()
	s.Kill()
	s.Wipe()
	if entries, err := os.ReadDir(s.Dir()); err != nil || len(entries) != 0 {
		t.Fatalf("wiped, there are %v, error %v", entries, err)
	}
	s.Restart()
	if v, err := get(); err == nil {
		t.Fatalf("after a wipe the key is %q", v)
	}
	if _, err := os.Stat(filepath.Join(s.Dir(), "appendonlydir")); err != nil {
		t.Fatal(err)
	}
}

func TestReplicaAndVolatile(t *testing.T) {
	primary := Start(t)
	replica := Start(t, "replicaof "+strings.Replace(primary.Addr(), ":", " ", 1), "maxmemory 20mb")
	for name, want := range map[string]string{"maxmemory": "20971520", "save": "", "appendonly": "no"} {
		if got, err := redigo.StringMap(replica.Do("CONFIG", "GET", name)); err != nil || got[name] != want {
			t.Errorf("%s is %q, want %q, error %v", name, got, want, err)
		}
	}
	if role, err := redigo.Values(replica.Do("ROLE")); err != nil || len(role) == 0 || string(role[0].([]byte)) != "slave" {
		t.Errorf("the role is %v", role)
	}
}
