package reduce_test

import (
	"reflect"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/graph/reduce"
)

type item struct{ ID, Value int }

func itemID(i item) int { return i.ID }

func TestReducers(t *testing.T) {
	t.Parallel()
	ten, zero := 10, 0
	type object = map[string]any
	for _, c := range []struct {
		name      string
		got, want any
	}{
		{"append", reduce.Append([]int{1, 2}, []int{3, 4}), []int{1, 2, 3, 4}},
		{"append nothing to nothing", reduce.Append([]int{}, []int{}), []int{}},
		{"merge", reduce.Merge(map[string]int{"a": 1, "b": 2}, map[string]int{"b": 3, "c": 4}), map[string]int{"a": 1, "b": 3, "c": 4}},
		{"merge into nil", reduce.Merge(nil, map[string]int{"a": 1}), map[string]int{"a": 1}},
		{"merge nothing", reduce.Merge(map[string]int{"a": 1}, nil), map[string]int{"a": 1}},
		{"by id", reduce.MergeByID([]item{{1, 10}, {2, 20}}, []item{{2, 25}, {3, 30}}, itemID), []item{{1, 10}, {2, 25}, {3, 30}}},
		{"by id, twice new", reduce.MergeByID([]item{{1, 1}}, []item{{2, 2}, {2, 3}}, itemID), []item{{1, 1}, {2, 3}}},
		{"by id, twice old", reduce.MergeByID([]item{{1, 1}, {1, 2}}, []item{{1, 3}}, itemID), []item{{1, 3}, {1, 2}}},
		{"max", reduce.Max(-5, -10), -5},
		{"min", reduce.Min(-5, -10), -10},
		{"sum", reduce.Sum(-5, 10), 5},
		{"if set, nil", reduce.IfSet(ten, nil), 10},
		{"if set, zero", reduce.IfSet(ten, &zero), 0},
		{"or", []bool{reduce.Or(false, false), reduce.Or(true, false), reduce.Or(false, true)}, []bool{false, true, true}},
		{"and", []bool{reduce.And(true, true), reduce.And(true, false), reduce.And(false, true)}, []bool{true, false, false}},
		{"replace", reduce.Replace("a", "b"), "b"},
		{"union", reduce.Union([]string{"a", "b"}, []string{"c", "b", "c", "d"}), []string{"a", "b", "c", "d"}},
		{"union of one", reduce.Union([]string{"a"}, []string{"a"}), []string{"a"}},
		{
			"deep", reduce.DeepMerge(object{"a": object{"x": 1, "y": object{"p": 1}}, "l": []any{1}}, object{"a": object{"y": object{"q": 2}}, "l": []any{2}}),
			object{"a": object{"x": 1, "y": object{"p": 1, "q": 2}}, "l": []any{2}},
		},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
}

func TestNothingShownIsChanged(t *testing.T) {
	t.Parallel()
	a := map[string]any{"a": map[string]any{"x": 1}}
	b := map[string]any{"a": map[string]any{"y": 2}}
	reduce.DeepMerge(a, b)
	if !reflect.DeepEqual(a, map[string]any{"a": map[string]any{"x": 1}}) || !reflect.DeepEqual(b, map[string]any{"a": map[string]any{"y": 2}}) {
		t.Errorf("DeepMerge made %v and %v of its arguments", a, b)
	}
	list := append(make([]item, 0, 10), item{1, 1}, item{2, 2})
	reduce.MergeByID(list, []item{{3, 3}, {1, 9}}, itemID)
	if !slices.Equal(list, []item{{1, 1}, {2, 2}}) {
		t.Errorf("MergeByID made %v of its argument", list)
	}
}

type nested struct {
	Log   []int
	inner struct{ pair [2][]int }
}

type state struct {
	Name string
	Log  []int
	In   nested
	P    *[]int
}

func TestClipper(t *testing.T) {
	t.Parallel()
	spare := func() []int { return make([]int, 1, 8) }
	s := state{Log: spare(), P: new([]int)}
	*s.P = spare()
	s.In.Log, s.In.inner.pair = spare(), [2][]int{spare(), spare()}
	got := reduce.Clipper[state]()(s)
	for i, l := range [][]int{got.Log, got.In.Log, got.In.inner.pair[0], got.In.inner.pair[1]} {
		if len(l) != 1 || cap(l) != 1 {
			t.Errorf("slice %d: length %d, capacity %d, want 1, 1", i, len(l), cap(l))
		}
	}
	if cap(*got.P) != 8 || cap(s.Log) != 8 {
		t.Error("it clipped what is behind a pointer, or its argument")
	}
	if got.Log == nil || &got.Log[0] != &s.Log[0] {
		t.Error("it copied the elements")
	}
	empty := reduce.Clipper[[]int]()(make([]int, 0, 4))
	if none := reduce.Clipper[[]int]()(nil); none != nil || empty == nil || cap(empty) != 0 {
		t.Errorf("nil became %v; an empty slice has capacity %d", none, cap(empty))
	}
	if reduce.Clipper[struct {
		N int
		M map[string][]int
	}]() != nil {
		t.Error("a type without slices has a clipper")
	}
}

func TestClippingAllocatesNothing(t *testing.T) {
	clip := reduce.Clipper[nested]()
	if n := testing.AllocsPerRun(100, func() { clip(nested{}) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// One line of states goes on from state to state; previews, forks and nodes that
// append for their own use go off it with what the clipper gives. What any of them
// has seen stays as it was.
func TestLineAndBranches(t *testing.T) {
	t.Parallel()
	clip := reduce.Clipper[state]()
	rapid.Check(t, func(t *rapid.T) {
		type seen struct{ got, want []int }
		var all []seen
		see := func(l []int) { all = append(all, seen{l, slices.Clone(l)}) }
		line := clip(state{Log: make([]int, 0, rapid.IntRange(0, 8).Draw(t, "spare"))})
		branches := []state{}
		for i := range rapid.IntRange(1, 60).Draw(t, "operations") {
			more := make([]int, rapid.IntRange(0, 3).Draw(t, "more"))
			for j := range more {
				more[j] = i
			}
			switch {
			case len(branches) > 0 && rapid.Bool().Draw(t, "on a branch"):
				b := &branches[rapid.IntRange(0, len(branches)-1).Draw(t, "branch")]
				b.Log = reduce.Append(b.Log, more)
				see(b.Log)
			case rapid.Bool().Draw(t, "branch off"):
				b := clip(line)
				b.Log = reduce.Append(b.Log, more)
				branches = append(branches, b)
				see(b.Log)
			default:
				line.Log = reduce.Append(line.Log, more)
				see(line.Log)
			}
		}
		for _, s := range all {
			if !slices.Equal(s.got, s.want) {
				t.Fatalf("a state that showed %v shows %v", s.want, s.got)
			}
		}
	})
}

// The same at once, for the race detector.
func TestBranchesAtOnce(t *testing.T) {
	t.Parallel()
	clip := reduce.Clipper[state]()
	line := state{Log: []int{0}}
	for step := range 50 {
		view := clip(line)
		var wg sync.WaitGroup
		for task := range 8 {
			wg.Go(func() {
				if got := reduce.Append(view.Log, []int{task}); got[len(got)-1] != task {
					t.Errorf("task %d sees %d", task, got[len(got)-1])
				}
			})
		}
		line.Log = reduce.Append(line.Log, []int{step})
		wg.Wait()
	}
}

func TestAppendIsLinear(t *testing.T) {
	t.Parallel()
	moves, last := 0, 0
	var list []int
	for i := range 100_000 {
		list = reduce.Append(list, []int{i})
		if cap(list) != last {
			moves, last = moves+last, cap(list)
		}
	}
	if moves > 8*len(list) {
		t.Errorf("%d elements were moved for a list of %d", moves, len(list))
	}
}
