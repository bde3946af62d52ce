package docindex

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/internal/faults"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// folder makes a folder of files that were last changed an hour ago.
func folder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		put(t, dir, name, content, time.Hour)
	}
	return dir
}

func put(t testing.TB, dir, name, content string, age time.Duration) {
	t.Helper()
	p := filepath.Join(dir, filepath.FromSlash(name))
	then := time.Now().Add(-age)
	if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(content), 0o644), os.Chtimes(p, then, then)); err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, dir, cache string) *Index {
	t.Helper()
	ix, err := Open(context.Background(), dir, &Options{CacheDir: cache})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ix.Close() })
	return ix
}

// search returns the hits as path:start-end, having checked that every line is in its file.
func search(t testing.TB, ix *Index, q string) []string {
	t.Helper()
	found, err := ix.Search(context.Background(), q, 10, nil)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, h := range found.Passages {
		verbatim(t, ix.Dir(), h)
		if !(h.Score >= 0 && h.Score <= 1) { // NaN neither
			t.Errorf("%q: score %v", q, h.Score)
		}
		out = append(out, fmt.Sprintf("%s:%d-%d", h.Path, h.Start, h.End))
	}
	return out
}

func verbatim(t testing.TB, dir string, h Passage) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(h.Path)))
	if err != nil {
		t.Fatal(err)
	}
	lines := Text(h.Path, raw)
	if len(h.Lines) == 0 {
		t.Errorf("%s: no lines", h.Path)
	}
	for _, l := range h.Lines {
		if l.N < h.Start || l.N > h.End || l.N > len(lines) || !bytes.Contains(lines[l.N-1], []byte(l.Text)) {
			t.Errorf("%s:%d: %q is not in the file", h.Path, l.N, l.Text)
		}
	}
}

