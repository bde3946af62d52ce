// Package frontmatter reads Markdown files that begin with a YAML header between two lines of three
// hyphens, and the folders that hold such files. Such files are often written by hand, and for
// programs that are less strict. So the package is strict about everything dangerous (sizes, depth,
// aliases, tags, links, devices), reports the position of every value, and tolerates what is only
// untidy.
package frontmatter

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// The limits of a file.
const (
	MaxFile   = 1 << 20  // bytes
	MaxHeader = 64 << 10 // bytes between the two lines of hyphens
	MaxDepth  = 64       // of lists and maps in each other
	maxFields = 1000     // of the header itself
)

// A Code describes what is wrong with a file.
type Code string

// What can be wrong with a file.
const (
	Missing   Code = "missing"   // it has no front matter
	Unclosed  Code = "unclosed"  // the front matter does not end
	Syntax    Code = "syntax"    // it is not YAML, or no map
	Duplicate Code = "duplicate" // a key is there twice
	TooLarge  Code = "too-large"
	TooDeep   Code = "too-deep"
	Encoding  Code = "encoding" // it is not UTF-8
	Alias     Code = "alias"    // YAML aliases, anchors and merge keys are not allowed
	Tag       Code = "tag"      // nor are tags
)

// An Error is a reason not to read a file, and where it is. Line and Col count from 1 and are
// those of the file; 0 if it is about the whole file.
type Error struct {
	Code      Code
	Line, Col int
	Text      string // what is wrong and what to do, without the place
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Text
	}
	return fmt.Sprintf("%d:%d: %s", e.Line, e.Col, e.Text)
}

// A Warning is a tolerated mistake.
type Warning struct {
	Line, Col int
	Text      string
}

func (w Warning) String() string { return fmt.Sprintf("%d:%d: %s", w.Line, w.Col, w.Text) }

// A Document is a parsed file.
type Document struct {
	Fields   []Field // of the header, as they stand there; of a repeated one, only the first
	Body     string  // what follows the header, without blank lines around it
	BodyLine int     // where Body begins
	Lenient  bool    // the header is not quite YAML
	Warnings []Warning
	// Repeated lists every duplicate key, at any depth. Programs differ in which of the two values
	// they use, so readers of files that affect permissions refuse them.
	Repeated []*Error
}

// A Field is a key and its value.
type Field struct {
	Key       string
	Line, Col int
	Value     *Value
}

// A Kind is what a value is.
type Kind string

// The kinds of values.
const (
	Null   Kind = "null"
	Bool   Kind = "bool"
	Number Kind = "number"
	Text   Kind = "text"
	List   Kind = "list"
	Map    Kind = "map"
)

// A Value is a value of the header and where it stands.
type Value struct {
	Kind      Kind
	Line, Col int
	Text      string   // of a text; of a number or truth value, as it is written
	Items     []*Value // of a list
	Fields    []Field  // of a map

	Style yaml.Style // how it is written: in quotes, as a block, in brackets
}

// Field returns the value of a key of a map, nil if there is none.
func (v *Value) Field(key string) *Value {
	for _, f := range v.Fields {
		if f.Key == key {
			return f.Value
		}
	}
	return nil
}

// Field returns a field of the header, nil if there is none of that name.
func (d *Document) Field(key string) *Field {
	for i := range d.Fields {
		if d.Fields[i].Key == key {
			return &d.Fields[i]
		}
	}
	return nil
}

// Parse parses a file. Its error is an *Error. The header is read as YAML, or, if it is not valid
// YAML, line by line: see lenient. Clean, if non-nil, makes text harmless. It is applied to every
// key and value and to the body, and each change is a warning.
func Parse(b []byte, clean func(string) string) (*Document, error) {
	text, err := text(b, MaxFile)
	if err != nil {
		return nil, err
	}
	header, body, line, err := parts(text)
	if err != nil {
		return nil, err
	}
	p := &parsing{clean: clean, doc: &Document{}}
	p.body(body, line)
	header = p.visible(header, firstLine)
	strict := p.strict(header)
	if strict != nil && strict.Code == Syntax {
		ok, worse := p.lenient(header)
		if ok {
			return p.doc, nil
		}
		strict = cmp.Or(worse, strict)
	}
	if strict != nil {
		return nil, strict
	}
	return p.doc, nil
}

// text returns a file of bounded size as text, with newlines at all ends of lines.
func text(b []byte, most int) (string, error) {
	switch {
	case len(b) > most:
		return "", &Error{Code: TooLarge, Text: fmt.Sprintf("the file is over %d MiB", most>>20)}
	case !utf8.Valid(b):
		at := 0
		for r, n := utf8.DecodeRune(b); r != utf8.RuneError || n > 1; r, n = utf8.DecodeRune(b[at:]) {
			at += n
		}
		return "", &Error{Code: Encoding, Text: fmt.Sprintf("the file must be UTF-8; there is a bad byte at offset %d", at)}
	}
	return strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(string(b), "\ufeff")), nil
}

