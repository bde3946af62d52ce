package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"
)

func TestFormat(t *testing.T) {
	t.Parallel()
	for ms, want := range map[int]string{-5: "0s", 0: "0s", 1: "1s", 999: "1s", 2500: "2s", 59999: "59s", 60000: "1m", 61000: "1m 1s", 3599000: "59m 59s", 3600000: "1h", 7380000: "2h 3m"} {
		if got := duration(time.Duration(ms) * time.Millisecond); got != want {
			t.Errorf("duration(%d ms) = %q, want %q", ms, got, want)
		}
	}
	for ms, want := range map[int]string{-5: "0.0s", 0: "0.0s", 2349: "2.3s", 9999: "9.9s", 21000: "21s", 61000: "1m 1s"} {
		if got := brief(time.Duration(ms) * time.Millisecond); got != want {
			t.Errorf("brief(%d ms) = %q, want %q", ms, got, want)
		}
	}
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1k", 1234: "1.2k", 8400: "8.4k", 12000: "12k", 999999: "999k", 1_250_000: "1.2M"} {
		if got := count(n); got != want {
			t.Errorf("count(%d) = %q, want %q", n, got, want)
		}
	}
	for _, c := range []struct{ in, want string }{{"a=b", "a=b"}, {"", "''"}, {"a b", "'a b'"}, {"it's", `'it'\''s'`}, {"gather[x]=y", "'gather[x]=y'"}} {
		if got := quote(c.in); got != c.want {
			t.Errorf("quote(%q) = %s, want %s", c.in, got, c.want)
		}
	}
}

func TestParseAnswer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, path, value string }{
		{"ask=yes", "ask", "yes"},
		{"ask=a=b", "ask", "a=b"},
		{"gather[k=1]#2=x[1]", "gather[k=1]#2", "x[1]"},
		{"ask=", "ask", ""},
		{"ask=[1]", "ask", "[1]"},
	} {
		g, err := parseAnswer("--answer", c.in)
		if err != nil || g.path != c.path || g.value != c.value {
			t.Errorf("%q: %+v, %v", c.in, g, err)
		}
	}
	for _, bad := range []string{"", "yes", "=yes", "gather[a=b"} {
		if g, err := parseAnswer("--answer", bad); err == nil && bad != "gather[a=b" {
			t.Errorf("%q: %+v", bad, g)
		}
	}
	as, _ := parseAnswers([]string{"ask=1", "ask=2", "ask#1=3"})
	for _, want := range []string{"1", "2"} {
		g := as.take("ask", "q")
		if g == nil || g.value != want {
			t.Fatalf("got %+v, want %s", g, want)
		}
		g.used = true
	}
	if g := as.take("ask#1", "q"); g == nil || g.value != "3" {
		t.Errorf("by visit: %+v", g)
	}
}

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

func FuzzParseAnswer(f *testing.F) {
	f.Add("a[b=c]#1=d")
	f.Add("][=")
	f.Fuzz(func(t *testing.T, s string) {
		if g, err := parseAnswer("", s); err == nil && g.path+"="+g.value != s {
			t.Errorf("%q became %q and %q", s, g.path, g.value)
		}
	})
}
