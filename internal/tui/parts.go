package tui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/text"

	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

// partOptions say how a part is drawn.
type partOptions struct {
	width    int
	expanded bool // with results and all of what was thought
	now      time.Time
}

// markdownLines renders a Markdown text as lines of at most w cells.
func markdownLines(s string, w int, styled bool) []string {
	s, w = transcript.Clean(s), max(8, w)
	if !styled {
		return strings.Split(ansi.Wrap(strings.TrimRight(s, "\n"), w, ""), "\n")
	}
	src := []byte(s)
	p := &page{src: src}
	var out []string
	for _, line := range p.blocks(goldmark.New().Parser().Parse(text.NewReader(src)), w) {
		if ansi.StringWidth(line) > w {
			out = append(out, strings.Split(ansi.Hardwrap(line, w, true), "\n")...)
			continue
		}
		out = append(out, line)
	}
	return out
}

// message draws what the user said.
func (p painter) message(s string, w int) []string {
	var out []string
	for i, line := range strings.Split(ansi.Wrap(strings.TrimSpace(transcript.Clean(s)), max(8, w-3), ""), "\n") {
		sign := " > "
		if i > 0 {
			sign = "   "
		}
		out = append(out, p.pal.Bold(sign+line))
	}
	return out
}

// part draws a part of a task in full.
func (p painter) part(x *transcript.Part, o *partOptions) []string {
	w := o.width
	switch x.Kind {
	case transcript.Text:
		body := markdownLines(x.Text, w-4, p.pal != "")
		if x.Cut {
			body = append(body, p.pal.Dim("(broken off)"))
		}
		return append(indented(body, " ● ", "   "), "")
	case transcript.Reasoning:
		lines := strings.Split(ansi.Wrap(strings.TrimSpace(x.Text), max(8, w-4), ""), "\n")
		if !o.expanded {
			return []string{p.pal.Dim(cut(" ∴ "+transcript.Line(lines[len(lines)-1]), w))}
		}
		for i := range lines {
			lines[i] = p.pal.Dim(lines[i])
		}
		return indented(lines, " ∴ ", "   ")
	case transcript.ToolUse:
		return p.tool(x.Tool, o)
	case transcript.Ask:
		return p.asked(x.Question, w)
	case transcript.Note:
		if text, ok := strings.CutPrefix(x.Text, "a user says: "); ok {
			return append(p.message(text, w), "")
		}
	}
	if line := p.partLine(x, o.now); line != "" {
		return []string{" " + cut(line, w-1)}
	}
	return nil
}

// asked draws a question that is answered; the card shows the others.
func (p painter) asked(q *transcript.Question, w int) []string {
	switch {
	case q.Asked.Kind == runlog.QuestionMessage && q.Answered:
		return append(p.message(q.Answer, w), "")
	case q.Asked.Kind == runlog.QuestionMessage:
		return nil
	case !q.Answered:
		return []string{p.pal.Yellow(cut(" ? "+transcript.Line(q.Question), w))}
	}
	answer := q.Answer
	if q.Denied {
		answer = denial(q.By)
	}
	if q.By != "" && q.By != "person" {
		answer += " (" + q.By + ")"
	}
	return []string{cut(" ? "+transcript.Line(q.Question), max(12, w-4-ansi.StringWidth(transcript.Line(answer)))) + p.pal.Dim(" → "+cut(transcript.Line(answer), w/2))}
}

// denial returns the word for a question that was not answered.
func denial(by string) string {
	if by == runlog.ByInterruption {
		return "withdrawn"
	}
	return "denied"
}

// tool draws a call: one line, and with expanded what it gave.
func (p painter) tool(u *transcript.Tool, o *partOptions) []string {
	out := []string{" " + cut(p.toolLine(u, o.now), o.width-1)}
	if diff := diffOf(u.Result); !o.expanded && diff != nil {
		return append(out, p.changes(diff, o.width, 12)...)
	}
	if o.expanded && u.Result != "" {
		lines := strings.Split(ansi.Wrap(strings.TrimRight(u.Result, "\n"), max(8, o.width-6), ""), "\n")
		if len(lines) > 20 {
			lines = append(lines[:20], fmt.Sprintf("… %d more lines", len(lines)-20))
		}
		for _, l := range lines {
			out = append(out, "     "+p.pal.Dim(l))
		}
	}
	return out
}

