package tui

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

const (
	playSpeed  = 8
	smallState = 128 << 10 // bytes of a state that is compared at once
)

// A historyPane shows a run as it was after any of its records: its state, what the step had changed, and the run view.
type historyPane struct {
	t       *Terminal
	f       *following
	past    past
	loaded  bool
	loading bool
	err     error

	at      int           // how many records are shown
	then    *following    // their fold
	closed  bool          // the fold has the final status, which no record tells
	view    *runPane      // of it
	own     graph.Reading // the run's own graph
	flow    graph.Reading // the one whose states are shown, which may be inside of a task
	pinned  bool          // the run is of a recipe, whose state is the outputs of steps
	moments []moment
	unread  error  // why there are no states
	reading bool   // states are being read
	shown   uint64 // the moment whose state is shown
	state   *jsonNode
	inputs  *jsonNode
	changes []changeLine

	open   map[string]bool // expanded values
	sel    string          // the selected value
	scroll int             // of the state
	part   int             // the first part that is shown, if not all are
	most   int             // how many there is room for

	jumping bool
	typed   string // a sequence number to go to
	playing bool
	ticking bool
	played  time.Duration
	drafts  map[string]string // edited values that were not used, by path
}

// showHistory goes back in time in the run that is shown.
func (t *Terminal) showHistory() tea.Cmd {
	if t.run == nil {
		t.say("no run is shown")
		return nil
	}
	p := newHistoryPane(t, t.run)
	t.push(p)
	return p.load()
}

// visit opens a run, unless it is shown already, and then a page of it.
func (t *Terminal) visit(run string, page func() tea.Cmd) tea.Cmd {
	if run == "" || t.run != nil && t.run.id == run {
		return page()
	}
	t.say("looking for run " + run + " …")
	return func() tea.Msg {
		info, err := t.find(run)
		return doneMsg{func() {
			if err != nil {
				t.fail(err)
				return
			}
			t.open(info.ID)
			t.then = append(t.then, page())
		}}
	}
}

// find returns a run by its reference. It takes a while.
func (t *Terminal) find(ref string) (info runlog.Info, err error) {
	e, err := t.reader(t.ctx)
	if err == nil {
		info, err = e.Find(t.ctx, ref)
	}
	return info, err
}

func newHistoryPane(t *Terminal, f *following) *historyPane {
	p := &historyPane{t: t, f: f, open: map[string]bool{}, drafts: map[string]string{}, then: &following{id: f.id, loaded: true}}
	clock := &Terminal{ctx: t.ctx, pal: t.pal, keys: t.keys, opt: TerminalOptions{Now: p.now, Calm: true}, compose: t.compose}
	p.view = newRunPane(clock, p.then)
	return p
}

// now is the time of the last record that is shown.
func (p *historyPane) now() time.Time {
	if p.at == 0 || p.at > len(p.past.recs) {
		return time.Time{}
	}
	return p.past.recs[p.at-1].Time
}

// load reads the records that there are since the last time, and the states.
func (p *historyPane) load() tea.Cmd {
	t, id, from := p.t, p.f.id, p.past.seq(len(p.past.recs))+1
	p.loading = true
	first := !p.loaded
	return func() tea.Msg {
		var recs []runlog.Record
		fresh := &past{}
		e, err := t.reader(t.ctx)
		if err == nil {
			recs, err = readFrom(t.ctx, e, id, from)
		}
		if first {
			for _, rec := range recs {
				fresh.add(rec)
			}
		}
		var flow graph.Reading
		var unread error
		if err == nil && first {
			flow, unread = e.Inside(t.ctx, id, "")
		}
		return doneMsg{func() {
			p.loading, p.loaded = false, true
			if p.err = err; err != nil {
				return
			}
			end := p.at == len(p.past.recs)
			if first {
				p.past, p.own, p.flow, p.unread = *fresh, flow, flow, unread
				p.begin()
			} else {
				for _, rec := range recs {
					p.past.add(rec)
				}
			}
			if slices.ContainsFunc(recs, func(r runlog.Record) bool { return r.Path == p.past.space && r.Kind != runlog.KindEvent }) {
				p.shown, p.moments = 0, nil
			}
			if end {
				p.move(len(p.past.recs))
			}
		}}
	}
}

