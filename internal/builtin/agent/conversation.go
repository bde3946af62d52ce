package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/mail"
	"github.com/superstep-dev/superstep/internal/toolnames"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
)

// An update is a node's addition to the state. One that only has a text is encoded as that, as in logs from before there were
// chats.
type update struct {
	Text string `json:"text,omitempty"` // what the agent said last, if it is not the last of Messages
	// Messages are appended to the conversation, or replace the messages with the same IDs.
	Messages []model.Message `json:"messages,omitempty"`
	Instead  bool            `json:"instead,omitempty"` // the messages take the place of the whole conversation
	Seen     []string        `json:"seen,omitempty"`    // if not nil, in place of those before
	Prompt   string          `json:"prompt,omitempty"`  // what the user says next
	Ended    bool            `json:"ended,omitempty"`   // the user says nothing more
}

type plainUpdate update

// MarshalJSON implements json.Marshaler.
func (u update) MarshalJSON() ([]byte, error) {
	if u.Messages == nil && !u.Instead && !u.Ended && u.Prompt == "" {
		return json.Marshal(u.Text)
	}
	return json.Marshal(plainUpdate(u))
}

// UnmarshalJSON implements json.Unmarshaler.
func (u *update) UnmarshalJSON(b []byte) error {
	*u = update{}
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &u.Text)
	}
	return json.Unmarshal(b, (*plainUpdate)(u))
}

// fold is the reducer.
func fold(s state, u update) state {
	if u.Prompt != "" || u.Ended {
		s.Prompt, s.Ended = cmp.Or(u.Prompt, s.Prompt), u.Ended
		return s
	}
	if s.Text = u.Text; len(u.Messages) == 0 {
		return s
	}
	if u.Seen != nil {
		s.Seen = u.Seen
	}
	s.Text = cmp.Or(s.Text, u.Messages[len(u.Messages)-1].Text())
	if u.Instead {
		s.Messages = u.Messages
		return s
	}
	s.Messages = slices.Clone(s.Messages)
	for _, m := range u.Messages {
		if i := slices.IndexFunc(s.Messages, func(o model.Message) bool { return o.ID == m.ID }); i >= 0 {
			s.Messages[i] = m
		} else {
			s.Messages = append(s.Messages, m)
		}
	}
	return s
}

// turned is the update of an agent that has answered a message. It holds only new messages, so that the log grows with the
// messages and not with the whole conversation.
func turned(s *state, out *agent.Outcome) (u update) {
	if out.Stop == agent.StopLimit {
		u.Text = strings.TrimSpace(fmt.Sprintf("%s\n\n(Stopped after %d turns. Send a message to continue.)", out.Text, out.Turns))
	}
	if len(out.Seen) > len(s.Seen) {
		u.Seen = out.Seen
	}
	all := out.Messages
	if len(all) < len(s.Messages) {
		u.Messages, u.Instead = all, true
		return u
	}
	for i, m := range s.Messages {
		switch {
		case m.ID == "" || all[i].ID != m.ID: // summed up
			u.Messages, u.Instead = all, true
			return u
		case !reflect.DeepEqual(all[i].Parts, m.Parts): // cut down
			u.Messages = append(u.Messages, all[i])
		}
	}
	u.Messages = append(u.Messages, all[len(s.Messages):]...)
	return u
}

// listen adds to the graph of a chat the node that waits for the next message, after work. Each message takes a superstep, and its
// answer another.
func listen(g *graph.Graph[state, update], work string) {
	const next = "next"
	g.AddNode(graph.Node[state, update]{Name: next, Kind: "message", Run: func(ctx context.Context, _ *graph.Task, _ state) (update, error) {
		text, err := graph.Ask[string](ctx, graph.Question{
			Key: "message", Kind: runlog.QuestionMessage, Text: "What is your next message?", Schema: json.RawMessage(`{"type":"string","pattern":"\\S"}`),
		})
		if errors.Is(err, journal.ErrDenied) {
			return update{Ended: true}, nil
		}
		return update{Prompt: text}, err
	}})
	g.Edge(work, next)
	g.Branch(next, func(s state) string {
		if s.Ended {
			return graph.End
		}
		return work
	}, work, graph.End)
	g.MaxSteps(math.MaxInt)
}

// continued implements Continue of workflow.Workflow. For runs of other workflows the conversation consists of their inputs and
// their output.
func continued(records iter.Seq2[runlog.Record, error], message string) (json.RawMessage, error) {
	in := Inputs{}
	var c *conversation
	for r, err := range records {
		if err != nil {
			return nil, err
		}
		if r.Kind == runlog.KindRunStarted {
			var d runlog.RunStarted
			if err := json.Unmarshal(r.Data, &d); err != nil {
				return nil, fmt.Errorf("how the run began: %w", err)
			}
			c = &conversation{lead: d.Workflow == Name}
			if !c.lead {
				in.Seen = []string{"run_workflow"} // its output may be what strangers wrote
				c.say(model.User, fmt.Sprintf("The workflow %s was run with these inputs:\n\n%s", d.Workflow, d.Inputs))
			} else if err := json.Unmarshal(d.Inputs, &in); err != nil {
				return nil, fmt.Errorf("the inputs of the run: %w", err)
			}
			c.messages = append(c.messages, in.Messages...)
			if im := d.Imported; im != nil { // rights are those of whoever imported it
				in.Model, in.Rules, in.OnAsk, in.Dir = "", nil, "", im.Dir
			}
			continue
		}
		if c == nil {
			return nil, errors.New("its log does not say how the run began")
		}
		if err := c.see(&r); err != nil {
			return nil, err
		}
	}
	if c == nil {
		return nil, errors.New("its log is empty")
	}
	c.answer()
	in.Prompt, in.Chat, in.Definition = message, true, nil
	for _, m := range c.messages {
		if name := toolnames.PromptOf(m.Text()); name != "" && m.Role == model.User && !slices.Contains(in.Seen, name) {
			in.Seen = append(in.Seen, name)
		}
		for _, p := range m.Parts {
			if p.Kind == model.Result && !slices.Contains(in.Seen, p.Call.Name) {
				if in.Seen = append(in.Seen, p.Call.Name); slices.Contains(c.network, p.Call.Name) {
					in.Seen = append(in.Seen, p.Call.Name+tool.Networked)
				}
			}
		}
	}
	if slices.Contains(c.network, "*") {
		in.Seen = append(in.Seen, tool.ExternalAgent)
	}
	in.Messages = bound(c.messages, mostContinued)
	for i := range in.Messages {
		in.Messages[i].ID = fmt.Sprintf("before-%d", i+1) // those of the run that continues are its own
	}
	return json.Marshal(&in)
}

