package mcp_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/tool/mcp"
)

// A site is a server on the network that answers by hand. It keeps what it was asked.
type site struct {
	t      *testing.T
	answer func(w http.ResponseWriter, r *http.Request, q request) bool // false: as it should be
	mu     sync.Mutex
	seen   []http.Header
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.seen = append(s.seen, r.Header.Clone())
	s.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	var q request
	_ = json.Unmarshal(body, &q)
	if s.answer != nil && s.answer(w, r, q) {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.Method == http.MethodDelete:
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case q.Method == "initialize":
		w.Header().Set("Mcp-Session-Id", "s1")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}}`, q.ID)
	case q.Method == "tools/list":
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"do","inputSchema":{"type":"object"}}]}}`, q.ID)
	case q.Method == "tools/call":
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, text("done"))
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

func (s *site) headers(name string) (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.seen {
		out = append(out, h.Get(name))
	}
	return out
}

func serve(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, q request) bool) (*site, string) {
	t.Helper()
	s := &site{t: t, answer: answer}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, server.URL
}

func remote(url, transport string) *mcp.Server {
	return &mcp.Server{
		Name: "net", Source: mcp.Source{Scope: "user"}, Transport: transport, URL: url + "/mcp?key=${KEY:-querysecret99}",
		Headers: mcp.Values{"Authorization": "Bearer ${TOKEN:-canary-token-1}"},
	}
}

func TestHTTP(t *testing.T) {
	t.Parallel()
	sse := func(w http.ResponseWriter, lines ...string) bool {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		fmt.Fprint(w, strings.Join(lines, "\n"), "\n\n")
		return true
	}
	onCall := func(f func(w http.ResponseWriter, q request) bool) func(http.ResponseWriter, *http.Request, request) bool {
		return func(w http.ResponseWriter, _ *http.Request, q request) bool {
			return q.Method == "tools/call" && f(w, q)
		}
	}
	good := func(q request, s string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, text(s))
	}
	for _, c := range []struct {
		name   string
		answer func(http.ResponseWriter, *http.Request, request) bool
		want   string // of the error, or of the text if it begins with "="
	}{
		{"plain", nil, "=done"},
		{"stream", onCall(func(w http.ResponseWriter, q request) bool {
			return sse(w, ": hello", "event: ping\ndata: not json\n", "id: 7\ndata: "+good(q, "streamed"))
		}), "=streamed"},
		{"stream in lines", onCall(func(w http.ResponseWriter, q request) bool {
			return sse(w, "data: "+strings.ReplaceAll(good(q, "in lines"), `,`, ",\ndata: "))
		}), "=in lines"},
		{"duplicate", onCall(func(w http.ResponseWriter, q request) bool {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s,"result":%s}`, q.ID, text("a"), text("evil"))
			return true
		}), "given twice"},
		{"duplicate in a stream", onCall(func(w http.ResponseWriter, q request) bool {
			return sse(w, fmt.Sprintf(`data: {"jsonrpc":"2.0","id":%s,"result":{"content":[],"content":[]}}`, q.ID))
		}), "given twice"},
		{"wrong case in a stream", onCall(func(w http.ResponseWriter, q request) bool {
			return sse(w, fmt.Sprintf(`data: {"jsonrpc":"2.0","ID":%s,"result":%s}`, q.ID, text("evil")))
		}), "another case"},
		{"huge", onCall(func(w http.ResponseWriter, _ request) bool {
			w.Header().Set("Content-Type", "application/json")
			for range 20 {
				if _, err := io.WriteString(w, strings.Repeat(" ", 1<<20)); err != nil {
					break
				}
			}
			return true
		}), "more than 10 MiB"},
		{"bomb", onCall(func(w http.ResponseWriter, _ request) bool {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			for range 20 {
				_, _ = io.WriteString(z, strings.Repeat(" ", 1<<20))
			}
			_ = z.Close()
			return true
		}), "more than 10 MiB"},
		{"huge event", onCall(func(w http.ResponseWriter, _ request) bool {
			w.Header().Set("Content-Type", "text/event-stream")
			for range 20 {
				if _, err := io.WriteString(w, "data: "+strings.Repeat("x", 1<<20)+"\n"); err != nil {
					break
				}
			}
			return true
		}), "more than 10 MiB"},
		{"refused with a reason", onCall(func(w http.ResponseWriter, q request) bool {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"not on Sundays"}}`, q.ID)
			return true
		}), "not on Sundays"},
		{"cut off", onCall(func(w http.ResponseWriter, _ request) bool {
			return sse(w, `data: {"jsonrpc":"2.0",`)
		}), "net"},
		{"hang", onCall(func(_ http.ResponseWriter, _ request) bool { time.Sleep(3 * time.Second); return true }), "no answer within 1s"},
		{"refused", onCall(func(w http.ResponseWriter, _ request) bool { w.WriteHeader(http.StatusForbidden); return true }), "answers 403 Forbidden; check the headers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, url := serve(t, c.answer)
			o, _ := options(t)
			o.CallTimeout = 30 * time.Second
			if c.name == "hang" {
				o.CallTimeout = time.Second
			}
			r := call(t, set(t, connect(t, remote(url, mcp.HTTP), o)), "mcp__net__do", `{}`)
			want, plain := strings.CutPrefix(c.want, "=")
			if r.Error == plain || plain && r.Text != want || !strings.Contains(r.Text, want) {
				t.Errorf("%+v", r)
			}
			for _, secret := range []string{"canary", "querysecret", "evil"} {
				if strings.Contains(r.Text, secret) {
					t.Errorf("shows %q: %s", secret, r.Text)
				}
			}
		})
	}
}

