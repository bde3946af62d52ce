package vertex_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/superstep-dev/superstep/vertex"
)

var errBusy = errors.New("busy")

// attempted runs three vertices of which the middle one does as told, by attempt. It gives the
// run, how long it took and its error.
func attempted(t *testing.T, p plainProgram, o plainOptions, does ...func(c *plainContext)) (*vertex.Run[int, none, int], time.Duration, error) {
	t.Helper()
	var n atomic.Int32
	p.Compute = func(c *plainContext, v int32, value *int, _ []int) vertex.Vote {
		*value++
		if v == 1 {
			if i := int(n.Add(1)) - 1; i < len(does) {
				does[i](c)
			}
		}
		return vertex.Halt
	}
	r, err := vertex.NewRun(build(t, chain(3), 3), &p, nil)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	err = r.Run(t.Context(), &o)
	return r, time.Since(start), err
}

func fail(c *plainContext) { c.Fail(errBusy) }
func hang(c *plainContext) { <-c.Context().Done() }

func TestRetry(t *testing.T) {
	giveUp := func(c *plainContext) { hang(c); c.Fail(c.Context().Err()) }
	steady := &vertex.Retry{Attempts: 3, Backoff: time.Second, Jitter: -1}
	for name, c := range map[string]struct {
		retry   *vertex.Retry
		timeout time.Duration
		does    []func(*plainContext)
		took    time.Duration
		want    string // error
	}{
		"failing twice of three":    {steady, 0, []func(*plainContext){fail, fail}, 3 * time.Second, ""},
		"failing always":            {steady, 0, []func(*plainContext){fail, fail, fail}, 3 * time.Second, "vertex 1 in superstep 0, attempt 3: busy"},
		"panicking":                 {steady, 0, []func(*plainContext){func(*plainContext) { panic("no") }}, time.Second, ""},
		"not worth it":              {&vertex.Retry{If: func(err error) bool { return !errors.Is(err, errBusy) }}, 0, []func(*plainContext){fail}, 0, "vertex 1 in superstep 0: busy"},
		"once":                      {&vertex.Retry{Attempts: 1}, 0, []func(*plainContext){fail}, 0, "vertex 1 in superstep 0: busy"},
		"a time limit, once":        {nil, time.Minute, []func(*plainContext){giveUp}, time.Minute, "vertex 1 in superstep 0: an attempt took longer than its limit of 1m0s"},
		"a time limit, again":       {steady, time.Minute, []func(*plainContext){giveUp, hang}, 2*time.Minute + 3*time.Second, ""},
		"late without a word":       {nil, time.Minute, []func(*plainContext){hang}, time.Minute, "vertex 1 in superstep 0: an attempt took longer than its limit of 1m0s"},
		"in time":                   {nil, time.Minute, []func(*plainContext){func(*plainContext) { time.Sleep(time.Second) }}, time.Second, ""},
		"in time, but failed":       {nil, time.Minute, []func(*plainContext){fail}, 0, "vertex 1 in superstep 0: busy"},
		"a panic of the judgment":   {&vertex.Retry{If: func(error) bool { panic("no") }}, 0, []func(*plainContext){fail}, 0, "vertex 1 in superstep 0: panic: no"},
		"the pauses grow":           {&vertex.Retry{Attempts: 9, Backoff: time.Second, Factor: 10, Max: 20 * time.Second, Jitter: -1}, 0, []func(*plainContext){fail, fail, fail, fail}, 51 * time.Second, ""},
		"jitter is no other chance": {&vertex.Retry{Attempts: 2, Backoff: time.Second, Jitter: 1}, 0, []func(*plainContext){fail}, 935820478, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			r, took, err := attempted(t, plainProgram{Retry: c.retry, Timeout: c.timeout}, plainOptions{Parallelism: 2}, c.does...)
			if got := fmt.Sprint(err); got != c.want && (c.want != "" || err != nil) || took != c.took {
				t.Errorf("%s: %v after %v, want %q after %v", name, err, took, c.want, c.took)
			}
			if err != nil {
				if !slices.Equal(r.Values(), make([]int, 3)) {
					t.Errorf("%s: the superstep has left %v", name, r.Values())
				}
				if err := r.Run(t.Context(), nil); err != nil { // the superstep is computed anew
					t.Errorf("%s: %v when run again", name, err)
				}
			}
			if !slices.Equal(r.Values(), []int{1, 1, 1}) {
				t.Errorf("%s: values %v", name, r.Values())
			}
		})
	}
}

