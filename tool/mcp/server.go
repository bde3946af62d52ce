package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/superstep-dev/superstep/internal/cover"
	"github.com/superstep-dev/superstep/tool/sandbox"
)

// Values are named values that may be secrets. They are hidden when printed, logged or encoded.
type Values map[string]string

func (v Values) String() string { return fmt.Sprintf("%q", slices.Sorted(maps.Keys(v))) }

// GoString is String.
func (v Values) GoString() string { return v.String() }

// LogValue returns the names.
func (v Values) LogValue() slog.Value { return slog.StringValue(v.String()) }

// MarshalJSON returns the names.
func (v Values) MarshalJSON() ([]byte, error) { return json.Marshal(slices.Sorted(maps.Keys(v))) }

const workspace = "workspaceFolder"

var reference = regexp.MustCompile(`\$\{([^{}]*)\}`)

// variable returns what a reference refers to: NAME, env:NAME or NAME:-default.
func variable(ref string) (name, def string, ok bool) {
	name, def, _ = strings.Cut(strings.TrimPrefix(ref, "env:"), ":-")
	return name, def, envName.MatchString(name) && ref != workspace
}

// expandable returns the texts in which variables are replaced, and workspaceFolder with them.
func (s *Server) expandable() []string {
	out := append(slices.Clone(s.Args), s.URL)
	for _, m := range []Values{s.Env, s.Headers} {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			out = append(out, m[k])
		}
	}
	return out
}

