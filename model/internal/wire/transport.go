package wire

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/superstep-dev/superstep/model"
)

// A watchdog ends an attempt whose answer makes no progress. It only counts time spent waiting
// for the server, not what the reader of the stream does in between.
type watchdog struct {
	idle  time.Duration
	left  time.Duration // of it, until the next progress
	since time.Time     // when the waiting began that is going on
	timer *time.Timer
}

func newWatchdog(idle time.Duration, cancel context.CancelCauseFunc) *watchdog {
	w := &watchdog{idle: idle, left: idle}
	if idle > 0 {
		w.timer = time.AfterFunc(idle, func() { cancel(errIdle) })
		w.timer.Stop()
	}
	return w
}

func (w *watchdog) start() {
	if w.timer != nil {
		w.since = time.Now()
		w.timer.Reset(w.left)
	}
}

func (w *watchdog) stop() {
	if w.timer != nil && w.timer.Stop() {
		w.left -= time.Since(w.since)
	}
}

// progress restarts the count.
func (w *watchdog) progress() { w.left = w.idle }

// An exchange is the request and the response of one attempt.
type exchange struct {
	client *Client
	key    string // for idempotency
	trace  string // "" for none
	watch  *watchdog
	sent   bool
	id     string  // the server's name for the request
	events *events // of the response, once there is one that is a stream
}

// do sends the request. Statuses other than success become errors here, where their
// headers are known and their size is bounded.
func (x *exchange) do(ctx context.Context, post *Post) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, x.client.config.BaseURL+post.Path, bytes.NewReader(post.Body))
	if err != nil {
		return err
	}
	x.head(req.Header, post)
	x.sent = true
	x.watch.start()
	resp, err := x.client.http.Do(req)
	x.watch.stop()
	if err != nil {
		return err
	}
	x.watch.progress()
	x.id = requestID(resp.Header)
	body := &source{ctx: ctx, body: resp.Body, watch: x.watch, left: x.client.config.MaxBytes}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(body, maxErrorBody)) // what could be read says enough
		return x.client.statusError(resp, text)
	}
	if err := checkType(resp.Header); err != nil {
		resp.Body.Close()
		return x.client.fault(model.CodeMalformed, err.Error())
	}
	x.events = newEvents(body)
	return nil
}

func (x *exchange) head(h http.Header, post *Post) {
	h.Set("Content-Type", "application/json")
	h.Set("Accept", "text/event-stream")
	// A compressed stream arrives late, and its unpacked size is unlimited.
	h.Set("Accept-Encoding", "identity")
	if x.key != "" {
		h.Set("Idempotency-Key", x.key)
	}
	if x.trace != "" {
		h.Set("Traceparent", x.trace)
	}
	for name, value := range post.Header {
		h.Set(name, value)
	}
	for _, k := range x.client.keys() {
		h.Set(k.Header, k.Prefix+k.Value)
	}
}

func (x *exchange) close() { _ = x.events.body.body.Close() } // its errors have been seen by then

// identify adds the server's request ID to an error, for questions to its support.
func (x *exchange) identify(e *model.Error) {
	if x.id != "" && e.Code != model.CodeCanceled {
		e.Err = fmt.Errorf("%w (request %s)", e.Err, x.client.clean(Clip(x.id, 80)))
	}
}

func requestID(h http.Header) string {
	if id := h.Get("Request-Id"); id != "" {
		return id
	}
	return h.Get("X-Request-Id")
}

// checkType refuses answers that cannot be a stream. Servers that call theirs something
// odd are given the benefit of the doubt.
func checkType(h http.Header) error {
	if enc := h.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return fmt.Errorf("the answer is compressed with %q although that was refused; check the proxy between here and the server", Clip(enc, 40))
	}
	if kind, _, _ := mime.ParseMediaType(h.Get("Content-Type")); kind == "text/html" {
		return fmt.Errorf("the answer is a web page and not a stream; check the base URL")
	}
	return nil
}

// sameHost follows redirects that stay on the host, since the key goes along.
func sameHost(next func(*http.Request, []*http.Request) error) func(*http.Request, []*http.Request) error {
	return func(req *http.Request, via []*http.Request) error {
		first := via[0]
		if req.URL.Scheme != first.URL.Scheme || req.URL.Host != first.URL.Host || req.Method != first.Method || len(via) > 5 {
			return http.ErrUseLastResponse
		}
		if next != nil {
			return next(req, via)
		}
		return nil
	}
}

// A source reads a body under the watchdog, up to a size, and until its context ends: a
// server that never lets a read block must not outrun it.
type source struct {
	ctx   context.Context
	body  io.ReadCloser
	watch *watchdog
	left  int64
}

func (s *source) Read(p []byte) (int, error) {
	if s.left <= 0 {
		return 0, fmt.Errorf("%w: the stream is larger than the limit; lower the output limit or raise Options.MaxBytes", errTooLarge)
	}
	if s.ctx.Err() != nil {
		return 0, s.ctx.Err()
	}
	s.watch.start()
	n, err := s.body.Read(p[:min(int64(len(p)), s.left)])
	s.watch.stop()
	s.left -= int64(n)
	return n, err
}
