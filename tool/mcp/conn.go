package mcp

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/superstep-dev/superstep/tool"
)

// A conn is a connection to one server. A server that ends between two calls is started again. It
// is safe for use from several goroutines. Close it.
type conn struct {
	server *Server
	o      *Options
	life   context.Context
	end    context.CancelFunc
	busy   chan struct{} // one token: who has it connects or lists
	kick   chan struct{} // a list that changed
	gone   chan struct{} // closed when the watcher ended
	closed sync.Once

	mu sync.Mutex // never held while something waits
	state
}

type state struct {
	s        *session // nil if there is none
	secrets  []hidden
	stale    bool   // the list changed and was not read yet
	offered  *offer // what the server says now
	agreed   *offer // what was approved
	failures int    // ends since a call succeeded
}

// maxFailures is how often a server may end in a row before it is not started again.
const maxFailures = 5

// connect starts a server or reaches it, and reads its tools. It asks Options.Trust first. The
// error is an *Error. The server runs until Close, not until ctx ends.
func connect(ctx context.Context, s *Server, opts *Options) (*conn, error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	c := &conn{server: s, o: opts.defaults(), life: life, end: end, busy: make(chan struct{}, 1), kick: make(chan struct{}, 1), gone: make(chan struct{})}
	go c.watch()
	if err := c.first(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *conn) first(ctx context.Context) error {
	if !serverName.MatchString(c.server.Name) {
		return &Error{Server: oneLine(c.server.Name, 64), Phase: phaseConfig, What: "a server's name is 1 to 64 letters, digits, _ and -"}
	}
	if c.server.Disabled {
		return &Error{Server: c.server.Name, Phase: phaseConfig, What: "is disabled", Fix: "enable it in " + c.server.Source.Path}
	}
	c.busy <- struct{}{}
	defer func() { <-c.busy }()
	return c.connect(ctx)
}

// connect creates a session and reads its tools. The caller has the token.
func (c *conn) connect(ctx context.Context) error {
	ctx, cancel := c.within(ctx, phaseInit)
	defer cancel()
	s, err := c.dial(ctx)
	if err != nil {
		return err
	}
	first := c.snapshot().offered == nil
	list, err := c.settled(ctx, s)
	if err == nil {
		err = c.adopt(list, first)
	}
	if err != nil {
		s.close()
		return err
	}
	c.change(func(now *state) { now.s = s })
	if missing := c.missing(s, "done", false); missing != "" {
		c.o.Warn(c.server.Name, missing)
	}
	return nil
}

// within bounds the work of a phase by its time limit and by the life of the connection.
func (c *conn) within(ctx context.Context, phase string) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.limit(phase), context.DeadlineExceeded)
	release := context.AfterFunc(c.life, cancel)
	return ctx, func() { release(); cancel() }
}

// dial checks trust, each time because files may have changed, and opens a session.
func (c *conn) dial(ctx context.Context) (*session, error) {
	digest, err := c.server.Digest(c.o)
	if err != nil {
		return nil, &Error{Server: c.server.Name, Phase: phaseTrust, What: "its files cannot be read: " + err.Error()}
	}
	if err := c.o.Trust(c.server, digest); err != nil {
		return nil, &Error{Server: c.server.Name, Phase: phaseTrust, What: err.Error(), Err: err}
	}
	full, secrets, err := c.server.expand(c.o.Project, c.o.Env)
	if err != nil {
		return nil, c.fail(nil, phaseConfig, err)
	}
	slices.SortFunc(secrets, func(a, b hidden) int { return cmp.Compare(len(b.value), len(a.value)) })
	c.change(func(now *state) { now.secrets = secrets })
	s, err := c.open(ctx, full, handshake)
	if failed, ok := errors.AsType[*Error](err); ok && failed.Phase == phaseInit && failed.answered && ctx.Err() == nil {
		if s, again := c.open(ctx, full, stateless); again == nil {
			return s, nil
		}
	}
	return s, err
}

// redact removes the values of variables from a text for users.
func (c *conn) redact(text string) string {
	return c.without(text, false)
}

// hide removes secrets from a text for models. Other values, such as folders and addresses, stay: models work with them.
func (c *conn) hide(text string) string {
	return c.without(text, true)
}

// without removes the values of the configuration from a text, or only the secrets.
func (c *conn) without(text string, secrets bool) string {
	for _, s := range c.snapshot().secrets {
		if len(s.value) >= 8 && (s.always || !secrets) { // shorter ones are words like true
			text = strings.ReplaceAll(text, s.value, "[hidden]")
		}
	}
	return text
}

