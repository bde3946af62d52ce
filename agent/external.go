package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/external"
	"github.com/superstep-dev/superstep/internal/mail"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
)

// external reports whether the agent works outside of this process. In a replay its Model is only a name, and the record tells.
func (r *run) external() bool {
	_, is := r.Model.(external.Agent)
	return is || r.pinned != nil && r.pinned.External
}

// equipExternal checks that an external agent can do what the definition wants.
func (r *run) equipExternal() error {
	switch {
	case r.Finish != "":
		return fmt.Errorf("it must end with the tool %s, and %s cannot call it; use a model", r.Finish, r.Model.Name())
	case r.Limits.Single:
		return fmt.Errorf("it may not call tools, and %s has its own; use a model", r.Model.Name())
	}
	return nil
}

// careful is the gate for the own tools of external agents that have none: they ask before they act, and so the user is asked.
type careful struct{}

// Check implements tool.Gate.
func (careful) Check(*tool.Tool, *tool.Call) tool.Verdict {
	return tool.Verdict{Decision: tool.Ask, Reason: "the agent asks for permission"}
}

// outside is a running external agent. Each step of it is an effect whose outcome is known only if it was recorded: what it did in the world cannot be
// taken back, so a step that a crash cut off is looked for in the agent's own session, and else a user decides.
type outside struct {
	*run
	x       external.Agent // nil in a replay
	session string
	marked  string // the last prompt, by its mark
	prompt  string // for the next step
	answers []external.Answer
	decided []external.Answer // the answers that the last step was given
	open    []*outsideCall
	returns []*outsideCall  // calls of our tools, whose results the next step gets
	given   []*outsideCall  // and those whose results it got, and said and called nothing since
	past    int             // the number of calls of our tools since the prompt
	known   []string        // the IDs of all other calls since the prompt
	granted map[string]bool // calls that were allowed once and then interrupted, by their hashes
	idle    bool            // the agent waits for a prompt
	refused string          // what was denied since the prompt
	lost    []string        // what the agent was to be told of an interruption, until it goes on
	said    bool            // it has said something since then
	off     bool            // a user broke off its last turn
}

// outsideCall is a call that an external agent makes.
type outsideCall struct {
	external.Call
	key   string // of its effect
	asked string // the hash of what permission was requested for last
	gates int    // how often that was something else than before
	done  tool.Result
}

// runExternal is Run for external agents.
func (r *run) runExternal(ctx context.Context) (_ *Outcome, err error) {
	x, _ := r.Model.(external.Agent)
	o := &outside{run: r, x: x, idle: true, granted: map[string]bool{}}
	defer func() {
		if x != nil && !errors.As(err, new(*journal.WaitError)) {
			x.Leave(o.place(), o.session, err == nil)
		}
	}()
	fresh, err := o.begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("agent %s: %w", r.Name, err)
	}
	o.prompt = o.first(fresh)
	for r.out.Turns < r.turns {
		ended, err := o.turn(ctx)
		if err == nil && ended && o.prompt == "" {
			ended, err = o.finish(ctx)
		}
		var unfit *UnfitError
		if errors.As(err, &unfit) {
			return nil, err
		}
		if err != nil {
			return nil, fmt.Errorf("agent %s: %w", r.Name, err)
		}
		if ended && o.prompt == "" {
			return &r.out, nil
		}
	}
	r.out.Stop = StopLimit
	if r.Schema != nil {
		return &r.out, &LimitError{r.Name, r.turns}
	}
	return &r.out, nil
}

// opaque is what the last message of an external agent holds for the next one.
type opaque struct {
	Session string `json:"session"`
	Agent   string `json:"agent"` // as Model.Name
}

const opaqueProvider = "acp"

// begin opens the agent's session: that of the conversation so far, or a new one. Fresh reports that the session knows nothing of the conversation.
func (o *outside) begin(ctx context.Context) (fresh bool, err error) {
	prior := ""
	for _, m := range o.work.Messages {
		for _, p := range m.Parts {
			var was opaque
			if p.Opaque != nil && p.Opaque.Provider == opaqueProvider && json.Unmarshal(p.Opaque.Data, &was) == nil {
				if prior = ""; was.Agent == o.Model.Name() {
					prior = was.Session
				}
			}
		}
	}
	s := &external.Step{Prior: prior, Agent: o.Name}
	hash, err := journal.Hash(s)
	if err != nil {
		return false, err
	}
	e := &journal.Effect{Key: o.prefix + "session", Kind: "note", Name: o.Model.Name(), Hash: hash, Input: s}
	out, err := journal.Do(ctx, o.scope, e, func(ctx context.Context, _ string) (*external.Stepped, error) {
		return o.x.Step(ctx, o.with(s))
	})
	if err != nil {
		return false, err
	}
	o.session = out.Session
	return out.Fresh, o.tell(ctx, e.Key, out.Notes)
}

