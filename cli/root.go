package cli

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/workflow"
)

const helpTemplate = `{{if .HasExample}}Examples:
{{.Example}}

{{end}}{{with (or .Long .Short)}}{{. | trimTrailingWhitespaces}}

{{end}}Usage:
  {{.UseLine}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} COMMAND

Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding }} {{.Short}}{{end}}{{end}}{{end}}{{range .Groups}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableInheritedFlags}}

Global flags:
{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}
`

// root builds the command. The flags of `run` depend on the workflow, which is why the
// arguments are looked at before they are parsed.
func (a *app) root() (*cobra.Command, error) {
	name := a.opt.Name
	root := &cobra.Command{
		Use:   name,
		Short: "Run workflows that survive a crash",
		Long: `Run workflows that survive a crash

Exit codes: 0 completed, 1 failed, 2 wrong usage (nothing ran), 3 waiting for a person, 4 no model,
5 a limit was reached, 6 a required action was denied, 7 finished but some tasks failed,
130 interrupted, 143 terminated (both can be resumed). Of a run that finished, 6 goes before 7: calls that were
turned down since nobody was asked are told first.`,
		Example: examples(name,
			"run --help", "what there is to run",
			"runs list", "what ran here",
			"runs resume @last", "go on with the newest run"),
		Args:          cobra.ArbitraryArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          a.bare,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			a.forgive(cmd)
			return a.configure(cmd.Flags())
		},
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpTemplate(helpTemplate)
	root.SetHelpCommand(&cobra.Command{Use: "help [COMMAND]", Short: "Help about a command", RunE: func(cmd *cobra.Command, args []string) error {
		c, rest, err := root.Find(args)
		if err != nil || len(rest) > 0 {
			return a.unknownCommand(root, args)
		}
		return c.Help()
	}, Example: examples(name, "help run", "")})
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetFlagErrorFunc(a.flagError)
	a.globals(root.PersistentFlags())
	version := root.Flags().Bool("version", false, "print the version")
	bare := root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if *version {
			return a.version()
		}
		return bare(cmd, args)
	}
	run := a.runCommand()
	if a.opt.Recipe != nil {
		root.AddCommand(a.initCommand(), a.lintCommand())
	}
	root.AddCommand(run, a.runsCommand(), a.workflowsCommand(), a.agentsCommand(), a.toolsCommand(), a.skillsCommand(), a.modelsCommand(), a.trustCommand(), a.permissionsCommand(), a.serveCommand(), a.workerCommand(), a.configCommand(), a.versionCommand(), a.completionCommand())
	if err := a.prepareRun(root, run); err != nil {
		return root, err
	}
	a.complete(root)
	return root, nil
}

func (a *app) globals(f *pflag.FlagSet) {
	s := &a.set
	f.StringVarP(&s.output, "output", "o", "text", "text, json or jsonl")
	f.StringVar(&s.color, "color", "auto", "auto, always or never")
	f.BoolVar(&s.noColor, "no-color", false, "send no escape sequences")
	f.BoolVar(&s.plain, "plain", false, "no spinners and no decoration")
	f.BoolVarP(&s.quiet, "quiet", "q", false, "no progress")
	f.BoolVarP(&s.verbose, "verbose", "v", false, "more progress: tools and turns of the model")
	f.StringVar(&s.dataDir, "data-dir", "", "where runs are kept; also SUPERSTEP_DATA_DIR (default: superstep in the user's data folder)")
	f.StringVar(&s.store, "store", "", "the store of runs: memory, file:DIR, sqlite:PATH, postgres://… or redis://…; also SUPERSTEP_STORE (default: a file in the data folder)")
	f.StringVar(&s.keyFile, "store-key-file", "", "a `file` with the key that seals the runs, and former keys to open them with; also SUPERSTEP_STORE_KEY for the key itself (default: not sealed)")
	f.BoolVar(&s.volatile, "allow-volatile", false, "accept a Redis that keeps nothing when it stops")
	f.BoolVar(&s.noInput, "no-input", false, "never read standard input")
	f.BoolVar(&s.offline, "offline", false, "open no connection but to this machine")
}

