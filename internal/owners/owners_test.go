package owners

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/gofrs/flock"
)

func TestOwners(t *testing.T) {
	a, b := Owners{Dir: t.TempDir()}, Owners{}
	b.Dir = a.Dir
	name, err := a.Join()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(a.Dir, name)
	if !a.Alive(name) || !b.Alive(name) {
		t.Fatal("an owner that holds its lock is dead")
	}
	for _, other := range []string{"", "never-there", "../" + filepath.Base(a.Dir) + "/" + name} {
		if b.Alive(other) {
			t.Errorf("owner %q is alive", other)
		}
	}
	// Its process ends without a word.
	if err := a.lock.Close(); err != nil {
		t.Fatal(err)
	}
	asking := flock.New(path, flock.SetFlag(os.O_RDONLY)) // somebody else, at the same moment
	if ok, err := asking.TryRLock(); !ok {
		t.Fatal(err)
	}
	defer asking.Close()
	if b.Alive(name) {
		t.Error("an owner that is being asked for is alive")
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its file is still there: %v", err)
	}

	// A file that was swept away between being made and being locked.
	l := flock.New(path)
	if ok, err := l.TryLock(); !ok || !Same(l, path) {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if Same(l, path) {
		t.Error("a file that is gone passes for the locked one")
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if Same(l, path) {
		t.Error("another file passes for the locked one")
	}
}
