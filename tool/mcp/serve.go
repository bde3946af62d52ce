package mcp

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/tool"
)

const maxCalls = 16 // that run at once; more wait

// ServeOptions are the settings of Serve and NewHandler. Nil means the defaults.
type ServeOptions struct {
	Name         string // that clients are told; defaults to "superstep"
	Version      string // defaults to "0"
	Instructions string // for the models of clients; defaults to none
	// Gate decides on a call before it is made; an error refuses the call and is shown to the
	// client. The arguments of the call may not fit the tool. If nil, every tool that is not pure
	// is refused, since no user can be asked.
	Gate func(ctx context.Context, t *tool.Tool, c *tool.Call) error

	// Hosts are the values of the header Host that NewHandler answers to, such as "127.0.0.1:7777",
	// exactly. If empty, no request is answered.
	Hosts []string
	// Origins are the values of the header Origin it answers to. Defaults to none: requests of web
	// pages are refused, those of programs have no Origin.
	Origins []string

	progress time.Duration // 0 is progressEvery
}

func (o *ServeOptions) defaults() ServeOptions {
	var d ServeOptions
	if o != nil {
		d = *o
	}
	if d.Name == "" {
		d.Name = "superstep"
	}
	if d.Version == "" {
		d.Version = "0"
	}
	if d.Gate == nil {
		d.Gate = func(_ context.Context, t *tool.Tool, _ *tool.Call) error {
			if t.Effect != tool.Pure {
				return fmt.Errorf("tool %s may change things and nobody is here to agree to it; allow it where this server is started", t.Name)
			}
			return nil
		}
	}
	return d
}

// Serve is an MCP server with the tools of a set, for one client, by line over in and out; a
// process hands over its standard input and output, and writes nothing else to the latter. It
// returns nil at the end of in, and the cause of ctx when that ends, closing in if it can; a read
// that continues nevertheless, such as one from a terminal, is abandoned.
func Serve(ctx context.Context, tools *tool.Set, in io.Reader, out io.Writer, opts *ServeOptions) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server, err := newServer(ctx, tools, opts.defaults())
	if err != nil {
		return err
	}
	stopped := make(chan struct{})
	var once sync.Once
	lines := newLines(in, out, func() {
		once.Do(func() {
			close(stopped)
			if c, ok := in.(io.Closer); ok {
				_ = c.Close() // to end a read; there is nothing to lose
			}
		})
	})
	session, err := server.Connect(ctx, interruptible{lines, stopped}, nil)
	if err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = session.Wait() // lines knows what was wrong
	}()
	select {
	case <-done:
	case <-ctx.Done():
		lines.stop()
		<-done
	}
	if wire := lines.fault.get(); wire != nil {
		return fmt.Errorf("the client %w", wire)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// newServer returns the tools of a set as a server of the SDK. Calls end with ctx.
func newServer(ctx context.Context, tools *tool.Set, o ServeOptions) (*sdk.Server, error) {
	server := sdk.NewServer(&sdk.Implementation{Name: o.Name, Version: o.Version}, &sdk.ServerOptions{
		Instructions: o.Instructions,
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
	})
	slots := make(chan struct{}, maxCalls)
	var errs []error
	for _, t := range tools.Tools() {
		schema, err := json.Marshal(t.Input)
		if err != nil {
			errs = append(errs, fmt.Errorf("tool %q: %w", t.Name, err))
			continue
		}
		def := &sdk.Tool{Name: t.Name, Description: clean.Text(t.Description), InputSchema: json.RawMessage(schema), Annotations: annotations(t.Effect)}
		if t.Output != nil && t.Output.Type == "object" {
			output, err := json.Marshal(t.Output)
			if err != nil {
				errs = append(errs, fmt.Errorf("tool %q: %w", t.Name, err))
				continue
			}
			def.OutputSchema = json.RawMessage(output)
		}
		server.AddTool(def, func(call context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			call, cancel := context.WithCancel(call)
			defer cancel()
			served, asked := context.AfterFunc(ctx, cancel), context.AfterFunc(requestContext(call), cancel)
			defer served()
			defer asked()
			select {
			case slots <- struct{}{}:
			case <-call.Done():
				return nil, call.Err()
			}
			defer func() { <-slots }()
			defer o.keepAlive(call, req)()
			return serveCall(call, tools, t, o.Gate, req.Params.Arguments), nil
		})
	}
	return server, errors.Join(errs...)
}

// progressEvery is how often a client is told that its call is under way: many give up after 60 seconds without a word.
const progressEvery = 10 * time.Second

// keepAlive sends the client of a call progress, if it wants that, until stop is called.
func (o *ServeOptions) keepAlive(ctx context.Context, req *sdk.CallToolRequest) (stop func()) {
	token := req.Params.GetProgressToken()
	if token == nil {
		return func() {}
	}
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(cmp.Or(o.progress, progressEvery))
		defer tick.Stop()
		for n := 1; ; n++ {
			select {
			case <-tick.C:
				// A client that is gone has ended its request.
				_ = req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: float64(n), Message: "under way"})
			case <-over:
				return
			}
		}
	}()
	return func() { close(over); <-ended }
}

func annotations(e tool.Effect) *sdk.ToolAnnotations {
	changes := e != tool.Pure
	return &sdk.ToolAnnotations{ReadOnlyHint: !changes, IdempotentHint: e == tool.Pure || e == tool.Idempotent, DestructiveHint: &changes}
}

func serveCall(ctx context.Context, tools *tool.Set, t *tool.Tool, gate func(context.Context, *tool.Tool, *tool.Call) error,
	args json.RawMessage) *sdk.CallToolResult {
	c := &tool.Call{ID: rand.Text(), Key: rand.Text(), Args: args}
	if err := permitted(ctx, gate, t, c); err != nil {
		return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: clean.Text("refused: " + err.Error())}}}
	}
	r := tools.Call(ctx, t.Name, c)
	out := &sdk.CallToolResult{IsError: r.Error, Content: []sdk.Content{&sdk.TextContent{Text: r.Text}}}
	if text := bytes.TrimSpace([]byte(r.Text)); !r.Error && t.Output != nil && bytes.HasPrefix(text, []byte("{")) && json.Valid(text) {
		out.StructuredContent = json.RawMessage(text)
	}
	return out
}

// permitted calls the gate. A gate that panics does not permit the call.
func permitted(ctx context.Context, gate func(context.Context, *tool.Tool, *tool.Call) error, t *tool.Tool, c *tool.Call) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.New("the check of permissions failed")
		}
	}()
	return gate(ctx, t, c)
}

// An interruptible is lines over a reader that may not end when it is closed, as a terminal's.
type interruptible struct {
	*lines
	stopped <-chan struct{}
}

// Connect implements the interface of transports.
func (e interruptible) Connect(context.Context) (sdk.Connection, error) { return e, nil }

// Read returns when the connection is closed, even if the reader blocks.
func (e interruptible) Read(ctx context.Context) (jsonrpc.Message, error) {
	type result struct {
		msg jsonrpc.Message
		err error
	}
	got := make(chan result, 1)
	go func() {
		msg, err := e.lines.Read(ctx)
		got <- result{msg, err}
	}()
	select {
	case r := <-got:
		return r.msg, r.err
	case <-e.stopped:
		return nil, io.EOF
	}
}
