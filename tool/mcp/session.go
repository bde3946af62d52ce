package mcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// The versions of the protocol that are tried, in this order. If a server accepts the older
// version, its answer decides. Only a server that refuses it is asked again, since some servers
// never answer a request that they do not know.
const (
	handshake = "2025-11-25"
	stateless = "2026-07-28"
)

// rejected matches the SDK's error for an HTTP response without a message.
const rejected = "rejected by transport"

// A session is one connection to a server, from its start to its end.
type session struct {
	cs     *sdk.ClientSession
	proc   *process // of a command
	guard  *guard   // of a server on the network
	fault  *faultOnce
	cancel context.CancelFunc
	dead   chan struct{} // closed when no call can succeed any more
	free   func()        // what the session has for itself

	mu       sync.Mutex
	conn     sdk.Connection    // the SDK's, to be closed where it does not
	progress map[string]func() // told of reports, by token
	asked    map[string]bool   // what was refused, so that it is said once
	flights  map[*flight]bool  // the calls in progress
}

// Connect connects the transport and remembers the connection.
type remembered struct {
	sdk.Transport
	s *session
}

func (r remembered) Connect(ctx context.Context) (sdk.Connection, error) {
	conn, err := r.Transport.Connect(ctx)
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.s.conn = conn
	return conn, err
}

// open starts or reaches a server and agrees with it on the protocol.
func (c *conn) open(ctx context.Context, full *Server, version string) (*session, error) {
	life, cancel := context.WithCancel(context.WithoutCancel(c.life)) // close says good-bye before it ends
	s := &session{cancel: cancel, dead: make(chan struct{}), free: func() {}, progress: map[string]func(){}, asked: map[string]bool{}, flights: map[*flight]bool{}}
	transport, err := s.transport(life, full, c.o)
	if err != nil {
		cancel()
		return nil, c.fail(nil, phaseStart, err)
	}
	client := sdk.NewClient(&sdk.Implementation{Name: c.o.Name, Version: c.o.Version}, &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{
			RootsV2:     &sdk.RootCapabilities{}, //nolint:staticcheck // deprecated, and what servers ask for
			Elicitation: &sdk.ElicitationCapabilities{Form: &sdk.FormElicitationCapabilities{}},
		},
		MultiRoundTrip:              &sdk.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler:      func(context.Context, *sdk.ToolListChangedRequest) { c.changed() },
		ProgressNotificationHandler: s.progressed,
	})
	client.AddReceivingMiddleware(c.requests(s))
	if uri, name := rootOf(c.o.Project); uri != "" {
		client.AddRoots(&sdk.Root{URI: uri, Name: name}) //nolint:staticcheck // the same
	}
	type result struct {
		cs  *sdk.ClientSession
		err error
	}
	done := make(chan result, 1)
	go func() {
		cs, err := client.Connect(life, remembered{transport, s}, &sdk.ClientSessionOptions{ProtocolVersion: version})
		done <- result{cs, err}
	}()
	var r result
	select {
	case r = <-done:
	case <-ctx.Done():
		s.abort()
		if r = <-done; r.err == nil {
			r.err = ctx.Err()
		}
	}
	s.cs = r.cs
	if r.err != nil {
		failed := c.fail(s, phaseInit, late(ctx, r.err))
		s.close()
		return nil, failed
	}
	go func() {
		defer close(s.dead)
		_ = s.cs.Wait() // why it ended is known where it matters
	}()
	return s, nil
}

// late returns the timeout rather than the error that it caused.
func late(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// rootOf returns a folder as servers are told of it.
func rootOf(project string) (uri, name string) {
	if project == "" {
		return "", ""
	}
	abs, err := filepath.Abs(project)
	if err != nil {
		return "", ""
	}
	path := filepath.ToSlash(abs)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return (&url.URL{Scheme: "file", Path: path}).String(), filepath.Base(abs)
}

func (s *session) transport(life context.Context, full *Server, o *Options) (sdk.Transport, error) {
	if full.Transport == Stdio {
		p, err := start(full, o)
		if err != nil {
			return nil, err
		}
		s.proc, s.fault = p, p.fault
		return p.lines, nil
	}
	u, err := url.Parse(full.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, &wireError{what: "has no url with http:// or https://, a host, and no password"}
	}
	s.fault = new(faultOnce)
	s.guard = &guard{origin: u, headers: full.Headers, fault: s.fault, closed: life}
	if o.HTTP != nil && o.HTTP.Transport != nil {
		s.guard.base = o.HTTP.Transport
	} else {
		own := &http.Transport{
			DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext, TLSHandshakeTimeout: 10 * time.Second,
			ForceAttemptHTTP2: true, MaxResponseHeaderBytes: 64 << 10, IdleConnTimeout: time.Minute,
		}
		s.guard.base, s.free = own, own.CloseIdleConnections
	}
	client := &http.Client{Transport: s.guard}
	if full.Transport == SSE {
		return &sdk.SSEClientTransport{Endpoint: full.URL, HTTPClient: client, MaxEventSize: 2 * maxMessage}, nil
	}
	s.guard.listen = 5 * time.Second
	return &sdk.StreamableClientTransport{Endpoint: full.URL, HTTPClient: client, MaxRetries: 2, MaxEventSize: 2 * maxMessage}, nil
}

// requests answers what servers ask for: questions go to the user, and sampling is refused.
func (c *conn) requests(s *session) sdk.Middleware {
	return func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			why := errors.New("sampling is not supported: a server cannot use the model")
			if p, ok := req.GetParams().(*sdk.ElicitParams); ok {
				var f *flight
				if f, why = s.only(); why == nil {
					var answer *sdk.ElicitResult
					if answer, why = c.elicit(ctx, f, p); why == nil {
						return answer, nil
					}
				}
				why = fmt.Errorf("its question to the user: %w", why)
			} else if method != "sampling/createMessage" {
				return next(ctx, method, req)
			}
			s.mu.Lock()
			first := !s.asked[why.Error()] && len(s.asked) < maxQuestions
			if first {
				s.asked[why.Error()] = true
			}
			s.mu.Unlock()
			if first {
				c.o.Warn(c.server.Name, "was refused: "+why.Error())
			}
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: why.Error()}
		}
	}
}

