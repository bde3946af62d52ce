package openai

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

// A watchdog ends an attempt whose server is silent. It only counts time spent waiting
// for the server, not what the reader of the stream does in between.
type watchdog struct {
	idle  time.Duration
	timer *time.Timer
}

func newWatchdog(idle time.Duration, cancel context.CancelCauseFunc) *watchdog {
	w := &watchdog{idle: idle}
	if idle > 0 {
		w.timer = time.AfterFunc(idle, func() { cancel(errIdle) })
	}
	return w
}

func (w *watchdog) start() {
	if w.timer != nil {
		w.timer.Reset(w.idle)
	}
}

func (w *watchdog) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// A post is the transport of one attempt, under the library.
type post struct {
	model  *Model
	wire   *wireRequest
	key    string
	watch  *watchdog
	sent   bool
	events *events // of the response, once Do returned one
}

// Do sends the request. Statuses other than success become errors here, where their
// headers are known and their size is bounded.
func (p *post) Do(req *http.Request) (*http.Response, error) {
	if err := p.prepare(req); err != nil {
		return nil, err
	}
	p.sent = true
	p.watch.start()
	resp, err := p.model.client.Do(req)
	p.watch.stop()
	if err != nil {
		return nil, err
	}
	body := &source{body: resp.Body, watch: p.watch, left: p.model.opts.MaxBytes}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(body, maxErrorBody)) // what could be read says enough
		return nil, p.model.statusError(resp, text)
	}
	if err := checkType(resp.Header); err != nil {
		resp.Body.Close()
		return nil, p.model.malformed(err.Error())
	}
	p.events = newEvents(body)
	resp.Body = p.events
	return resp, nil
}

func (p *post) prepare(req *http.Request) error {
	if p.key != "" {
		req.Header.Set("Idempotency-Key", p.key)
	}
	// A compressed stream arrives late, and may unpack to anything.
	req.Header.Set("Accept-Encoding", "identity")
	if !p.wire.zeroTemperature {
		return nil
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return err
	}
	body = append([]byte(`{"temperature":0,`), bytes.TrimPrefix(body, []byte("{"))...)
	req.ContentLength = int64(len(body))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	req.Body, err = req.GetBody()
	return err
}

// checkType refuses answers that cannot be a stream. Servers that call theirs something
// odd are given the benefit of the doubt.
func checkType(h http.Header) error {
	if enc := h.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return fmt.Errorf("the answer is compressed with %q although that was refused; check the proxy between here and the server", clip(enc, 40))
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

// A source reads a body under the watchdog and up to a size.
type source struct {
	body  io.ReadCloser
	watch *watchdog
	left  int64
}

func (s *source) Read(p []byte) (int, error) {
	if s.left <= 0 {
		return 0, fmt.Errorf("%w: the stream is larger than the limit; lower the output limit or raise Options.MaxBytes", errTooLarge)
	}
	s.watch.start()
	n, err := s.body.Read(p[:min(int64(len(p)), s.left)])
	s.watch.stop()
	s.left -= int64(n)
	return n, err
}

func (s *source) Close() error { return s.body.Close() }

// statusError describes a response that is not a success.
func (m *Model) statusError(resp *http.Response, body []byte) *model.Error {
	e := m.newError(readProblem(body))
	e.Status = resp.StatusCode
	e.RetryAfter = retryAfter(resp.Header, time.Now())
	e.Temporary = temporaryStatus(e.Status) && e.Code != "insufficient_quota"
	if to := resp.Header.Get("Location"); to != "" && e.Status >= 300 && e.Status < 400 {
		if u, err := resp.Request.URL.Parse(to); err == nil {
			e.Err = fmt.Errorf("a redirect to %s, which is not followed because the key would go along; correct the base URL", m.clean(u.Scheme+"://"+u.Host+u.Path))
		}
	}
	return e
}
