package tui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/internal/transcript"
)

// A jsonNode is a value of a JSON document, as a tree that can be expanded.
type jsonNode struct {
	path  string // a JSON Pointer
	key   string
	value string // of one without children, on one line
	kids  []*jsonNode
	list  bool
	brief string // the beginning of one with children, on one line
}

// texts writes JSON, which may be cut off, on one line, with the texts in it as they are.
func texts(doc []byte) string {
	return transcript.Line(transcript.Texts(bytes.ToValidUTF8(doc, nil), " ⏎ "))
}

// treeOf parses a JSON document. Objects keep the order of their keys.
func treeOf(doc json.RawMessage) *jsonNode {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	n := &jsonNode{}
	if err := n.read(d, doc); err != nil {
		n.value = transcript.Line(string(doc))
	}
	return n
}

func (n *jsonNode) read(d *json.Decoder, doc json.RawMessage) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	open, nested := token.(json.Delim)
	if !nested {
		text, err := json.Marshal(token)
		n.value = texts(text)
		return err
	}
	n.list = open == '['
	begin := int(d.InputOffset()) - 1
	for i := 0; d.More(); i++ {
		raw, key := fmt.Sprint(i), fmt.Sprint(i)
		if !n.list {
			name, err := d.Token()
			if err != nil {
				return err
			}
			raw = fmt.Sprint(name)
			key = transcript.Line(raw)
		}
		kid := &jsonNode{path: n.path + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(raw), key: key}
		if err := kid.read(d, doc); err != nil {
			return err
		}
		n.kids = append(n.kids, kid)
	}
	if len(n.kids) == 0 {
		n.value = map[bool]string{true: "[]", false: "{}"}[n.list]
	}
	if _, err = d.Token(); err == nil {
		n.brief = texts(doc[begin:min(int(d.InputOffset()), begin+200)])
	}
	return err
}

// line is the node on one line: its value, or how many are in it and, of one that is not expanded, how they begin.
func (n *jsonNode) line(open bool) string {
	if len(n.kids) == 0 {
		return n.key + "  " + n.value
	}
	out := fmt.Sprintf("%s {%d}", n.key, len(n.kids))
	if n.list {
		out = fmt.Sprintf("%s [%d]", n.key, len(n.kids))
	}
	if !open {
		out += " " + n.brief
	}
	return out
}

// A treeLine is a line of a tree as it is shown.
type treeLine struct {
	node  *jsonNode
	depth int
}

// lines lists the nodes that are shown, those below expanded ones included.
func (n *jsonNode) lines(open map[string]bool, depth int) []treeLine {
	var out []treeLine
	for _, k := range n.kids {
		out = append(out, treeLine{k, depth})
		if open[k.path] {
			out = append(out, k.lines(open, depth+1)...)
		}
	}
	return out
}

// at returns the node at a path, nil if there is none.
func (n *jsonNode) at(path string) *jsonNode {
	for n != nil && n.path != path {
		i := slices.IndexFunc(n.kids, func(k *jsonNode) bool { return path == k.path || strings.HasPrefix(path, k.path+"/") })
		if i < 0 {
			return nil
		}
		n = n.kids[i]
	}
	return n
}

// A changeLine is a change of a state for people: what changed, and how.
type changeLine struct {
	sign       string // + ~ -
	path, text string
}

// changesOf lists what differs between two states, the first of which may be nil.
func changesOf(before, after json.RawMessage) []changeLine {
	if before == nil {
		before = json.RawMessage("{}")
	}
	changes, err := superstep.Diff(before, after)
	if err != nil {
		return []changeLine{{"!", "", transcript.Line(err.Error())}}
	}
	var out []changeLine
	for _, c := range changes {
		path := pointerWords(c.Path)
		was, is := texts(c.Before), texts(c.After)
		switch {
		case c.Before == nil:
			out = append(out, changeLine{"+", path, is})
		case c.After == nil:
			out = append(out, changeLine{"-", path, was})
		default:
			out = append(out, changeLine{"~", path, cut(was, 40) + " → " + is})
		}
	}
	return out
}

// pointerWords writes a JSON Pointer as people do: sources[3].url.
func pointerWords(pointer string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		part = transcript.Line(strings.NewReplacer("~1", "/", "~0", "~").Replace(part))
		if part != "" && strings.Trim(part, "0123456789") == "" {
			b.WriteString("[" + part + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(part)
	}
	return b.String()
}
