package definition

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/effort"
	"github.com/superstep-dev/superstep/internal/frontmatter"
	"github.com/superstep-dev/superstep/internal/suggest"
)

// reader reads one file.
type reader struct {
	dialect  string
	known    []string // tools besides our own
	doc      *frontmatter.Document
	def      *Definition
	warnings []Warning
	problems []Warning
	listed   bool // the file has a list of tools
}

func (r *reader) warn(line, col int, format string, args ...any) {
	r.warnings = append(r.warnings, Warning{line, col, fmt.Sprintf(format, args...)})
}

// refuse records that a file cannot be used because its meaning is unclear.
func (r *reader) refuse(line, col int, format string, args ...any) {
	r.problems = append(r.problems, Warning{line, col, fmt.Sprintf(format, args...)})
}

// Parse reads a file that somebody has written. Source tells what the file is and where; Parse
// fills in the line. Known are the tools there are besides those that come with this program.
// Unknown fields and tools are warnings. What makes a file unusable is a problem, and then there is
// no definition: the file has no front matter (opencode and Copilot need none), its header is not
// YAML, it has no usable name or a duplicate key, or its settings about tools cannot be parsed.
func Parse(b []byte, source Source, known []string) (*Definition, []Warning) {
	sum := sha256.Sum256(b)
	r := &reader{dialect: source.Dialect, known: known}
	r.def = &Definition{Source: source, Digest: "sha256:" + hex.EncodeToString(sum[:]), Kind: compiled}
	r.def.Source.Line = 1
	doc, err := frontmatter.Parse(b, clean.Text)
	var fe *frontmatter.Error
	if errors.As(err, &fe) && fe.Code == frontmatter.Missing && r.needsNone() {
		doc, err = frontmatter.Unfenced(b, clean.Text)
	}
	if err != nil {
		if !errors.As(err, &fe) {
			fe = &frontmatter.Error{Text: err.Error()}
		}
		r.refuse(fe.Line, fe.Col, "%s", fe.Text)
		return nil, r.problems
	}
	r.doc = doc
	for _, w := range doc.Warnings {
		r.warn(w.Line, w.Col, "%s", w.Text)
	}
	for _, e := range doc.Repeated {
		r.refuse(e.Line, e.Col, "%s", e.Text)
	}
	r.def.Prompt = doc.Body
	r.name()
	for i := range doc.Fields {
		r.field(&doc.Fields[i])
	}
	r.finish()
	if len(r.problems) > 0 {
		return nil, r.problems
	}
	r.def.Warnings = r.warnings
	return r.def, nil
}

// needsNone reports whether a file may omit front matter. A file for human readers, such as a
// README, may not.
func (r *reader) needsNone() bool {
	base := strings.ToLower(path.Base(filepath.ToSlash(r.def.Source.Path)))
	return (r.dialect == OpenCode || r.dialect == Copilot) && !strings.HasPrefix(base, "readme")
}

// NameOfFile returns the agent name of a file that declares none.
func NameOfFile(file string) string { return Normal(stem(file)) }

// stem returns the name of a file without its extension.
func stem(file string) string {
	base := path.Base(filepath.ToSlash(file))
	for _, end := range []string{".md", ".agent"} {
		if len(base) > len(end) && strings.EqualFold(base[len(base)-len(end):], end) {
			base = base[:len(base)-len(end)]
		}
	}
	return base
}

