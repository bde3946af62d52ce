package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"
)

// A suite is one go test.
type suite struct {
	dir      string // of the module
	packages []string
	flags    []string
	env      []string
}

// An event is a line of go test -json.
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64
}

// A tally follows the events of a suite.
type tally struct {
	c    *check
	p    *progress
	said map[string]map[string][]string // what tests have written that have not passed, by package and test
	runs map[string]time.Time           // the packages whose tests run
	left map[string]float64             // the seconds that packages may take which have not ended
	over map[string]bool                // the tests with tests in them, which would count twice
}

// test runs a suite, the slowest packages first, and counts what it does into the progress.
func (c *check) test(ctx context.Context, p *progress, s suite) error {
	if len(s.packages) == 0 {
		return nil
	}
	built, err := c.built()
	if err != nil {
		return err
	}
	packages := slices.Clone(s.packages)
	slices.SortStableFunc(packages, func(a, b string) int { return cmp.Compare(c.times.of(p.lane, b), c.times.of(p.lane, a)) })
	t := &tally{c: c, p: p, said: map[string]map[string][]string{}, runs: map[string]time.Time{}, left: map[string]float64{}, over: map[string]bool{}}
	for _, pkg := range packages {
		t.left[pkg] = c.times.of(p.lane, pkg)
	}
	p.mu.Lock()
	p.of, p.unit, p.doing, p.left = p.of+len(packages), "packages", "compiling", t.remaining
	p.mu.Unlock()
	args := slices.Concat([]string{"test", "-json", "-vet=off", "-timeout=20m"}, s.flags, packages)
	err = c.stream(ctx, s.dir, slices.Concat(built, s.env), &lines{each: t.line}, &lines{each: func(line string) { c.out.printf("%s\n", line) }}, "go", args...)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doing, p.left = "", nil
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && len(p.failed) > 0:
		return fmt.Errorf("%d failures", len(p.failed))
	case err != nil:
		return fmt.Errorf("go test: %w", err)
	}
	return nil
}

// line follows one line of go test -json.
func (t *tally) line(line string) {
	var e event
	if err := json.Unmarshal([]byte(line), &e); err != nil {
		t.c.out.printf("%s\n", line)
		return
	}
	t.p.mu.Lock()
	defer t.p.mu.Unlock()
	switch {
	case e.Action == "build-output":
		t.c.out.printf("%s", e.Output)
	case e.Package == "":
	case e.Action == "start":
		t.runs[e.Package] = time.Now()
	case e.Action == "output":
		if _, fault, ok := strings.Cut(e.Output, "FAULT\t"); ok {
			t.p.faults = append(t.p.faults, strings.TrimSpace(fault))
		}
		if t.said[e.Package] == nil {
			t.said[e.Package] = map[string][]string{}
		}
		t.said[e.Package][e.Test] = append(t.said[e.Package][e.Test], e.Output)
	case e.Test != "":
		t.tested(e)
	case e.Action == "pass" || e.Action == "fail" || e.Action == "skip":
		t.ended(e)
	}
	t.p.doing = t.running()
}

// tested follows a test that begins or ends.
func (t *tally) tested(e event) {
	if i := strings.LastIndexByte(e.Test, '/'); i >= 0 && e.Action == "run" {
		t.over[e.Package+" "+e.Test[:i]] = true
	}
	name := own(e.Package) + " " + e.Test
	switch e.Action {
	case "pass":
		t.p.passed++
	case "skip":
		t.p.skipped++
	case "fail":
		t.p.failed = append(t.p.failed, name)
	default:
		return
	}
	if !t.over[e.Package+" "+e.Test] {
		t.p.slowest = append(t.p.slowest, timed{name, e.Elapsed})
	}
	if e.Action != "fail" {
		delete(t.said[e.Package], e.Test)
	}
}

// ended follows a package whose tests have ended, or cannot be built.
func (t *tally) ended(e event) {
	t.p.done++
	delete(t.left, e.Package)
	delete(t.runs, e.Package)
	said := t.said[e.Package]
	delete(t.said, e.Package)
	last := strings.Join(said[""], "")
	switch {
	case e.Action == "fail":
		if !slices.ContainsFunc(t.p.failed, func(name string) bool { return strings.HasPrefix(name, own(e.Package)+" ") }) {
			t.p.failed = append(t.p.failed, own(e.Package)+" (the package)")
		}
		delete(said, "")
		for _, test := range slices.Sorted(maps.Keys(said)) {
			t.c.out.printf("%s", strings.Join(slices.DeleteFunc(said[test], noise), ""))
		}
		t.c.out.printf("%s", last)
	case strings.Contains(last, "\t(cached)"):
		t.p.cached++
		t.p.slowest = slices.DeleteFunc(t.p.slowest, func(s timed) bool { return strings.HasPrefix(s.name, own(e.Package)+" ") })
	case e.Action == "pass":
		t.c.times.set(t.p.lane, e.Package, e.Elapsed)
		t.c.out.printf("%s", last[strings.LastIndex(strings.TrimSuffix(last, "\n"), "\n")+1:])
	}
}

// noise reports whether a line of a failed test says nothing.
func noise(line string) bool {
	return strings.HasPrefix(line, "=== ") || line == "PASS\n"
}

// running describes the packages whose tests have been running longest.
func (t *tally) running() string {
	names := slices.SortedFunc(maps.Keys(t.runs), func(a, b string) int { return t.runs[a].Compare(t.runs[b]) })
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %s", own(name), short(time.Since(t.runs[name])))
	}
	if len(names) == 0 {
		return "compiling"
	}
	return strings.Join(names[:min(len(names), 2)], ", ")
}

// remaining returns how long the tests of the packages may still take.
func (t *tally) remaining() time.Duration {
	sum, most := 0.0, 0.0
	for pkg, s := range t.left {
		if begun, ok := t.runs[pkg]; ok {
			s = max(s-time.Since(begun).Seconds(), 0)
		}
		sum, most = sum+s, max(most, s)
	}
	return time.Duration(max(most, sum/float64(cores())) * float64(time.Second))
}

// cores returns how many tests can run at once.
func cores() int { return runtime.NumCPU() }

// own returns the path of a package as one writes it in the root, "." for the root.
func own(pkg string) string {
	return cmp.Or(strings.TrimPrefix(strings.TrimPrefix(pkg, module), "/"), ".")
}
