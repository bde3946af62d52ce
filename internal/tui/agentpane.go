package tui

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

// An agentPane shows one task in full: what it was given, what it said and did, and who works for it. It draws what the run view draws, by its cache.
type agentPane struct {
	t      *Terminal
	view   *runPane // of the run
	path   string
	scroll int // lines below what is seen
	height int
	cur    cursor
	below  bool // the cursor is on those who work for it

	given, gave json.RawMessage // of a task without an agent
	readRev     uint64          // of the task when they were read
	reading     bool
}

// openAgent shows a task of the shown run in full.
func (t *Terminal) openAgent(path string) tea.Cmd {
	p := newAgentPane(t, t.run, path)
	if n := len(t.panes); n > 0 {
		if _, ok := t.panes[n-1].(*agentPane); ok && n > 16 { // up and down again and again
			t.panes = t.panes[:n-1]
		}
	}
	t.push(p)
	return p.tick(t.opt.Now())
}

func newAgentPane(t *Terminal, f *following, path string) *agentPane {
	p := &agentPane{t: t, view: t.view, path: path}
	if t.view == nil || t.view.f != f {
		p.view = newRunPane(t, f)
	}
	return p
}

func (p *agentPane) task() *transcript.Task { return p.view.f.run.Task(p.path) }

func (p *agentPane) title() string {
	if task := p.task(); task != nil {
		return called(task)
	}
	return p.path
}

// hints are the footer: where this task is among others, and the keys.
func (p *agentPane) hints() string {
	task := p.task()
	if task == nil {
		return "Esc back"
	}
	var out []string
	if beside := p.beside(task); len(beside) > 1 {
		at := slices.Index(beside, task) + 1
		name := called(task)
		out = append(out, fmt.Sprintf("%s %d/%d", name, at, len(beside)))
		if p.above(task) != nil {
			out = append(out, "↑ parent")
		}
		out = append(out, "←→ sibling")
	} else if p.above(task) != nil {
		out = append(out, "↑ parent")
	}
	if len(p.helpers(task)) > 0 {
		out = append(out, "↓ its agents")
	}
	if !task.Ended() {
		if len(task.Agents) > 0 {
			out = append(out, "Tab write to it")
		}
		out = append(out, "s stop it")
	}
	return strings.Join(append(out, "PgUp PgDn scroll", "^O expand", "Esc back"), " · ")
}

// above is the nearest task around a task that has something to show, nil for a task of the graph.
func (p *agentPane) above(task *transcript.Task) *transcript.Task {
	for up := task.Parent; up != nil; up = up.Parent {
		if !holds(up) {
			return up
		}
	}
	return nil
}

// holds reports whether a task only holds others, such as a call of several agents.
func holds(t *transcript.Task) bool {
	return len(t.Agents) == 0 && len(t.Children) > 0 && t.State != transcript.Waiting
}

// called is what a task is called where it is shown alone.
func called(t *transcript.Task) string {
	for up := t.Parent; up != nil; up = up.Parent {
		if len(up.Agents) > 0 {
			return helper(t)
		}
	}
	return t.Label()
}

// beside returns the tasks beside a task, and it, as declared.
func (p *agentPane) beside(task *transcript.Task) []*transcript.Task {
	r := &p.view.f.run
	if up := p.above(task); up != nil {
		return p.helpers(up)
	}
	s := r.Step(task.Step)
	if s == nil {
		return nil
	}
	return p.flat(s.Own())
}

// flat returns tasks as declared, and instead of one that only holds others these.
func (p *agentPane) flat(tasks []*transcript.Task) (out []*transcript.Task) {
	for _, t := range ordered(&p.view.f.run, tasks) {
		if holds(t) {
			out = append(out, p.flat(t.Children)...)
		} else {
			out = append(out, t)
		}
	}
	return out
}

