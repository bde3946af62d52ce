package tui

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

// A runPane shows a run: its steps as dividers, the agents of a step as rows, and what they say and do inline. It draws from the bottom up and no
// further than it is seen, so that a long run costs no more than a short one.
type runPane struct {
	t        *Terminal
	f        *following
	sel      string // the path of the selected row, "" for the first that matters
	expanded bool   // all rows, parts and results
	todos    bool   // the task list
	scroll   int    // lines below what is seen
	height   int    // when it was last drawn

	cache map[blockKey]drawnBlock
	swept int // the blocks that there were when those of dropped parts were last removed
	said  map[*transcript.Task]*liveText
}

// blockKey identifies a block of the view. Part is the ID of a part of the task.
type blockKey struct {
	task *transcript.Task
	part string
	kind blockKind
	step int
}

type blockKind uint8

const (
	blockPart blockKind = iota
	blockTask           // the end of a task that is alone in its step
	blockLive           // what it says at the moment
	blockRows
	blockDivider
	blockHead // the first message of the user
	blockEnd  // how the run ended
)

// drawnBlock is a drawn block, as long as nothing about it changes.
type drawnBlock struct {
	rev      uint64
	width    int
	expanded bool
	lines    []string
}

func newRunPane(t *Terminal, f *following) *runPane {
	v := &runPane{t: t}
	v.follow(f)
	return v
}

// follow shows another following of the run.
func (v *runPane) follow(f *following) {
	v.f, v.cache, v.said = f, map[blockKey]drawnBlock{}, map[*transcript.Task]*liveText{}
}

func (v *runPane) title() string { return v.f.run.Workflow }

func (v *runPane) hints() string {
	return "↑↓ agent · Enter open · i inbox · g graph · h history · b budget · p pause · s stop agent · ^O expand · Tab back · ? keys"
}

// talks reports whether the run is a conversation, whose steps need no dividers.
func (v *runPane) talks() bool { return v.f.run.Workflow == "agent" }

func (v *runPane) draw(w, h int) []string {
	v.height = h
	r := &v.f.run
	if v.f.err != nil && r.Status == "" {
		return []string{"", v.t.pal.Red(cut(" ✗ "+transcript.Line(v.f.err.Error()), w))}
	}
	if r.Status == "" {
		return []string{"", v.t.pal.Dim(" opening run " + v.f.id + " …")}
	}
	var tail []string
	if v.todos {
		tail = v.todoLines(w, h/2)
	}
	h -= len(tail)
	body := upwards(h, &v.scroll, func(yield func([]string) bool) { v.blocks(w, yield) })
	return append(body, tail...)
}

// upwards draws the last h lines of blocks that come from the last to the first, but for those that are scrolled past, and takes no more blocks than that
// needs.
func upwards(h int, scroll *int, all func(yield func([]string) bool)) []string {
	var blocks [][]string // from the last to the first
	need := h + *scroll
	all(func(lines []string) bool {
		blocks = append(blocks, lines)
		need -= len(lines)
		return need > 0
	})
	if need > 0 { // there is nothing above
		*scroll = max(0, *scroll-need)
	}
	out := make([]string, 0, h+*scroll)
	for _, b := range slices.Backward(blocks) {
		out = append(out, b...)
	}
	out = out[:max(0, len(out)-*scroll)]
	return out[max(0, len(out)-h):]
}

// blocks yields the lines of the run, block by block, from the last to the first.
func (v *runPane) blocks(w int, yield func([]string) bool) {
	r := &v.f.run
	if end := v.end(w); end != nil && !yield(end) {
		return
	}
	for _, s := range slices.Backward(r.Steps) {
		if len(s.Tasks) == 0 {
			continue
		}
		if !v.step(s, w, yield) {
			return
		}
	}
	yield(v.head(w))
}

// step yields the lines of a step from the last to the first, and reports whether more are wanted.
func (v *runPane) step(s *transcript.Step, w int, yield func([]string) bool) bool {
	own := s.Own()
	single := len(own) == 1 && len(own[0].Agents)+len(own[0].Parts) > 0 && own[0].Items == 0
	var rows []row
	var on map[*transcript.Task]bool
	path := ""
	if !single || !s.Done && !v.talks() {
		rows = rowsOf(&v.f.run, s)
		on, path = v.critical(s, len(rows))
	}
	if single {
		if !v.alone(own[0], w, yield) {
			return false
		}
	} else if lines := v.tree(rows, on, w, s.Done); len(lines) > 0 && !yield(lines) {
		return false
	}
	if v.talks() {
		return true
	}
	return yield(v.divider(s, rows, path, w))
}

