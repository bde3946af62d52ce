//go:build unix

package crash_test

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/crash"
	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/runlog"
)

// The runs of a golden store, and how they were left.
var golden = []struct {
	id, job string
	leave   runlog.Status
	asks    string   // how the key of its open question begins
	how     []string // of the worker that left it so
}{
	{"finished", `{"width":3,"rounds":2,"pad":4000}`, runlog.Completed, "", nil},
	{"paused", `{"width":2,"rounds":1}`, runlog.Paused, "ahead", []string{"-leave"}},
	{"interrupted", `{"width":3,"rounds":1,"pad":4000}`, runlog.Interrupted, "", []string{"-die", "effect.after:6"}},
	{"inside", `{"width":2,"rounds":1,"pad":4000}`, runlog.Interrupted, "", []string{"-die", "effect.before:12"}},
	{"unknown", `{"width":2,"rounds":2}`, runlog.Paused, "unknown:", []string{"-die", "effect.before:10"}},
	{"forked", `{"width":3,"rounds":2}`, runlog.Interrupted, "", nil},
}

// Stores that were written by former versions are read, and their runs come to the end
// they would have come to.
//
// SUPERSTEP_GOLDEN=name makes the golden stores of this version under that name, with the
// worker of SUPERSTEP_GOLDEN_WORKER if that is set.
func TestCrashGolden(t *testing.T) {
	if name := os.Getenv("SUPERSTEP_GOLDEN"); name != "" {
		makeGolden(t, name)
		return
	}
	t.Parallel()
	dirs, err := filepath.Glob(filepath.Join("testdata", "golden", "*"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("there are no golden stores: %v", err)
	}
	for _, dir := range dirs {
		name := filepath.Base(dir)
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			b := backendOf(t, strings.Split(name, "-")[0])
			p := b.restore(t, dir)
			store := p.open(t, &crash.StoreOptions{Now: func() time.Time { return time.Now().Add(time.Hour) }}) // every lease is over
			goldenRuns(t, store)
			faults.Report(t, "golden store", name, len(golden), begin, "every run came to its end")
		})
	}
}

func backendOf(t *testing.T, name string) *backend {
	t.Helper()
	for _, b := range backends() {
		if b.name == name {
			return &b
		}
	}
	t.Fatalf("there is no store of the kind %s here", name)
	return nil
}

func goldenRuns(t *testing.T, store runlog.Store) {
	t.Helper()
	ctx := context.Background()
	infos, err := store.Runs(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	left := map[string]runlog.Info{}
	for _, info := range infos {
		left[info.ID] = info
	}
	for _, g := range golden {
		id := g.id
		info := left[id]
		if info.Status != g.leave {
			t.Errorf("run %s (%s) is listed as %+v, want %s", g.id, id, info, g.leave)
			continue
		}
		if g.asks != "" {
			open, err := crash.Questions(ctx, store, id)
			if err != nil || len(open) == 0 || !strings.HasPrefix(open[0].Key, g.asks) {
				t.Errorf("run %s asks %+v, want %s; %v", id, open, g.asks, err)
			}
		}
		world := &crash.Files{Dir: t.TempDir()}
		e := engine(t, store, world, nil)
		var output string
		for range 2 { // the second time it is finished
			run, err := e.Resume(ctx, id, &superstep.ResumeOptions{Answer: crash.Answers(id, world, true)})
			if err != nil {
				t.Fatalf("run %s: %v", id, err)
			}
			out, err := run.Wait(ctx)
			if err != nil || out.Status != runlog.Completed {
				t.Fatalf("run %s: %+v, %v", id, out, err)
			}
			output = string(out.Output)
		}
		if want := oracle(t, parse(t, g.job)); output != want {
			t.Errorf("run %s ended with\n%s\nwant\n%s", id, output, want)
		}
		var recs []runlog.Record
		for r, err := range runlog.Records(ctx, store, id, 0) {
			if err != nil {
				t.Fatal(err)
			}
			recs = append(recs, r)
		}
		if g.id != "forked" { // which begins with the middle
			if _, err := read(recs); err != nil {
				t.Errorf("run %s: %v", id, err)
			}
		}
		replays(t, engine(t, store, still{}, nil), id, recs)
	}
}

// makeGolden makes the golden store of each backend that can be kept.
func makeGolden(t *testing.T, version string) {
	for _, b := range backends() {
		if only := os.Getenv("SUPERSTEP_GOLDEN_STORE"); b.save == nil || only != "" && only != b.name {
			continue
		}
		t.Run(b.name, func(t *testing.T) {
			open := b.open
			if b.serve != nil {
				open = b.serve
			}
			p := open(t)
			world := t.TempDir()
			run := func(args ...string) {
				t.Helper()
				pr := startWith(t, cmp.Or(os.Getenv("SUPERSTEP_GOLDEN_WORKER"), os.Args[0]), nil, append([]string{"-store", p.url, "-world", world, "-lease", "100ms", "-segment", segment}, args...)...)
				if _, err := pr.wait(); err != nil {
					t.Fatal(err)
				}
			}
			for _, g := range golden {
				if g.id == "forked" {
					run("-fork", "finished", "-run", g.id)
					continue
				}
				run(append([]string{"-run", g.id, "-job", g.job}, g.how...)...)
			}
			run("-run", "unknown", "-leave")
			time.Sleep(150 * time.Millisecond)
			b.save(t, p, filepath.Join("testdata", "golden", b.name+"-"+cmp.Or(version, "v1")))
		})
	}
}
