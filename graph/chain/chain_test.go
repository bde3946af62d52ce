package chain_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/chain"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

type (
	step   = chain.Node[state, update]
	fluent = chain.Chain[state, update]
	piece  = chain.Block[state, update]
)

func nodeOf(name string) step { return chain.Step(name, visit(name)) }

func odd(s state) bool  { return s.N%2 == 1 }
func many(s state) bool { return len(s.Trail) > 6 }

func TestBothBuildersGiveOneGraph(t *testing.T) {
	b := nodeOf("b")
	b.Retry = &graph.Retry{Attempts: 2, Backoff: 1}
	chained := chain.Start(graph.New("g", reduce), nodeOf("a")).
		If(odd).
		Then(b).
		Else().
		Then(nodeOf("c"), nodeOf("d")).
		EndIf().
		Catch(nodeOf("rescue")).
		Loop(many, nodeOf("e"), nodeOf("f")).
		Parallel(graph.Settled, nodeOf("p"), chain.Seq(nodeOf("q"), nodeOf("r"))).
		Wait("ask", "Go on?", func(_ state, answer string) (update, error) { return update{Visit: answer}, nil }).
		End()

	g := graph.New("g", reduce)
	for _, name := range strings.Fields("a b c d rescue e f p q r") {
		if name == "b" {
			g.AddNode(b.Node)
		} else {
			g.Add(name, visit(name))
		}
	}
	g.AddNode(graph.Node[state, update]{Name: "ask", Kind: "ask", Join: graph.Settled, Run: func(ctx context.Context, t *graph.Task, _ state) (update, error) {
		answer, err := graph.Ask[string](ctx, graph.Question{Key: "answer", Text: "Go on?"})
		return update{Visit: answer}, err
	}})
	edges(g, "@start a", "c d", "b e", "d e", "rescue e", "e f", "q r", "p ask", "r ask", "ask @end")
	g.Branch("a", func(s state) string {
		if odd(s) {
			return "b"
		}
		return "c"
	}, "b", "c")
	for _, next := range []string{"p", "q"} {
		g.Branch("f", func(s state) string {
			if many(s) {
				return next
			}
			return "e"
		}, next, "e")
	}
	for _, from := range []string{"a", "b", "c", "d"} {
		g.Catch(from, "rescue")
	}

	x, y := compile(t, chained), compile(t, g)
	if !reflect.DeepEqual(x.Shape(), y.Shape()) {
		t.Fatalf("got  %+v\nwant %+v", x.Shape(), y.Shape())
	}
	if x.Digest() != y.Digest() {
		t.Error("the digests differ")
	}
	for n := range 2 {
		var got []state
		for _, flow := range []*graph.Flow[state, update]{x, y} {
			store := runlog.NewMemory(nil)
			j := open(t, store)
			if _, err := flow.Run(t.Context(), state{N: n}, &graph.RunOptions{Journal: j}); !journal.Waits(err) {
				t.Fatalf("got %v", err)
			}
			asked := j.Open()
			if len(asked) != 1 || asked[0].Text != "Go on?" {
				t.Fatalf("got %+v", asked)
			}
			if err := j.Answer(t.Context(), asked[0].Path, &runlog.Answer{Key: asked[0].Key, Value: []byte(`"yes"`)}); err != nil {
				t.Fatal(err)
			}
			s, err := flow.Run(t.Context(), state{}, &graph.RunOptions{Journal: j})
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, s)
		}
		if !reflect.DeepEqual(got[0], got[1]) || !slices.Contains(got[0].Trail, "yes") || slices.Contains(got[0].Trail, "b") != (n == 0) {
			t.Errorf("got %v", got)
		}
	}
}

