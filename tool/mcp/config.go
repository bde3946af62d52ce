package mcp

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/frontmatter"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/tool/sandbox"
)

// Where servers come from.
const (
	scopeProject = "project"
	scopeUser    = "user"
)

// The ways to speak to a server.
const (
	Stdio = "stdio" // a command, by its standard input and output
	HTTP  = "http"  // streamable HTTP
	SSE   = "sse"   // its predecessor: HTTP with server-sent events
)

// A Source is where something was configured.
type Source struct {
	Scope string // scopeProject or User
	Path  string // of the file
	Line  int
}

func (s Source) String() string { return fmt.Sprintf("%s (%s:%d)", s.Scope, s.Path, s.Line) }

// A Server is how one server is reached. It is a value, as the configuration has it: variables are
// replaced when it is connected.
type Server struct {
	Name   string // [a-zA-Z0-9_-]{1,64}
	Source Source
	// Overrides are the servers of that name that this one takes the place of.
	Overrides []Source
	Transport string // Stdio, HTTP or SSE
	Disabled  bool

	Command string // a program to be found in PATH, or a path
	Args    []string
	Env     Values
	Dir     string // to start in; defaults to the project

	// Needs is what a command needs besides what all may do that run in a sandbox. Only the user's own configuration
	// of Superstep can turn that off.
	Needs sandbox.Needs

	URL     string
	Headers Values

	// TrustAnnotations says to believe what the server says of its tools; see Group.Tools. Only the
	// user's own configuration of Superstep can say so.
	TrustAnnotations bool
	InitTimeout      time.Duration // unless 0, instead of that of Options
	CallTimeout      time.Duration // the same
}

// A config is the content of one file.
type config struct {
	Servers  []*Server // in the order of the file
	Warnings []string
}

var (
	serverName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	envName    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
)

// A dialect is how a program writes down its servers.
type dialect struct {
	keys    []string // of the object of servers, the first that is there counts
	relaxed bool     // comments
	only    bool     // the rest of the file is somebody else's
	huge    bool     // so much that it is not even read
	own     bool     // Superstep's
	braces  bool     // {env:NAME} and {file:path} instead of ${NAME}
}

func dialectOf(path string) dialect {
	base, dir := filepath.Base(path), filepath.Base(filepath.Dir(path))
	switch {
	case base == ".mcp.json":
		return dialect{keys: []string{"mcpServers"}}
	case base == ".claude.json":
		return dialect{keys: []string{"mcpServers"}, only: true, huge: true}
	case base == "opencode.json" || base == "opencode.jsonc":
		return dialect{keys: []string{"mcp"}, relaxed: true, only: true, braces: true}
	case dir == ".vscode":
		return dialect{keys: []string{"servers"}, relaxed: true}
	}
	return dialect{keys: []string{"servers", "mcpServers"}, own: true}
}

// parse reads a configuration. The path, which is not opened, says whose it is: .mcp.json and
// ~/.claude.json (mcpServers), .vscode/mcp.json (servers), opencode.json (mcp), and for all others
// Superstep's own, JSON or YAML (servers). An error joins one *ConfigError for each mistake, up to
// 20; the servers without a mistake are returned beside it.
func parse(data []byte, path, scope string) (*config, error) {
	c := &reader{path: path, scope: scope, dialect: dialectOf(path), out: new(config)}
	if len(data) > maxConfig && !c.huge {
		return c.out, &ConfigError{File: path, Text: "over 1 MiB"}
	}
	var root *node
	var fault *ConfigError
	switch ext := filepath.Ext(path); {
	case ext == ".yaml" || ext == ".yml":
		root, fault = parseYAML(data)
	case c.huge:
		root, fault = onlyKey(data, c.keys[0])
	default:
		root, fault = parseJSON(data, c.relaxed)
	}
	if fault != nil {
		fault.File = path
		return c.out, fault
	}
	c.file(root)
	return c.out, errors.Join(c.faults...)
}

// A reader turns nodes into servers.
type reader struct {
	path, scope string
	dialect
	out    *config
	faults []error
}

func (c *reader) fault(line, col int, format string, args ...any) {
	if len(c.faults) < maxFaults {
		c.faults = append(c.faults, &ConfigError{File: c.path, Line: line, Col: col, Text: fmt.Sprintf(format, args...)})
	}
}

