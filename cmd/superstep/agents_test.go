package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/internal/npm"
	"github.com/superstep-dev/superstep/model"
)

// plant writes files of a project.
func plant(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, ".sh") {
			if err := os.Chmod(path, 0o700); err != nil { //nolint:gosec // it is to be run
				t.Fatal(err)
			}
		}
	}
}

// workshop is a project with things of every kind, the way users have them, and a model that
// works with them.
type workshop struct {
	dir    string
	env    map[string]string
	server *modeltest.Server

	mu    sync.Mutex
	asked map[string]int // requests by who asked
}

// newSite is a project with two agents and a skill.
func newSite(t *testing.T) *workshop {
	t.Helper()
	root := t.TempDir()
	w := &workshop{dir: filepath.Join(root, "project"), asked: map[string]int{}}
	home := filepath.Join(root, "home")
	plant(t, w.dir, map[string]string{
		"README.md":                     "The lease lasts thirty seconds.\n",
		".claude/agents/reviewer.md":    "---\nname: reviewer\ndescription: Reviews code.\ntools: Read, Grep\nmodel: inherit\n---\nYou are REVIEWER.\n",
		".opencode/agents/linter.md":    "---\ndescription: Lints.\nmode: subagent\ntools:\n  write: false\n---\nYou are LINTER.\n",
		".claude/skills/notes/SKILL.md": "---\nname: notes\ndescription: How to write release notes.\n---\nWrite them SHORT.\n",
	})
	w.server = modeltest.NewServer(t, w.think, nil)
	w.env = map[string]string{
		"HOME": home, "XDG_CONFIG_HOME": filepath.Join(home, ".config"), "XDG_CACHE_HOME": filepath.Join(home, ".cache"), "XDG_DATA_HOME": filepath.Join(home, ".data"),
		"PATH": os.Getenv("PATH"), "OPENAI_API_KEY": "sk-workshop-0123456789", "OPENAI_BASE_URL": w.server.URL, "SUPERSTEP_MODEL": "openai/gpt-test",
	}
	t.Chdir(w.dir)
	return w
}

func newWorkshop(t *testing.T) *workshop {
	t.Helper()
	node, modules := npm.Node(t), npm.Modules(t)
	w := newSite(t)
	config, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
		"fs": map[string]any{"command": node, "args": []string{filepath.Join(modules, "@modelcontextprotocol/server-filesystem/dist/index.js"), "."}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	plant(t, w.dir, map[string]string{
		".mcp.json": string(config),
		".superstep/tools/lint.ts": `import { tool } from "@superstep/plugin";
import { z } from "zod";
export default tool({
  description: "Run the linter",
  args: { path: z.string().describe("what to lint") },
  async execute(args, context) {
    return ` + "`linted ${args.path} for ${context.agent} of ${context.workflowState.agent}`" + `;
  },
});
`,
	})
	if err := os.MkdirAll(filepath.Join(w.dir, "node_modules"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(w.dir, "node_modules", "zod"), os.DirFS(filepath.Join(modules, "zod"))); err != nil {
		t.Fatal(err)
	}
	return w
}

func called(id, name, args string) model.Part {
	return model.Part{Kind: model.ToolCall, Call: &model.Call{ID: id, Name: name, Args: json.RawMessage(args)}}
}

// think is the model: a lead that uses a skill, a server and two agents, and these.
func (w *workshop) think(r *modeltest.ParsedRequest) modeltest.Reply {
	who := "lead"
	for _, name := range []string{"REVIEWER", "LINTER"} {
		if strings.Contains(r.System, "You are "+name) {
			who = name
		}
	}
	w.mu.Lock()
	w.asked[who]++
	w.mu.Unlock()
	var results []string
	for _, m := range r.Messages {
		for _, p := range m.Parts {
			if p.Kind == model.Result {
				results = append(results, p.Text)
			}
		}
	}
	if prompt, ok := strings.CutPrefix(r.Messages[0].Text(), "STEPS "); ok { // a call a turn
		var steps [][2]json.RawMessage
		if err := json.Unmarshal([]byte(prompt), &steps); err != nil {
			return modeltest.Text(err.Error())
		}
		if n := len(results); n < len(steps) {
			return modeltest.Reply{Parts: []model.Part{called(fmt.Sprint(n), strings.Trim(string(steps[n][0]), `"`), string(steps[n][1]))}}
		}
	}
	if len(results) > 0 {
		return modeltest.Text(who + " has: " + strings.Join(results, " | "))
	}
	switch who {
	case "REVIEWER":
		return modeltest.Reply{Parts: []model.Part{called("r", "read_file", `{"path":"README.md"}`)}}
	case "LINTER":
		return modeltest.Reply{Parts: []model.Part{called("l", "lint", `{"path":"a.go"}`)}}
	}
	return modeltest.Reply{Parts: []model.Part{
		called("a", "skill", `{"name":"notes"}`),
		called("b", "mcp__fs__list_directory", `{"path":"."}`),
		called("c", "task_batch", `{"tasks":[{"agent":"reviewer","prompt":"review it"},{"agent":"linter","prompt":"lint it"},{"agent":"nobody","prompt":"x"}]}`),
		called("d", "run_workflow", `{}`),
	}}
}

func (w *workshop) run(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	cfg, opt := config(), options()
	opt.Args, opt.Stdin, opt.Stdout, opt.Stderr = args, strings.NewReader(""), &out, &errs
	cfg.Env = func(name string) string { return w.env[name] }
	cfg.Environ = []string{}
	for k, v := range w.env {
		cfg.Environ = append(cfg.Environ, k+"="+v)
	}
	code = cli.Main(cfg, opt)
	return code, out.String(), errs.String()
}

// Everything that users have works together: an agent of Claude's and one of opencode's, a tool in
// TypeScript with zod, a skill, and a server that somebody published.
func TestAgent(t *testing.T) {
	w := newWorkshop(t)
	if code, _, errs := w.run("trust", "--yes"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, errs)
	}
	code, out, errs := w.run("run", "agent", "Look at this project.", "--allow", "mcp__fs__*", "--allow", "lint")
	if code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	for _, want := range []string{
		"SHORT", "[FILE] README.md", "1/3", "REVIEWER has: 1\tThe lease lasts thirty seconds.", "2/3", "LINTER has: linted a.go for linter of general-purpose", "3/3", "nobody", "research",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the result lacks %q:\n%s", want, out)
		}
	}
	if w.asked["lead"] != 2 || w.asked["REVIEWER"] != 2 || w.asked["LINTER"] != 2 {
		t.Errorf("requests: %v", w.asked)
	}
	if _, out, _ := w.run("runs", "show", "@last"); !strings.Contains(out, "reviewer") || !strings.Contains(out, "linter") {
		t.Errorf("the agents do not show:\n%s", out)
	}
	if code, out, errs := w.run("runs", "replay", "@last"); code != 0 {
		t.Errorf("replay: exit code %d\n%s%s", code, out, errs)
	}
}

