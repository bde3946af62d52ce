package evaluate

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

// Significant is the probability below which a difference does not count as chance.
const Significant = 0.05

// A Report is the result of an evaluation.
type Report struct {
	File        string           `json:"file"`
	Passed      bool             `json:"passed"` // every case passed enough, and no variant is worse
	Variants    []Variant        `json:"variants"`
	Comparisons []Comparison     `json:"comparisons,omitempty"`
	Judge       *transcript.Cost `json:"judge_cost,omitempty"` // of all judgements; nil if there were none
}

// A Variant holds the results of a variant.
type Variant struct {
	Name     string `json:"name"`
	Workflow string `json:"workflow"`
	Model    string `json:"model,omitempty"` // "" if it names none
	Cases    []Case `json:"cases"`
}

// A Case holds the runs of a case with a variant.
type Case struct {
	Name   string `json:"name"`
	Passed bool   `json:"passed"` // enough of its runs have passed
	Runs   []Run  `json:"runs"`
}

// A Run is the result of a run.
type Run struct {
	Run      string           `json:"run"` // its ID
	Status   runlog.Status    `json:"status"`
	Passed   bool             `json:"passed"`
	Why      string           `json:"why,omitempty"`  // why no check was performed
	Next     []string         `json:"next,omitempty"` // what to do about that
	Duration int64            `json:"duration_ms"`
	Cost     *transcript.Cost `json:"cost,omitempty"` // nil if it is not known
	Checks   []Verdict        `json:"checks,omitempty"`
}

// A Verdict is the result of a check of a run.
type Verdict struct {
	Check  string `json:"check"`
	Passed bool   `json:"passed"`
	Why    string `json:"why,omitempty"`
	Run    string `json:"run,omitempty"` // of the judge
}

// A Comparison compares a variant with another, by the cases that both have.
type Comparison struct {
	Variant  string   `json:"variant"`
	Against  string   `json:"against"`
	Baseline bool     `json:"baseline,omitempty"` // the other is of an earlier report
	Passed   Measure  `json:"passed"`             // shares of runs
	Cost     *Measure `json:"cost,omitempty"`     // medians, in US dollars; nil if the cost of a run is not known
	Duration *Measure `json:"duration_ms,omitempty"`
	Worse    bool     `json:"worse,omitempty"` // fewer runs pass, and that is significant
	Better   bool     `json:"better,omitempty"`
}

// A Measure is a number of two variants, and the probability of such a difference by chance alone.
type Measure struct {
	Was float64 `json:"was"`
	Is  float64 `json:"is"`
	P   float64 `json:"p"`
}

// Finish decides what has passed, and adds the comparisons with the first variant, and with the variants of an earlier report, nil for none.
func (r *Report) Finish(share float64, baseline *Report) {
	r.Passed = true
	for v := range r.Variants {
		for c := range r.Variants[v].Cases {
			x := &r.Variants[v].Cases[c]
			x.Passed = float64(count(x.Runs)) >= share*float64(len(x.Runs))-1e-9
			r.Passed = r.Passed && x.Passed
		}
	}
	for i := 1; i < len(r.Variants); i++ {
		r.Comparisons = append(r.Comparisons, compare(&r.Variants[i], &r.Variants[0]))
	}
	if baseline != nil {
		for i := range r.Variants {
			j := slices.IndexFunc(baseline.Variants, func(v Variant) bool { return v.Name == r.Variants[i].Name })
			if j < 0 && len(baseline.Variants) == 1 && len(r.Variants) == 1 {
				j = 0
			}
			if j >= 0 {
				c := compare(&r.Variants[i], &baseline.Variants[j])
				c.Baseline = true
				r.Comparisons = append(r.Comparisons, c)
			}
		}
	}
	for i := range r.Comparisons {
		r.Passed = r.Passed && !r.Comparisons[i].Worse
	}
}

func count(runs []Run) int {
	n := 0
	for i := range runs {
		if runs[i].Passed {
			n++
		}
	}
	return n
}

