package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
)

// note is the state of graphs whose steps are kept.
type note struct {
	N    int
	Last string
	All  []string
	Rest string // never touched
}

type noteUpdate struct {
	Text string `json:"text"`
	Grow bool   `json:"grow,omitempty"`
}

func fold(s note, u noteUpdate) note {
	s.N++
	s.Last = u.Text
	if u.Grow {
		s.All = append(s.All, u.Text)
	}
	return s
}

type noteFlow = graph.Flow[note, noteUpdate]

// writing returns a loop of n steps, each of which writes a text. It calls visit with the number
// before each step.
func writing(n int, text string, grow bool, visit func(step int)) (*noteFlow, error) {
	g := graph.New("durable", fold)
	g.Add("w", func(_ context.Context, s note) (noteUpdate, error) {
		if visit != nil {
			visit(s.N)
		}
		return noteUpdate{text, grow}, nil
	})
	g.Edge(graph.Start, "w")
	g.Branch("w", func(s note) string {
		if s.N < n {
			return "w"
		}
		return graph.End
	}, "w", graph.End)
	return g.Compile()
}

// folder creates an empty directory for a store, and what removes it.
func (s *suite) folder() (dir string, remove func(), err error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return "", nil, err
	}
	dir, err = os.MkdirTemp(s.dir, "superstep-bench-")
	return dir, func() { _ = os.RemoveAll(dir) }, err
}

// withStore calls fn with a new store, and then tells how many MiB it has become on disk.
func (s *suite) withStore(p *place, fn func(runlog.Store) error) (mib float64, err error) {
	dir, remove, err := s.folder()
	if err != nil {
		return 0, err
	}
	defer remove()
	store, closer, err := p.open(s.ctx, dir)
	if err != nil {
		return 0, err
	}
	err = fn(store)
	if p.size != nil && err == nil {
		mib, err = p.size(s.ctx)
	}
	if err := errors.Join(err, closer.Close()); err != nil || p.size != nil {
		return mib, err
	}
	err = filepath.WalkDir(dir, func(_ string, f os.DirEntry, err error) error {
		if err != nil || f.IsDir() {
			return err
		}
		info, err := f.Info()
		if err == nil {
			mib += float64(info.Size()) / (1 << 20)
		}
		return err
	})
	return mib, err
}

func (s *suite) write(store runlog.Store, id string, f *noteFlow, first note, most int) error {
	j, err := journal.Open(s.ctx, store, id, &journal.Options{Create: &runlog.NewRun{Workflow: "bench"}, Reopen: true})
	if err != nil {
		return err
	}
	_, err = f.Run(s.ctx, first, &graph.RunOptions{Journal: j, MaxSteps: most})
	return errors.Join(err, j.Close(s.ctx))
}

// w4 is steps that are durable before the next begins.
func (s *suite) w4() {
	kb := strings.Repeat("abcdefghijklmnopqrstuvwxyz012345", 32)
	for _, p := range s.places() {
		s.together(
			s.bareCommits(p, p.name+"-1-row-1KB", 1000, 1, kb),
			s.steps(p, p.name+"-1KB", 1000, kb, false, series{}),
			s.steps(p, p.name+"-grow", 1000, kb, true, series{}),
			s.inTurns(p, p.name+"-1KB-in-turns", 1000, kb, false),
			s.inTurns(p, p.name+"-grow-in-turns", 1000, kb, true),
		)
		s.together(
			s.bareCommits(p, p.name+"-1-row-100KB", 200, 1, strings.Repeat(kb, 100)),
			s.steps(p, p.name+"-100KB", 200, strings.Repeat(kb, 100), false, series{}),
			s.inTurns(p, p.name+"-100KB-in-turns", 200, strings.Repeat(kb, 100), false),
		)
		s.together(
			s.bareCommits(p, p.name+"-1000-rows-1KB", 10_000, 1000, kb),
			s.atOnce(p, "W4", p.name+"-100-runs-at-once", 100, kb),
		)
		s.resumes(p, kb)
		s.listing(p)
	}
	p := s.places()[0]
	history := []int{100, 1000, 10_000}
	if s.quick {
		history = history[:2]
	}
	var jobs []job
	for _, n := range history {
		jobs = append(jobs, s.steps(p, name("sqlite-history-", n), n, kb, false, series{"durable steps before", float64(n), 1}))
	}
	s.together(jobs...)
	jobs = nil
	for _, size := range []int{1, 100, 10_000} {
		jobs = append(jobs, s.untouched(p, size, kb))
	}
	s.together(jobs...)
}

