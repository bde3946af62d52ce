package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/project"
	"github.com/superstep-dev/superstep/transcript"
	"github.com/superstep-dev/superstep/trust"
	"github.com/superstep-dev/superstep/workflow"
	"github.com/superstep-dev/superstep/workflow/recipe"
	"github.com/superstep-dev/superstep/workflow/recipe/library"
)

// cookbook is what a command knows of recipes.
type cookbook struct {
	cache   library.Cache
	file    *library.Entry       // that the user named by its path, nil for none
	begins  bool                 // a new run of the workflow that is set up is about to begin
	project *project.Project     // as it was opened last, nil if it was not
	wrong   error                // why it could not be
	others  []*workflow.Workflow // that recipes may run
	taken   []string
	failed  map[string]error // why there is no workflow of a recipe, by name
}

// workflows gives those there are. Name is the one about to run, "" for none.
func (a *app) workflows(name string) (workflow.Set, error) {
	set := slices.Clone(a.opt.Workflows)
	a.current = name
	s := a.setup(name)
	added := false
	s.Recipes = func(others []*workflow.Workflow, taken ...string) ([]*workflow.Workflow, error) {
		added = true
		return a.compiled(s, slices.Concat(a.opt.Workflows, others), taken)
	}
	if a.opt.Setup != nil {
		made, err := a.opt.Setup(s)
		set = append(set, made...)
		if err != nil {
			return set, err
		}
	}
	if added {
		return set, nil
	}
	made, err := a.compiled(s, set, nil)
	return append(set, made...), err
}

// base gives the workflows that recipes may run, and the names of others that no recipe may have.
func (a *app) base() (others []*workflow.Workflow, taken []string, err error) {
	s := a.setup("")
	added := false
	s.Recipes = func(list []*workflow.Workflow, names ...string) ([]*workflow.Workflow, error) {
		added, others, taken = true, slices.Concat(a.opt.Workflows, list), names
		return nil, nil
	}
	if a.opt.Setup == nil {
		return a.opt.Workflows, nil, nil
	}
	made, err := a.opt.Setup(s)
	if !added {
		others = slices.Concat(a.opt.Workflows, made)
	}
	return others, taken, err
}

// compiled makes workflows of the recipes that may be used, that of the file which the user named among
// them. One that cannot be made is left out, unless it is about to run.
func (a *app) compiled(s *Setup, others []*workflow.Workflow, taken []string) ([]*workflow.Workflow, error) {
	b := &a.recipes
	b.others, b.taken, b.failed = others, taken, map[string]error{}
	s.Project.Workflows, s.Project.Taken, s.Project.Recipes = others, taken, &b.cache
	if a.opt.Recipe == nil {
		return nil, nil
	}
	p, err := a.openProject(s)
	if b.project, b.wrong = p, err; err != nil {
		if b.file != nil && b.begins {
			return nil, err
		}
		return nil, nil // it is told where a recipe is wanted
	}
	bundles, failed := p.Bundles()
	b.failed = failed
	if b.file != nil {
		bundles = slices.DeleteFunc(bundles, func(x *library.Bundle) bool { return x.Main.Name == b.file.Name })
		main, err := a.fileBundle(p)
		if b.failed[b.file.Name] = err; err == nil {
			bundles = append(bundles, main)
		}
	}
	var out []*workflow.Workflow
	for _, x := range bundles {
		w, err := a.compile(s, p, x)
		if err != nil {
			if b.begins && w != nil {
				return nil, err
			}
			b.failed[x.Main.Name] = err
			continue
		}
		out = append(out, w)
	}
	return out, nil
}

// compile makes a workflow of a recipe. With an error the workflow is given too if it is the one
// about to run.
func (a *app) compile(s *Setup, p *project.Project, x *library.Bundle) (*workflow.Workflow, error) {
	var aliases []string
	if _, e, err := p.Look(x.Main.Name); err == nil {
		aliases = e.Aliases
	}
	var runs *workflow.Workflow
	if s.Workflow == x.Main.Name || slices.Contains(aliases, s.Workflow) {
		runs = &workflow.Workflow{Name: x.Main.Name}
		if err := a.check(p, x); err != nil {
			return runs, err
		}
	}
	made, err := a.opt.Recipe(s, x)
	if err != nil {
		return runs, err
	}
	w := *made
	w.Aliases = aliases // those of its own that find it
	return &w, nil
}

