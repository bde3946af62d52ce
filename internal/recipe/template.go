package recipe

import (
	"fmt"
	"strings"
)

// A Ref is a reference to a value: "inputs.topic", "steps.find.output.items.0", "item.title".
type Ref struct{ path string }

// String returns the source text of the reference, without spaces.
func (r Ref) String() string { return r.path }

// Path returns the parts of the reference.
func (r Ref) Path() []string { return strings.Split(r.path, ".") }

// Step returns the id of the step that is referenced, or "" if the reference names something else.
func (r Ref) Step() string { return r.below("steps") }

// Input returns the name of the referenced input, or "" if the reference is not to an input.
func (r Ref) Input() string { return r.below("inputs") }

func (r Ref) below(root string) string {
	head, rest, _ := strings.Cut(r.path, ".")
	if head != root {
		return ""
	}
	id, _, _ := strings.Cut(rest, ".")
	return id
}

// A Template is a text with references in it.
type Template struct {
	text  string
	parts []part
}

// A part is a literal text, or a reference.
type part struct {
	text     string
	ref      *Ref
	from, to int // where the reference is in the text
}

// String returns the source text of the template.
func (t *Template) String() string { return t.text }

// Refs returns the references in the template, in their order and with duplicates.
func (t *Template) Refs() []Ref {
	var refs []Ref
	for _, p := range t.parts {
		if p.ref != nil {
			refs = append(refs, *p.ref)
		}
	}
	return refs
}

// exact returns the reference if the template consists of exactly one, or else nil.
func (t *Template) exact() *Ref {
	if len(t.parts) == 1 {
		return t.parts[0].ref
	}
	return nil
}

// A fault is a mistake in a part of a text.
type fault struct {
	from, to   int
	code, text string
}

// parseTemplate reads a template. Invalid parts stay in it as text.
func parseTemplate(text string) (*Template, []fault) {
	t := &Template{text: text}
	var faults []fault
	var lit strings.Builder
	flush := func() {
		if lit.Len() > 0 {
			t.parts = append(t.parts, part{text: lit.String()})
			lit.Reset()
		}
	}
	for i := 0; i < len(text); {
		open := strings.Index(text[i:], "{{")
		if open < 0 {
			lit.WriteString(text[i:])
			break
		}
		open += i
		if open > i && text[open-1] == '\\' {
			lit.WriteString(text[i:open-1] + "{{")
			i = open + 2
			continue
		}
		lit.WriteString(text[i:open])
		next := strings.Index(text[open+2:], "{{")
		rest := text[open+2:]
		if next >= 0 {
			rest = rest[:next]
		}
		length := strings.Index(rest, "}}")
		if length < 0 {
			faults = addFault(faults, fault{open, open + 2, codeUnclosed, ""})
			lit.WriteString(text[open : open+2+len(rest)])
			i = open + 2 + len(rest)
			continue
		}
		i = open + 2 + length + 2
		body := text[open+2 : i-2]
		if ref := strings.TrimFunc(body, white); refForm(ref) {
			flush()
			from := open + 2 + strings.Index(body, ref)
			t.parts = append(t.parts, part{ref: &Ref{ref}, from: from, to: from + len(ref)})
			continue
		}
		lit.WriteString(text[open:i])
		faults = addFault(faults, fault{open, i, codeTemplate, notRef(strings.TrimFunc(body, white))})
	}
	flush()
	return t, faults
}

// addFault records a fault, up to the number of faults that are shown.
func addFault(faults []fault, f fault) []fault {
	if len(faults) > maxProblems {
		return faults
	}
	return append(faults, f)
}

// refForm reports whether a text has the form of a reference: words with dots between.
func refForm(s string) bool {
	if s == "" || len(s) > 1000 {
		return false
	}
	for part := range strings.SplitSeq(s, ".") {
		if part == "" {
			return false
		}
		for i := range len(part) {
			c := part[i]
			if c != '_' && c != '-' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
				return false
			}
		}
	}
	return true
}

// notRef returns why the text in braces is not a reference.
func notRef(body string) string {
	switch {
	case body == "":
		return "{{}} is empty; only inputs and steps are available, such as {{inputs.topic}}; for literal braces write \\{{"
	case strings.ContainsAny(body, "[]") && refForm(strings.Trim(strings.NewReplacer("[", ".", "]", "", `"`, "", "'", "").Replace(body), ".")):
		return fmt.Sprintf("{{%s}}: below a value, dots lead on: write {{%s}}", name(body),
			name(strings.NewReplacer("[", ".", "]", "", `"`, "", "'", "").Replace(body)))
	case strings.ContainsAny(body, "|()+*?=<> "):
		return fmt.Sprintf("{{%s}}: templates have no logic, and only inputs and steps are available, such as {{inputs.topic}} or "+
			"{{steps.find.output}}; for literal braces write \\{{", name(body))
	case strings.HasPrefix(body, "inputs.") || strings.HasPrefix(body, "steps."):
		return fmt.Sprintf("{{%s}}: names in a reference have a-z, A-Z, 0-9, _ and -; rename what it refers to", name(body))
	}
	return fmt.Sprintf("{{%s}}: only inputs and steps are available, such as {{inputs.topic}} or {{steps.find.output}}; for literal braces write \\{{", name(body))
}

// maxPrompt is how many bytes a text has at most with its values in it, about 250,000 tokens.
const maxPrompt = 1 << 20

// maxValue bounds a value in the same way. The same limit applies to the inputs of a workflow.
const maxValue = 4 << 20

// room is how many more bytes may be inserted into a text or a value.
type room struct{ most, left int }

func (r *room) take(n int) bool {
	r.left -= n
	return r.left >= 0
}

// over returns the error for a reference whose value does not fit, or "" if no single reference is
// to blame.
func (r *room) over(ref string, size int) error {
	text := fmt.Sprintf("with its values this is over the limit of %d MiB", r.most>>20)
	if ref != "" {
		text = fmt.Sprintf("with these %.1f MiB the whole is over its limit of %d MiB; pass the path of a file instead, or less of it",
			float64(size)/(1<<20), r.most>>20)
	}
	return &LookupError{ref, text}
}

// A LookupError reports that a template or a condition could not be evaluated.
type LookupError struct {
	Ref  string // the reference, "" if it is about the whole
	Text string
}

func (e *LookupError) Error() string {
	if e.Ref == "" {
		return oneLine(e.Text, 1000)
	}
	return fmt.Sprintf("{{%s}}: %s", oneLine(e.Ref, 200), oneLine(e.Text, 1000))
}

// Render fills in the values. If a path does not exist, it fails with a *LookupError. Inserted text
// is not interpreted again. The result is valid UTF-8 and at most [maxPrompt] long, which is
// checked before it is built.
func (t *Template) Render(s *Scope) (string, error) {
	return t.render(s, &room{maxPrompt, maxPrompt})
}

func (t *Template) render(s *Scope, free *room) (string, error) {
	texts := make([]string, len(t.parts))
	values := map[string]string{}
	size := 0
	for i, p := range t.parts {
		texts[i] = p.text
		ref := ""
		if p.ref != nil {
			ref = p.ref.path
			text, known := values[ref]
			if !known {
				var err error
				if text, err = s.text(*p.ref); err != nil {
					return "", err
				}
				values[ref] = text
			}
			texts[i] = text
		}
		if !free.take(len(texts[i])) {
			return "", free.over(ref, len(texts[i]))
		}
		size += len(texts[i])
	}
	var b strings.Builder
	b.Grow(size)
	for _, text := range texts {
		b.WriteString(text)
	}
	return strings.ToValidUTF8(b.String(), "\ufffd"), nil
}