// name determines the name of the agent. In Copilot the field is only a display name.
func (r *reader) name() {
	line, col, written := 1, 1, ""
	if f := r.doc.Field("name"); f != nil {
		line, col = f.Value.Line, f.Value.Col
		r.def.Source.Line = f.Line
		s, ok := f.Value.String()
		if !ok && f.Value.Kind != frontmatter.Null {
			r.refuse(line, col, "name must be a text")
			return
		}
		written = s
	}
	from := written
	switch {
	case written == "" && r.dialect == Claude:
		r.refuse(line, col, "there is no name; add name: %s, or take the file out of the folder if it is no agent", Normal(stem(r.def.Source.Path)))
		return
	case written == "" || r.dialect == Copilot:
		from = stem(r.def.Source.Path)
	}
	r.def.Name = Normal(from)
	switch {
	case r.def.Name == "":
		r.refuse(line, col, "the name %s has no letter or digit of a-z, 0-9; choose one such as code-reviewer", clean.Quote(from))
	case written == "" || written == r.def.Name:
	default:
		r.def.Title = oneLine(written)
		if r.dialect != Copilot {
			r.warn(line, col, "the name %s is not made of a-z, 0-9, - and _; the agent is called %s", clean.Quote(written), r.def.Name)
		}
	}
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// canon returns a key without the differences between programs: maxTurns, max_turns, max-turns.
func canon(key string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(key))
}

// keys lists the fields that any program knows.
var keys = []string{
	"name", "description", "prompt", "model", "tools", "disallowed_tools", "allow", "ask", "deny", "agents", "max_turns", "kind",
	"capabilities", "skills", "mcp_servers", "mode", "temperature", "top_p", "effort", "hidden", "disable", "disabled", "permission",
	"permissionMode", "hooks", "memory", "background", "isolation", "color", "steps", "maxSteps", "variant", "options", "target",
	"handoffs", "infer", "argument-hint", "user-invocable", "disable-model-invocation", "metadata", "initialPrompt", "reasoningEffort",
}

// field reads one field of the header.
func (r *reader) field(f *frontmatter.Field) {
	v := f.Value
	switch canon(f.Key) {
	case "name":
	case "description":
		r.text(f, &r.def.Description)
	case "prompt":
		r.prompt(f)
	case "model":
		r.model(f)
	case "tools":
		r.tools(f)
	case "disallowedtools":
		r.disallowed(f)
	case "allow":
		r.rules(f, &r.def.Allow)
	case "ask":
		r.rules(f, &r.def.Ask)
	case "deny":
		r.rules(f, &r.def.Deny)
	case "permission":
		r.permission(f)
	case "permissionmode":
		r.permissionMode(f)
	case "agents":
		r.agents(f)
	case "maxturns", "steps", "maxsteps":
		if n, ok := v.Int(); !ok || n < 1 || n > 10_000 {
			r.warn(v.Line, v.Col, "%s must be a whole number from 1 to 10000; the default is used", f.Key)
		} else {
			r.def.MaxTurns = n
		}
	case "kind":
		r.kind(f)
	case "capabilities":
		r.capabilities(f)
	case "skills":
		if words, ok := v.Words(false); ok || v.Kind == frontmatter.Null {
			r.def.Skills = texts(words)
		} else {
			r.warn(v.Line, v.Col, "skills must be a list of names")
		}
	case "mcpservers":
		r.servers(f)
	case "mode":
		r.mode(f)
	case "temperature":
		r.def.Temperature = r.number(f, 2)
	case "topp":
		r.def.TopP = r.number(f, 1)
	case "effort", "reasoningeffort":
		r.effort(f)
	default:
		r.switches(f)
	}
}

