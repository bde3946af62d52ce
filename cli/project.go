package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/agent/definition"
	"github.com/superstep-dev/superstep/project"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/permit"
	"github.com/superstep-dev/superstep/transcript"
	"github.com/superstep-dev/superstep/trust"
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

// projectOptions say where the project and the user's own things are.
func (a *app) projectOptions() *project.Options {
	home := a.opt.Env("HOME")
	if !filepath.IsAbs(home) {
		home, _ = os.UserHomeDir() // "" is no home
	}
	rules, _ := a.set.leave.rules() // they were checked
	o := &project.Options{
		Home: home, ConfigHome: filepath.Dir(a.configDir()), StateDir: a.configDir(),
		Environ: a.opt.Environ(), Env: a.opt.Env,
		TrustProject: a.set.leave.trustProject, Rules: rules, Offline: a.set.offline,
		CacheDir: a.cacheDir(),
		ResultsDir: func(run string) string {
			if len(a.keys) > 0 { // what lies there would not be sealed
				return ""
			}
			return filepath.Join(a.runDir(run), "results")
		},
		Redact: func(s string) string { return a.redactor().Text(s) },
	}
	if a.set.leave.headless {
		o.OnAsk = agent.AskDeny
	}
	if here, err := os.Getwd(); err == nil {
		o.Dir = project.Root(here, home)
	}
	return o
}

// project opens the project of the current folder.
func (a *app) project() (*project.Project, error) { return a.openProject(a.setup("")) }

func (a *app) openProject(s *Setup) (*project.Project, error) {
	if a.opt.Project == nil {
		return project.Open(s.Project)
	}
	return a.opt.Project(s)
}

// startProject starts what may be used of the project, and says what is not.
func (a *app) startProject(ctx context.Context) (*project.Project, *project.Session, error) {
	s := a.setup("")
	say := func(text string) {
		if !a.set.quiet {
			a.err.line(transcript.Line(text))
		}
	}
	s.Project.Notice = say
	s.Project.Passed = func(items []trust.Status) {
		say(project.Summary(items) + "; look at them and decide: " + a.hint("trust"))
	}
	p, err := a.openProject(s)
	if err != nil {
		return nil, nil, err
	}
	session, err := p.Start(ctx, "")
	return p, session, err
}

// catalog is a command that lists and shows what there is of one kind.
type catalog struct {
	kind, short string
	list        func(*project.Project) []project.Entry
	show        func(ctx context.Context, name string) error
	flags       func(*pflag.FlagSet) // of list; nil for none
	more        []*cobra.Command
}

