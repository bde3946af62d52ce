package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/catalog"
	"github.com/superstep-dev/superstep/graph/draw"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/project"
	"github.com/superstep-dev/superstep/transcript"
	"github.com/superstep-dev/superstep/workflow"
	"github.com/superstep-dev/superstep/workflow/recipe"
)

func (a *app) workflowsShow() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME|FILE", Short: "Show what a workflow is, takes and looks like", Args: a.named, ValidArgsFunction: a.workflowNames,
		Long: `Show what a workflow is, takes and looks like

A recipe may also be named by its path, and a draft by its name. With -v its text is shown too. To begin a
recipe of your own with the text of another: workflows new NAME --from OTHER.`,
		Example: examples(a.cfg.Name, "workflows show research", "", "workflows show drafts/brief.yaml -v", "", "workflows show research -o json", ""),
		RunE: func(_ *cobra.Command, args []string) error {
			e, listed, p, err := a.recipe(args[0])
			switch {
			case err != nil:
				return err
			case e != nil:
				return a.showRecipe(p, e, listed)
			}
			w, err := a.workflow(args[0])
			if err != nil {
				return err
			}
			if a.programs() {
				return a.out.json(workflowsJSON(w), a.set.output == "json")
			}
			a.out.line(w.Name + "\n\n" + w.Description)
			if w.NeedsModel {
				a.out.line("needs    a language model")
			}
			a.printInputs(inputsJSON(w))
			if flow, err := graphOf(w, nil); err == nil {
				a.out.line("\n" + strings.TrimRight(draw.Text(flow.Shape(), nil), "\n"))
			}
			return nil
		},
	}
}

// recipe gives the recipe that a word names by path or by name, a draft if nothing else has that name. It
// gives none for a name that no recipe has.
func (a *app) recipe(word string) (*catalog.RecipeFile, *catalog.Item, *project.Project, error) {
	set := a.allRuns()
	p, wrong := a.host().Recipes()
	if a.namesFile(word, set) {
		e, err := a.host().Load(word)
		if err == nil && e.Recipe == nil {
			err = a.invalidEntry(e)
		}
		if err != nil || p == nil {
			return nil, nil, p, errors.Join(err, wrong)
		}
		return e, &catalog.Item{Name: e.Name, Kind: "recipe", Source: "file", Path: e.File, State: catalog.Usable, Description: e.Recipe.Description}, p, nil
	}
	if p == nil {
		return nil, nil, nil, nil
	}
	e, listed, err := p.Look(word)
	var none *catalog.NotFoundError
	var bad *catalog.InvalidError
	switch {
	case errors.As(err, &bad):
		return nil, nil, p, a.invalidEntry(bad.Entry)
	case err == nil:
		return e, &listed, p, nil
	case !errors.As(err, &none):
		return nil, nil, p, err
	}
	if _, err := set.Find(word); err == nil {
		return nil, nil, p, nil
	}
	if e, listed, err = p.Draft(word); err != nil {
		return nil, nil, p, nil
	}
	if e.Recipe == nil {
		return nil, nil, p, a.invalidEntry(e)
	}
	return e, &listed, p, nil
}

// drawable is the workflow of a recipe to look at, trusted or not, or of a name.
func (a *app) drawable(word string) (*workflow.Workflow, error) {
	e, _, _, err := a.recipe(word)
	switch {
	case err != nil:
		return nil, err
	case e == nil:
		return a.workflow(word)
	}
	return a.host().Draw(e.Recipe)
}

