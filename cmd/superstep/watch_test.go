//go:build unix

package main_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/model"
)

// A watched is the built command, run in several processes over one data folder, with a model that streams slowly.
type watched struct {
	t      *testing.T
	binary string
	dir    string
	env    []string

	mu   sync.Mutex
	gate chan struct{} // closed when somebody watches: the model waits for it
}

// watchRecipe has a step that is done at once before the one that streams.
const watchRecipe = `name: slow
steps:
  - {id: files, tool: glob, args: {pattern: "*.md"}}
  - {id: tale, subagent: worker, prompt: "Tell.", depends_on: [files]}
output: "{{steps.tale.output}}"
`

func newWatched(t *testing.T, env ...string) *watched {
	t.Helper()
	w := &watched{t: t, binary: faults.Failpoints(t), dir: t.TempDir()}
	if err := os.WriteFile(filepath.Join(w.dir, "slow.yaml"), []byte(watchRecipe), 0o600); err != nil {
		t.Fatal(err)
	}
	server := modeltest.NewServer(t, func(*modeltest.ParsedRequest) modeltest.Reply {
		w.mu.Lock()
		gate := w.gate
		w.mu.Unlock()
		select {
		case <-gate:
		case <-time.After(time.Minute):
		}
		r := modeltest.Reply{Fault: modeltest.Trickle, Pause: 500 * time.Microsecond}
		for range 20 {
			r.Parts = append(r.Parts, model.Part{Kind: model.Text, Text: "word "})
		}
		return r
	}, nil)
	w.env = append(os.Environ(), "OPENAI_BASE_URL="+server.URL, "OPENAI_API_KEY=none", "XDG_CACHE_HOME="+filepath.Join(w.dir, "cache"), "XDG_RUNTIME_DIR=")
	w.env = append(w.env, env...)
	return w
}

func (w *watched) command(args ...string) *exec.Cmd {
	cmd := exec.Command(w.binary, append(args, "--data-dir", filepath.Join(w.dir, "data"), "--no-input")...)
	cmd.Dir, cmd.Env = w.dir, w.env
	return cmd
}

// begin executes the run in a process of its own, and returns once it is listed as running.
func (w *watched) begin(args ...string) *exec.Cmd {
	w.t.Helper()
	w.mu.Lock()
	w.gate = make(chan struct{})
	w.mu.Unlock()
	cmd := w.command(args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = cmd.Process.Kill() })
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if out, err := w.command("runs", "list", "-o", "json").Output(); err == nil && strings.Contains(string(out), `"running"`) {
			return cmd
		}
		if time.Now().After(end) {
			w.t.Fatalf("the run never begins:\n%s", errs.String())
		}
	}
}

// a seen event of the output jsonl.
type seen struct {
	Type string
	Task string
	at   time.Time
	raw  string
}

// watch follows the run in another process to its end, and calls each with every event. It has the model go on with the first.
func (w *watched) watch(each func(seen)) (all []seen, stderr string) {
	w.t.Helper()
	cmd := w.command("runs", "watch", "@last", "-o", "jsonl", "--stream-text")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	stop := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer stop.Stop()
	watching, over := context.WithCancel(w.t.Context())
	var opening sync.WaitGroup
	defer func() { over(); opening.Wait() }()
	in := bufio.NewScanner(out)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		s := seen{at: time.Now(), raw: in.Text()}
		if err := json.Unmarshal(in.Bytes(), &s); err != nil {
			w.t.Fatalf("%v: %s", err, in.Text())
		}
		if all = append(all, s); len(all) == 1 {
			opening.Go(func() { w.open(watching) })
		}
		if each != nil {
			each(s)
		}
	}
	_ = cmd.Wait() // the code is the run's
	return all, errs.String()
}

// open has the model go on, once the watcher follows the run live: it is connected to the run's socket, if there is one and the system tells.
func (w *watched) open(watching context.Context) {
	for end := time.Now().Add(5 * time.Second); watching.Err() == nil && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		list, err := os.ReadFile("/proc/net/unix")
		if err != nil || slices.ContainsFunc(strings.Split(string(list), "\n"), w.connected) {
			break
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.gate:
	default:
		close(w.gate)
	}
}