// inside has the user choose the graph whose states are shown.
func (p *historyPane) inside() tea.Cmd {
	t, id := p.t, p.f.id
	paths, err := graph.Insides(sequence(p.past.recs))
	if err != nil {
		t.fail(err)
		return nil
	}
	if len(paths) == 0 {
		t.say("no task of the run has run a graph of its own")
		return nil
	}
	offers := []offer{{text: "the run's own graph"}}
	for _, path := range paths {
		offers = append(offers, offer{text: transcript.Line(path), name: path})
	}
	t.push(newChoosePane(t, "graph whose states are shown", offers, func(o offer) tea.Cmd {
		switch o.name {
		case p.past.space:
			return nil
		case "":
			p.enter("", p.own)
			return nil
		}
		var flow graph.Reading
		return t.do("reading the graph inside of "+o.text, func(ctx context.Context, e *superstep.Engine) (err error) {
			if flow, err = e.Inside(ctx, id, o.name); err != nil {
				err = fmt.Errorf("%w; i lists the graphs of the run", err)
			}
			return err
		}, func() { t.notice = ""; p.enter(o.name, flow) })
	}))
	return nil
}

// enter shows the states of the graph inside of a task, or of the run's own for "".
func (p *historyPane) enter(space string, flow graph.Reading) {
	p.past.enter(space)
	p.flow, p.unread, p.moments, p.state, p.changes, p.shown = flow, nil, nil, nil, nil, 0
}

// readFrom reads the stored records of a run that there are now.
func readFrom(ctx context.Context, e *superstep.Engine, id string, from uint64) ([]runlog.Record, error) {
	info, err := e.Find(ctx, id)
	if err != nil || from > info.Head {
		return nil, err
	}
	var out []runlog.Record
	for rec, err := range e.Follow(ctx, id, from) {
		if err != nil {
			return out, err
		}
		if rec.Seq != 0 {
			out = append(out, rec)
		}
		if rec.Seq >= info.Head {
			break
		}
	}
	return out, nil
}

// begin looks at how the run began.
func (p *historyPane) begin() {
	for i := range p.past.recs {
		if rec := &p.past.recs[i]; rec.Kind == runlog.KindRunStarted {
			var d runlog.RunStarted
			var made struct{ Files []json.RawMessage }
			if json.Unmarshal(rec.Data, &d) == nil {
				_ = json.Unmarshal(d.Pinned, &made)
				p.inputs = treeFrom("inputs:", d.Inputs)
			}
			p.pinned = len(made.Files) > 0
			return
		}
	}
}

func treeFrom(prefix string, doc json.RawMessage) *jsonNode {
	n := treeOf(doc)
	var rename func(n *jsonNode)
	rename = func(n *jsonNode) {
		n.path = prefix + n.path
		for _, k := range n.kids {
			rename(k)
		}
	}
	rename(n)
	return n
}

// settle keeps up with the run, reads the states that are missing, and plays.
func (p *historyPane) settle() tea.Cmd {
	var cmds []tea.Cmd
	if p.loaded && !p.loading && p.err == nil && p.f.run.Seq > p.past.seq(len(p.past.recs)) {
		cmds = append(cmds, p.load())
	}
	if n := len(p.past.recs); p.loaded && n > 0 && p.at == n && !p.closed {
		p.move(n) // its status may have been found out since
	}
	cmds = append(cmds, p.derive())
	if p.playing && !p.ticking {
		p.ticking = true
		gap := 100 * time.Millisecond
		if p.t.opt.Calm {
			gap = time.Second
		}
		cmds = append(cmds, tea.Tick(gap, func(time.Time) tea.Msg { return doneMsg{func() { p.ticking = false; p.tick(gap) }} }))
	}
	return tea.Batch(cmds...)
}

