package docindex

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// paths are those of the files in which a word is found.
func paths(t testing.TB, ix *Index, word string, may func(string) bool) []string {
	t.Helper()
	hits, err := ix.Search(t.Context(), word, 100, may)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, h := range hits.Passages {
		out = append(out, h.Path)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// TestExcluded: what must not be read is not indexed; what an older index has of it is neither found nor left on disk.
func TestExcluded(t *testing.T) {
	dir := folder(t, map[string]string{"a.md": "zebra one\n", "private/b.md": "zebra quokkaword\n", "c.md": "zebra three\n", "d.md": "four", "e.md": "five", "f.md": "six", "g.md": "seven"})
	cache := t.TempDir()
	private := func(name string) bool { return strings.HasPrefix(name, "private/") }
	older := open(t, dir, cache)
	if got := paths(t, older, "zebra", nil); !slices.Equal(got, []string{"a.md", "c.md", "private/b.md"}) {
		t.Fatal(got)
	}
	if got := paths(t, older, "zebra", func(name string) bool { return !private(name) }); !slices.Equal(got, []string{"a.md", "c.md"}) {
		t.Errorf("asked with a rule that is newer than the index: %q", got)
	}
	if !onDisk(t, cache, "quokkaword") {
		t.Fatal("the index does not hold the word, so this test shows nothing")
	}
	for range 2 { // built again, and then used as it is
		ix, err := Open(t.Context(), dir, &Options{CacheDir: cache, Excluded: private})
		if err != nil {
			t.Fatal(err)
		}
		if got := paths(t, ix, "zebra", nil); !slices.Equal(got, []string{"a.md", "c.md"}) || !slices.Equal(ix.Excluded(), []string{"private/b.md"}) {
			t.Errorf("%q, excluded %q", got, ix.Excluded())
		}
		if onDisk(t, cache, "quokkaword") {
			t.Error("the older text is still on disk")
		}
		if err := ix.Close(); err != nil {
			t.Error(err)
		}
	}
	// An index that is refused is not brought up to date; it holds nothing of the kind all the same.
	open(t, dir, cache)
	var limit *LimitError
	if _, err := Open(t.Context(), dir, &Options{CacheDir: cache, Excluded: private, Limits: &Limits{2, 1 << 20, time.Minute}}); !errors.As(err, &limit) || onDisk(t, cache, "quokkaword") {
		t.Errorf("%v; on disk: %v", err, onDisk(t, cache, "quokkaword"))
	}
}

// A rule on a file holds for it compressed, too.
func TestExcludedPacked(t *testing.T) {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	if _, err := w.Write([]byte("zebra secret\n")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	dir := folder(t, map[string]string{"prod.env.gz": z.String()})
	secret := func(name string) bool { return strings.HasSuffix(name, ".env") }
	if got := paths(t, open(t, dir, t.TempDir()), "zebra", nil); len(got) != 1 {
		t.Fatal(got)
	}
	if got := paths(t, open(t, dir, t.TempDir()), "zebra", func(name string) bool { return !secret(name) }); len(got) != 0 {
		t.Errorf("searched: %q", got)
	}
	ix, err := Open(t.Context(), dir, &Options{CacheDir: t.TempDir(), Excluded: secret})
	if err != nil {
		t.Fatal(err)
	}
	defer ix.Close()
	if got := paths(t, ix, "zebra", nil); len(got) != 0 || Has(t.Context(), dir, secret) {
		t.Errorf("indexed: %q", got)
	}
}

// A folder may be named by a symbolic link to it.
func TestHasLinked(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(folder(t, map[string]string{"a.md": "zebra\n"}), link); err != nil {
		t.Skip(err)
	}
	if !Has(t.Context(), link, nil) {
		t.Error("nothing is found through the link")
	}
}

// A brief is no document, whatever its name; one that only speaks of the mark is.
func TestBriefIsNoDocument(t *testing.T) {
	dir := folder(t, map[string]string{
		"notes.md": "zebra\n\n" + BriefMark + "\n", "brief-1a2b3c4d.md": "zebra in a file of that name\n", "about.md": "zebra " + BriefMark + "\nand more of it\n",
	})
	if got := paths(t, open(t, dir, t.TempDir()), "zebra", nil); slices.Contains(got, "notes.md") || len(got) != 2 {
		t.Errorf("%q", got)
	}
}

// A full disk names the folder and the remedy.
func TestFull(t *testing.T) {
	b := builder{cache: filepath.Join(t.TempDir(), "x.db")}
	for name, full := range map[string]func(c *sqlite.Conn) error{
		"database": func(c *sqlite.Conn) error {
			return sqlitex.ExecuteScript(c, `pragma max_page_count = 1; create table a(b); create table c(d);`, nil)
		},
		"file": func(*sqlite.Conn) error { return &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC} },
	} {
		_, err := b.publish(func(*os.File) error { return nil }, full)
		remedy := "free space for the cache folder " + filepath.Dir(b.cache) + ", or set SUPERSTEP_CACHE_DIR"
		if err == nil || !strings.Contains(err.Error(), remedy) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func onDisk(t testing.TB, cache, word string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(cache, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(name string) bool {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Contains(b, []byte(word))
	})
}

func TestIgnored(t *testing.T) {
	files := map[string]string{
		".gitignore":     "# comment\n*.log\n/build\nout/\n!keep.log\n\\#odd.md\ntrailing.md   \ndocs/*.tmp.md\n**/deep/gone.md\nwith{brace}.md\n[bad\n",
		"sub/.gitignore": "!again.log\nlocal.md\n", ".git/info/exclude": "excluded.md\n", ".git/hidden.md": "",
	}
	found := []string{"a.md", "keep.log", "sub/again.log", "sub/build/x.md", "docs/sub/x.tmp.md", "outer/out.md", "local.md"}
	for _, name := range slices.Concat(found, []string{
		"x.log", "sub/y.log", "build/x.md", "out/x.md", "sub/out/x.md", "#odd.md", "trailing.md", "docs/x.tmp.md", "a/deep/gone.md", "with{brace}.md", "sub/local.md", "excluded.md", "sub/excluded.md",
		".hidden.md", ".config/x.md", "sub/.hidden/x.md", "node_modules/x.md",
	}) {
		files[name] = "zebra in " + name + "\n"
	}
	got := paths(t, open(t, folder(t, files), t.TempDir()), "zebra", nil)
	slices.Sort(found)
	if !slices.Equal(got, found) {
		t.Errorf("found %q,\nwant  %q", got, found)
	}
}

func TestLimits(t *testing.T) {
	files := map[string]string{}
	for i := range 10 {
		files[fmt.Sprintf("%d.md", i)] = strings.Repeat("zebra ", 100)
	}
	dir, cache := folder(t, files), t.TempDir()
	for _, tc := range []struct {
		limits Limits
		want   string
	}{
		{Limits{9, 1 << 20, time.Minute}, "9 files"}, {Limits{10, 5_999, time.Minute}, "0 MB"}, {Limits{10, 6_000, time.Minute}, ""}, {Limits{10, 6_000, -1}, "of work"},
	} {
		ix, err := Open(t.Context(), dir, &Options{CacheDir: cache, Limits: &tc.limits})
		var limit *LimitError
		if errors.As(err, &limit) != (tc.want != "") || limit != nil && (!strings.Contains(limit.Limit, tc.want) || limit.Dir != ix0(dir)) {
			t.Errorf("%+v: %v", tc.limits, err)
		}
		if ix != nil {
			if s := ix.Stats(); s.Files != 10 || s.Bytes != 6_000 {
				t.Errorf("%+v", s)
			}
			ix.Close()
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := Open(ctx, dir, &Options{CacheDir: cache}); !errors.Is(err, context.Canceled) {
		t.Errorf("a stop is no limit: %v", err)
	}
	var told []int
	ix, err := Open(t.Context(), dir, &Options{CacheDir: t.TempDir(), Progress: func(read, all int, bytes int64) {
		told = append(told, read)
		if all != 10 || bytes != int64(read)*600 {
			t.Errorf("%d of %d, %d bytes", read, all, bytes)
		}
	}})
	if err != nil || len(told) != 10 {
		t.Errorf("%v %v", told, err)
	} else {
		ix.Close()
	}
}

// ix0 is a folder without symbolic links.
func ix0(dir string) string {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		panic(err)
	}
	return real
}

// The files that a user may name are of every kind, and there are no more of them than wanted.
func TestFiles(t *testing.T) {
	dir := folder(t, map[string]string{"a.md": "x", "picture.png": "x", "sub/main.go": "x", "secret.key": "x", ".hidden": "x", "x.log": "x", ".gitignore": "*.log\n"})
	excluded := func(name string) bool { return name == "secret.key" }
	got, err := Files(t.Context(), dir, 10, excluded)
	if want := []string{"a.md", "picture.png", "sub/main.go"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q %v", got, err)
	}
	if got, err = Files(t.Context(), dir, 2, excluded); err != nil || len(got) != 2 {
		t.Errorf("%q %v", got, err)
	}
}
