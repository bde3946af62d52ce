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
	const several = "Use 2 items? What they start runs in the sandbox, under your rules. [a]ll, [N]one, [s]elect"
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

// Who continues an imported run on a terminal is shown what it would execute and asked, and what
// the file has in it cannot reach the terminal as anything but text.
func TestImportedOnTerminal(t *testing.T) {
	theirs, dir, home := t.TempDir(), t.TempDir(), t.TempDir()
	recipe := "name: brief\nsteps:\n  - {id: ok, ask: \"Go on\\e]0;x\\a\\e[31m?\"}\n  - {id: find, depends_on: [ok], tool: glob, args: {pattern: \"*\"}}\noutput: it is done\n"
	if err := os.WriteFile(filepath.Join(theirs, "brief.yaml"), []byte(recipe), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(theirs, "run.jsonl")
	in := func(folder string, args ...string) *terminalTest {
		t.Helper()
		t.Chdir(folder)
		return open(t, 100, 40, []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "SUPERSTEP_DATA_DIR=" + filepath.Join(home, filepath.Base(folder))}, args...)
	}
	if code := in(theirs, "run", "brief.yaml", "--no-input").exit(); code != ExitPaused {
		t.Fatal(code)
	}
	for _, args := range [][]string{{"runs", "export", "@last", "--file", file, "--unredacted"}} {
		if code := in(theirs, args...).exit(); code != 0 {
			t.Fatal(args, code)
		}
	}
	if code := in(dir, "runs", "import", file, "--as", "it").exit(); code != 0 {
		t.Fatal(code)
	}
	const question = "Trust it? What it executes runs with your rights, under your rules. [y/N]"
	for _, c := range []struct {
		answer string
		exit   int
		want   string
	}{{"", ExitDenied, "nothing was changed"}, {"n", ExitDenied, "nothing was changed"}, {"y", 0, "it is done"}} {
		term := in(dir, "runs", "answer", "it", "ok=yes")
		term.until(question)
		screen := term.screen()
		if text := ansi.Strip(screen); !strings.Contains(text, "id: find, depends_on: [ok], tool: glob") || !strings.Contains(text, "works in   "+dir) || !strings.Contains(text, "folder "+theirs) {
			t.Errorf("what it would execute is not shown:\n%s", text)
		}
		if strings.Contains(screen, "\x1b]0;") || strings.Contains(screen, "\x1b[31m?") {
			t.Errorf("the file writes to the terminal: %q", screen)
		}
		term.typed(c.answer + "\n")
		if code := term.exit(); code != c.exit || !strings.Contains(term.screen(), c.want) {
			t.Errorf("answer %q: exit code %d\n%s", c.answer, code, term.screen())
		}
	}
}
