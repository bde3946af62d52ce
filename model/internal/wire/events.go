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

	rest  []byte // of the line, behind an event
	ends  byte   // what a line ends with; 0 before the first
	odd   int    // events on end that are no objects
	first string // of them, while there was no object

	out   Event // to be returned
	ready bool  // there is one
	some  bool  // there was one
	done  bool  // [DONE] has arrived
	err   error // after out
}

func newEvents(body *source) *events {
	return &events{body: body, lines: bufio.NewReaderSize(body, 16<<10)}
}

// next returns the next event. io.EOF is a stream that ended in order.
func (e *events) next() (*Event, error) {
	for !e.ready {
		if e.err != nil && len(e.rest) == 0 {
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
	if rest := e.rest; len(rest) > 0 {
		e.rest = nil
		return e.take(rest)
	}
	e.line = e.line[:0]
	var err error
	if e.ends == 0 {
		e.ends = e.ending()
	}
	for {
		var part []byte
		part, err = e.lines.ReadSlice(e.ends)
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
	switch {
	case e.done:
		return io.EOF
	case err != nil && e.first != "" && !e.some:
		return noObject(e.first)
	}
	return err
}

func noObject(text string) error {
	return Malformed(fmt.Sprintf("the stream holds %q where a JSON object belongs", Clip(text, 60)))
}

// ending returns what ends the lines of the stream: a carriage return if the first one ends with that alone.
func (e *events) ending() byte {
	_, _ = e.lines.Peek(1) // an error comes again
	begin, _ := e.lines.Peek(e.lines.Buffered())
	if i := bytes.IndexAny(begin, "\r\n"); i >= 0 && i+1 < len(begin) && begin[i] == '\r' && begin[i+1] != '\n' {
		return '\r'
	}
	return '\n'
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
	if len(e.data) > 0 && e.data[0] != '{' && !e.bare && e.name != "error" { // such as null and ping, as signs of life
		if e.odd++; e.odd >= mostOdd {
			return noObject(string(e.data))
		}
		if !e.some && e.first == "" {
			e.first = string(e.data[:min(len(e.data), maxErrorBody)])
		}
		e.data = e.data[:0]
		return nil
	}
	if n := e.balance.Feed(value); e.balance.Closed() {
		if glued := bytes.TrimSpace(value[n:]); !e.bare && bytes.HasPrefix(glued, []byte("data:")) {
			e.data, e.rest = e.data[:len(e.data)-len(value)+n], glued
		}
		e.odd = 0
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
		e.out, e.ready, e.some = Event{Name: e.name, Data: data}, true, true
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

// Feed adds more of the text, and returns how much of it was within the object.
func (b *Balance) Feed(s []byte) int {
	for i, c := range s {
		if b.Closed() {
			return i
		}
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
	return len(s)
}

// Closed reports whether an object or a list was opened, and all of them are closed.
func (b *Balance) Closed() bool { return b.began && b.depth <= 0 && !b.text }
