package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/jsonschema-go/jsonschema"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/definition"
	"github.com/superstep-dev/superstep/internal/recipe"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/permit"
)

// leave is what the flags say about what agents may do.
type leave struct {
	allow, ask   list
	deny         list
	trustProject bool
	headless     bool   // nobody can be asked
	onAsk        string // as the flag says
}

func (l *leave) add(f *pflag.FlagSet) {
	f.Var(&l.allow, "allow", "let agents do this unasked: a rule such as 'bash(go test *)' (may be repeated)")
	f.Var(&l.ask, "ask", "let agents do this when somebody agreed to it each time: a rule such as bash (may be repeated)")
	f.Var(&l.deny, "deny", "never let agents do this: a rule such as 'read_file(**/.env)' (may be repeated)")
	f.BoolVar(&l.trustProject, "trust-project", false, "use the agents, tools, MCP servers and skills of the project without having been asked "+
		"about them, as in CI")
	f.Lookup("trust-project").Annotations = map[string][]string{actFlag: {}}
}

// rules reads those of the flags.
func (l *leave) rules() ([]permit.Rule, error) {
	var rules []permit.Rule
	for _, x := range []struct {
		flag     string
		decision tool.Decision
		texts    []string
	}{{"--allow", tool.Allow, l.allow}, {"--ask", tool.Ask, l.ask}, {"--deny", tool.Deny, l.deny}} {
		for _, text := range x.texts {
			r, err := permit.Parse(x.decision, text, x.flag)
			if err != nil {
				return nil, usage(fmt.Sprintf("%s: %v", x.flag, err))
			}
			rules = append(rules, r)
		}
	}
	return rules, nil
}

// here returns the host, and warns once of mistakes in the settings of the project.
func (a *app) here() (*host.Host, error) {
	problems, err := a.host().Problems()
	if err != nil || !a.settled || a.set.quiet || a.completing() || a.warned {
		return a.host(), err
	}
	a.warned = true
	for _, x := range problems {
		a.warn(where(x.File, x) + ": " + x.Text + "; nothing of this file is used until it is mended")
	}
	return a.host(), nil
}

// where is the place of a problem: a file, file:line or file:line:col.
func where(file string, x *recipe.Problem) string { return clean.Place(file, x.Pos.Line, x.Pos.Col) }

// startProject starts what may be used of the project, and says what is not.
func (a *app) startProject(ctx context.Context) (*host.Session, error) {
	a.starts = true
	h, err := a.here()
	if err != nil {
		return nil, err
	}
	return h.Session(ctx)
}

// An itemFilter checks the flags of a list, and returns which items are wanted and that in words, behind the kind.
type itemFilter func() (wanted func(*host.Item) bool, words string, err error)

// catalogCommand lists and shows what there is of a kind. If filter is nil, all of it is listed.
func (a *app) catalogCommand(kind, short string, show func(context.Context, string) error, filter itemFilter) *cobra.Command {
	n := a.cfg.Name
	cmd := &cobra.Command{
		Use: kind, Short: short,
		Example: examples(n, kind+" list", "", kind+" show NAME", "", kind+" list -o json", ""),
	}
	cmd.AddCommand(a.listCommand(kind, filter), &cobra.Command{
		Use: "show NAME", Short: "Show one of the " + kind, ValidArgsFunction: a.names(kind, nil).words(),
		Example: examples(n, kind+" show NAME", ""),
		Args:    nargs(1, 1, fmt.Sprintf("%s show: name one; `%s %s list` shows those there are", kind, a.program(), kind)),
		RunE:    func(cmd *cobra.Command, args []string) error { return show(cmd.Context(), args[0]) },
	})
	return a.lists(cmd)
}

// listCommand lists what there is of a kind.
func (a *app) listCommand(kind string, filter itemFilter) *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the " + kind + " there are, where they come from and what overrides what", Args: a.none,
		Example: examples(a.cfg.Name, kind+" list", "", kind+" list -o json", ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			h, err := a.here()
			if err != nil {
				return err
			}
			words, wanted := "", func(*host.Item) bool { return true }
			if filter != nil {
				if wanted, words, err = filter(); err != nil {
					return err
				}
			}
			items, problems, err := h.List(cmd.Context(), kind, true)
			if err != nil {
				return err
			}
			items = slices.DeleteFunc(items, func(i host.Item) bool { return !wanted(&i) })
			return a.printItems(kind, items, problems, words)
		},
	}
}

