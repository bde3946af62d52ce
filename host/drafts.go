package host

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/catalog"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/distil"
	"github.com/superstep-dev/superstep/internal/recipe"
)

// Recipes that agents write are kept in a separate folder, where their names do not find them,
// until a user approves them. All writes stay within the folder of the project or of the user, even
// through symbolic links.

const (
	draftMark = "# Draft by "
	modeline  = "# yaml-language-server: $schema="
)

// An ExistsError reports that a file exists already and was not changed.
type ExistsError struct{ Path string }

func (e *ExistsError) Error() string {
	return fmt.Sprintf("%s is there already, and was left as it is", e.Path)
}

// FailureCode returns the code of runs that fail with the error.
func (e *ExistsError) FailureCode() string { return "usage" }

// A noProjectError reports that no project was found to write to.
type noProjectError struct{ Dir string } // one that holds what the user trusted; "" for none

func (e *noProjectError) Error() string {
	if e.Dir == "" {
		return "there is no project here"
	}
	return e.Dir + " holds your trust decisions and cannot be a project; work in a folder below"
}

// FailureCode returns the code of runs that fail with the error.
func (e *noProjectError) FailureCode() string { return "usage" }

// home returns the root folder of a scope, and the path of the scope's recipes within it.
func (p *project) home(scope string) (root *os.Root, in string, err error) {
	base, in := p.folder, ".superstep"
	if scope == catalog.User {
		base, in = filepath.Dir(p.h.ConfigDir()), "superstep"
		if err := os.MkdirAll(base, 0o700); err != nil {
			return nil, "", err
		}
		if rel, err := filepath.Rel(p.h.Home(), base); p.h.Home() != "" && err == nil && filepath.IsLocal(rel) {
			base, in = p.h.Home(), path.Join(filepath.ToSlash(rel), in) // where links may lead, as for reading
		}
	}
	switch {
	case base == "" && p.dir != "":
		return nil, "", &noProjectError{Dir: p.dir}
	case base == "":
		return nil, "", &noProjectError{}
	}
	root, err = os.OpenRoot(base)
	return root, in, err
}

// place is home for a recipe of a name. It fails if a recipe of that name exists, unless that
// recipe is in the file of that name and may be replaced.
func (p *project) place(scope, name string, replace bool) (*os.Root, string, error) {
	root, in, err := p.home(scope)
	if err != nil {
		return nil, "", err
	}
	target := filepath.Join(root.Name(), filepath.FromSlash(path.Join(in, "workflows", name+".yaml")))
	for _, other := range p.Recipes() {
		if !other.Draft && other.Scope == scope && other.Name == name && (!replace || other.Path != target) {
			return nil, "", errors.Join(&ExistsError{Path: other.File}, root.Close())
		}
	}
	return root, in, nil
}

// saveDraft checks a recipe that an agent has written, and stores it as a draft in the project, or
// without a project in the user's folder. Origin is a line that names the author. It replaces a
// draft of the same origin. For a draft of another origin it returns an *ExistsError. If the recipe
// has mistakes, it returns a *catalog.InvalidError with their positions in the given text.
func (p *project) saveDraft(name, text, origin string) (string, error) {
	e := &catalog.RecipeFile{Name: name, File: name + ".yaml", Text: []byte(text), Draft: true, Scope: catalog.Project}
	if p.folder == "" {
		e.Scope = catalog.User
	}
	e.Recipe, e.Problems = recipe.Parse(e.File, e.Text)
	if e.Recipe == nil {
		e.Problems = append(e.Problems, p.checkText(e.File, e.Text)...)
		return "", &catalog.InvalidError{Entry: e}
	}
	if e.Recipe.Name != name {
		e.Problems = append(e.Problems, &recipe.Problem{File: e.File, Code: "file-name",
			Text: fmt.Sprintf("the recipe is to be saved as %q and calls itself %q; give both the same name", name, e.Recipe.Name)})
		return "", &catalog.InvalidError{Entry: e}
	}
	more := p.check(e.Recipe)
	if more.Err() != nil {
		e.Problems = append(e.Problems, more...)
		return "", &catalog.InvalidError{Entry: e}
	}
	root, in, err := p.home(e.Scope)
	if err != nil {
		return "", err
	}
	defer root.Close()
	head := draftMark + strings.Join(strings.Fields(clean.Text(origin)), " ") + "\n"
	at := path.Join(in, "workflows", catalog.DraftsDir, name+".yaml")
	replace := false
	if was, err := readIn(root, at); err == nil {
		replace = bytes.HasPrefix(was, []byte(head))
	}
	err = write(root, at, []byte(head+modeline+"../../schema/workflow.json\n"+bare(text)), replace)
	return filepath.Join(root.Name(), filepath.FromSlash(at)), err
}

