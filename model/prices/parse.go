package prices

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/suggest"
)

// What a table may have at most.
const (
	MaxSize     = 1 << 20 // bytes
	maxModels   = 5000
	maxAliases  = 20
	maxName     = 200
	maxText     = 500
	maxNesting  = 16
	maxProblems = 20
	maxPrice    = 1e6 // US dollars for a million tokens
	maxTokens   = 1e9
)

// An Error lists what is wrong with a table.
type Error struct {
	File     string
	Problems []Problem // in the order of the file
}

// A Problem is one mistake.
type Problem struct {
	Line, Col int // from 1
	Text      string
}

// Error gives a line for each of the first mistakes: file:line:col: text.
func (e *Error) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i == maxProblems {
			fmt.Fprintf(&b, "\nand %d more", len(e.Problems)-i)
			break
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s:%d:%d: %s", e.File, p.Line, p.Col, p.Text)
	}
	return b.String()
}

// Parse reads a table in YAML, of which JSON is a part. The file is its name in errors, which
// are of type [*Error] and list every mistake.
func Parse(file string, b []byte) (*Table, error) {
	r := &reader{file: file, seen: map[string]int{}}
	if !r.readable(b) {
		return nil, r.failed()
	}
	parsed, err := parse(bytes.TrimPrefix(b, []byte("\ufeff")))
	if err != nil {
		r.syntax(err)
		return nil, r.failed()
	}
	t := r.table(parsed)
	if len(r.problems) > 0 {
		return nil, r.failed()
	}
	t.reindex()
	return t, nil
}

// parse is the parser of the library, whose panics are mistakes of the file.
func parse(b []byte) (f *ast.File, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("this is not YAML")
		}
	}()
	return parser.ParseBytes(b, 0, parser.AllowDuplicateMapKey())
}

// reader is what is known of a table while it is read.
type reader struct {
	file     string
	problems []Problem
	seen     map[string]int // names and aliases to their lines
}

func (r *reader) failed() error { return &Error{File: r.file, Problems: r.problems} }

func (r *reader) at(line, col int, format string, args ...any) {
	text := strings.Join(strings.Fields(clean.Text(fmt.Sprintf(format, args...))), " ")
	r.problems = append(r.problems, Problem{line, col, text})
}

func (r *reader) wrong(n ast.Node, format string, args ...any) {
	line, col := place(n)
	r.at(line, col, format, args...)
}

func place(n ast.Node) (line, col int) {
	if n != nil {
		if t := n.GetToken(); t != nil && t.Position != nil {
			return t.Position.Line, t.Position.Column
		}
	}
	return 1, 1
}

func (r *reader) syntax(err error) {
	var syntax yaml.Error
	if errors.As(err, &syntax) && syntax.GetToken() != nil && syntax.GetToken().Position != nil {
		p := syntax.GetToken().Position
		what, _, _ := strings.Cut(syntax.GetMessage(), "\n")
		r.at(p.Line, p.Column, "%.200s", what)
		return
	}
	r.at(1, 1, "this is not YAML")
}

// readable refuses what would cost too much to look at.
func (r *reader) readable(b []byte) bool {
	if len(b) > MaxSize {
		r.at(1, 1, "a table is at most 1 MiB")
		return false
	}
	n := 0
	depth := 0
	for line := range bytes.Lines(b) {
		n++
		if !utf8.Valid(line) || bytes.IndexByte(line, 0) >= 0 {
			r.at(n, 1, "the file must be UTF-8 text")
			return false
		}
		marks := 0
		for i, c := range line {
			switch c {
			case '[', '{':
				depth++
			case ']', '}':
				depth = max(0, depth-1)
			case '-', '?', ':':
				if i+1 < len(line) && (line[i+1] == ' ' || line[i+1] == '\t') {
					marks++
				}
			}
			if depth > maxNesting || marks > 100 {
				r.at(n, i+1, "this is nested too deep for a table")
				return false
			}
		}
	}
	return true
}

// pairs are those of a mapping; none, with a complaint, if it is none.
func (r *reader) pairs(n ast.Node, want string) []*ast.MappingValueNode {
	switch m := n.(type) {
	case *ast.MappingNode:
		return m.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{m}
	}
	r.wrong(n, "want %s", want)
	return nil
}

// key is the name of a pair, "" with a complaint for one that is none or came before.
func (r *reader) key(pair *ast.MappingValueNode, before map[string]bool) string {
	s, ok := pair.Key.(*ast.StringNode)
	if !ok || s.Value == "" {
		r.wrong(pair.Key, "want a name")
		return ""
	}
	if before[s.Value] {
		r.wrong(pair.Key, "%.100s is there twice", s.Value)
		return ""
	}
	before[s.Value] = true
	return s.Value
}

func (r *reader) table(f *ast.File) *Table {
	t := &Table{}
	var body ast.Node
	for i, doc := range f.Docs {
		if i > 0 {
			r.wrong(doc.Body, "a table is one document")
			return t
		}
		body = doc.Body
	}
	switch body.(type) {
	case nil, *ast.NullNode, *ast.CommentGroupNode:
		r.at(1, 1, "the table is empty; it needs a date and models")
		return t
	}
	before := map[string]bool{}
	for _, pair := range r.pairs(body, "the lines date and models") {
		switch key := r.key(pair, before); key {
		case "":
		case "date":
			t.date = r.day(pair.Value)
		case "sources":
			t.sources = r.texts(pair.Value, "a list of where the facts come from", maxText)
		case "models":
			r.models(t, pair.Value)
		default:
			r.wrong(pair.Key, "a table has no %.60q%s", key, suggest.Hint(key, []string{"date", "sources", "models"}))
		}
	}
	for _, need := range []string{"date", "models"} {
		if !before[need] {
			r.wrong(body, "%s is missing; a table has a date such as 2026-01-31, and models", need)
		}
	}
	return t
}

