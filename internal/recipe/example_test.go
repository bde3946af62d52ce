package recipe_test

import (
	"encoding/json"
	"fmt"

	"github.com/superstep-dev/superstep/internal/recipe"
)

func Example() {
	text := []byte(`name: brief
inputs:
  - name: topic
    required: true
steps:
  - id: gather
    subagent: researcher
    prompt: Research {{inputs.topic}}.
  - id: write
    subagent: writer
    depends_on: [gather]
    when: len(steps.gather.output) > 0
    prompt: |
      Write a brief from this:
      {{steps.gather.output}}
`)
	r, problems := recipe.Parse("brief.yaml", text)
	if err := problems.Err(); err != nil {
		fmt.Println(err)
		return
	}
	scope := &recipe.Scope{
		Inputs: map[string]any{"topic": "tea"},
		Step: func(string) (*recipe.Result, bool) {
			return &recipe.Result{Status: recipe.Done, Output: json.RawMessage(`"Tea is {{brewed}}."`)}, true
		},
	}
	write := r.Steps[1]
	holds, _ := write.When.Holds(scope)
	prompt, _ := write.Agent.Prompt.Render(scope)
	fmt.Println(holds, write.Reads)
	fmt.Print(prompt)
	// Output:
	// true [gather]
	// Write a brief from this:
	// Tea is {{brewed}}.
}

func ExampleParse_problems() {
	text := []byte(`name: brief
steps:
  - id: write
    subagent: writer
    prompt: Write on {{inputs.topic}}.
    timeout: 5
`)
	_, problems := recipe.Parse("brief.yaml", text)
	for _, p := range problems {
		fmt.Println(p)
		fmt.Println(p.Excerpt(text))
	}
	// Output:
	// brief.yaml:5:24: {{inputs.topic}}: input `topic` is not declared; there are no inputs: add it under `inputs`
	//     prompt: Write on {{inputs.topic}}.
	//                        ^^^^^^^^^^^^
	// brief.yaml:6:14: `timeout` is 5; add a unit: 5s
	//     timeout: 5
	//              ^
}
