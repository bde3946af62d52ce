package tui

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"charm.land/bubbles/v2/textarea"
	tea "charm.land/bubbletea/v2"

	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/mail"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

const (
	pastedLines   = 10 // a longer paste becomes an attachment
	pastedLetters = 1000
)

// A composer is where messages and commands are typed.
type composer struct {
	t    *Terminal
	area textarea.Model
	mode string // "", "accept edits" or "plan"; see nextMode

	run     string   // whose draft this is, "" for the next chat
	loaded  bool     // it is shown
	parts   []string // what was pasted: the text has [#1 pasted 12 lines] in the place of the first
	history *history
	past    int    // the text of the history that is shown, the length of the list for none
	own     string // what was typed before the history was looked at
	drafts  *drafts
	saving  bool // drafts are written in a moment

	search *searching // nil unless the history is searched
	popup  popup

	files    []string // of the folder, as of filesAt
	filesAt  time.Time
	reading  bool // files are being listed
	lookedAt time.Time
	late     tea.Cmd // what a list of completions needs that was made without a key
}

// searching is an incremental search of the history.
type searching struct {
	query string
	at    int    // the text that is shown, -1 for none
	own   string // what was typed before
}

// draftMsg has the drafts written.
type draftMsg struct{}

func newComposer(t *Terminal) *composer {
	a := textarea.New()
	a.Prompt, a.ShowLineNumbers, a.EndOfBufferCharacter = "> ", false, ' '
	a.SetStyles(textarea.Styles{Cursor: textarea.CursorStyle{Blink: !t.opt.Calm}}) // the terminal's own colors
	a.DynamicHeight, a.MinHeight, a.MaxHeight, a.MaxContentHeight = true, 1, 8, 10_000
	a.SetVirtualCursor(false)
	a.KeyMap.InsertNewline.SetKeys(t.keys.keys["newline"]...)
	c := &composer{t: t, area: a, history: readHistory(t.opt.History), drafts: readDrafts(t.opt.Drafts, t.opt.Now())}
	c.past = len(c.history.list)
	return c
}

func (c *composer) init() tea.Cmd { return c.area.Focus() }

func (c *composer) focus(on bool) {
	if on {
		c.area.Focus()
	} else {
		c.area.Blur()
	}
}

func (c *composer) empty() bool { return c.search == nil && strings.TrimSpace(c.area.Value()) == "" }

// completing reports whether Tab and Esc are for the list of completions, or for the search.
func (c *composer) completing() bool { return len(c.popup.offers) > 0 || c.search != nil }

func (c *composer) clear() {
	c.area.Reset()
	c.parts, c.search, c.popup = nil, nil, popup{}
	c.past, c.own = len(c.history.list), ""
	c.stash()
}

func (c *composer) set(s string) {
	c.area.SetValue(s)
	c.area.MoveToEnd()
	c.stash()
}

// before is the text before the cursor.
func (c *composer) before() string {
	lines := strings.Split(c.area.Value(), "\n")
	line, col := c.area.Line(), c.area.Column()
	if line >= len(lines) {
		return c.area.Value()
	}
	r := []rune(lines[line])
	return strings.Join(append(slices.Clone(lines[:line]), string(r[:min(col, len(r))])), "\n")
}

// moveTo moves the cursor.
func (c *composer) moveTo(line, col int) {
	for c.area.MoveToBegin(); c.area.Line() < line; {
		was := c.area.Line()
		if c.area.CursorDown(); c.area.Line() == was && c.area.LineInfo().RowOffset == 0 {
			break
		}
	}
	c.area.SetCursorColumn(col)
}

// load shows the draft of a run, and keeps that of the one before.
func (c *composer) load(run string) {
	if c.loaded {
		c.stash()
	}
	c.run, c.loaded = run, true
	d := c.drafts.all[run]
	c.area.Reset()
	c.parts, c.popup, c.search = d.Parts, popup{}, nil
	c.area.SetValue(d.Text)
	c.area.MoveToEnd()
}

// stash keeps what is typed as the draft of the run.
func (c *composer) stash() {
	d := c.drafts.all[c.run]
	text := c.area.Value()
	if c.search != nil {
		text = c.search.own
	}
	if d.Text == text && len(d.Parts) == len(c.parts) {
		return
	}
	d.Text, d.Parts = text, c.parts
	if text == "" {
		d.Parts = nil
	}
	c.drafts.set(c.run, d)
}

// changed keeps the draft, and has it written in a moment.
func (c *composer) changed() tea.Cmd {
	c.stash()
	if c.saving || len(c.drafts.dirty) == 0 {
		return nil
	}
	c.saving = true
	return tea.Tick(draftGap, func(time.Time) tea.Msg { return draftMsg{} })
}

