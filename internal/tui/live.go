package tui

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

const (
	frameTime = 100 * time.Millisecond // between two drawings
	maxRows   = 5                      // of tasks
)

// live is progress that is redrawn in place: finished steps stay where they are, and
// below them is a line for each running task. A frame is one write that leaves the
// cursor at the start of the line below, visible, so that the terminal is in order
// whenever and however the process ends.
type live struct {
	teller
	out   io.Writer
	size  func() (width, height int)
	quiet bool // somebody else writes

	in      int    // the terminal that keys come from, -1 for none
	restore func() // has it pass on and show keys as before, nil while it does

	said   []string // lines of a question, to be written once above the rest, however long they are
	part   string   // of the next of them
	asking bool     // a question is on the screen: what is in above waits, so that it stays there
	prompt string   // what the question waits for, below the block; "" for nothing
	count  string   // before it: which question it is of several
	typed  string   // and what was typed so far

	head    string   // the first line of the run, part of the block until it is known which model the run uses; "" once it was put
	resumed bool     // the line is of a run that was resumed
	above   []string // lines to be written once, above the block
	drawn   int      // the lines of the block on the screen
	at      [2]int   // the size of the terminal when it was drawn
	open    bool     // the last of them is the prompt, and the cursor at its end
	frame   int
	end     chan struct{}
	ended   chan struct{}
}

// newLive creates the view. The goroutine behind it draws; it ends with close.
func newLive(a *Screen, s *Session) *live {
	v := &live{out: a.err, size: a.size, in: -1, end: make(chan struct{}), ended: make(chan struct{})}
	v.teller = teller{s: s, pal: a.Err, verbose: a.set.Verbose, say: v.tells}
	if a.InTTY {
		v.in = a.in.fd
	}
	stops, unwatch := stopSignal()
	go func() {
		defer close(v.ended)
		defer unwatch()
		t := time.NewTicker(frameTime)
		defer t.Stop()
		for {
			select {
			case <-v.end:
				return
			case <-stops: // Ctrl-Z
				s.mu.Lock()
				v.draw(false)
				v.give()
				stopHere()
				s.mu.Unlock()
			case <-t.C:
				s.mu.Lock()
				v.draw(true)
				s.mu.Unlock()
			}
		}
	}()
	return v
}

// tells puts news above the block.
func (v *live) tells(_ time.Time, n *news) {
	line := n.sign + " " + n.text
	if n.sign == "·" {
		line = v.pal.Dim(line)
	}
	v.put(" " + line)
}

func (v *live) suspend(on bool) {
	v.draw(false) // nothing, while it is quiet
	v.quiet = on
}

func (v *live) close() {
	close(v.end)
	<-v.ended
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	v.quiet = false
	v.last()
	v.flush()
	v.draw(false)
	v.give()
}

// take has the terminal show no keys while the view is drawn, and reports whether it does not.
func (v *live) take() bool {
	if v.restore == nil && v.in >= 0 {
		v.restore, _ = keys(v.in) // where that is not possible they are shown
	}
	return v.restore != nil
}

// give has the terminal show keys as before. Input typed in the meantime is discarded.
func (v *live) give() {
	if v.restore != nil {
		_ = flushInput(v.in)
		v.restore()
		v.restore = nil
	}
}

// release is give for good.
func (v *live) release() {
	v.give()
	v.in = -1
}

func (v *live) notify(text string) {
	v.flush()
	width, _ := v.size()
	for line := range strings.SplitSeq(ansi.Wrap(transcript.Clean(text), width-1, ""), "\n") {
		v.put(line)
	}
}

