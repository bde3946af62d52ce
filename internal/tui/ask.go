package tui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/internal/question"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

// ByPolicy is the recorded author of answers that OnAsk deny gives.
const ByPolicy = "policy"

// asker decides about the questions of a run.
type asker struct {
	screen  *Screen
	session *Session
	opt     AskOptions
	refused bool // a question was met with OnAsk fail

	ctx    context.Context // of the run
	until  context.Context // questions are put to the person at the terminal until it ends
	enough context.CancelFunc
	ahead  sync.WaitGroup // answers on their way, and who puts questions
	putter sync.Once

	mu     sync.Mutex
	claims map[string]*claim // by the identity of the question, as are the next
	put    map[string]bool   // those that are answered, and those that were left open at the terminal
	nth    int               // which of the questions it is that have come since there was none
	now    string            // the question that is on the screen, "" for none
	drop   func()            // takes it off
	moved  chan struct{}     // closed and made anew with every change
}

// identity of a question within its run.
func identity(path, key string) string { return path + "\x00" + key }

// claim is an answer given ahead that belongs to a question.
type claim struct {
	given  *given
	answer json.RawMessage
	err    error         // it does not fit
	done   chan struct{} // closed once it was given, or turned down
}

// claim returns the answer given in advance for a question, or nil. First is true once per answer:
// that caller must give the answer and close done. A question that is asked again keeps its answer.
func (k *asker) claim(q *runlog.Question) (c *claim, first bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	id := identity(q.Path, q.Key)
	if c := k.claims[id]; c != nil {
		return c, false
	}
	g := k.opt.Answers.take(q.Path, q.Key)
	if g == nil {
		return nil, false
	}
	c = &claim{given: g, done: make(chan struct{})}
	if c.answer, c.err = question.Fit(q, g.value); c.err == nil {
		g.used = true
	}
	k.claims[id] = c
	return c, true
}

func (c *claim) answered() *runlog.Answer { return &runlog.Answer{Value: c.answer, By: "flag"} }

// see uses prepared answers as soon as their questions are asked, and queues the other questions for the user at the terminal. It is called with every
// record, after the session has processed it.
func (k *asker) see(rec *runlog.Record) {
	fresh := rec.Seq > k.session.after
	switch {
	case rec.Kind == runlog.KindAnswered:
		k.answeredElsewhere(rec)
		return
	case !fresh || rec.Kind != runlog.KindAsked && rec.Kind != runlog.KindRunResumed:
		return
	}
	for _, q := range k.session.questions() {
		c, first := k.claim(&q)
		if c == nil || !first {
			continue
		}
		k.ahead.Go(func() {
			defer close(c.done)
			if c.err != nil {
				k.unfit(c)
				return
			}
			a := c.answered()
			a.Key = q.Key
			_ = k.opt.Give(k.ctx, q.Path, a) // if it cannot be given now, it is given when the run waits for it
		})
	}
	if k.interactive() {
		k.outwait(rec)
		k.putter.Do(func() { k.ahead.Go(k.putAll) })
		k.move(func() {})
		k.recount()
	}
}

// interactive reports whether questions are put to a person at the terminal.
func (k *asker) interactive() bool { return k.opt.OnAsk == "" && k.screen.Asks() }

// move changes the fields that mu protects, and wakes those that wait for a change.
func (k *asker) move(how func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	how()
	close(k.moved)
	k.moved = make(chan struct{})
}

// answeredElsewhere removes an answered question from the screen.
func (k *asker) answeredElsewhere(rec *runlog.Record) {
	var d runlog.Answer
	if json.Unmarshal(rec.Data, &d) != nil {
		return
	}
	id := identity(rec.Path, d.Key)
	k.move(func() {
		if k.put[id] = true; k.now == id {
			k.drop()
		}
	})
}

// pending returns the open questions for the terminal, in the order in which they were asked. Any change closes moved.
func (k *asker) pending() (open []runlog.Question, moved <-chan struct{}) {
	all := k.session.questions()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, q := range all {
		id := identity(q.Path, q.Key)
		if q.Kind == runlog.QuestionMessage { // nobody has to answer it now
			continue
		}
		if c := k.claims[id]; !k.put[id] && (c == nil || c.err != nil) {
			open = append(open, q)
		}
	}
	return open, k.moved
}

// putAll asks one question after the other while the run continues.
func (k *asker) putAll() {
	for {
		open, moved := k.pending()
		if len(open) == 0 {
			k.move(func() { k.nth = 0 })
			select {
			case <-k.until.Done():
				return
			case <-moved:
			}
			continue
		}
		if k.until.Err() != nil {
			return
		}
		k.putOne(&open[0])
	}
}

