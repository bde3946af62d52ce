//go:build unix

package gitwork_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/superstep-dev/superstep/internal/gitwork"
)

// hooks are the names of all hooks of git.
var hooks = strings.Fields(`applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg commit-msg post-commit
	pre-rebase post-checkout post-merge pre-push pre-receive update proc-receive post-receive post-update reference-transaction
	push-to-checkout pre-auto-gc post-rewrite sendemail-validate fsmonitor-watchman post-index-change`)

// hostile returns a repository whose every setting tries to run a program, and the file that the program makes.
func hostile(t *testing.T) (u *user, canary string) {
	t.Helper()
	u = newUser(t)
	canary = filepath.Join(t.TempDir(), "ran")
	evil := filepath.Join(t.TempDir(), "evil")
	writeIn(t, filepath.Dir(evil), "evil", "#!/bin/sh\necho \"$0 $*\" >>'"+canary+"'\ncat\n")
	if err := os.Chmod(evil, 0o755); err != nil {
		t.Fatal(err)
	}
	u.write(".gitattributes", "*.txt filter=evil diff=evil merge=evil\n*.odd filter=a.b=c\n")
	u.write("a.txt", "one\n")
	u.write("b.odd", "one\n")
	u.write("new\nline", "one\n")
	if err := os.Symlink(t.TempDir(), filepath.Join(u.dir, "link")); err != nil {
		t.Fatal(err)
	}
	u.commit("first")
	for _, h := range hooks {
		if err := os.MkdirAll(filepath.Join(u.dir, ".git", "hooks"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(evil, filepath.Join(u.dir, ".git", "hooks", h)); err != nil {
			t.Fatal(err)
		}
	}
	evilConfig := `
[filter "evil"]
	clean = EVIL
	smudge = EVIL
	process = EVIL
	required
[filter "a.b=c"]
	clean = EVIL
	smudge = EVIL
	required = true
[diff "evil"]
	textconv = EVIL
	command = EVIL
[merge "evil"]
	driver = EVIL
[diff]
	external = EVIL
[merge]
	default = evil
[core]
	fsmonitor = EVIL
	sshCommand = EVIL
	pager = EVIL
	editor = EVIL
	askPass = EVIL
	alternateRefsCommand = EVIL
	virtualFilesystem = EVIL
[gpg]
	program = EVIL
[commit]
	gpgSign = true
[log]
	showSignature = true
[credential]
	helper = EVIL
[hook "evil"]
	command = EVIL
	event = reference-transaction
	event = post-index-change
[alias]
	status = !EVIL
	add = !EVIL
	merge-tree = !EVIL
[pager]
	status = EVIL
	diff-tree = EVIL
	rev-list = EVIL
[branch]
	autoSetupMerge = always
[worktree]
	useRelativePaths = true
[trailer "Superstep-Task"]
	command = EVIL
[remote "origin"]
	url = ssh://example.invalid/x
	promisor = true
	uploadpack = EVIL
[extensions]
	worktreeConfig = true
[include]
	path = included
[includeIf "onbranch:superstep/**"]
	path = onbranch
[includeIf "gitdir:**/worktrees/**"]
	path = ingitdir
`
	add := func(name, text string) {
		t.Helper()
		f, err := os.OpenFile(filepath.Join(u.dir, ".git", name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.WriteString(strings.ReplaceAll(text, "EVIL", evil))
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	add("config", evilConfig)
	for _, name := range []string{"included", "onbranch", "ingitdir", "config.worktree"} {
		add(name, "[filter \""+name+"\"]\n\tclean = EVIL\n\tsmudge = EVIL\n\trequired = true\n[merge \""+name+"\"]\n\tdriver = EVIL\n[core]\n\tfsmonitor = EVIL\n")
	}
	add("info/attributes", "x1 filter=included merge=included\nx2 filter=onbranch merge=onbranch\nx3 filter=ingitdir merge=ingitdir\nx4 filter=config.worktree merge=config.worktree\n")
	return u, canary
}

func TestHostileRepository(t *testing.T) {
	t.Parallel()
	u, canary := hostile(t)
	t.Run("control", func(t *testing.T) { // the trap works
		c, canary := hostile(t)
		c.git("config", "--unset", "filter.evil.process") // of which the program knows nothing
		c.write("a.txt", "two\n")
		c.git("-c", "core.fsmonitor=false", "-c", "commit.gpgSign=false", "commit", "-q", "-m", "second", "--", "a.txt")
		ran := readIn(t, filepath.Dir(canary), "ran")
		for _, want := range []string{"pre-commit", "reference-transaction", "post-index-change", "evil "} {
			if !strings.Contains(ran, want) {
				t.Errorf("%s did not run: %s", want, ran)
			}
		}
	})
	for _, name := range []string{"a.txt", "x1", "b.odd"} {
		u.write(name, "the user's\n")
	}
	u.guard()
	ctx, r := t.Context(), u.open()
	notes, err := r.Unsupported(ctx, "HEAD")
	if err != nil || len(notes) != 2 || !strings.Contains(notes[0], ".gitattributes, .git/info/attributes") || !strings.Contains(notes[1], "partial clone") {
		t.Errorf("unsupported: %q, %v", notes, err)
	}
	if err := r.IncludeUncommitted(ctx, "1", "Mine", []string{"Superstep-Run: 1"}); err != nil {
		t.Fatal(err)
	}
	whole, err := r.Tree(ctx, "1", "", "main")
	if err != nil {
		t.Fatal(err)
	}
	if got := readIn(t, whole.Path, "a.txt") + readIn(t, whole.Path, "b.odd"); got != "the user's\nthe user's\n" {
		t.Errorf("%q", got)
	}
	for _, task := range []string{"a", "b"} {
		tree, err := r.Tree(ctx, "1", task, "superstep/1")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a.txt", "b.odd", "x1", "x2", "x3", "x4", "new\nline", "dir/ä\t\"q\".txt"} {
			writeIn(t, tree.Path, name, task+"\n")
		}
		if _, err := tree.Changes(ctx); err != nil {
			t.Fatal(err)
		}
		if _, changed, err := tree.Commit(ctx, "Change", []string{"Superstep-Task: " + task}); err != nil || !changed {
			t.Fatal(changed, err)
		}
		if patch, _, err := tree.Diff(ctx, "main", 1<<20); err != nil || !strings.Contains(patch, "+"+task) {
			t.Fatal(patch, err)
		}
		writeIn(t, tree.Path, "x2", "rest\n")
		if _, err := tree.Reset(ctx); err != nil {
			t.Fatal(err)
		}
		key := []string{"Superstep-Merge: " + task}
		m, err := whole.Merge(ctx, tree.Branch, "Merge", key)
		if err != nil {
			t.Fatal(err)
		}
		if m.Commit == "" {
			if len(m.Conflicts) != 8 {
				t.Errorf("%+v", m.Conflicts)
			}
			for _, f := range m.Conflicts[:4] {
				writeIn(t, whole.Path, f.Path, "both\n")
			}
			for _, f := range m.Conflicts[4:] {
				if err := whole.Take(ctx, f, true); err != nil {
					t.Fatal(err)
				}
			}
			if m, err = whole.Continue(ctx, tree.Branch, "Merge", key); err != nil || m.Commit == "" {
				t.Fatal(m, err)
			}
		}
	}
	if _, err := r.GC(ctx, func(string) string { return "" }, false); err != nil {
		t.Fatal(err)
	}
	if _, err := r.State(ctx); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(canary); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("ran: %s, %v", b, err)
	}
}

// A missing object of a partial clone is not fetched, so its ssh command does not run.
func TestMissingObject(t *testing.T) {
	t.Parallel()
	u, canary := hostile(t)
	u.git("-c", "core.fsmonitor=false", "config", "extensions.partialClone", "origin")
	blob := u.git("-c", "core.fsmonitor=false", "rev-parse", "HEAD:a.txt")
	if err := os.Remove(filepath.Join(u.dir, ".git", "objects", blob[:2], blob[2:])); err != nil {
		t.Fatal(err)
	}
	_ = os.Remove(canary)
	if _, err := u.open().Tree(t.Context(), "1", "", "main"); err == nil {
		t.Error("a file without its object")
	}
	if b, err := os.ReadFile(canary); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("ran: %s, %v", b, err)
	}
}

// A worker that makes its .git something else does not get git to use it, and nothing of it is lost.
func TestHostileWorker(t *testing.T) {
	t.Parallel()
	for name, attack := range map[string]func(t *testing.T, path, evil string){
		"file": func(t *testing.T, path, evil string) {
			writeIn(t, path, ".git", "gitdir: "+evil+"/.git\n")
		},
		"link": func(t *testing.T, path, evil string) {
			if err := errors.Join(os.Remove(path+"/.git"), os.Symlink(evil+"/.git", path+"/.git")); err != nil {
				t.Fatal(err)
			}
		},
		"folder": func(t *testing.T, path, evil string) {
			if err := errors.Join(os.Remove(path+"/.git"), os.Rename(evil+"/.git", path+"/.git")); err != nil {
				t.Fatal(err)
			}
		},
		"none": func(t *testing.T, path, _ string) {
			if err := os.Remove(path + "/.git"); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUser(t)
			u.write("a.txt", "one\n")
			u.commit("first")
			u.guard()
			ctx, r := t.Context(), u.open()
			tree, err := r.Tree(ctx, "1", "a", "main")
			if err != nil {
				t.Fatal(err)
			}
			evil, canary := hostile(t)
			attack(t, tree.Path, evil.dir)
			writeIn(t, tree.Path, ".gitattributes", "* filter=evil diff=evil merge=evil\n")
			writeIn(t, tree.Path, "a.txt", "two\n")
			for i := range 2 {
				if i == 1 {
					if tree, err = r.Tree(ctx, "1", "a", "main"); err != nil {
						t.Fatal(err)
					}
					if got := u.gitIn(tree.Path, "symbolic-ref", "HEAD"); got != "refs/heads/superstep/1_a" {
						t.Error(got)
					}
				}
				sha, changed, err := tree.Commit(ctx, "Change", []string{"Superstep-Task: a"})
				if err != nil || !changed || u.git("show", sha+":a.txt") != "two" {
					t.Fatal(sha, changed, err)
				}
			}
			if b, err := os.ReadFile(canary); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("ran: %s, %v", b, err)
			}
		})
	}
}

