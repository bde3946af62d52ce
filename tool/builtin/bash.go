package builtin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/procgroup"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/sandbox"
)

const (
	bashKept     = 1 << 20 // bytes of output, half from its start and half from its end
	bashTimeout  = 2 * time.Minute
	bashLongest  = 10 * time.Minute
	bashCommand  = 128 << 10 // bytes of a command, since systems limit what a process is given
	bashLastWait = 2 * time.Second
)

// BashOptions are the settings of Bash. Nil means the defaults.
type BashOptions struct {
	// Environ is the environment to choose from, in the form of os.Environ. A command sees only its variables for paths and language, and no secrets. If
	// nil, a command sees only a usual PATH.
	Environ []string
	// Extra are variables that commands see besides, as "NAME=value".
	Extra []string
	// Shell is the path of a shell. Defaults to bash, or else sh, found by the PATH in Environ.
	Shell string
	// Timeout is that of a command that does not set one, which may set at most 10 minutes. Defaults to 2 minutes.
	Timeout time.Duration
	// Sandbox confines commands, except those that a gate allows to run outside it. If nil, commands are not confined.
	Sandbox *sandbox.Sandbox
}

// Bash returns the tool "bash", which runs a command in the folder of a root, within the bounds of a sandbox. A gate decides whether a command may run.
// The command gets no input, and processes that it leaves running are killed. Its output and errors are one text, in the order they were written; of a
// long text, only the start and the end. If the command fails, so does the tool.
func Bash(root *Root, opts *BashOptions) (*tool.Tool, error) {
	var o BashOptions
	if opts != nil {
		o = *opts
	}
	b := &shell{sandbox: o.Sandbox, dir: root.root.Real, env: shellEnv(o), path: o.Shell, timeout: cmp.Or(o.Timeout, bashTimeout)}
	if b.path == "" {
		b.path = findShell(b.env)
	}
	if b.path == "" {
		return nil, errors.New("bash: neither bash nor sh is on the PATH; install one, or name it")
	}
	if !filepath.IsAbs(b.path) {
		return nil, fmt.Errorf("bash: shell %q: want an absolute path", b.path)
	}
	type args struct {
		Command string `json:"command" jsonschema:"the command, which may have several lines"`
		Timeout int    `json:"timeout,omitempty" jsonschema:"seconds after which it is killed, at most 600; defaults to 120"`
		Outside bool   `json:"unsandboxed,omitempty" jsonschema:"run it outside of the sandbox, which needs a permission of its own each time; only for what failed inside"`
	}
	kind := "bash"
	if b.posix() {
		kind = "sh, without the extensions of bash"
	}
	return tool.NewRaw("bash", "Run a command by "+kind+", in the working folder. It gets no input, every call starts a new shell, and what it "+
		"leaves running in the background is killed. The output is what it printed."+b.bounds(),
		func(ctx context.Context, c *tool.Call, in args) (string, error) {
			timeout := b.timeout
			if in.Timeout > 0 {
				timeout = time.Duration(in.Timeout) * time.Second
			}
			within := b.sandbox
			if in.Outside {
				within = nil
			}
			return b.run(ctx, within, in.Command, timeout, c)
		}, &tool.Options{Effect: tool.Once, Adjust: func(s *jsonschema.Schema) {
			s.Properties["timeout"].Minimum = jsonschema.Ptr(0.0)
			s.Properties["timeout"].Maximum = jsonschema.Ptr(bashLongest.Seconds())
			if o.Sandbox.Mode() == sandbox.None {
				delete(s.Properties, "unsandboxed")
			}
		}})
}

// ShellKind returns the shell that runs the commands of the tool bash: "bash", "sh", or "" if neither exists. A gate that parses commands needs it,
// since the two shells parse some commands differently.
func ShellKind(opts *BashOptions) string {
	var o BashOptions
	if opts != nil {
		o = *opts
	}
	switch b := (&shell{path: cmp.Or(o.Shell, findShell(shellEnv(o)))}); {
	case b.path == "":
		return ""
	case b.posix():
		return "sh"
	}
	return "bash"
}

// bounds describes to the model what a command may do.
func (b *shell) bounds() string {
	if b.sandbox.Mode() == sandbox.None {
		return ""
	}
	network := "no network"
	if hosts := b.sandbox.Network(); len(hosts) > 0 {
		network = "of the network only " + strings.Join(hosts, ", ")
	}
	return " It runs in a sandbox: it reads the system's programs, toolchains and this folder without its secret files, writes this folder and " +
		"$TMPDIR, and has " + network + "."
}

type shell struct {
	sandbox   *sandbox.Sandbox
	dir, path string
	env       []string
	timeout   time.Duration
}

func (b *shell) posix() bool {
	return !strings.HasPrefix(filepath.Base(b.path), "bash")
}

