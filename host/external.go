package host

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/agent/acp"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/definition"
	"github.com/superstep-dev/superstep/internal/frontmatter"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/model"
)

// agentsFile is the file in the user's configuration folder with commands of external agents. A project has no such file: it could start anything.
const agentsFile = "agents.yaml"

// A ModelAgent is an agent of another program that can do the work of agents. It is used only where it is named.
type ModelAgent struct {
	Name      string `json:"name"` // as it is named in place of a model
	Command   string `json:"command"`
	Installed bool   `json:"installed"`
	SignedIn  string `json:"signed_in"`       // "yes", "no" or "unknown", as its files and variables tell
	Login     string `json:"login,omitempty"` // the command that signs in
	Asks      bool   `json:"asks"`            // it is known to ask before it acts
	Sandboxed bool   `json:"sandboxed"`
	Allowed   bool   `json:"allowed"` // by the user, once
}

// State describes the agent in words.
func (a *ModelAgent) State() string {
	if !a.Installed {
		return "not installed"
	}
	words := []string{"installed"}
	switch a.SignedIn {
	case "yes":
		words = append(words, "signed in")
	case "no":
		words = append(words, "no sign-in found ("+a.Login+")")
	}
	if a.Asks {
		words = append(words, "asks before it acts")
	}
	if !a.Sandboxed {
		words = append(words, "outside of the sandbox")
	}
	if !a.Allowed {
		words = append(words, "not allowed yet")
	}
	return strings.Join(words, ", ")
}

// outside is an external agent with its settings.
type outside struct {
	acp.Command
	endpoint string // of its model
	own      bool   // of the user's file, by which they allow it
	ownTools bool   // it gets none of ours
}

