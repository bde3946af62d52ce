package vertex_test

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/vertex"
)

type (
	plainContext = vertex.Context[int, none, int]
	plainProgram = vertex.Program[int, none, int]
	plainOptions = vertex.Options[int, none, int]
)

func chain(n int) *vertex.EdgeList[none] {
	l := &vertex.EdgeList[none]{}
	for v := range int32(n) - 1 {
		l.Add(v, v+1)
	}
	return l
}

type queue []struct {
	v    int32
	dist float64
}

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].dist < q[j].dist }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any) {
	*q = append(*q, x.(struct {
		v    int32
		dist float64
	}))
}

func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

func dijkstra(n int, l *vertex.EdgeList[float64], from int32) []float64 {
	out := make([][]int, n)
	for i, u := range l.From {
		out[u] = append(out[u], i)
	}
	dist := make([]float64, n)
	for v := range dist {
		dist[v] = math.Inf(1)
	}
	dist[from] = 0
	q := &queue{{from, 0}}
	for q.Len() > 0 {
		x := heap.Pop(q).(struct {
			v    int32
			dist float64
		})
		if x.dist > dist[x.v] {
			continue
		}
		for _, i := range out[x.v] {
			if d := x.dist + l.Values[i]; d < dist[l.To[i]] {
				dist[l.To[i]] = d
				heap.Push(q, struct {
					v    int32
					dist float64
				}{l.To[i], d})
			}
		}
	}
	return dist
}

// Random graphs against algorithms that have nothing in common with supersteps.
func TestAlgorithms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 300).Draw(t, "n")
		m := rapid.IntRange(0, 5*n).Draw(t, "m")
		seed := rapid.Uint64().Draw(t, "seed")
		plain, weighted := &vertex.EdgeList[none]{}, &vertex.EdgeList[float64]{Values: []float64{}}
		for i := range m {
			h := wild{seed: seed}.hash(i)
			u, v := int32(h>>8&0xffff)%int32(n), int32(h>>24&0xffff)%int32(n)
			plain.Add(u, v)
			weighted.Add(u, v, float64(h>>40&0xff)/8)
		}
		parallelism := rapid.IntRange(1, 4).Draw(t, "parallelism")
		ranks, err := tryVertices(plain, n, pageRank(n, 10), nil, parallelism)
		if err != nil {
			t.Fatal(err)
		}
		for v, want := range pageRankPlain(n, 10, plain) {
			if math.Abs(ranks[v]-want) > 1e-12 {
				t.Fatalf("rank of %d is %g, want %g", v, ranks[v], want)
			}
		}
		far := make([]float64, n)
		for v := range far {
			far[v] = math.Inf(1)
		}
		dist, err := tryVertices(weighted, n, shortest(), far, parallelism, 0)
		if err != nil || !slices.Equal(dist, dijkstra(n, weighted, 0)) {
			t.Fatalf("distances differ: %v", err)
		}
		plain.Undirected = true
		least, err := tryVertices(plain, n, components(), nil, parallelism)
		if err != nil || !slices.Equal(least, union(n, plain.From, plain.To)) {
			t.Fatalf("components differ: %v", err)
		}
	})
}

func tryVertices[V, E, M any](l *vertex.EdgeList[E], n int, p *vertex.Program[V, E, M], values []V, parallelism int, entries ...int32) ([]V, error) {
	g, err := l.Build(n)
	if err != nil {
		return nil, err
	}
	r, err := vertex.NewRun(g, p, values, entries...)
	if err != nil {
		return nil, err
	}
	r.Tune(0, 4, 50, 30, 10)
	return r.Values(), r.Run(context.Background(), &vertex.Options[V, E, M]{Parallelism: parallelism})
}

