//go:build linux && (amd64 || arm64)

package sandbox_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/procgroup"
	"github.com/superstep-dev/superstep/tool/sandbox"
)

// What a command makes under a protected name is moved away, and the command is told on.
func TestAside(t *testing.T) {
	modes(t, func(t *testing.T, mode sandbox.Mode) {
		dir := t.TempDir()
		write(t, dir+"/sub/.git/HEAD", "ref: refs/heads/main\n")
		s := newSandbox(t, sandbox.Options{Root: dir, Mode: mode, Protect: func(name string) bool { return filepath.Base(name) == ".mcp.json" }})
		_, c, err := run(t, s, dir, `cd sub && mkdir a && echo x >a/.mcp.json && echo x >.git/config && mkdir -p b && for i in $(seq 1000); do echo y >b/.mcp.json.refused-$i; done; echo x >b/.mcp.json`)
		if err != nil {
			t.Fatal(err)
		}
		for _, from := range []string{"a/.mcp.json", ".git/config", "b/.mcp.json"} {
			if _, err := os.Lstat(filepath.Join(dir, "sub", from)); err == nil {
				t.Errorf("%s is there", from)
			}
			to := refused(t, c, "sub/"+from)
			if b, err := os.ReadFile(filepath.Join(dir, to)); err != nil || string(b) != "x\n" {
				t.Errorf("%s: %q, %v", to, b, err)
			}
		}
	})
}

// refused returns where the file that a command made was moved.
func refused(t *testing.T, c *sandbox.Cmd, name string) string {
	t.Helper()
	for _, line := range c.Refusals() {
		if to, ok := strings.CutPrefix(line, "it made "+name+", which is protected; it was moved to "); ok {
			return to
		}
	}
	t.Errorf("%s is not in %q", name, c.Refusals())
	return ""
}

// A command that swaps a folder for a link while another ends does not have anything outside renamed.
func TestAsideOutside(t *testing.T) {
	modes(t, func(t *testing.T, mode sandbox.Mode) {
		dir, out := t.TempDir(), t.TempDir()
		write(t, out+"/.mcp.json", "mine\n")
		write(t, dir+"/sub/file", "x")
		swapped := false
		s := newSandbox(t, sandbox.Options{Root: dir, Mode: mode, Protect: func(name string) bool {
			if filepath.Base(name) != ".mcp.json" {
				return false
			}
			if !swapped { // between the scan and the renaming
				swapped = true
				if err := errors.Join(os.Rename(dir+"/sub/a", dir+"/sub/b"), os.Symlink(out, dir+"/sub/a")); err != nil {
					t.Error(err)
				}
			}
			return true
		}})
		_, c, err := run(t, s, dir, `mkdir sub/a && echo x >sub/a/.mcp.json`)
		if err != nil || !swapped {
			t.Fatal(err, swapped)
		}
		if b, err := os.ReadFile(out + "/.mcp.json"); string(b) != "mine\n" {
			t.Error("a file outside was renamed:", err, c.Refusals())
		}
		if len(c.Refusals()) != 1 {
			t.Errorf("%q", c.Refusals())
		}
	})
}

// Neither an old time of a folder nor how it was looked at before hides a new secret.
func TestScanAgain(t *testing.T) {
	modes(t, func(t *testing.T, mode sandbox.Mode) {
		dir := t.TempDir()
		write(t, dir+"/a/b/file", "x")
		old := time.Now().Add(-time.Hour)
		hide := func(name string) bool { return filepath.Base(name) == ".env" }
		s := newSandbox(t, sandbox.Options{Root: dir, Mode: mode, Hide: hide})
		for i := range 3 {
			if out, _, err := run(t, s, dir, `cat a/b/file`); err != nil {
				t.Fatal(out, err)
			}
			if i == 1 {
				write(t, dir+"/a/b/.env", "zebra")
			}
			if err := os.Chtimes(dir+"/a/b", old, old); err != nil {
				t.Fatal(err)
			}
		}
		if out, _, _ := run(t, s, dir, `cat a/b/.env; mv a c; cat c/b/.env; mv a/b a/c; cat a/c/.env; true`); strings.Contains(out, "zebra") {
			t.Error(out)
		}
	})
}

