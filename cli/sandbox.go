package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/internal/attack"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/procgroup"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/tool/sandbox"
)

func sandboxCommand(a *app) *cobra.Command {
	n := a.cfg.Name
	var l leave
	explain := func(*cobra.Command, []string) error { return explainSandbox(a, l) }
	c := &cobra.Command{
		Use: "sandbox", Short: "Show the sandbox of agent commands, or run a command in it", Args: none,
		Example: examples(n, "sandbox explain", "", "sandbox run -- go test ./...", ""),
		RunE:    explain,
	}
	c.AddCommand(
		&cobra.Command{
			Use: "explain [-- COMMAND...]", Short: "Show what a command in this folder could read, write and reach", Args: cobra.ArbitraryArgs,
			Example: examples(n, "sandbox explain", "", "sandbox explain --allow 'net(registry.npmjs.org)' -- npm ci", ""),
			RunE:    explain,
		},
		&cobra.Command{
			Use: "run -- COMMAND [ARG...]", Short: "Run a command in the sandbox; the exit code is the command's",
			Example: examples(n, "sandbox run -- go test ./...", "", "sandbox run --allow 'net(proxy.golang.org)' -- go mod download", ""),
			Args:    nargs(1, math.MaxInt, "sandbox run: name a command, as in: "+n+" sandbox run -- go test ./..."),
			RunE:    func(cmd *cobra.Command, args []string) error { return runSandboxed(cmd.Context(), a, l, args) },
		},
		&cobra.Command{
			Use: "attack", Short: "Attack the sandbox of this machine and show what held", Args: none,
			Long: `Attack the sandbox of this machine and show what held

It runs bypasses as you, by each mechanism of this machine, against canaries in a temporary folder: single commands, two in a row, and three
at once, with Git used outside after each. It takes up to two minutes and changes nothing elsewhere. The exit code is 1 if one did not hold.`,
			Example: examples(n, "sandbox attack", "", "sandbox attack -o json", "for programs"),
			RunE:    func(cmd *cobra.Command, _ []string) error { return attackSandbox(cmd.Context(), a) },
		},
	)
	l.add(c.PersistentFlags())
	return c
}

// openSandbox opens the sandbox of the project in the current folder, with the rules of the flags.
func openSandbox(a *app, l leave) (*sandbox.Sandbox, error) {
	if _, err := l.rules(); err != nil {
		return nil, err
	}
	a.set.leave = l
	return a.here().Sandbox()
}

func explainSandbox(a *app, l leave) error {
	s, err := openSandbox(a, l)
	if err != nil {
		return err
	}
	text, err := s.Explain()
	if err := errors.Join(err, s.Close()); err != nil {
		return err
	}
	_, err = io.WriteString(a.out, transcript.Clean(text))
	return err
}

func runSandboxed(ctx context.Context, a *app, l leave, args []string) error {
	s, err := openSandbox(a, l)
	if err != nil {
		return err
	}
	if s.Mode() == sandbox.None { // nobody who says this wants the command run without
		why := "it is off in your configuration"
		if s != nil {
			why = s.String()
		}
		return errors.Join(&Error{Exit: ExitFailed, Code: "sandbox", Message: "the command was not run: there is no sandbox to run it in: " + why}, s.Close())
	}
	path, err := a.host().Program(args[0])
	if err != nil {
		return errors.Join(usage(err.Error()), s.Close())
	}
	c := s.Command(ctx, append(procgroup.Base(a.cfg.Environ), procgroup.GitSafe()...), path, args[1:]...)
	c.Dir = a.cfg.Dir
	done, err := a.attach(c)
	if err == nil {
		err = c.Start()
	}
	if err == nil {
		err = c.Wait()
	}
	done()
	for _, refused := range c.Refusals() {
		a.err.line("sandbox: " + transcript.Line(refused))
	}
	err = errors.Join(err, s.Close())
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return &Error{Exit: max(exit.ExitCode(), 1), Code: "command", Message: args[0] + ": " + exit.Error()}
	}
	return err
}

// attach gives the streams of this command to another, through pipes if they are no files. Call done when the other has ended.
func (a *app) attach(c *sandbox.Cmd) (done func(), err error) {
	var closers []func()
	pipe := func() (r, w *os.File) {
		if err == nil {
			r, w, err = os.Pipe()
		}
		return r, w
	}
	if in, ok := a.opt.Stdin.(*os.File); ok {
		c.Stdin = in
	} else if r, w := pipe(); err == nil {
		c.Stdin, closers = r, append(closers, func() { _ = r.Close() })
		go func() {
			_, _ = io.Copy(w, a.opt.Stdin) // the other may not read it
			_ = w.Close()
		}()
	}
	for _, x := range []struct {
		to   io.Writer
		file **os.File
	}{{a.opt.Stdout, &c.Stdout}, {a.opt.Stderr, &c.Stderr}} {
		if out, ok := x.to.(*os.File); ok {
			*x.file = out
		} else if r, w := pipe(); err == nil {
			*x.file = w
			var copying sync.WaitGroup
			copying.Go(func() { _, _ = io.Copy(x.to, r) })
			closers = append(closers, func() { _ = w.Close(); copying.Wait(); _ = r.Close() })
		}
	}
	return func() {
		for _, end := range closers {
			end()
		}
	}, err
}

// attackTime bounds an attack by one mechanism.
const attackTime = 55 * time.Second

// attackSandbox runs a part of the corpus by each mechanism.
func attackSandbox(ctx context.Context, a *app) error {
	var reports []*attack.Report
	broken := 0
	for _, mode := range []sandbox.Mode{sandbox.Namespaces, sandbox.Landlock, sandbox.Seatbelt} {
		s, err := sandbox.New(&sandbox.Options{Mode: mode, Temp: a.host().Temp()})
		if err != nil {
			if !a.programs() {
				a.out.line(fmt.Sprintf("%-11s not on this machine", mode))
			}
			continue
		}
		if err := s.Close(); err != nil {
			return err
		}
		limited, cancel := context.WithTimeout(ctx, attackTime)
		r, err := attack.Run(limited, &attack.Options{Mode: mode, Temp: a.host().Temp(), Environ: a.cfg.Environ, Cases: attack.Cases(13), Workers: runtime.GOMAXPROCS(0)})
		late := limited.Err() != nil
		cancel()
		if err != nil && (r == nil || !late || ctx.Err() != nil) {
			return err
		}
		reports = append(reports, r)
		broken += len(r.Broken)
		if a.programs() {
			continue
		}
		a.out.line(fmt.Sprintf("%-11s %d single commands, %d pairs and %d triples held", mode, r.Held["single"], r.Held["pair"], r.Held["triple"]))
		for _, b := range r.Broken {
			a.out.line(transcript.Line(fmt.Sprintf("  NOT HELD: %s: %s", b.Case, b.Why)))
		}
		if late {
			a.out.line("  the rest was left out, since its time was over")
		}
	}
	if a.programs() {
		if err := a.out.value(reports); err != nil {
			return err
		}
	}
	switch {
	case broken > 0:
		return &Error{Exit: ExitFailed, Code: "sandbox", Message: inwords.Plural(broken, "attack") + " got out; report them as SECURITY.md says"}
	case len(reports) == 0:
		return &Error{Exit: ExitFailed, Code: "sandbox", Message: "there is no sandbox to attack on this machine"}
	}
	return nil
}
