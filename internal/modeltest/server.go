// Package modeltest has a model [Server] for tests: it speaks a provider's protocol on a real
// socket, answers according to a script, and fails in the ways real servers do. Its own tests are
// the suite that every provider must pass.
package modeltest

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/model"
)

// A Wire is a provider's protocol, seen from the server. Its methods may be called from
// several goroutines.
type Wire interface {
	// Path is what the base URL ends with, such as "/v1".
	Path() string
	// Parse reads a request. An error is answered with status 400.
	Parse(r *http.Request, body []byte) (*ParsedRequest, error)
	// Frames returns the body of the stream for a reply, cut where a client may act: one frame for
	// each part, followed by frames with the stop reason and the usage. It ignores faults.
	Frames(req *ParsedRequest, reply *Reply) [][]byte
	// ErrorFrame is an error in the middle of a stream.
	ErrorFrame(code, message string) []byte
	// ErrorBody returns the body of a response with an error status.
	ErrorBody(status int, code, message string) []byte
}

// A ParsedRequest is a request as the server understood it.
type ParsedRequest struct {
	model.Request             // its Key comes from the Idempotency-Key header
	Model         string      // the name of the model asked for
	Attempt       int         // how often this key has been asked for, from 1; without a key, how often none was given
	Header        http.Header // of the request
	Body          []byte      // of the request
	Wire          Wire        // of the server that was asked
	// Gone is closed when the client has closed the connection, or the answer is complete.
	Gone <-chan struct{}
}

// A Reply is what the server answers. The zero Reply says nothing and stops.
type Reply struct {
	// Parts are said in order: texts and reasonings as one delta each, calls, and at most
	// one usage. A call without an id gets "call_1" and so on where the protocol needs one.
	// The Data of an Opaque is what the provider wants back, such as a signature: a JSON string.
	Parts []model.Part
	// Fragment cuts the arguments of calls into pieces of so many bytes; 0 means whole.
	Fragment int
	// Stop defaults to calls if there are any, else to end.
	Stop model.StopCode
	// Raw, if set, is sent as the body instead.
	Raw []byte

	// Status, if it is neither 0 nor 200, is answered with an error body of Code and
	// Message, with RetryAfter in the header of that name.
	// With the fault Infinite that body never ends.
	Status        int
	RetryAfter    string
	Code, Message string

	Fault Fault
	At    int           // where the fault is: bytes or frames that are sent before it; negative means all but the last frame
	Cut   func(int)     // unless nil, told by Drop and Close how many bytes they do not send
	Pause time.Duration // between the bytes of Trickle, the comments of Chatter and the frames of Infinite
}

// A Fault is a way to fail.
type Fault int

// The faults. At counts bytes for the first group, frames for the second.
const (
	NoFault Fault = iota
	Drop          // the connection is cut
	Close         // the body ends in order, as if that were all
	Stall         // silence, until the client leaves
	Chatter       // a comment every Pause, and nothing else, until the client leaves

	ErrorEvent // an error event, and the end
	BadJSON    // the next frame is cut in two and ended like a whole one
	Infinite   // the frame before is repeated for ever, with Pause between
	LongLine   // a line of 1 GB
	LongEvent  // an event of 1 GB, in lines of 1 kB
	LongBody   // a JSON document of 1 GB in place of a stream, in lines of 1 kB

	Trickle  // every byte is sent on its own, with Pause between them
	GzipBomb // a gigabyte of spaces, compressed although nobody asked
	Silent   // not even headers, until the client leaves
)

// Text returns a reply of one text.
func Text(s string) Reply {
	return Reply{Parts: []model.Part{{Kind: model.Text, Text: s}}}
}

// Call returns a reply of one tool call.
func Call(name, args string) Reply {
	return Reply{Parts: []model.Part{{Kind: model.ToolCall, Call: &model.Call{Name: name, Args: []byte(args)}}}}
}

// Failure returns a reply with an error status.
func Failure(status int, retryAfter string) Reply {
	return Reply{Status: status, RetryAfter: retryAfter, Message: "scripted failure"}
}

// A Handler decides what the server answers. It is called from several goroutines.
type Handler func(*ParsedRequest) Reply

