package distil

import (
	"fmt"
	"strings"
)

// said are words and what is known of them, to see whether one text has something from another.
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

// run is how many words on end prove that one text was taken from another.
const run = 6

// evidence returns what a text has from an output that it does not quote as a whole, "" for nothing. Known
// are the words that it has from elsewhere: what the user said, and what the output was asked with.
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

// hearing reports whether a word is one of those that are known.
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

// shares returns the words that a text has in common with an output and with nothing else that is known,
// those of them that nobody says by chance, and how many words the text has that are not known.
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

// common returns the first run of words that both have, unless somebody else said all of them.
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
