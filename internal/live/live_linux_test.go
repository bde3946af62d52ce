package live_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/superstep-dev/superstep/runlog"
)

// A process of another user gets nothing, even where directory and socket let it in.
func TestOtherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be two users")
	}
	s := newStage(t, runlog.NewMemory(nil))
	for path, mode := range map[string]os.FileMode{s.paths[0]: 0o777, filepath.Dir(s.paths[0]): 0o755, filepath.Dir(filepath.Dir(s.paths[0])): 0o755} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	exe, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(filepath.Dir(filepath.Dir(s.paths[0])), "reader")
	if err := os.WriteFile(bin, exe, 0o755); err != nil { //nolint:gosec // another user runs it
		t.Fatal(err)
	}
	for uid, want := range map[uint32]string{65534: "", 0: "begin"} {
		cmd := exec.Command(bin)
		cmd.Env, cmd.Dir = []string{"TEST_READER=" + s.paths[0], "TEST_MODE=first"}, "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, err := cmd.CombinedOutput()
		if got := string(out); err != nil || want == "" && got != "nothing" || !strings.Contains(got, want) {
			t.Errorf("user %d: %v\n%s", uid, err, out)
		}
	}
}
