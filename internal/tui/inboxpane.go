package tui

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/evaluate"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

// An inboxPane lists what waits for the user in all runs of the store, the oldest first.
type inboxPane struct {
	t    *Terminal
	list list[host.InboxItem]
}

func newInboxPane(t *Terminal) *inboxPane {
	t.stale = true // to be read again at once
	return &inboxPane{t: t, list: list[host.InboxItem]{t: t}}
}

func (p *inboxPane) title() string { return "INBOX" }
func (p *inboxPane) hints() string {
	return "↑↓ · Enter answer here · o open the run · Esc back"
}

// itemKey identifies an item of the inbox.
func itemKey(w *host.InboxItem) string { return w.Run + "\x00" + w.Path + "\x00" + w.Key }

// itemAsks tells who wants what.
func itemAsks(w *host.InboxItem) string {
	who := transcript.Line(w.Task)
	if w.Agent != "" && !strings.HasPrefix(who, w.Agent) {
		who = strings.TrimSpace(who + " (" + transcript.Line(w.Agent) + ")")
	}
	what := map[runlog.QuestionKind]string{
		runlog.QuestionPermission: "wants to: ", runlog.QuestionGate: "may it go on: ", runlog.QuestionUnknown: "what became of it: ",
	}[w.Kind]
	if who != "" && what == "" && w.Key != "" {
		who += " asks"
	}
	if who != "" && what == "" {
		what = ": "
	} else if who != "" {
		what = " " + what
	}
	return who + what + transcript.Line(w.Text)
}

// waitingLines draws a row of the inbox in two lines.
func (t *Terminal) waitingLines(q *host.InboxItem, w int) []string {
	wait := "waits " + inwords.Brief(max(0, t.opt.Now().Sub(q.Asked)))
	name := transcript.Line(q.Workflow)
	if title := transcript.Line(q.Title); title != "" {
		name += "  " + t.pal.Dim(title)
	}
	if q.Folder != "" && t.catalog != nil && q.Folder != t.catalog.Folder {
		name += "  " + t.pal.Dim("in "+transcript.Line(filepath.Base(q.Folder)))
	}
	left := t.pal.Yellow("?") + " " + q.Run + "  "
	return []string{
		apart(left+cut(name, max(8, w-ansi.StringWidth(left)-ansi.StringWidth(wait)-3)), wait, w),
		"   " + t.pal.Yellow(cut(itemAsks(q), max(8, w-5))),
	}
}

// apart puts two texts at the ends of a line.
func apart(left, right string, w int) string {
	left = ansi.Truncate(left, max(0, w-ansi.StringWidth(right)-2), "…")
	return left + strings.Repeat(" ", max(1, w-1-ansi.StringWidth(left)-ansi.StringWidth(right))) + right
}

func (p *inboxPane) draw(w, h int) []string {
	inbox := p.t.inbox
	if p.settle(); len(inbox) == 0 {
		return []string{"", p.t.pal.Dim(cut(" Nothing waits for you, in any run.", w))}
	}
	runs := map[string]bool{}
	for i := range inbox {
		runs[inbox[i].Run] = true
	}
	head := []string{p.t.pal.Bold(cut(fmt.Sprintf(" %s in %s, the oldest first", inwords.Plural(len(inbox), "question"), inwords.Plural(len(runs), "run")), w)), ""}
	if h < 8 {
		head = nil
	}
	return append(head, p.list.lines(w, h-len(head))...)
}

// settle lists what waits now.
func (p *inboxPane) settle() {
	var rows []listRow[host.InboxItem]
	for _, q := range p.t.inbox {
		rows = append(rows, listRow[host.InboxItem]{itemKey(&q), q, 2, func(w int) []string { return p.t.waitingLines(&q, w) }})
	}
	p.list.set(rows)
}

func (p *inboxPane) key(k tea.KeyPressMsg) tea.Cmd {
	t := p.t
	p.settle()
	row := p.list.chosen()
	switch {
	case p.list.moves(k):
	case t.keys.is(k, "quit"):
		t.pop()
	case t.keys.is(k, "help"):
		t.push(newHelpPane(t))
	case t.keys.is(k, "runs"):
		return t.showRuns()
	case row == nil:
	case t.keys.is(k, "open"):
		return t.answerHere(&row.item)
	case t.keys.is(k, "openRun"):
		t.open(row.item.Run)
	}
	return nil
}

// answerHere shows the card of a question of any run.
func (t *Terminal) answerHere(q *host.InboxItem) tea.Cmd {
	if q.Key == "" { // a budget, which its run can tell more about
		t.open(q.Run)
		return nil
	}
	return t.showCard(q)
}

const (
	pollBusy  = 3 * time.Second  // while something runs, or waits
	pollIdle  = 15 * time.Second // while nothing does
	pollStale = 300 * time.Millisecond
)

// poll reads the newest runs and the inbox from time to time, and soon after something was asked or answered.
func (t *Terminal) poll() tea.Cmd {
	gap := pollIdle
	switch {
	case t.stale:
		gap = pollStale
	case t.busy():
		gap = pollBusy
	}
	if t.looking || t.opt.Now().Sub(t.looked) < gap {
		return nil
	}
	return t.lookRuns()
}

// busy reports whether something runs or waits in the store, as far as is known.
func (t *Terminal) busy() bool {
	for _, f := range t.runs {
		if !f.ended {
			return true
		}
	}
	moving := func(i runlog.Info) bool { return i.Status == runlog.Running || i.Status == runlog.Paused }
	return len(t.inbox) > 0 || slices.ContainsFunc(t.recent, moving)
}

const (
	recentRuns = 30              // how many of the newest runs the start page knows
	manyRuns   = 20 * recentRuns // the same, if most of these are of an evaluation
	mostRecent = 8               // how many it lists as recent
)

// lookRuns reads the newest runs and the inbox.
func (t *Terminal) lookRuns() tea.Cmd {
	t.looking, t.stale = true, false
	return func() tea.Msg {
		var recent []runlog.Info
		e, err := t.reader(t.ctx)
		if err == nil {
			recent, err = e.Runs(t.ctx, &runlog.Filter{Limit: recentRuns})
			evaluations := 0
			for i := range recent {
				if evaluate.Of(&recent[i]) {
					evaluations++
				}
			}
			if len(recent) == recentRuns && evaluations > recentRuns-mostRecent {
				recent, err = e.Runs(t.ctx, &runlog.Filter{Limit: manyRuns})
			}
		}
		inbox, ierr := t.backend.Inbox(t.ctx)
		return doneMsg{func() {
			t.looking, t.looked = false, t.opt.Now()
			if err == nil {
				t.recent = recent
			}
			if ierr == nil {
				t.inbox = inbox
			}
			was := t.trouble
			if t.trouble = errors.Join(err, ierr); t.trouble != nil && t.ctx.Err() == nil && (was == nil || was.Error() != t.trouble.Error()) {
				t.fail(cmp.Or(err, ierr)) // once
			}
		}}
	}
}
