package mcp

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/superstep-dev/superstep/tool"
)

// ListenAndServe serves tools over HTTP at an address of this machine until ctx ends, and calls
// ready with the URL and the token that every request needs. Port 0 selects a free port. Requests
// have five seconds to end.
func ListenAndServe(ctx context.Context, addr string, tools *tool.Set, opts *ServeOptions, ready func(url, token string) error) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	o := opts.defaults()
	o.Hosts = []string{l.Addr().String()}
	if host, _, _ := net.SplitHostPort(addr); host == "localhost" {
		_, port, _ := net.SplitHostPort(l.Addr().String()) // it is one that was listened on
		o.Hosts = append(o.Hosts, net.JoinHostPort(host, port))
	}
	h, err := NewHandler(tools, &o)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	if err := ready("http://"+l.Addr().String(), h.Token()); err != nil {
		err = errors.Join(err, server.Close())
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(soon); err != nil {
		_ = server.Close() // those that are left are cut off
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
