package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/catalog"
	"github.com/superstep-dev/superstep/project"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/builtin"
	"github.com/superstep-dev/superstep/tool/permit"
	"github.com/superstep-dev/superstep/transcript"
	"github.com/superstep-dev/superstep/workflow"
	delegate "github.com/superstep-dev/superstep/workflow/builtin/agent"
	"github.com/superstep-dev/superstep/workflow/builtin/research"
	"github.com/superstep-dev/superstep/workflow/recipe"
	"github.com/superstep-dev/superstep/workflow/recipe/compile"
)

// book has the workflows there are.
type book struct {
	set     workflow.Set
	failed  map[string]error // why there is no workflow of a recipe, by name
	project *project.Project
	wrong   error // why there is no project, and so no recipes
}

// base are the workflows that recipes may run: those of the program, and research.
func (h *Host) base() workflow.Set {
	var out workflow.Set
	for _, w := range h.cfg.Workflows {
		out = append(out, h.equipped(w))
	}
	if h.cfg.NoModels {
		return out
	}
	r, err := research.New(&research.Options{
		Model: h.Model, Note: h.note, SearchWeb: h.searchWeb(), Dir: h.cfg.Dir, CacheDir: h.CacheDir(), Embed: h.embedder(),
		Policy: func() (*permit.Policy, error) {
			p, err := h.Project()
			if err != nil {
				return nil, err
			}
			return p.Policy()
		},
	})
	if err == nil { // it lacks nothing
		out = append(out, r)
	}
	return out
}

// searchWeb returns the tool that research searches the web with, nil if it cannot be searched.
func (h *Host) searchWeb() *tool.Tool {
	web, err := h.searcher()
	if err != nil || web == nil || h.cfg.Offline {
		return nil
	}
	t, err := builtin.WebSearch(web)
	if err != nil {
		return nil
	}
	return t
}

// read returns what there is to run. A recipe is compiled when it is drawn or run.
func (h *Host) read() *book {
	h.own.mu.Lock()
	defer h.own.mu.Unlock()
	if h.own.book == nil {
		b := &book{set: h.base(), failed: map[string]error{}}
		h.own.book = b
		h.addRecipes(b)
		if !h.cfg.NoModels {
			l := leads{h}
			w, err := delegate.New(&delegate.Options{Prepare: l.prepare, Open: l.crew, Workflows: b.set, Dir: h.cfg.Dir})
			if err == nil { // it lacks nothing
				b.set = append(slices.Clone(b.set), w)
			}
		}
	}
	return h.own.book
}

// addRecipes adds workflows of the recipes that may be used, that of the file which the user named among them.
func (h *Host) addRecipes(b *book) {
	if b.project, b.wrong = h.Project(); b.wrong != nil {
		return // it is told where a recipe is wanted
	}
	bundles, failed := b.project.Bundles()
	b.failed = failed
	if f := h.file; f != nil {
		bundles = slices.DeleteFunc(bundles, func(x *catalog.Bundle) bool { return x.Main.Name == f.Name })
		main, err := h.fileBundle(b.project)
		if b.failed[f.Name] = err; err == nil {
			bundles = append(bundles, main)
		}
	}
	for _, x := range bundles {
		w, err := h.compiled(x, true)
		if err != nil {
			b.failed[x.Main.Name] = err
			continue
		}
		own := *w
		own.Aliases = nil
		if _, e, err := b.project.Look(x.Main.Name); err == nil {
			own.Aliases = e.Aliases // those that find it
		}
		b.set = append(b.set, &own)
	}
}

// compiled makes a workflow of a recipe, at once or when it is first used.
func (h *Host) compiled(b *catalog.Bundle, lazy bool) (*workflow.Workflow, error) {
	return compile.New(&compile.Bundle{Main: b.Main, Uses: b.Uses}, steps{h}.options(lazy))
}

// fileBundle is the recipe of the file that the user named, with all that it uses.
func (h *Host) fileBundle(p *project.Project) (*catalog.Bundle, error) {
	f := h.file
	if slices.Contains(h.Taken(), f.Name) {
		return nil, mistake(fmt.Sprintf("%s: a workflow that comes with %s is called %q; give the recipe another name", f.File, h.cfg.Name, f.Name))
	}
	return p.BundleOf(f.Recipe)
}

// Taken returns the names of workflows that no recipe may have.
func (h *Host) Taken() []string {
	var names []string
	for _, w := range h.base() {
		names = append(names, w.Name)
	}
	if !h.cfg.NoModels {
		names = append(names, delegate.Name)
	}
	return names
}

