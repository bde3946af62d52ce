package faults

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// What names a program changes with its version and goes with the program, and names it to whoever needs it.
func TestProgramValue(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the program is a script")
	}
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	file := filepath.Join(bin, "redis-server")
	p := programs[slices.IndexFunc(programs, func(p Program) bool { return p.Variable == Redis })]
	for _, c := range []struct{ script, want string }{
		{"#!/bin/sh\necho Redis server v=8.0.2  bits=64\n", file + " Redis_server_v=8.0.2_bits=64"},
		{"#!/bin/sh\necho Redis server v=9.0.0\n", file + " Redis_server_v=9.0.0"},
		{"", ""},
	} {
		if err := os.WriteFile(file, []byte(c.script), 0o700); err != nil { //nolint:gosec // a script
			t.Fatal(err)
		}
		if c.script == "" {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}
		value, err := p.Value()
		if err != nil || value != c.want {
			t.Errorf("%q: got %q, %v, want %q", c.script, value, err, c.want)
		}
		t.Setenv(Redis, value)
		t.Run("need", func(t *testing.T) {
			t.Setenv("CI", "")
			got := "skipped"
			defer func() {
				if want, _, _ := strings.Cut(c.want, " "); want != "" && got != want || want == "" && !t.Skipped() {
					t.Errorf("got %q, want %q", got, want)
				}
			}()
			got = Need(t, Redis)
		})
	}
}

// Of several Postgres servers it is the newest.
func TestProgramNewest(t *testing.T) {
	dir := t.TempDir()
	for _, version := range []string{"9", "17", "16"} {
		bin := filepath.Join(dir, version, "bin")
		if err := os.MkdirAll(bin, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(bin, "postgres"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := Program{names: []string{filepath.Join(dir, "*", "bin", "postgres")}}
	if got, want := p.look(), filepath.Join(dir, "17", "bin", "postgres"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Commands that nobody has asked for in a day are removed.
func TestSweep(t *testing.T) {
	dir, day := t.TempDir(), time.Now().AddDate(0, 0, -1)
	for name, used := range map[string]time.Time{"old": day.Add(-time.Minute), "new": day.Add(time.Minute)} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "superstep"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Join(dir, name), used, used); err != nil {
			t.Fatal(err)
		}
	}
	if err := sweep(dir, day); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 || left[0].Name() != "new" {
		t.Errorf("left: %v, %v", left, err)
	}
}
