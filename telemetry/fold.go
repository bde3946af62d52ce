package telemetry

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/superstep-dev/superstep/internal/traceid"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

// queuedRun is the reason why a queued run has not begun.
const queuedRun = "queued"

// fold is what is known of a run after some of its records.
type fold struct {
	s        *Spans
	run      string
	seq      uint64
	live     bool // the record under way gives spans
	last     time.Time
	workflow string
	fork     string // the run that it is a fork of
	place    traceid.Context
	models   map[string]string            // of agents, by path and name
	attempts map[string]int               // failed ones of tasks that are not done
	agents   map[string]map[string]*agent // that had not ended when an execution did, by path and use
	late     []event                      // what happened between two executions
	previous trace.SpanContext            // the last execution
	exec     *execution                   // nil if none is under way
	halted   time.Time                    // when the last one ended, and why
	reason   string
}

// execution is one process at work on the run.
type execution struct {
	epoch  uint64
	empty  bool // it has no record but the first
	id     trace.SpanID
	start  time.Time
	step   time.Time // when the superstep began
	units  map[string]*unit
	tried  map[string]int // effects, by path and key
	closed map[string]int // units that ended, by path: what happens there later has a span of its own
	spent  runlog.Amount
	in     int
	out    int
	events []event
}

// unit is a task, a branch of one, or a sub-agent: what has a path.
type unit struct {
	path    string
	id      trace.SpanID
	attempt int
	parent  *unit // nil for the execution
	inner   map[string]*unit
	start   time.Time
	last    time.Time
	agents  map[string]*agent // by use; "" is the unit itself
	intents map[string]intent
	turns   int
	calls   int
	spent   runlog.Amount
	queued  int64
	events  []event
}

type intent struct {
	at    time.Time
	once  bool
	input json.RawMessage
}

type event struct {
	at    time.Time
	name  string
	attrs []attribute.KeyValue
}

// span is a span that has ended.
type span struct {
	id, parent trace.SpanID
	name, op   string
	kind       trace.SpanKind
	start, end time.Time
	attrs      []attribute.KeyValue
	events     []event
	links      []trace.Link
	code       string // error.type, "" if it has not failed
}

func decode[T any](data json.RawMessage) (d T, ok bool) {
	return d, json.Unmarshal(data, &d) == nil
}

func (f *fold) apply(r *runlog.Record) {
	defer func() { f.last = r.Time }()
	switch r.Kind {
	case runlog.KindRunStarted:
		d, _ := decode[runlog.RunStarted](r.Data)
		f.workflow, f.fork, f.place = d.Workflow, d.Parent, traceid.Of(f.run, d.Trace)
		switch {
		case d.Queue != nil: // it begins when a worker resumes it
			f.halted, f.reason = r.Time, queuedRun
		case f.fork == "": // a fork begins when it is resumed
			f.begin(r)
		}
	case runlog.KindRunResumed:
		if f.exec != nil && f.exec.empty { // the run was queued with that record, and nothing executed it
			f.exec = nil
		}
		f.end(runlog.Interrupted, "", f.last) // if its log does not say how it ended
		f.begin(r)
		return
	case runlog.KindRunFinished:
		d, _ := decode[runlog.RunFinished](r.Data)
		status := runlog.Completed
		if len(d.Skipped) > 0 {
			status = runlog.Partial
		}
		f.end(status, "", r.Time)
	case runlog.KindRunFailed:
		d, _ := decode[runlog.RunFailed](r.Data)
		f.end(runlog.Failed, orElse(d.Code, "failed"), r.Time)
	case runlog.KindRunCancelled:
		f.end(runlog.Cancelled, "cancelled", r.Time)
	case runlog.KindRunPaused:
		f.paused(r)
	}
	if f.exec == nil {
		if d, ok := decode[runlog.Answer](r.Data); ok && r.Kind == runlog.KindAnswered { // nobody executed the run then
			f.late = append(f.late, answered(r, &d))
		}
		return
	}
	f.exec.empty = f.exec.empty && r.Kind == runlog.KindRunStarted
	switch r.Kind {
	case runlog.KindIntended:
		if d, ok := decode[runlog.Intended](r.Data); ok {
			u := f.touch(r.Path, r.Time, r.Time)
			put(&u.intents, d.Key, intent{r.Time, d.Once, d.Input})
			f.warned(u, r.Time, d.Hint)
		}
	case runlog.KindSettled:
		if d, ok := decode[runlog.Settled](r.Data); ok {
			f.settled(r, &d)
		}
	case runlog.KindTaskDone:
		var d runlog.TaskDone
		if d.Parse(r.Data) == nil {
			f.done(r, &d)
		}
	case runlog.KindTaskFailed:
		if d, ok := decode[runlog.TaskFailed](r.Data); ok {
			f.failed(r, &d)
		}
	case runlog.KindStepCommitted:
		f.committed(r)
	case runlog.KindAsked, runlog.KindAnswered:
		f.question(r)
	case runlog.KindEvent:
		f.event(r)
	}
}

