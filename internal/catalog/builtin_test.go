package catalog_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"go.yaml.in/yaml/v4"

	"github.com/superstep-dev/superstep/internal/catalog"
	"github.com/superstep-dev/superstep/internal/recipe"
)

// The recipes that are built in: the most agents that one run begins, how the first lines of the file
// say so, and the graph: "a ∥ b → c", each of a list as "c*{…}", rounds as "c↻{…}".
var builtins = []struct {
	name   string
	agents int
	says   string
	part   string // the agent whose failure the recipe copes with
	graph  string
}{
	{"adversarial-verification", 34, "34 agents", "researcher", "extract → check*{jury*{refute} → keep?} → report"},
	{"classify-and-act", 5, "Three agents", "explorer", "classify → answer? ∥ diagnose? ∥ plan? → reply"}, // one of the three in the middle
	{"code-review", 19, "19 agents", "reviewer", "find*{look} → merge → verify*{refute} → report"},
	{"deep-research", 12, "twelve agents", "researcher", "research ∥ dissent → gaps → challenge ∥ verify*{check} → synthesis"},
	{"due-diligence", 5, "Five agents", "researcher", "map ∥ research → challenge ∥ verify → verdict → decide"},
	{"fan-out-and-synthesize", 10, "ten agents", "general-purpose", "split → work*{do} → synthesize"},
	{"generate-and-filter", 19, "19 agents", "general-purpose", "criteria ∥ generate*{ideas} → distinct → judge*{score} → rank"},
	{"judge-result", 1, "", "", "verdict"},
	{"loop-until-done", 10, "ten agents", "worker", "rounds↻{work → judge}"},
	{"research-and-brief", 7, "seven agents", "researcher", "gather → angles → dig?*{answer} → brief"},
	{"tournament", 11, "Eleven agents", "general-purpose", "candidates*{attempt} → judges*{compare} → final"},
}

func source(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("recipes", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func parsed(t *testing.T, name string) *recipe.Recipe {
	t.Helper()
	r, problems := recipe.Parse(name+".yaml", source(t, name))
	for _, p := range problems {
		t.Errorf("%v\n%s", p, p.Excerpt(source(t, name)))
	}
	if r == nil {
		t.FailNow()
	}
	return r
}

func TestBuiltinList(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("recipes", "*"))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, b := range builtins {
		want = append(want, filepath.Join("recipes", b.name+".yaml"))
	}
	if !slices.Equal(files, want) {
		t.Errorf("files %v, want %v", files, want)
	}
}

func TestBuiltinRecipes(t *testing.T) {
	t.Parallel()
	agents, err := catalog.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	world := &recipe.World{AgentsFrom: "built in", Tools: []string{}, Workflows: map[string]*recipe.Callee{}}
	for _, d := range agents.Agents() {
		world.Agents = append(world.Agents, d.Name)
	}
	for _, b := range builtins {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			r := parsed(t, b.name)
			for _, p := range recipe.Check(r, world) {
				t.Errorf("%v", p)
			}
			if r.Name != b.name {
				t.Errorf("its name is %s", r.Name)
			}
			if r.Description == "" {
				t.Error("it has no description")
			}
			for _, in := range r.Inputs {
				if in.Description == "" {
					t.Errorf("input %s has no description", in.Name)
				}
			}
			checkHeader(t, r, b.says)
			checkSteps(t, r)
			if got := drawn(&r.Block); got != b.graph {
				t.Errorf("graph %s\nwant  %s", got, b.graph)
			}
			w := &worst{t: t, recipe: r, results: map[string]*recipe.Result{}}
			if got := w.block(&r.Block, nil); got != b.agents {
				t.Errorf("at most %d agents, want %d", got, b.agents)
			}
			if r.Budget != nil && r.Budget.Agents > 0 && r.Budget.Agents < int64(b.agents) {
				t.Errorf("%d agents do not fit into its budget of %d", b.agents, r.Budget.Agents)
			}
		})
	}
}

// checkHeader looks at the comment that a file begins with: what it is for, a command that fits, and
// how many agents that takes.
func checkHeader(t *testing.T, r *recipe.Recipe, says string) {
	t.Helper()
	header, _, _ := strings.Cut(string(r.Source), "\nname: ")
	lines := strings.Split(header, "\n")
	if len(lines) < 2 || len(lines) > 3 {
		t.Errorf("it begins with %d lines of comment", len(lines))
	}
	for _, l := range lines {
		if !strings.HasPrefix(l, "# ") {
			t.Errorf("it begins with %q", l)
		}
	}
	if !strings.Contains(header, says) {
		t.Errorf("its first lines do not say %q", says)
	}
	_, command, ok := strings.Cut(header, "#   superstep run "+r.Name+" ")
	if !ok {
		t.Error("its first lines do not say how to run it")
	}
	command = regexp.MustCompile(`"[^"]*"`).ReplaceAllString(command, "X")
	for _, m := range regexp.MustCompile(` ([a-z_]+)=`).FindAllStringSubmatch(" "+command, -1) {
		if !slices.ContainsFunc(r.Inputs, func(in recipe.Input) bool { return in.Name == m[1] }) {
			t.Errorf("its first lines give %s, which is no input", m[1])
		}
	}
}

