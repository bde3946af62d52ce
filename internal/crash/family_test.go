//go:build unix

package crash_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// A brood is what a parent begins with: how many children, and whether they work until they are cancelled.
type brood struct {
	N     int  `json:"n"`
	Block bool `json:"block,omitempty"`
}

type grown struct {
	brood
	Sum int
}

// leafCost is what a child uses.
const leafCost = 7

// family are the workflows of a parent with child runs; did is called when a child does its work.
func family(did func(run, task string)) ([]*workflow.Workflow, error) {
	leaf := graph.New("leaf", func(s brood, n int) brood { s.N += n; return s })
	leaf.AddNode(graph.Node[brood, int]{Name: "work", Run: func(ctx context.Context, t *graph.Task, s brood) (int, error) {
		if s.Block {
			<-ctx.Done()
			return 0, context.Cause(ctx)
		}
		e := &journal.Effect{Key: "work", Kind: "tool", Repeat: journal.RepeatByKey, Cost: runlog.Amount{Tokens: leafCost}}
		return journal.Do(ctx, t.Scope(), e, func(context.Context, string) (int, error) {
			did(t.Scope().Run(), "work")
			time.Sleep(20 * time.Millisecond)
			return s.N, nil
		})
	}})
	leaf.Edge(graph.Start, "work")
	leaf.Edge("work", graph.End)
	parent := graph.New("parent", func(s grown, n int) grown { s.Sum += n; return s })
	parent.Add("begin", func(context.Context, grown) (int, error) { return 0, nil })
	parent.AddNode(graph.Node[grown, int]{Name: "child", Uses: []string{"leaf"}, Run: func(ctx context.Context, t *graph.Task, _ grown) (n int, err error) {
		w, err := t.Workflow("leaf")
		if err != nil {
			return 0, err
		}
		var in brood
		if err := t.Arg(&in); err != nil {
			return 0, err
		}
		raw, err := json.Marshal(in)
		if err != nil {
			return 0, err
		}
		end, err := t.Child(ctx, "", w, raw, &graph.Child{Budget: &runlog.Budget{Tokens: leafCost}})
		if err == nil {
			err = graph.ChildError("leaf", end)
		}
		if err != nil {
			return 0, err
		}
		return n, json.Unmarshal(end.Output, &n)
	}})
	parent.Edge(graph.Start, "begin")
	parent.Fan("begin", func(s grown) (out []graph.Send) {
		for i := range s.N {
			out = append(out, graph.Send{To: "child", Key: fmt.Sprint("c", i), Arg: brood{i + 1, s.Block}})
		}
		return out
	}, "child")
	parent.Edge("child", graph.End)
	lf, lerr := leaf.Compile()
	pf, perr := parent.Compile()
	if err := errors.Join(lerr, perr); err != nil {
		return nil, err
	}
	lw, lerr := workflow.New("leaf", "A child.", lf, func(in brood) (brood, error) { return in, nil }, func(s brood) (int, error) { return s.N / 2, nil })
	pw, perr := workflow.New("parent", "A parent.", pf, func(in brood) (grown, error) { return grown{brood: in}, nil }, func(s grown) (int, error) { return s.Sum, nil })
	return []*workflow.Workflow{lw, pw}, errors.Join(lerr, perr)
}

// The children of a run are executed by three workers, all of which are killed and started again: each child is one run and does its work once, the budget
// is exact, and a cancellation reaches all of them.
func TestCrashFamily(t *testing.T) {
	for _, b := range backends() {
		if b.lease == 0 {
			continue // of one machine
		}
		t.Run(b.name, func(t *testing.T) {
			n, kills := 6, 1
			if faults.Full() {
				n, kills = 500, 20
			}
			if s := os.Getenv("SUPERSTEP_CHILDREN"); s != "" {
				n, _ = strconv.Atoi(s)
			}
			rnd, _ := faults.Rand(t)
			begin := time.Now()
			p := newPool(t, &b, time.Second)
			p.startAll()
			tree := func(id string) (all []runlog.Info, left int) {
				infos, err := p.store.Runs(t.Context(), &runlog.Filter{Prefix: id})
				if err != nil {
					t.Fatal(err)
				}
				for i := range infos {
					if !infos[i].Status.Ended() {
						left++
					}
				}
				return infos, left
			}
			enqueue := func(id string, in brood) {
				raw, _ := json.Marshal(in)
				opt := &superstep.StartOptions{ID: id, Budget: &runlog.Budget{Tokens: int64(n) * leafCost}}
				if _, err := p.Enqueue(t.Context(), "parent", raw, opt); err != nil {
					t.Fatal(err)
				}
			}
			enqueue("family", brood{N: n})
			for killed, left := 0, 1; left > 0; time.Sleep(50 * time.Millisecond) {
				if _, left = tree("family"); killed < kills {
					p.mu.Lock()
					due := len(p.began) >= (killed+1)*n/(kills+1)
					p.mu.Unlock()
					if due {
						p.restart(rnd.IntN(3))
						killed++
					}
				}
			}
			took := time.Since(begin)
			all, _ := tree("family")
			if len(all) != n+1 {
				t.Errorf("there are %d runs, want %d", len(all), n+1)
			}
			twice := 0
			for i := range all {
				if all[i].Status != runlog.Completed {
					t.Errorf("run %s is %s", all[i].ID, all[i].Status)
				}
				spent, err := journal.SpentBy(t.Context(), p.store, &all[i])
				want := int64(leafCost)
				if all[i].ID == "family" {
					want *= int64(n)
				}
				if err != nil || spent.Tokens != want {
					t.Errorf("run %s has used %d, want %d (%v)", all[i].ID, spent.Tokens, want, err)
				}
				settled := 0
				for r, err := range runlog.Records(t.Context(), p.store, all[i].ID, 1) {
					if err != nil {
						t.Fatal(err)
					}
					if r.Kind == runlog.KindSettled && r.Path == "work" {
						settled++
					}
					if r.Kind == runlog.KindRunFinished && all[i].ID == "family" {
						var d runlog.RunFinished
						if err := json.Unmarshal(r.Data, &d); err != nil || string(d.Output) != fmt.Sprint(n*(n+1)/2) {
							t.Errorf("the output is %s (%v)", d.Output, err)
						}
					}
				}
				if settled > 1 {
					twice++
				}
			}
			if twice > 0 {
				t.Errorf("%d children have two results", twice)
			}

			enqueue("blocked", brood{N: n, Block: true})
			for working := 0; working < min(n, 24); time.Sleep(20 * time.Millisecond) {
				all, _ := tree("blocked")
				working = len(all) - len(slices.DeleteFunc(all, func(i runlog.Info) bool { return i.Status == runlog.Running })) - 1
			}
			asked := time.Now()
			if err := p.Cancel(t.Context(), "blocked"); err != nil {
				t.Fatal(err)
			}
			for left := 1; left > 0; time.Sleep(20 * time.Millisecond) {
				_, left = tree("blocked")
			}
			reached := time.Since(asked)
			if faults.Full() && reached > 10*time.Second {
				t.Errorf("the cancellation took %v", reached)
			}
			p.end()
			faults.Report(t, "children on 3 workers, killed at random", b.name, n, begin, "each once, budget exact; %d kills, done in %v; a cancellation reached all in %v",
				kills, took.Round(time.Millisecond), reached.Round(time.Millisecond))
		})
	}
}
