package docindex

import (
	"hash/maphash"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/internal/words"
)

const (
	maxToken = 64      // bytes; longer runs are data, not words
	maxWords = 1 << 14 // remembered by a tokenizer; a power of two
	maxStems = 1 << 15
)

// A tokenizer cuts text into terms: words in lower case and stemmed. Identifiers count
// as a whole and in their parts (gcTrigger: gctrigger, gc, trigger), scripts without
// spaces between words are cut into pairs of characters. It is not safe for use from
// several goroutines.
type tokenizer struct {
	seed  maphash.Seed
	words []word // a cache, by hash
	stems map[string]*stem
	buf   []byte
}

// A word has its terms.
type word struct {
	text   string
	pieces []piece
}

// A stem is a term, stored once per tokenizer.
type stem struct {
	text   string
	common bool // it is everywhere
	column int  // it was in last
}

// A piece is a term of a word.
type piece struct {
	*stem
	at   int // bytes into the word
	part bool
}

func newTokenizer() *tokenizer {
	return &tokenizer{seed: maphash.MakeSeed(), words: make([]word, maxWords), stems: make(map[string]*stem)}
}

// each calls f with every term of text, the byte offset of the word it stems from, and whether the
// term is a part of an identifier that was already yielded as a whole.
func (t *tokenizer) each(text []byte, f func(term *stem, at int, part bool)) {
	for i := 0; i < len(text); {
		c := text[i]
		if c < utf8.RuneSelf {
			if !asciiWord[c] {
				i++
				continue
			}
		} else {
			r, n := utf8.DecodeRune(text[i:])
			if spaceless(r) {
				i = t.pairs(text, i, f)
				continue
			}
			if !wordRune(r) {
				i += n
				continue
			}
		}
		j := wordEnd(text, i)
		if w := text[i:j]; len(w) <= maxToken {
			known := &t.words[maphash.Bytes(t.seed, w)%maxWords]
			if known.text != string(w) {
				*known = word{string(w), t.cut(w)}
			}
			for _, p := range known.pieces {
				f(p.stem, i+p.at, p.part)
			}
		}
		i = j
	}
}

// all returns the terms of s in order, with repetitions.
func (t *tokenizer) all(s string) []string {
	var out []string
	t.each([]byte(s), func(term *stem, _ int, _ bool) { out = append(out, term.text) })
	return out
}

func wordEnd(text []byte, i int) int {
	for i < len(text) {
		if c := text[i]; c < utf8.RuneSelf {
			if !asciiWord[c] {
				return i
			}
			i++
			continue
		}
		r, n := utf8.DecodeRune(text[i:])
		if !wordRune(r) || spaceless(r) {
			return i
		}
		i += n
	}
	return i
}

// cut returns the terms of a word.
func (t *tokenizer) cut(w []byte) []piece {
	if numeral(w) {
		return nil
	}
	out := []piece{{t.stem(w), 0, false}}
	start := 0
	for i := 1; i <= len(w); i++ {
		if i < len(w) && !hump(w, i) || i == len(w) && start == 0 {
			continue
		}
		if i-start > 1 {
			out = append(out, piece{t.stem(w[start:i]), start, true})
		}
		start = i
	}
	return out
}

// hump reports whether a part of an identifier starts at w[i]: fooBar, HTTPServer.
func hump(w []byte, i int) bool {
	if c := w[i]; c < 'A' || c > 'Z' {
		return false
	}
	p := w[i-1]
	if p >= 'a' && p <= 'z' || p >= '0' && p <= '9' {
		return true
	}
	return p >= 'A' && p <= 'Z' && i+1 < len(w) && w[i+1] >= 'a' && w[i+1] <= 'z'
}

// numeral reports whether w is a long number or hexadecimal constant. Data tables are full of
// these, and nobody searches for them.
func numeral(w []byte) bool {
	if len(w) < 6 || w[0] < '0' || w[0] > '9' {
		return false
	}
	hex := w[1] == 'x' || w[1] == 'X'
	if hex {
		w = w[2:]
	}
	for _, c := range w {
		if (c < '0' || c > '9') && (!hex || (c|0x20 < 'a' || c|0x20 > 'f')) {
			return false
		}
	}
	return true
}

// stem returns the term for a word or a part of one.
func (t *tokenizer) stem(w []byte) *stem {
	b := t.buf[:0]
	ascii := true
	for _, c := range w {
		if c >= utf8.RuneSelf {
			ascii = false
			break
		}
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		b = append(b, c)
	}
	if !ascii {
		b = b[:0]
		for _, r := range string(w) {
			b = utf8.AppendRune(b, unicode.ToLower(r))
		}
	}
	t.buf = b
	return t.term(words.Bytes(b))
}

func (t *tokenizer) term(b []byte) *stem {
	s, ok := t.stems[string(b)]
	if !ok {
		s = &stem{text: string(b), common: everywhere(string(b))}
		t.stems[s.text] = s
	}
	return s
}

// pairs yields the overlapping pairs of characters of the spaceless run at i, and
// returns where the run ends.
func (t *tokenizer) pairs(text []byte, i int, f func(*stem, int, bool)) int {
	prev, n := i, 0
	for i < len(text) {
		r, size := utf8.DecodeRune(text[i:])
		if !spaceless(r) {
			break
		}
		if n++; n > 1 {
			f(t.term(text[prev:i+size]), prev, false)
			prev += utf8.RuneLen(firstRune(text[prev:]))
		}
		i += size
	}
	if n == 1 {
		f(t.term(text[prev:i]), prev, false)
	}
	return i
}

func firstRune(b []byte) rune { r, _ := utf8.DecodeRune(b); return r }

func spaceless(r rune) bool {
	return r >= 0x0E00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

func wordRune(r rune) bool {
	if r < utf8.RuneSelf {
		return r >= 0 && asciiWord[r]
	}
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.Is(unicode.Mn, r))
}

var asciiWord = func() (t [utf8.RuneSelf]bool) {
	for c := range t {
		t[c] = c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
	}
	return t
}()

// Words returns the stemmed content words of a text, each once.
func Words(text string) []string {
	tok := newTokenizer()
	plain := termSet(tok, words.Plain+" "+frameWords)
	var out []string
	for _, w := range tok.wholes([]byte(text)) {
		if (len(w) > 1 || w[0] <= '9') && !plain[w] && !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}
