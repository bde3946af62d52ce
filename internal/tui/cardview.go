package tui

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/question"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

// A cardView is an open question, with what the user has typed for it so far. It accepts an answer only once it has been on the screen for a moment.
type cardView struct {
	t    *Terminal
	f    *following // its run
	q    *transcript.Question
	menu []question.Choice
	form question.Form

	text   editor
	kept   map[int]string // what was typed for other choices and fields, by number
	slot   int            // what the text is for: the number of a choice, freely, or field0 and more; 0 while nothing is typed
	field  int            // of the form
	values []json.RawMessage
	picked int          // the selected option, -1 for none
	number string       // the beginning of the number of an option
	marked map[int]bool // of several options, by index

	away bool // put away for later
	sent bool // its answer is on its way, or recorded
	over bool // somebody else has answered it, or the run has ended
	left bool // no mode answers it
	err  string

	since time.Time // when it came on the screen
	beat  time.Time // when the program last proved that it does not hang
	armed bool      // it has been on the screen for long enough

	scroll, room, all int // of the lines of the body: the first on the screen, how many there are room for, and all
	tall              bool
	body              []string // drawn
	width             int      // of that
	x, y              int      // where the cursor is, y from the top of the card; -1 for nowhere
}

// Values of cardView.slot that are no choices.
const (
	freely = -1 // the answer is a text
	field0 = 1000
)

// longFact is how many bytes a card shows of what is short, unless somebody wants to do harm.
const longFact = 4 << 10

// ownAnswer is the choice of an answer that is none of the options.
const ownAnswer = "\x00own"

func newCard(t *Terminal, f *following, q *transcript.Question) *cardView {
	c := &cardView{t: t, f: f, q: q, menu: question.Menu(&q.Asked), kept: map[int]string{}, marked: map[int]bool{}, picked: -1, x: -1, y: -1}
	asked := &q.Asked
	switch {
	case len(asked.Options) > 0:
		for i, o := range asked.Options {
			if question.IsDefault(asked, o) && c.chooses() {
				c.marked[i], c.picked = true, i
			}
		}
		if c.chooses() && !asked.Several() && question.Others(asked) {
			c.menu = append(c.menu, question.Choice{Key: len(c.menu) + 1, Answer: ownAnswer, Name: "own answer"})
		}
	case question.FormOf(asked.Schema) != nil:
		c.form = question.FormOf(asked.Schema).With(asked.Default)
		c.values = make([]json.RawMessage, len(c.form))
		c.slot = field0
	default:
		c.slot = freely
	}
	return c
}

// chooses reports whether the answer is chosen from the options of the question, and not given about a call or at a gate.
func (c *cardView) chooses() bool {
	kind := question.Kind(&c.q.Asked)
	return kind != runlog.QuestionPermission && kind != runlog.QuestionGate
}

// show begins to show the card: nothing that was typed before answers it.
func (c *cardView) show() { c.since, c.beat, c.armed = time.Time{}, time.Time{}, false }

// Patience of a card: it must have been on the screen for settle, and the program must have gone on all that time, so that what waits in its input was
// not typed before.
const longestBeat = 250 * time.Millisecond

// tick notes that the program was alive at a moment.
func (c *cardView) tick(at time.Time) {
	if c.armed || c.since.IsZero() {
		return
	}
	if !c.beat.IsZero() && at.Sub(c.beat) > longestBeat {
		c.since = at
	}
	c.beat = at
	c.armed = at.Sub(c.since) >= settle
}

// takes reports whether a key is for the card while the composer has the focus and is empty: a number that answers it, once it was seen.
func (c *cardView) takes(k tea.KeyPressMsg) bool {
	if !c.listens() {
		return false
	}
	switch {
	case c.t.keys.is(k, "back"), c.scrolls(k):
		return true
	case c.slot != 0 || len(c.menu) == 0:
		return false
	}
	return c.digit(k) >= 0
}

// listens reports whether a number answers without the focus: the card was seen, and nobody is typing.
func (c *cardView) listens() bool {
	return c.armed && c.t.focus == onComposer && c.t.compose.empty() && c.t.opt.Now().Sub(c.t.pressed) >= settle
}

