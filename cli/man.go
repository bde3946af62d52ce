package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/internal/manual"
)

func manCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Short: "Write man pages for all commands to a folder",
		Example: examples(a.cfg.Name, "man ~/.local/share/man/man1", "then: man "+a.cfg.Name+"-runs"),
		Args:    nargs(1, 1, "man: name the folder to write to"),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := a.host().Abs(args[0])
			if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // others may read manual pages
				return fmt.Errorf("man: %w", err)
			}
			return manual.Write(cmd.Root(), dir, a.cfg.Name+" "+a.opt.Version, globalHelp(a))
		},
	}
}
