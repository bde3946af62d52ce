package reduce_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/graph/reduce"
)

type level int8

type task struct {
	Name string
	Done bool
}

type plan struct {
	ID int
	stamp
	Note  string
	Steps []int
}

type stamp struct{ By string }

func (p plan) with(q plan) plan {
	if q.By != "" {
		p.By = q.By
	}
	if q.Note != "" {
		p.Note = q.Note
	}
	if q.Steps != nil {
		p.Steps = q.Steps
	}
	return p
}

type pair struct {
	A string
	B []int
}

type full struct {
	Log   []string       `reduce:"append"`
	Pairs []pair         `reduce:"append"`
	Faces []any          `reduce:"append"`
	Bytes []byte         `reduce:"append"`
	Seen  []string       `reduce:"union"`
	Tasks []task         `reduce:"merge=Name"`
	Refs  []*task        `reduce:"merge=Name"`
	Plan  []plan         `reduce:"patch=ID"`
	Plans []*plan        `reduce:"patch=ID"`
	Notes map[string]int `reduce:"merge"`
	Extra map[string]any `reduce:"deep-merge"`
	Best  level          `reduce:"max"`
	Worst float32        `reduce:"min"`
	Last  string         `reduce:"max"`
	Cost  uint16         `reduce:"sum"`
	Found bool           `reduce:"or"`
	Fine  bool           `reduce:"and"`
	Topic string         `reduce:"keep-first"`
	Phase pair           `reduce:"replace"`
	Hint  complex64      `reduce:"ifset" json:"-"`
	At    time.Time
	Any   any
	Array [2]string
	Draft []string
	Kept  int `default:"42"`
}

type update struct {
	Log   string
	Pairs []pair
	Faces []any
	Bytes []byte
	Seen  []string
	Tasks []task
	Refs  []*task
	Plan  []plan
	Plans []*plan
	Notes map[string]int
	Extra map[string]any
	Best  *level
	Worst *float32
	Last  string
	Cost  uint16
	Found bool
	Fine  *bool
	Topic string
	Phase pair
	At    time.Time
	Any   any
	Array [2]string
	Draft *[]string
	Kept  *int
}

// byHand is what the tags of full say, written by hand.
func byHand(s full, u update) full {
	if u.Log != "" {
		s.Log = append(s.Log, u.Log)
	}
	s.Pairs = reduce.Append(s.Pairs, u.Pairs)
	s.Faces = reduce.Append(s.Faces, u.Faces)
	s.Bytes = reduce.Append(s.Bytes, u.Bytes)
	s.Seen = reduce.Union(s.Seen, u.Seen)
	s.Tasks = reduce.MergeByID(s.Tasks, u.Tasks, func(t task) string { return t.Name })
	s.Refs = reduce.MergeByID(s.Refs, u.Refs, func(t *task) string { return t.Name })
	s.Notes = reduce.Merge(s.Notes, u.Notes)
	s.Extra = reduce.DeepMerge(s.Extra, u.Extra)
	s.Best = reduce.Max(s.Best, reduce.IfSet(s.Best, u.Best))
	s.Plan = reduce.MergeByIDFunc(s.Plan, u.Plan, func(p plan) int { return p.ID }, plan.with)
	s.Plans = reduce.MergeByIDFunc(s.Plans, u.Plans, func(p *plan) int { return p.ID }, func(p, q *plan) *plan { r := p.with(*q); return &r })
	s.Worst = reduce.Min(s.Worst, reduce.IfSet(s.Worst, u.Worst))
	s.Last = reduce.Max(s.Last, u.Last)
	s.Cost = reduce.Sum(s.Cost, u.Cost)
	s.Found = reduce.Or(s.Found, u.Found)
	s.Fine = reduce.And(s.Fine, reduce.IfSet(s.Fine, u.Fine))
	if s.Topic == "" {
		s.Topic = u.Topic
	}
	if u.Phase.A != "" || u.Phase.B != nil {
		s.Phase = u.Phase
	}
	if !u.At.IsZero() {
		s.At = u.At
	}
	if u.Any != nil {
		s.Any = u.Any
	}
	if u.Array != [2]string{} {
		s.Array = u.Array
	}
	if u.Draft != nil && *u.Draft != nil {
		s.Draft = *u.Draft
	}
	s.Kept = reduce.IfSet(s.Kept, u.Kept)
	return s
}

