package builtin

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/tool"
)

const (
	readLines = 1900                  // read at once unless asked for fewer
	textBytes = clean.MaxBytes - 1000 // of output before its own last line
	lineBytes = 2000                  // of a line; the rest is cut
	listed    = 1000                  // entries of a folder, and files a pattern matches
)

// made returns the tool of a constructor whose schema is fixed, so that it cannot fail.
func made(t *tool.Tool, err error) *tool.Tool {
	if err != nil {
		panic(err)
	}
	return t
}

// ReadFile returns the tool "read_file", which reads lines of a text file below root.
func ReadFile(root *Root) *tool.Tool {
	type args struct {
		Path   string `json:"path" jsonschema:"the file, relative to the working folder"`
		Offset int    `json:"offset,omitempty" jsonschema:"the first line to read, counting from 1; defaults to 1"`
		Limit  int    `json:"limit,omitempty" jsonschema:"how many lines to read at most; defaults to 1900"`
	}
	return made(tool.NewRaw("read_file", "Read a text file. Each line of the output is its number, a tab and the line. Long files come in "+
		"parts: go on with offset.",
		func(ctx context.Context, c *tool.Call, in args) (string, error) {
			if in.Offset < 0 || in.Limit < 0 {
				return "", fmt.Errorf("offset %d and limit %d: must not be negative", in.Offset, in.Limit)
			}
			f, info, err := root.openFor(c, in.Path)
			if err != nil {
				return "", err
			}
			defer f.Close()
			if c.Raw {
				return root.readRaw(f, info, in.Path, in.Offset, in.Limit)
			}
			return root.read(ctx, f, info, in.Path, max(in.Offset, 1), min(cmp.Or(in.Limit, readLines), readLines))
		}, &tool.Options{Effect: tool.Pure}))
}

func (r *Root) read(ctx context.Context, f *os.File, info fs.FileInfo, name string, first, limit int) (string, error) {
	if binary, err := isBinary(f); err != nil {
		return "", r.explain(name, err)
	} else if binary {
		return "", fmt.Errorf("path %s in %s: is a binary file (%s, %d bytes); only text can be read", name, r.Dir(), contentType(f), info.Size())
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

// rawBytes is the largest file that is read as data.
const rawBytes = 1 << 20

// readRaw returns the bytes of a text file, or of the lines from first on, limit at most; 0 is from the start, or to the end.
func (r *Root) readRaw(f *os.File, info fs.FileInfo, name string, first, limit int) (string, error) {
	all, err := io.ReadAll(io.LimitReader(f, rawBytes+1))
	switch {
	case err != nil:
		return "", r.explain(name, err)
	case len(all) > rawBytes:
		return "", fmt.Errorf("path %s: has %d bytes, over %d MiB; split it, or have an agent read it in parts", name, info.Size(), rawBytes>>20)
	case !utf8.Valid(all):
		return "", fmt.Errorf("path %s: is not UTF-8, so that it cannot be handed on as text", name)
	}
	lines := strings.SplitAfter(string(all), "\n")
	if first > len(lines) || first == len(lines) && first > 1 && lines[first-1] == "" {
		return "", fmt.Errorf("path %s: has fewer than %d lines", name, first)
	}
	lines = lines[max(first, 1)-1:]
	if limit > 0 {
		lines = lines[:min(limit, len(lines))]
	}
	return strings.Join(lines, ""), nil
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

// Ls returns the tool "ls", which lists a folder below root.
func Ls(root *Root) *tool.Tool {
	type args struct {
		Path string `json:"path,omitempty" jsonschema:"the folder, relative to the working folder, which is the default"`
	}
	return made(tool.NewRaw("ls", "List a folder: folders end in /, files are followed by a tab and their size in bytes, links by -> and what they name.",
		func(ctx context.Context, c *tool.Call, in args) (string, error) {
			if in.Path == "" {
				in.Path = "."
			}
			dir, list, err := root.entries(in.Path)
			if err != nil {
				return "", err
			}
			if len(list) == 0 && !c.Raw {
				return "[" + in.Path + " is empty]", nil
			}
			s := root.sight(c, "ls", in.Path)
			list = slices.DeleteFunc(list, func(e fs.DirEntry) bool { return !s.sees(root.names(path.Join(dir, e.Name()), e)...) })
			var out bytes.Buffer
			for i, e := range list {
				if i == listed && c.Raw {
					return "", fmt.Errorf("path %s: has over %d entries; use glob to pick some", in.Path, listed)
				}
				if i == listed {
					fmt.Fprintf(&out, "[%d more entries; use glob to pick some]\n", len(list)-listed)
					break
				}
				out.WriteString(root.entry(in.Path, e) + "\n")
			}
			if !c.Raw {
				out.WriteString(s.note())
			}
			return out.String(), ctx.Err()
		}, &tool.Options{Effect: tool.Pure}))
}

// shown formats a name for a list: it quotes special characters, so that no two names look the same and each fits on one line.
func shown(name string) string {
	if strings.ContainsAny(name, "\n\t") || clean.Text(name) != name {
		return strconv.QuoteToASCII(name)
	}
	return name
}

// names returns the name of an entry and, for a link, its target.
func (r *Root) names(name string, e fs.DirEntry) []string {
	if e.Type()&fs.ModeSymlink != 0 {
		if rel, err := r.resolve(name); err == nil {
			return []string{name, rel}
		}
	}
	return []string{name}
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
