package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/transcript"
)

func (a *app) trustCommand() *cobra.Command {
	var yes bool
	n := a.cfg.Name
	cmd := &cobra.Command{
		Use: "trust [NAME...]", Short: "Look at what a project brings along, and decide whether to use it",
		Long: `Look at what a project brings along, and decide whether to use it

Nothing of a project is used before you agreed to it: no agent, no skill, no tool, no MCP server and no
setting. What you agree to is bound to its content; when that changes you are asked again and shown
what changed, also of the tools that an MCP server of yours offers. It is recorded in your own configuration, where no project can write it. Endpoints and keys of models never
come from a project.`,
		Example: examples(n, "trust", "look, and be asked", "trust lint reviewer", "only these", "trust --yes", "all of it, unseen by this command",
			"trust list", "", "trust list -v", "with what changed, line by line", "trust revoke lint", ""),
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "agree without being asked")
	acts(cmd, "yes")
	cmd.RunE = func(_ *cobra.Command, args []string) error { return a.decide(args, yes) }
	cmd.AddCommand(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List what the project brings along and whether it is trusted", Args: a.none,
		Example: examples(n, "trust list", "", "trust list -v", "with what changed, line by line", "trust list -o json", ""),
		RunE: func(*cobra.Command, []string) error {
			h, err := a.here()
			if err != nil {
				return err
			}
			a.notRunnable(h)
			items, err := h.Decisions()
			if err != nil {
				return err
			}
			return a.printDecisions(items, a.set.verbose)
		},
	}, &cobra.Command{
		Use: "revoke [NAME...]", Short: "Take back what was agreed to, all of it if nothing is named",
		Example: examples(n, "trust revoke", "", "trust revoke lint", ""),
		RunE: func(_ *cobra.Command, args []string) error {
			h, err := a.here()
			if err != nil {
				return err
			}
			items, err := h.Revoke(args...)
			if err != nil {
				return err
			}
			a.note("taken back")
			return a.decided(items)
		},
	})
	return cmd
}

func (a *app) printDecisions(items []host.Decision, whole bool) error {
	if a.programs() {
		return rows(a.out, append([]host.Decision{}, items...))
	}
	for i := range items {
		for _, line := range a.item(&items[i], palette(a.term.outColor), whole) {
			a.out.line(line)
		}
	}
	if len(items) == 0 {
		a.note("the project brings nothing along")
	}
	return nil
}

// item is what a person sees of a decision, with the whole of what changed or how much that is.
func (a *app) item(d *host.Decision, pal palette, whole bool) []string {
	word := pal.yellow(string(d.State))
	if d.State == host.Trusted {
		word = pal.green(string(d.State))
	}
	const indent = "        "
	lines := []string{fmt.Sprintf("%-6s  %s  %s  %s", d.Kind, pal.bold(transcript.Line(d.Called())), word, pal.dim(transcript.Line(d.Path)))}
	for l := range strings.SplitSeq(strings.TrimRight(transcript.Clean(d.Detail), "\n"), "\n") {
		if l != "" {
			lines = append(lines, indent+l)
		}
	}
	switch {
	case d.State == "changed" && !whole:
		much := "changed"
		if d.Added+d.Removed > 0 {
			much = fmt.Sprintf("+%d -%d lines", d.Added, d.Removed)
		}
		return append(lines, indent+much+", -v shows them")
	case d.State == "changed":
		for l := range strings.SplitSeq(strings.TrimRight(transcript.Clean(d.Diff), "\n"), "\n") {
			switch {
			case strings.HasPrefix(l, "+++ "), strings.HasPrefix(l, "--- "):
				l = pal.bold(l)
			case strings.HasPrefix(l, "+"):
				l = pal.green(l)
			case strings.HasPrefix(l, "-"):
				l = pal.red(l)
			}
			lines = append(lines, indent+l)
		}
	case whole && d.State != host.Trusted:
		for _, l := range a.recipeLines(d) {
			lines = append(lines, strings.TrimRight(indent+l, " "))
		}
	}
	return lines
}

// mostShown is how many lines of a recipe are shown before somebody agrees to it.
const mostShown = 120

// recipeLines are what a person reads of a recipe before agreeing to it: its text.
func (a *app) recipeLines(d *host.Decision) []string {
	if d.Kind != "workflow" {
		return nil
	}
	all := a.hint("workflows", "show", transcript.Line(d.Name), "-v")
	if d.Text == "" {
		return []string{"", "its text is too long to be shown here: " + all}
	}
	lines := strings.Split(strings.TrimRight(transcript.Clean(d.Text), "\n"), "\n")
	more := len(lines) - mostShown
	if more > 0 {
		lines = lines[:mostShown]
	}
	for i, l := range lines {
		lines[i] = ansi.Truncate(l, 400, "…")
	}
	lines = append([]string{""}, lines...)
	if more > 0 {
		lines = append(lines, fmt.Sprintf("… %s, %s", plural(more, "more line"), all))
	}
	return lines
}

