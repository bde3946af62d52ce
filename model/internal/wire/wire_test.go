package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/model"
)

const secret, token = "key-canary-123456", "token-canary-7890"

// echo is a turn that says what the events say: {"say":"…"}, {"call":"…"} or {"stop":"…"}.
type echo struct {
	posts   int
	relaxed func(*model.Error) bool
	stop    string
	held    []model.Part
}

func (e *echo) Post() (*Post, error) {
	e.posts++
	e.stop, e.held = "", nil
	return &Post{Path: "/go", Header: map[string]string{"X-Extra": "1"}, Body: fmt.Appendf(nil, `{"n":%d}`, e.posts)}, nil
}

func (e *echo) Event(ev *Event, out *Out) error {
	if ev.Name == "error" {
		return ReadProblem(ev.Data)
	}
	var v struct {
		Say, Call, Stop string
		Grow            int
	}
	if err := json.Unmarshal(ev.Data, &v); err != nil {
		return Malformed(err.Error())
	}
	if v.Call != "" {
		e.held = append(e.held, model.Part{Kind: model.ToolCall, Call: &model.Call{Name: v.Call}})
	}
	if e.stop = v.Stop; v.Stop == "now" {
		return ErrDone
	}
	if err := out.Grow(v.Grow); err != nil {
		return err
	}
	return out.Say(model.Text, v.Say)
}

func (e *echo) End(marked bool, out *Out) error {
	if e.stop == "" {
		return ErrUnfinished
	}
	return out.Finish(Ending{Reason: e.stop, Stop: model.StopEnd, Held: e.held})
}

func (e *echo) Relax(fail *model.Error) bool { return e.relaxed != nil && e.relaxed(fail) }

func run(t *testing.T, turn *echo, edit func(*Config), handle http.HandlerFunc) (*model.Response, *model.Error) {
	t.Helper()
	s := httptest.NewServer(handle)
	defer s.Close()
	rt := http.DefaultTransport.(*http.Transport).Clone()
	defer rt.CloseIdleConnections()
	c := Config{
		Model: "m", Provider: "p", BaseURL: s.URL, HTTPClient: &http.Client{Transport: rt}, Backoff: time.Millisecond,
		Keys: []Key{{Header: "X-Key", Value: secret}, {Header: "Authorization", Prefix: "Bearer ", Value: " " + token + "\n"}, {Header: "X-None"}},
	}
	if edit != nil {
		edit(&c)
	}
	client, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	req := &model.Request{Key: "k", Messages: []model.Message{model.UserText("x")}}
	got, err := model.Collect(client.Generate(t.Context(), req, func() (Turn, error) { return turn, nil }), nil)
	if err == nil {
		return got, nil
	}
	var e *model.Error
	if !errors.As(err, &e) {
		t.Fatalf("the error %v is no *model.Error", err)
	}
	for _, s := range []string{secret, token} {
		if all := fmt.Sprintf("%v %+v %#v %q", err, e, e, e.Err); strings.Contains(all, s) {
			t.Errorf("a key is in %s", all)
		}
	}
	return nil, e
}

func TestExchange(t *testing.T) {
	turn := &echo{}
	got, e := run(t, turn, nil, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || string(body) != fmt.Sprintf(`{"n":%d}`, turn.posts) {
			t.Errorf("attempt %d sent %s (%v)", turn.posts, body, err)
		}
		for name, want := range map[string]string{
			"X-Key": secret, "Authorization": "Bearer " + token, "X-Extra": "1", "Idempotency-Key": "k",
			"Accept-Encoding": "identity", "Content-Type": "application/json", "Accept": "text/event-stream",
		} {
			if got := r.Header.Get(name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		if _, sent := r.Header["X-None"]; sent || r.URL.Path != "/go" {
			t.Errorf("got %s with %v", r.URL, r.Header)
		}
		if turn.posts < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, "data: {\"say\":\"hi\"}\n\ndata: {\"call\":\"f\"}\n\ndata: {\"call\":\"f\"}\n\ndata: {\"stop\":\"now\"}\n\ndata: nonsense\n\n")
	})
	if e != nil || got.Message.Text() != "hi" || got.Stop != model.StopCalls || turn.posts != 3 {
		t.Fatalf("got %+v, %v after %d attempts", got, e, turn.posts)
	}
	calls := got.Message.Calls()
	if len(calls) != 2 || calls[0].ID == calls[1].ID || !strings.HasPrefix(calls[0].ID, "call_") || string(calls[0].Args) != "{}" {
		t.Errorf("got the calls %v", calls)
	}
}

