package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
)

// A Conversation names where in a state a conversation is.
type Conversation[S, U any] struct {
	Messages func(S) []model.Message
	// Add returns the update that appends messages. The log then stores only the new messages of
	// each step. If nil, Chat uses Replace.
	Add func(S, []model.Message) (U, error)
	// Replace returns the update after which the conversation is another one. If nil, Add is given
	// [RemoveAll] and the messages, which fits a state whose reducer is [Messages].
	Replace func(S, []model.Message) (U, error)
}

func (c *Conversation[S, U]) replace(s S, all []model.Message) (U, error) {
	if c.Replace != nil {
		return c.Replace(s, all)
	}
	return c.Add(s, append(RemoveAll(), all...))
}

// Chat returns a node in which an agent continues a conversation. The update holds the whole
// conversation at its end, with all messages, calls and results, cut to the window of the model.
// Prompt returns the user's next message. If nil, the conversation must end with a message that
// awaits an answer. After a crash the agent resumes in the middle, like an [Agent] node. If the
// agent may hand the conversation over (see agent.Handoff), let a Branch behind the node follow
// agent.HandedTo.
func Chat[S, U any](name string, def *agent.Agent, conv Conversation[S, U], prompt func(S) (string, error)) graph.Node[S, U] {
	n := graph.Node[S, U]{Name: name, Kind: "agent", Agents: 1, Err: errors.Join(whole(def), conv.whole())}
	n.Run = func(ctx context.Context, t *graph.Task, s S) (u U, err error) {
		w := agent.Work{Messages: conv.Messages(s), State: snapshot(s)}
		if prompt != nil {
			if w.Prompt, err = prompt(s); err != nil {
				return u, err
			}
		}
		w.Prompt = strings.TrimLeft(withFeedback(w.Prompt, t.Feedback()), "\n")
		out, err := converse(ctx, t, def, &w)
		switch {
		case err != nil:
			return u, err
		case conv.Add != nil && !out.Shortened:
			return conv.Add(s, out.Messages[len(w.Messages):])
		}
		return conv.replace(s, out.Messages)
	}
	return n
}

// removed is the role of a message that removes another one. It occurs only in updates.
const removed model.Role = "removed"

// Remove returns an update for [Messages] that removes the messages with the given IDs from a
// conversation.
func Remove(ids ...string) []model.Message {
	out := make([]model.Message, len(ids))
	for i, id := range ids {
		out[i] = model.Message{ID: id, Role: removed}
	}
	return out
}

// RemoveAll returns an update for [Messages] that removes all messages from a conversation. Messages that follow it
// in the update are added.
func RemoveAll() []model.Message { return []model.Message{{Role: removed}} }

// Messages returns a reducer for conversations: each message of an update replaces the one with its
// ID, or else is appended, and the updates of [Remove] and [RemoveAll] remove messages. Removing an
// unknown ID does nothing.
func Messages(conversation, update []model.Message) []model.Message {
	out := slices.Clone(conversation)
	for _, m := range update {
		at := -1
		if m.ID != "" {
			at = slices.IndexFunc(out, func(o model.Message) bool { return o.ID == m.ID })
		}
		switch {
		case m.Role == removed && m.ID == "":
			out = nil
		case m.Role == removed && at >= 0:
			out = slices.Delete(out, at, at+1)
		case m.Role == removed:
		case at >= 0:
			out[at] = m
		default:
			out = append(out, m)
		}
	}
	return out
}

func (c *Conversation[S, U]) whole() error {
	return errors.Join(missing("conversation's Messages", c.Messages == nil), missing("conversation's Add or Replace", c.Add == nil && c.Replace == nil))
}

// ClearOptions are the settings of Clear. Nil means the defaults.
type ClearOptions struct {
	Keep    int         // messages to keep from the end, and what these answer; defaults to 0
	Summary model.Model // what sums the others up, in a message of their own; nil for no summary
}

// Clear returns a node that drops a conversation, or all but its end.
func Clear[S, U any](name string, conv Conversation[S, U], opt *ClearOptions) graph.Node[S, U] {
	var o ClearOptions
	if opt != nil {
		o = *opt
	}
	n := graph.Node[S, U]{Name: name, Kind: "context", Err: conv.whole()}
	if o.Keep < 0 {
		n.Err = errors.Join(n.Err, fmt.Errorf("it is to keep %d messages", o.Keep))
	}
	n.Run = func(ctx context.Context, t *graph.Task, s S) (u U, err error) {
		short, err := shorten(ctx, t, conv.Messages(s), o.Keep, o.Summary)
		if err != nil {
			return u, err
		}
		return conv.replace(s, short)
	}
	return n
}

