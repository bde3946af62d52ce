package cli

import (
	"os"
	"path/filepath"
	"testing"
)

// On a terminal the user is asked once whether runs may use an agent of another program, and the run begins with the answer.
func TestAllowOnTerminal(t *testing.T) {
	t.Parallel()
	dir, home, bin := t.TempDir(), t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "opencode"), []byte("#!/bin/sh\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	env := []string{"HOME=" + home, "PATH=" + bin + ":" + os.Getenv("PATH"), "SUPERSTEP_DATA_DIR=" + filepath.Join(home, "data")}
	const question = "acp:opencode is another program: "
	path := filepath.Join(home, ".config", "superstep", "agents.yaml")
	for _, x := range []struct {
		answer, after string
		code          int
		allowed       bool
	}{
		{"\n", "and you have not allowed it yet; allow it with", ExitDenied, false},
		{"y\n", "opencode has ended (exit status 3)", ExitFailed, true},
	} {
		c := openCommand(t, dir, 160, 30, env, filepath.Join(whole(t), "superstep"), "run", "agent", "go", "--model", "acp:opencode")
		c.until(question)
		c.until("Let runs use it from now on? [y/N]")
		c.typed(x.answer)
		c.until(x.after)
		if code := c.exit(); code != x.code {
			t.Errorf("exit code %d\n%s", code, c.screen())
		}
		if _, err := os.Stat(path); (err == nil) != x.allowed {
			t.Errorf("%q: %v", x.answer, err)
		}
	}
}
