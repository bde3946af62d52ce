package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

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
	h, err := a.here()
	if err != nil {
		return err
	}
	reports, err := h.Lint(paths...)
	if err != nil {
		return err
	}
	var out []*linted
	for _, r := range reports {
		l := &linted{
			Path: transcript.Line(shownPath(r.Path)), Name: transcript.Line(r.Name), Errors: []problemJSON{}, Warnings: []problemJSON{},
			text: r.Text, other: !r.Recipe,
		}
		for _, x := range r.Problems {
			l.add(*x)
		}
		out = append(out, l)
	}
	if len(out) == 0 && !a.programs() {
		a.err.line("there are no recipes here; `" + a.hint("init") + "` writes one")
		return nil
	}
	return a.printLinted(out)
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
	word := pal.red("error")
	if x.Warning {
		word = pal.yellow("warning")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s %s\n", where(x), word, transcript.Line(x.Text))
	if excerpt := x.Excerpt(text); len(text) > 0 && excerpt != "" {
		line, caret, _ := strings.Cut(strings.TrimRight(excerpt, "\n"), "\n")
		fmt.Fprintf(&b, "  %s\n  %s\n", transcript.Clean(line), pal.bold(transcript.Clean(caret)))
	}
	return b.String()
}
