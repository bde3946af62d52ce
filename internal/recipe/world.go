package recipe

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/internal/toolnames"
)

// A World holds the agents, tools and workflows outside the file that a recipe may refer to. Nil
// fields are not checked.
type World struct {
	Agents     []string
	AgentsFrom string   // where they were looked for, for messages
	Tools      []string // a name that ends with * stands for all that begin so
	ToolsFrom  string
	ToolsOff   map[string]string             // tools that are there and turned off: why, and how to turn them on
	ToolsBad   map[string]string             // tools whose file has a mistake: which
	ToolInputs map[string]*jsonschema.Schema // of the arguments of tools, where it is known without starting anything
	Workflows  map[string]*Callee            // by name and alias
}

// A Callee is a workflow that steps can call.
type Callee struct {
	Name   string
	Inputs []Input
	Recipe *Recipe // nil if it is no recipe
}

// Check finds mistakes that the file alone does not show: unknown sub-agents, tools and workflows;
// missing, unknown or mistyped inputs of called workflows and arguments of tools; and recipes that
// call each other in a cycle. A tool that is off is a warning: a run may turn it on.
func Check(r *Recipe, w *World) Problems {
	if r == nil || w == nil {
		return nil
	}
	p := &reading{file: r.File, src: newSource(r.Source), hints: hintBudget}
	c := &toolCheck{reading: p, world: w, inputs: map[string]*toolInputs{}}
	circle := ""
	if w.Workflows != nil {
		circle = strings.Join(w.circle(r), " → ")
	}
	r.Walk(func(s *Step, _ int) bool {
		switch {
		case s.Agent != nil && s.Agent.Name == "", s.Tool != nil && s.Tool.Name == "", s.Workflow != nil && s.Workflow.Name == "":
			// Parse has reported it
		case s.Agent != nil && w.Agents != nil && !slices.Contains(w.Agents, s.Agent.Name):
			p.missing(s.Agent.Pos, codeUnknownAgent, "subagent", s.Agent.Name, w.Agents, w.AgentsFrom)
		case s.Tool != nil:
			c.tool(s.Tool)
		case s.Workflow != nil && w.Workflows != nil:
			p.callee(r, s, w, &circle)
		}
		return true
	})
	p.problems.sort()
	return p.problems
}

func (w *World) hasTool(id string) bool {
	return slices.ContainsFunc(w.Tools, func(known string) bool {
		prefix, group := strings.CutSuffix(known, "*")
		return known == id || group && strings.HasPrefix(id, prefix)
	})
}

// tools returns the names of all tools, including tools that are turned off.
func (w *World) tools() []string {
	list := slices.AppendSeq(slices.Clone(w.Tools), maps.Keys(w.ToolsOff))
	slices.Sort(list)
	return slices.Compact(list)
}

func (p *reading) missing(at Pos, code, what, id string, known []string, from string) {
	text := fmt.Sprintf("no %s `%s`", what, name(id))
	here := ""
	if what == "tool" {
		here = toolnames.Here(id, known)
	}
	switch hint := p.hint(id, known); {
	case here != "":
		text += fmt.Sprintf("; here it is called %q", here)
	case hint != "":
		text += hint
	case len(known) == 0:
		text += "; there are none"
	default:
		list := slices.Sorted(slices.Values(known))
		if len(list) > 30 {
			list = append(list[:30:30], fmt.Sprintf("and %d more", len(known)-30))
		}
		text += "; known: " + strings.Join(list, ", ")
	}
	if from != "" {
		text += " (looked in " + from + ")"
	}
	p.over(at, id, code, "%s", text)
}

// over reports a problem with a word at a position.
func (p *reading) over(at Pos, word, code, format string, args ...any) {
	p.report(p.wordAt(at, word, code, fmt.Sprintf(format, args...)))
}

func (p *reading) wordAt(at Pos, word, code, text string) *Problem {
	if start, ok := p.src.find(at); ok && start.off < len(p.src.text) && strings.ContainsRune("'\"", rune(p.src.text[start.off])) {
		word += `""`
	}
	return &Problem{Pos: at, End: at.Col + utf8.RuneCountInString(word), Code: code, Text: text}
}

