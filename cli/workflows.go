package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/catalog"
	"github.com/superstep-dev/superstep/graph"
	"github.com/superstep-dev/superstep/graph/draw"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/transcript"
	"github.com/superstep-dev/superstep/workflow"
	"github.com/superstep-dev/superstep/workflow/recipe"
)

func (a *app) workflowsCommand() *cobra.Command {
	n := a.cfg.Name
	subs := []*cobra.Command{a.workflowsList(), a.workflowsShow(), a.workflowsGraph()}
	pairs := []string{"workflows list", "", "workflows show research", "", "workflows graph research --format svg > research.svg", "", "workflows graph --run @last", "with the states of its nodes"}
	subs = append(subs, a.workflowsNew(), a.workflowsSchema(), a.workflowsApprove(), a.workflowsReject())
	pairs = append(pairs, "workflows new brief", "", "workflows approve brief", "what an agent wrote")
	c := &cobra.Command{
		Use: "workflows", Short: "Look at the workflows there are, and write new ones",
		Example: examples(n, pairs...),
	}
	c.AddCommand(subs...)
	return a.lists(c)
}

type workflowJSON struct {
	Name        string      `json:"name"`
	Description string      `json:"description,omitempty"`
	Inputs      []inputJSON `json:"inputs,omitempty"`
	Uses        []string    `json:"uses,omitempty"` // other workflows, by name

	Kind      string        `json:"kind"`   // recipe, or graph for one that is a part of the program
	Source    string        `json:"source"` // project, user or built-in
	Path      string        `json:"path,omitempty"`
	State     catalog.State `json:"state"`
	Aliases   []string      `json:"aliases,omitempty"`
	Overrides []string      `json:"overrides,omitempty"`
	Warnings  []string      `json:"warnings,omitempty"`
	Problems  []string      `json:"problems,omitempty"` // why it is invalid
	// NeedsModel says that the model offline will not do.
	NeedsModel bool `json:"needs_language_model,omitempty"`
}

type inputJSON struct {
	Name        string          `json:"name"`
	Type        string          `json:"type"`
	Description string          `json:"description,omitempty"`
	Required    bool            `json:"required,omitempty"`
	Default     json.RawMessage `json:"default,omitempty"`
	Enum        []any           `json:"enum,omitempty"`
}

func workflowsJSON(w *workflow.Workflow) workflowJSON {
	return workflowJSON{
		Name: w.Name, Description: w.Description, Uses: w.Uses, Inputs: inputsJSON(w), Aliases: w.Aliases,
		Kind: "graph", Source: "built-in", State: catalog.Usable, NeedsModel: w.NeedsModel,
	}
}

func inputsJSON(w *workflow.Workflow) []inputJSON {
	var out []inputJSON
	for _, in := range w.List() {
		out = append(out, inputJSON{in.Name, in.Type, in.Description, in.Required, in.Default, w.Inputs.Properties[in.Name].Enum})
	}
	return out
}

// recipeJSON is a recipe as it is listed.
func recipeJSON(e *catalog.RecipeFile, listed *catalog.Item) workflowJSON {
	out := workflowJSON{
		Name: listed.Name, Description: listed.Description, Kind: "recipe", Source: listed.Source, Path: listed.Path, State: listed.State,
		Aliases: listed.Aliases, Overrides: listed.Overrides, Warnings: listed.Warnings, Problems: listed.Problems,
	}
	if e.Recipe != nil {
		out.Uses, out.Inputs = e.Recipe.Uses(), inputsJSON(sketch(e.Recipe))
	}
	return out
}

// sketch is a workflow that has the inputs of a recipe and does nothing.
func sketch(r *recipe.Recipe) *workflow.Workflow {
	return &workflow.Workflow{Name: r.Name, Description: r.Description, Inputs: recipe.InputSchema(r.Inputs)}
}