// first returns the first prompt. A session that is fresh is told everything.
func (o *outside) first(fresh bool) string {
	var b strings.Builder
	all := o.out.Messages
	last := all[len(all)-1].Text()
	if fresh {
		if o.Prompt != "" {
			fmt.Fprintf(&b, "<instructions>\n%s\n</instructions>\n\n", o.Prompt)
		}
		if len(all) > 1 {
			fmt.Fprintf(&b, "<conversation>\n%s</conversation>\n\n", written(all[:len(all)-1], maxPrompt/8))
		}
	}
	b.WriteString(last)
	if o.Schema != nil {
		schema, err := json.Marshal(o.Schema)
		if err == nil { // else its answer is checked all the same
			fmt.Fprintf(&b, "\n\nGive your final answer as JSON that fits this schema, and say nothing else in it:\n%s", schema)
		}
	}
	return b.String()
}

// turn lets the agent say something, and follows the calls that it begins then to their ends. Ended reports that the agent has nothing more to do.
func (o *outside) turn(ctx context.Context) (ended bool, err error) {
	n := o.out.Turns
	o.out.Turns++
	key := turnKey(o.prefix, n)
	o.last = ""
	if _, had := o.scope.Done(key); had {
		o.last = key
	}
	if err := o.sit(ctx); err != nil {
		return false, err
	}
	out, err := o.step(ctx, key, "model")
	if err != nil {
		return false, err
	}
	said := out.Message
	said.Role = model.Assistant
	if text := said.Text(); text != "" {
		o.out.Text, o.said = text, true
	}
	var calls []*outsideCall
	for i := 1; ; i++ {
		if calls, err = o.take(ctx, n, key, out, calls); err != nil {
			return false, err
		}
		if len(o.open) == 0 {
			break
		}
		key := fmt.Sprintf("%s/heard-%d", turnKey(o.prefix, n), i)
		if out, err = o.step(ctx, key, "wait"); err != nil {
			return false, err
		}
	}
	o.remember(said, calls)
	if o.idle = out.Done || out.Lost; out.Lost {
		return false, nil
	}
	if out.Done && o.refused != "" && !o.said { // some agents stop where they are denied something
		o.prompt = "The user denied this: " + o.refused + "\nGo on without it, and say what you could not do."
	}
	o.off = out.Stop == mail.StopInterrupted
	if o.out.Stop = StopSaid; out.Stop == model.StopLength || out.Stop == model.StopFilter {
		o.out.Stop = StopCut
	}
	return out.Done, nil
}

// finish accepts the agent's answer, or sets the prompt that it needs to go on: its answer does not fit, or a user has sent a message.
func (o *outside) finish(ctx context.Context) (ended bool, err error) {
	at := len(o.out.Messages)
	if o.off {
		if _, err = o.whatNow(ctx); err != nil {
			return false, err
		}
	} else if o.Schema != nil {
		if _, err = o.fits(ctx, o.out.Turns, o.out.Text); err != nil {
			return false, err
		}
	}
	more, err := o.heed(ctx, o.out.Turns, o.last)
	if more {
		o.turns, o.out.Args = max(o.turns, o.out.Turns+1), nil
	}
	var texts []string
	for _, m := range o.out.Messages[at:] {
		texts = append(texts, m.Text())
	}
	o.prompt = strings.Join(texts, "\n\n")
	return o.prompt == "", err
}

// remember adds what the agent has said and done to the conversation.
func (o *outside) remember(said model.Message, calls []*outsideCall) {
	var results []model.Part
	for _, c := range calls {
		call := model.Call{ID: c.ID, Name: c.Name, Args: c.Args}
		said.Parts = append(said.Parts, model.Part{Kind: model.ToolCall, Call: &call})
		results = append(results, model.Part{Kind: model.Result, Text: c.done.Text, Error: c.done.Error, Call: &model.Call{ID: c.ID, Name: c.Name}})
	}
	if len(said.Parts) == 0 {
		return
	}
	if data, err := json.Marshal(opaque{o.session, o.Model.Name()}); err == nil {
		at := &said.Parts[len(said.Parts)-1]
		at.Opaque = &model.Opaque{Provider: opaqueProvider, Data: data}
	}
	o.add(said)
	if len(results) > 0 {
		o.add(model.Message{Role: model.Tool, Parts: results})
	}
}

