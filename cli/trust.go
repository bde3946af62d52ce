package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/catalog"
	"github.com/superstep-dev/superstep/catalog/trust"
	"github.com/superstep-dev/superstep/project"
	"github.com/superstep-dev/superstep/transcript"
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
		Example: examples(n, "trust", "look, and be asked", "trust lint reviewer", "only these", "trust --yes", "all of it, unseen by this command", "trust list", "", "trust list -v", "with what changed, line by line", "trust revoke lint", ""),
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "agree without being asked")
	acts(cmd, "yes")
	cmd.RunE = func(_ *cobra.Command, args []string) error { return a.decide(args, yes) }
	cmd.AddCommand(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List what the project brings along and whether it is trusted", Args: a.none,
		Example: examples(n, "trust list", "", "trust list -v", "with what changed, line by line", "trust list -o json", ""),
		RunE: func(*cobra.Command, []string) error {
			p, err := a.project()
			if err != nil {
				return err
			}
			a.notRunnable(p)
			return a.printItems(p.Items(), a.set.verbose)
		},
	}, &cobra.Command{
		Use: "revoke [NAME...]", Short: "Take back what was agreed to, all of it if nothing is named",
		Example: examples(n, "trust revoke", "", "trust revoke lint", ""),
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := a.project()
			if err != nil {
				return err
			}
			all := slices.DeleteFunc(p.Items(), func(s trust.Status) bool { return s.Item.Kind == trust.MCPTools }) // what is refused already
			items, err := chosen(all, args)
			if err != nil {
				return err
			}
			var names []string
			for _, s := range items {
				names = append(names, s.Item.Name)
			}
			if len(args) == 0 {
				names = nil
			}
			if err := p.Revoke(names...); err != nil {
				return err
			}
			a.note("taken back")
			return a.decided(items, trust.New)
		},
	})
	return cmd
}

// itemState is the state of an item as people read it.
func itemState(s *trust.Status) catalog.State {
	switch s.State {
	case trust.Trusted:
		return "trusted"
	case trust.Changed:
		return catalog.Changed
	}
	return catalog.Untrusted
}

type itemJSON struct {
	Kind   trust.Kind    `json:"kind"`
	Name   string        `json:"name"`
	Path   string        `json:"path"`
	State  catalog.State `json:"state"`
	Digest string        `json:"digest"`
	Was    string        `json:"was,omitempty"` // the digest that was trusted
	Detail string        `json:"detail,omitempty"`
	Diff   string        `json:"diff,omitempty"` // what changed since
	Text   string        `json:"text,omitempty"` // of a recipe that nobody has agreed to
}

func (a *app) printItems(items []trust.Status, whole bool) error {
	rows := make([]itemJSON, len(items))
	for i := range items {
		s := &items[i]
		rows[i] = itemJSON{Kind: s.Item.Kind, Name: s.Item.Name, Path: s.Item.Path, State: itemState(s), Digest: s.Item.Digest, Was: s.Old, Detail: s.Item.Detail, Diff: s.Diff()}
		rows[i].Text, _ = recipeText(s)
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
		for _, line := range a.item(&items[i], palette(a.term.outColor), whole) {
			a.out.line(line)
		}
	}
	if len(rows) == 0 {
		a.note("the project brings nothing along")
	}
	return nil
}