// write writes the drafts that have changed.
func (c *composer) write() tea.Cmd {
	t, write := c.t, c.drafts.save()
	return func() tea.Msg {
		if err := write(); err != nil {
			return doneMsg{func() { t.fail(notKept(err)) }}
		}
		return nil
	}
}

// keep writes the drafts when the terminal is left.
func (c *composer) keep() error {
	c.stash()
	if err := c.drafts.save()(); err != nil {
		return notKept(err)
	}
	return nil
}

func notKept(err error) error { return fmt.Errorf("what is typed cannot be kept: %w", err) }

// hold queues a message to a run, on disk too, until its log has it. Sent is called with the lock held: with an error the message is put back, and if it
// was not queued within the run, it has arrived.
func (c *composer) hold(run, text string, after uint64) (sent func(err error, queued bool)) {
	d := c.drafts.all[run]
	d.Sending = append(slices.Clone(d.Sending), sending{Text: text, After: after, here: true})
	c.drafts.set(run, d)
	return func(err error, queued bool) {
		d := c.drafts.all[run]
		if i := slices.IndexFunc(d.Sending, func(s sending) bool { return s.here && s.Text == text }); i >= 0 {
			d.Sending = slices.Clone(d.Sending)
			if d.Sending[i].here = false; err != nil || !queued {
				d.Sending = slices.Delete(d.Sending, i, i+1)
			}
			c.drafts.set(run, d)
		}
		if err != nil {
			c.giveBack(run, text)
		}
	}
}

// giveBack puts a message back that did not arrive.
func (c *composer) giveBack(run, text string) {
	if c.run == run {
		c.set(strings.TrimRight(text+"\n"+c.area.Value(), "\n"))
		return
	}
	d := c.drafts.all[run]
	d.Text = strings.TrimRight(text+"\n"+d.Text, "\n")
	c.drafts.set(run, d)
}

// heard takes messages off the queue that a record of the run has.
func (c *composer) heard(run string, rec *runlog.Record) {
	d := c.drafts.all[run]
	if len(d.Sending) == 0 || rec.Seq == 0 {
		return
	}
	var texts []string
	switch rec.Kind {
	case runlog.KindAnswered:
		var a runlog.Answer
		var text string
		if unmarshal(rec.Data, &a) && unmarshal(a.Value, &text) {
			texts = append(texts, text)
		}
	case runlog.KindSettled:
		if s := mail.Settled(rec); s != nil {
			for _, m := range mail.SteeringOf(s) {
				if !m.Compact {
					texts = append(texts, m.Text)
				}
			}
		}
	}
	for _, text := range texts {
		if i := slices.IndexFunc(d.Sending, func(s sending) bool { return s.Text == text && rec.Seq > s.After }); i >= 0 {
			d.Sending = slices.Delete(slices.Clone(d.Sending), i, i+1)
			c.drafts.set(run, d)
		}
	}
}

// settle puts messages back that the run stopped without reading, such as those of a terminal that crashed.
func (c *composer) settle() tea.Cmd {
	t, cmd := c.t, c.late
	c.late = nil
	d := c.drafts.all[c.run]
	if t.run == nil || t.run.id != c.run || !t.run.loaded || t.moves() || len(d.Sending) == 0 {
		return cmd
	}
	var back []string
	d.Sending = slices.DeleteFunc(slices.Clone(d.Sending), func(s sending) bool {
		if !s.here {
			back = append(back, s.Text)
		}
		return !s.here
	})
	if c.drafts.set(c.run, d); back != nil {
		c.giveBack(c.run, strings.Join(back, "\n"))
	}
	return tea.Batch(cmd, c.changed())
}

func (c *composer) hints() string {
	switch {
	case c.search != nil:
		return "type to search · ^R older · Enter take it · Esc back"
	case len(c.popup.offers) > 0:
		return "↑↓ choose · Tab or Enter take it · Esc close"
	case c.empty() && len(c.t.before) > 0:
		return "Enter send · Esc back to " + c.t.before[len(c.t.before)-1] + " · Tab agents · /help · ^D leave"
	}
	if c.t.top() == pane(c.t.home) {
		return "Enter send · ^J new line · Tab the list above · ? keys · /help · ^D leave"
	}
	return "Enter send · ^J new line · ↑ history · Tab agents · /help · ^D leave"
}

