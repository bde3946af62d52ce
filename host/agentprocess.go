package host

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2/maybe"

	"github.com/superstep-dev/superstep/agent/acp"
	"github.com/superstep-dev/superstep/tool/permit"
	"github.com/superstep-dev/superstep/tool/sandbox"
)

// confine opens the sandbox of a process of an external agent. It returns nil if the user wants no sandbox for commands.
func (h *Host) confine(c *acp.Command, dir string) (*sandbox.Sandbox, error) {
	p, err := h.project()
	if err != nil {
		return nil, err
	}
	policy, err := p.policy()
	if err != nil {
		return nil, err
	}
	folders := slices.Clone(c.Needs.Write)
	if own := h.atHome("~/.config/" + c.Name); slices.ContainsFunc(c.Needs.Read, func(name string) bool { return within(own, name) }) {
		folders = append(folders, own) // it makes its own where it has a home folder of its own, but Landlock gives it none
	}
	for _, name := range folders {
		if filepath.IsAbs(name) { // those of the table; the user makes those that they name
			if err := os.MkdirAll(name, 0o700); err != nil {
				return nil, err
			}
		}
	}
	s, err := p.openSandbox(policy, &c.Needs)
	if s == nil || err != nil {
		return nil, err
	}
	if s.Mode() == sandbox.None {
		return nil, errors.Join(fmt.Errorf("it needs a sandbox, and this system has %s; to let it work with your rights, write `sandbox: off` for it into %s",
			s, filepath.Join(h.ConfigDir(), agentsFile)), s.Close())
	}
	if dir != p.dir {
		return s.In(dir)
	}
	return s, nil
}

// atHome returns the path that a name such as "~/.config/x" has for this user, whose variables may name other folders.
func (h *Host) atHome(name string) string {
	for variable, folder := range map[string]string{"XDG_CONFIG_HOME": "~/.config/", "XDG_DATA_HOME": "~/.local/share/", "XDG_STATE_HOME": "~/.local/state/"} {
		if rest, ok := strings.CutPrefix(name, folder); ok && filepath.IsAbs(h.cfg.Env(variable)) {
			return filepath.Join(h.cfg.Env(variable), rest)
		}
	}
	if rest, ok := strings.CutPrefix(name, "~/"); ok && h.Home() != "" {
		return filepath.Join(h.Home(), rest)
	}
	return name
}

// unallowedError is the cause of the error for an agent that the user has not allowed yet.
type unallowedError struct{ agent ModelAgent }

func (e *unallowedError) Error() string { return e.agent.Name + " is not allowed" }

// Unallowed returns the external agent that the user has to allow to get past an error, or nil if the error has another cause.
func (h *Host) Unallowed(err error) *ModelAgent {
	if e, ok := errors.AsType[*unallowedError](err); ok {
		return &e.agent
	}
	return nil
}

// AllowAgent lets runs use an external agent, by an entry in the user's file, and returns the path of the file.
func (h *Host) AllowAgent(name string) (string, error) {
	name, path := strings.TrimPrefix(name, acp.Prefix), filepath.Join(h.ConfigDir(), agentsFile)
	all, err := h.outsiders()
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(all, func(o outside) bool { return o.Name == name })
	if i < 0 {
		return "", h.noAgent(name, all)
	}
	if all[i].own {
		return path, nil
	}
	text, err := readFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", mistake(fmt.Sprintf("%s %v", path, err))
	}
	if line := name + ": {}\n"; len(text) > 0 && !strings.HasSuffix(string(text), "\n") {
		text = append(text, "\n"+line...)
	} else {
		text = append(text, line...)
	}
	if _, err := parseOutsiders(path, text, all); err != nil {
		return "", mistake(fmt.Sprintf("%s: write the line `%s: {}` into it yourself; its form is not one that can be added to", path, name))
	}
	if err := os.MkdirAll(h.ConfigDir(), 0o700); err != nil {
		return "", err
	}
	return path, maybe.WriteFile(path, text, 0o600)
}

// modelAgent describes an external agent.
func (h *Host) modelAgent(o *outside) ModelAgent {
	path, missing := h.find(o)
	off, _ := h.sandboxOff() // what is wrong with the settings is told where they are used
	return ModelAgent{Name: acp.Prefix + o.Name, Command: cmp.Or(path, o.Argv[0]), Installed: missing == nil, SignedIn: h.signedIn(o), Login: o.Login, Asks: o.Asks,
		Sandboxed: !o.Needs.Off && !off, Allowed: o.own}
}

// signedIn reports whether the user is signed in to an agent, as far as files and variables tell.
func (h *Host) signedIn(o *outside) string {
	var files, keys []string
	switch o.Name {
	case "codex":
		files, keys = []string{"~/.codex/auth.json"}, []string{"OPENAI_API_KEY", "CODEX_API_KEY"}
	case "copilot": // it may keep its token in the system's keyring
		if h.cfg.Env("COPILOT_GITHUB_TOKEN")+h.cfg.Env("GH_TOKEN")+h.cfg.Env("GITHUB_TOKEN") == "" {
			return "unknown"
		}
		return "yes"
	case "gemini":
		files, keys = []string{"~/.gemini/oauth_creds.json"}, []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}
	case "opencode":
		files, keys = []string{"~/.local/share/opencode/auth.json"}, o.Keys
	case "qwen":
		files, keys = []string{"~/.qwen/oauth_creds.json"}, []string{"OPENAI_API_KEY", "DASHSCOPE_API_KEY"}
	default:
		return "unknown"
	}
	for _, name := range files {
		if info, err := os.Stat(h.atHome(name)); err == nil && info.Size() > 2 { // more than {}
			return "yes"
		}
	}
	if slices.ContainsFunc(keys, func(name string) bool { return strings.HasSuffix(name, "_KEY") && h.cfg.Env(name) != "" }) {
		return "yes"
	}
	return "no"
}

// vendorFolders returns the folders that known external agents keep what they run and obey in. A project has them under the same names.
func vendorFolders() []permit.Protected {
	var out []permit.Protected
	for _, c := range acp.Known() {
		for _, name := range slices.Concat(c.Needs.Write, c.Needs.Read) {
			rel, ok := strings.CutPrefix(name, "~/.")
			if !ok {
				continue
			}
			first, rest, _ := strings.Cut(rel, "/")
			if first = "." + first; first == ".local" || first == ".config" || first == ".cache" {
				first += "/" + rest
			}
			out = append(out, permit.Protected{Path: "**/" + first + "/", Why: "what the agent " + c.Name + " reads"})
		}
	}
	return out
}