// Sequence returns a handler that returns the replies in order, and then repeats the last one.
func Sequence(replies ...Reply) Handler {
	var mu sync.Mutex
	n := 0
	return func(*ParsedRequest) Reply {
		mu.Lock()
		defer mu.Unlock()
		r := replies[min(n, len(replies)-1)]
		n++
		return r
	}
}

// Options of a server. A nil pointer means the defaults.
type Options struct {
	Wire Wire   // defaults to [OpenAI]
	Addr string // to listen on; defaults to a free port of 127.0.0.1. ":0" is a free port of all addresses
}

// A Server answers as its handler says and records what it was asked. Other processes
// can be pointed at its URL.
type Server struct {
	// URL is the base URL for clients. It names 127.0.0.1 if the server listens on all
	// addresses.
	URL string

	wire    Wire
	handle  Handler
	server  *http.Server
	stop    context.CancelFunc
	serving sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	requests []*ParsedRequest
	asked    map[string]int
}

// Start starts a server. The caller closes it.
func Start(handle Handler, o *Options) (*Server, error) {
	if handle == nil {
		return nil, errors.New("modeltest: the handler is nil")
	}
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.Wire == nil {
		opts.Wire = OpenAI{}
	}
	if opts.Addr == "" {
		opts.Addr = "127.0.0.1:0"
	}
	listener, err := net.Listen("tcp", opts.Addr)
	if err != nil {
		return nil, fmt.Errorf("modeltest: cannot listen: %w", err)
	}
	host, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Server{
		URL: "http://" + net.JoinHostPort(host, port) + opts.Wire.Path(), wire: opts.Wire,
		handle: handle, stop: stop, asked: map[string]int{},
	}
	s.server = &http.Server{Handler: s, BaseContext: func(net.Listener) context.Context { return ctx }, ReadHeaderTimeout: time.Minute}
	s.serving.Go(func() { _ = s.server.Serve(listener) }) // it ends with ErrServerClosed, by Close
	return s, nil
}

// NewServer starts a server that is closed when the test ends.
func NewServer(t testing.TB, handle Handler, o *Options) *Server {
	t.Helper()
	s, err := Start(handle, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Close cuts all connections and waits until nothing of the server runs any more.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	_ = s.server.Close() // of the listener, whose state no longer matters
	s.serving.Wait()
}

// Requests returns what was asked so far, in order of arrival.
func (s *Server) Requests() []*ParsedRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Asked returns how often each key was asked for.
func (s *Server) Asked() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := make(map[string]int, len(s.asked))
	for k, n := range s.asked {
		counts[k] = n
	}
	return counts
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		return
	}
	defer s.serving.Done()
	body, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
	if err != nil {
		return
	}
	req, err := s.wire.Parse(r, body)
	if err != nil {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write(s.wire.ErrorBody(http.StatusBadRequest, "invalid_request_error", err.Error()))
		return
	}
	req.Header, req.Body, req.Wire, req.Gone = r.Header.Clone(), body, s.wire, r.Context().Done()
	req.Key = r.Header.Get("Idempotency-Key")
	s.mu.Lock()
	s.asked[req.Key]++
	req.Attempt = s.asked[req.Key]
	s.requests = append(s.requests, req)
	s.mu.Unlock()

	reply := s.handle(req)
	if reply.Status != 0 && reply.Status != http.StatusOK {
		s.fail(&stream{w: w, gone: r.Context()}, &reply)
		return
	}
	// A write error means that the client has disconnected, which is no error here.
	_ = s.stream(&stream{w: w, gone: r.Context()}, req, &reply)
}

func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.serving.Add(1)
	}
	return !s.closed
}

