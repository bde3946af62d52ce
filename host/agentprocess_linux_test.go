package host

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/superstep-dev/superstep/tool/sandbox"
)

// A known agent writes its own folders, wherever the user's variables put them, and not the configuration that names what it executes.
func TestAgentFolders(t *testing.T) {
	t.Parallel()
	dir, home, data := t.TempDir(), t.TempDir(), t.TempDir()
	environ := []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "XDG_DATA_HOME=" + data, "XDG_CONFIG_HOME=" + home + "/.config"}
	env := func(name string) string {
		return map[string]string{"HOME": home, "XDG_DATA_HOME": data, "XDG_CONFIG_HOME": home + "/.config"}[name]
	}
	h, err := Open(t.Context(), &Config{Dir: dir, Env: env, Environ: environ, Settled: true})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	for _, name := range []string{home + "/.codex/config.toml", home + "/.config/opencode/opencode.json"} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, err := h.outsiders()
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		o := &all[i]
		s, err := h.confine(&o.Command, dir)
		if err != nil {
			t.Fatal(o.Name, err)
		}
		view, environ, err := s.Declaring("acp:"+o.Name, true, o.Needs, []string{"/bin/sh"}, environ)
		if err != nil {
			t.Fatal(o.Name, err)
		}
		cmd := view.Command(t.Context(), environ, "/bin/sh", "-c", `echo x > ~/.codex/auth.json; echo x > ~/.codex/config.toml; mv ~/.codex/config.toml ~/.codex/old; echo x > "$XDG_DATA_HOME/opencode/auth.json";
			echo x > ~/.config/opencode/opencode.json; mkdir ~/.config/opencode/plugin; echo x > ~/.config/opencode/plugin/p.js; echo x > ~/.gemini/oauth_creds.json; exit 0`)
		cmd.Dir = dir
		if err := cmd.Start(); err != nil {
			t.Fatal(o.Name, err)
		}
		if err := cmd.Wait(); err != nil {
			t.Error(o.Name, err)
		}
		for name, of := range map[string]string{home + "/.codex/auth.json": "codex", data + "/opencode/auth.json": "opencode", home + "/.gemini/oauth_creds.json": "gemini"} {
			if _, err := os.Stat(name); (err == nil) != (of == o.Name) {
				t.Errorf("%s: %s: %v", o.Name, name, err)
			}
			_ = os.Remove(name) // it may not be there
		}
		for _, name := range []string{home + "/.codex/config.toml", home + "/.config/opencode/opencode.json"} {
			if b, err := os.ReadFile(name); s.Mode() == sandbox.Namespaces && string(b) != "mine" {
				t.Errorf("%s changed %s: %q, %v", o.Name, name, b, err)
			}
		}
		if _, err := os.Stat(home + "/.config/opencode/plugin/p.js"); err == nil {
			t.Errorf("%s has made a plugin", o.Name)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
