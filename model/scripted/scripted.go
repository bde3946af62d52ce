// Package scripted has a model for tests: it answers from a script, without a network, a key or a clock of its own.
//
//	m := &scripted.Model{Turns: []scripted.Turn{
//		scripted.Call("search", `{"query":"crash"}`),
//		scripted.Say("It resumes."),
//	}}
//
// It knows nothing of package testing, so that examples and programs can use it too.
package scripted

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/model"
)

// A Model is a [model.Model] that answers from a script. Its fields must not change once it is in use; its
// methods may be called from several goroutines. It must not be copied.
type Model struct {
	ID string // what Name returns; defaults to "test/scripted"
	// Turns answers requests, one each, in the order in which they come. A request beyond the last fails.
	Turns []Turn
	// Prompts has separate scripts for some conversations; the first that matches a request answers
	// it. If each agent has a script, agents that run side by side get the same turns in any order.
	Prompts []Prompt
	// Answer, if non-nil, is called for each turn instead of using Turns. It may be called from
	// several goroutines at once.
	Answer func(*model.Request) Turn

	Tokens int          // what Window returns; 0 is not known
	Cost   *model.Price // what Price returns; nil is not known

	mu    sync.Mutex
	used  []int // of each of Prompts, and of Turns
	asked []model.Request
}

// A Prompt is the script of the conversations whose system prompt or first message contains a text.
type Prompt struct {
	Has   string
	Turns []Turn
}

// A Turn is one answer. The zero Turn is a turn without text that ends at once.
type Turn struct {
	Parts []model.Part   // as they are streamed: deltas of text and reasoning, and calls; a call without an ID gets one
	Usage model.Usage    // yielded after the parts, unless it is zero
	Stop  model.StopCode // defaults to model.StopCalls if there are calls, else to model.StopEnd
	Err   error          // ends the stream after the parts, in place of usage and stop

	Delay time.Duration   // passes before the first part
	Until <-chan struct{} // is closed before the first part; nil waits for nothing
}

// Say returns a turn with a text in the given deltas.
func Say(deltas ...string) Turn { return said(model.Text, deltas) }

// Think returns a turn of reasoning, in so many deltas; see [Turn.And].
func Think(deltas ...string) Turn { return said(model.Reasoning, deltas) }

func said(kind model.PartKind, deltas []string) (t Turn) {
	for _, d := range deltas {
		t.Parts = append(t.Parts, model.Part{Kind: kind, Text: d})
	}
	return t
}

// Call returns a turn that calls a tool; args is a JSON object.
func Call(name, args string) Turn {
	return Turn{Parts: []model.Part{{Kind: model.ToolCall, Call: &model.Call{Name: name, Args: json.RawMessage(args)}}}}
}

// Fail returns a turn that fails.
func Fail(err error) Turn { return Turn{Err: err} }

// And returns the turn with the parts of another behind its own, for a turn that says something and calls tools.
func (t Turn) And(u Turn) Turn {
	t.Parts = slices.Concat(t.Parts, u.Parts)
	return t
}

// Using returns the turn with a usage.
func (t Turn) Using(in, out int) Turn {
	t.Usage = model.Usage{In: in, Out: out}
	return t
}

// Name returns the ID.
func (m *Model) Name() string { return cmp.Or(m.ID, "test/scripted") }

// Window returns Tokens.
func (m *Model) Window() (tokens int, known bool) { return m.Tokens, m.Tokens > 0 }

// Price returns the Cost.
func (m *Model) Price() (model.Price, bool) {
	if m.Cost == nil {
		return model.Price{}, false
	}
	return *m.Cost, true
}

// Requests returns the requests that the model has received, in their order.
func (m *Model) Requests() []model.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.asked)
}

// Unused returns an error that names the scripts with unused turns, or nil if there are none.
func (m *Model) Unused() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var left []string
	for i, used := range append(slices.Clone(m.used), make([]int, len(m.Prompts)+1-len(m.used))...) {
		if turns, name := m.script(i); used < len(turns) {
			left = append(left, fmt.Sprintf("%s: %d of %d turns", name, len(turns)-used, len(turns)))
		}
	}
	if left == nil {
		return nil
	}
	return fmt.Errorf("%s: nobody asked for %s", m.Name(), strings.Join(left, "; "))
}

// script returns the turns of Prompts[i] with their name for messages. After the last prompt it
// returns Turns.
func (m *Model) script(i int) (turns []Turn, name string) {
	if i < len(m.Prompts) {
		return m.Prompts[i].Turns, fmt.Sprintf("the prompt with %q", m.Prompts[i].Has)
	}
	return m.Turns, "Turns"
}

// Generate streams the next turn of the script.
func (m *Model) Generate(ctx context.Context, req *model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		t := m.next(req)
		if err := t.wait(ctx); err != nil {
			yield(model.Part{}, err)
			return
		}
		stop := model.StopEnd
		for i, p := range t.Parts {
			if p.Call != nil {
				stop = model.StopCalls
				if p.Call.ID == "" {
					call := *p.Call
					call.ID = fmt.Sprintf("call-%d-%d", len(req.Messages), i+1)
					p.Call = &call
				}
			}
			if !yield(p, nil) {
				return
			}
		}
		if t.Err != nil {
			yield(model.Part{}, t.Err)
			return
		}
		if t.Usage != (model.Usage{}) && !yield(model.Part{Kind: model.UsagePart, Usage: &t.Usage}, nil) {
			return
		}
		yield(model.Part{Kind: model.Stop, Stop: cmp.Or(t.Stop, stop)}, nil)
	}
}

// next returns the turn that answers a request.
func (m *Model) next(req *model.Request) Turn {
	m.mu.Lock()
	kept := *req
	kept.Messages = slices.Clone(req.Messages)
	m.asked = append(m.asked, kept)
	i := slices.IndexFunc(m.Prompts, func(p Prompt) bool { return p.matches(req) })
	if i < 0 {
		i = len(m.Prompts)
	}
	if i == len(m.Prompts) && m.Answer != nil {
		m.mu.Unlock()
		return m.Answer(req)
	}
	defer m.mu.Unlock()
	if m.used == nil {
		m.used = make([]int, len(m.Prompts)+1)
	}
	turns, name := m.script(i)
	if m.used[i] == len(turns) {
		return Fail(fmt.Errorf("%s: %s has no more than %d turns, and is asked for another; %s", m.Name(), name, len(turns), last(req)))
	}
	m.used[i]++
	return turns[m.used[i]-1]
}

func (p *Prompt) matches(req *model.Request) bool {
	return strings.Contains(req.System, p.Has) || len(req.Messages) > 0 && strings.Contains(req.Messages[0].Text(), p.Has)
}

// last describes the end of a request.
func last(req *model.Request) string {
	if len(req.Messages) == 0 {
		return "the request has no messages"
	}
	m := req.Messages[len(req.Messages)-1]
	text := m.Text()
	for _, p := range m.Parts {
		if p.Kind == model.Result {
			text += p.Text
		}
	}
	return fmt.Sprintf("the request ends with the %s message %.200q", m.Role, text)
}

func (t *Turn) wait(ctx context.Context) error {
	if t.Delay > 0 {
		timer := time.NewTimer(t.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	if t.Until != nil {
		select {
		case <-t.Until:
		case <-ctx.Done():
		}
	}
	return context.Cause(ctx)
}
