package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// mostFolders bounds how many folders of a project are searched for hidden or protected files.
const mostFolders = 100_000

// A finding lists the entries of a folder that need special treatment.
type finding struct {
	hidden    []string // may not be read
	protected []string // may be read, not written
}

// A scanner finds hidden and protected files below a folder. It remembers unchanged folders, so
// that a second scan costs one stat per folder.
type scanner struct {
	root    string
	folders map[string]*scanned
}

type scanned struct {
	changed time.Time
	looked  time.Time
	finding
	sub []string // folders that are looked through
}

// settled is how long a folder must be unchanged before its scan is trusted, since file systems
// have a coarse clock.
const settled = 50 * time.Millisecond

// look returns the hidden and protected paths below root, sorted.
func (sc *scanner) look(root string, hide, protect func(string) bool) (finding, error) {
	sc.root = root
	old := sc.folders
	sc.folders = make(map[string]*scanned, len(old))
	var all finding
	queue := []string{root}
	for n := 0; len(queue) > 0; n++ {
		if n == mostFolders {
			return finding{}, fmt.Errorf("%s has over %d folders, too many to look through for secrets before each command; start Superstep in a smaller folder",
				root, mostFolders)
		}
		dir := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		f, err := sc.folder(dir, old[dir], hide, protect)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			continue // gone by now, or closed to the command, too
		}
		if err != nil {
			return finding{}, err
		}
		sc.folders[dir] = f
		all.hidden = append(all.hidden, f.hidden...)
		all.protected = append(all.protected, f.protected...)
		queue = append(queue, f.sub...)
	}
	slices.Sort(all.hidden)
	slices.Sort(all.protected)
	return all, nil
}

func (sc *scanner) folder(dir string, before *scanned, hide, protect func(string) bool) (*scanned, error) {
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return &scanned{changed: changeTime(info), looked: time.Now()}, nil
	}
	if before != nil && before.changed.Equal(changeTime(info)) && before.looked.Sub(before.changed) > settled {
		return before, nil
	}
	f := &scanned{changed: changeTime(info), looked: time.Now()}
	inside := dir != sc.root && protect != nil && protect(dir) // what is below is protected with it; the root itself is not closed
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		switch {
		case e.Name() == ".git" && !inside:
			f.protected = append(f.protected, gitExecutes(name, e.IsDir())...)
		case e.Type()&fs.ModeSocket != 0 || e.Type()&fs.ModeDevice != 0:
			f.hidden = append(f.hidden, name) // it leads out, whatever the network is
		case hide != nil && hide(name):
			f.hidden = append(append(f.hidden, name), sc.behind(name, e)...)
			if protect != nil && !inside && protect(name) {
				f.protected = append(f.protected, name) // one that a command makes is moved aside
			}
		case protect != nil && !inside && protect(name):
			f.protected = append(append(f.protected, name), sc.behind(name, e)...)
			if e.IsDir() {
				f.sub = append(f.sub, name) // secrets within are hidden
			}
		case e.IsDir() && e.Name() != "node_modules":
			f.sub = append(f.sub, name)
		}
	}
	return f, nil
}

// behind returns the target of a symbolic link, if it is another path in the same project.
func (sc *scanner) behind(name string, e fs.DirEntry) []string {
	if e.Type()&fs.ModeSymlink == 0 {
		return nil
	}
	real, err := filepath.EvalSymlinks(name)
	if err != nil || !within(sc.root, real) || within(real, name) {
		return nil
	}
	return []string{real}
}

// gitExecutes returns the files of a repository that name programs for Git to execute, or other
// files that do. The rest of the repository may be written, so that commits are possible.
func gitExecutes(name string, folder bool) []string {
	if !folder {
		return []string{name}
	}
	var out []string
	for _, part := range []string{"hooks", "config", "config.worktree", "commondir", "gitdir", "info", "modules", "worktrees"} {
		out = append(out, filepath.Join(name, part))
	}
	return out
}

// gitKeeps reports whether Git itself makes a path of a repository, as for a worktree. Files that
// commands write there are executed only through another protected name.
func gitKeeps(name string) bool {
	return filepath.Base(filepath.Dir(name)) == ".git" && slices.Contains([]string{"info", "worktrees"}, filepath.Base(name))
}

// existing returns the paths of a list that exist.
func existing(all []string) []string {
	var out []string
	for _, name := range all {
		if _, err := os.Lstat(name); err == nil {
			out = append(out, name)
		}
	}
	return out
}
