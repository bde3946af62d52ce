// Package draw makes pictures of graphs: as Mermaid and Graphviz text, as SVG, and as an outline in
// plain text. Given the states of a run's nodes, which [Status] folds from its log, a picture also
// shows the progress of the run.
//
// A picture depends on the shape and the options alone: the same shape and options give the same
// bytes. Names are escaped, so that they never become markup.
package draw

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/superstep-dev/superstep/internal/clean"
)

// Options are the settings of a picture. Nil means the defaults.
type Options struct {
	Title     string // defaults to none
	LeftRight bool   // edges lead to the right; defaults to down

	// Status holds the states of nodes by their paths: the name, and in a sub-graph the path of the
	// node that holds it, a slash and the name. A node that is missing is pending; entries for
	// unknown nodes are ignored. If nil, states are not drawn.
	Status map[string]NodeStatus

	Closed bool // draws a sub-graph as a single node; defaults to drawing what is in it
}

func (o *Options) orDefault() *Options {
	if o == nil {
		o = &Options{}
	}
	c := *o
	c.Title = line(c.Title)
	return &c
}

// The states of a node.
const (
	pending = "" // nothing of it runs, and nothing has
	running = "running"
	waiting = "waiting" // for an answer
	done    = "done"
	skipped = "skipped" // it failed and was skipped, or had no reason to run
	caught  = "caught"  // it failed, and another node takes care of that
	failed  = "failed"
	partly  = "partly" // it ran on the error of another node, or has less to give than was wanted
)

var glyphs = map[string]string{pending: "◌", running: "●", waiting: "?", done: "✓", skipped: "⊘", caught: "↷", failed: "✗", partly: "!"}

// NodeStatus is how far a node has come, over all of its visits and keys.
type NodeStatus struct {
	State    string // running, waiting, done, partly, skipped, caught or failed; empty before that
	Visits   int    // tasks of it that have begun
	Done     int    // of them, those that are done
	Failures int    // attempts that failed
	Steps    []Step // of a script, in the order in which they began
}

// String returns the status in words, after a glyph: "● running ×3, 1 done, 2 failed attempts".
// Only tasks are counted by ×.
func (s NodeStatus) String() string {
	var b strings.Builder
	if glyph, known := glyphs[s.State]; known {
		b.WriteString(glyph + " ")
	}
	b.WriteString(cmp.Or(line(s.State), "pending"))
	switch some := s.Done > 0 && s.Done < s.Visits; {
	case some && s.State == done:
		b.WriteString(" ×" + strconv.Itoa(s.Done) + " of " + strconv.Itoa(s.Visits))
	case some:
		b.WriteString(" ×" + strconv.Itoa(s.Visits) + ", " + strconv.Itoa(s.Done) + " done")
	case s.Visits > 1:
		b.WriteString(" ×" + strconv.Itoa(s.Visits))
	}
	if s.Failures > 1 || s.Failures == 1 && s.State != skipped && s.State != caught && s.State != failed {
		b.WriteString(", " + count(s.Failures, "failed attempt"))
	}
	return b.String()
}

// line returns text that is fit for one line of a picture.
func line(s string) string {
	return strings.Join(strings.Fields(clean.Text(s)), " ")
}

// count returns a number with its noun.
func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.Itoa(n) + " " + what
}
