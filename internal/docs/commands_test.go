package docs_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/internal/faults"
)

const commandsPage = "docs/commands.md"

// listed finds the commands that a help screen lists.
var listed = regexp.MustCompile(`(?m)^  ([a-z][a-z-]*) +\S`)

// The page of commands has the help of each command, and so every flag. -update writes it.
func TestCommandsPage(t *testing.T) {
	t.Parallel()
	faults.Unraced(t)
	dir := filepath.Dir(faults.Command(t))
	home := t.TempDir()
	help := func(args ...string) string {
		cmd := exec.Command(filepath.Join(dir, "superstep"), args...)
		cmd.Env, cmd.Dir = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}, home
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%q: %v", args, err)
		}
		return strings.ReplaceAll(string(out), home, "~")
	}
	var sections strings.Builder
	var walk func(path []string)
	walk = func(path []string) {
		text := help(append(path, "--help")...)
		fmt.Fprintf(&sections, "\n## %s\n\n```text\n%s\n```\n", strings.Join(append([]string{"superstep"}, path...), " "), strings.TrimSpace(text))
		_, below, _ := strings.Cut(text, "\nExamples:\n")
		_, below, _ = strings.Cut(below, "\n\n")
		below, _, _ = strings.Cut(below, "\nFlags:\n")
		for _, m := range listed.FindAllStringSubmatch(below, -1) {
			walk(append(path[:len(path):len(path)], m[1]))
		}
	}
	walk(nil)
	fmt.Fprintf(&sections, "\n## Global flags\n\n```text\n%s\n```\n", strings.TrimSpace(help("help", "flags")))
	page := pageOf(t, commandsPage)
	intro, _, _ := strings.Cut(page, "\n## ")
	if want := intro + sections.String(); page != want {
		if !*update {
			t.Error("it differs from the help of the commands: go test ./internal/docs -run Commands -update")
		} else if err := os.WriteFile(filepath.Join("..", "..", commandsPage), []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(sections.String(), "\n## "); n < 60 {
		t.Errorf("only %d commands were found", n)
	}
}
