package docs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/agent"
	"github.com/superstep-dev/superstep/internal/catalog"
	"github.com/superstep-dev/superstep/internal/compile"
	"github.com/superstep-dev/superstep/internal/recipe"
	"github.com/superstep-dev/superstep/model"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/workflow"
)

const recipesPage = "docs/recipes.md"

// A snippet is a block of YAML of a page.
type snippet struct {
	page string
	line int // of its first line in the page
	text string
	lint string // for one that is wrong on purpose, the block behind it: what is said of it
}

var yamlFence = regexp.MustCompile("(?ms)^```yaml(?: file=\\S+)?( lint)?\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?")

// snippets finds the blocks of YAML. One that is wrong on purpose begins with "```yaml lint".
func snippets(page, text string) (found []snippet) {
	for _, at := range yamlFence.FindAllStringSubmatchIndex(text, -1) {
		s := snippet{page: page, line: 1 + strings.Count(text[:at[4]], "\n"), text: text[at[4]:at[5]]}
		if at[2] >= 0 && at[6] >= 0 {
			s.lint = text[at[6]:at[7]]
		}
		found = append(found, s)
	}
	return found
}

// What a part of a recipe may take for granted, if it does not say it itself.
const frameInputs = `inputs:
  - {name: topic, description: What it is about, default: caches}
  - {name: strict, description: Whether to be strict, type: boolean, default: true}
`

// frameSteps are steps that a part may refer to, in the order of their dependence.
var frameSteps = [][2]string{
	{"gather", `  - id: gather
    subagent: researcher
    prompt: "Find out about {{inputs.topic}}"
`},
	{"claims", `  - id: claims
    subagent: synthesizer
    depends_on: [gather]
    prompt: "List the claims of {{steps.gather.output}}"
    output:
      type: object
      required: [claims]
      properties: {claims: {type: array, items: {type: string}}}
`},
}

// complete makes a recipe of a snippet. Line and column are how much was put before the snippet's own.
func (s *snippet) complete() (text string, line, col int, whole bool) {
	has := func(key string) bool { return strings.Contains("\n"+s.text, "\n"+key+":") }
	if has("steps") {
		return s.text, 0, 0, true
	}
	b := strings.Builder{}
	b.WriteString("name: frame\n")
	if !has("inputs") {
		b.WriteString(frameInputs)
	}
	if !strings.HasPrefix(s.text, "- ") {
		line = strings.Count(b.String(), "\n")
		b.WriteString(s.text)
		b.WriteString("steps:\n" + strings.ReplaceAll(frameSteps[0][1], "{{inputs.topic}}", "it"))
		return b.String(), line, 0, false
	}
	b.WriteString("steps:\n")
	own := func(id string) bool { return strings.Contains("\n"+s.text, "\n- id: "+id+"\n") }
	uses := func(id string) bool {
		return !own(id) && regexp.MustCompile(`\bsteps\.`+id+`\b|depends_on: \[[^\]]*\b`+id+`\b`).MatchString(s.text)
	}
	for _, f := range frameSteps {
		if uses(f[0]) || f[0] == "gather" && uses("claims") {
			b.WriteString(f[1])
		}
	}
	line = strings.Count(b.String(), "\n")
	for l := range strings.Lines(s.text) {
		if strings.TrimSpace(l) != "" {
			b.WriteString("  ")
		}
		b.WriteString(l)
	}
	return b.String(), line, 2, false
}

// parse reads a snippet. Its problems are placed in the page. Warnings about a part are left out: what it
// does not use, its surroundings may.
func (s *snippet) parse(w *recipe.World) (*recipe.Recipe, []string) {
	text, line, col, whole := s.complete()
	r, problems := recipe.Parse(s.page, []byte(text))
	if r != nil {
		problems = append(problems, recipe.Check(r, w)...)
	}
	var said []string
	for _, p := range problems {
		if p.Warning && !whole {
			continue
		}
		at := *p
		at.Pos.Line += s.line - 1 - line
		at.Pos.Col -= col
		said = append(said, at.Error()+"\n"+p.Excerpt([]byte(text)))
	}
	return r, said
}

// builtinWorld is what there is without a project: the agents and recipes that are built in.
func builtinWorld(t *testing.T) *recipe.World {
	t.Helper()
	agents, err := catalog.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &recipe.World{AgentsFrom: "built in", Workflows: map[string]*recipe.Callee{}}
	for _, d := range agents.Agents() {
		w.Agents = append(w.Agents, d.Name)
	}
	for name, text := range builtinRecipes(t) {
		r, problems := recipe.Parse(name+".yaml", text)
		if err := problems.Err(); err != nil {
			t.Fatal(err)
		}
		w.Workflows[r.Name] = &recipe.Callee{Name: r.Name, Inputs: r.Inputs, Recipe: r}
	}
	return w
}

