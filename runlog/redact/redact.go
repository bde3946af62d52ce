// Package redact keeps secrets out of the log of a run. A [Redactor] knows the values of secrets
// and the shapes of well-known credentials, and redacts both in texts and in JSON. [Store] applies
// it to everything that a run writes.
//
// What it promises is about what it can see: a value it was told, as it is, or as JSON
// URLs and base64 spell it, also inside of JSON that is inside of a string; and credentials of the
// shapes in its list. A secret in another encoding, cut in two, or in a number it
// does not find.
package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// minValue is the least length of a secret value in bytes. Shorter values would match parts of
// words.
const minValue = 8

// A Secret is a value that must not be written.
type Secret struct {
	Name  string // what stands for it: [redacted:NAME]; "" for [redacted]
	Value string // space around it does not count
}

const hidden = "[redacted]"

// A Redactor redacts secrets. It is immutable, and may be used from several goroutines. A nil
// Redactor redacts nothing.
type Redactor struct {
	bits    [1024]uint64 // which hashes of three bytes begin a needle, or an odd escape
	needles map[uint32][]needle
	names   []string
	ignored []string
	wide    bool // some value is not ASCII
	control bool // some value has control characters
}

// A needle is something to look for.
type needle struct {
	text string
	with string // what takes its place
	word bool   // it looks like the name of a field, and is left unchanged where one stands
	rule rule   // of a shape, nil for a value
}

// New returns a redactor for secrets, and for the shapes it knows. Values that are too short are
// not looked for, see [Redactor.Ignored]. Each line of a multi-line value is searched for as well,
// unless it is too short or too common.
func New(secrets ...Secret) *Redactor {
	r := &Redactor{needles: map[uint32][]needle{}}
	var forms []string
	for _, s := range secrets {
		v := strings.TrimSpace(s.Value)
		if len(v) < minValue || strings.Contains(hidden, v) {
			r.ignored = append(r.ignored, s.Name)
			continue
		}
		r.names = append(r.names, s.Name)
		for _, part := range append(lines(v), v) {
			forms = append(forms, spellings(part)...)
		}
	}
	slices.Sort(r.names)
	r.names = slices.Compact(r.names)
	for _, s := range secrets {
		v := strings.TrimSpace(s.Value)
		if len(v) < minValue || strings.Contains(hidden, v) {
			continue
		}
		with := mark(s.Name)
		if slices.ContainsFunc(forms, func(f string) bool { return strings.Contains(with, f) }) {
			with = hidden // the name would tell
		}
		for _, part := range append(lines(v), v) {
			for _, f := range spellings(part) {
				r.add(needle{text: f, with: with, word: isWord(f)})
			}
		}
		for i := range len(v) {
			r.wide = r.wide || v[i] >= utf8.RuneSelf
			r.control = r.control || v[i] < ' '
		}
	}
	for _, s := range shapes() {
		for _, anchor := range s.anchors {
			r.add(needle{text: anchor, with: hidden, rule: s.rule})
		}
	}
	for _, list := range r.needles { // the longest first, values before shapes
		slices.SortStableFunc(list, func(a, b needle) int {
			if (a.rule == nil) != (b.rule == nil) {
				if a.rule == nil {
					return -1
				}
				return 1
			}
			return len(b.text) - len(a.text)
		})
	}
	// Escapes that may hide something.
	for c := range 256 {
		r.set(gram('\\', '/', byte(c)))
	}
	for _, c := range []byte("0123456789abcdefABCDEF") {
		r.set(gram('\\', 'u', c))
	}
	return r
}

// Ignored returns the names of the secrets whose values are too short to be looked for.
func (r *Redactor) Ignored() []string {
	if r == nil {
		return nil
	}
	return slices.Clone(r.ignored)
}

// Names returns the names of the secrets that are looked for, sorted.
func (r *Redactor) Names() []string {
	if r == nil {
		return nil
	}
	return slices.Clone(r.names)
}

// mark returns the placeholder for a secret of that name.
func mark(name string) string {
	clean := strings.Map(func(c rune) rune {
		if c < utf8.RuneSelf && alnum(byte(c)) || c == '_' || c == '-' || c == '.' {
			return c
		}
		return '_'
	}, name)
	if clean == "" {
		return hidden
	}
	return "[redacted:" + clean + "]"
}