// A superstep that fails has never been: neither in the run nor in a snapshot of it.
func TestFailedSuperstep(t *testing.T) {
	for _, combine := range []*vertex.Combiner[int]{nil, vertex.CombineSum[int]()} {
		var broken atomic.Bool
		p := &plainProgram{
			Combine: combine,
			Retry:   &vertex.Retry{Attempts: 1},
			Compute: func(c *plainContext, v int32, value *int, in []int) vertex.Vote {
				for _, m := range in {
					*value += m
				}
				if v != 1 || c.Step() != 1 || broken.Load() { // another time, another program
					c.SendToNeighbors(int(v) + 1)
				}
				if v == 2 && c.Step() == 1 && broken.Load() {
					c.Fail(errBusy)
				}
				if v == 0 {
					return vertex.Complete
				}
				return vertex.Halt
			},
		}
		g := build(t, chain(4), 4)
		r, err := vertex.NewRun(g, p, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := runVertices(t, g, p, nil, nil).Values()
		broken.Store(true)
		var failed *vertex.Error
		if err := r.Run(t.Context(), nil); !errors.As(err, &failed) || failed.Attempts != 1 || r.Step() != 1 || !slices.Equal(r.Values(), make([]int, 4)) {
			t.Errorf("%v, %v at %d", err, r.Values(), r.Step())
		}
		s, err := r.Snapshot()
		if err != nil || s.Step != 1 || !slices.Equal(s.To, []int32{1, 2, 3}) || !slices.Equal(s.Messages, []int{1, 2, 3}) {
			t.Errorf("%+v, %v", s, err)
		}
		again, err := vertex.Restore(g, p, s)
		if err != nil {
			t.Fatal(err)
		}
		broken.Store(false)
		for _, r := range []*vertex.Run[int, none, int]{r, again} {
			if err := r.Run(t.Context(), nil); err != nil || !slices.Equal(r.Values(), want) {
				t.Errorf("%v, %v, want %v", err, r.Values(), want)
			}
		}
	}
}

// What the vertices of a program that may fail have in pointers is taken back by Copy.
func TestCopy(t *testing.T) {
	type visits = map[string]bool
	tries := 0
	p := &vertex.Program[visits, none, none]{
		Retry: &vertex.Retry{Backoff: -1},
		Copy: func(v visits) visits {
			if v == nil {
				return visits{}
			}
			return maps.Clone(v)
		},
		Compute: func(c *vertex.Context[visits, none, none], _ int32, value *visits, _ []none) vertex.Vote {
			tries++
			(*value)[fmt.Sprint("try ", tries)] = true
			if tries%4 != 3 {
				c.Fail(errBusy)
			}
			return vertex.Stay
		},
	}
	r, err := vertex.NewRun(build(t, chain(1), 1), p, nil)
	if err != nil {
		t.Fatal(err)
	}
	// Supersteps 0 and 1 take three attempts and four: the last is one too many.
	if err := r.Run(t.Context(), nil); !errors.Is(err, errBusy) || r.Step() != 1 || fmt.Sprint(r.Values()) != "[map[try 3:true]]" {
		t.Errorf("%v at %d: %v", err, r.Step(), r.Values())
	}
}

func TestRetrying(t *testing.T) {
	var mu sync.Mutex
	var told []string
	var stats []vertex.Stats
	o := plainOptions{
		Retrying: func(e *vertex.Error, pause time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, fmt.Sprint(e, " ", pause))
		},
		Trace: func(s vertex.Stats) { stats = append(stats, s) },
	}
	synctest.Test(t, func(t *testing.T) {
		if _, _, err := attempted(t, plainProgram{Retry: &vertex.Retry{Jitter: -1}}, o, fail, fail); err != nil {
			t.Error(err)
		}
	})
	if want := []string{"vertex 1 in superstep 0: busy 500ms", "vertex 1 in superstep 0, attempt 2: busy 1s"}; !slices.Equal(told, want) || stats[0].Retries != 2 || stats[0].Computed != 3 {
		t.Errorf("%q, %+v", told, stats)
	}
}

