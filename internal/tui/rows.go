package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/transcript"
)

// A row is a task of a step as a line: one of the run's graph, one in a task that only holds others, or an agent that works for
// the one above. Deeper tasks are counted in these rows.
type row struct {
	*transcript.Task
	label string
	place int // as declared
}

// A painter draws rows.
type painter struct {
	pal   Palette
	frame int // of the spinners
}

// rowsOf returns the rows of a step as declared.
func rowsOf(r *transcript.Run, s *transcript.Step) []row {
	var out []row
	own := ordered(r, s.Own())
	var add func(t *transcript.Task, above string, led bool)
	add = func(t *transcript.Task, above string, led bool) {
		label := strings.TrimPrefix(t.Label(), above)
		below := ordered(r, t.Children)
		if holds := len(t.Agents) == 0 && len(below) > 0; holds {
			if above == "" && len(own) == 1 {
				above = t.Label() + "/"
			}
			for _, in := range below {
				add(in, above, led)
			}
			return
		}
		if led {
			if len(t.Agents) == 0 && t.State != transcript.Waiting { // a call that holds no agent is told by the row above
				return
			}
			label = "└ " + helper(t)
		}
		out = append(out, row{t, label, len(out)})
		if led || t.Depth > 0 { // who works for an agent in an item is counted there
			return
		}
		for _, in := range below {
			add(in, t.Label()+"/", true)
		}
	}
	for _, t := range own {
		add(t, "", false)
	}
	return out
}

// teamOf returns the agents that work for a call, as declared. One of them may ask before it has begun.
func teamOf(r *transcript.Run, call *transcript.Task) []row {
	var out []row
	var add func(t *transcript.Task)
	add = func(t *transcript.Task) {
		if len(t.Agents) > 0 || t != call && (t.State == transcript.Waiting || len(t.Children) == 0) {
			out = append(out, row{t, helper(t), len(out)})
			return
		}
		for _, in := range ordered(r, t.Children) {
			add(in)
		}
	}
	add(call)
	return out
}

// helper is what an agent is called that works for another: by its name, and its number if several were begun at once.
func helper(t *transcript.Task) string {
	name, number, _ := strings.Cut(t.Path[strings.LastIndexByte(t.Path, '/')+1:], "[")
	if name != t.Agent {
		return cmp.Or(t.Agent, name)
	}
	return strings.TrimSuffix(name+"/"+number, "]")
}

// rank orders rows by how much they want to be seen.
func (t row) rank() int {
	switch {
	case t.State == transcript.Waiting:
		return 0
	case t.State == transcript.Failed, t.State == transcript.Partly, t.State == transcript.Stopped:
		return 1
	case t.Ended():
		return 4
	case t.Queued:
		return 3
	}
	return 2
}

// pick returns the most important rows, as declared.
func pick(rows []row, most int) []row {
	out := slices.SortedStableFunc(slices.Values(rows), func(a, b row) int { return cmp.Compare(a.rank(), b.rank()) })
	out = out[:min(most, len(out))]
	slices.SortFunc(out, func(a, b row) int { return cmp.Compare(a.place, b.place) })
	return out
}

// table returns rows as lines below each other. Parts that do not fit are omitted, the least important first.
func (p painter) table(rows []row, more, width int, now time.Time) []string {
	var out []string
	wide := labelWidth(rows, width)
	for _, t := range rows {
		out = append(out, p.row(t, wide, width-1, now))
	}
	if more > 0 {
		out = append(out, p.pal.Dim(fmt.Sprintf("   +%d more", more)))
	}
	return out
}

// labelWidth is how many cells the labels of rows take.
func labelWidth(rows []row, width int) int {
	wide := 0
	for _, t := range rows {
		wide = max(wide, ansi.StringWidth(t.label))
	}
	return min(wide, max(8, width/3))
}

// ordered returns tasks as declared.
func ordered(r *transcript.Run, tasks []*transcript.Task) []*transcript.Task {
	return slices.SortedFunc(slices.Values(tasks), r.Compare)
}

// endMark is the sign of a step that is done.
func endMark(s *transcript.Step) string {
	if slices.ContainsFunc(s.Tasks, func(t *transcript.Task) bool { return t.State != transcript.Done && t.State != transcript.Skipped }) {
		return "!"
	}
	return "✓"
}

// row is a line of at most width cells: label, agent, title, facts, and what it does.
func (p painter) row(t row, wide, width int, now time.Time) string {
	glyph, doing, must := p.state(t, now)
	label := short(t.label, wide)
	facts, doing := p.facts(t.Task, now), cut(doing, width)
	if t.Queued || t.State == transcript.Skipped {
		facts = ""
	}
	pad := strings.Repeat(" ", wide-ansi.StringWidth(label))
	room := width - 3 - wide
	take := func(s string, least int) string { // as much of a text as there is room for, if that is at least so much
		n := min(ansi.StringWidth(s), room-2)
		if s == "" || n < min(least, ansi.StringWidth(s)) || n <= 0 {
			return ""
		}
		s = cut(s, n)
		room -= ansi.StringWidth(s) + 2
		return "  " + s
	}
	var end string
	if must {
		end = take(doing, 1)
	}
	facts = take(facts, ansi.StringWidth(facts))
	agent, title := "", ""
	if t.Agent != "" && t.Agent != t.Node && !strings.HasPrefix(t.label, "└ "+t.Agent) {
		agent = t.Agent
	}
	if n := len(t.Agents); n > 0 {
		title = t.Agents[n-1].Title()
	}
	if !must && doing != "" && width < 79 { // on a narrow terminal what happens goes before what is to happen
		end = take(doing, 8)
	}
	agent = take(agent, ansi.StringWidth(agent))
	if keep := min(ansi.StringWidth(doing), 24); end == "" && doing != "" && room > keep+14 {
		room -= keep + 2
		title = take(title, 12)
		room += keep + 2
	} else {
		title = take(title, 12)
	}
	if end == "" {
		end = take(doing, 4)
	}
	return " " + glyph + " " + p.pal.Bold(label) + pad + p.pal.Dim(agent) + title + p.pal.Dim(facts) + end
}

