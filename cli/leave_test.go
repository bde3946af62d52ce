package cli

import (
	"context"
	"encoding/json"
	"iter"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/workflow"
)

// eager is a model that wants to put two things, and then says what became of that.
type eager struct{}

func (eager) Name() string { return "test/eager" }

func (eager) Generate(_ context.Context, r *model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		var results []string
		for _, m := range r.Messages {
			for _, p := range m.Parts {
				if p.Kind == model.Result {
					results = append(results, p.Text)
				}
			}
		}
		if len(results) > 0 {
			_ = yield(model.Part{Kind: model.Text, Text: strings.Join(results, " | ")}, nil) && yield(model.Part{Kind: model.Stop, Stop: model.StopEnd}, nil)
			return
		}
		for _, id := range []string{"a", "b"} {
			if !yield(model.Part{Kind: model.ToolCall, Call: &model.Call{ID: id, Name: "put", Args: json.RawMessage(`{"what":"` + id + `"}`)}}, nil) {
				return
			}
		}
		yield(model.Part{Kind: model.Stop, Stop: model.StopCalls}, nil)
	}
}

// needsLeave has a person asked about every call.
type needsLeave struct{}

func (needsLeave) Check(_ *tool.Tool, c *tool.Call) tool.Verdict {
	return tool.Verdict{Decision: tool.Ask, Subject: "put " + string(c.Args), Reason: "no rule allows it", Always: "put(" + c.ID + ")"}
}

// leaving is a workflow whose agent asks for leave twice in one turn.
func leaving(s *Setup) (*workflow.Workflow, error) {
	put := &tool.Tool{Name: "put", Input: &jsonschema.Schema{Type: "object"}, Run: func(_ context.Context, c *tool.Call) (string, error) {
		return "put " + c.ID, nil
	}}
	tools, err := tool.NewSet(put)
	if err != nil {
		return nil, err
	}
	return simple("leave", "Asks for leave", node{Name: "work", Run: func(ctx context.Context, t *graph.Task, _ values) (values, error) {
		a := &agent.Agent{Name: "tester", Model: eager{}, Tools: tools, Gate: needsLeave{}, OnAsk: s.Project.OnAsk, Remember: func(string) error { return nil }}
		out, err := a.Run(ctx, t.Scope(), &agent.Work{Prompt: "put"})
		if err != nil {
			return nil, err
		}
		return values{"out": out.Text}, nil
	}})
}

func TestFit(t *testing.T) {
	t.Parallel()
	leave := runlog.Asked{Key: "permit/turn-0/call-0", Options: []string{"once", "run", "deny"}, Schema: json.RawMessage(
		`{"anyOf":[{"enum":["once","run","deny"]},{"type":"string","pattern":"^deny:"},{"type":"object","required":["decision"],"properties":{"decision":{"enum":["once","run","deny"]}}}]}`)}
	gate := runlog.Asked{Key: "gate", Options: []string{"approve", "edit: …", "reject"}, Schema: json.RawMessage(
		`{"anyOf":[{"enum":["approve","edit: …","reject"]},{"type":"string","pattern":"^reject:"},{"type":"string","pattern":"^edit:\\s*\\S"}]}`)}
	const want = "want one of once, run, deny, or deny: why"
	for _, c := range []struct {
		q         runlog.Asked
		in        string
		out, fail string
	}{
		{leave, "once", `"once"`, ""},
		{leave, "Y", `"once"`, ""},
		{leave, "yes", `"once"`, ""},
		{leave, "n", `"deny"`, ""},
		{leave, "No", `"deny"`, ""},
		{leave, "Run", `"run"`, ""},
		{leave, "deny: use Y: it is there", `"deny: use Y: it is there"`, ""},
		{leave, "no: why", `"deny: why"`, ""},
		{leave, `{"decision":"deny","reason":"Not Now"}`, `{"decision":"deny","reason":"Not Now"}`, ""},
		{leave, "always", "", want},
		{leave, "once run", "", want},
		{leave, "once: but", "", want},
		{leave, "2", "", want},
		{leave, "null", "", want},
		{leave, `{"decision":"purple"}`, "", want},
		{leave, "", "", want},
		{runlog.Asked{Options: []string{"yes", "no"}}, "y", "", "want one of yes, no"},
		{runlog.Asked{Options: []string{"a"}, Schema: json.RawMessage(`{"type":"string"}`)}, "b", `"b"`, ""},
		{runlog.Asked{Options: []string{"a"}, Schema: json.RawMessage(`{"type":"string","maxLength":2}`)}, "long", "", "want one of a, or another answer that fits"},
		{runlog.Asked{Schema: json.RawMessage(`{"type":"integer"}`)}, "7", `7`, ""},
		{runlog.Asked{Schema: json.RawMessage(`{"type":"integer"}`)}, "seven", "", `want a whole number, got "seven"`},
		{runlog.Asked{Options: []string{"a", "b"}, Schema: json.RawMessage(`{"type":"string","enum":["a","b"]}`)}, "c", "", "want one of a, b"},
		{gate, "edit: …", "", "want the text in place of the dots: edit: NEW TEXT"},
		{gate, "edit: more", `"edit: more"`, ""},
		{gate, "reject: no", `"reject: no"`, ""},
		{gate, "perhaps", "", "want one of approve, edit: NEW TEXT, reject, reject: WHY"},
		{runlog.Asked{Schema: json.RawMessage(`{"type":"integer","maximum":3}`)}, "7", "", "does not fit what the question wants"},
		{runlog.Asked{Schema: json.RawMessage(`{"type":["null","integer"]}`)}, "7", `7`, ""},
		{runlog.Asked{Schema: json.RawMessage(`{"type":"string"}`)}, "7", `"7"`, ""},
		{runlog.Asked{}, "any thing", `"any thing"`, ""},
	} {
		out, err := fit(&c.q, c.in)
		if string(out) != c.out || (err == nil) != (c.fail == "") || err != nil && !strings.HasSuffix(err.Error(), c.fail) {
			t.Errorf("%q: %s, %v", c.in, out, err)
		}
	}
}

// Whatever is typed allows a call only if it says so.
func TestDecision(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"y": "once", " Yes ": "once", "RUN": "run", "no: x": "deny: x", "DENY:": "deny:", "n:": "deny:", // these alone, and deny
		"once: but": "once: but", "y: x": "y: x", `{"decision":"once"}`: `{"decision":"once"}`, "yes please": "yes please", "": "",
	} {
		if got := decision(in); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
}
