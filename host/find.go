package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/superstep-dev/superstep/internal/catalog"
	"github.com/superstep-dev/superstep/internal/catalog/trust"
	"github.com/superstep-dev/superstep/internal/recipe"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/workflow"
)

// A RecipeError describes what is wrong with a recipe.
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

func invalid(e *catalog.RecipeFile) error { return &RecipeError{e.File, e.Text, e.Problems} }

// recipeError returns a RecipeError for the error of a recipe that cannot be used.
func recipeError(err error) error {
	if bad, ok := errors.AsType[*catalog.InvalidError](err); ok {
		return invalid(bad.Entry)
	}
	return err
}

// A DraftError reports that a recipe is a draft, which waits for approval.
type DraftError struct{ Name string }

func (e *DraftError) Error() string {
	return fmt.Sprintf("the recipe %q is a draft and waits for approval", e.Name)
}

// FailureCode returns the word for runs that fail with the error.
func (e *DraftError) FailureCode() string { return "usage" }

// An UnknownError reports that no workflow has this name.
type UnknownError struct {
	Name, Meant string // "" if none is called anything like it
	err         error
}

func (e *UnknownError) Error() string {
	if e.Meant != "" {
		return fmt.Sprintf("there is no workflow %q; did you mean %q?", e.Name, e.Meant)
	}
	return fmt.Sprintf("there is no workflow %q", e.Name)
}

// Unwrap returns the error of the set of workflows.
func (e *UnknownError) Unwrap() error { return e.err }

// Find returns the workflow of a name or an alias. If the workflow is missing or unusable, the
// error is an *UnknownError, a *DraftError, a *RecipeError, or an error that Untrusted recognizes.
func (h *Host) Find(name string) (*workflow.Workflow, error) {
	b := h.read()
	w, err := b.set.Find(name)
	if err == nil && (h.file == nil || h.file.Name != name || b.failed[name] == nil) {
		return w, nil
	}
	if why := h.unusable(name); why != nil {
		return nil, why
	}
	var names []string
	for _, w := range b.set {
		names = append(append(names, w.Name), w.Aliases...)
	}
	if b.project != nil { // those that may not be used are meant, too
		for _, e := range b.project.Workflows() {
			names = append(append(names, e.Name), e.Aliases...)
		}
	}
	return nil, &UnknownError{Name: name, Meant: suggest.Closest(name, names), err: err}
}

// unusable returns why a recipe cannot be used as a workflow. If no recipe has this name, it
// returns nil.
func (h *Host) unusable(name string) error {
	b := h.read()
	p, e, err := b.project, h.file, b.wrong
	if err != nil {
		return err
	}
	if e == nil || e.Name != name {
		e, _, err = p.Look(name)
		switch {
		case errors.As(err, new(*catalog.NotFoundError)):
			if _, _, err := p.Draft(name); err == nil {
				return &DraftError{name}
			}
			for _, e := range p.Atomic() {
				if e.Name == name {
					return mistake(e.Problems[0])
				}
			}
			return nil
		case err != nil:
			return recipeError(err)
		}
	}
	err = recipeError(b.failed[e.Name]) // perhaps of one that it uses
	if err == nil || errors.As(err, new(*catalog.UntrustedError)) || errors.As(err, new(*RecipeError)) {
		return err
	}
	problems := p.check(e.Recipe)
	if problems.Err() != nil { // which say where
		return &RecipeError{e.File, e.Text, problems}
	}
	return err
}

// Untrusted returns the item that the user has to trust to get past an error, or nil if the error
// has another cause. The item has no digest if it cannot be decided on here.
func (h *Host) Untrusted(err error) *Decision {
	wary, ok := errors.AsType[*catalog.UntrustedError](err)
	if !ok || wary.Kind != "workflow" {
		return nil
	}
	d := &Decision{Kind: string(trust.Workflow), Name: wary.Name, Path: wary.Path, State: string(wary.State)}
	list, _ := h.Decisions(string(trust.Workflow) + "/" + wary.Name)
	for i := range list {
		if list[i].State != Trusted {
			d = &list[i]
		}
	}
	if p := h.read().project; p != nil && !errors.As(err, new(*catalog.UseError)) {
		if e, _, err := p.Look(wary.Name); err == nil {
			d.File = e.Path
		}
	}
	return d
}

// IsFile reports whether a word names a recipe by its path and not by its name.
func (h *Host) IsFile(word string) bool {
	switch {
	case word == "":
		return false
	case h.file != nil && h.file.File == transcript.Line(word):
		return true
	case strings.ContainsRune(word, filepath.Separator) || strings.Contains(word, "/") || catalog.IsRecipeFile(word):
		return true
	}
	if _, err := h.read().set.Find(word); err == nil || h.unusable(word) != nil {
		return false
	}
	info, err := os.Stat(h.Abs(word))
	return err == nil && info.Mode().IsRegular()
}

// At returns a host that has the recipe of a file as well, and the name of that recipe, which
// precedes another of the same name.
func (h *Host) At(path string) (*Host, string, error) {
	e, err := h.loadRecipe(path)
	if err != nil {
		return nil, "", err
	}
	c := h.With(h.cfg.Settings)
	c.file = e
	return c, e.Name, c.read().wrong
}

// File returns the path by which the user named this recipe, or "" if the user did not name it by a
// path; see At.
func (h *Host) File(name string) string {
	if h.file == nil || h.file.Name != name {
		return ""
	}
	return h.file.File
}

// DiffRecipe returns the difference between the file of a recipe and a text. If they are equal, it
// returns "". The recipe may have mistakes.
func (h *Host) DiffRecipe(was, path string) (string, error) {
	e, err := h.loadAny(path)
	if err != nil {
		return "", err
	}
	return trust.Diff(was, string(e.Text)), nil
}

// loadRecipe reads the recipe of a path.
func (h *Host) loadRecipe(path string) (*catalog.RecipeFile, error) {
	e, err := h.loadAny(path)
	if err == nil && e.Recipe == nil {
		err = invalid(e)
	}
	return e, err
}

// loadAny is like loadRecipe, but accepts a recipe with mistakes. The entry then has no recipe.
func (h *Host) loadAny(path string) (*catalog.RecipeFile, error) {
	abs := h.Abs(path)
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