// draw replaces the block on the screen, or takes it away.
func (v *live) draw(block bool) {
	if v.quiet {
		return
	}
	width, height := v.size()
	var b strings.Builder
	switch now := [2]int{width, height}; {
	case v.in >= 0 && !foreground(v.in): // what is on the screen is another's
		v.drawn, v.open, v.restore, block = 0, false, nil, false // the shell has set the terminal as it wants it
	case now != v.at: // the terminal may have broken lines of the block, of which it has more then; it is drawn again once the size is settled
		block = block && v.drawn == 0
		v.at = now
	case block:
		v.take()
	}
	if up := v.drawn; up > 0 {
		if v.open {
			up--
		}
		b.WriteString("\r")
		if up > 0 {
			fmt.Fprintf(&b, "\x1b[%dA", up)
		}
		b.WriteString("\x1b[J")
	}
	for _, line := range v.said {
		b.WriteString(line + "\n")
	}
	v.said = nil
	if !v.asking {
		for _, line := range v.above {
			b.WriteString(ansi.Hardwrap(inwords.Wrap(ansi.Truncate(line, 3*width, "…"), width), width, true) + "\n")
		}
		v.above = nil
	}
	v.drawn, v.open = 0, false
	if block {
		for _, line := range v.block(width, height) {
			b.WriteString(ansi.Truncate(line, width-1, "…") + "\n") // the last column is left unchanged: terminals differ in when they wrap
			v.drawn++
		}
		if v.prompt != "" {
			line := v.count + v.prompt + transcript.Line(v.typed)
			if over := ansi.StringWidth(line) - (width - 1); over > 0 { // where one types stays in sight
				line = ansi.TruncateLeft(line, over+1, "…")
			}
			v.drawn, v.open = v.drawn+1, true
			b.WriteString(line)
		}
	}
	v.frame++
	if b.Len() > 0 {
		_, _ = v.out.Write([]byte(b.String()))
	}
}

// block returns the changing part of the screen: the running steps, their tasks, and the totals.
func (v *live) block(width, height int) []string {
	r, now := &v.s.run, v.s.now()
	var out []string
	if v.head != "" {
		out = append(out, v.head)
	}
	room := max(1, min(maxRows, height-5))
	for _, s := range r.Steps {
		if rows := rowsOf(r, s); !s.Done && slices.ContainsFunc(rows, func(t row) bool { return !t.Ended() }) {
			out = append(out, v.header(s, width))
			shown := pick(rows, room)
			room = max(1, room-len(shown))
			out = append(out, v.paint().table(shown, len(rows)-len(shown), width, now)...)
		}
	}
	return append(out, v.footer(r, now, width))
}

// footer has the totals, as many as there is room for.
func (v *live) footer(r *transcript.Run, now time.Time, width int) string {
	facts := append([]string{inwords.Duration(r.Time.Elapsed(now))}, spent(r)...)
	if cost := costOf(r); len(facts) > 1 && cost != "" {
		facts = append(facts, cost)
	}
	for {
		if line := " " + spinner(v.frame) + " " + strings.Join(facts, " · "); ansi.StringWidth(line) < width || len(facts) < 3 {
			return v.pal.Dim(line)
		}
		facts = slices.Delete(facts, len(facts)-2, len(facts)-1) // what it costs stays
	}
}

// costOf returns the cost of a run and its limit, or "" if no model was used.
func costOf(r *transcript.Run) string {
	c := r.Cost()
	if r.Spent.Tokens == 0 { // whether the model tells its price shows with its first turn
		c = nil
	}
	if limit := r.Budget.Money; limit > 0 {
		return c.String() + " / " + inwords.Dollars(limit)
	}
	if r.Spent.Tokens == 0 {
		return ""
	}
	if c == nil {
		return "cost –"
	}
	return c.String()
}

func spinner(frame int) string {
	frames := [...]string{"⣷", "⣯", "⣟", "⡿", "⢿", "⣻", "⣽", "⣾"}
	return frames[frame%len(frames)]
}

func (v *live) paint() painter { return painter{v.pal, v.frame} }

