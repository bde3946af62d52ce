package cassette_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/model/cassette"
	"github.com/superstep-dev/superstep/model/openai"
	"github.com/superstep-dev/superstep/runlog/redact"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const canary = "sk-canary-1234567890"

func overOpenAI(t testing.TB, handle modeltest.Handler) model.Model {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(transport.CloseIdleConnections)
	m, err := openai.New(&openai.Options{
		Model: "gpt-test", APIKey: canary, BaseURL: modeltest.NewServer(t, handle, nil).URL, HTTPClient: &http.Client{Transport: transport}, Retries: 1,
		Price: &model.Price{In: 1, Out: 2}, Window: 1000,
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

type stream struct {
	parts []model.Part
	err   error
}

func (s stream) String() string {
	raw, err := json.Marshal(s.parts)
	return fmt.Sprintf("%s %v %v", raw, s.err, err)
}

func drain(seq iter.Seq2[model.Part, error]) (out stream) {
	for p, err := range seq {
		if err != nil {
			out.err = err
			break
		}
		out.parts = append(out.parts, p)
	}
	return out
}

// A script is a model that says what a function returns.
type script func(req *model.Request) ([]model.Part, error)

func (script) Name() string { return "test/script" }

func (s script) Generate(_ context.Context, req *model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		parts, err := s(req)
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

func says(texts ...string) []model.Part {
	var out []model.Part
	for _, s := range texts {
		out = append(out, model.Part{Kind: model.Text, Text: s})
	}
	return append(out, model.Part{Kind: model.Stop, Stop: model.StopEnd})
}

func ask(text string) *model.Request {
	return &model.Request{Messages: []model.Message{model.UserText(text)}, Key: "key-canary"}
}

// record lets a model answer the requests, one after the other, and opens what was recorded.
func record(t *testing.T, m model.Model, requests ...*model.Request) (*cassette.Player, string) {
	t.Helper()
	var tape bytes.Buffer
	r := cassette.Record(m, &tape)
	for _, req := range requests {
		drain(r.Generate(t.Context(), req))
	}
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	text := tape.String()
	p, err := cassette.Open(&tape, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p, text
}

func text(t *testing.T, p model.Model, req *model.Request) string {
	t.Helper()
	r, err := model.Collect(p.Generate(t.Context(), req), nil)
	if err != nil {
		return err.Error()
	}
	return r.Message.Text()
}

func TestOccurrences(t *testing.T) {
	n := 0
	m := script(func(req *model.Request) ([]model.Part, error) {
		n++
		if n == 2 {
			return says("half")[:1], &model.Error{Provider: "test", Model: "script", Status: 429, RetryAfter: time.Minute, Temporary: true, Err: errors.New("slow down")}
		}
		return says(fmt.Sprint(req.Messages[0].Text(), n)), nil
	})
	p, _ := record(t, m, ask("a"), ask("a"), ask("b"), ask("a"))
	want := []string{"b3", "a1", "test/script: too many requests (429): slow down; retry after 1m0s", "a4",
		"test/script: this request was recorded 3 times, and all of these turns have been said; record the cassette again if that is meant",
		"test/script: this request was recorded once, and that turn has been said; record the cassette again if that is meant"}
	for i, q := range []string{"b", "a", "a", "a", "a", "b"} {
		if got := text(t, p, ask(q)); got != want[i] {
			t.Errorf("request %d (%s) got %q, want %q", i+1, q, got, want[i])
		}
	}
	if p.Unused() != 0 {
		t.Errorf("%d turns are left", p.Unused())
	}
}

func TestConcurrency(t *testing.T) {
	const kinds, times = 20, 5
	var tape bytes.Buffer
	m := script(func(req *model.Request) ([]model.Part, error) { return says("re: ", req.Messages[0].Text()), nil })
	r := cassette.Record(m, &tape)
	var wg sync.WaitGroup
	for i := range kinds * times {
		wg.Go(func() { drain(r.Generate(t.Context(), ask(fmt.Sprint(i%kinds)))) })
	}
	wg.Wait()
	p, err := cassette.Open(bytes.NewReader(tape.Bytes()), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range kinds * times {
		wg.Go(func() {
			got := drain(p.Generate(t.Context(), ask(fmt.Sprint(i%kinds))))
			if want := "re: " + fmt.Sprint(i%kinds); got.err != nil || got.parts[0].Text+got.parts[1].Text != want {
				t.Errorf("got %v, want %q", got, want)
			}
		})
	}
	wg.Wait()
	if p.Unused() != 0 {
		t.Errorf("%d turns are left", p.Unused())
	}
	if n := strings.Count(tape.String(), `{"piece"`); n != kinds {
		t.Errorf("%d pieces were written, want %d", n, kinds)
	}
}

func TestUnknown(t *testing.T) {
	m := script(func(*model.Request) ([]model.Part, error) { return says("ok"), nil })
	half, full := 0.5, 1.0
	schema := &jsonschema.Schema{Type: "object"}
	base := func(edit func(*model.Request)) *model.Request {
		req := &model.Request{
			System: "You are a careful assistant. Be brief.", MaxTokens: 10, Temperature: &half,
			Messages: []model.Message{model.UserText("Where is Königsberg?"), {Role: model.Assistant, Parts: []model.Part{{Kind: model.ToolCall, Call: &model.Call{ID: "1", Name: "search", Args: []byte(`{"q": 1, "a":2}`)}}}}, model.ToolResult(model.Call{ID: "1", Name: "search"}, "found", false)},
			Tools:    []model.ToolSpec{{Name: "search", Description: "Searches.", Input: schema}, {Name: "note"}},
		}
		if edit != nil {
			edit(req)
		}
		return req
	}
	p, _ := record(t, m, ask("something else"), base(nil), base(func(r *model.Request) { r.System, r.Messages = "Other", r.Messages[:1] }))
	for _, c := range []struct {
		name string
		edit func(*model.Request)
		want string
	}{
		{"text", func(r *model.Request) { r.Messages[0] = model.UserText("Where is Königsberg now?\x1b[31m") }, `message 1 is "Where is Königsberg now?", recorded "Where is Königsberg?"`},
		{"arguments", func(r *model.Request) { r.Messages[1].Parts[0].Call.Args = []byte(`{"a":2,"q":2}`) }, `message 2 is "search {\"a\":2,\"q\":2}", recorded "search {\"a\":2,\"q\":1}"`},
		{"role", func(r *model.Request) { r.Messages[0].Role = model.Assistant }, `message 1 is of the role "assistant", recorded "user"`},
		{"more", func(r *model.Request) { r.Messages = append(r.Messages, model.UserText("x")) }, "it has 4 messages, recorded are 3"},
		{"system", func(r *model.Request) { r.System += " Very." }, `the system prompt is "…assistant. Be brief. Very.", recorded "…assistant. Be brief."`},
		{"tool", func(r *model.Request) { r.Tools[0].Description = "Finds." }, `the tool "search" is "search: Finds. {\"type\":\"object\"}", recorded "search: Searches.`},
		{"new tool", func(r *model.Request) { r.Tools = append(r.Tools, model.ToolSpec{Name: "bash"}) }, `the tool "bash" is new`},
		{"missing tool", func(r *model.Request) { r.Tools = r.Tools[:1] }, `the tool "note" is missing`},
		{"order", func(r *model.Request) { r.Tools = []model.ToolSpec{r.Tools[1], r.Tools[0]} }, "the tools are in another order"},
		{"choice", func(r *model.Request) { r.Choice = "note" }, `the choice of tools is "note", recorded ""`},
		{"schema", func(r *model.Request) { r.Schema = schema }, `the schema of the answer is "{\"type\":\"object\"}", recorded ""`},
		{"tokens", func(r *model.Request) { r.MaxTokens = 11 }, "the most tokens are 11, recorded 10"},
		{"temperature", func(r *model.Request) { r.Temperature = &full }, "the temperature is 1, recorded 0.5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := model.Collect(p.Generate(t.Context(), base(c.edit)), nil)
			var e *model.Error
			if !errors.As(err, &e) || e.Provider != "test" || e.Model != "script" || e.Temporary {
				t.Fatalf("got %#v", err)
			}
			if !strings.Contains(err.Error(), "the nearest is that of turn 2 of 3: "+c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
	// What does not make another request.
	same := base(func(r *model.Request) {
		r.Key = "other"
		r.Messages[1].Parts[0].Call.Args = []byte(`{"a":2,"q":1}`)
		r.Messages[1].Parts[0].Opaque = &model.Opaque{Provider: "x", Data: []byte(`1`)}
	})
	if got := text(t, p, same); got != "ok" {
		t.Error(got)
	}
	empty, err := cassette.Open(strings.NewReader(`{"cassette":1,"model":"m"}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := text(t, empty, ask("x")); got != "cassette/m: this request was not recorded, and no other one either; record the cassette again if that is meant" {
		t.Error(got)
	}
}

func TestSecrets(t *testing.T) {
	const secret = "sk-live-abcdefghijklmnop0123456789"
	m := script(func(req *model.Request) ([]model.Part, error) {
		if len(req.Messages) > 1 {
			return nil, &model.Error{Provider: "p", Model: "m", Err: errors.New("the key " + secret + " is bad")}
		}
		return append([]model.Part{
			{Kind: model.Reasoning, Text: "hm"}, {Kind: model.Text, Text: "It is sk-live-abcdef"}, {Kind: model.Text, Text: "ghijklmnop0123456789, ok"},
			{Kind: model.ToolCall, Call: &model.Call{ID: "1", Name: "f", Args: []byte(`{"k":"\n` + secret + `","n":1}`)}},
		}, model.Part{Kind: model.Stop, Stop: model.StopCalls}), nil
	})
	first := ask("My key is " + secret)
	first.System = "AIza" + strings.Repeat("x", 35)
	first.Tools = []model.ToolSpec{{Name: "f", Input: &jsonschema.Schema{Type: "object", Description: secret}}}
	var tape bytes.Buffer
	r := cassette.Record(m, &tape)
	turn, err := model.Collect(r.Generate(t.Context(), first), nil)
	if err != nil || !strings.Contains(turn.Message.Text(), secret) {
		t.Fatalf("the recorder says %v, %v", turn, err)
	}
	second := *first
	second.Messages = append(second.Messages, turn.Message, model.ToolResult(turn.Message.Calls()[0], "Bearer "+secret, false))
	drain(r.Generate(t.Context(), &second))
	for _, part := range []string{"abcdefgh", "AIzax", first.Key} {
		if strings.Contains(tape.String(), part) {
			t.Errorf("%q is in\n%s", part, &tape)
		}
	}
	p, err := cassette.Open(&tape, nil)
	if err != nil {
		t.Fatal(err)
	}
	played, err := model.Collect(p.Generate(t.Context(), first), nil)
	if err != nil || played.Message.Text() != "It is [secret], ok" || string(played.Message.Calls()[0].Args) != `{"k":"\n[secret]","n":1}` {
		t.Fatalf("played %+v, %v", played, err)
	}
	// The conversation that continues with what was played is the recorded one.
	third := *first
	third.Messages = append(third.Messages, played.Message, model.ToolResult(played.Message.Calls()[0], "Bearer "+secret, false))
	if got := text(t, p, &third); got != "p/m: the key [secret] is bad" {
		t.Error(got)
	}
}

func TestRedactorOfTheLog(t *testing.T) {
	secrets := redact.New(redact.Secret{Name: "PASSWORD", Value: "correct horse battery"})
	m := script(func(*model.Request) ([]model.Part, error) { return says("correct horse ", "battery"), nil })
	var tape bytes.Buffer
	r := cassette.Record(m, &tape)
	r.Redact = secrets
	drain(r.Generate(t.Context(), ask("say correct horse battery")))
	if strings.Contains(tape.String(), "horse") {
		t.Errorf("the secret is in %s", &tape)
	}
	p, err := cassette.Open(&tape, &cassette.Options{Redact: secrets})
	if err != nil {
		t.Fatal(err)
	}
	if got := text(t, p, ask("say correct horse battery")); strings.Contains(got, "horse") || strings.Contains(got, "not recorded") {
		t.Error(got)
	}
}

func TestLeaving(t *testing.T) {
	m := script(func(*model.Request) ([]model.Part, error) { return says("a", "b"), nil })
	var tape bytes.Buffer
	r := cassette.Record(m, &tape)
	for range r.Generate(t.Context(), ask("x")) {
		break
	}
	if tape.Len() > 0 {
		t.Errorf("a turn that was left is recorded: %s", &tape)
	}
	p, _ := record(t, m, ask("x"))
	for range p.Generate(t.Context(), ask("x")) {
		break
	}
	why := errors.New("why not")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if got := drain(p.Generate(ctx, ask("x"))); !errors.Is(got.err, why) || !errors.Is(got.err, context.Canceled) || got.err.(*model.Error).Code != model.CodeCanceled {
		t.Errorf("got %v", got)
	}
	seq := p.Generate(t.Context(), ask("x"))
	if got := drain(seq); got.err != nil || len(got.parts) != 3 {
		t.Errorf("the turn cannot be had again: %v", got)
	}
	if got := drain(seq); got.err == nil {
		t.Error("the second range gave no error")
	}
	if got := drain(p.Generate(t.Context(), nil)); got.err == nil {
		t.Error("no request gave no error")
	}
}

func TestPace(t *testing.T) {
	now := time.Unix(0, 0)
	m := script(func(*model.Request) ([]model.Part, error) { return says("a", "b"), nil })
	var tape bytes.Buffer
	r := cassette.Record(m, &tape)
	r.Now = func() time.Time { now = now.Add(25 * time.Millisecond); return now }
	drain(r.Generate(t.Context(), ask("x")))
	var waits []time.Duration
	p, err := cassette.Open(&tape, &cassette.Options{Sleep: func(_ context.Context, d time.Duration) error {
		if waits = append(waits, d); len(waits) == 2 {
			return errors.New("no time")
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got := drain(p.Generate(t.Context(), ask("x"))); len(got.parts) != 1 || got.err == nil {
		t.Errorf("got %v", got)
	}
	if got := drain(p.Generate(t.Context(), ask("x"))); len(got.parts) != 3 || got.err != nil {
		t.Errorf("got %v", got)
	}
	if fmt.Sprint(waits) != "[25ms 25ms 25ms 25ms 25ms]" {
		t.Errorf("waited %v", waits)
	}
}

// A full writer takes so many bytes and no more.
type full struct{ left int }

func (w *full) Write(p []byte) (int, error) {
	n := min(len(p), w.left)
	if w.left -= n; n < len(p) {
		return n, errors.New("disk full")
	}
	return n, nil
}

func TestCannotBeWritten(t *testing.T) {
	m := script(func(*model.Request) ([]model.Part, error) { return says("a"), nil })
	for left := range 500 {
		r := cassette.Record(m, &full{left})
		var errs []error
		for range 3 {
			errs = append(errs, drain(r.Generate(t.Context(), ask("x"))).err)
		}
		if r.Err() == nil {
			if errs[0] != nil || errs[2] != nil {
				t.Errorf("%d bytes: %v", left, errs)
			}
		} else if errs[2] == nil || !strings.Contains(errs[2].Error(), "test/script: the cassette cannot be written: disk full") {
			t.Errorf("%d bytes: %v", left, errs)
		}
	}
}

func TestFormat(t *testing.T) {
	p, tape := record(t, overOpenAI(t, modeltest.Sequence(modeltest.Text("It is Kaliningrad <now>."))), ask(strings.Repeat("Where is Königsberg? ", 1000)))
	if price, known := p.Price(); !known || price != (model.Price{In: 1, Out: 2}) {
		t.Errorf("the price is %v, %v", price, known)
	}
	if n, known := p.Window(); !known || n != 1000 {
		t.Errorf("the window is %d, %v", n, known)
	}
	for _, part := range []string{`{"cassette":1,"model":"openai/gpt-test","price":{"in":1,"out":2},"window":1000}` + "\n", `{"role":"user","parts":[{"kind":"text","text":"Where is`, `… (22000 bytes)`, `"text":"It is Kaliningrad <now>."`} {
		if !strings.Contains(tape, part) || len(tape) > 4000 {
			t.Errorf("%s is not in %s", part, tape)
		}
	}
	lines := strings.Split(strings.TrimSpace(tape), "\n")
	for _, c := range []struct{ tape, want string }{
		{"", "x.jsonl:1: it is empty"},
		{"\n" + tape, "x.jsonl:1: it is no cassette"},
		{"PNG", "x.jsonl:1: it is no cassette"},
		{`{"cassette":2,"model":"m"}`, "x.jsonl:1: it has version 2 of the format, and this program knows version 1"},
		{`{"cassette":1}`, "x.jsonl:1: the header names no model"},
		{tape + lines[0], "x.jsonl:4: a second header"},
		{tape + `{"cassette":1,"mo`, "x.jsonl:4: the last line is cut off"},
		{tape + "{}\n", "x.jsonl:4: the line is neither a piece nor a turn"},
		{tape + `{"new":1}` + "\n", `x.jsonl:4: json: unknown field "new"`},
		{tape + lines[1] + lines[1], "x.jsonl:4: there is something after the object"},
		{lines[0] + "\n" + lines[2], "x.jsonl:2: the request has the piece"},
		{strings.Replace(tape, `"digest":"sha256:`, `"digest":"sha256:0`, 1), "x.jsonl:3: the digest of the request is sha256:"},
		{strings.Replace(tape, `{"kind":"stop","stop":"end"}`, `{"kind":"text"}`, 1), "x.jsonl:3: the turn is none: the stream ended before the model was done"},
		{strings.Replace(tape, `{"kind":"stop","stop":"end"}`, `{"kind":"call","call":{"id":"1","name":"f","raw":"{"}}`, 1), "x.jsonl:3: the turn is none: the arguments"},
	} {
		_, err := cassette.Open(strings.NewReader(c.tape), &cassette.Options{Name: "x.jsonl"})
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

func FuzzOpen(f *testing.F) {
	var tape bytes.Buffer
	r := cassette.Record(script(func(req *model.Request) ([]model.Part, error) {
		if len(req.Messages) > 1 {
			return nil, errors.New("oops")
		}
		return append(says("a")[:1], model.Part{Kind: model.ToolCall, Call: &model.Call{ID: "1", Name: "f", Args: []byte("{ }")}}, says()[0]), nil
	}), &tape)
	req := ask("x")
	drain(r.Generate(context.Background(), req))
	req.Messages = append(req.Messages, model.ToolResult(model.Call{ID: "1", Name: "f"}, "r", true))
	req.System, req.Tools = "s", []model.ToolSpec{{Name: "f", Input: &jsonschema.Schema{Type: "object"}}}
	drain(r.Generate(context.Background(), req))
	f.Add(tape.Bytes())
	f.Add([]byte(`{"cassette":1,"model":"m"}` + "\n" + `{"turn":{"digest":"","request":{}}}`))
	f.Add([]byte(`{"cassette":1,"model":"m"}` + "\n" + `{"piece":{"id":"x"}}` + "\n" + `{"turn":{"digest":"sha256:91f0","request":{"messages":["x"],"tools":["x"],"system":"x"}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := cassette.Open(bytes.NewReader(data), nil)
		if err != nil {
			if !regexp.MustCompile(`^cassette:[1-9]`).MatchString(err.Error()) {
				t.Errorf("got %v", err)
			}
			return
		}
		for _, q := range []*model.Request{ask("x"), req, {}} {
			if got := drain(p.Generate(context.Background(), q)); got.err != nil && got.err.Error() == "" {
				t.Errorf("got %v", got)
			}
		}
	})
}

// FuzzRoundTrip checks that what was recorded is what is said, whatever it is.
func FuzzRoundTrip(f *testing.F) {
	f.Add("Where?", "It is ", "sk-live-abcdefghij0123456789", `{"q": 1}`, "sig", int64(5))
	f.Add("\x00\u2028", "<b>", "", `{"a":"\n"}`, "", int64(-1))
	f.Fuzz(func(t *testing.T, question, one, two, args, opaque string, in int64) {
		clean := func(s string) string { return strings.ToValidUTF8(s, "?") }
		parts := []model.Part{{Kind: model.Reasoning, Text: clean(one)}, {Kind: model.Text, Text: clean(two)}}
		if json.Valid([]byte(args)) {
			parts = append(parts, model.Part{Kind: model.ToolCall, Call: &model.Call{ID: "1", Name: "f", Args: []byte(clean(args))}})
		}
		if opaque != "" {
			data, err := json.Marshal(opaque)
			if err != nil {
				t.Fatal(err)
			}
			parts[0].Opaque = &model.Opaque{Provider: "p", Data: data}
		}
		parts = append(parts, model.Part{Kind: model.UsagePart, Usage: &model.Usage{In: int(in)}}, says()[0])
		var tape bytes.Buffer
		r := cassette.Record(script(func(*model.Request) ([]model.Part, error) { return parts, nil }), &tape)
		want := drain(r.Generate(context.Background(), ask(question)))
		if want.err != nil {
			t.Fatal(want.err)
		}
		p, err := cassette.Open(&tape, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := drain(p.Generate(context.Background(), ask(question)))
		if got.err != nil {
			t.Fatal(got.err)
		}
		if strings.Contains(tape.String()+got.String(), "[secret]") {
			return
		}
		if got.String() != want.String() {
			t.Errorf("played   %s\nrecorded %s", got, want)
		}
	})
}

// TestShapes checks that each shape is found, in texts and in JSON, and that its mark is known.
func TestShapes(t *testing.T) {
	long := strings.Repeat("aB3", 14)
	for _, secret := range []string{
		"sk-" + long, "pk-" + long, "AIza" + long, "ya29." + long, "ghp_" + long, "ghr_" + long, "github_pat_" + long, "glpat-" + long, "xoxb-" + long,
		"AKIA" + strings.Repeat("A1", 8), "ASIA" + strings.Repeat("A1", 8), "hf_" + long, "gsk_" + long, "npm_" + long, "Bearer  " + long, "bearer " + long + "==",
		"eyJ" + long + "." + long + "." + long, "-----BEGIN RSA PRIVATE KEY-----\n" + long + "\n-----END RSA PRIVATE KEY-----",
	} {
		args, err := json.Marshal(map[string]string{"a": "x\n" + secret})
		if err != nil {
			t.Fatal(err)
		}
		m := script(func(*model.Request) ([]model.Part, error) {
			return []model.Part{{Kind: model.ToolCall, Call: &model.Call{ID: "1", Name: "f", Args: args}}, {Kind: model.Stop, Stop: model.StopCalls}}, nil
		})
		_, tape := record(t, m, ask("use "+secret+" please"))
		if strings.Contains(tape, "aB3aB3") || strings.Contains(tape, "A1A1") || strings.Count(tape, "[secret]") != 2 {
			t.Errorf("%q is in %s", secret, tape)
		}
	}
}