// configure settles the flags: those given, then SUPERSTEP_*, then the user's configuration,
// then the defaults.
func (a *app) configure(flags *pflag.FlagSet) error {
	conf, wrong := a.config()
	var err error
	for _, s := range conf {
		if f := flags.Lookup(s.key); f != nil && !f.Changed && f.Annotations[inputFlag] == nil && a.opt.Env(variable(s.key)) == "" {
			err = errors.Join(err, f.Value.Set(s.value)) // it was checked
		}
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed || err != nil || f.Annotations[inputFlag] != nil || f.Annotations[actFlag] != nil || f.Value.Type() == listType || f.Name == "help" || f.Name == "version" {
			return
		}
		v := a.opt.Env(variable(f.Name))
		if v == "" {
			return
		}
		if e := f.Value.Set(v); e != nil {
			err = usage(variable(f.Name) + ": " + wanted(f, v, e))
		}
	})
	if err == nil {
		err = oneOf("--color", a.set.color, "auto", "always", "never")
	}
	if e := oneOf("--output", a.set.output, "text", "json", "jsonl"); e != nil {
		a.set.output = "text"
		err = e
	}
	a.look()
	a.settled = true
	if wrong != nil {
		return wrong
	}
	return err
}

// actFlag marks flags that say what to do now, which no variable says.
const actFlag = "act"

// acts marks the flags of a command that are not global.
func acts(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		if f := cmd.Flags().Lookup(name); f != nil {
			f.Annotations = map[string][]string{actFlag: {}}
		}
	}
}

func oneOf(flag, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return usage(fmt.Sprintf("%s: want %s, got %q", flag, strings.Join(allowed, ", "), value))
}

// early finds out how an error is to be told that came up before the flags were settled.
func (a *app) early() {
	if a.settled {
		return
	}
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.ParseErrorsAllowlist.UnknownFlags = true
	f.Usage = func() {}
	a.globals(f)
	f.BoolP("help", "h", false, "")
	_ = f.Parse(a.opt.Args)
	_ = a.configure(f)
}

// flagError says which flag was meant.
func (a *app) flagError(cmd *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		f := invalid.GetFlag()
		return usage("--" + f.Name + ": " + wanted(f, invalid.GetValue(), err))
	}
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return usage(err.Error())
	}
	name := unknown.GetSpecifiedName()
	if unknown.GetSpecifiedShortnames() != "" {
		return usage(fmt.Sprintf("unknown flag -%s; `%s --help` lists the flags", name, cmd.CommandPath()))
	}
	var known []string
	add := func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	}
	cmd.Flags().VisitAll(add)
	if c := suggest.Closest(name, known); c != "" {
		return usage(fmt.Sprintf("unknown flag --%s; did you mean --%s?", name, c))
	}
	return usage(fmt.Sprintf("unknown flag --%s; `%s --help` lists the flags", name, cmd.CommandPath()))
}

// wanted says what a flag wants that was given something else.
func wanted(f *pflag.Flag, got string, err error) string {
	var want string
	switch f.Value.Type() {
	case "int", "int64":
		want = "a whole number"
	case "float64":
		want = "a number such as 1.50"
	case "duration":
		want = "a duration such as 90s or 10m"
	case "bool":
		want = "true or false"
	default:
		if cause := errors.Unwrap(err); cause != nil {
			err = cause
		}
		return fmt.Sprintf("%v, got %q", err, got)
	}
	return fmt.Sprintf("want %s, got %q", want, got)
}

// unknownCommand says which command was meant.
func (a *app) unknownCommand(parent *cobra.Command, args []string) error {
	word := args[0]
	if parent.HasParent() {
		word = args[len(args)-1]
	}
	var names []string
	for _, c := range parent.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	hint := suggest.Hint(word, names)
	if !parent.HasParent() {
		if set, err := a.workflows(""); err == nil {
			if w, err := set.Find(word); err == nil {
				hint = fmt.Sprintf("; did you mean `%s run %s`?", a.opt.Name, w.Name)
			}
		}
	}
	return usage(fmt.Sprintf("unknown command %q for %s%s", word, parent.CommandPath(), hint))
}

// bare is the command without a subcommand.
func (a *app) bare(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return a.unknownCommand(cmd, args)
	}
	set, err := a.workflows("")
	if err != nil {
		return err
	}
	if a.term.outTTY && a.term.inTTY {
		a.out.line(a.greeting(set))
		return nil
	}
	more := ""
	if a.opt.Recipe != nil {
		more = "init, lint, "
	}
	a.err.line(cmd.Short + "\n\nExamples:\n" + cmd.Example + "\n\nCommands: " + more + "run, runs, workflows, agents, tools, skills, models, trust, permissions, serve, worker, config, version, completion; `" + a.opt.Name + " COMMAND --help` says more")
	return &Error{Exit: ExitUsage, shown: true}
}

