package acp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/superstep-dev/superstep/internal/external"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool"
)

// A session is one conversation with an agent.
type session struct {
	p  *process
	id string

	mu     sync.Mutex // taken after that of the process, see there
	events []event
	wake   chan struct{} // has room for one
	busy   bool          // a prompt is under way
	quiet  bool          // nothing has come since the prompt
	left   bool          // the turn was cancelled
	calls  map[string]*call
	asks   []*permission // without an answer, in the order in which they came
	cost   float64       // so far, as the agent reports it
	based  bool          // cost is known, so that its change can be told
	told   map[string]bool
	worked time.Duration // on the turn, in the steps before
	used   model.Usage   // in the turn, where it is told in pieces
	sent   int           // bytes of updates since the last step
	said   int           // and bytes of text
	over   bool          // it sent too much
	plans  int
	past   []event // of a session that is being loaded
	loads  bool

	tools  *tool.Set      // ours, that it is offered
	offers []*offer       // its calls of them that have no result, or whose result nobody has heard
	heard  map[string]int // how many of them have arrived that the agent has not reported as ended, by tool
	close  func()         // ends their server
}

type eventKind uint8

const (
	eventText    eventKind = iota
	eventThought           // a piece of reasoning
	eventUser              // what the user said, in a session that is loaded
	eventCall              // a call has begun
	eventResult
	eventAsk
	eventPlan
	eventCost
	eventNote
	eventEnd
)

// An event is one thing that happened in a session.
type event struct {
	kind  eventKind
	text  string
	call  *call
	plan  json.RawMessage
	cost  float64
	stop  string
	usage model.Usage
	err   error
}

// permission is a permission request.
type permission struct {
	call  string
	asked external.Call
	told  bool // the loop knows it
	allow string
	deny  string
	reply chan string // the option, "" to cancel; has room for one
}

func newSession(p *process, id string) *session {
	return &session{p: p, id: id, wake: make(chan struct{}, 1), calls: map[string]*call{}, told: map[string]bool{}, heard: map[string]int{}}
}

func (s *session) push(e event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(e)
}

// add is push. The caller holds mu.
func (s *session) add(e event) {
	switch {
	case s.over:
		return
	case s.loads:
		s.past = append(s.past, e)
		return
	}
	if e.kind == eventEnd {
		s.busy = false
	} else {
		s.quiet = false
	}
	s.events = append(s.events, e)
	s.stir()
}

// flooded ends an agent that sends more than anybody could read. The caller holds mu.
func (s *session) flooded() {
	s.add(event{kind: eventEnd, err: &floodError{s.p.cmd.Name}})
	s.over = true
	go s.p.end()
}

// A floodError ends a task: the agent would only do it again.
type floodError struct{ agent string }

func (e *floodError) Error() string {
	return fmt.Sprintf("%s was ended, since it sent too much at once: more than %d MiB of text, %d MiB in all or %d calls", e.agent, mostSaid>>20, mostSent>>20, mostCalls)
}

// stir wakes the step. The caller holds mu.
func (s *session) stir() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *session) working() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy
}

// live reports whether something is to be expected of the session without a prompt.
func (s *session) live() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy || len(s.events) > 0
}

