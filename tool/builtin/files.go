package builtin

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/tool"
)

const (
	readLines = 1900                 // read at once unless asked for fewer
	textBytes = tool.MaxBytes - 1000 // of output before its own last line
	lineBytes = 2000                 // of a line; the rest is cut
	listed    = 1000                 // entries of a folder, and files a pattern matches
)

// made returns the tool of a constructor whose schema is fixed, so that it cannot fail.
func made(t *tool.Tool, err error) *tool.Tool {
	if err != nil {
		panic(err)
	}
	return t
}

// Think returns the tool "think", which records a reflection and changes nothing.
func Think() *tool.Tool {
	type args struct {
		Reflection string `json:"reflection" jsonschema:"your current thinking: what you know, what is missing, what to do next"`
	}
	return made(tool.New("think", "Stop and reflect before a decision. It looks nothing up and changes nothing; the reflection is recorded.",
		func(_ context.Context, in args) (string, error) {
			return "Reflection recorded. Continue on its basis:\n\n> " + strings.ReplaceAll(in.Reflection, "\n", "\n> "), nil
		}, &tool.Options{Effect: tool.Pure}))
}

// ReadFile returns the tool "read_file", which reads lines of a text file below root.
func ReadFile(root *Root) *tool.Tool {
	type args struct {
		Path   string `json:"path" jsonschema:"the file, relative to the working folder"`
		Offset int    `json:"offset,omitempty" jsonschema:"the first line to read, counting from 1; defaults to 1"`
		Limit  int    `json:"limit,omitempty" jsonschema:"how many lines to read at most; defaults to 1900"`
	}
	return made(tool.New("read_file", "Read a text file. Each line of the output is its number, a tab and the line. Long files come in parts: go on with offset.",
		func(ctx context.Context, in args) (string, error) {
			if in.Offset < 0 || in.Limit < 0 {
				return "", fmt.Errorf("offset %d and limit %d: must not be negative", in.Offset, in.Limit)
			}
			return root.read(ctx, in.Path, max(in.Offset, 1), min(cmp.Or(in.Limit, readLines), readLines))
		}, &tool.Options{Effect: tool.Pure}))
}

func (r *Root) read(ctx context.Context, name string, first, limit int) (string, error) {
	f, info, err := r.open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if binary, err := isBinary(f); err != nil {
		return "", r.explain(name, err)
	} else if binary {
		return "", fmt.Errorf("path %s in %s: is a binary file (%d bytes); only text can be read", name, r.dir, info.Size())
	}
	in := bufio.NewReaderSize(f, 64<<10)
	var out strings.Builder
	n := 0
	for {
		line, cut, err := readLine(in)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", r.explain(name, err)
		}
		n++
		if n%1000 == 0 && ctx.Err() != nil {
			return "", ctx.Err()
		}
		if n < first {
			continue
		}
		if n >= first+limit || out.Len()+len(line) > textBytes {
			fmt.Fprintf(&out, "[the file goes on; read it with offset %d]\n", n)
			break
		}
		fmt.Fprintf(&out, "%d\t%s", n, line)
		if cut > 0 {
			fmt.Fprintf(&out, "… [%d more bytes in this line]", cut)
		}
		out.WriteByte('\n')
	}
	switch {
	case n == 0:
		return "[" + name + " is empty]", nil
	case n < first:
		return "", fmt.Errorf("path %s: has %d lines, offset %d is past its end", name, n, first)
	}
	return out.String(), nil
}

// readLine returns the next line without its end, cut to lineBytes, and how many bytes
// were cut off.
func readLine(in *bufio.Reader) (line []byte, cut int, err error) {
	for more := true; more; {
		var part []byte
		part, more, err = in.ReadLine()
		if err == io.EOF && len(line) > 0 {
			return line, cut, nil
		}
		if err != nil {
			return nil, 0, err
		}
		room := lineBytes - len(line)
		if cut > 0 {
			room = 0
		}
		if len(part) > room {
			for room > 0 && !utf8.RuneStart(part[room]) {
				room--
			}
			cut += len(part) - room
			part = part[:room]
		}
		line = append(line, part...)
	}
	return line, cut, nil
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
	return made(tool.New("write_file", "Write a text file, replacing what is there. Missing folders are made.",
		func(ctx context.Context, in args) (string, error) {
			if err := root.write(ctx, in.Path, in.Content); err != nil {
				return "", err
			}
			lines := strings.Count(in.Content, "\n")
			if in.Content != "" && !strings.HasSuffix(in.Content, "\n") {
				lines++
			}
			return fmt.Sprintf("wrote %s: %d lines, %d bytes", in.Path, lines, len(in.Content)), nil
		}, &tool.Options{Effect: tool.Idempotent}))
}