func TestSearch(t *testing.T) {
	long := strings.Repeat("filler words without meaning ", 4000)
	dir := folder(t, map[string]string{
		"a/pacing.md":        "# Pacing\n\nThe collector starts a cycle when the heap doubles.\n",
		"a/pacing_test.go":   "package a\n\n// The collector starts a cycle when the heap doubles, says this test.\nfunc TestX() {}\n",
		"testdata/p.txt":     "The collector starts a cycle when the heap doubled.\n",
		"LICENSE":            "heap of legal words\n",
		"src/Transport.java": "class Transport {\n  boolean disableKeepAlives;\n}\n",
		"unicode.txt":        "Größe und Maß, 東京都庁舎 é.\nΑθήνα\n",
		"crlf.txt":           "first\r\nzymurgy line\r\n",
		"bad.txt":            "caf\xe9 quixotic latin\n",
		"huge.min.js":        long + "xylophone " + long,
		"phrase.txt":         "green big apples\n\nbig green pears\n",
		"bin.txt":            "nul\x00 xylophone",
		".git/x.md":          "xylophone",
		"node_modules/x.md":  "xylophone",
		"image.png":          "xylophone",
		"many.txt":           strings.Repeat(strings.Repeat("walrus\n", 50)+"\n", 6),
		"operators.txt":      "AND OR NOT NEAR star\n",
		"deep/er/Makefile":   "all: wombat\n",
		"page.html":          "<html><head><title>Herons</title><style>.ibis{}</style></head>\n<body><p>A <b>heron &amp; egret</b> stands\n<a\nhref=\"ibis\">long necked heron wading</a></p>\n<!-- ibis -->\n<script>ibis()</script></body>\n",
		"gc/a.md":            strings.Repeat("The garbage collector (GC) is here.\n\n", 3),
		"gc/b.md":            "# other\n\nthe GC pauses\n",
		"gc/c.md":            "garbage collector GC\n",
		"gc/d.md":            "garbage collector GC two\n",
		"gc/e.md":            "garbage collector GC three\n",
		"gc/f.md":            "garbage collector GC four\n",
		"gc/g.md":            "garbage collector five\n",
	})
	ix := open(t, dir, t.TempDir())
	for _, tc := range []struct{ query, first string }{
		{"when does the collector start a cycle?", "a/pacing.md:3-3"},
		{"STARTING CYCLES", "a/pacing.md:3-3"},
		{"keep alive", "src/Transport.java:1-3"},
		{"disablekeepalives", "src/Transport.java:1-3"},
		{"grösse größe", "unicode.txt:1-2"},
		{"東京", "unicode.txt:1-2"},
		{"ΑΘΉΝΑ", "unicode.txt:1-2"},
		{"zymurgy", "crlf.txt:1-2"},
		{"quixotic", "bad.txt:1-1"},
		{"xylophone", "huge.min.js:1-1"},
		{`"big green"`, "phrase.txt:1-3"},
		{"wombat makefile", "deep/er/Makefile:1-1"},
		{"heron wading", "page.html:2-4"},
		{"NEAR(star, 2) AND", "operators.txt:1-1"},
		{`star" OR "x`, "operators.txt:1-1"},
		{`star*^{}:-+"`, "operators.txt:1-1"},
		{"the and or", ""},
		{"", ""}, {"!!!", ""}, {"nowhere", ""}, {"ibis", ""}, {`"green big pears"`, ""},
	} {
		got := search(t, ix, tc.query)
		switch {
		case tc.first == "" && len(got) > 0, tc.first != "" && (len(got) == 0 || got[0] != tc.first):
			t.Errorf("%q: got %v want %s first", tc.query, got, tc.first)
		}
	}
	if got := search(t, ix, "walrus"); len(got) != 1 && len(got) != 2 {
		t.Errorf("hits in one file: %v", got)
	}
	hits, err := ix.Search(t.Context(), "heron", 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []Line{{2, "A heron & egret stands"}, {4, "long necked heron wading"}}
	if diff := gocmp.Diff(want, hits.Passages[0].Lines); diff != "" {
		t.Error(diff)
	}
	hits, err = ix.Search(t.Context(), "xylophone", 1, nil)
	if err != nil || len(hits.Passages) != 1 || len(hits.Passages[0].Lines[0].Text) > maxLine || !strings.Contains(hits.Passages[0].Lines[0].Text, "xylophone") {
		t.Errorf("%+v %v", hits, err)
	}
}

func TestRefresh(t *testing.T) {
	files := map[string]string{}
	for i := range 20 {
		files[fmt.Sprintf("f%02d.txt", i)] = fmt.Sprintf("common word%02d\n", i)
	}
	dir, cache := folder(t, files), t.TempDir()
	old := open(t, dir, cache)
	if s := old.Stats(); s.Read != 20 || s.Files != 20 || s.Passages != 20 {
		t.Fatalf("%+v", s)
	}
	if s := open(t, dir, cache).Stats(); s.Read != 0 || s.Files != 20 {
		t.Fatalf("read again: %+v", s)
	}
	put(t, dir, "f03.txt", "changed entirely\n", time.Minute)
	put(t, dir, "new.txt", "brandnew\n", time.Minute)
	if err := os.Remove(filepath.Join(dir, "f05.txt")); err != nil {
		t.Fatal(err)
	}
	if got := search(t, old, "word03"); got != nil {
		t.Errorf("a hit in a file that changed: %v", got)
	}
	ix := open(t, dir, cache)
	if s := ix.Stats(); s.Read != 2 || s.Files != 20 || s.Passages != 20 {
		t.Errorf("%+v", s)
	}
	for q, want := range map[string][]string{
		"word03": nil, "word05": nil, "changed": {"f03.txt:1-1"}, "brandnew": {"new.txt:1-1"}, "word07": {"f07.txt:1-1"},
	} {
		if diff := gocmp.Diff(want, search(t, ix, q)); diff != "" {
			t.Errorf("%s: %s", q, diff)
		}
	}
	if got := search(t, old, "word07"); len(got) != 1 {
		t.Errorf("the index opened before: %v", got)
	}
	for name := range files {
		put(t, dir, name, "all other\n", time.Second*30)
	}
	if s := open(t, dir, cache).Stats(); s.Read != 21 || s.Files != 21 {
		t.Errorf("rebuilt: %+v", s)
	}
}

// A file changed again within the resolution of its time, to the same size, must not
// stay as it was first read.
func TestRacyChange(t *testing.T) {
	dir, cache := t.TempDir(), t.TempDir()
	put(t, dir, "f.txt", "apple\n", 0)
	info, err := os.Stat(filepath.Join(dir, "f.txt"))
	if err != nil {
		t.Fatal(err)
	}
	open(t, dir, cache)
	put(t, dir, "f.txt", "grape\n", 0)
	if err := os.Chtimes(filepath.Join(dir, "f.txt"), info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	ix := open(t, dir, cache)
	if got := search(t, ix, "grape"); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

func TestCacheFile(t *testing.T) {
	dir, cache := folder(t, map[string]string{"a.md": "alpha\n"}), filepath.Join(t.TempDir(), "made", "here")
	open(t, dir, cache).Close()
	names, err := filepath.Glob(filepath.Join(cache, "*"))
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	if info, err := os.Stat(cache); err != nil || info.Mode().Perm() != 0o700 {
		t.Error(info.Mode(), err)
	}
	info, err := os.Stat(names[0])
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
	good, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string][]byte{
		"empty": {}, "text": []byte("not a database"), "half": good[:len(good)/2], "longer": append(bytes.Clone(good), 0),
		"flip at start": flip(good, 3), "flip in the seal": flip(good, sealAt), "flip inside": flip(good, len(good)/2), "flip at end": flip(good, len(good)-1),
	} {
		if err := os.WriteFile(names[0], bad, 0o600); err != nil {
			t.Fatal(err)
		}
		ix := open(t, dir, cache)
		if s := ix.Stats(); s.Read != 1 {
			t.Errorf("%s: not built again: %+v", name, s)
		}
		if got := search(t, ix, "alpha"); len(got) != 1 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func flip(b []byte, i int) []byte {
	b = bytes.Clone(b)
	b[i] ^= 0x10
	return b
}

func TestConcurrentOpenAndSearch(t *testing.T) {
	dir, cache := folder(t, map[string]string{"a.md": "alpha beta\n", "b.md": "beta gamma\n"}), t.TempDir()
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			ix, err := Open(context.Background(), dir, &Options{CacheDir: cache})
			if err != nil {
				t.Error(err)
				return
			}
			defer ix.Close()
			var inner sync.WaitGroup
			for range 4 {
				inner.Go(func() {
					if hits, err := ix.Search(context.Background(), "beta", 5, nil); err != nil || len(hits.Passages) != 2 {
						t.Errorf("%v %v", hits, err)
					}
				})
			}
			inner.Wait()
		})
	}
	wg.Wait()
	if left, _ := filepath.Glob(filepath.Join(cache, "*.tmp")); len(left) > 0 {
		t.Error("left behind:", left)
	}
}

func TestStops(t *testing.T) {
	dir, cache := folder(t, map[string]string{"a.md": "alpha\n"}), t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Open(ctx, dir, &Options{CacheDir: cache}); !errors.Is(err, context.Canceled) {
		t.Errorf("Open: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(cache, "*")); len(left) > 0 {
		t.Error("left behind:", left)
	}
	ix := open(t, dir, cache)
	if _, err := ix.Search(ctx, "alpha", 1, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Search: %v", err)
	}
	if err := errors.Join(ix.Close(), ix.Close()); err != nil {
		t.Error(err)
	}
	if _, err := ix.Search(context.Background(), "alpha", 1, nil); !errors.Is(err, errClosed) {
		t.Errorf("after Close: %v", err)
	}
	if _, err := Open(context.Background(), filepath.Join(dir, "a.md"), nil); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("Open of a file: %v", err)
	}
}

func TestSymlinksAreNotFollowed(t *testing.T) {
	outside := folder(t, map[string]string{"secret.txt": "hidden treasure\n"})
	dir := folder(t, map[string]string{"a.md": "alpha\n"})
	if err := errors.Join(os.Symlink(outside, filepath.Join(dir, "d")), os.Symlink(filepath.Join(outside, "secret.txt"), filepath.Join(dir, "s.txt"))); err != nil {
		t.Skip(err)
	}
	if got := search(t, open(t, dir, t.TempDir()), "treasure"); got != nil {
		t.Errorf("%v", got)
	}
}

func TestTerms(t *testing.T) {
	for in, want := range map[string][]string{
		"gcTrigger":                           {"gctrigger", "gc", "trigger"},
		"HTTPServer max_results":              {"httpserver", "http", "server", "max", "result"},
		"0x1F600FF 1234567 3.14":              {"3", "14"},
		"Größe":                               {"größe"},
		"東京都 x":                               {"東京", "京都", "x"},
		"a" + strings.Repeat("b", maxToken+1): nil,
	} {
		if diff := gocmp.Diff(want, newTokenizer().all(in)); diff != "" {
			t.Errorf("%s: %s", in, diff)
		}
	}
}

func FuzzQuery(f *testing.F) {
	dir := f.TempDir()
	put(f, dir, "a.md", "# alpha\n\nbeta gamma \"delta\" NEAR x*\n", time.Hour)
	put(f, dir, "a.html", "<p>alpha <b>beta\n</b> &lt;gamma\n", time.Hour)
	ix, err := Open(context.Background(), dir, &Options{CacheDir: f.TempDir()})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { ix.Close() })
	for _, q := range []string{"alpha", `"beta gamma"`, `a" OR "b`, "x* ^y {z}: -w", `"""`, "\x00\xff", "東京"} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, q string) { search(t, ix, q) })
}

