package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/catalog"
	"github.com/superstep-dev/superstep/project"
	"github.com/superstep-dev/superstep/transcript"
	"github.com/superstep-dev/superstep/workflow/recipe"
)

func (a *app) lintCommand() *cobra.Command {
	n := a.cfg.Name
	return &cobra.Command{
		Use: "lint [PATH...]", Short: "Check recipes: every mistake at its place, and nothing runs",
		Long: `Check recipes: every mistake at its place, and nothing runs

A path is a recipe, or a folder with recipes. Without one they are those of the project and your own, and
the drafts of both; the project's configuration is checked with them. Besides the files themselves it looks at the
agents, tools and workflows that they name. The exit code is 2 if there is a mistake.`,
		Example: examples(n, "lint", "what there is here", "lint .superstep/workflows/hello.yaml", "", "lint recipes -o json", "every recipe of a folder"),
		RunE:    func(_ *cobra.Command, args []string) error { return a.lint(args) },
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
		},
	}
}

// A linted is a recipe with what is wrong with it.
type linted struct {
	Path     string        `json:"path"`
	Name     string        `json:"name"`
	Errors   []problemJSON `json:"errors"`
	Warnings []problemJSON `json:"warnings"`

	text  []byte
	all   recipe.Problems
	other bool // it is no recipe
}

type problemJSON struct {
	Code string `json:"code"`
	Line int    `json:"line,omitempty"` // from 1; none if it is about the file as a whole
	Col  int    `json:"col,omitempty"`
	End  int    `json:"end,omitempty"` // the column after the last one that is meant
	Text string `json:"text"`
}

func (a *app) lint(paths []string) error {
	a.warned = len(paths) == 0 // they are among what is listed
	p, err := a.project()
	if err != nil {
		return err
	}
	var entries []*catalog.RecipeFile
	if len(paths) == 0 {
		for _, e := range p.Recipes() {
			if e.Scope != catalog.BuiltIn {
				entries = append(entries, e)
			}
		}
	}
	for _, path := range paths {
		found, err := a.lintable(p, path)
		if err != nil {
			return err
		}
		entries = append(entries, found...)
	}
	var out []*linted
	for _, e := range entries {
		out = append(out, lint(p, e))
	}
	if len(paths) == 0 {
		out = append(out, lintSettings(p)...)
		for _, e := range p.Atomic() {
			l := &linted{Path: e.Path, Name: e.Name, Errors: []problemJSON{}, Warnings: []problemJSON{}, other: true}
			l.add(recipe.Problem{Code: "not-runnable", Text: catalog.NoAtomic, Warning: true})
			out = append(out, l)
		}
	}
	if len(out) == 0 && !a.programs() {
		a.err.line("there are no recipes here; `" + a.hint("init") + "` writes one")
		return nil
	}
	return a.printLinted(out)
}

// lintable are the recipes of a path.
func (a *app) lintable(p *project.Project, path string) ([]*catalog.RecipeFile, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(abs)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, usage("lint: there is no file or folder " + abs)
	case err != nil:
		return nil, usage(fmt.Sprintf("lint: cannot read %s: %v", abs, errors.Unwrap(err)))
	case info.IsDir():
		return a.lintableIn(p, abs)
	}
	e, err := a.host().Load(path)
	if err != nil {
		return nil, err
	}
	return []*catalog.RecipeFile{known(p, e)}, nil
}

// known is an entry as the project knows it, with what is wrong with it among others; itself if
// the project knows none.
func known(p *project.Project, e *catalog.RecipeFile) *catalog.RecipeFile {
	real, err := filepath.EvalSymlinks(e.Path)
	if err != nil {
		return e
	}
	for _, k := range p.Recipes() {
		if k.Path == real && k.Digest == e.Digest {
			return k
		}
	}
	return e
}

