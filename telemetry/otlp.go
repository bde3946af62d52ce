package telemetry

import (
	"encoding/binary"
	"math"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// proto is a message of protobuf. The numbers of the fields are those of opentelemetry-proto 1.x, which are stable. The official exporters link gRPC and
// the reflection of protobuf, several megabytes for the 20 messages below; a test decodes what this writes with the official messages.
type proto []byte

func (p *proto) tag(field, wire int) { p.uvarint(uint64(field<<3 | wire)) } //nolint:gosec // small

func (p *proto) uvarint(n uint64) { *p = binary.AppendUvarint(*p, n) }

func (p *proto) varint(field int, n uint64) {
	if n != 0 {
		p.tag(field, 0)
		p.uvarint(n)
	}
}

func (p *proto) fixed64(field int, n uint64) {
	p.tag(field, 1)
	*p = binary.LittleEndian.AppendUint64(*p, n)
}

func (p *proto) fixed32(field int, n uint32) {
	p.tag(field, 5)
	*p = binary.LittleEndian.AppendUint32(*p, n)
}

func (p *proto) double(field int, v float64) { p.fixed64(field, math.Float64bits(v)) }

func (p *proto) bytes(field int, b []byte) {
	p.tag(field, 2)
	p.uvarint(uint64(len(b)))
	*p = append(*p, b...)
}

func (p *proto) string(field int, s string) {
	if s != "" {
		p.bytes(field, []byte(s))
	}
}

// in writes a message in a field.
func (p *proto) in(field int, fill func(*proto)) {
	var inner proto
	fill(&inner)
	p.bytes(field, inner)
}

func (p *proto) attrs(field int, all []attribute.KeyValue) {
	for _, a := range all {
		p.in(field, func(p *proto) {
			p.string(1, string(a.Key))
			p.in(2, func(p *proto) { p.value(a.Value) })
		})
	}
}

func (p *proto) value(v attribute.Value) {
	switch v.Type() {
	case attribute.BOOL:
		p.tag(2, 0)
		if v.AsBool() {
			p.uvarint(1)
		} else {
			p.uvarint(0)
		}
	case attribute.INT64:
		p.tag(3, 0)
		p.uvarint(uint64(v.AsInt64())) //nolint:gosec // as int64 is encoded
	case attribute.FLOAT64:
		p.double(4, v.AsFloat64())
	case attribute.STRINGSLICE:
		p.in(5, func(p *proto) {
			for _, s := range v.AsStringSlice() {
				p.in(1, func(p *proto) { p.bytes(1, []byte(s)) })
			}
		})
	default:
		p.bytes(1, []byte(v.String()))
	}
}

func (p *proto) resource(r *resource.Resource) {
	p.in(1, func(p *proto) { p.attrs(1, r.Attributes()) })
}

func (p *proto) scope(s instrumentation.Scope) {
	p.in(1, func(p *proto) {
		p.string(1, s.Name)
		p.string(2, s.Version)
	})
}

// encodeSpans returns an ExportTraceServiceRequest.
func encodeSpans(r *resource.Resource, spans []sdktrace.ReadOnlySpan) []byte {
	var p proto
	p.in(1, func(p *proto) {
		p.resource(r)
		p.in(2, func(p *proto) {
			p.scope(instrumentation.Scope{Name: scope})
			for _, s := range spans {
				p.in(2, func(p *proto) { p.span(s) })
			}
		})
	})
	return p
}

func (p *proto) span(s sdktrace.ReadOnlySpan) {
	at, in, parent := s.SpanContext().TraceID(), s.SpanContext().SpanID(), s.Parent().SpanID()
	p.bytes(1, at[:])
	p.bytes(2, in[:])
	if parent.IsValid() {
		p.bytes(4, parent[:])
	}
	p.string(5, s.Name())
	kind := uint64(1)
	if s.SpanKind() == trace.SpanKindClient {
		kind = 3
	}
	p.varint(6, kind)
	p.fixed64(7, uint64(s.StartTime().UnixNano())) //nolint:gosec // after 1970
	p.fixed64(8, uint64(s.EndTime().UnixNano()))   //nolint:gosec // after 1970
	p.attrs(9, s.Attributes())
	for _, e := range s.Events() {
		p.in(11, func(p *proto) {
			p.fixed64(1, uint64(e.Time.UnixNano())) //nolint:gosec // after 1970
			p.string(2, e.Name)
			p.attrs(3, e.Attributes)
		})
	}
	for _, l := range s.Links() {
		p.in(13, func(p *proto) {
			at, in := l.SpanContext.TraceID(), l.SpanContext.SpanID()
			p.bytes(1, at[:])
			p.bytes(2, in[:])
			p.attrs(4, l.Attributes)
		})
	}
	if s.Status().Code == codes.Error {
		p.in(15, func(p *proto) { p.varint(3, 2) })
	}
	p.fixed32(16, uint32(s.SpanContext().TraceFlags()))
}

// encodeMetrics returns an ExportMetricsServiceRequest.
func encodeMetrics(rm *metricdata.ResourceMetrics) []byte {
	var p proto
	p.in(1, func(p *proto) {
		p.resource(rm.Resource)
		for _, s := range rm.ScopeMetrics {
			p.in(2, func(p *proto) {
				p.scope(s.Scope)
				for _, m := range s.Metrics {
					p.in(2, func(p *proto) { p.metric(&m) })
				}
			})
		}
	})
	return p
}

// cumulative is the temporality of what is sent.
const cumulative = 2

func (p *proto) metric(m *metricdata.Metrics) {
	p.string(1, m.Name)
	p.string(2, m.Description)
	p.string(3, m.Unit)
	switch d := m.Data.(type) {
	case metricdata.Sum[int64]:
		p.in(7, func(p *proto) {
			for _, n := range d.DataPoints {
				p.in(1, func(p *proto) {
					p.fixed64(2, uint64(n.StartTime.UnixNano())) //nolint:gosec // after 1970
					p.fixed64(3, uint64(n.Time.UnixNano()))      //nolint:gosec // after 1970
					p.fixed64(6, uint64(n.Value))                //nolint:gosec // as sfixed64 is encoded
					p.attrs(7, n.Attributes.ToSlice())
				})
			}
			p.varint(2, cumulative)
			p.varint(3, 1)
		})
	case metricdata.Histogram[float64]:
		p.in(9, func(p *proto) {
			for _, h := range d.DataPoints {
				p.in(1, func(p *proto) { p.histogram(&h) })
			}
			p.varint(2, cumulative)
		})
	}
}

func (p *proto) histogram(h *metricdata.HistogramDataPoint[float64]) {
	p.fixed64(2, uint64(h.StartTime.UnixNano())) //nolint:gosec // after 1970
	p.fixed64(3, uint64(h.Time.UnixNano()))      //nolint:gosec // after 1970
	p.fixed64(4, h.Count)
	p.double(5, h.Sum)
	var counts, bounds proto
	for _, n := range h.BucketCounts {
		counts = binary.LittleEndian.AppendUint64(counts, n)
	}
	for _, b := range h.Bounds {
		bounds = binary.LittleEndian.AppendUint64(bounds, math.Float64bits(b))
	}
	p.bytes(6, counts)
	p.bytes(7, bounds)
	p.attrs(9, h.Attributes.ToSlice())
}
