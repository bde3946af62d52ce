package skill

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/frontmatter"
	"github.com/superstep-dev/superstep/internal/suggest"
)

// A Code says what a finding is about.
type Code string

// What can be wrong with a skill.
const (
	MissingFrontMatter Code = "MissingFrontMatter"
	InvalidYAML        Code = "InvalidYaml"
	MissingField       Code = "MissingRequiredField"
	InvalidField       Code = "InvalidField"
	InvalidName        Code = "InvalidName"
	NameMismatch       Code = "NameMismatch"
	EmptyInstructions  Code = "EmptyInstructions"
	Unreadable         Code = "Unreadable"
)

// What is worth mending.
const (
	NoExamples         Code = "NoExamples"
	LongDescription    Code = "LongDescription"
	LongInstructions   Code = "LongInstructions"
	MissingHelperFiles Code = "MissingHelperFiles"
	UnknownField       Code = "UnknownField"
	Untidy             Code = "Untidy" // put up with: not quite YAML, stray characters
	Ignored            Code = "Ignored"
	OddFile            Code = "OddFile" // an archive, a link, a device
)

// finding is something about SKILL.md.
type finding struct {
	code      Code
	line, col int
	text      string
	fatal     bool // to a skill that is to be used, and not only checked
	err       bool // to one that is checked
}

// reader reads one SKILL.md.
type reader struct {
	folder   string // the name of the folder
	skill    *Skill
	body     string
	bodyLine int
	descLine int
	found    []finding
}

func (r *reader) add(f finding, format string, args ...any) {
	f.text = fmt.Sprintf(format, args...)
	r.found = append(r.found, f)
}

func (r *reader) warn(code Code, line, col int, format string, args ...any) {
	r.add(finding{code: code, line: line, col: col}, format, args...)
}

func (r *reader) wrong(code Code, line, col int, fatal bool, format string, args ...any) {
	r.add(finding{code: code, line: line, col: col, err: true, fatal: fatal}, format, args...)
}

// fatal is the first reason not to use the skill, nil if there is none.
func (r *reader) fatal() *finding {
	for i := range r.found {
		if r.found[i].fatal {
			return &r.found[i]
		}
	}
	return nil
}

// read reads SKILL.md of a folder of that name.
func read(b []byte, folder string) *reader {
	r := &reader{folder: folder, skill: &Skill{}}
	doc, err := frontmatter.Parse(b, clean.Text)
	if err != nil {
		code := InvalidYAML
		var fe *frontmatter.Error
		if !errors.As(err, &fe) {
			fe = &frontmatter.Error{Text: err.Error()}
		}
		switch fe.Code {
		case frontmatter.Missing, frontmatter.Unclosed:
			code = MissingFrontMatter
		case frontmatter.TooLarge, frontmatter.Encoding:
			code = Unreadable
		}
		r.wrong(code, max(1, fe.Line), max(1, fe.Col), true, "%s", fe.Text)
		return r
	}
	for _, w := range doc.Warnings {
		r.warn(Untidy, w.Line, w.Col, "%s", w.Text)
	}
	for _, e := range doc.Repeated {
		r.wrong(InvalidYAML, e.Line, e.Col, true, "%s", e.Text)
	}
	r.body, r.bodyLine = doc.Body, doc.BodyLine
	for i := range doc.Fields {
		r.field(&doc.Fields[i])
	}
	r.name(doc)
	r.description(doc)
	if strings.TrimSpace(r.body) == "" {
		r.wrong(EmptyInstructions, max(1, doc.BodyLine), 1, true, "there are no instructions below the front matter")
	}
	return r
}

// canon is a key without the differences between programs: allowed-tools, allowed_tools, allowedTools.
func canon(key string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(key))
}

// keys are the fields that some program knows.
var keys = []string{
	"name", "description", "license", "compatibility", "metadata", "allowed-tools",
	"disable-model-invocation", "user-invocable", "model", "context", "agent", "hooks", "argument-hint", "arguments", "when_to_use",
	"paths", "effort", "shell", "disallowed-tools", "version",
}

