package events

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

// shownRun is a run of which the records are made here, as the events have it.
type shownRun struct {
	t   *testing.T
	s   *Stream
	run transcript.Run
	out bytes.Buffer
	seq uint64
	at  time.Time
}

func newShownRun(t *testing.T) *shownRun {
	x := &shownRun{t: t, at: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
	x.s = &Stream{Text: true, Write: func(e *Event) {
		if err := json.NewEncoder(&x.out).Encode(e); err != nil {
			t.Error(err)
		}
	}}
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
	rec := runlog.Record{Seq: seq, Kind: kind, Path: path, Time: x.at, Data: json.RawMessage(data)}
	x.run.Apply(rec)
	x.s.See("r1", &rec, &x.run)
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
