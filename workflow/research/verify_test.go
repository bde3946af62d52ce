package research

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool"
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
	root, err := builtin.OpenRoot(dir)
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
	page := model.ToolResult(model.Call{ID: "1", Name: "search_web"}, "## https://go.dev/x\nTitle\nAn open\nsource language.\n\n## https://other.dev\nOther text entirely\n", false)
	failed := model.ToolResult(model.Call{ID: "2", Name: "search_web"}, "## https://bad.dev\nFailed text of a page\n", true)
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
		{"the line is far off", "a.md", "second\tone here", 400, "a.md:4 second\tone here"},
		{"the line is negative", "a.md", "The first line of prose.", -7, "a.md:3 The first line of prose."},
		{"several lines", "a.md", "The first line of prose.\nAnd  a second\tone here.", 3, "a.md:3 The first line of prose.|And  a second\tone here."},
		{"several lines of a comment", "sub/b.go", "Stop waits for all workers, and then\ncloses the queue", 3, "sub/b.go:3 Stop waits for all workers, and then|closes the queue"},
		{"its breaks were lost", "sub/b.go", "waits for all workers, and then closes the queue", 2, "sub/b.go:3 waits for all workers, and then|closes the queue"},
		{"its spaces were changed", "a.md", "And a second one here.", 4, "a.md:4 And  a second\tone here."},
		{"it begins and ends within words", "sub/b.go", "aits for all workers, and then closes the que", 3, "sub/b.go:3 waits for all workers, and then|closes the queue"},
		{"lines that end in CR", "crlf.txt", "one line here\nanother line here", 1, "crlf.txt:1 one line here|another line here"},
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
			good, dropped := verify(root, "", []model.Message{page, failed}, []Finding{{Path: tc.path, Line: tc.line, Quote: tc.quote}})
			got := ""
			for _, f := range good {
				got = f.place() + " " + strings.ReplaceAll(f.Quote, "\n", "|")
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || len(good)+dropped != 1 {
				t.Errorf("%s; %d dropped", diff, dropped)
			}
		})
	}
	if good, dropped := verify(nil, "", nil, []Finding{{Path: "a.md", Line: 1, Quote: "The first line of prose."}}); len(good) != 0 || dropped != 1 {
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
		finding := Finding{Quote: strings.TrimSpace(quote), Line: line}
		if finding.Quote == "" || !finding.locate(lines) {
			return
		}
		for i, part := range strings.Split(finding.Quote, "\n") {
			if n := finding.Line + i; n < 1 || n > len(lines) || part == "" || !strings.Contains(lines[n-1], part) {
				t.Fatalf("%q is not in line %d of %q", part, n, text)
			}
		}
		if got, want := strings.Join(strings.Fields(finding.Quote), ""), strings.Join(strings.Fields(quote), ""); !strings.Contains(got, want) {
			t.Fatalf("%q became %q", quote, finding.Quote)
		}
	})
}

func TestCheckCitations(t *testing.T) {
	sources := make([]Source, 3)
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
	if err := checkCitations("Nothing was found.", nil); err != nil {
		t.Error(err)
	}
}

