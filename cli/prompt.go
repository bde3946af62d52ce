package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/transcript"
)

// prompting is one question as it is put to the person at the terminal.
type prompting struct {
	app   *app
	ctx   context.Context // the run's: when it ends, so does the prompt
	q     *runlog.OpenQuestion
	who   string // who asks
	asked string // what, cleaned
}

// prompt asks the person at the terminal, until the run stops.
func (k *asker) prompt(ctx context.Context, q *runlog.OpenQuestion) (*runlog.Answered, bool) {
	a := k.app
	pal := palette(a.term.errColor)
	k.session.suspend()
	defer k.session.resume()
	p := &prompting{app: a, ctx: ctx, q: q, who: pal.yellow("?") + " " + pal.bold(transcript.Line(q.Path)+" asks:") + " ", asked: transcript.Clean(q.Question)}
	p.say("\n" + p.who + p.asked + "\n")
	var answer json.RawMessage
	var ok bool
	if f := formOf(q.Schema); f != nil && len(q.Options) == 0 {
		answer, ok = p.form(f.with(q.Default))
	} else {
		answer, ok = p.one()
	}
	return &runlog.Answered{Answer: answer, By: "person"}, ok
}

func (p *prompting) say(s string) { _, _ = p.app.err.Write([]byte(s)) }

// line asks for a line. It is not ok at the end of the input, or of the run.
func (p *prompting) line(label string) (line string, ok bool) {
	p.say(label)
	select {
	case <-p.ctx.Done():
	case line, ok = <-p.app.in.next():
	}
	if !ok {
		p.say("\n")
	}
	return line, ok
}

// one asks for one value.
func (p *prompting) one() (json.RawMessage, bool) {
	q := p.q
	for i, o := range q.Options {
		mark := ""
		if string(q.Default) != "" && transcript.Value(q.Default) == transcript.Clean(o) {
			mark = " (default)"
		}
		p.say(fmt.Sprintf("  %d. %s%s\n", i+1, transcript.Line(o), mark))
	}
	wanted := ""
	if n := len(q.Options); n > 0 {
		wanted = fmt.Sprintf(" 1-%d", n)
	}
	if agent.Permission(&q.Asked) {
		wanted += `, or "deny: why"`
	}
	label := "Answer" + wanted
	if len(q.Default) > 0 {
		label += ", Enter for " + transcript.Line(transcript.Value(q.Default))
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
		if n, err := strconv.Atoi(line); err == nil && n >= 1 && n <= len(q.Options) && !slices.Contains(q.Options, line) {
			line = q.Options[n-1]
		}
		line, ok = p.complete(line)
		if !ok {
			return nil, false
		}
		if line == "" { // another choice
			continue
		}
		v, err := fit(&q.Asked, line)
		if err == nil {
			return v, true
		}
		again, _, _ := strings.Cut(p.asked, "\n") // which one it still is
		if wanted != "" && len(q.Schema) > 0 {
			err = errors.New("answer" + wanted + "; " + err.Error())
		}
		p.say("  " + transcript.Clean(err.Error()) + "\n" + p.who + again + "\n")
	}
}

// complete asks for the text that an option wants after it, or may have. It gives "" for no choice.
func (p *prompting) complete(line string) (string, bool) {
	for _, o := range p.q.Options {
		word, open := opening(&p.q.Asked, o)
		switch {
		case open && (line == o || line == word || line == word+":"):
			text, ok := p.instead()
			if !ok || text == "" {
				return "", ok
			}
			return word + ": " + text, true
		case !open && line == o && reasoned(&p.q.Asked, o):
			why, ok := p.line("Why (Enter for none): ")
			if why = strings.TrimSpace(why); why != "" {
				line += ": " + why
			}
			return line, ok
		}
	}
	return line, true
}

// instead asks what to go on with instead of what the question shows, "" for what there is.
func (p *prompting) instead() (string, bool) {
	now := shown(p.asked)
	if now != "" {
		p.say("Now:\n  " + strings.ReplaceAll(now, "\n", "\n  ") + "\n")
	}
	object := func(s string) bool {
		var o map[string]any
		return json.Unmarshal([]byte(s), &o) == nil && o != nil
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
		text := strings.Join(lines, "\n")
		if text == "" || !object(now) {
			return text, true
		}
		var b bytes.Buffer
		if object(text) && json.Compact(&b, []byte(text)) == nil {
			return b.String(), true
		}
		p.say("  want a JSON object as the one there is\n")
	}
}

// shown is what a question shows at its end, set in by two columns; "" for nothing.
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
func (p *prompting) form(f form) (json.RawMessage, bool) {
	p.say("  " + plural(len(f), "field") + "; Ctrl-D leaves it open\n")
	for {
		var b strings.Builder
		for i := range f {
			v, ok := p.field(&f[i])
			if !ok {
				return nil, false
			}
			if v == nil {
				continue
			}
			name, err := json.Marshal(f[i].Name)
			if err != nil {
				return nil, false
			}
			if b.Len() > 0 {
				b.WriteString(",")
			}
			b.Write(name)
			b.WriteString(":")
			b.Write(v)
		}
		answer, err := fit(&p.q.Asked, "{"+b.String()+"}")
		if err == nil {
			return answer, true
		}
		p.say("  " + transcript.Clean(err.Error()) + "\n")
	}
}

// field asks for one field, again until it fits; nil for one that is left out.
func (p *prompting) field(f *formField) (json.RawMessage, bool) {
	name := transcript.Line(f.Name)
	if f.Description != "" {
		p.say("  " + transcript.Line(f.Description) + "\n")
	}
	label := name + " (" + kindOf(f.Type)
	if n := len(f.Enum); n > 0 {
		for i, v := range f.Enum {
			p.say(fmt.Sprintf("  %d. %s\n", i+1, transcript.Line(transcript.Value(v))))
		}
		label = fmt.Sprintf("%s (1-%d", name, n)
	}
	switch {
	case len(f.Default) > 0:
		label += ", Enter for " + transcript.Line(transcript.Value(f.Default))
	case !f.Required:
		label += ", Enter for none"
	}
	for {
		line, ok := p.line(label + "): ")
		if !ok {
			return nil, false
		}
		line = strings.TrimSpace(line)
		switch {
		case line == "" && len(f.Default) > 0:
			return f.Default, true
		case line == "" && !f.Required:
			return nil, true
		case line == "":
			p.say("  " + name + " is required\n")
			continue
		}
		v, err := f.read(line)
		if err == nil {
			return v, true
		}
		p.say("  " + name + ": " + transcript.Clean(err.Error()) + "\n")
	}
}
