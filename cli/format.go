package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// duration is a length of time in whole seconds: 0s, 45s, 1m 1s, 2h 3m. What is more
// than nothing is at least one second.
func duration(d time.Duration) string {
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

// brief is a length of time with tenths below ten seconds: 0.2s, 2.3s, 21s.
func brief(d time.Duration) string {
	if d < 10*time.Second {
		return strconv.FormatFloat(float64(max(0, d)/(100*time.Millisecond))/10, 'f', 1, 64) + "s"
	}
	return duration(d)
}

// count is a number of tokens: 950, 8.4k, 12k, 1.2M.
func count(n int) string {
	switch {
	case n < 1000:
		return strconv.Itoa(n)
	case n < 1_000_000:
		return scaled(n, 1000) + "k"
	}
	return scaled(n, 1_000_000) + "M"
}

func scaled(n, unit int) string {
	if n >= 10*unit {
		return strconv.Itoa(n / unit)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n/(unit/10))/10), ".0")
}

// ago is an age.
func ago(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "just now"
	case d < time.Hour:
		return fmt.Sprintf("%dm ago", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh ago", d/time.Hour)
	}
	return fmt.Sprintf("%dd ago", d/(24*time.Hour))
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
