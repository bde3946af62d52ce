package node_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/node"
	"github.com/superstep-dev/superstep/internal/offline"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

// A page is the state of a graph; what its nodes return are lines.
type page struct {
	Topic string   `json:"topic"`
	Lines []string `json:"lines,omitempty"`
}

type lines []string

func addLines(p page, l lines) page {
	p.Lines = append(p.Lines[:len(p.Lines):len(p.Lines)], l...)
	return p
}

func line(_ page, text string) (lines, error) { return lines{text}, nil }

// run runs nodes one after the other.
func run(nodes ...graph.Node[page, lines]) {
	g := graph.New("example", addLines)
	from := graph.Start
	for _, n := range nodes {
		g.AddNode(n)
		g.Edge(from, n.Name)
		from = n.Name
	}
	g.Edge(from, graph.End)
	flow, err := g.Compile()
	if err != nil {
		fmt.Println(err)
		return
	}
	final, err := flow.Run(context.Background(), page{Topic: "Pregel"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(strings.Join(final.Lines, "\n"))
}

func ExampleAgent() {
	type query struct {
		Query string `json:"query"`
	}
	search, err := tool.New("search", "Search the notes.", func(context.Context, query) (string, error) {
		return "## notes.md:3-3\n3\tPregel runs graphs in supersteps.\n", nil
	}, &tool.Options{Effect: tool.Pure})
	if err != nil {
		fmt.Println(err)
		return
	}
	tools, err := tool.NewSet(search)
	if err != nil {
		fmt.Println(err)
		return
	}
	reader := &agent.Agent{Name: "reader", Prompt: "Answer from the notes.", Model: offline.New(), Tools: tools}
	prompt := func(p page) (string, error) { return "How does " + p.Topic + " run graphs?", nil }
	run(node.Agent("read", reader, prompt, func(p page, out *agent.Outcome) (lines, error) {
		_, answer, _ := strings.Cut(out.Text, "\n\n") // it says first that it only quotes
		return line(p, answer)
	}))
	// Output:
	// notes.md:3
	// > Pregel runs graphs in supersteps.
}

func ExampleTool() {
	type args struct {
		Word  string `json:"word"`
		Times int    `json:"times"`
	}
	repeat, err := tool.New("repeat", "Repeat a word.", func(_ context.Context, in args) (string, error) {
		return strings.Repeat(in.Word, in.Times), nil
	}, &tool.Options{Effect: tool.Pure})
	if err != nil {
		fmt.Println(err)
		return
	}
	tools, err := tool.NewSet(repeat)
	if err != nil {
		fmt.Println(err)
		return
	}
	run(node.Tool("cheer", tools, "repeat", node.Args[page]{
		Static: map[string]any{"times": 2},
		Paths:  map[string]string{"word": "topic"},
	}, line))
	// Output: PregelPregel
}

func ExampleParallel() {
	source := func(name string, err error) graph.Node[page, lines] {
		return graph.Node[page, lines]{Name: name, Run: func(context.Context, *graph.Task, page) (lines, error) {
			return lines{"from " + name}, err
		}}
	}
	branches := []graph.Node[page, lines]{source("web", nil), source("books", errors.New("the library is closed")), source("notes", nil)}
	run(node.Parallel("gather", branches, func(_ page, results []node.Result[lines]) (lines, error) {
		count := fmt.Sprintf("%d of %d sources", len(node.Values(results)), len(results))
		return append(lines{count}, slices.Concat(node.Values(results)...)...), nil
	}, &node.ParallelOptions{Settled: true}))
	// Output:
	// 2 of 3 sources
	// from web
	// from notes
}

// One task per item, as many as there are, and one node that has all they sent. The edge
// makes the node wait for them, also for those that send nothing.
func ExampleGather() {
	g := graph.New("example", addLines)
	g.Add("split", func(context.Context, page) (lines, error) { return nil, nil })
	words := func(p page) []string { return strings.Fields(p.Topic) }
	g.Fan("split", node.Map("measure", words, func(word string) string { return word }), "measure")
	g.AddNode(graph.Node[page, lines]{Name: "measure", Sends: []string{"gather"}, Run: func(_ context.Context, t *graph.Task, _ page) (lines, error) {
		var word string
		err := t.Arg(&word)
		t.Send(graph.Send{To: "gather", Arg: fmt.Sprint(word, " ", len(word))})
		return nil, err
	}})
	g.AddNode(node.Gather("gather", graph.All, func(_ page, results []node.Result[string]) (lines, error) {
		return node.Values(results), nil
	}))
	g.Edge(graph.Start, "split")
	g.Edge("measure", "gather")
	g.Edge("gather", graph.End)
	flow, err := g.Compile()
	if err != nil {
		fmt.Println(err)
		return
	}
	final, err := flow.Run(context.Background(), page{Topic: "think like a vertex"}, nil)
	fmt.Println(strings.Join(final.Lines, ", "), err)
	// Output: think 5, like 4, a 1, vertex 6 <nil>
}

func ExampleRouter() {
	g := graph.New("example", addLines)
	g.Add("short", func(context.Context, page) (lines, error) { return lines{"a short page"}, nil })
	g.Add("long", func(context.Context, page) (lines, error) { return lines{"a long page"}, nil })
	// With a model for it, the chooser is node.ByModel.
	byTopic := func(_ context.Context, _ *graph.Task, p page, _ []string) (string, error) {
		return map[string]string{"Pregel": "long"}[p.Topic], nil
	}
	g.AddNode(node.Router("route", byTopic, func(p page, to string) (lines, error) { return line(p, "it becomes "+to) }, "short", "short", "long"))
	g.Edge(graph.Start, "route")
	g.Edge("short", graph.End)
	g.Edge("long", graph.End)
	flow, err := g.Compile()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, topic := range []string{"Pregel", "naming"} {
		final, err := flow.Run(context.Background(), page{Topic: topic}, nil)
		fmt.Println(strings.Join(final.Lines, ": "), err)
	}
	// Output:
	// it becomes long: a long page <nil>
	// it becomes short: a short page <nil>
}

// A writer and a critic share one conversation, which is kept short.
func ExampleChat() {
	m := &scripted.Model{Answer: func(r *model.Request) scripted.Turn {
		return scripted.Say(fmt.Sprintf("%s I have read %d.", r.System, len(r.Messages)))
	}}
	writer, critic := &agent.Agent{Name: "writer", Prompt: "I write.", Model: m}, &agent.Agent{Name: "critic", Prompt: "I judge.", Model: m}

	type State struct{ Talk []model.Message }
	conv := node.Conversation[State, []model.Message]{
		Messages: func(s State) []model.Message { return s.Talk },
		Add:      func(_ State, more []model.Message) ([]model.Message, error) { return more, nil },
	}
	g := graph.New("reflection", func(s State, u []model.Message) State { s.Talk = node.Messages(s.Talk, u); return s })
	g.AddNode(node.Chat("write", writer, conv, nil))
	g.AddNode(node.Chat("judge", critic, conv, func(State) (string, error) { return "What would you change?", nil }))
	g.AddNode(node.Monitor("watch", conv, node.MonitorOptions[State]{Window: 200000, Summary: m}))

	g.Edge(graph.Start, "write")
	g.Edge("write", "judge")
	g.Edge("judge", "watch")
	g.Edge("watch", graph.End)
	flow, err := g.Compile()
	if err != nil {
		panic(err)
	}
	final, err := flow.Run(context.Background(), State{Talk: []model.Message{model.UserText("A poem, please.")}}, nil)
	if err != nil {
		panic(err)
	}
	for _, m := range final.Talk {
		fmt.Println(m.Role+":", m.Text())
	}
	// Output:
	// user: A poem, please.
	// assistant: I write. I have read 1.
	// user: What would you change?
	// assistant: I judge. I have read 3.
}

// Each word is sent to a task of a sub-graph, which has it as its word.
func ExampleSent() {
	type search struct {
		Word string `json:"word"`
		Last string `json:"last"`
	}
	inner := graph.New("inner", func(s, u search) search { return u })
	inner.Add("look", func(_ context.Context, s search) (search, error) { return search{Last: s.Word + "!"}, nil })
	inner.Edge(graph.Start, "look")
	inner.Edge("look", graph.End)
	look, err := inner.Compile()
	if err != nil {
		fmt.Println(err)
		return
	}

	g := graph.New("example", addLines)
	g.Add("split", func(context.Context, page) (lines, error) { return nil, nil })
	g.Fan("split", node.Map("each", func(p page) []string { return strings.Fields(p.Topic) }, nil), "each")
	in := node.Fields[page, search](map[string]string{"word": "topic", "last": "lines.0"})
	out := func(s search) (lines, error) { return lines{s.Last}, nil }
	g.AddNode(node.Sent(graph.Sub("each", look, in, out), func(p page, word string) (page, error) {
		p.Topic = word
		return p, nil
	}))
	g.Edge(graph.Start, "split")
	g.Edge("each", graph.End)
	flow, err := g.Compile()
	if err != nil {
		fmt.Println(err)
		return
	}
	final, err := flow.Run(context.Background(), page{Topic: "think like"}, nil)
	fmt.Println(final.Lines, err)
	// Output:
	// [think! like!] <nil>
}
