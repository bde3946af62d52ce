package gitwork_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/superstep-dev/superstep/internal/gitwork"
)

// A user is somebody with a repository.
type user struct {
	t    testing.TB
	dir  string // the checkout
	home string
}

// empty is the git directory of an empty repository.
var empty = sync.OnceValues(func() (fs.FS, error) {
	dir, err := os.MkdirTemp("", "gitwork-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if out, err := exec.Command("git", "init", "-q", "-b", "main", "--template=", dir).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	all := fstest.MapFS{"info": {Mode: fs.ModeDir | 0o755}}
	err = fs.WalkDir(os.DirFS(filepath.Join(dir, ".git")), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		f := &fstest.MapFile{Mode: d.Type() | 0o755}
		if !d.IsDir() {
			f.Mode = 0o644
			f.Data, err = os.ReadFile(filepath.Join(dir, ".git", name))
		}
		all[name] = f
		return err
	})
	all["config"].Data = append(all["config"].Data, "[maintenance]\n\tauto = false\n"...)
	return all, err
})

// newUser returns a user with an empty repository.
func newUser(t testing.TB) *user {
	t.Helper()
	u := &user{t: t, dir: filepath.Join(t.TempDir(), "project"), home: t.TempDir()}
	dir, err := empty()
	if err == nil {
		err = os.CopyFS(filepath.Join(u.dir, ".git"), dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func (u *user) environ() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + u.home, "GIT_CONFIG_NOSYSTEM=1"}
}

// git runs git as the user does, in the checkout.
func (u *user) git(args ...string) string {
	u.t.Helper()
	return u.gitIn(u.dir, args...)
}

func (u *user) gitIn(dir string, args ...string) string {
	u.t.Helper()
	cmd := exec.CommandContext(u.t.Context(), "git", args...)
	cmd.Env = append(u.environ(), "GIT_AUTHOR_NAME=U", "GIT_AUTHOR_EMAIL=u@example.org", "GIT_COMMITTER_NAME=U", "GIT_COMMITTER_EMAIL=u@example.org")
	if _, err := os.Stat(dir); err == nil {
		cmd.Dir = dir
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		u.t.Fatalf("git %q in %s: %v\n%s", args, dir, err, out)
	}
	return strings.TrimSuffix(string(out), "\n")
}

// write writes a file of the checkout.
func (u *user) write(name, text string) { writeIn(u.t, u.dir, name, text) }

func writeIn(t testing.TB, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func readIn(t testing.TB, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// commit commits the checkout.
func (u *user) commit(text string) {
	u.t.Helper()
	u.git("add", "-A")
	u.git("commit", "-q", "--allow-empty", "-m", text)
}

func (u *user) open() *gitwork.Repo {
	u.t.Helper()
	r, err := gitwork.Open(u.t.Context(), u.dir, &gitwork.Options{Data: u.home, Environ: u.environ()})
	if err != nil {
		u.t.Fatal(err)
	}
	return r
}

// guard fails the test if, at its end, anything of the user was changed: the files of the checkout, and the git directory
// other than objects, our references and worktrees, and the lock.
func (u *user) guard() {
	u.t.Helper()
	before := u.belongings()
	u.t.Cleanup(func() {
		after := u.belongings()
		for name, b := range before {
			if a, ok := after[name]; !ok {
				u.t.Errorf("the user's %s is gone", name)
			} else if !bytes.Equal(a, b) {
				u.t.Errorf("the user's %s was changed from\n%q to\n%q", name, b, a)
			}
		}
		for name := range after {
			if _, ok := before[name]; !ok {
				u.t.Errorf("%s was made", name)
			}
		}
	})
}

// belongings returns what must stay as it is, by name.
func (u *user) belongings() map[string][]byte {
	u.t.Helper()
	all := map[string][]byte{}
	err := filepath.WalkDir(u.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(u.dir, path)
		if err != nil {
			return err
		}
		for _, ours := range []string{"objects", "worktrees", "superstep.lock", "refs/heads/superstep", "refs/superstep", "logs/refs/heads/superstep", "logs/refs/superstep"} {
			if name == filepath.Join(".git", ours) {
				if d.IsDir() {
					return filepath.SkipDir
				}
				return nil
			}
		}
		switch {
		case d.IsDir():
			if name == ".git/logs" || name == ".git/logs/refs" || name == ".git/logs/refs/heads" { // made by the first commit
				return nil
			}
			all[name] = nil
		case d.Type().IsRegular():
			all[name], err = os.ReadFile(path)
		case d.Type() == fs.ModeSymlink:
			var to string
			to, err = os.Readlink(path)
			all[name] = []byte(to)
		}
		return err
	})
	if err != nil {
		u.t.Fatal(err)
	}
	return all
}

var trailers = []string{"Superstep-Run: 7f3a", "Superstep-Task: 1", "Superstep-Attempt: 1"}

func TestTaskToMerge(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.write("a.txt", "one\n")
	u.commit("first")
	head := u.git("rev-parse", "HEAD")
	u.write("a.txt", "the user's\n")
	u.write("new.txt", "untracked\n")
	u.guard()
	ctx, r := t.Context(), u.open()

	state, err := r.State(ctx)
	if err != nil || state.Head != head || state.Branch != "main" || len(state.Dirty) != 2 || state.InProgress != "" {
		t.Fatalf("state %+v, %v", state, err)
	}
	whole, err := r.Tree(ctx, "7f3a", "", "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	task, err := r.Tree(ctx, "7f3a", "auth", whole.Branch)
	if err != nil {
		t.Fatal(err)
	}
	if task.Branch != "superstep/7f3a_auth" || readIn(t, task.Path, "a.txt") != "one\n" {
		t.Fatalf("task %+v", task)
	}
	if sha, changed, err := task.Commit(ctx, "nothing", trailers); err != nil || changed || sha != head {
		t.Fatalf("a commit of nothing: %s, %v, %v", sha, changed, err)
	}
	writeIn(t, task.Path, "b.txt", "two\n")
	sha, changed, err := task.Commit(ctx, "Add b", trailers)
	if err != nil || !changed {
		t.Fatal(changed, err)
	}
	writeIn(t, task.Path, "b.txt", "more\n")
	if again, changed, err := task.Commit(ctx, "Add b", trailers); err != nil || !changed || again != sha {
		t.Fatalf("again: %s, %v, %v; want %s", again, changed, err, sha)
	}
	if patch, _, err := task.Diff(ctx, "main", 1<<20); err != nil || !strings.Contains(patch, "+two") {
		t.Fatal(patch, err)
	}
	m, err := whole.Merge(ctx, task.Branch, "Merge auth", []string{"Superstep-Merge: auth"})
	if err != nil || m.Commit == "" {
		t.Fatal(m, err)
	}
	if readIn(t, whole.Path, "b.txt") != "two\n" {
		t.Error("the merge is not in the worktree")
	}
	if changes, err := whole.Changes(ctx); err != nil || len(changes) != 0 {
		t.Error(changes, err)
	}
	if err := r.Remove(ctx, "7f3a", "auth", whole.Branch); err != nil {
		t.Fatal(err)
	}
	if list, err := r.List(ctx); err != nil || len(list) != 1 || list[0].Branch != whole.Branch || list[0].Tip != m.Commit {
		t.Fatal(list, err)
	}
	if found, err := r.Find(ctx, "7f3a", trailers); err != nil || len(found) != 1 || found[0] != sha {
		t.Fatal(found, err)
	}
	if found, err := r.Find(ctx, "none", trailers); err != nil || len(found) != 0 {
		t.Fatal(found, err)
	}
	if err := r.Remove(ctx, "7f3a", "", "main"); err == nil || !strings.Contains(err.Error(), "not in main") {
		t.Fatal(err)
	}
	if kept := u.git("for-each-ref", "--format=%(refname)", "refs/superstep/kept"); !strings.HasPrefix(kept, "refs/superstep/kept/7f3a_auth/") {
		t.Errorf("kept %q", kept)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
