package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/superstep-dev/superstep/agent/definition"
	"github.com/superstep-dev/superstep/catalog"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/project"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/permit"
	"github.com/superstep-dev/superstep/transcript"
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
	f.BoolVar(&l.trustProject, "trust-project", false, "use the agents, tools, MCP servers and skills of the project without having been asked about them, as in CI")
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

// project opens the project of the current folder and warns once of mistakes in its settings.
func (a *app) project() (*project.Project, error) {
	p, err := a.host().Project()
	if err == nil {
		a.warnOfSettings(p)
	}
	return p, err
}

// warnOfSettings warns once of mistakes in the settings of a project.
func (a *app) warnOfSettings(p *project.Project) {
	if !a.settled || a.set.quiet || a.completing() || a.warned {
		return
	}
	a.warned = true
	for _, x := range p.Problems() {
		if x.Kind == settingsKind {
			a.warn(x.String() + "; nothing of this file is used until it is mended")
		}
	}
}

// settingsKind is that of problems of a project's own settings.
const settingsKind = "settings"

// startProject starts what may be used of the project, and says what is not.
func (a *app) startProject(ctx context.Context) (*project.Project, *project.Session, error) {
	a.starts = true
	p, err := a.project()
	if err != nil {
		return nil, nil, err
	}
	session, err := p.Start(ctx, "")
	return p, session, err
}

// A lister gives what there is of one kind, and what is wrong with it.
type lister func(context.Context, *project.Project) ([]catalog.Item, []catalog.Problem, error)

// listed makes one of what a project knows without running anything.
func listed(kind string, entries func(*project.Project) []catalog.Item) lister {
	return func(_ context.Context, p *project.Project) ([]catalog.Item, []catalog.Problem, error) {
		problems := slices.DeleteFunc(p.Problems(), func(x catalog.Problem) bool { return x.Kind != kind })
		return entries(p), problems, nil
	}
}

// listing is a command that lists and shows what there is of one kind.
type listing struct {
	kind, short string
	list        lister
	show        func(ctx context.Context, name string) error
	flags       func(*pflag.FlagSet)   // of list; nil for none
	filter      func() (string, error) // checks them, and returns what they leave in words, behind the kind; nil for none
	more        []*cobra.Command
}

func (a *app) catalogCommand(c *listing) *cobra.Command {
	n := a.cfg.Name
	cmd := &cobra.Command{
		Use: c.kind, Short: c.short,
		Example: examples(n, c.kind+" list", "", c.kind+" show NAME", "", c.kind+" list -o json", ""),
	}
	names := func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		p, err := a.project()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		entries, _, err := c.list(cmd.Context(), p)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var out []string
		for _, e := range entries {
			out = append(out, e.Name+"\t"+transcript.Line(e.Description))
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
	list := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the " + c.kind + " there are, where they come from and what overrides what", Args: a.none,
		Example: examples(n, c.kind+" list", "", c.kind+" list -o json", ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := a.project()
			if err != nil {
				return err
			}
			filter := ""
			if c.filter != nil {
				var err error
				if filter, err = c.filter(); err != nil {
					return err
				}
			}
			entries, problems, err := c.list(cmd.Context(), p)
			if err != nil {
				return err
			}
			if err := a.printEntries(c.kind, entries, filter); err != nil {
				return err
			}
			for i := range problems {
				shown := slices.ContainsFunc(entries, func(e catalog.Item) bool { return slices.Contains(e.Problems, problems[i].Text) })
				if !shown {
					a.note(transcript.Line(problem(&problems[i])))
				}
			}
			return nil
		},
	}
	if c.flags != nil {
		c.flags(list.Flags())
	}
	show := &cobra.Command{
		Use: "show NAME", Short: "Show one of the " + c.kind, ValidArgsFunction: names,
		Example: examples(n, c.kind+" show NAME", ""),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage(fmt.Sprintf("%s show: name one; `%s` shows those there are", c.kind, a.hint(c.kind, "list")))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return c.show(cmd.Context(), args[0]) },
	}
	cmd.AddCommand(list, show)
	cmd.AddCommand(c.more...)
	return a.lists(cmd)
}

// problem is a line about something that is wrong or odd.
func problem(p *catalog.Problem) string {
	if p.Warning {
		return "warning: " + p.String()
	}
	return "error: " + p.String()
}

// validateCommand checks the files of one kind: what cannot be used is an error, what is put up with a warning.
func (a *app) validateCommand(kind string, list lister) *cobra.Command {
	return &cobra.Command{
		Use: "validate", Short: "Check the files of " + kind + ": exit code 1 if one cannot be used", Args: a.none,
		Example: examples(a.cfg.Name, kind+" validate", "", kind+" validate -o json", ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := a.project()
			if err != nil {
				return err
			}
			entries, problems, err := list(cmd.Context(), p)
			if err != nil {
				return err
			}
			r := reportJSON{Path: p.Dir(), Errors: []finding{}, Warnings: []finding{}}
			for _, x := range problems {
				if f := (finding{Code: "Unusable", Where: x.Where(), Text: x.Text}); !x.Warning {
					r.Errors = append(r.Errors, f)
				} else {
					f.Code = "Odd"
					r.Warnings = append(r.Warnings, f)
				}
			}
			for _, e := range entries {
				for _, w := range e.Warnings {
					where, text, _ := strings.Cut(w, ": ")
					r.Warnings = append(r.Warnings, finding{Code: "Odd", Where: where, Text: text})
				}
			}
			return a.report([]reportJSON{r}, len(entries), strings.TrimSuffix(kind, "s"))
		},
	}
}

