package recipe

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"
	"pgregory.net/rapid"
)

func compiled(t testing.TB) *jsonschema.Schema {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("recipe.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("recipe.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// agree compares the verdicts of the schema and of Parse on form. A text with problems that are about YAML has no
// value that a schema could look at.
func agree(t interface{ Errorf(string, ...any) }, s *jsonschema.Schema, name string, text []byte) (compared bool) {
	_, ps := Parse(name, text)
	refused := false
	for _, p := range ps {
		switch p.Code {
		case codeEmpty, codeLarge, codeEncoding, codeControl, codeTab, codeSyntax, codeDocuments, codeAlias, codeTag, codeDepth,
			codeValues, codeDuplicate, codeKey, codeBraces, codeNumber, codeMore:
			return false
		}
		refused = refused || p.Structural()
	}
	var n yaml.Node
	if err := yaml.Unmarshal(text, &n); err != nil {
		t.Errorf("%s: %v", name, err)
		return false
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader((&reading{src: newSource(text)}).json(n.Content[0])))
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return false
	}
	if err := s.Validate(v); (err != nil) != refused {
		t.Errorf("%s: the schema says %v, and Parse %v\n%s", name, err, ps, text)
	}
	return true
}

func TestSchemaAgrees(t *testing.T) {
	t.Parallel()
	s, compared := compiled(t), 0
	files, _ := filepath.Glob("testdata/*/*")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Ext(file) == ".yaml" {
			compared += btoi(agree(t, s, file, text))
			continue
		}
		for _, f := range txtar.Parse(text).Files {
			if strings.HasSuffix(f.Name, ".yaml") {
				compared += btoi(agree(t, s, f.Name, f.Data))
			}
		}
	}
	// Each line that differs alone: one wrong step hides the next otherwise.
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for _, f := range txtar.Parse(text).Files {
			head, steps, ok := strings.Cut(string(f.Data), "steps:\n")
			if !ok || !strings.HasSuffix(f.Name, ".yaml") {
				continue
			}
			for line := range strings.Lines(steps) {
				if strings.HasPrefix(line, "  - {") {
					compared += btoi(agree(t, s, f.Name, []byte(head+"steps:\n"+line)))
				}
			}
		}
	}
	if compared < 120 {
		t.Errorf("compared %d documents only", compared)
	}
}

// Documents that differ from valid ones in a few places get the same verdict too.
func TestSchemaAgreesOnMutations(t *testing.T) {
	t.Parallel()
	s := compiled(t)
	var docs []any
	files, _ := filepath.Glob("testdata/valid/*.yaml")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var n yaml.Node
		if err := yaml.Unmarshal(text, &n); err != nil {
			t.Fatal(err)
		}
		var v any
		if err := json.Unmarshal((&reading{src: newSource(text)}).json(n.Content[0]), &v); err != nil {
			t.Fatal(err)
		}
		docs = append(docs, v)
	}
	verdicts := map[bool]int{}
	rapid.Check(t, func(t *rapid.T) {
		v := copyOf(rapid.SampledFrom(docs).Draw(t, "document"))
		for range rapid.IntRange(0, 2).Draw(t, "changes") {
			v = mutate(t, v)
		}
		text, err := json.MarshalIndent(v, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		_, ps := Parse("m", text)
		verdicts[ps.Err() == nil]++
		agree(t, s, "m", text)
	})
	if verdicts[true] == 0 || verdicts[false] == 0 {
		t.Errorf("verdicts %v: the mutations show nothing", verdicts)
	}
}

func copyOf(v any) any {
	raw, _ := json.Marshal(v)
	var c any
	_ = json.Unmarshal(raw, &c)
	return c
}

