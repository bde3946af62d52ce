package events_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/internal/events"
	"github.com/superstep-dev/superstep/internal/events/eventstest"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

// shownRun is a run of which the records are made here, as the events have it.
type shownRun struct {
	s   *events.Stream
	run transcript.Run
	out bytes.Buffer
	seq uint64
	at  time.Time
}

func newShownRun(t interface{ Error(args ...any) }) *shownRun {
	x := &shownRun{at: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
	x.s = &events.Stream{Text: true, Write: func(e *events.Event) {
		if err := json.NewEncoder(&x.out).Encode(e); err != nil {
			t.Error(err)
		}
	}}
	x.add(runlog.KindRunStarted, "", `{"workflow":"w","timed":true}`)
	return x
}

// add is the next record, a second after the one before.
func (x *shownRun) add(kind runlog.Kind, path, data string) {
	x.seq++
	x.put(x.seq, kind, path, data)
}

// live is the next live-only event.
func (x *shownRun) live(path, name, data string) {
	x.put(0, runlog.KindEvent, path, `{"name":"`+name+`","data":`+data+`}`)
}

func (x *shownRun) put(seq uint64, kind runlog.Kind, path, data string) {
	x.at = x.at.Add(time.Second)
	rec := runlog.Record{Seq: seq, Kind: kind, Path: path, Time: x.at, Data: json.RawMessage(data)}
	x.run.Apply(rec)
	x.s.See("r1", &rec, &x.run)
}

// all checks the events and returns those of some types, or all, each as its fields without those that all have.
func (x *shownRun) all(t *testing.T, types ...string) []string {
	t.Helper()
	c, err := eventstest.New()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.All(x.out.Bytes()); err != nil {
		t.Error(err)
	}
	var out []string
	for line := range strings.Lines(x.out.String()) {
		var e struct{ Type string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if len(types) == 0 || slices.Contains(types, e.Type) {
			_, rest, _ := strings.Cut(strings.TrimSpace(line), `"run":"r1","type":`)
			out = append(out, strings.TrimSuffix(rest, "}"))
		}
	}
	return out
}

func (x *shownRun) want(t *testing.T, types []string, want ...string) {
	t.Helper()
	if d := cmp.Diff(want, x.all(t, types...)); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

// A foreach commits supersteps of its own, which are none of the run's.
func TestEventsOfInnerGraphs(t *testing.T) {
	t.Parallel()
	x := newShownRun(t)
	x.add(runlog.KindTaskDone, "plan", `{"node":"plan","step":0}`)
	x.add(runlog.KindStepCommitted, "", `{"step":0}`)
	x.live("each", "task.started", `{"node":"each","step":1}`)
	for _, item := range []string{"each/1", "each/2"} {
		x.live(item+"/it", "task.started", `{"node":"it","step":0}`)
		x.add(runlog.KindTaskDone, item+"/it", `{"node":"it","step":0}`)
		x.add(runlog.KindStepCommitted, item, `{"step":0}`)
	}
	x.add(runlog.KindTaskDone, "each", `{"node":"each","step":1,"took_ms":700}`)
	x.add(runlog.KindStepCommitted, "", `{"step":1}`)
	x.want(t, []string{"step.done", "task.started"},
		`"step.done","data":{"superstep":0,"tasks":["plan"],"took_ms":2000}`,
		`"task.started","task":"each","node":"each","attempt":1,"label":"each","data":{"superstep":1}`,
		`"task.started","task":"each/1/it","node":"it","parent":"each","depth":1,"attempt":1,"label":"each/1/it","data":{"superstep":1}`,
		`"task.started","task":"each/2/it","node":"it","parent":"each","depth":1,"attempt":1,"label":"each/2/it","data":{"superstep":1}`,
		`"step.done","data":{"superstep":1,"tasks":["each"],"took_ms":9000}`,
	)
}

// Who an event is of: the agent has a name of its own, and so has the task of a fan-out that it works in.
func TestAttribution(t *testing.T) {
	t.Parallel()
	x := newShownRun(t)
	x.add(runlog.KindSettled, "gather[api%2Fv1]#2", `{"key":"agent","kind":"agent","name":"lead","input":{"model":"m","prompt":"Go","window":100,"priced":true}}`)
	x.add(runlog.KindSettled, "gather[api%2Fv1]#2", `{"key":"judge/agent","kind":"agent","name":"referee","input":{"model":"m","prompt":"Judge"}}`)
	x.add(runlog.KindIntended, "gather[api%2Fv1]#2", `{"key":"turn-0","kind":"model","name":"m"}`)
	x.add(runlog.KindIntended, "gather[api%2Fv1]#2", `{"key":"judge/turn-0","kind":"model","name":"m"}`)
	x.add(runlog.KindSettled, "gather[api%2Fv1]#2/task[1.1]", `{"key":"agent","kind":"agent","name":"helper","input":{"model":"m","prompt":"Look"}}`)
	const task = `"task":"gather[api%2Fv1]#2","node":"gather","key":"api/v1"`
	const more = `"attempt":1,"label":"gather/api/v1#2"`
	x.want(t, nil,
		`"run.started","data":{"workflow":"w"}`,
		`"agent.started",`+task+`,"agent":"lead",`+more+`,"data":{"key":"agent","agent":"lead","model":"m","prompt":"Go","window":100}`,
		`"agent.started",`+task+`,"agent":"referee",`+more+`,"data":{"key":"judge/agent","agent":"referee","model":"m","prompt":"Judge"}`,
		`"turn.started",`+task+`,"agent":"lead",`+more+`,"data":{"key":"turn-0","model":"m"}`,
		`"turn.started",`+task+`,"agent":"referee",`+more+`,"data":{"key":"judge/turn-0","model":"m"}`,
		`"agent.started","task":"gather[api%2Fv1]#2/task[1.1]","node":"task","key":"1.1","agent":"helper","parent":"gather[api%2Fv1]#2","depth":1,`+
			`"attempt":1,"label":"gather/api/v1#2/task/1.1","data":{"key":"agent","agent":"helper","model":"m","prompt":"Look"}`,
	)
}

// Programs tell a summary of a conversation from a turn, a job that failed from one that did not, and see nothing that is for the log alone.
func TestEventsOfEffects(t *testing.T) {
	t.Parallel()
	x := newShownRun(t)
	x.add(runlog.KindIntended, "work", `{"key":"compact-1","kind":"model","name":"m"}`)
	x.live("work", "text", `{"text":"SUM"}`)
	x.add(runlog.KindSettled, "work", `{"key":"compact-1","kind":"model","name":"m","output":{}}`)
	x.add(runlog.KindSettled, "work", `{"key":"job/nope","kind":"job","name":"nope","output":{"success":false,"error":"there is no agent nope"}}`)
	for _, kind := range []string{"branch", "limit", "gate", "grant", "remember", "note", "spill", "save", "cancel", "inputs"} {
		x.add(runlog.KindIntended, "work", `{"key":"k","kind":"`+kind+`"}`)
		x.add(runlog.KindSettled, "work", `{"key":"k","kind":"`+kind+`"}`)
	}
	x.add(runlog.KindEvent, "work", `{"name":"granted","data":{"what":"x"}}`)
	const task = `"task":"work","node":"work","attempt":1,"label":"work","data":`
	x.want(t, nil,
		`"run.started","data":{"workflow":"w"}`,
		`"summary.started",`+task+`{"key":"compact-1","model":"m"}`,
		`"summary.done",`+task+`{"key":"compact-1","model":"m","usage":{"in":0,"out":0},"took_ms":0}`,
		`"effect.done",`+task+`{"key":"job/nope","kind":"job","name":"nope","error":"there is no agent nope","took_ms":0}`,
	)
}

// A turn says what it cost, also one that was cut, with what there was of it; a model without a price makes a cost unknown.
func TestCosts(t *testing.T) {
	t.Parallel()
	x := newShownRun(t)
	x.add(runlog.KindSettled, "w", `{"key":"agent","kind":"agent","name":"a","input":{"priced":true}}`)
	x.add(runlog.KindSettled, "w", `{"key":"turn-0","kind":"model","name":"m","took_ms":40,"spent":{"tokens":6,"money":30},"error":"cut off",`+
		`"partial":{"message":{"role":"assistant","parts":[{"kind":"text","text":"I sh"}]},"usage":{"in":5,"out":1},"stop":""}}`)
	x.add(runlog.KindSettled, "w/task[1.1]", `{"key":"agent","kind":"agent","name":"b","input":{}}`)
	x.add(runlog.KindSettled, "w/task[1.1]", `{"key":"turn-0","kind":"model","name":"free","spent":{"tokens":6},"output":{"message":{"role":"assistant","parts":[]},"usage":{"in":5,"out":1},"stop":"end"}}`)
	x.add(runlog.KindTaskDone, "w", `{"node":"w","step":0,"took_ms":90}`)
	const w = `"task":"w","node":"w","agent":"a","attempt":1,"label":"w","data":`
	x.want(t, []string{"turn.failed", "turn.done", "task.done"},
		`"turn.failed",`+w+`{"key":"turn-0","model":"m","message":{"role":"assistant","parts":[{"kind":"text","text":"I sh"}]},"usage":{"in":5,"out":1},`+
			`"error":"cut off","took_ms":40,"cost":{"micros":30}}`,
		`"turn.done","task":"w/task[1.1]","node":"task","key":"1.1","agent":"b","parent":"w","depth":1,"attempt":1,"label":"w/task/1.1",`+
			`"data":{"key":"turn-0","model":"free","message":{"role":"assistant","parts":[]},"usage":{"in":5,"out":1},"stop":"end","took_ms":0}`,
		`"task.done",`+w+`{"state":"done","superstep":0,"took_ms":90,"tools":0,"cost":{"micros":30,"more":true}}`,
	)
}

// What nobody has reckoned is unknown, and not free.
func TestUnknownCost(t *testing.T) {
	t.Parallel()
	x := newShownRun(t)
	x.add(runlog.KindSettled, "w", `{"key":"turn-0","kind":"model","name":"m","output":{"message":{"role":"assistant","parts":[]},"usage":{"in":5,"out":1},"stop":"end"}}`)
	x.add(runlog.KindTaskDone, "w", `{"node":"w","step":0}`)
	x.want(t, []string{"task.done"}, `"task.done","task":"w","node":"w","attempt":1,"label":"w","data":{"state":"done","superstep":0,"took_ms":0,"tools":0}`)
}

// What a task waits for, and that it tries again.
func TestEventsOfWaiting(t *testing.T) {
	t.Parallel()
	x := newShownRun(t)
	x.live("w", "task.queued", `null`)
	x.live("w", "task.works", `null`)
	x.add(runlog.KindTaskFailed, "w", `{"node":"w","step":0,"attempt":1,"error":"broke","took_ms":5,"next_ms":1500}`)
	x.add(runlog.KindSettled, "w", `{"key":"turn-0","kind":"model","name":"m","error":"429"}`)
	x.add(runlog.KindIntended, "w", `{"key":"turn-0/wait-1","kind":"timer"}`)
	x.add(runlog.KindSettled, "w", `{"key":"turn-0/wait-1","kind":"timer","output":"2026-01-01T12:01:00Z"}`)
	x.add(runlog.KindEvent, "w", `{"name":"context","data":{"agent":"a","used":80,"window":100,"action":"compacted"}}`)
	x.add(runlog.KindSettled, "w", `{"key":"turn-1/call-0","kind":"tool","name":"todo","input":{"todos":[{"content":"first","status":"pending"}]},"output":{"text":"ok"}}`)
	x.add(runlog.KindTaskFailed, "w", `{"node":"w","step":0,"attempt":2,"error":"late","late":true,"final":true}`)
	x.add(runlog.KindAsked, "v", `{"key":"permit/1","kind":"permission","question":"May a call bash?","agent":"a","options":["once","deny"],`+
		`"call":{"tool":"bash","args":{"command":"ls"},"cwd":"/p","rule":"bash(ls)","origin":"project","reason":"it is asked about","always":"bash(ls *)","diff":"+x",`+
		`"parts":[{"text":"ls"}]}}`)
	x.add(runlog.KindAsked, "v", `{"key":"q","kind":"ask","question":"Which?","options":["this"]}`)
	x.add(runlog.KindRunPaused, "", `{"waiting":["v"],"reason":"enough","by":"ada"}`)
	x.add(runlog.KindRunResumed, "", `{}`)
	x.add(runlog.KindEvent, "", `{"name":"interrupted","data":{"cause":"SIGTERM"}}`)
	const first, second, v = `"task":"w","node":"w","attempt":1,"label":"w"`, `"task":"w","node":"w","attempt":2,"label":"w"`, `"task":"v","node":"v"`
	got := x.all(t)
	want := []string{
		`"run.started","data":{"workflow":"w"}`,
		`"task.queued",` + first,
		`"task.dequeued",` + first,
		`"task.retrying",` + first + `,"data":{"attempt":1,"error":"broke","at":"2026-01-01T12:00:05.5Z","took_ms":5}`,
		`"turn.failed",` + second + `,"data":{"key":"turn-0","model":"m","error":"429","took_ms":0}`,
		`"task.retrying",` + second + `,"data":{"key":"turn-0","attempt":1,"error":"429","at":"2026-01-01T12:01:00Z"}`,
		`"context","task":"w","node":"w","agent":"a","attempt":2,"label":"w","data":{"used":80,"window":100,"action":"compacted"}`,
		`"tasks.updated",` + second + `,"data":{"items":[{"content":"first","status":"pending"}]}`,
		`"tool.done",` + second + `,"data":{"key":"turn-1/call-0","tool":"todo","args":{"todos":[{"content":"first","status":"pending"}]},"result":{"text":"ok"},"took_ms":0}`,
		`"task.failed",` + second + `,"data":{"attempt":2,"error":"late","late":true}`,
		`"permission.requested",` + v + `,"agent":"a","attempt":1,"label":"v","data":{"key":"permit/1","tool":"bash","args":{"command":"ls"},"cwd":"/p",` +
			`"parts":[{"text":"ls"}],"rule":"bash(ls)","origin":"project","reason":"it is asked about","always":"bash(ls *)","diff":"+x","options":["once","deny"]}`,
		`"question.asked",` + v + `,"attempt":1,"label":"v","data":{"key":"q","kind":"ask","question":"Which?","options":["this"]}`,
		`"run.paused","data":{"reason":"enough","by":"ada","waits":{"what":"person"}}`,
		`"run.resumed","data":{"workflow":"w","questions":[{"path":"v","key":"permit/1","kind":"permission","agent":"a","question":"May a call bash?",` +
			`"call":{"tool":"bash","args":{"command":"ls"},"cwd":"/p","parts":[{"text":"ls"}],"rule":"bash(ls)","origin":"project","reason":"it is asked about",` +
			`"always":"bash(ls *)","diff":"+x"},"options":["once","deny"]},{"path":"v","key":"q","kind":"ask","question":"Which?","options":["this"]}]}`,
		`"run.interrupted","data":{"reason":"SIGTERM"}`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

// Whatever a log says, its events fit the schema, are numbered without gaps, and their positions grow.
func TestAnyRecordGivesValidEvents(t *testing.T) {
	t.Parallel()
	c, err := eventstest.New()
	if err != nil {
		t.Fatal(err)
	}
	kinds := []runlog.Kind{
		runlog.KindRunStarted, runlog.KindRunResumed, runlog.KindRunPaused, runlog.KindRunFailed, runlog.KindRunCancelled, runlog.KindRunFinished, runlog.KindTaskDone,
		runlog.KindTaskFailed, runlog.KindStepCommitted, runlog.KindSnapshot, runlog.KindIntended, runlog.KindSettled, runlog.KindAsked, runlog.KindAnswered, runlog.KindEvent,
	}
	fields := []string{
		"workflow", "inputs", "reason", "by", "node", "step", "attempt", "error", "final", "next_ms", "took_ms", "key", "kind", "name", "input", "output", "partial", "spent",
		"question", "options", "call", "schema", "default", "answer", "denied", "data", "agent", "text",
	}
	values := []string{
		`null`, `0`, `-3`, `7`, `true`, `"x"`, `""`, `[]`, `["a"]`, `{}`, `"agent"`, `"model"`, `"tool"`, `"timer"`, `"job"`, `"todo"`, `"permission"`, `"turn-0/wait-2"`,
		`"turn-0/call-0"`, `"text"`, `"context"`, `"interrupted"`, `"task.started"`, `"task.queued"`, `{"tokens":3}`, `{"tool":"bash","parts":[{}]}`, `{"used":"x"}`,
		`{"todos":[{"content":3},{"status":"x"}]}`, `{"message":{"role":"assistant"},"usage":{"in":1}}`, `{"agent":"a","text":"b","used":4}`,
	}
	rapid.Check(t, func(rt *rapid.T) {
		x := newShownRun(rt)
		for i := range rapid.IntRange(1, 30).Draw(rt, "records") {
			var data []string
			for _, f := range rapid.SliceOfNDistinct(rapid.SampledFrom(fields), 0, 8, rapid.ID).Draw(rt, "fields") {
				data = append(data, fmt.Sprintf("%q:%s", f, rapid.SampledFrom(values).Draw(rt, f)))
			}
			seq := x.seq + 1
			switch rapid.IntRange(0, 5).Draw(rt, fmt.Sprintf("seq %d", i)) {
			case 0:
				seq = 0
			case 1:
				seq = x.seq // once more
			}
			x.seq = max(x.seq, seq)
			path := rapid.SampledFrom([]string{"", "a", "a[k]", "a[k]/b", "a/1/b#2", "a[k%2F]"}).Draw(rt, "path")
			x.put(seq, rapid.SampledFrom(kinds).Draw(rt, "kind"), path, "{"+strings.Join(data, ",")+"}")
		}
		if _, err := c.All(x.out.Bytes()); err != nil {
			rt.Error(err)
		}
	})
}

// The checks of all other tests can fail.
func TestChecker(t *testing.T) {
	t.Parallel()
	c, err := eventstest.New()
	if err != nil {
		t.Fatal(err)
	}
	const head = `{"v":2,"n":1,"seq":4,"ts":"2026-01-01T12:00:00Z","run":"r","type":`
	good := head + `"run.started","data":{"workflow":"w"}}` + "\n"
	if n, err := c.All([]byte(good)); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	for _, bad := range []string{
		strings.Replace(good, `"v":2`, `"v":1`, 1),
		strings.Replace(good, `"seq":4`, `"seq":0`, 1),
		strings.Replace(good, `"n":1`, `"n":2`, 1),
		strings.Replace(good, `12:00`, `noon`, 1),
		strings.Replace(good, `"run.started"`, `"run.begun"`, 1),
		strings.Replace(good, `"data"`, `"step":"x","data"`, 1),
		strings.Replace(good, `"data"`, `"agent":3,"data"`, 1),
		strings.Replace(good, `"data"`, `"node":"x","data"`, 1), // of no task
		strings.Replace(good, `"workflow":"w"`, `"workflow":"w","more":1`, 1),
		head + `"run.started"}` + "\n",
		head + `"task.done","data":{"state":"over","superstep":0,"took_ms":0,"tools":0}}` + "\n",
		head + `"turn.done","data":{"key":"k","model":"m","took_ms":0,"cost":{"dollars":1}}}` + "\n",
		good + strings.Replace(good, `"n":1`, `"n":2`, 1), // the same position once more
	} {
		if _, err := c.All([]byte(bad)); err == nil {
			t.Errorf("it takes %s", bad)
		}
	}
}

// The example of the documentation is one.
func TestDocumentedExample(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	c, err := eventstest.New()
	if err != nil {
		t.Fatal(err)
	}
	if n, err := c.All(page); n < 5 || err != nil {
		t.Errorf("%d events, %v", n, err)
	}
}
