package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// An output writes lines, and under them what runs now: on a terminal always, elsewhere every half minute.
type output struct {
	mu       sync.Mutex
	w        io.Writer
	terminal bool
	shown    time.Time // when progress was last written elsewhere than on a terminal
	begun    time.Time
	running  []*progress
}

// A result is how a lane ended. Progress has what it counted.
type result struct {
	lane     string
	progress *progress
	took     time.Duration
	err      error
}

func newOutput(f *os.File) *output {
	o := &output{w: f, begun: time.Now(), shown: time.Now()}
	if info, err := f.Stat(); err == nil {
		o.terminal = info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	}
	go func() { // until the program ends
		for range time.Tick(time.Second) {
			o.tick()
		}
	}()
	return o
}

// tick shows the progress.
func (o *output) tick() {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case len(o.running) == 0:
	case o.terminal:
		fmt.Fprintf(o.w, "\r\x1b[K%.*s", columns-1, o.status())
	case time.Since(o.shown) > 30*time.Second:
		o.shown = time.Now()
		fmt.Fprintf(o.w, "... %s\n", o.status())
	}
}

// columns is the width of the narrowest terminal that progress has to fit on.
const columns = 100

// status describes what is running in a line.
func (o *output) status() string {
	var parts []string
	var left time.Duration
	for _, p := range o.running {
		text, l := p.status()
		parts, left = append(parts, text), max(left, l)
	}
	s := fmt.Sprintf("%s so far", short(time.Since(o.begun)))
	if left > 0 {
		s += ", about " + short(left) + " more in this stage"
	}
	return s + ": " + strings.Join(parts, "; ")
}

// printf writes lines above the progress.
func (o *output) printf(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.terminal {
		fmt.Fprint(o.w, "\r\x1b[K")
	}
	fmt.Fprintf(o.w, format, args...)
}

// begin announces a lane.
func (o *output) begin(name string) *progress {
	o.printf("=== %s\n", name)
	p := &progress{lane: name}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.running = append(o.running, p)
	return p
}

// end tells how a lane ended.
func (o *output) end(r result) {
	o.mu.Lock()
	o.running = slices.DeleteFunc(o.running, func(p *progress) bool { return p == r.progress })
	o.mu.Unlock()
	o.printf("--- %s\n", r)
}

// String returns the result as a row of the table.
func (r result) String() string {
	verdict := "passed"
	if r.err != nil {
		verdict = "FAILED: " + r.err.Error()
	}
	return strings.TrimRight(fmt.Sprintf("%-9s %7s  %s  %s", r.lane, short(r.took), verdict, r.progress.counted()), " ")
}

// report writes a line per lane and the slowest tests, and returns the exit status.
func (o *output) report(results []result, took time.Duration) int {
	var slowest []timed
	var failed []string
	var broken []string
	passed, wrong := 0, 0
	for _, r := range results {
		slowest = append(slowest, r.progress.slowest...)
		passed, wrong = passed+r.progress.passed, wrong+len(r.progress.failed)
		for _, test := range r.progress.failed {
			broken = append(broken, r.lane+": "+test)
		}
		if r.err != nil {
			failed = append(failed, r.lane)
		}
	}
	slowest = slices.DeleteFunc(slowest, func(t timed) bool { return t.took < 0.1 })
	slices.SortFunc(slowest, func(a, b timed) int { return cmp.Compare(b.took, a.took) })
	if len(slowest) > 0 {
		o.printf("\nthe slowest tests of those that ran:\n")
	}
	for _, t := range slowest[:min(len(slowest), 10)] {
		o.printf("%7.1f s  %s\n", t.took, t.name)
	}
	o.printf("\nthe lanes:\n")
	for _, r := range results {
		o.printf("%s\n", r)
	}
	if len(broken) > 0 {
		o.printf("\nthese failed:\n  %s\n", strings.Join(broken, "\n  "))
	}
	o.printf("\n%d passed, %d failed\n", passed, wrong)
	if len(failed) > 0 {
		o.printf("FAILED after %s: %s\n", short(took), strings.Join(failed, ", "))
		return 1
	}
	o.printf("passed in %s\n", short(took))
	return 0
}

// A progress is how far a lane is, and what it counted.
type progress struct {
	lane string

	mu       sync.Mutex
	done, of int
	unit     string
	doing    string
	left     func() time.Duration // how long it may still take; nil means nobody knows

	passed, skipped, cached int
	failed                  []string
	slowest                 []timed
	note                    string   // for the table
	faults                  []string // what tests report of what they broke, by faults.Report
}

// A timed test is one with the seconds it took.
type timed struct {
	name string
	took float64
}

// at sets how far the lane is.
func (p *progress) at(done, of int, unit, doing string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done, p.of, p.unit, p.doing = done, of, unit, doing
}

// status describes how far the lane is, and how long it may still take.
func (p *progress) status() (string, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.lane
	if p.of > 0 {
		s += fmt.Sprintf(" %d of %d %s", p.done, p.of, p.unit)
	}
	if p.doing != "" {
		s += " (" + p.doing + ")"
	}
	if p.left == nil {
		return s, 0
	}
	return s, p.left()
}

// counted describes what the lane counted.
func (p *progress) counted() string {
	var parts []string
	if p.unit == "packages" && p.of > 0 {
		parts = append(parts, fmt.Sprintf("%d packages, %d of them unchanged (cached)", p.of, p.cached))
	}
	if p.passed > 0 || len(p.failed) > 0 {
		parts = append(parts, fmt.Sprintf("%d tests passed, %d failed, %d skipped", p.passed, len(p.failed), p.skipped))
	}
	if p.note != "" {
		parts = append(parts, p.note)
	}
	return strings.Join(parts, "; ")
}

// short returns a duration as people write it.
func short(d time.Duration) string {
	if d < 2*time.Minute {
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return fmt.Sprintf("%d m %02d s", int(d.Minutes()), int(d.Seconds())%60)
}
