package vertex_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/superstep-dev/superstep/vertex"
)

// Every vertex learns the largest value (Malewicz et al., figure 2).
func ExampleProgram_maximum() {
	var ring vertex.EdgeList[struct{}]
	for v := range int32(4) {
		ring.Add(v, (v+1)%4)
	}
	g, err := ring.Build(4)
	if err != nil {
		fmt.Println(err)
		return
	}
	maximum := &vertex.Program[int, struct{}, int]{
		Compute: func(c *vertex.Context[int, struct{}, int], _ int32, most *int, in []int) vertex.Vote {
			changed := c.Step() == 0
			if len(in) > 0 && in[0] > *most {
				*most, changed = in[0], true
			}
			if changed {
				c.SendToNeighbors(*most)
			}
			return vertex.Halt
		},
		Combine: vertex.CombineMax[int](),
	}
	run, err := vertex.NewRun(g, maximum, []int{3, 6, 2, 1})
	if err == nil {
		err = run.Run(context.Background(), nil)
	}
	fmt.Println(run.Values(), run.Step(), err)
	// Output: [6 6 6 6] 5 <nil>
}

// Ranks until they change by less than a millionth in all.
func ExampleProgram_pageRank() {
	var web vertex.NamedEdges[string, struct{}]
	web.Vertex("home", "about", "product", "links")
	web.Edge("home", "about")
	web.Edge("home", "product")
	web.Edge("home", "links")
	web.Edge("about", "home")
	web.Edge("product", "home")
	web.Edge("links", "home")
	web.Edge("links", "product")
	g, err := web.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	n := float64(g.NumVertices())
	moved := vertex.NewSum[float64]("moved")
	rank := &vertex.Program[float64, struct{}, float64]{
		Compute: func(c *vertex.Context[float64, struct{}, float64], _ int32, rank *float64, in []float64) vertex.Vote {
			next := 1 / n
			if c.Step() > 0 {
				next = 0.15 / n
			}
			if len(in) > 0 {
				next += 0.85 * in[0]
			}
			moved.Add(c, math.Abs(next-*rank))
			*rank = next
			c.SendToNeighbors(next / float64(c.Degree()))
			return vertex.Stay
		},
		Combine:     vertex.CombineSum[float64](),
		Aggregators: []vertex.AnyAggregator{moved},
		Terminal:    func(b *vertex.Barrier) bool { m, _ := moved.Value(b); return m < 1e-6 },
	}
	run, err := vertex.NewRun(g, rank, nil)
	if err == nil {
		err = run.Run(context.Background(), &vertex.Options[float64, struct{}, float64]{MaxSteps: 1000})
	}
	for v, x := range run.Values() {
		fmt.Printf("%s %.3f\n", web.ID(int32(v)), x)
	}
	fmt.Println(err)
	// Output:
	// home 0.442
	// about 0.163
	// product 0.232
	// links 0.163
	// <nil>
}

// Vertices that reach each other share the lowest of their indexes.
func ExampleProgram_connectedComponents() {
	edges := vertex.EdgeList[struct{}]{From: []int32{4, 3, 1}, To: []int32{3, 0, 2}, Undirected: true}
	g, err := edges.Build(6)
	if err != nil {
		fmt.Println(err)
		return
	}
	run, err := vertex.NewRun(g, components(), nil)
	if err == nil {
		err = run.Run(context.Background(), nil)
	}
	fmt.Println(run.Values(), err)
	// Output: [0 1 1 0 0 5] <nil>
}

// The length of the shortest way from one vertex to every other.
func ExampleProgram_shortestPaths() {
	var roads vertex.NamedEdges[string, float64]
	roads.Vertex("a", "b", "c", "d")
	roads.Edge("a", "b", 7)
	roads.Edge("a", "c", 2)
	roads.Edge("c", "b", 3)
	roads.Edge("b", "d", 1)
	g, err := roads.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	paths := &vertex.Program[float64, float64, float64]{
		Compute: func(c *vertex.Context[float64, float64, float64], _ int32, dist *float64, in []float64) vertex.Vote {
			if c.Step() == 0 {
				*dist = 0 // only the entry computes in the first superstep
			} else if in[0] >= *dist {
				return vertex.Halt
			} else {
				*dist = in[0]
			}
			length := c.EdgeValues()
			for i, to := range c.Targets() {
				c.Send(to, *dist+length[i])
			}
			return vertex.Halt
		},
		Combine: vertex.CombineMin[float64](),
	}
	far := math.Inf(1)
	start, _ := roads.Index("a")
	run, err := vertex.NewRun(g, paths, []float64{far, far, far, far}, start)
	if err == nil {
		err = run.Run(context.Background(), nil)
	}
	fmt.Println(run.Values(), err)
	// Output: [0 5 2 6] <nil>
}

// A vertex that asks a service which is busy now and then.
func ExampleProgram_retry() {
	asked := 0
	ask := func(context.Context) (int, error) {
		if asked++; asked < 3 {
			return 0, errors.New("busy")
		}
		return 42, nil
	}
	p := &vertex.Program[int, struct{}, int]{
		Compute: func(c *vertex.Context[int, struct{}, int], _ int32, answer *int, _ []int) vertex.Vote {
			var err error
			if *answer, err = ask(c.Context()); err != nil {
				c.Fail(err)
			}
			return vertex.Halt
		},
		Retry:   &vertex.Retry{Attempts: 5, Backoff: time.Millisecond},
		Timeout: time.Minute,
	}
	var one vertex.EdgeList[struct{}]
	g, err := one.Build(1)
	if err != nil {
		fmt.Println(err)
		return
	}
	run, err := vertex.NewRun(g, p, nil)
	if err == nil {
		err = run.Run(context.Background(), nil)
	}
	fmt.Println(run.Values(), asked, err)
	// Output: [42] 3 <nil>
}