// A written step is one as it is in the file.
type written map[string]any

// checkSteps looks at what a step says of others: it depends on nothing that it does not use, and
// what others said stands between tags, with a word that it is material.
func checkSteps(t *testing.T, r *recipe.Recipe) {
	t.Helper()
	var file struct{ Steps []written }
	if err := yaml.Unmarshal(r.Source, &file); err != nil {
		t.Fatal(err)
	}
	for _, s := range file.Steps {
		checkStep(t, s, nil)
	}
}

func checkStep(t *testing.T, s written, items []string) {
	t.Helper()
	id := s["id"]
	needs, _ := s["depends_on"].([]any)
	rest := written{}
	for k, v := range s {
		if k != "depends_on" {
			rest[k] = v
		}
	}
	text := fmt.Sprint(rest)
	for _, on := range needs {
		if !strings.Contains(text, fmt.Sprintf("steps.%s.", on)) {
			t.Errorf("step %s depends on %s and does not use it", id, on)
		}
	}
	if prompt, ok := s["prompt"].(string); ok {
		checkPrompt(t, id, prompt, items)
	}
	for _, kind := range []string{"foreach", "loop", "parallel"} {
		body, ok := s[kind].(map[string]any)
		if !ok {
			continue
		}
		within := items
		if in, ok := body["in"].(string); ok && strings.HasPrefix(in, "{{steps.") {
			within = append(slices.Clone(items), body["as"].(string))
		}
		for _, inner := range body["steps"].([]any) {
			checkStep(t, written(inner.(map[string]any)), within)
		}
	}
}

var tag = regexp.MustCompile(`(?m)^<([a-z-]+(?:\{\{[a-z.]+\}\})?)>\n`)

func checkPrompt(t *testing.T, id any, prompt string, items []string) {
	t.Helper()
	material := []string{"{{steps.", "{{loop.output"}
	for _, i := range items {
		material = append(material, "{{"+i)
	}
	open, fenced := prompt, 0
	for {
		m := tag.FindStringSubmatchIndex(open)
		if m == nil {
			break
		}
		end := "\n</" + open[m[2]:m[3]] + ">\n"
		n := strings.Index(open[m[1]:], end)
		if n < 0 {
			t.Errorf("step %s: <%s> is not closed", id, open[m[2]:m[3]])
			return
		}
		open = open[:m[0]] + open[m[1]+n+len(end):]
		fenced++
	}
	open = strings.ReplaceAll(open, "{{steps.classify.output.kind}}", "") // one of four words
	for _, what := range material {
		if strings.Contains(open, what) {
			t.Errorf("step %s: %s}} does not stand between tags", id, what)
		}
	}
	said := strings.Contains(prompt, "between the tags") || strings.Contains(prompt, "give you no other instructions")
	if fenced > 0 && !said {
		t.Errorf("step %s: it does not say what the text between its tags is", id)
	}
}

// drawn is the graph of a block as one line.
func drawn(b *recipe.Block) string {
	level := map[string]int{}
	var levels [][]string
	for len(level) < len(b.Steps) {
		for _, s := range b.Steps {
			at, ready := 0, true
			for _, on := range s.DependsOn {
				l, ok := level[on]
				ready = ready && ok
				at = max(at, l+1)
			}
			if _, done := level[s.ID]; done || !ready {
				continue
			}
			level[s.ID] = at
			for len(levels) <= at {
				levels = append(levels, nil)
			}
			text := s.ID
			if s.When != nil {
				text += "?"
			}
			switch {
			case s.Foreach != nil:
				text += "*"
			case s.Loop != nil:
				text += "↻"
			}
			if body := s.Body(); body != nil {
				text += "{" + drawn(body) + "}"
			}
			levels[at] = append(levels[at], text)
		}
	}
	var out []string
	for _, l := range levels {
		out = append(out, strings.Join(l, " ∥ "))
	}
	return strings.Join(out, " → ")
}

// worst counts the agents of a recipe whose lists are all as long as their schemas allow, whose
// conditions hold and whose loops go on to the end.
type worst struct {
	t       *testing.T
	recipe  *recipe.Recipe
	results map[string]*recipe.Result
}

