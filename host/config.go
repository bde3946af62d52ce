package host

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/renameio/v2/maybe"
	"go.yaml.in/yaml/v4"

	"github.com/superstep-dev/superstep/internal/frontmatter"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/runlog"
)

// known lists all settings, each with its kind: text, path, store, bool, count, money, duration, or the list of accepted words.
var known = map[string]string{
	"agent-processes": "count", "allow-volatile": "bool", "color": "auto|always|never", "data-dir": "path", "max-agents": "count", "max-calls": "count",
	"max-concurrency": "count", "max-cost": "money", "max-steps": "count", "max-tokens": "count", "max-turns": "count", "model": "text",
	"no-bell": "bool", "no-color": "bool", "no-input": "bool", "offline": "bool", "otel": "bool", "on-ask": "deny|wait|fail|", "output": "text|json|jsonl",
	"parallel-agents": "count", "plain": "bool", "quiet": "bool", "snapshot-every": "count", "store": "store", "store-key-file": "path",
	"stream-text": "bool", "terminal.calm": "bool", "terminal.history": "bool",
	"terminal.theme": "default|dark|light|contrast", "timeout": "duration", "turn-timeout": "duration", "verbose": "bool",
}

// keysOf begins the settings for keys of the terminal, of which there is one for each action.
const keysOf = "keys."

// kindOf returns the kind of a setting, "" if there is none of that name.
func kindOf(name string) string {
	if action, ok := strings.CutPrefix(name, keysOf); ok && action != "" {
		return "text"
	}
	return known[name]
}

// SettingNames returns the names of all settings, sorted.
func SettingNames() []string { return slices.Sorted(maps.Keys(known)) }

// Variable returns the environment's name of a setting.
func Variable(setting string) string {
	return "SUPERSTEP_" + strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(setting))
}

// A Configuration is a user's file of settings, one to a line. A flag or a variable overrides them.
type Configuration struct {
	Path     string
	Settings []Setting // in the order of the file; none if it has a mistake
	Err      error     // has every mistake in it
	host     *Host
}

// A Setting is a line of a configuration.
type Setting struct {
	Name, Value string
	Line        int
}

// An EffectiveSetting is the value of a setting without flags, and its source.
type EffectiveSetting struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

// Effective returns all settings as they hold without flags. A store is named without its password.
func (h *Host) Effective(c *Configuration, def func(name string) string) ([]EffectiveSetting, error) {
	if c.Err != nil {
		return nil, c.Err
	}
	var out []EffectiveSetting
	for _, name := range SettingNames() {
		s := EffectiveSetting{name, def(name), "default"}
		switch name {
		case "store":
			s.Value = "sqlite:" + filepath.Join(h.DataDir(), h.cfg.Name+".db")
		case "data-dir":
			s.Value = h.DataDir()
		}
		if set := c.Setting(name); set != nil {
			s.Value, s.Origin = set.Value, fmt.Sprintf("%s:%d", c.Path, set.Line)
		}
		if name == "model" {
			if model, where := h.projectModel(); model != "" {
				s.Value, s.Origin = model, where
			}
		}
		if v := h.cfg.Env(Variable(name)); v != "" {
			s.Value, s.Origin = v, Variable(name)
		}
		if name == "store" {
			p, err := runlog.ParsePlace(s.Value)
			if s.Value = p.String(); err != nil {
				s.Value = "(unreadable)"
			}
		}
		out = append(out, s)
	}
	for _, set := range c.Settings {
		if strings.HasPrefix(set.Name, keysOf) {
			out = append(out, EffectiveSetting{set.Name, set.Value, fmt.Sprintf("%s:%d", c.Path, set.Line)})
		}
	}
	return out, nil
}

// Setting returns the setting of a name, or nil if the file does not have it.
func (c *Configuration) Setting(name string) *Setting {
	for i := range c.Settings {
		if c.Settings[i].Name == name {
			return &c.Settings[i]
		}
	}
	return nil
}

