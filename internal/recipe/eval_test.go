package recipe_test

import (
	"encoding/json"
	"errors"
	"math"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/recipe"
)

// within gives the recipe of a step with a template or a condition that sees all there is.
func within(t testing.TB, field, text string) *recipe.Recipe {
	t.Helper()
	quoted, _ := json.Marshal(text)
	r, ps := recipe.Parse("r.yaml", []byte(`name: r
inputs: [topic, empty, {name: n, type: integer}, {name: list, type: list}, {name: obj, type: object}, {name: huge, type: list}, big]
steps:
  - {id: done, tool: t}
  - {id: step-a, tool: t}
  - {id: bad, tool: t}
  - {id: slow, tool: t}
  - {id: skipped, tool: t}
  - id: each
    depends_on: [done, step-a, bad, slow, skipped]
    foreach:
      in: "{{inputs.list}}"
      steps:
        - id: again
          loop:
            max: 2
            steps:
              - {id: x, tool: t, `+field+`: `+string(quoted)+`}
`))
	if r == nil {
		t.Fatalf("%s: %v", text, ps)
	}
	return r
}

func innermost(r *recipe.Recipe) *recipe.Step {
	return r.Steps[5].Foreach.Steps[0].Loop.Steps[0]
}

func scope() *recipe.Scope {
	results := map[string]*recipe.Result{
		"done":    {Status: recipe.Done, Output: json.RawMessage(`{"items":[{"title":"one"},{"title":"two"}],"n":3,"f":1.50,"big":12345678901234567890,"html":"<b>&","null":null,"{{x}}":1}`)},
		"step-a":  {Status: recipe.Done, Output: json.RawMessage(`"literal {{inputs.topic}} \\{{"`)},
		"bad":     {Status: recipe.Failed, Output: json.RawMessage(`"Error: step 'bad' failed: boom"`), Error: "boom"},
		"slow":    {Status: recipe.Degraded, Output: json.RawMessage(`{"a":1}`)},
		"skipped": {Status: recipe.Skipped},
	}
	huge := make([]any, 3000)
	for i := range huge {
		huge[i] = i
	}
	return &recipe.Scope{
		Inputs: map[string]any{"topic": "tea", "empty": "", "n": 7, "list": []any{1, "b", 2.5}, "obj": map[string]any{"a": map[string]any{"b": "c"}}, "huge": huge, "big": strings.Repeat("aB ", 100_000)},
		Step:   func(id string) (*recipe.Result, bool) { r, ok := results[id]; return r, ok },
		Vars:   map[string]any{"item": map[string]any{"name": "it", "tags": []any{"x", "y"}}, "index": 2, "loop": map[string]any{"round": 1, "output": nil}},
	}
}

func TestRender(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ template, want, fails string }{
		{"plain", "plain", ""},
		{"", "", ""},
		{"{{inputs.topic}}", "tea", ""},
		{"a{{ inputs.topic }}b{{\tinputs.n\n}}c", "ateab7c", ""},
		{"{{inputs.list}} {{inputs.list.1}} {{inputs.obj.a.b}}", `[1,"b",2.5] b c`, ""},
		{"{{steps.done.output.items.1.title}}", "two", ""},
		{"{{steps.done.output.items.0}}", `{"title":"one"}`, ""},
		{"{{steps.done.output.html}}{{steps.done.output.null}}|{{steps.done.output.null.below}}", "<b>&|", ""},
		{"{{steps.done.output.f}} {{steps.done.output.big}}", "1.50 12345678901234567890", ""},
		{"{{steps.step-a.output}}", `literal {{inputs.topic}} \{{`, ""},
		{"{{steps.bad.output}} / {{steps.bad.output.some.field}} / {{steps.bad.status}} / {{steps.bad.error}}", "Error: step 'bad' failed: boom / Error: step 'bad' failed: boom / failed / boom", ""},
		{"{{steps.slow.output.a}} {{steps.slow.output.b}} {{steps.slow.status}}", `1 {"a":1} degraded`, ""},
		{"[{{steps.skipped.output}}{{steps.skipped.output.x}}] {{steps.skipped.status}}", "[] skipped", ""},
		{"{{item.name}} {{item.tags.0}} {{index}} {{loop.round}} {{loop.output.text}}!", "it x 2 1 !", ""},
		{`\{{inputs.topic}} \\{{ {x} } }}`, `{{inputs.topic}} \{{ {x} } }}`, ""},
		{"{{steps.done.output.nope}}", "", "steps.done.output has no nope; there is big, f, html, items, n, null, {{x}}"},
		{"{{steps.done.output.items.2}}", "", "it is a list of 2"},
		{"{{steps.done.output.n.x}}", "", "it is a number"},
		{"{{inputs.topic.x}}", "", "it is a text"},
		{"{{inputs.list.-1}}", "", "it is a list of 3"},
		{"{{item.nope}}", "", "item has no nope; there is name, tags"},
	} {
		text, err := template(t, c.template).Render(scope())
		var lookup *recipe.LookupError
		switch {
		case c.fails == "" && (err != nil || text != c.want):
			t.Errorf("%q: %q, %v; want %q", c.template, text, err, c.want)
		case c.fails != "" && (!errors.As(err, &lookup) || !strings.Contains(err.Error(), c.fails)):
			t.Errorf("%q: %q, %v; want an error with %q", c.template, text, err, c.fails)
		}
	}
}