// Where nobody can be asked, what needs leave is denied at once, the agent is told, and the command
// does not end as if nothing had been.
func TestAgentWithoutLeave(t *testing.T) {
	w := newWorkshop(t)
	if code, _, errs := w.run("trust", "--yes"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, errs)
	}
	code, out, errs := w.run("run", "agent", "Look at this project.")
	if code != cli.ExitDenied || !strings.Contains(out, "denied") || !strings.Contains(errs, "mcp__fs__list_directory") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	// With leave to wait the run asks, both at once, and continues with the answers where it was.
	code, out, errs = w.run("run", "agent", "Look at this project.", "--on-ask", "wait")
	if code != cli.ExitPaused {
		t.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	if w.asked["lead"] != 3 || w.asked["LINTER"] != 2 {
		t.Errorf("before an answer: %v", w.asked)
	}
	code, out, errs = w.run("runs", "answer", "@last", "work=run", "--on-ask", "wait")
	if code != cli.ExitPaused || !strings.Contains(errs, "linter") {
		t.Fatalf("after the first answer: exit code %d\n%s%s", code, out, errs)
	}
	path := regexp.MustCompile(`work/\S*linter\S*`).FindString(errs)
	code, out, errs = w.run("runs", "answer", "@last", path+"=deny: use go vet instead")
	if code != 0 || !strings.Contains(out, "LINTER has: denied: use go vet instead") || !strings.Contains(out, "[FILE] README.md") {
		t.Fatalf("after the second answer, to %q: exit code %d\n%s%s", path, code, out, errs)
	}
	if w.asked["lead"] != 4 || w.asked["REVIEWER"] != 4 || w.asked["LINTER"] != 4 {
		t.Errorf("turns were asked for again: %v", w.asked)
	}
	if code, out, errs := w.run("runs", "replay", "@last"); code != 0 {
		t.Errorf("replay: exit code %d\n%s%s", code, out, errs)
	}
}

// An agent that changed is another: a run continues with it only if somebody says so.
func TestAgentChanges(t *testing.T) {
	w := newWorkshop(t)
	if code, _, errs := w.run("trust", "--yes"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, errs)
	}
	if code, _, errs := w.run("run", "agent", "Read it.", "--agent", "linter", "--on-ask", "wait"); code != cli.ExitPaused {
		t.Fatalf("exit code %d\n%s", code, errs)
	}
	plant(t, w.dir, map[string]string{".opencode/agents/linter.md": "---\ndescription: Lints.\nmode: subagent\n---\nYou are LINTER, and another.\n"})
	if code, out, errs := w.run("runs", "answer", "@last", "work=once"); code == 0 {
		t.Errorf("it went on with another agent:\n%s%s", out, errs)
	}
	if code, _, errs := w.run("trust", "--yes"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, errs)
	}
	if code, out, errs := w.run("runs", "resume", "@last"); code == 0 || !strings.Contains(errs, "changed") {
		t.Errorf("it went on with another agent: exit code %d\n%s%s", code, out, errs)
	}
}