// Configuration reads the user's configuration from the path. If the path is "", it reads the file
// named by SUPERSTEP_CONFIG, or else config.yaml in the user's configuration folder, which may be
// missing.
func (h *Host) Configuration(path string) *Configuration {
	path = cmp.Or(path, h.cfg.Env("SUPERSTEP_CONFIG"))
	usual := filepath.Join(h.ConfigDir(), "config.yaml")
	c := &Configuration{Path: h.Abs(cmp.Or(path, usual)), host: h}
	b, err := c.read()
	other := filepath.Join(h.ConfigDir(), "config.yml")
	_, misnamed := os.Lstat(other)
	switch {
	case misnamed == nil && c.Path == usual:
		c.Err = mistake(other + " is not read; name it config.yaml")
	case errors.Is(err, fs.ErrNotExist) && path == "":
	case err != nil:
		if file, ok := errors.AsType[*fs.PathError](err); ok {
			err = fmt.Errorf("%s: %w", c.Path, file.Err)
		}
		c.Err = mistake(fmt.Sprintf("cannot read the configuration: %v", err))
	default:
		c.Settings, c.Err = c.parse(b)
	}
	return c
}

// configure completes the settings of a program by the user's variables and their configuration.
func (h *Host) configure() error {
	c, s := h.Configuration(""), &h.cfg.Settings
	if c.Err != nil {
		return c.Err
	}
	given, origin := map[string]string{}, "SUPERSTEP_STORE"
	for _, x := range c.Settings {
		given[x.Name] = x.Value
	}
	if x := c.Setting("store"); x != nil {
		origin = fmt.Sprintf("%s:%d: store", c.Path, x.Line)
	}
	s.UserModel = cmp.Or(s.UserModel, given["model"])
	for name := range known {
		v := h.cfg.Env(Variable(name))
		if v == "" {
			continue
		}
		if err := checkSetting(name, v); err != nil {
			return mistake(Variable(name) + ": " + err.Error())
		}
		if given[name] = v; name == "store" {
			origin = Variable(name)
		}
	}
	on := func(name string) bool { v, _ := strconv.ParseBool(given[name]); return v } // they were checked
	turn, _ := time.ParseDuration(given["turn-timeout"])
	width, _ := strconv.ParseInt(given["max-concurrency"], 0, 0)
	processes, _ := strconv.ParseInt(given["agent-processes"], 0, 0)
	if s.Store == "" {
		s.Store, s.Origin = given["store"], origin
	}
	s.DataDir, s.KeyFile = cmp.Or(s.DataDir, given["data-dir"]), cmp.Or(s.KeyFile, given["store-key-file"])
	s.Model, s.OnAsk = cmp.Or(s.Model, given["model"]), cmp.Or(s.OnAsk, given["on-ask"])
	s.Volatile, s.Offline, s.OTel = s.Volatile || on("allow-volatile"), s.Offline || on("offline"), s.OTel || on("otel")
	s.TurnTimeout, s.Concurrency = cmp.Or(s.TurnTimeout, turn), cmp.Or(s.Concurrency, int(width))
	s.AgentProcesses = cmp.Or(s.AgentProcesses, int(processes))
	return nil
}

const maxConfig = 64 << 10

// byteOrderMark holds the bytes that some editors write at the start of a file.
const byteOrderMark = "\ufeff"

