package research

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/superstep-dev/superstep/internal/docindex"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool/builtin"
)

// folder makes a folder of files.
func folder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func openRoot(t testing.TB, dir string) *builtin.Root {
	t.Helper()
	root, err := builtin.OpenRoot(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return root
}

func TestVerify(t *testing.T) {
	long := strings.Repeat("nothing stands in this line\n", 50_000) + "the needle is in this line\n"
	dir := folder(t, map[string]string{
		"a.md":      "# Title\n\nThe first line of prose.\nAnd  a second\tone here.\n\nThe first line of prose.\n",
		"sub/b.go":  "package b\n\n// Stop waits for all workers, and then\n// closes the queue for good.\nfunc Stop() {}\n",
		"crlf.txt":  "one line here\r\nanother line here\r\n",
		"large.txt": long,
		"empty.txt": "",
	})
	outside := folder(t, map[string]string{"secret.md": "The first line of prose.\n"})
	if err := os.Symlink(filepath.Join(outside, "secret.md"), filepath.Join(dir, "out.md")); err != nil {
		t.Skip(err)
	}
	if err := os.Symlink("a.md", filepath.Join(dir, "in.md")); err != nil {
		t.Fatal(err)
	}
	page := model.ToolResult(model.Call{ID: "1", Name: "web_search"}, "## https://go.dev/x\nTitle\nAn open\nsource language.\n\n## https://other.dev\nOther text entirely\n", false)
	failed := model.ToolResult(model.Call{ID: "2", Name: "web_search"}, "## https://bad.dev\nFailed text of a page\n", true)
	root := openRoot(t, dir)
	for _, tc := range []struct {
		name        string
		path, quote string
		line        int
		want        string // "path:line quote", "" for dropped
	}{
		{"as it is", "a.md", "The first line of prose.", 3, "a.md:3 The first line of prose."},
		{"a part of the line", "a.md", "first line", 3, "a.md:3 first line"},
		{"the line is off", "a.md", "The first line of prose.", 4, "a.md:3 The first line of prose."},
		{"the nearest one counts", "a.md", "The first line of prose.", 5, "a.md:6 The first line of prose."},
		{"the line is far off", "a.md", "second\tone here", 400, "a.md:4 second\tone here."},
		{"the line is negative", "a.md", "The first line of prose.", -7, "a.md:3 The first line of prose."},
		{"several lines", "a.md", "The first line of prose.\nAnd  a second\tone here.", 3, "a.md:3-4 The first line of prose.|And  a second\tone here."},
		{"several lines of a comment", "sub/b.go", "Stop waits for all workers, and then\ncloses the queue", 3, "sub/b.go:3-4 Stop waits for all workers, and then|closes the queue"},
		{"its breaks were lost", "sub/b.go", "waits for all workers, and then closes the queue", 2, "sub/b.go:3-4 waits for all workers, and then|closes the queue"},
		{"its spaces were changed", "a.md", "And a second one here.", 4, "a.md:4 And  a second\tone here."},
		{"it begins and ends within words", "sub/b.go", "aits for all workers, and then closes the que", 3, "sub/b.go:3-4 waits for all workers, and then|closes the queue"},
		{"lines that end in CR", "crlf.txt", "one line here\nanother line here", 1, "crlf.txt:1-2 one line here|another line here"},
		{"invented", "a.md", "The second line of prose.", 3, ""},
		{"an invented end", "sub/b.go", "Stop waits for all workers, and then deletes the queue", 3, ""},
		{"with an ellipsis", "sub/b.go", "Stop waits … closes the queue", 3, ""},
		{"nothing", "a.md", "", 3, ""},
		{"next to nothing", "a.md", "of", 3, ""},
		{"nothing but marks", "a.md", "----------", 3, ""},
		{"a file that is not there", "c.md", "The first line of prose.", 3, ""},
		{"an empty file", "empty.txt", "The first line of prose.", 1, ""},
		{"a folder", "sub", "The first line of prose.", 1, ""},
		{"a path with its line", "a.md:3", "The first line of prose.", 3, "a.md:3 The first line of prose."},
		{"a path that goes around", "./sub/../a.md", "The first line of prose.", 3, "a.md:3 The first line of prose."},
		{"an absolute path", filepath.Join(dir, "a.md"), "The first line of prose.", 3, "a.md:3 The first line of prose."},
		{"a link inside", "in.md", "The first line of prose.", 3, "a.md:3 The first line of prose."},
		{"a link to outside", "out.md", "The first line of prose.", 1, ""},
		{"outside", "../" + filepath.Base(outside) + "/secret.md", "The first line of prose.", 1, ""},
		{"absolute and outside", filepath.Join(outside, "secret.md"), "The first line of prose.", 1, ""},
		{"a large file", "large.txt", "the needle is in this line", 1, "large.txt:50001 the needle is in this line"},
		{"a page", "https://go.dev/x", "An open source  language.", 12, "https://go.dev/x An open source language."},
		{"not on that page", "https://go.dev/x", "Other text entirely", 0, ""},
		{"a page nobody saw", "https://go.dev/y", "An open source language.", 0, ""},
		{"a search that failed", "https://bad.dev", "Failed text of a page", 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			good, dropped := verify(root, []model.Message{page, failed}, []finding{at("", tc.path, tc.line, tc.quote)})
			got := ""
			for _, f := range good {
				got = f.place() + " " + strings.ReplaceAll(f.Text, "\n", "|")
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || len(good)+dropped != 1 {
				t.Errorf("%s; %d dropped", diff, dropped)
			}
		})
	}
	if good, dropped := verify(nil, nil, []finding{at("", "a.md", 1, "The first line of prose.")}); len(good) != 0 || dropped != 1 {
		t.Errorf("without documents: %v, %d", good, dropped)
	}
}

// FuzzLocate checks that what is located stands where it says.
func FuzzLocate(f *testing.F) {
	f.Add("// a b c\n// d e f g", "b c d", 1)
	f.Add("x\n\ny z", "x y z", 2)
	f.Add("a a a a", "a a", 9)
	f.Fuzz(func(t *testing.T, text, quote string, line int) {
		lines := strings.Split(text, "\n")
		finding := at("", "f", line, strings.TrimSpace(quote))
		if finding.Text == "" || !finding.locate(lines) {
			return
		}
		for i, part := range strings.Split(finding.Text, "\n") {
			if n := finding.Start + i; n < 1 || n > len(lines) || !strings.Contains(lines[n-1], part) {
				t.Fatalf("%q is not in line %d of %q", part, n, text)
			}
		}
		said := func(text string) (all string) {
			lines := strings.Split(text, "\n")
			for n := range lines {
				for _, w := range wordsOf(lines, n) {
					all += lines[n][w.from:w.to]
				}
			}
			return all
		}
		if got, want := said(finding.Text), said(strings.TrimSpace(quote)); !strings.Contains(got, want) {
			t.Fatalf("%q became %q", quote, finding.Text)
		}
	})
}

func TestCheckCitations(t *testing.T) {
	const sources = 3
	for _, tc := range []struct{ text, want string }{
		{"It is so [1]. And [2, 3].", ""},
		{"It is so [1][2].", ""},
		{"It is so [1], as `a[99]` and “see [98]” say.\n```\nx[97]\n```\n", ""},
		{" \n", "is empty"},
		{"It is so.", "cites nothing"},
		{"It is `[1]`.", "cites nothing"},
		{"It is so [1] [99].", "there is no source 99; the sources are 1 to 3"},
		{"It is so [0, 4].", "there is no source 0, 4"},
		{"It is so [99999999999999999999] [1].", "there is no source 9"},
		{"It is so [1].\n\n## Sources\n\n[1] a.md:3", "leave out the list of sources"},
		{"It is so [1].\n\n### references:\n- a.md", "leave out the list of sources"},
		{"It is so [1].\n\n[1] a.md:3 — “x”", "leave out the list of sources"},
	} {
		err := checkCitations(tc.text, sources)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: %v, want %q", tc.text, err, tc.want)
		}
	}
	if err := checkCitations("Nothing was found.", 0); err != nil {
		t.Error(err)
	}
}