func (a *app) workflowsList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the workflows there are, where they come from and what overrides what", Args: a.none,
		Long: `List the workflows there are, where they come from and what overrides what

Recipes that cannot be used are listed with what is wrong with them, and drafts by agents with the rest.`,
		Example: examples(a.cfg.Name, "workflows list", "", "workflows list -o json", ""),
		RunE: func(*cobra.Command, []string) error {
			rows, err := a.allWorkflows()
			if err != nil {
				return err
			}
			switch a.set.output {
			case "json":
				return a.out.json(rows, true)
			case "jsonl":
				for i := range rows {
					if err := a.out.json(rows[i], false); err != nil {
						return err
					}
				}
				return nil
			}
			entries := make([]catalog.Item, len(rows))
			needs := make([]string, len(rows))
			drafts := false
			for i, r := range rows {
				entries[i] = catalog.Item{
					Name: r.Name, Source: r.Source, Path: r.Path, State: r.State, Description: r.Description,
					Aliases: r.Aliases, Overrides: r.Overrides, Warnings: r.Warnings, Problems: r.Problems,
				}
				if r.NeedsModel {
					needs[i] = "a language model"
				}
				drafts = drafts || r.State == catalog.Draft
			}
			if !slices.ContainsFunc(needs, func(s string) bool { return s != "" }) {
				needs = nil
			}
			if err := a.printEntries("workflows", entries, "", needs...); err != nil {
				return err
			}
			if p, _ := a.host().Recipes(); p != nil {
				for _, x := range p.RecipeFolders() {
					a.err.line(transcript.Line(problem(&x)))
				}
			}
			if drafts {
				a.err.line("drafts wait for you: " + a.hint("workflows", "show", "NAME", "-v") + ", and then workflows approve NAME or workflows reject NAME")
			}
			return nil
		},
	}
}

// allWorkflows are those of the program and all recipes, drafts at the end.
func (a *app) allWorkflows() ([]workflowJSON, error) {
	set := a.allRuns()
	rows := []workflowJSON{}
	p, wrong := a.host().Recipes()
	if p == nil {
		for _, w := range set {
			rows = append(rows, workflowsJSON(w))
		}
		return rows, wrong
	}
	listed := p.Workflows()
	for _, w := range set {
		recipe := slices.ContainsFunc(listed, func(e catalog.Item) bool { return e.Name == w.Name && e.State == catalog.Usable })
		if !recipe {
			rows = append(rows, workflowsJSON(w))
		}
	}
	byPath := map[string]*catalog.RecipeFile{}
	for _, e := range p.Recipes() {
		byPath[e.File] = e
	}
	slices.SortStableFunc(listed, func(x, y catalog.Item) int { // as tools are listed, what is nearest last
		order := []string{"built-in", "user", "project"}
		return slices.Index(order, x.Source) - slices.Index(order, y.Source)
	})
	all := slices.Concat(listed, p.Drafts())
	failed := a.host().Check()
	for i := range all {
		row := recipeJSON(byPath[all[i].Path], &all[i])
		row.NeedsModel = len(a.host().JudgementsIn(p, byPath[all[i].Path])) > 0
		if err := failed[row.Name]; err != nil && row.State == catalog.Usable {
			row.State, row.Problems = catalog.Invalid, []string{err.Error()} // of what it uses, or what there is here
		}
		rows = append(rows, row)
	}
	for _, e := range p.Atomic() {
		rows = append(rows, workflowJSON{Name: e.Name, Description: e.Description, Kind: e.Kind, Source: e.Source, Path: e.Path, State: e.State, Problems: e.Problems})
	}
	return rows, nil
}

// named is for commands about one workflow.
func (a *app) named(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usage(fmt.Sprintf("%s: name one workflow; `%s` shows those there are", strings.TrimPrefix(cmd.CommandPath(), a.cfg.Name+" "), a.hint("workflows", "list")))
	}
	return nil
}

func (a *app) workflowNames(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	rows, err := a.allWorkflows()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var out []string
	for _, r := range rows {
		out = append(out, word(r.Name, r.Description))
	}
	return out, cobra.ShellCompDirectiveDefault // recipes are files too
}

func (a *app) workflow(name string) (*workflow.Workflow, error) {
	w, err := a.pick(a.allRuns(), name)
	var unknown *workflow.UnknownError
	if errors.As(err, &unknown) {
		return nil, usage(err.Error())
	}
	return w, err
}

