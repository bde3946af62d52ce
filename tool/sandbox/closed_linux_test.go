//go:build linux && (amd64 || arm64)

package sandbox_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/tool/sandbox"
)

// A victim is a project with a secret and a repository, whose user works in it with Git.
type victim struct {
	dir, cache string
	mode       sandbox.Mode
	s          *sandbox.Sandbox
}

const zebra = "zebra-7788"

var secretFiles = []string{".env", "conf/.env", "conf/deep/.env"}

func isSecret(name string) bool { return strings.HasPrefix(filepath.Base(name), ".env") }

func isProtected(name string) bool {
	switch filepath.Base(name) {
	case ".vscode", ".mcp.json", ".husky", ".envrc", ".claude":
		return true
	}
	return false
}

func newVictim(t *testing.T, mode sandbox.Mode) *victim {
	t.Helper()
	v := &victim{dir: t.TempDir(), cache: t.TempDir(), mode: mode}
	v.git(t, "init", "-q")
	v.git(t, "config", "user.name", "ada")
	v.git(t, "config", "user.email", "ada@example.org")
	for _, name := range secretFiles {
		write(t, filepath.Join(v.dir, name), "KEY="+zebra+"\n")
	}
	write(t, v.dir+"/.gitignore", ".env\n*.refused-*\n")
	write(t, v.dir+"/hk", "#!/bin/sh\necho ran >\"$PWD/ran\"\n")
	write(t, v.dir+"/sub/.vscode/tasks.json", "mine\n")
	if err := os.Chmod(v.dir+"/hk", 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	v.git(t, "add", "-A")
	v.git(t, "commit", "-qm", "one")
	v.open(t)
	t.Cleanup(func() { _ = exec.CommandContext(t.Context(), "chmod", "-R", "u+rwx", v.dir).Run() })
	return v
}

// open gives the project a sandbox as a new process has.
func (v *victim) open(t *testing.T) {
	v.s = newSandbox(t, sandbox.Options{Root: v.dir, Cache: v.cache, Mode: v.mode, Hide: isSecret, Protect: isProtected, Masks: []string{".vscode", ".husky", ".claude"}})
}

// git is what the user does.
func (v *victim) git(t *testing.T, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), "git", args...)
	c.Dir = v.dir
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("git %s: %v: %s", args, err, out)
	}
	return string(out)
}

// do runs a command, which may be refused.
func (v *victim) do(t *testing.T, script string) (string, []string, error) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := v.s.Command(t.Context(), []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, "/bin/bash", "-c", script)
	c.Dir, c.Stdout, c.Stderr = v.dir, w, w
	err = c.Start()
	w.Close()
	if err != nil {
		return "", nil, err
	}
	var out strings.Builder
	var read sync.WaitGroup
	read.Go(func() {
		b := make([]byte, 4096)
		for {
			n, err := r.Read(b)
			out.Write(b[:n])
			if err != nil {
				return
			}
		}
	})
	err = c.Wait()
	read.Wait()
	return out.String(), c.Refusals(), err
}

// check has the user work on, and looks for what must not be.
func (v *victim) check(t *testing.T, said string, err error) {
	t.Helper()
	if strings.Contains(said, zebra) {
		t.Errorf("a secret was read: %s", said)
	}
	var closed *sandbox.ClosedError
	_ = exec.CommandContext(t.Context(), "chmod", "-R", "u+rwx", v.dir).Run() // what the user may do when asked to
	v.git(t, "status")
	write(t, v.dir+"/work", time.Now().String())
	v.git(t, "add", "work")
	v.git(t, "commit", "-qm", "two")
	if _, e := os.Lstat(v.dir + "/ran"); e == nil {
		t.Error("a program of the command ran outside")
	}
	if !errors.As(err, &closed) {
		_ = filepath.WalkDir(v.dir, func(path string, d os.DirEntry, _ error) error {
			if d != nil && d.Name() == "node_modules" {
				return filepath.SkipDir
			}
			if isProtected(path) && path != v.dir+"/sub/.vscode" {
				t.Errorf("%s is in place, and nobody was told: %v", path, err)
			}
			return nil
		})
	}
	if b, e := os.ReadFile(v.dir + "/.git/config"); e != nil || !strings.Contains(string(b), "ada") || strings.Contains(string(b), "hk") {
		t.Errorf("the user's configuration is %q, %v", b, e)
	}
	if b, e := os.ReadFile(v.dir + "/sub/.vscode/tasks.json"); e != nil || string(b) != "mine\n" {
		t.Errorf("the user's tasks are %q, %v", b, e)
	}
}

