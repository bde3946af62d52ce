package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type place struct {
	City string   `json:"city" jsonschema:"name of the city"`
	Days int      `json:"days,omitempty"`
	Tags []string `json:"tags,omitempty"`
	Geo  *geo     `json:"geo,omitempty"`
}

type geo struct {
	Lat float64 `json:"lat"`
	Lon float64 `json:"lon"`
}

func weather(t testing.TB) *tool.Set {
	t.Helper()
	w, err := tool.New("weather", "Say the weather.", func(_ context.Context, in place) (place, error) { return in, nil }, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := tool.NewSet(w)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func call(s *tool.Set, name, args string) tool.Result {
	return s.Call(context.Background(), name, &tool.Call{ID: "1", Args: json.RawMessage(args)})
}

func TestArguments(t *testing.T) {
	s := weather(t)
	for _, tc := range []struct {
		name, args, want string
		bad              []string
	}{
		{name: "fits", args: `{"city":"Oslo","days":2,"tags":["a"],"geo":{"lat":1,"lon":2.5}}`,
			want: `{"city":"Oslo","days":2,"tags":["a"],"geo":{"lat":1,"lon":2.5}}`},
		{name: "a whole number may be written with a fraction", args: `{"city":"Oslo","days":2.0}`, want: `{"city":"Oslo","days":2}`},
		{name: "or an exponent", args: `{"city":"Oslo","days":2e1}`, want: `{"city":"Oslo","days":20}`},
		{name: "missing", args: `{}`, bad: []string{"/city: missing"}},
		{name: "no arguments at all", args: ``, bad: []string{"/city: missing"}},
		{name: "every fault", args: `{"days":"2","tags":["a",1],"geo":{"lat":1},"citi":"x"}`,
			bad: []string{"/city: missing", "/days: is the string \"2\", want integer", "/tags/1: is 1, want string", "/geo/lon: missing", `/citi: unknown; did you mean "city"?`}},
		{name: "case", args: `{"City":"Oslo"}`, bad: []string{"/City: unknown", "/city: missing"}},
		{name: "twice", args: `{"city":"Oslo","city":"Rome"}`, bad: []string{"/city: given twice"}},
		{name: "twice, spelled differently", args: `{"city":"Oslo","c\u0069ty":"Rome"}`, bad: []string{"/city: given twice"}},
		{name: "twice, deep", args: `{"city":"Oslo","geo":{"lat":1,"lon":2,"lat":3}}`, bad: []string{"/geo/lat: given twice"}},
		{name: "no coercion", args: `{"city":5}`, bad: []string{"/city: is 5, want string"}},
		{name: "fraction", args: `{"city":"Oslo","days":1.5}`, bad: []string{"/days: is 1.5, want integer"}},
		{name: "not an object", args: `[1]`, bad: []string{"must be a JSON object, not an array"}},
		{name: "two values", args: `{"city":"Oslo"}{}`, bad: []string{"more data"}},
		{name: "half", args: `{"city":`, bad: []string{"not valid JSON"}},
		{name: "bomb", args: `{"city":"Oslo","days":1e999999999}`, bad: []string{"/days: number out of range"}},
		{name: "tiny bomb", args: `{"city":"Oslo","days":1e-999999999}`, bad: []string{"/days: number out of range"}},
		{name: "too large", args: `{"city":"Oslo","days":99999999999999999999}`, bad: []string{"days"}},
		{name: "deep", args: `{"city":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`, bad: []string{"nested more than"}},
		{name: "UTF-8", args: "{\"city\":\"\xff\"}", bad: []string{"UTF-8"}},
		{name: "pointer escapes", args: `{"city":"Oslo","a/b~":1}`, bad: []string{"/a~1b~0: unknown"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := call(s, "weather", tc.args)
			if r.Error != (tc.bad != nil) {
				t.Fatalf("error %v: %s", r.Error, r.Text)
			}
			for _, b := range tc.bad {
				if !strings.Contains(r.Text, b) {
					t.Errorf("got %q\nwant it to say %q", r.Text, b)
				}
			}
			if tc.bad == nil && r.Text != tc.want {
				t.Errorf("got %s want %s", r.Text, tc.want)
			}
		})
	}
}

func TestSchema(t *testing.T) {
	w, _ := weather(t).Get("weather")
	b, err := json.Marshal(w.Input)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	city := got["properties"].(map[string]any)["city"]
	if diff := cmp.Diff(map[string]any{"type": "string", "description": "name of the city"}, city); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]any{"city"}, got["required"]); diff != "" {
		t.Error(diff)
	}
}

