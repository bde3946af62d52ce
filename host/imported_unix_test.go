//go:build unix

package host

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// The name of a recipe in the file of an imported run is a stranger's: nothing waits for it, and nothing fills the memory.
func TestDiffersOpensFilesOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fifo, file := filepath.Join(dir, "fifo"), filepath.Join(dir, "file")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("now"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{fifo: false, "/dev/zero": false, dir: false, file: true, filepath.Join(dir, "none"): false} {
		done := make(chan bool, 1)
		go func() { done <- differs(path, "before") }()
		select {
		case got := <-done:
			if got != want {
				t.Errorf("%s: %t, want %t", path, got, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s is waited for", path)
		}
	}
}
