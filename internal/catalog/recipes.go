package catalog

import (
	"cmp"
	"embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/catalog/trust"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/recipe"
)

// A RecipeFile is a recipe found in a file. It is not changed after.
type RecipeFile struct {
	Name   string // of the recipe, or of the file if the recipe cannot be used
	Scope  string // Project, User or BuiltIn
	Path   string // absolute; "" of what is built in
	File   string // as people know it
	Draft  bool   // it waits for approval
	Text   []byte
	Digest string         // "sha256:" and 64 hexadecimal digits, of the text; "" if it could not be read
	Recipe *recipe.Recipe // nil if it cannot be used
	// Problems are its mistakes and oddities.
	Problems recipe.Problems
	// Overrides are the files that it takes precedence over, each prefixed with its scope.
	Overrides []string
}

// recipes holds all recipes.
type recipes struct {
	entries  []*RecipeFile // by scope, and within by path
	drafts   []*RecipeFile
	problems recipe.Problems          // of folders
	taken    []string                 // names of workflows that are no recipes
	names    map[string][]*RecipeFile // by name: several if none goes before the others
	aliases  map[string][]*RecipeFile
}

//go:embed recipes/*.yaml
var shippedRecipes embed.FS

// readRecipes reads all recipes. An invalid file is an entry too. It takes precedence over lower
// scopes under its file name, so that no other recipe replaces it silently.
func (c *Catalog) readRecipes() *recipes {
	l := &recipes{names: map[string][]*RecipeFile{}, aliases: map[string][]*RecipeFile{}, taken: slices.Concat(c.opt.Taken, c.opt.Workflows)}
	for _, p := range places(recipeFolder, c.folder, c.opt.Home, c.opt.ConfigHome) {
		l.read(c, p)
	}
	l.builtin(c)
	l.order()
	l.alias()
	for _, list := range [][]*RecipeFile{l.entries, l.drafts} {
		for _, e := range list {
			arrange(e.Problems)
		}
	}
	return l
}

// order determines the file that a name refers to.
func (l *recipes) order() {
	byName := map[string][]*RecipeFile{}
	for _, e := range l.entries {
		if e.Recipe != nil && slices.Contains(l.taken, e.Name) {
			e.wrong("taken-name", "name", "a workflow that comes with this program is called %q; choose another name", e.Name)
		}
		byName[e.Name] = append(byName[e.Name], e)
	}
	for name, all := range byName {
		first := all[:0:0]
		for _, e := range all {
			if e.Scope == all[0].Scope {
				first = append(first, e)
			}
		}
		valid := slices.DeleteFunc(slices.Clone(first), func(e *RecipeFile) bool { return e.Recipe == nil })
		if len(valid) > 0 { // what has the name goes before what only its file has
			first = valid
		}
		l.names[name] = first
		if len(first) > 1 {
			l.twice(name, first)
			continue
		}
		for _, e := range all {
			if e.Scope != all[0].Scope {
				first[0].Overrides = append(first[0].Overrides, strings.TrimSpace(e.Scope+" "+e.File))
			}
		}
	}
}

// twice reports that several files of one scope have the same name.
func (l *recipes) twice(name string, files []*RecipeFile) {
	for _, e := range files {
		var others []string
		for _, o := range files {
			if o != e {
				others = append(others, o.File)
			}
		}
		e.wrong("same-name", "name", "%s is called %q too; rename or remove one of them", strings.Join(others, ", "), name)
	}
}

// alias determines what aliases stand for: a recipe of the nearest scope that has the alias. An
// alias never hides a name.
func (l *recipes) alias() {
	for _, e := range l.effective() {
		if e.Recipe == nil {
			continue
		}
		for _, name := range e.Recipe.Aliases {
			_, recipes := l.names[name]
			if recipes || slices.Contains(l.taken, name) {
				if name != e.Name {
					e.odd("alias-name", "aliases", "the alias %q is the name of another workflow, which goes before it; choose another alias", name)
				}
				continue
			}
			l.aliases[name] = append(l.aliases[name], e)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.aliases)) {
		all := l.aliases[name]
		nearest := slices.MinFunc(all, func(a, b *RecipeFile) int { return l.rank(a) - l.rank(b) }).Scope
		all = slices.DeleteFunc(all, func(e *RecipeFile) bool { return e.Scope != nearest })
		l.aliases[name] = all
		for _, e := range all {
			if len(all) > 1 {
				e.odd("same-alias", "aliases", "the alias %q finds nothing, since several recipes have it: %s; take it from all but one",
					name, strings.Join(namesOf(all), ", "))
			}
		}
	}
}

