package tui

import (
	"bytes"
	"encoding/json"
	"regexp"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/runlog"
)

// shownRun is a run of which the records are made here, as the views have it.
type shownRun struct {
	t   *testing.T
	s   *Session
	out bytes.Buffer
	seq uint64
	at  time.Time
}

func newPlainRun(t *testing.T) *shownRun {
	x := &shownRun{t: t, at: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
	x.s = &Session{named: make(chan struct{}), now: func() time.Time { return x.at }}
	v := plainLines(x.s, &x.out, time.Hour)
	v.verbose = true
	x.s.view = v
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
task lead/w/each/1 ok 1.0s
step lead failed 10s attempt=1
`
	if got := x.lines(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
