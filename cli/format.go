package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/internal/inwords"
)

func duration(d time.Duration) string { return inwords.Duration(d) }

func brief(d time.Duration) string { return inwords.Brief(d) }

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

func plural(n int, what string) string { return inwords.Plural(n, what) }
