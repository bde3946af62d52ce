package host

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/sandbox"
)

// TestCommandsSeeNoStore: a command of a run sees neither the store, wherever it lies, nor what the user trusts.
func TestCommandsSeeNoStore(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	g.write(t, filepath.Join(g.dir, "runs.db"), "quokka")
	g.write(t, filepath.Join(g.dir, "open.txt"), "zebra")
	private := filepath.Join(g.home, ".config", "superstep", "granted.json")
	g.write(t, private, "[]")
	socket := filepath.Join(g.dir, ".run", "superstep", "00000000-r.sock") // it tells what other runs do
	g.write(t, socket, "quokka")
	o := g.opt
	env := o.Env
	o.Env = func(name string) string {
		if name == "XDG_RUNTIME_DIR" {
			return filepath.Join(g.dir, ".run")
		}
		return env(name)
	}
	o.Store, o.Stores = "sqlite:"+filepath.Join(g.dir, "runs.db"), []runlog.Driver{{Kind: "sqlite"}}
	o.Rules = "allow bash"
	p, err := openProject(&o)
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.start(t.Context(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if s.sandbox.Mode() == sandbox.None {
		if os.Getenv("CI") != "" {
			t.Fatal(s.sandbox)
		}
		t.Skipf("SKIPPED: %s", s.sandbox)
	}
	args, _ := json.Marshal(map[string]string{"command": "cat open.txt runs.db '" + socket + "' '" + private + "'; echo x | tee runs.db; echo '[1]' | tee '" + private + "'"})
	res := s.Tools().Call(t.Context(), "bash", &tool.Call{Args: args, Permitted: true})
	if !strings.Contains(res.Text, "zebra") || strings.Contains(res.Text, "quokka") {
		t.Error(res.Text)
	}
	for name, want := range map[string]string{filepath.Join(g.dir, "runs.db"): "quokka", private: "[]"} {
		if b, err := os.ReadFile(name); err != nil || string(b) != want {
			t.Errorf("%s: %q %v", name, b, err)
		}
	}
}

// TestWorktree: in a linked working tree Git reads its repository, which has to know of the tree.
func TestWorktree(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	own := filepath.Join(dir, "repo", ".git", "worktrees", "w")
	tree := filepath.Join(dir, "w")
	for name, text := range map[string]string{
		filepath.Join(tree, ".git"): "gitdir: " + own + "\n", filepath.Join(own, "gitdir"): filepath.Join(tree, ".git") + "\n", filepath.Join(dir, "repo", ".git", "objects", "x"): "",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := repositoryOf(tree); got != filepath.Join(dir, "repo", ".git") {
		t.Errorf("%q", got)
	}
	if err := os.WriteFile(filepath.Join(own, "gitdir"), []byte("/elsewhere/.git"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := repositoryOf(tree); got != "" {
		t.Errorf("a repository that knows nothing of it: %q", got)
	}
}
