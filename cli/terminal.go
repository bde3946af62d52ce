package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/console"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/detach"
	"github.com/superstep-dev/superstep/internal/signals"
	"github.com/superstep-dev/superstep/internal/tui"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/workflow"
)

// terminal opens the full-screen terminal, with a run or with the start page.
func (a *app) terminal(ctx context.Context, run string) error {
	b := &terminalBackend{a: a, global: a.globalArgs()}
	opt := &tui.TerminalOptions{Run: run, Bell: !a.set.NoBell, Editor: strings.Fields(cmp.Or(a.cfg.Env("VISUAL"), a.cfg.Env("EDITOR"))),
		Keys: keysIn(a.config()), Calm: a.setting("terminal.calm") == "true"}
	theme := cmp.Or(a.setting("terminal.theme"), string(tui.Usual))
	if err := oneOf(host.Variable("terminal.theme"), theme, tui.Themes()...); err != nil {
		return err
	}
	opt.Theme = tui.Palette(theme)
	a.terminalFiles(opt)
	if exe, err := a.file(); err == nil {
		opt.Program = append([]string{exe}, b.global...)
	}
	ended := make(chan os.Signal, 1) // by which the terminal restores the screen and ends
	signal.Notify(ended, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		signal.Notify(ended, syscall.SIGHUP)
	}
	defer signal.Stop(ended)
	err := a.tty.RunTerminal(ctx, a.opt.Stdout, b, opt)
	select {
	case sig := <-ended:
		why := &signals.Error{Signal: sig}
		return &Error{Exit: why.Exit(), Code: "interrupted", Message: why.Error(), Err: err, shown: true}
	default:
		return err
	}
}

// terminalFiles sets where the terminal keeps what is typed: nowhere if the store is encrypted, since those files are not.
func (a *app) terminalFiles(opt *tui.TerminalOptions) *tui.TerminalOptions {
	if h := a.host(); a.setting("terminal.history") != "false" && a.kept() && !h.Sealed() {
		opt.History, opt.Drafts = filepath.Join(h.DataDir(), "terminal", "history"), filepath.Join(h.DataDir(), "terminal", "drafts")
	}
	return opt
}

// globalArgs returns the global flags of the command line, for other command lines of this program.
func (a *app) globalArgs() []string {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	b := &app{opt: a.opt, cfg: a.cfg}
	b.globals(f)
	f.ParseErrorsAllowlist.UnknownFlags, f.Usage = true, func() {}
	_ = f.Parse(a.opt.Args) // they were parsed before
	var out []string
	f.Visit(func(x *pflag.Flag) {
		if x.Name != "plain" && x.Name != "output" {
			out = append(out, "--"+x.Name+"="+x.Value.String())
		}
	})
	return out
}

// setting returns the value of a setting that is no flag: of its variable, else of the configuration, "" for its default.
func (a *app) setting(name string) string {
	v := a.cfg.Env(host.Variable(name))
	if s := a.config().Setting(name); s != nil && v == "" {
		v = s.Value
	}
	if on, err := strconv.ParseBool(v); err == nil {
		return strconv.FormatBool(on)
	}
	return v
}

// terminalBackend is what the terminal needs of this program. Its methods may run at the same time.
type terminalBackend struct {
	a      *app
	global []string // the flags that the terminal was started with
	rules  []string // flags of each run

	mu sync.Mutex // an app is for one goroutine

	opening sync.Mutex
	engine  *superstep.Engine // nil until it is open
}

// Engine implements tui.Backend. The engine has the workflows, to read the states of runs and to fork them. It creates the store: the first run is started by
// another process, and must be found afterwards. Where the store cannot be written, it only reads runs.
func (b *terminalBackend) Engine(ctx context.Context) (*superstep.Engine, error) {
	b.opening.Lock()
	defer b.opening.Unlock()
	if b.engine != nil {
		return b.engine, nil
	}
	e, err := b.host().Engine(ctx, nil)
	if err != nil {
		if looking, none := b.host().Engine(ctx, &host.EngineOptions{Look: true}); none == nil {
			e, err = looking, nil
		}
	}
	if err == nil {
		b.engine = e
	}
	return e, err
}

// host returns the host of the program.
func (b *terminalBackend) host() *host.Host {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.a.host()
}

