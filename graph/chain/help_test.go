package chain_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type state struct {
	N     int
	Trail []string
}

type update struct {
	Add   int
	Visit string
}

func reduce(s state, u update) state {
	s.N += u.Add
	if u.Visit != "" {
		s.Trail = append(s.Trail[:len(s.Trail):len(s.Trail)], u.Visit)
	}
	return s
}

func visit(name string) graph.Func[state, update] {
	return func(context.Context, state) (update, error) { return update{Add: 1, Visit: name}, nil }
}

func compile(t testing.TB, g *graph.Graph[state, update]) *graph.Flow[state, update] {
	t.Helper()
	f, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

var errBroken = errors.New("it is broken")

func broken(context.Context, *graph.Task, state) (update, error) { return update{}, errBroken }

// edges adds edges, each "from to".
func edges(g *graph.Graph[state, update], list ...string) {
	for _, e := range list {
		from, to, _ := strings.Cut(e, " ")
		g.Edge(from, to)
	}
}

func open(t testing.TB, store runlog.Store) *journal.Journal {
	t.Helper()
	j, err := journal.Open(t.Context(), store, "run", &journal.Options{Create: &runlog.NewRun{}})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

type brief struct {
	Topic string
	Notes []string
}

type note struct{ Text string }

func addNote(b brief, n note) brief {
	b.Notes = append(b.Notes[:len(b.Notes):len(b.Notes)], n.Text)
	return b
}
