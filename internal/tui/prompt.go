package tui

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/question"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

// prompting is one question as it is put to the person at the terminal.
type prompting struct {
	screen  *Screen
	session *Session
	ctx     context.Context // when it ends, so does the prompt
	q       *runlog.Question
	live    *live // where what is typed is shown, nil if the terminal does that
	who     string
	asked   string // what, cleaned
	menu    []question.Choice
	folded  int           // lines that are not shown
	count   func() string // which question of how many it is, "" for the only one
}

// prompt asks the user at the terminal while the run continues.
func (k *asker) prompt(ctx context.Context, q *runlog.Question) (*runlog.Answer, bool) {
	a := k.screen
	pal := a.Err
	p := &prompting{screen: a, session: k.session, ctx: ctx, q: q, asked: transcript.Clean(question.Headed(q.Header, q.Text)), menu: question.Menu(q)}
	if v := k.session.live(); v != nil {
		k.session.change(v, func() {
			if v.draw(true); v.take() {
				p.live, v.asking = v, true
			}
		})
	}
	if p.live != nil {
		defer k.session.change(p.live, func() { p.live.asking = false })
	} else {
		k.session.suspend(true)
		defer k.session.suspend(false)
	}
	p.who = pal.Yellow("?") + " " + pal.Bold(question.Asks(q.Path, q))
	if q.Call == nil {
		p.say("\n" + p.who + " " + p.quoteLines(p.asked) + "\n" + p.choices())
	} else {
		_, height := a.size()
		p.call(max(6, min(30, height-16)))
	}
	if !a.set.NoBell && a.env("TERM") != "dumb" {
		_, _ = a.err.Write([]byte("\a"))
	}
	if !a.in.fresh(ctx) {
		return nil, false
	}
	p.count = k.count
	var answer json.RawMessage
	var ok bool
	if f := question.FormOf(q.Schema); f != nil && len(q.Options) == 0 {
		answer, ok = p.form(f.With(q.Default))
	} else {
		answer, ok = p.one()
	}
	return &runlog.Answer{Value: answer, By: "person"}, ok
}

// say shows a text. One without an end of line continues with the next.
func (p *prompting) say(s string) {
	if p.live == nil {
		_, _ = p.screen.err.Write([]byte(s))
		return
	}
	p.session.change(p.live, func() { p.live.ask(s) })
}

// quoteLines breaks the lines of a text that are a stranger's words, so that the terminal does not, see quote.
func (p *prompting) quoteLines(text string) string {
	width, _ := p.screen.size()
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, "> ") {
			out = append(out, quote(line, width-3)...)
		} else {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}

// call shows a permission request, with that many lines of a long change, or all of them if 0.
func (p *prompting) call(fold int) {
	lines, folded := card(p.q.Call, p.screen.Err, fold)
	p.folded = max(p.folded, folded)
	p.say("\n" + p.who + "\n" + strings.Join(lines, "\n") + "\n" + p.choices())
}

// choices lists the possible answers, one per line.
func (p *prompting) choices() string {
	var b strings.Builder
	width := 0
	for _, c := range p.menu {
		width = max(width, ansi.StringWidth(c.Name))
	}
	for _, c := range p.menu {
		b.WriteString(strings.TrimRight(fmt.Sprintf("  %d. %-*s  %s", c.Key, width, c.Name, c.Note), " ") + "\n")
	}
	width, _ = p.screen.size()
	return inwords.Wrap(b.String(), width)
}

// line asks for a line. It is not ok at the end of the input, or of the run.
func (p *prompting) line(label string) (line string, ok bool) {
	if p.live == nil {
		if label != "" {
			p.say(p.count() + label)
		}
		if line, ok = p.screen.in.line(p.ctx); !ok {
			p.say("\n")
		}
		return line, ok
	}
	if label == "" {
		label = "  "
	}
	line, ok = p.screen.in.keyed(p.ctx, func(typed string) {
		p.session.change(p.live, func() { p.live.prompt, p.live.typed = label, typed })
	})
	p.session.change(p.live, func() {
		p.live.prompt, p.live.typed = "", ""
		p.live.ask(p.live.count + label + transcript.Line(line) + "\n")
	})
	return line, ok
}

// one asks for one value.
func (p *prompting) one() (json.RawMessage, bool) {
	q := p.q
	wanted := ""
	if n := len(p.menu); n > 0 {
		wanted = fmt.Sprintf(" 1-%d", n)
		if q.Several() {
			wanted += ", several with commas"
		}
	}
	label := "Answer" + wanted
	if len(q.Default) > 0 {
		label += ", Enter for " + transcript.Line(transcript.Value(q.Default))
	}
	if p.folded > 0 {
		label += ", v to see all"
	}
	label += ", Ctrl-D to leave it open: "
	for {
		line, ok := p.line(label)
		if !ok {
			return nil, false
		}
		line = strings.TrimSpace(line)
		if line == "" {
			if len(q.Default) > 0 {
				return q.Default, true
			}
			continue
		}
		if line == "v" && p.folded > 0 {
			p.call(0)
			continue
		}
		line, ok, err := p.choose(line)
		switch {
		case !ok:
			return nil, false
		case line == "" && err == nil: // another choice
			continue
		}
		var v json.RawMessage
		if err == nil {
			v, err = question.Fit(q, line)
		}
		if err == nil {
			return v, true
		}
		again, _, _ := strings.Cut(p.asked, "\n") // which one it still is
		if q.Call != nil {
			again = ""
		}
		if wanted != "" && len(q.Schema) > 0 {
			err = errors.New("answer" + wanted + "; " + err.Error())
		}
		p.say("  " + transcript.Clean(err.Error()) + "\n" + strings.TrimRight(p.who+" "+again, " ") + "\n")
	}
}