func (c *conn) snapshot() state {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// change changes the state, and returns the new one.
func (c *conn) change(f func(*state)) state {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.state)
	return c.state
}

// changed is called by the SDK when the server reports changed tools.
func (c *conn) changed() {
	c.change(func(now *state) { now.stale = true })
	select {
	case c.kick <- struct{}{}:
	default: // it is known
	}
}

// watch reads lists that changed, at most four times a second, until the connection is closed.
func (c *conn) watch() {
	defer close(c.gone)
	for {
		select {
		case <-c.life.Done():
			return
		case <-c.kick:
		}
		if s := c.snapshot().s; s != nil && s.alive() {
			if _, err := c.live(c.life, false); err != nil && c.life.Err() == nil {
				c.o.Warn(c.server.Name, err.Error())
			}
		}
		t := time.NewTimer(250 * time.Millisecond)
		select {
		case <-c.life.Done():
		case <-t.C:
		}
		t.Stop()
	}
}

// live returns a session that works and whose tools are known, after a new start if need be and
// allowed.
func (c *conn) live(ctx context.Context, restart bool) (*session, error) {
	select {
	case c.busy <- struct{}{}:
	case <-ctx.Done():
		return nil, c.fail(nil, phaseCall, context.Cause(ctx))
	}
	defer func() { <-c.busy }()
	if c.life.Err() != nil {
		return nil, &Error{Server: c.server.Name, Phase: phaseClosed, What: "the connection was closed"}
	}
	now := c.snapshot()
	if now.s != nil && now.s.alive() {
		if !now.stale {
			return now.s, nil
		}
		return now.s, c.refresh(ctx, now.s)
	}
	if !restart {
		return nil, &Error{Server: c.server.Name, Phase: phaseCall, What: "it ended again"}
	}
	if now.s != nil {
		now.s.close()
	}
	n := c.change(func(now *state) { now.s, now.failures = nil, now.failures+1 }).failures
	if n > maxFailures {
		return nil, &Error{Server: c.server.Name, Phase: phaseStart, What: fmt.Sprintf("ended %d times in a row and is not started again", maxFailures),
			Fix: "run its command by hand to see why: " + c.server.CommandLine()}
	}
	if n > 1 {
		t := time.NewTimer(100 * time.Millisecond << n)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return nil, c.fail(nil, phaseCall, context.Cause(ctx))
		case <-c.life.Done():
			return nil, &Error{Server: c.server.Name, Phase: phaseClosed, What: "the connection was closed"}
		}
	}
	if err := c.connect(ctx); err != nil {
		return nil, err
	}
	return c.snapshot().s, nil
}

// refresh reads the tools again. The caller has the token.
func (c *conn) refresh(ctx context.Context, s *session) error {
	ctx, cancel := c.within(ctx, phaseTools)
	defer cancel()
	c.change(func(now *state) { now.stale = false }) // what changes from here on is told again
	list, err := c.list(ctx, s)
	if err == nil {
		err = c.adopt(list, false)
	}
	if err != nil {
		c.change(func(now *state) { now.stale = true })
	}
	return err
}

// call uses a tool. A server that ended before is started again, once. A call that was in progress
// when the server ended is repeated only if its effect allows that.
func (c *conn) call(ctx context.Context, name string, repeat bool, use *tool.Call) (string, error) {
	start := c.snapshot().s
	for try := 1; ; try++ {
		s, err := c.live(ctx, try == 1 || c.snapshot().s == start)
		if err != nil {
			return "", err
		}
		if err := c.usable(name); err != nil {
			return "", err
		}
		var sent attempt
		text, err := c.once(ctx, &sent, s, name, use)
		if err == nil || try > 1 || ctx.Err() != nil || !errors.Is(err, errLost) && !sent.unsent.Load() {
			return text, err
		}
		if !repeat && !sent.unsent.Load() {
			return text, err
		}
	}
}

// An attempt records what happened to the request of a call on the network.
type attempt struct {
	unsent atomic.Bool               // it never reached the server
	answer atomic.Pointer[wireError] // the server refused it
}

type attemptKey struct{}

// errNoSession is the error of a server that has forgotten the session and did nothing.
var errNoSession = errors.New("no such session")

// unsent notes that the request of a call was not sent or not accepted.
func unsent(ctx context.Context, err error) {
	a, ok := ctx.Value(attemptKey{}).(*attempt)
	if !ok {
		return
	}
	var op *net.OpError
	if errors.Is(err, errNoSession) || errors.As(err, &op) && op.Op == "dial" {
		a.unsent.Store(true)
	}
}