func (a *app) showRecipe(p *project.Project, e *catalog.RecipeFile, listed *catalog.Item) error {
	r := e.Recipe
	judgements := a.host().JudgementsIn(p, e)
	if a.programs() {
		row := recipeJSON(e, listed)
		row.NeedsModel = len(judgements) > 0
		return a.out.json(struct {
			workflowJSON
			Steps      []host.Step        `json:"steps"`
			Judgements []recipe.Judgement `json:"judgements,omitempty"`
			Text       string             `json:"text"`
		}{row, host.Steps(r.Steps), judgements, string(e.Text)}, a.set.output == "json")
	}
	a.header(listed)
	if len(listed.Aliases) > 0 {
		a.out.line("also     " + strings.Join(listed.Aliases, ", "))
	}
	if e.Draft {
		origin, _, _ := strings.Cut(string(e.Text), "\n")
		a.out.line("draft    " + transcript.Line(strings.TrimPrefix(origin, "# ")) + "; " + a.hint("workflows", "approve", e.Name))
	}
	for i := range judgements {
		a.out.line("needs    a language model: " + transcript.Line(judgements[i].String()))
	}
	for _, w := range listed.Warnings {
		a.out.line("warning  " + transcript.Line(w))
	}
	a.printInputs(inputsJSON(sketch(r)))
	a.out.line("\nSteps:")
	a.printSteps(host.Steps(r.Steps))
	if w, err := a.host().Draw(r); err != nil {
		a.out.line("\nno graph: " + transcript.Line(err.Error()))
	} else if flow, err := graphOf(w, nil); err == nil {
		a.out.line("\n" + strings.TrimRight(draw.Text(flow.Shape(), nil), "\n"))
	}
	if a.set.verbose {
		a.out.line("\n" + strings.TrimRight(transcript.Clean(string(e.Text)), "\n"))
	}
	return nil
}

// printInputs writes what a workflow takes.
func (a *app) printInputs(inputs []inputJSON) {
	a.out.line("")
	for _, l := range inputLines(inputs) {
		a.out.line(l)
	}
}

// inputLines are what a workflow takes, as a table.
func inputLines(inputs []inputJSON) []string {
	lines := []string{"Inputs:"}
	width := 12
	for i := range inputs {
		width = max(width, min(32, ansi.StringWidth(transcript.Line(inputs[i].Name))))
	}
	for i := range inputs {
		in := &inputs[i]
		name := transcript.Line(in.Name)
		name += strings.Repeat(" ", max(0, width-ansi.StringWidth(name)))
		lines = append(lines, strings.TrimRight(fmt.Sprintf("  %s  %-8s %s", name, typeWord(in.Type), transcript.Line(inputText(*in))), " "))
	}
	if len(inputs) == 0 {
		lines = append(lines, "  none")
	}
	return lines
}

// typeWord is the type of an input as recipes and people call it.
func typeWord(kind string) string {
	if kind == "array" {
		return "list"
	}
	return kind
}

// inputText is what people are told of an input.
func inputText(in inputJSON) string {
	text := in.Description
	if len(in.Enum) > 0 {
		var words []string
		for _, v := range in.Enum {
			words = append(words, valueText(v))
		}
		text += " (" + strings.Join(words, ", ") + ")"
	}
	switch {
	case in.Required:
		text += " (required)"
	case len(in.Default) > 0:
		var v any
		if json.Unmarshal(in.Default, &v) == nil {
			text += " (default " + valueText(v) + ")"
		}
	}
	return strings.TrimSpace(text)
}

// valueText is a JSON value as it is typed: a text as it is.
func valueText(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

// printSteps writes steps as a table, those within others indented.
func (a *app) printSteps(steps []host.Step) {
	type row struct{ id, does, rest string }
	var rows []row
	var add func(steps []host.Step, depth int)
	add = func(steps []host.Step, depth int) {
		for _, s := range steps {
			rest := s.Notes
			if len(s.After) > 0 {
				rest = append([]string{"after " + strings.Join(s.After, ", ")}, rest...)
			}
			rows = append(rows, row{
				strings.Repeat("  ", depth) + transcript.Line(s.ID), transcript.Line(strings.TrimSpace(s.Kind + " " + s.Uses)),
				transcript.Line(strings.Join(rest, "; ")),
			})
			add(s.Steps, depth+1)
		}
	}
	add(steps, 1)
	id, does := 0, 0
	for _, r := range rows {
		id, does = max(id, ansi.StringWidth(r.id)), max(does, ansi.StringWidth(r.does))
	}
	for _, r := range rows {
		a.out.line(strings.TrimRight(fmt.Sprintf("%-*s  %-*s  %s", id, r.id, does, r.does, r.rest), " "))
	}
}
