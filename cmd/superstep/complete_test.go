package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// What completes commands comes from the project, the user's rules and the models there are.
func TestComplete(t *testing.T) {
	root := t.TempDir()
	home := filepath.Join(root, "home")
	w := &workshop{dir: filepath.Join(root, "project"), env: map[string]string{
		"HOME": home, "XDG_CONFIG_HOME": filepath.Join(home, ".config"), "XDG_DATA_HOME": filepath.Join(home, ".data"), "OPENAI_API_KEY": "sk-test-0123456789",
	}}
	grants, err := json.Marshal([]map[string]string{{"project": w.dir, "rule": "bash(go test *)"}, {"project": root, "rule": "bash(rm *)"}})
	if err != nil {
		t.Fatal(err)
	}
	plant(t, w.dir, map[string]string{".claude/agents/lead.md": "---\nname: lead\ndescription: Leads. And more.\n---\nLead.\n"})
	plant(t, home, map[string]string{".config/superstep/granted.json": string(grants)})
	t.Chdir(w.dir)
	for _, c := range []struct{ line, has, hasNot string }{
		{"run agent --agent", "researcher\t", "lead\t"}, // which nobody trusts yet
		{"run agent --model", "openai/", "lead"},
		{"permissions forget", "bash(go test *)\t", "rm"},
		{"trust", "lead\tagent, not trusted\n", "openai"},
		{"models use", "offline\t", "lead"},
		{"models test", "openai/", "lead"},
		{"tools call", "read_file\t", "ask_user"},
	} {
		code, out, errs := w.run(append([]string{"__complete"}, append(strings.Fields(c.line), "")...)...)
		if code != 0 || !strings.Contains(out, c.has) || strings.Contains(out, c.hasNot) {
			t.Errorf("%s: exit code %d\n%s%s", c.line, code, out, errs)
		}
	}
	if code, _, errs := w.run("trust", "--yes"); code != 0 {
		t.Fatal(errs)
	}
	if _, out, _ := w.run("__complete", "run", "agent", "--agent", ""); !strings.Contains(out, "lead\tLeads\n") {
		t.Errorf("what is trusted is not among them:\n%s", out)
	}
}
