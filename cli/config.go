package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/adrg/xdg"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/runlog"
)

// A user's configuration is one YAML file of flags by their long names. What it says holds
// where neither a flag nor a variable says otherwise.

// setting is an entry of the configuration.
type setting struct {
	key, value string
	line, col  int
}

const maxConfig = 1 << 20

// configPath is the user's configuration: SUPERSTEP_CONFIG, or config.yaml in their own folder.
func (a *app) configPath() string {
	if p := a.opt.Env("SUPERSTEP_CONFIG"); p != "" {
		return p
	}
	return filepath.Join(a.dir("", "XDG_CONFIG_HOME", xdg.ConfigHome), "config.yaml")
}

// configurable are the flags that a configuration may set: those of every command, and of
// those that execute runs.
func (a *app) configurable() *pflag.FlagSet {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	b := &app{opt: a.opt}
	b.globals(f)
	(&running{}).add(f)
	f.String("model", "", "")
	f.Int("snapshot-every", 0, "")
	out := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.VisitAll(func(x *pflag.Flag) {
		if x.Value.Type() != listType {
			out.AddFlag(x)
		}
	})
	return out
}

// config reads the user's configuration once. It reports every mistake in it.
func (a *app) config() ([]setting, error) {
	if a.configured {
		return a.settings, a.misconfigured
	}
	a.configured = true
	path := a.configPath()
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && a.opt.Env("SUPERSTEP_CONFIG") == "":
		return nil, nil
	case err != nil:
		a.misconfigured = usage(fmt.Sprintf("cannot read the configuration: %v", err))
	default:
		a.settings, a.misconfigured = parseConfig(path, b, a.configurable())
	}
	return a.settings, a.misconfigured
}

// parseConfig reads settings and checks them against the flags there are.
func parseConfig(path string, b []byte, flags *pflag.FlagSet) ([]setting, error) {
	if len(b) > maxConfig {
		return nil, usage(fmt.Sprintf("%s: the configuration is over 1 MiB", path))
	}
	file, err := parser.ParseBytes(b, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		var syntax yaml.Error
		if errors.As(err, &syntax) && syntax.GetToken() != nil {
			p := syntax.GetToken().Position
			return nil, usage(fmt.Sprintf("%s:%d:%d: %s", path, p.Line, p.Column, syntax.GetMessage()))
		}
		return nil, usage(fmt.Sprintf("%s: %v", path, err))
	}
	var out []setting
	var problems []string
	var names []string
	flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	wrong := func(p *token.Position, format string, args ...any) {
		problems = append(problems, fmt.Sprintf("%s:%d:%d: %s", path, p.Line, p.Column, fmt.Sprintf(format, args...)))
	}
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		pairs, ok := entries(doc.Body)
		if !ok {
			wrong(doc.Body.GetToken().Position, "want lines such as `store: sqlite:/var/runs.db`")
			continue
		}
		for _, pair := range pairs {
			at, key := pair.Key.GetToken().Position, pair.Key.GetToken().Value
			f := flags.Lookup(key)
			scalar, isScalar := pair.Value.(ast.ScalarNode)
			switch {
			case f == nil:
				wrong(at, "there is no setting %q%s", key, suggest.Hint(key, names))
				continue
			case slices.ContainsFunc(out, func(s setting) bool { return s.key == key }):
				wrong(at, "%s is set twice", key)
				continue
			case !isScalar:
				wrong(pair.Value.GetToken().Position, "%s wants one value", key)
				continue
			}
			value := scalar.GetToken().Value
			if err := f.Value.Set(value); err != nil {
				wrong(pair.Value.GetToken().Position, "%s: %s", key, wanted(f, value, err))
				continue
			}
			if key == "store" && value != "" {
				if _, err := runlog.ParsePlace(value); err != nil {
					wrong(pair.Value.GetToken().Position, "%s: %v", key, err)
					continue
				}
			}
			out = append(out, setting{key, value, at.Line, at.Column})
		}
	}
	if len(problems) > 0 {
		return nil, usage(strings.Join(problems, "\n"))
	}
	return out, nil
}

// entries are the pairs of a YAML mapping.
func entries(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch m := n.(type) {
	case *ast.MappingNode:
		return m.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{m}, true
	case *ast.NullNode, *ast.CommentGroupNode:
		return nil, true
	}
	return nil, false
}

func (a *app) configCommand() *cobra.Command {
	n := a.opt.Name
	cmd := &cobra.Command{
		Use: "config", Short: "Show and change the user's configuration", Args: cobra.ArbitraryArgs,
		Example: examples(n, "config list --show-origin", "", "config set store sqlite:/var/runs.db", "", "config path", ""),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("config: which of list, get, set, unset, path?")
			}
			return a.unknownCommand(cmd, args[:1])
		},
	}
	var origin bool
	list := &cobra.Command{Use: "list", Short: "Show every setting and its value", Args: a.none, Example: examples(n, "config list --show-origin", ""),
		RunE: func(*cobra.Command, []string) error { return a.listConfig(origin) }}
	list.Flags().BoolVar(&origin, "show-origin", false, "and where it comes from")
	cmd.AddCommand(list,
		&cobra.Command{Use: "path", Short: "Show where the configuration is", Args: a.none, Example: examples(n, "config path", ""),
			RunE: func(*cobra.Command, []string) error { return a.printValue(a.configPath()) }},
		&cobra.Command{Use: "get KEY", Short: "Show the value of a setting", Example: examples(n, "config get store", ""),
			Args: cobra.ArbitraryArgs, RunE: func(_ *cobra.Command, args []string) error { return a.getConfig(args) }},
		&cobra.Command{Use: "set KEY VALUE", Short: "Change a setting", Example: examples(n, "config set max-tokens 200000", ""),
			Args: cobra.ArbitraryArgs, RunE: func(_ *cobra.Command, args []string) error { return a.setConfig(args) }},
		&cobra.Command{Use: "unset KEY", Short: "Go back to the default of a setting", Example: examples(n, "config unset store", ""),
			Args: cobra.ArbitraryArgs, RunE: func(_ *cobra.Command, args []string) error { return a.unsetConfig(args) }})
	return cmd
}