// helpers returns those who work for a task, as declared.
func (p *agentPane) helpers(task *transcript.Task) []*transcript.Task {
	return slices.DeleteFunc(p.flat(task.Children), func(t *transcript.Task) bool { // calls that hold nobody are told by their lines
		return len(t.Agents) == 0 && len(t.Parts) == 0 && t.State != transcript.Waiting && !t.Queued
	})
}

func (p *agentPane) draw(w, h int) []string {
	t, task := p.t, p.task()
	if task == nil {
		text := " opening " + transcript.Line(p.path) + " …"
		if p.view.f.loaded {
			text = " run " + p.view.f.id + " has no task " + transcript.Line(p.path)
		}
		return []string{"", t.pal.Dim(cut(text, w))}
	}
	head := p.head(task, w)
	tail := p.team(task, w, max(3, h/3))
	if len(head)+len(tail)+4 > h { // a small screen
		head, tail = head[:1], tail[:min(len(tail), max(0, h/2-1))]
	}
	p.height = max(1, h-len(head)-len(tail))
	body := upwards(p.height, &p.scroll, func(yield func([]string) bool) {
		if end := p.end(task, w); end != nil && !yield(end) {
			return
		}
		if p.view.alone(task, w, yield) {
			yield(p.first(task, w))
		}
	})
	for len(tail) > 0 && len(body) < p.height {
		body = append(body, "")
	}
	return slices.Concat(head, body, tail)
}

// head tells how the task is, and what it has used.
func (p *agentPane) head(task *transcript.Task, w int) []string {
	t, now := p.t, p.t.opt.Now()
	sign, doing, _ := t.paint().state(row{Task: task}, now)
	left := " " + sign + " " + t.pal.Bold(cmp.Or(task.Agent, task.Node))
	if label := called(task); label != task.Agent && label != task.Node {
		left += "  " + t.pal.Dim(transcript.Line(label))
	}
	word := string(task.State)
	switch {
	case task.Queued:
		word = "queued"
	case !task.RetryAt.IsZero():
		word = "waits to try again"
	}
	if doing != "" && ansi.Strip(doing) != word && !task.Ended() {
		word += ": " + ansi.Strip(doing)
	}
	if task.Why != "" {
		word += ": " + transcript.Line(task.Why)
	}
	out := []string{apart(left+"  "+word, inwords.Brief(task.Time.Elapsed(now)), w)}
	var facts []string
	if n := len(task.Agents); n > 0 {
		a := task.Agents[n-1]
		facts = append(facts, transcript.Line(a.Model))
		if a.Window > 0 && a.Used > 0 {
			facts = append(facts, fmt.Sprintf("context %s of %s, %d%%", inwords.Count(a.Used), inwords.Count(a.Window), min(100, 100*a.Used/a.Window)))
		} else if a.Used > 0 {
			facts = append(facts, "context "+inwords.Count(a.Used))
		}
		turns, calls := 0, 0
		for _, a := range task.Agents {
			turns += a.Turns
			calls += a.Called
		}
		facts = append(facts, inwords.Plural(turns, "turn"), inwords.Plural(calls, "tool call"))
	}
	if n := task.Usage.In + task.Usage.Out; n > 0 {
		facts = append(facts, fmt.Sprintf("%s tokens in, %s out", inwords.Count(task.Usage.In), inwords.Count(task.Usage.Out)))
		cost, _ := task.Total()
		facts = append(facts, "cost\u00a0"+cost.String())
	}
	if task.Attempt > 1 {
		facts = append(facts, fmt.Sprintf("attempt %d", task.Attempt))
	}
	if task.Items > 0 {
		facts = append(facts, fmt.Sprintf("%d of %s done", task.ItemsEnd, inwords.Plural(task.Items, "item")))
	}
	if facts = nonEmpty(facts...); len(facts) > 0 {
		for _, l := range wrapped(strings.Join(facts, " · "), w-4) {
			out = append(out, "   "+t.pal.Dim(strings.ReplaceAll(l, "\u00a0", " ")))
		}
	}
	return append(out, t.pal.Dim(strings.Repeat("─", w)))
}

