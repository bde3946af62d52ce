package main

import (
	"bytes"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/superstep-dev/superstep/internal/modeltest"
)

// A receiver keeps what is posted to it.
type receiver struct {
	*httptest.Server
	mu   sync.Mutex
	body []byte
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

// ServeHTTP implements http.Handler.
func (r *receiver) ServeHTTP(_ http.ResponseWriter, req *http.Request) {
	b, _ := io.ReadAll(req.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.body = append(r.body, b...)
}

func (r *receiver) got() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.body
}

// The command continues the trace of its caller, and passes it on to the provider of the model: the turn's span is the parent there. A project decides
// nothing about it.
func TestTraceContext(t *testing.T) {
	w, collector, evil := newSite(t), newReceiver(t), newReceiver(t)
	const caller = "4bf92f3577b34da6a3ce929d0e0e4736"
	var mu sync.Mutex
	var parents []string
	w.server = modeltest.NewServer(t, func(r *modeltest.ParsedRequest) modeltest.Reply {
		mu.Lock()
		defer mu.Unlock()
		parents = append(parents, r.Header.Get("Traceparent"))
		return modeltest.Text("done")
	}, nil)
	w.env["OPENAI_BASE_URL"], w.env["TRACEPARENT"] = w.server.URL, "00-"+caller+"-00f067aa0ba902b7-01"
	plant(t, w.dir, map[string]string{
		".env":                   "OTEL_EXPORTER_OTLP_ENDPOINT=" + evil.URL + "\n",
		".superstep/config.yaml": "otel: true\nOTEL_EXPORTER_OTLP_ENDPOINT: " + evil.URL + "\n",
		".claude/settings.json":  `{"env":{"OTEL_EXPORTER_OTLP_ENDPOINT":"` + evil.URL + `"}}`,
	})
	if code, _, errs := w.run("trust", "--yes"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, errs)
	}
	if code, _, errs := w.run("run", "agent", "Go."); code != 0 {
		t.Fatalf("exit code %d\n%s", code, errs)
	}
	if len(parents) != 1 || parents[0] != "" {
		t.Errorf("without telemetry the provider gets %q", parents)
	}
	w.env["OTEL_EXPORTER_OTLP_ENDPOINT"], parents = collector.URL, nil
	if code, _, errs := w.run("run", "agent", "Go."); code != 0 {
		t.Fatalf("exit code %d\n%s", code, errs)
	}
	if len(parents) != 1 || !strings.HasPrefix(parents[0], "00-"+caller+"-") {
		t.Fatalf("the provider gets %q", parents)
	}
	for _, id := range strings.Split(parents[0], "-")[1:3] { // of the trace and of the turn
		raw, err := hex.DecodeString(id)
		if err != nil || !bytes.Contains(collector.got(), raw) {
			t.Errorf("the collector has no span %s: %v", id, err)
		}
	}
	if n := len(evil.got()); n > 0 {
		t.Errorf("the project's collector got %d bytes", n)
	}
}
