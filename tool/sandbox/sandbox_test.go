package sandbox_test

import (
	"cmp"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/internal/procgroup"
	"github.com/superstep-dev/superstep/tool/sandbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run runs a command of bash and returns what it printed.
func run(t testing.TB, s *sandbox.Sandbox, dir, script string) (string, *sandbox.Cmd, error) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := s.Command(t.Context(), append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, procgroup.GitSafe()...), "/bin/bash", "-c", script)
	c.Dir, c.Stdout, c.Stderr = dir, w, w
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	out := make(chan string)
	go func() {
		b, _ := io.ReadAll(r) // an error ends it as well
		out <- string(b)
	}()
	err = c.Wait()
	return <-out, c, err
}

// modes are the mechanisms that this system has. It skips, loudly, those that it lacks, which is a failure where
// CI is set.
func modes(t *testing.T, test func(t *testing.T, mode sandbox.Mode)) {
	t.Helper()
	for _, mode := range []sandbox.Mode{sandbox.Namespaces, sandbox.Landlock} {
		t.Run(string(mode), func(t *testing.T) {
			s, err := sandbox.New(&sandbox.Options{Mode: mode, Temp: t.TempDir()})
			if err != nil && os.Getenv("CI") != "" {
				t.Fatal(err)
			}
			if err != nil {
				t.Skipf("SKIPPED: this system cannot confine commands so: %v", err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			test(t, mode)
		})
	}
}

func newSandbox(t testing.TB, o sandbox.Options) *sandbox.Sandbox {
	t.Helper()
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	o.Home, o.Environ = cmp.Or(o.Home, home), os.Environ()
	s, err := sandbox.New(&o)
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

func write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A command sees nothing of the process that started it: neither how it was called nor its environment nor its memory.
func TestInit(t *testing.T) {
	t.Setenv("CANARY_VARIABLE", "zebra-in-the-environment")
	s := newSandbox(t, sandbox.Options{Root: t.TempDir(), Mode: sandbox.Namespaces})
	out, _, _ := run(t, s, "/", `cat /proc/1/cmdline /proc/1/environ; ls /proc/1/fd /proc/1/root; dd if=/proc/1/mem bs=1 count=1; grep VmRSS /proc/1/status; echo end`)
	if strings.Contains(out, "test.") || strings.Contains(out, "zebra") || strings.Contains(out, "1+0 records in") || !strings.Contains(out, "end") {
		t.Error(out)
	}
	t.Log(out)
}

// What is both secret and protected, such as a configuration of direnv, is moved aside like all that is protected when a
// command makes it, although it is hidden from the next.
func TestSecretsAreProtected(t *testing.T) {
	modes(t, func(t *testing.T, mode sandbox.Mode) {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "old", ".envrc"), "secret\n")
		write(t, filepath.Join(dir, "new", "file"), "x\n")
		envrc := func(name string) bool { return filepath.Base(name) == ".envrc" }
		s := newSandbox(t, sandbox.Options{Root: dir, Mode: mode, Protect: envrc, Hide: envrc})
		out, c, _ := run(t, s, dir, `cat old/.envrc; echo evil >old/.envrc; echo evil >new/.envrc; echo end`)
		if strings.Contains(out, "secret") || !strings.Contains(out, "end") {
			t.Error(out)
		}
		if b, err := os.ReadFile(filepath.Join(dir, "old", ".envrc")); err != nil || string(b) != "secret\n" {
			t.Errorf("what was there is %q, %v", b, err)
		}
		if _, err := os.Lstat(filepath.Join(dir, "new", ".envrc")); err == nil {
			t.Errorf("what the command made is in place: %q", c.Refusals())
		}
		if moved, err := filepath.Glob(filepath.Join(dir, "new", ".envrc.refused-*")); len(moved) != 1 || len(c.Refusals()) != 1 {
			t.Errorf("%q, %v, %q", moved, err, c.Refusals())
		}
	})
}

// A file in a folder that is hidden as well is no reason to start nothing.
func TestPrivateTwice(t *testing.T) {
	modes(t, func(t *testing.T, mode sandbox.Mode) {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "data", "db"), "secret\n")
		s := newSandbox(t, sandbox.Options{Root: dir, Mode: mode, Private: []string{filepath.Join(dir, "data"), filepath.Join(dir, "data", "db")}})
		if out, _, _ := run(t, s, dir, `cat data/db; echo end`); strings.Contains(out, "secret") || !strings.Contains(out, "end") {
			t.Error(out)
		}
	})
}

// Git works, although the user's own configuration of it is out of sight.
func TestGit(t *testing.T) {
	modes(t, func(t *testing.T, mode sandbox.Mode) {
		dir, home := t.TempDir(), t.TempDir()
		write(t, filepath.Join(home, ".gitconfig"), "[user]\n\tname = canary\n")
		write(t, filepath.Join(home, ".config", "git", "ignore"), "ignored\n")
		t.Setenv("HOME", home)
		s := newSandbox(t, sandbox.Options{Root: dir, Mode: mode})
		script := `mkdir -p "$TMPDIR/r" && cd "$TMPDIR/r" && git init -q . && touch file ignored && git add . && git -c user.name=x -c user.email=x@x commit -qm first && git log --format=%s && git config --list`
		out, _, err := run(t, s, dir, script)
		if err != nil || !strings.HasPrefix(out[strings.LastIndex(out, "first"):], "first\n") || strings.Contains(out, "user.name=canary") {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// The temporary folder is its user's alone, has a name that nobody can know before, and is gone in the end.
func TestTemporaryFolder(t *testing.T) {
	temp := t.TempDir()
	var names []string
	for range 2 {
		s, err := sandbox.New(&sandbox.Options{Temp: temp})
		if err != nil {
			t.Fatal(err)
		}
		list, err := os.ReadDir(temp)
		if err != nil || len(list) != 1 {
			t.Fatalf("%v, %v", list, err)
		}
		info, err := list[0].Info()
		if err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		names = append(names, list[0].Name())
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if list, err := os.ReadDir(temp); err != nil || len(list) > 0 || names[0] == names[1] {
		t.Errorf("%v is left, %v; the folders were %v", list, err, names)
	}
}

func BenchmarkTrue(b *testing.B) {
	for _, mode := range []sandbox.Mode{sandbox.None, sandbox.Namespaces, sandbox.Landlock} {
		b.Run(string(mode), func(b *testing.B) {
			dir := b.TempDir()
			s := newSandbox(b, sandbox.Options{Root: dir, Mode: mode})
			for b.Loop() {
				c := s.Command(b.Context(), nil, "/bin/true")
				c.Dir = dir
				if err := c.Start(); err != nil {
					b.Fatal(err)
				}
				if err := c.Wait(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A command that prints faster than somebody reads waits.
func TestPipesWait(t *testing.T) {
	modes(t, func(t *testing.T, mode sandbox.Mode) {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "f"), strings.Repeat("x", 8<<20))
		s := newSandbox(t, sandbox.Options{Root: dir, Mode: mode, Temp: t.TempDir()})
		if out, _, err := run(t, s, dir, "cat f"); err != nil || len(out) != 8<<20 {
			t.Errorf("%d bytes: %.200s (%v)", len(out), strings.TrimLeft(out, "x"), err)
		}
	})
}