// check looks at a recipe and at all that it uses in view of what there is.
func (a *app) check(p *project.Project, x *library.Bundle) error {
	for _, r := range append([]*recipe.Recipe{x.Main}, x.Uses...) {
		problems := p.Check(r)
		if problems.Err() != nil {
			return a.invalid(r.File, r.Source, problems)
		}
	}
	return nil
}

// fileBundle is the recipe of the file that the user named, with all that it uses.
func (a *app) fileBundle(p *project.Project) (*library.Bundle, error) {
	e := a.recipes.file
	for _, name := range a.recipes.takenNames() {
		if name == e.Name {
			return nil, usage(fmt.Sprintf("%s: a workflow that comes with %s is called %q; give the recipe another name", e.File, a.opt.Name, name))
		}
	}
	return p.BundleOf(e.Recipe)
}

func (b *cookbook) takenNames() []string {
	names := slices.Clone(b.taken)
	for _, w := range b.others {
		names = append(names, w.Name)
	}
	return names
}

// pick gives the workflow of a name, or says why it cannot be used.
func (a *app) pick(set workflow.Set, name string) (*workflow.Workflow, error) {
	w, err := set.Find(name)
	file := a.recipes.file
	if err == nil && (file == nil || file.Name != name || a.recipes.failed[name] == nil) {
		return w, nil
	}
	if why := a.unusable(name); why != nil {
		return nil, why
	}
	var names []string
	if p := a.recipes.project; p != nil { // those that may not be used are meant, too
		for _, e := range p.Workflows() {
			names = append(append(names, e.Name), e.Aliases...)
		}
	}
	if meant := suggest.Closest(name, names); meant != "" {
		return nil, &Error{Exit: ExitUsage, Code: "unknown_workflow", Message: fmt.Sprintf("there is no workflow %q; did you mean %q?", name, meant), Err: err}
	}
	return nil, err
}

// unusable is why a recipe of a name is not among the workflows; nil if there is none of that name.
func (a *app) unusable(name string) error {
	b := &a.recipes
	if b.project == nil {
		return b.wrong
	}
	e := b.file
	if e == nil || e.Name != name {
		var err error
		e, _, err = b.project.Look(name)
		var bad *library.InvalidError
		var none *library.NotFoundError
		switch {
		case errors.As(err, &none):
			if _, _, err := b.project.Draft(name); err == nil {
				return usage(fmt.Sprintf("the recipe %q is a draft and waits for approval", name),
					"look at it: "+a.hint("workflows", "show", name, "-v"), "use it: "+a.hint("workflows", "approve", name))
			}
			return nil
		case errors.As(err, &bad):
			return a.invalidEntry(bad.Entry)
		case err != nil:
			return err
		}
	}
	var wary *project.UntrustedError
	var bad *library.InvalidError
	err := b.failed[e.Name]
	switch {
	case err == nil || errors.As(err, &wary):
		return err
	case errors.As(err, &bad): // one that it uses
		return a.invalidEntry(bad.Entry)
	}
	problems := b.project.Check(e.Recipe)
	if problems.Err() != nil { // which say where
		return a.invalid(e.File, e.Text, problems)
	}
	return err
}

// choose gives the workflow that is about to run, by its name or the path of a recipe, and asks about
// one of the project that nobody has agreed to.
func (a *app) choose(word string) (workflow.Set, *workflow.Workflow, error) {
	a.recipes.begins = true
	set, err := a.workflows("")
	if err != nil {
		return nil, nil, err
	}
	if a.opt.Recipe != nil && (a.recipes.file != nil || a.namesFile(word, set)) {
		e, err := a.load(word)
		if err != nil {
			return nil, nil, err
		}
		if e.Recipe == nil {
			return nil, nil, a.invalidEntry(e)
		}
		a.recipes.file = e
		word = e.Name
		if set, err = a.workflows(""); err != nil {
			return nil, nil, err
		}
	}
	var last project.UntrustedError
	for {
		w, err := a.pick(set, word)
		var wary *project.UntrustedError
		if err == nil || !errors.As(err, &wary) || wary.Kind != "workflow" || *wary == last {
			return set, w, err
		}
		last = *wary
		if err := a.trustRecipe(wary, err); err != nil {
			return nil, nil, err
		}
		if set, err = a.workflows(""); err != nil {
			return nil, nil, err
		}
	}
}

