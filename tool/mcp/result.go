package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// render returns the result of a call as text: texts unchanged, other content described.
func render(r *sdk.CallToolResult) (string, error) {
	if r.NeedsInput() {
		return "", errors.New("asks for more input and does not say which; give it all it needs as arguments, or call it again later")
	}
	var parts []string
	said := false
	for _, c := range r.Content {
		switch c := c.(type) {
		case *sdk.TextContent:
			parts = append(parts, c.Text)
			said = said || c.Text != ""
		case *sdk.ImageContent:
			parts = append(parts, blob("image", c.MIMEType, len(c.Data)))
		case *sdk.AudioContent:
			parts = append(parts, blob("audio", c.MIMEType, len(c.Data)))
		case *sdk.EmbeddedResource:
			text, plain := resource(c.Resource)
			parts = append(parts, text)
			said = said || plain
		case *sdk.ResourceLink:
			parts = append(parts, link(c))
		default:
			parts = append(parts, "[content of a kind that is not shown]")
		}
	}
	if !said && r.StructuredContent != nil {
		b, err := json.Marshal(r.StructuredContent)
		if err != nil {
			return "", fmt.Errorf("encode what it gave: %w", err)
		}
		parts = append(parts, string(b))
	}
	text := strings.Join(parts, "\n")
	if r.IsError {
		if strings.TrimSpace(text) == "" {
			text = "the tool failed without saying why"
		}
		return "", errors.New(text)
	}
	return text, nil
}

func blob(what, mime string, n int) string {
	if mime = oneLine(mime, 80); mime == "" {
		mime = "of unknown type"
	}
	return fmt.Sprintf("[%s %s, %s; not shown]", what, mime, size(int64(n)))
}

func size(n int64) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}

// resource returns the text of a resource in a result, and whether it has one.
func resource(r *sdk.ResourceContents) (string, bool) {
	if r == nil {
		return "[resource without contents]", false
	}
	uri := oneLine(r.URI, 300)
	if r.Blob != nil {
		return blob("resource "+uri, r.MIMEType, len(r.Blob)), false
	}
	return fmt.Sprintf("[resource %s]\n%s", uri, r.Text), r.Text != ""
}

func link(l *sdk.ResourceLink) string {
	text := "[link to the resource " + oneLine(l.URI, 300)
	more := []string{l.Name, l.Title, l.MIMEType}
	if l.Size != nil {
		more = append(more, size(*l.Size))
	}
	for _, m := range more {
		if m = oneLine(m, 100); m != "" {
			text += ", " + m
		}
	}
	if d := oneLine(l.Description, 300); d != "" {
		text += ": " + d
	}
	return text + "]"
}
