package gitwork_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/gitwork"
)

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.commit("first")
	trees := filepath.Join(u.home, "trees")
	bare := t.TempDir()
	u.gitIn(bare, "init", "-q", "--bare")
	old, none, odd := t.TempDir(), t.TempDir(), t.TempDir()
	writeIn(t, old, "git", "#!/bin/sh\necho git version 2.30.1\n")
	if err := os.Chmod(filepath.Join(old, "git"), 0o755); err != nil {
		t.Fatal(err)
	}
	moved := newUser(t)
	moved.git("config", "core.worktree", t.TempDir())
	newline := filepath.Join(odd, "a\nb")
	u.git("init", "-q", newline)
	for name, c := range map[string]struct {
		dir, folder, path string
		want              string
	}{
		"no repository":  {t.TempDir(), trees, "", "is not in a git repository: run `git init` there"},
		"bare":           {bare, trees, "", "is a bare repository, or in one: run this in a checkout"},
		"inside .git":    {filepath.Join(u.dir, ".git"), trees, "", "is a bare repository, or in one: run this in a checkout"},
		"no folder":      {filepath.Join(u.dir, "none"), trees, "", "no such file"},
		"old git":        {u.dir, trees, old, "is version 2.30: install git 2.38 or later"},
		"no git":         {u.dir, trees, none, "git is not in PATH: install git 2.38 or later"},
		"trees inside":   {u.dir, filepath.Join(u.dir, "trees"), "", "choose one outside of it"},
		"trees in .git":  {u.dir, filepath.Join(u.dir, ".git", "x", "trees"), "", "choose one outside of it"},
		"relative trees": {u.dir, "trees", "", "is not absolute"},
		"core.worktree":  {moved.dir, trees, "", "unset core.worktree"},
		"newline":        {newline, trees, "", "rename the folder"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := c.path
			if path == "" {
				path = os.Getenv("PATH")
			}
			_, err := gitwork.Open(t.Context(), c.dir, &gitwork.Options{Data: c.folder, Environ: []string{"PATH=" + path, "HOME=" + u.home}})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// The states of a checkout from which a run may start: each is described, and left as it is.
func TestStates(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		make func(u *user)
		want func(s *gitwork.State) bool
	}{
		"empty":       {func(u *user) {}, func(s *gitwork.State) bool { return s.Head == "" && s.Branch == "main" && len(s.Dirty) == 0 }},
		"empty dirty": {func(u *user) { u.write("new", "x") }, func(s *gitwork.State) bool { return s.Head == "" && len(s.Dirty) == 1 }},
		"clean":       {func(u *user) { u.commit("first") }, func(s *gitwork.State) bool { return s.Head != "" && s.Branch == "main" }},
		"detached":    {func(u *user) { u.commit("first"); u.git("checkout", "-q", "--detach") }, func(s *gitwork.State) bool { return s.Head != "" && s.Branch == "" }},
		"dirty": {func(u *user) {
			u.write("a", "1")
			u.write("-b \n*", "1")
			u.write("C", "1")
			u.write(".gitignore", "ignored\n")
			u.commit("first")
			u.write("a", "2")
			u.write("ignored", "2")
			u.write("dir/new", "2")
			u.git("rm", "-q", "--cached", "C")
			u.git("mv", "--", "-b \n*", "é")
		}, func(s *gitwork.State) bool {
			return fmt.Sprintf("%q", s.Dirty) == `[{"D " "-b \n*"} {"D " "C"} {" M" "a"} {"A " "é"} {"??" "C"} {"??" "dir/new"}]`
		}},
		"merge": {func(u *user) {
			u.write("a", "1")
			u.commit("first")
			u.git("checkout", "-qb", "other")
			u.write("a", "2")
			u.commit("second")
			u.git("checkout", "-q", "main")
			u.write("a", "3")
			u.commit("third")
			u.git("config", "alias.m", "!git merge -q other || true")
			u.git("m")
		}, func(s *gitwork.State) bool { return s.InProgress == "merge" && s.Dirty[0].Status == "UU" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUser(t)
			c.make(u)
			u.guard()
			ctx, r := t.Context(), u.open()
			s, err := r.State(ctx)
			if err != nil || !c.want(s) {
				t.Fatalf("%+q, %v", s, err)
			}
			from := "HEAD"
			if s.Head == "" {
				from = ""
			}
			if len(s.Dirty) > 0 {
				err := r.IncludeUncommitted(ctx, "1", "Mine", []string{"Superstep-Run: 1"})
				if name == "merge" {
					if err == nil || !strings.Contains(err.Error(), "in conflict: resolve it") {
						t.Error(err)
					}
				} else if err != nil {
					t.Fatal(err)
				}
			}
			whole, err := r.Tree(ctx, "1", "", from)
			if err != nil {
				t.Fatal(err)
			}
			task, err := r.Tree(ctx, "1", "a", whole.Branch)
			if err != nil {
				t.Fatal(err)
			}
			writeIn(t, task.Path, "done", "x")
			if _, changed, err := task.Commit(ctx, "Change", trailers); err != nil || !changed {
				t.Fatal(changed, err)
			}
			if patch, _, err := task.Diff(ctx, "", 1<<20); err != nil || !strings.Contains(patch, "+++ b/done") {
				t.Errorf("%s, %v", patch, err)
			}
			if m, err := whole.Merge(ctx, task.Branch, "Merge", []string{"Superstep-Merge: a"}); err != nil || m.Commit == "" {
				t.Fatal(m, err)
			}
			if _, err := r.Resolve(ctx, "nobody"); err == nil || !strings.Contains(err.Error(), "names no commit of") {
				t.Error(err)
			}
			if _, err := r.Tree(ctx, "2", "", "--help"); err == nil || !strings.Contains(err.Error(), "names no commit of") {
				t.Error(err)
			}
		})
	}
}

// The commit of uncommitted changes is the checkout as it is, without what is ignored.
func TestIncludeUncommitted(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	for _, name := range []string{"same", "changed", "deleted", "staged", "renamed", "sparse/f", "mode"} {
		u.write(name, name+"\n")
	}
	u.write(".gitignore", "ignored\n")
	u.commit("first")
	writeIn(t, u.home, ".config/git/ignore", "globally\n")
	u.write("changed", "2\n")
	u.write("staged", "2\n")
	u.git("add", "staged")
	u.write("staged", "3\n")
	u.git("mv", "renamed", "new name")
	u.write("ignored", "x")
	u.write("globally", "x")
	u.write("sub/untracked", "x\n")
	if err := errors.Join(os.Remove(filepath.Join(u.dir, "deleted")), os.Chmod(filepath.Join(u.dir, "mode"), 0o755), os.Symlink("same", filepath.Join(u.dir, "link"))); err != nil {
		t.Fatal(err)
	}
	u.git("update-index", "--skip-worktree", "sparse/f")
	if err := os.RemoveAll(filepath.Join(u.dir, "sparse")); err != nil {
		t.Fatal(err)
	}
	u.guard()
	ctx, r := t.Context(), u.open()
	for range 2 {
		if err := r.IncludeUncommitted(ctx, "1", "Mine", []string{"Superstep-Run: 1"}); err != nil {
			t.Fatal(err)
		}
	}
	want := `100644 .gitignore
100644 changed
120000 link
100755 mode
100644 new name
100644 same
100644 sparse/f
100644 staged
100644 sub/untracked`
	if got := u.git("ls-tree", "-r", "--format=%(objectmode) %(path)", "superstep/1"); got != want {
		t.Errorf("%s", got)
	}
	if got := u.git("show", "superstep/1:staged") + u.git("show", "superstep/1:changed"); got != "32" {
		t.Error(got)
	}
	if got := u.git("log", "--format=%an <%ae> %s", "main..superstep/1"); got != "Superstep <superstep@localhost> Mine" && !strings.HasSuffix(got, "> Mine") {
		t.Error(got)
	}
	writeIn(t, u.dir, "inner/f", "x")
	u.git("init", "-q", filepath.Join(u.dir, "inner"))
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Join(u.dir, "inner")) }) // before the guard looks
	if err := r.IncludeUncommitted(ctx, "2", "Mine", []string{"Superstep-Run: 2"}); err == nil || !strings.Contains(err.Error(), "inner") {
		t.Error(err)
	}
}

