package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/renameio/v2/maybe"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v4"

	"github.com/superstep-dev/superstep/internal/frontmatter"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/runlog"
)

// A user's configuration is one YAML file of flags by their long names, one to a line. What it
// says holds where neither a flag nor a variable says otherwise.

// setting is an entry of the configuration.
type setting struct {
	key, value string
	line, col  int
}

const maxConfig = 64 << 10

// byteOrderMark is what some editors begin a file with.
const byteOrderMark = "\ufeff"

// configPath is the user's configuration: --config, SUPERSTEP_CONFIG, or config.yaml in their own folder.
func (a *app) configPath() string {
	if p := cmp.Or(a.set.config, a.cfg.Env("SUPERSTEP_CONFIG")); p != "" {
		return p
	}
	return filepath.Join(a.opened.ConfigDir(), "config.yaml")
}

// userModel is the model that the configuration names, "" for none.
func (a *app) userModel() string {
	conf, err := a.config()
	if err != nil {
		return "" // it is told elsewhere
	}
	for _, s := range conf {
		if s.key == "model" {
			return s.value
		}
	}
	return ""
}

// configurable are the flags that a configuration may set: those of every command, and of
// those that execute runs.
func (a *app) configurable() *pflag.FlagSet {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	b := &app{opt: a.opt, cfg: a.cfg}
	b.globals(f)
	(&running{}).add(f)
	f.String("model", "", "")
	f.Int("snapshot-every", 0, "")
	out := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.VisitAll(func(x *pflag.Flag) {
		if x.Value.Type() != listType && x.Annotations[actFlag] == nil && x.Name != "config" {
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
	b, err := readConfig(path)
	var file *fs.PathError
	if errors.As(err, &file) {
		err = fmt.Errorf("%s: %w", absolute(path), file.Err)
	}
	other := filepath.Join(a.opened.ConfigDir(), "config.yml")
	_, misnamed := os.Lstat(other)
	switch {
	case misnamed == nil && path == filepath.Join(a.opened.ConfigDir(), "config.yaml"):
		a.misconfigured = usage(other + " is not read; name it config.yaml")
	case errors.Is(err, fs.ErrNotExist) && cmp.Or(a.set.config, a.cfg.Env("SUPERSTEP_CONFIG")) == "":
		return nil, nil
	case err != nil:
		a.misconfigured = usage(fmt.Sprintf("cannot read the configuration: %v", err))
	default:
		a.settings, a.misconfigured = a.parse(path, b)
	}
	return a.settings, a.misconfigured
}

// forgive lets a command work in spite of mistakes in the configuration that needs no
// configuration, or is there to mend it.
func (a *app) forgive(cmd *cobra.Command) {
	if _, err := a.config(); err == nil {
		return
	}
	words := strings.SplitN(cmd.CommandPath(), " ", 2)
	version := false
	if !cmd.HasParent() {
		version, _ = cmd.Flags().GetBool("version")
	}
	if version || len(words) == 2 && slices.Contains([]string{"config path", "config edit", "config set", "config unset", "version", "help"}, words[1]) {
		a.misconfigured = nil
	}
}

// readConfig reads a file that is not too large to be a configuration.
func readConfig(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err == nil && len(b) > maxConfig {
		err = fmt.Errorf("%s is over 64 KiB", path)
	}
	return b, err
}

func (a *app) parse(path string, b []byte) ([]setting, error) {
	home := a.cfg.Env("HOME")
	if !filepath.IsAbs(home) {
		home, _ = os.UserHomeDir() // "" is a mistake where it is needed
	}
	c := &configuration{path: path, home: home, flags: a.configurable()}
	return c.parse(b)
}

// configuration is what is known of a configuration while it is read.
type configuration struct {
	path, home string
	flags      *pflag.FlagSet
	settings   []setting
	problems   []frontmatter.Error
}

func (c *configuration) wrong(line, col int, format string, args ...any) {
	c.problems = append(c.problems, frontmatter.Error{Line: max(1, line), Col: max(1, col), Text: fmt.Sprintf(format, args...)})
}

// parse reads settings and checks them. Its error has every mistake.
func (c *configuration) parse(b []byte) ([]setting, error) {
	root, refused, err := frontmatter.Tree(b, nil)
	if e, ok := errors.AsType[*frontmatter.Error](err); ok {
		c.wrong(e.Line, e.Col, "%s", e.Text)
		return nil, c.failed()
	}
	for _, e := range refused {
		name, _, _ := strings.Cut(e.Text, " ")
		if name, _ = strconv.Unquote(name); e.Code == frontmatter.Duplicate && c.flags.Lookup(name) == nil {
			continue // the first is unknown, and reported as that
		}
		c.wrong(e.Line, e.Col, "%s", e.Text)
	}
	if root.Kind != "" && root.Kind != frontmatter.Null && (root.Kind != frontmatter.Map || root.Style&yaml.FlowStyle != 0) {
		c.wrong(root.Line, root.Col, "want lines such as `store: sqlite:/var/runs.db`, and nothing else of YAML")
	}
	rest := rest(b, root, refused)
	for _, f := range root.Fields {
		c.entry(f, rest[f.Line+1])
	}
	if len(c.problems) == 0 { // no line is passed over
		for _, n := range slices.Sorted(maps.Keys(rest)) {
			c.wrong(n, 1, "want a line such as `store: sqlite:/var/runs.db`")
		}
	}
	if err := c.failed(); err != nil {
		return nil, err
	}
	return c.settings, nil
}

// failed is an error with every mistake in the order of the file, nil if there is none.
func (c *configuration) failed() error {
	if len(c.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(c.problems, func(a, b frontmatter.Error) int { return cmp.Or(a.Line-b.Line, a.Col-b.Col) })
	var lines []string
	for _, p := range c.problems {
		lines = append(lines, c.path+":"+p.Error())
	}
	return usage(strings.Join(lines, "\n"))
}

// rest are the lines with text that begin no setting, such as the second one of a value.
func rest(b []byte, root *frontmatter.Value, refused []*frontmatter.Error) map[int]bool {
	rest := map[int]bool{}
	n := 0
	for line := range strings.Lines(string(bytes.TrimPrefix(b, []byte(byteOrderMark)))) {
		n++
		text := strings.TrimSpace(line)
		bare, _, _ := strings.Cut(text, " #")
		bare = strings.TrimSpace(bare)
		rest[n] = text != "" && text[0] != '#' && bare != "---" && bare != "..."
	}
	for _, f := range root.Fields {
		rest[f.Line] = false
	}
	for _, e := range refused {
		rest[e.Line] = false
	}
	maps.DeleteFunc(rest, func(_ int, is bool) bool { return !is })
	return rest
}

// entry reads one setting. More is set if its value has another line.
func (c *configuration) entry(f frontmatter.Field, more bool) {
	flag := c.flags.Lookup(f.Key)
	if f.Value.Kind == "" {
		return // refused
	}
	if flag == nil {
		c.wrong(f.Line, f.Col, "%s", unknownSetting(f.Key, c.flags))
		return
	}
	value, err := plainValue(f, more)
	if err == nil {
		value, err = c.atHome(f.Key, value)
	}
	if err != nil {
		c.wrong(f.Value.Line, f.Value.Col, "%s %v", f.Key, err)
		return
	}
	if err := checkSetting(flag, value); err != nil {
		c.wrong(f.Value.Line, f.Value.Col, "%v", err)
		return
	}
	c.settings = append(c.settings, setting{f.Key, value, f.Line, f.Col})
}

// plainValue is the value of an entry on one line, a number or truth value as it is written.
func plainValue(f frontmatter.Field, more bool) (string, error) {
	switch v := f.Value; {
	case v.Kind == frontmatter.Null:
		return "", errors.New(`has no value; write one ("" for none), or take the line out`)
	case v.Kind == frontmatter.List || v.Kind == frontmatter.Map:
		return "", errors.New("wants one value")
	case v.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return "", errors.New("wants its value on the same line, without | or >")
	case more || v.Line != f.Line:
		return "", errors.New("wants its value on one line, that of its name")
	}
	return f.Value.Text, nil
}

// homePath finds a path in a value that begins in the user's home.
var homePath = regexp.MustCompile(`^((?:file|sqlite):(?://)?)?~/`)

// atHome puts the user's home into a path, as a shell would.
func (c *configuration) atHome(key, value string) (string, error) {
	m := homePath.FindStringSubmatch(value)
	if m == nil || !slices.Contains([]string{"store", "data-dir", "store-key-file"}, key) {
		return value, nil
	}
	if c.home == "" {
		return "", errors.New("wants the whole path: the folder of ~ is not known")
	}
	return m[1] + filepath.Join(c.home, value[len(m[0]):]), nil
}

// checkSetting says whether a flag may have a value. It sets it.
func checkSetting(f *pflag.Flag, value string) error {
	if err := f.Value.Set(value); err != nil {
		return fmt.Errorf("%s: %s", f.Name, wanted(f, value, err))
	}
	switch f.Name {
	case "output":
		return oneOf(f.Name, value, "text", "json", "jsonl")
	case "color":
		return oneOf(f.Name, value, "auto", "always", "never")
	case "on-ask":
		if value == "" {
			return nil
		}
		return oneOf(f.Name, value, "deny", "wait", "fail")
	case "store":
		if value == "" {
			return nil
		}
		if _, err := runlog.ParsePlace(value); err != nil {
			return fmt.Errorf("store: %w", err)
		}
	}
	switch f.Value.Type() {
	case "int", "int64":
		if n, err := strconv.ParseInt(f.Value.String(), 10, 64); err != nil || n < 0 {
			return fmt.Errorf("%s: want no negative number, got %s", f.Name, value)
		}
	case "float64":
		if n, err := strconv.ParseFloat(f.Value.String(), 64); err != nil || math.IsNaN(n) || n < 0 || n >= 1e12 {
			return fmt.Errorf("%s: want a number of US dollars such as 1.50, got %s", f.Name, value)
		}
	case "duration":
		if d, err := time.ParseDuration(f.Value.String()); err != nil || d < 0 {
			return fmt.Errorf("%s: want no negative duration, got %s", f.Name, value)
		}
	}
	return nil
}

// unknownSetting says which setting was meant. What does not look like one is not repeated:
// there may be a password in it.
func unknownSetting(key string, flags *pflag.FlagSet) string {
	if len(key) > 40 || strings.ContainsFunc(key, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
	}) {
		return "this is the name of no setting"
	}
	var names []string
	flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return fmt.Sprintf("there is no setting %q%s", key, suggest.Hint(key, names))
}

func (a *app) configCommand() *cobra.Command {
	n := a.cfg.Name
	cmd := &cobra.Command{
		Use: "config", Short: "Show and change the user's configuration",
		Example: examples(n, "config list --show-origin", "", "config set store sqlite:/var/runs.db", "", "config path", ""),
	}
	var origin bool
	list := &cobra.Command{Use: "list", Short: "Show every setting and its value", Args: a.none, Example: examples(n, "config list --show-origin", ""),
		RunE: func(*cobra.Command, []string) error { return a.listConfig(origin) }}
	list.Flags().BoolVar(&origin, "show-origin", false, "and where it comes from")
	cmd.AddCommand(list,
		&cobra.Command{Use: "path", Short: "Show where the configuration is", Args: a.none, Example: examples(n, "config path", ""),
			RunE: func(*cobra.Command, []string) error { return a.printValue(a.configPath()) }},
		&cobra.Command{Use: "get KEY", Short: "Show the value of a setting", Example: examples(n, "config get store", ""),
			Args: cobra.ArbitraryArgs, ValidArgsFunction: a.settingWords, RunE: func(_ *cobra.Command, args []string) error { return a.getConfig(args) }},
		&cobra.Command{Use: "set KEY VALUE", Short: "Change a setting", Example: examples(n, "config set max-tokens 200000", ""),
			Args: cobra.ArbitraryArgs, ValidArgsFunction: a.settingWords, RunE: func(_ *cobra.Command, args []string) error { return a.setConfig(args) }},
		&cobra.Command{Use: "edit", Short: "Open the configuration in $VISUAL or $EDITOR, and check it", Args: a.none, Example: examples(n, "config edit", ""),
			RunE: func(cmd *cobra.Command, _ []string) error { return a.editConfig(cmd.Context()) }},
		&cobra.Command{Use: "unset KEY", Short: "Go back to the default of a setting", Example: examples(n, "config unset store", ""),
			Args: cobra.ArbitraryArgs, ValidArgsFunction: a.settingWords, RunE: func(_ *cobra.Command, args []string) error { return a.unsetConfig(args) }})
	return a.lists(cmd)
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
			s.Value = "sqlite:" + filepath.Join(a.host().DataDir(), a.cfg.Name+".db")
		case "data-dir":
			s.Value = a.host().DataDir()
		}
		for _, c := range conf {
			if c.key == f.Name {
				s.Value, s.Origin = c.value, fmt.Sprintf("%s:%d", a.configPath(), c.line)
			}
		}
		if v := a.cfg.Env(variable(f.Name)); v != "" {
			s.Value, s.Origin = v, variable(f.Name)
		}
		if f.Name == "store" {
			p, err := runlog.ParsePlace(s.Value)
			if s.Value = p.String(); err != nil { // without the password
				s.Value = "(unreadable)"
			}
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
	if _, err := a.here(); err != nil { // which warns of the project's settings
		a.warn(err.Error())
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
	for _, s := range all {
		if s.Key == args[0] {
			return a.printValue(s.Value)
		}
	}
	return usage(unknownSetting(args[0], a.configurable()))
}

// editConfig opens the configuration in the user's editor and reports the mistakes that are in it afterwards.
func (a *app) editConfig(ctx context.Context) error {
	editor := strings.Fields(cmp.Or(a.cfg.Env("VISUAL"), a.cfg.Env("EDITOR")))
	if len(editor) == 0 {
		return usage("config edit: set VISUAL or EDITOR to your editor; the file is " + a.configPath())
	}
	if err := os.MkdirAll(filepath.Dir(a.configPath()), 0o700); err != nil {
		return err
	}
	c := exec.CommandContext(ctx, editor[0], append(editor[1:], a.configPath())...) //nolint:gosec // it is the user's
	c.Stdin, c.Stdout, c.Stderr = a.opt.Stdin, a.opt.Stdout, a.opt.Stderr
	if err := c.Run(); err != nil {
		return fmt.Errorf("config edit: %s: %w", editor[0], err)
	}
	b, err := readConfig(a.configPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		_, err = a.parse(a.configPath(), b)
	}
	return err
}

// settingWords completes the names of settings.
func (a *app) settingWords(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var out []string
	if len(args) == 0 {
		a.configurable().VisitAll(func(f *pflag.Flag) { out = append(out, word(f.Name, f.Usage)) })
	}
	return out, cobra.ShellCompDirectiveNoFileComp
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
	if err := checkSetting(f, value); err != nil {
		return usage(err.Error())
	}
	switch home := homePath.MatchString(value); { // a path is meant in every folder
	case args[0] == "store":
		value = strings.TrimSpace(value)
		if p, err := runlog.ParsePlace(value); err == nil && p.Path != "" && !home {
			p.Path = absolute(p.Path)
			value = p.String()
		}
	case !home && value != "" && (args[0] == "data-dir" || args[0] == "store-key-file"):
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
	return nil, usage(fmt.Sprintf("%s; `%s config list` shows them", unknownSetting(key, flags), a.cfg.Name))
}

func (a *app) printValue(v string) error {
	if a.programs() {
		return a.out.json(v, a.set.output == "json")
	}
	a.out.line(v)
	return nil
}

// rewrite puts a line in the place of that of a setting, or none for "", and leaves the others
// as they are. It does so if the setting is mistaken, but only if no mistake is left.
func (a *app) rewrite(key, line string) error {
	path := a.configPath()
	b, err := readConfig(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	changed := []byte(replaceSetting(string(b), key, line))
	if bytes.Equal(changed, b) {
		return nil
	}
	if len(changed) > maxConfig {
		return usage(fmt.Sprintf("%s: the configuration would be over 1 MiB", path))
	}
	if _, err := a.parse(path, changed); err != nil {
		if _, before := a.parse(path, b); before != nil {
			err = before // the lines are those of the file that is there
		}
		return usage("nothing was changed, because the configuration would still have mistakes\n" + err.Error())
	}
	target, err := filepath.EvalSymlinks(path) // a link stays one
	if errors.Is(err, fs.ErrNotExist) {
		if _, e := os.Lstat(path); e != nil {
			target, err = path, nil
		}
	}
	if err != nil {
		return fmt.Errorf("writing the configuration: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
		return fmt.Errorf("writing the configuration: %w", err)
	}
	if err := maybe.WriteFile(target, changed, 0o600); err != nil {
		return fmt.Errorf("writing the configuration: %w", err)
	}
	return nil
}

// replaceSetting puts a line in the place of those that begin with a key, with what belongs to
// their values: lines that are set in, such as those of a list. Where there are none it is added.
func replaceSetting(text, key, line string) string {
	text, mark := strings.CutPrefix(text, byteOrderMark)
	end := "\n"
	if first, _, _ := strings.Cut(text, "\n"); strings.HasSuffix(first, "\r") {
		end = "\r\n"
	}
	begins := regexp.MustCompile(`^(?:` + key + `|"` + key + `"|'` + key + `')[ \t]*:(?:\s|$)`)
	var out strings.Builder
	if mark {
		out.WriteString(byteOrderMark)
	}
	last, of := "\n", false
	for l := range strings.Lines(text) {
		inner := strings.TrimLeft(l, " \t")
		switch {
		case begins.MatchString(l):
			if of = true; line != "" {
				out.WriteString(line + end)
				line, last = "", end
			}
			continue
		case of && len(inner) < len(l) && strings.TrimSpace(inner) != "" && inner[0] != '#':
			continue
		}
		of = false
		out.WriteString(l)
		last = l
	}
	if line == "" {
		return out.String()
	}
	if !strings.HasSuffix(last, "\n") {
		out.WriteString(end)
	}
	return out.String() + line + end
}
