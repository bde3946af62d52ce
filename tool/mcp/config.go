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

	"github.com/superstep-dev/superstep/internal/suggest"
)

// Where servers come from.
const (
	Project = "project"
	User    = "user"
)

// The ways to speak to a server.
const (
	Stdio = "stdio" // a command, by its standard input and output
	HTTP  = "http"  // streamable HTTP
	SSE   = "sse"   // its predecessor: HTTP with server-sent events
)

// A Source is where something was configured.
type Source struct {
	Scope string // Project or User
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

	URL     string
	Headers Values

	// TrustAnnotations says to believe what the server says of its tools; see Conn.Tools. Only the
	// user's own configuration of Superstep can say so.
	TrustAnnotations bool
	InitTimeout      time.Duration // unless 0, instead of that of Options
	CallTimeout      time.Duration // the same
}

// A Config is what one file says.
type Config struct {
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

// Parse reads a configuration. The path, which is not opened, says whose it is: .mcp.json and
// ~/.claude.json (mcpServers), .vscode/mcp.json (servers), opencode.json (mcp), and for all others
// Superstep's own, JSON or YAML (servers). Sources get the scope of projects. An error joins one
// *ConfigError for each mistake, up to 20; the servers without a mistake are returned beside it.
func Parse(data []byte, path string) (*Config, error) { return parse(data, path, Project) }

func parse(data []byte, path, scope string) (*Config, error) {
	c := &reader{path: path, scope: scope, dialect: dialectOf(path), out: new(Config)}
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
	out    *Config
	faults []error
}

func (c *reader) fault(line, col int, format string, args ...any) {
	if len(c.faults) < maxFaults {
		c.faults = append(c.faults, &ConfigError{File: c.path, Line: line, Col: col, Text: fmt.Sprintf(format, args...)})
	}
}

func (c *reader) warn(line, col int, format string, args ...any) {
	if len(c.out.Warnings) < maxFaults {
		c.out.Warnings = append(c.out.Warnings, fmt.Sprintf("%s:%d:%d: ", c.path, line, col)+fmt.Sprintf(format, args...))
	}
}

func (c *reader) file(root *node) {
	if root.kind == "null" {
		return
	}
	if root.kind != "object" {
		c.fault(root.line, root.col, "must be an object with the key %s, not %s", quoted(c.keys[0]), root.kind)
		return
	}
	var servers *node
	for _, key := range c.keys {
		if n := root.field(key); n != nil && servers == nil {
			servers = n
		} else if n != nil {
			c.fault(n.line, n.col, "%s beside %s; use one of them", quoted(key), quoted(c.keys[0]))
		}
	}
	if !c.only {
		for _, f := range root.fields {
			if !slices.Contains(c.keys, f.key) && f.key != "inputs" && f.key != "$schema" {
				c.unknown(f, c.keys)
			}
		}
	}
	if servers == nil || servers.kind == "null" {
		return
	}
	if servers.kind != "object" {
		c.fault(servers.line, servers.col, "must be an object of servers by name, not %s", servers.kind)
		return
	}
	if len(servers.fields) > 200 {
		c.fault(servers.line, servers.col, "over 200 servers")
		return
	}
	for _, f := range servers.fields {
		before := len(c.faults)
		if s := c.server(f); s != nil && len(c.faults) == before {
			c.out.Servers = append(c.out.Servers, s)
		}
	}
}

func (c *reader) unknown(f field, known []string) {
	hint := ""
	if near := suggest.Closest(f.key, known); near != "" {
		hint = fmt.Sprintf("; did you mean %q?", near)
	}
	c.warn(f.line, f.col, "%s is not known here and is ignored%s", quoted(f.key), hint)
}

func (c *reader) server(f field) *Server {
	if !serverName.MatchString(f.key) {
		c.fault(f.line, f.col, "server name %s: use 1 to 64 letters, digits, _ and -", quoted(f.key))
		return nil
	}
	if f.value.kind != "object" {
		c.fault(f.value.line, f.value.col, "server %s must be an object, not %s", quoted(f.key), f.value.kind)
		return nil
	}
	s := &Server{Name: f.key, Source: Source{c.scope, c.path, f.line}}
	kind, before := "", len(c.faults)
	for _, k := range f.value.fields {
		switch k.key {
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
			if s.TrustAnnotations && (c.scope != User || !c.own) {
				s.TrustAnnotations = false
				c.warn(k.line, k.col, `"trust_annotations" counts only in the user's own configuration of Superstep and is ignored`)
			}
		case "description", "gallery", "version": // for people
		default:
			c.unknown(k, []string{"type", "command", "args", "env", "cwd", "url", "headers", "enabled", "disabled", "timeout"})
		}
	}
	if len(c.faults) == before { // else what is missing may be what is wrong
		c.transport(s, f, kind)
		c.references(s, f)
	}
	return s
}

// transport decides how the server is spoken to, and whether it says enough for that.
func (c *reader) transport(s *Server, f field, kind string) {
	switch kind {
	case "":
		s.Transport = HTTP
		if s.Command != "" {
			s.Transport = Stdio
		}
		if s.Command != "" && s.URL != "" {
			c.fault(f.line, f.col, "server %q has both a command and a url; use one of them", s.Name)
		}
	case "stdio", "local":
		s.Transport = Stdio
	case "http", "streamable-http", "streamableHttp", "remote":
		s.Transport = HTTP
	case "sse":
		s.Transport = SSE
	default:
		c.fault(f.line, f.col, "server %q has the type %s; known are stdio, http and sse", s.Name, quoted(kind))
		return
	}
	switch {
	case s.Transport == Stdio && s.Command == "":
		c.fault(f.line, f.col, "server %q needs a command", s.Name)
	case s.Transport == Stdio && (s.URL != "" || len(s.Headers) > 0) && kind != "":
		c.fault(f.line, f.col, "server %q is a command; it has no url and no headers", s.Name)
	case s.Transport != Stdio && s.URL == "":
		c.fault(f.line, f.col, "server %q needs a command or a url", s.Name)
	case s.Transport != Stdio && (s.Command != "" || len(s.Env) > 0) && kind != "":
		c.fault(f.line, f.col, "server %q is on the network; it has no command and no env", s.Name)
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
		c.fault(f.line, f.col, "server %q: the url must begin with https:// or http:// and a host", s.Name)
	case u.User != nil:
		c.fault(f.line, f.col, "server %q: the url holds a user or password; use a header", s.Name)
	case u.Scheme == "http" && !private(u.Hostname()):
		c.warn(f.line, f.col, "server %q: http:// to %s sends everything, headers too, in the clear", s.Name, quoted(u.Host))
	}
}

// command is a program, or, as some write it, a program with its arguments.
func (c *reader) command(s *Server, k field) {
	if k.value.kind != "array" {
		s.Command = c.text(k)
		return
	}
	list := c.texts(k)
	if len(list) == 0 {
		c.fault(k.value.line, k.value.col, "the command is empty")
		return
	}
	s.Command, s.Args = list[0], append(list[1:], s.Args...)
}

func (c *reader) timeout(s *Server, k field) {
	var d time.Duration
	var err error
	switch {
	case k.value.kind == "number" && !c.own: // milliseconds, for those who write it so
		d, err = time.ParseDuration(k.value.text + "ms")
	case k.value.kind == "number":
		c.fault(k.value.line, k.value.col, "%s needs a unit, such as 30s", quoted(k.key))
		return
	default:
		d, err = time.ParseDuration(c.text(k))
	}
	if err != nil || d <= 0 || d > 24*time.Hour {
		c.fault(k.value.line, k.value.col, "%s must be a time such as 30s, at most 24h", quoted(k.key))
		return
	}
	if k.key == "init_timeout" || c.braces { // opencode's is that of getting the tools
		s.InitTimeout = d
	} else {
		s.CallTimeout = d
	}
}

func (c *reader) text(k field) string {
	if k.value.kind != "string" {
		c.fault(k.value.line, k.value.col, "%s must be text, not %s", quoted(k.key), k.value.kind)
		return ""
	}
	return c.plain(k.key, k.value)
}

func (c *reader) plain(what string, n *node) string {
	if strings.IndexByte(n.text, 0) >= 0 {
		c.fault(n.line, n.col, "%s contains a NUL character", quoted(what))
		return ""
	}
	if !c.braces {
		return n.text
	}
	if strings.Contains(n.text, "{file:") {
		c.fault(n.line, n.col, "%s: {file:…} is not supported; use {env:NAME}", quoted(what))
	}
	return braces.ReplaceAllString(n.text, "$${$1}")
}

var braces = regexp.MustCompile(`\{env:([A-Za-z_][A-Za-z0-9_]*)\}`)

func (c *reader) texts(k field) []string {
	if k.value.kind != "array" {
		c.fault(k.value.line, k.value.col, "%s must be a list of texts, not %s", quoted(k.key), k.value.kind)
		return nil
	}
	var out []string
	for _, n := range k.value.items {
		if n.kind != "string" && n.kind != "number" {
			c.fault(n.line, n.col, "%s must hold texts, not %s", quoted(k.key), n.kind)
			continue
		}
		out = append(out, c.plain(k.key, n))
	}
	return out
}

func (c *reader) truth(k field) bool {
	if k.value.kind != "boolean" {
		c.fault(k.value.line, k.value.col, "%s must be true or false, not %s", quoted(k.key), k.value.kind)
	}
	return k.value.text == "true"
}

func (c *reader) values(k field, name *regexp.Regexp) Values {
	if k.value.kind != "object" {
		c.fault(k.value.line, k.value.col, "%s must be an object of texts, not %s", quoted(k.key), k.value.kind)
		return nil
	}
	out := Values{}
	for _, f := range k.value.fields {
		switch {
		case !name.MatchString(f.key):
			c.fault(f.line, f.col, "%s: %s is not a name", quoted(k.key), quoted(f.key))
		case f.value.kind != "string" && f.value.kind != "number" && f.value.kind != "boolean":
			c.fault(f.value.line, f.value.col, "%s: %s must be text, not %s", quoted(k.key), quoted(f.key), f.value.kind)
		case name == headerName && slices.Contains([]string{"host", "content-length", "transfer-encoding", "connection"}, strings.ToLower(f.key)):
			c.fault(f.line, f.col, "the header %s is not yours to set", quoted(f.key))
		case name == headerName && strings.ContainsAny(f.value.text, "\r\n"):
			c.fault(f.value.line, f.value.col, "the header %s has more than one line", quoted(f.key))
		default:
			out[f.key] = c.plain(f.key, f.value)
		}
	}
	return out
}

// references says of the ${…} of a server which will never have a value.
func (c *reader) references(s *Server, f field) {
	for _, text := range []string{s.Command, s.Dir} {
		for _, m := range reference.FindAllStringSubmatch(text, -1) {
			if m[1] != workspace {
				c.fault(f.line, f.col, "server %q: a command and cwd can refer to ${workspaceFolder} and to nothing else; variables belong into args, env, url and headers", s.Name)
			}
		}
	}
	for _, text := range s.expandable() {
		for _, m := range reference.FindAllStringSubmatch(text, -1) {
			if _, _, ok := variable(m[1]); !ok && m[1] != workspace {
				c.warn(f.line, f.col, "server %q: ${%s} is not a variable; it stays as it is", s.Name, oneLine(m[1], 40))
			}
			if strings.HasPrefix(m[1], "input:") {
				c.warn(f.line, f.col, "server %q: nobody is asked for ${%s}; set a variable and write ${NAME}", s.Name, oneLine(m[1], 40))
			}
		}
	}
}