func (r *reader) models(t *Table, n ast.Node) {
	before := map[string]bool{}
	for _, pair := range r.pairs(n, "models such as `openai/gpt-5: {in: 1.25, out: 10}`") {
		name := r.key(pair, before)
		if name == "" {
			continue
		}
		provider, rest, ok := strings.Cut(name, "/")
		switch {
		case !ok || provider == "" || rest == "" || !plain(name):
			r.wrong(pair.Key, "%.100q is no name of a model; want provider/model", name)
			continue
		case provider == "google":
			name = "gemini/" + rest
		}
		if len(t.models) == maxModels {
			r.wrong(pair.Key, "a table has at most %d models", maxModels)
			return
		}
		r.taken(pair.Key, name)
		m := Model{Name: name}
		r.model(&m, pair)
		t.models = append(t.models, m)
	}
}

// taken complains of a name that another model of the table has.
func (r *reader) taken(n ast.Node, name string) {
	key := strings.ToLower(name)
	line, _ := place(n)
	if at, ok := r.seen[key]; ok {
		r.wrong(n, "%s is also the name of the model in line %d", name, at)
		return
	}
	r.seen[key] = line
}

// plain tells of a name whether it has nothing but what names of models have.
func plain(s string) bool {
	return len(s) <= maxName && !strings.ContainsFunc(s, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_.:/@+", c))
	})
}

func (r *reader) model(m *Model, entry *ast.MappingValueNode) {
	before := map[string]bool{}
	provider, _, _ := strings.Cut(m.Name, "/")
	for _, pair := range r.pairs(entry.Value, "what the model costs, such as {in: 1.25, out: 10}") {
		switch key := r.key(pair, before); key {
		case "":
		case "in":
			m.Price.In = r.number(pair)
		case "out":
			m.Price.Out = r.number(pair)
		case "cached":
			m.Price.Cached = r.number(pair)
		case "written":
			m.Price.Written = r.number(pair)
		case "window":
			m.Window = r.whole(pair)
		case "output":
			m.Output = r.whole(pair)
		case "released":
			m.Released = r.day(pair.Value)
		case "note":
			m.Note = r.text(pair.Value, maxText)
		case "aliases":
			m.Aliases = r.texts(pair.Value, "a list of names", maxName)
			for _, a := range m.Aliases {
				if !plain(a) {
					r.wrong(pair.Value, "%.100q is no name of a model", a)
				}
				r.taken(pair.Value, provider+"/"+a)
			}
		default:
			r.wrong(pair.Key, "a model has no %.60q%s", key, suggest.Hint(key, []string{"in", "out", "cached", "written", "window", "output", "released", "aliases", "note"}))
		}
	}
	if before["in"] != before["out"] || !before["in"] && (before["cached"] || before["written"]) {
		r.wrong(entry.Key, "%s: in and out belong together; leave all prices out if they are not known", m.Name)
	}
	m.Priced = before["in"] && before["out"]
}

// scalar is a value on its own as it is written, with ok false for lists, mappings and references.
func scalar(n ast.Node) (s string, ok bool) {
	switch v := n.(type) {
	case *ast.StringNode:
		return v.Value, true
	case *ast.IntegerNode, *ast.FloatNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// digits is a number as it is written, "" for what is none. Numbers in quotes are texts.
func digits(n ast.Node) string {
	switch n.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		return n.GetToken().Value
	}
	return ""
}

func (r *reader) number(pair *ast.MappingValueNode) float64 {
	f, err := strconv.ParseFloat(digits(pair.Value), 64)
	if err != nil || math.IsNaN(f) || f < 0 || f > maxPrice {
		r.wrong(pair.Value, "%s: want a number of US dollars from 0 to %.0f", pair.Key.GetToken().Value, maxPrice)
		return 0
	}
	return f
}

func (r *reader) whole(pair *ast.MappingValueNode) int {
	n, err := strconv.ParseInt(digits(pair.Value), 10, 64)
	if err != nil || n < 1 || n > maxTokens {
		r.wrong(pair.Value, "%s: want a number of tokens, at least 1", pair.Key.GetToken().Value)
		return 0
	}
	return int(n)
}

func (r *reader) day(n ast.Node) string {
	s, _ := scalar(n)
	if t, err := time.Parse(time.DateOnly, s); err != nil || t.Year() < 2000 || t.Year() > 2199 {
		r.wrong(n, "want a day such as 2026-01-31")
		return ""
	}
	return s
}

func (r *reader) text(n ast.Node, most int) string {
	s, ok := scalar(n)
	s = strings.Join(strings.Fields(clean.Text(s)), " ")
	if !ok || s == "" || len(s) > most {
		r.wrong(n, "want a text of at most %d bytes", most)
		return ""
	}
	return s
}

func (r *reader) texts(n ast.Node, want string, most int) []string {
	list, ok := n.(*ast.SequenceNode)
	if !ok || len(list.Values) > maxAliases {
		r.wrong(n, "want %s, at most %d", want, maxAliases)
		return nil
	}
	var out []string
	for _, v := range list.Values {
		if s := r.text(v, most); s != "" {
			out = append(out, s)
		}
	}
	return out
}
