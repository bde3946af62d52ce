package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
)

// At 80 columns no line of help, of a plan or of a mistake is wider than the terminal, and none is broken within a word.
func TestEightyColumns(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "long.yaml")
	text := "name: long\nsteps:\n  - {id: find, tool: glob, args: {pattern: '*'}}\n  - {id: put, when: '{{steps.find.output}}', tool: write_file, args: {path: '{{steps.fnd.output}}', content: x}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--help"}, "waiting for a\nperson, 4 no model, 5 a limit was reached"},
		{[]string{"runs", "answer", "--help"}, "  superstep runs answer @last once\n      the only question\n"},
		{[]string{"run", "--help"}, "\n                             "},
		{[]string{"help", "flags"}, "  -o, --output string "},
		{[]string{"lint", "long.yaml"}, "\n  …"},
	} {
		con := openIn(t, dir, 80, 30, []string{"PATH=" + os.Getenv("PATH"), "NO_COLOR=1"}, c.args...)
		con.exit()
		screen := strings.ReplaceAll(ansi.Strip(con.screen()), "\r", "")
		if !strings.Contains(screen, c.want) {
			t.Errorf("%v lacks %q:\n%s", c.args, c.want, screen)
		}
		for line := range strings.SplitSeq(screen, "\n") {
			if ansi.StringWidth(line) > 80 {
				t.Errorf("%v has a line of %d columns: %s", c.args, ansi.StringWidth(line), line)
			}
		}
	}
}
