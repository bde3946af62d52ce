//go:build linux && (amd64 || arm64)

package sandbox_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/tool/sandbox"
)

// loaded are protected files that the attacks try to leave: where the user's programs load them.
var loaded = []string{".envrc", "x/.envrc", ".mcp.json", "x/.mcp.json", "src/.mcp.json"}

// A protected file that is missing is not masked: whatever stands in its place disturbs programs outside. It is moved aside instead, which
// holds against what commands do to have one in place when they have ended.
func TestMissingFiles(t *testing.T) {
	modes(t, func(t *testing.T, mode sandbox.Mode) {
		for name, c := range map[string]struct {
			row, beside []string
			after       string // beside the last, from when it has made src/made
		}{
			"plain":                   {row: []string{`mkdir -p x; echo e >.envrc; echo e >x/.envrc; echo e >src/.mcp.json`}},
			"hard link":               {row: []string{`mkdir -p x; echo e >x/f; ln x/f x/.envrc; ln x/f .envrc`, `echo e >x/f; ln x/f x/.mcp.json`}},
			"symbolic link":           {row: []string{`mkdir -p x; echo e >x/f; ln -s f x/.envrc; ln -s x/f .envrc; ln -s missing x/.mcp.json`}},
			"to a folder outside":     {row: []string{`mkdir -p x; ln -s /etc/passwd x/.envrc; ln -s /tmp src/.mcp.json`}},
			"link before another":     {row: []string{`echo e >src/f; ln -s f src/.mcp.json; touch src/made; sleep 0.5`}, after: `sleep 0.8`},
			"pipe and folder":         {row: []string{`mkdir -p x; mkfifo x/.envrc; mkdir -p x/.mcp.json/y src/.mcp.json`}},
			"moved back":              {row: []string{`mkdir -p x; echo e >x/.envrc; echo e >.envrc`, `mv x/.envrc.refused-* x/.envrc; mv .envrc.refused-* .envrc`, `cat x/.envrc`}},
			"moved with its folder":   {row: []string{`mkdir -p y/z; echo e >y/z/.envrc`, `mv y x`, `mv x/z/.envrc.refused-* x/z/.envrc; mv x/z w; mv x v; mv w x`}},
			"out of node_modules":     {row: []string{`mkdir -p src/node_modules/y; echo e >src/node_modules/y/.mcp.json`, `mv src/node_modules/y x`}},
			"without rights":          {row: []string{`mkdir -p x/y; echo e >x/.envrc; echo e >x/y/.envrc; chmod 000 x/.envrc x/y; chmod 300 x`, `chmod 755 x x/y`}},
			"left running":            {row: []string{`mkdir -p x; (setsid bash -c 'trap "" HUP TERM; for i in $(seq 40); do sleep 0.02; echo e >x/.envrc; echo e >.envrc; done' >/dev/null 2>&1 &)`, `true`}},
			"behind another":          {row: []string{`mkdir -p x; echo e >x/.envrc; sleep 0.4`}, beside: []string{`sleep 0.2; cat x/.envrc`, `sleep 0.6`}},
			"made again and again":    {row: []string{`mkdir -p x; for i in $(seq 60); do echo e >x/.envrc; mv x/.envrc x/.mcp.json; sleep 0.01; done`}, beside: []string{`for i in $(seq 60); do mv x/.mcp.json* x/.envrc; sleep 0.01; done`, `sleep 0.3; mv x/.envrc* src/.mcp.json`}},
			"swapped with its folder": {row: []string{`mkdir -p x v; echo e >x/.envrc; for i in $(seq 100); do mv x w; mv v x; mv x v; mv w x; done`}, beside: []string{`for i in $(seq 100); do mv v/.envrc* x/.envrc; done`}},
			"other letters":           {row: []string{`mkdir -p x; echo e >x/.ENVRC; echo e >x/.Mcp.json; echo e >x/.envrc.`}},
		} {
			t.Run(name, func(t *testing.T) {
				v := newVictim(t, mode)
				write(t, v.dir+"/src/main.go", "package main\n")
				var said string
				var failed error
				for i, script := range c.row {
					scripts := []string{script}
					if i == len(c.row)-1 {
						scripts = append(scripts, c.beside...)
					}
					var all sync.WaitGroup
					var mu sync.Mutex
					for _, script := range scripts {
						all.Go(func() {
							out, _, err := v.do(t, script)
							mu.Lock()
							defer mu.Unlock()
							said += out
							if closed := new(sandbox.ClosedError); errors.As(err, &closed) {
								failed = err
							}
						})
					}
					if c.after != "" && i == len(c.row)-1 {
						all.Go(func() {
							wait(t, "the first command", func() bool { _, err := os.Lstat(v.dir + "/src/made"); return err == nil })
							_, _, _ = v.do(t, c.after)
						})
					}
					all.Wait()
					v.left(t, loaded)
				}
				time.Sleep(100 * time.Millisecond) // for what might still run
				v.left(t, loaded)
				v.check(t, said, failed)
			})
		}
	})
}

// left fails for names that are in place.
func (v *victim) left(t *testing.T, names []string) {
	t.Helper()
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(v.dir, name)); err == nil {
			t.Errorf("%s is in place", name)
		}
	}
}

