package gitwork

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/procgroup"
)

const (
	maxOutput = 256 << 20 // bytes of a command's output; a listing of a million files fits
	maxErrors = 8 << 10   // bytes of what git says on its standard error
	maxTime   = 30 * time.Minute
)

// A command runs git on one git directory and one working tree. Nothing of the configuration of the repository runs code.
type command struct {
	git     string   // the program
	environ []string // without configuration
	config  []string // KEY=VALUE pairs, flattened: key, value, key, value
	gitDir  string
	work    string
	lock    *os.File // handed to every command, so that the lock outlives this process until they have ended
}

// An Error is a failed git command.
type Error struct {
	Args   []string
	Dir    string // its working tree
	Code   int    // its exit code, -1 if it did not exit
	Stderr string // what it said, cleaned and shortened
	Err    error
}

func (e *Error) Error() string {
	said := e.Stderr
	if said == "" {
		said = e.Err.Error()
	}
	return fmt.Sprintf("git %s in %s: %s", e.Args[0], e.Dir, said)
}

// Unwrap returns why it ended.
func (e *Error) Unwrap() error { return e.Err }

// code returns the exit code of a failed command, 0 for nil and -1 for other errors.
func code(err error) int {
	var e *Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e.Code
	}
	return -1
}

// fixed is the configuration of every command.
func fixed() []string {
	null := os.DevNull
	return []string{
		"core.hooksPath", null, "core.fsmonitor", "false", "core.virtualFilesystem", "", "core.attributesFile", null, "core.pager", "cat",
		"core.sshCommand", "false", "gpg.program", "false", "commit.gpgSign", "false", "credential.helper", "", "protocol.allow", "never",
		"safe.bareRepository", "explicit", "submodule.recurse", "false", "gc.auto", "0", "maintenance.auto", "false",
		"core.splitIndex", "false", "core.protectHFS", "true", "core.protectNTFS", "true", "core.quotePath", "false", "core.fsyncMethod", "batch",
		"core.fsync", "committed", "core.logAllRefUpdates", "true", "core.filesRefLockTimeout", "5000", "core.packedRefsTimeout", "10000",
		"i18n.commitEncoding", "UTF-8", "i18n.logOutputEncoding", "UTF-8", "merge.conflictStyle", "diff3", "worktree.useRelativePaths", "false",
		"color.ui", "false", "advice.addEmbeddedRepo", "false",
	}
}

// driver matches the keys of programs that git runs for a file or an event, wherever the attributes of a file ask for them.
var driver = regexp.MustCompile(`(?s)^(filter|merge|diff|hook)\.(.+)\.(clean|smudge|process|required|driver|textconv|command|enabled|event)$`)

// harmless returns the configuration that takes the place of a key that may run a program, and none for other keys.
func harmless(key string) []string {
	m := driver.FindStringSubmatch(key)
	if m == nil {
		return nil
	}
	at := func(name string) string { return m[1] + "." + m[2] + "." + name }
	switch m[1] {
	case "filter":
		return []string{at("clean"), "", at("smudge"), "", at("process"), "", at("required"), "false"}
	case "merge":
		return []string{at("driver"), "git merge-file --marker-size=%L %A %O %B"} // what happens without a driver
	case "diff":
		return []string{at("textconv"), ""} // and no command is asked for, see diffFlags
	}
	return []string{at("enabled"), "false", at("event"), ""}
}

// disarm reads the effective configuration and replaces what may run a program.
func (c *command) disarm(ctx context.Context) (settings map[string]string, err error) {
	all, err := c.configuration(ctx)
	if err != nil {
		return nil, err
	}
	settings = map[string]string{}
	seen := map[string]bool{}
	for _, kv := range all {
		settings[kv[0]] = kv[1]
		for h := range slices.Chunk(harmless(kv[0]), 2) {
			if !seen[h[0]] {
				seen[h[0]] = true
				c.config = append(c.config, h...)
			}
		}
	}
	return settings, nil
}