// first draws what the task was given.
func (p *agentPane) first(task *transcript.Task, w int) []string {
	paint := p.t.paint()
	switch {
	case len(task.Agents) > 0 && strings.TrimSpace(task.Agents[0].Prompt) != "":
		return append(paint.message(task.Agents[0].Prompt, w), "")
	case present(p.given):
		return append(append([]string{" " + p.t.pal.Bold("Input")}, p.value(p.given, w)...), "")
	}
	return nil
}

// end draws how the task ended: its error with what to do, or what it gave unless an agent has said it.
func (p *agentPane) end(task *transcript.Task, w int) []string {
	t, r, id := p.t, &p.view.f.run, p.view.f.id
	switch {
	case task.State == transcript.Failed:
		var out []string
		said := len(task.Parts) > 0 && task.Parts[len(task.Parts)-1].Kind == transcript.Failure && task.Parts[len(task.Parts)-1].Text == task.Error
		if text := transcript.Clean(cmp.Or(task.Error, "failed")); !said || ansi.StringWidth(text) > w-4 || strings.Contains(text, "\n") {
			for i, line := range strings.Split(ansi.Wrap(text, max(8, w-4), ""), "\n") {
				out = append(out, []string{" ✗ ", "   "}[min(i, 1)]+t.pal.Red(line))
			}
		}
		if t.catalog != nil && t.catalog.RunFiles != "" {
			out = append(out, t.pal.Dim(cut("   log: "+filepath.Join(t.catalog.RunFiles, id, "logs", "run.log"), w)))
		} else {
			out = append(out, t.pal.Dim(cut("   log: superstep runs show "+id+" -v", w)))
		}
		if r.Status == runlog.Running && !p.view.f.ended {
			return append(out, "")
		}
		return append(out, t.pal.Dim(cut("   again: /resume, or superstep runs resume "+id, w)), "")
	case task.Ended() && len(task.Agents) == 0 && present(p.gave):
		return append(append([]string{" " + t.pal.Bold("Output")}, p.value(p.gave, w)...), "")
	}
	return nil
}

func present(raw json.RawMessage) bool {
	return len(raw) > 0 && string(raw) != "null" && string(raw) != "{}" && string(raw) != `""`
}

// value draws a JSON value as people read it: texts as they are, an object field by field.
func (p *agentPane) value(raw json.RawMessage, w int) []string {
	const most = 400
	var fields map[string]json.RawMessage
	var out []string
	put := func(raw json.RawMessage, indent string) {
		var b bytes.Buffer
		text := transcript.Value(raw)
		if len(raw) > 0 && raw[0] != '"' && json.Indent(&b, raw, "", "  ") == nil && len(text) > w-8 {
			text = transcript.Clean(b.String())
		}
		out = append(out, indented(wrapped(strings.ReplaceAll(strings.TrimRight(text, "\n"), "\t", "    "), w-2-len(indent)), indent, indent)...)
	}
	if json.Unmarshal(raw, &fields) == nil && len(fields) > 0 {
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			out = append(out, "   "+p.t.pal.Bold(transcript.Line(name)))
			put(fields[name], "     ")
		}
	} else {
		put(raw, "   ")
	}
	if len(out) > most {
		out = append(out[:most], fmt.Sprintf("   … %d more lines: superstep runs show %s -v", len(out)-most, p.view.f.id))
	}
	return out
}

// team draws those who work for the task in at most h lines.
func (p *agentPane) team(task *transcript.Task, w, h int) []string {
	all := p.helpers(task)
	if len(all) == 0 || h < 2 {
		return nil
	}
	t, now := p.t, p.t.opt.Now()
	p.cur.at = max(0, min(p.cur.at, len(all)-1))
	ended := 0
	for _, x := range all {
		if x.Ended() {
			ended++
		}
	}
	out := []string{t.pal.Dim(fill(fmt.Sprintf(" ── %s, %d done", inwords.Plural(len(all), "agent"), ended), w))}
	from, to := p.cur.window(len(all), h-1, p.cur.at, p.cur.at)
	var rows []row
	for i := from; i < to; i++ {
		rows = append(rows, row{Task: all[i], label: helper(all[i])})
	}
	for i, x := range rows {
		out = append(out, t.mark(p.below && from+i == p.cur.at)+t.paint().row(x, labelWidth(rows, w), w-2, now))
	}
	return out
}