// count returns the number of the current question among those asked together, or "" for a single
// one.
func (k *asker) count() string {
	open, _ := k.pending()
	k.mu.Lock()
	defer k.mu.Unlock()
	if of := k.nth - 1 + max(1, len(open)); of > 1 {
		return fmt.Sprintf("%d of %d · ", k.nth, of)
	}
	return ""
}

// recount shows the count anew where that is possible.
func (k *asker) recount() {
	if v := k.session.live(); v != nil {
		n := k.count()
		k.session.change(v, func() { v.count = n })
	}
}

// putOne puts a question until it is answered, here or elsewhere, or left open.
func (k *asker) putOne(q *runlog.Question) {
	ctx, drop := context.WithCancel(k.until)
	defer drop()
	id := identity(q.Path, q.Key)
	k.move(func() { k.now, k.drop, k.nth = id, drop, k.nth+1 })
	k.recount()
	if slices.ContainsFunc(k.session.questions(), func(o runlog.Question) bool { return identity(o.Path, o.Key) == id }) { // still
		if a, ok := k.prompt(ctx, q); ok {
			a.Key = q.Key
			err := k.opt.Give(k.until, q.Path, a)
			if err != nil && !errors.As(err, new(*journal.AnsweredError)) && k.until.Err() == nil {
				k.screen.Warn(fmt.Sprintf("the question of %s stays open: %v", transcript.Line(q.Path), err))
			}
		}
	}
	k.move(func() { k.put[id], k.now = true, "" })
}

// settled waits until a question was answered or left open at the terminal.
func (k *asker) settled(ctx context.Context, q *runlog.Question) {
	id := identity(q.Path, q.Key)
	for {
		_, moved := k.pending()
		k.mu.Lock()
		done := k.put[id]
		k.mu.Unlock()
		if done {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-k.until.Done():
			return
		case <-moved:
		}
	}
}

// unfit records that an answer given in advance did not fit, so that its question stays open.
func (k *asker) unfit(c *claim) {
	k.screen.Warn(fmt.Sprintf("%s: %v", c.given, c.err))
}

// outwait answers a question that no person answers in time.
func (k *asker) outwait(rec *runlog.Record) {
	var q runlog.Question
	if k.screen.set.Patience == 0 || json.Unmarshal(rec.Data, &q) != nil || len(q.Options) == 0 {
		return
	}
	k.ahead.Go(func() {
		select {
		case <-k.until.Done():
			return
		case <-time.After(k.screen.set.Patience):
		}
		if answer, err := question.Fit(&q, q.Options[0]); err == nil { // a question that was answered meanwhile refuses it
			_ = k.opt.Give(k.until, rec.Path, &runlog.Answer{Key: q.Key, Value: answer, By: "the demo"})
		}
	})
}

// answer returns a superstep.Answering.
func (k *asker) answer(ctx context.Context, q runlog.Question) (*runlog.Answer, bool) {
	if ctx.Err() != nil {
		return nil, false
	}
	if c, first := k.claim(&q); c != nil {
		if first {
			close(c.done)
			if c.err != nil {
				k.unfit(c)
			}
		}
		select {
		case <-c.done:
		case <-ctx.Done():
			return nil, false
		}
		if c.err == nil || !k.interactive() {
			return c.answered(), c.err == nil
		}
	}
	if q.Kind == runlog.QuestionMessage { // it comes when the user has one
		return nil, false
	}
	if k.interactive() { // it is on the screen, or will be: what is answered there reaches the run by itself
		k.settled(ctx, &q)
		return nil, false
	}
	if k.opt.Program != nil { // it answers through the run
		select {
		case <-ctx.Done():
			return nil, false
		case <-k.opt.Program:
		}
		if k.opt.OnAsk == "" {
			return nil, false
		}
	} else if len(q.Default) > 0 && k.opt.OnAsk != "ask" {
		return &runlog.Answer{Value: q.Default, By: "default"}, true
	}
	switch k.opt.OnAsk {
	case "deny":
		return &runlog.Answer{Denied: true, By: ByPolicy}, true
	case "fail":
		k.refused = true
	}
	return nil, false
}

// Leftover warns of unused answers given in advance.
func (s *Session) Leftover() {
	for _, g := range s.asker.opt.Answers {
		if !g.used && s.run.Task(g.path) == nil {
			s.screen.Warn(fmt.Sprintf("%s was not used: no task %s asked", g, g.path))
		}
	}
}
