package tui

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

func unmarshal(data []byte, v any) bool { return json.Unmarshal(data, v) == nil }

// message sends a message to the conversation that is shown, or begins one. A message that begins with @ and the name of an agent is for that agent.
func (t *Terminal) message(text string) tea.Cmd {
	if t.catalog == nil && strings.HasPrefix(text, "@") { // it was typed ahead
		return t.withCatalog(func() tea.Cmd { return t.message(text) })
	}
	name, rest := t.addressee(text)
	if t.run == nil || name == "" && t.run.run.Status.Ended() && !t.view.talks() {
		return t.chat(name, rest)
	}
	id, r := t.run.id, &t.run.run
	held := r.Status == runlog.Running && !t.run.ended
	running := held && !r.AwaitsMessage()
	path := ""
	if name != "" {
		at := t.agentHere(name)
		if at == nil || !running {
			return t.chat(name, rest)
		}
		path = at.Path
	} else if task := r.Task(t.addressed()); task != nil && !task.Ended() {
		path = task.Path
	}
	if running && path == "" && !t.view.talks() && !slices.ContainsFunc(r.Active(), func(task *transcript.Task) bool { return task.Agent != "" }) {
		t.fail(errors.New("no agent of this run works now, so nobody would read it; /new begins a chat"))
		t.compose.set(text)
		return nil
	}
	sent := t.compose.hold(id, rest, r.Seq)
	if !held {
		return t.starting(&Start{Run: id, Message: rest}, sent)
	}
	d := &delivery{t: t, run: id, text: rest, path: path, talks: t.view.talks()}
	if !running {
		for _, q := range r.Open() {
			if q.Kind == runlog.QuestionMessage {
				d.asked = q
			}
		}
	}
	write := t.compose.drafts.save()
	t.notice = ""
	return func() tea.Msg {
		id, err := "", write()
		if err == nil {
			id, err = d.deliver()
		}
		return doneMsg{func() {
			sent(err, running && id == "")
			switch {
			case err != nil && t.ctx.Err() == nil:
				t.fail(err)
			case id != "":
				t.shown(id)
			}
		}}
	}
}

// A delivery is a message on its way to a run that executes.
type delivery struct {
	t               *Terminal
	run, path, text string
	asked           *transcript.Question // the open question for the message, nil while the agent works
	talks           bool
}

// deliver sends the message. If nobody executes the run any more, a process of its own does, and deliver returns the run to show.
func (d *delivery) deliver() (id string, err error) {
	ctx := d.t.ctx
	e, err := d.t.reader(ctx)
	if err != nil {
		return "", err
	}
	if d.asked == nil {
		err = e.Steer(ctx, d.run, d.path, d.text)
		if err == nil || !d.talks || ctx.Err() != nil {
			return "", err
		}
		return d.t.backend.Start(ctx, &Start{Run: d.run, Message: d.text}) // its turn has ended in between
	}
	value, err := json.Marshal(d.text)
	if err != nil {
		return "", err
	}
	resumed := false
	_, err = host.Answer(ctx, e, d.run, d.asked.Path, &runlog.Answer{Key: d.asked.Key, Value: value, By: "person"}, func(ctx context.Context) error {
		resumed = true
		id, err = d.t.backend.Start(ctx, &Start{Run: d.run})
		return err
	})
	if err != nil && !resumed {
		return d.t.backend.Start(ctx, &Start{Run: d.run, Message: d.text})
	}
	return id, err
}

// addressee returns the agent that a message is for, "" for none in particular, and the message.
func (t *Terminal) addressee(text string) (name, rest string) {
	word, rest, ok := strings.Cut(text, " ")
	name, is := strings.CutPrefix(word, "@")
	if rest = strings.TrimSpace(rest); !is || !ok || rest == "" {
		return "", text
	}
	if t.agentHere(name) != nil {
		return name, rest
	}
	if t.catalog != nil {
		for i := range t.catalog.Agents {
			if item := &t.catalog.Agents[i]; usable(item) && strings.EqualFold(item.Name, name) {
				return item.Name, rest
			}
		}
	}
	return "", text
}

