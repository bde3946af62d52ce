package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/project"
	"github.com/superstep-dev/superstep/transcript"
	"github.com/superstep-dev/superstep/trust"
)

func (a *app) trustCommand() *cobra.Command {
	var yes bool
	n := a.opt.Name
	cmd := &cobra.Command{
		Use: "trust [NAME...]", Short: "Look at what a project brings along, and decide whether to use it",
		Long: `Look at what a project brings along, and decide whether to use it

Nothing of a project is used before you agreed to it: no agent, no skill, no tool, no MCP server and no
setting. What you agree to is bound to its content; when that changes you are asked again. It is
recorded in your own configuration, where no project can write it. Endpoints and keys of models never
come from a project.`,
		Example: examples(n, "trust", "look, and be asked", "trust lint reviewer", "only these", "trust --yes", "all of it, unseen by this command", "trust list", "", "trust revoke lint", ""),
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "agree without being asked")
	acts(cmd, "yes")
	cmd.RunE = func(_ *cobra.Command, args []string) error { return a.decide(args, yes) }
	cmd.AddCommand(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List what the project brings along and whether it is trusted", Args: a.none,
		Example: examples(n, "trust list", "", "trust list -o json", ""),
		RunE: func(*cobra.Command, []string) error {
			p, err := a.project()
			if err != nil {
				return err
			}
			return a.printItems(p.Items())
		},
	}, &cobra.Command{
		Use: "revoke [NAME...]", Short: "Take back what was agreed to, all of it if nothing is named",
		Example: examples(n, "trust revoke", "", "trust revoke lint", ""),
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := a.project()
			if err != nil {
				return err
			}
			if _, err := chosen(p.Items(), args); err != nil {
				return err
			}
			if err := p.Revoke(args...); err != nil {
				return err
			}
			if !a.programs() {
				a.err.line("taken back")
			}
			return nil
		},
	})
	return cmd
}

// itemState is the state of an item as people read it.
func itemState(s *trust.Status) project.State {
	switch s.State {
	case trust.Trusted:
		return "trusted"
	case trust.Changed:
		return project.Changed
	}
	return project.Untrusted
}

type itemJSON struct {
	Kind   trust.Kind    `json:"kind"`
	Name   string        `json:"name"`
	Path   string        `json:"path"`
	State  project.State `json:"state"`
	Digest string        `json:"digest"`
	Was    string        `json:"was,omitempty"` // the digest that was trusted
	Detail string        `json:"detail,omitempty"`
}

func (a *app) printItems(items []trust.Status) error {
	rows := make([]itemJSON, len(items))
	for i := range items {
		s := &items[i]
		rows[i] = itemJSON{Kind: s.Item.Kind, Name: s.Item.Name, Path: s.Item.Path, State: itemState(s), Digest: s.Item.Digest, Was: s.Old, Detail: s.Item.Detail}
	}
	if a.set.output == "json" {
		return a.out.json(rows, true)
	}
	for i := range rows {
		if a.programs() {
			if err := a.out.json(rows[i], false); err != nil {
				return err
			}
			continue
		}
		for _, line := range a.item(&items[i]) {
			a.out.line(line)
		}
	}
	if len(rows) == 0 {
		a.err.line("the project brings nothing along")
	}
	return nil
}

// item is what a person sees of an item.
func (a *app) item(s *trust.Status) []string {
	pal := palette(a.term.outColor)
	state := itemState(s)
	word := pal.yellow(string(state))
	if s.State == trust.Trusted {
		word = pal.green(string(state))
	}
	lines := []string{fmt.Sprintf("%-6s  %s  %s  %s", s.Item.Kind, pal.bold(transcript.Line(s.Item.Name)), word, pal.dim(transcript.Line(s.Item.Path)))}
	for l := range strings.SplitSeq(strings.TrimRight(transcript.Clean(s.Item.Detail), "\n"), "\n") {
		if l != "" {
			lines = append(lines, "        "+l)
		}
	}
	if s.State == trust.Changed {
		for l := range strings.SplitSeq(strings.TrimRight(transcript.Clean(s.Diff()), "\n"), "\n") {
			lines = append(lines, "        "+l)
		}
	}
	return lines
}

// decide shows what is not trusted and asks about it.
func (a *app) decide(names []string, yes bool) error {
	p, err := a.project()
	if err != nil {
		return err
	}
	items, err := chosen(p.Items(), names)
	if err != nil {
		if len(names) == 1 && p.Repin(names[0]) == nil { // a server of the user's own, whose tools changed
			a.err.line("the tools that " + transcript.Line(names[0]) + " shows next are trusted")
			return nil
		}
		return err
	}
	items = slices.DeleteFunc(items, func(s trust.Status) bool { return s.State == trust.Trusted && len(names) == 0 })
	if len(items) == 0 {
		if !a.programs() {
			a.err.line("there is nothing to decide in " + p.Dir() + ": what the project brings along, if anything, is trusted")
		}
		return nil
	}
	if !yes {
		if a.programs() || a.set.noInput || !a.term.inTTY || !a.term.errTTY {
			if err := a.printItems(items); err != nil {
				return err
			}
			return &Error{Exit: ExitPaused, Code: "untrusted", Message: fmt.Sprintf("%s of %s wait for a decision", plural(len(items), "item"), p.Dir()),
				Next: []string{"on a terminal: " + a.hint("trust"), "without being asked: " + a.hint("trust", "--yes")}}
		}
		a.err.line("In " + p.Dir() + ":\n")
		for i := range items {
			for _, line := range a.item(&items[i]) {
				a.err.line(line)
			}
		}
		fmt.Fprintf(a.err, "\nUse %s? It runs with your rights. [y/N] ", plural(len(items), "item"))
		line, ok := <-a.in.next()
		if !ok || !slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(line))) {
			a.err.line("nothing was changed")
			return &Error{Exit: ExitDenied, Code: "denied", Message: "not trusted", shown: true}
		}
	}
	agreed := make([]trust.Item, len(items))
	for i := range items {
		agreed[i] = items[i].Item
	}
	if err := p.Trust(agreed); err != nil {
		return err
	}
	if !a.programs() {
		a.err.line("trusted: " + plural(len(agreed), "item"))
	}
	return nil
}

// chosen are the items of those names, all if there are none.
func chosen(items []trust.Status, names []string) ([]trust.Status, error) {
	if len(names) == 0 {
		return items, nil
	}
	var out []trust.Status
	for _, name := range names {
		n := len(out)
		for _, s := range items {
			if s.Item.Name == name || string(s.Item.Kind)+"/"+s.Item.Name == name || s.Item.Path == name {
				out = append(out, s)
			}
		}
		if len(out) == n {
			return nil, usage(fmt.Sprintf("the project brings nothing along that is called %q", name))
		}
	}
	return out, nil
}

// prettyJSON is a value as indented JSON.
func prettyJSON(v any) (string, error) {
	b, err := json.MarshalIndent(v, "", "  ")
	return string(b), err
}