// step is one step of the agent, or its recorded outcome.
func (o *outside) step(ctx context.Context, key, kind string) (*external.Stepped, error) {
	if o.prompt != "" {
		o.marked, o.known, o.given, o.refused, o.said, o.past = o.marker(key), nil, nil, "", false, 0
	}
	s := &external.Step{Session: o.session, Prompt: o.prompt, Mark: o.marked, Answers: o.answers, Agent: o.Name, Known: slices.Clone(o.known), Past: o.past}
	for _, c := range o.open {
		s.Open = append(s.Open, c.ID)
	}
	for _, c := range o.returns {
		s.Made, s.Results = append(s.Made, c.ID), append(s.Results, external.Result{Call: c.ID, Text: c.done.Text, Error: c.done.Error})
	}
	o.prompt, o.answers, o.given, o.returns = "", nil, append(o.given, o.returns...), nil
	hash, err := journal.Hash(s)
	if err != nil {
		return nil, err
	}
	_, s.Again = o.scope.Hint(key)
	e := &journal.Effect{
		Key: key, Kind: kind, Name: o.Model.Name(), Repeat: journal.RepeatNever, Hash: hash, Input: s,
		Doubt: o.doubt(),
		Told: func(text string) any {
			return external.Stepped{Message: model.Message{Role: model.Assistant, Parts: []model.Part{{Kind: model.Text, Text: text}}}, Done: true}
		},
		Recover: func(ctx context.Context) (json.RawMessage, error) {
			out, err := o.x.Look(ctx, o.with(s))
			if out == nil || err != nil {
				return nil, err
			}
			return json.Marshal(out)
		},
	}
	if kind == "model" {
		e.Cost = runlog.Amount{Turns: 1, Tokens: int64(len(s.Prompt)/bytesPerToken + outputTokens)}
	}
	turns := e.Cost.Turns
	e.Spent = func(output json.RawMessage) runlog.Amount {
		var out external.Stepped
		_ = json.Unmarshal(output, &out) // it was encoded as one
		return runlog.Amount{Turns: turns, Tokens: int64(out.Usage.In) + int64(out.Usage.Out), Money: out.Money}
	}
	turn, by, stop := o.scope.Interruptible(ctx, o.work.Key)
	defer stop()
	out, err := journal.Do(ctx, o.scope, e, func(context.Context, string) (*external.Stepped, error) {
		traced := o.with(s)
		traced.Trace = o.scope.Traceparent(key)
		out, err := o.x.Step(turn, traced)
		if !broken(turn) || err == nil && !out.Lost {
			return out, err
		}
		if err != nil {
			out = &external.Stepped{}
		}
		out.Lost, out.Done, out.Stop = false, true, mail.StopInterrupted
		out.Message.Parts = append(out.Message.Parts, model.Part{Kind: model.Text, Text: brokenOff})
		return nil, &brokenError{mail.ErrInterrupted, out, by()}
	})
	var happened *journal.HappenedError
	if errors.As(err, &happened) {
		return &external.Stepped{Lost: true}, nil
	}
	if err == nil {
		err = context.Cause(ctx) // a cancelled step has an outcome, too
		o.out.Usage = o.out.Usage.Add(out.Usage)
	}
	return out, err
}

// doubt returns the question to users about a step that a crash cut off.
func (o *outside) doubt() string {
	if len(o.open) == 0 {
		return o.Model.Name() + " was interrupted, and its session does not tell what it did then. May it continue? It may do something again."
	}
	var calls []string
	for _, c := range o.open {
		calls = append(calls, "\n\n"+c.Name+" "+clean.JSON(c.Args, " ⏎ "))
	}
	return o.Model.Name() + " was interrupted, and what became of this is not known. May it continue? It may do this again." + strings.Join(calls, "")
}

// with adds to a step what only this process needs.
func (o *outside) with(s *external.Step) *external.Step {
	out := *s
	out.Tools, out.Place = o.all, o.place()
	out.Say = func(p model.Part) { o.scope.Live(string(p.Kind), delta{o.Name, p.Text}) }
	out.Note = func(text string) {
		p := struct {
			Text      string `json:"text"`
			Done, All int
		}{text, 0, 1}
		if text == "" {
			p.Done = 1
		}
		o.scope.Live("progress", p)
	}
	return &out
}

