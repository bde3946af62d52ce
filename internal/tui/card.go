package tui

import (
	"fmt"
	"strings"

	"github.com/superstep-dev/superstep/internal/question"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

// card describes a permission request: the full action, the folder, and the reason for asking. It shows fold lines of a long change, or all if fold is
// 0; folded is the number of hidden lines.
func card(c *runlog.QuestionCall, pal Palette, fold int) (lines []string, folded int) {
	body, notes := content(c, pal)
	style := styleOf(c, pal)
	for i, line := range body {
		if fold > 0 && i >= fold && len(body)-i > 1 {
			folded = len(body) - i
			lines = append(lines, pal.Dim(fmt.Sprintf("    … %d more lines", folded)))
			break
		}
		lines = append(lines, "    "+style(line)(line))
	}
	for _, line := range notes {
		lines = append(lines, "    "+line)
	}
	if c.Cwd != "" {
		lines = append(lines, "  in "+transcript.Line(c.Cwd))
	}
	if len(c.Parts) > 0 {
		lines = append(lines, "  its parts:")
		for _, line := range parts(c, pal) {
			lines = append(lines, "    "+line)
		}
	}
	if why := question.Because(c.Rule, c.Origin, c.Reason); why != "" {
		lines = append(lines, "  asked because: "+why)
	}
	return lines, folded
}

// Card describes a permission request in full, without style.
func Card(c *runlog.QuestionCall) string {
	lines, _ := card(c, Usual, 0)
	return transcript.Clean(strings.Join(lines, "\n"))
}

// content returns the full action of a call, without style, and what has to be said about it.
func content(c *runlog.QuestionCall, pal Palette) (body, notes []string) {
	full := func(text string) {
		text = strings.ReplaceAll(transcript.Clean(text), "\t", "    ")
		body = strings.Split(strings.TrimRight(text, "\n"), "\n")
	}
	note := func(s string) { notes = append(notes, pal.Yellow(s)) }
	switch {
	case c.Fails != "":
		notes = append(notes, pal.Yellow("as things are it will fail: ")+transcript.Line(c.Fails))
	case c.Diff != "":
		full(c.Diff)
		if c.Larger > 0 {
			note(fmt.Sprintf("and %d more lines, which are too long to be kept here", c.Larger))
		}
		if question.Hidden(c.Diff) {
			note("it has characters that are not shown")
		}
	case c.Tool == "write_file" || c.Tool == "edit_file":
		full(string(c.Args))
	default:
		text := question.InFull(c)
		full(text)
		if c.Tool != "bash" && question.Hidden(text) { // of a command the reason says so
			note("it has characters that are not shown")
		}
	}
	return body, notes
}

// styleOf returns the style of each line of the content of a call.
func styleOf(c *runlog.QuestionCall, pal Palette) func(line string) func(string) string {
	plain := func(s string) string { return s }
	return func(line string) func(string) string {
		switch {
		case c.Diff == "" || c.Fails != "":
		case strings.HasPrefix(line, "+"):
			return pal.Green
		case strings.HasPrefix(line, "-"):
			return pal.Red
		}
		return plain
	}
}

// parts describes the parts of a command: which are allowed, and why the others are asked about.
func parts(c *runlog.QuestionCall, pal Palette) []string {
	var out []string
	for _, p := range c.Parts {
		if p.Allowed {
			out = append(out, pal.Green("✓")+" "+transcript.Line(p.Text)+pal.Dim("  "+question.AllowedBy(&p)))
		} else {
			out = append(out, pal.Yellow("?")+" "+transcript.Line(p.Text)+pal.Dim("  "+question.Because(p.Rule, p.Origin, p.Reason)))
		}
	}
	return out
}
