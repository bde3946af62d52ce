package frontmatter

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// firstLine is the line of the file on which the header begins.
const firstLine = 2

// strict reads the header as YAML.
func (p *parsing) strict(header string) *Error {
	fields, err := p.mapping(header, firstLine)
	if err != nil {
		p.forget()
		return err
	}
	p.doc.Fields = fields
	p.comments(header)
	return nil
}

// forget takes back what was said of a header that turned out not to be YAML.
func (p *parsing) forget() {
	p.doc.Repeated = nil
	p.doc.Warnings = keepFrom(p.doc.Warnings, p.doc.BodyLine)
}

// keepFrom are the warnings about the body.
func keepFrom(all []Warning, line int) []Warning {
	var out []Warning
	for _, w := range all {
		if w.Line >= line {
			out = append(out, w)
		}
	}
	return out
}

// mapping reads a YAML map that begins on a line of the file.
func (p *parsing) mapping(text string, line int) (fields []Field, wrong *Error) {
	defer func() {
		if r := recover(); r != nil { // of the parser, which is not ours
			fields, wrong = nil, &Error{Syntax, line, 1, "invalid YAML"}
		}
	}()
	tokens := lexer.Tokenize(text)
	if err := dangerous(tokens, line); err != nil {
		return nil, err
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, invalid(err, line)
	}
	for i, d := range file.Docs {
		if i > 0 {
			return nil, &Error{Syntax, line, 1, "the front matter is one YAML document"}
		}
		switch n := d.Body.(type) {
		case nil, *ast.NullNode, *ast.CommentGroupNode:
		case *ast.MappingNode:
			fields, wrong = p.fields(n.Values, line, 1)
		case *ast.MappingValueNode:
			fields, wrong = p.fields([]*ast.MappingValueNode{n}, line, 1)
		default:
			l, c := at(n, line)
			wrong = &Error{Syntax, l, c, "want lines such as `name: value`"}
		}
	}
	return fields, wrong
}

// invalid is an error of the parser. It does not repeat what was read.
func invalid(err error, line int) *Error {
	var syntax yaml.Error
	if !errors.As(err, &syntax) {
		return &Error{Syntax, line, 1, "invalid YAML"}
	}
	what, _, _ := strings.Cut(syntax.GetMessage(), ": ")
	what, _, _ = strings.Cut(what, "\n")
	e := &Error{Syntax, line, 1, "invalid YAML: " + what}
	if t := syntax.GetToken(); t != nil && t.Position != nil {
		e.Line, e.Col = t.Position.Line+line-1, max(1, t.Position.Column)
	}
	return e
}

// dangerous looks for what a parser must not even be shown.
func dangerous(tokens token.Tokens, line int) *Error {
	if len(tokens) > maxTokens {
		return &Error{TooLarge, line, 1, fmt.Sprintf("the front matter has over %d words of YAML; move text below it", maxTokens)}
	}
	flow := 0
	var block []int // the columns of what is open
	for i, t := range tokens {
		l, c := t.Position.Line+line-1, max(1, t.Position.Column)
		switch t.Type {
		case token.AnchorType, token.AliasType, token.MergeKeyType:
			if i+1 == len(tokens) || tokens[i+1].Position.Line != t.Position.Line {
				return &Error{Syntax, l, c, "invalid YAML: put a value that begins with & or * in quotes"} // no name follows
			}
			return &Error{Alias, l, c, "YAML aliases are not allowed; write the value itself, and put one that begins with & or * in quotes"}
		case token.TagType:
			return &Error{Tag, l, c, "YAML tags are not allowed; put a value that begins with ! in quotes"}
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow = max(0, flow-1)
		case token.SequenceEntryType, token.MappingKeyType, token.MappingValueType:
			if t.Type == token.MappingValueType && i > 0 {
				c = tokens[i-1].Position.Column
			}
			for len(block) > 0 && block[len(block)-1] >= c {
				block = block[:len(block)-1]
			}
			block = append(block, c)
		}
		if flow+len(block) > MaxDepth {
			return &Error{TooDeep, l, c, fmt.Sprintf("lists and maps are over %d deep", MaxDepth)}
		}
	}
	return nil
}

// at is where a node stands.
func at(n ast.Node, line int) (int, int) {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return t.Position.Line + line - 1, max(1, t.Position.Column)
	}
	return line, 1
}

func (p *parsing) fields(pairs []*ast.MappingValueNode, line, depth int) ([]Field, *Error) {
	var out []Field
	seen := map[string]int{}
	for _, pair := range pairs {
		l, c := at(pair.Key, line)
		key, ok := keyText(pair.Key)
		if !ok {
			return nil, &Error{Syntax, l, c, "want a plain word as key"}
		}
		v, err := p.value(pair.Value, line, depth+1)
		if err != nil {
			return nil, err
		}
		key = p.text(key, l, c)
		if i, ok := seen[key]; ok {
			p.doc.Repeated = append(p.doc.Repeated, &Error{Duplicate, l, c,
				fmt.Sprintf("%s is there twice, first at %d:%d; keep one", shown(key), out[i].Line, out[i].Col)})
			continue
		}
		seen[key] = len(out)
		if v.Kind == Null && v.Line == 0 {
			v.Line, v.Col = l, c
		}
		out = append(out, Field{key, l, c, v})
	}
	return out, nil
}

// shown is a key as it is named in a message.
func shown(key string) string {
	if r := []rune(key); len(r) > 60 {
		key = string(r[:60]) + "…"
	}
	return strconv.Quote(key)
}

func keyText(k ast.MapKeyNode) (string, bool) {
	switch n := k.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	case *ast.NullNode:
		return n.GetToken().Value, n.GetToken().Value != ""
	}
	return "", false
}