// is reports whether a value is of a kind, and says what it is that must be of it if it is not.
func (c *reader) is(n *node, kind frontmatter.Kind, what string) bool {
	if n.Kind != kind {
		c.fault(n.Line, n.Col, "%s, not %s", what, called(n))
	}
	return n.Kind == kind
}

func (c *reader) warn(line, col int, format string, args ...any) {
	if len(c.out.Warnings) < maxFaults {
		c.out.Warnings = append(c.out.Warnings, fmt.Sprintf("%s:%d:%d: ", c.path, line, col)+fmt.Sprintf(format, args...))
	}
}

func (c *reader) file(root *node) {
	if root.Kind == frontmatter.Null {
		return
	}
	if !c.is(root, frontmatter.Map, "must be an object with the key "+clean.Quote(c.keys[0])) {
		return
	}
	var servers *node
	for _, key := range c.keys {
		if n := root.Field(key); n != nil && servers == nil {
			servers = n
		} else if n != nil {
			c.fault(n.Line, n.Col, "%s beside %s; use one of them", clean.Quote(key), clean.Quote(c.keys[0]))
		}
	}
	if !c.only {
		for _, f := range root.Fields {
			if !slices.Contains(c.keys, f.Key) && f.Key != "inputs" && f.Key != "$schema" {
				c.unknown(f, c.keys)
			}
		}
	}
	if servers == nil || servers.Kind == frontmatter.Null {
		return
	}
	if !c.is(servers, frontmatter.Map, "must be an object of servers by name") {
		return
	}
	if len(servers.Fields) > 200 {
		c.fault(servers.Line, servers.Col, "over 200 servers")
		return
	}
	for _, f := range servers.Fields {
		before := len(c.faults)
		if s := c.server(f); s != nil && len(c.faults) == before {
			c.out.Servers = append(c.out.Servers, s)
		}
	}
}

func (c *reader) unknown(f field, known []string) {
	hint := ""
	if near := suggest.Closest(f.Key, known); near != "" {
		hint = fmt.Sprintf("; did you mean %q?", near)
	}
	c.warn(f.Line, f.Col, "%s is not known here and is ignored%s", clean.Quote(f.Key), hint)
}

func (c *reader) server(f field) *Server {
	if !serverName.MatchString(f.Key) {
		c.fault(f.Line, f.Col, "server name %s: use 1 to 64 letters, digits, _ and -", clean.Quote(f.Key))
		return nil
	}
	// Its tools are called mcp__SERVER__TOOL: a rule for the tools of a server of the user must not be one for this.
	if c.scope != scopeUser && strings.Contains(f.Key+"_", "__") {
		c.fault(f.Line, f.Col, "server name %s: a project's has no __ in it and no _ at its end, which tell the name of a server from that of its tool; "+
			"write - there", clean.Quote(f.Key))
		return nil
	}
	if !c.is(f.Value, frontmatter.Map, "server "+clean.Quote(f.Key)+" must be an object") {
		return nil
	}
	s := &Server{Name: f.Key, Source: Source{c.scope, c.path, f.Line}}
	kind, before := "", len(c.faults)
	for _, k := range f.Value.Fields {
		switch k.Key {
		case "type":
			kind = c.text(k)
		case "command":
			c.command(s, k)
		case "args":
			s.Args = c.texts(k)
		case "env", "environment":
			s.Env = c.values(k, envName)
		case "cwd":
			s.Dir = c.text(k)
		case "network", "read", "write":
			c.needs(s, k)
		case "sandbox":
			c.sandbox(s, k)
		case "url":
			s.URL = c.text(k)
		case "headers":
			s.Headers = c.values(k, headerName)
		case "enabled":
			s.Disabled = !c.truth(k)
		case "disabled":
			s.Disabled = c.truth(k)
		case "timeout", "init_timeout":
			c.timeout(s, k)
		case "trust_annotations":
			s.TrustAnnotations = c.truth(k)
			if s.TrustAnnotations && (c.scope != scopeUser || !c.own) {
				s.TrustAnnotations = false
				c.warn(k.Line, k.Col, `"trust_annotations" counts only in the user's own configuration of Superstep and is ignored`)
			}
		case "description", "gallery", "version": // for people
		default:
			c.unknown(k, []string{"type", "command", "args", "env", "cwd", "network", "read", "write", "sandbox", "url", "headers", "enabled", "disabled", "timeout"})
		}
	}
	if len(c.faults) == before { // else what is missing may be what is wrong
		c.transport(s, f, kind)
		c.references(s, f)
	}
	return s
}