func TestActivity(t *testing.T) {
	var steps []string
	wake := func(c *plainContext, v int32, _ *int, _ []int) vertex.Vote {
		steps = append(steps, fmt.Sprint(c.Step(), ":", v))
		c.SendToNeighbors(1)
		return vertex.Halt
	}
	for name, c := range map[string]struct {
		compute func(c *plainContext, v int32, value *int, in []int) vertex.Vote
		entries []int32
		want    string
	}{
		"edges drive: only the entry is active": {wake, []int32{0}, "0:0 1:1 2:2"},
		"messages drive: all are active":        {wake, nil, "0:0 0:1 0:2 1:1 1:2 2:2"},
		"stay": {func(c *plainContext, v int32, _ *int, _ []int) vertex.Vote {
			steps = append(steps, fmt.Sprint(c.Step(), ":", v))
			if c.Step() < 2 {
				return vertex.Stay
			}
			return vertex.Halt
		}, []int32{1}, "0:1 1:1 2:1"},
		"completed vertices stay so": {func(c *plainContext, v int32, _ *int, _ []int) vertex.Vote {
			steps = append(steps, fmt.Sprint(c.Step(), ":", v))
			c.Send((v+1)%3, 1)
			return vertex.Complete
		}, []int32{0}, "0:0 1:1 2:2"},
	} {
		steps = nil
		runVertices(t, build(t, chain(3), 3), &plainProgram{Compute: c.compute}, nil, &plainOptions{Parallelism: 1}, c.entries...)
		if got := strings.Join(steps, " "); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestMessagesApart(t *testing.T) {
	var got []int
	p := &plainProgram{Compute: func(c *plainContext, v int32, _ *int, in []int) vertex.Vote {
		switch {
		case c.Step() == 0:
			c.Send(2, int(v)*10)
			c.Send(2, int(v)*10+1)
		case v == 2:
			got = slices.Clone(in)
		}
		return vertex.Halt
	}}
	runVertices(t, build(t, chain(5), 5), p, nil, nil)
	if want := []int{0, 1, 10, 11, 20, 21, 30, 31, 40, 41}; !slices.Equal(got, want) {
		t.Errorf("messages %v, want %v", got, want)
	}
}

func TestErrors(t *testing.T) {
	ids := &vertex.NamedEdges[string, none]{}
	for v := range 100 {
		ids.Vertex(fmt.Sprintf("v%d", v))
	}
	g, err := ids.Build()
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		compute func(c *plainContext, v int32)
		want    string
	}{
		"panic":       {func(_ *plainContext, v int32) { panic(v) }, "vertex v30 in superstep 0: panic: 30"},
		"fail":        {func(c *plainContext, _ int32) { c.Fail(broken) }, "vertex v30 in superstep 0: broken"},
		"message":     {func(c *plainContext, _ int32) { c.Send(100, 1) }, "vertex v30 in superstep 0: a message to vertex 100: no such vertex, of 100; add it in the same superstep"},
		"negative":    {func(c *plainContext, _ int32) { c.Send(-1, 1) }, "vertex v30 in superstep 0: a message to vertex -1: no such vertex, of 100; add it in the same superstep"},
		"sparse":      {func(c *plainContext, _ int32) { c.AddVertex(1e6, 1) }, "vertex v30 in superstep 0: cannot add vertex 1000000: indexes are dense, and have to be below 1224 in this superstep"},
		"no such sum": {func(c *plainContext, _ int32) { vertex.NewSum[int]("x").Add(c, 1) }, "vertex v30 in superstep 0: panic: vertex: aggregator \"x\" is not listed by the vertex program"},
	} {
		for _, parallelism := range []int{1, 2, 8} {
			p := &plainProgram{Compute: func(ctx *plainContext, v int32, _ *int, _ []int) vertex.Vote {
				if v >= 30 && v%3 == 0 {
					c.compute(ctx, v)
				}
				return vertex.Stay
			}}
			r, err := vertex.NewRun(g, p, nil)
			if err != nil {
				t.Fatal(err)
			}
			err = r.Run(context.Background(), &plainOptions{Parallelism: parallelism})
			var at *vertex.Error
			if !errors.As(err, &at) || at.Vertex != 30 || err.Error() != c.want {
				t.Errorf("%s, parallelism %d: %v", name, parallelism, err)
			}
			if again := r.Run(context.Background(), nil); !errors.Is(again, err) {
				t.Errorf("%s: a broken run went on: %v", name, again)
			}
			if _, snap := r.Snapshot(); !errors.Is(snap, err) {
				t.Errorf("%s: a snapshot of a broken run: %v", name, snap)
			}
		}
	}
}

// A panic of a Combine ends the run and not the process.
func TestCombinePanic(t *testing.T) {
	// The last one has messages to be gathered at its limit of supersteps.
	for _, tune := range [][]int{{0, 100, 1, 0, 0}, {1 << 20, 1, 1, 1 << 20, 1 << 20}, {0, 100, 1, 0, 0, 1}} {
		p := &plainProgram{
			Compute: func(c *plainContext, _ int32, _ *int, _ []int) vertex.Vote {
				c.SendToNeighbors(1)
				return vertex.Halt
			},
			Combine: vertex.CombineWith(func(int, int) int { panic("no") }),
		}
		l := chain(100)
		l.Undirected = true
		r, err := vertex.NewRun(build(t, l, 100), p, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Tune(tune[0], tune[1], tune[2], tune[3], tune[4])
		o := &plainOptions{Parallelism: 2}
		if len(tune) > 5 {
			o.MaxSteps = tune[5]
		}
		var panicked *vertex.PanicError
		if err := r.Run(context.Background(), o); !errors.As(err, &panicked) || panicked.Value != "no" {
			t.Errorf("%v: %v", tune, err)
		}
		if r.Run(context.Background(), nil) == nil {
			t.Errorf("%v: a broken run went on", tune)
		}
	}
}

func TestMistakes(t *testing.T) {
	l := &vertex.EdgeList[none]{From: []int32{0, 5, -1}, To: []int32{3, 1, 0, 2}}
	_, err := l.Build(3)
	want := "3 edges have a source and 4 a target\nedge 1 comes from vertex 5, of 3\nedge 2 comes from vertex -1, of 3\nedge 0 goes to vertex 3, of 3"
	if err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
	var ids vertex.NamedEdges[string, none]
	ids.Vertex("a", "b", "a")
	ids.Edge("a", "x")
	ids.Edge("y", "z")
	_, err = ids.Build()
	want = "vertex a is declared twice\nedge a → x goes to an unknown vertex\nedge y → z comes from an unknown vertex\nedge y → z goes to an unknown vertex"
	if err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
	many := &vertex.EdgeList[none]{From: make([]int32, 150), To: slices.Repeat([]int32{7}, 150)}
	if _, err = many.Build(1); err == nil || strings.Count(err.Error(), "\n") != 100 || !strings.Contains(err.Error(), "50") {
		t.Errorf("%v", err)
	}
	sum := vertex.NewSum[int]("s")
	_, err = vertex.NewRun(build(t, chain(2), 2), &plainProgram{Aggregators: []vertex.AnyAggregator{sum, vertex.NewSum[int]("s")}}, make([]int, 3))
	want = "3 values for 2 vertices\nthe vertex program has no Compute\ntwo aggregators are called \"s\""
	if err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}

func TestUndirectedValues(t *testing.T) {
	l := &vertex.EdgeList[string]{Undirected: true}
	l.Add(0, 2, "a")
	l.Add(1, 0, "b")
	l.Add(1, 1, "loop")
	g := build(t, l, 3)
	var got string
	p := &vertex.Program[none, string, none]{Compute: func(c *vertex.Context[none, string, none], v int32, _ *none, _ []none) vertex.Vote {
		got += fmt.Sprint(v, c.Targets(), c.EdgeValues(), " ")
		return vertex.Halt
	}}
	runVertices(t, g, p, nil, &vertex.Options[none, string, none]{Parallelism: 1})
	if want := "0 [1 2] [b a] 1 [0 1] [b loop] 2 [0] [a] "; got != want || g.NumEdges() != 5 {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestStepLimit(t *testing.T) {
	endless := &plainProgram{Compute: func(*plainContext, int32, *int, []int) vertex.Vote { return vertex.Stay }}
	r, err := vertex.NewRun(build(t, chain(20), 20), endless, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, steps := range []int{5, 7} { // a limit that is raised lets the run go on
		var limit *vertex.StepLimitError
		if err := r.Run(context.Background(), &plainOptions{MaxSteps: steps}); !errors.As(err, &limit) || limit.Limit != steps || len(limit.Frontier) != 11 || r.Step() != steps {
			t.Errorf("at %d: %v", steps, err)
		}
	}
}

func TestInterval(t *testing.T) {
	count := &plainProgram{Compute: func(c *plainContext, _ int32, _ *int, _ []int) vertex.Vote {
		if c.Step() == 11 {
			return vertex.Halt
		}
		return vertex.Stay
	}}
	for every, want := range map[int]string{5: "[5 10]", 0: "[]", 12: "[12]", 100: "[]"} {
		at := []int{}
		runVertices(t, build(t, chain(2), 2), count, nil, &plainOptions{CheckpointEvery: every, Checkpoint: func(s *vertex.Snapshot[int, none, int]) error {
			at = append(at, s.Step)
			return nil
		}})
		if fmt.Sprint(at) != want {
			t.Errorf("interval %d: %v, want %s", every, at, want)
		}
	}
}

func TestParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		p := &plainProgram{Compute: func(*plainContext, int32, *int, []int) vertex.Vote {
			time.Sleep(50 * time.Millisecond)
			return vertex.Halt
		}}
		runVertices(t, build(t, chain(4), 4), p, nil, &plainOptions{Parallelism: 4})
		if d := time.Since(start); d >= 150*time.Millisecond {
			t.Errorf("four vertices of 50 ms took %v", d)
		}
	})
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		start := time.Now()
		slow := &plainProgram{Compute: func(*plainContext, int32, *int, []int) vertex.Vote {
			time.Sleep(30 * time.Millisecond)
			return vertex.Stay
		}}
		r, err := vertex.NewRun(build(t, chain(1000), 1000), slow, nil)
		if err != nil {
			t.Fatal(err)
		}
		err = r.Run(ctx, &plainOptions{Parallelism: 2})
		if d := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || d >= 500*time.Millisecond {
			t.Errorf("%v after %v", err, d)
		}
		if err := r.Run(context.Background(), nil); err == nil || !strings.Contains(err.Error(), "middle of superstep 0") {
			t.Errorf("an interrupted run went on: %v", err)
		}
	})
}

