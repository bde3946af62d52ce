package frontmatter

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/superstep-dev/superstep/internal/inside"
)

// A Folder is a folder with untrusted content. Nothing outside it is opened: neither by ".." nor by
// a symbolic link, even one that changes concurrently. Links that stay inside are followed. It is
// safe for use from several goroutines.
type Folder struct{ root *inside.Root }

// OpenFolder opens a folder. If there is none, the error is fs.ErrNotExist. Close it.
func OpenFolder(dir string) (*Folder, error) {
	root, err := inside.Open(dir)
	if err != nil {
		return nil, err
	}
	return &Folder{root}, nil
}

// Sub opens a folder in this one. Its links must not lead out of it. Close it.
func (f *Folder) Sub(dir string) (*Folder, error) {
	rel, err := f.root.Resolve(dir)
	if err != nil {
		return nil, inside.Reason(err)
	}
	root, err := f.root.OpenRoot(filepath.FromSlash(rel))
	if err != nil {
		return nil, inside.Reason(err)
	}
	return &Folder{&inside.Root{Root: root, Dir: f.Path(dir), Real: filepath.Join(f.root.Real, filepath.FromSlash(rel))}}, nil
}

// Close releases the folder.
func (f *Folder) Close() { _ = f.root.Close() } // nothing was written

// Path returns the absolute path of a file in the folder.
func (f *Folder) Path(name string) string { return filepath.Join(f.root.Dir, filepath.FromSlash(name)) }

// Open opens a regular file. It does not wait for the other end of a FIFO.
func (f *Folder) Open(name string) (*os.File, error) {
	rel, err := f.root.Resolve(name)
	if err != nil {
		return nil, inside.Reason(err)
	}
	file, _, err := inside.Regular(f.root.Root, rel)
	return file, inside.Reason(err)
}

// Read reads a regular file of at most that many bytes.
func (f *Folder) Read(name string, limit int64) ([]byte, error) {
	file, err := f.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	b, err := inside.ReadAll(file, limit)
	if errors.Is(err, inside.ErrTooLarge) {
		return nil, &Error{Code: TooLarge, Text: fmt.Sprintf("the file is over %d KiB", limit>>10)}
	}
	return b, inside.Reason(err)
}

// An Entry is something in a folder.
type Entry struct {
	Path string      // relative to the folder, with slashes
	Mode fs.FileMode // its type; that of a link to a file or folder inside is that of its target
	Link bool        // it is reached by a symbolic link
	To   string      // of a symbolic link, what it says
	Err  error       // why it cannot be looked at, such as a link that leads out of the folder
}

// A Walk describes what to visit.
type Walk struct {
	Entries int // at most that many are looked at
	Depth   int // of folders
	// Enter reports whether to descend into a folder, given the names in it. If nil, every folder
	// is entered.
	Enter func(dir string, names []string) bool
}

// Entries returns what is below a folder that is not itself a folder, in the order of the paths. A
// folder that is reached twice is listed once. The order does not depend on names or links, so it
// is the same every time. Cut is set if a limit was reached; then some entries are missing.
func (f *Folder) Entries(dir string, w *Walk) (list []Entry, cut bool) {
	v := &visit{f: f, w: w, seen: map[string]bool{}}
	rel, err := f.root.Resolve(dir)
	if err == nil {
		_, err = f.root.Lstat(filepath.FromSlash(rel))
	}
	if err == nil {
		v.enter(path.Clean(dir), rel, 0, false)
		for _, l := range v.links { // what is there by itself comes first
			v.look(l.found, l.real, l.depth, true)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		v.list = append(v.list, Entry{Path: path.Clean(dir), Err: inside.Reason(err)})
	}
	slices.SortFunc(v.list, func(a, b Entry) int { return cmp.Compare(a.Path, b.Path) })
	return v.list, v.cut
}

type visit struct {
	f    *Folder
	w    *Walk
	seen map[string]bool // the real folders
	n    int
	list []Entry
	cut  bool
	// links are followed last, so that a folder that is also reached directly is listed under its
	// own name.
	links []pending
}

type pending struct {
	found, real string
	depth       int
}

// enter visits a folder, given the path where it was found and its real path.
func (v *visit) enter(found, real string, depth int, link bool) {
	if v.seen[real] {
		return
	}
	v.seen[real] = true
	if depth > v.w.Depth {
		v.cut = true
		return
	}
	names, err := v.names(real)
	if err != nil {
		v.list = append(v.list, Entry{Path: found, Mode: fs.ModeDir, Link: link, Err: err})
		return
	}
	if v.w.Enter != nil && !v.w.Enter(found, names) {
		return
	}
	for _, name := range names {
		if v.n++; v.n > v.w.Entries {
			v.cut = true
			return
		}
		v.look(path.Join(found, name), path.Join(real, name), depth, link)
	}
}

// look looks at what is in a folder of that depth.
func (v *visit) look(found, real string, depth int, link bool) {
	e := Entry{Path: found, Link: link}
	info, err := v.f.root.Lstat(filepath.FromSlash(real))
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		if !link {
			v.links = append(v.links, pending{found, real, depth})
			return
		}
		e.To, _ = v.f.root.Readlink(filepath.FromSlash(real))
		if real, err = v.f.root.Resolve(real); err == nil {
			info, err = v.f.root.Lstat(filepath.FromSlash(real))
		}
	}
	switch {
	case err != nil:
		e.Err = inside.Reason(err)
		v.list = append(v.list, e)
	case info.IsDir():
		v.enter(found, real, depth+1, link)
	default:
		e.Mode = info.Mode().Type()
		v.list = append(v.list, e)
	}
}

// names returns those in a folder, sorted.
func (v *visit) names(dir string) ([]string, error) {
	d, err := v.f.root.OpenFile(filepath.FromSlash(dir), os.O_RDONLY|inside.NonBlock, 0)
	if err != nil {
		return nil, inside.Reason(err)
	}
	defer d.Close()
	names, err := d.Readdirnames(v.w.Entries + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, inside.Reason(err)
	}
	slices.Sort(names)
	return names, nil
}
