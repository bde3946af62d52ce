package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/cli"
)

// A replay needs the log and nothing else. Each case takes away something that the run had.
func TestReplayNeedsOnlyTheLog(t *testing.T) {
	cases := map[string]func(t *testing.T, w *workshop){
		"as it was":       func(*testing.T, *workshop) {},
		"no API key":      func(_ *testing.T, w *workshop) { delete(w.env, "OPENAI_API_KEY") },
		"dead address":    func(_ *testing.T, w *workshop) { w.env["OPENAI_BASE_URL"] = "http://127.0.0.1:1" },
		"no model at all": func(_ *testing.T, w *workshop) { w.env["SUPERSTEP_MODEL"] = ""; delete(w.env, "OPENAI_API_KEY") },
		"changed prices": func(t *testing.T, w *workshop) {
			plant(t, w.dir, map[string]string{"prices.yaml": "date: 2026-11-20\nsources: [me]\nmodels:\n  openai/gpt-test: {in: 50, out: 90, window: 900}\n"})
			if code, _, errs := w.run("models", "update", "prices.yaml"); code != 0 {
				t.Fatalf("exit code %d\n%s", code, errs)
			}
		},
		"changed agent": func(t *testing.T, w *workshop) {
			plant(t, w.dir, map[string]string{".claude/agents/reviewer.md": "---\nname: reviewer\ndescription: x\n---\nAnother.\n"})
		},
		"project deleted": func(t *testing.T, w *workshop) {
			for _, name := range []string{".claude", ".opencode", ".superstep"} {
				if err := os.RemoveAll(filepath.Join(w.dir, name)); err != nil {
					t.Fatal(err)
				}
			}
		},
		"broken configuration": func(t *testing.T, w *workshop) {
			plant(t, w.env["XDG_CONFIG_HOME"], map[string]string{"superstep/providers.yaml": "nonsense: ["})
		},
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			w := newSite(t)
			plant(t, w.dir, map[string]string{".superstep/workflows/two.yaml": "name: two\nsteps:\n" +
				"  - {id: look, subagent: reviewer, prompt: review}\n  - {id: list, tool: glob, args: {pattern: \"*.md\"}}\n"})
			for _, args := range [][]string{
				{"run", "agent", "Look at this project.", "--trust-project", "--max-cost", "100", "--max-tokens", "1000000", "--allow", "edit_file", "--on-ask", "deny"},
				{"run", "agent", `STEPS [["task",{"agent":"reviewer","prompt":"go"}],["task",{"agent":"nobody","prompt":"x"}],["write_file",{"path":"x","content":"y"}],["no_such",{}]]`, "--trust-project", "--on-ask", "deny"},
				{"run", "two", "--trust-project"},
			} {
				if code, out, errs := w.run(args...); code != 0 && code != cli.ExitDenied {
					t.Fatalf("%v: exit code %d\n%s%s", args, code, out, errs)
				}
			}
			asked := w.asked["lead"]
			change(t, w)
			for _, id := range []string{"@last", "@-2", "@-3"} {
				if code, out, errs := w.run("runs", "replay", id); code != 0 || !strings.Contains(out, "no model called") {
					t.Errorf("replay of %s: exit code %d\n%s%s", id, code, out, errs)
				}
			}
			if w.asked["lead"] != asked {
				t.Error("a replay asked a model")
			}
		})
	}
}

// A fork that begins at any record, also within an agent's conversation, is replayed from its log like any other run.
func TestReplayForksOfAgents(t *testing.T) {
	w := newSite(t)
	plant(t, w.dir, map[string]string{".superstep/workflows/two.yaml": "name: two\nsteps:\n" +
		"  - {id: look, subagent: reviewer, prompt: 'STEPS [[\"glob\",{\"pattern\":\"*.md\"}],[\"glob\",{\"pattern\":\"*.go\"}]]'}\n  - {id: list, tool: glob, args: {pattern: \"*.md\"}}\n"})
	for _, args := range [][]string{
		{"run", "two", "--trust-project"},
		{"run", "agent", `STEPS [["task",{"agent":"reviewer","prompt":"go"}],["glob",{"pattern":"*.md"}]]`, "--trust-project", "--on-ask", "deny"},
	} {
		if code, out, errs := w.run(args...); code != 0 {
			t.Fatalf("%v: exit code %d\n%s%s", args, code, out, errs)
		}
		_, shown, _ := w.run("runs", "show", "@last", "-o", "json")
		var run struct{ ID string }
		if err := json.Unmarshal([]byte(shown), &run); err != nil || run.ID == "" {
			t.Fatalf("%v\n%s", err, shown)
		}
		_, log, _ := w.run("runs", "export", run.ID)
		records := strings.Count(log, "\n")
		if records < 10 {
			t.Fatalf("%d records\n%s", records, log)
		}
		by := 1
		if testing.Short() {
			by = 3
		}
		for n := 2; n < records; n += by {
			code, out, errs := w.run("runs", "fork", run.ID, "--from", "seq:"+strconv.Itoa(n), "--trust-project", "--on-ask", "deny")
			if code != 0 {
				t.Fatalf("%s, fork from %d: exit code %d\n%s%s", args[1], n, code, out, errs)
			}
			if code, out, errs := w.run("runs", "replay", "@last"); code != 0 {
				t.Errorf("%s, fork from %d: exit code %d\n%s%s", args[1], n, code, out, errs)
			}
		}
	}
}
