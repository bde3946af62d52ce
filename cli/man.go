package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

func manCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Short: "Write manual pages for all commands into a folder",
		Example: examples(a.cfg.Name, "man ~/.local/share/man/man1", "then: man "+a.cfg.Name+"-runs"),
		Args:    nargs(1, 1, "man: name the folder to write to"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil { //nolint:gosec // others may read manual pages
				return fmt.Errorf("man: %w", err)
			}
			return writePages(a, cmd.Root(), args[0])
		},
	}
}

// writePages writes the page of a command and those of its subcommands.
func writePages(a *app, c *cobra.Command, dir string) error {
	name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1"
	if err := os.WriteFile(filepath.Join(dir, name), []byte(manPage(a, c)), 0o644); err != nil { //nolint:gosec // as above
		return fmt.Errorf("man: %w", err)
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			if err := writePages(a, sub, dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// manPage is the page of a command, in the language of man(7).
func manPage(a *app, c *cobra.Command) string {
	title := strings.ReplaceAll(c.CommandPath(), " ", "-")
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %q 1 \"\" %q\n.SH NAME\n%s \\- %s\n.SH SYNOPSIS\n%s\n", strings.ToUpper(title), a.cfg.Name+" "+a.opt.Version, roff(title),
		roff(c.Short), roff(c.UseLine()))
	section := func(heading, text string) {
		if strings.TrimSpace(text) != "" {
			fmt.Fprintf(&b, ".SH %s\n.nf\n%s\n.fi\n", heading, roff(strings.Trim(text, "\n")))
		}
	}
	section("DESCRIPTION", c.Long)
	section("EXAMPLES", c.Example)
	if c.HasParent() {
		section("OPTIONS", c.LocalFlags().FlagUsages())
	} else {
		section("OPTIONS", globalHelp(a))
	}
	var also []string
	if c.HasParent() {
		also = append(also, strings.ReplaceAll(c.Parent().CommandPath(), " ", "-")+"(1)")
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			also = append(also, strings.ReplaceAll(sub.CommandPath(), " ", "-")+"(1)")
		}
	}
	section("SEE ALSO", strings.Join(also, "\n"))
	return b.String()
}

// roff writes text such that nothing in it is a request.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}
