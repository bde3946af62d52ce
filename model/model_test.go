package model_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func stream(err error, parts ...model.Part) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		for _, p := range parts {
			if !yield(p, nil) {
				return
			}
		}
		if err != nil {
			yield(model.Part{}, err)
		}
	}
}

var (
	hel     = model.Part{Kind: model.Text, Text: "Hel"}
	lo      = model.Part{Kind: model.Text, Text: "lo"}
	thought = model.Part{Kind: model.Reasoning, Text: "hm"}
	call    = model.Part{Kind: model.ToolCall, Call: &model.Call{ID: "1", Name: "look", Args: json.RawMessage(`{}`)}}
	used    = model.Part{Kind: model.UsagePart, Usage: &model.Usage{In: 3, Out: 2, Cached: 1, Reasoning: 1}}
	stop    = model.Part{Kind: model.Stop, Stop: model.StopEnd}
)

func TestCollect(t *testing.T) {
	var seen []model.Part
	in := []model.Part{thought, thought, hel, lo, call, lo, call, call, used, used, stop}
	got, err := model.Collect(stream(nil, in...), func(p model.Part) { seen = append(seen, p) })
	if err != nil {
		t.Fatal(err)
	}
	want := &model.Response{
		Message: model.Message{Role: model.Assistant, Parts: []model.Part{
			{Kind: model.Reasoning, Text: "hmhm"}, {Kind: model.Text, Text: "Hello"}, call, lo, call, call,
		}},
		Usage: model.Usage{In: 6, Out: 4, Cached: 2, Reasoning: 2},
		Stop:  model.StopEnd,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if !reflect.DeepEqual(seen, in) {
		t.Errorf("the callback saw %+v", seen)
	}
	if text := got.Message.Text(); text != "Hellolo" {
		t.Errorf("the text is %q", text)
	}
	if calls := got.Message.Calls(); len(calls) != 3 || calls[0].Name != "look" {
		t.Errorf("the calls are %+v", calls)
	}
}

func TestCollectVoids(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		seq  iter.Seq2[model.Part, error]
		want string
	}{
		"an error":             {stream(broken, hel, call, stop), "broken"},
		"no stop":              {stream(nil, hel, call, used), "the stream ended before the model was done"},
		"nothing":              {stream(nil), "the stream ended before the model was done"},
		"text after the stop":  {stream(nil, stop, hel), "after its stop"},
		"two stops":            {stream(nil, stop, stop), "after its stop"},
		"a stop of nothing":    {stream(nil, model.Part{Kind: model.Stop}), "stop part without a code"},
		"a call of nothing":    {stream(nil, model.Part{Kind: model.ToolCall}, stop), "without an id or a name"},
		"arguments cut short":  {stream(nil, model.Part{Kind: model.ToolCall, Call: &model.Call{ID: "1", Name: "n", Args: json.RawMessage(`{"a"`)}}, stop), "not valid JSON"},
		"a usage of nothing":   {stream(nil, model.Part{Kind: model.UsagePart}, stop), "without a usage"},
		"a result in a stream": {stream(nil, model.Part{Kind: model.Result}, stop), `kind "result"`},
	} {
		got, err := model.Collect(c.seq, nil)
		if got != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %+v, %v; want an error with %q", name, got, err, c.want)
		}
	}
}

func TestErrorMessages(t *testing.T) {
	const place = "vllm/qwen: "
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	for _, c := range []struct {
		err  model.Error
		want string
	}{
		{model.Error{Status: 401, KeyFrom: "VLLM_API_KEY", Err: errors.New("bad key")}, "unauthorized (401) from http://h/v1: bad key; check the API key in VLLM_API_KEY and what it may access"},
		{model.Error{Status: 403, Err: errors.New("no")}, "forbidden (403) from http://h/v1: no; check the API key and what it may access"},
		{model.Error{Status: 404, Err: errors.New("no such model")}, `not found (404) from http://h/v1: no such model; check the model name "qwen" and the base URL`},
		{model.Error{Status: 429, Err: errors.New("slow down"), RetryAfter: 90 * time.Second}, "too many requests (429) from http://h/v1: slow down; retry after 1m30s"},
		{model.Error{Status: 429, Err: errors.New("slow down")}, "too many requests (429) from http://h/v1: slow down; retry later or ask for a higher rate limit"},
		{model.Error{Status: 429, Code: "insufficient_quota", Err: errors.New("paid up")}, "too many requests (429) from http://h/v1: paid up; check the plan and the billing of the account"},
		{model.Error{Status: 529, Temporary: true, Err: errors.New("busy")}, "overloaded (529) from http://h/v1: busy; the server has a problem, try again later"},
		{model.Error{Status: 599, Temporary: true}, "unexpected status (599) from http://h/v1; the server has a problem, try again later"},
		{model.Error{Code: model.CodeConnect, Err: refused}, "cannot reach http://h/v1: dial tcp: connection refused; is the server running?"},
		{model.Error{Code: model.CodeConnect, Err: &net.DNSError{Err: "no such host", Name: "h"}}, "cannot reach http://h/v1: lookup h: no such host; check the host in the base URL and the network"},
		{model.Error{Code: model.CodeTruncated, Err: errors.New("the stream broke off")}, "the stream broke off; try again"},
		{model.Error{Code: model.CodeCanceled, Err: context.Canceled}, "context canceled"},
	} {
		c.err.Provider, c.err.Model, c.err.URL = "vllm", "qwen", "http://h/v1"
		if got := c.err.Error(); got != place+c.want {
			t.Errorf("got  %s\nwant %s", got, place+c.want)
		}
	}
}

func TestToolResult(t *testing.T) {
	got := model.ToolResult(*call.Call, "no such file", true)
	want := model.Message{Role: model.Tool, Parts: []model.Part{
		{Kind: model.Result, Text: "no such file", Call: &model.Call{ID: "1", Name: "look"}, Error: true},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// parrot is a model that repeats what it hears.
type parrot struct{}

func (parrot) Name() string { return "bird/parrot" }

func (parrot) Generate(_ context.Context, req *model.Request) iter.Seq2[model.Part, error] {
	said := req.Messages[len(req.Messages)-1].Text()
	return func(yield func(model.Part, error) bool) {
		for _, word := range strings.SplitAfter(said, " ") {
			if !yield(model.Part{Kind: model.Text, Text: word}, nil) {
				return
			}
		}
		yield(model.Part{Kind: model.Stop, Stop: model.StopEnd}, nil)
	}
}

func Example() {
	var m model.Model = parrot{}
	req := &model.Request{Messages: []model.Message{model.UserText("polly wants a cracker")}}
	live := func(p model.Part) { fmt.Printf("%s %q\n", p.Kind, p.Text) }
	turn, err := model.Collect(m.Generate(context.Background(), req), live)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(turn.Message.Text(), turn.Stop)
	// Output:
	// text "polly "
	// text "wants "
	// text "a "
	// text "cracker"
	// stop ""
	// polly wants a cracker end
}
