package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	codeBlock = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	inline    = regexp.MustCompile("`+[^`]+`+((, | | and | or )`+[^`]+`+)*") // a list of them is one
	link      = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	ends      = regexp.MustCompile(`[.!?]["”)*_]*(\s+|$)`)
	item      = regexp.MustCompile(`^\s*([-*]|\d+\.)\s`)
)

// sentences of a page: its code, tables, headings and comments are left out. A piece of code is one word.
func sentences(text string) (found []string) {
	text = codeBlock.ReplaceAllString(text, "")
	text = regexp.MustCompile(`(?s)<!--.*?-->`).ReplaceAllString(text, "")
	paragraph := ""
	flush := func() {
		for _, s := range ends.Split(paragraph, -1) {
			if s = strings.Join(strings.Fields(s), " "); s != "" {
				found = append(found, s)
			}
		}
		paragraph = ""
	}
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		if trimmed == "" || strings.HasPrefix(trimmed, "#") || strings.HasPrefix(trimmed, "|") || item.MatchString(line) {
			flush()
		}
		if strings.HasPrefix(trimmed, "#") || strings.HasPrefix(trimmed, "|") {
			continue
		}
		paragraph += " " + link.ReplaceAllString(inline.ReplaceAllString(item.ReplaceAllString(line, ""), "code"), "$1")
	}
	flush()
	return found
}

func pages(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	if err != nil || len(found) < 10 {
		t.Fatal(found, err)
	}
	return append(found, filepath.Join("..", "..", "README.md"))
}

// No sentence of a page has more than 30 words. Package floors refuses phrases, in pages as in Go code.
func TestLanguage(t *testing.T) {
	t.Parallel()
	for _, file := range pages(t) {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(file)
		for _, s := range sentences(string(b)) {
			if n := len(strings.Fields(s)); n > 30 {
				t.Errorf("%s: %d words, want at most 30: %s", name, n, s)
			}
		}
	}
	example := "# Title\n\nOne `a b` two [three](x.md)! Four\nfive.\n\n- six\n- seven\n\n| no |\n\n```sh\nno\n```\n"
	if s := sentences(example); strings.Join(s, "/") != "One code two three/Four five/six/seven" {
		t.Errorf("sentences are %q", s)
	}
}

var target = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// Links within the repository lead to files and headings that exist.
func TestLinks(t *testing.T) {
	t.Parallel()
	adr, err := filepath.Glob(filepath.Join("..", "..", "docs", "adr", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	links := 0
	files := append(pages(t), adr...)
	for _, name := range []string{"CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"} {
		files = append(files, filepath.Join("..", "..", name))
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range target.FindAllStringSubmatch(codeBlock.ReplaceAllString(string(b), ""), -1) {
			to, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(to, "://") {
				continue
			}
			links++
			path := filepath.Join(filepath.Dir(file), filepath.FromSlash(to))
			if to == "" {
				path = file
			}
			text, err := os.ReadFile(path)
			if _, stat := os.Stat(path); stat != nil {
				t.Errorf("%s: there is no %s", file, m[1])
			} else if anchor != "" && (err != nil || !headings(string(text))[anchor]) {
				t.Errorf("%s: %s has no heading for #%s", file, path, anchor)
			}
		}
	}
	if links < 100 {
		t.Errorf("only %d links were found", links)
	}
}

// headings are the anchors of a page, as GitHub makes them.
func headings(text string) map[string]bool {
	found := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
		title := strings.ToLower(strings.TrimSpace(link.ReplaceAllString(m[1], "$1")))
		found[strings.ReplaceAll(regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(title, ""), " ", "-")] = true
	}
	return found
}
