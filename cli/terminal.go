package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/detach"
	"github.com/superstep-dev/superstep/internal/tui"
)

// terminal opens the full-screen terminal, with a run or with the start page.
func (a *app) terminal(ctx context.Context, run string) error {
	b := &terminalBackend{a: a, global: a.opt.Args}
	return a.tty.RunTerminal(ctx, a.opt.Stdout, b, &tui.TerminalOptions{Run: run, Bell: !a.set.NoBell,
		History: filepath.Join(a.host().DataDir(), "terminal", "history"), Drafts: filepath.Join(a.host().DataDir(), "terminal", "drafts")})
}

// terminalBackend is what the terminal needs of this program. Its methods may run at the same time.
type terminalBackend struct {
	a      *app
	global []string // the flags that the terminal was started with
}

// Engine implements tui.Backend. The engine has the workflows, to read the states of runs and to fork them. Where the store cannot be written, it only
// reads runs.
func (b *terminalBackend) Engine(ctx context.Context) (*superstep.Engine, error) {
	e, err := b.a.host().Engine(ctx, nil)
	if err != nil {
		if looking, none := b.a.host().Engine(ctx, &host.EngineOptions{Look: true}); none == nil {
			return looking, nil
		}
	}
	return e, err
}

// Start implements tui.Backend by this command with --detach.
func (b *terminalBackend) Start(ctx context.Context, s *tui.Start) (string, error) {
	var args []string
	inputs := s.Inputs
	switch {
	case s.Run != "" && s.Message != "":
		args = []string{"run", "agent", "--continue=" + s.Run}
		inputs, _ = json.Marshal(map[string]string{"prompt": s.Message})
	case s.Run != "":
		args = []string{"runs", "resume", s.Run}
	default:
		args = []string{"run", s.Workflow}
	}
	if s.Model != "" && s.Run == "" {
		args = append(args, "--model="+s.Model)
	}
	dir := filepath.Join(b.a.host().DataDir(), "live")
	if inputs != nil {
		file, err := private(dir, inputs) // no command line has them: every user may read those
		if err != nil {
			return "", err
		}
		defer func() { _ = os.Remove(file) }()
		args = append(args, "--inputs="+file)
	}
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	args = slices.Concat(args, []string{"--on-ask=wait", "--output=text", "--plain"}, b.global)
	p, err := detach.Start(ctx, exe, args, dir, func(id string) string {
		dir, _ := b.a.host().Folder(id)
		return dir
	})
	if ended, ok := errors.AsType[*detach.EndedError](err); ok {
		return "", errors.New(cmp.Or(strings.TrimPrefix(clean.Text(ended.Output), "error: "), ended.Error()))
	}
	if err != nil {
		return "", err
	}
	return p.Run, nil
}

// private writes a file that only this user can read.
func private(dir string, data []byte) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	f, err := os.CreateTemp(dir, "inputs-*.json")
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	return f.Name(), errors.Join(err, f.Close())
}

func (b *terminalBackend) Catalog(ctx context.Context) (*tui.Catalog, error) {
	h := b.a.host()
	c := &tui.Catalog{Folder: h.Dir(), Demo: b.a.opt.Demo}
	var err error
	if c.Workflows, _, err = h.List(ctx, "workflows", false); err != nil {
		return nil, err
	}
	if c.Agents, _, err = h.List(ctx, "agents", false); err != nil {
		return nil, err
	}
	m, err := h.Model("")
	if err != nil {
		c.NoModel = err.Error()
	} else {
		c.Model = m.Name()
	}
	return c, nil
}

func (b *terminalBackend) Inbox(ctx context.Context) ([]tui.Waiting, error) { return nil, nil }

// Command implements tui.Backend by this program.
func (b *terminalBackend) Command(ctx context.Context, args ...string) (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, exe, slices.Concat(args, []string{"--no-input", "--color=never"}, b.global)...)
	var out, problem bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problem
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s", cmp.Or(strings.TrimPrefix(strings.TrimSpace(problem.String()), "error: "), err.Error()))
	}
	return out.String(), nil
}