// alone yields the parts of a task that is alone in its step.
func (v *runPane) alone(t *transcript.Task, w int, yield func([]string) bool) bool {
	r := &v.f.run
	if t.Time.Elapsed(v.t.opt.Now()); !t.Ended() && t.State != transcript.Waiting {
		live := v.live(t, w)
		if team := v.unlinked(t); len(team) > 0 {
			live = v.tree(team, nil, w, false)
		}
		if live != nil && !yield(live) {
			return false
		}
	} else if team := v.unlinked(t); len(team) > 0 {
		if !yield(v.tree(team, nil, w, true)) {
			return false
		}
	} else if t.State == transcript.Failed && t.Error != "" && !v.inFull() && r.Error == "" { // a page about the task has it in full, and the end of the run
		if !yield([]string{" " + v.t.pal.Red("✗ "+cut(transcript.Line(t.Error), w-4))}) {
			return false
		}
	}
	for i := len(t.Parts) - 1; i >= 0; i-- {
		p := &t.Parts[i]
		if p.Kind == transcript.Failure && i == len(t.Parts)-1 && t.State == transcript.Failed && r.Error != "" { // the end of the run says it
			continue
		}
		lines := v.part(r, t, p, w)
		if len(lines) > 0 && !yield(lines) {
			return false
		}
	}
	if t.Dropped > 0 {
		return yield([]string{v.t.pal.Dim(fmt.Sprintf(" … %s earlier; superstep runs show %s has all", inwords.Plural(t.Dropped, "part"), v.f.id))})
	}
	return true
}

// inFull reports whether it draws for a page about one task, which tells its error and its agents by itself.
func (v *runPane) inFull() bool {
	_, ok := v.t.top().(*agentPane)
	return ok
}

// unlinked returns the agents that work for a task, or did when it was cut off, and whose call is not in the log: calls that only hold agents are recorded
// when they end, and who follows a run from the middle of one has not heard of it.
func (v *runPane) unlinked(t *transcript.Task) []row {
	if len(t.Children) == 0 || v.inFull() {
		return nil
	}
	calls := map[*transcript.Task]bool{}
	for i := range t.Parts {
		if u := t.Parts[i].Tool; u != nil {
			calls[u.Child] = true
		}
	}
	var out []row
	for _, c := range ordered(&v.f.run, t.Children) {
		if calls[c] || c.State == transcript.Done || c.State == transcript.Failed || c.State == transcript.Skipped {
			continue
		}
		for _, x := range teamOf(&v.f.run, c) {
			if len(x.Agents) > 0 || x.State == transcript.Waiting {
				x.place = len(out)
				out = append(out, x)
			}
		}
	}
	return out
}

// part draws a part, from the cache if nothing about it has changed.
func (v *runPane) part(r *transcript.Run, t *transcript.Task, p *transcript.Part, w int) []string {
	rev, moving := p.Rev, false
	if p.Tool != nil {
		moving = p.Tool.State == transcript.Running
		if p.Tool.Child != nil {
			rev = max(rev, p.Tool.Child.Rev)
		}
	}
	key := blockKey{task: t, part: p.ID, kind: blockPart}
	team := p.Tool != nil && p.Tool.Child != nil
	chosen := team && v.t.focus == onPane && len(v.t.panes) == 0
	if c, ok := v.cache[key]; ok && !moving && !chosen && c.rev == rev && c.width == w && c.expanded == v.expanded {
		return c.lines
	}
	lines := v.t.paint().part(p, &partOptions{width: w, expanded: v.expanded, now: v.t.opt.Now()})
	if team { // the agents come below the call, and what it gave below them
		lines = slices.Insert(lines, 1, v.tree(teamOf(r, p.Tool.Child), nil, w, !moving)...)
	}
	if !moving && !chosen {
		v.sweep()
		v.cache[key] = drawnBlock{rev, w, v.expanded, lines}
	}
	return lines
}