func (r *reader) field(f *frontmatter.Field) {
	s := r.skill
	switch canon(f.Key) {
	case "name", "description":
	case "license":
		s.License = r.text(f)
	case "compatibility":
		s.Compatibility = r.text(f)
		if n := utf8.RuneCountInString(s.Compatibility); n > maxCompatibility {
			r.wrong(InvalidField, f.Line, f.Col, false, "compatibility has %d characters; %d are allowed", n, maxCompatibility)
		}
	case "metadata":
		r.metadata(f)
	case "allowedtools":
		words, ok := f.Value.Words(true)
		if !ok && f.Value.Kind != frontmatter.Null {
			r.wrong(InvalidField, f.Line, f.Col, false, "%s must be a list of names; it is not heeded", f.Key)
		}
		for _, w := range words {
			s.AllowedTools = append(s.AllowedTools, w.Text)
		}
	case "disablemodelinvocation":
		b, ok := f.Value.Bool()
		if !ok {
			r.warn(Untidy, f.Value.Line, f.Value.Col, "%s must be true or false; true is assumed", f.Key)
		}
		s.Manual = b || !ok
	case "hooks":
		r.warn(Ignored, f.Line, f.Col, "hooks are not run")
	default:
		if s.Extra == nil {
			s.Extra = map[string]any{}
		}
		s.Extra[f.Key] = f.Value.Any()
		if slices.ContainsFunc(keys, func(k string) bool { return canon(k) == canon(f.Key) }) {
			return
		}
		hint := ""
		if c := closest(f.Key); c != "" {
			hint = fmt.Sprintf("; did you mean %q?", c)
		}
		r.warn(UnknownField, f.Line, f.Col, "unknown field %s%s", shown(f.Key), hint)
	}
}

// closest is the field that was probably meant.
func closest(key string) string {
	if len(key) > 3 {
		for _, k := range keys {
			if strings.Contains(canon(k), canon(key)) && !strings.HasPrefix(k, "dis") {
				return k
			}
		}
	}
	return suggest.Closest(key, keys)
}

func (r *reader) text(f *frontmatter.Field) string {
	s, ok := f.Value.String()
	if !ok && f.Value.Kind != frontmatter.Null {
		r.wrong(InvalidField, f.Value.Line, f.Value.Col, false, "%s must be a text", f.Key)
	}
	return s
}

func (r *reader) metadata(f *frontmatter.Field) {
	switch f.Value.Kind {
	case frontmatter.Null:
	case frontmatter.Map:
		r.skill.Metadata = map[string]string{}
		for _, m := range f.Value.Fields {
			s, ok := m.Value.String()
			if !ok && m.Value.Kind != frontmatter.Null {
				s = fmt.Sprint(m.Value.Any())
				r.warn(Untidy, m.Line, m.Col, "the metadata %s should be a text", shown(m.Key))
			}
			r.skill.Metadata[m.Key] = s
		}
	default:
		r.wrong(InvalidField, f.Value.Line, f.Value.Col, false, "metadata must be a map of texts")
	}
}

// name finds out what the skill is called. A name that cannot be used gives way to that of the
// folder if that can, so that skills written for less strict programs can be used.
func (r *reader) name(doc *frontmatter.Document) {
	f := doc.Field("name")
	if f == nil {
		r.skill.Source.Line = 1
		usable := CheckName(r.folder) == nil
		r.wrong(MissingField, 1, 1, !usable, "there is no name; add name: %s", shown(r.folder))
		r.skill.Name = r.folder
		return
	}
	r.skill.Source.Line = f.Line
	written := r.text(f)
	r.skill.Name = written
	err := CheckName(written)
	switch {
	case err != nil && slices.Contains(reserved, written):
		r.wrong(InvalidName, f.Value.Line, f.Value.Col, true, "%s", err)
	case err != nil:
		usable := CheckName(r.folder) == nil
		r.wrong(InvalidName, f.Value.Line, f.Value.Col, !usable, "%s", err)
		r.skill.Name = r.folder
	}
	if written != r.folder {
		r.wrong(NameMismatch, f.Value.Line, f.Value.Col, false, "the name is %s and the folder %s; make them the same", shown(written), shown(r.folder))
	}
}

func (r *reader) description(doc *frontmatter.Document) {
	f := doc.Field("description")
	if f == nil {
		r.wrong(MissingField, 1, 1, true, "there is no description; add one that says what the skill does and when to use it")
		return
	}
	r.descLine = f.Line
	r.skill.Description = r.text(f)
	n := utf8.RuneCountInString(r.skill.Description)
	switch {
	case n == 0:
		r.wrong(MissingField, f.Line, f.Col, true, "the description is empty; say what the skill does and when to use it")
	case n > maxDescription:
		r.wrong(InvalidField, f.Line, f.Col, false, "the description has %d characters; %d are allowed", n, maxDescription)
	}
}

// unpack is what is said of an archive among skills.
const unpack = "it is an archive, which is not opened; unpack it if it is a skill that you trust"

// archive says whether a file packs other files, which nobody sees who looks through the folder.
func archive(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".zip", ".tar", ".tgz", ".gz", ".bz2", ".xz", ".zst", ".7z", ".rar", ".jar", ".whl", ".skill":
		return true
	}
	return false
}
