package cli

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

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
	path, err := exec.LookPath(args[0])
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return errors.Join(usage(err.Error()), s.Close())
	}
	dir, err := os.Getwd()
	if err != nil {
		dir = a.host().Dir()
	}
	c := s.Command(ctx, append(procgroup.Base(a.cfg.Environ), procgroup.GitSafe()...), path, args[1:]...)
	c.Dir, c.Stdin, c.Stdout, c.Stderr = dir, os.Stdin, os.Stdout, os.Stderr
	if err = c.Start(); err == nil {
		err = c.Wait()
	}
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