func builtinRecipes(t *testing.T) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "catalog", "recipes", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no built-in recipes: %v", err)
	}
	found := map[string][]byte{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found[strings.TrimSuffix(filepath.Base(file), ".yaml")] = text
	}
	return found
}

func page(t *testing.T) string { return pageOf(t, recipesPage) }

func pageOf(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Each block of YAML is a recipe, or a part that the test completes to one: it is read, checked and run.
func TestRecipesPage(t *testing.T) {
	t.Parallel()
	w := builtinWorld(t)
	found := snippets(recipesPage, page(t))
	if len(found) < 15 {
		t.Fatalf("there are %d snippets", len(found))
	}
	readme := snippets("README.md", pageOf(t, "README.md"))
	if len(readme) == 0 {
		t.Error("the README shows no recipe")
	}
	found = append(found, readme...)
	atomic := snippets("docs/atomic.md", pageOf(t, "docs/atomic.md"))
	if len(atomic) == 0 {
		t.Error("docs/atomic.md shows no recipe")
	}
	found = append(found, atomic...)
	lint := 0
	for _, s := range found {
		t.Run(fmt.Sprintf("%s:%d", s.page, s.line), func(t *testing.T) {
			t.Parallel()
			if s.lint != "" {
				checkLint(t, s, w)
				return
			}
			r, said := s.parse(w)
			for _, p := range said {
				t.Error(p)
			}
			if r != nil && len(said) == 0 {
				runSnippet(t, r, w)
			}
		})
		if s.lint != "" {
			lint++
		}
	}
	if lint == 0 {
		t.Error("no snippet shows what lint says")
	}
}

// runSnippet runs a recipe of the page to its end, with a model that answers what is wanted, tools that give a line,
// and a person who approves and takes the first of what is offered.
func runSnippet(t *testing.T, r *recipe.Recipe, w *recipe.World) {
	t.Helper()
	b := &compile.Bundle{Main: r}
	for _, name := range r.Uses() {
		b.Uses = append(b.Uses, w.Workflows[name].Recipe)
	}
	var tools []*tool.Tool
	for _, name := range r.ToolNames() {
		one, err := tool.NewRaw(name, "A tool of the page.", func(_ context.Context, _ *tool.Call, _ map[string]any) (string, error) { return "a line", nil }, &tool.Options{Effect: tool.Pure})
		if err != nil {
			t.Fatal(err)
		}
		tools = append(tools, one)
	}
	opt := &compile.Options{Open: func(context.Context, *compile.Needs, *compile.Setting) (*compile.Crew, error) {
		set, err := tool.NewSet(tools...)
		return &compile.Crew{Tools: set, Agent: func(name, _ string) (*agent.Agent, error) {
			return &agent.Agent{Name: name, Model: obliging{}}, nil
		}}, err
	}}
	flows := make([]*workflow.Workflow, 1+len(b.Uses)) // those that it uses may be runs of their own
	for i, of := range append([]*recipe.Recipe{r}, b.Uses...) {
		bundle := &compile.Bundle{Main: of}
		if i == 0 {
			bundle = b
		}
		flow, err := compile.New(bundle, opt)
		if err != nil {
			t.Fatal(err)
		}
		flows[i] = flow
	}
	e, err := superstep.New(runlog.NewMemory(nil), &superstep.Options{Workflows: flows})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	inputs := map[string]any{}
	for _, in := range r.Inputs {
		if in.Required {
			inputs[in.Name] = "anything"
		}
	}
	run, err := e.Start(t.Context(), r.Name, marshal(t, inputs), nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		out, err := run.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(out.Open) == 0 {
			if out.Status != runlog.Completed {
				t.Errorf("recipe %s: its run is %s: %v", r.Name, out.Status, out.Err)
			}
			return
		}
		for _, q := range out.Open {
			if err := e.Answer(t.Context(), run.ID(), q.Path, &runlog.Answer{Key: q.Key, Value: reply(t, &q), By: "reader"}); err != nil {
				t.Fatal(err)
			}
		}
		if run, err = e.Resume(t.Context(), run.ID(), nil); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("it asks again and again")
}

func marshal(t *testing.T, v any) json.RawMessage {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// reply answers a question: with its default, the first option, or what fits.
func reply(t *testing.T, q *runlog.Question) json.RawMessage {
	t.Helper()
	if q.Default != nil {
		return q.Default
	}
	if len(q.Options) > 0 {
		return marshal(t, q.Options[0])
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(q.Schema, &s); err != nil {
		t.Fatal(err)
	}
	return marshal(t, fitting(&s))
}

// fitting is a value that fits a schema, and says yes.
func fitting(s *jsonschema.Schema) any {
	switch {
	case s == nil:
		return "x"
	case len(s.Enum) > 0:
		return s.Enum[0]
	case s.Type == "object":
		o := map[string]any{}
		for name, p := range s.Properties {
			o[name] = fitting(p)
		}
		return o
	case s.Type == "array":
		return []any{fitting(s.Items), fitting(s.Items)}
	case s.Type == "boolean":
		return true
	case s.Type == "integer", s.Type == "number":
		return 1
	}
	return "always"
}

// obliging is a model that answers with what fits.
type obliging struct{}

func (obliging) Name() string { return "test/obliging" }

func (obliging) Generate(_ context.Context, req *model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		text := "a sentence"
		if req.Schema != nil {
			b, err := json.Marshal(fitting(req.Schema))
			if err != nil {
				yield(model.Part{}, err)
				return
			}
			text = string(b)
		}
		_ = yield(model.Part{Kind: model.Text, Text: text}, nil) &&
			yield(model.Part{Kind: model.UsagePart, Usage: &model.Usage{In: 10, Out: 5}}, nil) &&
			yield(model.Part{Kind: model.Stop, Stop: model.StopEnd}, nil)
	}
}

// checkLint compares what is said about a wrong snippet with the block behind it, to the letter.
func checkLint(t *testing.T, s snippet, w *recipe.World) {
	t.Helper()
	command, said, _ := strings.Cut(s.lint, "\n")
	file := command[strings.LastIndex(command, " ")+1:]
	_, problems := recipe.Parse(file, []byte(s.text))
	here := *w
	here.AgentsFrom = "the folders .superstep/agents, .claude/agents, .opencode/agents and .github/agents, your own, and those built in"
	problems = append(problems, recipe.CheckText(file, []byte(s.text), &here)...)
	slices.SortStableFunc(problems, func(a, b *recipe.Problem) int { return a.Pos.Line - b.Pos.Line })
	if problems.Err() == nil {
		t.Fatalf("%s:%d: nothing is wrong with it", s.page, s.line)
	}
	var b strings.Builder
	for _, p := range problems {
		place, text, _ := strings.Cut(p.Error(), ": ")
		b.WriteString(place + ": error " + text + "\n")
		for l := range strings.Lines(p.Excerpt([]byte(s.text)) + "\n") {
			b.WriteString("  " + l)
		}
	}
	if got := b.String(); got != said {
		t.Errorf("%s:%d: what is said is\n%s\nand not\n%s", s.page, s.line, got, said)
	}
}

// A snippet that is wrong is found at its place in the page.
func TestSnippetPlaces(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, block, want string }{
		{"recipe", "name: a\nsteps:\n  - id: b\n    subagent: reviewer\n    prompt: \"{{inputs.gone}}\"\n", "page.md:8:"},
		{"steps", "- id: b\n  subagent: reviewer\n  prompt: go on\n  timeout: 5\n", "page.md:7:12:"},
		{"steps on others", "- id: b\n  subagent: reviewer\n  depends_on: [claims]\n  prompt: \"{{steps.claims.output}}\"\n  timeout: 5\n", "page.md:8:12:"},
		{"keys", "model: a/b\nbudget: {time: 5}\n", "page.md:5:16:"},
		{"unknown agent", "- id: b\n  subagent: reviwer\n  prompt: go on\n", "page.md:5:13:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			found := snippets("page.md", "# Page\n\n```yaml\n"+c.block+"```\n")
			if len(found) != 1 {
				t.Fatalf("%d snippets", len(found))
			}
			_, said := found[0].parse(builtinWorld(t))
			if len(said) == 0 || !strings.HasPrefix(said[0], c.want) {
				t.Errorf("said %q, want %s", said, c.want)
			}
		})
	}
}

// The page has each built-in recipe in its table, and no other.
func TestRecipesPageListsBuiltin(t *testing.T) {
	t.Parallel()
	_, table, ok := strings.Cut(page(t), "\n## Built in\n")
	if !ok {
		t.Fatal("there is no such section")
	}
	table, _, _ = strings.Cut(table, "\n## ")
	var listed []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|").FindAllStringSubmatch(table, -1) {
		listed = append(listed, m[1])
	}
	slices.Sort(listed)
	if want := slices.Sorted(maps.Keys(builtinRecipes(t))); !slices.Equal(listed, want) {
		t.Errorf("listed %v, want %v", listed, want)
	}
}

