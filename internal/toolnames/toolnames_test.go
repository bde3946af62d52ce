package toolnames_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/internal/toolnames"
)

func TestOurs(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"Read": "read_file", "Write": "write_file", "Edit": "edit_file", "Bash": "bash", "Glob": "glob", "Grep": "grep", "LS": "ls",
		"WebSearch": "web_search", "WebFetch": "web_fetch", "Task": "task task_batch", "TodoWrite": "todo",
		"tavily_search": "web_search", "search_web": "web_search", "websearch": "web_search",
	} {
		if got, ok := toolnames.Ours(name); !ok || strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", name, got, want)
		}
	}
	if got, ok := toolnames.Ours("BashOutput"); !ok || got != nil {
		t.Errorf("BashOutput: %v, %v", got, ok)
	}
	if _, ok := toolnames.Ours("nonsense"); ok {
		t.Error("nonsense is known")
	}
	for _, n := range slices.Concat(toolnames.Theirs(), toolnames.Common()) {
		names, ok := toolnames.Ours(n)
		group, _ := toolnames.Group(n)
		for _, x := range slices.Concat(names, group) {
			if !slices.Contains(toolnames.Builtin(), x) {
				t.Errorf("%s: there is no tool %s", n, x)
			}
		}
		if !ok {
			t.Errorf("%s is not known", n)
		}
	}
}

func TestHint(t *testing.T) {
	t.Parallel()
	tools := []string{"read_file", "web_search", "deploy"}
	for name, want := range map[string]string{
		"tavily_search": `; here it is called "web_search"`, "WebSearch": `; here it is called "web_search"`, "NotebookRead": `; here it is called "read_file"`,
		"deploi": `; did you mean "deploy"?`, "Bash": "; known: read_file, web_search, deploy",
	} {
		if got := toolnames.Hint(name, tools); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
