package owners

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gofrs/flock"
)

func TestUnlocked(t *testing.T) {
	for want, err := range map[string]error{
		"cannot be written":                         &fs.PathError{Op: "open", Err: syscall.EROFS},
		"make it writable":                          &fs.PathError{Op: "mkdir", Err: syscall.EACCES},
		"needs a file system with locks":            syscall.ENOSYS,
		"locking " + filepath.Join("a", "b") + ": ": syscall.ENOSPC,
	} {
		if got := unlocked(filepath.Join("a", "b"), err); !strings.Contains(got.Error(), want) || !errors.Is(got, err) {
			t.Errorf("got %v, want %q", got, want)
		} else if !strings.Contains(want, "locks") && strings.Contains(got.Error(), "needs a file system") {
			t.Errorf("%v names the wrong cause", got)
		}
	}
	dir := filepath.Join(t.TempDir(), "file", "owners")
	if err := os.WriteFile(filepath.Dir(dir), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (&Owners{Dir: dir}).Join(); err == nil {
		t.Error("a folder below a file is joined")
	}
}

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
