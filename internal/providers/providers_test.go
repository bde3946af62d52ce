package providers_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/internal/prices"
	"github.com/superstep-dev/superstep/internal/providers"
	"github.com/superstep-dev/superstep/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// env is an environment, and servers that are not there unless it says otherwise: this machine
// may have some.
type env map[string]string

func (e env) get(name string) string {
	if v, ok := e[name]; ok {
		return v
	}
	for _, server := range []string{"OLLAMA", "LMSTUDIO", "LLAMACPP", "VLLM"} {
		if name == server+"_BASE_URL" {
			return "http://127.0.0.1:1/v1"
		}
	}
	return ""
}

func Example() {
	p := providers.New(&providers.Options{
		Env: env{"OPENROUTER_API_KEY": "…"}.get,
	})
	name, note, _ := p.Resolve("sonnet", "offline")
	fmt.Println(name)
	fmt.Println(note)
	// Output:
	// openrouter/anthropic/claude-sonnet-5.5
	// sonnet is asked for by openrouter, because anthropic needs an API key
}

func TestResolve(t *testing.T) {
	t.Parallel()
	all := env{"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k", "GOOGLE_API_KEY": "k", "MISTRAL_API_KEY": "k", "XAI_API_KEY": "k", "DEEPSEEK_API_KEY": "k"}
	router := env{"OPENROUTER_API_KEY": "k"}
	own := []providers.Provider{{Name: "lab", BaseURL: "https://lab.example/v1", Model: "large"}, {Name: "shy", BaseURL: "https://shy.example/v1", KeyEnv: "SHY_KEY"}}
	for _, c := range []struct {
		env                  env
		name, fallback, want string
		note                 bool
	}{
		{all, "", "x/y", "x/y", false},
		{all, "inherit", "x/y", "x/y", false},
		{all, "Default", "", "", false},
		{all, "offline", "x/y", "offline", false},
		{all, "sonnet", "", "anthropic/claude-sonnet-5-5", false},
		{all, "Opus", "", "anthropic/claude-opus-5-5", false},
		{all, "haiku", "", "anthropic/claude-haiku-5-5", false},
		{all, "opusplan", "", "anthropic/claude-opus-5-5", false},
		{all, "sonnet[1m]", "", "anthropic/claude-sonnet-5-5", false},
		{all, "claude-sonnet-4-5", "", "anthropic/claude-sonnet-4-5", false},
		{all, "claude-sonnet-4-5-20250929", "", "anthropic/claude-sonnet-4-5-20250929", false},
		{all, "claude-future-9", "", "anthropic/claude-future-9", false},
		{all, "gpt-5", "", "openai/gpt-5", false},
		{all, "o3", "", "openai/o3", false},
		{all, "gemini-2.5-pro", "", "gemini/gemini-2.5-pro", false},
		{all, "google/gemini-2.5-pro", "", "gemini/gemini-2.5-pro", false},
		{all, "ANTHROPIC/claude-opus-4-1", "", "anthropic/claude-opus-4-1", false},
		{all, "GPT-4.1 (copilot)", "", "openai/gpt-4.1", false},
		{all, "GPT-5 mini (copilot)", "", "openai/gpt-5-mini", false},
		{all, "GPT-5 (Preview) (copilot)", "", "openai/gpt-5", false},
		{all, "Claude Sonnet 4.5 (copilot)", "", "anthropic/claude-sonnet-4-5", false},
		{all, "Gemini 2.5 Pro (GitHub Copilot)", "", "gemini/gemini-2.5-pro", false},
		{all, "Gemini 3 Pro (copilot)", "", "gemini/gemini-3-pro-preview", false},
		{all, "Grok Code Fast 1 (copilot)", "", "xai/grok-code-fast-1", false},
		{all, "codestral-latest", "", "mistral/codestral-latest", false},
		{all, "deepseek-chat", "", "deepseek/deepseek-chat", false},
		{all, "openai", "", "openai/gpt-5.4-mini", false},
		{all, "anthropic", "", "anthropic/claude-sonnet-5-5", false},
		{all, "lab", "", "lab/large", false},
		{all, "lab/small", "", "lab/small", false},
		{all, "lab/a/b", "", "lab/a/b", false},
		{all, "shy/x", "offline", "offline", true},
		{all, "ollama/qwen3:8b", "", "ollama/qwen3:8b", false},
		{router, "sonnet", "x/y", "openrouter/anthropic/claude-sonnet-5.5", true},
		{router, "claude-3-5-haiku-20241022", "x/y", "openrouter/anthropic/claude-3.5-haiku", true},
		{router, "gpt-5", "x/y", "openrouter/openai/gpt-5", true},
		{router, "openai/gpt-5", "x/y", "openrouter/openai/gpt-5", true},
		{router, "grok-4", "", "openrouter/x-ai/grok-4", true},
		{router, "qwen/qwen3-max", "", "openrouter/qwen/qwen3-max", true},
		{env{}, "sonnet", "ollama/x", "ollama/x", true},
		{env{}, "anthropic/claude-opus-4-5", "offline", "offline", true},
	} {
		p := providers.New(&providers.Options{Env: c.env.get, Config: own})
		got, note, err := p.Resolve(c.name, c.fallback)
		if got != c.want || (note != "") != c.note || err != nil {
			t.Errorf("%q (else %q) is %q (%q, %v), want %q", c.name, c.fallback, got, note, err, c.want)
		}
	}
	for _, c := range []struct {
		env        env
		name, want string
		hint       string
	}{
		{all, "sonet", `there is no model "sonet"; did you mean "sonnet"?`, "configured here: openai (OPENAI_API_KEY)"},
		{all, "opnai/gpt-5", `did you mean "openai/gpt-5"?`, "provider/model"},
		{all, "gtp-5", `did you mean "gpt-5"?`, "--model offline"},
		{all, "qwen/qwen3-max", `there is no model "qwen/qwen3-max"`, ""},
		{all, "gpt-oss-20b", `there is no model "gpt-oss-20b"`, ""},
		{all, "a\x1b[31mb\n", `there is no model "ab"`, ""},
		{all, strings.Repeat("x", 1<<20), "there is no model", ""},
		{all, "ollama", "which model of ollama?", "name it as ollama/NAME"},
		{env{}, "sonnet", "model anthropic/claude-sonnet-5-5 needs an API key", "or set OPENROUTER_API_KEY, which has it too"},
		{env{}, "openai/gpt-5", "model openai/gpt-5 needs an API key", "set OPENAI_API_KEY"},
	} {
		got, _, err := providers.New(&providers.Options{Env: c.env.get}).Resolve(c.name, "")
		var e *providers.Error
		if got != "" || !errors.As(err, &e) || !strings.Contains(e.Message, c.want) || !strings.Contains(strings.Join(e.Hints, "\n"), c.hint) || len(e.Message) > 300 {
			t.Errorf("%.40q is %q: %v %q", c.name, got, err, e)
		}
	}
}