func TestGC(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.commit("first")
	ctx, r := t.Context(), u.open()
	do := func(run, task, from string, commit bool) *gitwork.Tree {
		t.Helper()
		tree, err := r.Tree(ctx, run, task, from)
		if err != nil {
			t.Fatal(err)
		}
		if commit {
			writeIn(t, tree.Path, run+task, "x")
			if _, _, err := tree.Commit(ctx, "Change", []string{"Superstep-Task: " + run + task}); err != nil {
				t.Fatal(err)
			}
		}
		return tree
	}
	for _, run := range []string{"merged", "busy", "dirty", "unmerged", "pushed", "part"} {
		do(run, "", "main", true)
		u.git("config", "x.y", run)
	}
	do("unmerged", "in", "superstep/unmerged", false)
	do("unmerged", "out", "superstep/unmerged", true)
	do("part", "out", "superstep/part", true)
	writeIn(t, do("dirty", "", "main", false).Path, "rest", "x")
	do("lost", "", "main", true)
	if err := os.RemoveAll(filepath.Join(r.Common, "worktrees", "lost.new")); err != nil {
		t.Fatal(err)
	}
	for _, run := range []string{"merged", "busy", "dirty", "part", "lost"} {
		u.git("merge", "-q", "-m", "take", "superstep/"+run)
	}
	u.git("update-ref", "refs/remotes/origin/superstep/pushed", "superstep/pushed")
	u.guard()
	keep := func(run string) string {
		if run == "busy" {
			return "it is running"
		}
		return ""
	}
	want := "removed superstep/unmerged_in\nremoved superstep/merged\nremoved superstep/part\n"
	why := map[string]string{
		"superstep/busy": "it is running", "superstep/dirty": "1 uncommitted changes", "superstep/unmerged": "not merged", "superstep/unmerged_out": "not merged",
		"superstep/pushed": "not merged", "superstep/part_out": "not merged", "superstep/lost": "does not know its folder",
	}
	for _, dry := range []bool{true, false} {
		done, err := r.GC(ctx, keep, dry)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range done.Removed {
			got = append(got, "removed "+e.Branch+"\n")
			if exists(e.Path) != dry {
				t.Errorf("dry %v: %s", dry, e.Path)
			}
		}
		for _, s := range strings.SplitAfter(want, "\n") {
			if s != "" && !slices.Contains(got, s) {
				t.Errorf("not %s", s)
			}
		}
		if len(got) != 3 {
			t.Errorf("removed %q", got)
		}
		for _, k := range done.Kept {
			if w := why[k.Branch]; w == "" || !strings.Contains(k.Why, w) || !exists(k.Path) {
				t.Errorf("kept %+v, want %q", k, w)
			}
		}
		if len(done.Kept) != len(why) {
			t.Errorf("kept %+v", done.Kept)
		}
	}
	if err := r.Remove(ctx, "unmerged", "out", "superstep/unmerged"); err == nil || !strings.Contains(err.Error(), "merge it first") {
		t.Error(err)
	}
	if list, err := r.List(ctx); err != nil || len(list) != len(why) {
		t.Errorf("%+v, %v", list, err)
	}
}

