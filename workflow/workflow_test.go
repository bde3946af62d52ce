package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"
	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type inputs struct {
	Prompt string         `json:"prompt" jsonschema:"what to do"`
	Target string         `json:"target" jsonschema:"where to do it"`
	Count  int            `json:"count,omitempty"`
	Rate   float64        `json:"rate,omitempty"`
	Dry    bool           `json:"dry,omitempty"`
	Tags   []string       `json:"tags,omitempty"`
	Extra  map[string]int `json:"extra,omitempty"`
}

func deploy(t testing.TB) *workflow.Workflow {
	t.Helper()
	w, err := workflow.Func("deploy", "Deploy it.", func(_ context.Context, in inputs, _ *workflow.Exec) (inputs, error) {
		return in, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// problems are what an error lists, nil for no error.
func problems(t testing.TB, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	var in *workflow.InputsError
	if !errors.As(err, &in) || in.Workflow != "deploy" {
		t.Fatal(err)
	}
	for _, p := range in.Problems {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("%q does not say %q", err, p)
		}
	}
	return in.Problems
}

func TestCheck(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		want     []string
	}{
		{"all", `{"prompt":"p","target":"t","count":3,"rate":0.5,"dry":true,"tags":["a"],"extra":{"x":1}}`, nil},
		{"the required ones", `{"prompt":"p","target":"t"}`, nil},
		{"count is no number", `{"prompt":"p","target":"t","count":"three"}`, []string{`count: is the string "three", want integer`}},
		{"count is not whole", `{"prompt":"p","target":"t","count":1.5}`, []string{`count: is 1.5, want integer`}},
		{"count does not fit", `{"prompt":"p","target":"t","count":1e30}`, []string{`count: is 1e30, want integer`}},
		{"dry is a string", `{"prompt":"p","target":"t","dry":"true"}`, []string{`dry: is the string "true", want boolean`}},
		{"prompt is a number", `{"prompt":42,"target":"t"}`, []string{`prompt: is 42, want string`}},
		{"null", `{"prompt":null,"target":"t"}`, []string{`prompt: is null, want string`}},
		{"a slip", `{"propmt":"p","target":"t"}`, []string{`prompt is required (what to do)`, `unknown input "propmt"; did you mean "prompt"?`}},
		{"another case", `{"prompt":"p","target":"t","Count":1}`, []string{`unknown input "Count"; did you mean "count"?`}},
		{"nothing", `{}`, []string{"prompt is required (what to do)", "target is required (where to do it)"}},
		{"not even that", ``, []string{"prompt is required (what to do)", "target is required (where to do it)"}},
		{"three faults", `{"prompt":1,"target":"t","count":"x","dry":0}`, []string{"count: is the string \"x\", want integer", "dry: is 0, want boolean", "prompt: is 1, want string"}},
		{"NaN", `{"prompt":"p","target":"t","rate":NaN}`, []string{`want a JSON object with finite numbers: unexpected 'N' at byte 35 of "{\"prompt\":\"p\",\"target\":\"t\",\"rate\":NaN}"`}},
		{"too large to be finite", `{"prompt":"p","target":"t","rate":1e999}`, []string{"rate: want a finite number, got 1e999"}},
		{"items", `{"prompt":"p","target":"t","extra":{"x":"y"}}`, []string{`extra/x: `}},
		{"no object", `[]`, []string{"want a JSON object with finite numbers: "}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := deploy(t)
			err := w.Check(json.RawMessage(tc.in))
			got := problems(t, err)
			if len(got) != len(tc.want) {
				t.Fatalf("%q\nwant %q", got, tc.want)
			}
			for i := range got {
				if !strings.HasPrefix(got[i], tc.want[i]) {
					t.Errorf("%q\nwant %q", got[i], tc.want[i])
				}
			}
			if tc.want == nil { // what is accepted can be run with
				if _, err := w.Run(t.Context(), &workflow.Exec{Inputs: json.RawMessage(tc.in)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		name  string
		words []string
		named map[string][]string
		want  string
		bad   []string
	}{
		{name: "free text fills the first required input", words: []string{"ship", "it", "target=here"}, want: `{"prompt":"ship it","target":"here"}`},
		{name: "and then the next", words: []string{"here", "prompt=ship it now"}, want: `{"prompt":"ship it now","target":"here"}`},
		{name: "named", words: []string{"ship"}, named: map[string][]string{"target": {"a b"}, "count": {"3"}, "rate": {"0.5"}, "dry": {"true"}, "tags": {`["a","b"]`}, "extra": {`{"x":1}`}},
			want: `{"count":3,"dry":true,"extra":{"x":1},"prompt":"ship","rate":0.5,"tags":["a","b"],"target":"a b"}`},
		{name: "values keep their equals signs", words: []string{"prompt=a=b", "target=="}, want: `{"prompt":"a=b","target":"="}`},
		{name: "text has equals signs too", words: []string{"why", "is", "x=1", "E=mc²?", "target=t"}, want: `{"prompt":"why is x=1 E=mc²?","target":"t"}`},
		{name: "a string is never bent", words: []string{"prompt=42", "target=true"}, want: `{"prompt":"42","target":"true"}`},
		{name: "empty", words: []string{"prompt=", "target=t"}, want: `{"prompt":"","target":"t"}`},
		{name: "no number", words: []string{"p", "target=t", "count=three"}, bad: []string{`count: want a whole number, got "three"`}},
		{name: "not whole", words: []string{"p", "target=t", "count=1.0"}, bad: []string{`count: want a whole number, got "1.0"`}},
		{name: "no boolean", words: []string{"p", "target=t", "dry=yes"}, bad: []string{`dry: want true or false, got "yes"`}},
		{name: "NaN", words: []string{"p", "target=t", "rate=NaN"}, bad: []string{`rate: want a finite number, got "NaN"`}},
		{name: "Infinity", words: []string{"p", "target=t", "rate=Infinity"}, bad: []string{`rate: want a finite number, got "Infinity"`}},
		{name: "1e999", words: []string{"p", "target=t", "rate=1e999"}, bad: []string{`rate: want a finite number, got "1e999"`}},
		{name: "hexadecimal", words: []string{"p", "target=t", "rate=0x10"}, bad: []string{`rate: want a finite number, got "0x10"`}},
		{name: "no JSON", words: []string{"p", "target=t", "tags=a,b"}, bad: []string{`tags: want a list such as ["a","b"], got "a,b"`}},
		{name: "JSON of another type", words: []string{"p", "target=t", `tags={"a":1}`}, bad: []string{`tags: want a list such as ["one","two"], got {"a":1}`}},
		{name: "a slip", words: []string{"propmt=p", "target=t"}, bad: []string{`unknown input "propmt"; did you mean "prompt"? (for text with an equals sign, put -- before it)`, "prompt is required (what to do)"}},
		{name: "a slip with spaces", words: []string{"propmt=what is it", "target=t"}, bad: []string{`unknown input "propmt"; did you mean "prompt"? (for text with an equals sign, put -- before it)`, "prompt is required (what to do)"}},
		{name: "an unknown name", words: []string{"p", "depth=3", "target=t"}, bad: []string{`unknown input "depth"; known: prompt, target, count, rate, dry, tags, extra (for text with an equals sign, put -- before it)`}},
		{name: "a short slip", words: []string{"p", "rte=1", "dr=1", "ab=1", "target=t"}, bad: []string{`unknown input "dr"; did you mean "dry"? (for text with an equals sign, put -- before it)`,
			`unknown input "rte"; did you mean "rate"? (for text with an equals sign, put -- before it)`}},
		{name: "text with an equals sign", words: []string{"is x=1 what", "target=t"}, want: `{"prompt":"is x=1 what","target":"t"}`},
		{name: "all is text after --", words: []string{"target=t", "--", "propmt=p", "target=u", "--"}, want: `{"prompt":"propmt=p target=u --","target":"t"}`},
		{name: "a named slip", words: []string{"p", "target=t"}, named: map[string][]string{"cuont": {"3"}}, bad: []string{`unknown input "cuont"; did you mean "count"?`}},
		{name: "a required one with a fault is not missing", words: []string{"target=t", "prompt=a", "prompt=b"}, bad: []string{"prompt: is given twice"}},
		{name: "twice in two ways", words: []string{"p", "target=t"}, named: map[string][]string{"target": {"u"}}, bad: []string{"target: is given twice"}},
		{name: "too much", words: []string{"prompt=p", "target=t", "more", "text"}, bad: []string{`nothing to do with "more text": every required input is given; use key=value`}},
		{name: "too much, and there is one more text", words: []string{"prompt=p", "target=t", "--", "more"}, bad: []string{`nothing to do with "more": every required input is given; use key=value`}},
		{name: "a list item by item", words: []string{"p", "target=t", "tags=a", "tags=b,c"}, want: `{"prompt":"p","tags":["a","b,c"],"target":"t"}`},
		{name: "a list item by item in two ways", words: []string{"p", "target=t", "tags=1"}, named: map[string][]string{"tags": {"true", ""}}, want: `{"prompt":"p","tags":["1","true",""],"target":"t"}`},
		{name: "a list with one item", words: []string{"p", "target=t", "tags=a b"}, bad: []string{`tags: want a list such as ["a b"], got "a b"`}},
		{name: "a list that is a number", words: []string{"p", "target=t", "tags=3"}, bad: []string{`tags: want a list such as ["3"], got 3`}},
		{name: "several lists", words: []string{"p", "target=t", `tags=["a"]`, `tags=["b"]`}, bad: []string{`tags: is given 2 times; give one list such as ["a"], or each of its items by itself`}},
		{name: "an object in words", words: []string{"p", "target=t", "extra=x"}, bad: []string{`extra: want an object such as {"key":"value"}, got "x"`}},
		{name: "a number twice", words: []string{"p", "target=t", "count=1", "count=2"}, bad: []string{"count: is given twice"}},
		{name: "nothing", bad: []string{"prompt is required (what to do)", "target is required (where to do it)"}},
		{name: "three faults", words: []string{"p", "target=t", "count=x", "dry=1", "rate=NaN"}, bad: []string{`count: want a whole number, got "x"`, `rate: want a finite number, got "NaN"`, `dry: want true or false, got "1"`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := deploy(t).Parse(tc.words, tc.named, nil)
			if diff := cmp.Diff(tc.bad, problems(t, err)); diff != "" {
				t.Fatal(diff)
			}
			if tc.bad == nil && string(got) != tc.want {
				t.Errorf("%s\nwant %s", got, tc.want)
			}
		})
	}
}

// Prepare is asked about inputs that fit the schema only, and has the last word.
func TestPrepare(t *testing.T) {
	w := deploy(t)
	calls := 0
	no := errors.New("not on a Friday")
	w.Prepare = func(in json.RawMessage) (json.RawMessage, error) {
		calls++
		if strings.Contains(string(in), "friday") {
			return nil, no
		}
		return json.RawMessage(`{"prompt":"p","target":"/t"}`), nil
	}
	if err := w.Check(json.RawMessage(`{"prompt":1}`)); len(problems(t, err)) != 2 || calls != 0 {
		t.Errorf("%v, %d calls", err, calls)
	}
	if err := w.Check(json.RawMessage(`{"prompt":"p","target":"friday"}`)); !errors.Is(err, no) {
		t.Error(err)
	}
	if got, err := w.Settle(json.RawMessage(`{"prompt":"p","target":"t"}`)); err != nil || string(got) != `{"prompt":"p","target":"/t"}` {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := w.Parse([]string{"friday", "target=friday"}, nil, nil); err != nil {
		t.Error(err)
	}
}

func TestList(t *testing.T) {
	want := []workflow.Input{
		{Name: "prompt", Type: "string", Description: "what to do", Required: true}, {Name: "target", Type: "string", Description: "where to do it", Required: true},
		{Name: "count", Type: "integer"}, {Name: "rate", Type: "number"}, {Name: "dry", Type: "boolean"}, {Name: "tags", Type: "array"}, {Name: "extra", Type: "object"},
	}
	if diff := cmp.Diff(want, deploy(t).List()); diff != "" {
		t.Error(diff)
	}
	bare := &workflow.Workflow{Name: "deploy"}
	if got := bare.List(); got != nil {
		t.Error(got)
	}
	if err := bare.Check(json.RawMessage(`{}`)); err != nil {
		t.Error(err)
	}
	if got := problems(t, bare.Check(json.RawMessage(`{"x":1}`))); len(got) != 1 {
		t.Error(got)
	}
}

// A schema may ask for more than a type, and a value that has the type is told why it does not fit.
func TestSchema(t *testing.T) {
	w := deploy(t)
	w.Inputs.Properties["count"].Minimum = jsonschema.Ptr(1.0)
	w.Inputs.Properties["target"].Enum = []any{"here", "there"}
	got := problems(t, w.Check(json.RawMessage(`{"prompt":"p","target":"theer","count":0}`)))
	if len(got) != 2 || got[0] != "count: is 0, want at least 1" || got[1] != `target: is the string "theer", want one of "here", "there"; did you mean "there"?` {
		t.Errorf("%q", got)
	}
}

// What does not fit is told in plain words, at its place.
func TestFits(t *testing.T) {
	one := func(schema string) *workflow.Workflow {
		var p jsonschema.Schema
		if err := json.Unmarshal([]byte(schema), &p); err != nil {
			t.Fatal(err)
		}
		return &workflow.Workflow{Name: "deploy", Inputs: &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"x": &p}}}
	}
	for _, c := range []struct{ schema, value, want string }{
		{`{"type":"string","enum":["quick","deep"]}`, `"depe"`, `x: is the string "depe", want one of "quick", "deep"; did you mean "deep"?`},
		{`{"type":"string","enum":["quick"]}`, `"x"`, `x: is the string "x", want one of "quick"`},
		{`{"enum":["a","b",3]}`, `4`, `x: is 4, want one of "a", "b", 3`},
		{`{"enum":["a","b",3]}`, `3`, ``},
		{`{"type":"array"}`, `"a"`, `x: is the string "a", want array`},
		{`{"type":"integer","minimum":1,"maximum":3}`, `4`, `x: is 4, want at most 3`},
		{`{"type":"integer","minimum":1,"maximum":3}`, `3`, ``},
		{`{"type":"number","exclusiveMinimum":0}`, `0`, `x: is 0, want more than 0`},
		{`{"type":"number","exclusiveMaximum":1}`, `1`, `x: is 1, want less than 1`},
		{`{"type":"integer","multipleOf":5}`, `7`, `x: is 7, want a multiple of 5`},
		{`{"type":"string","minLength":1}`, `""`, `x: is 0 characters, want at least 1`},
		{`{"type":"string","minLength":3}`, `"é"`, `x: is 1 character, want at least 3`},
		{`{"type":"string","maxLength":1}`, `"<é"`, `x: is 2 characters, want at most 1`},
		{`{"type":"string","pattern":"^[a-z]+$"}`, `"<A>"`, `x: is the string "<A>", want a match of the pattern ^[a-z]+$`},
		{`{"type":"array","minItems":2}`, `[1]`, `x: is 1 item, want at least 2`},
		{`{"type":"array","maxItems":1}`, `[1,2]`, `x: is 2 items, want at most 1`},
		{`{"type":"array","items":{"type":"integer"}}`, `[1,"b"]`, `x/1: is the string "b", want integer`},
		{`{"type":"object","required":["a"]}`, `{}`, `x/a: missing; it is required`},
		{`{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"enum":["c"]}}}}}`, `{"a":{"b":"d"}}`, `x/a/b: is the string "d", want one of "c"`},
		{`{"type":"object","properties":{"size":{}},"additionalProperties":{"not":{}}}`, `{"szie":1}`, `x/szie: unknown; did you mean "size"?`},
		{`{"type":"object","additionalProperties":{"type":"string"}}`, `{"a":1}`, `x/a: is 1, want string`},
		{`{"const":"a"}`, `"b"`, `x: is the string "b", want "a"`},
	} {
		got := ""
		if p := problems(t, one(c.schema).Check(json.RawMessage(`{"x":`+c.value+`}`))); len(p) > 0 {
			got = strings.Join(p, "\n")
		}
		if got != c.want {
			t.Errorf("%s in %s: %s\nwant %s", c.value, c.schema, got, c.want)
		}
	}
	rare := problems(t, one(`{"not":{"type":"string"}}`).Check(json.RawMessage(`{"x":"a"}`))) // the library's own words
	if len(rare) != 1 || !strings.HasPrefix(rare[0], "x: ") {
		t.Errorf("%q", rare)
	}
}

// Free text is for the only text if no input is required.
func TestParseFreeText(t *testing.T) {
	for _, c := range []struct{ inputs, words, want, bad string }{
		{`{"question":{"type":"string","default":"What?"},"n":{"type":"integer"}}`, "how is it", `{"question":"how is it"}`, ""},
		{`{"question":{"type":"string"},"n":{"type":"integer"}}`, "how n=3", `{"n":3,"question":"how"}`, ""},
		{`{"question":{"type":"string"}}`, "question=a b", "", `nothing to do with "b": no input is required; use key=value`},
		{`{"question":{"type":"string"},"note":{"type":"string"}}`, "what", "", `nothing to do with "what": no input is required; say which one it is: note="…" or question="…"`},
		{`{"n":{"type":"integer"}}`, "what", "", `nothing to do with "what": no input is required; use key=value`},
		{`{}`, "what", "", `nothing to do with "what": it takes no inputs`},
	} {
		var schema jsonschema.Schema
		if err := json.Unmarshal([]byte(`{"type":"object","properties":`+c.inputs+`}`), &schema); err != nil {
			t.Fatal(err)
		}
		got, err := (&workflow.Workflow{Name: "deploy", Inputs: &schema}).Parse(strings.Fields(c.words), nil, nil)
		if p := strings.Join(problems(t, err), "\n"); p != c.bad || c.bad == "" && string(got) != c.want {
			t.Errorf("%s %q: %s, %q", c.inputs, c.words, got, p)
		}
	}
}

func TestSet(t *testing.T) {
	w := deploy(t)
	set := workflow.Set{w}
	if got, err := set.Find("deploy"); got != w || err != nil {
		t.Error(got, err)
	}
	_, err := set.Find("depoly")
	var unknown *workflow.UnknownError
	if !errors.As(err, &unknown) || err.Error() != `there is no workflow "depoly"; did you mean "deploy"?` {
		t.Error(err)
	}
	if err := set.Validate(); err != nil {
		t.Error(err)
	}
	err = workflow.Set{w, nil, {Name: "x"}, w, {Run: w.Run}}.Validate()
	want := "workflow 1 has no name or no function\nworkflow 2 has no name or no function\nworkflow \"deploy\" is there twice\nworkflow 4 has no name or no function"
	if err == nil || err.Error() != want {
		t.Error(err)
	}
}

// Names that stand for two workflows are mistakes; what runs others may name them by an alias.
func TestClashes(t *testing.T) {
	run := deploy(t).Run
	set := workflow.Set{
		{Name: "a", Run: run, Aliases: []string{"x", "b"}}, {Name: "b", Run: run, Aliases: []string{"x", "A"}}, {Name: "B", Run: run},
		{Name: "c", Run: run, Aliases: []string{"see"}, Uses: []string{"x"}}, {Name: "d", Run: run, Uses: []string{"see"}},
	}
	want := `"b" of workflow "b" and "B" of workflow "B" differ in case only
workflows "a" and "b" have the alias "x" in common
"a" of workflow "a" and "A" of workflow "b" differ in case only`
	if err := set.Validate(); err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
	set = workflow.Set{{Name: "a", Run: run, Aliases: []string{"first"}, Uses: []string{"second"}}, {Name: "b", Run: run, Aliases: []string{"second", "a"}, Uses: []string{"first"}}}
	if err := set.Validate(); err == nil || err.Error() != "workflows run each other in a circle: a → b → a" {
		t.Errorf("got %v", err)
	}
}

// New runs a graph from inputs to output, and its failures name themselves.
func TestNew(t *testing.T) {
	g := graph.New("count", func(s, u int) int { return s + u })
	g.Add("add", func(context.Context, int) (int, error) { return 2, nil })
	g.Edge(graph.Start, "add")
	g.Edge("add", graph.End)
	flow, err := g.Compile()
	if err != nil {
		t.Fatal(err)
	}
	type in struct {
		From int `json:"from"`
	}
	type out struct {
		To int `json:"to"`
	}
	errNegative := errors.New("negative")
	w, err := workflow.New("count", "Count.", flow, func(i in) (int, error) {
		if i.From < 0 {
			return 0, errNegative
		}
		return i.From, nil
	}, func(s int) (out, error) { return out{s}, nil })
	if err != nil {
		t.Fatal(err)
	}
	j, err := journal.Open(t.Context(), runlog.NewMemory(nil), "run", &journal.Options{Create: &runlog.NewRun{}})
	if err != nil {
		t.Fatal(err)
	}
	res, err := w.Run(t.Context(), &workflow.Exec{Inputs: json.RawMessage(`{"from":40}`), Journal: j, Graph: graph.RunOptions{Journal: j}})
	if err != nil || string(res.Output) != `{"to":42}` || res.Steps != 1 {
		t.Errorf("%+v, %v", res, err)
	}
	if _, err := w.Run(t.Context(), &workflow.Exec{Inputs: json.RawMessage(`{"from":-1}`)}); !errors.Is(err, errNegative) {
		t.Error(err)
	}
	if _, err := workflow.Func("bad", "", func(context.Context, chan int, *workflow.Exec) (int, error) {
		return 0, nil
	}); err == nil {
		t.Error("inputs that are a channel were accepted")
	}
	w, err = workflow.Func("odd", "", func(context.Context, in, *workflow.Exec) (chan int, error) {
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Run(t.Context(), &workflow.Exec{}); err == nil || !strings.Contains(err.Error(), "its output") {
		t.Error(err)
	}
}

func ExampleWorkflow_Parse() {
	type order struct {
		Dish   string `json:"dish" jsonschema:"what to cook"`
		Plates int    `json:"plates,omitempty"`
	}
	w, err := workflow.Func("cook", "Cook a dish.", func(_ context.Context, in order, _ *workflow.Exec) (string, error) {
		return in.Dish, nil
	})
	if err != nil {
		panic(err)
	}
	b, _ := w.Parse([]string{"pea", "soup", "plates=4"}, nil, nil)
	fmt.Println(string(b))
	// Output: {"dish":"pea soup","plates":4}
}

// Fields that the run sets itself are no inputs of callers, and yet reach the function from Prepare.
func TestOwnInputs(t *testing.T) {
	type inputs struct {
		Prompt string   `json:"prompt"`
		Rules  []string `json:"rules,omitempty" jsonschema:"set by the run itself: what is allowed"`
	}
	var got inputs
	w, err := workflow.Func("own", "x", func(_ context.Context, in inputs, _ *workflow.Exec) (int, error) { got = in; return 1, nil })
	if err != nil {
		t.Fatal(err)
	}
	w.Prepare = func(json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(`{"prompt":"p","rules":["r"]}`), nil
	}
	if list := w.List(); len(list) != 1 || list[0].Name != "prompt" {
		t.Errorf("inputs %+v", list)
	}
	if err := w.Check(json.RawMessage(`{"prompt":"p","rules":["allow bash"]}`)); err == nil || !strings.Contains(err.Error(), `unknown input "rules"`) {
		t.Errorf("a caller gives rules: %v", err)
	}
	settled, err := w.Settle(json.RawMessage(`{"prompt":"p"}`))
	if err == nil {
		_, err = w.Run(t.Context(), &workflow.Exec{Inputs: settled})
	}
	if err != nil || len(got.Rules) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}