// place tells this use of the agent apart from all others.
func (o *outside) place() string {
	return strings.Join([]string{o.scope.Run(), o.scope.Path(), o.prefix, o.idRoot}, " ")
}

// marker returns what identifies a prompt in the agent's session.
func (o *outside) marker(key string) string {
	hash, err := journal.Hash([]string{o.scope.Run(), o.scope.Path(), key, o.idRoot})
	if err != nil {
		return ""
	}
	return "superstep-" + hash
}

// take records what happened in a step, and decides on the calls that need permission. The error waits while a user has to decide.
func (o *outside) take(ctx context.Context, turn int, key string, out *external.Stepped, calls []*outsideCall) ([]*outsideCall, error) {
	if err := o.tell(ctx, key, out.Notes); err != nil {
		return calls, err
	}
	if out.Session != "" {
		o.session = out.Session
	}
	for _, c := range out.Started {
		call := &outsideCall{Call: c, key: callKey(o.prefix, turn, len(calls))}
		calls, o.open, o.known = append(calls, call), append(o.open, call), append(o.known, c.ID)
		if o.out.Calls++; !slices.ContainsFunc(out.Asks, func(a external.Call) bool { return a.ID == c.ID }) {
			o.scope.Begun(o.effect(call))
		}
	}
	for _, res := range out.Results {
		if err := o.close(ctx, res.Call, tool.Result{Text: res.Text, Error: res.Error}, res.Took); err != nil {
			return calls, err
		}
	}
	if !out.Lost {
		o.lost = nil
	}
	if out.Lost || out.Done {
		return calls, o.interrupted(ctx, out)
	}
	if len(out.Calls) > 0 || len(out.Message.Parts) > 0 {
		o.given = nil
	}
	err := o.permitAll(ctx, out.Asks)
	if err != nil && !journal.Waits(err) {
		return calls, err
	}
	calls, oerr := o.perform(ctx, turn, out.Calls, calls)
	return calls, errors.Join(err, oerr)
}

// perform makes calls of our tools, in the same way as those of other agents. Their results are for the next step.
func (o *outside) perform(ctx context.Context, turn int, asked []external.Call, calls []*outsideCall) ([]*outsideCall, error) {
	if len(asked) == 0 {
		return calls, nil
	}
	list := make([]model.Call, len(asked))
	for i, c := range asked {
		list[i] = model.Call{ID: c.ID, Name: c.Name, Args: c.Args}
	}
	results, err := o.callAll(ctx, turn, len(calls), list)
	if err != nil {
		return calls, err
	}
	for i, c := range asked {
		o.took(list[i], results[i].Text, results[i].Error)
		call := &outsideCall{Call: c, done: results[i]}
		calls, o.returns = append(calls, call), append(o.returns, call)
	}
	o.past += len(asked)
	return calls, nil
}

// tell records notes for users.
func (o *outside) tell(ctx context.Context, key string, notes []string) error {
	for i, text := range notes {
		if err := o.run.mark(ctx, fmt.Sprintf("%s/note-%d", key, i+1), "note", note{clean.Text(text)}); err != nil {
			return err
		}
	}
	return nil
}

func (o *outside) effect(c *outsideCall) *journal.Effect {
	return &journal.Effect{Key: c.key, Kind: "tool", Name: c.Name, Input: c.Args, Cost: runlog.Amount{Calls: 1}}
}

// close records the end of a call.
func (o *outside) close(ctx context.Context, id string, res tool.Result, took int64) error {
	i := slices.IndexFunc(o.open, func(c *outsideCall) bool { return c.ID == id })
	if i < 0 {
		return nil // as it was decided on before
	}
	c := o.open[i]
	o.open = slices.Delete(o.open, i, i+1)
	res.Text = clean.Text(res.Text)
	res.Text, _ = clean.Truncate(res.Text)
	e := o.effect(c)
	var err error
	if e.Hash, err = journal.Hash(model.Call{ID: c.ID, Name: c.Name, Args: c.Args}); err != nil {
		return err
	}
	e.Took = time.Duration(took) * time.Millisecond
	if res.Denied {
		e.Cost = runlog.Amount{}
	}
	o.saw(c.Name)
	c.done, err = journal.Do(ctx, o.scope, e, func(context.Context, string) (tool.Result, error) { return res, nil })
	return err
}