func put[V any](m *map[string]V, key string, v V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = v
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// begin begins an execution.
func (f *fold) begin(r *runlog.Record) {
	x := &execution{
		epoch: r.Epoch, empty: true, id: traceid.Span(f.run, "", traceid.Execution, r.Epoch, 1), start: r.Time, step: r.Time,
		events: f.late, units: map[string]*unit{}, tried: map[string]int{}, closed: map[string]int{},
	}
	f.exec, f.late = x, nil
	if f.live && !f.halted.IsZero() {
		f.s.metrics.resumed(r.Time.Sub(f.halted), f.reason)
	}
}

// end ends the execution and everything in it.
func (f *fold) end(status runlog.Status, code string, at time.Time) {
	x := f.exec
	if x == nil {
		return
	}
	why := string(runlog.Interrupted)
	if status == runlog.Paused || status.Ended() {
		why = "" // it waits, or was not needed
	}
	for path, u := range x.units {
		if u.agents != nil { // they go on in the next execution
			put(&f.agents, path, u.agents)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(x.units)) {
		if u := x.units[path]; u != nil && u.parent == nil {
			f.close(u, at, why, "")
		}
	}
	attrs := f.common(opWorkflow, "",
		attribute.String(keyWorkflow, f.workflow), attribute.String(keyRun, f.run), attribute.Int64(keyExecution, int64(x.epoch)), //nolint:gosec // a count
		attribute.String(keyStatus, string(status)), attribute.Int(keyInput, x.in), attribute.Int(keyOutput, x.out),
		attribute.Int64(keyTokens, x.spent.Tokens), attribute.Float64(keyCost, dollars(x.spent.Money)))
	if f.reason != "" && status == runlog.Paused {
		attrs = append(attrs, attribute.String(keyReason, f.reason))
	}
	if status == runlog.Interrupted {
		code = why
	}
	sp := &span{id: x.id, parent: f.place.Span, name: opWorkflow + " " + f.workflow, op: opWorkflow, kind: trace.SpanKindInternal,
		start: x.start, end: at, attrs: attrs, events: x.events, code: code}
	switch {
	case f.previous.IsValid():
		sp.links = []trace.Link{{SpanContext: f.previous, Attributes: []attribute.KeyValue{attribute.String(keyLink, "previous_execution")}}}
	case f.fork != "": // its place in another trace, if it has one, is in its own log
		of := traceid.Of(f.fork, "")
		sp.links = []trace.Link{{SpanContext: spanContext(of.Trace, traceid.Span(f.fork, "", traceid.Execution, 1, 1)),
			Attributes: []attribute.KeyValue{attribute.String(keyLink, "fork_of"), attribute.String(keyRun, f.fork)}}}
	}
	f.emit(sp)
	if f.live {
		f.s.metrics.run(f.workflow, status, code, at.Sub(x.start))
	}
	f.previous, f.exec = spanContext(f.place.Trace, x.id), nil
	f.halted = at
	if status != runlog.Paused {
		f.reason = string(status)
	}
}

func (f *fold) paused(r *runlog.Record) {
	d, _ := decode[runlog.RunPaused](r.Data)
	switch {
	case d.Short != nil:
		f.reason = "budget"
		if f.exec != nil {
			f.exec.events = append(f.exec.events, event{r.Time, "budget.paused", []attribute.KeyValue{attribute.String("superstep.budget.limit", d.Short.What)}})
		}
	case d.Message:
		f.reason = "message"
	case d.By != "":
		f.reason = "operator"
	case d.Reason != "" && len(d.Waiting) == 0:
		f.reason = "storage"
	default:
		f.reason = "question"
	}
	f.end(runlog.Paused, "", r.Time)
}

func spanContext(id trace.TraceID, span trace.SpanID) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: span, TraceFlags: trace.FlagsSampled})
}

