package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/catalog"
	"github.com/superstep-dev/superstep/internal/recipe"
	"github.com/superstep-dev/superstep/workflow"
)

// These are the kinds of items.
const (
	Agents    = "agents"
	Skills    = "skills"
	Tools     = "tools"
	Workflows = "workflows"
)

// An Item is an agent, a skill, a tool, an MCP server or a workflow. Items that Show returns have all fields set.
type Item struct {
	catalog.Item
	Inputs     []workflow.Input `json:"inputs,omitempty"`
	Uses       []string         `json:"uses,omitempty"`                 // other workflows, by name
	NeedsModel bool             `json:"needs_language_model,omitempty"` // the model offline will not do

	Prompt       string             `json:"prompt,omitempty"`       // of an agent
	Instructions string             `json:"instructions,omitempty"` // of a skill
	Steps        []Step             `json:"steps,omitempty"`        // of a recipe
	Judgements   []recipe.Judgement `json:"judgements,omitempty"`
	Text         string             `json:"text,omitempty"`
	Facts        [][2]string        `json:"-"` // what else people should know of it, each with a word before it

	file *catalog.RecipeFile // of a recipe
}

// Problems returns the mistakes in the project's own configuration. If there are any, none of that configuration is used.
func (h *Host) Problems() (recipe.Problems, error) {
	p, err := h.project()
	if err != nil {
		return nil, err
	}
	return problemsOf("settings", p.settings.problems), nil
}

// problemsOf returns the problems of one kind.
func problemsOf(kind string, list []catalog.Problem) recipe.Problems {
	var out recipe.Problems
	for _, x := range list {
		if x.Kind == kind {
			out = append(out, &recipe.Problem{Code: kind, File: x.File, Pos: recipe.Pos{Line: x.Line, Col: x.Col}, Text: x.Text, Warning: x.Warning})
		}
	}
	return out
}

// List returns all items of a kind, including unusable ones, and the problems in the files of that kind. With check, List
// runs trusted tool modules to list their tools, and compiles recipes.
func (h *Host) List(ctx context.Context, kind string, check bool) ([]Item, recipe.Problems, error) {
	if kind == Workflows {
		return h.listWorkflows(check)
	}
	p, err := h.project()
	if err != nil {
		return nil, nil, err
	}
	var list []catalog.Item
	problems := p.Problems()
	switch {
	case kind == Agents:
		list = p.Agents()
	case kind == Skills:
		list = p.Skills()
	case check:
		if list, problems, err = p.checkTools(ctx); err != nil {
			return nil, nil, err
		}
	default:
		list = p.tools()
	}
	out := make([]Item, len(list))
	for i := range list {
		out[i].Item = list[i]
	}
	return out, problemsOf(kind, problems), nil
}

// listWorkflows lists the program's workflows, then all recipes with the nearest last, and then drafts.
func (h *Host) listWorkflows(check bool) ([]Item, recipe.Problems, error) {
	b := h.read()
	var out []Item
	for _, w := range b.set {
		if b.recipe(w.Name) == nil {
			out = append(out, graphItem(w))
		}
	}
	p := b.project
	if p == nil {
		return out, nil, b.wrong
	}
	listed := p.Workflows()
	slices.SortStableFunc(listed, func(x, y catalog.Item) int {
		order := []string{catalog.BuiltIn, catalog.User, catalog.Project}
		return slices.Index(order, x.Source) - slices.Index(order, y.Source)
	})
	failed := b.failed
	if check {
		failed = h.check()
	}
	files := p.Recipes()
	for _, x := range slices.Concat(listed, p.Drafts()) {
		i := slices.IndexFunc(files, func(e *catalog.RecipeFile) bool { return e.File == x.Path })
		item := h.recipeItem(files[i], x)
		item.Judgements = nil
		if err := failed[item.Name]; err != nil && item.State == catalog.Usable {
			item.State, item.Problems = catalog.Invalid, []string{err.Error()} // of what it uses, or what there is here
		}
		out = append(out, item)
	}
	for _, x := range p.Atomic() {
		out = append(out, Item{Item: x})
	}
	return out, problemsOf(Workflows, p.RecipeFolders()), nil
}

// graphItem returns a workflow that is no recipe.
func graphItem(w *workflow.Workflow) Item {
	return Item{
		Item:   catalog.Item{Name: w.Name, Description: w.Description, Kind: "graph", Source: catalog.BuiltIn, State: catalog.Usable, Aliases: w.Aliases},
		Inputs: w.List(), Uses: w.Uses, NeedsModel: w.NeedsModel,
	}
}

func (h *Host) recipeItem(e *catalog.RecipeFile, listed catalog.Item) Item {
	i := Item{Item: listed, file: e}
	if e.Recipe != nil {
		i.Uses, i.Inputs = e.Recipe.Uses(), i.Sketch().List()
		i.Judgements = h.judgementsIn(e.Recipe)
		i.NeedsModel = len(i.Judgements) > 0
	}
	return i
}

