package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/transcript"
)

// output is a stream that remembers why it broke, and is silent from then on.
type output struct {
	mu     sync.Mutex
	w      io.Writer
	err    error
	broken func() // called once, when it breaks
	used   bool   // something was written
	format string // of --output
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	o.used = true
	var broken func()
	if o.err == nil {
		if _, o.err = o.w.Write(p); o.err != nil {
			broken = o.broken
		}
	}
	o.mu.Unlock()
	if broken != nil {
		broken()
	}
	return len(p), nil
}

// Fd returns the file descriptor of the stream, or an invalid one if it is no file.
func (o *output) Fd() uintptr {
	if f, ok := o.w.(*os.File); ok {
		return f.Fd()
	}
	return ^uintptr(0)
}

func (o *output) failed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// line writes text from an untrusted source, with dangerous characters made harmless.
func (o *output) line(s string) { fmt.Fprintln(o, transcript.Clean(s)) }

// json writes a value, indented over several lines if users read it too.
func (o *output) json(v any, indent bool) error {
	b, err := encode(v, indent)
	if err != nil {
		return err
	}
	_, err = o.Write(append(b, '\n'))
	return err
}

// value writes a value for programs, over several lines if it is the only one.
func (o *output) value(v any) error { return o.json(v, o.format == "json") }

// rows writes a list for programs: as one value, or in a line each.
func rows[T any](o *output, all []T) error {
	if o.format == "json" {
		return o.json(all, true)
	}
	for i := range all {
		if err := o.json(all[i], false); err != nil {
			return err
		}
	}
	return nil
}

// table writes rows in aligned columns, and rows of one cell as they are. Cells that exceed the
// maximum width of their column do not widen it; 0 means no maximum. If the width of the terminal
// is known, lines are cut there.
func (o *output) table(lines [][]string, most, width int) {
	for _, line := range inwords.Align(lines, most) {
		if width > 0 {
			line = ansi.Truncate(line, width, "…")
		}
		_, _ = o.Write([]byte(line + "\n"))
	}
}

// encode returns a value as JSON with control characters for terminals escaped.
func encode(v any, indent bool) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if indent {
		e.SetIndent("", "  ")
	}
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	raw := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	safe := make([]byte, 0, len(raw))
	for _, r := range string(raw) {
		// Beyond ASCII such characters occur in strings only, where an escape means the same.
		if r >= 0x7f && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			safe = fmt.Appendf(safe, `\u%04x`, r)
		} else {
			safe = utf8.AppendRune(safe, r)
		}
	}
	return safe, nil
}
