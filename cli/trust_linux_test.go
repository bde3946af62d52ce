package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
)

// On a terminal what changed is shown and asked about, all at once or one by one.
func TestTrustOnTerminal(t *testing.T) {
	dir, home := t.TempDir(), t.TempDir()
	t.Chdir(dir)
	write := func(name, more string) {
		path := filepath.Join(dir, ".claude", "agents", name+".md")
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("---\nname: "+name+"\ndescription: d\n---\nWork.\n"+more), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one", "")
	write("two", "")
	env := []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
	answer := func(want int, question string, answers ...string) string {
		t.Helper()
		c := open(t, 100, 30, env, "trust")
		c.until(question)
		for i, a := range answers {
			if i > 0 {
				c.until([]string{"agent one (.claude/agents/one.md)? [y/N]", "agent two (.claude/agents/two.md)? [y/N]"}[i-1])
			}
			c.typed(a + "\n")
		}
		if code := c.exit(); code != want {
			t.Errorf("%v: exit code %d\n%s", answers, code, c.screen())
		}
		return strings.ReplaceAll(ansi.Strip(c.screen()), "\r", "")
	}
	const several = "Use 2 items? They run with your rights. [a]ll, [N]one, [s]elect"
	if text := answer(ExitDenied, several, "n"); !strings.Contains(text, "nothing was changed") {
		t.Error(text)
	}
	if text := answer(ExitDenied, several, ""); !strings.Contains(text, "nothing was changed") {
		t.Error(text)
	}
	if text := answer(0, several, "s", "n", "y"); !strings.Contains(text, "trusted: 1 item\n  agent two (.claude/agents/two.md)\n") {
		t.Error(text)
	}
	if text := answer(0, "Use 1 item? It runs with your rights. [y/N]", "y"); !strings.Contains(text, "trusted: 1 item\n  agent one (") {
		t.Error(text)
	}
	write("one", "And more.\n")
	write("two", "And evil.\n")
	if text := answer(0, several, "a"); !strings.Contains(text, "        @@ -3,3 +3,4 @@\n         description: d\n         ---\n         Work.\n        +And evil.\n") || !strings.Contains(text, "trusted: 2 items\n") {
		t.Error(text)
	}
	c := open(t, 100, 30, env, "trust")
	c.until("nothing to decide")
	if code := c.exit(); code != 0 {
		t.Error(code)
	}
}

// Who runs a recipe of the project by its name is asked about it once, and shown what it does.
func TestRecipeOnTerminal(t *testing.T) {
	dir, home := t.TempDir(), t.TempDir()
	t.Chdir(dir)
	path := filepath.Join(dir, ".superstep", "workflows", "brief.yaml")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	text := "name: brief\nsteps:\n  - {id: find, tool: glob, args: {pattern: \"*\"}}\noutput: it is done\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "SUPERSTEP_DATA_DIR=" + filepath.Join(home, "data")}
	for _, c := range []struct {
		answer string
		exit   int
		want   string
	}{{"n", ExitDenied, "nothing was changed"}, {"y", 0, "it is done"}, {"", 0, "it is done"}} {
		term := open(t, 100, 30, env, "run", "brief")
		if c.answer != "" {
			term.until("Use 1 item? It runs with your rights. [y/N]")
			if screen := ansi.Strip(term.screen()); !strings.Contains(screen, "find: tool glob") || !strings.Contains(screen, "        output: it is done") || !strings.Contains(screen, ".superstep/workflows/brief.yaml") {
				t.Errorf("what it does is not shown:\n%s", screen)
			}
			term.typed(c.answer + "\n")
		}
		if code := term.exit(); code != c.exit || !strings.Contains(term.screen(), c.want) {
			t.Errorf("answer %q: exit code %d\n%s", c.answer, code, term.screen())
		}
	}
}
