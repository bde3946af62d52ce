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

// These are the mistakes that a skill can have.
const (
	missingFrontMatter = "MissingFrontMatter"
	invalidYAML        = "InvalidYaml"
	missingField       = "MissingRequiredField"
	invalidField       = "InvalidField"
	invalidName        = "InvalidName"
	nameMismatch       = "NameMismatch"
	emptyInstructions  = "EmptyInstructions"
	unreadable         = "Unreadable"
)

// These are the warnings about a skill.
const (
	noExamples         = "NoExamples"
	longDescription    = "LongDescription"
	longInstructions   = "LongInstructions"
	missingHelperFiles = "MissingHelperFiles"
	unknownField       = "UnknownField"
	untidy             = "Untidy" // put up with: not quite YAML, stray characters
	ignored            = "Ignored"
	oddFile            = "OddFile" // an archive, a link, a device
)

// reader reads one SKILL.md.
type reader struct {
	folder   string // the name of the folder
	skill    *Skill
	body     string
	bodyLine int
	descLine int
	found    []Finding
}

func (r *reader) warn(code string, line, col int, format string, args ...any) {
	r.found = append(r.found, Finding{Code: code, Path: File, Line: line, Col: col, Text: fmt.Sprintf(format, args...)})
}

func (r *reader) wrong(code string, line, col int, fatal bool, format string, args ...any) {
	r.found = append(r.found, Finding{Code: code, Path: File, Line: line, Col: col, Text: fmt.Sprintf(format, args...), err: true, fatal: fatal})
}

// read reads SKILL.md of a folder of that name.
func read(b []byte, folder string) *reader {
	r := &reader{folder: folder, skill: &Skill{}}
	doc, err := frontmatter.Parse(b, clean.Text)
	if err != nil {
		code := invalidYAML
		var fe *frontmatter.Error
		if !errors.As(err, &fe) {
			fe = &frontmatter.Error{Text: err.Error()}
		}
		switch fe.Code {
		case frontmatter.Missing, frontmatter.Unclosed:
			code = missingFrontMatter
		case frontmatter.TooLarge, frontmatter.Encoding:
			code = unreadable
		}
		r.wrong(code, max(1, fe.Line), max(1, fe.Col), true, "%s", fe.Text)
		return r
	}
	for _, w := range doc.Warnings {
		r.warn(untidy, w.Line, w.Col, "%s", w.Text)
	}
	for _, e := range doc.Repeated {
		r.wrong(invalidYAML, e.Line, e.Col, true, "%s", e.Text)
	}
	r.body, r.bodyLine = doc.Body, doc.BodyLine
	for i := range doc.Fields {
		r.field(&doc.Fields[i])
	}
	r.name(doc)
	r.description(doc)
	if strings.TrimSpace(r.body) == "" {
		r.wrong(emptyInstructions, max(1, doc.BodyLine), 1, true, "there are no instructions below the front matter")
	}
	return r
}

// canon returns a key without the differences between programs: allowed-tools, allowed_tools,
// allowedTools.
func canon(key string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(key))
}

// keys lists the fields known to at least one program.
var keys = []string{
	"name", "description", "license", "compatibility", "metadata", "allowed-tools",
	"disable-model-invocation", "user-invocable", "model", "context", "agent", "hooks", "argument-hint", "arguments", "when_to_use",
	"paths", "effort", "shell", "disallowed-tools", "version",
}

func (r *reader) field(f *frontmatter.Field) {
	switch canon(f.Key) {
	case "name", "description":
	case "license":
		r.text(f)
	case "compatibility":
		if n := utf8.RuneCountInString(r.text(f)); n > maxCompatibility {
			r.wrong(invalidField, f.Line, f.Col, false, "compatibility has %d characters; %d are allowed", n, maxCompatibility)
		}
	case "metadata":
		r.metadata(f)
	case "allowedtools": // a wish that nothing heeds
		if _, ok := f.Value.Words(true); !ok && f.Value.Kind != frontmatter.Null {
			r.wrong(invalidField, f.Line, f.Col, false, "%s must be a list of names; it is not heeded", f.Key)
		}
	case "disablemodelinvocation":
		b, ok := f.Value.Bool()
		if !ok {
			r.warn(untidy, f.Value.Line, f.Value.Col, "%s must be true or false; true is assumed", f.Key)
		}
		r.skill.Manual = b || !ok
	case "hooks":
		r.warn(ignored, f.Line, f.Col, "hooks are not run")
	default:
		if slices.ContainsFunc(keys, func(k string) bool { return canon(k) == canon(f.Key) }) {
			return
		}
		hint := ""
		if c := closest(f.Key); c != "" {
			hint = fmt.Sprintf("; did you mean %q?", c)
		}
		r.warn(unknownField, f.Line, f.Col, "unknown field %s%s", clean.Quote(f.Key), hint)
	}
}

// closest returns the field that was probably meant.
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
		r.wrong(invalidField, f.Value.Line, f.Value.Col, false, "%s must be a text", f.Key)
	}
	return s
}

func (r *reader) metadata(f *frontmatter.Field) {
	switch f.Value.Kind {
	case frontmatter.Null:
	case frontmatter.Map:
		for _, m := range f.Value.Fields {
			if _, ok := m.Value.String(); !ok && m.Value.Kind != frontmatter.Null {
				r.warn(untidy, m.Line, m.Col, "the metadata %s should be a text", clean.Quote(m.Key))
			}
		}
	default:
		r.wrong(invalidField, f.Value.Line, f.Value.Col, false, "metadata must be a map of texts")
	}
}

// name determines the name of the skill. If the name is invalid but the folder's name is valid,
// read uses the folder's name, so that skills written for less strict programs work.
func (r *reader) name(doc *frontmatter.Document) {
	f := doc.Field("name")
	if f == nil {
		r.skill.Source.Line = 1
		usable := CheckName(r.folder) == nil
		r.wrong(missingField, 1, 1, !usable, "there is no name; add name: %s", clean.Quote(r.folder))
		r.skill.Name = r.folder
		return
	}
	r.skill.Source.Line = f.Line
	written := r.text(f)
	r.skill.Name = written
	err := CheckName(written)
	switch {
	case err != nil && slices.Contains(reserved, written):
		r.wrong(invalidName, f.Value.Line, f.Value.Col, true, "%s", err)
	case err != nil:
		usable := CheckName(r.folder) == nil
		r.wrong(invalidName, f.Value.Line, f.Value.Col, !usable, "%s", err)
		r.skill.Name = r.folder
	}
	if written != r.folder {
		r.wrong(nameMismatch, f.Value.Line, f.Value.Col, false, "the name is %s and the folder %s; make them the same", clean.Quote(written), clean.Quote(r.folder))
	}
}

func (r *reader) description(doc *frontmatter.Document) {
	f := doc.Field("description")
	if f == nil {
		r.wrong(missingField, 1, 1, true, "there is no description; add one that says what the skill does and when to use it")
		return
	}
	r.descLine = f.Line
	r.skill.Description = r.text(f)
	n := utf8.RuneCountInString(r.skill.Description)
	switch {
	case n == 0:
		r.wrong(missingField, f.Line, f.Col, true, "the description is empty; say what the skill does and when to use it")
	case n > maxDescription:
		r.wrong(invalidField, f.Line, f.Col, false, "the description has %d characters; %d are allowed", n, maxDescription)
	}
}

// archive reports whether a file packs other files, which are invisible to a reader of the folder.
func archive(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".zip", ".tar", ".tgz", ".gz", ".bz2", ".xz", ".zst", ".7z", ".rar", ".jar", ".whl", ".skill":
		return true
	}
	return false
}
