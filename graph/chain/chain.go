// Package chain builds graphs in the order in which things happen:
//
//	flow, err := chain.Start(graph.New("brief", reduce), plan).
//		Loop(enough, search, read).
//		If(worthwhile).
//		Then(write).
//		Else().
//		Then(apologize).
//		EndIf().
//		Compile()
//
// It adds exactly the nodes, edges, branches and catches that you could add one by one, and no further nodes.
package chain

import (
	"context"
	"slices"

	"github.com/superstep-dev/superstep/graph"
)

// A Chain is a graph, or a part of one, that is being built. Its methods only collect the parts,
// End writes them into the graph, and Compile reports their mistakes.
//
// A condition is the choice of the node that ran before, as in [graph.Graph.Branch]: it sees the
// state with the update of that node, and must be a pure function.
type Chain[S, U any] struct {
	g        *graph.Graph[S, U]
	seq      bool // made by Seq
	ended    bool
	ops      []func(*writer[S, U], *block[S, U])
	mistakes []string
}

// A Block is a part of a chain: a [Node], or a chain made by [Seq].
type Block[S, U any] interface {
	chain(l *writer[S, U], b *block[S, U], what string)
}

// A Node is a node of a graph as a block. See [Of] and [Step].
type Node[S, U any] struct{ graph.Node[S, U] }

// Of returns a node as a block.
func Of[S, U any](n graph.Node[S, U]) Node[S, U] { return Node[S, U]{n} }

// Step returns a node of a function in its short form.
func Step[S, U any](name string, fn graph.Func[S, U]) Node[S, U] {
	n := graph.Node[S, U]{Name: name}
	if fn != nil {
		n.Run = func(ctx context.Context, _ *graph.Task, s S) (U, error) { return fn(ctx, s) }
	}
	return Of(n)
}

// Start begins a chain at the start of a graph, with a sequence of blocks, which may be empty. The
// graph may have other entries.
func Start[S, U any](g *graph.Graph[S, U], blocks ...Block[S, U]) *Chain[S, U] {
	c := &Chain[S, U]{g: g}
	g.Also(c.problems)
	return c.then("Start", blocks)
}

// Seq returns a chain to be used as a block of another: a branch of a Parallel, the body of a
// Loop, or a part with a Catch of its own. It has no Start and no End.
func Seq[S, U any](blocks ...Block[S, U]) *Chain[S, U] {
	return (&Chain[S, U]{seq: true}).then("Seq", blocks)
}

func (c *Chain[S, U]) op(f func(*writer[S, U], *block[S, U])) *Chain[S, U] {
	c.ops = append(c.ops, f)
	return c
}

func (c *Chain[S, U]) then(what string, blocks []Block[S, U]) *Chain[S, U] {
	blocks = slices.Clone(blocks)
	return c.op(func(l *writer[S, U], b *block[S, U]) { l.blocks(b, what, blocks) })
}

// Then continues with blocks, one after the other.
func (c *Chain[S, U]) Then(blocks ...Block[S, U]) *Chain[S, U] {
	if len(blocks) == 0 {
		return c.op(func(l *writer[S, U], b *block[S, U]) {
			l.report(b.place("Then"), "it names no node")
		})
	}
	return c.then("Then", blocks)
}

// If begins a conditional part: if the condition holds, the nodes before the Else run, and otherwise those between the Else and the EndIf. Without an
// Else, the run then continues after the EndIf. One of the two parts may be empty, but not both.
func (c *Chain[S, U]) If(cond func(S) bool) *Chain[S, U] {
	return c.op(func(l *writer[S, U], b *block[S, U]) { l.begin(b, cond) })
}

// Else begins the other way of the last open If.
func (c *Chain[S, U]) Else() *Chain[S, U] {
	return c.op(func(l *writer[S, U], b *block[S, U]) { l.other(b) })
}

// EndIf ends the last open If.
func (c *Chain[S, U]) EndIf() *Chain[S, U] {
	return c.op(func(l *writer[S, U], b *block[S, U]) { l.endIf(b) })
}

// Loop runs a body, and repeats it until a condition holds afterwards.
func (c *Chain[S, U]) Loop(until func(S) bool, body ...Block[S, U]) *Chain[S, U] {
	return c.looping(0, until, body)
}

