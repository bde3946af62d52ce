package recipe

import (
	"encoding/json"
	"strings"
	"testing"
)

const evaluated = `workflow: brief.yaml
runs: 3
pass: 0.5
judge: {model: lab/wise}
variants:
  - {name: now}
  - {name: short, workflow: short.yaml, model: lab/small, inputs: {style: short}}
checks:
  - len(output) < 100
cases:
  - name: pregel
    inputs: {topic: Pregel, depth: 2}
    answers: {approve: approve}
    expected: [a, 1]
    checks:
      - output == expected
      - schema: {type: array}
      - judge: It names a source.
`

func TestEvaluation(t *testing.T) {
	t.Parallel()
	e, problems := ParseEvaluation("x.yaml", []byte(evaluated))
	if e == nil || len(problems) > 0 {
		t.Fatal(problems)
	}
	c := &e.Cases[0]
	if e.Runs != 3 || e.Pass != 0.5 || e.Judge.Model != "lab/wise" || len(e.Variants) != 2 || e.Variants[0].Workflow != "brief.yaml" || e.Variants[1].Workflow != "short.yaml" ||
		len(c.Checks) != 4 || c.Checks[0].String() != "len(output) < 100" || c.Checks[3].Judge == "" || string(c.Expected) != `["a",1]` || c.Answers[0] != "approve=approve" {
		t.Errorf("%+v", e)
	}
	if got, err := e.Variants[1].Merged(c); err != nil || string(got) != `{"depth":2,"style":"short","topic":"Pregel"}` {
		t.Errorf("%s %v", got, err)
	}
	if _, changed := c.Inputs["style"]; changed {
		t.Error("the inputs of the case have those of a variant")
	}
	least, problems := ParseEvaluation("x.yaml", []byte("workflow: w\ncases: [{name: a}]\n"))
	if least == nil || least.Runs != 1 || least.Pass != 1 || least.Variants[0].Name != "w" {
		t.Errorf("%+v %v", least, problems)
	}
}

// Every mistake is reported at its place.
func TestEvaluationMistakes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                               "1:1: the evaluation is empty; it needs a workflow and cases",
		"cases: [{name: a}]":             "1:1: an evaluation needs `workflow`",
		"workflow: w":                    "1:1: an evaluation needs `cases`",
		"workflow: w\ncases: []":         "2:8: `cases` is empty",
		"workflow: w\ncase: [{name: a}]": "2:1: an evaluation has no field `case`; did you mean \"cases\"?",
		"workflow: w\nruns: 0\ncases: [{name: a}]":                                   "2:7: `runs` is 0; it must be from 1 to 1000",
		"workflow: w\nruns: 1000\ncases: [" + strings.Repeat("{name: a},", 21) + "]": "another case is called \"a\"",
		"workflow: w\ncases: [{name: a, checks: [steps.x.output]}]":                  "2:28: a check knows no steps; there are output, expected",
		"workflow: w\ncases: [{name: a, checks: [\"output is 5\"]}]":                 "unexpected token",
		"workflow: w\ncases: [{name: a, checks: [{}]}]":                              "2:28: a check is a condition as a text, or has either `schema` or `judge`",
		"workflow: w\ncases: [{name: a, checks: [{schema: {type: strng}}]}]":         "`schema` is no JSON Schema: there is no type \"strng\"",
		"workflow: w\ncases: [{name: a, expected: 5}]":                               "2:29: no check looks at `expected`",
		"workflow: w\ncases: [{name: a, inputs: [5]}]":                               "`inputs` must be a map from names to values",
	} {
		e, problems := ParseEvaluation("x.yaml", []byte(text))
		if e != nil || !strings.Contains(problems.Error(), want) {
			t.Errorf("%s\ngot  %v\nwant %s", text, problems, want)
		}
	}
}

func TestEvaluationTest(t *testing.T) {
	t.Parallel()
	usd := 0.02
	ran := &Ran{Inputs: json.RawMessage(`{"topic":"x"}`), Output: json.RawMessage(`{"n":3,"text":"a b"}`), Expected: json.RawMessage(`{"n":3}`), Status: "completed",
		Cost: &usd, Seconds: 1.5, Tokens: 10, Turns: 2, Calls: 1}
	for text, want := range map[string]string{
		`output.n == expected.n`: "", `output.text contains "b" and inputs.topic == "x"`: "", `cost < 0.03 and seconds < 2 and tokens == 10 and turns == 2 and calls == 1`: "",
		`output.n > 3`: "output.n is 3", `status == "partial"`: `status is "completed"`, `1 > 2`: "it is false", `output.gone == 1`: "{{output.gone}}: output has no gone; there is n, text", `output.n`: "!must give true or false",
	} {
		c, faults := parseExpr(text, true)
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		why, err := c.Test(ran)
		if err != nil {
			why = "!" + err.Error()
		}
		if why != want && (want == "" || want[0] != '!' || !strings.HasPrefix(why, "!") || !strings.Contains(why, want[1:])) {
			t.Errorf("%s: got %q, want %q", text, why, want)
		}
	}
}

func FuzzEvaluation(f *testing.F) {
	f.Add([]byte(evaluated))
	f.Add([]byte("workflow: w\ncases: [{name: a, checks: [output == expected, {schema: {}}], expected: {a: [1]}}]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		e, problems := ParseEvaluation("x", text)
		if (e == nil) != (problems.Err() != nil) {
			t.Fatalf("%v %v", e, problems)
		}
		if e == nil {
			return
		}
		for i := range e.Cases {
			if _, err := e.Variants[0].Merged(&e.Cases[i]); err != nil {
				t.Fatal(err)
			}
		}
	})
}
