package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/arguments"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/workflow"
)

const helpTemplate = `{{with (or .Long .Short)}}{{. | trimTrailingWhitespaces}}

{{end}}Usage:
  {{.UseLine}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} COMMAND{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}{{$commands := .Commands}}{{range $group := .Groups}}

{{.Title}}{{range $commands}}{{if and .IsAvailableCommand (eq .GroupID $group.ID)}}
  {{rpad .Name .NamePadding }} {{.Short}}{{end}}{{end}}{{end}}{{if .Groups | not}}

Commands:{{range $commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding }} {{.Short}}{{end}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}{{if .HasParent}}

Flags:
{{.LocalFlags.FlagUsagesWrapped WIDTH | trimTrailingWhitespaces}}{{end}}{{end}}

Global flags: {{.Root.Name}} help flags
`

// groups are the headings of the list of commands, and the commands below each.
var groups = []struct {
	id, title string
	commands  string
}{
	{"run", "Run:", "run runs console demo schedule worker serve"},
	{"write", "Write recipes:", "init lint eval workflows"},
	{"use", "Agents and models:", "agents tools skills models memory"},
	{"allow", "Permissions:", "trust permissions sandbox"},
	{"self", "This command:", "config doctor completion help man ralph version"},
}

// group puts the commands below their headings.
func group(root *cobra.Command) {
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, c := range root.Commands() {
			if slices.Contains(strings.Fields(g.commands), c.Name()) {
				c.GroupID = g.id
			}
		}
	}
	root.SetHelpCommandGroupID("self")
}

// newRoot builds the root command. The flags of `run` depend on the workflow, so the arguments are
// examined before they are parsed.
func newRoot(a *app) *cobra.Command {
	name := a.cfg.Name
	root := &cobra.Command{
		Use:   name,
		Short: "Run workflows that survive a crash",
		Long: `Run workflows that survive a crash

Exit codes: 0 completed, 1 failed, 2 wrong usage (nothing ran), 3 waiting for a person, 4 no model,
5 a limit was reached, 6 a required action was denied, 7 finished but some tasks failed,
129 hung up, 130 interrupted or cancelled, 143 terminated (129, 130 and 143 leave a run that can be resumed, unless it
was cancelled). If both 6 and 7 apply, the exit code is 6.`,
		Example: examples(name,
			"run --help", "what you can run",
			"runs list", "what ran here",
			"runs resume @last", "resume the newest run"),
		Args:          cobra.ArbitraryArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          a.bare,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			forgive(a, cmd)
			return a.configure(cmd.Flags())
		},
	}
	root.CompletionOptions.DisableDefaultCmd = true
	width := a.tty.Width()
	root.SetHelpTemplate(strings.Replace(helpTemplate, "WIDTH", strconv.Itoa(width), 1))
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		cmd.Long, cmd.Example = inwords.Wrap(joined(cmp.Or(cmd.Long, cmd.Short), width), width), inwords.Wrap(cmd.Example, width)
		help(cmd, args)
	})
	root.SetHelpCommand(&cobra.Command{Use: "help [COMMAND | flags]", Short: "Help about a command, or the global flags",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && args[0] == "flags" {
				a.out.line(globalHelp(a))
				return nil
			}
			c, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return unknownCommand(a, root, args)
			}
			return c.Help()
		}, Example: examples(name, "help run", "", "help flags", "flags of every command, and their variables")})
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetFlagErrorFunc(a.flagError)
	a.globals(root.PersistentFlags())
	a.set.config = argument(a, "--config") // which the flags of workflows depend on
	version := root.Flags().Bool("version", false, "print the version")
	bare := root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if *version {
			return printVersion(a)
		}
		return bare(cmd, args)
	}
	run := newRunCommand(a)
	root.AddCommand(initCommand(a), lintCommand(a), evalCommand(a))
	if a.opt.Demo {
		root.AddCommand(demoCommand(a))
	}
	root.AddCommand(run, runsCommand(a), workflowsCommand(a), agentsCommand(a), toolsCommand(a), skillsCommand(a), modelsCommand(a),
		trustCommand(a), permissionsCommand(a), sandboxCommand(a), consoleCommand(a), serveCommand(a), scheduleCommand(a), workerCommand(a), ralphCommand(a), memoryCommand(a), configCommand(a), doctorCommand(a),
		versionCommand(a), completionCommand(a), manCommand(a))
	group(root)
	prepareRun(a, root, run)
	addCompletion(a, root)
	return root
}