// digit returns the digit that a key is, -1 for none.
func (c *cardView) digit(k tea.KeyPressMsg) int {
	if len(k.Text) != 1 || k.Text[0] < '0' || k.Text[0] > '9' {
		return -1
	}
	return int(k.Text[0] - '0')
}

// scrolls reports whether a key scrolls what does not fit into the card.
func (c *cardView) scrolls(k tea.KeyPressMsg) bool {
	switch k.String() {
	case "pgup", "pgdown":
		return c.all > c.room
	}
	return false
}

func (c *cardView) key(k tea.KeyPressMsg) tea.Cmd {
	t := c.t
	switch {
	case t.keys.is(k, "back"):
		c.back()
		return nil
	case c.scrolls(k):
		page := max(1, c.room-1)
		if k.String() == "pgup" {
			page = -page
		}
		c.scroll += page
		return nil
	case t.keys.is(k, "transcript"):
		if task := c.asker(); task != nil {
			t.push(newAgentPane(t, c.f, task.Path))
		}
		return nil
	case c.slot != 0:
		return c.typed(k)
	case t.keys.is(k, "more"):
		c.tall = !c.tall
		return nil
	case k.String() == "up", k.String() == "down":
		by := 1
		if k.String() == "up" {
			by = -1
		}
		if c.chooses() {
			c.picked = max(0, min(c.picked+by, len(c.menu)-1))
		} else {
			c.scroll += by
		}
		return nil
	case !c.armed:
		return c.early()
	}
	c.err = ""
	n := c.digit(k)
	switch {
	case n >= 0 && len(c.menu) > 9: // it may have a second digit
		if c.number += strconv.Itoa(n); c.choice(c.numbered()) == nil {
			c.number = strconv.Itoa(n)
		}
		c.picked = c.numbered() - 1
	case n >= 0:
		return c.press(c.choice(n))
	case k.String() == "space" && c.q.Asked.Several() && c.picked >= 0:
		c.marked[c.picked] = !c.marked[c.picked]
	case k.String() != "enter":
	case c.q.Asked.Several():
		return c.several()
	case c.chooses() && c.picked >= 0:
		return c.press(&c.menu[c.picked])
	}
	return nil
}

func (c *cardView) numbered() int {
	n, _ := strconv.Atoi(c.number)
	return n
}

// early tells that a key has answered nothing. The card waits anew, so that a key that is held down does not answer it either.
func (c *cardView) early() tea.Cmd {
	if !c.since.IsZero() {
		c.since = c.t.opt.Now()
	}
	c.t.say("this question has only just come: read it, then press the key again")
	return nil
}

// choice returns the choice with a number, nil if there is none.
func (c *cardView) choice(n int) *question.Choice {
	if i := slices.IndexFunc(c.menu, func(x question.Choice) bool { return x.Key == n }); i >= 0 {
		return &c.menu[i]
	}
	return nil
}

// press takes a choice: it answers the question, or asks for a text.
func (c *cardView) press(x *question.Choice) tea.Cmd {
	switch {
	case x == nil:
		return nil
	case x.Answer == "":
		c.err = fmt.Sprintf("%d (%s) is %s", x.Key, x.Name, x.Note)
		return nil
	case c.q.Asked.Several():
		c.picked = x.Key - 1
		c.marked[c.picked] = !c.marked[c.picked]
		return nil
	case c.wants(x) != "":
		c.slot = x.Key
		text, ok := c.kept[x.Key]
		if word, open := question.Opening(&c.q.Asked, x.Answer); open && !ok && word != "" {
			text = c.now()
		}
		c.text.set(text)
		c.t.setFocus(onCard)
		return nil
	}
	return c.give(x.Answer)
}

// wants returns the name of the text that a choice needs, "" if it needs none.
func (c *cardView) wants(x *question.Choice) string {
	_, open := question.Opening(&c.q.Asked, x.Answer)
	switch {
	case open:
		return "go on with instead"
	case x.Why:
		return "why"
	case x.Answer == ownAnswer:
		return "your answer"
	case x.Answer == runlog.UnknownHappened && c.unknown():
		return "what it returned"
	}
	return ""
}

func (c *cardView) unknown() bool { return question.Kind(&c.q.Asked) == runlog.QuestionUnknown }

// now is the value that the question shows, and that an edit begins with.
func (c *cardView) now() string { return shown(c.asked()) }

