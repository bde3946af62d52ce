package script

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

var inBundle = regexp.MustCompile(`superstep-bundle\.mjs:(\d{1,9}):(\d{1,9})`)

// frame returns the first place of a stack that somebody of the project wrote, as
// "file:line:column", "" if there is none or the map of the bundle does not know.
func (b *bundle) frame(stack string) string {
	places := inBundle.FindAllStringSubmatch(stack, 50)
	if len(places) == 0 {
		return ""
	}
	var m struct {
		Sources  []string
		Mappings string
	}
	if json.Unmarshal(b.sourceMap, &m) != nil {
		return ""
	}
	lines := strings.Split(m.Mappings, ";")
	for _, p := range places {
		line, _ := strconv.Atoi(p[1])
		column, _ := strconv.Atoi(p[2])
		file, l, c, ok := lookup(lines, m.Sources, line-1, column-1)
		if ok && !strings.Contains(file, "node_modules/") {
			return fmt.Sprintf("%s:%d:%d", file, l+1, c+1)
		}
	}
	return ""
}

// lookup finds a place of a generated text in a source map of version 3; all counts from 0.
func lookup(lines, sources []string, line, column int) (file string, l, c int, ok bool) {
	if line < 0 || line >= len(lines) {
		return "", 0, 0, false
	}
	var source, sl, sc int
	for i := 0; i <= line; i++ {
		at := 0
		for segment := range strings.SplitSeq(lines[i], ",") {
			f := vlq(segment)
			if len(f) == 0 {
				continue
			}
			at += f[0]
			if i == line && at > column {
				break
			}
			if len(f) < 4 {
				continue
			}
			source, sl, sc = source+f[1], sl+f[2], sc+f[3]
			if i == line && source >= 0 && source < len(sources) {
				file, l, c, ok = sources[source], sl, sc, true
			}
		}
	}
	return file, l, c, ok
}

// vlq decodes the numbers of a segment: base 64, five bits a digit, the sign in the lowest.
func vlq(s string) []int {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	var out []int
	var v, shift int
	for i := range len(s) {
		d := strings.IndexByte(digits, s[i])
		if d < 0 || shift > 30 {
			return nil
		}
		v |= d & 31 << shift
		shift += 5
		if d&32 == 0 {
			if v&1 == 1 {
				v = -v
			}
			out = append(out, v/2)
			v, shift = 0, 0
		}
	}
	return out
}
