//go:build unix

package tui

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/superstep-dev/superstep/runlog"
)

// busyRun gives a run with five agents at work, each with n parts behind it, and returns a function that has one of them say a word.
func busyRun(t testing.TB, n int) (s *onScreen, word func(i int)) {
	s = showRun(t, Usual)
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	seq := uint64(0)
	give := func(stored bool, kind runlog.Kind, path string, data any) {
		b, err := json.Marshal(data)
		if err != nil {
			t.Fatal(err)
		}
		rec := runlog.Record{Time: at, Kind: kind, Path: path, Data: b}
		if stored {
			seq++
			rec.Seq = seq
		}
		at = at.Add(time.Millisecond)
		s.give(&rec)
	}
	give(true, runlog.KindRunStarted, "", map[string]any{"workflow": "survey", "inputs": map[string]any{}})
	for a := range 5 {
		path := fmt.Sprintf("gather[%d]", a)
		give(false, runlog.KindEvent, path, map[string]any{"name": "task.started", "data": map[string]any{"step": 0}})
		give(true, runlog.KindSettled, path, map[string]any{"key": "agent", "kind": "agent", "name": "researcher",
			"input": map[string]any{"agent": "researcher", "model": "m", "prompt": "Read module " + path}})
		for i := range n {
			give(true, runlog.KindSettled, path, map[string]any{"key": fmt.Sprintf("turn-%d/call-0", i), "kind": "tool", "name": "grep",
				"input": map[string]any{"pattern": fmt.Sprint("word", i)}, "output": map[string]any{"text": strings.Repeat("a line of a result\n", 20)}})
		}
	}
	return s, func(i int) {
		give(false, runlog.KindEvent, fmt.Sprintf("gather[%d]", i%5), map[string]any{"name": "text", "data": map[string]any{"agent": "researcher", "text": "word "}})
	}
}

// BenchmarkTerminalFrame draws frames of 33 words each, which is 1,000 tokens a second at 30 frames a second: share is the percentage of a core.
func BenchmarkTerminalFrame(b *testing.B) {
	for _, parts := range []int{2, 400, 2000} {
		b.Run(fmt.Sprint(parts*5), func(b *testing.B) {
			s, word := busyRun(b, parts)
			b.ResetTimer()
			for i := 0; b.Loop(); i++ {
				for k := range 33 {
					word(k)
				}
				_ = s.lines(100, 30)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)*30/1e7, "%core")
		})
	}
}

// BenchmarkTerminalOpen folds a run of 10,000 records and draws its first screen.
func BenchmarkTerminalOpen(b *testing.B) {
	for b.Loop() {
		s, _ := busyRun(b, 2000)
		_ = s.lines(100, 30)
	}
}

// BenchmarkTerminalScroll scrolls a conversation of 10,000 parts by a page.
func BenchmarkTerminalScroll(b *testing.B) {
	s := longTalk(b, 10_000)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s.view.scroll = (i * 28) % 5000
		_ = s.lines(100, 30)
	}
}

// longTalk is a conversation of n parts.
func longTalk(t testing.TB, n int) *onScreen {
	s := showRun(t, Usual)
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for i := range n {
		kind, path, data := runlog.KindSettled, "work", any(map[string]any{"key": fmt.Sprintf("turn-%d/call-0", i), "kind": "tool", "name": "grep",
			"input": map[string]any{"pattern": fmt.Sprint("word", i)}, "output": map[string]any{"text": "found"}})
		if i == 0 {
			kind, path, data = runlog.KindRunStarted, "", map[string]any{"workflow": "agent", "inputs": map[string]any{"prompt": "go"}}
		}
		b, err := json.Marshal(data)
		if err != nil {
			t.Fatal(err)
		}
		s.give(&runlog.Record{Seq: uint64(i + 1), Time: at, Kind: kind, Path: path, Data: b})
	}
	return s
}

// BenchmarkTerminalProgram is a second of five agents that say 200 words a second each, on a terminal of 100 by 30 that takes what it is sent: share
// is the percentage of a core, the drawing of what has changed included.
func BenchmarkTerminalProgram(b *testing.B) {
	s, word := busyRun(b, 400)
	s.setFocus(onPane)
	p := tea.NewProgram(s.Terminal, tea.WithInput(nil), tea.WithOutput(io.Discard), tea.WithFPS(30), tea.WithWindowSize(100, 30),
		tea.WithEnvironment([]string{"TERM=xterm-256color"}), tea.WithoutSignals())
	ended := make(chan error, 1)
	go func() { _, err := p.Run(); ended <- err }()
	p.Send(frameMsg{})
	s.send = p.Send
	begin := cpuTime(b)
	start := time.Now()
	for b.Loop() {
		for range 30 {
			s.mu.Lock()
			for k := range 33 {
				word(k)
			}
			s.mu.Unlock()
			p.Send(frameMsg{})
			time.Sleep(33 * time.Millisecond)
		}
	}
	b.ReportMetric(100*float64(cpuTime(b)-begin)/float64(time.Since(start)), "%core")
	p.Quit()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