// template is a template that sees all there is.
func template(t testing.TB, text string) *recipe.Template {
	t.Helper()
	r := within(t, "gate: {message: x}, timeout: 1s, when", "true && true")
	raw, _ := json.Marshal(text)
	src := strings.Replace(string(r.Source), `{message: x}`, `{message: `+string(raw)+`}`, 1)
	r, ps := recipe.Parse("t.yaml", []byte(src))
	if r == nil {
		t.Fatalf("%q: %v", text, ps)
	}
	return innermost(r).Gate.Message
}

func TestResolve(t *testing.T) {
	t.Parallel()
	r, ps := recipe.Parse("r.yaml", []byte(`name: r
inputs: [topic, empty, {name: n, type: integer}, {name: list, type: list}, {name: obj, type: object}]
steps: [{id: done, tool: t}, {id: x, tool: t, depends_on: [done], args: {
  text: "{{inputs.topic}}", n: "{{inputs.n}}", list: "{{inputs.list}}", mixed: "n={{inputs.n}}", spaced: "{{inputs.n}} ", item: "{{steps.done.output.items.0}}",
  deep: [{a: "{{inputs.obj}}"}, 1, 2.5, true, null, "x"], "{{inputs.topic}}": k}}]
`))
	if r == nil {
		t.Fatal(ps)
	}
	s := scope()
	v, err := r.Steps[1].Tool.Args.Resolve(s)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"text": "tea", "n": 7, "list": []any{1, "b", 2.5}, "mixed": "n=7", "spaced": "7 ", "item": map[string]any{"title": "one"},
		"deep": []any{map[string]any{"a": map[string]any{"a": map[string]any{"b": "c"}}}, 1, 2.5, true, nil, "x"}, "{{inputs.topic}}": "k",
	}
	if d := cmp.Diff(want, v); d != "" {
		t.Error(d)
	}
	v.(map[string]any)["list"].([]any)[0] = "changed"
	v.(map[string]any)["deep"].([]any)[0].(map[string]any)["a"].(map[string]any)["a"].(map[string]any)["b"] = "changed"
	if d := cmp.Diff(scope().Inputs, s.Inputs); d != "" {
		t.Errorf("the scope has changed: %s", d)
	}
	if refs := r.Steps[1].Tool.Args.Refs(); len(refs) != 7 || refs[0].Input() != "topic" || refs[5].Step() != "done" {
		t.Errorf("refs %v", refs)
	}
}

func TestRenderIsBounded(t *testing.T) {
	t.Parallel()
	s := scope()
	s.Inputs["topic"] = strings.Repeat("x", 1<<20)
	if _, err := template(t, strings.Repeat("{{inputs.topic}}", 1000)).Render(s); err == nil || !strings.Contains(err.Error(), "{{inputs.topic}}: with these 1.0 MiB the whole is over its limit of 1 MiB") {
		t.Errorf("1 GiB: %v", err)
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]any{
		"": nil, "null": nil, "3": 3, "-0": 0, "3.0": 3.0, strconv.Itoa(math.MaxInt): math.MaxInt, "9223372036854775808": 9223372036854775808.0, `"a"`: "a", `[1,{"a":2}]`: []any{1, map[string]any{"a": 2}},
	} {
		got, err := recipe.Decode(json.RawMessage(raw))
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("%s: %v %s", raw, err, d)
		}
	}
	for _, raw := range []string{"1 2", "{", "1e999", "nope"} {
		if v, err := recipe.Decode(json.RawMessage(raw)); err == nil {
			t.Errorf("%s: %v", raw, v)
		}
	}
}