func (p *agentPane) key(k tea.KeyPressMsg) tea.Cmd {
	t, task := p.t, p.task()
	if task == nil {
		return nil
	}
	all := p.helpers(task)
	switch {
	case t.keys.is(k, "quit"):
		t.pop()
	case t.keys.is(k, "help"):
		t.push(newHelpPane(t))
	case t.keys.is(k, "inbox"):
		t.push(newInboxPane(t))
	case t.keys.is(k, "runs"):
		return t.showRuns()
	case t.keys.is(k, "stopAgent"):
		return t.stopAgent(task)
	case t.keys.is(k, "nextAgent"), t.keys.is(k, "prevAgent"):
		beside := p.beside(task)
		by := 1
		if t.keys.is(k, "prevAgent") {
			by = -1
		}
		if i := slices.Index(beside, task) + by; i >= 0 && i < len(beside) {
			return p.show(beside[i].Path)
		}
	case t.keys.is(k, "up") && p.below:
		if p.cur.at--; p.cur.at < 0 {
			p.cur.at, p.below = 0, false
		}
	case t.keys.is(k, "up"):
		if up := p.above(task); up != nil {
			return p.show(up.Path)
		}
		p.scroll++
	case t.keys.is(k, "down") && len(all) > 0:
		if p.below {
			p.cur.at = min(p.cur.at+1, len(all)-1)
		}
		p.below = true
	case t.keys.is(k, "down"):
		p.scroll = max(0, p.scroll-1)
	case t.keys.is(k, "open") && p.below && p.cur.at < len(all):
		return t.openAgent(all[p.cur.at].Path)
	default:
		scrollKey(k, &p.scroll, p.height)
	}
	return nil
}

// show shows another task in the place of this one.
func (p *agentPane) show(path string) tea.Cmd {
	t := p.t
	next := &agentPane{t: t, view: p.view, path: path}
	if i := slices.Index(t.panes, pane(p)); i >= 0 {
		t.panes[i] = next
	}
	return next.tick(t.opt.Now())
}

// tick reads what a task without an agent was given and gave, since the fold does not keep that.
func (p *agentPane) tick(time.Time) tea.Cmd {
	task := p.task()
	if task == nil || p.reading || len(task.Agents) > 0 || p.readRev == task.Rev && task.Rev > 0 || !task.Ended() && p.readRev > 0 {
		return nil
	}
	p.reading = true
	t, f, path, rev := p.t, p.view.f, p.path, task.Rev
	node, key, head := task.Node, task.Key, f.run.Seq
	return func() tea.Msg {
		given, gave, err := t.valuesOf(f.id, path, node, key, head)
		return doneMsg{func() {
			if p.reading, p.readRev = false, rev; err != nil {
				t.fail(err)
				return
			}
			p.given, p.gave = given, gave
		}}
	}
}

// valuesOf reads what a task was given and gave from the log of its run.
func (t *Terminal) valuesOf(id, path, node, key string, head uint64) (given, gave json.RawMessage, err error) {
	e, err := t.reader(t.ctx)
	if err != nil {
		return nil, nil, err
	}
	parent := path[:strings.LastIndexByte(path, '/')+1]
	for rec, err := range e.Follow(t.ctx, id, 1) {
		if err != nil {
			return nil, nil, err
		}
		if rec.Kind == runlog.KindTaskDone {
			var d runlog.TaskDone
			if json.Unmarshal(rec.Data, &d) != nil {
				continue
			}
			if rec.Path == path {
				gave = d.Update
			}
			if rec.Path[:strings.LastIndexByte(rec.Path, '/')+1] == parent {
				for _, s := range d.Sends {
					if s.To == node && s.Key == key {
						given = s.Arg
					}
				}
			}
		}
		if rec.Seq >= head {
			break
		}
	}
	return given, gave, nil
}