// connected reports whether a line of /proc/net/unix is of a socket of the run that has a follower.
func (w *watched) connected(line string) bool {
	const state, path, established = 5, 7, "03"
	f := strings.Fields(line)
	return len(f) > path && f[state] == established && slices.ContainsFunc(append(w.env, "="+w.dir), func(v string) bool {
		name, dir, _ := strings.Cut(v, "=")
		return (name == "" || name == "XDG_RUNTIME_DIR") && dir != "" && strings.HasPrefix(f[path], dir+"/")
	})
}

// stored are the events that are not live-only, without what differs from one stream to the next.
func stored(all []seen) (out []string) {
	number := regexp.MustCompile(`"n":\d+`)
	position := regexp.MustCompile(`"seq":\d+`)
	for _, s := range all {
		if !position.MatchString(s.raw) {
			continue
		}
		out = append(out, number.ReplaceAllString(s.raw, ""))
	}
	return out
}

func count(all []seen, kind string) (n int) {
	for _, s := range all {
		if s.Type == kind {
			n++
		}
	}
	return n
}

// A second process sees the words of a model before the turn has ended, with and without a folder for sockets.
func TestWatchElsewhere(t *testing.T) {
	for name, runtimeDir := range map[string]bool{"data folder": false, "runtime folder": true} {
		t.Run(name, func(t *testing.T) {
			w := newWatched(t)
			if runtimeDir {
				dir, err := os.MkdirTemp("", "rt") //nolint:usetesting // t.TempDir may be too long a path
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = os.RemoveAll(dir) })
				w.env = append(w.env, "XDG_RUNTIME_DIR="+dir)
			}
			begun := w.begin("run", "./slow.yaml", "--model", "openai/slow")
			all, errs := w.watch(nil)
			done := slices.IndexFunc(all, func(s seen) bool { return s.Type == "turn.done" })
			first := slices.IndexFunc(all, func(s seen) bool { return s.Type == "text.delta" })
			if first < 0 || done < 0 || all[done].at.Sub(all[first].at) < 200*time.Millisecond {
				t.Errorf("event %d of %d is the first word, and %d the end of the turn\n%s", first, len(all), done, errs)
			}
			if n := count(all, "text.delta"); n != 20 {
				t.Errorf("%d of 20 words", n)
			}
			if err := begun.Wait(); err != nil {
				t.Error(err)
			}
			if strings.Contains(errs, "another machine") {
				t.Errorf("the reader is told that no words come:\n%s", errs)
			}
			again, _ := w.watch(nil)
			if a, b := stored(all), stored(again); !slices.Equal(a, b) || len(a) < 5 {
				t.Errorf("live:\n%s\nfrom the store:\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
			}
		})
	}
}

// The executing process is killed while it is watched: the watcher has each stored record once, and ends. Whoever resumes the run
// replaces the socket that is left.
func TestWatchKilled(t *testing.T) {
	w := newWatched(t)
	cmd := w.begin("run", "./slow.yaml", "--model", "openai/slow")
	words := 0
	all, errs := w.watch(func(s seen) {
		if s.Type == "text.delta" {
			if words++; words == 3 {
				_ = cmd.Process.Kill()
			}
		}
	})
	if words < 3 || count(all, "turn.done") != 0 || count(all, "run.finished") != 1 {
		t.Fatalf("%d words, %d events\n%s", words, len(all), errs)
	}
	_ = cmd.Wait()
	again, _ := w.watch(nil)
	if a, b := stored(all), stored(again); !slices.Equal(a, b) || len(a) < 3 {
		t.Errorf("live:\n%s\nfrom the store:\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
	}
	left, err := filepath.Glob(filepath.Join(w.dir, "data", "live", "*.sock"))
	if err != nil || len(left) != 1 {
		t.Fatalf("sockets %q, %v", left, err)
	}
	resume := w.begin("runs", "resume", "@last")
	all, errs = w.watch(nil)
	if n := count(all, "text.delta"); n < 10 || n > 20 || count(all, "turn.done") != 1 { // it may follow only when some have passed
		t.Errorf("%d words after it was resumed\n%s", count(all, "text.delta"), errs)
	}
	if err := resume.Wait(); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(w.dir, "data", "live", "*")); len(left) != 0 {
		t.Errorf("what is left: %q", left)
	}
}
