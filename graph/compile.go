package graph

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/internal/encodable"
	"github.com/superstep-dev/superstep/internal/pregel"
	"github.com/superstep-dev/superstep/runlog"
)

// A CompileError lists everything that is wrong with a graph.
type CompileError struct {
	Graph    string
	Problems []string
}

func (e *CompileError) Error() string {
	if len(e.Problems) == 1 {
		return fmt.Sprintf("graph %q: %s", e.Graph, e.Problems[0])
	}
	return fmt.Sprintf("graph %q has %d mistakes:\n  - %s", e.Graph, len(e.Problems), strings.Join(e.Problems, "\n  - "))
}

// message is a message sent from one node to another.
type message struct {
	From   string          `json:"from"`
	Arg    json.RawMessage `json:"arg,omitempty"`    // of a Send
	Failed bool            `json:"failed,omitempty"` // Arg is a Failure
}

// A Flow is a graph that can be run. It never changes, and any number of runs may
// use it at once.
type Flow[S, U any] struct{ flow }

// flow is the part of a Flow that does not depend on its types.
type flow struct{ engine engine }

// An engine is a core. An importing package sees this interface and compiles nothing of what is behind it: methods of instantiated types, such as
// pregel.Machine, are compiled again by every package that can see such a type.
type engine interface {
	Reading
	run(ctx context.Context, state any, opt *RunOptions) (outcome[any], error)
	history(records iter.Seq2[runlog.Record, error], space string) iter.Seq2[Checkpoint[any], error]
	identity() string
	schedule() []Schedule
	uses() []string
	reduce(state, update any) any
}

// core is a compiled graph.
type core struct {
	name    string
	types   types
	spare   sync.Pool // of states, for after
	program pregel.Program[any, any, message]
	nodes   []node
	index   map[string]int
	entries []pregel.Send[message]
	starts  []compiledRoute
	shape   Shape
	digest  string
	skips   bool // some node may be skipped
	steps   int  // the most supersteps of a run that does not say

	varies, variesState bool // some updates, or some states, cannot be encoded
}

// node is a compiled node.
type node struct {
	Node[any, any]
	fn      Func[any, any]
	sends   []pregel.Send[message] // over its edges
	routes  []compiledRoute
	direct  map[string]int // whom its tasks may send to
	settled []int          // the joins that its failure counts in
	catch   []int          // who takes care of its failure
	caught  bool           // somebody does, or it is not to be taken care of
	input   *checkedInput
	output  *jsonschema.Resolved
}

type compiledRoute struct {
	route
	sends map[string][]pregel.Send[message] // by target; none for End
}

// Compile checks the graph and makes it runnable. It reports every mistake it finds
// at once, as a *CompileError.
func (g *Graph[S, U]) Compile() (*Flow[S, U], error) {
	f, err := g.compile()
	if err != nil {
		return nil, err
	}
	return &Flow[S, U]{flow{f}}, nil
}

func (g *parts) compile() (engine, error) {
	c := &compiler{g: g, index: make(map[string]int, len(g.nodes))}
	c.checkTypes()
	c.checkNodes()
	own := len(c.problems)
	for _, find := range g.also {
		c.problems = append(c.problems, find()...)
	}
	broken := len(c.problems) > own // then edges are missing
	c.checkEdges()
	c.checkReads()
	if !broken {
		c.checkRoutes()
	}
	if len(c.problems) > 0 {
		return nil, &CompileError{Graph: g.name, Problems: c.problems}
	}
	return c.flow()
}

func (c *compiler) flow() (*core, error) {
	g := c.g
	f := &core{name: g.name, types: g.types, index: c.index, nodes: make([]node, len(g.nodes)), steps: g.steps,
		varies: encodable.Varies(g.types.update), variesState: encodable.Varies(g.types.state)}
	k := &f.types
	f.program = pregel.Program[any, any, message]{Vertices: make([]pregel.Vertex, len(g.nodes)), Reduce: k.reduced, Fold: k.folded, Branch: k.apart}
	if k.writes != nil {
		f.program.Check = f.conflicts
	}
	for i := range g.nodes {
		c.addNode(f, i)
	}
	for _, e := range g.edges {
		f.shape.Edges = append(f.shape.Edges, ShapeEdge{From: e.from, To: e.to})
		if e.to == End {
			continue
		}
		send := pregel.Send[message]{To: c.index[e.to], Bare: true}
		if e.from == Start {
			f.entries = append(f.entries, send)
			continue
		}
		n := &f.nodes[c.index[e.from]]
		n.sends = append(n.sends, send)
		if g.nodes[send.To].Join == Settled {
			n.settled = append(n.settled, send.To)
		}
	}
	for _, r := range g.routes {
		cr := compiledRoute{route: r, sends: make(map[string][]pregel.Send[message], len(r.to))}
		for _, to := range r.to {
			f.shape.Edges = append(f.shape.Edges, ShapeEdge{From: r.from, To: to, Kind: r.kind()})
			cr.sends[to] = nil
			if to != End {
				cr.sends[to] = []pregel.Send[message]{{To: c.index[to], Bare: true}}
			}
		}
		if r.from == Start {
			f.starts = append(f.starts, cr)
		} else {
			n := &f.nodes[c.index[r.from]]
			n.routes = append(n.routes, cr)
		}
	}
	for _, e := range g.catch {
		f.shape.Edges = append(f.shape.Edges, ShapeEdge{From: e.from, To: e.to, Kind: "catch"})
		n := &f.nodes[c.index[e.from]]
		n.caught = true
		if e.to != End {
			n.catch = append(n.catch, c.index[e.to])
		}
	}
	if f.steps <= 0 {
		f.steps = max(100, len(f.nodes)+99*c.looped()) // 100 rounds of every loop
	}
	f.program.AllowEarly()
	b, err := json.Marshal(f.shape)
	if err != nil {
		return nil, fmt.Errorf("graph %q: %w", g.name, err)
	}
	sum := sha256.Sum256(append([]byte(g.name+"\n"), b...))
	f.digest = hex.EncodeToString(sum[:16])
	return f, nil
}

