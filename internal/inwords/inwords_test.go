package inwords_test

import (
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/inwords"
)

func TestInWords(t *testing.T) {
	t.Parallel()
	for ms, want := range map[int]string{-5: "0s", 0: "0s", 1: "1s", 999: "1s", 2500: "2s", 59999: "59s", 60000: "1m", 61000: "1m 1s", 3599000: "59m 59s", 3600000: "1h", 7380000: "2h 3m"} {
		if got := inwords.Duration(time.Duration(ms) * time.Millisecond); got != want {
			t.Errorf("duration(%d ms) = %q, want %q", ms, got, want)
		}
	}
	for ms, want := range map[int]string{-5: "0.0s", 0: "0.0s", 2349: "2.3s", 9999: "9.9s", 21000: "21s", 61000: "1m 1s"} {
		if got := inwords.Brief(time.Duration(ms) * time.Millisecond); got != want {
			t.Errorf("brief(%d ms) = %q, want %q", ms, got, want)
		}
	}
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1k", 1234: "1.2k", 8400: "8.4k", 12000: "12k", 999999: "999k", 1_250_000: "1.2M"} {
		if got := inwords.Count(n); got != want {
			t.Errorf("count(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a b": "a b",
		"one two three four five six seven eight":                  "one two three four five six\nseven eight",
		"one two three four five six --seven":                      "one two three four five six\n--seven",
		"  name  one two three four five six":                      "  name  one two three four\n        five six",
		"  a command that is long       what it does for you":      "  a command that is long\n      what it does for you",
		"  1. once  only\n  2. this run  and each one of its like": "  1. once  only\n  2. this run  and each one of\n               its like",
	} {
		if got := inwords.Wrap(in, 30); got != want {
			t.Errorf("%q is\n%s\nwant\n%s", in, got, want)
		}
		if got := inwords.Wrap(in, 0); got != in {
			t.Errorf("%q without a width is %q", in, got)
		}
	}
}
