package acpserve

import (
	"fmt"
	"net/url"
	"strings"
)

// A block is a part of a prompt.
type block struct {
	Type, Text, Name, URI string
	Resource              struct{ URI, Text string }
}

// textOf returns a prompt as text.
func textOf(prompt []block) (string, error) {
	var parts []string
	for _, b := range prompt {
		switch b.Type {
		case "text":
			parts = append(parts, b.Text)
		case "resource_link":
			parts = append(parts, pathOf(b.URI))
		case "resource":
			if len(b.Resource.Text) > mostFile {
				b.Resource.Text = "(too long; read the file)"
			}
			parts = append(parts, fmt.Sprintf("\n<file path=%q>\n%s\n</file>\n", pathOf(b.Resource.URI), b.Resource.Text))
		default:
			return "", refused(-32602, fmt.Sprintf("prompt: a block of type %q is not understood; send text, links and resources", b.Type))
		}
	}
	text := strings.TrimSpace(strings.Join(parts, ""))
	if text == "" {
		return "", refused(-32602, "prompt: it is empty")
	}
	return text, nil
}

// pathOf returns the path of a file, or the address of something else.
func pathOf(uri string) string {
	if u, err := url.Parse(uri); err == nil && u.Scheme == "file" {
		return u.Path
	}
	return uri
}