func (c *cardView) asked() string {
	return transcript.Clean(question.Headed(c.q.Asked.Header, c.q.Asked.Text))
}

// several answers with the marked options.
func (c *cardView) several() tea.Cmd {
	list := []string{}
	for i, o := range c.q.Asked.Options {
		if c.marked[i] {
			list = append(list, o)
		}
	}
	b, err := json.Marshal(list)
	if err == nil && len(list) == 0 {
		err = errors.New("mark at least one with its number, or with Space")
	}
	if err != nil {
		c.err = err.Error()
		return nil
	}
	return c.give(string(b))
}

// give answers the question with what stands for the answer, see fit.
func (c *cardView) give(s string) tea.Cmd {
	v, err := question.Fit(&c.q.Asked, s)
	if err != nil {
		c.err = transcript.Clean(err.Error())
		return nil
	}
	return c.t.answer(c, &runlog.Answer{Value: v, By: "person"})
}

// typed takes a key while a text is typed.
func (c *cardView) typed(k tea.KeyPressMsg) tea.Cmd {
	switch {
	case c.t.keys.is(k, "newline"):
		c.text.insert("\n")
	case k.String() == "enter":
		if !c.armed {
			return c.early()
		}
		c.err = ""
		return c.enter()
	case c.text.key(k):
	case k.String() == "up" && c.slot > field0:
		c.err = ""
		c.turn(c.field - 1)
	}
	return nil
}

// turn goes to another field of the form.
func (c *cardView) turn(field int) {
	c.kept[c.slot] = c.text.value()
	c.field, c.slot = field, field0+field
	c.text.set(c.kept[c.slot])
}

// enter takes the text that was typed.
func (c *cardView) enter() tea.Cmd {
	text := strings.TrimSpace(c.text.value())
	asked := &c.q.Asked
	switch {
	case c.slot >= field0:
		return c.fill()
	case c.slot == freely && text == "" && len(asked.Default) > 0:
		return c.t.answer(c, &runlog.Answer{Value: asked.Default, By: "person"})
	case c.slot == freely:
		if text == "" {
			c.err = "type an answer"
			return nil
		}
		return c.give(text)
	}
	x := c.choice(c.slot)
	word, open := question.Opening(asked, x.Answer)
	switch {
	case open:
		instead, err := replacement(c.now(), strings.Trim(c.text.value(), "\n"))
		if err == nil && strings.TrimSpace(instead) == "" {
			err = errors.New("there is no text; Esc goes back")
		}
		if err != nil {
			c.err = err.Error()
			return nil
		}
		return c.give(word + ": " + instead)
	case x.Why && text != "":
		return c.give(x.Answer + ": " + text)
	case x.Why:
		return c.give(x.Answer)
	case x.Answer == ownAnswer && text == "":
		c.err = "type an answer; Esc goes back"
		return nil
	case x.Answer == ownAnswer:
		return c.give(text)
	}
	a := &runlog.Answer{By: "person"} // to an unknown outcome
	var err error
	switch a.Value, err = json.Marshal(x.Answer); {
	case err != nil:
	case text == "":
	case json.Valid([]byte(text)):
		a.Output = json.RawMessage(text)
	case !c.q.Text:
		err = fmt.Errorf("want JSON, such as \"a text\" in quotes; got %s", strconv.Quote(text))
	default:
		a.Output, err = json.Marshal(c.text.value())
	}
	if err != nil {
		c.err = err.Error()
		return nil
	}
	return c.t.answer(c, a)
}

// fill takes the value of a field, and answers with the form after the last one.
func (c *cardView) fill() tea.Cmd {
	v, err := c.form[c.field].Read(c.text.value())
	if err != nil {
		c.err = transcript.Clean(err.Error())
		return nil
	}
	c.values[c.field] = v
	if no, ok := c.form.Decline(c.values[0]); ok {
		return c.give(no)
	}
	if c.field+1 < len(c.form) {
		c.turn(c.field + 1)
		return nil
	}
	c.kept[c.slot] = c.text.value()
	return c.give(c.form.Object(c.values))
}

// back goes from a text to the choices, and from there puts the card away.
func (c *cardView) back() {
	if c.err = ""; c.slot > 0 && c.slot < field0 {
		c.kept[c.slot], c.slot = c.text.value(), 0
		return
	}
	c.t.putAway(c)
}

