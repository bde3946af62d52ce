package builtin_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/builtin"
)

// An internet is hosts at public addresses, all of which are one server, and a canary: a
// server that must never be asked.
type internet struct {
	hosts    map[string][]string
	dialled  []string
	lookups  atomic.Int32
	canary   atomic.Int32
	resolver func(host string, n int32) []string // if set, instead of hosts
	server   *httptest.Server
}

func newInternet(t testing.TB, handler http.HandlerFunc, hosts map[string][]string) *internet {
	t.Helper()
	n := &internet{hosts: hosts, server: httptest.NewServer(handler)}
	t.Cleanup(n.server.Close)
	return n
}

func (n *internet) options() *builtin.FetchOptions {
	return &builtin.FetchOptions{
		Timeout: 3 * time.Second,
		Resolve: func(_ context.Context, host string) ([]netip.Addr, error) {
			list := n.hosts[host]
			if count := n.lookups.Add(1); n.resolver != nil {
				list = n.resolver(host, count)
			}
			if list == nil {
				return nil, errors.New("no such host")
			}
			var out []netip.Addr
			for _, a := range list {
				out = append(out, netip.MustParseAddr(a))
			}
			return out, nil
		},
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			n.dialled = append(n.dialled, addr)
			a, err := netip.ParseAddrPort(addr)
			if err != nil {
				return nil, err
			}
			if !a.Addr().IsGlobalUnicast() || a.Addr().IsPrivate() {
				n.canary.Add(1)
				return nil, errors.New("the canary was hit")
			}
			return new(net.Dialer).DialContext(ctx, network, n.server.Listener.Addr().String())
		},
	}
}

func fetcher(t testing.TB, o *builtin.FetchOptions) *tool.Set {
	t.Helper()
	w, err := builtin.WebFetch(o)
	if err != nil {
		t.Fatal(err)
	}
	s, err := tool.NewSet(w)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func page(kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		fmt.Fprint(w, body)
	}
}

func TestWebFetch(t *testing.T) {
	long := strings.Repeat("0123456789 line\n", 6000)
	n := newInternet(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/html":
			page("text/html; charset=utf-8", `<html><head><title>T</title><script>evil()</script><style>x</style></head><body><h1>Head</h1><p>Some <b>bold</b> <a href="/x">link</a></p></body></html>`)(w, r)
		case "/latin":
			page("text/html; charset=iso-8859-1", "<p>caf\xe9</p>")(w, r)
		case "/meta":
			page("text/html", "<meta charset=windows-1251><p>\xcf\xf0\xe8\xe2\xe5\xf2</p>")(w, r)
		case "/utf16":
			page("text/plain; charset=utf-16le", "h\x00i\x00")(w, r)
		case "/json":
			page("application/json", `{"a":1}`)(w, r)
		case "/bin":
			page("image/png", "\x89PNG")(w, r)
		case "/none":
			w.Header()["Content-Type"] = nil
			fmt.Fprint(w, "plain text")
		case "/esc":
			page("text/plain", "a\x1b[31mb\u202e")(w, r)
		case "/long":
			page("text/plain", long)(w, r)
		case "/flood":
			page("text/plain", strings.Repeat("x", 6<<20))(w, r)
		case "/slow":
			w.Header().Set("Content-Type", "text/plain")
			for r.Context().Err() == nil {
				fmt.Fprint(w, "x")
				w.(http.Flusher).Flush()
				time.Sleep(50 * time.Millisecond)
			}
		case "/to":
			http.Redirect(w, r, r.URL.Query().Get("u"), http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/agent":
			fmt.Fprint(w, r.UserAgent(), r.Header.Get("Cookie"), r.Header.Get("Authorization"))
		default:
			http.Error(w, "no such page", http.StatusNotFound)
		}
	}, map[string][]string{"a.example": {"93.184.216.34"}, "b.example": {"93.184.216.35"}, "xn--bcher-kva.example": {"93.184.216.36"}, "six.example": {"2606:2800:220:1::1"}})
	o := n.options()
	s := fetcher(t, o)
	for _, tc := range []struct {
		url, want string
		bad       bool
	}{
		{"http://a.example/html", "# Head\n\nSome **bold** [link](http://a.example/x)", false}, {"http://a.example/latin", "café", false}, {"http://a.example/meta", "Привет", false}, {"http://a.example/utf16", "hi", false}, {"http://a.example/json", `{"a":1}`, false},
		{"http://a.example/bin", "is image/png, 4 bytes; only text", false}, {"http://a.example/none", "plain text", false}, {"http://a.example/esc", "]\n\nab", false}, {"http://a.example/long", "fetch it with offset", false}, {"http://A.Example.:80/json#frag", `{"a":1}`, false}, {"http://bücher.example/json", `{"a":1}`, false}, {"http://six.example/json", `{"a":1}`, false},
		{"http://a.example/flood", "over 5 MiB", true}, {"http://a.example/slow", "no answer within", true}, {"http://a.example/none2", "status 404: no such page", true}, {"http://a.example/to?u=/json", `{"a":1}`, false}, {"http://a.example/to?u=http://b.example/json", "redirects to another place: http://b.example/json", false}, {"http://a.example/loop", "over 5 redirects", true},
		{"http://a.example/to?u=file:///etc/passwd", "address that is refused", true}, {"http://a.example/agent", "superstep", false}, {"ftp://a.example/x", "only http and https", true}, {"file:///etc/passwd", "only http and https", true}, {"http://user:pw@a.example/", "name or a password", true}, {"http://a.example:22/", "port 22", true}, {"http://a.example:0/", "is not a port", true}, {"http://a.example:99999/", "", true},
		{"http:///x", "no host", true}, {"http:a.example", "no host", true}, {"nonsense", "only http", true}, {"http://none.example/", "cannot be resolved", true}, {"http://" + strings.Repeat("a", 5000), "over 4096", true}, {"http://a.example/\x00", "", true},
	} {
		r := use(t, s, "web_fetch", args{"url": tc.url})
		if r.Error != tc.bad || !strings.Contains(r.Text, tc.want) || strings.Contains(r.Text, "evil()") || strings.Contains(r.Text, "pw@") {
			t.Errorf("%.80s: %v %.300q, want %q", tc.url, r.Error, r.Text, tc.want)
		}
	}
	var got strings.Builder
	for offset := 0; ; {
		r := use(t, s, "web_fetch", args{"url": "http://a.example/long", "offset": offset})
		_, body, _ := strings.Cut(r.Text, "]\n\n")
		body, more, found := strings.Cut(body, "\n[the page goes on; fetch it with offset ")
		got.WriteString(body)
		if !found {
			break
		}
		if len(r.Text) > clean.MaxBytes {
			t.Fatalf("a part of %d bytes", len(r.Text))
		}
		fmt.Sscanf(more, "%d", &offset)
	}
	if got.String() != long {
		t.Errorf("the parts are %d bytes, not %d", got.Len(), len(long))
	}
}