// errLost is the cause of the error of a call that was in progress when the connection ended.
var errLost = errors.New("the connection ended before an answer")

var errIdle = errors.New("no more progress")

// once creates one call in one session.
func (c *conn) once(ctx context.Context, sent *attempt, s *session, name string, use *tool.Call) (string, error) {
	limited, stop := context.WithCancelCause(context.WithValue(ctx, attemptKey{}, sent))
	defer stop(nil)
	defer context.AfterFunc(c.life, func() { stop(nil) })()
	f := c.fly(limited, name, use, stop)
	defer f.land()
	defer s.enter(f)()
	params := &sdk.CallToolParams{Name: name, Arguments: use.Args}
	if len(use.Args) == 0 {
		params.Arguments = json.RawMessage("{}")
	}
	token := rand.Text()
	params.SetProgressToken(token)
	if use.Trace != "" {
		params.Meta["traceparent"] = use.Trace // a key that the protocol reserves for this
	}
	defer s.follow(token, f.report)()
	res, err := s.cs.CallTool(limited, params)
	for err == nil && res.NeedsInput() && len(res.InputRequests) > 0 {
		answers, refused := c.respond(limited, f, res.InputRequests)
		if refused != nil {
			return "", refused
		}
		params.InputResponses, params.RequestState = answers, res.RequestState
		res, err = s.cs.CallTool(limited, params)
	}
	if err == nil {
		c.change(func(now *state) { now.failures = 0 })
		text, err := render(res)
		if err != nil {
			err = errors.New(c.hide(err.Error()))
			if missing := c.missing(s, err.Error(), false); missing != "" {
				err = fmt.Errorf("%w\n[%s]", err, missing)
			}
			return text, err
		}
		if missing := c.missing(s, "done", false); missing != "" {
			c.o.Warn(c.server.Name, missing)
		}
		return c.hide(text), nil
	}
	var rpc *jsonrpc.Error
	isRPC := errors.As(err, &rpc) && rpc.Message != rejected
	if limited.Err() == nil && !isRPC {
		waitFor(s.dead, 100*time.Millisecond)
	}
	out := c.fail(s, phaseCall, late(limited, err))
	out.Tool = name
	switch {
	case errors.Is(context.Cause(limited), errIdle):
		out.What, out.Fix = fmt.Sprintf("reported progress and then nothing for %v", c.o.IdleTimeout), "see what it waits for"
	case limited.Err() != nil || isRPC:
	case sent.answer.Load() != nil:
		out.What, out.Fix = sent.answer.Load().what, sent.answer.Load().fix
	case !s.alive() || errors.Is(err, sdk.ErrConnectionClosed):
		out.Err = errLost
		out.What = "the server went away during the call, so that nobody knows whether it was done: " + out.What
	}
	return "", out
}

// Instructions returns the server's instructions for its use.
func (c *conn) Instructions() string {
	if agreed := c.snapshot().agreed; agreed != nil {
		return agreed.Instructions
	}
	return ""
}

// Close ends the connection and every process that the server's command has started. Calls in
// progress fail. It returns when nothing is left.
func (c *conn) Close() {
	c.closed.Do(func() {
		c.end()
		<-c.gone
		c.busy <- struct{}{} // nobody connects any more
		if s := c.snapshot().s; s != nil {
			s.close()
		}
		<-c.busy
	})
}

// Tools returns the tools of the server that may be used, sorted by name; see Group.Tools.
//
// A tool that changed since it was approved is listed by name without its new description. It fails
// until it is approved again, so that its users learn why.
func (c *conn) Tools(ctx context.Context) ([]*tool.Tool, error) {
	if _, err := c.live(ctx, true); err != nil {
		return nil, err
	}
	var out []*tool.Tool
	now := c.snapshot()
	for _, d := range now.offered.list {
		if d.tool == nil || !now.agreed.knows(d.summary.Name) {
			continue
		}
		t := *d.tool
		if !now.agreed.has(d.summary) {
			t = tool.Tool{Name: d.tool.Name, Description: refused, Input: &jsonschema.Schema{Type: "object"}, Effect: tool.Once}
		}
		name, repeat := d.summary.Name, t.Effect == tool.Pure || t.Effect == tool.Idempotent
		t.Run = func(ctx context.Context, call *tool.Call) (string, error) {
			return c.call(ctx, name, repeat, call)
		}
		out = append(out, &t)
	}
	if t := c.reader(&now); t != nil {
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b *tool.Tool) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}
