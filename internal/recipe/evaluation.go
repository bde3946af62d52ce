package recipe

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"go.yaml.in/yaml/v4"
)

// An Evaluation holds cases for workflows: inputs, and what has to be true of the runs with them.
type Evaluation struct {
	File     string
	Source   []byte
	Workflow string  // a name, or the path of a recipe, from the folder of the file; of variants that name none
	Runs     int     // of each case with each variant; defaults to 1
	Pass     float64 // the share of the runs of a case that have to pass; defaults to 1
	Judge    Judge
	Variants []Variant // at least one; the first is what the others are compared with
	Cases    []Case    // at least one
}

// A Judge is the workflow that decides on the checks in words.
type Judge struct {
	Workflow string // "" for the built-in one
	Model    string // "" for that of the run
}

// A Variant is a version of the workflow under evaluation.
type Variant struct {
	Name     string
	Workflow string
	Model    string                     // "" for that of the run
	Inputs   map[string]json.RawMessage // over those of the cases
}

// A Case is a set of inputs, and the checks of the runs with them.
type Case struct {
	Pos      Pos
	Name     string
	Inputs   map[string]json.RawMessage
	Answers  []string        // to the questions of its runs, each as PATH=value
	Expected json.RawMessage // the output that is wanted, nil if none is given
	Checks   []Criterion     // those of the file come first
}

// A Criterion is a check of a run: a condition, a schema, or a criterion for the judge.
type Criterion struct {
	Holds  *Condition
	Schema *jsonschema.Schema
	Judge  string
}

func (c *Criterion) String() string {
	switch {
	case c.Holds != nil:
		return oneLine(c.Holds.String(), 200)
	case c.Schema != nil:
		return "schema"
	}
	return "judge: " + oneLine(c.Judge, 200)
}

// expects reports whether a check looks at the expected output.
func (c *Criterion) expects() bool {
	return c.Judge != "" || c.LooksAt("expected")
}

// LooksAt reports whether the condition of a check refers to what has the name.
func (c *Criterion) LooksAt(name string) bool {
	return c.Holds != nil && slices.ContainsFunc(c.Holds.Refs(), func(r Ref) bool { return r.Path()[0] == name })
}

// checked has what the conditions of checks may refer to.
func checked() []string {
	return []string{"output", "expected", "inputs", "status", "cost", "seconds", "tokens", "turns", "calls"}
}

// Unused is the code of the problem that no check looks at the expected output of a case.
const Unused = codeUnused

// The limits of an evaluation.
const (
	maxRuns    = 1000
	maxEvalRun = 20_000 // of all cases and variants together
)

// ParseEvaluation reads an evaluation as Parse reads a recipe: it returns all problems at once, and no evaluation if any of them is more than a warning.
func ParseEvaluation(file string, text []byte) (*Evaluation, Problems) {
	p := newReading(file, text, "evaluation", "a workflow and cases")
	e := &Evaluation{File: file, Source: text, Runs: 1, Pass: 1}
	if root := p.load(text); root != nil {
		p.evaluation(root, e)
	}
	p.problems.sort()
	if p.problems.Err() != nil {
		return nil, p.problems
	}
	return e, p.problems
}

