package acp

import (
	"slices"
	"strings"
)

// A Command starts an agent that speaks the Agent Client Protocol on its standard input and output.
type Command struct {
	Name string   // what users call it: "opencode" in the model acp:opencode
	Argv []string // the program, found on PATH unless it is a path, and its arguments
	Env  []string // further variables, as NAME=value
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
	return []Command{
		{Name: "codex", Argv: []string{"codex-acp"}, Mode: "read-only", Login: "codex login", Asks: true},
		{Name: "copilot", Argv: []string{"copilot", "--acp"}, Login: "copilot login"},
		{Name: "gemini", Argv: []string{"gemini", "--acp", "--model", "gemini-2.5-pro"}, Mode: "default", Login: "gemini", Asks: true},
		{Name: "opencode", Argv: []string{"opencode", "acp"}, Login: "opencode auth login", Asks: true,
			Env:      []string{opencodeVariable + "=" + opencodeConfig, "OPENCODE_DISABLE_AUTOUPDATE=1"},
			withOurs: []string{opencodeVariable + "=" + opencodeOurs, "OPENCODE_DISABLE_PROJECT_CONFIG=1"}},
		{Name: "qwen", Argv: []string{"qwen", "--acp"}, Mode: "default", Login: "qwen", Asks: true},
	}
}

// opencodeVariable holds a configuration of opencode as JSON.
const opencodeVariable = "OPENCODE_CONFIG_CONTENT"

// environ returns the variables of the agent's process.
func (c *Command) environ(own []string) []string {
	out := slices.Clone(own)
	for _, v := range c.Env {
		name, value, _ := strings.Cut(v, "=")
		i := slices.IndexFunc(out, func(o string) bool { return strings.HasPrefix(o, name+"=") })
		switch {
		case i < 0:
			out = append(out, v)
		case name == opencodeVariable: // what must hold is added to what the user wants
			out[i] = name + "=" + merge(strings.TrimPrefix(out[i], name+"="), value)
		default:
			out[i] = v
		}
	}
	return out
}