func graphOf(w *workflow.Workflow, inputs json.RawMessage) (graph.Reading, error) {
	if w.Flow == nil {
		return nil, &workflow.OpaqueError{Name: w.Name}
	}
	return w.Flow(inputs)
}

func (a *app) workflowsGraph() *cobra.Command {
	var format, run, direction string
	var closed bool
	cmd := &cobra.Command{
		Use: "graph [NAME|FILE]", Short: "Draw a workflow, or a run of it", ValidArgsFunction: a.workflowNames,
		Example: examples(a.cfg.Name, "workflows graph research", "", "workflows graph research --format mermaid", "for Markdown", "workflows graph --run @last --format svg > run.svg", "with the states of its nodes"),
	}
	cmd.Flags().StringVar(&format, "format", "text", "text, mermaid, dot or svg")
	cmd.Flags().StringVar(&run, "run", "", "colour the nodes by what became of them in this run")
	cmd.Flags().StringVar(&direction, "direction", "TD", "TD (top down) or LR (left to right)")
	cmd.Flags().BoolVar(&closed, "closed", false, "draw graphs within graphs as one node")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := oneOf("--format", format, "text", "mermaid", "dot", "svg"); err != nil {
			return err
		}
		if err := oneOf("--direction", direction, "TD", "LR"); err != nil {
			return err
		}
		if len(args) > 1 || (len(args) == 0) == (run == "") {
			return usage("workflows graph: name one workflow, or one run with --run")
		}
		opt := &draw.Options{Closed: closed}
		if direction == "LR" {
			opt.LeftRight = true
		}
		var w *workflow.Workflow
		var inputs json.RawMessage
		var err error
		if run == "" {
			w, err = a.drawable(args[0])
		} else {
			w, inputs, err = a.drawnRun(cmd, run, opt)
		}
		if err != nil {
			return err
		}
		flow, err := graphOf(w, inputs)
		if err != nil {
			return err
		}
		if opt.Title == "" {
			opt.Title = w.Name
		}
		return a.draw(format, flow.Shape(), opt)
	}
	return cmd
}

// drawnRun gives the workflow and the inputs of a run, and the states of its nodes to the picture.
func (a *app) drawnRun(cmd *cobra.Command, ref string, opt *draw.Options) (*workflow.Workflow, json.RawMessage, error) {
	_, info, err := a.find(cmd.Context(), ref)
	if err != nil {
		return nil, nil, err
	}
	var started runlog.RunStarted
	var seen draw.Progress
	for r, err := range runlog.Records(cmd.Context(), a.store, info.ID, 0) {
		if err != nil {
			return nil, nil, err
		}
		if r.Kind == runlog.KindRunStarted {
			if err := json.Unmarshal(r.Data, &started); err != nil {
				return nil, nil, err
			}
		}
		seen.Apply(&r)
	}
	w, err := a.ofRun(&started)
	if err != nil {
		return nil, nil, err
	}
	opt.Status = seen.Status()
	opt.Title = fmt.Sprintf("%s %s (%s)", info.Workflow, info.ID, info.Status)
	return w, started.Inputs, nil
}

// ofRun is the workflow of a run, as the run has pinned it.
func (a *app) ofRun(started *runlog.RunStarted) (*workflow.Workflow, error) {
	if started.Pinned != nil {
		return a.host().Restore(started.Workflow, started.Pinned)
	}
	return a.workflow(started.Workflow)
}

func (a *app) draw(format string, shape graph.Shape, opt *draw.Options) error {
	var picture string
	switch format {
	case "mermaid":
		picture = draw.Mermaid(shape, opt)
	case "dot":
		picture = draw.DOT(shape, opt)
	case "svg":
		picture = string(draw.SVG(shape, opt))
	default:
		picture = draw.Text(shape, opt)
	}
	if a.programs() {
		return a.out.json(map[string]string{"format": format, "picture": picture}, a.set.output == "json")
	}
	a.out.line(strings.TrimRight(picture, "\n"))
	return nil
}
