package offline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/superstep-dev/superstep/internal/porter"
)

// A topic is something that the best sentences of the results speak of besides the
// question's own words.
type topic struct {
	name   string
	stems  []string
	files  []string
	best   []float64 // of the sentences in each of the files
	said   int       // by how many sentences
	weight float64
}

// topics gathers them: headings, names of things, and pairs of words. The idea is
// pseudo-relevance feedback.
type topics struct {
	asked     []concept
	sentences int
	found     map[string]*topic
	order     []*topic
}

func (t *topics) note(name, path string, weight float64) {
	stems := terms(name)
	key := strings.Join(stems, " ")
	k := t.found[key]
	if k == nil {
		k = &topic{name: name, stems: stems}
		t.found[key] = k
		t.order = append(t.order, k)
	}
	k.said++
	i := slices.Index(k.files, path)
	if i < 0 {
		i = len(k.files)
		k.files, k.best = append(k.files, path), append(k.best, 0)
	}
	k.best[i] = max(k.best[i], weight)
}

// add notes what a sentence speaks of.
func (t *topics) add(s *sentence) {
	t.sentences++
	w := s.score * s.score
	if hs := words(s.head); len(hs) > 0 && len(hs) <= 5 && !vague(hs) && t.besides(hs) && t.about(hs) {
		t.note(s.head, s.path, 1.2*w)
	}
	text := s.String()
	for _, name := range names(text) {
		if ws := words(name); len(ws) == 1 && t.besides(ws) {
			t.note(name, s.path, 0.7*w)
		}
	}
	ws := words(text)
	for _, word := range ws {
		if t.specific(word) && len(word) > 4 && !verbal(word) && t.besides([]string{word}) {
			t.note(word, s.path, 0.35*w)
		}
	}
	for i := 0; i+1 < len(ws); i++ {
		pair := ws[i : i+2]
		if t.specific(pair[0]) && t.specific(pair[1]) && porter.Stem(pair[0]) != porter.Stem(pair[1]) && together(text, pair) && t.besides(pair) {
			by := 0.5
			if t.about(pair) {
				by = 1.1
			}
			t.note(pair[0]+" "+pair[1], s.path, by*w)
		}
	}
}

// specific reports whether a word may be half of a topic.
func (t *topics) specific(w string) bool {
	return known(t.asked, porter.Stem(w)) && wordy(w) || wordy(w) && len(w) > 3 && !vagueWord(w)
}

// together reports whether two words stand side by side, and are not parts of others.
func together(text string, pair []string) bool {
	low := strings.ToLower(text)
	i := strings.Index(low, pair[0]+" "+pair[1])
	end := i + len(pair[0]) + 1 + len(pair[1])
	return i >= 0 && (i == 0 || low[i-1] == ' ' || low[i-1] == '(') && (end == len(low) || low[end] != '-')
}

// besides reports whether words say something the question does not.
func (t *topics) besides(ws []string) bool {
	return slices.ContainsFunc(ws, func(w string) bool { return !known(t.asked, porter.Stem(w)) })
}

// about reports whether words say something the question does, too.
func (t *topics) about(ws []string) bool {
	return slices.ContainsFunc(ws, func(w string) bool { return known(t.asked, porter.Stem(w)) })
}

// ranked are the topics, the one that most speaks for first. One that only one
// sentence has is its own affair, as is one that has nothing of the question and that
// few files speak of, or that nearly all sentences have.
func (t *topics) ranked() []*topic {
	several := slices.DeleteFunc(slices.Clone(t.order), func(k *topic) bool {
		own := !slices.ContainsFunc(k.stems, func(s string) bool { return known(t.asked, s) })
		return k.said < 2 || k.said > max(3, t.sentences/2) || own && len(k.files) < 2 && len(names(k.name)) == 0
	})
	for _, k := range several {
		for _, w := range k.best {
			k.weight += w
		}
		if len(k.files) == 1 {
			k.weight *= 0.6
		}
	}
	slices.SortStableFunc(several, func(a, b *topic) int { return cmp.Compare(b.weight, a.weight) })
	return several
}