// mostBlocks is how many drawn blocks are kept before it is looked which of them are of the run no more.
const mostBlocks = 4096

// sweep removes drawn blocks of parts that the fold has dropped, whenever there are twice as many as the last time.
func (v *runPane) sweep() {
	if len(v.cache) < max(mostBlocks, 2*v.swept) {
		return
	}
	kept := make(map[blockKey]drawnBlock, len(v.cache))
	for _, t := range v.f.run.Tasks {
		for i := range t.Parts {
			key := blockKey{task: t, part: t.Parts[i].ID, kind: blockPart}
			if b, ok := v.cache[key]; ok {
				kept[key] = b
			}
		}
	}
	v.cache, v.swept = kept, len(kept)
	maps.DeleteFunc(v.said, func(t *transcript.Task, _ *liveText) bool { return t.Ended() })
}

// live draws what a running task says or does at the moment.
func (v *runPane) live(t *transcript.Task, w int) []string {
	pal := v.t.pal
	text := t.LiveTail(64 << 10)
	if text == "" {
		delete(v.said, t)
		if t.Thinking || t.Current() == nil && !t.Queued {
			return []string{" " + pal.Dim(spinner(v.t.frame)+" thinking")}
		}
		if t.Queued {
			return []string{" " + pal.Dim("◌ queued")}
		}
		return nil
	}
	said := v.said[t]
	if said == nil {
		said = &liveText{}
		v.said[t] = said
	}
	return said.draw(v.t, text, w)
}

// tree draws agents that work side by side: the most important ones in declared order, and what the selected one says and does.
func (v *runPane) tree(all []row, crit map[*transcript.Task]bool, w int, done bool) []string {
	if len(all) == 0 {
		return nil
	}
	most := maxRows
	if v.expanded {
		most = len(all)
	}
	shown := pick(all, most)
	sel := ""
	if t := v.chosen(); t != nil {
		sel = t.Path
	}
	if i := slices.IndexFunc(all, func(x row) bool { return x.Path == sel }); i >= 0 && !slices.ContainsFunc(shown, func(x row) bool { return x.Path == sel }) {
		shown[len(shown)-1] = all[i]
		slices.SortFunc(shown, func(a, b row) int { return cmp.Compare(a.place, b.place) })
	}
	p, wide := v.t.paint(), labelWidth(shown, w)
	var out []string
	for i, x := range shown {
		branch := "├─"
		if i == len(shown)-1 && len(shown) == len(all) {
			branch = "└─"
		}
		mark := " "
		if x.Path == sel && v.t.focus == onPane && len(v.t.panes) == 0 {
			mark = "▸"
		}
		line := mark + v.t.pal.Dim(branch)
		if critical := "  ← critical"; w >= 80 && crit[x.Task] {
			line += strings.TrimPrefix(p.row(x, wide, w-4-ansi.StringWidth(critical), v.t.opt.Now()), " ") + v.t.pal.Dim(critical)
		} else {
			line += strings.TrimPrefix(p.row(x, wide, w-4, v.t.opt.Now()), " ")
		}
		out = append(out, line)
		if (x.Path == sel || v.expanded) && w >= 80 && !done && !x.Ended() {
			out = append(out, v.inline(x.Task, w)...)
		}
	}
	if more := len(all) - len(shown); more > 0 {
		out = append(out, v.t.pal.Dim(fmt.Sprintf("   +%d more (^O)", more)))
	}
	return out
}

// inline draws the last parts of an agent below its row, one line each.
func (v *runPane) inline(t *transcript.Task, w int) []string {
	var out []string
	for i := len(t.Parts) - 1; i >= 0 && len(out) < 3; i-- {
		if line := v.t.paint().partLine(&t.Parts[i], v.t.opt.Now()); line != "" {
			out = append(out, v.t.pal.Dim(" │    ")+cut(line, w-7))
		}
	}
	slices.Reverse(out)
	if text := strings.TrimSpace(t.LiveTail(400)); text != "" && !t.Ended() {
		out = append(out, v.t.pal.Dim(" │    ● ")+cut(transcript.Line(text[strings.LastIndexByte(text, '\n')+1:]), w-9))
	}
	return out[max(0, len(out)-3):]
}

