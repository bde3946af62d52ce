package offline

import (
	"slices"
	"strings"
	"unicode"

	"github.com/superstep-dev/superstep/internal/porter"
)

// A concept is a word of the question with the other words that sources may use for it.
type concept struct {
	word   string
	stems  map[string]float64 // what stands for it, and how well
	others []string           // the words behind the stems that are not word itself, best first
	weight float64
}

// kin are words that stand for each other when somebody asks how a thing works. The
// first letters of neighbouring words and the forms of a verb are found without a list.
const kin = `
start begin trigger initiate launch kick
stop end finish terminate halt
decide determine choose select
create make build construct allocate
delete remove destroy free drop
change modify update alter mutate
error failure fault
fast speed performance throughput latency
config configuration configure setting option
parallel concurrent concurrency simultaneous
lock mutex synchronize synchronization
retry reattempt backoff
limit maximum bound cap quota
check verify validate validation
send write transmit
receive read
wait block sleep
size length capacity
find search lookup locate
store save persist
load fetch
list enumerate iterate
`

func kinOf(word string) []string {
	stem := porter.Stem(word)
	for line := range strings.Lines(kin) {
		group := strings.Fields(line)
		if slices.ContainsFunc(group, func(w string) bool { return w == word || porter.Stem(w) == stem }) {
			return slices.DeleteFunc(group, func(w string) bool { return w == word || porter.Stem(w) == stem })
		}
	}
	return nil
}

// concepts are the words of a text that mean something, each once.
func concepts(text string) []concept {
	var out []concept
	ws := words(text)
	for i, w := range ws {
		stem := porter.Stem(w)
		if slices.ContainsFunc(out, func(c concept) bool { return c.stems[stem] == 1 }) {
			continue
		}
		c := concept{word: w, stems: map[string]float64{stem: 1}, weight: 1}
		if filler(stem) {
			c.weight *= 0.3
		}
		add := func(word string, how float64) {
			if s := porter.Stem(word); c.stems[s] < how {
				c.stems[s] = how
				c.others = append(c.others, word)
			}
		}
		if base, ok := agent(w); ok { // a collector does collections
			add(base+"ion", 1)
			add(base, 1)
		}
		if base, ok := strings.CutSuffix(w, "ly"); ok && len(base) > 3 {
			add(base, 1)
		}
		if next := after(text, w); next != "" { // "shut down" is shutdown
			c.stems[porter.Stem(w+next)] = 1
		}
		if i > 0 && !strings.Contains(" "+strings.ToLower(text), w+" "+ws[i-1]) && side(text, ws[i-1], w) {
			c.stems[acronym(ws[i-1], w)] = 0.9
		}
		if i+1 < len(ws) && side(text, w, ws[i+1]) {
			c.stems[acronym(w, ws[i+1])] = 0.9
		}
		for _, k := range kinOf(w) {
			add(k, 0.8)
		}
		out = append(out, c)
	}
	return out
}

// acronym is what two words are called for short, such as GC. It counts in capitals only.
func acronym(a, b string) string { return strings.ToUpper(a[:1] + b[:1]) }

// acronyms are the words of two capitals in a text.
func acronyms(text string) []string {
	var out []string
	for _, f := range strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && r != '_' }) {
		if len(f) == 2 && strings.ToUpper(f) == f {
			out = append(out, f)
		}
	}
	return out
}

// filler tells the words that questions are made with from those they are about.
func filler(stem string) bool {
	for w := range strings.FieldsSeq("happen work mean explain describe difference different way thing kind purpose role exactly") {
		if porter.Stem(w) == stem {
			return true
		}
	}
	return false
}

// agent takes "collector" to "collect".
func agent(w string) (string, bool) {
	for _, end := range []string{"tor", "ser", "ter"} {
		if strings.HasSuffix(w, end) && len(w) > 6 {
			return w[:len(w)-2], true
		}
	}
	return "", false
}

// after is the word that follows another in a text, with nothing but a space between.
func after(text, word string) string {
	fields := strings.Fields(strings.ToLower(text))
	for i := 0; i+1 < len(fields); i++ {
		if fields[i] == word {
			return strings.TrimFunc(fields[i+1], func(r rune) bool { return !unicode.IsLetter(r) })
		}
	}
	return ""
}

// side reports whether two words stand side by side in a text.
func side(text, a, b string) bool {
	low := strings.ToLower(text)
	return strings.Contains(low, a+" "+b) || strings.Contains(low, a+"-"+b)
}

// fit is how much of the concepts a set of stems covers, from 0 to 1.
func fit(cs []concept, stems map[string]bool) float64 {
	total, got := 0.0, 0.0
	for _, c := range cs {
		total += c.weight
		best := 0.0
		for s, how := range c.stems {
			if stems[s] {
				best = max(best, how)
			}
		}
		got += c.weight * best
	}
	if total == 0 {
		return 0
	}
	return got / total
}

// covers counts the concepts that a set of stems has something of.
func covers(cs []concept, stems map[string]bool) int {
	n := 0
	for _, c := range cs {
		for s := range c.stems {
			if stems[s] {
				n++
				break
			}
		}
	}
	return n
}

// known reports whether a stem stands for one of the concepts.
func known(cs []concept, stem string) bool {
	return slices.ContainsFunc(cs, func(c concept) bool { return c.stems[stem] > 0 })
}

// queries are what to search for: first the words as they stand, led by those of the
// topic, and then with the words that sources may use instead.
func queries(question, topic string) []string {
	var other []string
	for _, c := range concepts(question) {
		other = append(other, firstN(c.others, 2)...)
	}
	plain := joinWords(10, words(topic), words(question))
	wide := joinWords(14, words(topic), other, words(question))
	if topic == "" {
		return []string{plain, wide}
	}
	narrow := joinWords(10, words(topic))
	if len(newView(question, topic).topic) == 0 { // the words as they stand have been searched for by then
		return []string{wide, plain, narrow}
	}
	return []string{plain, narrow, wide}
}

func joinWords(most int, lists ...[]string) string {
	var out []string
	for _, l := range lists {
		for _, w := range l {
			if !slices.Contains(out, w) {
				out = append(out, w)
			}
		}
	}
	return strings.Join(firstN(out, most), " ")
}

func firstN[T any](s []T, n int) []T { return s[:min(len(s), n)] }
