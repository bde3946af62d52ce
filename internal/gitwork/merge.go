package gitwork

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// A Merged is the outcome of a merge: a commit, or conflicts.
type Merged struct {
	Commit    string
	Same      bool       // the branch had the merged commit already, and Commit is its tip
	Conflicts []Conflict // what is not resolved, if Commit is ""
	Notes     []string   // what git says of the conflicts
}

// A Conflict is a path that both sides changed. Each version is a blob, see [Repo.Blob], or "" where there is no such file.
type Conflict struct {
	Path               string
	Base, Ours, Theirs string
}

// Merge merges a commit into the branch. It returns the commit that the branch has with these trailers, as [Tree.Commit] does, and makes it only if
// there is none. If the branch contains the commit already, that is the tip. If there are conflicts, the worktree shows them, and the
// caller continues or resets the merge. Uncommitted changes are kept as by [Tree.Reset].
func (t *Tree) Merge(ctx context.Context, commit, text string, trailers []string) (*Merged, error) {
	return t.mergeLocked(ctx, commit, text, trailers, false)
}

// Continue finishes a merge whose conflicts were resolved in the worktree, with everything that was changed there. It takes the arguments of [Tree.Merge]. A
// conflict is resolved if its file was changed and has no conflict markers, or by [Tree.Take]; if one is not, Continue returns those.
// If the merge is not in progress, it is [Tree.Merge].
func (t *Tree) Continue(ctx context.Context, commit, text string, trailers []string) (*Merged, error) {
	return t.mergeLocked(ctx, commit, text, trailers, true)
}

func (t *Tree) mergeLocked(ctx context.Context, commit, text string, trailers []string, resume bool) (m *Merged, err error) {
	err = t.do(ctx, func(g *command) (err error) {
		m, err = t.merge(ctx, g, commit, text, trailers, resume)
		return err
	})
	return m, err
}

func (t *Tree) merge(ctx context.Context, g *command, commit, text string, trailers []string, resume bool) (*Merged, error) {
	tip, was, err := t.ends(ctx, g)
	if err != nil {
		return nil, err
	}
	sha, err := t.made(ctx, g, tip, trailers)
	if err != nil || sha != "" {
		return &Merged{Commit: sha}, err
	}
	theirs, err := t.repo.Resolve(ctx, commit)
	if err != nil {
		return nil, err
	}
	if in, err := g.merged(ctx, theirs, tip); err != nil || in {
		return &Merged{Commit: tip, Same: in}, err
	}
	full, err := message(text, trailers)
	if err != nil {
		return nil, err
	}
	res, err := g.mergeTree(ctx, tip, theirs)
	if err != nil {
		return nil, err
	}
	if resume && t.merging() == theirs {
		if left, err := t.unresolved(ctx, g, res, tip, theirs); err != nil || len(left) > 0 {
			return &Merged{Conflicts: left, Notes: res.notes}, err
		}
		if res.tree, err = t.stage(ctx, g); err != nil {
			return nil, err
		}
		res.conflicts = nil
	} else {
		kept, err := t.reset(ctx, g, tip, was, res.tree)
		if err != nil {
			return nil, err
		}
		if kept != "" { // they may have held attributes
			if res, err = g.mergeTree(ctx, tip, theirs); err != nil {
				return nil, err
			}
		}
		if _, err := g.run(ctx, nil, "read-tree", "--reset", "-u", res.tree); err != nil {
			return nil, err
		}
	}
	if len(res.conflicts) > 0 {
		return &Merged{Conflicts: res.conflicts, Notes: res.notes}, t.showConflicts(ctx, g, res, theirs, full)
	}
	if sha, err = t.repo.record(ctx, g, res.tree, text, trailers, tip, theirs); err != nil {
		return nil, err
	}
	if err := t.advance(ctx, g, sha, tip); err != nil {
		return nil, err
	}
	return &Merged{Commit: sha}, t.clearMerge()
}

// A mergeResult is what git makes of two commits. With conflicts, the tree has files with markers.
type mergeResult struct {
	tree      string
	conflicts []Conflict
	stages    []string // lines for update-index
	notes     []string
}

func (c *command) mergeTree(ctx context.Context, ours, theirs string) (*mergeResult, error) {
	out, err := c.run(ctx, nil, "merge-tree", "--write-tree", "--allow-unrelated-histories", "-z", ours, theirs)
	if err != nil && code(err) != 1 {
		return nil, err
	}
	parts := strings.Split(string(out), "\x00")
	res := &mergeResult{tree: parts[0]}
	if err == nil {
		return res, nil
	}
	at := map[string]int{}
	i := 1
	for ; i < len(parts) && parts[i] != ""; i++ { // MODE BLOB STAGE<tab>PATH
		head, path, _ := strings.Cut(parts[i], "\t")
		words := strings.Fields(head)
		if len(words) != 3 {
			return nil, fmt.Errorf("git merge-tree says %q, which is not understood", parts[i])
		}
		if _, ok := at[path]; !ok {
			at[path] = len(res.conflicts)
			res.conflicts = append(res.conflicts, Conflict{Path: path})
			res.stages = append(res.stages, "0 "+strings.Repeat("0", len(res.tree))+" 0\t"+path)
		}
		f := &res.conflicts[at[path]]
		switch words[2] {
		case "1":
			f.Base = words[1]
		case "2":
			f.Ours = words[1]
		case "3":
			f.Theirs = words[1]
		}
		res.stages = append(res.stages, parts[i])
	}
	for i++; i+1 < len(parts); { // COUNT, paths, type, message
		var n int
		if _, err := fmt.Sscan(parts[i], &n); err != nil || n < 0 || i+n+2 >= len(parts) {
			break
		}
		if note := strings.TrimSpace(parts[i+n+2]); strings.HasPrefix(note, "CONFLICT") {
			res.notes = append(res.notes, note)
		}
		i += n + 3
	}
	if len(res.conflicts) == 0 {
		return nil, fmt.Errorf("git merge-tree of %s and %s names no conflict: %w", ours, theirs, err)
	}
	return res, nil
}

