package docindex

import (
	"bytes"
	stdhtml "html"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"
)

type kind int

const (
	notText kind = iota
	source       // program text and data
	prose        // plain text and other markup
	markdown
	markup // HTML
)

const sniffed = 8000 // bytes looked at to tell text from binary, as Git does

// kindOf says what a file is from its name: notText for a name that is none of those
// indexed. A file without an extension may be text; looksBinary decides.
func kindOf(name string) kind {
	ext := strings.ToLower(path.Ext(name))
	if ext == "" || ext == strings.ToLower(name) { // README, Makefile, .bashrc
		return prose
	}
	return kinds[ext[1:]]
}

func kindTable() map[string]kind {
	t := make(map[string]kind)
	for k, list := range map[kind]string{
		markup:   "html htm xhtml",
		markdown: "md markdown mdx mkd mdown",
		prose:    "txt text rst adoc asciidoc org tex textile pod log article slide 1 2 3 4 5 6 7 8",
		source: `go mod work s asm c h cc cpp cxx hpp hh hxx inc m mm rs swift kt kts java scala groovy gradle clj cljs
			ex exs erl hrl hs lhs ml mli fs fsx cs vb py pyi rb php pl pm t lua r jl dart zig nim d v sol js mjs cjs
			jsx ts mts cts tsx vue svelte css scss sass less sh bash zsh fish ps1 bat cmd awk sed sql graphql gql
			proto thrift avsc tf hcl nix cue rego dhall json jsonl json5 jsonc yaml yml toml ini cfg conf env
			properties xml xsd xsl svg csv tsv tmpl tpl gohtml mustache j2 cmake mk bazel bzl el lisp scm rkt vim
			y l lex yacc ebnf g4 patch diff f f90 for pas ada adb ads cob tcl txtar golden bib sty dockerfile`,
	} {
		for ext := range strings.FieldsSeq(list) {
			t[ext] = k
		}
	}
	return t
}

var kinds = kindTable()

func looksBinary(raw []byte) bool {
	head := raw[:min(len(raw), sniffed)]
	if bytes.IndexByte(head, 0) >= 0 {
		return true
	}
	bad := 0
	for b := head; len(b) > 0; {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 || r < ' ' && !unicode.IsSpace(r) && r != '\b' && r != 0x1b {
			bad++
		}
		b = b[n:]
	}
	return bad*5 > len(head)
}

// maskHTML returns a copy of raw in which everything but text that a reader would see
// is NUL, so that offsets and lines stay the same, and the offsets at which headings
// start.
func maskHTML(raw []byte) (masked []byte, headings []int) {
	masked = make([]byte, len(raw))
	for i, c := range raw {
		if c == '\n' {
			masked[i] = c
		}
	}
	z := html.NewTokenizer(bytes.NewReader(raw))
	z.SetMaxBuf(0)
	at, hidden := 0, ""
	for {
		tt := z.Next()
		n := len(z.Raw())
		switch tt {
		case html.ErrorToken:
			return masked, headings
		case html.TextToken:
			if hidden == "" {
				copy(masked[at:at+n], raw[at:at+n])
			}
		case html.StartTagToken:
			name, _ := z.TagName()
			switch string(name) {
			case "script", "style":
				if hidden == "" {
					hidden = string(name)
				}
			case "h1", "h2", "h3", "h4", "h5", "h6":
				headings = append(headings, at)
			}
		case html.EndTagToken:
			if name, _ := z.TagName(); hidden != "" && string(name) == hidden {
				hidden = ""
			}
		}
		at += n
	}
}

// words is what of a line goes into the index.
func words(line []byte, k kind) []byte {
	if k == markup && bytes.IndexByte(line, '&') >= 0 {
		return []byte(stdhtml.UnescapeString(string(line)))
	}
	return line
}

// shown is what of a line people get to see: its longest run without tags, control
// characters and invalid UTF-8. It is contained verbatim in the line. "" if nothing is
// left but spaces.
func shown(line []byte, k kind) string {
	best, start := []byte(nil), 0
	end := func(i int) {
		if i-start > len(best) {
			best = line[start:i]
		}
	}
	for i := 0; i < len(line); {
		r, n := utf8.DecodeRune(line[i:])
		if r == utf8.RuneError && n == 1 || unseen(r) {
			if r == 0 && k == markup {
				best, start = longer(best, line[start:i]), i+n
			} else {
				end(i)
				start = i + n
			}
		}
		i += n
	}
	if k == markup {
		return string(longer(best, line[start:]))
	}
	end(len(line))
	return strings.TrimRight(string(best), " \t")
}

// longer returns the one of a and b that is longer without the spaces around it.
func longer(a, b []byte) []byte {
	if b = bytes.TrimSpace(b); len(b) > len(a) {
		return b
	}
	return a
}

// unseen says whether r is a character that could deceive a reader or drive a
// terminal: control characters but tab, and those that change the direction of text.
func unseen(r rune) bool {
	switch {
	case r == '\t':
		return false
	case r < 0x20, r >= 0x7f && r <= 0x9f:
		return true
	case r < 0x61c:
		return false
	}
	return r == 0x61c || r == 0x200e || r == 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 ||
		r == 0xfeff || r >= 0xe0000 && r <= 0xe007f
}
