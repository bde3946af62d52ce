package telemetry

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/superstep-dev/superstep/internal/cut"
	"github.com/superstep-dev/superstep/internal/mail"
	"github.com/superstep-dev/superstep/internal/traceid"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
)

func itoa(n int) string { return strconv.Itoa(n) }

// agent is an agent that works in a unit.
type agent struct {
	id          trace.SpanID
	name, model string
	version     string // a digest of what the agent is made of
	system      string
	prompt      string
	tools       []string
	external    bool
	start, last time.Time
	fresh       []json.RawMessage // what its next turn is given, with Options.Content
}

// turn is the outcome of a model's turn, without its text.
type turn struct {
	Usage    model.Usage
	Stop     model.StopCode
	Provider string
	ID       string
	Message  json.RawMessage
}

// settled takes the outcome of an effect.
func (f *fold) settled(r *runlog.Record, d *runlog.Settled) {
	if f.exec.units[r.Path] == nil && transcript.Bookkeeping(d.Kind) && d.Kind != "branch" && d.Spent == nil {
		return // of a sub-agent that has ended
	}
	start := r.Time.Add(-time.Duration(d.Took) * time.Millisecond)
	if u := f.exec.units[r.Path]; u != nil {
		if in, ok := u.intents[d.Key]; ok && d.Took == 0 {
			start = in.at
		}
	}
	start = f.later(start, f.exec.start)
	u := f.touch(r.Path, start, r.Time)
	in := u.intents[d.Key]
	delete(u.intents, d.Key)
	f.warned(u, r.Time, d.Hint)
	if d.Spent != nil {
		f.exec.spent = f.exec.spent.Add(*d.Spent)
		for v := u; v != nil; v = v.parent {
			v.spent = v.spent.Add(*d.Spent)
		}
		if f.live {
			f.s.metrics.cost(f.workflow, d.Spent.Money)
		}
	}
	switch {
	case d.Kind == "agent":
		f.works(u, r, d)
	case d.Kind == "timer":
		for mark, why := range map[string]string{"/wait-": "rate_limited", "/again-": "broken_off"} {
			if strings.Contains(d.Key, mark) {
				u.events = append(u.events, event{r.Time, "retry", []attribute.KeyValue{attribute.String(keyErrorType, why)}})
			}
		}
	case d.Kind == "branch":
		if v := f.exec.units[r.Path+"/"+strings.TrimPrefix(d.Key, "branch/")]; v != nil {
			f.close(v, r.Time, failedEffect(d.Error), "")
		}
	case d.Kind == "job":
		f.job(r, d)
	case d.Kind == mail.KindSteer:
		for _, m := range mail.SteeringOf(d) {
			name := "steer"
			if m.Compact {
				name = "compaction.requested"
			}
			u.events = append(u.events, event{at: r.Time, name: name})
		}
	case transcript.Bookkeeping(d.Kind):
	case d.Kind == "model":
		f.turn(u, r, d, start)
	case d.Kind == "tool":
		f.tool(u, r, d, &in, start)
	default:
		f.emit(&span{id: f.effectID(r.Path, d.Key), parent: u.id, name: "effect " + d.Kind, kind: trace.SpanKindInternal, start: start, end: r.Time,
			attrs: f.common("", r.Path, attribute.Bool(keyOnce, in.once)), code: failedEffect(d.Error)})
	}
}

func failedEffect(text string) string {
	if text == "" {
		return ""
	}
	return "effect"
}

// effectID returns the identity of the next attempt of an effect.
func (f *fold) effectID(path, key string) trace.SpanID {
	at := path + "\x00" + key
	f.exec.tried[at]++
	return traceid.Span(f.run, path, key, f.exec.epoch, f.exec.tried[at])
}

// works notes that an agent began in a unit.
func (f *fold) works(u *unit, r *runlog.Record, d *runlog.Settled) {
	use := strings.TrimSuffix(strings.TrimSuffix(d.Key, "agent"), "/")
	in, ok := decode[struct {
		Model, System, Prompt string
		Tools                 map[string]string
		External              bool
	}](d.Input)
	if !ok || d.Error != "" || u.agents[use] != nil {
		return
	}
	a := &agent{name: d.Name, model: in.Model, external: in.External, start: r.Time, last: r.Time, id: u.id}
	if a.version = digest(in.System, in.Tools); use != "" {
		a.id = traceid.Span(f.run, u.path, d.Key, f.exec.epoch, u.attempt)
	}
	if f.s.opt.Content {
		a.system, a.prompt = in.System, in.Prompt
		a.fresh = []json.RawMessage{message(string(model.User), in.Prompt)}
		for name := range in.Tools {
			a.tools = append(a.tools, name)
		}
	}
	at := u.path + "\x00" + d.Name
	if was := f.models[at]; was != "" && was != a.model {
		u.events = append(u.events, event{r.Time, "model.changed", []attribute.KeyValue{attribute.String(keyModel, a.model)}})
	}
	put(&f.models, at, a.model)
	put(&u.agents, use, a)
}

