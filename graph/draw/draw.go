// Package draw makes pictures of graphs: as Mermaid and Graphviz text, as SVG, and as an
// outline in plain text. Given the states of a run's nodes, which [Status] folds from its
// log, a picture also says how far the run has come.
//
// A picture depends on the shape and the options alone: the same ones give the same bytes.
// Names are shown as they are and never become markup, whatever they contain.
package draw

import (
	"strconv"
	"strings"

	"github.com/superstep-dev/superstep/internal/clean"
)

// Options are the settings of a picture. Nil means the defaults.
type Options struct {
	Title     string    // defaults to none
	Direction Direction // defaults to TopDown

	// Status holds the states of nodes by their paths: the name, and in a sub-graph the
	// path of the node that holds it, a slash and the name. A node that is not in it is
	// pending; what is no node of the graph is ignored. Nil leaves states out.
	Status map[string]NodeStatus

	Closed bool // draws a sub-graph as a single node; defaults to drawing what is in it
}

// Direction says where the edges of a picture lead.
type Direction string

// The directions.
const (
	TopDown   Direction = "TD"
	LeftRight Direction = "LR"
)

func (o *Options) orDefault() *Options {
	if o == nil {
		o = &Options{}
	}
	c := *o
	c.Title = line(c.Title)
	if c.Direction != LeftRight {
		c.Direction = TopDown
	}
	return &c
}

// State is how far a node has come.
type State uint8

// The states of a node.
const (
	Pending State = iota // nothing of it runs, and nothing has
	Running
	Waiting // for an answer
	Done
	Skipped // it failed and was passed over
	Caught  // it failed, and another node takes care of that
	Failed
)

var states = [...]struct{ glyph, word string }{
	Pending: {"◌", "pending"},
	Running: {"●", "running"},
	Waiting: {"?", "waiting"},
	Done:    {"✓", "done"},
	Skipped: {"⊘", "skipped"},
	Caught:  {"↷", "caught"},
	Failed:  {"✗", "failed"},
}

// String is the word for the state.
func (s State) String() string {
	if int(s) < len(states) {
		return states[s].word
	}
	return "state " + strconv.Itoa(int(s))
}

// NodeStatus is how far a node has come, over all of its visits and keys.
type NodeStatus struct {
	State    State
	Visits   int // tasks of it that have begun
	Done     int // of them, those that are done
	Failures int // attempts that failed
}

// String is the status in words, after a glyph: "● running ×3, 1 done, 2 failed attempts". Only tasks are counted by ×.
func (s NodeStatus) String() string {
	var b strings.Builder
	if int(s.State) < len(states) {
		b.WriteString(states[s.State].glyph + " ")
	}
	b.WriteString(s.State.String())
	switch some := s.Done > 0 && s.Done < s.Visits; {
	case some && s.State == Done:
		b.WriteString(" ×" + strconv.Itoa(s.Done) + " of " + strconv.Itoa(s.Visits))
	case some:
		b.WriteString(" ×" + strconv.Itoa(s.Visits) + ", " + strconv.Itoa(s.Done) + " done")
	case s.Visits > 1:
		b.WriteString(" ×" + strconv.Itoa(s.Visits))
	}
	if s.Failures > 1 || s.Failures == 1 && s.State < Skipped {
		b.WriteString(", " + count(s.Failures, "failed attempt"))
	}
	return b.String()
}

// line makes text that is fit for one line of a picture.
func line(s string) string {
	return strings.Join(strings.Fields(clean.Text(s)), " ")
}

// count gives a number and what it counts.
func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.Itoa(n) + " " + what
}