func FuzzPassages(f *testing.F) {
	for _, name := range []string{"a.html", "a.md", "a.go", "a.txt", "a.rst", "a.1"} {
		f.Add(name, []byte("<p>a\n<b>b</b>\x00 &amp; <!-- x\ny --> z<script>s</script>\n"))
		f.Add(name, []byte("</p\n<a href='>'>x<title>y"))
		f.Add(name, []byte("# T\n\ntext:\n\n```\ncode\n\n```\n- a\n- b\nX\n===\n"))
		f.Add(name, []byte("// Package a.\npackage a\n\n// F is.\nfunc F() {\n\treturn // x\n}\n/* c\n\n*/\nvar x = 1\n"))
	}
	f.Fuzz(func(t *testing.T, name string, raw []byte) {
		text := Text(name, raw)
		if n := bytes.Count(raw, []byte("\n")); len(text) > n+1 {
			t.Fatalf("%d lines of %d", len(text), n)
		}
		d := parse(kindOf(name), raw, nil)
		last := 0
		for _, s := range d.spans {
			if s.first < last || s.last <= s.first || s.last > len(text) || s.last-s.first > maxLines {
				t.Fatalf("%+v after line %d of %d", s, last, len(text))
			}
			last = s.last
			for i := s.first; i < s.last; i++ {
				if got := shown(d.lines[i].text); !strings.Contains(string(text[i]), got) {
					t.Fatalf("%q is not in %q", got, text[i])
				}
			}
		}
	})
}

