package recipe

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// syntax reports an error of the YAML reader: in plain words if the probable mistake is known,
// otherwise in the reader's words.
func (p *reading) syntax(err error) {
	var at, context Pos
	text := err.Error()
	var one *yaml.LoadError
	if errors.As(err, &one) {
		at, text = Pos{one.Mark.Line, one.Mark.Column}, one.Message
		context = Pos{one.ContextMark.Line, one.ContextMark.Column}
		if context.Line > 0 && strings.Contains(text, "end of stream") {
			at = context
		}
	}
	if at.Line > len(p.src.lines) || at.Line == len(p.src.lines) && p.src.lines[at.Line-1] == len(p.src.text) {
		at = p.src.end()
	}
	at.Col = max(at.Col, btoi(at.Line > 0))
	if line, ok := p.src.line(at.Line); ok {
		blank := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
		if i := strings.IndexByte(blank, '\t'); i >= 0 {
			p.add(Pos{at.Line, i + 1}, codeTab, "tab at %d:%d; YAML needs spaces", at.Line, i+1)
			return
		}
	}
	s := &stumble{src: p.src, at: at, context: context, text: text}
	s.line, _ = p.src.line(at.Line)
	s.indent = indentOf(s.line)
	switch {
	case strings.Contains(text, "exceeded max depth"):
		p.add(at, codeDepth, "lists and maps more than %d deep in each other", maxDepth)
	case s.braces():
		p.add(s.at, codeBraces, "%s", s.says)
	case strings.Contains(text, "anchor"):
		p.add(at, codeAlias, "YAML aliases are not allowed; write the value out, and quote a text that starts with * or & (%s)", text)
	case s.explained():
		p.add(s.at, codeSyntax, "this is not YAML: %s", s.says)
	default:
		p.add(at, codeSyntax, "this is not YAML: %s", text)
	}
}

// A stumble is where and why the YAML reader stopped.
type stumble struct {
	src         *source
	at, context Pos
	text        string // what the reader says
	line        string // the one at the position
	indent      int    // of that line

	says string // what is probably wrong
}

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// braces looks for a template without quotes, on the line or on the one above that it continues.
func (s *stumble) braces() bool {
	n, line := s.at.Line, s.line
	i := bareBraces(line, runeOffset(line, s.at.Col))
	if above, at := s.above(); i < 0 && at > 0 && indentOf(above) < s.indent {
		n, line = at, above
		i = bareBraces(line, -1)
	}
	if c, ok := s.src.line(s.context.Line); i < 0 && ok && strings.HasPrefix(c[runeOffset(c, s.context.Col):], "{{") {
		n, line, i = s.context.Line, c, runeOffset(c, s.context.Col)
	}
	if i < 0 {
		return false
	}
	shown := "{{…}}"
	if end := strings.IndexAny(line[i+2:], "{}"); end >= 0 && strings.HasPrefix(line[i+2+end:], "}}") {
		shown = name(line[i : i+2+end+2])
	}
	s.at = Pos{n, utf8.RuneCountInString(line[:i]) + 1}
	s.says = unquotedText(shown + " …")
	return true
}

func unquotedText(shown string) string {
	return fmt.Sprintf("{{ starts a map in YAML; put the whole text in quotes: \"%s\"", shown)
}

// runeOffset returns where a column is in a line.
func runeOffset(line string, col int) int {
	for i := range line {
		if col--; col <= 0 {
			return i
		}
	}
	return len(line)
}

// bareBraces returns the index of the first {{ in a line that starts an unquoted value, or is at the byte where
// parsing stopped. If the line has none, it returns -1.
func bareBraces(line string, stop int) int {
	var quote byte
	starts := true // a value could start here
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case quote != 0:
			if c == '\\' && quote == '"' {
				i++
			} else if c == quote {
				quote = 0
			}
		case c == '#' && (i == 0 || line[i-1] == ' '):
			return -1
		case c == '{' && strings.HasPrefix(line[i:], "{{") && (starts || i == stop):
			return i
		case starts && (c == '"' || c == '\''):
			quote, starts = c, false
		case c == ' ':
		default:
			starts = strings.IndexByte("[{,", c) >= 0 || (c == ':' || c == '-') && strings.HasPrefix(line[i+1:], " ")
		}
	}
	return -1
}

