package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/builtin"
	"github.com/superstep-dev/superstep/tool/mcp"
)

// builtins are the tools that need nothing but a folder.
func builtins(t *testing.T) *tool.Set {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("one\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := builtin.OpenRoot(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	docs, err := builtin.OpenDocs(t.Context(), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { docs.Close() })
	s, err := tool.NewSet(builtin.ReadFile(root), builtin.WriteFile(root), builtin.Ls(root), builtin.Glob(root), builtin.Grep(root), builtin.Think(), builtin.SearchDocs(docs.Dir(), func(context.Context, bool) (*builtin.Docs, error) { return docs, nil }, nil))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func allow(context.Context, *tool.Tool, *tool.Call) error { return nil }

// piped is a client of the SDK, of a server made by Serve.
func piped(t *testing.T, tools *tool.Set, o *mcp.ServeOptions) *sdk.ClientSession {
	t.Helper()
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- mcp.Serve(context.Background(), tools, fromClient, toClient, o) }()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	s, err := client.Connect(t.Context(), &sdk.IOTransport{Reader: fromServer, Writer: toServer}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Close()
		toServer.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestServeBuiltins(t *testing.T) {
	t.Parallel()
	tools := builtins(t)
	s := piped(t, tools, &mcp.ServeOptions{Gate: allow, Instructions: "Be kind."})
	if got := s.InitializeResult().Instructions; got != "Be kind." {
		t.Errorf("instructions %q", got)
	}
	list, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Tools) != len(tools.Tools()) {
		t.Errorf("%d tools of %d", len(list.Tools), len(tools.Tools()))
	}
	for _, def := range list.Tools {
		own, ok := tools.Get(def.Name)
		if !ok {
			t.Errorf("tool %q is none of ours", def.Name)
			continue
		}
		want, _ := json.Marshal(own.Input)
		got, _ := json.Marshal(def.InputSchema)
		var a, b any
		_, _ = json.Unmarshal(want, &a), json.Unmarshal(got, &b)
		if fmt.Sprint(a) != fmt.Sprint(b) || def.Description != own.Description || def.Annotations.ReadOnlyHint != (own.Effect == tool.Pure) {
			t.Errorf("%s is told as %s %q %+v", def.Name, got, def.Description, def.Annotations)
		}
	}
	for name, args := range map[string]string{
		"read_file": `{"path":"a.txt"}`, "ls": `{}`, "glob": `{"pattern":"*.txt"}`, "grep": `{"pattern":"two"}`,
		"think": `{"reflection":"hm"}`, "search_docs": `{"query":"one"}`, "write_file": `{"path":"b.txt","content":"three"}`,
	} {
		want := tools.Call(t.Context(), name, &tool.Call{Args: json.RawMessage(args)})
		if want.Error {
			t.Fatalf("%s: %s", name, want.Text)
		}
		r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: json.RawMessage(args)})
		if err != nil || r.IsError || len(r.Content) != 1 || r.Content[0].(*sdk.TextContent).Text != want.Text {
			t.Errorf("%s gave %+v, %v, want %q", name, r, err, want.Text)
		}
	}
	r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "read_file", Arguments: map[string]any{"path": "../x", "bogus": 1}})
	if err != nil || !r.IsError || !strings.Contains(r.Content[0].(*sdk.TextContent).Text, "/bogus") {
		t.Errorf("bad arguments: %+v, %v", r, err)
	}
}

func TestServeGate(t *testing.T) {
	t.Parallel()
	tools := builtins(t)
	write := &sdk.CallToolParams{Name: "write_file", Arguments: map[string]any{"path": "evil", "content": "x"}}
	for name, o := range map[string]*mcp.ServeOptions{
		"without": nil,
		"one that says no": {Gate: func(_ context.Context, t *tool.Tool, c *tool.Call) error {
			return fmt.Errorf("%s with %s is not allowed: may change things", t.Name, c.Args)
		}},
		"one that panics": {Gate: func(context.Context, *tool.Tool, *tool.Call) error { panic("may change things") }},
	} {
		r, err := piped(t, tools, o).CallTool(t.Context(), write)
		if err != nil || !r.IsError || !strings.HasPrefix(r.Content[0].(*sdk.TextContent).Text, "refused: ") {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	if read := tools.Call(t.Context(), "read_file", &tool.Call{Args: json.RawMessage(`{"path":"evil"}`)}); !read.Error {
		t.Error("the file was written")
	}
	if r, err := piped(t, tools, nil).CallTool(t.Context(), &sdk.CallToolParams{Name: "read_file", Arguments: map[string]any{"path": "a.txt"}}); err != nil || r.IsError {
		t.Errorf("a pure tool without a gate: %+v, %v", r, err)
	}
}

func slow(started chan<- struct{}, ended chan<- error) *tool.Tool {
	t, _ := tool.New("slow", "Waits.", func(ctx context.Context, _ struct{}) (string, error) {
		started <- struct{}{}
		<-ctx.Done()
		ended <- ctx.Err()
		return "", ctx.Err()
	}, nil)
	return t
}

func TestServeCancel(t *testing.T) {
	t.Parallel()
	started, ended := make(chan struct{}, 1), make(chan error, 1)
	tools, err := tool.NewSet(slow(started, ended))
	if err != nil {
		t.Fatal(err)
	}
	s := piped(t, tools, &mcp.ServeOptions{Gate: allow})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	if _, err := s.CallTool(ctx, &sdk.CallToolParams{Name: "slow"}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the tool goes on")
	}
}

func TestServeBadMessages(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "",
		`{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}` + "\n": "given twice",
		"hello\n":                                 "something other than a message",
		strings.Repeat("x", 11<<20):               "more than 10 MiB",
		`[{"jsonrpc":"2.0","method":"ping"}]`:     "", // without an end
		`[{"jsonrpc":"2.0","method":"p"}]` + "\n": "batch",
	} {
		var out bytes.Buffer
		err := mcp.Serve(t.Context(), builtins(t), strings.NewReader(in), &out, nil)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.60q: %v, want %q", in, err, want)
		}
	}
}

