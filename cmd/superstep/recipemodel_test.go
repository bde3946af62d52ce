package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/cli"
)

const readme = `name: readme-check
steps:
  - id: check
    subagent: reviewer
    prompt: Compare README.md with the code. Name the five worst differences, with file:line.
`

const brief = `name: brief
inputs:
  - {name: topic, required: true}
steps:
  - id: gather
    subagent: researcher
    prompt: Find out what matters about {{inputs.topic}}. Give the source of each fact.
  - id: write
    subagent: synthesizer
    depends_on: [gather]
    prompt: "Write a page about {{inputs.topic}} from these notes, and keep their sources:\n\n{{steps.gather.output}}"
`

// place returns a command in a folder with recipes and documents, on a machine without a model and without a key.
func place(t *testing.T) func(args ...string) (code int, stdout, stderr string) {
	t.Helper()
	root := t.TempDir()
	dir, home := filepath.Join(root, "project"), filepath.Join(root, "home")
	plant(t, dir, map[string]string{
		"readme.yaml": readme, "brief.yaml": brief, "empty.yaml": strings.ReplaceAll(brief, "what matters about {{inputs.topic}}", "it"),
		"docs/queue.md": "# Heron\n\nHeron is a job queue.\n\n## Retries\n\nA failed job is retried with exponential backoff,\nup to eight times.\n",
	})
	t.Chdir(dir)
	env := map[string]string{
		"HOME": home, "XDG_CONFIG_HOME": filepath.Join(home, ".config"), "XDG_CACHE_HOME": filepath.Join(home, ".cache"), "XDG_DATA_HOME": filepath.Join(home, ".data"), "PATH": os.Getenv("PATH"),
	}
	for _, name := range []string{"OLLAMA", "LMSTUDIO", "LLAMACPP", "VLLM"} {
		env[name+"_BASE_URL"] = "http://127.0.0.1:1/v1"
	}
	return func(args ...string) (code int, stdout, stderr string) {
		t.Helper()
		var out, errs bytes.Buffer
		cfg, opt := config(), options()
		opt.Args, opt.Stdin, opt.Stdout, opt.Stderr = append([]string{}, args...), strings.NewReader(""), &out, &errs
		cfg.Env = func(name string) string { return env[name] }
		code = cli.Main(cfg, opt)
		return code, out.String(), errs.String()
	}
}

// What needs a language model is refused before there is a run, with the steps that need it, and no hint names a command that
// cannot work (Y4).
func TestOfflineIsRefusedBeforeTheRun(t *testing.T) {
	run := place(t)
	const typed = "superstep run brief.yaml 'job retries' --model offline"
	for _, c := range []struct {
		args []string
		want []string
		not  string
	}{
		{[]string{"run", "readme.yaml", "--model", "offline"}, []string{"workflow readme-check needs a language model", "step check: it is told to compare", "• set OPENAI_API_KEY", "models list", "run research QUESTION --docs DIR"}, "--model offline"},
		{[]string{"run", "readme.yaml"}, []string{"no model is configured", "• set OPENAI_API_KEY", "• start Ollama", "models list", "run research QUESTION --docs DIR"}, "--model offline"},
		{[]string{"run", "readme.yaml", "--plan", "--model", "offline"}, []string{"needs a language model", "step check"}, "agents"},
		{[]string{"run", "code-review", ".", "--model=offline"}, []string{"workflow code-review needs a language model", "step look: ", "which takes judgement"}, "--model offline"},
		{[]string{"run", "tournament", "x", "--model", "offline"}, []string{"needs a language model", "may use every tool"}, ""},
		{[]string{"run", "agent", "x", "--model", "offline"}, []string{"an agent needs a model", "• set OPENAI_API_KEY", "run research QUESTION --docs DIR"}, "--model offline"},
		{[]string{"run", "brief.yaml", "job retries"}, []string{"no model is configured", "or try it now: " + typed}, "needs a language model"},
		{[]string{"run", "brief.yaml", "job retries", "--model", "openai/gpt-5"}, []string{"OPENAI_API_KEY", typed}, ""},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			code, out, errs := run(c.args...)
			if code != cli.ExitNoModel || out != "" {
				t.Errorf("exit %d: %s", code, out)
			}
			for _, want := range c.want {
				if !strings.Contains(errs, want) {
					t.Errorf("%q is missing:\n%s", want, errs)
				}
			}
			if c.not != "" && strings.Contains(errs, c.not) {
				t.Errorf("%q is in it:\n%s", c.not, errs)
			}
		})
	}
	if _, out, _ := run("runs", "list", "-o", "json"); strings.TrimSpace(out) != "[]" {
		t.Errorf("there are runs: %s", out)
	}
}