// MonitorOptions are the settings of Monitor.
type MonitorOptions[S any] struct {
	Window int // tokens that the model takes; must be given
	// Used is how many tokens the conversation takes, such as the input of the last turn's
	// model.Usage. If nil, it is estimated as a quarter of the bytes.
	Used func(S) int
	// Warn, Summarize and Recreate are parts of the window, 0 to 1. The highest threshold reached
	// decides the action of a Monitor: at Warn it only emits an event; at Summarize it replaces all
	// but the last messages by a summary; at Recreate it begins a new conversation with a summary
	// of the old one. 0 means never. If all are 0, they are 0.45 to summarize and 0.6 to recreate
	// with a Summary, else 0.45 to warn.
	Warn, Summarize, Recreate float64

	Keep    int         // messages that summarizing leaves, and what these answer; defaults to 6
	Summary model.Model // what sums up
}

// level is the data of the event "context", which a [Monitor] emits when it does something.
type level struct {
	Used   int    `json:"used"` // tokens
	Window int    `json:"window"`
	Action string `json:"action"`
}

// These are the actions of a Monitor.
const (
	warn      = "warn"
	summarize = "summarize"
	recreate  = "recreate"
)

// Monitor returns a node that keeps a conversation within its model's window. If no action is
// needed, or only a warning, its update is the zero U.
func Monitor[S, U any](name string, conv Conversation[S, U], opt MonitorOptions[S]) graph.Node[S, U] {
	if opt.Used == nil {
		opt.Used = func(s S) int { return estimate(conv.Messages(s)) }
	}
	if opt.Keep == 0 {
		opt.Keep = 6
	}
	switch none := opt.Warn == 0 && opt.Summarize == 0 && opt.Recreate == 0; {
	case none && opt.Summary != nil:
		opt.Summarize, opt.Recreate = 0.45, 0.6
	case none:
		opt.Warn = 0.45
	}
	n := graph.Node[S, U]{Name: name, Kind: "context", Err: errors.Join(conv.whole(), opt.wrong())}
	n.Run = func(ctx context.Context, t *graph.Task, s S) (u U, err error) {
		l := level{Used: opt.Used(s), Window: opt.Window}
		if l.Action = opt.action(l.Used); l.Action == "" {
			return u, nil
		}
		if l.Action != warn {
			keep := opt.Keep
			if l.Action == recreate {
				keep = 0
			}
			short, err := shorten(ctx, t, conv.Messages(s), keep, opt.Summary)
			if err != nil {
				return u, err
			}
			if u, err = conv.replace(s, short); err != nil {
				return u, err
			}
		}
		return u, t.Emit(ctx, "context", l)
	}
	return n
}

func (o *MonitorOptions[S]) wrong() error {
	var errs []error
	if o.Window <= 0 {
		errs = append(errs, errors.New("its window is not given"))
	}
	if o.Keep < 0 {
		errs = append(errs, fmt.Errorf("it is to keep %d messages", o.Keep))
	}
	for _, at := range []float64{o.Warn, o.Summarize, o.Recreate} {
		if at < 0 || at > 1 {
			errs = append(errs, fmt.Errorf("%v is no part of its window; give one from 0 to 1", at))
		}
	}
	if o.Summary == nil && (o.Summarize != 0 || o.Recreate != 0) {
		errs = append(errs, errors.New("it wants a Summary, the model that sums up"))
	}
	return errors.Join(errs...)
}

func (o *MonitorOptions[S]) action(used int) (do string) {
	highest := 0.0
	for i, at := range []float64{o.Warn, o.Summarize, o.Recreate} {
		if at > 0 && at >= highest && float64(used) >= at*float64(o.Window) {
			highest, do = at, []string{warn, summarize, recreate}[i]
		}
	}
	return do
}

// estimate returns about how many tokens messages take: a quarter of their bytes, which is the
// rule of thumb for English text.
func estimate(messages []model.Message) int {
	bytes := 0
	for _, m := range messages {
		for _, p := range m.Parts {
			bytes += len(p.Text)
			if p.Call != nil {
				bytes += len(p.Call.Name) + len(p.Call.Args)
			}
		}
	}
	return (bytes + 3) / 4
}

// shorten keeps the end of a conversation and a summary of the rest. An end that begins
// with results keeps the turn they answer too: without it, no model would take them.
func shorten(ctx context.Context, t *graph.Task, messages []model.Message, keep int, by model.Model) ([]model.Message, error) {
	cut := max(0, len(messages)-keep)
	for cut > 0 && cut < len(messages) && messages[cut].Role == model.Tool {
		cut--
	}
	if cut == 0 {
		return messages, nil
	}
	rest := slices.Clone(messages[cut:])
	if by == nil {
		return rest, nil
	}
	sum, err := agent.Summarize(ctx, t.Scope(), by, "summary", messages[:cut])
	if last := messages[cut-1].ID; last != "" {
		sum.ID = last + "/summary"
	}
	return append([]model.Message{sum}, rest...), err
}
