package pregel

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Path returns the identity of a task as it stands in logs: the vertex, the key of the instance in
// brackets if there is one, and the visit after # if it is not the first. It names the position of
// the task in the graph and does not depend on time:
//
//	write    researcher[gc-pacer]    search#2
//
// Characters of a key that would be ambiguous, and bytes that are no text, are percent-encoded.
func Path(vertex, key string, visit int) string {
	if key == "" && visit == 0 {
		return vertex
	}
	var b strings.Builder
	b.WriteString(vertex)
	if key != "" {
		b.WriteByte('[')
		for i, r := range key {
			switch {
			case r < ' ' || r == 0x7f || strings.ContainsRune("[]#/%", r), r == utf8.RuneError && !strings.HasPrefix(key[i:], "\uFFFD"):
				fmt.Fprintf(&b, "%%%02X", key[i])
			default:
				b.WriteRune(r)
			}
		}
		b.WriteByte(']')
	}
	if visit > 0 {
		b.WriteByte('#')
		b.WriteString(strconv.Itoa(visit))
	}
	return b.String()
}

// VertexOf returns the vertex of a path that Path returned.
func VertexOf(path string) string {
	if i := strings.IndexAny(path, "[#"); i >= 0 {
		path = path[:i]
	}
	return path
}
