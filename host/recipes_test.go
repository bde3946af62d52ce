package host

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/superstep-dev/superstep/internal/catalog"
	"github.com/superstep-dev/superstep/internal/catalog/trust"
	"github.com/superstep-dev/superstep/workflow"
)

// brief is a recipe of a name with one step, and a step for each other that it uses.
func brief(name string, uses ...string) string {
	text := "name: " + name + "\ndescription: Does " + name + ".\nsteps:\n  - id: find\n    tool: glob\n    args: {pattern: \"*\"}\n"
	for _, u := range uses {
		text += "  - id: run-" + u + "\n    workflow: " + u + "\n"
	}
	return text
}

// found is a line for each recipe of the project and the user, and each draft.
func found(p *project) []string {
	var out []string
	for _, e := range append(p.Workflows(), p.Drafts()...) {
		if e.Source == "built-in" {
			continue
		}
		line := strings.Join([]string{e.Name, e.Source, e.Path, string(e.State)}, " ")
		if len(e.Overrides) > 0 {
			line += " over " + strings.Join(e.Overrides, ",")
		}
		out = append(out, line)
	}
	return out
}

// A recipe of the project is used once the user has trusted it as it is, and nothing is used in its
// place before.
func TestRecipeTrust(t *testing.T) {
	t.Parallel()
	w := newPlace(t, map[string]string{
		".superstep/workflows/code-review.yaml": brief("code-review"), ".superstep/workflows/mine.yaml": brief("mine"), "~/.config/superstep/workflows/mine.yaml": brief("mine"),
		"~/.config/superstep/workflows/own.yaml": brief("own"), ".superstep/workflows/outer.yaml": brief("outer", "mine"), ".superstep/workflows/bad.yaml": "name: bad\n",
	})
	p := w.open(t)
	want := []string{
		"bad project .superstep/workflows/bad.yaml invalid",
		"code-review project .superstep/workflows/code-review.yaml not trusted over built-in built-in/code-review.yaml",
		"mine project .superstep/workflows/mine.yaml not trusted over user ~/.config/superstep/workflows/mine.yaml",
		"outer project .superstep/workflows/outer.yaml not trusted", "own user ~/.config/superstep/workflows/own.yaml usable",
	}
	if diff := cmp.Diff(want, found(p)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var wary *catalog.UntrustedError
	for _, name := range []string{"code-review", "mine", "outer"} {
		if e, err := p.Recipe(name); !errors.As(err, &wary) || wary.Kind != "workflow" || wary.Name != name {
			t.Errorf("%s: %v %v", name, e, err)
		}
	}
	var invalid *catalog.InvalidError
	if _, err := p.Recipe("bad"); !errors.As(err, &invalid) {
		t.Errorf("bad: %v", err)
	}
	if e, err := p.Recipe("own"); err != nil || e.Name != "own" {
		t.Errorf("own: %v", err)
	}
	problems := 0
	for _, x := range p.problems() {
		if x.Kind == "workflows" && !x.Warning && strings.HasPrefix(x.File, ".superstep/workflows/bad.yaml") {
			problems++
		}
	}
	if problems == 0 {
		t.Errorf("the invalid one is no problem: %v", p.problems())
	}

	// What one uses has to be trusted too.
	agree := func(p *project, name string) {
		t.Helper()
		for _, i := range p.Items() {
			if i.Item.Kind == trust.Workflow && i.Item.Name == name {
				if err := p.Trust([]trust.Item{i.Item}); err != nil {
					t.Fatal(err)
				}
				return
			}
		}
		t.Fatalf("%s cannot be trusted", name)
	}
	agree(p, "outer")
	if _, err := p.Bundle("outer"); !errors.As(err, &wary) || wary.Name != "mine" {
		t.Errorf("outer: %v", err)
	}
	agree(p, "mine")
	if b, err := p.Bundle("outer"); err != nil || len(b.Uses) != 1 {
		t.Errorf("outer: %v", err)
	}
	// When it changes it is asked about anew.
	w.write(t, ".superstep/workflows/mine.yaml", brief("mine")+"# more\n")
	p = w.open(t)
	if _, err := p.Recipe("mine"); !errors.As(err, &wary) || wary.State != catalog.Changed {
		t.Errorf("changed: %v", err)
	}
	for _, i := range p.Items() {
		if i.Item.Name == "mine" && !strings.Contains(i.Diff(), "+# more") {
			t.Errorf("what changed is not shown:\n%s", i.Diff())
		}
	}
	bundles, failed := p.Bundles()
	for _, b := range bundles {
		if b.Main.Name == "mine" || b.Main.Name == "code-review" || b.Main.Name == "outer" {
			t.Errorf("%s (%s) may be used", b.Main.Name, b.Main.File)
		}
	}
	for _, name := range []string{"mine", "code-review", "outer", "bad"} {
		if failed[name] == nil {
			t.Errorf("nothing says why %s is not used", name)
		}
	}
}

func TestRecipeCheck(t *testing.T) {
	t.Parallel()
	host := &workflow.Workflow{Name: "host", Run: func(context.Context, *workflow.Exec) (*workflow.Result, error) { return nil, nil }}
	w := newPlace(t, map[string]string{
		"~/.config/superstep/workflows/a.yaml": "name: a\nsteps:\n  - {id: one, subagent: explorrer, prompt: x}\n  - {id: two, tool: glub}\n  - {id: three, workflow: host}\n" +
			"  - {id: four, workflow: agent}\n  - {id: five, tool: mcp__files__read}\n  - {id: six, tool: task}\n",
		".mcp.json": `{"mcpServers": {"files": {"command": "true"}}}`,
	})
	w.opt.Workflows = []*workflow.Workflow{host}
	p := w.open(t)
	e, _, err := p.Look("a")
	if err != nil {
		t.Fatal(err)
	}
	var codes []string
	for _, x := range p.check(e.Recipe) {
		codes = append(codes, x.Code+" "+strings.Fields(strings.SplitN(x.Text, "`", 3)[1])[0])
	}
	want := []string{"unknown-subagent explorrer", "unknown-tool glub", "unknown-workflow agent", "unknown-tool task"}
	if diff := cmp.Diff(want, codes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDrafts(t *testing.T) {
	t.Parallel()
	w := newPlace(t, map[string]string{"~/.config/superstep/workflows/brief.yaml": brief("brief")})
	p := w.open(t)
	var invalid *catalog.InvalidError
	for name, text := range map[string]string{
		"broken": "name: broken\n", "other": brief("another"), "lost": brief("lost", "gone"), "../x": brief("x"), "agentless": "name: agentless\nsteps: [{id: a, subagent: nobody, prompt: x}]\n",
	} {
		if path, err := p.saveDraft(name, text, "agent lead"); !errors.As(err, &invalid) {
			t.Errorf("%s: %s %v", name, path, err)
		}
	}
	path, err := p.saveDraft("brief", brief("brief"), "agent lead,\nrun 7f3a \x1b[2J")
	if err != nil {
		t.Fatal(err)
	}
	p = w.open(t)
	if diff := cmp.Diff([]string{"brief user ~/.config/superstep/workflows/brief.yaml usable", "brief project .superstep/workflows/drafts/brief.yaml draft"}, found(p)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	e, _, err := p.Draft("brief")
	if err != nil || e.Path != path || !strings.HasPrefix(string(e.Text), "# Draft by agent lead, run 7f3a\n# yaml-language-server: $schema=../../schema/workflow.json\nname: brief\n") {
		t.Fatalf("%s %v\n%s", path, err, e.Text)
	}
	for _, i := range p.Items() {
		if i.Item.Kind == trust.Workflow {
			t.Errorf("a draft can be trusted: %v", i.Item)
		}
	}
	// Its author may write it anew, and nobody else.
	if _, err := p.saveDraft("brief", brief("brief")+"# 2\n", "agent lead, run 7f3a"); err != nil {
		t.Error(err)
	}
	var there *ExistsError
	if _, err := p.saveDraft("brief", brief("brief")+"# 3\n", "agent other"); !errors.As(err, &there) {
		t.Errorf("another wrote over it: %v", err)
	}
	// What is approved is what was there when it was looked at.
	if _, err := p.approve("brief", false); err == nil || !strings.Contains(err.Error(), "changed meanwhile") {
		t.Errorf("approved what nobody has seen: %v", err)
	}
	p = w.open(t)
	approved, err := p.approve("brief", false)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(approved)
	if err != nil || string(text) != "# yaml-language-server: $schema=../schema/workflow.json\n"+brief("brief")+"# 2\n" {
		t.Errorf("%v\n%s", err, text)
	}
	p = w.open(t)
	want := []string{"brief project .superstep/workflows/brief.yaml usable over user ~/.config/superstep/workflows/brief.yaml"}
	if diff := cmp.Diff(want, found(p)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(p.dir, ".superstep", "schema", "workflow.json")); err != nil {
		t.Error(err)
	}
	// What is there is replaced only if that is wanted.
	if _, err := p.saveDraft("brief", brief("brief")+"# 4\n", "agent lead"); err != nil {
		t.Fatal(err)
	}
	p = w.open(t)
	if _, err := p.approve("brief", false); !errors.As(err, &there) {
		t.Errorf("approved over another: %v", err)
	}
	if now, err := os.ReadFile(approved); err != nil || string(now) != string(text) {
		t.Errorf("it was changed: %v\n%s", err, now)
	}
	if _, err := p.approve("brief", true); err != nil {
		t.Error(err)
	}
	p = w.open(t)
	if e, err := p.Recipe("brief"); err != nil || !strings.HasSuffix(string(e.Text), "# 4\n") {
		t.Errorf("after it was replaced: %v", err)
	}
	// And one that is rejected is gone.
	if _, err := p.saveDraft("brief", brief("brief"), "agent lead"); err != nil {
		t.Fatal(err)
	}
	p = w.open(t)
	gone, err := p.reject("brief")
	if err != nil || gone != ".superstep/workflows/drafts/brief.yaml" {
		t.Errorf("%s %v", gone, err)
	}
	var none *catalog.NoDraftError
	if _, err := w.open(t).reject("brief"); !errors.As(err, &none) {
		t.Errorf("rejected twice: %v", err)
	}
	files, err := os.ReadDir(filepath.Dir(approved))
	if err != nil || len(files) != 2 { // brief.yaml, drafts
		t.Errorf("something was left behind: %v %v", files, err)
	}
}

// Without a project a draft waits with the user's own recipes.
func TestDraftOfTheUser(t *testing.T) {
	t.Parallel()
	w := newPlace(t, nil)
	w.opt.Dir = ""
	p := w.open(t)
	if _, err := p.saveDraft("brief", brief("brief"), "agent lead"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"brief user ~/.config/superstep/workflows/drafts/brief.yaml draft"}, found(w.open(t))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := w.open(t).approve("brief", false); err != nil {
		t.Fatal(err)
	}
	if e, err := w.open(t).Recipe("brief"); err != nil || e.Scope != catalog.User {
		t.Errorf("%v %v", e, err)
	}
}

// Nothing is written where a link of the project leads.
func TestDraftsStayInside(t *testing.T) {
	t.Parallel()
	w := newPlace(t, map[string]string{".superstep/x": ""})
	outside := filepath.Join(filepath.Dir(w.dir), "outside")
	if err := os.Mkdir(outside, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(w.dir, ".superstep", "workflows")); err != nil {
		t.Fatal(err)
	}
	p := w.open(t)
	if path, err := p.saveDraft("brief", brief("brief"), "agent lead"); err == nil {
		t.Errorf("wrote %s", path)
	}
	if path, err := p.addRecipe([]byte(brief("brief")), false); err == nil {
		t.Errorf("wrote %s", path)
	}
	if files, err := os.ReadDir(outside); err != nil || len(files) > 0 {
		t.Errorf("outside there is %v %v", files, err)
	}
}

func TestAddRecipe(t *testing.T) {
	t.Parallel()
	w := newPlace(t, map[string]string{".superstep/workflows/taken.yml": brief("taken")})
	p := w.open(t)
	if _, err := p.addRecipe([]byte(brief("brief")), false); err != nil {
		t.Fatal(err)
	}
	p = w.open(t)
	if _, err := p.Recipe("brief"); err != nil {
		t.Errorf("the user wrote it and is asked about it: %v", err)
	}
	var there *ExistsError
	for _, name := range []string{"brief", "taken"} {
		if _, err := p.addRecipe([]byte(brief(name)+"# more\n"), false); !errors.As(err, &there) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(w.dir, ".superstep", "workflows", "taken.yaml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there are two now: %v", err)
	}
	var invalid *catalog.InvalidError
	if _, err := p.addRecipe([]byte("name: x\n"), false); !errors.As(err, &invalid) {
		t.Errorf("invalid: %v", err)
	}
}

// A recipe made for the user again may replace the one of its name, and no other file.
func TestAddRecipeReplaces(t *testing.T) {
	t.Parallel()
	w := newPlace(t, map[string]string{".superstep/workflows/taken.yml": brief("taken")})
	if _, err := w.open(t).addRecipe([]byte(brief("brief")), true); err != nil {
		t.Fatal(err)
	}
	path, err := w.open(t).addRecipe([]byte(brief("brief")+"# more\n"), true)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); err != nil || !strings.HasSuffix(string(b), "# more\n") {
		t.Errorf("%s, %v", b, err)
	}
	p := w.open(t)
	if _, err := p.Recipe("brief"); err != nil {
		t.Errorf("the user wrote it and is asked about it: %v", err)
	}
	var there *ExistsError
	if _, err := p.addRecipe([]byte(brief("taken")+"# more\n"), true); !errors.As(err, &there) {
		t.Errorf("in another file: %v", err)
	}
}

// Arguments of built-in tools are checked, and a tool that is off is a warning that says what to do.
func TestCheckTools(t *testing.T) {
	t.Parallel()
	p := newPlace(t, nil).open(t)
	problems := p.checkText("a.yaml", []byte("name: a\nsteps:\n"+
		"  - {id: a, tool: glob, args: {patern: \"*\"}}\n"+
		"  - {id: b, tool: read_file, args: {path: 3}}\n"+
		"  - {id: c, tool: bash, args: {command: ls}}\n"+
		"  - {id: d, tool: glob, args: {pattern: \"{{steps.b.output}}\"}, depends_on: [b]}\n"))
	var got []string
	for _, x := range problems {
		got = append(got, x.Error())
	}
	want := []string{"a.yaml:3:", "a.yaml:3:", "a.yaml:4:", "a.yaml:5:"}
	for i, w := range want {
		if i >= len(got) || !strings.HasPrefix(got[i], w) {
			t.Fatalf("%q", got)
		}
	}
	if len(got) != len(want) || problems[2].Warning || !problems[3].Warning || !strings.Contains(got[3], "--ask bash") || !strings.Contains(strings.Join(got[:2], " "), `"pattern"`) {
		t.Errorf("%q", got)
	}
}

func BenchmarkCheck(b *testing.B) {
	p, err := openProject(&Config{Dir: b.TempDir(), Env: atHome(b.TempDir())})
	if err != nil {
		b.Fatal(err)
	}
	text := []byte("name: a\nsteps:\n  - {id: a, tool: glob, args: {pattern: x}}\n")
	for b.Loop() {
		if problems := p.checkText("a.yaml", text); problems != nil {
			b.Fatal(problems)
		}
	}
}