// TestSSRF: nothing that leads to a private or special network is connected to.
func TestSSRF(t *testing.T) {
	n := newInternet(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Query().Get("u"), http.StatusFound)
	}, map[string][]string{"a.example": {"93.184.216.34"}, "local.example": {"127.0.0.1"}, "both.example": {"93.184.216.34", "10.0.0.1"}, "mapped.example": {"::ffff:10.0.0.1"}, "meta.example": {"169.254.169.254"}})
	s := fetcher(t, n.options())
	addresses := []string{
		"0.0.0.0", "0.1.2.3", "10.1.2.3", "100.64.0.1", "127.0.0.1", "127.1.2.3", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.2.1", "192.168.1.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255", "168.63.129.16", "192.88.99.1",
		"[::]", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:169.254.169.254]", "[::127.0.0.1]", "[fe80::1]", "[fc00::1]", "[fd00:ec2::254]", "[ff02::1]", "[64:ff9b::7f00:1]", "[64:ff9b:1::1]", "[2002:7f00:1::]", "[2001:0:7f00:1::]", "[2001:db8::1]", "[fec0::1]", "[100::1]", "[3fff::1]", "[5f00::1]",
		"local.example", "both.example", "mapped.example", "meta.example", "localhost", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "0x7f.0.0.1", "127.0.0.1.", "[fe80::1%25eth0]", "①②⑦.0.0.1",
	}
	for _, a := range addresses {
		for _, u := range []string{"http://" + a + "/latest/meta-data", "http://a.example/?u=" + url.QueryEscape("http://"+a+"/x"), "http://a.example/?u=" + url.QueryEscape("//"+a+"/x")} {
			if r := use(t, s, "web_fetch", args{"url": u}); !r.Error {
				t.Errorf("%s: %s", u, r.Text)
			}
		}
	}
	if got := n.canary.Load(); got != 0 {
		t.Errorf("the canary was hit %d times: %q", got, n.dialled)
	}
	// A host that is public when it is looked at and local when it is connected to.
	n.resolver = func(_ string, count int32) []string {
		if count%2 == 1 {
			return []string{"93.184.216.34"}
		}
		return []string{"127.0.0.1"}
	}
	for range 20 {
		use(t, s, "web_fetch", args{"url": "http://rebind.example/?u=http://rebind.example/y"})
	}
	if got := n.canary.Load(); got != 0 {
		t.Errorf("after rebinding the canary was hit %d times", got)
	}
	// With the addresses of the machine itself, by the resolver and dialer that are used by default.
	var hits atomic.Int32
	real := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	defer real.Close()
	port := real.Listener.Addr().(*net.TCPAddr).Port
	t.Setenv("HTTP_PROXY", real.URL)
	s = fetcher(t, &builtin.FetchOptions{Timeout: 2 * time.Second})
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "0.0.0.0", "[::ffff:127.0.0.1]"} {
		if r := use(t, s, "web_fetch", args{"url": fmt.Sprintf("http://%s:%d/", host, port)}); !r.Error {
			t.Errorf("%s: %s", host, r.Text)
		}
		// By a port that may be used, it is the address that is refused.
		if r := use(t, s, "web_fetch", args{"url": "http://" + host + "/"}); !r.Error || !strings.Contains(r.Text, "private or special network") {
			t.Errorf("%s: %s", host, r.Text)
		}
	}
	if hits.Load() != 0 {
		t.Errorf("%d hits on a local server", hits.Load())
	}
	s = fetcher(t, &builtin.FetchOptions{Private: []string{fmt.Sprintf("127.0.0.1:%d", port)}})
	if r := use(t, s, "web_fetch", args{"url": real.URL}); r.Error || hits.Load() != 1 {
		t.Errorf("a host the user lets be reached: %+v", r)
	}
}