// What cannot be, is said before anything runs.
func TestAgentBadInputs(t *testing.T) {
	w := newWorkshop(t)
	for _, c := range []struct {
		name string
		code int
		want string
		args []string
	}{
		{"no such agent", cli.ExitUsage, `did you mean "explorer"`, []string{"x", "--agent", "explorr"}},
		{"an untrusted agent", cli.ExitDenied, "superstep trust", []string{"x", "--agent", "linter"}},
		{"an untrusted agent before a built-in one", cli.ExitDenied, "superstep trust", []string{"x", "--agent", "reviewer"}},
		{"a model that cannot reason", cli.ExitNoModel, "only quotes", []string{"x", "--model", "offline"}},
		{"no key", cli.ExitNoModel, "ANTHROPIC_API_KEY", []string{"x", "--model", "anthropic/claude-sonnet-5-5"}},
		{"no such folder", cli.ExitUsage, "there is no folder", []string{"x", "--dir", "nowhere"}},
		{"an empty prompt", cli.ExitUsage, "is empty", []string{" "}},
		{"a rule about no tool", cli.ExitUsage, `did you mean "read_file"`, []string{"x", "--deny", "read_fil"}},
		{"a rule that is none", cli.ExitUsage, "not closed", []string{"x", "--allow", "bash(ls"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := w.run(append([]string{"run", "agent"}, c.args...)...)
			if code != c.code || out != "" || !strings.Contains(errs, c.want) || strings.Contains(errs, "--model offline") {
				t.Errorf("exit code %d\n%s%s", code, out, errs)
			}
		})
	}
	if len(w.asked) > 0 {
		t.Errorf("a model was asked: %v", w.asked)
	}
}

// The model of a flag goes before that of the environment, that before the project's, and that
// before the user's.
func TestAgentModel(t *testing.T) {
	w := newWorkshop(t)
	plant(t, w.dir, map[string]string{".superstep/config.yaml": "model: openai/of-project\n"})
	plant(t, w.env["XDG_CONFIG_HOME"], map[string]string{"superstep/config.yaml": "model: openai/of-user\n"})
	used := func(args ...string) string {
		t.Helper()
		code, _, errs := w.run(append([]string{"run", "agent", "Say it.", "--agent", "synthesizer"}, args...)...)
		_, out, _ := w.run("runs", "show", "@last", "-o", "json")
		var run struct{ Inputs struct{ Model string } }
		if err := json.Unmarshal([]byte(out), &run); err != nil {
			t.Fatalf("%v, exit code %d\n%s", err, code, errs)
		}
		return strings.TrimPrefix(run.Inputs.Model, "openai/")
	}
	listed := func() string {
		_, out, _ := w.run("models", "list", "-o", "json")
		var list struct{ Use struct{ Model string } }
		if err := json.Unmarshal([]byte(out), &list); err != nil {
			t.Fatal(err)
		}
		return strings.TrimPrefix(list.Use.Model, "openai/")
	}
	if got := used("--model", "openai/of-flag"); got != "of-flag" {
		t.Errorf("with a flag: %s", got)
	}
	if got := used(); got != "gpt-test" || listed() != got {
		t.Errorf("with a variable: %s, listed %s", got, listed())
	}
	delete(w.env, "SUPERSTEP_MODEL")
	if got := used(); got != "of-user" || listed() != got {
		t.Errorf("with a project that is not trusted: %s, listed %s", got, listed())
	}
	if code, _, errs := w.run("trust", "--yes"); code != 0 {
		t.Fatal(errs)
	}
	if got := used(); got != "of-project" || listed() != got {
		t.Errorf("with one that is: %s, listed %s", got, listed())
	}
	// What was trusted and cannot be read any more is no reason to go on without it.
	plant(t, w.dir, map[string]string{".superstep/config.yaml": "modle: x\n"})
	if code, _, errs := w.run("run", "agent", "Say it.", "--agent", "synthesizer"); code == 0 || !strings.Contains(errs, "config.yaml:1:1") {
		t.Errorf("with settings that cannot be read: exit code %d\n%s", code, errs)
	}
}

