package detach_test

import (
	"slices"
	"testing"

	"github.com/superstep-dev/superstep/internal/detach"
)

// Nothing that was given is lost: a title may read like a flag, and what comes behind it is no title.
func TestArgs(t *testing.T) {
	t.Parallel()
	given := []string{"run", "agent", "--detach", "--title", "--detach", "--deny", "bash", "--", "--detach"}
	want := []string{"run", "agent", "--detach", "--title", "--detach", "--deny", "bash", "--detach=false", "--", "--detach"}
	if got := detach.Args(given, "--detach=false"); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
