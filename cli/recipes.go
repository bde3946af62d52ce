package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/catalog"
	"github.com/superstep-dev/superstep/catalog/trust"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/workflow"
	"github.com/superstep-dev/superstep/workflow/recipe"
)

// pick gives the workflow of a name, or says why it cannot be used.
func (a *app) pick(set workflow.Set, name string) (*workflow.Workflow, error) {
	w, err := set.Find(name)
	file := a.host().File()
	if err == nil && (file == nil || file.Name != name || a.host().Failed(name) == nil) {
		return w, nil
	}
	if why := a.unusable(name); why != nil {
		return nil, why
	}
	var names []string
	for _, w := range set {
		names = append(append(names, w.Name), w.Aliases...)
	}
	if p, _ := a.host().Recipes(); p != nil { // those that may not be used are meant, too
		for _, e := range p.Workflows() {
			names = append(append(names, e.Name), e.Aliases...)
		}
	}
	if meant := suggest.Closest(name, names); meant != "" {
		return nil, &Error{Exit: ExitUsage, Code: "unknown_workflow", Message: fmt.Sprintf("there is no workflow %q; did you mean %q?", name, meant), Err: err}
	}
	out := &Error{Exit: ExitUsage, Code: "unknown_workflow", Message: fmt.Sprintf("there is no workflow %q", name), Err: err}
	if _, none := set.Find("research"); none == nil && strings.ContainsAny(strings.TrimSpace(name), " \t\n") {
		docs := "DIR"
		if hasDocuments(".") && !a.atHome() {
			docs = "."
		}
		question := quote(name)
		if !strings.ContainsAny(name, "\"$`\\!") {
			question = `"` + name + `"`
		}
		out.Next = []string{"ask it of documents: " + a.hint("run", "research", question, "--docs", docs)}
	} else {
		out.Message += ". " + a.known()
	}
	return nil, out
}

// unusable is why a recipe of a name is not among the workflows; nil if there is none of that name.
func (a *app) unusable(name string) error {
	h := a.host()
	p, err := h.Recipes()
	if err != nil {
		return err
	}
	e := h.File()
	if e == nil || e.Name != name {
		e, _, err = p.Look(name)
		var bad *catalog.InvalidError
		var none *catalog.NotFoundError
		switch {
		case errors.As(err, &none):
			if _, _, err := p.Draft(name); err == nil {
				return usage(fmt.Sprintf("the recipe %q is a draft and waits for approval", name),
					"look at it: "+a.hint("workflows", "show", name, "-v"), "use it: "+a.hint("workflows", "approve", name))
			}
			for _, e := range p.Atomic() {
				if e.Name == name {
					return usage(e.Problems[0])
				}
			}
			return nil
		case errors.As(err, &bad):
			return a.invalidEntry(bad.Entry)
		case err != nil:
			return err
		}
	}
	var wary *catalog.UntrustedError
	var bad *catalog.InvalidError
	err = h.Failed(e.Name)
	switch {
	case err == nil || errors.As(err, &wary):
		return err
	case errors.As(err, &bad): // one that it uses
		return a.invalidEntry(bad.Entry)
	}
	problems := p.Check(e.Recipe)
	if problems.Err() != nil { // which say where
		return a.invalid(e.File, e.Text, problems)
	}
	return err
}

// choose gives the workflow that is about to run, by its name or the path of a recipe, and asks about
// one of the project that nobody has agreed to.
func (a *app) choose(word string) (*workflow.Workflow, error) {
	set := a.allRuns()
	if a.host().File() != nil || a.namesFile(word, set) {
		e, err := a.host().Load(word)
		if name := strings.TrimLeft(word, "/"); err != nil && name != word {
			if _, known := a.pick(set, name); known == nil {
				err = usage(fmt.Sprintf("there is no file %s; did you mean the workflow %q?", word, name), "run it: "+a.hint("run", name))
			}
		}
		if err != nil {
			return nil, err
		}
		if e.Recipe == nil {
			return nil, a.invalidEntry(e)
		}
		a.opened = a.host().WithFile(e)
		word = e.Name
		if _, err := a.host().Recipes(); err != nil {
			return nil, err
		}
		set = a.host().Workflows()
	}
	var last catalog.UntrustedError
	for {
		w, err := a.pick(set, word)
		var wary *catalog.UntrustedError
		if err == nil || !errors.As(err, &wary) || wary.Kind != "workflow" || *wary == last {
			return w, err
		}
		last = *wary
		if err := a.trustRecipe(wary, err); err != nil {
			return nil, err
		}
		a.host().Refresh()
		set = a.host().Workflows()
	}
}

// allRuns are the workflows there are. It warns of mistakes in the settings of the project that they are of.
func (a *app) allRuns() workflow.Set {
	if p, err := a.host().Recipes(); err == nil {
		a.warnOfSettings(p)
	}
	return a.host().Workflows()
}

// ready gives the workflow of a name if it can run here.
func (a *app) ready(name string) (*workflow.Workflow, error) {
	w, err := a.host().Ready(name)
	return w, a.recipeError(err)
}

// recipeError shows what is wrong with a recipe if that is the error.
func (a *app) recipeError(err error) error {
	var bad *host.RecipeError
	if errors.As(err, &bad) {
		return a.invalid(bad.File, bad.Text, bad.Problems)
	}
	return err
}

// namesFile says whether a word names a recipe by its path and not by its name.
func (a *app) namesFile(word string, set workflow.Set) bool {
	if word == "" || a.host().IsFile(word) {
		return word != ""
	}
	if _, err := set.Find(word); err == nil || a.unusable(word) != nil {
		return false
	}
	info, err := os.Stat(word)
	return err == nil && info.Mode().IsRegular()
}

// invalidEntry is the error of a file that is no valid recipe.
func (a *app) invalidEntry(e *catalog.RecipeFile) *Error {
	return a.invalid(e.File, e.Text, e.Problems)
}

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
func (a *app) trustRecipe(wary *catalog.UntrustedError, why error) error {
	p, noProject := a.host().Recipes()
	if noProject != nil {
		return noProject
	}
	refused := &Error{
		Exit: ExitDenied, Code: "untrusted", Message: why.Error(), Err: wary,
		Next: []string{"look at it and decide: " + a.hint("trust", wary.Name)},
	}
	var inner *catalog.UseError
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