// interrupted ends the calls without a result, and sets the prompt with which an interrupted agent continues.
func (o *outside) interrupted(ctx context.Context, out *external.Stepped) error {
	var lost []string
	if o.refused != "" {
		lost = append(lost, "The user denied this, so go on without it: "+o.refused)
	}
	for _, c := range slices.Clone(o.open) {
		hash, err := journal.Hash([]any{c.Name, c.Args})
		if err != nil {
			return err
		}
		text := "the agent reported no result"
		if out.Lost {
			text = "interrupted: its outcome is not known"
			i := slices.IndexFunc(o.decided, func(a external.Answer) bool { return a.Call == c.ID })
			if i >= 0 && out.Unheard {
				o.granted[hash] = o.decided[i].Allow
				text = "interrupted before it began"
				lost = append(lost, "The user has allowed this call; make it again: "+oneLine(c.Name+" "+string(c.Args)))
			} else {
				lost = append(lost, "The outcome of this call is not known: "+oneLine(c.Name+" "+string(c.Args)))
			}
		}
		if err := o.close(ctx, c.ID, tool.Result{Text: text, Error: true}, 0); err != nil {
			return err
		}
	}
	for _, c := range o.given {
		lost = append(lost, fmt.Sprintf("This call of yours was made, so do not repeat it: %s\nIts result:\n%s", oneLine(c.Name+" "+string(c.Args)), c.done.Text))
	}
	switch {
	case !out.Lost:
	case out.Fresh: // what the session before was to be told is told to this one
		o.prompt = strings.Join(append([]string{o.first(true) + "\n\nAn earlier attempt at this was interrupted, and its conversation is lost. " +
			"See what is done already before you continue."}, append(o.lost, lost...)...), "\n")
	default:
		o.prompt, o.lost = strings.Join(append([]string{external.Continue}, lost...), "\n"), lost
	}
	return nil
}

// permitAll decides on permission requests. It asks all questions before it waits for an answer.
func (o *outside) permitAll(ctx context.Context, asks []external.Call) error {
	var waits []error
	o.decided = nil
	for _, ask := range asks {
		id := ask.ID
		i := slices.IndexFunc(o.open, func(c *outsideCall) bool { return c.ID == id })
		if i < 0 {
			o.answers = append(o.answers, external.Answer{Call: id})
			continue
		}
		c := o.open[i]
		c.Call = ask // it may have begun as another
		hash, err := journal.Hash([]any{c.Name, c.Args})
		if err != nil {
			return err
		}
		if hash != c.asked && c.asked != "" { // opencode asks about a folder outside of its own first, and then about the call
			c.gates++
		}
		c.asked = hash
		var no *tool.Result
		if !o.granted[hash] {
			no, err = o.mayDo(ctx, c)
		}
		delete(o.granted, hash)
		switch {
		case journal.Waits(err):
			waits = append(waits, err)
			continue
		case err != nil:
			return err
		case no != nil:
			o.refused = strings.TrimSpace(o.refused + "\n" + oneLine(c.Name+" "+string(c.Args)) + ": " + strings.TrimSuffix(no.Text, toModels))
			if err := o.close(ctx, id, *no, 0); err != nil {
				return err
			}
		default:
			o.scope.Begun(o.effect(c))
		}
		o.answers = append(o.answers, external.Answer{Call: id, Allow: no == nil})
	}
	o.decided = o.answers
	return errors.Join(waits...)
}

// mayDo decides on one call of its own tools, in the same way as on calls of ours.
func (o *outside) mayDo(ctx context.Context, c *outsideCall) (*tool.Result, error) {
	t := &tool.Tool{Name: c.Name, Input: &jsonschema.Schema{Type: "object"}, Effect: tool.Once, Dir: c.Dir,
		Run: func(context.Context, *tool.Call) (string, error) {
			return "", errors.New("only the external agent can do that")
		}}
	if c.Diff != "" {
		t.Preview = func(context.Context, *tool.Call) (*tool.Change, error) {
			sum, err := journal.Hash(c.Diff)
			return &tool.Change{New: c.New, Diff: c.Diff, Sum: sum}, err
		}
	}
	own, all := o.Agent, o.all
	defer func() { o.Agent, o.all = own, all }()
	if own.Gate == nil && o.pinned == nil {
		asks := *own
		asks.Gate = careful{}
		o.Agent = &asks
	}
	var err error
	if o.all, err = tool.NewSet(t); err != nil {
		return nil, err
	}
	key := c.key
	if c.gates > 0 {
		key = fmt.Sprintf("%s/asked-%d", key, c.gates)
	}
	no, _, err := o.permit(ctx, key, model.Call{ID: c.ID, Name: c.Name, Args: c.Args})
	if no != nil {
		no.Denied = true
		no.Text = cmp.Or(no.Text, "denied")
	}
	return no, err
}
