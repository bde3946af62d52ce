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
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/elicit"
	"github.com/superstep-dev/superstep/tool"
)

const maxCalls = 16 // that run at once; more wait

// ServeOptions are the settings of Serve and NewHandler. Nil means the defaults.
type ServeOptions struct {
	Name         string // that clients are told; defaults to "superstep"
	Version      string // defaults to "0"
	Instructions string // for the models of clients; defaults to none
	// Gate decides on a call before it is made; an error refuses the call and is shown to the
	// client. The arguments of the call may not fit the tool. If the error has a method
	// Question() string and the client can ask its user, that user decides: the call happens if the
	// user accepts the question, which must hold all that there is to decide on. Gate is called again then. If nil, every
	// tool that is not pure is refused.
	Gate func(ctx context.Context, t *tool.Tool, c *tool.Call) error
	// Extend adds tools and resources to the server before any client connects. It may be nil.
	Extend func(server *sdk.Server)

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
// returns nil at the end of in, at most five seconds after it, and the cause of ctx when that ends, closing in if it can; a read
// that continues nevertheless, such as one from a terminal, is abandoned.
func Serve(ctx context.Context, tools *tool.Set, in io.Reader, out io.Writer, opts *ServeOptions) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server, err := newServer(ctx, tools, opts.defaults())
	if err != nil {
		return err
	}
	read, fed := io.Pipe()
	go func() {
		_, err := io.Copy(fed, in)
		fed.CloseWithError(err)
	}()
	lines := newLines(read, out, func() {
		_ = read.Close()
		if c, ok := in.(io.Closer); ok {
			_ = c.Close() // to end a read; there is nothing to lose
		}
	})
	session, err := server.Connect(ctx, lines, nil)
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
	case <-lines.eof:
	case <-ctx.Done():
		lines.stop()
	}
	if waitFor(done, 5*time.Second); !ended(done) {
		lines.fault.set(&wireError{what: "does not read what it is sent"})
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
	can := &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}}
	if o.Extend != nil {
		can.Resources = &sdk.ResourceCapabilities{}
	}
	server := sdk.NewServer(&sdk.Implementation{Name: o.Name, Version: o.Version}, &sdk.ServerOptions{Instructions: o.Instructions, Capabilities: can})
	slots, asker := make(chan struct{}, maxCalls), new(elicit.Asker)
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
			c := &tool.Call{ID: rand.Text(), Key: rand.Text(), Args: req.Params.Arguments}
			if refused := permit(call, asker, req, o.Gate, t, c); refused != nil {
				return refused, nil
			}
			return serveCall(call, tools, t, c), nil
		})
	}
	if o.Extend != nil {
		o.Extend(server)
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

// permit asks the gate about a call, and the client's user if the gate says so. The result is nil if the call may happen.
func permit(ctx context.Context, asker *elicit.Asker, req *sdk.CallToolRequest, gate func(context.Context, *tool.Tool, *tool.Call) error,
	t *tool.Tool, c *tool.Call) *sdk.CallToolResult {
	err := permitted(ctx, gate, t, c)
	if ask, ok := errors.AsType[interface {
		error
		Question() string
	}](err); ok && elicit.Can(req) {
		text := clean.Text(ask.Question())
		answer, again, failed := asker.Ask(ctx, req, fmt.Sprintf("%q %q %q", t.Name, c.Args, text), &sdk.ElicitParams{Message: text})
		switch {
		case again != nil:
			return again
		case failed == nil && answer.Action == "accept":
			c.Permitted = true
			return nil
		case failed == nil:
			err = errors.New("the user did not allow it")
		}
	}
	if err == nil {
		return nil
	}
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: clean.Text("refused: " + err.Error())}}}
}

func serveCall(ctx context.Context, tools *tool.Set, t *tool.Tool, c *tool.Call) *sdk.CallToolResult {
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