// begun reports whether the user has typed or decided something there.
func (c *cardView) begun() bool { return c.away || c.text.value() != "" || len(c.kept) > 0 }

// clear removes what is typed into the card, and reports whether there was anything.
func (c *cardView) clear() bool {
	if c.slot == 0 || c.text.value() == "" {
		return false
	}
	c.text.set("")
	return true
}

func (c *cardView) paste(s string) {
	if c.slot != 0 {
		c.text.insert(s)
	}
}

func (c *cardView) hints() string {
	scroll := ""
	if c.all > c.room {
		scroll = " · PgDn more · v larger"
	}
	numbers := "1-" + strconv.Itoa(len(c.menu))
	if !c.chooses() {
		numbers = "1-5"
	}
	switch {
	case c.slot > field0:
		return "Enter next field · ↑ field before · Esc later · ^C clear" + scroll
	case c.slot == field0:
		return "Enter next field · Esc later · ^C clear" + scroll
	case c.slot == freely:
		return "Enter answer · ^J new line · Esc later · ^P what it did" + scroll
	case c.slot != 0:
		return "Enter answer · ^J new line · Esc back" + scroll
	case c.q.Asked.Several():
		return numbers + " or Space mark · ↑↓ · Enter answer · Esc later · ^P what it did" + scroll
	case c.chooses():
		return numbers + " answer · ↑↓ Enter · Esc later · ^P what it did" + scroll
	}
	return numbers + " answer · Esc later · ^P what it did" + scroll
}

// asker is the task that says why the question is asked: the one that asks, or the agent above it.
func (c *cardView) asker() *transcript.Task {
	task := c.f.run.Task(c.q.Asked.Path)
	for task != nil && task.Parent != nil && len(task.Agents) == 0 && strings.TrimSpace(task.Last()) == "" {
		task = task.Parent
	}
	return task
}

// waits tells how long the question is open, and what runs in the meantime.
func (c *cardView) waits() string {
	wait := max(0, c.t.opt.Now().Sub(c.q.Since))
	text := "waits " + inwords.Duration(wait)
	if wait < time.Hour {
		text = fmt.Sprintf("waits %d:%02d", int(wait.Minutes()), int(wait.Seconds())%60)
	}
	n := 0
	for _, t := range c.f.run.Active() {
		busy := func(x *transcript.Task) bool { return !x.Ended() }
		if t.State == transcript.Running && !t.Queued && !slices.ContainsFunc(t.Children, busy) {
			n++
		}
	}
	if n > 0 && c.f.run.Status == runlog.Running && !c.f.ended {
		return fmt.Sprintf("%s, %d %s", text, n, map[bool]string{true: "other runs", false: "others run"}[n == 1])
	}
	return text
}

// wrapLine breaks a text into lines of at most w cells, those after the first indented. It breaks between words if that leaves most of a line.
func wrapLine(s string, w, indent int) []string {
	s = strings.ReplaceAll(strings.ReplaceAll(s, "\t", "    "), widens, "")
	indent = min(indent, w/2)
	var out []string
	put := func(line string) {
		if len(out) > 0 {
			line = strings.Repeat(" ", indent) + line
		}
		out = append(out, line)
	}
	for line := range strings.SplitSeq(s, "\n") {
		if strings.IndexByte(line, 0x1b) >= 0 { // it has styles
			for line := range strings.SplitSeq(ansi.Wrap(line, max(1, w-indent), ""), "\n") {
				for line := range strings.SplitSeq(ansi.Hardwrap(line, max(1, w-indent), true), "\n") {
					put(line)
				}
			}
			continue
		}
		if len(out) == 0 && len(line) <= 4*w && ansi.StringWidth(line) <= w {
			put(line)
			continue
		}
		from, cells, space, before := 0, 0, 0, 0 // the beginning of the piece, its width, and the end of its last word and the width up to that
		for i, r := range line {
			n := 1
			if r > '~' {
				n = ansi.StringWidth(string(r))
			}
			for cells > 0 && cells+n > max(2, w-indent) {
				if before <= cells/2 || r == ' ' {
					space, before = i, cells
				}
				put(line[from:space])
				from, cells = space, cells-before
				before = 0
			}
			if cells += n; r == ' ' {
				space, before = i+1, cells
			}
		}
		put(line[from:])
	}
	return out
}

