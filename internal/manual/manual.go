// Package manual writes the manual pages of commands.
package manual

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// Write writes the page of a command and those of its subcommands into a folder. Source is the program and its version; options
// describes those of the command that has no parent.
func Write(c *cobra.Command, dir, source, options string) error {
	name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1"
	if err := os.WriteFile(filepath.Join(dir, name), []byte(page(c, source, options)), 0o644); err != nil { //nolint:gosec // as above
		return fmt.Errorf("man: %w", err)
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			if err := Write(sub, dir, source, options); err != nil {
				return err
			}
		}
	}
	return nil
}

// page returns the page of a command, in the language of man(7).
func page(c *cobra.Command, source, options string) string {
	title := strings.ReplaceAll(c.CommandPath(), " ", "-")
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %q 1 \"\" %q\n.SH NAME\n%s \\- %s\n.SH SYNOPSIS\n%s\n", strings.ToUpper(title), source, roff(title),
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
		section("OPTIONS", options)
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

// roff escapes a text so that troff does not read any part of it as a request.
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
