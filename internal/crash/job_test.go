// Package crash breaks runs on purpose, on every store: processes and servers are
// killed and stopped, clocks jump, and what is left is compared with a run that nothing
// disturbed. Its tests need a machine of their own for a while; `./check crash` runs all of
// them with their full numbers.
package crash

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// Name is the name of the workflow that is broken most.
const Name = "crash"

// A Job is its input: how wide its fan is, how many rounds its loop has, and how many
// bytes each task adds to the log. The end depends on the first two.
type Job struct {
	Width  int `json:"width"`
	Rounds int `json:"rounds"`
	Pad    int `json:"pad,omitempty"`

	Script bool `json:"script,omitempty"` // the workflow without a graph
}

// Workflow returns the name of its workflow.
func (j *Job) Workflow() string {
	if j.Script {
		return ScriptName
	}
	return Name
}

// A World is what the effects of the workflow happen to. Its methods are called by
// several tasks at once.
type World interface {
	// Do makes an effect happen.
	Do(a *Act) error
	// Happened reports whether an effect that must happen once has happened.
	Happened(a *Act) (bool, error)
	// Ran is told of each task that begins.
	Ran(run, path string)
}

// An Act is one effect.
type Act struct {
	Run, Path, Effect string
	Kind              string // "pure", "key" or "once"
	Key               string // what the engine gave, to tell repetitions by
}

// Outcome is what an effect comes to, whichever run, process and attempt it is of.
func Outcome(path, effect string) string {
	h := sha256.Sum256([]byte(path + " " + effect))
	return hex.EncodeToString(h[:4])
}

// state is that of the workflow and of the graph inside of it.
type state struct {
	Job
	Round int      `json:"round"`
	Trace []string `json:"trace"`
}

// update is what a task adds. Pad is there for the log to grow, and left out of the
// state, so that snapshots are written again and again and stay small.
type update struct {
	Did   []string `json:"did"`
	Round int      `json:"round,omitempty"`
	Pad   string   `json:"pad,omitempty"`
}

func fold(s state, u update) state {
	s.Trace = append(s.Trace[:len(s.Trace):len(s.Trace)], u.Did...)
	s.Round += u.Round
	return s
}

// Workflow is the workflow. It must stay as it is, since testdata/golden has runs of it: a
// fan of tasks, one that goes ahead of it, a loop, a graph within the graph and three
// questions, with effects of all kinds.
func Workflow(w World) (*workflow.Workflow, error) {
	inner, err := within(w).Compile()
	if err != nil {
		return nil, err
	}
	g := graph.New("crash", fold)
	g.AddNode(task(w, "plan", 0, pure("read")))
	g.Edge(graph.Start, "plan")
	work := task(w, "work", 0, byKey("send"), once("charge"), pure("look"), stumble)
	work.Retry = &graph.Retry{Attempts: 2, Backoff: -1}
	g.AddNode(work)
	g.Fan("plan", func(s state) []graph.Send {
		var sends []graph.Send
		for i := range s.Width {
			sends = append(sends, graph.Send{To: "work", Key: fmt.Sprint(i), Arg: i})
		}
		return sends
	}, "work")
	// One goes ahead of the fan, so that snapshots find it under way.
	g.AddNode(task(w, "fast", 0))
	g.Edge("plan", "fast")
	ahead := task(w, "ahead", 0, once("pay"), byKey("fetch"), ask("ahead"))
	ahead.Reads = []string{"fast"}
	g.AddNode(ahead)
	g.Edge("fast", "ahead")
	g.Edge("ahead", graph.End)
	gather := task(w, "gather", 0)
	gather.Join = graph.All
	g.AddNode(gather)
	g.Edge("work", "gather")
	g.AddNode(task(w, "round", 1, once("mail"), byKey("count")))
	g.Edge("gather", "round")
	g.Branch("round", func(s state) string {
		if s.Round < s.Rounds {
			return "round"
		}
		return "inner"
	}, "round", "inner")
	g.AddNode(graph.Sub("inner", inner,
		func(s state) (state, error) { return state{Job: s.Job}, nil },
		func(s state) (update, error) { return update{Did: s.Trace}, nil }))
	g.AddNode(task(w, "approve", 0, byKey("draft"), ask("approve"), once("sign")))
	g.Edge("inner", "approve")
	g.AddNode(task(w, "finish", 0, byKey("publish")))
	g.Edge("approve", "finish")
	g.Edge("finish", graph.End)
	flow, err := g.Compile()
	if err != nil {
		return nil, err
	}
	return workflow.New(Name, "Is killed and goes on.", flow,
		func(j Job) (state, error) { return state{Job: j}, nil },
		func(s state) ([]string, error) { return s.Trace, nil })
}

