package transcript

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/superstep-dev/superstep/internal/clean"
)

// Clean removes from the text of a model, a tool or a file whatever could harm a terminal: escape sequences, control characters (C0, C1, DEL), direction
// marks and invisible characters. Clean keeps line feeds and tabs, turns other line ends into line feeds, and replaces invalid UTF-8.
func Clean(s string) string { return clean.Text(s) }

// Line cleans a text that must stay on one line: like Clean, but it also replaces each run of white space by one space.
func Line(s string) string { return strings.Join(strings.Fields(Clean(s)), " ") }

// lines cleans each text of a list.
func lines(in []string) []string {
	out := make([]string, len(in))
	for i := range in {
		out[i] = Line(in[i])
	}
	return out
}

// Value formats a JSON value for display: the text of a string, and JSON for anything else.
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

// Texts formats JSON for display, also the beginning of a document: the texts in it are in quotes and else as they are, with br for their line breaks.
func Texts(raw []byte, br string) string { return clean.JSON(raw, br) }

// mainArg returns the most telling argument of a tool call: the first with a usual name, else the first string.
func mainArg(args json.RawMessage) string {
	d := json.NewDecoder(bytes.NewReader(args))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return ""
	}
	// The usual names of a tool's main argument, the best first.
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