// Names that are one where letters have no case, and names that git or a system refuses, are branches and folders of their own.
func TestNames(t *testing.T) {
	faults.Unraced(t)
	t.Parallel()
	u := newUser(t)
	u.commit("first")
	u.guard()
	ctx, r := t.Context(), u.open()
	tasks := []string{"auth", "Auth", "AUTH", "é", "e\u0301", "日本", "a b", "a-b", "a/b", "a_b", "../x", "lock", "x.lock", "con", "-", "@{", "~^:?*[\\", "\n", strings.Repeat("long", 80)}
	seen := map[string]string{}
	for _, task := range tasks {
		tree, err := r.Tree(ctx, "Run", task, "main")
		if err != nil {
			t.Fatalf("%q: %v", task, err)
		}
		low := strings.ToLower(tree.Branch)
		if seen[low] != "" || len(tree.Branch) > 80 || filepath.Dir(tree.Path) != filepath.Dir(filepath.Join(tree.Path)) {
			t.Errorf("%q and %q: %s", task, seen[low], tree.Branch)
		}
		seen[low] = task
	}
	tree, err := r.Tree(ctx, "Run", "auth", "main")
	if err != nil {
		t.Fatal(err)
	}
	big := strings.Repeat("0123456789abcdef", 2<<20) // 32 MiB
	names := []string{"Größe/ä", "A", "a", "日本\n語", "-n", " space ", "\"quoted\"", "back\\slash"}
	for _, name := range names {
		writeIn(t, tree.Path, name, name)
	}
	writeIn(t, tree.Path, "big", big)
	sha, changed, err := tree.Commit(ctx, "Änderung ✓\r\n\n\x00Superstep-Task: 9", trailers)
	if err != nil || !changed {
		t.Fatal(changed, err)
	}
	for _, name := range names {
		if got := u.git("show", sha+":"+name); got != name {
			t.Errorf("%q is %q", name, got)
		}
	}
	if text, cut, err := r.Blob(ctx, u.git("rev-parse", sha+":big"), 100<<20); err != nil || cut || sha256.Sum256([]byte(text)) != sha256.Sum256([]byte(big)) {
		t.Error(len(text), cut, err)
	}
	if text, cut, err := r.Blob(ctx, u.git("rev-parse", sha+":big"), 100); err != nil || !cut || len(text) != 100 {
		t.Error(len(text), cut, err)
	}
	if patch, cut, err := tree.Diff(ctx, "main", 1000); err != nil || !cut || len(patch) > 1002 {
		t.Error(len(patch), cut, err)
	}
	if again, _, err := tree.Commit(ctx, "x", []string{"Superstep-Task: 9"}); err != nil || again != sha {
		t.Fatal(again, err) // nothing to commit
	}
	writeIn(t, tree.Path, "more", "x")
	if again, changed, err := tree.Commit(ctx, "x", []string{"Superstep-Task: 9"}); err != nil || !changed || again == sha {
		t.Error("a trailer in the text of a message counted", again, changed, err)
	}
	for _, bad := range [][]string{nil, {"a"}, {"A: b\nC: d"}, {"A: "}, {"A b: c"}, {"A:b"}} {
		if _, _, err := tree.Commit(ctx, "x", bad); err == nil {
			t.Errorf("trailers %q", bad)
		}
	}
}

