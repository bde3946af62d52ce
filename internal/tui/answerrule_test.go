package tui

import (
	"encoding/json"
	"errors"
	"testing"

	tea "charm.land/bubbletea/v2"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/hosttest"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// An answer in a card, and a message in the composer, resume a run by the rule that all faces have.
func TestAnswerRule(t *testing.T) {
	t.Parallel()
	d := newCardDesk(t, nil)
	d.engine.Close()
	var err error
	if d.engine, err = superstep.New(d.store, &superstep.Options{Workflows: workflow.Set{hosttest.Asks(t)}}); err != nil {
		t.Fatal(err)
	}
	hosttest.Answers(t, d.store, "", func(run string, q *runlog.Question, value string) error {
		text, _ := json.Marshal(value)
		if q.Kind == runlog.QuestionMessage {
			_, err := (&delivery{t: d.Terminal, run: run, text: value, asked: &transcript.Question{Path: q.Path, Key: q.Key, Asked: *q}}).deliver()
			return err
		}
		c := &cardView{f: &following{id: run}, q: &transcript.Question{Path: q.Path, Key: q.Key, Asked: *q}}
		var refused error
		var cmd tea.Cmd
		d.with(func() { cmd = d.answer(c, &runlog.Answer{Value: text}) })
		done := cmd().(doneMsg)
		d.with(func() {
			if done.do(); c.over || c.err != "" {
				refused = errors.New(d.notice)
			}
		})
		return refused
	})
}
