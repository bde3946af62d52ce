package trust

import (
	"fmt"
	"strings"
)

// mostLines are compared line by line; of longer texts only the ends that are equal are left out.
const mostLines = 1500

// Diff shows how one text became another: lines that went with "-", lines that came with "+", and
// up to two lines around them. It is "" if they are equal. The texts are cleaned.
func Diff(before, after string) string {
	steps := script(lines(detail(before)), lines(detail(after)))
	first, last := -1, -1
	for i, s := range steps {
		if s.mark != ' ' {
			if first < 0 {
				first = i
			}
			last = i
		}
	}
	if first < 0 {
		return ""
	}
	var out strings.Builder
	for _, s := range steps[max(0, first-2):min(len(steps), last+3)] {
		fmt.Fprintf(&out, "%c %s\n", s.mark, s.line)
	}
	return out.String()
}

// around is how many lines a unified difference shows before and after what changed.
const around = 3

// unified is the difference of two texts as diff -u gives it, without the names of files, and how
// many lines came and went.
func unified(before, after string) (text string, added, removed int) {
	steps := script(lines(before), lines(after))
	var out strings.Builder
	a, b := 1, 1 // the lines that come next
	for i := 0; i < len(steps); {
		if steps[i].mark == ' ' {
			i, a, b = i+1, a+1, b+1
			continue
		}
		last := i
		for j := i; j < len(steps) && j-last <= 2*around; j++ {
			if steps[j].mark != ' ' {
				last = j
			}
		}
		lead := min(around, i)
		hunk := steps[i-lead : min(len(steps), last+1+around)]
		var body strings.Builder
		na, nb := 0, 0
		for _, s := range hunk {
			fmt.Fprintf(&body, "%c%s\n", s.mark, s.line)
			if s.mark != '+' {
				na++
			}
			if s.mark != '-' {
				nb++
			}
			switch s.mark {
			case '+':
				added++
			case '-':
				removed++
			}
		}
		fmt.Fprintf(&out, "@@ -%s +%s @@\n%s", span(a-lead, na), span(b-lead, nb), body.String())
		a, b, i = a-lead+na, b-lead+nb, i-lead+len(hunk)
	}
	return out.String(), added, removed
}

// span is a range of lines as a unified difference has it.
func span(start, n int) string {
	switch n {
	case 0:
		return fmt.Sprintf("%d,0", start-1)
	case 1:
		return fmt.Sprint(start)
	}
	return fmt.Sprintf("%d,%d", start, n)
}

func lines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}

// A step is a line that stays (' '), went ('-') or came ('+').
type step struct {
	mark byte
	line string
}

func steps(out []step, mark byte, list []string) []step {
	for _, l := range list {
		out = append(out, step{mark, l})
	}
	return out
}

// script is the way from a to b.
func script(a, b []string) []step {
	start := 0
	for start < len(a) && start < len(b) && a[start] == b[start] {
		start++
	}
	end := 0
	for end < len(a)-start && end < len(b)-start && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	out := steps(nil, ' ', a[:start])
	out = middle(out, a[start:len(a)-end], b[start:len(b)-end])
	return steps(out, ' ', a[len(a)-end:])
}

// middle is the shortest way from a to b, by the longest common subsequence.
func middle(out []step, a, b []string) []step {
	if len(a) > mostLines || len(b) > mostLines {
		return steps(steps(out, '-', a), '+', b)
	}
	common := make([][]uint16, len(a)+1)
	for i := range common {
		common[i] = make([]uint16, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, step{' ', a[i]})
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			out = append(out, step{'-', a[i]})
			i++
		default:
			out = append(out, step{'+', b[j]})
			j++
		}
	}
	return out
}
