package tui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/question"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/workflow"
)

// A formPane asks for the inputs of a workflow, field by field, and starts it.
type formPane struct {
	t      *Terminal
	w      *workflow.Workflow
	fields question.Form
	typed  []string // by field, "" for its default
	sel    int      // the field that is typed into; behind the last is the line that starts the run
	wrong  map[int]string
}

// newFormPane creates the form of a workflow, in which what is given is filled in.
func newFormPane(t *Terminal, w *workflow.Workflow, given json.RawMessage) *formPane {
	p := &formPane{t: t, w: w, wrong: map[int]string{}}
	var has map[string]json.RawMessage
	unmarshal(given, &has)
	inputs := w.List()
	slices.SortStableFunc(inputs, func(a, b workflow.Input) int {
		switch {
		case a.Required && !b.Required:
			return -1
		case b.Required && !a.Required:
			return 1
		}
		return 0
	})
	p.sel = -1
	for _, in := range inputs {
		f := question.Field{Name: in.Name, Type: in.Type, Description: in.Description, Default: in.Default, Required: in.Required}
		if in.Type == "any" {
			f.Type = ""
		}
		for _, v := range in.Enum {
			if b, err := json.Marshal(v); err == nil {
				f.Enum = append(f.Enum, b)
			}
		}
		text := ""
		if v, ok := has[in.Name]; ok {
			text = transcript.Value(v)
		}
		if text == "" && in.Required && p.sel < 0 {
			p.sel = len(p.fields)
		}
		p.fields, p.typed = append(p.fields, f), append(p.typed, text)
	}
	if p.sel < 0 {
		p.sel = 0
	}
	return p
}

func (p *formPane) title() string { return "/" + transcript.Line(p.w.Name) }

func (p *formPane) hints() string {
	if p.sel < len(p.fields) && len(p.choices()) > 0 {
		return "←→ choose · Enter next · ↑↓ fields · Esc leave"
	}
	return "Enter next · ↑↓ fields · Esc leave; the last line starts the run"
}

// choices are the values that the selected field can have, nil for any.
func (p *formPane) choices() []string {
	if p.sel >= len(p.fields) {
		return nil
	}
	f := &p.fields[p.sel]
	var out []string
	for _, v := range f.Enum {
		out = append(out, transcript.Line(transcript.Value(v)))
	}
	if f.Type == "boolean" && out == nil {
		out = []string{"true", "false"}
	}
	return out
}

func (p *formPane) draw(w, h int) []string {
	pal := p.t.pal
	out := []string{"", " " + pal.Bold("/"+transcript.Line(p.w.Name)) + "  " + cut(transcript.Line(p.w.Description), max(0, w-len(p.w.Name)-6)), ""}
	wide := 0
	for i := range p.fields {
		wide = max(wide, ansi.StringWidth(transcript.Line(p.fields[i].Name)))
	}
	wide = min(wide, 24)
	at := 0
	for i := range p.fields {
		f := &p.fields[i]
		mark, cursor := "   ", ""
		if i == p.sel {
			mark, cursor, at = " ▸ ", "▏", len(out)
		}
		name := padded(cut(transcript.Line(f.Name), wide), wide) + "  "
		if f.Required {
			name = strings.TrimSuffix(name, " ") + "*"
		}
		value := tailOf(transcript.Line(p.typed[i]), max(4, w-wide-10)) + cursor
		if p.typed[i] == "" && len(f.Default) > 0 {
			value = cursor + pal.Dim(transcript.Line(transcript.Value(f.Default))+" (default)")
		}
		out = append(out, mark+name+" "+value)
		if i == p.sel {
			about := f.Words()
			if f.Description != "" {
				about += ": " + transcript.Line(f.Description)
			}
			for l := range strings.SplitSeq(inwords.Wrap(about, max(20, w-8)), "\n") {
				out = append(out, pal.Dim("       "+l))
			}
		}
		if why := p.wrong[i]; why != "" {
			out = append(out, pal.Red(cut("     ✗ "+why, w)))
		}
	}
	mark := "   "
	if p.sel == len(p.fields) {
		mark, at = " ▸ ", len(out)+1
	}
	out = append(out, "", mark+"start the run", pal.Dim("   * required"))
	for i := range out {
		out[i] = cut(out[i], w)
	}
	first := max(0, min(at-h/2, len(out)-h))
	return out[first:min(len(out), first+h)]
}

// tailOf cuts a text at its beginning.
func tailOf(s string, w int) string {
	if n := ansi.StringWidth(s); n > w {
		return ansi.TruncateLeft(s, n-w+1, "…")
	}
	return s
}

func (p *formPane) key(k tea.KeyPressMsg) tea.Cmd {
	if p.sel < len(p.fields) {
		delete(p.wrong, p.sel)
	}
	switch k.String() {
	case "up":
		p.check()
		p.sel = max(0, p.sel-1)
	case "down":
		p.check()
		p.sel = min(len(p.fields), p.sel+1)
	case "enter":
		if p.sel == len(p.fields) {
			return p.submit()
		}
		if p.check() {
			p.sel++
		}
	case "left", "right":
		p.choose(k.String() == "left")
	case "ctrl+u":
		if p.sel < len(p.fields) {
			p.typed[p.sel] = ""
		}
	default:
		if p.sel < len(p.fields) {
			typeInto(&p.typed[p.sel], k)
		}
	}
	return nil
}

func (p *formPane) paste(s string) {
	if p.sel < len(p.fields) {
		p.typed[p.sel] += transcript.Clean(s)
	}
}

// choose takes the next or the previous possible value.
func (p *formPane) choose(back bool) {
	all := p.choices()
	if len(all) == 0 {
		return
	}
	i := slices.Index(all, p.typed[p.sel]) + 1
	if back {
		i = max(i, 1) + len(all) - 2
	}
	p.typed[p.sel] = all[i%len(all)]
}

// value reads a field: nil if it is left to its default.
func (p *formPane) value(i int) (json.RawMessage, error) {
	f, text := &p.fields[i], strings.TrimSpace(p.typed[i])
	switch {
	case text == "" && f.Required && len(f.Default) == 0:
		return nil, fmt.Errorf("%s is required", transcript.Line(f.Name))
	case text == "":
		return nil, nil
	}
	return f.Parse(text)
}

// check reports whether the selected field is right.
func (p *formPane) check() bool {
	if p.sel >= len(p.fields) {
		return true
	}
	if _, err := p.value(p.sel); err != nil {
		p.wrong[p.sel] = transcript.Line(err.Error())
		return false
	}
	return true
}

// submit starts the run, or goes to the first field that is wrong.
func (p *formPane) submit() tea.Cmd {
	values := make([]json.RawMessage, len(p.fields))
	clear(p.wrong)
	first := -1
	for i := range p.fields {
		v, err := p.value(i)
		if err != nil {
			p.wrong[i] = transcript.Line(err.Error())
			if first < 0 {
				first = i
			}
		}
		values[i] = v
	}
	if first >= 0 {
		p.sel = first
		return nil
	}
	inputs := json.RawMessage(p.fields.Object(values))
	if err := p.w.Check(inputs); err != nil {
		p.t.fail(err)
		return nil
	}
	var b bytes.Buffer
	if json.Compact(&b, inputs) == nil {
		inputs = b.Bytes()
	}
	p.t.pop()
	return p.t.start(&Start{Workflow: p.w.Name, Inputs: inputs})
}
