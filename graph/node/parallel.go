package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/journal"
)

// Strategy names which branches of a [Parallel] node count.
type Strategy uint8

// The strategies of a Parallel node.
const (
	All  Strategy = iota // every one; the results are in the order of the branches
	Race                 // the first to end, well or not; there is one result
	Any                  // the first to end well; there is one result
)

// ParallelOptions are the settings of Parallel. Nil means the defaults.
type ParallelOptions struct {
	Strategy Strategy
	Width    int // branches running at once, of All; defaults to all of them
	// Settled turns a failure that would fail the node into a result.
	Settled bool
}

// Parallel returns a node that runs others side by side, on the state it was given, and merges
// their updates into one. The result of a branch is recorded when it ends, so after a crash only
// unfinished branches run again. With Race and Any the winner is recorded and the other branches
// are cancelled.
//
// Only the Timeout, Retry and Output settings of a branch are used; see [graph.Part].
func Parallel[S, U any](name string, branches []graph.Node[S, U], merge func(S, []Result[U]) (U, error), opt *ParallelOptions) graph.Node[S, U] {
	p := &parallel[S, U]{branches: branches}
	if opt != nil {
		p.ParallelOptions = *opt
	}
	if p.Width <= 0 {
		p.Width = len(branches)
	}
	n := graph.Node[S, U]{Name: name, Kind: "parallel"}
	shape, err := p.shape(name)
	if p.Strategy > Any {
		err = errors.Join(err, fmt.Errorf("there is no strategy %d; use node.All, Race or Any", p.Strategy))
	}
	n.Err = errors.Join(err, missing("merge", merge == nil))
	n.Sub, n.Inner = shape, p.inner
	for i := range branches {
		n.Uses = append(n.Uses, branches[i].Uses...)
	}
	n.Run = func(ctx context.Context, t *graph.Task, s S) (u U, err error) {
		var results []Result[U]
		if p.Strategy == All {
			results, err = p.all(ctx, t, s)
		} else {
			results, err = p.first(ctx, t, s)
		}
		if err != nil {
			return u, err
		}
		return merge(s, results)
	}
	return n
}

type parallel[S, U any] struct {
	ParallelOptions
	branches []graph.Node[S, U]
}

// shape returns the shape of the branches as a graph. Mistakes in the nodes are found when it is
// built.
func (p *parallel[S, U]) shape(name string) (*graph.Shape, error) {
	g := graph.New(name, func(s S, _ U) S { return s })
	for i := range p.branches {
		b := &p.branches[i]
		if b.Join != graph.Any || b.Reads != nil || b.Input != nil || b.Cache != nil || b.OnError != graph.Fail || b.Sends != nil {
			return nil, fmt.Errorf("branch %q: a branch has no Join, Reads, Input, Cache, OnError or Sends", b.Name)
		}
		g.AddNode(*b)
		g.Edge(graph.Start, b.Name)
		g.Edge(b.Name, graph.End)
	}
	flow, err := g.Compile()
	if err != nil {
		return nil, err
	}
	shape := flow.Shape()
	return &shape, nil
}

// inner returns the graph inside of a branch.
func (p *parallel[S, U]) inner(part string) (graph.Reading, error) {
	name, part, _ := strings.Cut(part, "/")
	for i := range p.branches {
		if b := &p.branches[i]; b.Name == name && b.Inner != nil {
			return b.Inner(part)
		}
	}
	return nil, nil //nolint:nilnil // there is none
}

func (p *parallel[S, U]) all(ctx context.Context, t *graph.Task, s S) ([]Result[U], error) {
	results := make([]Result[U], len(p.branches))
	part := func(i int) *journal.Scope { return t.Scope().Inner(p.branches[i].Name) }
	errs := each(ctx, t, len(p.branches), p.Width, part, func(i int) error {
		b := &p.branches[i]
		effect := &journal.Effect{Key: "branch/" + b.Name, Kind: "branch", Name: b.Name, Inside: true}
		r, err := journal.Do(ctx, t.Scope(), effect, func(ctx context.Context, _ string) (Result[U], error) {
			return p.run(ctx, t, b, s, p.Settled)
		})
		results[i] = r
		return err
	})
	return results, verdict(errs)
}

// run runs a branch. With settled, its failure is a result.
func (p *parallel[S, U]) run(ctx context.Context, t *graph.Task, b *graph.Node[S, U], s S, settled bool) (Result[U], error) {
	r := Result[U]{Name: b.Name}
	u, err := graph.Part(ctx, t, b, s)
	if err == nil {
		r.Value = u
		return r, nil
	}
	if !settled || ctx.Err() != nil || fatal(err) || graph.Halts(err) {
		return r, err
	}
	r.Error = text(err)
	return r, nil
}

// first runs the branches until one has won. The winner depends on timing, so the choice is
// recorded as an effect.
func (p *parallel[S, U]) first(ctx context.Context, t *graph.Task, s S) ([]Result[U], error) {
	r, err := journal.Do(ctx, t.Scope(), &journal.Effect{Key: "winner", Kind: "branch", Name: t.Node(), Inside: true},
		func(ctx context.Context, _ string) (Result[U], error) {
			return p.compete(ctx, t, s)
		})
	return []Result[U]{r}, err
}

// errLost is the cause of a branch's cancellation.
var errLost = errors.New("another branch has won")

// compete returns the winner once all the other branches have ended too.
func (p *parallel[S, U]) compete(ctx context.Context, t *graph.Task, s S) (won Result[U], err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	type end struct {
		i      int
		result Result[U]
		err    error
	}
	ends := make(chan end, len(p.branches))
	branches := journal.NewBranches(len(p.branches))
	for i := range p.branches {
		go func() {
			b, e := &p.branches[i], end{i: i}
			e.err = branches.Run(ctx, t.Scope().Inner(b.Name), stopped(t), func(bool) error {
				return safely(func() (err error) { e.result, err = p.run(ctx, t, b, s, false); return err })
			})
			ends <- e
		}()
	}
	decided := false
	errs := make([]error, len(p.branches))
	for range p.branches {
		e := <-ends
		errs[e.i] = e.err
		counts := e.err == nil || p.Strategy == Race && !fatal(e.err) || graph.Halts(e.err)
		if decided || !counts || ctx.Err() != nil && e.err != nil {
			continue
		}
		decided = true
		won, err = e.result, e.err
		cancel(errLost)
	}
	if !decided {
		if waits := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return !journal.Waits(err) }); len(waits) > 0 {
			errs = waits // one of them may still win
		}
		if err = verdict(errs); !p.Settled || ctx.Err() != nil || fatal(err) {
			return won, err
		}
		return Result[U]{Name: t.Node(), Error: text(err)}, nil
	}
	if err != nil && p.Settled && !graph.Halts(err) {
		won.Error, err = text(err), nil
	}
	return won, err
}