// A harmless change of a mode takes nothing of the user's away.
func TestHarmlessChmod(t *testing.T) {
	modes(t, func(t *testing.T, mode sandbox.Mode) {
		v := newVictim(t, mode)
		if _, _, err := v.do(t, `chmod 300 .`); err != nil {
			t.Error(err)
		}
		_, _, err := v.do(t, `chmod 755 .`)
		if os.Getuid() != 0 && (err == nil || !strings.Contains(err.Error(), "chmod u+rwx")) {
			t.Errorf("a folder that cannot be listed: %v", err)
		}
		v.check(t, "", nil)
	})
}

// What cannot be moved aside closes the sandbox for all further commands, also for those of other processes, until it is gone.
func TestFailsClosed(t *testing.T) {
	modes(t, func(t *testing.T, mode sandbox.Mode) {
		if os.Getuid() != 0 {
			t.Skip("only root makes a folder that its owner cannot change")
		}
		v := newVictim(t, mode)
		if err := os.Mkdir(v.dir+"/in", 0o755); err != nil { //nolint:gosec // a folder
			t.Fatal(err)
		}
		frozen := false
		freeze := func(on int) {
			f, err := os.Open(v.dir + "/in")
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, on); err == nil && on != 0 {
				frozen = true
			}
		}
		v.s = newSandbox(t, sandbox.Options{Root: v.dir, Cache: v.cache, Mode: mode, Protect: func(name string) bool {
			if name == v.dir+"/in/.vscode" && !frozen {
				freeze(0x10) // immutable, between the look and the renaming
			}
			return isProtected(name)
		}})
		_, _, err := v.do(t, `mkdir in/.vscode`)
		defer freeze(0)
		if !frozen {
			t.Skip("this file system has no immutable folders")
		}
		var closed *sandbox.ClosedError
		if !errors.As(err, &closed) || !strings.Contains(err.Error(), v.dir+"/in/.vscode") || !strings.Contains(err.Error(), "rm -r") {
			t.Fatalf("got %v", err)
		}
		if _, _, err := v.do(t, `true`); !errors.As(err, &closed) {
			t.Errorf("the next command: %v", err)
		}
		v.open(t)
		if _, _, err := v.do(t, `true`); !errors.As(err, &closed) {
			t.Errorf("the next process: %v", err)
		}
		freeze(0)
		if err := os.RemoveAll(v.dir + "/in/.vscode"); err != nil {
			t.Fatal(err)
		}
		v.open(t)
		if _, _, err := v.do(t, `true`); err != nil {
			t.Errorf("after it was removed: %v", err)
		}
	})
}

// Names that are missing are masked while a command runs, and Git shows nothing of it then or later.
func TestMasks(t *testing.T) {
	v := newVictim(t, sandbox.Namespaces)
	before := v.git(t, "status", "--porcelain", "--ignored")
	done := make(chan string)
	go func() {
		out, _, _ := v.do(t, `git status --porcelain; mkdir .vscode; touch .vscode/x; mkdir n; mkdir n/.vscode; sleep 1; ls -a`)
		done <- out
	}()
	time.Sleep(500 * time.Millisecond) // it runs
	if during := v.git(t, "status", "--porcelain", "--ignored"); during != before {
		t.Errorf("while it runs: %q, before %q", during, before)
	}
	out := <-done
	if !strings.Contains(out, "Read-only file system") || strings.Contains(out, "??") {
		t.Error(out)
	}
	for _, name := range []string{".vscode", ".claude", "n/.vscode"} {
		if _, err := os.Lstat(filepath.Join(v.dir, name)); err == nil {
			t.Errorf("%s is left", name)
		}
	}
}

