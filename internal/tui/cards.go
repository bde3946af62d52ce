package tui

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/question"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

// A deck holds the questions of the runs that are followed.
type deck struct {
	cards   map[string]*cardView // by cardKey
	guest   *guest               // the question of another run that is answered from here, nil for none
	modeRun string               // whose mode it is, "" for the next run that begins
	modeAt  time.Time            // when it was chosen
	pressed time.Time            // when the last key was pressed
	below   int                  // lines from the top of the card to the end of the screen, when it was last drawn
	worked  string               // the run that was shown working, "" for none
	greeted bool                 // the inbox has been read
	tmux    bool                 // the terminal is in tmux
}

// guest is a question of another run than the one that is shown.
type guest struct {
	f         *following
	path, key string
	focus     bool // the card gets the focus as soon as it is there
}

func cardKey(run string, q *transcript.Question) string {
	return run + "\x00" + identity(q.Asked.Path, q.Asked.Key)
}

// asking returns the open questions of a run that wait for a person, in the order in which they were asked.
func (f *following) asking() []*transcript.Question {
	if !f.loaded || f.run.Status.Ended() {
		return nil
	}
	open, again := f.run.Open(), map[string]bool{}
	for i := len(open) - 1; i >= 0; i-- { // of two with one address, such as in a file that somebody made, the last one counts
		id := identity(open[i].Asked.Path, open[i].Asked.Key)
		if again[id] || question.Kind(&open[i].Asked) == runlog.QuestionMessage {
			open[i] = nil
		}
		again[id] = true
	}
	return slices.DeleteFunc(open, func(q *transcript.Question) bool { return q == nil })
}

// sameQuestion reports whether two questions of one address ask the same: a run may have been read anew.
func sameQuestion(a, b *transcript.Question) bool {
	return a == b || reflect.DeepEqual(a.Asked, b.Asked)
}

// cardOf returns the card of a question. It keeps what was typed there.
func (t *Terminal) cardOf(f *following, q *transcript.Question) *cardView {
	key := cardKey(f.id, q)
	c := t.cards[key]
	if c == nil || !sameQuestion(c.q, q) {
		if t.cards == nil {
			t.cards = map[string]*cardView{}
		}
		c = newCard(t, f, q)
		t.cards[key] = c
	}
	c.f, c.q = f, q
	return c
}

// open returns the cards of a run that can be answered, with those put away.
func (t *Terminal) openCards(f *following) []*cardView {
	var out []*cardView
	for _, q := range f.asking() {
		if c := t.cardOf(f, q); !c.sent {
			out = append(out, c)
		}
	}
	return out
}

// nextCard shows the question that comes first.
func (t *Terminal) nextCard() {
	for key, c := range t.cards {
		if f := t.runs[c.f.id]; f != nil && f != c.f && f.loaded {
			same := func(q *transcript.Question) bool { return cardKey(f.id, q) == key && sameQuestion(c.q, q) }
			if i := slices.IndexFunc(f.run.Questions, same); i >= 0 {
				c.f, c.q = f, f.run.Questions[i]
			}
		}
		if c.q.Answered {
			delete(t.cards, key)
		}
	}
	was := t.card
	if t.card = t.firstCard(); t.card == was {
		return
	}
	if t.card != nil {
		t.card.show()
	}
	switch {
	case t.guest != nil && t.guest.focus && t.card != nil:
		t.guest.focus = false
		t.setFocus(onCard)
	case t.focus == onCard: // what is typed now was not meant for the next question
		t.leaveCard()
	}
}

// leaveCard moves the focus to what is below the card.
func (t *Terminal) leaveCard() {
	switch {
	case t.focus != onCard:
	case len(t.panes) > 0:
		t.setFocus(onPane)
	default:
		t.setFocus(onComposer)
	}
}

func (t *Terminal) firstCard() *cardView {
	if g := t.guest; g != nil && g.f.loaded {
		for _, c := range t.openCards(g.f) {
			if c.q.Asked.Path == g.path && c.q.Asked.Key == g.key && !c.away {
				return c
			}
		}
		if c := t.cards[g.f.id+"\x00"+identity(g.path, g.key)]; c == nil || !c.sent && !c.away {
			t.say("the question of run " + g.f.id + " is answered already")
		}
		t.guest = nil
	} else if g != nil {
		return nil
	}
	if t.run == nil {
		return nil
	}
	for _, c := range t.openCards(t.run) {
		if !c.away {
			return c
		}
	}
	return nil
}

// unsettled reports whether an answer to a run is on its way.
func (t *Terminal) unsettled(id string) bool {
	for _, c := range t.cards {
		if c.f.id == id && c.sent && !c.over {
			return true
		}
	}
	return false
}

// forget stops to follow runs that are not on the screen, once nothing is left to do for them. The one that Esc goes back to is kept.
func (t *Terminal) forget() {
	last := ""
	if n := len(t.before); n > 0 {
		last = t.before[n-1]
	}
	for id, f := range t.runs {
		if id == last || t.run != nil && t.run.id == id || t.guest != nil && t.guest.f.id == id || t.unsettled(id) {
			continue
		}
		f.stop()
		delete(t.runs, id)
		for key, c := range t.cards {
			if c.f.id == id && !c.begun() {
				delete(t.cards, key)
			}
		}
	}
}

