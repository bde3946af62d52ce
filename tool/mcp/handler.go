package mcp

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/superstep-dev/superstep/tool"
)

const (
	maxRequest  = 1 << 20
	maxRequests = 64 // at once
)

// A Handler serves tools by streamable HTTP. Every request, whatever its path and method, needs the
// token, an allowed host, and an allowed origin or none. This check cannot be turned off.
type Handler struct {
	o     ServeOptions
	token string
	inner http.Handler
	slots chan struct{}
}

// NewHandler creates a handler with a new token. Calls end with their request. The server that it
// is put into should have limits for reading headers and for being idle.
func NewHandler(tools *tool.Set, opts *ServeOptions) (*Handler, error) {
	o := opts.defaults()
	server, err := newServer(context.Background(), tools, o)
	if err != nil {
		return nil, err
	}
	return &Handler{
		o: o, token: rand.Text() + rand.Text(), slots: make(chan struct{}, maxRequests),
		// Without sessions there is nothing to hijack and nothing to clean up.
		inner: sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{
			Stateless: true, MaxRequestBodyBytes: maxRequest,
		}),
	}, nil
}

// Token returns what clients send as "Authorization: Bearer TOKEN". It is a secret.
func (h *Handler) Token() string { return h.token }

type requestKey struct{}

// requestContext returns the context of the request that carried a call, if any. The SDK passes on
// its values but not its cancellation.
func requestContext(ctx context.Context) context.Context {
	if r, ok := ctx.Value(requestKey{}).(context.Context); ok {
		return r
	}
	return context.Background()
}

// ServeHTTP is http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	if !slices.Contains(h.o.Hosts, r.Host) {
		http.Error(w, "this host is not served here", http.StatusForbidden)
		return
	}
	if origins := r.Header.Values("Origin"); len(origins) > 1 || len(origins) == 1 && !slices.Contains(h.o.Origins, origins[0]) {
		http.Error(w, "this origin is not served here", http.StatusForbidden)
		return
	}
	if !h.authorized(r.Header.Values("Authorization")) {
		w.Header().Set("WWW-Authenticate", `Bearer realm="superstep"`)
		http.Error(w, "send the token that was printed at start: Authorization: Bearer TOKEN", http.StatusUnauthorized)
		return
	}
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	default:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many requests at once", http.StatusServiceUnavailable)
		return
	}
	if r.Method == http.MethodPost && !checkBody(w, r) {
		return
	}
	ctx := context.WithValue(r.Context(), requestKey{}, r.Context())
	h.inner.ServeHTTP(w, r.WithContext(ctx))
}

func (h *Handler) authorized(values []string) bool {
	if len(values) != 1 {
		return false
	}
	token, ok := strings.CutPrefix(values[0], "Bearer ")
	got, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(h.token))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1 && ok
}

// checkBody reads a request's message before the SDK does, and answers refused requests itself.
func checkBody(w http.ResponseWriter, r *http.Request) bool {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		http.Error(w, "Content-Type must be application/json", http.StatusUnsupportedMediaType)
		return false
	}
	slow := http.NewResponseController(w)
	_ = slow.SetReadDeadline(time.Now().Add(30 * time.Second)) // a recorder has none
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	_ = slow.SetReadDeadline(time.Time{})
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		http.Error(w, "the body is over 1 MiB", http.StatusRequestEntityTooLarge)
		return false
	case err != nil:
		http.Error(w, "the body cannot be read", http.StatusBadRequest)
		return false
	}
	if wire := checkMessage(data); wire != nil {
		http.Error(w, "the client "+wire.what, http.StatusBadRequest)
		return false
	}
	r.Body = io.NopCloser(bytes.NewReader(data))
	return true
}
