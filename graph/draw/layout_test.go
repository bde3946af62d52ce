package draw

import (
	"math"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// No two boxes of a layout overlap, no edge goes through a box, and all lies within it.
func TestLayout(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 25).Draw(t, "boxes")
		boxes := make([]box, n)
		for i := range boxes {
			boxes[i] = box{w: float64(rapid.IntRange(40, 400).Draw(t, "w")), h: float64(2 * rapid.IntRange(10, 150).Draw(t, "h")), right: float64(rapid.IntRange(0, 60).Draw(t, "right"))}
		}
		arcs := make([][2]int, rapid.IntRange(0, 50).Draw(t, "edges"))
		for i := range arcs {
			arcs[i] = [2]int{rapid.IntRange(0, n-1).Draw(t, "from"), rapid.IntRange(0, n-1).Draw(t, "to")}
		}
		d := lay(boxes, arcs)
		for i, a := range boxes {
			if d.x[i]-a.w/2 < -1 || d.x[i]+a.w/2+a.right > d.w+1 || d.y[i]-a.h/2 < -1 || d.y[i]+a.h/2 > d.h+1 {
				t.Fatalf("box %d sticks out", i)
			}
			for j, b := range boxes[:i] {
				if math.Abs(d.y[i]-d.y[j]) < (a.h+b.h)/2 && d.x[i]-a.w/2 < d.x[j]+b.w/2+b.right && d.x[j]-b.w/2 < d.x[i]+a.w/2+a.right {
					t.Fatalf("the boxes %d and %d overlap", i, j)
				}
			}
		}
		for i, runs := range d.runs {
			if (arcs[i][0] == arcs[i][1]) != (runs == nil) {
				t.Fatalf("edge %d has %d runs", i, len(runs))
			}
			for k, r := range runs {
				if r.top > r.bottom+1 || k > 0 && r.top < runs[k-1].bottom+between-2 {
					t.Fatalf("edge %d does not run downwards: %v", i, runs)
				}
				for j, b := range boxes {
					if r.x > d.x[j]-b.w/2 && r.x < d.x[j]+b.w/2 && r.top < d.y[j]+b.h/2-1 && r.bottom > d.y[j]-b.h/2+1 {
						t.Fatalf("edge %d goes through box %d", i, j)
					}
				}
			}
		}
	})
}

// luminance is that of WCAG 2.2.
func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	var l float64
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(colour[1+2*i:3+2*i], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		c := float64(n) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		l += weight * c
	}
	return l
}

func TestContrast(t *testing.T) {
	t.Parallel()
	check := func(what, a, b string, least float64) {
		la, lb := luminance(t, a), luminance(t, b)
		if c := (max(la, lb) + 0.05) / (min(la, lb) + 0.05); c < least {
			t.Errorf("%s: %s on %s has a contrast of %.2f, want %.1f", what, a, b, c, least)
		}
	}
	for _, c := range palette {
		check(c.name, c.light.text, c.light.fill, 4.5)
		check(c.name, c.dark.text, c.dark.fill, 4.5)
		check(c.name+"'s outline", c.light.stroke, lightCanvas.back, 3)
		check(c.name+"'s outline", c.dark.stroke, darkCanvas.back, 3)
	}
	for _, on := range []canvas{lightCanvas, darkCanvas} {
		check("text", on.text, on.back, 4.5)
		check("edges", on.line, on.back, 4.5)
		check("failures", on.fail, on.back, 4.5)
	}
}
