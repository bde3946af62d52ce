package tui

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

// A view shows what happens in a run while it happens. Its methods but close are
// called with the session's lock held.
type view interface {
	see(rec *runlog.Record, t *transcript.Run) // called for every new record once the transcript has it
	notify(text string)                        // shows something that is no record
	suspend(on bool)                           // somebody else writes to the terminal, or does no longer
	close()                                    // ends the goroutines of the view
}

// Seeing is called for every new record of a run once the transcript has it. It must not keep either.
type Seeing func(id string, rec *runlog.Record, run *transcript.Run)

// A Session follows one run.
type Session struct {
	screen *Screen
	id     string
	after  uint64        // records up to this one are old: they are no news
	named  chan struct{} // closed once id is set
	now    func() time.Time
	other  Seeing // nil for none
	asker  *asker // nil for a run that is only watched

	mu   sync.Mutex
	run  transcript.Run
	err  error // why following broke off
	view view  // nil for none
	done bool  // nothing is asked any more
}

// Follow returns a session that shows a run. Records up to after are old and are not shown. If other is non-nil, it is called
// with those that are, one at a time.
func (c *Screen) Follow(after uint64, other Seeing) *Session {
	s := &Session{screen: c, after: after, named: make(chan struct{}), now: time.Now, other: other}
	switch {
	case c.set.Quiet:
	case c.Live && !(c.set.Programs && c.OutTTY):
		s.view = newLive(c, s)
	case !c.set.Programs:
		s.view = newPlain(c, s)
	}
	c.shown.Store(s)
	return s
}

// Begin sets the ID of the run. Records wait for it.
func (s *Session) Begin(id string) {
	s.id = id
	close(s.named)
}

// ID returns the ID of the run, once it has begun.
func (s *Session) ID() string { return s.id }

// Run returns the transcript of the run. It changes with every record.
func (s *Session) Run() *transcript.Run { return &s.run }

// Err returns why following broke off, nil if it did not.
func (s *Session) Err() error { return s.err }

// Elapsed returns how long the run has executed.
func (s *Session) Elapsed() time.Duration { return s.run.Time.Elapsed(s.now()) }

// Observe takes the next record of the run. It waits for Begin.
func (s *Session) Observe(rec runlog.Record, err error) {
	<-s.named
	if asks := s.observe(&rec, err); asks {
		s.asker.see(&rec)
	}
}

// observe reports whether the record may ask something.
func (s *Session) observe(rec *runlog.Record, err error) (asks bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.err = err
		return false
	}
	s.run.Apply(*rec)
	if rec.Seq == 0 || rec.Seq > s.after {
		if s.other != nil {
			s.other(s.id, rec, &s.run)
		}
		if s.view != nil {
			s.view.see(rec, &s.run)
		}
	}
	return s.asker != nil && !s.done
}

// questions returns the open questions, in the order in which they were asked.
func (s *Session) questions() []runlog.Question {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []runlog.Question
	for _, q := range s.run.Open() {
		out = append(out, q.Asked)
	}
	return out
}

// live returns the view that is redrawn in place, nil if there is none.
func (s *Session) live() *live {
	v, _ := s.view.(*live)
	return v
}

// change changes the live view and draws it.
func (s *Session) change(v *live, how func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	how()
	v.draw(true)
}

func (s *Session) suspend(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.view != nil {
		s.view.suspend(on)
	}
}

// notify shows something that is no record, and reports whether there is a view for it.
func (s *Session) notify(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.view != nil {
		s.view.notify(text)
	}
	return s.view != nil
}

// Release restores the terminal for good: the next signal may end the process.
func (s *Session) Release() {
	if v := s.live(); v != nil {
		s.change(v, v.release)
	}
}

// Close ends the questions and the view. Records may be observed after it, and are not shown.
func (s *Session) Close() {
	if s.asker != nil {
		s.mu.Lock()
		s.done = true
		s.mu.Unlock()
		s.asker.enough()
		s.asker.ahead.Wait()
	}
	s.screen.shown.CompareAndSwap(s, nil)
	if s.view != nil {
		s.view.close()
	}
}

