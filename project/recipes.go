package project

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/trust"
	"github.com/superstep-dev/superstep/workflow"
	"github.com/superstep-dev/superstep/workflow/recipe"
	"github.com/superstep-dev/superstep/workflow/recipe/library"
)

// findRecipes reads those of the project and of the user.
func (p *Project) findRecipes() error {
	o := &p.opt
	taken := slices.Clone(o.Taken)
	for _, w := range o.Workflows {
		taken = append(taken, w.Name)
	}
	var err error
	p.recipes, err = library.Open(&library.Options{
		Project: p.folder, Home: o.Home, ConfigHome: o.ConfigHome, Taken: taken, Cache: o.Recipes,
		Shown: func(path string) string { return p.shown(path) },
	})
	if err != nil {
		return err
	}
	note := func(list recipe.Problems) { p.problems = append(p.problems, recipeProblems(list)...) }
	note(p.recipes.Problems())
	for _, list := range [][]*library.Entry{p.recipes.Entries(), p.recipes.Drafts()} {
		for _, e := range list {
			note(e.Problems)
		}
	}
	return nil
}

func recipeProblems(list recipe.Problems) []Problem {
	var out []Problem
	for _, x := range list {
		out = append(out, Problem{Kind: "workflows", Where: place(x.File, x.Pos.Line, x.Pos.Col), Text: x.Text, Warning: x.Warning})
	}
	return out
}

// RecipeFolders are those of the Problems that are about folders and not about one recipe.
func (p *Project) RecipeFolders() []Problem { return recipeProblems(p.recipes.Problems()) }

// Workflows lists the recipes there are by name, those that cannot or may not be used too, but
// no drafts.
func (p *Project) Workflows() []Entry {
	var out []Entry
	for _, e := range p.recipes.Effective() {
		out = append(out, p.recipeEntry(e))
	}
	return out
}

// Drafts lists the recipes that wait for approval, those of the project first. They are not
// found by name.
func (p *Project) Drafts() []Entry {
	var out []Entry
	for _, e := range p.recipes.Drafts() {
		out = append(out, p.recipeEntry(e))
	}
	return out
}

// Recipes are the files of Workflows and Drafts, those that others go before too.
func (p *Project) Recipes() []*library.Entry {
	return append(p.recipes.Entries(), p.recipes.Drafts()...)
}

// recipeEntry is how a recipe of the project's is listed.
func (p *Project) recipeEntry(e *library.Entry) Entry {
	out := Entry{
		Name: e.Name, Kind: "recipe", Source: string(e.Scope), Path: e.File, State: p.recipeState(e),
		Overrides: e.Overrides, Aliases: p.recipes.Aliases(e),
	}
	if e.Recipe != nil {
		out.Description, out.Model = e.Recipe.Description, e.Recipe.Model
	}
	for _, x := range e.Problems {
		if line := place(x.File, x.Pos.Line, x.Pos.Col) + ": " + x.Text; x.Warning {
			out.Warnings = append(out.Warnings, line)
		} else {
			out.Problems = append(out.Problems, line)
		}
	}
	return out
}

func (p *Project) recipeState(e *library.Entry) State {
	switch {
	case e.Recipe == nil:
		return Invalid
	case e.Draft:
		return Draft
	}
	return p.state(string(e.Scope), trust.Workflow, e.Name, e.Path)
}

// Look gives the recipe of a name or an alias, whether it may be used or not, and how it is listed. An
// entry is also given with a *library.InvalidError. Drafts are not looked at; see Draft.
func (p *Project) Look(name string) (*library.Entry, Entry, error) {
	e, err := p.recipes.Find(name)
	if e == nil {
		return nil, Entry{}, err
	}
	return e, p.recipeEntry(e), err
}

// Draft gives the draft of a name, that of the project before that of the user.
func (p *Project) Draft(name string) (*library.Entry, Entry, error) {
	var names []string
	for _, e := range p.recipes.Drafts() {
		if e.Name == name {
			return e, p.recipeEntry(e), nil
		}
		names = append(names, e.Name)
	}
	return nil, Entry{}, &NoDraftError{Name: name, Names: names}
}

// Recipe gives the recipe of a name or an alias that may be used. One of the project that the user has not
// agreed to is refused with an *UntrustedError, and nothing else is used in its place.
func (p *Project) Recipe(name string) (*library.Entry, error) {
	e, err := p.recipes.Find(name)
	if err != nil {
		return nil, err
	}
	if state := p.recipeState(e); state != Usable {
		return nil, &UntrustedError{Kind: "workflow", Name: e.Name, Path: e.File, State: state}
	}
	return e, nil
}

// Bundle gives the recipe of a name with all that it uses, each of which may be used.
func (p *Project) Bundle(name string) (*library.Bundle, error) {
	e, err := p.Recipe(name)
	if err != nil {
		return nil, err
	}
	return p.BundleOf(e.Recipe)
}

// BundleOf gives a recipe, wherever it is from, with all that it uses, which may be used.
func (p *Project) BundleOf(r *recipe.Recipe) (*library.Bundle, error) {
	return library.Gather(r, func(name string) (*recipe.Recipe, error) {
		if slices.ContainsFunc(p.opt.Workflows, func(w *workflow.Workflow) bool { return w.Name == name }) {
			return nil, nil
		}
		e, err := p.Recipe(name)
		if err != nil {
			return nil, err
		}
		return e.Recipe, nil
	})
}