// Every layer, each hiding those below it.
func TestChoose(t *testing.T) {
	t.Parallel()
	ollama := listing(t, `{"models": [{"name": "nomic-embed-text:latest"}, {"name": "big:cloud"}, {"name": "qwen3:8b"}]}`, "/api/tags")
	studio := listing(t, `{"object": "list", "data": [{"id": "text-embedding-nomic"}, {"id": "gemma-3"}]}`, "/v1/models")
	e := env{}
	o := providers.Options{Env: e.get}
	expect := func(name string, layer, why string) {
		t.Helper()
		got := providers.New(&o).Choose(t.Context())
		if got.Name != name || got.Layer != layer || !strings.Contains(got.Why, why) {
			t.Errorf("got %+v, want %s by %s", got, name, layer)
		}
	}
	expect("offline", providers.ByDefault, "no model is configured; only research uses it unasked")
	e["LMSTUDIO_BASE_URL"] = studio + "/v1"
	expect("lmstudio/gemma-3", "server", "lmstudio runs at 127.0.0.1:")
	e["OLLAMA_BASE_URL"] = ollama + "/v1"
	expect("ollama/qwen3:8b", "server", "ollama runs at")
	o.Config = []providers.Provider{{Name: "lab", BaseURL: "https://lab.example/v1", Model: "large", KeyEnv: "LAB_KEY"}}
	expect("ollama/qwen3:8b", "server", "")
	e["LAB_KEY"] = "k"
	expect("lab/large", "key", "providers.yaml")
	for _, s := range [][2]string{
		{"XAI_API_KEY", "xai/grok-4"},
		{"GROQ_API_KEY", "groq/llama-3.3-70b-versatile"},
		{"MISTRAL_API_KEY", "mistral/mistral-medium-latest"},
		{"DEEPSEEK_API_KEY", "deepseek/deepseek-chat"},
		{"OPENROUTER_API_KEY", "openrouter/openai/gpt-5.4-mini"},
		{"GEMINI_API_KEY", "gemini/gemini-3.8-flash"},
		{"ANTHROPIC_API_KEY", "anthropic/claude-sonnet-5-5"},
		{"OPENAI_API_KEY", "openai/gpt-5.4-mini"},
	} {
		e[s[0]] = "k"
		expect(s[1], "key", s[0]+" is set")
	}
	o.Offline = true
	expect("ollama/qwen3:8b", "server", "")
	o.Offline = false
	o.UserModel = "sonnet"
	expect("anthropic/claude-sonnet-5-5", "user", "your configuration")
	o.ProjectModel = "openai/o3"
	expect("openai/o3", "project", "the project")
	e["SUPERSTEP_MODEL"] = "nonsense"
	expect("nonsense", "environment", "SUPERSTEP_MODEL")
	e["SUPERSTEP_MODEL"] = "inherit"
	expect("openai/o3", "project", "the project")
	e["SUPERSTEP_MODEL"] = " google/gemini-3-pro-preview "
	expect("gemini/gemini-3-pro-preview", "environment", "")
	o.Model = "offline"
	expect("offline", "flag", "--model")
}