// showCard puts a question of any run on the screen, without leaving the run that is shown.
func (t *Terminal) showCard(w *host.InboxItem) tea.Cmd {
	f := t.runs[w.Run]
	if f == nil {
		f = t.follow(w.Run)
	}
	t.guest = &guest{f: f, path: w.Path, key: w.Key, focus: true}
	if c := t.cards[w.Run+"\x00"+identity(w.Path, w.Key)]; c != nil {
		c.away = false
	}
	t.nextCard()
	return nil
}

// putAway puts a question off. It stays in the inbox, and Tab brings it back.
func (t *Terminal) putAway(c *cardView) {
	c.away = true
	t.guest = nil
	t.leaveCard()
	t.nextCard()
}

// bringBack shows the questions again that were put away, and reports whether there are any.
func (t *Terminal) bringBack() bool {
	if t.run == nil || t.card != nil {
		return false
	}
	cards := t.openCards(t.run)
	for _, c := range cards {
		c.away = false
	}
	t.nextCard()
	return len(cards) > 0
}

// place returns which card it is of how many of its run.
func (t *Terminal) place(c *cardView) (n, of int) {
	all := t.openCards(c.f)
	return slices.Index(all, c) + 1, len(all)
}

// nextAfter names the question that comes after a card: in its run, or else in another.
func (t *Terminal) nextAfter(c *cardView) string {
	all := t.openCards(c.f)
	for i := 1; i < len(all); i++ {
		if next := all[(slices.Index(all, c)+i)%len(all)]; !next.away {
			return next.brieflyAsks()
		}
	}
	for i := range t.inbox {
		if w := &t.inbox[i]; w.Run != c.f.id && w.Kind != runlog.QuestionMessage {
			return w.Run + " " + transcript.Line(w.Task) + ": " + transcript.Line(w.Text)
		}
	}
	return ""
}

// brieflyAsks returns the question on one line.
func (c *cardView) brieflyAsks() string {
	who := transcript.Line(question.Spelled(c.q.Path))
	if call := c.q.Call; call != nil {
		return who + " " + question.Wants(call)
	}
	return who + ": " + transcript.Line(question.Headed(c.q.Header, c.q.Question))
}

// cardLines draws the card, or how many questions were put away.
func (t *Terminal) cardLines(w, h int) []string {
	if c := t.card; c != nil {
		most := max(4, h*3/5)
		if c.tall {
			most = max(most, h-5)
		}
		return c.draw(w, most)
	}
	switch {
	case t.guest != nil:
		return []string{t.pal.Dim(cut(" ? opening the question of run "+t.guest.f.id+" …", w))}
	case t.run == nil:
		return nil
	}
	if n := len(t.openCards(t.run)); n > 0 {
		return []string{t.pal.Yellow(cut(fmt.Sprintf(" ? %s put away: Tab", inwords.Plural(n, "question")), w))}
	}
	return nil
}

// cardCursor places the cursor of the text that is typed into the card.
func (t *Terminal) cardCursor(h int) *tea.Cursor {
	if t.card == nil || t.card.y < 0 || h-t.below+t.card.y < 0 {
		return nil
	}
	return tea.NewCursor(t.card.x, h-t.below+t.card.y)
}

// answer sends the answer to a question to its run.
func (t *Terminal) answer(c *cardView, a *runlog.Answer) tea.Cmd {
	c.sent, c.err = true, ""
	id, path := c.f.id, c.q.Asked.Path
	a.Key = c.q.Asked.Key
	t.leaveCard()
	t.say(answering + id)
	return func() tea.Msg {
		e, err := t.reader(t.ctx)
		rests, resumed, failed := "", false, error(nil)
		if err == nil {
			rests, err = host.Answer(t.ctx, e, id, path, a, func(ctx context.Context) error {
				_, failed = t.backend.Start(ctx, &Start{Run: id})
				resumed = failed == nil
				return failed
			})
		}
		return doneMsg{func() {
			if failed != nil && err != nil { // the answer is recorded
				t.answered(c, nil)
				t.fail(err)
				return
			}
			t.answered(c, err)
			switch {
			case err == nil && rests != "" && len(c.f.asking()) == 0:
				t.sayAnswered(id, "answered; run "+id+" stays as it is: "+rests)
			case resumed:
				t.sayAnswered(id, "answered; resuming run "+id)
			}
			if f := t.runs[id]; f != nil && resumed {
				f.resume()
			}
		}}
	}
}

const answering = "answering run … " // and its ID

// sayAnswered says what became of an answer, unless the user was told something else in the meantime.
func (t *Terminal) sayAnswered(id, text string) {
	if t.notice == transcript.Line(answering+id) || t.notice == "answered" {
		t.say(text)
	}
}

