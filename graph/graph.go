// Package graph builds workflows as graphs over a typed state and runs them in
// supersteps.
//
// A node reads the state and returns an update; a reducer, func(S, U) S, folds
// updates into the state in a fixed order at the end of each superstep. Edges and
// branches say who runs next. Everything a run needs to survive a crash follows from
// that: an update is data and can be logged, and the fold can be repeated.
//
//	g := graph.New("brief", reduce)
//	g.Add("search", search)
//	g.Add("write", write)
//	g.Edge(graph.Start, "search")
//	g.Branch("search", enough, "search", "write")
//	g.Edge("write", graph.End)
//	flow, err := g.Compile()
//
// S and U must encode as JSON if the flow is run with a journal. Nodes must not
// change the state they are given: others read it at the same time.
package graph

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/graph/reduce"
	"github.com/superstep-dev/superstep/internal/pregel"
)

// Start and End are where every graph begins and ends. They are no nodes: an edge
// from Start names an entry, an edge to End a way out.
const (
	Start = "@start"
	End   = "@end"
)

// Func is the short form of a node.
type Func[S, U any] func(ctx context.Context, state S) (U, error)

// TaskFunc is the full form of a node, with a handle on the task it is run for.
type TaskFunc[S, U any] func(ctx context.Context, t *Task, state S) (U, error)

// OnError describes what a node's failure means once its attempts are used up, unless a
// Catch or a Settled join takes care of it.
type OnError uint8

// What a failure means.
const (
	Fail  OnError = iota // the run fails when the rest of the superstep has ended
	Skip                 // the node is skipped: no update, its edges and routes count, and the run ends partial
	Abort                // the run fails at once: what is running is stopped
)

// Join describes what wakes a node that several others lead to.
type Join int

// The joins of a node. See also [Quorum].
const (
	Any     Join = 0  // any of them; those of one superstep are one visit
	All     Join = -1 // every one of them, over however many supersteps
	Settled Join = -2 // as All, and those that failed for good count too, instead of failing the run: see [Task.Failures]
)

// Quorum returns the join of a node that n of those that lead to it wake, each counted once,
// over however many supersteps. What comes after is dropped until all have come, or until one of
// them comes again: with all that comes in that superstep the next round begins.
func Quorum(n int) Join { return Join(n) }

func (j Join) String() string {
	switch j {
	case Any:
		return "any"
	case All:
		return "all"
	case Settled:
		return "settled"
	}
	return fmt.Sprintf("quorum %d", int(j))
}

// A Retry describes how often and how soon a failed node is tried again. Nil means once.
type Retry = pregel.Retry

// A Node is a node with all its settings.
type Node[S, U any] struct {
	Name    string         // letters, digits, '_', '-' and '.'
	Run     TaskFunc[S, U] // what it does
	Retry   *Retry
	Timeout time.Duration // of one attempt, which has failed by then whatever it returns later; defaults to none
	OnError OnError
	// Instead makes, of a node that is skipped, the update that takes the place of the one
	// it failed to make, from the error of its last attempt. It is a pure function. Defaults to none.
	Instead func(S, error) U
	Join    Join
	Version string // changes whenever the node comes to mean something else, so that old runs are not resumed with it

	// Reads names the nodes whose updates this one sees: the state it is given is the
	// first one of the run with only those folded in. Such a node starts as soon as all
	// it reads is final, without waiting for the rest of the superstep. Nil is the whole
	// state; empty, but not nil, is the first state alone.
	Reads []string
	// Sends names the nodes that the task itself may send to, and End if it may end
	// instead; see [Task.Send].
	Sends []string
	// Input is what the state must fulfil for the node; defaults to nothing.
	Input *Input[S]
	// Output is a schema that the update must fit, as JSON; an update that does not is a
	// failed attempt. Defaults to none.
	Output *jsonschema.Schema
	// Cache spares the node work it has done before, in this run or another. Defaults to none.
	Cache *Caching[S]

	// Most is how many tasks of it another task may send to at once, under different
	// keys; more is a failed attempt of that task. Defaults to any number. See [Shape.Agents].
	Most int
	// Agents is how many agents each of its tasks begins, less than 0 if that is decided while it runs. A fan-out to
	// more than the budget of a run has left is refused by it, before the first of them begins; defaults to none.
	Agents int

	Kind string   // what it is, for pictures: "agent", "tool", …; defaults to a plain function
	Sub  *Shape   // the graph inside of it, for pictures and to notice its changes; defaults to none
	Uses []string // workflows that it runs by name
	// UsesAny says that it may run any workflow there is, besides its Uses: which ones is decided while
	// it runs, so that others coming and going do not make it another node.
	UsesAny bool
	Err     error // what is wrong with it, for Compile to report, from whoever made it
}

// Input is a check of what a node is given. If the node that produced it declares what
// it reads, it is run again with what is wrong, see [Task.Feedback]; its new update
// takes the place of nothing, but is folded in after the old one. When as many attempts
// as the node's Retry has (3 by default) have not produced anything that fits, the node
// fails with a *SchemaError.
type Input[S any] struct {
	Schema *jsonschema.Schema
	Of     func(S) (any, error) // what is checked, encodes as JSON; defaults to the state
	// From is the producing node: one of Reads, and it reads nothing that the node does
	// not read. It defaults to the only one of Reads.
	From string
}