// Start implements tui.Backend by this command with --detach.
func (b *terminalBackend) Start(ctx context.Context, s *tui.Start) (string, error) {
	var args []string
	inputs := s.Inputs
	switch {
	case s.Run != "" && s.Message != "" && s.Workflow != "":
		if told, err := b.tell(ctx, s); told || err != nil {
			return s.Run, err
		}
		args = []string{"run", s.Workflow, "--resume=" + s.Run}
		inputs, _ = json.Marshal(map[string]string{"prompt": s.Message})
	case s.Run != "" && s.Message != "":
		args = []string{"run", "agent", "--continue=" + s.Run, "--" + runID + "=" + s.ID}
		inputs, _ = json.Marshal(map[string]string{"prompt": s.Message})
	case s.Run != "":
		args = []string{"runs", "resume", "--", s.Run}
	default:
		if _, err := b.host().Find(s.Workflow); err != nil { // the name may come from a log, and "run" takes files and flags, too
			return "", err
		}
		args = []string{"run", s.Workflow, "--" + runID + "=" + s.ID}
	}
	if s.Trace != "" && s.Run == "" {
		args = append(args, "--"+traceFlag+"="+s.Trace)
	}
	if s.Model != "" && s.Run == "" {
		args = append(args, "--model="+s.Model)
	}
	dir := filepath.Join(b.host().DataDir(), "live")
	if inputs != nil {
		file, err := private(dir, "inputs-*.json", inputs) // no command line has them: every user may read those
		if err != nil {
			return "", err
		}
		defer func() { _ = os.Remove(file) }()
		args = detach.Args(args, "--inputs="+file)
	}
	args = detach.Args(args, slices.Concat([]string{"--on-ask=ask", "--output=text", "--plain"}, b.rules, b.global)...)
	cmd, err := b.a.again(context.WithoutCancel(ctx), args...)
	if err != nil {
		return "", err
	}
	p, err := detach.Start(ctx, cmd, dir, func(id string) string {
		dir, _ := b.host().Folder(id)
		return dir
	})
	if ended, ok := errors.AsType[*detach.EndedError](err); ok {
		return "", &Error{Exit: max(ended.Exit, ExitFailed), Message: cmp.Or(strings.TrimPrefix(clean.Text(ended.Output), "error: "), ended.Error()), Err: err}
	}
	if err != nil {
		return "", err
	}
	return p.Run, nil
}

// tell adds to the plan of a run that executes. It returns false for one that has to be resumed for that.
func (b *terminalBackend) tell(ctx context.Context, s *tui.Start) (bool, error) {
	e, err := b.Engine(ctx)
	if err != nil {
		return false, err
	}
	info, err := e.Find(ctx, s.Run)
	if err != nil || info.Status != runlog.Running {
		return false, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := tellable(ctx, b.a, info); err != nil {
		return false, err
	}
	store, err := b.a.host().Store(ctx, true)
	if err != nil {
		return false, err
	}
	return true, tellPlanner(ctx, store, info.ID, s.Message)
}

// private writes a file that only this user can read.
func private(dir, name string, data []byte) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	f, err := os.CreateTemp(dir, name)
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// Catalog implements tui.Backend. It reads the folders anew.
func (b *terminalBackend) Catalog(ctx context.Context) (*tui.Catalog, error) {
	h := b.host()
	h.Refresh()
	c := &tui.Catalog{Folder: h.Dir(), Demo: b.a.opt.Demo, Files: h.Files, Prompt: h.Prompt}
	for _, x := range []struct {
		kind string
		to   *[]host.Item
	}{{host.Workflows, &c.Workflows}, {host.Agents, &c.Agents}, {host.Skills, &c.Skills}} {
		items, _, err := h.List(ctx, x.kind, false)
		if err != nil {
			return nil, err
		}
		*x.to = slices.DeleteFunc(items, func(i host.Item) bool { return i.State != "usable" })
	}
	c.Find = func(name string) *workflow.Workflow {
		w, err := h.Find(name)
		if err != nil {
			return nil
		}
		return w
	}
	if items, err := h.Decisions(); err == nil {
		c.Untrusted = len(slices.DeleteFunc(items, func(d host.Decision) bool { return d.State == host.Trusted }))
	}
	c.Broken = h.Broken()
	c.Documents = !atHome(b.a) && host.HasDocuments(b.a.cfg.Dir)
	if dir, _ := h.Folder("id"); dir != "" {
		c.RunFiles = filepath.Dir(dir)
	}
	b.mu.Lock()
	models, none := b.a.models()
	b.mu.Unlock()
	m, err := h.Model("")
	if none == nil {
		var wrong error
		c.Models, wrong = models.ListModels(ctx)
		err = cmp.Or(err, wrong)
		c.Opens = func(name string) error { _, _, err := models.OpenModel(name); return err }
	}
	switch {
	case err != nil:
		c.NoModel = err.Error()
	case c.Models != nil && c.Models.Use.Name == host.Offline:
		c.NoModel = "The model offline only quotes documents; to talk to an agent takes a language model."
	default:
		c.Model = m.Name()
	}
	return c, nil
}

// Inbox implements tui.Backend.
func (b *terminalBackend) Inbox(ctx context.Context) ([]host.InboxItem, error) {
	return b.host().Inbox(ctx)
}

// Command implements tui.Backend by this program.
func (b *terminalBackend) Command(ctx context.Context, args ...string) (string, error) {
	cmd, err := b.a.again(ctx, detach.Args(args, append(slices.Clone(b.global), "--no-input", "--color=never")...)...)
	if err != nil {
		return "", err
	}
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(os.Interrupt) }, 3*time.Second // it ends what it has started
	var out, problem bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problem
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s", cmp.Or(strings.TrimPrefix(strings.TrimSpace(problem.String()), "error: "), err.Error()))
	}
	return out.String(), nil
}

// console starts a run for the console, as Start does for the terminal.
func (b *terminalBackend) console(ctx context.Context, s *console.Start) (string, error) {
	start := tui.Start(*s)
	return b.Start(ctx, &start)
}
