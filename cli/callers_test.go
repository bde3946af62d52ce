package cli

import (
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Whoever chooses the inputs of a run, such as a model or a client, chooses neither its rules nor another project, and has no file read that the rules
// protect.
func TestCallersInputs(t *testing.T) {
	h := newHome(t)
	h.env["OPENAI_BASE_URL"], h.env["OPENAI_API_KEY"], h.env["SUPERSTEP_MODEL"] = "http://127.0.0.1:1/v1", "none", "openai/x"
	project := filepath.Join(h.root, "project")
	h.write(t, "project/.env", "TOKEN=1\n")
	h.write(t, "project/spec.md", "Build it.\n")
	h.write(t, "project/sub/x", "")
	h.write(t, "other/secret.md", "A secret.\n")
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "spec.md"}, {"-c", "user.name=U", "-c", "user.email=u@example.org", "commit", "-qm", "first"}} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = project
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	host := newApp(h.config(), &Options{Args: []string{}, Stdout: io.Discard, Stderr: io.Discard}).host()
	other := filepath.Join(h.root, "other")
	for _, c := range []struct{ name, inputs, want string }{
		{"agent", `{"prompt":"x","rules":["allow bash"]}`, `unknown input "rules"`},
		{"agent", `{"prompt":"x","on_ask":"wait"}`, `unknown input "on_ask"`},
		{"agent", `{"prompt":"x","messages":[]}`, `unknown input "messages"`},
		{"agent", `{"prompt":"x","dir":"` + other + `"}`, "is not in the project"},
		{"agent", `{"prompt":"x","dir":"sub"}`, ""},
		{"agent", `{"prompt":"x"}`, ""},
		{"ralph", `{"prompt":"x","rules":["allow bash"]}`, `unknown input "rules"`},
		{"ralph", `{"prompt":"x","dir":"` + other + `"}`, `unknown input "dir"`},
		{"ralph", `{"prompt":"x","yes":true}`, `unknown input "yes"`},
		{"ralph", `{"prompt":".env"}`, `" may not be read: ask by default (read_file(**/.env*))`},
		{"ralph", `{"prompt":"` + filepath.Join(other, "secret.md") + `"}`, `" may not be read: no rule allows it`},
		{"ralph", `{"prompt":"spec.md"}`, ""},
	} {
		w, err := host.Ready(c.name)
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.Settle([]byte(c.inputs))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s %s: %v, want %q", c.name, c.inputs, err, c.want)
		}
	}
}
