package tui

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"

	"github.com/superstep-dev/superstep/internal/transcript"
)

// markdown renders a text for the terminal behind standard output: headings, emphasis, code, quotes and lists are styled, and places such as
// src/x.go:12-20 of files below dir, which may be "", are links. The text stays unchanged if escape sequences are not allowed or the reader is a
// program.
func (c *Screen) markdown(s, dir string) string {
	s = transcript.Clean(s)
	if !c.OutTTY || c.Out == "" || c.Plain {
		return c.broken(s, c.OutTTY)
	}
	width, _ := c.size()
	src := []byte(s)
	p := &page{src: src, dir: dir}
	return strings.Join(p.blocks(goldmark.New().Parser().Parse(text.NewReader(src)), width), "\n")
}

// A page is a Markdown text on its way to a terminal.
type page struct {
	src []byte
	dir string
}

// blocks returns the lines of the blocks in a node, with an empty line between two of them, but not
// in a list without empty lines.
func (p *page) blocks(n ast.Node, width int) []string {
	list, _ := n.(*ast.List)
	_, tight := n.FirstChild().(*ast.TextBlock)
	tight = tight || list != nil && list.IsTight
	var out []string
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		lines := p.block(c, width)
		if len(out) > 0 && len(lines) > 0 && !tight {
			out = append(out, "")
		}
		out = append(out, lines...)
	}
	return out
}

func (p *page) block(n ast.Node, width int) []string {
	pal := Usual
	switch n := n.(type) {
	case *ast.Heading:
		return wrapped(pal.Bold(p.inline(n)), width)
	case *ast.Paragraph, *ast.TextBlock:
		return wrapped(p.inline(n), width)
	case *ast.Blockquote:
		return indented(p.blocks(n, width-2), pal.Dim("│")+" ", pal.Dim("│")+" ")
	case *ast.List:
		return p.blocks(n, width)
	case *ast.ListItem:
		mark := "• "
		if l, ok := n.Parent().(*ast.List); ok && l.IsOrdered() {
			i := l.Start
			for c := n.PreviousSibling(); c != nil; c = c.PreviousSibling() {
				i++
			}
			mark = fmt.Sprintf("%d. ", i)
		}
		return indented(p.blocks(n, width-ansi.StringWidth(mark)), mark, strings.Repeat(" ", ansi.StringWidth(mark)))
	case *ast.ThematicBreak:
		return []string{pal.Dim(strings.Repeat("─", min(width-1, 40)))}
	}
	var out []string // code, and what is not for people to read
	for i := range n.Lines().Len() {
		l := n.Lines().At(i)
		out = append(out, strings.ReplaceAll(strings.TrimRight(string(l.Value(p.src)), "\n"), "\t", "    "))
	}
	if h, ok := n.(*ast.HTMLBlock); ok && h.HasClosure() {
		out = append(out, strings.TrimRight(string(h.ClosureLine.Value(p.src)), "\n"))
	}
	return indented(out, "  ", "  ")
}

// inline returns the text in a block, styled, with the line breaks of the source.
func (p *page) inline(n ast.Node) string {
	pal := Usual
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		switch c := c.(type) {
		case *ast.Text:
			b.WriteString(p.linked(string(c.Segment.Value(p.src)), place))
			if c.SoftLineBreak() || c.HardLineBreak() {
				b.WriteByte('\n')
			}
		case *ast.String:
			b.Write(c.Value)
		case *ast.CodeSpan:
			b.WriteString(pal.sgr("36", p.span(c)))
		case *ast.Emphasis:
			b.WriteString(pal.sgr(map[int]string{1: "3", 2: "1"}[min(c.Level, 2)], p.inline(c)))
		case *ast.Link:
			b.WriteString(hyperlink(string(c.Destination), p.inline(c)))
		case *ast.Image:
			b.WriteString(hyperlink(string(c.Destination), p.inline(c)))
		case *ast.AutoLink:
			b.WriteString(hyperlink(string(c.URL(p.src)), string(c.Label(p.src))))
		case *ast.RawHTML:
			for i := range c.Segments.Len() {
				l := c.Segments.At(i)
				b.Write(l.Value(p.src))
			}
		default:
			b.WriteString(p.inline(c))
		}
	}
	return b.String()
}

// hyperlink creates a link from a text. If the text is not the address itself, the address follows, so that no link can hide its target.
func hyperlink(to, label string) string {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		if to == "" || to == label {
			return label
		}
		return label + " (" + to + ")"
	}
	link := ansi.SetHyperlink(u.String()) + label + ansi.ResetHyperlink()
	if ansi.Strip(label) != to {
		link += Usual.Dim(" (" + to + ")")
	}
	return link
}

// place matches a citation: a file with line numbers. In a span of code, the file name may contain blanks.
var (
	place     = regexp.MustCompile(`([\pL\pN_.@+/-]+):(\d+)(?:-\d+)?`)
	spanPlace = regexp.MustCompile(`^(.+):(\d+)(?:-\d+)?$`)
)

// span returns a span of code.
func (p *page) span(n *ast.CodeSpan) string {
	if only, ok := n.FirstChild().(*ast.Text); ok && only.NextSibling() == nil {
		s := string(only.Segment.Value(p.src))
		if linked := p.linked(s, spanPlace); linked != s {
			return linked
		}
	}
	return p.inline(n)
}

// linked turns into links the places in a text whose files are there.
func (p *page) linked(s string, place *regexp.Regexp) string {
	if p.dir == "" {
		return s
	}
	return place.ReplaceAllStringFunc(s, func(at string) string {
		m := place.FindStringSubmatch(at)
		name := filepath.FromSlash(m[1])
		if !filepath.IsLocal(name) {
			return at
		}
		file := filepath.Join(p.dir, name)
		if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
			return at
		}
		u := url.URL{Scheme: "file", Path: filepath.ToSlash(file), Fragment: "L" + m[2]}
		return ansi.SetHyperlink(u.String()) + at + ansi.ResetHyperlink()
	})
}

func wrapped(s string, width int) []string {
	return strings.Split(ansi.Wordwrap(s, max(20, width), ""), "\n")
}

func indented(lines []string, first, rest string) []string {
	for i, l := range lines {
		if lines[i] = rest + l; i == 0 {
			lines[i] = first + l
		}
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return lines
}