// A user's own folder that is made where a mask is stays.
func TestMaskOfUsers(t *testing.T) {
	v := newVictim(t, sandbox.Namespaces)
	done := make(chan error)
	go func() {
		_, refusals, err := v.do(t, `sleep 1`)
		done <- errors.Join(err, errors.New(strings.Join(refusals, "; ")))
	}()
	time.Sleep(500 * time.Millisecond) // it runs
	write(t, v.dir+"/.vscode/settings.json", "mine\n")
	if err := <-done; err.Error() != "" {
		t.Error(err)
	}
	if b, err := os.ReadFile(v.dir + "/.vscode/settings.json"); err != nil || string(b) != "mine\n" {
		t.Errorf("%q, %v", b, err)
	}
}

// What Git executes besides its hooks is read-only, and moved aside when it is new.
func TestGitExecutes(t *testing.T) {
	modes(t, func(t *testing.T, mode sandbox.Mode) {
		for name, c := range map[string]struct{ before, command, after string }{
			"hooks path":        {`git config core.hooksPath tools/hooks; mkdir -p tools/hooks; echo true >tools/hooks/pre-commit; chmod +x tools/hooks/pre-commit`, `cp hk tools/hooks/pre-commit; cp hk tools/hooks/post-commit`, `git commit -q --allow-empty -m x`},
			"new hooks path":    {`git config core.hooksPath tools/hooks`, `mkdir -p tools/hooks; cp hk tools/hooks/post-commit`, `git commit -q --allow-empty -m x`},
			"bare":              {``, `mkdir -p docs; cd docs; mkdir objects refs; echo 'ref: refs/heads/main' >HEAD; printf '[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\tfsmonitor = ../hk\n' >config`, `cd docs; git status`},
			"bare, links":       {``, `mkdir -p docs o r; ln -s ../o docs/objects; ln -s ../r docs/refs; echo 'ref: refs/heads/main' >docs/HEAD; printf '[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\tfsmonitor = ../hk\n' >docs/config`, `cd docs; git status`},
			"bare, files":       {``, `mkdir -p docs; touch docs/objects docs/refs; chmod 755 docs/objects docs/refs; echo 'ref: refs/heads/main' >docs/HEAD; printf '[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\tfsmonitor = ../hk\n' >docs/config`, `cd docs; git status`},
			"bare, of another":  {``, `mkdir -p docs cm/objects cm/refs; echo 'ref: refs/heads/main' >docs/HEAD; echo ../cm >docs/commondir; printf '[core]\n\tpager = ../hk\n' >cm/config`, `test ! -e docs/commondir || touch ran`},
			"included":          {`git config include.path ../git.cfg; touch git.cfg`, `printf '[core]\n\tfsmonitor = ./hk\n' >git.cfg`, `git status`},
			"new included":      {`git config include.path ../cfg/git.cfg`, `mkdir -p cfg; printf '[core]\n\tfsmonitor = ./hk\n' >cfg/git.cfg`, `git status`},
			"program":           {`mkdir bin; echo 'exit 1' >bin/fs; chmod +x bin/fs; git config core.fsmonitor bin/fs`, `cp hk bin/fs`, `git status`},
			"program in $PWD":   {`mkdir bin; echo 'exit 1' >bin/fs; chmod +x bin/fs; git config core.fsmonitor '"$PWD"/bin/fs'`, `cp hk bin/fs`, `git status`},
			"program of Git":    {`mkdir bin; echo 'exit 1' >bin/fs; chmod +x bin/fs; git config core.fsmonitor '$(git rev-parse --show-toplevel)/bin/fs'`, `cp hk bin/fs`, `git status`},
			"program in folder": {`mkdir bin; echo 'exit 1' >bin/fs; chmod +x bin/fs; git config core.fsmonitor 'cd bin && ./fs'`, `cp hk bin/fs`, `git status`},
			"program on PATH":   {`mkdir bin; git config core.fsmonitor 'PATH=bin:$PATH fs'`, `cp hk bin/fs`, `git status`},
			"linked hook":       {`mkdir tools; echo true >tools/pc; chmod +x tools/pc; ln -s ../../tools/pc .git/hooks/post-commit`, `cp hk tools/pc`, `git commit -q --allow-empty -m x`},
			"todo":              {`git branch other; git commit -q --allow-empty -m b; git checkout -q other; git commit -q --allow-empty -m c`, `git rebase -q -i master --exec "$PWD/hk; false"; mkdir -p .git/rebase-merge; echo "exec $PWD/hk" >>.git/rebase-merge/git-rebase-todo`, `git rebase --continue; true`},
			"sequencer":         {``, `mkdir .git/sequencer; echo "exec $PWD/hk" >.git/sequencer/todo`, `git cherry-pick --continue`},
		} {
			t.Run(name, func(t *testing.T) {
				v := newVictim(t, mode)
				user := func(script string) string {
					c := exec.CommandContext(t.Context(), "/bin/bash", "-c", script)
					c.Dir, c.Env = v.dir, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_EDITOR=true")
					out, _ := c.CombinedOutput()
					return string(out)
				}
				said := user(c.before)
				out, refusals, err := v.do(t, c.command)
				said += user(c.after)
				ran, _ := filepath.Glob(v.dir + "/*/ran")
				if _, e := os.Lstat(v.dir + "/ran"); e == nil || len(ran) > 0 {
					t.Errorf("a program of the command ran outside; %s, %s, %q, %v", said, out, refusals, err)
				}
			})
		}
	})
}

