package distil

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// A slot is a part of the user's prompt that recurs in the prompts of agents.
type slot struct{ name, text string }

// maxSlots is the largest number of slots.
const maxSlots = 4

var inQuotes = sync.OnceValue(func() *regexp.Regexp { // it takes as long as the rest of the start of a program
	return regexp.MustCompile("\"([^\"\n]{2,200})\"|“([^”\n]{2,200})”|«([^»\n]{2,200})»|‘([^’\n]{2,200})’|`([^`\n]{2,200})`")
})

// findSlots finds the slots of a prompt in the texts of steps: quoted texts, paths and addresses, and
// the longest phrases shared by several texts.
func findSlots(prompt string, texts []string) []slot {
	f := &slotFinder{prompt: prompt, texts: texts}
	for _, m := range inQuotes().FindAllStringSubmatchIndex(prompt, -1) {
		for g := 2; g < len(m); g += 2 {
			if m[g] >= 0 && f.times(prompt[m[g]:m[g+1]]) > 0 {
				f.take("topic", m[g], m[g+1])
			}
		}
	}
	words := tokens(prompt)
	for _, w := range words {
		if kind := special(w.text); kind != "" && f.times(w.text) > 0 {
			f.take(kind, w.from, w.to)
		}
	}
	least := min(2, len(texts))
	for n := min(12, len(words)); n > 0; n-- {
		for i := 0; i+n <= len(words); i++ {
			from, to := words[i].from, words[i+n-1].to
			if phrase(prompt, words, i, n) && f.times(prompt[from:to]) >= least {
				f.take("topic", from, to)
			}
		}
	}
	return f.found
}

// fileName is a name with an extension.
var fileName = regexp.MustCompile(`^[\w-]+\.[a-z]{1,5}$`)

type slotFinder struct {
	prompt string
	texts  []string
	taken  []span
	found  []slot
}

// times returns how many of the texts contain a string.
func (f *slotFinder) times(s string) int {
	n := 0
	for _, t := range f.texts {
		if len(build(t, []*source{{text: s, input: "x"}}).sources()) > 0 {
			n++
		}
	}
	return n
}

func (f *slotFinder) take(name string, from, to int) {
	text := f.prompt[from:to]
	if len(f.found) >= maxSlots || slices.ContainsFunc(f.taken, func(o span) bool { return from < o.to && o.from < to }) {
		return
	}
	f.taken = append(f.taken, span{from: from, to: to})
	if slices.ContainsFunc(f.found, func(s slot) bool { return s.text == text }) {
		return
	}
	f.found = append(f.found, slot{name, text})
}

// special returns the kind of a word with a special form: a path or an address.
func special(w string) string {
	switch {
	case strings.Contains(w, "://"):
		return "url"
	case strings.Contains(w, "/"), fileName.MatchString(w):
		return "path"
	}
	return ""
}

// leadsTo lists the words that precede a topic, such as "about".
var leadsTo = []string{"about", "on", "of", "for", "in", "into", "regarding", "with", "topic", "is"}

// phrase reports whether n words of a prompt may be its topic.
func phrase(prompt string, words []token, i, n int) bool {
	first, last := &words[i], &words[i+n-1]
	switch {
	case first.common || last.common || sentence(prompt[first.from:last.to]):
		return false
	case n > 1:
		return true
	case len(first.text) < 2:
		return false
	}
	return first.names || i > 0 && (first.text[0] >= 'A' && first.text[0] <= 'Z' || slices.Contains(leadsTo, strings.ToLower(words[i-1].text)))
}

// sentence reports whether a sentence ends within a text.
func sentence(s string) bool {
	return strings.ContainsAny(s, "!?;,\n\"") || strings.Contains(s, ". ") || strings.Contains(s, ": ")
}