// inWords is a question as a topic.
func inWords(question string) string { return joinWords(6, words(question)) }

// leastTopic is the part of the weight of the best sentence below which a topic is an accident.
const leastTopic = 0.25

// mostTopics is how many topics a question is given besides its own words.
const mostTopics = 2

// directions are the question in its own words, and what to look into besides.
func (c *conversation) directions() []any {
	t := &topics{asked: concepts(c.question), found: map[string]*topic{}}
	top := c.best(25)
	for i := range top {
		t.add(&top[i])
	}
	out := []any{map[string]any{"topic": inWords(c.question), "rationale": "the question in its own words", "priority": "high"}}
	used := map[string]bool{}
	for _, k := range t.ranked() {
		if len(out) > mostTopics || len(out) > 1 && k.weight < leastTopic*top[0].score*top[0].score {
			break
		}
		if slices.ContainsFunc(k.stems, func(s string) bool { return used[s] }) {
			continue
		}
		for _, s := range k.stems {
			used[s] = !known(t.asked, s)
		}
		rationale := fmt.Sprintf("%d of the files that fit the question best speak of it", len(k.files))
		if len(k.files) == 1 {
			rationale = fmt.Sprintf("%s speaks of it where it fits the question best", k.files[0])
		}
		out = append(out, map[string]any{"topic": k.name, "priority": "medium", "rationale": rationale})
	}
	if len(out) == 1 {
		var other []string
		for _, k := range t.asked {
			other = append(other, firstN(k.others, 1)...)
		}
		if len(other) == 0 {
			other = append(firstN(words(c.question), 2), "overview")
		}
		out = append(out, map[string]any{"topic": joinWords(4, other), "priority": "low", "rationale": "the question in other words"})
	}
	return out
}

// names are the words of a text that look like the name of something in code: capitals
// within, or nothing but capitals.
func names(text string) []string {
	var out []string
	for _, f := range strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' && r != '\'' }) {
		inner := strings.IndexFunc(f[1:], unicode.IsUpper) >= 0
		if inner && len(f) > 4 && !strings.ContainsAny(f, "'_") && wordy(f) && !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	return out
}

// verbal reports whether a word looks like a form of a verb.
func verbal(w string) bool { return strings.HasSuffix(w, "ed") || strings.HasSuffix(w, "ing") }

func wordy(w string) bool {
	return len(w) > 2 && strings.IndexFunc(w, func(r rune) bool { return r >= '0' && r <= '9' || r == '\'' || r == '’' }) < 0
}

// vague reports whether words name nothing one could look into.
func vague(ws []string) bool {
	return !slices.ContainsFunc(ws, func(w string) bool { return !vagueWord(w) })
}

func vagueWord(w string) bool {
	const list = " able according accordingly across actual actually add added additional allow allowed allows already always another appear apply available avoid bad based become becomes begins best better big bit called caller calling calls case cases cause causes certain change changed changes chapter check checks common complete consider contain contains contents continue correct corresponding current currently default define defined describe described details different directly doesn eg end ensure ensures enough entire equal especially even every exactly example examples except exist exists existing expected explicit explicitly fact faq find finish first fit following follows force full general good greater group guarantee guaranteed guarantees happen happens help hold holds ie implement implementation implemented implements important include included includes including initial instead introduction involved issue keep kept know known large larger regardless versus via whenever wherever  last later least leave less let likely list little long longer look low main making match maximum mean means minimum multiple necessary needed never new next non none normal normally note notes number old open optional order original otherwise overview particular pass passed passing perform performs place point possible possibly potential previous probably proper provide provided provides put random rather readme reach read ready real really reason recent reference references regular related remain remaining require required requires respect respective result results return returned returns right run running runs second section see seen separate set sets several shared short show similar simple simply since single small smaller special specific specified specifies start started starts state step still stop store summary support supported supports sure table take taken takes third time total treat treated true type types typical typically unless unlike update upon usage useful user usually valid value values various version void want wants well whole work working works write wrong yes yet zero "
	return strings.Contains(list, " "+w+" ") || strings.HasSuffix(w, "ly")
}
