package providers

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Offline, whatever a name stands for: what is not this machine is not dialled.
func TestLocalTransport(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	transport := localTransport()
	for _, address := range []string{"192.0.2.1:80", "[2001:db8::1]:80", "10.0.0.1:443", "0.0.0.0:1"} {
		conn, err := transport.DialContext(ctx, "tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "is not on this machine") {
			t.Errorf("%s: %v", address, err)
		}
	}
	if transport.Proxy != nil {
		t.Error("it uses a proxy")
	}
}

func TestGuard(t *testing.T) {
	t.Parallel()
	passed := 0
	next := roundTrip(func(r *http.Request) (*http.Response, error) {
		passed++
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
	})
	for _, c := range []struct {
		base, url, host string
		offline, pass   bool
	}{
		{"https://a.example/v1", "https://a.example/v1/x", "", false, true},
		{"https://a.example/v1", "https://A.example/v2", "", false, true},
		{"https://a.example/v1", "http://a.example/v1", "", false, false},
		{"https://a.example/v1", "https://a.example:8443/v1", "", false, false},
		{"https://a.example/v1", "https://a.example.evil/v1", "", false, false},
		{"https://a.example/v1", "https://a.example/v1", "b.example", false, false},
		{"https://a.example/v1", "https://a.example/v1", "", true, false},
		{"http://127.0.0.1:1/v1", "http://127.0.0.1:1/v1", "", true, true},
		{"http://localhost:1/v1", "http://localhost:1/v1", "", true, true},
		{"http://[::1]:1/v1", "http://[::1]:1/v1", "", true, true},
	} {
		p := New(&Options{Offline: c.offline, HTTPClient: &http.Client{Transport: next}})
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if c.host != "" {
			req.Host = c.host
		}
		before := passed
		resp, err := p.client(c.base, nil).Transport.RoundTrip(req)
		if err == nil {
			resp.Body.Close()
		}
		if (err == nil) != c.pass || (passed > before) != c.pass {
			t.Errorf("%s for %s: %v", c.url, c.base, err)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