// addressed is the path of the agent that messages of the composer go to, "" for the lead of the run.
func (t *Terminal) addressed() string {
	for _, p := range slices.Backward(t.panes) {
		if a, ok := p.(*agentPane); ok && a.view == t.view {
			return a.path
		}
	}
	if t.view == nil || t.view.talks() {
		return ""
	}
	if task := t.view.chosen(); task != nil {
		return task.Path
	}
	return ""
}

// stopAgent stops a sub-agent when a question is answered, or says why it cannot be stopped alone.
func (t *Terminal) stopAgent(task *transcript.Task) tea.Cmd {
	switch {
	case task == nil || t.run == nil:
		t.say("no agent is selected")
		return nil
	case task.Ended():
		t.say(transcript.Line(called(task)) + " has ended")
		return nil
	case t.run.ended:
		t.say("no process executes run " + t.run.id + "; /resume executes it again")
		return nil
	case task.Depth == 0 && !t.view.talks():
		t.fail(errors.New(transcript.Line(called(task)) + " is a step of the workflow, which cannot be stopped alone; ^C twice stops the run, and /resume resumes it"))
		return nil
	}
	name, then, stop := transcript.Line(called(task)), "who asked for it is told so, and continues", func() tea.Cmd { return t.stopAgentAt(task) }
	if task.Depth == 0 { // its lead is all there is
		name, then, stop = "the agent", "at its next checkpoint; a message resumes it", t.stopRun
	}
	t.asks("Stop "+name+"?", then, stop)
	return nil
}

// stopAgentAt stops a sub-agent, in whichever process it runs.
func (t *Terminal) stopAgentAt(task *transcript.Task) tea.Cmd {
	id, path, label := t.run.id, task.Path, transcript.Line(called(task))
	return t.do("stopping "+label, func(ctx context.Context, e *superstep.Engine) error {
		members, err := e.Agents(ctx, id)
		if err != nil {
			return err
		}
		best := "" // the agent that the task is, or is within
		for _, m := range members {
			if (path == m.ID || strings.HasPrefix(path, m.ID+"/")) && len(m.ID) > len(best) {
				best = m.ID
			}
		}
		if best == "" {
			return fmt.Errorf("%s is a step of the workflow, which cannot be stopped alone; ^C twice stops the run, and /resume resumes it", label)
		}
		return e.CancelAgent(ctx, id, best)
	}, nil)
}

// interrupt breaks off the turn of an agent when Esc is pressed twice.
func (t *Terminal) interrupt(task *transcript.Task) tea.Cmd {
	switch {
	case task == nil || len(task.Agents) == 0:
		t.say("no agent is selected")
		return nil
	case task.Ended():
		t.say(transcript.Line(called(task)) + " has ended")
		return nil
	}
	id, name := t.run.id, transcript.Line(called(task))
	path := strings.TrimSuffix(task.Path+"/"+task.Agents[len(task.Agents)-1].Use, "/")
	if !t.sure.pressed(t, "interrupt "+path, "the same key again interrupts "+name+": what it said stays, and it hears you next") {
		return nil
	}
	return t.do("interrupting "+name, func(ctx context.Context, e *superstep.Engine) error { return e.Interrupt(ctx, id, path) }, func() {
		t.say(name + " is interrupted, or will be once its tools have ended")
	})
}

// escapes reports whether Esc was pressed in an empty composer over a run that works: twice interrupts its agent.
func (t *Terminal) escapes() bool {
	return t.focus == onComposer && len(t.panes) == 0 && t.view != nil && t.compose.empty() && !t.compose.completing() && t.moves()
}