// state returns the sign of a row and what it does or waits for, and whether that must be seen.
func (p painter) state(t row, now time.Time) (glyph, doing string, must bool) {
	if len(t.Bad) > 0 {
		doing = p.pal.Yellow("ran on error input: " + strings.Join(t.Bad, ", "))
	}
	switch {
	case t.AwaitsRun():
		return p.pal.Dim("◌"), "waits for run " + t.Run, true
	case t.State == transcript.Waiting:
		return p.pal.Yellow("?"), p.pal.Yellow(needs(t.Task)), true
	case t.State == transcript.Skipped:
		return p.pal.Dim("·"), p.pal.Dim("skipped"), true
	case t.State == transcript.Failed:
		return p.pal.Red("✗"), p.pal.Red("failed"), true
	case t.State == transcript.Done:
		return p.pal.Green("✓"), doing, doing != ""
	case t.Ended():
		return p.pal.Yellow("!"), p.pal.Yellow(string(t.State)), true
	case !t.RetryAt.IsZero():
		left := inwords.Duration(max(0, t.RetryAt.Sub(now)))
		return p.pal.Yellow("!"), p.pal.Yellow(resting(t.Task, left)), true
	case t.Queued:
		return p.pal.Dim("◌"), p.pal.Dim("queued"), true
	}
	doing = p.doing(t.Task)
	if t.Attempt > 1 {
		doing = strings.TrimRight(p.pal.Yellow(fmt.Sprintf("try %d", t.Attempt))+" "+doing, " ")
	}
	return spinner(p.frame), doing, t.Attempt > 1
}

// resting tells for what a task waits that is to go on in a while.
func resting(t *transcript.Task, left string) string {
	switch {
	case t.Limit != "":
		return "rate limit, goes on in " + left + " (" + t.Limit + ")"
	case t.Trouble != "":
		return "asks again in " + left + ": " + t.Trouble
	case t.Attempt > 1:
		return fmt.Sprintf("try %d in %s", t.Attempt, left)
	}
	return "goes on in " + left
}

// needs returns the question of a waiting task.
func needs(t *transcript.Task) string {
	for i := len(t.Parts) - 1; i >= 0; i-- {
		if q := t.Parts[i].Question; q != nil && !q.Answered {
			if q.Call != nil {
				return "NEEDS YOU: " + transcript.Line(q.Call.Tool+" "+strings.TrimPrefix(q.Call.Subject, q.Call.Tool+" "))
			}
			return "NEEDS YOU: " + transcript.Line(q.Question)
		}
	}
	return "NEEDS YOU"
}

// facts returns the number of tool calls of a task and its subtasks, and its duration.
func (p painter) facts(t *transcript.Task, now time.Time) string {
	facts := inwords.Brief(t.Time.Elapsed(now))
	if _, tools := t.Total(); tools > 0 {
		facts = inwords.Plural(tools, "tool") + " · " + facts
	}
	return facts
}

// doing returns the current activity of a running task.
func (p painter) doing(t *transcript.Task) string {
	if g := t.Progress; g != nil {
		const cells = 20
		done := max(0, min(cells, int(cells*g.Done/max(1, g.All))))
		return strings.Repeat("█", done) + p.pal.Dim(strings.Repeat("░", cells-done)) + " " + g.Text
	}
	if tool := t.Current(); tool != nil {
		return strings.TrimRight(tool.Name+" "+tool.Arg, " ")
	}
	if text := strings.TrimSpace(t.LiveTail(400)); text != "" {
		return p.pal.Dim(transcript.Line(text[strings.LastIndexByte(text, '\n')+1:]))
	}
	if t.Thinking {
		return p.pal.Dim("thinking")
	}
	return ""
}

// cut cuts a text to a width, between words if that leaves most of it.
func cut(s string, width int) string {
	if ansi.StringWidth(s) <= width {
		return s
	}
	whole := ansi.Truncate(s, width, "…")
	plain := ansi.Strip(whole)
	if i := strings.LastIndexByte(plain, ' '); i > 0 {
		if at := ansi.StringWidth(plain[:i]); at*3 >= width*2 {
			return ansi.Truncate(s, at+1, "…")
		}
	}
	return whole
}

// short cuts a name to a width, and keeps its end, which tells it from others.
func short(s string, width int) string {
	out := s
	for n := ansi.StringWidth(s) - width + 1; ansi.StringWidth(out) > width; n++ { // a letter may be two cells wide
		out = ansi.TruncateLeft(s, n, "…")
	}
	return out
}
