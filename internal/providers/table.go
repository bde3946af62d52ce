package providers

import (
	"slices"
	"strings"
)

// The names of the protocols that providers speak, and of those who made them.
const (
	nameOpenAI    = "openai"
	nameResponses = "responses" // OpenAI's other one
	nameAnthropic = "anthropic"
	nameGemini    = "gemini"
)

// endpoint is a provider: where it is, what it speaks and where its key is found.
type endpoint struct {
	name, also  string // also is another name of it
	protocol    string
	base        string
	baseEnv     string   // the variable with another address, "" for none
	keys        []string // the variables with its key, the first that is set
	keyOptional bool
	headers     map[string]string // further ones, to the variables with their values
	local       bool              // a server that usually runs on this machine
	own         bool              // of the user's configuration
	standard    string            // the model to use when none is named, "" for none
	newest      string            // the same as a word for the table, which may know a newer one
	vendor      string            // what OpenRouter calls the maker, "" for none
	replay      bool              // it wants its reasoning back
}

// keyName returns the variable to set.
func (e *endpoint) keyName() string {
	if len(e.keys) == 0 {
		return ""
	}
	return e.keys[0]
}

func (e *endpoint) headerNames() []string {
	var names []string
	for n := range e.headers {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// remoteKey returns a provider on the network with a key.
func remoteKey(name, base, standard, vendor string) endpoint {
	upper := strings.ToUpper(name)
	return endpoint{
		name: name, protocol: nameOpenAI, base: base, baseEnv: upper + "_BASE_URL", keys: []string{upper + "_API_KEY"},
		standard: standard, vendor: vendor,
	}
}

// localServer returns a server on this machine that needs no key. It gets one if there is a
// variable for it and that is set.
func localServer(name, base string, keys ...string) endpoint {
	return endpoint{
		name: name, protocol: nameOpenAI, base: base, baseEnv: strings.ToUpper(name) + "_BASE_URL", keys: keys,
		keyOptional: true, local: true,
	}
}

// builtin returns the providers known by name. With a key, the first one is used when no model is
// named; of those that run on this machine, the first one that answers.
func builtin() []endpoint {
	anthropic := remoteKey("anthropic", "https://api.anthropic.com", "claude-sonnet-5-5", "anthropic")
	anthropic.protocol, anthropic.newest = nameAnthropic, "sonnet"
	gemini := remoteKey("gemini", "https://generativelanguage.googleapis.com/v1beta", "gemini-3.8-flash", "google")
	gemini.protocol, gemini.also, gemini.keys = nameGemini, "google", []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}
	deepseek := remoteKey("deepseek", "https://api.deepseek.com", "deepseek-chat", "deepseek")
	deepseek.replay = true
	return []endpoint{
		remoteKey("openai", "https://api.openai.com/v1", "gpt-5.4-mini", "openai"),
		anthropic,
		gemini,
		remoteKey("openrouter", "https://openrouter.ai/api/v1", "openai/gpt-5.4-mini", ""),
		deepseek,
		remoteKey("mistral", "https://api.mistral.ai/v1", "mistral-medium-latest", "mistralai"),
		remoteKey("groq", "https://api.groq.com/openai/v1", "llama-3.3-70b-versatile", ""),
		remoteKey("xai", "https://api.x.ai/v1", "grok-4", "x-ai"),
		localServer("ollama", "http://127.0.0.1:11434/v1"), // OLLAMA_API_KEY is the key of its cloud
		localServer("lmstudio", "http://127.0.0.1:1234/v1"),
		localServer("llamacpp", "http://127.0.0.1:8080/v1", "LLAMACPP_API_KEY"),
		localServer("vllm", "http://127.0.0.1:8000/v1", "VLLM_API_KEY"),
	}
}

// families returns the beginnings of the names of models, or whole names before the dash, and who
// makes them.
func families() [][2]string {
	return [][2]string{
		{"claude-", "anthropic"},
		{"gpt-oss", ""}, // of many providers, and not of its maker
		{"gpt-", "openai"}, {"chatgpt-", "openai"}, {"codex-", "openai"}, {"o1-", "openai"}, {"o3-", "openai"}, {"o4-", "openai"},
		{"gemini-", "gemini"},
		{"deepseek-", "deepseek"},
		{"mistral-", "mistral"}, {"ministral-", "mistral"}, {"magistral-", "mistral"}, {"codestral-", "mistral"}, {"devstral-", "mistral"}, {"pixtral-", "mistral"},
		{"grok-", "xai"},
	}
}

// tiers returns the words by which agent definitions name Anthropic's models.
func tiers() map[string]string {
	return map[string]string{"sonnet": "sonnet", "opus": "opus", "haiku": "haiku", "opusplan": "opus"}
}