// The user's environment may name another configuration of Git.
func TestGitConfigGlobal(t *testing.T) {
	modes(t, func(t *testing.T, mode sandbox.Mode) {
		v := newVictim(t, mode)
		config := filepath.Join(t.TempDir(), "config")
		write(t, config, "[core]\n\thooksPath = far/hooks\n")
		write(t, v.dir+"/far/file", "x")
		s, err := sandbox.New(&sandbox.Options{Root: v.dir, Cache: v.cache, Mode: mode, Environ: append(os.Environ(), "GIT_CONFIG_GLOBAL="+config)})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		out, c, err := run(t, s, v.dir, `mkdir far/hooks && cp hk far/hooks/post-commit`)
		if _, e := os.Lstat(v.dir + "/far/hooks"); e == nil || err != nil {
			t.Errorf("it is in place: %s, %q, %v", out, c.Refusals(), err)
		}
	})
}

// Commands see a repository's configuration without its credentials.
func TestGitCredentials(t *testing.T) {
	modes(t, func(t *testing.T, mode sandbox.Mode) {
		v := newVictim(t, mode)
		v.git(t, "config", "http.https://github.com/.extraheader", "AUTHORIZATION: basic "+zebra)
		v.git(t, "remote", "add", "origin", "https://x:"+zebra+"@github.com/a/b")
		out, _, _ := v.do(t, `git config --list; cat .git/config; git remote -v`)
		if strings.Contains(out, zebra) {
			t.Error(out)
		}
		if mode == sandbox.Namespaces && !strings.Contains(out, "https://github.com/a/b") {
			t.Errorf("the rest is gone: %s", out)
		}
		v.check(t, out, nil)
	})
}

// A million folders are looked through in time.
func TestManyFolders(t *testing.T) {
	v := newVictim(t, sandbox.Namespaces)
	start, outer := time.Now(), faults.N(1000)
	_, refusals, err := v.do(t, fmt.Sprintf(`mkdir d; cd d; for i in {1..%d}; do mkdir $i; (cd $i; mkdir {1..1000}); done; mkdir 1/777/.vscode`, outer))
	took := time.Since(start)
	if _, e := os.Lstat(v.dir + "/d/1/777/.vscode"); e == nil && err == nil {
		t.Error("it is in place")
	}
	start = time.Now()
	_, _, err2 := v.do(t, `true`)
	faults.Report(t, "many folders", "sandbox", outer*1000, start, "made in %v: %q, %v; the next command: %v", took.Round(time.Second), refusals, err, err2)
}

