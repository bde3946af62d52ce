package docindex

import (
	"bytes"
	"compress/gzip"
	"errors"
	stdhtml "html"
	"io"
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

const (
	sniffed   = 8000    // bytes looked at to tell text from binary, as Git does
	manyLines = 1 << 19 // in a file; what follows is data
	longLine  = 1 << 20 // bytes of a line that are indexed
)

// kindOf returns the kind of a file from its name: notText if such files are not indexed. A file
// without an extension may be text; looksBinary decides.
func kindOf(name string) kind {
	base := strings.TrimSuffix(path.Base(name), ".gz")
	name = strings.ToLower(base)
	ext := path.Ext(name)
	if ext == "" || ext == name { // README, Makefile, .bashrc
		return prose
	}
	if k := kinds[ext[1:]]; k != notText {
		return k
	}
	if stem := strings.TrimSuffix(name, ext); strings.Contains(" readme news faq todo install changes changelog hacking ", " "+stem+" ") { // README.Debian
		return prose
	}
	return notText
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

// Text returns the clean text of a file by line. HTML is reduced to its visible text, without tags
// and with entities resolved. A file whose name ends in .gz is unpacked. Text beyond 16 MiB is cut
// off.
func Text(name string, raw []byte) [][]byte {
	raw, _ = unpacked(name, raw[:min(len(raw), maxFile)])
	lines := linesOf(kindOf(name), raw, nil)
	out := make([][]byte, len(lines))
	for i, l := range lines {
		out[i] = l.text
	}
	return out
}

var errTooLarge = errors.New("too large")

// BriefMark is the last line of a brief that the workflow research wrote. Briefs are not indexed as
// documents.
const BriefMark = "<!-- superstep: brief -->"

// IsBrief reports whether a text ends as a brief does.
func IsBrief(text []byte) bool {
	return bytes.HasSuffix(bytes.TrimSpace(text[max(0, len(text)-200):]), []byte(BriefMark))
}

// unpacked returns the content of a file that may be compressed.
func unpacked(name string, raw []byte) ([]byte, error) {
	if !packed(name) {
		return raw, nil
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	out, err := io.ReadAll(io.LimitReader(z, maxFile+1))
	if len(out) > maxFile {
		return out[:maxFile], errTooLarge
	}
	return out, err
}

func packed(name string) bool { return strings.HasSuffix(name, ".gz") }

// A line is a cleaned line of a file.
type line struct {
	text  []byte
	head  []byte // text of a heading in it
	level int    // of that
	block bool   // a block of text begins here
	code  bool   // it is part of a listing, whose blank lines do not end it
}

// linesOf cuts a file into lines, at most manyLines of them.
func linesOf(k kind, raw []byte, lines []line) []line {
	if k == markup {
		return cleanHTML(raw)
	}
	if lines = lines[:0]; lines == nil {
		lines = make([]line, 0, min(len(raw)/32, manyLines)+1)
	}
	for len(raw) > 0 && len(lines) < manyLines {
		text, rest, _ := bytes.Cut(raw, []byte("\n"))
		lines = append(lines, line{text: bytes.TrimSuffix(text, []byte("\r"))})
		raw = rest
	}
	return lines
}

// inlineTags are the HTML tags that do not begin a block of text.
const inlineTags = ` a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark nobr q rp rt ruby s samp small span
	strike strong sub sup time tt u var wbr `

// cleanHTML converts HTML to lines of visible text.
func cleanHTML(raw []byte) []line {
	z := html.NewTokenizer(bytes.NewReader(raw))
	z.SetMaxBuf(0)
	var lines []line
	cur := line{}
	level, pre, hidden, apart := 0, 0, "", false
	for len(lines) < manyLines {
		tt := z.Next()
		switch tt {
		case html.ErrorToken:
			if len(cur.text) > 0 {
				lines = append(lines, cur)
			}
			return lines
		case html.StartTagToken, html.EndTagToken, html.SelfClosingTagToken:
			b, _ := z.TagName()
			name, open := string(b), tt == html.StartTagToken
			n := bytes.Count(z.Raw(), []byte("\n"))
			if hidden != "" {
				if !open && name == hidden {
					hidden = ""
				}
				lines, cur = newLines(lines, cur, n, pre)
				continue
			}
			switch {
			case open && strings.Contains(" script style noscript svg nav template ", " "+name+" "):
				hidden = name
			case len(name) == 2 && name[0] == 'h' && name[1] >= '1' && name[1] <= '6' || name == "title":
				level = 0
				if open && name == "title" {
					level = 1
				} else if open {
					level = int(name[1] - '0')
				}
			case name == "pre":
				pre = max(0, pre-1)
				if open {
					pre++
				}
			}
			if !strings.Contains(inlineTags, " "+name+" ") {
				apart = true
				if len(bytes.TrimSpace(cur.text)) == 0 && name != "br" && name != "td" && name != "th" && name != "tr" {
					cur.block = true
				}
			}
			lines, cur = newLines(lines, cur, n, pre)
		case html.CommentToken, html.DoctypeToken:
			lines, cur = newLines(lines, cur, bytes.Count(z.Raw(), []byte("\n")), pre)
		case html.TextToken:
			text := z.Raw()
			for i := 0; ; i++ {
				l, rest, more := bytes.Cut(text, []byte("\n"))
				if hidden == "" && len(l) > 0 {
					if apart && len(cur.text) > 0 && len(bytes.TrimSpace(l)) > 0 {
						cur.text = append(cur.text, ' ')
					}
					apart = apart && len(bytes.TrimSpace(l)) == 0
					seen := stdhtml.UnescapeString(string(bytes.TrimSuffix(l, []byte("\r"))))
					cur.text = append(cur.text, seen...)
					if level > 0 {
						cur.head, cur.level = append(cur.head, seen...), level
					}
					cur.code = cur.code || pre > 0
				}
				if !more || len(lines) == manyLines {
					break
				}
				lines, cur = newLines(lines, cur, 1, pre)
				text = rest
			}
		}
	}
	return lines
}

func newLines(lines []line, cur line, n, pre int) ([]line, line) {
	for range min(n, manyLines-len(lines)) {
		lines = append(lines, cur)
		cur = line{block: cur.block && len(bytes.TrimSpace(cur.text)) == 0, code: pre > 0}
	}
	return lines, cur
}

// shown returns the part of a line that users see: its longest run without control characters and
// invalid UTF-8.
func shown(text []byte) string {
	best, start := []byte(nil), 0
	end := func(i int) {
		if i-start > len(best) {
			best = text[start:i]
		}
	}
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && n == 1 || unseen(r) {
			end(i)
			start = i + n
		}
		i += n
	}
	end(len(text))
	return strings.TrimRight(string(best), " \t")
}

// unseen reports whether r is a character that could deceive a reader or drive a
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
