package gitwork

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// An Entry is a branch of ours, or a worktree whose branch is gone.
type Entry struct {
	Run    string // as its branch names it
	Branch string // "" if it is gone
	Tip    string
	Path   string // of its worktree, "" if it has none
}

// List returns our branches and worktrees in this repository, by name.
func (r *Repo) List(ctx context.Context) ([]Entry, error) {
	out, err := r.git.run(ctx, nil, "for-each-ref", "--format=%(refname) %(objectname)", heads)
	if err != nil {
		return nil, err
	}
	trees, err := r.registered()
	if err != nil {
		return nil, err
	}
	var all []Entry
	for l := range strings.Lines(string(out)) {
		ref, tip, _ := strings.Cut(strings.TrimSpace(l), " ")
		name := strings.TrimPrefix(ref, heads)
		e := Entry{Run: runOf(name), Branch: strings.TrimPrefix(ref, "refs/heads/"), Tip: tip}
		if path := filepath.Join(r.folder, name); trees[path] != "" || exists(path) {
			e.Path = path
			delete(trees, path)
		}
		delete(trees, filepath.Join(r.folder, name)+".new") // half made
		all = append(all, e)
	}
	for path := range trees {
		all = append(all, Entry{Run: runOf(filepath.Base(path)), Path: path})
	}
	slices.SortFunc(all, func(a, b Entry) int { return strings.Compare(a.Branch+a.Path, b.Branch+b.Path) })
	return all, nil
}

// runOf returns the run of a branch's name.
func runOf(name string) string {
	run, _, _ := strings.Cut(name, "_")
	return run
}

// Remove removes the worktree of a task, or that of the run if task is "". If the revision into contains its branch, the branch is removed, too; if
// not, that is an error and nothing is removed. If into is "", the branch stays. Uncommitted changes are kept as by [Tree.Reset]; ignored files go. What
// is removed already is no error.
func (r *Repo) Remove(ctx context.Context, run, task, into string) error {
	t := r.tree(run, task)
	err := r.locked(ctx, func(lock *os.File) error {
		g := r.git.with(lock)
		tip, was, err := t.ends(ctx, g)
		if err != nil && !errors.Is(err, errGone) {
			return err
		}
		if err != nil {
			if exists(t.Path) {
				return fmt.Errorf("the branch of %s is gone: look at the folder and remove it", t.Path)
			}
			return errors.Join(r.removeTree(t.Path), g.removeBranch(ctx, r, t.name, ""))
		}
		if into != "" {
			in, err := g.merged(ctx, tip, into)
			if err != nil {
				return err
			}
			if !in {
				return fmt.Errorf("it has commits that are not in %s: merge it first", into)
			}
			if at, err := r.checkedOut(ctx, t.Branch, t.Path); err != nil || at != "" {
				return errors.Join(err, fmt.Errorf("it is checked out in %s: check out another branch there", at))
			}
		}
		if exists(t.Path) {
			if err := t.link(ctx, g); err != nil {
				return err
			}
			if _, err := t.keep(ctx, t.git.with(lock), tip, was, ""); err != nil {
				return err
			}
		}
		if err := r.removeTree(t.Path); err != nil || into == "" {
			return err
		}
		return g.removeBranch(ctx, r, t.name, tip)
	})
	if err != nil {
		return fmt.Errorf("removing branch %s: %w", t.Branch, err)
	}
	return nil
}

// removeTree removes a worktree and its metadata, and what an earlier removal or repair that was killed left of it.
func (r *Repo) removeTree(path string) error {
	trees, err := r.registered()
	if err != nil {
		return err
	}
	gone := path + ".gone"
	if err := removeAll(gone); err != nil {
		return err
	}
	if err := os.Rename(path, gone); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, p := range []string{path, path + ".new"} {
		if trees[p] != "" {
			if err := os.RemoveAll(trees[p]); err != nil {
				return err
			}
		}
	}
	if err := errors.Join(removeAll(gone), removeAll(path+".new")); err != nil {
		return err
	}
	_ = os.Remove(r.folder) // if it was the last, as git does:
	_ = os.Remove(filepath.Join(r.Common, "worktrees"))
	return nil
}

// removeAll is os.RemoveAll that also removes what lies in folders without permission to write, such as Go's module cache.
func removeAll(path string) error {
	if os.RemoveAll(path) == nil {
		return nil
	}
	_ = filepath.WalkDir(path, func(name string, d fs.DirEntry, _ error) error { // what fails here fails below
		if d != nil && d.IsDir() {
			_ = os.Chmod(name, 0o700) //nolint:gosec // a folder must be searchable
		}
		return nil
	})
	return os.RemoveAll(path)
}

