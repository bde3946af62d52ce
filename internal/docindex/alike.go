package docindex

import (
	"math"

	"github.com/superstep-dev/superstep/internal/wordvec"
)

// A lexicon has the directions of stems, as far as there are word vectors.
type lexicon map[string][]float32

// newLexicon is made at the first search: 20,000 stems, in some milliseconds.
func newLexicon() (lexicon, error) {
	t, err := wordvec.Load()
	if err != nil {
		return nil, err
	}
	l := make(lexicon)
	tok := newTokenizer()
	for word, v := range t.All() {
		stem := tok.stem([]byte(word)).text
		sum := l[stem]
		if sum == nil {
			sum = make([]float32, wordvec.Dims)
			l[stem] = sum
		}
		for i, x := range v {
			sum[i] += x
		}
	}
	return l, nil
}

// cosine returns how alike two directions are; 0 if one has none.
func cosine(a, b []float32) float64 {
	if len(a) != len(b) {
		return 0
	}
	var ab, aa, bb float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
	}
	if aa == 0 || bb == 0 {
		return 0
	}
	return ab / math.Sqrt(aa*bb)
}