// unit returns the unit at a path, and makes it and those around it if they are not there yet. It returns a unit that is in no span for "".
func (f *fold) unit(path string, at time.Time) *unit {
	x := f.exec
	u := x.units[path]
	if u != nil {
		return u
	}
	u = &unit{path: path, start: at, last: at, attempt: f.attempts[path] + 1}
	if path == "" {
		u.id = x.id
		return u
	}
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		u.parent = f.unit(path[:i], at)
		put(&u.parent.inner, path, u)
	}
	u.id = traceid.Span(f.run, path, "", x.epoch, u.attempt+x.closed[path])
	x.units[path] = u
	for use, a := range f.agents[path] {
		again := *a
		if again.start, again.last, again.id = at, at, u.id; use != "" {
			again.id = traceid.Span(f.run, path, use+"/agent", x.epoch, u.attempt)
		}
		put(&u.agents, use, &again)
	}
	delete(f.agents, path)
	return u
}

// touch returns the unit at a path after something happened in it.
func (f *fold) touch(path string, start, end time.Time) *unit {
	start = f.later(start, f.exec.start)
	u := f.unit(path, start)
	for v := u; v != nil; v = v.parent {
		if start.Before(v.start) {
			v.start = start
		}
		v.last = f.later(v.last, end)
	}
	return u
}

func (*fold) later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// done ends a task.
func (f *fold) done(r *runlog.Record, d *runlog.TaskDone) {
	u := f.touch(r.Path, r.Time.Add(-time.Duration(d.Took)*time.Millisecond), r.Time)
	u.queued = d.Queued
	code := ""
	if d.Error != "" {
		code = "task"
	}
	f.close(u, r.Time, code, d.Key)
	delete(f.attempts, r.Path)
}

func (f *fold) failed(r *runlog.Record, d *runlog.TaskFailed) {
	u := f.touch(r.Path, r.Time.Add(-time.Duration(d.Took)*time.Millisecond), r.Time)
	code := "task"
	if d.Late {
		code = "timeout"
	}
	if !d.Final {
		u.events = append(u.events, event{r.Time, "retry", []attribute.KeyValue{attribute.Int64("superstep.retry.after_ms", d.Next)}})
	}
	f.close(u, r.Time, code, d.Key)
	f.exec.closed[r.Path]-- // the next attempt has a number of its own
	if put(&f.attempts, r.Path, d.Attempt); d.Final {
		delete(f.attempts, r.Path)
	}
}