// prompt sends a prompt. What the session said before is forgotten.
func (s *session) prompt(text, mark, trace string) {
	s.mu.Lock()
	s.busy, s.quiet, s.left = true, true, false
	s.events, s.asks, s.calls, s.heard, s.worked = nil, nil, map[string]*call{}, map[string]int{}, 0
	s.used = model.Usage{}
	s.release()
	s.mu.Unlock()
	blocks := []map[string]string{{"type": "text", "text": text}}
	if mark != "" {
		blocks[0]["text"] += "\n\n<!-- " + mark + " -->"
	}
	go func() { // until the turn ends, with the process at the latest
		var out struct {
			StopReason string `json:"stopReason"`
			Usage      usage  `json:"usage"`
			Meta       struct {
				Usage usage `json:"usage"`
				Quota struct {
					Count usage `json:"token_count"` // of Gemini CLI
				} `json:"quota"`
			} `json:"_meta"`
		}
		params := map[string]any{"sessionId": s.id, "prompt": blocks}
		if trace != "" {
			params["_meta"] = map[string]string{"traceparent": trace}
		}
		err := s.p.request(context.Background(), "session/prompt", params, &out)
		e := event{kind: eventEnd, stop: out.StopReason, err: err}
		s.mu.Lock()
		defer s.mu.Unlock()
		e.usage = cmp.Or(model.Usage(out.Usage), model.Usage(out.Meta.Usage), model.Usage(out.Meta.Quota.Count), s.used)
		s.add(e)
	}()
}

// usage is what agents report of a turn. It is at most a hint: opencode reports the last of several model calls.
type usage model.Usage

// UnmarshalJSON counts in our terms: inputs with what was cached, outputs with the reasoning. Some agents count so, some do not; the total tells. What is no
// number is 0, and so is what is below.
func (u *usage) UnmarshalJSON(b []byte) error {
	var all map[string]any
	_ = json.Unmarshal(b, &all)
	n := func(name string) int {
		f, _ := all[name].(float64)
		return int(max(0, min(f, mostCount)))
	}
	in, out, cached, written, thought := n("inputTokens"), n("outputTokens"), n("cachedReadTokens"), n("cachedWriteTokens"), n("thoughtTokens")
	*u = usage{In: in + cached + written + n("input_tokens"), Out: out + thought + n("output_tokens"), Cached: cached, Written: written, Reasoning: thought}
	for _, in := range []int{u.In, in} {
		for _, out := range []int{u.Out, out} {
			if in+out > 0 && in+out == n("totalTokens") {
				u.In, u.Out = in, out
			}
		}
	}
	return nil
}

// answer answers permission requests and calls of our tools.
func (s *session) answer(st *external.Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range st.Results {
		s.result(&st.Results[i])
	}
	for _, a := range st.Answers {
		i := slices.IndexFunc(s.asks, func(p *permission) bool { return p.call == a.Call })
		if i < 0 {
			continue
		}
		p := s.asks[i]
		s.asks = slices.Delete(s.asks, i, i+1)
		option := p.deny
		if a.Allow {
			option = p.allow
		}
		p.reply <- option
	}
}

// cancel cancels the turn, and waits for its end. A process that does not end its turn is ended.
func (s *session) cancel() {
	s.mu.Lock()
	busy := s.busy
	s.left = s.left || busy
	for _, p := range s.asks {
		p.reply <- ""
	}
	s.asks = nil
	s.release()
	s.mu.Unlock()
	if !busy {
		return
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_ = s.p.rpc.SendNotification(context.Background(), "session/cancel", map[string]string{"sessionId": s.id}) // else it is ended
	}()
	over := time.After(cancelTimeout)
	for s.working() {
		select {
		case <-s.wake:
		case <-over:
			s.p.end()
			return
		}
	}
	<-sent
}