func handler(t *testing.T, tools *tool.Set, o *mcp.ServeOptions) (*mcp.Handler, *httptest.Server) {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	o.Hosts = []string{server.Listener.Addr().String()}
	h, err := mcp.NewHandler(tools, o)
	if err != nil {
		t.Fatal(err)
	}
	server.Config.Handler = h
	server.Start()
	t.Cleanup(server.Close)
	return h, server
}

// Our own client and our own server, over the network.
func TestHandlerRoundTrip(t *testing.T) {
	t.Parallel()
	tools := builtins(t)
	h, server := handler(t, tools, &mcp.ServeOptions{Gate: allow})
	o, _ := options(t)
	o.Environ = append(o.Environ, "TOKEN="+h.Token())
	s := &mcp.Server{Name: "own", Source: mcp.Source{Scope: "user"}, Transport: mcp.HTTP, URL: server.URL, Headers: mcp.Values{"Authorization": "Bearer ${TOKEN}"}, TrustAnnotations: true}
	got := set(t, connect(t, s, o))
	for _, own := range tools.Tools() {
		if there, ok := got.Get("mcp__own__" + own.Name); !ok || own.Effect == tool.Pure != (there.Effect == tool.Pure) {
			t.Errorf("%s: %+v", own.Name, there)
		}
	}
	if r := call(t, got, "mcp__own__grep", `{"pattern":"two"}`); r.Error || !strings.Contains(r.Text, "a.txt") {
		t.Errorf("%+v", r)
	}
	s.Headers = mcp.Values{"Authorization": "Bearer wrong"}
	if _, err := mcp.Connect(t.Context(), s, o); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("a wrong token: %v", err)
	}
}

