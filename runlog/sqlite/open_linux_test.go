package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/runlog"
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

// A store on a disk that cannot be written may be read, by who wants no more.
func TestLookAtUnwritable(t *testing.T) {
	dir := smallDisk(t, 8<<20)
	path := filepath.Join(dir, "what? 100%.db")
	s, err := Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	l, _, err := s.Acquire(t.Context(), "r", &runlog.AcquireOptions{Create: &runlog.NewRun{Workflow: "w"}})
	if err != nil {
		t.Fatal(err)
	}
	err = l.Append(t.Context(), &runlog.Batch{Records: []runlog.Record{{Kind: runlog.KindRunFinished, Time: time.Now()}}, Status: runlog.Completed})
	if err := errors.Join(err, l.Release(t.Context()), s.Close()); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path, nil); err == nil || !strings.Contains(err.Error(), "it cannot be written; check the permissions") {
		t.Error(err)
	}
	if s, err = Open(t.Context(), path, &Options{Look: true}); err != nil {
		t.Fatal(err)
	}
	infos, err := s.Runs(t.Context(), nil)
	if err != nil || len(infos) != 1 || infos[0].ID != "r" {
		t.Error(infos, err)
	}
	if recs, err := s.Read(t.Context(), "r", 1, 0); err != nil || len(recs) == 0 {
		t.Error(recs, err)
	}
	if err := s.Delete(t.Context(), "r"); err == nil || !strings.Contains(err.Error(), "it cannot be written") {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
