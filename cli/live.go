package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/transcript"
)

const (
	frameTime = 100 * time.Millisecond // between two drawings
	maxRows   = 8                      // of tasks
)

// live is progress that is redrawn in place: finished steps stay where they are, and
// below them is a line for each task at work. A frame is one write that leaves the
// cursor at the start of the line below, visible, so that the terminal is in order
// whenever and however the process ends.
type live struct {
	s     *session
	out   *output
	pal   palette
	size  func() (width, height int)
	quiet bool // somebody else writes

	above []string // lines to be written once, above the block
	drawn []int    // the widths of the lines of the block on the screen
	frame int
	end   chan struct{}
	ended chan struct{}
}

// newLive makes the view. The goroutine behind it draws; it ends with close.
func newLive(a *app, s *session) *live {
	v := &live{s: s, out: a.err, pal: palette(a.term.errColor), size: a.term.size, end: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(v.ended)
		t := time.NewTicker(frameTime)
		defer t.Stop()
		for {
			select {
			case <-v.end:
				return
			case <-t.C:
				s.mu.Lock()
				v.draw(true)
				s.mu.Unlock()
			}
		}
	}()
	return v
}

func (v *live) suspend() {
	v.draw(false)
	v.quiet = true
}

func (v *live) resume() { v.quiet = false }

func (v *live) close() {
	close(v.end)
	<-v.ended
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	v.quiet = false
	v.draw(false)
}

// draw replaces the block on the screen, or takes it away.
func (v *live) draw(block bool) {
	if v.quiet {
		return
	}
	width, height := v.size()
	var b strings.Builder
	if up := rows(v.drawn, width); up > 0 {
		fmt.Fprintf(&b, "\r\x1b[%dA\x1b[J", up)
	}
	for _, line := range v.above {
		b.WriteString(ansi.Truncate(line, width, "…") + "\n")
	}
	v.above, v.drawn = nil, v.drawn[:0]
	if block {
		for _, line := range v.block(width, height) {
			line = ansi.Truncate(line, width-1, "…") // the last column is left alone: terminals differ in when they wrap
			v.drawn = append(v.drawn, ansi.StringWidth(line))
			b.WriteString(line + "\n")
		}
	}
	v.frame++
	if b.Len() > 0 {
		_, _ = v.out.Write([]byte(b.String()))
	}
}

// rows is how many rows lines of these widths take: a terminal that became narrower
// has wrapped them.
func rows(widths []int, width int) int {
	n := 0
	for _, w := range widths {
		n += max(1, (w+width-1)/width)
	}
	return n
}

// block is what changes: the steps under way, their tasks, and the totals.
func (v *live) block(width, height int) []string {
	r, now := &v.s.run, v.s.now()
	active := r.Active()
	room := max(1, min(maxRows, height-5))
	var out []string
	step := -1
	for i, t := range active {
		if i == room {
			out = append(out, v.pal.dim(fmt.Sprintf("   +%d more", len(active)-i)))
			break
		}
		if t.Step != step {
			step = t.Step
			out = append(out, v.header(r.Step(step), width))
		}
		out = append(out, v.row(t, now))
	}
	facts := []string{duration(r.Time.Elapsed(now)), "↓ " + count(r.Usage.In+r.Usage.Out) + " tokens", plural(r.Agents, "agent")}
	return append(out, v.pal.dim(" "+spinner(v.frame)+" "+strings.Join(facts, " · ")))
}

func spinner(frame int) string {
	frames := [...]string{"⣷", "⣯", "⣟", "⡿", "⢿", "⣻", "⣽", "⣾"}
	return frames[frame%len(frames)]
}

// names are the nodes of a step, each once.
func names(s *transcript.Step) string {
	var out []string
	seen := map[string]bool{}
	for _, t := range own(s) {
		n := t.Node
		if t.Key == "" {
			n = t.Path
		}
		if !seen[n] {
			seen[n] = true
			out = append(out, n)
		}
	}
	return strings.Join(out, ", ")
}

// own are the tasks of a step without those inside of them.
func own(s *transcript.Step) []*transcript.Task {
	return slices.DeleteFunc(slices.Clone(s.Tasks), func(t *transcript.Task) bool { return strings.Contains(t.Path, "/") })
}

// header is the divider of a step under way.
func (v *live) header(s *transcript.Step, width int) string {
	if s == nil {
		return ""
	}
	done, all, waiting := 0, len(own(s)), 0
	for _, t := range s.Tasks {
		if t.Ended() && !strings.Contains(t.Path, "/") {
			done++
		}
		if t.State == transcript.Waiting {
			waiting++
		}
	}
	planned := 0
	for _, n := range s.Planned {
		planned += n
	}
	all = max(all, planned)
	text := "── Step: " + names(s) + " (running)"
	if all > 1 {
		text += fmt.Sprintf(" ── %d/%d done", done, all)
	}
	if waiting > 0 {
		text += fmt.Sprintf(" · %d needs you", waiting)
	}
	return v.pal.dim(rule(text, width))
}

// rule fills a divider up to a width that is pleasant to read.
func rule(text string, width int) string {
	width = min(width-1, 80)
	text = ansi.Truncate(text+" ", width, "… ")
	return text + strings.Repeat("─", max(0, width-ansi.StringWidth(text)))
}