// called is a decision in a sentence.
func called(d *host.Decision) string {
	return fmt.Sprintf("%s %s (%s)", d.Kind, transcript.Line(d.Called()), transcript.Line(d.Path))
}

// decide shows what is not trusted and asks about it.
func (a *app) decide(names []string, yes bool) error {
	h, err := a.here()
	if err != nil {
		return err
	}
	if len(names) == 0 {
		a.notRunnable(h)
	}
	items, err := h.Decisions(names...)
	if err != nil {
		if len(names) == 1 && h.OwnServer(names[0]) {
			a.note("the MCP server " + transcript.Line(names[0]) + " is your own, and the tools that it offered last are those that you agreed to")
			return a.decided(nil)
		}
		return err
	}
	items = slices.DeleteFunc(items, func(d host.Decision) bool {
		if d.State == host.Trusted && len(names) > 0 {
			a.note(called(&d) + " is trusted, and as it was when you agreed to it")
		}
		return d.State == host.Trusted
	})
	if len(items) == 0 {
		if len(names) == 0 {
			a.note("there is nothing to decide in " + h.Dir() + ": what the project brings along, if anything, is trusted")
		}
		return a.decided(nil)
	}
	if !yes {
		if items, err = a.agree(items); err != nil {
			return err
		}
	}
	if err := h.Trust(items); err != nil {
		return err
	}
	a.note("trusted: " + plural(len(items), "item"))
	for i := range items {
		items[i].State, items[i].Diff, items[i].Text = host.Trusted, "", ""
		a.note("  " + called(&items[i]))
	}
	return a.decided(items)
}

// decided lists for programs the items of which the state was changed.
func (a *app) decided(items []host.Decision) error {
	if !a.programs() {
		return nil
	}
	return a.printDecisions(items, false)
}

// notRunnable says which workflows of the project nobody can decide on, since they were written for another program.
func (a *app) notRunnable(h *host.Host) {
	for _, i := range h.NotRunnable() {
		if i.Source == "project" {
			a.note(transcript.Line(fmt.Sprintf("not runnable: workflow %s (%s)%s", i.Name, i.Path, strings.TrimPrefix(i.Problems[0], i.Path))))
		}
	}
}

// note is a line for people.
func (a *app) note(text string) {
	if !a.programs() {
		a.err.line(text)
	}
}

// agree has a person look at items, and gives those that are agreed to.
func (a *app) agree(items []host.Decision) ([]host.Decision, error) {
	dir := a.host().Dir()
	if a.programs() || a.set.noInput || !a.term.inTTY || !a.term.errTTY {
		if err := a.printDecisions(items, true); err != nil {
			return nil, err
		}
		return nil, &Error{Exit: ExitPaused, Code: "untrusted", Message: fmt.Sprintf("%s of %s wait for a decision", plural(len(items), "item"), dir),
			Next: []string{"on a terminal: " + a.hint("trust"), "without being asked: " + a.hint("trust", "--yes")}}
	}
	a.err.line("In " + dir + ":\n")
	for i := range items {
		for _, line := range a.item(&items[i], palette(a.term.errColor), true) {
			a.err.line(line)
		}
	}
	ctx := context.Background() // a signal ends the process
	_ = a.in.fresh(ctx)
	ask := func(format string, args ...any) string {
		fmt.Fprintf(a.err, format, args...)
		line, ok := a.in.line(ctx)
		if !ok {
			return ""
		}
		return strings.ToLower(strings.TrimSpace(line))
	}
	isYes := func(answer string) bool { return answer == "y" || answer == "yes" }
	var out []host.Decision
	if len(items) == 1 {
		if isYes(ask("\nUse 1 item? It runs with your rights. [y/N] ")) {
			out = items
		}
	} else {
		switch answer := ask("\nUse %s? What they start runs in the sandbox, under your rules. [a]ll, [N]one, [s]elect ", plural(len(items), "item")); {
		case answer == "a" || answer == "all" || isYes(answer):
			out = items
		case answer == "s" || answer == "select":
			for _, d := range items {
				if isYes(ask("%s? [y/N] ", called(&d))) {
					out = append(out, d)
				}
			}
		}
	}
	if len(out) == 0 {
		a.err.line("nothing was changed")
		return nil, &Error{Exit: ExitDenied, Code: "denied", Message: "not trusted", shown: true}
	}
	return out, nil
}

// prettyJSON is a value as indented JSON.
func prettyJSON(v any) (string, error) {
	b, err := json.MarshalIndent(v, "", "  ")
	return string(b), err
}
