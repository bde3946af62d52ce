// Package builtin provides the built-in tools of agents: files below one folder, search in documents and on the web, web pages, commands, and tools to
// think and to plan. A gate, outside this package, decides which calls are allowed; this package enforces limits that no call can exceed.
package builtin

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/superstep-dev/superstep/internal/inside"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/tool"
)

// A Root is a folder that tools cannot leave: not by "..", not by an absolute path, and
// not by a symbolic link, even one that is changed while a tool runs. Links that stay
// inside work. On Linux this does not hold for bind mounts, which are part of the tree
// they are mounted in. It is safe for use from several goroutines.
type Root struct {
	root *inside.Root

	protected func(path string) string
	writes    func(path string)
	reads     func(name, from string) func(file string) tool.Verdict

	writing sync.Mutex // held while a file is read, changed and replaced
}

// RootOptions limit what tools do in a folder. Nil means the defaults.
type RootOptions struct {
	// Protected returns the reason why a path must not be written, "" if it may be. It is called with paths relative to the folder, with slashes, both as
	// requested and with links resolved, even if no such file exists. If nil, nothing is protected.
	Protected func(path string) string
	// Writes, if non-nil, is called with the absolute path of a file before the file is written.
	Writes func(path string)
	// Reads decides which files the tools may reveal in a call that no gate has decided on; for other calls, tool.Call.Reads decides. Paths are relative
	// to the folder, without symbolic links. If nil, all files.
	Reads func(name, from string) func(file string) tool.Verdict
}

// OpenRoot opens a folder. Close it when no tool made from it is used any more.
func OpenRoot(dir string, opts *RootOptions) (*Root, error) {
	var o RootOptions
	if opts != nil {
		o = *opts
	}
	r, err := inside.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("folder %s: %w", dir, err)
	}
	return &Root{root: r, protected: o.Protected, writes: o.Writes, reads: o.Reads}, nil
}

// Dir returns the absolute path of the folder.
func (r *Root) Dir() string { return r.root.Dir }

// Close releases the folder.
func (r *Root) Close() error { return r.root.Close() }

// local returns a path as one relative to the root, cleaned, with slashes.
func (r *Root) local(name string) (string, error) {
	if strings.IndexByte(name, 0) >= 0 {
		return "", fmt.Errorf("path %q: contains a NUL character", name)
	}
	if filepath.IsAbs(name) {
		rel, ok := r.root.Below(name)
		if !ok {
			return "", r.outside(name)
		}
		name = rel
	}
	name = filepath.ToSlash(filepath.Clean(filepath.FromSlash(name)))
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return "", r.outside(name)
	}
	return name, nil
}

func (r *Root) outside(name string) error {
	return fmt.Errorf("path %s is outside %s; use a path inside that folder", name, r.Dir())
}

// resolve follows the symbolic links in a path, so that it names no link but possibly something that does not exist.
func (r *Root) resolve(name string) (string, error) {
	rel, err := r.local(name)
	if err != nil {
		return "", err
	}
	rel, err = r.root.Resolve(rel)
	switch {
	case errors.Is(err, inside.ErrLeaves):
		return "", fmt.Errorf("path %s leaves %s by a symbolic link; use a path that stays inside that folder", name, r.Dir())
	case err != nil:
		return "", r.explain(name, err)
	}
	return rel, nil
}

// explain turns an error of os.Root into one that names the path and the root.
func (r *Root) explain(name string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return r.missing(name)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("path %s in %s: permission denied: %w", name, r.Dir(), fs.ErrPermission)
	case errors.Is(err, inside.ErrFolder):
		return fmt.Errorf("path %s in %s: is a directory; list it instead", name, r.Dir())
	}
	return fmt.Errorf("path %s in %s: %w", name, r.Dir(), inside.Reason(err))
}

// missing returns the error for a file that does not exist, with suggestions.
func (r *Root) missing(name string) error {
	hint := "list the folder to see what there is"
	if rel, err := r.resolve(name); err == nil {
		if d, err := r.root.Open(filepath.FromSlash(path.Dir(rel))); err == nil {
			defer d.Close()
			names, _ := d.Readdirnames(5000)
			s := r.sight(nil, "ls", "")
			names = slices.DeleteFunc(names, func(n string) bool { return !s.sees(path.Join(path.Dir(rel), n)) })
			if near := suggest.Closest(path.Base(rel), names); near != "" {
				hint = fmt.Sprintf("did you mean %s?", path.Join(path.Dir(rel), near))
			}
		}
	}
	return fmt.Errorf("path %s in %s: %w; %s", name, r.Dir(), fs.ErrNotExist, hint)
}

// sub returns the folder of that path inside the root and its entries, sorted.
func (r *Root) entries(name string) (string, []fs.DirEntry, error) {
	rel, err := r.resolve(name)
	if err != nil {
		return "", nil, err
	}
	info, err := r.root.Stat(filepath.FromSlash(rel))
	if err != nil {
		return "", nil, r.explain(name, err)
	}
	if !info.IsDir() {
		return "", nil, fmt.Errorf("path %s in %s: is a file, not a directory", name, r.Dir())
	}
	list, err := fs.ReadDir(r.root.FS(), rel)
	if err != nil {
		return "", nil, r.explain(name, err)
	}
	return rel, list, nil
}

// contentType guesses the type of a binary file from its first bytes.
func contentType(f io.ReaderAt) string {
	head := make([]byte, 512)
	n, _ := f.ReadAt(head, 0) // what cannot be read is not known
	return http.DetectContentType(head[:n])
}

const sniffed = 8000 // bytes looked at to tell text from binary, as Git does

// isBinary looks for a NUL byte at the start of a file and leaves the offset there.
func isBinary(f *os.File) (bool, error) {
	head := make([]byte, sniffed)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, err
	}
	_, err = f.Seek(0, io.SeekStart)
	return bytes.IndexByte(head[:n], 0) >= 0, err
}
