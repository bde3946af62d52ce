package main

import (
	"cmp"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/node"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/workflow"
)

// correctiveRAG answers from the notes. A grader drops the passages that do not help; if none is
// left, the web is searched with a better query.
func correctiveRAG(m model.Model, tools *tool.Set) (*workflow.Workflow, error) {
	type input struct {
		Question string `json:"question" jsonschema:"what you want to know"`
	}
	type grades struct {
		Helpful string `json:"helpful" jsonschema:"the passages that help to answer, word for word; empty if none does"`
	}
	type state struct{ Question, Query, Found, Helpful, Answer string }
	g := graph.New("corrective-rag", func(s, u state) state {
		return state{s.Question, cmp.Or(u.Query, s.Query), cmp.Or(u.Found, s.Found), cmp.Or(u.Helpful, s.Helpful), cmp.Or(u.Answer, s.Answer)}
	})
	g.AddNode(node.Tool("retrieve", tools, "notes", node.Args[state]{Paths: map[string]string{"query": "Question"}},
		func(_ state, text string) (state, error) { return state{Found: text}, nil }))
	g.AddNode(node.Typed("grade", &agent.Agent{Name: "grader", Model: m, Prompt: "Grade passages for a question."},
		func(s state) (string, error) { return s.Question + "\n\nPassages:\n" + s.Found, nil },
		func(_ state, v grades) (state, error) { return state{Helpful: v.Helpful}, nil }))
	g.AddNode(node.Agent("rewrite", &agent.Agent{Name: "rewriter", Model: m, Prompt: "Make a question a query for the web."},
		func(s state) (string, error) { return s.Question, nil },
		func(_ state, out *agent.Outcome) (state, error) { return state{Query: out.Text}, nil }))
	g.AddNode(node.Tool("search", tools, "web", node.Args[state]{Paths: map[string]string{"query": "Query"}},
		func(_ state, text string) (state, error) { return state{Helpful: text}, nil }))
	g.AddNode(node.Agent("answer", &agent.Agent{Name: "writer", Model: m, Prompt: "Answer from the passages alone."},
		func(s state) (string, error) { return s.Question + "\n\nPassages:\n" + s.Helpful, nil },
		func(_ state, out *agent.Outcome) (state, error) { return state{Answer: out.Text}, nil }))
	g.Branch("grade", func(s state) string {
		if s.Helpful == "" {
			return "rewrite"
		}
		return "answer"
	}, "rewrite", "answer")
	for _, e := range [][2]string{{graph.Start, "retrieve"}, {"retrieve", "grade"}, {"rewrite", "search"}, {"search", "answer"}, {"answer", graph.End}} {
		g.Edge(e[0], e[1])
	}
	flow, err := g.Compile()
	if err != nil {
		return nil, err
	}
	return workflow.New("corrective-rag", "Answer from the notes, or else from the web", flow,
		func(in input) (state, error) { return state{Question: in.Question}, nil },
		func(s state) (string, error) { return s.Answer, nil })
}
