package cli

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/runlog"
)

// shownRun is a run of which the records are made here, as the views have it.
type shownRun struct {
	t   *testing.T
	s   *session
	out bytes.Buffer
	seq uint64
	at  time.Time
}

func newShownRun(t *testing.T, views func(*session, *output) view) *shownRun {
	x := &shownRun{t: t, at: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
	x.s = &session{named: make(chan struct{}), now: func() time.Time { return x.at }}
	x.s.views = []view{views(x.s, &output{w: &x.out})}
	x.s.name("r1")
	x.add(runlog.KindRunStarted, "", `{"workflow":"w"}`)
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
	x.s.observe(runlog.Record{Seq: seq, Kind: kind, Path: path, Time: x.at, Data: json.RawMessage(data)}, nil)
}

// A foreach commits supersteps of its own, which are none of the run's.
func TestEventsOfInnerGraphs(t *testing.T) {
	t.Parallel()
	x := newShownRun(t, func(s *session, o *output) view { return &events{s: s, out: o} })
	x.add(runlog.KindTaskDone, "plan", `{"node":"plan","step":0}`)
	x.add(runlog.KindStepCommitted, "", `{"step":0}`)
	x.live("each", "task.started", `{"node":"each","step":1}`)
	for _, item := range []string{"each/1", "each/2"} {
		x.live(item+"/it", "task.started", `{"node":"it","step":0}`)
		x.add(runlog.KindTaskDone, item+"/it", `{"node":"it","step":0}`)
		x.add(runlog.KindStepCommitted, item, `{"step":0}`)
	}
	x.add(runlog.KindTaskDone, "each", `{"node":"each","step":1}`)
	x.add(runlog.KindStepCommitted, "", `{"step":1}`)
	var done []string
	for line := range strings.Lines(x.out.String()) {
		var e struct {
			Type, Task string
			Data       struct {
				Superstep int
				Tasks     []string
			}
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		switch {
		case e.Type == "step.done":
			done = append(done, strings.Join(e.Data.Tasks, " "))
		case e.Type == "task.started" && e.Data.Superstep != 1:
			t.Errorf("%s is said to be of superstep %d", e.Task, e.Data.Superstep)
		}
	}
	if got := strings.Join(done, "|"); got != "plan|each" {
		t.Errorf("step.done of %q, want those of the run alone", got)
	}
}

// What failed is told from what had no reason to run.
func TestFailedIsNotSkipped(t *testing.T) {
	t.Parallel()
	x := newShownRun(t, func(s *session, o *output) view { return &events{s: s, out: o} })
	x.add(runlog.KindTaskDone, "cond", `{"node":"cond","step":0,"error":"boom","update":{"status":"failed"}}`)
	x.add(runlog.KindTaskDone, "less", `{"node":"less","step":0,"error":"late","update":{"status":"degraded"}}`)
	x.add(runlog.KindEvent, "skipme", `{"name":"not_run","data":{"why":"its condition is false"}}`)
	x.add(runlog.KindTaskDone, "skipme", `{"node":"skipme","step":0}`)
	x.add(runlog.KindRunFinished, "", `{"steps":1,"skipped":["cond","less"]}`)
	for name, v := range map[string]any{
		"the end":   (&ending{run: &x.s.run, id: "r1", status: runlog.Partial}).json(),
		"runs show": showJSON(runlog.Info{ID: "r1", Status: runlog.Partial}, &x.s.run, x.at, nil),
	} {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var got struct{ Failed, Degraded, Skipped []string }
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatal(err)
		}
		if strings.Join(got.Failed, " ") != "cond" || strings.Join(got.Degraded, " ") != "less" || strings.Join(got.Skipped, " ") != "skipme" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func newPlainRun(t *testing.T) *shownRun {
	return newShownRun(t, func(s *session, o *output) view {
		v := plainLines(s, o, time.Hour)
		v.verbose = true
		return v
	})
}

// lines are those that the plain view has written, without their times.
func (x *shownRun) lines() string {
	return regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d `).ReplaceAllString(x.out.String(), "")
}

// Steps say that they start, a failure is told once, a turn has its own tokens, and what is inside of a step is no step.
func TestPlainLines(t *testing.T) {
	t.Parallel()
	x := newPlainRun(t)
	x.live("slow", "task.started", `{"node":"slow","step":0}`)
	x.live("lead", "task.started", `{"node":"lead","step":0}`)
	x.add(runlog.KindTaskFailed, "slow", `{"node":"slow","step":0,"attempt":1,"error":"it took too long","final":true}`)
	x.add(runlog.KindTaskDone, "slow", `{"node":"slow","step":0,"error":"it took too long","update":{"status":"degraded"}}`)
	for _, n := range []string{"1", "2"} {
		x.add(runlog.KindSettled, "lead", `{"key":"turn-`+n+`","kind":"model","name":"m","output":{"usage":{"in":100,"out":20}}}`)
	}
	x.add(runlog.KindSettled, "lead", `{"key":"turn-3","kind":"model","name":"m","error":"500"}`)
	x.add(runlog.KindSettled, "lead/task[4.1]", `{"key":"job/nope","kind":"job","name":"nope","output":{"success":false,"error":"there is no agent nope"}}`)
	x.add(runlog.KindSettled, "lead", `{"key":"turn-3/call-0","kind":"tool","name":"task","output":{"text":"failed: there is no agent nope","error":true}}`)
	x.live("lead/~[w]/each[1]", "task.started", `{"node":"each","key":"1","step":0}`)
	x.add(runlog.KindTaskDone, "lead/~[w]/each[1]", `{"node":"each","key":"1","step":0}`)
	x.add(runlog.KindTaskFailed, "lead", `{"node":"lead","step":0,"attempt":1,"error":"gave up","final":true}`)
	x.add(runlog.KindRunFailed, "", `{"error":"gave up"}`)
	want := `run r1 w started
step slow start
step lead start
step slow degraded 2.0s: it took too long
turn lead tokens=120
turn lead tokens=120
job lead/task/4.1 nope failed 0.0s: there is no agent nope
task lead/~/w/each[1] ok 1.0s
step lead failed 10s attempt=1
`
	if got := x.lines(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Programs tell a summary of a conversation from a turn, and a job that failed from one that did not.
func TestEventsOfEffects(t *testing.T) {
	t.Parallel()
	x := newShownRun(t, func(s *session, o *output) view { return &events{s: s, out: o, text: true} })
	x.add(runlog.KindIntended, "work", `{"key":"compact-1","kind":"model","name":"m"}`)
	x.live("work", "text", `{"text":"SUM"}`)
	x.add(runlog.KindSettled, "work", `{"key":"compact-1","kind":"model","name":"m","output":{}}`)
	x.add(runlog.KindSettled, "work", `{"key":"job/nope","kind":"job","name":"nope","output":{"success":false,"error":"there is no agent nope"}}`)
	got := x.out.String()
	for _, want := range []string{`"summary.started"`, `"summary.done"`, `"error":"there is no agent nope"`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	if strings.Contains(got, "delta") || strings.Contains(got, `"turn.`) {
		t.Errorf("the summary is shown as what the agent says:\n%s", got)
	}
}

func TestUnchained(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"node plan: agent plan: no answer": "node plan: no answer",
		"node plan: agent dig: no answer":  "node plan: agent dig: no answer",
		"node plan":                        "node plan",
		"agent plan: no answer":            "agent plan: no answer",
	} {
		if got := unchained(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

func TestByGo(t *testing.T) {
	t.Parallel()
	for exe, want := range map[string]bool{
		"/home/a/.cache/go-build/4f/4f00-d/review":     true,
		"/tmp/go-build123/b001/exe/review":             true,
		`C:/Temp/go-build123/b001/exe/review.exe`:      true,
		"/tmp/go-build123/b001/cli.test":               false,
		"/usr/local/bin/review":                        false,
		"/home/a/src/github.com/b/c/examples/review/r": false,
	} {
		if byGo(exe) != want {
			t.Errorf("%s: %t, want %t", exe, !want, want)
		}
	}
}