// permission handles a permission request: it waits for the answer of the run.
func (p *process) permission(ctx context.Context, params json.RawMessage) (any, *sdk.RequestError) {
	var in struct {
		SessionID string          `json:"sessionId"`
		ToolCall  json.RawMessage `json:"toolCall"`
		Options   []struct {
			ID   string `json:"optionId"`
			Kind string `json:"kind"`
		} `json:"options"`
	}
	var named struct {
		ID string `json:"toolCallId"`
	}
	cancelled := map[string]any{"outcome": map[string]string{"outcome": "cancelled"}}
	if len(params) > mostCall || json.Unmarshal(params, &in) != nil || json.Unmarshal(in.ToolCall, &named) != nil || named.ID == "" {
		return nil, sdk.NewInvalidParams("a permission request names its session and its call, in 1 MiB at most")
	}
	s := p.session(in.SessionID)
	if s == nil {
		return cancelled, nil
	}
	ask := &permission{call: named.ID, reply: make(chan string, 1)}
	for _, o := range in.Options { // never allow_always: rules are kept by us, where they can be seen
		switch {
		case o.Kind == "allow_once" && ask.allow == "":
			ask.allow = o.ID
		case o.Kind == "reject_once" && ask.deny == "":
			ask.deny = o.ID
		}
	}
	s.mu.Lock()
	if !s.busy || s.left || s.loads || s.over || len(s.asks) >= mostAsks {
		s.mu.Unlock()
		return cancelled, nil
	}
	if s.seen(in.ToolCall, true); s.calls[named.ID] == nil {
		s.mu.Unlock()
		return cancelled, nil
	}
	if s.calls[named.ID].ours != "" && ask.allow != "" { // it is decided on when it arrives
		s.mu.Unlock()
		return map[string]any{"outcome": map[string]string{"outcome": "selected", "optionId": ask.allow}}, nil
	}
	ask.asked = s.calls[named.ID].external(p)
	s.asks = append(s.asks, ask)
	s.add(event{kind: eventAsk, call: s.calls[named.ID]})
	s.mu.Unlock()
	select {
	case option := <-ask.reply:
		if option != "" {
			return map[string]any{"outcome": map[string]string{"outcome": "selected", "optionId": option}}, nil
		}
	case <-ctx.Done():
	}
	return cancelled, nil
}

// step collects what happens until there is something to record or to decide.
func (s *session) step(ctx context.Context, st *external.Step, opt *Options) (*external.Stepped, error) {
	out := &external.Stepped{Session: "", Stop: model.StopEnd}
	out.Message.Role = model.Assistant
	began := time.Now()
	s.p.spoke.Store(began.UnixNano())
	s.mu.Lock()
	s.sent, s.said = 0, 0
	s.mu.Unlock()
	quiet := time.NewTimer(time.Hour)
	defer quiet.Stop()
	watch := time.NewTicker(max(time.Millisecond, min(opt.Silence/4, opt.Turn/4, time.Second)))
	defer watch.Stop()
	warned, together := false, 0
	defer func() {
		if s.worked += time.Since(began); warned {
			st.Note("")
		}
	}()
	for {
		asks, done, err := s.collect(st, out)
		if err != nil || done {
			return out, err
		}
		if asks != together { // others may follow
			quiet.Reset(asksTogether)
			together = asks
		}
		select {
		case <-ctx.Done():
			s.cancel()
			_, _, _ = s.collect(st, out) // how it ended does not matter any more
			out.Lost, out.Done, out.Asks = true, false, nil
			return out, nil
		case <-quiet.C:
			if out.Asks, out.Calls = s.pending(); len(out.Asks)+len(out.Calls) > 0 {
				return out, nil
			}
		case <-s.wake:
		case <-watch.C:
			silent := time.Since(time.Unix(0, s.p.spoke.Load()))
			switch {
			case asks > 0:
			case silent >= opt.Limit:
				s.cancel()
				return nil, fmt.Errorf("%s has been silent for %s, and its turn was cancelled; resume the run to let it continue", s.p.cmd.Name,
					silent.Round(time.Second))
			case s.worked+time.Since(began) >= opt.Turn:
				s.cancel()
				return nil, fmt.Errorf("%s has worked on its turn for %s, which is the limit; allow more with --turn-timeout, and resume the run", s.p.cmd.Name,
					opt.Turn.Round(time.Second))
			case silent >= opt.Silence:
				warned = true
				st.Note(fmt.Sprintf("%s has been silent for %d s", s.p.cmd.Name, int(silent.Seconds())))
			case warned:
				warned = false
				st.Note("")
			}
		}
	}
}

