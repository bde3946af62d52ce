package recipe_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/internal/recipe"
)

// Each kind of mistake that a file can have is reported with a code, at its place, with what is wrong and the remedy.
func TestBadInput(t *testing.T) {
	t.Parallel()
	const a = "\n  - {id: a, subagent: r, prompt: p}\n"
	prompt := func(text string) string {
		return "name: t\ninputs: [topic, depth]\nsteps:" + a + "  - {id: b, subagent: r, prompt: \"" + text + "\"}\n"
	}
	bomb := "a: &a [x, x]\n"
	for i := range 30 {
		bomb += fmt.Sprintf("b%d: &b%d [*a, *a]\n", i, i)
	}
	world := &recipe.World{Agents: []string{"r", "writer"}, AgentsFrom: ".superstep/agents and your own", Workflows: map[string]*recipe.Callee{}}
	for name, c := range map[string]struct{ text, at, want string }{
		"an empty file":                  {"", "1:1", "the recipe is empty; it needs a name and steps"},
		"tabs":                           {"name: t\nsteps:\n  - id: a\n\tsubagent: r\n", "4:1", "tab at 4:1; YAML needs spaces"},
		"two documents":                  {"name: t\nsteps:" + a + "---\nname: u\n", "4:1", "one recipe per file"},
		"a duplicate key":                {"name: t\n\nsteps:" + a + "steps:" + a, "5:1", "`steps` repeated, first at 3:1"},
		"a newer version":                {"name: t\nversion: 99\nsteps:" + a, "2:10", "`version` is 99 and needs a newer engine"},
		"an alias bomb":                  {bomb, "2:10", "YAML aliases are not allowed"},
		"2 MiB":                          {strings.Repeat("# x\n", 1<<19), "", "the recipe is over 1 MiB"},
		"UTF-16":                         {"\xff\xfen\x00", "1:1", "the file must be UTF-8; bad byte at offset 0"},
		"invalid UTF-8":                  {"name: t\xff\n", "1:8", "the file must be UTF-8; bad byte at offset 7"},
		"a duplicate step id":            {"name: t\nsteps:" + a + "  - {id: a, tool: t}\n", "4:10", "step id `a` is at 3:10 and again at 4:10"},
		"an unknown step":                {"name: t\nsteps:" + a + "  - {id: b, tool: t, depends_on: [gone]}\n", "4:35", "no step `gone`; known: a"},
		"a cycle":                        {"name: t\nsteps:\n  - {id: a, tool: t, depends_on: [b]}\n  - {id: b, tool: t, depends_on: [a]}\n", "3:35", "cycle: a → b → a"},
		"a step that waits for itself":   {"name: t\nsteps:\n  - {id: a, tool: t, depends_on: [a]}\n", "3:35", "cycle: a → a"},
		"zero steps":                     {"name: t\nsteps: []\n", "2:8", "needs at least one step"},
		"no steps":                       {"name: t\n", "1:1", "needs at least one step"},
		"1,001 steps":                    {"name: t\nsteps:\n" + many(1001, "  - {id: s%d, tool: t}\n"), "1003:5", "over 1,000 steps"},
		"an unknown agent":               {"name: t\nsteps:\n  - {id: a, subagent: nobody, prompt: p}\n", "3:23", "no subagent `nobody`; known: r, writer (looked in .superstep/agents and your own)"},
		"an undeclared input":            {prompt("{{inputs.nope}}"), "5:37", "input `nope` is not declared; known: topic, depth"},
		"a default of the wrong type":    {"name: t\ninputs: [{name: n, type: integer, default: many}]\nsteps:" + a, "2:44", "`default` must be a whole number, got a text"},
		"a timeout without a unit":       {"name: t\nsteps:\n  - {id: a, tool: t, timeout: 5}\n", "3:31", "add a unit: 5s"},
		"a name that is a boolean":       {"name: no\nsteps:" + a, "1:7", `no is read as a boolean by many; quote it: "no"`},
		"a recipe that calls itself":     {"name: me\nsteps:\n  - {id: a, workflow: me}\n", "3:23", "cycle of recipes: me → me"},
		"an unclosed template":           {prompt("{{steps.a.output"), "5:35", "unclosed {{ at 5:35"},
		"a step that may not have ended": {"name: t\nsteps:\n  - {id: x, subagent: r, prompt: p}\n  - {id: b, subagent: r, prompt: \"{{steps.x.output}}\", depends_on: []}\n", "4:37", "add depends_on: [x]"},
		"the environment":                {prompt("{{ env.SECRET }}"), "5:38", "only inputs and steps are available"},
		"logic":                          {prompt("{{range}}"), "5:37", "only inputs and steps are available"},
	} {
		r, problems := recipe.Parse("r.yaml", []byte(c.text))
		if r != nil {
			problems = recipe.Check(r, world)
		}
		shown := strings.TrimSuffix("r.yaml:"+c.at, ":") + ": "
		found := false
		for _, p := range problems {
			found = found || strings.HasPrefix(p.Error(), shown) && strings.Contains(p.Error(), c.want) && regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`).MatchString(p.Code)
		}
		if !found || problems.Err() == nil {
			t.Errorf("%s: %v\nwant %s… %s", name, problems, shown, c.want)
		}
	}
	// Twenty are shown at once, and how many more there are.
	_, problems := recipe.Parse("r.yaml", []byte("name: t\nsteps:\n"+many(30, "  - {id: s%d, tol: t}\n")))
	if shown := problems.Error(); len(problems) < 30 || strings.Count(shown, "\n") != 20 || !strings.HasSuffix(shown, fmt.Sprintf("and %d more", len(problems)-20)) {
		t.Errorf("%d problems:\n%s", len(problems), shown)
	}
}