func (c *composer) draw(w, h int) []string {
	pal := c.t.pal
	c.area.MaxHeight = max(1, h)
	c.area.SetWidth(w - 1)
	var out []string
	queue := c.drafts.all[c.run].Sending
	for i, q := range queue {
		if i == 3 {
			out = append(out, pal.Dim(fmt.Sprintf(" queued: %d more", len(queue)-i)))
			break
		}
		out = append(out, pal.Dim(cut(" queued: "+transcript.Line(q.Text), w)))
	}
	switch {
	case c.search != nil:
		found := ""
		if c.search.at < 0 && c.search.query != "" {
			found = "  (nothing)"
		}
		out = append(out, pal.Yellow(cut(" history: "+c.search.query+"▏"+found, w)))
	case len(c.popup.offers) > 0:
		out = append(out, c.popup.lines(pal, w, max(1, min(h, offeredAtOnce)))...)
	default:
		if hint := c.t.argumentHint(c.area.Value()); hint != "" {
			out = append(out, pal.Dim(cut(" "+hint, w)))
		}
	}
	if c.area.Value() == "" {
		return append(out, cut(" "+c.area.Prompt+pal.Dim("message, /command, !shell, @agent or @file"), w))
	}
	for line := range strings.SplitSeq(c.area.View(), "\n") {
		out = append(out, " "+line)
	}
	return out
}

// cursor places the cursor of the composer, which is above the last line.
func (c *composer) cursor(h int) *tea.Cursor {
	cur := c.area.Cursor()
	if cur != nil {
		cur.X++
		cur.Y += h - 1 - c.area.Height()
	}
	return cur
}

func (c *composer) update(msg tea.Msg) (cmd tea.Cmd) {
	if _, ok := msg.(draftMsg); ok {
		c.saving = false
		return c.write()
	}
	c.area, cmd = c.area.Update(msg)
	return cmd
}

// paste inserts a text. A long one becomes an attachment, which is a word in the text until it is sent.
func (c *composer) paste(s string) tea.Cmd {
	s = transcript.Clean(s)
	if strings.Count(s, "\n") < pastedLines && utf8.RuneCountInString(s) <= pastedLetters {
		cmd := c.update(tea.PasteMsg{Content: s})
		return tea.Batch(cmd, c.offer(), c.changed())
	}
	c.attach(s)
	return c.changed()
}

// attach inserts a text as an attachment.
func (c *composer) attach(s string) {
	s = strings.TrimRight(s, "\n")
	c.parts = append(c.parts[:len(c.parts):len(c.parts)], s)
	c.area.InsertString(fmt.Sprintf("[#%d pasted %s]", len(c.parts), inwords.Plural(strings.Count(s, "\n")+1, "line")))
}

var attachment = regexp.MustCompile(`\[#(\d+) pasted \d+ lines?\]`)

// expand puts attachments in their places.
func (c *composer) expand(text string) string {
	return attachment.ReplaceAllStringFunc(text, func(s string) string {
		n, err := strconv.Atoi(attachment.FindStringSubmatch(s)[1])
		if err != nil || n < 1 || n > len(c.parts) {
			return s
		}
		return c.parts[n-1]
	})
}

func (c *composer) key(k tea.KeyPressMsg) tea.Cmd {
	keys := c.t.keys
	if c.search != nil {
		return c.searchKey(k)
	}
	p := &c.popup
	if len(p.offers) > 0 {
		switch {
		case p.moves(k):
			return nil
		case keys.is(k, "back"):
			p.closed, p.offers = p.word, nil
			return nil
		case keys.is(k, "focus"):
			c.accept()
			return tea.Batch(c.offer(), c.changed())
		case keys.is(k, "send") && !p.exact():
			if c.accept() {
				return c.submit()
			}
			return tea.Batch(c.offer(), c.changed())
		}
	}
	switch {
	case keys.is(k, "send"):
		return c.submit()
	case keys.is(k, "search"):
		c.search = &searching{at: len(c.history.list), own: c.area.Value()}
		return nil
	case keys.is(k, "editor"):
		return c.edit()
	case keys.is(k, "back"):
		if c.empty() {
			return c.t.showBefore()
		}
		return nil
	case k.String() == "up" && c.area.Line() == 0 && c.area.LineInfo().RowOffset == 0:
		return c.recall(-1)
	case k.String() == "down" && c.area.Line() == c.area.LineCount()-1 && c.area.LineInfo().RowOffset >= c.area.LineInfo().Height-1:
		return c.recall(1)
	case k.String() == "backspace" && c.dropAttachment():
		return tea.Batch(c.offer(), c.changed())
	}
	cmd := c.update(k)
	return tea.Batch(cmd, c.offer(), c.changed())
}