// transport determines the transport of a server, and checks that its configuration is complete.
func (c *reader) transport(s *Server, f field, kind string) {
	switch kind {
	case "":
		s.Transport = HTTP
		if s.Command != "" {
			s.Transport = Stdio
		}
		if s.Command != "" && s.URL != "" {
			c.fault(f.Line, f.Col, "server %q has both a command and a url; use one of them", s.Name)
		}
	case "stdio", "local":
		s.Transport = Stdio
	case "http", "streamable-http", "streamableHttp", "remote":
		s.Transport = HTTP
	case "sse":
		s.Transport = SSE
	default:
		c.fault(f.Line, f.Col, "server %q has the type %s; known are stdio, http and sse", s.Name, clean.Quote(kind))
		return
	}
	switch {
	case s.Transport == Stdio && s.Command == "":
		c.fault(f.Line, f.Col, "server %q needs a command", s.Name)
	case s.Transport == Stdio && (s.URL != "" || len(s.Headers) > 0) && kind != "":
		c.fault(f.Line, f.Col, "server %q is a command; it has no url and no headers", s.Name)
	case s.Transport != Stdio && s.URL == "":
		c.fault(f.Line, f.Col, "server %q needs a command or a url", s.Name)
	case s.Transport != Stdio && (s.Command != "" || len(s.Env) > 0) && kind != "":
		c.fault(f.Line, f.Col, "server %q is on the network; it has no command and no env", s.Name)
	case s.Transport != Stdio && len(s.Needs.Lines()) > 0:
		c.fault(f.Line, f.Col, "server %q is on the network; it runs in no sandbox, and network, read, write and sandbox mean nothing there", s.Name)
	case s.Transport != Stdio:
		c.url(s, f)
	}
}

func (c *reader) url(s *Server, f field) {
	if strings.HasPrefix(s.URL, "${") {
		return // seen when it is connected
	}
	u, err := url.Parse(reference.ReplaceAllString(s.URL, "x"))
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		c.fault(f.Line, f.Col, "server %q: the url must begin with https:// or http:// and a host", s.Name)
	case u.User != nil:
		c.fault(f.Line, f.Col, "server %q: the url holds a user or password; use a header", s.Name)
	case u.Scheme == "http" && !private(u.Hostname()):
		c.warn(f.Line, f.Col, "server %q: http:// to %s sends everything, headers too, in the clear", s.Name, clean.Quote(u.Host))
	}
}

// command is a program, or, as some write it, a program with its arguments.
func (c *reader) command(s *Server, k field) {
	if k.Value.Kind != frontmatter.List {
		s.Command = c.text(k)
		return
	}
	list := c.texts(k)
	if len(list) == 0 {
		c.fault(k.Value.Line, k.Value.Col, "the command is empty")
		return
	}
	s.Command, s.Args = list[0], append(list[1:], s.Args...)
}

// needs reads what a server needs of the network or of files: a list, or a single one.
func (c *reader) needs(s *Server, k field) {
	items := k.Value.Items
	if k.Value.Kind != frontmatter.List {
		items = []*node{k.Value}
	}
	for _, n := range items {
		if !c.is(n, frontmatter.Text, clean.Quote(k.Key)+" must be a list of texts") {
			continue
		}
		if err := s.Needs.Add(k.Key, c.plain(k.Key, n)); err != nil {
			c.fault(n.Line, n.Col, "server %q: %v", s.Name, err)
		}
	}
}

func (c *reader) sandbox(s *Server, k field) {
	switch k.Value.Text {
	case "off", "false":
		if c.scope != scopeUser || !c.own {
			c.fault(k.Line, k.Col, "server %q: the sandbox can be turned off only in your own configuration of Superstep (superstep/mcp.yaml below "+
				"~/.config), not here; declare what it needs: network, read, write", s.Name)
		}
		s.Needs.Off = true
	case "on", "true":
	default:
		c.fault(k.Value.Line, k.Value.Col, "sandbox is on or off")
	}
}

