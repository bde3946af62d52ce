package catalog

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/superstep-dev/superstep/internal/catalog/trust"
	"github.com/superstep-dev/superstep/internal/script"
	"github.com/superstep-dev/superstep/tool/mcp"
)

// furnished is a catalog over a project and a home with something of each kind, all of it trusted.
func furnished(t *testing.T) *Catalog {
	t.Helper()
	dir, home := t.TempDir(), t.TempDir()
	tree(t, dir, map[string]string{
		".superstep/agents/a.md": agentText("a"), ".claude/skills/s/SKILL.md": "---\nname: s\ndescription: Does s.\n---\nDo s.\n",
		".superstep/workflows/w.yaml": text("w", ""), ".superstep/workflows/drafts/d.yaml": text("d", ""),
		".superstep/tools/echo.tool.json": `{"description":"Echoes","command":["sh","-c","touch started"],"effect":"pure"}`,
		".mcp.json":                       `{"mcpServers":{"here":{"command":"sh","args":["-c","touch started"]}}}`,
	})
	tree(t, home, map[string]string{".config/superstep/agents/mine.md": agentText("mine"), ".config/superstep/workflows/own.yaml": text("own", "")})
	store, err := trust.Open(filepath.Join(t.TempDir(), "trust.json"))
	if err != nil {
		t.Fatal(err)
	}
	env := func(name string) (string, bool) { return map[string]string{"HOME": home}[name], name == "HOME" }
	c, err := Open(&Options{Dir: dir, Home: home, Trust: store.TrustAll(), Servers: &mcp.Options{Project: dir, Env: env}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// read tells what of a kind was looked at: how many folders or files.
func read(c *Catalog, part string) int {
	n := 0
	for place := range c.walks {
		if strings.Contains(filepath.ToSlash(place), part) {
			n++
		}
	}
	return n
}

// Whatever is asked, from however many goroutines, each folder is looked into once.
func TestEachFolderOnce(t *testing.T) {
	t.Parallel()
	c := furnished(t)
	if len(c.walks) > 0 {
		t.Errorf("opening alone looked into %v", c.walks)
	}
	none := func(script.Found) []script.Problem { return nil }
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if n := len(c.Items()); n != 5 { // what of the project can be trusted
				t.Errorf("%d items", n)
			}
			c.Problems()
			c.Atomic()
			c.Bundles()
			c.UsableAgents()
			if len(c.Skills()) != 1 || len(c.Tools(none)) != 2 || len(c.Drafts()) != 1 || len(c.Scripts()) != 1 || len(c.Servers()) != 1 {
				t.Errorf("%v %v %v", c.Skills(), c.Tools(none), c.Drafts())
			}
			for _, name := range []string{"a", "mine", "explorer"} {
				if _, err := c.Agent(name); err != nil {
					t.Error(err)
				}
			}
			for _, name := range []string{"w", "own"} {
				if _, err := c.Recipe(name); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if err := c.Trust([]trust.Item{c.Items()[0].Item}); err != nil {
		t.Error(err)
	}
	c.Items()
	for place, n := range c.walks {
		if n != 1 {
			t.Errorf("%s was looked into %d times", place, n)
		}
	}
	project, user := c.Places()
	for _, place := range append(project, user...) {
		if c.walks[filepath.Clean(filepath.FromSlash(place))] != 1 {
			t.Errorf("%s was not looked into", place)
		}
	}
}

// Only what is asked for is loaded: neither a server nor a script for a recipe or a skill, and nothing is started at all.
func TestOnlyWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	c := furnished(t)
	if b, err := c.Bundle("w"); err != nil || b.Main.Name != "w" {
		t.Fatal(b, err)
	}
	if read(c, "workflows") == 0 || read(c, "/agents")+read(c, "skills")+read(c, "tools")+read(c, "mcp") > 0 {
		t.Errorf("for a recipe: %v", c.walks)
	}
	if len(c.UsableSkills("s")) != 1 || read(c, "skills") == 0 || read(c, "/agents")+read(c, "tools")+read(c, "mcp") > 0 {
		t.Errorf("for a skill: %v", c.walks)
	}
	if len(c.Scripts()) != 1 || read(c, "tools") == 0 || read(c, "mcp") > 0 {
		t.Errorf("for a script: %v", c.walks)
	}
	if len(c.Servers()) != 1 || read(c, "mcp") == 0 {
		t.Errorf("for a server: %v", c.walks)
	}
	if found, err := filepath.Glob(filepath.Join(c.opt.Dir, "started")); err != nil || len(found) > 0 {
		t.Errorf("something was started: %v %v", found, err)
	}
}

// What cannot be judged is not used, and does not keep others from being.
func TestUnjudgeable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	odd := strings.Repeat("x", 200) + "/" + strings.Repeat("y", 200)
	long := strings.Repeat(odd+"/", 10)
	tree(t, dir, map[string]string{".superstep/agents/" + long + "a.md": agentText("deep"), ".superstep/agents/b.md": agentText("b")})
	store, err := trust.Open(filepath.Join(t.TempDir(), "trust.json"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := Open(&Options{Dir: dir, Trust: store, bare: true})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		items := c.Items(trust.Agent)
		if len(items) != 1 || items[0].Item.Name != "b" {
			t.Fatalf("%d items: %v", len(items), items)
		}
		if err := c.Trust([]trust.Item{items[0].Item}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Agent("b"); err != nil {
		t.Error(err)
	}
	if _, err := c.Agent("deep"); err == nil {
		t.Error("an agent that nobody can have trusted is used")
	}
}
