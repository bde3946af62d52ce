package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/tui"
)

// config returns the user's configuration, which is read once.
func (a *app) config() *host.Configuration {
	if a.configuration == nil {
		c := a.opened.Configuration(a.set.config)
		if c.Err == nil {
			c.Err = checkKeys(c)
		}
		a.configuration = c
	}
	return a.configuration
}

// keysOf begins the settings for the keys of the terminal.
const keysOf = "keys."

// keysIn returns the keys of the terminal, by action.
func keysIn(c *host.Configuration) map[string]string {
	out := map[string]string{}
	for _, s := range c.Settings {
		if action, ok := strings.CutPrefix(s.Name, keysOf); ok {
			out[action] = s.Value
		}
	}
	return out
}

// checkKeys returns the mistakes in the keys of the terminal.
func checkKeys(c *host.Configuration) error {
	var lines []string
	for _, s := range c.Settings {
		if action, ok := strings.CutPrefix(s.Name, keysOf); ok {
			if err := tui.CheckKeys(map[string]string{action: s.Value}); err != nil {
				lines = append(lines, fmt.Sprintf("%s:%d: %v", c.Path, s.Line, err))
			}
		}
	}
	if lines == nil {
		return nil
	}
	return usage(strings.Join(lines, "\n"))
}

// configurable returns the flags that a configuration may set: the global flags, and the flags of commands that execute runs.
func configurable(a *app) *pflag.FlagSet {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	b := &app{opt: a.opt, cfg: a.cfg}
	b.globals(f)
	(&running{}).add(f)
	f.String("model", "", "")
	f.Int("snapshot-every", 0, "")
	f.Bool("terminal.calm", false, "nothing moves in the terminal: no spinners")
	f.Bool("terminal.history", true, "keep what is typed into the terminal: its history, and drafts")
	f.String("terminal.theme", "default", "the colors of the terminal: "+strings.Join(tui.Themes(), ", "))
	out := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, name := range host.SettingNames() {
		out.AddFlag(f.Lookup(name))
	}
	return out
}

// forgive lets a command run in spite of mistakes in the configuration if it needs no configuration
// or serves to correct it.
func forgive(a *app, cmd *cobra.Command) {
	if a.config().Err == nil {
		return
	}
	words := strings.SplitN(cmd.CommandPath(), " ", 2)
	version := false
	if !cmd.HasParent() {
		version, _ = cmd.Flags().GetBool("version")
	}
	if version || len(words) == 2 && slices.Contains([]string{"config path", "config edit", "config set", "config unset", "doctor", "version", "help"}, words[1]) {
		a.config().Err = nil
	}
}

func configCommand(a *app) *cobra.Command {
	n := a.cfg.Name
	cmd := &cobra.Command{
		Use: "config", Short: "Show and change the user's configuration",
		Example: examples(n, "config list --show-origin", "", "config set store sqlite:/var/runs.db", "", "config path", ""),
	}
	var origin bool
	list := &cobra.Command{Use: "list", Short: "Show every setting and its value", Args: none, Example: examples(n, "config list --show-origin", ""),
		RunE: func(*cobra.Command, []string) error { return listConfig(a, origin) }}
	list.Flags().BoolVar(&origin, "show-origin", false, "and where it comes from")
	cmd.AddCommand(list,
		&cobra.Command{Use: "path", Short: "Show the path of the configuration file", Args: none, Example: examples(n, "config path", ""),
			RunE: func(*cobra.Command, []string) error { return printValue(a, a.config().Path) }},
		&cobra.Command{Use: "get KEY", Short: "Show the value of a setting", Example: examples(n, "config get store", ""),
			Args: cobra.ArbitraryArgs, ValidArgsFunction: a.settingWords, RunE: func(_ *cobra.Command, args []string) error { return getConfig(a, args) }},
		&cobra.Command{Use: "set KEY VALUE", Short: "Change a setting", Example: examples(n, "config set max-tokens 200000", ""),
			Args: cobra.ArbitraryArgs, ValidArgsFunction: a.settingWords, RunE: func(_ *cobra.Command, args []string) error { return setConfig(a, args) }},
		&cobra.Command{Use: "edit", Short: "Open the configuration in $VISUAL or $EDITOR, and check it", Args: none, Example: examples(n, "config edit", ""),
			RunE: func(cmd *cobra.Command, _ []string) error { return editConfig(cmd.Context(), a) }},
		&cobra.Command{Use: "unset KEY", Short: "Reset a setting to its default", Example: examples(n, "config unset store", ""),
			Args: cobra.ArbitraryArgs, ValidArgsFunction: a.settingWords, RunE: func(_ *cobra.Command, args []string) error { return unsetConfig(a, args) }})
	return listFirst(a, cmd)
}

