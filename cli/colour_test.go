package cli

import (
	"strings"
	"testing"
)

// A listing has its colours where they are wanted, and what others wrote has none.
func TestListsAreColoured(t *testing.T) {
	h := newHome(t)
	h.write(t, "config/superstep/workflows/red.yaml", "name: red\ndescription: \"\\e[31mred\"\nsteps:\n  - {id: list, tool: ls, args: {path: \".\"}}\n")
	if _, out := h.run(t, ExitOK, "workflows", "list", "--color", "always"); !strings.Contains(out, "\x1b[32musable\x1b[0m") || strings.Contains(out, "\x1b[31m") {
		t.Errorf("%q", out)
	}
}
