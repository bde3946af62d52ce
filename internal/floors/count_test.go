package floors

import (
	"bytes"
	"go/scanner"
	"go/token"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// wide is the number of columns from which a line counts as two. A tab is one column.
const wide = 120

// generated matches the line that marks a file as written by a program: its source is counted, and it is not.
var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.\r?$`)

// uncommented returns the text of a file with spaces instead of its comments. The languages are known by the extension; false is returned for others.
func uncommented(ext string, src []byte) ([]byte, bool) {
	switch ext {
	case ".go":
		return without(src, goComments(src)), true
	case ".js", ".mjs", ".ts":
		return without(src, scriptComments(src)), true
	case ".sql":
		return without(src, sqlComments(src)), true
	case ".lua":
		return without(src, luaComments(src)), true
	case ".html", ".tmpl":
		return without(src, templateComments(src)), true
	}
	return nil, false
}

// codeLines returns the number of code lines of a file: those that are neither empty nor a comment, and two for a wide one.
func codeLines(ext string, src []byte) (n int) {
	if generated.Match(src) {
		return 0
	}
	code, _ := uncommented(ext, src)
	for line := range bytes.Lines(code) {
		line = bytes.TrimRight(line, " \t\r\n")
		switch {
		case len(line) == 0:
		case utf8.RuneCount(line) > wide:
			n += 2
		default:
			n++
		}
	}
	return n
}

// A span is a part of a text.
type span struct{ from, to int }

func without(src []byte, comments []span) []byte {
	out := bytes.Clone(src)
	for _, c := range comments {
		for i := c.from; i < c.to; i++ {
			if out[i] != '\n' {
				out[i] = ' '
			}
		}
	}
	return out
}

// until returns the position behind the next end in src, at or after from, or that behind the last byte.
func until(src []byte, from int, end string) int {
	from = min(from, len(src))
	if i := bytes.Index(src[from:], []byte(end)); i >= 0 {
		return from + i + len(end)
	}
	return len(src)
}

// line returns the position of the next line feed in src, at or after from.
func line(src []byte, from int) int {
	if i := bytes.IndexByte(src[from:], '\n'); i >= 0 {
		return from + i
	}
	return len(src)
}

func goComments(src []byte) (found []span) {
	f := token.NewFileSet().AddFile("", -1, len(src))
	var s scanner.Scanner
	s.Init(f, src, nil, scanner.ScanComments)
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			return found
		}
		if tok != token.COMMENT {
			continue
		}
		from := f.Offset(pos) // the text lacks carriage returns
		if strings.HasPrefix(text, "//") {
			found = append(found, span{from, line(src, from)})
		} else {
			found = append(found, span{from, until(src, from+2, "*/")})
		}
	}
}

func sqlComments(src []byte) (found []span) {
	dollar := regexp.MustCompile(`^\$[A-Za-z_]*\$`)
	for i := 0; i < len(src); {
		rest := src[i:]
		switch {
		case bytes.HasPrefix(rest, []byte("--")):
			to := line(src, i)
			found, i = append(found, span{i, to}), to
		case bytes.HasPrefix(rest, []byte("/*")):
			to := until(src, i+2, "*/")
			found, i = append(found, span{i, to}), to
		case src[i] == '\'' || src[i] == '"': // a quote within is doubled, so it ends one text and begins the next
			i = until(src, i+1, string(src[i]))
		case dollar.Match(rest):
			quote := string(dollar.Find(rest))
			i = until(src, i+len(quote), quote)
		default:
			i++
		}
	}
	return found
}

// luaComments knows comments to the end of their line; the scripts of the Redis store have no others.
func luaComments(src []byte) (found []span) {
	for i := 0; i < len(src); {
		switch {
		case bytes.HasPrefix(src[i:], []byte("--")):
			to := line(src, i)
			found, i = append(found, span{i, to}), to
		case src[i] == '\'' || src[i] == '"':
			i = quoted(src, i, true)
		default:
			i++
		}
	}
	return found
}

func templateComments(src []byte) (found []span) {
	action := regexp.MustCompile(`^\{\{(?:- )?/\*`)
	for i := 0; i < len(src); {
		var to int
		rest := src[i:]
		switch {
		case bytes.HasPrefix(rest, []byte("<!--")):
			to = until(src, i, "-->")
		case action.Match(rest):
			to = until(src, until(src, i, "*/"), "}}")
		case bytes.HasPrefix(rest, []byte("{{")):
			i = endOfAction(src, i+2)
			continue
		default:
			i++
			continue
		}
		found, i = append(found, span{i, to}), to
	}
	return found
}

// endOfAction returns the position behind the action of a template, whose texts may hold braces.
func endOfAction(src []byte, i int) int {
	for i < len(src) {
		switch c := src[i]; {
		case bytes.HasPrefix(src[i:], []byte("}}")):
			return i + 2
		case c == '"' || c == '`' || c == '\'':
			i = quoted(src, i, c != '`')
		default:
			i++
		}
	}
	return i
}

