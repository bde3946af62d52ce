package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/cli"
)

const reviewing = `name: reviewing
description: Reviews and lints.
inputs: [{name: path, default: a.go}]
steps:
  - {id: look, subagent: reviewer, prompt: "review {{inputs.path}}"}
  - {id: check, tool: lint, args: {path: "{{inputs.path}}"}}
  - {id: list, tool: glob, args: {pattern: "*.md"}}
output: "{{steps.look.output}} / {{steps.check.output}} / {{steps.list.output}}"
`

// A recipe works with what users have: an agent of Claude's, a tool in TypeScript, a built-in tool. What it
// may do follows from the rules of the user, and by its name it is used once it is trusted as it is.
func TestRecipe(t *testing.T) {
	w := newWorkshop(t)
	plant(t, w.dir, map[string]string{".superstep/workflows/reviewing.yaml": reviewing})
	code, out, errs := w.run("run", "reviewing")
	if code != cli.ExitDenied || !strings.Contains(errs, "not trusted") || w.asked["REVIEWER"] != 0 {
		t.Fatalf("untrusted: exit code %d\n%s%s", code, out, errs)
	}
	if code, _, errs := w.run("trust", "--yes"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, errs)
	}
	code, out, errs = w.run("run", "reviewing", "--plan")
	if code != 0 || !strings.Contains(out, "lint") || len(w.asked) != 0 {
		t.Errorf("plan: exit code %d, asked %v\n%s%s", code, w.asked, out, errs)
	}
	if _, out, _ := w.run("runs", "list", "-o", "json"); strings.TrimSpace(out) != "[]" {
		t.Errorf("a plan leaves a run: %s", out)
	}
	code, out, errs = w.run("run", "reviewing", "--allow", "lint")
	if code != 0 || !strings.Contains(out, "REVIEWER has: 1\tThe lease lasts thirty seconds.") || !strings.Contains(out, "linted a.go for workflow of") || !strings.Contains(out, "README.md") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	if code, out, errs := w.run("runs", "replay", "@last"); code != 0 {
		t.Errorf("replay: exit code %d\n%s%s", code, out, errs)
	}
	// without leave the step is denied, and the command does not end as if nothing had been
	code, out, errs = w.run("run", "reviewing")
	if code != cli.ExitDenied || !strings.Contains(out, "Error: step 'check' failed") {
		t.Errorf("without leave: exit code %d\n%s%s", code, out, errs)
	}
	plant(t, w.dir, map[string]string{".superstep/workflows/reviewing.yaml": reviewing + "# changed\n"})
	if code, _, errs = w.run("run", "reviewing"); code != cli.ExitDenied || !strings.Contains(errs, "changed") {
		t.Errorf("changed: exit code %d\n%s", code, errs)
	}
	if code, out, errs = w.run("run", filepath.Join(".superstep", "workflows", "reviewing.yaml"), "--allow", "lint", "README.md"); code != 0 || !strings.Contains(out, "linted README.md") {
		t.Errorf("free text for the only text: exit code %d\n%s%s", code, out, errs)
	}
	if code, out, errs = w.run("run", filepath.Join(".superstep", "workflows", "reviewing.yaml"), "--allow", "lint", "path=b.go"); code != 0 || !strings.Contains(out, "linted b.go") {
		t.Errorf("by its path: exit code %d\n%s%s", code, out, errs)
	}
}

// The lead runs recipes and proposes others, which wait until a person approves them.
func TestLeadAndRecipes(t *testing.T) {
	w := newWorkshop(t)
	plant(t, w.dir, map[string]string{".superstep/workflows/reviewing.yaml": reviewing})
	if code, _, errs := w.run("trust", "--yes"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, errs)
	}
	proposal := "name: proposal\ndescription: Lists.\nsteps:\n  - {id: list, tool: glob, args: {pattern: '*.md'}}\n"
	quoted := func(v any) string { b, _ := json.Marshal(v); return string(b) }
	steps := fmt.Sprintf(`STEPS [["run_workflow", {}], ["run_workflow", {"name":"reviewing","inputs":{"path":"c.go"},"background":true}], ["collect_workflow", {}], ["collect_workflow", {"handle":"reviewing-1"}],
		["save_workflow", {"name":"proposal","yaml":%s}], ["save_workflow", {"name":"proposal","yaml":%s}]]`, quoted(strings.Replace(proposal, "glob", "glbo", 1)), quoted(proposal))
	code, out, errs := w.run("run", "agent", steps, "--allow", "lint", "--allow", "mcp__fs__*")
	for _, want := range []string{"reviewing", "deep-research", "linted c.go for workflow of", "glbo", "superstep workflows approve proposal"} {
		if !strings.Contains(out, want) {
			t.Errorf("the lead was not told %q", want)
		}
	}
	if code != 0 || t.Failed() {
		t.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	if code, _, errs = w.run("run", "proposal"); code != cli.ExitUsage {
		t.Errorf("a draft runs: exit code %d\n%s", code, errs)
	}
	if _, out, _ = w.run("workflows", "list"); !strings.Contains(out, "draft") {
		t.Errorf("the draft is not listed:\n%s", out)
	}
	if code, out, errs = w.run("workflows", "approve", "proposal"); code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	if code, out, errs = w.run("run", "proposal"); code != 0 || !strings.Contains(out, "README.md") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	if _, err := os.Stat(filepath.Join(w.dir, ".superstep", "workflows", "drafts", "proposal.yaml")); err == nil {
		t.Error("the draft is still there")
	}
}