// bare returns the text of a recipe without the header lines that this package adds.
func bare(text string) string {
	for {
		line, rest, _ := strings.Cut(text, "\n")
		if !strings.HasPrefix(line, draftMark) && !strings.HasPrefix(line, modeline) {
			return text
		}
		text = rest
	}
}

// approve moves a draft to the recipes and trusts it. It uses the text that the draft had when the
// project was opened. A recipe that exists already is an *ExistsError, or is replaced if wanted. It
// returns the path; open the project again to find the recipe.
func (p *project) approve(name string, replace bool) (string, error) {
	e, _, err := p.Draft(name)
	if err != nil {
		return "", err
	}
	if e.Recipe == nil {
		return "", &catalog.InvalidError{Entry: e}
	}
	root, in, err := p.place(e.Scope, name, replace)
	if err != nil {
		return "", err
	}
	defer root.Close()
	draft := path.Join(in, "workflows", catalog.DraftsDir, filepath.Base(e.Path))
	if now, err := readIn(root, draft); err != nil || !bytes.Equal(now, e.Text) {
		return "", fmt.Errorf("the draft %s changed meanwhile; look at it again", e.File)
	}
	path, err := p.install(root, in, e.Scope, e.Text, name, replace)
	if err != nil {
		return "", err
	}
	return path, root.Remove(draft)
}

// reject removes a draft and returns its former path.
func (p *project) reject(name string) (string, error) {
	e, _, err := p.Draft(name)
	if err != nil {
		return "", err
	}
	root, in, err := p.home(e.Scope)
	if err != nil {
		return "", err
	}
	defer root.Close()
	return e.File, root.Remove(path.Join(in, "workflows", catalog.DraftsDir, filepath.Base(e.Path)))
}

// addRecipe copies a recipe of the user into the project and trusts it. An existing recipe of that
// name is an *ExistsError, or is replaced if wanted and if it is in the file of that name. It
// returns the path.
func (p *project) addRecipe(text []byte, replace bool) (string, error) {
	e := &catalog.RecipeFile{File: "recipe", Text: text}
	if e.Recipe, e.Problems = recipe.Parse(e.File, text); e.Recipe == nil {
		return "", &catalog.InvalidError{Entry: e}
	}
	name := e.Recipe.Name
	root, in, err := p.place(catalog.Project, name, replace)
	if err != nil {
		return "", err
	}
	defer root.Close()
	return p.install(root, in, catalog.Project, text, name, replace)
}

// install writes a recipe, and beside it the schema that editors use, and trusts the recipe.
func (p *project) install(root *os.Root, in string, scope string, text []byte, name string, replace bool) (string, error) {
	text = []byte(modeline + "../schema/workflow.json\n" + bare(string(text)))
	parsed, problems := recipe.Parse(name, text)
	if parsed == nil {
		return "", problems.Err()
	}
	at := path.Join(in, "workflows", name+".yaml")
	if err := write(root, at, text, replace); err != nil {
		return "", err
	}
	var there *ExistsError
	if err := write(root, path.Join(in, "schema", "workflow.json"), recipe.Schema(), false); err != nil && !errors.As(err, &there) {
		return "", err
	}
	file := filepath.Join(root.Name(), filepath.FromSlash(at))
	if scope != catalog.Project {
		return file, nil
	}
	return file, p.TrustRecipe(parsed, file, text)
}

