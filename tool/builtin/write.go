package builtin

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/superstep-dev/superstep/tool"
)

const largestWrite = 8 << 20 // bytes of a file that is written or edited

// refuse returns the error for a path that must not be written, as it was given or where its links
// lead.
func (r *Root) refuse(name, rel string) error {
	if r.protected == nil {
		return nil
	}
	asked, err := r.local(name)
	if err != nil {
		return err
	}
	for _, p := range []string{asked, rel} {
		if why := r.protected(p); why != "" {
			return fmt.Errorf("path %s must not be written: %s", name, why)
		}
	}
	return nil
}

// WriteFile returns the tool "write_file", which writes a whole file below root. The
// file is replaced at once and durably: a reader and a crash see the old content or the
// new. Missing folders are made. A new file gets mode 0644, an existing one keeps its
// own.
func WriteFile(root *Root) *tool.Tool {
	type args struct {
		Path    string `json:"path" jsonschema:"the file, relative to the working folder"`
		Content string `json:"content" jsonschema:"all that the file is to contain"`
	}
	t := made(tool.NewRaw("write_file", "Write a text file, replacing what is there. Missing folders are made.",
		func(ctx context.Context, c *tool.Call, in args) (string, error) {
			if err := root.write(ctx, in.Path, in.Content, c.Approved); err != nil {
				return "", err
			}
			return fmt.Sprintf("wrote %s: %d lines, %d bytes", in.Path, countOf(in.Content), len(in.Content)), nil
		}, &tool.Options{Effect: tool.Idempotent}))
	t.Preview = func(_ context.Context, c *tool.Call) (*tool.Change, error) {
		var in args
		if err := json.Unmarshal(c.Args, &in); err != nil {
			return nil, err
		}
		return root.preview(in.Path, func(string, bool) (string, error) { return in.Content, nil })
	}
	return t
}

func (r *Root) write(ctx context.Context, name, content, approved string) error {
	if len(content) > largestWrite {
		return fmt.Errorf("path %s: %d bytes are over %d MiB; write less", name, len(content), largestWrite>>20)
	}
	r.writing.Lock()
	defer r.writing.Unlock()
	p, err := r.place(name, true)
	if err != nil {
		return err
	}
	defer p.dir.Close()
	if approved != "" {
		before, err := p.text()
		if err != nil {
			return err
		}
		if err := seen(name, before, content, p.mode == 0, approved); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return p.replace(content)
}

// A place is the location of an existing or new file.
type place struct {
	root  *Root
	name  string   // as asked for
	dir   *os.Root // its folder: from here on everything happens there, whatever becomes of the path that led to it
	base  string
	mode  fs.FileMode // of the file, 0 if there is none
	added []string    // folders that were made
}

// place opens the folder of a file to write, and creates the folder if asked to. The caller must close it.
func (r *Root) place(name string, mkdirs bool) (*place, error) {
	rel, err := r.resolve(name)
	if err != nil {
		return nil, err
	}
	if rel == "." || strings.HasSuffix(name, "/") {
		return nil, fmt.Errorf("path %s in %s: is a directory; name a file in it", name, r.Dir())
	}
	if err := r.refuse(name, rel); err != nil {
		return nil, err
	}
	if r.writes != nil {
		r.writes(filepath.Join(r.root.Real, filepath.FromSlash(rel)))
	}
	dir, base := path.Split(rel)
	dir = path.Clean(dir)
	p := &place{root: r, name: name, base: base}
	if mkdirs {
		if p.added, err = r.mkdirs(dir); err != nil {
			return nil, r.explain(name, err)
		}
	}
	if p.dir, err = r.root.OpenRoot(filepath.FromSlash(dir)); err != nil {
		return nil, r.explain(name, err)
	}
	switch info, err := p.dir.Lstat(base); {
	case err == nil && info.IsDir():
		err = fmt.Errorf("path %s in %s: is a directory; name a file in it", name, r.Dir())
		p.dir.Close()
		return nil, err
	case err == nil && info.Mode().IsRegular():
		p.mode = info.Mode().Perm()
	case err == nil:
		p.dir.Close()
		return nil, fmt.Errorf("path %s in %s: is not a regular file", name, r.Dir())
	case !errors.Is(err, fs.ErrNotExist):
		p.dir.Close()
		return nil, r.explain(name, err)
	}
	return p, nil
}

// replace writes new content to the file. A rename replaces a link rather than following it.
func (p *place) replace(content string) error {
	if err := replace(p.dir, p.base, content, p.mode); err != nil {
		return p.root.explain(p.name, fmt.Errorf("write: %w", err))
	}
	for _, a := range p.added {
		if err := syncDir(p.root.root.Root, path.Dir(a)); err != nil {
			return p.root.explain(p.name, fmt.Errorf("make folder durable: %w", err))
		}
	}
	return nil
}

// mkdirs creates the missing folders of a path and returns them.
func (r *Root) mkdirs(dir string) ([]string, error) {
	var missing []string
	for d := dir; d != "."; d = path.Dir(d) {
		if _, err := r.root.Lstat(filepath.FromSlash(d)); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		missing = append(missing, d)
	}
	if len(missing) == 0 {
		return nil, nil
	}
	return missing, r.root.MkdirAll(filepath.FromSlash(dir), 0o755)
}

// replace writes new content to a file in d through a temporary file beside it. Mode 0 means the default mode of a new file.
func replace(d *os.Root, base, content string, mode fs.FileMode) (err error) {
	tmp := ".superstep-" + rand.Text() + ".tmp"
	f, err := d.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			d.Remove(tmp)
		}
	}()
	if _, err := io.WriteString(f, content); err != nil {
		return err
	}
	if mode != 0 {
		if err := f.Chmod(mode); err != nil {
			return err
		}
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := d.Rename(tmp, base); err != nil {
		return err
	}
	return syncDir(d, ".")
}
