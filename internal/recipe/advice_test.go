package recipe_test

import (
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/internal/recipe"
)

// What is allowed and hardly meant is warned of, each at its place.
func TestAdvice(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"steps: [{id: a, subagent: x, prompt: \"say \u202Eevil\"}]":                                                                            "hidden character, U+202E",
		"steps: [{id: a, subagent: x, prompt: \"say \\u202E\"}]":                                                                               "hidden character, U+202E",
		"steps: [{id: a, subagent: x, prompt: \"family \U0001F469\u200D\U0001F4BB\"}]":                                                         "",
		"inputs: [topic, other]\nsteps: [{id: a, subagent: x, prompt: \"{{inputs.topic}}\"}]":                                                  "nothing refers to the input `other`",
		"inputs: [topic]\nsteps: [{id: a, value: inputs.topic}]":                                                                               "",
		"steps: [{id: a, value: \"1\"}, {id: b, subagent: x, prompt: p}]":                                                                      "nothing refers to the value `a`",
		"steps: [{id: a, subagent: x, prompt: p, when: \"false\"}]":                                                                            "step `a` never runs",
		"inputs: [list]\nsteps: [{id: f, foreach: {in: \"{{inputs.list}}\", steps: [{id: a, tool: t}]}}]":                                      "give that `type: list`",
		"steps: [{id: s, subagent: x, prompt: p}, {id: f, depends_on: [s], foreach: {in: \"{{steps.s.output}}\", steps: [{id: a, tool: t}]}}]": "an `output` schema of type array",
		"steps: [{id: s, tool: t}, {id: f, depends_on: [s], foreach: {in: \"{{steps.s.output}}\", steps: [{id: a, tool: t}]}}]":                "",
	} {
		r, problems := recipe.Parse("test.yaml", []byte("name: test\n"+text))
		var got []string
		for _, p := range problems {
			got = append(got, p.Text)
		}
		all := strings.Join(got, "; ")
		if r == nil || !strings.Contains(all, want) || want == "" && all != "" {
			t.Errorf("%s\ngives %q, want %q", text, all, want)
		}
	}
}