// Recipes that gather and merge run offline and quote; one whose task says nothing to look for fails.
func TestOfflineRecipes(t *testing.T) {
	run := place(t)
	code, out, errs := run("run", "brief.yaml", "job retries", "--model", "offline")
	if code != 0 || !strings.Contains(out, "docs/queue.md:") || !strings.Contains(out, "> A failed job is retried with exponential backoff,\n> up to eight times.") {
		t.Errorf("exit %d: %s\n%s", code, out, errs)
	}
	for _, args := range [][]string{{"init"}, {"run", "hello", "--model", "offline"}} { // the first recipe, in a folder without README
		code, out, errs = run(args...)
		if code != 0 {
			t.Errorf("%q: exit %d: %s\n%s", args, code, out, errs)
		}
	}
	if !strings.Contains(out, "docs/queue.md:3  Heron\n> Heron is a job queue.\n") {
		t.Errorf("%s\n%s", out, errs)
	}
	code, out, errs = run("run", "empty.yaml", "job retries", "--model", "offline")
	if code == 0 || !strings.Contains(out+errs, "names no topic") {
		t.Errorf("exit %d: %s\n%s", code, out, errs)
	}
}

// What the bare command suggests works as it stands, and nothing that needs a model is suggested where there is none (C4).
func TestFirstScreen(t *testing.T) {
	run := place(t)
	code, _, screen := run()
	if code != cli.ExitUsage {
		t.Errorf("exit %d", code)
	}
	for _, want := range []string{`superstep run research "What is this project, and how is it used?" --docs .`, "superstep init ", "superstep models list "} {
		if !strings.Contains(screen, want) {
			t.Errorf("%q is missing:\n%s", want, screen)
		}
	}
	n := 0
	for line := range strings.Lines(screen) {
		typed, ok := strings.CutPrefix(line, "  superstep ")
		if !ok || strings.HasPrefix(typed, "demo ") {
			continue
		}
		typed, _, _ = strings.Cut(strings.TrimSpace(typed), "   ")
		var args []string
		for i, part := range strings.Split(strings.TrimSpace(typed), `"`) {
			if i%2 == 1 {
				args = append(args, part)
			} else {
				args = append(args, strings.Fields(part)...)
			}
		}
		n++
		if code, out, errs := run(args...); code == cli.ExitUsage || code == cli.ExitNoModel {
			t.Errorf("%q: exit %d\n%s%s", args, code, out, errs)
		}
	}
	if n < 4 {
		t.Errorf("%d commands:\n%s", n, screen)
	}
	_, _, screen = run() // now that there is a recipe
	if !strings.Contains(screen, "superstep run hello --model offline ") || strings.Contains(screen, "superstep init") || strings.Contains(screen, "code-review") {
		t.Error(screen)
	}
	t.Setenv("HOME", t.TempDir())
	t.Chdir(t.TempDir())
	if _, _, screen = run(); strings.Contains(screen, "research") {
		t.Errorf("there are no documents:\n%s", screen)
	}
}

// A question in the place of a workflow, and a name that there is not (C4).
func TestUnknownWorkflow(t *testing.T) {
	run := place(t)
	for _, c := range []struct {
		name, want string
	}{
		{"What is a recipe", `there is no workflow "What is a recipe"` + "\n  • ask it of documents: superstep run research \"What is a recipe\" --docs .\n"},
		{`Who says "hi"?`, `superstep run research 'Who says "hi"?' --docs .`},
		{"nope", `there is no workflow "nope". There are: research, ralph, adversarial-verification, `},
		{"reserch", `there is no workflow "reserch"; did you mean "research"?`},
		{"code-reviw", `there is no workflow "code-reviw"; did you mean "code-review"?`},
	} {
		if code, _, errs := run("run", c.name); code != cli.ExitUsage || !strings.Contains(errs, c.want) {
			t.Errorf("exit %d: %s\nwant %s", code, errs, c.want)
		}
	}
}

// The listing and the pages of workflows say what needs a language model (Y4).
func TestListingSaysWhatNeedsAModel(t *testing.T) {
	run := place(t)
	_, out, _ := run("workflows", "list")
	for _, want := range []string{`(?m)^code-review +built-in +usable +a model +Reviews`, `(?m)^agent +built-in +usable +a model +Have`, `(?m)^research +built-in +usable +Answer`} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%s is missing:\n%s", want, out)
		}
	}
	if _, out, _ = run("workflows", "show", "readme.yaml"); !strings.Contains(out, "needs    a language model: step check: it is told to compare\n") {
		t.Error(out)
	}
	if _, out, _ = run("workflows", "show", "brief.yaml"); strings.Contains(out, "language model") {
		t.Error(out)
	}
	if _, out, _ = run("workflows", "show", "agent"); !strings.Contains(out, "needs    a language model") {
		t.Error(out)
	}
	if _, out, _ = run("workflows", "show", "readme.yaml", "-o", "json"); !strings.Contains(out, `"needs_language_model": true`) || !strings.Contains(out, `"step": "check"`) {
		t.Error(out)
	}
}

// A process of its own for a run has flags that nobody typed: no error suggests to type them.
func TestNobodyTypesDetached(t *testing.T) {
	h := newHousehold(t)
	plant(t, h.dir, map[string]string{"talks.yaml": "name: talks\nsteps:\n  - {id: a, subagent: researcher, prompt: Say hello}\n"})
	for _, hidden := range []bool{false, true} {
		args := []string{"run", "talks.yaml"}
		if hidden {
			args = append(args, "--detached="+filepath.Join(h.home, "begun"))
		}
		code, _, stderr := h.run(t, args...)
		if code != cli.ExitNoModel || !strings.Contains(stderr, "--model offline") || strings.Contains(stderr, "--detached") {
			t.Errorf("exit code %d\n%s", code, stderr)
		}
	}
}
