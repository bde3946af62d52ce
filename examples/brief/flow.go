package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/workflow"
)

type inputs struct {
	Topic string `json:"topic" jsonschema:"what the brief is about"`
	Angle int    `json:"angles,omitempty" jsonschema:"how many angles to look at; defaults to 3"`
	Pause int    `json:"pause_ms,omitempty" jsonschema:"how long each angle takes, in milliseconds; defaults to 300"`
}

type state struct {
	Inputs   inputs            `json:"inputs"`
	Notes    map[string]string `json:"notes,omitempty"`
	Approved bool              `json:"approved,omitempty"`
	Text     string            `json:"text,omitempty"`
}

// update is the update of a node.
type update struct {
	Note     map[string]string `json:"note,omitempty"`
	Approved bool              `json:"approved,omitempty"`
	Text     string            `json:"text,omitempty"`
}

func reduce(s state, u update) state {
	notes := make(map[string]string, len(s.Notes)+len(u.Note))
	for _, m := range []map[string]string{s.Notes, u.Note} {
		for k, v := range m {
			notes[k] = v
		}
	}
	s.Notes = notes
	s.Approved = s.Approved || u.Approved
	if u.Text != "" {
		s.Text = u.Text
	}
	return s
}

// flow looks at a topic from several angles, asks whether to publish, and writes.
func flow() (*workflow.Workflow, error) {
	g := graph.New("brief", reduce)
	g.Add("plan", func(context.Context, state) (update, error) { return update{}, nil })
	g.AddNode(graph.Node[state, update]{Name: "look", Run: look})
	g.Add("approve", approve)
	g.Add("write", write)
	g.Edge(graph.Start, "plan")
	g.Fan("plan", angles, "look")
	g.Edge("look", "approve")
	g.Branch("approve", func(s state) string {
		if s.Approved {
			return "write"
		}
		return graph.End
	}, "write", graph.End)
	g.Edge("write", graph.End)
	compiled, err := g.Compile()
	if err != nil {
		return nil, err
	}
	w, err := workflow.New("brief", "Write a brief about a topic, once a person has approved it", compiled,
		func(in inputs) (state, error) { return state{Inputs: in}, nil },
		func(s state) (string, error) {
			if s.Text == "" {
				return "not published", nil
			}
			return s.Text, nil
		})
	if err == nil {
		w.NoModel = true
	}
	return w, err
}

func angles(s state) []graph.Send {
	n := s.Inputs.Angle
	if n <= 0 {
		n = 3
	}
	var out []graph.Send
	for i := range n {
		out = append(out, graph.Send{To: "look", Key: fmt.Sprintf("angle-%d", i+1), Arg: i + 1})
	}
	return out
}

func look(ctx context.Context, t *graph.Task, s state) (update, error) {
	note, err := graph.Do(ctx, "look", func(ctx context.Context, _ string) (string, error) {
		pause := time.Duration(s.Inputs.Pause) * time.Millisecond
		if pause <= 0 {
			pause = 300 * time.Millisecond
		}
		select {
		case <-time.After(pause):
			return fmt.Sprintf("%s, seen from %s", s.Inputs.Topic, t.Key()), nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	})
	return update{Note: map[string]string{t.Key(): note}}, err
}

func approve(ctx context.Context, s state) (update, error) {
	answer, err := graph.Ask[string](ctx, graph.Question{
		Key: "publish", Text: fmt.Sprintf("Publish the brief about %q?", s.Inputs.Topic), Options: []string{"yes", "no"},
	})
	return update{Approved: answer == "yes"}, err
}

func write(_ context.Context, s state) (update, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", s.Inputs.Topic)
	for i := range len(s.Notes) {
		fmt.Fprintf(&b, "\n- %s", s.Notes[fmt.Sprintf("angle-%d", i+1)])
	}
	return update{Text: b.String()}, nil
}
