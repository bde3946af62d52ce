package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A kept is some tests of which the result is kept until a change.
type kept struct {
	suite
	again bool // they run again after the change
}

// newChecked returns a check of the module in a folder, in which it works from then on, with the programs that are there now.
func newChecked(t *testing.T, dir string) *check {
	t.Helper()
	t.Chdir(dir)
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		log.Close()
		if b, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("%s", b)
		}
	})
	c := &check{out: newOutput(log), env: append(os.Environ(), "CGO_ENABLED=0"), begun: time.Now(), times: remembered()}
	if err := c.servers(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.built = sync.OnceValues(c.commands)
	return c
}

// rerun runs the tests, and fails unless those run that shall, and the others are taken from the cache. If shall is nil, both will do.
func rerun(t *testing.T, c *check, all []kept, shall func(*kept) bool) {
	t.Helper()
	for _, k := range all {
		p := &progress{lane: "test"}
		if err := c.test(t.Context(), p, k.suite); err != nil {
			t.Fatalf("%s: %v", k.packages[0], err)
		}
		ran := p.cached == 0
		t.Logf("%s ran: %t", k.packages[0], ran)
		if p.passed == 0 || shall != nil && ran != shall(&k) {
			t.Errorf("%s: its tests ran: %t, want %t; %d passed, %d were skipped", k.packages[0], ran, !ran, p.passed, p.skipped)
		}
	}
}

func only(dir, pkg, tests string) suite {
	return suite{dir: dir, packages: []string{module + pkg}, flags: []string{"-short", "-run=^" + tests + "$"}}
}

// copied copies the files of the repository, as they are now, into a folder of the test. They are an hour old, since Go does not trust files that are new.
func copied(t *testing.T, from string) string {
	t.Helper()
	to, hour := t.TempDir(), time.Now().Add(-time.Hour)
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		name, err2 := filepath.Rel(from, path)
		switch target := filepath.Join(to, name); {
		case err != nil || err2 != nil:
			return fmt.Errorf("%w%w", err, err2)
		case d.Name() == ".git" || d.Name() == "node_modules":
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case d.IsDir():
			return os.MkdirAll(target, 0o700)
		case d.Type().IsRegular():
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if err := os.WriteFile(target, b, 0o700); err != nil { //nolint:gosec // some are scripts
				return err
			}
			return os.Chtimes(target, hour, hour)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// After one sentence of package cli has changed, the tests run again that start the command, also those that do not import it, and no others.
func TestSentenceChanged(t *testing.T) {
	t.Setenv("GOFLAGS", "-trimpath -buildvcs=false") // so that what was compiled counts in another folder
	dir := copied(t, root(t))
	all := []kept{
		{only(".", "/cmd/superstep", "TestEffortKilled"), true},
		{only(".", "/cmd/superstep", "TestServeMCP$/^killed"), true}, // with failpoints
		{only(".", "/internal/docs", "TestCommandsInDocumentation"), true},
		{only(".", "/runlog/sqlite", "TestOldSchemas"), false},
		{only(".", "/graph", "TestJoins"), false},
	}
	c := newChecked(t, dir)
	if slices.ContainsFunc(c.env, func(value string) bool { return strings.HasPrefix(value, "SUPERSTEP_TEST_CHROMIUM=/") }) { // in a lane it is there twice
		all = append(all, kept{only("internal/e2e", "/internal/e2e", "TestReducedMotion"), true})
	}
	rerun(t, c, all, nil)
	rerun(t, c, all, func(*kept) bool { return false })

	const file, sentence = "cli/demo.go", "See five agents killed and resumed"
	b, err := os.ReadFile(filepath.FromSlash(file))
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(b), sentence, "See five agents that are killed and resumed", 1)
	if changed == string(b) {
		t.Fatalf("%s does not say %q", file, sentence)
	}
	if err := os.WriteFile(filepath.FromSlash(file), []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	rerun(t, newChecked(t, dir), all, func(k *kept) bool { return k.again })
}

// After a server has been replaced by another version, the tests run again that need it, and no others.
func TestServerChanged(t *testing.T) {
	real, err := exec.LookPath("redis-server")
	if err != nil || runtime.GOOS == "windows" {
		t.Skipf("SKIPPED: it replaces redis-server by a script: %v", err)
	}
	bin := t.TempDir()
	install := func(version string) {
		script := "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'Redis server v=" + version + "'; exit; fi\nexec '" + real + "' \"$@\"\n"
		if err := os.WriteFile(filepath.Join(bin, "redis-server"), []byte(script), 0o700); err != nil { //nolint:gosec // a script
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	dir := root(t)
	all := []kept{
		{only(".", "/runlog/redis", "TestPasswords"), true},
		{only(".", "/internal/redisserver", "Test.*"), true},
		{only(".", "/runlog/sqlite", "TestOldSchemas"), false},
		{only(".", "/graph", "TestJoins"), false},
	}
	install("1.0.0")
	c := newChecked(t, dir)
	rerun(t, c, all, nil)
	rerun(t, c, all, func(*kept) bool { return false })
	install("1.0.1")
	rerun(t, newChecked(t, dir), all, func(k *kept) bool { return k.again })
}
