//go:build unix

package crash_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/crash"
	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/pgserver"
	"github.com/superstep-dev/superstep/internal/redisserver"
	"github.com/superstep-dev/superstep/runlog"
)

// A backend is a store that processes can share.
type backend struct {
	name   string
	lease  time.Duration // of workers that are killed; those of a store that sees a death need none
	points []string      // its failpoints
	open   func(t testing.TB) *place

	serve   func(t testing.TB) *place                // as open, with a server of its own; nil if there is none
	save    func(t *testing.T, p *place, dir string) // keeps a store as files; nil if that cannot be had
	restore func(t *testing.T, dir string) *place    // makes a store of them
}

// A place is a new, empty store of a backend.
type place struct {
	url  string
	kill func() // kills the server with SIGKILL and starts it again; nil if there is none
}

// The failpoints of journals, which every store passes.
var journalPoints = []string{"journal.before-append", "journal.after-append", "effect.before", "effect.after"}

func backends() []backend {
	return []backend{
		{
			name:   "sqlite",
			points: []string{"sqlite.before-begin", "sqlite.mid-write", "sqlite.before-commit", "sqlite.after-commit"},
			open:   func(t testing.TB) *place { return &place{url: "sqlite:" + filepath.Join(t.TempDir(), "runs.sqlite")} },
			save: func(t *testing.T, p *place, dir string) {
				checkpoint(t, p)
				copyFiles(t, dir, filepath.Dir(strings.TrimPrefix(p.url, "sqlite:")), "runs.sqlite")
			},
			restore: func(t *testing.T, dir string) *place {
				to := t.TempDir()
				copyFiles(t, to, dir, "runs.sqlite")
				return &place{url: "sqlite:" + filepath.Join(to, "runs.sqlite")}
			},
		},
		{
			name:   "file",
			points: []string{"file.before-write", "file.mid-write", "file.before-sync", "file.after-sync", "file.before-rename", "file.after-rename", "file.after-link", "file.before-replace", "file.after-replace"},
			open:   func(t testing.TB) *place { return &place{url: "file:" + t.TempDir()} },
			save: func(t *testing.T, p *place, dir string) {
				copyFiles(t, dir, strings.TrimPrefix(p.url, "file:"))
				if err := os.Remove(filepath.Join(dir, "reserve")); err != nil { // which is noise
					t.Error(err)
				}
			},
			restore: func(t *testing.T, dir string) *place {
				to := t.TempDir()
				copyFiles(t, to, dir)
				return &place{url: "file:" + to}
			},
		},
		{
			name:   "postgres",
			lease:  100 * time.Millisecond,
			points: []string{"postgres.before-begin", "postgres.mid-write", "postgres.before-commit", "postgres.after-commit"},
			open:   func(t testing.TB) *place { return &place{url: shared.Server(t).DSN() + "#" + unique()} },
			serve: func(t testing.TB) *place {
				s := pgserver.Start(t, nil)
				return &place{url: s.DSN() + "#crash", kill: func() { s.Kill(t); s.Restart(t) }}
			},
			save: func(t *testing.T, p *place, dir string) {
				dsn, _, _ := strings.Cut(p.url, "#")
				keep(t, dir, "dump.sql", output(t, "pg_dump", "--inserts", "--rows-per-insert=100", "--no-owner", "--schema=crash", dsn))
			},
			restore: func(t *testing.T, dir string) *place {
				s := pgserver.Start(t, nil)
				b, err := os.ReadFile(filepath.Join(dir, "dump.sql"))
				if err != nil {
					t.Fatal(err)
				}
				s.Exec(t, string(b))
				return &place{url: s.DSN() + "#crash"}
			},
		},
		{
			name:   "redis",
			lease:  100 * time.Millisecond,
			points: []string{"redis.before-send", "redis.after-send"},
			open:   func(t testing.TB) *place { return &place{url: durableRedis(t).URL() + "#crash"} },
			serve: func(t testing.TB) *place {
				s := durableRedis(t)
				return &place{url: s.URL() + "#crash", kill: s.Restart}
			},
			save: func(t *testing.T, p *place, dir string) {
				b, err := json.MarshalIndent(dump(t, p), "", "\t")
				if err != nil {
					t.Fatal(err)
				}
				keep(t, dir, "dump.json", b)
			},
			restore: func(t *testing.T, dir string) *place {
				p := &place{url: durableRedis(t).URL() + "#crash"}
				undump(t, p, filepath.Join(dir, "dump.json"))
				return p
			},
		},
	}
}

func durableRedis(t testing.TB) *redisserver.Server {
	return redisserver.Start(t, "appendonly yes")
}