func (p *reading) evaluation(n *yaml.Node, e *Evaluation) {
	var common []Criterion
	var cases []*yaml.Node
	keys := p.object(n, "an evaluation", []field{
		{"workflow", func(v *yaml.Node) { e.Workflow = p.oneLined(v, "`workflow`") }},
		{"runs", func(v *yaml.Node) { e.Runs = int(p.wholeIn(v, "`runs`", 1, maxRuns)) }},
		{"pass", func(v *yaml.Node) {
			e.Pass = p.real(v, "`pass`", 0, false, 1, "from 0 to 1, the share of the runs of a case that have to pass")
		}},
		{"judge", func(v *yaml.Node) {
			p.object(v, "`judge`", []field{
				{"model", func(v *yaml.Node) { e.Judge.Model = p.oneLined(v, "`model`") }},
				{"workflow", func(v *yaml.Node) { e.Judge.Workflow = p.oneLined(v, "`workflow`") }},
			})
		}},
		{"variants", func(v *yaml.Node) { e.Variants = p.variants(v) }},
		{"checks", func(v *yaml.Node) { common = p.checks(v) }},
		{"cases", func(v *yaml.Node) { cases = p.items(v, "cases") }},
	})
	p.need(n, keys, "an evaluation", "cases")
	e.Cases = p.cases(cases, common)
	if len(e.Variants) == 0 {
		e.Variants = []Variant{{Name: cmp.Or(e.Workflow, "?")}}
	}
	for i := range e.Variants {
		v := &e.Variants[i]
		if v.Workflow = cmp.Or(v.Workflow, e.Workflow); v.Workflow == "" && keys != nil && keys["workflow"] == nil {
			p.add(posOf(n), codeMissing, "an evaluation needs `workflow`, the name of a workflow or the path of a recipe, or each of its variants does")
			break
		}
	}
	if all := len(e.Variants) * len(e.Cases) * e.Runs; all > maxEvalRun {
		p.add(posOf(n), codeRange, "%d variants, %d cases and %d runs of each are %d runs; an evaluation has at most %d", len(e.Variants), len(e.Cases), e.Runs, all, maxEvalRun)
	}
}

// items returns the parts of a list that must have some.
func (p *reading) items(n *yaml.Node, key string) []*yaml.Node {
	list, ok := p.sequence(n, "`"+key+"`")
	if ok && len(list) == 0 {
		p.add(posOf(n), codeMissing, "`%s` is empty; it needs at least one", key)
	}
	return list
}

// oneLined reads a text on one line that is not empty.
func (p *reading) oneLined(n *yaml.Node, what string) string {
	s, ok := p.text(n, what)
	if ok && (s == "" || strings.IndexFunc(s, hidden) >= 0) {
		p.mark(n, codeForm, "%s is %s; it must be a text on one line", what, quoted(s))
		return ""
	}
	return s
}

// unique reports a name that another item of the list has.
func (p *reading) unique(n *yaml.Node, name, what string, names map[string]Pos) {
	if first, ok := names[name]; ok && name != "" {
		p.mark(n, codeRepeated, "another %s is called %s, at %d:%d; each has its own name", what, quoted(name), first.Line, first.Col)
	}
	names[name] = posOf(n)
}

func (p *reading) variants(n *yaml.Node) []Variant {
	var out []Variant
	names := map[string]Pos{}
	for _, item := range p.items(n, "variants") {
		var v Variant
		keys := p.object(item, "a variant", []field{
			{"name", func(n *yaml.Node) {
				v.Name = p.named(n, "`name`", thing)
				p.unique(n, v.Name, "variant", names)
			}},
			{"workflow", func(n *yaml.Node) { v.Workflow = p.oneLined(n, "`workflow`") }},
			{"model", func(n *yaml.Node) { v.Model = p.oneLined(n, "`model`") }},
			{"inputs", func(n *yaml.Node) { v.Inputs = p.caseInputs(n) }},
		})
		p.need(item, keys, "a variant", "name")
		out = append(out, v)
	}
	return out
}

func (p *reading) cases(list []*yaml.Node, common []Criterion) []Case {
	var out []Case
	names := map[string]Pos{}
	for _, item := range list {
		if p.full() {
			return out
		}
		c := Case{Pos: posOf(item)}
		var own []Criterion
		var expected *yaml.Node
		keys := p.object(item, "a case", []field{
			{"name", func(n *yaml.Node) {
				c.Name = p.named(n, "`name`", thing)
				p.unique(n, c.Name, "case", names)
			}},
			{"inputs", func(n *yaml.Node) { c.Inputs = p.caseInputs(n) }},
			{"answers", func(n *yaml.Node) { c.Answers = p.answers(n) }},
			{"expected", func(n *yaml.Node) { c.Expected, expected = p.json(n), n }},
			{"checks", func(n *yaml.Node) { own = p.checks(n) }},
		})
		p.need(item, keys, "a case", "name")
		c.Checks = slices.Concat(common, own)
		looks := slices.ContainsFunc(c.Checks, func(c Criterion) bool { return c.expects() })
		if expected != nil && !looks && p.problems.Err() == nil {
			p.add(posOf(expected), Unused, "no check looks at `expected`; add the check `output == expected`, or a judge")
		}
		out = append(out, c)
	}
	return out
}

