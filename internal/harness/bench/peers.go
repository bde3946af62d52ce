package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// readRecords reads files of records, one JSON object to a line. Lines that are none, such
// as what a program has logged, are skipped.
func readRecords(names []string) (results, error) {
	var all results
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(bytes.NewReader(data))
		lines.Buffer(nil, 16<<20)
		for n := 1; lines.Scan(); n++ {
			line := bytes.TrimSpace(lines.Bytes())
			if len(line) == 0 || line[0] != '{' {
				continue
			}
			r := &record{}
			if err := json.Unmarshal(line, r); err != nil {
				return nil, fmt.Errorf("%s:%d: %w", name, n, err)
			}
			all = append(all, r)
		}
		if err := lines.Err(); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no records", strings.Join(names, ", "))
	}
	return all, nil
}

// rows returns the patterns of cases that are the same work under different names. Without a
// row of that work, a case is one of its own.
func rows() []struct{ wl, pattern, row, unit string } {
	return []struct{ wl, pattern, row, unit string }{
		{"W1", `^compile-`, "", "µs a node"},
		{"W1", `self-loop-(\d+)`, "self-loop-$1", "µs a step"},
		{"W1", `chain(?:-[a-z]+)*-(\d+)`, "chain-$1", "µs a step"},
		{"W2", `^compile-`, "", "µs a node"},
		{"W2", `-K(\d+)$`, "1 → $1 → 1", "µs a branch"},
		{"W2", `^K(\d+)$`, "1 → $1 → 1", "µs a branch"},
		{"W3", `loop.*?-(\d+)`, "loop-router-$1", "µs a step"},
		{"W4", `resume`, "", "ms"},
		{"W4", `(?:history|untouched|rows|group|runs-at-once|in-turns)`, "", "µs a step"},
		{"W4", `(sqlite|pg|redis|libsql|memory).*?-(1KB|100KB|grow)`, "$1-$2", "µs a step"},
		{"W5", `concurrent-(\d+)`, "concurrent-$1", "ms"},
		{"W5", `goroutine-per-run-(\d+)`, "concurrent-$1", "ms"},
		{"W6", `dag-sleep`, "dag-sleep", "wall ÷ critical path"},
		{"W7", `pagerank.*?-(\d+k-\d+M)`, "pagerank-$1", "ns an edge"},
		{"W7", `cc.*?-(\d+k-\d+M)`, "cc-$1", "ms"},
		{"W8", `^(?:go-chan-|go-)?(max|paced)`, "$1", "events a second"},
		{"W9", `^agent$`, "agent", "µs a turn"},
		{"W9", `^go-http-json$`, "agent", "µs a turn"},
		{"W9", ``, "", "µs a turn"},
	}
}

// A cell is what one engine has for one row: the lowest and the highest of its variants.
type cell struct{ lo, hi float64 }

func (c cell) String() string {
	if lo, hi := figure(c.lo), figure(c.hi); lo != hi {
		return lo + "–" + hi
	}
	return figure(c.lo)
}

type row struct {
	wl, name, unit string
	order          int
	size           int // a number in the name, for the order
	cells          map[string]cell
}

// printPeers prints records of several engines side by side: a row for each piece of work
// and a column for each engine, ours first.
func printPeers(out io.Writer, rs results) error {
	var columns []string
	by := map[string]*row{}
	for _, r := range rs {
		name, unit, order := rowOf(r)
		v := perRow(r, unit)
		if v == 0 || math.IsNaN(v) {
			continue
		}
		if !slices.Contains(columns, r.Peer) {
			columns = append(columns, r.Peer)
		}
		x := by[r.WL+name]
		if x == nil {
			x = &row{r.WL, name, unit, order, sizeIn(name), map[string]cell{}}
			by[r.WL+name] = x
		}
		c, had := x.cells[r.Peer]
		if !had {
			c = cell{v, v}
		}
		x.cells[r.Peer] = cell{min(c.lo, v), max(c.hi, v)}
	}
	slices.SortFunc(columns, func(a, b string) int { return cmp.Or(rank(a)-rank(b), cmp.Compare(a, b)) })
	sorted := make([]*row, 0, len(by))
	for _, x := range by {
		sorted = append(sorted, x)
	}
	slices.SortFunc(sorted, func(a, b *row) int {
		return cmp.Or(cmp.Compare(a.wl, b.wl), a.order-b.order, a.size-b.size, cmp.Compare(a.name, b.name))
	})
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "WORK\tCASE\tUNIT\t%s\n", strings.Join(columns, "\t"))
	for _, x := range sorted {
		fmt.Fprintf(w, "%s\t%s\t%s", x.wl, x.name, x.unit)
		for _, p := range columns {
			if c, ok := x.cells[p]; ok {
				fmt.Fprintf(w, "\t%s", c)
			} else {
				fmt.Fprint(w, "\t-")
			}
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

// rank puts us first and the machine last.
func rank(peer string) int {
	switch peer {
	case ours:
		return 0
	case bare, "limit":
		return 2
	}
	return 1
}

// rowOf returns the row that a record belongs to.
func rowOf(r *record) (name, unit string, order int) {
	for i, p := range rows() {
		if p.wl != r.WL {
			continue
		}
		re := regexp.MustCompile(p.pattern)
		m := re.FindStringSubmatchIndex(r.Case)
		switch {
		case m == nil:
		case p.row == "":
			return r.Case, p.unit, len(rows())
		default:
			return string(re.ExpandString(nil, p.row, r.Case, m)), p.unit, i
		}
	}
	return r.Case, "µs", len(rows())
}

// perRow returns a record's figure in the unit of its row.
func perRow(r *record, unit string) float64 {
	switch {
	case r.MedMs == 0:
		return 0
	case unit == "ms":
		return r.MedMs
	case strings.HasPrefix(unit, "ns"):
		return r.UsPerN * 1000
	case unit == "events a second":
		if v, ok := r.Extra["events_per_s"]; ok {
			return v
		}
		return float64(r.N) / r.MedMs * 1000
	case strings.HasPrefix(unit, "wall"):
		return r.MedMs / cmp.Or(r.Extra["critical_ms"], 700)
	}
	return r.UsPerN
}

func sizeIn(name string) int {
	n, _ := strconv.Atoi(regexp.MustCompile(`\d+`).FindString(name)) // 0 without one
	return n
}
