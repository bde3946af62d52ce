package transcript_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
)

// long is the log of agents that take turns and call tools, of about n records.
func long(n int) []runlog.Record {
	l := newLog()
	l.add(runlog.KindRunStarted, "", runlog.RunStarted{Workflow: "long", Timed: true})
	const each = 52 // records of an agent
	for a := 0; len(l.recs) < n; a++ {
		path := fmt.Sprintf("work[%d]", a)
		l.settle(path, "agent", "agent", "worker", map[string]any{"model": "m", "prompt": "Do it.", "window": 1000}, struct{}{})
		for turn := range each / 5 {
			key := fmt.Sprintf("turn-%d", turn)
			l.add(runlog.KindIntended, path, runlog.Intended{Key: key, Kind: "model", Name: "m", Cost: &runlog.Amount{Tokens: 10}})
			out := said(strings.Repeat("It says a few words. ", 10))
			b, _ := json.Marshal(out)
			l.add(runlog.KindSettled, path, runlog.Settled{Key: key, Kind: "model", Name: "m", Output: b, Took: 5, Spent: &runlog.Amount{Tokens: 15, Money: 3, Turns: 1}})
			for call := range 3 {
				l.settle(path, fmt.Sprintf("%s/call-%d", key, call), "tool", "read", map[string]any{"path": "a/file.go"}, tool.Result{Text: strings.Repeat("a line of it\n", 20)})
			}
		}
		l.add(runlog.KindTaskDone, path, runlog.TaskDone{Node: "work", Key: fmt.Sprint(a), Took: 50})
	}
	return l.recs
}

func decodeAll(recs []runlog.Record) {
	for i := range recs {
		switch recs[i].Kind {
		case runlog.KindSettled:
			var d runlog.Settled
			_ = json.Unmarshal(recs[i].Data, &d)
			if d.Kind == "model" {
				_ = json.Unmarshal(d.Output, new(model.Response))
			} else {
				_ = json.Unmarshal(d.Output, new(tool.Result))
			}
		case runlog.KindIntended:
			_ = json.Unmarshal(recs[i].Data, new(runlog.Intended))
		case runlog.KindTaskDone:
			_ = json.Unmarshal(recs[i].Data, new(runlog.TaskDone))
		}
	}
}

func fold(recs []runlog.Record, window int) *transcript.Run {
	r := &transcript.Run{Window: window}
	for i := range recs {
		r.Apply(recs[i])
	}
	return r
}

// BenchmarkFold is beside the decoding of the same records, its yardstick.
func BenchmarkFold(b *testing.B) {
	recs := long(10_000)
	b.Run("decode", func(b *testing.B) {
		for b.Loop() {
			decodeAll(recs)
		}
	})
	b.Run("fold", func(b *testing.B) {
		for b.Loop() {
			fold(recs, 0)
		}
	})
}

// A record costs at most twice what decoding it costs; the test asserts ten times that.
func TestFoldIsCheap(t *testing.T) {
	recs := long(5_000)
	best := func(f func()) time.Duration {
		least := time.Hour
		for range 3 {
			begin := time.Now()
			f()
			least = min(least, time.Since(begin))
		}
		return least
	}
	decoding := best(func() { decodeAll(recs) })
	folding := best(func() { fold(recs, 0) })
	if folding > 20*decoding {
		t.Errorf("folding %d records takes %s, decoding them %s", len(recs), folding, decoding)
	}
}

// A fold of a run of 100,000 records with a window holds about what the window says.
func TestWindow(t *testing.T) {
	if testing.Short() {
		t.Skip("it folds 100,000 records")
	}
	recs := long(100_000)
	const window = 1 << 20
	measure := func(window int) (r *transcript.Run, bytes int64) {
		runtime.GC()
		runtime.GC() // the pools of the others too
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r = fold(recs, window)
		runtime.GC()
		runtime.ReadMemStats(&after)
		return r, int64(after.HeapAlloc) - int64(before.HeapAlloc)
	}
	some, kept := measure(window)
	whole, all := measure(0)
	first, last := some.Tasks[0], some.Tasks[len(some.Tasks)-1]
	if len(first.Parts) != 0 || first.Dropped != len(whole.Tasks[0].Parts) || len(last.Parts) == 0 {
		t.Errorf("the first task keeps %d parts and dropped %d, the last keeps %d", len(first.Parts), first.Dropped, len(last.Parts))
	}
	if whole.Usage != some.Usage || whole.Spent != some.Spent || whole.Time != some.Time {
		t.Error("what the run used is not the same")
	}
	t.Logf("with a window of %d bytes it holds %d, without one %d", window, kept, all)
	if kept > all/3 {
		t.Errorf("with a window it holds %d bytes, without one %d", kept, all)
	}
	runtime.KeepAlive(whole)
	runtime.KeepAlive(some)
	runtime.KeepAlive(recs)
}

// BenchmarkClone measures what it takes to go on from a moment of a long run without folding from its beginning.
func BenchmarkClone(b *testing.B) {
	run := fold(long(10_000), 0)
	b.ReportAllocs()
	for b.Loop() {
		run.Clone()
	}
}
