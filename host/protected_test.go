package host

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/agent/acp"
	"github.com/superstep-dev/superstep/internal/catalog"
	"github.com/superstep-dev/superstep/internal/catalog/skill"
	"github.com/superstep-dev/superstep/internal/catalog/trust"
	"github.com/superstep-dev/superstep/tool"
)

// ground is a project and a home, with rules that allow all writing.
type ground struct {
	dir, home string
	opt       Config
}

func newGround(t *testing.T) *ground {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	g := &ground{dir: filepath.Join(base, "project"), home: filepath.Join(base, "home")}
	for _, dir := range []string{g.dir, g.home} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	g.opt = Config{Dir: g.dir, Env: atHome(g.home), Environ: []string{"HOME=" + g.home, "PATH=" + os.Getenv("PATH")}}
	g.opt.TrustProject = true
	g.opt.Rules = "allow write_file\nallow edit_file\nallow bash"
	return g
}

func (g *ground) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (g *ground) open(t *testing.T) (*project, *Session) {
	t.Helper()
	p, err := openProject(&g.opt)
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.start(t.Context(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return p, s
}

func check(s *Session, name string, args map[string]string) tool.Decision {
	b, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	return s.policy.Check(&tool.Tool{Name: name}, &tool.Call{Args: b}).Decision
}

func unwritable(t *testing.T, s *Session, path string) {
	t.Helper()
	for _, name := range []string{"write_file", "edit_file"} {
		if got := check(s, name, map[string]string{"path": path}); got != tool.Deny {
			t.Errorf("%s %s: %s", name, path, got)
		}
	}
	if !s.policy.Unwritable(resolvedIn(s, path)) {
		t.Errorf("commands may write %s", path)
	}
	if got := check(s, "bash", map[string]string{"command": fmt.Sprintf("echo x >'%s'", path)}); got != tool.Deny {
		t.Errorf("redirection to %s: %s", path, got)
	}
	if s.policy.Protected(path) == "" {
		t.Errorf("tools do not refuse %s", path)
	}
}

// resolvedIn is where a command finds a path: what links lead to is what is mounted read-only.
func resolvedIn(s *Session, path string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(s.p.dir, path)
	}
	return trust.Resolved(path)
}

// TestPlacesAreProtected goes over the tables by which Open finds things. What is read is protected: absent or
// not, in any letter case, and a hidden folder at any depth, since any folder may be opened as a project.
func TestPlacesAreProtected(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	p, s := g.open(t)
	project, user := p.Places()
	places := slices.Concat(project, user)
	for _, mark := range catalog.RootMarks() {
		places = append(places, filepath.ToSlash(filepath.Join(g.dir, mark)))
	}
	if len(places) < 40 {
		t.Fatalf("only %d places: %v", len(places), places)
	}
	for _, place := range places {
		names := []string{strings.TrimSuffix(place, "/")}
		if strings.HasSuffix(place, "/") {
			names = append(names, place+"x/y.md")
		}
		for _, name := range names {
			rel, in := strings.CutPrefix(name, filepath.ToSlash(g.dir)+"/")
			unwritable(t, s, name)
			if !in {
				continue
			}
			unwritable(t, s, rel)
			unwritable(t, s, strings.ToUpper(rel))
			if strings.HasPrefix(rel, ".") || !strings.HasSuffix(place, "/") {
				unwritable(t, s, "sub/deep/"+rel)
			}
		}
	}
	unwritable(t, s, "any/where/"+skill.File)
	for _, ordinary := range []string{"main.go", "src/skills/x.go", "Makefile", "docs/agents/x.md", "package.json", ".gitattributes", ".gitignore", "agents/x.md", "config"} {
		if got := check(s, "write_file", map[string]string{"path": ordinary}); got != tool.Allow {
			t.Errorf("%s: %s", ordinary, got)
		}
	}
}

// TestFoundIsProtected puts something into every place of the tables, and has Open find it there: a table that is
// not the one that is read would be noticed, as would something that is found and not protected.
func TestFoundIsProtected(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	put := map[string]string{} // by place
	p, err := openProject(&g.opt)
	if err != nil {
		t.Fatal(err)
	}
	project, user := p.Places()
	for i, place := range slices.Concat(project, user) {
		name := fmt.Sprintf("item%d", i)
		file, text := place, ""
		switch base := path.Base(place); base {
		case "agents", "agent":
			file, text = place+name+".md", "---\nname: "+name+"\ndescription: Works\n---\nWork.\n"
		case "skills", "skill":
			file, text = place+name+"/SKILL.md", "---\nname: "+name+"\ndescription: Knows\n---\nKnow.\n"
		case "tools", "tool":
			file, text = place+name+".tool.json", `{"description":"Echoes","command":["echo","x"],"effect":"pure"}`
		case "workflows":
			file, text = place+name+".yaml", "name: "+name+"\nsteps:\n  - {id: a, ask: Go on?}\n"
			if strings.Contains(place, "/.atomic/") {
				file = place + name + ".ts"
			}
		case "config.yaml":
			text = "model: x\n"
		case "permissions.yaml":
			text = "allow: [ls]\n"
		case "mcp.yaml", "mcp.yml":
			text = "servers:\n  " + name + ":\n    command: [echo]\n"
		case "opencode.json", "opencode.jsonc":
			text = `{"mcp":{"` + name + `":{"type":"local","command":["echo"]}}}`
		case "mcp.json":
			text = `{"servers":{"` + name + `":{"command":"echo"}}}`
		case ".mcp.json", ".claude.json":
			text = `{"mcpServers":{"` + name + `":{"command":"echo"}}}`
		default:
			t.Fatalf("there is a new kind of place, %s: put something into it here", place)
		}
		g.write(t, filepath.FromSlash(file), text)
		put[filepath.FromSlash(file)] = place
	}
	if p, err = openProject(&g.opt); err != nil {
		t.Fatal(err)
	}
	policy, err := p.policy()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	trusted := p.Items()
	for _, s := range trusted {
		name := filepath.Join(g.dir, filepath.FromSlash(s.Item.Path))
		if s.Item.Kind == trust.Skill {
			name = filepath.Join(name, skill.File)
		}
		found = append(found, name)
	}
	for _, i := range slices.Concat(p.Agents(), p.Skills(), p.tools(), p.Workflows(), p.Atomic()) {
		if i.Path == "" {
			continue
		}
		name := i.Path
		if i.Kind == "skill" {
			name += "/" + skill.File
		}
		found = append(found, filepath.Join(g.dir, name), filepath.Join(g.home, strings.TrimPrefix(name, "~/")))
	}
	found = slices.DeleteFunc(found, func(name string) bool { // of the two just now one is not there
		_, err := os.Stat(name)
		return filepath.IsAbs(name) && err != nil
	})
	for _, f := range []*file{p.settings.project, p.settings.user} {
		if f != nil {
			found = append(found, f.path)
		}
	}
	found = slices.DeleteFunc(found, func(name string) bool { return !filepath.IsAbs(name) }) // built in
	slices.Sort(found)
	for _, name := range slices.Compact(found) {
		if policy.Protected(name) == "" {
			t.Errorf("%s is read and not protected", name)
		}
		if put[name] == "" {
			t.Errorf("%s is read, and no table has it", name)
		}
		delete(put, name)
	}
	if len(put) > 0 {
		t.Errorf("not found: %v\nproblems: %v", slices.Sorted(maps.Keys(put)), p.problems())
	}
}

// TestLinkedIsProtected: what is read through a symbolic link is protected by its own name, also if it does not
// exist yet.
func TestLinkedIsProtected(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	agent := "---\nname: linked\ndescription: Works\n---\nWork.\n"
	g.write(t, filepath.Join(g.dir, "team", "lead", "linked.md"), agent)
	g.write(t, filepath.Join(g.dir, "one.md"), agent)
	g.write(t, filepath.Join(g.home, "dotfiles", "skills", "x", "notes.md"), "x")
	for link, to := range map[string]string{
		filepath.Join(g.dir, ".claude", "agents"):           filepath.Join("..", "team"),
		filepath.Join(g.dir, ".github", "agents", "one.md"): filepath.Join("..", "..", "one.md"),
		filepath.Join(g.dir, ".opencode", "tools"):          filepath.Join("..", "later"),
		filepath.Join(g.dir, "team", "more"):                filepath.Join("..", "others"),
		filepath.Join(g.dir, "skills", "loop"):              filepath.Join("..", "skills", "loop"),
		filepath.Join(g.dir, "skills", "all"):               "..",
		filepath.Join(g.home, ".claude", "skills"):          filepath.Join(g.home, "dotfiles", "skills"),
		filepath.Join(g.dir, "alias"):                       ".atomic",
		filepath.Join(g.dir, ".vscode", "tasks.json"):       filepath.Join("..", "conf", "tasks.json"),
		filepath.Join(g.dir, ".github", "workflows", "ci"):  filepath.Join("..", "..", "ci"),
		filepath.Join(g.dir, ".envrc"):                      filepath.Join("conf", "envrc"),
		filepath.Join(g.dir, "CLAUDE.md"):                   "AGENTS.md",
		filepath.Join(g.dir, ".venv", "lib"):                filepath.Join("..", "lib"),
	} {
		if err := os.MkdirAll(filepath.Dir(link), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, link); err != nil {
			t.Skipf("no symbolic links here: %v", err)
		}
	}
	_, s := g.open(t)
	for _, name := range []string{"team/new.md", "team/lead/linked.md", "one.md", "later/x.ts", "others/x.md", "alias/tools/x.ts", "conf/tasks.json", "conf/envrc", "ci/x.yml", filepath.Join(g.home, "dotfiles", "skills", "x", "notes.md")} {
		unwritable(t, s, name)
	}
	for _, name := range []string{"main.go", "two.md", "docs/x.md", "conf/x", "lib/x"} { // skills/all leads to the whole project
		if got := check(s, "write_file", map[string]string{"path": name}); got != tool.Allow {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestImportsAreAskedAbout: what a tool of the project imports runs when tools are listed.
func TestImportsAreAskedAbout(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	g.write(t, filepath.Join(g.dir, ".atomic", "tools", "hi.ts"), "import { hi } from '../../lib/hi'\nexport default { description: 'Greets', args: {}, async execute() { return hi } }\n")
	g.write(t, filepath.Join(g.dir, "lib", "hi.ts"), "export const hi = 'hi'\n")
	_, s := g.open(t)
	for name, want := range map[string]tool.Decision{"lib/hi.ts": tool.Ask, "lib/other.ts": tool.Allow, ".atomic/tools/hi.ts": tool.Deny} {
		if got := check(s, "write_file", map[string]string{"path": name}); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// TestToolsRefuse: the tools themselves refuse what is protected, whoever calls them and whatever was decided.
func TestToolsRefuse(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	_, s := g.open(t)
	for _, name := range []string{".atomic/tools/x.ts", ".github/agents/x.md", ".github/skills/x/y", "skills/x/y", ".copilot/agents/x.md", ".git/hooks/pre-commit", ".Vscode/tasks.json", "sub/.superstep/config.yaml"} {
		write, _ := s.tools.Get("write_file")
		b, err := json.Marshal(map[string]string{"path": name, "content": "x"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := write.Run(t.Context(), &tool.Call{Args: b}); err == nil || !strings.Contains(err.Error(), "protected") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Lstat(filepath.Join(g.dir, filepath.FromSlash(strings.Split(name, "/")[0]))); err == nil {
			t.Errorf("%s exists", name)
		}
	}
}

// TestVendorsAreProtected goes over the table of external agents: the folder of each is protected, wherever it is.
func TestVendorsAreProtected(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	_, s := g.open(t)
	for _, c := range acp.Known() {
		unwritable(t, s, "."+c.Name+"/settings.json")
		unwritable(t, s, "sub/."+c.Name+"/settings.json")
		for _, name := range slices.Concat(c.Needs.Write, c.Needs.Read) {
			unwritable(t, s, "sub/"+strings.TrimPrefix(name, "~/")+"/x")
		}
	}
	for _, name := range []string{"a.code-workspace", "x/.mise.local.toml", ".gitlab-ci.yml", "x/Jenkinsfile", ".lvimrc", "mise.local.toml", "crush.json"} {
		unwritable(t, s, name)
	}
}