func (r *Root) write(ctx context.Context, name, content string) error {
	rel, err := r.resolve(name)
	if err != nil {
		return err
	}
	if rel == "." || strings.HasSuffix(name, "/") {
		return fmt.Errorf("path %s in %s: is a directory; name a file in it", name, r.dir)
	}
	dir, base := path.Split(rel)
	dir = path.Clean(dir)
	added, err := r.mkdirs(dir)
	if err != nil {
		return r.explain(name, err)
	}
	// From here on everything happens in the folder that was opened, whatever becomes of
	// the path that led to it; and a rename replaces a link rather than following it.
	d, err := r.root.OpenRoot(filepath.FromSlash(dir))
	if err != nil {
		return r.explain(name, err)
	}
	defer d.Close()
	mode := fs.FileMode(0)
	switch info, err := d.Lstat(base); {
	case err == nil && info.IsDir():
		return fmt.Errorf("path %s in %s: is a directory; name a file in it", name, r.dir)
	case err == nil && info.Mode().IsRegular():
		mode = info.Mode().Perm()
	case err == nil:
		return fmt.Errorf("path %s in %s: is not a regular file", name, r.dir)
	case !errors.Is(err, fs.ErrNotExist):
		return r.explain(name, err)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := replace(d, base, content, mode); err != nil {
		return r.explain(name, fmt.Errorf("write: %w", err))
	}
	for _, a := range added {
		if err := syncDir(r.root, path.Dir(a)); err != nil {
			return r.explain(name, fmt.Errorf("make folder durable: %w", err))
		}
	}
	return nil
}

// mkdirs makes the missing folders of a path and returns them.
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

// replace gives a file in d new content through a temporary file beside it. A mode of 0
// means that of a new file.
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

// Ls returns the tool "ls", which lists a folder below root.
func Ls(root *Root) *tool.Tool {
	type args struct {
		Path string `json:"path,omitempty" jsonschema:"the folder, relative to the working folder, which is the default"`
	}
	return made(tool.New("ls", "List a folder: folders end in /, files are followed by a tab and their size in bytes, links by -> and what they name.",
		func(ctx context.Context, in args) (string, error) {
			if in.Path == "" {
				in.Path = "."
			}
			_, list, err := root.entries(in.Path)
			if err != nil {
				return "", err
			}
			if len(list) == 0 {
				return "[" + in.Path + " is empty]", nil
			}
			var out bytes.Buffer
			for i, e := range list {
				if i == listed {
					fmt.Fprintf(&out, "[%d more entries; use glob to pick some]\n", len(list)-listed)
					break
				}
				out.WriteString(root.entry(in.Path, e) + "\n")
			}
			return out.String(), ctx.Err()
		}, &tool.Options{Effect: tool.Pure}))
}

// shown is a name as a list has it: quoted if it holds what a list must not, so that no
// two names look the same and each is on a line of its own.
func shown(name string) string {
	if strings.ContainsAny(name, "\n\t") || tool.Clean(name) != name {
		return strconv.QuoteToASCII(name)
	}
	return name
}

func (r *Root) entry(dir string, e fs.DirEntry) string {
	name := shown(e.Name())
	switch {
	case e.IsDir():
		return name + "/"
	case e.Type()&fs.ModeSymlink != 0:
		rel, err := r.resolve(dir)
		if err == nil {
			if target, err := r.root.Readlink(filepath.Join(filepath.FromSlash(rel), e.Name())); err == nil {
				return name + " -> " + shown(target)
			}
		}
		return name + " -> ?"
	}
	info, err := e.Info()
	if err != nil {
		return name
	}
	if !info.Mode().IsRegular() {
		return name + "\t" + info.Mode().Type().String()
	}
	return fmt.Sprintf("%s\t%d", name, info.Size())
}
