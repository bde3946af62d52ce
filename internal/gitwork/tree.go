package gitwork

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/procgroup"
)

// A Tree is a branch of ours with a linked worktree of its own. Its fields must not be changed. One process uses it at a time, which is the one that
// holds the run.
type Tree struct {
	Path   string // the folder
	Branch string // its short name, see Branch
	Base   string // the commit where the branch began, "" if it began with nothing

	repo *Repo
	name string // of the branch, below superstep/
	git  command
}

// Tree creates the branch of a task, or that of the run if task is "", at a revision, with a worktree. If they exist, it opens them as they are, and
// ignores from; it repairs what a crash or somebody else broke of them, and keeps all files. In an empty repository from may be "": the branch then
// begins with an empty commit.
func (r *Repo) Tree(ctx context.Context, run, task, from string) (*Tree, error) {
	t := r.tree(run, task)
	err := r.locked(ctx, func(lock *os.File) error {
		g := r.git.with(lock)
		if err := t.begin(ctx, g, from); err != nil {
			return err
		}
		if err := t.link(ctx, g); err != nil {
			return fmt.Errorf("the worktree %s: %w", t.Path, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (r *Repo) tree(run, task string) *Tree {
	name := name(run, task)
	return &Tree{Branch: "superstep/" + name, Path: filepath.Join(r.folder, name), repo: r, name: name}
}

// begin makes the branch if there is none. Where it begins is written first.
func (t *Tree) begin(ctx context.Context, g *command, from string) error {
	ref, base := heads+t.name, bases+t.name
	unlock(t.repo.Common, ref, base)
	out, err := g.run(ctx, nil, "for-each-ref", "--format=%(refname) %(objectname)", ref, base)
	if err != nil {
		return err
	}
	at := map[string]string{}
	for l := range strings.Lines(string(out)) {
		name, sha, _ := strings.Cut(strings.TrimSpace(l), " ")
		at[name] = sha
	}
	t.Base = at[base]
	if at[ref] != "" {
		return nil
	}
	lines := ""
	if from == "" {
		from, err = t.repo.root(ctx, g)
	} else if from, err = t.repo.Resolve(ctx, from); err == nil {
		t.Base, lines = from, "update "+base+" "+from+"\n"
	}
	if err == nil {
		_, err = g.run(ctx, &input{stdin: lines + "create " + ref + " " + from + "\n"}, "update-ref", "--stdin")
	}
	return err
}

// root writes an empty commit without parents.
func (r *Repo) root(ctx context.Context, g *command) (string, error) {
	tree, err := g.line(ctx, nil, "mktree")
	if err != nil {
		return "", err
	}
	return r.record(ctx, g, tree, "Start", nil)
}

// record writes a commit object.
func (r *Repo) record(ctx context.Context, g *command, tree, text string, trailers []string, parents ...string) (string, error) {
	args := []string{"commit-tree", tree, "-F", "-"}
	for _, p := range parents {
		args = append(args, "-p", p)
	}
	if trailers == nil {
		text += "\n"
	} else {
		var err error
		if text, err = message(text, trailers); err != nil {
			return "", err
		}
	}
	return g.line(ctx, &input{env: r.ident, stdin: text}, args...)
}

// unlock removes the locks of our references that a killed git left. The caller has the lock of the repository.
func unlock(common string, refs ...string) {
	for _, ref := range refs {
		_ = os.Remove(filepath.Join(common, filepath.FromSlash(ref)+".lock")) // there is hardly ever one
	}
}

// link makes or repairs the worktree. A worktree is first added at Path+".new" and then moved to Path, where files may lie that lost their metadata.
func (t *Tree) link(ctx context.Context, g *command) error {
	trees, err := t.repo.registered()
	if err != nil {
		return err
	}
	admin, old := trees[t.Path], trees[t.Path+".new"]
	if admin != "" && !t.sound(admin) {
		if err := os.RemoveAll(admin); err != nil {
			return err
		}
		admin = ""
	}
	if old != "" {
		err = os.RemoveAll(old)
	}
	if err := errors.Join(err, os.RemoveAll(t.Path+".new")); err != nil {
		return err
	}
	if admin == "" {
		if admin, err = t.add(ctx, g); err != nil {
			return err
		}
	}
	if err := t.point(admin); err != nil {
		return err
	}
	if err := os.RemoveAll(t.Path + ".new"); err != nil {
		return err
	}
	for _, name := range []string{"index.lock", "HEAD.lock", "locked"} {
		_ = os.Remove(filepath.Join(admin, name)) // there is hardly ever one
	}
	if t.git, err = t.repo.at(ctx, admin, t.Path); err != nil {
		return err
	}
	c := t.git.with(g.lock)
	if head, err := os.ReadFile(filepath.Join(admin, "HEAD")); err != nil || string(head) != "ref: "+heads+t.name+"\n" {
		if _, err := c.run(ctx, nil, "symbolic-ref", "HEAD", heads+t.name); err != nil {
			return err
		}
	}
	if !exists(filepath.Join(admin, "index")) { // the first checkout was not finished
		_, err = c.run(ctx, nil, "read-tree", "--reset", "-u", "HEAD")
	}
	return err
}

// at returns the command for a worktree by its metadata.
func (r *Repo) at(ctx context.Context, admin, path string) (command, error) {
	c := r.git
	c.gitDir, c.work = admin, path
	c.config = append([]string{"core.sparseCheckout", "false"}, c.config...)
	if !r.varied {
		return c, nil
	}
	_, err := c.disarm(ctx)
	return c, err
}

// add registers the worktree. If files lie at its path already, its index is that of the branch, so that they count as changes.
func (t *Tree) add(ctx context.Context, g *command) (string, error) {
	scratch := t.Path + ".new"
	if err := os.MkdirAll(t.repo.folder, 0o700); err != nil {
		return "", err
	}
	if _, err := g.run(ctx, nil, "worktree", "add", "--no-checkout", "--quiet", scratch, t.Branch); err != nil {
		return "", err
	}
	trees, err := t.repo.registered()
	admin := trees[scratch]
	if err != nil || admin == "" {
		return "", errors.Join(err, fmt.Errorf("git has not registered %s in %s", scratch, t.repo.Common))
	}
	entries, err := os.ReadDir(t.Path)
	if err == nil && slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() != ".git" }) {
		c, err := t.repo.at(ctx, admin, scratch)
		if err != nil {
			return "", err
		}
		if _, err := c.with(g.lock).run(ctx, nil, "read-tree", "HEAD"); err != nil {
			return "", err
		}
	}
	return admin, nil
}

// point has the metadata and the folder name each other. A .git in the folder that is not ours is moved beside the folder.
func (t *Tree) point(admin string) error {
	if err := os.MkdirAll(t.Path, 0o700); err != nil {
		return err
	}
	link, want := filepath.Join(t.Path, ".git"), "gitdir: "+admin+"\n"
	info, err := os.Lstat(link)
	if err == nil && !info.Mode().IsRegular() {
		n := 1
		for exists(fmt.Sprintf("%s.git-%d", t.Path, n)) {
			n++
		}
		if err := os.Rename(link, fmt.Sprintf("%s.git-%d", t.Path, n)); err != nil {
			return err
		}
	}
	if err := replace(link, t.Path+".tmp", want); err != nil {
		return err
	}
	gitdir := filepath.Join(admin, "gitdir")
	return replace(gitdir, gitdir+".tmp", link+"\n")
}

// replace writes a small file by way of a temporary one, whole or not at all, unless it holds that text already. The caller has the lock of the repository.
func replace(name, temporary, text string) error {
	if info, err := os.Lstat(name); err == nil && info.Mode().IsRegular() && info.Size() == int64(len(text)) {
		if b, err := os.ReadFile(name); err == nil && string(b) == text {
			return nil
		}
	}
	f, err := os.OpenFile(temporary, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644) //nolint:gosec // as git has it
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(temporary, name)
}

var scratchName = regexp.MustCompile(`^(.+\.new)\d*$`)

// registered returns the folders with the metadata of all worktrees below our folder, by the paths of the worktrees. The caller has
// the lock of the repository, or only looks.
func (r *Repo) registered() (map[string]string, error) {
	dir := filepath.Join(r.Common, "worktrees")
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	found := map[string]string{}
	for _, e := range entries {
		admin := filepath.Join(dir, e.Name())
		b, err := os.ReadFile(filepath.Join(admin, "gitdir"))
		link := strings.TrimSpace(string(b))
		if err != nil || link == "" { // half made: the name is that of the folder, and a number
			if m := scratchName.FindStringSubmatch(e.Name()); m != nil {
				found[filepath.Join(r.folder, m[1])] = admin
			}
			continue
		}
		if !filepath.IsAbs(link) {
			link = filepath.Join(admin, link)
		}
		if path := filepath.Dir(link); filepath.Dir(path) == r.folder {
			found[path] = admin
		}
	}
	return found, err
}

// sound reports whether metadata is complete enough to be used.
func (t *Tree) sound(admin string) bool {
	head, err := os.ReadFile(filepath.Join(admin, "HEAD"))
	if err != nil || !exists(filepath.Join(admin, "commondir")) || !exists(t.Path) {
		return false
	}
	return len(head) > 0
}

// do runs do with the command of the tree while this process has the lock of the repository.
func (t *Tree) do(ctx context.Context, do func(g *command) error) error {
	err := t.repo.locked(ctx, func(lock *os.File) error { return do(t.git.with(lock)) })
	if err != nil {
		return fmt.Errorf("branch %s: %w", t.Branch, err)
	}
	return nil
}

// Tip returns the last commit of the branch.
func (t *Tree) Tip(ctx context.Context) (string, error) { return t.git.commit(ctx, heads+t.name) }

// Changes returns the uncommitted changes, untracked files included and ignored ones not.
func (t *Tree) Changes(ctx context.Context) ([]Change, error) { return t.git.changes(ctx) }

// Diff returns the committed changes of the branch since it left a revision, as a patch; "" is all of it. It cuts the patch after a number of bytes, and
// reports whether it did.
func (t *Tree) Diff(ctx context.Context, base string, most int) (patch string, cut bool, err error) {
	since := []string{"merge-base", base, heads + t.name}
	if base == "" {
		since = []string{"mktree"} // an empty one
	}
	from, err := t.git.line(ctx, nil, since...)
	if err != nil {
		return "", false, fmt.Errorf("the diff of %s to %s, with which it has no commit in common: %w", t.Branch, base, err)
	}
	out, err := t.git.run(ctx, &input{limit: most}, "diff-tree", "-r", "-p", "-M", "--no-ext-diff", "--no-textconv", "--no-color",
		"--src-prefix=a/", "--dst-prefix=b/", from, heads+t.name)
	if errors.Is(err, errCut) {
		return strings.ToValidUTF8(string(out), "\uFFFD"), true, nil
	}
	return strings.ToValidUTF8(string(out), "\uFFFD"), false, err
}

// Commit commits all changes of the worktree. It returns the commit that the branch has with these trailers, and makes it only if there is none, so
// the trailers, lines "Key: value", must identify it: those of a run, a task and an attempt do. If there is nothing to commit, it returns the tip, and
// changed is false.
func (t *Tree) Commit(ctx context.Context, text string, trailers []string) (sha string, changed bool, err error) {
	err = t.do(ctx, func(g *command) error {
		tip, was, err := t.ends(ctx, g)
		if err != nil {
			return err
		}
		if sha, err = t.made(ctx, g, tip, trailers); err != nil || sha != "" {
			changed = sha != ""
			return err
		}
		if exists(t.mergeHead()) {
			return errors.New("a merge is in progress: continue or reset it first")
		}
		tree, err := t.stage(ctx, g)
		if err != nil {
			return err
		}
		if was == tree {
			sha = tip
			return nil
		}
		changed = true
		if sha, err = t.repo.record(ctx, g, tree, text, trailers, tip); err != nil {
			return err
		}
		return t.advance(ctx, g, sha, tip)
	})
	return sha, changed && err == nil, err
}

// made returns the commit of the branch with these trailers, or "".
func (t *Tree) made(ctx context.Context, g *command, tip string, trailers []string) (string, error) {
	if _, err := ending(trailers); err != nil || tip == t.Base {
		return "", err
	}
	revs := []string{"--first-parent", heads + t.name}
	if t.Base != "" {
		revs = append(revs, "^"+t.Base)
	}
	found, err := g.find(ctx, trailers, revs...)
	if err != nil || len(found) == 0 {
		return "", err
	}
	return found[0], nil
}

// advance moves the branch from one commit to another.
func (t *Tree) advance(ctx context.Context, g *command, to, from string) error {
	ref := heads + t.name
	unlock(t.repo.Common, ref)
	_, err := g.run(ctx, nil, "update-ref", "-m", "superstep", ref, to, from)
	return err
}

// stage brings all changes into the index and returns its tree.
func (t *Tree) stage(ctx context.Context, g *command) (string, error) {
	_ = os.Remove(filepath.Join(g.gitDir, "index.lock")) // of a killed git
	if _, err := g.run(ctx, nil, "add", "--all", "--", "."); err != nil {
		return "", err
	}
	if err := g.noRepositories(ctx, "HEAD"); err != nil {
		return "", err
	}
	return g.line(ctx, nil, "write-tree")
}

// noRepositories refuses repositories that were staged since a commit or tree, of which git would commit a name and no file.
func (c *command) noRepositories(ctx context.Context, since string) error {
	out, err := c.run(ctx, nil, "diff-index", "--cached", "--raw", "-z", "--no-renames", "--diff-filter=AT", since)
	if err != nil {
		return err
	}
	all := fields(out)
	for i := 0; i+1 < len(all); i += 2 {
		if words := strings.Fields(all[i]); len(words) > 1 && words[1] == "160000" {
			return fmt.Errorf("%s is a git repository of its own, and its files would be lost: remove %s, or have .gitignore name it",
				filepath.Join(c.work, all[i+1]), filepath.Join(all[i+1], ".git"))
		}
	}
	return nil
}

// Reset returns the worktree to the tip of the branch, and ends a merge. Uncommitted changes are first committed to a reference below
// refs/superstep/kept/, which it returns, or "" if there were none. Ignored files stay, and repositories inside the worktree.
func (t *Tree) Reset(ctx context.Context) (kept string, err error) {
	err = t.do(ctx, func(g *command) error {
		tip, was, err := t.ends(ctx, g)
		if err == nil {
			kept, err = t.reset(ctx, g, tip, was, "")
		}
		return err
	})
	return kept, err
}

// reset does not keep changes that make up the known tree.
func (t *Tree) reset(ctx context.Context, g *command, tip, was, known string) (kept string, err error) {
	if kept, err = t.keep(ctx, g, tip, was, known); err == nil {
		err = t.clearMerge()
	}
	if err == nil && kept != "" {
		_, err = g.run(ctx, nil, "read-tree", "--reset", "-u", "HEAD")
	}
	return kept, err
}

// keep commits the uncommitted changes to a reference, unless there are none or they make up the known tree.
func (t *Tree) keep(ctx context.Context, g *command, tip, was, known string) (ref string, err error) {
	_ = os.Remove(filepath.Join(g.gitDir, "index.lock")) // of a killed git
	if _, err := g.run(ctx, nil, "add", "--all", "--ignore-errors", "--", "."); err != nil && code(err) < 0 {
		return "", err // what it left out for another reason stays where it is
	}
	tree, err := g.line(ctx, nil, "write-tree")
	if err != nil || tree == was || tree == known {
		return "", err
	}
	sha, err := t.repo.record(ctx, g, tree, "Uncommitted changes of "+t.Branch, nil, tip)
	if err != nil {
		return "", err
	}
	ref = kepts + t.name + "/" + sha[:12]
	_, err = g.run(ctx, nil, "update-ref", ref, sha)
	return ref, err
}

var errGone = errors.New("the branch is gone")

// ends returns the last commit of the branch, and its tree.
func (t *Tree) ends(ctx context.Context, g *command) (tip, tree string, err error) {
	out, err := g.line(ctx, nil, "for-each-ref", "--format=%(objectname) %(tree)", heads+t.name)
	if err == nil && out == "" {
		err = errGone
	}
	tip, tree, _ = strings.Cut(out, " ")
	return tip, tree, err
}

// IncludeUncommitted commits the uncommitted changes of the user's checkout to the branch of a run, on top of HEAD. It includes untracked files and
// leaves out ignored ones; the checkout and its index stay as they are. If the branch exists, nothing is done. Call it before [Repo.Tree].
func (r *Repo) IncludeUncommitted(ctx context.Context, run, text string, trailers []string) error {
	return r.locked(ctx, func(lock *os.File) error {
		g, ref := r.git.with(lock), heads+name(run, "")
		unlock(r.Common, ref, bases+name(run, ""))
		if _, err := g.commit(ctx, ref); code(err) != 1 {
			return err
		}
		state, err := r.State(ctx)
		if err != nil {
			return err
		}
		for _, c := range state.Dirty {
			if strings.Contains(c.Status, "U") || c.Status == "AA" || c.Status == "DD" {
				return fmt.Errorf("%s is in conflict: resolve it, or run without uncommitted changes", filepath.Join(r.Top, c.Path))
			}
		}
		tree, err := r.snapshot(ctx, g, state.Head)
		if err != nil {
			return err
		}
		var parents []string
		if state.Head != "" {
			parents = []string{state.Head}
			if _, err := g.run(ctx, nil, "update-ref", bases+name(run, ""), state.Head); err != nil {
				return err
			}
		}
		sha, err := r.record(ctx, g, tree, text, trailers, parents...)
		if err != nil {
			return err
		}
		_, err = g.run(ctx, nil, "update-ref", ref, sha, "")
		return err
	})
}

// snapshot writes the tree of the user's checkout by a copy of its index.
func (r *Repo) snapshot(ctx context.Context, g *command, head string) (string, error) {
	temp, _ := procgroup.Variable(g.environ, "TMPDIR")
	dir, err := os.MkdirTemp(temp, "superstep-index-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a few bytes in a temporary folder
	index := filepath.Join(dir, "index")
	b, err := os.ReadFile(filepath.Join(g.gitDir, "index"))
	if err == nil {
		err = os.WriteFile(index, b, 0o600)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) { // an empty repository has none
		return "", err
	}
	c := *g
	c.environ = append(c.environ[:len(c.environ):len(c.environ)], "GIT_INDEX_FILE="+index)
	if _, err := c.run(ctx, nil, "add", "--all", "--", "."); err != nil {
		return "", err
	}
	if head == "" {
		if head, err = c.line(ctx, nil, "mktree"); err != nil {
			return "", err
		}
	}
	if err := c.noRepositories(ctx, head); err != nil {
		return "", err
	}
	return c.line(ctx, nil, "write-tree")
}
