// Package evaluate decides what an evaluation runs, what its checks find, and whether one variant is better than another. It is pure: the runs are started
// elsewhere.
package evaluate

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/recipe"
	"github.com/superstep-dev/superstep/internal/strict"
	"github.com/superstep-dev/superstep/runlog"
)

// A Cell is one run of an evaluation: a repetition, from 0, of a case with a variant.
type Cell struct{ Variant, Case, Repetition int }

// Cells returns the runs of an evaluation in the order in which they start: an evaluation that is cut short has as many runs of each variant.
func Cells(e *recipe.Evaluation) []Cell {
	var out []Cell
	for n := range e.Runs {
		for c := range e.Cases {
			for v := range e.Variants {
				out = append(out, Cell{v, c, n})
			}
		}
	}
	return out
}

// Prefix returns what the IDs of the runs of an evaluation begin with, given the path of its file.
func Prefix(file string) string { return "eval-" + digest(6, file) + "-" }

// ID returns the ID of a run. Parts are everything that the run depends on: equal parts give the same ID, so that no run is repeated.
func ID(prefix string, generation int, parts ...any) (string, error) {
	b, err := json.Marshal(parts)
	return fmt.Sprintf("%s%d-%s", prefix, generation, digest(12, string(b))), err
}

// Of reports whether a run is one of an evaluation, or a child run of one.
func Of(i *runlog.Info) bool {
	id := i.ID
	if i.IsChild() {
		id = i.Parent
	}
	parts := strings.Split(id, "-")
	return len(parts) == 4 && parts[0] == "eval" && len(parts[1]) == 6 && len(parts[3]) == 12
}

func digest(letters int, s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])[:letters]
}

// Generation returns the largest generation among the IDs that begin with a prefix, 0 if there is none.
func Generation(prefix string, ids []string) int {
	last := 0
	for _, id := range ids {
		g, _, _ := strings.Cut(strings.TrimPrefix(id, prefix), "-")
		if n, err := strconv.Atoi(g); err == nil && strings.HasPrefix(id, prefix) {
			last = max(last, n)
		}
	}
	return last
}

// golden is the condition that compares texts as people do, and tells the first difference.
const golden = "output == expected"

// Check performs a check that needs no judge.
func Check(c *recipe.Criterion, r *recipe.Ran) Verdict {
	v := Verdict{Check: c.String()}
	switch {
	case c.Schema != nil:
		if err := strict.CheckJSON(c.Schema.CloneSchemas(), string(r.Output)); err != nil {
			v.Why = strings.ReplaceAll(err.Error(), "\n- ", " ")
		}
	case strings.TrimSpace(c.Holds.String()) == golden:
		v.Why = difference(r.Expected, r.Output)
	default:
		why, err := c.Holds.Test(r)
		if v.Why = why; err != nil {
			v.Why = err.Error()
		}
	}
	v.Passed = v.Why == ""
	return v
}

// difference tells the first difference between two outputs, "" if there is none. Line ends, and white space at the end of lines and texts, do not count.
func difference(want, got json.RawMessage) string {
	var a, b string
	if json.Unmarshal(want, &a) == nil && json.Unmarshal(got, &b) == nil {
		x, y := lines(a), lines(b)
		for i := range max(len(x), len(y)) {
			switch {
			case i >= len(y):
				return fmt.Sprintf("line %d is missing: %q", i+1, clean.Clip(x[i], 120))
			case i >= len(x):
				return fmt.Sprintf("line %d is not expected: %q", i+1, clean.Clip(y[i], 120))
			case x[i] != y[i]:
				return fmt.Sprintf("line %d is %q, expected %q", i+1, clean.Clip(y[i], 120), clean.Clip(x[i], 120))
			}
		}
		return ""
	}
	changes, err := superstep.Diff(orNull(want), orNull(got))
	switch {
	case err != nil:
		return err.Error()
	case len(changes) == 0:
		return ""
	}
	c := changes[0]
	at := c.Path
	if at == "" {
		at = "the output"
	}
	return fmt.Sprintf("%s is %s, expected %s", at, clean.Clip(string(orNull(c.After)), 120), clean.Clip(string(orNull(c.Before)), 120))
}

func lines(s string) []string {
	s = strings.TrimRight(strings.ReplaceAll(s, "\r\n", "\n"), " \t\n")
	all := strings.Split(s, "\n")
	for i := range all {
		all[i] = strings.TrimRight(all[i], " \t")
	}
	return all
}

func orNull(v json.RawMessage) json.RawMessage {
	if len(bytes.TrimSpace(v)) == 0 {
		return json.RawMessage("null")
	}
	return v
}
