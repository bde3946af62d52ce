package modeltest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/superstep-dev/superstep/model"
)

// A Transport answers every request with what the function returns, without a network.
type Transport func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (f Transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Answer returns a transport that answers with a stream. It is for one request.
func Answer(body io.Reader) Transport {
	return func(r *http.Request) (*http.Response, error) {
		h := http.Header{"Content-Type": {"text/event-stream"}}
		return &http.Response{StatusCode: http.StatusOK, Header: h, Body: io.NopCloser(body), Request: r}, nil
	}
}

// Ask returns a request that says hi.
func Ask() *model.Request {
	return &model.Request{Messages: []model.Message{model.UserText("hi")}, Key: "k"}
}

// Show returns a turn as one line of JSON, or its error.
func Show(r *model.Response, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// Play runs a turn and checks what must hold for all: it yields parts and a stop, or a typed
// error and no call, which does not have the word canary. Play returns all parts and the error as
// text, and the turn, which is nil if it failed.
func Play(t *testing.T, m model.Model, req *model.Request) (said string, whole *model.Response) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var parts []model.Part
	var failure error
	watched := func(yield func(model.Part, error) bool) {
		for p, err := range m.Generate(ctx, req) {
			if failure != nil {
				t.Fatal("the stream went on after its error")
			}
			if failure = err; err == nil {
				parts = append(parts, p)
			}
			if !yield(p, err) && err == nil {
				return
			}
		}
	}
	whole, err := model.Collect(watched, nil)
	if (err == nil) != (failure == nil) {
		t.Errorf("the stream ended with %v, and its turn with %v", failure, err)
	}
	var typed *model.Error
	if failure != nil && (!errors.As(failure, &typed) || strings.Contains(failure.Error(), "canary")) {
		t.Errorf("the error is %v", failure)
	}
	if errors.Is(failure, context.DeadlineExceeded) {
		t.Error("the stream does not end")
	}
	ids := map[string]bool{}
	for _, p := range parts {
		if p.Kind != model.ToolCall {
			continue
		}
		args := map[string]any{}
		if failure != nil || ids[p.Call.ID] || p.Call.Name == "" || json.Unmarshal(p.Call.Args, &args) != nil {
			t.Errorf("the call %+v was yielded, error %v", p.Call, failure)
		}
		ids[p.Call.ID] = true
	}
	if last := len(parts) - 1; failure == nil && (last < 0 || parts[last].Kind != model.Stop) {
		t.Error("the stream has neither stop nor error")
	}
	raw, err := json.Marshal(parts)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(string(raw), failure), whole
}

// Pieces returns a reader that gives at most size bytes at a time.
func Pieces(b []byte, size int) io.Reader {
	var rs []io.Reader
	for size = max(size, 1); len(b) > size; b = b[size:] {
		rs = append(rs, bytes.NewReader(b[:size]))
	}
	return io.MultiReader(append(rs, bytes.NewReader(b))...)
}

// PlayCut checks that a body says the same however it is cut. The function play runs a turn whose
// answer it is and returns what the turn said.
func PlayCut(t *testing.T, body []byte, size uint16, play func(body io.Reader) string) {
	t.Helper()
	want := play(bytes.NewReader(body))
	for _, r := range []io.Reader{iotest.OneByteReader(bytes.NewReader(body)), Pieces(body, int(size)), iotest.DataErrReader(bytes.NewReader(body))} {
		if got := play(r); got != want {
			t.Errorf("another chunking gave\n%s\nnot\n%s", got, want)
		}
	}
	play(io.MultiReader(bytes.NewReader(body), iotest.ErrReader(io.ErrUnexpectedEOF)))
}

// A Draw returns numbers from low to high, and texts, such as those of a property test.
type Draw struct {
	Int  func(low, high int) int
	Text func() string
}

// Reply returns a reply with parts of all kinds, which may have signatures if signed is set.
func (d Draw) Reply(signed bool) Reply {
	r := Reply{Fragment: d.Int(0, 5)}
	for i, n := 0, d.Int(0, 6); i < n; i++ {
		text := d.Text()
		p := model.Part{Kind: []model.PartKind{model.Text, model.Reasoning, model.ToolCall}[d.Int(0, 2)], Text: text}
		if p.Kind == model.ToolCall {
			args, err := json.Marshal(map[string]any{"a": text, "b": map[string]string{text: text}})
			if err != nil {
				panic(err) // of texts, never
			}
			p.Text, p.Call = "", &model.Call{ID: fmt.Sprint(i), Name: "f", Args: args}
		}
		if signed && d.Int(0, 1) == 1 {
			p.Opaque = &model.Opaque{Data: json.RawMessage(fmt.Sprintf(`"sig%d"`, i))}
		}
		r.Parts = append(r.Parts, p)
	}
	return r
}

// Arrives checks that a reply arrives whole, and the same if it is cut into pieces of some bytes.
// It returns what arrived. The function open returns a model that talks to rt.
func (d Draw) Arrives(t interface {
	Fatalf(format string, args ...any)
}, reply *Reply, wire Wire, open func(rt http.RoundTripper) model.Model) *model.Response {
	body := bytes.Join(wire.Frames(nil, reply), nil)
	hear := func(r io.Reader) (*model.Response, error) {
		return model.Collect(open(Answer(r)).Generate(context.Background(), Ask()), nil)
	}
	whole, err := hear(bytes.NewReader(body))
	cut := Show(hear(Pieces(body, d.Int(1, 50))))
	if err != nil || Show(whole, nil) != cut {
		t.Fatalf("whole %s\ncut   %s", Show(whole, err), cut)
	}
	for _, p := range reply.Parts {
		if p.Kind == model.ToolCall && !strings.Contains(cut, string(p.Call.Args)) {
			t.Fatalf("the arguments %s are not in %s", p.Call.Args, cut)
		}
	}
	return whole
}

// Sent appends a request's method, its address, what else it is told to name, and its indented
// body to out, and returns the body.
func Sent(t *testing.T, out *bytes.Buffer, r *http.Request, more ...string) []byte {
	t.Helper()
	fmt.Fprintln(out, strings.Join(append([]string{r.Method, r.URL.String()}, more...), " "))
	body, err := io.ReadAll(r.Body)
	if err != nil || r.ContentLength != int64(len(body)) {
		t.Errorf("read %d of %d bytes: %v", len(body), r.ContentLength, err)
	}
	if err := json.Indent(out, body, "", "  "); err != nil {
		t.Errorf("%v: %s", err, body)
	}
	out.WriteByte('\n')
	return body
}

// Golden compares what was sent with a file in testdata. With UPDATE=1 it writes that.
func Golden(t *testing.T, name string, sent []byte) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(file, sent, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(sent, want) {
		t.Errorf("sent\n%s\nwant\n%s(%v)", sent, want, err)
	}
}

// Refused checks that a model, whose transport fails the test, refuses a request with an error that
// says want and that another attempt would not change.
func Refused(t *testing.T, open func(rt http.RoundTripper) model.Model, req *model.Request, want string) {
	t.Helper()
	m := open(Transport(func(*http.Request) (*http.Response, error) {
		t.Error("something was sent")
		return nil, io.EOF
	}))
	_, err := model.Collect(m.Generate(t.Context(), req), nil)
	if e, ok := err.(*model.Error); !ok || e.Code != model.CodeRequest || e.Temporary || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

// RefusesRequests checks that a model refuses what no provider takes.
func RefusesRequests(t *testing.T, open func(rt http.RoundTripper) model.Model) {
	t.Helper()
	user := []model.Message{model.UserText("x")}
	for _, c := range []struct {
		req  *model.Request
		want string
	}{
		{nil, "the request is nil"},
		{&model.Request{}, "has no messages"},
		{&model.Request{Messages: []model.Message{{Role: "robot"}}}, `message 1: unknown role "robot"`},
		{&model.Request{Messages: []model.Message{{Role: model.Tool}}}, "without results"},
		{&model.Request{Messages: []model.Message{{Role: model.User, Parts: []model.Part{{Kind: model.Stop}}}}}, `kind "stop" does not belong in a message of role "user"`},
		{&model.Request{Messages: []model.Message{{Role: model.Assistant, Parts: []model.Part{{Kind: model.ToolCall}}}}}, "names no call"},
		{&model.Request{Messages: user, Choice: "required"}, "has no tools"},
		{&model.Request{Messages: user, Choice: "x"}, `the tool "x" is to be called but the request does not have it`},
		{&model.Request{Messages: user, Tools: []model.ToolSpec{{}}}, "a tool has no name"},
	} {
		Refused(t, open, c.req, c.want)
	}
}

// PrintsNoKey checks that no way to print or log values shows a key.
func PrintsNoKey(t *testing.T, key string, values ...any) {
	t.Helper()
	var out bytes.Buffer
	for _, v := range values {
		fmt.Fprintf(&out, "%v %+v %#v %s %q %x\n", v, v, v, v, v, v)
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "v", v)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "v", v)
		if raw, err := json.Marshal(v); err == nil {
			out.Write(raw)
		}
	}
	if strings.Contains(out.String(), key) || strings.Contains(out.String(), fmt.Sprintf("%x", key)) {
		t.Errorf("the key is in\n%s", &out)
	}
}

// Known checks that a model knows the price and the window that it is opened with, and only those,
// whatever becomes of the price later.
func Known(t *testing.T, open func(price *model.Price, window int) model.Model) {
	t.Helper()
	want := model.Price{In: 3, Out: 15, Cached: 0.3, Written: 3.75}
	price := want
	m := open(&price, 200_000)
	price.In = 0
	if p, known := m.(model.Priced).Price(); !known || p != want {
		t.Errorf("the price is %v, %v", p, known)
	}
	if n, known := m.(model.Sized).Window(); !known || n != 200_000 {
		t.Errorf("the window is %d, %v", n, known)
	}
	m = open(nil, 0)
	if p, known := m.(model.Priced).Price(); known {
		t.Errorf("the price is known: %v", p)
	}
	if n, known := m.(model.Sized).Window(); known {
		t.Errorf("the window is known: %d", n)
	}
}
