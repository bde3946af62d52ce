package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/internal/recipe"
	"github.com/superstep-dev/superstep/journal"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/workflow"
)

// language explains to a model how to write recipes. Its example uses every kind of step.
const language = `Write a workflow as a recipe and hand it in: a procedure in steps, that can be run again with other inputs. ` +
	`It is a draft, which can be run once a person has approved it. What is wrong with it you are told, with line and column; mend that and save it again.

Example, with every kind of step:
` + example + `
Inputs: type is string (the default), integer, number, boolean, list or object; optional are description, required, default, enum. Nothing is converted: quote texts such as "no" or "3".
Steps begin as soon as the steps in their depends_on have ended; those without it begin at once, side by side. ids are unique in the whole recipe. A step is of exactly one kind: subagent with prompt; tool with args; workflow with inputs; ask; parallel; foreach (the item is {{item}}, or {{NAME}} with as: NAME; its output is the list of the outputs); loop (max is required; {{loop.round}}, {{loop.output}} of the round before).
Any step may have when: CONDITION (false skips it), gate: human (a person approves before it begins), output: JSON SCHEMA (then the output is JSON), retry: 3, timeout: 90s (with a unit), on_error: continue (default: the error is its output), fail or skip.
Templates have no logic: {{inputs.NAME}}, {{steps.ID.output}}, and below: {{steps.ID.output.items.0.title}}. A step may refer only to steps that it depends on, directly or through others, and not into containers. A text that is one reference and nothing else keeps the type of the value.
Conditions are expressions: inputs.depth > 2 and steps["step-a"].output.score >= 0.5, with len, all, any, filter, map, contains, lower, and so on.
The output of the recipe defaults to that of its last step.`

// example is a recipe, which a test holds to be right.
const example = `name: topic-brief
description: Researches a topic and writes a brief that a person has seen.
inputs:
  - {name: topic, description: what it is about, required: true}
  - {name: depth, type: integer, default: 2}
steps:
  - id: plan
    subagent: general-purpose
    prompt: "Give at most 5 questions on {{inputs.topic}}, as JSON."
    output: {type: object, required: [questions], properties: {questions: {type: array, items: {type: string}}}}
  - id: answers
    depends_on: [plan]
    foreach:
      in: "{{steps.plan.output.questions}}"
      steps:
        - {id: answer, subagent: general-purpose, prompt: "Answer with sources: {{item}}"}
  - id: checks
    depends_on: [answers]
    when: inputs.depth > 1
    parallel:
      - {id: facts, subagent: general-purpose, prompt: "Check the facts."}
      - {id: links, tool: grep, args: {pattern: "http", path: "."}}
  - id: draft
    depends_on: [answers, checks]
    loop:
      max: 3
      until: steps.write.output contains "DONE"
      steps:
        - id: write
          subagent: general-purpose
          prompt: |
            Write or improve the brief; end with DONE when it is good.
            So far: {{loop.output}}
  - id: tone
    ask: {question: "Which tone for {{inputs.topic}}?", options: [plain, formal]}
  - id: polish
    depends_on: [draft, tone]
    workflow: polish-text
    inputs: {text: "{{steps.draft.output}}", tone: "{{steps.tone.output}}"}
output: "{{steps.polish.output}}"
`

// drafting handles the recipes that agents write.
type drafting struct {
	keep  func(ctx context.Context, name string, text []byte) (string, error)
	check func(r *recipe.Recipe) recipe.Problems // nil for nothing
}

func (k *desk) saveAction(d *drafting) *agent.Action {
	return &agent.Action{
		Tool: &tool.Tool{
			Name: SaveTool, Effect: tool.Idempotent, Description: language,
			Input: object([]string{"name", "yaml"}, map[string]*jsonschema.Schema{
				"name": {Type: "string", Description: "the name in the recipe: lower-case letters and digits, with single hyphens between"},
				"yaml": {Type: "string", Description: "the recipe"},
			}, "name", "yaml"),
		},
		Run: func(ctx context.Context, scope *journal.Scope, c *tool.Call) (tool.Result, error) {
			return k.saveWorkflow(ctx, scope, c, d)
		},
	}
}

// verdict holds the findings about a recipe.
type verdict struct {
	Wrong string `json:"wrong,omitempty"` // "" for nothing
	Odd   string `json:"odd,omitempty"`
}

func (k *desk) saveWorkflow(ctx context.Context, scope *journal.Scope, c *tool.Call, d *drafting) (tool.Result, error) {
	var in struct{ Name, YAML string }
	if err := json.Unmarshal(c.Args, &in); err != nil {
		return tool.Result{}, err
	}
	// The known agents and tools may change later, so the findings are recorded.
	e := &journal.Effect{Key: "check", Kind: "note", Name: SaveTool}
	found, err := journal.Do(ctx, scope, e, func(context.Context, string) (verdict, error) { return d.judge(in.Name, in.YAML), nil })
	if err != nil {
		return tool.Result{}, err
	}
	if found.Wrong != "" {
		return tool.Failed("This is no recipe yet, and nothing was saved. Mend it and save it again:\n\n" + found.Wrong), nil
	}
	digest, err := journal.Hash(in.YAML)
	if err != nil {
		return tool.Result{}, err
	}
	e = &journal.Effect{Key: "draft/" + in.Name + "@" + digest, Kind: "save", Name: in.Name, Repeat: journal.RepeatByKey, Hash: digest}
	where, err := journal.Do(ctx, k.task.Scope().Reuse(), e, func(ctx context.Context, _ string) (string, error) {
		return d.keep(ctx, in.Name, []byte(in.YAML))
	})
	switch {
	case err != nil && (ctx.Err() != nil || agent.OfRun(err)):
		return tool.Result{}, err
	case err != nil:
		return tool.Failed(fmt.Sprintf("the recipe is right, and could not be kept: %v", err)), nil
	}
	text := fmt.Sprintf("Kept as a draft in %s. It can be run once a person has approved it, with: superstep workflows approve %s", where, in.Name)
	if _, err := workflow.Set(k.flows.opt.Workflows).Find(in.Name); err == nil {
		text += "\nThere is a workflow of that name already; say so to who is to approve it."
	}
	if found.Odd != "" {
		text += "\n\n" + found.Odd
	}
	return tool.Result{Text: text}, nil
}

// judge returns the errors of a recipe, and its warnings.
func (d *drafting) judge(name, text string) verdict {
	r, problems := recipe.Parse(line(name)+".yaml", []byte(text))
	if r != nil && d.check != nil {
		problems = append(problems, d.check(r)...)
	}
	var v verdict
	if err := problems.Err(); err != nil {
		v.Wrong = shown(problems, text)
	} else {
		v.Odd = shown(problems, text)
	}
	if r != nil && r.Name != name {
		v.Wrong = strings.TrimPrefix(v.Wrong+fmt.Sprintf("\nThe recipe has the name %q, and you save it as %q: make them the same.", r.Name, line(name)), "\n")
	}
	return v
}

// shown are problems with the lines they are at.
func shown(problems recipe.Problems, text string) string {
	const most = 20
	var b strings.Builder
	for _, p := range problems[:min(len(problems), most)] {
		b.WriteString(p.Error() + "\n")
		if at := p.Excerpt([]byte(text)); at != "" {
			b.WriteString("    " + strings.ReplaceAll(at, "\n", "\n    ") + "\n")
		}
	}
	if left := len(problems) - most; left > 0 {
		fmt.Fprintf(&b, "and %d more\n", left)
	}
	return b.String()
}