// tick plays on.
func (p *historyPane) tick(gap time.Duration) {
	if !p.playing {
		return
	}
	p.played += playSpeed * gap
	n := p.at
	for n < len(p.past.recs) && p.past.took[n] <= p.played {
		n++
	}
	if n > p.at {
		p.move(n)
	}
	if n == len(p.past.recs) {
		p.playing = false
	}
}

// move shows the run after its first n records.
func (p *historyPane) move(n int) {
	n = min(max(n, min(1, len(p.past.recs))), len(p.past.recs))
	if from := p.at; n >= from && n-from <= 4*nearby && !p.closed && p.then.run.Seq != 0 {
		for _, rec := range p.past.recs[from:n] {
			p.then.run.Apply(rec)
		}
	} else {
		p.then.run = *p.past.cut(n)
		p.view.follow(p.then)
	}
	p.at, p.closed = n, false
	p.then.ended = p.then.run.Status != runlog.Running
	if live := &p.f.run; n == len(p.past.recs) && live.Seq <= p.past.seq(n) && live.Status != runlog.Running && live.Status != "" && p.then.run.Status == runlog.Running {
		p.then.run.End(live.Status)
		p.closed, p.then.ended = true, true
	}
}

// moment returns the index of the checkpoint that the records shown were computed from, -1 before the first.
func (p *historyPane) moment() int {
	i, _ := slices.BinarySearchFunc(p.moments, p.past.seq(p.at)+1, func(m moment, seq uint64) int { return cmp.Compare(m.seq, seq) })
	return i - 1
}

// derive prepares what is shown of the state, in the background if that takes long.
func (p *historyPane) derive() tea.Cmd {
	if !p.loaded || p.reading || p.flow == nil || p.unread != nil {
		return nil
	}
	i := p.moment()
	missing := func(i int) bool { return i >= 0 && p.moments[i].state == nil }
	if p.moments == nil || missing(i) || missing(i-1) {
		p.reading = true
		flow, recs, seq := p.flow, p.past.recs[:len(p.past.recs):len(p.past.recs)], p.past.seq(p.at)
		return func() tea.Msg {
			moments, err := momentsOf(flow, recs, seq)
			return doneMsg{func() {
				if p.reading = false; p.flow != flow { // another graph has been chosen since
					return
				}
				if p.moments = moments; p.moments == nil {
					p.moments = []moment{}
				}
				if p.unread = err; len(moments) > 0 {
					p.unread = nil // of a part that is of another version
				}
			}}
		}
	}
	if i < 0 {
		p.state, p.changes, p.shown = nil, nil, 0
		return nil
	}
	m := p.moments[i]
	if m.seq == p.shown {
		return nil
	}
	p.shown = m.seq
	var before json.RawMessage
	if i > 0 {
		before = p.moments[i-1].state
	}
	if len(m.state)+len(before) <= smallState {
		p.state, p.changes = treeOf(m.state), changesOf(before, m.state)
		return nil
	}
	return func() tea.Msg {
		state, changes := treeOf(m.state), changesOf(before, m.state)
		return doneMsg{func() {
			if p.shown == m.seq {
				p.state, p.changes = state, changes
			}
		}}
	}
}

func (p *historyPane) title() string {
	n := len(p.past.recs)
	if n == 0 {
		return "TIME TRAVEL"
	}
	moment, inside := Moment(&p.then.run, &p.past.recs[max(p.at, 1)-1]), ""
	if p.past.space != "" {
		inside = " inside of " + transcript.Line(p.past.space)
	}
	if p.t.width < 80 {
		return fmt.Sprintf("TIME%s %d/%d · %s", inside, p.past.seq(p.at), p.past.seq(n), moment)
	}
	return fmt.Sprintf("TIME TRAVEL%s · %s of %s · seq %d/%d · %s", inside, inwords.Duration(p.elapsed(p.at)), inwords.Duration(p.elapsed(n)), p.past.seq(p.at),
		p.past.seq(n), moment)
}