// Neither a redirect nor an endpoint leads to another host, and no header goes there.
func TestHTTPStaysWithItsHost(t *testing.T) {
	t.Parallel()
	evil, evilURL := serve(t, nil)
	for name, answer := range map[string]func(w http.ResponseWriter, r *http.Request, q request) bool{
		"redirect": func(w http.ResponseWriter, r *http.Request, _ request) bool {
			http.Redirect(w, r, evilURL+"/mcp", http.StatusTemporaryRedirect)
			return true
		},
		"redirect later": func(w http.ResponseWriter, r *http.Request, q request) bool {
			if q.Method != "tools/list" {
				return false
			}
			http.Redirect(w, r, evilURL+"/mcp", http.StatusFound)
			return true
		},
		"endpoint": func(w http.ResponseWriter, r *http.Request, _ request) bool {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "event: endpoint\ndata: %s/mcp\n\n", evilURL)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return true
		},
	} {
		site, url := serve(t, answer)
		o, _ := options(t)
		s := remote(url, mcp.HTTP)
		if name == "endpoint" {
			s.Transport = mcp.SSE
		}
		o.InitTimeout = 5 * time.Second
		_, err := mcp.Connect(t.Context(), s, o)
		var e *mcp.Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), "sends us on to") {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && (strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "querysecret")) {
			t.Errorf("%s shows a secret: %v", name, err)
		}
		if got := site.headers("Authorization"); len(got) == 0 || got[0] != "Bearer canary-token-1" {
			t.Errorf("%s: its own server got %q", name, got)
		}
	}
	if got := evil.headers("Authorization"); len(got) > 0 {
		t.Errorf("the other host was asked: %q", got)
	}
}

// A server whose stream never begins does not hold up the rest.
func TestHTTPStreamThatNeverBegins(t *testing.T) {
	t.Parallel()
	_, url := serve(t, func(_ http.ResponseWriter, r *http.Request, _ request) bool {
		if r.Method == http.MethodGet {
			<-r.Context().Done()
			return true
		}
		return false
	})
	o, _ := options(t)
	if r := call(t, set(t, connect(t, remote(url, mcp.HTTP), o)), "mcp__net__do", `{}`); r.Error {
		t.Error(r.Text)
	}
	o.InitTimeout = time.Second // before it is given up on
	begin := time.Now()
	if _, err := mcp.Connect(t.Context(), remote(url, mcp.HTTP), o); err == nil || time.Since(begin) > faults.Bound(15*time.Second) {
		t.Errorf("%v after %v", err, time.Since(begin))
	}
}

