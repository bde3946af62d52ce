package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)
	// shown is a test that a row names, as DIR.TestName or DIR.TestName/case. Without DIR, it is one of package graph.
	shown = regexp.MustCompile("`(?:([a-z/]+)\\.)?((?:Test|Fuzz|Example)\\w*)(?:/([^`]+))?`")
)

// testsOf returns the source of the tests of a package, and finds their names.
func testsOf(t *testing.T, dir, pattern string) (names []string, source string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(dir), pattern))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		source += string(text)
	}
	for _, m := range testFunc.FindAllStringSubmatch(source, -1) {
		names = append(names, m[1])
	}
	return names, source
}

// Every row of a page for those who come from elsewhere names a test, in its last cell or, for LangGraph, in docs/tests.md. Every test that these
// pages name exists, and every test that is made for LangGraph is named.
func TestParity(t *testing.T) {
	t.Parallel()
	type tests struct {
		names  []string
		source string
	}
	packages := map[string]tests{}
	exists := func(dir, name, part string) bool {
		switch dir {
		case "":
			dir = "graph"
		case "superstep":
			dir = "."
		}
		if _, known := packages[dir]; !known {
			names, source := testsOf(t, dir, "*_test.go")
			packages[dir] = tests{names, source}
		}
		p := packages[dir]
		return slices.Contains(p.names, name) && (part == "" || strings.Contains(p.source, strconv.Quote(part)))
	}
	index := pageOf(t, "docs/tests.md")
	for page, least := range map[string]int{"docs/langgraph.md": 80, "docs/eino.md": 45, "docs/adk.md": 40, "docs/tests.md": 70} {
		rows, section := 0, ""
		for line := range strings.Lines(pageOf(t, page)) {
			if s, ok := strings.CutPrefix(line, "## "); ok {
				section = strings.TrimSpace(s)
			}
			cells := strings.Split(strings.TrimSpace(line), "|")
			if len(cells) < 4 || strings.HasPrefix(cells[1], "---") || cells[2] == " here " || cells[2] == " tests " || section == "Words" || section == "Not here" {
				continue
			}
			rows++
			named := cells[len(cells)-2]
			if _, row, ok := strings.Cut(index, "\n|"+cells[1]+"|"); ok && page == "docs/langgraph.md" {
				named, _, _ = strings.Cut(row, "\n")
			}
			all := shown.FindAllStringSubmatch(named, -1)
			if len(all) == 0 {
				t.Errorf("%s: no test is named for the row: %s", page, line)
			}
			for _, m := range all {
				if !exists(m[1], m[2], m[3]) {
					t.Errorf("%s: there is no test %s", page, m[0])
				}
			}
		}
		if rows < least {
			t.Errorf("%s has %d rows, want at least %d", page, rows, least)
		}
	}
	made, _ := testsOf(t, "graph", "langgraph*_test.go")
	for _, name := range made {
		if !strings.Contains(index, "`"+name+"`") {
			t.Errorf("docs/tests.md does not name %s", name)
		}
	}
	if exists("graph", "TestGone", "") || exists("examples/patterns", "TestPatterns", "gone") {
		t.Error("a test that is gone passes for one")
	}
	source, err := os.ReadFile(filepath.Join("..", "..", "graph", "langgraph_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	if code := blocks(t, "docs/langgraph.md", "go"); len(code) != 1 || !strings.Contains(strings.ReplaceAll(string(source), "\n\t", "\n"), "{\n"+code[0]+"// Output:") {
		t.Errorf("the code of docs/langgraph.md is not that of Example_langGraph:\n%s", code)
	}
}
