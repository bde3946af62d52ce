package mcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/superstep-dev/superstep/internal/clean"
)

// The limits of prompts.
const (
	maxPrompts = 200     // of one server
	maxPrompt  = 1 << 20 // bytes of a text
)

// A Prompt is a text that a server offers to people who type.
type Prompt struct {
	Name        string // mcp__server__prompt, as tools are named
	Description string // on one line
	Arguments   []PromptArgument
	from        *conn
	own         string // the server's name for it
}

// A PromptArgument is a part of a Prompt that its user fills in.
type PromptArgument struct {
	Name, Description string
	Required          bool
}

// Prompts returns the prompts of all servers, in the order of the servers. The error joins those of servers that fail; the
// prompts of the others are there all the same.
func (g *Group) Prompts(ctx context.Context) (all []Prompt, err error) {
	for _, c := range g.conns {
		list, failed := c.prompts(ctx)
		all, err = append(all, list...), errors.Join(err, failed)
	}
	return all, err
}

func (c *conn) prompts(ctx context.Context) ([]Prompt, error) {
	s, err := c.trusted(ctx)
	if err != nil {
		return nil, err
	}
	if caps := s.cs.InitializeResult().Capabilities; caps == nil || caps.Prompts == nil {
		return nil, nil
	}
	ctx, cancel := c.within(ctx, phaseCall)
	defer cancel()
	list, _, err := pages(maxPrompts, func(cursor string) ([]*sdk.Prompt, string, error) {
		res, err := s.cs.ListPrompts(ctx, &sdk.ListPromptsParams{Cursor: cursor})
		if err != nil {
			return nil, "", err
		}
		return res.Prompts, res.NextCursor, nil
	})
	if err != nil {
		return nil, c.fail(s, phaseCall, late(ctx, err))
	}
	var names []string
	for _, p := range list {
		names = append(names, p.Name)
	}
	called := toolNames(c.server.Name, names)
	var out []Prompt
	for _, p := range list {
		if slices.ContainsFunc(out, func(o Prompt) bool { return o.Name == called[p.Name] }) || len(p.Arguments) > maxFields {
			continue
		}
		one := Prompt{Name: called[p.Name], Description: oneLine(p.Title+" "+p.Description, 200), from: c, own: p.Name}
		for _, a := range p.Arguments {
			one.Arguments = append(one.Arguments, PromptArgument{oneLine(a.Name, 64), oneLine(a.Description, 200), a.Required})
		}
		out = append(out, one)
	}
	return out, nil
}

// Text returns the text of the prompt with arguments in the order of Arguments, or as name=value. It is the server's, and
// cleaned and bounded.
func (p *Prompt) Text(ctx context.Context, args ...string) (string, error) {
	given := map[string]string{}
	for i, arg := range args {
		name, value, named := strings.Cut(arg, "=")
		if named = named && slices.ContainsFunc(p.Arguments, func(a PromptArgument) bool { return a.Name == name }); !named {
			if i >= len(p.Arguments) {
				return "", fmt.Errorf("%s takes %d arguments: %s", p.Name, len(p.Arguments), p.Usage())
			}
			name, value = p.Arguments[i].Name, arg
		}
		given[name] = value
	}
	for _, a := range p.Arguments {
		if _, ok := given[a.Name]; a.Required && !ok {
			return "", fmt.Errorf("%s needs %s: %s", p.Name, a.Name, p.Usage())
		}
	}
	c := p.from
	s, err := c.trusted(ctx)
	if err != nil {
		return "", err
	}
	ctx, cancel := c.within(ctx, phaseCall)
	defer cancel()
	res, err := s.cs.GetPrompt(ctx, &sdk.GetPromptParams{Name: p.own, Arguments: given})
	if err == nil && res.NeedsInput() {
		err = &wireError{what: "asks for more input, which it may within a call of a tool only"}
	}
	if err != nil {
		return "", c.fail(s, phaseCall, late(ctx, err))
	}
	var parts []string
	for _, m := range res.Messages {
		text, err := render(&sdk.CallToolResult{Content: []sdk.Content{m.Content}})
		if err != nil {
			return "", errors.New(c.hide(err.Error()))
		}
		if m.Role == "assistant" {
			text = "(assistant) " + text
		}
		parts = append(parts, text)
	}
	text := c.hide(clean.Text(strings.Join(parts, "\n\n")))
	switch {
	case strings.TrimSpace(text) == "":
		return "", fmt.Errorf("the prompt %s is empty", p.Name)
	case len(text) > maxPrompt:
		return "", fmt.Errorf("the prompt %s has more than %d MiB", p.Name, maxPrompt>>20)
	}
	return text, nil
}

// Usage returns how the prompt is written, such as "mcp__docs__review FILE [STYLE]".
func (p *Prompt) Usage() string {
	out := p.Name
	for _, a := range p.Arguments {
		if name := strings.ToUpper(a.Name); a.Required {
			out += " " + name
		} else {
			out += " [" + name + "]"
		}
	}
	return out
}
