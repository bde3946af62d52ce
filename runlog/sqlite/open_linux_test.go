package sqlite

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// A store may be made below a directory that may be entered but not listed.
func TestOpenBelowUnlistable(t *testing.T) {
	const nobody = 65534
	root := t.TempDir()
	home := filepath.Join(root, "home")
	deep := filepath.Join(root, "deep")
	for _, dir := range []string{home, deep} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if os.Geteuid() == 0 { // whom no mode keeps out
		for _, dir := range []string{home, deep} {
			if err := os.Chown(dir, nobody, nobody); err != nil {
				t.Skip(err)
			}
		}
		if err := os.Chmod(filepath.Dir(root), 0o711); err != nil {
			t.Fatal(err)
		}
	}
	for dir, mode := range map[string]os.FileMode{root: 0o711, deep: 0o300} {
		if os.Geteuid() != 0 && dir == root {
			mode = 0o300
		}
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _, _ = os.Chmod(root, 0o700), os.Chmod(deep, 0o700) })
	done := make(chan error)
	try := func(path string) error {
		go func() {
			runtime.LockOSThread() // and never unlock it, so that it ends
			if os.Geteuid() == 0 {
				if _, err := unix.SetfsuidRetUid(nobody); err != nil {
					done <- err
					return
				}
			}
			if _, err := os.ReadDir(root); err == nil {
				t.Error("the directory can be listed")
			}
			done <- prepareFile(path)
		}()
		return <-done
	}
	for _, path := range []string{filepath.Join(home, "runs.db"), filepath.Join(deep, "er", "runs.db"), filepath.Join(deep, "runs.db")} {
		if err := try(path); err != nil {
			t.Error(err)
		}
	}
}
