package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/tui"
	"github.com/superstep-dev/superstep/runlog"
)

// untrustedRun returns the error of a command that would resume an untrusted imported run.
func untrustedRun(a *app, id string) *Error {
	return &Error{
		Exit: ExitDenied, Code: "untrusted", Err: &superstep.UntrustedError{ID: id}, Message: (&superstep.UntrustedError{ID: id}).Error(),
		Next: []string{"see what it would execute, and decide: " + a.hint("runs", "trust", id),
			"trust it without being asked: " + a.hint("runs", "trust", id, "--yes")},
	}
}

// vouchFor returns an error unless a run may be continued: one that was imported is shown to the
// user, who is asked whether to trust it.
func vouchFor(ctx context.Context, a *app, info runlog.Info) error {
	o, err := a.host().OriginOf(ctx, info.ID)
	if err != nil || o == nil || o.Trusted {
		return err
	}
	if !a.tty.Asks() {
		return untrustedRun(a, info.ID)
	}
	return askTrust(ctx, a, info, o)
}

// askTrust shows what an imported run would execute, and asks whether to trust it.
func askTrust(ctx context.Context, a *app, info runlog.Info, o *host.Origin) error {
	b, err := a.host().Claims(ctx, &info, o)
	if err != nil {
		return err
	}
	for _, l := range tui.ClaimLines(b, a.set.Verbose, a.hint("runs", "trust", info.ID, "-v")) {
		a.err.line(l)
	}
	a.tty.Fresh(ctx)
	if !a.tty.Confirm(ctx, "\nTrust it? What it executes runs with your rights, under your rules.") {
		a.err.line("nothing was changed")
		return &Error{Exit: ExitDenied, Code: "untrusted", Message: "not trusted", shown: true}
	}
	return a.host().TrustRun(o, true)
}

func runsTrust(a *app) *cobra.Command {
	var yes, revoke bool
	cmd := &cobra.Command{
		Use: "trust ID", Short: "Show what an imported run would execute, and decide on trust", Args: oneRun, ValidArgsFunction: a.ids,
		Long: `Show what an imported run would execute, and decide on trust

An imported run is not resumed, answered or forked before you trust it. It works in the folder in which you imported
it, under your rules and with your models. What you trust is the content of the file, in that folder: a file with one
other byte, and the same file in another folder, is shown to you again.`,
		Example: examples(a.cfg.Name, "runs trust @last", "see it, and be asked", "runs trust 7f3a --yes", "without being asked",
			"runs trust 7f3a -o json", "all of it, for programs", "runs trust 7f3a --revoke", ""),
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "trust it without being asked")
	cmd.Flags().BoolVar(&revoke, "revoke", false, "trust it no longer")
	cmd.RunE = a.onRun(func(ctx context.Context, _ *superstep.Engine, info runlog.Info, _ []string) error {
		if yes && revoke {
			return usage("runs trust: --yes or --revoke, not both")
		}
		o, err := a.host().OriginOf(ctx, info.ID)
		if err != nil {
			return err
		}
		if o == nil {
			return usage(fmt.Sprintf("run %s was not imported: there is nothing to decide", info.ID))
		}
		return decideRun(ctx, a, info, o, yes, revoke)
	})
	return cmd
}

func decideRun(ctx context.Context, a *app, info runlog.Info, o *host.Origin, yes, revoke bool) error {
	if revoke {
		err := a.host().TrustRun(o, false)
		if err == nil {
			a.note("run " + info.ID + " is not trusted")
		}
		return err
	}
	if !o.Trusted && !yes && a.tty.Asks() {
		if err := askTrust(ctx, a, info, o); err != nil {
			return err
		}
		a.note("run " + info.ID + " is trusted")
		return nil
	}
	b, err := a.host().Claims(ctx, &info, o)
	if err != nil {
		return err
	}
	if yes && !o.Trusted {
		if err := a.host().TrustRun(o, true); err != nil {
			return err
		}
		b.Trusted = true
	}
	switch {
	case a.programs():
		if err := a.out.value(b); err != nil {
			return err
		}
	case !yes:
		for _, l := range tui.ClaimLines(b, a.set.Verbose, a.hint("runs", "trust", info.ID, "-v")) {
			a.out.line(l)
		}
	}
	if !b.Trusted {
		e := untrustedRun(a, info.ID)
		e.Exit, e.shown = ExitPaused, a.programs() // who reads "trusted" there
		return e
	}
	a.note("run " + info.ID + " is trusted")
	return nil
}
