package frontmatter

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"

	"github.com/superstep-dev/superstep/internal/clean"
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

// forget drops the warnings about a header that turned out not to be YAML.
func (p *parsing) forget() {
	p.doc.Repeated = nil
	p.doc.Warnings = slices.DeleteFunc(p.doc.Warnings, func(w Warning) bool { return w.Line < p.doc.BodyLine })
}

// mapping reads a YAML map that begins on a line of the file.
func (p *parsing) mapping(text string, line int) ([]Field, *Error) {
	v, err := p.tree(text, line)
	switch {
	case err != nil:
		return nil, err
	case len(p.refused) > 0:
		return nil, p.refused[0]
	case v.Kind == Null:
		return nil, nil
	case v.Kind != Map:
		return nil, &Error{Syntax, v.Line, v.Col, "want lines such as `name: value`"}
	}
	return v.Fields, nil
}

// tree reads one YAML document that begins on a line of the file.
func (p *parsing) tree(text string, line int) (*Value, *Error) {
	limits := loaderlimits.New(loaderlimits.DepthValue(2*MaxDepth), loaderlimits.AliasNone())
	l, err := yaml.NewLoader(strings.NewReader(text), yaml.WithPlugin(limits))
	if err != nil {
		return nil, invalid(err, text, line)
	}
	var doc, second yaml.Node
	if err := l.Load(&doc); errors.Is(err, io.EOF) || err == nil && len(doc.Content) == 0 {
		return &Value{Kind: Null, Line: line, Col: 1}, nil
	} else if err != nil {
		return nil, invalid(err, text, line)
	}
	if err := l.Load(&second); err == nil {
		return nil, &Error{Syntax, second.Line + line - 1, max(1, second.Column), "a second YAML document starts here; a file has one"}
	} else if !errors.Is(err, io.EOF) {
		return nil, invalid(err, text, line)
	}
	return p.value(doc.Content[0], line, 1)
}

// Messages for what YAML allows and we do not.
const (
	noAlias = "YAML aliases are not allowed; write the value itself, and put one that begins with & or * in quotes"
	noTag   = "YAML tags are not allowed; put a value that begins with ! in quotes"
)

func tooDeep(line, col int) *Error {
	return &Error{TooDeep, line, col, fmt.Sprintf("lists and maps are over %d deep", MaxDepth)}
}

// invalid returns an error of the parser. It does not quote the input.
func invalid(err error, text string, line int) *Error {
	e := &Error{Syntax, line, 1, "invalid YAML"}
	var wrong *yaml.LoadError
	if !errors.As(err, &wrong) {
		return e
	}
	mark := wrong.Mark
	if wrong.ContextMark.Line > 0 && strings.Contains(wrong.Message, "end of stream") {
		mark = wrong.ContextMark
	}
	written := strings.Split(strings.TrimRight(text, " \t\n"), "\n")
	if last := len(written); mark.Line > last { // at the end of the file
		mark.Line, mark.Column = last, utf8.RuneCountInString(written[last-1])
	}
	if mark.Line > 0 {
		e.Line, e.Col = mark.Line+line-1, max(1, mark.Column)
	}
	switch what := wrong.Message; {
	case strings.Contains(what, "exceeded max depth"):
		return tooDeep(e.Line, e.Col)
	case strings.Contains(what, "unknown anchor"):
		e.Code, e.Text = Alias, noAlias
	case strings.Contains(what, "tag"):
		e.Code, e.Text = Tag, noTag
	default:
		e.Text += ": " + what
	}
	return e
}

func (p *parsing) fields(content []*yaml.Node, line, depth int) ([]Field, *Error) {
	var out []Field
	seen := map[string]int{}
	for i := 0; i+1 < len(content); i += 2 {
		k := content[i]
		l, c := k.Line+line-1, max(1, k.Column)
		switch {
		case k.Value == "<<" && k.Style == 0:
			p.refused = append(p.refused, &Error{Alias, l, c, noAlias})
			continue
		case k.Kind != yaml.ScalarNode || k.Value == "" && k.Style == 0:
			return nil, &Error{Syntax, l, c, "want a plain word as key"}
		}
		name, err := p.value(k, line, depth)
		if err != nil {
			return nil, err
		}
		v, err := p.value(content[i+1], line, depth+1)
		if err != nil {
			return nil, err
		}
		key := name.Text
		if name.Kind == Null {
			key = k.Value
		}
		if i, ok := seen[key]; ok {
			p.doc.Repeated = append(p.doc.Repeated, &Error{Duplicate, l, c,
				fmt.Sprintf("%s is there twice, first at %d:%d; keep one", clean.Quote(key), out[i].Line, out[i].Col)})
			continue
		}
		seen[key] = len(out)
		if v.Kind == Null && content[i+1].Value == "" {
			v.Line, v.Col = l, c
		}
		out = append(out, Field{key, l, c, v})
	}
	return out, nil
}