func TestErrorsNameTheRequest(t *testing.T) {
	for _, c := range []struct{ header, body, want string }{
		{"Request-Id", "event: error\ndata: {\"message\":\"oops " + secret + "\"}\n\n", "p/m: oops [API key] (request req_[API key]1)"},
		{"X-Request-Id", "data: {\"say\":\"hi\"}\n\n", "the stream ended before the model was done (request req_[API key]1); try again"},
		{"X-Other", "data: {\"say\":\"hi\"}\n\n", "the stream ended before the model was done; try again"},
	} {
		_, e := run(t, &echo{}, func(c *Config) { c.Retries = -1 }, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(c.header, "req_"+token+"1")
			fmt.Fprint(w, c.body)
		})
		if e == nil || !strings.HasSuffix(e.Error(), c.want) {
			t.Errorf("got %v, want %s", e, c.want)
		}
	}
}

func TestRefineAndRelax(t *testing.T) {
	turn := &echo{relaxed: func(e *model.Error) bool { return e.Code == "refined" }}
	var bodies []string
	edit := func(c *Config) {
		c.Refine = func(e *model.Error, body []byte) { bodies = append(bodies, string(body)); e.Code = "refined" }
	}
	refuse := func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, strings.Repeat("x", 2*maxErrorBody))
	}
	if _, e := run(t, turn, edit, refuse); e == nil || e.Code != "refined" || turn.posts != 4 || len(bodies[0]) != maxErrorBody {
		t.Errorf("got %v after %d attempts", e, turn.posts)
	}
	turn.posts, turn.relaxed = 0, nil
	if _, e := run(t, turn, edit, refuse); e == nil || turn.posts != 1 {
		t.Errorf("got %v after %d attempts", e, turn.posts)
	}
}

// What failed attempts collected does not count.
func TestAttemptsStartEmpty(t *testing.T) {
	turn := &echo{}
	if _, e := run(t, turn, nil, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "data: {\"grow\":%d}\n\n", maxContent*2/3)
		if turn.posts == 3 {
			fmt.Fprint(w, "data: {\"stop\":\"now\"}\n\n")
		}
	}); e != nil || turn.posts != 3 {
		t.Errorf("got %v after %d attempts", e, turn.posts)
	}
}

// A turn that cannot be written is never sent, and what is too much is refused.
func TestFinish(t *testing.T) {
	out := func() *Out {
		return &Out{request: &model.Request{}, yield: func(model.Part, error) bool { return true }}
	}
	call := model.Part{Kind: model.ToolCall, Call: &model.Call{ID: "1", Name: "f", Args: []byte(`{}`)}}
	many := make([]model.Part, MaxCalls+1)
	for i := range many {
		many[i] = call
	}
	nameless := model.Part{Kind: model.ToolCall, Call: &model.Call{}}
	for want, end := range map[string]Ending{
		"more than 256 tool calls":             {Held: many},
		"tool call 2 has no name":              {Held: []model.Part{call, nameless}},
		`ended with "cut" among its`:           {Reason: "cut", Stop: model.StopLength, Held: []model.Part{nameless}},
		`ended with "tools" but has no`:        {Reason: "tools", Stop: model.StopCalls},
		"are not a JSON object: it is [1]":     {Held: []model.Part{{Kind: model.ToolCall, Call: &model.Call{Name: "f", Args: []byte(`[1]`)}}}},
		`the name "a" occurs twice`:            {Held: []model.Part{{Kind: model.ToolCall, Call: &model.Call{Name: "f", Args: []byte(`{"b":[{"a":1}],"c":{"a":1,"a":1}}`)}}}},
		"it breaks off at the end":             {Held: []model.Part{{Kind: model.ToolCall, Call: &model.Call{Name: "f", Args: []byte(`{"a":`)}}}},
		"the turn says more than 2 MiB; lower": {},
	} {
		o := out()
		err := o.Finish(end)
		if err == nil {
			err = o.Grow(maxContent + 1)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if call.Call.ID != "1" {
		t.Error("the caller's call was changed")
	}
}

func TestObjectSchema(t *testing.T) {
	for _, c := range []struct {
		in   *jsonschema.Schema
		want string
	}{
		{nil, `{"type":"object","properties":{}}`},
		{&jsonschema.Schema{}, `{"properties":{},"type":"object"}`},
		{&jsonschema.Schema{Type: "object", Title: "t"}, `{"properties":{},"title":"t","type":"object"}`},
		{&jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"a": {Type: "string"}}}, `{"type":"object","properties":{"a":{"type":"string"}}}`},
	} {
		if got, err := ObjectSchema(c.in); err != nil || string(got) != c.want {
			t.Errorf("got %s (%v), want %s", got, err, c.want)
		}
	}
}

