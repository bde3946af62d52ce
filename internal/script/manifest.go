package script

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/frontmatter"
	"github.com/superstep-dev/superstep/internal/strict"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/sandbox"
)

// A manifest describes how an executable is a tool.
type manifest struct {
	name        string
	description string
	input       *jsonschema.Schema
	output      *jsonschema.Schema
	command     []string
	effect      tool.Effect
	timeout     time.Duration // 0 for the default
	env         []string
	needs       sandbox.Needs
	cwd         string // relative to the folder to work in
	context     bool   // the arguments come in an envelope
}

// maxCommand is the number of words of a command.
const maxCommand = 256

// parseManifest reads a manifest, YAML or JSON. It reports all that is wrong with it at once;
// with anything but warnings there is no manifest.
func parseManifest(file, name string, b []byte) (*manifest, []Problem) {
	r := &manifestReader{file: file, m: &manifest{name: name}}
	root, refused, err := frontmatter.Tree(b, nil)
	if e, ok := errors.AsType[*frontmatter.Error](err); ok {
		r.wrong(e.Line, e.Col, "%s", e.Text)
		return nil, r.problems
	}
	for _, e := range refused {
		r.wrong(e.Line, e.Col, "%s", e.Text)
	}
	switch root.Kind {
	case frontmatter.Map:
		r.fields(root.Fields)
	case frontmatter.Null:
		r.wrong(0, 0, "the manifest is empty; it needs a description and a command")
	default:
		r.wrong(root.Line, root.Col, "want lines such as `command: [./NAME.sh]`")
	}
	sortProblems(r.problems)
	if slices.ContainsFunc(r.problems, func(p Problem) bool { return !p.Warning }) {
		return nil, r.problems
	}
	return r.m, r.problems
}

type manifestReader struct {
	file     string
	m        *manifest
	problems []Problem
}

func (r *manifestReader) wrong(line, col int, format string, args ...any) {
	if len(r.problems) < 20 {
		r.problems = append(r.problems, Problem{File: r.file, Line: line, Column: col, Text: clean.Text(fmt.Sprintf(format, args...))})
	}
}

func (r *manifestReader) warn(v *frontmatter.Value) func(string) {
	return func(text string) {
		r.problems = append(r.problems, Problem{File: r.file, Line: v.Line, Column: v.Col, Text: text, Warning: true})
	}
}

func (r *manifestReader) fields(fields []frontmatter.Field) {
	known := []string{"name", "description", "input", "output", "command", "effect", "timeout", "env", "network", "read", "write", "cwd", "context"}
	seen := map[string]bool{}
	for _, f := range fields {
		seen[f.Key] = true
		v := f.Value
		switch f.Key {
		case "name":
			r.m.name = r.text(f)
		case "description":
			r.m.description = cleanDescription(r.text(f), r.warn(v))
		case "input":
			r.m.input = r.input(v)
		case "output":
			r.m.output = r.schema(v, v.Any(), false, "")
		case "command":
			r.command(f)
		case "effect":
			r.effect(f)
		case "timeout":
			r.timeout(f)
		case "env":
			r.env(f)
		case "network", "read", "write":
			r.needs(f)
		case "cwd":
			r.m.cwd = r.text(f)
			if !filepath.IsLocal(r.m.cwd) {
				r.wrong(v.Line, v.Col, "cwd is %q; name a folder below the one that tools work in", clip(r.m.cwd))
			}
		case "context":
			b, ok := v.Bool()
			if !ok {
				r.wrong(v.Line, v.Col, "context is true or false")
			}
			r.m.context = b
		default:
			r.wrong(f.Line, f.Col, "%q is unknown%s", clip(f.Key), suggest.Hint(f.Key, known))
		}
	}
	if !seen["description"] {
		r.wrong(0, 0, "description is missing; it tells the model when to use the tool")
	}
	if !seen["command"] {
		r.wrong(0, 0, `command is missing; write a list, such as ["./NAME.sh"]`)
	}
	if text := nameProblem(r.m.name, nil); text != "" {
		r.wrong(0, 0, "%s", text)
	}
	if r.m.input == nil {
		r.m.input = &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{},
			AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}}}
	}
	if r.m.effect == "" {
		r.m.effect = tool.Once
	}
}

func (r *manifestReader) text(f frontmatter.Field) string {
	s, ok := f.Value.String()
	if !ok || strings.TrimSpace(s) == "" {
		r.wrong(f.Line, f.Col, "%s is not a text", f.Key)
	}
	return s
}

func (r *manifestReader) command(f frontmatter.Field) {
	v := f.Value
	if v.Kind != frontmatter.List || len(v.Items) == 0 {
		s, _ := v.String()
		r.wrong(f.Line, f.Col, "command is a list of words, no line for a shell; write %s", example(s))
		return
	}
	if len(v.Items) > maxCommand {
		r.wrong(v.Line, v.Col, "command has more than %d words", maxCommand)
		return
	}
	for i, item := range v.Items {
		s := item.Text
		if _, ok := item.String(); !ok || i == 0 && s == "" || strings.ContainsRune(s, 0) {
			r.wrong(item.Line, item.Col, "word %d of command is not a text", i+1)
			continue
		}
		if clean.Text(s) != s {
			r.wrong(item.Line, item.Col, "word %d of command holds characters that cannot be shown", i+1)
		}
		r.m.command = append(r.m.command, s)
	}
	if len(r.m.command) == 0 {
		return
	}
	if first := filepath.FromSlash(r.m.command[0]); filepath.IsAbs(first) || !filepath.IsLocal(first) {
		r.wrong(v.Items[0].Line, v.Items[0].Col, "command begins with %q; use a program beside the manifest, such as ./NAME.sh, or the name of one on PATH",
			clip(r.m.command[0]))
	}
}