// joined makes each paragraph of a help text one line if one of its lines is wider than the terminal.
func joined(text string, width int) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		lines := strings.Split(p, "\n")
		wide := func(line string) bool { return width > 0 && ansi.StringWidth(line) > width }
		table := func(line string) bool { return strings.HasPrefix(line, " ") }
		if slices.ContainsFunc(lines, wide) && !slices.ContainsFunc(lines, table) {
			paragraphs[i] = strings.Join(lines, " ")
		}
	}
	return strings.Join(paragraphs, "\n\n")
}

func (a *app) globals(f *pflag.FlagSet) {
	s := &a.set
	f.StringVarP(&s.output, "output", "o", "text", "text, json or jsonl")
	f.StringVar(&s.Color, "color", "auto", "auto, always or never")
	f.BoolVar(&s.NoColor, "no-color", false, "send no escape sequences")
	f.BoolVar(&s.Plain, "plain", false, "no spinners and no decoration")
	f.BoolVarP(&s.Quiet, "quiet", "q", false, "no progress")
	f.BoolVarP(&s.Verbose, "verbose", "v", false, "more progress: tools and turns of the model")
	f.StringVar(&s.dataDir, "data-dir", "", "where runs are kept; also SUPERSTEP_DATA_DIR (default: superstep in the user's data folder)")
	f.StringVar(&s.store, "store", "", "the store of runs: memory, file:DIR, sqlite:PATH, postgres://… or redis://…; also SUPERSTEP_STORE "+
		"(default: a file in the data folder)")
	f.StringVar(&s.keyFile, "store-key-file", "", "a `file` with the key that encrypts the runs, and former keys to decrypt them; also "+
		"SUPERSTEP_STORE_KEY for the key itself (default: not encrypted)")
	f.BoolVar(&s.volatile, "allow-volatile", false, "accept a Redis that keeps nothing when it stops")
	f.BoolVar(&s.NoBell, "no-bell", false, "do not ring when a question waits for you")
	f.BoolVar(&s.NoInput, "no-input", false, "never read standard input")
	f.BoolVar(&s.offline, "offline", false, "open no connection but to this machine")
	f.BoolVar(&s.otel, "otel", false, "send traces and metrics of runs to OTEL_EXPORTER_OTLP_ENDPOINT (default: http://localhost:4318)")
	f.StringVar(&s.config, "config", s.config, "the user's configuration, a `file`; also SUPERSTEP_CONFIG")
}

// argument returns the value of a flag before the flags are parsed.
func argument(a *app, flag string) string {
	for i, arg := range a.opt.Args {
		value, is := strings.CutPrefix(arg, flag+"=")
		switch {
		case arg == "--":
			return ""
		case is:
			return value
		case arg == flag && i+1 < len(a.opt.Args):
			return a.opt.Args[i+1]
		}
	}
	return ""
}

// globalHelp describes the flags of every command and the variables of the environment.
func globalHelp(a *app) string {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	(&app{opt: a.opt, cfg: a.cfg}).globals(f)
	var variables []string
	configurable(a).VisitAll(func(f *pflag.Flag) { variables = append(variables, host.Variable(f.Name)) })
	return "Flags of every command\n\n" + strings.TrimRight(f.FlagUsagesWrapped(a.tty.Width()), "\n") +
		"\n\n" + inwords.Wrap("A flag goes before its variable, a variable before the configuration (`"+a.cfg.Name+" config list`). The variables are:", a.tty.Width()) + "\n  " +
		strings.Join(append(variables, "SUPERSTEP_CONFIG", "SUPERSTEP_STORE_KEY", "SUPERSTEP_CACHE_DIR", "SUPERSTEP_EMBEDDINGS", "SUPERSTEP_OTEL_NAMES"), "\n  ")
}