// active is the step whose rows can be selected, nil if there is none.
func (v *runPane) active() *transcript.Step {
	for _, s := range slices.Backward(v.f.run.Steps) {
		if len(s.Tasks) > 0 {
			return s
		}
	}
	return nil
}

// selected is the index of the selected row, -1 if the step is not the one whose rows can be selected.
func (v *runPane) selected(s *transcript.Step, rows []row) int {
	if s != v.active() || len(rows) == 0 {
		return -1
	}
	if i := slices.IndexFunc(rows, func(x row) bool { return x.Path == v.sel }); i >= 0 {
		return i
	}
	best := 0
	for i, x := range rows {
		if x.rank() < rows[best].rank() {
			best = i
		}
	}
	return best
}

// chosen is the task of the selected row, nil if there is none.
func (v *runPane) chosen() *transcript.Task {
	s := v.active()
	if s == nil {
		return nil
	}
	rows := rowsOf(&v.f.run, s)
	if i := v.selected(s, rows); i >= 0 {
		return rows[i].Task
	}
	return nil
}

// divider is the line above a step with its rows, which are not needed once it is done, and the critical path from it on.
func (v *runPane) divider(s *transcript.Step, rows []row, path string, w int) []string {
	r := &v.f.run
	now := v.t.opt.Now()
	if s.Done {
		key := blockKey{kind: blockDivider, step: s.Number}
		if c, ok := v.cache[key]; ok && c.width == w {
			return c.lines
		}
		lines := []string{v.t.pal.Dim(fill(fmt.Sprintf(" ── Step: %s %s (%s)", names(r, s), endMark(s), inwords.Brief(s.Time.Elapsed(now))), w))}
		v.cache[key] = drawnBlock{width: w, lines: lines}
		return lines
	}
	done, waiting, awaiting, failed := 0, 0, 0, 0
	for _, x := range rows {
		switch {
		case x.AwaitsRun():
			awaiting++
		case x.State == transcript.Waiting:
			waiting++
		case x.State == transcript.Failed:
			failed++
			done++
		case x.Ended():
			done++
		}
	}
	how := "running"
	switch {
	case r.Status == runlog.Running && !v.f.ended:
	case failed > 0:
		how = "failed"
	case r.Status == runlog.Paused && waiting+awaiting > 0:
		how = "waits"
	default:
		how = "stopped"
	}
	text := " ── Step: " + names(r, s) + " (" + how + ")"
	if all := max(len(rows), planned(s)); all > 1 {
		text += fmt.Sprintf(" ── %d/%d done", done, all)
	}
	if list := listOf(s); list != "" {
		text += " · list " + list + " /tasks"
	}
	if waiting > 0 {
		text += fmt.Sprintf(" · %d needs you", waiting)
	}
	if failed > 0 {
		text += fmt.Sprintf(" · %d failed", failed)
	}
	if path != "" && w >= 80 {
		text += " · critical path: " + path
	}
	return []string{fill(text, w)}
}

// listOf returns how much of the task list of a step's tasks is done, "" if the list is that of an agent, or if there is none.
func listOf(s *transcript.Step) string {
	done, all := 0, 0
	for _, t := range s.Tasks {
		if t.Agent != "" {
			continue
		}
		for _, d := range t.Todos {
			if all++; d.Status == "completed" {
				done++
			}
		}
	}
	if all == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", done, all)
}

// planned counts the items that a step was sent.
func planned(s *transcript.Step) (n int) {
	for _, k := range s.Planned {
		n += k
	}
	return n
}

// fill fills a divider up to the width.
func fill(text string, w int) string {
	text = cut(text, w-2) + " "
	return text + strings.Repeat("─", max(0, w-ansi.StringWidth(text)))
}

// head draws what the run was begun with.
func (v *runPane) head(w int) []string {
	r := &v.f.run
	key := blockKey{kind: blockHead}
	if c, ok := v.cache[key]; ok && c.width == w {
		return c.lines
	}
	var in struct{ Prompt string }
	_ = json.Unmarshal(r.Inputs, &in)
	text := transcript.Clean(in.Prompt)
	if !v.talks() || text == "" {
		text = "/" + r.Workflow
		if r.Title != "" {
			text += " " + r.Title
		}
	}
	var out []string
	if r.Parent != "" {
		out = append(out, v.t.pal.Dim(fmt.Sprintf(" forked from run %s after record %d", r.Parent, r.At)))
	}
	out = append(append(out, v.t.paint().message(text, w)...), "")
	v.cache[key] = drawnBlock{width: w, lines: out}
	return out
}

