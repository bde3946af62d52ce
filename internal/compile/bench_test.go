package compile_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/sqlite"
	"github.com/superstep-dev/superstep/tool"
)

// uneven is a recipe of steps that sleep.
type uneven struct {
	text  string
	takes []time.Duration
	deps  [][]int
	width int
}

func newUneven(n, width int, unit time.Duration) *uneven {
	r := rand.New(rand.NewPCG(uint64(n), 7))
	u := &uneven{width: width}
	var b strings.Builder
	fmt.Fprintf(&b, "name: test\nmax_concurrency: %d\nsteps:\n", width)
	for i := range n {
		d := time.Duration(1+r.IntN(10)) * unit
		var deps []int
		for range r.IntN(4) {
			if i > 0 {
				if j := max(0, i-1-r.IntN(max(1, n/10))); !slices.Contains(deps, j) {
					deps = append(deps, j)
				}
			}
		}
		u.takes, u.deps = append(u.takes, d), append(u.deps, deps)
		fmt.Fprintf(&b, "  - {id: s%d, tool: sleep, args: {text: \"%d\"}", i, d)
		if len(deps) > 0 {
			var ids []string
			for _, j := range deps {
				ids = append(ids, fmt.Sprintf("s%d", j))
			}
			fmt.Fprintf(&b, ", depends_on: [%s]", strings.Join(ids, ", "))
		}
		b.WriteString("}\n")
	}
	u.text = b.String()
	return u
}

// ideal is how long the steps take with no cost of their own, when each is begun as soon as what it
// depends on is done and there is room, in the order in which they became ready.
func (u *uneven) ideal() time.Duration {
	n := len(u.takes)
	left := make([]int, n)
	out := make([][]int, n)
	var ready []int
	for i, deps := range u.deps {
		if left[i] = len(deps); left[i] == 0 {
			ready = append(ready, i)
		}
		for _, j := range deps {
			out[j] = append(out[j], i)
		}
	}
	type running struct {
		ends time.Duration
		step int
	}
	var now time.Duration
	var at []running
	for len(ready)+len(at) > 0 {
		for len(ready) > 0 && len(at) < u.width {
			at = append(at, running{now + u.takes[ready[0]], ready[0]})
			ready = ready[1:]
		}
		first := slices.MinFunc(at, func(a, b running) int {
			if a.ends != b.ends {
				return int(a.ends - b.ends)
			}
			return a.step - b.step
		})
		at = slices.DeleteFunc(at, func(r running) bool { return r.step == first.step })
		now = first.ends
		for _, i := range out[first.step] {
			if left[i]--; left[i] == 0 {
				ready = append(ready, i)
			}
		}
	}
	return now
}

// byHand does the same sleeps with goroutines and a semaphore, and nothing else.
func (u *uneven) byHand() time.Duration {
	begin := time.Now()
	done := make([]chan struct{}, len(u.takes))
	for i := range done {
		done[i] = make(chan struct{})
	}
	places := make(chan struct{}, u.width)
	for i, d := range u.takes {
		go func() {
			for _, j := range u.deps[i] {
				<-done[j]
			}
			places <- struct{}{}
			time.Sleep(d)
			<-places
			close(done[i])
		}()
	}
	for _, c := range done {
		<-c
	}
	return time.Since(begin)
}

// BenchmarkUneven compares the time that recipes of uneven steps take with what they need: the length
// of the critical path, or of the best that their width allows. The metrics are wall/ideal, and the same of
// goroutines by hand in the same run.
func BenchmarkUneven(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		for _, width := range []int{1000, 8} {
			unit := 50 * time.Millisecond // of which a step takes 1 to 10: agents take seconds
			if n == 1000 && width == 8 {
				unit = 10 * time.Millisecond
			}
			u := newUneven(n, width, unit)
			for _, where := range []string{"memory", "sqlite"} {
				b.Run(fmt.Sprintf("steps=%d/width=%d/%s", n, width, where), func(b *testing.B) {
					k := &kitchen{}
					type in struct {
						Text string `json:"text"`
					}
					sleep, err := tool.New("sleep", "Sleeps.", func(_ context.Context, i in) (string, error) {
						var d time.Duration
						_, err := fmt.Sscan(i.Text, (*int64)(&d))
						time.Sleep(d)
						return "ok", err
					}, &tool.Options{Effect: tool.Pure})
					if err != nil {
						b.Fatal(err)
					}
					k.tools = []*tool.Tool{sleep}
					e := k.engine(b, benchStore(b, where), u.text)
					ideal := u.ideal()
					var ratios, hand []float64
					for b.Loop() {
						begin := time.Now()
						run, err := e.Start(b.Context(), "test", json.RawMessage("{}"), nil)
						if err != nil {
							b.Fatal(err)
						}
						if out, err := run.Wait(b.Context()); err != nil || out.Status != runlog.Completed {
							b.Fatal(out, err)
						}
						ratios = append(ratios, float64(time.Since(begin))/float64(ideal))
						hand = append(hand, float64(u.byHand())/float64(ideal))
					}
					slices.Sort(ratios)
					slices.Sort(hand)
					b.ReportMetric(hand[len(hand)/2], "hand/ideal")
					b.ReportMetric(ratios[len(ratios)/2], "wall/ideal")
					b.ReportMetric(ideal.Seconds()*1000, "ideal-ms")
				})
			}
		}
	}
}

// BenchmarkChain is what a step costs that does nothing: a chain of tools.
func BenchmarkChain(b *testing.B) {
	const n = 100
	var t strings.Builder
	t.WriteString("name: test\nsteps:\n")
	for i := range n {
		fmt.Fprintf(&t, "  - {id: s%d, tool: echo, args: {text: x}", i)
		if i > 0 {
			fmt.Fprintf(&t, ", depends_on: [s%d]", i-1)
		}
		t.WriteString("}\n")
	}
	for _, where := range []string{"memory", "sqlite"} {
		b.Run(where, func(b *testing.B) {
			k := &kitchen{}
			k.tools = []*tool.Tool{k.echo("echo", tool.Pure, nil)}
			e := k.engine(b, benchStore(b, where), t.String())
			for b.Loop() {
				run, err := e.Start(b.Context(), "test", json.RawMessage("{}"), nil)
				if err != nil {
					b.Fatal(err)
				}
				if out, err := run.Wait(b.Context()); err != nil || out.Status != runlog.Completed {
					b.Fatal(out, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/n, "µs/step")
		})
	}
}

func benchStore(b *testing.B, where string) runlog.Store {
	if where == "memory" {
		return runlog.NewMemory(nil)
	}
	s, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "runs.db"), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}
