package docindex

import (
	"unicode"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/internal/porter"
)

const (
	maxToken  = 64      // bytes; longer runs are data, not words
	stemCache = 1 << 16 // words remembered by a tokenizer
)

// A tokenizer cuts text into terms: words in lower case and stemmed. Identifiers count
// as a whole and in their parts (gcTrigger: gctrigger, gc, trigger), scripts without
// spaces between words are cut into pairs of characters. It is not safe for use from
// several goroutines.
type tokenizer struct {
	stems map[string]string
	buf   []byte
}

func newTokenizer() *tokenizer { return &tokenizer{stems: make(map[string]string)} }

// each calls f with every term of text, the byte offset of the word it stems from, and
// whether that is a part of an identifier that was yielded before as a whole.
func (t *tokenizer) each(text []byte, f func(term string, at int, part bool)) {
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
		t.word(text[i:j], i, f)
		i = j
	}
}

// terms returns the terms of s in order, with repetitions.
func (t *tokenizer) terms(s string) []string {
	var out []string
	t.each([]byte(s), func(term string, _ int, _ bool) { out = append(out, term) })
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

func (t *tokenizer) word(w []byte, at int, f func(string, int, bool)) {
	if len(w) > maxToken || numeral(w) {
		return
	}
	f(t.stemmed(w), at, false)
	start, parts := 0, 0
	for i := 1; i < len(w); i++ {
		if !hump(w, i) {
			continue
		}
		if i-start > 1 {
			f(t.stemmed(w[start:i]), at+start, true)
		}
		start = i
		parts++
	}
	if parts > 0 && len(w)-start > 1 {
		f(t.stemmed(w[start:]), at+start, true)
	}
}

// hump says whether a part of an identifier starts at w[i]: fooBar, HTTPServer.
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

// numeral says whether w is a long number or hexadecimal constant, of which tables of
// data are full and which nobody searches for.
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

func (t *tokenizer) stemmed(w []byte) string {
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
	if s, ok := t.stems[string(b)]; ok {
		return s
	}
	word := string(b)
	s := string(porter.Bytes(b))
	if len(t.stems) >= stemCache {
		clear(t.stems)
	}
	t.stems[word] = s
	return s
}

// pairs yields the overlapping pairs of characters of the spaceless run at i, and
// returns where the run ends.
func (t *tokenizer) pairs(text []byte, i int, f func(string, int, bool)) int {
	prev, n := i, 0
	for i < len(text) {
		r, size := utf8.DecodeRune(text[i:])
		if !spaceless(r) {
			break
		}
		if n++; n > 1 {
			f(string(text[prev:i+size]), prev, false)
			prev += utf8.RuneLen(firstRune(text[prev:]))
		}
		i += size
	}
	if n == 1 {
		f(string(text[prev:i]), prev, false)
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
