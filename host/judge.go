package host

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/internal/catalog"
	"github.com/superstep-dev/superstep/internal/definition"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/offline"
	"github.com/superstep-dev/superstep/internal/recipe"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/workflow"
)

// Judgements returns the reasons why a workflow needs a language model. The result is empty if the offline model
// suffices or the need is unknown.
func (h *Host) Judgements(w *workflow.Workflow) []recipe.Judgement {
	if b := h.bundle(w.Name); b != nil {
		return h.judgementsOf(b)
	}
	if w.NeedsModel {
		return []recipe.Judgement{{Why: "its agent acts and judges"}}
	}
	return nil
}

func (h *Host) judgementsOf(b *catalog.Bundle) []recipe.Judgement {
	q := &recipe.Quoting{Tools: h.toolsOf, Fits: func(s *jsonschema.Schema) string {
		var cannot *offline.CannotError
		switch err := offline.Quotable(s); {
		case !errors.As(err, &cannot):
			return ""
		case cannot.At == "":
			return "its answer " + cannot.Why
		default:
			return fmt.Sprintf("%q of its answer %s", cannot.At, cannot.Why)
		}
	}}
	out := b.Main.Judgements(q)
	for _, r := range b.Uses {
		for _, j := range r.Judgements(q) {
			out = append(out, recipe.Judgement{Step: r.Name + "/" + j.Step, Why: j.Why})
		}
	}
	for _, w := range h.base() {
		if w.NeedsModel && slices.Contains(b.Others, w.Name) {
			out = append(out, recipe.Judgement{Why: "it runs the workflow " + w.Name})
		}
	}
	return out
}

// toolsOf returns the tools of an agent. Nil means all tools.
func (h *Host) toolsOf(name string) ([]string, bool) {
	d, _, err := h.read().project.Definition(name)
	switch {
	case err != nil:
		return nil, false
	case d.Kind == definition.Simple:
		return []string{}, true
	}
	return d.Tools, true
}

// Quotable refuses a run with the model offline of a workflow that needs a language model. Given is the model selected for
// the run. If empty, none was selected.
func (h *Host) Quotable(w *workflow.Workflow, given string) error {
	b := h.bundle(w.Name)
	if b == nil {
		return nil // a part of the program knows by itself
	}
	plays := slices.ContainsFunc(append(slices.Clone(b.Uses), b.Main), func(r *recipe.Recipe) bool {
		found := false
		r.Walk(func(s *recipe.Step, _ int) bool {
			found = found || s.Agent != nil && h.asked(r, s, given) == offline.Name
			return !found
		})
		return found
	})
	needs := h.judgementsOf(b)
	if !plays || len(needs) == 0 {
		return nil
	}
	const most = 5
	text := fmt.Sprintf("workflow %s needs a language model, and the model offline only quotes documents; nothing ran", w.Name)
	for i := range needs[:min(len(needs), most)] {
		text += "\n" + transcript.Line(needs[i].String())
	}
	if n := len(needs) - most; n > 0 {
		text += fmt.Sprintf("\nand %s more", inwords.Plural(n, "step"))
	}
	return NoModel(text)
}

// asked returns the model that a step names, or else the configured model.
func (h *Host) asked(r *recipe.Recipe, s *recipe.Step, given string) string {
	p := h.read().project
	name := cmp.Or(given, s.Agent.Model, r.Model)
	if d, _, err := p.Definition(s.Agent.Name); err == nil && name == "" && d.Model != "inherit" {
		name = d.Model
	}
	return cmp.Or(name, p.projectModel(), h.cfg.Model)
}

// judgementsIn returns why a recipe needs a language model that is only looked at.
func (h *Host) judgementsIn(r *recipe.Recipe) []recipe.Judgement {
	b, err := h.read().project.BundleOf(r)
	if err != nil {
		b = &catalog.Bundle{Main: r} // what it uses may not be used
	}
	return h.judgementsOf(b)
}

// checkBundle checks a recipe, and everything it uses, against the available agents, tools and
// workflows.
func (h *Host) checkBundle(b *catalog.Bundle) error {
	for _, r := range append([]*recipe.Recipe{b.Main}, b.Uses...) {
		problems := h.read().project.check(r)
		if problems.Err() != nil {
			return &RecipeError{File: r.File, Text: r.Source, Problems: problems}
		}
	}
	return nil
}
