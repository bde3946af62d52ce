package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tui"
)

// shownRun is a run of which the records are made here, as the events have it.
type shownRun struct {
	t   *testing.T
	s   *tui.Session
	out bytes.Buffer
	seq uint64
	at  time.Time
}

func newShownRun(t *testing.T) *shownRun {
	x := &shownRun{t: t, at: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
	v := &events{out: &output{w: &x.out}, text: true}
	screen := tui.New(nil, nil, nil, os.Getenv)
	screen.Look(&tui.Settings{Quiet: true})
	x.s = screen.Follow(0, v.see)
	x.s.Begin("r1")
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
	x.s.Observe(runlog.Record{Seq: seq, Kind: kind, Path: path, Time: x.at, Data: json.RawMessage(data)}, nil)
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
	x := newShownRun(t)
	x.add(runlog.KindTaskDone, "cond", `{"node":"cond","step":0,"error":"boom","update":{"status":"failed"}}`)
	x.add(runlog.KindTaskDone, "less", `{"node":"less","step":0,"error":"late","update":{"status":"degraded"}}`)
	x.add(runlog.KindEvent, "skipme", `{"name":"not_run","data":{"why":"its condition is false"}}`)
	x.add(runlog.KindTaskDone, "skipme", `{"node":"skipme","step":0}`)
	x.add(runlog.KindRunFinished, "", `{"steps":1,"skipped":["cond","less"]}`)
	for name, v := range map[string]any{
		"the end":   (&ending{run: x.s.Run(), id: "r1", status: runlog.Partial}).json(),
		"runs show": showJSON(runlog.Info{ID: "r1", Status: runlog.Partial}, x.s.Run(), x.at, nil),
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

// Programs tell a summary of a conversation from a turn, and a job that failed from one that did not.
func TestEventsOfEffects(t *testing.T) {
	t.Parallel()
	x := newShownRun(t)
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
