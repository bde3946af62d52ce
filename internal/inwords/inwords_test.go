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
