package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// An Event is one event of a stream.
type Event struct {
	// Name is the server's name for the event: "error" if it was sent as an error, and "" for most
	// others.
	Name string
	// Data is text that begins like a JSON object and may yet be cut or broken, or anything at
	// all for an error. It is overwritten by the next event.
	Data []byte
}

// events reads a body of server-sent events: bounded, without comments. It also takes what
// servers send instead: events without blank lines between them, "error:" lines, and a
// whole JSON document in place of a stream. "[DONE]" ends the stream.
type events struct {
	body  *source
	lines *bufio.Reader

	line    []byte  // scratch
	data    []byte  // of the event being read
	name    string  // of the event being read
	balance Balance // of data
	bare    bool    // data is a JSON document without "data:"

	out   Event // to be returned
	ready bool  // there is one
	done  bool  // [DONE] has arrived
	err   error // after out
}

func newEvents(body *source) *events {
	return &events{body: body, lines: bufio.NewReaderSize(body, 16<<10)}
}

// next returns the next event. io.EOF is a stream that ended in order.
func (e *events) next() (*Event, error) {
	for !e.ready {
		if e.err != nil {
			return nil, e.err
		}
		e.err = e.read()
	}
	e.ready = false
	return &e.out, nil
}

// read reads a line. At the end of the body what is pending is an event too: if it was
// cut, it is not JSON.
func (e *events) read() error {
	e.line = e.line[:0]
	var err error
	for {
		var part []byte
		part, err = e.lines.ReadSlice('\n')
		if len(e.line)+len(part) > maxLine {
			return fmt.Errorf("%w: a line of the stream is longer than %d MiB", errTooLarge, maxLine>>20)
		}
		e.line = append(e.line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			break
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if bad := e.take(bytes.TrimRight(e.line, "\r\n")); bad != nil {
		return bad
	}
	if err != nil && !e.done {
		e.dispatch()
	}
	if e.done {
		return io.EOF
	}
	return err
}

// take handles a line. At most one event is ready after it.
func (e *events) take(line []byte) error {
	if e.bare || (len(e.data) == 0 && bytes.HasPrefix(bytes.TrimSpace(line), []byte("{"))) {
		e.bare = true
		return e.gather(line)
	}
	if len(bytes.TrimSpace(line)) == 0 {
		e.dispatch()
		return nil
	}
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimSpace(value)
	switch string(field) {
	case "data":
		return e.gather(value)
	case "error":
		e.name = "error"
		return e.gather(value)
	case "event":
		e.name = string(value[:min(len(value), 100)])
	}
	return nil
}

func (e *events) gather(value []byte) error {
	if len(e.data)+len(value) > maxLine {
		return fmt.Errorf("%w: an event of the stream is larger than %d MiB", errTooLarge, maxLine>>20)
	}
	if len(e.data) > 0 {
		e.data = append(e.data, ' ')
	}
	e.data = append(e.data, value...)
	if string(e.data) == "[DONE]" {
		e.dispatch()
		return nil
	}
	if len(e.data) > 0 && e.data[0] != '{' && !e.bare && e.name != "error" {
		return Malformed(fmt.Sprintf("the stream holds %q where a JSON object belongs", Clip(string(e.data), 60)))
	}
	if e.balance.Feed(value); e.balance.Closed() {
		e.dispatch()
	}
	return nil
}

// dispatch makes the pending data ready.
func (e *events) dispatch() {
	data := bytes.TrimSpace(e.data)
	switch {
	case len(data) == 0:
	case string(data) == "[DONE]" && e.name != "error":
		e.done = true
	default:
		e.out, e.ready = Event{Name: e.name, Data: data}, true
	}
	// The data is left where it is until the next event is asked for.
	e.data, e.name, e.bare, e.balance = e.data[:0], "", false, Balance{}
}

// A Balance counts the braces of JSON text to detect when an object is closed. It does not check
// the text.
type Balance struct {
	depth        int
	text, escape bool // inside a string, after its backslash
	began        bool
}

// Feed adds more of the text.
func (b *Balance) Feed(s []byte) {
	for _, c := range s {
		switch {
		case b.escape:
			b.escape = false
		case b.text:
			b.escape = c == '\\'
			b.text = c != '"'
		case c == '"':
			b.text = true
		case c == '{' || c == '[':
			b.depth++
			b.began = true
		case c == '}' || c == ']':
			b.depth--
		}
	}
}

// Closed reports whether an object or a list was opened, and all of them are closed.
func (b *Balance) Closed() bool { return b.began && b.depth <= 0 && !b.text }
