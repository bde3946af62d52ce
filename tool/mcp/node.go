package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/internal/frontmatter"
)

// The limits of configurations.
const (
	maxConfig      = 1 << 20
	maxConfigDepth = frontmatter.MaxDepth
	maxFaults      = 20
)

// A node is a value of a configuration and where it stands.
type (
	node  = frontmatter.Value
	field = frontmatter.Field
)

// called is what messages call a kind of value: its name in JSON.
func called(n *node) string {
	switch n.Kind {
	case frontmatter.Map:
		return "object"
	case frontmatter.List:
		return "array"
	case frontmatter.Text:
		return "string"
	case frontmatter.Bool:
		return "boolean"
	}
	return string(n.Kind)
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

// parseJSON reads JSON, with comments and commas before ends if relaxed. Keys are compared as they
// are, and none may be given twice.
func parseJSON(data []byte, relaxed bool) (*node, *ConfigError) {
	if !utf8.Valid(data) {
		at := 0
		for r, n := utf8.DecodeRune(data); r != utf8.RuneError || n > 1; r, n = utf8.DecodeRune(data[at:]) {
			at += n
		}
		return nil, &ConfigError{Text: fmt.Sprintf("file must be UTF-8; bad byte at offset %d", at)}
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	text := data
	if relaxed {
		text = withoutComments(data)
	}
	p := newJSON(data, text, 0)
	n, err := p.value(0)
	if err == nil && p.next() < len(text) {
		err = p.fault("more after the end of the value; a file holds one")
	}
	return n, err
}

// withoutComments blanks comments and commas before ends. Every byte that is left keeps its place.
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

// A jsonParser reads the tokens of JSON, and tells where they are in the file.
type jsonParser struct {
	file, text []byte // of the same length; the text has no comments
	decoder    *json.Decoder
	from       int // where the decoder began
	at         int // the next token

	counted, line, col int // up to where lines and columns are known
}

func newJSON(file, text []byte, from int) *jsonParser {
	p := &jsonParser{file: file, text: text, decoder: json.NewDecoder(bytes.NewReader(text[from:])), from: from}
	p.decoder.UseNumber()
	return p
}

// next finds the next token.
func (p *jsonParser) next() int {
	p.at = p.from + int(p.decoder.InputOffset())
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n,:", p.text[p.at]) >= 0 {
		p.at++
	}
	return p.at
}

// pos is where the next token is. It never moves back, so that each byte is counted once.
func (p *jsonParser) pos() (line, col int) {
	passed := p.file[p.counted:p.at]
	if i := bytes.LastIndexByte(passed, '\n'); i >= 0 {
		p.line += bytes.Count(passed, []byte{'\n'})
		p.col = 0
		passed = passed[i+1:]
	}
	p.col += utf8.RuneCount(passed)
	p.counted = p.at
	return p.line + 1, p.col + 1
}

func (p *jsonParser) fault(format string, args ...any) *ConfigError {
	line, col := p.pos()
	return &ConfigError{Line: line, Col: col, Text: fmt.Sprintf(format, args...)}
}

func (p *jsonParser) token() (json.Token, *ConfigError) {
	p.next()
	t, err := p.decoder.Token()
	switch {
	case err == nil:
		return t, nil
	case p.at >= len(p.text):
		return nil, p.fault("the file ends where a value is expected")
	case p.text[p.at] == '/':
		return nil, p.fault("comments are not allowed in this file, or this one has no end")
	}
	return nil, p.fault("not JSON: %s", oneLine(err.Error(), 200))
}

func (p *jsonParser) value(depth int) (*node, *ConfigError) {
	p.next()
	n := new(node)
	n.Line, n.Col = p.pos()
	if depth > maxConfigDepth {
		return nil, p.fault("nested more than %d deep", maxConfigDepth)
	}
	t, err := p.token()
	switch t := t.(type) {
	case json.Delim:
		if n.Kind = frontmatter.Map; t == '[' {
			n.Kind = frontmatter.List
		}
		return n, p.inside(n, depth)
	case string:
		n.Kind, n.Text = frontmatter.Text, t
	case bool:
		n.Kind, n.Text = frontmatter.Bool, strconv.FormatBool(t)
	case json.Number:
		n.Kind, n.Text = frontmatter.Number, t.String()
	default:
		n.Kind = frontmatter.Null
	}
	return n, err
}

// inside reads a map or a list to its end.
func (p *jsonParser) inside(n *node, depth int) (err *ConfigError) {
	seen := map[string]int{}
	for err == nil && p.decoder.More() {
		var f field
		if n.Kind == frontmatter.Map {
			t, bad := p.token()
			if bad != nil {
				return bad
			}
			f.Key, _ = t.(string) // the decoder takes no other
			f.Line, f.Col = p.pos()
			if line, twice := seen[f.Key]; twice {
				return p.fault("%s repeated, first at line %d", quoted(f.Key), line)
			}
			seen[f.Key] = f.Line
		}
		if f.Value, err = p.value(depth + 1); n.Kind == frontmatter.Map {
			n.Fields = append(n.Fields, f)
		} else {
			n.Items = append(n.Items, f.Value)
		}
	}
	if err == nil {
		_, err = p.token()
	}
	return err
}

// quoted is text of a configuration as a message shows it.
func quoted(s string) string {
	if short, cut := bound(s, 60); cut {
		return strconv.Quote(short) + "…"
	}
	return strconv.Quote(s)
}