// Neither a pause nor an attempt outlives the run, and what was stopped goes on.
func TestRunTimeout(t *testing.T) {
	for name, does := range map[string]func(*plainContext){"pausing": fail, "computing": hang} {
		synctest.Test(t, func(t *testing.T) {
			o := plainOptions{Timeout: 100 * time.Millisecond, Parallelism: 3}
			r, took, err := attempted(t, plainProgram{Retry: &vertex.Retry{Backoff: time.Hour}}, o, does)
			var limit *vertex.TimeoutError
			if !errors.As(err, &limit) || err.Error() != "the run took longer than its limit of 100ms" || took != 100*time.Millisecond {
				t.Errorf("%s: %v after %v", name, err, took)
			}
			if err := r.Run(t.Context(), nil); err != nil || !slices.Equal(r.Values(), []int{1, 1, 1}) {
				t.Errorf("%s: %v, %v", name, err, r.Values())
			}
		})
	}
	synctest.Test(t, func(t *testing.T) { // the last superstep ends after it, without a Retry or Timeout of its own
		r, err := vertex.NewRun(build(t, chain(3), 3), &plainProgram{Compute: func(_ *plainContext, v int32, value *int, _ []int) vertex.Vote {
			if v == 0 {
				time.Sleep(time.Second)
			}
			*value = 1
			return vertex.Halt
		}}, nil)
		if err == nil {
			err = r.Run(t.Context(), &plainOptions{Timeout: 100 * time.Millisecond, Parallelism: 3})
		}
		var limit *vertex.TimeoutError
		if !errors.As(err, &limit) {
			t.Errorf("deaf: %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancelCause(t.Context())
		r, err := vertex.NewRun(build(t, chain(3), 3), &plainProgram{
			Retry: &vertex.Retry{Attempts: 1},
			Compute: func(c *plainContext, _ int32, _ *int, _ []int) vertex.Vote {
				stop(errBusy)
				<-c.Context().Done()
				c.Fail(c.Context().Err())
				return vertex.Halt
			},
		}, nil)
		if err == nil {
			err = r.Run(ctx, nil)
		}
		var failed *vertex.Error
		if !errors.Is(err, errBusy) || errors.As(err, &failed) {
			t.Errorf("stopped: %v", err)
		}
	})
}

// Vertices that wait do so side by side, as many as the parallelism says.
func TestRetriesSideBySide(t *testing.T) {
	const n = 1000
	synctest.Test(t, func(t *testing.T) {
		var failed [n]atomic.Bool
		p := &plainProgram{
			Retry: &vertex.Retry{Backoff: time.Second, Jitter: -1},
			Compute: func(c *plainContext, v int32, _ *int, _ []int) vertex.Vote {
				if !failed[v].Swap(true) {
					c.Fail(errBusy)
				}
				return vertex.Halt
			},
		}
		start := time.Now()
		runVertices(t, build(t, chain(n), n), p, nil, &plainOptions{Parallelism: n})
		if took := time.Since(start); took != time.Second {
			t.Errorf("a pause of a second for each of %d vertices took %v", n, took)
		}
	})
}

// BenchmarkAttempts is what it costs that a vertex may fail.
func BenchmarkAttempts(b *testing.B) {
	const n = 100_000
	g := build(b, rmat(n, 10*n, 42), n)
	for name, retry := range map[string]*vertex.Retry{"never": nil, "may": {}} {
		b.Run(name, func(b *testing.B) {
			p := pageRank(n, 20)
			p.Retry = retry
			for range b.N {
				runVertices(b, g, p, nil, nil)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n/21, "ns/vertex-superstep")
		})
	}
}
