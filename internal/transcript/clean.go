package transcript

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/superstep-dev/superstep/internal/clean"
)

// Clean removes from text of a model, a tool or a file what harms a terminal: escape
// sequences go, and so do control characters (C0, C1, DEL), the marks that turn the
// direction of writing, and those nobody can see. Line feeds and tabs stay; other line
// ends become line feeds. Broken UTF-8 is replaced.
func Clean(s string) string { return clean.Text(s) }

// Line is Clean for a text that must stay on one line: every run of space is one space.
func Line(s string) string { return strings.Join(strings.Fields(Clean(s)), " ") }

// lines cleans a list for people.
func lines(in []string) []string {
	out := make([]string, len(in))
	for i := range in {
		out[i] = Line(in[i])
	}
	return out
}

// Value is a JSON value as people write it: a string is its text, anything else is JSON.
func Value(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return Clean(s)
	}
	return Clean(string(raw))
}

// mainArg picks the argument of a tool call that says most: by its usual names, else the first string.
func mainArg(args json.RawMessage) string {
	d := json.NewDecoder(bytes.NewReader(args))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return ""
	}
	// The names under which tools take what matters most, the best first.
	names := [...]string{"command", "query", "pattern", "path", "file", "url", "question", "prompt", "name"}
	first, best, rank := "", "", len(names)
	for d.More() {
		name, err := d.Token()
		if err != nil {
			break
		}
		var v any
		if d.Decode(&v) != nil {
			break
		}
		s, ok := v.(string)
		if !ok || s == "" {
			continue
		}
		if first == "" {
			first = s
		}
		for i, n := range names {
			if n == name && i < rank {
				best, rank = s, i
			}
		}
	}
	if best == "" {
		best = first
	}
	return short(Line(best), 80)
}

func short(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
