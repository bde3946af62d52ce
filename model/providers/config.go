package providers

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/token"

	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/model/offline"
	"github.com/superstep-dev/superstep/model/prices"
)

// A Provider is one that the user configured. It holds no secrets, but the names of the
// variables with them.
type Provider struct {
	Name     string            // the first half of the names of its models
	BaseURL  string            // as the provider documents it for the protocol
	Protocol string            // OpenAI, Anthropic or Gemini; defaults to OpenAI
	KeyEnv   string            // the variable with its API key, "" if it needs none
	Model    string            // the model to use when only the provider is named, "" for none
	Headers  map[string]string // further headers, to the variables with their values
}

// endpoint is the provider as it is used. Nothing of a built-in one of the same name is left.
func (c *Provider) endpoint() endpoint {
	e := endpoint{
		name: c.Name, protocol: cmp.Or(c.Protocol, OpenAI), base: strings.TrimRight(c.BaseURL, "/"),
		headers: c.Headers, own: true, standard: c.Model,
	}
	if c.KeyEnv != "" {
		e.keys = []string{c.KeyEnv}
	}
	return e
}

const (
	configFile   = "providers.yaml"
	maxConfig    = 32 << 10
	maxProviders = 100
	maxHeaders   = 20
)

// Load reads the providers that the user configured: the file providers.yaml in the folder of
// their configuration. Without one there are none.
func Load(dir string) ([]Provider, error) {
	if dir == "" {
		return nil, nil
	}
	path := filepath.Join(dir, configFile)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return ParseConfig(path, b)
}

// ParseConfig reads providers in YAML, of which JSON is a part:
//
//	lab:
//	  base_url: https://llm.lab.example/v1
//	  protocol: openai
//	  key_env: LAB_API_KEY
//	  model: large
//	  headers:
//	    X-Team: env:LAB_TEAM
//
// The file is its name in errors, which are of type [*prices.Error] and never repeat what may
// be a key. The providers are sorted by name.
func ParseConfig(file string, b []byte) ([]Provider, error) {
	c := &config{file: file}
	if len(b) > maxConfig {
		c.wrong(place{1, 1}, "a configuration of providers is at most %d KiB", maxConfig>>10)
		return nil, c.failed()
	}
	entries, err := c.decode(b)
	if err != nil {
		return nil, c.failed()
	}
	var names []string
	for name := range entries {
		names = append(names, name)
	}
	slices.Sort(names)
	var out []Provider
	for _, name := range names {
		entry := entries[name]
		out = append(out, c.provider(name, &entry))
	}
	if len(out) > maxProviders {
		c.wrong(place{1, 1}, "there are more than %d providers", maxProviders)
	}
	if len(c.problems) > 0 {
		return nil, c.failed()
	}
	return out, nil
}

// config is what is known of a configuration while it is read.
type config struct {
	file     string
	problems []prices.Problem
}

type place struct{ line, col int }

func (c *config) wrong(at place, format string, args ...any) {
	c.problems = append(c.problems, prices.Problem{Line: max(1, at.line), Col: max(1, at.col), Text: shortText(fmt.Sprintf(format, args...))})
}

func (c *config) failed() error {
	slices.SortFunc(c.problems, func(a, b prices.Problem) int { return cmp.Or(a.Line-b.Line, a.Col-b.Col) })
	return &prices.Error{File: c.file, Problems: c.problems}
}

// text is a value and where it stands.
type text struct {
	value string
	at    place
}

// UnmarshalYAML takes texts, and no other thing that YAML makes of a word.
func (t *text) UnmarshalYAML(n ast.Node) error {
	tok := n.GetToken()
	t.at = place{tok.Position.Line, tok.Position.Column}
	if s, ok := n.(*ast.StringNode); ok {
		t.value = s.Value
		return nil
	}
	return &placed{t.at, "want a text"}
}

// A placed error knows where it is.
type placed struct {
	at  place
	why string
}

func (p *placed) Error() string { return p.why }

// entry is a provider in the file.
type entry struct {
	BaseURL  text            `yaml:"base_url"`
	Protocol text            `yaml:"protocol"`
	KeyEnv   text            `yaml:"key_env"`
	Model    text            `yaml:"model"`
	Headers  map[string]text `yaml:"headers"`

	at place
}

// fields are those of an entry, and those by which people try to write a key.
func fields() []string { return []string{"base_url", "protocol", "key_env", "model", "headers"} }

// plainEntry has the fields of an entry without its method.
type plainEntry entry

// UnmarshalYAML reads the fields and refuses others.
func (e *entry) UnmarshalYAML(n ast.Node) error {
	tok := n.GetToken()
	e.at = place{tok.Position.Line, tok.Position.Column}
	var pairs []*ast.MappingValueNode
	switch m := n.(type) {
	case *ast.MappingNode:
		pairs = m.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{m}
	default:
		return &placed{e.at, "want what the provider is, at least its base_url"}
	}
	for _, pair := range pairs {
		key := pair.Key.GetToken()
		at := place{key.Position.Line, key.Position.Column}
		name := strings.ToLower(key.Value)
		switch {
		case slices.Contains(fields(), key.Value):
		case strings.Contains(name, "key") || strings.Contains(name, "token") || strings.Contains(name, "secret") || strings.Contains(name, "password"):
			return &placed{at, "a key does not belong into a file; put it into a variable and write its name: key_env: LAB_API_KEY"}
		default:
			return &placed{at, fmt.Sprintf("a provider has no %.40q%s", key.Value, suggest.Hint(key.Value, fields()))}
		}
	}
	at := e.at
	if err := yaml.NodeToValue(n, (*plainEntry)(e)); err != nil {
		return err
	}
	e.at = at
	return nil
}

