package tui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/summary"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

// A runsPane lists the runs of the store, the newest first, those that need the user on top.
type runsPane struct {
	t       *Terminal
	list    list[*runlog.Info]
	all     []runlog.Info
	err     error
	loaded  bool
	most    int  // runs that were asked for, 0 for all
	more    bool // there are older ones
	reading bool
	last    bool      // the cursor goes to the oldest once all are read
	read    time.Time // when all was read

	filter string
	typing bool

	hay   map[string]string
	stamp string // of what the list was made of
	marks []string
}

// runFacts are what the summary of a run tells in a list.
type runFacts struct {
	k, n    int              // of the steps of its graph
	wait    *transcript.Wait // why it makes no progress, nil for none
	message bool             // it only waits for the next message of a conversation
	failed  string           // the first task that failed
	tokens  int
	cost    string
}

const (
	firstRuns   = 200 // are read at first
	refreshRuns = 2 * time.Second
)

func newRunsPane(t *Terminal) *runsPane {
	return &runsPane{t: t, list: list[*runlog.Info]{t: t}, most: firstRuns, hay: map[string]string{}}
}

func (t *Terminal) showRuns() tea.Cmd {
	p := newRunsPane(t)
	t.push(p)
	return p.load()
}

func (p *runsPane) title() string { return "RUNS" }

func (p *runsPane) hints() string {
	switch {
	case p.typing:
		return "type words such as failed yesterday · Enter keep · Esc all runs"
	case len(p.marks) == 1:
		return "Space mark another, then c compares · Esc unmark"
	case len(p.marks) == 2:
		return "c compare · Space unmark · Esc unmark"
	}
	return "Enter open · / filter · R resume · f fork · x cancel · d delete · Space mark, c compare · Esc back"
}

// back ends the filter or the marks before it leaves the list.
func (p *runsPane) back() bool {
	switch {
	case p.typing || p.filter != "":
		p.typing, p.filter = false, ""
	case len(p.marks) > 0:
		p.marks = nil
	default:
		return false
	}
	return true
}

// load reads the list.
func (p *runsPane) load() tea.Cmd {
	p.reading = true
	t, most := p.t, p.most
	return func() tea.Msg {
		var all []runlog.Info
		e, err := t.reader(t.ctx)
		if err == nil {
			f := &runlog.Filter{}
			if most > 0 {
				f.Limit = most + 1
			}
			all, err = e.Runs(t.ctx, f)
		}
		return doneMsg{func() {
			p.reading, p.read, p.err = false, t.opt.Now(), err
			if err != nil {
				return
			}
			p.loaded = true
			if p.more = most > 0 && len(all) > most; p.more {
				all = all[:most]
			}
			p.all = all
			if p.last { // where the cursor wants to be
				p.arrange()
				p.last, p.list.cur.at = false, p.list.count()-1
				p.list.keep()
			}
		}}
	}
}

// tick reads the list again.
func (p *runsPane) tick(now time.Time) tea.Cmd {
	if !p.reading && now.Sub(p.read) >= refreshRuns {
		return p.load()
	}
	return nil
}

// factsOf reads the summary of a run; what it lacks is left out.
func factsOf(info *runlog.Info) (f runFacts) {
	s := summary.Of(info)
	if s == nil {
		return f
	}
	f.k, f.n, f.failed, f.tokens = s.Done, s.Of, transcript.Line(s.Failed), int(s.Tokens)
	if f.message = s.Waits == summary.Message; !f.message && s.Waits != "" {
		f.wait = &transcript.Wait{What: s.Waits, Until: s.Until}
	}
	if s.Tokens > 0 {
		f.cost = (&transcript.Cost{Micros: s.Cost, More: s.More}).String()
	}
	return f
}

// waitingOf returns the question of a run that waits for the user, nil for none.
func (t *Terminal) waitingOf(id string) *host.InboxItem {
	for i := range t.inbox {
		if t.inbox[i].Run == id {
			return &t.inbox[i]
		}
	}
	return nil
}

// yourTurn reports whether a run is a conversation that waits for the next message, which is nothing that must be answered.
func (t *Terminal) yourTurn(i *runlog.Info) bool {
	return factsOf(i).message && (i.Status == runlog.Running || i.Status == runlog.Paused)
}

