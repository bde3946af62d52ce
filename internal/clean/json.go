package clean

import (
	"bytes"
	"encoding/json"
	"strings"
)

// JSON formats JSON for display, also the beginning of a document: the texts in it are in quotes and else as they are, with br for their line breaks.
func JSON(raw []byte, br string) string {
	var b strings.Builder
	for len(raw) > 0 {
		begin := bytes.IndexByte(raw, '"')
		if begin < 0 {
			b.Write(raw)
			break
		}
		end := begin + 1
		for end < len(raw) && raw[end] != '"' {
			if raw[end] == '\\' {
				end++
			}
			end++
		}
		end = min(end, len(raw))
		s := string(raw[begin+1 : end])
		for n := end; n > begin && n > end-len(`\u0000`); n-- { // the document may end within an escape
			if json.Unmarshal(append(raw[begin:n:n], '"'), &s) == nil {
				break
			}
		}
		b.Write(raw[:begin+1])
		b.WriteString(strings.ReplaceAll(Text(s), "\n", br))
		if end < len(raw) {
			b.WriteByte('"')
			end++
		}
		raw = raw[end:]
	}
	return Text(b.String())
}
