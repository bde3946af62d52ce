package openai

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// events reads a body of server-sent events and gives the library what it can read:
// one line of JSON per event, bounded, without comments, and with errors in a form it
// passes on untouched. It also takes what servers send instead: events without blank
// lines between them, "error:" lines, and a whole JSON document in place of a stream.
type events struct {
	body  *source
	lines *bufio.Reader

	line    []byte  // scratch
	data    []byte  // of the event being read
	balance balance // of data
	bare    bool    // data is a JSON document without "data:"
	failure bool    // the event is an error

	out  []byte // ready for Read
	done bool   // [DONE] has arrived
	err  error  // after out
}

func newEvents(body *source) *events {
	return &events{body: body, lines: bufio.NewReaderSize(body, 16<<10)}
}

// Read implements io.Reader.
func (e *events) Read(p []byte) (int, error) {
	for len(e.out) == 0 {
		if e.err != nil {
			return 0, e.err
		}
		e.err = e.next()
	}
	n := copy(p, e.out)
	e.out = e.out[n:]
	return n, nil
}

// Close closes the body.
func (e *events) Close() error { return e.body.Close() }

// next reads a line. At the end of the body what is pending is an event too: if it was
// cut, it is not JSON.
func (e *events) next() error {
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
		if bad := e.dispatch(); bad != nil {
			return bad
		}
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
		return e.dispatch()
	}
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimSpace(value)
	switch string(field) {
	case "data":
		return e.gather(value)
	case "error":
		e.failure = true
		return e.gather(value)
	case "event":
		e.failure = string(value) == "error"
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
		return e.dispatch()
	}
	if len(e.data) > 0 && e.data[0] != '{' && !e.bare && !e.failure {
		return malformedError(fmt.Sprintf("the stream holds %q where a JSON object belongs", clip(string(e.data), 60)))
	}
	if e.balance.feed(value); e.balance.closed() {
		return e.dispatch()
	}
	return nil
}

// dispatch makes the pending data ready. The space after the brace keeps the library
// from handling errors itself: it would wait for one more line.
func (e *events) dispatch() error {
	data, failure := bytes.TrimSpace(e.data), e.failure
	if len(data) == 0 {
		return nil
	}
	switch {
	case failure:
		if !json.Valid(data) {
			data, _ = json.Marshal(string(data)) // strings always can
		}
		e.out = append(append(append(e.out[:0], `data: { "error":`...), data...), "}\n"...)
	case string(data) == "[DONE]":
		e.done = true
		e.out = append(e.out[:0], "data: [DONE]\n"...)
	default:
		e.out = append(append(append(e.out[:0], "data: { "...), data[1:]...), '\n')
	}
	e.data, e.failure, e.bare, e.balance = e.data[:0], false, false, balance{}
	return nil
}

// A balance follows the braces of JSON text to tell when an object is closed. It does
// not check the text.
type balance struct {
	depth        int
	text, escape bool // inside a string, after its backslash
	began        bool
}

func (b *balance) feed(s []byte) {
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

func (b *balance) closed() bool { return b.began && b.depth <= 0 && !b.text }
