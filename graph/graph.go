// Package graph builds workflows as graphs over a typed state and runs them in
// supersteps.
//
// A node reads the state and returns an update; a reducer, func(S, U) S, folds updates into the
// state in a fixed order at the end of each superstep. Edges and branches decide which nodes run
// next. Everything a run needs to survive a crash follows from that: an update is data and can be
// logged, and the fold can be repeated.
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

// OnError describes what a node's failure means once it has no attempts left, unless a Catch or a
// Settled join handles it.
type OnError uint8

// These values decide how a failure is handled.
const (
	Fail  OnError = iota // the run fails when the rest of the superstep has ended
	Skip                 // the node is skipped: no update, its edges and routes count, and the run ends partial
	Abort                // the run fails at once: what is running is stopped
)

// Join describes when a node runs that several others lead to.
type Join int

// The joins of a node. See also [Quorum].
const (
	Any     Join = 0  // any of them; those of one superstep are one visit
	All     Join = -1 // every one of them, over however many supersteps
	Settled Join = -2 // as All, and those that failed for good count too, instead of failing the run: see [Task.Failures]
)

// Quorum returns a join that runs its node once n of its sources have ended, each counted once,
// over any number of supersteps. Later arrivals are dropped until all sources have arrived or one
// arrives again. That superstep begins the next round.
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

// A Retry describes how often and how soon a failed node is tried again. If nil, there is one
// attempt.
type Retry struct {
	Attempts int              // in all, the first included; defaults to 3
	Backoff  time.Duration    // before the second attempt; defaults to 500 ms, negative for none
	Factor   float64          // from one pause to the next; defaults to 2
	Max      time.Duration    // of a pause; defaults to 30 s
	Jitter   float64          // a pause is shortened by up to this part of it, 0 to 1; defaults to 0.1, negative for none
	If       func(error) bool // whether a failure is worth another attempt; defaults to always
}

// A Node is a node with all its settings.
type Node[S, U any] struct {
	Name    string         // letters, digits, '_', '-' and '.'
	Run     TaskFunc[S, U] // what it does
	Retry   *Retry
	Timeout time.Duration // of one attempt, which has failed by then whatever it returns later; defaults to none
	OnError OnError
	// Instead returns a replacement update for a node that is skipped after a failure, given the
	// error of its last attempt. It must be a pure function. If nil, there is no update.
	Instead func(S, error) U
	Join    Join
	Version string // changes whenever the node comes to mean something else, so that old runs are not resumed with it

	// Reads names the nodes whose updates this one sees: its state is the first state of the run
	// with only those updates folded in. Such a node starts as soon as everything it reads is
	// final, without waiting for the rest of the superstep. If nil, the node sees the whole state;
	// if empty but non-nil, only the first state.
	Reads []string
	// Sends names the nodes that the task itself may send to, and End if it may end
	// instead; see [Task.Send].
	Sends []string
	// Input is a check that the node's state must pass. If nil, there is none.
	Input *Input[S]
	// Output is a schema that the update must fit, as JSON; an update that does not is a failed
	// attempt. If nil, there is none.
	Output *jsonschema.Schema
	// Cache reuses results of the node from this run or an earlier one. If nil, nothing is cached.
	Cache *Caching[S]

	// Most is the largest number of tasks of this node that another task may send to at once, under
	// different keys. If it sends more, its attempt fails. Zero means no limit. See [Shape.Agents].
	Most int
	// Agents is how many agents each of its tasks begins, less than 0 if that is decided while it
	// runs. If a fan-out begins more agents than the run's budget has left, it is refused before
	// the first agent begins. The default is 0.
	Agents int

	Kind string // what it is, for pictures: "agent", "tool", …; defaults to a plain function
	Sub  *Shape // the graph inside of it, for pictures and to notice its changes; defaults to none
	// Inner returns the graph that its tasks run with Task.Nested, so that its history can be read; see [Inside]. Part is the path of the part of the task
	// that runs it, "" for the task itself. It may return nil for none, which is also the default.
	Inner func(part string) (Reading, error)
	Uses  []string // workflows that it runs by name
	// UsesAny is true if the node may run any workflow, not only its Uses. The choice is made while
	// it runs, so adding or removing workflows does not change the node.
	UsesAny bool
	// Child makes the workflow of a Call a run of its own. If nil, the workflow runs within the task.
	Child *Child
	Err   error // what is wrong with it, for Compile to report, from whoever made it
}

// Input is a check of a node's input. If the check fails and the node that produced the input
// declares its Reads, that node is run again and receives the error, see [Task.Feedback]. Its new
// update is folded in after the old one and does not replace it. If no attempt produces a valid
// input (as many as the node's Retry allows, 3 by default), the node fails with a *SchemaError.
type Input[S any] struct {
	Schema *jsonschema.Schema
	Of     func(S) (any, error) // what is checked, encodes as JSON; defaults to the state
	// From is the producing node. It must be one of Reads, and must read nothing that this node
	// does not read. If Reads has one element, that is the default.
	From string
}

