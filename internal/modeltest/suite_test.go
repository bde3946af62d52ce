package modeltest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/model"
)

// A Script is what a model of the suite is set up for. It does not know protocols.
type Script struct {
	Handle   Handler
	Attempts int           // how often the model may ask in one turn, at least 1
	Idle     time.Duration // the longest silence the model bears, 0 for a long one
	Timeout  time.Duration // of a whole turn, 0 for a long one
}

// run runs the suite every provider must pass. The function makes a model that talks to
// a [Server] that answers as the script says, has the script's limits, waits only a moment
// between attempts if the server does not ask for more, and at most a second or two if it does. It may be
// called several times in one test and from several tests at once.
//
// What only some protocols can express is tested when the server's wire has the interface
// for it: [Signer], [Schemer], [Lossy].
func run(t *testing.T, factory func(t testing.TB, script Script) model.Model) {
	streams(t, factory)
	s := newSuite(t, factory)
	t.Run("retries", s.retries)
	t.Run("second attempts", s.seconds)
	t.Run("limits", s.limits)
	t.Run("leaving", s.leaving)
}

// streams is the part of run about what is said and heard. It does not look at attempts,
// limits and how a turn is left, so that a model that has its answers from elsewhere, such as
// one that has recorded them from a model of a server, can run it too.
func streams(t *testing.T, factory func(t testing.TB, script Script) model.Model) {
	s := newSuite(t, factory)
	t.Run("turns", s.turns)
	t.Run("history", s.history)
	t.Run("ids", s.ids)
	t.Run("signatures", s.signatures)
	t.Run("opaque data of others", s.opaque)
	t.Run("schema", s.schema)
	t.Run("cut at every byte", s.cuts)
	t.Run("broken streams", s.broken)
	t.Run("statuses", s.statuses)
}

type suite struct {
	factory func(testing.TB, Script) model.Model
	wire    Wire // of the server; nil if it is not one of this package
}

// newSuite asks once, to see what the server speaks.
func newSuite(t *testing.T, factory func(testing.TB, Script) model.Model) suite {
	t.Helper()
	s := suite{factory: factory}
	ask := func(t *testing.T) {
		m := factory(t, Script{Attempts: 1, Handle: func(r *ParsedRequest) Reply { s.wire = r.Wire; return Text("ok") }})
		if got, err := model.Collect(m.Generate(t.Context(), request()), nil); err != nil || got.Message.Text() != "ok" {
			t.Fatalf("the model does not answer: %v", err)
		}
	}
	if !t.Run("answers", ask) {
		t.FailNow()
	}
	return s
}

func (s suite) model(t *testing.T, script Script) model.Model {
	t.Helper()
	script.Attempts = max(script.Attempts, 1)
	return s.factory(t, script)
}

// keeps is what of a usage arrives.
func (s suite) keeps(u model.Usage) model.Usage {
	if w, ok := s.wire.(Lossy); ok {
		return w.Keeps(u)
	}
	return u
}

// request is an ordinary first turn with two tools.
func request() *model.Request {
	input := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"q": {Type: "string"}}}
	return &model.Request{
		System:   "Be brief.",
		Messages: []model.Message{model.UserText("Where is Königsberg?")},
		Tools:    []model.ToolSpec{{Name: "search", Description: "Search the web.", Input: input}, {Name: "note", Input: input}},
		Key:      "run-1/turn-1",
	}
}

func text(s string) model.Part      { return model.Part{Kind: model.Text, Text: s} }
func reasoning(s string) model.Part { return model.Part{Kind: model.Reasoning, Text: s} }

func call(id, name, args string) model.Part {
	return model.Part{Kind: model.ToolCall, Call: &model.Call{ID: id, Name: name, Args: json.RawMessage(args)}}
}

func usage(u model.Usage) model.Part { return model.Part{Kind: model.UsagePart, Usage: &u} }

// rich is a reply with everything in it.
func rich() Reply {
	return Reply{
		Parts: []model.Part{
			reasoning("Hm, "), reasoning("seven bridges."), text("Let me "), text("see — ☃\n"),
			call("a", "search", `{"q":"Königsberg \"7\" {bridges}"}`), call("b", "note", `{"q":"x","n":[1,{"y":null}]}`),
			usage(model.Usage{In: 100, Out: 20, Cached: 64, Reasoning: 8}),
		},
		Fragment: 9,
	}
}

