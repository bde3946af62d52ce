package distil

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/superstep-dev/superstep/internal/clean"
)

// modeline names the file's schema for editors.
const modeline = "# yaml-language-server: $schema=../schema/workflow.json\n"

// yaml returns the text of the recipe.
func (p *plan) yaml() string {
	w := &writer{}
	w.WriteString(modeline)
	fmt.Fprintf(w, "# distilled from run %s: %s, %d cut\n", clean.Text(p.opt.Run), count(p.size(), "step"), len(p.cut))
	for _, s := range p.steps {
		if s.why != "" {
			fmt.Fprintf(w, "# not proven word for word: step %s; %s\n", s.id, comment(s.why))
		}
		if s.final {
			fmt.Fprintf(w, "# step %s stands for the agent that led, which gave the answer itself\n", s.id)
		}
	}
	fmt.Fprintf(w, "name: %s\n", quote(p.opt.Name))
	if d := p.description(); d != "" {
		fmt.Fprintf(w, "description: %s\n", quote(d))
	}
	if len(p.inputs) > 0 {
		w.WriteString("\ninputs:\n")
	}
	for _, in := range p.inputs {
		w.input(in)
	}
	w.WriteString("\nsteps:\n")
	for i, s := range p.steps {
		if i > 0 {
			w.WriteString("\n")
		}
		w.step(s, "  ")
	}
	w.WriteString("\noutput:")
	w.value(p.result, "", false)
	return w.String()
}

// comment returns a text as a comment on one line.
func comment(s string) string { return line(clean.Text(s), 400) }

// size returns the number of steps, nested ones included.
func (p *plan) size() int {
	n := 0
	for _, s := range p.steps {
		n += 1 + len(s.inner)
	}
	return n
}

func (p *plan) description() string {
	if files := p.rec.files(); len(files) > 0 {
		return files[0].Description
	}
	return line(clean.Text(p.rec.started.Title), 200)
}

// YAML returns a value as YAML, with what is between it and its key. Lines after the first are indented more than by indent.
func YAML(v any, indent string) string {
	w := &writer{}
	w.value(v, indent, true)
	return w.String()
}

type writer struct{ strings.Builder }

func (w *writer) input(in *input) {
	fmt.Fprintf(w, "  - name: %s\n", quote(in.Name))
	if d := in.example(); d != "" {
		fmt.Fprintf(w, "    description: %s\n", quote(clean.Text(d)))
	}
	if in.Type != "" && in.Type != "string" {
		fmt.Fprintf(w, "    type: %s\n", in.Type)
	}
	if in.Enum != nil {
		w.WriteString("    enum:")
		var list []any
		for _, e := range in.Enum {
			list = append(list, decoded(e))
		}
		w.value(list, "    ", true)
	}
	if in.Default != nil {
		w.WriteString("    default:")
		w.value(decoded(in.Default), "    ", true)
	} else if in.Required {
		w.WriteString("    required: true\n")
	}
}

func (w *writer) step(s *step, indent string) {
	fmt.Fprintf(w, "%s- id: %s\n", indent, quote(s.id))
	in := indent + "  "
	u := s.unit
	switch {
	case s.rows != nil:
	case u.kind == agentUnit:
		fmt.Fprintf(w, "%ssubagent: %s\n", in, quote(u.name))
	case u.kind == toolUnit:
		fmt.Fprintf(w, "%stool: %s\n", in, quote(u.name))
	default:
		fmt.Fprintf(w, "%sworkflow: %s\n", in, quote(u.name))
	}
	if u.model != "" && s.rows == nil {
		fmt.Fprintf(w, "%smodel: %s\n", in, quote(u.model))
	}
	if uses := s.uses(); len(uses) > 0 {
		ids := make([]string, len(uses))
		for i, o := range uses {
			ids[i] = quote(o.id)
		}
		fmt.Fprintf(w, "%sdepends_on: [%s]\n", in, strings.Join(ids, ", "))
	}
	switch args, _ := s.args.(map[string]any); {
	case s.rows != nil:
		fmt.Fprintf(w, "%sforeach:\n%s  in:", in, in)
		w.value(s.in, in+"  ", false)
		fmt.Fprintf(w, "%s  steps:\n", in)
		for _, i := range s.inner {
			w.step(i, in+"    ")
		}
	case u.kind == agentUnit:
		w.WriteString(in + "prompt:")
		w.value(s.text, in, false)
	case len(args) > 0:
		w.WriteString(in + map[unitKind]string{toolUnit: "args:", flowUnit: "inputs:"}[u.kind])
		w.value(s.args, in, false)
	}
	if len(s.schema) > 0 {
		w.WriteString(in + "output:")
		w.value(decoded(s.schema), in, true)
	}
}

// value writes a value after its key. A plain value has no template.
func (w *writer) value(v any, indent string, plain bool) {
	switch x := v.(type) {
	case *tmpl:
		w.text(x.text(), indent)
	case string:
		if !plain {
			x = escaped(x)
		}
		w.text(x, indent)
	case map[string]any:
		if len(x) == 0 {
			w.WriteString(" {}\n")
			return
		}
		w.WriteString("\n")
		for _, k := range keysOf(x) {
			fmt.Fprintf(w, "%s  %s:", indent, quote(k))
			w.value(x[k], indent+"  ", plain)
		}
	case []any:
		if len(x) == 0 {
			w.WriteString(" []\n")
			return
		}
		w.WriteString("\n")
		for _, e := range x {
			w.WriteString(indent + "  -")
			w.value(e, indent+"  ", plain)
		}
	default:
		fmt.Fprintf(w, " %s\n", compact(x))
	}
}

// text writes a text after its key, as a block if that is easier to read.
func (w *writer) text(s, indent string) {
	if !blocky(s) {
		w.WriteString(" " + quote(s) + "\n")
		return
	}
	mark := "|-"
	if strings.HasSuffix(s, "\n") {
		mark, s = "|", s[:len(s)-1]
	}
	w.WriteString(" " + mark + "\n")
	for l := range strings.SplitSeq(s, "\n") {
		if l != "" {
			w.WriteString(indent + "  " + l)
		}
		w.WriteString("\n")
	}
}

// blocky reports whether a text can be written as a block without changing it.
func blocky(s string) bool {
	if len(s) < 60 && !strings.Contains(s, "\n") || strings.HasPrefix(s, " ") || strings.HasPrefix(s, "\n") || strings.HasSuffix(s, "\n\n") || s == "\n" {
		return false
	}
	for l := range strings.SplitSeq(s, "\n") {
		if strings.ContainsRune(l, '\t') || strings.HasSuffix(l, " ") || strings.IndexFunc(l, func(r rune) bool { return !unicode.IsPrint(r) }) >= 0 {
			return false
		}
	}
	return strings.ToValidUTF8(s, "") == s
}

// bare are words that need no quotes.
var bare = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`)

// words matches the words that YAML would not read as text.
var reserved = []string{"true", "false", "yes", "no", "on", "off", "null", "y", "n"}

// quote returns a text quoted, on one line.
func quote(s string) string {
	if bare.MatchString(s) && !slices.Contains(reserved, strings.ToLower(s)) {
		return s
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range strings.ToValidUTF8(s, "\ufffd") {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