func TestHTTPUnauthorized(t *testing.T) {
	t.Parallel()
	_, url := serve(t, func(w http.ResponseWriter, _ *http.Request, _ request) bool {
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	o, _ := options(t)
	_, err := mcp.Connect(t.Context(), remote(url, mcp.HTTP), o)
	if err == nil || !strings.Contains(err.Error(), "answers 401 Unauthorized; check the headers") {
		t.Error(err)
	}
}

// A server that forgot the session has done nothing: the call is made again in a new one.
func TestHTTPForgottenSession(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusNotFound, http.StatusBadRequest} {
		var mu sync.Mutex
		forgot := false
		_, url := serve(t, func(w http.ResponseWriter, _ *http.Request, q request) bool {
			mu.Lock()
			defer mu.Unlock()
			if q.Method != "tools/call" || forgot {
				return false
			}
			forgot = true
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}`)
			return true
		})
		o, _ := options(t)
		if r := call(t, set(t, connect(t, remote(url, mcp.HTTP), o)), "mcp__net__do", `{}`); r.Error || r.Text != "done" {
			t.Errorf("%d: %+v", status, r)
		}
	}
}

// A server that speaks nothing but the newest version, which has no sessions, is spoken to in it.
func TestHTTPStateless(t *testing.T) {
	t.Parallel()
	modern := sdk.NewServer(&sdk.Implementation{Name: "modern", Version: "1"}, &sdk.ServerOptions{SupportedProtocolVersions: []string{"2026-07-28"}})
	modern.AddTool(&sdk.Tool{Name: "do", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "done"}}}, nil
	})
	server := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return modern }, &sdk.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(server.Close)
	o, _ := options(t)
	if r := call(t, set(t, connect(t, remote(server.URL, mcp.HTTP), o)), "mcp__net__do", `{}`); r.Error || r.Text != "done" {
		t.Errorf("%+v", r)
	}
}

// A server that has too many requests open is ended over HTTP, too, in the stream of a call and in one for everything. Those that were answered do not count.
func TestHTTPOpenRequests(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{mcp.HTTP, mcp.SSE} {
		for _, answered := range []bool{true, false} {
			t.Run(fmt.Sprint(transport, " ", answered), func(t *testing.T) {
				t.Parallel()
				answers, messages, sent := make(chan struct{}), make(chan string), make(chan int, 1)
				event := func(w http.ResponseWriter, format string, args ...any) error {
					_, err := fmt.Fprintf(w, format+"\n\n", args...)
					w.(http.Flusher).Flush()
					return err
				}
				id := ""
				if !answered {
					id = strings.Repeat("x", 64<<10) // more than what lies between us holds
				}
				flood := func(w http.ResponseWriter, r *http.Request, q request) {
					n := 0
					defer func() { sent <- n }()
					for ; n < 600; n++ {
						if event(w, `data: {"jsonrpc":"2.0","id":"%s%d","method":"ping"}`, id, n) != nil {
							return
						}
						if !answered {
							continue
						}
						select {
						case <-answers:
						case <-r.Context().Done():
							return
						}
					}
					_ = event(w, `data: {"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, text("done"))
				}
				_, url := serve(t, func(w http.ResponseWriter, r *http.Request, q request) bool {
					switch {
					case q.Method == "" && r.Method == http.MethodPost: // an answer
						if !answered {
							<-r.Context().Done()
						} else if w.WriteHeader(http.StatusAccepted); true {
							go func() { answers <- struct{}{} }()
						}
					case transport == mcp.SSE && r.Method == http.MethodGet:
						w.Header().Set("Content-Type", "text/event-stream")
						_ = event(w, "event: endpoint\ndata: /mcp")
						for r.Context().Err() == nil {
							select {
							case m := <-messages:
								if !strings.HasPrefix(m, "{") {
									flood(w, r, request{ID: json.RawMessage(m)})
								} else if event(w, "data: %s", m) != nil {
									return true
								}
							case <-r.Context().Done():
							}
						}
					case q.Method == "tools/call" && transport == mcp.SSE:
						w.WriteHeader(http.StatusAccepted)
						go func() { messages <- string(q.ID) }()
					case q.Method == "tools/call":
						w.Header().Set("Content-Type", "text/event-stream")
						flood(w, r, q)
					case transport == mcp.SSE && len(q.ID) > 0:
						rec := httptest.NewRecorder()
						(&site{}).ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(fmt.Sprintf(`{"id":%s,"method":%q}`, q.ID, q.Method))))
						w.WriteHeader(http.StatusAccepted)
						go func() { messages <- rec.Body.String() }()
					default:
						return false
					}
					return true
				})
				o, _ := options(t)
				o.CallTimeout = 30 * time.Second
				r := call(t, set(t, connect(t, remote(url, transport), o)), "mcp__net__do", `{}`)
				want := "has more than 64 requests open at once"
				if answered {
					want = "done"
				}
				if r.Error == answered || !strings.Contains(r.Text, want) {
					t.Errorf("%+v, want %s", r, want)
				}
				if n := <-sent; (n == 600) != answered {
					t.Errorf("%d requests were sent", n)
				}
			})
		}
	}
}