// lines returns the lines of a value that are secrets by themselves. It leaves out lines that also
// occur in other texts: the armour of keys, words, and settings made of words.
func lines(v string) (out []string) {
	if !strings.Contains(v, "\n") {
		return nil
	}
	const phrase = 16
	for line := range strings.Lines(v) {
		line = strings.TrimSpace(line)
		wordy := isWords(line) && (strings.ContainsAny(line, ":=") || strings.Contains(line, " ") && len(line) < phrase)
		if len(line) >= minValue && !strings.HasPrefix(line, "-----") && !isPlainWord(line) && !wordy && !strings.Contains(hidden, line) {
			out = append(out, line)
		}
	}
	return out
}

// spellings returns the forms in which a value may appear: as it is, escaped as in URLs, and encoded as JSON. JSON may be encoded up to
// three times, with or without escapes for <, > and &.
func spellings(v string) []string {
	out := []string{v, url.QueryEscape(v), url.PathEscape(v)}
	level := []string{v}
	for range 3 {
		var next []string
		for _, s := range level {
			next = append(next, escape(s, true), escape(s, false))
		}
		slices.Sort(next)
		level = slices.Compact(next)
		out = append(out, level...)
	}
	out = append(out, inBase64(v)...)
	slices.Sort(out)
	return slices.Compact(out)
}

// inBase64 returns what of a value is the same wherever it stands in a text that is encoded as base64.
func inBase64(v string) (out []string) {
	for before, from := range []int{0, 2, 3} { // bytes before it, and the characters that they take part in
		b := append(make([]byte, before), v...)
		b = b[:len(b)-len(b)%3] // what follows takes part in the rest
		for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			if text := e.EncodeToString(b); len(text)-from >= minValue {
				out = append(out, text[from:])
			}
		}
	}
	return out
}

// escape returns a string in JSON, without the quotes.
func escape(s string, html bool) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(html)
	if e.Encode(s) != nil {
		return s
	}
	return string(b.Bytes()[1 : b.Len()-2])
}

// isWord reports whether a value could be the name of a field.
func isWord(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && c != '_' {
			return false
		}
	}
	return true
}

func gram(a, b, c byte) uint32 { return uint32(a) | uint32(b)<<8 | uint32(c)<<16 }

func hash(g uint32) uint32 { return g * 0x9e3779b1 >> 16 }

func (r *Redactor) set(g uint32) { r.bits[hash(g)>>6] |= 1 << (hash(g) & 63) }

func (r *Redactor) add(n needle) {
	g := gram(n.text[0], n.text[1], n.text[2])
	r.set(g)
	r.needles[g] = append(r.needles[g], n)
}

func hasAt(s []byte, i int, p string) bool {
	return i >= 0 && len(s)-i >= len(p) && string(s[i:i+len(p)]) == p
}

// A match is a part of a text that is replaced.
type match struct {
	from, to int
	with     string
}

// How to look.
type mode struct {
	raw    bool // at JSON as it is written: odd escapes count
	name   bool // at the name of a field
	values bool // for values
	shapes bool // for shapes
}

// find returns the first match from an offset on.
func (r *Redactor) find(s []byte, from int, m mode) (match, bool) {
	if len(s)-from < 3 {
		return match{}, false
	}
	w := gram(0, s[from], s[from+1])
	for i := from + 2; i < len(s); i++ {
		w = w>>8 | uint32(s[i])<<16
		h := hash(w)
		if r.bits[h>>6]>>(h&63)&1 == 0 {
			continue
		}
		if got, ok := r.at(s, i-2, w, m); ok {
			return got, true
		}
	}
	return match{}, false
}

// at reports whether a match begins, or has its anchor, at i.
func (r *Redactor) at(s []byte, i int, w uint32, m mode) (match, bool) {
	for k := range r.needles[w] {
		n := &r.needles[w][k]
		switch {
		case !hasAt(s, i, n.text):
		case n.rule != nil:
			if m.shapes {
				if from, to, ok := n.rule(s, i); ok {
					return match{from, to, n.with}, true
				}
			}
		case m.values && !(m.name && n.word):
			return match{i, i + len(n.text), n.with}, true
		}
	}
	if m.raw && s[i] == '\\' && r.odd(s, i) {
		return match{from: i, to: i + 2}, true
	}
	return match{}, false
}

