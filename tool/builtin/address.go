package builtin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/idna"

	"github.com/superstep-dev/superstep/tool/sandbox"
)

// hostOf returns the host of an address as it is compared: small letters, ASCII, without a dot at
// the end.
func hostOf(u *url.URL) (string, error) {
	host := u.Hostname()
	if a, err := netip.ParseAddr(host); err == nil {
		if a.Zone() != "" {
			return "", errors.New("has a zone")
		}
		return a.Unmap().String(), nil
	}
	host, err := idna.Lookup.ToASCII(strings.TrimSuffix(host, "."))
	host = strings.ToLower(host)
	if err != nil || host == "" || len(host) > 253 {
		return "", errors.New("is not the name of a host")
	}
	// Some resolvers read numbers in any form as an address.
	last := host[strings.LastIndexByte(host, '.')+1:]
	if last == "" || strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") {
		return "", errors.New("is not the name of a host")
	}
	return host, nil
}

// checkURL reports whether an address may be asked for, by itself, and writes its host as it is compared.
func (w *fetcher) checkURL(u *url.URL) (host string, err error) {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("scheme %.20q: only http and https can be fetched", u.Scheme)
	case u.User != nil:
		return "", errors.New("holds a name or a password; leave them out")
	case u.Opaque != "" || u.Host == "":
		return "", errors.New("has no host")
	}
	if host, err = hostOf(u); err != nil {
		return "", fmt.Errorf("host %.100q: %w", u.Hostname(), err)
	}
	port, err := portOf(u)
	if err != nil {
		return "", err
	}
	if a, err := netip.ParseAddr(host); err == nil && !sandbox.Public(a) && !w.private(host, port) {
		return "", fmt.Errorf("host %s: is an address of a private or special network, which must not be fetched from", host)
	}
	if port != 80 && port != 443 && !w.private(host, port) {
		return "", fmt.Errorf("port %d: must not be used", port)
	}
	bracketed := host
	if strings.Contains(host, ":") {
		bracketed = "[" + host + "]"
	}
	if u.Host = bracketed; u.Scheme == "http" && port != 80 || u.Scheme == "https" && port != 443 {
		u.Host = net.JoinHostPort(host, strconv.Itoa(port))
	}
	return host, nil
}

func portOf(u *url.URL) (int, error) {
	if u.Port() == "" {
		if strings.HasSuffix(u.Host, ":") {
			return 0, errors.New("has no port after its colon")
		}
		if u.Scheme == "http" {
			return 80, nil
		}
		return 443, nil
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil || port == 0 {
		return 0, fmt.Errorf("port %.20q: is not a port", u.Port())
	}
	return int(port), nil
}

// private reports whether the user lets a host be reached wherever it is.
func (w *fetcher) private(host string, port int) bool {
	return slices.Contains(w.opt.Private, net.JoinHostPort(host, strconv.Itoa(port)))
}

// addresses resolves a host once and checks all that it is: one address that is not public is enough
// to refuse it.
func (w *fetcher) addresses(ctx context.Context, host string, port int) ([]netip.Addr, error) {
	var list []netip.Addr
	if a, err := netip.ParseAddr(host); err == nil {
		list = []netip.Addr{a}
	} else if list, err = w.opt.Resolve(ctx, host); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("host %s: cannot be resolved; check its name", host)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("host %s: has no address", host)
	}
	out := make([]netip.Addr, 0, len(list))
	for _, a := range list {
		a = a.Unmap().WithZone("")
		if !sandbox.Public(a) && !w.private(host, port) {
			return nil, fmt.Errorf("host %s: is at an address of a private or special network, which must not be fetched from", host)
		}
		out = append(out, a)
	}
	return out, nil
}

// dial connects to an address that was checked, and to no other.
func (w *fetcher) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	host, portText, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		return nil, err
	}
	list, err := w.addresses(ctx, host, port)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, a := range list[:min(len(list), 4)] {
		c, err := w.opt.Dial(ctx, network, netip.AddrPortFrom(a, uint16(port)).String())
		if err == nil {
			return c, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}
