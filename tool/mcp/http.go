package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/elicit"
)

// A guard restricts the traffic with a server: to one origin, which alone receives the configured
// headers, to bounded answers, and to messages that were checked before the SDK reads them.
type guard struct {
	base    http.RoundTripper
	origin  *url.URL
	headers Values
	fault   *faultOnce
	closed  context.Context           // ends all requests
	listen  time.Duration             // for a stream to begin
	lost    atomic.Bool               // the server no longer knows the session
	refused atomic.Pointer[wireError] // why the last request was not answered as it should be
	open    open
}

const sessionHeader = "Mcp-Session-Id"

func origin(u *url.URL) string { return u.Scheme + "://" + u.Host }

// RoundTrip is http.RoundTripper.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if g.answers(req) {
		defer g.open.n.Add(-1)
	}
	if origin(req.URL) != origin(g.origin) || req.URL.User != nil {
		err := &wireError{
			what: fmt.Sprintf("sends us on to %s", clean.Quote(oneLine(origin(req.URL), 100))),
			fix:  "if that is where it is, configure that url",
		}
		if req.Body != nil {
			req.Body.Close()
		}
		g.refused.Store(err)
		return nil, err
	}
	ctx, cancel := context.WithCancel(req.Context())
	release := context.AfterFunc(g.closed, cancel)
	end := func() { release(); cancel() }
	asked := req.Context()
	req = req.Clone(ctx)
	for k, v := range g.headers {
		req.Header.Set(k, v)
	}
	req.Header.Set(elicit.Agent, "1")
	late := false
	var timer *time.Timer
	if req.Method == http.MethodGet && g.listen > 0 {
		timer = time.AfterFunc(g.listen, cancel)
	}
	resp, err := g.base.RoundTrip(req)
	if timer != nil {
		late = !timer.Stop()
	}
	if err != nil {
		defer end()
		unsent(asked, err)
		if late && asked.Err() == nil && g.closed.Err() == nil {
			return noStream(req), nil
		}
		if asked.Err() == nil && g.closed.Err() == nil {
			g.refused.Store(&wireError{what: "cannot be reached: " + oneLine(err.Error(), 200), fix: "check that it runs, and its url"})
		}
		return nil, err
	}
	if req.Header.Get(sessionHeader) != "" && resp.StatusCode == http.StatusNotFound {
		unsent(asked, errNoSession)
	}
	resp.Body = &body{ReadCloser: resp.Body, end: end}
	return g.check(resp)
}

// answers reports whether we answer a request of the server.
func (g *guard) answers(req *http.Request) bool {
	if g.open.n.Load() == 0 || req.GetBody == nil {
		return false
	}
	body, err := req.GetBody()
	if err != nil {
		return false
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	if err != nil {
		return false
	}
	msg, err := jsonrpc.DecodeMessage(data)
	_, ok := msg.(*jsonrpc.Response)
	return ok && err == nil
}

// noStream returns the response of a server without a stream of events.
func noStream(req *http.Request) *http.Response {
	return &http.Response{
		Status: "405 Method Not Allowed", StatusCode: http.StatusMethodNotAllowed, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: http.NoBody, Request: req,
	}
}

type body struct {
	io.ReadCloser
	end func()
}

func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.end()
	return err
}

