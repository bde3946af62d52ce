// Package procgroup runs untrusted commands, and makes sure that no process is left when they end:
// neither the processes they started, nor those that left their group to survive.
package procgroup

import (
	"context"
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Grace is how long a group has between being told to end and being killed.
const Grace = 2 * time.Second

// mark is the variable that identifies the processes of a command, even outside its group.
const mark = "SUPERSTEP_GROUP"

// Command is exec.CommandContext for a command with a process group of its own. When ctx ends, the
// group is told to end and killed after Grace. Env replaces the environment, nil means an empty
// one. The caller must call Sweep when the command has ended, however it ended.
func Command(ctx context.Context, env []string, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		return strings.HasPrefix(v, mark+"=")
	}), Mark())
	separate(cmd)
	cmd.Cancel = func() error { return terminate(cmd.Process) }
	cmd.WaitDelay = Grace // for those that keep the pipes open
	return cmd
}

// Mark returns a variable that identifies the processes of a command that was not created by
// Command.
func Mark() string { return mark + "=" + rand.Text() }

// Inside reports whether a process with this environment was started by a command of an agent, or by what such a command started.
func Inside(environ []string) bool {
	_, inside := Variable(environ, mark)
	return inside
}

// Terminate asks the process group to exit.
func Terminate(p *os.Process) { _ = terminate(p) } // it may have ended

// Kill kills the group of a process.
func Kill(p *os.Process) { kill(p) }

// Sweep kills the remaining processes of a command: its group and, on Linux, the processes that carry the mark
// in its environment. It returns once they are dead, or after a moment.
func Sweep(p *os.Process, env []string) {
	if p == nil {
		return
	}
	kill(p)
	var own string
	for _, v := range env {
		if strings.HasPrefix(v, mark+"=") {
			own = v
		}
	}
	none := 0 // scans in a row that found nothing: one can miss a process whose parent ends meanwhile
	for range 20 {
		left := marked(own)
		if len(left) == 0 {
			if none++; none == 2 {
				return
			}
			continue
		}
		none = 0
		for _, pid := range left {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill() // it may have ended by itself
			}
		}
		time.Sleep(10 * time.Millisecond) // the dead take a moment to go
	}
}

// Base returns an environment for commands that must not see the secrets of this process: only the
// given variables ("NAME=value") for paths and languages.
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

// Variable returns the value of a variable of an environment as a process sees it, the last of that name, and whether there is one.
func Variable(environ []string, name string) (string, bool) {
	for _, v := range slices.Backward(environ) {
		if n, value, ok := strings.Cut(v, "="); ok && (n == name || runtime.GOOS == "windows" && strings.EqualFold(n, name)) {
			return value, true
		}
	}
	return "", false
}

// Look returns the path of a program by the PATH of an environment, unless the name is a path. Only absolute folders count:
// files in the current folder must not be run by accident.
func Look(environ []string, name string) (string, error) {
	if filepath.Base(name) != name {
		return exec.LookPath(name)
	}
	path, _ := Variable(environ, "PATH")
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		if found, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return found, nil
		}
	}
	return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
}

// A Tail keeps the end of the text written to it. Several goroutines may write at once.
type Tail struct {
	Limit int // bytes that are kept for sure

	mu   sync.Mutex
	kept []byte
	cut  bool
}

// Write never fails.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - t.Limit; over > t.Limit {
		t.kept, t.cut = slices.Delete(t.kept, 0, over), true
	}
	return len(p), nil
}

// Text returns the end of it, of at most so many bytes, with "…" in place of omitted text.
func (t *Tail) Text(most int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.kept[max(0, len(t.kept)-most):]
	if len(b) == len(t.kept) && !t.cut {
		return string(b)
	}
	for len(b) > 0 && !utf8.RuneStart(b[0]) {
		b = b[1:]
	}
	return "…" + string(b)
}

// GitSafe returns variables that keep Git from executing anything in a folder that only looks like
// a repository: one without a .git, which any tool that writes files could create.
func GitSafe() []string {
	return []string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.bareRepository", "GIT_CONFIG_VALUE_0=explicit"}
}