func (w *worst) block(b *recipe.Block, vars map[string]any) (agents int) {
	for done := 0; done < len(b.Steps); { // in an order in which dependencies come first
		before := done
		for _, s := range b.Steps {
			ready := !slices.ContainsFunc(s.DependsOn, func(on string) bool { return w.results[on] == nil })
			if w.results[s.ID] == nil && ready {
				agents += w.step(s, vars)
				done++
			}
		}
		if done == before {
			w.t.Fatal("the steps wait for each other")
		}
	}
	for _, s := range b.Steps {
		if vars != nil {
			delete(w.results, s.ID) // for the next item
		}
	}
	return agents
}

func (w *worst) step(s *recipe.Step, vars map[string]any) (agents int) {
	var out any = "x"
	if s.Output != nil {
		out = largest(w.t, s.Output, true)
	}
	switch {
	case s.Agent != nil:
		agents = 1
	case s.Loop != nil:
		agents = s.Loop.Max * w.block(&s.Loop.Block, map[string]any{})
	case s.Parallel != nil:
		agents = w.block(&s.Parallel.Block, map[string]any{})
	case s.Foreach != nil:
		items := w.items(s, vars)
		outs := []any{}
		for i, item := range items {
			agents += w.block(&s.Foreach.Block, map[string]any{s.Foreach.As: item, "index": i})
			outs = append(outs, "x")
		}
		out = outs
	case s.Workflow != nil:
		w.t.Errorf("step %s: agents of workflows are not counted", s.ID)
	}
	raw, err := json.Marshal(out)
	if err != nil {
		w.t.Fatal(err)
	}
	w.results[s.ID] = &recipe.Result{Status: recipe.Done, Output: raw}
	return agents
}

func (w *worst) items(s *recipe.Step, vars map[string]any) []any {
	scope := &recipe.Scope{Inputs: map[string]any{}, Vars: vars, Step: func(id string) (*recipe.Result, bool) {
		r, ok := w.results[id]
		return r, ok
	}}
	for _, in := range w.recipe.Inputs {
		value := any("x")
		if in.Default != nil {
			var err error
			if value, err = recipe.Decode(in.Default); err != nil {
				w.t.Fatal(err)
			}
		}
		scope.Inputs[in.Name] = value
	}
	value, err := s.Foreach.In.Resolve(scope)
	items, ok := value.([]any)
	if err != nil || !ok || len(items) == 0 {
		w.t.Fatalf("step %s: in gives %v, %v", s.ID, value, err)
	}
	return items
}

// largest is the largest value that fits a schema, as far as lists go; yes is what it says where it has to decide.
func largest(t *testing.T, s *jsonschema.Schema, yes bool) any {
	t.Helper()
	switch s.Type {
	case "object":
		o := map[string]any{}
		for name, p := range s.Properties {
			o[name] = largest(t, p, yes)
		}
		for _, name := range s.Required {
			if s.Properties[name] == nil {
				t.Errorf("%s is required and has no schema", name)
			}
		}
		return o
	case "array":
		n := 100 // which nobody wants
		if s.MaxItems != nil {
			n = *s.MaxItems
		}
		var l []any
		for range n {
			l = append(l, largest(t, s.Items, yes))
		}
		return l
	case "boolean":
		return yes
	case "integer", "number":
		return 5
	case "string":
		if len(s.Enum) > 0 {
			return s.Enum[0]
		}
	default:
		t.Errorf("a schema of type %q", s.Type)
	}
	return "x"
}

// Lists that a foreach goes through are bounded by their schema; the documentation says what that comes to.
func TestBuiltinNumbersInDocumentation(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "recipes.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range builtins {
		want := b.agents
		if b.name == "classify-and-act" {
			want = 3 // of its branches one is taken
		}
		row := regexp.MustCompile("(?m)^\\| `" + b.name + "` \\| .* \\| (\\d+) \\|$").FindStringSubmatch(string(page))
		if row == nil || row[1] != fmt.Sprint(want) {
			t.Errorf("%s: its row is %q, want %d agents", b.name, row, want)
		}
	}
}

// Where nobody can be asked a built-in recipe comes to its end: each question has a default, and nothing has a gate.
func TestBuiltinNeverWaitsForAnybody(t *testing.T) {
	t.Parallel()
	for _, b := range builtins {
		parsed(t, b.name).Walk(func(s *recipe.Step, _ int) bool {
			if s.Gate != nil || s.Ask != nil && s.Ask.Default == nil {
				t.Errorf("%s: step %s waits for a person", b.name, s.ID)
			}
			return true
		})
	}
}
