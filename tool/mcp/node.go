package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The limits of configurations.
const (
	maxConfig      = 1 << 20
	maxConfigDepth = 64
	maxFaults      = 20
)

// A node is a value of a configuration and where it stands.
type node struct {
	line, col int
	kind      string // "object", "array", "string", "number", "boolean", "null"
	text      string // of strings, numbers and booleans
	fields    []field
	items     []*node
}

type field struct {
	key       string
	line, col int
	value     *node
}

func (n *node) field(key string) *node {
	for _, f := range n.fields {
		if f.key == key {
			return f.value
		}
	}
	return nil
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
	p := &jsonParser{data: data, relaxed: relaxed}
	if !utf8.Valid(data) {
		for p.at < len(data) {
			r, n := utf8.DecodeRune(data[p.at:])
			if r == utf8.RuneError && n == 1 {
				break
			}
			p.at += n
		}
		return nil, p.fault("file must be UTF-8; bad byte at offset %d", p.at)
	}
	p.data = bytes.TrimPrefix(data, []byte("\ufeff"))
	n, err := p.value(0)
	if err != nil {
		return nil, err
	}
	if err := p.space(); err != nil {
		return nil, err
	}
	if p.at < len(p.data) {
		return nil, p.fault("more after the end of the value; a file holds one")
	}
	return n, nil
}

type jsonParser struct {
	data    []byte
	at      int
	relaxed bool

	counted, line, col int // up to where lines and columns are known
}

// pos is where the parser is. It never moves back, so that each byte is counted once.
func (p *jsonParser) pos() (line, col int) {
	passed := p.data[p.counted:p.at]
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

// space skips what means nothing.
func (p *jsonParser) space() *ConfigError {
	for p.at < len(p.data) {
		rest := p.data[p.at:]
		switch {
		case strings.IndexByte(" \t\r\n", rest[0]) >= 0:
			p.at++
		case rest[0] == '/' && !p.relaxed:
			return p.fault("comments are not allowed in this file")
		case bytes.HasPrefix(rest, []byte("//")):
			if i := bytes.IndexByte(rest, '\n'); i >= 0 {
				p.at += i
			} else {
				p.at = len(p.data)
			}
		case bytes.HasPrefix(rest, []byte("/*")):
			i := bytes.Index(rest, []byte("*/"))
			if i < 0 {
				return p.fault("comment without an end")
			}
			p.at += i + 2
		default:
			return nil
		}
	}
	return nil
}

func (p *jsonParser) value(depth int) (*node, *ConfigError) {
	if err := p.space(); err != nil {
		return nil, err
	}
	if depth > maxConfigDepth {
		return nil, p.fault("nested more than %d deep", maxConfigDepth)
	}
	if p.at == len(p.data) {
		return nil, p.fault("the file ends where a value is expected")
	}
	n := new(node)
	n.line, n.col = p.pos()
	switch c := p.data[p.at]; c {
	case '{':
		n.kind = "object"
		return n, p.object(n, depth)
	case '[':
		n.kind = "array"
		return n, p.array(n, depth)
	case '"':
		n.kind = "string"
		var err *ConfigError
		n.text, err = p.str()
		return n, err
	}
	end := p.at
	for end < len(p.data) && strings.IndexByte(" \t\r\n,]}:/\"[{", p.data[end]) < 0 {
		end++
	}
	n.text = string(p.data[p.at:end])
	switch {
	case n.text == "null":
		n.kind = "null"
	case n.text == "true" || n.text == "false":
		n.kind = "boolean"
	case n.text != "" && json.Valid([]byte(n.text)):
		n.kind = "number"
	default:
		return nil, p.fault("not JSON: %s", quoted(n.text))
	}
	p.at = end
	return n, nil
}

func (p *jsonParser) str() (string, *ConfigError) {
	end := p.at + 1
	for ; end < len(p.data) && p.data[end] != '"'; end++ {
		if p.data[end] == '\\' {
			end++
		}
	}
	var s string
	if end >= len(p.data) || json.Unmarshal(p.data[p.at:end+1], &s) != nil {
		return "", p.fault("a string that is not JSON, or has no end")
	}
	p.at = end + 1
	return s, nil
}

// next moves past one of the characters, or says what is expected.
func (p *jsonParser) next(chars string) (byte, *ConfigError) {
	if err := p.space(); err != nil {
		return 0, err
	}
	if p.at == len(p.data) || strings.IndexByte(chars, p.data[p.at]) < 0 {
		var want []string
		for _, c := range chars {
			want = append(want, strconv.QuoteRune(c))
		}
		return 0, p.fault("expected %s", strings.Join(want, " or "))
	}
	p.at++
	return p.data[p.at-1], nil
}

func (p *jsonParser) peek(c byte) bool { return p.at < len(p.data) && p.data[p.at] == c }

func (p *jsonParser) object(n *node, depth int) *ConfigError {
	p.at++
	seen := map[string]int{}
	for first := true; ; first = false {
		if err := p.space(); err != nil {
			return err
		}
		if p.peek('}') && (first || p.relaxed) {
			p.at++
			return nil
		}
		var f field
		f.line, f.col = p.pos()
		if !p.peek('"') {
			return p.fault("expected a key in quotes")
		}
		var err *ConfigError
		if f.key, err = p.str(); err != nil {
			return err
		}
		if line, twice := seen[f.key]; twice {
			return &ConfigError{Line: f.line, Col: f.col, Text: fmt.Sprintf("%s repeated, first at line %d", quoted(f.key), line)}
		}
		seen[f.key] = f.line
		if _, err := p.next(":"); err != nil {
			return err
		}
		if f.value, err = p.value(depth + 1); err != nil {
			return err
		}
		n.fields = append(n.fields, f)
		if c, err := p.next(",}"); err != nil || c == '}' {
			return err
		}
	}
}

func (p *jsonParser) array(n *node, depth int) *ConfigError {
	p.at++
	for first := true; ; first = false {
		if err := p.space(); err != nil {
			return err
		}
		if p.peek(']') && (first || p.relaxed) {
			p.at++
			return nil
		}
		item, err := p.value(depth + 1)
		if err != nil {
			return err
		}
		n.items = append(n.items, item)
		if c, err := p.next(",]"); err != nil || c == ']' {
			return err
		}
	}
}

// quoted is text of a configuration as a message shows it.
func quoted(s string) string {
	if short, cut := bound(s, 60); cut {
		return strconv.Quote(short) + "…"
	}
	return strconv.Quote(s)
}
