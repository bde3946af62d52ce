package suggest_test

import (
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/internal/suggest"
)

func TestClosest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		word       string
		candidates []string
		want       string
	}{
		{"citi", []string{"days", "city"}, "city"},
		{"giude.md", []string{"guide.md"}, "guide.md"},
		{"CITY", []string{"city"}, "city"},
		{"B", []string{"a", "b"}, "b"},
		{"c", []string{"a", "b"}, ""}, // nothing of it would be left
		{"xy", []string{"ab"}, ""},
		{"weather", []string{"calendar"}, ""},
		{"", []string{"a"}, ""},
		{strings.Repeat("a", 1<<20), []string{strings.Repeat("a", 1<<20)}, ""},
	} {
		if got := suggest.Closest(c.word, c.candidates); got != c.want {
			t.Errorf("Closest(%.20q, %.40q) = %.20q, want %.20q", c.word, c.candidates, got, c.want)
		}
	}
}

// A hint names each candidate once, and one that shares a part with the word.
func TestHint(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		word       string
		candidates []string
		want       string
	}{
		{"code-review", []string{"explorer", "reviewer"}, `; did you mean "reviewer"?`},
		{"for-reviews", []string{"explorer", "code-review"}, `; did you mean "code-review"?`},
		{"x-y", []string{"x-z-long", "skill", "bash", "bash", "skill"}, "; known: x-z-long, skill, bash"},
	} {
		if got := suggest.Hint(c.word, c.candidates); got != c.want {
			t.Errorf("%s: %s", c.word, got)
		}
	}
}
