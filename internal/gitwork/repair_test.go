package gitwork_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/gitwork"
)

func deadline(t *testing.T, seconds int) (context.Context, func()) {
	return context.WithTimeout(t.Context(), time.Duration(seconds)*time.Second)
}

// Whatever a crash or somebody did to a worktree, it opens with the tip of its branch, and with the files that are there.
func TestRepair(t *testing.T) {
	t.Parallel()
	type place struct{ path, admin, common string }
	u := newUser(t)
	u.write("a.txt", "one\n")
	u.commit("first")
	r := u.open()
	do := func(errs ...error) error { return errors.Join(errs...) }
	file := func(name, text string) error { return os.WriteFile(name, []byte(text), 0o600) }
	cases := map[string]struct {
		damage func(p place) error
		rest   bool // whether the uncommitted file is still there
	}{
		"nothing":        {func(place) error { return nil }, true},
		"folder gone":    {func(p place) error { return os.RemoveAll(p.path) }, false},
		"all gone":       {func(p place) error { return do(os.RemoveAll(p.path), os.RemoveAll(p.admin)) }, false},
		"pruned":         {func(p place) error { return os.RemoveAll(p.admin) }, true},
		"no .git":        {func(p place) error { return os.Remove(p.path + "/.git") }, true},
		"pruned, no git": {func(p place) error { return do(os.Remove(p.path+"/.git"), os.RemoveAll(p.admin)) }, true},
		"empty HEAD":     {func(p place) error { return file(p.admin+"/HEAD", "") }, true},
		"odd HEAD":       {func(p place) error { return file(p.admin+"/HEAD", strings.Repeat("0", 40)+"\n") }, true},
		"no commondir":   {func(p place) error { return os.Remove(p.admin + "/commondir") }, true},
		"index.lock":     {func(p place) error { return file(p.admin+"/index.lock", "") }, true},
		"HEAD.lock":      {func(p place) error { return file(p.admin+"/HEAD.lock", "") }, true},
		"branch locked":  {func(p place) error { return file(p.common+"/refs/heads/superstep/"+filepath.Base(p.path)+".lock", "") }, true},
		"locked":         {func(p place) error { return file(p.admin+"/locked", "initializing") }, true},
		"moved":          {func(p place) error { return os.Rename(p.path, p.path+".elsewhere") }, false},
		"no checkout yet": {func(p place) error {
			return do(os.Remove(p.admin+"/index"), os.Remove(p.path+"/a.txt"), os.Remove(p.path+"/rest.txt"), file(p.admin+"/index.lock", "x"))
		}, false},
		"half made": {func(p place) error {
			return do(os.Rename(p.admin, p.admin+"1"), file(p.admin+"1/gitdir", p.path+".new/.git\n"), os.MkdirAll(p.path+".new", 0o700),
				file(p.path+".new/.git", "gitdir: "+p.admin+"1\n"), file(p.admin+"1/locked", "initializing"))
		}, true},
		"half pointed": {func(p place) error {
			return do(file(p.admin+"/gitdir", p.path+".new/.git\n"), os.Remove(p.admin+"/index"), os.Remove(p.path+"/a.txt"), os.Remove(p.path+"/b.txt"), os.Remove(p.path+"/rest.txt"))
		}, false},
		"barely begun": {func(p place) error {
			return do(os.MkdirAll(p.admin+"1", 0o700), file(p.admin+"1/locked", "initializing"))
		}, true},
		"no gitdir": {func(p place) error { return os.Remove(p.admin + "/gitdir") }, true},
	}
	trees := map[string]*gitwork.Tree{}
	for name := range cases {
		tree, err := r.Tree(t.Context(), "1", name, "main")
		if err != nil {
			t.Fatal(err)
		}
		writeIn(t, tree.Path, "b.txt", "two\n")
		if _, _, err := tree.Commit(t.Context(), "Change", trailers); err != nil {
			t.Fatal(err)
		}
		writeIn(t, tree.Path, "rest.txt", "rest\n")
		trees[name] = tree
	}
	u.write("moved.txt", "the base moves on\n")
	u.commit("second")
	first := u.git("rev-parse", "main~")
	u.guard()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, tree := t.Context(), trees[name]
			var err error
			if err := c.damage(place{tree.Path, filepath.Join(r.Common, "worktrees", filepath.Base(tree.Path)+".new"), r.Common}); err != nil {
				t.Fatal(err)
			}
			for i := range 2 {
				if tree, err = r.Tree(ctx, "1", name, "main"); err != nil {
					t.Fatal(err)
				}
				if got := readIn(t, tree.Path, "a.txt") + readIn(t, tree.Path, "b.txt"); got != "one\ntwo\n" {
					t.Errorf("%q", got)
				}
				if tree.Base != first {
					t.Errorf("base %s", tree.Base)
				}
				changes, err := tree.Changes(ctx)
				if err != nil || len(changes) > 1 || len(changes) == 1 != c.rest {
					t.Errorf("%q, %v", changes, err)
				}
				if c.rest && readIn(t, tree.Path, "rest.txt") != "rest\n" {
					t.Error("the rest is lost")
				}
				if i == 0 {
					continue
				}
				if got := u.gitIn(tree.Path, "symbolic-ref", "HEAD"); got != "refs/heads/"+tree.Branch {
					t.Error(got)
				}
			}
			writeIn(t, tree.Path, "c.txt", "three\n")
			if _, changed, err := tree.Commit(ctx, "More", []string{"Superstep-Task: 2"}); err != nil || !changed {
				t.Fatal(changed, err)
			}
			if n, err := filepath.Glob(filepath.Join(r.Common, "worktrees", filepath.Base(tree.Path)+".new*")); err != nil || len(n) != 1 {
				t.Errorf("metadata %q, %v", n, err)
			}
			if n := strings.Count(u.git("worktree", "list"), tree.Path+" "); n != 1 {
				t.Errorf("%d worktrees: %s", n, u.git("worktree", "list"))
			}
		})
	}
}