// odd reports whether the escape at i is unnecessary, so that it may hide a secret from a literal
// search.
func (r *Redactor) odd(s []byte, i int) bool {
	if s[i+1] == '/' {
		return true
	}
	c, ok := hex4(s, i+2)
	switch {
	case !ok:
		return true
	case c >= utf8.RuneSelf:
		return r.wide
	case c == '<' || c == '>' || c == '&':
		return s[i+5] == 'C' || s[i+5] == 'E' // which encoders write small
	case c < ' ':
		return r.control
	}
	return true
}

// hex4 reads four hexadecimal digits.
func hex4(s []byte, i int) (c rune, ok bool) {
	if len(s)-i < 4 {
		return 0, false
	}
	for _, d := range s[i : i+4] {
		switch {
		case d >= '0' && d <= '9':
			c = c<<4 | rune(d-'0')
		case d|0x20 >= 'a' && d|0x20 <= 'f':
			c = c<<4 | rune(d|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return c, true
}

// Text takes the secrets out of a text.
func (r *Redactor) Text(s string) string {
	if r == nil {
		return s
	}
	b := []byte(s)
	if out, changed := r.clean(b, false); changed {
		return string(out)
	}
	return s
}

// clean redacts known values first, since they have names, and then text in the shape of a
// credential. It does not change s.
func (r *Redactor) clean(s []byte, name bool) (out []byte, changed bool) {
	out, values := r.replace(s, mode{name: name, values: true})
	out, shapes := r.replace(out, mode{shapes: true})
	return out, values || shapes
}

func (r *Redactor) replace(s []byte, m mode) (out []byte, changed bool) {
	done := 0
	for from := 0; ; {
		got, ok := r.find(s, from, m)
		if !ok {
			break
		}
		if !changed {
			out, changed = make([]byte, 0, len(s)), true
		}
		out = append(append(out, s[done:max(done, got.from)]...), got.with...)
		done = max(done, got.to)
		from = done
	}
	if !changed {
		return s, false
	}
	return append(out, s[done:]...), true
}

// JSON takes the secrets out of the strings of a JSON value, the names of fields included. Valid
// JSON stays valid. If it has no secret, the result is the argument itself, byte for byte;
// otherwise it is a new value, and the argument is unchanged. Input that is not JSON is treated as
// text.
func (r *Redactor) JSON(data []byte) []byte {
	if r == nil {
		return data
	}
	if _, suspect := r.find(data, 0, mode{raw: true, values: true, shapes: true}); !suspect {
		return data
	}
	if !json.Valid(data) {
		out, _ := r.clean(data, false)
		return out
	}
	var out, scratch []byte
	done := 0
	for i := 0; i < len(data); i++ {
		if data[i] != '"' {
			continue
		}
		end := i + 1
		escapes := false
		for data[end] != '"' {
			if data[end] == '\\' {
				escapes = true
				end++
			}
			end++
		}
		s := data[i+1 : end]
		if escapes {
			scratch = unescape(scratch[:0], s)
			s = scratch
		}
		if clean, changed := r.clean(s, isName(data[end+1:])); changed {
			if out == nil {
				out = make([]byte, 0, len(data))
			}
			out = quote(append(out, data[done:i]...), clean)
			done = end + 1
		}
		i = end
	}
	if done == 0 {
		return data
	}
	return append(out, data[done:]...)
}

// isName reports whether a colon follows.
func isName(rest []byte) bool {
	for _, c := range rest {
		switch c {
		case ' ', '\t', '\n', '\r':
		default:
			return c == ':'
		}
	}
	return false
}

// unescape appends the decoded content of a JSON string. Half a surrogate pair becomes U+FFFD.
func unescape(dst, s []byte) []byte {
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			dst = append(dst, s[i])
			continue
		}
		i++
		switch c := s[i]; c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			c, _ := hex4(s, i+1)
			i += 4
			if utf16.IsSurrogate(c) {
				low, _ := hex4(s, i+3)
				if pair := utf16.DecodeRune(c, low); pair != utf8.RuneError && hasAt(s, i+1, `\u`) {
					i += 6
					c = pair
				}
			}
			dst = utf8.AppendRune(dst, c)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// quote appends a text as a JSON string.
func quote(dst, s []byte) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, `\n`...)
		case c < ' ':
			dst = append(dst, `\u00`...)
			dst = append(dst, digits[c>>4], digits[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}
