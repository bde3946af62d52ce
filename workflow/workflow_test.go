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
	w, err := workflow.Func("deploy", "Deploy it.", func(_ context.Context, in inputs, _ *workflow.Exec) (inputs, graph.Final[int], error) {
		return in, graph.Final[int]{Steps: 1}, nil
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
		{"count is no number", `{"prompt":"p","target":"t","count":"three"}`, []string{`count: want integer, got "three"`}},
		{"count is not whole", `{"prompt":"p","target":"t","count":1.5}`, []string{`count: want integer, got 1.5`}},
		{"count does not fit", `{"prompt":"p","target":"t","count":1e30}`, []string{`count: want integer, got 1e30`}},
		{"dry is a string", `{"prompt":"p","target":"t","dry":"true"}`, []string{`dry: want boolean, got "true"`}},
		{"prompt is a number", `{"prompt":42,"target":"t"}`, []string{`prompt: want string, got 42`}},
		{"null", `{"prompt":null,"target":"t"}`, []string{`prompt: want string, got null`}},
		{"a slip", `{"propmt":"p","target":"t"}`, []string{`prompt is required (what to do)`, `unknown input "propmt"; did you mean "prompt"?`}},
		{"another case", `{"prompt":"p","target":"t","Count":1}`, []string{`unknown input "Count"; did you mean "count"?`}},
		{"nothing", `{}`, []string{"prompt is required (what to do)", "target is required (where to do it)"}},
		{"not even that", ``, []string{"prompt is required (what to do)", "target is required (where to do it)"}},
		{"three faults", `{"prompt":1,"target":"t","count":"x","dry":0}`, []string{"count: want integer, got \"x\"", "dry: want boolean, got 0", "prompt: want string, got 1"}},
		{"NaN", `{"prompt":"p","target":"t","rate":NaN}`, []string{"want a JSON object with finite numbers: invalid character 'N' looking for beginning of value"}},
		{"too large to be finite", `{"prompt":"p","target":"t","rate":1e999}`, []string{"rate: want a finite number, got 1e999"}},
		{"items", `{"prompt":"p","target":"t","extra":{"x":"y"}}`, []string{`extra: `}},
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
		named map[string]string
		want  string
		bad   []string
	}{
		{name: "free text fills the first required input", words: []string{"ship", "it", "target=here"}, want: `{"prompt":"ship it","target":"here"}`},
		{name: "and then the next", words: []string{"here", "prompt=ship it now"}, want: `{"prompt":"ship it now","target":"here"}`},
		{name: "named", words: []string{"ship"}, named: map[string]string{"target": "a b", "count": "3", "rate": "0.5", "dry": "true", "tags": `["a","b"]`, "extra": `{"x":1}`},
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
		{name: "no JSON", words: []string{"p", "target=t", "tags=a,b"}, bad: []string{`tags: want JSON, got "a,b"`}},
		{name: "JSON of another type", words: []string{"p", "target=t", `tags={"a":1}`}, bad: []string{`tags: want array, got {"a":1}`}},
		{name: "a slip", words: []string{"propmt=p", "target=t"}, bad: []string{`unknown input "propmt"; did you mean "prompt"? (for text with an equals sign, put -- before it)`, "prompt is required (what to do)"}},
		{name: "a slip with spaces is text", words: []string{"targe=1 what", "target=t"}, want: `{"prompt":"targe=1 what","target":"t"}`},
		{name: "all is text after --", words: []string{"target=t", "--", "propmt=p", "target=u", "--"}, want: `{"prompt":"propmt=p target=u --","target":"t"}`},
		{name: "a named slip", words: []string{"p", "target=t"}, named: map[string]string{"cuont": "3"}, bad: []string{`unknown input "cuont"; did you mean "count"?`}},
		{name: "a required one with a fault is not missing", words: []string{"target=t", "prompt=a", "prompt=b"}, bad: []string{"prompt: is given twice"}},
		{name: "twice in two ways", words: []string{"p", "target=t"}, named: map[string]string{"target": "u"}, bad: []string{"target: is given twice"}},
		{name: "too much", words: []string{"prompt=p", "target=t", "more", "text"}, bad: []string{`nothing to do with "more text": every required input is given; use key=value`}},
		{name: "nothing", bad: []string{"prompt is required (what to do)", "target is required (where to do it)"}},
		{name: "three faults", words: []string{"p", "target=t", "count=x", "dry=1", "rate=NaN"}, bad: []string{`count: want a whole number, got "x"`, `rate: want a finite number, got "NaN"`, `dry: want true or false, got "1"`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := deploy(t).Parse(tc.words, tc.named)
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
	if _, err := w.Parse([]string{"friday", "target=friday"}, nil); err != nil {
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
	got := problems(t, w.Check(json.RawMessage(`{"prompt":"p","target":"nowhere","count":0}`)))
	if len(got) != 2 || !strings.Contains(got[0], "minimum") || !strings.Contains(got[1], "enum") {
		t.Errorf("%q", got)
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
	j, err := runlog.OpenJournal(t.Context(), runlog.NewMemory(nil), "run", &runlog.JournalOptions{Create: &runlog.NewRun{}})
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
	if _, err := workflow.Func("bad", "", func(context.Context, chan int, *workflow.Exec) (int, graph.Final[int], error) {
		return 0, graph.Final[int]{}, nil
	}); err == nil {
		t.Error("inputs that are a channel were accepted")
	}
	w, err = workflow.Func("odd", "", func(context.Context, in, *workflow.Exec) (chan int, graph.Final[int], error) {
		return nil, graph.Final[int]{}, nil
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
	w, err := workflow.Func("cook", "Cook a dish.", func(_ context.Context, in order, _ *workflow.Exec) (string, graph.Final[int], error) {
		return in.Dish, graph.Final[int]{}, nil
	})
	if err != nil {
		panic(err)
	}
	b, _ := w.Parse([]string{"pea", "soup", "plates=4"}, nil)
	fmt.Println(string(b))
	// Output: {"dish":"pea soup","plates":4}
}