// end draws how the run ended, or why it does not go on.
func (v *runPane) end(w int) []string {
	r, now := &v.f.run, v.t.opt.Now()
	pal := v.t.pal
	if v.f.err != nil {
		return []string{pal.Red(cut(" ✗ "+transcript.Line(v.f.err.Error()), w))}
	}
	switch {
	case v.talks() && r.AwaitsMessage():
		return []string{"", pal.Dim(" " + cut(strings.Join(append([]string{inwords.Duration(r.Time.Elapsed(now))}, nonEmpty(append(spent(r), totals(r))...)...), " · "), w-1))}
	case r.Status == runlog.Running && !v.f.ended:
		if wait := r.Wait(); wait != nil {
			return []string{pal.Yellow(cut(" ■ nothing moves: "+waitsFor(wait, now), w))}
		}
		return nil
	case r.Status == "" || r.Status == runlog.Running && !v.f.loaded:
		return nil
	}
	out := []string{"", " " + ansi.Truncate(closing(pal, r.Status, r.Time.Elapsed(now), r), w-1, "…")}
	if more := totals(r); more != "" {
		out = append(out, pal.Dim(cut("   "+more, w)))
	}
	switch {
	case r.Error != "":
		for line := range strings.SplitSeq(ansi.Wrap(transcript.Clean(r.Error), max(8, w-4), ""), "\n") {
			out = append(out, "   "+pal.Red(line))
		}
		out = append(out, pal.Dim(cut("   again: /resume · from an earlier step: Tab, then h", w)))
	case r.Status == runlog.Paused && r.Short != nil:
		out = append(out, cut("   "+transcript.Line(r.Short.Error()), w), pal.Dim(cut("   raise it: Tab, then b", w)))
	case r.Status == runlog.Interrupted:
		out = append(out, pal.Yellow(cut("   No process executes it any more. Nothing that is done is lost: /resume goes on.", w)))
	case r.Status == runlog.Paused && len(r.Open()) == 0:
		out = append(out, pal.Dim(cut("   go on: /resume", w)))
	case r.Status == runlog.Completed || r.Status == runlog.Partial:
		if text := r.Result(); text != "" && strings.TrimSpace(text) != strings.TrimSpace(lastText(r)) {
			out = append(out, "")
			for _, l := range markdownLines(text, w-2, pal != "") {
				out = append(out, " "+l)
			}
		}
	}
	return append(out, "")
}

// lastText is the last text of the run, if an agent that is alone in its step has said it, so that it is on the screen.
func lastText(r *transcript.Run) string {
	for _, s := range slices.Backward(r.Steps) {
		own := s.Own()
		if len(own) == 0 {
			continue
		}
		if parts := own[0].Parts; len(own) == 1 && len(parts) > 0 && parts[len(parts)-1].Kind == transcript.Text {
			return parts[len(parts)-1].Text
		}
		break
	}
	return ""
}

func nonEmpty(list ...string) []string {
	return slices.DeleteFunc(list, func(s string) bool { return s == "" })
}

// waitsFor tells why a run makes no progress.
func waitsFor(w *transcript.Wait, now time.Time) string {
	text := map[string]string{"person": "it waits for an answer", "message": "it waits for a message", "budget": "the budget is used up", "rate_limit": "rate limit", "retry": "an attempt failed", "date": "it waits for a date",
		"storage": "the store can take no more", "operator": "it was paused", "worker": "no process executes it"}[w.What]
	if w.Until != nil {
		text += ", goes on in " + inwords.Duration(w.Until.Sub(now))
	}
	return cmp.Or(text, w.What)
}

