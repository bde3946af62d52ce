package cli

import (
	"context"
	"crypto/tls"
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

// consoleOptions are the flags of the console.
type consoleOptions struct {
	port                   int
	bind, cert, key        string
	open, readOnly, viewer bool
	allowRemote            bool
}

func consoleCommand(a *app) *cobra.Command {
	o := &consoleOptions{}
	n := a.cfg.Name
	cmd := &cobra.Command{
		Use: "console", Short: "Show the runs in a web browser", Args: none,
		Long: `Show the runs in a web browser, live, and act on them

It listens on this machine only, and prints an address with a token that nobody else knows. Runs
that it starts execute in processes of their own: they continue if the console ends.
Other machines reach it only with --bind, --allow-remote and a certificate.`,
		Example: examples(n, "console --open", "", "console --port 0 --read-only", "", "console --viewer", "also an address for users who only look",
			"console --bind 10.0.0.5 --allow-remote --tls-cert c.pem --tls-key k.pem", ""),
	}
	f := cmd.Flags()
	f.IntVar(&o.port, "port", 7676, "the `port` to listen on; 0 takes a free one")
	f.StringVar(&o.bind, "bind", "127.0.0.1", "the `address` to listen on")
	f.BoolVar(&o.allowRemote, "allow-remote", false, "with --bind: other machines may reach it, with the token and over TLS only")
	f.StringVar(&o.cert, "tls-cert", "", "the `file` of a certificate; the console answers to the names in it")
	f.StringVar(&o.key, "tls-key", "", "the `file` of the key of the certificate")
	f.BoolVar(&o.open, "open", false, "open the address in the browser")
	f.BoolVar(&o.readOnly, "read-only", false, "show, and act on nothing")
	f.BoolVar(&o.viewer, "viewer", false, "also print an address for users who only look")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, done := a.stoppable(cmd.Context(), func() {})
		defer done()
		return a.console(ctx, o)
	}
	return cmd
}

// names returns the names that the console answers to, and its certificate, nil for none.
func (o *consoleOptions) names(a *app) ([]string, *tls.Config, error) {
	if o.cert == "" && o.key == "" {
		if ip := net.ParseIP(o.bind); o.bind != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return nil, nil, usage(fmt.Sprintf("--bind %s needs --allow-remote and TLS: whoever reads the network would have the token", o.bind),
				"give a certificate: --allow-remote --tls-cert FILE --tls-key FILE", "or forward the port: ssh -L 7676:127.0.0.1:7676 HOST")
		}
		return []string{o.bind, "localhost"}, nil, nil
	}
	pair, err := tls.LoadX509KeyPair(a.host().Abs(o.cert), a.host().Abs(o.key))
	if err != nil {
		return nil, nil, usage("--tls-cert, --tls-key: " + err.Error())
	}
	if ip := net.ParseIP(o.bind); !o.allowRemote && o.bind != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, nil, usage(fmt.Sprintf("--bind %s needs --allow-remote: other machines can reach it", o.bind))
	}
	names := append([]string{}, pair.Leaf.DNSNames...)
	for _, ip := range pair.Leaf.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		return nil, nil, usage("--tls-cert: the certificate names no host, so nothing would be answered")
	}
	return names, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}, nil
}

func (a *app) console(ctx context.Context, o *consoleOptions) error {
	names, secure, err := o.names(a)
	if err != nil {
		return err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(o.bind, strconv.Itoa(o.port)))
	if err != nil {
		return &Error{Exit: ExitFailed, Code: "listen", Err: err, Message: fmt.Sprintf("cannot listen on port %d: %v", o.port, err),
			Next: []string{"let the system choose a free port: --port 0"}}
	}
	_, at, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return err
	}
	b := &terminalBackend{a: a, global: a.globalArgs()}
	opt := &console.Options{Operator: console.Token(), ReadOnly: o.readOnly, Secure: secure != nil, Program: a.cfg.Name, Start: b.console,
		Default: func(name string) string { return configurable(a).Lookup(name).DefValue }}
	for _, name := range names {
		opt.Hosts = append(opt.Hosts, net.JoinHostPort(name, at))
	}
	scheme := map[bool]string{true: "https", false: "http"}[opt.Secure]
	printed := map[string]string{"url": scheme + "://" + opt.Hosts[0] + "/?t=" + opt.Operator}
	if o.viewer {
		opt.Viewer = console.Token()
		printed["viewer"] = scheme + "://" + opt.Hosts[0] + "/?t=" + opt.Viewer
	}
	h, err := console.Handler(ctx, a.host(), opt)
	if err != nil {
		_ = l.Close()
		return err
	}
	if a.programs() {
		if err := a.out.json(printed, false); err != nil {
			return err
		}
	} else {
		a.out.line(printed["url"])
		if o.viewer {
			a.out.line("to look only: " + printed["viewer"])
		}
	}
	if o.open {
		if err := browse(ctx, printed["url"], filepath.Join(a.host().DataDir(), "live")); err != nil {
			return err
		}
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10, TLSConfig: secure}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	serve := s.Serve
	if secure != nil {
		serve = func(l net.Listener) error { return s.ServeTLS(l, "", "") }
	}
	if err := serve(l); ctx.Err() == nil {
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