// read reads a configuration file and refuses one that is too large.
func (c *Configuration) read() ([]byte, error) {
	f, err := os.Open(c.Path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err == nil && len(b) > maxConfig {
		err = fmt.Errorf("%s is over 64 KiB", c.Path)
	}
	return b, err
}

// parse reads settings and checks them. Its error has every mistake in the order of the file.
func (c *Configuration) parse(b []byte) (settings []Setting, err error) {
	var problems []frontmatter.Error
	wrong := func(line, col int, text string) {
		problems = append(problems, frontmatter.Error{Line: max(1, line), Col: max(1, col), Text: text})
	}
	root, refused, err := frontmatter.Tree(b, nil)
	if e, ok := errors.AsType[*frontmatter.Error](err); ok {
		return nil, mistake(c.Path + ":" + (&frontmatter.Error{Line: max(1, e.Line), Col: max(1, e.Col), Text: e.Text}).Error())
	}
	for _, e := range refused {
		name, _, _ := strings.Cut(e.Text, " ")
		if name, _ = strconv.Unquote(name); e.Code == frontmatter.Duplicate && kindOf(name) == "" {
			continue // the first is unknown, and reported as that
		}
		wrong(e.Line, e.Col, e.Text)
	}
	if root.Kind != "" && root.Kind != frontmatter.Null && (root.Kind != frontmatter.Map || root.Style&yaml.FlowStyle != 0) {
		wrong(root.Line, root.Col, "want lines such as `store: sqlite:/var/runs.db`, and nothing else of YAML")
	}
	rest := rest(b, root, refused)
	for _, f := range root.Fields {
		if f.Value.Kind == "" {
			continue // refused
		}
		if kindOf(f.Key) == "" {
			wrong(f.Line, f.Col, UnknownSetting(f.Key))
			continue
		}
		value, err := plainValue(f, rest[f.Line+1])
		if err == nil {
			value, err = c.atHome(f.Key, value)
		}
		if err != nil {
			err = fmt.Errorf("%s %w", f.Key, err)
		} else if err = checkSetting(f.Key, value); err != nil {
			err = fmt.Errorf("%s: %w", f.Key, err)
		}
		if err != nil {
			wrong(f.Value.Line, f.Value.Col, err.Error())
			continue
		}
		settings = append(settings, Setting{f.Key, value, f.Line})
	}
	if len(problems) == 0 { // no line is skipped
		for _, n := range slices.Sorted(maps.Keys(rest)) {
			wrong(n, 1, "want a line such as `store: sqlite:/var/runs.db`")
		}
	}
	if len(problems) == 0 {
		return settings, nil
	}
	slices.SortStableFunc(problems, func(a, b frontmatter.Error) int { return cmp.Or(a.Line-b.Line, a.Col-b.Col) })
	var lines []string
	for _, p := range problems {
		lines = append(lines, c.Path+":"+p.Error())
	}
	return nil, mistake(strings.Join(lines, "\n"))
}

// rest returns the lines that have text but do not begin a setting, such as the second line of a
// value.
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

// plainValue returns the value of a setting on one line. Numbers and booleans keep their spelling.
// More is set if it has another line.
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

// homePath matches a path below the user's home (~) in a value.
var homePath = regexp.MustCompile(`^((?:file|sqlite):(?://)?)?~/`)

// atHome expands ~ to the user's home in a path, as a shell would.
func (c *Configuration) atHome(name, value string) (string, error) {
	m := homePath.FindStringSubmatch(value)
	if m == nil || known[name] != "path" && known[name] != "store" {
		return value, nil
	}
	if c.host.Home() == "" {
		return "", errors.New("wants the whole path: the folder of ~ is not known")
	}
	return m[1] + filepath.Join(c.host.Home(), value[len(m[0]):]), nil
}

// checkSetting returns why a setting cannot have a value, nil if it can.
func checkSetting(name, value string) error {
	switch kind := kindOf(name); kind {
	case "text", "path":
	case "store":
		if value != "" {
			_, err := runlog.ParsePlace(value)
			return err
		}
	case "bool":
		if _, err := strconv.ParseBool(value); err != nil {
			return fmt.Errorf("want true or false, got %q", value)
		}
	case "count":
		if n, err := strconv.ParseInt(value, 0, 64); err != nil {
			return fmt.Errorf("want a whole number, got %q", value)
		} else if n < 0 {
			return fmt.Errorf("want no negative number, got %s", value)
		}
	case "money":
		if n, err := strconv.ParseFloat(value, 64); err != nil {
			return fmt.Errorf("want a number such as 1.50, got %q", value)
		} else if math.IsNaN(n) || n < 0 || n >= 1e12 {
			return fmt.Errorf("want a number of US dollars such as 1.50, got %s", value)
		}
	case "duration":
		if d, err := time.ParseDuration(value); err != nil {
			return fmt.Errorf("want a duration such as 90s or 10m, got %q", value)
		} else if d < 0 {
			return fmt.Errorf("want no negative duration, got %s", value)
		}
	default:
		if words := strings.Split(kind, "|"); !slices.Contains(words, value) {
			return fmt.Errorf("want %s, got %q", strings.TrimRight(strings.Join(words, ", "), ", "), value)
		}
	}
	return nil
}

// UnknownSetting returns the message for an unknown setting, and suggests the most similar one. A
// name that does not look like a setting is not repeated, since it may contain a password.
func UnknownSetting(name string) string {
	switch name {
	case "keys":
		return "write each key on a line of its own, such as `keys.graph: ctrl+g`"
	case "terminal":
		return "write each of its settings on a line of its own, such as `terminal.calm: true`"
	}
	if len(name) > 40 || strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.')
	}) {
		return "this is the name of no setting"
	}
	return fmt.Sprintf("there is no setting %q%s", name, suggest.Hint(name, SettingNames()))
}

