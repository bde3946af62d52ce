package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// No command gets the home folder, however it is spelled, nor the folder of what the user allowed; in a folder that holds
// the home folder that is hidden.
func TestNoSandboxOverHome(t *testing.T) {
	t.Parallel()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home, link, data := filepath.Join(top, "home"), filepath.Join(top, "link"), filepath.Join(top, "data")
	for _, dir := range []string{filepath.Join(home, ".config", "superstep", "agents"), data} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(home, link); err != nil {
		t.Fatal(err)
	}
	open := func(dir, home string) (string, error) {
		p, err := openProject(&Config{Dir: dir, Env: atHome(home), Settings: Settings{DataDir: data}})
		if err != nil {
			t.Fatal(err)
		}
		policy, err := p.policy()
		if err != nil {
			t.Fatal(err)
		}
		s, err := p.openSandbox(policy, nil)
		if err != nil {
			return "", err
		}
		defer s.Close()
		text, err := s.Explain()
		if err != nil {
			t.Fatal(err)
		}
		return text, nil
	}
	for _, c := range [][2]string{{home, home}, {home, home + "/"}, {home, link}, {link, home}, {home, top + "/./home"}, {filepath.Join(home, ".config", "superstep"), home}, {data, home}} {
		if text, err := open(c[0], c[1]); err == nil {
			t.Errorf("in %s with the home %s:\n%s", c[0], c[1], text)
		}
	}
	if text, err := open(top, link); err == nil {
		if _, hidden, ok := strings.Cut(text, "hidden"); !ok || !strings.Contains(hidden, home) {
			t.Errorf("above the home folder:\n%s", text)
		}
	} else {
		t.Error(err)
	}
}

// What bounds commands may be said with a run.
func TestRulesOfTheSandboxWithARun(t *testing.T) {
	t.Parallel()
	p, err := openProject(&Config{Dir: t.TempDir(), Env: atHome(t.TempDir()), Settings: Settings{Rules: "allow net(registry.example.org)\nallow unsandboxed(make deploy)"}})
	if err != nil {
		t.Fatal(err)
	}
	policy, err := p.policy()
	if err != nil {
		t.Fatal(err)
	}
	if hosts := policy.Network(); len(hosts) != 1 || hosts[0] != "registry.example.org" {
		t.Errorf("got %v", hosts)
	}
}