// runWord returns how a run is, as a sign and a word.
func (t *Terminal) runWord(i *runlog.Info) (sign, word string) {
	pal := t.pal
	switch {
	case t.waitingOf(i.ID) != nil:
		return pal.Yellow("?"), pal.Yellow("needs you")
	case i.Status == runlog.Running && i.Cancel:
		return pal.Yellow("■"), pal.Yellow("stopping")
	}
	if t.yourTurn(i) {
		return "›", "your turn"
	}
	switch word = strings.ReplaceAll(string(i.Status), "_", " "); i.Status {
	case runlog.Running:
		return "●", word
	case runlog.Completed:
		return pal.Green("✓"), pal.Green(word)
	case runlog.Failed, runlog.Quarantined:
		return pal.Red("✗"), pal.Red(word)
	case runlog.Partial:
		return pal.Yellow("!"), pal.Yellow(word)
	case runlog.Cancelled:
		return pal.Dim("■"), pal.Dim(word)
	}
	return pal.Yellow("■"), pal.Yellow(word)
}

// arrange makes the rows of the list, if something that they are made of has changed.
func (p *runsPane) arrange() {
	t := p.t
	stamp := fmt.Sprint(p.read.UnixNano(), t.looked.UnixNano(), len(t.inbox), p.filter, t.opt.Now().YearDay())
	if stamp == p.stamp {
		return
	}
	p.stamp = stamp
	if len(p.hay) > 2*len(p.all)+100 { // most are of how runs were before
		clear(p.hay)
	}
	var groups [3][]listRow[*runlog.Info]
	words := strings.Fields(strings.ToLower(p.filter))
	for n := range p.all {
		i := &p.all[n]
		if !p.has(i, words) {
			continue
		}
		g := 2
		switch {
		case t.waitingOf(i.ID) != nil:
			g = 0
		case i.Status == runlog.Running && !t.yourTurn(i):
			g = 1
		}
		groups[g] = append(groups[g], listRow[*runlog.Info]{i.ID, i, 1, func(w int) []string { return []string{p.marked(i.ID) + t.runRow(i, w-1)} }})
	}
	var rows []listRow[*runlog.Info]
	for g, name := range []string{"Needs you", "Running", "All others, the newest first"} {
		if n := len(groups[g]); n > 0 {
			if len(groups[0])+len(groups[1]) > 0 {
				heading := fmt.Sprintf("%s (%d%s)", name, n, map[bool]string{true: "+"}[p.more && g == 2])
				rows = append(rows, listRow[*runlog.Info]{high: 1, draw: func(w int) []string { return []string{t.pal.Bold(cut(heading, w))} }})
			}
			rows = append(rows, groups[g]...)
		}
	}
	p.list.set(rows)
}

// marked is the cell before a run that tells whether it is marked.
func (p *runsPane) marked(id string) string {
	if slices.Contains(p.marks, id) {
		return "*"
	}
	return " "
}

// has reports whether all words are found in the columns of a run.
func (p *runsPane) has(i *runlog.Info, words []string) bool {
	if len(words) == 0 {
		return true
	}
	f := factsOf(i)
	w := p.t.waitingOf(i.ID)
	key := fmt.Sprint(i.ID, i.Status, i.Head, w != nil)
	hay, ok := p.hay[key]
	if !ok {
		now := p.t.opt.Now()
		parts := []string{i.ID, strings.ReplaceAll(string(i.Status), "_", " "), i.Workflow, i.Title, i.Created.Local().Format(time.DateOnly), f.failed, f.cost}
		if p.t.yourTurn(i) {
			parts = append(parts, "your turn")
		}
		if f.wait != nil {
			parts = append(parts, waitsFor(f.wait, now))
		}
		switch day := i.Created.Local().YearDay(); {
		case now.Sub(i.Created) > 48*time.Hour:
		case day == now.Local().YearDay():
			parts = append(parts, "today")
		case day == now.Local().AddDate(0, 0, -1).YearDay():
			parts = append(parts, "yesterday")
		}
		if w != nil {
			parts = append(parts, "needs you", itemAsks(w))
		}
		hay = strings.ToLower(strings.Join(parts, "\n"))
		p.hay[key] = hay
	}
	for _, word := range words {
		if !strings.Contains(hay, word) {
			return false
		}
	}
	return true
}