// unique is a name that nothing else has.
func unique() string { return "crash-" + strings.ToLower(rand.Text()) }

// each runs a test on every backend, side by side.
func each(t *testing.T, run func(t *testing.T, b *backend)) {
	for _, b := range backends() {
		t.Run(b.name, func(t *testing.T) {
			if !faults.Full() { // which is there to be measured
				t.Parallel()
			}
			run(t, &b)
		})
	}
}

// commit is the version under test, for reports of failures.
func commit() string {
	out, err := exec.Command("git", "rev-parse", "HEAD").Output()
	if err == nil {
		return strings.TrimSpace(string(out))
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}

// A process is a worker running.
type process struct {
	cmd    *exec.Cmd
	stderr strings.Builder
	lines  []line // valid once wait has returned
	read   chan struct{}
}

// A line is one that a worker has written.
type line struct {
	what string // "held", "acked", "shown", "ended", "reached" or "error"
	args []string
}

// start starts a worker. The function see is called with each line as it comes, on a
// goroutine of its own; it may be nil.
func start(t *testing.T, see func(line), args ...string) *process {
	t.Helper()
	return startWith(t, os.Args[0], see, args...)
}

// startWith starts a worker that is another program than this one.
func startWith(t *testing.T, file string, see func(line), args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(file, args...), read: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), asWorker+"=1")
	p.cmd.Stderr = &p.stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.read)
		in := bufio.NewScanner(out)
		in.Buffer(nil, 1<<20)
		for in.Scan() {
			words := strings.Fields(in.Text())
			if len(words) == 0 {
				continue
			}
			l := line{words[0], words[1:]}
			p.lines = append(p.lines, l)
			if see != nil {
				see(l)
			}
		}
	}()
	return p
}

// wait reports whether the process was killed. Any other end but a good one is an error.
func (p *process) wait() (killed bool, err error) {
	<-p.read
	err = p.cmd.Wait()
	if p.cmd.ProcessState.String() == "signal: killed" {
		return true, nil
	}
	if err != nil {
		var said []string
		for _, l := range p.lines {
			if l.what == "error" {
				said = append(said, strings.Join(l.args, " "))
			}
		}
		err = fmt.Errorf("a worker: %w: %s %s", err, strings.Join(said, " "), p.stderr.String())
	}
	return false, err
}

// ended is the status that the process gave the run.
func (p *process) ended() runlog.Status {
	for _, l := range p.lines {
		if l.what == "ended" {
			return runlog.Status(l.args[1])
		}
	}
	return ""
}

func atoi(s string) uint64 {
	n, _ := strconv.ParseUint(s, 10, 64)
	return n
}

// quiet is a world in which nothing happens.
type quiet struct{}

func (quiet) Do(*crash.Act) error               { return nil }
func (quiet) Happened(*crash.Act) (bool, error) { return false, nil }
func (quiet) Ran(string, string)                {}

// still is a world in which nothing may happen: that of a replay.
type still struct{}

func (still) Do(a *crash.Act) error             { return fmt.Errorf("%s %s was done", a.Path, a.Effect) }
func (still) Happened(*crash.Act) (bool, error) { return false, fmt.Errorf("the world was asked") }
func (still) Ran(string, string)                {}

func engine(t *testing.T, store runlog.Store, w crash.World, opt *superstep.Options) *superstep.Engine {
	t.Helper()
	all, err := crash.Workflows(w)
	if err != nil {
		t.Fatal(err)
	}
	var o superstep.Options
	if opt != nil {
		o = *opt
	}
	o.Workflows = all
	e, err := superstep.New(store, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func parse(t *testing.T, job string) (j crash.Job) {
	t.Helper()
	if err := json.Unmarshal([]byte(job), &j); err != nil {
		t.Fatal(err)
	}
	return j
}

func inputs(j crash.Job) json.RawMessage {
	b, _ := json.Marshal(j)
	return b
}

// oracle is what a run ends with that nothing disturbs.
func oracle(t *testing.T, j crash.Job) string {
	t.Helper()
	e := engine(t, runlog.NewMemory(nil), quiet{}, nil)
	run, err := e.Start(t.Context(), j.Workflow(), inputs(j), &superstep.StartOptions{Answer: crash.Answers("", quiet{}, false)})
	if err != nil {
		t.Fatal(err)
	}
	out, err := run.Wait(t.Context())
	if err != nil || out.Status != runlog.Completed {
		t.Fatalf("the oracle: %+v, %v", out, err)
	}
	return string(out.Output)
}

// open opens the store of a place, to be closed with the test.
func (p *place) open(t testing.TB, opt *crash.StoreOptions) crash.Store {
	t.Helper()
	s, err := crash.Open(context.Background(), p.url, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
