package permit

import (
	"strings"
	"testing"

	"github.com/bmatcuk/doublestar/v4"
	"pgregory.net/rapid"
)

// TestPathGlob: the shapes that are matched without doublestar match what it matches.
func TestPathGlob(t *testing.T) {
	parts := rapid.SampledFrom([]string{"a", "b", "ab", ".env", "*", "**", "/", "a/b", "/**", "**/", "?"})
	names := rapid.SampledFrom([]string{"a", "b", "ab", ".env", "ba", "aab"})
	rapid.Check(t, func(r *rapid.T) {
		text := strings.Join(rapid.SliceOfN(parts, 1, 5).Draw(r, "pattern"), "")
		if !doublestar.ValidatePattern(text) || strings.Contains(text, "//") || strings.HasPrefix(text, "/") || strings.HasSuffix(text, "/") {
			return
		}
		name := strings.Join(rapid.SliceOfN(names, 1, 5).Draw(r, "name"), "/")
		want, err := doublestar.Match(text, name)
		if err != nil {
			return
		}
		if g := newPathGlob(text); g.match(name) != want {
			r.Fatalf("%+v matches %q: %v, doublestar %v", g, name, !want, want)
		}
	})
}
