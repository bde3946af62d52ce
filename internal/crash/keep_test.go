//go:build unix

package crash_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	redigo "github.com/gomodule/redigo/redis"
	zsqlite "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// checkpoint brings what is beside the file of an SQLite store into it.
func checkpoint(t *testing.T, p *place) {
	t.Helper()
	c, err := zsqlite.OpenConn(strings.TrimPrefix(p.url, "sqlite:"), zsqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"PRAGMA wal_checkpoint(TRUNCATE)", "VACUUM"} {
		if err := sqlitex.ExecuteTransient(c, sql, nil); err != nil {
			t.Error(err)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// copyFiles copies files, or all there are below from, with the rights that stores want.
func copyFiles(t *testing.T, to, from string, names ...string) {
	t.Helper()
	if len(names) == 0 {
		if err := filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				var name string
				name, err = filepath.Rel(from, path)
				names = append(names, name)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// keep writes a file of a golden store.
func keep(t *testing.T, dir, name string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// output is what a program writes, without the lines that only psql understands.
func output(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return regexp.MustCompile(`(?m)^\\.*\n`).ReplaceAll(out, nil)
}

// client is a connection to the server of a place.
func client(t *testing.T, p *place) redigo.Conn {
	t.Helper()
	url, _, _ := strings.Cut(p.url, "#")
	c, err := redigo.DialURL(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// dump gives all keys of a server in the form in which it takes them back.
func dump(t *testing.T, p *place) map[string][]byte {
	t.Helper()
	c := client(t, p)
	keys, err := redigo.Strings(c.Do("KEYS", "*"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, key := range keys {
		if all[key], err = redigo.Bytes(c.Do("DUMP", key)); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func undump(t *testing.T, p *place, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	c := client(t, p)
	for key, v := range all {
		if _, err := c.Do("RESTORE", key, 0, v); err != nil {
			t.Fatal(err)
		}
	}
}
