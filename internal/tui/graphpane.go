package tui

import (
	"cmp"
	"context"
	"fmt"
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

// A graphPane draws the graph of a run with the states of its nodes, and shares its selection with the rows of the run view.
type graphPane struct {
	t         *Terminal
	f         *following
	view      *runPane // whose rows share the selection
	now       func() time.Time
	sel       string // the ID of the selected item
	collapsed map[string]bool
	x, y      int // what is seen of a picture that is larger than the screen
	items     []graphItem
	pic       *picture // as it was last drawn, nil for a list
}

// A graphItem is a node of the graph, or one of the tasks that it was sent.
type graphItem struct {
	node     string
	task     *transcript.Task // the last of the node, nil if it has not begun
	name     string
	tasks    []*transcript.Task // all that it stands for
	critical bool
	kept     bool     // it ran before the run was forked, whose log does not have that
	back     []string // the nodes to which an edge leads back
}

// id names an item as long as the run is shown.
func (i *graphItem) id() string {
	if i.task != nil && i.name != i.node {
		return i.task.Path
	}
	return i.node
}

// showGraph shows the graph of the run, as it is, or as it was at the moment that is looked at.
func (t *Terminal) showGraph() tea.Cmd {
	if _, ok := t.top().(*graphPane); ok {
		t.pop()
		return nil
	}
	if t.run == nil {
		t.say("no run is shown")
		return nil
	}
	p := &graphPane{t: t, f: t.run, view: t.view, now: t.opt.Now, collapsed: map[string]bool{}}
	if h, ok := t.top().(*historyPane); ok && h.loaded {
		p.f, p.view, p.now = h.then, h.view, h.now
	}
	if task := p.view.chosen(); task != nil {
		p.sel = task.Path
	}
	t.push(p)
	return nil
}

func (p *graphPane) title() string { return "GRAPH" }

func (p *graphPane) hints() string {
	return "↑↓←→ select · Enter open · o output · f fork before it · r rerun it + downstream · z collapse · q back"
}

// mostTasks is how many tasks of a node are drawn, unless it is expanded by hand.
const mostTasks = 8

// build lists what is drawn: the nodes in declared order, and instead of one whose tasks run side by side these tasks.
func (p *graphPane) build() {
	r := &p.f.run
	now := p.now()
	legs := map[string]*transcript.Task{}
	critical := map[string]bool{}
	for _, l := range r.Critical(now) {
		legs[l.Node], critical[l.Node] = l.Task, true
	}
	byNode := map[string][]*transcript.Task{}
	for _, t := range ordered(r, r.Tasks) {
		if t.Parent == nil {
			byNode[t.Node] = append(byNode[t.Node], t)
		}
	}
	p.items = p.items[:0]
	for i := range r.Graph {
		n := &r.Graph[i]
		all := byNode[n.Name]
		one := graphItem{node: n.Name, name: n.Name, tasks: all, critical: critical[n.Name]}
		if len(all) > 0 {
			one.task = all[len(all)-1]
		}
		parts := p.parts(all)
		if folded, set := p.collapsed[n.Name]; len(parts) < 2 || set && folded || !set && len(parts) > mostTasks {
			p.items = append(p.items, one)
			continue
		}
		leg := legs[n.Name]
		for _, t := range parts {
			name := t.Key
			if name == "" {
				name = t.Label()
			}
			item := graphItem{node: n.Name, name: name, task: t, tasks: []*transcript.Task{t}}
			item.critical = critical[n.Name] && leg != nil && (leg == t || strings.HasPrefix(leg.Path, t.Path+"/"))
			p.items = append(p.items, item)
		}
	}
}

// parts returns the tasks of a node's last superstep that run side by side: its own, or those that its only one holds.
func (p *graphPane) parts(all []*transcript.Task) []*transcript.Task {
	if len(all) == 0 {
		return nil
	}
	last := all[len(all)-1].Step
	out := slices.DeleteFunc(slices.Clone(all), func(t *transcript.Task) bool { return t.Step != last })
	for len(out) == 1 && len(out[0].Agents) == 0 && len(out[0].Children) > 0 {
		out = ordered(&p.f.run, out[0].Children)
	}
	return out
}

// text is an item as it is drawn: its name, its state as a sign and a word, and its time.
func (p *graphPane) text(i *graphItem, brief bool) (text string, colour func(string) string) {
	pal := p.t.pal
	name := cut(transcript.Line(i.name), 24)
	if len(i.back) > 0 {
		name += " ↺"
	}
	sign, colour := "◌", pal.Dim
	t := i.task
	switch {
	case t == nil && i.kept:
		return name + " ↩ kept", colour
	case t == nil:
		return name + " " + sign, colour
	}
	word, took := "running", inwords.Brief(t.Time.Elapsed(p.now()))
	switch {
	case t.State == transcript.Done:
		sign, word, colour = "✓", "done", pal.Green
	case t.State == transcript.Skipped:
		sign, word, took = "·", "skipped", ""
	case t.State == transcript.Failed:
		sign, word, colour = "✗", "failed", pal.Red
	case t.AwaitsRun():
		sign, word = "◌", "waits for a run"
	case t.State == transcript.Waiting:
		sign, word, colour = "?", "needs you", pal.Yellow
	case t.Ended():
		sign, word, colour = "!", string(t.State), pal.Yellow
	case !t.RetryAt.IsZero():
		sign, word, colour = "!", resting(t, inwords.Duration(max(0, t.RetryAt.Sub(p.now())))), pal.Yellow
	case t.Queued:
		sign, word, took = "◌", "queued", ""
	default:
		sign, colour = "●", func(s string) string { return s }
	}
	if n := len(i.tasks); n > 1 {
		took = fmt.Sprintf("×%d %s", n, took)
	}
	if brief {
		word = ""
	}
	return strings.Join(strings.Fields(name+" "+sign+" "+word+" "+took), " "), colour
}

func (p *graphPane) draw(w, h int) []string { return fitted(p.page(w, h), w, h) }

func (p *graphPane) page(w, h int) []string {
	p.build()
	if len(p.items) == 0 {
		return []string{"", " the log does not tell the graph of this run"}
	}
	sel := p.selected()
	foot := p.foot(&p.items[sel], w)
	foot = foot[:min(len(foot), max(0, h-3))]
	room := max(1, h-len(foot))
	var out []string
	if w >= 60 {
		p.lay(false)
		if p.pic != nil && p.pic.w > w-2 {
			p.lay(true)
		}
	} else {
		p.pic = nil
	}
	if p.pic == nil {
		out = p.list(w, room, sel)
	} else {
		out = p.paint(w, room, sel)
	}
	for len(out) < room && len(foot) > 0 {
		out = append(out, "")
	}
	return append(out[:min(len(out), room)], foot...)
}

// arcs returns the edges between items. Tasks that run side by side have those of their node.
func (p *graphPane) arcs() []graphArc {
	at := map[string][]int{}
	for i := range p.items {
		p.items[i].back = nil
		at[p.items[i].node] = append(at[p.items[i].node], i)
	}
	var out []graphArc
	next := map[string]string{} // on the critical path
	path := p.f.run.Critical(p.now())
	for i := 1; i < len(path); i++ {
		next[path[i-1].Node] = path[i].Node
	}
	for i := range p.f.run.Graph {
		n := &p.f.run.Graph[i]
		for _, to := range n.To {
			for _, a := range at[n.Name] {
				if to == n.Name {
					p.items[a].back = append(p.items[a].back, to)
					continue
				}
				for _, b := range at[to] {
					out = append(out, graphArc{a, b, next[n.Name] == to && p.items[a].critical && p.items[b].critical})
				}
			}
		}
	}
	kept, ahead := map[[2]int]bool{}, forward(len(p.items), out)
	for _, a := range ahead {
		kept[[2]int{a.from, a.to}] = true
	}
	for more := p.f.run.Parent != ""; more; { // what leads to something that has begun ran in the parent
		more = false
		for _, a := range ahead {
			from, to := &p.items[a.from], &p.items[a.to]
			if from.task == nil && !from.kept && (to.task != nil || to.kept) {
				from.kept, more = true, true
			}
		}
	}
	for _, a := range out {
		if i := &p.items[a.from]; !kept[[2]int{a.from, a.to}] && !slices.Contains(i.back, p.items[a.to].node) {
			i.back = append(i.back, p.items[a.to].node)
		}
	}
	return out
}

func (p *graphPane) lay(brief bool) {
	arcs := p.arcs()
	boxes := make([]graphBox, len(p.items))
	for i := range p.items {
		text, _ := p.text(&p.items[i], brief)
		boxes[i].wide = ansi.StringWidth(text)
	}
	if p.pic = layGraph(boxes, arcs); p.pic != nil {
		for i := range p.items { // the texts of this size
			p.pic.boxes[i] = boxes[i]
		}
	}
}

// paint draws what is seen of the picture.
func (p *graphPane) paint(w, h, sel int) []string {
	pic, brief := p.pic, false
	if text, _ := p.text(&p.items[0], false); ansi.StringWidth(text) != pic.boxes[0].wide {
		brief = true
	}
	view := w - 2
	b := pic.boxes[sel]
	p.x = scrolled(p.x, b.x, b.x+b.wide+1, view, pic.w+1)
	p.y = scrolled(p.y, b.y, b.y+1, h, pic.h)
	byRow := make([][]int, pic.h)
	for i, x := range pic.boxes {
		byRow[x.y] = append(byRow[x.y], i)
	}
	pal, here := p.t.pal, " "
	if p.t.focus == onPane {
		here = "▸"
	}
	var out []string
	for y := p.y; y < min(pic.h, p.y+h); y++ {
		slices.SortFunc(byRow[y], func(a, b int) int { return cmp.Compare(pic.boxes[a].x, pic.boxes[b].x) })
		var line strings.Builder
		x := 0
		wires := func(to int) {
			var run strings.Builder
			for ; x < to; x++ {
				run.WriteRune(pic.char(x, y))
			}
			line.WriteString(pal.Dim(run.String()))
		}
		for _, i := range byRow[y] {
			text, colour := p.text(&p.items[i], brief)
			if i == sel && x < pic.boxes[i].x {
				wires(pic.boxes[i].x - 1)
				line.WriteString(here)
				x++
			}
			wires(pic.boxes[i].x)
			if i == sel {
				text = pal.Bold(text)
			} else {
				text = colour(text)
			}
			line.WriteString(text)
			x += pic.boxes[i].wide
		}
		wires(pic.w + 1)
		mark := " "
		if b.y == y && b.x == 0 && p.x == 0 {
			mark = here
		}
		out = append(out, mark+strings.TrimRight(ansi.Cut(line.String(), p.x, p.x+view), " "))
	}
	return out
}

// list draws the items below each other.
func (p *graphPane) list(w, h, sel int) []string {
	p.arcs()
	p.y = scrolled(p.y, sel, sel+1, h, len(p.items))
	var out []string
	for i := p.y; i < min(len(p.items), p.y+h); i++ {
		text, colour := p.text(&p.items[i], false)
		mark, way := " ", " "
		if p.items[i].critical {
			way = "━"
		}
		if i == sel {
			mark, colour = "▸", p.t.pal.Bold
		}
		out = append(out, mark+way+" "+colour(ansi.Truncate(text, max(1, w-3), "…")))
	}
	return out
}

// foot tells about the selected item and the critical path.
func (p *graphPane) foot(i *graphItem, w int) []string {
	r, pal := &p.f.run, p.t.pal
	var path []string
	for _, l := range r.Critical(p.now()) {
		path = append(path, legName(l))
	}
	facts := []string{pal.Bold(transcript.Line(i.name))}
	if i.name != i.node {
		facts = append(facts, "of "+i.node)
	}
	for _, n := range r.Graph {
		if n.Name != i.node {
			continue
		}
		if n.Join != "" {
			facts = append(facts, "joins "+n.Join)
		}
		if n.Most > 0 {
			facts = append(facts, fmt.Sprintf("width %d", n.Most))
		}
	}
	steps := map[int]bool{}
	var own []*transcript.Task
	for _, t := range r.Tasks {
		if t.Parent == nil && t.Node == i.node {
			steps[t.Step] = true
			own = append(own, t)
		}
	}
	done, all := 0, p.parts(own)
	for _, t := range all {
		if t.Ended() {
			done++
		}
	}
	switch {
	case len(own) == 0:
		facts = append(facts, "not begun")
	case len(all) > 1:
		facts = append(facts, fmt.Sprintf("%d/%d tasks ended", done, len(all)), fmt.Sprintf("visits ×%d", len(steps)))
	default:
		facts = append(facts, fmt.Sprintf("visits ×%d", len(steps)))
	}
	if len(i.back) > 0 {
		facts = append(facts, "leads back to "+strings.Join(i.back, ", "))
	}
	if i.task != nil && i.task.Error != "" {
		facts = append(facts, pal.Red(transcript.Line(i.task.Error)))
	}
	return []string{"", " " + ansi.Truncate(strings.Join(facts, " · "), max(1, w-2), "…"), pal.Dim(ansi.Truncate(" ━ critical path: "+strings.Join(path, " → "), w, "…"))}
}

// legName names a part of the critical path as its row is named.
func legName(l transcript.Leg) string {
	switch {
	case l.Task == nil:
		return l.Node
	case l.Task.Key != "":
		return l.Task.Key
	}
	return l.Task.Label()
}

// selected returns the index of the selected item: the one that was chosen, else the first that matters.
func (p *graphPane) selected() int {
	for i := range p.items {
		x := &p.items[i]
		if x.id() == p.sel || x.task != nil && x.task.Path == p.sel {
			return i
		}
	}
	for i := range p.items { // it is in a node that is collapsed
		x := &p.items[i]
		if slices.ContainsFunc(x.tasks, func(t *transcript.Task) bool { return p.sel == t.Path || strings.HasPrefix(p.sel, t.Path+"/") }) {
			return i
		}
	}
	best := 0
	for i := range p.items {
		if t := p.items[i].task; t != nil && !t.Ended() && p.items[best].task != nil && p.items[best].task.Ended() {
			best = i
		}
	}
	return best
}

func (p *graphPane) choose(i int) {
	x := &p.items[i]
	if p.sel = x.id(); x.task != nil && p.view != nil {
		p.view.sel = x.task.Path
	}
}

// walk selects the nearest item in a direction.
func (p *graphPane) walk(dx, dy int) {
	sel := p.selected()
	if p.pic == nil {
		p.choose(min(max(sel+dx+dy, 0), len(p.items)-1))
		return
	}
	from, best, least := p.pic.boxes[sel], -1, 0
	for i, b := range p.pic.boxes[:min(len(p.items), len(p.pic.boxes))] {
		cols, rows := b.col-from.col, b.row-from.row
		if dx != 0 && cols*dx <= 0 || dy != 0 && (cols != 0 || rows*dy <= 0) {
			continue
		}
		far := 1000*max(cols, -cols) + max(rows, -rows)
		if best < 0 || far < least {
			best, least = i, far
		}
	}
	if best >= 0 {
		p.choose(best)
	}
}

func (p *graphPane) key(k tea.KeyPressMsg) tea.Cmd {
	t := p.t
	switch {
	case t.keys.is(k, "back"), t.keys.is(k, "quit"), t.keys.is(k, "graphs"):
		t.pop()
		return nil
	case t.keys.is(k, "help"):
		t.push(newHelpPane(t))
		return nil
	}
	if p.build(); len(p.items) == 0 {
		return nil
	}
	x := p.items[p.selected()]
	switch k.String() {
	case "left", "h":
		p.walk(-1, 0)
		return nil
	case "right", "l":
		p.walk(1, 0)
		return nil
	case "home":
		p.choose(0)
	case "end":
		p.choose(len(p.items) - 1)
	}
	switch t.keys.which(k, "up", "down", "open", "collapse", "output", "fork", "rerun") {
	case "up":
		p.walk(0, -1)
	case "down":
		p.walk(0, 1)
	case "open":
		if x.task == nil {
			t.say(x.name + " has not begun")
			return nil
		}
		t.push(newAgentPane(t, p.f, x.task.Path))
	case "collapse":
		p.collapsed[x.node] = x.name != x.node || !p.collapsed[x.node] && len(p.parts(x.tasks)) <= mostTasks
		p.sel = x.node
	case "output":
		return p.output(&x)
	case "fork":
		return p.fork(&x, false)
	case "rerun":
		return p.fork(&x, true)
	}
	return nil
}

// output shows what a node has given.
func (p *graphPane) output(x *graphItem) tea.Cmd {
	if x.task == nil || !x.task.Ended() {
		p.t.say(x.name + " has no output yet")
		return nil
	}
	t, id, path, said := p.t, p.f.id, x.task.Path, x.task.Last()
	var out []string
	return t.do("reading the output", func(ctx context.Context, e *superstep.Engine) error {
		recs, err := readFrom(ctx, e, id, 1)
		for _, rec := range recs {
			var d runlog.TaskDone
			if rec.Kind != runlog.KindTaskDone || transcript.Line(rec.Path) != path || d.Parse(rec.Data) != nil {
				continue
			}
			if out = nil; d.Error != "" {
				out = append(out, "error: "+transcript.Line(d.Error))
			}
			if d.Update != nil {
				out = append(out, strings.Split(transcript.Value(d.Update), "\n")...)
			}
		}
		if len(out) == 0 && said != "" {
			out = strings.Split(said, "\n")
		}
		return err
	}, func() {
		if t.notice = ""; len(out) == 0 {
			t.say(path + " has given nothing")
			return
		}
		t.showText("OUTPUT of "+x.name, strings.Join(out, "\n"))
	})
}

// fork forks the run so that a node is computed again: with again only it and what depends on it, else the run from the moment before it.
func (p *graphPane) fork(x *graphItem, again bool) tea.Cmd {
	if x.task == nil {
		p.t.say(x.name + " has not begun; there is nothing to compute again")
		return nil
	}
	t, id := p.t, p.f.id
	path := x.task.Path
	for up := x.task.Parent; up != nil; up = up.Parent {
		path = up.Path
	}
	if x.name == x.node {
		path = x.node
	}
	cost := ""
	if c, _ := x.task.Total(); c != nil {
		cost = c.String() + " in " + x.name
	}
	if again {
		return t.previewFork(id, 0, superstep.ForkOptions{Again: []string{path}}, nil, cost, nil)
	}
	p2 := &forkPane{t: t, id: id, cost: cost, opt: superstep.ForkOptions{Preview: true}}
	return t.do("looking at what a fork would do", func(ctx context.Context, e *superstep.Engine) error {
		m, err := e.At(ctx, id, path)
		if err == nil {
			p2.at = m.Seq
			p2.seen, err = e.Fork(ctx, id, m.Seq, &p2.opt)
		}
		return err
	}, func() { t.notice = ""; t.push(p2) })
}

// critical returns what of a running step of several rows is on the critical path, and the path from there on.
func (v *runPane) critical(s *transcript.Step, rows int) (on map[*transcript.Task]bool, path string) {
	if s.Done || rows < 2 {
		return nil, ""
	}
	on = map[*transcript.Task]bool{}
	var names []string
	for _, l := range v.f.run.Critical(v.t.opt.Now()) {
		if l.Task != nil && l.Task.Step < s.Number {
			continue
		}
		if l.Task != nil {
			on[l.Task] = true
		}
		names = append(names, legName(l))
	}
	if len(on) == 0 {
		return nil, ""
	}
	return on, transcript.Line(strings.Join(names, " → "))
}
