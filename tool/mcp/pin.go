package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/tool"
)

// An offer is a server's description of itself and its tools at one time, or the approved part of
// it.
type offer struct {
	Offer
	list   []offered         // in the order of the list
	byName map[string]string // digests of tools by their name
	notes  []string
}

func (o *offer) has(s Summary) bool { return o != nil && o.byName[s.Name] == s.Digest }

// knows reports whether a tool of that name was approved in any form.
func (o *offer) knows(name string) bool {
	if o == nil {
		return false
	}
	_, ok := o.byName[name]
	return ok
}

// refused is the description of a tool that changed since it was approved.
const refused = "Cannot be used: the server changed it, and nobody has approved that yet."

// agreement returns the recorded approval of a server's offer.
func agreement(o *Offer) *offer {
	out := &offer{Offer: *o, byName: map[string]string{}}
	for _, t := range o.Tools {
		out.byName[t.Name] = t.Digest
	}
	return out
}

type offered struct {
	summary Summary
	tool    *tool.Tool // nil if it cannot be used
}

// settled returns the first tool list of a session. Some servers announce a new list right after
// they learn about the client; that does not count as a change.
func (c *conn) settled(ctx context.Context, s *session) (*offer, error) {
	for try := 1; ; try++ {
		c.change(func(now *state) { now.stale = false })
		list, err := c.list(ctx, s)
		if err != nil || try == 3 || !c.snapshot().stale {
			return list, err
		}
	}
}

// list reads all pages of the list of tools.
func (c *conn) list(ctx context.Context, s *session) (*offer, error) {
	out := &offer{byName: map[string]string{}}
	text := clean.Text(s.cs.InitializeResult().Instructions)
	out.Instructions = strings.ToValidUTF8(text[:min(len(text), maxInstructions)], "")
	if caps := s.cs.InitializeResult().Capabilities; caps == nil || caps.Tools == nil {
		return out, c.read(nil, out)
	}
	raw, whole, err := pages(maxTools, func(cursor string) ([]*sdk.Tool, string, error) {
		res, err := s.cs.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
		if err != nil {
			return nil, "", err
		}
		return res.Tools, res.NextCursor, nil
	})
	if err == nil && !whole {
		err = &wireError{what: fmt.Sprintf("offers more than %d tools", maxTools), fix: "have it offer fewer"}
	}
	if err != nil {
		return nil, c.fail(s, phaseTools, late(ctx, err))
	}
	return out, c.read(raw, out)
}

// pages reads all pages of a list, as long as it has at most so many entries, and maxList bytes.
func pages[T any](most int, get func(cursor string) (page []T, next string, err error)) (all []T, whole bool, err error) {
	seen := map[string]bool{}
	cursor, size := "", 0
	for n := 0; ; n++ {
		page, next, err := get(cursor)
		if err != nil {
			return nil, false, err
		}
		b, err := json.Marshal(page)
		if err != nil {
			return nil, false, err
		}
		if size += len(b) + len(next); size > maxList {
			return nil, false, &wireError{what: fmt.Sprintf("has a list of more than %d MiB", maxList>>20), fix: "have it offer less"}
		}
		all, cursor = append(all, page...), next
		switch {
		case len(all) > most:
			return all[:most], false, nil
		case cursor == "":
			return all, true, nil
		case n >= maxPages || seen[cursor]:
			return nil, false, &wireError{what: "has a list without an end"}
		}
		seen[cursor] = true
	}
}