func richResponse() *model.Response {
	return &model.Response{
		Message: model.Message{Role: model.Assistant, Parts: []model.Part{
			reasoning("Hm, seven bridges."), text("Let me see — ☃\n"),
			call("a", "search", `{"q":"Königsberg \"7\" {bridges}"}`), call("b", "note", `{"q":"x","n":[1,{"y":null}]}`),
		}},
		Usage: model.Usage{In: 100, Out: 20, Cached: 64, Reasoning: 8}, Stop: model.StopCalls,
	}
}

// turns checks that what was said arrives: every kind of part, in order and whole.
func (s suite) turns(t *testing.T) {
	said := func(stop model.StopCode, parts ...model.Part) *model.Response {
		return &model.Response{Message: model.Message{Role: model.Assistant, Parts: parts}, Stop: stop}
	}
	withUsage := func(r *model.Response, u model.Usage) *model.Response { r.Usage = u; return r }
	long := strings.Repeat("déjà vu ", 20_000)
	for _, c := range []struct {
		name  string
		reply Reply
		want  *model.Response
	}{
		{"nothing", Reply{}, said(model.StopEnd)},
		{"text", Reply{Parts: []model.Part{text("Hello, "), text("world.")}}, said(model.StopEnd, text("Hello, world."))},
		{"odd text", Text("a\r\n\x00\u2028]]> data: [DONE]\n\n<b>&amp; \\u0041"), said(model.StopEnd, text("a\r\n\x00\u2028]]> data: [DONE]\n\n<b>&amp; \\u0041"))},
		{"long text", Text(long), said(model.StopEnd, text(long))},
		{"reasoning", Reply{Parts: []model.Part{reasoning("So "), reasoning("what"), text("42")}}, said(model.StopEnd, reasoning("So what"), text("42"))},
		{"one call", Reply{Parts: []model.Part{call("x", "search", `{"q":1}`)}}, said(model.StopCalls, call("x", "search", `{"q":1}`))},
		{"call without arguments", Reply{Parts: []model.Part{call("x", "search", `{}`)}}, said(model.StopCalls, call("x", "search", `{}`))},
		{"arguments in text", Reply{Parts: []model.Part{call("x", "search", `"{\"q\":1}"`)}}, said(model.StopCalls, call("x", "search", `{"q":1}`))},
		{"text and parallel calls", Reply{Parts: []model.Part{text("ok"), call("x", "search", `{"q":1}`), call("y", "search", `{"q":2}`), call("z", "note", `{}`)}},
			said(model.StopCalls, text("ok"), call("x", "search", `{"q":1}`), call("y", "search", `{"q":2}`), call("z", "note", `{}`))},
		{"fragments", Reply{Fragment: 1, Parts: []model.Part{call("x", "search", `{"q":"ä{\"}"}`), call("y", "search", `{"q":2}`)}},
			said(model.StopCalls, call("x", "search", `{"q":"ä{\"}"}`), call("y", "search", `{"q":2}`))},
		{"usage", Reply{Parts: []model.Part{text("x"), usage(model.Usage{In: 7, Out: 5, Cached: 4, Reasoning: 2})}},
			withUsage(said(model.StopEnd, text("x")), model.Usage{In: 7, Out: 5, Cached: 4, Reasoning: 2})},
		{"usage of a cache", Reply{Parts: []model.Part{text("x"), usage(model.Usage{In: 90, Out: 5, Cached: 40, Written: 30})}},
			withUsage(said(model.StopEnd, text("x")), model.Usage{In: 90, Out: 5, Cached: 40, Written: 30})},
		{"length", Reply{Parts: []model.Part{text("x")}, Stop: model.StopLength}, said(model.StopLength, text("x"))},
		{"filter", Reply{Parts: []model.Part{text("x")}, Stop: model.StopFilter}, said(model.StopFilter, text("x"))},
		{"all of it", rich(), richResponse()},
		{"byte by byte", Reply{Parts: []model.Part{text("☃"), call("x", "note", `{"q":"é"}`)}, Fault: Trickle}, said(model.StopCalls, text("☃"), call("x", "note", `{"q":"é"}`))},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := s.model(t, Script{Handle: Sequence(c.reply)})
			got, err := model.Collect(m.Generate(t.Context(), request()), nil)
			if err != nil {
				t.Fatal(err)
			}
			c.want.Usage = s.keeps(c.want.Usage)
			equal(t, got, c.want)
		})
	}
	t.Run("a limit among calls voids them", func(t *testing.T) {
		reply := rich()
		reply.Stop = model.StopLength
		e := s.fails(t, Script{Handle: Sequence(reply)})
		if e.Code != model.CodeCutCall || e.Temporary {
			t.Errorf("got %#v, want a lasting error of code %q", e, model.CodeCutCall)
		}
	})
	t.Run("arguments that are no object", func(t *testing.T) {
		for _, args := range []string{`[1]`, `{"a":1`, `{"a":1}}{`, `{"a":1}{"a":2}`, `nil`, `"[1]"`, `{"a":1,"a":2}`, `{"a":{"b":1,"c":[{"d":1,"d":1}]}}`} {
			s.fails(t, Script{Handle: Sequence(Call("search", args))})
		}
	})
	t.Run("name", func(t *testing.T) {
		name := s.model(t, Script{Handle: Sequence(Reply{})}).Name()
		if provider, rest, ok := strings.Cut(name, "/"); !ok || provider == "" || rest == "" {
			t.Errorf("the name is %q, want provider/model", name)
		}
	})
}