func TestExplicitCallsAfterTheChain(t *testing.T) {
	g := graph.New("g", reduce)
	g.Add("late", visit("late"))
	c := chain.Start(g, nodeOf("a")).Then(nodeOf("b"))
	if first := c.End(); first != g || c.End() != g {
		t.Fatal("End gives another graph")
	}
	edges(g, "a late", "late @end")
	got, err := compile(t, g).Run(t.Context(), state{}, nil)
	if err != nil || strings.Join(got.Trail, " ") != "a late b" && strings.Join(got.Trail, " ") != "a b late" {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestChainMistakes(t *testing.T) {
	a, b, x := nodeOf("a"), nodeOf("b"), nodeOf("x")
	begin := func() *fluent { return chain.Start(graph.New("g", reduce), a) }
	for name, c := range map[string]struct {
		built *fluent
		want  []string
	}{
		"no start":             {chain.Seq(a), []string{"End of a Seq: the chain has no Start"}},
		"duplicate":            {begin().Then(b, a), []string{`Then after node "b": there is a node "a" already`}},
		"duplicate in loop":    {begin().Loop(odd, b, a), []string{`Loop after node "a": node after node "b": there is a node "a" already`}},
		"duplicate handler":    {begin().Catch(a), []string{`Catch after node "a": there is a node "a" already`}},
		"else without if":      {begin().Else().Then(b), []string{`Else after node "a": there is no If before it`}},
		"endif without if":     {begin().EndIf(), []string{`EndIf after node "a": there is no If before it`}},
		"else of another seq":  {begin().If(odd).Then(chain.Seq(b).Else()).EndIf(), []string{`Else after node "b": there is no If before it`}},
		"second else":          {begin().If(odd).Then(b).Else().Then(x).Else().EndIf(), []string{`Else after node "x": the If after node "a" has an Else already`}},
		"no endif":             {begin().If(odd).If(many).Then(b).EndIf(), []string{`If after node "a": it has no EndIf`}},
		"empty if":             {begin().If(odd).Else().EndIf(), []string{`If after node "a": there is nothing in it`}},
		"empty loop":           {begin().Loop(odd), []string{`Loop after node "a": its body is empty`}},
		"loop of an empty seq": {begin().Loop(odd, chain.Seq[state, update]()).Then(b), []string{`Loop after node "a": its body is empty`}},
		"loop passed by":       {begin().Loop(odd, chain.Seq[state, update]().If(many).Then(b).EndIf()), []string{`Loop after node "a": a round of it may run nothing`}},
		"loop without a limit": {begin().LoopMax(0, odd, b), []string{`LoopMax after node "a": its limit is 0; it must be at least 1`}},
		"loop of two ends":     {begin().LoopMax(3, odd, chain.Seq[state, update]().Then(x).If(many).Then(b).EndIf()), []string{`Loop after node "a": its body ends in several ways, so that its rounds cannot be counted`}},
		"loop of parallel":     {begin().Loop(odd, chain.Seq[state, update]().Parallel(graph.All, b, x)), []string{`Loop after node "a": its body ends in a Parallel`}},
		"no conditions":        {begin().If(nil).Then(b).EndIf().Loop(nil, x), []string{`If after node "a": its condition is nil`, `Loop after node "b": its condition is nil`}},
		"no node":              {begin().Then(), []string{`Then after node "a": it names no node`}},
		"nil":                  {begin().Then(nil, (*fluent)(nil), begin()), []string{`Then after node "a": a block is nil`, `Then after node "a": a block is neither`, `a block is neither`}},
		"itself":               {begin().Then(knot()), []string{`Then after node "b": a Seq is within itself`}},
		"no branches":          {begin().Parallel(graph.All).Then(b), []string{`Parallel after node "a": it has no branches`}},
		"empty branch":         {begin().Parallel(graph.All, b, chain.Seq[state, update]()).Then(x), []string{`Parallel after node "a": branch 2 of it is empty`}},
		"if after parallel":    {begin().Parallel(graph.All, b, x).If(odd).Then(nodeOf("c")).EndIf(), []string{`If after the Parallel after node "a": the branches of the Parallel before it are not joined yet`}},
		"catch after parallel": {begin().Parallel(graph.All, b).Catch(x), []string{`Catch after the Parallel after node "a": the branches`}},
		"if ends in parallel":  {begin().If(odd).Then(nodeOf("c")).Parallel(graph.All, b, x).EndIf(), []string{`EndIf after the Parallel after node "c": the branches`}},
		"parallel of a choice": {begin().If(odd).Parallel(graph.All, b, x).Then(nodeOf("c")).EndIf(), []string{`Parallel after node "a": between an If and its EndIf it has to follow a node`}},
		"branch of two ends":   {begin().Parallel(graph.All, b, chain.Seq(x).Loop(odd, nodeOf("c"))).Then(nodeOf("d")), []string{`Parallel after node "a": branch 2 of it ends in several ways`}},
		"two joins":            {begin().Parallel(graph.Settled, b, x).Then(chain.Of(graph.Node[state, update]{Name: "j", Join: graph.All, Run: broken})), []string{`Then after the Parallel after node "a": node "j" has the join all, but the Parallel before it has settled`}},
		"join of nothing":      {begin().Parallel(graph.Settled, b, x), []string{`Parallel after node "a": nothing follows that could join`}},
		"catch of nothing":     {chain.Start(graph.New("g", reduce)).Catch(a), []string{`Catch at the beginning: there is no node before it`}},
		"catch of an empty if": {begin().If(odd).Catch(b).EndIf(), []string{`Catch after node "a": there is no node before it`, `If after node "a": there is nothing in it`}},
		"no question":          {begin().Wait("ask", "?", nil), []string{`node "ask" has no function`}},
		"all at once": {begin().Else().Then(a).Loop(odd).EndIf(), []string{
			`Else after node "a"`, `Then after node "a": there is a node "a" already`, `Loop after node "a": its body`, `EndIf after node "a"`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.built.Compile()
			var bad *graph.CompileError
			if !errors.As(err, &bad) {
				t.Fatalf("got %v", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("missing %q in:\n%v", want, err)
				}
			}
			if extra := len(bad.Problems) - len(c.want); extra > 0 && name != "no start" {
				t.Errorf("%d mistakes too many:\n%v", extra, err)
			}
		})
	}
}

func knot() *fluent {
	c := chain.Seq(nodeOf("b"))
	return c.Then(c)
}

func TestChainWithoutEndIsNoticed(t *testing.T) {
	g := graph.New("g", reduce)
	edges(g, "@start a", "a @end")
	g.Add("a", visit("a"))
	chain.Start(g, nodeOf("b"))
	if _, err := g.Compile(); err == nil || !strings.Contains(err.Error(), "a chain has no End") {
		t.Errorf("got %v", err)
	}
}

// What follows runs once for All, Settled and Quorum, however late the branches end.
func TestParallelJoins(t *testing.T) {
	for join, want := range map[graph.Join]string{
		graph.All:       "a p q r j k",
		graph.Quorum(1): "a p q j r k",
		graph.Any:       "a p q j r j k k",
	} {
		flow, err := chain.Start(graph.New("g", reduce), nodeOf("a")).
			Parallel(join, nodeOf("p"), chain.Seq(nodeOf("q"), nodeOf("r"))).
			Then(nodeOf("j"), nodeOf("k")).Compile()
		if err != nil {
			t.Fatal(err)
		}
		got, err := flow.Run(t.Context(), state{}, nil)
		trail := slices.Clone(got.Trail)
		wanted := strings.Fields(want)
		slices.Sort(trail)
		slices.Sort(wanted)
		if err != nil || !slices.Equal(trail, wanted) {
			t.Errorf("%s: got %v, %v; want %s", join, got.Trail, err, want)
		}
	}
}

// part is a piece of a random program: a node, or something made of parts.
type part struct {
	kind  string // node, if, loop, parallel, seq, catch
	name  string // of a node
	fails bool   // in some states
	rest  int    // of its condition
	ways  [][]*part
}

func (p *part) cond(s state) bool  { return s.N%3 == p.rest }
func (p *part) until(s state) bool { return s.N%4 == p.rest || len(s.Trail) >= 30 }
func (p *part) broken(s state) bool {
	return p.fails && s.N%3 == p.rest
}

func (p *part) update(s state) update { return update{Add: 1 + s.N%3, Visit: p.name} }

func (p *part) node() step {
	return chain.Step(p.name, func(_ context.Context, s state) (update, error) {
		if p.broken(s) {
			return update{}, errBroken
		}
		return p.update(s), nil
	})
}

type drawing struct {
	t     *rapid.T
	names int
}

func (d *drawing) node() *part {
	d.names++
	return &part{kind: "node", name: fmt.Sprintf("n%03d", d.names), rest: d.n(0, 2)}
}

func (d *drawing) n(low, high int) int { return rapid.IntRange(low, high).Draw(d.t, "n") }

// list draws parts, the first and the last of which are nodes where that is asked for. In a
// way of an If a Parallel follows a node.
func (d *drawing) list(depth int, first, last, way bool) []*part {
	var out []*part
	if first {
		out = append(out, d.node())
	}
	for range d.n(0, 3) {
		switch kind := d.n(0, 5); {
		case kind == 1 && depth > 0:
			ways := [][]*part{d.list(depth-1, d.n(0, 1) == 0, false, true), d.list(depth-1, false, false, true)}
			if size(ways[0])+size(ways[1]) == 0 {
				ways[0] = append(ways[0], d.node())
			}
			out = append(out, &part{kind: "if", rest: d.n(0, 2), ways: ways})
		case kind == 2 && depth > 0:
			early := d.n(0, 1) == 0
			out = append(out, &part{kind: "loop", rest: d.n(0, 3), ways: [][]*part{d.list(depth-1, early, !early, way)}})
		case kind == 3 && depth > 0:
			p := &part{kind: "parallel"}
			for range d.n(1, 3) {
				p.ways = append(p.ways, d.list(depth-1, false, true, way))
			}
			if way && (len(out) == 0 || out[len(out)-1].kind != "node") {
				out = append(out, d.node())
			}
			out = append(out, p, d.node())
		case kind == 4 && depth > 0:
			out = append(out, &part{kind: "seq", ways: [][]*part{d.list(depth-1, false, false, way)}})
		case kind == 5 && size(out) > 0:
			if d.fail(out) {
				handler := d.node()
				handler.kind = "catch"
				out = append(out, handler)
			}
		default:
			out = append(out, d.node())
		}
	}
	if last {
		out = append(out, d.node())
	}
	return out
}

// fail makes some nodes fail that a Catch after them would take care of.
func (d *drawing) fail(list []*part) (any bool) {
	for _, p := range list {
		switch p.kind {
		case "node":
			p.fails = p.fails || d.n(0, 1) == 0
			any = true
		case "if", "loop", "seq":
			for _, way := range p.ways {
				any = d.fail(way) || any
			}
		}
	}
	return any
}

func size(list []*part) (n int) {
	for _, p := range list {
		if p.name != "" {
			n++
		}
		for _, way := range p.ways {
			n += size(way)
		}
	}
	return n
}

func write(c *fluent, list []*part) *fluent {
	seq := func(way []*part) piece { return write(chain.Seq[state, update](), way) }
	for _, p := range list {
		switch p.kind {
		case "node":
			c.Then(p.node())
		case "catch":
			c.Catch(p.node())
		case "seq":
			c.Then(seq(p.ways[0]))
		case "loop":
			c.Loop(p.until, seq(p.ways[0]))
		case "parallel":
			var branches []piece
			for _, way := range p.ways {
				branches = append(branches, seq(way))
			}
			c.Parallel(graph.All, branches...)
		case "if":
			write(c.If(p.cond), p.ways[0])
			if len(p.ways[1]) > 0 {
				write(c.Else(), p.ways[1])
			}
			c.EndIf()
		}
	}
	return c
}

// A superstep runs nodes side by side, and gives for each the state with its update, or
// that it has failed.
type superstep func([]*part) []outcome

type outcome struct {
	after state
	ok    bool
}

// interpret runs a program as it reads. The last state is that which the last node saw,
// with its update.
func interpret(list []*part, last outcome, do superstep) outcome {
	for _, p := range list {
		if !last.ok {
			if p.kind == "catch" {
				last = do([]*part{p})[0]
			}
			continue
		}
		switch p.kind {
		case "node":
			last = do([]*part{p})[0]
		case "seq":
			last = interpret(p.ways[0], last, do)
		case "if":
			way := p.ways[1]
			if p.cond(last.after) {
				way = p.ways[0]
			}
			last = interpret(way, last, do)
		case "loop":
			for last = interpret(p.ways[0], last, do); last.ok && !p.until(last.after); {
				last = interpret(p.ways[0], last, do)
			}
		case "parallel":
			last = sideBySide(p.ways, last, do)
		}
	}
	return last
}

// sideBySide runs branches in step with each other.
func sideBySide(ways [][]*part, last outcome, do superstep) outcome {
	type branch struct {
		next func() ([]*part, bool)
		got  []outcome
		want []*part
	}
	var live []*branch
	for _, way := range ways {
		b := &branch{}
		next, stop := iter.Pull(func(yield func([]*part) bool) {
			interpret(way, last, func(nodes []*part) []outcome {
				yield(nodes)
				return b.got
			})
		})
		defer stop()
		b.next = next
		live = append(live, b)
	}
	for {
		var all []*part
		var going []*branch
		for _, b := range live {
			if want, more := b.next(); more {
				b.want = want
				all = append(all, want...)
				going = append(going, b)
			}
		}
		if len(going) == 0 {
			return last
		}
		got := do(all)
		for _, b := range going {
			b.got, got = got[:len(b.want)], got[len(b.want):]
		}
		live = going
	}
}

func TestChainsRunAsTheyRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := &drawing{t: t}
		list := d.list(3, true, false, false)
		flow, err := write(chain.Start(graph.New("random", reduce)), list).Compile()
		if err != nil {
			t.Fatalf("%v", err)
		}
		first := state{N: d.n(0, 5)}
		got, err := flow.Run(context.Background(), first, &graph.RunOptions{MaxSteps: 100000})
		if err != nil {
			t.Fatalf("%v", err)
		}
		want := first
		end := interpret(list, outcome{first, true}, func(nodes []*part) []outcome {
			out := make([]outcome, len(nodes))
			now := want
			for i, p := range nodes {
				if !p.broken(now) {
					out[i] = outcome{reduce(now, p.update(now)), true}
					want = reduce(want, p.update(now))
				}
			}
			return out
		})
		if !end.ok {
			t.Fatalf("the interpreter has failed")
		}
		slices.Sort(got.Trail) // which of one superstep comes first is for others to test
		slices.Sort(want.Trail)
		if got.N != want.N || !slices.Equal(got.Trail, want.Trail) {
			t.Fatalf("got  %v\nwant %v", got, want)
		}
	})
}

