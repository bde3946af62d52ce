package reduce_test

import (
	"testing"

	"github.com/superstep-dev/superstep/graph/reduce"
)

type benchState struct {
	Topic, Phase string
	Log          []string       `reduce:"append"`
	Tasks        []task         `reduce:"merge=Name"`
	Notes        map[string]int `reduce:"merge"`
	Best         float64        `reduce:"max"`
	Cost         int            `reduce:"sum"`
	Found        bool           `reduce:"or"`
}

// benchUpdate has a pointer where zero counts.
type benchUpdate struct {
	Topic, Phase string
	Log          []string
	Tasks        []task
	Notes        map[string]int
	Best         *float64
	Cost         int
	Found        bool
}

func benchByHand(s benchState, u benchUpdate) benchState {
	if u.Topic != "" {
		s.Topic = u.Topic
	}
	if u.Phase != "" {
		s.Phase = u.Phase
	}
	s.Log = reduce.Append(s.Log, u.Log)
	if len(u.Tasks) > 0 {
		s.Tasks = reduce.MergeByID(s.Tasks, u.Tasks, func(t task) string { return t.Name })
	}
	s.Notes = reduce.Merge(s.Notes, u.Notes)
	s.Best = reduce.Max(s.Best, reduce.IfSet(s.Best, u.Best))
	s.Cost = reduce.Sum(s.Cost, u.Cost)
	s.Found = reduce.Or(s.Found, u.Found)
	return s
}

func BenchmarkReduce(b *testing.B) {
	r := tags[benchState, benchUpdate](b)
	flat := benchUpdate{Phase: "draft", Log: []string{"x"}, Best: new(2.0), Cost: 1, Found: true}
	rich := flat
	rich.Tasks, rich.Notes = []task{{"b", true}}, map[string]int{"b": 2}
	start := benchState{Tasks: []task{{"a", false}, {"b", false}}, Notes: map[string]int{"a": 1}}
	for _, c := range []struct {
		name   string
		update benchUpdate
		reduce func(s benchState, u benchUpdate) benchState
	}{
		{"flat/tags", flat, r.Reduce},
		{"flat/hand", flat, benchByHand},
		{"rich/tags", rich, r.Reduce},
		{"rich/hand", rich, benchByHand},
		{"empty/tags", benchUpdate{}, r.Reduce},
		{"empty/hand", benchUpdate{}, benchByHand},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			s := start
			for i := 0; b.Loop(); i++ {
				if i%1000 == 0 {
					s.Log = s.Log[:0]
				}
				s = c.reduce(s, c.update)
			}
		})
	}
	b.Run("writes", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r.Writes(flat)
		}
	})
}

func BenchmarkClip(b *testing.B) {
	clip := reduce.Clipper[full]()
	var s full
	b.ReportAllocs()
	for b.Loop() {
		s = clip(s)
	}
}

func BenchmarkAppend100k(b *testing.B) {
	one := []int{1}
	b.ReportAllocs()
	for b.Loop() {
		var list []int
		for range 100_000 {
			list = reduce.Append(list, one)
		}
	}
}
