package recipe

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/suggest"
)

// Parse reads a recipe. The file is its name for messages. It returns all problems at once, in the
// order of the file; the recipe is nil if any of them is more than a warning. It stops counting at
// 1,000 problems. It keeps the text, which the caller must not change afterwards.
func Parse(file string, text []byte) (*Recipe, Problems) {
	r, problems := read(file, text)
	if problems.Err() != nil {
		return nil, problems
	}
	return r, problems
}

// CheckText is Check for a text, also for one with mistakes, which Parse reports.
func CheckText(file string, text []byte, w *World) Problems {
	r, _ := read(file, text)
	return Check(r, w)
}

// read returns the readable part of a recipe.
func read(file string, text []byte) (*Recipe, Problems) {
	p := newReading(file, text, "recipe", "a name and steps")
	r := &Recipe{File: file, Source: text, Concurrency: DefaultConcurrency}
	if root := p.load(text); root != nil {
		if top := p.recipe(root, r); !p.tooMany() {
			p.meaning(top)
			p.advise(root, r, top)
		}
	}
	p.problems.sort()
	return r, p.problems
}

// hintBudget bounds the work for did-you-mean, in pairs of letters compared.
const hintBudget = 3_000_000

// A reading is the reading of one recipe, or of an evaluation.
type reading struct {
	file     string
	noun     string // what the file is
	needs    string // what it cannot be without
	src      *source
	problems Problems
	hints    int

	inputs     []Input
	conditions int     // their bytes
	steps      []*step // all of them, in the order of the file
	after      *block  // the handlers
}

func newReading(file string, text []byte, noun, needs string) *reading {
	return &reading{file: file, noun: noun, needs: needs, src: newSource(text), hints: hintBudget}
}

func (p *reading) full() bool { return len(p.problems) > maxProblems }

// report records a problem, unless the limit is reached.
func (p *reading) report(problem *Problem) {
	problem.File, problem.Text = p.file, oneLine(problem.Text, 4000)
	switch {
	case len(p.problems) == maxProblems:
		p.problems = append(p.problems, &Problem{File: p.file, Code: codeMore, Text: fmt.Sprintf("over %d problems; the rest is not shown", maxProblems)})
	case len(p.problems) < maxProblems:
		p.problems = append(p.problems, problem)
	}
}

// add reports a problem at a position.
func (p *reading) add(at Pos, code, format string, args ...any) {
	if p.full() {
		return
	}
	p.report(&Problem{Pos: at, Code: code, Text: fmt.Sprintf(format, args...)})
}

// mark reports a problem with a whole scalar.
func (p *reading) mark(n *yaml.Node, code, format string, args ...any) {
	if p.full() {
		return
	}
	p.report(&Problem{Pos: posOf(n), End: endOf(n), Code: code, Text: fmt.Sprintf(format, args...)})
}

// warn adds a warning about a scalar.
func (p *reading) warn(n *yaml.Node, code, format string, args ...any) {
	if p.full() {
		return
	}
	p.report(&Problem{Pos: posOf(n), End: endOf(n), Code: code, Text: fmt.Sprintf(format, args...), Warning: true})
}

// endOf returns the column after a scalar, 0 if that cannot be told from its value.
func endOf(n *yaml.Node) int {
	if n.Kind != yaml.ScalarNode || n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 || strings.ContainsAny(n.Value, "\n\\'\"") {
		return 0
	}
	length := utf8.RuneCountInString(n.Value) + 2*btoi(n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0)
	if length == 0 {
		return 0
	}
	return n.Column + length
}

// within reports a problem with the bytes from..to of a scalar's value.
func (p *reading) within(n *yaml.Node, from, to int, code, format string, args ...any) {
	if p.full() {
		return
	}
	problem := &Problem{Code: code, Text: fmt.Sprintf(format, args...)}
	at, exact := p.src.at(n, from)
	problem.Pos = at
	if exact && to > from {
		_, size := utf8.DecodeLastRuneInString(n.Value[:to])
		if last, ok := p.src.at(n, to-size); ok && last.Line == at.Line {
			problem.End = last.Col + 1
		}
	}
	p.report(problem)
}

// hint returns the end of a message: the name that was probably meant, or the existing names. The
// limit is lower for large files, so that a file full of mistakes is checked as quickly as any
// other.
func (p *reading) hint(word string, known []string) string {
	cost := 0
	for _, k := range known {
		cost += (len(k) + 8) * (len(word) + 8)
	}
	if p.hints < cost || len(word) > 256 {
		return ""
	}
	p.hints -= cost
	return suggest.Hint(word, known)
}