// above returns the last non-empty line above, and its number.
func (s *stumble) above() (string, int) {
	for n := s.at.Line - 1; n > 0; n-- {
		if line, _ := s.src.line(n); !blankLine(line) {
			return line, n
		}
	}
	return "", 0
}

func blankLine(line string) bool {
	line = strings.TrimLeft(line, " \t")
	return line == "" || line[0] == '#'
}

// explained reports whether the probable mistake is known.
func (s *stumble) explained() bool {
	before := strings.TrimRight(s.line[:runeOffset(s.line, s.at.Col)], " ")
	switch {
	case strings.Contains(s.text, "end of stream"):
		s.says = "a quote that starts here is not closed"
	case strings.Contains(s.text, "mapping values are not allowed"):
		s.colon(before)
	case strings.Contains(s.text, "could not find expected ':'"):
		if s.context.Line > 0 {
			s.at = s.context
		}
		s.says = "there is no colon here; write `key: value`, or indent the line deeper if it continues with the text above"
	case strings.Contains(s.text, "did not find expected '-' indicator"), strings.Contains(s.text, "did not find expected key"),
		strings.Contains(s.text, "<document start>"):
		if strings.TrimSpace(before) == "" {
			s.indented()
		} else {
			s.ended(before)
		}
	case strings.Contains(s.text, "cannot start any token"):
		if r, _ := utf8.DecodeRuneInString(s.line[runeOffset(s.line, s.at.Col):]); strings.ContainsRune("@`%", r) {
			s.says = fmt.Sprintf("a text that starts with %c must be in quotes", r)
		}
	case strings.Contains(s.text, "unknown escape character"):
		s.says = `within double quotes \ starts an escape; write \\, or use single quotes`
	case strings.Contains(s.text, "expected comment or line break"):
		s.says = "after | or > the text starts on the next line"
	case strings.Contains(s.text, "expected ',' or '}'"), strings.Contains(s.text, "expected ',' or ']'"):
		open := s.text[len(s.text)-2 : len(s.text)-1]
		s.says = fmt.Sprintf("a comma or the closing %s is missing before this", open)
		if s.context.Line > 0 {
			s.says += fmt.Sprintf(" (opened at %d:%d)", s.context.Line, s.context.Col)
		}
	}
	return s.says != ""
}

// colon explains a misplaced colon: in a text, or after a key that is indented deeper than the keys above.
func (s *stumble) colon(before string) {
	s.says = "a colon with a space after it in a text; put the text in quotes, or on lines of its own after |"
	key := strings.TrimLeft(strings.TrimLeft(before, " "), "- ")
	above, n := s.above()
	if n == 0 || strings.ContainsAny(key, " :\"'{[") {
		return
	}
	word := strings.TrimSpace(above)
	head, rest, _ := strings.Cut(word, ":")
	switch {
	case len(word) > 1 && word[0] == '-' && word[1] != ' ' && word[1] != '-' && strings.Contains(word, ": "):
		s.at = Pos{n, indentOf(above) + 1}
		s.says = "a space is missing after the -"
	case rest != "" && rest[0] != ' ' && plainName.match(head) && !strings.HasPrefix(rest, "//"):
		s.at = Pos{n, indentOf(above) + len(head) + 1}
		s.says = fmt.Sprintf("a space is missing after `%s:`", name(head))
	case plainName.match(word) && s.indent >= indentOf(above):
		s.at = Pos{n, indentOf(above) + 1}
		s.says = fmt.Sprintf("a colon is missing: write `%s:`", name(word))
	case s.indent > indentOf(above) && strings.Contains(word, ": "):
		s.indented()
	}
}

// indented explains a line with invalid indentation.
func (s *stumble) indented() {
	dash := strings.HasPrefix(s.line[s.indent:], "- ")
	levels, header, inner := s.levels(dash)
	what := "the keys above it"
	if dash {
		what = "the - above it"
	}
	s.at = Pos{s.at.Line, s.indent + 1}
	switch {
	case header > 0:
		s.says = fmt.Sprintf("this line is indented by %d, the text it belongs to (from line %d) by %d", s.indent, header, inner)
	case slices.Contains(levels, s.indent):
	case len(levels) > 0:
		s.says = fmt.Sprintf("this line is indented by %d, %s by %s", s.indent, what, nearest(levels, s.indent))
	case dash:
		s.says = "a - starts an item of a list, and above are keys; indent it below the key of a list, or take it away"
	}
}