// agentOf returns the agent whose turn or call has a key, and the span in which that happens.
func (u *unit) agentOf(key string) (*agent, trace.SpanID) {
	if u.agents == nil {
		return nil, u.id
	}
	i := max(strings.LastIndex("/"+key, "/turn-"), strings.LastIndex("/"+key, "/compact-"))
	if i < 0 {
		return nil, u.id
	}
	if a := u.agents[strings.TrimSuffix(key[:i], "/")]; a != nil {
		return a, a.id
	}
	return u.agents[""], u.id
}

// turn ends a turn of a model, or a step of an external agent.
func (f *fold) turn(u *unit, r *runlog.Record, d *runlog.Settled, start time.Time) {
	id := f.effectID(r.Path, d.Key)
	a, parent := u.agentOf(d.Key)
	var t turn
	code := ""
	if d.Error != "" {
		_ = json.Unmarshal(d.Partial, &t) // as far as there is one
		code = modelCode(d.Error)
	} else if json.Unmarshal(d.Output, &t) != nil {
		return
	}
	f.exec.in, f.exec.out = f.exec.in+t.Usage.In, f.exec.out+t.Usage.Out
	u.turns++
	if a != nil {
		a.last = r.Time
	}
	if !f.live {
		return
	}
	provider, name, ok := strings.Cut(d.Name, "/")
	if !ok {
		name = d.Name
	}
	provider = orElse(t.Provider, provider)
	op, title := opChat, opChat+" "+name
	attrs := make([]attribute.KeyValue, 0, 20)
	if a != nil && a.external {
		op, title = opAgent, opAgent+" "+d.Name
		attrs = append(attrs, attribute.Bool(keyEstimated, true), attribute.String(keyAgentName, d.Name))
	}
	attrs = append(attrs, attribute.String(keyProvider, provider), attribute.String(keyModel, name), attribute.Int(keyInput, t.Usage.In), attribute.Int(keyOutput, t.Usage.Out))
	for _, n := range []struct {
		key string
		n   int
	}{{keyCacheRead, t.Usage.Cached}, {keyCacheCreation, t.Usage.Written}, {keyFirst, int(d.First)}} {
		if n.n > 0 {
			attrs = append(attrs, attribute.Int(n.key, n.n))
		}
	}
	if t.Stop != "" {
		attrs = append(attrs, attribute.StringSlice(keyFinish, []string{string(t.Stop)}))
	}
	if t.ID != "" {
		attrs = append(attrs, attribute.String(keyResponseID, t.ID))
	}
	if d.Spent != nil {
		attrs = append(attrs, attribute.Float64(keyCost, dollars(d.Spent.Money)))
	}
	if f.s.opt.Content {
		if a != nil && len(a.fresh) > 0 {
			attrs = append(attrs, f.content(keyInputMessages, list(a.fresh)))
			a.fresh = nil
		}
		if len(t.Message) > 0 {
			attrs = append(attrs, f.content(keyOutputMessages, list([]json.RawMessage{t.Message})))
		}
	}
	f.emit(&span{id: id, parent: parent, name: title, op: op, kind: trace.SpanKindClient, start: start, end: r.Time, attrs: f.common(op, r.Path, attrs...), code: code})
	f.s.metrics.turn(op, provider, name, code, r.Time.Sub(start), t.Usage)
}

