package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestIdentity(t *testing.T) {
	t.Parallel()
	for config, want := range map[string][2]string{
		"[user]\n\tname = Ada Lovelace\n\temail = ada@example.org\n[core]\n\tname = x\n": {"Ada Lovelace", "ada@example.org"},
		"[user]\nname=\"Ada\"\nemail=a@b":                                                {"Ada", "a@b"},
		"[user \"work\"]\nname=Ada\n":                                                    {"", ""},
		"[user]\nname = a ; b\nemail = x \\\n":                                           {"", ""},
		"":                                                                               {"", ""},
	} {
		name, email := identity([]byte(config))
		if got := [2]string{name, email}; got != want {
			t.Errorf("%q: %q", config, got)
		}
	}
}

func TestUserVariables(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, ".gitconfig"), []byte("[user]\nname = Ada\nemail = a@b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &Sandbox{opt: Options{Home: home, Environ: []string{"GOMODCACHE=/x/mod", "GOPATH=relative", "OPENAI_API_KEY=k"}}}
	got := s.userVariables()
	if !slices.Contains(got, "GOMODCACHE=/x/mod") || !slices.Contains(got, "GIT_COMMITTER_EMAIL=a@b") || len(got) != 5 {
		t.Error(got)
	}
}

// TestSweep: what a killed process left is removed, and nothing else.
func TestSweep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old := time.Now().Add(-2 * time.Hour)
	for _, name := range []string{tempPrefix + "999999999-dead", tempPrefix + "999999999-fresh", tempPrefix + "1-alive", tempPrefix + "x", "other"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if name != tempPrefix+"999999999-fresh" {
			if err := os.Chtimes(filepath.Join(dir, name), old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	sweep(dir)
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 4 || slices.ContainsFunc(left, func(e os.DirEntry) bool { return e.Name() == tempPrefix+"999999999-dead" }) {
		t.Error(left, err)
	}
}