// listing is a server with one page.
func listing(t *testing.T, answer, at string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != at || r.Method != http.MethodGet || r.Header.Get("Authorization") != "" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func turn(m model.Model) (*model.Response, error) {
	return model.Collect(m.Generate(context.Background(), &model.Request{Messages: []model.Message{model.UserText("hello")}}), nil)
}

func TestOpen(t *testing.T) {
	t.Parallel()
	server := modeltest.NewServer(t, func(*modeltest.ParsedRequest) modeltest.Reply { return modeltest.Text("hi") }, nil)
	table, err := prices.Parse("t", []byte("date: 2026-01-01\nmodels:\n  lab/large: {in: 1, out: 2, window: 1000}\n"))
	if err != nil {
		t.Fatal(err)
	}
	o := &providers.Options{
		Env:    env{"LAB_KEY": "key-of-the-lab", "TEAM": "blue", "OLLAMA_BASE_URL": server.URL}.get,
		Prices: table,
		Config: []providers.Provider{{Name: "lab", BaseURL: server.URL + "/", KeyEnv: "LAB_KEY", Model: "large", Headers: map[string]string{"X-Team": "TEAM"}}},
	}
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	o.HTTPClient = client
	p := providers.New(o)
	m, err := p.Open("lab")
	if err != nil {
		t.Fatal(err)
	}
	if r, err := turn(m); err != nil || r.Message.Text() != "hi" || m.Name() != "lab/large" {
		t.Errorf("%s: %v, %v", m.Name(), r, err)
	}
	if h := server.Requests()[0].Header; h.Get("Authorization") != "Bearer key-of-the-lab" || h.Get("X-Team") != "blue" {
		t.Errorf("sent %v", h)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if s := fmt.Sprintf(verb+verb+verb, m, p, *o); strings.Contains(s, "key-of-the-lab") || strings.Contains(s, "blue") {
			t.Errorf("%s shows %s", verb, s)
		}
	}
	if price, known := price(m); !known || price.Out != 2 {
		t.Errorf("it costs %+v, known %t", price, known)
	}
	if sized, ok := m.(model.Sized); !ok {
		t.Error("it does not say how much it holds")
	} else if w, known := sized.Window(); !known || w != 1000 {
		t.Errorf("it holds %d", w)
	}
	local, err := p.Open("ollama/qwen3:8b")
	if err != nil {
		t.Fatal(err)
	}
	if price, known := price(local); !known || price != (model.Price{}) {
		t.Errorf("a model of this machine costs %+v, known %t", price, known)
	}
	if cloud, err := p.Open("ollama/big:cloud"); err != nil {
		t.Error(err)
	} else if _, known := price(cloud); known {
		t.Error("a model of the cloud is free")
	}
	if m, err := p.Open("offline"); err != nil || m.Name() != "offline" {
		t.Error(m, err)
	}
	for _, c := range []struct {
		name, want string
		offline    bool
	}{
		{"none", `there is no model "none"`, false},
		{"openai/gpt-5", "model openai/gpt-5 needs an API key", false},
		{"openai/gpt-5", "is at api.openai.com, which --offline forbids", true},
		{"ollama/big:cloud", "runs in the cloud, which --offline forbids", true},
		{"ollama/", "which model of ollama?", false},
		{"bad/x", "the base URL must not have a user or a password", false},
		{"headless/x", "needs the variable HEAD", false},
	} {
		o := *o
		o.Offline = c.offline
		o.Config = []providers.Provider{{Name: "bad", BaseURL: "https://u:s3cr3t@h.example/v1"}, {Name: "headless", BaseURL: "https://h.example", Headers: map[string]string{"X-Head": "HEAD"}}}
		m, err := providers.New(&o).Open(c.name)
		var e *providers.Error
		if m != nil || !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: %v, %v", c.name, m, err)
		}
	}
}