// printEntries writes a listing. Filter says which of them were wanted, "" for all. Needs, if there are any, are what each
// entry needs.
func (a *app) printEntries(kind string, entries []catalog.Item, filter string, needs ...string) error {
	switch a.set.output {
	case "json":
		if entries == nil {
			entries = []catalog.Item{}
		}
		return a.out.json(entries, true)
	case "jsonl":
		for i := range entries {
			if err := a.out.json(&entries[i], false); err != nil {
				return err
			}
		}
		return nil
	}
	if len(entries) == 0 {
		a.err.line("there are no " + kind + filter)
		return nil
	}
	width := 0 // any
	if fd, ok := isTerminal(a.opt.Stdout); ok {
		width, _, _ = term.GetSize(fd)
	}
	name, source := 4, 8
	for i := range entries {
		name, source = max(name, ansi.StringWidth(transcript.Line(entries[i].Name))), max(source, len(entries[i].Source))
	}
	pal := palette(a.term.outColor)
	untrusted := false
	column := func(string) string { return "" }
	if len(needs) > 0 {
		column = func(text string) string { return fmt.Sprintf("%-16s  ", text) }
	}
	a.out.line(fmt.Sprintf("%-*s  %-*s  %-11s  %sDESCRIPTION", name, "NAME", source, "SOURCE", "STATE", column("NEEDS")))
	for i := range entries {
		e := &entries[i]
		state := string(e.State)
		shown := state
		switch e.State {
		case catalog.Usable:
			shown = pal.green(state)
		case catalog.Untrusted, catalog.Changed:
			untrusted = true
			shown = pal.yellow(state)
		case catalog.Draft, catalog.NotRunnable:
			shown = pal.yellow(state)
		case catalog.Invalid:
			shown = pal.red(state)
		}
		label, need := transcript.Line(e.Name), ""
		if len(needs) > 0 {
			need = column(needs[i])
		}
		line := fmt.Sprintf("%s%s  %-*s  %s%s  %s%s", label, strings.Repeat(" ", name-ansi.StringWidth(label)), source, e.Source,
			shown, strings.Repeat(" ", max(0, 11-len(state))), need, transcript.Line(e.Description))
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
	return nil
}

// details are the lines below an entry.
func (a *app) details(e *catalog.Item) []string {
	var out []string
	if e.Source != "built-in" && e.Path != "" {
		where := e.Path
		if e.Kind != "" && e.Kind != "skill" && e.Kind != "recipe" {
			where += " (" + e.Kind + ")"
		}
		if e.Model != "" {
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
	all := listed("agents", func(p *project.Project) []catalog.Item { return p.Agents() })
	return a.catalogCommand(&listing{
		kind: "agents", short: "Look at the agents there are",
		list: listed("agents", func(p *project.Project) []catalog.Item {
			var want []string
			for _, s := range capable {
				c, _ := definition.ParseCapability(s) // it was checked
				want = append(want, c)
			}
			return p.Agents(want...)
		}),
		flags: func(f *pflag.FlagSet) {
			f.StringSliceVar(&capable, "capability", nil, "only those that have all of these: "+capabilities)
		},
		filter: func() (string, error) {
			for _, c := range capable {
				if _, known := definition.ParseCapability(c); !known {
					return "", usage(fmt.Sprintf("--capability: want %s, got %q%s", capabilities, c, suggest.Hint(c, strings.Split(capabilities, ", "))))
				}
			}
			if len(capable) == 0 {
				return "", nil
			}
			return " with " + strings.Join(capable, " and ") + "; `" + a.hint("agents", "list") + "` shows all", nil
		},
		more: []*cobra.Command{a.validateCommand("agents", all)},
		show: func(_ context.Context, name string) error {
			p, err := a.project()
			if err != nil {
				return err
			}
			d, e, err := p.Definition(name)
			if err != nil {
				return usage(err.Error())
			}
			if a.programs() {
				return a.out.json(struct {
					catalog.Item
					Prompt string `json:"prompt"`
				}{e, d.Prompt}, a.set.output == "json")
			}
			a.header(&e)
			tools := "every tool there is"
			if d.Tools != nil {
				tools = strings.Join(d.Tools, ", ")
			}
			a.out.line("tools    " + transcript.Line(tools))
			if len(d.Disallowed) > 0 {
				a.out.line("not      " + transcript.Line(strings.Join(d.Disallowed, ", ")))
			}
			for _, w := range e.Warnings {
				a.out.line("warning  " + transcript.Line(w))
			}
			a.out.line("\n" + strings.TrimRight(transcript.Clean(d.Prompt), "\n"))
			return nil
		},
	})
}

// header writes the first lines about an entry.
func (a *app) header(e *catalog.Item) {
	a.out.line(strings.TrimRight(transcript.Line(e.Name)+"\n"+transcript.Line(e.Description), "\n") + "\n")
	where := e.Source
	if e.Path != "" {
		where += " " + e.Path
	}
	a.out.line("from     " + transcript.Line(where) + " (" + string(e.State) + ")")
	if len(e.Overrides) > 0 {
		a.out.line("before   " + transcript.Line(strings.Join(e.Overrides, ", ")))
	}
	if e.Model != "" {
		a.out.line("model    " + transcript.Line(e.Model))
	}
}

func (a *app) skillsCommand() *cobra.Command {
	return a.catalogCommand(&listing{
		kind: "skills", short: "Look at the skills there are, and validate them", list: listed("skills", (*project.Project).Skills),
		more: []*cobra.Command{a.skillsValidate()},
		show: func(_ context.Context, name string) error {
			p, err := a.project()
			if err != nil {
				return err
			}
			k, text, e, err := p.Skill(name)
			if err != nil {
				return usage(err.Error())
			}
			if a.programs() {
				return a.out.json(struct {
					catalog.Item
					Instructions string `json:"instructions"`
				}{e, text}, a.set.output == "json")
			}
			a.header(&e)
			for _, f := range k.Files {
				a.out.line(transcript.Line(fmt.Sprintf("file     %s (%d bytes)", f.Path, f.Size)))
			}
			a.out.line("\n" + strings.TrimRight(transcript.Clean(text), "\n"))
			return nil
		},
	})
}

func (a *app) toolsCommand() *cobra.Command {
	list := func(ctx context.Context, p *project.Project) ([]catalog.Item, []catalog.Problem, error) {
		if a.completing() {
			return p.Tools(), nil, nil
		}
		return p.CheckTools(ctx)
	}
	return a.catalogCommand(&listing{
		kind: "tools", short: "Look at the tools there are", list: list,
		more: []*cobra.Command{a.toolsCall(), a.validateCommand("tools", list)},
		show: func(ctx context.Context, name string) error {
			p, session, err := a.startProject(ctx)
			if err != nil {
				return err
			}
			defer func() { _ = session.Close() }() // nothing was written
			var found []*tool.Tool
			for _, t := range append(session.Tools().Tools(), session.AgentTools()...) {
				if t.Name == name || strings.HasSuffix(name, "*") && strings.HasPrefix(t.Name, strings.TrimSuffix(name, "*")) {
					found = append(found, t)
				}
			}
			if i := slices.IndexFunc(p.Tools(), func(e catalog.Item) bool {
				return e.Name == name && e.Source == "built-in" && e.State == catalog.Usable
			}); len(found) == 0 && i >= 0 { // it is made for each run
				found = append(found, &tool.Tool{Name: name, Description: p.Tools()[i].Description})
			}
			if len(found) == 0 {
				return a.noTool(p, session, name)
			}
			for _, t := range found {
				if err := a.showTool(t); err != nil {
					return err
				}
				if _, calls := session.Tools().Get(t.Name); !calls {
					a.note("it works within a run only, for agents")
				}
			}
			return nil
		},
	})
}

// noTool says that there is no tool of a name, or why it cannot be used.
func (a *app) noTool(p *project.Project, s *project.Session, name string) error {
	for _, e := range p.Tools() {
		prefix, group := strings.CutSuffix(e.Name, "*")
		if e.Name != name && !slices.Contains(e.Tools, name) && !(group && strings.HasPrefix(name, prefix)) {
			continue
		}
		switch e.State {
		case catalog.Usable:
			if e.Source == "built-in" {
				return &Error{Exit: ExitUsage, Code: "usage", Message: fmt.Sprintf("tool %s works within a run only: %s", e.Name, e.Description)}
			}
		case catalog.Invalid: // see below
		case catalog.Off:
			return &Error{Exit: ExitUsage, Code: "usage", Message: fmt.Sprintf("tool %s is off: %s", e.Name, e.Description)}
		default:
			return &Error{Exit: ExitDenied, Code: "untrusted", Message: fmt.Sprintf("tool %s is %s", e.Name, e.State), Next: []string{"look at it and decide: " + a.hint("trust")}}
		}
	}
	if why := s.Broken(name); why != "" {
		return &Error{Exit: ExitFailed, Code: "unusable", Message: why}
	}
	return usage(s.Unknown(name))
}

func (a *app) showTool(t *tool.Tool) error {
	type toolJSON struct {
		Name        string      `json:"name"`
		Description string      `json:"description"`
		Effect      tool.Effect `json:"effect"`
		Input       any         `json:"input,omitempty"`
		Output      any         `json:"output,omitempty"`
	}
	v := toolJSON{Name: t.Name, Description: t.Description, Effect: t.Effect}
	if t.Input != nil {
		v.Input = t.Input
	}
	if t.Effect == "" {
		v.Effect = tool.Once
	}
	if t.Output != nil {
		v.Output = t.Output
	}
	if a.programs() {
		return a.out.json(v, a.set.output == "json")
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