func tags[S, U any](t testing.TB) *reduce.Tagged[S, U] {
	t.Helper()
	r, err := reduce.Tags[S, U]()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func drawUpdate(t *rapid.T) update {
	name := rapid.SampledFrom([]string{"", "a", "b", "c"})
	names := rapid.SliceOfN(name, 0, 3)
	one := rapid.Custom(func(t *rapid.T) task { return task{name.Draw(t, "name"), rapid.Bool().Draw(t, "done")} })
	step := rapid.Custom(func(t *rapid.T) plan {
		return plan{ID: rapid.IntRange(0, 2).Draw(t, "id"), stamp: stamp{name.Draw(t, "by")}, Note: name.Draw(t, "note"), Steps: rapid.SliceOfN(rapid.Int(), 0, 1).Draw(t, "steps")}
	})
	u := update{
		Log: name.Draw(t, "log"), Bytes: []byte(name.Draw(t, "bytes")), Seen: names.Draw(t, "seen"),
		Tasks: rapid.SliceOfN(one, 0, 4).Draw(t, "tasks"), Plan: rapid.SliceOfN(step, 0, 4).Draw(t, "plan"), Plans: rapid.SliceOfN(rapid.Ptr(step, false), 0, 3).Draw(t, "plans"), Notes: rapid.MapOfN(name, rapid.Int(), 0, 3).Draw(t, "notes"),
		Worst: rapid.Ptr(rapid.Float32(), true).Draw(t, "worst"), Last: name.Draw(t, "last"), Cost: rapid.Uint16().Draw(t, "cost"),
		Found: rapid.Bool().Draw(t, "found"), Topic: name.Draw(t, "topic"), Array: [2]string{1: name.Draw(t, "array")},
		Kept: rapid.Ptr(rapid.Int(), true).Draw(t, "kept"), Fine: rapid.Ptr(rapid.Bool(), true).Draw(t, "fine"),
		Draft: rapid.Ptr(names, true).Draw(t, "draft"), At: time.Unix(rapid.Int64Range(0, 9).Draw(t, "at"), 0).UTC(),
	}
	if rapid.Bool().Draw(t, "more") {
		best := level(rapid.Int8().Draw(t, "best"))
		u.Best, u.Any, u.Faces = &best, best, []any{best, u.Log}
		u.Phase, u.Pairs = pair{A: u.Log, B: []int{1}}, []pair{{A: u.Log}, {B: []int{2}}}
		u.Extra = map[string]any{u.Log: map[string]any{u.Last: u.Topic}}
		for i := range u.Tasks {
			u.Refs = append(u.Refs, &u.Tasks[i])
		}
	}
	return u
}

func TestTagsDoWhatTheHandDoes(t *testing.T) {
	t.Parallel()
	r := tags[full, update](t)
	rapid.Check(t, func(t *rapid.T) {
		got, want := full{Fine: true, Kept: 100}, full{Fine: true, Kept: 100}
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			u := drawUpdate(t)
			before, _ := json.Marshal(got)
			old := got
			got, want = r.Reduce(got, u), byHand(want, u)
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("got  %+v\nwant %+v\nfor %+v", got, want, u)
			}
			if after, _ := json.Marshal(old); string(after) != string(before) {
				t.Fatalf("the older state changed:\n%s\n%s", before, after)
			}
		}
	})
}

func TestAcceptance(t *testing.T) {
	t.Parallel()
	type values struct{ A, B, C int }
	if got := tags[values, values](t).Reduce(values{1, 2, 3}, values{B: 20}); got != (values{1, 20, 3}) {
		t.Errorf("got %v", got)
	}
	type counted struct {
		N    int            `default:"42"`
		List []int          `default:"[1]"`
		Map  map[string]int `default:"{\"a\":1}"`
		Name string         `default:"plain text"`
	}
	r := tags[counted, counted](t)
	if got := r.Reduce(counted{N: 100}, counted{}); got.N != 100 || got.List != nil {
		t.Errorf("an empty update made %v", got)
	}
	one, err := r.Initial()
	two, err2 := r.Initial()
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	one.List[0], one.Map["a"] = 9, 9
	if want := (counted{42, []int{1}, map[string]int{"a": 1}, "plain text"}); !reflect.DeepEqual(two, want) {
		t.Errorf("initial %v, want %v", two, want)
	}
}