func TestSchemaBeyondStructs(t *testing.T) {
	raw := &tool.Tool{
		Name: "raw", Input: &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{
			"mode": {Enum: []any{"a", "b"}},
			"n":    {Type: "integer", Minimum: jsonschema.Ptr(1.0), Maximum: jsonschema.Ptr(3.0)},
			"x":    {OneOf: []*jsonschema.Schema{{Type: "string"}, {Type: "boolean"}}},
		}},
		Run: func(_ context.Context, c *tool.Call) (string, error) { return string(c.Args), nil },
	}
	s, err := tool.NewSet(raw)
	if err != nil {
		t.Fatal(err)
	}
	r := call(s, "raw", `{"mode":"c","n":4}`)
	for _, want := range []string{`/mode: is the string "c", want one of "a", "b"`, "/n: is 4, want at most 3"} {
		if !strings.Contains(r.Text, want) {
			t.Errorf("got %q, want %q", r.Text, want)
		}
	}
	if r := call(s, "raw", `{"x":1}`); !r.Error {
		t.Error("oneOf was not checked")
	}
	if r := call(s, "raw", `{"x":true,"free":[1]}`); r.Error || r.Text != `{"x":true,"free":[1]}` {
		t.Errorf("got %+v", r)
	}
}

func TestNewSetReportsEveryMistake(t *testing.T) {
	ok := func(context.Context, *tool.Call) (string, error) { return "", nil }
	object := &jsonschema.Schema{Type: "object"}
	_, err := tool.NewSet(
		&tool.Tool{Name: "bad name", Run: ok, Input: object},
		&tool.Tool{Name: "idle", Input: object},
		nil,
		&tool.Tool{Name: "twice", Run: ok, Input: object},
		&tool.Tool{Name: "twice", Run: ok, Input: object},
		&tool.Tool{Name: "bare", Run: ok},
		&tool.Tool{Name: "list", Run: ok, Input: &jsonschema.Schema{Type: "array"}},
		&tool.Tool{Name: "remote", Run: ok, Input: &jsonschema.Schema{Type: "object", Ref: "https://example.com/s.json"}},
		&tool.Tool{Name: "odd", Run: ok, Input: object, Effect: "sometimes"},
		&tool.Tool{Name: "newline\n", Run: ok, Input: object},
	)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		`"bad name": bad name`, `"idle": has no function`, `tool 3 of 10: is nil`, `"twice": given twice`, `"bare": has no input schema`,
		`"list": has an input schema that is not`, `"remote": has an invalid input schema`, `"odd": unknown effect "sometimes"`, `"newline\n": bad name`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error does not say %s:\n%v", want, err)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	if _, err := tool.New[place, string]("x", "", nil, nil); err == nil {
		t.Error("nil function accepted")
	}
	if _, err := tool.New("x", "", func(context.Context, func()) (string, error) { return "", nil }, nil); err == nil {
		t.Error("func arguments accepted")
	}
	if _, err := tool.New("x", "", func(context.Context, int) (string, error) { return "", nil }, nil); err == nil {
		t.Error("int arguments accepted")
	}
}

