package tui

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"charm.land/bubbles/v2/textarea"
	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/transcript"
)

// A forkPane tells what a fork would do, and makes it once it is confirmed.
type forkPane struct {
	t       *Terminal
	id      string
	at      uint64
	opt     superstep.ForkOptions
	seen    *superstep.Fork // a preview
	edited  []changeLine
	cost    string // what the run has cost since then
	working bool
	scroller
}

// previewFork asks what a fork would be, and shows it. Then runs with the lock held if there is such a fork.
func (t *Terminal) previewFork(id string, at uint64, opt superstep.ForkOptions, before json.RawMessage, cost string, then func()) tea.Cmd {
	opt.Preview = true
	p := &forkPane{t: t, id: id, at: at, opt: opt, cost: cost}
	return t.do("looking at what a fork would do", func(ctx context.Context, e *superstep.Engine) (err error) {
		p.seen, err = e.Fork(ctx, id, at, &p.opt)
		return err
	}, func() {
		t.notice = ""
		if len(opt.Edits) > 0 {
			p.edited = changesOf(before, p.seen.State)
		}
		if then != nil {
			then()
		}
		t.push(p)
	})
}

func (p *forkPane) title() string { return fmt.Sprintf("FORK at record %d", p.seen.Seq) }
func (p *forkPane) hints() string {
	return "Enter fork and run · n fork, do not run yet · ↑↓ scroll · Esc back"
}

func (p *forkPane) draw(w, h int) []string {
	pal, f := p.t.pal, p.seen
	out := []string{"", fmt.Sprintf("A new run from run %s after %s (record %d). Run %s stays as it is.", p.id, inwords.Plural(f.Step, "superstep"), f.Seq, p.id), ""}
	if len(p.opt.Edits) > 0 {
		out = append(out, "The state it begins with is changed:")
		for _, c := range p.edited {
			out = append(out, "  "+c.sign+" "+c.path+"  "+c.text)
		}
		if len(p.edited) == 0 {
			out = append(out, "  nothing: the value is the same, or the field's reducer leaves the state as it was")
		}
		out = append(out, "")
	}
	kept := inwords.Plural(f.Step, "superstep")
	if len(f.Kept) > 0 {
		kept += ", and the results of " + listed(f.Kept)
	}
	out = append(out, pal.Green("✓")+" replayed from the log, $0.00: "+kept)
	if len(f.Next) == 0 {
		out = append(out, pal.Dim("· ")+"nothing is left to compute")
	} else {
		out = append(out, "● computed next: "+listed(f.Next))
	}
	if f.Turns > 0 {
		line := fmt.Sprintf("$ models are asked again: %s of run %s came after this record", inwords.Plural(f.Turns, "turn"), p.id)
		if p.cost != "" {
			line += "; what came after it cost " + p.cost
		}
		out = append(out, line)
	}
	for _, x := range f.Repeats {
		sign, once := "!", ""
		if x.Once {
			once = " — declared to happen once"
		}
		out = append(out, pal.Yellow(sign)+" may happen again: "+transcript.Line(strings.TrimSpace(x.Kind+" "+x.Name+" "+x.Key)+" in "+x.Path)+once)
	}
	if len(f.Repeats) == 0 {
		out = append(out, pal.Dim("· no effect of the run happens again"))
	}
	if p.working {
		out = append(out, "", "forking …")
	} else {
		out = append(out, "", "Enter forks and runs it; Esc goes back.")
	}
	var lines []string
	for _, l := range out {
		for _, part := range wrapLine(l, w-1, 2) {
			lines = append(lines, " "+part)
		}
	}
	return p.view(lines, h)
}

// listed names some paths.
func listed(paths []string) string {
	const most = 6
	out := transcript.Line(strings.Join(paths[:min(most, len(paths))], ", "))
	if n := len(paths) - most; n > 0 {
		out += fmt.Sprintf(" and %d more", n)
	}
	return out
}

func (p *forkPane) key(k tea.KeyPressMsg) tea.Cmd {
	switch name := k.String(); {
	case p.t.keys.is(k, "back"), p.t.keys.is(k, "quit"):
		p.t.pop()
	case p.working:
	case name == "enter":
		return p.make(true)
	case name == "n":
		return p.make(false)
	default:
		p.scroller.key(k)
	}
	return nil
}