func (p *runsPane) draw(w, h int) []string {
	t := p.t
	p.arrange()
	var out []string
	if p.typing || p.filter != "" {
		line := " / " + p.filter
		if p.typing {
			line += "▏"
		}
		out = append(out, apart(t.pal.Bold(line), fmt.Sprintf("%d of %d%s", p.list.count(), len(p.all), map[bool]string{true: "+"}[p.more]), w))
	}
	switch {
	case p.err != nil:
		return append(out, t.pal.Red(cut(" ✗ "+transcript.Line(p.err.Error()), w)))
	case !p.loaded:
		return append(out, t.pal.Dim(" reading the runs …"))
	case len(p.all) == 0:
		return append(out, "", t.pal.Dim(cut(" No run yet. Type a message, or /workflow, to start one.", w)))
	case len(p.list.rows) == 0:
		return append(out, "", t.pal.Dim(cut(" No run has all of these words. Esc shows all.", w)))
	}
	return append(out, p.list.lines(w, h-len(out))...)
}

// runRow draws a run as a line of w cells.
func (t *Terminal) runRow(i *runlog.Info, w int) string {
	f := factsOf(i)
	sign, word := t.runWord(i)
	age := "-"
	if i.Created.Unix() > 0 { // else it is damaged
		age = strings.TrimPrefix(strings.TrimSuffix(inwords.Ago(max(0, t.opt.Now().Sub(i.Created))), " ago"), "just ")
	}
	end := pad(age, 4)
	if w >= 90 {
		tokens := ""
		if f.tokens > 0 {
			tokens = inwords.Count(f.tokens)
		}
		end = pad(tokens, 7) + " " + pad(f.cost, 8) + " " + end
	}
	left := sign + " " + padded(i.ID, 8) + "  " + padded(word, 11) + "  " + padded(transcript.Line(i.Workflow), 10) + " "
	if w < 70 {
		left = sign + " " + padded(i.ID, 8) + " " + padded(word, 9) + " " + padded(transcript.Line(i.Workflow), 8) + " "
	}
	room := w - ansi.StringWidth(left) - ansi.StringWidth(end) - 3
	what := ""
	switch q := t.waitingOf(i.ID); {
	case q != nil:
		what = t.pal.Yellow(transcript.Line(q.Text))
	case f.wait != nil && f.wait.What != "worker":
		what = t.pal.Yellow(waitsFor(f.wait, t.opt.Now()))
	case f.failed != "":
		what = t.pal.Red("✗ " + f.failed)
	case f.n > 1 && !i.Status.Ended() && i.Workflow != "agent": // a chat has no last step
		what = fmt.Sprintf("step %d/%d", f.k, f.n)
	}
	title := cmp.Or(transcript.Line(i.Title), what)
	if what != "" && i.Title != "" && room > 24 {
		title = padded(title, min(room/2, 40)) + "  " + what
	} else if what != "" && room <= 24 {
		title = what
	}
	return apart(left+cut(title, max(0, room)), end, w)
}

// padded fills or cuts a text to a width.
func padded(s string, w int) string {
	s = ansi.Truncate(s, w, "…")
	return s + strings.Repeat(" ", w-ansi.StringWidth(s))
}

// pad puts a text at the right of so many cells.
func pad(s string, w int) string { return strings.Repeat(" ", max(0, w-ansi.StringWidth(s))) + s }

func (p *runsPane) key(k tea.KeyPressMsg) tea.Cmd {
	t := p.t
	p.arrange()
	if p.typing {
		return p.typed(k)
	}
	row := p.list.chosen()
	switch {
	case p.list.moves(k):
		if p.more && !p.reading && p.list.cur.at > p.list.count()-50 {
			if p.most *= 4; k.String() == "end" {
				p.most, p.last = 0, true
			}
			return p.load()
		}
	case t.keys.is(k, "filter"):
		p.typing = true
		if p.more { // what is looked for may be among the older ones
			p.most = 0
			return p.load()
		}
	case t.keys.is(k, "quit"):
		t.pop()
	case t.keys.is(k, "help"):
		t.push(newHelpPane(t))
	case t.keys.is(k, "inbox"):
		t.push(newInboxPane(t))
	case row == nil:
	case t.keys.is(k, "open"):
		t.open(row.id)
	default:
		return p.act(k, row.item)
	}
	return nil
}

