package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/graph/draw"
	"github.com/superstep-dev/superstep/project"
	"github.com/superstep-dev/superstep/transcript"
	"github.com/superstep-dev/superstep/workflow"
	"github.com/superstep-dev/superstep/workflow/recipe"
	"github.com/superstep-dev/superstep/workflow/recipe/library"
)

func (a *app) workflowsShow() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME|FILE", Short: "Show what a workflow is, takes and looks like", Args: a.named, ValidArgsFunction: a.workflowNames,
		Long: `Show what a workflow is, takes and looks like

A recipe may also be named by its path, and a draft by its name. With -v its text is shown too. To begin a
recipe of your own with the text of another: workflows new NAME --from OTHER.`,
		Example: examples(a.opt.Name, "workflows show research", "", "workflows show drafts/brief.yaml -v", "", "workflows show research -o json", ""),
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
func (a *app) recipe(word string) (*library.Entry, *project.Entry, *project.Project, error) {
	if a.opt.Recipe == nil {
		return nil, nil, nil, nil
	}
	set, err := a.workflows("")
	if err != nil {
		return nil, nil, nil, err
	}
	p := a.recipes.project
	if a.namesFile(word, set) {
		e, err := a.load(word)
		if err == nil && e.Recipe == nil {
			err = a.invalidEntry(e)
		}
		if err != nil || p == nil {
			return nil, nil, p, errors.Join(err, a.recipes.wrong)
		}
		return e, &project.Entry{Name: e.Name, Kind: "recipe", Source: "file", Path: e.File, State: project.Usable, Description: e.Recipe.Description}, p, nil
	}
	if p == nil {
		return nil, nil, nil, nil
	}
	e, listed, err := p.Look(word)
	var none *library.NotFoundError
	var bad *library.InvalidError
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
	e, _, p, err := a.recipe(word)
	switch {
	case err != nil:
		return nil, err
	case e == nil:
		return a.workflow(word)
	}
	return a.picture(p, e.Recipe)
}

// picture is the workflow of a recipe to look at.
func (a *app) picture(p *project.Project, r *recipe.Recipe) (*workflow.Workflow, error) {
	b, err := p.BundleOf(r)
	if err != nil {
		return nil, err
	}
	s := a.setup("")
	s.Project.Workflows, s.Project.Taken, s.Project.Recipes = a.recipes.others, a.recipes.taken, &a.recipes.cache
	return a.opt.Recipe(s, b)
}

func (a *app) showRecipe(p *project.Project, e *library.Entry, listed *project.Entry) error {
	r := e.Recipe
	if a.programs() {
		return a.out.json(struct {
			workflowJSON
			Steps []planStep `json:"steps"`
			Text  string     `json:"text"`
		}{recipeJSON(e, listed), planSteps(r.Steps), string(e.Text)}, a.set.output == "json")
	}
	a.header(listed)
	if len(listed.Aliases) > 0 {
		a.out.line("also     " + strings.Join(listed.Aliases, ", "))
	}
	if e.Draft {
		origin, _, _ := strings.Cut(string(e.Text), "\n")
		a.out.line("draft    " + transcript.Line(strings.TrimPrefix(origin, "# ")) + "; " + a.hint("workflows", "approve", e.Name))
	}
	for _, w := range listed.Warnings {
		a.out.line("warning  " + transcript.Line(w))
	}
	a.printInputs(inputsJSON(sketch(r)))
	a.out.line("\nSteps:")
	a.printSteps(planSteps(r.Steps))
	if w, err := a.picture(p, r); err != nil {
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

// planStep is a step as it is listed.
type planStep struct {
	ID    string     `json:"id"`
	Kind  string     `json:"kind"`
	Uses  string     `json:"uses,omitempty"` // the agent, tool or workflow
	After []string   `json:"depends_on,omitempty"`
	Notes []string   `json:"notes,omitempty"` // what else there is to know: when, gate, retry
	Steps []planStep `json:"steps,omitempty"`
}

func planSteps(steps []*recipe.Step) []planStep {
	var out []planStep
	for _, s := range steps {
		p := planStep{ID: s.ID, Kind: string(s.Kind()), After: s.DependsOn, Notes: stepNotes(s)}
		switch {
		case s.Agent != nil:
			p.Uses = s.Agent.Name
		case s.Tool != nil:
			p.Uses = s.Tool.Name
		case s.Workflow != nil:
			p.Uses = s.Workflow.Name
		}
		if body := s.Body(); body != nil {
			p.Steps = planSteps(body.Steps)
		}
		out = append(out, p)
	}
	return out
}

func stepNotes(s *recipe.Step) []string {
	var out []string
	note := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	width := 0
	switch {
	case s.Parallel != nil:
		width = s.Parallel.Width
	case s.Foreach != nil:
		note("for each %s", s.Foreach.As)
		width = s.Foreach.Width
	case s.Loop != nil && s.Loop.Until != nil:
		note("at most %s, until %s", plural(s.Loop.Max, "round"), s.Loop.Until)
	case s.Loop != nil:
		note("%s", plural(s.Loop.Max, "round"))
	case s.Agent != nil && s.Agent.Model != "":
		note("model %s", s.Agent.Model)
	case s.Tool != nil && s.Tool.Effects != "":
		note("effects %s", s.Tool.Effects)
	}
	if width > 0 {
		note("%d at a time", width)
	}
	if s.When != nil {
		note("when %s", s.When)
	}
	if s.Gate != nil {
		note("a person lets it go on")
	}
	if s.Output != nil {
		note("checked output")
	}
	if s.Retry != nil {
		note("%d attempts", s.Retry.Attempts)
	}
	if s.Timeout > 0 {
		note("at most %s", brief(s.Timeout))
	}
	if s.OnError != "" && s.OnError != recipe.Continue {
		note("on error %s", s.OnError)
	}
	return out
}

// printSteps writes steps as a table, those within others indented.
func (a *app) printSteps(steps []planStep) {
	type row struct{ id, does, rest string }
	var rows []row
	var add func(steps []planStep, depth int)
	add = func(steps []planStep, depth int) {
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
