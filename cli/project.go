package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/arguments"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/definition"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/recipe"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/permit"
)

// leave holds the permission flags.
type leave struct {
	allow, ask   arguments.List
	deny         arguments.List
	trustProject bool
	headless     bool   // nobody can be asked
	onAsk        string // as the flag says
}

func (l *leave) add(f *pflag.FlagSet) {
	f.Var(&l.allow, "allow", "let agents do this unasked: a rule such as 'bash(go test *)' (may be repeated)")
	f.Var(&l.ask, "ask", "require approval for each call that matches this rule, such as bash (may be repeated)")
	f.Var(&l.deny, "deny", "never let agents do this: a rule such as 'read_file(**/.env)' (may be repeated)")
	f.BoolVar(&l.trustProject, "trust-project", false, "use the agents, tools, MCP servers and skills of the project without having been asked "+
		"about them, as in CI")
}

// rules checks the rules of the flags and returns them as settings have them.
func (l *leave) rules() (string, error) {
	var rules []string
	for _, x := range []struct {
		flag     string
		decision tool.Decision
		texts    []string
	}{{"--allow", tool.Allow, l.allow}, {"--ask", tool.Ask, l.ask}, {"--deny", tool.Deny, l.deny}} {
		for _, text := range x.texts {
			if _, err := permit.Parse(x.decision, text, x.flag); err != nil {
				return "", usage(fmt.Sprintf("%s: %v", x.flag, err))
			}
			rules = append(rules, string(x.decision)+" "+text)
		}
	}
	return strings.Join(rules, "\n"), nil
}

// here returns the host. The first call warns of mistakes in the project's settings.
func (a *app) here() *host.Host {
	problems, err := a.host().Problems()
	if err != nil || !a.settled || a.set.Quiet || a.warned || completing(a) {
		return a.host() // which says what is wrong where it is used
	}
	a.warned = true
	for _, x := range problems {
		a.tty.Warn(where(x.File, x) + ": " + x.Text + "; nothing of this file is used until it is mended")
	}
	return a.host()
}

// where returns the place of a problem: a file, file:line or file:line:col.
func where(file string, x *recipe.Problem) string { return clean.Place(file, x.Pos.Line, x.Pos.Col) }

// startProject starts the trusted parts of the project, and reports the others.
func startProject(ctx context.Context, a *app) (*host.Session, error) {
	a.starts = true
	return a.here().Session(ctx)
}

// An itemFilter checks the flags of a list. It returns a filter for items, and words that describe
// it after the kind.
type itemFilter func() (wanted func(*host.Item) bool, words string, err error)

// catalogCommand lists and shows the items of a kind. If filter is nil, it lists all of them.
func catalogCommand(a *app, kind, short string, show func(context.Context, string) error, filter itemFilter) *cobra.Command {
	n := a.cfg.Name
	cmd := &cobra.Command{
		Use: kind, Short: short,
		Example: examples(n, kind+" list", "", kind+" show NAME", "", kind+" list -o json", ""),
	}
	cmd.AddCommand(listCommand(a, kind, filter), &cobra.Command{
		Use: "show NAME", Short: "Show one of the " + kind, ValidArgsFunction: itemNames(kind, nil).words(a, true),
		Example: examples(n, kind+" show NAME", ""),
		Args:    nargs(1, 1, fmt.Sprintf("%s show: name one; `%s %s list` shows those there are", kind, a.program(), kind)),
		RunE:    func(cmd *cobra.Command, args []string) error { return show(cmd.Context(), args[0]) },
	})
	return listFirst(a, cmd)
}

// listCommand lists the items of a kind.
func listCommand(a *app, kind string, filter itemFilter) *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List " + kind + ", with their sources and what they override", Args: none,
		Example: examples(a.cfg.Name, kind+" list", "", kind+" list -o json", ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			h, words, wanted := a.here(), "", func(*host.Item) bool { return true }
			if filter != nil {
				var err error
				if wanted, words, err = filter(); err != nil {
					return err
				}
			}
			items, problems, err := h.List(cmd.Context(), kind, true)
			if err != nil {
				return err
			}
			items = slices.DeleteFunc(items, func(i host.Item) bool { return !wanted(&i) })
			return printItems(a, kind, items, problems, words)
		},
	}
}

// itemNames completes the names of items of a kind, of some or, if nil, of all.
func itemNames(kind string, some func(*host.Item) bool) completer {
	return func(a *app, cmd *cobra.Command) ([]string, error) {
		items, _, err := a.host().List(cmd.Context(), kind, false)
		var out []string
		for i := range items {
			if some == nil || some(&items[i]) {
				out = append(out, word(items[i].Name, items[i].Description))
			}
		}
		return out, err
	}
}

