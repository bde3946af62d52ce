package recipe_test

import (
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/internal/recipe"
)

// What takes more than finding and quoting is known from the recipe, whatever it is called (Y4).
func TestJudgements(t *testing.T) {
	q := &recipe.Quoting{
		Tools: func(agent string) ([]string, bool) {
			tools, ok := map[string][]string{
				"researcher": {"search_docs", "web_search", "read_file"}, "explorer": {"read_file", "grep"}, "synthesizer": {"read_file", "write_file", "think"},
				"worker": {"read_file", "grep", "edit_file"}, "general": nil,
			}[agent]
			return tools, ok
		},
		Fits: func(s *jsonschema.Schema) string {
			if s.Type == "string" || s.Type == "array" {
				return ""
			}
			return "its answer is a " + s.Type
		},
	}
	for _, c := range []struct{ name, steps, want string }{
		{"a question", "- {id: a, subagent: researcher, prompt: \"What is {{inputs.x}}?\"}", ""},
		{"gather and merge", `
- {id: a, subagent: explorer, prompt: "Find out about {{inputs.x}}."}
- {id: b, subagent: synthesizer, depends_on: [a], prompt: "Write a page about {{inputs.x}} from these notes:\n\n{{steps.a.output}}"}`, ""},
		{"texts and lists", `
- {id: a, subagent: researcher, prompt: "Find out about {{inputs.x}}.", output: {type: array, items: {type: string}}}
- {id: b, depends_on: [a], foreach: {in: "{{steps.a.output}}", as: quote, steps: [{id: c, subagent: synthesizer, prompt: "Write down {{quote}}"}]}}`, ""},
		{"a step that failed", `
- {id: a, subagent: researcher, prompt: "Find out about {{inputs.x}}."}
- {id: b, subagent: researcher, depends_on: [a], when: steps.a.status == "failed", prompt: "Find out about {{inputs.x}}."}`, ""},
		{"tools and people decide", `
- {id: a, tool: glob, args: {pattern: "{{inputs.x}}"}}
- {id: p, ask: {question: "Go on?", options: ["yes", "no"]}}
- {id: b, subagent: explorer, depends_on: [a, p], when: len(steps.a.output) > 0 && steps.p.output == "yes", prompt: "What is this?"}`, ""},
		{"no such agent", "- {id: a, subagent: nobody, prompt: \"What is {{inputs.x}}?\"}", ""},
		{"limits", "- {id: a, subagent: explorer, prompt: \"What is {{inputs.x}}? Change nothing. Rename no file.\"}", ""},

		{"a schema", "- {id: a, subagent: researcher, prompt: \"What is {{inputs.x}}?\", output: {type: object}}", "a: its answer is a object"},
		{"all tools", "- {id: a, subagent: general, prompt: \"What is {{inputs.x}}?\"}", "a: agent general may use every tool"},
		{"a tool that acts", "- {id: a, subagent: worker, prompt: \"What is {{inputs.x}}\"}", "a: agent worker works with edit_file"},
		{"nothing to search", "- {id: a, subagent: synthesizer, prompt: \"What is {{inputs.x}}?\"}", "a: agent synthesizer can search no documents, and has no output of an earlier step"},
		{"a verb", "- {id: a, subagent: explorer, prompt: \"Judge {{inputs.x}}\"}", "a: it is told to judge"},
		{"a later verb", "- {id: a, subagent: explorer, prompt: \"Find {{inputs.x}}.\\n\\nRules:\\n- Rate each place.\"}", "a: it is told to rate"},
		{"writing without material", "- {id: a, subagent: explorer, prompt: \"Write a poem about {{inputs.x}}.\"}", "a: it is told to write"},
		{"a classification", `
- {id: a, subagent: researcher, prompt: "Which kind is {{inputs.x}}?"}
- {id: b, subagent: researcher, depends_on: [a], when: steps.a.output == "bug", prompt: "What is {{inputs.x}}?"}`, `b: it depends on what agents answer: steps.a.output == "bug"`},
		{"a value between", `
- {id: a, subagent: researcher, prompt: "Which kind is {{inputs.x}}?"}
- {id: v, depends_on: [a], value: 'steps.a.output + "!"'}
- {id: b, subagent: researcher, depends_on: [v], when: steps.v.output == "bug!", prompt: "What is {{inputs.x}}?"}`, `b: it depends on what agents answer`},
		{"items", `
- {id: a, subagent: researcher, prompt: "Find {{inputs.x}}.", output: {type: array, items: {type: string}}}
- {id: b, depends_on: [a], foreach: {in: "{{steps.a.output}}", steps: [{id: c, subagent: researcher, when: len(item) > 3, prompt: "What is {{item}}?"}]}}`, "c: it depends on what agents answer"},
		{"a judge of a loop", "- {id: l, loop: {max: 3, until: steps.a.output == \"done\", steps: [{id: a, subagent: explorer, prompt: \"What is {{inputs.x}}?\"}]}}", "l: it depends on what agents answer"},
		{"several", `
- {id: l, parallel: [{id: a, subagent: worker, prompt: "What is {{inputs.x}}?"}, {id: b, subagent: explorer, prompt: "Fix {{inputs.x}}"}]}
- {id: c, subagent: researcher, depends_on: [l], when: steps.l.output.a == "x", prompt: "What is {{inputs.x}}?"}`, "a: agent worker works with edit_file|b: it is told to fix|c: it depends on what agents answer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, problems := recipe.Parse("x.yaml", []byte("name: x\ninputs: [x]\nsteps:\n"+strings.TrimPrefix(c.steps, "\n")+"\n"))
			if problems.Err() != nil {
				t.Fatal(problems)
			}
			var got []string
			for _, j := range r.Judgements(q) {
				got = append(got, j.Step+": "+j.Why)
			}
			want := strings.Split(c.want, "|")
			if c.want == "" {
				want = nil
			}
			if len(got) != len(want) {
				t.Fatalf("%q, want %q", got, want)
			}
			for i := range got {
				if !strings.HasPrefix(got[i], want[i]) {
					t.Errorf("%q, want %q", got[i], want[i])
				}
			}
		})
	}
}