// steps returns one run. Of a list that grows, it compares the last steps with the first.
func (s *suite) steps(p *place, name string, n int, text string, grow bool, of series) job {
	at := make([]time.Time, n)
	var mib float64
	var ratios []float64
	f, ferr := writing(n, text, grow, func(step int) { at[step] = time.Now() })
	return job{wl: "W4", name: name, n: n, series: of, do: func(w *stopwatch) (err error) {
		if ferr != nil {
			return ferr
		}
		mib, err = s.withStore(p, func(store runlog.Store) error {
			w.start()
			defer w.stop()
			return s.write(store, "run", f, note{}, 1<<30)
		})
		if n >= 300 {
			first, last := at[100].Sub(at[0]), at[n-1].Sub(at[n-101])
			ratios = append(ratios, float64(last)/float64(first))
		}
		return err
	}, after: func(r *record) {
		r.Extra["disk_mib"] = mib
		if len(ratios) > 0 {
			r.Extra["last_to_first"] = median(ratios)
		}
	}}
}

// untouched measures steps of 1 KB beside a large state that does not change.
func (s *suite) untouched(p *place, size int, text string) job {
	const n = 200
	rest := strings.Repeat(text, size)
	return job{wl: "W4", name: fmt.Sprintf("%s-untouched-%dKB", p.name, size), n: n, series: series{"untouched state", float64(size), 0},
		do: func(w *stopwatch) error {
			f, err := writing(n+1, text, false, func(step int) {
				switch step {
				case 0: // the first snapshot, which has all of it, is behind
					w.start()
				case n:
					w.stop()
				}
			})
			if err != nil {
				return err
			}
			_, err = s.withStore(p, func(store runlog.Store) error { return s.write(store, "run", f, note{Rest: rest}, 1<<30) })
			return err
		}}
}

// atOnce is runs of 10 steps each, all on one store.
func (s *suite) atOnce(p *place, wl, name string, runs int, text string) job {
	f, ferr := writing(10, text, false, nil)
	return job{wl: wl, name: name, n: runs * 10, do: func(w *stopwatch) error {
		if ferr != nil {
			return ferr
		}
		_, err := s.withStore(p, func(store runlog.Store) error {
			errs := make([]error, runs)
			var wg sync.WaitGroup
			w.start()
			for i := range runs {
				wg.Go(func() { errs[i] = s.write(store, fmt.Sprint("run-", i), f, note{}, 1<<30) })
			}
			wg.Wait()
			w.stop()
			return errors.Join(errs...)
		})
		return err
	}}
}

// resumes takes up runs of 1,000 steps.
func (s *suite) resumes(p *place, text string) {
	_, err := s.withStore(p, func(store runlog.Store) error {
		var jobs []job
		for _, grow := range []bool{false, true} {
			f, err := writing(2000, text, grow, nil)
			if err != nil {
				return err
			}
			id := map[bool]string{false: "resume-1kb", true: "resume-grow"}[grow]
			limited := func(*stopwatch) error {
				var limit *graph.StepLimitError
				if err := s.write(store, id, f, note{}, 1000); !errors.As(err, &limit) {
					return fmt.Errorf("the run should have met its limit: %w", err)
				}
				return nil
			}
			if err := limited(nil); err != nil {
				return err
			}
			jobs = append(jobs, job{wl: "W4", name: p.name + "-" + id, n: 1, reps: max(s.reps, 5), do: limited})
		}
		s.together(jobs...)
		return nil
	})
	if err != nil {
		s.fail("W4", p.name+"-resume", err)
	}
}