// Nothing that a command marks is hidden from the status that the user reads.
func TestIndexMarks(t *testing.T) {
	modes(t, func(t *testing.T, mode sandbox.Mode) {
		for _, version := range []string{"2", "4"} {
			v := newVictim(t, mode)
			for _, name := range []string{"a/b.go", "abc/long name.go", "z"} {
				write(t, filepath.Join(v.dir, name), "x")
			}
			v.git(t, "add", "-A")
			v.git(t, "commit", "-qm", "more")
			v.git(t, "update-index", "--index-version", version)
			v.git(t, "update-index", "--assume-unchanged", "z")
			out, refusals, err := v.do(t, `git update-index --assume-unchanged hk; git update-index --skip-worktree "abc/long name.go"; echo evil >>hk; echo evil >>"abc/long name.go"`)
			status := v.git(t, "status", "--porcelain")
			if mode == sandbox.Landlock { // Git cannot write its index
				continue
			}
			if !strings.Contains(status, " M hk") || !strings.Contains(status, "long name.go") || !strings.Contains(strings.Join(refusals, "; "), "it marked") {
				t.Errorf("version %s: %q, %q, %s, %v", version, status, refusals, out, err)
			}
			if list := v.git(t, "ls-files", "-v"); !strings.Contains(list, "h z") {
				t.Errorf("the user's own mark is gone: %s", list)
			}
			v.git(t, "fsck")
		}
	})
}

// What was there before a command is never moved, whatever the command points at it: only what it made itself is.
func TestMovesOnlyItsOwn(t *testing.T) {
	modes(t, func(t *testing.T, mode sandbox.Mode) {
		for name, script := range map[string]string{
			"link to a secret":       `ln -s ../conf/.env sub/.envrc`,
			"link to the repository": `ln -s ../.git sub/.claude; ln -s ../../.git sub/in/.git`,
			"link to a folder":       `ln -s ../src sub/.husky; ln -s .husky sub/.claude; ln -s ../.git/info .git/worktrees; ln -s ../src .git/modules`,
			"links in a repository":  `mkdir -p sub/.git/hooks; ln -s ../../../src/a sub/.git/hooks/pre-commit; ln -s ../../src sub/.git/info; ln -s ../../src sub/.git/config`,
			"configuration":          `mkdir sub/.git; printf '[core]\n\thooksPath = in\n\tfsmonitor = ../src/a\n[include]\n\tpath = ../../src/a\n' >sub/.git/config`,
			"user's configuration":   `git init -q sub; rm -rf sub/.git/hooks; git init -q --bare sub/in; mkdir -p new/.git new/myhooks; touch new/.git/HEAD new/myhooks/pre-commit`,
			"bare repository":        `touch docs/HEAD docs/objects docs/refs; mkdir -p src/objects src/refs`,
		} {
			t.Run(name, func(t *testing.T) {
				v := newVictim(t, mode)
				for _, file := range []string{"src/a", "sub/in/b", "sub/myhooks/pre-commit", "docs/config", "docs/hooks/x", "docs/info/x", "src/HEAD", "src/config", "new/x"} {
					write(t, filepath.Join(v.dir, file), "mine\n")
				}
				home := t.TempDir()
				write(t, home+"/.gitconfig", "[core]\n\thooksPath = myhooks\n")
				v.s = newSandbox(t, sandbox.Options{Root: v.dir, Cache: v.cache, Mode: mode, Home: home, Hide: isSecret, Protect: isProtected})
				v.git(t, "add", "-A")
				v.git(t, "commit", "-qm", "files")
				before := everything(t, v.dir)
				out, refusals, err := v.do(t, script)
				after := everything(t, v.dir)
				for name, text := range before {
					if after[name] != text {
						t.Errorf("%s is not what it was: %q, %s, %q, %v", name, after[name], out, refusals, err)
					}
				}
				v.check(t, out, err)
			})
		}
	})
}

