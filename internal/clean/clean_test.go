package clean_test

import (
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/faults"
)

func TestText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain\ttext\n":                  "plain\ttext\n",
		"世界 ümläut 👩\u200d💻 \ufffd":      "世界 ümläut 👩\u200d💻 \ufffd",
		"a\x1b[1;31mred\x1b[0mb":         "aredb",
		"\x1b]0;title\x07x":              "x",
		"\x1b]8;;http://e\x1b\\link":     "link",
		"\x1b]unterminated rest":         "]unterminated rest",
		"\x1b]0;cut off\x1b[1mrest":      "]0;cut offrest",
		"\x1b":                           "",
		"nul\x00bell\x07back\b\x7f":      "nulbellback",
		"a\rb\r\nc\u2028d\u2029e":        "a\nb\nc\nd\ne",
		"bad\xffutf8":                    "bad\ufffdutf8",
		"rtl\u202eevil\u2066x\u200f":     "rtlevilx",
		"c1\u009bcsi\u0085":              "c1csi",
		"tag\U000e0041s":                 "tags",
		"zero\u200bwidth\u2060s\ufeff":   "zerowidths",
		"annotated\ufff9a\ufffab\ufffb":  "annotatedab",
		"\x1b[" + strings.Repeat("1", 9): "[111111111",
	} {
		if got := clean.Text(in); got != want {
			t.Errorf("%q: got %q want %q", in, got, want)
		}
	}
}

// A hostile text takes no longer than its length deserves.
func TestTextIsLinear(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"\x1b", "\x1b]", "\x1b[", "\x1bP", "\xc2\x9b", "\xff", "\u202e", "\x1b[1;", "\r"} {
		long := strings.Repeat(part, 1<<20/len(part))
		start := time.Now()
		clean.Text(long)
		if took := time.Since(start); took > faults.Bound(2*time.Second) {
			t.Errorf("a megabyte of %q took %s", part, took)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("a\x1b[31mb\x1b]0;x\x07\xff\u202e\r\n\u200b")
	f.Add("\x1b\x1b[\x1b]m\xc2\x9b1m\xc2")
	f.Fuzz(func(t *testing.T, s string) {
		got := clean.Text(s)
		if !utf8.ValidString(got) || clean.Text(got) != got {
			t.Fatalf("%q", got)
		}
		for _, r := range got {
			if r != '\n' && r != '\t' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u200b' || r == '\u2060' || r >= 0xfff9 && r <= 0xfffb {
				t.Fatalf("%q holds %U", got, r)
			}
		}
	})
}