// history checks that the server sees the conversation that was sent, and the key.
func (s suite) history(t *testing.T) {
	var got *ParsedRequest
	m := s.model(t, Script{Handle: func(r *ParsedRequest) Reply { got = r; return Text("ok") }})
	half := 0.5
	req := request()
	req.MaxTokens, req.Temperature, req.Choice = 123, &half, "note"
	one, two := model.Call{ID: "1", Name: "search"}, model.Call{ID: "2", Name: "note"}
	both := model.ToolResult(one, "found", false)
	both.Parts = append(both.Parts, model.ToolResult(two, "no disk", true).Parts...)
	req.Messages = append(req.Messages,
		model.Message{Role: model.Assistant, Parts: []model.Part{text("Let me see."), call("1", "search", `{"q":"a"}`), call("2", "note", `{}`)}},
		both,
		model.UserText("Go on."))
	before, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := model.Collect(m.Generate(t.Context(), req), nil); err != nil {
		t.Fatal(err)
	}
	if after, err := json.Marshal(req); err != nil || string(after) != string(before) {
		t.Errorf("the model changed the request to %s (%v)", after, err)
	}
	if got.Key != req.Key {
		t.Errorf("the server saw the key %q, want %q", got.Key, req.Key)
	}
	if got.System != req.System || got.Choice != req.Choice || got.MaxTokens != req.MaxTokens || got.Temperature == nil || *got.Temperature != half {
		t.Errorf("the server saw system %q, choice %q, %d tokens, temperature %v", got.System, got.Choice, got.MaxTokens, got.Temperature)
	}
	want := append(append([]model.Message(nil), req.Messages[:2]...),
		model.ToolResult(one, "found", false), model.ToolResult(two, "no disk", true), req.Messages[3])
	equal(t, split(got.Messages), split(want))
	equal(t, got.Tools, req.Tools)

	t.Run("empty texts", func(t *testing.T) {
		req := request()
		req.Messages = []model.Message{
			model.UserText(""),
			{Role: model.Assistant, Parts: []model.Part{call("1", "note", `{}`)}},
			model.ToolResult(model.Call{ID: "1", Name: "note"}, "", false),
			{Role: model.Assistant, Parts: []model.Part{reasoning("nothing to say")}},
			model.UserText("Go on."),
		}
		if _, err := model.Collect(m.Generate(t.Context(), req), nil); err != nil {
			t.Error(err)
		}
	})
}

// split gives every result a message of its own: protocols differ in that.
func split(messages []model.Message) []model.Message {
	var out []model.Message
	for _, m := range messages {
		if m.Role != model.Tool {
			out = append(out, m)
			continue
		}
		for _, p := range m.Parts {
			out = append(out, model.Message{Role: m.Role, Parts: []model.Part{p}})
		}
	}
	return out
}

// cuts ends a stream at every byte, by a dropped connection and in order. The result is
// an error, or the whole turn if nothing of it was missing but its usage.
func (s suite) cuts(t *testing.T) {
	for name, fault := range map[string]Fault{"dropped": Drop, "closed": Close} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reply := rich()
			reply.Fault = fault
			left := make(chan int, 1) // bytes of the stream that were not sent
			reply.Cut = func(missing int) { left <- missing }
			m := s.model(t, Script{Handle: func(*ParsedRequest) Reply { return reply }})
			step := max(100/faults.N(100), 1) * 3 / 2 // every byte in the full suite, else some: 1, 15, 150
			for missing := 1; missing > 0; {
				calls := 0
				got, err := model.Collect(m.Generate(t.Context(), request()), func(p model.Part) {
					if p.Kind == model.ToolCall {
						calls++
					}
				})
				missing = <-left
				switch {
				case err == nil:
					want := richResponse()
					if want.Usage = s.keeps(want.Usage); got.Usage == (model.Usage{}) {
						want.Usage = got.Usage
					}
					equal(t, got, want)
				case calls > 0:
					t.Errorf("the turn failed with %v, but had yielded %d calls", err, calls)
				case missing == 0 && fault == Close:
					t.Errorf("the turn was whole but failed: %v", err)
				default:
					typed(t, err)
				}
				if t.Failed() {
					t.Fatalf("cut at byte %d", reply.At)
				}
				reply.At += min(step, max(missing, 1)) // the end is always among them
			}
		})
	}
}