func TestChainFansOut(t *testing.T) {
	words := func(s state) (out []graph.Send) {
		for _, w := range s.Trail {
			out = append(out, graph.Send{To: "measure", Key: w, Arg: w})
		}
		return out
	}
	measure := chain.Of(graph.Node[state, update]{Name: "measure", Run: func(_ context.Context, t *graph.Task, _ state) (update, error) {
		return update{Add: len(t.Key())}, nil
	}})
	flow, err := chain.Start(graph.New("fan", reduce), chain.Step("a", visit("a"))).
		Fan(graph.All, words, measure).
		Then(chain.Step("z", visit("z"))).
		Compile()
	if err != nil {
		t.Fatal(err)
	}
	got, err := flow.Run(t.Context(), state{Trail: []string{"one", "three"}}, nil)
	if err != nil || got.N != 1+3+5+1+1 || strings.Join(got.Trail, " ") != "one three a z" {
		t.Errorf("got %v, %v", got, err)
	}
	_, err = chain.Start(graph.New("fan", reduce), chain.Step("a", visit("a"))).
		If(func(state) bool { return true }).
		Fan(graph.All, nil, measure).
		EndIf().
		Compile()
	for _, want := range []string{"its function is nil", "it has to follow a node"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in %v", want, err)
		}
	}
}