// todoLines draws the task list of the run, or that of its agents, in at most h lines: those around the first item that is worked on.
func (v *runPane) todoLines(w, h int) []string {
	r := &v.f.run
	var out []string
	done, all, at := 0, 0, -1
	for _, t := range r.Tasks {
		for _, d := range t.Todos {
			sign, text := "[ ]", transcript.Line(d.Content)
			switch d.Status {
			case "completed":
				sign = "[✓]"
				done++
			case "in_progress":
				sign = "[•]"
				if at < 0 {
					at = all
				}
			case "error":
				sign = "[✗]"
			}
			if blockers := transcript.Blockers(t.Todos, &d); len(blockers) > 0 {
				text += " (blocked by #" + strings.Join(blockers, ", #") + ")"
			}
			all++
			out = append(out, cut(" "+sign+" "+text, w))
		}
	}
	if len(out) == 0 && !v.talks() {
		seen := map[string]bool{}
		for _, t := range r.Tasks {
			if t.Parent != nil || seen[t.Node] {
				continue
			}
			seen[t.Node] = true
			sign := "[•]"
			if t.Ended() {
				sign = "[✓]"
			}
			out = append(out, cut(" "+sign+" "+t.Node, w))
		}
		for _, n := range r.Pending() {
			out = append(out, cut(" [ ] "+transcript.Line(n), w))
		}
	}
	if len(out) == 0 {
		return []string{v.t.pal.Dim(" no task list")}
	}
	head := " ── Tasks"
	if all > 0 {
		head += fmt.Sprintf(" %d/%d", done, all)
	}
	if most := max(h-1, 1); len(out) > most {
		if at < 0 {
			at = done
		}
		from := min(max(0, at-most/3), len(out)-most)
		out = out[from : from+most]
	}
	return append([]string{v.t.pal.Dim(fill(head, w))}, out...)
}

func (v *runPane) key(k tea.KeyPressMsg) tea.Cmd {
	t := v.t
	switch {
	case t.keys.is(k, "help"):
		t.push(newHelpPane(t))
	case t.keys.is(k, "inbox"):
		t.push(newInboxPane(t))
	case t.keys.is(k, "runs"):
		return t.showRuns()
	case t.keys.is(k, "history"):
		return t.showHistory()
	case t.keys.is(k, "graphs"):
		return t.showGraph()
	case t.keys.is(k, "budget"):
		limit := ""
		if short := t.run.run.Short; short != nil && short.What != "" {
			limit = short.What + "="
		}
		t.compose.set("/budget " + limit)
		t.setFocus(onComposer)
	case t.keys.is(k, "stopAgent"):
		return t.stopAgent(v.chosen())
	case t.keys.is(k, "open"):
		if task := v.chosen(); task != nil {
			return t.openAgent(task.Path)
		}
	case t.keys.is(k, "back"):
		t.setFocus(onComposer)
	case t.keys.is(k, "up"), t.keys.is(k, "down"):
		v.move(t.keys.is(k, "up"))
	case t.keys.is(k, "pause"):
		t.asks("Pause this run?", "at its next checkpoint; /resume resumes it", t.pause)
	default:
		scrollKey(k, &v.scroll, v.height)
	}
	return nil
}

// move selects the row above or below, or scrolls where there are none.
func (v *runPane) move(up bool) {
	by := 1
	if up {
		by = -1
	}
	if s := v.active(); s != nil && v.t.focus == onPane {
		rows := rowsOf(&v.f.run, s)
		if i := v.selected(s, rows); len(rows) > 1 && i >= 0 {
			v.sel = rows[min(max(i+by, 0), len(rows)-1)].Path
			return
		}
	}
	v.scroll = max(0, v.scroll-by)
}

// scrollKey scrolls a view of which so many lines are seen. Scroll counts the lines below them.
func scrollKey(k tea.KeyPressMsg, scroll *int, height int) {
	switch k.String() {
	case "up":
		*scroll++
	case "down":
		*scroll = max(0, *scroll-1)
	case "pgup":
		*scroll += max(1, height-2)
	case "pgdown":
		*scroll = max(0, *scroll-max(1, height-2))
	case "home":
		*scroll = 1 << 30
	case "end":
		*scroll = 0
	}
}

// pause stops the shown run at its next checkpoint.
func (t *Terminal) pause() tea.Cmd {
	if t.run == nil || t.run.run.Status != runlog.Running || t.run.ended {
		t.say("the run is not running")
		return nil
	}
	return t.stopRun()
}

