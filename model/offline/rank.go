package offline

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/superstep-dev/superstep/internal/porter"
)

// A view is what sentences are ranked by: the question, and the part of it that is
// looked into, if it is only a part.
type view struct {
	question string
	asked    []concept // of the question
	topic    []concept // what the topic has besides
	pairs    [][2]string
}

func newView(question, topic string) *view {
	v := &view{question: question, asked: concepts(question)}
	for _, t := range concepts(topic) {
		if !slices.ContainsFunc(v.asked, func(o concept) bool { return o.word == t.word || o.stems[porter.Stem(t.word)] > 0 }) {
			v.topic = append(v.topic, t)
		}
	}
	ws := words(question)
	for i := 0; i+1 < len(ws); i++ {
		if side(question, ws[i], ws[i+1]) {
			v.pairs = append(v.pairs, [2]string{porter.Stem(ws[i]), porter.Stem(ws[i+1])})
		}
	}
	return v
}

// rank scores sentences, drops those that do not fit, and sorts the rest, the best
// first. The score is from 0 to about 1: how much of the question's weight a sentence
// covers, mended by how well it stands alone, where it stands, and how much it has in
// common with what several other files say about the question.
func (v *view) rank(all []sentence) []sentence {
	for i := range all {
		s := &all[i]
		s.order, s.terms = terms(s.String()), stems(s.String())
	}
	weigh(all, v.asked)
	weigh(all, v.topic)
	for i := range all {
		s := &all[i]
		broad := float64(covers(v.asked, s.terms)) / float64(max(1, len(v.asked)))
		s.score = v.fits(s) * (0.7 + 0.3*broad) * length(len(s.order)) * standing(s.String()) * standpoint(s)
	}
	all = slices.DeleteFunc(all, func(s sentence) bool {
		return s.score < 0.12 || covers(v.asked, s.terms) < min(2, (len(v.asked)+1)/2) && len(v.topic) == 0 ||
			len(v.topic) > 0 && (covers(v.topic, s.terms) == 0 || covers(v.asked, s.terms) == 0)
	})
	slices.SortStableFunc(all, func(a, b sentence) int { return cmp.Compare(b.score, a.score) })
	v.agree(all)
	slices.SortStableFunc(all, func(a, b sentence) int { return cmp.Compare(b.score, a.score) })
	return all
}

// fits is how much of the view a sentence covers.
func (v *view) fits(s *sentence) float64 {
	f := v.covered(s.terms)
	if s.own != "" { // what it leans on is not what it says
		f = 0.3*f + 0.7*v.covered(stems(s.own))
	}
	if len(v.pairs) == 0 {
		return f
	}
	var said []string
	for _, w := range words(s.String()) {
		said = append(said, porter.Stem(w))
	}
	n := 0
	for _, p := range v.pairs {
		for i := 0; i+1 < len(said); i++ {
			if said[i] == p[0] && said[i+1] == p[1] {
				n++
				break
			}
		}
	}
	return f * (1 + 0.2*float64(n)/float64(len(v.pairs)))
}

// stems are the terms and the acronyms of a text.
func stems(text string) map[string]bool { return set(append(terms(text), acronyms(text)...)) }

func (v *view) covered(stems map[string]bool) float64 {
	f := fit(v.asked, stems)
	if len(v.topic) > 0 {
		f = 0.6*f + 0.4*fit(v.topic, stems)
	}
	return f
}

// agree raises sentences that speak of what the best sentences of several files speak
// of, and lowers those that speak of their own affairs. It is relevance feedback.
func (v *view) agree(sorted []sentence) {
	top := firstN(sorted, 40)
	files := map[string][]string{}
	for i := range top {
		for _, t := range top[i].order {
			if !known(v.asked, t) && !slices.Contains(files[t], top[i].path) {
				files[t] = append(files[t], top[i].path)
			}
		}
	}
	common, most := make([]float64, len(sorted)), 0.0
	for i := range sorted {
		for _, t := range sorted[i].order {
			if n := len(files[t]); n > 1 {
				common[i] += math.Log(float64(n))
			}
		}
		common[i] /= math.Sqrt(float64(len(sorted[i].order) + 4))
		most = max(most, common[i])
	}
	if most == 0 {
		return
	}
	for i := range sorted {
		sorted[i].score *= 0.8 + 0.4*common[i]/most
	}
}