// problem formats a problem on one line.
func problem(x *recipe.Problem) string {
	word := "error: "
	if x.Warning {
		word = "warning: "
	}
	if x.File == "" {
		return word + x.Text
	}
	return word + where(x.File, x) + ": " + x.Text
}

// validateCommand checks the files of one kind. A file that cannot be used is an error; a tolerated
// mistake is a warning.
func validateCommand(a *app, kind string) *cobra.Command {
	return &cobra.Command{
		Use: "validate", Short: "Check the files of " + kind + ": exit code 1 if one cannot be used", Args: none,
		Example: examples(a.cfg.Name, kind+" validate", "", kind+" validate -o json", ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := a.here().Validate(cmd.Context(), kind)
			if err != nil {
				return err
			}
			return printReports(a, []host.Report{*r}, strings.TrimSuffix(kind, "s"))
		},
	}
}

// printItems writes a listing, and then the problems. Filter describes which items were wanted, ""
// for all.
func printItems(a *app, kind string, items []host.Item, problems recipe.Problems, filter string) error {
	if a.programs() {
		return rows(a.out, append([]host.Item{}, items...))
	}
	if len(items) == 0 {
		a.err.line("there are no " + kind + filter)
	} else {
		printTable(a, items)
	}
	for _, x := range problems {
		if !slices.ContainsFunc(items, func(i host.Item) bool { return slices.Contains(i.Problems, x.Text) }) {
			a.err.line(transcript.Line(problem(x)))
		}
	}
	return nil
}

func printTable(a *app, items []host.Item) {
	needs := slices.ContainsFunc(items, func(i host.Item) bool { return i.NeedsModel })
	table := [][]string{{"NAME", "SOURCE  ", "STATE      ", "NEEDS  ", "DESCRIPTION"}}
	pal, states := a.tty.Out, map[string]bool{}
	for i := range items {
		e := &items[i]
		state, need := string(e.State), ""
		if states[state] = true; e.NeedsModel {
			need = "a model"
		}
		switch state {
		case "usable":
			state = pal.Green(state)
		case "not trusted", "changed", "draft", "not runnable":
			state = pal.Yellow(state)
		case "invalid":
			state = pal.Red(state)
		}
		table = append(table, []string{transcript.Line(e.Name), e.Source, state, need, transcript.Line(e.Description)})
		for _, detail := range itemDetails(a, e) {
			table = append(table, []string{"  " + pal.Dim(transcript.Line(detail))})
		}
	}
	for i, line := range table {
		if len(line) > 1 && !needs {
			table[i] = slices.Delete(line, 3, 4)
		}
	}
	a.out.table(table, 0, a.tty.Width())
	if states["not trusted"] || states["changed"] {
		a.err.line("what is not trusted is not used; look at it and decide: " + a.hint("trust"))
	}
	if states["draft"] {
		a.err.line("drafts wait for you: " + a.hint("workflows", "show", "NAME", "-v") + ", and then workflows approve NAME or workflows reject NAME")
	}
}

// itemDetails returns the lines below an item.
func itemDetails(a *app, e *host.Item) []string {
	var out []string
	if e.Source != "built-in" && e.Path != "" {
		where := e.Path
		if e.Kind != "" && !slices.Contains([]string{"skill", "recipe", "graph", "atomic"}, e.Kind) {
			where += " (" + e.Kind + ")"
		}
		if e.Model != "" && e.Kind != "recipe" {
			where += ", model " + e.Model
		}
		out = append(out, where)
	}
	if len(e.Aliases) > 0 {
		out = append(out, "also "+strings.Join(e.Aliases, ", "))
	}
	if len(e.Overrides) > 0 {
		out = append(out, "overrides "+strings.Join(e.Overrides, ", "))
	}
	for i, problem := range e.Problems {
		if n := len(e.Problems) - i; i > 0 && !a.set.Verbose {
			out = append(out, fmt.Sprintf("and %d more; `%s` shows them", n, a.hint("lint")))
			break
		}
		out = append(out, problem)
	}
	if a.set.Verbose {
		out = append(out, e.Warnings...)
	} else if n := len(e.Warnings); n > 0 {
		out = append(out, fmt.Sprintf("%s (-v shows them)", inwords.Plural(n, "warning")))
	}
	return out
}

