package node_test

import (
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/node"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/runlog"
)

// Every turn of a model is in the budget of the run, whichever node asks for it: it is reserved before and counted
// after, and none begins that goes beyond a limit.
func TestTurnsOfNodesAreInTheBudget(t *testing.T) {
	nodes := map[string]func(m model.Model) graph.Node[state, update]{
		"agent": func(m model.Model) graph.Node[state, update] {
			return node.Agent("n", named("a", m), topic, func(state, *agent.Outcome) (update, error) { return update{}, nil })
		},
		"router": func(m model.Model) graph.Node[state, update] {
			return node.Router("n", node.ByModel(m, "Choose.", topic), add, graph.End, graph.End)
		},
		"clear": func(m model.Model) graph.Node[state, update] {
			return node.Clear("n", conversation(), &node.ClearOptions{Summary: m})
		},
		"monitor": func(m model.Model) graph.Node[state, update] {
			return node.Monitor("n", conversation(), node.MonitorOptions[state]{Window: 1, Summary: m})
		},
	}
	for name, make := range nodes {
		t.Run(name, func(t *testing.T) {
			run := func(budget runlog.Budget) (*scripted.Model, runlog.Amount, *runlog.BudgetError, error) {
				t.Helper()
				m := always(scripted.Say("no choice").Using(30, 12))
				m.Cost = &model.Price{In: 1, Out: 1}
				j, err := journal.Open(t.Context(), runlog.NewMemory(nil), "run", &journal.Options{Create: &runlog.NewRun{}, Budget: &budget})
				if err != nil {
					t.Fatal(err)
				}
				_, err = oneWay(t, make(m)).Run(t.Context(), state{Topic: "go", Talk: talk()}, &graph.RunOptions{Journal: j})
				return m, j.Spent(), j.Short(), err
			}
			m, spent, _, err := run(runlog.Budget{Tokens: 1e6})
			turns := int64(len(m.Requests()))
			if err != nil || turns == 0 || spent.Turns != turns || spent.Tokens != 42*turns || spent.Money == 0 {
				t.Errorf("%v: asked %d times, spent %+v", err, turns, spent)
			}
			for what, budget := range map[string]runlog.Budget{"tokens": {Tokens: 20}, "money": {Money: 20}} {
				m, spent, short, err := run(budget)
				if err == nil || short == nil || short.What != what || len(m.Requests()) != 0 || spent.Tokens != 0 {
					t.Errorf("%s: asked %d times, spent %+v: %v", what, len(m.Requests()), spent, err)
				}
			}
		})
	}
	t.Run("turns", func(t *testing.T) {
		m := always(scripted.Say("no choice"))
		j, err := journal.Open(t.Context(), runlog.NewMemory(nil), "run", &journal.Options{Create: &runlog.NewRun{}, Budget: &runlog.Budget{Turns: 2}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = oneWay(t, nodes["router"](m)).Run(t.Context(), state{Topic: "go"}, &graph.RunOptions{Journal: j})
		if short := j.Short(); err == nil || short == nil || short.What != runlog.BudgetTurns || len(m.Requests()) != 2 || j.Spent().Turns != 2 {
			t.Errorf("asked %d times, spent %+v: %v", len(m.Requests()), j.Spent(), err)
		}
	})
}
