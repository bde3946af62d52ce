package acp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/agent/acp"
	"github.com/superstep-dev/superstep/internal/acptest"
	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/procgroup"
	"github.com/superstep-dev/superstep/tool/sandbox"
)

// living returns the processes of a scripted agent, and of its commands, wherever they are.
func living(state string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil || !bytes.Contains(b, []byte("ACPTEST_STATE="+state+"\x00")) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f))); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// modes are the mechanisms that this system has.
func modes(t *testing.T) (out []sandbox.Mode) {
	t.Helper()
	for _, m := range []sandbox.Mode{sandbox.Namespaces, sandbox.Landlock} {
		s, err := sandbox.New(&sandbox.Options{Mode: m})
		if err != nil {
			t.Log(err)
			continue
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
	if len(out) == 0 {
		t.Skip("this system has no sandbox")
	}
	return out
}

// boxed lets the agents of a stage work in the sandbox, and returns their command.
func (s *stage) boxed(t *testing.T, mode sandbox.Mode, home string) *acp.Command {
	t.Helper()
	s.opt.Environ = append(os.Environ(), "HOME="+home, "OTHER_TOKEN=secret", "SCRIPTED_KEY=mine")
	s.opt.Sandbox = func(_ *acp.Command, dir string) (*sandbox.Sandbox, error) {
		return sandbox.New(&sandbox.Options{Root: dir, Home: home, Environ: s.opt.Environ, Mode: mode, Hide: func(path string) bool { return filepath.Base(path) == ".env" },
			Protect: func(path string) bool {
				return mode == sandbox.Namespaces && path == filepath.Join(home, ".scripted", "config")
			}})
	}
	s.cmd = &acp.Command{Name: "scripted", Argv: []string{os.Args[0]}, Env: acptest.Env(s.script, s.state), Keys: []string{"SCRIPTED_*"}}
	s.cmd.Needs = sandbox.Needs{Network: []string{"*"}, Write: []string{s.state, "~/.scripted"}}
	return s.cmd
}

// An agent writes its folder and those that it was given, and reads nothing else of the user: neither files, nor secrets of the project, nor variables.
func TestConfined(t *testing.T) {
	t.Parallel()
	for _, mode := range modes(t) {
		t.Run(string(mode), func(t *testing.T) {
			s, home := open(t, "probe"), t.TempDir()
			for _, dir := range []string{".scripted", ".ssh", ".other"} {
				if err := os.Mkdir(filepath.Join(home, dir), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			for name, text := range map[string]string{home + "/.scripted/config": "as it was", home + "/.ssh/id": "secret key", home + "/.other/auth": "secret token", s.dir + "/.env": "secret value",
				s.dir + "/made": ""} {
				if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			cmd := s.boxed(t, mode, home)
			cmd.Env = append(cmd.Env, "PROBE=echo x > made; echo x > ~/.scripted/own; echo changed > ~/.scripted/config; echo x > "+home+"/.other/new; cat "+home+"/.ssh/id "+home+
				"/.other/auth .env; echo $OTHER_TOKEN $SCRIPTED_KEY; (setsid sleep 300 >/dev/null 2>&1 &)")
			run, out := s.start(t)
			said := string(out.Output)
			if strings.Contains(said, "secret") || !strings.Contains(said, "mine") {
				t.Errorf("got %s", said)
			}
			for name, want := range map[string]string{s.dir + "/made": "x\n", home + "/.scripted/own": "x\n", home + "/.scripted/config": "as it was", home + "/.other/new": ""} {
				if b, _ := os.ReadFile(name); string(b) != want && (mode == sandbox.Namespaces || filepath.Base(name) != "config") { // Landlock cannot except a file
					t.Errorf("%s: %q", name, b)
				}
			}
			if notes := strings.Join(parts(s.fold(t, run.ID())), "\n"); !strings.Contains(notes, "note scripted works in the sandbox ("+string(mode)) || !strings.Contains(notes, "of the network it reaches all") {
				t.Errorf("got %s", notes)
			}
			if len(living(s.state)) < 2 {
				t.Error("no process was left behind: nothing is tested")
			}
			s.pool.Close()
			if left := living(s.state); len(left) > 0 {
				t.Errorf("processes %v are left", left)
			}
		})
	}
}

// What an agent started ends with it when Superstep is killed: also what has left its group and its session.
func TestSuperstepKilled(t *testing.T) {
	if state := os.Getenv("ACP_PARENT"); state != "" { // this is the Superstep to be killed
		s := &stage{script: "probe", state: state, dir: filepath.Join(state, "dir")}
		s.boxed(t, sandbox.Mode(os.Getenv("ACP_MODE")), os.Getenv("ACP_HOME"))
		s.cmd.Env = append(s.cmd.Env, "PROBE=(setsid sh -c 'sleep 300 & sleep 300' >/dev/null 2>&1 &)")
		pool := acp.NewPool(&s.opt)
		a := &agent.Agent{Name: "worker", Model: pool.Model(*s.cmd, s.dir)}
		_, err := a.Run(t.Context(), nil, &agent.Work{Prompt: "stay"})
		t.Fatal("it ended: ", err)
	}
	t.Parallel()
	for _, mode := range modes(t) {
		t.Run(string(mode), func(t *testing.T) {
			state, home := t.TempDir(), t.TempDir()
			for _, dir := range []string{state + "/dir", home + "/.scripted"} {
				if err := os.Mkdir(dir, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			parent := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "TestSuperstepKilled$")
			parent.Env = append(os.Environ(), "ACP_PARENT="+state, "ACP_HOME="+home, "ACP_MODE="+string(mode))
			var out bytes.Buffer
			parent.Stdout, parent.Stderr = &out, &out
			if err := parent.Start(); err != nil {
				t.Fatal(err)
			}
			for range 1000 {
				if slices.Contains(acptest.Log(state), "probed") && len(living(state)) >= 4 {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			if n := len(living(state)); n < 4 {
				_ = parent.Process.Kill()
				_ = parent.Wait()
				t.Fatalf("%d processes: nothing is tested: %s", n, out.String())
			}
			if err := parent.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = parent.Wait() // it was killed
			for range 500 {
				if len(living(state)) == 0 {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
			t.Errorf("processes %v are left", living(state))
		})
	}
}

// No process is left after many starts, cancelled turns and kills, of agents in the sandbox and outside of it: 1,000 of them in the full suite.
func TestNoOrphans(t *testing.T) {
	t.Parallel()
	rounds := faults.N(120)
	if faults.Full() {
		rounds = 1000
	}
	boxes := append(modes(t), "")
	for i := range rounds {
		s, home := open(t, "endless"), t.TempDir()
		if mode := boxes[i%len(boxes)]; mode != "" {
			if err := os.Mkdir(filepath.Join(home, ".scripted"), 0o700); err != nil {
				t.Fatal(err)
			}
			s.boxed(t, mode, home)
		}
		run, err := s.begin(t).Start(t.Context(), "test", json.RawMessage(`{"prompt":"go"}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		what := i / len(boxes) % 4
		if what > 0 {
			until(t, func() bool { return len(s.logged("prompt")) == 1 })
		}
		switch what {
		case 1:
			for _, pid := range living(s.state) {
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
			}
		case 2:
			if err := s.engine.Cancel(t.Context(), run.ID()); err != nil {
				t.Fatal(err)
			}
		}
		s.engine.Close()
		s.pool.Close()
		if left := living(s.state); len(left) > 0 {
			t.Fatalf("round %d: processes %v are left", i, left)
		}
	}
	if left, err := filepath.Glob(fmt.Sprintf("%s/superstep-sandbox-%d-*", os.TempDir(), os.Getpid())); err != nil || len(left) > 8 { // other tests have theirs
		t.Errorf("%d folders are left: %v", len(left), err)
	}
}

// Few processes run at once: one that is idle makes room, and its session is continued later. One that works is waited for.
func TestPlaces(t *testing.T) {
	t.Parallel()
	s := open(t, "usage")
	s.opt.Processes = 1
	s.pool = acp.NewPool(&s.opt)
	cmd := acp.Command{Name: "scripted", Argv: []string{os.Args[0]}, Env: acptest.Env(s.script, s.state)}
	one := &agent.Agent{Name: "one", Model: s.pool.Model(cmd, s.dir)}
	two := &agent.Agent{Name: "two", Model: s.pool.Model(cmd, t.TempDir())}
	out, err := one.Run(t.Context(), nil, &agent.Work{Prompt: "go"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := two.Run(t.Context(), nil, &agent.Work{Prompt: "go"}); err != nil {
		t.Fatal(err)
	}
	if n := len(living(s.state)); n != 1 {
		t.Errorf("%d processes", n)
	}
	if out, err = one.Run(t.Context(), nil, &agent.Work{Messages: out.Messages, Prompt: "again"}); err != nil || len(s.logged("session/load")) != 1 || len(s.logged("start")) != 3 {
		t.Fatal(out, err, acptest.Log(s.state))
	}

	cmd.Env = acptest.Env("endless", s.state)
	busy, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := (&agent.Agent{Name: "three", Model: s.pool.Model(cmd, s.dir)}).Run(busy, nil, &agent.Work{Prompt: "go"})
		ended <- err
	}()
	until(t, func() bool { return len(s.logged("prompt go")) == 3 })
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	if _, err := two.Run(ctx, nil, &agent.Work{Prompt: "go"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := two.Run(t.Context(), nil, &agent.Work{Prompt: "go"}); err != nil {
		t.Error(err)
	}
}

// A process that nobody needs ends after a while.
func TestIdle(t *testing.T) {
	t.Parallel()
	s := open(t, "asks")
	s.opt.Idle = 100 * time.Millisecond
	run, out := s.start(t)
	time.Sleep(300 * time.Millisecond)
	if n := len(living(s.state)); n != 1 {
		t.Errorf("%d processes wait for an answer", n)
	}
	s.allow(t, run, out, "once")
	again, err := s.engine.Resume(t.Context(), run.ID(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if out = wait(t, again); string(out.Output) != `"Both are made."` {
		t.Errorf("got %+v", out)
	}
	until(t, func() bool { return len(living(s.state)) == 0 })
}

// Real agents work in the sandbox; see TestVendors.
func TestVendorsConfined(t *testing.T) {
	t.Parallel()
	for _, v := range vendors {
		for _, mode := range modes(t) {
			t.Run(v.name+" "+string(mode), func(t *testing.T) {
				path := v.program(t)
				if v.name == "qwen" && mode == sandbox.Landlock {
					t.Skip("it makes a new file beside the one that it edits, which Landlock refuses in the project's own folder")
				}
				server := acptest.NewWords(t, v.wire)
				s := v.stage(t, path, server.URL)
				s.cmd.Argv = s.cmd.Argv[3:] // the shell cannot write its log
				home, _ := procgroup.Variable(s.opt.Environ, "HOME")
				for _, dir := range append(s.cmd.Needs.Write, "~/.config/opencode/agent") { // Landlock lets it make none of its own
					if err := os.MkdirAll(strings.Replace(dir, "~", home, 1), 0o700); err != nil {
						t.Fatal(err)
					}
				}
				for name, text := range map[string]string{"opencode.json": `{"autoupdate": false}`, "AGENTS.md": "Be brief.", "agent/terse.md": "---\ndescription: terse\n---\nBe terse."} {
					if err := os.WriteFile(filepath.Join(home, ".config", "opencode", name), []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				s.opt.Sandbox = func(_ *acp.Command, dir string) (*sandbox.Sandbox, error) {
					return sandbox.New(&sandbox.Options{Root: dir, Home: home, Environ: s.opt.Environ, Mode: mode})
				}
				if hosts := os.Getenv("SUPERSTEP_ACP_NETWORK"); hosts != "" {
					s.cmd.Needs.Network = []string{hosts}
				}
				s.play(t, "edit")
				if b, err := os.ReadFile(filepath.Join(s.dir, "a.txt")); err != nil || string(b) != "one\n2\n" {
					t.Errorf("%q, %v", b, err)
				}
			})
		}
	}
}