func TestWritten(t *testing.T) {
	t.Parallel()
	type s struct {
		List []int
		Map  map[string]int
		Many string `reduce:"replace"`
		N    int
	}
	type u struct {
		List []int
		Many string
		Map  *map[string]int
		N    *int
	}
	r := tags[s, u](t)
	var none map[string]int
	for _, c := range []struct {
		u    u
		want []string
	}{
		{u{}, nil},
		{u{Many: "x"}, nil},
		{u{List: []int{}, N: new(int)}, []string{"List", "N"}},
		{u{Map: &none}, nil}, // it is null in the log
		{u{Map: &map[string]int{}}, []string{"Map"}},
	} {
		if got := r.Names(r.Writes(c.u)); !slices.Equal(got, c.want) {
			t.Errorf("%+v writes %v, want %v", c.u, got, c.want)
		}
		data, err := json.Marshal(c.u)
		var back u
		if err == nil {
			err = json.Unmarshal(data, &back)
		}
		if err != nil || r.Writes(back) != r.Writes(c.u) {
			t.Errorf("%s from the log writes %v, want %v (%v)", data, r.Names(r.Writes(back)), c.want, err)
		}
	}
}

// A zero that was written counts, whatever the reducer.
func TestZeroCounts(t *testing.T) {
	t.Parallel()
	type state struct {
		Max  int    `reduce:"max"`
		Min  uint   `reduce:"min"`
		Last string `reduce:"min"`
	}
	type update struct {
		Max  *int
		Min  *uint
		Last *string
	}
	r := tags[state, update](t)
	if got := r.Reduce(state{-5, 5, "b"}, update{new(int), new(uint), new(string)}); got != (state{}) {
		t.Errorf("got %v", got)
	}
	if got := r.Reduce(state{-5, 5, "b"}, update{}); got != (state{-5, 5, "b"}) {
		t.Errorf("nothing written made %v", got)
	}
}

// A task list is brought up to date by what has changed.
func TestPatch(t *testing.T) {
	t.Parallel()
	type item struct {
		ID, Title, Status string
		Done              *bool
	}
	type state struct {
		Tasks []item `reduce:"patch=ID"`
	}
	type update struct{ Tasks item }
	r := tags[state, update](t)
	was := state{[]item{{"1", "write", "open", nil}, {"2", "test", "open", new(true)}}}
	got := r.Reduce(was, update{item{ID: "2", Status: "doing", Done: new(false)}})
	got = r.Reduce(got, update{item{ID: "3", Title: "ship"}})
	want := []item{{"1", "write", "open", nil}, {"2", "test", "doing", new(false)}, {"3", "ship", "", nil}}
	if !reflect.DeepEqual(got.Tasks, want) || was.Tasks[1].Status != "open" {
		t.Errorf("got %+v from %+v", got, was)
	}
}

