package tui

import (
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/host"
)

// Before anybody trusts an imported run its recipes are shown, and with all of it the calls that a model asked for.
func TestClaimsAreShown(t *testing.T) {
	t.Parallel()
	c := &host.Claims{Recipes: []host.KeptRecipe{{Name: "inner.yaml", Text: "id > pwned"}}, Effects: []host.Claim{{Task: "work", What: "do turn-0", Result: "write_file"}}}
	if shown := strings.Join(ClaimLines(c, false, "more"), "\n"); !strings.Contains(shown, "id > pwned") {
		t.Errorf("the recipe is not shown:\n%s", shown)
	}
	if shown := strings.Join(ClaimLines(c, true, "more"), "\n"); !strings.Contains(shown, "write_file") {
		t.Errorf("the call is not shown:\n%s", shown)
	}
}
