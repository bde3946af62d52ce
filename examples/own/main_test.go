package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/cli"
)

// The program has the commands, recipes and workflows of the command superstep beside its own, whose nodes get the tools and
// agents that there are. Its graph is drawn, and its runs are forked and replayed, like those of any other.
func TestOwn(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	project := filepath.Join(root, "project")
	if err := os.MkdirAll(filepath.Join(project, ".superstep"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(project, "README.md"), []byte("# Heron\n\nHeron is a job queue.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(project)
	env := map[string]string{"HOME": filepath.Join(root, "home"), "PATH": os.Getenv("PATH")}
	for _, name := range []string{"CONFIG", "DATA", "CACHE"} {
		env["XDG_"+name+"_HOME"] = filepath.Join(root, name)
	}
	for _, name := range []string{"OLLAMA", "LMSTUDIO", "LLAMACPP", "VLLM"} {
		env[name+"_BASE_URL"] = "http://127.0.0.1:1/v1"
	}
	run := func(args ...string) string {
		t.Helper()
		own, err := survey()
		if err != nil {
			t.Fatal(err)
		}
		cfg := config(own)
		cfg.Env = func(name string) string { return env[name] }
		cfg.Environ = []string{"PATH=" + env["PATH"]}
		var out, errs bytes.Buffer
		if code := cli.Main(cfg, &cli.Options{Args: args, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs}); code != cli.ExitOK {
			t.Fatalf("%v: exit code %d\n%s%s", args, code, &out, &errs)
		}
		return out.String()
	}
	for _, c := range []struct{ args, want string }{
		{"workflows graph survey", "answer"},
		{"run survey --plan Heron", "list"},
		{"run survey Heron --model offline", "> Heron is a job queue."},
		{"runs history @last", "answer"},
		{"runs replay @last", "no model called"},
		{"runs fork @last --from answer", "> Heron is a job queue."},
		{"models list", "openai"},
		{"agents list", "explorer"},
		{`tools call ls {"path":"."}`, "README.md"},
	} {
		if strings.HasPrefix(c.args, "runs fork") {
			env["SUPERSTEP_MODEL"] = "offline"
		}
		if out := run(strings.Fields(c.args)...); !strings.Contains(out, c.want) {
			t.Errorf("%s:\n%s", c.args, out)
		}
	}
	out := run("workflows", "list")
	for _, want := range []string{"survey ", "research ", "agent ", "code-review "} {
		if !strings.Contains(out, want) {
			t.Errorf("there is no %s:\n%s", want, out)
		}
	}
}