func example(line string) string {
	words := strings.Fields(line)
	if len(words) == 0 {
		return `["./NAME.sh"]`
	}
	b, _ := json.Marshal(words) // of strings
	return clip(string(b))
}

func (r *manifestReader) effect(f frontmatter.Field) {
	s, _ := f.Value.String()
	b, _ := json.Marshal(s) // of a string
	e, err := effectOf(b)
	if err != nil || s == "" {
		r.wrong(f.Value.Line, f.Value.Col, "effect is %q; use pure, idempotent or once", clip(s))
	}
	r.m.effect = e
}

func (r *manifestReader) timeout(f frontmatter.Field) {
	s, _ := f.Value.String()
	b, _ := json.Marshal(s) // of a string
	d, err := timeoutOf(b, 0)
	if err != nil {
		r.wrong(f.Value.Line, f.Value.Col, "%v", err)
	}
	r.m.timeout = d
}

func (r *manifestReader) env(f frontmatter.Field) {
	words, ok := f.Value.Words(true)
	if !ok {
		r.wrong(f.Line, f.Col, "env is a list of names of variables")
		return
	}
	for _, w := range words {
		if err := checkEnv([]string{w.Text}); err != nil {
			r.wrong(w.Line, w.Col, "%v", err)
		}
		r.m.env = append(r.m.env, w.Text)
	}
}

// needs reads what the tool needs of the network or of files: a list, or a single one.
func (r *manifestReader) needs(f frontmatter.Field) {
	items := f.Value.Items
	if f.Value.Kind != frontmatter.List {
		items = []*frontmatter.Value{f.Value}
	}
	for _, v := range items {
		s, ok := v.String()
		if !ok {
			r.wrong(v.Line, v.Col, "%s is a list of texts", f.Key)
			return
		}
		if err := r.m.needs.Add(f.Key, s); err != nil {
			r.wrong(v.Line, v.Col, "%v", err)
		}
	}
}

// schema reads the JSON Schema of some value, and tells what is wrong at the place it is. Above is the pointer to what stands at
// the value.
func (r *manifestReader) schema(at *frontmatter.Value, v any, args bool, above string) *jsonschema.Schema {
	b, err := json.Marshal(v)
	if err != nil {
		r.wrong(at.Line, at.Col, "the schema cannot be read: %v", err)
		return nil
	}
	s, err := strict.SchemaReader{Note: r.warn(at)}.Read(b, args)
	if err != nil {
		line, col := at.Line, at.Col
		if e, ok := errors.AsType[*strict.SchemaError](err); ok {
			line, col = locate(at, strings.TrimPrefix(e.At, above))
		}
		r.wrong(line, col, "the schema: %v", err)
	}
	return s
}

// locate returns where a JSON pointer leads in a value, or as far as it does.
func locate(v *frontmatter.Value, pointer string) (line, col int) {
	line, col = v.Line, v.Col
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		var next *frontmatter.Value
		for i := range v.Fields {
			if f := &v.Fields[i]; f.Key == part || strings.TrimSuffix(f.Key, "?") == part {
				line, col, next = f.Line, f.Col, f.Value
			}
		}
		if i, err := strconv.Atoi(part); err == nil && i >= 0 && i < len(v.Items) {
			next = v.Items[i]
			line, col = next.Line, next.Col
		}
		if next == nil {
			break
		}
		v = next
	}
	return line, col
}

// input reads JSON Schema, or its short form: a map of names to "string", "integer[]", a list of
// the values that are allowed, or the JSON Schema of one. A name or type with ? may be left out.
func (r *manifestReader) input(v *frontmatter.Value) *jsonschema.Schema {
	if v.Kind == frontmatter.Null {
		return nil
	}
	if v.Kind != frontmatter.Map {
		r.wrong(v.Line, v.Col, "input is a map: JSON Schema, or names and types such as path: string")
		return nil
	}
	for _, f := range v.Fields {
		if s, _ := f.Value.String(); f.Key == "type" && s == "object" || f.Key == "$ref" || f.Key == "properties" && f.Value.Kind == frontmatter.Map {
			return r.schema(v, v.Any(), true, "")
		}
	}
	properties := map[string]any{}
	required := []string{}
	for _, f := range v.Fields {
		name, optional := strings.CutSuffix(f.Key, "?")
		p, maybe := r.short(f.Value)
		if p == nil {
			continue
		}
		if _, twice := properties[name]; twice {
			r.wrong(f.Line, f.Col, "%q is there twice; keep one", clip(name))
		}
		properties[name] = p
		if !optional && !maybe {
			required = append(required, name)
		}
	}
	schema := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		schema["required"] = required
	}
	return r.schema(v, schema, true, "/properties")
}

// short returns the schema of one argument in the short form, nil if it is wrong.
func (r *manifestReader) short(v *frontmatter.Value) (schema any, optional bool) {
	types := []string{"string", "number", "integer", "boolean", "object", "array", "any"}
	switch v.Kind {
	case frontmatter.Map:
		m, ok := v.Any().(map[string]any)
		if !ok {
			return nil, false
		}
		if b, ok := m["optional"].(bool); ok {
			delete(m, "optional")
			optional = b
		}
		return m, optional
	case frontmatter.List:
		return map[string]any{"enum": v.Any()}, false
	}
	s, _ := v.String()
	word, optional := strings.CutSuffix(s, "?")
	word, list := strings.CutSuffix(word, "[]")
	if !slices.Contains(types, word) {
		r.wrong(v.Line, v.Col, "%q is no type%s", clip(s), suggest.Hint(word, types))
		return nil, false
	}
	one := map[string]any{}
	if word != "any" {
		one["type"] = word
	}
	if list {
		return map[string]any{"type": "array", "items": one}, optional
	}
	return one, optional
}
