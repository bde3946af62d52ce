package vertex_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/vertex"
)

// vertexAPI is what a vertex that misbehaves at random needs of an engine.
type vertexAPI interface {
	Step() int
	NumVertices() int
	Degree() int
	Targets() []int32
	EdgeValues() []float64
	Send(to int32, m float64)
	SendToNeighbors(m float64)
	AddEdge(from, to int32, value ...float64)
	RemoveEdge(from, to int32)
	AddVertex(v int32, value float64)
	RemoveVertex(v int32)
}

// wild is a vertex that does a bit of everything, as a hash of where it is says.
type wild struct {
	seed     uint64
	topology bool
	complete bool
	combine  bool
	quiet    bool // says things to all neighbours only
	flaky    bool // fails now and then, with all it has done until then
}

func (w wild) hash(x ...int) uint64 {
	h := w.seed
	for _, i := range x {
		h = (h ^ uint64(i)) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	return h
}

// fold depends on the order of its messages, so that a wrong order shows.
func (w wild) fold(a, b float64) float64 { return a*0.7 + b }

func (w wild) compute(c vertexAPI, v int32, value *float64, in []float64, add func(x float64)) vertex.Vote {
	for i, m := range in {
		*value = *value*0.9 + m/float64(i+1)
	}
	for i, e := range c.EdgeValues() {
		*value += e / float64(i+3)
	}
	add(*value / 3)
	n := c.NumVertices()
	h := w.hash(int(v), c.Step())
	if h&1 == 0 {
		add(0.1)
		c.SendToNeighbors(*value + 0.1)
	}
	if h&6 == 0 && !w.quiet {
		c.Send(int32(h>>8)&math.MaxInt32%int32(n), *value-0.3)
		c.Send(int32(h>>16)&math.MaxInt32%int32(n), *value-0.7)
	}
	if h&0x18 == 0 && !w.quiet {
		c.SendToNeighbors(*value * 0.3)
	}
	if w.topology && h&0xe0 == 0 && (!w.quiet || c.Step()%3 == 0) {
		w.change(c, int(h>>20&7), v, int32(h>>24&0xffff)%int32(n), int32(h>>40&0xffff)%int32(n), *value)
	}
	switch {
	case w.quiet && h>>60 != 0:
		return vertex.Stay
	case w.complete && h>>50&0xf == 0:
		return vertex.Complete
	case h>>54&3 == 0:
		return vertex.Stay
	}
	return vertex.Halt
}

func (w wild) change(c vertexAPI, what int, v, a, b int32, value float64) {
	n := int32(c.NumVertices())
	switch what {
	case 0, 1:
		c.AddEdge(a, b, value)
		c.AddEdge(v, a)
	case 2:
		c.RemoveEdge(a, b)
		if to := c.Targets(); len(to) > 0 {
			c.RemoveEdge(v, to[0])
			c.RemoveEdge(v, to[len(to)-1])
		}
	case 3:
		c.RemoveVertex(a)
	case 4:
		c.RemoveVertex(v)
		c.AddVertex(v, value)
		c.Send(v, 1)
	case 5:
		c.AddVertex(n+a%3, value)
		c.AddEdge(v, n+a%3, value)
		c.Send(n+a%3, value)
	case 6:
		c.AddVertex(a, value)
		c.AddVertex(b, value+1)
		c.Send(a, value)
	case 7:
		c.AddEdge(v, v, 1)
	}
}

func (w wild) program(total *vertex.Aggregator[float64], most *vertex.Aggregator[int32]) *vertex.Program[float64, float64, float64] {
	p := &vertex.Program[float64, float64, float64]{
		Compute: func(c *vertex.Context[float64, float64, float64], v int32, value *float64, in []float64) vertex.Vote {
			if t, ok := total.Value(c); ok {
				*value += t / 1000
			}
			most.Add(c, v)
			return w.compute(c, v, value, in, func(x float64) { total.Add(c, x) })
		},
		Aggregators: []vertex.AnyAggregator{most, total},
		Conflict:    func(_ int32, have, add float64) float64 { return have*2 + add },
	}
	if w.flaky {
		p.Retry = &vertex.Retry{Attempts: 3, Backoff: -1}
		p.Compute = w.failing(p.Compute)
	}
	if w.combine {
		p.Combine = vertex.CombineWith(w.fold)
	}
	return p
}

// failures is how often a vertex fails in a superstep: three attempts are made.
func (w wild) failures(v int32, step int) int {
	h := w.hash(int(v), step, 7)
	switch {
	case !w.flaky || h>>20&7 != 0:
		return 0
	case h>>30&0xff == 0:
		return 3
	}
	return 1 + int(h>>40&1)
}

type wildCompute = func(c *vertex.Context[float64, float64, float64], v int32, value *float64, in []float64) vertex.Vote

func (w wild) failing(compute wildCompute) wildCompute {
	var mu sync.Mutex
	failed := map[[2]int]int{}
	return func(c *vertex.Context[float64, float64, float64], v int32, value *float64, in []float64) vertex.Vote {
		mu.Lock()
		at := [2]int{int(v), c.Step()}
		failed[at]++
		n := failed[at]
		mu.Unlock()
		vote := compute(c, v, value, in)
		if n > w.failures(v, c.Step()) {
			return vote
		}
		*value = -1
		for i := range in {
			in[i] = -1
		}
		if n%2 == 0 {
			panic("no")
		}
		c.Fail(errors.New("no"))
		return vertex.Complete
	}
}

// model is an engine without any cleverness: the same rules, on maps and sorted lists.
type model struct {
	w      wild
	n      int
	step   int
	values map[int32]float64
	exists map[int32]bool
	done   map[int32]bool
	edges  map[int32][]modelEdge
	active map[int32]bool
	inbox  map[int32][]float64
	total  float64
	some   bool
	stats  []vertex.Stats

	v                  int32 // computing
	said               bool
	sent, saidTo, late []modelSend
	changes            []modelChange
	given              []modelSend
}

type modelEdge struct {
	to    int32
	value float64
}

type modelSend struct {
	to  int32
	msg float64
}

type modelChange struct {
	kind  int
	a, b  int32
	value float64
}

func (m *model) Step() int        { return m.step }
func (m *model) NumVertices() int { return m.n }
func (m *model) Degree() int      { return len(m.edges[m.v]) }
func (m *model) Targets() (to []int32) {
	for _, e := range m.edges[m.v] {
		to = append(to, e.to)
	}
	return to
}

func (m *model) EdgeValues() (values []float64) {
	for _, e := range m.edges[m.v] {
		values = append(values, e.value)
	}
	return values
}

func (m *model) Send(to int32, msg float64) {
	if !m.exists[to] {
		m.late = append(m.late, modelSend{to, msg})
		return
	}
	m.sent = append(m.sent, modelSend{to, msg})
}

func (m *model) SendToNeighbors(msg float64) {
	for _, e := range m.edges[m.v] {
		if m.w.combine && !m.said {
			m.saidTo = append(m.saidTo, modelSend{e.to, msg})
		} else {
			m.Send(e.to, msg)
		}
	}
	m.said = true
}

func (m *model) AddEdge(from, to int32, value ...float64) {
	m.changes = append(m.changes, modelChange{3, from, to, append(value, 0)[0]})
}
func (m *model) RemoveEdge(from, to int32) {
	m.changes = append(m.changes, modelChange{0, from, to, 0})
}
func (m *model) AddVertex(v int32, x float64) {
	m.changes = append(m.changes, modelChange{2, v, 0, x})
}
func (m *model) RemoveVertex(v int32) { m.changes = append(m.changes, modelChange{1, v, 0, 0}) }

func (m *model) superstep() {
	m.sent, m.saidTo, m.late, m.changes, m.given = nil, nil, nil, nil, nil
	next, inbox := map[int32]bool{}, map[int32][]float64{}
	var order []int32
	for v := range m.active {
		order = append(order, v)
	}
	slices.Sort(order)
	for _, v := range order {
		m.v, m.said = v, false
		x := m.values[v]
		if m.some {
			x += m.total / 1000
		}
		vote := m.w.compute(m, v, &x, m.inbox[v], func(x float64) { m.given = append(m.given, modelSend{v, x}) })
		m.values[v] = x
		switch vote {
		case vertex.Stay:
			next[v] = true
		case vertex.Complete:
			m.done[v] = true
		}
	}
	s := vertex.Stats{Step: m.step, Computed: len(order), Messages: len(m.sent) + len(m.saidTo) + len(m.late)}
	for _, v := range order {
		s.Retries += m.w.failures(v, m.step)
	}
	m.apply(next, &s)
	for _, e := range slices.Concat(m.sent, m.saidTo, m.late) {
		if got := inbox[e.to]; m.w.combine && len(got) > 0 {
			got[0] = m.w.fold(got[0], e.msg)
		} else {
			inbox[e.to] = append(got, e.msg)
		}
		next[e.to] = true
	}
	for v := range next {
		if !m.exists[v] || m.done[v] {
			delete(next, v)
			delete(inbox, v)
		}
	}
	m.aggregate()
	s.Vertices = len(m.exists)
	m.stats = append(m.stats, s)
	m.active, m.inbox = next, inbox
	m.step++
}

func (m *model) aggregate() {
	m.total, m.some = 0, false
	for i := 0; i < len(m.given); {
		block := m.given[i]
		for i++; i < len(m.given) && m.given[i].to>>10 == block.to>>10; i++ {
			block.msg = block.msg + m.given[i].msg
		}
		if m.some {
			m.total += block.msg
		} else {
			m.total, m.some = block.msg, true
		}
	}
}

func (m *model) apply(next map[int32]bool, s *vertex.Stats) {
	slices.SortStableFunc(m.changes, func(a, b modelChange) int { return cmp.Compare(a.kind, b.kind) })
	before := map[int32][]modelEdge{}
	for v, e := range m.edges {
		before[v] = slices.Clone(e)
	}
	for _, c := range m.changes {
		did := false
		switch c.kind {
		case 0:
			is := func(e modelEdge) bool { return e.to == c.b }
			did = m.exists[c.a] && slices.ContainsFunc(before[c.a], is)
			m.edges[c.a] = slices.DeleteFunc(m.edges[c.a], is)
		case 1:
			if did = m.exists[c.a]; did {
				delete(m.exists, c.a)
				delete(m.edges, c.a)
			}
		case 2:
			did = true
			if m.exists[c.a] {
				m.values[c.a] = m.values[c.a]*2 + c.value
				break
			}
			m.exists[c.a], m.values[c.a], next[c.a] = true, c.value, true
			delete(m.done, c.a)
			m.n = max(m.n, int(c.a)+1)
		case 3:
			if did = m.exists[c.a] && m.exists[c.b]; did {
				m.edges[c.a] = append(m.edges[c.a], modelEdge{c.b, c.value})
			}
		}
		if did {
			s.Changes++
		} else {
			s.Ignored++
		}
	}
}

func newModel(w wild, n int, l *vertex.EdgeList[float64]) *model {
	m := &model{w: w, n: n, values: map[int32]float64{}, exists: map[int32]bool{}, done: map[int32]bool{}, edges: map[int32][]modelEdge{}, active: map[int32]bool{}}
	for v := range int32(n) {
		m.exists[v], m.active[v], m.values[v] = true, true, float64(v)
	}
	for i, u := range l.From {
		m.edges[u] = append(m.edges[u], modelEdge{l.To[i], l.Values[i]})
	}
	return m
}

// check runs the engine and says where it differs from the model.
func (m *model) check(g *vertex.Graph[float64], steps, parallelism, every int, tune []int, codec func(any, any) error) error {
	total, most := vertex.NewSum[float64]("total"), vertex.NewMax[int32]("most")
	prog := m.w.program(total, most)
	values := make([]float64, g.NumVertices())
	for v := range values {
		values[v] = float64(v)
	}
	r, err := vertex.NewRun(g, prog, values)
	if err != nil {
		return err
	}
	var stats []vertex.Stats
	broke := false
	type snapshot = vertex.Snapshot[float64, float64, float64]
	base := new(snapshot)
	for {
		var saved *snapshot
		stopped := errors.New("checkpoint")
		o := &vertex.Options[float64, float64, float64]{Parallelism: parallelism, MaxSteps: steps, CheckpointEvery: every,
			Trace:      func(s vertex.Stats) { stats = append(stats, s) },
			Checkpoint: func(s *snapshot) error { saved = s; return stopped }}
		r.Tune(tune[0], tune[1], tune[2], tune[3], tune[4])
		err := r.Run(context.Background(), o)
		var limit *vertex.StepLimitError
		if err == nil || errors.As(err, &limit) {
			break
		}
		if failed := (*vertex.Error)(nil); m.w.flaky && errors.As(err, &failed) {
			if broke = true; failed.Vertex%2 == 0 {
				continue // with the same run
			}
			if saved, err = r.Snapshot(); err != nil {
				return err
			}
			err = stopped
		}
		if !errors.Is(err, stopped) {
			return err
		}
		loaded, changes := new(snapshot), new(snapshot)
		if err := codec(saved, loaded); err != nil {
			return err
		}
		saved, err = r.Changes()
		if err == nil {
			err = codec(saved, changes)
		}
		if err == nil {
			base, err = base.Merge(changes)
		}
		if err != nil {
			return err
		}
		if whole := *loaded; !reflect.DeepEqual(base, &whole) {
			whole.GraphVertices, whole.GraphEdges = base.GraphVertices, base.GraphEdges // with edges of its own they do not count
			if base.Edges == nil || !reflect.DeepEqual(base, &whole) {
				return fmt.Errorf("the changes lead to\n%+v\nwant\n%+v", base, loaded)
			}
		}
		if loaded.Step%4 != 0 {
			continue // so that changes follow changes
		}
		if r, err = vertex.Restore(g, prog, loaded); err != nil {
			return err
		}
	}
	want := slices.Clone(m.stats)
	for i := range want {
		if broke { // how far the tries before came is up to the schedule
			want[i].Retries, stats[i].Retries = 0, 0
		}
	}
	if !slices.Equal(stats, want) {
		return fmt.Errorf("stats differ:\n%v\n%v", stats, want)
	}
	for v, x := range r.Values() {
		if r.Exists(int32(v)) != m.exists[int32(v)] {
			return fmt.Errorf("vertex %d exists: %v", v, r.Exists(int32(v)))
		}
		if want := m.values[int32(v)]; m.exists[int32(v)] && math.Float64bits(x) != math.Float64bits(want) {
			return fmt.Errorf("vertex %d is %v, want %v", v, x, want)
		}
		to, lengths := r.Edges(int32(v))
		var have []modelEdge
		for i := range to {
			have = append(have, modelEdge{to[i], lengths[i]})
		}
		if want := m.edges[int32(v)]; !slices.Equal(have, want) {
			return fmt.Errorf("vertex %d has edges %v, want %v", v, have, want)
		}
	}
	if x, _ := total.Value(r.Aggregated()); math.Float64bits(x) != math.Float64bits(m.total) {
		return fmt.Errorf("the total is %v, want %v", x, m.total)
	}
	return nil
}

func byJSON(from, to any) error {
	data, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, to)
}

