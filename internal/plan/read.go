package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/frontmatter"
)

// MaxText is how many bytes a plan may have.
const MaxText = 256 << 10

const maxTitle = 200 // bytes; the rest of a title belongs to the prompt

// The words that are used for a field, the first of which is written.
var (
	idWords      = [...]string{"id", "task_id", "number", "key"}
	titleWords   = [...]string{"title", "content", "name", "task", "subject", "summary"}
	promptWords  = [...]string{"prompt", "description", "details", "instructions", "body"}
	blockedWords = [...]string{"blocked_by", "blockedBy", "depends_on", "dependsOn", "dependencies", "needs", "after"}
	filesWords   = [...]string{"files", "paths"}
	checkWords   = [...]string{"check", "test", "verify"}
	acceptWords  = [...]string{"acceptance", "acceptance_criteria", "acceptanceCriteria", "criteria"}
	tasksWords   = [...]string{"tasks", "todos", "plan", "steps", "items"}
)

// ErrNone is the error of Read for a text without a list of tasks.
var ErrNone = errors.New(`no list of tasks was found; write {"tasks": [{"id": "1", "title": "…", "prompt": "…", "blocked_by": []}]}`)

// opening matches where a list of objects, or an object, may begin.
var opening = regexp.MustCompile(`\{\s*"|\[\s*\{`)

// Find returns the first JSON value of a text that is accepted: the whole text, a fenced block, or something between the words. It returns false if there
// is none. Numbers are json.Number.
func Find(text string, accept func(v any) bool) (any, bool) {
	text = strings.TrimSpace(text)
	try := func(text string, whole bool) (any, bool) {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		var v any
		if d.Decode(&v) != nil || whole && d.InputOffset() < int64(len(strings.TrimRight(text, " \t\r\n"))) {
			return nil, false
		}
		return v, accept(v)
	}
	for _, part := range append([]string{text}, fenced(text)...) {
		if v, ok := try(part, true); ok {
			return v, true
		}
	}
	const most = 200 // places to try, each of which may cost as much as the text is long
	for _, at := range opening.FindAllStringIndex(text, most) {
		if v, ok := try(text[at[0]:], false); ok {
			return v, true
		}
	}
	return nil, false
}

// Read reads a plan from a text that is JSON or YAML, or that has such a plan in a fenced block or somewhere between its words. Nothing is required of a
// task; see Problems.
func Read(text string) (*Plan, error) {
	if len(text) > MaxText {
		return nil, fmt.Errorf("the plan has over %d KiB; split it", MaxText>>10)
	}
	p, err := fromYAML(strings.TrimSpace(text)) // of which JSON is nearly a part
	if p != nil && err == nil {
		return p, nil
	}
	if v, ok := Find(text, func(v any) bool { return planOf(v) != nil }); ok {
		return planOf(v), nil
	}
	for _, block := range fenced(text) {
		if p, err := fromYAML(block); p != nil && err == nil {
			return p, nil
		}
	}
	if err == nil {
		err = ErrNone
	}
	return nil, err
}

// fromYAML reads a plan in YAML. It returns nil if the text is no list and no map, or an error if it is one with a mistake.
func fromYAML(text string) (*Plan, error) {
	v, refused, err := frontmatter.Tree([]byte(text), nil)
	if err != nil {
		if strings.Contains(text, "\n") && (strings.Contains(text, "tasks:") || strings.HasPrefix(text, "- ")) {
			return nil, err
		}
		return nil, nil //nolint:nilnil // prose is no plan
	}
	p := planOf(plain(v))
	if p != nil && len(refused) > 0 {
		return nil, refused[0]
	}
	return p, nil
}

// plain turns a YAML value into one of package encoding/json.
func plain(v *frontmatter.Value) any {
	switch v.Kind {
	case frontmatter.Map:
		m := map[string]any{}
		for _, f := range v.Fields {
			m[f.Key] = plain(f.Value)
		}
		return m
	case frontmatter.List:
		list := []any{}
		for _, i := range v.Items {
			list = append(list, plain(i))
		}
		return list
	case frontmatter.Null:
		return nil
	}
	return v.Text
}

// fenced returns the contents of the fenced blocks of a text.
func fenced(text string) (out []string) {
	parts := strings.Split(text, "```")
	for i := 1; i < len(parts); i += 2 {
		first, rest, ok := strings.Cut(parts[i], "\n")
		if ok && !strings.ContainsAny(first, "{[") { // the language
			out = append(out, strings.TrimSpace(rest))
		} else {
			out = append(out, strings.TrimSpace(parts[i]))
		}
	}
	return out
}

// planOf returns the plan that a value is, nil if it is none.
func planOf(v any) *Plan {
	switch v := v.(type) {
	case []any:
		if tasks, ok := tasksOf(v); ok {
			return &Plan{Tasks: tasks}
		}
	case map[string]any:
		list, is := field(v, tasksWords[:]).([]any)
		if inner, nested := field(v, tasksWords[:]).(map[string]any); nested {
			return planOf(inner)
		}
		if none, there := v[tasksWords[0]]; there && none == nil {
			list, is = nil, true
		}
		tasks, ok := tasksOf(list)
		if !is || !ok {
			return nil
		}
		p := &Plan{Tasks: tasks, Check: text(field(v, checkWords[:])), Acceptance: texts(field(v, acceptWords[:]))}
		return p
	}
	return nil
}

