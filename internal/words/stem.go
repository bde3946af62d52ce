package words

// Stem reduces an English word to its stem; see [Bytes].
func Stem(word string) string { return string(Bytes([]byte(word))) }

// Bytes reduces an English word to its stem, after M. F. Porter, "An algorithm for
// suffix stripping", Program 14(3), 1980, with the two departures of the author's own
// C implementation (bli→ble, logi→log). Words shorter than three letters and words
// with anything but lower-case ASCII letters are returned as they are. The result may
// share memory with w, whose contents it changes.
func Bytes(w []byte) []byte {
	if len(w) < 3 {
		return w
	}
	for _, c := range w {
		if c < 'a' || c > 'z' {
			return w
		}
	}
	s := stemmer{b: w}
	s.plurals()
	s.pastAndGerund()
	s.finalY()
	s.suffixes(step2)
	s.suffixes(step3)
	s.residues()
	s.finalE()
	return s.b
}

type stemmer struct{ b []byte }

func (s *stemmer) consonant(i int) bool {
	switch s.b[i] {
	case 'a', 'e', 'i', 'o', 'u':
		return false
	case 'y':
		return i == 0 || !s.consonant(i-1)
	}
	return true
}

// measure is Porter's m of the first n letters: how often a vowel is followed by a
// consonant.
func (s *stemmer) measure(n int) int {
	m, vowel := 0, false
	for i := range n {
		c := s.consonant(i)
		if c && vowel {
			m++
		}
		vowel = !c
	}
	return m
}

func (s *stemmer) hasVowel(n int) bool {
	for i := range n {
		if !s.consonant(i) {
			return true
		}
	}
	return false
}

// doubled reports whether the first n letters end in a doubled consonant.
func (s *stemmer) doubled(n int) bool {
	return n >= 2 && s.b[n-1] == s.b[n-2] && s.consonant(n-1)
}

// cvc reports whether the first n letters end consonant, vowel, consonant, where the last
// is not w, x or y.
func (s *stemmer) cvc(n int) bool {
	if n < 3 || !s.consonant(n-1) || s.consonant(n-2) || !s.consonant(n-3) {
		return false
	}
	c := s.b[n-1]
	return c != 'w' && c != 'x' && c != 'y'
}

// before returns how many letters precede the suffix, or -1 if the word does not end in it.
func (s *stemmer) before(suffix string) int {
	n := len(s.b) - len(suffix)
	if n < 0 || string(s.b[n:]) != suffix {
		return -1
	}
	return n
}

func (s *stemmer) plurals() {
	switch {
	case s.before("sses") >= 0, s.before("ies") >= 0:
		s.b = s.b[:len(s.b)-2]
	case s.before("ss") >= 0:
	case s.before("s") >= 0:
		s.b = s.b[:len(s.b)-1]
	}
}

func (s *stemmer) pastAndGerund() {
	if n := s.before("eed"); n >= 0 {
		if s.measure(n) > 0 {
			s.b = s.b[:len(s.b)-1]
		}
		return
	}
	n := s.before("ed")
	if n < 0 {
		n = s.before("ing")
	}
	if n < 0 || !s.hasVowel(n) {
		return
	}
	s.b = s.b[:n]
	switch {
	case s.before("at") >= 0, s.before("bl") >= 0, s.before("iz") >= 0:
		s.b = append(s.b, 'e')
	case s.doubled(n) && s.b[n-1] != 'l' && s.b[n-1] != 's' && s.b[n-1] != 'z':
		s.b = s.b[:n-1]
	case s.measure(n) == 1 && s.cvc(n):
		s.b = append(s.b, 'e')
	}
}

func (s *stemmer) finalY() {
	if n := s.before("y"); n >= 0 && s.hasVowel(n) {
		s.b[n] = 'i'
	}
}

type rewrite struct{ from, to string }

// Within a step the first suffix that fits is the only one tried, so longer ones come
// first.
var (
	step2 = []rewrite{
		{"ational", "ate"}, {"tional", "tion"}, {"enci", "ence"}, {"anci", "ance"}, {"izer", "ize"},
		{"bli", "ble"}, {"alli", "al"}, {"entli", "ent"}, {"eli", "e"}, {"ousli", "ous"},
		{"ization", "ize"}, {"ation", "ate"}, {"ator", "ate"}, {"alism", "al"}, {"iveness", "ive"},
		{"fulness", "ful"}, {"ousness", "ous"}, {"aliti", "al"}, {"iviti", "ive"}, {"biliti", "ble"},
		{"logi", "log"},
	}
	step3 = []rewrite{
		{"icate", "ic"}, {"ative", ""}, {"alize", "al"}, {"iciti", "ic"}, {"ical", "ic"}, {"ful", ""}, {"ness", ""},
	}
	step4 = []string{
		"al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism",
		"ate", "iti", "ous", "ive", "ize",
	}
)

func (s *stemmer) suffixes(table []rewrite) {
	for _, r := range table {
		if n := s.before(r.from); n >= 0 {
			if s.measure(n) > 0 {
				s.b = append(s.b[:n], r.to...)
			}
			return
		}
	}
}

func (s *stemmer) residues() {
	for _, suffix := range step4 {
		n := s.before(suffix)
		if n < 0 {
			continue
		}
		if suffix == "ion" && (n == 0 || s.b[n-1] != 's' && s.b[n-1] != 't') {
			return
		}
		if s.measure(n) > 1 {
			s.b = s.b[:n]
		}
		return
	}
}

func (s *stemmer) finalE() {
	if n := s.before("e"); n >= 0 {
		if m := s.measure(n); m > 1 || m == 1 && !s.cvc(n) {
			s.b = s.b[:n]
		}
	}
	if n := s.before("ll"); n >= 0 && s.measure(len(s.b)) > 1 {
		s.b = s.b[:len(s.b)-1]
	}
}