// asksTogether is how long other permission requests, and calls of our tools, are waited for after one.
const asksTogether = 50 * time.Millisecond

// pending returns the calls that wait for permission, and those of our tools, that the loop has not been told of.
func (s *session) pending() (asks, calls []external.Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.asks {
		if !p.told {
			p.told = true
			asks = append(asks, p.asked)
		}
	}
	for _, o := range s.offers {
		if !o.told && !o.gone {
			o.told = true
			calls = append(calls, o.call)
		}
	}
	return asks, calls
}

// collect takes events until the step is complete. Asks is how many permission requests and calls of our tools are left, if nothing else is.
func (s *session) collect(st *external.Step, out *external.Stepped) (asks int, done bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var later []event // what is said while calls are under way
	defer func() { s.events = append(later, s.events...) }()
	waiting := func() bool { // for the end of a call
		if len(st.Open) > 0 {
			return true
		}
		return len(out.Started) > 0
	}
	for len(s.events) > 0 {
		e := s.events[0]
		switch {
		case e.kind == eventText || e.kind == eventThought:
			if waiting() {
				later = append(later, e)
				s.events = s.events[1:]
				continue
			}
			say(out, e, st.Say)
		case (e.kind == eventCall || e.kind == eventPlan) && len(later) > 0 && (len(st.Open) == 0 || len(unheard(st, out)) == 0):
			return 0, true, nil // it belongs to what is said before it
		case e.kind == eventCall || e.kind == eventAsk:
			if e.call != nil && !e.call.told {
				e.call.told = true
				out.Started = append(out.Started, e.call.external(s.p))
			}
		case e.kind == eventResult:
			out.Results = append(out.Results, e.call.result(s.p.dir))
			e.call.content, e.call.output = nil, nil // it may be long, and the call is kept for the turn
		case e.kind == eventPlan:
			s.planned(out, e.plan)
		case e.kind == eventCost:
			out.Money += int64(math.Round(e.cost * 1e6))
		case e.kind == eventNote:
			out.Notes = append(out.Notes, e.text)
		case e.kind == eventEnd:
			s.release()
			if e.err != nil {
				later, s.events = nil, nil
				return 0, true, s.ended(st, out, e.err)
			}
			if s.unresolved(st, out); len(later) > 0 { // said after calls that nobody has ended
				return 0, true, nil
			}
			// What was cancelled is known by what was sent: agents say end_turn then, too.
			out.Usage, out.Done, out.Lost, out.Stop = e.usage, !s.left, s.left, stopCode(e.stop)
		}
		s.events = s.events[1:]
		if out.Done || out.Lost {
			return 0, true, nil
		}
	}
	for _, p := range s.asks {
		if !p.told {
			asks++
		}
	}
	for _, o := range s.offers {
		if !o.told && !o.gone {
			asks++
		}
	}
	return asks, asks == 0 && len(out.Results)+len(out.Started) > 0, nil
}

// ended returns the error of a step whose turn has failed. An agent that crashed between two calls is started again and continues. If it crashed in a
// call, a user decides whether it may.
func (s *session) ended(st *external.Step, out *external.Stepped, err error) error {
	if !s.p.dead.Load() || s.quiet || errors.As(err, new(*floodError)) {
		return err
	}
	ids := slices.Clone(st.Open)
	for _, c := range out.Started {
		ids = append(ids, c.ID)
	}
	for _, id := range ids {
		asks := slices.ContainsFunc(s.asks, func(p *permission) bool { return p.call == id })
		if c := s.calls[id]; !asks && c != nil && !c.ended {
			return fmt.Errorf("%w; what became of its call %q is not known: resume the run to let it continue", err, c.title)
		}
	}
	out.Lost, out.Asks = true, nil
	out.Notes = append(out.Notes, err.Error()+"; it is started again and continues its session")
	return nil
}