// answered notes what became of an answer. One that was refused is still in its card.
func (t *Terminal) answered(c *cardView, err error) {
	id := c.f.id
	var over *runlog.EndedError
	switch {
	case err == nil:
		t.sayAnswered(id, "answered")
	case errors.As(err, new(*journal.AnsweredError)), errors.As(err, &over):
		c.over = true
		t.fail(err)
	default:
		c.sent, c.left, c.err = false, true, transcript.Clean(err.Error())
		c.show()
		t.fail(err)
		return
	}
	t.inbox = slices.DeleteFunc(t.inbox, func(w host.InboxItem) bool { return w.Run == id && w.Path == c.q.Asked.Path && w.Key == c.q.Asked.Key })
	if f := t.runs[id]; f != nil && f.ended { // nobody else tells of the answer
		f.resume()
	}
}

// nextMode changes how permission requests of the shown run are met from now on. What is open already is still asked about: it may not have been read.
func (t *Terminal) nextMode() tea.Cmd {
	next := map[string]string{"": question.ModeEdits, question.ModeEdits: question.ModePlan, question.ModePlan: ""}
	if t.compose.mode = next[t.compose.mode]; t.compose.mode == question.ModeEdits && t.run != nil && t.run.run.Imported {
		t.compose.mode = question.ModePlan
	}
	t.modeRun, t.modeAt = "", t.opt.Now()
	if t.run != nil {
		t.modeRun = t.run.id
		t.leave(t.run)
	}
	t.say(map[string]string{
		"":                 "every permission request is put to you",
		question.ModeEdits: "accept edits: ordinary edits in the project pass; commands and the rest still ask",
		question.ModePlan:  "plan: every permission request is denied",
	}[t.compose.mode])
	return nil
}

// leave leaves the questions that are open now to the user.
func (t *Terminal) leave(f *following) {
	for _, q := range f.run.Open() {
		t.cardOf(f, q).left = true
	}
}

// meet answers the permission requests of the shown run that came after its mode was chosen, as that mode has it.
func (t *Terminal) meet() tea.Cmd {
	f := t.run
	if t.compose.mode == "" || f == nil {
		return nil
	}
	if t.modeRun != f.id {
		switch {
		case t.modeRun == "" && f.run.Status == "" && f.err == nil: // it is not known yet
			return nil
		case t.modeRun == "" && f.run.Started.After(t.modeAt) && !f.run.Imported: // it was begun with this mode
			t.modeRun = f.id
		default:
			t.compose.mode = ""
			return nil
		}
	}
	if !f.loaded && f.run.Started.Before(t.modeAt) {
		t.leave(f)
	}
	var cmds []tea.Cmd
	for _, q := range f.asking() {
		if c := t.cardOf(f, q); !c.sent && !c.left && !q.Since.Before(t.modeAt) {
			if a := question.Meet(t.compose.mode, f.run.Imported, &q.Asked); a != nil {
				cmds = append(cmds, t.answer(c, a))
			}
		}
	}
	return tea.Batch(cmds...)
}

// waiting reports whether the shown run waits for the user.
func (t *Terminal) waiting() bool {
	return t.card != nil || t.run != nil && len(t.openCards(t.run)) > 0
}

// ring calls the user: once for each question, and when the shown run ends while nobody looks.
func (t *Terminal) ring() tea.Cmd {
	var news []string
	note := func(key, text string) {
		if !t.rang[key] {
			t.rang[key] = true
			news = append(news, text)
		}
	}
	for _, f := range []*following{t.run, t.guestRun()} {
		if f == nil {
			continue
		}
		for _, c := range t.openCards(f) {
			note(cardKey(f.id, c.q), c.brieflyAsks())
		}
	}
	for i := range t.inbox {
		w := &t.inbox[i]
		key := w.Run + "\x00" + identity(w.Path, w.Key)
		if !t.greeted { // those of earlier are told by their number
			t.rang[key] = true
		} else if w.Kind != runlog.QuestionMessage && (t.cards[key] == nil || !t.cards[key].sent) {
			note(key, w.Run+" "+transcript.Line(w.Task)+": "+transcript.Line(w.Text))
		}
	}
	t.greeted = t.greeted || t.inbox != nil || t.frame > 50
	bell := len(news) > 0
	switch {
	case t.moves():
		t.worked = t.run.id
	case t.run == nil || t.run.id != t.worked || t.waiting():
		t.worked = ""
	case t.run.loaded && !t.unsettled(t.run.id):
		t.worked = ""
		if t.blurred {
			news = append(news, "run "+t.run.id+" "+string(t.run.run.Status))
			bell = true
		}
	}
	if !bell || !t.opt.Bell {
		return nil
	}
	out := "\a"
	if t.blurred {
		text := ansi.Truncate(transcript.Line("superstep: "+news[0]), 200, "…")
		if len(news) > 1 {
			text += fmt.Sprintf(" (+%d more)", len(news)-1)
		}
		told := ansi.Notify(text)
		if t.tmux {
			told = ansi.TmuxPassthrough(told)
		}
		out = told + out
	}
	return tea.Raw(out)
}

func (t *Terminal) guestRun() *following {
	if t.guest == nil {
		return nil
	}
	return t.guest.f
}