// quote breaks a line as wrapLine does. The words of a stranger, which are behind "> ", are so on each line.
func quote(s string, w int) []string {
	words, quoted := strings.CutPrefix(s, "> ")
	if !quoted {
		return wrapLine(s, w, 0)
	}
	out := wrapLine(words, max(1, w-2), 0)
	for i := range out {
		out[i] = "> " + out[i]
	}
	return out
}

// content draws what is asked: the whole action of a permission request, or the question.
func (c *cardView) content(w int) []string {
	if c.width == w {
		return c.body
	}
	var out []string
	add := func(s string, indent int) { out = append(out, wrapLine(s, w, indent)...) }
	if call := c.q.Call; call != nil {
		body, notes := content(call, c.t.pal)
		if call.Tool == "bash" && len(body) > 0 {
			body[0] = "$ " + body[0]
		}
		style := styleOf(call, c.t.pal)
		for _, l := range body {
			for _, piece := range wrapLine(l, w, 0) {
				out = append(out, style(l)(piece))
			}
		}
		for _, l := range notes {
			add(l, 0)
		}
		if len(call.Parts) > 1 {
			add("its parts:", 0)
			for _, l := range parts(call, c.t.pal) {
				add("  "+l, 4)
			}
		}
	} else {
		for l := range strings.SplitSeq(strings.TrimRight(c.asked(), "\n"), "\n") {
			out = append(out, quote(l, w)...)
		}
	}
	c.body, c.width = out, w
	return out
}

// facts tell of a permission request where and why, and what the agent said before.
func (c *cardView) facts(w int) (why, said []string) {
	if call := c.q.Call; call != nil {
		where := ""
		if call.Cwd != "" {
			where = "in " + transcript.Line(clean.Clip(call.Cwd, longFact))
		}
		if call.Tool == "bash" {
			where += "   sandbox: " + cmp.Or(c.f.run.Sandbox, "not known")
		}
		lines := nonEmpty(strings.TrimSpace(where), strings.TrimSuffix("why asked: "+clean.Clip(question.Because(clean.Clip(call.Rule, longFact), call.Origin, clean.Clip(call.Reason, longFact)), longFact), "why asked: "))
		if one := strings.Join(lines, " · "); ansi.StringWidth(one) <= w {
			lines = nonEmpty(one)
		}
		for _, l := range lines {
			why = append(why, wrapLine(l, w, 2)...)
		}
	}
	if task := c.asker(); task != nil && c.q.Agent != "" {
		if last := transcript.Line(task.Last()); last != "" {
			said = []string{c.t.pal.Dim(cut(`it said before: "`+last+`"`, w))}
		}
	}
	return why, said
}

// choices lists what can be answered, one per line.
func (c *cardView) choices(w int) []string {
	var out []string
	wide, digits := 0, len(strconv.Itoa(len(c.menu)))
	for _, x := range c.menu {
		if x.Note != "" {
			wide = max(wide, ansi.StringWidth(x.Name))
		}
	}
	wide = min(wide, w/2)
	for i, x := range c.menu {
		line := fmt.Sprintf("%*d %s", digits, x.Key, c.box(i)) + x.Name
		if x.Note != "" {
			line += strings.Repeat(" ", max(0, wide-ansi.StringWidth(x.Name))+2) + x.Note
		}
		if x.Why { // it comes after the same without a reason
			if both := out[len(out)-1] + "   " + line; ansi.StringWidth(both) <= w {
				out[len(out)-1] = both
				continue
			}
		}
		for n, l := range wrapLine(line, w-2, digits+1) {
			mark := "  "
			if i == c.picked && n == 0 {
				mark = "▸ "
			}
			if x.Answer == "" {
				l = c.t.pal.Dim(l)
			}
			out = append(out, mark+l)
		}
	}
	return out
}

// box is the mark of one of several options.
func (c *cardView) box(i int) string {
	switch {
	case !c.q.Asked.Several():
		return ""
	case c.marked[i]:
		return "[x] "
	}
	return "[ ] "
}