// typed changes the filter.
func (p *runsPane) typed(k tea.KeyPressMsg) tea.Cmd {
	switch name := k.String(); {
	case name == "enter":
		p.typing = false
	case name == "up", name == "down", name == "pgup", name == "pgdown":
		p.list.moves(k)
	case typeInto(&p.filter, k) && name != "backspace":
		p.list.cur.at, p.list.sel = 0, ""
	}
	return nil
}

// act carries out a command on a run.
func (p *runsPane) act(k tea.KeyPressMsg, i *runlog.Info) tea.Cmd {
	t, id := p.t, i.ID
	switch {
	case t.keys.is(k, "resumeRun"):
		if i.Status == runlog.Running {
			t.open(id)
			t.say("run " + id + " is running")
			return nil
		}
		t.asks("Resume run "+id+"?", "it may cost something", func() tea.Cmd { return t.start(&Start{Run: id}) })
	case t.keys.is(k, "cancelRun"):
		if i.Status.Ended() {
			t.fail(fmt.Errorf("run %s has ended: there is nothing to cancel; d deletes it", id))
			return nil
		}
		t.asks("Cancel run "+id+"?", "for good; to stop it for now, open it and press p", func() tea.Cmd {
			return t.do("cancelling run "+id, func(ctx context.Context, e *superstep.Engine) error { return e.Cancel(ctx, id) }, p.again)
		})
	case t.keys.is(k, "deleteRun"):
		if i.Status == runlog.Running {
			t.fail(fmt.Errorf("run %s is running; x cancels it, then it can be deleted", id))
			return nil
		}
		if i.IsChild() {
			t.fail(fmt.Errorf("run %s is a child of run %s: delete that one", id, i.Parent))
			return nil
		}
		t.asks("Delete run "+id+"?", "it is hidden, and can be restored for 24 hours", func() tea.Cmd {
			return t.do("deleting run "+id, func(ctx context.Context, _ *superstep.Engine) error {
				_, err := t.backend.Command(ctx, "runs", "rm", "--", id)
				return err
			}, func() {
				if f := t.runs[id]; f != nil && f != t.run {
					f.stop()
					delete(t.runs, id)
				}
				p.marks = slices.DeleteFunc(p.marks, func(m string) bool { return m == id })
				t.say("run " + id + " is hidden; superstep runs restore " + id + " brings it back")
				p.again()
			})
		})
	case t.keys.is(k, "forkRun"):
		t.open(id)
		return t.showHistory()
	case t.keys.is(k, "markRun"):
		if n := slices.Index(p.marks, id); n >= 0 {
			p.marks = slices.Delete(p.marks, n, n+1)
		} else {
			p.marks = append(p.marks[max(0, len(p.marks)-1):], id)
		}
	case t.keys.is(k, "compareRuns"):
		return p.compare()
	}
	return nil
}

// again has the list read at the next occasion.
func (p *runsPane) again() { p.read, p.t.stale = time.Time{}, true }

// compare shows what differs between the marked runs, the older one first.
func (p *runsPane) compare() tea.Cmd {
	t := p.t
	if len(p.marks) != 2 {
		t.fail(errors.New("mark two runs with Space first; then c shows what differs between them"))
		return nil
	}
	marks := slices.Clone(p.marks)
	place := func(id string) int { return slices.IndexFunc(p.all, func(i runlog.Info) bool { return i.ID == id }) }
	if place(marks[0]) < place(marks[1]) { // the newest comes first
		slices.Reverse(marks)
	}
	var text string
	return t.do("comparing", func(ctx context.Context, _ *superstep.Engine) (err error) {
		text, err = t.backend.Command(ctx, "runs", "diff", "--", marks[0], marks[1])
		return err
	}, func() {
		t.notice = ""
		t.showText("DIFF "+marks[0]+" → "+marks[1], cmp.Or(strings.TrimSpace(text), "The two runs do not differ."))
	})
}