// The page names each key that a recipe file may have.
func TestRecipesPageNamesKeys(t *testing.T) {
	t.Parallel()
	var schema any
	if err := json.Unmarshal(recipe.Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if properties, ok := v["properties"].(map[string]any); ok {
				for key := range properties {
					keys[key] = true
				}
			}
			for _, below := range v {
				walk(below)
			}
		case []any:
			for _, below := range v {
				walk(below)
			}
		}
	}
	walk(schema)
	if len(keys) < 40 {
		t.Fatalf("the schema has %d keys", len(keys))
	}
	text := page(t)
	for key := range keys {
		if !regexp.MustCompile("`" + key + "[:`]|[ {]" + key + ":").MatchString(text) {
			t.Errorf("the page does not name %s", key)
		}
	}
}

// The functions and operators that the page lists are those that conditions have.
func TestConditionsOfRecipesPage(t *testing.T) {
	t.Parallel()
	_, line, ok := strings.Cut(page(t), "\n- functions: ")
	if !ok {
		t.Fatal("there is no list of functions")
	}
	line, _, _ = strings.Cut(line, "\n")
	calls := map[string]string{
		"len": `len([1]) == 1`, "all": `all([1], # > 0)`, "any": `any([1], # > 0)`, "one": `one([1], # > 0)`, "none": `none([1], # < 0)`,
		"filter": `len(filter([1, 2], # > 1)) == 1`, "map": `map([1], # + 1)[0] == 2`, "count": `count([1, 2], # > 1) == 1`,
		"find": `find([1, 2], # > 1) == 2`, "first": `first([1]) == 1`, "last": `last([1]) == 1`, "sum": `sum([1, 2]) == 3`,
		"min": `min(1, 2) == 1`, "max": `max(1, 2) == 2`, "lower": `lower("A") == "a"`, "upper": `upper("a") == "A"`, "trim": `trim(" a ") == "a"`,
		"split": `split("a,b", ",")[0] == "a"`, "join": `join(["a", "b"], ",") == "a,b"`, "hasPrefix": `hasPrefix("ab", "a")`, "hasSuffix": `hasSuffix("ab", "b")`,
		"concat": `len(concat([1], [2])) == 2`, "flatten": `len(flatten([1, [2]])) == 2`,
		"int": `int("1") == 1`, "float": `float("1.5") > 1`, "string": `string(1) == "1"`, "keys": `len(keys({"a": 1})) == 1`, "values": `values({"a": 1})[0] == 1`,
	}
	var listed []string
	for _, m := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(line, -1) {
		listed = append(listed, m[1])
	}
	slices.Sort(listed)
	if want := slices.Sorted(maps.Keys(calls)); !slices.Equal(listed, want) {
		t.Errorf("listed %v, want %v", listed, want)
	}
	for _, op := range []string{
		`1 == 1`, `1 != 2`, `1 < 2 and 2 <= 2`, `2 > 1 && 2 >= 2`, `false or !false`, `false || not false`, `1 + 1 - 1 == 1`, `2 * 2 / 2 == 2`, `3 % 2 == 1`, `2 ** 3 == 8`,
		`1 in [1]`, `"ab" contains "b"`, `"ab" startsWith "a"`, `"ab" endsWith "b"`, `"ab" matches "^a.$"`, `1 < 2 ? true : false`, `(nil ?? 1) == 1`,
		`{"a": nil}.a?.b == nil`, `[1, 2][0] == 1`, `len([1, 2, 3][1:3]) == 2`, `2 in 1..5`,
	} {
		calls[op] = op
	}
	for name, call := range calls {
		if ok, err := holds(t, call); err != nil || !ok {
			t.Errorf("%s: %s gives %v, %v", name, call, ok, err)
		}
	}
	for _, gone := range []string{`now() != nil`, `fromJSON("1") == 1`, `type(1) == "int"`, `len(toJSON(1)) == 1`, `reduce([1], # + #acc) == 1`} {
		if ok, err := holds(t, gone); err == nil {
			t.Errorf("%s gives %v, and the page does not list it", gone, ok)
		}
	}
}

// holds evaluates a condition of a step.
func holds(t *testing.T, condition string) (bool, error) {
	t.Helper()
	r, problems := recipe.Parse("a.yaml", []byte("name: a\nsteps:\n  - id: a\n    subagent: b\n    prompt: c\n    when: '"+condition+"'\n"))
	if err := problems.Err(); err != nil {
		return false, err
	}
	return r.Steps[0].When.Holds(&recipe.Scope{Step: func(string) (*recipe.Result, bool) { return nil, false }})
}
