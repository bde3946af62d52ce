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
	"github.com/superstep-dev/superstep/pregel"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/sqlite"
	zsqlite "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
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

// writing is a loop of n steps that each write a text; visit is told before which.
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

// folder makes an empty directory for a store, and what removes it.
func (s *suite) folder() (dir string, remove func(), err error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return "", nil, err
	}
	dir, err = os.MkdirTemp(s.dir, "superstep-bench-")
	return dir, func() { _ = os.RemoveAll(dir) }, err
}

// withStore calls fn with a new store, and then tells how many MiB it has become on disk.
func (s *suite) withStore(fn func(runlog.Store) error) (mib float64, err error) {
	dir, remove, err := s.folder()
	if err != nil {
		return 0, err
	}
	defer remove()
	store, err := sqlite.Open(s.ctx, filepath.Join(dir, "runs.db"), nil)
	if err != nil {
		return 0, err
	}
	if err := errors.Join(fn(store), store.Close()); err != nil {
		return 0, err
	}
	files, err := os.ReadDir(dir)
	for _, f := range files {
		if info, ierr := f.Info(); ierr == nil {
			mib += float64(info.Size()) / (1 << 20)
		}
	}
	return mib, err
}

func (s *suite) write(store runlog.Store, id string, f *noteFlow, first note, most int) error {
	j, err := runlog.OpenJournal(s.ctx, store, id, &runlog.JournalOptions{Create: &runlog.NewRun{Workflow: "bench"}, Reopen: true})
	if err != nil {
		return err
	}
	_, err = f.Run(s.ctx, first, &graph.RunOptions{Journal: j, MaxSteps: most})
	return errors.Join(err, j.Close(s.ctx))
}

// w4 is steps that are on disk before the next begins.
func (s *suite) w4() {
	kb := strings.Repeat("abcdefghijklmnopqrstuvwxyz012345", 32)
	s.together(
		s.bareCommits("sqlite-1-row-1KB", 1000, 1, kb),
		s.steps("sqlite-1KB", 1000, kb, false, series{}),
		s.steps("sqlite-grow", 1000, kb, true, series{}),
		s.inTurns("sqlite-1KB-in-turns", 1000, kb, false),
		s.inTurns("sqlite-grow-in-turns", 1000, kb, true),
	)
	s.together(
		s.bareCommits("sqlite-1-row-100KB", 200, 1, strings.Repeat(kb, 100)),
		s.steps("sqlite-100KB", 200, strings.Repeat(kb, 100), false, series{}),
		s.inTurns("sqlite-100KB-in-turns", 200, strings.Repeat(kb, 100), false),
	)
	s.together(
		s.bareCommits("sqlite-1000-rows-1KB", 10_000, 1000, kb),
		s.atOnce("W4", "sqlite-100-runs-at-once", 100, kb),
	)
	s.resumes(kb)

	history := []int{100, 1000, 10_000}
	if s.quick {
		history = history[:2]
	}
	var jobs []job
	for _, n := range history {
		jobs = append(jobs, s.steps(name("sqlite-history-", n), n, kb, false, series{"durable steps before", float64(n), 1}))
	}
	s.together(jobs...)
	jobs = nil
	for _, size := range []int{1, 100, 10_000} {
		jobs = append(jobs, s.untouched(size, kb))
	}
	s.together(jobs...)
}