var errConfig = errors.New("the configuration is mistaken")

// decode reads the file as it is written. References are refused, since a few of them can be
// worth gigabytes.
func (c *config) decode(b []byte) (entries map[string]entry, err error) {
	defer func() {
		if recover() != nil { // of the library
			c.wrong(place{1, 1}, "this is not YAML")
			entries, err = nil, errConfig
		}
	}()
	depth := 0
	for _, t := range lexer.Tokenize(string(b)) {
		at := place{t.Position.Line, t.Position.Column}
		switch t.Type {
		case token.AnchorType, token.AliasType, token.TagType, token.MergeKeyType:
			c.wrong(at, "references and tags are not for this file")
			return nil, errConfig
		case token.MappingStartType, token.SequenceStartType, token.SequenceEntryType, token.MappingKeyType:
			if depth++; depth > 10*maxProviders {
				c.wrong(at, "this is nested too deep")
				return nil, errConfig
			}
		}
	}
	err = yaml.Unmarshal(b, &entries)
	if err == nil {
		return entries, nil
	}
	var known *placed
	var syntax yaml.Error
	switch {
	case errors.As(err, &known):
		c.wrong(known.at, "%s", known.why)
	case errors.As(err, &syntax) && syntax.GetToken() != nil && syntax.GetToken().Position != nil:
		p := syntax.GetToken().Position
		what, _, _ := strings.Cut(syntax.GetMessage(), ": ") // behind it is what was read, perhaps a key
		c.wrong(place{p.Line, p.Column}, "%.200s", what)
	default:
		c.wrong(place{1, 1}, "want providers by name, each with its base_url")
	}
	return nil, errConfig
}

var (
	providerName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`)
	variableName = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,63}$`) // keys have small letters or dashes
	headerName   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,63}$`)
)

// provider checks one entry.
func (c *config) provider(name string, e *entry) Provider {
	out := Provider{
		Name: name, BaseURL: strings.TrimSpace(e.BaseURL.value), Protocol: cmp.Or(e.Protocol.value, OpenAI),
		KeyEnv: e.KeyEnv.value, Model: e.Model.value,
	}
	if !providerName.MatchString(name) || name == offline.Name || name == "cassette" {
		c.wrong(e.at, "%.40q is no name for a provider; want small letters, digits and dashes", name)
	}
	if out.BaseURL == "" {
		c.wrong(e.at, "%.40s: base_url is missing", name)
	} else if err := checkURL(out.BaseURL); err != nil {
		c.wrong(e.BaseURL.at, "%.40s: %v", name, err)
	}
	if p := []string{OpenAI, Anthropic, Gemini}; !slices.Contains(p, out.Protocol) {
		c.wrong(e.Protocol.at, "%.40s: want the protocol openai, anthropic or gemini%s", name, suggest.Hint(shorten(out.Protocol), p))
	}
	if out.KeyEnv != "" && !variableName.MatchString(out.KeyEnv) {
		c.wrong(e.KeyEnv.at, "%.40s: key_env wants the name of a variable such as LAB_API_KEY, and not the key", name)
	}
	if out.Model != shorten(out.Model) {
		c.wrong(e.Model.at, "%.40s: this is no name of a model", name)
	}
	c.headers(&out, e)
	return out
}

func (c *config) headers(out *Provider, e *entry) {
	if len(e.Headers) > maxHeaders {
		c.wrong(e.at, "%.40s: there are more than %d headers", out.Name, maxHeaders)
		return
	}
	for header, from := range e.Headers {
		variable, ok := strings.CutPrefix(from.value, "env:")
		switch {
		case !headerName.MatchString(header) || reserved(header):
			c.wrong(from.at, "%.40s: %.40q is no header to set; the key has its own, by key_env", out.Name, shorten(header))
		case !ok || !variableName.MatchString(variable):
			c.wrong(from.at, "%.40s: the value of a header comes from a variable: env:LAB_TEAM", out.Name)
		default:
			if out.Headers == nil {
				out.Headers = map[string]string{}
			}
			out.Headers[header] = variable
		}
	}
}

// reserved are the headers that a request has anyway.
func reserved(name string) bool {
	name = strings.ToLower(name)
	return slices.Contains([]string{
		"authorization", "x-api-key", "x-goog-api-key", "api-key", "host", "cookie", "content-type", "content-length", "content-encoding",
		"accept-encoding", "connection", "transfer-encoding", "te", "trailer", "upgrade", "idempotency-key", "expect",
	}, name) || strings.HasPrefix(name, "proxy-")
}