func TestTagMistakes(t *testing.T) {
	t.Parallel()
	type State struct {
		Log   string         `reduce:"append"`
		Tasks []task         `reduce:"merge=Nmae"`
		Flags []task         `reduce:"merge=Done"`
		Notes []string       `reduce:"merge"`
		Sum   string         `reduce:"sum"`
		Max   bool           `reduce:"max"`
		Least string         `reduce:"min"`
		Most  int            `reduce:"max"`
		Few   uint8          `reduce:"min"`
		Many  uint8          `reduce:"max"`
		Plan  []task         `reduce:"patch"`
		Ns    []int          `reduce:"append"`
		Bools []bool         `reduce:"union"`
		Or    int            `reduce:"or"`
		Seen  [][]int        `reduce:"union"`
		Deep  map[string]int `reduce:"deep-merge"`
		Typo  []int          `reduce:"apend"`
		And   bool           `reduce:"and"`
		If    int            `reduce:"ifset"`
		Gone  int
		Empty []int
		Type  int
		List  []int `reduce:"append"`
		Dflt  []int `default:"x"`
		priv  int   `reduce:"sum"` //nolint:revive // the mistake is what is tested
	}
	type Update struct {
		Lgo   string
		And   bool
		If    int
		Gone  int   `json:"-"`
		Empty []int `json:",omitempty"`
		Type  string
		List  string
		Least string
		Most  int
		Few   uint8
		Many  uint8
		Ns    int
		Bools bool
	}
	_ = State{}.priv
	_, err := reduce.Tags[State, Update]()
	if err == nil {
		t.Fatalf("error %v", err)
	}
	want := []string{
		`State.Log: reduce:"append" needs a slice, not string`,
		`State.Tasks: reduce:"merge=Nmae": reduce_test.task has no exported field "Nmae"; did you mean "Name"?`,
		`State.Flags: reduce:"merge=Done": reduce_test.task.Done is bool; a string or an integer can identify`,
		`State.Notes: reduce:"merge" needs a map (for a slice: merge=, and the name of the field that identifies its elements), not []string`,
		`State.Sum: reduce:"sum" needs a number, not string`,
		`State.Max: reduce:"max" needs a number or a string, not bool`,
		`State.Plan: reduce:"patch" needs the name of the field that identifies its elements: patch=ID`,
		`State.Or: reduce:"or" needs a bool, not int`,
		`State.Seen: reduce:"union" needs a slice of comparable elements, not [][]int`,
		`State.Deep: reduce:"deep-merge" needs a map[string]any, not map[string]int`,
		`State.Typo: reduce:"apend" is not known; did you mean "append"?`,
		`State.Dflt: default:"x" does not decode into []int: invalid character 'x' looking for beginning of value`,
		`State.priv has tags but is not exported`,
		`Update.Lgo: State has no field of that name; did you mean "Log"?`,
		`Update.And: false would mean that it is not written, and true changes nothing; make it a *bool`,
		`Update.If: reduce:"ifset" wants a *int`,
		`Update.Gone: json:"-" keeps it out of the log, and a resumed run would do without it`,
		`Update.Empty: omitempty keeps an empty one out of the log, and nil is not the same here; use omitzero`,
		`Update.Type is string; State.Type wants int or a pointer to it`,
		`Update.List is string; State.List wants []int, a pointer to it, or one int`,
		`Update.Least: "" would mean that it is not written, and so never be the least; make it a *string`,
		`Update.Most: 0 would mean that it is not written, and so get lost; make it a *int, in an update type of its own if the state has the same type`,
		`Update.Few: 0 would mean that it is not written, and so get lost; make it a *uint8, in an update type of its own if the state has the same type`,
		`Update.Ns: 0 would mean that it is not written, and so get lost; make it a []int`,
		`Update.Bools: false would mean that it is not written, and so get lost; make it a []bool`,
	}
	if all := "State and Update have 25 mistakes:\n  - " + strings.Join(want, "\n  - "); err.Error() != all {
		t.Errorf("got:\n%v\nwant:\n%s", err, all)
	}

	_, err = reduce.Tags[int, *Update]()
	if err == nil || !strings.Contains(err.Error(), "the state is int") || !strings.Contains(err.Error(), "the update is *reduce_test.Update") {
		t.Errorf("error %v", err)
	}
	type Raw struct{ Raw json.RawMessage }
	if _, err = reduce.Tags[Raw, Raw](); err == nil || !strings.HasPrefix(err.Error(), "Raw.Raw: an update that does not write it comes back") {
		t.Errorf("error %v", err)
	}
	type RawZero struct {
		Raw json.RawMessage `json:",omitempty"`
	}
	if _, err = reduce.Tags[Raw, RawZero](); err != nil {
		t.Error(err)
	}
}

func TestReduceAllocatesLittle(t *testing.T) {
	type values struct {
		A, B string
		N    int      `reduce:"sum"`
		Log  []string `reduce:"append"`
		Big  [32]string
	}
	r := tags[values, values](t)
	s, u := values{Log: make([]string, 0, 1000)}, values{A: "a", N: 1, Log: []string{"x"}}
	// The state and the update are copied once for each of the two calls, whatever they hold.
	if n := testing.AllocsPerRun(100, func() { s = r.Reduce(s, u); _ = r.Writes(u) }); n > 5 {
		t.Errorf("%v allocations", n)
	}
}