// Canceled between two supersteps, a run can go on.
func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("enough")
	var computed atomic.Int32
	p := &plainProgram{Compute: func(c *plainContext, _ int32, _ *int, _ []int) vertex.Vote {
		if computed.Add(1); c.Step() == 9 {
			return vertex.Halt
		}
		return vertex.Stay
	}}
	r, err := vertex.NewRun(build(t, chain(100), 100), p, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Run(ctx, &plainOptions{Trace: func(s vertex.Stats) {
		if s.Step == 3 {
			cancel(why)
		}
	}}); !errors.Is(err, why) || r.Step() != 4 {
		t.Fatalf("%v at %d", err, r.Step())
	}
	if err := r.Run(context.Background(), nil); err != nil || !r.Ended() || computed.Load() != 1000 {
		t.Errorf("%v, computed %d", err, computed.Load())
	}
}

func TestTerminal(t *testing.T) {
	sum := vertex.NewSum[int]("sum")
	sum.Sticky = true
	least, most := vertex.NewMin[int32]("least"), vertex.NewMax[int32]("most")
	p := &plainProgram{
		Compute: func(c *plainContext, v int32, _ *int, _ []int) vertex.Vote {
			sum.Add(c, 1)
			least.Add(c, v)
			most.Add(c, v)
			c.SendToNeighbors(1)
			return vertex.Stay
		},
		Combine:     vertex.CombineMax[int](),
		Aggregators: []vertex.AnyAggregator{sum, least, most},
		Terminal:    func(b *vertex.Barrier) bool { n, _ := sum.Value(b); return n >= 1000 },
	}
	r := runVertices(t, build(t, chain(300), 300), p, nil, nil)
	n, _ := sum.Value(r.Aggregated())
	lo, _ := least.Value(r.Aggregated())
	hi, ok := most.Value(r.Aggregated())
	if r.Step() != 4 || n != 1200 || lo != 0 || hi != 299 || !ok || !r.Ended() {
		t.Errorf("%d steps, sum %d, %d to %d", r.Step(), n, lo, hi)
	}
}

