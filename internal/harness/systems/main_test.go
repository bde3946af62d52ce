package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The main packages of tests lie in the build cache, whatever its name is, and a mistake for one system is found there only.
func TestBuildCacheOfAnyName(t *testing.T) {
	t.Setenv("GOCACHE", filepath.Join(t.TempDir(), "kept"))
	t.Setenv("GOFLAGS", "")
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":       "module example.org/a\n\ngo 1.26\n",
		"a.go":         "package a\n",
		"a_windows.go": "package a\n\nvar wrong int = \"\"\n",
		"a_test.go":    "package a\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n, mistakes, err := check("linux/arm64", dir)
	if err != nil || n < 2 || len(mistakes) > 0 {
		t.Errorf("linux: %d packages, %v, %v", n, mistakes, err)
	}
	_, mistakes, err = check("windows/amd64", dir)
	if err != nil || len(mistakes) == 0 || !strings.Contains(mistakes[0].Error(), "a_windows.go") {
		t.Errorf("windows: %v, %v", mistakes, err)
	}
}
