package recipe

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

// maxValues bounds the lists, maps, texts and so on of a file: thirty for each of a thousand steps.
const maxValues = 30_000

// load reads the text as YAML. It returns nil if nothing is left to check further.
func (p *reading) load(text []byte) *yaml.Node {
	if !p.readable(text) {
		return nil
	}
	limits := loaderlimits.New(loaderlimits.DepthValue(2*maxDepth), loaderlimits.AliasNone())
	l, err := yaml.NewLoader(bytes.NewReader(text), yaml.WithPlugin(limits))
	if err != nil {
		p.add(Pos{}, codeSyntax, "the YAML reader does not start: %v", err)
		return nil
	}
	var doc, second yaml.Node
	switch err = l.Load(&doc); {
	case errors.Is(err, io.EOF):
		p.add(Pos{1, 1}, codeEmpty, "the %s is empty; it needs %s", p.noun, p.needs)
		return nil
	case err != nil:
		p.syntax(err)
		return nil
	}
	switch err = l.Load(&second); {
	case errors.Is(err, io.EOF):
	case err != nil:
		p.syntax(err)
	default:
		p.add(posOf(&second), codeDocuments, "a second document starts here; one %s per file", p.noun)
	}
	if len(doc.Content) == 0 {
		return nil
	}
	root := doc.Content[0]
	p.tree(root, 1)
	if root.Kind == yaml.ScalarNode && root.Value == "" && root.Style == 0 {
		p.add(Pos{1, 1}, codeEmpty, "the %s is empty; it needs %s", p.noun, p.needs)
		return nil
	}
	return root
}

// readable checks the text before it is parsed as YAML.
func (p *reading) readable(text []byte) bool {
	if len(text) > MaxBytes {
		p.add(Pos{}, codeLarge, "the %s is over 1 MiB (%d bytes); shorten its texts, or have steps read files", p.noun, len(text))
		return false
	}
	if bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) {
		p.add(Pos{1, 1}, codeEncoding, "the file must be UTF-8; bad byte at offset 0 (this is UTF-16: save it as UTF-8)")
		return false
	}
	if len(bytes.TrimSpace(bytes.TrimPrefix(text, []byte("\ufeff")))) == 0 {
		p.add(Pos{1, 1}, codeEmpty, "the %s is empty; it needs %s", p.noun, p.needs)
		return false
	}
	fine, line, col := true, 1, 1
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			p.add(Pos{line, col}, codeEncoding, "the file must be UTF-8; bad byte at offset %d", i)
			return false
		case unicode.IsControl(r) && r != '\t' && r != '\n' && r != '\r' && r != '\u0085' || r == '\ufeff' && i > 0:
			p.add(Pos{line, col}, codeControl, "control character %U; in a text in double quotes it is written as an escape, such as \\u%04x", r, r)
			fine = false
		}
		switch k := lineBreak(text[i:]); {
		case k > 0:
			i, line, col = i+k, line+1, 1
		case i == 0 && r == '\ufeff':
			i += n
		default:
			i, col = i+n, col+1
		}
		if p.full() {
			return false
		}
	}
	if n := values(text); fine && n > maxValues {
		p.add(Pos{}, codeValues, "over %d values; a recipe is steps and texts: have steps read lists from files", maxValues)
		return false
	}
	return fine
}

// values estimates the number of lists, maps and scalars in a text before it is parsed. The
// estimate is at least a third of the real number, and at most the number of line ends, commas,
// brackets and quotes outside block scalars.
func values(text []byte) int {
	n, block := 0, -1
	for line := range bytes.Lines(text) {
		body := bytes.TrimLeft(line, " ")
		indent := len(line) - len(body)
		body = bytes.TrimSpace(body)
		if len(body) == 0 || block >= 0 && indent > block {
			continue
		}
		block = -1
		if body[0] == '#' {
			continue
		}
		count := func(s string) int { return bytes.Count(body, []byte(s)) }
		n += 1 + count(",") + count("[") + count("{")/2 + count(`"`)/8
		open := count(`"`)%2 == 1 || count("[") > count("]") || count("{") > count("}")
		if i := bytes.LastIndexAny(body, "|>"); i > 0 && !open && body[i-1] == ' ' && len(bytes.Trim(body[i+1:], "+-0123456789")) == 0 {
			block = indent
		}
	}
	return n
}

