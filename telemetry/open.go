package telemetry

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/superstep-dev/superstep/runlog"
)

// Config says where telemetry goes. Nil means the defaults. The variables OTEL_* are those of the OpenTelemetry specification, see docs/telemetry.md.
type Config struct {
	Options
	On       bool                // even if no variable names a collector: then http://localhost:4318 is the default
	Endpoint string              // of a collector, in place of the variables; "" for what they say
	Env      func(string) string // defaults to os.Getenv
	Offline  bool                // refuse a collector that is not on this machine
	Version  string              // of the program
	Warn     func(text string)   // is told once how much was not sent; defaults to nobody
}

// Telemetry sends spans and metrics to a collector. Its methods may be called from several goroutines.
type Telemetry struct {
	*Spans
	queue  *queue
	spans  *sdktrace.TracerProvider
	meters *reporter // nil if no metrics are wanted
	opt    Options
	warn   func(string)
	close  sync.Once
}

const (
	queued    = 2048 // spans that wait to be sent; more are dropped
	batched   = 512
	batchWait = time.Second
	flushWait = 2 * time.Second
	most      = 64 << 10 // bytes of an answer that are read
	usual     = "http://localhost:4318"
)

// Open returns nil without an error if telemetry is off: if the configuration does not turn it on, and no variable names a collector. It connects to nothing.
func Open(c *Config) (*Telemetry, error) { return open(c, false) }

func open(c *Config, wait bool) (*Telemetry, error) {
	var o Config
	if c != nil {
		o = *c
	}
	if o.Env == nil {
		o.Env = os.Getenv
	}
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	env := o.Env
	base := cmp.Or(o.Endpoint, env("OTEL_EXPORTER_OTLP_ENDPOINT"))
	traces, measures := env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), env("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")
	if off, _ := strconv.ParseBool(env("OTEL_SDK_DISABLED")); off || !o.On && base == "" && traces == "" && measures == "" {
		return nil, nil
	}
	if p := cmp.Or(env("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), env("OTEL_EXPORTER_OTLP_PROTOCOL"), "http/protobuf"); p != "http/protobuf" {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL=%s is not supported; use http/protobuf, on port 4318", p)
	}
	if o.Endpoint != "" {
		traces, measures = "", ""
	}
	base = strings.TrimSuffix(strings.TrimSuffix(cmp.Or(base, usual), "/"), "/v1/traces")
	client := &http.Client{Timeout: 10 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if ms, err := strconv.Atoi(env("OTEL_EXPORTER_OTLP_TIMEOUT")); err == nil && ms > 0 {
		client.Timeout = time.Duration(ms) * time.Millisecond
	}
	closing := make(chan struct{})
	sender := func(signal, endpoint string) (*sender, error) {
		s := &sender{client: client, closing: closing, url: cmp.Or(endpoint, base+"/v1/"+strings.ToLower(signal)), gzip: env("OTEL_EXPORTER_OTLP_COMPRESSION") == "gzip"}
		u, err := url.Parse(s.url)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, errors.New("the address of the collector is no URL such as " + usual)
		}
		if s.shown = u.Redacted(); o.Offline && !loopback(u.Hostname()) {
			return nil, fmt.Errorf("the collector %s is not on this machine, and --offline refuses that; unset OTEL_EXPORTER_OTLP_ENDPOINT, or name a collector here", s.shown)
		}
		s.header, err = headers(cmp.Or(env("OTEL_EXPORTER_OTLP_"+signal+"_HEADERS"), env("OTEL_EXPORTER_OTLP_HEADERS")))
		return s, err
	}
	to, err := sender("TRACES", traces)
	if err != nil {
		return nil, err
	}
	about := resourceOf(env, o.Version)
	t := &Telemetry{opt: o.Options, warn: o.Warn, queue: newQueue(to, about, wait)}
	if v, err := strconv.ParseBool(env("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT")); err == nil {
		t.opt.Content = t.opt.Content || v
	}
	for name := range strings.SplitSeq(env("SUPERSTEP_OTEL_NAMES"), ",") {
		switch strings.TrimSpace(name) {
		case "langfuse":
			t.opt.Langfuse = true
		case "openinference":
			t.opt.OpenInference = true
		}
	}
	if !wait && env("OTEL_METRICS_EXPORTER") != "none" {
		to, err := sender("METRICS", measures)
		if err != nil {
			t.queue.stop(context.Background())
			return nil, err
		}
		t.meters = newReporter(to, about, env)
	}
	providing := []sdktrace.TracerProviderOption{sdktrace.WithResource(about), sdktrace.WithIDGenerator(IDs()), sdktrace.WithSampler(sampler(env)),
		sdktrace.WithRawSpanLimits(sdktrace.SpanLimits{AttributeValueLengthLimit: -1, AttributeCountLimit: 128, EventCountLimit: 128, LinkCountLimit: 128,
			AttributePerEventCountLimit: 128, AttributePerLinkCountLimit: 128})}
	if env("OTEL_TRACES_EXPORTER") != "none" {
		providing = append(providing, sdktrace.WithSpanProcessor(t.queue))
	}
	t.spans = sdktrace.NewTracerProvider(providing...)
	t.Spans = NewSpans(t.spans, &t.opt)
	if t.meters != nil {
		t.Spans.metrics = t.meters.metrics
	}
	return t, nil
}

