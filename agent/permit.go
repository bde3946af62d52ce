package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
		err := r.mark(ctx, key+"/denied", "denied", Denied{r.Name, c.Name, rule.Subject, rule.Rule, rule.Reason})
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
	if r.scope.Granted(what) || r.scope.Granted(exact) {
		rule.Decision, rule.Origin = tool.Allow, "run"
	} else if r.OnAsk == AskDeny || r.scope == nil {
		rule.Decision, rule.Nobody = tool.Deny, true
	}
	return rule, nil
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

// permission is the question whether a call may happen.
func (r *run) permission(key string, c model.Call, rule *ruling) (*runlog.Asked, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "May %s call %s?", r.Name, c.Name)
	subject := rule.Subject
	if subject == "" {
		subject = string(c.Args)
	}
	b.WriteString("\n\n" + subject + "\n")
	for _, line := range [][2]string{{"asked because of ", rule.because()}, {"why: ", rule.Reason}, {"run and always allow: ", rule.Always}} {
		if line[1] != "" {
			b.WriteString("\n" + line[0] + line[1])
		}
	}
	options := []string{AnswerOnce, AnswerRun, AnswerAlways, AnswerDeny}
	if rule.Always == "" || r.Remember == nil {
		options = []string{AnswerOnce, AnswerRun, AnswerDeny}
	}
	schema, err := json.Marshal(map[string]any{"anyOf": []any{
		map[string]any{"enum": options},
		map[string]any{"type": "string", "pattern": "^" + AnswerDeny + ":"},
		map[string]any{"type": "object", "required": []string{"decision"}, "properties": map[string]any{"decision": map[string]any{"enum": options}, "reason": map[string]any{"type": "string"}}},
	}})
	return &runlog.Asked{Key: permitPrefix + key, Question: tool.Clean(b.String()), Options: options, Schema: schema}, err
}

func (rule *ruling) because() string {
	switch {
	case rule.Rule == "":
		return ""
	case rule.Origin == "":
		return rule.Rule
	}
	return fmt.Sprintf("%s (%s)", rule.Rule, rule.Origin)
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