func (c *reader) timeout(s *Server, k field) {
	var d time.Duration
	var err error
	switch {
	case k.Value.Kind == frontmatter.Number && !c.own: // milliseconds, for those who write it so
		d, err = time.ParseDuration(k.Value.Text + "ms")
	case k.Value.Kind == frontmatter.Number:
		c.fault(k.Value.Line, k.Value.Col, "%s needs a unit, such as 30s", clean.Quote(k.Key))
		return
	default:
		d, err = time.ParseDuration(c.text(k))
	}
	if err != nil || d <= 0 || d > 24*time.Hour {
		c.fault(k.Value.Line, k.Value.Col, "%s must be a time such as 30s, at most 24h", clean.Quote(k.Key))
		return
	}
	if k.Key == "init_timeout" || c.braces { // opencode's is that of getting the tools
		s.InitTimeout = d
	} else {
		s.CallTimeout = d
	}
}

func (c *reader) text(k field) string {
	if !c.is(k.Value, frontmatter.Text, clean.Quote(k.Key)+" must be text") {
		return ""
	}
	return c.plain(k.Key, k.Value)
}

func (c *reader) plain(what string, n *node) string {
	if strings.IndexByte(n.Text, 0) >= 0 {
		c.fault(n.Line, n.Col, "%s contains a NUL character", clean.Quote(what))
		return ""
	}
	if !c.braces {
		return n.Text
	}
	if strings.Contains(n.Text, "{file:") {
		c.fault(n.Line, n.Col, "%s: {file:…} is not supported; use {env:NAME}", clean.Quote(what))
	}
	return braces.ReplaceAllString(n.Text, "$${$1}")
}

var braces = regexp.MustCompile(`\{env:([A-Za-z_][A-Za-z0-9_]*)\}`)

func (c *reader) texts(k field) []string {
	if !c.is(k.Value, frontmatter.List, clean.Quote(k.Key)+" must be a list of texts") {
		return nil
	}
	var out []string
	for _, n := range k.Value.Items {
		if n.Kind != frontmatter.Text && n.Kind != frontmatter.Number {
			c.fault(n.Line, n.Col, "%s must hold texts, not %s", clean.Quote(k.Key), called(n))
			continue
		}
		out = append(out, c.plain(k.Key, n))
	}
	return out
}

func (c *reader) truth(k field) bool {
	return c.is(k.Value, frontmatter.Bool, clean.Quote(k.Key)+" must be true or false") && k.Value.Text == "true"
}

func (c *reader) values(k field, name *regexp.Regexp) Values {
	if !c.is(k.Value, frontmatter.Map, clean.Quote(k.Key)+" must be an object of texts") {
		return nil
	}
	out := Values{}
	for _, f := range k.Value.Fields {
		switch {
		case !name.MatchString(f.Key):
			c.fault(f.Line, f.Col, "%s: %s is not a name", clean.Quote(k.Key), clean.Quote(f.Key))
		case f.Value.Kind != frontmatter.Text && f.Value.Kind != frontmatter.Number && f.Value.Kind != frontmatter.Bool:
			c.fault(f.Value.Line, f.Value.Col, "%s: %s must be text, not %s", clean.Quote(k.Key), clean.Quote(f.Key), called(f.Value))
		case name == headerName && slices.Contains([]string{"host", "content-length", "transfer-encoding", "connection"}, strings.ToLower(f.Key)):
			c.fault(f.Line, f.Col, "the header %s is not yours to set", clean.Quote(f.Key))
		case name == headerName && strings.ContainsAny(f.Value.Text, "\r\n"):
			c.fault(f.Value.Line, f.Value.Col, "the header %s has more than one line", clean.Quote(f.Key))
		default:
			out[f.Key] = c.plain(f.Key, f.Value)
		}
	}
	return out
}

// references returns the ${…} references of a server that can never have a value.
func (c *reader) references(s *Server, f field) {
	for _, text := range []string{s.Command, s.Dir} {
		for _, m := range reference.FindAllStringSubmatch(text, -1) {
			if m[1] != workspace {
				c.fault(f.Line, f.Col, "server %q: a command and cwd can refer to ${workspaceFolder} and to nothing else; variables belong into args, "+
					"env, url and headers", s.Name)
			}
		}
	}
	for _, text := range s.expandable() {
		for _, m := range reference.FindAllStringSubmatch(text, -1) {
			if _, _, ok := variable(m[1]); !ok && m[1] != workspace {
				c.warn(f.Line, f.Col, "server %q: ${%s} is not a variable; it stays as it is", s.Name, oneLine(m[1], 40))
			}
			if strings.HasPrefix(m[1], "input:") {
				c.warn(f.Line, f.Col, "server %q: nobody is asked for ${%s}; set a variable and write ${NAME}", s.Name, oneLine(m[1], 40))
			}
		}
	}
}