// names are the nodes of a step, each once.
func names(r *transcript.Run, s *transcript.Step) string {
	var out []string
	for _, t := range ordered(r, s.Own()) {
		n := t.Node
		if t.Key == "" {
			n = t.Path
		}
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return strings.Join(out, ", ")
}

// header is the divider of a step under way.
func (v *live) header(s *transcript.Step, width int) string {
	own, planned := s.Own(), planned(s)
	done, all, what, waiting := 0, max(len(own), planned), "done", 0
	for _, t := range own {
		if t.Ended() {
			done++
		}
	}
	if planned > 0 {
		what = "items"
	} else if len(own) == 1 && own[0].Items > 0 {
		done, all, what = own[0].ItemsEnd, own[0].Items, "items"
	}
	for _, t := range s.Tasks {
		if t.State == transcript.Waiting && !t.AwaitsRun() {
			waiting++
		}
	}
	text := ""
	if all > 1 {
		text += fmt.Sprintf(" ── %d/%d %s", done, all, what)
	}
	if waiting > 0 {
		text += fmt.Sprintf(" · %d needs you", waiting)
	}
	const before, after = "── Step: ", " (running)"
	name := cut(names(&v.s.run, s), max(8, min(width-1, 80)-1-len([]rune(before+after+text))))
	return v.pal.Dim(rule(before+name+after+text, width))
}

// rule fills a divider up to a width that is pleasant to read.
func rule(text string, width int) string {
	width = min(width-1, 80)
	text = ansi.Truncate(text+" ", width, "… ")
	return text + strings.Repeat("─", max(0, width-ansi.StringWidth(text)))
}

func (v *live) see(rec *runlog.Record, r *transcript.Run) {
	task := r.Task(rec.Path)
	v.due(rec, task)
	switch rec.Kind {
	case runlog.KindRunStarted, runlog.KindRunResumed:
		v.resumed = rec.Kind == runlog.KindRunResumed
		v.head = v.first()
	case runlog.KindStepCommitted:
		v.stepDone(rec, r)
	}
	if v.head != "" && len(r.Agents) > 0 {
		v.flush()
	}
	if rec.Kind == runlog.KindAnswered && data[runlog.Answer](rec).By == "person" {
		return // who typed it knows
	}
	v.tell(rec, r, task)
}

// ask puts what a question says above the block with the next drawing. A line without an end continues with the next.
func (v *live) ask(s string) {
	lines := strings.Split(v.part+s, "\n")
	last := len(lines) - 1
	v.said, v.part = append(v.said, lines[:last]...), lines[last]
}

// put puts a line above the block with the next drawing.
func (v *live) put(line string) {
	v.flush()
	v.above = append(v.above, line)
}

// flush puts the first line of the run.
func (v *live) flush() {
	if v.head != "" {
		v.head = ""
		width, _ := v.size()
		v.above = append(v.above, ansi.Truncate(v.first(), width, "…"))
	}
}

// first is the first line of the run, with the model of its first agent if there was one.
func (v *live) first() string {
	r := &v.s.run
	line := v.pal.Bold(r.Workflow) + " " + v.pal.Dim("run "+v.s.id)
	if v.resumed {
		line += v.pal.Dim(" (resumed)")
	}
	if len(r.Agents) > 0 && r.Agents[0].Model != "" {
		line += "  " + r.Agents[0].Model + " "
	}
	if line += v.pal.Dim(confined(r)); r.Title != "" {
		line += " " + r.Title
	}
	return line
}

// stepDone leaves the divider of a step behind, and a line for each task if there were several.
func (v *live) stepDone(rec *runlog.Record, r *transcript.Run) {
	d := data[runlog.StepCommitted](rec)
	s := r.Step(d.Step)
	if s == nil || rec.Path != "" {
		return
	}
	rows := rowsOf(r, s)
	width, _ := v.size()
	took := s.Time.Elapsed(rec.Time)
	if tasks := s.Own(); len(tasks) == 1 && len(r.Questions) == 0 && !v.resumed { // the step may have waited for another one
		took = tasks[0].Time.Elapsed(rec.Time)
	}
	v.put(v.pal.Dim(rule(fmt.Sprintf("── Step: %s %s (%s)", names(r, s), endMark(s), inwords.Brief(took)), width)))
	if len(rows) < 2 && len(rows[0].Bad) == 0 {
		return
	}
	shown := pick(rows, maxRows)
	for _, line := range v.paint().table(shown, len(rows)-len(shown), width, rec.Time) {
		v.put(line)
	}
}