// switches reads the fields that are on or off, those that only other programs use, and unknown
// ones.
func (r *reader) switches(f *frontmatter.Field) {
	v := f.Value
	switch canon(f.Key) {
	case "hidden":
		r.def.Hidden = r.truth(f, false)
	case "disable", "disabled":
		r.def.Disabled = r.truth(f, true) // a switch that cannot be read is off
	case "userinvocable", "userinvokable":
		if !r.truth(f, true) {
			r.def.Mode = subagent
		}
	case "infer":
		if !r.truth(f, true) {
			r.def.Mode = Primary
		}
	case "disablemodelinvocation":
		if r.truth(f, false) {
			r.def.Mode = Primary
		}
	case "hooks":
		r.warn(f.Line, f.Col, "hooks are not run")
	case "options":
		r.warn(f.Line, f.Col, "options for a provider are not passed on")
	case "memory", "background", "isolation", "color", "variant", "target", "handoffs", "argumenthint", "metadata", "initialprompt":
		r.extra(f)
		heeded := v.Kind == frontmatter.Bool && v.Text == "false" || canon(f.Key) == "isolation" && v.Text == "folder"
		if slices.Contains([]string{"memory", "background", "isolation", "initialprompt"}, canon(f.Key)) && !heeded {
			r.warn(f.Line, f.Col, "%s means nothing here", f.Key)
		}
	default:
		r.extra(f)
		r.warn(f.Line, f.Col, "unknown field %s%s", clean.Quote(f.Key), closest(f.Key))
	}
}

func closest(key string) string {
	if c := suggest.Closest(key, keys); c != "" {
		return fmt.Sprintf("; did you mean %q?", c)
	}
	return ""
}

func (r *reader) extra(f *frontmatter.Field) {
	if r.def.Extra == nil {
		r.def.Extra = map[string]any{}
	}
	r.def.Extra[f.Key] = f.Value.Any()
}

func texts(words []*frontmatter.Value) []string {
	var out []string
	for _, w := range words {
		if !slices.Contains(out, w.Text) {
			out = append(out, w.Text)
		}
	}
	return out
}

func (r *reader) text(f *frontmatter.Field, to *string) {
	s, ok := f.Value.String()
	if !ok && f.Value.Kind != frontmatter.Null {
		r.warn(f.Value.Line, f.Value.Col, "%s must be a text", f.Key)
		return
	}
	*to = s
}

// prompt is a field of opencode. It may name a file. The file is not read, since listing agents
// must not read other files.
func (r *reader) prompt(f *frontmatter.Field) {
	var s string
	r.text(f, &s)
	switch {
	case s == "":
	case r.doc.Body != "":
		r.warn(f.Line, f.Col, "the text below the front matter is the prompt; this field is not used")
	case strings.HasPrefix(s, "{file:") || strings.HasPrefix(s, "@"):
		r.warn(f.Line, f.Col, "the prompt is in another file, which is not read; put it below the front matter")
	default:
		r.def.Prompt = s
	}
}

func (r *reader) model(f *frontmatter.Field) {
	if f.Value.Kind != frontmatter.List {
		r.text(f, &r.def.Model)
		return
	}
	words, ok := f.Value.Words(false)
	if !ok || len(words) == 0 {
		r.warn(f.Value.Line, f.Value.Col, "model must be a text, or a list of them")
		return
	}
	r.def.Model = words[0].Text
	if len(words) > 1 {
		r.extra(f)
		r.warn(f.Value.Line, f.Value.Col, "only the first of several models is used")
	}
}

func (r *reader) truth(f *frontmatter.Field, or bool) bool {
	b, ok := f.Value.Bool()
	if !ok {
		r.warn(f.Value.Line, f.Value.Col, "%s must be true or false; %t is assumed", f.Key, or)
		return or
	}
	return b
}

func (r *reader) number(f *frontmatter.Field, most float64) *float64 {
	if f.Value.Kind == frontmatter.Null {
		return nil
	}
	x, ok := f.Value.Float()
	if !ok || x < 0 || x > most {
		r.warn(f.Value.Line, f.Value.Col, "%s must be a number from 0 to %g; the default is used", f.Key, most)
		return nil
	}
	return &x
}

func (r *reader) effort(f *frontmatter.Field) {
	s, _ := f.Value.String()
	s = strings.ToLower(s)
	if !effort.Known(s) {
		r.warn(f.Value.Line, f.Value.Col, "unknown effort %s; it is %s, and the default is used", clean.Quote(s), effort.List())
		return
	}
	r.def.Effort = s
}