// everything returns the contents of the files of a project, and those that decide what its repository does.
func everything(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if rel, _ := filepath.Rel(dir, path); err != nil || !d.Type().IsRegular() || strings.HasPrefix(rel, ".git/") && !strings.HasPrefix(rel, ".git/info/") && rel != ".git/config" && rel != ".git/HEAD" {
			return err
		}
		b, err := os.ReadFile(path)
		all[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// An index that a command has put together hides no change, and leads Git into no repository that is not looked at.
func TestForgedIndex(t *testing.T) {
	const begin = `export GIT_INDEX_FILE=$TMPDIR/i; cp .git/index $TMPDIR/i; `
	modes(t, func(t *testing.T, mode sandbox.Mode) {
		for name, c := range map[string]struct{ script, status string }{
			"forged times": {begin + `old=$(git rev-parse HEAD:hk); echo evil >>hk; touch -d @1000000000 hk; git update-index hk; new=$(git rev-parse :hk); pwd
				at=$(LC_ALL=C grep -obUaP "$(sed 's/../\\x&/g' <<<$new)" $TMPDIR/i | head -1 | cut -d: -f1)
				put() { printf "$(sed 's/../\\x&/g' <<<$1)" | dd of=$TMPDIR/i bs=1 seek=$2 conv=notrunc status=none; }
				put $old $at; size=$(($(stat -c %s $TMPDIR/i) - 20)); put $(head -c $size $TMPDIR/i | sha1sum | cut -c-40) $size; cat $TMPDIR/i >.git/index
				git diff --quiet HEAD && echo forged`, " M hk"},
			"untracked cache": {begin + `git update-index --force-untracked-cache; echo x >far/new; git status -s >/dev/null; cat $TMPDIR/i >.git/index; grep -q UNTR $TMPDIR/i && echo forged`, "?? far/new"},
			"split":           {begin + `git update-index --split-index; cp .git/index $TMPDIR/i; cp $TMPDIR/sharedindex.* .git/objects/ 2>/dev/null; printf 'DIRC\0\0\0\11' | dd of=.git/index conv=notrunc status=none; echo forged`, ""},
			"gitlink": {begin + `R=$PWD; git init -q far/node_modules/r; cd far/node_modules/r; GIT_INDEX_FILE= git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x; H=$(git rev-parse HEAD)
				git config core.fsmonitor "touch $R/ran"; cd ../../..; git update-index --add --cacheinfo 160000,$H,far/node_modules/r; git update-index --force-remove hk; cat $TMPDIR/i >.git/index; echo forged`, "D  hk"},
		} {
			for _, version := range []string{"2", "4"} {
				t.Run(name+" "+version, func(t *testing.T) {
					v := newVictim(t, mode)
					write(t, v.dir+"/far/file", "x")
					v.git(t, "add", "-A")
					v.git(t, "commit", "-qm", "more")
					v.git(t, "update-index", "--index-version", version)
					out, refusals, err := v.do(t, c.script)
					if err != nil || !strings.Contains(out, "forged") {
						t.Fatalf("the attack does not work: %s, %v", out, err)
					}
					if c.status == "" {
						if !strings.Contains(strings.Join(refusals, "; "), "rm .git/index") {
							t.Errorf("%q", refusals)
						}
						return
					}
					if status := v.git(t, "status", "--porcelain", "-uall"); !strings.Contains(status, c.status) {
						t.Errorf("%q, %q", status, refusals)
					}
					if b, err := os.ReadFile(v.dir + "/.git/index"); err != nil || bytes.Contains(b, []byte("UNTR")) || bytes.Contains(b, []byte("far/node_modules")) {
						t.Errorf("%q, %v", b, err)
					}
					v.git(t, "fsck")
					v.check(t, out, err)
				})
			}
		}
	})
}

// What a protected link leads to is protected, with all links on the way, wherever commands may write.
func TestBehindLinks(t *testing.T) {
	modes(t, func(t *testing.T, mode sandbox.Mode) {
		for name, c := range map[string]struct{ before, command string }{
			"in a folder":         {`mkdir sub/in; echo mine >real/x; ln -s ../../real/x sub/.vscode/x; ln -s ../../real/deep sub/.vscode/deep`, `echo evil >real/x; echo evil >real/deep/x; mv real r; rm -rf real`},
			"missing":             {`ln -s ../../real/new sub/.vscode/x`, `echo evil >real/new`},
			"folder on the way":   {`ln -s real scripts; echo mine >real/x; ln -s ../scripts/x sub/.envrc`, `rm scripts; ln -s tools scripts; rm scripts; ln -s $XDG_CACHE_HOME scripts`},
			"file on the way":     {`echo mine >real/x; ln -s real/x far/m; ln -sf ../real/x far/m; ln -s ../../far/m sub/.vscode/x`, `ln -sf ../tools/x far/m`},
			"in place of a link":  {`ln -s ../real far/scripts; echo mine >real/x; ln -s ../far/scripts/x sub/.envrc`, `rm far/scripts; mkdir far/scripts; echo evil >far/scripts/x`},
			"over a folder":       {`echo mine >real/x; ln -s ../real far/scripts; ln -s ../far/scripts/../real/x sub/.envrc`, `echo evil >real/x; rm far/scripts; mkdir -p tools/real tools/y; cp tools/x tools/real/x; ln -s ../tools/y far/scripts`},
			"in another folder":   {`echo mine >$W/x; ln -s $W/x sub/.vscode/x; mkdir $W/d; echo mine >$W/d/x; ln -s $W/d real/d; ln -s ../real/d/x sub/.envrc`, `echo evil >$W/x; echo evil >$W/d/x; mv $W/d $W/e; rm real/d; ln -s ../tools real/d`},
			"through a hook":      {`ln -s real scripts; ln -s ../../scripts/x .git/hooks/x`, `rm scripts; ln -s tools scripts`},
			"through the folder":  {`rm -rf .git/hooks; ln -s ../far/hooks .git/hooks; ln -s ../real far/hooks; echo mine >real/x`, `rm far/hooks; ln -s ../tools far/hooks; echo evil >real/x`},
			"what the user made":  {`ln -s ../../far sub/.vscode/far`, `echo evil >far/x; mkdir far/new; echo evil >far/new/x`},
			"outside, not in use": {`ln -s /usr/bin/env sub/.vscode/env; ln -s / sub/.vscode/all; ln -s ../.. sub/.vscode/top`, `echo mine >tools/mine`},
		} {
			t.Run(name, func(t *testing.T) {
				v := newVictim(t, mode)
				w := t.TempDir()
				write(t, v.dir+"/tools/x", "evil\n")
				write(t, v.dir+"/far/file", "mine\n")
				write(t, v.dir+"/real/deep/file", "mine\n")
				user := func(script string) string {
					c := exec.CommandContext(t.Context(), "/bin/bash", "-c", script)
					c.Dir, c.Env = v.dir, append(os.Environ(), "W="+w)
					out, _ := c.CombinedOutput()
					return string(out)
				}
				said := user(c.before)
				v.s = newSandbox(t, sandbox.Options{Root: v.dir, Cache: v.cache, Mode: mode, Hide: isSecret, Protect: isProtected, Policy: sandbox.Policy{Write: []string{w}}})
				out, refusals, err := v.do(t, "W="+w+"; mkdir -p $XDG_CACHE_HOME; cp tools/x $XDG_CACHE_HOME/x; "+c.command)
				now := user(`cat sub/.vscode/x sub/.vscode/deep/x sub/.vscode/far/x sub/.vscode/far/new/x sub/.envrc .git/hooks/x`)
				if strings.Contains(now, "evil") || err != nil && name == "outside, not in use" {
					t.Errorf("%s; %s, %s, %q, %v", now, said, out, refusals, err)
				}
			})
		}
	})
}