// parts finds the header and the body, and the line on which the body begins.
func parts(text string) (header, body string, line int, err error) {
	first, rest, _ := strings.Cut(text, "\n")
	if !fence(first) {
		return "", "", 0, &Error{Missing, 1, 1, "there is no front matter; the file must begin with a line ---, then name and description, then another ---"}
	}
	end := 0
	line = 2
	for l := range strings.Lines(rest) {
		line++
		if fence(strings.TrimSuffix(l, "\n")) {
			if end > MaxHeader {
				return "", "", 0, &Error{TooLarge, 1, 1, "the front matter is over 64 KiB; move text below it"}
			}
			return rest[:end], rest[end+len(l):], line, nil
		}
		end += len(l)
	}
	return "", "", 0, &Error{Unclosed, 1, 1, "missing closing ---; the front matter that begins here needs a line of three hyphens at its end"}
}

func fence(line string) bool { return strings.TrimRight(line, " \t\r") == "---" }

// Unfenced returns a document whose body is the whole file, for kinds of files that need no front
// matter. It has no fields. Its error is an *Error.
func Unfenced(b []byte, clean func(string) string) (*Document, error) {
	text, err := text(b, MaxFile)
	if err != nil {
		return nil, err
	}
	p := &parsing{clean: clean, doc: &Document{}}
	p.body(text, 1)
	return p.doc, nil
}

// parsing is a file that is being parsed.
type parsing struct {
	clean   func(string) string
	doc     *Document
	refused []*Error // aliases and tags
}

func (p *parsing) warn(line, col int, format string, args ...any) {
	p.doc.Warnings = append(p.doc.Warnings, Warning{line, col, fmt.Sprintf(format, args...)})
}

// text makes a key or value harmless.
func (p *parsing) text(s string, line, col int) string {
	if p.clean == nil {
		return s
	}
	c := p.clean(s)
	if c != s {
		p.warn(line, col, "invisible or control characters were left out")
	}
	return c
}

func (p *parsing) body(s string, line int) {
	for strings.HasPrefix(s, "\n") || strings.HasPrefix(strings.TrimLeft(s, " \t\r"), "\n") {
		_, s, _ = strings.Cut(s, "\n")
		line++
	}
	p.doc.BodyLine = line
	p.doc.Body = strings.TrimRight(p.text(s, line, 1), " \t\r\n")
}

// visible cleans the lines with characters that no YAML may have.
func (p *parsing) visible(text string, line int) string {
	refused := func(r rune) bool { return unicode.IsControl(r) && r != '\t' && r != '\n' && r != '\u0085' }
	if p.clean == nil || strings.IndexFunc(text, refused) < 0 {
		return text
	}
	lines := strings.SplitAfter(text, "\n")
	for i, l := range lines {
		if at := strings.IndexFunc(l, refused); at >= 0 {
			lines[i] = p.text(l, line+i, utf8.RuneCountInString(l[:at])+1)
		}
	}
	return strings.Join(lines, "")
}

// YAML reads a file that consists of one YAML map of at most 64 KiB, as strictly as a header. A
// duplicate key is an error. Its error is an *Error.
func YAML(b []byte, clean func(string) string) ([]Field, error) {
	if len(b) > MaxHeader {
		return nil, &Error{Code: TooLarge, Text: "the file is over 64 KiB"}
	}
	v, refused, err := Tree(b, clean)
	switch {
	case err != nil:
		return nil, err
	case len(refused) > 0:
		return nil, refused[0]
	case v.Kind != Map && v.Kind != Null:
		return nil, &Error{Syntax, v.Line, v.Col, "want lines such as `name: value`"}
	}
	return v.Fields, nil
}

// Tree reads a file that is one YAML (or JSON) value; an empty file is null. Aliases, tags and
// duplicate keys are returned for the caller to report as errors. In the value they are missing, or
// have no kind. The caller bounds the size. The error is an *Error, such as one for more than
// MaxDepth levels.
func Tree(b []byte, clean func(string) string) (v *Value, refused []*Error, err error) {
	text, err := text(b, len(b))
	if err != nil {
		return nil, nil, err
	}
	p := &parsing{clean: clean, doc: &Document{}}
	v, wrong := p.tree(p.visible(text, 1), 1)
	if wrong != nil {
		return nil, nil, wrong
	}
	return v, slices.Concat(p.refused, p.doc.Repeated), nil
}
