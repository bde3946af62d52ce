package script

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// maxLine is the length of a line of a process, in bytes. Pieces of a result are much shorter.
const maxLine = 256 << 10

// A message is a line of a process: a piece of the text, or what the text was and how long.
type message struct {
	Type  string // chunk, result or failure
	Text  string
	Total int64
}

// readAnswer reads all lines of a process that begin with a mark, and returns the answer they form,
// or nil if there is none. All other output goes to log. It keeps at most limit bytes of a text,
// and reads on to the end of r in any case.
func readAnswer(r io.Reader, mark string, limit int, log func([]byte)) *answer {
	lines := bufio.NewReaderSize(r, maxLine)
	text := head{limit: limit}
	var a *answer
	for {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			log(line)
			continue // the rest of the line has no mark, and goes the same way
		}
		rest, marked := bytes.CutPrefix(line, []byte(mark+" "))
		var m message
		switch {
		case !marked || json.Unmarshal(rest, &m) != nil:
			log(line)
		case a != nil: // there is one answer, the first
		case m.Type == "chunk":
			_, _ = text.Write([]byte(m.Text))
		case m.Type == "result":
			a = &answer{text: text.text()}
			a.dropped = max(text.dropped, m.Total-int64(len(a.text)))
		case m.Type == "failure":
			f := new(thrown)
			if json.Unmarshal(text.kept, f) != nil {
				f.Message = "the tool failed without saying why"
			}
			a = &answer{failure: f}
		}
		if err != nil {
			return a
		}
	}
}
