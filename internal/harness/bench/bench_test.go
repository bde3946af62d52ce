package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/runlog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func testSuite(t *testing.T) (*suite, *results) {
	t.Helper()
	var rs results
	return &suite{ctx: t.Context(), reps: 3, maxK: 100, dir: t.TempDir(), emit: func(r *record) { rs = append(rs, r) }}, &rs
}

func TestExponentOfAPowerLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e, c := rapid.Float64Range(-2, 3).Draw(t, "e"), rapid.Float64Range(0.001, 1000).Draw(t, "c")
		sizes := rapid.SliceOfNDistinct(rapid.IntRange(1, 1_000_000), 2, 6, rapid.ID).Draw(t, "sizes")
		var points []point
		for _, s := range sizes {
			points = append(points, point{float64(s), c * math.Pow(float64(s), e)})
		}
		if got, ok := exponent(points); !ok || math.Abs(got-e) > 1e-6 {
			t.Fatalf("got %g, %t, want %g", got, ok, e)
		}
	})
}

func TestExponentNeedsTwoSizes(t *testing.T) {
	for _, points := range [][]point{nil, {{10, 1}}, {{10, 1}, {10, 2}}, {{10, 1}, {0, 5}, {20, 0}}} {
		if e, ok := exponent(points); ok {
			t.Errorf("%v: got %g", points, e)
		}
	}
}

func sample() results {
	rec := func(peer, wl, name string, n int, of series, extra map[string]float64, wall ...float64) *record {
		r := &record{Peer: peer, WL: wl, Case: name, N: n, WallMs: wall, Extra: extra, series: of}
		r.sum()
		return r
	}
	return results{
		rec(bare, "W4", "sqlite-1-row-1KB", 1000, series{}, nil, 200, 400, 300),
		rec(ours, "W4", "sqlite-1KB", 500, series{}, map[string]float64{"disk_mib": 1.5}, 150, 220, 180),
		rec(ours, "W4", "sqlite-1KB-in-turns", 1, series{}, map[string]float64{"step_to_row": 1.2}, 1),
		rec(ours, "W1", "chain-100", 100, series{"chain", 100, 1}, nil, 0.2),
		rec(ours, "W1", "chain-10", 10, series{"chain", 10, 1}, nil, 0.01),
		{Peer: ours, WL: "W3", Case: "loop-router-10000", Note: "error: it broke"},
	}
}

func TestSeriesAreSortedAndFitted(t *testing.T) {
	fs := fits(sample())
	if len(fs) != 1 || !fs[0].ok || fs[0].series.name != "chain" {
		t.Fatalf("got %+v", fs)
	}
	// From 1 µs at 10 to 2 µs at 100: an exponent of log 2 / log 10 a unit, and 1 more in all.
	if want := 1 + math.Log10(2); math.Abs(fs[0].exponent-want) > 1e-9 {
		t.Errorf("exponent %g, want %g", fs[0].exponent, want)
	}
	if want := []point{{10, 1}, {100, 2}}; !slices.EqualFunc(fs[0].points, want, func(a, b point) bool { return a.size == b.size && math.Abs(a.cost-b.cost) < 1e-9 }) {
		t.Errorf("points %v", fs[0].points)
	}
}

// The repetitions took turns, so each is compared with its own.
func TestRatioIsOfRepetitions(t *testing.T) {
	rs := sample()
	got, ok := against("W4", "sqlite-1KB", "sqlite-1-row-1KB")(rs) // 1.5, 1.1, 1.2
	if !ok || math.Abs(got-1.2) > 1e-9 {
		t.Errorf("got %g, %t", got, ok)
	}
	if _, ok := against("W4", "sqlite-1KB", "nothing")(rs); ok {
		t.Error("compared with nothing")
	}
	if _, ok := of("W4", "sqlite-1KB", extra("no_such"))(rs); ok {
		t.Error("took a figure that is not there")
	}
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	if err := printTable(&out, sample()); err != nil {
		t.Fatal(err)
	}
	want := `WORK  CASE                 OF         N     MEDIAN MS  µS/UNIT  SPREAD  ALLOCS/UNIT  BYTES/UNIT
W4    sqlite-1-row-1KB     bare       1000  300.000    300      67 %    0            0
W4    sqlite-1KB           superstep  500   180.000    360      39 %    0            0           disk_mib=1.5
W4    sqlite-1KB-in-turns  superstep  1     1.000      1000     0 %     0            0           step_to_row=1.2
W1    chain-100            superstep  100   0.200      2        0 %     0            0
W1    chain-10             superstep  10    0.010      1        0 %     0            0
W3    loop-router-10000    superstep  0     error: it broke

WORK  SERIES  EXPONENT  SIZE: µS/UNIT
W1    chain   1.30      10: 1   100: 2

WORK  GOAL                                            IS     WANTED
W1    chain-10, a step                                1      ≤ 1 µs           met
W1    chain-10, a step                                0      ≤ 4 allocations  met
W1    chain-100, a step                               2      ≤ 1 µs           missed
W1    chain-100, a step                               0      ≤ 4 allocations  met
W4    sqlite: a step of 1 KB, to a commit of one row  1.2    ≤ 1.2 ×          met
W1    exponent: chain                                 1.301  ≤ 1.1            missed
`
	if diff := cmp.Diff(want, untailed(out.String())); diff != "" {
		t.Error(diff)
	}
}

