package tui

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

// Labels and progress are what models and nodes say, and no width of theirs breaks a screen.
func TestRowsOfAnyWidth(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var run transcript.Run
		key := rapid.StringOf(rapid.SampledFrom([]rune("aé日本한👩‍🚀🇩🇪\u0301\u200b-"))).Draw(t, "key")
		run.Apply(runlog.Record{Seq: 1, Kind: runlog.KindRunStarted, Data: json.RawMessage(`{"workflow":"w"}`)})
		for _, path := range []string{"part[" + key + "]", "part[" + key + key + "x]"} {
			run.Apply(runlog.Record{Kind: runlog.KindEvent, Path: path, Data: json.RawMessage(`{"name":"task.started","data":{"step":0}}`)})
			run.Apply(runlog.Record{Kind: runlog.KindEvent, Path: path, Data: json.RawMessage(`{"name":"progress","data":{"text":"x","done":-7,"all":9}}`)})
		}
		width := rapid.IntRange(20, 100).Draw(t, "width")
		for _, line := range (painter{}).table(rowsOf(&run, run.Steps[0]), 0, width, time.Time{}) {
			if n := ansi.StringWidth(line); n > width {
				t.Errorf("%q has %d cells of %d", line, n, width)
			}
		}
	})
}