// read converts a list into tools, and notes which are left out and why.
func (c *conn) read(raw []*sdk.Tool, out *offer) error {
	var names []string
	tools := map[string]*sdk.Tool{}
	for _, t := range raw {
		shown := clean.Quote(oneLine(t.Name, 80))
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
		shown := clean.Quote(oneLine(name, 80))
		sum, err := summarize(tools[name])
		if err != nil {
			return c.fail(nil, phaseTools, err)
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
		out.list = append(out.list, offered{sum, t})
		out.Tools = append(out.Tools, sum)
		out.byName[sum.Name] = sum.Digest
	}
	out.Digest = listDigest(out.Tools)
	if out.Instructions != "" {
		out.Digest = digest([]byte(out.Digest + "\n" + out.Instructions))
	}
	return nil
}

// review returns advice on tools that changed.
func (c *conn) review() string { return "review: superstep trust " + c.server.Name }

// pin asks for approval of the current offer of a server, and returns the approved offer: the
// current one, the recorded one, or the one before, which may be nil.
func (c *conn) pin(now, before *offer) (*offer, error) {
	agreed, err := c.o.Pin(c.server.Name, &now.Offer)
	switch {
	case err == nil:
		return now, nil
	case agreed != nil:
		return agreement(agreed), err
	}
	return before, err
}

// adopt accepts the current offer of a server after asking for approval of what is new. Tools
// approved before stay usable as long as they are unchanged. If the first list is refused and no
// approval is recorded, that is an error. The caller has the token.
func (c *conn) adopt(now *offer, first bool) error {
	was := c.snapshot()
	before, old := was.agreed, was.offered
	var refusal error
	agreed := now
	switch {
	case !first && before.Digest == now.Digest:
	case c.o.Pin != nil:
		agreed, refusal = c.pin(now, before)
	case !first:
		agreed, refusal = before, fmt.Errorf("the tools of %s changed", c.server.Name)
	}
	if agreed == nil {
		return &Error{Server: c.server.Name, Phase: phaseTools, What: "its tools are not trusted: " + refusal.Error(), Fix: c.review(), Err: refusal}
	}
	c.change(func(s *state) { s.offered, s.agreed = now, agreed })
	if old != nil && old.Digest == now.Digest {
		return nil // it was said
	}
	for _, n := range now.notes {
		c.o.Warn(c.server.Name, n)
	}
	if first {
		before = agreed
	}
	if before.Digest != now.Digest {
		text := "its tools changed:\n" + before.Diff(&now.Offer)
		if refusal != nil {
			text += "What changed cannot be used until it is trusted; " + c.review()
		}
		c.o.Warn(c.server.Name, text)
	}
	return nil
}

// whole returns an error unless all that the server says of its tools is approved: a server that changed is not heard in other ways either.
func (c *conn) whole() error {
	if now := c.snapshot(); now.agreed == nil || now.offered == nil || now.agreed.Digest != now.offered.Digest {
		return &Error{Server: c.server.Name, Phase: phaseCall, What: fmt.Sprintf("the tools of %s changed since you trusted them", c.server.Name), Fix: c.review()}
	}
	return nil
}

// trusted returns a session as live does, for what is used beside the tools: it fails while a change of these is not approved.
func (c *conn) trusted(ctx context.Context) (*session, error) {
	s, err := c.live(ctx, true)
	if err == nil {
		err = c.whole()
	}
	return s, err
}

// usable returns an error if a tool cannot be called. If the tool was refused before, it asks again.
func (c *conn) usable(name string) error {
	offers, agrees := c.standing(name)
	if offers && !agrees && c.o.Pin != nil {
		c.busy <- struct{}{} // held by others for a bounded time
		now := c.snapshot()
		agreed, _ := c.pin(now.offered, now.agreed) // a refusal is told below
		c.change(func(now *state) { now.agreed = agreed })
		<-c.busy
		offers, agrees = c.standing(name)
	}
	switch {
	case !offers:
		return &Error{Server: c.server.Name, Phase: phaseCall, Tool: name, What: "the server no longer offers it"}
	case !agrees:
		return &Error{Server: c.server.Name, Phase: phaseCall, Tool: name, What: fmt.Sprintf("the tools of %s changed since you trusted them", c.server.Name),
			Fix: c.review()}
	}
	return nil
}

func (c *conn) standing(name string) (offers, agrees bool) {
	now := c.snapshot()
	for _, d := range now.offered.list {
		if d.summary.Name == name {
			return d.tool != nil, now.agreed.has(d.summary)
		}
	}
	return false, false
}