func (a *app) catalogCommand(c *catalog) *cobra.Command {
	n := a.opt.Name
	subs := []string{"list", "show"}
	for _, m := range c.more {
		subs = append(subs, m.Name())
	}
	cmd := &cobra.Command{
		Use: c.kind, Short: c.short,
		Example: examples(n, c.kind+" list", "", c.kind+" show NAME", "", c.kind+" list -o json", ""),
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage(fmt.Sprintf("%s: which of %s?", c.kind, strings.Join(subs, ", ")))
			}
			return a.unknownCommand(cmd, args[:1])
		},
	}
	names := func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		p, err := a.project()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var out []string
		for _, e := range c.list(p) {
			out = append(out, e.Name+"\t"+transcript.Line(e.Description))
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
	list := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the " + c.kind + " there are, where they come from and what overrides what", Args: a.none,
		Example: examples(n, c.kind+" list", "", c.kind+" list -o json", ""),
		RunE: func(*cobra.Command, []string) error {
			p, err := a.project()
			if err != nil {
				return err
			}
			if err := a.printEntries(c.kind, c.list(p)); err != nil {
				return err
			}
			if !a.programs() {
				for _, x := range p.Problems() {
					if x.Kind == c.kind || x.Kind == "settings" {
						a.err.line(transcript.Line(problem(&x)))
					}
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
	return cmd
}

// problem is a line about something that is wrong or odd.
func problem(p *project.Problem) string {
	if p.Warning {
		return "warning: " + p.String()
	}
	return "error: " + p.String()
}

// validateCommand checks the files of one kind: what cannot be used is an error, what is put up with a warning.
func (a *app) validateCommand(kind string, entries func(*project.Project) []project.Entry) *cobra.Command {
	return &cobra.Command{
		Use: "validate", Short: "Check the files of " + kind + ": exit code 1 if one cannot be used", Args: a.none,
		Example: examples(a.opt.Name, kind+" validate", "", kind+" validate -o json", ""),
		RunE: func(*cobra.Command, []string) error {
			p, err := a.project()
			if err != nil {
				return err
			}
			r := reportJSON{Path: p.Dir(), Errors: []finding{}, Warnings: []finding{}}
			for _, x := range p.Problems() {
				f := finding{Code: "Unusable", Where: x.Where, Text: x.Text}
				switch {
				case x.Kind != kind:
				case x.Warning:
					f.Code = "Odd"
					r.Warnings = append(r.Warnings, f)
				default:
					r.Errors = append(r.Errors, f)
				}
			}
			list := entries(p)
			for _, e := range list {
				for _, w := range e.Warnings {
					where, text, _ := strings.Cut(w, ": ")
					r.Warnings = append(r.Warnings, finding{Code: "Odd", Where: where, Text: text})
				}
			}
			return a.report([]reportJSON{r}, len(list), strings.TrimSuffix(kind, "s"))
		},
	}
}

// printEntries writes a listing.
func (a *app) printEntries(kind string, entries []project.Entry) error {
	switch a.set.output {
	case "json":
		if entries == nil {
			entries = []project.Entry{}
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
		a.err.line("there are no " + kind)
		return nil
	}
	name, source := 4, 8
	for i := range entries {
		name, source = max(name, ansi.StringWidth(transcript.Line(entries[i].Name))), max(source, len(entries[i].Source))
	}
	pal := palette(a.term.outColor)
	untrusted := false
	a.out.line(fmt.Sprintf("%-*s  %-*s  %-11s  %s", name, "NAME", source, "SOURCE", "STATE", "DESCRIPTION"))
	for i := range entries {
		e := &entries[i]
		state := string(e.State)
		shown := state
		switch e.State {
		case project.Usable:
			shown = pal.green(state)
		case project.Untrusted, project.Changed:
			untrusted = true
			shown = pal.yellow(state)
		case project.Draft:
			shown = pal.yellow(state)
		case project.Invalid:
			shown = pal.red(state)
		}
		label := transcript.Line(e.Name)
		line := fmt.Sprintf("%s%s  %-*s  %s%s  %s", label, strings.Repeat(" ", name-ansi.StringWidth(label)), source, e.Source,
			shown, strings.Repeat(" ", max(0, 11-len(state))), ansi.Truncate(transcript.Line(e.Description), 100, "…"))
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
func (a *app) details(e *project.Entry) []string {
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

func (a *app) agentsCommand() *cobra.Command {
	var capable []string
	all := func(p *project.Project) []project.Entry { return p.Agents() }
	return a.catalogCommand(&catalog{
		kind: "agents", short: "Look at the agents there are",
		list: func(p *project.Project) []project.Entry {
			var want []definition.Capability
			for _, s := range capable {
				c, _ := definition.ParseCapability(s) // one that nobody knows is one that no agent has
				want = append(want, c)
			}
			return p.Agents(want...)
		},
		flags: func(f *pflag.FlagSet) {
			f.StringSliceVar(&capable, "capability", nil, "only those that have all of these: research, explore, synthesize, write, search, read-only, code-review, data-analysis")
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
					project.Entry
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
func (a *app) header(e *project.Entry) {
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
	return a.catalogCommand(&catalog{
		kind: "skills", short: "Look at the skills there are, and validate them", list: (*project.Project).Skills,
		more: []*cobra.Command{a.skillsValidate()},
		show: func(_ context.Context, name string) error {
			p, err := a.project()
			if err != nil {
				return err
			}
			c, e, err := p.Skill(name)
			if err != nil {
				return usage(err.Error())
			}
			if a.programs() {
				return a.out.json(struct {
					project.Entry
					Instructions string `json:"instructions"`
				}{e, c.Text}, a.set.output == "json")
			}
			a.header(&e)
			for _, f := range c.Skill.Files {
				a.out.line(transcript.Line(fmt.Sprintf("file     %s (%d bytes)", f.Path, f.Size)))
			}
			a.out.line("\n" + strings.TrimRight(transcript.Clean(c.Text), "\n"))
			return nil
		},
	})
}

func (a *app) toolsCommand() *cobra.Command {
	return a.catalogCommand(&catalog{
		kind: "tools", short: "Look at the tools there are", list: (*project.Project).Tools,
		more: []*cobra.Command{a.toolsCall(), a.validateCommand("tools", (*project.Project).Tools)},
		show: func(ctx context.Context, name string) error {
			p, session, err := a.startProject(ctx)
			if err != nil {
				return err
			}
			defer func() { _ = session.Close() }() // nothing was written
			var found []*tool.Tool
			for _, t := range session.Tools().Tools() {
				if t.Name == name || strings.HasSuffix(name, "*") && strings.HasPrefix(t.Name, strings.TrimSuffix(name, "*")) {
					found = append(found, t)
				}
			}
			if len(found) == 0 {
				return a.noTool(p, session, name)
			}
			for _, t := range found {
				if err := a.showTool(t); err != nil {
					return err
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
		case project.Usable:
			if e.Source == "built-in" {
				return &Error{Exit: ExitUsage, Code: "usage", Message: fmt.Sprintf("tool %s works within a run only: %s", e.Name, e.Description)}
			}
		case project.Off:
			return &Error{Exit: ExitUsage, Code: "usage", Message: fmt.Sprintf("tool %s is off: %s", e.Name, e.Description)}
		default:
			return &Error{Exit: ExitDenied, Code: "untrusted", Message: fmt.Sprintf("tool %s is %s", e.Name, e.State), Next: []string{"look at it and decide: " + a.hint("trust")}}
		}
	}
	for _, x := range p.Problems() {
		if base := filepath.Base(strings.SplitN(x.Where, ":", 2)[0]); !x.Warning && strings.HasPrefix(base, name+".") {
			return &Error{Exit: ExitFailed, Code: "unusable", Message: fmt.Sprintf("tool %s cannot be used: %s", name, x)}
		}
	}
	return usage(s.Unknown(name))
}

func (a *app) showTool(t *tool.Tool) error {
	type toolJSON struct {
		Name        string      `json:"name"`
		Description string      `json:"description"`
		Effect      tool.Effect `json:"effect"`
		Input       any         `json:"input"`
		Output      any         `json:"output,omitempty"`
	}
	v := toolJSON{Name: t.Name, Description: t.Description, Effect: t.Effect, Input: t.Input}
	if t.Effect == "" {
		v.Effect = tool.Once
	}
	if t.Output != nil {
		v.Output = t.Output
	}
	if a.programs() {
		return a.out.json(v, a.set.output == "json")
	}
	schema, err := prettyJSON(t.Input)
	if err != nil {
		return err
	}
	a.out.line(t.Name + "\n" + transcript.Clean(t.Description) + "\n\neffect   " + string(v.Effect) + "\ninput    " + transcript.Clean(schema) + "\n")
	return nil
}
