// Package inwords writes lengths of time and numbers of things for people.
package inwords

import (
	"fmt"
	"strconv"
	"time"
)

// Duration returns a length of time in whole seconds: 0s, 45s, 1m 1s, 2h 3m. What is more
// than nothing is at least one second.
func Duration(d time.Duration) string {
	if d <= 0 {
		return "0s"
	}
	s := max(1, int(d/time.Second))
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600 && s%60 == 0:
		return fmt.Sprintf("%dm", s/60)
	case s < 3600:
		return fmt.Sprintf("%dm %ds", s/60, s%60)
	case s/60%60 == 0:
		return fmt.Sprintf("%dh", s/3600)
	}
	return fmt.Sprintf("%dh %dm", s/3600, s/60%60)
}

// Brief returns a length of time with tenths below ten seconds: 0.2s, 2.3s, 21s.
func Brief(d time.Duration) string {
	if d < 10*time.Second {
		return strconv.FormatFloat(float64(max(0, d)/(100*time.Millisecond))/10, 'f', 1, 64) + "s"
	}
	return Duration(d)
}

// Plural returns a number with the word for one thing, in the plural unless it is one.
func Plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