// within is the graph inside the graph: a fan and a loop of its own, one of them asking.
func within(w World) *graph.Graph[state, update] {
	g := graph.New("within", fold)
	g.AddNode(task(w, "part", 0, once("order")))
	g.Fan(graph.Start, func(state) []graph.Send {
		return []graph.Send{{To: "part", Key: "a"}, {To: "part", Key: "b"}}
	}, "part")
	met := task(w, "met", 0)
	met.Join = graph.All
	g.AddNode(met)
	g.Edge("part", "met")
	g.AddNode(task(w, "turn", 1, byKey("step")))
	g.Edge("met", "turn")
	g.Branch("turn", func(s state) string {
		if s.Round < 2 {
			return "turn"
		}
		return "check"
	}, "turn", "check")
	g.AddNode(task(w, "check", 0, ask("check")))
	g.Edge("check", graph.End)
	return g
}

// act is a part of a task, and gives what it came to.
type act func(ctx context.Context, w World, t *graph.Task) (string, error)

// task is a node that acts, one after the other, and notes what came of it.
func task(w World, name string, round int, acts ...act) graph.Node[state, update] {
	return graph.Node[state, update]{Name: name, Run: func(ctx context.Context, t *graph.Task, s state) (update, error) {
		path := t.Scope().Path()
		w.Ran(t.Scope().Run(), path)
		u := update{Did: []string{path}, Round: round, Pad: strings.Repeat(".", s.Pad)}
		for _, a := range acts {
			did, err := a(ctx, w, t)
			if err != nil {
				return update{}, err
			}
			if did != "" {
				u.Did = append(u.Did, did)
			}
		}
		return u, nil
	}}
}

func effect(ctx context.Context, w World, t *graph.Task, kind, name string, repeat journal.Repeat) (string, error) {
	path := t.Scope().Path()
	e := &journal.Effect{Key: name, Kind: "do", Name: name, Repeat: repeat}
	return journal.Do(ctx, t.Scope(), e, func(_ context.Context, key string) (string, error) {
		err := w.Do(&Act{Run: t.Scope().Run(), Path: path, Effect: name, Kind: kind, Key: key})
		return Outcome(path, strings.TrimSuffix(name, seen)), err
	})
}

// seen ends the names of the effects that look at what has become of another.
const seen = "-seen"

func pure(name string) act {
	return func(ctx context.Context, w World, t *graph.Task) (string, error) {
		return effect(ctx, w, t, "pure", name, journal.RepeatFreely)
	}
}

func byKey(name string) act {
	return func(ctx context.Context, w World, t *graph.Task) (string, error) {
		return effect(ctx, w, t, "key", name, journal.RepeatByKey)
	}
}

// once acts at most once. Told that it has happened, it looks at the world for what came
// of it.
func once(name string) act {
	return func(ctx context.Context, w World, t *graph.Task) (string, error) {
		did, err := effect(ctx, w, t, "once", name, journal.RepeatNever)
		if happened := (*journal.HappenedError)(nil); errors.As(err, &happened) {
			return effect(ctx, w, t, "pure", name+seen, journal.RepeatFreely)
		}
		return did, err
	}
}

// stumble fails the first attempt of one task of a fan, behind its effects.
func stumble(_ context.Context, _ World, t *graph.Task) (string, error) {
	if t.Key() == "1" && t.Attempt() == 1 {
		return "", errors.New("it stumbled")
	}
	return "", nil
}

func ask(key string) act {
	return func(ctx context.Context, _ World, t *graph.Task) (string, error) {
		return graph.Ask[string](ctx, graph.Question{Key: key, Text: "May it go on?"})
	}
}

// Answers gives the answers to the questions of the workflow. About an effect of unknown
// outcome it asks the world; in doubt, as when whoever began it may still be alive, it
// says that it happened.
func Answers(run string, w World, doubt bool) func(context.Context, runlog.Question) (*runlog.Answer, bool) {
	return func(_ context.Context, q runlog.Question) (*runlog.Answer, bool) {
		answer := "yes, " + q.Key
		if of, unknown := strings.CutPrefix(q.Key, "unknown:"); unknown {
			name := of[:strings.LastIndexByte(of, ':')]
			happened, err := doubt, error(nil)
			if !doubt {
				happened, err = w.Happened(&Act{Run: run, Path: q.Path, Effect: name})
			}
			if err != nil {
				return nil, false
			}
			answer = "do it again"
			if happened {
				answer = "it happened"
			}
		}
		b, err := json.Marshal(answer)
		if err != nil {
			return nil, false
		}
		return &runlog.Answer{Key: q.Key, Value: b, By: "test"}, true
	}
}
