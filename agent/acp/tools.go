package acp

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/superstep-dev/superstep/internal/external"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/mcp"
)

// serverName is what agents know the server of our tools by: to opencode they are superstep_read_file and so on.
const serverName = "superstep"

// An offer is a call of one of our tools that arrived by MCP. The run performs it between two steps.
type offer struct {
	call  external.Call
	told  bool // the loop knows it
	gone  bool // the agent does not wait for it any more
	reply chan external.Result
}

// serve offers our tools to the agent of a session, on a port of this machine, and returns the servers for the request that opens the session. An agent
// that takes none is offered none.
func (s *session) serve(ctx context.Context, tools *tool.Set) ([]any, error) {
	if len(tools.Names()) == 0 || !s.p.http {
		return []any{}, nil
	}
	s.p.shut() // it serves one place, and so none of its sessions is in use
	var list []*tool.Tool
	for _, t := range tools.Tools() {
		shown := *t
		shown.Output, shown.Preview, shown.Whole = nil, nil, true
		shown.Run = func(ctx context.Context, c *tool.Call) (string, error) { return s.call(ctx, t.Name, c) }
		list = append(list, &shown)
	}
	set, err := tool.NewSet(list...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var servers []any
	ready, ended := make(chan struct{}), make(chan struct{})
	var failed error
	go func() {
		defer close(ended)
		defer cancel()
		opt := &mcp.ServeOptions{Gate: func(context.Context, *tool.Tool, *tool.Call) error { return nil }} // the run decides
		failed = mcp.ListenAndServe(ctx, "127.0.0.1:0", set, opt, func(url, token string) error {
			servers = []any{map[string]any{"type": "http", "name": serverName, "url": url,
				"headers": []any{map[string]string{"name": "Authorization", "value": "Bearer " + token}}}}
			close(ready)
			return nil
		})
	}()
	select {
	case <-ready:
	case <-ended:
		return nil, fmt.Errorf("offering tools to %s: %w", s.p.cmd.Name, failed)
	}
	go func() {
		select {
		case <-s.p.exited:
			cancel()
		case <-ctx.Done():
		}
	}()
	s.tools, s.close = set, func() { cancel(); <-ended }
	return servers, nil
}

// shut ends the server of our tools.
func (s *session) shut() {
	s.mu.Lock()
	s.release()
	s.mu.Unlock()
	if s.close != nil {
		s.close()
	}
}

// call hands a call to the run and waits for its result. An agent that has stopped waiting and calls again waits for the same call.
func (s *session) call(ctx context.Context, name string, c *tool.Call) (string, error) {
	s.mu.Lock()
	s.heard[name]++
	if !s.busy || s.left {
		s.mu.Unlock()
		return "", errors.New("there is no task: tools may be called while a prompt is answered")
	}
	s.quiet = false
	i := slices.IndexFunc(s.offers, func(o *offer) bool { return o.gone && o.call.Name == name && string(o.call.Args) == string(c.Args) })
	if i < 0 {
		i = len(s.offers)
		s.offers = append(s.offers, &offer{call: external.Call{ID: c.ID, Name: name, Args: c.Args}, reply: make(chan external.Result, 1)})
	}
	o := s.offers[i]
	o.gone = false
	s.stir()
	s.mu.Unlock()
	select {
	case res := <-o.reply:
		s.mu.Lock()
		s.offers = slices.DeleteFunc(s.offers, func(other *offer) bool { return other == o })
		s.mu.Unlock()
		if res.Error {
			return "", errors.New(res.Text)
		}
		return res.Text, nil
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		o.gone = true
		return "", ctx.Err()
	}
}

// result hands the result of a call to the agent. The caller holds mu.
func (s *session) result(r *external.Result) {
	for _, o := range s.offers {
		if o.call.ID != r.Call {
			continue
		}
		if o.gone {
			s.add(event{kind: eventNote, text: fmt.Sprintf("%s did not wait for the result of %s; it gets it if it makes the same call again", s.p.cmd.Name, o.call.Name)})
		}
		select {
		case o.reply <- *r:
		default: // it has one
		}
	}
}

// release ends the calls that nobody will perform. The caller holds mu.
func (s *session) release() {
	for _, o := range s.offers {
		select {
		case o.reply <- external.Result{Text: "interrupted before its result was known", Error: true}:
		default: // it has its result
		}
	}
	s.offers = nil
}

// ours returns the tool of ours that the agent reports a call of, "" for none. Its title tells, which a model can choose for some tools: so it must be
// the whole name.
func (s *session) ours(c *call) string {
	if s.tools == nil {
		return ""
	}
	for _, name := range s.tools.Names() {
		if c.title == serverName+"_"+name || c.title == "mcp__"+serverName+"__"+name {
			return name
		}
	}
	return ""
}
