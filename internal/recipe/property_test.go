package recipe_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/internal/recipe"
)

// A maker makes recipes that are valid.
type maker struct {
	t    *rapid.T
	next int
}

func (m *maker) n(max int, label string) int { return rapid.IntRange(0, max).Draw(m.t, label) }

func (m *maker) id() string {
	m.next++
	return fmt.Sprintf("%s%d", rapid.SampledFrom([]string{"s", "step-", "A_", "9"}).Draw(m.t, "id"), m.next)
}

// block makes steps that see what is given. It gives them and the ids that something after them could see.
func (m *maker) block(seen []string, depth int) (steps []any, ids []string) {
	reach := map[string][]string{}
	for range 1 + m.n(3, "steps") {
		id := m.id()
		s := map[string]any{"id": id}
		var deps []any
		visible := append([]string(nil), seen...)
		for _, before := range ids {
			if m.n(1, "depends") == 1 {
				deps = append(deps, before)
				visible = append(visible, "steps."+before+".output")
				visible = append(visible, reach[before]...)
			}
		}
		if len(deps) > 0 {
			s["depends_on"] = deps
		}
		for _, d := range deps {
			reach[id] = append(append(reach[id], "steps."+d.(string)+".output"), reach[d.(string)]...)
		}
		m.kind(s, visible, depth)
		if m.n(2, "extra") == 0 {
			m.extras(s, visible)
		}
		steps, ids = append(steps, s), append(ids, id)
	}
	return steps, ids
}

func (m *maker) text(visible []string) string {
	var b strings.Builder
	for range m.n(3, "parts") {
		b.WriteString(rapid.SampledFrom([]string{"plain ", "é\n", `\{{x}} `, "{ } ", "'\"", "\u202e", "# ", ": ", "- "}).Draw(m.t, "part"))
		if len(visible) > 0 {
			b.WriteString("{{ " + rapid.SampledFrom(visible).Draw(m.t, "ref") + "}}")
		}
	}
	return b.String()
}

func (m *maker) kind(s map[string]any, visible []string, depth int) {
	kinds := 6
	if depth == 0 {
		kinds = 3
	}
	switch m.n(kinds, "kind") {
	case 0:
		s["subagent"], s["prompt"] = "agent:x", m.text(visible)
	case 1:
		s["tool"], s["args"] = "read_file", map[string]any{"a": m.text(visible), "b": []any{1, 2.5, nil, true, m.text(visible)}}
	case 2:
		s["workflow"], s["inputs"] = "other", map[string]any{"topic": m.text(visible)}
	case 3:
		s["ask"] = map[string]any{"question": m.text(visible), "options": []any{"yes", "no"}}
	case 4:
		steps, ids := m.block(visible, depth-1)
		s["parallel"] = map[string]any{"steps": steps, "width": 2, "output": map[string]any{"x": "{{steps." + ids[0] + ".output}}"}}
	case 5:
		as := fmt.Sprintf("item%d", m.next)
		steps, ids := m.block(append(append([]string(nil), visible...), as, as+".field.0", "index"), depth-1)
		s["foreach"] = map[string]any{"in": "{{inputs.list}}", "as": as, "steps": steps, "output": "{{" + as + "}} {{steps." + ids[len(ids)-1] + ".status}}"}
	case 6:
		steps, ids := m.block(append(append([]string(nil), visible...), "loop.round", "loop.output.x"), depth-1)
		s["loop"] = map[string]any{"max": 3, "steps": steps, "until": fmt.Sprintf("steps[%q].status == \"done\" && loop.round > 1", ids[0])}
	}
}

func (m *maker) extras(s map[string]any, visible []string) {
	s["timeout"], s["on_error"] = "1m30s", "skip"
	if s["ask"] == nil {
		s["retry"] = 2
	}
	s["gate"] = map[string]any{"message": m.text(visible)}
	s["when"] = `inputs.topic != "" and len(inputs.list ?? []) >= 0`
	s["output"] = map[string]any{"type": "string"}
}

// Whatever is made by the rules is accepted, by the schema too; and a step reads only what it waits for.
func TestValidRecipesParse(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &maker{t: t}
		steps, ids := m.block([]string{"inputs.topic", "inputs.list.0"}, 3)
		doc := map[string]any{
			"name": "made", "inputs": []any{"topic", map[string]any{"name": "list", "type": "list"}}, "steps": steps,
			"output": "{{steps." + ids[len(ids)-1] + ".output}}",
		}
		text, err := json.MarshalIndent(doc, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		r, ps := recipe.Parse("made.yaml", text)
		if r == nil {
			t.Fatalf("%v\n%s", ps, text)
		}
		readsAreAncestors(t, r.Steps)
	})
}

