// Package inside opens files in a folder with untrusted content, and nothing outside it: neither by
// ".." nor by a symbolic link, even one that changes concurrently. Only regular files are opened.
package inside

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Why a file is not opened.
var (
	ErrOutside    = errors.New("the path is outside of the folder")
	ErrLeaves     = errors.New("a symbolic link leads out of the folder; it is not followed")
	ErrFolder     = errors.New("it is a folder")
	ErrNotRegular = errors.New("it is not a regular file")
	ErrTooLarge   = errors.New("it is too large")
	ErrMoved      = errors.New("it was exchanged for a link while it was opened; try again")
)

// Reason returns an error without the path, which the caller knows better.
func Reason(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

// A Root is a folder that no opened path can leave. It is safe for use from several goroutines.
type Root struct {
	*os.Root
	Dir  string // as given, made absolute
	Real string // without symbolic links
}

// Open opens a folder. Close it.
func Open(dir string) (*Root, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(real)
	if err != nil {
		return nil, err
	}
	return &Root{root, abs, real}, nil
}

// Below returns an absolute path as one relative to the folder, and whether it is in it.
func (r *Root) Below(name string) (string, bool) {
	if rel, ok := Rel(r.Real, name); ok {
		return rel, true
	}
	return Rel(r.Dir, name)
}

// Rel returns a path as one relative to a folder, with slashes, and whether it is in it or the folder itself. Both are absolute,
// or both are not.
func Rel(dir, name string) (string, bool) {
	rel, err := filepath.Rel(dir, name)
	if err != nil || !filepath.IsLocal(rel) {
		return "", false
	}
	return filepath.ToSlash(rel), true
}

// Resolve follows the symbolic links of a relative path with slashes. The result, which has slashes
// too, names no link, but possibly something that does not exist. [os.Root] decides what may be
// opened. This makes absolute links work if they stay inside, and distinguishes links that lead out
// from missing files.
func (r *Root) Resolve(name string) (string, error) {
	rest := path.Clean(name)
	if !filepath.IsLocal(filepath.FromSlash(rest)) {
		return "", ErrOutside
	}
	done := "."
	for links := 0; rest != ""; {
		var part string
		part, rest, _ = strings.Cut(rest, "/")
		switch {
		case part == "" || part == ".":
			continue
		case part == ".." && done == ".":
			return "", ErrLeaves
		case part == "..":
			done = path.Dir(done)
			continue
		}
		next := path.Join(done, part)
		info, err := r.Lstat(filepath.FromSlash(next))
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			done = next // what is missing here is missing for whoever opens it
			continue
		}
		if links++; links > 40 {
			return "", errors.New("too many symbolic links")
		}
		target, err := r.Readlink(filepath.FromSlash(next))
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(target) {
			var ok bool
			if target, ok = r.Below(target); !ok {
				return "", ErrLeaves
			}
			done = "."
		}
		rest = filepath.ToSlash(target) + "/" + rest
	}
	return done, nil
}

// Regular opens a regular file below a root, which has no symbolic link that leads out. It does not wait for the other end of a FIFO.
func Regular(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	return regular(filepath.FromSlash(name), root.Stat, root.OpenFile)
}

// Exact is Regular for a path without links, as Resolve returns it: it opens the file at exactly
// that path, even if a part of the path is replaced by a link meanwhile.
func (r *Root) Exact(name string) (f *os.File, info fs.FileInfo, err error) {
	for range 3 { // an editor exchanges a file for its next version
		if f, info, err = r.exact(name); !errors.Is(err, ErrMoved) {
			break
		}
	}
	return f, info, err
}

func (r *Root) exact(name string) (*os.File, fs.FileInfo, error) {
	dir, base := path.Split(path.Clean(name))
	at, opened := r.Root, []*os.Root(nil)
	defer func() {
		for _, dir := range opened {
			dir.Close()
		}
	}()
	for part := range strings.SplitSeq(strings.TrimSuffix(dir, "/"), "/") {
		if part == "" {
			continue
		}
		next, err := at.OpenRoot(part)
		if err == nil {
			opened = append(opened, next)
			var info fs.FileInfo
			if info, err = next.Stat("."); err == nil {
				err = still(at, part, info)
			}
		}
		if err != nil {
			return nil, nil, err
		}
		at = next
	}
	f, info, err := Regular(at, base)
	if err == nil {
		if err = still(at, base, info); err != nil {
			f.Close()
			return nil, nil, err
		}
	}
	return f, info, err
}

// still returns an error unless the opened file itself, and not a link, has the name in a folder.
func still(dir *os.Root, name string, opened fs.FileInfo) error {
	info, err := dir.Lstat(name)
	if err == nil && !os.SameFile(info, opened) {
		err = ErrMoved
	}
	return err
}

func regular(name string, stat func(string) (fs.FileInfo, error), open func(string, int, fs.FileMode) (*os.File, error)) (*os.File, fs.FileInfo, error) {
	// Opening a device may have side effects, so the type is checked before; it is checked again
	// afterwards, since a device may have replaced the file.
	if info, err := stat(name); err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		return nil, nil, ErrNotRegular
	}
	f, err := open(name, os.O_RDONLY|NonBlock, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.IsDir():
		err = ErrFolder
	case !info.Mode().IsRegular():
		err = ErrNotRegular
	default:
		return f, info, nil
	}
	f.Close()
	return nil, nil, err
}

// ReadFile reads a regular file of at most so many bytes, wherever it is.
func ReadFile(name string, most int64) ([]byte, error) {
	f, _, err := regular(name, os.Stat, os.OpenFile)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadAll(f, most)
}

// ReadAll reads a file to its end, up to a maximum number of bytes.
func ReadAll(f io.Reader, most int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		return nil, ErrTooLarge
	}
	return b, err
}