// LastLine returns how the run ended after it took so long, as the last line of its progress.
func (s *Session) LastLine(status runlog.Status, exit int, took time.Duration) string {
	if s.screen.Live {
		line := closing(s.screen.Err, status, took, &s.run)
		if more := totals(&s.run); more != "" {
			line += "\n  " + more
		}
		width, _ := s.screen.size()
		if v := s.live(); v != nil {
			width, _ = v.size()
		}
		return ansi.Wrap(line, width, "")
	}
	word := string(status)
	switch {
	case status == runlog.Completed:
		word = "finished"
	case status == runlog.Paused && s.run.AwaitsMessage():
		word = "answered"
	}
	used := s.run.Used()
	line := fmt.Sprintf("%s run %s %s %s tokens=%s agents=%d", s.now().Format(time.TimeOnly), s.id, word, inwords.Brief(took),
		inwords.Count(used.Tokens), used.Agents)
	if s.run.Spent.Tokens > 0 {
		line += " cost=" + used.Cost.String()
	}
	denied := len(slices.DeleteFunc(slices.Clone(s.run.Questions), func(q *transcript.Question) bool { return !q.Denied || q.By == runlog.ByInterruption }))
	if denied > 0 {
		line += fmt.Sprintf(" denied=%d", denied)
	}
	line = fmt.Sprintf("%s exit=%d", line, exit)
	if saved := saved(&s.run); saved != "" {
		line += "\n  " + saved
	}
	return line
}

// closing returns the completion line on a terminal.
func closing(p Palette, status runlog.Status, took time.Duration, r *transcript.Run) string {
	sign, how := p.Yellow("■"), "stopped after"
	switch status {
	case runlog.Completed:
		sign, how = p.Green("⣿"), "completed in"
	case runlog.Partial:
		sign, how = p.Yellow("⣿"), "completed in part in"
	case runlog.WaitingStorage:
		sign, how = p.Yellow("?"), "waits for storage after"
	case runlog.Paused:
		if sign, how = p.Yellow("?"), "paused after"; r.AwaitsMessage() {
			sign, how = p.Green("⣿"), "answered in"
		}
	case runlog.Failed:
		sign, how = p.Red("✗"), "failed after"
	case runlog.Cancelled:
		sign, how = p.Red("■"), "cancelled after"
	}
	return sign + " Workflow " + how + " " + strings.Join(append([]string{inwords.Duration(took)}, spent(r)...), " · ")
}

// totals returns what a run cost and what became of it on the way, "" for nothing.
func totals(r *transcript.Run) string {
	var out []string
	if cost := costOf(r); cost != "" {
		out = append(out, cost)
	}
	if r.Retries == 1 {
		out = append(out, "1 retry")
	} else if r.Retries > 1 {
		out = append(out, fmt.Sprintf("%d retries", r.Retries))
	}
	answers := 0
	for _, q := range r.Questions {
		if q.Answered && !q.Denied {
			answers++
		}
	}
	if answers > 0 {
		out = append(out, inwords.Plural(answers, "answer"))
	}
	if saved := saved(r); saved != "" {
		out = append(out, saved)
	}
	return strings.Join(out, " · ")
}

// saved returns what a run that was resumed did not do again, "" for nothing.
func saved(r *transcript.Run) string {
	if r.Reused.Turns == 0 {
		return ""
	}
	line := "resumed: " + inwords.Plural(int(r.Reused.Turns), "turn")
	if r.Reused.Money == 0 {
		return line + " not taken again"
	}
	return line + ", " + inwords.Dollars(r.Reused.Money) + " not paid again"
}

// spent returns the tokens and agents of a run, nil if it has none.
func spent(r *transcript.Run) []string {
	used := r.Used()
	if used.Tokens == 0 && used.Agents == 0 {
		return nil
	}
	return []string{"↓ " + inwords.Count(used.Tokens) + " tokens", inwords.Plural(used.Agents, "agent")}
}

// AskOptions configure the answers to the questions of a run.
type AskOptions struct {
	Answers Answers // those given ahead
	// OnAsk is what to do about a question that nobody and no default answers: wait, deny or fail. "" asks on a terminal; ask waits, and no
	// default answers.
	OnAsk string
	// Program is closed once no program answers any more. Until then questions wait for it, and after it for OnAsk alone. Nil is
	// for no program.
	Program <-chan struct{}
	// Give answers a question of the run while it executes.
	Give func(ctx context.Context, path string, a *runlog.Answer) error
}

// Ask has the questions of the run answered until ctx ends or the session is closed. It is called before Begin, and once.
func (s *Session) Ask(ctx context.Context, opt *AskOptions) {
	k := &asker{screen: s.screen, session: s, opt: *opt, ctx: ctx, claims: map[string]*claim{}, put: map[string]bool{}, moved: make(chan struct{})}
	k.until, k.enough = context.WithCancel(ctx)
	s.asker = k
}

// Answer returns a superstep.Answering, after Ask.
func (s *Session) Answer(ctx context.Context, q runlog.Question) (*runlog.Answer, bool) {
	return s.asker.answer(ctx, q)
}

// Refused reports whether a question was met with OnAsk fail.
func (s *Session) Refused() bool { return s.asker != nil && s.asker.refused }
