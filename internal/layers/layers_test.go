package layers

import (
	"testing"

	"pgregory.net/rapid"
)

// A tree, and what else can be drawn so, is drawn without crossings.
func TestLayoutUntangles(t *testing.T) {
	t.Parallel()
	boxes := make([]Box, 31)
	var arcs [][2]int
	for i := 30; i > 0; i-- { // in an order that helps nobody
		v := i * 7 % 31
		if v > 0 {
			arcs = append(arcs, [2]int{(v - 1) / 2, v})
		}
	}
	if n, _ := tangle(boxes, arcs); n != 0 {
		t.Errorf("%d edges cross", n)
	}
}

// tangle counts the crossings of a layout as it does itself, and pair by pair.
func tangle(boxes []Box, arcs [][2]int) (fast, slow int) {
	l := New(boxes, arcs, Gaps{})
	pos := make([]int, len(l.X))
	var hops [][2]int
	for _, layer := range l.Layers {
		for i, v := range layer {
			pos[v] = i
			for _, u := range l.Down[v] {
				hops = append(hops, [2]int{v, u})
			}
		}
	}
	for i, a := range hops {
		for _, b := range hops[:i] {
			if l.Rank[a[0]] == l.Rank[b[0]] && (pos[a[0]]-pos[b[0]])*(pos[a[1]]-pos[b[1]]) < 0 {
				slow++
			}
		}
	}
	return l.crossings(pos), slow
}

func TestCrossings(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		boxes := make([]Box, rapid.IntRange(1, 12).Draw(t, "boxes"))
		arcs := make([][2]int, rapid.IntRange(0, 30).Draw(t, "edges"))
		for i := range arcs {
			arcs[i] = [2]int{rapid.IntRange(0, len(boxes)-1).Draw(t, "from"), rapid.IntRange(0, len(boxes)-1).Draw(t, "to")}
		}
		if fast, slow := tangle(boxes, arcs); fast != slow {
			t.Fatalf("it counts %d crossings, there are %d", fast, slow)
		}
	})
}
