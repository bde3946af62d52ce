// Package procgroup runs commands that somebody else wrote, and sees to it that nothing of
// them is left when they are over: not the processes they started, nor those that left their
// group to stay behind.
package procgroup

import (
	"context"
	"crypto/rand"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Grace is how long a group has between being told to end and being killed.
const Grace = 2 * time.Second

// mark is the variable by which the processes of a command are known again, wherever they went.
const mark = "SUPERSTEP_GROUP"

// Command is exec.CommandContext for a command with a process group of its own. When ctx ends,
// the group is told to end and killed after Grace. Env replaces the environment, nil means an
// empty one. Whoever started the command calls Sweep when it is over, however it ended.
func Command(ctx context.Context, env []string, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		return strings.HasPrefix(v, mark+"=")
	}), mark+"="+rand.Text())
	separate(cmd)
	cmd.Cancel = func() error { return terminate(cmd.Process) }
	cmd.WaitDelay = Grace // for those that keep the pipes open
	return cmd
}

// Sweep kills what is left of a command made by Command that was started: its group and, on
// Linux, the processes that carry its mark. It returns once they are dead, or after a moment.
func Sweep(cmd *exec.Cmd) {
	if cmd.Process == nil {
		return
	}
	kill(cmd.Process)
	var own string
	for _, v := range cmd.Env {
		if strings.HasPrefix(v, mark+"=") {
			own = v
		}
	}
	for range 20 {
		left := marked(own)
		if len(left) == 0 {
			return
		}
		for _, pid := range left {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill() // it may have ended by itself
			}
		}
		time.Sleep(10 * time.Millisecond) // the dead take a moment to go
	}
}

// Base is an environment for commands that are not to see the secrets of this process's: those
// of the given variables ("NAME=value") that say where things are and which language to speak.
func Base(environ []string) []string {
	keep := []string{
		"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TERM", "TMPDIR", "TEMP", "TMP",
		"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR",
		"SYSTEMROOT", "COMSPEC", "PATHEXT", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "PROGRAMFILES", "HOMEDRIVE", "HOMEPATH",
	}
	var out []string
	for _, v := range environ {
		name, _, _ := strings.Cut(v, "=")
		if slices.Contains(keep, strings.ToUpper(name)) {
			out = append(out, v)
		}
	}
	return out
}
