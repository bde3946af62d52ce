package evaluate

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/internal/recipe"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

// The probabilities are those of textbooks: Fisher's tea, McNemar's pairs.
func TestExactKnown(t *testing.T) {
	t.Parallel()
	pairs := func(b, c, same int) (out []stratum) {
		for range b {
			out = append(out, stratum{1, 1, 0, 1})
		}
		for range c {
			out = append(out, stratum{0, 1, 1, 1})
		}
		for range same {
			out = append(out, stratum{1, 1, 1, 1})
		}
		return out
	}
	for name, c := range map[string]struct {
		strata []stratum
		want   float64
	}{
		"Fisher's tea":             {[]stratum{{3, 4, 1, 4}}, 34.0 / 70},
		"all against none":         {[]stratum{{5, 5, 0, 5}}, 2.0 / 252},
		"McNemar, eight to one":    {pairs(8, 1, 20), 20.0 / 512},
		"no runs":                  {nil, 1},
		"only one variant ran":     {[]stratum{{3, 3, 0, 0}}, 1},
		"nothing differs":          {[]stratum{{2, 5, 2, 5}, {5, 5, 5, 5}}, 1},
		"as many as an evaluation": {slices.Repeat([]stratum{{10, 10, 10, 10}}, 1000), 1},
	} {
		if got := exact(c.strata); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// docs/evaluation.md says how many runs it takes.
func TestExactDocumented(t *testing.T) {
	t.Parallel()
	for s, want := range map[stratum]bool{{3, 3, 0, 3}: false, {4, 4, 0, 4}: true, {10, 10, 5, 10}: true, {25, 25, 20, 25}: false, {30, 30, 24, 30}: true} {
		if p := exact([]stratum{s}); (p < Significant) != want {
			t.Errorf("%v: p = %v", s, p)
		}
	}
}

// The probability is what counting all ways to exchange the variants within the cases gives.
func TestExactCounts(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		var strata []stratum
		var runs []bool
		var sizes [][2]int // of each case: runs of the one, and in all
		seen := 0
		for range 1 + r.IntN(3) {
			s := stratum{of: r.IntN(4), total: r.IntN(4)}
			for i := range s.of + s.total {
				passed := r.IntN(2) == 0
				runs = append(runs, passed)
				switch {
				case passed && i < s.of:
					s.a++
				case passed:
					s.b++
				}
			}
			seen += s.a
			sizes = append(sizes, [2]int{s.of, s.of + s.total})
			strata = append(strata, s)
		}
		ways := map[int]int{} // by how many runs of the first pass
		all := 0
	next:
		for mask := range 1 << len(runs) {
			passes, at := 0, 0
			for _, size := range sizes {
				chosen := 0
				for i := at; i < at+size[1]; i++ {
					if mask>>i&1 == 1 {
						if chosen++; runs[i] {
							passes++
						}
					}
				}
				if at += size[1]; chosen != size[0] {
					continue next
				}
			}
			ways[passes]++
			all++
		}
		want := 0
		for _, n := range ways {
			if n <= ways[seen] {
				want += n
			}
		}
		if got := exact(strata); math.Abs(got-float64(want)/float64(all)) > 1e-9 {
			t.Fatalf("%v: got %v, want %v", strata, got, float64(want)/float64(all))
		}
	}
}

// variant returns a variant with cases of five runs, of which so many pass.
func variant(name string, micros int64, passes ...int) Variant {
	v := Variant{Name: name, Workflow: "w"}
	for i, n := range passes {
		c := Case{Name: string(rune('a' + i))}
		for j := range 5 {
			r := Run{Run: name + "-" + c.Name, Passed: j < n, Duration: 100 + int64(j), Cost: &transcript.Cost{Micros: micros + int64(j)}}
			if !r.Passed {
				r.Checks = []Verdict{{Check: "len(output) < 5", Why: "output is \"<&\x00>\""}}
			}
			c.Runs = append(c.Runs, r)
		}
		v.Cases = append(v.Cases, c)
	}
	return v
}

func TestFinish(t *testing.T) {
	t.Parallel()
	r := &Report{File: "x.yaml", Variants: []Variant{variant("good", 9000, 5, 5), variant("bad", 1000, 1, 1), variant("same", 9000, 5, 4)}}
	r.Finish(0, &Report{Variants: []Variant{variant("bad", 1000, 5, 5)}})
	if len(r.Comparisons) != 3 || !r.Comparisons[0].Worse || r.Comparisons[1].Worse || !r.Comparisons[2].Worse || !r.Comparisons[2].Baseline || r.Passed {
		t.Errorf("%+v", r.Comparisons)
	}
	if c := r.Comparisons[0]; c.Cost == nil || c.Cost.P > 0.01 || c.Duration.P < 0.9 || !strings.Contains(c.Sentence(), "significantly worse. 20% of the runs pass instead of 100%") ||
		!strings.Contains(c.Sentence(), "the cost is $0.0010 instead of $0.0090") || strings.Contains(c.Sentence(), "the time") {
		t.Error(c.Sentence())
	}
	for share, want := range map[float64]bool{1: false, 0.8: true} {
		r := &Report{Variants: []Variant{variant("one", 1, 5, 4)}}
		if r.Finish(share, nil); r.Passed != want || !r.Variants[0].Cases[0].Passed {
			t.Errorf("%v: %t", share, r.Passed)
		}
	}
	unpriced := variant("free", 1, 5)
	unpriced.Cases[0].Runs[2].Cost = nil
	base := variant("b", 1, 5)
	if c := compare(&unpriced, &base); c.Cost != nil || c.Duration == nil {
		t.Errorf("%+v", c)
	}
}

func TestJUnit(t *testing.T) {
	t.Parallel()
	r := &Report{File: "x.yaml", Variants: []Variant{variant("good", 9000, 5, 5), variant("bad", 1000, 1, 1)}}
	r.Finish(1, nil)
	b, err := r.JUnit()
	if err != nil {
		t.Fatal(err)
	}
	var got junitSuites
	if err := xml.Unmarshal(b, &got); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	if len(got.Suites) != 3 || got.Suites[0].Failures != 0 || got.Suites[1].Failures != 2 || got.Suites[2].Failures != 1 {
		t.Fatalf("%s", b)
	}
	r.Comparisons[0].Against = "base\u202eline\u009b"
	if b, err := r.JUnit(); err != nil || bytes.ContainsAny(b, "\u202e\u009b") || !bytes.Contains(b, []byte("against baseline")) {
		t.Errorf("%v\n%q", err, b)
	}
	if f := got.Suites[1].Cases[0].Failure; f.Message != "1 of 5 runs passed" || !strings.Contains(f.Text, `4 of 5 runs: len(output) < 5: output is "<&`) || !strings.Contains(f.Text, "bad-a") {
		t.Errorf("%+v", f)
	}
}

func TestIDs(t *testing.T) {
	t.Parallel()
	prefix := Prefix("/x/brief.eval.yaml")
	a, err := ID(prefix, 3, "find", json.RawMessage(`{"a":1}`), 0)
	if err != nil || len(a) > 64 {
		t.Fatal(a, err)
	}
	if !Of(&runlog.Info{ID: a}) || Of(&runlog.Info{ID: "eval-of-my-own"}) || Of(&runlog.Info{ID: "7f3a21c0", Parent: a}) {
		t.Errorf("run %s is of no evaluation, or another is", a)
	}
	if b, _ := ID(prefix, 3, "find", json.RawMessage(`{"a":2}`), 0); a == b {
		t.Error("other inputs have the same run")
	}
	if g := Generation(prefix, []string{a, prefix + "12-x", "eval-000000-99-x", "7f3a", prefix + "x"}); g != 12 {
		t.Errorf("got %d", g)
	}
	e := &recipe.Evaluation{Runs: 2, Variants: make([]recipe.Variant, 2), Cases: make([]recipe.Case, 2)}
	if cells := Cells(e); len(cells) != 8 || cells[1] != (Cell{1, 0, 0}) || cells[7] != (Cell{1, 1, 1}) {
		t.Errorf("%v", cells)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	e, problems := recipe.ParseEvaluation("x", []byte("workflow: w\nchecks: [output == expected, {schema: {type: string}}]\ncases: [{name: a}]\n"))
	if e == nil {
		t.Fatal(problems)
	}
	for _, c := range []struct{ got, want, why string }{
		{`"a \r\nb\n"`, `"a\nb"`, ""}, {`"a\nb"`, `"a\nc"`, `line 2 is "b", expected "c"`}, {`"a"`, `"a\nc"`, `line 2 is missing: "c"`}, {`"a\nx"`, `"a"`, `line 2 is not expected: "x"`},
		{`{"a":[1,2]}`, `{"a":[1,2]}`, ""}, {`{"a":[1,3]}`, `{"a":[1,2]}`, `/a/1 is 3, expected 2`}, {`5`, `"5"`, `the output is 5, expected "5"`}, {``, `"x"`, `the output is null, expected "x"`},
	} {
		ran := &recipe.Ran{Output: json.RawMessage(c.got), Expected: json.RawMessage(c.want)}
		if v := Check(&e.Cases[0].Checks[0], ran); v.Why != c.why || v.Passed != (c.why == "") {
			t.Errorf("%s, %s: got %q, want %q", c.got, c.want, v.Why, c.why)
		}
		if v := Check(&e.Cases[0].Checks[1], ran); v.Passed != strings.HasPrefix(c.got, `"`) {
			t.Errorf("%s: %+v", c.got, v)
		}
	}
}

// What is made of a run is read back as it was, whatever its texts have in them.
func TestAddCase(t *testing.T) {
	t.Parallel()
	var text []byte
	for i, odd := range []string{"plain", "two\nlines\n", "- {{x}}: \"quoted\" # and 'more'", "yes", " spaces \t\x01\u2028 ", "", "5", strings.Repeat("long words ", 40)} {
		raw, _ := json.Marshal(odd)
		out, _ := json.Marshal(map[string]any{"text": odd, "list": []any{odd, 1, nil}})
		r := &Recorded{Run: "7f3a", Title: odd, Workflow: "brief", Inputs: map[string]json.RawMessage{"topic": raw, "n": json.RawMessage("5")}, Output: out}
		var err error
		if text, err = AddCase("x", text, r); err != nil {
			t.Fatal(err)
		}
		e, problems := recipe.ParseEvaluation("x", text)
		if e == nil || len(e.Cases) != i+1 {
			t.Fatalf("%v\n%s", problems, text)
		}
		var in string
		if c := e.Cases[i]; json.Unmarshal(c.Inputs["topic"], &in) != nil || in != odd || !strings.HasPrefix(difference(out, c.Expected)+"=", "=") {
			t.Errorf("%q: %s\n%s", odd, c.Inputs["topic"], c.Expected)
		}
	}
	other, err := AddCase("x", []byte("workflow: w\ncases:\n- name: a\n  checks: [output == \"b\"]\n"), &Recorded{Run: "r", Title: "A", Output: json.RawMessage("5")})
	if err != nil || !strings.HasSuffix(string(other), "\n# made of run r\n- name: a-2\n") {
		t.Errorf("no check looks at what is expected: %s %v", other, err)
	}
	if _, err := AddCase("x", []byte("cases: [{name: a}]\nworkflow: w\n"), &Recorded{Run: "r"}); err == nil || !strings.Contains(err.Error(), "put `cases` last") {
		t.Errorf("%v", err)
	}
	if _, err := AddCase("x", []byte("cases: 5"), &Recorded{Run: "r"}); err == nil {
		t.Error("added to what is no evaluation")
	}
}
