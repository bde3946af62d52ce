package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/workflow"
)

// findWorkflow returns the workflow of a name, or an error if it cannot be used.
func findWorkflow(a *app, name string) (*workflow.Workflow, error) {
	w, err := a.host().Find(name)
	var unknown *host.UnknownError
	if !errors.As(err, &unknown) || unknown.Meant != "" {
		return w, err
	}
	out := &Error{Exit: ExitUsage, Code: "unknown_workflow", Message: err.Error(), Err: err}
	if _, none := a.host().Find("research"); none == nil && strings.ContainsAny(strings.TrimSpace(name), " \t\n") {
		docs := "DIR"
		if !atHome(a) && host.HasDocuments(a.cfg.Dir) {
			docs = "."
		}
		question := clean.Shell(name)
		if !strings.ContainsAny(name, "\"$`\\!") {
			question = `"` + name + `"`
		}
		out.Next = []string{"ask it of documents: " + a.hint("run", "research", question, "--docs", docs)}
	} else {
		out.Message += ". " + knownWorkflows(a)
	}
	return nil, out
}

// chooseWorkflow returns the workflow to run, by its name or the path of a recipe. It asks before using an untrusted one of the project.
func chooseWorkflow(a *app, word string) (*workflow.Workflow, error) {
	loadWorkflows(a)
	if a.host().IsFile(word) {
		h, at, err := a.host().At(word)
		if name := strings.TrimLeft(word, "/"); err != nil && name != word {
			if _, known := findWorkflow(a, name); known == nil {
				err = usage(fmt.Sprintf("there is no file %s; did you mean the workflow %q?", word, name), "run it: "+a.hint("run", name))
			}
		}
		if err != nil {
			return nil, err
		}
		a.opened, word = h, at
	}
	last := ""
	for {
		w, err := findWorkflow(a, word)
		d := a.host().Untrusted(err)
		if d == nil || called(d) == last {
			return w, err
		}
		last = called(d)
		if err := trustRecipe(a, d, err); err != nil {
			return nil, err
		}
	}
}

// loadWorkflows returns all workflows. It warns of mistakes in the settings of the project.
func loadWorkflows(a *app) workflow.Set {
	return a.here().Workflows()
}

// invalid prints every mistake of a recipe with its position.
func invalid(bad *host.RecipeError) *Error {
	const most = 20
	var b strings.Builder
	n := 0
	for _, p := range bad.Problems {
		if p.Warning {
			continue
		}
		if n++; n <= most {
			b.WriteString("\n" + p.Error())
			for line := range strings.Lines(p.Excerpt(bad.Text)) {
				b.WriteString("\n  " + strings.TrimRight(line, "\n"))
			}
		}
	}
	if n > most {
		fmt.Fprintf(&b, "\nand %d more", n-most)
	}
	return &Error{
		Exit: ExitUsage, Code: "invalid", Err: bad,
		Message: fmt.Sprintf("%s cannot be used, %s; nothing ran", bad.File, inwords.Plural(n, "mistake")) + b.String(),
	}
}

// trustRecipe asks once, on a terminal, whether to trust an untrusted recipe of the project that
// keeps itself or another recipe from running. If it is not trusted, the error tells why.
func trustRecipe(a *app, d *host.Decision, why error) error {
	refused := &Error{
		Exit: ExitDenied, Code: "untrusted", Message: why.Error(), Err: why,
		Next: []string{"look at it and decide: " + a.hint("trust", d.Name)},
	}
	if d.File != "" {
		refused.Next = append(refused.Next, "or run the file by its path, which agrees to it this once: "+a.hint("run", clean.Shell(a.shownPath(d.File))))
	}
	if !a.tty.Asks() || d.Digest == "" {
		return refused
	}
	items, err := askDecisions(a, []host.Decision{*d}, []string{d.Name})
	if err != nil {
		return err
	}
	return a.host().Trust(items)
}

// shownPath returns a path as a user would type it: relative to the current folder if it lies
// below.
func (a *app) shownPath(path string) string {
	real, _ := filepath.EvalSymlinks(a.cfg.Dir) // "" is above nothing
	for _, here := range []string{a.cfg.Dir, real} {
		if rel, err := filepath.Rel(here, path); err == nil && filepath.IsLocal(rel) {
			return rel
		}
	}
	return path
}