func TestCall(t *testing.T) {
	type none struct{}
	mk := func(name string, f func(context.Context, none) (string, error)) *tool.Tool {
		w, err := tool.New(name, "", f, nil)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	keyed, err := tool.NewRaw("keyed", "", func(_ context.Context, c *tool.Call, _ none) (string, error) { return c.Key, nil }, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := tool.NewSet(
		mk("fine", func(context.Context, none) (string, error) { return "plain \x1b[31mred\x1b[0m", nil }),
		mk("fails", func(context.Context, none) (string, error) { return "", errors.New("disk is on fire") }),
		mk("panics", func(context.Context, none) (string, error) { panic("oh no") }),
		mk("long", func(context.Context, none) (string, error) { return strings.Repeat("x\n", 10000), nil }),
		keyed,
	)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]tool.Result{
		"fine":   {Text: "plain red"},
		"fails":  {Text: "disk is on fire", Error: true},
		"panics": {Text: "tool panics panicked: oh no", Error: true},
		"fales":  {Text: `no tool "fales"; did you mean "fails"? the tools are: fine, fails, panics, long, keyed`, Error: true},
	} {
		if got := call(s, name, ""); got != want {
			t.Errorf("%s: got %+v want %+v", name, got, want)
		}
	}
	if s, err = s.With(mk("web_search", func(context.Context, none) (string, error) { return "", nil })); err != nil {
		t.Fatal(err)
	}
	if got := call(s, "tavily_search", ""); !strings.HasPrefix(got.Text, `no tool "tavily_search"; did you mean "web_search"? `) {
		t.Error(got)
	}
	if r := call(s, "long", "{}"); strings.Count(r.Text, "\n") >= clean.MaxLines || !strings.Contains(r.Text, "truncated") {
		t.Errorf("not truncated: %d bytes", len(r.Text))
	}
	if r := s.Call(context.Background(), "keyed", &tool.Call{Key: "k1"}); r.Text != "k1" {
		t.Errorf("key: %+v", r)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if r := s.Call(ctx, "fine", &tool.Call{}); !r.Error {
		t.Error("called after the context ended")
	}
	if r := (*tool.Set)(nil).Call(context.Background(), "x", nil); !r.Error || !strings.Contains(r.Text, "there are no tools") {
		t.Errorf("nil set: %+v", r)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { call(s, "fine", `{"x":1}`) })
	}
	wg.Wait()
}

func TestSelect(t *testing.T) {
	s := weather(t)
	sub, err := s.Select("weather")
	if err != nil || cmp.Diff([]string{"weather"}, sub.Names()) != "" || len(sub.Tools()) != 1 {
		t.Fatal(sub, err)
	}
	_, err = s.Select("wether", "weather", "weather", "rain")
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{`did you mean "weather"`, `"weather": named twice`, `no tool "rain"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

// A tool is replaced in its place, and its set keeps its guard.
func TestWith(t *testing.T) {
	t.Parallel()
	named := func(name, says string) *tool.Tool {
		one, err := tool.New(name, says, func(context.Context, struct{}) (string, error) { return says, nil }, nil)
		if err != nil {
			t.Fatal(err)
		}
		return one
	}
	s, err := tool.NewSet(named("a", "old"), named("b", "b"))
	if err != nil {
		t.Fatal(err)
	}
	s = s.Guarded(tool.Guard{Headless: true})
	more, err := s.With(named("a", "new"), named("c", "c"))
	if err != nil || cmp.Diff([]string{"a", "b", "c"}, more.Names()) != "" || !more.Guard().Headless {
		t.Fatal(more, err)
	}
	if res := more.Call(t.Context(), "a", &tool.Call{}); res.Text != "new" {
		t.Error(res)
	}
	if res := s.Call(t.Context(), "a", &tool.Call{}); res.Text != "old" {
		t.Error(res)
	}
	if _, err := s.With(nil); err == nil {
		t.Error("nil passes")
	}
}

func TestTruncate(t *testing.T) {
	for _, same := range []string{"", "x", "x\n", strings.Repeat("x\n", clean.MaxLines), strings.Repeat("x", clean.MaxBytes)} {
		if got, cut := clean.Truncate(same); cut || got != same {
			t.Errorf("cut a text of %d bytes", len(same))
		}
	}
	got, cut := clean.Truncate(strings.Repeat("x\n", clean.MaxLines+1))
	if !cut || !strings.Contains(got, "2 of 2001 lines left out") {
		t.Errorf("%v %q", cut, got[len(got)-200:])
	}
	if got, cut := clean.Truncate(strings.Repeat("x", clean.MaxBytes+1)); !cut || !strings.Contains(got, " of 50001 bytes left out; ") {
		t.Errorf("%v %q", cut, got[len(got)-200:])
	}
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.StringOfN(rapid.RuneFrom([]rune{'a', '\n', 'é', '世', '🙂', ' '}), 1, 40, -1).Draw(t, "unit")
		s := strings.Repeat(unit, rapid.IntRange(0, 60000/len(unit)+3000).Draw(t, "times"))
		got, cut := clean.Truncate(s)
		lines := strings.Count(got, "\n")
		if got != "" && !strings.HasSuffix(got, "\n") {
			lines++
		}
		if len(got) > clean.MaxBytes || lines > clean.MaxLines {
			t.Fatalf("%d bytes, %d lines", len(got), lines)
		}
		if !utf8.ValidString(got) {
			t.Fatal("invalid UTF-8")
		}
		if cut {
			i := strings.LastIndex(got, "\n[truncated")
			if i < 0 || !strings.HasPrefix(s, got[:i]) {
				t.Fatal("not a prefix")
			}
		} else if got != s {
			t.Fatal("changed")
		}
	})
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ttext\n":                  "plain\ttext\n",
		"a\x1b[1;31mred\x1b[0mb":         "aredb",
		"\x1b]0;title\x07x":              "x",
		"\x1b]8;;http://e\x1b\\link":     "link",
		"\x1b]unterminated rest":         "]unterminated rest",
		"\x1b":                           "",
		"nul\x00bell\x07back\b\r\n":      "nulbellback\n",
		"bad\xffutf8":                    "bad\ufffdutf8",
		"rtl\u202eevil\u2066x\u200f":     "rtlevilx",
		"c1\u009bcsi":                    "c1csi",
		"tag\U000e0041s":                 "tags",
		"世界 é 🙂 \ufffd":                  "世界 é 🙂 \ufffd",
		"\x1b[" + strings.Repeat("1", 9): "[111111111",
	} {
		if got := clean.Text(in); got != want {
			t.Errorf("%q: got %q want %q", in, got, want)
		}
	}
}

func FuzzClean(f *testing.F) {
	f.Add("a\x1b[31mb\x1b]0;x\x07\xff\u202e")
	f.Fuzz(func(t *testing.T, s string) {
		got := clean.Text(s)
		if !utf8.ValidString(got) || clean.Text(got) != got {
			t.Fatalf("%q", got)
		}
		for _, r := range got {
			if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r <= 0x9f || r >= 0x202a && r <= 0x202e {
				t.Fatalf("%q holds %U", got, r)
			}
		}
	})
}

type fixed tool.Verdict

func (v fixed) Check(*tool.Tool, *tool.Call) tool.Verdict { return tool.Verdict(v) }

// TestGuard: the guard of a set holds whoever calls, and in the sets that are selected from it.
func TestGuard(t *testing.T) {
	calls := 0
	set, err := tool.NewSet(&tool.Tool{Name: "a", Input: &jsonschema.Schema{Type: "object"}, Run: func(context.Context, *tool.Call) (string, error) { calls++; return "done", nil }})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		decision  tool.Decision
		permitted bool
		want      string
	}{
		{tool.Allow, false, "done"}, {tool.Allow, true, "done"}, {tool.Deny, false, "denied: why"}, {tool.Deny, true, "denied: why"},
		{tool.Ask, false, "the user was not asked: why"}, {tool.Ask, true, "done"}, {"", false, "the user was not asked: why"}, {"", true, "done"},
	} {
		guarded := set.Guarded(tool.Guard{Gate: fixed{Decision: c.decision, Reason: "why"}})
		selected, err := guarded.Select("a")
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []*tool.Set{guarded, selected} {
			calls = 0
			r := s.Call(t.Context(), "a", &tool.Call{Permitted: c.permitted})
			if done := c.want == "done"; !strings.HasSuffix(r.Text, c.want) || r.Error == done || (calls == 1) != done {
				t.Errorf("%+v: %+v after %d calls", c, r, calls)
			}
		}
	}
	if r := set.Call(t.Context(), "a", nil); r.Error {
		t.Errorf("the set that was guarded has changed: %+v", r)
	}
	if none := (*tool.Set)(nil); none.Guarded(tool.Guard{Gate: fixed{}}) != nil || none.Guard().Gate != nil {
		t.Error("no set")
	}
}