// A project may be anywhere and be called anything.
func TestRoots(t *testing.T) {
	modes(t, func(t *testing.T, mode sandbox.Mode) {
		base := t.TempDir()
		home := base + "/home"
		write(t, base+"/other/secret", "zebra")
		write(t, home+"/secret", "zebra")
		for _, name := range []string{base + "/a b", base + "/a\nb", base + "/a\xff\xfeb", home + "/p", base + "/'$(id)'", base + "/-e", base + "/ü/" + strings.Repeat("long", 50)} {
			write(t, name+"/sub/file", "text")
			write(t, name+"/.env", "zebra")
			if err := os.Symlink(name, filepath.Join(base, "link")); err != nil {
				t.Fatal(err)
			}
			for _, root := range []string{name, filepath.Join(base, "link")} {
				s, err := sandbox.New(&sandbox.Options{Root: root, Home: home, Mode: mode, Hide: func(name string) bool { return filepath.Base(name) == ".env" }})
				if err != nil {
					t.Fatal(err)
				}
				out, _, err := run(t, s, name, `cat sub/file && echo new >sub/new && cat sub/new; cat .env ../secret ../other/secret ../home/secret 2>/dev/null`)
				if out != "textnew\n" {
					t.Errorf("%q: %q, %v", root, out, err)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
			if err := os.Remove(filepath.Join(base, "link")); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestManyFiles(t *testing.T) {
	modes(t, func(t *testing.T, mode sandbox.Mode) {
		dir := t.TempDir()
		for i := range 10_000 {
			if err := os.WriteFile(fmt.Sprintf("%s/%d", dir, i), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(t, dir+"/.env", "zebra")
		s := newSandbox(t, sandbox.Options{Root: dir, Mode: mode, Hide: func(name string) bool { return filepath.Base(name) == ".env" }})
		if out, _, err := run(t, s, dir, `echo x >9999 && cat 9999; cat .env`); !strings.HasPrefix(out, "x\n") || strings.Contains(out, "zebra") {
			t.Error(out, err)
		}
	})
}

// Folders that nobody may read, dangling links that are protected, and a project that is gone stop only what needs them.
func TestOddProjects(t *testing.T) {
	modes(t, func(t *testing.T, mode sandbox.Mode) {
		dir := t.TempDir() + "/p"
		write(t, dir+"/closed/.env", "zebra")
		write(t, dir+"/sub/file", "text")
		for link, to := range map[string]string{"AGENTS.md": "missing", "sub/AGENTS.md": t.TempDir(), "loop": "loop", ".env": "sub/secret", ".env.x": "/missing"} {
			if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
				t.Fatal(err)
			}
		}
		write(t, dir+"/sub/secret", "zebra")
		if err := os.Chmod(dir+"/closed", 0); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(dir+"/closed", 0o700) })
		s := newSandbox(t, sandbox.Options{
			Root: dir, Mode: mode, Hide: func(name string) bool { return strings.HasPrefix(filepath.Base(name), ".env") },
			Protect: func(name string) bool { return filepath.Base(name) == "AGENTS.md" },
		})
		out, c, _ := run(t, s, dir, `cat sub/file; cat .env sub/secret closed/.env; chmod 700 closed; cat closed/.env; rm sub/AGENTS.md; rm AGENTS.md; true`)
		if !strings.HasPrefix(out, "text") || strings.Contains(out, "zebra") && os.Getuid() == 0 {
			t.Error(out)
		}
		for _, name := range []string{"AGENTS.md", "sub/AGENTS.md"} {
			if _, err := os.Readlink(filepath.Join(dir, name)); err != nil {
				t.Error(err, c.Refusals())
			}
		}
		if err := os.Chmod(dir+"/closed", 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		gone := s.Command(t.Context(), nil, "/bin/true")
		gone.Dir = dir
		if err := gone.Start(); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a project that is gone: %v", err)
		}
	})
}

// A link that a command has put into a folder that it may write does not widen what the next may do.
func TestPolicyThroughLink(t *testing.T) {
	modes(t, func(t *testing.T, mode sandbox.Mode) {
		dir, out := t.TempDir(), t.TempDir()
		write(t, out+"/secret", "zebra")
		write(t, out+"/bin/x", "zebra")
		write(t, dir+"/sub/file", "text")
		write(t, dir+"/sub/real/file", "text")
		s, err := sandbox.New(&sandbox.Options{Root: dir, Mode: mode, Environ: []string{"PATH=" + dir + "/sub/bin"}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if out, _, err := run(t, s, dir, `cd sub && ln -s "`+out+`" out && ln -s "`+out+`/bin" bin && ln -s real inner`); err != nil {
			t.Fatal(out, err)
		}
		again, err := sandbox.New(&sandbox.Options{
			Root: dir, Mode: mode, Environ: []string{"PATH=" + dir + "/sub/bin"},
			Policy: sandbox.Policy{Write: []string{dir + "/sub/out", dir + "/sub/inner"}, Read: []string{dir + "/sub/out/secret"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		text, _, err := run(t, again, dir, `echo y >sub/inner/new && cat sub/inner/new; cat sub/out/secret; cat sub/bin/x; echo x >sub/out/new; true`)
		if strings.Contains(text, "zebra") || !strings.HasPrefix(text, "y\n") || err != nil {
			t.Error(text, err)
		}
		if _, err := os.Lstat(out + "/new"); err == nil {
			t.Error("it wrote outside")
		}
	})
}

// Neither does a link that is swapped in while a command starts.
func TestSwapWhileStarting(t *testing.T) {
	modes(t, func(t *testing.T, mode sandbox.Mode) {
		dir, out := t.TempDir(), t.TempDir()
		write(t, out+"/e/secret", "zebra")
		write(t, dir+"/sub/d/e/file", "text")
		s := newSandbox(t, sandbox.Options{Root: dir, Mode: mode})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		swap := s.Command(ctx, []string{"OUT=" + out, "PATH=" + os.Getenv("PATH")}, "/usr/bin/perl", "-e", `chdir "sub"; symlink $ENV{OUT}, "l"; while (1) { rename "d", "x"; rename "l", "d"; rename "d", "l"; rename "x", "d" }`)
		swap.Dir = dir
		if err := swap.Start(); err != nil {
			t.Skip(err)
		}
		view, err := s.With(sandbox.Policy{Write: []string{dir + "/sub/d/e"}, Read: []string{dir + "/sub/d/e/secret"}})
		if err != nil {
			t.Fatal(err)
		}
		started := 0
		for range 60 {
			c := view.Command(t.Context(), []string{"PATH=" + os.Getenv("PATH")}, "/bin/bash", "-c", `for i in 1 2 3 4 5; do cat sub/d/e/secret; echo x >sub/d/e/new; done 2>/dev/null`)
			log, err := os.Create(filepath.Join(out, "log"))
			if err != nil {
				t.Fatal(err)
			}
			c.Dir, c.Stdout = dir, log
			if err := c.Start(); err == nil {
				started++
				_ = c.Wait()
			}
			log.Close()
			if b, err := os.ReadFile(filepath.Join(out, "log")); err != nil || len(b) > 0 {
				t.Fatalf("%s, %v", b, err)
			}
			if _, err := os.Lstat(out + "/e/new"); err == nil {
				t.Fatal("it wrote outside")
			}
		}
		cancel()
		_ = swap.Wait()
		if started < 10 {
			t.Errorf("%d of 60 commands started: nothing is tested", started)
		}
	})
}

// Folders that may be written besides the project are scanned as it is.
func TestWriteFolder(t *testing.T) {
	modes(t, func(t *testing.T, mode sandbox.Mode) {
		dir, other := t.TempDir(), t.TempDir()
		write(t, other+"/.git/config", "mine\n")
		write(t, other+"/.env", "zebra")
		write(t, other+"/sub/file", "text")
		s := newSandbox(t, sandbox.Options{Root: dir, Mode: mode, Hide: func(name string) bool { return filepath.Base(name) == ".env" }, Policy: sandbox.Policy{Write: []string{other}}})
		out, _, _ := run(t, s, other, `echo x >sub/file; cat sub/file; echo y >>.git/config; cat .env; true`)
		if b, _ := os.ReadFile(other + "/.git/config"); string(b) != "mine\n" || !strings.HasPrefix(out, "x\n") || strings.Contains(out, "zebra") {
			t.Errorf("%q %q", out, b)
		}
	})
}

// Of the files of this process a command gets those that it is given, wherever numbers clash.
func TestFiles(t *testing.T) {
	modes(t, func(t *testing.T, mode sandbox.Mode) {
		dir := t.TempDir()
		s := newSandbox(t, sandbox.Options{Root: dir, Mode: mode, Policy: sandbox.Policy{Network: []string{"example.invalid"}}})
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		in, feed, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		c := s.Command(t.Context(), []string{"PATH=" + os.Getenv("PATH"), "A=first", "A=last"}, "/bin/bash", "-c", `cat; echo $A; ls /proc/self/fd | wc -l; echo extra >&63; exit 7`)
		c.Dir, c.Stdin, c.Stdout, c.Stderr = dir, in, w, w
		for range 61 {
			c.ExtraFiles = append(c.ExtraFiles, w)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		w.Close()
		if _, err := io.WriteString(feed, "fed\n"); err != nil {
			t.Fatal(err)
		}
		feed.Close()
		out, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		var exit *exec.ExitError
		if err := c.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 7 {
			t.Error(err)
		}
		if string(out) != "fed\nlast\n65\nextra\n" { // and the one by which ls looks
			t.Errorf("%q", out)
		}
		if err := s.Command(t.Context(), nil, "/bin/echo", "a\x00b").Start(); err == nil {
			t.Error("an argument with a NUL was cut")
		}
	})
}

// The limit of descriptors may be low. The test runs in a process of its own.
func TestLowLimit(t *testing.T) {
	modes(t, func(t *testing.T, mode sandbox.Mode) {
		if os.Getenv("SANDBOX_LOW_LIMIT") == "" {
			again(t, "SANDBOX_LOW_LIMIT=1")
			return
		}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 40, Max: 40}); err != nil {
			t.Fatal(err)
		}
		s := newSandbox(t, sandbox.Options{Root: t.TempDir(), Mode: mode, Policy: sandbox.Policy{Network: []string{"example.invalid"}}})
		for range 30 {
			if out, _, err := run(t, s, "/", `echo x`); out != "x\n" || err != nil {
				t.Fatal(out, err)
			}
		}
	})
}

// again runs the current test in a process of its own.
func again(t *testing.T, env string, prefix ...string) {
	t.Helper()
	parts := strings.Split(t.Name(), "/")
	args := slices.Concat(prefix, []string{os.Args[0], "-test.run", "^" + strings.Join(parts, "$/^") + "$", "-test.v", "-test.timeout=2m"})
	c := exec.CommandContext(t.Context(), args[0], args[1:]...) //nolint:gosec // this program
	c.Env = append(os.Environ(), env)
	out, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) && len(prefix) == 0 {
		t.Errorf("%v: %s", err, out)
	}
}

// A command is told to end, and killed if it does not.
func TestCancel(t *testing.T) {
	modes(t, func(t *testing.T, mode sandbox.Mode) {
		dir := t.TempDir()
		s := newSandbox(t, sandbox.Options{Root: dir, Mode: mode})
		for script, want := range map[string]string{
			`trap 'echo told; exit 3' TERM; echo ready; while :; do sleep 0.05; done`:                            "told",
			`trap '' TERM; echo ready; while :; do sleep 0.05; done`:                                             "",
			`(setsid bash -c 'trap "" TERM; sleep 300' &); trap '' TERM; echo ready; cat <>/dev/zero >/dev/null`: "",
		} {
			ctx, cancel := context.WithCancel(t.Context())
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			c := s.Command(ctx, []string{"PATH=" + os.Getenv("PATH")}, "/bin/bash", "-c", script)
			c.Dir, c.Stdout = dir, w
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			w.Close()
			lines := bufio.NewReader(r)
			if line, err := lines.ReadString('\n'); line != "ready\n" {
				t.Fatal(line, err)
			}
			start := time.Now()
			cancel()
			if err := c.Wait(); err == nil {
				t.Error("it succeeded")
			}
			if d := time.Since(start); want == "" && (d < procgroup.Grace || d > faults.Bound(10*procgroup.Grace)) {
				t.Errorf("it was killed after %v", d)
			}
			rest, err := io.ReadAll(lines) // until nobody holds the pipe
			if strings.TrimSpace(string(rest)) != want || err != nil {
				t.Errorf("%q, %v, want %q", rest, err, want)
			}
			r.Close()
		}
	})
}

// alive are the processes with a word in their command line.
func alive(word string) []string {
	var out []string
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), word) {
			out = append(out, strings.ReplaceAll(string(b), "\x00", " "))
		}
	}
	return out
}

// daemons is a script that leaves processes in every way that there is, each with a word in its command line.
func daemons(word string) string {
	return `d() { echo "exec 0</dev/null 1>/dev/null 2>&1; trap '' TERM HUP INT; while :; do sleep 1; done; : ` + word + `"; }
		bash -c "$(d)" & setsid bash -c "$(d)" & (setsid bash -c "$(d)" &) ; (env -i /bin/setsid /bin/bash -c "$(d)" &) ; nohup bash -c "$(d)" & `
}

func wait(t *testing.T, what string, done func() bool) {
	t.Helper()
	for range 2000 {
		if done() {
			return
		}
		time.Sleep(5 * time.Millisecond) // a process of somebody else's cannot be waited for
	}
	t.Errorf("%s does not happen", what)
}

// Nothing outlives a command.
func TestDaemons(t *testing.T) {
	modes(t, func(t *testing.T, mode sandbox.Mode) {
		s := newSandbox(t, sandbox.Options{Root: t.TempDir(), Mode: mode})
		word := "word" + rand.Text()
		if out, _, err := run(t, s, "/", daemons(word)+` sleep 0.3`); err != nil {
			t.Fatal(out, err)
		}
		if left := alive(word); len(left) > 0 {
			t.Errorf("%d: %q", len(left), left)
		}
	})
}

// Nothing outlives the program that started a command, however that ends.
func TestKilledParent(t *testing.T) {
	modes(t, func(t *testing.T, mode sandbox.Mode) {
		if word := os.Getenv("SANDBOX_PARENT"); word != "" {
			s := newSandbox(t, sandbox.Options{Root: t.TempDir(), Mode: mode, Temp: os.Getenv("SANDBOX_TEMP")})
			_, _, _ = run(t, s, "/", daemons(word)+` : main; while :; do sleep 1; done`)
			return
		}
		word := "word" + rand.Text()
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestKilledParent$/^"+string(mode)+"$")
		c.Env = append(os.Environ(), "SANDBOX_PARENT="+word, "SANDBOX_TEMP="+t.TempDir(), "TMPDIR="+t.TempDir())
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		wait(t, "the start of its processes", func() bool { return len(alive(word)) >= 6 })
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = c.Wait() // it was killed
		wait(t, "the end of its processes", func() bool { return len(alive(word)) == 0 })
		for _, left := range alive(word) {
			t.Error(left)
		}
	})
}

// Many at once disturb each other as little as they leave descriptors.
func TestParallel(t *testing.T) {
	modes(t, func(t *testing.T, mode sandbox.Mode) {
		dir := t.TempDir()
		write(t, dir+"/sub/file", "x")
		s := newSandbox(t, sandbox.Options{Root: dir, Mode: mode, Policy: sandbox.Policy{Network: []string{"example.invalid"}}})
		open := func() int {
			all, err := os.ReadDir("/proc/self/fd")
			if err != nil {
				t.Fatal(err)
			}
			return len(all)
		}
		if out, _, err := run(t, s, dir, `true`); err != nil {
			t.Fatal(out, err)
		}
		runtime.GC()
		before := open()
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				if out, _, err := run(t, s, dir, fmt.Sprintf("echo %d >sub/%d; cat sub/%d; exit %d", i, i, i, i%3)); strings.TrimSpace(out) != strconv.Itoa(i) || (err == nil) != (i%3 == 0) {
					t.Error(i, out, err)
				}
			})
		}
		all.Wait()
		if err := s.Command(t.Context(), nil, "/missing").Start(); err == nil {
			t.Error("what is missing was run")
		}
		if after := open(); after > before {
			t.Errorf("%d descriptors, %d before", after, before)
		}
	})
}

// All works without root. The tests run again as somebody else.
func TestUnprivileged(t *testing.T) {
	faults.Unraced(t)
	if os.Getuid() != 0 {
		return // they ran so
	}
	dir, err := os.MkdirTemp("", "sandbox-unprivileged-") //nolint:usetesting // that is below folders that are closed to others
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	self, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile("testdata/bypasses.sh")
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir+"/testdata/bypasses.sh", string(data))
	err = errors.Join(os.WriteFile(dir+"/test", self, 0o755), os.Mkdir(dir+"/tmp", 0o755), os.Chmod(dir+"/tmp", 0o1777), os.Chmod(dir, 0o755)) //nolint:gosec // for others
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-test.v", "-test.skip", "^(TestBypasses.*|TestCost|TestManyFolders)$"}
	if testing.Short() {
		args = append(args, "-test.short")
	}
	c := exec.CommandContext(t.Context(), dir+"/test", args...)
	c.Dir, c.SysProcAttr = dir, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir + "/tmp", "TMPDIR=" + dir + "/tmp", "CI=" + os.Getenv("CI")}
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	for _, mode := range []sandbox.Mode{sandbox.Namespaces, sandbox.Landlock} {
		if !strings.Contains(string(out), "--- PASS: TestFiles/"+string(mode)) {
			t.Logf("SKIPPED: %s does not work without root here", mode)
		}
	}
}

// Hosts that are allowed are reached through the proxy, and others are named.
func TestHosts(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("it needs curl")
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "zebra of ", r.Host) }))
	defer server.Close()
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	modes(t, func(t *testing.T, mode sandbox.Mode) {
		s := newSandbox(t, sandbox.Options{Root: t.TempDir(), Mode: mode})
		curl := func(p sandbox.Policy, args string) (string, []string) {
			t.Helper()
			view, err := s.With(p)
			if err != nil {
				t.Fatal(err)
			}
			out, c, _ := run(t, view, "/", `export NO_PROXY= no_proxy=; curl -sS --max-time 20 `+args)
			return out, c.Refusals()
		}
		for _, host := range []string{"127.0.0.1", "localhost"} {
			for _, how := range []string{"", "-p "} {
				if out, refused := curl(sandbox.Policy{Network: []string{host}}, how+"http://"+host+":"+at.Port()); out != "zebra of "+host+":"+at.Port() || len(refused) > 0 {
					t.Errorf("%s: %q, %q", host, out, refused)
				}
			}
		}
		out, refused := curl(sandbox.Policy{Network: []string{"localhost"}}, server.URL+" http://example.invalid/")
		if strings.Contains(out, "zebra") || !slices.Equal(refused, []string{"it was refused the network host 127.0.0.1:" + at.Port(), "it was refused the network host example.invalid:80"}) {
			t.Errorf("%q, %q", out, refused)
		}
		if out, _ := curl(sandbox.Policy{Network: []string{"localhost"}}, `-x "http://${HTTP_PROXY#*@}" http://localhost:`+at.Port()); strings.Contains(out, "zebra") || !strings.Contains(out, "password") {
			t.Errorf("without a password: %q", out)
		}
		if out, _ := curl(sandbox.Policy{Network: []string{"*"}}, server.URL); !strings.HasPrefix(out, "zebra") {
			t.Errorf("any: %q", out)
		}
		if out, _ := curl(sandbox.Policy{}, server.URL); strings.Contains(out, "zebra") {
			t.Errorf("none: %q", out)
		}
	})
}

