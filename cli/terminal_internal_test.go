package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/tui"
)

// A workflow is started by its name only: that of an imported log may be a file or a flag.
func TestTerminalStartNames(t *testing.T) {
	h := newHome(t)
	h.write(t, "project/evil.yaml", "name: evil\nsteps:\n  - {id: a, run: \"true\"}\n")
	b := &terminalBackend{a: newApp(h.config(), &Options{Args: []string{}})}
	for _, name := range []string{"evil.yaml", "./evil.yaml", filepath.Join(h.root, "project", "evil.yaml"), "--help", "-"} {
		if id, err := b.Start(t.Context(), &tui.Start{Workflow: name}); !errors.As(err, new(*host.UnknownError)) {
			t.Errorf("%s: run %q, %v", name, id, err)
		}
	}
}

// The terminal knows the names of models that --model knows.
func TestTerminalModels(t *testing.T) {
	h := newHome(t)
	h.env["ANTHROPIC_API_KEY"] = "key"
	b := &terminalBackend{a: newApp(h.config(), &Options{Args: []string{}})}
	c, err := b.Catalog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"offline": "", "sonnet": "", "anthropic": "", "claude-sonnet-4-5": "", "openai/gpt-5": "API key", "nothing": "no model", "acp:nothing": "no external agent"} {
		if err := c.Opens(name); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// A file for inputs is the user's alone, and nothing is left of one that could not be written.
func TestTerminalPrivate(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "live")
	name, err := private(dir, "inputs-*.json", []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]os.FileMode{dir: 0o700, name: 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
}

// What is typed into the terminal of an encrypted store is written nowhere else in plain text.
func TestTerminalSealed(t *testing.T) {
	h := newHome(t)
	for _, key := range []string{"", strings.Repeat("0a", 32)} {
		h.env["SUPERSTEP_STORE_KEY"] = key
		var out bytes.Buffer
		a := newApp(h.config(), &Options{Args: []string{}, Stdout: &out, Stderr: &out})
		opt := a.terminalFiles(&tui.TerminalOptions{})
		if kept := opt.History != "" || opt.Drafts != ""; kept != (key == "") {
			t.Errorf("key %q: history %q, drafts %q", key, opt.History, opt.Drafts)
		}
	}
}
