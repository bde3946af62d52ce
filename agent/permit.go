package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
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

// Permission reports whether a question is a permission request for a call.
func Permission(q *runlog.Question) bool {
	return q.Kind == runlog.QuestionPermission || q.Kind == "" && strings.HasPrefix(q.Key, permitPrefix)
}

// denial is the data of the event "denied": a call was denied because no user could be asked.
type denial struct {
	Agent   string `json:"agent"`
	Tool    string `json:"tool"`
	Subject string `json:"subject,omitempty"`
	Rule    string `json:"rule,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Always  string `json:"always,omitempty"` // a rule that would have allowed it and its like
	// Missing are the rules that only together would have allowed it.
	Missing []string `json:"missing,omitempty"`
}

// ruling is the recorded decision of the Gate and the run's grants on a call.
type ruling struct {
	Decision tool.Decision `json:"decision"`
	Rule     string        `json:"rule,omitempty"`
	Origin   string        `json:"origin,omitempty"`
	Reason   string        `json:"reason,omitempty"`
	Subject  string        `json:"subject,omitempty"`
	Always   string        `json:"always,omitempty"`
	Missing  []string      `json:"missing,omitempty"`
	Nobody   bool          `json:"nobody,omitempty"` // is there to ask

	Parts  []runlog.QuestionPart `json:"parts,omitempty"`
	Change *change               `json:"change,omitempty"` // of a file, that the call would make; absent in older logs
}

// change is what a call would do to a file, as it is recorded.
type change struct {
	Diff   string `json:"diff,omitempty"`
	New    bool   `json:"new,omitempty"`
	Larger int    `json:"larger,omitempty"`
	Sum    string `json:"sum"`
	Fails  string `json:"fails,omitempty"` // the call would fail now, and why
}

// permit decides on a call: it returns a result for a denied call, and an error that waits while the user has to decide. Approved is the change that the
// user has seen, see tool.Call. Any decision but a plain allow is recorded and stays valid when rules change, and in a replay. In an imported run, the
// file's decisions do not allow any call that has no outcome in the file.
func (r *run) permit(ctx context.Context, call string, c model.Call) (no *tool.Result, approved string, err error) {
	if no, approved, err = r.permitted(ctx, call, c); no != nil || err != nil || !r.Strict || r.Gate == nil {
		return no, approved, err
	}
	if _, done := r.scope.Done(call); done {
		return nil, approved, nil
	}
	_ = r.scope.Afresh(func() error {
		if t, ok := r.all.Get(c.Name); ok && r.Gate.Check(t, r.toolCall(c, "")).Decision != tool.Allow {
			refused := denied("its permission is an answer in the store of the run, which others can write, and this worker takes none; its configuration can " +
				"allow that, or somebody resumes the run without it" + toModels)
			no = &refused
		}
		return nil
	})
	return no, approved, nil
}

func (r *run) permitted(ctx context.Context, call string, c model.Call) (no *tool.Result, approved string, err error) {
	key := r.scope.Own(call)
	_, begun := r.scope.Hint(call)
	if key != call {
		if _, done := r.scope.Done(call); done {
			return nil, "", nil
		}
		begun = false // as the file claims, perhaps
		if err := r.scope.Withdraw(ctx, "import", permitPrefix+call); err != nil {
			return nil, "", err
		}
	}
	gate := key + "/gate"
	_, ruled := r.scope.Hint(gate)
	if !ruled && (begun || r.Gate == nil) {
		return nil, "", nil
	}
	var v tool.Verdict
	if t, ok := r.all.Get(c.Name); ok && r.Gate != nil {
		if v = r.Gate.Check(t, r.toolCall(c, "")); v.Decision == tool.Allow && !ruled {
			r.allow(call)
			return nil, "", nil
		}
	}
	hash, err := journal.Hash(c)
	if err != nil {
		return nil, "", err
	}
	e := &journal.Effect{Key: gate, Kind: "gate", Name: c.Name, Hash: hash}
	rule, err := journal.Do(ctx, r.scope, e, func(ctx context.Context, _ string) (ruling, error) { return r.rule(ctx, &v, c) })
	if err != nil {
		return nil, "", err
	}
	if rule.Nobody {
		err := r.mark(ctx, key+"/denied", "denied", denial{r.Name, c.Name, rule.Subject, rule.Rule, rule.Reason, rule.Always, rule.Missing})
		no := denied("this needs the permission of a person, and nobody is there to ask" + toModels)
		return &no, "", err
	}
	switch rule.Decision {
	case tool.Allow:
		return nil, "", nil
	case tool.Deny:
		no := denied(rule.Reason)
		return &no, "", nil
	}
	return r.askPermission(ctx, key, c, &rule)
}

// allow notes that the Gate allowed a call without asking. The Gate checks the call again when it runs.
func (r *run) allow(call string) {
	if r.unasked != nil { // else somebody else makes the call
		r.unasked[call] = true
	}
}

// rule combines the Gate's verdict with the grants of the run.
func (r *run) rule(ctx context.Context, v *tool.Verdict, c model.Call) (ruling, error) {
	rule := ruling{Decision: v.Decision, Rule: v.Rule, Origin: v.Origin, Reason: v.Reason, Subject: v.Subject, Always: v.Always, Missing: v.Missing}
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
	switch {
	case !r.Strict && (r.scope.Granted(what) || r.scope.Granted(exact) || r.covered(c)):
		rule.Decision, rule.Origin = tool.Allow, "run"
	case r.Headless || r.scope.Run() == "":
		rule.Decision, rule.Nobody = tool.Deny, true
	default:
		for _, p := range v.Parts {
			rule.Parts = append(rule.Parts, runlog.QuestionPart{Text: p.Text, Allowed: p.Decision == tool.Allow, Rule: p.Rule, Origin: p.Origin, Reason: p.Reason})
		}
		rule.Change = r.preview(ctx, c)
	}
	return rule, nil
}

const longestDiff = 64 << 10 // bytes of a diff that are recorded

// preview returns the change that a call would make, or nil if its tool has no preview.
func (r *run) preview(ctx context.Context, c model.Call) *change {
	t, ok := r.all.Get(c.Name)
	if !ok || t.Preview == nil {
		return nil
	}
	made, err := t.Preview(ctx, r.toolCall(c, ""))
	if err != nil {
		return &change{Fails: err.Error(), Sum: "none"} // and if it does not fail then, nobody has seen what it does
	}
	out := &change{Diff: made.Diff, New: made.New, Sum: made.Sum}
	if !r.readable(c) {
		out.Diff = onlyAdded(out.Diff)
	}
	if len(out.Diff) > longestDiff {
		cut := strings.LastIndexByte(out.Diff[:longestDiff], '\n') + 1
		out.Larger = strings.Count(out.Diff[cut:], "\n")
		out.Diff = out.Diff[:cut]
	}
	return out
}

// readable reports whether the file of a call may be read without asking. Only then may the log contain parts of it.
func (r *run) readable(c model.Call) bool {
	var in struct {
		Path string `json:"path"`
	}
	if json.Unmarshal(c.Args, &in) != nil {
		return false
	}
	args, err := json.Marshal(in)
	if err != nil {
		return false
	}
	return r.Gate.Check(&tool.Tool{Name: "read_file"}, r.toolCall(model.Call{Name: "read_file", Args: args}, "")).Decision == tool.Allow
}

// onlyAdded removes the file's current content from a diff.
func onlyAdded(diff string) string {
	var b strings.Builder
	head := true
	for line := range strings.Lines(diff) {
		head = head && !strings.HasPrefix(line, "@@ ")
		if head || strings.HasPrefix(line, "+") || strings.HasPrefix(line, "@@ ") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// covered reports whether a rule that was granted in the run would allow a call.
func (r *run) covered(c model.Call) bool {
	g, can := r.Gate.(tool.Granter)
	t, ok := r.all.Get(c.Name)
	if !can || !ok {
		return false
	}
	return slices.ContainsFunc(r.rules(), func(rule string) bool { return g.Grants(rule, t, r.toolCall(c, "")) })
}

// rules returns the rules that were granted in the run.
func (r *run) rules() []string {
	var out []string
	for _, what := range r.scope.Grants() {
		if rule, is := strings.CutPrefix(what, "rule "); is {
			out = append(out, rule)
		}
	}
	return out
}

// grant returns the word that allows a call and similar ones from now on: the matching rule, or else the call itself.
func grant(rule *ruling, c model.Call) (string, error) {
	if rule.Always != "" {
		return "rule " + rule.Always, nil
	}
	hash, err := journal.Hash([]any{c.Name, c.Args})
	return "call " + hash, err
}

func (r *run) askPermission(ctx context.Context, key string, c model.Call, rule *ruling) (no *tool.Result, approved string, err error) {
	q, err := r.permission(key, c, rule)
	if err != nil {
		return nil, "", err
	}
	answer, err := r.scope.Ask(ctx, q)
	if errors.Is(err, journal.ErrDenied) {
		no := denied("")
		return &no, "", nil
	} else if err != nil {
		return nil, "", err
	}
	decision, reason := parseAnswer(answer)
	switch decision {
	case AnswerOnce:
		if rule.Change != nil {
			approved = rule.Change.Sum
		}
		return nil, approved, nil
	case AnswerRun, AnswerAlways:
		if decision == AnswerAlways && rule.Always != "" && r.remembers(key) {
			if err := r.remember(ctx, key, rule.Always); err != nil {
				return nil, "", err
			}
		}
		what, err := grant(rule, c)
		if err != nil {
			return nil, "", err
		}
		e := &journal.Effect{Key: key + "/grant", Kind: "grant", Name: rule.Always, Inside: true}
		e.Do = func(ctx context.Context, _ string) (json.RawMessage, error) {
			return json.RawMessage("{}"), r.scope.Grant(ctx, what)
		}
		_, err = r.scope.Do(ctx, e)
		return nil, "", err
	}
	refused := denied(reason)
	return &refused, "", nil
}

// permission returns the permission request for a call, as data: the agent, the full call, the reason for asking, and the further calls that some
// answers allow.
func (r *run) permission(key string, c model.Call, rule *ruling) (*runlog.Question, error) {
	options := []string{AnswerOnce, AnswerRun, AnswerAlways, AnswerDeny}
	if rule.Always == "" || r.Remember == nil {
		options = []string{AnswerOnce, AnswerRun, AnswerDeny}
	}
	call := &runlog.QuestionCall{
		Tool: c.Name, Args: c.Args, Subject: rule.about(c), Parts: rule.Parts, Rule: rule.Rule, Origin: rule.Origin, Reason: rule.Reason, Always: rule.Always,
	}
	if t, ok := r.all.Get(c.Name); ok {
		call.Cwd = t.Dir
	}
	if change := rule.Change; change != nil {
		call.Diff, call.New, call.Larger, call.Fails = change.Diff, change.New, change.Larger, change.Fails
	}
	schema, err := json.Marshal(map[string]any{"anyOf": []any{
		map[string]any{"enum": options},
		map[string]any{"type": "string", "pattern": "^" + AnswerDeny + ":"},
		map[string]any{"type": "object", "required": []string{"decision"},
			"properties": map[string]any{"decision": map[string]any{"enum": options}, "reason": map[string]any{"type": "string"}}},
	}})
	line := fmt.Sprintf("May %s call %s? %s", r.Name, c.Name, oneLine(clean.Text(call.Subject)))
	return &runlog.Question{
		Key: permitPrefix + key, Kind: runlog.QuestionPermission, Agent: r.Name, Text: line, Options: options, Schema: schema, Call: call,
	}, err
}

// about returns the full description of a call: the Gate's, without a leading tool name, or else the arguments.
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

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

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

// remembers reports whether a rule that is always allowed is handed to the host; in a replay whether it was.
func (r *run) remembers(key string) bool {
	return r.scope.Does(key+"/remember", r.Remember != nil)
}

// remember passes a rule to the host. If the host cannot store it, the user is told, and the agent continues.
func (r *run) remember(ctx context.Context, key, rule string) error {
	e := &journal.Effect{Key: key + "/remember", Kind: "remember", Name: rule}
	failed, err := journal.Do(ctx, r.scope, e, func(context.Context, string) (string, error) {
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
	text := "denied"
	if reason != "" {
		text += ": " + reason
	}
	return tool.Result{Text: text, Error: true, Denied: true}
}

// note is the data of an event that people see.
type note struct {
	Text string `json:"text"`
}

// mark emits an event once, even if the agent is run again.
func (r *run) mark(ctx context.Context, key, event string, data any) error {
	_, err := r.scope.Do(ctx, &journal.Effect{
		Key: key, Kind: "note", Name: event, Inside: true,
		Do: func(ctx context.Context, _ string) (json.RawMessage, error) {
			return json.RawMessage("{}"), r.scope.Emit(ctx, event, data)
		},
	})
	return err
}
