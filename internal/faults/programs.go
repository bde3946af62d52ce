package faults

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/flock"
)

// The go command keeps a result of tests as long as they would find the same: their program, the variables that they read and the files of their module
// that they open. So what a test starts reaches it in a variable that it reads itself, with a value that changes when the program does. It is read while a
// test runs: what TestMain reads before is not noted.
const (
	Binary    = "SUPERSTEP_TEST_BINARY"    // the command superstep
	Failpoint = "SUPERSTEP_TEST_FAILPOINT" // the same, built with its failpoints
)

// Command returns the path of the command superstep, in a folder with nothing else. SUPERSTEP_TEST_BINARY names it; without, it is built, once for all tests of a package.
func Command(tb testing.TB) string {
	tb.Helper()
	return built(tb, Binary, plain)
}

// Failpoints returns the path of the command with its failpoints, as Command does. SUPERSTEP_TEST_FAILPOINT names it.
func Failpoints(tb testing.TB) string {
	tb.Helper()
	return built(tb, Failpoint, tagged)
}

var (
	plain  = sync.OnceValues(func() (string, error) { return Build("") })
	tagged = sync.OnceValues(func() (string, error) { return Build("failpoint") })
)

func built(tb testing.TB, variable string, build func() (string, error)) string {
	tb.Helper()
	if path := os.Getenv(variable); path != "" {
		return path
	}
	root, err := root()
	if err != nil {
		tb.Fatal(err)
	}
	if err := Depend(root); err != nil {
		tb.Fatal(err)
	}
	path, err := build()
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// Depend makes the go command run the calling test again when a file below one of the folders changes, or comes or goes: it lists the folders, and the go
// command notes it. Test data, folders with a leading dot and modules of their own do not count.
func Depend(dirs ...string) error {
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || !d.IsDir() || path == dir {
				return err
			}
			if _, err := os.Lstat(filepath.Join(path, "go.mod")); err == nil || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") {
				return filepath.SkipDir
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// root returns the folder of the module, from a folder within it or within a module of its own.
func root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		if b, err := os.ReadFile(filepath.Join(at, "go.mod")); err == nil && strings.HasPrefix(string(b), "module github.com/superstep-dev/superstep\n") {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("no folder above %s has the go.mod of superstep, so the command cannot be built", dir)
		}
	}
}

// Build builds the command superstep with build tags, without cgo and the race detector, from the module in which the process works. The file lies in the
// user's cache, in a folder named by its digest, which is removed when nobody has asked for it for a day. What is up to date is not built again.
func Build(tags string) (path string, err error) {
	root, err := root()
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	name := "superstep"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	place := sha256.Sum256([]byte(root + "\n" + tags))
	all := filepath.Join(cache, "superstep", "tests")
	latest := filepath.Join(all, "of-"+hex.EncodeToString(place[:8]), name) // which the go command compares
	if err := os.MkdirAll(filepath.Dir(latest), 0o700); err != nil {
		return "", err
	}
	lock := flock.New(latest + ".lock")
	if err := lock.Lock(); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	cmd := exec.CommandContext(context.Background(), "go", "build", "-buildvcs=false", "-ldflags=-s -w", "-tags="+tags, "-o", latest, "./cmd/superstep")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	digest, err := digest(latest)
	if err != nil {
		return "", err
	}
	dir, now := filepath.Join(all, digest), time.Now()
	path = filepath.Join(dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	if err := os.Link(latest, path); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	return path, errors.Join(os.Chtimes(dir, now, now), os.Chtimes(filepath.Dir(latest), now, now), sweep(all, now.AddDate(0, 0, -1)))
}

func digest(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)[:16]), err
}

// sweep removes what nobody has asked for since.
func sweep(dir string, since time.Time) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if info, gone := e.Info(); gone == nil && info.ModTime().Before(since) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// The variables that name programs of others, each with its path, a space and its version. Where one is empty, the program is looked for.
const (
	Postgres = "SUPERSTEP_TEST_POSTGRES"
	Redis    = "SUPERSTEP_TEST_REDIS"
	Node     = "SUPERSTEP_TEST_NODE"
	NPM      = "SUPERSTEP_TEST_NPM"
	Chromium = "SUPERSTEP_TEST_CHROMIUM"
)

// A Program is one of others that tests start where it is there.
type Program struct {
	Variable string   // one of those above
	Debian   string   // the package that has it
	names    []string // what it is called, or a pattern of where it lies
}

var programs = []Program{
	{Postgres, "postgresql", []string{"/usr/lib/postgresql/*/bin/postgres", "postgres"}},
	{Redis, "redis-server", []string{"redis-server"}},
	{Node, "nodejs", []string{"node"}},
	{NPM, "npm", []string{"npm"}},
	{Chromium, "chromium-headless-shell", []string{"chromium-headless-shell", "chrome-headless-shell", "chromium", "google-chrome"}},
}

// Programs returns all of them.
func Programs() []Program { return slices.Clone(programs) }

// Need returns the path of the program of a variable. Without the program the test is skipped, or fails if CI is true in the environment.
func Need(tb testing.TB, variable string) string {
	tb.Helper()
	p := programs[slices.IndexFunc(programs, func(p Program) bool { return p.Variable == variable })]
	if value := os.Getenv(variable); value != "" {
		return value[:max(strings.LastIndex(value, " "), 0)]
	}
	path := p.look()
	if path == "" {
		missing := fmt.Sprintf("SKIPPED: there is no %s here (Debian: apt-get install %s)", filepath.Base(p.names[0]), p.Debian)
		if os.Getenv("CI") == "true" {
			tb.Fatal(missing)
		}
		tb.Skip(missing)
	}
	return path
}

// Value returns what the variable of the program is to be, "" where it is missing.
func (p Program) Value() (string, error) {
	path := p.look()
	if path == "" {
		return "", nil
	}
	out, err := exec.CommandContext(context.Background(), path, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", path, err)
	}
	return path + " " + strings.Join(strings.Fields(string(out)), "_"), nil
}

// look returns the path of the program, "" if it is missing. Of several that match a pattern it is the one with the longest and then highest name: 17 is behind 9.
func (p Program) look() string {
	for _, name := range p.names {
		if found, _ := filepath.Glob(name); len(found) > 0 && filepath.IsAbs(name) {
			return slices.MaxFunc(found, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
		}
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}
