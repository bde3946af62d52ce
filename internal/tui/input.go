package tui

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// settle is how long a question is on the screen before it accepts an answer: no user reads faster, so earlier input was meant for something else.
const settle = 400 * time.Millisecond

// input is standard input. Its methods are called by one goroutine at a time.
type input struct {
	r     io.Reader
	fd    int // of a terminal, -1 if it is none
	once  sync.Once
	parts chan typed // closed at the end of input
	rest  []byte     // read and not used yet
	since time.Time  // what came before that is dropped
}

// typed is the result of one read.
type typed struct {
	text []byte
	at   time.Time
	end  bool // Ctrl-D
}

// read starts the goroutine that reads. It ends with the input or the process: a read from a terminal cannot be
// broken off.
func (i *input) read() <-chan typed {
	i.once.Do(func() {
		i.parts = make(chan typed)
		go func() {
			defer close(i.parts)
			for {
				buf := make([]byte, 4096)
				n, err := i.r.Read(buf)
				if n > 0 {
					i.parts <- typed{text: buf[:n], at: time.Now()}
				}
				switch {
				case errors.Is(err, io.EOF) && i.fd >= 0: // a terminal goes on after it
					i.parts <- typed{at: time.Now(), end: true}
				case err != nil:
					return
				}
			}
		}()
	})
	return i.parts
}

// fresh waits until a question has been on the screen long enough, and discards all earlier input. It returns false if ctx ends.
func (i *input) fresh(ctx context.Context) (ok bool) {
	if i.fd < 0 {
		return true
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(settle):
	}
	_ = flushInput(i.fd) // where that is not possible, what was read too early is dropped all the same
	i.rest, i.since = nil, time.Now()
	return true
}

// more returns the next input. It returns false at the end of the input, after Ctrl-D, and when ctx ends.
func (i *input) more(ctx context.Context) (text []byte, ok bool) {
	if len(i.rest) > 0 {
		text, i.rest = i.rest, nil
		return text, true
	}
	for {
		select {
		case <-ctx.Done():
			return nil, false
		case t, ok := <-i.read():
			if !ok {
				return nil, false
			}
			if t.at.Before(i.since) {
				continue
			}
			return t.text, !t.end
		}
	}
}

// line reads a line, without its end. It is not ok at the end of the input, and when ctx ends.
func (i *input) line(ctx context.Context) (line string, ok bool) {
	var b []byte
	for {
		text, ok := i.more(ctx)
		if !ok {
			return string(b), len(b) > 0
		}
		b = append(b, text...)
		if line, rest, ended := strings.Cut(string(b), "\n"); ended {
			i.rest = []byte(rest)
			return strings.TrimSuffix(line, "\r"), true
		}
	}
}

// keyed reads a line from a terminal that passes on every key, and calls show with the partial line after each.
func (i *input) keyed(ctx context.Context, show func(line string)) (line string, ok bool) {
	var b []byte
	for {
		show(string(b))
		text, ok := i.more(ctx)
		if !ok {
			return "", false
		}
		for n := 0; n < len(text); n++ {
			switch c := text[n]; c {
			case '\r', '\n':
				i.rest = text[n+1:]
				return strings.ToValidUTF8(string(b), ""), true
			case 4: // Ctrl-D
				if len(b) == 0 {
					i.rest = text[n+1:]
					return "", false
				}
			case 8, 127: // backspace
				_, last := utf8.DecodeLastRune(b)
				b = b[:len(b)-last]
			case 21: // Ctrl-U
				b = b[:0]
			case 23: // Ctrl-W
				b = b[:strings.LastIndexByte(strings.TrimRight(string(b), " "), ' ')+1]
			case 27: // an escape sequence, such as of an arrow
				n += escape(text[n+1:])
			case '\t':
				b = append(b, ' ')
			default:
				if c >= ' ' {
					b = append(b, c)
				}
			}
		}
	}
}

// escape returns the length of an escape sequence after its first character.
func escape(b []byte) int {
	switch {
	case len(b) == 0:
		return 0
	case b[0] == 'O':
		return min(2, len(b))
	case b[0] != '[':
		return 0
	}
	for n := 1; n < len(b); n++ {
		if b[n] >= '@' && b[n] <= '~' {
			return n + 1
		}
	}
	return len(b)
}