// Send exports a run of all its records to a collector and waits for its answers.
func Send(ctx context.Context, run string, recs iter.Seq2[runlog.Record, error], c *Config) (spans int, err error) {
	t, err := open(c, true)
	if err != nil || t == nil {
		return 0, err
	}
	err = Export(ctx, run, recs, t.spans, &t.opt)
	t.queue.stop(ctx)
	if lost := t.queue.dropped(); err == nil && lost > 0 {
		err = fmt.Errorf("%d of %d spans were not taken by %s: %w", lost, t.queue.all, t.queue.to.shown, t.queue.err)
	}
	return t.queue.all, err
}

// Close sends what is left, for at most 2 s. It does not wait for a collector that is not there.
func (t *Telemetry) Close() {
	if t == nil {
		return
	}
	t.close.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), flushWait)
		defer cancel()
		close(t.queue.to.closing)
		var both sync.WaitGroup
		both.Go(func() { t.queue.stop(ctx) })
		if t.meters != nil {
			both.Go(func() { t.meters.stop(ctx) })
		}
		both.Wait()
		if lost := t.queue.dropped(); lost > 0 {
			t.warn(fmt.Sprintf("telemetry: %d of %d spans were not sent to %s: %v; send them with runs export ID --otlp", lost, t.queue.all, t.queue.to.shown, t.queue.err))
		}
	})
}

// sampler decides by the trace alone, so that a trace is whole or absent. A caller that does not sample is followed by the fold.
func sampler(env func(string) string) sdktrace.Sampler {
	switch name := strings.TrimPrefix(env("OTEL_TRACES_SAMPLER"), "parentbased_"); name {
	case "always_off":
		return sdktrace.NeverSample()
	case "traceidratio":
		if share, err := strconv.ParseFloat(env("OTEL_TRACES_SAMPLER_ARG"), 64); err == nil {
			return sdktrace.TraceIDRatioBased(share)
		}
	}
	return sdktrace.AlwaysSample()
}

func resourceOf(env func(string) string, version string) *resource.Resource {
	attrs := []attribute.KeyValue{attribute.String("service.name", "superstep"), attribute.String("telemetry.sdk.language", "go"), attribute.String("telemetry.sdk.name", "opentelemetry")}
	if version != "" {
		attrs = append(attrs, attribute.String("service.version", version))
	}
	for pair := range strings.SplitSeq(env("OTEL_RESOURCE_ATTRIBUTES"), ",") {
		if k, v, ok := strings.Cut(pair, "="); ok {
			if plain, err := url.PathUnescape(strings.TrimSpace(v)); err == nil {
				attrs = append(attrs, attribute.String(strings.TrimSpace(k), plain))
			}
		}
	}
	if name := env("OTEL_SERVICE_NAME"); name != "" {
		attrs = append(attrs, attribute.String("service.name", name))
	}
	return resource.NewSchemaless(attrs...) // the last of a key holds
}

// headers reads NAME=value pairs with commas between them. Its error does not repeat them: they hold secrets.
func headers(text string) (http.Header, error) {
	h := http.Header{}
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		plain, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || err != nil {
			return nil, errors.New("OTEL_EXPORTER_OTLP_HEADERS is no list such as Authorization=Basic%20…,X-Team=lab")
		}
		h.Set(strings.TrimSpace(name), plain)
	}
	return h, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// sender posts to a collector.