func price(m model.Model) (model.Price, bool) {
	if p, ok := m.(model.Priced); ok {
		return p.Price()
	}
	return model.Price{}, false
}

// recorder notes what would be sent where, and sends nothing.
type recorder struct {
	mu   sync.Mutex
	seen map[string]string // hosts to all that was sent there
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	body, _ := io.ReadAll(req.Body)
	r.seen[req.URL.Host] += req.URL.String() + fmt.Sprint(req.Header) + string(body)
	return &http.Response{StatusCode: http.StatusTeapot, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
}

// A key is sent to the host it belongs to and to no other, whatever else is configured.
func TestKeysStayHome(t *testing.T) {
	t.Parallel()
	homes := map[string]string{
		"openai": "api.openai.com", "anthropic": "api.anthropic.com", "gemini": "generativelanguage.googleapis.com",
		"openrouter": "openrouter.ai", "deepseek": "api.deepseek.com", "mistral": "api.mistral.ai", "groq": "api.groq.com",
		"xai": "api.x.ai", "lab": "lab.example", "mirror": "mirror.example", "ollama": "127.0.0.1:1", "lmstudio": "127.0.0.1:1", "vllm": "127.0.0.1:1",
	}
	e := env{}
	for name := range homes {
		e[strings.ToUpper(name)+"_API_KEY"] = "canary-" + name
	}
	r := &recorder{seen: map[string]string{}}
	p := providers.New(&providers.Options{Env: e.get, HTTPClient: &http.Client{Transport: r}, Config: []providers.Provider{
		{Name: "lab", BaseURL: "https://lab.example/v1", KeyEnv: "LAB_API_KEY"},
		{Name: "mirror", BaseURL: "https://mirror.example/v1", Protocol: "anthropic"}, // has no key, and gets none
	}})
	for name := range homes {
		m, err := p.Open(name + "/m")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := turn(m); err == nil || strings.Contains(err.Error(), "canary-") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, home := range homes {
		sent := name != "mirror" && name != "ollama" && name != "lmstudio"
		if strings.Contains(r.seen[home], "canary-"+name) != sent {
			t.Errorf("the key of %s went to %s: %t, want %t", name, home, !sent, sent)
		}
		for host, text := range r.seen {
			if host != home && strings.Contains(text, "canary-"+name) {
				t.Errorf("the key of %s went to %s", name, host)
			}
		}
	}
	if len(r.seen) != 11 {
		t.Errorf("asked %d hosts", len(r.seen))
	}
}

// OpenAI itself is asked for responses, and so is who is said to have them; all others for chat completions.
func TestResponses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		base string // of the variable
		own  []providers.Provider
		want string
	}{
		{"", nil, "https://api.openai.com/v1/responses"},
		{"https://eu.api.openai.com/v1/", nil, "https://eu.api.openai.com/v1/responses"},
		{"https://api.openai.com.example/v1", nil, "https://api.openai.com.example/v1/chat/completions"},
		{"http://127.0.0.1:1/v1", nil, "http://127.0.0.1:1/v1/chat/completions"},
		{"", []providers.Provider{{Name: "openai", BaseURL: "https://api.openai.com/v1"}}, "https://api.openai.com/v1/chat/completions"},
		{"", []providers.Provider{{Name: "openai", BaseURL: "https://lab.example/v1", Protocol: "responses"}}, "https://lab.example/v1/responses"},
	} {
		r := &recorder{seen: map[string]string{}}
		p := providers.New(&providers.Options{
			Env: env{"OPENAI_API_KEY": "canary", "OPENAI_BASE_URL": c.base}.get, HTTPClient: &http.Client{Transport: r}, Config: c.own,
		})
		m, err := p.Open("openai/gpt-5")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = turn(m)
		if sent := fmt.Sprint(r.seen); !strings.Contains(sent, c.want+"map[") {
			t.Errorf("%q and %+v: sent %s, want %s", c.base, c.own, sent, c.want)
		}
	}
}