// names completes the names of items of a kind, of some or, if nil, of all.
func (a *app) names(kind string, some func(*host.Item) bool) completer {
	return func(cmd *cobra.Command) ([]string, error) {
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

// problem is a line about something that is wrong or odd.
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

// validateCommand checks the files of one kind: what cannot be used is an error, what is put up with a warning.
func (a *app) validateCommand(kind string) *cobra.Command {
	return &cobra.Command{
		Use: "validate", Short: "Check the files of " + kind + ": exit code 1 if one cannot be used", Args: a.none,
		Example: examples(a.cfg.Name, kind+" validate", "", kind+" validate -o json", ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			h, err := a.here()
			if err != nil {
				return err
			}
			r, err := h.Validate(cmd.Context(), kind)
			if err != nil {
				return err
			}
			return a.report([]host.Report{*r}, strings.TrimSuffix(kind, "s"))
		},
	}
}

// printItems writes a listing, and what is wrong besides. Filter says which of them were wanted, "" for all.
func (a *app) printItems(kind string, items []host.Item, problems recipe.Problems, filter string) error {
	if a.programs() {
		return rows(a.out, append([]host.Item{}, items...))
	}
	if len(items) == 0 {
		a.err.line("there are no " + kind + filter)
	} else {
		a.printTable(items)
	}
	for _, x := range problems {
		if !slices.ContainsFunc(items, func(i host.Item) bool { return slices.Contains(i.Problems, x.Text) }) {
			a.err.line(transcript.Line(problem(x)))
		}
	}
	return nil
}

func (a *app) printTable(items []host.Item) {
	width := 0 // any
	if fd, ok := isTerminal(a.opt.Stdout); ok {
		width, _, _ = term.GetSize(fd)
	}
	needs, untrusted, drafts := false, false, false
	name, source := 4, 8
	for i := range items {
		name, source = max(name, ansi.StringWidth(transcript.Line(items[i].Name))), max(source, len(items[i].Source))
		needs = needs || items[i].NeedsModel
	}
	pal := palette(a.term.outColor)
	column := func(text string) string {
		if !needs {
			return ""
		}
		return fmt.Sprintf("%-16s  ", text)
	}
	a.out.line(fmt.Sprintf("%-*s  %-*s  %-11s  %sDESCRIPTION", name, "NAME", source, "SOURCE", "STATE", column("NEEDS")))
	for i := range items {
		e := &items[i]
		state, need := string(e.State), ""
		if e.NeedsModel {
			need = "a language model"
		}
		shown := state
		switch state {
		case "usable":
			shown = pal.green(state)
		case "not trusted", "changed", "draft", "not runnable":
			shown = pal.yellow(state)
		case "invalid":
			shown = pal.red(state)
		}
		untrusted, drafts = untrusted || state == "not trusted" || state == "changed", drafts || state == "draft"
		label := transcript.Line(e.Name)
		line := fmt.Sprintf("%s%s  %-*s  %s%s  %s%s", label, strings.Repeat(" ", name-ansi.StringWidth(label)), source, e.Source,
			shown, strings.Repeat(" ", max(0, 11-len(state))), column(need), transcript.Line(e.Description))
		if width > 0 {
			line = ansi.Truncate(line, width, "…")
		}
		a.out.line(strings.TrimRight(line, " "))
		for _, detail := range a.details(e) {
			a.out.line("  " + pal.dim(transcript.Line(detail)))
		}
	}
	if untrusted {
		a.err.line("what is not trusted is not used; look at it and decide: " + a.hint("trust"))
	}
	if drafts {
		a.err.line("drafts wait for you: " + a.hint("workflows", "show", "NAME", "-v") + ", and then workflows approve NAME or workflows reject NAME")
	}
}

// details are the lines below an item.
func (a *app) details(e *host.Item) []string {
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
		if n := len(e.Problems) - i; i > 0 && !a.set.verbose {
			out = append(out, fmt.Sprintf("and %d more; `%s` shows them", n, a.hint("lint")))
			break
		}
		out = append(out, problem)
	}
	if a.set.verbose {
		out = append(out, e.Warnings...)
	} else if n := len(e.Warnings); n > 0 {
		out = append(out, fmt.Sprintf("%s (-v shows them)", plural(n, "warning")))
	}
	return out
}

// capabilities are those that agents may have.
const capabilities = "research, explore, synthesize, write, search, read-only, code-review, data-analysis"

func (a *app) agentsCommand() *cobra.Command {
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
	show := func(_ context.Context, name string) error { return a.show(host.Agents, name) }
	cmd := a.catalogCommand(host.Agents, "Look at the agents there are", show, filter)
	cmd.Commands()[0].Flags().StringSliceVar(&capable, "capability", nil, "only those that have all of these: "+capabilities)
	cmd.AddCommand(a.validateCommand(host.Agents))
	return cmd
}

// show writes all there is to know of an agent or a skill.
func (a *app) show(kind, name string) error {
	h, err := a.here()
	if err != nil {
		return err
	}
	i, err := h.Show(kind, name)
	if err != nil {
		return err
	}
	if a.programs() {
		return a.out.value(i)
	}
	a.header(i)
	a.out.line("\n" + strings.TrimRight(transcript.Clean(cmp.Or(i.Prompt, i.Instructions)), "\n"))
	return nil
}

// header writes the first lines about an item.
func (a *app) header(i *host.Item) {
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

func (a *app) skillsCommand() *cobra.Command {
	show := func(_ context.Context, name string) error { return a.show(host.Skills, name) }
	cmd := a.catalogCommand(host.Skills, "Look at the skills there are, and validate them", show, nil)
	cmd.AddCommand(a.skillsValidate())
	return cmd
}

func (a *app) toolsCommand() *cobra.Command {
	cmd := a.catalogCommand(host.Tools, "Look at the tools there are", func(ctx context.Context, name string) error {
		s, err := a.startProject(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = s.Close() }() // nothing was written
		found, err := s.Find(name)
		if err != nil {
			return err
		}
		for _, t := range found {
			if err := a.showTool(t); err != nil {
				return err
			}
			if _, calls := s.Tools().Get(t.Name); !calls {
				a.note("it works within a run only, for agents")
			}
		}
		return nil
	}, nil)
	cmd.AddCommand(a.toolsCall(), a.validateCommand(host.Tools))
	return cmd
}

func (a *app) showTool(t *tool.Tool) error {
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
		schema, err := prettyJSON(t.Input)
		if err != nil {
			return err
		}
		a.out.line("input    " + transcript.Clean(schema))
	}
	a.out.line("")
	return nil
}
