package docs_test

import (
	"encoding/xml"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/internal/faults"
)

// The first two commands of the README are the main job on a fresh machine and the check, and it is short.
func TestReadme(t *testing.T) {
	t.Parallel()
	text := pageOf(t, "README.md")
	if n := len(strings.Fields(text)); n > 900 {
		t.Errorf("it has %d words, want at most 900", n)
	}
	var commands []string
	for line := range strings.Lines(blocks(t, "README.md", "sh")[0]) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			commands = append(commands, line)
		}
	}
	if len(commands) != 2 || !strings.HasPrefix(commands[0], "go run ./cmd/superstep run research ") || commands[1] != "./check" {
		t.Errorf("its first commands are %q", commands)
	}
}

// The brief in the README is what the first command prints, over the one file of Go that it quotes.
func TestReadmeBrief(t *testing.T) {
	t.Parallel()
	faults.Unraced(t)
	dir := filepath.Dir(faults.Command(t))
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	const file = "src/runtime/debug.go"
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), filepath.FromSlash(file)))
	if err != nil {
		t.Skip(err)
	}
	docs := t.TempDir()
	if err := os.MkdirAll(filepath.Join(docs, filepath.Dir(file)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(docs, file), source, 0o600); err != nil {
		t.Fatal(err)
	}
	got := execute(`superstep run research "What does GOMAXPROCS default to in a container?" --docs "`+docs+`" 2>&1`, t.TempDir(), docs, dir)
	shown := blocks(t, "README.md", "text")[0]
	shown, _, _ = strings.Cut(shown, "\n…")
	if !strings.Contains(strings.ReplaceAll(got, "```go\n", ""), shown) { // which a terminal draws
		t.Errorf("the README has\n%s\nit prints\n%s", shown, got)
	}
}

// The picture in the README is of this command: what the demo prints of the kill is in it.
func TestPicture(t *testing.T) {
	t.Parallel()
	svg := pageOf(t, "docs/img/demo.svg")
	if err := xml.Unmarshal([]byte(svg), new(struct{ XMLName xml.Name })); err != nil || len(svg) > 100_000 {
		t.Errorf("it has %d bytes, want at most 100,000, and is it XML: %v", len(svg), err)
	}
	faults.Unraced(t)
	dir := filepath.Dir(faults.Command(t))
	home := t.TempDir()
	seen := normal(html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(svg, "")))
	lines := 0
	for line := range strings.Lines(normal(execute("superstep demo --fast", home, home, dir))) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "TIME ") || strings.HasPrefix(line, "$ superstep r") || len(line) > 100 {
			continue // the picture has the live view, and a terminal asks
		}
		lines++
		if strings.HasPrefix(line, "The run log has") {
			line = "The run log has"
		}
		if !strings.Contains(seen, line) {
			t.Errorf("the picture does not show %q; record it again: docs/img/record", line)
		}
	}
	if lines < 10 {
		t.Errorf("the demo printed %d lines", lines)
	}
}
