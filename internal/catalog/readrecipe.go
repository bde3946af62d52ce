package catalog

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/frontmatter"
	"github.com/superstep-dev/superstep/internal/recipe"
)

const (
	maxFiles = 2000    // of recipes, in one folder
	maxBytes = 8 << 20 // of all of them
)

// DraftsDir is the folder for drafts, inside the folder of recipes.
const DraftsDir = "drafts"

// read reads the recipes of a folder, and the drafts in it.
func (l *recipes) read(c *Catalog, p place) {
	var wrong []Problem
	c.read(p, &wrong, func(f *frontmatter.Folder, p place) {
		l.readIn(c, f, p, false)
		p.dir = path.Join(p.dir, DraftsDir)
		c.count(p.path())
		l.readIn(c, f, p, true)
	})
	for _, x := range wrong {
		l.problems = append(l.problems, &recipe.Problem{File: c.known(x.File), Code: "unreadable", Text: clean.Text(x.Text)})
	}
}

// known returns the name of a file for users.
func (c *Catalog) known(path string) string {
	return strings.ReplaceAll(clean.Text(c.Shown(path)), "\n", " ")
}

func (l *recipes) readIn(c *Catalog, f *frontmatter.Folder, p place, draft bool) {
	where := c.known(p.path())
	found, cut := f.Entries(p.dir, &frontmatter.Walk{
		Entries: 2 * maxFiles, Depth: 1,
		Enter: func(dir string, _ []string) bool { return dir == path.Clean(p.dir) },
	})
	n, room := 0, int64(maxBytes)
	for _, e := range found {
		if e.Path == path.Clean(p.dir) && e.Err != nil {
			l.problems = append(l.problems, &recipe.Problem{File: where, Code: "unreadable", Text: e.Err.Error()})
			continue
		}
		if !IsRecipeFile(e.Path) || e.Mode.IsDir() && e.Err == nil {
			continue
		}
		if n++; n > maxFiles || room <= 0 {
			cut = true
			break
		}
		entry := &RecipeFile{Scope: p.scope, Path: f.Path(e.Path), Draft: draft}
		entry.File = c.known(entry.Path)
		err := e.Err
		if err == nil {
			entry.Text, err = f.Read(e.Path, recipe.MaxBytes)
			room -= int64(len(entry.Text))
		}
		l.add(entry, err)
	}
	if cut {
		l.problems = append(l.problems, &recipe.Problem{File: where, Code: "too-many",
			Text: fmt.Sprintf("there are over %d files or %d MiB; those that come later are not looked at", maxFiles, maxBytes>>20)})
	}
}

// IsRecipeFile reports whether a file has the name of a recipe.
func IsRecipeFile(name string) bool {
	ext := strings.ToLower(path.Ext(filepath.ToSlash(name)))
	return ext == ".yaml" || ext == ".yml"
}

// builtin reads the recipes that come with the program.
func (l *recipes) builtin(c *Catalog) {
	files, dir := fs.FS(shippedRecipes), "recipes/"
	if c.opt.builtin != nil {
		files, dir = c.opt.builtin, ""
	}
	names, err := fs.Glob(files, dir+"*.yaml")
	if err != nil {
		l.problems = append(l.problems, &recipe.Problem{File: BuiltIn, Code: "unreadable", Text: err.Error()})
	}
	for _, name := range names {
		e := &RecipeFile{Scope: BuiltIn, File: BuiltIn + "/" + path.Base(name)}
		e.Text, err = fs.ReadFile(files, name)
		l.add(e, err)
	}
}

