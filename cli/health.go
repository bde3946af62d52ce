package cli

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/promtext"
)

// checkHealth refuses an address that others could reach: the page has no password.
func checkHealth(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); addr != "" && (err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback())) {
		return usage(fmt.Sprintf("--health: %q is not an address of this machine; use one such as 127.0.0.1:9090, and let an agent of your monitoring read it there", addr))
	}
	return nil
}

// staleAfter is how old the last look of a worker may be for it to count as ready.
const staleAfter = 60 * time.Second

// serveHealth serves the health page of a worker until end is called. The worker is ready while it looks for runs and was not asked to stop.
func serveHealth(ctx context.Context, addr string, e *superstep.Engine) (url string, end func(), err error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return "", nil, &Error{Exit: ExitFailed, Code: "listen", Err: err, Message: fmt.Sprintf("cannot listen on %s: %v", addr, err),
			Next: []string{"let the system choose a free port: --health 127.0.0.1:0"}}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		switch load := e.Load(); {
		case ctx.Err() != nil:
			http.Error(w, "stopping: it takes no more runs", http.StatusServiceUnavailable)
		case time.Since(load.Looked) > staleAfter:
			http.Error(w, "it could not look for runs for a while: is the store there?", http.StatusServiceUnavailable)
		default:
			_, _ = fmt.Fprintln(w, "ok")
		}
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		load, lag := e.Load(), time.Duration(0)
		if !load.Oldest.IsZero() {
			lag = max(0, time.Since(load.Oldest))
		}
		gauge := func(name, help string, v float64) promtext.Metric {
			return promtext.Metric{Name: "superstep_worker_" + name, Help: help, Values: map[string]float64{"": v}}
		}
		taken := gauge("taken_total", "Runs that this worker has taken.", float64(load.Taken))
		taken.Counter = true
		w.Header().Set("Content-Type", promtext.ContentType)
		_ = promtext.Write(w, []promtext.Metric{ // an error means that the reader has left
			gauge("executing", "Runs that execute in this worker.", float64(load.Executing)), taken,
			gauge("queued", "Runs that this worker could take, now or later.", float64(load.Waiting)),
			gauge("elsewhere", "Queued runs that need a label that this worker does not have.", float64(load.Elsewhere)),
			gauge("lag_seconds", "Age of the oldest run that this worker could take now.", lag.Seconds()),
			gauge("look_age_seconds", "Time since this worker last looked for runs.", time.Since(load.Looked).Seconds()),
		})
	})
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	return "http://" + l.Addr().String() + "/metrics", func() { _ = s.Close(); <-done }, nil
}