func TestHolds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		condition string
		want      bool
		fails     string
	}{
		{`inputs.topic == "tea"`, true, ""},
		{`inputs.n > 6 and inputs.n <= 7.0 && not (inputs.n < 7)`, true, ""},
		{`steps["step-a"].output contains "literal"`, true, ""},
		{`steps.done.output.items[1].title == "two"`, true, ""},
		{`steps.done.output.items[-1].title startsWith "t"`, true, ""},
		{`steps.done.output?.nope?.deeper == nil`, true, ""},
		{`(steps.skipped.output?.x ?? "none") == "none"`, true, ""},
		{`steps.skipped.output == nil && steps.skipped.status == "skipped"`, true, ""},
		{`steps.bad.status == "failed" && steps.bad.error == "boom"`, true, ""},
		{`any(steps.done.output.items, .title == "one")`, true, ""},
		{`all(inputs.list, # != 3) && none(inputs.list, # == 3) && one(inputs.list, # == 1)`, true, ""},
		{`count(inputs.list, # != 1) == 2 && len(filter(inputs.list, # == 1)) == 1`, true, ""},
		{`map(steps.done.output.items, .title) == ["one", "two"]`, true, ""},
		{`find(steps.done.output.items, .title == "two").title == "two"`, true, ""},
		{`sum([1, 2, 3.5]) == 6.5 && min(3, 1) == 1 && max([1, 9, [2]]) == 9`, true, ""},
		{`first(inputs.list) == 1 && last(inputs.list) == 2.5 && first([]) == nil`, true, ""},
		{`upper("a") + lower("B") == "Ab" && trim(" x ") == "x"`, true, ""},
		{`join(split("a,b", ","), "-") == "a-b"`, true, ""},
		{`hasPrefix("abc", "a") && hasSuffix("abc", "c")`, true, ""},
		{`int("3") == 3 && float("1.5") == 1.5 && string(3) == "3" && string([1, "a"]) == "[1,\"a\"]"`, true, ""},
		{`keys({b: 1, a: 2}) == ["a", "b"] && values({b: 1, a: 2}) == [2, 1]`, true, ""},
		{`"a" in ["a"] && "a" in {a: 1} && not ("b" in ["a"])`, true, ""},
		{`inputs.topic matches "^t.a$"`, true, ""},
		{`len("é") == 1 && inputs.obj == {a: {b: "c"}}`, true, ""},
		{`let x = inputs.n; x * 2 == 14`, true, ""},
		{`inputs.n > 5 ? true : false`, true, ""},
		{`if inputs.n > 5 { true } else { false }`, true, ""},
		{`inputs.list | filter(# == 1) | len() == 1`, true, ""},
		{`7 in 1..10 && len(1..3) == 3 && len(3..1) == 0`, true, ""},
		{`inputs.list[0:2] == [1, "b"] && inputs.topic[1:] == "ea"`, true, ""},
		{`item.name == "it" && index == 2 && loop.round == 1 && loop.output == nil`, true, ""},
		{`7 / 2 == 3.5 && 7 % 2 == 1 && 2 ** 3 == 8 && -inputs.n == -7`, true, ""},
		{`steps.done.output.items[0].title == ["one"] || steps.done.output.items == "one"`, false, ""},
		{`[1] == [1, 2] || [1, 2] == [1, 3] || steps.done.output.items == {a: 1} || [[1], "x"] == [[2], "x"]`, false, ""},
		{`steps.done.output == [1] || inputs.obj == "a" || inputs.obj == {a: {b: "c"}, d: 1}`, false, ""},
		{`inputs.obj == {x: {b: "c"}} || inputs.obj == {a: {b: "d"}} || inputs.n == steps.done.output.items`, false, ""},
		{`false and steps.bad.output.x`, false, ""},
		{`inputs.empty != ""`, false, ""},

		{`inputs.topic`, false, "gives a text, and must give true or false"},
		{`steps.bad.output.score > 1`, false, "a text has no score"},
		{`steps.skipped.output.x == 1`, false, "write ?. to go on"},
		{`inputs.topic > 1`, false, "no order"},
		{`inputs.n + inputs.topic == ""`, false, "a number + a text: that is only for numbers"},
		{`1 % (inputs.n - 7) == 0`, false, "divide"},
		{`filter(inputs.topic, true) == []`, false, "filter needs a list"},
		{`inputs.list[9] == 1`, false, "out of range"},
		{`all(inputs.list, #)`, false, "needs a condition"},
		{`int(inputs.topic) == 1`, false, "no whole number"},
	} {
		c.condition = strings.TrimSpace(c.condition)
		got, err := innermost(within(t, "when", c.condition)).When.Holds(scope())
		switch {
		case c.fails == "" && (err != nil || got != c.want):
			t.Errorf("%s: %v, %v; want %v", c.condition, got, err, c.want)
		case c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)):
			t.Errorf("%s: %v, %v; want an error with %q", c.condition, got, err, c.fails)
		}
	}
}