// What a run may not do it may not do whoever continues with it; its history can be read and it can be
// forked; and an agent that is out of turns has not done its work.
func TestAgentRun(t *testing.T) {
	w := newWorkshop(t)
	code, out, errs := w.run("run", "agent", `STEPS [["read_file",{"path":"README.md"}],["ask_user",{"question":"On?"}],["read_file",{"path":"README.md"}]]`, "--deny", "read_file(README*)")
	if code != cli.ExitPaused {
		t.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	path := regexp.MustCompile(`work/ask_user\S*?\]`).FindString(errs)
	code, out, errs = w.run("runs", "answer", "@last", path+"=yes")
	if code != 0 || strings.Contains(out, "thirty") || strings.Count(out, "denied") != 2 || !strings.Contains(out, "yes") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	for _, args := range [][]string{{"runs", "history", "@last"}, {"runs", "replay", "@last"}, {"runs", "fork", "@last", "--from", "work"}} {
		if code, out, errs := w.run(args...); code != 0 && code != cli.ExitPaused {
			t.Errorf("%v: exit code %d\n%s%s", args, code, out, errs)
		}
	}
	// Another agent that comes to be there changes nothing.
	plant(t, w.env["HOME"], map[string]string{".claude/agents/zzz.md": "---\nname: zzz\ndescription: New.\n---\nZ\n"})
	if code, out, errs := w.run("runs", "resume", "@last"); code != cli.ExitPaused && code != 0 {
		t.Errorf("with one agent more: exit code %d\n%s%s", code, out, errs)
	}
	plant(t, w.env["HOME"], map[string]string{".claude/agents/short.md": "---\nname: short\ndescription: Short.\nmaxTurns: 1\n---\nS\n"})
	code, out, errs = w.run("run", "agent", `STEPS [["ls",{}],["ls",{}]]`, "--agent", "short")
	if code != cli.ExitLimit || !strings.Contains(errs, "after 1 turns") {
		t.Errorf("out of turns: exit code %d\n%s%s", code, out, errs)
	}
}

// A sub-agent with a folder of its own neither sees nor changes the project.
func TestAgentIsolated(t *testing.T) {
	w := newWorkshop(t)
	plant(t, w.env["HOME"], map[string]string{
		".config/superstep/agents/alone.md": "---\nname: alone\ndescription: Works alone.\nisolation: folder\n---\nYou work alone.\n",
	})
	inner := `STEPS [["write_file",{"path":"made.txt","content":"x"}],["ls",{}],["read_file",{"path":"README.md"}]]`
	prompt, err := json.Marshal(inner)
	if err != nil {
		t.Fatal(err)
	}
	code, out, errs := w.run("run", "agent", `STEPS [["task",{"agent":"alone","prompt":`+string(prompt)+`}],["ls",{}]]`, "--allow", "write_file")
	if code != 0 || !strings.Contains(out, "made.txt") || strings.Contains(out, "thirty seconds") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	if _, err := os.Stat(filepath.Join(w.dir, "made.txt")); err == nil {
		t.Error("it wrote into the project")
	}
	found, err := filepath.Glob(filepath.Join(w.env["XDG_DATA_HOME"], "superstep", "runs", "*", "work", "*", "made.txt"))
	if err != nil || len(found) != 1 {
		t.Errorf("its file: %v, %v", found, err)
	}
}

// A result that is too large for a conversation can be read in pieces, even one without lines.
func TestAgentLargeResult(t *testing.T) {
	w := newWorkshop(t)
	var big strings.Builder
	big.WriteString("[")
	for i := range 20_000 {
		fmt.Fprintf(&big, `{"n":%d},`, i)
	}
	big.WriteString(`{"secret":"` + w.env["OPENAI_API_KEY"] + `"},{"last":"NEEDLE"}]`)
	plant(t, w.dir, map[string]string{
		"big.json":                        big.String(),
		".superstep/tools/dump.tool.yaml": "description: Dumps.\ncommand: [cat, big.json]\ninput: {type: object}\n",
	})
	if code, _, errs := w.run("trust", "--yes"); code != 0 {
		t.Fatal(errs)
	}
	code, out, errs := w.run("run", "agent", `STEPS [["dump",{}]]`, "--allow", "dump")
	if code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	file := regexp.MustCompile(`/\S*/results/[\w.-]+`).FindString(out)
	b, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(b), "NEEDLE") {
		t.Fatalf("%q: %v\n%s", file, err, out)
	}
	for line := range strings.Lines(string(b)) {
		if len(line) > 1100 {
			t.Fatalf("a line has %d bytes", len(line))
		}
	}
	if strings.Contains(string(b), w.env["OPENAI_API_KEY"]) {
		t.Error("it holds a secret")
	}
	if code, out, errs := w.run("runs", "rm", "--now", "@last"); code != 0 {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	if _, err := os.Stat(filepath.Dir(filepath.Dir(file))); err == nil {
		t.Error("the folder of the run is still there")
	}
}
