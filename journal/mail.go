package journal

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/superstep-dev/superstep/internal/mail"
	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/runlog"
)

// rebudget carries out a request to change the budget of the run.
func (j *Journal) rebudget(ctx context.Context, r *unlisted.Request) error {
	b := mail.Budget{Request: r.ID}
	if json.Unmarshal(r.Data, &b.Budget) != nil {
		return nil
	}
	j.questions.Lock()
	defer j.questions.Unlock()
	if j.leaves {
		return leaving(j.id)
	}
	j.mu.Lock()
	b.Budget = b.Budget.Over(j.ledger.given)
	j.mu.Unlock()
	e, err := newEvent(mail.EventBudget, b)
	if err != nil {
		return err
	}
	return j.Write(ctx, "", runlog.KindEvent, "", e)
}

// lend carries out a request to set more of the budget aside for a child run, and records why if it is not left.
func (j *Journal) lend(ctx context.Context, r *unlisted.Request) error {
	loan := mail.Loan{Run: r.Path, Request: r.ID}
	var want runlog.Budget
	if json.Unmarshal(r.Data, &want) != nil {
		return nil
	}
	q := j.Children()[loan.Run]
	j.mu.Lock()
	if m := j.of(q.Path); m.intents[q.Key].open { // else the child has ended
		own, l := m.held[q.Key], &j.ledger
		loan.Path, loan.Key, loan.Amount = q.Path, q.Key, atLeast(own, &want)
		taken := less(l.spent.Add(l.held), own)
		if loan.Short = l.short(taken, loan.Amount, j.elapsed()); loan.Short == nil {
			loan.Short = l.unlimited(taken, &want)
		}
		if loan.Short != nil {
			loan.Amount = own
		}
		l.hold(m, q.Key, loan.Amount) // from now on, so that nothing else takes it before it is in the log
	}
	j.mu.Unlock()
	e, err := newEvent(mail.EventLent, loan)
	if err != nil {
		return err
	}
	return j.Write(ctx, "", runlog.KindEvent, "", e)
}

// atLeast returns an amount with what is more in a budget.
func atLeast(a runlog.Amount, b *runlog.Budget) runlog.Amount {
	return runlog.Amount{
		Tokens: max(a.Tokens, b.Tokens), Money: max(a.Money, b.Money), Turns: max(a.Turns, b.Turns), Calls: max(a.Calls, b.Calls), Agents: max(a.Agents, b.Agents),
	}
}

// Steered returns the messages that users have sent to an agent of the task since its last turn, oldest first. If there are any, it records them as an
// effect with that key, so that a resumed or replayed run delivers them before the same turn.
//
// Work names the agent within its task, "" if it is the only one. Turn is the key of the next turn; if it has already begun, Steered returns nothing
// new. Before is "", or the key of the turn that the agent was about to end with; if its task has done anything since, which depends on that end,
// Steered returns nothing new. Compact reports that a user wants the agent to sum up the conversation before these messages.
func (s *Scope) Steered(ctx context.Context, key, agent, work, turn, before string) (texts []string, compact bool, err error) {
	if s.off() {
		return nil, false, nil
	}
	_, told := s.Done(key)
	var said []mail.Message
	if _, begun := s.Hint(turn); !told && !begun && (before == "" || s.j.endsWith(s.path, before)) {
		_ = s.Afresh(func() error {
			_ = s.j.Look(ctx)                                                                     // what cannot be read now is read before a later turn
			if path := strings.TrimSuffix(s.path+"/"+work, "/"); len(s.j.interrupts(path)) == 0 { // else after the turn that is broken off
				said = s.j.said(path)
			}
			return nil
		})
	}
	if !s.Does(key, told || len(said) > 0) {
		return nil, false, nil
	}
	e := &Effect{Key: key, Kind: mail.KindSteer, Name: agent}
	out, err := Do(ctx, s, e, func(context.Context, string) (mail.Steering, error) { return mail.Steering{Messages: said}, nil })
	for _, m := range out.Messages {
		if m.Compact {
			compact = true
			continue
		}
		texts = append(texts, m.Text)
	}
	return texts, compact, err
}

// endsWith reports whether the last record of a task, with everything inside it, belongs to the effect with a key.
func (j *Journal) endsWith(path, key string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	m := j.of(path)
	if m.last != key && !strings.HasPrefix(m.last, key+"/") {
		return false
	}
	for p, inner := range j.scopes {
		if inner.at > m.at && strings.HasPrefix(p, path+"/") {
			return false
		}
	}
	for p, s := range j.spaces {
		if n := len(s.recs); n > 0 && s.recs[n-1].Seq > m.at && (p == path || strings.HasPrefix(p, path+"/")) {
			return false
		}
	}
	return true
}

// visitOf reports whether a path is that of a task, or of a later visit of its node. Who is told something may be between two of its visits.
func visitOf(path, task string) bool {
	visit := func(path string) (node string, n int) {
		at := strings.LastIndexByte(path, '#') // keys have none
		if at < 0 {
			return path, 0
		}
		n, _ = strconv.Atoi(path[at+1:])
		return path[:at], n
	}
	node, n := visit(path)
	other, m := visit(task)
	return node == other && n >= m
}

// said returns the messages to the agent at a path that were not delivered yet, oldest first.
func (j *Journal) said(path string) (all []mail.Message) {
	c := &j.cancels
	j.mu.Lock()
	defer j.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mail = slices.DeleteFunc(c.mail, func(r unlisted.Request) bool { return j.handled[r.ID] })
	for i := range c.mail {
		r := &c.mail[i]
		m := mail.Message{Request: r.ID}
		var other struct{ Compact bool }
		if json.Unmarshal(r.Data, &other) == nil {
			m.Compact = other.Compact
		}
		switch {
		case r.Kind != unlisted.KindSteer:
		case m.Compact && (r.Path == path || r.Path == "" && !strings.Contains(path, "/")):
			all = append(all, m)
		case !m.Compact && visitOf(path, r.Path) && json.Unmarshal(r.Data, &m.Text) == nil:
			all = append(all, m)
		}
	}
	return all
}
