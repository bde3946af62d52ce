package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/catalog"
	"github.com/superstep-dev/superstep/internal/catalog/skill"
	"github.com/superstep-dev/superstep/internal/recipe"
)

// A Report lists the problems of a file, or of the files in a folder.
type Report struct {
	Path     string
	Name     string // of a recipe
	Recipe   bool   // the file is one
	Text     []byte // of a recipe
	Problems recipe.Problems
	Checked  int // things that were looked at
}

// Lint checks the recipes in the named files and folders against the available agents, tools and workflows. Without names, it
// checks all recipes of the project and the user, and the project's configuration.
func (h *Host) Lint(paths ...string) ([]Report, error) {
	p, err := h.project()
	if err != nil {
		return nil, err
	}
	var files []*catalog.RecipeFile
	for _, path := range paths {
		found, err := h.recipesAt(p, path)
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	if len(paths) == 0 {
		files = slices.DeleteFunc(p.Recipes(), func(e *catalog.RecipeFile) bool { return e.Scope == catalog.BuiltIn })
	}
	var out []Report
	for _, e := range files {
		r := Report{Path: cmp.Or(e.Path, e.File), Name: e.Name, Recipe: true, Text: e.Text, Problems: slices.Concat(e.Problems, p.checkText(e.File, e.Text))}
		slices.SortStableFunc(r.Problems, func(a, b *recipe.Problem) int {
			return cmp.Or(a.Pos.Line-b.Pos.Line, a.Pos.Col-b.Pos.Col)
		})
		out = append(out, r)
	}
	if len(paths) > 0 {
		return out, nil
	}
	if list := problemsOf("settings", p.settings.problems); len(list) > 0 {
		out = append(out, Report{Path: list[0].File, Name: "config", Problems: list})
	}
	for _, e := range p.Atomic() {
		out = append(out, Report{Path: e.Path, Name: e.Name, Problems: recipe.Problems{{Code: "not-runnable", Text: catalog.NoAtomic, Warning: true}}})
	}
	return out, nil
}

// recipesAt returns the project's recipes in a file or a folder.
func (h *Host) recipesAt(p *project, path string) ([]*catalog.RecipeFile, error) {
	abs := h.Abs(path)
	info, err := os.Stat(abs)
	files := []string{path}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, mistake("lint: there is no file or folder " + abs)
	case err == nil && info.IsDir():
		files = nil
		for _, dir := range []string{abs, filepath.Join(abs, ".superstep", "workflows")} {
			entries, wrong := os.ReadDir(dir)
			if dir == abs {
				err = wrong
			}
			for _, f := range entries {
				if !f.IsDir() && catalog.IsRecipeFile(f.Name()) && !strings.Contains(f.Name(), ".eval.") { // which are cases
					files = append(files, filepath.Join(dir, f.Name()))
				}
			}
		}
	}
	switch {
	case err != nil:
		return nil, mistake(fmt.Sprintf("lint: cannot read %s: %v", abs, errors.Unwrap(err)))
	case len(files) == 0:
		return nil, mistake("lint: there are no recipes in " + abs)
	}
	var out []*catalog.RecipeFile
	for _, name := range files {
		e, err := h.loadAny(name)
		if err != nil {
			return nil, err
		}
		if real, err := filepath.EvalSymlinks(e.Path); err == nil { // with what is wrong with it among others
			known := p.Recipes()
			if i := slices.IndexFunc(known, func(k *catalog.RecipeFile) bool { return k.Path == real && k.Digest == e.Digest }); i >= 0 {
				e = known[i]
			}
		}
		out = append(out, e)
	}
	return out, nil
}

// Validate checks the files of agents or tools. Every problem that is not a warning makes an item unusable.
func (h *Host) Validate(ctx context.Context, kind string) (*Report, error) {
	items, problems, err := h.List(ctx, kind, true)
	if err != nil {
		return nil, err
	}
	r := &Report{Path: h.Dir(), Checked: len(items), Problems: problems}
	for _, x := range r.Problems {
		x.Code = "Unusable"
		if x.Warning {
			x.Code = "Odd"
		}
	}
	for _, i := range items {
		for _, w := range i.Warnings {
			where, text, _ := strings.Cut(w, ": ")
			r.Problems = append(r.Problems, &recipe.Problem{Code: "Odd", File: where, Text: text, Warning: true})
		}
	}
	return r, nil
}

// ValidateSkills checks skills against the format: a folder is one or holds several. Without names, it checks the skill folders
// of the project in the current folder.
func (h *Host) ValidateSkills(dirs ...string) ([]Report, error) {
	if len(dirs) == 0 {
		for _, dir := range catalog.SkillFolders(h.cfg.Dir) {
			if info, err := os.Stat(dir); err == nil && info.IsDir() {
				dirs = append(dirs, dir)
			}
		}
	}
	var out []Report
	for _, dir := range dirs {
		abs := h.Abs(dir)
		if _, err := os.Stat(abs); err != nil {
			return nil, mistake("skills validate: there is no folder " + abs)
		}
		found := skill.Validate(abs)
		r := Report{Path: dir, Checked: found.Skills}
		for _, f := range slices.Concat(found.Errors, found.Warnings) {
			r.Problems = append(r.Problems, &recipe.Problem{
				Code: f.Code, File: f.Path, Pos: recipe.Pos{Line: f.Line, Col: f.Col}, Text: f.Text, Warning: len(r.Problems) >= len(found.Errors),
			})
		}
		out = append(out, r)
	}
	return out, nil
}

// LintText checks the text of a recipe that is in no file yet.
func (h *Host) LintText(file string, text []byte) (recipe.Problems, error) {
	p, err := h.project()
	if err != nil {
		return nil, err
	}
	_, problems := recipe.Parse(file, text)
	problems = append(problems, p.checkText(file, text)...)
	slices.SortStableFunc(problems, func(a, b *recipe.Problem) int { return cmp.Or(a.Pos.Line-b.Pos.Line, a.Pos.Col-b.Pos.Col) })
	return problems, nil
}