// brief lists what can be answered in as few lines as possible.
func (c *cardView) brief(w int) []string {
	var out []string
	line := ""
	for i, x := range c.menu {
		item := fmt.Sprintf("%d %s%s", x.Key, c.box(i), x.Name)
		switch {
		case x.Answer == "":
			item = "(" + item + ": not available)"
		case x.Answer == agent.AnswerRun || x.Answer == agent.AnswerAlways:
			if c.q.Call != nil && c.q.Call.Always != "" {
				item += " " + transcript.Line(c.q.Call.Always)
			}
		case i == c.picked:
			item = "▸" + item
		}
		item = cut(item, w)
		if line != "" && ansi.StringWidth(line)+3+ansi.StringWidth(item) > w {
			out = append(out, line)
			line = ""
		}
		if line != "" {
			line += "   "
		}
		line += item
	}
	return append(out, line)
}

// prompt draws the text that is typed, after what it is for, and returns the line of the cursor.
func (c *cardView) prompt(w, h int) (lines []string, x, y int) {
	label := "answer"
	switch {
	case c.slot >= field0:
		f := &c.form[c.field]
		for i := range c.field { // what was given before
			text := "none"
			if c.values[i] != nil {
				text = transcript.Value(c.values[i])
			}
			lines = append(lines, c.t.pal.Dim(cut(transcript.Line(c.form[i].Name)+": "+transcript.Line(text), w)))
		}
		lines = lines[max(0, len(lines)-h/3):]
		if f.Description != "" {
			lines = append(lines, quote(transcript.Line(f.Description), w)...)
		}
		var offered []string
		for i, v := range f.Enum {
			offered = append(offered, fmt.Sprintf("%d %s", i+1, transcript.Line(transcript.Value(v))))
		}
		if len(offered) > 0 {
			lines = append(lines, wrapLine(strings.Join(offered, "   "), w, 0)...)
		}
		lines = lines[max(0, len(lines)-h+1):]
		label = fmt.Sprintf("%d/%d %s", c.field+1, len(c.form), strings.TrimSuffix(f.Label(), ": "))
	case c.slot > 0:
		label = c.wants(c.choice(c.slot))
		if c.unknown() {
			label += " (Enter if that is lost)"
		}
	default:
		if kind := question.TypeOf(c.q.Asked.Schema); kind != "" && kind != "string" {
			label += " (" + question.KindOf(kind) + ")"
		}
		if len(c.q.Asked.Default) > 0 {
			label += ", Enter for " + transcript.Line(transcript.Value(c.q.Asked.Default))
		}
	}
	label = cut(label, w/2) + "> "
	pad := ansi.StringWidth(label)
	text, x, y := c.text.draw(w-pad, max(1, h-len(lines)))
	at := len(lines)
	for i, l := range text {
		if i == 0 {
			lines = append(lines, c.t.pal.Bold(label)+l)
			continue
		}
		lines = append(lines, strings.Repeat(" ", pad)+l)
	}
	return lines, pad + x, at + y
}