// LoopMax is Loop with a limit: after max rounds the chain continues, whether the condition holds
// or not. A nil condition never holds. All rounds of a run count, also those before an outer loop
// came round again. The body has to end in one node.
func (c *Chain[S, U]) LoopMax(most int, until func(S) bool, body ...Block[S, U]) *Chain[S, U] {
	if until == nil {
		until = func(S) bool { return false }
	}
	if most <= 0 {
		return c.op(func(l *writer[S, U], b *block[S, U]) {
			l.report(b.place("LoopMax"), "its limit is %d; it must be at least 1", most)
		})
	}
	return c.looping(most, until, body)
}

func (c *Chain[S, U]) looping(most int, until func(S) bool, body []Block[S, U]) *Chain[S, U] {
	body = slices.Clone(body)
	return c.op(func(l *writer[S, U], b *block[S, U]) { l.loop(b, most, until, body) })
}

// Parallel runs branches side by side. The node after them joins them: it runs when all of them
// have ended, for All; or failed for good, for Settled; or as soon as n of them have ended, for
// Quorum(n), while the others still run to their end; or, for Any, again in every superstep after
// one in which a branch has ended, and what follows with it. Each branch has to end in one node.
// Only All may be the last thing in a graph. Between an If and its EndIf, All and Settled have to
// follow a node.
func (c *Chain[S, U]) Parallel(join graph.Join, branches ...Block[S, U]) *Chain[S, U] {
	branches = slices.Clone(branches)
	return c.op(func(l *writer[S, U], b *block[S, U]) { l.parallel(b, join, branches) })
}

// Fan runs a worker once for every message that split makes for it, side by side, as
// [graph.Graph.Fan] does for the node before, and the node after it joins them: at All and Settled
// it waits for the whole fan, which is one source; the workers send their results or put them into
// the state. A Fan follows a node or begins the chain.
func (c *Chain[S, U]) Fan(join graph.Join, split func(S) []graph.Send, worker Node[S, U]) *Chain[S, U] {
	return c.op(func(l *writer[S, U], b *block[S, U]) { l.fan(b, join, split, &worker.Node) })
}

// Wait returns a node that asks a person and turns the answer into an update. Its question has the
// key "answer". See [graph.Ask] for other answers than text.
func (c *Chain[S, U]) Wait(name, question string, answered func(state S, answer string) (U, error)) *Chain[S, U] {
	n := graph.Node[S, U]{Name: name, Kind: "ask"}
	if answered != nil {
		n.Run = func(ctx context.Context, _ *graph.Task, s S) (u U, err error) {
			answer, err := graph.Ask[string](ctx, graph.Question{Key: "answer", Text: question})
			if err != nil {
				return u, err
			}
			return answered(s, answer)
		}
	}
	return c.op(func(l *writer[S, U], b *block[S, U]) { l.node(b, "Wait", &n) })
}

// Catch makes a node handle failures of every node before it that no other Catch handles. It
// reaches back to the beginning of the If path, Loop body, Parallel branch or Seq that it is in.
// The chain continues after it, whether there was a failure or not. A failure within a Parallel is
// handled by a Catch in the same branch or by a Settled join; the other branches continue.
func (c *Chain[S, U]) Catch(handler Node[S, U]) *Chain[S, U] {
	return c.op(func(l *writer[S, U], b *block[S, U]) { l.catch(b, &handler.Node) })
}

// End ends the chain at the end of the graph, and returns the graph, to which you can add more.
func (c *Chain[S, U]) End() *graph.Graph[S, U] {
	if c.seq {
		g := graph.New[S, U]("", nil)
		g.Also(func() []string {
			return []string{"End of a Seq: the chain has no Start; a Seq is a block of another chain, which begins with chain.Start"}
		})
		return g
	}
	if !c.ended {
		c.ended = true
		c.mistakes = c.write()
	}
	return c.g
}

// Compile calls End and then compiles the graph.
func (c *Chain[S, U]) Compile() (*graph.Flow[S, U], error) { return c.End().Compile() }

// problems returns the mistakes in the chain.
func (c *Chain[S, U]) problems() []string {
	if !c.ended {
		return []string{"a chain has no End; what it says is not in the graph"}
	}
	return c.mistakes
}