// unheard returns the IDs of the calls of a step that have no result.
func unheard(st *external.Step, out *external.Stepped) []string {
	ids := slices.Clone(st.Open)
	for _, c := range out.Started {
		ids = append(ids, c.ID)
	}
	return slices.DeleteFunc(ids, func(id string) bool {
		return slices.ContainsFunc(out.Results, func(r external.Result) bool { return r.Call == id })
	})
}

// unresolved adds results for the calls without one, at the end of a turn.
func (s *session) unresolved(st *external.Step, out *external.Stepped) {
	for _, id := range unheard(st, out) {
		out.Results = append(out.Results, external.Result{Call: id, Text: "the agent reported no result", Error: true})
	}
}

// say adds a piece of text.
func say(out *external.Stepped, e event, live func(model.Part)) {
	kind := model.Text
	if e.kind == eventThought {
		kind = model.Reasoning
	}
	m := &out.Message
	n := len(m.Parts)
	if n == 0 || m.Parts[n-1].Kind != kind {
		if e.text = strings.TrimLeft(e.text, "\n"); e.text == "" { // Codex parts its reasoning so
			return
		}
		m.Parts = append(m.Parts, model.Part{Kind: kind})
		n++
	}
	if live != nil {
		live(model.Part{Kind: kind, Text: e.text})
	}
	m.Parts[n-1].Text += e.text
}

// stopCode returns why a turn ended. It does not tell whether something was denied or cancelled.
func stopCode(reason string) model.StopCode {
	switch reason {
	case "max_tokens":
		return model.StopLength
	case "refusal":
		return model.StopFilter
	}
	return model.StopEnd
}

// look returns what a loaded session holds after a prompt, as the outcome of a step that was interrupted, or nil if that is not known: the session does
// not have the prompt, or a call had not ended. Nothing tells whether the turn had ended: a text may be half of what the agent had to say, so the agent
// is prompted once more.
func (s *session) look(st *external.Step) *external.Stepped {
	rest, found := s.after(st.Mark)
	if !found {
		return nil
	}
	last, from, made := "", 0, 0 // what came before the last calls is recorded
	if n := len(st.Known); n > 0 {
		last = st.Known[n-1]
	}
	for i, e := range rest {
		if e.kind != eventCall {
			continue
		}
		if e.call.ours != "" {
			made++
		}
		if e.call.id == last || e.call.ours != "" && made <= st.Past {
			from = i + 1
		}
		if e.call.id == last {
			last = ""
		}
	}
	if last != "" {
		return nil
	}
	rest = rest[from:]
	for _, id := range st.Open {
		if c := s.calls[id]; c == nil || !c.ended {
			return nil
		}
	}
	out := &external.Stepped{Stop: model.StopEnd, Lost: true}
	out.Message.Role = model.Assistant
	for _, id := range st.Open {
		out.Results = append(out.Results, s.calls[id].result(s.p.dir))
	}
	for _, e := range rest {
		switch {
		case e.kind == eventText || e.kind == eventThought:
			if made >= st.Past { // else it does not hold the last of them, and this was said before
				say(out, e, nil)
			}
		case e.call != nil && e.call.ours != "": // what was not recorded of it has not been performed
		case e.kind == eventCall && !e.call.ended:
			return nil
		case e.kind == eventCall:
			out.Started = append(out.Started, e.call.external(s.p))
			out.Results = append(out.Results, e.call.result(s.p.dir))
		}
	}
	return out
}

// after returns what came after the prompt with a mark in a loaded session.
func (s *session) after(mark string) (rest []event, found bool) {
	at, said := -1, ""
	for i, e := range s.past {
		if e.kind != eventUser {
			said = ""
			continue
		}
		if said += e.text; mark != "" && strings.Contains(said, mark) {
			at = i
		}
	}
	if at < 0 {
		return nil, false
	}
	return s.past[at+1:], true
}

var errNoLoad = errors.New("it cannot load sessions")
