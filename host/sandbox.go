package host

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/catalog/trust"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/frontmatter"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/mcp"
	"github.com/superstep-dev/superstep/tool/permit"
	"github.com/superstep-dev/superstep/tool/sandbox"
)

// sandboxSettings are the user's settings for the sandbox in permissions.yaml: "sandbox: required",
// or
//
//	sandbox:
//	  mode: required   # auto, which is the default; required refuses to start without one; off uses none
//	  auto: true       # commands that stay in it are not asked about
//	  read: [~/data]
//	  write: [~/go/pkg/mod]
type sandboxSettings struct {
	mode        string // "" is auto
	auto        bool
	read, write []string
	where       string
}

const (
	sandboxAuto     = "auto"
	sandboxRequired = "required"
	sandboxOff      = "off"
)

func (r *reader) sandbox(f frontmatter.Field) {
	s := &r.f.sandbox
	s.where = clean.Place(r.f.path, f.Line, f.Col)
	if f.Value.Kind == frontmatter.Text {
		r.sandboxMode(f.Value)
		return
	}
	if f.Value.Kind != frontmatter.Map {
		r.wrong(f.Value.Line, f.Value.Col, "sandbox: want auto, required or off, or a map with mode, auto, read and write")
		return
	}
	known := []string{"mode", "auto", "read", "write"}
	for _, x := range f.Value.Fields {
		switch x.Key {
		case "mode":
			r.sandboxMode(x.Value)
		case "auto":
			on, ok := x.Value.Bool()
			if !ok {
				r.wrong(x.Value.Line, x.Value.Col, "sandbox: auto: want true or false")
			}
			s.auto = on
		case "read":
			s.read = r.folders(x)
		case "write":
			s.write = r.folders(x)
		default:
			r.wrong(x.Line, x.Col, "sandbox: unknown setting %q%s; there are: %s", x.Key, suggest.Hint(x.Key, known), strings.Join(known, ", "))
		}
	}
}

func (r *reader) sandboxMode(v *frontmatter.Value) {
	modes := []string{sandboxAuto, sandboxRequired, sandboxOff}
	// YAML 1.1 reads off as false.
	text := v.Text
	if on, ok := v.Bool(); ok && !on {
		text = sandboxOff
	}
	if !slices.Contains(modes, text) {
		r.wrong(v.Line, v.Col, "sandbox: want auto, required or off, not %q", text)
		return
	}
	r.f.sandbox.mode = text
}

func (r *reader) folders(f frontmatter.Field) []string {
	if f.Value.Kind != frontmatter.List {
		r.wrong(f.Value.Line, f.Value.Col, "sandbox: %s: want a list of folders, such as [~/data]", f.Key)
		return nil
	}
	var out []string
	for _, v := range f.Value.Items {
		if v.Kind != frontmatter.Text || !filepath.IsAbs(v.Text) && (!strings.HasPrefix(v.Text, "~/") || filepath.Clean(v.Text) == "~") {
			r.wrong(v.Line, v.Col, "sandbox: %s: want an absolute folder, or one that begins with ~/; the home folder itself cannot be given", f.Key)
			continue
		}
		out = append(out, v.Text)
	}
	return out
}

// sandboxed returns the user's settings of the sandbox.
func (p *project) sandboxed() (set sandboxSettings) {
	if p.settings.user != nil {
		set = p.settings.user.sandbox
	}
	set.auto = set.auto || p.of != ""
	return set
}