type sender struct {
	client     *http.Client
	url, shown string
	header     http.Header
	gzip       bool
	closing    chan struct{} // closed when a collector that is not there is not to be waited for
}

// post tries three times while the collector is busy, or may be back soon.
func (s *sender) post(ctx context.Context, body []byte) error {
	if s.gzip {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write(body) // into memory
		_ = w.Close()
		body = b.Bytes()
	}
	for n := 1; ; n++ {
		again, err := s.once(ctx, body)
		if !again || n == 3 {
			return err
		}
		var closing chan struct{}
		if errors.Is(err, syscall.ECONNREFUSED) {
			closing = s.closing
		}
		select {
		case <-ctx.Done():
			return err
		case <-closing:
			return err
		case <-time.After(time.Duration(n) * time.Second):
		}
	}
}

func (s *sender) once(ctx context.Context, body []byte) (again bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	for name, values := range s.header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	if s.gzip {
		req.Header.Set("Content-Encoding", "gzip")
	}
	resp, err := s.client.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // without the address, which may have a password
		}
		return ctx.Err() == nil, err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, most)) // for the next request on the connection
	switch {
	case resp.StatusCode/100 == 2:
		return false, nil
	case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 502 && resp.StatusCode <= 504:
		again = true
	}
	return again, errors.New("it answers " + resp.Status)
}

// queue sends spans in batches on a goroutine of its own. It implements sdktrace.SpanProcessor. Whoever ends a span does not wait, unless wait is set: what
// does not fit is dropped and counted.
type queue struct {
	to    *sender
	about *resource.Resource
	wait  bool
	spans chan sdktrace.ReadOnlySpan
	ctx   context.Context //nolint:containedctx // of its goroutine
	end   context.CancelFunc
	ended chan struct{}

	mu     sync.Mutex
	closed bool
	all    int
	sent   int
	err    error // the first
}

func newQueue(to *sender, about *resource.Resource, wait bool) *queue {
	q := &queue{to: to, about: about, wait: wait, spans: make(chan sdktrace.ReadOnlySpan, queued), ended: make(chan struct{})}
	q.ctx, q.end = context.WithCancel(context.Background())
	go q.run()
	return q
}

// OnStart implements sdktrace.SpanProcessor.
func (*queue) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

// OnEnd implements sdktrace.SpanProcessor.
func (q *queue) OnEnd(s sdktrace.ReadOnlySpan) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.all++; q.closed {
		return
	}
	if q.wait { // nothing closes it meanwhile
		q.mu.Unlock()
		defer q.mu.Lock()
		q.spans <- s
		return
	}
	select {
	case q.spans <- s:
	default:
		q.err = cmp.Or(q.err, errFull)
	}
}

var errFull = errors.New("it takes them too slowly")

// Shutdown implements sdktrace.SpanProcessor.
func (*queue) Shutdown(context.Context) error { return nil }

// ForceFlush implements sdktrace.SpanProcessor.
func (*queue) ForceFlush(context.Context) error { return nil }

func (q *queue) run() {
	defer close(q.ended)
	for s := range q.spans {
		batch := append(make([]sdktrace.ReadOnlySpan, 0, batched), s)
		late := time.After(batchWait)
	fill:
		for len(batch) < batched {
			select {
			case s, more := <-q.spans:
				if !more {
					break fill
				}
				batch = append(batch, s)
			case <-late:
				break fill
			}
		}
		err := q.to.post(q.ctx, encodeSpans(q.about, batch))
		q.count(len(batch), err)
	}
}

func (q *queue) count(n int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err == nil {
		q.sent += n
	} else if q.err == nil || errors.Is(q.err, errFull) {
		q.err = err
	}
}

// stop sends what is left until ctx ends.
func (q *queue) stop(ctx context.Context) {
	q.mu.Lock()
	if !q.closed {
		q.closed = true
		close(q.spans)
	}
	q.mu.Unlock()
	stop := context.AfterFunc(ctx, q.end)
	defer stop()
	<-q.ended
	q.end()
}

func (q *queue) dropped() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.all - q.sent
}
