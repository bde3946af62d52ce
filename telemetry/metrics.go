package telemetry

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
)

// metrics are the instruments. A nil *metrics records nothing.
type metrics struct {
	all                                                                                 []*instrument
	operation, tokens, workflow, agents, turns, calls, tools, money, pause, queue, runs *instrument
}

// newMetrics returns instruments that record into a meter. If it is nil, they add up by themselves: the SDK of metrics is a tenth of what the command took
// to compile.
func newMetrics(to metric.Meter) *metrics {
	seconds := []float64{.01, .04, .16, .64, 2.56, 10.24, 40.96, 163.84, 655.36, 2621.44}
	counts := []float64{1, 2, 4, 8, 16, 32, 64, 128}
	tokens := []float64{1}
	for range 13 {
		tokens = append(tokens, 4*tokens[len(tokens)-1])
	}
	m := &metrics{}
	add := func(name, unit, about string, bounds []float64) *instrument {
		i := &instrument{name: name, unit: unit, about: about, bounds: bounds, begun: time.Now(), points: map[attribute.Distinct]*point{}}
		switch m.all = append(m.all, i); { // what the meter returns works, also with an error
		case to != nil && bounds == nil:
			i.counter, _ = to.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(about))
		case to != nil:
			i.histogram, _ = to.Float64Histogram(name, metric.WithUnit(unit), metric.WithDescription(about), metric.WithExplicitBucketBoundaries(bounds...))
		}
		return i
	}
	m.operation = add(metricOperation, "s", "Duration of turns of models.", seconds)
	m.tokens = add(metricTokens, "{token}", "Tokens of turns of models.", tokens)
	m.workflow = add(metricWorkflow, "s", "Duration of executions.", seconds)
	m.agents = add(metricAgent, "s", "Duration of agents.", seconds)
	m.turns = add(metricTurns, "{call}", "Turns of models per agent.", counts)
	m.calls = add(metricCalls, "{call}", "Calls of tools per agent.", counts)
	m.tools = add(metricTool, "s", "Duration of calls of tools.", seconds)
	m.money = add(metricCost, "USD", "Known cost of effects.", []float64{.0001, .001, .01, .1, 1, 10})
	m.pause = add(metricPaused, "s", "How long runs were paused, by reason.", seconds)
	m.queue = add(metricQueue, "s", "How long runs and tasks waited for a place.", seconds)
	m.runs = add(metricRuns, "{run}", "Executions that ended, by the status of their runs.", nil)
	return m
}

// An instrument is a histogram, or a counter. It records into a meter, or adds up from its beginning.
type instrument struct {
	name, unit, about string
	bounds            []float64 // of a histogram
	histogram         metric.Float64Histogram
	counter           metric.Int64Counter
	begun             time.Time

	mu     sync.Mutex
	points map[attribute.Distinct]*point
}

// point is what was recorded with one set of attributes.
type point struct {
	attrs   []attribute.KeyValue
	sum     float64
	count   uint64
	buckets []uint64
}

// mostPoints limits the memory of an instrument: what comes with further attributes is one point.
const mostPoints = 2000

func (i *instrument) add(v float64, attrs ...attribute.KeyValue) {
	switch {
	case i.counter != nil:
		i.counter.Add(context.Background(), int64(v), metric.WithAttributes(attrs...))
		return
	case i.histogram != nil:
		i.histogram.Record(context.Background(), v, metric.WithAttributes(attrs...))
		return
	}
	set := attribute.NewSet(attrs...)
	i.mu.Lock()
	defer i.mu.Unlock()
	p := i.points[set.Equivalent()]
	if p == nil && len(i.points) >= mostPoints-1 {
		set = attribute.NewSet(attribute.Bool("otel.metric.overflow", true))
		p = i.points[set.Equivalent()]
	}
	if p == nil {
		p = &point{attrs: set.ToSlice(), buckets: make([]uint64, len(i.bounds)+1)}
		i.points[set.Equivalent()] = p
	}
	bucket, _ := slices.BinarySearch(i.bounds, v)
	p.buckets[bucket]++
	p.count, p.sum = p.count+1, p.sum+v
}

// reporter sends metrics every minute on a goroutine of its own. A failure is no one's concern: the next time, the sums are whole again.
type reporter struct {
	to      *sender
	about   *resource.Resource
	metrics *metrics
	ctx     context.Context //nolint:containedctx // of its goroutine
	end     context.CancelFunc
	ended   chan struct{}
}

func newReporter(to *sender, about *resource.Resource, env func(string) string) *reporter {
	every, _ := strconv.Atoi(env("OTEL_METRIC_EXPORT_INTERVAL"))
	r := &reporter{to: to, about: about, metrics: newMetrics(nil), ended: make(chan struct{})}
	r.ctx, r.end = context.WithCancel(context.Background())
	go r.run(time.Duration(cmp.Or(max(every, 0), 60_000)) * time.Millisecond)
	return r
}

func (r *reporter) run(every time.Duration) {
	defer close(r.ended)
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-t.C:
			r.send(r.ctx)
		}
	}
}

func (r *reporter) send(ctx context.Context) {
	if b := encodeMetrics(r.about, r.metrics.all, time.Now()); b != nil {
		_ = r.to.post(ctx, b)
	}
}

// stop sends once more, until ctx ends.
func (r *reporter) stop(ctx context.Context) {
	r.end()
	<-r.ended
	r.send(ctx)
}

func record(i *instrument, v float64, code string, attrs ...attribute.KeyValue) {
	if code != "" {
		attrs = append(attrs, attribute.String(keyErrorType, code))
	}
	i.add(v, attrs...)
}

func (m *metrics) turn(op, provider, name, code string, took time.Duration, u model.Usage) {
	if m == nil {
		return
	}
	attrs := []attribute.KeyValue{attribute.String(keyOperation, op), attribute.String(keyProvider, provider), attribute.String(keyModel, name)}
	record(m.operation, took.Seconds(), code, attrs...)
	for _, t := range []struct {
		kind string
		n    int
	}{{"input", u.In}, {"output", u.Out}} {
		record(m.tokens, float64(t.n), "", append(attrs[:3:3], attribute.String(keyTokenType, t.kind))...)
	}
}

func (m *metrics) tool(name, code string, took time.Duration) {
	if m != nil {
		record(m.tools, took.Seconds(), code, attribute.String(keyTool, name))
	}
}

func (m *metrics) agent(name, code string, took time.Duration, turns, calls int) {
	if m == nil {
		return
	}
	attr := attribute.String(keyAgentName, name)
	record(m.agents, took.Seconds(), code, attr)
	record(m.turns, float64(turns), "", attr)
	record(m.calls, float64(calls), "", attr)
}

func (m *metrics) run(workflow string, status runlog.Status, code string, took time.Duration) {
	if m == nil {
		return
	}
	record(m.workflow, took.Seconds(), code, attribute.String(keyWorkflow, workflow))
	m.runs.add(1, attribute.String(keyWorkflow, workflow), attribute.String(keyStatus, string(status)))
}

func (m *metrics) cost(workflow string, micros int64) {
	if m != nil && micros > 0 {
		record(m.money, dollars(micros), "", attribute.String(keyWorkflow, workflow))
	}
}

func (m *metrics) resumed(paused time.Duration, reason string) {
	switch {
	case m == nil:
	case reason == queuedRun:
		record(m.queue, paused.Seconds(), "")
	default:
		record(m.pause, paused.Seconds(), "", attribute.String(keyReason, reason))
	}
}

func (m *metrics) queued(millis int64) {
	if m != nil && millis > 0 {
		record(m.queue, float64(millis)/1000, "")
	}
}
