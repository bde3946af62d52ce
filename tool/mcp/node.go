package mcp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/internal/frontmatter"
)

// The limits of configurations.
const (
	maxConfig = 1 << 20
	maxFaults = 20
)

// A node is a value of a configuration with its position.
type (
	node  = frontmatter.Value
	field = frontmatter.Field
)

// called returns the name of a kind of value for messages: the one in JSON.
func called(n *node) string {
	names := map[frontmatter.Kind]string{frontmatter.Map: "object", frontmatter.List: "array", frontmatter.Text: "string", frontmatter.Bool: "boolean"}
	return cmp.Or(names[n.Kind], string(n.Kind))
}

// A ConfigError is a mistake in a configuration, and where it is.
type ConfigError struct {
	File      string
	Line, Col int // 0 if it is the file as a whole
	Text      string
}

func (e *ConfigError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.File, e.Text)
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Col, e.Text)
}

// parseYAML reads the subset of YAML that corresponds to JSON: no aliases, tags, merging or
// duplicate keys.
func parseYAML(data []byte) (*node, *ConfigError) {
	v, refused, err := frontmatter.Tree(data, nil)
	if err == nil && len(refused) > 0 {
		err = refused[0]
	}
	if wrong, ok := errors.AsType[*frontmatter.Error](err); ok {
		return nil, &ConfigError{Line: wrong.Line, Col: wrong.Col, Text: oneLine(wrong.Text, 200)}
	}
	return v, nil
}

// parseJSON reads JSON, with comments and commas before ends if relaxed. Keys are compared exactly,
// and duplicate keys are refused.
func parseJSON(data []byte, relaxed bool) (*node, *ConfigError) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	text := data
	if relaxed {
		text = withoutComments(data)
	}
	var v any
	wrong, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(text, &v))
	if !ok || !utf8.Valid(data) {
		return parseYAML(plainEscapes(text))
	}
	fault := func(at int, text string) (*node, *ConfigError) {
		line, col := position(data, at)
		return nil, &ConfigError{Line: line, Col: col, Text: text}
	}
	switch at := int(wrong.Offset) - 1; {
	case strings.HasPrefix(wrong.Error(), "unexpected end"):
		return fault(len(data), "the file ends where a value is expected")
	case text[at] == '/':
		return fault(at, "comments are not allowed in this file, or this one has no end")
	case strings.Contains(wrong.Error(), "after top-level value"):
		return fault(at, "more after the end of the value; a file holds one")
	default:
		return fault(at, "not JSON: "+oneLine(wrong.Error(), 200))
	}
}

// position returns the line and column of a byte.
func position(data []byte, at int) (line, col int) {
	start := bytes.LastIndexByte(data[:at], '\n') + 1
	return 1 + bytes.Count(data[:at], []byte("\n")), 1 + utf8.RuneCount(data[start:at])
}

// Matches an escape of JSON. The first alternatives match surrogate pairs and halves of pairs,
// which YAML does not have.
var escape = regexp.MustCompile(`\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[dD][89a-fA-F][0-9a-fA-F]{2}|.)`)

// plainEscapes replaces surrogate pairs by their characters.
func plainEscapes(text []byte) []byte {
	return escape.ReplaceAllFunc(text, func(e []byte) []byte {
		var s string
		if len(e) == 2 || json.Unmarshal(slices.Concat([]byte{'"'}, e, []byte{'"'}), &s) != nil {
			return e
		}
		return []byte(s)
	})
}

// withoutComments blanks comments and trailing commas. All other bytes keep their offsets.
func withoutComments(data []byte) []byte {
	out := bytes.Clone(data)
	comma := -1
	for i := 0; i < len(out); i++ {
		end := 0
		switch c := out[i]; {
		case c == '"':
			for i++; i < len(out) && out[i] != '"'; i++ {
				if out[i] == '\\' {
					i++
				}
			}
			comma = -1
		case bytes.HasPrefix(out[i:], []byte("//")):
			if end = bytes.IndexByte(out[i:], '\n'); end < 0 {
				end = len(out) - i
			}
		case bytes.HasPrefix(out[i:], []byte("/*")):
			end = bytes.Index(out[i:], []byte("*/")) + 2
		case c == ',':
			comma = i
		case (c == ']' || c == '}') && comma >= 0:
			out[comma], comma = ' ', -1
		case strings.IndexByte(" \t\r\n", c) < 0:
			comma = -1
		}
		if end > 1 {
			copy(out[i:], bytes.Repeat([]byte(" "), end))
			i += end - 1
		}
	}
	return out
}
