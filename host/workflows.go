package host

import (
	"encoding/json"
	"fmt"
	"slices"

	delegate "github.com/superstep-dev/superstep/internal/builtin/agent"
	"github.com/superstep-dev/superstep/internal/builtin/research"
	"github.com/superstep-dev/superstep/internal/catalog"
	"github.com/superstep-dev/superstep/internal/compile"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/builtin"
	"github.com/superstep-dev/superstep/tool/permit"
	"github.com/superstep-dev/superstep/workflow"
)

// book holds the available workflows.
type book struct {
	set     workflow.Set
	failed  map[string]error // why there is no workflow of a recipe, by name
	project *project
	wrong   error // why there is no project, and so no recipes
}

// base returns the workflows that recipes may run: the program's own, and research.
func (h *Host) base() workflow.Set {
	var out workflow.Set
	for _, w := range h.cfg.Workflows {
		out = append(out, h.equipped(w))
	}
	if h.cfg.NoModels {
		return out
	}
	r, err := research.New(&research.Options{
		Model: h.ownModel, Note: h.note, SearchWeb: h.searchWeb(), Dir: h.cfg.Dir, CacheDir: h.CacheDir(), Embed: h.embedder(),
		Guest: h.cfg.Guest || h.cfg.Worker.Shared,
		Policy: func() (*permit.Policy, error) {
			p, err := h.project()
			if err != nil {
				return nil, err
			}
			return p.policy()
		},
	})
	if err == nil { // it lacks nothing
		out = append(out, r)
	}
	if r, err = h.ralph(); err == nil {
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

// read returns the available workflows. A recipe is compiled when it is drawn or run.
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

// addRecipes adds the workflows of usable recipes, including the recipe whose file the user named.
func (h *Host) addRecipes(b *book) {
	if b.project, b.wrong = h.project(); b.wrong != nil {
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

// compiled creates a workflow from a recipe, at once or when it is first used.
func (h *Host) compiled(b *catalog.Bundle, lazy bool) (*workflow.Workflow, error) {
	return compile.New(&compile.Bundle{Main: b.Main, Uses: b.Uses}, steps{h}.options(lazy))
}

// fileBundle returns the recipe of the file that the user named, with all that it uses.
func (h *Host) fileBundle(p *project) (*catalog.Bundle, error) {
	f := h.file
	if slices.Contains(h.Taken(), f.Name) {
		return nil, mistake(fmt.Sprintf("%s: a workflow that comes with %s is called %q; give the recipe another name", f.File, h.cfg.Name, f.Name))
	}
	return p.BundleOf(f.Recipe)
}

// recipe returns the recipe of a workflow, or nil if the workflow is not a recipe.
func (b *book) recipe(name string) *catalog.RecipeFile {
	if b.project == nil {
		return nil
	}
	if e, _, err := b.project.Look(name); err == nil && e.Name == name {
		return e
	}
	return nil
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

// Workflows returns the available workflows: the program's own, research, usable recipes, and agent. A recipe is compiled when
// its workflow is first drawn or run.
func (h *Host) Workflows() workflow.Set { return slices.Clone(h.read().set) }

// check returns the reasons, by name, why recipes without mistakes cannot be run.
func (h *Host) check() map[string]error {
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

// Ready returns the workflow of a name if it can run here. It compiles a recipe and checks it against the available
// agents, tools and workflows.
func (h *Host) Ready(name string) (*workflow.Workflow, error) {
	w, err := h.Workflows().Find(name)
	if err != nil {
		return nil, err
	}
	if p := h.read().project; p != nil {
		if err := p.settingsError(); err != nil {
			return nil, err
		}
	}
	b := h.bundle(w.Name)
	if b == nil {
		return w, nil
	}
	if err := h.checkBundle(b); err != nil {
		return nil, err
	}
	_, err = w.Flow(nil)
	return w, err
}

// Draw returns the workflow that an item is, to look at, whether it may be used or not.
func (h *Host) Draw(i *Item) (*workflow.Workflow, error) {
	r := i.Recipe()
	if r == nil {
		return h.read().set.Find(i.Name)
	}
	b, err := h.read().project.BundleOf(r)
	if err != nil {
		return nil, err
	}
	return h.compiled(b, false)
}

// IsRecipe reports whether the workflow of a name is a recipe that can be used.
func (h *Host) IsRecipe(name string) bool { return h.bundle(name) != nil }

// bundle returns the recipe of a workflow with everything it uses, or nil if the workflow is not a recipe.
func (h *Host) bundle(name string) *catalog.Bundle {
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

// Restore returns the workflow pinned by a run, even if its recipe has changed since.
func (h *Host) Restore(name string, pinned json.RawMessage) (*workflow.Workflow, error) {
	for _, w := range h.base() {
		if w.Name == name && w.Restore != nil {
			return w.Restore(pinned)
		}
	}
	return compile.Restore(pinned, steps{h}.options(true))
}