// A field is a key that a map may have.
type field struct {
	name string
	read func(v *yaml.Node)
}

// object reads a map of known fields. It returns the nodes of the keys that are present, including
// keys under their names in other systems, or nil if the node is not a map.
func (p *reading) object(n *yaml.Node, what string, fields []field) map[string]*yaml.Node {
	if n.Kind != yaml.MappingNode {
		p.wrongType(n, what, "a map")
		return nil
	}
	m := &fieldMap{node: n, what: what, fields: fields, keys: map[string]*yaml.Node{}}
	for i := 0; i+1 < len(n.Content) && !p.full(); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Kind != yaml.ScalarNode || k.Value == "<<" || m.keys[k.Value] != nil {
			continue // reported already
		}
		known := slices.IndexFunc(fields, func(f field) bool { return f.name == k.Value })
		if known < 0 {
			p.unknown(m, k, v)
			continue
		}
		m.keys[k.Value] = k
		fields[known].read(v)
	}
	return m.keys
}

// need reports missing fields.
func (p *reading) need(n *yaml.Node, keys map[string]*yaml.Node, what string, fields ...string) {
	if keys == nil {
		return
	}
	for _, f := range fields {
		if keys[f] == nil {
			p.add(posOf(n), codeMissing, "%s needs `%s`", what, f)
		}
	}
}

// wrongType reports that a value does not have the required type.
func (p *reading) wrongType(n *yaml.Node, what, want string) {
	if n.Kind == yaml.AliasNode {
		return // reported already
	}
	p.mark(n, codeType, "%s must be %s, got %s", what, want, kindOf(n))
}

// sequence returns the parts of a list.
func (p *reading) sequence(n *yaml.Node, what string) ([]*yaml.Node, bool) {
	if n.Kind != yaml.SequenceNode {
		p.wrongType(n, what, "a list")
		return nil, false
	}
	return n.Content, true
}

// text reads a text.
func (p *reading) text(n *yaml.Node, what string) (string, bool) {
	if n.Kind != yaml.ScalarNode {
		p.wrongType(n, what, "a text")
		return "", false
	}
	switch s := scalarOf(n); {
	case s.kind == isNull:
		p.mark(n, codeType, "%s must be a text, got nothing", what)
		return "", false
	case s.kind != isText:
		p.mark(n, codeType, "%s must be a text, and %s is %s; quote it: %s", what, name(n.Value), s.kind, quoted(n.Value))
		return "", false
	case s.odd != "":
		p.mark(n, codeAmbiguous, "%s must be a text, and %s %s; quote it: %s", what, name(n.Value), s.odd, quoted(n.Value))
		return "", false
	}
	return n.Value, true
}

// A form is the required pattern of a name.
type form struct {
	pattern string
	match   func(string) bool
	says    string
}

// named reads a name of a form.
func (p *reading) named(n *yaml.Node, what string, f *form) string {
	s, ok := p.text(n, what)
	if !ok {
		return ""
	}
	if i := strings.IndexFunc(s, hidden); i >= 0 {
		r, _ := utf8.DecodeRuneInString(s[i:])
		p.mark(n, codeForm, "%s has the hidden character %U in it; %s", what, r, f.says)
		return ""
	}
	if !f.match(s) {
		p.mark(n, codeForm, "%s is %s; %s", what, quoted(s), f.says)
		return ""
	}
	return s
}

// hidden reports characters that are invisible or change how others are displayed.
func hidden(r rune) bool {
	return r == '\t' || r == '\n' || r == utf8.RuneError || clean.Text(string(r)) != string(r)
}

// choice parses one of several words.
func (p *reading) choice(n *yaml.Node, what string, words ...string) string {
	if n.Kind == yaml.ScalarNode {
		for _, w := range words {
			if n.Value == w {
				return w
			}
		}
		p.mark(n, codeChoice, "%s is %s; it must be %s%s", what, quoted(n.Value), either(words), meant(p.hint(n.Value, words)))
		return ""
	}
	p.wrongType(n, what, either(words))
	return ""
}

// meant returns a hint only if it names a single word, because the error already lists all words.
func meant(hint string) string {
	if strings.Contains(hint, "did you mean") {
		return hint
	}
	return ""
}

// either lists words: "a, b or c".
func either(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}