// Variables returns the names of the variables that the server is given the values of, sorted.
func (s *Server) Variables() []string {
	var out []string
	for _, text := range s.expandable() {
		for _, m := range reference.FindAllStringSubmatch(text, -1) {
			if name, _, ok := variable(m[1]); ok {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// CommandLine returns the command or address of a server, for users: as it is configured, and
// quoted where characters could be hidden.
func (s *Server) CommandLine() string {
	if s.Transport != Stdio {
		return s.Transport + " " + word(s.URL)
	}
	words := []string{word(s.Command)}
	for _, a := range s.Args {
		words = append(words, word(a))
	}
	return strings.Join(words, " ")
}

var bare = regexp.MustCompile(`^[A-Za-z0-9@%+=:,./_~?&${}-]+$`)

func word(s string) string {
	if bare.MatchString(s) {
		return s
	}
	return strconv.Quote(s)
}

// Review returns everything about a server that a user should see before trusting it, on several
// lines, with a line about what its digest covers. It hides values that may be secrets, and all
// values of the user's own servers. A value that is written out instead of referenced is shown as
// "literal".
func (s *Server) Review() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n  from %s\n", s.Name, s.CommandLine(), s.Source)
	for _, o := range s.Overrides {
		fmt.Fprintf(&b, "  instead of that of %s\n", o)
	}
	if s.Dir != "" {
		fmt.Fprintf(&b, "  in %s\n", word(s.Dir))
	}
	for _, k := range slices.Sorted(maps.Keys(s.Env)) {
		fmt.Fprintf(&b, "  env %s=%s\n", k, s.shown(s.Env[k], !secret(k, s.Env[k])))
	}
	for _, k := range slices.Sorted(maps.Keys(s.Headers)) {
		fmt.Fprintf(&b, "  header %s: %s\n", k, s.shown(s.Headers[k], false))
	}
	for _, line := range s.Needs.Lines() {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	if from := sandbox.Fetches(append([]string{s.Command}, s.Args...)); from != "" && s.Transport == Stdio {
		fmt.Fprintf(&b, "  network: the registry that it fetches what it runs from (%s)\n", from)
	}
	if names := s.Variables(); len(names) > 0 {
		fmt.Fprintf(&b, "  reads the variables %s\n", strings.Join(names, ", "))
	}
	if s.Source.Scope == scopeProject && s.Transport == Stdio {
		fmt.Fprintf(&b, "  %s\n", s.Covers(&Options{Project: s.home(), Env: func(string) (string, bool) { return "", false }}))
	}
	return b.String()
}

// Reads returns the paths outside the project that the server may read in its sandbox because its
// configuration names them: as an argument, as its command or as its working folder; see
// sandbox.Named.
func (s *Server) Reads(o *Options, home string) []string {
	d := o.defaults()
	full, _, err := s.expand(d.Project, func(name string) (string, bool) { value, _ := d.Env(name); return value, true })
	if err != nil || s.Transport != Stdio {
		return nil
	}
	return sandbox.Named(slices.Concat([]string{full.Command, full.dir(d.Project)}, full.Args), d.Project, home)
}

// only matches a value that consists of a single reference.
var only = regexp.MustCompile(`^(?:Bearer )?\$\{(?:env:)?[A-Za-z_][A-Za-z0-9_]*\}$`)

// shown returns a value for people.
func (s *Server) shown(value string, plain bool) string {
	switch {
	case s.Source.Scope != scopeProject:
		return "…"
	case only.MatchString(value):
		return strings.Trim(word(value), `"`)
	case plain:
		return word(value)
	}
	return "… (a literal value)"
}

var (
	secretName  = regexp.MustCompile(`(?i)KEY|TOKEN|SECRET|PASS(W|PHRASE|$)|AUTH|CREDENTIAL|COOKIE|PRIVATE|_PAT$`)
	secretShape = regexp.MustCompile(`(?i)\b(sk|pk|rk|ghp|gho|ghu|ghs|ghr|github_pat|glpat|xox[abeprs]|AKIA|AIza|ya29|npm|` +
		`hf)[-_.]?[A-Za-z0-9_-]{12,}|\beyJ[A-Za-z0-9_-]{10,}|-----BEGIN|://[^/\s:@]+:[^/\s@]+@`)
	opaque = regexp.MustCompile(`[A-Za-z0-9+/_=-]{20,}`)
)

// secret reports whether a value of env is a secret by its name or its shape. A path is not.
func secret(name, value string) bool {
	if secretName.MatchString(name) || secretShape.MatchString(value) {
		return true
	}
	for _, part := range opaque.FindAllString(value, -1) {
		if strings.Count(part, "/") > 2 || strings.HasPrefix(part, "/") || strings.HasPrefix(value, ".") {
			continue
		}
		digits, upper, lower := 0, 0, 0
		for _, r := range part {
			switch {
			case r >= '0' && r <= '9':
				digits++
			case r >= 'A' && r <= 'Z':
				upper++
			case r >= 'a' && r <= 'z':
				lower++
			}
		}
		if digits >= 3 && upper+lower >= 3 {
			return true
		}
	}
	return false
}

// home returns the project of a configuration that Find found.
func (s *Server) home() string {
	dir := filepath.Dir(s.Source.Path)
	if base := filepath.Base(dir); base == ".superstep" || base == ".vscode" {
		dir = filepath.Dir(dir)
	}
	if s.Source.Path == "" || !filepath.IsAbs(dir) {
		return ""
	}
	return dir
}

// Covers returns a line about what Digest covers of the files that would run, and what not.
func (s *Server) Covers(o *Options) string {
	d := o.defaults()
	if s.Transport != Stdio {
		return "covers how it is reached, not what runs there"
	}
	elsewhere := "; not what " + word(s.Command) + " loads from elsewhere"
	c, err := s.cover(d)
	switch {
	case err != nil:
		return "not covered, so it cannot be used: " + oneLine(err.Error(), 400)
	case c == nil || len(c.Files) == 0:
		return "covers the command alone, no files" + elsewhere
	}
	var parts []string
	for _, part := range c.Parts[:min(len(c.Parts), 8)] {
		parts = append(parts, word(cover.Shown(part)))
	}
	if len(c.Parts) > 8 {
		parts = append(parts, fmt.Sprintf("%d more folders", len(c.Parts)-8))
	}
	files := "1 file"
	if len(c.Files) != 1 {
		files = fmt.Sprintf("%d files", len(c.Files))
	}
	return fmt.Sprintf("covers %s (%s)%s", strings.Join(parts, ", "), files, elsewhere)
}

// An unsetError names which variables a server needs that have no value.
type unsetError []string

func (e unsetError) Error() string { return "needs the variables " + strings.Join(e, ", ") }

// A hidden is a value of a configuration that must not be shown to users.
type hidden struct {
	value  string
	always bool // nor to models, because it is a secret by its name or its shape
}

// expand replaces the references in a server's configuration. The secrets are the inserted and the
// literal values.
func (s *Server) expand(project string, env func(string) (string, bool)) (out *Server, secrets []hidden, err error) {
	c := *s
	var unset unsetError
	text := func(in string) string {
		return reference.ReplaceAllStringFunc(in, func(ref string) string {
			ref = ref[2 : len(ref)-1]
			if ref == workspace {
				return project
			}
			name, def, ok := variable(ref)
			if !ok {
				return "${" + ref + "}"
			}
			value, ok := env(name)
			switch {
			case ok && (value != "" || !strings.Contains(ref, ":-")):
				secrets = append(secrets, hidden{value, secret(name, value)})
				return value
			case strings.Contains(ref, ":-"):
				return def
			}
			if !slices.Contains(unset, name) {
				unset = append(unset, name)
			}
			return ""
		})
	}
	all := func(in Values) Values {
		out := make(Values, len(in))
		for _, k := range slices.Sorted(maps.Keys(in)) {
			out[k] = text(in[k])
			always := secret(k, out[k])
			for _, value := range append(strings.Fields(out[k]), out[k]) {
				secrets = append(secrets, hidden{value, always})
			}
		}
		return out
	}
	c.Command, c.Dir = strings.ReplaceAll(s.Command, "${"+workspace+"}", project), strings.ReplaceAll(s.Dir, "${"+workspace+"}", project)
	c.Args = nil
	for _, a := range s.Args {
		c.Args = append(c.Args, text(a))
	}
	c.URL, c.Env, c.Headers = text(s.URL), all(s.Env), all(s.Headers)
	for _, v := range cover.Quiet() {
		name, value, _ := strings.Cut(v, "=")
		c.Env[name] = value
	}
	if len(unset) > 0 {
		return nil, nil, unset
	}
	return &c, secrets, nil
}

// Digest returns the identity of all that would run: the command, arguments, environment, what it
// declares that it needs, url and headers as they are configured, and the contents of what the
// command leads to inside of the project: each file that the command, an argument or a value of env
// names, with all that lies in its folder (of the project itself, what lies there and the code of
// its family below); the folders of env where interpreters look for modules; and the code of the
// folder where it starts if it runs a program that runs what is there, such as npx and make. It
// does not cover what those load from other folders, nor programs outside of the project. A folder
// argument by itself is data.
//
// There is no digest of a server of a project that leads to more than can be covered.
func (s *Server) Digest(o *Options) (string, error) {
	d := o.defaults()
	c, err := s.cover(d)
	if much, ok := errors.AsType[*cover.TooMuch](err); ok {
		return "", fmt.Errorf("the server %s %w", s.Name, much)
	}
	if err != nil {
		return "", err
	}
	tree := sha256.New()
	if c != nil {
		c.Write(tree)
	}
	b, err := json.Marshal(struct {
		Format                        int
		Name, Transport, Command, Dir string
		Args                          []string
		Env                           map[string]string
		URL                           string
		Headers                       map[string]string
		Annotations                   bool
		Needs                         sandbox.Needs `json:",omitzero"`
		Tree                          string
	}{3, s.Name, s.Transport, s.Command, s.Dir, s.Args, s.Env, s.URL, s.Headers, s.TrustAnnotations, s.Needs, hex.EncodeToString(tree.Sum(nil))})
	if err != nil {
		return "", err
	}
	return digest(b), nil
}

// cover collects the files of a project that a server would run: those that it names, and those
// that they could load.
func (s *Server) cover(d *Options) (*cover.Cover, error) {
	if s.Transport != Stdio || d.Project == "" {
		return nil, nil
	}
	project, err := filepath.Abs(d.Project)
	if err == nil {
		project, err = filepath.EvalSymlinks(project)
	}
	if err != nil {
		return nil, fmt.Errorf("project %s: %w", d.Project, err)
	}
	full, _, err := s.expand(d.Project, d.Env)
	if err != nil { // it cannot run, but people may look at it
		full = s
	}
	c := cover.New(project, cover.Contents)
	dir := full.dir(d.Project)
	argv := append([]string{full.Command}, full.Args...)
	errs := []error{c.Command(dir, argv), c.Works(dir, argv)}
	for _, k := range slices.Sorted(maps.Keys(full.Env)) {
		for _, text := range fields(full.Env[k]) {
			errs = append(errs, c.File(dir, text, cover.Families()[cover.Program(full.Command)]))
			if slices.Contains([]string{"PATH", "NODE_PATH", "PYTHONPATH", "PYTHONHOME", "RUBYLIB", "PERL5LIB", "LUA_PATH", "LD_LIBRARY_PATH", "GOFLAGS"}, k) {
				errs = append(errs, c.Folder(dir, text, "every"))
			}
		}
	}
	err = errors.Join(errs...)
	if much, ok := errors.AsType[*cover.TooMuch](err); ok {
		if s.Source.Scope == scopeUser {
			return nil, nil // which is the user's to start, whatever the project holds
		}
		return nil, much // once is enough
	}
	return c, err
}

// fields returns the texts in a value of env that may name a file.
func fields(value string) []string {
	return strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(" \t=,;"+string(filepath.ListSeparator), r) })
}

// dir returns where a server is started.
func (s *Server) dir(project string) string {
	switch {
	case s.Dir == "":
		return project
	case filepath.IsAbs(s.Dir):
		return s.Dir
	}
	return filepath.Join(project, s.Dir)
}

// private reports whether a host is this machine or one of its neighbours, as far as its name tells.
func private(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") || strings.HasSuffix(host, ".local") || strings.HasSuffix(host, ".internal") ||
		!strings.Contains(host, ".") && !strings.Contains(host, ":") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && (ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast())
}