func (s *Server) fail(out *stream, reply *Reply) {
	w := out.w
	if reply.RetryAfter != "" {
		w.Header().Set("Retry-After", reply.RetryAfter)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(reply.Status)
	_, _ = w.Write(s.wire.ErrorBody(reply.Status, reply.Code, reply.Message))
	if reply.Fault == Infinite {
		_ = out.repeat(bytes.Repeat([]byte(" "), 1000), -1) // until the client leaves
	}
}

func (s *Server) stream(out *stream, req *ParsedRequest, reply *Reply) error {
	frames := [][]byte{reply.Raw}
	if reply.Raw == nil {
		frames = s.wire.Frames(req, reply)
	}
	all := bytes.Join(frames, nil)
	head := all[:min(max(reply.At, 0), len(all))]
	framed := min(max(reply.At, 0), len(frames))
	if reply.At < 0 {
		framed = len(frames) - 1
		head = bytes.Join(frames[:framed], nil)
	}
	before := bytes.Join(frames[:framed], nil)
	switch reply.Fault {
	case Silent:
		return out.wait()
	case GzipBomb:
		return out.bomb()
	}
	out.w.Header().Set("Content-Type", "text/event-stream")
	if (reply.Fault == Drop || reply.Fault == Close) && reply.Cut != nil {
		reply.Cut(len(all) - len(head))
	}
	switch reply.Fault {
	case Drop:
		if err := out.write(head); err != nil {
			return err
		}
		panic(http.ErrAbortHandler)
	case Close:
		return out.write(head)
	case Stall:
		return errors.Join(out.write(head), out.wait())
	case Chatter:
		return errors.Join(out.write(head), out.drip([]byte(": still here\n\n"), reply.Pause)) // as proxies keep silent connections open
	case ErrorEvent:
		return out.write(append(before, s.wire.ErrorFrame("server_error", "scripted failure")...))
	case BadJSON:
		cut := frames[min(framed, len(frames)-1)]
		cut = append(slices.Clone(cut[:len(cut)/2]), "\n\n"...)
		return out.write(slices.Concat(before, cut, bytes.Join(frames[min(framed+1, len(frames)):], nil)))
	case Infinite:
		if reply.Pause > 0 {
			return errors.Join(out.write(before), out.drip(frames[max(framed-1, 0)], reply.Pause))
		}
		return errors.Join(out.write(before), out.repeat(frames[max(framed-1, 0)], -1))
	case LongLine:
		return errors.Join(out.write(before), out.write([]byte("data: {\"x\":\"")), out.repeat(bytes.Repeat([]byte("x"), 1000), 1_000_000))
	case LongEvent:
		line := append([]byte("data: "), bytes.Repeat([]byte("x"), 993)...)
		return errors.Join(out.write(before), out.write([]byte("data: {\"x\":\"\n")), out.repeat(append(line, '\n'), 1_000_000))
	case LongBody:
		line := append(bytes.Repeat([]byte("x"), 999), '\n')
		return errors.Join(out.write([]byte("{\"x\":\"\n")), out.repeat(line, 1_000_000))
	case Trickle:
		return out.trickle(all, reply.Pause)
	}
	return out.write(all)
}

// A stream is the body of a response.
type stream struct {
	w    http.ResponseWriter
	gone context.Context
}

func (s *stream) write(b []byte) error {
	if _, err := s.w.Write(b); err != nil {
		return err
	}
	return http.NewResponseController(s.w).Flush()
}

func (s *stream) wait() error {
	<-s.gone.Done()
	panic(http.ErrAbortHandler)
}

// repeat writes b n times, or until the client leaves if n is negative.
func (s *stream) repeat(b []byte, n int) error {
	for ; n != 0 && s.gone.Err() == nil; n-- {
		if _, err := s.w.Write(b); err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) trickle(b []byte, pause time.Duration) error {
	for i := range b {
		if err := s.write(b[i : i+1]); err != nil {
			return err
		}
		select {
		case <-time.After(pause):
		case <-s.gone.Done():
			return nil
		}
	}
	return nil
}

// drip writes b again and again until the client leaves.
func (s *stream) drip(b []byte, pause time.Duration) error {
	for {
		if err := s.write(b); err != nil {
			return err
		}
		select {
		case <-time.After(pause):
		case <-s.gone.Done():
			return nil
		}
	}
}

func (s *stream) bomb() error {
	s.w.Header().Set("Content-Type", "text/event-stream")
	s.w.Header().Set("Content-Encoding", "gzip")
	z := gzip.NewWriter(s.w)
	spaces := bytes.Repeat([]byte(" "), 1<<20)
	for range 1024 {
		if _, err := z.Write(spaces); err != nil || s.gone.Err() != nil {
			return err
		}
	}
	return z.Close()
}
