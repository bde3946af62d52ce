package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/internal/tui"
)

func trustCommand(a *app) *cobra.Command {
	var yes bool
	n := a.cfg.Name
	cmd := &cobra.Command{
		Use: "trust [NAME...]", Short: "Review a project's files, and decide whether to trust them",
		Long: `Review a project's files, and decide whether to trust them

Superstep uses nothing from a project until you trust it: no agent, skill, tool, MCP server or setting.
Trust is bound to content: when an item changes, you are asked again and shown the difference. The same
holds for the tools that your own MCP servers offer. Decisions are kept in your own configuration, where
no project can write. Model endpoints and keys never come from a project.`,
		Example: examples(n, "trust", "look, and be asked", "trust lint reviewer", "only these", "trust --yes", "all of it, unseen by this command",
			"trust list", "", "trust list -v", "with what changed, line by line", "trust revoke lint", ""),
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "trust everything without being asked")
	cmd.RunE = func(_ *cobra.Command, args []string) error { return decideItems(a, args, yes) }
	cmd.AddCommand(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the project's items and whether they are trusted", Args: none,
		Example: examples(n, "trust list", "", "trust list -v", "with what changed, line by line", "trust list -o json", ""),
		RunE: func(*cobra.Command, []string) error {
			h := a.here()
			notRunnable(a, h)
			items, err := h.Decisions()
			if err != nil {
				return err
			}
			return printDecisions(a, items, a.set.Verbose)
		},
	}, &cobra.Command{
		Use: "revoke [NAME...]", Short: "Revoke trust from the named items, or from all of them",
		Example: examples(n, "trust revoke", "", "trust revoke lint", ""),
		RunE: func(_ *cobra.Command, args []string) error {
			items, err := a.here().Revoke(args...)
			if err != nil {
				return err
			}
			a.note("taken back")
			return printDecided(a, items)
		},
	})
	return cmd
}

func printDecisions(a *app, items []host.Decision, whole bool) error {
	if a.programs() {
		return rows(a.out, append([]host.Decision{}, items...))
	}
	for i := range items {
		for _, line := range decisionLines(a, &items[i], a.tty.Out, whole) {
			a.out.line(line)
		}
	}
	if len(items) == 0 {
		a.note("the project brings nothing along")
	}
	return nil
}

// decisionLines returns a decision as lines for the user.
func decisionLines(a *app, d *host.Decision, pal tui.Palette, whole bool) []string {
	return pal.DecisionLines(d, whole, a.hint("workflows", "show", transcript.Line(d.Name), "-v"))
}

// called describes a decision in a sentence.
func called(d *host.Decision) string {
	return fmt.Sprintf("%s %s (%s)", d.Kind, transcript.Line(d.Called()), transcript.Line(d.Path))
}

// decideItems shows the untrusted items and asks whether to trust them.
func decideItems(a *app, names []string, yes bool) error {
	h := a.here()
	if len(names) == 0 {
		notRunnable(a, h)
	}
	items, err := h.Decisions(names...)
	if err != nil {
		if len(names) == 1 && h.OwnServer(names[0]) {
			a.note("the MCP server " + transcript.Line(names[0]) + " is your own, and the tools that it offered last are those that you trusted")
			return printDecided(a, nil)
		}
		return err
	}
	items = slices.DeleteFunc(items, func(d host.Decision) bool {
		if d.State == host.Trusted && len(names) > 0 {
			a.note(called(&d) + " is trusted, and has not changed since")
		}
		return d.State == host.Trusted
	})
	if len(items) == 0 {
		if len(names) == 0 {
			a.note("there is nothing to decide in " + h.Dir())
		}
		return printDecided(a, nil)
	}
	if !yes {
		if items, err = askDecisions(a, items, names); err != nil {
			return err
		}
	}
	if err := h.Trust(items); err != nil {
		return err
	}
	a.note("trusted: " + inwords.Plural(len(items), "item"))
	for i := range items {
		items[i].State, items[i].Diff, items[i].Text = host.Trusted, "", ""
		a.note("  " + called(&items[i]))
	}
	return printDecided(a, items)
}

// printDecided lists, for programs, the items whose state was changed.
func printDecided(a *app, items []host.Decision) error {
	if !a.programs() {
		return nil
	}
	return printDecisions(a, items, false)
}

// notRunnable prints the workflows of the project that cannot be trusted because they were written
// for another program.
func notRunnable(a *app, h *host.Host) {
	for _, i := range h.NotRunnable() {
		if i.Source == "project" {
			a.note(transcript.Line(fmt.Sprintf("not runnable: workflow %s (%s)%s", i.Name, i.Path, strings.TrimPrefix(i.Problems[0], i.Path))))
		}
	}
}

// note is a line for users.
func (a *app) note(text string) {
	if !a.programs() {
		a.err.line(text)
	}
}

// askDecisions shows items to the user, who has asked for those names or for all, and returns those that the user trusts.
func askDecisions(a *app, items []host.Decision, names []string) ([]host.Decision, error) {
	dir, again := a.host().Dir(), []string{"trust"}
	for _, name := range names {
		again = append(again, clean.Shell(transcript.Line(name)))
	}
	if !a.tty.Asks() {
		if err := printDecisions(a, items, true); err != nil {
			return nil, err
		}
		return nil, &Error{Exit: ExitPaused, Code: "untrusted", Message: fmt.Sprintf("there is no terminal to ask on about %s of %s", inwords.Plural(len(items), "item"), dir),
			Next: []string{"on a terminal: " + a.hint(again...), "without being asked: " + a.hint(append(again, "--yes")...)}}
	}
	a.err.line("In " + dir + ":\n")
	for i := range items {
		for _, line := range decisionLines(a, &items[i], a.tty.Err, true) {
			a.err.line(line)
		}
	}
	ctx := context.Background() // a signal ends the process
	a.tty.Fresh(ctx)
	var out []host.Decision
	if len(items) == 1 {
		if a.tty.Confirm(ctx, "\nUse 1 item? It runs with your rights.") {
			out = items
		}
	} else {
		prompt := "\nUse " + inwords.Plural(len(items), "item") + "? What they start runs in the sandbox, under your rules. [a]ll, [N]one, [s]elect "
		switch strings.ToLower(a.tty.Line(ctx, prompt)) {
		case "a", "all", "y", "yes":
			out = items
		case "s", "select":
			for _, d := range items {
				if a.tty.Confirm(ctx, called(&d)+"?") {
					out = append(out, d)
				}
			}
		}
	}
	if len(out) == 0 {
		a.err.line("nothing was changed; to decide later: " + a.hint(again...))
		return nil, &Error{Exit: ExitDenied, Code: "denied", Message: "not trusted", shown: true}
	}
	return out, nil
}