// untailed takes out the blanks at the ends of lines.
func untailed(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

func TestPeersSideBySide(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one.jsonl"), filepath.Join(dir, "two.jsonl")
	write := func(name, text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(one, `{"peer":"eino","wl":"W1","case":"chain-pregel-100","n":100,"med_ms":3.5,"us_per_n":35}
a line that somebody has logged
{"peer":"eino","wl":"W1","case":"chain-dag-100","n":100,"med_ms":9.5,"us_per_n":95}
{"peer":"eino","wl":"W6","case":"dag-sleep-dag","n":6,"med_ms":700.7,"us_per_n":1,"extra":{"critical_ms":700}}
{"peer":"eino","wl":"W1","case":"compile-chain-1000","n":1000,"med_ms":5,"us_per_n":5}
{"peer":"eino","wl":"W3","case":"timeout","n":0,"note":"ended after 600 s","wall_ms":[]}
`)
	write(two, `{"peer":"superstep","wl":"W1","case":"chain-100","n":1000,"med_ms":0.2,"us_per_n":0.2}
{"peer":"superstep","wl":"W1","case":"chain-10","n":1000,"med_ms":0.3,"us_per_n":0.3}
{"peer":"limit","wl":"W2","case":"go-goroutines-K1000","n":1000,"med_ms":0.5,"us_per_n":0.5}
{"peer":"adk","wl":"W2","case":"join-K1000","n":1000,"med_ms":88,"us_per_n":88}
`)
	var out bytes.Buffer
	if err := run(t.Context(), "", []string{"-from", one, two}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	want := `WORK  CASE                UNIT                  superstep  adk  eino   limit
W1    chain-10            µs a step             0.3        -    -      -
W1    chain-100           µs a step             0.2        -    35–95  -
W1    compile-chain-1000  µs a node             -          -    5      -
W2    1 → 1000 → 1        µs a branch           -          88   -      0.5
W6    dag-sleep           wall ÷ critical path  -          -    1.001  -
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
	write(two, "{\"peer\":")
	if err := run(t.Context(), "", []string{"-from", two}, &out, io.Discard); err == nil || !strings.Contains(err.Error(), "two.jsonl:1:") {
		t.Errorf("a broken record: %v", err)
	}
	if err := run(t.Context(), "", []string{"-from"}, &out, io.Discard); err == nil {
		t.Error("no files: no error")
	}
}

func TestRecordsAsJSON(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), "", []string{"-json", "-wl", "W3", "-reps", "2"}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		var r struct {
			Peer, WL, Case string
			WallMs         []float64 `json:"wall_ms"`
			UsPerN         float64   `json:"us_per_n"`
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil || len(r.WallMs) != 2 || r.UsPerN <= 0 {
			t.Errorf("%s: %v", line, err)
		}
		got = append(got, r.Peer+" "+r.WL+" "+r.Case)
	}
	if want := []string{"bare W3 go-loop-router", "superstep W3 loop-router-10000"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestMistakesOnTheCommandLine(t *testing.T) {
	for _, args := range [][]string{{"-wl", "W10"}, {"-wl", ""}, {"W1"}, {"-reps", "x"}} {
		if err := run(t.Context(), "", args, io.Discard, io.Discard); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}

func TestAJobThatFailsSaysSo(t *testing.T) {
	s, rs := testSuite(t)
	calls := 0
	s.together(
		job{wl: "W1", name: "bad", n: 1, do: func(*stopwatch) error {
			if calls++; calls == 3 {
				return errors.New("it broke")
			}
			return nil
		}},
		job{wl: "W1", name: "good", n: 1, do: func(*stopwatch) error { return nil }},
	)
	if r := (*rs)[0]; r.Note != "error: it broke" || len(r.WallMs) != 1 {
		t.Errorf("bad: %+v", r)
	}
	if r := (*rs)[1]; r.Note != "" || len(r.WallMs) != 3 {
		t.Errorf("good: %+v", r)
	}
}

func TestStopwatchStartsAnew(t *testing.T) {
	var w stopwatch
	w.start()
	w.began = w.began.Add(-time.Hour)
	w.start()
	w.stop()
	first := w.wall
	w.stop()
	if w.wall > time.Minute || w.wall != first {
		t.Errorf("measured %s, then %s", first, w.wall)
	}
}

func TestFigures(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1e-9: "0", 0.00141: "0.00141", 0.2: "0.2", 1.0061: "1.006", 1: "1", 12.345: "12.35", 99.99: "99.99", 250: "250", 1234: "1234", 12345.6: "12,346", 1234567: "1,234,567"} {
		if got := figure(v); got != want {
			t.Errorf("%g: got %s, want %s", v, got, want)
		}
	}
}

func TestSchedules(t *testing.T) {
	six := sixNodes()
	if six.critical() != 700*time.Millisecond || six.listed(0) != 700*time.Millisecond || six.bound(1) != 1350*time.Millisecond || six.listed(1) != 1350*time.Millisecond {
		t.Errorf("critical %s, listed %s, one at a time %s and %s", six.critical(), six.listed(0), six.bound(1), six.listed(1))
	}
	u := layered(6, 10, 1)
	for i, before := range u.before {
		for _, b := range before {
			if b >= i/10*10 {
				t.Fatalf("%d comes after %d", i, b)
			}
		}
	}
	for _, width := range []int{0, 1, 4, 60} {
		if got := u.listed(width); got < u.bound(width) {
			t.Errorf("width %d: %s beats %s", width, got, u.bound(width))
		}
	}
}

// Every node of an uneven graph starts as soon as what it reads is final.
func TestUnevenNodesStartEarly(t *testing.T) {
	f, err := layered(4, 5, 1).flow()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range f.Schedule() {
		if !n.Early {
			t.Errorf("%s: %s", n.Node, n.Why)
		}
	}
}

func TestFlowsCount(t *testing.T) {
	s, _ := testSuite(t)
	for _, c := range []struct {
		name  string
		want  int
		build func() (*countFlow, error)
	}{
		{"chain", 7, func() (*countFlow, error) { return chain(7, one) }},
		{"loop", 9, func() (*countFlow, error) { return loop(9, 0) }},
		{"idle", 9, func() (*countFlow, error) { return loop(9, 3) }},
		{"static", 7, func() (*countFlow, error) { return static(5) }},
		{"fan", 7, func() (*countFlow, error) { return fanned(5) }},
	} {
		f, err := c.build()
		if err == nil {
			err = s.times(f, 2, c.want)(nil)
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestVertexProgramsAgreeWithThoseByHand(t *testing.T) {
	s, rs := testSuite(t)
	s.reps = 1
	s.ranks(200, "small")
	s.components(200, "small")
	for _, r := range *rs {
		if r.Note != "" {
			t.Errorf("%s: %s", r.Case, r.Note)
		}
	}
	if len(*rs) != 4 {
		t.Errorf("%d records", len(*rs))
	}
}

func TestDurableJobs(t *testing.T) {
	s, rs := testSuite(t)
	s.reps = 1
	places := []*place{sqlitePlace(), filePlace()}
	for _, p := range places {
		s.together(
			s.bareCommits(p, p.name+" rows", 5, 2, "text"),
			s.steps(p, p.name+" steps", 5, "text", true, series{}),
			s.untouched(p, 1, "text"),
			s.inTurns(p, p.name+" in turns", 4, "text", false),
			s.atOnce(p, "W4", p.name+" at once", 3, "text"),
		)
		s.resumes(p, "text")
	}
	for _, r := range *rs {
		if r.Note != "" || r.MedMs == 0 {
			t.Errorf("%s: %+v", r.Case, r)
		}
	}
	if left, err := os.ReadDir(s.dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestAgentsFollowTheScript(t *testing.T) {
	s, rs := testSuite(t)
	s.reps = 1
	t.Setenv("BENCH_STORES", "sqlite")
	s.w9()
	var got []string
	for _, r := range *rs {
		got = append(got, r.Case+r.Note)
	}
	if want := []string{"go-http-json", "agent", "agent-responses", "agent-memory", "agent-sqlite", "sqlite-1-row-1KB"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestReadersHearEverything(t *testing.T) {
	s, rs := testSuite(t)
	s.together(s.talk("talk", 2, 1, 50, 0), s.stalled(5), bareChannel("go-chan", 3, 10, 0))
	for _, r := range *rs {
		if r.Note != "" || r.Extra["lost_share"] != 0 {
			t.Errorf("%s: %+v", r.Case, r)
		}
	}
}

func TestAStoreThatCannotBeMade(t *testing.T) {
	s, _ := testSuite(t)
	s.dir = filepath.Join(s.dir, "file")
	if err := os.WriteFile(s.dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.withStore(sqlitePlace(), func(runlog.Store) error { return nil }); err == nil {
		t.Error("no error")
	}
}

func TestNothingRunsAfterAnInterrupt(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var out bytes.Buffer
	if err := run(ctx, "", []string{"-json"}, &out, io.Discard); !errors.Is(err, context.Canceled) || out.Len() > 0 {
		t.Errorf("got %v, %q", err, out.String())
	}
}