// showConflicts makes the index say which files, already in the worktree, are in conflict. MERGE_HEAD, written last, says that all of it is there.
func (t *Tree) showConflicts(ctx context.Context, g *command, res *mergeResult, theirs, full string) error {
	if _, err := g.run(ctx, &input{stdin: strings.Join(res.stages, "\x00") + "\x00"}, "update-index", "-z", "--index-info"); err != nil {
		return err
	}
	text := filepath.Join(g.gitDir, "MERGE_MSG")
	if err := replace(text, text+".tmp", full); err != nil { // for somebody who runs `git commit` there
		return err
	}
	return replace(t.mergeHead(), t.mergeHead()+".tmp", theirs+"\n")
}

func (t *Tree) mergeHead() string { return filepath.Join(t.git.gitDir, "MERGE_HEAD") }

// merging returns the commit that is being merged, or "".
func (t *Tree) merging() string {
	b, err := os.ReadFile(t.mergeHead())
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// clearMerge forgets a merge in progress.
func (t *Tree) clearMerge() error {
	for _, name := range []string{"MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "AUTO_MERGE"} {
		if err := os.Remove(filepath.Join(t.git.gitDir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// unresolved returns the conflicts whose files still have markers, or are as the merge left them.
func (t *Tree) unresolved(ctx context.Context, g *command, res *mergeResult, ours, theirs string) ([]Conflict, error) {
	var left []Conflict
	staged, err := g.run(ctx, nil, "ls-files", "-u", "-z")
	if err != nil {
		return nil, err
	}
	open := map[string]bool{}
	for _, entry := range fields(staged) {
		_, path, _ := strings.Cut(entry, "\t")
		open[path] = true
	}
	root, err := os.OpenRoot(t.Path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // nothing is written
	for _, f := range res.conflicts {
		if !open[f.Path] { // decided by Take
			continue
		}
		same, err := t.same(ctx, g, root, res.tree, f.Path, ours, theirs)
		if err != nil {
			return nil, err
		}
		if same {
			left = append(left, f)
		}
	}
	return left, nil
}

// same reports whether a file is as a merge left it, or has markers of that merge.
func (t *Tree) same(ctx context.Context, g *command, root *os.Root, tree, path, ours, theirs string) (bool, error) {
	entry, err := g.line(ctx, nil, "ls-tree", "-z", tree, "--", ":(literal)"+path)
	if err != nil {
		return false, err
	}
	info, err := root.Lstat(filepath.FromSlash(path))
	if err != nil || !info.Mode().IsRegular() {
		return err != nil && entry == "", nil
	}
	words := strings.Fields(entry)
	if len(words) < 3 {
		return false, nil // there was none
	}
	now, err := g.line(ctx, nil, "hash-object", "--path="+path, "--", filepath.Join(g.work, filepath.FromSlash(path)))
	if err != nil || now == words[2] {
		return err == nil, err
	}
	file, err := root.Open(filepath.FromSlash(path))
	if err != nil {
		return false, err
	}
	defer func() { _ = file.Close() }() // it was only read
	b, err := io.ReadAll(io.LimitReader(file, 64<<20))
	if err != nil {
		return false, err
	}
	text := "\n" + string(b)
	return strings.Contains(text, "\n<<<<<<< "+ours) || strings.Contains(text, "\n>>>>>>> "+theirs), nil
}

// Take resolves a conflict of a merge in progress with the version of one side, or with the lack of the file there.
func (t *Tree) Take(ctx context.Context, f Conflict, theirs bool) error {
	return t.do(ctx, func(g *command) error {
		side, blob := "--ours", f.Ours
		if theirs {
			side, blob = "--theirs", f.Theirs
		}
		var err error
		if blob == "" {
			_, err = g.run(ctx, nil, "rm", "-f", "-q", "--ignore-unmatch", "--", ":(literal)"+f.Path)
			return err
		}
		if _, err = g.run(ctx, nil, "checkout", side, "--", ":(literal)"+f.Path); err == nil {
			_, err = g.run(ctx, nil, "add", "-f", "--", ":(literal)"+f.Path)
		}
		return err
	})
}

// Blob returns the text of a file version, at most so many bytes of it.
func (r *Repo) Blob(ctx context.Context, id string, most int) (text string, cut bool, err error) {
	out, err := r.git.run(ctx, &input{limit: most}, "cat-file", "blob", id)
	if errors.Is(err, errCut) {
		return string(out), true, nil
	}
	return string(out), false, err
}