// What commands had made when Superstep was killed is moved aside by the next start. What the user makes after that stays.
func TestMissingAfterKill(t *testing.T) {
	modes(t, func(t *testing.T, mode sandbox.Mode) {
		if dir := os.Getenv("SANDBOX_VICTIM"); dir != "" {
			v := &victim{dir: dir, cache: os.Getenv("SANDBOX_CACHE"), mode: mode}
			v.open(t)
			_, _, _ = v.do(t, `mkdir -p x z/.claude; echo e >x/.envrc; echo e >.mcp.json; echo e >x/.mcp.json; chmod 300 z;
				ln -sf ../tools/evil far/m; ln -sf ../tools/evil late/m; rm near/m; touch x/ready; sleep 300`)
			return
		}
		v := newVictim(t, mode)
		write(t, v.dir+"/x/f", "x")
		for _, name := range []string{"real/m", "tools/evil", "far/f", "late/f", "near/f"} {
			write(t, filepath.Join(v.dir, name), name)
		}
		for _, dir := range []string{"far", "late", "near"} { // what a protected link leads to, with the links on the way, is protected
			link(t, "../real/m", v.dir+"/"+dir+"/m")
			link(t, "../../"+dir+"/m", v.dir+"/sub/.vscode/"+dir)
		}
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestMissingAfterKill$/^"+string(mode)+"$")
		c.Env = append(os.Environ(), "SANDBOX_VICTIM="+v.dir, "SANDBOX_CACHE="+v.cache, "TMPDIR="+t.TempDir())
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		wait(t, "the command", func() bool { _, err := os.Lstat(v.dir + "/x/ready"); return err == nil })
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = c.Wait()                // it was killed
		time.Sleep(3 * time.Second) // the user comes back
		write(t, v.dir+"/src/.mcp.json", "mine\n")
		write(t, v.dir+"/tools/.vscode/tasks.json", "mine\n")
		if err := os.Remove(v.dir + "/x/.mcp.json"); err != nil {
			t.Fatal(err)
		}
		write(t, v.dir+"/x/.mcp.json", "mine\n")
		if err := os.Remove(v.dir + "/late/m"); err != nil {
			t.Fatal(err)
		}
		write(t, v.dir+"/real/new", "real/new")
		link(t, "../real/new", v.dir+"/late/m")
		write(t, v.dir+"/real/newer", "real/newer")
		link(t, "../../real/newer", v.dir+"/sub/.vscode/own")
		var told []string
		v.s = newSandbox(t, sandbox.Options{Root: v.dir, Cache: v.cache, Mode: v.mode, Hide: isSecret, Protect: isProtected, Warn: func(text string) { told = append(told, text) }})
		v.left(t, []string{"x/.envrc", ".mcp.json"})
		if all := strings.Join(told, "\n"); !strings.Contains(all, "x/.envrc") {
			t.Errorf("the user was told %q", all)
		}
		for _, mine := range []string{"src/.mcp.json", "tools/.vscode/tasks.json", "x/.mcp.json", "sub/.vscode/tasks.json"} {
			if b, err := os.ReadFile(filepath.Join(v.dir, mine)); err != nil || string(b) != "mine\n" {
				t.Errorf("%s of the user: %q, %v; %q", mine, b, err, told)
			}
		}
		for name, want := range map[string]string{"far": "real/m", "near": "real/m", "late": "real/new", "own": "real/newer"} {
			if b, err := os.ReadFile(filepath.Join(v.dir, "sub/.vscode", name)); string(b) != want {
				t.Errorf("%s leads to %q, %v; %q", name, b, err, told)
			}
		}
		_ = os.Chmod(v.dir+"/z", 0o755) //nolint:gosec // a folder of the user
		v.left(t, []string{"z/.claude"})
	})
}

func link(t *testing.T, to, name string) {
	t.Helper()
	if err := os.Symlink(to, name); err != nil {
		t.Fatal(err)
	}
}

// A command that begins while another leaves takes nothing of the user's for its own work.
func TestBeginWhileLeaving(t *testing.T) {
	modes(t, func(t *testing.T, mode sandbox.Mode) {
		v := newVictim(t, mode)
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				for range 40 {
					if _, refusals, err := v.do(t, `:`); err != nil || len(refusals) > 0 {
						t.Errorf("%q, %v", refusals, err)
					}
				}
			})
		}
		all.Wait()
		v.check(t, "", nil)
	})
}

// A secret whose folder is closed or moved while a command starts is not read.
func TestClosedWhileStarting(t *testing.T) {
	v := newVictim(t, sandbox.Namespaces)
	for _, change := range []string{`chmod 000 conf`, `mv conf other`} {
		v.s = newSandbox(t, sandbox.Options{Root: v.dir, Cache: v.cache, Mode: v.mode, Hide: func(name string) bool {
			if isSecret(name) && strings.HasSuffix(name, "deep/.env") { // a look is under way
				if out, err := exec.CommandContext(t.Context(), "bash", "-c", "cd "+v.dir+"; sleep 0.1; "+change).CombinedOutput(); err != nil && change == "" {
					t.Error(string(out))
				}
			}
			return isSecret(name)
		}, Protect: isProtected})
		out, _, err := v.do(t, `chmod -R u+rwx .; cat conf/.env other/.env conf/deep/.env other/deep/.env`)
		if strings.Contains(out, zebra) {
			t.Errorf("%s: %s, %v", change, out, err)
		}
		_ = exec.CommandContext(t.Context(), "bash", "-c", "cd "+v.dir+"; chmod -R u+rwx .; mv other conf").Run()
	}
}
