package host

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/builtin/ralph"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/procgroup"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/builtin"
	"github.com/superstep-dev/superstep/workflow"
)

// trees gives the workflow ralph agents and commands that are confined to a worktree.
type trees struct{ *Host }

// ralph creates the workflow.
func (h *Host) ralph() (*workflow.Workflow, error) {
	t := trees{h}
	return ralph.New(&ralph.Options{Prepare: t.prepare, Readable: t.readable, Open: t.open, Publish: t.publish, Dir: h.Dir, Here: h.cfg.Dir, Trees: h.DataDir, Environ: h.cfg.Environ})
}

func (h trees) project(in *ralph.Inputs) (*project, error) {
	return h.projectOf(in.Dir, in.Rules, in.OnAsk, h.agentModel)
}

// readable returns why a file may not be read, by the rules for agents.
func (h trees) readable(in *ralph.Inputs, file string) error {
	p, err := h.project(in)
	if err != nil {
		return err
	}
	policy, err := p.policy()
	if err != nil {
		return err
	}
	args, err := json.Marshal(map[string]string{"path": file})
	if err != nil {
		return err
	}
	v := policy.Check(&tool.Tool{Name: "read_file"}, &tool.Call{Args: args})
	if v.Decision == tool.Allow {
		return nil
	}
	return fmt.Errorf("%s may not be read: %s; give its text, or allow it with --allow %s", clean.Quote(file), v.Reason, clean.Shell("read_file("+file+")"))
}

// prepare looks for the models.
func (h trees) prepare(in *ralph.Inputs) error {
	p, err := h.project(in)
	if err != nil {
		return err
	}
	in.Rules, in.OnAsk, in.Yes = texts(p.rules), cmp.Or(in.OnAsk, h.cfg.OnAsk), h.cfg.Yes
	found, err := p.prepare("planner", in.Model)
	if err != nil && in.Model == "" && isExternal(in.Agent) { // it plans and reviews, too
		found, err = p.prepare("planner", in.Agent)
	}
	if err != nil {
		return err
	}
	in.Model = found.model
	if in.Agent != "" {
		if found, err = p.prepare("worker", in.Agent); err == nil {
			in.Agent = found.model
		}
		if err == nil && isExternal(in.Agent) {
			_, err = h.external(in.Agent, in.Dir)
		}
	}
	return err
}

// open starts what works in a worktree. Within it agents may write and run commands unasked, as far as the sandbox bounds these.
func (h trees) open(ctx context.Context, in *ralph.Inputs, role, dir string) (*ralph.Crew, error) {
	if h.cfg.Replay {
		s, err := replaying()
		if err != nil {
			return nil, err
		}
		a, err := s.Agent(role, "")
		return &ralph.Crew{Agent: a, Close: s.Close}, err
	}
	p, err := h.project(in)
	if err != nil {
		return nil, err
	}
	p.of = p.dir
	if p.dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	s, err := p.start(ctx, in.Model, &needs{agents: []string{role}})
	if err != nil {
		return nil, err
	}
	model := in.Model
	if role == "worker" {
		model = cmp.Or(in.Agent, model)
	}
	c := &ralph.Crew{Close: s.Close}
	if c.Agent, err = s.Agent(role, model); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	c.Run = func(ctx context.Context, command string, timeout time.Duration) (string, bool, error) {
		return s.command(ctx, command, timeout)
	}
	return c, nil
}

// command runs a command of the user in the folder of the session, unless a rule denies it. Without a sandbox a rule must allow it.
func (s *Session) command(ctx context.Context, command string, timeout time.Duration) (output string, failed bool, err error) {
	bash, err := builtin.Bash(s.root, &builtin.BashOptions{Environ: s.p.h.cfg.Environ, Sandbox: s.sandbox, Timeout: timeout})
	if err != nil {
		return "", false, err
	}
	args, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		return "", false, err
	}
	call := &tool.Call{ID: "command", Key: "command", Args: args}
	if v := s.policy.Check(bash, call); v.Decision != tool.Allow {
		return "", false, &Error{Code: superstep.CodeDenied, Message: fmt.Sprintf("the command %s may not run: %s; allow it with --allow %s", clean.Quote(command),
			v.Reason, clean.Shell("bash("+command+")"))}
	}
	output, err = bash.Run(ctx, call)
	if err != nil && ctx.Err() == nil && !tool.Stops(err) {
		return err.Error(), true, nil
	}
	return output, false, err
}

// publish pushes a branch with the user's own rights and opens a pull request.
func (h trees) publish(ctx context.Context, top string, p *ralph.PullRequest) (string, error) {
	run := func(name string, args ...string) (string, error) {
		path, err := procgroup.Look(h.cfg.Environ, name)
		if err != nil {
			return "", fmt.Errorf("%s is not installed; push %s and open the pull request yourself", name, p.Branch)
		}
		cmd := exec.CommandContext(ctx, path, args...)
		cmd.Dir, cmd.Env = top, slices.Concat(h.cfg.Environ, []string{"GIT_TERMINAL_PROMPT=0", "GH_PROMPT_DISABLED=1"})
		said := &procgroup.Tail{Limit: 8 << 10}
		cmd.Stderr = said
		out, err := cmd.Output()
		if err != nil {
			err = fmt.Errorf("%s %s failed: %w: %s", name, args[0], err, clean.Text(said.Text(2000)))
		}
		return strings.TrimSpace(clean.Text(string(out))), err
	}
	if _, err := run("git", "-c", "core.hooksPath=", "push", "origin", "refs/heads/"+p.Branch); err != nil {
		return "", err
	}
	args := []string{"pr", "create", "--head", p.Branch, "--title", p.Title, "--body", p.Body}
	if p.Base != "" {
		args = append(args, "--base", p.Base)
	}
	return run("gh", args...)
}
