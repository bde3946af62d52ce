package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

// What failed is told from what had no reason to run.
func TestFailedIsNotSkipped(t *testing.T) {
	t.Parallel()
	run, at := &transcript.Run{}, time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	add := func(kind runlog.Kind, path, data string) {
		at = at.Add(time.Second)
		run.Apply(runlog.Record{Seq: run.Seq + 1, Kind: kind, Path: path, Time: at, Data: json.RawMessage(data)})
	}
	add(runlog.KindRunStarted, "", `{"workflow":"w"}`)
	add(runlog.KindTaskDone, "cond", `{"node":"cond","step":0,"error":"boom","update":{"status":"failed"}}`)
	add(runlog.KindTaskDone, "less", `{"node":"less","step":0,"error":"late","update":{"status":"degraded"}}`)
	add(runlog.KindEvent, "skipme", `{"name":"not_run","data":{"why":"its condition is false"}}`)
	add(runlog.KindTaskDone, "skipme", `{"node":"skipme","step":0}`)
	add(runlog.KindRunFinished, "", `{"steps":1,"skipped":["cond","less"]}`)
	for name, v := range map[string]any{
		"the end":   (&ending{run: run, id: "r1", status: runlog.Partial}).json(),
		"runs show": showJSON(runlog.Info{ID: "r1", Status: runlog.Partial}, run, at, nil),
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
		"/some/cache/4f/4f00-d/review":                 true,
		"/some/cache/4f/5f00-d/review":                 false,
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