// caseInputs reads inputs, which are checked when their workflow is known.
func (p *reading) caseInputs(n *yaml.Node) map[string]json.RawMessage {
	if n.Kind != yaml.MappingNode {
		p.wrongType(n, "`inputs`", "a map from names to values")
		return nil
	}
	out := map[string]json.RawMessage{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		out[n.Content[i].Value] = p.json(n.Content[i+1])
	}
	return out
}

func (p *reading) answers(n *yaml.Node) []string {
	if n.Kind != yaml.MappingNode {
		p.wrongType(n, "`answers`", "a map from the tasks that ask to answers")
		return nil
	}
	var out []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		if text, ok := p.text(n.Content[i+1], "the answer to "+name(n.Content[i].Value)); ok {
			out = append(out, n.Content[i].Value+"="+text)
		}
	}
	return out
}

func (p *reading) checks(n *yaml.Node) []Criterion {
	var out []Criterion
	for _, item := range p.items(n, "checks") {
		if item.Kind == yaml.ScalarNode {
			if c := p.holds(item); c != nil {
				out = append(out, Criterion{Holds: c})
			}
			continue
		}
		var c Criterion
		keys := p.object(item, "a check", []field{
			{"schema", func(n *yaml.Node) { c.Schema = p.outputSchema(n, "schema", "a check") }},
			{"judge", func(n *yaml.Node) { c.Judge, _ = p.text(n, "`judge`") }},
		})
		if keys != nil && len(keys) != 1 {
			p.add(posOf(item), codeKind, "a check is a condition as a text, or has either `schema` or `judge`")
		}
		out = append(out, c)
	}
	return out
}

// holds reads the condition of a check.
func (p *reading) holds(n *yaml.Node) *Condition {
	var sites []site
	c := p.condition(n, "a check", &sites)
	for _, s := range sites {
		for _, r := range s.refs {
			if root := r.Path()[0]; !slices.Contains(checked(), root) {
				p.within(n, r.from, r.to, codeUnknownRef, "a check knows no %s; there are %s", name(root), strings.Join(checked(), ", "))
			}
		}
	}
	return c
}

// Ran is a run, as checks see it.
type Ran struct {
	Inputs, Output, Expected json.RawMessage
	Status                   string
	Cost                     *float64 // in US dollars, nil if it is not known
	Seconds                  float64
	Tokens, Turns, Calls     int64
}

// Test evaluates the condition of a check. Why says what is not true, "" if the condition holds.
func (c *Condition) Test(r *Ran) (why string, err error) {
	s := &Scope{Vars: map[string]any{"status": r.Status, "cost": nil, "seconds": r.Seconds, "tokens": int(r.Tokens), "turns": int(r.Turns), "calls": int(r.Calls)}}
	if r.Cost != nil {
		s.Vars["cost"] = *r.Cost
	}
	for name, raw := range map[string]json.RawMessage{"output": r.Output, "expected": r.Expected, "inputs": r.Inputs} {
		if s.Vars[name], err = Decode(raw); err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
	}
	s.Inputs, _ = s.Vars["inputs"].(map[string]any)
	holds, err := c.Holds(s)
	if err != nil || holds {
		return "", err
	}
	var seen []string
	for _, ref := range c.Refs() {
		if slices.Contains(seen, ref.String()) {
			continue
		}
		seen = append(seen, ref.String())
		if v, err := s.value(ref, true); err != nil {
			why += ", " + err.Error()
		} else {
			why += fmt.Sprintf(", %s is %s", ref.String(), oneLine(string(compact(v)), 120))
		}
	}
	return cmp.Or(strings.TrimPrefix(why, ", "), "it is false"), nil
}

// Merged returns the inputs of a case with a variant, as JSON.
func (v *Variant) Merged(c *Case) (json.RawMessage, error) {
	all := maps.Clone(c.Inputs)
	if all == nil {
		all = map[string]json.RawMessage{}
	}
	maps.Copy(all, v.Inputs)
	return json.Marshal(all)
}
