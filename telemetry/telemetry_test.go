package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"iter"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	metrics "go.opentelemetry.io/proto/slim/otlp/metrics/v1"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/internal/transcript/recorded"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/telemetry"
	"github.com/superstep-dev/superstep/workflow"
)

var update = flag.Bool("update", false, "write the goldens")

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

var start = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// log makes a log of lines "ms epoch kind path data".
func log(lines ...string) (recs []runlog.Record) {
	for i, line := range lines {
		f := strings.SplitN(line, " ", 5)
		ms, _ := strconv.Atoi(f[0])
		epoch, _ := strconv.ParseUint(f[1], 10, 64)
		r := runlog.Record{Seq: uint64(i + 1), Epoch: epoch, Time: start.Add(time.Duration(ms) * time.Millisecond), Kind: runlog.Kind(f[2]), Path: strings.Trim(f[3], "-")}
		if len(f) > 4 {
			r.Data = json.RawMessage(f[4])
		}
		recs = append(recs, r)
	}
	return recs
}

const caller = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// logs are the cases, beside the recorded sessions.
func logs() map[string][]runlog.Record {
	all := map[string][]runlog.Record{
		"chain": log(`0 1 run.started - {"workflow":"brief","timed":true}`, `1 1 snapshot - {}`, `40 1 task.done search {"node":"search","step":0,"took_ms":30}`,
			`41 1 step.committed - {"step":0}`, `90 1 task.done write {"node":"write","step":1,"took_ms":45,"queued_ms":3}`, `91 1 step.committed - {"step":1}`, `92 1 run.finished - {"steps":2}`),
		"fanout": log(`0 1 run.started - {"workflow":"wide","timed":true}`, `30 1 task.done part[a] {"node":"part","key":"a","step":0,"took_ms":25}`,
			`31 1 effect.settled part[b%2Fc] {"key":"send","kind":"effect","took_ms":20}`, `35 1 task.done part[b%2Fc] {"node":"part","key":"b/c","step":0,"took_ms":30}`,
			`36 1 task.done part[c] {"node":"part","key":"c","step":0,"took_ms":30,"error":"x"}`, `40 1 run.finished - {"steps":1,"skipped":["part[c]"]}`),
		"attempts": log(`0 1 run.started - {"workflow":"retry","timed":true}`, `10 1 effect.settled fetch {"key":"get","kind":"effect","took_ms":5,"error":"secret text"}`,
			`11 1 task.failed fetch {"node":"fetch","step":0,"attempt":1,"error":"secret text","took_ms":8,"next_ms":100}`,
			`130 1 effect.settled fetch {"key":"get","kind":"effect","took_ms":5}`, `131 1 task.done fetch {"node":"fetch","step":0,"took_ms":10}`, `140 1 run.finished - {"steps":1}`),
		"fork": log(`0 1 run.started - {"workflow":"brief","timed":true,"parent":"aaaa","at":7}`, `0 1 task.done search {"node":"search","step":0,"took_ms":30}`,
			`5 2 run.resumed - {"timed":true}`, `50 2 task.done write {"node":"write","step":1,"took_ms":40}`, `52 2 run.finished - {"steps":2}`),
		"child": log(`0 1 run.started - {"workflow":"part","timed":true,"trace":"`+caller+`","child":{"parent":"aaaa","path":"part","key":"run","depth":1},"queue":{}}`,
			`900 2 run.resumed - {"timed":true}`, `920 2 run.paused - {"waiting":["only"]}`, `930 3 run.resumed - {"timed":true}`, // is queued again
			`990 4 run.resumed - {"timed":true}`, `1020 4 task.done only {"node":"only","step":0,"took_ms":15}`, `1021 4 run.finished - {"steps":1}`),
		"toolstep": log(`0 1 run.started - {"workflow":"fetch","timed":true}`, `1 1 effect.intended get {"key":"call","kind":"tool","name":"fetch","once":true,"input":{"url":"x"}}`,
			`30 1 effect.settled get {"key":"call","kind":"tool","name":"fetch","took_ms":28,"output":"text"}`, `31 1 task.done get {"node":"get","step":0,"took_ms":30}`,
			`60 1 effect.settled work {"key":"search-0","kind":"tool","name":"search","took_ms":8,"output":{"Text":"x","Error":true}}`, `61 1 run.finished - {"steps":1}`),
		"overnight": log(`0 1 run.started - {"workflow":"ask","timed":true}`, `10 1 question.asked gate {"key":"q","question":"May I?","kind":"gate"}`, `11 1 run.paused - {"waiting":["gate"]}`,
			`36000000 2 question.answered gate {"key":"q","answer":"yes"}`, `36000010 3 run.resumed - {"timed":true}`, `36000040 3 task.done gate {"node":"gate","step":0,"took_ms":20}`, `36000041 3 run.finished - {"steps":1}`),
		"takeover": log(`0 1 run.started - {"workflow":"agent","timed":true}`,
			`1 1 effect.settled work {"key":"agent","kind":"agent","name":"lead","input":{"model":"openai/m","system":"Lead.","prompt":"Go","tools":{"sh":"once"}}}`,
			`2 1 effect.intended work {"key":"turn-0","kind":"model","name":"openai/m"}`, `40 1 effect.settled work {"key":"turn-0","kind":"model","name":"openai/m","took_ms":38,"first_ms":9,"output":{"message":{"role":"assistant","parts":[]},"usage":{"in":10,"out":2},"stop":"calls","provider":"openai","id":"resp-1"},"spent":{"tokens":12,"money":34,"turns":1}}`,
			`41 1 effect.intended work {"key":"turn-0/call-0","kind":"tool","name":"sh","once":true,"input":{"c":"x"}}`,
			`9000 2 run.resumed - {"timed":true}`, `9001 2 question.asked work {"key":"unknown:turn-0/call-0:1","question":"?","kind":"unknown","options":["do it again","it happened"]}`,
			`9002 2 run.paused - {"waiting":["work"]}`),
		"external": log(`0 1 run.started - {"workflow":"code","timed":true}`,
			`1 1 effect.settled edit {"key":"agent","kind":"agent","name":"coder","input":{"model":"acp:opencode","prompt":"Fix it","external":true}}`,
			`2 1 effect.intended edit {"key":"turn-0","kind":"model","name":"acp:opencode","once":true}`,
			`50 1 effect.settled edit {"key":"turn-0","kind":"model","name":"acp:opencode","took_ms":48,"output":{"message":{"role":"assistant","parts":[]},"usage":{"in":100,"out":20},"stop":"end","started":[{"id":"1","name":"bash"}]},"spent":{"tokens":120,"money":5,"turns":1}}`,
			`80 1 effect.settled edit {"key":"turn-0/call-0","kind":"tool","name":"opencode:bash","input":{"c":"ls"},"output":{"text":"ok"},"took_ms":25,"spent":{"calls":1}}`,
			`81 1 effect.settled edit {"key":"turn-0/heard-1","kind":"wait","name":"acp:opencode","output":{"done":true},"spent":{"tokens":7}}`,
			`90 1 task.done edit {"node":"edit","step":0,"took_ms":88}`, `91 1 run.finished - {"steps":1}`),
	}
	for _, name := range recorded.Names() {
		all[name] = recorded.Load(name)
	}
	return all
}