// A base that moves, and a branch that the user checked out, do not matter; what would move the user's HEAD is refused.
func TestUserGoesOn(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.write("a", "1")
	u.commit("first")
	ctx, r := t.Context(), u.open()
	tree, err := r.Tree(ctx, "1", "a", "main")
	if err != nil {
		t.Fatal(err)
	}
	writeIn(t, tree.Path, "b", "x")
	sha, _, err := tree.Commit(ctx, "Change", trailers)
	if err != nil {
		t.Fatal(err)
	}
	u.write("a", "2")
	u.commit("second")
	u.git("merge", "-q", "-m", "take", sha)
	u.git("tag", "superstep/1_a", "main~2") // a tag of that name
	if tree, err = r.Tree(ctx, "1", "a", "main"); err != nil || tree.Base != u.git("rev-parse", "main~2") {
		t.Fatal(tree, err)
	}
	if again, _, err := tree.Commit(ctx, "Change", trailers); err != nil || again != sha { // though main contains it
		t.Errorf("%s, %v", again, err)
	}
	if err := r.Remove(ctx, "1", "a", ""); err != nil {
		t.Fatal(err)
	}
	u.git("checkout", "-q", "refs/heads/superstep/1_a")
	u.git("symbolic-ref", "HEAD", "refs/heads/superstep/1_a")
	u.guard()
	if err := r.Remove(ctx, "1", "a", "main"); err == nil || !strings.Contains(err.Error(), u.dir) {
		t.Errorf("removed a branch that the user has checked out: %v", err)
	}
	if done, err := r.GC(ctx, func(string) string { return "" }, false); err != nil || len(done.Kept) != 1 || !strings.Contains(done.Kept[0].Why, u.dir) {
		t.Errorf("%+v, %v", done, err)
	}
	if _, err := r.Tree(ctx, "1", "a", "main"); err == nil || !strings.Contains(err.Error(), u.dir) {
		t.Errorf("a branch that the user has checked out: %v", err)
	}
}

// The end of the context ends a wait for the lock, and says which.
func TestLock(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	u.commit("first")
	u.guard()
	r := u.open()
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			tree, err := r.Tree(t.Context(), "1", fmt.Sprint(i%4), "main") // two of each
			if err == nil {
				_, err = tree.Changes(t.Context())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	stop()
	if _, err := r.Tree(ctx, "2", "", "main"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
