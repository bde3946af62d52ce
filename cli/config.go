package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/adrg/xdg"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
	"github.com/google/renameio/v2/maybe"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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

const maxConfig = 64 << 10 // reading YAML takes time with the square of it

// byteOrderMark is what some editors begin a file with.
const byteOrderMark = "\ufeff"

// configPath is the user's configuration: SUPERSTEP_CONFIG, or config.yaml in their own folder.
func (a *app) configPath() string {
	if p := a.opt.Env("SUPERSTEP_CONFIG"); p != "" {
		return p
	}
	return filepath.Join(a.configDir(), "config.yaml")
}

// configDir is the user's own folder for what they configure, whatever SUPERSTEP_CONFIG says: the
// folder of that file may be one that others write to.
func (a *app) configDir() string { return a.dir("", "XDG_CONFIG_HOME", xdg.ConfigHome) }

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
	b := &app{opt: a.opt}
	b.globals(f)
	(&running{}).add(f)
	f.String("model", "", "")
	f.Int("snapshot-every", 0, "")
	out := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.VisitAll(func(x *pflag.Flag) {
		if x.Value.Type() != listType && x.Annotations[actFlag] == nil {
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
	switch {
	case errors.Is(err, fs.ErrNotExist) && a.opt.Env("SUPERSTEP_CONFIG") == "":
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
	if version || len(words) == 2 && slices.Contains([]string{"config path", "config set", "config unset", "version", "help"}, words[1]) {
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
	home := a.opt.Env("HOME")
	if !filepath.IsAbs(home) {
		home, _ = os.UserHomeDir() // "" is a mistake where it is needed
	}
	c := &configuration{path: path, home: home, flags: a.configurable(), seen: map[string]bool{}}
	return c.parse(b)
}

// configuration is what is known of a configuration while it is read.
type configuration struct {
	path, home string
	flags      *pflag.FlagSet
	seen       map[string]bool
	settings   []setting
	problems   []string
}

func (c *configuration) wrong(p *token.Position, format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf("%s:%d:%d: %s", c.path, p.Line, p.Column, fmt.Sprintf(format, args...)))
}

// parse reads settings and checks them. Its error has every mistake.
func (c *configuration) parse(b []byte) ([]setting, error) {
	b = bytes.TrimPrefix(b, []byte(byteOrderMark))
	file, err := parser.ParseBytes(b, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		var syntax yaml.Error
		if errors.As(err, &syntax) && syntax.GetToken() != nil {
			p := syntax.GetToken().Position
			what, _, _ := strings.Cut(syntax.GetMessage(), ": ") // behind it is what was read
			return nil, usage(fmt.Sprintf("%s:%d:%d: %s", c.path, p.Line, p.Column, what))
		}
		return nil, usage(fmt.Sprintf("%s: this is not YAML", c.path))
	}
	lines := map[int]bool{}
	for i, doc := range file.Docs {
		if i > 0 {
			at := &token.Position{Line: bytes.Count(b, []byte("\n")) + 1, Column: 1}
			switch {
			case doc.Start != nil:
				at = doc.Start.Position
			case doc.Body != nil:
				at = doc.Body.GetToken().Position
			}
			c.wrong(at, "a configuration is one document")
			break
		}
		for _, pair := range c.entries(doc.Body) {
			lines[pair.Key.GetToken().Position.Line] = true
			c.entry(pair)
		}
	}
	if len(c.problems) == 0 {
		c.complete(b, lines)
	}
	if len(c.problems) > 0 {
		return nil, usage(strings.Join(c.problems, "\n"))
	}
	return c.settings, nil
}

// complete sees to it that no line is passed over, whatever the parser makes of it.
func (c *configuration) complete(b []byte, known map[int]bool) {
	n := 0
	for line := range strings.Lines(string(b)) {
		n++
		text := strings.TrimSpace(line)
		bare, _, _ := strings.Cut(text, " #")
		if bare = strings.TrimSpace(bare); !known[n] && text != "" && text[0] != '#' && bare != "---" && bare != "..." {
			c.wrong(&token.Position{Line: n, Column: 1}, "want a line such as `store: sqlite:/var/runs.db`")
		}
	}
}

// entries are the pairs of a block mapping.
func (c *configuration) entries(n ast.Node) []*ast.MappingValueNode {
	switch m := n.(type) {
	case nil, *ast.NullNode, *ast.CommentGroupNode:
		return nil
	case *ast.MappingNode:
		if !m.IsFlowStyle {
			return m.Values
		}
	case *ast.MappingValueNode:
		if !m.IsFlowStyle {
			return []*ast.MappingValueNode{m}
		}
	}
	c.wrong(n.GetToken().Position, "want lines such as `store: sqlite:/var/runs.db`, and nothing else of YAML")
	return nil
}

// entry reads one setting.
func (c *configuration) entry(pair *ast.MappingValueNode) {
	at := pair.Key.GetToken().Position
	name, ok := pair.Key.(*ast.StringNode)
	if !ok {
		c.wrong(at, "want the name of a setting")
		return
	}
	key := name.Value
	f := c.flags.Lookup(key)
	switch {
	case f == nil:
		c.wrong(at, "%s", unknownSetting(key, c.flags))
		return
	case c.seen[key]:
		c.wrong(at, "%s is set twice", key)
		return
	}
	c.seen[key] = true
	pos := pair.Value.GetToken().Position
	value, err := plainValue(pair)
	if err == nil {
		value, err = c.atHome(key, value)
	}
	if err != nil {
		c.wrong(pos, "%s %v", key, err)
		return
	}
	if err := checkSetting(f, value); err != nil {
		c.wrong(pos, "%v", err)
		return
	}
	c.settings = append(c.settings, setting{key, value, at.Line, at.Column})
}

// plainValue is the value of an entry on one line.
func plainValue(pair *ast.MappingValueNode) (string, error) {
	t := pair.Value.GetToken()
	value := t.Value // of a number or a truth value, as it is written
	switch v := pair.Value.(type) {
	case *ast.NullNode:
		return "", errors.New(`has no value; write one ("" for none), or take the line out`)
	case *ast.LiteralNode:
		return "", fmt.Errorf("wants its value on the same line, without %s", t.Value)
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		return "", fmt.Errorf("wants the value itself: a value that begins with %.1s must be in quotes", t.Value)
	case *ast.StringNode:
		value = v.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
	default:
		return "", errors.New("wants one value")
	}
	if t.Position.Line != pair.Key.GetToken().Position.Line || strings.ContainsAny(strings.TrimSpace(t.Origin), "\r\n") {
		return "", errors.New("wants its value on one line, that of its name")
	}
	return value, nil
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
	return nil, usage(fmt.Sprintf("%s; `%s config list` shows them", unknownSetting(key, flags), a.opt.Name))
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