// end returns the position of the last character of the text that is not white space.
func (s *source) end() Pos {
	text := bytes.TrimRightFunc(s.text, white)
	n := len(s.lines)
	for n > 1 && s.lines[n-1] >= len(text) {
		n--
	}
	return Pos{n, max(1, utf8.RuneCount(text[min(s.lines[n-1], len(text)):]))}
}

// tree reports constructs that are forbidden everywhere in a recipe: anchors, aliases, tags,
// duplicate keys, keys that are not text, and values that are nested too deeply.
func (p *reading) tree(n *yaml.Node, depth int) {
	if depth > maxDepth {
		p.add(posOf(n), codeDepth, "lists and maps more than %d deep in each other", maxDepth)
		return
	}
	switch {
	case p.full() || p.unquoted(n):
		return
	case n.Kind == yaml.AliasNode:
		p.add(posOf(n), codeAlias, "YAML aliases are not allowed; write the value out instead of *%s", n.Value)
		return
	case n.Anchor != "":
		p.add(posOf(n), codeAlias, "YAML anchors and aliases are not allowed; take away &%s, or quote a text that starts with &", n.Anchor)
	}
	switch tagged := n.Style&yaml.TaggedStyle != 0 || n.Tag == "!"; {
	case tagged && n.Kind == yaml.ScalarNode && (n.Value == "" && n.Tag != "!" || strings.ContainsAny(n.Tag, ".([")) && !strings.HasPrefix(n.Tag, "!!") &&
		!strings.HasPrefix(n.Tag, "tag:"):
		p.add(posOf(n), codeTag, "a text that starts with ! must be in quotes, it is a tag in YAML else")
		n.Value, n.Tag, n.Style = strings.TrimRight(n.Tag+" "+n.Value, " "), "", n.Style&^yaml.TaggedStyle
	case tagged:
		p.add(posOf(n), codeTag, "YAML tags are not allowed; take away %s, and quote what is a text", n.Tag)
	}
	if n.Kind != yaml.MappingNode {
		for _, c := range n.Content {
			p.tree(c, depth+1)
		}
		return
	}
	first := make(map[string]*yaml.Node, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		p.key(k, depth)
		if k.Kind == yaml.ScalarNode {
			if f := first[k.Value]; f != nil {
				p.mark(k, codeDuplicate, "`%s` repeated, first at %d:%d", name(k.Value), f.Line, f.Column)
			} else {
				first[k.Value] = k
			}
		}
		p.tree(v, depth+1)
	}
}

func (p *reading) key(k *yaml.Node, depth int) {
	switch {
	case p.unquoted(k):
	case k.Kind != yaml.ScalarNode:
		if k.Kind != yaml.AliasNode {
			p.add(posOf(k), codeKey, "a key must be a text, not %s", kindOf(k))
		}
		p.tree(k, depth+1)
	case k.Value == "<<" && k.Style == 0:
		p.mark(k, codeAlias, "YAML merge keys are not allowed; write the fields out")
	default:
		p.tree(k, depth+1)
		if kind := scalarOf(k).kind; kind != isText {
			p.mark(k, codeKey, "the key %s is %s; quote it", name(k.Value), kind)
		}
	}
}

// name returns a name, or another short text of the file, for a message.
func name(s string) string { return oneLine(s, 80) }

// quoted returns a value for a message.
func quoted(s string) string { return fmt.Sprintf("%q", oneLine(s, 60)) }
