package telemetry_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"

	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/slim/otlp/metrics/v1"
	trace "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// A collector takes OTLP over HTTP, and reads it with the official messages.
type collector struct {
	*httptest.Server
	t testing.TB

	mu      sync.Mutex
	spans   []*trace.Span
	metrics map[string]*metrics.Metric
	bodies  [][]byte
	header  http.Header
}

func newCollector(t testing.TB) *collector {
	t.Helper()
	c := &collector{t: t, metrics: map[string]*metrics.Metric{}}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

// ServeHTTP implements http.Handler.
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Header.Get("Content-Type") != "application/x-protobuf" {
		c.t.Errorf("%s: %v, %s", r.URL, err, r.Header)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bodies, c.header = append(c.bodies, body), r.Header
	switch r.URL.Path {
	case "/v1/traces":
		var d trace.TracesData // has the fields of the request
		if err := proto.Unmarshal(body, &d); err != nil {
			c.t.Error(err)
		}
		for _, r := range d.ResourceSpans {
			for _, s := range r.ScopeSpans {
				c.spans = append(c.spans, s.Spans...)
			}
		}
	case "/v1/metrics":
		var d metrics.MetricsData
		if err := proto.Unmarshal(body, &d); err != nil {
			c.t.Error(err)
		}
		for _, r := range d.ResourceMetrics {
			for _, s := range r.ScopeMetrics {
				for _, m := range s.Metrics {
					c.metrics[m.Name] = m
				}
			}
		}
	default:
		c.t.Errorf("a request for %s", r.URL)
	}
	w.WriteHeader(http.StatusOK)
}

func value(v *common.AnyValue) string {
	switch v := v.Value.(type) {
	case *common.AnyValue_StringValue:
		return v.StringValue
	case *common.AnyValue_BoolValue:
		return fmt.Sprint(v.BoolValue)
	case *common.AnyValue_IntValue:
		return fmt.Sprint(v.IntValue)
	case *common.AnyValue_DoubleValue:
		return fmt.Sprint(v.DoubleValue)
	case *common.AnyValue_ArrayValue:
		var all []string
		for _, x := range v.ArrayValue.Values {
			all = append(all, value(x))
		}
		return strings.Join(all, "+")
	}
	return "?"
}

func attrs(all []*common.KeyValue) map[string]string {
	out := map[string]string{}
	for _, a := range all {
		out[a.Key] = value(a.Value)
	}
	return out
}

func words(all []*common.KeyValue) string {
	var out []string
	for _, a := range all {
		out = append(out, fmt.Sprintf("%s=%.60q", a.Key, value(a.Value)))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// tree writes spans as a tree: a span below its parent, with its attributes, events and links.
func tree(spans []*trace.Span) string {
	byID, children := map[string]*trace.Span{}, map[string][]*trace.Span{}
	for _, s := range spans {
		byID[string(s.SpanId)] = s
	}
	for _, s := range spans {
		parent := string(s.ParentSpanId)
		if byID[parent] == nil {
			parent = ""
		}
		children[parent] = append(children[parent], s)
	}
	var b strings.Builder
	var write func(parent, indent string)
	write = func(parent, indent string) {
		list := children[parent]
		sort.Slice(list, func(i, j int) bool {
			if list[i].StartTimeUnixNano != list[j].StartTimeUnixNano {
				return list[i].StartTimeUnixNano < list[j].StartTimeUnixNano
			}
			return list[i].Name+words(list[i].Attributes) < list[j].Name+words(list[j].Attributes)
		})
		for _, s := range list {
			state := ""
			if s.Status.GetCode() == trace.Status_STATUS_CODE_ERROR {
				state = " ERROR"
			}
			if s.Status.GetMessage() != "" {
				state += " " + s.Status.Message
			}
			ms := (s.EndTimeUnixNano - s.StartTimeUnixNano) / 1e6
			fmt.Fprintf(&b, "%s%s (%s)%s %d ms\n", indent, s.Name, strings.ToLower(strings.TrimPrefix(s.Kind.String(), "SPAN_KIND_")), state, ms)
			fmt.Fprintf(&b, "%s    %s\n", indent, words(s.Attributes))
			for _, e := range s.Events {
				fmt.Fprintf(&b, "%s    ! %s %s\n", indent, e.Name, words(e.Attributes))
			}
			for _, l := range s.Links {
				to := "a span elsewhere"
				if x := byID[string(l.SpanId)]; x != nil {
					to = x.Name + " execution " + attrs(x.Attributes)["superstep.execution"]
				}
				fmt.Fprintf(&b, "%s    -> %s %s\n", indent, to, words(l.Attributes))
			}
			if parent == "" && len(s.ParentSpanId) > 0 {
				fmt.Fprintf(&b, "%s    in %x of %x\n", indent, s.ParentSpanId, s.TraceId)
			}
			write(string(s.SpanId), indent+"  ")
		}
	}
	write("", "")
	return b.String()
}