// agentHere returns the task in which an agent of that name runs in the shown run, nil if there is none.
func (t *Terminal) agentHere(name string) *transcript.Task {
	if t.run == nil {
		return nil
	}
	for _, task := range t.run.run.Active() {
		if strings.EqualFold(task.Agent, name) || strings.EqualFold(task.Label(), name) {
			return task
		}
	}
	return nil
}

// chat begins a conversation with an agent, "" for the usual one.
func (t *Terminal) chat(agent, text string) tea.Cmd {
	in := map[string]any{"prompt": text, "chat": true}
	if agent != "" {
		in["agent"] = agent
	}
	inputs, _ := json.Marshal(in) // texts and true encode
	run := ""
	if t.run != nil {
		run = t.run.id
	}
	return t.starting(&Start{Workflow: "agent", Inputs: inputs}, t.compose.hold(run, text, 0))
}

// start starts a run in a process of its own and shows it.
func (t *Terminal) start(s *Start) tea.Cmd { return t.starting(s, func(error, bool) {}) }

// starting is like start, and calls sent with the lock held when the run has begun or has not, see hold.
func (t *Terminal) starting(s *Start, sent func(err error, queued bool)) tea.Cmd {
	if s.Run == "" && s.Model == "" {
		s.Model = t.model
	}
	t.say("starting …")
	write := t.compose.drafts.save()
	return func() tea.Msg {
		err := write()
		id := ""
		if err == nil {
			id, err = t.backend.Start(t.ctx, s)
		}
		return doneMsg{func() {
			if err != nil {
				t.fail(err)
				sent(err, false)
				return
			}
			t.notice = ""
			sent(nil, false)
			t.shown(id)
		}}
	}
}

// shown shows a run that was started, resumed or continued, and remembers the one before.
func (t *Terminal) shown(id string) {
	if f := t.runs[id]; f != nil {
		f.resume()
	}
	if t.run != nil && t.run.id != id {
		t.before = append(t.before, t.run.id)
	}
	t.open(id)
}

// showBefore shows the run again that was shown before this one.
func (t *Terminal) showBefore() tea.Cmd {
	if n := len(t.before); n > 0 {
		id := t.before[n-1]
		t.before = t.before[:n-1]
		t.open(id)
	}
	return nil
}

// goHome shows the start page.
func (t *Terminal) goHome() {
	if t.run != nil {
		t.before = append(t.before, t.run.id)
	}
	for len(t.panes) > 0 {
		t.pop()
	}
	t.run, t.view, t.card, t.notice = nil, nil, nil, ""
	t.compose.load("")
	t.setFocus(onComposer)
}

// shell runs a command as the agents of a run would: in the sandbox, and unless a rule denies it. Its output is shown to the user alone.
func (t *Terminal) shell(command string) tea.Cmd {
	if command == "" {
		t.say("type a command after the exclamation mark, such as !go test ./...")
		return nil
	}
	args, _ := json.Marshal(map[string]string{"command": command})
	return t.showOutput("! "+command, "tools", "call", "bash", string(args), "--ask=bash")
}

// showOutput shows what a command line of this program prints, on a page of its own. Closing the page ends the command.
func (t *Terminal) showOutput(title string, args ...string) tea.Cmd {
	return t.showResult(title, func(ctx context.Context) (string, error) { return t.backend.Command(ctx, args...) })
}

// showResult shows on a page what a function returns.
func (t *Terminal) showResult(title string, get func(context.Context) (string, error)) tea.Cmd {
	ctx, stop := context.WithCancel(t.ctx)
	p := &textPane{t: t, name: title, stop: stop, running: true}
	t.push(p)
	return func() tea.Msg {
		out, err := get(ctx)
		return doneMsg{func() {
			p.running = false
			stop()
			p.set(out)
			if err != nil && !p.closed {
				p.err = transcript.Clean(err.Error())
			}
		}}
	}
}
