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

// A window counts what tasks are told after their end, such as the result of a call that outlasts its task, and tasks that are told something again.
func TestWindowCountsWhatComesLate(t *testing.T) {
	t.Parallel()
	l := newLog()
	l.add(runlog.KindRunStarted, "", runlog.RunStarted{Workflow: "late", Timed: true})
	const each, window = 1000, 5000
	for n := range 50 {
		path := fmt.Sprintf("work[%d]", n)
		l.add(runlog.KindIntended, path, runlog.Intended{Key: "turn-0/call-0", Kind: "tool", Name: "send", Once: true})
		l.add(runlog.KindTaskDone, path, runlog.TaskDone{Node: "work", Key: fmt.Sprint(n)})
		l.settle(path, "turn-0/call-0", "tool", "send", nil, tool.Result{Text: strings.Repeat("x", each)})
		if n > 0 {
			l.settle("work[0]", fmt.Sprintf("turn-%d/call-0", n), "tool", "send", nil, tool.Result{Text: strings.Repeat("x", each)})
		}
	}
	r := fold(l.recs, window)
	var kept, first int
	for i, task := range r.Tasks {
		for _, p := range task.Parts {
			kept += len(p.Tool.Result)
		}
		if i == 0 {
			first = len(task.Parts)
		}
	}
	if kept > window+2*each || kept < window/2 {
		t.Errorf("it keeps %d bytes of parts with a window of %d", kept, window)
	}
	if first > window/each {
		t.Errorf("the first task keeps %d parts", first)
	}
}

// many is a fold of a run with n tasks in one superstep, half of which have ended, and a reader that has all of it.
func many(n int) (*transcript.Run, *transcript.Feed, *log) {
	l := newLog()
	l.add(runlog.KindRunStarted, "", runlog.RunStarted{Workflow: "wide", Timed: true})
	for i := range n {
		path := fmt.Sprintf("work[%d]", i)
		l.settle(path, "agent", "agent", "worker", map[string]any{"model": "m", "prompt": "Do it."}, struct{}{})
		l.settle(path, "turn-0/call-0", "tool", "read", nil, tool.Result{Text: "a line"})
		if i%2 == 0 {
			l.add(runlog.KindTaskDone, path, runlog.TaskDone{Node: "work", Key: fmt.Sprint(i), Took: 50})
		}
	}
	r, f := fold(l.recs, 0), &transcript.Feed{}
	f.Next(r)
	return r, f, l
}

// changes are records that each change one task: a token, a call, and the time of it.
func changes(r *transcript.Run, f *transcript.Feed, l *log, n int) (lines int) {
	for i := range n {
		path := fmt.Sprintf("work[%d]", 2*(i%50)+1)
		l.recs = l.recs[:0]
		switch i % 3 {
		case 0:
			r.Apply(runlog.Record{Kind: runlog.KindEvent, Path: path, Time: l.now, Data: json.RawMessage(`{"name":"text","data":{"agent":"worker","text":"word "}}`)})
		case 1:
			l.settle(path, fmt.Sprintf("turn-%d/call-0", l.seq), "tool", "read", nil, tool.Result{Text: "a line"})
			r.Apply(l.recs[0])
		case 2:
			l.add(runlog.KindIntended, path, runlog.Intended{Key: fmt.Sprintf("turn-%d", l.seq), Kind: "model", Name: "m", Cost: &runlog.Amount{Tokens: 10}})
			r.Apply(l.recs[0])
		}
		lines += len(f.Next(r))
	}
	return lines
}

// BenchmarkChange is what one change costs a reader, which must not depend on the number of tasks.
func BenchmarkChange(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r, f, l := many(n)
			for b.Loop() {
				changes(r, f, l, 3)
			}
		})
	}
}

// A change costs the same whether the run has 100 tasks or 10,000; the test asserts ten times that, and as many lines.
func TestChangeIsCheap(t *testing.T) {
	cost := func(n int) (least time.Duration, lines int) {
		least = time.Hour
		for range 3 {
			r, f, l := many(n)
			begin := time.Now()
			lines = changes(r, f, l, 3000)
			least = min(least, time.Since(begin))
		}
		return least, lines
	}
	few, lines := cost(100)
	many, more := cost(10_000)
	t.Logf("3,000 changes take %s with 100 tasks and %s with 10,000, %d lines and %d", few, many, lines, more)
	if many > 10*few || lines != more {
		t.Errorf("3,000 changes take %s with 100 tasks and %s with 10,000, %d lines and %d", few, many, lines, more)
	}
}

// BenchmarkClone measures what it takes to go on from a moment of a long run without folding from its beginning.
func BenchmarkClone(b *testing.B) {
	run := fold(long(10_000), 0)
	b.ReportAllocs()
	for b.Loop() {
		run.Clone()
	}
}