func TestRender(t *testing.T) {
	s := State{
		Question: "Why?", Max: 6, Searches: 5, Dropped: 1, Model: "m", Directions: []Direction{{Key: "1", Topic: "one"}, {Key: "2", Topic: "two"}},
		Findings: []Finding{
			{Direction: "2", Path: "b.md", Line: 7, Quote: "short\nthe longest line of it\nx", Claim: "B.", Confidence: 0.5},
			{Direction: "1", Also: []string{"2"}, Path: "a.md", Line: 1, Quote: "as it is", Claim: "A.", Confidence: 0.5},
			{Direction: "1", Path: "https://x.org", Quote: "on a page", Claim: "C.", Confidence: 0.5},
		},
	}
	sources := s.numbered()
	got := s.render("# Why?\n\nSo [3]. And [1].\n", sources)
	want := `# Why?

So [3]. And [1].

## Sources

[1] a.md:1 — “as it is”
[3] b.md:8 — “the longest line of it”

---

5 of 6 searches · one: 2 sources, confidence 0.75 · two: 2 sources, confidence 0.75 · 1 quote dropped, not found in its source · model m
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	listing := s.listing(sources)
	if err := checkCitations(listing, sources); err != nil || fmt.Sprint(cited(listing)) != "[1 2 3]" {
		t.Errorf("%v in %s", err, listing)
	}
	if got := s.render("Nothing.", nil); !strings.Contains(got, "## Sources\n\nNone.\n") {
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

func TestBriefsAreNoSources(t *testing.T) {
	text := "## brief-1a2b3c4d.md:1-2\n1\tThe brief says so.\n\n## a.md:1-1\n1\tThe source says so.\n\n## out/mine.md:3-3\n3\tMine says so.\n\n"
	search := builtin.Think()
	search.Run = constant(text)
	got, err := withoutBriefs(search, "out/mine.md").Run(t.Context(), nil)
	if err != nil || got != "## a.md:1-1\n1\tThe source says so.\n\n" {
		t.Errorf("%q, %v", got, err)
	}
	search.Run = constant("## brief-1a2b3c4d.md:1-2\n1\tThe brief says so.\n")
	if got, _ := withoutBriefs(search, "").Run(t.Context(), nil); !strings.HasPrefix(got, "no place fits") {
		t.Errorf("%q", got)
	}
}

func constant(text string) func(context.Context, *tool.Call) (string, error) {
	return func(context.Context, *tool.Call) (string, error) { return text, nil }
}

// What this workflow wrote is no source, whichever way it came to the model.
func TestVerifyRefusesBriefs(t *testing.T) {
	const text = "The lease lasts thirty seconds.\n"
	root := openRoot(t, folder(t, map[string]string{"a.md": text, "brief-1a2b3c4d.md": text, "out/brief-ff.md": text, "out/mine.md": text}))
	for path, want := range map[string]int{"a.md": 1, "brief-1a2b3c4d.md": 0, "./out/../brief-1a2b3c4d.md:1": 0, "out/brief-ff.md": 0, "out/mine.md": 0, "out/./mine.md": 0} {
		good, dropped := verify(root, "out/mine.md", nil, []Finding{{Path: path, Line: 1, Quote: "The lease lasts thirty seconds."}})
		if len(good) != want || dropped != 1-want {
			t.Errorf("%s: %d good, %d dropped", path, len(good), dropped)
		}
	}
	grep := grepWithoutBriefs(builtin.Grep(root), "out/mine.md")
	got, err := grep.Run(t.Context(), &tool.Call{Args: json.RawMessage(`{"pattern":"lease"}`)})
	if err != nil || !strings.Contains(got, "a.md:1:The lease") || strings.Contains(got, "brief-") || strings.Contains(got, "mine.md") {
		t.Errorf("%q, %v", got, err)
	}
	read := readNoBriefs(builtin.ReadFile(root), "out/mine.md")
	for path, ok := range map[string]bool{"a.md": true, "out/brief-ff.md": false, "./out/mine.md": false} {
		if _, err := read.Run(t.Context(), &tool.Call{Args: json.RawMessage(`{"path":"` + path + `"}`)}); (err == nil) != ok {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestOwn(t *testing.T) {
	docs := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(docs, link); err != nil {
		t.Skip(err)
	}
	for _, s := range []State{{Docs: docs, Report: filepath.Join(docs, "b.md")}, {Docs: link, Report: filepath.Join(docs, "b.md")}, {Docs: docs, Report: filepath.Join(link, "b.md")}} {
		if got := own(&s); got != "b.md" {
			t.Errorf("%s in %s: %q", s.Report, s.Docs, got)
		}
	}
	if got := own(&State{Docs: docs, Report: filepath.Join(t.TempDir(), "b.md")}); got != "" {
		t.Error(got)
	}
}