// outsiders returns the external agents: the known ones, with what the user's file changes of them, and those of the file.
func (h *Host) outsiders() ([]outside, error) {
	var out []outside
	for _, c := range acp.Known() {
		for _, list := range [][]string{c.Needs.Read, c.Needs.Write} {
			for i := range list {
				list[i] = h.atHome(list[i])
			}
		}
		out = append(out, outside{Command: c})
	}
	if h.ConfigDir() == "" {
		return out, nil
	}
	path := filepath.Join(h.ConfigDir(), agentsFile)
	b, err := readFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, mistake(fmt.Sprintf("%s %v", path, err))
	}
	if out, err = parseOutsiders(path, b, out); err != nil {
		return nil, mistaken(err)
	}
	slices.SortFunc(out, func(a, b outside) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// parseOutsiders reads agents by name, and adds them to those that are known:
//
//	lab:
//	  command: [lab-agent, --acp]
//	  mode: default
//	  env: {LAB_PROFILE: work}
//	  keys: [LAB_TOKEN]
//	  login: lab-agent login
//	  endpoint: http://127.0.0.1:8080
//	  tools: own
//	  write: [~/.lab]
//	  network: [api.example.com]
//	opencode: {}
func parseOutsiders(path string, b []byte, out []outside) (_ []outside, err error) {
	var wrong []error
	bad := func(line, col int, format string, args ...any) {
		wrong = append(wrong, fmt.Errorf("%s: %s", clean.Place(path, line, col), fmt.Sprintf(format, args...)))
	}
	root, refused, err := frontmatter.Tree(b, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, e := range refused {
		bad(e.Line, e.Col, "%s", e.Text)
	}
	if root.Kind != frontmatter.Map && root.Kind != frontmatter.Null {
		bad(root.Line, root.Col, "want agents by name, each with its command")
	}
	for _, entry := range root.Fields {
		o := outside{Command: acp.Command{Name: entry.Key}}
		o.Needs.Network = []string{"*"}
		known := slices.IndexFunc(out, func(k outside) bool { return k.Name == entry.Key })
		if known >= 0 {
			o = out[known]
			out = slices.Delete(out, known, known+1)
		}
		o.own = true
		if unfit.MatchString(entry.Key) || entry.Key == "" {
			bad(entry.Line, entry.Col, "%q is no name for an agent; use letters, digits and dashes", entry.Key)
		}
		text := func(f frontmatter.Field) string {
			if f.Value.Kind != frontmatter.Text {
				bad(f.Value.Line, f.Value.Col, "%s: want a text", f.Key)
			}
			return f.Value.Text
		}
		texts := func(f frontmatter.Field) (out []string) {
			words, ok := f.Value.Words(false)
			if !ok {
				bad(f.Value.Line, f.Value.Col, "%s: want a list of texts", f.Key)
			}
			for _, w := range words {
				out = append(out, w.Text)
			}
			return out
		}
		for _, f := range entry.Value.Fields {
			switch f.Key {
			case "command":
				if o.Argv = nil; f.Value.Kind == frontmatter.List {
					o.Argv = texts(f)
				}
			case "keys":
				o.Keys = append(o.Keys, texts(f)...)
			case "network", "read", "write":
				if f.Key == "network" {
					o.Needs.Network = nil
				}
				for _, v := range texts(f) {
					if err := o.Needs.Add(f.Key, v); err != nil {
						bad(f.Value.Line, f.Value.Col, "%v", err)
					}
				}
			case "sandbox":
				switch f.Value.Text {
				case "off", "false":
					o.Needs.Off = true
				case "on", "true":
					o.Needs.Off = false
				default:
					bad(f.Value.Line, f.Value.Col, "sandbox: want on or off")
				}
			case "mode":
				o.Mode = text(f)
			case "login":
				o.Login = text(f)
			case "endpoint":
				o.endpoint = text(f)
			case "tools":
				if o.ownTools = text(f) == ownTools; !o.ownTools {
					bad(f.Value.Line, f.Value.Col, "tools: want %q, or nothing for those of Superstep", ownTools)
				}
			case "env":
				for _, v := range f.Value.Fields {
					o.Env = append(o.Env, v.Key+"="+v.Value.Text)
				}
			default:
				bad(f.Line, f.Col, "an agent has no %q%s", f.Key,
					suggest.Hint(f.Key, []string{"command", "mode", "env", "keys", "login", "endpoint", "network", "read", "write", "sandbox", "tools"}))
			}
		}
		if len(o.Argv) == 0 || o.Argv[0] == "" {
			bad(entry.Line, entry.Col, "%s has no command; write it as a list, such as command: [lab-agent, --acp]", entry.Key)
		}
		out = append(out, o)
	}
	return out, errors.Join(wrong...)
}

// external returns the agent of a name that begins with "acp:", to work in a folder. It starts nothing.
func (h *Host) external(name, dir string) (model.Model, error) {
	if h.cfg.Replay {
		return model.Named(name), nil
	}
	all, err := h.outsiders()
	if err != nil {
		return nil, err
	}
	short := strings.TrimPrefix(name, acp.Prefix)
	i := slices.IndexFunc(all, func(o outside) bool { return o.Name == short })
	if i < 0 {
		return nil, h.noAgent(short, all)
	}
	o := &all[i]
	if h.cfg.Offline && !loopback(o.endpoint) {
		return nil, mistake(fmt.Sprintf("%s would use the network, and --offline refuses that; set its endpoint in %s if its model is on this machine", name, agentsFile))
	}
	path, err := h.find(o)
	if err != nil {
		return nil, mistake(fmt.Sprintf("%s is not installed: %v", name, err))
	}
	if !o.own {
		return nil, &Error{Code: superstep.CodeDenied, Err: &unallowedError{h.modelAgent(o)},
			Message: fmt.Sprintf("%s is another program, %s, and you have not allowed it yet; allow it with: %s models allow %s", name, path, h.cfg.Name, o.Name)}
	}
	h.all.mu.Lock()
	defer h.all.mu.Unlock()
	if h.all.agents == nil {
		h.all.agents = acp.NewPool(&acp.Options{Environ: h.cfg.Environ, Processes: h.cfg.AgentProcesses, Turn: h.cfg.TurnTimeout, Limit: h.cfg.TurnTimeout / 2,
			Sandbox: h.confine, Notice: h.cfg.Warn})
	}
	return h.all.agents.Model(o.Command, dir), nil
}

// noAgent returns the error for a name that no agent has.
func (h *Host) noAgent(name string, all []outside) error {
	names := make([]string, len(all))
	for i, o := range all {
		names[i] = o.Name
	}
	return mistake(fmt.Sprintf("there is no external agent %q%s (its command would be in %s)", name, suggest.Hint(name, names), filepath.Join(h.ConfigDir(), agentsFile)))
}

func (h *Host) find(o *outside) (string, error) { return h.Program(o.Argv[0]) }

// loopback reports whether an address is on this machine.
func loopback(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// ownModel is Model for work that needs a model that is asked turn by turn, and no agent.
func (h *Host) ownModel(name string) (model.Model, error) {
	m, err := h.Model(name)
	if err == nil && isExternal(m.Name()) {
		return nil, NoModel(m.Name() + " is an agent and no model, and this workflow has agents of its own")
	}
	return m, err
}

// ownTools stands in place of tools where an external agent keeps its own.
const ownTools = "own"

// keepsTools reports whether an external agent works with its own tools, and gets none of ours.
func (h *Host) keepsTools(name string, d *definition.Definition) bool {
	if slices.Equal(d.Tools, []string{ownTools}) {
		return true
	}
	all, err := h.outsiders()
	return err == nil && slices.ContainsFunc(all, func(o outside) bool { return acp.Prefix+o.Name == name && o.ownTools })
}

// isExternal reports whether a model is an external agent, by its name.
func isExternal(name string) bool { return strings.HasPrefix(name, acp.Prefix) }

// modelAgents returns the external agents that are installed, and those of the user's file.
func (h *Host) modelAgents() ([]ModelAgent, error) {
	all, err := h.outsiders()
	var out []ModelAgent
	for i := range all {
		if a := h.modelAgent(&all[i]); a.Installed || a.Allowed {
			out = append(out, a)
		}
	}
	return out, err
}