// rank returns how near the scope of an entry is: nearer scopes take precedence.
func (l *recipes) rank(e *RecipeFile) int {
	return slices.IndexFunc(l.entries, func(o *RecipeFile) bool { return o.Scope == e.Scope })
}

func namesOf(entries []*RecipeFile) []string {
	var out []string
	for _, e := range entries {
		out = append(out, e.Name)
	}
	return out
}

// effective returns, by name, the files that no other takes precedence over, usable or not. If
// several tie, it returns all of them.
func (l *recipes) effective() []*RecipeFile {
	var out []*RecipeFile
	for _, g := range l.names {
		out = append(out, g...)
	}
	// If another recipe of the same scope has the name of this file, this file cannot be found by
	// name but is still listed.
	for _, e := range l.entries {
		if e.Recipe == nil && !slices.Contains(out, e) && l.names[e.Name][0].Scope == e.Scope {
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b *RecipeFile) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.File, b.File))
	})
	return out
}

// also returns the other names by which an entry is found.
func (l *recipes) also(e *RecipeFile) []string {
	var out []string
	if e.Recipe == nil {
		return nil
	}
	for _, name := range e.Recipe.Aliases {
		if found := l.aliases[name]; len(found) == 1 && found[0] == e {
			out = append(out, name)
		}
	}
	return out
}

// find returns the recipe of a name or an alias. The error is a *NotFoundError, an *InvalidError or
// an *ambiguousError; with an *InvalidError, the entry is returned too.
func (l *recipes) find(name string) (*RecipeFile, error) {
	if g, ok := l.names[name]; ok {
		switch e := g[0]; {
		case len(g) > 1:
			return nil, &ambiguousError{Name: name, Files: files(g)}
		case e.Recipe == nil:
			return e, &InvalidError{Entry: e}
		default:
			return e, nil
		}
	}
	switch found := l.aliases[name]; len(found) {
	case 0:
		return nil, &NotFoundError{Kind: "recipe", Name: name, Known: l.known()}
	case 1:
		return found[0], nil
	default:
		return nil, &ambiguousError{Name: name, Files: files(found), Alias: true}
	}
}

func files(entries []*RecipeFile) []string {
	var out []string
	for _, e := range entries {
		out = append(out, e.File)
	}
	return out
}

// known returns the names by which a recipe is found.
func (l *recipes) known() []string {
	var out []string
	for _, e := range l.effective() {
		if e.Recipe != nil {
			out = append(append(out, e.Name), l.also(e)...)
		}
	}
	return out
}

// RecipeFolders returns the Problems that are about folders of recipes and not about one recipe.
func (c *Catalog) RecipeFolders() []Problem { return recipeProblems(c.recipes().problems) }

func recipeProblems(list recipe.Problems) []Problem {
	var out []Problem
	for _, x := range list {
		out = append(out, Problem{Kind: string(recipeFolder), File: x.File, Line: x.Pos.Line, Col: x.Pos.Col, Text: x.Text, Warning: x.Warning})
	}
	return out
}

// Workflows lists all recipes by name, including unusable and untrusted recipes but no drafts.
func (c *Catalog) Workflows() []Item { return c.recipeItems(c.recipes().effective()) }

// Drafts lists the recipes that wait for approval. The project's come first. They are not found by
// name.
func (c *Catalog) Drafts() []Item { return c.recipeItems(c.recipes().drafts) }

// Recipes returns the files of Workflows and Drafts, including overridden files.
func (c *Catalog) Recipes() []*RecipeFile {
	return slices.Concat(c.recipes().entries, c.recipes().drafts)
}

func (c *Catalog) recipeItems(list []*RecipeFile) []Item {
	var out []Item
	for _, e := range list {
		out = append(out, c.recipeItem(e))
	}
	return out
}