// header is the first line: the run, its step, and what it has used.
func (t *Terminal) header(w int) []string {
	if t.run == nil {
		return t.startHeader(w)
	}
	r, now := &t.run.run, t.opt.Now()
	left := " " + t.pal.Bold(cmp.Or(r.Workflow, "run")) + " " + t.run.id
	if t.view.talks() && r.Title != "" {
		left = " " + t.pal.Bold(cut(transcript.Line(r.Title), max(20, w/2))) + " " + t.run.id
	}
	if k, n := progress(r); n > 1 && !t.view.talks() {
		left += fmt.Sprintf(" · step %d/%d", k, n)
	}
	if s := t.view.active(); s != nil && !s.Done && !t.view.talks() {
		left += " " + cut(names(r, s), 24)
	}
	if p := len(t.panes); p > 0 {
		left = " " + t.pal.Bold(cmp.Or(r.Workflow, "run")) + " " + t.run.id + " " + t.pal.Yellow("▏"+t.panes[p-1].title())
	}
	sign := " "
	switch {
	case t.moves() && t.opt.Calm:
		sign = "●"
	case t.moves():
		sign = spinner(t.frame)
	case len(r.Open()) > 0 && !r.AwaitsMessage():
		sign = t.pal.Yellow("?")
	}
	right := []string{sign + " " + inwords.Duration(r.Time.Elapsed(now))}
	if t.compose.mode != "" { // it must be seen
		right = slices.Insert(right, 0, t.pal.Yellow(t.compose.mode))
	}
	if n := r.Used().Tokens; n > 0 {
		right = append(right, "↓"+inwords.Count(n))
	}
	if cost := costOf(r); cost != "" {
		if held := r.Held().Money; held > 0 {
			c, limit, _ := strings.Cut(cost, " / ")
			cost = c + " +" + inwords.Dollars(held) + " held"
			if limit != "" {
				cost += " / " + limit
			}
		}
		right = append(right, cost)
	}
	if bar := budgetBar(r); bar != "" && w >= 80 {
		right = append(right, bar)
	}
	if used := t.contextUse(r); used != "" && t.view.talks() {
		right = append(right, used)
	}
	end := strings.Join(right, "  ") + " "
	if t.run.only && t.moves() {
		end = "live text out of reach  " + end
	}
	for len(right) > 1 && ansi.StringWidth(left)+ansi.StringWidth(end) > w {
		right = right[:len(right)-1]
		end = strings.Join(right, "  ") + " "
	}
	left = ansi.Truncate(left, max(0, w-ansi.StringWidth(end)-1), "…")
	line := left + strings.Repeat(" ", max(1, w-ansi.StringWidth(left)-ansi.StringWidth(end))) + end
	return []string{line}
}

// contextUse is how much of the model's window the last agent of the run uses.
func (t *Terminal) contextUse(r *transcript.Run) string {
	if len(r.Agents) == 0 {
		return ""
	}
	a := r.Agents[0]
	if a.Window == 0 || a.Used == 0 {
		return ""
	}
	return fmt.Sprintf("context %d%%", min(100, 100*a.Used/a.Window))
}

// progress counts the nodes of the graph that have been worked on, and all of them.
func progress(r *transcript.Run) (k, n int) {
	n = len(r.Nodes)
	return n - len(r.Pending()), n
}

// budgetBar shows how much of the money is spent and reserved, sub-agents included; "" without a limit.
func budgetBar(r *transcript.Run) string {
	limit := r.Budget.Money
	if limit <= 0 {
		return ""
	}
	const cells = 8
	used := min(cells, int(cells*r.Spent.Money/limit))
	held := min(cells-used, int((cells*r.Held().Money+limit-1)/limit))
	return strings.Repeat("▓", used) + strings.Repeat("▒", held) + strings.Repeat("░", cells-used-held)
}

// windowTitle names the run and whether it needs the user.
func (t *Terminal) windowTitle() string {
	if t.run == nil {
		return "superstep"
	}
	r := &t.run.run
	title := cmp.Or(r.Title, r.Workflow, t.run.id)
	if title = ansi.Truncate(title, 100, "…"); len(title) > 400 { // of letters without a width
		title = t.run.id
	}
	if t.waiting() {
		return "? " + title
	}
	return title
}

func (t *Terminal) paint() painter { return painter{t.pal, t.frame} }
