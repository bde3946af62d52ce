package transcript_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/internal/events"
	"github.com/superstep-dev/superstep/internal/events/eventstest"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

// The events of random runs fit their schema. Who reads them again from a position on gets those after it as they were, but for
// what is live-only: text is not asked for here.
func TestEventsOfRandomRuns(t *testing.T) {
	t.Parallel()
	c, err := eventstest.New()
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		s := play(rt)
		print := func(records []runlog.Record, since uint64, text bool) (out []events.Event) {
			var lines bytes.Buffer
			stream := &events.Stream{Text: text, Write: func(e *events.Event) {
				b, err := json.Marshal(e)
				if err != nil {
					rt.Fatal(err)
				}
				lines.Write(append(b, '\n'))
				var plain events.Event
				if err := json.Unmarshal(b, &plain); err != nil {
					rt.Fatal(err)
				}
				plain.N = 0
				out = append(out, plain)
			}}
			var run transcript.Run
			for _, rec := range records {
				run.Apply(rec)
				if rec.Seq == 0 || rec.Seq > since {
					stream.See("r", &rec, &run)
				}
			}
			if n, err := c.All(lines.Bytes()); err != nil || n != len(out) {
				rt.Errorf("%d of %d: %v", n, len(out), err)
			}
			return out
		}
		if len(print(s.followed, 0, true)) == 0 {
			rt.Error("nothing was followed")
		}
		whole := print(s.stored, 0, true)
		since := uint64(rapid.IntRange(0, len(s.stored)).Draw(rt, "since"))
		first := 0
		for i, e := range whole {
			if e.Seq != 0 && e.Seq <= since {
				first = i + 1
			}
		}
		if d := cmp.Diff(whole[first:], print(s.stored, since, true), cmpopts.EquateEmpty()); d != "" {
			rt.Errorf("since %d (-whole +since)\n%s", since, d)
		}
	})
}
