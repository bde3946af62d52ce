package pregel

import (
	"fmt"
	"strconv"
	"strings"
)

// Path returns the identity of a task as it stands in logs: the vertex, the key of the instance in
// brackets if there is one, and the visit after # if it is not the first. It names the position of
// the task in the graph and does not depend on time:
//
//	write    researcher[gc-pacer]    search#2
//
// Characters of a key that would be ambiguous are percent-encoded.
func Path(vertex, key string, visit int) string {
	if key == "" && visit == 0 {
		return vertex
	}
	var b strings.Builder
	b.WriteString(vertex)
	if key != "" {
		b.WriteByte('[')
		for i := range len(key) {
			if c := key[i]; c < ' ' || c == 0x7f || strings.IndexByte("[]#/%", c) >= 0 {
				fmt.Fprintf(&b, "%%%02X", c)
			} else {
				b.WriteByte(c)
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