// broken checks streams that go wrong in other ways: no call, and an error.
func (s suite) broken(t *testing.T) {
	for name, fault := range map[string]Fault{"error event": ErrorEvent, "bad JSON": BadJSON} {
		t.Run(name, func(t *testing.T) {
			for at := range 12 {
				reply := rich()
				reply.Fault, reply.At = fault, at
				s.fails(t, Script{Handle: Sequence(reply)})
			}
		})
	}
	t.Run("no terminal event", func(t *testing.T) {
		for frames, all := 0, 1; frames < all; frames++ {
			m := s.model(t, Script{Handle: func(r *ParsedRequest) Reply {
				whole := Text("hello")
				if r.Wire == nil {
					return whole
				}
				cut := r.Wire.Frames(r, &whole)
				all = len(cut)
				return Reply{Raw: append([]byte("\n"), bytes.Join(cut[:frames], nil)...)}
			}})
			got, err := model.Collect(m.Generate(t.Context(), request()), nil)
			switch {
			case err != nil:
				typed(t, err)
			case frames <= 1 && all > 1:
				t.Errorf("got %+v of %d frames of %d", got, frames, all)
			default: // all that is missing is not needed
				equal(t, got.Message.Parts, []model.Part{text("hello")})
			}
		}
	})
	t.Run("error event carries on as an error", func(t *testing.T) {
		e := s.fails(t, Script{Handle: Sequence(Reply{Parts: rich().Parts, Fault: ErrorEvent, At: 3})})
		if !strings.Contains(e.Error(), "scripted failure") {
			t.Errorf("the error %q does not hold what the server said", e)
		}
	})
}

// statuses checks what errors say of each status.
func (s suite) statuses(t *testing.T) {
	for _, c := range []struct {
		status    int
		temporary bool
		says      string
	}{
		{400, false, "scripted failure"}, {401, false, "key"}, {403, false, "key"}, {404, false, "model name"}, {422, false, "scripted failure"},
		{408, true, ""}, {429, true, "retry"}, {500, true, ""}, {502, true, ""}, {503, true, ""}, {529, true, "overloaded"},
	} {
		t.Run(fmt.Sprint(c.status), func(t *testing.T) {
			e := s.fails(t, Script{Handle: Sequence(Failure(c.status, ""))})
			if e.Status != c.status || e.Temporary != c.temporary {
				t.Errorf("got status %d, temporary %v; want %d, %v", e.Status, e.Temporary, c.status, c.temporary)
			}
			if !strings.Contains(e.Error(), c.says) {
				t.Errorf("the error %q does not say %q", e, c.says)
			}
		})
	}
}

