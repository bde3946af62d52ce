package memory

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/superstep-dev/superstep/internal/words"
)

// Search returns the items that are about what a text says, the best first, at most limit. It compares stems of words, and meanings if the memory has an
// Embed. An empty text means the newest items.
func (s *Space) Search(ctx context.Context, text string, limit int) ([]Item, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refresh(ctx); err != nil {
		return nil, err
	}
	var all []*stored
	for _, i := range s.items {
		if s.alive(&i.Item) {
			all = append(all, i)
		}
	}
	slices.SortFunc(all, func(a, b *stored) int { return cmp.Or(b.Updated.Compare(a.Updated), cmp.Compare(a.Key, b.Key)) })
	if strings.TrimSpace(text) != "" {
		score := byWords(all, text)
		if s.m.opt.Embed != nil {
			if near, err := s.byMeaning(ctx, all, text); err == nil {
				score = fused(all, score, near)
			} else if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
		}
		all = slices.DeleteFunc(all, func(i *stored) bool { return score[i] <= 0 })
		slices.SortStableFunc(all, func(a, b *stored) int { return cmp.Compare(score[b], score[a]) })
	}
	var out []Item
	for _, i := range all[:min(max(limit, 0), len(all))] {
		out = append(out, i.Item)
	}
	return out, nil
}

// stems counts the stems of the words of a text, without those that say nothing about its topic.
func stems(text string) map[string]int {
	out := map[string]int{}
	for _, w := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if !words.IsPlain(w) {
			out[words.Stem(w)]++
		}
	}
	return out
}

// byWords scores items by BM25. The words of a key count as those of the value.
func byWords(all []*stored, text string) map[*stored]float64 {
	total, having := 0, map[string]int{}
	query := slices.Sorted(maps.Keys(stems(text)))
	for _, i := range all {
		if i.words == nil {
			i.words = stems(i.Key + " " + i.Text())
		}
		total += len(i.words)
		for _, w := range query {
			if i.words[w] > 0 {
				having[w]++
			}
		}
	}
	out := map[*stored]float64{}
	for _, i := range all {
		long := float64(len(i.words)) * float64(len(all)) / float64(max(1, total))
		for _, w := range query {
			if n := float64(i.words[w]); n > 0 {
				rare := math.Log(1 + (float64(len(all)-having[w])+0.5)/(float64(having[w])+0.5))
				out[i] += rare * n * 2.2 / (n + 1.2*(0.25+0.75*long))
			}
		}
	}
	return out
}

// embedded is how many texts go into one call of Options.Embed.
const embedded = 64

// byMeaning returns the cosine similarity of each item to a text.
func (s *Space) byMeaning(ctx context.Context, all []*stored, text string) (map[*stored]float64, error) {
	query, err := s.m.opt.Embed(ctx, []string{text})
	if err != nil || len(query) != 1 {
		return nil, cmp.Or(err, errVectors)
	}
	want := unit(query[0])
	unknown := slices.DeleteFunc(slices.Clone(all), func(i *stored) bool { return len(i.vector) == len(want) })
	for part := range slices.Chunk(unknown, embedded) {
		texts := make([]string, len(part))
		for n, i := range part {
			texts[n] = i.Key + "\n" + i.Text()
		}
		vectors, err := s.m.opt.Embed(ctx, texts)
		if err != nil || len(vectors) != len(part) {
			return nil, cmp.Or(err, errVectors)
		}
		for n, i := range part {
			i.vector = unit(vectors[n])
		}
	}
	out := map[*stored]float64{}
	for _, i := range all {
		if len(i.vector) != len(want) {
			return nil, errVectors
		}
		for n := range want {
			out[i] += want[n] * i.vector[n]
		}
	}
	return out, nil
}

var errVectors = errors.New("there is not one vector for each text")

// unit returns the direction of a vector, with length 1.
func unit(v []float32) []float64 {
	out, sum := make([]float64, len(v)), 0.0
	for n, x := range v {
		out[n], sum = float64(x), sum+float64(x)*float64(x)
	}
	for n := range out {
		out[n] /= max(math.Sqrt(sum), math.SmallestNonzeroFloat64)
	}
	return out
}

// fused scores items by their places by words and by meaning together (reciprocal rank fusion). An item without a word of the text counts if it is near
// to it.
func fused(all []*stored, byWords, near map[*stored]float64) map[*stored]float64 {
	const smooth, similar = 10, 0.5
	out := map[*stored]float64{}
	for _, score := range []map[*stored]float64{byWords, near} {
		order := slices.Clone(all)
		slices.SortStableFunc(order, func(a, b *stored) int { return cmp.Compare(score[b], score[a]) })
		for place, i := range order {
			if byWords[i] > 0 || near[i] >= similar {
				out[i] += 1 / float64(smooth+place)
			}
		}
	}
	return out
}