// configure settles the flags: those given, then SUPERSTEP_*, then the user's configuration,
// then the defaults.
func (a *app) configure(flags *pflag.FlagSet) error {
	var err error
	for _, s := range a.config().Settings {
		if f := flags.Lookup(s.Name); f != nil && !f.Changed && !arguments.IsInput(f) && a.cfg.Env(host.Variable(s.Name)) == "" {
			err = errors.Join(err, f.Value.Set(s.Value)) // it was checked
		}
	}
	known := host.SettingNames() // no other flag has a variable
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed || err != nil || arguments.IsInput(f) || !slices.Contains(known, f.Name) {
			return
		}
		v := a.cfg.Env(host.Variable(f.Name))
		if v == "" {
			return
		}
		if e := f.Value.Set(v); e != nil {
			err = usage(host.Variable(f.Name) + ": " + wanted(f, v, e))
		}
	})
	if err == nil {
		err = oneOf("--color", a.set.Color, "auto", "always", "never")
	}
	if e := oneOf("--output", a.set.output, "text", "json", "jsonl"); e != nil {
		a.set.output = "text"
		err = e
	}
	a.look()
	a.settled = true
	if wrong := a.config().Err; wrong != nil {
		return wrong
	}
	return err
}

func oneOf(flag, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return usage(fmt.Sprintf("%s: want %s, got %q", flag, strings.Join(allowed, ", "), value))
}

// early determines how to print an error that occurred before the flags were settled.
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

// flagError adds to an error the flag that was probably meant.
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
	if word := arguments.FirstWord(a.opt.Args, nil, cmd.Flags().Lookup); !cmd.HasParent() && word != "" {
		return unknownCommand(a, cmd, []string{word})
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

// wanted describes the values that a flag accepts, for an error about an invalid one.
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

// unknownCommand returns the error for an unknown command, with the one that was probably meant.
func unknownCommand(a *app, parent *cobra.Command, args []string) error {
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
	if path := elsewhereCommand(parent, word); path != "" {
		hint = fmt.Sprintf("; did you mean `%s`?", path)
	}
	if !parent.HasParent() {
		meant := map[string]string{"ask": "research", "chat": "agent"}
		if w, err := a.host().Workflows().Find(cmp.Or(meant[word], word)); err == nil {
			hint = fmt.Sprintf("; did you mean `%s run %s`?", a.cfg.Name, w.Name)
			if word == "chat" {
				hint = fmt.Sprintf("; a chat opens with `%s` alone, on a terminal, or with `%[1]s run %s --chat`", a.cfg.Name, w.Name)
			}
		}
	}
	var next []string
	if hint == "" {
		next = []string{"all commands: " + parent.CommandPath() + " --help"}
	}
	return usage(fmt.Sprintf("unknown command %q for %s%s", word, parent.CommandPath(), hint), next...)
}

// elsewhereCommand returns the command that an unknown word probably stands for: one that other
// tools call by that name, or a command of that name elsewhere in the tree. It returns "" if there
// is none.
func elsewhereCommand(parent *cobra.Command, word string) string {
	for _, c := range parent.Commands() {
		if slices.Contains(c.SuggestFor, word) {
			return c.CommandPath()
		}
	}
	if parent.HasParent() {
		return ""
	}
	for _, group := range append([]string{"runs"}, commandNames(parent)...) {
		c, _, err := parent.Find([]string{group})
		if err != nil || !c.IsAvailableCommand() {
			continue
		}
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() && (sub.Name() == word || slices.Contains(sub.Aliases, word) || slices.Contains(sub.SuggestFor, word)) {
				return sub.CommandPath()
			}
		}
	}
	return ""
}

func commandNames(parent *cobra.Command) []string {
	var names []string
	for _, c := range parent.Commands() {
		names = append(names, c.Name())
	}
	return names
}

// listFirst makes a command without arguments run its first subcommand, the list.
func listFirst(a *app, c *cobra.Command) *cobra.Command {
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommand(a, cmd, args[:1])
		}
		list, _, err := cmd.Find([]string{"list"})
		if err != nil {
			return err
		}
		list.SetContext(cmd.Context())
		return list.RunE(list, nil)
	}
	return c
}

// bare runs the command without a subcommand.
func (a *app) bare(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) > 0:
		return unknownCommand(a, cmd, args)
	case a.set.Verbose: // which other programs call their version
		return printVersion(a)
	case a.programs():
		return usage("name a command; `" + a.cfg.Name + " --help` lists them")
	}
	if a.tty.OutTTY && a.tty.InTTY && a.tty.Live && !a.set.NoInput {
		return a.terminal(cmd.Context(), "")
	}
	if a.tty.OutTTY && a.tty.Asks() && a.tty.Plain {
		return (&plainTerminal{a: a}).converse(cmd.Context())
	}
	text := greeting(cmd.Context(), a, loadWorkflows(a))
	if a.tty.OutTTY && a.tty.InTTY {
		a.out.line(inwords.Wrap(text, a.tty.Width()))
		return nil
	}
	a.err.line(text + "\n\nCommands: " + strings.Join(commandNames(cmd), ", ") + "; `" + a.cfg.Name + " COMMAND --help` describes one")
	return &Error{Exit: ExitUsage, shown: true}
}