// Check reads the file again and returns every mistake in it. A missing file has none.
func (c *Configuration) Check() error {
	b, err := c.read()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		_, err = c.parse(b)
	}
	return err
}

// Set changes one line of the file and no other. It may replace a line that has a mistake, but
// fails if any mistake remains.
func (c *Configuration) Set(name, value string) error {
	if err := checkSetting(name, value); err != nil {
		return mistake(name + ": " + err.Error())
	}
	home := homePath.MatchString(value) // a path is meant in every folder
	switch kind := kindOf(name); kind {
	case "store":
		value = strings.TrimSpace(value)
		if p, err := runlog.ParsePlace(value); err == nil && p.Path != "" && !home {
			p.Path = c.host.Abs(p.Path)
			value = p.String()
		}
	case "path":
		if !home && value != "" {
			value = c.host.Abs(value)
		}
	case "bool", "count", "money", "duration":
		return c.rewrite(name, name+": "+value)
	}
	quoted, err := yaml.Marshal(value) // where it needs quotes
	if err != nil {
		return err
	}
	return c.rewrite(name, name+": "+strings.TrimSpace(string(quoted)))
}

// Unset removes a setting from the file.
func (c *Configuration) Unset(name string) error { return c.rewrite(name, "") }

// rewrite replaces the line of a setting; "" removes it.
func (c *Configuration) rewrite(name, line string) error {
	b, err := c.read()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	changed := []byte(replaceSetting(string(b), name, line))
	if bytes.Equal(changed, b) {
		return nil
	}
	if len(changed) > maxConfig {
		return mistake(c.Path + ": the configuration would be over 64 KiB")
	}
	if _, err := c.parse(changed); err != nil {
		if _, before := c.parse(b); before != nil {
			err = before // the lines are those of the file that is there
		}
		return mistake("nothing was changed, because the configuration would still have mistakes\n" + err.Error())
	}
	target, err := filepath.EvalSymlinks(c.Path) // a link stays one
	if errors.Is(err, fs.ErrNotExist) {
		if _, e := os.Lstat(c.Path); e != nil {
			target, err = c.Path, nil
		}
	}
	if err == nil {
		err = os.MkdirAll(filepath.Dir(target), 0o700)
	}
	if err == nil {
		err = maybe.WriteFile(target, changed, 0o600)
	}
	if err != nil {
		return fmt.Errorf("writing the configuration: %w", err)
	}
	return nil
}

// replaceSetting replaces the lines that begin with a key, together with the indented lines of
// their values, such as the items of a list. If no line begins with the key, replaceSetting adds
// one.
func replaceSetting(text, key, line string) string {
	text, mark := strings.CutPrefix(text, byteOrderMark)
	end := "\n"
	if first, _, _ := strings.Cut(text, "\n"); strings.HasSuffix(first, "\r") {
		end = "\r\n"
	}
	begins := regexp.MustCompile(`^(?:` + regexp.QuoteMeta(key) + `|"` + key + `"|'` + key + `')[ \t]*:(?:\s|$)`)
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
