package agent_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
)

func unreadable(code string) error {
	return &model.Error{Provider: "acme", Model: "m1", Code: code, Err: errors.New("the arguments are not JSON")}
}

// A model whose answer breaks the protocol is told so, twice at most, and what it was told is there
// again when the agent is resumed.
func TestUnreadableAnswers(t *testing.T) {
	store := runlog.NewMemory(nil)
	run := func(m model.Model, id string, reopen bool) (*agent.Outcome, error) {
		t.Helper()
		j, err := journal.Open(t.Context(), store, id, &journal.Options{Create: &runlog.NewRun{}, Reopen: reopen})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = j.Close(t.Context()) }()
		return (&agent.Agent{Name: "a", Model: m}).Run(t.Context(), j.Scope("n"), &agent.Work{Prompt: "go"})
	}
	m := lines(unreadable(model.CodeBadCall), unreadable(model.CodeCutCall), "fine")
	out, err := run(m, "ok", false)
	if err != nil || out.Text != "fine" || out.Turns != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	last := m.Requests()[2].Messages
	if len(last) != 3 || !strings.Contains(last[1].Text(), "the arguments are not JSON") || !strings.Contains(last[2].Text(), "complete JSON object") {
		t.Errorf("it was told %+v", last)
	}
	m = lines(unreadable(model.CodeBadCall), unreadable(model.CodeBadCall), unreadable(model.CodeBadCall), "late")
	if _, err := run(m, "bad", false); err == nil || !strings.Contains(err.Error(), "not JSON") {
		t.Errorf("got %v", err)
	}
	if out, err := run(m, "bad", true); err != nil || out.Text != "late" || len(m.Requests()[3].Messages) != 3 {
		t.Errorf("resumed: %+v, %v, %d messages", out, err, len(m.Requests()[3].Messages))
	}
	m = lines(unreadable(model.CodeTruncated))
	if _, err := run(m, "broken", false); err == nil || len(m.Requests()) != 1 {
		t.Errorf("a broken stream: %v, asked %d times", err, len(m.Requests()))
	}
}

// A call that cannot be read costs one request each time the model is told so, not several.
func TestUnreadableCallsAreNotRepeated(t *testing.T) {
	n := 0
	m, _ := talk(t, func(*modeltest.ParsedRequest) modeltest.Reply { n++; return modeltest.Call("look", `{"text":`) })
	_, err := (&agent.Agent{Name: "a", Model: m, Tools: (&bench{}).tools(t)}).Run(t.Context(), nil, &agent.Work{Prompt: "go"})
	var bad *model.Error
	if !errors.As(err, &bad) || bad.Code != model.CodeBadCall || bad.Temporary || n != 3 {
		t.Errorf("%d requests: %v", n, err)
	}
}

// A task that is no agent tells the model too, and its turns are counted.
func TestAskTellsWhatCannotBeRead(t *testing.T) {
	m := lines(unreadable(model.CodeBadCall), "fine")
	j, err := journal.Open(t.Context(), runlog.NewMemory(nil), "run", &journal.Options{Create: &runlog.NewRun{}})
	if err != nil {
		t.Fatal(err)
	}
	req := &model.Request{Messages: []model.Message{model.UserText("go")}}
	resp, err := agent.Ask(t.Context(), j.Scope("n"), m, "choice", req)
	if err != nil || resp.Message.Text() != "fine" || len(m.Requests()[1].Messages) != 2 || len(req.Messages) != 1 || j.Spent().Turns != 2 {
		t.Errorf("%+v, %v", resp, err)
	}
	if again, err := agent.Ask(t.Context(), j.Scope("n"), m, "choice", req); err != nil || again.Message.Text() != "fine" || len(m.Requests()) != 2 {
		t.Errorf("%+v, %v", again, err)
	}
}
