package mcp

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/superstep-dev/superstep/tool"
)

// A Group is the connections to several servers.
type Group struct {
	conns []*conn
	errs  []error
}

// ConnectAll connects servers, all at once, without those that are disabled. A server that fails is
// left out, and Errors returns why; the others are unaffected.
func ConnectAll(ctx context.Context, servers []*Server, opts *Options) *Group {
	conns, errs := make([]*conn, len(servers)), make([]error, len(servers))
	var wg sync.WaitGroup
	names := map[string]bool{}
	for i, s := range servers {
		if s.Disabled {
			continue
		}
		if names[s.Name] {
			errs[i] = &Error{Server: s.Name, Phase: phaseConfig, What: "is there twice", Fix: "give one of the two another name"}
			continue
		}
		names[s.Name] = true
		wg.Go(func() { conns[i], errs[i] = connect(ctx, s, opts) })
	}
	wg.Wait()
	g := new(Group)
	for i := range servers {
		if conns[i] != nil {
			g.conns = append(g.conns, conns[i])
		}
		if errs[i] != nil {
			g.errs = append(g.errs, errs[i])
		}
	}
	return g
}

// Instructions yields the names of the servers that say how to use them and what they say, cleaned and bounded, in the order
// of the servers. It is approved with the tools, so that it does not change unseen.
func (g *Group) Instructions() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, c := range g.conns {
			if text := c.Instructions(); text != "" && !yield(c.server.Name, text) {
				return
			}
		}
	}
}

// Errors returns the errors of the servers that could not be connected, one *Error each.
func (g *Group) Errors() []error { return slices.Clone(g.errs) }

// Tools returns the tools of all servers that may be used, sorted by name; see Options.Pin. They
// are named mcp__server__tool. Their effect is that of the server's annotations, which are no more
// than its word: Idempotent if it says that they only read or that a second call changes nothing
// more, otherwise Once; Pure, which is used without asking, only if the configuration of the user
// says trust_annotations. A server with resources has one more tool, mcp__server__resources, which
// lists and reads them and is Idempotent. The error joins those of servers that failed since; the tools of the
// others are there all the same.
func (g *Group) Tools(ctx context.Context) ([]*tool.Tool, error) {
	lists, errs := make([][]*tool.Tool, len(g.conns)), make([]error, len(g.conns))
	var wg sync.WaitGroup
	for i, c := range g.conns {
		wg.Go(func() { lists[i], errs[i] = c.Tools(ctx) })
	}
	wg.Wait()
	out := slices.Concat(lists...)
	slices.SortStableFunc(out, func(a, b *tool.Tool) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(out, func(a, b *tool.Tool) bool { return a.Name == b.Name }), errors.Join(errs...)
}

// Close closes all connections in parallel, and returns when no process of the servers is left.
func (g *Group) Close() {
	var wg sync.WaitGroup
	for _, c := range g.conns {
		wg.Go(c.Close)
	}
	wg.Wait()
}