// odd are values that many fields refuse.
func odd() []any {
	return []any{
		nil, true, false, "", "x", "x y", "5", "5s", "0s", "human", "once", "skip", "list", "a/b", "{{inputs.topic}}", "{{steps.a.output}}", 0.0, 1.0, 2.0, -1.0, 1.5, 1001.0,
		[]any{}, []any{"a"}, []any{"a", "a"}, []any{1.0}, map[string]any{}, map[string]any{"a": "b"}, map[string]any{"id": "q", "tool": "t"},
		[]any{map[string]any{"id": "q", "tool": "t"}}, map[string]any{"message": "m"}, map[string]any{"attempts": 2.0}, map[string]any{"name": "n"},
		map[string]any{"question": "q", "options": []any{"a"}, "form": []any{"a"}},
		map[string]any{"question": "q", "several": true, "options": []any{map[string]any{"label": "a", "description": "b"}}}, map[string]any{"question": "q", "header": "h", "several": true}, map[string]any{"name": "n", "required": true, "default": "x"},
		[]any{map[string]any{"name": "n", "type": "integer", "default": 2.0}}, map[string]any{"n": nil},
	}
}

func keysOf() []string {
	return []string{
		"name", "description", "version", "aliases", "inputs", "model", "max_concurrency", "fail_fast", "on_failure", "on_cancel", "always", "budget", "steps", "output", "id", "subagent", "prompt", "tool", "args",
		"effects", "workflow", "ask", "parallel", "foreach", "loop", "depends_on", "when", "gate", "output_retries", "retry", "timeout", "on_error", "type", "required",
		"default", "enum", "question", "header", "options", "several", "label", "form", "in", "as", "width", "max", "until", "message", "attempts", "delay", "backoff", "max_delay", "tokens", "cost", "time", "zzz",
	}
}

// mutate changes a value in one place: it takes away, puts in or replaces something.
func mutate(t *rapid.T, v any) any {
	switch x := v.(type) {
	case map[string]any:
		keys := make([]string, 0, len(x))
		for k := range x {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		what := rapid.IntRange(0, 9).Draw(t, "what")
		switch {
		case what == 0 || len(keys) == 0:
			x[rapid.SampledFrom(keysOf()).Draw(t, "key")] = copyOf(rapid.SampledFrom(odd()).Draw(t, "value"))
		case what == 1:
			delete(x, rapid.SampledFrom(keys).Draw(t, "gone"))
		default:
			k := rapid.SampledFrom(keys).Draw(t, "into")
			x[k] = mutate(t, x[k])
		}
		return x
	case []any:
		if len(x) > 0 && rapid.IntRange(0, 5).Draw(t, "deeper") > 0 {
			i := rapid.IntRange(0, len(x)-1).Draw(t, "at")
			x[i] = mutate(t, x[i])
			return x
		}
	}
	return copyOf(rapid.SampledFrom(odd()).Draw(t, "instead"))
}

// Every field has a description for editors, and the forms are those of the parser.
func TestSchemaIsComplete(t *testing.T) {
	t.Parallel()
	var s struct {
		Properties  map[string]json.RawMessage
		Definitions map[string]json.RawMessage
	}
	if err := json.Unmarshal(Schema(), &s); err != nil {
		t.Fatal(err)
	}
	var described func(path string, raw json.RawMessage)
	described = func(path string, raw json.RawMessage) {
		var d struct {
			Properties map[string]json.RawMessage
			OneOf      []json.RawMessage
		}
		_ = json.Unmarshal(raw, &d)
		for i := range d.OneOf {
			described(path, d.OneOf[i])
		}
		for k, p := range d.Properties {
			var f struct {
				Description string
				Ref         string `json:"$ref"`
			}
			_ = json.Unmarshal(p, &f)
			if f.Description == "" && path != "typedInput" && !strings.HasPrefix(f.Ref, "#/definitions/input/") && k != "steps" {
				t.Errorf("%s.%s has no description", path, k)
			}
			described(path+"."+k, p)
		}
	}
	described("", Schema())
	for name, d := range s.Definitions {
		described(name, d)
	}
	for name, f := range map[string]*form{"recipeName": recipeName, "plainName": plainName, "variable": variable, "thing": thing, "model": modelName, "duration": span} {
		var d struct{ Pattern string }
		_ = json.Unmarshal(s.Definitions[name], &d)
		if d.Pattern != f.pattern {
			t.Errorf("%s: schema %s, parser %s", name, d.Pattern, f.pattern)
		}
	}
}