// row is a task at work.
func (v *live) row(t *transcript.Task, now time.Time) string {
	glyph := spinner(v.frame)
	if t.State == transcript.Waiting {
		glyph = v.pal.yellow("?")
	}
	parts := []string{" " + glyph + " " + v.pal.bold(label(t))}
	if t.Agent != "" && t.Agent != t.Node {
		parts = append(parts, t.Agent)
	}
	facts := brief(t.Time.Elapsed(now))
	if t.Tools > 0 {
		facts = plural(t.Tools, "tool") + " · " + facts
	}
	parts = append(parts, v.pal.dim(facts))
	if t.Attempt > 1 {
		parts = append(parts, v.pal.yellow(fmt.Sprintf("attempt %d", t.Attempt)))
	}
	return strings.Join(append(parts, v.doing(t)), "  ")
}

func (v *live) doing(t *transcript.Task) string {
	if t.State == transcript.Waiting {
		return v.pal.yellow("NEEDS YOU")
	}
	if tool := t.Current(); tool != nil {
		return strings.TrimRight(tool.Name+" "+tool.Arg, " ")
	}
	if text := strings.TrimSpace(t.Live()); text != "" {
		return v.pal.dim(transcript.Line(text[strings.LastIndexByte(text, '\n')+1:]))
	}
	if t.Thinking {
		return v.pal.dim("thinking")
	}
	return ""
}

func (v *live) see(rec *runlog.Record, r *transcript.Run, old bool) {
	if old {
		return
	}
	switch rec.Kind {
	case runlog.KindRunStarted, runlog.KindRunResumed:
		line := v.pal.bold(r.Workflow) + " " + v.pal.dim("run "+v.s.id)
		if r.Title != "" {
			line += " " + r.Title
		}
		if rec.Kind == runlog.KindRunResumed {
			line += v.pal.dim(" (resumed)")
		}
		v.say(line)
	case runlog.KindStepCommitted:
		v.stepDone(rec, r)
	case runlog.KindTaskFailed:
		t := r.Task(rec.Path)
		word := v.pal.red("✗") + " " + label(t) + " failed"
		if !t.Ended() {
			word = v.pal.yellow("!") + " " + label(t) + fmt.Sprintf(" failed, attempt %d follows", t.Attempt)
		}
		v.say(" " + word + ": " + transcript.Line(t.Error))
	case runlog.KindAnswered:
		v.answered(rec)
	case runlog.KindEvent:
		t := r.Task(rec.Path)
		var d runlog.Event
		if t == nil || json.Unmarshal(rec.Data, &d) != nil || d.Name != "note" && d.Name != "denied" {
			return
		}
		if n := len(t.Parts); n > 0 && t.Parts[n-1].Kind == transcript.Note {
			v.say(" " + v.pal.dim("· "+transcript.Line(t.Parts[n-1].Text)))
		}
	}
}

// say puts a line above the block with the next drawing.
func (v *live) say(line string) { v.above = append(v.above, line) }

func (v *live) answered(rec *runlog.Record) {
	var d runlog.Answered
	if json.Unmarshal(rec.Data, &d) != nil || d.By == "person" {
		return // who typed it knows
	}
	value := transcript.Line(transcript.Value(d.Answer))
	if d.Denied {
		value = "denied"
	}
	v.say(fmt.Sprintf(" ? %s -> %s (%s)", transcript.Line(rec.Path), value, transcript.Line(d.By)))
}

// stepDone leaves the divider of a step behind, and a line for each task if there were several.
func (v *live) stepDone(rec *runlog.Record, r *transcript.Run) {
	var d runlog.StepCommitted
	_ = json.Unmarshal(rec.Data, &d)
	s := r.Step(d.Step)
	if s == nil || rec.Path != "" {
		return
	}
	mark, tasks := "✓", own(s)
	for _, t := range s.Tasks {
		if t.State != transcript.Done && t.State != transcript.NotRun {
			mark = "!"
		}
	}
	width, _ := v.size()
	v.say(v.pal.dim(rule(fmt.Sprintf("── Step: %s %s (%s)", names(s), mark, brief(s.Time.Elapsed(rec.Time))), width)))
	if len(tasks) < 2 {
		return
	}
	for i, t := range tasks {
		if i == maxRows {
			v.say(v.pal.dim(fmt.Sprintf("   +%d more", len(tasks)-i)))
			return
		}
		v.say(v.doneRow(t, rec.Time))
	}
}

func (v *live) doneRow(t *transcript.Task, at time.Time) string {
	facts := brief(t.Time.Elapsed(at))
	if t.Tools > 0 {
		facts = plural(t.Tools, "tool") + " · " + facts
	}
	line := " " + v.pal.green("✓") + " " + label(t)
	switch t.State {
	case transcript.Done:
	case transcript.NotRun:
		line = " " + v.pal.dim("· "+label(t)+" not run")
	default:
		line = " " + v.pal.yellow("!") + " " + label(t) + " " + string(t.State)
	}
	if len(t.Bad) > 0 {
		line += v.pal.yellow(" (ran on error input: " + strings.Join(t.Bad, ", ") + ")")
	}
	return line + "  " + v.pal.dim(facts)
}