func (a *app) greeting(set workflow.Set) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s runs workflows that survive a crash. Type one of these first:\n", a.opt.Name, a.opt.Version)
	n := a.opt.Name
	var pairs []string
	for _, w := range set[:min(len(set), 5)] {
		pairs = append(pairs, "run "+w.Name+sample(w), w.Description)
	}
	pairs = append(pairs, "runs list", "what ran here", "--help", "everything else")
	b.WriteString("\n" + examples(n, pairs...) + "\n")
	return strings.TrimRight(b.String(), "\n")
}

// sample shows how inputs of a workflow are given: those that are required, or else the first.
func sample(w *workflow.Workflow) string {
	var b strings.Builder
	inputs := inputsJSON(w)
	first := true
	for i := range inputs {
		in := &inputs[i]
		switch {
		case !in.Required:
		case first && in.Type == "string" && len(in.Enum) == 0:
			fmt.Fprintf(&b, " %q", "the "+in.Name)
			first = false
		default:
			b.WriteString(" " + assignment(in))
		}
	}
	if b.Len() == 0 && len(inputs) > 0 {
		return " " + assignment(&inputs[0])
	}
	return b.String()
}

// firstInput shows how the first input is given by its name, a required one if there is one; "" if a workflow takes none.
func firstInput(w *workflow.Workflow) string {
	inputs := inputsJSON(w)
	if len(inputs) == 0 {
		return ""
	}
	i := max(0, slices.IndexFunc(inputs, func(in inputJSON) bool { return in.Required }))
	return assignment(&inputs[i])
}

// assignment shows how an input is given by its name, with a value that fits.
func assignment(in *inputJSON) string {
	value := map[string]string{"integer": "3", "number": "0.5", "boolean": "true", "array": `'["one","two"]'`, "object": `'{"key":"value"}'`}[in.Type]
	switch {
	case len(in.Enum) > 0:
		value = quote(valueText(in.Enum[0]))
	case value == "":
		value = `"…"`
	}
	return in.Name + "=" + value
}

// examples lays out commands and what they do, given in turns.
func examples(name string, pairs ...string) string {
	width := 0
	for i := 0; i < len(pairs); i += 2 {
		width = max(width, len(pairs[i]))
	}
	var lines []string
	for i := 0; i+1 < len(pairs); i += 2 {
		lines = append(lines, strings.TrimRight(fmt.Sprintf("  %s %-*s   %s", name, width, pairs[i], pairs[i+1]), " "))
	}
	return strings.Join(lines, "\n")
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: a.none,
		Example: examples(a.opt.Name, "version", "", "version -o json", ""),
		RunE:    func(*cobra.Command, []string) error { return a.version() },
	}
}

func (a *app) version() error {
	if a.programs() {
		return a.out.json(map[string]string{"version": a.opt.Version, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH}, a.set.output == "json")
	}
	a.out.line(fmt.Sprintf("%s %s (%s %s/%s)", a.opt.Name, a.opt.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH))
	return nil
}

func (a *app) completionCommand() *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use: "completion SHELL", Short: "Print a script that completes commands, workflows and runs", ValidArgs: shells,
		Example: "  " + a.opt.Name + " completion bash > ~/.local/share/bash-completion/completions/" + a.opt.Name + "\n" +
			"  source <(" + a.opt.Name + " completion zsh)\n" +
			"  " + a.opt.Name + " completion fish | source",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(shells, args[0]) {
				return usage("completion: name one shell: " + strings.Join(shells, ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch root := cmd.Root(); args[0] {
			case "bash":
				return root.GenBashCompletionV2(a.out, true)
			case "zsh":
				return root.GenZshCompletion(a.out)
			case "fish":
				return root.GenFishCompletion(a.out, true)
			default:
				return root.GenPowerShellCompletionWithDesc(a.out)
			}
		},
	}
}

// none is for commands without arguments.
func (a *app) none(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage(fmt.Sprintf("%s takes no arguments, got %q; see `%s --help`", cmd.CommandPath(), args[0], cmd.CommandPath()))
	}
	return nil
}
