// Bench measures the engine on the workloads W1 to W9 beside what the machine does without
// an engine, and says which goals are met. Nodes do nothing, so that the engine is all there
// is to measure.
//
//	go run ./bench                  everything, as a table
//	go run ./bench -wl W1,W2 -quick some of it, in less time
//	go run ./bench -json            records as JSON lines, for other programs
//	go run ./bench -wl W9 -agents eino,adk,langgraph
//	                                W9 beside the programs in peers
//	go run ./bench -from a b        the records of several engines side by side
//
// It runs in its own module's directory, internal/harness. Stores are made in the system's folder
// for temporary files. BENCH_PG and BENCH_REDIS name servers to measure too, by their URLs; both are emptied. BENCH_STORES picks some of
// sqlite, file, pg and redis.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	program, err := os.Executable()
	if err == nil {
		err = run(ctx, program, os.Args[1:], os.Stdout, os.Stderr)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, program string, args []string, out, progress io.Writer) (err error) {
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(progress)
	wl := fs.String("wl", "W1,W2,W3,W4,W5,W6,W7,W8,W9", "which `workloads`")
	reps := fs.Int("reps", 5, "how often each case is repeated; the median counts")
	quick := fs.Bool("quick", false, "fewer repetitions and smaller sizes")
	asJSON := fs.Bool("json", false, "print records as JSON lines")
	from := fs.Bool("from", false, "print the records of the `files` that follow side by side, and measure nothing")
	agents := fs.String("agents", "", "which `programs` in peers W9 measures too")
	serve := fs.Bool("model", false, "be the model's server of W9, and measure nothing")
	cpu := fs.String("cpuprofile", "", "write a CPU profile to a `file`")
	mem := fs.String("memprofile", "", "write a profile of allocations to a `file`")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if *serve {
		return serveModel(ctx, os.Stdin, out)
	}
	if *from {
		rs, err := readRecords(fs.Args())
		if err != nil {
			return err
		}
		return printPeers(out, rs)
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("unexpected %q; workloads are named by -wl", fs.Args())
	}
	if *quick {
		*reps = min(*reps, 3)
	}
	stop, err := profiles(*cpu, *mem)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, stop()) }()
	var all results
	s := &suite{ctx: ctx, reps: max(1, *reps), quick: *quick, maxK: 10_000, dir: os.TempDir(), program: program}
	if *agents != "" {
		s.agents = strings.Split(*agents, ",")
	}
	var written error
	s.emit = func(r *record) {
		all = append(all, r)
		if *asJSON {
			written = cmp.Or(written, json.NewEncoder(out).Encode(r))
		}
		fmt.Fprintf(progress, "%-9s %-2s %-28s %12.3f ms %10s µs/unit %s\n", r.Peer, r.WL, r.Case, r.MedMs, figure(r.UsPerN), r.Note)
	}
	if err := s.all(strings.Split(*wl, ",")); err != nil || *asJSON {
		return cmp.Or(err, written)
	}
	return printTable(out, all)
}

// all runs workloads, in their order.
func (s *suite) all(names []string) error {
	works := []struct {
		name string
		do   func()
	}{{"W1", s.w1}, {"W2", s.w2}, {"W3", s.w3}, {"W4", s.w4}, {"W5", s.w5}, {"W6", s.w6}, {"W7", s.w7}, {"W8", s.w8}, {"W9", s.w9}}
	for _, n := range names {
		if n < "W1" || n > "W9" || len(n) != 2 {
			return fmt.Errorf("there is no workload %q; there are W1 to W9", n)
		}
	}
	for _, w := range works {
		if s.ctx.Err() != nil {
			return context.Cause(s.ctx)
		}
		if slices.Contains(names, w.name) {
			w.do()
		}
	}
	return nil
}

// profiles starts profiles into the files that are named, and gives what ends them.
func profiles(cpu, mem string) (stop func() error, err error) {
	var files [2]*os.File
	for i, name := range []string{cpu, mem} {
		if name == "" {
			continue
		}
		if files[i], err = os.Create(name); err != nil {
			return nil, err
		}
	}
	if files[0] != nil {
		if err := pprof.StartCPUProfile(files[0]); err != nil {
			return nil, err
		}
	}
	return func() error {
		var err error
		if files[0] != nil {
			pprof.StopCPUProfile()
			err = files[0].Close()
		}
		if files[1] != nil {
			runtime.GC()
			err = cmp.Or(err, pprof.Lookup("allocs").WriteTo(files[1], 0), files[1].Close())
		}
		return err
	}, nil
}