// Workflows returns those there are: the program's own, research, the recipes that may be used, and agent. A recipe is compiled
// when its workflow is first drawn or run.
func (h *Host) Workflows() workflow.Set { return slices.Clone(h.read().set) }

// Recipes returns the project that the recipes are of, and why there is none.
func (h *Host) Recipes() (*project.Project, error) {
	b := h.read()
	return b.project, b.wrong
}

// Check finds out which recipes cannot be run although they have no mistake, and returns why, by name.
func (h *Host) Check() map[string]error {
	b := h.read()
	for _, w := range b.set {
		if w.Restore == nil || b.failed[w.Name] != nil || b.project == nil {
			continue
		}
		if _, _, err := b.project.Look(w.Name); err != nil {
			continue
		}
		if _, err := w.Flow(nil); err != nil {
			b.failed[w.Name] = err
		}
	}
	return b.failed
}

// Failed returns why there is no workflow of the recipe of a name, nil if there is one or no such recipe.
func (h *Host) Failed(name string) error { return h.read().failed[name] }

// Ready returns the workflow of a name if it can run here: a recipe is checked in view of what there is, and compiled.
func (h *Host) Ready(name string) (*workflow.Workflow, error) {
	w, err := h.Workflows().Find(name)
	if err != nil {
		return nil, err
	}
	b := h.Bundle(w.Name)
	if b == nil {
		return w, nil
	}
	if err := h.check(b); err != nil {
		return nil, err
	}
	_, err = w.Flow(nil)
	return w, err
}

// A RecipeError says what is wrong with a recipe.
type RecipeError struct {
	File     string
	Text     []byte
	Problems recipe.Problems
}

func (e *RecipeError) Error() string { return e.File + ": " + e.Problems.Error() }

// Unwrap returns the problems.
func (e *RecipeError) Unwrap() error { return e.Problems }

// FailureCode returns the word for runs that fail with the error.
func (e *RecipeError) FailureCode() string { return "usage" }

// Draw returns the workflow of a recipe to look at, whether it may be used or not.
func (h *Host) Draw(r *recipe.Recipe) (*workflow.Workflow, error) {
	p, err := h.Recipes()
	if err != nil {
		return nil, err
	}
	b, err := p.BundleOf(r)
	if err != nil {
		return nil, err
	}
	return h.compiled(b, false)
}

// Bundle returns the recipe of a workflow, with all that it uses; nil for one that is no recipe.
func (h *Host) Bundle(name string) *catalog.Bundle {
	p := h.read().project
	if p == nil {
		return nil
	}
	var b *catalog.Bundle
	var err error
	if f := h.file; f != nil && f.Name == name {
		b, err = p.BundleOf(f.Recipe)
	} else {
		b, err = p.Bundle(name)
	}
	if err != nil {
		return nil
	}
	return b
}

// Restore returns the workflow that a run has pinned, whatever its recipe is by now.
func (h *Host) Restore(name string, pinned json.RawMessage) (*workflow.Workflow, error) {
	for _, w := range h.base() {
		if w.Name == name && w.Restore != nil {
			return w.Restore(pinned)
		}
	}
	return compile.Restore(pinned, steps{h}.options(true))
}

// File returns the recipe that the user named by its path, nil for none.
func (h *Host) File() *catalog.RecipeFile { return h.file }

// WithFile returns the host with the recipe of a file beside the others, before one of its name.
func (h *Host) WithFile(e *catalog.RecipeFile) *Host {
	c := h.With(h.cfg.Settings)
	c.file = e
	return c
}

// Load reads the recipe of a path. One with mistakes is an entry without a recipe.
func (h *Host) Load(path string) (*catalog.RecipeFile, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(abs)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, mistake("there is no file " + abs)
	case err == nil && info.IsDir():
		return nil, mistake(abs + " is a directory; name a recipe file")
	}
	var e *catalog.RecipeFile
	if err == nil {
		e, err = catalog.LoadRecipe(abs, transcript.Line(path))
	}
	if err != nil {
		why := err
		var pe *fs.PathError
		if errors.As(err, &pe) {
			why = pe.Err
		}
		return nil, mistake(fmt.Sprintf("cannot read %s: %v", abs, why))
	}
	return e, nil
}

// IsFile reports whether a word names a recipe by its path and not by its name.
func (h *Host) IsFile(word string) bool {
	if word == "" {
		return false
	}
	return strings.ContainsRune(word, filepath.Separator) || strings.Contains(word, "/") || catalog.IsRecipeFile(word)
}