// steps is one run. Of a list that grows, it compares the last steps with the first.
func (s *suite) steps(name string, n int, text string, grow bool, of series) job {
	at := make([]time.Time, n)
	var mib float64
	var ratios []float64
	f, ferr := writing(n, text, grow, func(step int) { at[step] = time.Now() })
	return job{wl: "W4", name: name, n: n, series: of, do: func(w *stopwatch) (err error) {
		if ferr != nil {
			return ferr
		}
		mib, err = s.withStore(func(store runlog.Store) error {
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

// untouched is steps of 1 KB beside a state of so many KB that stays as it is.
func (s *suite) untouched(size int, text string) job {
	const n = 200
	rest := strings.Repeat(text, size)
	return job{wl: "W4", name: fmt.Sprintf("sqlite-untouched-%dKB", size), n: n, series: series{"untouched state", float64(size), 0}, do: func(w *stopwatch) error {
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
		_, err = s.withStore(func(store runlog.Store) error { return s.write(store, "run", f, note{Rest: rest}, 1<<30) })
		return err
	}}
}

// atOnce is runs of 10 steps each, all on one store.
func (s *suite) atOnce(wl, name string, runs int, text string) job {
	f, ferr := writing(10, text, false, nil)
	return job{wl: wl, name: name, n: runs * 10, do: func(w *stopwatch) error {
		if ferr != nil {
			return ferr
		}
		_, err := s.withStore(func(store runlog.Store) error {
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
func (s *suite) resumes(text string) {
	_, err := s.withStore(func(store runlog.Store) error {
		var jobs []job
		for _, grow := range []bool{false, true} {
			f, err := writing(2000, text, grow, nil)
			if err != nil {
				return err
			}
			id := map[bool]string{false: "resume-1kb", true: "resume-grow"}[grow]
			limited := func(*stopwatch) error {
				var limit *pregel.StepLimitError
				if err := s.write(store, id, f, note{}, 1000); !errors.As(err, &limit) {
					return fmt.Errorf("the run should have met its limit: %w", err)
				}
				return nil
			}
			if err := limited(nil); err != nil {
				return err
			}
			jobs = append(jobs, job{wl: "W4", name: "sqlite-" + id, n: 1, reps: max(s.reps, 5), do: limited})
		}
		s.together(jobs...)
		return nil
	})
	if err != nil {
		s.fail("W4", "sqlite-resume", err)
	}
}

// bareCommits writes rows with the library and the durability of the store, so many to a commit.
func (s *suite) bareCommits(name string, rows, batch int, text string) job {
	data := []byte(text)
	return job{peer: bare, wl: "W4", name: name, n: rows, do: func(w *stopwatch) error {
		c, remove, err := s.bareStore()
		if err != nil {
			return err
		}
		defer remove()
		w.start()
		defer w.stop()
		for i := range rows {
			if err := insert(c, i, data, i%batch == 0, i%batch == batch-1 || i == rows-1); err != nil {
				return err
			}
		}
		return nil
	}}
}

// bareStore opens a new file with the settings of the store, and gives what removes it.
func (s *suite) bareStore() (c *zsqlite.Conn, remove func(), err error) {
	dir, rm, err := s.folder()
	if err != nil {
		return nil, nil, err
	}
	if c, err = zsqlite.OpenConn(filepath.Join(dir, "bare.db"), zsqlite.OpenReadWrite|zsqlite.OpenCreate); err != nil {
		rm()
		return nil, nil, err
	}
	remove = func() {
		_ = c.Close() // it goes with its file
		rm()
	}
	for _, q := range []string{
		"PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "PRAGMA fullfsync=ON", "PRAGMA checkpoint_fullfsync=ON",
		"PRAGMA cache_size=-16384", "PRAGMA wal_autocheckpoint=4000", "CREATE TABLE t (pos INTEGER PRIMARY KEY, run TEXT, data BLOB NOT NULL)",
	} {
		if err := sqlitex.ExecuteTransient(c, q, nil); err != nil {
			remove()
			return nil, nil, err
		}
	}
	return c, remove, nil
}

// inTurns is a run whose node commits a row by itself before each step, so that the two
// see the same disk. The ratio is that of their medians.
func (s *suite) inTurns(name string, n int, text string, grow bool) job {
	var steps, rows []float64 // in µs
	return job{wl: "W4", name: name, n: n, do: func(w *stopwatch) error {
		steps, rows = steps[:0], rows[:0] // the last repetition counts
		c, remove, err := s.bareStore()
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
			failed = errors.Join(failed, insert(c, i, []byte(text), true, true))
			since = time.Now()
			rows = append(rows, float64(since.Sub(now).Nanoseconds())/1e3)
		})
		if err != nil {
			return err
		}
		_, err = s.withStore(func(store runlog.Store) error {
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

func insert(c *zsqlite.Conn, pos int, data []byte, begin, commit bool) error {
	if begin {
		if err := step(c, "BEGIN IMMEDIATE", nil); err != nil {
			return err
		}
	}
	err := step(c, "INSERT INTO t (pos, run, data) VALUES (?1, ?2, ?3)", func(st *zsqlite.Stmt) {
		st.BindInt64(1, int64(pos))
		st.BindText(2, "run")
		st.BindBytes(3, data)
	})
	if err == nil && commit {
		err = step(c, "COMMIT", nil)
	}
	return err
}

func step(c *zsqlite.Conn, query string, bind func(*zsqlite.Stmt)) error {
	st, err := c.Prepare(query)
	if err != nil {
		return err
	}
	if bind != nil {
		bind(st)
	}
	if _, err := st.Step(); err != nil {
		return err
	}
	return st.Reset()
}
