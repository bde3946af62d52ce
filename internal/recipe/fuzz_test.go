package recipe_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/recipe"
)

func seeds(f *testing.F) {
	files, _ := filepath.Glob("testdata/*/*")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		if filepath.Ext(file) == ".yaml" {
			f.Add(text)
		}
		for _, part := range txtar.Parse(text).Files {
			if strings.HasSuffix(part.Name, ".yaml") {
				f.Add(part.Data)
			}
		}
	}
	for _, text := range hostile() {
		if len(text) < 2000 {
			f.Add([]byte(text))
		}
	}
}

// Any text is read or refused with places that are in it, soon, and the same way each time.
func FuzzParse(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 1<<16 {
			return
		}
		start := time.Now()
		r, ps := recipe.Parse("f.yaml", text)
		if took := time.Since(start); took > faults.Bound(5*time.Second) {
			t.Errorf("took %v", took)
		}
		if (r == nil) != (ps.Err() != nil) {
			t.Errorf("recipe %v with %v", r != nil, ps)
		}
		for i, p := range ps {
			if i > 0 && p.Pos != (recipe.Pos{}) && (p.Pos.Line < ps[i-1].Pos.Line || p.Pos.Line == ps[i-1].Pos.Line && p.Pos.Col < ps[i-1].Pos.Col) {
				t.Errorf("%v is after %v", p, ps[i-1])
			}
			if strings.ContainsAny(p.Error()+p.Excerpt(text), "\x1b\u202e\r\x00") || strings.Contains(p.Error(), "\n") {
				t.Errorf("not clean: %q", p.Error())
			}
			inFile(t, text, p)
		}
		for _, p := range recipe.CheckText("f.yaml", text, &recipe.World{Agents: []string{}, Tools: []string{}, Workflows: map[string]*recipe.Callee{"brief": {Name: "brief"}}}) {
			inFile(t, text, p)
		}
		if r == nil {
			return
		}
		again, ps := recipe.Parse("f.yaml", r.Source)
		if again == nil || steps(again) != steps(r) || !reflect.DeepEqual(again.Inputs, r.Inputs) || again.Name != r.Name {
			t.Errorf("read again: %v", ps)
		}
		recipe.Check(again, &recipe.World{Agents: []string{}, Tools: []string{}, Workflows: map[string]*recipe.Callee{r.Name: {Name: r.Name, Inputs: r.Inputs, Recipe: r}}})
		if _, err := json.Marshal(recipe.InputSchema(r.Inputs)); err != nil {
			t.Error(err)
		}
	})
}

// steps is what of a recipe can be compared.
func steps(r *recipe.Recipe) string {
	var b strings.Builder
	r.Walk(func(s *recipe.Step, depth int) bool {
		b.WriteString(strings.Repeat(" ", depth) + s.ID + " " + s.Kind() + " " + strings.Join(s.Reads, ",") + " " + strings.Join(s.DependsOn, ","))
		if s.When != nil {
			b.WriteString(s.When.String())
		}
		if s.Agent != nil {
			b.WriteString(s.Agent.Prompt.String())
		}
		b.WriteByte('\n')
		return true
	})
	return b.String()
}

// What is put into a template is never looked at again, and what it does not put in stays as it is.
func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"{{inputs.topic}}", `\{{inputs.topic}}`, "a {{ inputs.topic }} b", "{{inputs.topic}}{{inputs.topic}}", "{{inputs.topic", "}}{{", "{{{inputs.topic}}}", `\\{{inputs.topic}}`, "{{steps.done.output.items.0.title}}", "{{inputs.list.x}}", "{ {inputs.topic}}"} {
		f.Add(s, "{{inputs.topic}}")
		f.Add(s, `\{{`)
		f.Add(s, "in{{")
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		raw, err := json.Marshal(text)
		if err != nil || len(text) > 1<<14 {
			return
		}
		r, _ := recipe.Parse("t.yaml", []byte("name: t\ninputs: [topic]\nsteps: [{id: a, subagent: r, prompt: "+string(raw)+"}]\n"))
		if r == nil {
			return
		}
		prompt := r.Steps[0].Agent.Prompt
		const mark = "\ue000MARK\ue000"
		if strings.Contains(text, mark) || strings.Contains(value, mark) {
			return
		}
		s := &recipe.Scope{Inputs: map[string]any{"topic": mark}}
		skeleton, err := prompt.Render(s)
		if err != nil {
			return
		}
		s.Inputs["topic"] = value
		got, err := prompt.Render(s)
		if want := strings.ToValidUTF8(strings.ReplaceAll(skeleton, mark, value), "\ufffd"); err != nil || got != want {
			t.Errorf("%q with %q: %q, %v; want %q", text, value, got, err, want)
		}
		if n := len(prompt.Refs()); n != strings.Count(skeleton, mark) {
			t.Errorf("%q: %d references, %d places", text, n, strings.Count(skeleton, mark))
		}
	})
}

// Any condition is refused, or evaluates to something soon, and to the same each time.
func FuzzCondition(f *testing.F) {
	for _, s := range []string{
		`inputs.topic == "x"`, `all(1..10, # > 0)`, `steps["step-a"].output?.x ?? true`, `let x = [1,2]; x[0] in x`, `len(inputs.huge) > 1 ? true : false`, `inputs.big matches "a+$"`,
		`1..1000000000 == []`, `split(inputs.big, "")[0:3] == nil`, `keys({a: 1}) == values({b: "a"})`, `item.name contains "x" || index > loop.round`, `not not true`, `"\u202e" == ""`, `-1 ** 3 % 2 == 0`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		raw, err := json.Marshal(text)
		if err != nil || len(text) > 5000 {
			return
		}
		src := strings.Replace(string(within(t, "when", "true && true").Source), `"true \u0026\u0026 true"`, string(raw), 1)
		r, _ := recipe.Parse("t.yaml", []byte(src))
		if r == nil {
			return
		}
		start := time.Now()
		when := innermost(r).When
		got, err := when.Holds(scope())
		again, err2 := when.Holds(scope())
		if got != again || (err == nil) != (err2 == nil) || err != nil && err.Error() != err2.Error() {
			t.Errorf("%q: %v, %v and then %v, %v", text, got, err, again, err2)
		}
		if took := time.Since(start); took > faults.Bound(5*time.Second) {
			t.Errorf("%q: took %v", text, took)
		}
	})
}