// close ends a unit and those in it.
func (f *fold) close(u *unit, at time.Time, code, key string) {
	inner := ""
	if code != "" {
		inner = string(runlog.Interrupted)
	}
	for _, path := range slices.Sorted(maps.Keys(u.inner)) {
		f.close(u.inner[path], f.later(u.inner[path].last, u.inner[path].start), inner, "")
	}
	f.leave(u)
	node, fan := transcript.Names(u.path)
	name, op := "task "+node, ""
	var attrs []attribute.KeyValue
	if a := u.agents[""]; a != nil {
		name, op, attrs = opAgent+" "+a.name, opAgent, f.agentAttrs(a, u.path)
	}
	for _, use := range slices.Sorted(maps.Keys(u.agents)) {
		if a := u.agents[use]; use != "" {
			f.emit(&span{id: a.id, parent: u.id, name: opAgent + " " + a.name, op: opAgent, kind: trace.SpanKindInternal, start: a.start, end: a.last,
				attrs: f.agentAttrs(a, u.path)})
		}
	}
	attrs = f.common(op, u.path, append(attrs, attribute.Int(keyAttempt, u.attempt))...)
	if key = orElse(key, fan); key != "" {
		attrs = append(attrs, attribute.String(keyFanKey, key))
	}
	if u.spent.Tokens > 0 {
		attrs = append(attrs, attribute.Int64(keyTokens, u.spent.Tokens), attribute.Float64(keyCost, dollars(u.spent.Money)))
	}
	f.emit(&span{id: u.id, parent: f.parent(u), name: name, op: op, kind: trace.SpanKindInternal, start: u.start, end: at, attrs: attrs, events: u.events, code: code})
	if f.live {
		if f.s.metrics.queued(u.queued); op == opAgent {
			f.s.metrics.agent(u.agents[""].name, code, at.Sub(u.start), u.turns, u.calls)
		}
	}
}

// leave takes a unit out of those that are open.
func (f *fold) leave(u *unit) {
	delete(f.exec.units, u.path)
	f.exec.closed[u.path]++
	if u.parent != nil {
		delete(u.parent.inner, u.path)
	}
}

func (f *fold) parent(u *unit) trace.SpanID {
	if u.parent == nil {
		return f.exec.id
	}
	return u.parent.id
}

func (f *fold) committed(r *runlog.Record) {
	if r.Path != "" {
		return
	}
	start := f.exec.step
	f.exec.step = r.Time
	d, _ := decode[runlog.StepCommitted](r.Data)
	if !f.s.opt.Supersteps {
		return
	}
	key := "superstep-" + itoa(d.Step)
	f.emit(&span{id: traceid.Span(f.run, "", key, f.exec.epoch, 1), parent: f.exec.id, name: "superstep " + itoa(d.Step), kind: trace.SpanKindInternal,
		start: start, end: r.Time, attrs: f.common("", "", attribute.Int(keyStep, d.Step))})
}

// common returns the attributes of a span with those that all have.
func (f *fold) common(op, path string, attrs ...attribute.KeyValue) []attribute.KeyValue {
	if !f.live {
		return nil
	}
	attrs = append(attrs, attribute.String(keyConversation, f.run))
	if op != "" {
		attrs = append(attrs, attribute.String(keyOperation, op))
	}
	if path != "" {
		attrs = append(attrs, attribute.String(keyPath, path))
	}
	if f.s.opt.Attributes != nil {
		attrs = append(attrs, f.s.opt.Attributes(f.run)...)
	}
	return f.dialects(op, attrs)
}

// emit exports a span.
func (f *fold) emit(sp *span) {
	if !f.live || !f.place.Sampled {
		return
	}
	ctx := context.WithValue(context.Background(), identity{}, spanID{f.place.Trace, sp.id})
	if sp.parent.IsValid() {
		ctx = trace.ContextWithSpanContext(ctx, spanContext(f.place.Trace, sp.parent))
	}
	if sp.start.After(sp.end) {
		sp.start = sp.end
	}
	_, s := f.s.tracer.Start(ctx, sp.name, trace.WithTimestamp(sp.start), trace.WithSpanKind(sp.kind), trace.WithAttributes(sp.attrs...),
		trace.WithLinks(sp.links...))
	for _, e := range sp.events {
		s.AddEvent(e.name, trace.WithTimestamp(e.at), trace.WithAttributes(e.attrs...))
	}
	if sp.code != "" {
		s.SetStatus(codes.Error, "")
		s.SetAttributes(attribute.String(keyErrorType, sp.code))
	}
	s.End(trace.WithTimestamp(sp.end))
}

func dollars(micros int64) float64 { return float64(micros) / 1e6 }
