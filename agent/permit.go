package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
)

// OnAsk says what becomes of a call that a person is to decide on.
type OnAsk string

// What becomes of such a call.
const (
	AskWait OnAsk = "wait" // the run asks, and waits for the answer
	AskDeny OnAsk = "deny" // nobody is there to ask: it is turned down, and the event "denied" says so
)

// The answers to the question whether a call may happen. "deny: " and a reason is one too,
// and so is an object {"decision": …, "reason": …}; the model is told the reason.
const (
	AnswerOnce   = "once"   // this call
	AnswerRun    = "run"    // this and its like, by all agents of the run
	AnswerAlways = "always" // that, and in runs to come
	AnswerDeny   = "deny"
)

const permitPrefix = "permit/"

// Permission reports whether a question is about a call that a person is to decide on.
func Permission(q *runlog.Asked) bool { return strings.HasPrefix(q.Key, permitPrefix) }

// Denied is the data of the event "denied": a call was turned down since nobody was there
// to ask.
type Denied struct {
	Agent   string `json:"agent"`
	Tool    string `json:"tool"`
	Subject string `json:"subject,omitempty"`
	Rule    string `json:"rule,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Always  string `json:"always,omitempty"` // a rule that would have allowed it and its like
}

// ruling is what the Gate and the grants of the run made of a call, as it is recorded.
type ruling struct {
	Decision tool.Decision `json:"decision"`
	Rule     string        `json:"rule,omitempty"`
	Origin   string        `json:"origin,omitempty"`
	Reason   string        `json:"reason,omitempty"`
	Subject  string        `json:"subject,omitempty"`
	Always   string        `json:"always,omitempty"`
	Nobody   bool          `json:"nobody,omitempty"` // is there to ask
}

// permit decides on a call: it gives a result for one that must not happen, and an error
// that waits while a person has to decide. What is not simply allowed is recorded, and not
// decided again: neither by rules that have changed since, nor in a replay.
func (r *run) permit(ctx context.Context, key string, c model.Call) (*tool.Result, error) {
	gate := key + "/gate"
	_, ruled := r.scope.Hint(gate)
	if _, begun := r.scope.Hint(key); !ruled && (begun || r.Gate == nil) {
		return nil, nil
	}
	var v tool.Verdict
	if t, ok := r.all.Get(c.Name); ok && r.Gate != nil {
		if v = r.Gate.Check(t, r.toolCall(c, "")); v.Decision == tool.Allow && !ruled {
			return nil, nil
		}
	}
	hash, err := runlog.Hash(c)
	if err != nil {
		return nil, err
	}
	e := &runlog.Effect{Key: gate, Kind: "gate", Name: c.Name, Hash: hash}
	rule, err := runlog.Do(ctx, r.scope, e, func(context.Context, string) (ruling, error) { return r.rule(&v, c) })
	if err != nil {
		return nil, err
	}
	if rule.Nobody {
		err := r.mark(ctx, key+"/denied", "denied", Denied{r.Name, c.Name, rule.Subject, rule.Rule, rule.Reason, rule.Always})
		no := denied("this needs the permission of a person, and nobody is there to ask; go on without it, and say what you could not do")
		return &no, err
	}
	switch rule.Decision {
	case tool.Allow:
		return nil, nil
	case tool.Deny:
		no := denied(rule.Reason)
		return &no, nil
	}
	return r.askPermission(ctx, key, c, &rule)
}

// rule is the Gate's verdict with what was granted in the run.
func (r *run) rule(v *tool.Verdict, c model.Call) (ruling, error) {
	rule := ruling{Decision: v.Decision, Rule: v.Rule, Origin: v.Origin, Reason: v.Reason, Subject: v.Subject, Always: v.Always}
	if rule.Decision == tool.Allow || rule.Decision == tool.Deny {
		return rule, nil
	}
	rule.Decision = tool.Ask
	what, err := grant(&rule, c)
	if err != nil {
		return rule, err
	}
	exact, err := grant(&ruling{}, c)
	if err != nil {
		return rule, err
	}
	if r.scope.Granted(what) || r.scope.Granted(exact) || r.covered(c) {
		rule.Decision, rule.Origin = tool.Allow, "run"
	} else if r.OnAsk == AskDeny || r.scope == nil {
		rule.Decision, rule.Nobody = tool.Deny, true
	}
	return rule, nil
}

// covered reports whether a rule that was granted in the run would allow a call.
func (r *run) covered(c model.Call) bool {
	g, can := r.Gate.(tool.Granter)
	t, ok := r.all.Get(c.Name)
	if !can || !ok {
		return false
	}
	return slices.ContainsFunc(r.scope.Grants(), func(what string) bool {
		rule, is := strings.CutPrefix(what, "rule ")
		return is && g.Grants(rule, t, r.toolCall(c, ""))
	})
}

// grant is what allows a call and its like: the rule that would, or else the call itself.
func grant(rule *ruling, c model.Call) (string, error) {
	if rule.Always != "" {
		return "rule " + rule.Always, nil
	}
	hash, err := runlog.Hash([]any{c.Name, c.Args})
	return "call " + hash, err
}

func (r *run) askPermission(ctx context.Context, key string, c model.Call, rule *ruling) (*tool.Result, error) {
	q, err := r.permission(key, c, rule)
	if err != nil {
		return nil, err
	}
	answer, err := r.scope.Ask(ctx, q)
	if errors.Is(err, runlog.ErrDenied) {
		no := denied("")
		return &no, nil
	} else if err != nil {
		return nil, err
	}
	decision, reason := parseAnswer(answer)
	switch decision {
	case AnswerOnce:
		return nil, nil
	case AnswerRun, AnswerAlways:
		if decision == AnswerAlways && rule.Always != "" && r.Remember != nil {
			if err := r.remember(ctx, key, rule.Always); err != nil {
				return nil, err
			}
		}
		what, err := grant(rule, c)
		if err != nil {
			return nil, err
		}
		e := &runlog.Effect{Key: key + "/grant", Kind: "grant", Name: rule.Always, Inside: true}
		e.Do = func(ctx context.Context, _ string) (json.RawMessage, error) {
			return json.RawMessage("{}"), r.scope.Grant(ctx, what)
		}
		_, err = r.scope.Do(ctx, e)
		return nil, err
	}
	no := denied(reason)
	return &no, nil
}

// permission is the question whether a call may happen: who wants what, in full, why that is
// asked, and what else some answers allow. What comes from the model is set in, so that it
// cannot pass for the rest.
func (r *run) permission(key string, c model.Call, rule *ruling) (*runlog.Asked, error) {
	options, more := []string{AnswerOnce, AnswerRun, AnswerAlways, AnswerDeny}, "2 and 3 (run, always) would also allow: "
	if rule.Always == "" || r.Remember == nil {
		options, more = []string{AnswerOnce, AnswerRun, AnswerDeny}, "2 (run) would also allow: "
	}
	var b strings.Builder
	fmt.Fprintf(&b, "May %s call %s?\n\n", r.Name, c.Name)
	what := strings.TrimRight(rule.about(c), "\n") + extent(c)
	b.WriteString("  " + strings.ReplaceAll(tool.Clean(what), "\n", "\n  ") + "\n")
	if why := rule.because(); why != "" {
		b.WriteString("\nwhy: " + oneLine(why))
	}
	if rule.Always != "" {
		b.WriteString("\n" + more + oneLine(rule.Always))
	}
	schema, err := json.Marshal(map[string]any{"anyOf": []any{
		map[string]any{"enum": options},
		map[string]any{"type": "string", "pattern": "^" + AnswerDeny + ":"},
		map[string]any{"type": "object", "required": []string{"decision"}, "properties": map[string]any{"decision": map[string]any{"enum": options}, "reason": map[string]any{"type": "string"}}},
	}})
	return &runlog.Asked{Key: permitPrefix + key, Question: tool.Clean(strings.TrimRight(b.String(), "\n")), Options: options, Schema: schema}, err
}

// about is what a call is about, in full: what the Gate says, without the name of the tool
// before arguments, or else the arguments.
func (rule *ruling) about(c model.Call) string {
	if rule.Subject == "" {
		return string(c.Args)
	}
	args, ok := strings.CutPrefix(rule.Subject, c.Name+" ")
	if ok && c.Name != "bash" && strings.HasPrefix(args, "{") { // a command is shown as it is
		return args
	}
	return rule.Subject
}

// extent is how much a call writes into a file, "" if it does not.
func extent(c model.Call) string {
	var in struct {
		Content *string `json:"content"`
		Old     *string `json:"old_string"`
		New     *string `json:"new_string"`
	}
	switch _ = json.Unmarshal(c.Args, &in); {
	case c.Name == "write_file" && in.Content != nil:
		return fmt.Sprintf(" (%s)", volume(*in.Content))
	case c.Name == "edit_file" && in.Old != nil && in.New != nil:
		return fmt.Sprintf(" (%s in place of %s)", volume(*in.New), volume(*in.Old))
	}
	return ""
}

func volume(s string) string {
	lines := strings.Count(s, "\n")
	if s != "" && !strings.HasSuffix(s, "\n") {
		lines++
	}
	count := func(n int, what string) string {
		if n == 1 {
			return "1 " + what
		}
		return fmt.Sprintf("%d %ss", n, what)
	}
	return count(len(s), "byte") + ", " + count(lines, "line")
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// because is why a person is asked, on one line. The reason is said in most cases with the rule.
func (rule *ruling) because() string {
	switch {
	case rule.Reason != "":
		return rule.Reason
	case rule.Rule == "":
		return ""
	case rule.Origin == "":
		return "the rule " + rule.Rule
	}
	return fmt.Sprintf("the rule %s (%s)", rule.Rule, rule.Origin)
}

func parseAnswer(answer json.RawMessage) (decision, reason string) {
	var s string
	if json.Unmarshal(answer, &s) == nil {
		if why, is := strings.CutPrefix(s, AnswerDeny+":"); is {
			return AnswerDeny, strings.TrimSpace(why)
		}
		return s, ""
	}
	var o struct{ Decision, Reason string }
	_ = json.Unmarshal(answer, &o) // what cannot be read denies
	return o.Decision, o.Reason
}

// remember hands a rule to the host. That it could not be kept is said, and ends nothing.
func (r *run) remember(ctx context.Context, key, rule string) error {
	e := &runlog.Effect{Key: key + "/remember", Kind: "remember", Name: rule}
	failed, err := runlog.Do(ctx, r.scope, e, func(context.Context, string) (string, error) {
		if err := r.Remember(rule); err != nil {
			return err.Error(), nil
		}
		return "", nil
	})
	if err != nil || failed == "" {
		return err
	}
	return r.mark(ctx, key+"/unkept", "note", note{fmt.Sprintf("the rule %s holds for this run, but could not be kept for others: %s", rule, failed)})
}

func denied(reason string) tool.Result {
	if reason == "" {
		return tool.Failed("denied")
	}
	return tool.Failed("denied: " + reason)
}

// note is the data of an event that people see.
type note struct {
	Text string `json:"text"`
}

// mark emits an event once: not again when the agent is run again.
func (r *run) mark(ctx context.Context, key, event string, data any) error {
	_, err := r.scope.Do(ctx, &runlog.Effect{
		Key: key, Kind: "note", Name: event, Inside: true,
		Do: func(ctx context.Context, _ string) (json.RawMessage, error) {
			return json.RawMessage("{}"), r.scope.Emit(ctx, event, data)
		},
	})
	return err
}
