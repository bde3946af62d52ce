package agent_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
)

func unreadable(code string) error {
	return &model.Error{Provider: "acme", Model: "m1", Code: code, Err: errors.New("the arguments are not JSON")}
}

// A model whose answer breaks the protocol is told so, twice at most, and what it was told is there
// again when the agent is taken up.
func TestUnreadableAnswers(t *testing.T) {
	store := runlog.NewMemory(nil)
	run := func(m model.Model, id string, reopen bool) (*agent.Outcome, error) {
		t.Helper()
		j, err := runlog.OpenJournal(t.Context(), store, id, &runlog.JournalOptions{Create: &runlog.NewRun{}, Reopen: reopen})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = j.Close(t.Context()) }()
		return (&agent.Agent{Name: "a", Model: m}).Run(t.Context(), j.Scope("n"), &agent.Work{Prompt: "go"})
	}
	m := &scripted{next: []any{unreadable(model.CodeMalformed), unreadable(model.CodeCutCall), "fine"}}
	out, err := run(m, "ok", false)
	if err != nil || out.Text != "fine" || out.Turns != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	last := m.asked[2].Messages
	if len(last) != 3 || !strings.Contains(last[1].Text(), "the arguments are not JSON") || !strings.Contains(last[2].Text(), "complete JSON object") {
		t.Errorf("it was told %+v", last)
	}
	m = &scripted{next: []any{unreadable(model.CodeMalformed), unreadable(model.CodeMalformed), unreadable(model.CodeMalformed), "late"}}
	if _, err := run(m, "bad", false); err == nil || !strings.Contains(err.Error(), "not JSON") {
		t.Errorf("got %v", err)
	}
	if out, err := run(m, "bad", true); err != nil || out.Text != "late" || len(m.asked[3].Messages) != 3 {
		t.Errorf("taken up: %+v, %v, %d messages", out, err, len(m.asked[3].Messages))
	}
	m = &scripted{next: []any{unreadable(model.CodeTruncated)}}
	if _, err := run(m, "broken", false); err == nil || len(m.asked) != 1 {
		t.Errorf("a broken stream: %v, asked %d times", err, len(m.asked))
	}
}