func goroot(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Skip("needs the go command:", err)
	}
	dir := strings.TrimSpace(string(out))
	if _, err := os.Stat(filepath.Join(dir, "src/runtime/mgc.go")); testing.Short() || faults.Raced || err != nil {
		t.Skip("needs the source of Go, and some seconds")
	}
	return dir
}

// TestQuality asks the Go sources questions whose answers are known.
func TestQuality(t *testing.T) {
	ix := open(t, goroot(t), t.TempDir())
	t.Logf("%+v", ix.Stats())
	for q, want := range map[string][]string{
		"garbage collector decide when to start a cycle": {"src/runtime/mgc.go", "src/runtime/mgcpacer.go", "src/runtime/mstats.go"},
		"how do I write a table driven fuzz test":        {"src/testing/testing.go", "src/testing/fuzz.go"},
		"http client connection reuse keep alive":        {"src/net/http/transport.go", "src/net/http/response.go"},
		"how does the scheduler steal work":              {"src/runtime/proc.go"},
		"memory model happens before channel send":       {"doc/go_mem.html", "src/runtime/chan.go"},
		"escape analysis heap allocation":                {"src/cmd/compile/internal/escape/escape.go", "src/cmd/compile/internal/gc/main.go"},
		"DisableKeepAlives":                              {"src/net/http/transport.go"},
	} {
		got := search(t, ix, q)
		if !slices.ContainsFunc(got[:min(3, len(got))], func(s string) bool {
			p, _, _ := strings.Cut(s, ":")
			return slices.Contains(want, p)
		}) {
			t.Errorf("%q: got %v", q, got)
		}
	}
}

// BenchmarkBuild is the first index of the Go tree: go test ./internal/docindex -run - -bench 'Build$' -benchtime 1x
func BenchmarkBuild(b *testing.B) {
	dir := goroot(b)
	for b.Loop() {
		open(b, dir, b.TempDir()).Close()
	}
	peak(b)
}

// BenchmarkReopen is that of a tree that did not change. The index is the one in DOCINDEX_CACHE, for the memory to be that of opening alone.
func BenchmarkReopen(b *testing.B) {
	dir, cache := goroot(b), cmp.Or(os.Getenv("DOCINDEX_CACHE"), b.TempDir())
	open(b, dir, cache).Close()
	for b.Loop() {
		open(b, dir, cache).Close()
	}
	peak(b)
}

// peak reports the most memory that the process held.
func peak(b *testing.B) {
	status, err := os.ReadFile("/proc/self/status") // of Linux
	if err != nil {
		return
	}
	if _, after, ok := strings.Cut(string(status), "VmHWM:"); ok {
		var kb float64
		if _, err := fmt.Sscan(after, &kb); err == nil {
			b.ReportMetric(kb/1000, "MB-RSS")
		}
	}
}

func BenchmarkSearch(b *testing.B) {
	ix := open(b, goroot(b), cmp.Or(os.Getenv("DOCINDEX_CACHE"), b.TempDir()))
	for _, q := range []string{"garbage collector decide when to start a cycle", "how do I write a table driven fuzz test", "http client connection reuse keep alive", "the"} {
		b.Run(strings.ReplaceAll(q, " ", "_"), func(b *testing.B) {
			for b.Loop() {
				if _, err := ix.Search(context.Background(), q, 8, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