func (p *historyPane) elapsed(n int) time.Duration {
	if n <= 0 || n > len(p.past.took) {
		return 0
	}
	return p.past.took[n-1]
}

// Moment tells how far a run had come right after a record, which was the last that was applied.
func Moment(r *transcript.Run, last *runlog.Record) string {
	done := 0
	for _, s := range r.Steps {
		if s.Done {
			done = s.Number + 1
		}
	}
	switch {
	case signOf(last, "") == markCommit:
		return fmt.Sprintf("step %d, committed", done)
	case r.Status != runlog.Running:
		return string(r.Status)
	}
	return fmt.Sprintf("step %d, before commit", done+1)
}

func (p *historyPane) hints() string {
	if p.past.space != "" {
		return "← → event · { } commit · i other graph · Esc the run's own · f fork outside · d diff with now · : seq · p play ×8 · q back"
	}
	if p.most > 0 && p.most < 3 {
		return "← → event · Tab next part · f fork · e edit and fork · d diff with now · i graph inside · { } commit · : seq · p play ×8 · q back"
	}
	return "← → event · [ ] step · { } commit · : seq · f fork here · e edit and fork · d diff with now · i graph inside · p play ×8 · q back"
}

func (p *historyPane) draw(w, h int) []string { return fitted(p.page(w, h), w, h) }

func (p *historyPane) page(w, h int) []string {
	switch {
	case p.err != nil:
		return []string{"", p.t.pal.Red(cut(" ✗ "+transcript.Line(p.err.Error()), w))}
	case !p.loaded:
		return []string{"", p.t.pal.Dim(" reading the history …")}
	case len(p.past.recs) == 0:
		return []string{"", " the run has no records yet"}
	}
	out := []string{p.bar(w)}
	if p.jumping {
		out = append(out, cut(fmt.Sprintf(" go to record %s_   1-%d, Enter", p.typed, p.past.seq(len(p.past.recs))), w))
	}
	return append(out, p.columns(w, h-len(out))...)
}

// fitted cuts lines to a size.
func fitted(lines []string, w, h int) []string {
	lines = lines[:min(len(lines), max(0, h))]
	for i, l := range lines {
		if ansi.StringWidth(l) > w {
			lines[i] = ansi.Truncate(l, w, "…")
		}
	}
	return lines
}

// columns draws as many of the three parts as there is room for, side by side.
func (p *historyPane) columns(w, h int) []string {
	if h <= 0 {
		return nil
	}
	var parts []func(w, h int) []string
	all := []func(w, h int) []string{p.drawState, p.drawChanges, p.drawThen}
	switch p.most = 3; {
	case w < 60:
		p.most, parts = 1, all[p.part:p.part+1]
	case w < 100:
		p.most = 2
		p.part = min(p.part, 1)
		parts = append(parts, all[p.part], all[2])
	default:
		parts = all
	}
	wide := (w - 3*(len(parts)-1)) / len(parts)
	out := make([]string, h)
	for i, part := range parts {
		room := wide
		if i == len(parts)-1 {
			room = w - (wide+3)*i
		}
		lines := part(room, h)
		for y := range h {
			line := ""
			if y < len(lines) {
				line = ansi.Truncate(lines[y], room, "…")
			}
			if i < len(parts)-1 {
				line = padded(line, room) + p.t.pal.Dim(" │ ")
			}
			out[y] += line
		}
	}
	return out
}