// compare compares a variant with a base.
func compare(v, base *Variant) Comparison {
	out := Comparison{Variant: v.Name, Against: base.Name}
	var passed []stratum
	var pairs [][2][]Run
	for i := range v.Cases {
		j := slices.IndexFunc(base.Cases, func(c Case) bool { return c.Name == v.Cases[i].Name })
		if j < 0 {
			continue
		}
		is, was := v.Cases[i].Runs, base.Cases[j].Runs
		passed = append(passed, stratum{count(is), len(is), count(was), len(was)})
		pairs = append(pairs, [2][]Run{is, was})
	}
	out.Passed = Measure{P: exact(passed)}
	out.Passed.Is, out.Passed.Was = shares(passed)
	if out.Passed.P < Significant {
		out.Worse, out.Better = out.Passed.Is < out.Passed.Was, out.Passed.Is > out.Passed.Was
	}
	out.Duration = medians(pairs, func(r *Run) (float64, bool) { return float64(r.Duration), true })
	out.Cost = medians(pairs, func(r *Run) (float64, bool) {
		if r.Cost == nil || r.Cost.More {
			return 0, false
		}
		return float64(r.Cost.Micros) / 1e6, true
	})
	return out
}

// shares returns the shares of the runs that passed.
func shares(all []stratum) (is, was float64) {
	var sum stratum
	for _, s := range all {
		sum = stratum{sum.a + s.a, sum.of + s.of, sum.b + s.b, sum.total + s.total}
	}
	return float64(sum.a) / max(1, float64(sum.of)), float64(sum.b) / max(1, float64(sum.total))
}

// medians compares a number of the runs of each case: how many are above the median of the case (Mood's test, by case). It returns nil if a run has no
// such number.
func medians(pairs [][2][]Run, of func(*Run) (float64, bool)) *Measure {
	var strata []stratum
	var is, was []float64
	for _, pair := range pairs {
		var sides [2][]float64
		for side, runs := range pair {
			for i := range runs {
				n, ok := of(&runs[i])
				if !ok {
					return nil
				}
				sides[side] = append(sides[side], n)
			}
		}
		middle := median(slices.Concat(sides[0], sides[1]))
		above := func(all []float64) (n int) {
			for _, x := range all {
				if x > middle {
					n++
				}
			}
			return n
		}
		strata = append(strata, stratum{above(sides[0]), len(sides[0]), above(sides[1]), len(sides[1])})
		is, was = append(is, sides[0]...), append(was, sides[1]...)
	}
	if len(is) == 0 || len(was) == 0 {
		return nil
	}
	return &Measure{Was: median(was), Is: median(is), P: exact(strata)}
}

func median(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	if len(sorted) == 0 {
		return 0
	}
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// A stratum is a case: a of so many runs of one variant have passed, and b of a total of the other.
type stratum struct{ a, of, b, total int }

// exact returns the two-sided probability of a difference at least as unlikely, if each run of a case could as well have been one of the other variant: the
// exact conditional test of Cochran, Mantel and Haenszel. With one case it is Fisher's exact test, with one run of each case McNemar's, the sign test.
func exact(strata []stratum) float64 {
	dist, seen := []float64{1}, 0 // dist[i] is the probability of i+low passes of the first variant
	low := 0
	for _, s := range strata {
		passed, all := s.a+s.b, s.of+s.total
		from, to := max(0, passed-s.total), min(passed, s.of)
		next := make([]float64, len(dist)+to-from)
		for k := from; k <= to; k++ {
			p := math.Exp(choose(passed, k) + choose(all-passed, s.of-k) - choose(all, s.of))
			for i, d := range dist {
				next[i+k-from] += d * p
			}
		}
		dist, low, seen = next, low+from, seen+s.a
	}
	p := 0.0
	for _, d := range dist {
		if d <= dist[seen-low]*(1+1e-7) {
			p += d
		}
	}
	return min(1, p)
}

// choose returns the logarithm of a binomial coefficient.
func choose(n, k int) float64 {
	lg := func(n int) float64 { v, _ := math.Lgamma(float64(n + 1)); return v }
	return lg(n) - lg(k) - lg(n-k)
}

// Took returns how long the run has executed.
func (r *Run) Took() time.Duration { return time.Duration(r.Duration) * time.Millisecond }

// dollars returns an amount of money with what tells two cheap runs apart.
func dollars(micros float64) string {
	if micros < 100_000 {
		return fmt.Sprintf("$%.4f", micros/1e6)
	}
	return fmt.Sprintf("$%.2f", micros/1e6)
}

func percent(share float64) string { return fmt.Sprintf("%.0f%%", share*100) }
