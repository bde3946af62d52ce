package evaluate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/distil"
	"github.com/superstep-dev/superstep/internal/recipe"
)

// A Recorded is a run of which a case is made.
type Recorded struct {
	Run, Title, Workflow string
	Inputs               map[string]json.RawMessage
	Output               json.RawMessage // nil if there is none
	Check                string          // of a new evaluation; defaults to output == expected
}

// AddCase returns the text of an evaluation with a case more, whose expected output is that of the run. If the text is empty, it returns a new one.
func AddCase(file string, text []byte, r *Recorded) ([]byte, error) {
	dash, used := "  ", []string(nil)
	var head string
	before, expected := 0, len(r.Output) > 0
	if len(strings.TrimSpace(string(text))) == 0 {
		head = fmt.Sprintf("workflow:%sruns: 3\n", distil.YAML(r.Workflow, ""))
		if expected {
			head += "checks:\n  - " + cmp.Or(r.Check, golden) + "\n"
		}
		head += "cases:\n"
	} else {
		e, problems := recipe.ParseEvaluation(file, text)
		if e == nil {
			return nil, problems
		}
		for i := range e.Cases {
			used = append(used, e.Cases[i].Name)
		}
		before = len(e.Cases)
		dash = strings.Repeat(" ", max(0, e.Cases[before-1].Pos.Col-3))
		head = strings.TrimRight(string(text), "\n") + "\n"
	}
	name := unused(slug(cmp.Or(r.Title, firstText(r.Inputs), r.Run)), used)
	for {
		added, err := r.text(name, dash, expected)
		if err != nil {
			return nil, err
		}
		e, problems := recipe.ParseEvaluation(file, []byte(head+added))
		switch {
		case e != nil && len(e.Cases) == before+1 && e.Cases[before].Name == name:
			return []byte(head + added), nil
		case expected && len(problems) == 1 && problems[0].Code == recipe.Unused: // the checks there look at something else
			expected = false
			continue
		}
		return nil, fmt.Errorf("%s: cannot add a case at its end; put `cases` last there, or add this by hand:\n%s", file, added)
	}
}

// text returns the case of a run.
func (r *Recorded) text(name, dash string, expected bool) (string, error) {
	in := dash + "  "
	var b strings.Builder
	fmt.Fprintf(&b, "%s# made of run %s\n%s- name:%s", dash, r.Run, dash, distil.YAML(name, in))
	if len(r.Inputs) > 0 {
		b.WriteString(in + "inputs:" + distil.YAML(decoded(r.Inputs), in))
	}
	if expected {
		var v any
		if err := json.Unmarshal(r.Output, &v); err != nil {
			return "", fmt.Errorf("the output of run %s: %w", r.Run, err)
		}
		b.WriteString(in + "expected:" + distil.YAML(v, in))
	}
	return b.String(), nil
}

func decoded(inputs map[string]json.RawMessage) map[string]any {
	out := map[string]any{}
	for name, raw := range inputs {
		var v any
		if json.Unmarshal(raw, &v) == nil {
			out[name] = v
		}
	}
	return out
}

// firstText returns the first input that is a text, by name.
func firstText(inputs map[string]json.RawMessage) string {
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		var s string
		if json.Unmarshal(inputs[name], &s) == nil && s != "" {
			return s
		}
	}
	return ""
}

// slug returns a name for a case made of a title.
func slug(title string) string {
	words := strings.FieldsFunc(strings.ToLower(title), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	out := ""
	for _, w := range words {
		if out != "" && len(out)+len(w) > 40 {
			break
		}
		out += "-" + w[:min(len(w), 40)]
	}
	return cmp.Or(strings.TrimPrefix(out, "-"), "case")
}

func unused(name string, used []string) string {
	out := name
	for n := 2; slices.Contains(used, out); n++ {
		out = fmt.Sprintf("%s-%d", name, n)
	}
	return out
}
