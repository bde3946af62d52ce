package tui_test

import (
	"encoding/json"
	"os"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/internal/tui"
	"github.com/superstep-dev/superstep/runlog"
)

// A program shows a run by handing its records to a session. An engine does that with Observe and Answer.
func Example() {
	screen := tui.New(strings.NewReader(""), os.Stdout, os.Stdout, func(string) string { return "" })
	screen.Look(&tui.Settings{})
	session := screen.Follow(0, nil)
	session.Begin("7f3a")
	at := time.Date(2026, 1, 2, 12, 0, 0, 0, time.Local)
	for i, r := range []runlog.Record{
		{Kind: runlog.KindRunStarted, Data: json.RawMessage(`{"workflow":"brief"}`)},
		{Kind: runlog.KindTaskDone, Path: "write", Data: json.RawMessage(`{"node":"write","step":0}`)},
	} {
		r.Seq, r.Time = uint64(i+1), at.Add(time.Duration(i)*time.Second)
		session.Observe(r, nil)
	}
	session.Close()
	// Output:
	// 12:00:00 run 7f3a brief started
	// 12:00:01 step write start
	// 12:00:01 step write ok 1.0s
}
