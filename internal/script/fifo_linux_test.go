package script_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/script"
)

// What waits for another process to write keeps nobody waiting.
func TestFIFO(t *testing.T) {
	for _, name := range []string{
		"package.json", ".superstep/package.json", ".superstep/tools/package.json", ".superstep/tools/other.ts", ".superstep/tools/x.tool.yaml",
		"node_modules/pkg/package.json", "node_modules/pkg/sub/package.json", "node_modules/@scope/pkg/package.json", ".superstep/tools/lib/package.json", "lib.ts",
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			tools := filepath.Join(root, ".superstep", "tools")
			for _, dir := range []string{tools, filepath.Dir(filepath.Join(root, name))} {
				if err := os.MkdirAll(dir, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			text := "import 'pkg'; import 'pkg/sub'; import '@scope/pkg'; import './lib'; import '../../lib';\nexport default {}\n"
			if err := os.WriteFile(filepath.Join(tools, "a.ts"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Mkfifo(filepath.Join(root, name), 0o600); err != nil {
				t.Fatal(err)
			}
			done := make(chan int, 1)
			go func() {
				_, problems := script.Discover(tools, script.Scope{Root: root})
				done <- len(problems)
			}()
			select {
			case n := <-done:
				if n == 0 {
					t.Error("there is no problem")
				}
			case <-time.After(time.Minute):
				t.Fatal("it waits")
			}
		})
	}
}
