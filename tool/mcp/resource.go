package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/superstep-dev/superstep/tool"
)

// maxResources is how many resources of a server are listed.
const maxResources = 500

// resources is the name of the tool that reads the resources of a server, beside those of the server.
const resources = "resources"

// reader returns the tool that lists and reads the resources of the server, nil if it has none. The tool is ours and needs no
// approval beside that of the server's tools: what a server says of its resources is the result of a call. While a change of
// these tools is not approved, there are no resources.
func (c *conn) reader(now *state) *tool.Tool {
	if now.s == nil || c.whole() != nil {
		return nil
	}
	if caps := now.s.cs.InitializeResult().Capabilities; caps == nil || caps.Resources == nil {
		return nil
	}
	for _, d := range now.offered.list {
		if d.summary.Name == resources {
			return nil // it has such a tool itself
		}
	}
	return &tool.Tool{
		Name: toolName(c.server.Name, resources, false), Effect: tool.Idempotent,
		Description: "List the resources of the MCP server " + c.server.Name + ", or read the one with a uri. The uri of a template has its {parts} filled in.",
		Input: &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{
			"uri": {Type: "string", Description: "of the resource to read; leave it out for the list"},
		}, AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}}},
		Run: func(ctx context.Context, call *tool.Call) (string, error) {
			var in struct{ URI string }
			if err := json.Unmarshal(call.Args, &in); err != nil {
				return "", err
			}
			s, err := c.trusted(ctx)
			if err != nil {
				return "", err
			}
			ctx, cancel := c.within(ctx, phaseCall)
			defer cancel()
			var text string
			if in.URI == "" {
				text, err = listResources(ctx, s.cs)
			} else {
				text, err = readResource(ctx, s.cs, in.URI)
			}
			if err != nil {
				out := c.fail(s, phaseCall, late(ctx, err))
				out.Tool = resources
				return "", out
			}
			return c.hide(text), nil
		},
	}
}

func readResource(ctx context.Context, cs *sdk.ClientSession, uri string) (string, error) {
	res, err := cs.ReadResource(ctx, &sdk.ReadResourceParams{URI: uri})
	switch {
	case err != nil:
		return "", err
	case res.NeedsInput():
		return "", &wireError{what: "asks for more input, which it may within a call of a tool only"}
	}
	var parts []string
	for _, r := range res.Contents {
		text, _ := resource(r)
		parts = append(parts, text)
	}
	return strings.Join(parts, "\n"), nil
}

// listResources lists resources and templates, a line each.
func listResources(ctx context.Context, cs *sdk.ClientSession) (string, error) {
	var lines []string
	list, whole, err := pages(maxResources, func(cursor string) ([]*sdk.Resource, string, error) {
		res, err := cs.ListResources(ctx, &sdk.ListResourcesParams{Cursor: cursor})
		if err != nil {
			return nil, "", err
		}
		return res.Resources, res.NextCursor, nil
	})
	if err != nil {
		return "", err
	}
	for _, r := range list {
		l := &sdk.ResourceLink{URI: r.URI, Name: r.Name, Title: r.Title, MIMEType: r.MIMEType, Description: r.Description}
		if r.Size > 0 {
			l.Size = &r.Size
		}
		lines = append(lines, link(l))
	}
	templates, all, err := pages(maxResources, func(cursor string) ([]*sdk.ResourceTemplate, string, error) {
		res, err := cs.ListResourceTemplates(ctx, &sdk.ListResourceTemplatesParams{Cursor: cursor})
		if err != nil {
			return nil, "", err
		}
		return res.ResourceTemplates, res.NextCursor, nil
	})
	if err != nil && !answered(err) { // many servers have none, and say no
		return "", err
	}
	for _, r := range templates {
		lines = append(lines, "template: "+link(&sdk.ResourceLink{URI: r.URITemplate, Name: r.Name, Title: r.Title, MIMEType: r.MIMEType, Description: r.Description}))
	}
	if !whole || err == nil && !all {
		lines = append(lines, fmt.Sprintf("[more than %d; the others are not listed]", maxResources))
	}
	if len(lines) == 0 {
		return "the server has no resources", nil
	}
	return strings.Join(lines, "\n"), nil
}

// answered reports whether an error is the answer of a server that works.
func answered(err error) bool {
	rpc, ok := errors.AsType[*jsonrpc.Error](err)
	return ok && rpc.Message != rejected
}
