package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
)

// metrics are the instruments. A nil *metrics records nothing.
type metrics struct {
	operation, tokens, workflow, agents, turns, calls, tools, money, pause, queue metric.Float64Histogram
	runs                                                                          metric.Int64Counter
}

func newMetrics(m metric.Meter) *metrics {
	seconds := []float64{.01, .04, .16, .64, 2.56, 10.24, 40.96, 163.84, 655.36, 2621.44}
	counts := []float64{1, 2, 4, 8, 16, 32, 64, 128}
	tokens := []float64{1}
	for range 13 {
		tokens = append(tokens, 4*tokens[len(tokens)-1])
	}
	histogram := func(name, unit, about string, bounds []float64) metric.Float64Histogram {
		h, _ := m.Float64Histogram(name, metric.WithUnit(unit), metric.WithDescription(about), metric.WithExplicitBucketBoundaries(bounds...)) // one that works comes with any error
		return h
	}
	runs, _ := m.Int64Counter(metricRuns, metric.WithUnit("{run}"), metric.WithDescription("Executions that ended, by the status of their runs."))
	return &metrics{
		operation: histogram(metricOperation, "s", "Duration of turns of models.", seconds),
		tokens:    histogram(metricTokens, "{token}", "Tokens of turns of models.", tokens),
		workflow:  histogram(metricWorkflow, "s", "Duration of executions.", seconds),
		agents:    histogram(metricAgent, "s", "Duration of agents.", seconds),
		turns:     histogram(metricTurns, "{call}", "Turns of models per agent.", counts),
		calls:     histogram(metricCalls, "{call}", "Calls of tools per agent.", counts),
		tools:     histogram(metricTool, "s", "Duration of calls of tools.", seconds),
		money:     histogram(metricCost, "USD", "Known cost of effects.", []float64{.0001, .001, .01, .1, 1, 10}),
		pause:     histogram(metricPaused, "s", "How long runs were paused, by reason.", seconds),
		queue:     histogram(metricQueue, "s", "How long runs and tasks waited for a place.", seconds),
		runs:      runs,
	}
}

func record(h metric.Float64Histogram, v float64, code string, attrs ...attribute.KeyValue) {
	if code != "" {
		attrs = append(attrs, attribute.String(keyErrorType, code))
	}
	h.Record(context.Background(), v, metric.WithAttributes(attrs...))
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
	m.runs.Add(context.Background(), 1, metric.WithAttributes(attribute.String(keyWorkflow, workflow), attribute.String(keyStatus, string(status))))
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