// make makes the fork, and executes it in a process of its own.
func (p *forkPane) make(run bool) tea.Cmd {
	t, opt := p.t, p.opt
	opt.Preview, p.working = false, true
	t.say("forking …")
	return func() tea.Msg {
		var fork *superstep.Fork
		e, err := t.reader(t.ctx)
		if err == nil {
			fork, err = e.Fork(t.ctx, p.id, p.at, &opt)
		}
		if err != nil {
			return doneMsg{func() { p.working = false; t.fail(err) }}
		}
		if run {
			_, err = t.backend.Start(t.ctx, &Start{Run: fork.ID})
		}
		return doneMsg{func() {
			p.working = false
			t.open(fork.ID)
			switch {
			case err != nil:
				t.fail(fmt.Errorf("run %s is forked, but it could not be started: %w; /resume tries again", fork.ID, err))
			case run:
				t.say(fmt.Sprintf("run %s goes on from record %d of run %s", fork.ID, fork.Seq, p.id))
			default:
				t.say(fmt.Sprintf("run %s is forked from run %s; /resume runs it", fork.ID, p.id))
			}
		}}
	}
}

// fork shows what a fork at the cursor would do. It begins in the run's own graph.
func (p *historyPane) fork(edits []graph.Edit, path string) tea.Cmd {
	if p.past.space != "" {
		return p.t.previewFork(p.f.id, p.past.seq(p.at), superstep.ForkOptions{}, nil, p.since(), func() { p.t.say("a fork begins at a checkpoint of the run's own graph") })
	}
	if p.flow == nil || p.unread != nil {
		p.t.fail(fmt.Errorf("run %s cannot be forked here: %w", p.f.id, cmp.Or(p.unread, errors.New("its workflow is not available"))))
		return nil
	}
	i := p.moment()
	if i < 0 {
		p.t.say("the graph of the run had not begun there; go to a later record")
		return nil
	}
	var then func()
	if path != "" {
		then = func() {
			if _, editing := p.t.top().(*editPane); editing { // what was edited stays in the drafts
				p.t.pop()
			}
		}
	}
	return p.t.previewFork(p.f.id, p.past.seq(p.at), superstep.ForkOptions{Edits: edits}, p.moments[i].state, p.since(), then)
}

// since is what the run has cost after the records that are shown.
func (p *historyPane) since() string {
	money := p.past.whole.Spent.Money - p.then.run.Spent.Money
	if p.past.whole.Unpriced && money <= 0 {
		return ""
	}
	return inwords.Dollars(max(0, money))
}

// edit edits the selected value, to fork with it.
func (p *historyPane) edit() tea.Cmd {
	lines, _ := p.tree()
	if len(lines) == 0 {
		p.t.say("there is no state to edit")
		return nil
	}
	path := lines[p.selected(lines)].node.path
	i := p.moment()
	if input, ok := strings.CutPrefix(path, "inputs:/"); ok {
		name, _, _ := strings.Cut(input, "/")
		return p.editInput(unpointed(name))
	}
	if p.past.space != "" {
		p.t.say("only the state of the run's own graph can be edited; Esc goes back to it")
		return nil
	}
	if i < 0 || p.moments[i].state == nil {
		p.t.say("the state is not read yet")
		return nil
	}
	state := p.moments[i].state
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	key := unpointed(parts[0])
	var label string
	var value json.RawMessage
	var edit func(v json.RawMessage) graph.Edit
	if p.pinned && len(parts) > 1 { // of a recipe: the output of a step
		var s struct {
			Steps map[string]struct{ Output json.RawMessage }
		}
		_ = json.Unmarshal(state, &s)
		key = unpointed(parts[1])
		path, label, value = "/steps/"+parts[1], "the output of step "+key, s.Steps[key].Output
		edit = func(v json.RawMessage) graph.Edit { return graph.Edit{Node: key, Update: v} }
	} else {
		var s map[string]json.RawMessage
		_ = json.Unmarshal(state, &s)
		path, label, value = "/"+parts[0], "the field "+key+" of the state", s[key]
		edit = func(v json.RawMessage) graph.Edit {
			update, _ := json.Marshal(map[string]json.RawMessage{key: v})
			return graph.Edit{Update: update}
		}
	}
	note := ""
	if !p.pinned {
		note = "The field's reducer applies it: one that appends makes a list longer. The next page shows the result."
	}
	p.t.push(newEditPane(p, path, label, note, value, func(v json.RawMessage) tea.Cmd { return p.fork([]graph.Edit{edit(v)}, path) }))
	return nil
}

func unpointed(s string) string { return strings.NewReplacer("~1", "/", "~0", "~").Replace(s) }

