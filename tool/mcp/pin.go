package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/tool"
)

// An offer is what a server says of itself at one time.
type offer struct {
	tools        []offered // in the order of the list
	sums         []Summary
	instructions string
	digest       string
	byName       map[string]string // digests of tools by their name
	notes        []string
}

func (o *offer) has(s Summary) bool { return o != nil && o.byName[s.Name] == s.Digest }

// diff is what changed from o to now.
func (o *offer) diff(now *offer) string {
	text := Diff(o.sums, now.sums)
	if o.instructions != now.instructions {
		from, to := difference(o.instructions, now.instructions)
		text += fmt.Sprintf("~ its instructions\n    - %s\n    + %s\n", from, to)
	}
	return text
}

type offered struct {
	summary Summary
	tool    *tool.Tool // nil if it cannot be used
}

// settled is the first list of a session. Some servers make up their minds when they have heard of
// the client, and say so: that is no change.
func (c *Conn) settled(ctx context.Context, s *session) (*offer, error) {
	for try := 1; ; try++ {
		c.mu.Lock()
		c.stale = false
		c.mu.Unlock()
		list, err := c.list(ctx, s)
		if err != nil || try == 3 || !c.snapshot().stale {
			return list, err
		}
	}
}

// list reads all pages of the list of tools.
func (c *Conn) list(ctx context.Context, s *session) (*offer, error) {
	out := &offer{byName: map[string]string{}}
	out.instructions, _ = bound(clean.Text(s.cs.InitializeResult().Instructions), maxInstructions)
	if caps := s.cs.InitializeResult().Capabilities; caps == nil || caps.Tools == nil {
		return out, c.read(nil, out)
	}
	var raw []*sdk.Tool
	seen := map[string]bool{}
	cursor := ""
	for page := 0; ; page++ {
		res, err := s.cs.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
		if err != nil {
			return nil, c.fail(s, PhaseTools, late(ctx, err))
		}
		raw = append(raw, res.Tools...)
		cursor = res.NextCursor
		switch {
		case len(raw) > maxTools:
			return nil, c.fail(s, PhaseTools, &wireError{what: fmt.Sprintf("offers more than %d tools", maxTools), fix: "have it offer fewer"})
		case cursor == "":
			return out, c.read(raw, out)
		case page >= maxPages || seen[cursor]:
			return nil, c.fail(s, PhaseTools, &wireError{what: "has a list of tools without an end"})
		}
		seen[cursor] = true
	}
}

// read turns a list into tools, and notes what is left out and why.
func (c *Conn) read(raw []*sdk.Tool, out *offer) error {
	var names []string
	tools := map[string]*sdk.Tool{}
	for _, t := range raw {
		shown := quoted(oneLine(t.Name, 80))
		switch {
		case t.Name == "" || len(t.Name) > 1024:
			out.notes = append(out.notes, "a tool was left out: it has no name, or one of more than 1,024 bytes")
		case tools[t.Name] != nil:
			out.notes = append(out.notes, fmt.Sprintf("a second tool %s was left out", shown))
		default:
			tools[t.Name] = t
			names = append(names, t.Name)
		}
	}
	called := toolNames(c.server.Name, names)
	used := map[string]bool{}
	for _, name := range names {
		shown := quoted(oneLine(name, 80))
		sum, err := summarize(tools[name])
		if err != nil {
			return c.fail(nil, PhaseTools, err)
		}
		t, notes, err := define(called[name], tools[name], c.server.TrustAnnotations)
		if err == nil && used[called[name]] {
			t, err = nil, fmt.Errorf("has the name of another")
		}
		if err != nil {
			notes = append(notes, "left out: "+err.Error())
		}
		used[called[name]] = true
		for _, n := range notes {
			out.notes = append(out.notes, fmt.Sprintf("tool %s: %s", shown, n))
		}
		out.tools = append(out.tools, offered{sum, t})
		out.sums = append(out.sums, sum)
		out.byName[sum.Name] = sum.Digest
	}
	out.digest = ListDigest(out.sums)
	if out.instructions != "" {
		sum := sha256.Sum256([]byte(out.digest + "\n" + out.instructions))
		out.digest = "sha256:" + hex.EncodeToString(sum[:])
	}
	return nil
}

// adopt takes what a server offers now, and asks for agreement to what is new. A refused first list
// is an error; of a later one, what was agreed to before stays usable as long as it is the same. The
// caller has the token.
func (c *Conn) adopt(now *offer, first bool) error {
	c.mu.Lock()
	before, old := c.agreed, c.offered
	c.mu.Unlock()
	var refusal error
	switch {
	case !first && before.digest == now.digest:
	case c.o.Pin != nil:
		refusal = c.o.Pin(c.server.Name, now.digest, slices.Clone(now.sums))
	case !first:
		refusal = fmt.Errorf("the tools of %s changed", c.server.Name)
	}
	if refusal != nil && first {
		return &Error{Server: c.server.Name, Phase: PhaseTools, What: "its tools are not trusted: " + refusal.Error(), Fix: "review: superstep trust", Err: refusal}
	}
	c.mu.Lock()
	c.offered = now
	if refusal == nil {
		c.agreed = now
	}
	c.mu.Unlock()
	if old != nil && old.digest == now.digest {
		return nil // it was said
	}
	for _, n := range now.notes {
		c.o.Warn(c.server.Name, n)
	}
	if !first && before.digest != now.digest {
		text := "its tools changed:\n" + before.diff(now)
		if refusal != nil {
			text += "What changed cannot be used until it is trusted; review: superstep trust"
		}
		c.o.Warn(c.server.Name, text)
	}
	return nil
}

// usable says why a tool cannot be called, asking again if it was refused.
func (c *Conn) usable(name string) error {
	offers, agrees := c.standing(name)
	if offers && !agrees && c.o.Pin != nil {
		c.busy <- struct{}{} // held by others for a bounded time
		if now := c.snapshot().offered; c.o.Pin(c.server.Name, now.digest, slices.Clone(now.sums)) == nil {
			c.mu.Lock()
			c.agreed = now
			c.mu.Unlock()
		}
		<-c.busy
		offers, agrees = c.standing(name)
	}
	switch {
	case !offers:
		return &Error{Server: c.server.Name, Phase: PhaseCall, Tool: name, What: "the server no longer offers it"}
	case !agrees:
		return &Error{Server: c.server.Name, Phase: PhaseCall, Tool: name, What: fmt.Sprintf("the tools of %s changed since you trusted them", c.server.Name), Fix: "review: superstep trust"}
	}
	return nil
}

func (c *Conn) standing(name string) (offers, agrees bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.offered.tools {
		if d.summary.Name == name {
			return d.tool != nil, c.agreed.has(d.summary)
		}
	}
	return false, false
}

// Changes is the difference between what was agreed to and what the server offers now, as Diff gives
// it; "" if there is none.
func (c *Conn) Changes() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.offered == nil {
		return ""
	}
	return c.agreed.diff(c.offered)
}

// Summaries are what the server says of its tools now, agreed to or not, in its order.
func (c *Conn) Summaries() []Summary {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.offered == nil {
		return nil
	}
	return slices.Clone(c.offered.sums)
}

// Warnings are what was left out or cleaned of the tools the server offers now.
func (c *Conn) Warnings() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.offered == nil {
		return nil
	}
	return slices.Clone(c.offered.notes)
}
