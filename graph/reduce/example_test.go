package reduce_test

import (
	"fmt"

	"github.com/superstep-dev/superstep/graph/reduce"
)

func Example() {
	type State struct {
		Log  []string
		Best float64
	}
	type Update struct {
		Log  []string
		Best float64
	}
	fold := func(s State, u Update) State {
		s.Log = reduce.Append(s.Log, u.Log)
		s.Best = reduce.Max(s.Best, u.Best)
		return s
	}
	s := fold(State{}, Update{Log: []string{"first"}, Best: 0.5})
	s = fold(s, Update{Log: []string{"second"}, Best: 0.25})
	fmt.Println(s.Log, s.Best)
	// Output: [first second] 0.5
}

func ExampleTags() {
	type State struct {
		Topic string   `default:"Pregel"`
		Log   []string `reduce:"append"`
		Cost  float64  `reduce:"sum"`
	}
	type Update struct {
		Topic string
		Log   string // one element
		Cost  float64
	}
	r, err := reduce.Tags[State, Update]() // every mistake at once
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := r.Initial()
	if err != nil {
		fmt.Println(err)
		return
	}
	s = r.Reduce(s, Update{Log: "searched", Cost: 0.5})
	s = r.Reduce(s, Update{Log: "wrote", Cost: 0.25})
	fmt.Println(s.Topic, s.Log, s.Cost)
	fmt.Println(r.Names(r.Writes(Update{Topic: "Giraph", Cost: 1})))
	// Output:
	// Pregel [searched wrote] 0.75
	// [Topic]
}