// nearest returns the levels that are next to an indentation.
func nearest(levels []int, indent int) string {
	far := func(l int) int { return max(l-indent, indent-l) }
	best := far(slices.MinFunc(levels, func(a, b int) int { return far(a) - far(b) }))
	var words []string
	slices.Sort(levels)
	for _, l := range slices.Compact(levels) {
		if far(l) == best {
			words = append(words, fmt.Sprint(l))
		}
	}
	return either(words)
}

// levels returns the columns of the keys (or dashes) that are open above the line. If the line is
// inside a text block, header is the line where the block starts, and inner is the indentation of
// its first line.
func (s *stumble) levels(dashes bool) (levels []int, header, inner int) {
	low, last, item := 1<<30, 0, false
	for n := s.at.Line - 1; n > 0 && (low > 0 || item); n-- {
		line, _ := s.src.line(n)
		i := indentOf(line)
		if blankLine(line) {
			continue
		}
		if i < s.indent && header == 0 {
			if header = -1; last > s.indent && blockHeader(line) {
				return nil, n, last
			}
		}
		last = i
		rest := line[i:]
		if i > low || i == low && (strings.HasPrefix(rest, "- ") || !item) {
			continue // a list may start in the column of its key
		}
		low, item = i, strings.HasPrefix(rest, "- ")
		for strings.HasPrefix(rest, "- ") {
			if dashes {
				levels = append(levels, i)
			}
			rest = strings.TrimLeft(rest[2:], " ")
			i = len(line) - len(rest)
		}
		if !dashes && (strings.Contains(rest, ": ") || strings.HasSuffix(strings.TrimRight(rest, " "), ":")) && !strings.HasPrefix(rest, "{") {
			levels = append(levels, i)
		}
	}
	return levels, 0, 0
}

// blockHeader reports whether a line ends with the sign that introduces a text block.
func blockHeader(line string) bool {
	line = strings.TrimRight(line, " ")
	i := strings.LastIndexAny(line, "|>")
	return i > 0 && line[i-1] == ' ' && strings.Trim(line[i+1:], "+-0123456789") == ""
}

// ended explains text after the end of a value.
func (s *stumble) ended(before string) {
	switch last, _ := utf8.DecodeLastRuneInString(before); last {
	case '"', '\'':
		s.says = "the text in quotes ends before this; for quotes within it, put the text on lines of its own after |"
	case ']', '}':
		s.says = fmt.Sprintf("the value ends with %c before this; put a text with brackets in quotes", last)
	}
}

// unquoted reports whether a map is a template without quotes. If so it is reported, and replaced
// by the intended text.
func (p *reading) unquoted(n *yaml.Node) bool {
	if n.Kind != yaml.MappingNode || n.Style&yaml.FlowStyle == 0 || n.Anchor != "" || len(n.Content) == 0 || n.Content[0].Kind != yaml.MappingNode {
		return false
	}
	start, ok := p.src.find(posOf(n))
	if !ok || !strings.HasPrefix(string(p.src.text[start.off:min(start.off+2, len(p.src.text))]), "{{") {
		return false
	}
	rest := p.src.text[start.off+2 : min(start.off+2+1000, len(p.src.text))]
	end := slices.IndexFunc(rest, func(c byte) bool { return c == '{' || c == '}' || c == '\n' || c == '\r' })
	if end < 0 || !strings.HasPrefix(string(rest[end:min(end+2, len(rest))]), "}}") {
		return false
	}
	text := "{{" + string(rest[:end]) + "}}"
	*n = yaml.Node{Kind: yaml.ScalarNode, Value: text, Line: n.Line, Column: n.Column}
	p.report(&Problem{Pos: posOf(n), End: n.Column + utf8.RuneCountInString(text), Code: codeBraces, Text: unquotedText(name(text))})
	return true
}