// restore gives the workflow that a run has pinned, whatever its recipe is by now.
func (a *app) restore(name string, pinned json.RawMessage) (*workflow.Workflow, error) {
	b := &a.recipes
	if b.failed == nil { // nobody has asked for workflows yet
		others, taken, err := a.base()
		if err != nil {
			return nil, err
		}
		b.others, b.taken = others, taken
	}
	s := a.setup(a.current)
	s.Project.Workflows, s.Project.Taken, s.Project.Recipes = b.others, b.taken, &b.cache
	return a.opt.Restore(s, name, pinned)
}

// kitchen opens the project with all that recipes may run.
func (a *app) kitchen() (*project.Project, error) {
	others, taken, err := a.base()
	if err != nil {
		return nil, err
	}
	a.recipes.others, a.recipes.taken = others, taken
	s := a.setup("")
	s.Project.Workflows, s.Project.Taken, s.Project.Recipes = others, taken, &a.recipes.cache
	return a.openProject(s)
}

// namesFile says whether a word names a recipe by its path and not by its name.
func (a *app) namesFile(word string, set workflow.Set) bool {
	if word == "" || a.opt.Recipe == nil {
		return false
	}
	if strings.ContainsRune(word, filepath.Separator) || strings.Contains(word, "/") || library.IsFile(word) {
		return true
	}
	if _, err := set.Find(word); err == nil || a.unusable(word) != nil {
		return false
	}
	info, err := os.Stat(word)
	return err == nil && info.Mode().IsRegular()
}

// load reads the recipe of a path. One with mistakes is an entry, without a recipe.
func (a *app) load(path string) (*library.Entry, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(abs)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, usage("there is no file " + abs)
	case err == nil && info.IsDir():
		return nil, usage(abs + " is a directory; name a recipe file")
	}
	var e *library.Entry
	if err == nil {
		e, err = library.Load(abs, transcript.Line(path))
	}
	if err != nil {
		why := err
		var pe *fs.PathError
		if errors.As(err, &pe) {
			why = pe.Err
		}
		return nil, usage(fmt.Sprintf("cannot read %s: %v", abs, why))
	}
	return e, nil
}

// invalidEntry is the error of a file that is no valid recipe.
func (a *app) invalidEntry(e *library.Entry) *Error { return a.invalid(e.File, e.Text, e.Problems) }

// invalid shows everything that is wrong with a recipe, each at its place.
func (a *app) invalid(file string, text []byte, problems recipe.Problems) *Error {
	const most = 20
	var b strings.Builder
	n := 0
	for _, p := range problems {
		if p.Warning {
			continue
		}
		if n++; n <= most {
			b.WriteString("\n" + p.Error())
			for line := range strings.Lines(p.Excerpt(text)) {
				b.WriteString("\n  " + strings.TrimRight(line, "\n"))
			}
		}
	}
	if n > most {
		fmt.Fprintf(&b, "\nand %d more", n-most)
	}
	return &Error{
		Exit: ExitUsage, Code: "invalid", Err: problems,
		Message: fmt.Sprintf("%s cannot be used, %s; nothing ran", file, plural(n, "mistake")) + b.String(),
	}
}

// trustRecipe asks once, on a terminal, whether a recipe of the project is to be used that nobody has
// agreed to, which is why another cannot run or itself. The error is why it is not.
func (a *app) trustRecipe(wary *project.UntrustedError, why error) error {
	p := a.recipes.project
	refused := &Error{
		Exit: ExitDenied, Code: "untrusted", Message: why.Error(), Err: wary,
		Next: []string{"look at it and decide: " + a.hint("trust", wary.Name)},
	}
	var inner *library.UseError
	if e, _, err := p.Look(wary.Name); err == nil && !errors.As(why, &inner) {
		refused.Next = append(refused.Next, "or run the file by its path, which agrees to it this once: "+a.hint("run", quote(shownPath(e.Path))))
	}
	i := slices.IndexFunc(p.Items(), func(s trust.Status) bool {
		return s.Item.Kind == trust.Workflow && s.Item.Name == wary.Name && s.State != trust.Trusted
	})
	if !a.asks() || i < 0 {
		return refused
	}
	items := p.Items()[i : i+1]
	if _, err := a.agree(p, items); err != nil {
		return err
	}
	return p.Trust([]trust.Item{items[0].Item})
}

// shownPath is a path as it is typed here: relative to this folder if it lies below.
func shownPath(path string) string {
	here, err := os.Getwd()
	if err == nil {
		if real, err := filepath.EvalSymlinks(here); err == nil {
			here = real
		}
		if rel, err := filepath.Rel(here, path); err == nil && filepath.IsLocal(rel) {
			return rel
		}
	}
	return path
}
