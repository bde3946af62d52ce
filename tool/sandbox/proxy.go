package sandbox

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// CheckHost reports what is wrong with the name of a host that commands may reach: "example.org", "*.example.org" for all
// below it, an IP address, each also with a port as in "example.org:443", or "*" for the network as it is.
func CheckHost(h string) error {
	if h == "*" {
		return nil
	}
	host, port := SplitPort(h)
	name := strings.TrimPrefix(host, "*.")
	if _, err := netip.ParseAddr(name); err == nil && name == host {
		return nil
	}
	ok := name != "" && len(name) < 254 && (name == host || strings.Contains(name, ".")) && (port == "" || port == strings.TrimLeft(port, "0"))
	for _, c := range name {
		ok = ok && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_')
	}
	if !ok {
		return fmt.Errorf("%q is not a host; write example.org, example.org:443, *.example.org for all below it, or * for any", h)
	}
	return nil
}

// SplitPort splits a host that commands may reach from its port, which is "" for any.
func SplitPort(h string) (host, port string) {
	if host, port, err := net.SplitHostPort(h); err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err == nil && n > 0 {
			return host, port
		}
	}
	return h, ""
}

// allowed reports whether a name and a port match one of the hosts. The port "" matches any.
func allowed(hosts []string, host, port string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	return slices.ContainsFunc(hosts, func(h string) bool {
		h, only := SplitPort(h)
		if only != "" && port != "" && only != port {
			return false
		}
		h = strings.TrimSuffix(strings.ToLower(h), ".")
		if below, ok := strings.CutPrefix(h, "*."); ok {
			return strings.HasSuffix(host, "."+below)
		}
		return h == host || h == "*"
	})
}

// A proxy is an HTTP proxy on a loopback address that lets clients who know its password reach the
// allowed hosts.
type proxy struct {
	hosts    []string
	password string
	server   *http.Server
	addr     string // as commands see it
	done     sync.WaitGroup
	ctx      context.Context //nolint:containedctx // until it is closed
	cancel   context.CancelFunc
	dialer   net.Dialer

	mu      sync.Mutex
	refused []string
}

// newProxy creates a proxy. Addr is where commands find it.
func newProxy(hosts []string, addr string) *proxy {
	p := &proxy{hosts: hosts, password: rand.Text(), addr: addr}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.dialer = net.Dialer{Timeout: 30 * time.Second, Control: p.control}
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.Header.Del("Proxy-Authorization")
			r.Out.Header.Del("Proxy-Connection")
		},
		Transport: &http.Transport{DialContext: p.dialer.DialContext, DisableKeepAlives: true, DisableCompression: true},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, "superstep sandbox: "+err.Error(), http.StatusBadGateway)
		},
	}
	p.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.handle(w, r, forward) })}
	return p
}

// listen starts a proxy for the command on this machine's loopback address, and returns its port.
func (c *Cmd) listen(hosts []string) (port int, err error) {
	l, err := new(net.ListenConfig).Listen(c.ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	c.own = newProxy(hosts, l.Addr().String())
	c.own.serve(l)
	return l.Addr().(*net.TCPAddr).Port, nil //nolint:errcheck,forcetypeassert // of a TCP listener
}

// serve serves on a listener until the proxy is closed.
func (p *proxy) serve(l net.Listener) {
	p.done.Go(func() { _ = p.server.Serve(l) })
}

// control refuses to connect names to addresses that do not belong to the public internet, as fetching pages does, and to those of this machine:
// others may have pointed the names there.
func (p *proxy) control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	ip := at.Addr().Unmap().WithZone("")
	own, err := net.InterfaceAddrs()
	if err != nil {
		return err
	}
	here := slices.ContainsFunc(own, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(net.IP(ip.AsSlice()))
	})
	if Public(ip) && !here {
		return nil
	}
	port := strconv.Itoa(int(at.Port()))
	exact := slices.DeleteFunc(slices.Clone(p.hosts), func(h string) bool { return strings.HasPrefix(h, "*") })
	if allowed(exact, ip.String(), port) || ip.IsLoopback() && allowed(exact, "localhost", port) {
		return nil
	}
	return fmt.Errorf("the name leads to %s, which is not an address of the public internet; allow that address by itself", ip)
}

func (p *proxy) url() string { return "http://sandbox:" + p.password + "@" + p.addr }

func (p *proxy) close() error {
	p.mu.Lock()
	p.cancel()
	p.mu.Unlock()
	err := p.server.Close()
	p.done.Wait()
	return err
}

// refusals returns a sentence for each host that was requested but not allowed.
func (p *proxy) refusals() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for _, host := range p.refused {
		out = append(out, "it was refused the network host "+host)
	}
	return out
}

func (p *proxy) handle(w http.ResponseWriter, r *http.Request, forward http.Handler) {
	if !p.knows(r.Header.Get("Proxy-Authorization")) {
		w.Header().Set("Proxy-Authenticate", `Basic realm="superstep sandbox"`)
		http.Error(w, "superstep sandbox: the proxy wants the password that is in HTTP_PROXY", http.StatusProxyAuthRequired)
		return
	}
	target := r.Host
	if r.Method != http.MethodConnect {
		if r.URL.Scheme != "http" || r.URL.Host == "" {
			http.Error(w, "superstep sandbox: want an http address", http.StatusBadRequest)
			return
		}
		target = r.URL.Host
		r.Host = r.URL.Host
	}
	host, port, err := net.SplitHostPort(target)
	if err != nil {
		host, port = target, "80"
	}
	host = strings.Trim(host, "[]")
	if !allowed(p.hosts, host, port) {
		p.mu.Lock()
		if name := net.JoinHostPort(host, port); len(p.refused) < 20 && CheckHost(host) == nil && !slices.Contains(p.refused, name) {
			p.refused = append(p.refused, name)
		}
		p.mu.Unlock()
		http.Error(w, "superstep sandbox: this host is not allowed", http.StatusForbidden)
		return
	}
	if r.Method != http.MethodConnect {
		forward.ServeHTTP(w, r)
		return
	}
	p.tunnel(w, net.JoinHostPort(host, port))
}

func (p *proxy) knows(header string) bool {
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte("sandbox:"+p.password))
	return subtle.ConstantTimeCompare([]byte(header), []byte(want)) == 1
}

// tunnel copies both ways until one side ends.
func (p *proxy) tunnel(w http.ResponseWriter, target string) {
	p.mu.Lock()
	if p.ctx.Err() != nil {
		p.mu.Unlock()
		return
	}
	p.done.Add(1) // a server does not wait for connections that were taken from it
	p.mu.Unlock()
	defer p.done.Done()
	out, err := p.dialer.DialContext(p.ctx, "tcp", target)
	if err != nil {
		http.Error(w, "superstep sandbox: "+err.Error(), http.StatusBadGateway)
		return
	}
	defer out.Close()
	in, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, "superstep sandbox: "+err.Error(), http.StatusInternalServerError)
		return
	}
	defer in.Close()
	defer context.AfterFunc(p.ctx, func() { _, _ = in.Close(), out.Close() })()
	if _, err := io.WriteString(in, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() {
		_, err := io.Copy(out, buffered)
		if half, ok := out.(interface{ CloseWrite() error }); ok && err == nil {
			err = half.CloseWrite()
		}
		if err != nil && !errors.Is(err, net.ErrClosed) {
			_ = out.Close() // and so the other copy ends
		}
	})
	_, _ = io.Copy(in, out)
	_ = in.Close()
	both.Wait()
}