func byGob(from, to any) error {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(from); err != nil {
		return err
	}
	return gob.NewDecoder(&b).Decode(to)
}

// Whatever the parallelism, the way messages travel and the crashes between, a run is
// what the model makes of it, bit by bit.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 200).Draw(t, "n")
		vertexes := rapid.Int32Range(0, int32(n)-1)
		l := &vertex.EdgeList[float64]{}
		for range rapid.IntRange(0, 4*n).Draw(t, "m") {
			l.Add(vertexes.Draw(t, "from"), vertexes.Draw(t, "to"), float64(rapid.IntRange(0, 9).Draw(t, "value")))
		}
		if l.Values == nil {
			l.Values = []float64{}
		}
		w := wild{rapid.Uint64().Draw(t, "seed"), rapid.Bool().Draw(t, "topology"), rapid.Bool().Draw(t, "complete"), rapid.Bool().Draw(t, "combine"), rapid.Bool().Draw(t, "quiet"), rapid.Bool().Draw(t, "flaky")}
		steps := rapid.IntRange(1, 12).Draw(t, "steps")
		m := newModel(w, n, l)
		for m.step < steps && len(m.active) > 0 {
			m.superstep()
		}
		tune := []int{
			rapid.SampledFrom([]int{0, 1 << 20}).Draw(t, "gather from"), rapid.SampledFrom([]int{1, 2, 1000}).Draw(t, "gather share"),
			rapid.SampledFrom([]int{1, 10, 1 << 20}).Draw(t, "round"), rapid.SampledFrom([]int{0, 20, 1 << 20}).Draw(t, "direct"),
			rapid.SampledFrom([]int{0, 3, 1 << 20}).Draw(t, "list"),
		}
		g, err := l.Build(n)
		if err != nil {
			t.Fatal(err)
		}
		codec := rapid.SampledFrom([]func(any, any) error{byJSON, byGob}).Draw(t, "codec")
		if err := m.check(g, steps, rapid.IntRange(1, 5).Draw(t, "parallelism"), rapid.IntRange(0, 3).Draw(t, "every"), tune, codec); err != nil {
			t.Fatal(err)
		}
	})
}

// The same over several words, parts and blocks of a larger graph.
func TestModelLarge(t *testing.T) {
	const n = 6000
	plain := rmat(n, 5*n, 3)
	l := &vertex.EdgeList[float64]{}
	for i, u := range plain.From {
		l.Add(u, plain.To[i], float64(i%7))
	}
	g := build(t, l, n)
	for i, w := range []wild{
		{1, false, false, true, true, false},
		{2, true, true, true, true, false},
		{3, true, true, true, false, false},
		{4, true, true, false, false, false},
		{5, true, true, true, false, true},
		{6, true, true, false, false, true},
	} {
		m := newModel(w, n, l)
		for m.step < 8 {
			m.superstep()
		}
		for _, parallelism := range []int{1, 2, 7} {
			for k, tune := range [][]int{{4096, 6, 1 << 18, 1 << 13, 1 << 12}, {0, 100, 1000, 100, 0}} {
				if faults.Raced && (i+parallelism+k)%3 > 0 { // a third of them, which has each value of each
					continue
				}
				if err := m.check(g, 8, parallelism, parallelism%3, tune, byGob); err != nil {
					t.Errorf("wild %d, parallelism %d, tuning %v: %v", i, parallelism, tune, err)
				}
			}
		}
	}
}
