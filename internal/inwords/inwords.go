// Package inwords formats durations, counts and sizes for users.
package inwords

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
)

// Duration returns a length of time in whole seconds: 0s, 45s, 1m 1s, 2h 3m. Anything above zero is
// at least one second.
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

// Count returns a number of tokens: 950, 8.4k, 12k, 1.2M.
func Count(n int) string {
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

// Dollars returns an amount of money, given in millionths of a US dollar: $0.00, <$0.01, $0.04, $12.50.
func Dollars(micros int64) string {
	if micros > 0 && micros < 10_000 {
		return "<$0.01"
	}
	return fmt.Sprintf("$%.2f", float64(micros)/1e6)
}

// Ago returns an age: just now, 5m ago, 3h ago, 4d ago.
func Ago(d time.Duration) string {
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

// Bytes returns a number of bytes: 950 B, 8.4 KB, 120 MB.
func Bytes(n int64) string {
	units := []string{"B", "KB", "MB", "GB", "TB"}
	f, u := float64(n), 0
	for f >= 999.5 && u < len(units)-1 {
		f, u = f/1000, u+1
	}
	if u == 0 || f >= 99.5 {
		return fmt.Sprintf("%.0f %s", f, units[u])
	}
	return fmt.Sprintf("%.1f %s", f, units[u])
}

// Align returns lines with their cells in aligned columns. Cells wider than the maximum do not
// widen their column; 0 means no maximum. Lines of one cell stay as they are.
func Align(lines [][]string, most int) []string {
	wide := map[int]int{}
	for _, line := range lines {
		for i, cell := range line {
			if len(line) > 1 {
				wide[i] = max(wide[i], ansi.StringWidth(cell))
			}
			if most > 0 {
				wide[i] = min(wide[i], most)
			}
		}
	}
	out := make([]string, len(lines))
	for n, line := range lines {
		var b strings.Builder
		for i, cell := range line {
			b.WriteString(cell + strings.Repeat(" ", max(0, wide[i]-ansi.StringWidth(cell))+2))
		}
		out[n] = strings.TrimRight(b.String(), " ")
	}
	return out
}

// Wrap breaks the lines of a text that are wider than width at spaces. What two spaces set off as the last column of a line
// continues in that column. If the column begins beyond half of the width, it goes below the line, and so it does in the other
// lines that have it there. If width is 0, the text is returned as it is.
func Wrap(text string, width int) string {
	if width <= 0 {
		return text
	}
	lines := strings.Split(text, "\n")
	below := map[int]bool{} // columns
	for _, line := range lines {
		if _, column := lastColumn(line); column > width/2 && ansi.StringWidth(line) > width {
			below[column] = true
		}
	}
	var out []string
	for _, line := range lines {
		at, column := lastColumn(line)
		head, rest := line[:at], line[at:]
		if below[column] {
			out = append(out, strings.TrimRight(head, " "))
			column = len(line) - len(strings.TrimLeft(line, " ")) + 4
			head = strings.Repeat(" ", column)
		} else if ansi.StringWidth(line) <= width {
			out = append(out, line)
			continue
		}
		wide := column
		for i, word := range strings.Split(rest, " ") {
			n := ansi.StringWidth(word)
			switch {
			case i == 0:
			case wide+1+n > width:
				out, head, wide = append(out, head), strings.Repeat(" ", column), column
			default:
				head, wide = head+" ", wide+1
			}
			head, wide = head+word, wide+n
		}
		out = append(out, head)
	}
	return strings.Join(out, "\n")
}

// lastColumn returns where the last column of a line begins, in bytes and in cells.
func lastColumn(line string) (at, column int) {
	text := strings.TrimRight(line, " ")
	at = len(text) - len(strings.TrimLeft(text, " "))
	if n := strings.LastIndex(text, "  "); n >= at {
		at = n + 2
	}
	return at, ansi.StringWidth(line[:at])
}
