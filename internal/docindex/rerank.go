package docindex

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"sync/atomic"
)

// reranked is the number of passages that Options.Embed sees.
const reranked = 30

// rerank orders passages by their place by words and by their place by meaning together (reciprocal
// rank fusion). If Options.Embed fails, their order stays as it is.
func (ix *Index) rerank(ctx context.Context, question string, ps []Passage) []Passage {
	if ix.embed == nil || len(ps) < 2 {
		return ps
	}
	texts := []string{question}
	for _, p := range ps {
		lines := []string{p.Heading}
		for _, l := range p.Lines {
			lines = append(lines, strings.TrimSpace(l.Text))
		}
		texts = append(texts, strings.TrimSpace(strings.Join(lines, "\n")))
	}
	vectors, err := ix.embed(ctx, texts)
	if err != nil || len(vectors) != len(texts) {
		return ps
	}
	near := make([]float64, len(ps))
	places := make([]int, len(ps)) // by meaning
	for i := range ps {
		near[i], places[i] = cosine(vectors[0], vectors[i+1]), i
	}
	slices.SortStableFunc(places, func(a, b int) int { return cmp.Compare(near[b], near[a]) })
	score := make([]float64, len(ps))
	for place, i := range places {
		score[i] = 2/float64(rankConstant+i) + 1/float64(rankConstant+place) // words count twice
	}
	slices.Sort(places)
	slices.SortStableFunc(places, func(a, b int) int { return cmp.Compare(score[b], score[a]) })
	out := make([]Passage, len(ps))
	for place, i := range places {
		out[place] = ps[i]
	}
	return out
}

// cosine returns the cosine similarity of two vectors, or 0 if one has no direction.
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

// rankConstant is the smoothing constant of reciprocal rank fusion: the larger it is, the less the
// first places differ.
const rankConstant = 10

// Embedder returns an Options.Embed that calls embed until its first failure, and reports that
// failure. If embed is nil, it returns nil.
func Embedder(embed func(context.Context, []string) ([][]float32, error), report func(text string)) func(context.Context, []string) ([][]float32, error) {
	if embed == nil {
		return nil
	}
	var failed atomic.Pointer[error]
	return func(ctx context.Context, texts []string) ([][]float32, error) {
		if err := failed.Load(); err != nil {
			return nil, *err
		}
		vectors, err := embed(ctx, texts)
		if err != nil && ctx.Err() == nil && failed.CompareAndSwap(nil, &err) {
			report(err.Error() + "; passages keep their order by words")
		}
		return vectors, err
	}
}
