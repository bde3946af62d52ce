package cassette

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/internal/clean"
)

// An unknownRequestError reports that a request was not recorded, and names the most similar
// recorded one.
type unknownRequestError struct {
	Digest   string // of the request
	Turns    int    // that are recorded, of all requests
	Recorded int    // how many turns of this very request are recorded; all of them have been said
	// Nearest is the number of the recorded turn, from 1, whose request is most like this one; 0
	// if there is none.
	Nearest     int
	Differences []string // between that request and this one, in words
}

// Error returns what to compare.
func (e *unknownRequestError) Error() string {
	const remedy = "; record the cassette again if that is meant"
	switch {
	case e.Recorded == 1:
		return "this request was recorded once, and that turn has been said" + remedy
	case e.Recorded > 1:
		return fmt.Sprintf("this request was recorded %d times, and all of these turns have been said%s", e.Recorded, remedy)
	case e.Nearest == 0:
		return "this request was not recorded, and no other one either" + remedy
	}
	return fmt.Sprintf("this request was not recorded; the nearest is that of turn %d of %d: %s%s", e.Nearest, e.Turns, strings.Join(e.Differences, "; "), remedy)
}

// distance returns how much requests differ: it is small for similar requests, and counts the
// messages and tools that differ.
func distance(a, b *request) int {
	shorter := min(len(a.Messages), len(b.Messages))
	d := max(len(a.Messages), len(b.Messages)) - shorter
	for i := range shorter {
		if a.Messages[i] != b.Messages[i] {
			d++
		}
	}
	for _, pair := range [][2][]string{{a.Tools, b.Tools}, {b.Tools, a.Tools}} {
		for _, id := range pair[0] {
			if !slices.Contains(pair[1], id) {
				d++
			}
		}
	}
	for _, differs := range []bool{
		a.System != b.System, a.Choice != b.Choice, a.Schema != b.Schema, a.MaxTokens != b.MaxTokens,
		number(a.Temperature) != number(b.Temperature), !slices.Equal(a.Tools, b.Tools),
	} {
		if differs {
			d++
		}
	}
	return d
}

func commonPrefix(a, b []string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

func number(f *float64) string {
	if f == nil {
		return "none"
	}
	return fmt.Sprint(*f)
}

// differences describes in words what is new in asked against recorded. It is never empty for
// requests that differ.
func differences(asked, recorded *request, piece func(id string) *piece) []string {
	var out []string
	text := func(id string) string {
		if p := piece(id); p != nil {
			return p.text()
		}
		return ""
	}
	if asked.System != recorded.System {
		out = append(out, "the system prompt is "+against(text(asked.System), text(recorded.System)))
	}
	if n := commonPrefix(asked.Messages, recorded.Messages); n < min(len(asked.Messages), len(recorded.Messages)) {
		a, b := piece(asked.Messages[n]), piece(recorded.Messages[n])
		if a.Message != nil && b.Message != nil && a.Message.Role != b.Message.Role {
			out = append(out, fmt.Sprintf("message %d is of the role %s, recorded %s", n+1, show(string(a.Message.Role)), show(string(b.Message.Role))))
		} else {
			out = append(out, fmt.Sprintf("message %d is %s", n+1, against(a.text(), b.text())))
		}
	}
	if a, b := len(asked.Messages), len(recorded.Messages); a != b {
		out = append(out, fmt.Sprintf("it has %d messages, recorded are %d", a, b))
	}
	out = append(out, toolDifferences(asked, recorded, piece)...)
	if asked.Choice != recorded.Choice {
		out = append(out, fmt.Sprintf("the choice of tools is %s, recorded %s", show(asked.Choice), show(recorded.Choice)))
	}
	if asked.Schema != recorded.Schema {
		out = append(out, "the schema of the answer is "+against(text(asked.Schema), text(recorded.Schema)))
	}
	if asked.MaxTokens != recorded.MaxTokens {
		out = append(out, fmt.Sprintf("the most tokens are %d, recorded %d", asked.MaxTokens, recorded.MaxTokens))
	}
	if a, b := number(asked.Temperature), number(recorded.Temperature); a != b {
		out = append(out, fmt.Sprintf("the temperature is %s, recorded %s", a, b))
	}
	return out
}

func toolDifferences(asked, recorded *request, piece func(id string) *piece) []string {
	var out []string
	find := func(ids []string, name string) string {
		i := slices.IndexFunc(ids, func(id string) bool { p := piece(id); return p.Tool != nil && p.Tool.Name == name })
		if i < 0 {
			return ""
		}
		return ids[i]
	}
	for _, id := range asked.Tools {
		p := piece(id)
		if p.Tool == nil || slices.Contains(recorded.Tools, id) {
			continue
		}
		if other := find(recorded.Tools, p.Tool.Name); other != "" {
			out = append(out, fmt.Sprintf("the tool %s is %s", show(p.Tool.Name), against(p.text(), piece(other).text())))
		} else {
			out = append(out, fmt.Sprintf("the tool %s is new", show(p.Tool.Name)))
		}
	}
	for _, id := range recorded.Tools {
		if p := piece(id); p.Tool != nil && find(asked.Tools, p.Tool.Name) == "" {
			out = append(out, fmt.Sprintf("the tool %s is missing", show(p.Tool.Name)))
		}
	}
	if len(out) == 0 && !slices.Equal(asked.Tools, recorded.Tools) {
		out = append(out, "the tools are in another order")
	}
	if len(out) > 5 {
		out = append(out[:5], "and more tools differ")
	}
	return out
}

// against shows two texts from shortly before their first difference.
func against(asked, recorded string) string {
	if asked == recorded { // as far as it was kept
		return "the same in its beginning, and differs later"
	}
	n := 0
	for n < min(len(asked), len(recorded)) && asked[n] == recorded[n] {
		n++
	}
	from := max(n-20, 0)
	for from > 0 && !utf8.RuneStart(asked[from]) {
		from--
	}
	mark := ""
	if from > 0 {
		mark = "…"
	}
	return fmt.Sprintf("%s, recorded %s", show(mark+asked[from:]), show(mark+recorded[from:]))
}

// show quotes an untrusted text for an error.
func show(s string) string {
	s = clean.Text(s)
	if len(s) > 80 {
		cut := 80
		for !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "…"
	}
	return fmt.Sprintf("%q", s)
}