func (a *app) lintableIn(p *project.Project, dir string) ([]*catalog.RecipeFile, error) {
	var out []*catalog.RecipeFile
	for _, in := range []string{dir, filepath.Join(dir, ".superstep", "workflows")} {
		files, err := os.ReadDir(in)
		if err != nil && in == dir {
			return nil, usage(fmt.Sprintf("lint: cannot read %s: %v", dir, errors.Unwrap(err)))
		}
		for _, f := range files {
			if f.IsDir() || !catalog.IsRecipeFile(f.Name()) {
				continue
			}
			e, err := a.host().Load(filepath.Join(in, f.Name()))
			if err != nil {
				return nil, err
			}
			out = append(out, known(p, e))
		}
	}
	if len(out) == 0 {
		return nil, usage("lint: there are no recipes in " + dir)
	}
	return out, nil
}

// lint looks at a recipe in view of what there is.
func lint(p *project.Project, e *catalog.RecipeFile) *linted {
	l := &linted{Path: transcript.Line(placeOf(e)), Name: transcript.Line(e.Name), Errors: []problemJSON{}, Warnings: []problemJSON{}, text: e.Text}
	for _, x := range slices.Concat(e.Problems, p.CheckText(e.File, e.Text)) {
		l.add(*x)
	}
	slices.SortStableFunc(l.all, func(a, b *recipe.Problem) int {
		if a.Pos.Line != b.Pos.Line {
			return a.Pos.Line - b.Pos.Line
		}
		return a.Pos.Col - b.Pos.Col
	})
	return l
}

func (l *linted) add(x recipe.Problem) {
	x.File = l.Path
	l.all = append(l.all, &x)
	out := problemJSON{Code: x.Code, Line: x.Pos.Line, Col: x.Pos.Col, End: x.End, Text: transcript.Line(x.Text)}
	if x.Warning {
		l.Warnings = append(l.Warnings, out)
	} else {
		l.Errors = append(l.Errors, out)
	}
}

// lintSettings returns what is wrong with the project's settings, without an element if nothing is.
func lintSettings(p *project.Project) []*linted {
	var out []*linted
	for _, x := range p.Problems() {
		if x.Kind != settingsKind {
			continue
		}
		if len(out) == 0 {
			out = []*linted{{Path: transcript.Line(shownPath(x.File)), Name: "config", Errors: []problemJSON{}, Warnings: []problemJSON{}, other: true}}
		}
		out[0].add(recipe.Problem{Code: settingsKind, Pos: recipe.Pos{Line: x.Line, Col: x.Col}, Text: x.Text})
	}
	return out
}

func placeOf(e *catalog.RecipeFile) string {
	if e.Path == "" {
		return e.File
	}
	return shownPath(e.Path)
}

func (a *app) printLinted(list []*linted) error {
	recipes, wrong, odd := 0, 0, 0
	pal := palette(a.term.outColor)
	for _, l := range list {
		wrong, odd = wrong+len(l.Errors), odd+len(l.Warnings)
		if !l.other {
			recipes++
		}
		switch a.set.output {
		case "jsonl":
			if err := a.out.json(l, false); err != nil {
				return err
			}
		case "text":
			for _, x := range l.all {
				fmt.Fprint(a.out, found(x, l.text, pal))
			}
		}
	}
	if a.set.output == "json" {
		if err := a.out.json(list, true); err != nil {
			return err
		}
	}
	if !a.programs() {
		a.err.line(fmt.Sprintf("%s, %s, %s", plural(recipes, "recipe"), plural(wrong, "error"), plural(odd, "warning")))
	}
	if wrong > 0 {
		return &Error{Exit: ExitUsage, Code: "invalid", Message: plural(wrong, "error"), shown: true}
	}
	return nil
}

// found is a problem with the line that it is in, and a caret.
func found(x *recipe.Problem, text []byte, pal palette) string {
	where := x.File
	if x.Pos.Line > 0 {
		where = fmt.Sprintf("%s:%d:%d", where, x.Pos.Line, x.Pos.Col)
	}
	word := pal.red("error")
	if x.Warning {
		word = pal.yellow("warning")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s %s\n", where, word, transcript.Line(x.Text))
	if excerpt := x.Excerpt(text); len(text) > 0 && excerpt != "" {
		line, caret, _ := strings.Cut(strings.TrimRight(excerpt, "\n"), "\n")
		fmt.Fprintf(&b, "  %s\n  %s\n", transcript.Clean(line), pal.bold(transcript.Clean(caret)))
	}
	return b.String()
}
