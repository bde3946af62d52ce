//go:build unix

package main_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/pgserver"
	"github.com/superstep-dev/superstep/internal/redisserver"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/stores"
)

// A writer is a user with a home and a folder, who can write a store.
type writer struct {
	t                 *testing.T
	binary, home, dir string
	store             string
}

func (w *writer) command(args ...string) *exec.Cmd {
	cmd := exec.Command(w.binary, args...)
	cmd.Dir = w.dir
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "SUPERSTEP_") || strings.HasPrefix(v, "XDG_") }),
		"HOME="+w.home, "SUPERSTEP_STORE="+w.store, "SUPERSTEP_STORE_VOLATILE=1")
	return cmd
}

func (w *writer) run(args ...string) string {
	w.t.Helper()
	out, err := w.command(args...).CombinedOutput()
	if err != nil {
		w.t.Logf("%q: %v\n%s", args, err, out)
	}
	return string(out)
}

func newWriter(t *testing.T, binary, store, dir, permissions string) *writer {
	t.Helper()
	w := &writer{t: t, binary: binary, store: store, home: t.TempDir(), dir: dir}
	config := filepath.Join(w.home, ".config", "superstep")
	if err := os.MkdirAll(config, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(config, "permissions.yaml"), []byte(permissions), 0o600); err != nil {
		t.Fatal(err)
	}
	return w
}

// TestHostileWriter: whoever can write the store of a worker gets no more done by it than its own configuration says.
func TestHostileWriter(t *testing.T) {
	binary := faults.Failpoints(t)
	for name, store := range map[string]func(t *testing.T) string{
		"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "runs.db") },
		"file":     func(t *testing.T) string { return "file:" + t.TempDir() },
		"postgres": func(t *testing.T) string { return pgserver.Start(t, nil).DSN() },
		"redis":    func(t *testing.T) string { return redisserver.Start(t, "appendonly yes").URL() },
	} {
		t.Run(name, func(t *testing.T) {
			hostile(t, binary, store(t))
		})
	}
}

// answer allows the call that a run asks about, as somebody does who writes the store and executes nothing.
func answer(t *testing.T, store, home, run string) {
	t.Helper()
	h, err := host.Open(t.Context(), &host.Config{
		Name: "superstep", Stores: stores.All(), Settings: host.Settings{Store: store, Volatile: true},
		Env: func(name string) string { return map[string]string{"HOME": home}[name] },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	e, err := h.Engine(t.Context(), &host.EngineOptions{Look: true})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.Answer(t.Context(), run, "go", &runlog.Answer{Key: "permit/turn-0/call-0", Value: json.RawMessage(`"once"`), By: "person"}); err != nil {
		t.Fatal(err)
	}
}

func hostile(t *testing.T, binary, store string) {
	project, elsewhere := t.TempDir(), t.TempDir()
	victim := newWriter(t, binary, store, project, "sandbox: {mode: auto}\ndeny: []\n")
	attacker := newWriter(t, binary, store, project, "")
	recipe := func(dir, call string) string {
		file := filepath.Join(dir, "r.yaml")
		text := "name: r\nsteps:\n  - {id: go, " + call + "}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	queue := func(w *writer, file string, rules ...string) string {
		args := []string{"run", file, "--queue", "-q", "--on-ask", "wait"}
		for _, r := range rules {
			args = append(args, "--allow", r)
		}
		return strings.TrimSpace(w.run(args...))
	}
	canary := func(dir string) bool {
		_, err := os.Stat(filepath.Join(dir, "pwned"))
		return err == nil
	}
	other := *attacker
	other.dir = elsewhere
	const touch, write = "tool: bash, args: {command: touch pwned}", "tool: write_file, args: {path: pwned, content: x}"
	refused := map[string]string{
		queue(attacker, recipe(project, touch), "bash"):                             "allow bash",
		queue(attacker, recipe(project, touch), "unsandboxed(touch pwned)", "bash"): "allow unsandboxed(touch pwned)",
		queue(attacker, recipe(project, touch), "net(*)", "bash(touch *)"):          "net(*)",
		queue(attacker, recipe(project, write), "write_file"):                       "allow write_file",
		queue(&other, recipe(elsewhere, write)):                                     "its folder " + elsewhere,
	}
	shows := func(id, want string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
			out := attacker.run("runs", "list", "-o", "json") + attacker.run("runs", "show", id)
			if strings.Contains(out, want) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("run %s: it is not said that %q:\n%s", id, want, out)
			}
		}
	}
	victim.run("worker", "--once")
	for id, why := range refused {
		shows(id, why) // though no worker is left
	}
	asks := queue(attacker, recipe(project, write))
	worker := victim.command("worker", "--every", "200ms")
	worker.Stderr = os.Stderr
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = worker.Process.Kill(); _ = worker.Wait() })
	for id, why := range refused {
		shows(id, why)
	}
	shows(asks, "waiting")
	answer(t, store, attacker.home, asks) // it is queued again, or goes on in the worker
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if out := attacker.run("runs", "show", asks); strings.Contains(out, "this worker takes none") || canary(project) || time.Now().After(deadline) {
			if !strings.Contains(out, "this worker takes none") {
				t.Errorf("the answer of another writer: %s", out)
			}
			break
		}
	}
	if canary(project) || canary(elsewhere) {
		t.Error("a command of the hostile writer was executed")
	}
	_ = worker.Process.Kill()
	_ = worker.Wait()
	willing := newWriter(t, binary, store, project, "workers: {allow: [\"bash(touch *)\"]}\n")
	queue(attacker, recipe(project, touch), "bash(touch pwned)")
	willing.run("worker", "--once", "--every", "200ms")
	if !canary(project) {
		t.Error("what the configuration of the worker allows was not executed")
	}
}