// item is what a person sees of an item, with the whole of what changed or how much that is.
func (a *app) item(s *trust.Status, pal palette, whole bool) []string {
	state := itemState(s)
	word := pal.yellow(string(state))
	if s.State == trust.Trusted {
		word = pal.green(string(state))
	}
	const indent = "        "
	lines := []string{fmt.Sprintf("%-6s  %s  %s  %s", s.Item.Kind, pal.bold(transcript.Line(itemName(&s.Item))), word, pal.dim(transcript.Line(s.Item.Path)))}
	for l := range strings.SplitSeq(strings.TrimRight(transcript.Clean(s.Item.Detail), "\n"), "\n") {
		if l != "" {
			lines = append(lines, indent+l)
		}
	}
	if s.State != trust.Changed {
		if whole {
			for _, l := range a.recipeLines(s) {
				lines = append(lines, strings.TrimRight(indent+l, " "))
			}
		}
		return lines
	}
	if !whole {
		added, removed := s.Lines()
		much := "changed"
		if added+removed > 0 {
			much = fmt.Sprintf("+%d -%d lines", added, removed)
		}
		return append(lines, indent+much+", -v shows them")
	}
	for l := range strings.SplitSeq(strings.TrimRight(transcript.Clean(s.Diff()), "\n"), "\n") {
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
	return lines
}

// recipeText is the text of a recipe that nobody has agreed to yet, as it would be agreed to. It is not known if it
// is too long to be compared later.
func recipeText(s *trust.Status) (text string, known bool) {
	if s.Item.Kind != trust.Workflow || s.State != trust.New {
		return "", false
	}
	files := trust.Files(s.Item.Content)
	if len(files) != 1 || files[0].Bare {
		return "", false
	}
	return files[0].Text, true
}

// mostShown is how many lines of a recipe are shown before somebody agrees to it.
const mostShown = 120

// recipeLines are what a person reads of a recipe before agreeing to it: its text.
func (a *app) recipeLines(s *trust.Status) []string {
	if s.Item.Kind != trust.Workflow {
		return nil
	}
	all := a.hint("workflows", "show", transcript.Line(s.Item.Name), "-v")
	text, known := recipeText(s)
	if !known {
		return []string{"", "its text is too long to be shown here: " + all}
	}
	lines := strings.Split(strings.TrimRight(transcript.Clean(text), "\n"), "\n")
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

// itemName is what people call an item: tools are their server's.
func itemName(i *trust.Item) string {
	if i.Kind == trust.MCPTools {
		return strings.TrimSuffix(i.Name, " tools")
	}
	return i.Name
}

// decide shows what is not trusted and asks about it.
func (a *app) decide(names []string, yes bool) error {
	p, err := a.project()
	if err != nil {
		return err
	}
	if len(names) == 0 {
		a.notRunnable(p)
	}
	items, err := chosen(p.Items(), names)
	if err != nil {
		if len(names) == 1 && ownServer(p, names[0]) {
			a.note("the MCP server " + transcript.Line(names[0]) + " is your own, and the tools that it offered last are those that you agreed to")
			return a.decided(nil, trust.Trusted)
		}
		return err
	}
	items = slices.DeleteFunc(items, func(s trust.Status) bool {
		if s.State == trust.Trusted && len(names) > 0 {
			a.note(fmt.Sprintf("%s %s (%s) is trusted, and as it was when you agreed to it", s.Item.Kind, transcript.Line(itemName(&s.Item)), transcript.Line(s.Item.Path)))
		}
		return s.State == trust.Trusted
	})
	if len(items) == 0 {
		if len(names) == 0 {
			a.note("there is nothing to decide in " + p.Dir() + ": what the project brings along, if anything, is trusted")
		}
		return a.decided(nil, trust.Trusted)
	}
	if !yes {
		if items, err = a.agree(p, items); err != nil {
			return err
		}
	}
	agreed := make([]trust.Item, len(items))
	for i := range items {
		agreed[i] = items[i].Item
	}
	if err := p.Trust(agreed); err != nil {
		return err
	}
	a.note("trusted: " + plural(len(agreed), "item"))
	for i := range agreed {
		a.note(fmt.Sprintf("  %s %s (%s)", agreed[i].Kind, transcript.Line(itemName(&agreed[i])), transcript.Line(agreed[i].Path)))
	}
	return a.decided(items, trust.Trusted)
}

// decided lists for programs the items of which the state was changed.
func (a *app) decided(items []trust.Status, state trust.State) error {
	if !a.programs() {
		return nil
	}
	for i := range items {
		items[i].State = state
	}
	return a.printItems(items, false)
}

// notRunnable says which workflows of the project nobody can decide on, since they were written for another program.
func (a *app) notRunnable(p *project.Project) {
	for _, e := range p.Atomic() {
		if e.Source == "project" {
			a.note(transcript.Line(fmt.Sprintf("not runnable: workflow %s (%s): %s", e.Name, e.Path, catalog.NoAtomic)))
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
func (a *app) agree(p *project.Project, items []trust.Status) ([]trust.Status, error) {
	if a.programs() || a.set.noInput || !a.term.inTTY || !a.term.errTTY {
		if err := a.printItems(items, true); err != nil {
			return nil, err
		}
		return nil, &Error{Exit: ExitPaused, Code: "untrusted", Message: fmt.Sprintf("%s of %s wait for a decision", plural(len(items), "item"), p.Dir()),
			Next: []string{"on a terminal: " + a.hint("trust"), "without being asked: " + a.hint("trust", "--yes")}}
	}
	a.err.line("In " + p.Dir() + ":\n")
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
	var out []trust.Status
	if len(items) == 1 {
		if isYes(ask("\nUse 1 item? It runs with your rights. [y/N] ")) {
			out = items
		}
	} else {
		switch answer := ask("\nUse %s? What they start runs in the sandbox, under your rules. [a]ll, [N]one, [s]elect ", plural(len(items), "item")); {
		case answer == "a" || answer == "all" || isYes(answer):
			out = items
		case answer == "s" || answer == "select":
			for _, s := range items {
				if isYes(ask("%s %s (%s)? [y/N] ", s.Item.Kind, transcript.Line(itemName(&s.Item)), transcript.Line(s.Item.Path))) {
					out = append(out, s)
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

// ownServer says whether there is an MCP server of the user's own of a name.
func ownServer(p *project.Project, name string) bool {
	return slices.ContainsFunc(p.Tools(), func(e catalog.Item) bool {
		return e.Kind == "mcp" && e.Source == "user" && e.Name == "mcp__"+name+"__*"
	})
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
			called := itemName(&s.Item)
			if called == name || string(s.Item.Kind)+"/"+called == name || s.Item.Name == name || s.Item.Path == name {
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
