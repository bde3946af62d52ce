package providers_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/prices"
	"github.com/superstep-dev/superstep/internal/providers"
)

const configured = `# the lab's own
lab:
  base_url: https://llm.lab.example/v1
  key_env: LAB_API_KEY
  model: large
  headers:
    X-Team: env:LAB_TEAM
alone: {base_url: "http://10.0.0.7:8000", protocol: anthropic}
`

func TestConfig(t *testing.T) {
	t.Parallel()
	want := []providers.Provider{
		{Name: "alone", BaseURL: "http://10.0.0.7:8000", Protocol: "anthropic"},
		{Name: "lab", BaseURL: "https://llm.lab.example/v1", Protocol: "openai", KeyEnv: "LAB_API_KEY", Model: "large", Headers: map[string]string{"X-Team": "LAB_TEAM"}},
	}
	dir := t.TempDir()
	if got, err := providers.Load(dir); got != nil || err != nil {
		t.Error(got, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "providers.yaml"), []byte(configured), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := providers.Load(dir)
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(err, d)
	}
	for _, nothing := range []string{"", "# nothing\n", "{}"} {
		if got, err := providers.ParseConfig("p", []byte(nothing)); len(got) > 0 || err != nil {
			t.Errorf("%q: %v, %v", nothing, got, err)
		}
	}
}

func TestConfigMistakes(t *testing.T) {
	t.Parallel()
	head := "lab:\n  base_url: https://lab.example/v1\n"
	for _, c := range []struct{ name, text, want string }{
		{"no address", "lab: {model: x}\n", "base_url is missing"},
		{"nothing", "lab:\n", "p:1:"},
		{"key", head + "  api_key: sk-s3cr3t\n", "p:3:3: a key does not belong into a file"},
		{"token", head + "  auth_token: sk-s3cr3t\n", "p:3:3: a key does not belong into a file"},
		{"key for its variable", head + "  key_env: sk-s3cr3t\n", "p:3:12: lab: key_env wants the name of a variable"},
		{"another key", head + "  key_env: AIzaS3cr3ts3cr3t\n", "key_env wants the name of a variable"},
		{"header", head + "  headers: {X-Team: s3cr3t}\n", "p:3:21: lab: the value of a header comes from a variable"},
		{"authorization", head + "  headers: {Authorization: env:KEY}\n", `lab: "Authorization" is no header to set`},
		{"header of two lines", head + "  headers: {\"X\\nY\": env:KEY}\n", "is no header to set"},
		{"user", "lab: {base_url: \"https://u:s3cr3t@lab.example\"}\n", "the base URL must not have a user or a password"},
		{"query", "lab: {base_url: \"https://lab.example?key=s3cr3t\"}\n", "the base URL must not have a query"},
		{"scheme", "lab: {base_url: \"file:///etc/passwd\"}\n", "the base URL must be like"},
		{"protocol", head + "  protocol: opnai\n", `lab: want the protocol openai, responses, anthropic or gemini; did you mean "openai"?`},
		{"field", head + "  base: x\n", `p:3:3: a provider has no "base"`},
		{"name", "Lab!: {base_url: https://lab.example}\n", "is no name for a provider"},
		{"taken", "offline: {base_url: https://lab.example}\n", "is no name for a provider"},
		{"twice", head + head, "p:3:1:"},
		{"number", head + "  model: 7\n", "p:3:10: want a text"},
		{"list", "- lab\n", "p:1:"},
		{"text", "lab\n", "p:1:"},
		{"reference", "a: &a {base_url: https://lab.example}\nb: *a\n", "p:1:4: YAML aliases are not allowed"},
		{"tag", "a: !!map {base_url: https://lab.example}\n", "YAML tags are not allowed"},
		{"broken", "lab: [\n", "p:1:"},
		{"escape", "\"l\\e[31m\": {base_url: https://lab.example}\n", "is no name for a provider"},
		{"deep", strings.Repeat("[", 30<<10), "p:1:"},
		{"dashes", strings.Repeat("- ", 15<<10), "p:1:"},
		{"size", strings.Repeat("# x\n", 16<<10), "at most 32 KiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			got, err := providers.ParseConfig("p", []byte(c.text))
			var e *prices.Error
			if got != nil || !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) || strings.Contains(strings.ToLower(err.Error()), "s3cr3t") || strings.Contains(err.Error(), "\x1b") {
				t.Errorf("got %v, %v, want %s", got, err, c.want)
			}
			if took := time.Since(start); took > faults.Bound(5*time.Second) {
				t.Errorf("it took %s", took)
			}
		})
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(configured))
	for _, s := range []string{"", "a: {base_url: 'http://h'}", `{"a":{"base_url":"http://h","headers":{"X-A":"env:B"}}}`, "a: &x\n<<: *x", "? a\n: b", "a:\n- b", "a: |\n x"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := providers.ParseConfig("f", b)
		if err != nil && got != nil {
			t.Fatal(got, err)
		}
		for _, p := range got {
			if p.Name == "" || p.BaseURL == "" || p.KeyEnv != strings.ToUpper(p.KeyEnv) {
				t.Errorf("%+v", p)
			}
		}
	})
}

func FuzzResolve(f *testing.F) {
	p := providers.New(&providers.Options{Env: env{"OPENAI_API_KEY": "k", "OPENROUTER_API_KEY": "k"}.get})
	for _, s := range []string{"", "sonnet", "GPT-4.1 (copilot)", "a/b", "claude-3-5-haiku-20241022", "/", "openai/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got, note, err := p.Resolve(name, "x/y")
		if (got == "") == (err == nil) || strings.ContainsAny(note, "\x1b\n") || err != nil && strings.ContainsAny(err.Error(), "\x1b\n") {
			t.Errorf("%q is %q (%q, %v)", name, got, note, err)
		}
	})
}