func readsAreAncestors(t *rapid.T, steps []*recipe.Step) {
	done := map[string]map[string]bool{}
	for _, s := range steps {
		done[s.ID] = map[string]bool{}
		for _, d := range s.DependsOn {
			done[s.ID][d] = true
			for a := range done[d] {
				done[s.ID][a] = true
			}
		}
		for _, r := range s.Reads {
			if !done[s.ID][r] {
				t.Fatalf("%s reads %s, which may not have ended", s.ID, r)
			}
		}
		if b := s.Body(); b != nil {
			readsAreAncestors(t, b.Steps)
		}
	}
}

// A mistake in a text is shown at its place, in whatever way the text is written.
func TestPlacesInTexts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.SampledFrom([]string{"a", "é", "研究", "it's", `say "x"`, "b c", "x\ty", "\\", "\u00a0", "😀", "{ }", "a:b", "x#y"})
		line := func() string { return strings.Join(rapid.SliceOfN(word, 0, 4).Draw(t, "words"), " ") }
		before, after := line(), line()
		lead := rapid.SliceOfN(rapid.Custom(func(*rapid.T) string { return line() }), 0, 3).Draw(t, "lines")
		marked := before + " {{nope}} " + after
		style := rapid.SampledFrom([]string{"|", ">", ">-", "|+", "'", `"`, "json", "plain"}).Draw(t, "style")
		var prompt string
		switch style {
		case "|", ">", ">-", "|+":
			prompt = style + " # a comment\n"
			for _, l := range append(lead, "x"+marked) {
				prompt += "      " + strings.TrimLeft(l, "\t ") + "\n"
			}
			prompt = strings.ReplaceAll(prompt, "\n      \n", "\n\n")
		case "'":
			prompt = "'x" + strings.ReplaceAll(strings.Join(append(lead, marked), "\n\n      "), "'", "''") + "'\n"
		case `"`:
			prompt = `"x` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\u00a0", `\_`, "é", `\xe9`, "\t", `\t`).Replace(strings.Join(append(lead, marked), "\n      ")) + "\"\n"
		case "json":
			raw, _ := json.Marshal(strings.Join(append(lead, marked), "\n"))
			prompt = string(raw) + "\n"
		case "plain":
			prompt = "word\n      and {{nope}} more\n"
		}
		text := "name: t\nsteps:\n  - id: a\n    subagent: r\n    prompt: " + prompt + "    timeout: 1s\n"
		if rapid.Bool().Draw(t, "crlf") {
			text = strings.ReplaceAll(text, "\n", "\r\n")
		}
		if rapid.Bool().Draw(t, "mark") {
			text = "\ufeff" + text
		}
		_, ps := recipe.Parse("t.yaml", []byte(text))
		if len(ps) != 1 || ps[0].Code != "unknown-reference" {
			t.Fatalf("%v\n%q", ps, text)
		}
		at := strings.Index(text, "nope")
		start := strings.LastIndexByte(text[:at], '\n') + 1
		want := recipe.Pos{Line: 1 + strings.Count(text[:at], "\n"), Col: 1 + utf8.RuneCountInString(text[start:at])}
		if ps[0].Pos != want || ps[0].End != want.Col+4 {
			t.Fatalf("%v to %d, want %v\n%q", ps[0].Pos, ps[0].End, want, text)
		}
	})
}

// Parsed values are read by many at once.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	r := within(t, "when", `inputs.topic matches "^t" && any(inputs.list, # == 1) && len(steps.done.output.items) == 2`)
	tpl := template(t, "{{steps.done.output.items}} {{inputs.obj}}")
	s := scope()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				holds, err := innermost(r).When.Holds(s)
				text, err2 := tpl.Render(s)
				list, err3 := r.Steps[5].Foreach.In.Resolve(s)
				if !holds || err != nil || err2 != nil || err3 != nil || len(text) < 10 || len(list.([]any)) != 3 {
					t.Errorf("%v %v %v %v", holds, err, err2, err3)
				}
			}
		})
	}
	wg.Wait()
}

// A file of 1 MiB with a long text is read in a moment.
func BenchmarkParse(b *testing.B) {
	step := "  - id: s%d\n    subagent: researcher\n    depends_on: [s%d]\n    prompt: |\n      Work on {{inputs.topic}} with {{steps.s%d.output}}.\n      %s\n"
	var text bytes.Buffer
	text.WriteString("name: b\ninputs: [topic]\nsteps:\n  - {id: s0, tool: t}\n")
	for i := 1; i < 1000; i++ {
		fmt.Fprintf(&text, step, i, i-1, i-1, strings.Repeat("words ", 130))
	}
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if r, ps := recipe.Parse("b.yaml", text.Bytes()); r == nil {
			b.Fatal(ps)
		}
	}
}
