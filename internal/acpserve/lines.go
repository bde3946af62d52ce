package acpserve

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"sync"
)

// mostLine is how many bytes a message of the client may have. The connection would end at 10 MiB.
const mostLine = 8 << 20

// filter copies the messages of the client, one a line, and answers those that are none, so that rubbish ends nothing.
func filter(in io.Reader, out io.Writer, answers io.Writer) error {
	r := bufio.NewReaderSize(in, 64<<10)
	var line []byte
	for long := false; ; {
		part, err := r.ReadSlice('\n')
		if long = long || len(line)+len(part) > mostLine; !long {
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		line = bytes.TrimSpace(line)
		var message struct {
			ID     json.RawMessage
			Method string
		}
		refusal := ""
		switch {
		case long:
			refusal = `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"a message may have 8 MiB"}}`
		case len(line) == 0:
		case !json.Valid(line):
			refusal = `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"a line is not JSON"}}`
		case json.Unmarshal(line, &message) != nil || message.ID == nil && message.Method == "":
			refusal = `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"a line is no request, notification or answer"}}`
		default:
			if _, werr := out.Write(append(line, '\n')); werr != nil {
				return werr
			}
		}
		if refusal != "" {
			if _, werr := io.WriteString(answers, refusal+"\n"); werr != nil {
				return werr
			}
		}
		if err != nil {
			return err
		}
		line, long = line[:0], false
	}
}

// A writer writes whole messages. Its methods may be called from several goroutines.
type writer struct {
	mu   sync.Mutex
	w    io.Writer
	then map[string]func()
}

// after calls f on a goroutine of its own once a message that contains mark is written.
func (w *writer) after(mark string, f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.then == nil {
		w.then = map[string]func(){}
	}
	w.then[mark] = f
}

func (w *writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.w.Write(p)
	for mark, f := range w.then {
		if bytes.Contains(p, []byte(mark)) {
			delete(w.then, mark)
			go f()
		}
	}
	return n, err
}