// check checks an answer before the SDK reads it, or wraps it in a reader that does.
func (g *guard) check(resp *http.Response) (*http.Response, error) {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	resp.Header.Set("Content-Type", kind)
	good := resp.StatusCode >= 200 && resp.StatusCode < 300
	switch {
	case good && kind == "text/event-stream":
		g.refused.Store(nil)
		resp.Body = &events{src: resp.Body, in: bufio.NewReaderSize(resp.Body, 32<<10), fault: g.fault, open: &g.open}
		return resp, nil
	case good:
		if resp.Request.Method == http.MethodPost { // the others tell of nothing that was asked
			g.refused.Store(nil)
		}
	case resp.Request.Method == http.MethodPost || resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		note := statusNote(resp.StatusCode)
		g.refused.Store(note)
		if a, ok := resp.Request.Context().Value(attemptKey{}).(*attempt); ok {
			a.answer.Store(note)
		}
	}
	limit := int64(maxMessage)
	if !good {
		limit = 64 << 10
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	resp.Body.Close()
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if int64(len(data)) > limit {
		if good {
			g.fault.set(errTooLarge)
		}
		data = []byte("{}") // which the SDK refuses
	}
	if resp.StatusCode == http.StatusBadRequest && resp.Request.Header.Get(sessionHeader) != "" && bytes.Contains(bytes.ToLower(data), []byte("session")) {
		g.lost.Store(true) // many servers answer so where they should answer 404
		unsent(resp.Request.Context(), errNoSession)
	}
	if kind == "application/json" && len(data) > 2 {
		err := checkMessage(data)
		if msg, wrong := jsonrpc.DecodeMessage(data); err == nil && good && wrong == nil {
			err = g.open.read(msg)
		}
		if err != nil {
			if good {
				g.fault.set(err)
			}
			data = []byte("{}")
		}
	}
	resp.Body = io.NopCloser(bytes.NewReader(data))
	resp.ContentLength = int64(len(data))
	return resp, nil
}

func statusNote(code int) *wireError {
	note := &wireError{what: fmt.Sprintf("answers %d %s", code, http.StatusText(code)), status: code}
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden:
		note.fix = "check the headers it is sent, such as Authorization; signing in by a browser is not supported"
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		note.fix = "check the url, which often ends in /mcp, and the type, which for old servers is sse"
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		note.fix = "try again later"
	}
	return note
}

// An events is a stream of server-sent events that holds nothing but what was checked: names of
// events, their order, and messages. It is re-encoded, so that it has only one interpretation.
type events struct {
	src   io.Closer
	in    *bufio.Reader
	fault *faultOnce
	open  *open
	out   bytes.Buffer
	err   error
}

// Read is io.Reader.
func (e *events) Read(p []byte) (int, error) {
	for e.out.Len() == 0 {
		if e.err != nil {
			return 0, e.err
		}
		e.err = e.event()
	}
	return e.out.Read(p)
}

// Close is io.Closer.
func (e *events) Close() error { return e.src.Close() }

// event moves one event from in to out. An incomplete event is ignored.
func (e *events) event() error {
	var name, id, retry string
	var data [][]byte
	for size := 0; ; {
		line, err := readLine(e.in)
		if wire, ok := errors.AsType[*wireError](err); ok {
			return e.refuse(wire)
		}
		if err != nil {
			return err
		}
		if size += len(line); size > maxMessage {
			return e.refuse(errTooLarge)
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		key, value, _ := bytes.Cut(line, []byte{':'})
		value = bytes.TrimSpace(value)
		switch string(key) {
		case "event":
			name = string(value)
		case "id":
			id = string(value)
		case "retry":
			retry = string(value)
		case "data":
			data = append(data, value)
		}
	}
	text := bytes.ReplaceAll(bytes.Join(data, []byte{' '}), []byte{'\r'}, []byte{' '})
	switch {
	case name == "endpoint" && len(text) > 0:
		fmt.Fprintf(&e.out, "event: endpoint\ndata: %s\n", text)
	case (name == "" || name == "message") && len(text) > 0:
		msg, wire := decodeMessage(text)
		if wire == nil {
			wire = e.open.read(msg)
		}
		if wire != nil {
			return e.refuse(wire)
		}
		fmt.Fprintf(&e.out, "event: message\ndata: %s\n", text)
	}
	for _, f := range [][2]string{{"id", id}, {"retry", retry}} {
		if f[1] != "" {
			fmt.Fprintf(&e.out, "%s: %s\n", f[0], f[1])
		}
	}
	if e.out.Len() > 0 {
		e.out.WriteByte('\n')
	}
	return nil
}

// refuse ends a stream with a message that the SDK treats as the end of the connection.
func (e *events) refuse(wire *wireError) error {
	e.fault.set(wire)
	e.out.WriteString("event: message\ndata: {}\n\n")
	return io.EOF
}
