package hosttest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/archive"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// A Face answers the question of a run, as its user does. It returns an error if the answer is refused. Where the run is to continue and no process executes
// it, the face has it resumed, in this process or in another.
type Face func(run string, q *runlog.Question, value string) error

// Asks is the workflow whose runs a Face answers. It asks "Which?" beside what its input says.
func Asks(t testing.TB) *workflow.Workflow {
	t.Helper()
	type in struct {
		Beside string `json:"beside,omitempty"`
	}
	type state struct {
		in
		Said []string `json:"said,omitempty"`
	}
	g := graph.New("asks", func(s state, u []string) state { s.Said = append(s.Said[:len(s.Said):len(s.Said)], u...); return s })
	g.AddNode(graph.Node[state, []string]{Name: "ask", Run: func(ctx context.Context, t *graph.Task, s state) ([]string, error) {
		q := graph.Question{Key: "which", Text: "Which?"}
		if s.Beside == "message" {
			q.Kind = runlog.QuestionMessage
		}
		a, err := graph.Ask[string](ctx, q)
		return []string{a}, err
	}})
	g.AddNode(graph.Node[state, []string]{Name: "beside", Run: func(ctx context.Context, t *graph.Task, s state) ([]string, error) {
		switch s.Beside {
		case "fails":
			return nil, errors.New("it fails")
		case "asks":
			_, err := graph.Ask[string](ctx, graph.Question{Key: "other", Text: "And?"})
			return nil, err
		case "spends":
			_, err := journal.Do(ctx, t.Scope(), &journal.Effect{Key: "spend", Kind: "tool", Cost: runlog.Amount{Tokens: 10}}, func(context.Context, string) (int, error) { return 0, nil })
			return nil, err
		}
		return nil, nil
	}})
	g.Edge(graph.Start, "ask")
	g.Edge(graph.Start, "beside")
	g.Edge("ask", graph.End)
	g.Edge("beside", graph.End)
	flow, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	w, err := workflow.New("asks", "Asks a question.", flow, func(i in) (state, error) { return state{in: i}, nil }, func(s state) ([]string, error) { return s.Said, nil })
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// A situation is one in which a run is answered.
type situation struct {
	name, beside string
	budget       *runlog.Budget
	queued       bool // it began queued
	holds        bool // a process executes the run, and waits for the answer
	then         func(ctx context.Context, e *superstep.Engine, r *superstep.Run, leave func()) error
	before       runlog.Status
	refused      bool
	after        runlog.Status // Completed if it continues
}

func situations(t *testing.T, store runlog.Store) []situation {
	return []situation{
		{name: "nothing else", before: runlog.Paused, after: runlog.Completed},
		{name: "paused by a person", holds: true, before: runlog.Paused, after: runlog.Paused, then: func(ctx context.Context, e *superstep.Engine, r *superstep.Run, _ func()) error {
			return e.Pause(ctx, r.ID(), "a tester")
		}},
		{name: "its budget is used up", beside: "spends", budget: &runlog.Budget{Tokens: 5}, before: runlog.Paused, after: runlog.Paused},
		{name: "paused for a message", beside: "message", before: runlog.Paused, after: runlog.Completed},
		{name: "another question is open", beside: "asks", before: runlog.Paused, after: runlog.Paused},
		{name: "began queued", queued: true, before: runlog.Paused, after: runlog.Queued},
		{name: "failed", beside: "fails", before: runlog.Failed, after: runlog.Failed},
		{name: "interrupted", holds: true, before: runlog.Interrupted, after: runlog.Completed, then: func(_ context.Context, _ *superstep.Engine, _ *superstep.Run, leave func()) error {
			leave()
			return nil
		}},
		{name: "another process executes it", holds: true, before: runlog.Running, after: runlog.Completed},
		{name: "ended", before: runlog.Cancelled, after: runlog.Cancelled, refused: true, then: func(ctx context.Context, e *superstep.Engine, r *superstep.Run, _ func()) error {
			return e.Cancel(ctx, r.ID())
		}},
		{name: "imported", before: runlog.Paused, after: runlog.Paused, refused: true, then: func(ctx context.Context, e *superstep.Engine, r *superstep.Run, _ func()) error {
			var file bytes.Buffer
			if err := archive.Export(ctx, store, r.ID(), &file, nil); err != nil {
				return err
			}
			if err := e.Delete(ctx, r.ID()); err != nil {
				return err
			}
			_, err := archive.Import(ctx, store, bytes.NewReader(file.Bytes()), &archive.ImportOptions{ID: r.ID(), Dir: t.TempDir()})
			return err
		}},
	}
}

// Answers holds a face to the one rule for answers: a run continues unless a person paused it, its budget is used up, it failed, or other questions are
// open. Store is that of the face, whose runs have IDs that begin with prefix.
func Answers(t *testing.T, store runlog.Store, prefix string, face Face) {
	for _, c := range situations(t, store) {
		t.Run(c.name, func(t *testing.T) {
			e, err := superstep.New(store, &superstep.Options{Workflows: workflow.Set{Asks(t)}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(e.Close)
			ctx, leave := context.WithCancel(context.Background())
			defer leave()
			asked := make(chan *runlog.Question, 10)
			inputs, _ := json.Marshal(map[string]string{"beside": c.beside})
			start := &superstep.StartOptions{ID: prefix + strings.ToLower(rand.Text()[:8]), Budget: c.budget, Observe: func(rec runlog.Record, _ error) {
				var q runlog.Question
				if rec.Kind == runlog.KindAsked && json.Unmarshal(rec.Data, &q) == nil && q.Key == "which" {
					q.Path = rec.Path
					asked <- &q
				}
			}, Answer: func(ctx context.Context, _ runlog.Question) (*runlog.Answer, bool) {
				if c.holds {
					<-ctx.Done()
				}
				return nil, false
			}}
			r, err := commence(ctx, e, c.queued, inputs, start)
			if err != nil {
				t.Fatal(err)
			}
			var q *runlog.Question
			if !c.queued {
				q = <-asked
			}
			if !c.holds {
				out, err := r.Wait(ctx)
				if err != nil && c.before != runlog.Failed {
					t.Fatal(err)
				}
				if c.queued {
					q = &out.Open[0]
				}
			}
			if c.then != nil {
				if err := c.then(ctx, e, r, leave); err != nil {
					t.Fatal(err)
				}
			}
			look := func() runlog.Info {
				infos, err := store.Runs(context.Background(), &runlog.Filter{ID: r.ID()})
				if err != nil || len(infos) != 1 {
					t.Fatal(infos, err)
				}
				return infos[0]
			}
			until(t, "before", func() bool { return look().Status == c.before })
			head := look().Head
			if err := face(r.ID(), q, "blue"); (err != nil) != c.refused {
				t.Fatalf("the answer: %v", err)
			}
			until(t, string(c.after), func() bool { return look().Status == c.after })
			var kinds []runlog.Kind
			for rec, err := range runlog.Records(context.Background(), store, r.ID(), head+1) {
				if err != nil {
					t.Fatal(err)
				}
				kinds = append(kinds, rec.Kind)
			}
			answered, resumed := slices.Contains(kinds, runlog.KindAnswered), slices.Contains(kinds, runlog.KindRunResumed)
			if answered == c.refused || resumed != (c.after == runlog.Completed && c.before != runlog.Running) {
				t.Errorf("its log continues with %q", kinds)
			}
		})
	}
}

// commence starts a run, or enqueues it for a worker, which this process then is.
func commence(ctx context.Context, e *superstep.Engine, queued bool, inputs json.RawMessage, opt *superstep.StartOptions) (*superstep.Run, error) {
	if !queued {
		return e.Start(ctx, "asks", inputs, opt)
	}
	if _, err := e.Enqueue(ctx, "asks", inputs, &superstep.StartOptions{ID: opt.ID}); err != nil {
		return nil, err
	}
	runs, err := e.Recover(ctx, nil)
	if err == nil && len(runs) != 1 {
		err = errors.New("the worker did not take it")
	}
	if err != nil {
		return nil, err
	}
	return runs[0], nil
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never was %s", what)
		}
	}
}