// choose creates an answer from typed input: the number of a choice, and its text if it requires one. It returns "" if the user gave none after all.
func (p *prompting) choose(line string) (answer string, ok bool, err error) {
	c := p.choice(line)
	switch {
	case c == nil:
		return line, true, nil
	case c.Answer == "":
		return "", true, fmt.Errorf("%d (%s) is %s", c.Key, c.Name, c.Note)
	}
	if word, open := question.Opening(p.q, c.Answer); open {
		text, ok := p.instead()
		if !ok || text == "" {
			return "", ok, nil
		}
		return word + ": " + text, true, nil
	}
	if !c.Why {
		return c.Answer, true, nil
	}
	why, ok := p.line("Why: ")
	if why = strings.TrimSpace(why); why == "" {
		return c.Answer, ok, nil
	}
	return c.Answer + ": " + why, ok, nil
}

// choice returns the choice that was typed, by its number or by its word if it requires a text; nil for any other input.
func (p *prompting) choice(line string) *question.Choice {
	n, err := strconv.Atoi(line)
	for i := range p.menu {
		c := &p.menu[i]
		word, open := question.Opening(p.q, c.Answer)
		if err == nil && c.Key == n && !slices.Contains(p.q.Options, line) || open && (line == c.Answer || line == word || line == word+":") {
			return c
		}
	}
	return nil
}

// instead asks for a replacement of the value that the question shows; "" keeps that value.
func (p *prompting) instead() (string, bool) {
	now := shown(p.asked)
	if now != "" {
		p.say("Now:\n  " + strings.ReplaceAll(now, "\n", "\n  ") + "\n")
	}
	for {
		var lines []string
		label := "Go on with instead, an empty line ends it: "
		for {
			line, ok := p.line(label)
			if !ok && len(lines) == 0 {
				return "", false
			}
			if !ok || strings.TrimSpace(line) == "" {
				break
			}
			lines, label = append(lines, line), ""
		}
		text, err := replacement(now, strings.Join(lines, "\n"))
		if err == nil {
			return text, true
		}
		p.say("  " + err.Error() + "\n")
	}
}

// replacement checks what is to take the place of a value. Of an object, it must be one.
func replacement(now, text string) (string, error) {
	object := func(s string) bool {
		var o map[string]any
		return json.Unmarshal([]byte(s), &o) == nil && o != nil
	}
	if text == "" || !object(now) {
		return text, nil
	}
	var b bytes.Buffer
	if object(text) && json.Compact(&b, []byte(text)) == nil {
		return b.String(), nil
	}
	return "", errors.New("want a JSON object as the one there is")
}

// shown returns the value at the end of a question, indented by two columns, or "" if there is none.
func shown(question string) string {
	lines := strings.Split(strings.TrimRight(question, "\n"), "\n")
	i := len(lines)
	for i > 0 && (strings.HasPrefix(lines[i-1], "  ") || i < len(lines) && lines[i-1] == "" && i > 1 && strings.HasPrefix(lines[i-2], "  ")) {
		i--
	}
	if i == 0 || i == len(lines) { // the first line asks
		return ""
	}
	var out []string
	for _, l := range lines[i:] {
		out = append(out, strings.TrimPrefix(l, "  "))
	}
	return strings.Join(out, "\n")
}

// form asks for the fields of a form, one after the other.
func (p *prompting) form(f question.Form) (json.RawMessage, bool) {
	p.say("  " + inwords.Plural(len(f), "field") + "; Ctrl-D leaves it open\n")
	for {
		values := make([]json.RawMessage, len(f))
		for i := range f {
			var ok bool
			if values[i], ok = p.field(&f[i]); !ok {
				return nil, false
			}
			if no, ok := f.Decline(values[0]); ok {
				return json.RawMessage(no), true
			}
		}
		answer, err := question.Fit(p.q, f.Object(values))
		if err == nil {
			return answer, true
		}
		p.say("  " + transcript.Clean(err.Error()) + "\n")
	}
}

// field asks for one field until the value fits. It returns nil for an omitted field.
func (p *prompting) field(f *question.Field) (json.RawMessage, bool) {
	if f.Description != "" {
		p.say("  " + strings.ReplaceAll(p.quoteLines(transcript.Line(f.Description)), "\n", "\n  ") + "\n")
	}
	for i, v := range f.Enum {
		p.say(fmt.Sprintf("  %d. %s\n", i+1, transcript.Line(transcript.Value(v))))
	}
	for {
		line, ok := p.line(f.Label())
		if !ok {
			return nil, false
		}
		v, err := f.Read(line)
		if err == nil {
			return v, true
		}
		p.say("  " + transcript.Clean(err.Error()) + "\n")
	}
}