// tasksOf returns the tasks of a list, and false if it is none of tasks.
func tasksOf(list []any) ([]Task, bool) {
	out := []Task{}
	for i, v := range list {
		m, ok := v.(map[string]any)
		if !ok {
			return nil, false
		}
		t := TaskOf(m)
		if t.Title == "" && t.Prompt == "" && t.ID == "" {
			return nil, false
		}
		if t.Title == "" {
			t.Title, _, _ = strings.Cut(t.Prompt, "\n")
			t.Title = clean.Clip(t.Title, 80)
		} else if len(t.Title) > maxTitle {
			t.Prompt = strings.TrimSpace(t.Title + "\n\n" + t.Prompt)
			t.Title = clean.Clip(t.Title, maxTitle)
		}
		if t.ID == "" {
			t.ID = fmt.Sprint(i + 1)
		}
		out = append(out, t)
	}
	return out, true
}

// TaskOf reads a task from a decoded JSON object, whatever words it uses for its fields. Fields that it lacks are empty.
func TaskOf(m map[string]any) Task {
	return Task{
		ID: ID(field(m, idWords[:])), Title: line(text(field(m, titleWords[:]))), Prompt: text(field(m, promptWords[:])),
		BlockedBy: IDs(field(m, blockedWords[:])), Files: texts(field(m, filesWords[:])), Check: text(field(m, checkWords[:])), Status: Status(m["status"]),
	}
}

// field returns the first value that an object has under any of some words, nil if it has none.
func field(m map[string]any, words []string) any {
	for _, w := range words {
		if v := m[w]; v != nil {
			return v
		}
	}
	for k, v := range m {
		for _, w := range words {
			if v != nil && strings.EqualFold(k, w) {
				return v
			}
		}
	}
	return nil
}

// ID returns the ID that a value is, "" if it cannot be one.
func ID(v any) string {
	switch v := v.(type) {
	case string:
		return line(v)
	case json.Number:
		return v.String()
	}
	return ""
}

// IDs returns the IDs in a value that is one or a list of them. What cannot be one is left out.
func IDs(v any) (out []string) {
	list, ok := v.([]any)
	if !ok {
		if s, is := v.(string); is && strings.Contains(s, ",") {
			for part := range strings.SplitSeq(s, ",") {
				list = append(list, part)
			}
		} else {
			list = []any{v}
		}
	}
	for _, v := range list {
		if id := ID(v); id != "" {
			out = append(out, id)
		}
	}
	return out
}

// Status returns the state that a value means. What means none is pending.
func Status(v any) string {
	s, _ := v.(string)
	switch strings.NewReplacer("-", "_", " ", "_").Replace(strings.ToLower(strings.TrimSpace(s))) {
	case "in_progress", "inprogress", "running", "active", "doing", "started":
		return InProgress
	case "completed", "complete", "done", "finished", "success":
		return Completed
	case "error", "failed", "failure":
		return Failed
	}
	return Pending
}

func text(v any) string {
	s, _ := v.(string)
	return strings.TrimSpace(clean.Text(s))
}

func texts(v any) (out []string) {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, v := range list {
		if s := text(v); s != "" {
			out = append(out, s)
		}
	}
	return out
}

func line(s string) string { return strings.Join(strings.Fields(clean.Text(s)), " ") }

// YAML formats a plan for people to edit. Read reads it.
func (p *Plan) YAML() string {
	var b strings.Builder
	list := func(indent, name string, items []string) {
		if len(items) > 0 {
			fmt.Fprintf(&b, "%s%s:\n", indent, name)
		}
		for _, s := range items {
			fmt.Fprintf(&b, "%s  - %s\n", indent, quoted(s))
		}
	}
	list("", "acceptance", p.Acceptance)
	if p.Check != "" {
		fmt.Fprintf(&b, "check: %s\n", quoted(p.Check))
	}
	b.WriteString("tasks:\n")
	for _, t := range p.Tasks {
		fmt.Fprintf(&b, "  - id: %s\n    title: %s\n", quoted(t.ID), quoted(t.Title))
		if len(t.BlockedBy) > 0 {
			var ids []string
			for _, id := range t.BlockedBy {
				ids = append(ids, quoted(id))
			}
			fmt.Fprintf(&b, "    blocked_by: [%s]\n", strings.Join(ids, ", "))
		}
		list("    ", "files", t.Files)
		if t.Check != "" {
			fmt.Fprintf(&b, "    check: %s\n", quoted(t.Check))
		}
		if t.Prompt == "" {
			continue
		}
		if strings.HasPrefix(t.Prompt, " ") || strings.ContainsAny(t.Prompt, "\t\r") {
			fmt.Fprintf(&b, "    prompt: %s\n", quoted(t.Prompt))
			continue
		}
		b.WriteString("    prompt: |-\n")
		for l := range strings.SplitSeq(t.Prompt, "\n") {
			b.WriteString(strings.TrimRight("      "+l, " ") + "\n")
		}
	}
	return b.String()
}

// quoted returns a text as a YAML scalar, which JSON strings are.
func quoted(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a text can be encoded
	return strings.TrimSpace(b.String())
}

// Table formats a plan for people to look at.
func (p *Plan) Table() string {
	var b strings.Builder
	width := 2
	for _, t := range p.Tasks {
		width = max(width, len(t.ID))
	}
	for _, t := range Order(p.Tasks) {
		fmt.Fprintf(&b, "%-*s  %s", width, t.ID, t.Title)
		if len(t.BlockedBy) > 0 {
			b.WriteString(" (after " + strings.Join(t.BlockedBy, ", ") + ")")
		}
		if t.Check != "" {
			b.WriteString(" [check: " + t.Check + "]")
		}
		b.WriteByte('\n')
	}
	return b.String()
}
