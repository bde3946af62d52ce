package vertex

import (
	"cmp"
	"encoding/json"
	"fmt"
)

// An Aggregator folds the values from the vertices of a superstep into one value, which every
// vertex can read in the superstep after. It is a definition: list it in Program.Aggregators and
// share it between as many runs as you like.
//
// The order of the fold is fixed — from the left over the vertices of each block of
// 1,024 indexes, then over the blocks — so that the result of a fold that is not
// associative, a floating-point sum for one, depends on nothing but what was given.
type Aggregator[A any] struct {
	Name string // distinct within a program; snapshots know it by this name
	Fold func(a, b A) A
	// Sticky makes the value continue from that of the superstep before instead of starting anew.
	Sticky bool
}

// NewSum adds up.
func NewSum[A cmp.Ordered](name string) *Aggregator[A] {
	return &Aggregator[A]{Name: name, Fold: func(a, b A) A { return a + b }}
}

// NewMin keeps the smallest.
func NewMin[A cmp.Ordered](name string) *Aggregator[A] {
	return &Aggregator[A]{Name: name, Fold: func(a, b A) A { return min(a, b) }}
}

// NewMax keeps the largest.
func NewMax[A cmp.Ordered](name string) *Aggregator[A] {
	return &Aggregator[A]{Name: name, Fold: func(a, b A) A { return max(a, b) }}
}

// Add passes a value to the aggregator, from the vertex that is computing. It panics
// if the program does not list the aggregator.
func (a *Aggregator[A]) Add(c Aggregating, x A) {
	g := c.aggregating()
	cell := g.cells[g.find(a)].(*aggregateCell[A]) //nolint:errcheck // the cell was made by a
	if g.whole && len(cell.given) > 0 {
		if last := &cell.given[len(cell.given)-1]; last.vertex>>aggregateBlock == g.vertex>>aggregateBlock {
			last.value = a.Fold(last.value, x)
			return
		}
	}
	cell.given = append(cell.given, given[A]{g.vertex, x})
}

// Value returns the result of the superstep before, and whether any vertex added a value. It panics
// if the program does not list the aggregator.
func (a *Aggregator[A]) Value(c Aggregating) (A, bool) {
	g := c.aggregating()
	v := g.values[g.find(a)].(*aggregateValue[A]) //nolint:errcheck // the value was made by a
	return v.value, v.some
}

// Aggregating is an argument for reading an aggregator: a *Context, which can also add to it, or a *Barrier.
type Aggregating interface{ aggregating() *aggregates }

// AnyAggregator is an *Aggregator of any type.
type AnyAggregator interface {
	name() string
	newCell() any
	newValue() any
	given(cell any) int
	takeBack(cell any, to int)
	close(value any, cells []any)
	encode(value any) (json.RawMessage, error)
	decode(value any, data json.RawMessage) error
}

const aggregateBlock = 10 // log₂ of the vertices that are folded first

// aggregates is one goroutine's side of the aggregators.
type aggregates struct {
	list   []AnyAggregator
	values []any // *aggregateValue, of the superstep before; shared by all
	cells  []any // *aggregateCell, of the superstep being computed; this goroutine's own
	vertex int32 // the one that is computing
	whole  bool  // no block is computed by two goroutines, so that it can be folded at once
}

func (g *aggregates) find(a AnyAggregator) int {
	for i, x := range g.list {
		if x == a {
			return i
		}
	}
	panic(fmt.Sprintf("vertex: aggregator %q is not listed by the vertex program", a.name()))
}

type given[A any] struct {
	vertex int32 // the first, if several were folded
	value  A
}

type aggregateCell[A any] struct{ given []given[A] } // in the order of the vertices

type aggregateValue[A any] struct {
	value A
	some  bool
}

func (v *aggregateValue[A]) fold(fold func(a, b A) A, x A) {
	if v.some {
		x = fold(v.value, x)
	}
	v.value, v.some = x, true
}

func (a *Aggregator[A]) name() string  { return a.Name }
func (a *Aggregator[A]) newCell() any  { return &aggregateCell[A]{} }
func (a *Aggregator[A]) newValue() any { return &aggregateValue[A]{} }

// given returns how much a cell holds before its blocks are folded, and takeBack restores that.
func (a *Aggregator[A]) given(cell any) int {
	return len(cell.(*aggregateCell[A]).given) //nolint:errcheck // made by newCell
}

func (a *Aggregator[A]) takeBack(cell any, to int) {
	c := cell.(*aggregateCell[A]) //nolint:errcheck // made by newCell
	clear(c.given[to:])
	c.given = c.given[:to]
}

// close folds and empties the cells of all goroutines into the value. Each vertex was computed by
// one of them.
func (a *Aggregator[A]) close(value any, cells []any) {
	total := value.(*aggregateValue[A]) //nolint:errcheck // made by newValue
	if !a.Sticky {
		*total = aggregateValue[A]{}
	}
	at := make([]int, len(cells))
	var block aggregateValue[A]
	number := int32(-1)
	for {
		var least *given[A]
		from := 0
		for i, c := range cells {
			if g := c.(*aggregateCell[A]).given; at[i] < len(g) && (least == nil || g[at[i]].vertex < least.vertex) { //nolint:errcheck // made by newCell
				least, from = &g[at[i]], i
			}
		}
		if least == nil || least.vertex>>aggregateBlock != number {
			if block.some {
				total.fold(a.Fold, block.value)
			}
			if least == nil {
				break
			}
			block, number = aggregateValue[A]{}, least.vertex>>aggregateBlock
		}
		block.fold(a.Fold, least.value)
		at[from]++
	}
	for _, c := range cells {
		cell := c.(*aggregateCell[A]) //nolint:errcheck // made by newCell
		clear(cell.given)
		cell.given = cell.given[:0]
	}
}

func (a *Aggregator[A]) encode(value any) (json.RawMessage, error) {
	v := value.(*aggregateValue[A]) //nolint:errcheck // made by newValue
	if !v.some {
		return nil, nil
	}
	data, err := json.Marshal(v.value)
	if err != nil {
		return nil, fmt.Errorf("aggregator %q: %w", a.Name, err)
	}
	return data, nil
}

func (a *Aggregator[A]) decode(value any, data json.RawMessage) error {
	v := value.(*aggregateValue[A]) //nolint:errcheck // made by newValue
	if len(data) == 0 {
		return nil
	}
	if err := json.Unmarshal(data, &v.value); err != nil {
		return fmt.Errorf("aggregator %q: %w", a.Name, err)
	}
	v.some = true
	return nil
}