// Check reports what is wrong with a recipe in view of what there is: agents, tools and workflows,
// whether they may be used or not. Tools of servers that are not connected are not known, and
// taken to be there. Arguments are checked of the tools that come with this program; one that is off
// is a warning.
func (p *Project) Check(r *recipe.Recipe) recipe.Problems { return recipe.Check(r, p.world()) }

// CheckText is Check for the text of a file, which may have other mistakes.
func (p *Project) CheckText(file string, text []byte) recipe.Problems {
	return recipe.CheckText(file, text, p.world())
}

// agentOnly are the tools that work for agents only.
func agentOnly() []string {
	return []string{"task", "task_batch", "ask_user", "run_workflow", "collect_workflow", "save_workflow"}
}

func (p *Project) world() *recipe.World {
	w := &recipe.World{
		AgentsFrom: "the folders .superstep/agents, .claude/agents, .opencode/agents and .github/agents, your own, and those built in",
		ToolsFrom:  "the folder .superstep/tools, your own, MCP servers, and those built in",
		Workflows:  map[string]*recipe.Callee{},
		ToolInputs: map[string]*jsonschema.Schema{},
	}
	tools, off := p.toolsHere()
	for _, t := range tools {
		w.ToolInputs[t.Name] = t.Input
	}
	w.ToolsOff = off
	for _, d := range p.all.List() {
		w.Agents = append(w.Agents, d.Name)
	}
	for _, name := range reserved() {
		if !slices.Contains(agentOnly(), name) {
			w.Tools = append(w.Tools, name)
		}
	}
	w.Tools = append(w.Tools, p.toolNames()...)
	for _, flow := range p.opt.Workflows {
		w.Workflows[flow.Name] = &recipe.Callee{Name: flow.Name, Inputs: inputsOf(flow)}
	}
	for _, e := range p.recipes.Effective() {
		if e.Recipe == nil {
			continue
		}
		callee := &recipe.Callee{Name: e.Name, Inputs: e.Recipe.Inputs, Recipe: e.Recipe}
		w.Workflows[e.Name] = callee
		for _, alias := range p.recipes.Aliases(e) {
			w.Workflows[alias] = callee
		}
	}
	return w
}

// inputsOf are the inputs of a workflow that is no recipe.
func inputsOf(w *workflow.Workflow) []recipe.Input {
	kinds := map[string]recipe.Type{
		"string": recipe.String, "integer": recipe.Integer, "number": recipe.Number, "boolean": recipe.Boolean, "array": recipe.List,
	}
	var out []recipe.Input
	for _, in := range w.List() {
		kind, ok := kinds[in.Type]
		if !ok {
			kind = recipe.Object
		}
		out = append(out, recipe.Input{Name: in.Name, Description: in.Description, Type: kind, Required: in.Required, Default: in.Default})
	}
	return out
}

// recipeDetail is what people see of a recipe before they agree to it.
func recipeDetail(r *recipe.Recipe) string {
	var b strings.Builder
	if r.Description != "" {
		b.WriteString(strings.Join(strings.Fields(clean.Text(r.Description)), " ") + "\n")
	}
	n := 0
	r.Walk(func(s *recipe.Step, depth int) bool {
		if n++; n <= 40 {
			fmt.Fprintf(&b, "%s%s\n", strings.Repeat("  ", depth), stepLine(s))
		}
		return true
	})
	if n > 40 {
		fmt.Fprintf(&b, "and %d more steps\n", n-40)
	}
	return strings.TrimRight(b.String(), "\n")
}

func stepLine(s *recipe.Step) string {
	line := s.ID + ": " + string(s.Kind())
	switch {
	case s.Agent != nil:
		line += " " + s.Agent.Name
	case s.Tool != nil:
		line += " " + s.Tool.Name
	case s.Workflow != nil:
		line += " " + s.Workflow.Name
	}
	if s.Gate != nil {
		line += " (a person lets it go on)"
	}
	return clean.Text(line)
}

// A NoDraftError says that there is no draft of a name.
type NoDraftError struct {
	Name  string
	Names []string // of those there are
}

func (e *NoDraftError) Error() string {
	if len(e.Names) == 0 {
		return fmt.Sprintf("there is no draft %q; none waits for approval", e.Name)
	}
	return fmt.Sprintf("there is no draft %q; these wait for approval: %s", e.Name, strings.Join(e.Names, ", "))
}

// FailureCode is the word for runs that fail with the error.
func (e *NoDraftError) FailureCode() string { return "unknown_workflow" }

// Bundles gives all recipes that may be used, each with all that it uses, by name, and why the others
// are not, by name too.
func (p *Project) Bundles() ([]*library.Bundle, map[string]error) {
	var out []*library.Bundle
	failed := map[string]error{}
	for _, e := range p.recipes.Effective() {
		b, err := p.Bundle(e.Name)
		switch {
		case err != nil:
			failed[e.Name] = err
		case b.Main == e.Recipe: // and no file that another of its name goes before
			out = append(out, b)
		}
	}
	return out, failed
}