func (r *reader) kind(f *frontmatter.Field) {
	s, _ := f.Value.String()
	switch k := strings.ToLower(s); k {
	case Simple, compiled:
		r.def.Kind = k
	default:
		r.warn(f.Value.Line, f.Value.Col, "unknown kind %s; it is simple or compiled, and compiled is used", clean.Quote(s))
	}
}

func (r *reader) mode(f *frontmatter.Field) {
	s, _ := f.Value.String()
	switch strings.ToLower(s) {
	case "all":
		r.def.Mode = ""
	case "primary":
		r.def.Mode = Primary
	case "subagent":
		r.def.Mode = subagent
	default:
		r.warn(f.Value.Line, f.Value.Col, "unknown mode %s; it is primary, subagent or all", clean.Quote(s))
	}
}

func (r *reader) capabilities(f *frontmatter.Field) {
	words, ok := f.Value.Words(false)
	if !ok && f.Value.Kind != frontmatter.Null {
		r.warn(f.Value.Line, f.Value.Col, "capabilities must be a list of names")
	}
	for _, w := range words {
		c, ok := ParseCapability(w.Text)
		if !ok {
			r.warn(w.Line, w.Col, "unknown capability %s%s", clean.Quote(w.Text), suggest.Hint(w.Text, capabilities))
			continue
		}
		if !slices.Contains(r.def.Capabilities, c) {
			r.def.Capabilities = append(r.def.Capabilities, c)
		}
	}
}

// ParseCapability reads a capability: code-review, code_review and CodeReview are the same.
func ParseCapability(s string) (string, bool) {
	i := slices.IndexFunc(capabilities, func(c string) bool { return canon(s) == canon(c) })
	if i < 0 {
		return "", false
	}
	return capabilities[i], true
}

// servers reads which MCP servers an agent uses. A server that is defined in the file itself is not
// started, and its definition is not stored, since it may contain secrets.
func (r *reader) servers(f *frontmatter.Field) {
	add := func(name string) {
		if name != "" && !slices.Contains(r.def.MCPServers, name) {
			r.def.MCPServers = append(r.def.MCPServers, name)
		}
	}
	inline := func(fields []frontmatter.Field) {
		for _, s := range fields {
			add(s.Key)
			if s.Value.Kind != frontmatter.Null {
				r.warn(s.Line, s.Col, "the server %s that this file describes is not started; configure it, and name it here", clean.Quote(s.Key))
			}
		}
	}
	v := f.Value
	switch v.Kind {
	case frontmatter.Null:
	case frontmatter.Map:
		inline(v.Fields)
	case frontmatter.List:
		for _, x := range v.Items {
			if s, ok := x.String(); ok {
				add(s)
			} else if x.Kind == frontmatter.Map {
				inline(x.Fields)
			}
		}
	default:
		words, _ := v.Words(false)
		for _, w := range words {
			add(w.Text)
		}
	}
}

// finish checks the fields in combination.
func (r *reader) finish() {
	d := r.def
	r.settle()
	if d.Tools != nil {
		d.Tools = slices.DeleteFunc(d.Tools, func(t string) bool { return matches(d.Disallowed, t) })
	}
	if d.Kind == Simple {
		if len(d.Tools) > 0 {
			r.warn(r.at("kind"), 1, "a simple agent is one call without tools; this one has tools, so it is compiled")
			d.Kind = compiled
		} else {
			d.Tools = []string{}
		}
	}
	if d.Description == "" {
		r.warn(r.at("description"), 1, "there is no description; without one nobody knows when to use this agent")
	}
	if d.Prompt == "" {
		r.warn(max(1, r.doc.BodyLine), 1, "there is no text below the front matter, so the agent has no instructions")
	}
}

// at returns the line of a field, or 1.
func (r *reader) at(key string) int {
	if f := r.doc.Field(key); f != nil {
		return f.Line
	}
	return 1
}
