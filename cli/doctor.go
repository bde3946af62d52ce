package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/transcript"
)

func doctorCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Check the configuration, store, project, models and sandbox", Args: none,
		Long: `Check the configuration, store, project, models and sandbox

Each problem is shown with one fix. Nothing is changed, and no connection leaves this machine but that to the store.
The exit code is 1 if a check failed; warnings do not count.`,
		Example: examples(a.cfg.Name, "doctor", "", "doctor -o json", "for programs"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			checks := a.host().Doctor(cmd.Context(), a.opened.Configuration(a.set.config))
			failed := 0
			for i := range checks {
				if checks[i].State == "failed" {
					failed++
				}
			}
			if a.programs() {
				if err := a.out.value(checks); err != nil {
					return err
				}
			} else {
				for _, c := range checks {
					a.out.line(inwords.Wrap(fmt.Sprintf("%-8s %-14s %s", c.State, c.Name, transcript.Line(c.Found)), a.tty.Width()))
					if c.Fix != "" {
						a.out.line("         fix: " + transcript.Line(c.Fix))
					}
				}
			}
			if failed > 0 {
				return &Error{Exit: ExitFailed, Code: "doctor", Message: inwords.Plural(failed, "check") + " failed"}
			}
			return nil
		},
	}
}
