package recipe_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/internal/recipe"
)

func parse(t testing.TB, text string) *recipe.Recipe {
	t.Helper()
	r, ps := recipe.Parse("r.yaml", []byte(text))
	if r == nil {
		t.Fatal(ps)
	}
	return r
}

// What does not fit what there is is said of a file with other mistakes too.
func TestCheckText(t *testing.T) {
	t.Parallel()
	ps := recipe.CheckText("r.yaml", []byte("name: r\nsteps:\n  - {id: a, subagent: reseacher, promt: p}\n  - {id: b, tool: grpe, depends_on: [c]}\n  - {id: d, tool: mcp__x__y}\n  - {id: e, tool: ''}\n"),
		&recipe.World{Agents: []string{"researcher"}, Tools: []string{"grep", "mcp__x__*"}})
	var got []string
	for _, p := range ps {
		got = append(got, p.Code)
	}
	if want := []string{"unknown-subagent", "unknown-tool"}; !cmp.Equal(got, want) {
		t.Error(got, ps)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	text := `name: top
steps:
  - {id: a, subagent: reseacher, prompt: p}
  - {id: b, subagent: writer, prompt: p}
  - {id: c, tool: grpe}
  - id: d
    parallel:
      - {id: e, workflow: breif, inputs: {topic: x}}
      - {id: f, workflow: brief, inputs: {topic: 5, depht: deep, n: "{{steps.d.status}}"}}
      - {id: g, workflow: brief, inputs: {n: "7", level: middle}}
      - {id: h, workflow: brief, inputs: {topic: "\\{{x}}", n: 7, level: high}}
      - {id: i, workflow: mid}
`
	text = strings.Replace(text, `"{{steps.d.status}}"`, `"{{inputs.n}}"`, 1)
	text = strings.Replace(text, "steps:", "inputs: [n]\nsteps:", 1)
	r := parse(t, text)
	mid := parse(t, "name: mid\naliases: [middle]\nsteps: [{id: a, workflow: low}]\n")
	low := parse(t, "name: low\nsteps: [{id: x, workflow: brief, inputs: {topic: t}}, {id: a, loop: {max: 2, steps: [{id: b, workflow: top}]}}]\n")
	brief := &recipe.Callee{Name: "brief", Inputs: []recipe.Input{
		{Name: "topic", Type: "string", Required: true}, {Name: "depth"}, {Name: "n", Type: "integer"},
		{Name: "level", Enum: []json.RawMessage{json.RawMessage(`"low"`), json.RawMessage(`"high"`)}},
	}}
	w := &recipe.World{
		Agents: []string{"researcher", "writer"}, AgentsFrom: ".superstep/agents", Tools: []string{"grep", "read"},
		Workflows: map[string]*recipe.Callee{
			"brief": brief, "mid": {Name: "mid", Recipe: mid}, "middle": {Name: "mid", Recipe: mid}, "low": {Name: "low", Recipe: low}, "top": {Name: "top", Recipe: r},
		},
	}
	want := []string{
		"r.yaml:4:23: no subagent `reseacher`; did you mean \"researcher\"? (looked in .superstep/agents)",
		"r.yaml:6:19: no tool `grpe`; did you mean \"grep\"?",
		"r.yaml:9:27: no workflow `breif`; did you mean \"brief\"?",
		"r.yaml:10:50: input `topic` of workflow `brief` must be a text, got a number",
		"r.yaml:10:53: workflow `brief` has no input `depht`; did you mean \"depth\"?",
		"r.yaml:11:27: workflow `brief` needs input `topic`; give it under `inputs`",
		"r.yaml:11:46: input `n` of workflow `brief` must be a whole number, got a text",
		"r.yaml:11:58: input `level` of workflow `brief` must be \"low\" or \"high\"",
		"r.yaml:13:27: cycle of recipes: top → mid → low → top; a recipe cannot end up calling itself",
	}
	var got []string
	for _, p := range recipe.Check(r, w) {
		got = append(got, p.Error())
		inFile(t, r.Source, p)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if ps := recipe.Check(r, &recipe.World{}); len(ps) != 0 {
		t.Errorf("an empty world: %v", ps)
	}
	if ps := recipe.Check(r, &recipe.World{Agents: []string{}, AgentsFrom: "x, y"}); len(ps) != 2 || ps[0].Text != "no subagent `reseacher`; there are none (looked in x, y)" {
		t.Errorf("no agents: %v", ps)
	}
	self := parse(t, "name: me\naliases: [myself]\nsteps: [{id: a, workflow: myself}]\n")
	if ps := recipe.Check(self, &recipe.World{Workflows: map[string]*recipe.Callee{}}); len(ps) != 1 || !strings.Contains(ps[0].Text, "cycle of recipes: me → me") {
		t.Errorf("itself: %v", ps)
	}
}

// The arguments of tools are checked as far as they are written out and the tool's schema is known.
func TestCheckTools(t *testing.T) {
	t.Parallel()
	r := parse(t, `name: top
inputs: [q, {name: l, type: list}]
steps:
  - {id: a, tool: grep, args: {patern: x, limit: "5", mode: fast}}
  - {id: b, tool: grep, args: {pattern: "{{inputs.q}}", limit: "{{inputs.q}}", paths: "{{inputs.l}}", mode: "{{inputs.q}}"}}
  - {id: c, tool: grep, args: {pattern: 5, limit: 3.5, paths: a, mode: Files}}
  - {id: d, tool: grep, args: {pattern: "\\{{x}}", limit: 3.0, paths: [a, 1], size: big, deep: [], any: {a: 1}}}
  - id: e
    loop: {max: 1, steps: [{id: f, tool: "grep"}, {id: g, tool: none, args: {x: 1}}, {id: h, tool: none}]}
  - {id: i, tool: open, args: {pth: a, color: red, from: 5}}
  - {id: j, tool: open, args: {path: null, paths: a}}
  - {id: k, tool: odd, args: {a: 1, b: 2}}
  - {id: l, tool: remote, args: {a: 1}}
  - {id: m, tool: unknown, args: {a: 1}}
  - {id: n, tool: bash, args: {cmd: ls}}
  - {id: o, tool: bsh}
  - {id: p, tool: wget}
  - {id: q, tool: grep, args: {pattern: x, paths: ["{{inputs.q}}", 1]}}
  - {id: r, tool: RunTests}
`)
	schema := func(text string) *jsonschema.Schema {
		s := &jsonschema.Schema{}
		if err := json.Unmarshal([]byte(text), s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	w := &recipe.World{
		Tools:    []string{"grep", "none", "open", "odd", "remote", "unknown"},
		ToolsOff: map[string]string{"bash": "it runs any command; turn it on with --bash", "wget": ""},
		ToolInputs: map[string]*jsonschema.Schema{
			"grep": schema(`{"type": "object", "required": ["pattern"], "additionalProperties": false, "$defs": {"path": {"type": "string"}}, "properties": {
				"pattern": {"type": "string"}, "limit": {"type": "integer", "maximum": 10}, "paths": {"type": "array", "items": {"$ref": "#/$defs/path"}},
				"mode": {"enum": ["lines", "files"]}, "size": {"type": ["integer", "null"]}, "deep": {"type": "boolean"}, "any": true}}`),
			"none":   schema(`{"type": "object", "additionalProperties": false}`),
			"open":   schema(`{"type": "object", "required": ["path"], "properties": {"path": {"type": ["string", "null"]}, "from": {"type": "integer", "maximum": 4}}}`),
			"odd":    schema(`{"properties": {"a": {"$ref": "#/nowhere"}}, "patternProperties": {"^b": {}}, "additionalProperties": false}`),
			"remote": schema(`{"$ref": "https://example.com/schema"}`),
			"bash":   schema(`{"properties": {"command": {"type": "string"}}, "required": ["command"]}`),
			"nil":    nil,
		},
	}
	want := []string{
		"r.yaml:4:19: tool `grep` needs argument `pattern`; give it under `args` [missing-argument]",
		"r.yaml:4:32: tool `grep` has no argument `patern`; did you mean \"pattern\"? [unknown-argument]",
		"r.yaml:4:50: argument `limit` of tool `grep` must be a whole number, got a text [argument-type]",
		"r.yaml:4:61: argument `mode` of tool `grep` must be \"lines\" or \"files\" [argument-type]",
		"r.yaml:6:41: argument `pattern` of tool `grep` must be a text, got the number 5 [argument-type]",
		"r.yaml:6:51: argument `limit` of tool `grep` must be a whole number, got the number 3.5 [argument-type]",
		"r.yaml:6:63: argument `paths` of tool `grep` must be a list, got a text [argument-type]",
		"r.yaml:6:72: argument `mode` of tool `grep` must be \"lines\" or \"files\" [argument-type]",
		"r.yaml:7:71: argument `paths` of tool `grep` does not fit its schema: type: 1 has type \"integer\", want \"string\" [argument-type]",
		"r.yaml:7:85: argument `size` of tool `grep` must be a whole number or null, got a text [argument-type]",
		"r.yaml:7:96: argument `deep` of tool `grep` must be true or false, got a list [argument-type]",
		"r.yaml:9:42: tool `grep` needs argument `pattern`; give it under `args` [missing-argument]",
		"r.yaml:9:78: tool `none` has no argument `x`; it has none [unknown-argument]",
		"r.yaml:10:19: tool `open` needs argument `path`; give it under `args` [missing-argument]",
		"r.yaml:10:32: warning: tool `open` has no argument `pth`; did you mean \"path\"? [unknown-argument]",
		"r.yaml:10:58: argument `from` of tool `open` does not fit its schema: maximum: 5/1 is greater than 4.000000 [argument-type]",
		"r.yaml:15:19: warning: tool `bash` is off: it runs any command; turn it on with --bash [tool-off]",
		"r.yaml:15:19: tool `bash` needs argument `command`; give it under `args` [missing-argument]",
		"r.yaml:16:19: no tool `bsh`; did you mean \"bash\"? [unknown-tool]",
		"r.yaml:17:19: warning: tool `wget` is off [tool-off]",
		"r.yaml:19:19: no tool `RunTests`; here it is called \"bash\" [unknown-tool]",
	}
	var got []string
	for _, p := range recipe.Check(r, w) {
		got = append(got, p.Error()+" ["+p.Code+"]")
		inFile(t, r.Source, p)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if ps := recipe.Check(r, &recipe.World{Tools: w.Tools, ToolsOff: w.ToolsOff}); len(ps) != 4 || ps.Err() == nil {
		t.Errorf("without schemas: %v", ps)
	}
	if ps := recipe.Check(r, &recipe.World{ToolsOff: w.ToolsOff}); len(ps) != 2 || ps.Err() != nil {
		t.Errorf("only what is off: %v", ps)
	}
}

// A tool's schema may be anything: what cannot be checked is not.
func TestCheckOddSchemas(t *testing.T) {
	t.Parallel()
	r := parse(t, "name: t\nsteps: [{id: a, tool: t, args: {a: 1, b: [{}]}}]\n")
	for text, want := range map[string]string{
		`true`: "", `{}`: "", `{"properties": {"a": null}}`: "", `{"properties": {"a": {"properties": {"b": null}}, "b": {"items": null}}}`: "", `{"properties": {"a": {"type": "nope"}}}`: "*",
		`{"properties": {"a": {"pattern": "("}}}`: "", `{"properties": {"a": {"$ref": "#/properties/a"}}}`: "", `{"required": ["c"], "additionalProperties": {"type": "string"}}`: "missing-argument",
		`{"$defs": {"a": null}, "properties": {"a": {"minimum": 5}}}`: "*", `{"properties": {"a": {"$ref": "#"}}}`: "*", `{"allOf": [null], "properties": {"a": {"allOf": [null]}}}`: "*",
		`{"properties": {"a": {"type": "string"}, "b": {"$ref": "https://example.com"}}}`: "", `{"additionalProperties": false}`: "unknown-argument unknown-argument", `{"additionalProperties": false, "patternProperties": {"a": {}}}`: "",
		`{"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"type": "string"}}}`: "argument-type",
	} {
		s := &jsonschema.Schema{}
		if err := json.Unmarshal([]byte(text), s); err != nil {
			t.Fatal(err)
		}
		var codes []string
		for _, p := range recipe.Check(r, &recipe.World{ToolInputs: map[string]*jsonschema.Schema{"t": s}}) {
			codes = append(codes, p.Code)
		}
		if got := strings.Join(codes, " "); got != want && want != "*" {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestWalk(t *testing.T) {
	t.Parallel()
	r := parse(t, `name: w
steps:
  - {id: a, workflow: x}
  - {id: b, foreach: {in: [1], steps: [{id: c, parallel: [{id: d, tool: t}, {id: e, workflow: y}]}, {id: f, workflow: x}]}}
  - {id: g, loop: {max: 1, steps: [{id: h, subagent: s, prompt: p}, {id: i, ask: q}]}}
`)
	var ids []string
	r.Walk(func(s *recipe.Step, depth int) bool {
		ids = append(ids, strings.Repeat(">", depth)+s.ID+":"+s.Kind())
		return s.ID != "g"
	})
	if got, want := strings.Join(ids, " "), "a:workflow b:foreach >c:parallel >>d:tool >>e:workflow >f:workflow g:loop"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if d := cmp.Diff([]string{"x", "y"}, r.Uses()); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([][]string{{"s"}, {"t"}}, [][]string{r.AgentNames(), r.ToolNames()}); d != "" {
		t.Error(d)
	}
}

// A step reads what it depends on and what it, or what is inside of it, refers to; in the order of the file.
func TestReads(t *testing.T) {
	t.Parallel()
	r := parse(t, `name: reads
inputs: [{name: l, type: list}]
steps:
  - {id: a, tool: t}
  - {id: b, tool: t, depends_on: a}
  - {id: c, tool: t, depends_on: b}
  - {id: d, subagent: s, prompt: "{{steps.a.output}}", depends_on: [c]}
  - id: e
    depends_on: [d]
    when: steps.b.status == "done"
    foreach:
      in: "{{inputs.l}}"
      steps:
        - {id: f, tool: t, args: {x: "{{steps.a.output}}"}}
        - id: g
          depends_on: [f]
          loop:
            max: 2
            until: steps.h.output && steps.c.output && steps.f.output
            steps: [{id: h, tool: t, gate: {message: "{{steps.f.output}}"}}]
            output: "{{steps.h.output}}{{steps.d.output}}"
`)
	got := map[string]string{}
	r.Walk(func(s *recipe.Step, _ int) bool {
		got[s.ID] = strings.Join(s.Reads, " ")
		return true
	})
	want := map[string]string{"a": "", "b": "a", "c": "b", "d": "a c", "e": "a b c d", "f": "", "g": "f", "h": ""}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestInputs(t *testing.T) {
	t.Parallel()
	r := parse(t, `name: inputs
inputs:
  topic: {description: What., required: true}
  depth:
  n: {type: integer, default: 3.0, enum: [1, 3]}
  f: {type: number, default: +.5}
  ok: {type: boolean, default: True}
  l: {type: list, default: [a, 0x10]}
  o: {type: object, default: {"b": 1, a: "<x>"}}
steps: [{id: a, tool: t}]
`)
	want := []recipe.Input{
		{Name: "topic", Description: "What.", Type: "string", Required: true, Pos: recipe.Pos{Line: 3, Col: 3}},
		{Name: "depth", Type: "string", Pos: recipe.Pos{Line: 4, Col: 3}},
		{Name: "n", Type: "integer", Default: json.RawMessage("3"), Enum: []json.RawMessage{json.RawMessage("1"), json.RawMessage("3")}, Pos: recipe.Pos{Line: 5, Col: 3}},
		{Name: "f", Type: "number", Default: json.RawMessage("0.5"), Pos: recipe.Pos{Line: 6, Col: 3}},
		{Name: "ok", Type: "boolean", Default: json.RawMessage("true"), Pos: recipe.Pos{Line: 7, Col: 3}},
		{Name: "l", Type: "list", Default: json.RawMessage(`["a",16]`), Pos: recipe.Pos{Line: 8, Col: 3}},
		{Name: "o", Type: "object", Default: json.RawMessage(`{"a":"<x>","b":1}`), Pos: recipe.Pos{Line: 9, Col: 3}},
	}
	if d := cmp.Diff(want, r.Inputs); d != "" {
		t.Error(d)
	}
	raw, err := json.Marshal(recipe.InputSchema(r.Inputs))
	if err != nil {
		t.Fatal(err)
	}
	const schema = `{"type":"object","properties":{"topic":{"type":"string","description":"What."},"depth":{"type":"string"},"n":{"type":"integer","default":3,"enum":[1,3]},"f":{"type":"number","default":0.5},` +
		`"ok":{"type":"boolean","default":true},"l":{"type":"array","default":["a",16]},"o":{"type":"object","default":{"a":"<x>","b":1}}},"required":["topic"],"additionalProperties":false}`
	var a, b any
	_ = json.Unmarshal(raw, &a)
	_ = json.Unmarshal([]byte(schema), &b)
	if d := cmp.Diff(b, a); d != "" {
		t.Errorf("%s\n%s", d, raw)
	}
	if at := strings.Index(string(raw), `"depth"`); at < strings.Index(string(raw), `"topic"`) || at > strings.Index(string(raw), `"n":`) {
		t.Errorf("not in their order: %s", raw)
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	r := parse(t, `name: d
steps:
  - {id: a, foreach: {in: [1], steps: [{id: b, subagent: s, prompt: p, retry: 3, timeout: 0.5s, gate: human}]}}
`)
	each := r.Steps[0].Foreach
	b := each.Steps[0]
	if r.Concurrency != 16 || each.As != "item" || b.OnError != "continue" || b.Tries != 2 || b.Retry.Attempts != 3 || b.Retry.Backoff != 1 ||
		b.Timeout.String() != "500ms" || b.Gate == nil || b.Gate.Message != nil || r.Steps[0].Pos != (recipe.Pos{Line: 3, Col: 10}) || b.Agent.Pos != (recipe.Pos{Line: 3, Col: 58}) {
		t.Errorf("%+v %+v", b, b.Agent)
	}
}

func TestInnerBudget(t *testing.T) {
	t.Parallel()
	inner := parse(t, "name: inner\nbudget: {agents: 2}\nsteps: [{id: a, tool: t}]\n")
	w := &recipe.World{Workflows: map[string]*recipe.Callee{"inner": {Name: "inner", Recipe: inner}}}
	for text, want := range map[string]int{"": 1, "budget: {tokens: 9}\n": 0} {
		ps := recipe.Check(parse(t, "name: outer\n"+text+"steps: [{id: a, workflow: inner}]\n"), w)
		if len(ps) != want || want == 1 && (ps[0].Code != "inner-budget" || !ps[0].Warning) {
			t.Error(text, ps)
		}
	}
}