// bareCommits writes rows with the library and the durability of the store, so many to a commit.
func (s *suite) bareCommits(p *place, name string, rows, batch int, text string) job {
	data := []byte(text)
	return job{peer: bare, wl: "W4", name: name, n: rows, do: func(w *stopwatch) error {
		b, remove, err := s.bareStore(p)
		if err != nil {
			return err
		}
		defer remove()
		w.start()
		defer w.stop()
		for i := 0; i < rows; i += batch {
			if err := b.put(i, min(batch, rows-i), data); err != nil {
				return err
			}
		}
		return nil
	}}
}

// bareStore creates a store that is used without the engine, and returns a function that removes
// it.
func (s *suite) bareStore(p *place) (b *plain, remove func(), err error) {
	dir, rm, err := s.folder()
	if err != nil {
		return nil, nil, err
	}
	if b, err = p.plain(s.ctx, dir); err != nil {
		rm()
		return nil, nil, err
	}
	return b, func() {
		b.close()
		rm()
	}, nil
}

// inTurns returns a run whose node commits a row by itself before each step, so that both see the
// same disk. The result is the ratio of the medians.
func (s *suite) inTurns(p *place, name string, n int, text string, grow bool) job {
	var steps, rows []float64 // in µs
	return job{wl: "W4", name: name, n: n, do: func(w *stopwatch) error {
		steps, rows = steps[:0], rows[:0] // the last repetition counts
		b, remove, err := s.bareStore(p)
		if err != nil {
			return err
		}
		defer remove()
		var failed error
		var since time.Time
		f, err := writing(n, text, grow, func(i int) {
			now := time.Now()
			if i > 0 {
				steps = append(steps, float64(now.Sub(since).Nanoseconds())/1e3)
			}
			failed = errors.Join(failed, b.put(i, 1, []byte(text)))
			since = time.Now()
			rows = append(rows, float64(since.Sub(now).Nanoseconds())/1e3)
		})
		if err != nil {
			return err
		}
		_, err = s.withStore(p, func(store runlog.Store) error {
			w.start()
			defer w.stop()
			return s.write(store, "run", f, note{}, 1<<30)
		})
		return errors.Join(err, failed)
	}, after: func(r *record) {
		r.Extra["step_us"], r.Extra["row_us"] = median(steps), median(rows)
		r.Extra["step_to_row"] = median(steps) / median(rows)
	}}
}

// listing shows a store of 10,000 runs.
func (s *suite) listing(p *place) {
	const runs = 10_000
	_, err := s.withStore(p, func(store runlog.Store) error {
		var wg sync.WaitGroup
		errs := make([]error, 64)
		for w := range errs {
			wg.Go(func() {
				for i := w; i < runs && errs[w] == nil; i += len(errs) {
					errs[w] = listed(s.ctx, store, fmt.Sprint("run-", i))
				}
			})
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
		s.together(job{wl: "W4", name: p.name + "-list-10000", n: 1, reps: max(s.reps, 5), do: func(*stopwatch) error {
			infos, err := store.Runs(s.ctx, nil)
			if err == nil && len(infos) != runs {
				err = fmt.Errorf("%d runs are listed", len(infos))
			}
			return err
		}})
		return nil
	})
	if err != nil {
		s.fail("W4", p.name+"-list-10000", err)
	}
}

// listed creates a run that has ended.
func listed(ctx context.Context, store runlog.Store, id string) error {
	l, _, err := store.Acquire(ctx, id, &runlog.AcquireOptions{Create: &runlog.NewRun{Workflow: "bench", Title: "one of many"}})
	if err != nil {
		return err
	}
	recs := []runlog.Record{{Kind: runlog.KindRunFinished, Time: time.Unix(1, 0), Data: []byte("{}")}}
	return errors.Join(l.Append(ctx, &runlog.Batch{Records: recs, Status: runlog.Completed}), l.Release(ctx))
}
