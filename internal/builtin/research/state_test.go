package research

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func at(direction, path string, line int, text string) finding {
	return finding{Direction: direction, Passage: Passage{Path: path, Start: line, End: line, Text: text}}
}

func TestReduce(t *testing.T) {
	long := at("1", "a", 3, "x\ny\nz")
	long.End = 5
	also, copied := at("1", "a", 1, "x"), at("1", "a", 1, "x")
	also.Also, copied.Copies = []string{"2"}, []string{"b:7"}
	for _, tc := range []struct {
		name string
		in   []update
		want state
	}{
		{"the same line twice: the first is kept", []update{{Findings: []finding{at("1", "a", 1, "x")}}, {Findings: []finding{at("1", "a", 1, "y")}}}, state{Findings: []finding{at("1", "a", 1, "x")}}},
		{"for another direction: it counts for both", []update{{Findings: []finding{at("1", "a", 1, "x"), at("2", "a", 1, "y"), at("2", "a", 1, "z")}}}, state{Findings: []finding{also}}},
		{"for the question itself: it counts for the direction", []update{{Findings: []finding{at("1", "a", 1, "x"), at("", "a", 1, "y")}}}, state{Findings: []finding{at("1", "a", 1, "x")}}},
		{"another line is another source", []update{{Findings: []finding{at("1", "a", 1, "x"), at("1", "a", 2, "w")}}}, state{Findings: []finding{at("1", "a", 1, "x"), at("1", "a", 2, "w")}}},
		{"lines in common are not", []update{{Findings: []finding{long, at("1", "a", 5, "z"), at("1", "a", 6, "w")}}}, state{Findings: []finding{long, at("1", "a", 6, "w")}}},
		{"a copy is no further source", []update{{Findings: []finding{at("1", "a", 1, "x"), at("1", "b", 7, "x"), at("1", "b", 7, "x")}}}, state{Findings: []finding{copied}}},
		{"a page twice, with a part of the quote", []update{{Findings: []finding{at("1", "https://a", 0, "one two"), at("1", "https://a", 0, "two"), at("1", "https://a", 0, "three")}}},
			state{Findings: []finding{at("1", "https://a", 0, "one two"), at("1", "https://a", 0, "three")}}},
		{"directions by key", []update{{Directions: []direction{{Key: "1", Topic: "t", Searched: []string{"q"}}}}, {Directions: []direction{{Key: "1", Searched: []string{"r"}}, {Key: "2"}}}},
			state{Directions: []direction{{Key: "1", Topic: "t", Searched: []string{"q", "r"}}, {Key: "2"}}}},
		{"counters", []update{{Searches: 2, Checked: 2, Dropped: 1}, {Searches: 1, Rounds: 1, Dropped: 2, Enough: true}, {Brief: "b"}},
			state{Searches: 3, Checked: 2, Rounds: 1, Dropped: 3, Enough: true, Brief: "b"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var s state
			for _, u := range tc.in {
				s = reduce(s, u)
			}
			if diff := cmp.Diff(tc.want, s, cmp.Comparer(func(a, b []direction) bool { return fmt.Sprint(a) == fmt.Sprint(b) }), cmp.Comparer(func(a, b []finding) bool { return fmt.Sprint(a) == fmt.Sprint(b) })); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// An update changes no state but the one it makes: others may hold the one before.
func TestReduceShares(t *testing.T) {
	s := state{Directions: []direction{{Key: "1"}}, Findings: []finding{at("1", "a", 1, "x")}}
	before := fmt.Sprint(s)
	reduce(s, update{Directions: []direction{{Key: "1", Searched: []string{"q"}}}, Findings: []finding{at("2", "a", 1, "x")}})
	if after := fmt.Sprint(s); after != before {
		t.Errorf("%s became %s", before, after)
	}
	s.Findings[0].Also = append(make([]string, 0, 8), "2")
	one := reduce(s, update{Findings: []finding{at("3", "a", 1, "x")}})
	reduce(s, update{Findings: []finding{at("4", "a", 1, "x")}})
	if got := one.Findings[0].Also[1]; got != "3" {
		t.Errorf("a state has %q of another", got)
	}
}

// The shares of a round are fair, go to directions that need them, the same every time,
// and never add up to more than what is left.
func TestAssign(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := state{Max: rapid.IntRange(2, 20).Draw(t, "budget"), Rounds: rapid.IntRange(0, mostRounds-1).Draw(t, "rounds")}
		s.Searches = rapid.IntRange(0, s.Max).Draw(t, "searches")
		for i := range rapid.IntRange(1, mostDirections).Draw(t, "directions") {
			d := direction{Key: key(i, "topic")}
			s.Directions = append(s.Directions, d)
			for n := range rapid.IntRange(0, 5).Draw(t, "findings") {
				s.Findings = append(s.Findings, at(d.Key, fmt.Sprint("f", n%2), n+1, fmt.Sprint(n)))
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
			if i > 0 && len(s.sources(sends[i-1].Key)) > len(s.sources(x.Key)) {
				t.Fatalf("%s comes after one with more sources", x.Key)
			}
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
		s := state{Max: rapid.IntRange(2, 20).Draw(t, "budget")}
		for i := range rapid.IntRange(1, mostDirections).Draw(t, "directions") {
			s.Directions = append(s.Directions, direction{Key: key(i, "topic")})
		}
		s = reduce(s, update{Searches: min(2, s.Max-1), Checked: min(2, s.Max-1)})
		for round := 1; ; round++ {
			sends := assign(s)
			if sends[0].To == "synthesizer" {
				return
			}
			for _, x := range sends {
				a := x.Arg.(assignment)
				u := update{Searches: rapid.IntRange(0, a.Searches).Draw(t, "searches")}
				for range rapid.IntRange(0, 2).Draw(t, "findings") {
					u.Findings = append(u.Findings, at(x.Key, "f", len(s.Findings)+len(u.Findings)+1, fmt.Sprint(len(s.Findings)+len(u.Findings))))
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
	one, two := at("1", "a", 1, "x"), at("1", "b", 1, "x")
	for _, tc := range []struct {
		name string
		s    state
		want bool
	}{
		{"little is known", state{Max: 6, Searches: 3, Checked: 2, Findings: []finding{one}}, false},
		{"two sources speak of it", state{Max: 6, Searches: 3, Checked: 2, Findings: []finding{one, two}}, true},
		{"one source says two things", state{Max: 6, Searches: 3, Checked: 2, Findings: []finding{one, at("1", "a", 2, "x")}}, false},
		{"the budget is spent", state{Max: 6, Searches: 6, Checked: 2}, true},
		{"nobody searched", state{Max: 6, Searches: 3, Checked: 3}, true},
		{"enough rounds", state{Max: 20, Searches: 10, Checked: 9, Rounds: mostRounds - 1}, true},
	} {
		tc.s.Directions = []direction{{Key: "1"}}
		u, err := coverage(context.Background(), nil, tc.s)
		if err != nil || u.Enough != tc.want || u.Rounds != 1 || u.Checked != tc.s.Searches {
			t.Errorf("%s: %+v, %v", tc.name, u, err)
		}
	}
}