func (p *parsing) value(n *yaml.Node, line, depth int) (_ *Value, err *Error) {
	v := &Value{Line: n.Line + line - 1, Col: max(1, n.Column), Style: n.Style}
	switch {
	case depth > MaxDepth+1:
		return nil, tooDeep(v.Line, v.Col)
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		p.refused = append(p.refused, &Error{Alias, v.Line, v.Col, noAlias})
		return v, nil
	case n.Style&yaml.TaggedStyle != 0 || n.Tag == "!":
		p.refused = append(p.refused, &Error{Tag, v.Line, v.Col, noTag})
		return v, nil
	}
	switch n.Kind {
	case yaml.SequenceNode:
		v.Kind = List
		for _, x := range n.Content {
			item, err := p.value(x, line, depth+1)
			if err != nil {
				return nil, err
			}
			v.Items = append(v.Items, item)
		}
	case yaml.MappingNode:
		v.Kind = Map
		v.Fields, err = p.fields(n.Content, line, depth)
	default:
		v.Text = n.Value
		switch n.ShortTag() {
		case "!!null":
			v.Kind, v.Text = Null, ""
		case "!!bool":
			v.Kind = Bool
		case "!!int", "!!float":
			v.Kind = Number
		default:
			v.Kind, v.Text = Text, p.text(n.Value, v.Line, v.Col)
		}
	}
	return v, err
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
					p.warn(f.Line, f.Col, "the value of %s begins with #, which makes it a comment; put it in quotes", clean.Quote(f.Key))
				}
			}
		}
	}
}

// entryLine begins a field of the header: a word at the start of a line, a colon, and nothing or
// a space and more.
var entryLine = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_.-]*):(?:[ \t]+(.*))?$`)

// lenient is the second attempt to read a header that is not YAML, such as `description: Use this
// when: x` or `argument-hint: [a] [b]`. It reads every field separately, with the lines below that
// begin no field. A field that is not YAML is plain text, with a warning, if there is text on the
// line of its key. Otherwise, or if the header does not begin with a field, lenient fails and the
// first error stands. YAML features that are forbidden for safety are an error here too.
func (p *parsing) lenient(header string) (ok bool, wrong *Error) {
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
			return false, nil
		case m != nil:
			entries = append(entries, entry{m[1], m[2], line, []string{l}})
		case len(entries) > 0:
			e := &entries[len(entries)-1]
			e.lines = append(e.lines, l)
		case strings.TrimSpace(l) != "" && l[0] != '#':
			return false, nil
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
		case err != nil && err.Code != Syntax:
			p.forget()
			return false, err
		case e.rest == "":
			p.forget()
			return false, nil
		default:
			v := &Value{Kind: Text, Line: e.line, Col: strings.Index(e.lines[0], e.rest) + 1}
			v.Text = p.text(plain(e.rest, e.lines[1:]), v.Line, v.Col)
			f = Field{e.key, e.line, 1, v}
			p.warn(e.line, 1, "the value of %s is not valid YAML and was taken as plain text; put it in quotes", e.key)
		}
		if l, ok := first[f.Key]; ok {
			p.doc.Repeated = append(p.doc.Repeated, &Error{Duplicate, f.Line, f.Col, fmt.Sprintf("%s is there twice, first at %d:1; keep one", clean.Quote(f.Key), l)})
			continue
		}
		first[f.Key] = f.Line
		fields = append(fields, f)
	}
	p.doc.Fields, p.doc.Lenient = fields, len(fields) > 0
	return p.doc.Lenient, nil
}

// plain returns a value that is not YAML: the rest of its key's line, and the lines below.
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