// bar draws the time line.
func (p *historyPane) bar(w int) string {
	n, pal := len(p.past.recs), p.t.pal
	end := p.elapsed(n)
	left, right := " "+inwords.Duration(0)+" ├", "┤ "+inwords.Duration(end)
	if w >= 100 {
		right += "   ● commit ◆ question ✗ failure"
	}
	room := w - ansi.StringWidth(left) - ansi.StringWidth(right)
	if room < 8 {
		return cut(fmt.Sprintf(" record %d of %d", p.past.seq(p.at), p.past.seq(n)), w)
	}
	column := func(at int) int {
		if end <= 0 {
			return (at - 1) * (room - 1) / max(1, n-1)
		}
		return int(int64(p.elapsed(at)) * int64(room-1) / int64(end))
	}
	cells := make([]string, room)
	here, until := column(p.at), -1
	if next := p.past.commit(p.at, false); next > p.at {
		until = column(next)
	}
	for i := range cells {
		cells[i] = "─"
		if i > here && i < until {
			cells[i] = "━"
		}
	}
	for _, sign := range []rune{markCommit, markQuestion, markFailure} { // the last are those that must be seen
		for _, m := range p.past.marks {
			if m.sign != sign {
				continue
			}
			switch s := string(sign); sign {
			case markCommit:
				cells[column(m.at)] = s
			case markQuestion:
				cells[column(m.at)] = pal.Yellow(s)
			default:
				cells[column(m.at)] = pal.Red(s)
			}
		}
	}
	cells[here] = pal.Bold("▼")
	return left + strings.Join(cells, "") + pal.Dim(right)
}

// tree lists the values that can be selected, and where the inputs begin.
func (p *historyPane) tree() (lines []treeLine, inputs int) {
	if p.state != nil {
		root := p.state
		if steps := root.at("/steps"); p.pinned && steps != nil && len(root.kids) == 1 { // of a recipe that is all there is
			root = steps
		}
		lines = root.lines(p.open, 0)
	}
	inputs = len(lines)
	if p.inputs != nil {
		lines = append(lines, p.inputs.lines(p.open, 0)...)
	}
	return lines, inputs
}

// selected returns the index of the selected value, 0 if there is none of that path any more.
func (p *historyPane) selected(lines []treeLine) int {
	return max(0, slices.IndexFunc(lines, func(l treeLine) bool { return l.node.path == p.sel }))
}

func (p *historyPane) drawState(w, h int) []string {
	pal := p.t.pal
	head := "state"
	if i := p.moment(); i >= 0 {
		head = fmt.Sprintf("state @%d", p.moments[i].seq)
		if step := p.moments[i].step; step > 0 {
			head += fmt.Sprintf(", after step %d", step)
		}
	}
	out := []string{" " + pal.Bold(cut(head, w-1))}
	lines, inputs := p.tree()
	switch {
	case p.unread != nil:
		for l := range strings.SplitSeq(ansi.Wrap("no state: "+transcript.Line(p.unread.Error()), max(8, w-2), ""), "\n") {
			out = append(out, " "+pal.Dim(l))
		}
	case p.reading && p.moments == nil:
		out = append(out, pal.Dim(" reading …"))
	case inputs == 0:
		out = append(out, pal.Dim(" nothing yet"))
	}
	sel := p.selected(lines)
	var body []string
	at := 0
	for i, l := range lines {
		if i == inputs {
			body = append(body, " "+pal.Bold("inputs"))
		}
		if i == sel {
			at = len(body)
		}
		body = append(body, p.treeLine(l, i == sel, w))
	}
	room := max(1, h-len(out))
	p.scroll = scrolled(p.scroll, at, at+1, room, len(body))
	return append(out, body[min(p.scroll, len(body)):min(len(body), p.scroll+room)]...)
}

func (p *historyPane) treeLine(l treeLine, sel bool, w int) string {
	mark, tail, open := " ", "", p.open[l.node.path]
	if sel && p.t.focus == onPane {
		mark = "▸"
	}
	if len(l.node.kids) > 0 {
		if tail = " ▸"; open {
			tail = " ▾"
		}
	}
	indent := strings.Repeat("  ", min(l.depth, 8))
	text := ansi.Truncate(l.node.line(open), max(1, w-2-len(indent)-ansi.StringWidth(tail)), "…") + tail
	if sel {
		text = p.t.pal.Bold(text)
	}
	return mark + indent + text
}