// shellEnv returns the environment of commands.
func shellEnv(o BashOptions) []string {
	env := procgroup.Base(o.Environ)
	if _, ok := procgroup.Variable(env, "PATH"); !ok {
		env = append(env, "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
	}
	// Nobody is there to page through a text or to answer.
	env = append(env, "TERM=dumb", "NO_COLOR=1", "PAGER=cat", "GIT_PAGER=cat", "GIT_TERMINAL_PROMPT=0", "DEBIAN_FRONTEND=noninteractive")
	env = append(env, procgroup.GitSafe()...)
	return append(env, o.Extra...)
}

// findShell looks for a shell in the PATH of an environment, and returns "" if there is none.
func findShell(env []string) string {
	for _, name := range []string{"bash", "sh"} {
		if path, err := procgroup.Look(env, name); err == nil {
			return path
		}
	}
	return ""
}

func (b *shell) run(ctx context.Context, within *sandbox.Sandbox, command string, timeout time.Duration, c *tool.Call) (string, error) {
	switch {
	case strings.TrimSpace(command) == "":
		return "", errors.New("command: is empty")
	case len(command) > bashCommand:
		return "", fmt.Errorf("command: is over %d KiB; write it to a file and run that", bashCommand>>10)
	case strings.ContainsRune(command, 0):
		return "", errors.New("command: contains a NUL character")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("it was killed after %v", timeout))
	defer cancel()
	args := []string{"-c", "--", command}
	if !b.posix() {
		args = append([]string{"--noprofile", "--norc"}, args...)
	}
	cmd := within.Command(ctx, b.env, b.path, args...)
	cmd.Dir = b.dir
	out := new(headTail)
	err := b.wait(cmd, out)
	text := out.String()
	refusals := cmd.Refusals()
	if c.Refused != nil {
		c.Refused(refusals...)
	}
	for _, refused := range refusals {
		text += "\n[sandbox: " + refused + "]"
	}
	if ctx.Err() != nil {
		return "", failed(text, context.Cause(ctx).Error())
	}
	var exit *exec.ExitError
	switch {
	case tool.Stops(err):
		return "", err
	case errors.As(err, &exit) && exit.ExitCode() < 0:
		return "", failed(text, exit.Error())
	case errors.As(err, &exit):
		return "", failed(text, fmt.Sprintf("exit status %d", exit.ExitCode()))
	case err != nil:
		return "", failed(text, err.Error())
	case c.Raw && out.total > bashKept:
		return "", fmt.Errorf("it printed %d bytes, over %d; print less, or send the output to a file and read that", out.total, bashKept)
	case c.Raw:
		return string(out.head) + string(out.rest()), nil
	case text == "":
		return "[no output]", nil
	}
	return text, nil
}

func failed(text, why string) error {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return errors.New(text + "[" + why + "]")
}

// wait runs a command and returns when it and all it started are gone. The pipe is created here, so that the end of the shell is noticed even if a
// process that it left behind keeps the pipe open.
func (b *shell) wait(cmd *sandbox.Cmd, out io.Writer) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		w.Close()
		return fmt.Errorf("start %s: %w", b.path, err)
	}
	w.Close()
	var reading sync.WaitGroup
	reading.Go(func() { _, _ = io.Copy(out, r) }) // what cannot be read any more is not missed
	err = cmd.Wait()
	// Whoever got away keeps the pipe; it is not waited for.
	_ = r.SetReadDeadline(time.Now().Add(bashLastWait))
	reading.Wait()
	return err
}

// A headTail keeps the start and the end of what is written to it.
type headTail struct {
	head, tail []byte
	total      int64
}

// Write never fails.
func (h *headTail) Write(p []byte) (int, error) {
	h.total += int64(len(p))
	k := min(len(p), bashKept/2-len(h.head))
	h.head, h.tail = append(h.head, p[:k]...), append(h.tail, p[k:]...)
	if over := len(h.tail) - bashKept/2; over > bashKept/2 {
		h.tail = slices.Delete(h.tail, 0, over)
	}
	return len(p), nil
}

// rest returns the end that is kept.
func (h *headTail) rest() []byte { return h.tail[max(0, len(h.tail)-bashKept/2):] }

// String returns the kept text, cut to the maximum size of a tool's result.
func (h *headTail) String() string {
	tail := h.rest()
	lost := h.total - int64(len(h.head)) - int64(len(tail))
	whole := clean.Text(string(h.head) + string(tail))
	if lost > 0 {
		return shortened(clean.Text(string(h.head)), clean.Text(string(tail)), lost)
	}
	if cut, is := clean.Truncate(whole); !is {
		return cut
	}
	return shortened(whole, whole, 0)
}

const (
	shownBytes = clean.MaxBytes - 1000 // room for a notice and a status
	shownLines = clean.MaxLines - 10
)

// shortened joins the start of one text and the end of another, with a line between them that states how much is left out.
func shortened(head, tail string, lost int64) string {
	all := int64(len(head)) + lost
	if lost > 0 {
		all += int64(len(tail))
	}
	// What is cut may begin or end with a part of a character.
	head = firstLines(strings.ToValidUTF8(head[:min(len(head), shownBytes/3)], ""), shownLines/3)
	tail = lastLines(strings.ToValidUTF8(tail[max(0, len(tail)-shownBytes*2/3):], ""), shownLines*2/3)
	if !strings.HasSuffix(head, "\n") {
		head += "\n"
	}
	return head + fmt.Sprintf("[%d bytes in the middle are left out; print less, or send the output to a file and read that]\n",
		all-int64(len(head))-int64(len(tail))) + tail
}

func firstLines(s string, n int) string {
	at := 0
	for range n {
		i := strings.IndexByte(s[at:], '\n')
		if i < 0 {
			return s
		}
		at += i + 1
	}
	return s[:at]
}

func lastLines(s string, n int) string {
	at := len(strings.TrimSuffix(s, "\n"))
	for range n {
		i := strings.LastIndexByte(s[:at], '\n')
		if i < 0 {
			return s
		}
		at = i
	}
	return s[at+1:]
}
