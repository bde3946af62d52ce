package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/superstep-dev/superstep/internal/clean"
)

func FuzzEncode(f *testing.F) {
	f.Add("plain")
	f.Add("\x1b[31m\u009b2J\u202e\u2066 \U000e0041 ü")
	f.Fuzz(func(t *testing.T, s string) {
		b, err := encode(map[string]string{"s": s}, true)
		if err != nil {
			t.Fatal(err)
		}
		if strings.ContainsFunc(string(b), func(r rune) bool {
			return r != '\n' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
		}) {
			t.Errorf("control characters in %q", b)
		}
		var back map[string]string
		if err := json.Unmarshal(b, &back); err != nil || back["s"] != strings.ToValidUTF8(s, "\ufffd") && len([]rune(back["s"])) != len([]rune(s)) {
			t.Errorf("%q came back as %q, %v", s, back["s"], err)
		}
	})
}

func TestQuote(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want string }{{"a=b", "a=b"}, {"", "''"}, {"a b", "'a b'"}, {"it's", `'it'\''s'`}, {"gather[x]=y", "'gather[x]=y'"}} {
		if got := clean.Shell(c.in); got != c.want {
			t.Errorf("quote(%q) = %s, want %s", c.in, got, c.want)
		}
	}
}