func TestKeysAreNotPrinted(t *testing.T) {
	c, err := New(Config{Model: "m", Provider: "p", BaseURL: "http://h", Keys: []Key{{Header: "h", Value: secret}}})
	if err != nil {
		t.Fatal(err)
	}
	if all := fmt.Sprintf("%v %+v %#v %v %+v %v %#v", c, c, c, *c, *c, c.keys(), c.keys()); strings.Contains(all, secret) {
		t.Errorf("the key is in %s", all)
	}
}

// limitReset is only heard when the server does not say how long to wait.
func TestLimitReset(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		name   string
		header map[string]string
		want   time.Duration
	}{
		{"nothing", nil, 0},
		{"OpenAI, tokens used up", map[string]string{"X-Ratelimit-Reset-Requests": "8.64s", "X-Ratelimit-Remaining-Requests": "99", "X-Ratelimit-Reset-Tokens": "6m0s", "X-Ratelimit-Remaining-Tokens": "0"}, 6 * time.Minute},
		{"OpenAI, both used up", map[string]string{"X-Ratelimit-Reset-Requests": "120ms", "X-Ratelimit-Remaining-Requests": "0", "X-Ratelimit-Reset-Tokens": "2s", "X-Ratelimit-Remaining-Tokens": "0"}, 2 * time.Second},
		{"none used up", map[string]string{"X-Ratelimit-Reset-Requests": "9s", "X-Ratelimit-Remaining-Requests": "3", "X-Ratelimit-Reset-Tokens": "2s", "X-Ratelimit-Remaining-Tokens": "7"}, 2 * time.Second},
		{"Anthropic", map[string]string{"Anthropic-Ratelimit-Tokens-Reset": now.Add(time.Minute).Format(time.RFC3339), "Anthropic-Ratelimit-Tokens-Remaining": "0", "Anthropic-Ratelimit-Requests-Reset": now.Add(time.Hour).Format(time.RFC3339), "Anthropic-Ratelimit-Requests-Remaining": "5"}, time.Minute},
		{"seconds", map[string]string{"Ratelimit-Reset": "30"}, 30 * time.Second},
		{"seconds since 1970", map[string]string{"X-Ratelimit-Reset": fmt.Sprint(now.Add(time.Minute).Unix())}, time.Minute},
		{"milliseconds since 1970", map[string]string{"X-Ratelimit-Reset": fmt.Sprint(now.Add(time.Minute).UnixMilli())}, time.Minute},
		{"the past and nonsense", map[string]string{"X-Ratelimit-Reset": "soon", "X-Ratelimit-Reset-Tokens": "-3", "Anthropic-Ratelimit-Tokens-Reset": "2001-01-01T00:00:00Z", "X-Ratelimit-Reset-Requests": "NaN"}, 0},
		{"for ever", map[string]string{"X-Ratelimit-Reset": "1e300"}, 365 * 24 * time.Hour},
	} {
		h := http.Header{}
		for k, v := range c.header {
			h.Set(k, v)
		}
		if got := limitReset(h, now).Round(time.Millisecond); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
	for status, want := range map[int]bool{429: true, 503: false} {
		_, e := run(t, &echo{}, func(c *Config) { c.Retries = -1 }, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-RateLimit-Reset-Tokens", "90s")
			w.WriteHeader(status)
		})
		if (e.RetryAfter == 90*time.Second) != want {
			t.Errorf("%d: got %s", status, e.RetryAfter)
		}
	}
}

func TestEncodeErrorIsTheRequests(t *testing.T) {
	c, err := New(Config{Model: "m", Provider: "p", BaseURL: "http://h"})
	if err != nil {
		t.Fatal(err)
	}
	for _, req := range []*model.Request{nil, {}} {
		_, err = model.Collect(c.Generate(context.Background(), req, func() (Turn, error) { return nil, errors.New("no") }), nil)
		var e *model.Error
		if !errors.As(err, &e) || e.Code != model.CodeRequest || e.Temporary {
			t.Errorf("got %v", err)
		}
	}
}
