// Package words stems English words, and lists stop words, which do not describe the topic of a text.
package words

import "strings"

// Plain are the words that are in every text, and those that make a sentence a question.
const Plain = `a about above after again all also am an and any are as at be because been before
	being below between both but by can cannot could did do does doing down during each few for from further had
	has have having he her here hers him his how i if in into is it its itself just let lets me might more most must
	my no nor not of off on once only or other our ours out over own please same shall she should so some such than
	that the their theirs them then there these they this those through to too under until up us very was we were
	what when where which while who whom why will with would you your yours d ll m re s t ve don doesn isn aren
	explain describe tell show`

var plain = func() map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(Plain) {
		set[w] = true
	}
	return set
}()

// IsPlain reports whether a word in lower case is one of [Plain].
func IsPlain(word string) bool { return plain[word] }