// length prefers sentences that say something and do not ramble.
func length(terms int) float64 {
	n := float64(terms)
	return 1 - max(0, 7-n)/16 - max(0, n-18)/45
}

// standpoint is how much the place of a sentence speaks for it.
func standpoint(s *sentence) float64 {
	f := 1 / (1 + 0.015*float64(s.rank))
	low := "/" + strings.ToLower(s.path)
	for _, p := range []struct {
		in string
		by float64
	}{{"_test.", 0.5}, {"/test", 0.6}, {"/testdata/", 0.5}, {"/vendor/", 0.6}, {"changelog", 0.6}, {"/third_party/", 0.6}, {".json", 0.7}, {".svg", 0.5}} {
		if strings.Contains(low, p.in) {
			f *= p.by
		}
	}
	return f
}

// leans reports whether a sentence needs the one before it to be understood.
func leans(s string) bool {
	first, _, _ := strings.Cut(s, " ")
	switch strings.ToLower(strings.Trim(first, ",.;:(")) {
	case "this", "that", "these", "those", "it", "its", "they", "their", "thus", "otherwise", "however", "below", "above", "then", "so", "but",
		"and", "or", "also", "here", "such", "hence", "therefore", "consequently", "instead", "similarly", "likewise", "both", "neither", "again",
		"furthermore", "moreover", "nevertheless", "conversely", "which", "additionally", "alternatively", "finally", "next", "second", "third":
		return true
	}
	low := strings.ToLower(s)
	return strings.HasPrefix(low, "n.b.") || strings.HasPrefix(low, "in case (") || strings.HasPrefix(low, "in this case") || strings.HasPrefix(low, "in that case") || strings.HasPrefix(low, "for example") || strings.HasPrefix(low, "as a result")
}

// standing is how well a sentence stands on its own.
func standing(s string) float64 {
	f := 1.0
	if leans(s) {
		f = 0.7
	}
	if strings.Contains(s, " (1) ") || strings.Contains(s, " (2)") {
		f *= 0.8 // of an enumeration
	}
	if lower(s) {
		f *= 0.8
	}
	if strings.HasSuffix(s, ":") || strings.HasSuffix(s, "?") {
		f *= 0.6
	}
	if first, _, _ := strings.Cut(s, " "); strings.IndexFunc(first, unicode.IsDigit) == 0 {
		f *= 0.8
	}
	for _, w := range []string{" we ", "We ", " I ", "I'm", " see "} {
		if strings.Contains(s, w) || strings.HasPrefix(s, strings.TrimSpace(w)+" ") {
			f *= 0.92
		}
	}
	return f
}

// weigh scales the concepts by how rare they are among the sentences.
func weigh(all []sentence, cs []concept) {
	for i := range cs {
		n := 0
		for _, s := range all {
			for t := range cs[i].stems {
				if s.terms[t] {
					n++
					break
				}
			}
		}
		cs[i].weight *= math.Log(1.5 + float64(len(all))/float64(n+1))
	}
}

// ranked are the sentences of the results that fit the question, the best first.
func (c *conversation) ranked() []sentence {
	var all []sentence
	seen := map[string]bool{}
	for i := range c.results {
		for _, s := range c.results[i].sentences() {
			key := s.path + "\x00" + s.String()
			if !seen[key] && !c.quoted(&s) {
				seen[key] = true
				all = append(all, s)
			}
		}
	}
	return newView(c.question, c.topic).rank(all)
}

// quoted reports whether the prompt says that a sentence was found before.
func (c *conversation) quoted(s *sentence) bool {
	return slices.ContainsFunc(s.pieces, func(p line) bool { return slices.Contains(c.found, place{s.path, p.n}) })
}

// best picks the sentences of the results that fit the question best, no two alike.
func (c *conversation) best(n int) []sentence { return diverse(c.ranked(), n) }

// diverse takes the best sentences, passing over those that say what a better one does.
func diverse(sorted []sentence, n int) []sentence {
	var out []sentence
	for _, s := range sorted {
		if len(out) == n {
			break
		}
		if !slices.ContainsFunc(out, func(o sentence) bool { return alike(s.terms, o.terms) > 0.7 }) {
			out = append(out, s)
		}
	}
	return out
}

// alike is how much two sets have in common, as a part of the smaller one.
func alike(a, b map[string]bool) float64 {
	both := 0
	for t := range a {
		if b[t] {
			both++
		}
	}
	return float64(both) / float64(max(1, min(len(a), len(b))))
}
