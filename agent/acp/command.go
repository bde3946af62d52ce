package acp

import (
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/procgroup"
	"github.com/superstep-dev/superstep/tool/sandbox"
)

// A Command starts an agent that speaks the Agent Client Protocol on its standard input and output.
type Command struct {
	Name string   // what users call it: "opencode" in the model acp:opencode
	Argv []string // the program, found on PATH unless it is a path, and its arguments
	Env  []string // further variables, as NAME=value
	// Keys are the user's variables that it is given besides those for paths and languages: names, or beginnings of names before a "*".
	Keys []string
	// Needs is what it may do in the sandbox of Options besides working in its folder. What is in Read is not written, even within Write.
	Needs sandbox.Needs
	// Mode is the session mode to force, such as "default" where the agent starts in a mode in which it approves its own calls. "" leaves the mode.
	Mode string
	// Login is the command that signs in.
	Login string
	// Asks reports that the agent is known to ask before it acts, with the configuration of Env and Mode.
	Asks bool

	withOurs []string // variables that take its own tools away, where it gets ours
}

// Prefix begins the names of external agents where a model is named: "acp:opencode".
const Prefix = "acp:"

// opencodeConfig makes opencode ask before it acts, and takes its sub-agents away: their permission requests do not reach a client, so that the turn
// would hang for ever (anomalyco/opencode #48232).
const opencodeConfig = `{"permission":{"task":"deny","edit":"ask","bash":"ask","webfetch":"ask","external_directory":"ask","doom_loop":"ask"},"share":"disabled","autoupdate":false}`

// opencodeOurs denies the own tools of opencode but for its list of tasks, by name as well, since a user's word about one of them would outweigh "*". The
// settings of a project could allow them again.
const opencodeOurs = `{"permission":{"*":"deny","bash":"deny","codesearch":"deny","edit":"deny","glob":"deny","grep":"deny","list":"deny","lsp":"deny","question":"deny",` +
	`"read":"deny","skill":"deny","task":"deny","webfetch":"deny","websearch":"deny","todoread":"allow","todowrite":"allow","` + serverName + `_*":"allow"}}`

// Known returns the agents that can be named without configuring them.
func Known() []Command {
	all := []Command{
		{Name: "codex", Argv: []string{"codex-acp"}, Mode: "read-only", Login: "codex login", Asks: true,
			Env: []string{`CODEX_CONFIG={"features":{"multi_agent":false}}`}}, // no sub-agents
		{Name: "copilot", Argv: []string{"copilot", "--acp"}, Login: "copilot login"},
		{Name: "gemini", Argv: []string{"gemini", "--acp", "--model", "gemini-2.5-pro"}, Mode: "default", Login: "gemini", Asks: true},
		{Name: "opencode", Argv: []string{"opencode", "acp"}, Login: "opencode auth login", Asks: true,
			Env:      []string{"OPENCODE_CONFIG_CONTENT=" + opencodeConfig, "OPENCODE_DISABLE_AUTOUPDATE=1"},
			withOurs: []string{"OPENCODE_CONFIG_CONTENT=" + opencodeOurs, "OPENCODE_DISABLE_PROJECT_CONFIG=1"}},
		{Name: "qwen", Argv: []string{"qwen", "--acp", "--exclude-tools", "agent"}, Mode: "default", Login: "qwen", Asks: true,
			Env: []string{"QWEN_CODE_DISABLE_CRON=1", "QWEN_CODE_DISABLE_WORKFLOWS=1"}},
	}
	for i := range all {
		all[i].equip()
	}
	return all
}

// equip sets what a known agent needs: its own folders, its keys, and the network, because it is not known which hosts it is configured for. Its
// configuration is not written: what it names is executed when the user starts the agent outside of the sandbox.
func (c *Command) equip() {
	c.Needs.Network = []string{"*"}
	switch c.Name {
	case "codex":
		c.Keys = []string{"CODEX_*", "OPENAI_API_KEY", "OPENAI_BASE_URL"}
		c.Needs.Write, c.Needs.Read = []string{"~/.codex"}, []string{"~/.codex/config.toml", "~/.codex/rules"}
	case "copilot":
		c.Keys = []string{"COPILOT_*", "GH_TOKEN", "GITHUB_TOKEN"}
		c.Needs.Write, c.Needs.Read = []string{"~/.copilot"}, []string{"~/.copilot/mcp-config.json", "~/.copilot/agents"}
	case "gemini":
		c.Keys = []string{"GEMINI_*", "GOOGLE_*"}
		c.Needs.Write, c.Needs.Read = []string{"~/.gemini"}, []string{"~/.gemini/settings.json", "~/.gemini/extensions", "~/.gemini/commands"}
	case "opencode":
		c.Keys = []string{"OPENCODE_*", "ANTHROPIC_API_KEY", "DEEPSEEK_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY", "GROQ_API_KEY", "MISTRAL_API_KEY",
			"OPENAI_API_KEY", "OPENROUTER_API_KEY", "XAI_API_KEY"}
		c.Needs.Write, c.Needs.Read = []string{"~/.local/share/opencode", "~/.local/state/opencode"}, []string{"~/.local/share/opencode/bin"}
		for _, name := range []string{"config.json", "opencode.json", "opencode.jsonc", "AGENTS.md", "agent", "agents", "command", "commands", "mode", "modes", "plugin",
			"plugins", "skill", "skills", "tool", "tools"} { // it does not start if it cannot write files of its own beside these
			c.Needs.Read = append(c.Needs.Read, "~/.config/opencode/"+name)
		}
	case "qwen":
		c.Keys = []string{"QWEN_*", "DASHSCOPE_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL"}
		c.Needs.Write, c.Needs.Read = []string{"~/.qwen"}, []string{"~/.qwen/settings.json", "~/.qwen/extensions", "~/.qwen/commands"}
	}
}

// environ returns the variables of the agent's process, from the user's.
func (c *Command) environ(user []string) []string {
	out := procgroup.Base(user)
	keys := append([]string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "XDG_STATE_HOME"}, c.Keys...)
	for _, v := range user {
		name, _, _ := strings.Cut(v, "=")
		if slices.ContainsFunc(keys, func(key string) bool {
			begin, some := strings.CutSuffix(key, "*")
			return strings.EqualFold(key, name) || some && strings.HasPrefix(name, begin)
		}) {
			out = append(out, v)
		}
	}
	for _, v := range c.Env {
		name, value, _ := strings.Cut(v, "=")
		i := slices.IndexFunc(out, func(o string) bool { return strings.HasPrefix(o, name+"=") })
		switch {
		case i < 0:
			out = append(out, v)
		case strings.HasPrefix(value, "{"): // a configuration in JSON: what must hold is added to what the user wants
			out[i] = name + "=" + merge(strings.TrimPrefix(out[i], name+"="), value)
		default:
			out[i] = v
		}
	}
	return out
}