func TestRender(t *testing.T) {
	long := at("2", "b.md", 7, "short\nthe longest line of it\nx")
	long.End, long.Claim = 9, "B."
	first := at("1", "a.md", 1, "as it is")
	first.Also, first.Claim, first.Copies = []string{"2"}, "A.", []string{"c.md:4"}
	s := state{
		Question: "Why?", Docs: "/d", Max: 6, Searches: 5, Dropped: 1, Model: "m", Directions: []direction{{Key: "1", Topic: "one"}, {Key: "2", Topic: "two"}},
		Findings: []finding{long, first, at("1", "https://x.org", 0, "on a page")},
	}
	sources := s.numbered()
	got, quoted := s.render("# Because\n\nSo [3]. And [1].\n", sources, true)
	want := `# Why?

So [3]. And [1].

## Sources

[1] |a.md:1| — “as it is” (also in c.md:4)
[3] |b.md:8| — “the longest line of it”

---

5 of 6 searches · 1 quote dropped, not found in its source · model m
`
	if diff := cmp.Diff(strings.ReplaceAll(want, "|", "`"), got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Passage{first.Passage, long.Passage}, quoted); diff != "" {
		t.Error(diff)
	}
	listing := s.listing(sources)
	if err := checkCitations(listing, len(sources)); err != nil || fmt.Sprint(cited(listing)) != "[1 2 3]" {
		t.Errorf("%v in %s", err, listing)
	}
	if got, _ := s.render("Nothing.", nil, false); !strings.HasPrefix(got, "# Why?\n\nThe documents do not answer this.\n\nNothing.\n\n## Sources\n\nNone.\n") {
		t.Error(got)
	}
}

// A report is written whole or not at all, and where it cannot be, the error says what to do.
func TestSave(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "deep", "brief.md")
	for _, text := range []string{"one", "two"} {
		if err := save(file, text); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(file); err != nil || string(b) != text {
			t.Error(string(b), err)
		}
	}
	if err := save(filepath.Join(file, "x.md"), "three"); err == nil || !strings.Contains(err.Error(), "resume the run") || strings.Contains(err.Error(), ".tmp") {
		t.Error(err)
	}
	if err := writable(filepath.Join(dir, "some", "where")); err != nil {
		t.Error(err)
	}
	if err := writable(filepath.Join(file, "x")); err == nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".superstep-*")); err != nil || left != nil {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// What this workflow wrote is no source, whatever its name and whichever way an agent comes to it.
func TestBriefsAreNoSources(t *testing.T) {
	const text = "The lease lasts thirty seconds.\n"
	dir := folder(t, map[string]string{"a.md": text, "brief-1a2b3c4d.md": text, "out/mine.md": text + "\n" + docindex.BriefMark + "\n"})
	root, err := builtin.OpenRoot(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	for path, want := range map[string]int{"a.md": 1, "brief-1a2b3c4d.md": 1, "out/mine.md": 0, "out/./mine.md:1": 0} {
		good, dropped := verify(root, nil, []finding{at("", path, 1, "The lease lasts thirty seconds.")})
		if len(good) != want || dropped != 1-want {
			t.Errorf("%s: %d good, %d dropped", path, len(good), dropped)
		}
	}
}