func TestRestoreMistakes(t *testing.T) {
	g := build(t, chain(3), 3)
	p := &plainProgram{Compute: func(*plainContext, int32, *int, []int) vertex.Vote { return vertex.Halt }}
	if _, err := vertex.Restore(g, p, &vertex.Snapshot[int, none, int]{Values: make([]int, 3), Votes: make([]byte, 3), GraphVertices: 4, GraphEdges: 2}); err == nil {
		t.Error("restored on another graph")
	}
	_, err := vertex.Restore(g, p, &vertex.Snapshot[int, none, int]{Values: make([]int, 3), Votes: make([]byte, 2), GraphVertices: 3, GraphEdges: 2, To: []int32{9}, Messages: []int{1, 2}})
	if want := "the snapshot has 2 votes for 3 vertices\ninbox 0 of the snapshot, of vertex 9, cannot be\nthe snapshot has 2 messages in inboxes for 1"; err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}

// A superstep costs what is active: a wave along a path, with everybody else idle.
func BenchmarkIdle(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			l := &vertex.EdgeList[float64]{}
			for v := range int32(n) - 1 {
				l.Add(v, v+1, 1)
			}
			g := build(b, l, n)
			far := make([]float64, n)
			steps := 0
			for b.Loop() {
				for v := range far {
					far[v] = math.Inf(1)
				}
				r, err := vertex.NewRun(g, shortest(), far, 0)
				if err != nil {
					b.Fatal(err)
				}
				var limit *vertex.StepLimitError
				if err := r.Run(context.Background(), &vertex.Options[float64, float64, float64]{MaxSteps: min(n, 200_000)}); err != nil && !errors.As(err, &limit) {
					b.Fatal(err)
				}
				steps += r.Step()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(steps), "ns/superstep")
		})
	}
}