// draw draws the card in a box of at most h lines of w cells.
func (c *cardView) draw(w, h int) []string {
	if c.since.IsZero() {
		c.since = c.t.opt.Now()
	}
	in := w - 4
	why, said := c.facts(in)
	rule, mark := 1, ""
	if h < 8 { // too low for a line below what the agent wrote: it is marked instead
		rule, mark = 0, "┆ "
	}
	body := c.content(in - ansi.StringWidth(mark))
	c.x, c.y = -1, -1
	title, who := c.head()
	var top, foot []string
	if ansi.StringWidth(title+who+c.waits()) > w-10 {
		top = wrapLine(who, in, 2)
		top = top[:min(len(top), max(1, h/5))]
		who = ""
	} else {
		who = " · " + who
	}
	for level, least := range []int{6, 2, 2, 1} { // with less, until there is room for what is asked
		foot = nil
		if level < 3 {
			foot = append(foot, why...)
		}
		if level < 1 {
			foot = append(foot, said...)
		}
		at := len(foot)
		switch {
		case c.slot != 0:
			lines, x, y := c.prompt(in, max(1, (h-2)*2/3-level*2))
			foot = append(foot, lines...)
			c.x, c.y = x, at+y
		case level < 2:
			lines := c.choices(in)
			if most := max(3, h/2); len(lines) > most && c.chooses() { // around the selected one
				from := max(0, min(c.picked-most/2, len(lines)-most))
				lines = lines[from : from+most]
			}
			foot = append(foot, lines...)
		default:
			foot = append(foot, c.brief(in)...)
		}
		if c.err != "" {
			foot = append(foot, wrapLine(c.t.pal.Red("✗ ")+c.err, in, 2)...)
		}
		if h-3-len(top)-len(foot) >= min(len(body), least) {
			break
		}
	}
	if rule == 0 {
		top = nil
	}
	if most := max(1, h-3-rule-len(top)); len(foot) > most { // the end of it says what to do
		c.y -= len(foot) - most
		foot = foot[len(foot)-most:]
	}
	c.room, c.all = max(1, h-2-rule-len(top)-len(foot)), len(body)
	c.scroll = max(0, min(c.scroll, c.all-c.room))
	body = body[c.scroll:min(c.all, c.scroll+c.room)]
	if c.y >= 0 {
		c.x, c.y = c.x+2, c.y+1+rule+len(top)+len(body)
	}
	put := func(lines []string, mark string) (out []string) {
		side := c.frame(map[bool]string{false: "│", true: "┃"}[c.t.focus == onCard])
		for _, l := range lines {
			l = ansi.Truncate(mark+l, in, "…")
			out = append(out, side+" "+l+strings.Repeat(" ", max(0, in-ansi.StringWidth(l)))+" "+side)
		}
		return out
	}
	out := append([]string{c.edge(0, title+who, c.waits(), w)}, put(slices.Concat(top, body), mark)...)
	last := c.next()
	switch below := c.below(); {
	case rule > 0: // what the agent wrote ends here
		out = append(out, c.edge(1, below, "", w))
	case below != "":
		last = below
	}
	return append(append(out, put(foot, "")...), c.edge(2, last, c.state(), w))
}

func (c *cardView) frame(s string) string { return c.t.pal.Yellow(s) }

// head names the question, and who asks it.
func (c *cardView) head() (title, who string) {
	q := c.q.Asked
	if q.Agent = clean.Clip(q.Agent, longFact); q.Call != nil {
		q.Call = c.q.Call
	}
	count := ""
	if n, of := c.t.place(c); of > 1 {
		count = fmt.Sprintf("%d of %d · ", n, of)
	}
	return count + "run " + c.f.id, strings.TrimSuffix(question.Asks(c.q.Asked.Path, &q), ":")
}

// below tells which part of the action is on the screen, "" if all of it is.
func (c *cardView) below() string {
	if c.all <= c.room {
		return ""
	}
	return fmt.Sprintf("lines %d-%d of %d (PgDn)", c.scroll+1, min(c.all, c.scroll+c.room), c.all)
}

// next names the next question.
func (c *cardView) next() string {
	if next := c.t.nextAfter(c); next != "" {
		return "next: " + next
	}
	return ""
}

// state tells what a number does at the moment.
func (c *cardView) state() string {
	switch {
	case c.t.focus == onCard:
		return ""
	case c.slot != 0:
		return "Tab to answer"
	case c.listens():
		return "a number answers"
	}
	return "Tab to answer"
}

// edge draws a line across the box, 0 the upper edge, 1 the line between what is asked and the answers, and 2 the lower edge, with a text at its left and
// another at its right, which is kept.
func (c *cardView) edge(which int, left, right string, w int) string {
	ends, line := [3][2]string{{"╭", "╮"}, {"├", "┤"}, {"╰", "╯"}}[which], "─"
	if c.t.focus == onCard {
		ends, line = [3][2]string{{"┏", "┓"}, {"┠", "┨"}, {"┗", "┛"}}[which], "━"
	}
	if which == 1 {
		line = "─"
	}
	if right != "" {
		right = " " + cut(right, w/2) + " "
	}
	room := w - 2 - ansi.StringWidth(right)
	if left != "" && room > 8 {
		left = " " + cut(left, room-4) + " "
	} else {
		left = ""
	}
	fill := strings.Repeat(line, max(0, room-ansi.StringWidth(left)))
	return ansi.Truncate(c.frame(ends[0])+left+c.frame(fill)+right+c.frame(ends[1]), w, "")
}