// An entry of the user hides the built-in provider, and its key with it.
func TestOwnEntryHidesBuiltin(t *testing.T) {
	t.Parallel()
	r := &recorder{seen: map[string]string{}}
	p := providers.New(&providers.Options{
		Env:        env{"OPENAI_API_KEY": "canary", "OPENAI_BASE_URL": "https://elsewhere.example/v1"}.get,
		HTTPClient: &http.Client{Transport: r},
		Config:     []providers.Provider{{Name: "openai", BaseURL: "https://proxy.example/v1"}},
	})
	m, err := p.Open("openai/gpt-5")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = turn(m)
	if len(r.seen) != 1 || r.seen["proxy.example"] == "" || strings.Contains(r.seen["proxy.example"], "canary") {
		t.Errorf("sent %v", r.seen)
	}
}

// A server that redirects is not followed to another host, by no protocol.
func TestRedirectsTakeNoKey(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var thief []string
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		thief = append(thief, fmt.Sprint(r.URL, r.Header))
	}))
	defer other.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		first := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL+r.URL.Path, status)
		}))
		for _, protocol := range []string{"openai", "responses", "anthropic", "gemini"} {
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			p := providers.New(&providers.Options{
				Env: env{"KEY": "canary"}.get, HTTPClient: client,
				Config: []providers.Provider{{Name: "first", BaseURL: first.URL, Protocol: protocol, KeyEnv: "KEY"}},
			})
			m, err := p.Open("first/m")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := turn(m); err == nil || strings.Contains(err.Error(), "canary") {
				t.Errorf("%s, %d: %v", protocol, status, err)
			}
		}
		first.Close()
	}
	if len(thief) > 0 {
		t.Errorf("another host was asked: %s", thief)
	}
}

// blackhole is the address of a server that takes connections and says nothing.
func blackhole(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return "http://" + l.Addr().String() + "/v1"
}

func TestList(t *testing.T) {
	t.Parallel()
	ollama := listing(t, `{"models": [{"name": "qwen3:8b"}]}`, "/api/tags")
	locked := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer locked.Close()
	e := env{"OLLAMA_BASE_URL": ollama + "/v1", "LMSTUDIO_BASE_URL": blackhole(t), "LLAMACPP_BASE_URL": blackhole(t), "VLLM_BASE_URL": locked.URL + "/v1", "GROQ_API_KEY": "k", "XAI_BASE_URL": "http://u:s3cr3t@h"}
	p := providers.New(&providers.Options{Env: e.get, Config: []providers.Provider{{Name: "lab", BaseURL: "https://lab.example/v1"}}})
	found := map[string]providers.Found{}
	for _, f := range p.List(t.Context()) {
		found[f.Name] = f
	}
	if c := p.Choose(t.Context()); c.Name != "groq/llama-3.3-70b-versatile" {
		t.Errorf("%+v", c)
	}
	if f := found["ollama"]; !f.Configured || len(f.Models) != 1 || f.Models[0].Name != "ollama/qwen3:8b" || f.Models[0].Price == nil {
		t.Errorf("%+v", f)
	}
	for name, want := range map[string]string{
		"lmstudio": "no answer within 300ms", "vllm": "it runs and wants a key", "openai": "set OPENAI_API_KEY", "gemini": "set GEMINI_API_KEY", "xai": "correct XAI_BASE_URL",
	} {
		if f := found[name]; f.Configured || f.By != "" || !strings.Contains(f.Missing, want) {
			t.Errorf("%+v, want %q", f, want)
		}
	}
	if f := found["groq"]; !f.Configured || f.By != "GROQ_API_KEY" || len(f.Models) < 10 || f.Models[0].Price == nil || f.Models[0].Window == 0 || f.Standard == "" {
		t.Errorf("%+v", f)
	}
	if f := found["lab"]; !f.Configured || !f.Own || f.By != "providers.yaml" || f.BaseURL != "https://lab.example/v1" {
		t.Errorf("%+v", f)
	}
	if s := fmt.Sprintf("%+v", found); strings.Contains(s, "s3cr3t") {
		t.Error(s)
	}
}

