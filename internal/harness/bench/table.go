package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// printTable prints what was measured, the series and the goals.
func printTable(out io.Writer, rs results) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "WORK\tCASE\tOF\tN\tMEDIAN MS\tµS/UNIT\tSPREAD\tALLOCS/UNIT\tBYTES/UNIT\t")
	for _, r := range rs {
		if r.Note != "" {
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", r.WL, r.Case, r.Peer, r.N, r.Note)
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%.3f\t%s\t%.0f %%\t%s\t%s\t%s\n", r.WL, r.Case, r.Peer, r.N, r.MedMs,
			figure(r.UsPerN), r.spread()*100, figure(r.Allocs), figure(r.Bytes), extras(r))
	}
	if fs := fits(rs); len(fs) > 0 {
		fmt.Fprintln(w, "\nWORK\tSERIES\tEXPONENT\tSIZE: µS/UNIT")
		for _, f := range fs {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", f.wl, f.series.name, f.slope(), f.costs())
		}
	}
	fmt.Fprintln(w, "\nWORK\tGOAL\tIS\tWANTED\t")
	for _, g := range goals() {
		if v, ok := g.value(rs); ok {
			verdict := "met"
			if !g.met(v) {
				verdict = "missed"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", g.wl, g.what, figure(v), g.bound(), verdict)
		}
	}
	return w.Flush()
}

func (f *fitted) slope() string {
	if !f.ok {
		return "-"
	}
	return fmt.Sprintf("%.2f", f.exponent)
}

func (f *fitted) costs() string {
	parts := make([]string, len(f.points))
	for i, p := range f.points {
		parts[i] = fmt.Sprintf("%s: %s", figure(p.size), figure(p.cost))
	}
	return strings.Join(parts, "   ")
}

func extras(r *record) string {
	var parts []string
	if len(r.CPUMs) > 0 {
		parts = append(parts, "cpu_us="+figure(median(r.CPUMs)*1000/float64(max(1, r.N))))
	}
	for _, k := range slices.Sorted(maps.Keys(r.Extra)) {
		parts = append(parts, k+"="+figure(r.Extra[k]))
	}
	return strings.Join(parts, " ")
}
