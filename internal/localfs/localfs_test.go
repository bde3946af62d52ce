package localfs

import (
	"path/filepath"
	"slices"
	"testing"
)

func TestMakeDir(t *testing.T) {
	root := t.TempDir()
	a := filepath.Join(root, "a")
	b := filepath.Join(a, "b")
	for _, c := range []struct {
		dir      string
		unsynced []string
	}{{b, []string{a, root}}, {b, nil}, {filepath.Join(a, "c"), []string{a}}} {
		if got, err := MakeDir(c.dir); err != nil || !slices.Equal(got, c.unsynced) {
			t.Errorf("%s has its new names in %q, want %q, error %v", c.dir, got, c.unsynced, err)
		}
		if err := SyncDir(c.dir); err != nil {
			t.Error(err)
		}
	}
}