// What computed because it gathered a message counts as changed, though it was not known to be active.
func TestChangesOfGathered(t *testing.T) {
	t.Parallel()
	const n = 60
	var ring vertex.EdgeList[none]
	var entries []int32
	for v := range int32(n) {
		ring.Add(v, (v+1)%n)
		if v%6 == 0 {
			entries = append(entries, v)
		}
	}
	g, err := ring.Build(n)
	if err != nil {
		t.Fatal(err)
	}
	pass := &vertex.Program[int, none, int]{Combine: vertex.CombineSum[int](), Compute: func(c *vertex.Context[int, none, int], _ int32, value *int, _ []int) vertex.Vote {
		*value = c.Step() + 1
		c.SendToNeighbors(1)
		return vertex.Halt
	}}
	r, err := vertex.NewRun(g, pass, nil, entries...)
	if err != nil {
		t.Fatal(err)
	}
	r.Tune(1, 6, 1<<18, 1, 1)
	was, err := r.Changes()
	if err != nil || was.Changed != nil {
		t.Fatalf("got %+v, %v", was, err)
	}
	var now, merged *vertex.Snapshot[int, none, int]
	for _, x := range []struct{ steps, changed int }{{2, 0}, {3, n / 3}} { // in superstep 1 they gather, and afterwards not
		if err := r.Run(t.Context(), &plainOptions{MaxSteps: x.steps}); !errors.As(err, new(*vertex.StepLimitError)) {
			t.Fatal(err)
		}
		if now, err = r.Changes(); err != nil || len(now.Changed) != x.changed {
			t.Fatalf("got %+v, %v", now, err)
		}
		if merged, err = was.Merge(now); err != nil || merged.Values[1] != 2 || merged.Votes[x.steps] != byte(vertex.Stay) || len(merged.Messages) != n/6 {
			t.Errorf("got %+v, %v", merged, err)
		}
		was = merged
	}
	if _, err := vertex.Restore(g, pass, now); err == nil || !strings.Contains(err.Error(), "only what has changed") {
		t.Errorf("got %v", err)
	}
	now.Changed[0] = n
	if _, err := was.Merge(now); err == nil {
		t.Error("changes of no vertex were merged")
	}
}

// A snapshot where whole words of vertices are active and have messages, beside words in which some have not.
func TestSnapshotOfMany(t *testing.T) {
	t.Parallel()
	const n, quiet = 300, 70 // nobody sends to quiet, which halts
	var ring vertex.EdgeList[none]
	for v := range int32(n) {
		if to := (v + 1) % n; to != quiet {
			ring.Add(v, to)
		}
	}
	g := build(t, &ring, n)
	prog := &plainProgram{Combine: vertex.CombineSum[int](), Compute: func(c *plainContext, v int32, value *int, in []int) vertex.Vote {
		*value++
		if len(in) > 0 {
			*value += in[0]
		}
		if c.Step() == 6 || v == quiet {
			return vertex.Halt
		}
		c.SendToNeighbors(*value + int(v))
		return vertex.Stay
	}}
	want := runVertices(t, g, prog, nil, nil)
	r, err := vertex.NewRun(g, prog, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context(), &plainOptions{MaxSteps: 3}); !errors.As(err, new(*vertex.StepLimitError)) {
		t.Fatal(err)
	}
	s, err := r.Snapshot()
	if err != nil || len(s.To) != n-2 || len(s.Messages) != n-2 || s.Votes[quiet] != byte(vertex.Halt) || slices.Contains(s.To, quiet) || slices.Contains(s.To, quiet+1) {
		t.Fatalf("%d have messages, of %d vertices; %v", len(s.To), n, err)
	}
	for i, v := range s.To {
		if i > 0 && v <= s.To[i-1] || s.Votes[v] != byte(vertex.Stay) || s.Messages[i] != s.Values[(v+n-1)%n]+int(v+n-1)%n {
			t.Errorf("vertex %d has message %d and vote %d", v, s.Messages[i], s.Votes[v])
		}
	}
	again, err := vertex.Restore(g, prog, s)
	if err == nil {
		err = again.Run(t.Context(), nil)
	}
	if err != nil || !slices.Equal(again.Values(), want.Values()) {
		t.Errorf("the restored run ended with other values; %v", err)
	}
}
