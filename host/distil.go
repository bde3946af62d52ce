package host

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/superstep-dev/superstep/internal/distil"
	"github.com/superstep-dev/superstep/runlog"
)

// DistilOptions describe the recipe to make from a run.
type DistilOptions struct {
	Name    string // defaults to the title of the run
	Loose   bool   // keep steps whose prompts were made of results in other words, in a draft
	Dry     bool   // write nothing
	Replace bool   // the recipe of that name that is there already
}

// Distilled is the result of making a recipe from a run.
type Distilled struct {
	Name  string          `json:"name"`
	Run   string          `json:"run"`
	Path  string          `json:"path,omitempty"` // "" if nothing was written
	Draft bool            `json:"draft,omitempty"`
	Steps int             `json:"steps"`
	Cut   []distil.Cut    `json:"cut,omitempty"`
	Loose []distil.Reason `json:"not_proven,omitempty"`
	Notes []string        `json:"notes,omitempty"`
	Text  string          `json:"text"`
}

// Distil creates a recipe from a run and proves it against the recording. A proven recipe is trusted, and stored so that it can be run by name. An
// unproven recipe, or a recipe from an imported run, becomes a draft. It returns the errors of distil.Distil, an *ExistsError, a *RecipeError or an
// *Error.
func (h *Host) Distil(ctx context.Context, id string, opt DistilOptions) (*Distilled, error) {
	if opt.Name != "" && distil.Slug(opt.Name, 64) != opt.Name {
		return nil, mistake(fmt.Sprintf("--name: %q is no name of a recipe; %s", opt.Name, namesOfRecipes))
	}
	store, err := h.Store(ctx, true)
	if err != nil {
		return nil, err
	}
	rec, err := distil.Read(runlog.Records(ctx, store, id, 0))
	if err != nil {
		return nil, undistilled(err)
	}
	made, err := distil.Distil(ctx, rec, &distil.Options{Run: id, Name: opt.Name, Loose: opt.Loose})
	if err != nil {
		return nil, undistilled(err)
	}
	im, err := runlog.Origin(ctx, store, id)
	if err != nil {
		return nil, err
	}
	out := &Distilled{
		Name: made.Name, Run: id, Draft: len(made.Loose) > 0 || im != nil, // nobody trusts an imported one by asking for it
		Steps: made.Steps, Cut: made.Cut, Loose: made.Loose, Notes: made.Notes, Text: string(made.Text),
	}
	if !opt.Dry {
		out.Path, err = h.keep(made, out.Draft, id, opt.Replace)
	}
	return out, err
}

// undistilled returns the error shown to the user for a run that cannot become a recipe.
func undistilled(err error) error {
	if errors.As(err, new(*distil.UnfitError)) {
		return mistaken(err)
	}
	return err
}

// keep writes a recipe into the project. A proven recipe can be run by its name at once; any other
// becomes a draft.
func (h *Host) keep(made *distil.Made, draft bool, run string, replace bool) (path string, err error) {
	p, err := h.project()
	if err != nil {
		return "", err
	}
	if slices.Contains(h.Taken(), made.Name) {
		return "", mistake(fmt.Sprintf("a workflow that comes with %s is called %q; choose another name with --name", h.cfg.Name, made.Name))
	}
	if err := p.check(made.Recipe).Err(); err != nil {
		return "", &Error{Code: "unrunnable", Message: "the recipe is proven, but it cannot be run here:\n" + err.Error()}
	}
	if draft {
		path, err = p.saveDraft(made.Name, string(made.Text), "runs distil, of run "+run)
	} else {
		path, err = p.addRecipe(made.Text, replace)
	}
	return path, recipeError(err)
}