// retries checks which failures are tried again, how often, and with which key.
func (s suite) retries(t *testing.T) {
	cut := rich()
	cut.Fault, cut.At = Drop, 3
	late := Reply{Parts: []model.Part{text("first"), text("second")}, Fault: ErrorEvent, At: 1}
	for _, c := range []struct {
		name  string
		first Reply
		asks  int // with three attempts allowed and the second one good
	}{
		{"429", Failure(429, ""), 2}, {"429 with Retry-After", Failure(429, "1"), 2},
		{"500", Failure(500, ""), 2}, {"503", Failure(503, ""), 2}, {"529", Failure(529, ""), 2},
		{"dropped before the first part", cut, 2},
		{"400", Failure(400, ""), 1}, {"401", Failure(401, ""), 1}, {"404", Failure(404, ""), 1},
		{"after the first part", late, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var keys []string
			next := Sequence(c.first, Text("ok"))
			m := s.model(t, Script{Attempts: 3, Handle: func(r *ParsedRequest) Reply {
				mu.Lock()
				defer mu.Unlock()
				keys = append(keys, r.Key)
				return next(r)
			}})
			start := time.Now()
			got, err := model.Collect(m.Generate(t.Context(), request()), nil)
			if (err == nil) != (c.asks == 2) || err == nil && got.Message.Text() != "ok" {
				t.Errorf("got %v, %v", got, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if len(keys) != c.asks {
				t.Errorf("the server was asked %d times, want %d", len(keys), c.asks)
			}
			for _, k := range keys {
				if k != request().Key {
					t.Errorf("the key was %q, want %q in every attempt", k, request().Key)
				}
			}
			if c.first.RetryAfter != "" && time.Since(start) < time.Second {
				t.Errorf("Retry-After was not honoured")
			}
		})
	}
	t.Run("gives up", func(t *testing.T) {
		asks := 0
		s.fails(t, Script{Attempts: 3, Handle: func(*ParsedRequest) Reply { asks++; return Failure(503, "") }})
		if asks != 3 {
			t.Errorf("the server was asked %d times, want 3", asks)
		}
	})
	for _, c := range []struct {
		name, after string
		status      int
	}{
		{"seconds", "7200", 429}, {"date", time.Now().Add(2 * time.Hour).UTC().Format(http.TimeFormat), 429}, {"overloaded", "7200", 529}, {"unavailable", "7200", 503},
	} {
		t.Run("a long Retry-After is the caller's, "+c.name, func(t *testing.T) {
			asks := 0
			e := s.fails(t, Script{Attempts: 3, Handle: func(*ParsedRequest) Reply { asks++; return Failure(c.status, c.after) }})
			if asks != 1 || e.RetryAfter < 119*time.Minute || e.RetryAfter > 2*time.Hour || !e.Temporary {
				t.Errorf("asked %d times; the error is %#v, want one ask and two hours", asks, e)
			}
		})
	}
}

// seconds checks what a second attempt makes of a turn that was cut: nothing is said
// twice, and nothing of the first attempt is left in what the second one says.
func (s suite) seconds(t *testing.T) {
	again := Reply{Parts: []model.Part{text("again"), call("x", "note", `{}`), usage(model.Usage{In: 2, Out: 1})}}
	for name, first := range map[string]Reply{
		"all of it": rich(),
		"calls":     {Parts: []model.Part{call("a", "search", `{"q":"Königsberg"}`), call("b", "note", `{"q":2}`), usage(model.Usage{In: 100, Out: 20})}, Fragment: 9},
	} {
		t.Run(name, func(t *testing.T) {
			left, whole := make(chan int, 1), 0
			first.Fault, first.Cut = Drop, func(missing int) { left <- missing }
			for missing := 1; missing > 0; first.At += 17 {
				m := s.model(t, Script{Attempts: 2, Handle: Sequence(first, again)})
				got, err := model.Collect(m.Generate(t.Context(), request()), nil)
				if missing = <-left; err != nil {
					typed(t, err)
					continue
				}
				if len(got.Message.Calls()) == 2 { // nothing that matters was missing
					equal(t, got.Message.Parts, collected(t, first.Parts))
					continue
				}
				whole++
				equal(t, got.Message.Parts, []model.Part{text("again"), call("x", "note", `{}`)})
				equal(t, got.Usage, s.keeps(model.Usage{In: 2, Out: 1}))
			}
			if whole == 0 {
				t.Error("no second attempt was made")
			}
		})
	}
}

// fails runs a turn that must fail with a typed error, must not yield a call, and must
// void what it did yield.
func (s suite) fails(t *testing.T, script Script) *model.Error {
	t.Helper()
	m := s.model(t, script)
	calls := 0
	got, err := model.Collect(m.Generate(t.Context(), request()), func(p model.Part) {
		if p.Kind == model.ToolCall {
			calls++
		}
	})
	if err == nil {
		t.Fatalf("got %+v, want an error", got)
	}
	if got != nil || calls > 0 {
		t.Errorf("the turn failed with %v, but had yielded %d calls", err, calls)
	}
	return typed(t, err)
}

func typed(t *testing.T, err error) *model.Error {
	t.Helper()
	var e *model.Error
	if !errors.As(err, &e) {
		t.Fatalf("the error %v is no *model.Error", err)
	}
	if e.Provider == "" || e.Model == "" || e.Err == nil {
		t.Errorf("the error %#v lacks provider, model or cause", e)
	}
	return e
}

func equal(t *testing.T, got, want any) {
	t.Helper()
	if reflect.DeepEqual(got, want) {
		return
	}
	g, err1 := json.Marshal(got)
	w, err2 := json.Marshal(want)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if string(g) != string(w) {
		t.Errorf("got  %.2000s\nwant %.2000s", g, w)
	}
}
