package distil

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A source is a text that may recur in a later text, and the reference that replaces it there.
type source struct {
	text  string
	step  *step  // whose output it is, nil for others
	sub   string // below the output: ".name"
	input string // the name of an input, "" for others
	item  string // "item", or below: "item.name"
	loose bool   // it is short: it has to stand by itself
	exact bool   // it is a number or the like: only a value as a whole, or a word by itself
	at    uint64 // from when on it was known
}

func (s *source) ref() string {
	switch {
	case s.step != nil:
		return "steps." + s.step.id + ".output" + s.sub
	case s.input != "":
		return "inputs." + s.input + s.sub
	}
	return s.item + s.sub
}

// same reports whether two sources have the same reference.
func (s *source) same(o *source) bool {
	return s.step == o.step && s.sub == o.sub && s.input == o.input && s.item == o.item
}

// A tmpl is a text with references in it.
type tmpl struct{ parts []part }

// A part is a literal text, or a reference.
type part struct {
	lit string
	src *source
}

func (t *tmpl) sources() []*source {
	var out []*source
	for _, p := range t.parts {
		if p.src != nil {
			out = append(out, p.src)
		}
	}
	return out
}

// literal returns the parts that are not references.
func (t *tmpl) literal() string {
	var b strings.Builder
	for _, p := range t.parts {
		if p.src == nil {
			b.WriteString(p.lit)
		} else {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// text returns the template in the syntax of recipes.
func (t *tmpl) text() string {
	var b strings.Builder
	for _, p := range t.parts {
		if p.src != nil {
			b.WriteString("{{" + p.src.ref() + "}}")
		} else {
			b.WriteString(escaped(p.lit))
		}
	}
	return b.String()
}

// escaped returns a literal text, escaped for a template.
func escaped(s string) string { return strings.ReplaceAll(s, "{{", `\{{`) }

func (t *tmpl) same(o *tmpl) bool {
	return slices.EqualFunc(t.parts, o.parts, func(a, b part) bool {
		return (a.src == nil) == (b.src == nil) && a.lit == b.lit && (a.src == nil || a.src.same(b.src))
	})
}

// span is where a source is in a text.
type span struct {
	from, to int
	src      *source
}

// short is the length in characters below which a match may be chance.
const short = 8

// build finds sources in a text, the longest first.
func build(text string, sources []*source) *tmpl {
	list := slices.Clone(sources)
	slices.SortStableFunc(list, func(a, b *source) int {
		return cmp.Or(cmp.Compare(len(b.text), len(a.text)), cmp.Compare(b.at, a.at))
	})
	var taken []span
	covered := make([]bool, len(text))
	for _, s := range list {
		for from := 0; s.text != "" && from+len(s.text) <= len(text); {
			i := strings.Index(text[from:], s.text)
			if i < 0 {
				break
			}
			here := span{from + i, from + i + len(s.text), s}
			if from = here.from + 1; covered[here.from] || covered[here.to-1] || !fits(text, here) { // what is covered is longer
				continue
			}
			taken = append(taken, here)
			for k := here.from; k < here.to; k++ {
				covered[k] = true
			}
			from = here.to
		}
	}
	slices.SortFunc(taken, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	t, at := &tmpl{}, 0
	for _, s := range taken {
		if !expressible(text[at:s.from]) {
			continue // what is before it would make literal braces of the reference
		}
		if at < s.from {
			t.parts = append(t.parts, part{lit: text[at:s.from]})
		}
		t.parts = append(t.parts, part{src: s.src})
		at = s.to
	}
	if at < len(text) {
		t.parts = append(t.parts, part{lit: text[at:]})
	}
	return t
}

// expressible reports whether a reference may follow a literal text.
func expressible(lit string) bool {
	n := len(lit) - len(strings.TrimRight(lit, "{"))
	return n%2 == 0 && !strings.HasSuffix(lit, `\`)
}

// fits reports whether a match is a whole word and not a part of another one.
func fits(text string, s span) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:s.from])
	after, _ := utf8.DecodeRuneInString(text[s.to:])
	first, _ := utf8.DecodeRuneInString(s.src.text)
	last, _ := utf8.DecodeLastRuneInString(s.src.text)
	if s.from > 0 && wordy(before) && wordy(first) || s.to < len(text) && wordy(after) && wordy(last) {
		return false
	}
	if !s.src.loose {
		return true
	}
	open := s.from == 0 || strings.ContainsRune("\n\"'`“‘«>[(", before)
	closed := s.to == len(text) || strings.ContainsRune("\n\"'`”’»<])", after)
	return open && closed
}

func wordy(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' }

// outputs returns the sources of an output: the whole, and the texts of its fields.
func outputs(value json.RawMessage, at uint64, make func(sub string) *source) []*source {
	var out []*source
	add := func(sub, text string) {
		if strings.TrimSpace(text) == "" {
			return
		}
		s := make(sub)
		s.text, s.at, s.loose = text, at, utf8.RuneCountInString(text) < short
		out = append(out, s)
	}
	add("", textOf(value))
	var walk func(v any, sub string, depth int)
	walk = func(v any, sub string, depth int) {
		fields, is := v.(map[string]any)
		if !is || depth > 4 {
			return
		}
		for _, k := range keysOf(fields) {
			if !refName(k) {
				continue
			}
			below := sub + "." + k
			switch x := fields[k].(type) {
			case string:
				add(below, x)
			case map[string]any:
				add(below, string(compact(x)))
				walk(x, below, depth+1)
			case []any:
				add(below, string(compact(x)))
			}
		}
	}
	walk(decoded(value), "", 0)
	return out
}

// decoded decodes a JSON value and keeps the spelling of its numbers.
func decoded(raw json.RawMessage) any {
	d := json.NewDecoder(strings.NewReader(string(orNull(raw))))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil
	}
	return v
}

func keysOf(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// refName reports whether a field can be named in a reference.
func refName(s string) bool {
	return s != "" && len(s) < 100 && strings.IndexFunc(s, func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) < 0
}

// A token is a word of a text.
type token struct {
	text     string
	stem     string // what its forms have in common
	from, to int
	names    bool // it has digits or signs, or capitals inside: nobody says it by chance
	common   bool // everybody says it
}

// tokens returns the words of a text.
func tokens(s string) []token {
	var out []token
	inWord := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_-./:@%#+&", r)
	}
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if !inWord(r) {
			i += n
			continue
		}
		j := i
		for j < len(s) {
			r, n := utf8.DecodeRuneInString(s[j:])
			if !inWord(r) {
				break
			}
			j += n
		}
		word := strings.TrimRight(s[i:j], ".:/-&#+")
		lead := len(word) - len(strings.TrimLeft(word, "-:&+."))
		if word = word[lead:]; word != "" {
			out = append(out, newToken(word, i+lead))
		}
		i = j
	}
	return out
}

func newToken(word string, at int) token {
	t := token{text: word, from: at, to: at + len(word)}
	lower := strings.ToLower(word)
	for i, r := range word {
		t.names = t.names || unicode.IsDigit(r) || strings.ContainsRune("_./:@", r) || i > 0 && unicode.IsUpper(r) && lower[:1] != word[:1] ||
			i > 0 && unicode.IsUpper(r) && strings.IndexFunc(word, unicode.IsLower) >= 0
	}
	t.common = ordinary[lower]
	if t.stem = lower; !t.names {
		for _, end := range []string{"ing", "ed", "es", "s"} {
			if rest, ok := strings.CutSuffix(t.stem, end); ok && len(rest) >= 4 {
				t.stem = rest
				break
			}
		}
		if r := []rune(strings.TrimSuffix(t.stem, "e")); len(r) >= 3 {
			t.stem = string(r[:min(len(r), 5)])
		}
	}
	return t
}

// ordinary lists common words that do not identify the topic of a text.
var ordinary = func() map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(ordinaryWords) {
		m[w] = true
	}
	return m
}()

const ordinaryWords = `a an and are as at be been being but by can could did do does doing done for from had has have having he her his how i if in
into is it its itself just like me more most much must my no nor not now of off on once only or other our out over own please same she should
so some such than that the their them then there these they this those through to too under until up us very was we were what when where which
while who whom why will with would you your about above after again against all also any because before below between both down during each few
further here use used using uses make makes made give gives given get gets take takes tell tells say says said one two three first second last next
write writes written find finds found research review reviews check checks compare summarise summarize summary sum list lists explain describe
report reports brief result results output outputs answer answers task tasks step steps work part parts following notes note based look looks text
each every per via want need needs help show shows create creates draft drafts page sentence sentences paragraph words word good new`