// effectiveSettings returns the values of all settings without flags.
func effectiveSettings(a *app) ([]host.EffectiveSetting, error) {
	return a.host().Effective(a.config(), func(name string) string { return configurable(a).Lookup(name).DefValue })
}

func listConfig(a *app, origin bool) error {
	all, err := effectiveSettings(a)
	if err != nil {
		return err
	}
	if _, err := a.here().Problems(); err != nil { // here warns of the project's settings
		a.tty.Warn(err.Error())
	}
	if a.programs() {
		return a.out.value(all)
	}
	for _, s := range all {
		line := s.Key + ": " + s.Value
		if origin {
			line = fmt.Sprintf("%-40s # %s", line, s.Origin)
		}
		a.out.line(strings.TrimRight(line, " "))
	}
	return nil
}

func getConfig(a *app, args []string) error {
	if len(args) != 1 {
		return usage("config get: name one setting")
	}
	all, err := effectiveSettings(a)
	if err != nil {
		return err
	}
	for _, s := range all {
		if s.Key == args[0] {
			return printValue(a, s.Value)
		}
	}
	return usage(host.UnknownSetting(args[0]))
}

// editConfig opens the configuration in the user's editor and reports the mistakes that are in it afterwards.
func editConfig(ctx context.Context, a *app) error {
	path := a.config().Path
	editor := strings.Fields(cmp.Or(a.cfg.Env("VISUAL"), a.cfg.Env("EDITOR")))
	if len(editor) == 0 {
		return usage("config edit: set VISUAL or EDITOR to your editor; the file is " + path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	program, err := a.host().Program(editor[0])
	if err != nil {
		return usage("config edit: " + err.Error())
	}
	c := exec.CommandContext(ctx, program, append(editor[1:], path)...) //nolint:gosec // it is the user's
	c.Dir, c.Env = a.cfg.Dir, a.environ()
	c.Stdin, c.Stdout, c.Stderr = a.opt.Stdin, a.opt.Stdout, a.opt.Stderr
	if err := c.Run(); err != nil {
		return fmt.Errorf("config edit: %s: %w", editor[0], err)
	}
	return a.config().Check()
}

// settingWords completes the names of settings.
func (a *app) settingWords(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var out []string
	if len(args) == 0 {
		configurable(a).VisitAll(func(f *pflag.Flag) { out = append(out, word(f.Name, f.Usage)) })
		for _, action := range tui.KeyActions() {
			out = append(out, word(keysOf+action, "a key of the terminal"))
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

func setConfig(a *app, args []string) error {
	if len(args) != 2 {
		return usage("config set: name the setting and its value: KEY VALUE")
	}
	if err := isSetting(a, args[0]); err != nil {
		return err
	}
	if action, ok := strings.CutPrefix(args[0], keysOf); ok {
		if err := tui.CheckKeys(map[string]string{action: args[1]}); err != nil {
			return usage(err.Error())
		}
	}
	return a.config().Set(args[0], args[1])
}

func unsetConfig(a *app, args []string) error {
	if len(args) != 1 {
		return usage("config unset: name one setting")
	}
	if err := isSetting(a, args[0]); err != nil {
		return err
	}
	return a.config().Unset(args[0])
}

func isSetting(a *app, name string) error {
	if slices.Contains(host.SettingNames(), name) {
		return nil
	}
	if action, ok := strings.CutPrefix(name, keysOf); ok {
		if slices.Contains(tui.KeyActions(), action) {
			return nil
		}
		return usage(tui.CheckKeys(map[string]string{action: "x"}).Error())
	}
	return usage(fmt.Sprintf("%s; `%s config list` shows them", host.UnknownSetting(name), a.cfg.Name))
}

func printValue(a *app, v string) error {
	return a.print(v, v)
}
