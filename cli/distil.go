package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/distil"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

func runsDistil(a *app) *cobra.Command {
	var d host.DistilOptions
	cmd := &cobra.Command{
		Use: "distil ID", Short: "Create a recipe from a successful run, and prove it", Args: oneRun, ValidArgsFunction: a.ids,
		Long: `Create a recipe from a successful run, and prove it

What agents and tools did becomes steps; what failed, was done again or led nowhere is cut, and listed. Where a prompt
has an earlier result in it word for word, that becomes a reference; what you said that comes again becomes an
input. The recipe is run against the recording, without a model: it is written only if every agent is asked
exactly what it was asked, and the result is the same. It goes to .superstep/workflows, and you agree to it by this.

A prompt that an agent wrote from results in its own words cannot be asked again with other inputs, and is
refused. With --loose such a step is given your task and the results themselves, where that can be, and the recipe is
a draft that says so.`,
		Example: examples(a.cfg.Name, "runs distil @last --name weekly-brief", "", "runs distil @last --dry-run", "only print it",
			"runs distil 7f3a --loose", "also what is not proven word for word, as a draft"),
	}
	cmd.Flags().StringVar(&d.Name, "name", "", "call it this; defaults to the title of the run")
	cmd.Flags().BoolVar(&d.Loose, "loose", false, "keep steps whose prompts were made of results in other words, in a draft")
	cmd.Flags().BoolVar(&d.Dry, "dry-run", false, "print the recipe and write nothing")
	cmd.Flags().BoolVar(&d.Replace, "force", false, "replace the recipe of that name that is there already")
	cmd.RunE = a.onRun(func(ctx context.Context, _ *superstep.Engine, info runlog.Info, _ []string) error {
		return distilRun(ctx, a, info, &d)
	})
	return cmd
}

func distilRun(ctx context.Context, a *app, info runlog.Info, opt *host.DistilOptions) error {
	made, err := a.here().Distil(ctx, info.ID, *opt)
	var of *host.Error
	switch {
	case err == nil:
	case errors.As(err, new(*distil.RewrittenError)):
		return &Error{Exit: ExitFailed, Code: "not_proven", Err: err, Message: err.Error(),
			Next: []string{"a draft of it, for you to mend: " + a.hint("runs", "distil", info.ID, "--loose")}}
	case errors.As(err, new(*host.ExistsError)):
		return usage(err.Error(), "another name: --name", "or replace it: --force")
	case errors.As(err, &of) && of.Code == "unrunnable":
		return usage(err.Error(), "look at it: "+a.hint("runs", "distil", info.ID, "--dry-run"))
	default:
		return err
	}
	if a.programs() {
		return a.out.value(made)
	}
	reportDistilled(a, made)
	return nil
}

// reportDistilled prints the result.
func reportDistilled(a *app, d *host.Distilled) {
	if d.Path == "" {
		_, _ = a.out.Write([]byte(d.Text))
	} else {
		a.out.line(a.shownPath(d.Path))
	}
	if a.set.Quiet {
		return
	}
	proven := "proven against the recording"
	if d.Draft && len(d.Loose) == 0 {
		proven = "proven against the recording; a draft, since the run was imported"
	} else if d.Draft {
		proven = "a draft, not proven word for word"
	}
	a.err.line(fmt.Sprintf("%s of run %s, %s", inwords.Plural(d.Steps, "step"), d.Run, proven))
	for _, r := range d.Loose {
		a.err.line("  not proven: " + transcript.Line("step "+r.Step+": "+r.Why))
	}
	for _, c := range d.Cut {
		a.err.line("  cut: " + transcript.Line(c.What+" ("+c.Path+"): "+c.Why))
	}
	for _, n := range d.Notes {
		a.err.line("  note: " + transcript.Line(strings.TrimSpace(n)))
	}
	switch {
	case d.Path == "":
	case d.Draft:
		a.err.line("  Look at it   " + a.hint("workflows", "show", d.Name, "-v"))
		a.err.line("  Use it       " + a.hint("workflows", "approve", d.Name))
	default:
		a.err.line("  Run it   " + a.hint("run", d.Name, "--help"))
	}
}