// diffOf returns the changed lines that a result shows, nil if it shows none.
func diffOf(result string) []string {
	i := strings.Index(result, "\n@@ ")
	if i < 0 || !strings.HasPrefix(result, "edited ") && !strings.HasPrefix(result, "wrote ") && !strings.HasPrefix(result, "created ") {
		return nil
	}
	return strings.Split(strings.TrimRight(result[i+1:], "\n"), "\n")
}

// changes draws lines of a diff.
func (p painter) changes(diff []string, w, most int) []string {
	var out []string
	for i, l := range diff {
		if i == most {
			return append(out, p.pal.Dim(fmt.Sprintf("     … %d more lines (^O)", len(diff)-most)))
		}
		l = cut(strings.ReplaceAll(l, "\t", "    "), w-6)
		switch {
		case strings.HasPrefix(l, "+"):
			l = p.pal.Green(l)
		case strings.HasPrefix(l, "-"):
			l = p.pal.Red(l)
		default:
			l = p.pal.Dim(l)
		}
		out = append(out, "     "+l)
	}
	return out
}

func (p painter) toolLine(u *transcript.Tool, now time.Time) string {
	line := p.pal.Dim("⚙") + " " + strings.TrimRight(u.Name+" "+u.Arg, " ")
	switch u.State {
	case transcript.Running:
		return line + p.pal.Dim(" … "+inwords.Brief(u.Time.Elapsed(now)))
	case transcript.Failed:
		return line + " " + p.pal.Red("✗ "+transcript.Line(firstLineOf(u.Result)))
	case transcript.Stopped:
		return line + p.pal.Yellow(" ■ stopped")
	}
	return line + " " + p.pal.Green("✓") + p.pal.Dim(" "+inwords.Brief(u.Time.Elapsed(now)))
}

func firstLineOf(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// partLine draws a part on one line, "" if it has nothing to tell.
func (p painter) partLine(x *transcript.Part, now time.Time) string {
	line := transcript.Line(x.Text)
	switch x.Kind {
	case transcript.Text:
		return "● " + line
	case transcript.Reasoning:
		return p.pal.Dim("∴ " + line)
	case transcript.ToolUse:
		return p.toolLine(x.Tool, now)
	case transcript.Ask:
		return strings.TrimSpace(strings.Join(p.asked(x.Question, 200), " "))
	case transcript.Retry:
		return p.pal.Yellow("! " + line)
	case transcript.Failure:
		return p.pal.Red("✗ " + line)
	}
	return p.pal.Dim("· " + line)
}

// liveText draws a text that grows. It renders what cannot change any more once: the paragraphs before the last empty line that is not in a code block.
type liveText struct {
	settled string
	lines   []string
	width   int
}

func (l *liveText) draw(t *Terminal, s string, w int) []string {
	if l.width != w || !strings.HasPrefix(s, l.settled) {
		l.settled, l.lines, l.width = "", nil, w
	}
	if end := boundary(s[len(l.settled):]); end > 0 {
		fresh := s[len(l.settled) : len(l.settled)+end]
		l.lines = append(append(l.lines, markdownLines(fresh, w-4, t.pal != "")...), "")
		l.settled += fresh
	}
	body := append(slices.Clone(l.lines), markdownLines(s[len(l.settled):], w-4, t.pal != "")...)
	return indented(body, " ● ", "   ")
}

// boundary returns the end of the last paragraph of a Markdown text that ends with an empty line, outside of code blocks, lists, quotes and tables; 0 if
// there is none.
func boundary(s string) int {
	end, at, fenced, nested := 0, 0, false, false
	for line := range strings.Lines(s) {
		at += len(line)
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(trimmed, "```") || strings.HasPrefix(trimmed, "~~~"):
			fenced = !fenced
		case fenced:
		case trimmed == "" && strings.HasSuffix(line, "\n"):
			if !nested {
				end = at
			}
		default:
			nested = strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t") || strings.ContainsAny(trimmed[:1], "-*+>|0123456789")
		}
	}
	return end
}
