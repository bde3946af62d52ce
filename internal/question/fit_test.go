package question

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/superstep-dev/superstep/runlog"
)

func TestFit(t *testing.T) {
	t.Parallel()
	leave := runlog.Question{Key: "permit/turn-0/call-0", Options: []string{"once", "run", "deny"}, Schema: json.RawMessage(
		`{"anyOf":[{"enum":["once","run","deny"]},{"type":"string","pattern":"^deny:"},{"type":"object","required":["decision"],"properties":{"decision":{"enum":["once","run","deny"]}}}]}`)}
	gate := runlog.Question{Key: "gate", Options: []string{"approve", "edit: …", "reject"}, Schema: json.RawMessage(
		`{"anyOf":[{"enum":["approve","edit: …","reject"]},{"type":"string","pattern":"^reject:"},{"type":"string","pattern":"^edit:\\s*\\S"}]}`)}
	const want = "want one of once, run, deny, or deny: why"
	for _, c := range []struct {
		q         runlog.Question
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
		{runlog.Question{Options: []string{"yes", "no"}}, "y", "", "want one of yes, no"},
		{runlog.Question{Options: []string{"a"}, Schema: json.RawMessage(`{"type":"string"}`)}, "b", `"b"`, ""},
		{runlog.Question{Options: []string{"a"}, Schema: json.RawMessage(`{"type":"string","maxLength":2}`)}, "long", "", "want one of a, or another answer that fits"},
		{runlog.Question{Schema: json.RawMessage(`{"type":"integer"}`)}, "7", `7`, ""},
		{runlog.Question{Schema: json.RawMessage(`{"type":"integer"}`)}, "seven", "", `want a whole number, got "seven"`},
		{runlog.Question{Options: []string{"a", "b"}, Schema: json.RawMessage(`{"type":"string","enum":["a","b"]}`)}, "c", "", "want one of a, b"},
		{gate, "edit: …", "", "want the text in place of the dots: edit: NEW TEXT"},
		{gate, "edit: more", `"edit: more"`, ""},
		{gate, "reject: no", `"reject: no"`, ""},
		{gate, "perhaps", "", "want one of approve, edit: NEW TEXT, reject, reject: WHY"},
		{runlog.Question{Schema: json.RawMessage(`{"type":"integer","maximum":3}`)}, "7", "", "does not fit what the question wants"},
		{runlog.Question{Schema: json.RawMessage(`{"type":["null","integer"]}`)}, "7", `7`, ""},
		{runlog.Question{Schema: json.RawMessage(`{"type":"string"}`)}, "7", `"7"`, ""},
		{runlog.Question{}, "any thing", `"any thing"`, ""},
	} {
		out, err := Fit(&c.q, c.in)
		if string(out) != c.out || (err == nil) != (c.fail == "") || err != nil && !strings.HasSuffix(err.Error(), c.fail) {
			t.Errorf("%q: %s, %v", c.in, out, err)
		}
	}
}

// Whatever is typed allows something only if it says so.
func TestDecision(t *testing.T) {
	t.Parallel()
	permission, gate, ask := &runlog.Question{Kind: runlog.QuestionPermission}, &runlog.Question{Kind: runlog.QuestionGate}, &runlog.Question{}
	for _, c := range []struct {
		q        *runlog.Question
		in, want string
	}{
		{permission, "y", "once"}, {permission, " Yes ", "once"}, {permission, "RUN", "run"}, {permission, "no: x", "deny: x"}, {permission, "DENY:", "deny:"}, {permission, "n:", "deny:"}, // these alone, and deny
		{permission, "once: but", "once: but"}, {permission, "y: x", "y: x"}, {permission, `{"decision":"once"}`, `{"decision":"once"}`}, {permission, "yes please", "yes please"}, {permission, "", ""},
		{gate, "y", "approve"}, {gate, "No", "reject"}, {gate, "Approve", "approve"}, {gate, "n: it is late", "reject: it is late"}, {gate, "edit: Y", "edit: Y"}, {gate, "y: x", "y: x"}, {gate, "Else", "Else"},
		{ask, "y", "y"}, {ask, "No", "No"},
	} {
		if got := decision(c.q, c.in); got != c.want {
			t.Errorf("%s %q is %q, want %q", c.q.Kind, c.in, got, c.want)
		}
	}
}

// The choices are numbered without a gap, and what cannot be chosen keeps its number.
func TestMenu(t *testing.T) {
	t.Parallel()
	all, some := []string{"once", "run", "always", "deny"}, []string{"once", "run", "deny"}
	gate := json.RawMessage(`{"anyOf":[{"enum":["approve","reject"]},{"type":"string","pattern":"^reject:"},{"type":"string","pattern":"^edit:\\s*\\S"}]}`)
	for name, c := range map[string]struct {
		q    runlog.Question
		want []string
	}{
		"all of it": {
			runlog.Question{Kind: runlog.QuestionPermission, Options: all, Call: &runlog.QuestionCall{Tool: "edit_file", Always: "edit_file(src/**)"}},
			[]string{"1 once once", "2 this run run and every edit_file(src/**) by all agents of this run, without asking", "3 always always and every edit_file(src/**) in this project from now on, without asking; saved", "4 deny deny", "5 deny and say why deny"},
		},
		"no rule fits": {
			runlog.Question{Kind: runlog.QuestionPermission, Options: some, Call: &runlog.QuestionCall{Tool: "bash", Parts: make([]runlog.QuestionPart, 2)}},
			[]string{"1 once once", "2 this run run exactly this call again, by all agents of this run", "3 always - not available: no one rule allows every part of this", "4 deny deny", "5 deny and say why deny"},
		},
		"nothing is saved": {
			runlog.Question{Kind: runlog.QuestionPermission, Options: some, Call: &runlog.QuestionCall{Tool: "put", Always: "put"}},
			[]string{"1 once once", "2 this run run and every put by all agents of this run, without asking", "3 always - not available: rules are not saved here", "4 deny deny", "5 deny and say why deny"},
		},
		"from before there were kinds": {
			runlog.Question{Key: "permit/turn-0/call-0", Options: some}, []string{"1 once once", "2 this run run", "3 always - not available", "4 deny deny", "5 deny and say why deny"},
		},
		"a gate": {
			runlog.Question{Kind: runlog.QuestionGate, Options: []string{"approve", "edit: …", "reject"}, Schema: gate},
			[]string{"1 approve approve", "2 edit edit: … go on with another text", "3 reject reject", "4 reject and say why reject"},
		},
		"a gate without a text, from before": {
			runlog.Question{Key: "gate", Options: []string{"approve", "reject"}, Schema: gate},
			[]string{"1 approve approve", "2 edit - not available: there is nothing to edit", "3 reject reject", "4 reject and say why reject"},
		},
		"any other": {runlog.Question{Options: []string{"deny", "once"}, Default: json.RawMessage(`"once"`)}, []string{"1 deny deny", "2 once once (default)"}},
	} {
		var got []string
		for i, m := range Menu(&c.q) {
			if m.Key != i+1 {
				t.Errorf("%s: choice %d has the number %d", name, i+1, m.Key)
			}
			answer := m.Answer
			if answer == "" {
				answer = "-"
			}
			got = append(got, strings.TrimSuffix(strings.TrimSpace(fmt.Sprintf("%d %s %s %s", m.Key, m.Name, answer, m.Note)), " only this call"))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