// quoted returns the position behind the text that begins at i with its quote.
func quoted(src []byte, i int, escapes bool) int {
	quote := src[i]
	for i++; i < len(src); i++ {
		switch {
		case escapes && src[i] == '\\':
			i++
		case src[i] == quote:
			return i + 1
		}
	}
	return len(src)
}

// scriptComments returns the comments of JavaScript. A slash begins a regular expression where an operand is expected.
func scriptComments(src []byte) []span {
	s := &scripted{src: src}
	s.code(0, false)
	return s.found
}

type scripted struct {
	src   []byte
	found []span
	last  []byte // the token before, which decides what a slash means
}

var word = regexp.MustCompile(`^[\pL\pN_$]+`)

// code passes over code from i on; nested code ends behind the brace that closes it.
func (s *scripted) code(i int, nested bool) int {
	depth := 0
	for i < len(s.src) {
		rest, from := s.src[i:], i
		switch c := s.src[i]; {
		case bytes.HasPrefix(rest, []byte("//")):
			i = line(s.src, i)
			s.found = append(s.found, span{from, i})
			continue
		case bytes.HasPrefix(rest, []byte("/*")):
			i = until(s.src, i+2, "*/")
			s.found = append(s.found, span{from, i})
			continue
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			i++
			continue
		case c == '\'' || c == '"':
			i = quoted(s.src, i, true)
		case c == '`':
			i = s.template(i)
		case c == '/' && s.operand():
			i = expression(s.src, i)
		case c == '}' && nested && depth == 0:
			return i + 1
		case word.Match(rest):
			i += len(word.Find(rest))
		default:
			switch c {
			case '{':
				depth++
			case '}':
				depth--
			}
			i++
		}
		s.last = s.src[from:i]
	}
	return i
}

// operand reports whether an operand is expected behind the last token, and no operator.
func (s *scripted) operand() bool {
	switch string(s.last) {
	case "return", "typeof", "case", "in", "of", "do", "else", "void", "delete", "throw", "new", "yield", "await", "":
		return true
	case ")", "]", "}":
		return false
	}
	c := s.last[len(s.last)-1]
	return !word.Match(s.last) && c != '\'' && c != '"' && c != '`' && (c != '/' || len(s.last) == 1)
}

// template passes over a template literal, and the code in it.
func (s *scripted) template(i int) int {
	for i++; i < len(s.src); i++ {
		switch {
		case s.src[i] == '\\':
			i++
		case s.src[i] == '`':
			return i + 1
		case bytes.HasPrefix(s.src[i:], []byte("${")):
			s.last = nil
			i = s.code(i+2, true) - 1
		}
	}
	return len(s.src)
}

// expression returns the position behind a regular expression without its flags.
func expression(src []byte, i int) int {
	class := false
	for i++; i < len(src) && src[i] != '\n'; i++ {
		switch c := src[i]; {
		case c == '\\':
			i++
		case c == '[':
			class = true
		case c == ']':
			class = false
		case c == '/' && !class:
			return i + 1
		}
	}
	return min(i, len(src))
}

func TestCodeLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", wide)
	for name, c := range map[string]struct {
		ext, src string
		want     int
	}{
		"go: comments and blanks":      {".go", "// Package a.\npackage a\n\n/* one\n   two */\n\t\nvar x = 1 // one\n", 2},
		"go: code around a block":      {".go", "package a\nvar a /* one\n two */ = 1 /* three */\n/* four */ var b = 2\n", 4},
		"go: marks in texts":           {".go", "package a\nvar a = \"/* no\"\nvar b = \"// no\" + `\n// yes\n*/`\nvar c = '\"' // a \" b\nvar d = '\\''\n", 7},
		"go: blank line in a raw text": {".go", "package a\nvar a = `one\n\n two`\n", 3},
		"go: generated":                {".go", "// Code generated by x; DO NOT EDIT.\r\n\r\npackage a\r\n", 0},
		"go: not generated":            {".go", "package a\n\nvar a = \"// Code generated by x; DO NOT EDIT.\"\n", 2},
		"go: a directive is no code":   {".go", "//go:build linux\n\npackage a\n", 1},
		"go: wide":                     {".go", "package a\nvar x" + long + " int\nvar " + long[:wide-8] + " int\n", 4},
		"go: wide with its comment":    {".go", "package a\nvar x int // " + long + "\n", 2},
		"go: wide in bytes only":       {".go", "package a\nvar x = \"" + strings.Repeat("ü", 100) + "\"\n", 2},
		"go: carriage returns":         {".go", "package a\r\n\r\n/* a\r\n\r\nb */\r\n// c\r\nvar x = 1\r\n", 2},
		"go: no line feed at the end":  {".go", "package a\nvar x = 1", 2},
		"go: unterminated":             {".go", "package a\n/* var x = 1\n", 1},
		"js: comments":                 {".mjs", "// a\nlet a = 1 /* b\n c */ + 2\n/* d */\n", 2},
		"js: marks in texts":           {".js", "let a = '// x', b = \"/*\"\nlet c = `//\n/* ${ '}' /* a */ + `${ b }//` } */\n`\nlet d\n", 5},
		"js: regular expressions":      {".js", "let a = /[/*]\\/\"/.test(b) // c\nlet d = 4 / 2 // '\nlet e = x.replace(/'/g, '/*')\nreturn /`/\n// f\n", 4},
		"js: division":                 {".js", "a = (b) / c // d / e\nf = g[1] / 2 /* \" */\n// h\nb = 6 / 2 /* i\n*/\n", 3},
		"sql: comments":                {".sql", "-- a\nSELECT '--', \"/*\", 'it''s /*' -- b\n/* c\n*/ FROM d;\n", 2},
		"sql: dollars":                 {".sql", "DO $x$\n-- a part of the text\n$x$;\n-- b\nSELECT $1, $2 -- c\n", 4},
		"lua: comments":                {".lua", "-- a\nlocal b = '-- no' -- c\nlocal d = \"\\\"--\"\n\n--e\n", 2},
		"template: comments":           {".html", "{{/* a\n*/}}\n{{- /* b */ -}}\n<!-- c\n-->\n<p>{{.D}}</p> {{/* e */}}\n", 1},
		"template: marks in texts":     {".tmpl", "{{\"{{/*\"}}\n{{`<!--`}}\n<b>/* c */</b>\n{{'}'}}<!-- d -->\n", 4},
		"template: no comment is open": {".html", "<p>{{if eq .A \"*/}}\"}}x{{end}}\n\n</p>\n", 2},
		"nothing":                      {".sql", "", 0},
		"nothing but lines":            {".js", "\n\r\n\t\n", 0},
	} {
		if got := codeLines(c.ext, []byte(c.src)); got != c.want {
			t.Errorf("%s: %d code lines, want %d", name, got, c.want)
		}
	}
	if _, known := uncommented(".css", nil); known {
		t.Error("a style sheet is no code")
	}
}
