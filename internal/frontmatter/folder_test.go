package frontmatter_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/superstep-dev/superstep/internal/frontmatter"
)

// tree writes files; a value of "-> x" is a symbolic link.
func tree(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		p := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		var err error
		if to, ok := strings.CutPrefix(text, "-> "); ok {
			err = os.Symlink(to, p)
		} else {
			err = os.WriteFile(p, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func open(t *testing.T, dir string) *frontmatter.Folder {
	t.Helper()
	f, err := frontmatter.OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

func TestEntries(t *testing.T) {
	t.Parallel()
	outside, dir := t.TempDir(), t.TempDir()
	tree(t, outside, map[string]string{"secret": "s"})
	tree(t, dir, map[string]string{
		"base/b.md": "b", "base/a/x.md": "x", "base/a/deep/y.md": "y", "base/skip/z.md": "z", "other/o.md": "o",
		"base/aa-link.md": "-> a/x.md", "base/aa-dir": "-> ../other", "base/a-loop": "-> a", "base/a/deep/up": "-> ../..",
		"base/abs.md": "-> " + filepath.Join(dir, "other", "o.md"), "base/out.md": "-> " + filepath.Join(outside, "secret"),
		"base/out2": "-> ../../../../../../../../etc", "base/gone.md": "-> nowhere", "base/circle": "-> circle",
	})
	f := open(t, dir)
	entries := func(w *frontmatter.Walk) []string {
		list, cut := f.Entries("base", w)
		var got []string
		for _, e := range list {
			s := e.Path
			if e.Link {
				s += " link"
			}
			if e.Err != nil {
				s += ": " + e.Err.Error()
			}
			got = append(got, s)
		}
		if cut {
			got = append(got, "cut")
		}
		return got
	}
	skip := func(d string, _ []string) bool { return !strings.HasSuffix(d, "skip") }
	want := []string{
		"base/a/deep/y.md", "base/a/x.md", "base/aa-dir/o.md link", "base/aa-link.md link", "base/abs.md link", "base/b.md",
		"base/circle link: too many symbolic links", "base/gone.md link: no such file or directory",
		"base/out.md link: a symbolic link leads out of the folder; it is not followed",
		"base/out2 link: a symbolic link leads out of the folder; it is not followed",
	}
	if diff := cmp.Diff(want, entries(&frontmatter.Walk{Entries: 100, Depth: 9, Enter: skip})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := entries(&frontmatter.Walk{Entries: 3, Depth: 9}); len(got) > 4 || got[len(got)-1] != "cut" {
		t.Errorf("cut at 3: %q", got)
	}
	if got := entries(&frontmatter.Walk{Entries: 100, Depth: 1, Enter: skip}); got[len(got)-1] != "cut" || strings.Contains(fmt.Sprint(got), "y.md") {
		t.Errorf("cut at depth 1: %q", got)
	}
	if list, _ := f.Entries("none", &frontmatter.Walk{Entries: 9, Depth: 9}); len(list) != 0 {
		t.Errorf("a folder that is not there: %v", list)
	}
	if list, _ := f.Entries("base/out2", &frontmatter.Walk{Entries: 9, Depth: 9}); len(list) != 1 || list[0].Err == nil {
		t.Errorf("a folder outside: %v", list)
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	outside, dir := t.TempDir(), t.TempDir()
	tree(t, outside, map[string]string{"secret": "s"})
	tree(t, dir, map[string]string{"sub/a": "text", "sub/in": "-> a", "sub/over": "-> ../b", "b": "b", "out": "-> " + filepath.Join(outside, "secret")})
	if err := mkfifo(filepath.Join(dir, "fifo")); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		t.Fatal(err)
	}
	f := open(t, dir)
	sub, err := f.Sub("sub")
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	for _, c := range []struct {
		f          *frontmatter.Folder
		name, want string
		err        string
	}{
		{f, "sub/a", "text", ""}, {f, "sub/../b", "b", ""}, {f, "sub/over", "b", ""}, {f, "out", "", "leads out"},
		{f, "../x", "", "outside"}, {f, "/etc/passwd", "", "outside"}, {f, "sub", "", "folder"}, {f, "fifo", "", "not a regular file"},
		{f, "none", "", "no such file"}, {f, "", "", "folder"},
		{sub, "a", "text", ""}, {sub, "in", "text", ""}, {sub, "over", "", "leads out"}, {sub, "../b", "", "outside"},
	} {
		if c.name == "fifo" && mkfifo(filepath.Join(dir, "fifo2")) != nil {
			continue
		}
		b, err := c.f.Read(c.name, 100)
		if string(b) != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %q %v, want %q %s", c.name, b, err, c.want, c.err)
		}
	}
	var e *frontmatter.Error
	if _, err := f.Read("sub/a", 3); !errors.As(err, &e) || e.Code != frontmatter.TooLarge {
		t.Errorf("too large: %v", err)
	}
	if _, err := frontmatter.OpenFolder(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
	if _, err := f.Sub("out"); err == nil {
		t.Error("opened a folder outside")
	}
}
