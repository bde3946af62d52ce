package tui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/transcript"
)

// DecisionLines returns the lines that describe a trust decision, with the whole change or only its size.
func (p Palette) DecisionLines(d *host.Decision, whole bool, more string) []string {
	word := p.Yellow(d.State)
	if d.State == host.Trusted {
		word = p.Green(d.State)
	}
	const indent = "        "
	lines := []string{fmt.Sprintf("%-6s  %s  %s  %s", d.Kind, p.Bold(transcript.Line(d.Called())), word, p.Dim(transcript.Line(d.Path)))}
	for l := range strings.SplitSeq(strings.TrimRight(transcript.Clean(d.Detail), "\n"), "\n") {
		if l != "" {
			lines = append(lines, indent+l)
		}
	}
	switch {
	case d.State == "changed" && !whole:
		much := "changed"
		if d.Added+d.Removed > 0 {
			much = fmt.Sprintf("+%d -%d lines", d.Added, d.Removed)
		}
		return append(lines, indent+much+", -v shows them")
	case d.State == "changed":
		for l := range strings.SplitSeq(strings.TrimRight(transcript.Clean(d.Diff), "\n"), "\n") {
			switch {
			case strings.HasPrefix(l, "+++ "), strings.HasPrefix(l, "--- "):
				l = p.Bold(l)
			case strings.HasPrefix(l, "+"):
				l = p.Green(l)
			case strings.HasPrefix(l, "-"):
				l = p.Red(l)
			}
			lines = append(lines, indent+l)
		}
	case whole && d.State != host.Trusted:
		for _, l := range recipeLines(d, more) {
			lines = append(lines, strings.TrimRight(indent+l, " "))
		}
	}
	return lines
}

// mostShown is how many lines of a recipe are shown before the user decides to trust it.
const mostShown = 120

// recipeLines returns the text of a recipe that the user reads before trusting it.
func recipeLines(d *host.Decision, all string) []string {
	if d.Kind != "workflow" {
		return nil
	}
	if d.Text == "" {
		return []string{"", "its text is too long to be shown here: " + all}
	}
	lines := strings.Split(strings.TrimRight(transcript.Clean(d.Text), "\n"), "\n")
	more := len(lines) - mostShown
	if more > 0 {
		lines = lines[:mostShown]
	}
	for i, l := range lines {
		lines[i] = ansi.Truncate(l, 400, "…")
	}
	lines = append([]string{""}, lines...)
	if more > 0 {
		lines = append(lines, fmt.Sprintf("… %s, %s", inwords.Plural(more, "more line"), all))
	}
	return lines
}

// ClaimLines returns lines that show what an imported run would execute. Unless all is set, long parts are cut, with a note.
func ClaimLines(b *host.Claims, all bool, more string) []string {
	var out []string
	put := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	list := func(label string, values []string) {
		if len(values) > 0 {
			put("  %-10s %s", label, transcript.Line(strings.Join(values, ", ")))
		}
	}
	block := func(text string, most int) {
		lines := strings.Split(strings.TrimRight(transcript.Clean(text), "\n"), "\n")
		rest := len(lines) - most
		if !all && rest > 0 {
			lines = lines[:most]
		}
		for _, l := range lines {
			if !all {
				l = ansi.Truncate(l, 400, "… (cut: "+more+")")
			}
			put("    %s", l)
		}
		if !all && rest > 0 {
			put("    … %s: %s", inwords.Plural(rest, "more line"), more)
		}
	}
	put("run %s  %s  imported %s, sha256 %s", b.Run, transcript.Line(b.Workflow), b.Time.Local().Format(time.DateTime), strings.TrimPrefix(b.Digest, "sha256:"))
	put("  works in   %s, under your rules and with your models", transcript.Line(b.Dir))
	list("not used", b.Dropped)
	limits := "none, as the file says"
	if b.Budget != nil {
		if raw, err := json.Marshal(b.Budget); err == nil {
			limits = string(raw) + ", as the file says"
		}
	}
	list("limits", []string{limits})
	list("tools", b.Tools)
	list("agents", b.Agents)
	list("workflows", b.Calls)
	list("made of", b.Parts)
	for _, f := range b.Recipes {
		put("\nrecipe %s:", transcript.Line(f.Name))
		block(f.Text, mostShown)
	}
	if len(b.Inputs) > 0 && string(b.Inputs) != "{}" {
		put("\ninputs:")
		var text bytes.Buffer
		if json.Indent(&text, b.Inputs, "", "  ") != nil {
			text.Write(b.Inputs)
		}
		block(text.String(), mostShown/3)
	}
	claims := func(head string, claims []host.Claim) {
		if len(claims) == 0 {
			return
		}
		var lines []string
		for _, c := range claims {
			l := transcript.Line(strings.TrimSpace(c.Task + ": " + c.What + " " + c.With))
			if c.Outcome != "" {
				l += " -> " + transcript.Line(c.Outcome)
			}
			if all && c.Result != "" {
				l += ": " + transcript.Line(c.Result)
			}
			lines = append(lines, l)
		}
		put("\n%s", head)
		block(strings.Join(lines, "\n"), mostShown/3)
	}
	claims("effects, as the file claims (their outcomes are used and not checked):", b.Effects)
	claims("answers, as the file claims (none of them permits anything here):", b.Answers)
	claims("open questions:", b.Questions)
	return out
}
