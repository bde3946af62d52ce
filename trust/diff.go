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
	a, b := lines(detail(before)), lines(detail(after))
	start := 0
	for start < len(a) && start < len(b) && a[start] == b[start] {
		start++
	}
	end := 0
	for end < len(a)-start && end < len(b)-start && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	if start == len(a) && start == len(b) {
		return ""
	}
	var out strings.Builder
	show(&out, " ", a[max(0, start-2):start])
	middle(&out, a[start:len(a)-end], b[start:len(b)-end])
	show(&out, " ", a[len(a)-end:min(len(a), len(a)-end+2)])
	return out.String()
}

func lines(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}

func show(out *strings.Builder, mark string, list []string) {
	for _, l := range list {
		fmt.Fprintf(out, "%s %s\n", mark, l)
	}
}

// middle shows the shortest way from a to b, by the longest common subsequence.
func middle(out *strings.Builder, a, b []string) {
	if len(a) > mostLines || len(b) > mostLines {
		show(out, "-", a)
		show(out, "+", b)
		return
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
			show(out, " ", a[i:i+1])
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			show(out, "-", a[i:i+1])
			i++
		default:
			show(out, "+", b[j:j+1])
			j++
		}
	}
}
