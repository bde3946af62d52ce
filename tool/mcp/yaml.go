package mcp

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// parseYAML reads the YAML that has the meaning of JSON: no aliases, no tags, no merging.
func parseYAML(data []byte) (n *node, fault *ConfigError) {
	if !utf8.Valid(data) {
		return nil, &ConfigError{Text: "file must be UTF-8"}
	}
	if deep(data) {
		return nil, &ConfigError{Text: fmt.Sprintf("nested more than %d deep", maxConfigDepth)}
	}
	defer func() {
		if p := recover(); p != nil { // the parser is not ours
			n, fault = nil, &ConfigError{Text: "is not YAML that can be read"}
		}
	}()
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		var syntax *yaml.SyntaxError
		if errors.As(err, &syntax) && syntax.GetToken() != nil && syntax.GetToken().Position != nil {
			at := syntax.GetToken().Position
			return nil, &ConfigError{Line: at.Line, Col: at.Column, Text: oneLine(syntax.GetMessage(), 200)}
		}
		return nil, &ConfigError{Text: "is not YAML"}
	}
	var body ast.Node
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if body != nil {
			return nil, &ConfigError{Text: "one document per file"}
		}
		body = doc.Body
	}
	if body == nil {
		return &node{line: 1, col: 1, kind: "null"}, nil
	}
	return fromYAML(body, 0)
}

// deep guards the parser, which calls itself, against brackets and dashes without end.
func deep(data []byte) bool {
	flow := 0
	for line := range strings.Lines(string(data)) {
		dashes := 0
		for _, c := range line {
			switch c {
			case '[', '{':
				flow++
			case ']', '}':
				flow = max(0, flow-1)
			case '-', '?':
				dashes++
			}
		}
		if flow > 10*maxConfigDepth || dashes > 10*maxConfigDepth {
			return true
		}
	}
	return false
}

func fromYAML(in ast.Node, depth int) (*node, *ConfigError) {
	n := new(node)
	if t := in.GetToken(); t != nil && t.Position != nil {
		n.line, n.col = t.Position.Line, t.Position.Column
	}
	fault := func(format string, args ...any) *ConfigError {
		return &ConfigError{Line: n.line, Col: n.col, Text: fmt.Sprintf(format, args...)}
	}
	if depth > maxConfigDepth {
		return nil, fault("nested more than %d deep", maxConfigDepth)
	}
	switch in := in.(type) {
	case *ast.NullNode:
		n.kind = "null"
	case *ast.BoolNode:
		n.kind, n.text = "boolean", fmt.Sprint(in.Value)
	case *ast.IntegerNode, *ast.FloatNode:
		n.kind, n.text = "number", in.GetToken().Value
	case *ast.StringNode:
		n.kind, n.text = "string", in.Value
	case *ast.LiteralNode:
		n.kind, n.text = "string", in.Value.Value
	case *ast.SequenceNode:
		n.kind = "array"
		for _, v := range in.Values {
			item, err := fromYAML(v, depth+1)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, item)
		}
	case *ast.MappingNode:
		n.kind = "object"
		if len(in.Values) > 0 {
			n.line, n.col = place(in.Values[0].Key, n.line, n.col)
		}
		return n, n.yamlFields(in.Values, depth)
	case *ast.MappingValueNode:
		n.kind = "object"
		n.line, n.col = place(in.Key, n.line, n.col)
		return n, n.yamlFields([]*ast.MappingValueNode{in}, depth)
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		return nil, fault("YAML aliases are not allowed")
	case *ast.TagNode:
		return nil, fault("YAML tags are not allowed")
	default:
		return nil, fault("this YAML has no meaning here")
	}
	return n, nil
}

func place(n ast.Node, line, col int) (int, int) {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return t.Position.Line, t.Position.Column
	}
	return line, col
}

func (n *node) yamlFields(values []*ast.MappingValueNode, depth int) *ConfigError {
	seen := map[string]int{}
	for _, v := range values {
		var f field
		f.line, f.col = place(v.Key, n.line, n.col)
		fault := func(text string) *ConfigError { return &ConfigError{Line: f.line, Col: f.col, Text: text} }
		key, ok := v.Key.(*ast.StringNode)
		if !ok {
			if _, merge := v.Key.(*ast.MergeKeyNode); merge {
				return fault("YAML aliases are not allowed")
			}
			return fault("a key must be text; quote it")
		}
		f.key = key.Value
		if line, twice := seen[f.key]; twice {
			return fault(fmt.Sprintf("%s repeated, first at line %d", quoted(f.key), line))
		}
		seen[f.key] = f.line
		var err *ConfigError
		if f.value, err = fromYAML(v.Value, depth+1); err != nil {
			return err
		}
		n.fields = append(n.fields, f)
	}
	return nil
}