// editInput edits an input of the run. All of the run depends on its inputs, so a new run begins with them.
func (p *historyPane) editInput(name string) tea.Cmd {
	t, flow := p.t, p.past.whole.Workflow
	var inputs map[string]json.RawMessage
	if err := json.Unmarshal(p.past.whole.Inputs, &inputs); err != nil || inputs[name] == nil {
		t.say("the run has no such input")
		return nil
	}
	path := "inputs:/" + name
	p.t.push(newEditPane(p, path, "the input "+name, "Everything depends on the inputs: a new run begins with them, and nothing is replayed.", inputs[name],
		func(v json.RawMessage) tea.Cmd {
			inputs[name] = v
			all, err := json.Marshal(inputs)
			if err != nil {
				t.fail(err)
				return nil
			}
			t.say("starting …")
			return func() tea.Msg {
				id, err := t.backend.Start(t.ctx, &Start{Workflow: flow, Inputs: all})
				return doneMsg{func() {
					if err != nil {
						t.fail(err) // what was edited is still there
						return
					}
					delete(p.drafts, path)
					t.open(id)
				}}
			}
		}))
	return nil
}

// An editPane edits a JSON value.
type editPane struct {
	p        *historyPane
	path     string // of the draft
	label    string
	note     string
	area     textarea.Model
	original string
	use      func(v json.RawMessage) tea.Cmd
}

func newEditPane(p *historyPane, path, label, note string, value json.RawMessage, use func(json.RawMessage) tea.Cmd) *editPane {
	e := &editPane{p: p, path: path, label: label, note: note, use: use}
	e.area = textarea.New()
	e.area.Prompt, e.area.ShowLineNumbers, e.area.EndOfBufferCharacter, e.area.CharLimit, e.area.MaxHeight = "", false, ' ', 0, 0
	e.area.SetStyles(textarea.Styles{})
	var b bytes.Buffer
	if json.Indent(&b, value, "", "  ") != nil {
		b.Reset()
		b.Write(value)
	}
	e.original = transcript.Clean(b.String())
	text := e.original
	if draft, ok := p.drafts[path]; ok {
		text = draft
	}
	e.area.SetValue(text)
	e.area.Focus()
	return e
}

func (e *editPane) title() string { return "EDIT " + e.label }
func (e *editPane) hints() string {
	return "^S fork with it · ^X $EDITOR · Esc back, it is kept"
}

func (e *editPane) draw(w, h int) []string {
	pal := e.p.t.pal
	head := []string{" " + pal.Bold(cut(e.label+", as JSON; what is no JSON is a text", w-2))}
	if e.note != "" {
		for l := range strings.SplitSeq(ansi.Wrap(e.note, max(8, w-2), ""), "\n") {
			head = append(head, " "+pal.Dim(l))
		}
	}
	head = append(head, "")
	head = head[:max(0, min(len(head), h-2))]
	e.area.SetWidth(max(4, w-2))
	e.area.SetHeight(max(1, h-len(head)))
	for l := range strings.SplitSeq(e.area.View(), "\n") {
		head = append(head, " "+l)
	}
	return fitted(head, w, h)
}

// changed reports whether there is something that leaving would lose.
func (e *editPane) changed() bool { return e.area.Value() != e.original }

// editing reports whether a value is being edited that has changed.
func (t *Terminal) editing() bool {
	e, ok := t.top().(*editPane)
	return ok && len(t.panes) > 0 && e.changed()
}

func (e *editPane) keep() {
	if e.changed() {
		e.p.drafts[e.path] = e.area.Value()
	} else {
		delete(e.p.drafts, e.path)
	}
}

func (e *editPane) key(k tea.KeyPressMsg) (cmd tea.Cmd) {
	switch {
	case e.p.t.keys.is(k, "back"):
		e.p.t.pop()
	case k.String() == "ctrl+s":
		return e.submit()
	case e.p.t.keys.is(k, "editor"):
		return e.external()
	default:
		e.area, cmd = e.area.Update(k)
		e.keep()
	}
	return cmd
}

func (e *editPane) paste(s string) (cmd tea.Cmd) {
	e.area, cmd = e.area.Update(tea.PasteMsg{Content: s})
	e.keep()
	return cmd
}

// submit uses what was edited. Of a text that begins like JSON, mistakes are named.
func (e *editPane) submit() tea.Cmd {
	text := strings.TrimSpace(e.area.Value())
	raw := json.RawMessage(text)
	if !json.Valid(raw) {
		if strings.ContainsAny(text[:min(1, len(text))], `{["`) {
			var v any
			err := json.Unmarshal(raw, &v)
			if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
				before := text[:max(0, min(int(syntax.Offset)-1, len(text)))]
				line := strings.Count(before, "\n") + 1
				err = fmt.Errorf("line %d, column %d: %w", line, len([]rune(before[strings.LastIndexByte(before, '\n')+1:]))+1, err)
			}
			e.p.t.fail(err)
			return nil
		}
		raw, _ = json.Marshal(text)
	}
	return e.use(raw)
}

// external edits the value in the user's editor.
func (e *editPane) external() tea.Cmd {
	return e.p.t.inEditor("value-*.json", e.area.Value(), func(text string) {
		e.area.SetValue(text)
		e.keep()
	})
}