// brokenItem returns a recipe that has mistakes.
func brokenItem(e *catalog.RecipeFile) *Item {
	i := &Item{Item: catalog.Item{Name: e.Name, Kind: "recipe", Source: e.Scope, Path: e.File, State: catalog.Invalid, Overrides: e.Overrides}, Text: string(e.Text), file: e}
	for _, p := range e.Problems {
		i.Problems = append(i.Problems, p.Error())
	}
	return i
}

// Sketch returns a workflow that has the inputs of a recipe but does nothing. If the recipe is missing or unusable,
// it returns nil.
func (i *Item) Sketch() *workflow.Workflow {
	if i.file == nil || i.file.Recipe == nil {
		return nil
	}
	r := i.file.Recipe
	return &workflow.Workflow{Name: r.Name, Description: r.Description, Inputs: recipe.InputSchema(r.Inputs)}
}

// Recipe returns the recipe that an item is, nil if it is another thing or has mistakes.
func (i *Item) Recipe() *recipe.Recipe {
	if i.file == nil {
		return nil
	}
	return i.file.Recipe
}

// Show returns an item of a kind with all its details, whether it is trusted or not. A workflow may also be named by the path
// of its recipe. Tools are shown by a Session.
func (h *Host) Show(kind, name string) (*Item, error) {
	if kind == Workflows {
		return h.showWorkflow(name)
	}
	p, err := h.project()
	if err != nil {
		return nil, err
	}
	i := &Item{}
	fact := func(what, text string) { i.Facts = append(i.Facts, [2]string{what, text}) }
	if kind == Skills {
		s, text, item, err := p.Skill(name)
		if err != nil {
			return nil, mistaken(err)
		}
		i.Item, i.Instructions = item, text
		for _, f := range s.Files {
			fact("file", fmt.Sprintf("%s (%d bytes)", f.Path, f.Size))
		}
		return i, nil
	}
	d, item, err := p.Definition(name)
	if err != nil {
		return nil, mistaken(err)
	}
	i.Item, i.Prompt = item, d.Prompt
	if d.Tools == nil {
		fact("tools", "every tool there is")
	} else {
		fact("tools", strings.Join(d.Tools, ", "))
	}
	if len(d.Disallowed) > 0 {
		fact("not", strings.Join(d.Disallowed, ", "))
	}
	return i, nil
}

func (h *Host) showWorkflow(name string) (*Item, error) {
	i, err := h.Look(name)
	if err != nil {
		return i, err
	}
	for _, j := range i.Judgements {
		i.Facts = append(i.Facts, [2]string{"needs", "a language model: " + j.String()})
	}
	if i.Recipe() == nil {
		if i.NeedsModel {
			i.Facts = append(i.Facts, [2]string{"needs", "a language model"})
		}
		return i, nil
	}
	i.Steps, i.Text = recipeSteps(i.Recipe()), string(i.file.Text)
	if len(i.Aliases) > 0 {
		i.Facts = append(i.Facts, [2]string{"also", strings.Join(i.Aliases, ", ")})
	}
	if i.State == catalog.Draft {
		origin, _, _ := strings.Cut(i.Text, "\n")
		i.Facts = append(i.Facts, [2]string{"draft", strings.TrimPrefix(origin, "# ")})
	}
	return i, nil
}

// Look returns the workflow that a word names by its name, an alias or the path of a recipe, trusted or not; or the draft of
// that name. A recipe with mistakes is returned with them.
func (h *Host) Look(word string) (*Item, error) {
	if h.IsFile(word) {
		e, err := h.loadRecipe(word)
		if err != nil {
			return nil, err
		}
		if err := h.read().wrong; err != nil {
			return nil, err
		}
		i := h.recipeItem(e, catalog.Item{
			Name: e.Name, Kind: "recipe", Source: "file", Path: e.File, State: catalog.Usable, Description: e.Recipe.Description,
		})
		return &i, nil
	}
	b := h.read()
	if b.project != nil {
		e, listed, err := b.project.Look(word)
		if errors.As(err, new(*catalog.NotFoundError)) {
			if _, known := b.set.Find(word); known != nil { // a draft is looked at last
				if draft, item, none := b.project.Draft(word); none == nil {
					e, listed, err = draft, item, nil
				}
			}
		}
		switch {
		case err == nil && e.Recipe == nil:
			return brokenItem(e), invalid(e)
		case err == nil:
			i := h.recipeItem(e, listed)
			return &i, nil
		case !errors.As(err, new(*catalog.NotFoundError)):
			if bad, ok := errors.AsType[*catalog.InvalidError](err); ok {
				return brokenItem(bad.Entry), recipeError(err)
			}
			return nil, recipeError(err)
		}
	}
	w, err := h.Find(word)
	if err != nil {
		return nil, err
	}
	i := graphItem(w)
	return &i, nil
}

// NotRunnable returns the workflows that were written for another program and cannot run here.
func (h *Host) NotRunnable() []Item {
	var out []Item
	if p, err := h.project(); err == nil {
		for _, x := range p.Atomic() {
			out = append(out, Item{Item: x})
		}
	}
	return out
}