// No condition takes long or needs much, whatever it is written like.
func TestHoldsIsBounded(t *testing.T) {
	lets := "let a = inputs.big; let b = a + a; let c = b + b; let d = c + c; let e = d + d; let f = e + e; let g = f + f; let h = g + g; let i = h + h; len(i) > 0"
	const most = 20 << 20    // bytes: 16 MiB of values, and what decoding them takes
	limit := 1 * time.Second // of processor time, ten times of what they take alone
	if faults.Raced {
		limit *= 5
	}
	for _, c := range []string{
		`all(1..100000, all(1..100000, all(1..100000, # > 0)))`,
		`len(1..1000000000) > 0`,
		`len(1..9223372036854775807) > 0`,
		`len(-9223372036854775807..9223372036854775807) > 0`,
		lets,
		`len(map(1..100000, inputs.big + "x")) > 0`,
		`len(join(map(1..100000, inputs.big), "")) > 0`,
		`len(map(1..100000, split(inputs.big, ""))) > 0`,
		`all(1..100000, max(inputs.huge) > 0)`,
		`all(1..100000, not (-1 in inputs.huge))`,
		`all(1..100000, inputs.huge == inputs.huge)`,
		`all(1..100000, not (inputs.big contains "zzz"))`,
		`all(1..100000, not (inputs.big matches "(a|b|ab)*z(x+x+)+y"))`,
		`all(1..100000, upper(inputs.big) != "")`,
		`all(1..100000, string(inputs.huge) != "")`,
		`all(1..100000, len(inputs.big) > 0)`,
		`all(1..100000, trim(inputs.big) != "")`,
		`all(1..100000, inputs.big < inputs.big + "a")`,
		`all(1..100000, len(filter(inputs.huge, true)) > 0)`,
		`sum(map(1..100000, len(inputs.huge[0:2000]))) + sum(map(1..100000, count(inputs.huge, # > 1))) > 0`,
		`all(1..100000, ({a: inputs.huge}) == {a: inputs.huge})`,
		strings.Repeat("(", 2000) + "true" + strings.Repeat(")", 2000),
		strings.Repeat("not ", 900) + "true",
	} {
		cond, best, need := innermost(within(t, "when", c)).When, time.Hour, uint64(math.MaxUint64)
		var err error
		for range 3 {
			var before, after runtime.MemStats
			sc := scope()
			runtime.ReadMemStats(&before)
			start := spent(t)
			_, err = cond.Holds(sc)
			best = min(best, spent(t)-start)
			runtime.ReadMemStats(&after)
			need = min(need, after.TotalAlloc-before.TotalAlloc) // other tests run, too
			if best < limit && need <= most {
				break
			}
		}
		t.Logf("%8v %4d MiB %.60s", best.Round(time.Millisecond), need>>20, c)
		if best > limit || need > most {
			t.Errorf("%.60s: took %v and %d MiB", c, best, need>>20)
		}
		if err == nil && !strings.Contains(c, "true") {
			t.Errorf("%.60s: no error", c)
		}
		if err != nil && !strings.Contains(err.Error(), "takes too long") && !strings.Contains(err.Error(), "too much memory") {
			t.Errorf("%.60s: %v", c, err)
		}
	}
}
