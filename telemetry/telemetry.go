// Package telemetry makes OpenTelemetry spans and metrics of the logs of runs. It is a fold over records: nothing in the engine knows of it. The identities
// and times of spans come from the log, so a run that is exported afterwards gives the same spans as one that was observed, each time.
//
//	t, err := telemetry.Open(&telemetry.Config{On: true})
//	engine, err := superstep.New(store, &superstep.Options{Workflows: all, Observe: t.Apply})
package telemetry

import (
	"context"
	"iter"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/redact"
)

// scope is the name of the instrumentation.
const scope = "github.com/superstep-dev/superstep/telemetry"

// Options are the settings of NewSpans and Export. Nil means the defaults.
type Options struct {
	Content       bool                                  // what models and tools were given and said, redacted and cut at 8 KB an attribute
	Supersteps    bool                                  // a span for each superstep
	OpenInference bool                                  // also the names that Phoenix and Arize read
	Langfuse      bool                                  // also the names that Langfuse reads
	Attributes    func(run string) []attribute.KeyValue // of every span of the run, such as user.id; defaults to none
	Redact        func(text string) string              // redacts content, in addition to what the log lacks; defaults to the known shapes of credentials
	Meters        metric.MeterProvider                  // for metrics; defaults to none. Export records none
}

// Spans turns records into spans and metrics. Its methods may be called from several goroutines.
type Spans struct {
	tracer  trace.Tracer
	opt     Options
	metrics *metrics // nil for none

	mu   sync.Mutex
	runs map[string]*fold
}

// NewSpans returns a fold whose spans go to a provider. The provider must have been created with sdktrace.WithIDGenerator(IDs()), otherwise children do
// not find their parents.
func NewSpans(tp trace.TracerProvider, opt *Options) *Spans {
	s := &Spans{tracer: tp.Tracer(scope), runs: map[string]*fold{}}
	if opt != nil {
		s.opt = *opt
	}
	if s.opt.Redact == nil {
		s.opt.Redact = redact.New().Text
	}
	if s.opt.Meters != nil {
		s.metrics = newMetrics(s.opt.Meters.Meter(scope))
	}
	return s
}

// Apply takes the next record of a run. Records come in order, from the first on; a record with the number 1 begins anew. Only the records with live set
// give spans and metrics: the others were exported by the process that wrote them. Live-only records are ignored.
func (s *Spans) Apply(run string, r runlog.Record, live bool) {
	if r.Seq == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.runs[run]
	if f == nil || r.Seq == 1 {
		f = &fold{s: s, run: run}
		s.runs[run] = f
	}
	if r.Seq <= f.seq {
		return
	}
	f.seq, f.live = r.Seq, live
	f.apply(&r)
	if live && f.exec == nil && f.previous.IsValid() { // the execution has ended
		delete(s.runs, run)
	}
}

// Export makes the spans of a run of all its records. An execution whose end is not in the log ends with its last record.
func Export(_ context.Context, run string, recs iter.Seq2[runlog.Record, error], tp trace.TracerProvider, opt *Options) error {
	o := Options{}
	if opt != nil {
		o = *opt
	}
	o.Meters = nil
	s := NewSpans(tp, &o)
	f := &fold{s: s, run: run, live: true}
	for r, err := range recs {
		if err != nil {
			return err
		}
		if r.Seq > f.seq {
			f.seq = r.Seq
			f.apply(&r)
		}
	}
	f.end(runlog.Interrupted, "", f.last)
	return nil
}

// IDs returns the generator of the identities of spans, which reads them from the context of each span.
func IDs() sdktrace.IDGenerator { return ids{} }

type ids struct{}

// identity is the key of the context of a span.
type identity struct{}

type spanID struct {
	trace trace.TraceID
	span  trace.SpanID
}

// NewIDs implements sdktrace.IDGenerator.
func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	id, _ := ctx.Value(identity{}).(spanID)
	return id.trace, id.span
}

// NewSpanID implements sdktrace.IDGenerator.
func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	id, _ := ctx.Value(identity{}).(spanID)
	return id.span
}