func seq(recs []runlog.Record) iter.Seq2[runlog.Record, error] {
	return func(yield func(runlog.Record, error) bool) {
		for _, r := range recs {
			if r.Seq > 0 && !yield(r, nil) {
				return
			}
		}
	}
}

func none(string) string { return "" }

// sent exports a log to a collector.
func sent(t testing.TB, recs []runlog.Record, opt *telemetry.Options) *collector {
	t.Helper()
	c := newCollector(t)
	cfg := &telemetry.Config{Endpoint: c.URL, Env: none}
	if opt != nil {
		cfg.Options = *opt
	}
	n, err := telemetry.Send(t.Context(), "7f3a", seq(recs), cfg)
	if err != nil || n != len(c.spans) {
		t.Fatalf("%d spans, %d arrived: %v", n, len(c.spans), err)
	}
	return c
}

// Each log gives its tree, and exporting it again gives the same bytes.
func TestGoldens(t *testing.T) {
	t.Parallel()
	for name, recs := range logs() {
		c := sent(t, recs, &telemetry.Options{Supersteps: name == "chain", OpenInference: name == "external", Langfuse: name == "external"})
		if again := sent(t, recs, &telemetry.Options{Supersteps: name == "chain", OpenInference: name == "external", Langfuse: name == "external"}); !slices.EqualFunc(c.bodies, again.bodies, bytes.Equal) {
			t.Errorf("%s: the second export differs", name)
		}
		got, file := tree(c.spans), filepath.Join("testdata", name+".txt")
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(file); err != nil || got != string(want) {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
		wellFormed(t, name, c)
	}
}

// wellFormed checks that identities are unique, parents exist and contain their children, and texts of errors are absent.
func wellFormed(t *testing.T, name string, c *collector) {
	t.Helper()
	type times struct{ from, to uint64 }
	at := map[string]times{}
	for _, s := range c.spans {
		if _, twice := at[string(s.SpanId)]; twice {
			t.Errorf("%s: the span of %s is there twice", name, s.Name)
		}
		at[string(s.SpanId)] = times{s.StartTimeUnixNano, s.EndTimeUnixNano}
	}
	for _, s := range c.spans {
		parent, ok := at[string(s.ParentSpanId)]
		if !ok && !strings.HasPrefix(s.Name, "invoke_workflow") {
			t.Errorf("%s: %s has no parent", name, s.Name)
		} else if ok && (s.StartTimeUnixNano < parent.from || s.EndTimeUnixNano > parent.to) {
			t.Errorf("%s: %s is not within its parent", name, s.Name)
		}
		if s.EndTimeUnixNano < s.StartTimeUnixNano {
			t.Errorf("%s: %s ends before it begins", name, s.Name)
		}
	}
	if bytes.Contains(bytes.Join(c.bodies, nil), []byte("secret text")) {
		t.Errorf("%s: the text of an error is exported", name)
	}
}

// The tokens and the cost of a run with three sub-agents are those that the transcript shows, and so are its agents.
func TestSums(t *testing.T) {
	t.Parallel()
	for _, name := range recorded.Names() {
		recs := recorded.Load(name)
		run := &transcript.Run{}
		for _, r := range recs {
			run.Apply(r)
		}
		var in, out, agents int
		var tokens int64
		var cost, chats float64
		for _, s := range sent(t, recs, nil).spans {
			a := attrs(s.Attributes)
			n := func(key string) int { v, _ := strconv.Atoi(a[key]); return v }
			money, _ := strconv.ParseFloat(a["superstep.cost"], 64)
			switch op, _, _ := strings.Cut(s.Name, " "); op {
			case "chat":
				in, out, chats = in+n("gen_ai.usage.input_tokens"), out+n("gen_ai.usage.output_tokens"), chats+money
			case "invoke_workflow":
				tokens, cost = tokens+int64(n("superstep.tokens")), cost+money
			case "invoke_agent":
				agents++
			}
		}
		micros := float64(run.Spent.Money) / 1e6
		if in != run.Usage.In || out != run.Usage.Out || tokens != run.Spent.Tokens || math.Abs(cost-micros) > 1e-9 || math.Abs(chats-micros) > 1e-9 {
			t.Errorf("%s: got %d and %d tokens, %d in all, $%g and $%g of turns; the run has %+v, %+v", name, in, out, tokens, cost, chats, run.Usage, run.Spent)
		}
		if name == "subagents" && agents != 4 {
			t.Errorf("got %d agents, want the lead and three", agents)
		}
	}
}

// observed returns what processes export that see a log up to their ends, each going on from the one before.
func observed(recs []runlog.Record, ends []uint64) []string {
	exp := tracetest.NewInMemoryExporter()
	tp := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exp), sdktrace.WithIDGenerator(telemetry.IDs()))
	from := uint64(0)
	for _, end := range ends {
		s := telemetry.NewSpans(tp, nil)
		for _, r := range recs {
			if r.Seq <= end {
				s.Apply("7f3a", r, r.Seq > from)
				s.Apply("7f3a", r, r.Seq > from) // a record seen twice counts once
			}
		}
		from = end
	}
	return stubs(exp)
}

