// Command check runs what a change has to pass. The script ./check in the root of the repository builds and starts it.
//
//	check                    format, modules, build, vet and the tests
//	check deep               what takes longer and finds other faults
//	check LANE...            these lanes or sets of lanes
//	check LANE... ./PACKAGE  the same, of the packages named
//
// It runs in the root of the repository, and ends with status 1 if a lane fails.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// module is the path of the module in the root.
const module = "github.com/superstep-dev/superstep"

// apart are the modules of their own: the benchmarks and this program, the tests in a browser, and the host under Temporal.
func apart() []string { return []string{"internal/harness", "internal/e2e", "temporal"} }

// A lane is one thing to check.
type lane struct {
	name  string
	about string
	limit time.Duration // it fails when it takes longer; 0 means no limit
	run   func(context.Context, *check, *progress) error
}

// A set is a list of stages. The lanes of a stage run beside each other.
type set struct {
	name, about string
	stages      [][]string
}

// A check is one run of the program.
type check struct {
	out      *output
	packages []string // the packages named; nil means all of them
	env      []string // the environment of what it runs
	begun    time.Time
	times    *times
	built    func() ([]string, error) // returns the variables that name the command for the tests
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// run does what the arguments name and returns the exit status.
func run(ctx context.Context, args []string) int {
	c := &check{begun: time.Now(), out: newOutput(os.Stdout)}
	if slices.Contains(args, "help") {
		fmt.Print(usage())
		return 0
	}
	stages, err := c.parse(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "check:", err)
		fmt.Fprint(os.Stderr, usage())
		return 2
	}
	c.times = remembered()
	c.env = append(os.Environ(), "CGO_ENABLED=0") // what is tested is what is released; only the race detector needs cgo
	if err := c.servers(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "check:", err)
		return 1
	}
	c.built = sync.OnceValues(c.commands)
	results := make([][]result, len(stages))
	for i, stage := range stages {
		results[i] = c.stage(ctx, stage)
		if ctx.Err() != nil {
			break
		}
	}
	if err := c.times.save(); err != nil {
		c.out.printf("the times are not kept: %v\n", err)
	}
	return c.out.report(slices.Concat(results...), time.Since(c.begun))
}

// parse returns the stages of the lanes that the arguments name, the default set if there is none.
func (c *check) parse(args []string) (stages [][]lane, err error) {
	var names []string
	for _, arg := range args {
		if strings.HasPrefix(arg, ".") {
			c.packages = append(c.packages, filepath.ToSlash(arg))
		} else {
			names = append(names, arg)
		}
	}
	if len(names) == 0 {
		names = []string{"all"}
		if c.packages != nil {
			names = []string{"test"}
		}
	}
	known := map[string]lane{}
	for _, l := range lanes() {
		known[l.name] = l
	}
	for _, name := range names {
		if i := slices.IndexFunc(sets(), func(s set) bool { return s.name == name }); i >= 0 {
			for _, beside := range sets()[i].stages {
				var stage []lane
				for _, n := range beside {
					stage = append(stage, known[n])
				}
				stages = append(stages, stage)
			}
		} else if l, ok := known[name]; ok {
			stages = append(stages, []lane{l})
		} else {
			return nil, fmt.Errorf("there is no lane %q", name)
		}
	}
	return stages, nil
}

// usage lists the sets and the lanes.
func usage() string {
	var b strings.Builder
	for _, s := range sets() {
		fmt.Fprintf(&b, "  ./check %-9s %s\n", s.name, s.about)
	}
	b.WriteString("lanes:\n")
	for _, l := range lanes() {
		fmt.Fprintf(&b, "  ./check %-9s %s\n", l.name, l.about)
	}
	return b.String()
}

// stage runs lanes beside each other and returns their results in order.
func (c *check) stage(ctx context.Context, lanes []lane) []result {
	done := make(chan result)
	for _, l := range lanes {
		p := c.out.begin(l.name)
		go func() { done <- c.one(ctx, l, p) }()
	}
	results := make([]result, 0, len(lanes))
	for range lanes {
		r := <-done
		c.out.end(r)
		results = append(results, r)
	}
	slices.SortStableFunc(results, func(a, b result) int { return order(lanes, a.lane) - order(lanes, b.lane) })
	return results
}

// order returns the place of the lane with that name.
func order(lanes []lane, name string) int {
	return slices.IndexFunc(lanes, func(l lane) bool { return l.name == name })
}

// one runs a lane within its limit.
func (c *check) one(ctx context.Context, l lane, p *progress) result {
	begun := time.Now()
	limited := ctx
	if l.limit > 0 {
		var stop context.CancelFunc
		limited, stop = context.WithTimeout(ctx, l.limit)
		defer stop()
	}
	err := l.run(limited, c, p)
	switch {
	case ctx.Err() != nil:
		err = errors.New("interrupted")
	case limited.Err() != nil:
		err = fmt.Errorf("it took longer than its limit of %s", l.limit)
	}
	return result{lane: l.name, progress: p, took: time.Since(begun), err: err}
}
