package node_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/node"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/scripted"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/runlogtest"
	"github.com/superstep-dev/superstep/tool"
)

// A chat is a state with a conversation that grows.
type chat struct {
	Talk []model.Message `json:"talk"`
}

func foldChat(c chat, u []model.Message) chat {
	c.Talk = node.Messages(c.Talk, u)
	return c
}

func talked() node.Conversation[chat, []model.Message] {
	return node.Conversation[chat, []model.Message]{
		Messages: func(c chat) []model.Message { return c.Talk },
		Add:      func(_ chat, more []model.Message) ([]model.Message, error) { return more, nil },
	}
}

// reflection is a graph in which a writer answers, a critic who has read all of it answers that, the writer goes on,
// and the conversation is summed up.
func reflection(t *testing.T, m model.Model, spy *tool.Tool) *graph.Flow[chat, []model.Message] {
	t.Helper()
	g := graph.New("reflection", foldChat)
	writer, critic := named("writer", m), named("critic", m)
	writer.Prompt, critic.Prompt, writer.Tools = "You write.", "You judge.", tools(t, spy)
	g.AddNode(node.Chat("write", writer, talked(), nil))
	g.AddNode(node.Chat("judge", critic, talked(), func(chat) (string, error) { return "Judge that.", nil }))
	g.AddNode(node.Chat("mend", writer, talked(), func(chat) (string, error) { return "Mend it.", nil }))
	g.AddNode(node.Clear("clear", talked(), &node.ClearOptions{Keep: 1, Summary: m}))
	for _, e := range [][2]string{{graph.Start, "write"}, {"write", "judge"}, {"judge", "mend"}, {"mend", "clear"}, {"clear", graph.End}} {
		g.Edge(e[0], e[1])
	}
	flow, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return flow
}

func poet() *scripted.Model {
	return &scripted.Model{Answer: func(r *model.Request) scripted.Turn {
		switch end := r.Messages[len(r.Messages)-1]; {
		case strings.HasPrefix(r.System, "Sum up"):
			return scripted.Say("a poem was mended")
		case end.Role == model.User && end.Text() == "Write.":
			return scripted.Call("spy", "{}")
		}
		return scripted.Say(fmt.Sprintf("%s I have read %d.", r.System, len(r.Messages)))
	}}
}

func told(messages []model.Message) (out []string) {
	for _, m := range messages {
		out = append(out, fmt.Sprintf("%s %s", m.Role, m.Text()))
	}
	return out
}

// Agents go on with the conversation of the state, in which each message has an ID of its own, wherever the run is
// cut off, and nothing is asked twice.
func TestChat(t *testing.T) {
	first := model.Message{ID: "hello", Role: model.User, Parts: model.UserText("Write.").Parts}
	want := []string{"user What came before, summed up:\n\na poem was mended", "assistant You write. I have read 7."}
	for n, ended := 0, false; !ended; n++ {
		m := poet()
		spied := 0
		spy := echo(t, "spy", tool.Once, func(*tool.Call) error { spied++; return nil })
		store := runlogtest.NewMortal()
		store.DieAt(n, true)
		var got chat
		run := func() error {
			j, err := journal.Open(t.Context(), store, "run", &journal.Options{Create: &runlog.NewRun{}, Reopen: true})
			if err != nil {
				return err
			}
			defer func() { _ = j.Close(context.Background()) }()
			got, err = reflection(t, m, spy).Run(t.Context(), chat{Talk: []model.Message{first}}, &graph.RunOptions{Journal: j})
			return err
		}
		err := run()
		if errors.Is(err, runlogtest.ErrCrash) {
			store.Revive()
			err = run()
		} else {
			ended = true
		}
		var waits *journal.WaitError
		if err != nil && !errors.As(err, &waits) && !strings.Contains(err.Error(), "paused: ") {
			t.Fatalf("append %d: %v", n, err)
		} else if err != nil {
			continue // the spy was under way, and must not be called twice
		}
		if diff := cmp.Diff(want, told(got.Talk)); diff != "" || spied != 1 {
			t.Errorf("append %d: spied %d times: %s", n, spied, diff)
		}
		ids := map[string]bool{}
		for _, m := range got.Talk {
			if m.ID == "" || ids[m.ID] {
				t.Errorf("append %d: the IDs are %v, twice %q", n, ids, m.ID)
			}
			ids[m.ID] = true
		}
		for _, r := range m.Requests() {
			for _, m := range r.Messages {
				if m.ID != "" {
					t.Errorf("a model was shown the ID %q", m.ID)
				}
			}
		}
		if ended && len(m.Requests()) != 5 {
			t.Errorf("asked %d times", len(m.Requests()))
		}
	}
}

func TestMessages(t *testing.T) {
	say := func(id, text string) model.Message {
		m := model.UserText(text)
		m.ID = id
		return m
	}
	all := []model.Message{say("a", "1"), say("b", "2"), say("", "3")}
	for name, tc := range map[string]struct {
		update, want []model.Message
	}{
		"more":       {[]model.Message{say("c", "4"), say("", "5")}, append(all[:3:3], say("c", "4"), say("", "5"))},
		"in place":   {[]model.Message{say("b", "x")}, []model.Message{all[0], say("b", "x"), all[2]}},
		"removed":    {node.Remove("a", "nobody", "b"), all[2:]},
		"and again":  {append(node.Remove("a"), say("a", "y")), []model.Message{all[1], all[2], say("a", "y")}},
		"all":        {append(node.RemoveAll(), say("z", "9")), []model.Message{say("z", "9")}},
		"of no kind": {nil, all},
	} {
		before := append([]model.Message{}, all...)
		if diff := cmp.Diff(tc.want, node.Messages(all, tc.update), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if diff := cmp.Diff(before, all); diff != "" {
			t.Errorf("%s changed the conversation: %s", name, diff)
		}
	}
}