// TestOddPages: pages made to be costly do not take long.
func TestOddPages(t *testing.T) {
	for name, body := range map[string]string{
		"deep": strings.Repeat("<div>", 20_000), "deep lists": strings.Repeat("<ul><li>", 20_000), "quotes": strings.Repeat("<blockquote>", 300) + "x", "attributes": "<a " + strings.Repeat("x=y ", 20_000) + ">", "open": strings.Repeat("<", 1<<18),
		"tables": strings.Repeat("<table><tr><td>", 50_000), "bold": strings.Repeat("<b>x", 50_000), "long": "<p>" + strings.Repeat("word ", 200_000), "stars": "<p>" + strings.Repeat("*_`[", 200_000), "columns": "<table>" + strings.Repeat("<tr>"+strings.Repeat("<td>x", 300), 300), "cells": "<table><tr>" + strings.Repeat("<td>x", 20000) + strings.Repeat("<tr><td>y", 2000), "colspan": "<table>" + strings.Repeat("<tr><td colspan=1000000000>x<td rowspan='1000000000'>y", 5), "entity": "<table><tr><td colspan=&#57;99999999>x", "spans": "<table>" + strings.Repeat("<tr><td colspan=99>x<td rowspan='99'>y", 500), "links": strings.Repeat("<a href=x>y</a> ", 20_000), "pre": strings.Repeat("<pre>```</pre>", 5_000), "breaks": strings.Repeat("<br>", 60_000), "items": "<ol>" + strings.Repeat("<li>x", 20_000), "spaces": "<p>" + strings.Repeat(" \n", 200_000), "formats": strings.Repeat("<p><a><b><i>", 2000),
	} {
		n := newInternet(t, page("text/html", body), map[string][]string{"a.example": {"93.184.216.34"}})
		o := n.options()
		o.Timeout = 20 * time.Second
		start := time.Now()
		r := use(t, fetcher(t, o), "web_fetch", args{"url": "http://a.example/"})
		took := time.Since(start)
		if took > faults.Bound(10*time.Second) {
			t.Errorf("%s: took %v", name, took)
		}
		t.Logf("%s: %v: %v %.80q", name, took.Round(time.Millisecond), r.Error, r.Text)
	}
}

// FuzzFetchURL: whatever the address, nothing but a public one is connected to.
func FuzzFetchURL(f *testing.F) {
	for _, u := range []string{"http://a.example/", "http://127.0.0.1", "http://[::1]:80/", "http://a@b", "http://a.example:80:80", "//x", "http://①.1.1.1", "http://a.example\\@127.0.0.1", "http://0x7f.1/", "https://[::ffff:a00:1]/", "http://a%2eexample", "http://[fe80::1%25x]/"} {
		f.Add(u, "http://10.0.0.1/")
	}
	var to atomic.Value
	to.Store("")
	n := newInternet(f, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", to.Load().(string))
		w.WriteHeader(http.StatusFound)
	}, nil)
	n.resolver = func(host string, _ int32) []string {
		if strings.Contains(host, "l") {
			return []string{"10.0.0.7"}
		}
		return []string{"93.184.216.34"}
	}
	o := n.options()
	s := fetcher(f, o)
	f.Fuzz(func(t *testing.T, u, next string) {
		to.Store(strings.Map(func(c rune) rune {
			if c < ' ' || c == 0x7f {
				return -1
			}
			return c
		}, next))
		n.dialled = nil
		use(t, s, "web_fetch", args{"url": u})
		if n.canary.Load() != 0 {
			t.Fatalf("%q, %q: connected to %q", u, next, n.dialled)
		}
	})
}