// tool ends a call of a tool. What worked in it hangs below it.
func (f *fold) tool(u *unit, r *runlog.Record, d *runlog.Settled, in *intent, start time.Time) {
	id := f.effectID(r.Path, d.Key)
	a, parent := u.agentOf(d.Key)
	u.calls++
	if a != nil {
		a.last = r.Time
	}
	var t, c int
	at := max(strings.LastIndex("/"+d.Key, "/turn-"), 0) // a step calls a tool outside of turns
	if n, err := fmt.Sscanf(d.Key[at:], "turn-%d/call-%d", &t, &c); n == 2 && err == nil {
		if v := f.exec.units[fmt.Sprintf("%s/%s[%d.%d]", r.Path, d.Name, t+1, c+1)]; v != nil {
			for _, inner := range sortedKeys(v.inner) {
				f.close(v.inner[inner], v.inner[inner].last, "", "")
			}
			f.leave(v)
			id, start = v.id, v.start
		}
	}
	if !f.live {
		return
	}
	code := failedEffect(d.Error)
	if out, ok := decode[struct{ Error, Denied bool }](d.Output); code == "" && ok && out.Error {
		if code = "tool"; out.Denied {
			code = "denied"
		}
	}
	attrs := append(make([]attribute.KeyValue, 0, 12), attribute.String(keyTool, d.Name), attribute.Bool(keyOnce, in.once))
	if f.s.opt.Content {
		input := d.Input
		if input == nil {
			input = in.input
		}
		attrs = append(attrs, f.content(keyArguments, string(input)), f.content(keyResult, string(d.Output)))
		if out, ok := decode[struct{ Text string }](d.Output); ok && a != nil {
			a.fresh = append(a.fresh, message(string(model.Tool), out.Text))
		}
	}
	f.emit(&span{id: id, parent: parent, name: opTool + " " + d.Name, op: opTool, kind: trace.SpanKindInternal, start: start, end: r.Time,
		attrs: f.common(opTool, r.Path, attrs...), code: code})
	f.s.metrics.tool(d.Name, code, r.Time.Sub(start))
}

// job ends a sub-agent, whose end is recorded by its lead.
func (f *fold) job(r *runlog.Record, d *runlog.Settled) {
	path := r.Path + "/" + strings.TrimPrefix(d.Key, "job/")
	if f.exec.units[path] == nil { // it did not begin to work
		return
	}
	u := f.touch(path, r.Time.Add(-time.Duration(d.Took)*time.Millisecond), r.Time)
	code := failedEffect(d.Error)
	if out, ok := decode[struct {
		Success *bool
		Error   string
	}](d.Output); code == "" && ok && out.Success != nil && !*out.Success {
		if code = "agent"; out.Error == "cancelled" {
			code = "cancelled"
		}
	}
	f.close(u, r.Time, code, "")
}

// modelCode returns a stable code for the failure of a turn. The text of the failure is not exported.
func modelCode(text string) string {
	for prefix, code := range map[string]string{"rate limited: ": "rate_limited", "conversation too long: ": "context_length", "answer that cannot be used: ": "unreadable", cut.BrokeOff: "broken_off"} {
		if strings.HasPrefix(text, prefix) {
			return code
		}
	}
	return "model"
}

// warned notes that an agent was told to wrap up.
func (f *fold) warned(u *unit, at time.Time, hint string) {
	for _, e := range u.events {
		if e.name == "budget.warned" {
			return
		}
	}
	if strings.HasPrefix(hint, "Budget notice") {
		u.events = append(u.events, event{at: at, name: "budget.warned"})
	}
}

func answered(r *runlog.Record, d *runlog.Answer) event {
	return event{r.Time, "question.answered", []attribute.KeyValue{attribute.Bool("superstep.question.denied", d.Denied)}}
}

func (f *fold) question(r *runlog.Record) {
	u := f.touch(r.Path, r.Time, r.Time)
	if r.Kind == runlog.KindAnswered {
		d, _ := decode[runlog.Answer](r.Data)
		u.events = append(u.events, answered(r, &d))
		return
	}
	d, _ := decode[runlog.Question](r.Data)
	name := "question.asked"
	if _, unknown := d.Unknown(); unknown {
		name = "effect.unknown"
	}
	u.events = append(u.events, event{r.Time, name, []attribute.KeyValue{attribute.String("superstep.question.kind", orElse(string(d.Kind), string(runlog.QuestionAsk)))}})
}

func (f *fold) event(r *runlog.Record) {
	d, ok := decode[runlog.Event](r.Data)
	switch {
	case !ok:
	case d.Name == "interrupted" && r.Path == "":
		f.end(runlog.Interrupted, "", r.Time)
	case d.Name == "context":
		if c, ok := decode[struct{ Action string }](d.Data); ok && c.Action != "" {
			u := f.touch(r.Path, r.Time, r.Time)
			u.events = append(u.events, event{r.Time, "compaction", []attribute.KeyValue{attribute.String("superstep.compaction.action", c.Action)}})
		}
	}
}