func (p *historyPane) drawChanges(w, h int) []string {
	pal := p.t.pal
	head, i := "what this step changed", p.moment()
	switch {
	case i >= 0 && p.moments[i].step > 0:
		head = fmt.Sprintf("what step %d changed", p.moments[i].step)
	case i >= 0:
		head = "what it began with"
	}
	out := []string{pal.Bold(cut(head, w))}
	if i >= 0 && p.state != nil && len(p.changes) == 0 {
		out = append(out, pal.Dim("nothing"))
	}
	for _, c := range p.changes {
		if len(out) >= h {
			out[h-1] = pal.Dim("… d shows all since")
			break
		}
		sign := c.sign
		switch sign {
		case "+":
			sign = pal.Green(sign)
		case "-":
			sign = pal.Red(sign)
		default:
			sign = pal.Yellow(sign)
		}
		path := c.path
		if p.pinned {
			path = strings.TrimPrefix(path, "steps.")
		}
		lines := strings.Split(ansi.Wrap(ansi.Truncate(path+"  "+c.text, 4*max(1, w-2), "…"), max(8, w-2), ""), "\n")
		for i, l := range lines[:min(4, len(lines))] {
			if i > 0 {
				sign = " "
			}
			out = append(out, sign+" "+l)
		}
	}
	return out[:min(len(out), h)]
}

func (p *historyPane) drawThen(w, h int) []string {
	head := []string{p.t.pal.Bold(cut("then: as it looked", w))}
	if h < 2 {
		return head
	}
	return append(head, p.view.draw(w, h-1)...)
}

// next goes to the next part, if not all are shown. It is false after the last.
func (p *historyPane) next() bool {
	if last := map[int]int{1: 2, 2: 1}[p.most]; p.part < last {
		p.part++
		return true
	}
	p.part = 0
	return false
}

// back leaves what is typed or the graph inside of a task, before Esc leaves the page.
func (p *historyPane) back() bool {
	was := p.jumping || p.playing
	p.jumping, p.typed, p.playing = false, "", false
	if !was && p.past.space != "" {
		p.enter("", p.own)
		return true
	}
	return was
}

func (p *historyPane) key(k tea.KeyPressMsg) tea.Cmd {
	t := p.t
	if p.jumping {
		return p.jump(k)
	}
	if !t.keys.is(k, "play") {
		p.playing = false
	}
	n := len(p.past.recs)
	switch {
	case t.keys.is(k, "quit"), t.keys.is(k, "back"):
		t.pop()
		return nil
	case t.keys.is(k, "help"):
		t.push(newHelpPane(t))
		return nil
	case n == 0:
		return nil
	case t.keys.is(k, "graphs"):
		return t.showGraph()
	}
	switch t.keys.which(k, "earlier", "later", "stepBack", "stepOn", "commitBack", "commitOn", "jump", "fork", "edit", "diff", "inside", "play", "up", "down") {
	case "earlier":
		p.move(p.at - 1)
	case "later":
		p.move(p.at + 1)
	case "commitBack":
		p.move(p.past.commit(p.at, true))
	case "commitOn":
		p.move(p.past.commit(p.at, false))
	case "stepBack":
		begin := 1
		if m := p.past.commit(p.at-1, true); m < p.at-1 {
			begin = m + 1
		}
		p.move(begin)
	case "stepOn":
		if m := p.past.commit(p.at-1, false); m > p.at-1 {
			p.move(m + 1)
		} else {
			p.move(n)
		}
	case "jump":
		p.jumping, p.typed = true, ""
	case "fork":
		return p.fork(nil, "")
	case "edit":
		return p.edit()
	case "diff":
		return p.diff()
	case "inside":
		return p.inside()
	case "play":
		if p.playing = !p.playing; p.playing && p.at == n {
			p.move(1)
		}
		p.played = p.elapsed(p.at)
	case "up":
		p.choose(true)
	case "down":
		p.choose(false)
	default:
		p.other(k)
	}
	return nil
}

