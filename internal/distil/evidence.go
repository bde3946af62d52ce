package distil

import (
	"fmt"
	"strings"
)

// said holds words and their origins, to decide whether one text was derived from another.
type said struct {
	list  []token
	stems map[string]bool
}

func saying(s string) *said {
	w := &said{list: tokens(s), stems: map[string]bool{}}
	for _, t := range w.list {
		w.stems[t.stem] = true
	}
	return w
}

// run is how many consecutive words prove that one text was taken from another.
const run = 6

// evidence returns a part of a text that comes from an output it does not quote as a whole, or ""
// if there is none. Known holds the words that the text may have from elsewhere: from the user, or
// from the prompt of the output.
func evidence(text, output *said, known ...*said) string {
	heard := hearing(known)
	if words := common(text.list, output.list, heard); words != "" {
		return fmt.Sprintf("it has %q from it, but not the whole", words)
	}
	shared, names, mine := text.shares(output, heard)
	switch {
	case len(names) > 0:
		return fmt.Sprintf("it has %s from it", strings.Join(names[:min(len(names), 4)], ", "))
	case len(shared) >= 3 && 3*len(shared) >= mine:
		return fmt.Sprintf("it says in other words what that said (%s)", strings.Join(shared[:min(len(shared), 6)], ", "))
	}
	return ""
}

// hearing reports whether a word is known.
func hearing(known []*said) func(*token) bool {
	return func(t *token) bool {
		for _, k := range known {
			if k.stems[t.stem] {
				return true
			}
		}
		return false
	}
}

// shares returns the words that a text shares with an output but not with the known words, the
// subset of these words that is too rare to be chance, and the number of unknown words in the text.
func (w *said) shares(output *said, heard func(*token) bool) (shared, names []string, own int) {
	seen := map[string]bool{}
	for i := range w.list {
		t := &w.list[i]
		if t.common || seen[t.stem] || len(t.stem) < 4 && !t.names || heard(t) {
			continue
		}
		seen[t.stem] = true
		if !output.stems[t.stem] {
			continue
		}
		shared = append(shared, t.text)
		if t.names && len(t.text) > 1 {
			names = append(names, t.text)
		}
	}
	return shared, names, len(seen)
}

// common returns the first sequence of words found in both texts, unless all of these words are
// known from elsewhere.
func common(a, b []token, heard func(*token) bool) string {
	at := map[string][]int{}
	for i := range b {
		at[b[i].text] = append(at[b[i].text], i)
	}
	for i := 0; i+run <= len(a); i++ {
		for k, j := range at[a[i].text] {
			if k > 50 {
				break
			}
			n, fresh := 0, false
			for i+n < len(a) && j+n < len(b) && a[i+n].text == b[j+n].text {
				fresh = fresh || !a[i+n].common && !heard(&a[i+n])
				n++
			}
			if n < run || !fresh {
				continue
			}
			words := make([]string, 0, run)
			for _, t := range a[i : i+run] {
				words = append(words, t.text)
			}
			return strings.Join(words, " ")
		}
	}
	return ""
}
