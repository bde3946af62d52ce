package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

// A server at localhost answers those who ask it by that name, and no other one.
func TestServeLocalhost(t *testing.T) {
	out, in := io.Pipe()
	root := t.TempDir()
	a := newApp(&host.Config{Name: "superstep", NoModels: true, Env: func(name string) string {
		if name == "HOME" || strings.HasPrefix(name, "XDG_") {
			return root
		}
		return ""
	}}, &Options{Stdout: in, Stderr: io.Discard})
	a.set.output = "json"
	t.Chdir(root)
	ctx, stop := context.WithCancel(t.Context())
	a.stops = whenEnds(ctx)
	ended := make(chan error, 1)
	go func() { ended <- serveTools(ctx, a, "localhost:0") }()
	var at struct{ URL, Token string }
	if err := json.NewDecoder(out).Decode(&at); err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(strings.TrimPrefix(at.URL, "http://"), ":")
	for host, want := range map[string]int{"localhost:" + port: 200, "127.0.0.1:" + port: 200, "evil.example": 403, "localhost:1": 403} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at.URL, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		r.Header.Set("Authorization", "Bearer "+at.Token)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("Host %s: %s, want %d", host, resp.Status, want)
		}
	}
	stop()
	<-ended
}

// A port that is in use is named, with a way out.
func TestServePortInUse(t *testing.T) {
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	err = serveHTTP(t.Context(), newApp(nil, nil), l.Addr().String(), nil, nil)
	var e *Error
	if !errors.As(err, &e) || !strings.Contains(e.Message, l.Addr().String()) || !strings.Contains(strings.Join(e.Next, ""), "--http 127.0.0.1:0") {
		t.Errorf("%v", err)
	}
}

// A model answers what a workflow asks, but not what an MCP server asks the user during a call.
func TestByModel(t *testing.T) {
	t.Parallel()
	info := &runlog.Info{ID: "mcp-1", Status: runlog.Running}
	for key, want := range map[string]bool{"form": true, "during/ab-1": false, "during/ab-1/here-x": false} {
		data, err := json.Marshal(&runlog.Question{Key: key, Kind: runlog.QuestionForm, Text: "x", Schema: json.RawMessage(`{"type":"object"}`)})
		if err != nil {
			t.Fatal(err)
		}
		run := new(transcript.Run)
		run.Apply(runlog.Record{Seq: 1, Kind: runlog.KindRunStarted, Data: json.RawMessage(`{"workflow":"w"}`)})
		run.Apply(runlog.Record{Seq: 2, Kind: runlog.KindAsked, Path: "work", Data: data})
		if open := asked(info, run); len(open) != 1 || byModel(&open[0]) != want {
			t.Errorf("%s: %+v, want %v", key, open, want)
		}
	}
}