func (c *Catalog) recipeItem(e *RecipeFile) Item {
	out := Item{
		Name: e.Name, Kind: "recipe", Source: e.Scope, Path: e.File, Digest: e.Digest, State: c.recipeState(e),
		Overrides: e.Overrides, Aliases: c.recipes().also(e),
	}
	if e.Recipe != nil {
		out.Description, out.Model = e.Recipe.Description, e.Recipe.Model
	}
	for _, x := range e.Problems {
		if line := clean.Place(x.File, x.Pos.Line, x.Pos.Col) + ": " + x.Text; x.Warning {
			out.Warnings = append(out.Warnings, line)
		} else {
			out.Problems = append(out.Problems, line)
		}
	}
	return out
}

func (c *Catalog) recipeState(e *RecipeFile) State {
	switch {
	case e.Recipe == nil:
		return Invalid
	case e.Draft:
		return Draft
	}
	return c.state(e.Scope, trust.Workflow, e.Name, e.Path)
}

// Look returns the recipe of a name or an alias, whether it may be used or not, and how it is
// listed. With an *InvalidError the file is returned too. Drafts are not searched; see Draft.
func (c *Catalog) Look(name string) (*RecipeFile, Item, error) {
	e, err := c.recipes().find(name)
	if e == nil {
		return nil, Item{}, err
	}
	return e, c.recipeItem(e), err
}

// Draft returns the draft of a name. The project's draft takes precedence over the user's.
func (c *Catalog) Draft(name string) (*RecipeFile, Item, error) {
	var names []string
	for _, e := range c.recipes().drafts {
		if e.Name == name {
			return e, c.recipeItem(e), nil
		}
		names = append(names, e.Name)
	}
	return nil, Item{}, &NoDraftError{Name: name, Names: names}
}

// Recipe returns the recipe of a name or an alias that may be used. For an untrusted recipe of the project
// it returns an *UntrustedError, and never another recipe.
func (c *Catalog) Recipe(name string) (*RecipeFile, error) {
	e, err := c.recipes().find(name)
	if err != nil {
		return nil, err
	}
	if state := c.recipeState(e); state != Usable {
		return nil, &UntrustedError{Kind: "workflow", Name: e.Name, Path: e.File, State: state}
	}
	return e, nil
}

// Bundle returns the recipe of a name with everything it uses. It fails if any part may not be
// used.
func (c *Catalog) Bundle(name string) (*Bundle, error) {
	e, err := c.Recipe(name)
	if err != nil {
		return nil, err
	}
	return c.BundleOf(e.Recipe)
}

// BundleOf returns a recipe from any file with everything it uses. It fails if any part may not be
// used.
func (c *Catalog) BundleOf(r *recipe.Recipe) (*Bundle, error) {
	return gather(r, func(name string) (*recipe.Recipe, error) {
		if slices.Contains(c.opt.Workflows, name) {
			return nil, nil
		}
		e, err := c.Recipe(name)
		if err != nil {
			return nil, err
		}
		return e.Recipe, nil
	})
}

// Bundles returns all usable recipes, each with everything it uses, and the reasons why the others
// are unusable. Both results are keyed by name.
func (c *Catalog) Bundles() ([]*Bundle, map[string]error) {
	var out []*Bundle
	failed := map[string]error{}
	for _, e := range c.recipes().effective() {
		b, err := c.Bundle(e.Name)
		switch {
		case err != nil:
			failed[e.Name] = err
		case b.Main == e.Recipe: // and no file that another of its name goes before
			out = append(out, b)
		}
	}
	return out, failed
}

// Callees returns the recipes that can be run by a name or an alias, to check others against.
func (c *Catalog) Callees() map[string]*recipe.Callee {
	out := map[string]*recipe.Callee{}
	for _, e := range c.recipes().effective() {
		if e.Recipe == nil {
			continue
		}
		callee := &recipe.Callee{Name: e.Name, Inputs: e.Recipe.Inputs, Recipe: e.Recipe}
		for _, name := range append(c.recipes().also(e), e.Name) {
			out[name] = callee
		}
	}
	return out
}

// A NoDraftError reports that no draft has the name.
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

// FailureCode returns the code of runs that fail with the error.
func (e *NoDraftError) FailureCode() string { return "unknown_workflow" }
