package pregeltest_test

import (
	"context"
	"fmt"

	"github.com/superstep-dev/superstep/internal/pregel"
	"github.com/superstep-dev/superstep/internal/pregel/pregeltest"
)

// A workflow that says the same in any order in which its tasks may end.
func ExampleShuffled() {
	p := &pregel.Program[string, string, int]{
		Vertices: []pregel.Vertex{{Name: "a"}, {Name: "b"}, {Name: "c"}},
		Reduce:   func(s, u string) string { return s + u },
	}
	exec := func(_ context.Context, t *pregel.Task[int], _ string) pregel.Result[string, int] {
		return pregel.Result[string, int]{Outcome: pregel.Done, Update: p.Vertices[t.Vertex].Name}
	}
	said := map[string]int{}
	for seed := range uint64(100) {
		m := pregel.New(p, "", pregel.Send[int]{To: 0}, pregel.Send[int]{To: 1}, pregel.Send[int]{To: 2})
		if err := pregeltest.Shuffled[string, string, int](seed)(context.Background(), m, exec, nil); err != nil {
			fmt.Println(err)
		}
		said[m.State()]++
	}
	fmt.Println(said)
	// Output: map[abc:100]
}