// A tunnel ends with its command, also where the other end keeps it open.
func TestTunnelEnds(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conns := make(chan net.Conn, 10)
	var all sync.WaitGroup
	defer all.Wait()
	defer l.Close()
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns <- c
		}
	})
	modes(t, func(t *testing.T, mode sandbox.Mode) {
		s := newSandbox(t, sandbox.Options{Root: t.TempDir(), Mode: mode, Policy: sandbox.Policy{Network: []string{"127.0.0.1"}}})
		_, port, _ := net.SplitHostPort(l.Addr().String())
		out, _, _ := run(t, s, "/", `p=${HTTP_PROXY#http://}; exec 5<>/dev/tcp/127.0.0.1/${p##*:}; printf 'CONNECT 127.0.0.1:`+port+` HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Basic %s\r\n\r\n' "$(printf %s "${p%@*}" | base64 -w0)" >&5; read -r line <&5; echo "$line"`)
		if !strings.Contains(out, "200") {
			t.Fatal(out)
		}
		c := <-conns
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		if _, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("it is still open")
		}
	})
}

// Only the proxy is reached, whatever listens on its port elsewhere.
func TestPortOfProxy(t *testing.T) {
	modes(t, func(t *testing.T, mode sandbox.Mode) {
		s := newSandbox(t, sandbox.Options{Root: t.TempDir(), Mode: mode, Policy: sandbox.Policy{Network: []string{"example.invalid"}}})
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		stdin, tell, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer stdin.Close()
		defer tell.Close()
		c := s.Command(t.Context(), []string{"PATH=" + os.Getenv("PATH")}, "/bin/bash", "-c", `p=${HTTP_PROXY##*:}; echo $p; read go; for a in 127.0.0.2 0.0.0.0 ::1 ::ffff:127.0.0.2; do (echo zebra >/dev/tcp/$a/$p) 2>/dev/null; done; exec 3<>/dev/tcp/127.0.0.1/$p && echo reached`)
		c.Dir, c.Stdin, c.Stdout = "/", stdin, w
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		w.Close()
		lines := bufio.NewReader(r)
		port, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		heard := make(chan struct{}, 9)
		for _, a := range []string{"127.0.0.2", "::1"} {
			l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort(a, strings.TrimSpace(port)))
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					c.Close()
					heard <- struct{}{}
				}
			}()
		}
		if _, err := io.WriteString(tell, "go\n"); err != nil {
			t.Fatal(err)
		}
		rest, err := io.ReadAll(lines)
		if err != nil {
			t.Fatal(err)
		}
		out := string(rest)
		_ = c.Wait()
		if len(heard) > 0 || out != "reached\n" {
			t.Errorf("%d connections past the proxy; %q", len(heard), out)
		}
	})
}

