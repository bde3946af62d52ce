package research

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/superstep-dev/superstep/internal/docindex"
)

func found(path string, line int, heading, text string, score float64) finding {
	return finding{Query: "Why?", Score: score, Passage: Passage{Path: path, Start: line, End: line + strings.Count(text, "\n"), Heading: heading, Text: text}}
}

func TestExtract(t *testing.T) {
	deep := found("d.md", 9, "D › Deep", "It is deep.", 0.9)
	deep.Query = "Why? D"
	code := found("c.go", 3, "func C()", "// C is so.\nfunc C() {", 0.6)
	code.Copies = []string{"v1/c.go:3-4"}
	s := state{
		Question: "Why?", Queries: []string{"Why?"}, Docs: "/d", Max: 6, Searches: 3, Model: "offline", Answered: true, Files: 7,
		Findings: []finding{found("a.md", 1, "A › B", "Because\n\nof this.", 0.8), found("b.html", 5, "", "For that.", 0.7), found("a.md", 7, "A › C", "More.", 0.65), code, found("e.md", 2, "E", "Maybe.", 0.2), deep},
	}
	got, quoted := s.extract()
	want := "# Why?\n\n## Answer\n\n**A › B** · `a.md:1-3` [1]\n> Because\n>\n> of this.\n\n" +
		"*Agreement*: no other file found that says the same.\n\n" +
		"## More\n\n`b.html:5` [2]\n```text\nFor that.\n```\n\n`func C()` · `c.go:3-4` [3]\n```go\n// C is so.\nfunc C() {\n```\n\n" +
		"**D › Deep** · `d.md:9` [4]\n> It is deep.\n\n" +
		"## Where to look next\n\n- `e.md:2` — E\n- `a.md:7` — A › C\n\n" +
		"## Sources\n\n[1] `a.md:1-3` — A › B\n[2] `b.html:5`\n[3] `c.go:3-4` — `func C()` (also in v1/c.go:3-4)\n[4] `d.md:9` — D › Deep\n" +
		"\n---\n\n3 of 6 searches · model offline\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(quoted) != 4 || quoted[0].Path != "a.md" || quoted[3].Path != "d.md" {
		t.Errorf("%+v", quoted)
	}

	s.Answered, s.Missing, s.Left = false, []string{"zebra", "quokka"}, leftOut(map[string]int{"unreadable": 2, "too large": 3, "binary": 0})
	got, quoted = s.extract()
	want = "# Why?\n\nThe documents do not answer this.\n\nSearched: 7 files in /d; left out: 3 too large, 2 unreadable. No document has: zebra, quokka.\n\n" +
		"## Nearest passage\n\nIt does not answer the question.\n\n**A › B** · `a.md:1-3`\n> Because\n>\n> of this.\n\n\n---\n\n3 of 6 searches · model offline\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(quoted) != 1 {
		t.Errorf("%+v", quoted)
	}
}

// A brief fits on a screen, whatever was found, and what is cut off is not cited.
func TestExtractIsShort(t *testing.T) {
	s := state{Question: "Why?", Queries: []string{"Why?"}, Answered: true, Max: 6}
	for i := range 9 {
		var lines []string
		for n := range 15 {
			lines = append(lines, fmt.Sprintf("Line %d of %d.", n, i))
		}
		s.Findings = append(s.Findings, found(fmt.Sprintf("%d.md", i), 1, "", strings.Join(lines, "\n"), 1-float64(i)/10))
	}
	got, quoted := s.extract()
	if n := strings.Count(got, "\n"); n > 60 {
		t.Errorf("%d lines", n)
	}
	if len(quoted) < 3 || strings.Count(quoted[0].Text, "\n") != 14 {
		t.Errorf("%+v", quoted)
	}
	for _, p := range quoted {
		if n := strings.Count(p.Text, "\n"); p.End != p.Start+n {
			t.Errorf("%s has %d lines", p.place(), n+1)
		}
	}
}

func TestPassage(t *testing.T) {
	got := passage(docindex.Passage{Path: "a.go", Start: 4, End: 8, Heading: "var", Lines: []docindex.Line{
		{N: 4, Text: "//"}, {N: 5, Text: "// It is so."}, {N: 7, Text: "}"}, {N: 8, Text: "\t// "},
	}})
	if diff := cmp.Diff(Passage{Path: "a.go", Start: 5, End: 7, Text: "// It is so.\n\n}"}, got); diff != "" {
		t.Error(diff)
	}
}

// Nothing that a file says or is called forges a line of a brief, or is interpreted.
func TestExtractIsHarmless(t *testing.T) {
	odd := found("a\n## Forged\nb.go", 1, "__init__(a *[]T)\n# Forged", "x\n```\n## Forged", 0.9)
	odd.Copies = []string{"c\n## Forged"}
	prose := found("Über `uns`.md", 2, "Use *a* [b](c) <d>\n## Forged", "Mended.\r## Forged", 0.8)
	page := found("p.html", 3, "_x_", "<b> and *this*\n# Forged", 0.8)
	s := state{Question: "Why?", Queries: []string{"Why?"}, Answered: true, Findings: []finding{odd, prose, page}}
	got, _ := s.extract()
	for _, want := range []string{
		"\n`__init__(a *[]T)�# Forged` · `a�## Forged�b.go:1-3` [1]\n````go\nx\n```\n## Forged\n````\n", "(also in c�## Forged)\n",
		"\n**Use \\*a\\* \\[b\\](c) \\<d\\>�## Forged** · `` Über `uns`.md:2 `` [2]\n```text\nMended.\r## Forged\n```\n",
		"\n**\\_x\\_** · `p.html:3-4` [3]\n```text\n<b> and *this*\n# Forged\n```\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%q", want, got)
		}
	}
}