// Links out of a worktree are not written through: what they name stays as it is.
func TestLinksOut(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.write("a.txt", "one\n")
	u.write("sub/b.txt", "one\n")
	u.commit("first")
	u.guard()
	ctx, r := t.Context(), u.open()
	other, err := r.Tree(ctx, "1", "other", "main")
	if err != nil {
		t.Fatal(err)
	}
	writeIn(t, other.Path, "a.txt", "two\n")
	writeIn(t, other.Path, "sub/b.txt", "two\n")
	if _, _, err := other.Commit(ctx, "Change", trailers); err != nil {
		t.Fatal(err)
	}
	for name, link := range map[string]func(path string) error{
		"symbolic": func(path string) error {
			return errors.Join(os.Remove(path+"/a.txt"), os.Symlink(u.dir+"/a.txt", path+"/a.txt"))
		},
		"hard": func(path string) error {
			return errors.Join(os.Remove(path+"/a.txt"), os.Link(u.dir+"/a.txt", path+"/a.txt"))
		},
		"folder": func(path string) error {
			return errors.Join(os.RemoveAll(path+"/sub"), os.Symlink(u.dir+"/sub", path+"/sub"))
		},
	} {
		tree, err := r.Tree(ctx, "1", name, "main")
		if err == nil {
			err = link(tree.Path)
		}
		if err != nil {
			t.Fatal(name, err)
		}
		if _, err := tree.Merge(ctx, other.Branch, "Merge", []string{"Superstep-Merge: " + name}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := readIn(t, tree.Path, "a.txt") + readIn(t, tree.Path, "sub/b.txt"); got != "two\ntwo\n" {
			t.Errorf("%s: the merge has %q", name, got)
		}
		if err := link(tree.Path); err != nil {
			t.Fatal(name, err)
		}
		if _, err := tree.Reset(ctx); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := r.Remove(ctx, "1", name, ""); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What would block git, or lose files, ends with a sentence or a deadline.
func TestWorkerLeavesOddFiles(t *testing.T) {
	t.Parallel()
	open := func(t *testing.T) (*user, *gitwork.Repo, *gitwork.Tree) {
		u := newUser(t)
		u.write("a.txt", "one\n")
		u.write(".gitignore", "ignored\n")
		u.commit("first")
		u.guard()
		r := u.open()
		tree, err := r.Tree(t.Context(), "1", "a", "main")
		if err != nil {
			t.Fatal(err)
		}
		return u, r, tree
	}
	t.Run("repository", func(t *testing.T) {
		t.Parallel()
		for _, commits := range []bool{false, true} {
			u, _, tree := open(t)
			inner := filepath.Join(tree.Path, "inner")
			writeIn(t, inner, "f", "inner\n")
			u.gitIn(inner, "init", "-q")
			if commits {
				u.gitIn(inner, "add", ".")
				u.gitIn(inner, "commit", "-qm", "inner")
			}
			writeIn(t, tree.Path, "b.txt", "two\n")
			if _, _, err := tree.Commit(t.Context(), "Change", trailers); err == nil || !strings.Contains(err.Error(), "inner") {
				t.Errorf("commits %v: %v", commits, err)
			}
			kept, err := tree.Reset(t.Context())
			if err != nil || u.git("show", kept+":b.txt") != "two" || readIn(t, inner, "f") != "inner\n" {
				t.Errorf("commits %v: kept %q, %v", commits, kept, err)
			}
			if err := os.RemoveAll(filepath.Join(inner, ".git")); err != nil {
				t.Fatal(err)
			}
			if sha, _, err := tree.Commit(t.Context(), "Change", trailers); err != nil || u.git("show", sha+":inner/f") != "inner" {
				t.Errorf("commits %v: %v", commits, err)
			}
		}
	})
	t.Run("fifo", func(t *testing.T) {
		t.Parallel()
		_, _, tree := open(t)
		if err := syscall.Mkfifo(filepath.Join(tree.Path, ".gitattributes"), 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, stop := deadline(t, 2)
		defer stop()
		writeIn(t, tree.Path, "b.txt", "two\n")
		_, changed, err := tree.Commit(ctx, "Change", trailers)
		if err == nil && !changed || err != nil && ctx.Err() == nil {
			t.Fatal(changed, err)
		}
		if err := os.Remove(filepath.Join(tree.Path, ".gitattributes")); err != nil {
			t.Fatal(err)
		}
		if _, changed, err := tree.Commit(t.Context(), "Change", trailers); err != nil || !changed {
			t.Fatal(changed, err)
		}
	})
	t.Run("unreadable", func(t *testing.T) {
		t.Parallel()
		_, r, tree := open(t)
		writeIn(t, tree.Path, "ignored/cache/f", "x")
		if err := os.Chmod(filepath.Join(tree.Path, "ignored", "cache"), 0o500); err != nil {
			t.Fatal(err)
		}
		if err := r.Remove(t.Context(), "1", "a", "main"); err != nil || exists(tree.Path) {
			t.Error(err)
		}
	})
}
