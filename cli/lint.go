package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/internal/recipe"
	"github.com/superstep-dev/superstep/internal/transcript"
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

// lintedJSON is a recipe with what is wrong with it.
type lintedJSON struct {
	Path     string        `json:"path"`
	Name     string        `json:"name"`
	Errors   []problemJSON `json:"errors"`
	Warnings []problemJSON `json:"warnings"`
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
	if len(reports) == 0 && !a.programs() {
		a.err.line("there are no recipes here; `" + a.hint("init") + "` writes one")
		return nil
	}
	recipes, wrong, odd := 0, 0, 0
	out := []lintedJSON{}
	for _, r := range reports {
		l := lintedJSON{transcript.Line(shownPath(r.Path)), transcript.Line(r.Name), []problemJSON{}, []problemJSON{}}
		if r.Recipe {
			recipes++
		}
		for _, x := range r.Problems {
			if !a.programs() {
				fmt.Fprint(a.out, found(l.Path, x, r.Text, palette(a.term.outColor)))
			}
			p := problemJSON{x.Code, x.Pos.Line, x.Pos.Col, x.End, transcript.Line(x.Text)}
			if x.Warning {
				l.Warnings = append(l.Warnings, p)
			} else {
				l.Errors = append(l.Errors, p)
			}
		}
		wrong, odd = wrong+len(l.Errors), odd+len(l.Warnings)
		out = append(out, l)
	}
	if a.programs() {
		err = rows(a.out, out)
	} else {
		a.err.line(fmt.Sprintf("%s, %s, %s", plural(recipes, "recipe"), plural(wrong, "error"), plural(odd, "warning")))
	}
	if err == nil && wrong > 0 {
		return &Error{Exit: ExitUsage, Code: "invalid", Message: plural(wrong, "error"), shown: true}
	}
	return err
}

// found is a problem with the line that it is in, and a caret.
func found(path string, x *recipe.Problem, text []byte, pal palette) string {
	word := pal.red("error")
	if x.Warning {
		word = pal.yellow("warning")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s %s\n", where(path, x), word, transcript.Line(x.Text))
	if excerpt := x.Excerpt(text); len(text) > 0 && excerpt != "" {
		line, caret, _ := strings.Cut(strings.TrimRight(excerpt, "\n"), "\n")
		fmt.Fprintf(&b, "  %s\n  %s\n", transcript.Clean(line), pal.bold(transcript.Clean(caret)))
	}
	return b.String()
}