// dropAttachment removes the attachment that ends at the cursor, as if it were one letter.
func (c *composer) dropAttachment() bool {
	before := c.before()
	at := attachment.FindAllStringIndex(before, -1)
	if len(at) == 0 || at[len(at)-1][1] != len(before) {
		return false
	}
	rest := c.area.Value()[len(before):]
	c.area.SetValue(before[:at[len(at)-1][0]])
	c.area.MoveToEnd()
	if line, col := c.area.Line(), c.area.Column(); rest != "" {
		c.area.InsertString(rest)
		c.moveTo(line, col)
	}
	return true
}

// recall shows the text of the history before or behind the shown one.
func (c *composer) recall(by int) tea.Cmd {
	h := c.history
	to := min(c.past+by, len(h.list))
	if to < 0 || to == c.past {
		return nil
	}
	if c.past >= len(h.list) {
		c.own = c.area.Value()
	}
	text := c.own
	if c.past = to; to < len(h.list) {
		text = h.list[to]
	}
	c.set(text)
	c.popup = popup{}
	if by < 0 {
		c.area.MoveToBegin()
		c.area.CursorEnd()
	}
	return c.changed()
}

func (c *composer) searchKey(k tea.KeyPressMsg) tea.Cmd {
	s, keys := c.search, c.t.keys
	older := len(c.history.list)
	switch {
	case keys.is(k, "back"):
		c.search = nil
		c.set(s.own)
		return c.changed()
	case keys.is(k, "send"), keys.is(k, "focus"):
		text := c.area.Value()
		c.search = nil
		c.set(text)
		return c.changed()
	case keys.is(k, "search"):
		older = s.at
	case !typeInto(&s.query, k):
		return nil
	}
	at := c.history.find(s.query, older)
	if at >= 0 {
		c.area.SetValue(c.history.list[at])
		c.area.MoveToEnd()
	}
	if s.at = at; at < 0 && keys.is(k, "search") { // from the newest again
		s.at = len(c.history.list)
	}
	return nil
}

// edit opens what is typed in the user's editor.
func (c *composer) edit() tea.Cmd {
	run := c.run
	return c.t.inEditor("message-*.md", c.expand(c.area.Value()), func(text string) {
		if c.run == run {
			c.parts = nil
			c.set(text)
		}
	})
}

// inEditor has the user edit a text in the editor of their choice. Then gets the result with the lock held.
func (t *Terminal) inEditor(pattern, text string, then func(text string)) tea.Cmd {
	if len(t.opt.Editor) == 0 {
		t.fail(errors.New("set VISUAL or EDITOR to your editor"))
		return nil
	}
	return func() tea.Msg {
		f, err := os.CreateTemp("", pattern) // mode 0600
		if err == nil {
			_, err = f.WriteString(text)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			return doneMsg{func() { t.fail(err) }}
		}
		name := f.Name()
		cmd := exec.CommandContext(t.ctx, t.opt.Editor[0], append(slices.Clone(t.opt.Editor[1:]), name)...) //nolint:gosec // it is the user's
		return tea.ExecProcess(cmd, func(err error) tea.Msg {
			b, rerr := os.ReadFile(name)
			_ = os.Remove(name)
			return doneMsg{func() {
				if err = cmp.Or(err, rerr); err != nil {
					t.fail(fmt.Errorf("%s: %w; the text is as it was (VISUAL or EDITOR names another editor)", t.opt.Editor[0], err))
					return
				}
				then(strings.TrimRight(transcript.Clean(string(b)), "\n"))
			}}
		})()
	}
}

// submit sends what is typed, or carries it out.
func (c *composer) submit() tea.Cmd {
	typed, parts := strings.TrimSpace(c.area.Value()), c.parts
	if typed == "" {
		return nil
	}
	text := c.expand(typed)
	t, record := c.t, c.history.add(text)
	remember := func() tea.Msg {
		if err := record(); err != nil {
			return doneMsg{func() { t.fail(fmt.Errorf("the history cannot be written: %w", err)) }}
		}
		return nil
	}
	c.clear()
	var cmd tea.Cmd
	first, _, _ := strings.Cut(typed, " ")
	switch {
	case typed[0] == '/' && !strings.Contains(first[1:], "/"):
		var known bool
		if cmd, known = t.command(text[1:]); !known {
			c.parts = parts
			c.set(typed)
		}
	case typed[0] == '!':
		cmd = t.shell(strings.TrimSpace(text[1:]))
	default:
		cmd = t.message(text)
	}
	return tea.Batch(remember, cmd, c.changed())
}
