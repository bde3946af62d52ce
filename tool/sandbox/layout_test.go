package sandbox

import (
	"os"
	"path/filepath"
	"testing"
)

// The home folder is not seen where it is within a folder of the system's.
func TestHomeInSystem(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(base, "opt", "user")
	for _, dir := range []string{home, filepath.Join(base, "opt", "tool"), filepath.Join(base, "lib")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	l := layout{trees: map[string]bool{}, links: map[string]string{}}
	(&Sandbox{opt: Options{Home: home}}).addSystem(&l, base)
	if !l.holds(filepath.Join(base, "opt", "tool", "x")) || !l.holds(filepath.Join(base, "lib", "x")) || l.holds(filepath.Join(home, "x")) {
		t.Error(l.trees)
	}
}