// Caching describes how results of a node are reused.
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

// A Send is a message to a node: the node runs with Arg, which [Task.Arg] decodes. Sends of
// different keys to one node run side by side, each under its key.
type Send struct {
	To  string
	Key string
	Arg any // encodes as JSON
}

// A Graph is a graph being built. Its methods only collect the parts; Compile reports the mistakes.
type Graph[S, U any] struct {
	parts
	states giving[S]
}

// parts are what a graph is made of.
type parts struct {
	name   string
	types  types
	nodes  []Node[any, any]
	funcs  []Func[any, any] // by node, nil for the full form
	edges  []edge
	routes []route
	catch  []edge
	also   []func() []string
	steps  int
}

type edge struct{ from, to string }

// route is a choice made when a node is done.
type route struct {
	from   string
	branch func(any, int) string // the int is how often from has run before
	fan    func(any) []Send
	to     []string
}

// New begins a graph. The reducer must be a pure function; it must not change the
// state it is given in place where older states share its maps or slices.
func New[S, U any](name string, reduce func(state S, update U) S) *Graph[S, U] {
	give := clipping[S]()
	return &Graph[S, U]{parts: parts{name: name, types: typesOf(reduce, give)}, states: give}
}

// NewTagged begins a graph whose reducer is defined by struct tags. Two tasks of one superstep that
// write a field without a reducer are an error that names both.
func NewTagged[S, U any](name string, tags *reduce.Tagged[S, U]) *Graph[S, U] {
	g := New(name, tags.Reduce)
	g.types.names, g.types.writes = tags.Names, func(update any) uint64 { return tags.Writes(of[U](update)) }
	return g
}

// Check sets a check on states: if the task's state with its update folded in does not pass, the
// attempt has failed.
func (g *Graph[S, U]) Check(holds func(S) error) {
	if g.types.check = nil; holds != nil {
		give := g.states
		g.types.check = func(state any) error { return holds(give.of(state)) }
	}
}

// MaxSteps sets the limit of supersteps for runs whose RunOptions have none, such as nested ones.
// Zero means the default of RunOptions.
func (g *parts) MaxSteps(n int) { g.steps = n }

// Has reports whether the graph has a node of that name.
func (g *parts) Has(name string) bool {
	return slices.ContainsFunc(g.nodes, func(n Node[any, any]) bool { return n.Name == name })
}

// Also adds a check to Compile: Compile reports the mistakes that find returns. It is for packages
// that build graphs with their own methods.
func (g *parts) Also(find func() []string) { g.also = append(g.also, find) }

// Add adds a node.
func (g *Graph[S, U]) Add(name string, fn Func[S, U]) {
	var run Func[any, any]
	if give := g.states; fn != nil {
		run = func(ctx context.Context, s any) (any, error) { return fn(ctx, give.of(s)) }
	}
	g.add(&Node[any, any]{Name: name}, run)
}

// AddNode adds a node with settings, or in its full form.
func (g *Graph[S, U]) AddNode(n Node[S, U]) {
	e := erase(&n, g.states)
	g.add(&e, nil)
}

func (g *parts) add(n *Node[any, any], fn Func[any, any]) {
	g.nodes, g.funcs = append(g.nodes, *n), append(g.funcs, fn)
}

// Edge adds an edge: to runs in the superstep after from.
func (g *parts) Edge(from, to string) { g.edges = append(g.edges, edge{from, to}) }

// Branch adds a branch: choose picks which of the nodes to run after from. It sees the state with
// the update of from folded in, and must be a pure function.
func (g *Graph[S, U]) Branch(from string, choose func(S) string, to ...string) {
	r := route{from: from, to: to}
	if give := g.states; choose != nil {
		r.branch = func(s any, _ int) string { return choose(give.of(s)) }
	}
	g.routes = append(g.routes, r)
}

// BranchVisit is Branch for a choice that also depends on how often from has run before.
func (g *Graph[S, U]) BranchVisit(from string, choose func(s S, visit int) string, to ...string) {
	r := route{from: from, to: to}
	if give := g.states; choose != nil {
		r.branch = func(s any, visit int) string { return choose(give.of(s), visit) }
	}
	g.routes = append(g.routes, r)
}

// Fan adds a fan-out: after from has run, split may send any number of messages to the nodes in to. It sees the state with the update of from folded in,
// and must be a pure function. Sends to the same node must have different Keys. Sending nothing fails the node, unless End is among the targets: the run
// then continues with the other active nodes.
func (g *Graph[S, U]) Fan(from string, split func(S) []Send, to ...string) {
	r := route{from: from, to: to}
	if give := g.states; split != nil {
		r.fan = func(s any) []Send { return split(give.of(s)) }
	}
	g.routes = append(g.routes, r)
}

// Catch adds a handler: if from has failed for good, to runs instead of the run failing. The update
// and routes of from are ignored; [Task.Failures] returns the failure. If to is End, the failure is
// dropped.
func (g *parts) Catch(from, to string) { g.catch = append(g.catch, edge{from, to}) }