// greetingWait is how long the greeting waits for a model server to answer. The whole greeting must
// appear within 200 ms.
const greetingWait = 80 * time.Millisecond

// greeting prints the commands to try first. Each works as printed, in this folder and with the
// available model.
func greeting(ctx context.Context, a *app, set workflow.Set) string {
	var pairs []string
	if a.opt.Demo {
		pairs = append(pairs, "demo", "See five agents killed and resumed, in half a minute")
	}
	probing, cancel := context.WithTimeout(ctx, greetingWait)
	able, n := hasModel(probing, a), 0
	cancel()
	folder := !atHome(a)
	for _, w := range set {
		needs := len(a.host().Judgements(w)) > 0
		switch {
		case n == 5 || needs && !able:
			continue
		case w.Name == "research":
			if !folder || !host.HasDocuments(a.cfg.Dir) {
				continue
			}
			pairs = append(pairs, `run research "`+firstQuestion+`" --docs .`, w.Description)
		case a.host().IsRecipe(w.Name) && !able:
			pairs = append(pairs, "run "+w.Name+arguments.Required(w)+" --model offline", w.Description)
		default:
			pairs = append(pairs, "run "+w.Name+arguments.Required(w), w.Description)
		}
		n++
	}
	items, _, err := a.host().List(ctx, host.Workflows, false)
	if err == nil && folder && !slices.ContainsFunc(items, func(i host.Item) bool { return i.Source == "project" }) {
		pairs = append(pairs, "init", "Write a first recipe into this folder")
	}
	if !able {
		pairs = append(pairs, "models list", "List the language models, and what each lacks")
	}
	pairs = append(pairs, "runs list", "List what ran here", "--help", "Show all commands")
	return fmt.Sprintf("%s %s runs workflows that survive a crash. Try one of these:\n\n%s", a.cfg.Name, a.opt.Version, examples(a.cfg.Name, pairs...))
}

const firstQuestion = "What is this project, and how is it used?"

// hasModel reports whether there is a language model.
func hasModel(ctx context.Context, a *app) bool {
	m, err := a.models()
	return err != nil || m.HasModel(ctx)
}

// atHome reports whether the current folder is the user's home or the root of a disk, which are too large to search.
func atHome(a *app) bool {
	here := a.cfg.Dir
	at, err := os.Stat(here)
	home, missing := os.Stat(a.cfg.Env("HOME"))
	return err != nil || filepath.Dir(here) == here || missing == nil && os.SameFile(at, home)
}

// examples formats commands and their descriptions, which are given alternately.
func examples(name string, pairs ...string) string {
	var table [][]string
	for i := 0; i+1 < len(pairs); i += 2 {
		table = append(table, []string{"  " + name + " " + pairs[i], " " + pairs[i+1]})
	}
	return strings.Join(inwords.Align(table, 0), "\n")
}

func versionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: none,
		Example: examples(a.cfg.Name, "version", "", "version -o json", ""),
		RunE:    func(*cobra.Command, []string) error { return printVersion(a) },
	}
}

func printVersion(a *app) error {
	v := map[string]string{"version": a.opt.Version, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH}
	return a.print(v, fmt.Sprintf("%s %s (%s %s/%s)", a.cfg.Name, a.opt.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH))
}

func completionCommand(a *app) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use: "completion SHELL", Short: "Print a shell completion script", ValidArgs: shells,
		Example: "  " + a.cfg.Name + " completion bash > ~/.local/share/bash-completion/completions/" + a.cfg.Name + "\n" +
			"  source <(" + a.cfg.Name + " completion zsh)\n" +
			"  " + a.cfg.Name + " completion fish | source",
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

// none is the argument check of commands without arguments.
func none(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage(fmt.Sprintf("%s takes no arguments, got %q; see `%s --help`", cmd.CommandPath(), args[0], cmd.CommandPath()))
	}
	return nil
}
