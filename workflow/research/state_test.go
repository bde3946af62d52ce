package research

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestReduce(t *testing.T) {
	at := func(direction, path string, line int, quote string, confidence float64) Finding {
		return Finding{Direction: direction, Path: path, Line: line, Quote: quote, Confidence: confidence}
	}
	for _, tc := range []struct {
		name string
		in   []Update
		want State
	}{
		{"a confidence above 1", []Update{{Findings: []Finding{at("1", "a", 1, "x", 1.5)}}}, State{Findings: []Finding{at("1", "a", 1, "x", 1)}}},
		{"one below 0", []Update{{Findings: []Finding{at("1", "a", 1, "x", -0.5)}}}, State{Findings: []Finding{at("1", "a", 1, "x", 0)}}},
		{"one that is no number", []Update{{Findings: []Finding{at("1", "a", 1, "x", math.NaN())}}}, State{Findings: []Finding{at("1", "a", 1, "x", 0)}}},
		{"the same line twice: the first is kept", []Update{{Findings: []Finding{at("1", "a", 1, "x", 0.2)}}, {Findings: []Finding{at("1", "a", 1, "y", 0.9)}}},
			State{Findings: []Finding{at("1", "a", 1, "x", 0.2)}}},
		{"for another direction: it counts for both", []Update{{Findings: []Finding{at("1", "a", 1, "x", 0.2), at("2", "a", 1, "y", 0.9), at("2", "a", 1, "z", 0.9)}}},
			State{Findings: []Finding{{Direction: "1", Also: []string{"2"}, Path: "a", Line: 1, Quote: "x", Confidence: 0.2}}}},
		{"another line is another source", []Update{{Findings: []Finding{at("1", "a", 1, "x", 0.2), at("1", "a", 2, "x", 0.2)}}},
			State{Findings: []Finding{at("1", "a", 1, "x", 0.2), at("1", "a", 2, "x", 0.2)}}},
		{"a page twice, with a part of the quote", []Update{{Findings: []Finding{at("1", "https://a", 0, "one two", 0.2), at("1", "https://a", 0, "two", 0.2), at("1", "https://a", 0, "three", 0.2)}}},
			State{Findings: []Finding{at("1", "https://a", 0, "one two", 0.2), at("1", "https://a", 0, "three", 0.2)}}},
		{"directions by key", []Update{{Directions: []Direction{{Key: "1", Topic: "t", Searched: []string{"q"}}}}, {Directions: []Direction{{Key: "1", Searched: []string{"r"}}, {Key: "2"}}}},
			State{Directions: []Direction{{Key: "1", Topic: "t", Searched: []string{"q", "r"}}, {Key: "2"}}}},
		{"counters", []Update{{Searches: 2, Checked: 2, Dropped: 1}, {Searches: 1, Rounds: 1, Dropped: 2, Enough: true}, {Brief: "b"}},
			State{Searches: 3, Checked: 2, Rounds: 1, Dropped: 3, Enough: true, Brief: "b"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var s State
			for _, u := range tc.in {
				s = reduce(s, u)
			}
			if diff := cmp.Diff(tc.want, s, cmp.Comparer(func(a, b []Direction) bool { return fmt.Sprint(a) == fmt.Sprint(b) }), cmp.Comparer(func(a, b []Finding) bool { return fmt.Sprint(a) == fmt.Sprint(b) })); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// An update changes no state but the one it makes: others may hold the one before.
func TestReduceShares(t *testing.T) {
	s := State{Directions: []Direction{{Key: "1"}}, Findings: []Finding{{Direction: "1", Path: "a", Line: 1}}}
	before := fmt.Sprint(s)
	reduce(s, Update{Directions: []Direction{{Key: "1", Searched: []string{"q"}}}, Findings: []Finding{{Direction: "2", Path: "a", Line: 1}}})
	if after := fmt.Sprint(s); after != before {
		t.Errorf("%s became %s", before, after)
	}
	s.Findings[0].Also = append(make([]string, 0, 8), "2")
	one := reduce(s, Update{Findings: []Finding{{Direction: "3", Path: "a", Line: 1}}})
	reduce(s, Update{Findings: []Finding{{Direction: "4", Path: "a", Line: 1}}})
	if got := one.Findings[0].Also[1]; got != "3" {
		t.Errorf("a state has %q of another", got)
	}
}

func TestConfidence(t *testing.T) {
	s := State{Findings: []Finding{
		{Direction: "1", Path: "a", Line: 1, Confidence: 0.5}, {Direction: "1", Path: "a", Line: 2, Confidence: 0.2},
		{Direction: "2", Also: []string{"1"}, Path: "b", Line: 1, Confidence: 0.5}, {Direction: "2", Path: "c", Line: 1, Confidence: 0.9},
	}}
	for d, want := range map[string]float64{"1": 0.75, "2": 0.95, "3": 0} {
		if got := s.confidence(d); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %v, want %v", d, got, want)
		}
	}
}

// The shares of a round are fair, go to directions that need them, the same every time,
// and never add up to more than what is left.
func TestAssign(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := State{Max: rapid.IntRange(2, 20).Draw(t, "budget"), Rounds: rapid.IntRange(0, mostRounds-1).Draw(t, "rounds")}
		s.Searches = rapid.IntRange(0, s.Max).Draw(t, "searches")
		for i := range rapid.IntRange(1, mostDirections).Draw(t, "directions") {
			d := Direction{Key: key(i, "topic")}
			s.Directions = append(s.Directions, d)
			for n := range rapid.IntRange(0, 5).Draw(t, "findings") {
				s.Findings = append(s.Findings, Finding{Direction: d.Key, Path: fmt.Sprint("f", n%2), Line: n + 1})
			}
		}
		sends := assign(s)
		if fmt.Sprint(sends) != fmt.Sprint(assign(s)) {
			t.Fatal("not the same twice")
		}
		left, open := s.Max-s.Searches, s.open()
		if left == 0 || len(open) == 0 {
			if len(sends) != 1 || sends[0].To != "synthesizer" {
				t.Fatalf("%+v", sends)
			}
			return
		}
		total, least, most := 0, 99, 0
		for i, x := range sends {
			a := x.Arg.(assignment)
			if x.To != "researcher" || x.Key != open[i].Key || a.Direction.Key != x.Key {
				t.Fatalf("%+v", x)
			}
			total, least, most = total+a.Searches, min(least, a.Searches), max(most, a.Searches)
		}
		if len(sends) != min(left, len(open)) || total > left || least < 1 || most > narrowSearches || most-least > 1 {
			t.Fatalf("%d left for %d: %+v", left, len(open), sends)
		}
	})
}

// Whatever researchers search and find, the loop ends within the budget.
func TestCoverageEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := State{Max: rapid.IntRange(2, 20).Draw(t, "budget")}
		for i := range rapid.IntRange(1, mostDirections).Draw(t, "directions") {
			s.Directions = append(s.Directions, Direction{Key: key(i, "topic")})
		}
		s = reduce(s, Update{Searches: min(2, s.Max-1), Checked: min(2, s.Max-1)})
		for round := 1; ; round++ {
			sends := assign(s)
			if sends[0].To == "synthesizer" {
				return
			}
			for _, x := range sends {
				a := x.Arg.(assignment)
				u := Update{Searches: rapid.IntRange(0, a.Searches).Draw(t, "searches")}
				for range rapid.IntRange(0, 2).Draw(t, "findings") {
					u.Findings = append(u.Findings, Finding{Direction: x.Key, Path: "f", Line: len(s.Findings) + len(u.Findings) + 1})
				}
				s = reduce(s, u)
			}
			u, err := coverage(context.Background(), nil, s)
			if err != nil {
				t.Fatal(err)
			}
			s = reduce(s, u)
			if s.Searches > s.Max || s.Rounds != round || round > mostRounds {
				t.Fatalf("round %d: %+v", round, s)
			}
		}
	})
}