// What builds, archives and checkouts do with modes and times of files works where files may be written.
func TestAttributes(t *testing.T) {
	faults.Unraced(t)
	modes(t, func(t *testing.T, mode sandbox.Mode) {
		for name, script := range map[string]string{
			"chmod":       `echo 'echo ran' >x; chmod +x x; ./x; chmod 640 x; stat -c %a x; chmod 700 .; stat -c %a .`,
			"top":         `chmod 750 ../top; stat -c %a ../top`,
			"through":     `echo x >x; ln -s x l; ln -s "$PWD" d; chmod 600 l; stat -c %a x; chmod 640 d/x; stat -c %a x; touch -hd @5 l; stat -c %Y l`,
			"special":     `echo x >x; chmod 6755 x; stat -c %a x; mkdir d; chmod 1777 d; stat -c %a d`,
			"cp":          `echo x >x; chmod 750 x; touch -d @1000000000.123456789 x; cp -p x y; stat -c '%a %.9Y' y; cp -a x z; stat -c '%a %.9Y' z; install -m 711 x i; stat -c %a i`,
			"tar":         `mkdir d; echo x >d/x; chmod 751 d/x; touch -d @7 d/x d; chmod 750 d; tar -cf x.tar d; rm -r d; tar -xpf x.tar; stat -c '%a %Y' d/x d`,
			"git":         `git init -q "$TMPDIR/r"; cd "$TMPDIR/r"; echo 'echo ran' >x; chmod +x x; git add x; git -c user.name=x -c user.email=x@x commit -qm x; rm x; git checkout -q x; ./x; rm -rf "$TMPDIR/r"`,
			"go":          `printf 'module m\n' >go.mod; printf 'package m\nfunc F() {}\n' >m.go; GOTOOLCHAIN=local go build -o m.a . && stat -c %a m.a`,
			"cache":       `mkdir -p "$XDG_CACHE_HOME"; echo x >"$XDG_CACHE_HOME/x"; chmod 751 "$XDG_CACHE_HOME/x"; stat -c %a "$XDG_CACHE_HOME/x"`,
			"descriptors": `perl -e 'open F,">","x"; chmod 0751,*F or die "a"; utime(5,6,*F) or die "b"; chown -1,-1,*F or die "c"; utime(undef,undef,"x") or die "d"; unlink "x"; chmod 0700,*F or die "e"; print "done\n"'; echo x >x; perl -e 'open F,"x"; chmod 0711,"/proc/self/fd/".fileno(F) or die'; stat -c %a x`,
			"errors":      `LC_ALL=C; for p in missing top/x ''; do chmod 600 "$p" 2>&1 | sed 's/.*: //'; done; ln -s l l; chmod 600 l 2>&1 | sed 's/.*: //'; touch -cd @5 missing && echo quiet`,
			"threads": `perl -e 'for (1..8) { fork or do { for (1..200) { open F,">","x$$"; chmod 0700,"x$$" or die; chmod 0600,*F or die } exit } } 1 while wait>0; print "done\n"'
				if command -v python3 >/dev/null; then python3 -c 'import os,threading
def f(): g=open("y","w"); os.fchmod(g.fileno(),0o711); os.chmod("y",0o700,dir_fd=os.open(".",os.O_PATH)); print("in a thread")
t=threading.Thread(target=f); t.start(); t.join()'; else echo in a thread; fi`,
			"owners": `echo x >x; chown "$(id -u):$(id -g)" x && echo same; chown 4711 x 2>/dev/null || echo refused`,
		} {
			t.Run(name, func(t *testing.T) {
				dir, cache := t.TempDir(), t.TempDir()
				write(t, dir+"/top", "x")
				if err := os.Mkdir(dir+"/sub", 0o755); err != nil { //nolint:gosec // for nobody
					t.Fatal(err)
				}
				s := newSandbox(t, sandbox.Options{Root: dir, Cache: cache, Mode: mode})
				out, _, err := run(t, s, dir+"/sub", "umask 022; "+script)
				want := map[string]string{
					"chmod": "ran 640 700", "top": "750", "through": "600 640 5", "special": "755 777", "cp": "750 1000000000.123456789 750 1000000000.123456789 711", "tar": "751 7 750 7",
					"git": "ran", "go": "644", "cache": "751", "descriptors": "done 711", "threads": "done in a thread", "owners": "same refused",
					"errors": "No such file or directory No such file or directory No such file or directory Too many levels of symbolic links quiet",
				}[name]
				if mode == sandbox.Namespaces && name == "special" {
					want = "6755 1777"
				}
				if got := strings.Join(strings.Fields(out), " "); got != want || err != nil {
					t.Errorf("%q, %v, want %q", got, err, want)
				}
			})
		}
	})
}
