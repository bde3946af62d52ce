package agent_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/internal/external"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/tool"
)

// Agents hand a conversation to each other until one answers. In a graph, node.Chat and a Branch do this.
func ExampleHandoff() {
	m := &scripted.Model{Turns: []scripted.Turn{scripted.Call("transfer_to_repair", "{}"), scripted.Say("Change the bulb.")}}
	agents := map[string]*agent.Agent{
		"sales":  {Name: "sales", Model: m, Actions: []*agent.Action{agent.Handoff("repair", "It helps with lamps that do not work.")}},
		"repair": {Name: "repair", Model: m, Actions: []*agent.Action{agent.Handoff("sales", "It knows prices.")}},
	}
	talk := []model.Message{model.UserText("My lamp flickers.")}
	for name := "sales"; name != ""; name = agent.HandedTo(talk) {
		out, err := agents[name].Run(context.Background(), nil, &agent.Work{Key: fmt.Sprint(len(talk)), Messages: talk})
		if err != nil {
			panic(err)
		}
		talk = out.Messages
		fmt.Printf("%s: %s %q\n", name, out.Stop, out.Text)
	}
	// Output:
	// sales: handoff ""
	// repair: said "Change the bulb."
}

// A conversation is handed over once, after the other calls of the turn, and only by a call that is allowed.
func TestHandoff(t *testing.T) {
	hand := func(to string) scripted.Turn { return scripted.Call("transfer_to_"+to, "{}") }
	for name, c := range map[string]struct {
		turns []scripted.Turn
		gate  tool.Gate
		to    string
		stop  agent.Stop
	}{
		"once":       {[]scripted.Turn{hand("a")}, nil, "a", agent.StopHandoff},
		"twice":      {[]scripted.Turn{hand("b").And(hand("a"))}, nil, "b", agent.StopHandoff},
		"and a tool": {[]scripted.Turn{scripted.Call("look", "{}").And(hand("a")).And(scripted.Call("look", "{}"))}, nil, "a", agent.StopHandoff},
		"nobody":     {[]scripted.Turn{hand("c"), scripted.Say("No.")}, nil, "", agent.StopSaid},
		"denied":     {[]scripted.Turn{hand("a"), scripted.Say("No.")}, denying{}, "", agent.StopSaid},
		"arguments":  {[]scripted.Turn{scripted.Call("transfer_to_a", `{"to":"b"}`), scripted.Say("No.")}, nil, "", agent.StopSaid},
	} {
		t.Run(name, func(t *testing.T) {
			looks := 0
			look, err := tool.New("look", "Look.", func(context.Context, struct{}) (string, error) { looks++; return "seen", nil }, nil)
			if err != nil {
				t.Fatal(err)
			}
			tools, err := tool.NewSet(look)
			if err != nil {
				t.Fatal(err)
			}
			m := &scripted.Model{Turns: c.turns}
			a := &agent.Agent{Name: "lead", Model: m, Tools: tools, Gate: c.gate, Actions: []*agent.Action{agent.Handoff("a", ""), agent.Handoff("b", "")}}
			out, err := a.Run(t.Context(), nil, &agent.Work{Prompt: "Go."})
			if err != nil {
				t.Fatal(err)
			}
			if to := agent.HandedTo(out.Messages); to != c.to || out.Stop != c.stop || m.Unused() != nil {
				t.Errorf("handed to %q, %s, %v; want %q, %s", to, out.Stop, m.Unused(), c.to, c.stop)
			}
			if name == "and a tool" && looks != 2 {
				t.Errorf("looked %d times", looks)
			}
		})
	}
	a := &agent.Agent{Name: "lead", Model: &scripted.Model{}, Actions: []*agent.Action{agent.Handoff("a", "")}, Schema: &jsonschema.Schema{Type: "object"}}
	if _, err := a.Run(t.Context(), nil, &agent.Work{Prompt: "Go."}); err == nil || !strings.Contains(err.Error(), "leave out the hand-off") {
		t.Errorf("an agent with a Schema: %v", err)
	}
	a.Schema, a.Model = nil, outsider{}
	if _, err := a.Run(t.Context(), nil, &agent.Work{Prompt: "Go."}); err == nil || !strings.Contains(err.Error(), "acp/outsider keeps its own") {
		t.Errorf("an external agent: %v", err)
	}
	if to := agent.HandedTo(nil); to != "" {
		t.Errorf("an empty conversation was handed to %q", to)
	}
}

// outsider is an agent of another program.
type outsider struct{ external.Agent }

func (outsider) Name() string { return "acp/outsider" }

// denying denies every call.
type denying struct{}

func (denying) Check(*tool.Tool, *tool.Call) tool.Verdict {
	return tool.Verdict{Decision: tool.Deny, Reason: "no"}
}
