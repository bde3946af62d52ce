package redisserver

import (
	"os"
	"path/filepath"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestServer(t *testing.T) {
	s := Start(t, &Options{AppendOnly: true})
	opt, err := goredis.ParseURL(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	get := func() (string, error) {
		c := goredis.NewClient(opt)
		defer func() { _ = c.Close() }()
		return c.Get(t.Context(), "k").Result()
	}
	c := goredis.NewClient(opt)
	if err := c.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
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
	primary := Start(t, nil)
	replica := Start(t, &Options{ReplicaOf: primary, Config: []string{"maxmemory 20mb"}})
	c := goredis.NewClient(&goredis.Options{Addr: replica.Addr(), Protocol: 2})
	defer func() { _ = c.Close() }()
	for name, want := range map[string]string{"maxmemory": "20971520", "save": "", "appendonly": "no"} {
		if got := c.ConfigGet(t.Context(), name).Val()[name]; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if role, err := c.Do(t.Context(), "ROLE").Slice(); err != nil || len(role) == 0 || role[0] != "slave" {
		t.Errorf("the role is %v", role)
	}
}