// addNode creates the runnable form of a node and of its vertex.
func (c *compiler) addNode(f *core, i int) {
	nd := c.g.nodes[i]
	v := pregel.Vertex{Name: nd.Name, Targets: append(append([]int(nil), c.out[i]...), c.loose[i]...)}
	s := ShapeNode{Name: nd.Name, Kind: nd.Kind, Version: nd.Version, Reads: nd.Reads, Bounded: nd.Reads != nil, Most: nd.Most, Agents: nd.Agents,
		Uses: nd.Uses, Sub: nd.Sub}
	if nd.Join != Any {
		if v.Sources = distinct(c.in[i]); nd.Join > 0 {
			v.Sources, v.Need = distinct(append(c.looseIn[i], c.in[i]...)), int(nd.Join)
		} else {
			v.Need = len(v.Sources)
		}
		s.Join = nd.Join.String()
	}
	switch nd.OnError {
	case Skip:
		if s.OnError, f.skips = "skip", true; nd.Instead != nil {
			s.OnError = "instead"
		}
	case Abort:
		s.OnError = "abort"
	}
	n := node{Node: nd, fn: c.g.funcs[i], output: c.outputs[i]}
	if fn := n.fn; fn != nil {
		n.Run = func(ctx context.Context, _ *Task, s any) (any, error) { return fn(ctx, s) }
	}
	f.skips = f.skips || nd.Sub != nil || len(nd.Uses) > 0
	if nd.Reads != nil {
		v.Reads = []int{}
		for _, r := range nd.Reads {
			v.Reads = append(v.Reads, c.index[r])
		}
	}
	if in := c.inputs[i]; in != nil {
		n.input = in
		if in.from >= 0 {
			v.Corrects = []int{in.from}
			s.Input = c.g.nodes[in.from].Name
		}
	}
	for _, to := range nd.Sends {
		if n.direct == nil {
			n.direct = map[string]int{}
		}
		if n.direct[to] = -1; to != End {
			n.direct[to] = c.index[to]
		}
		f.shape.Edges = append(f.shape.Edges, ShapeEdge{From: nd.Name, To: to, Kind: "send"})
	}
	f.program.Vertices[i], f.nodes[i] = v, n
	f.shape.Nodes = append(f.shape.Nodes, s)
}

// Name implements Reading.
func (f *core) Name() string { return f.name }

// Name returns the name of the graph.
func (f *flow) Name() string { return f.engine.Name() }

func (f *core) identity() string { return f.digest }

// Digest changes whenever the shape of the graph does.
func (f *flow) Digest() string { return f.engine.identity() }

// Shape implements Reading.
func (f *core) Shape() Shape { return f.shape }

// Shape describes the nodes and edges of the graph. The caller must not change it.
func (f *flow) Shape() Shape { return f.engine.Shape() }

// A Schedule is when a node starts.
type Schedule struct {
	Node  string
	Early bool     // before its superstep, if what it reads is final by then
	Waits []string // whose end an early one waits for all the same, if they are active: they lead to it or to what it reads
	Why   string   // why another is not early
}

// Schedule reports for every node whether it may start before its superstep, and why not.
func (f *flow) Schedule() []Schedule { return f.engine.schedule() }

func (f *core) schedule() []Schedule {
	out := make([]Schedule, len(f.nodes))
	for i := range f.nodes {
		s := &out[i]
		s.Node = f.nodes[i].Name
		var waits []int
		if s.Early, waits = f.program.Early(i); s.Early {
			for _, w := range waits {
				s.Waits = append(s.Waits, f.nodes[w].Name)
			}
			continue
		}
		switch n := &f.nodes[i]; {
		case n.Reads == nil:
			s.Why = "it reads the whole state; name what it reads in Reads"
		case n.Join > 0:
			s.Why = "whom a quorum waits for is known only when the superstep is over"
		default:
			s.Why = "it joins nodes of a loop, whose rounds are told apart by supersteps"
		}
	}
	return out
}