// other takes the keys that mean the same everywhere.
func (p *historyPane) other(k tea.KeyPressMsg) {
	switch name := k.String(); name {
	case "shift+left":
		p.move(p.at - 10)
	case "shift+right":
		p.move(p.at + 10)
	case "home":
		p.move(1)
	case "end":
		p.move(len(p.past.recs))
	case "pgup", "pgdown":
		scrollKey(k, &p.view.scroll, p.view.height)
	case "enter", "space", " ":
		if p.sel == "" {
			p.choose(false)
		}
		p.open[p.sel] = !p.open[p.sel]
	default:
		if len(name) == 1 && name >= "0" && name <= "9" {
			p.jumping, p.typed = true, name
		}
	}
}

// choose selects the value above or below.
func (p *historyPane) choose(up bool) {
	lines, _ := p.tree()
	if len(lines) == 0 {
		return
	}
	i := p.selected(lines)
	switch {
	case p.sel == "":
	case up:
		i = max(0, i-1)
	default:
		i = min(len(lines)-1, i+1)
	}
	p.sel = lines[i].node.path
}

// jump takes the sequence number to go to.
func (p *historyPane) jump(k tea.KeyPressMsg) tea.Cmd {
	name := k.String()
	switch {
	case len(name) == 1 && name >= "0" && name <= "9" && len(p.typed) < 18:
		p.typed += name
	case name == "backspace" && p.typed != "":
		p.typed = p.typed[:len(p.typed)-1]
	case name == "enter":
		seq, err := strconv.ParseUint(p.typed, 10, 63)
		last := p.past.seq(len(p.past.recs))
		if p.jumping, p.typed = false, ""; err != nil {
			return nil
		}
		if seq < 1 || seq > last {
			p.t.fail(fmt.Errorf("run %s has no record %d; it has 1 to %d", p.f.id, seq, last))
			return nil
		}
		p.move(p.past.place(seq))
	}
	return nil
}

// diff compares the state then with the state now, and a fork with its parent.
func (p *historyPane) diff() tea.Cmd {
	i := p.moment()
	if i < 0 {
		p.t.say("there is no state yet to compare")
		return nil
	}
	t, id, flow, then, seq := p.t, p.f.id, p.flow, p.moments[i].state, p.moments[i].seq
	recs, parent := p.past.recs[:len(p.past.recs):len(p.past.recs)], p.past.whole.Parent
	var out []string
	return t.do("comparing", func(ctx context.Context, e *superstep.Engine) error {
		all, err := momentsOf(flow, recs, ^uint64(0))
		if len(all) == 0 {
			return cmp.Or(err, fmt.Errorf("run %s has no state", id))
		}
		last := all[len(all)-1]
		out = append(out, fmt.Sprintf("From the state at record %d to that at record %d:", seq, last.seq))
		out = append(out, changeLines(changesOf(then, last.state))...)
		if parent == "" {
			return nil
		}
		out = append(out, "", fmt.Sprintf("From run %s, which it was forked from, to run %s:", parent, id))
		d, err := e.Diff(ctx, parent, id)
		if err != nil {
			out = append(out, "  "+transcript.Line(err.Error()))
			return nil
		}
		out = append(out, runDiffLines(d)...)
		return nil
	}, func() { t.notice = ""; t.showText("DIFF WITH NOW", strings.Join(out, "\n")) })
}

func changeLines(list []changeLine) []string {
	if len(list) == 0 {
		return []string{"  nothing"}
	}
	var out []string
	for _, c := range list {
		out = append(out, strings.TrimRight("  "+c.sign+" "+c.path+"  "+c.text, " "))
	}
	return out
}

func runDiffLines(d *superstep.RunDiff) []string {
	out := []string{"  " + inwords.Plural(d.Same, "task") + " computed the same"}
	for i := range d.Tasks {
		x := &d.Tasks[i]
		sign := map[string]string{superstep.Changed: "~", superstep.OnlyA: "-", superstep.OnlyB: "+"}[x.How]
		out = append(out, fmt.Sprintf("  %s step %d %s", sign, x.Step, transcript.Line(x.Path)))
		for _, c := range x.Changes {
			out = append(out, "      "+pointerWords(c.Path)+"  "+cut(texts(c.Before), 40)+" → "+texts(c.After))
		}
	}
	return out
}