// A conversation is the conversation recorded in a log.
type conversation struct {
	lead     bool // the run has a lead, whose conversation it is
	messages []model.Message
	calls    []model.Call // of the last turn, whose results are not among the messages yet
	results  map[string]tool.Result
	network  []string // the tools that reached the network, "*" for an external agent
}

func (c *conversation) say(role model.Role, text string) {
	c.messages = append(c.messages, model.Message{Role: role, Parts: []model.Part{{Kind: model.Text, Text: text}}})
}

// answer adds the results of the last turn.
func (c *conversation) answer() {
	if len(c.calls) == 0 {
		return
	}
	answers := model.Message{Role: model.Tool}
	for i, call := range c.calls {
		res, ok := c.results[fmt.Sprintf("call-%d", i)]
		if !ok {
			res = tool.Failed("the run ended before there was a result")
		}
		answers.Parts = append(answers.Parts, model.ToolResult(call, res.Text, res.Error).Parts...)
	}
	c.messages, c.calls, c.results = append(c.messages, answers), nil, nil
}

func (c *conversation) see(r *runlog.Record) error {
	switch {
	case !c.lead && r.Kind == runlog.KindRunFinished:
		var d runlog.RunFinished
		if err := json.Unmarshal(r.Data, &d); err != nil {
			return fmt.Errorf("how the run ended: %w", err)
		}
		c.say(model.Assistant, "Its output:\n\n"+text(d.Output))
	case !c.lead && r.Kind == runlog.KindRunFailed:
		var d runlog.RunFailed
		if err := json.Unmarshal(r.Data, &d); err != nil {
			return fmt.Errorf("how the run ended: %w", err)
		}
		c.say(model.Assistant, "It failed: "+d.Error)
	case c.lead && r.Kind == runlog.KindSettled && !strings.Contains(r.Path, "/"):
		var d runlog.Settled
		if err := json.Unmarshal(r.Data, &d); err != nil {
			return fmt.Errorf("an effect of %s: %w", r.Path, err)
		}
		if d.Error == "" {
			return c.effect(r.Path, &d)
		}
	}
	return nil
}

// effect adds an effect of the lead.
func (c *conversation) effect(path string, d *runlog.Settled) error {
	turn, call, _ := strings.Cut(strings.TrimPrefix(d.Key, "results/"), "/")
	var err error
	switch {
	case d.Kind == "agent" && d.Key == "agent":
		var began struct {
			Prompt  string
			Network []string
		}
		if err = json.Unmarshal(d.Input, &began); err == nil {
			c.network = append(c.network, began.Network...)
			c.answer()
			c.say(model.User, began.Prompt)
		}
	case d.Kind == "model" && strings.HasPrefix(turn, "turn-") && call == "":
		var resp model.Response
		if err = json.Unmarshal(d.Output, &resp); err == nil && len(resp.Message.Parts) > 0 {
			c.answer()
			c.messages, c.calls = append(c.messages, resp.Message), resp.Message.Calls()
		}
	case d.Kind == mail.KindSteer:
		c.answer()
		for _, m := range mail.SteeringOf(d) {
			if !m.Compact {
				c.say(model.User, m.Text)
			}
		}
	case d.Kind == "tool" && strings.HasPrefix(turn, "turn-"):
		var res tool.Result
		if err = json.Unmarshal(d.Output, &res); err == nil {
			if c.results == nil {
				c.results = map[string]tool.Result{}
			}
			c.results[call] = res
		}
	}
	if err != nil {
		return fmt.Errorf("%s: effect %q: %w", path, d.Key, err)
	}
	return nil
}

// mostContinued is the largest size in bytes of a conversation that a run continues, about 250,000
// tokens.
const mostContinued = 1 << 20

// bound returns the end of a conversation, from a message of the user on, that has at most so many bytes. Its last message stays
// whole.
func bound(messages []model.Message, most int) []model.Message {
	from, size := len(messages), 0
	for i, m := range slices.Backward(messages) {
		b, err := json.Marshal(m)
		if size += len(b); err != nil || size > most && from < len(messages) {
			break
		}
		if m.Role == model.User {
			from = i
		}
	}
	if from == 0 || len(messages) == 0 {
		return messages
	}
	left := model.UserText(fmt.Sprintf("[The first %d messages of this conversation were left out.]", from))
	return append([]model.Message{left}, messages[from:]...)
}
