// Package suggest finds what somebody probably meant.
package suggest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// longest is the length of the longest word that is compared, so that nonsense costs nothing.
const longest = 256

// Closest returns the candidate that is most like a word, "" if none is like it: two
// letters, or a third of them, may be mistyped, but not all. Case does not matter. Of
// several that are equally like it, the first wins.
func Closest(word string, candidates []string) string {
	if len(word) > longest {
		return ""
	}
	best, distance := "", min(len(word), max(2, len(word)/3)+1)
	for _, c := range candidates {
		if d := edits(strings.ToLower(word), strings.ToLower(c), distance); d < distance {
			best, distance = c, d
		}
	}
	return best
}

// Hint returns an end of sentence: "; did you mean "x"?", or the candidates if they are
// few, or nothing.
func Hint(word string, candidates []string) string {
	if c := cmp.Or(Closest(word, candidates), related(word, candidates)); c != "" {
		return fmt.Sprintf("; did you mean %q?", c)
	}
	candidates = distinct(candidates)
	if len(candidates) > 0 && len(candidates) <= 12 {
		return "; known: " + strings.Join(candidates, ", ")
	}
	return ""
}

// related returns the first candidate that has a part in common with a word, "" if there is none: a part of four letters
// and more that begins with the other, such as those of code-review and reviewer.
func related(word string, candidates []string) string {
	const least = 4
	parts := func(s string) []string {
		return strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	}
	if len(word) > longest {
		return ""
	}
	wanted := parts(word)
	for _, c := range candidates {
		for _, have := range parts(c) {
			for _, want := range wanted {
				if len(have) >= least && len(want) >= least && (strings.HasPrefix(have, want) || strings.HasPrefix(want, have)) {
					return c
				}
			}
		}
	}
	return ""
}

// distinct returns a list without what was in it before.
func distinct(list []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// edits returns the number of letters to insert, delete, replace or swap (with the next
// one) to get from a to b, or limit if it is not below that. After Damerau (1964),
// in the restricted form that edits no letter twice.
func edits(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, above, row = above, row, before
	}
	return min(above[len(b)], limit)
}
