package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/runlog"
)

// The health page tells what a worker has to do, and that it is ready once it has looked and until it is stopped.
func TestHealth(t *testing.T) {
	store := runlog.NewMemory(nil)
	e, err := superstep.New(store, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	url, end, err := serveHealth(ctx, "127.0.0.1:0", e)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	get := func(path string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimSuffix(url, "/metrics")+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(resp.StatusCode, " ", resp.Header.Get("Content-Type"), "\n", string(body))
	}
	want := func(path string, texts ...string) {
		t.Helper()
		got := get(path)
		for _, text := range texts {
			if !strings.Contains(got, text) {
				t.Errorf("%s: %q is missing in\n%s", path, text, got)
			}
		}
	}
	want("/healthz", "200 ", "ok")
	want("/readyz", "503 ", "could not look for runs")
	for _, q := range []string{`{}`, `{"place":["gpu"]}`} {
		log, _, err := store.Acquire(t.Context(), fmt.Sprint("r", len(q)), &runlog.AcquireOptions{Create: &runlog.NewRun{Workflow: "gone", Status: runlog.Queued}})
		if err != nil {
			t.Fatal(err)
		}
		b := &runlog.Batch{Summary: `{"queue":` + q + `}`, Records: []runlog.Record{{Kind: runlog.KindRunStarted, Time: time.Now(), Data: []byte(`{}`)}}}
		if err := log.Append(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if err := log.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	served, looked := make(chan error, 1), make(chan struct{}, 1)
	go func() {
		served <- e.Serve(ctx, &superstep.RecoverOptions{Skipped: func(string, error) { looked <- struct{}{} }})
	}()
	<-looked
	for e.Load().Looked.IsZero() {
		if ctx.Err() != nil {
			t.Fatal(ctx.Err())
		}
	}
	want("/readyz", "200 ")
	want("/metrics", "200 text/plain; version=0.0.4", "# TYPE superstep_worker_taken_total counter\nsuperstep_worker_taken_total 0\n",
		"# TYPE superstep_worker_elsewhere gauge\nsuperstep_worker_elsewhere 1\n", "superstep_worker_executing 0\n", "superstep_worker_lag_seconds 0\n",
		"superstep_worker_look_age_seconds ")
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	want("/readyz", "503 ", "stopping")
}
