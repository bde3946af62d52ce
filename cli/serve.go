package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/procgroup"
	"github.com/superstep-dev/superstep/internal/question"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/internal/tui"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/mcp"
)

func serveCommand(a *app) *cobra.Command {
	var overMCP, overACP, workflows bool
	var addr string
	var r running
	n := a.cfg.Name
	cmd := &cobra.Command{
		Use: "serve --mcp|--acp", Short: "Serve tools or workflows over MCP, or an editor over ACP", Args: none,
		Long: `Serve tools or workflows to other programs, as an MCP server, or chats and workflows to an editor

By default it speaks over standard input and output, for programs that start it. With --http it
listens on this machine, and prints the address and the token that every request needs. A call happens
if a rule allows it, or if the program can ask its user and that user does; see "permissions list", --allow and --deny.

With --workflows it serves the workflows instead of the tools: a call starts a durable run, which executes in a process
of its own. The flags of rules and limits are those of each run. No model gives permission: the program's user is asked,
or the question waits for the terminal or "runs answer".

With --acp an editor starts it, over standard input and output: docs/editors.md has the settings.`,
		Example: examples(n, "serve --mcp", "", "serve --mcp --allow edit_file", "", "serve --mcp --http 127.0.0.1:7777", "",
			"serve --mcp --workflows --max-cost 2", "each run stops at 2 US dollars", "serve --acp", "what an editor starts"),
	}
	cmd.Flags().BoolVar(&overMCP, "mcp", false, "speak the Model Context Protocol")
	cmd.Flags().BoolVar(&overACP, "acp", false, "speak the Agent Client Protocol")
	cmd.Flags().StringVar(&addr, "http", "", "listen on this `address` of this machine instead")
	cmd.Flags().BoolVar(&workflows, "workflows", false, "serve the workflows instead of the tools")
	r.leave.add(cmd.Flags())
	r.addLimits(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if overMCP == overACP || overACP && (workflows || addr != "") {
			return usage("serve: say what to speak: --mcp, or --acp alone")
		}
		host, _, err := net.SplitHostPort(addr)
		if ip := net.ParseIP(host); addr != "" && (err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback())) {
			return usage(fmt.Sprintf("--http: %q is not an address of this machine, and there is no TLS; use one such as 127.0.0.1:7777, behind a "+
				"proxy with TLS if others are to reach it", addr))
		}
		if _, err := r.check(a); err != nil {
			return err
		}
		if overACP {
			return serveACP(cmd.Context(), a, cmd.Flags())
		}
		if !workflows && r.budget() != nil {
			return usage("serve: limits are for runs; add --workflows")
		}
		a.set.leave.headless = true
		if !workflows {
			return serveTools(cmd.Context(), a, addr)
		}
		return serveWorkflows(cmd.Context(), a, addr, cmd.Flags())
	}
	return cmd
}

func serveTools(ctx context.Context, a *app, addr string) error {
	ctx, done := a.stoppable(ctx, func() {})
	defer done()
	session, err := startProject(ctx, a)
	if err != nil {
		return err
	}
	defer func() { _ = session.Close() }() // nothing was written
	return serveMCP(ctx, a, addr, session.Tools(), &mcp.ServeOptions{Gate: gateOf(session.Tools())})
}

func serveWorkflows(ctx context.Context, a *app, addr string, flags *pflag.FlagSet) error {
	switch {
	case procgroup.Inside(a.cfg.Environ):
		return &Error{Exit: ExitDenied, Code: superstep.CodeDenied, Message: errNested.Error(), Err: errNested}
	case !a.kept():
		return usage("--workflows: this store keeps no runs, and they execute in processes of their own; choose another store")
	}
	ctx, done := a.stoppable(ctx, func() {})
	defer done()
	a.lives = true
	s, err := newServing(a, flags)
	if err != nil {
		return err
	}
	none, err := tool.NewSet()
	if err != nil {
		return err
	}
	return serveMCP(ctx, a, addr, none, &mcp.ServeOptions{Extend: s.extend, Instructions: serveInstructions})
}

// serveMCP serves over HTTP at an address, or over the standard streams if there is none.
func serveMCP(ctx context.Context, a *app, addr string, tools *tool.Set, opt *mcp.ServeOptions) error {
	opt.Name, opt.Version = a.cfg.Name, a.opt.Version
	if addr != "" {
		return serveHTTP(ctx, a, addr, tools, opt)
	}
	err := mcp.Serve(ctx, tools, a.opt.Stdin, a.opt.Stdout, opt)
	if ctx.Err() != nil {
		return stopped(ctx, context.Cause(ctx))
	}
	return err
}

// An askError refuses a call that the client's user may allow; see mcp.ServeOptions.
type askError struct {
	error
	question string
}

// Question is what the user is asked.
func (e *askError) Question() string { return e.question }

// gateOf returns a gate that refuses every call that no rule allows.
func gateOf(tools *tool.Set) func(context.Context, *tool.Tool, *tool.Call) error {
	return func(ctx context.Context, t *tool.Tool, c *tool.Call) error {
		v := tools.Guard().Gate.Check(t, c)
		if v.Decision == tool.Allow {
			return nil
		}
		err := fmt.Errorf("%s %s is not allowed (%s); whoever started this server can allow it with --allow", t.Name, v.Subject, v.Reason)
		if v.Decision == tool.Deny {
			return err
		}
		call := &runlog.QuestionCall{Tool: t.Name, Args: c.Args, Subject: v.Subject, Cwd: t.Dir, Rule: v.Rule, Origin: v.Origin, Reason: v.Reason}
		for _, p := range v.Parts {
			call.Parts = append(call.Parts, runlog.QuestionPart{Text: p.Text, Allowed: p.Decision == tool.Allow, Rule: p.Rule, Origin: p.Origin, Reason: p.Reason})
		}
		if t.Preview != nil {
			made, failed := t.Preview(ctx, c)
			if failed != nil || !readable(tools.Guard().Gate, c) {
				return err
			}
			call.Diff, call.New, c.Approved = made.Diff, made.New, made.Sum
		}
		text := fmt.Sprintf("A program %s. Allow it once?\n%s", question.Wants(call), tui.Card(call))
		if len(text) > longestAsked {
			return err
		}
		return &askError{err, text}
	}
}

// readable reports whether the file of a call may be read unasked, so that the client may see what is in it.
func readable(gate tool.Gate, c *tool.Call) bool {
	var in struct {
		Path string `json:"path"`
	}
	if json.Unmarshal(c.Args, &in) != nil {
		return false
	}
	args, err := json.Marshal(in)
	return err == nil && gate.Check(&tool.Tool{Name: "read_file"}, &tool.Call{Args: args}).Decision == tool.Allow
}

func serveHTTP(ctx context.Context, a *app, addr string, tools *tool.Set, opt *mcp.ServeOptions) error {
	err := mcp.ListenAndServe(ctx, addr, tools, opt, func(url, token string) error {
		if a.programs() {
			return a.out.json(map[string]string{"url": url, "token": token}, false)
		}
		a.out.line(url + "\nAuthorization: Bearer " + transcript.Line(token))
		return nil
	})
	if listen, failed := errors.AsType[*net.OpError](err); failed && listen.Op == "listen" {
		return &Error{Exit: ExitFailed, Code: "listen", Err: err, Message: fmt.Sprintf("cannot listen on %s: %v", addr, err),
			Next: []string{"let the system choose a free port: --http 127.0.0.1:0"}}
	}
	if err != nil {
		return err
	}
	return stopped(ctx, context.Cause(ctx))
}