// capabilities lists the capabilities that agents may have.
const capabilities = "research, explore, synthesize, write, search, read-only, code-review, data-analysis"

func agentsCommand(a *app) *cobra.Command {
	var capable []string
	filter := func() (func(*host.Item) bool, string, error) {
		var want []string
		for _, s := range capable {
			c, known := definition.ParseCapability(s)
			if !known {
				return nil, "", usage(fmt.Sprintf("--capability: want %s, got %q%s", capabilities, s, suggest.Hint(s, strings.Split(capabilities, ", "))))
			}
			want = append(want, c)
		}
		has := func(i *host.Item) bool {
			return !slices.ContainsFunc(want, func(c string) bool { return !slices.Contains(i.Capabilities, c) })
		}
		if len(capable) == 0 {
			return has, "", nil
		}
		return has, " with " + strings.Join(capable, " and ") + "; `" + a.hint("agents", "list") + "` shows all", nil
	}
	show := func(_ context.Context, name string) error { return showItem(a, host.Agents, name) }
	cmd := catalogCommand(a, host.Agents, "List and show agents", show, filter)
	cmd.Commands()[0].Flags().StringSliceVar(&capable, "capability", nil, "only those that have all of these: "+capabilities)
	cmd.AddCommand(validateCommand(a, host.Agents))
	return cmd
}

// showItem writes everything known about an agent or a skill.
func showItem(a *app, kind, name string) error {
	i, err := a.here().Show(kind, name)
	if err != nil {
		return err
	}
	if a.programs() {
		return a.out.value(i)
	}
	printHeader(a, i)
	a.out.line("\n" + strings.TrimRight(transcript.Clean(cmp.Or(i.Prompt, i.Instructions)), "\n"))
	return nil
}

// printHeader writes the first lines about an item.
func printHeader(a *app, i *host.Item) {
	a.out.line(strings.TrimRight(transcript.Line(i.Name)+"\n"+transcript.Line(i.Description), "\n") + "\n")
	put := func(what, text string) { a.out.line(fmt.Sprintf("%-8s %s", what, transcript.Line(text))) }
	from := i.Source
	if i.Path != "" {
		from += " " + i.Path
	}
	put("from", from+" ("+string(i.State)+")")
	if len(i.Overrides) > 0 {
		put("before", strings.Join(i.Overrides, ", "))
	}
	if i.Model != "" {
		put("model", i.Model)
	}
	for _, f := range i.Facts {
		if f[0] == "draft" {
			f[1] += "; " + a.hint("workflows", "approve", i.Name)
		}
		put(f[0], f[1])
	}
	for _, w := range i.Warnings {
		put("warning", w)
	}
}

func skillsCommand(a *app) *cobra.Command {
	show := func(_ context.Context, name string) error { return showItem(a, host.Skills, name) }
	cmd := catalogCommand(a, host.Skills, "List, show and validate skills", show, nil)
	cmd.AddCommand(skillsValidate(a))
	return cmd
}

func toolsCommand(a *app) *cobra.Command {
	cmd := catalogCommand(a, host.Tools, "List, show and call tools", func(ctx context.Context, name string) error {
		s, err := startProject(ctx, a)
		if err != nil {
			return err
		}
		defer func() { _ = s.Close() }() // nothing was written
		found, err := s.Find(name)
		if err != nil {
			return err
		}
		for _, t := range found {
			if err := showTool(a, t); err != nil {
				return err
			}
			if _, calls := s.Tools().Get(t.Name); !calls {
				a.note("it works within a run only, for agents")
			}
		}
		return nil
	}, nil)
	cmd.AddCommand(toolsCall(a), validateCommand(a, host.Tools))
	return cmd
}

func showTool(a *app, t *tool.Tool) error {
	v := struct {
		Name        string             `json:"name"`
		Description string             `json:"description"`
		Effect      tool.Effect        `json:"effect"`
		Input       *jsonschema.Schema `json:"input,omitempty"`
		Output      *jsonschema.Schema `json:"output,omitempty"`
	}{t.Name, t.Description, cmp.Or(t.Effect, tool.Once), t.Input, t.Output}
	if a.programs() {
		return a.out.value(v)
	}
	a.out.line(t.Name + "\n" + transcript.Clean(t.Description) + "\n\neffect   " + string(v.Effect))
	if t.Input != nil {
		schema, err := encode(t.Input, true)
		if err != nil {
			return err
		}
		a.out.line("input    " + transcript.Clean(string(schema)))
	}
	a.out.line("")
	return nil
}