func TestCut(t *testing.T) {
	p := Passage{Start: 10, End: 15, Text: "One says\nnothing. It\nends.\nThe cache is\nemptied at night.\nLast"}
	want := Passage{Start: 13, End: 15, Text: "The cache is\nemptied at night.\nLast"}
	if diff := cmp.Diff(want, p.cut(3, "Is the cache emptied?")); diff != "" {
		t.Error(diff)
	}
}

func TestAgreement(t *testing.T) {
	s := state{Question: "Does os.Exit run deferred functions?"}
	answer := found("proc.go", 57, "func Exit(code int)", "// The program terminates immediately; deferred functions are not run. Code 1 means failure.", 0.9)
	for name, tc := range map[string]struct {
		text, want string
	}{
		"the question's words": {"// Fatal calls os.Exit(1), so deferred\n// functions do not run.", "no other file found that says the same"},
		"the same":             {"Code 1 is a failure, and the program terminates immediately; nothing deferred is run, not a thing.", "stated in 1 other file: `log.go`"},
		"another number":       {"Code 2 means failure, and the program terminates immediately; deferred functions do not run.", "no other file found that says the same"},
		"the contrary":         {"The program terminates immediately. Deferred functions are run. Code 1 means failure.", "no other file found that says the same"},
		"a copy":               {answer.Text, "only copies of the same text were found"},
	} {
		answer.Copies = nil
		if name == "a copy" {
			answer.Copies = []string{"log.go:9"}
		}
		other := found("log.go", 9, "", tc.text, 0.6)
		s.Findings = []finding{answer, other, other}
		if got, want := s.agreement(&answer.Passage), "*Agreement*: "+tc.want+".\n\n"; got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestTopic(t *testing.T) {
	for heading, want := range map[string]string{
		"func (c *Cmd) Run() error": "Run", "type Cmd struct": "Cmd", "func Map[K comparable](k K)": "Map", "Guide › Functions": "Guide › Functions", "": "a.go",
	} {
		if got := (&Passage{Path: "a.go", Heading: heading}).topic(); got != want {
			t.Errorf("%q: %q", heading, got)
		}
	}
}

func TestQueries(t *testing.T) {
	for question, want := range map[string]string{
		"How does net/http reuse connections?":   "net/http",
		"Are deferred functions run by os.Exit?": "os.Exit",
		"What is GOGC, and `once`?":              "GOGC once",
		"How do I set a limit for a Go program?": "",
		"os.Exit":                                "",
	} {
		got := queries(question)
		if got[0] != question || len(got) > 1 != (want != "") || want != "" && got[1] != want {
			t.Errorf("%q: %q, want %q", question, got, want)
		}
	}
}

func TestFenced(t *testing.T) {
	for name, want := range map[string]string{
		"a/b.go": "go", "x.MD": "", "y.HTML": "text", "FAQ.gz": "text", "a.c.gz": "c", "README": "text", "man.1": "text", "copyright.debian": "text", "x.md.gz": "",
	} {
		if got := fenced(&Passage{Path: name, Start: 1}); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := fenced(&Passage{Path: "https://x.org/a.md"}); got != "text" {
		t.Errorf("a page: %q", got)
	}
}

// A page answers with whole words that say what the question is about, half of them and two; else it is the nearest.
func TestPages(t *testing.T) {
	const text = "## https://a.example/1\nOne\nThe then of the day when is there.\n\n## https://b.example/2\nTwo\nOf other things.\n\nFailed jobs are retried, and failing again.\n"
	for _, tc := range []struct {
		query, first string
		answered     bool
	}{
		{"When is a failed job retried?", "https://b.example/2", true},
		{"Which orchids bloom in Antarctica when the sun is there?", "", false},
		{"Which job offers are there for gardeners in Antarctica?", "https://b.example/2", false},
		{"Is the theory of jobless fail-safes retriable?", "https://b.example/2", false},
		{"Which jobs?", "https://b.example/2", true},
		{"Why is it so?", "", false},
	} {
		got, first := pages(tc.query, text), ""
		if len(got.Findings) > 0 {
			first = got.Findings[0].Path
		}
		if got.Answered != tc.answered || first != tc.first || got.Said != "" {
			t.Errorf("%s: %+v", tc.query, got)
		}
	}
	if got := pages("Which jobs?", "The service's own answer, which is no source:\nYes.\nNo.\n\n"+text); got.Said != "Yes. No." || len(got.Findings) != 1 {
		t.Errorf("%+v", got)
	}
}
