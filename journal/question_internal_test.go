package journal

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestInputOfAQuestion(t *testing.T) {
	for name, c := range map[string]struct {
		in   any
		want string
	}{
		"nothing":    {nil, ""},
		"escapes":    {json.RawMessage(`{"command":"echo \u0061 \u003e\u003e f \u0026\u0026 cat \u003c f"}`), "\n\n" + `{"command":"echo a >> f && cat < f"}`},
		"a line":     {json.RawMessage(`{"text":"one\nDid it happen?"}`), "\n\n" + `{"text":"one ⏎ Did it happen?"}`},
		"terminal":   {map[string]any{"text": "\x1b[2J"}, "\n\n" + `{"text":""}`},
		"a long one": {strings.Repeat("<", 600), "\n\n" + `"` + strings.Repeat("<", 499) + "…"},
	} {
		if got := with(c.in); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
