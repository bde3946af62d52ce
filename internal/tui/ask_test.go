package tui

import (
	"testing"

	"github.com/superstep-dev/superstep/internal/question"
)

// A task is named with brackets or without, as far as that is clear.
func TestSpelled(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"ask": "ask", "work/ask_user[2.1]": "work/ask_user/2.1", "gather[a]#2/x[b]": "gather/a#2/x/b", "g[a/b]": "g[a/b]", "g[a=b]/h[c]": "g[a=b]/h/c", "g[": "g[", "g[]": "g[]",
	} {
		if got := question.Spelled(in); got != want {
			t.Errorf("%s is %s, want %s", in, got, want)
		}
		g := &given{path: want}
		if g.meets(in, "key") != 2 || (&given{path: in}).meets(in, "key") != 2 {
			t.Errorf("%s does not name %s", want, in)
		}
	}
}