func stubs(exp *tracetest.InMemoryExporter) (out []string) {
	for _, s := range exp.GetSpans() {
		out = append(out, fmt.Sprint(s.SpanContext.TraceID(), s.SpanContext.SpanID(), s.Parent.SpanID(), s.Name, s.StartTime, s.EndTime, s.Attributes, s.Events, s.Links, s.Status))
	}
	slices.Sort(out)
	return out
}

// What processes export while they execute a run is what its log gives afterwards, wherever they are interrupted.
func TestLiveIsAfterwards(t *testing.T) {
	t.Parallel()
	all := logs()
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	rapid.Check(t, func(t *rapid.T) {
		recs := slices.DeleteFunc(slices.Clone(all[rapid.SampledFrom(names).Draw(t, "log")]), func(r runlog.Record) bool {
			return r.Seq == 0 || r.Kind == runlog.KindSnapshot || rapid.IntRange(0, 19).Draw(t, "lost") == 0 // random logs are these with records missing,
		})
		for range rapid.IntRange(0, 3).Draw(t, "crashes") { // and processes that resume them
			at := rapid.IntRange(0, len(recs)).Draw(t, "crash")
			r := runlog.Record{Kind: runlog.KindRunResumed, Time: start, Data: json.RawMessage(`{"timed":true}`)}
			if at > 0 {
				r.Time = recs[at-1].Time.Add(time.Second)
			}
			recs = slices.Insert(recs, at, r)
		}
		epoch, resumed := uint64(1), []uint64(nil)
		for i := range recs {
			if recs[i].Kind == runlog.KindRunResumed {
				epoch++
			}
			if recs[i].Kind == runlog.KindRunResumed {
				resumed = append(resumed, uint64(i)) // its process reads the log from its beginning
			}
			recs[i].Seq, recs[i].Epoch = uint64(i+1), epoch
		}
		recs = append(recs, runlog.Record{Seq: uint64(len(recs) + 1), Epoch: epoch, Time: start.Add(time.Hour), Kind: runlog.KindRunFinished, Data: json.RawMessage(`{}`)})
		ends := append(rapid.SliceOfN(rapid.Uint64Range(0, uint64(len(recs))), 0, 4).Draw(t, "ends"), uint64(len(recs)))
		ends = append(ends, resumed...)
		slices.Sort(ends)
		exp := tracetest.NewInMemoryExporter()
		tp := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exp), sdktrace.WithIDGenerator(telemetry.IDs()))
		if err := telemetry.Export(context.Background(), "7f3a", seq(recs), tp, nil); err != nil {
			t.Fatal(err)
		}
		want, got := stubs(exp), observed(recs, ends)
		if !slices.Equal(got, want) {
			t.Fatalf("observed %d spans, exported %d:\n%s\n\n%s", len(got), len(want), strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// A run paused overnight is two linked executions, each closed.
func TestOvernight(t *testing.T) {
	t.Parallel()
	c := sent(t, logs()["overnight"], nil)
	var roots int
	for _, s := range c.spans {
		if !strings.HasPrefix(s.Name, "invoke_workflow") {
			continue
		}
		roots++
		if took := time.Duration(s.EndTimeUnixNano - s.StartTimeUnixNano); took > time.Second { //nolint:gosec // small
			t.Errorf("an execution lasts %v", took)
		}
		if first := attrs(s.Attributes)["superstep.execution"] == "1"; first != (len(s.Links) == 0) {
			t.Errorf("%s has %d links", words(s.Attributes), len(s.Links))
		}
	}
	if roots != 2 {
		t.Errorf("got %d executions", roots)
	}
}

// engine has a workflow of a fan-out with an effect in each task.
func engine(t testing.TB, tasks int, tel *telemetry.Telemetry) *superstep.Engine {
	t.Helper()
	g := graph.New("wide", func(s, u int) int { return s + u })
	for i := range tasks {
		name := fmt.Sprintf("n%d", i)
		g.Add(name, func(ctx context.Context, _ int) (int, error) {
			return graph.Do(ctx, "do", func(context.Context, string) (int, error) { return 1, nil })
		})
		g.Edge(graph.Start, name)
		g.Edge(name, graph.End)
	}
	f, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	w, err := workflow.New("wide", "", f, func(struct{}) (int, error) { return 0, nil }, func(n int) (int, error) { return n, nil })
	if err != nil {
		t.Fatal(err)
	}
	opt := &superstep.Options{Workflows: []*workflow.Workflow{w}}
	if tel != nil {
		opt.Observe = tel.Apply
	}
	e, err := superstep.New(runlog.NewMemory(nil), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func run(t testing.TB, e *superstep.Engine) string {
	t.Helper()
	r, err := e.Start(context.Background(), "wide", json.RawMessage(`{}`), &superstep.StartOptions{Trace: caller})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := r.Wait(context.Background()); err != nil || out.Status != runlog.Completed {
		t.Fatal(out, err)
	}
	return r.ID()
}

// A run that is observed by an engine and sent arrives as it does when it is exported afterwards, in the trace of its caller, with its metrics.
func TestObserved(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	tel, err := telemetry.Open(&telemetry.Config{Endpoint: c.URL, Env: func(name string) string {
		return map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Basic%20abc,X-Team=lab", "OTEL_SERVICE_NAME": "mine"}[name]
	}})
	if err != nil {
		t.Fatal(err)
	}
	e := engine(t, 5, tel)
	id := run(t, e)
	tel.Close()
	if c.header.Get("Authorization") != "Basic abc" || c.header.Get("X-Team") != "lab" || !bytes.Contains(c.bodies[0], []byte("mine")) {
		t.Errorf("the headers are %v", c.header)
	}
	after := newCollector(t)
	if _, err := telemetry.Send(t.Context(), id, e.Follow(t.Context(), id, 0), &telemetry.Config{Endpoint: after.URL + "/v1/traces", Env: none}); err != nil {
		t.Fatal(err)
	}
	live, later := tree(c.spans), tree(after.spans)
	if live != later || len(c.spans) != 11 || !strings.Contains(live, "in 00f067aa0ba902b7 of 4bf92f3577b34da6a3ce929d0e0e4736") {
		t.Errorf("live\n%s\nafterwards\n%s", live, later)
	}
	if m := c.metrics["superstep.runs"]; m == nil || m.GetSum().DataPoints[0].GetAsInt() != 1 || !m.GetSum().IsMonotonic {
		t.Errorf("superstep.runs is %v", m)
	}
	if m := c.metrics["gen_ai.workflow.duration"]; m == nil || m.GetHistogram().DataPoints[0].Count != 1 || len(m.GetHistogram().DataPoints[0].BucketCounts) != 11 {
		t.Errorf("gen_ai.workflow.duration is %v", m)
	}
}

// The metrics of a session of agents.
func TestMetrics(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	tel, err := telemetry.Open(&telemetry.Config{Endpoint: c.URL, Env: none})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"subagents", "overnight"} {
		for _, epoch := range []uint64{1, 3} { // as engines do that execute it
			for _, r := range logs()[name] {
				if r.Epoch <= epoch {
					tel.Apply(name, r, r.Epoch == epoch)
				}
			}
		}
	}
	tel.Close()
	for name, want := range map[string]uint64{"gen_ai.client.operation.duration": 11, "gen_ai.client.token.usage": 22, "gen_ai.invoke_agent.duration": 4,
		"gen_ai.invoke_agent.inference_calls": 4, "gen_ai.execute_tool.duration": 7, "superstep.cost": 11, "superstep.run.paused.duration": 1} {
		var n uint64
		for _, p := range c.metrics[name].GetHistogram().GetDataPoints() {
			n += p.Count
		}
		if n != want {
			t.Errorf("%s has %d values, want %d", name, n, want)
		}
	}
}

// Metrics are sent while the program runs, with sums since its beginning. What has more attributes than an instrument keeps apart is one point.
func TestMetricsWhileItRuns(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	tel, err := telemetry.Open(&telemetry.Config{Endpoint: c.URL, Env: func(name string) string {
		return map[string]string{"OTEL_METRIC_EXPORT_INTERVAL": "20"}[name]
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer tel.Close()
	ended := func(from, to int) {
		for i := from; i < to; i++ {
			name := fmt.Sprintf("run%d", i)
			for _, r := range log(fmt.Sprintf(`0 1 run.started - {"workflow":"w%d","timed":true}`, i), `2 1 run.finished - {}`) {
				tel.Apply(name, r, true)
			}
		}
	}
	runs := func() (n int64, points []*metrics.NumberDataPoint) {
		c.mu.Lock()
		defer c.mu.Unlock()
		points = c.metrics["superstep.runs"].GetSum().GetDataPoints()
		for _, p := range points {
			n += p.GetAsInt()
		}
		return n, points
	}
	until := func(want int64) []*metrics.NumberDataPoint {
		for {
			n, points := runs()
			if n == want {
				return points
			}
			if n > want || t.Context().Err() != nil {
				t.Fatalf("%d runs are counted, want %d", n, want)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	ended(0, 3)
	if points := until(3); len(points) != 3 {
		t.Errorf("three workflows are %d points", len(points))
	}
	ended(0, 2100)
	points := until(2103)
	more := slices.IndexFunc(points, func(p *metrics.NumberDataPoint) bool { return attrs(p.Attributes)["otel.metric.overflow"] == "true" })
	if len(points) != 2000 || more < 0 || points[more].GetAsInt() != 101 {
		t.Errorf("there are %d points, and %d is what is beyond them", len(points), more)
	}
}

// A program's own meters get the metrics.
func TestMeters(t *testing.T) {
	t.Parallel()
	m := &counting{sums: map[string]float64{}}
	s := telemetry.NewSpans(sdktrace.NewTracerProvider(sdktrace.WithIDGenerator(telemetry.IDs())), &telemetry.Options{Meters: m})
	for _, r := range log(`0 1 run.started - {"workflow":"w","timed":true}`, `2000 1 run.finished - {}`) {
		s.Apply("run", r, true)
	}
	if m.sums["superstep.runs"] != 1 || m.sums["gen_ai.workflow.duration"] != 2 {
		t.Errorf("the meters have %v", m.sums)
	}
}

type counting struct {
	noop.MeterProvider
	sums map[string]float64
}

func (c *counting) Meter(string, ...metric.MeterOption) metric.Meter { return meter{of: c} }

type meter struct {
	noop.Meter
	of *counting
}

func (c meter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return counted{of: c.of, name: name}, nil
}

func (c meter) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return histogram{of: c.of, name: name}, nil
}

type counted struct {
	noop.Int64Counter
	of   *counting
	name string
}

func (c counted) Add(_ context.Context, n int64, _ ...metric.AddOption) {
	c.of.sums[c.name] += float64(n)
}

type histogram struct {
	noop.Float64Histogram
	of   *counting
	name string
}

func (h histogram) Record(_ context.Context, v float64, _ ...metric.RecordOption) {
	h.of.sums[h.name] += v
}

// Content is exported only if it is wanted, and without secrets.
func TestContent(t *testing.T) {
	t.Parallel()
	const canary, shaped = "canary-of-this-test", "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"
	recs := log(`0 1 run.started - {"workflow":"agent","timed":true,"inputs":{"p":"`+canary+`"}}`,
		`1 1 effect.settled work {"key":"agent","kind":"agent","name":"lead","input":{"model":"openai/m","system":"`+canary+`","prompt":"`+shaped+`"}}`,
		`40 1 effect.settled work {"key":"turn-0","kind":"model","name":"openai/m","output":{"message":{"role":"assistant","parts":[{"kind":"text","text":"hello `+shaped+strings.Repeat(" é", 9000)+`"}]},"usage":{},"stop":"end"}}`,
		`41 1 effect.settled work {"key":"turn-0/call-0","kind":"tool","name":"sh","input":{"c":"`+canary+`"},"output":{"text":"`+canary+`","error":true}}`,
		`42 1 run.failed - {"error":"`+canary+`","code":"task"}`)
	off := bytes.Join(sent(t, recs, nil).bodies, nil)
	for _, no := range []string{canary, shaped, "hello"} {
		if bytes.Contains(off, []byte(no)) {
			t.Errorf("%q is exported without Content", no)
		}
	}
	c := sent(t, recs, &telemetry.Options{Content: true})
	on := bytes.Join(c.bodies, nil)
	if bytes.Contains(on, []byte(shaped)) || !bytes.Contains(on, []byte("hello")) || !bytes.Contains(on, []byte(canary)) {
		t.Error("with Content: a credential is exported, or the content is not")
	}
	on = bytes.Join(sent(t, recs, &telemetry.Options{Content: true, Redact: func(s string) string { return strings.ReplaceAll(s, canary, "#") }}).bodies, nil)
	if bytes.Contains(on, []byte(canary)) {
		t.Error("a secret is exported that Redact knows")
	}
	for _, s := range c.spans {
		for k, v := range attrs(s.Attributes) {
			if len(v) > 8<<10 || k == "gen_ai.output.messages" && len(v) < 8000 {
				t.Errorf("%s of %s has %d bytes", k, s.Name, len(v))
			}
		}
	}
}

// A collector that is dead, never answers or answers with nonsense costs a run nothing, and is reported once.
func TestBadCollectors(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts by itself, and nobody reads
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead.Close()
	hostile := newCollector(t)
	hostile.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "http://192.0.2.1/")
		w.WriteHeader(http.StatusTemporaryRedirect)
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
	})
	env := none
	if testing.Short() { // the silent one is waited for twice, ten seconds each otherwise
		env = func(name string) string { return map[string]string{"OTEL_EXPORTER_OTLP_TIMEOUT": "2000"}[name] }
	}
	var all sync.WaitGroup
	defer all.Wait()
	for _, addr := range []string{silent.Addr().String(), dead.Addr().String(), hostile.Listener.Addr().String()} {
		var told []string
		tel, err := telemetry.Open(&telemetry.Config{Endpoint: "http://user:hunter2-canary@" + addr, Env: env, Warn: func(s string) { told = append(told, s) }})
		if err != nil {
			t.Fatal(err)
		}
		e := engine(t, 20, tel)
		run(t, e)
		for range 400 { // more than the queue holds
			for _, r := range logs()["subagents"] {
				tel.Apply("other", r, true)
			}
		}
		all.Go(func() {
			closing := time.Now()
			tel.Close()
			tel.Close()
			if took := time.Since(closing); took > faults.Bound(10*2*time.Second) || addr == dead.Addr().String() && took > faults.Bound(time.Second) {
				t.Errorf("closing took %v", took)
			}
			if len(told) != 1 || !strings.Contains(told[0], "spans were not sent") || strings.Contains(told[0], "hunter2") {
				t.Errorf("told %q", told)
			}
		})
	}
}

// No log ends the program, whatever its keys, paths and data are: a stranger may have written it.
func TestStrangeLogs(t *testing.T) {
	t.Parallel()
	rnd, _ := faults.Rand(t)
	strange := []string{"", "/", "call", "turn-0", "turn-", "/turn-1/call-", "turn-0/call-0", "a/turn-0/call-99999999999999999999", "compact-0", "[", "x[1.1]", "x/y[0.0]/z", "\xff"}
	for range faults.N(2000) {
		for name, recs := range logs() {
			tp := sdktrace.NewTracerProvider(sdktrace.WithIDGenerator(telemetry.IDs()))
			s := telemetry.NewSpans(tp, &telemetry.Options{Content: true, Supersteps: true, OpenInference: true})
			for i, r := range recs {
				var d map[string]any
				if r.Seq = uint64(i + 1); rnd.IntN(3) == 0 && json.Unmarshal(r.Data, &d) == nil {
					key := []string{"key", "kind", "name", "took_ms", "input", "output", "node", "attempt"}[rnd.IntN(8)]
					d[key] = []any{strange[rnd.IntN(len(strange))], -1, nil, []any{1}, map[string]any{"message": 1}}[rnd.IntN(5)]
					r.Data, _ = json.Marshal(d)
				}
				if rnd.IntN(8) == 0 {
					r.Path = strange[rnd.IntN(len(strange))]
				}
				func() {
					defer func() {
						if p := recover(); p != nil {
							t.Fatalf("%s: %s %q %s: %v", name, r.Kind, r.Path, r.Data, p)
						}
					}()
					s.Apply("r", r, true)
				}()
			}
		}
	}
}

// What a configuration means.
func TestOpen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cfg  telemetry.Config
		env  map[string]string
		on   bool
		fail string
	}{
		"off":                {},
		"on":                 {cfg: telemetry.Config{On: true}, on: true},
		"by the environment": {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "https://c.example:4318"}, on: true},
		"traces alone":       {env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://c.example/t"}, on: true},
		"disabled":           {cfg: telemetry.Config{On: true}, env: map[string]string{"OTEL_SDK_DISABLED": "true"}},
		"gRPC":               {cfg: telemetry.Config{On: true}, env: map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, fail: "use http/protobuf"},
		"no URL":             {cfg: telemetry.Config{Endpoint: "localhost"}, fail: "no URL"},
		"offline":            {cfg: telemetry.Config{Endpoint: "http://c.example", Offline: true}, fail: "--offline refuses"},
		"offline metrics":    {cfg: telemetry.Config{Offline: true}, env: map[string]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c.example"}, fail: "--offline refuses"},
		"offline, here":      {cfg: telemetry.Config{Endpoint: "http://127.0.0.1:4318", Offline: true}, on: true},
		"bad headers":        {cfg: telemetry.Config{On: true}, env: map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": "hunter2"}, fail: "is no list such as"},
	} {
		c.cfg.Env = func(name string) string { return c.env[name] }
		tel, err := telemetry.Open(&c.cfg)
		if (tel != nil) != c.on || (err != nil) != (c.fail != "") || err != nil && (!strings.Contains(err.Error(), c.fail) || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%s: got %v, %v", name, tel, err)
		}
		tel.Close()
	}
}

// BenchmarkApply measures what a record costs.
func BenchmarkApply(b *testing.B) {
	recs := slices.DeleteFunc(recorded.Load("subagents"), func(r runlog.Record) bool { return r.Seq == 0 })
	tp := sdktrace.NewTracerProvider(sdktrace.WithIDGenerator(telemetry.IDs()))
	s := telemetry.NewSpans(tp, nil)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		s.Apply("7f3a", recs[n%len(recs)], true)
		n++
	}
}

// What telemetry costs a run of 200 tasks with an effect each: none, a collector, and one that never answers.
func BenchmarkRun(b *testing.B) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer silent.Close()
	for _, c := range []struct{ name, collector string }{{"none", ""}, {"collector", newCollector(b).URL}, {"silent", "http://" + silent.Addr().String()}} {
		b.Run(c.name, func(b *testing.B) {
			var tel *telemetry.Telemetry
			if c.collector != "" {
				var err error
				if tel, err = telemetry.Open(&telemetry.Config{Endpoint: c.collector, Env: none, Warn: func(string) {}}); err != nil {
					b.Fatal(err)
				}
			}
			e := engine(b, 200, tel)
			for b.Loop() {
				run(b, e)
			}
			tel.Close()
		})
	}
}
