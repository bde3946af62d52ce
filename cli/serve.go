package cli

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/mcp"
)

func serveCommand(a *app) *cobra.Command {
	var overMCP bool
	var addr string
	var l leave
	n := a.cfg.Name
	cmd := &cobra.Command{
		Use: "serve --mcp", Short: "Serve the tools to other programs, as an MCP server", Args: none,
		Long: `Serve the tools to other programs, as an MCP server

By default it speaks over standard input and output, for programs that start it. With --http it
listens on this machine, and prints the address and the token that every request needs. Nobody is
there to be asked, so a call happens only if a rule allows it; see "permissions list", --allow and --deny.`,
		Example: examples(n, "serve --mcp", "", "serve --mcp --allow edit_file", "", "serve --mcp --http 127.0.0.1:7777", ""),
	}
	cmd.Flags().BoolVar(&overMCP, "mcp", false, "speak the Model Context Protocol")
	cmd.Flags().StringVar(&addr, "http", "", "listen on this `address` of this machine instead")
	l.add(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !overMCP {
			return usage("serve: say what to speak: --mcp")
		}
		host, _, err := net.SplitHostPort(addr)
		if ip := net.ParseIP(host); addr != "" && (err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback())) {
			return usage(fmt.Sprintf("--http: %q is not an address of this machine, and there is no TLS; use one such as 127.0.0.1:7777, behind a "+
				"proxy with TLS if others are to reach it", addr))
		}
		if _, err := l.rules(); err != nil {
			return err
		}
		l.headless = true
		a.set.leave = l
		return serveTools(cmd.Context(), a, addr)
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
	opt := &mcp.ServeOptions{Name: a.cfg.Name, Version: a.opt.Version, Gate: gateOf(session.Tools())}
	if addr == "" {
		err := mcp.Serve(ctx, session.Tools(), a.opt.Stdin, a.opt.Stdout, opt)
		if ctx.Err() != nil {
			return stopped(ctx, context.Cause(ctx))
		}
		return err
	}
	return serveHTTP(ctx, a, addr, session.Tools(), opt)
}

// gateOf returns a gate that denies every call that no rule allows.
func gateOf(tools *tool.Set) func(context.Context, *tool.Tool, *tool.Call) error {
	return func(_ context.Context, t *tool.Tool, c *tool.Call) error {
		if v := tools.Guard().Gate.Check(t, c); v.Decision != tool.Allow {
			return fmt.Errorf("%s %s is not allowed (%s); whoever started this server can allow it with --allow", t.Name, v.Subject, v.Reason)
		}
		return nil
	}
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
