package telemetry

import (
	"encoding/binary"
	"math"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
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

// encodeMetrics returns an ExportMetricsServiceRequest, nil if nothing has been recorded.
func encodeMetrics(r *resource.Resource, all []*instrument, now time.Time) []byte {
	some := false
	var p proto
	p.in(1, func(p *proto) {
		p.resource(r)
		p.in(2, func(p *proto) {
			p.scope(instrumentation.Scope{Name: scope})
			for _, i := range all {
				i.mu.Lock()
				if len(i.points) > 0 {
					some = true
					p.in(2, func(p *proto) { p.metric(i, now) })
				}
				i.mu.Unlock()
			}
		})
	})
	if !some {
		return nil
	}
	return p
}

// cumulative is the temporality of what is sent.
const cumulative = 2

func (p *proto) metric(i *instrument, now time.Time) {
	p.string(1, i.name)
	p.string(2, i.about)
	p.string(3, i.unit)
	field, attrs := 7, 7
	if i.bounds != nil {
		field, attrs = 9, 9
	}
	p.in(field, func(p *proto) {
		for _, d := range i.points {
			p.in(1, func(p *proto) {
				p.fixed64(2, uint64(i.begun.UnixNano())) //nolint:gosec // after 1970
				p.fixed64(3, uint64(now.UnixNano()))     //nolint:gosec // after 1970
				if i.bounds != nil {
					p.histogram(d, i.bounds)
				} else {
					p.fixed64(6, d.count)
				}
				p.attrs(attrs, d.attrs)
			})
		}
		p.varint(2, cumulative)
		if i.bounds == nil {
			p.varint(3, 1)
		}
	})
}

func (p *proto) histogram(d *point, bounds []float64) {
	p.fixed64(4, d.count)
	p.double(5, d.sum)
	var counts, limits proto
	for _, n := range d.buckets {
		counts = binary.LittleEndian.AppendUint64(counts, n)
	}
	for _, b := range bounds {
		limits = binary.LittleEndian.AppendUint64(limits, math.Float64bits(b))
	}
	p.bytes(6, counts)
	p.bytes(7, limits)
}