func (p *reading) callee(r *Recipe, s *Step, w *World, circle *string) {
	call := s.Workflow
	if isSelf(r, call.Name) || w.Workflows[call.Name] != nil && leadsTo(w, call.Name, r) {
		if *circle != "" {
			p.over(call.Pos, call.Name, codeCircle, "cycle of recipes: %s; a recipe cannot end up calling itself", *circle)
			*circle = ""
		}
		return
	}
	callee := w.Workflows[call.Name]
	if callee == nil {
		var names []string
		for n := range w.Workflows {
			names = append(names, n)
		}
		slices.Sort(names)
		p.missing(call.Pos, codeUnknownWorkflow, "workflow", call.Name, names, "")
		return
	}
	if !call.Detached && callee.Recipe != nil && callee.Recipe.Budget != nil && r.Budget == nil {
		p.over(call.Pos, call.Name, codeInnerBudget, "the budget of workflow `%s` holds only where it is run by itself; give this recipe one", call.Name)
		p.problems[len(p.problems)-1].Warning = true
	}
	p.given(s, callee)
}

// given checks the inputs that a step passes to a workflow.
func (p *reading) given(s *Step, callee *Callee) {
	call := s.Workflow
	has := map[string]bool{}
	var fields []valueField
	if call.Inputs != nil {
		fields = call.Inputs.node.fields
	}
	var known []string
	for _, in := range callee.Inputs {
		known = append(known, in.Name)
	}
	for i := range fields {
		f := &fields[i]
		has[f.key] = true
		at := slices.Index(known, f.key)
		if at < 0 {
			hint := p.hint(f.key, known)
			if len(known) == 0 {
				hint = "; it has none"
			}
			p.over(f.pos, f.key, codeUnknownInput, "workflow `%s` has no input `%s`%s", call.Name, name(f.key), hint)
			continue
		}
		in := callee.Inputs[at]
		raw, ok := f.node.literal()
		if !ok {
			continue
		}
		if why := fits(in, raw); why != "" {
			p.add(f.node.pos, codeInputType, "input `%s` of workflow `%s` %s", in.Name, call.Name, why)
		}
	}
	for _, in := range callee.Inputs {
		if in.Required && !has[in.Name] {
			p.over(call.Pos, call.Name, codeMissingInput, "workflow `%s` needs input `%s`; give it under `inputs`", call.Name, in.Name)
		}
	}
}

// fits returns what is wrong with a value for an input, "" if nothing is: "must be a whole number, got a text".
func fits(in Input, raw json.RawMessage) string {
	v, err := Decode(raw)
	if err != nil {
		return err.Error()
	}
	ok := false
	switch x := v.(type) {
	case string:
		ok = in.Type == "string" || in.Type == ""
	case bool:
		ok = in.Type == "boolean"
	case int:
		ok = in.Type == "integer" || in.Type == "number"
	case float64:
		ok = in.Type == "number" || in.Type == "integer" && x == float64(int64(x)) && x >= -maxWhole && x <= maxWhole
	case []any:
		ok = in.Type == "list"
	case map[string]any:
		ok = in.Type == "object"
	}
	if !ok {
		return fmt.Sprintf("must be %s, got %s", typeWords(in.Type), typeOf(v))
	}
	if len(in.Enum) > 0 {
		e := &evaluation{}
		for _, allowed := range in.Enum {
			if a, err := Decode(allowed); err == nil && e.equal(a, v) {
				return ""
			}
		}
		return "must be " + enumWords(in.Enum)
	}
	return ""
}

func enumWords(all []json.RawMessage) string {
	words := make([]string, 0, 12)
	for i, a := range all {
		if i == 12 {
			return "one of " + strings.Join(words, ", ") + " and so on"
		}
		words = append(words, oneLine(string(a), 60))
	}
	return either(words)
}

func isSelf(r *Recipe, id string) bool { return id == r.Name || slices.Contains(r.Aliases, id) }

// leadsTo reports whether a workflow calls the recipe, directly or indirectly.
func leadsTo(w *World, id string, r *Recipe) bool { return w.way(id, r, map[string]bool{}) != nil }

// circle returns the first chain of calls from the recipe back to itself, or nil if no such chain
// exists.
func (w *World) circle(r *Recipe) []string {
	for _, id := range r.Uses() {
		if way := w.way(id, r, map[string]bool{}); way != nil {
			return append([]string{r.Name}, way...)
		}
	}
	return nil
}

// way returns the chain of calls from a workflow to the recipe.
func (w *World) way(id string, r *Recipe, seen map[string]bool) []string {
	if isSelf(r, id) {
		return []string{r.Name}
	}
	callee := w.Workflows[id]
	if callee == nil || callee.Recipe == nil || seen[callee.Name] {
		return nil
	}
	seen[callee.Name] = true
	for _, next := range callee.Recipe.Uses() {
		if way := w.way(next, r, seen); way != nil {
			return append([]string{callee.Name}, way...)
		}
	}
	return nil
}
