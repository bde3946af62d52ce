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

	"github.com/superstep-dev/superstep/internal/frontmatter"
	"github.com/superstep-dev/superstep/internal/offline"
	"github.com/superstep-dev/superstep/internal/prices"
	"github.com/superstep-dev/superstep/internal/suggest"
)

// A Provider is a provider that the user configured. It holds no secrets, only the names of the
// variables that hold them.
type Provider struct {
	Name     string            // the first half of the names of its models
	BaseURL  string            // as the provider documents it for the protocol
	Protocol string            // openai, responses, anthropic or gemini; defaults to openai
	KeyEnv   string            // the variable with its API key, "" if it needs none
	Model    string            // the model to use when only the provider is named, "" for none
	Headers  map[string]string // further headers, to the variables with their values
}

// endpoint returns the endpoint of the provider. It replaces a built-in one of the same name
// completely.
func (c *Provider) endpoint() endpoint {
	e := endpoint{
		name: c.Name, protocol: cmp.Or(c.Protocol, nameOpenAI), base: strings.TrimRight(c.BaseURL, "/"),
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

// Load reads the providers that the user configured, from the file providers.yaml in the
// configuration folder. Without the file there are none.
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
	c := &config{}
	var out []Provider
	if len(b) > maxConfig {
		c.wrong(1, 1, "a configuration of providers is at most %d KiB", maxConfig>>10)
	} else if root, refused, err := frontmatter.Tree(b, nil); err != nil {
		if e, ok := errors.AsType[*frontmatter.Error](err); ok {
			c.wrong(e.Line, e.Col, "%.200s", e.Text)
		}
	} else {
		for _, e := range refused {
			c.wrong(e.Line, e.Col, "%.200s", e.Text)
		}
		if root.Kind != frontmatter.Map && root.Kind != frontmatter.Null {
			c.wrong(root.Line, root.Col, "want providers by name, each with its base_url")
		}
		for _, f := range root.Fields {
			out = append(out, c.provider(f))
		}
	}
	if len(out) > maxProviders {
		c.wrong(1, 1, "there are more than %d providers", maxProviders)
	}
	if len(c.problems) > 0 {
		slices.SortFunc(c.problems, func(a, b prices.Problem) int { return cmp.Or(a.Line-b.Line, a.Col-b.Col) })
		return nil, &prices.Error{File: file, Problems: c.problems}
	}
	slices.SortFunc(out, func(a, b Provider) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// config is what is known of a configuration while it is read.
type config struct {
	problems []prices.Problem
}

func (c *config) wrong(line, col int, format string, args ...any) {
	c.problems = append(c.problems, prices.Problem{Line: max(1, line), Col: max(1, col), Text: shortText(fmt.Sprintf(format, args...))})
}

func (c *config) bad(v *frontmatter.Value, format string, args ...any) {
	c.wrong(v.Line, v.Col, format, args...)
}

// text returns the text of a value. A value of another kind is a mistake.
func (c *config) text(v *frontmatter.Value) string {
	if v.Kind != frontmatter.Text {
		c.bad(v, "want a text")
	}
	return v.Text
}

var (
	providerName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`)
	variableName = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,63}$`) // keys have small letters or dashes
	headerName   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,63}$`)
)

// provider reads one entry. It refuses the fields by which people try to write a key.
func (c *config) provider(entry frontmatter.Field) Provider {
	name, before := entry.Key, len(c.problems)
	out := Provider{Name: name, Protocol: nameOpenAI}
	if !providerName.MatchString(name) || name == offline.Name {
		c.wrong(entry.Line, entry.Col, "%.40q is no name for a provider; want small letters, digits and dashes", name)
	}
	if entry.Value.Kind != frontmatter.Map {
		c.bad(entry.Value, "want what the provider is, at least its base_url")
	}
	for _, f := range entry.Value.Fields {
		key := strings.ToLower(f.Key)
		switch f.Key {
		case "base_url":
			if out.BaseURL = strings.TrimSpace(c.text(f.Value)); out.BaseURL == "" {
				continue
			}
			if err := checkURL(out.BaseURL); err != nil {
				c.bad(f.Value, "%.40s: %v", name, err)
			}
		case "protocol":
			out.Protocol = cmp.Or(c.text(f.Value), nameOpenAI)
			if p := []string{nameOpenAI, nameResponses, nameAnthropic, nameGemini}; !slices.Contains(p, out.Protocol) {
				c.bad(f.Value, "%.40s: want the protocol openai, responses, anthropic or gemini%s", name, suggest.Hint(shorten(out.Protocol), p))
			}
		case "key_env":
			if out.KeyEnv = c.text(f.Value); out.KeyEnv != "" && !variableName.MatchString(out.KeyEnv) {
				c.bad(f.Value, "%.40s: key_env wants the name of a variable such as LAB_API_KEY, and not the key", name)
			}
		case "model":
			if out.Model = c.text(f.Value); out.Model != shorten(out.Model) {
				c.bad(f.Value, "%.40s: this is no name of a model", name)
			}
		case "headers":
			c.headers(&out, f.Value)
		default:
			if strings.Contains(key, "key") || strings.Contains(key, "token") || strings.Contains(key, "secret") || strings.Contains(key, "password") {
				c.wrong(f.Line, f.Col, "a key does not belong into a file; put it into a variable and write its name: key_env: LAB_API_KEY")
				continue
			}
			c.wrong(f.Line, f.Col, "a provider has no %.40q%s", f.Key, suggest.Hint(f.Key, []string{"base_url", "protocol", "key_env", "model", "headers"}))
		}
	}
	if out.BaseURL == "" && len(c.problems) == before {
		c.bad(entry.Value, "%.40s: base_url is missing", name)
	}
	return out
}

func (c *config) headers(out *Provider, v *frontmatter.Value) {
	if v.Kind != frontmatter.Map || len(v.Fields) > maxHeaders {
		c.bad(v, "%.40s: want headers and variables such as X-Team: env:LAB_TEAM, at most %d", out.Name, maxHeaders)
		return
	}
	for _, f := range v.Fields {
		variable, ok := strings.CutPrefix(c.text(f.Value), "env:")
		switch {
		case !headerName.MatchString(f.Key) || reserved(f.Key):
			c.bad(f.Value, "%.40s: %.40q is no header to set; the key has its own, by key_env", out.Name, shorten(f.Key))
		case !ok || !variableName.MatchString(variable):
			c.bad(f.Value, "%.40s: the value of a header comes from a variable: env:LAB_TEAM", out.Name)
		default:
			if out.Headers == nil {
				out.Headers = map[string]string{}
			}
			out.Headers[f.Key] = variable
		}
	}
}

// reserved lists the headers that every request has already.
func reserved(name string) bool {
	name = strings.ToLower(name)
	return slices.Contains([]string{
		"authorization", "x-api-key", "x-goog-api-key", "api-key", "host", "cookie", "content-type", "content-length", "content-encoding",
		"accept-encoding", "connection", "transfer-encoding", "te", "trailer", "upgrade", "idempotency-key", "expect",
	}, name) || strings.HasPrefix(name, "proxy-")
}
