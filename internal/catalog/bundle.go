package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/recipe"
)

// A Bundle is a recipe with all recipes that it uses, directly and indirectly.
type Bundle struct {
	Main *recipe.Recipe
	Uses []*recipe.Recipe // each once, the outer before the inner, in the order of the steps
	// Names are the recipes by the names that steps call them by, which may be aliases.
	Names map[string]*recipe.Recipe
	// Others are the names that steps call and that are no recipes, sorted.
	Others []string
	Digest string // of all of it
}

// gather collects a recipe and all recipes that it uses. Find returns the recipe of a name, nil if
// the name is not a recipe, or an error. The error of gather joins all errors of find, with the
// places of the calls, and *circleError.
func gather(main *recipe.Recipe, find func(name string) (*recipe.Recipe, error)) (*Bundle, error) {
	g := &gathering{find: find, b: &Bundle{Main: main, Names: map[string]*recipe.Recipe{}}, state: map[string]int{}}
	g.visit(main)
	slices.Sort(g.b.Others)
	g.b.Others = slices.Compact(g.b.Others)
	g.b.Digest = g.b.digest()
	return g.b, errors.Join(g.errs...)
}

type gathering struct {
	find  func(name string) (*recipe.Recipe, error)
	b     *Bundle
	state map[string]int // of recipes, by name
	way   []string
	errs  []error
}

const begun, done = 1, 2

func (g *gathering) visit(r *recipe.Recipe) {
	g.state[r.Name] = begun
	g.way = append(g.way, r.Name)
	for _, name := range r.Uses() {
		inner := g.b.Names[name]
		if inner == nil {
			var err error
			switch inner, err = g.called(name); {
			case err != nil:
				g.errs = append(g.errs, &UseError{Recipe: r.Name, File: r.File, Name: name, Err: err})
				continue
			case inner == nil:
				g.b.Others = append(g.b.Others, name)
				continue
			}
			g.b.Names[name] = inner
		}
		switch g.state[inner.Name] {
		case begun:
			g.errs = append(g.errs, &circleError{Chain: append(slices.Clone(g.way[slices.Index(g.way, inner.Name):]), inner.Name)})
		case 0:
			g.b.Uses = append(g.b.Uses, inner)
			g.visit(inner)
		}
	}
	g.way = g.way[:len(g.way)-1]
	g.state[r.Name] = done
}

// called returns the recipe that a step calls by a name. Within a bundle the name of the main
// recipe always means that recipe, wherever its file is.
func (g *gathering) called(name string) (*recipe.Recipe, error) {
	if name == g.b.Main.Name {
		return g.b.Main, nil
	}
	r, err := g.find(name)
	if r != nil && r.Name == g.b.Main.Name { // by an alias
		return g.b.Main, err
	}
	return r, err
}

func (b *Bundle) digest() string {
	h := sha256.New()
	put := func(texts ...string) {
		for _, t := range texts {
			fmt.Fprintf(h, "%d:%s", len(t), t)
		}
	}
	put(b.Main.Name, string(b.Main.Source))
	for _, name := range slices.Sorted(maps.Keys(b.Names)) {
		put(name, b.Names[name].Name, string(b.Names[name].Source))
	}
	put(b.Others...)
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// A circleError reports that recipes call each other in a cycle.
type circleError struct{ Chain []string } // the first is also the last

func (e *circleError) Error() string {
	return "recipes run each other in a circle: " + strings.Join(e.Chain, " → ")
}

// FailureCode returns the code of runs that fail with the error.
func (e *circleError) FailureCode() string { return "usage" }

// A UseError reports that a recipe uses another that cannot be used.
type UseError struct {
	Recipe, File string // who uses it
	Name         string // what it calls it
	Err          error  // why it cannot be used
}

func (e *UseError) Error() string {
	return fmt.Sprintf("recipe %s (%s) runs %q: %v", e.Recipe, e.File, e.Name, e.Err)
}

// Unwrap returns why it cannot be used.
func (e *UseError) Unwrap() error { return e.Err }

// An InvalidError reports that the recipe of a name cannot be used.
type InvalidError struct{ Entry *RecipeFile }

func (e *InvalidError) Error() string {
	return fmt.Sprintf("the recipe %s cannot be used: %v", e.Entry.Name, e.Entry.Problems)
}

// FailureCode returns the code of runs that fail with the error.
func (e *InvalidError) FailureCode() string { return "usage" }

// An ambiguousError reports that a name stands for several recipes.
type ambiguousError struct {
	Name  string
	Files []string
	Alias bool // it is an alias of them
}

func (e *ambiguousError) Error() string {
	if e.Alias {
		return fmt.Sprintf("%q is an alias of several recipes: %s; call one by its name, or take the alias from the others", e.Name, strings.Join(e.Files, ", "))
	}
	return fmt.Sprintf("several files have a recipe %q: %s; rename or remove one of them", e.Name, strings.Join(e.Files, ", "))
}

// FailureCode returns the code of runs that fail with the error.
func (e *ambiguousError) FailureCode() string { return "usage" }