// removeBranch removes a branch that is still at tip, and where it began. The tip is "" if there is no branch any more.
func (c *command) removeBranch(ctx context.Context, r *Repo, name, tip string) error {
	unlock(r.Common, heads+name, bases+name)
	lines := "delete " + bases + name + "\n"
	if tip != "" {
		lines = "delete " + heads + name + " " + tip + "\n" + lines
	}
	_, err := c.run(ctx, &input{stdin: lines}, "update-ref", "--stdin")
	return err
}

// Collected is what GC did.
type Collected struct {
	Removed []Entry
	Kept    []Kept
}

// Kept is what GC did not remove, and why.
type Kept struct {
	Entry
	Why string
}

// GC removes merged branches and their worktrees, and nothing else. The branch of a task is merged if the branch of its run or a branch of the user
// contains it, the branch of a run if a branch of the user does. Worktrees with uncommitted changes stay. Keep returns why all of a run must stay,
// such as that it is running, or "". If dry is true, nothing is removed.
func (r *Repo) GC(ctx context.Context, keep func(run string) string, dry bool) (*Collected, error) {
	done := &Collected{}
	return done, r.locked(ctx, func(lock *os.File) error {
		all, err := r.List(ctx)
		if err != nil {
			return err
		}
		trees, err := r.registered()
		if err != nil {
			return err
		}
		slices.Reverse(all) // a run comes after its tasks
		for _, e := range all {
			why := keep(e.Run)
			if why == "" {
				if why, err = r.needed(ctx, e, trees[e.Path]); err != nil {
					return err
				}
			}
			if why != "" {
				done.Kept = append(done.Kept, Kept{e, why})
				continue
			}
			done.Removed = append(done.Removed, e)
			if dry {
				continue
			}
			name := strings.TrimPrefix(e.Branch, "superstep/")
			if err := r.removeTree(filepath.Join(r.folder, name)); err != nil {
				return err
			}
			if err := r.git.with(lock).removeBranch(ctx, r, name, e.Tip); err != nil {
				return err
			}
		}
		return nil
	})
}

// checkedOut returns a worktree that has a branch checked out, other than our own, or "".
func (r *Repo) checkedOut(ctx context.Context, branch, own string) (string, error) {
	out, err := r.git.run(ctx, nil, "worktree", "list", "--porcelain", "-z")
	at := ""
	for _, f := range fields(out) {
		if path, ok := strings.CutPrefix(f, "worktree "); ok {
			at = path
		} else if f == "branch refs/heads/"+branch && at != own && at != own+".new" {
			return at, err
		}
	}
	return "", err
}

// pushed matches what a remote has of our branches.
var pushed = regexp.MustCompile(`^refs/remotes/[^/]+/superstep/`)

// needed returns why an entry must stay, or "".
func (r *Repo) needed(ctx context.Context, e Entry, admin string) (string, error) {
	if e.Branch == "" {
		return "its branch is gone; `git worktree remove " + e.Path + "` removes it", nil
	}
	if e.Path != "" {
		if admin == "" {
			return "git does not know its folder any more, which may hold work", nil
		}
		if exists(e.Path) {
			g, err := r.at(ctx, admin, e.Path)
			if err != nil {
				return "", err
			}
			changes, err := g.changes(ctx)
			if err != nil || len(changes) > 0 {
				return fmt.Sprintf("%d uncommitted changes", len(changes)), err
			}
		}
	}
	if at, err := r.checkedOut(ctx, e.Branch, filepath.Join(r.folder, strings.TrimPrefix(e.Branch, "superstep/"))); err != nil || at != "" {
		return "it is checked out in " + at, err
	}
	out, err := r.git.run(ctx, nil, "for-each-ref", "--format=%(refname)", "--contains="+e.Tip, "refs/heads/", "refs/remotes/")
	if err != nil {
		return "", err
	}
	own := heads + e.Run
	for l := range strings.Lines(string(out)) {
		ref := strings.TrimSpace(l)
		if !strings.HasPrefix(ref, heads) && !pushed.MatchString(ref) || ref == own && e.Branch != "superstep/"+e.Run {
			return "", nil
		}
	}
	if in, err := r.git.merged(ctx, e.Tip, "HEAD"); err == nil && in { // a detached HEAD
		return "", nil
	}
	return "not merged: no other branch contains its last commit", nil
}