// quickest is the time of the best of three: the machine may be busy with something else.
func quickest(f func()) time.Duration {
	best := time.Hour
	for range 3 {
		start := time.Now()
		f()
		best = min(best, time.Since(start))
	}
	return best
}

const probeTime = 300 * time.Millisecond // servers on this machine have to answer in

// Four servers that say nothing take as long as one.
func TestProbesAreParallel(t *testing.T) {
	t.Parallel()
	e := env{"OLLAMA_BASE_URL": blackhole(t), "LMSTUDIO_BASE_URL": blackhole(t), "LLAMACPP_BASE_URL": blackhole(t), "VLLM_BASE_URL": blackhole(t)}
	took := quickest(func() {
		if c := providers.New(&providers.Options{Env: e.get}).Choose(t.Context()); c.Layer != providers.ByDefault {
			t.Errorf("%+v", c)
		}
	})
	if took < probeTime-50*time.Millisecond || took > faults.Bound(probeTime*3/2) {
		t.Errorf("it took %s", took)
	}
}

// What was looked for by List is not looked for again by Choose.
func TestListThenChoose(t *testing.T) {
	t.Parallel()
	e := env{"LMSTUDIO_BASE_URL": blackhole(t), "VLLM_BASE_URL": listing(t, `{"data": [{"id": "m"}]}`, "/v1/models") + "/v1"}
	took := quickest(func() {
		p := providers.New(&providers.Options{Env: e.get})
		p.List(t.Context())
		if c := p.Choose(t.Context()); c.Name != "vllm/m" {
			t.Errorf("%+v", c)
		}
	})
	if took > faults.Bound(probeTime*3/2) {
		t.Errorf("it took %s", took)
	}
}

// Looking at what there is asks nobody but this machine, whatever is configured.
func TestListStaysHere(t *testing.T) {
	t.Parallel()
	r := &recorder{seen: map[string]string{}}
	e := env{"OLLAMA_BASE_URL": "http://192.0.2.1:11434/v1", "LMSTUDIO_BASE_URL": "http://[2001:db8::1]/v1", "LLAMACPP_BASE_URL": "http://models.example/v1", "OPENAI_API_KEY": "k", "XAI_API_KEY": "k"}
	for _, offline := range []bool{false, true} {
		p := providers.New(&providers.Options{Env: e.get, HTTPClient: &http.Client{Transport: r}, Offline: offline, Config: []providers.Provider{{Name: "lab", BaseURL: "https://lab.example/v1", Model: "m"}}})
		took := quickest(func() {
			for _, f := range p.List(t.Context()) {
				if home := strings.HasPrefix(f.BaseURL, "http://127.0.0.1"); offline && !home && (f.Configured || !strings.Contains(f.Missing, "which --offline forbids")) {
					t.Errorf("%+v", f)
				}
			}
		})
		if took > faults.Bound(probeTime/2) {
			t.Errorf("it took %s, as if somebody far away had been asked", took)
		}
	}
	if len(r.seen) > 0 {
		t.Errorf("asked %v", r.seen)
	}
}

// What a server says is not trusted.
func TestListingsAreChecked(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		`<html>`:           "something else answers there",
		`{}`:               "something else answers there",
		`{"models": null}`: "something else answers there",
		`{"models": []}`:   "it runs, and has no model",
		`{"models": [{"name": "a\u001b[31m"}, {"name": ""}, {"name": "x y"}, {"name": "$(id)"}]}`: "it runs, and has no model",
		`{"models": [{"name": "` + strings.Repeat("x", 2<<20) + `"}]}`:                            "something else answers there",
	} {
		p := providers.New(&providers.Options{Env: env{"OLLAMA_BASE_URL": listing(t, answer, "/api/tags") + "/v1"}.get})
		for _, f := range p.List(t.Context()) {
			if f.Name == "ollama" && (f.Missing != want || len(f.Models) > 0) {
				t.Errorf("%.40s: %+v", answer, f)
			}
		}
	}
}
