package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// read returns the events of a body, and how it ended, as text.
func read(r io.Reader) string {
	e := newEvents(&source{ctx: context.Background(), body: io.NopCloser(r), watch: newWatchdog(0, nil), left: 64 << 20})
	var b strings.Builder
	for {
		ev, err := e.next()
		if err != nil {
			fmt.Fprintf(&b, "%v done=%v", err, e.done)
			return b.String()
		}
		fmt.Fprintf(&b, "[%s]%s ", ev.Name, ev.Data)
	}
}

func TestEvents(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"nothing", "", "EOF done=false"},
		{"two", "data: {\"a\":1}\n\ndata: {\"b\":2}\n\n", `[]{"a":1} []{"b":2} EOF done=false`},
		{"names", "event: ping\ndata: {}\n\ndata: {}\n\n", `[ping]{} []{} EOF done=false`},
		{"a name without data is forgotten", "event: error\n\ndata: {}\n\n", `[]{} EOF done=false`},
		{"no blank lines, no spaces, other ends of lines", "data:{\"a\":1}\r\ndata:{\"b\":2}\r\n", `[]{"a":1} []{"b":2} EOF done=false`},
		{"comments and other fields", ": hm\nid: 7\nretry: 1\nnonsense\ndata: {}\n\n", `[]{} EOF done=false`},
		{"data over several lines", "data: {\"a\":\ndata: 1}\n\n", `[]{"a": 1} EOF done=false`},
		{"braces in strings", "data: {\"a\":\"}\\\"{\"}\n\n", `[]{"a":"}\"{"} EOF done=false`},
		{"cut", "data: {\"a\":", `[]{"a": EOF done=false`},
		{"broken", "data: {\"a\":\n\ndata: {}\n\n", `[]{"a": []{} EOF done=false`},
		{"end", "data: {}\n\ndata: [DONE]\n\ndata: nonsense", `[]{} EOF done=true`},
		{"error", "event: error\ndata: out of memory\n\n", `[error]out of memory EOF done=false`},
		{"error line", "error: {\"code\":500}\n\n", `[error]{"code":500} EOF done=false`},
		{"a document", "{\n \"a\": [\n{}]\n}\n", `[]{  "a": [ {}] } EOF done=false`},
		{"carriage returns alone", "data: {\"a\":1}\r\rdata: {\"b\":2}\r\rdata: [DONE]\r\r", `[]{"a":1} []{"b":2} EOF done=true`},
		{"signs of life", "data: null\n\ndata: {}\n\ndata: ping\n\ndata: [HEARTBEAT]\n\ndata: {}\n\n", `[]{} []{} EOF done=false`},
		{"nothing but signs of life", strings.Repeat("data: ping\n\n", mostOdd), `the stream holds "ping" where a JSON object belongs done=false`},
		{"glued", "data: {\"a\":1}data: {\"b\":2} data: [DONE]\n\n", `[]{"a":1} []{"b":2} EOF done=true`},
		{"glued, without an end", "data: {\"a\":1}data: {\"b\":2}", `[]{"a":1} []{"b":2} EOF done=false`},
		{"text", "data: hello\n\n", `the stream holds "hello" where a JSON object belongs done=false`},
		{"long line", "data: {\"a\":\"" + strings.Repeat("x", maxLine), "too large: a line of the stream is longer than 4 MiB done=false"},
		{"long event", "data: {\n" + strings.Repeat("data: "+strings.Repeat(" 1,", 1<<20)+"\n", 3), "too large: an event of the stream is larger than 4 MiB done=false"},
	} {
		if got := read(strings.NewReader(c.body)); got != c.want {
			t.Errorf("%s: got\n%.200s\nwant\n%s", c.name, got, c.want)
		}
	}
}

func TestSourceIsBounded(t *testing.T) {
	s := &source{ctx: context.Background(), body: io.NopCloser(strings.NewReader(strings.Repeat(": x\n", 100))), watch: newWatchdog(0, nil), left: 40}
	if _, err := newEvents(s).next(); !errors.Is(err, errTooLarge) {
		t.Errorf("got %v", err)
	}
}

func FuzzEvents(f *testing.F) {
	f.Add([]byte("event: a\ndata: {\"x\":\"\\u00e9}\"}\n\ndata: {}\n\ndata: [DONE]\n\n"), uint8(3))
	f.Add([]byte(": c\r\ndata: {\r\ndata: }\r\n\r\nerror: x\n\n"), uint8(1))
	f.Add([]byte("{\"a\":[\n1]}\n{\"b\":2}"), uint8(2))
	f.Add([]byte("data: no\n\nevent: error\n\ndata:\n\n"), uint8(5))
	f.Fuzz(func(t *testing.T, body []byte, size uint8) {
		want := read(bytes.NewReader(body))
		pieces := func() io.Reader {
			return iotest.HalfReader(&sized{bytes.NewReader(body), max(int(size), 1)})
		}
		for name, r := range map[string]io.Reader{
			"one byte": iotest.OneByteReader(bytes.NewReader(body)), "pieces": pieces(), "error with data": iotest.DataErrReader(bytes.NewReader(body)),
		} {
			if got := read(r); got != want {
				t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
			}
		}
		if got := read(io.MultiReader(bytes.NewReader(body), iotest.ErrReader(io.ErrUnexpectedEOF))); strings.HasSuffix(got, "EOF done=false") && !strings.HasSuffix(got, "unexpected EOF done=false") {
			t.Errorf("a body that broke off ended in order: %s", got)
		}
	})
}

// sized reads at most n bytes at once.
type sized struct {
	r io.Reader
	n int
}

func (s *sized) Read(p []byte) (int, error) { return s.r.Read(p[:min(len(p), s.n)]) }