func TestHandlerRefuses(t *testing.T) {
	t.Parallel()
	h, server := handler(t, builtins(t), &mcp.ServeOptions{Origins: []string{"http://good.example"}})
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	type change func(*http.Request)
	header := func(k, v string) change { return func(r *http.Request) { r.Header.Set(k, v) } }
	for _, c := range []struct {
		name   string
		body   string
		change change
		want   int
		says   string
	}{
		{"good", list, nil, 200, ""},
		{"no token", list, func(r *http.Request) { r.Header.Del("Authorization") }, 401, "send the token that was printed at start"},
		{"two tokens", list, func(r *http.Request) { r.Header.Add("Authorization", "Bearer x") }, 401, ""},
		{"wrong token", list, header("Authorization", "Bearer "+h.Token()+"x"), 401, ""},
		{"token without its word", list, header("Authorization", h.Token()), 401, ""},
		{"empty token", list, header("Authorization", "Bearer "), 401, ""},
		{"token in the url", list, func(r *http.Request) { r.Header.Del("Authorization"); r.URL.RawQuery = "token=" + h.Token() }, 401, ""},
		{"other host", list, func(r *http.Request) { r.Host = "evil.example" }, 403, "this host is not served"},
		{"host with another port", list, func(r *http.Request) { r.Host = "127.0.0.1:1" }, 403, ""},
		{"localhost", list, func(r *http.Request) { r.Host = strings.Replace(r.Host, "127.0.0.1", "localhost", 1) }, 403, ""},
		{"evil origin", list, header("Origin", "http://evil.example"), 403, "this origin is not served"},
		{"null origin", list, header("Origin", "null"), 403, ""},
		{"own origin", list, header("Origin", server.URL), 403, ""},
		{"good origin", list, header("Origin", "http://good.example"), 200, ""},
		{"good and evil origin", list, func(r *http.Request) { r.Header["Origin"] = []string{"http://good.example", "http://evil.example"} }, 403, ""},
		{"form", list, header("Content-Type", "text/plain"), 415, "Content-Type must be application/json"},
		{"large", strings.Repeat(" ", 5<<20) + list, nil, 413, "over 1 MiB"},
		{"duplicate keys", `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}`, nil, 400, "/method: given twice"},
		{"wrong case", `{"jsonrpc":"2.0","id":1,"Method":"tools/list"}`, nil, 400, ""},
		{"no message", "hello", nil, 400, "other than a message"},
		{"3 MB that are no message", strings.Repeat("x", 3<<20), nil, 413, "over 1 MiB"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+h.Token())
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if c.change != nil {
			c.change(r)
		}
		resp, err := server.Client().Do(r)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != c.want || !strings.Contains(string(body), c.says) || resp.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %s %s, want %d", c.name, resp.Status, body, c.want)
		}
	}
	// No path and no method does without the token.
	for _, method := range []string{"GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD", "PATCH"} {
		for _, path := range []string{"/", "/mcp", "/sse", "/../x", "/.well-known/oauth-protected-resource"} {
			r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := server.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s %s: %s", method, path, resp.Status)
			}
		}
	}
	none, err := mcp.NewHandler(builtins(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	none.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/", nil))
	if w.Code != http.StatusForbidden || none.Token() == h.Token() || len(none.Token()) < 40 {
		t.Errorf("without hosts: %d", w.Code)
	}
}

// A call ends with its request.
func TestHandlerCancel(t *testing.T) {
	t.Parallel()
	started, ended := make(chan struct{}, 1), make(chan error, 1)
	tools, err := tool.NewSet(slow(started, ended))
	if err != nil {
		t.Fatal(err)
	}
	h, server := handler(t, tools, &mcp.ServeOptions{Gate: allow})
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","arguments":{}}}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+h.Token())
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	go func() { <-started; cancel() }()
	if resp, err := server.Client().Do(r); err == nil {
		resp.Body.Close()
		t.Error("an answer")
	}
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the tool goes on")
	}
}

// A client that wants progress hears of a long call while it runs, by either transport, and one that does not gets the answer alone.
func TestServeProgress(t *testing.T) {
	t.Parallel()
	tools, err := tool.NewSet(&tool.Tool{Name: "long", Input: &jsonschema.Schema{Type: "object"}, Run: func(ctx context.Context, _ *tool.Call) (string, error) {
		select {
		case <-time.After(300 * time.Millisecond):
		case <-ctx.Done():
		}
		return "done", nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, overHTTP := range []bool{false, true} {
		for _, wants := range []bool{false, true} {
			o := &mcp.ServeOptions{Gate: allow}
			o.ProgressEvery(20 * time.Millisecond)
			var heard atomic.Int32
			client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
					if r.Params.ProgressToken == "token" {
						heard.Add(1)
					}
				},
			})
			var transport sdk.Transport
			if overHTTP {
				h, server := handler(t, tools, o)
				transport = &sdk.StreamableClientTransport{Endpoint: server.URL, HTTPClient: &http.Client{Transport: bearer(h.Token())}, DisableStandaloneSSE: true}
			} else {
				fromClient, toServer := io.Pipe()
				fromServer, toClient := io.Pipe()
				go func() { _ = mcp.Serve(context.Background(), tools, fromClient, toClient, o) }()
				defer toServer.Close()
				transport = &sdk.IOTransport{Reader: fromServer, Writer: toServer}
			}
			s, err := client.Connect(t.Context(), transport, nil)
			if err != nil {
				t.Fatal(err)
			}
			p := &sdk.CallToolParams{Name: "long"}
			if wants {
				p.SetProgressToken("token")
			}
			r, err := s.CallTool(t.Context(), p)
			if err != nil || r.Content[0].(*sdk.TextContent).Text != "done" {
				t.Errorf("HTTP %v, progress %v: %+v, %v", overHTTP, wants, r, err)
			}
			if n := heard.Load(); wants && n < 2 || !wants && n > 0 {
				t.Errorf("HTTP %v, progress %v: heard %d times", overHTTP, wants, n)
			}
			_ = s.Close()
		}
	}
}

// bearer sends a token with each request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// A client that reads nothing and has closed its end does not keep the server.
func TestServeStalledReader(t *testing.T) {
	t.Parallel()
	in, asks := io.Pipe()
	unread, out := io.Pipe()
	go func() {
		_, _ = io.WriteString(asks, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`+"\n")
		_, _ = unread.Read(make([]byte, 1)) // the rest of the answer is on its way
		asks.Close()
	}()
	err := mcp.Serve(t.Context(), builtins(t), in, out, nil)
	unread.Close()
	if err == nil || !strings.Contains(err.Error(), "does not read what it is sent") {
		t.Errorf("%v", err)
	}
}