// settingJSON is a setting and where it comes from.
type settingJSON struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

// effective are all settings as they hold without flags.
func (a *app) effective() ([]settingJSON, error) {
	conf, err := a.config()
	if err != nil {
		return nil, err
	}
	var out []settingJSON
	a.configurable().VisitAll(func(f *pflag.Flag) {
		s := settingJSON{f.Name, f.DefValue, "default"}
		switch f.Name {
		case "store":
			s.Value = "sqlite:" + filepath.Join(a.dataDir(), a.opt.Name+".db")
		case "data-dir":
			s.Value = a.dataDir()
		}
		for _, c := range conf {
			if c.key == f.Name {
				s.Value, s.Origin = c.value, fmt.Sprintf("%s:%d", a.configPath(), c.line)
			}
		}
		if v := a.opt.Env(variable(f.Name)); v != "" {
			s.Value, s.Origin = v, variable(f.Name)
		}
		if p, err := runlog.ParsePlace(s.Value); f.Name == "store" && err == nil {
			s.Value = p.String() // without the password
		}
		out = append(out, s)
	})
	return out, nil
}

// variable is the environment's name of a flag.
func variable(flag string) string {
	return "SUPERSTEP_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

func (a *app) listConfig(origin bool) error {
	all, err := a.effective()
	if err != nil {
		return err
	}
	if a.programs() {
		return a.out.json(all, a.set.output == "json")
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

func (a *app) getConfig(args []string) error {
	if len(args) != 1 {
		return usage("config get: name one setting")
	}
	all, err := a.effective()
	if err != nil {
		return err
	}
	var names []string
	for _, s := range all {
		if s.Key == args[0] {
			return a.printValue(s.Value)
		}
		names = append(names, s.Key)
	}
	return usage(fmt.Sprintf("there is no setting %q%s", args[0], suggest.Hint(args[0], names)))
}

// setConfig changes one line of the file and leaves the others as they are.
func (a *app) setConfig(args []string) error {
	if len(args) != 2 {
		return usage("config set: name the setting and its value: KEY VALUE")
	}
	f, err := a.setting(args[0])
	if err != nil {
		return err
	}
	value := args[1]
	if p, err := runlog.ParsePlace(value); args[0] == "store" && err == nil && p.Path != "" {
		p.Path = absolute(p.Path) // it is meant in every folder
		value = p.String()
	}
	if args[0] == "data-dir" {
		value = absolute(value)
	}
	if f.Value.Type() == "string" {
		quoted, err := yaml.Marshal(value) // where it needs quotes
		if err != nil {
			return err
		}
		value = strings.TrimSpace(string(quoted))
	}
	return a.rewrite(args[0], args[0]+": "+value)
}

func (a *app) unsetConfig(args []string) error {
	if len(args) != 1 {
		return usage("config unset: name one setting")
	}
	if _, err := a.setting(args[0]); err != nil {
		return err
	}
	return a.rewrite(args[0], "")
}

// setting finds the flag that a setting is of.
func (a *app) setting(key string) (*pflag.Flag, error) {
	flags := a.configurable()
	if f := flags.Lookup(key); f != nil {
		return f, nil
	}
	var names []string
	flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return nil, usage(fmt.Sprintf("there is no setting %q%s; `%s config list` shows them", key, suggest.Hint(key, names), a.opt.Name))
}

func (a *app) printValue(v string) error {
	if a.programs() {
		return a.out.json(v, a.set.output == "json")
	}
	a.out.line(v)
	return nil
}

// rewrite puts a line in the place of that of a setting, or none for "".
func (a *app) rewrite(key, line string) error {
	if _, err := a.config(); err != nil {
		return err
	}
	path := a.configPath()
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	if len(b) == 0 {
		lines = nil
	}
	i := slices.IndexFunc(a.settings, func(s setting) bool { return s.key == key })
	switch {
	case i >= 0 && line == "":
		lines = slices.Delete(lines, a.settings[i].line-1, a.settings[i].line)
	case i >= 0:
		lines[a.settings[i].line-1] = line
	case line != "":
		lines = append(lines, line)
	}
	changed := []byte(strings.Join(append(lines, ""), "\n"))
	if _, err := parseConfig(path, changed, a.configurable()); err != nil {
		return err
	}
	if bytes.Equal(changed, b) || len(lines) == 0 && len(b) == 0 {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("writing the configuration: %w", err)
	}
	if err := renameio.WriteFile(path, changed, 0o600); err != nil {
		return fmt.Errorf("writing the configuration: %w", err)
	}
	return nil
}