func TestCoverage(t *testing.T) {
	one, two := Finding{Direction: "1", Path: "a", Line: 1}, Finding{Direction: "1", Path: "b", Line: 1}
	for _, tc := range []struct {
		name string
		s    State
		want bool
	}{
		{"little is known", State{Max: 6, Searches: 3, Checked: 2, Findings: []Finding{one}}, false},
		{"two sources speak of it", State{Max: 6, Searches: 3, Checked: 2, Findings: []Finding{one, two}}, true},
		{"one source says two things", State{Max: 6, Searches: 3, Checked: 2, Findings: []Finding{one, {Direction: "1", Path: "a", Line: 2}}}, false},
		{"the budget is spent", State{Max: 6, Searches: 6, Checked: 2}, true},
		{"nobody searched", State{Max: 6, Searches: 3, Checked: 3}, true},
		{"enough rounds", State{Max: 20, Searches: 10, Checked: 9, Rounds: mostRounds - 1}, true},
	} {
		tc.s.Directions = []Direction{{Key: "1"}}
		u, err := coverage(context.Background(), nil, tc.s)
		if err != nil || u.Enough != tc.want || u.Rounds != 1 || u.Checked != tc.s.Searches {
			t.Errorf("%s: %+v, %v", tc.name, u, err)
		}
	}
}