// openSandbox creates the sandbox for this project's commands by the user's settings. If the user wants no sandbox, it returns
// nil. For an external agent, own is what it needs besides the project: in the folders that it writes nothing is hidden or protected but what it may only
// read, and Landlock cannot except that. Close it.
func (p *project) openSandbox(policy *permit.Policy, own *sandbox.Needs) (s *sandbox.Sandbox, err error) {
	set := p.sandboxed()
	if set.mode == sandboxOff {
		return nil, nil
	}
	home := trust.Resolved(p.h.Home()) // the folder is without links, too
	if p.dir != "" && p.dir == home {
		return nil, fmt.Errorf("commands could read and write all of the home folder %s: start Superstep in the folder of a project", p.h.Home())
	}
	o := &sandbox.Options{Root: p.dir, Home: p.h.Home(), Environ: p.h.cfg.Environ, Temp: p.h.Temp(), Private: p.h.private(), Warn: p.h.cfg.Warn}
	if p.dir != "" && slices.ContainsFunc(o.Private, func(own string) bool { return trust.Resolved(own) == p.dir }) {
		return nil, fmt.Errorf("commands could change what Superstep itself keeps in %s: start Superstep in the folder of a project", p.dir)
	}
	if p.h.Home() != "" && within(p.dir, home) { // a folder that holds the home folder, which is hidden with all in it
		o.Private = append(slices.DeleteFunc(o.Private, func(own string) bool { return within(home, own) }), home)
	}
	for _, x := range []struct {
		from []string
		to   *[]string
	}{{set.read, &o.Policy.Read}, {set.write, &o.Policy.Write}} {
		for _, name := range x.from {
			if rest, ok := strings.CutPrefix(name, "~"); ok {
				name = filepath.Join(p.h.Home(), rest)
			}
			*x.to = append(*x.to, name)
		}
	}
	if repository := repositoryOf(p.dir); repository != "" {
		o.Policy.Read = append(o.Policy.Read, repository)
	}
	if policy != nil {
		o.Policy.Network, o.Protect, o.Hide, o.Masks = policy.Network(), policy.Unwritable, p.hidden(policy), policy.Folders()
	}
	if own != nil {
		place := func(name string) string {
			name = p.h.atHome(name)
			return filepath.Join(trust.Resolved(filepath.Dir(name)), filepath.Base(name))
		}
		var folders, kept []string // without links, as the sandbox names what it finds
		for _, name := range own.Write {
			folders = append(folders, trust.Resolved(p.h.atHome(name))+string(filepath.Separator))
		}
		for _, name := range own.Read {
			kept = append(kept, place(name))
		}
		protect, hide := o.Protect, o.Hide
		mine := func(path string) bool {
			return slices.ContainsFunc(folders, func(dir string) bool { return strings.HasPrefix(path, dir) })
		}
		o.Hide = func(path string) bool { return !mine(path) && hide(path) }
		o.Protect = func(path string) bool {
			if !mine(path) {
				return protect(path)
			}
			return s.Mode() == sandbox.Namespaces && slices.Contains(kept, path)
		}
	}
	if p.dir != "" {
		o.Cache = filepath.Join(p.h.CacheDir(), "sandbox", digestOf(p.origin()))
	}
	if s, err = sandbox.New(o); err != nil {
		return nil, err
	}
	if set.mode == sandboxRequired && s.Mode() == sandbox.None {
		return nil, fmt.Errorf("%s: a sandbox is required, and this system has %s; change that line to run commands without one, or use a Linux "+
			"or macOS system that has one", set.where, s)
	}
	return s, nil
}

// hidden returns a function that reports whether reading a file of the project requires asking. Commands must
// not read such a file.
func (p *project) hidden(policy *permit.Policy) func(string) bool {
	return func(name string) bool {
		rel, err := filepath.Rel(p.dir, name)
		return err == nil && policy.Secret(filepath.ToSlash(rel)).Decision != tool.Allow
	}
}

func digestOf(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return hex.EncodeToString(sum[:8])
}

// startsCommands reports whether any usable tool or server starts programs.
func (p *project) startsCommands() bool {
	if p.dir != "" && p.shell() {
		return true
	}
	return len(p.Scripts()) > 0 || slices.ContainsFunc(p.Servers(), func(s *mcp.Server) bool { return s.Transport == mcp.Stdio })
}

// confinement describes a sandbox to the permission rules.
func confinement(s *sandbox.Sandbox, set sandboxSettings) permit.Confinement {
	switch {
	case set.mode == sandboxOff:
		return permit.Exempt
	case s.Mode() == sandbox.None:
		return permit.Unconfined
	}
	return permit.Confined
}

// sandboxMode names the sandbox of the user's commands for display: "namespaces", "landlock (ABI 7)", "off" or "none" with the reason.
func (h *Host) sandboxMode() (string, error) {
	off, err := h.sandboxOff()
	if err != nil {
		return "", err
	}
	if off {
		return sandboxOff, nil
	}
	h.all.probing.Lock() // it starts processes, and always finds the same
	defer h.all.probing.Unlock()
	if h.all.probed == "" {
		s, err := sandbox.New(&sandbox.Options{Home: h.Home(), Environ: h.cfg.Environ, Temp: h.Temp()})
		if err != nil {
			return "", err
		}
		h.all.probed = s.String()
		return h.all.probed, s.Close()
	}
	return h.all.probed, nil
}

// sandboxOff reports whether the user wants no sandbox.
func (h *Host) sandboxOff() (bool, error) {
	settings, err := readSettings("", h.ConfigDir())
	return err == nil && settings.user != nil && settings.user.sandbox.mode == sandboxOff, err
}

// repositoryOf returns the folder of the repository that a linked Git working tree belongs to. For any other folder
// it returns "". The repository itself must list the working tree, because a project's own files must not grant it
// access.
func repositoryOf(dir string) string {
	text, err := readFile(filepath.Join(dir, ".git"))
	if err != nil {
		return ""
	}
	own, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir: ")
	if !ok || !filepath.IsAbs(own) || filepath.Base(filepath.Dir(own)) != "worktrees" {
		return ""
	}
	back, err := readFile(filepath.Join(own, "gitdir"))
	if err != nil || strings.TrimSpace(string(back)) != filepath.Join(dir, ".git") {
		return ""
	}
	repository := filepath.Dir(filepath.Dir(own))
	if _, err := os.Stat(filepath.Join(repository, "objects")); err != nil {
		return ""
	}
	return repository
}

// Sandbox opens the sandbox for the commands of agents in this folder. If the user wants no sandbox, it
// returns nil. The caller closes it.
func (h *Host) Sandbox() (*sandbox.Sandbox, error) {
	p, err := h.project()
	if err != nil {
		return nil, err
	}
	policy, err := p.policy()
	if err != nil {
		return nil, err
	}
	return p.openSandbox(policy, nil)
}