// Caching describes how the work of a node may be spared.
type Caching[S any] struct {
	Key func(S) any   // what the update depends on, encodes as JSON; defaults to the state
	TTL time.Duration // how long an update is good; defaults to for ever
}

// A Cache keeps updates of nodes under keys made of the node's definition and its
// input. Its methods may be called from several goroutines.
type Cache interface {
	Load(ctx context.Context, key string) (value []byte, ok bool, err error)
	Store(ctx context.Context, key string, value []byte, ttl time.Duration) error // 0 is for ever
}

// A Send is a message to a node: it runs with Arg, which [Task.Arg] gives it. Sends
// of different keys to one node run side by side, each under its key.
type Send struct {
	To  string
	Key string
	Arg any // encodes as JSON
}

// A Graph is a graph being built. Its methods only take notes; Compile says what is
// wrong with them.
type Graph[S, U any] struct {
	name   string
	reduce func(S, U) S
	nodes  []Node[S, U]
	funcs  []Func[S, U] // by node, nil for the full form
	edges  []edge
	routes []route[S]
	catch  []edge
	tagged *reduce.Tagged[S, U] // nil for a reducer that is a function
	check  func(S) error
	also   []func() []string
	steps  int
}

type edge struct{ from, to string }

// route is a choice made when a node is done.
type route[S any] struct {
	from   string
	branch func(S, int) string // the int is how often from has run before
	fan    func(S) []Send
	to     []string
}

// New begins a graph. The reducer must be a pure function; it must not change the
// state it is given in place where older states share its maps or slices.
func New[S, U any](name string, reduce func(state S, update U) S) *Graph[S, U] {
	return &Graph[S, U]{name: name, reduce: reduce}
}

// NewTagged begins a graph whose reducer is told by struct tags. Two tasks of one
// superstep that write a field without a reducer are an error that names both.
func NewTagged[S, U any](name string, tags *reduce.Tagged[S, U]) *Graph[S, U] {
	g := New(name, tags.Reduce)
	g.tagged = tags
	return g
}

// Check turns an update into a failed attempt of its task if the state it leads to does not
// hold: the one the task was given, with the update folded in.
func (g *Graph[S, U]) Check(holds func(S) error) { g.check = holds }

// MaxSteps is the most supersteps of a run of the graph where its RunOptions do not say,
// as for one within another; see there. 0 is their default.
func (g *Graph[S, U]) MaxSteps(n int) { g.steps = n }

// Has reports whether the graph has a node of that name.
func (g *Graph[S, U]) Has(name string) bool {
	return slices.ContainsFunc(g.nodes, func(n Node[S, U]) bool { return n.Name == name })
}

// Also has Compile report what find returns, the mistakes of who builds the graph with methods of its own.
func (g *Graph[S, U]) Also(find func() []string) { g.also = append(g.also, find) }

// Add adds a node.
func (g *Graph[S, U]) Add(name string, fn Func[S, U]) {
	g.nodes = append(g.nodes, Node[S, U]{Name: name})
	g.funcs = append(g.funcs, fn)
}

// AddNode adds a node with settings, or in its full form.
func (g *Graph[S, U]) AddNode(n Node[S, U]) {
	g.nodes = append(g.nodes, n)
	g.funcs = append(g.funcs, nil)
}

// Edge lets to run in the superstep after from.
func (g *Graph[S, U]) Edge(from, to string) { g.edges = append(g.edges, edge{from, to}) }

// Branch lets choose pick what runs after from, out of to. It sees the state with the
// update of from folded in, and must be a pure function.
func (g *Graph[S, U]) Branch(from string, choose func(S) string, to ...string) {
	r := route[S]{from: from, to: to}
	if choose != nil {
		r.branch = func(s S, _ int) string { return choose(s) }
	}
	g.routes = append(g.routes, r)
}

// BranchVisit is Branch for a choice that also depends on how often from has run before.
func (g *Graph[S, U]) BranchVisit(from string, choose func(s S, visit int) string, to ...string) {
	g.routes = append(g.routes, route[S]{from: from, branch: choose, to: to})
}

// Fan lets split send any number of messages to nodes out of to after from has run.
// It sees the state with the update of from folded in, and must be a pure function.
// Each Send to one node has a Key of its own. Sending nothing fails the node, unless End
// is among the targets: the run then continues with whatever else is active.
func (g *Graph[S, U]) Fan(from string, split func(S) []Send, to ...string) {
	g.routes = append(g.routes, route[S]{from: from, fan: split, to: to})
}

// Catch lets to run after from has failed for good, instead of failing the run. The
// update and the routes of from do not exist; [Task.Failures] tells to what happened.
// Graph.End means that nothing else is done about it.
func (g *Graph[S, U]) Catch(from, to string) { g.catch = append(g.catch, edge{from, to}) }
