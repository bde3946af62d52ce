package vertex

import (
	"math/bits"
	"sync/atomic"
)

// A set is a set of vertices as a bitmap with 64-way summaries above it: a bit of a level says that
// the word below it is not zero. Members are sorted, and the cost of walking or emptying a set
// depends on its members and not on its capacity.
type set struct {
	levels [][]uint64 // levels[0] holds a bit for every vertex; the last one is a single word
}

func newSet(n int) set {
	var s set
	for words := wordsFor(n); ; words = wordsFor(words) {
		s.levels = append(s.levels, make([]uint64, words))
		if words == 1 {
			return s
		}
	}
}

// wordsFor returns how many words n bits need, and at least one.
func wordsFor(n int) int { return max(1, (n+63)>>6) }

func (s *set) words() []uint64 { return s.levels[0] }

func (s *set) has(v int32) bool { return hasBit(s.levels[0], v) }

func (s *set) empty() bool { return s.levels[len(s.levels)-1][0] == 0 }

// add puts the vertices of a mask into word w. It may be called from several goroutines.
func (s *set) add(w int, mask uint64) {
	if mask == 0 {
		return
	}
	for l := range s.levels {
		if atomic.OrUint64(&s.levels[l][w], mask) != 0 {
			return // whoever made it so tells the levels above
		}
		mask, w = 1<<(uint(w)&63), w>>6
	}
}

// addOwn is add for a caller who alone writes word w.
func (s *set) addOwn(w int, mask uint64) {
	word := &s.levels[0][w]
	old := *word
	*word = old | mask
	if old == 0 && mask != 0 && len(s.levels) > 1 {
		up := set{s.levels[1:]}
		up.add(w>>6, 1<<(uint(w)&63))
	}
}

// remove takes the vertices of a mask out of word w.
func (s *set) remove(w int, mask uint64) {
	for l := range s.levels {
		s.levels[l][w] &^= mask
		if s.levels[l][w] != 0 {
			return
		}
		mask, w = 1<<(uint(w)&63), w>>6
	}
}

// nextWord returns the first word from w on that is not zero, or -1.
func (s *set) nextWord(w int) int {
	if w < len(s.levels[0]) && s.levels[0][w] != 0 {
		return w
	}
	for l := 1; l < len(s.levels); l++ {
		at := w >> 6
		if at >= len(s.levels[l]) {
			return -1
		}
		if m := s.levels[l][at] >> (uint(w) & 63); m != 0 {
			w += bits.TrailingZeros64(m)
			for l--; l > 0; l-- {
				w = w<<6 | bits.TrailingZeros64(s.levels[l][w])
			}
			return w
		}
		w = at + 1
	}
	return -1
}

// collect appends the members in order, and gives up with false if they are more than limit.
func (s *set) collect(list []int32, limit int) ([]int32, bool) {
	for w := s.nextWord(0); w >= 0; w = s.nextWord(w + 1) {
		for m := s.levels[0][w]; m != 0; m &= m - 1 {
			if len(list) == limit {
				return list, false
			}
			list = append(list, int32(w<<6|bits.TrailingZeros64(m)))
		}
	}
	return list, true
}

// reset empties the set, and the same words of the bitmap beside it if there is one.
func (s *set) reset(beside []uint64) { s.clearWord(len(s.levels)-1, 0, beside) }

func (s *set) clearWord(l, w int, beside []uint64) {
	m := s.levels[l][w]
	s.levels[l][w] = 0
	if l == 0 {
		if beside != nil {
			beside[w] = 0
		}
		return
	}
	for ; m != 0; m &= m - 1 {
		s.clearWord(l-1, w<<6|bits.TrailingZeros64(m), beside)
	}
}

// grow allocates for n vertices.
func (s *set) grow(n int) {
	if wordsFor(n) <= len(s.levels[0]) {
		return
	}
	old := s.levels[0]
	*s = newSet(n)
	for w, m := range old {
		s.add(w, m)
	}
}

func hasBit(words []uint64, v int32) bool { return words[v>>6]>>(uint(v)&63)&1 != 0 }

// orWord sets bits of a word that several goroutines may write.
func orWord(word *uint64, mask uint64) { atomic.OrUint64(word, mask) }

// growWords is bits with room for n vertices.
func growWords(words []uint64, n int) []uint64 {
	if more := wordsFor(n) - len(words); more > 0 {
		return append(words, make([]uint64, more)...)
	}
	return words
}