// configuration returns all settings in their order; keys are in lower case but for their middle.
func (c *command) configuration(ctx context.Context) ([][2]string, error) {
	out, err := c.run(ctx, nil, "config", "--list", "-z")
	if err != nil {
		return nil, err
	}
	var all [][2]string
	for _, entry := range fields(out) {
		k, v, ok := strings.Cut(entry, "\n")
		if !ok {
			v = "true"
		}
		all = append(all, [2]string{k, v})
	}
	return all, nil
}

// fields splits the output of a command with -z.
func fields(out []byte) []string {
	s := strings.TrimSuffix(string(out), "\x00")
	if s == "" {
		return nil
	}
	return strings.Split(s, "\x00")
}

// environment returns the variables of a command.
func (c *command) environment(more []string) []string {
	env := append(slices.Clone(c.environ),
		"GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=none",
		"GIT_ATTR_NOSYSTEM=1", "GIT_EDITOR=false", "GIT_PAGER=cat", "LC_ALL=C", "LANGUAGE=")
	if c.gitDir != "" {
		env = append(env, "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "GIT_DIR="+c.gitDir, "GIT_WORK_TREE="+c.work)
	}
	n := 0
	for kv := range slices.Chunk(slices.Concat(fixed(), c.config), 2) {
		env = append(env, "GIT_CONFIG_KEY_"+strconv.Itoa(n)+"="+kv[0], "GIT_CONFIG_VALUE_"+strconv.Itoa(n)+"="+kv[1])
		n++
	}
	return append(append(env, "GIT_CONFIG_COUNT="+strconv.Itoa(n)), more...)
}

// An input is what a command gets besides its arguments.
type input struct {
	env   []string
	stdin string
	limit int // of its output; 0 is maxOutput. Longer output of a command without a limit is an error, with one it is cut.
}

// run runs git and returns its standard output. The end of ctx ends it and its process group. If this process dies, it ends, too.
func (c *command) run(ctx context.Context, in *input, args ...string) ([]byte, error) {
	if in == nil {
		in = &input{}
	}
	ctx, stop := context.WithTimeout(ctx, maxTime)
	defer stop()
	cmd := procgroup.Command(ctx, c.environment(in.env), c.git, args...)
	gently(cmd)
	cmd.Dir = c.work
	inherit(cmd, c.lock)
	cmd.Stdin = strings.NewReader(in.stdin)
	out := &bounded{limit: maxOutput, stop: stop}
	if in.limit > 0 {
		out.limit = in.limit
	}
	said := &procgroup.Tail{Limit: maxErrors}
	cmd.Stdout, cmd.Stderr = out, said
	err := cmd.Run()
	if ctx.Err() != nil && cmd.Process != nil {
		procgroup.Kill(cmd.Process) // the others of its group
	}
	switch {
	case out.cut && in.limit > 0:
		return out.b.Bytes(), errCut
	case out.cut:
		err = fmt.Errorf("its output is over %d MiB", maxOutput>>20)
	case err != nil && ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	if err == nil {
		return out.b.Bytes(), nil
	}
	e := &Error{Args: args, Dir: c.work, Code: -1, Stderr: strings.TrimSpace(clean.Text(said.Text(2000))), Err: err}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		e.Code = exit.ExitCode()
	}
	return out.b.Bytes(), e
}

// errCut reports that output was cut at the limit its caller set.
var errCut = errors.New("the output was cut")

// A bounded keeps the beginning of what is written to it, and ends the command when there is more.
type bounded struct {
	b     bytes.Buffer
	limit int
	cut   bool
	stop  func()
}

func (w *bounded) Write(p []byte) (int, error) {
	if left := w.limit - w.b.Len(); len(p) > left {
		w.b.Write(p[:left])
		w.cut = true
		w.stop()
		return left, io.ErrShortWrite
	}
	return w.b.Write(p)
}

// line runs git and returns its output without the newline at its end.
func (c *command) line(ctx context.Context, in *input, args ...string) (string, error) {
	out, err := c.run(ctx, in, args...)
	return strings.TrimSuffix(string(out), "\n"), err
}
