package cli

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/recipe"
	"github.com/superstep-dev/superstep/internal/transcript"
)

func lintCommand(a *app) *cobra.Command {
	n := a.cfg.Name
	return &cobra.Command{
		Use: "lint [PATH...]", Short: "Check recipes without running them",
		Long: `Check recipes without running them

A path is a recipe, or a folder with recipes. Without one they are those of the project and your own, and
the drafts of both; the project's configuration is checked with them. Besides the files themselves it looks at the
agents, tools and workflows that they name. The exit code is 2 if there is a mistake.`,
		Example: examples(n, "lint", "what there is here", "lint .superstep/workflows/hello.yaml", "", "lint recipes -o json", "every recipe of a folder"),
		RunE:    func(_ *cobra.Command, args []string) error { return lintRecipes(a, args) },
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
		},
	}
}

// lintedJSON is a recipe and its problems, for programs.
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

func lintRecipes(a *app, paths []string) error {
	a.warned = len(paths) == 0 // they are among what is listed
	reports, err := a.here().Lint(paths...)
	if err != nil {
		return err
	}
	if len(reports) == 0 && !a.programs() {
		a.err.line("there are no recipes in .superstep/workflows here and in your own folder; `" + a.hint("lint", ".") + "` checks those beside you, `" + a.hint("init") + "` writes one")
		return nil
	}
	recipes, wrong, odd := 0, 0, 0
	out := []lintedJSON{}
	for _, r := range reports {
		l := lintedJSON{transcript.Line(a.shownPath(r.Path)), transcript.Line(r.Name), []problemJSON{}, []problemJSON{}}
		if r.Recipe {
			recipes++
		}
		for _, x := range r.Problems {
			if !a.programs() {
				fmt.Fprint(a.out, found(a, l.Path, x, r.Text))
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
		a.err.line(fmt.Sprintf("%s, %s, %s", inwords.Plural(recipes, "recipe"), inwords.Plural(wrong, "error"), inwords.Plural(odd, "warning")))
	}
	if err == nil && wrong > 0 {
		return &Error{Exit: ExitUsage, Code: "invalid", Message: inwords.Plural(wrong, "error"), shown: true}
	}
	return err
}

// found formats a problem with its source line and a caret.
func found(a *app, path string, x *recipe.Problem, text []byte) string {
	pal := a.tty.Out
	word := pal.Red("error")
	if x.Warning {
		word = pal.Yellow("warning")
	}
	var b strings.Builder
	b.WriteString(inwords.Wrap(fmt.Sprintf("%s: %s %s", where(path, x), word, transcript.Line(x.Text)), a.tty.Width()) + "\n")
	if excerpt := x.Excerpt(text); len(text) > 0 && excerpt != "" {
		line, caret, _ := strings.Cut(strings.TrimRight(excerpt, "\n"), "\n")
		line, caret = transcript.Clean(line), transcript.Clean(caret)
		if room := a.tty.Width() - 2; room > 0 {
			if hidden := len(caret) - room; hidden > 0 {
				line, caret = ansi.TruncateLeft(line, hidden+1, "…"), caret[hidden:]
			}
			line = ansi.Truncate(line, room, "…")
		}
		fmt.Fprintf(&b, "  %s\n  %s\n", line, pal.Bold(caret))
	}
	return b.String()
}