// A loop of two nodes has room for its hundred rounds, and ends at a limit of its own.
func TestLoopLimits(t *testing.T) {
	rounds := func(t *testing.T, c *chain.Chain[state, update]) (string, error) {
		t.Helper()
		flow, err := c.Compile()
		if err != nil {
			t.Fatal(err)
		}
		got, err := flow.Run(t.Context(), state{}, nil)
		return fmt.Sprint(strings.Count(strings.Join(got.Trail, ""), "b"), " ", got.Trail[len(got.Trail)-1]), err
	}
	begin := func() *chain.Chain[state, update] {
		return chain.Start(graph.New("loop", reduce), chain.Step("s", visit("s")))
	}
	body := []chain.Block[state, update]{chain.Step("a", visit("a")), chain.Step("b", visit("b"))}
	end := chain.Step("end", visit("end"))
	hundred := func(s state) bool { return len(s.Trail) > 200 }
	never := func(state) bool { return false }
	for name, c := range map[string]struct {
		built *fluent
		want  string
	}{
		"a hundred rounds":  {begin().Loop(hundred, body...).Then(end), "100 end"},
		"at its own limit":  {begin().LoopMax(3, never, body...).Then(end), "3 end"},
		"without until":     {begin().LoopMax(1, nil, body...).Then(end), "1 end"},
		"until comes first": {begin().LoopMax(1000, func(s state) bool { return len(s.Trail) > 4 }, body...).Then(end), "2 end"},
		"within a loop":     {begin().Loop(func(s state) bool { return len(s.Trail) > 9 }, chain.Seq(body...).LoopMax(2, nil, chain.Step("c", visit("c")))).Then(end), "3 end"},
	} {
		if got, err := rounds(t, c.built); got != c.want || err != nil {
			t.Errorf("%s: %s, %v; want %s", name, got, err, c.want)
		}
	}
	var limit *graph.StepLimitError
	if _, err := rounds(t, begin().Loop(never, body...).Then(end)); !errors.As(err, &limit) || limit.Limit != 202 {
		t.Errorf("got %v", err)
	}
}
