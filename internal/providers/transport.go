package providers

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// client returns the HTTP client of one model: what it sends goes to its endpoint's host or
// nowhere.
func (p *Providers) client(base string, headers http.Header) *http.Client {
	c := &http.Client{}
	if p.opt.HTTPClient != nil {
		*c = *p.opt.HTTPClient
	}
	next := c.Transport
	switch {
	case next != nil:
	case p.opt.Offline:
		next = localTransport()
	default:
		next = http.DefaultTransport
	}
	g := &guard{next: next, headers: headers, offline: p.opt.Offline}
	if u, err := url.Parse(base); err == nil {
		g.scheme, g.host = u.Scheme, u.Host
	}
	c.Transport = g
	return c
}

// A guard allows requests to one host only.
type guard struct {
	next         http.RoundTripper
	scheme, host string
	headers      http.Header
	offline      bool
}

// Format prints where requests may go, and no headers, whatever the verb.
func (g *guard) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "providers.guard(%s)", g.host) }

func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != g.scheme || !strings.EqualFold(req.URL.Host, g.host) || req.Host != "" && !strings.EqualFold(req.Host, g.host) {
		return nil, refuse(req, "a request for "+g.host+" must not go to "+req.URL.Host+", since the API key would go along")
	}
	if g.offline && !loopbackHost(req.URL.Hostname()) {
		return nil, refuse(req, req.URL.Host+" is not on this machine, which --offline forbids")
	}
	if len(g.headers) > 0 {
		req = req.Clone(req.Context())
		for name, values := range g.headers {
			req.Header[name] = values
		}
	}
	return g.next.RoundTrip(req)
}

func refuse(req *http.Request, why string) error {
	if req.Body != nil {
		_ = req.Body.Close() // it has not been read
	}
	return fmt.Errorf("refused: %s", why)
}

// CloseIdleConnections is for http.Client.
func (g *guard) CloseIdleConnections() {
	if c, ok := g.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// localTransport connects only to this machine, whatever names resolve to, and uses no proxy. It
// keeps no connections.
func localTransport() *http.Transport {
	d := &net.Dialer{Timeout: 10 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		host, _, err := net.SplitHostPort(address)
		if err != nil || !loopbackHost(host) {
			return fmt.Errorf("%s is not on this machine", address)
		}
		return nil
	}}
	return &http.Transport{DialContext: d.DialContext, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10}
}
