package cli

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/console"
)

func consoleCommand(a *app) *cobra.Command {
	var port int
	var open, readOnly bool
	n := a.cfg.Name
	cmd := &cobra.Command{
		Use: "console", Short: "Show the runs in a web browser", Args: none,
		Long: `Show the runs in a web browser, live, and act on them

It listens on this machine only, and prints an address with a token that nobody else knows. Runs
that it starts execute in processes of their own: they continue if the console ends.`,
		Example: examples(n, "console --open", "", "console --port 0 --read-only", ""),
	}
	cmd.Flags().IntVar(&port, "port", 7676, "the `port` to listen on; 0 takes a free one")
	cmd.Flags().BoolVar(&open, "open", false, "open the address in the browser")
	cmd.Flags().BoolVar(&readOnly, "read-only", false, "show, and act on nothing")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, done := a.stoppable(cmd.Context(), func() {})
		defer done()
		return a.console(ctx, port, open, readOnly)
	}
	return cmd
}

func (a *app) console(ctx context.Context, port int, open, readOnly bool) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return &Error{Exit: ExitFailed, Code: "listen", Err: err, Message: fmt.Sprintf("cannot listen on port %d: %v", port, err),
			Next: []string{"let the system choose a free port: --port 0"}}
	}
	_, at, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return err
	}
	token := console.Token()
	b := &terminalBackend{a: a, global: a.globalArgs()}
	h, err := console.Handler(ctx, a.host(), &console.Options{
		Hosts: []string{"127.0.0.1:" + at, "localhost:" + at}, Operator: token, ReadOnly: readOnly, Program: a.cfg.Name,
		Default: func(name string) string { return configurable(a).Lookup(name).DefValue },
		Start:   b.console,
	})
	if err != nil {
		_ = l.Close()
		return err
	}
	url := "http://127.0.0.1:" + at + "/?t=" + token
	if a.programs() {
		if err := a.out.json(map[string]string{"url": url}, false); err != nil {
			return err
		}
	} else {
		a.out.line(url)
	}
	if open {
		if err := browse(ctx, url, filepath.Join(a.host().DataDir(), "live")); err != nil {
			return err
		}
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	if err := s.Serve(l); ctx.Err() == nil {
		return err
	}
	return stopped(ctx, context.Cause(ctx))
}

// browse opens an address in the user's browser, by a file that only this user can read: other users see command lines. If there is no browser, the
// address is on the screen.
func browse(ctx context.Context, url, dir string) error {
	name, err := private(dir, "open-*.html", fmt.Appendf(nil, `<!doctype html><meta http-equiv="refresh" content="0; url=%s">`, url))
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = os.Remove(name) })
	args := []string{"xdg-open", name}
	switch runtime.GOOS {
	case "darwin":
		args[0] = "open"
	case "windows":
		args = []string{"rundll32", "url.dll,FileProtocolHandler", name}
	}
	_ = exec.CommandContext(context.WithoutCancel(ctx), args[0], args[1:]...).Start()
	return nil
}