func (p *parsing) value(n ast.Node, line, depth int) (*Value, *Error) {
	if n == nil {
		return &Value{Kind: Null}, nil
	}
	l, c := at(n, line)
	if depth > MaxDepth+1 {
		return nil, &Error{TooDeep, l, c, fmt.Sprintf("lists and maps are over %d deep", MaxDepth)}
	}
	v := &Value{Line: l, Col: c}
	switch n := n.(type) {
	case *ast.NullNode:
		v.Kind = Null
	case *ast.BoolNode:
		v.Kind, v.Text = Bool, n.GetToken().Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		v.Kind, v.Text = Number, n.GetToken().Value
	case *ast.StringNode:
		v.Kind, v.Text = Text, p.text(n.Value, l, c)
	case *ast.LiteralNode:
		v.Kind, v.Text = Text, p.text(n.Value.Value, l, c)
	case *ast.SequenceNode:
		v.Kind = List
		for _, x := range n.Values {
			item, err := p.value(x, line, depth+1)
			if err != nil {
				return nil, err
			}
			if item.Line == 0 {
				item.Line, item.Col = l, c
			}
			v.Items = append(v.Items, item)
		}
	case *ast.MappingNode:
		v.Kind = Map
		var err *Error
		if v.Fields, err = p.fields(n.Values, line, depth); err != nil {
			return nil, err
		}
	case *ast.MappingValueNode:
		v.Kind = Map
		var err *Error
		if v.Fields, err = p.fields([]*ast.MappingValueNode{n}, line, depth); err != nil {
			return nil, err
		}
	default:
		return nil, &Error{Syntax, l, c, "want a text, a number, a list or a map"}
	}
	return v, nil
}

// comments warns of values such as the color #fff, which are comments to YAML.
func (p *parsing) comments(header string) {
	var lines []string
	for _, f := range p.doc.Fields {
		if f.Value.Kind != Null {
			continue
		}
		if lines == nil {
			lines = strings.Split(header, "\n")
		}
		if i := f.Line - firstLine; i >= 0 && i < len(lines) {
			if _, rest, ok := strings.Cut(lines[i], ":"); ok {
				if rest = strings.TrimSpace(rest); len(rest) > 1 && rest[0] == '#' && rest[1] != ' ' {
					p.warn(f.Line, f.Col, "the value of %s begins with #, which makes it a comment; put it in quotes", shown(f.Key))
				}
			}
		}
	}
}

// entryLine begins a field of the header: a word at the start of a line, a colon, and nothing or
// a space and more.
var entryLine = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_.-]*):(?:[ \t]+(.*))?$`)

// lenient is the second attempt at a header that is not YAML, such as `description: Use this when: x`
// or `argument-hint: [a] [b]`. Every field of the header is read on its own, with the lines below it that
// begin none. One that is not YAML is plain text, as it is written, if there is something on the line of
// its key: a warning says so. It fails if a field has nothing there, or the header begins with no
// field; then the first error stands. What YAML forbids for safety is forbidden here too.
func (p *parsing) lenient(header string) bool {
	type entry struct {
		key, rest string
		line      int
		lines     []string
	}
	var entries []entry
	line := firstLine - 1
	for l := range strings.Lines(header) {
		line++
		l = strings.TrimSuffix(l, "\n")
		m := entryLine.FindStringSubmatch(strings.TrimRight(l, " \t\r"))
		switch {
		case m != nil && len(entries) == maxFields:
			return false
		case m != nil:
			entries = append(entries, entry{m[1], m[2], line, []string{l}})
		case len(entries) > 0:
			e := &entries[len(entries)-1]
			e.lines = append(e.lines, l)
		case strings.TrimSpace(l) != "" && l[0] != '#':
			return false
		}
	}
	first := map[string]int{}
	var fields []Field
	for _, e := range entries {
		got, err := p.mapping(strings.Join(e.lines, "\n")+"\n", e.line)
		var f Field
		switch {
		case err == nil && len(got) == 1:
			f = got[0]
		case err != nil && err.Code != Syntax || e.rest == "":
			p.forget()
			return false
		default:
			v := &Value{Kind: Text, Line: e.line, Col: strings.Index(e.lines[0], e.rest) + 1}
			v.Text = p.text(plain(e.rest, e.lines[1:]), v.Line, v.Col)
			f = Field{e.key, e.line, 1, v}
			p.warn(e.line, 1, "the value of %s is not valid YAML and was taken as plain text; put it in quotes", e.key)
		}
		if l, ok := first[f.Key]; ok {
			p.doc.Repeated = append(p.doc.Repeated, &Error{Duplicate, f.Line, f.Col, fmt.Sprintf("%s is there twice, first at %d:1; keep one", shown(f.Key), l)})
			continue
		}
		first[f.Key] = f.Line
		fields = append(fields, f)
	}
	p.doc.Fields, p.doc.Lenient = fields, len(fields) > 0
	return p.doc.Lenient
}

// plain is a value that is not YAML: what is on the line of its key, and the lines below.
func plain(rest string, below []string) string {
	var b strings.Builder
	if rest[0] != '|' && rest[0] != '>' {
		b.WriteString(rest)
	}
	for _, l := range below {
		b.WriteByte('\n')
		b.WriteString(strings.TrimSpace(l))
	}
	s := strings.TrimSpace(b.String())
	if n := len(s); n > 1 && (s[0] == '"' || s[0] == '\'') && s[n-1] == s[0] {
		// 'it's' is one text in quotes, "x" and: "y" is two.
		if inside := strings.Count(s[1:n-1], s[:1]); inside == 0 || inside%2 == 1 {
			s = s[1 : n-1]
		}
	}
	return s
}
