package catalog

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/internal/catalog/trust"
	"github.com/superstep-dev/superstep/internal/script"
	"github.com/superstep-dev/superstep/tool/mcp"
)

// These limits apply to reading a file in order to show its changes.
const (
	longestText   = 64 << 10
	longestDigest = 8 << 20 // of longer files the beginning, and when they changed
)

// file returns a file of the project in the form that is stored for comparison: with its content if
// the content is text and not too long. It returns false if the project has no such file.
func (c *Catalog) file(path string) (trust.File, bool) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil || !within(c.folder, real) {
		return trust.File{}, false
	}
	info, err := os.Stat(real)
	if err != nil || !info.Mode().IsRegular() {
		return trust.File{}, false
	}
	f, err := os.Open(real)
	if err != nil {
		return trust.File{}, false
	}
	defer f.Close()
	out := trust.File{Name: c.rel(path)}
	head, err := io.ReadAll(io.LimitReader(f, longestText+1))
	if err != nil {
		return trust.File{}, false
	}
	h := sha256.New()
	h.Write(head)
	switch {
	case len(head) > longestText:
		if _, err := io.CopyN(h, f, longestDigest-int64(len(head))); err == nil {
			h.Write([]byte(info.ModTime().UTC().String()))
		}
		out.Bare = true
	case bytes.IndexByte(head, 0) >= 0 || !utf8.Valid(head):
		out.Bare = true
	default:
		out.Text = string(head)
	}
	out.Digest = "sha256:" + hex.EncodeToString(h.Sum(nil))
	return out, true
}

func (c *Catalog) files(paths ...string) []trust.File {
	var out []trust.File
	seen := map[string]bool{}
	for _, path := range paths {
		if f, ok := c.file(path); ok && !seen[f.Name] {
			seen[f.Name] = true
			out = append(out, f)
		}
	}
	return out
}

// single returns the content of an item that is one file with a digest. If the file has changed
// since, the content is not stored, because the user must see exactly the content that is trusted.
func (c *Catalog) single(path, digest string) func() []trust.File {
	return func() []trust.File {
		f, ok := c.file(path)
		if !ok || f.Digest != digest {
			return nil
		}
		return []trust.File{f}
	}
}

// scriptFiles returns the files that the digest of a script covers, the script first.
func (c *Catalog) scriptFiles(f *script.Found) []trust.File {
	paths := []string{f.Path}
	for _, name := range f.Files {
		paths = append(paths, filepath.Join(f.Scope.Root, filepath.FromSlash(name)))
	}
	return c.files(paths...)
}

// serverFiles returns the description of a server for users, and the files of the project that its
// command names.
func (c *Catalog) serverFiles(s *mcp.Server) []trust.File {
	dir := c.folder
	place := func(text string) string { return strings.ReplaceAll(text, "${workspaceFolder}", c.folder) }
	if s.Dir != "" {
		if dir = place(s.Dir); !filepath.IsAbs(dir) {
			dir = filepath.Join(c.folder, dir)
		}
	}
	var paths []string
	for _, word := range append([]string{s.Command}, s.Args...) {
		_, value, _ := strings.Cut(word, "=")
		for _, name := range []string{word, value} {
			name = place(strings.TrimPrefix(name, "file://"))
			switch {
			case name == "" || len(name) > 4096:
			case filepath.IsAbs(name):
				paths = append(paths, name)
			default:
				paths = append(paths, filepath.Join(dir, name))
			}
		}
	}
	review := trust.File{Name: c.rel(s.Source.Path) + " (server " + s.Name + ")", Text: c.review(s)}
	return append([]trust.File{review}, c.files(paths...)...)
}