func readIn(root *os.Root, name string) ([]byte, error) {
	info, err := root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > recipe.MaxBytes {
		return nil, fs.ErrInvalid
	}
	return root.ReadFile(name)
}

// write creates a file atomically. An existing file is replaced, or is an *ExistsError.
func write(root *os.Root, name string, text []byte, replace bool) error {
	dir := path.Dir(name)
	if err := root.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	beside := path.Join(dir, "."+path.Base(name)+"."+strings.ToLower(rand.Text()[:8])+".tmp")
	f, err := root.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = root.Remove(beside) }() // it is gone where it was renamed
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if replace {
		return root.Rename(beside, name)
	}
	if _, err = root.Lstat(name); err == nil {
		return &ExistsError{Path: filepath.Join(root.Name(), filepath.FromSlash(name))}
	}
	switch err = root.Link(beside, name); {
	case errors.Is(err, fs.ErrExist):
		return &ExistsError{Path: filepath.Join(root.Name(), filepath.FromSlash(name))}
	case err != nil: // there are file systems without links
		return root.Rename(beside, name)
	}
	return nil
}

const namesOfRecipes = "it has small letters and digits, and single hyphens between, at most 64"

// NewRecipe writes a recipe to begin with into the project, or one with the text of another, and returns its path.
func (h *Host) NewRecipe(name, from string) (string, error) {
	if slug := distil.Slug(name, 64); slug != name {
		if slug != "" {
			slug = fmt.Sprintf(", such as %q", slug)
		}
		return "", mistake(fmt.Sprintf("workflows new: %q is no name of a recipe; %s%s", name, namesOfRecipes, slug))
	}
	if slices.Contains(h.Taken(), name) {
		return "", mistake(fmt.Sprintf("workflows new: a workflow that comes with %s is called %q; choose another name", h.cfg.Name, name))
	}
	text := fmt.Sprintf(newRecipe, name)
	if from != "" {
		p, err := h.project()
		if err != nil {
			return "", err
		}
		e, _, err := p.Look(from)
		if err != nil {
			return "", mistake("--from: " + err.Error())
		}
		text = recipe.Renamed(string(e.Text), e.Name, name)
	}
	return h.AddRecipe(h.Dir(), []byte(text), false)
}

const newRecipe = `name: %s
description: Says in a sentence what it is for.

inputs:
  - name: topic
    description: What it is about
    required: true

steps:
  - id: gather
    subagent: researcher
    prompt: |
      Find out what matters about {{inputs.topic}}. Give the source of each fact.

  - id: write
    subagent: synthesizer
    depends_on: [gather]
    prompt: |
      Write a page about {{inputs.topic}} from these notes, and keep their sources:

      {{steps.gather.output}}

output: "{{steps.write.output}}"
`

// AddRecipe copies a recipe of the user into the project of a folder, trusts it, and returns its
// path. If the file exists, AddRecipe returns an *ExistsError, unless the file may be replaced and
// has the recipe's name.
func (h *Host) AddRecipe(dir string, text []byte, replace bool) (string, error) {
	p, err := h.projectIn(dir)
	if err != nil {
		return "", err
	}
	path, err := p.addRecipe(text, replace)
	return path, recipeError(err)
}

// Approve turns a draft into a recipe, trusts it, and returns its path. If the recipe exists,
// Approve returns an *ExistsError, unless the recipe may be replaced.
func (h *Host) Approve(name string, replace bool) (string, error) {
	p, err := h.project()
	if err != nil {
		return "", err
	}
	path, err := p.approve(name, replace)
	return path, recipeError(err)
}

// Reject removes a draft and returns its former path.
func (h *Host) Reject(name string) (string, error) {
	p, err := h.project()
	if err != nil {
		return "", err
	}
	return p.reject(name)
}
