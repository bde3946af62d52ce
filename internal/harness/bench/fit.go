package main

import (
	"cmp"
	"math"
	"slices"
)

// A point is what one unit of a series costs at one size.
type point struct{ size, cost float64 }

// exponent fits cost = c · size^e by least squares over the logarithms and gives e. It
// takes two sizes at least.
func exponent(points []point) (e float64, ok bool) {
	var n, sx, sy, sxx, sxy float64
	for _, p := range points {
		if p.size <= 0 || p.cost <= 0 {
			continue
		}
		x, y := math.Log(p.size), math.Log(p.cost)
		n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	if d := n*sxx - sx*sx; n >= 2 && d > 1e-9 {
		return (n*sxy - sx*sy) / d, true
	}
	return 0, false
}

// A fitted series is a series with the exponent of its fit.
type fitted struct {
	wl       string
	series   series
	points   []point
	exponent float64 // of all the work, so 1 is linear where the size is the number of units
	ok       bool
}

// fits returns the series of records, in the order in which they come.
func fits(recs []*record) []*fitted {
	var out []*fitted
	by := map[string]*fitted{}
	for _, r := range recs {
		if r.series.name == "" || r.MedMs == 0 {
			continue
		}
		f := by[r.series.name]
		if f == nil {
			f = &fitted{wl: r.WL, series: r.series}
			by[r.series.name] = f
			out = append(out, f)
		}
		f.points = append(f.points, point{r.series.size, r.UsPerN})
	}
	for _, f := range out {
		slices.SortFunc(f.points, func(a, b point) int { return cmp.Compare(a.size, b.size) })
		f.exponent, f.ok = exponent(f.points)
		f.exponent += f.series.grows
	}
	return out
}
