package wire

import (
	"encoding/json"
	"strings"
	"time"
)

// A Problem is a server's description of a failure. As an error of a [Turn] it was sent instead of
// the rest of the stream. It is temporary if its status says so, or if it has no status and its
// code does not mean a permanent error.
type Problem struct {
	Code, Text string
	Status     int           // 0 for none
	RetryAfter time.Duration // 0 when it does not say
}

func (p *Problem) Error() string { return p.Text }

// ReadProblem reads the body of an error. Servers agree on little: an object with an
// error that is an object or a string, a message or a detail, a list of such objects,
// or plain text.
func ReadProblem(body []byte) *Problem {
	p := &Problem{}
	p.read(body, 0)
	if p.Text == "" {
		p.Text = strings.TrimSpace(string(body))
	}
	if p.Text == "" {
		p.Text = "the server gave no reason"
	}
	return p
}

func (p *Problem) read(raw json.RawMessage, depth int) {
	var text string
	var list []json.RawMessage
	fields := map[string]json.RawMessage{}
	switch {
	case depth > 4 || len(raw) == 0:
		return
	case json.Unmarshal(raw, &text) == nil:
		p.Text = text
		return
	case json.Unmarshal(raw, &list) == nil:
		if len(list) > 0 {
			p.read(list[0], depth+1)
		}
		return
	case json.Unmarshal(raw, &fields) != nil:
		return
	}
	for _, name := range []string{"type", "status", "code"} { // the last one that is there wins
		var number int
		if json.Unmarshal(fields[name], &text) == nil && text != "" {
			p.Code = text
		} else if json.Unmarshal(fields[name], &number) == nil && number >= 400 && number < 600 {
			p.Status = number
		}
	}
	for _, name := range []string{"detail", "message", "error"} {
		if fields[name] != nil && string(fields[name]) != "null" {
			p.read(fields[name], depth+1)
		}
	}
}
