package draw

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/runlog"
)

// A Step is a step of a script, which a picture of its run shows inside of it. See workflow.Script.
type Step struct {
	Name  string // its key
	Kind  string // "sleep", "workflow", "agent" or "ask"; "" for an effect
	State string // as of NodeStatus
}

const script = "script" // the name and the kind of the node of a script

// applyStep notes a step of a script, which is an effect or a question of its task.
func (p *Progress) applyStep(r *runlog.Record) {
	at := nodePath(r.Path)
	if at != script && !strings.HasSuffix(at, "/"+script) {
		return
	}
	switch r.Kind {
	case runlog.KindIntended, runlog.KindSettled:
		var d struct{ Key, Kind, Error string } // of runlog.Intended and runlog.Settled
		if json.Unmarshal(r.Data, &d) != nil {
			return
		}
		state := running
		switch begun := r.Kind == runlog.KindIntended || d.Kind == "agent" || d.Kind == "timer"; {
		case d.Error != "":
			state = failed
		case !begun:
			state = done
		}
		switch d.Kind {
		case "do":
			p.step(at, d.Key, "", state)
		case "sleep", "workflow":
			p.step(at, d.Key, d.Kind, state)
		case "run":
			p.step(at, strings.TrimPrefix(d.Key, "run:"), "workflow", state)
		case "agent": // recorded when it begins; the next step tells that it has ended
			p.step(at, strings.TrimSuffix(d.Key, "/agent"), d.Kind, state)
		case "timer":
			if key, ok := strings.CutSuffix(d.Key, "/until"); ok {
				p.step(at, key, "sleep", state)
			}
		}
	case runlog.KindAsked:
		var d runlog.Question
		if json.Unmarshal(r.Data, &d) == nil && (d.Kind == "" || d.Kind == runlog.QuestionAsk || d.Kind == runlog.QuestionForm) {
			p.step(at, d.Key, "ask", waiting)
		}
	case runlog.KindAnswered:
		var d runlog.Answer
		if json.Unmarshal(r.Data, &d) == nil && slices.ContainsFunc(p.steps[at], func(s Step) bool { return s.Name == d.Key }) {
			p.step(at, d.Key, "ask", done)
		}
	case runlog.KindTaskDone:
		p.endAgents(at)
	}
}

// step sets the state of a step.
func (p *Progress) step(at, name, kind, state string) {
	steps := p.steps[at]
	if i := slices.IndexFunc(steps, func(s Step) bool { return s.Name == name }); i >= 0 {
		steps[i].State = state
		return
	}
	p.endAgents(at)
	if p.steps == nil {
		p.steps = map[string][]Step{}
	}
	p.steps[at] = append(steps, Step{name, kind, state})
}

func (p *Progress) endAgents(at string) {
	for i, s := range p.steps[at] {
		if s.Kind == "agent" && s.State == running {
			p.steps[at][i].State = done
		}
	}
}

// shapeOf returns the steps of a script in a row.
func shapeOf(steps []Step) *graph.Shape {
	s, from := &graph.Shape{}, graph.Start
	for _, step := range steps {
		s.Nodes = append(s.Nodes, graph.ShapeNode{Name: step.Name, Kind: step.Kind})
		s.Edges = append(s.Edges, graph.ShapeEdge{From: from, To: step.Name})
		from = step.Name
	}
	s.Edges = append(s.Edges, graph.ShapeEdge{From: from, To: graph.End})
	return s
}