// add adds a file, whether or not it could be read.
func (l *recipes) add(e *RecipeFile, err error) {
	base := path.Base(filepath.ToSlash(cmp.Or(e.Path, e.File)))
	e.Name = clean.Text(strings.TrimSuffix(base, path.Ext(base)))
	if e.Draft {
		l.drafts = append(l.drafts, e)
	} else {
		l.entries = append(l.entries, e)
	}
	if err != nil {
		e.unreadable(err)
		return
	}
	e.Digest = recipeDigest(e.Text)
	e.Recipe, e.Problems = recipe.Parse(e.File, e.Text)
	if e.Recipe == nil {
		return
	}
	if e.Recipe.Name != e.Name {
		e.odd("file-name", "name", "the file is called %q; the recipe is found as %q", base, e.Recipe.Name)
		e.Name = e.Recipe.Name
	}
}

// LoadRecipe reads one file, wherever it is. It fails only if the file cannot be read. Mistakes in
// the content are added to the Problems of the entry.
func LoadRecipe(file, shown string) (*RecipeFile, error) {
	abs, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	real, err := filepath.EvalSymlinks(abs) // who names a link means what it leads to
	if err != nil {
		return nil, err
	}
	at, err := frontmatter.OpenFolder(filepath.Dir(real))
	if err != nil {
		return nil, err
	}
	defer at.Close()
	e := &RecipeFile{Path: abs, File: shown}
	base := filepath.Base(abs)
	e.Name = clean.Text(strings.TrimSuffix(base, filepath.Ext(base)))
	e.Text, err = at.Read(filepath.Base(real), recipe.MaxBytes)
	var large *frontmatter.Error
	if errors.As(err, &large) {
		e.unreadable(err)
		return e, nil
	}
	if err != nil {
		return nil, err
	}
	e.Digest = recipeDigest(e.Text)
	if e.Recipe, e.Problems = recipe.Parse(shown, e.Text); e.Recipe != nil {
		e.Name = e.Recipe.Name
	}
	return e, nil
}

// recipeDigest returns the digest of a recipe with this text; see RecipeFile.
func recipeDigest(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// unreadable notes why a file was not read.
func (e *RecipeFile) unreadable(err error) {
	p := &recipe.Problem{File: e.File, Code: "unreadable", Text: "cannot be read: " + clean.Text(err.Error())}
	var large *frontmatter.Error
	if errors.As(err, &large) && large.Code == frontmatter.TooLarge {
		p.Code, p.Text = "too-large", "the recipe is over 1 MiB; split it, or keep data out of it"
	}
	e.Problems = append(e.Problems, p)
}

// wrong notes why a recipe cannot be used, at a key of the file.
func (e *RecipeFile) wrong(code, key, format string, args ...any) {
	e.Recipe = nil
	e.note(&recipe.Problem{Code: code, Text: fmt.Sprintf(format, args...)}, key)
}

// odd adds a warning about a recipe, positioned at a key of the file.
func (e *RecipeFile) odd(code, key, format string, args ...any) {
	e.note(&recipe.Problem{Code: code, Text: fmt.Sprintf(format, args...), Warning: true}, key)
}

func (e *RecipeFile) note(p *recipe.Problem, key string) {
	p.File = e.File
	n := 0
	for line := range strings.Lines(string(e.Text)) {
		n++
		if !strings.HasPrefix(line, key+":") {
			continue
		}
		rest := line[len(key)+1:]
		value := strings.TrimLeft(rest, " ")
		text := []rune(strings.TrimRight(value, " \r\n"))
		p.Pos = recipe.Pos{Line: n, Col: 1}
		if len(text) > 0 {
			p.Pos.Col = len(key) + 2 + len(rest) - len(value)
			p.End = p.Pos.Col + len(text)
		}
		break
	}
	e.Problems = append(slices.Clone(e.Problems), p)
}

// arrange sorts problems by their position in the file, those about the whole file first.
func arrange(list recipe.Problems) {
	slices.SortStableFunc(list, func(a, b *recipe.Problem) int {
		if a.Pos.Line != b.Pos.Line {
			return a.Pos.Line - b.Pos.Line
		}
		return a.Pos.Col - b.Pos.Col
	})
}