func (s *session) progressed(_ context.Context, req *sdk.ProgressNotificationClientRequest) {
	token, ok := req.Params.ProgressToken.(string)
	if !ok {
		return
	}
	s.mu.Lock()
	report := s.progress[token]
	s.mu.Unlock()
	if report != nil {
		report()
	}
}

// follow calls a function with the progress reports of a call, until stop is called.
func (s *session) follow(token string, report func()) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.progress[token] = report
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.progress, token)
	}
}

// abort makes everything that waits for the server return.
func (s *session) abort() {
	s.cancel()
	if s.proc != nil {
		s.proc.end()
		s.proc.kill()
		return
	}
	s.mu.Lock()
	conn := s.conn
	s.mu.Unlock()
	if conn != nil {
		_ = conn.Close() // its requests end with the context
	}
}

// close ends a session and returns when nothing of it is left.
func (s *session) close() {
	if s.proc != nil {
		s.proc.end()
		<-s.proc.done
	}
	if s.cs != nil {
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			_ = s.cs.Close() // the server may have gone before
		}()
		waitFor(closed, 2*time.Second) // for it to be told
		s.abort()
		<-closed
		<-s.dead
	}
	s.abort()
	s.free()
}

func (s *session) alive() bool {
	select {
	case <-s.dead:
		return false
	default:
		return s.fault.get() == nil && (s.guard == nil || !s.guard.lost.Load())
	}
}

// fail creates an *Error from an error, with its known cause.
func (c *conn) fail(s *session, phase string, err error) *Error {
	out := &Error{Server: c.server.Name, Phase: phase}
	var done *Error
	var wire *wireError
	var rpc *jsonrpc.Error
	var unset unsetError
	if s != nil {
		if s.proc != nil && s.fault.get() == nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) && !errors.As(err, &rpc) {
			waitFor(s.proc.exited, 2*time.Second) // if it is ending, how it ended is the better reason
			waitFor(s.proc.done, 300*time.Millisecond)
		}
		if s.proc != nil {
			out.Stderr = c.redact(s.proc.said())
		}
		if fault := s.fault.get(); fault != nil {
			err = fault
		}
	}
	switch {
	case errors.As(err, &done):
		return done
	case errors.As(err, &wire):
		out.What, out.Fix = wire.what, wire.fix
	case errors.As(err, &unset):
		out.What, out.Fix = unset.Error()+", which are not set", "set them in the environment, or give a default: ${NAME:-default}"
	case errors.Is(err, context.DeadlineExceeded):
		out.What, out.Fix, out.Err = fmt.Sprintf("gave no answer within %v", c.limit(phase)), "see whether it waits for something, or raise its timeout",
			context.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		out.What, out.Err = "was cancelled", context.Canceled
	case phase == phaseInit && strings.Contains(err.Error(), "unsupported protocol version"):
		out.What, out.Fix = oneLine(err.Error(), 200), "update the server, or Superstep"
	case errors.As(err, &rpc) && rpc.Message != rejected:
		out.What, out.answered = "answered with an error: "+oneLine(rpc.Message, 500), true
	case s != nil && s.guard != nil && s.guard.refused.Load() != nil:
		note := s.guard.refused.Load()
		out.What, out.Fix, out.answered = note.what, note.fix, note.status == http.StatusBadRequest
	case s != nil && s.proc != nil && ended(s.proc.exited):
		out.What, out.Fix = s.proc.exit, "run its command by hand to see why: "+c.server.CommandLine()
	default:
		out.What = oneLine(err.Error(), 300)
	}
	out.What = c.redact(out.What)
	if missing := c.missing(s, out.What+out.Stderr, out.Phase != phaseCall && s != nil && s.proc != nil && ended(s.proc.exited)); missing != "" {
		out.Fix = missing
	}
	return out
}

// missing returns what the sandbox may have refused a server that failed, or that died at its start, "" if nothing.
func (c *conn) missing(s *session, said string, died bool) string {
	if s == nil || s.proc == nil {
		return ""
	}
	if died {
		said = ""
	}
	return s.proc.cmd.Missing("server "+c.server.Name, c.server.Needs, c.server.Source.Path, said)
}

func ended(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// limit returns the time that a phase may take.
func (c *conn) limit(phase string) time.Duration {
	own, general := c.server.InitTimeout, c.o.InitTimeout
	if phase == phaseCall {
		own, general = c.server.CallTimeout, c.o.CallTimeout
	}
	if own > 0 {
		return own
	}
	return general
}
