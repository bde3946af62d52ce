package trust

import (
	"strings"

	"github.com/rogpeppe/go-internal/diff"
)

// Diff returns the difference between two texts: removed lines with "-", added lines with "+", and
// up to three lines of context. It is "" if they are equal. The texts are cleaned.
func Diff(before, after string) string {
	text, _, _ := unified(detail(before), detail(after))
	var out strings.Builder
	for line := range strings.Lines(text) {
		switch {
		case line[0] != '@':
			out.WriteString(line[:1] + " " + line[1:])
		case out.Len() > 0:
			out.WriteString("  …\n")
		}
	}
	return out.String()
}

// unified returns the difference of two texts in the form of diff -u, without file names, and how
// many lines were added and removed.
func unified(before, after string) (text string, added, removed int) {
	ended := func(s string) []byte {
		if s != "" && !strings.HasSuffix(s, "\n") {
			s += "\n"
		}
		return []byte(s)
	}
	text = string(diff.Diff("a", ended(before), "b", ended(after)))
	for range 3 { // the names
		_, text, _ = strings.Cut(text, "\n")
	}
	return text, strings.Count("\n"+text, "\n+"), strings.Count("\n"+text, "\n-")
}
