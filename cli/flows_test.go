package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/graph"
	nodes "github.com/superstep-dev/superstep/graph/node"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/builtin/research"
	"github.com/superstep-dev/superstep/internal/offline"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/workflow"
)

// values is the state and the update of all test workflows: what nodes have to say, by key.
type values map[string]string

func fold(s, u values) values {
	out := values{}
	for _, m := range []values{s, u} {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

type node = graph.Node[values, values]

// chain makes a flow of nodes that follow each other.
func chain(name string, nodes ...node) *graph.Flow[values, values] {
	g := graph.New(name, fold)
	last := graph.Start
	for _, n := range nodes {
		g.AddNode(n)
		g.Edge(last, n.Name)
		last = n.Name
	}
	g.Edge(last, graph.End)
	f, err := g.Compile()
	if err != nil {
		panic(err)
	}
	return f
}

func flows(env func(string) string) ([]*workflow.Workflow, error) {
	var out []*workflow.Workflow
	var errs []error
	add := func(w *workflow.Workflow, err error) {
		out, errs = append(out, w), append(errs, err)
	}
	add(hello())
	add(gather())
	add(asking())
	add(simple("fail", "Fails", node{Name: "work", Run: func(context.Context, *graph.Task, values) (values, error) {
		return nil, errors.New("the disk is on fire; put it out")
	}}))
	add(modelless())
	add(simple("latemodel", "Needs a model when it runs", node{Name: "work", Run: func(context.Context, *graph.Task, values) (values, error) {
		return nil, host.NoModel("model openai/x needs an API key", "set OPENAI_API_KEY")
	}}))
	add(simple("fickle", "Changes its mind", node{Name: "work", Run: func(context.Context, *graph.Task, values) (values, error) {
		return values{"out": cmp.Or(env("TEST_CHANGED"), "as ever")}, nil
	}}))
	for name, err := range map[string]error{
		"lateinputs": &workflow.InputsError{Workflow: "lateinputs", Problems: []string{"x: is gone"}},
		"latelimit":  &Error{Exit: ExitLimit, Code: "budget", Message: "the budget is spent"},
		"misled":     &runlog.NotFoundError{ID: "x", Store: "elsewhere"},
	} {
		add(simple(name, "Fails", node{Name: "work", Run: func(context.Context, *graph.Task, values) (values, error) { return nil, err }}))
	}
	add(simple("noticing", "Says something beside its run", node{Name: "work", Run: func(_ context.Context, t *graph.Task, _ values) (values, error) {
		time.Sleep(300 * time.Millisecond)
		host.ResourcesOf(t).Notice("the agent reviewer " + strings.Repeat("is a long story ", 6) + "and ends")
		time.Sleep(300 * time.Millisecond)
		return values{"out": "noticed"}, nil
	}}))
	add(picky())
	add(whichModel())
	add(partial())
	add(loop())
	add(slow())
	add(evil())
	add(spend())
	add(talk())
	add(leading())
	add(crowd())
	add(simple("poison", "Kills its process", node{Name: "work", Run: func(context.Context, *graph.Task, values) (values, error) {
		die(env, "poison")
		return values{"out": "alive"}, nil
	}}))
	add(simple("pay", "Pays", pay(env)))
	tip := pay(env)
	tip.OnError = graph.Skip
	same := func(s values) (values, error) { return s, nil }
	add(simple("tip", "Pays, or does without", graph.Sub("tips", chain("tips", tip), same, same)))
	ls := func(name string) node {
		return host.Tool(name, "ls", nodes.Args[values]{Static: map[string]any{"path": "."}}, func(values, string) (values, error) { return nil, nil })
	}
	add(simple("thrice", "Lists a folder", graph.Sub("lists", chain("lists", ls("one"), ls("two"), ls("three")), same, same)))
	add(versions(env))
	add(leaving())
	if cache := env("TEST_RESEARCH"); cache != "" {
		add(research.New(&research.Options{Model: func(string) (model.Model, error) { return offline.New(), nil }, CacheDir: cache}))
	}
	return out, errors.Join(errs...)
}

// die kills the process as the system does when memory is short, if the test wants it here.
func die(env func(string) string, where string) {
	if env("TEST_DIE") == where {
		if p, err := os.FindProcess(os.Getpid()); err == nil {
			_ = p.Kill()
		}
		select {}
	}
}

// modelless is a workflow that has no runs without a model.
func modelless() (*workflow.Workflow, error) {
	type in struct {
		Model string `json:"model,omitempty"`
	}
	f := chain("nomodel", node{Name: "work", Run: func(_ context.Context, _ *graph.Task, s values) (values, error) {
		return values{"out": "with " + s["model"]}, nil
	}})
	w, err := workflow.New("nomodel", "Needs a model", f,
		func(i in) (values, error) { return values{"model": i.Model}, nil },
		func(s values) (string, error) { return s["out"], nil })
	if err != nil {
		return nil, err
	}
	w.Prepare = func(raw json.RawMessage) (json.RawMessage, error) {
		var given in
		if err := json.Unmarshal(raw, &given); err != nil || given.Model != "" {
			return raw, err
		}
		return nil, host.NoModel("no model is configured (needed by workflow nomodel)", "set OPENAI_API_KEY", "or try it now: superstep run nomodel --model offline")
	}
	return w, nil
}

// pay has an effect that must not happen twice.
func pay(env func(string) string) node {
	return node{Name: "transfer", Run: func(ctx context.Context, t *graph.Task, _ values) (values, error) {
		receipt, err := journal.Do(ctx, t.Scope(), &journal.Effect{Key: "pay", Kind: "tool", Name: "bank", Repeat: journal.RepeatNever},
			func(context.Context, string) (string, error) {
				die(env, "pay")
				return "paid now", nil
			})
		return values{"out": receipt}, err
	}}
}

// versions is a workflow that a newer program has another graph for.
func versions(env func(string) string) (*workflow.Workflow, error) {
	say := func(name string) node {
		return node{Name: name, Run: func(context.Context, *graph.Task, values) (values, error) {
			if name == "second" && env("TEST_VERSION") == "" {
				return nil, errors.New("not in this version")
			}
			return values{"out": name}, nil
		}}
	}
	nodes := []node{say("first"), say("second")}
	switch env("TEST_VERSION") {
	case "2":
		nodes = append(nodes, say("third"))
	case "3":
		nodes = []node{say("first"), say("other")}
	}
	return workflow.New("versions", "Changes", chain("versions", nodes...),
		func(struct{}) (values, error) { return values{}, nil },
		func(s values) (string, error) { return s["out"], nil })
}

func simple(name, description string, n node) (*workflow.Workflow, error) {
	return workflow.New(name, description, chain(name, n),
		func(struct{}) (values, error) { return values{}, nil },
		func(s values) (string, error) { return s["out"], nil })
}

func hello() (*workflow.Workflow, error) {
	type in struct {
		Name  string `json:"name" jsonschema:"whom to greet"`
		Times int    `json:"times,omitempty" jsonschema:"how often"`
		Loud  bool   `json:"loud,omitempty" jsonschema:"shout"`
		Dir   string `json:"data_dir,omitempty"` // its flag is taken
	}
	f := chain("hello", node{Name: "greet", Run: func(_ context.Context, _ *graph.Task, s values) (values, error) {
		return values{"out": "Hello, " + s["name"] + "!"}, nil
	}})
	return workflow.New("hello", "Greet somebody", f,
		func(i in) (values, error) {
			if i.Loud {
				i.Name = strings.ToUpper(i.Name)
			}
			return values{"name": i.Name, "times": fmt.Sprint(max(1, i.Times))}, nil
		},
		func(s values) (string, error) {
			n := 1
			_, _ = fmt.Sscan(s["times"], &n)
			return strings.TrimSpace(strings.Repeat(s["out"]+"\n", n)), nil
		})
}

// picky is a workflow that refuses runs and changes their inputs.
func picky() (*workflow.Workflow, error) {
	w, err := hello()
	if err != nil {
		return nil, err
	}
	w.Name = "picky"
	w.Prepare = func(raw json.RawMessage) (json.RawMessage, error) {
		var in struct {
			Name string `json:"name"`
		}
		if err := json.Unmarshal(raw, &in); err != nil {
			return nil, err
		}
		if in.Name == "nobody" {
			return nil, usage("nobody cannot be greeted")
		}
		if !strings.HasPrefix(in.Name, "/") {
			in.Name = "/here/" + in.Name
		}
		return json.Marshal(in)
	}
	return w, nil
}

// whichModel asks, and says which model it was set up with.
func whichModel() (*workflow.Workflow, error) {
	type in struct {
		Model string `json:"model,omitempty"`
	}
	f := chain("whichmodel", node{Name: "ask", Run: func(ctx context.Context, _ *graph.Task, s values) (values, error) {
		_, err := graph.Ask[json.RawMessage](ctx, graph.Question{Key: "q", Text: "Go on?", Options: []string{"yes", "no"}})
		return values{"out": "with " + s["model"]}, err
	}})
	return workflow.New("whichmodel", "Say which model", f,
		func(i in) (values, error) { return values{"model": i.Model}, nil },
		func(v values) (string, error) { return v["out"], nil })
}

// say does what an agent does to the log: it starts, takes a turn and calls a tool.
func say(ctx context.Context, t *graph.Task, text string) error {
	sc := t.Scope()
	do := func(e *journal.Effect, out any) error {
		_, err := journal.Do(ctx, sc, e, func(context.Context, string) (any, error) { return out, nil })
		return err
	}
	return errors.Join(
		do(&journal.Effect{Key: "agent", Kind: "agent", Name: "researcher", Input: map[string]string{"agent": "researcher", "model": "test/m", "prompt": "look"}}, struct{}{}),
		func() error {
			sc.Live("text", map[string]string{"agent": "researcher", "text": text})
			return nil
		}(),
		do(&journal.Effect{Key: "turn-0", Kind: "model", Name: "test/m", Repeat: journal.RepeatByKey}, model.Response{
			Message: model.Message{Role: model.Assistant, Parts: []model.Part{{Kind: model.Text, Text: text}}},
			Usage:   model.Usage{In: 3000, Out: 1000}, Stop: model.StopCalls,
		}),
		do(&journal.Effect{Key: "turn-0/call-0", Kind: "tool", Name: "grep", Input: json.RawMessage(`{"max":3,"pattern":"func main"}`)}, tool.Result{Text: "main.go:3"}),
	)
}

func gather() (*workflow.Workflow, error) {
	g := graph.New("gather", fold)
	g.Add("plan", func(context.Context, values) (values, error) { return values{}, nil })
	g.AddNode(node{Name: "gather", Run: func(ctx context.Context, t *graph.Task, _ values) (values, error) {
		return values{t.Key(): "found"}, say(ctx, t, "looking at "+t.Key())
	}})
	g.Add("brief", func(_ context.Context, s values) (values, error) {
		return values{"text": fmt.Sprintf("auth %s, api %s", s["auth"], s["api"])}, nil
	})
	g.Edge(graph.Start, "plan")
	g.Fan("plan", func(values) []graph.Send {
		return []graph.Send{{To: "gather", Key: "auth"}, {To: "gather", Key: "api"}}
	}, "gather")
	g.Edge("gather", "brief")
	g.Edge("brief", graph.End)
	f, err := g.Compile()
	if err != nil {
		return nil, err
	}
	type out struct {
		Text   string `json:"text"`
		Report string `json:"report"`
	}
	return workflow.New("gather", "Agents in parallel", f,
		func(struct{}) (values, error) { return values{}, nil },
		func(s values) (out, error) { return out{s["text"], "brief.md"}, nil })
}

func asking() (*workflow.Workflow, error) {
	type in struct {
		Default string `json:"default,omitempty"`
		Free    bool   `json:"free,omitempty" jsonschema:"ask for anything"`
	}
	f := chain("ask", node{Name: "ask", Run: func(ctx context.Context, t *graph.Task, s values) (values, error) {
		q := &runlog.Question{Key: "q", Text: "Publish it?", Options: []string{"yes", "no"}}
		if s["free"] == "true" {
			q.Options = nil
		}
		served := s["default"] == "server" // as an MCP server asks
		if d := s["default"]; served {
			q = &runlog.Question{Key: "q", Kind: runlog.QuestionForm, Text: "Server air asks.\n\n> " + strings.Repeat("word ", 15), Schema: json.RawMessage(
				`{"type":"object","properties":{"decision":{"enum":["accept","decline"]},"seat":{"type":"integer"}},"required":["decision"],"if":{"properties":{"decision":{"const":"accept"}}},"then":{"required":["seat"]}}`)}
		} else if d != "" {
			q.Default, _ = json.Marshal(d)
		}
		raw, err := graph.Ask[json.RawMessage](ctx, *q)
		if err != nil {
			return nil, err
		}
		if served {
			return values{"out": "answered " + string(raw)}, nil
		}
		var answer string
		err = json.Unmarshal(raw, &answer)
		return values{"out": "answered " + answer}, err
	}})
	return workflow.New("ask", "Ask a person", f,
		func(i in) (values, error) {
			return values{"default": i.Default, "free": fmt.Sprint(i.Free)}, nil
		},
		func(s values) (string, error) { return s["out"], nil })
}

func partial() (*workflow.Workflow, error) {
	return simple("partial", "Passes over a failure", node{Name: "work", OnError: graph.Skip, Run: func(context.Context, *graph.Task, values) (values, error) {
		return nil, errors.New("one source is gone")
	}})
}

func loop() (*workflow.Workflow, error) {
	g := graph.New("loop", fold)
	g.Add("again", func(context.Context, values) (values, error) { return nil, nil })
	g.Edge(graph.Start, "again")
	g.Branch("again", func(values) string { return "again" }, "again", graph.End)
	f, err := g.Compile()
	if err != nil {
		return nil, err
	}
	return workflow.New("loop", "Never ends", f,
		func(struct{}) (values, error) { return values{}, nil },
		func(values) (string, error) { return "", nil })
}

func slow() (*workflow.Workflow, error) {
	type in struct {
		MS    int `json:"ms,omitempty"`
		Tasks int `json:"tasks,omitempty"`
	}
	g := graph.New("slow", fold)
	g.Add("first", func(context.Context, values) (values, error) { return nil, nil })
	g.AddNode(node{Name: "wait", Run: func(ctx context.Context, t *graph.Task, s values) (values, error) {
		ms := 0
		_, _ = fmt.Sscan(s["ms"], &ms)
		select {
		case <-time.After(time.Duration(ms) * time.Millisecond):
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}})
	g.Edge(graph.Start, "first")
	g.Fan("first", func(s values) []graph.Send {
		n := 1
		_, _ = fmt.Sscan(s["tasks"], &n)
		var out []graph.Send
		for i := range max(n, 1) {
			out = append(out, graph.Send{To: "wait", Key: fmt.Sprintf("t%02d", i)})
		}
		return out
	}, "wait")
	g.Edge("wait", graph.End)
	f, err := g.Compile()
	if err != nil {
		return nil, err
	}
	return workflow.New("slow", "Takes a while", f,
		func(i in) (values, error) { return values{"ms": fmt.Sprint(i.MS), "tasks": fmt.Sprint(i.Tasks)}, nil },
		func(values) (string, error) { return "slept", nil })
}

const hostile = "\x1b[31mred\x1b]0;title\a\u009b2J\u202eevil\x00"

func evil() (*workflow.Workflow, error) {
	type in struct {
		Text string `json:"text"`
		Fail bool   `json:"fail,omitempty"`
	}
	f := chain("evil", node{Name: "work", Run: func(ctx context.Context, t *graph.Task, s values) (values, error) {
		if err := say(ctx, t, hostile); err != nil {
			return nil, err
		}
		_, err := journal.Do(ctx, t.Scope(), &journal.Effect{Key: "x", Kind: "tool", Name: hostile, Input: map[string]string{"path": hostile}},
			func(context.Context, string) (tool.Result, error) {
				return tool.Result{Text: hostile, Error: true}, nil
			})
		if err == nil && s["fail"] == "true" {
			err = errors.New("broken: " + hostile)
		}
		return values{"out": hostile}, err
	}})
	return workflow.New("evil", "Sends escape sequences", f,
		func(i in) (values, error) { return values{"fail": fmt.Sprint(i.Fail)}, nil },
		func(s values) (string, error) { return s["out"], nil })
}
